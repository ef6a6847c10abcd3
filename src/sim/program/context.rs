//! [`ExecContext`]: the argument of an operation that the warp executes as a whole, such as an MMA,
//! a copy or a wait. It gives access to the warp's registers, the memory, and the asynchronous
//! operations that the warp has started. The operation returns a [`Next`], which says whether the
//! warp continues or waits.

use crate::sim::fault::raw::Origin;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::{FULL, LANES};
use crate::sim::memory::shared::ByteAddress;

/// What a waiting warp waits for. The main loop checks it to wake the warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Park {
    /// A phase of an mbarrier must end for this lane.
    Barrier { lane: u32, byte_address: ByteAddress },
    /// The cluster's warps must arrive at its barrier.
    Cluster,
    /// The other warps of the warp group must reach the same `wgmma`.
    WarpGroup,
}

/// What a warp does after an operation of the whole warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Next {
    /// Continues with the next operation.
    Go,
    /// Continues with the next operation, after other warps have run, because the operation polled
    /// without success. If an address is given, the operation polled the mbarrier at this address.
    Idle(Option<usize>),
    /// Executes the same operation again, once what the warp waits for may have happened.
    Park(Park),
    /// Executes the same operation again, after the warp group's `wgmma` before number `end` have
    /// been computed.
    Multiply { end: u64 },
    /// Stops with a fault, because some of the warp's threads have not reached the operation.
    Diverged,
}

/// An operation of a warp: see [`ExecContext`].
pub(in crate::sim) type Act =
    Box<dyn for<'t, 'm> Fn(&mut ExecContext<'t, 'm>) -> RawResult<Next> + Send + Sync>;

/// A warp while it executes an operation.
pub(in crate::sim) struct ExecContext<'t, 'm> {
    pub(in crate::sim) regs: &'t mut Regs,
    pub(in crate::sim) memory: &'t mut Memory<'m>,
    pub(in crate::sim) flight: &'t mut Flight,
    pub(in crate::sim) origin: Origin,
    /// The lanes that execute it.
    pub(in crate::sim) active: u32,
    /// The lanes that have not ended.
    pub(in crate::sim) alive: u32,
}

impl ExecContext<'_, '_> {
    /// Checks that all 32 lanes execute the operation. Returns `Some` if it cannot go on.
    pub(in crate::sim) fn whole_warp(&self) -> RawResult<Option<Next>> {
        if self.active == FULL {
            return Ok(None);
        }
        if self.active != self.alive {
            return Ok(Some(Next::Diverged));
        }
        let lane = self.active.trailing_zeros() as usize;
        Err(RawFault::new(lane, RawCause::PartialWarp { lanes: self.active }))
    }

    /// Returns the value of a slot that must be the same in all active lanes.
    pub(in crate::sim) fn uniform<T: Copy + Eq + Into<u64>>(
        &self,
        words: &[T; LANES],
    ) -> RawResult<T> {
        let first = words[self.active.trailing_zeros() as usize % LANES];
        let differs =
            crate::sim::memory::mask::lanes_of(self.active).find(|lane| words[*lane] != first);
        match differs {
            None => Ok(first),
            Some(lane) => {
                let (here, there) = (first.into(), words[lane].into());
                Err(RawFault::new(lane, RawCause::NotUniform { here, there }))
            }
        }
    }
}

/// What a warp has started and not waited for: groups of copies, cluster barriers, and accumulators
/// that need a `wgmma.fence`.
#[derive(Debug)]
pub(in crate::sim) struct Flight {
    /// How many `cp.async` groups each lane has committed.
    pub(in crate::sim) copy_groups: [u32; LANES],
    /// How many bulk groups each lane has committed.
    pub(in crate::sim) bulk_groups: [u32; LANES],
    /// The lanes whose wait in the warp's current wait operation is over.
    pub(in crate::sim) waited: u32,
    /// The lanes that have arrived at the cluster's barrier, which has not opened since.
    pub(in crate::sim) arrived: u32,
    /// The lanes for which it has opened, but which have not waited.
    pub(in crate::sim) released: u32,
    /// For each slot of the file `w`, whether it was accessed as an accumulator since the last
    /// `wgmma.fence`.
    pub(in crate::sim) unfenced: Vec<u64>,
}

impl Flight {
    pub(in crate::sim) fn new(w: usize) -> Flight {
        Flight {
            copy_groups: [0; LANES],
            bulk_groups: [0; LANES],
            waited: 0,
            arrived: 0,
            released: 0,
            unfenced: vec![u64::MAX; w.div_ceil(64)],
        }
    }

    /// Forgets everything, for the next block.
    pub(in crate::sim) fn start(&mut self) {
        self.copy_groups = [0; LANES];
        self.bulk_groups = [0; LANES];
        (self.waited, self.arrived, self.released) = (0, 0, 0);
        self.unfenced.fill(u64::MAX);
    }
}
