//! Records arrivals and waits of warps, so that reports and traces show where warps are held up.
//! The main loop calls it after each turn of a warp.

use super::cluster::{Cluster, State};
use crate::sim::memory::races::mbarrier_address;
use crate::sim::memory::warp_group::WarpGroup;
use crate::sim::program::context::Park;
use crate::sim::race::MbarrierAddress;
use crate::sim::trace::timeline::BarrierKey;

impl Cluster<'_> {
    /// Records that a warp arrived at a barrier of its block.
    pub(super) fn record_arrival(&mut self, number: usize, key: BarrierKey) {
        self.memory.record(|recorder| recorder.arrive(number, key));
    }

    /// Records that a warp which has just run now waits, if it does.
    pub(super) fn record_wait(&mut self, number: usize) {
        if self.memory.recorder.is_none() {
            return;
        }
        let (rank, warp) = (self.rank(number), number % self.warps_of_block);
        let (step, group) = (self.warps[number].step(), warp / WarpGroup::WARPS);
        let before = step.saturating_sub(1);
        let (step, key) = match self.states[number] {
            State::Waiting => (before, BarrierKey::Block(rank)),
            State::AtNamed(at) => match self.barriers[rank].waits_at(warp) {
                Some(id) => (at, BarrierKey::Named(rank, id)),
                None => return,
            },
            State::Parked(Park::Barrier { byte_address, .. }) => {
                (step, BarrierKey::Memory(mbarrier_address(rank as u32, byte_address)))
            }
            State::Parked(Park::Cluster) => (step, BarrierKey::Cluster),
            State::Parked(Park::WarpGroup) => (step, BarrierKey::WarpGroup(rank, group)),
            State::Ready => match self.asked[number] {
                Some(at) => (before, BarrierKey::Memory(MbarrierAddress { rank, byte: at })),
                None if self.waits_for_products(number) => {
                    (step, BarrierKey::WarpGroup(rank, group))
                }
                None => return,
            },
            State::Ended => return,
        };
        self.memory.record(|recorder| recorder.wait(number, step, key));
    }
}
