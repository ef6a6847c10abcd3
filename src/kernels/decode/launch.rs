//! Launches a decode kernel: checks the buffers, splits the sequences among thread blocks, and
//! passes the parameters. A caller passes [`DecodeArgs`].

use crate::ir::Untyped;
use crate::ir::builder::VectorElement;
use crate::runtime::{Buffer, Function, Grid, LoadOptions, Occupancy};

use super::super::ready::{Launch, Loaded, ReadyKernel};
use super::super::split::SplitWorkspace;
use super::Decode;
use super::config::DecodeConfig;
use super::error::DecodeError;
use super::plan::DecodePlan;
use super::problem::DecodeProblem;
use super::tiles::Params;

/// The buffers of a decode launch, for a [`Decode`]. Their sizes and strides are in
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
    /// Attention sinks, if the model has them: for each query head the logarithm of what is added
    /// to the sum of its exponentials, as if it were the score of a key whose value is 0.
    pub sinks: Option<&'h Buffer<f32>>,
    /// The LSE, if you need it: per query, the logarithm of the sum of its exponentials, including
    /// the sink's. Compact in the order sequence, head, query.
    pub lse: Option<&'h mut Buffer<f32>>,
    /// How to split the sequences; `None` for the plan of [`Loaded::plan`].
    pub plan: Option<DecodePlan>,
}

/// The occupancy that the simulator reports: a small GPU, so that tests need few blocks.
const SIMULATED: Occupancy = Occupancy { blocks_per_sm: 2, sm_count: 2 };

impl<T: VectorElement<2>> ReadyKernel for Decode<T> {
    type Config = DecodeConfig;
    /// The parameters have names, and are not public.
    type Params = Untyped;
    type Problem = DecodeProblem;
    type Args<'a> = DecodeArgs<'a, T>;
    type Shared = SplitWorkspace<f32>;
    type Error = DecodeError;

    fn config(&self) -> &DecodeConfig {
        &self.config
    }

    fn share(
        &self,
        function: &Function<Untyped>,
        _: LoadOptions<'_>,
    ) -> Result<SplitWorkspace<f32>, DecodeError> {
        Ok(SplitWorkspace::new(function, self.config.threads(), SIMULATED)?)
    }

    /// # Errors
    /// Those of [`DecodeProblem::check`] and [`DecodePlan::check`]; [`DecodeError::OtherHeadDim`];
    /// buffers that are too short or misaligned; those of [`Function::launch`].
    fn launch(
        &self,
        problem: &DecodeProblem,
        args: DecodeArgs<'_, T>,
        launch: Launch<'_, Self>,
    ) -> Result<(), DecodeError> {
        let split = launch.shared();
        problem.check()?;
        let DecodeProblem { batch, key_heads, queries, head_dim, pages, page, .. } = *problem;
        if head_dim != self.config.head_dim {
            let expected = self.config.head_dim;
            return Err(DecodeError::OtherHeadDim { found: head_dim, expected });
        }
        let plan = args.plan.unwrap_or_else(|| plan_for(problem, split));
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
        if let Some(sinks) = args.sinks {
            check_len("the sinks", sinks.len(), problem.heads.into())?;
        }
        if let Some(lse) = &args.lse {
            check_len("the LSE", lse.len(), problem.rows())?;
        }
        let tiles = problem.tiles();
        // Without splits, blocks write their results to O.
        let (partials, arrivals) = match plan.splits {
            1 => (0, 0),
            _ => (plan.workspace_bytes(&self.config, problem) / 4, tiles),
        };
        let grid = Grid::new([tiles as u32, plan.splits, 1], [self.config.threads(), 1, 1]);
        let strides = |strides: [u64; 3]| strides.map(|stride| stride as i64);
        let (has_lse, has_sinks) = (args.lse.is_some().into(), args.sinks.is_some().into());
        split.with(partials, arrivals, |buffers| {
            let params = Params {
                q: args.q,
                k: args.k,
                v: args.v,
                o: args.o,
                q_strides: strides(problem.q_strides()),
                k_strides: strides(problem.k_strides()),
                v_strides: strides(problem.v_strides()),
                o_strides: strides(problem.o_strides()),
                lse: args.lse.unwrap_or(&mut buffers.unwanted),
                has_lse,
                table: args.table,
                row: row as i32,
                lens: args.lens,
                max_len: problem.max_len as i32,
                window: problem.window.unwrap_or(problem.max_len).min(problem.max_len) as i32,
                visible: problem.visible(problem.max_len) as i32,
                sinks: args.sinks.unwrap_or(&buffers.absent),
                has_sinks,
                pages: pages as i32,
                page_bits: page.trailing_zeros(),
                key_heads: key_heads as i32,
                group: problem.group() as i32,
                queries: queries as i32,
                row_tiles: problem.row_tiles() as i32,
                tokens: plan.tokens as i32,
                partials: &mut buffers.partials,
                arrivals: &mut buffers.arrivals,
                scale: problem.scale() * std::f32::consts::LOG2_E,
            };
            launch.start_as::<(Params<T>,)>(grid, (params,))
        })?;
        Ok(())
    }
}

impl<T: VectorElement<2>> Loaded<Decode<T>> {
    /// Returns the plan that a launch uses if [`DecodeArgs::plan`] is `None`. Use it to see how
    /// many splits a problem gets, or as the start of your own plan.
    pub fn plan(&self, problem: &DecodeProblem) -> DecodePlan {
        plan_for(problem, self.shared())
    }
}

fn plan_for(problem: &DecodeProblem, split: &SplitWorkspace<f32>) -> DecodePlan {
    let occupancy = split.occupancy();
    DecodePlan::new(problem, [occupancy.sm_count, occupancy.blocks()])
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), DecodeError> {
    let found = found as u64;
    if found < needed {
        return Err(DecodeError::BufferLength { operand, found, needed });
    }
    Ok(())
}
