//! Implements [`Order::Paced`]: an asynchronous operation is executed a fixed number of scheduler
//! rounds after its issue, so that the stages of a pipeline overlap in a trace as they do on a GPU.

use super::cluster::{Cluster, Stop};
use crate::sim::memory::warp_group::WarpGroup;
use crate::sim::options::Order;

/// How many rounds a copy takes.
const COPY: u64 = 160;
/// How many rounds a `wgmma` takes after a warp began to wait for it.
const PRODUCT: u32 = 24;

/// The state that [`Order::Paced`] needs to count a cluster's rounds.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: usize,
    /// For each warp, how many rounds it has waited for `wgmma`.
    polls: Vec<u32>,
}

impl Pace {
    pub(super) fn new(warps: usize) -> Pace {
        Pace { last: 0, polls: vec![0; warps] }
    }
}

impl Cluster<'_> {
    pub(super) fn is_paced(&self) -> bool {
        self.scheduler.order() == Order::Paced
    }

    /// Called when warp `number` gets the next turn. Starts a new round if the turn has wrapped
    /// around.
    pub(super) fn count_round(&mut self, number: usize) {
        self.memory.pending.round += u64::from(number <= self.pace.last);
        self.pace.last = number;
    }

    /// Executes the copies that were issued long enough ago, or with `at_once` the oldest one,
    /// because no warp can continue. Returns false if there is none.
    pub(super) fn complete_aged(&mut self, at_once: bool) -> Result<bool, Stop> {
        let age = if at_once { 0 } else { COPY };
        let done = self.memory.complete_aged(age, at_once);
        let done = done.map_err(|trap| self.stopped(trap))?;
        if done {
            self.wake();
        }
        Ok(done)
    }

    /// Called when warp `number` waits for `wgmma`. Returns whether the warp has waited long
    /// enough, so that the `wgmma` are computed now.
    pub(super) fn products_are_due(&mut self, number: usize) -> bool {
        self.pace.polls[number] += 1;
        let due = self.pace.polls[number] > PRODUCT || !self.is_paced();
        if due {
            let first = number - number % self.warps_of_block % WarpGroup::WARPS;
            self.pace
                .polls
                .iter_mut()
                .skip(first)
                .take(WarpGroup::WARPS)
                .for_each(|polls| *polls = 0);
        }
        due
    }

    /// Returns whether a warp waits for `wgmma`.
    pub(super) fn waits_for_products(&self, number: usize) -> bool {
        self.pace.polls[number] > 0
    }
}
