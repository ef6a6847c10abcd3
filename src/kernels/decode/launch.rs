//! [`DecodeFunction`]: a decode kernel loaded on a device. Plans the splits, checks buffers, and
//! launches.

use std::sync::{Mutex, PoisonError};

use crate::ir::builder::VectorElement;
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions, LoadOptions};

use super::Decode;
use super::config::DecodeConfig;
use super::error::DecodeError;
use super::plan::DecodePlan;
use super::problem::DecodeProblem;
use super::tiles::Params;

/// The buffers of a decode launch, for [`DecodeFunction::launch`]. Their sizes and strides are in
/// the [`DecodeProblem`].
pub struct DecodeArgs<'h, T> {
    /// Q.
    pub q: &'h Buffer<T>,
    /// K, the pool of keys.
    pub k: &'h Buffer<T>,
    /// V, the pool of values.
    pub v: &'h Buffer<T>,
    /// The page table, `[batch, max_pages]`. Entries after a sequence's last key are not read.
    pub table: &'h Buffer<i32>,
    /// The length of each sequence in keys, including those of its queries.
    pub lens: &'h Buffer<i32>,
    /// O, the output.
    pub o: &'h mut Buffer<T>,
    /// The LSE, if you need it: per query, the logarithm of the sum of its exponentials. Compact in
    /// the order sequence, head, query.
    pub lse: Option<&'h mut Buffer<f32>>,
}

/// A [`Decode`] loaded on a device, made by [`Decode::load`]. Load it once; each
/// [`launch`](DecodeFunction::launch) takes its own problem and buffers, for example one layer of
/// one decode step.
#[derive(Debug)]
pub struct DecodeFunction<T: VectorElement<2>> {
    config: DecodeConfig,
    function: Function<(Params<T>,)>,
    /// The device's SMs, and the thread blocks that run at once.
    room: [u32; 2],
    workspace: Mutex<Workspace>,
}

/// Partial results and arrival counters, grown to the largest launch, and a buffer to pass if the
/// LSE is not wanted. Launches on several streams share it, so the runtime serialises them.
#[derive(Debug)]
struct Workspace {
    partials: Buffer<f32>,
    arrivals: Buffer<u32>,
    no_lse: Buffer<f32>,
}

impl<T: VectorElement<2>> Decode<T> {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<DecodeFunction<T>, DecodeError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Same as [`load`](Decode::load), with load options: for example access checks.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<DecodeFunction<T>, DecodeError> {
        let (config, function) = (*self.config(), device.load_with(options, &self.kernel)?);
        let room = function.occupancy(config.threads())?;
        // Few enough that the simulator splits sequences too.
        let room = room.map_or([2, 4], |room| [room.sm_count, room.blocks()]);
        let (partials, arrivals) = (device.zeros(1)?, device.zeros(1)?);
        let workspace = Mutex::new(Workspace { partials, arrivals, no_lse: device.zeros(1)? });
        Ok(DecodeFunction { config, function, room, workspace })
    }
}

impl<T: VectorElement<2>> DecodeFunction<T> {
    /// Returns the configuration.
    pub fn config(&self) -> &DecodeConfig {
        &self.config
    }

    /// Returns the log of the driver's compiler (`ptxas`).
    pub fn compiler_log(&self) -> &str {
        self.function.compiler_log()
    }

    /// Returns the plan that [`launch`](DecodeFunction::launch) uses for a problem.
    pub fn plan(&self, problem: &DecodeProblem) -> DecodePlan {
        DecodePlan::new(problem, self.room)
    }

    /// Launches the kernel on the default stream. Does nothing if there are no queries. Launches of
    /// one function run one after the other, even on different streams, because they share a
    /// workspace.
    ///
    /// # Errors
    /// Those of [`DecodeProblem::check`]; [`DecodeError::OtherHeadDim`]; buffers that are too short
    /// or misaligned; those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &DecodeProblem,
        args: DecodeArgs<'_, T>,
    ) -> Result<(), DecodeError> {
        self.launch_with(LaunchOptions::default(), problem, &self.plan(problem), args)
    }

    /// Same as [`launch`](DecodeFunction::launch), with options and your own plan.
    ///
    /// # Errors
    /// Those of [`launch`](DecodeFunction::launch) and of [`DecodePlan::check`].
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &DecodeProblem,
        plan: &DecodePlan,
        args: DecodeArgs<'_, T>,
    ) -> Result<(), DecodeError> {
        problem.check()?;
        let DecodeProblem { batch, key_heads, queries, head_dim, pages, page, .. } = *problem;
        if head_dim != self.config.head_dim {
            let expected = self.config.head_dim;
            return Err(DecodeError::OtherHeadDim { found: head_dim, expected });
        }
        plan.check(problem)?;
        if problem.is_empty() {
            return Ok(());
        }
        let inputs = [("Q", args.q), ("K", args.k), ("V", args.v), ("O", &*args.o)];
        for ((operand, buffer), needed) in inputs.into_iter().zip(problem.lens()) {
            check_len(operand, buffer.len(), needed)?;
            if !buffer.is_aligned_to(16) {
                return Err(DecodeError::Address { operand });
            }
        }
        let row = problem.max_pages;
        check_len("the table", args.table.len(), u64::from(batch) * u64::from(row))?;
        check_len("the lengths", args.lens.len(), batch.into())?;
        if let Some(lse) = &args.lse {
            check_len("the LSE", lse.len(), problem.rows())?;
        }
        let (mut workspace, tiles) = (self.reserve(problem, plan)?, problem.tiles());
        let Workspace { partials, arrivals, no_lse } = &mut *workspace;
        let grid = Grid::new([tiles as u32, plan.splits, 1], [self.config.threads(), 1, 1]);
        let strides = |strides: [u64; 3]| strides.map(|stride| stride as i64);
        let has_lse = args.lse.is_some().into();
        let params = Params {
            q: args.q,
            k: args.k,
            v: args.v,
            o: args.o,
            q_strides: strides(problem.q_strides()),
            k_strides: strides(problem.k_strides()),
            v_strides: strides(problem.v_strides()),
            o_strides: strides(problem.o_strides()),
            lse: args.lse.unwrap_or(no_lse),
            has_lse,
            table: args.table,
            row: row as i32,
            lens: args.lens,
            max_len: problem.max_len as i32,
            pages: pages as i32,
            page_bits: page.trailing_zeros(),
            key_heads: key_heads as i32,
            group: problem.group() as i32,
            queries: queries as i32,
            row_tiles: problem.row_tiles() as i32,
            tokens: plan.tokens as i32,
            partials,
            arrivals: &mut *arrivals,
            scale: problem.scale() * std::f32::consts::LOG2_E,
        };
        let launched = self.function.launch_with(options, grid, (params,));
        if launched.is_err() && arrivals.device().is_sim() {
            // The blocks that the simulator stopped have not arrived.
            *arrivals = arrivals.device().zeros(arrivals.len())?;
        }
        Ok(launched?)
    }

    /// Grows the workspace for a plan, and locks it.
    fn reserve(
        &self,
        problem: &DecodeProblem,
        plan: &DecodePlan,
    ) -> Result<std::sync::MutexGuard<'_, Workspace>, DecodeError> {
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let Workspace { partials, arrivals, .. } = &mut *workspace;
        if plan.splits > 1 {
            let [numbers, tiles] =
                [plan.workspace_bytes(&self.config, problem) / 4, problem.tiles()];
            if (partials.len() as u64) < numbers {
                *partials = partials.device().zeros(numbers as usize)?;
            }
            if (arrivals.len() as u64) < tiles {
                *arrivals = arrivals.device().zeros(tiles as usize)?;
            }
        }
        Ok(workspace)
    }
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), DecodeError> {
    let found = found as u64;
    if found < needed {
        return Err(DecodeError::BufferLength { operand, found, needed });
    }
    Ok(())
}
