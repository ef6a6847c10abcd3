//! Writes operations on mbarriers: initialisation, arrivals, and waits, which poll in a loop.

use super::control::Target;
use super::entry::Entry;
use super::instruction::Part;
use super::mem::Address;
use super::regs::{Class, Operand, Reg};
use crate::ir::op::{Mbarrier, RemoteArrival};
use crate::ir::types::Scalar;
use crate::ir::{self, Value};

impl Entry<'_> {
    pub(super) fn mbarrier(&mut self, op: &Mbarrier, result: Option<Value>) {
        match (op, result) {
            (&Mbarrier::MbarrierInit { barrier, index, count }, _) => {
                self.at_barrier("mbarrier.init.shared.b64", [barrier, index], Some(count));
            }
            (&Mbarrier::MbarrierInval { barrier, index }, _) => {
                self.at_barrier("mbarrier.inval.shared.b64", [barrier, index], None);
            }
            (&Mbarrier::MbarrierArrive { barrier, index, count }, Some(result)) => {
                let address = self.address_of(barrier, index);
                let count = self.operand_where(count, |count| count > 0);
                let to: Operand = self.def(result).into();
                // A single arrival uses the form without a count, which all targets have.
                let once = matches!(count, Operand::Const(count) if count.bits() == 1);
                let parts = [Part::One(to), Part::At(address), Part::One(count)];
                let said = if once { &parts[..2] } else { &parts[..] };
                self.instruction(&["mbarrier.arrive.shared.b64"], said);
            }
            (&Mbarrier::MbarrierArriveExpectTx { barrier, index, bytes }, Some(result)) => {
                let (address, bytes) = (self.address_of(barrier, index), self.operand(bytes));
                let to: Operand = self.def(result).into();
                let parts = [Part::One(to), Part::At(address), Part::One(bytes)];
                self.instruction(&["mbarrier.arrive.expect_tx.shared::cta.b64"], &parts);
            }
            (&Mbarrier::MbarrierArriveCluster { barrier, index, cta, order }, _) => {
                let cta = self.operand(cta);
                let own = self.address_register(barrier, index);
                let remote = self.temp(Class::B32);
                self.ins(&["mapa.shared::cluster.u32"], &[remote.into(), own.into(), cta]);
                let order = match order {
                    RemoteArrival::Plain => "",
                    RemoteArrival::Release => ".release.cluster",
                };
                self.begin();
                self.text.push("mbarrier.arrive");
                self.text.push(order);
                self.text.push(".shared::cluster.b64 _, [");
                self.text.reg(remote);
                self.text.push("];\n");
            }
            (&Mbarrier::MbarrierExpectTx { barrier, index, bytes }, _) => {
                let name = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64";
                self.at_barrier(name, [barrier, index], Some(bytes));
            }
            (&Mbarrier::MbarrierCompleteTx { barrier, index, bytes }, _) => {
                let name = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64";
                self.at_barrier(name, [barrier, index], Some(bytes));
            }
            (&Mbarrier::MbarrierTestWait { barrier, index, state }, Some(result)) => {
                self.test("mbarrier.test_wait.shared.b64", result, [barrier, index, state]);
            }
            (&Mbarrier::MbarrierTestWaitParity { barrier, index, parity }, Some(result)) => {
                let name = "mbarrier.test_wait.parity.shared.b64";
                self.test(name, result, [barrier, index, parity]);
            }
            (&Mbarrier::MbarrierTryWait { barrier, index, state }, Some(result)) => {
                self.test("mbarrier.try_wait.shared.b64", result, [barrier, index, state]);
            }
            (&Mbarrier::MbarrierTryWaitParity { barrier, index, parity }, Some(result)) => {
                let name = "mbarrier.try_wait.parity.shared.b64";
                self.test(name, result, [barrier, index, parity]);
            }
            (&Mbarrier::MbarrierWait { barrier, index, state }, _) => {
                self.wait("", [barrier, index, state]);
            }
            (&Mbarrier::MbarrierWaitParity { barrier, index, parity }, _) => {
                self.wait(".parity", [barrier, index, parity]);
            }
            (Mbarrier::FenceMbarrierInit {}, _) => {
                self.ins(&["fence.mbarrier_init.release.cluster"], &[]);
            }
            // The verifier has checked that the others have a result.
            (_, None) => {}
        }
    }

    fn at_barrier(&mut self, name: &str, [barrier, index]: [Value; 2], operand: Option<Value>) {
        let (address, operand) =
            (self.address_of(barrier, index), operand.map(|value| self.operand(value)));
        match operand {
            Some(operand) => self.instruction(&[name], &[Part::At(address), Part::One(operand)]),
            None => self.instruction(&[name], &[Part::At(address)]),
        }
    }

    fn test(&mut self, name: &str, result: Value, [barrier, index, phase]: [Value; 3]) {
        let (address, phase) = (self.address_of(barrier, index), self.phase(phase));
        let to = self.def(result);
        self.tested(name, to, address, phase);
    }

    /// Returns a phase operand: a state, which is never a constant that `ptxas` checks, or a
    /// parity.
    fn phase(&mut self, phase: Value) -> Operand {
        if self.ir.type_of(phase) == Scalar::U32.into() {
            self.operand_where(phase, |parity| parity <= 1)
        } else {
            let state = self.operand(phase);
            self.in_reg(state, Class::B64).into()
        }
    }

    fn tested(&mut self, name: &str, to: Reg, address: Address, phase: Operand) {
        let parts = [Part::One(to.into()), Part::At(address), Part::One(phase)];
        self.instruction(&[name], &parts);
    }

    /// Writes a loop that polls until the phase has ended.
    fn wait(&mut self, parity: &str, [barrier, index, phase]: [Value; 3]) {
        let (address, phase) = (self.address_of(barrier, index), self.phase(phase));
        let (done, number) = (self.temp(Class::Pred), self.number());
        let waits = if self.ir.target.offers(ir::Target::SM_90) { "try" } else { "test" };
        self.label("wait", number, "");
        let name = format!("mbarrier.{waits}_wait{parity}.shared.b64");
        self.tested(&name, done, address, phase);
        self.jump_if(done, true, Target::Label("wait", number, ""));
    }
}
