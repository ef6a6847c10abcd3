//! Execution context of a warp: state for whole-warp, waiting and asynchronous operations.

use crate::sim::fault::raw::Origin;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::{FULL, LANES};
use crate::sim::memory::shared::ByteAddress;

/// Condition that a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Park {
    /// A phase of a barrier in shared memory must end for this lane.
    Barrier { lane: u32, byte_address: ByteAddress },
    /// The warps of the cluster must come to its barrier.
    Cluster,
    /// The other warps of the warp group must come to the same `wgmma`.
    WarpGroup,
}

/// Continuation of a warp after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Next {
    /// With the next one.
    Go,
    /// With the next one, after other warps have run: it polled without success. That may be a phase of
    /// the barrier at this address.
    Idle(Option<usize>),
    /// With the same one, once what it waits for may be there.
    Park(Park),
    /// With the same one, once the `wgmma` before the number `end` of its warp group have taken effect.
    Multiply { end: u64 },
    /// Not at all: some of its threads are elsewhere.
    Diverged,
}

/// An operation of a warp: see [`ExecContext`].
pub(in crate::sim) type Act =
    Box<dyn for<'t, 'm> Fn(&mut ExecContext<'t, 'm>) -> RawResult<Next> + Send + Sync>;

/// A warp that executes an operation.
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
    /// Checks that all threads of the warp execute the operation; `Some` says why it cannot go on.
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

    /// The value of a slot that must be the same in all lanes that are active.
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

/// Operations that a warp has started and not waited for.
#[derive(Debug)]
pub(in crate::sim) struct Flight {
    /// The groups of `cp.async` that each lane has committed.
    pub(in crate::sim) copy_groups: [u32; LANES],
    /// The groups of bulk copies that each lane has committed.
    pub(in crate::sim) bulk_groups: [u32; LANES],
    /// The lanes that are through with the wait at which the warp is.
    pub(in crate::sim) waited: u32,
    /// The lanes that have come to the barrier of the cluster, which has not opened since.
    pub(in crate::sim) arrived: u32,
    /// The lanes for which it has opened and that have not waited.
    pub(in crate::sim) released: u32,
    /// For each slot of the file `w`, whether it was accessed since the last `wgmma.fence`, as an accumulator.
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

    /// Forgets all, for the next block.
    pub(in crate::sim) fn start(&mut self) {
        self.copy_groups = [0; LANES];
        self.bulk_groups = [0; LANES];
        (self.waited, self.arrived, self.released) = (0, 0, 0);
        self.unfenced.fill(u64::MAX);
    }
}
