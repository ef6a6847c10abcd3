//! Atomic operations, and what caches are told.

use super::entry::Entry;
use super::mem::{Place, of_space};
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::{Atomic, AtomicOp, Cache, Scalar, Value};

impl Entry<'_> {
    pub(super) fn atomic(&mut self, op: &Atomic, result: Option<Value>) {
        match (op, result) {
            (&Atomic::Atom { base, index, value, op, order, scope }, Some(result)) => {
                let (space, elem) = self.pointee(base);
                let (place, value) = (self.place_of(base, index), self.operand(value));
                let to = self.def(result);
                let value = self.as_bits(op, value, to.class());
                let name = [
                    "atom.",
                    order.name(),
                    ".",
                    scope.name(),
                    of_space(space),
                    ".",
                    op.name(),
                    ".",
                    atomic_type(op, elem),
                ];
                self.at_place(&name, Some(to), place, &[value]);
            }
            (&Atomic::AtomCas { base, index, compare, value, order, scope }, Some(result)) => {
                let (space, _) = self.pointee(base);
                let place = self.place_of(base, index);
                let operands = [compare, value].map(|value| self.operand(value));
                let to = self.def(result);
                let operands =
                    operands.map(|operand| self.as_bits(AtomicOp::Exch, operand, to.class()));
                let name = [
                    "atom.",
                    order.name(),
                    ".",
                    scope.name(),
                    of_space(space),
                    ".cas.",
                    to.class().bits_name(),
                ];
                self.at_place(&name, Some(to), place, &operands);
            }
            (&Atomic::Red { base, index, value, op, order, scope }, _) => {
                let (space, elem) = self.pointee(base);
                let (place, value) = (self.place_of(base, index), self.operand(value));
                let (order, scope) = (order.name(), scope.name());
                if op == AtomicOp::Exch {
                    // There is no `red` of it: it is the atomic operation whose result nothing uses.
                    let class = Class::of_scalar(elem);
                    let (unused, ty) = (self.temp(class), class.bits_name());
                    let value = self.as_bits(op, value, class);
                    let name =
                        ["atom.", order, ".", scope, of_space(space), ".", op.name(), ".", ty];
                    return self.at_place(&name, Some(unused), place, &[value]);
                }
                let ty = atomic_type(op, elem);
                let name = ["red.", order, ".", scope, of_space(space), ".", op.name(), ".", ty];
                self.at_place(&name, None, place, &[value]);
            }
            // The verifier has seen that these have a result.
            (Atomic::Atom { .. } | Atomic::AtomCas { .. }, None) => {}
        }
    }

    /// The operand of an instruction that takes it as bits: `ptxas` takes no immediate operand of floating
    /// point there.
    fn as_bits(&mut self, op: AtomicOp, operand: Operand, class: Class) -> Operand {
        match class {
            Class::F32 | Class::F64 if op == AtomicOp::Exch => self.in_reg(operand, class).into(),
            _ => operand,
        }
    }

    /// An instruction on memory: what it writes, the place, what it reads.
    pub(super) fn at_place(
        &mut self,
        name: &[&str],
        to: Option<Reg>,
        place: Place,
        operands: &[Operand],
    ) {
        self.begin();
        name.iter().for_each(|part| self.text.push(part));
        self.text.push(" ");
        if let Some(to) = to {
            self.text.reg(to);
            self.text.push(", ");
        }
        self.write_place(place);
        for operand in operands {
            self.text.push(", ");
            self.text.operand(*operand);
        }
        self.text.push(";\n");
    }

    pub(super) fn cache(&mut self, op: &Cache) {
        match *op {
            Cache::Prefetch { base, index, level } => {
                let place = self.place_of(base, index);
                self.at_place(&["prefetch.global.", level.name()], None, place, &[]);
            }
            Cache::Discard { base, index } => {
                let place = self.place_of(base, index);
                self.at_place(&["discard.global.L2"], None, place, &[Operand::Int(128)]);
            }
            Cache::Applypriority { base, index } => {
                let place = self.place_of(base, index);
                let name = ["applypriority.global.L2::evict_normal"];
                self.at_place(&name, None, place, &[Operand::Int(128)]);
            }
        }
    }
}

/// The type of an atomic instruction. Sums of 64 bits are unsigned, which has the same bits.
fn atomic_type(op: AtomicOp, elem: Scalar) -> &'static str {
    match (op, elem) {
        (AtomicOp::Add, Scalar::I64) => "u64",
        (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch, _) => {
            if elem.bits() == 64 {
                "b64"
            } else {
                "b32"
            }
        }
        _ => arith_type(elem),
    }
}
