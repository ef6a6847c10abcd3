//! Works around a compiler bug: writes negations of `i32` differently in kernels with a `min` or
//! `max` on that type.
//!
//! For `sm_90`, the compiler behind PTX (`ptxas` 13.0.88, and that of CUDA 13.0's driver) merges
//! two nested minima or maxima into one instruction, `VIMNMX3`, and loses the sign of the inner
//! one's second operand: `min(a, min(b, -c))` is computed as `min(a, min(b, c))`. It sees through
//! registers, and also recognises `0 - c` and `c * -1` as negations. It does not recognise a
//! complement plus 1.

use super::entry::Entry;
use super::regs::{Class, Operand, Reg};
use crate::ir::op::{Arith, Op};
use crate::ir::types::{Scalar, Type};
use crate::ir::{KernelIr, Value};

/// Returns whether the kernel has a `min` or `max` on `i32`.
pub(super) fn compares(ir: &KernelIr) -> bool {
    ir.reached_ops().into_iter().any(|op| {
        let Op::Arith(Arith::Min { lhs, .. } | Arith::Max { lhs, .. }) = ir.ops[op].op else {
            return false;
        };
        ir.type_of(lhs) == Type::Scalar(Scalar::I32)
    })
}

impl Entry<'_> {
    /// Returns whether `-value` has to be written in two steps.
    pub(super) fn loses_sign(&self, value: Value) -> bool {
        self.compares && self.ir.type_of(value) == Type::Scalar(Scalar::I32)
    }

    /// Returns whether `value` is the constant `int`, and `-other` has to be written in two steps.
    pub(super) fn negates(&self, value: Value, int: i128, other: Value) -> bool {
        let is = matches!(self.operand(value), Operand::Const(x) if x.as_int() == Some(int));
        is && self.loses_sign(other)
    }

    /// Writes `-value` as `!value + 1`.
    pub(super) fn negate(&mut self, result: Value, value: Value) {
        let (to, value) = (self.def(result), self.operand(value));
        self.complement_and_add(to, value);
    }

    /// Sets `to` to `-value`, in two steps if the kernel has a `min` or `max` on `i32`.
    pub(super) fn negate_into(&mut self, to: Reg, value: Operand) {
        match to.class() {
            Class::B64 => self.ins(&["neg.s64"], &[to.into(), value]),
            _ if self.compares => self.complement_and_add(to, value),
            _ => self.ins(&["neg.s32"], &[to.into(), value]),
        }
    }

    fn complement_and_add(&mut self, to: Reg, value: Operand) {
        self.ins(&["not.b32"], &[to.into(), value]);
        self.ins(&["add.s32"], &[to.into(), to.into(), Operand::Int(1)]);
    }
}
