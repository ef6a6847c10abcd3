//! Counters in global memory that tell the last of several thread blocks or warp groups to combine their results.

use crate::ir::op::AtomicOrder;
use crate::ir::{Body, GlobalMut, NamedBarrier, Val};

/// Arrives at `counter`, once for all threads of `barrier`; `leader` holds in one of them. Returns true in all threads of the
/// last of `count` groups of threads to arrive, at least 2. That group sees the writes of all others before their arrivals.
///
/// The counter is 0 before the first arrival, and again after the last one, so that launches can be replayed.
#[track_caller]
#[inline]
pub(super) fn is_last_to_arrive<'b>(
    k: &mut Body<'b, '_>,
    counter: Val<'b, GlobalMut<u32>>,
    count: Val<'b, i32>,
    (barrier, leader): (NamedBarrier<'b>, Val<'b, bool>),
) -> Val<'b, bool> {
    barrier.sync(k);
    let others = (count - 1).cvt::<u32>();
    // The order of one thread is that of all, because of the barriers. The counter wraps to 0 after `others`.
    let counter = counter.atom().order(AtomicOrder::AcqRel);
    let before = k.if_with(leader, 0u32, |k| counter.inc(k, 0, others));
    barrier.red_or(k, before.eq(others))
}

/// Returns true in all threads of `barrier`, without an arrival, if all others of `count` groups of threads have arrived at
/// `counter`. The counter is 0 again then, and the group sees their writes. The other arguments are those of
/// [`is_last_to_arrive`].
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
    let arrived = k.if_with(leader, 0u32, |k| counter.cas(k, 0, others, 0u32));
    barrier.red_or(k, arrived.eq(others))
}
