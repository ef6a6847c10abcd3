//! Writes barriers among the threads of a block or a cluster, and memory fences. Mbarriers are in
//! `mbarrier.rs`.

use super::entry::Entry;
use super::regs::Operand;
use crate::ir::Value;
use crate::ir::op::{BarrierForm, ClusterArrival, ProxySpace, Sync};

impl Entry<'_> {
    pub(super) fn sync(&mut self, op: &Sync, result: Option<Value>) {
        match (op, result) {
            (Sync::Barrier {}, _) => self.ins(&["barrier.sync"], &[Operand::Int(0)]),
            (&Sync::BarrierSync { id, threads, form }, _) => {
                let operands = [id, threads].map(|value| self.operand(value));
                self.ins(&["barrier.sync", suffix(form)], &operands);
            }
            (&Sync::BarrierArrive { id, threads, form }, _) => {
                let operands = [id, threads].map(|value| self.operand(value));
                self.ins(&["barrier.arrive", suffix(form)], &operands);
            }
            (&Sync::BarrierRed { pred, id, threads, op, form }, Some(result)) => {
                let [id, threads, pred] = [id, threads, pred].map(|value| self.operand(value));
                let to = self.def(result);
                let name = ["barrier.red.", op.name(), suffix(form), ".pred"];
                self.ins(&name, &[to.into(), id, threads, pred]);
            }
            (&Sync::BarrierRedPopc { pred, id, threads, form }, Some(result)) => {
                let [id, threads, pred] = [id, threads, pred].map(|value| self.operand(value));
                let to = self.def(result);
                let name = ["barrier.red.popc", suffix(form), ".u32"];
                self.ins(&name, &[to.into(), id, threads, pred]);
            }
            // The verifier has checked that these have a result.
            (Sync::BarrierRed { .. } | Sync::BarrierRedPopc { .. }, None) => {}
            (Sync::Fence { order, scope }, _) => {
                self.ins(&["fence.", order.name(), ".", scope.name()], &[]);
            }
            (Sync::FenceProxyAlias {}, _) => self.ins(&["fence.proxy.alias"], &[]),
            (Sync::FenceProxyAsync { space: ProxySpace::All }, _) => {
                self.ins(&["fence.proxy.async"], &[]);
            }
            (Sync::FenceProxyAsync { space }, _) => {
                self.ins(&["fence.proxy.async.", space.name()], &[]);
            }
            (&Sync::BarrierClusterArrive { form, order }, _) => {
                let order = match order {
                    ClusterArrival::Release => "",
                    ClusterArrival::Relaxed => ".relaxed",
                };
                self.ins(&["barrier.cluster.arrive", order, suffix(form)], &[]);
            }
            (&Sync::BarrierClusterWait { form }, _) => {
                self.ins(&["barrier.cluster.wait", suffix(form)], &[]);
            }
            (Sync::GriddepcontrolWait {}, _) => self.ins(&["griddepcontrol.wait"], &[]),
            (Sync::GriddepcontrolLaunchDependents {}, _) => {
                self.ins(&["griddepcontrol.launch_dependents"], &[]);
            }
        }
    }
}

fn suffix(form: BarrierForm) -> &'static str {
    match form {
        BarrierForm::Unaligned => "",
        BarrierForm::Aligned => ".aligned",
    }
}
