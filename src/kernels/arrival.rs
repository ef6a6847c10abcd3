//! Arrival counters in global memory. When several thread blocks or warp groups each write a
//! partial result, the last one to arrive combines them. Split-K and stream-K GEMM, decode with
//! split keys and axis reductions use them.

use crate::ir::op::AtomicOrder;
use crate::ir::{Body, GlobalMut, NamedBarrier, Val};

/// A group of threads that arrives at a counter together.
#[derive(Clone, Copy)]
pub(super) struct ArrivingGroup<'b> {
    /// Synchronises all threads of the group.
    pub(super) barrier: NamedBarrier<'b>,
    /// True in exactly one thread of the group.
    pub(super) is_leader: Val<'b, bool>,
}

impl<'b> ArrivingGroup<'b> {
    /// Arrives at `counter`, once for the whole group. Returns true in all threads of the last of
    /// `count` groups to arrive, `count` being at least 2. That group then sees everything the other
    /// groups wrote before they arrived.
    ///
    /// The counter must be 0 before the first arrival. The last arrival sets it back to 0, so that a
    /// graph can replay the launch without clearing it.
    #[track_caller]
    #[inline]
    pub(super) fn is_last_to_arrive(
        &self,
        k: &mut Body<'b, '_>,
        counter: Val<'b, GlobalMut<u32>>,
        count: Val<'b, i32>,
    ) -> Val<'b, bool> {
        self.barrier.sync();
        let others = (count - 1).cvt::<u32>();
        // The barriers extend the leader's acquire and release to all threads of the group. `inc`
        // wraps from `others` to 0.
        let counter = counter.atom().order(AtomicOrder::AcqRel);
        let before = k.if_with(self.is_leader, 0u32, |_| counter.inc(0, others));
        self.barrier.red_or(before.eq(others))
    }

    /// Polls `counter` without arriving. Returns true in all threads of the group if the other
    /// `count - 1` groups have arrived; the counter is then 0 again, and this group sees what they
    /// wrote.
    #[track_caller]
    #[inline]
    pub(super) fn have_others_arrived(
        &self,
        k: &mut Body<'b, '_>,
        counter: Val<'b, GlobalMut<u32>>,
        count: Val<'b, i32>,
    ) -> Val<'b, bool> {
        let others = (count - 1).cvt::<u32>();
        let counter = counter.atom().order(AtomicOrder::Acquire);
        let arrived = k.if_with(self.is_leader, 0u32, |_| counter.cas(0, others, 0u32));
        self.barrier.red_or(arrived.eq(others))
    }
}
