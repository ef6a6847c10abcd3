//! Negations of `i32` in kernels with a `min` or `max` of that type.
//!
//! For `sm_90` the compiler behind PTX (`ptxas` 13.0.88, and that of the driver of CUDA 13.0) makes one instruction of two
//! nested minima or maxima, `VIMNMX3`, and loses the sign of the second operand of the inner one:
//! `min(a, min(b, -c))` is computed as `min(a, min(b, c))`. It sees through registers, and takes `0 - c` and `c * -1` for
//! negations too. A complement and a sum with 1 are none to it.

use super::entry::Entry;
use super::regs::Operand;
use crate::ir::{Arith, KernelIr, Op, OpId, Scalar, Type, Value};

/// Whether the kernel has a `min` or `max` of `i32`.
pub(super) fn compares(ir: &KernelIr) -> bool {
    let compares = |op: OpId| match ir.ops[op].op {
        Op::Arith(Arith::Min { lhs, .. } | Arith::Max { lhs, .. }) => is_i32(ir, lhs),
        _ => false,
    };
    ir.reached_ops().into_iter().any(compares)
}

fn is_i32(ir: &KernelIr, value: Value) -> bool {
    ir.type_of(value) == Type::Scalar(Scalar::I32)
}

impl Entry<'_> {
    /// What the operation negates, if that is written in two steps.
    pub(super) fn negated(&self, op: &Arith) -> Option<Value> {
        let is = |value: Value, int: i128| match self.operand(value) {
            Operand::Const(constant) => constant.as_int() == Some(int),
            Operand::Reg(_) | Operand::Int(_) => false,
        };
        let value = match *op {
            Arith::Neg { value } => value,
            Arith::Sub { lhs, rhs } if is(lhs, 0) => rhs,
            Arith::Mul { lhs, rhs } if is(rhs, -1) => lhs,
            Arith::Mul { lhs, rhs } if is(lhs, -1) => rhs,
            _ => return None,
        };
        (self.compares && is_i32(self.ir, value)).then_some(value)
    }

    /// `-value` as `!value + 1`.
    pub(super) fn negate(&mut self, result: Value, value: Value) {
        let (to, value) = (self.def(result), self.operand(value));
        self.ins(&["not.b32"], &[to.into(), value]);
        self.ins(&["add.s32"], &[to.into(), to.into(), Operand::Int(1)]);
    }
}
