//! Named barriers of a block.
//!
//! A warp comes as a whole and counts as 32 threads, as on the device, however many of its lanes there are. A
//! barrier opens when as many threads have come as it is for; it can be used again at once.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::warp::Warp;
use crate::ir::op::BarrierRed;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::lanes::Lane;
use crate::sim::memory::mask::LANES;
use crate::sim::program::named_barrier::{Arrival, COUNT, Reduction};

/// A barrier at which warps have come that has not opened.
#[derive(Debug, Default)]
struct Barrier {
    threads: u32,
    arrived: u32,
    votes: [u32; 2],
    /// The warps that wait, each with what it gets.
    waiting: Vec<(usize, Option<(Reduction, u32)>)>,
}

/// The barriers of a block.
#[derive(Debug, Default)]
pub(in crate::sim) struct Barriers {
    all: [Barrier; COUNT as usize],
}

impl Barriers {
    pub(in crate::sim) fn reset(&mut self) {
        self.all = Default::default();
    }

    /// Takes the arrival of warp `number`. Returns the warps that go on because the barrier opens.
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

    /// Returns the number of the barrier at which a warp waits.
    pub(in crate::sim) fn waits_at(&self, number: usize) -> Option<u32> {
        let waits = |barrier: &Barrier| barrier.waiting.iter().any(|(warp, _)| *warp == number);
        self.all.iter().position(waits).map(|id| id as u32)
    }

    /// Returns the cause of a wait that never ends.
    pub(in crate::sim) fn deadlock(&self, number: usize) -> Option<RawCause> {
        let id = self.waits_at(number)?;
        let Barrier { threads, arrived, .. } = self.all[id as usize];
        Some(RawCause::BarrierDeadlock { id, threads, arrived })
    }
}
