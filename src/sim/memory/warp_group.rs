//! The operations that the four warps of a warp group execute together: `wgmma` and `setmaxnreg`.
//!
//! The group numbers its `wgmma`. All four warps must execute the same `wgmma` with the same
//! operands. The simulator computes it for all four warps at once, at the latest when one of the
//! warps waits for it. Until a warp has waited for the `wgmma`, that warp must not access the
//! accumulators.

use super::lanes::Regs;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::mask::LANES;
use super::proxy::ProxyView;
use crate::sim::fault::raw::{Origin, StepAt};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::options::Accumulation;

/// A warp's registers with its part of A.
pub(in crate::sim) type Registers = Box<[[u32; LANES]]>;

/// The operands on which a group's warps must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct WgmmaOperands {
    pub(in crate::sim) a: u64,
    pub(in crate::sim) b: u64,
    pub(in crate::sim) accumulate: bool,
}

/// A `wgmma` of a kernel, which a warp group queues and executes later.
pub(in crate::sim) trait GroupMma: Debug + Send + Sync {
    /// Returns the slots of the accumulators.
    fn accumulators(&self) -> &[u32];

    /// Returns whether an operand in shared memory contains one of the bytes: exactly, or as a
    /// quick upper bound.
    fn reads(&self, operands: WgmmaOperands, bytes: &Range<usize>, exactly: bool) -> bool;

    /// Calls `f` with the address of each 16 bytes of shared memory that it reads.
    fn chunks(&self, operands: WgmmaOperands, f: &mut dyn FnMut(usize));

    /// Computes on the registers of the four warps.
    fn run(
        &self,
        operands: WgmmaOperands,
        accumulation: Accumulation,
        registers: &[Option<Registers>; WarpGroup::WARPS],
        memory: ProxyView<'_>,
        warps: &mut [&mut Regs],
    ) -> Result<(), RawCause>;
}

/// A `wgmma` that at least one warp has executed.
#[derive(Debug)]
struct Issued {
    op: Arc<dyn GroupMma>,
    origin: Origin,
    operands: WgmmaOperands,
    /// Each warp's part of A, if A is in registers.
    registers: [Option<Registers>; WarpGroup::WARPS],
    /// The warps that have executed it.
    warps: u32,
    /// Set when it has been computed.
    done: bool,
}

/// A `setmaxnreg` that some warps have not executed.
#[derive(Clone, Copy, Debug)]
struct Change {
    origin: Origin,
    count: u32,
    warps: u32,
}

/// What a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Wait {
    Done,
    /// All `wgmma` before this number must be computed first.
    Multiply {
        end: u64,
    },
    /// Other warps must execute the awaited `wgmma` first.
    Warps,
}

/// The state of a warp group.
#[derive(Debug, Default)]
pub(in crate::sim) struct WarpGroup {
    /// The number of the first `wgmma` in the queue.
    base: u64,
    queue: VecDeque<Issued>,
    /// For each warp, the number of its next `wgmma`.
    next: [u64; WarpGroup::WARPS],
    /// For each warp, the number up to which it has waited.
    waited: [u64; WarpGroup::WARPS],
    /// For each warp, where its groups end that it has not waited for.
    groups: [VecDeque<u64>; WarpGroup::WARPS],
    changes: VecDeque<Change>,
    /// For each warp, how many of its `setmaxnreg` the others have not all reached.
    ahead: [usize; WarpGroup::WARPS],
    /// Set when all warps have reached an operation since this was last taken.
    complete: bool,
}

/// All warps of a group.
const ALL: u32 = (1 << WarpGroup::WARPS) - 1;

impl WarpGroup {
    /// Warps in a group.
    pub(in crate::sim) const WARPS: usize = 4;

    /// Called when warp `warp` of the group executes a `wgmma`: queues the `wgmma`, or checks that
    /// it is the one that the other warps have executed.
    pub(in crate::sim) fn issue(
        &mut self,
        warp: usize,
        op: &Arc<dyn GroupMma>,
        origin: Origin,
        operands: WgmmaOperands,
        registers: Option<Registers>,
    ) -> Result<(), RawCause> {
        let index = (self.next[warp] - self.base) as usize;
        match self.queue.get(index) {
            Some(found) if found.origin.step != origin.step => {
                return Err(RawCause::OtherWgmma { op: StepAt(found.origin.step) });
            }
            Some(found) if found.operands != operands => {
                return Err(RawCause::OtherWgmma { op: StepAt(found.origin.step) });
            }
            Some(_) => {}
            None => self.queue.push_back(Issued {
                op: Arc::clone(op),
                origin,
                operands,
                registers: Default::default(),
                warps: 0,
                done: false,
            }),
        }
        let issued = &mut self.queue[index];
        issued.registers[warp] = registers;
        issued.warps |= 1 << warp;
        self.complete |= issued.warps == ALL;
        self.next[warp] += 1;
        Ok(())
    }

    /// Returns the number of a warp's next `wgmma`, and the number up to which it has waited.
    pub(in crate::sim) fn numbers(&self, warp: usize) -> (u64, u64) {
        (self.next[warp], self.waited[warp])
    }

    /// Commits what the warp has issued as a group.
    pub(in crate::sim) fn commit(&mut self, warp: usize) {
        self.groups[warp].push_back(self.next[warp]);
    }

    /// Waits until at most `pending` groups of the warp are incomplete.
    pub(in crate::sim) fn wait(&mut self, warp: usize, pending: usize) -> Wait {
        let groups = &mut self.groups[warp];
        let Some(due) = groups.len().checked_sub(pending).filter(|due| *due > 0) else {
            return Wait::Done;
        };
        let end = groups[due - 1];
        let issued = self.queue.iter().take((end.saturating_sub(self.base)) as usize);
        let (mut all_done, mut all_here) = (true, true);
        for issued in issued {
            all_done &= issued.done;
            all_here &= issued.warps == ALL;
        }
        if !all_here {
            return Wait::Warps;
        }
        if !all_done {
            return Wait::Multiply { end };
        }
        groups.drain(..due);
        self.waited[warp] = self.waited[warp].max(end);
        let base = self.waited.iter().copied().min().unwrap_or(0);
        while self.base < base {
            self.queue.pop_front();
            self.base += 1;
        }
        Wait::Done
    }

    /// Returns the step of a `wgmma` that uses one of the slots as an accumulator and that the warp
    /// has not waited for. A `wgmma` with exactly the accumulators of `but` does not count, because
    /// the hardware runs those in order.
    pub(in crate::sim) fn in_flight(
        &self,
        warp: usize,
        slots: &[u32],
        but: Option<&dyn GroupMma>,
    ) -> Option<u32> {
        let first = (self.waited[warp] - self.base) as usize;
        let own = self.queue.iter().skip(first).filter(|issued| issued.warps >> warp & 1 == 1);
        let overlaps = |issued: &&Issued| {
            let found = issued.op.accumulators();
            let same = but.is_some_and(|but| but.accumulators() == found);
            !same && slots.iter().any(|slot| found.contains(slot))
        };
        own.into_iter().find(overlaps).map(|issued| issued.origin.step)
    }

    /// Returns a `wgmma` that no warp has waited for and that reads one of the bytes: exactly, or
    /// as a quick upper bound.
    pub(in crate::sim) fn reader(&self, bytes: &Range<usize>, exactly: bool) -> Option<Origin> {
        let waited = self.waited.iter().copied().max().unwrap_or(0);
        let pending = self.queue.iter().skip((waited - self.base) as usize);
        let reads = |issued: &&Issued| issued.op.reads(issued.operands, bytes, exactly);
        pending.into_iter().find(reads).map(|issued| issued.origin)
    }

    /// Returns the number after the first `wgmma` that has not been computed, if all four warps
    /// have executed it.
    pub(in crate::sim) fn runnable(&self) -> Option<u64> {
        let first = self.queue.iter().position(|issued| !issued.done)?;
        (self.queue[first].warps == ALL).then_some(self.base + first as u64 + 1)
    }

    /// Computes all `wgmma` before number `end` on the registers of the four warps.
    pub(in crate::sim) fn multiply(
        &mut self,
        end: u64,
        memory: ProxyView<'_>,
        warps: &mut [&mut Regs],
        accumulation: Accumulation,
    ) -> RawResult {
        let count = end.saturating_sub(self.base) as usize;
        for issued in self.queue.iter_mut().take(count).filter(|issued| !issued.done) {
            let (op, registers) = (&issued.op, &issued.registers);
            let done = op.run(issued.operands, accumulation, registers, memory, warps);
            done.map_err(|cause| {
                let origin = Some(issued.origin);
                Box::new(RawFault { lane: 0, cause, origin })
            })?;
            issued.done = true;
        }
        Ok(())
    }

    /// Called when warp `warp` executes a `setmaxnreg`: checks that all warps of the group execute
    /// the same one.
    pub(in crate::sim) fn change(
        &mut self,
        warp: usize,
        origin: Origin,
        count: u32,
    ) -> Result<(), RawCause> {
        let index = self.ahead[warp];
        if index == self.changes.len() {
            self.changes.push_back(Change { origin, count, warps: 0 });
        }
        let change = &mut self.changes[index];
        if (change.origin.step, change.count) != (origin.step, count) {
            return Err(RawCause::OtherWgmma { op: StepAt(change.origin.step) });
        }
        change.warps |= 1 << warp;
        self.ahead[warp] += 1;
        if self.changes.front().is_some_and(|change| change.warps == ALL) {
            self.changes.pop_front();
            self.ahead.iter_mut().for_each(|ahead| *ahead -= 1);
        }
        Ok(())
    }

    /// Returns whether all warps have reached an operation since the last call.
    pub(in crate::sim) fn take_complete(&mut self) -> bool {
        std::mem::take(&mut self.complete)
    }

    /// Returns a fault if only some of the warps have executed a `wgmma` or a `setmaxnreg`. Called
    /// when the cluster ends or is deadlocked.
    pub(in crate::sim) fn partial(&self) -> Option<Box<RawFault>> {
        let issued = self.queue.iter().map(|issued| (issued.origin, issued.warps));
        let changes = self.changes.iter().map(|change| (change.origin, change.warps));
        let (origin, warps) = issued.chain(changes).find(|(_, warps)| *warps != ALL)?;
        let cause = RawCause::PartialWarpGroup { warps };
        Some(Box::new(RawFault { lane: 0, cause, origin: Some(origin) }))
    }
}
