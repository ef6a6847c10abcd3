//! [`PipelineTurns`]: which K steps a producer warp group fills, if several of them fill a
//! pipeline's stages in turn. GEMM uses it if threads load the operands instead of TMA.

use crate::ir::{Body, Val, range};

use super::tma::PipelineState;

/// One of several producer warp groups that fill the stages of a
/// [`TmaPipeline`](super::TmaPipeline) in turn. Counting the steps of all tiles from 0, group `g`
/// of `n` fills steps `g`, `g + n`, and so on.
///
/// The pipeline needs at least `n` stages. Then a group is at most one round behind another, so
/// that it can tell a barrier's phases apart by their parity.
#[derive(Clone, Copy)]
pub(crate) struct PipelineTurns<'b> {
    pub(crate) group: Val<'b, i32>,
    pub(crate) groups: u32,
}

/// The state of a tile's first step, and that step's index among all steps, modulo the group count.
pub(crate) type Turn<'c> = (PipelineState<'c>, Val<'c, i32>);

impl<'b> PipelineTurns<'b> {
    /// Returns the group's first step in a tile whose steps start at `first`.
    pub(crate) fn first<'c>(&self, first: Val<'c, i32>, (_, number): Turn<'c>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        first + self.skipped(number)
    }

    /// Returns the first tile's state.
    pub(crate) fn start<'c>(&self, state: PipelineState<'c>) -> Turn<'c> {
        (state, state.stage.constant(0))
    }

    /// Returns the group's next step.
    pub(crate) fn after<'c>(&self, step: Val<'c, i32>) -> Val<'c, i32> {
        step + self.groups as i32
    }

    /// Runs `body` for the group's steps in a tile with steps `first..end`, and returns the next
    /// tile's state.
    pub(crate) fn for_each<'c>(
        &self,
        k: &mut Body<'c, '_>,
        [first, end]: [Val<'c, i32>; 2],
        turn: Turn<'c>,
        body: impl for<'d> FnOnce(&mut Body<'d, 'c>, Val<'d, i32>, PipelineState<'d>),
    ) -> Turn<'c>
    where
        'b: 'c,
    {
        let (state, number) = turn;
        if self.groups == 1 {
            let after = k.for_(range(first, end), state, |k, step, state| {
                body(k, step, state);
                state.next()
            });
            return (after, number);
        }
        let groups = self.groups as i32;
        let own = state.skip(self.skipped(number));
        k.for_(range(self.first(first, turn), end).step(groups), own, |k, step, state| {
            body(k, step, state);
            (0..groups).fold(state, |state, _| state.next())
        });
        (state.skip(end - first), (number + (end - first)) % groups)
    }

    /// Returns how many steps of other groups precede this group's first one.
    fn skipped<'c>(&self, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        let groups = self.groups as i32;
        (self.group - number + groups) % groups
    }
}
