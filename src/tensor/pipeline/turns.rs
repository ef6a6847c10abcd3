//! [`PipelineTurns`]: warp groups that fill the stages of a pipeline in turn.

use crate::ir::{Body, Val, range};

use super::tma::PipelineState;

/// One of some warp groups that fill the stages of a [`TmaPipeline`](super::TmaPipeline) in turn: of the steps of all tiles one after the
/// other, counted from 0, group `g` of `n` fills `g`, `g + n`, and so on. With `n` stages or more it is at most a ring behind another
/// group, so that it can tell the phases of a barrier apart.
#[derive(Clone, Copy)]
pub(crate) struct PipelineTurns<'b> {
    pub(crate) group: Val<'b, i32>,
    pub(crate) groups: u32,
}

/// The state of the first step of a tile, and the number of that step among all, modulo the number of groups.
pub(crate) type Turn<'c> = (PipelineState<'c>, Val<'c, i32>);

impl<'b> PipelineTurns<'b> {
    /// Returns the first step of the group, of a tile whose first one is `first`.
    pub(crate) fn first<'c>(&self, first: Val<'c, i32>, (_, number): Turn<'c>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        first + self.skipped(number)
    }

    /// Returns the state of the first tile.
    pub(crate) fn start<'c>(&self, state: PipelineState<'c>) -> Turn<'c> {
        (state, state.stage.constant(0))
    }

    /// Returns the group's step after one of its steps.
    pub(crate) fn after<'c>(&self, step: Val<'c, i32>) -> Val<'c, i32> {
        step + self.groups as i32
    }

    /// Runs `body` for each step of the group, of a tile with the steps from `first` to the one before `end`. Returns the state of the
    /// next tile.
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

    /// Returns the number of steps of other groups before the first one of this group.
    fn skipped<'c>(&self, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        let groups = self.groups as i32;
        (self.group - number + groups) % groups
    }
}
