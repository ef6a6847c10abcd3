//! Writes inline PTX, the text that a kernel's author wrote, in a scope of its own, so that its
//! names cannot clash with other names.

use super::arith::narrow_range;
use super::entry::Entry;
use super::regs::{Class, Operand};
use crate::ir::op::{Inline, PtxPiece};
use crate::ir::types::{Scalar, Type};
use crate::ir::{OpId, Value};

impl Entry<'_> {
    pub(super) fn inline(&mut self, id: OpId, inline: &Inline) {
        let results: Vec<Value> = self.ir.ops[id].results.iter().copied().collect();
        let mut registers = Vec::new();
        for result in &results {
            registers.push(self.def(*result));
        }
        for operand in &inline.operands {
            let (class, value) = (Class::of(self.ir.type_of(*operand)), self.operand(*operand));
            let operand = self.in_reg(value, class);
            // The text may write a result before it has read its operands, so no register may
            // be both. It may also overwrite an operand that others still read.
            let copy = self.temp(class);
            self.mov(copy, operand.into());
            registers.push(copy);
        }
        // The verifier has parsed it.
        let pieces = inline.ptx.pieces(registers.len()).unwrap_or_default();
        self.begin();
        self.text.push("{\n");
        self.text.indent();
        self.text.begin();
        for piece in pieces {
            match piece {
                PtxPiece::Text(text) => {
                    for (i, line) in text.split('\n').enumerate() {
                        if i > 0 {
                            self.text.push("\n");
                            self.text.begin();
                        }
                        self.text.push(if i > 0 { line.trim_start() } else { line });
                    }
                }
                PtxPiece::Place(place) => {
                    if let Some(register) = registers.get(place) {
                        self.text.reg(*register);
                    }
                }
            }
        }
        self.text.push("\n");
        self.text.dedent();
        self.begin();
        self.text.push("}\n");
        for result in results {
            if let Type::Scalar(scalar) = self.ir.type_of(result) {
                self.normalise(result, scalar);
            }
        }
    }

    /// Extends a narrow integer, because the text may leave anything in its upper bits.
    fn normalise(&mut self, result: Value, scalar: Scalar) {
        if narrow_range(scalar).is_none() {
            return;
        }
        let to = self.def(result);
        let bits = Operand::Int(scalar.bits().into());
        let name = if scalar.is_signed() { "bfe.s32" } else { "bfe.u32" };
        self.ins(&[name], &[to.into(), to.into(), Operand::Int(0), bits]);
    }
}
