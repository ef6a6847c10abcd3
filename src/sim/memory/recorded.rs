//! Passes a cluster's memory accesses and mbarrier phases to the recorder, if the launch asked for
//! a report or a trace.

use super::address::Address;
use super::cluster_memory::Memory;
use super::lanes::Regs;
use super::races::Accessed;
use super::shared::of_cluster;
use super::space::MemorySpace;
use crate::sim::fault::raw::Origin;
use crate::sim::race::{MbarrierAddress, Target};
use crate::sim::trace::Recorder;
use crate::sim::trace::counts::{LaneAccess, TrafficSource};
use crate::sim::trace::timeline::BarrierKey;

impl Memory<'_> {
    /// Calls `f` with the recorder, if there is one.
    #[inline]
    pub(in crate::sim) fn record(&mut self, f: impl FnOnce(&mut Recorder)) {
        if let Some(recorder) = &mut self.recorder {
            f(recorder);
        }
    }

    /// Records that lanes of a warp arrived at an mbarrier.
    pub(in crate::sim) fn record_arrival(
        &mut self,
        origin: Origin,
        barrier: MbarrierAddress,
        ended: bool,
    ) {
        let key = BarrierKey::Memory(barrier);
        self.record(|recorder| recorder.timeline.warp_arrives(key, origin));
        self.record_phase(barrier, ended);
    }

    /// Records the end of an mbarrier's phase, if it has ended.
    pub(in crate::sim) fn record_phase(&mut self, barrier: MbarrierAddress, ended: bool) {
        if ended {
            let key = BarrierKey::Memory(barrier);
            self.record(|recorder| recorder.timeline.phase_ended(key));
        }
    }

    /// Records the accesses of the lanes in `mask` to shared and global memory.
    pub(in crate::sim) fn record_access(
        &mut self,
        regs: &mut Regs,
        accessed: &Accessed,
        origin: Origin,
        mask: u32,
    ) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let address: &Address = &accessed.address;
        let offsets = address.bytes(regs);
        // The access itself reports a bad address.
        let _fault = address.for_each_alloc(regs, mask, |_, found, mask| {
            let (target, start) = match found.memory_space {
                MemorySpace::Global => (Target::Global(found.number as usize), 0),
                MemorySpace::Shared => {
                    (Target::Shared(self.here), self.shared().range(found.number).start)
                }
                MemorySpace::Cluster => {
                    let rank = of_cluster(found.number).0 as usize;
                    let Some(block) = self.blocks.get(rank) else { return Ok(()) };
                    (Target::Shared(rank), block.shared.range(found.number).start)
                }
                MemorySpace::Const | MemorySpace::Local => return Ok(()),
            };
            let at = |lane: usize| (start as u64).saturating_add(offsets[lane]);
            let (writes, bytes) = (accessed.writes, address.bytes_accessed());
            let access = LaneAccess { target, writes, bytes, mask, at: &at };
            recorder.access(origin, TrafficSource::Threads, &access);
            Ok(())
        });
        self.recorder = Some(recorder);
    }
}
