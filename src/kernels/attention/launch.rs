//! [`AttentionFunction`]: an attention on a device.

use std::sync::{Mutex, PoisonError};

use crate::arch::TensorMapDesc;
use crate::ir::builder::VectorElement;
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions};

use super::Attention;
use super::config::AttentionConfig;
use super::error::AttentionError;
use super::problem::AttentionProblem;
use super::sm90::{Params, Plan};

/// The bytes of K and V of the heads whose tiles are computed next to each other: a part of the L2 cache.
const SECTION: u64 = 24 << 20;

/// The arguments of a launch.
pub struct AttentionArgs<'h, T> {
    /// The queries.
    pub q: &'h Buffer<T>,
    /// The keys.
    pub k: &'h Buffer<T>,
    /// The values.
    pub v: &'h Buffer<T>,
    /// The output.
    pub o: &'h mut Buffer<T>,
    /// The logarithm of the sum of powers of each query, compact in the order batch, head, query.
    pub lse: &'h mut Buffer<f32>,
}

/// An [`Attention`] that a device has loaded.
#[derive(Debug)]
pub struct AttentionFunction<T: VectorElement<2>> {
    plan: Plan,
    function: Function<(Params<T>,)>,
    sms: u32,
    /// In the place of K and V without keys.
    none: Buffer<T>,
    /// The work items that the blocks of a launch have taken. Launches of one function come after each other for it.
    taken: Mutex<Buffer<u32>>,
}

impl<T: VectorElement<2>> Attention<T> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<AttentionFunction<T>, AttentionError> {
        // The simulator runs blocks one after the other; with some of them a block has several tiles.
        let sms = device.properties().map_or(2, |properties| properties.sm_count);
        let (function, none) = (device.load(&self.kernel)?, device.zeros(256)?);
        let taken = Mutex::new(device.zeros(1)?);
        Ok(AttentionFunction { plan: self.plan.clone(), function, sms, none, taken })
    }
}

/// Checks that a buffer has the elements of a tensor.
fn check_len(
    operand: &'static str,
    found: usize,
    [len, dim, heads, batch]: [u32; 4],
    strides: [u64; 3],
) -> Result<(), AttentionError> {
    if [len, heads, batch].contains(&0) {
        return Ok(());
    }
    let mut needed = u64::from(dim);
    for (size, stride) in [len, heads, batch].into_iter().zip(strides) {
        needed = needed.saturating_add(u64::from(size - 1).saturating_mul(stride));
    }
    let found = found as u64;
    if found < needed {
        return Err(AttentionError::BufferLength { operand, found, needed });
    }
    Ok(())
}

impl<T: VectorElement<2>> AttentionFunction<T> {
    /// The configuration.
    pub fn config(&self) -> &AttentionConfig {
        &self.plan.config
    }

    /// Returns what the driver's compiler wrote.
    pub fn compiler_log(&self) -> &str {
        self.function.compiler_log()
    }

    /// Starts the kernel, on the stream for all work that names none. No queries are no work. Launches of one function come
    /// after each other, also those on several streams: they share the counter of tiles.
    ///
    /// # Errors
    /// Those of [`AttentionConfig::check_problem`]; buffers that are too short; strides that tensor copies do not take
    /// (no multiples of 16 bytes); those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
    ) -> Result<(), AttentionError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// As [`launch`](AttentionFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](AttentionFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
    ) -> Result<(), AttentionError> {
        let config = &self.plan.config;
        config.check_problem(problem)?;
        let AttentionProblem { batch, heads, key_heads, queries, keys, .. } = *problem;
        let AttentionProblem { head_dim, value_dim, .. } = *problem;
        if problem.is_empty() {
            return Ok(());
        }
        let of_q = [queries, head_dim, heads, batch];
        let (of_k, of_v) =
            ([keys, head_dim, key_heads, batch], [keys, value_dim, key_heads, batch]);
        let of_o = [queries, value_dim, heads, batch];
        check_len("Q", args.q.len(), of_q, problem.q_strides())?;
        check_len("K", args.k.len(), of_k, problem.k_strides())?;
        check_len("V", args.v.len(), of_v, problem.v_strides())?;
        check_len("O", args.o.len(), of_o, problem.o_strides())?;
        let rows = batch * heads * queries;
        check_len("the LSE", args.lse.len(), [rows, 1, 1, 1], [1, 0, 0])?;
        let plan = &self.plan;
        let map = |copy, sizes, strides| -> Result<TensorMapDesc, AttentionError> {
            plan.map(copy, sizes, strides)
        };
        let (k, v, k_map, v_map) = if keys == 0 {
            let k = map(&plan.k.copy, [1, head_dim, 1, 1], [0; 3])?;
            (&self.none, &self.none, k, map(&plan.v.copy, [1, value_dim, 1, 1], [0; 3])?)
        } else {
            let k = map(&plan.k.copy, of_k, problem.k_strides())?;
            (args.k, args.v, k, map(&plan.v.copy, of_v, problem.v_strides())?)
        };
        let q_map = map(&plan.q.copy, of_q, problem.q_strides())?;
        let o_map = map(&plan.o_copy, of_o, problem.o_strides())?;
        let row_tiles = queries.div_ceil(config.tile[0]);
        let items = u64::from(row_tiles) * u64::from(batch * heads);
        let most = (1 << 31) - 1;
        if items > most {
            return Err(AttentionError::TooLarge {
                what: "the number of tiles",
                found: items,
                most,
            });
        }
        let blocks = items.min(self.sms.into());
        let of_head = u64::from(keys.max(1)) * u64::from(head_dim + value_dim) * 2;
        let group = heads / key_heads.max(1);
        let section = (SECTION / of_head).clamp(1, 1 << 20) as u32 * group;
        let offset = keys as i32 - queries as i32;
        let cap = problem.softcap.unwrap_or(1.0);
        let exponent = if config.softcap { cap } else { problem.scale() };
        let grid = Grid::new([blocks as u32, 1, 1], [config.threads(), 1, 1]);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let params = Params {
            q: &args.q.tensor_map(&q_map)?,
            k: &k.tensor_map(&k_map)?,
            v: &v.tensor_map(&v_map)?,
            o: &mut args.o.tensor_map_mut(&o_map)?,
            lse: args.lse,
            taken: &mut *taken,
            row_tiles: row_tiles as i32,
            heads: heads as i32,
            all_heads: (batch * heads) as i32,
            group: group as i32,
            section: section as i32,
            queries: queries as i32,
            keys: keys as i32,
            lower: offset - problem.left.unwrap_or(0) as i32,
            upper: offset + problem.right.unwrap_or(0) as i32,
            scale: exponent * std::f32::consts::LOG2_E,
            inner: problem.scale() / cap,
        };
        let launched = self.function.launch_with(options, grid, (params,));
        if launched.is_err() {
            // Blocks that the simulator stopped have not taken all items.
            *taken = taken.device().zeros(1)?;
        }
        Ok(launched?)
    }
}
