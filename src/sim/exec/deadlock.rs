//! Explains deadlocks: what each warp of a stuck cluster waits for, the likely culprit first. The
//! main loop calls it when no warp can continue. `suspicion` ranks the warps.

use super::cluster::{Cluster, State, Stop, Stuck, Why};
use super::cluster_barrier;
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::warp_group::WarpGroup;
use crate::sim::program::context::Park;
use crate::sorting::sort_by_key;

impl Cluster<'_> {
    /// Returns the [`Stop`] of a cluster in which no warp can continue, with the likely culprit
    /// first.
    pub(in crate::sim) fn deadlock(&self) -> Stop {
        let mut order: Vec<usize> = (0..self.states.len()).collect();
        let first = order.iter().copied().min_by_key(|number| self.suspicion(*number)).unwrap_or(0);
        // Warps that wait for the same thing come with it.
        let at = |number: usize| (self.rank(number), self.warps[number].step());
        sort_by_key(&mut order, |number| {
            (at(*number) != at(first), self.suspicion(*number).0, *number)
        });
        let stuck = order.iter().map(|number| self.stuck(*number)).collect();
        let mut stop = match self.states[first] {
            // The fault is at the warp-group operation, which has a Rust line of its own.
            State::Parked(Park::WarpGroup) => {
                self.partial_group(first).map(|trap| self.stopped(trap))
            }
            _ => None,
        }
        .unwrap_or_else(|| {
            let lane = match self.states[first] {
                State::Parked(Park::Barrier { lane, .. }) => lane,
                _ => self.warps[first].first_lane(),
            };
            let Stuck { block, warp, waits } = self.stuck(first);
            let (step, cause) = waits.unwrap_or((self.warps[first].step(), RawCause::Trap));
            let why = Why::Fault(RawFault::new(lane as usize, cause));
            Stop { block, warp, step, why, stuck: Vec::new(), also: Vec::new() }
        });
        stop.stuck = stuck;
        stop
    }

    /// Returns a sort key that is lower for a likelier culprit: first warps whose wait no other
    /// warp can end, then by when warps stopped. A warp that waits for its whole block or cluster
    /// is held up by the others.
    fn suspicion(&self, number: usize) -> (u8, u64) {
        let class = match self.states[number] {
            State::Parked(Park::Barrier { .. } | Park::WarpGroup) | State::AtNamed(_) => {
                u8::from(self.has_suppliers(number))
            }
            State::Parked(Park::Cluster) => 2,
            State::Waiting => 3,
            State::Ready => 4,
            State::Ended => 5,
        };
        (class, self.stopped_at[number].0)
    }

    /// Returns whether another live warp, which waits elsewhere, may end this warp's wait.
    fn has_suppliers(&self, number: usize) -> bool {
        let (rank, state) = (self.rank(number), self.states[number]);
        let others = match state {
            // What is missing may come from any block.
            State::Parked(Park::Barrier { byte_address, .. }) => {
                if self.memory.blocks[rank].shared.lacks_only_bytes(byte_address) {
                    return false;
                }
                0..self.states.len()
            }
            State::Parked(Park::WarpGroup) => {
                let first = number - number % self.warps_of_block % WarpGroup::WARPS;
                first..first + WarpGroup::WARPS
            }
            _ => self.of_block(rank),
        };
        let same = |other: State| match (state, other) {
            (
                State::Parked(Park::Barrier { byte_address: a, .. }),
                State::Parked(Park::Barrier { byte_address: b, .. }),
            ) => a.at == b.at,
            (State::AtNamed(a), State::AtNamed(b)) => a == b,
            (a, b) => a == b,
        };
        others.into_iter().any(|other| {
            let waits_too = self.rank(other) == rank && same(self.states[other]);
            self.states[other] != State::Ended && !waits_too
        })
    }

    fn partial_group(&self, number: usize) -> Option<Box<RawFault>> {
        let warp = number % self.warps_of_block;
        self.memory.blocks[self.rank(number)].groups[warp / WarpGroup::WARPS].partial()
    }

    /// Returns what a warp waits for.
    fn stuck(&self, number: usize) -> Stuck {
        let (rank, warp) = (self.rank(number), number % self.warps_of_block);
        let step = self.warps[number].step();
        let waits = match self.states[number] {
            State::Parked(Park::Barrier { byte_address, .. }) => {
                Some((step, self.memory.blocks[rank].shared.deadlock(byte_address)))
            }
            State::AtNamed(at) => self.barriers[rank].deadlock(warp).map(|cause| (at, cause)),
            State::Parked(Park::WarpGroup) => {
                let partial = self.partial_group(number);
                let cause =
                    partial.map_or(RawCause::PartialWarpGroup { warps: 0 }, |trap| trap.cause);
                Some((step, cause))
            }
            State::Parked(Park::Cluster) => Some((step, cluster_barrier::deadlock(&self.warps))),
            State::Waiting => {
                let (warps, states) =
                    (&self.warps[self.of_block(rank)], &self.states[self.of_block(rank)]);
                let threads = |waits: bool| {
                    let counted = states.iter().zip(warps).filter(|(state, _)| {
                        **state != State::Ended && (!waits || **state == State::Waiting)
                    });
                    counted.map(|(_, warp)| warp.alive().count_ones()).sum()
                };
                let cause =
                    RawCause::BlockDeadlock { threads: threads(false), arrived: threads(true) };
                // The warp's step is already behind the barrier.
                Some((step.saturating_sub(1), cause))
            }
            State::Ready | State::Ended => None,
        };
        Stuck { block: rank as u32, warp: warp as u32, waits }
    }
}
