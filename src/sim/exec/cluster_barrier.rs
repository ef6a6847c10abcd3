//! The barrier of a cluster.
//!
//! It opens when all threads of the cluster that have not ended have come to it. A thread comes, then waits, in
//! turn.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::context::{Next, Park};
use super::warp::Warp;
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::program::code::Inst;

/// Comes to the barrier.
pub(in crate::sim) fn arrive() -> Inst {
    Inst::Act(Box::new(|context| {
        if context.active != context.alive {
            return Ok(Next::Diverged);
        }
        let again = (context.flight.arrived | context.flight.released) & context.active;
        if again != 0 {
            let cause = RawCause::ClusterBarrierOrder { arrives: true };
            return Err(RawFault::new(again.trailing_zeros() as usize, cause));
        }
        context.flight.arrived |= context.active;
        context.memory.cluster_arrival = true;
        Ok(Next::Go)
    }))
}

/// Waits at the barrier.
pub(in crate::sim) fn wait() -> Inst {
    Inst::Act(Box::new(|context| {
        if context.active != context.alive {
            return Ok(Next::Diverged);
        }
        let flight = &mut *context.flight;
        let early = context.active & !(flight.arrived | flight.released);
        if early != 0 {
            let cause = RawCause::ClusterBarrierOrder { arrives: false };
            return Err(RawFault::new(early.trailing_zeros() as usize, cause));
        }
        if context.active & !flight.released != 0 {
            return Ok(Next::Park(Park::Cluster));
        }
        flight.released &= !context.active;
        Ok(Next::Go)
    }))
}

/// Opens the barrier if all threads that have not ended have come. Returns whether it did.
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

/// Returns the cause of a wait that never ends: arrived threads, and expected threads.
pub(in crate::sim) fn deadlock(warps: &[Warp]) -> RawCause {
    let sum = |f: fn(&Warp) -> u32| warps.iter().map(f).map(u32::count_ones).sum();
    let arrived = sum(|warp| warp.flight.arrived & warp.alive());
    RawCause::ClusterDeadlock { threads: sum(Warp::alive), arrived }
}
