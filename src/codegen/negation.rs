//! Writes negations of `i32` in kernels with a `min` or `max` of that type.
//!
//! For `sm_90` the compiler behind PTX (`ptxas` 13.0.88, and that of the driver of CUDA 13.0) makes one instruction of two
//! nested minima or maxima, `VIMNMX3`, and loses the sign of the second operand of the inner one:
//! `min(a, min(b, -c))` is computed as `min(a, min(b, c))`. It sees through registers, and takes `0 - c` and `c * -1` for
//! negations too. A complement and a sum with 1 are none to it.

use super::entry::Entry;
use super::regs::{Class, Operand, Reg};
use crate::ir::op::{Arith, Op};
use crate::ir::types::{Scalar, Type};
use crate::ir::{KernelIr, Value};

/// Returns whether the kernel has a `min` or `max` of `i32`.
pub(super) fn compares(ir: &KernelIr) -> bool {
    ir.reached_ops().into_iter().any(|op| {
        let Op::Arith(Arith::Min { lhs, .. } | Arith::Max { lhs, .. }) = ir.ops[op].op else {
            return false;
        };
        ir.type_of(lhs) == Type::Scalar(Scalar::I32)
    })
}

impl Entry<'_> {
    /// Returns whether `-value` is written in two steps.
    pub(super) fn loses_sign(&self, value: Value) -> bool {
        self.compares && self.ir.type_of(value) == Type::Scalar(Scalar::I32)
    }

    /// Returns whether `value` is the constant `int` and `-other` is written in two steps.
    pub(super) fn negates(&self, (value, int): (Value, i128), other: Value) -> bool {
        let is = matches!(self.operand(value), Operand::Const(x) if x.as_int() == Some(int));
        is && self.loses_sign(other)
    }

    /// `-value` as `!value + 1`.
    pub(super) fn negate(&mut self, result: Value, value: Value) {
        let (to, value) = (self.def(result), self.operand(value));
        self.complement_and_add(to, value);
    }

    /// `to` becomes `-value`, in two steps where the kernel has a `min` or `max` of `i32`.
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
