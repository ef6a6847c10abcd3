//! Writes assertions and `printf`. A failed assertion appends a record to the buffer that
//! [`AssertBuffer`](super::AssertBuffer) describes:
//!
//! ```text
//!   @%p3 bra $assert0_end;
//!   ld.param.u64 %trd0, [$asserts];                (0: failures are not recorded)
//!   setp.eq.u64 %tp0, %trd0, 0;
//!   @%tp0 bra $assert0_end;
//!   cvta.to.global.u64 %trd0, %trd0;
//!   atom.global.add.u64 %trd1, [%trd0], 1;         (the number of this failure)
//!   setp.ge.u64 %tp0, %trd1, 1024;
//!   @%tp0 bra $assert0_end;
//!   mad.lo.u64 %trd1, %trd1, 72, %trd0;
//!   st.global.b32 [%trd1+16], 7;                   (the record: operation, thread, block, values)
//!   ..
//! $assert0_end:
//! ```

use super::assert_buffer::AssertBuffer;
use super::control::Target;
use super::entry::Entry;
use super::regs::{Class, Operand, Reg};
use super::uses::condition;
use crate::ir::op::{Axis, Diagnostic};
use crate::ir::types::{Const, Scalar};
use crate::ir::{Entity, OpId, Value};

impl Entry<'_> {
    pub(super) fn diagnostic(&mut self, id: OpId, op: &Diagnostic) {
        match op {
            Diagnostic::Assert { cond, values, element, .. } => {
                self.assert(id, *cond, values, *element);
            }
            Diagnostic::Printf { format, values } => self.printf(format, values),
        }
    }

    fn assert(&mut self, id: OpId, cond: Value, values: &[Value], element: Option<Value>) {
        let (cond, negated) = condition(self.ir, cond);
        let known = match self.operand(cond) {
            Operand::Const(cond) => Some((cond.bits() != 0) != negated),
            Operand::Reg(_) | Operand::Int(_) => None,
        };
        if known == Some(true) {
            return;
        }
        let number = self.number();
        let end = Target::Label("assert", number, "_end");
        if let Operand::Reg(holds) = self.operand(cond) {
            self.jump_if(holds, negated, end);
        }
        let (buffer, record) = (self.temp(Class::B64), self.temp(Class::B64));
        let skip = self.temp(Class::Pred);
        self.begin();
        self.text.push("ld.param.u64 ");
        self.text.reg(buffer);
        self.text.push(", [");
        self.text.push(AssertBuffer::PARAM);
        self.text.push("];\n");
        self.ins(&["setp.eq.u64"], &[skip.into(), buffer.into(), Operand::Int(0)]);
        self.jump_if(skip, false, end);
        self.ins(&["cvta.to.global.u64"], &[buffer.into(), buffer.into()]);
        self.begin();
        self.text.push("atom.global.add.u64 ");
        self.text.reg(record);
        self.text.push(", [");
        self.text.reg(buffer);
        self.text.push("], 1;\n");
        let records = Operand::Int(AssertBuffer::RECORDS as i64);
        self.ins(&["setp.ge.u64"], &[skip.into(), record.into(), records]);
        self.jump_if(skip, false, end);
        let bytes = Operand::Int(AssertBuffer::RECORD_BYTES as i64);
        self.ins(&["mad.lo.u64"], &[record.into(), record.into(), bytes, buffer.into()]);

        self.record(record, "b32", 0, Operand::Int(id.index() as i64));
        let word = self.temp(Class::B32);
        for (name, at) in [("%tid", AssertBuffer::TID), ("%ctaid", AssertBuffer::CTAID)] {
            for axis in Axis::ALL {
                self.begin();
                self.text.push("mov.u32 ");
                self.text.reg(word);
                self.text.push(&format!(", {name}.{axis};\n"));
                self.record(record, "b32", at + 4 * axis.index(), word.into());
            }
        }
        let none = Operand::Const(Const::new(Scalar::U64, AssertBuffer::NO_ELEMENT));
        let element = element.map_or(none, |element| self.bits_of(element));
        self.record(record, "b64", AssertBuffer::ELEMENT, element);
        for (i, value) in values.iter().enumerate() {
            let bits = self.bits_of(*value);
            self.record(record, "b64", AssertBuffer::VALUES + 8 * i, bits);
        }
        self.label("assert", number, "_end");
    }

    /// Stores a part of a record.
    fn record(&mut self, record: Reg, ty: &str, at: usize, value: Operand) {
        self.begin();
        self.text.push("st.global.");
        self.text.push(ty);
        self.text.push(" [");
        self.text.reg(record);
        self.text.push("+");
        self.text.number((AssertBuffer::HEADER_BYTES + at) as u64);
        self.text.push("], ");
        self.text.operand(value);
        self.text.push(";\n");
    }

    /// Returns a value's bits in 64 bits. Those above its width have no meaning.
    fn bits_of(&mut self, value: Value) -> Operand {
        let reg = match self.operand(value) {
            Operand::Const(constant) => {
                return Operand::Const(Const::new(Scalar::U64, constant.bits()));
            }
            Operand::Int(number) => return Operand::Int(number),
            Operand::Reg(reg) => reg,
        };
        if reg.class() == Class::B64 {
            return reg.into();
        }
        let wide = self.temp(Class::B64);
        match reg.class() {
            Class::B64 => {}
            Class::F64 => self.ins(&["mov.b64"], &[wide.into(), reg.into()]),
            Class::B16 => self.ins(&["cvt.u64.u16"], &[wide.into(), reg.into()]),
            Class::B32 => self.ins(&["cvt.u64.u32"], &[wide.into(), reg.into()]),
            Class::F32 => {
                let bits = self.temp(Class::B32);
                self.ins(&["mov.b32"], &[bits.into(), reg.into()]);
                self.ins(&["cvt.u64.u32"], &[wide.into(), bits.into()]);
            }
            Class::Pred => {
                let operands = [wide.into(), Operand::Int(1), Operand::Int(0), reg.into()];
                self.ins(&["selp.b64"], &operands);
            }
        }
        wide.into()
    }
}
