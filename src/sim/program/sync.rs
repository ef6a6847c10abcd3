//! Compiles barriers of blocks and clusters, and fences.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::code::Inst;
use super::compiler::Compiler;
use super::context::{Next, Park};
use super::named_barrier::{Named, Reduction};
use super::refused::Refused;
use crate::ir::{OpId, ProxySpace, Scalar, Sync, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault};

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
            Sync::Fence { .. } => Inst::Memory(Box::new(|_, memory, _| {
                fence(SeqCst);
                memory.learn();
                Ok(())
            })),
            Sync::BarrierClusterArrive { form: _, order: _ } => arrive(),
            Sync::BarrierClusterWait { form: _ } => wait(),
            Sync::FenceProxyAsync {
                space: ProxySpace::All | ProxySpace::SharedCta | ProxySpace::SharedCluster,
            } if self.code.watches_proxies => Inst::Act(Box::new(|context| {
                if let Some(proxies) = &mut context.memory.proxies {
                    proxies.fence(context.origin);
                }
                Ok(Next::Go)
            })),
            // Global memory is the same for all proxies; the grids before this one have ended, and none after it
            // waits.
            Sync::FenceProxyAsync { .. }
            | Sync::FenceProxyAlias {}
            | Sync::GriddepcontrolWait {}
            | Sync::GriddepcontrolLaunchDependents {} => {
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
