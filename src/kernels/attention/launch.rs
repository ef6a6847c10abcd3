//! Launches an attention kernel: checks the buffers, makes the tensor maps, and passes the
//! parameters. [`AttentionArgs`] has the buffers of a launch.

use std::sync::{Mutex, PoisonError};

use crate::ir::Untyped;
use crate::ir::builder::VectorElement;
use crate::runtime::{Buffer, Function, Grid};
use crate::tensor::pipeline::Sequences;

use super::super::ready::{Launch, ReadyKernel};
use super::Attention;
use super::config::{AttentionConfig, Staging};
use super::error::AttentionError;
use super::plan::{BySequence, ByThreads, Inputs, Operands, Params, SequenceParams, Whole};
use super::problem::AttentionProblem;

/// How many bytes of K and V the heads of a section may have. The blocks compute one section after
/// the other, so that the section's K and V stay in the L2 cache.
const SECTION: u64 = 24 << 20;

/// Bytes that a thread copies at a time.
const VECTOR: u32 = 16;

/// The buffers of an attention launch, for an [`Attention`]. Their sizes and strides
/// are in the [`AttentionProblem`].
pub struct AttentionArgs<'h, T> {
    /// Q.
    pub q: &'h Buffer<T>,
    /// K.
    pub k: &'h Buffer<T>,
    /// V.
    pub v: &'h Buffer<T>,
    /// O, the output.
    pub o: &'h mut Buffer<T>,
    /// The LSE: per query, the logarithm of the sum of its exponentials. Compact in the order
    /// batch, head, query.
    pub lse: &'h mut Buffer<f32>,
    /// For sequences of different lengths ([`AttentionProblem::varlen`]), the starts of Q and of K:
    /// the first position of each sequence, ascending from 0, then the total. The LSE is then
    /// compact in the order head, position.
    ///
    /// A tile can read keys and values of the next sequence and multiply them by 0. So all of K and
    /// V must be finite.
    pub starts: Option<[&'h Buffer<i32>; 2]>,
}

/// The state that all launches of a loaded [`Attention`] share.
#[derive(Debug)]
pub struct AttentionShared<T: VectorElement<2>> {
    /// The device's SMs.
    sms: u32,
    /// Passed in place of K and V if there are no keys.
    none: Buffer<T>,
    /// Passed in place of sequence starts if all sequences have one length.
    no_starts: Buffer<i32>,
    /// How many work items the blocks of a launch have fetched. Because launches share this
    /// counter, launches of one loaded kernel run one after the other.
    taken: Mutex<Buffer<u32>>,
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), AttentionError> {
    let found = found as u64;
    if found < needed {
        return Err(AttentionError::BufferLength { operand, found, needed });
    }
    Ok(())
}

/// Checks that threads can copy rows of Q, K, V and O as vectors.
fn check_aligned<T: VectorElement<2>>(
    problem: &AttentionProblem,
    buffers: [&Buffer<T>; 4],
) -> Result<(), AttentionError> {
    let strides =
        [problem.q_strides(), problem.k_strides(), problem.v_strides(), problem.o_strides()];
    let (bytes, elements) = (VECTOR, u64::from(VECTOR) / size_of::<T>() as u64);
    let operands = ["Q", "K", "V", "O"].into_iter().zip(buffers).zip(strides);
    for ((operand, buffer), strides) in operands {
        let whole = strides.iter().all(|stride| stride.is_multiple_of(elements));
        if !whole || !buffer.is_aligned_to(bytes.into()) {
            return Err(AttentionError::Alignment { operand, bytes });
        }
    }
    Ok(())
}

impl<T: VectorElement<2>> ReadyKernel for Attention<T> {
    type Config = AttentionConfig;
    /// Kernels that store whole tiles, rows, and rows from threads have different parameters.
    type Params = Untyped;
    type Problem = AttentionProblem;
    type Args<'a> = AttentionArgs<'a, T>;
    type Shared = AttentionShared<T>;
    type Error = AttentionError;

    fn config(&self) -> &AttentionConfig {
        &self.config
    }

    fn share(&self, function: &Function<Untyped>) -> Result<AttentionShared<T>, AttentionError> {
        let device = function.device();
        Ok(AttentionShared {
            // The simulator runs blocks one after the other. With only two, each has several
            // tiles, as on a GPU.
            sms: device.properties().map_or(2, |properties| properties.sm_count),
            none: device.zeros(256)?,
            no_starts: device.zeros(1)?,
            taken: Mutex::new(device.zeros(1)?),
        })
    }

    /// # Errors
    /// Those of [`AttentionConfig::check_problem`]; buffers that are too short; strides that are
    /// not multiples of 16 bytes; those of [`Function::launch`].
    fn launch(
        &self,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
        launch: Launch<'_, Self>,
    ) -> Result<(), AttentionError> {
        let AttentionShared { sms, none, no_starts, taken } = launch.shared();
        let starts = args.starts;
        let config = &self.config;
        config.check_problem(problem)?;
        if problem.varlen != starts.is_some() {
            let with = if problem.varlen { "with" } else { "without" };
            let what = if problem.varlen { "no list of sequences" } else { "a list of sequences" };
            return Err(AttentionError::Feature { what, with });
        }
        let AttentionProblem { heads, key_heads, queries, keys, .. } = *problem;
        let batch = problem.tensor_batch();
        let AttentionProblem { head_dim, value_dim, .. } = *problem;
        if problem.is_empty() {
            return Ok(());
        }
        let lens = [args.q.len(), args.k.len(), args.v.len(), args.o.len()];
        for ((operand, found), needed) in
            ["Q", "K", "V", "O"].into_iter().zip(lens).zip(problem.lens())
        {
            check_len(operand, found, needed)?;
        }
        check_len("the LSE", args.lse.len(), problem.rows())?;
        let (k, v) = if keys == 0 { (none, none) } else { (args.k, args.v) };
        let names = ["the starts of Q", "the starts of K"];
        for (operand, starts) in names.into_iter().zip(starts.into_iter().flatten()) {
            check_len(operand, starts.len(), u64::from(problem.batch) + 1)?;
        }
        let row_tiles = match problem.varlen {
            true => Sequences::slots(queries, problem.batch, config.queries_of_tile()),
            false => queries.div_ceil(config.queries_of_tile()).into(),
        };
        // Heads that share a tile count as one.
        let own_heads = heads / config.packed_heads;
        let items = row_tiles * u64::from(batch * own_heads);
        let max = (1 << 31) - 1;
        if items > max {
            return Err(AttentionError::TooLarge { what: "the tile count", found: items, max });
        }
        // A kernel with a plan is persistent.
        let blocks = if self.plan.is_some() { items.min((*sms).into()) } else { items };
        let of_head = u64::from(keys.max(1)) * u64::from(head_dim + value_dim) * 2;
        let group = own_heads / key_heads.max(1);
        let section = (SECTION / of_head).clamp(1, 1 << 20) as u32 * group;
        let offset = if problem.varlen { 0 } else { keys as i32 - queries as i32 };
        let cap = problem.softcap.unwrap_or(1.0);
        let exponent = if config.softcap { cap } else { problem.scale() };
        let grid = Grid::new([blocks as u32, 1, 1], [config.threads(), 1, 1]);
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let params = Params {
            lse: args.lse,
            taken: &mut *taken,
            row_tiles: row_tiles as i32,
            heads: own_heads as i32,
            all_heads: (batch * own_heads) as i32,
            group: group as i32,
            section: section as i32,
            queries: queries as i32,
            keys: keys as i32,
            lower: offset - problem.left.unwrap_or(0) as i32,
            upper: offset + problem.right.unwrap_or(0) as i32,
            scale: exponent * std::f32::consts::LOG2_E,
            inner: problem.scale() / cap,
        };
        let [q_starts, k_starts] = starts.unwrap_or([no_starts; 2]);
        let strides = problem.o_strides().map(|stride| stride as i64);
        let count = problem.batch as i32;
        let launched = if let Some(plan) = &self.plan {
            let [q_map, k_map, v_map, o_map] = plan.maps(problem)?;
            let inputs = Inputs {
                q: &args.q.tensor_map(&q_map)?,
                k: &k.tensor_map(&k_map)?,
                v: &v.tensor_map(&v_map)?,
            };
            match config.staging() {
                Staging::Queries | Staging::Ring => {
                    let o = &mut args.o.tensor_map_mut(&o_map)?;
                    launch.start_as::<Whole<T>>(grid, (inputs, o, params))
                }
                Staging::Rows => {
                    check_aligned(problem, [args.q, k, v, args.o])?;
                    let to = SequenceParams { o: args.o, strides, q_starts, k_starts, count };
                    launch.start_as::<BySequence<T>>(grid, (inputs, to, params))
                }
            }
        } else {
            check_aligned(problem, [args.q, k, v, args.o])?;
            let to = SequenceParams { o: args.o, strides, q_starts, k_starts, count };
            let strides = [problem.q_strides(), problem.k_strides(), problem.v_strides()];
            let strides = strides.map(|of_one| of_one.map(|stride| stride as i64));
            let operands = Operands { q: args.q, k, v, strides };
            launch.start_as::<ByThreads<T>>(grid, (operands, to, params))
        };
        if launched.is_err() && taken.device().is_sim() {
            // The blocks that the simulator stopped have not drawn all items.
            *taken = taken.device().zeros(1)?;
        }
        Ok(launched?)
    }
}
