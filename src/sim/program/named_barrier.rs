//! A warp's arrival at a named barrier: checks the barrier's id and thread count, and counts the
//! votes of a reducing barrier (`barrier.red`). `exec/barrier.rs` collects the arrivals and opens
//! the barrier.

use crate::ir::op::BarrierRed;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::{LANES, lanes_of};

/// How many named barriers a block has.
pub(in crate::sim) const COUNT: u32 = 16;

/// What a reducing barrier computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Reduction {
    Vote(BarrierRed),
    Popc,
}

/// The operands of a step that arrives at a named barrier, as register slots.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Named {
    pub(super) id: u32,
    pub(super) threads: u32,
    pub(super) waits: bool,
    /// The predicate's slot, the reduction, and the result's slot.
    pub(super) red: Option<(u32, Reduction, u32)>,
}

/// A warp's arrival at a named barrier, which [`Named::arrive`] has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Arrival {
    pub(in crate::sim) id: u32,
    pub(in crate::sim) threads: u32,
    pub(in crate::sim) waits: bool,
    /// The barrier's step.
    pub(in crate::sim) step: u32,
    /// In how many threads the predicate holds, and in how many it does not.
    pub(in crate::sim) votes: [u32; 2],
    pub(in crate::sim) result: Option<(Reduction, u32)>,
}

impl Named {
    /// Returns the arrival of a warp whose lanes in `active` execute the step.
    pub(in crate::sim) fn arrive(&self, regs: &Regs, active: u32, step: u32) -> RawResult<Arrival> {
        let first = active.trailing_zeros() as usize;
        let of = |slot: u32| &regs.w[slot as usize];
        let (id, threads) = (of(self.id)[first], of(self.threads)[first]);
        let differs = |lane: &usize| (of(self.id)[*lane], of(self.threads)[*lane]) != (id, threads);
        if let Some(lane) = lanes_of(active).find(differs) {
            let (other_id, other_threads) = (of(self.id)[lane], of(self.threads)[lane]);
            let cause =
                RawCause::OtherBarrier { here: [id, threads], there: [other_id, other_threads] };
            return Err(RawFault::new(lane, cause));
        }
        if id >= COUNT {
            return Err(RawFault::new(first, RawCause::NoBarrier { id }));
        }
        if threads == 0 || threads > 1024 || !threads.is_multiple_of(LANES as u32) {
            return Err(RawFault::new(first, RawCause::BarrierThreads { threads }));
        }
        let truth = self.red.map_or(0, |(pred, ..)| regs.truth(pred)) & active;
        let votes = [truth, active & !truth].map(u32::count_ones);
        let result = self.red.map(|(_, reduction, dst)| (reduction, dst));
        Ok(Arrival { id, threads, waits: self.waits, step, votes, result })
    }
}
