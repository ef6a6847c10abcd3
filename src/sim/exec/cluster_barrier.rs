//! The barrier of a cluster. It opens when all threads of the cluster that have not ended have
//! arrived. A thread arrives with one operation and waits with another. The main loop calls
//! [`open`] when it looks for warps that can continue.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::warp::Warp;
use crate::sim::fault::raw_fault::RawCause;

/// Opens the barrier if all threads that have not ended have arrived. Returns whether it did.
pub(in crate::sim) fn open(warps: &mut [Warp]) -> bool {
    let here = |warp: &Warp| warp.alive() & !warp.flight.arrived == 0;
    let anyone = warps.iter().any(|warp| warp.flight.arrived != 0);
    if !anyone || !warps.iter().all(here) {
        return false;
    }
    fence(SeqCst);
    for warp in warps {
        warp.flight.released |= std::mem::take(&mut warp.flight.arrived);
    }
    true
}

/// Returns why a warp that waits at this barrier never continues: how many threads have arrived,
/// and how many are expected.
pub(in crate::sim) fn deadlock(warps: &[Warp]) -> RawCause {
    let sum = |f: fn(&Warp) -> u32| warps.iter().map(f).map(u32::count_ones).sum();
    let arrived = sum(|warp| warp.flight.arrived & warp.alive());
    RawCause::ClusterDeadlock { threads: sum(Warp::alive), arrived }
}
