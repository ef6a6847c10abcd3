//! Arrival counters in global memory. When several thread blocks or warp groups each write a
//! partial result, the last one to arrive combines them. Split-K and stream-K GEMM, decode with
//! split keys and axis reductions use them.

use crate::ir::op::AtomicOrder;
use crate::ir::{Body, GlobalMut, NamedBarrier, Val};

/// Arrives at `counter`, once for all threads of `barrier`. `leader` must be true in exactly one of
/// these threads. Returns true in all threads of the last of `count` groups to arrive, `count`
/// being at least 2. That group then sees everything the other groups wrote before they arrived.
///
/// The counter must be 0 before the first arrival. The last arrival sets it back to 0, so that a
/// graph can replay the launch without clearing it.
#[track_caller]
#[inline]
pub(super) fn is_last_to_arrive<'b>(
    k: &mut Body<'b, '_>,
    counter: Val<'b, GlobalMut<u32>>,
    count: Val<'b, i32>,
    (barrier, leader): (NamedBarrier<'b>, Val<'b, bool>),
) -> Val<'b, bool> {
    barrier.sync();
    let others = (count - 1).cvt::<u32>();
    // The barriers extend the leader's acquire and release to all threads of the group. `inc` wraps
    // from `others` to 0.
    let counter = counter.atom().order(AtomicOrder::AcqRel);
    let before = k.if_with(leader, 0u32, |_| counter.inc(0, others));
    barrier.red_or(before.eq(others))
}

/// Polls `counter` without arriving. Returns true in all threads of `barrier` if the other
/// `count - 1` groups have arrived; the counter is then 0 again, and this group sees what they
/// wrote. The arguments are the same as for [`is_last_to_arrive`].
#[track_caller]
#[inline]
pub(super) fn have_others_arrived<'b>(
    k: &mut Body<'b, '_>,
    counter: Val<'b, GlobalMut<u32>>,
    count: Val<'b, i32>,
    (barrier, leader): (NamedBarrier<'b>, Val<'b, bool>),
) -> Val<'b, bool> {
    let others = (count - 1).cvt::<u32>();
    let counter = counter.atom().order(AtomicOrder::Acquire);
    let arrived = k.if_with(leader, 0u32, |_| counter.cas(0, others, 0u32));
    barrier.red_or(arrived.eq(others))
}
