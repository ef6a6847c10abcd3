//! Writes warp operations such as shuffles and votes, reads of special registers that may change,
//! and requests to the hardware.

use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::Value;
use crate::ir::op::{ReduxOp, ShflMode, Thread, Warp};
use crate::ir::types::Scalar;

impl Entry<'_> {
    pub(super) fn warp(&mut self, op: &Warp, results: &[Value]) {
        match (op, results) {
            (&Warp::Shfl { value, lane, segment, members, mode }, &[result, inside]) => {
                let operands = [lane, segment, members].map(|value| self.operand(value));
                let inside = self.uses.is_live(inside).then(|| self.def(inside));
                self.shfl(mode, result, inside, value, operands);
            }
            (&Warp::Vote { pred, members, mode }, &[result]) => {
                let (pred, members) = (self.operand(pred), self.operand(members));
                let to = self.def(result);
                self.ins(&["vote.sync.", mode.name(), ".pred"], &[to.into(), pred, members]);
            }
            (&Warp::VoteBallot { pred, members }, &[result]) => {
                let (pred, members) = (self.operand(pred), self.operand(members));
                let to = self.def(result);
                self.ins(&["vote.sync.ballot.b32"], &[to.into(), pred, members]);
            }
            (&Warp::MatchAny { value, members }, &[result]) => {
                let (value, members) = (self.in_wide_reg(value), self.operand(members));
                let to = self.def(result);
                let name = ["match.any.sync.", value.class().bits_name()];
                self.ins(&name, &[to.into(), value.into(), members]);
            }
            (&Warp::MatchAll { value, members }, &[result, all]) => {
                let (value, members) = (self.in_wide_reg(value), self.operand(members));
                let to = self.def(result);
                let all = self.uses.is_live(all).then(|| self.def(all));
                let name = ["match.all.sync.", value.class().bits_name()];
                self.pair(&name, to, all, &[value.into(), members]);
            }
            // `ptxas` 13.0 crashes on some kernels in which nothing reads the result of `redux`.
            (&Warp::Redux { members, .. }, &[result]) if !self.uses.is_live(result) => {
                let members = self.operand(members);
                self.ins(&["bar.warp.sync"], &[members]);
            }
            (&Warp::Redux { value, members, op }, &[result]) => {
                let (value, members) = (self.in_own_reg(value), self.operand(members));
                let to = self.def(result);
                let ty = match op {
                    ReduxOp::Add | ReduxOp::Min | ReduxOp::Max => arith_type(self.scalar(result)),
                    ReduxOp::And | ReduxOp::Or | ReduxOp::Xor => "b32",
                };
                let name = ["redux.sync.", op.name(), ".", ty];
                self.ins(&name, &[to.into(), value.into(), members]);
            }
            (&Warp::Elect { members }, &[leader, is_leader]) => {
                let members = self.operand(members);
                let (leader, is_leader) = (self.def(leader), self.def(is_leader));
                self.pair(&["elect.sync"], leader, Some(is_leader), &[members]);
            }
            (&Warp::BarWarp { members }, _) => {
                let members = self.operand(members);
                self.ins(&["bar.warp.sync"], &[members]);
            }
            (&Warp::Activemask {}, &[result]) => {
                let to = self.def(result);
                self.ins(&["activemask.b32"], &[to.into()]);
            }
            // The verifier has checked that these have their results.
            (
                Warp::Shfl { .. }
                | Warp::Vote { .. }
                | Warp::VoteBallot { .. }
                | Warp::MatchAny { .. }
                | Warp::MatchAll { .. }
                | Warp::Redux { .. }
                | Warp::Elect { .. }
                | Warp::Activemask {},
                _,
            ) => {}
        }
    }

    /// Returns the value in a register of its class.
    fn in_own_reg(&mut self, value: Value) -> Reg {
        let (class, operand) = (Class::of(self.ir.type_of(value)), self.operand(value));
        self.in_reg(operand, class)
    }

    /// Like [`in_own_reg`](Entry::in_own_reg), with at least 32 bits.
    fn in_wide_reg(&mut self, value: Value) -> Reg {
        let reg = self.in_own_reg(value);
        if reg.class() != Class::B16 {
            return reg;
        }
        let word = self.temp(Class::B32);
        self.ins(&["cvt.u32.u16"], &[word.into(), reg.into()]);
        word
    }

    /// Writes an instruction with the results `first|second`, or only the first if the second is
    /// not used.
    fn pair(&mut self, name: &[&str], first: Reg, second: Option<Reg>, operands: &[Operand]) {
        self.begin();
        name.iter().for_each(|part| self.text.push(part));
        self.text.push(" ");
        self.text.reg(first);
        if let Some(second) = second {
            self.text.push("|");
            self.text.reg(second);
        }
        for operand in operands {
            self.text.push(", ");
            self.text.operand(*operand);
        }
        self.text.push(";\n");
    }

    /// Shuffles have 32 bits: a `bool` travels as a number, 16 bits in a word, and wider values in
    /// two halves.
    fn shfl(
        &mut self,
        mode: ShflMode,
        result: Value,
        inside: Option<Reg>,
        value: Value,
        [lane, segment, members]: [Operand; 3],
    ) {
        let name = ["shfl.sync.", mode.name(), ".b32"];
        let from = self.in_own_reg(value);
        let to = self.def(result);
        match to.class() {
            Class::B32 | Class::F32 => {
                self.pair(&name, to, inside, &[from.into(), lane, segment, members]);
            }
            Class::Pred => {
                let [number, moved] = [Class::B32; 2].map(|class| self.temp(class));
                let operands = [number.into(), Operand::Int(1), Operand::Int(0), from.into()];
                self.ins(&["selp.b32"], &operands);
                self.pair(&name, moved, inside, &[number.into(), lane, segment, members]);
                self.ins(&["setp.ne.u32"], &[to.into(), moved.into(), Operand::Int(0)]);
            }
            Class::B16 => {
                let [word, moved] = [Class::B32; 2].map(|class| self.temp(class));
                self.ins(&["cvt.u32.u16"], &[word.into(), from.into()]);
                self.pair(&name, moved, inside, &[word.into(), lane, segment, members]);
                self.ins(&["cvt.u16.u32"], &[to.into(), moved.into()]);
            }
            Class::B64 | Class::F64 => {
                let [low, high] = [Class::B32; 2].map(|class| self.temp(class));
                let [moved_low, moved_high] = [Class::B32; 2].map(|class| self.temp(class));
                self.mov_halves([low, high], from);
                self.pair(&name, moved_low, inside, &[low.into(), lane, segment, members]);
                self.pair(&name, moved_high, None, &[high.into(), lane, segment, members]);
                self.mov_joined(to, [moved_low, moved_high]);
            }
        }
    }

    /// Splits a 64-bit register into halves, the low one first.
    pub(super) fn mov_halves(&mut self, [low, high]: [Reg; 2], from: Reg) {
        self.begin();
        self.text.push("mov.b64 {");
        self.text.reg(low);
        self.text.push(", ");
        self.text.reg(high);
        self.text.push("}, ");
        self.text.reg(from);
        self.text.push(";\n");
    }

    /// Joins two halves, the low one first, into a 64-bit register.
    pub(super) fn mov_joined(&mut self, to: Reg, [low, high]: [Reg; 2]) {
        self.begin();
        self.text.push("mov.b64 ");
        self.text.reg(to);
        self.text.push(", {");
        self.text.reg(low);
        self.text.push(", ");
        self.text.reg(high);
        self.text.push("};\n");
    }

    pub(super) fn thread(&mut self, op: &Thread, result: Option<Value>) {
        match (op, result) {
            (&Thread::VolatileSreg { reg }, Some(result)) => {
                self.read_special(result, reg.scalar(), &reg.to_string());
            }
            (&Thread::Sreg { reg }, Some(result)) => {
                self.read_special(result, reg.scalar(), &reg.to_string());
            }
            (Thread::Sreg { .. } | Thread::VolatileSreg { .. }, None) => {}
            (&Thread::Nanosleep { nanoseconds }, _) => {
                let nanoseconds = self.operand(nanoseconds);
                self.ins(&["nanosleep.u32"], &[nanoseconds]);
            }
            (&Thread::Trap {}, _) => self.ins(&["trap"], &[]),
            (&Thread::Brkpt {}, _) => self.ins(&["brkpt"], &[]),
        }
    }

    /// Sets `result` to the special register `name`.
    pub(super) fn read_special(&mut self, result: Value, scalar: Scalar, name: &str) {
        let to = self.def(result);
        let ty = if scalar == Scalar::Bool { "pred" } else { unsigned(scalar) };
        self.begin();
        self.text.push("mov.");
        self.text.push(ty);
        self.text.push(" ");
        self.text.reg(to);
        self.text.push(", %");
        self.text.push(name);
        self.text.push(";\n");
    }
}

/// Returns the type of a special register. All are unsigned.
fn unsigned(scalar: Scalar) -> &'static str {
    if scalar.bits() == 64 { "u64" } else { "u32" }
}
