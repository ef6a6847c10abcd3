//! Writes instructions with operands of several kinds: addresses, register lists, tensor boxes. The
//! modules for copies, MMAs and barriers use it; simple instructions need only [`Entry::ins`].

use super::entry::Entry;
use super::mem::Address;
use super::regs::{Class, Operand};
use crate::ir::Value;

/// An operand in the form in which it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'p> {
    /// A register or a constant.
    One(Operand),
    /// `[register+offset]`
    At(Address),
    /// `{register, ..}`
    List(&'p [Operand]),
    /// `[map, {coordinate, ..}]`
    Box(Operand, &'p [Operand]),
}

impl Entry<'_> {
    /// Returns a 32-bit operand. A constant that `holds` rejects is put into a register, because
    /// `ptxas` refuses it as an immediate. The verifier has refused literal constants of this kind,
    /// but folded operations that are never executed may still yield any constant.
    pub(super) fn operand_where(&mut self, value: Value, holds: impl Fn(u64) -> bool) -> Operand {
        match self.operand(value) {
            operand @ Operand::Const(constant) if !holds(constant.bits()) => {
                self.in_reg(operand, Class::B32).into()
            }
            operand => operand,
        }
    }

    /// Returns the byte count of a bulk copy.
    pub(super) fn bulk_bytes(&mut self, bytes: Value) -> Operand {
        self.operand_where(bytes, |bytes| bytes <= 0xffff0 && bytes.is_multiple_of(16))
    }

    /// Writes an instruction: the parts of its name, then its operands.
    pub(super) fn instruction(&mut self, name: &[&str], parts: &[Part<'_>]) {
        self.begin();
        name.iter().for_each(|part| self.text.push(part));
        for (i, part) in parts.iter().enumerate() {
            self.text.push(if i == 0 { " " } else { ", " });
            match *part {
                Part::One(operand) => self.text.operand(operand),
                Part::At(address) => self.write_address(address),
                Part::List(operands) => self.list(operands),
                Part::Box(map, coords) => {
                    self.text.push("[");
                    self.text.operand(map);
                    self.text.push(", ");
                    self.list(coords);
                    self.text.push("]");
                }
            }
        }
        self.text.push(";\n");
    }

    fn list(&mut self, operands: &[Operand]) {
        self.text.push("{");
        for (i, operand) in operands.iter().enumerate() {
            if i > 0 {
                self.text.push(", ");
            }
            self.text.operand(*operand);
        }
        self.text.push("}");
    }
}
