//! Compiles barriers of blocks and clusters, fences, and `griddepcontrol`. Each also tells the race
//! detector what it orders.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::code::Inst;
use super::compiler::Compiler;
use super::context::{Next, Park};
use super::named_barrier::{Named, Reduction};
use super::refused::Refused;
use crate::ir::op::{ClusterArrival, ProxySpace, Sync};
use crate::ir::types::Scalar;
use crate::ir::{OpId, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::race::Races;
use crate::sim::trace::timeline::BarrierKey;

impl Compiler<'_> {
    pub(in crate::sim) fn sync(
        &mut self,
        id: OpId,
        op: &Sync,
        results: &[Value],
    ) -> Result<(), Refused> {
        let inst = match *op {
            Sync::Barrier {} => Inst::Barrier,
            Sync::BarrierSync { id, threads, form: _ } => self.named([id, threads], true, None)?,
            Sync::BarrierArrive { id, threads, form: _ } => {
                self.named([id, threads], false, None)?
            }
            Sync::BarrierRed { pred, id, threads, op, form: _ } => {
                let dst = self.result(results, 0)?.scalar(Scalar::Bool)?;
                let pred = self.scalar_of(pred, Scalar::Bool)?;
                self.named([id, threads], true, Some((pred, Reduction::Vote(op), dst)))?
            }
            Sync::BarrierRedPopc { pred, id, threads, form: _ } => {
                let dst = self.result(results, 0)?.scalar(Scalar::U32)?;
                let pred = self.scalar_of(pred, Scalar::Bool)?;
                self.named([id, threads], true, Some((pred, Reduction::Popc, dst)))?
            }
            Sync::Fence { order: _, scope } => Inst::Act(Box::new(move |context| {
                fence(SeqCst);
                context.memory.learn();
                let (at, lanes) = (context.origin.into(), context.active);
                context.memory.note(|races| races.fence(at, lanes, scope));
                Ok(Next::Go)
            })),
            Sync::BarrierClusterArrive { form: _, order } => {
                arrive(order == ClusterArrival::Relaxed)
            }
            Sync::BarrierClusterWait { form: _ } => wait(),
            Sync::FenceProxyAsync { space } => {
                let (shared, global) = match space {
                    ProxySpace::All => (true, true),
                    ProxySpace::Global => (false, true),
                    ProxySpace::SharedCta | ProxySpace::SharedCluster => (true, false),
                };
                Inst::Act(Box::new(move |context| {
                    if let (Some(proxies), true) = (&mut context.memory.proxies, shared) {
                        proxies.fence(context.origin);
                    }
                    let (at, lanes) = (context.origin.into(), context.active);
                    context.memory.note(|races| races.proxy_fence(at, lanes, shared, global));
                    Ok(Next::Go)
                }))
            }
            // In the simulator all earlier launches have ended. On a GPU they may still run, so the
            // race detector compares the accesses.
            Sync::GriddepcontrolWait {} => Inst::Act(Box::new(|context| {
                let (at, lanes) = (context.origin.into(), context.active);
                context.memory.note(|races| races.launches_wait(at, lanes));
                Ok(Next::Go)
            })),
            Sync::GriddepcontrolLaunchDependents {} => Inst::Act(Box::new(|context| {
                context.memory.note(Races::start_dependents);
                Ok(Next::Go)
            })),
            Sync::FenceProxyAlias {} => {
                self.weight += 1;
                return Ok(());
            }
        };
        self.emit(id, inst);
        Ok(())
    }

    fn named(
        &self,
        operands: [Value; 2],
        waits: bool,
        red: Option<(u32, Reduction, u32)>,
    ) -> Result<Inst, Refused> {
        let [id, threads] = operands;
        let (id, threads) =
            (self.scalar_of(id, Scalar::U32)?, self.scalar_of(threads, Scalar::U32)?);
        Ok(Inst::Named(Named { id, threads, waits, red }))
    }
}

/// Makes the step that arrives at the cluster's barrier.
pub(in crate::sim) fn arrive(relaxed: bool) -> Inst {
    Inst::Act(Box::new(move |context| {
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
        let (at, lanes) = (context.origin.into(), context.active);
        context.memory.note(|races| races.cluster_arrive(at, lanes, relaxed));
        let origin = context.origin;
        let key = BarrierKey::Cluster;
        context.memory.record(|recorder| recorder.timeline.warp_arrives(key, origin));
        Ok(Next::Go)
    }))
}

/// Makes the step that waits at the cluster's barrier.
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
        let (at, lanes) = (context.origin.into(), context.active);
        context.memory.note(|races| races.cluster_wait(at, lanes));
        Ok(Next::Go)
    }))
}
