//! A block's named barriers: which warps have arrived, and when a barrier opens.
//!
//! A warp arrives as a whole and counts as 32 threads, as on the device, even if it has fewer
//! lanes. A barrier opens when the expected number of threads has arrived, and can then be used
//! again at once.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::warp::Warp;
use crate::ir::op::BarrierRed;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::lanes::Lane;
use crate::sim::memory::mask::LANES;
use crate::sim::program::named_barrier::{Arrival, COUNT, Reduction};

/// A barrier at which some warps have arrived, and which has not opened.
#[derive(Debug, Default)]
struct Barrier {
    threads: u32,
    arrived: u32,
    votes: [u32; 2],
    /// The waiting warps, each with the result that it gets.
    waiting: Vec<(usize, Option<(Reduction, u32)>)>,
}

/// A block's named barriers.
#[derive(Debug, Default)]
pub(in crate::sim) struct Barriers {
    all: [Barrier; COUNT as usize],
}

impl Barriers {
    pub(in crate::sim) fn reset(&mut self) {
        self.all = Default::default();
    }

    /// Counts a warp's arrival. If this opens the barrier, returns the warps that continue.
    pub(in crate::sim) fn take(
        &mut self,
        number: usize,
        arrival: &Arrival,
        warps: &mut [Warp],
    ) -> RawResult<Vec<usize>> {
        let Arrival { id, threads, waits, votes, result, .. } = *arrival;
        let barrier = &mut self.all[id as usize % COUNT as usize];
        if barrier.arrived > 0 && barrier.threads != threads {
            let lane = warps[number].first_lane() as usize;
            let cause = RawCause::BarrierMismatch { id, expected: barrier.threads, found: threads };
            return Err(RawFault::new(lane, cause));
        }
        barrier.threads = threads;
        barrier.arrived += LANES as u32;
        for (sum, votes) in barrier.votes.iter_mut().zip(votes) {
            *sum += votes;
        }
        if waits {
            barrier.waiting.push((number, result));
        }
        if barrier.arrived < threads {
            return Ok(Vec::new());
        }
        fence(SeqCst);
        let Barrier { votes: [yes, no], waiting, .. } = std::mem::take(barrier);
        for (warp, result) in &waiting {
            if let Some((reduction, dst)) = *result {
                warps[*warp].set_active(
                    dst,
                    match reduction {
                        Reduction::Vote(BarrierRed::And) => (no == 0).word(),
                        Reduction::Vote(BarrierRed::Or) => (yes != 0).word(),
                        Reduction::Popc => yes,
                    },
                );
            }
        }
        Ok(waiting.into_iter().map(|(warp, _)| warp).collect())
    }

    /// Returns the id of the barrier at which a warp waits.
    pub(in crate::sim) fn waits_at(&self, number: usize) -> Option<u32> {
        let waits = |barrier: &Barrier| barrier.waiting.iter().any(|(warp, _)| *warp == number);
        self.all.iter().position(waits).map(|id| id as u32)
    }

    /// Returns why a warp's wait at a barrier never ends; `None` if the warp does not wait.
    pub(in crate::sim) fn deadlock(&self, number: usize) -> Option<RawCause> {
        let id = self.waits_at(number)?;
        let Barrier { threads, arrived, .. } = self.all[id as usize];
        Some(RawCause::BarrierDeadlock { id, threads, arrived })
    }
}
