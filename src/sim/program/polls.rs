//! Finds kernels whose threads poll global memory, because the blocks of such a kernel may wait for
//! each other. With race detection, a launch of such a kernel also runs under
//! [`Order::Fine`](crate::sim::Order::Fine).

use crate::ir::op::{Atomic, AtomicOp, Control, LoadOrder, Mem, Op};
use crate::ir::types::{Space, Type};
use crate::ir::{KernelIr, Value, ValueDef};

/// Returns whether the kernel polls global memory: whether a `loop` contains a strong load, an
/// exchange, or a compare-and-swap with a constant, which takes a lock.
///
/// A compare-and-swap with a value that the loop has read is not a poll, because it only retries an
/// atomic update. The kernel must have been verified.
pub(in crate::sim) fn polls(ir: &KernelIr) -> bool {
    let mut left = vec![(ir.body, false)];
    while let Some((region, in_loop)) = left.pop() {
        let ops = ir.regions.get(region).into_iter().flat_map(|region| &region.ops);
        for op in ops.filter_map(|op| ir.ops.get(*op)) {
            if in_loop && polled(ir, &op.op).is_some_and(|base| may_be_global(ir, base)) {
                return true;
            }
            let in_loop = in_loop || matches!(op.op, Op::Control(Control::Loop { .. }));
            left.extend(op.op.regions().into_iter().map(|region| (region, in_loop)));
        }
    }
    false
}

/// Returns the pointer of an operation that may read a value for which the thread polls; `None` for
/// every other operation.
fn polled(ir: &KernelIr, op: &Op) -> Option<Value> {
    if let Op::Mem(Mem::Ld { base, access, .. } | Mem::LdVec { base, access, .. }) = op
        && access.order != LoadOrder::Weak
    {
        return Some(*base);
    }
    if let Op::Atomic(Atomic::Atom { base, op: AtomicOp::Exch, .. }) = op {
        return Some(*base);
    }
    if let Op::Atomic(Atomic::AtomCas { base, compare, .. }) = op
        && is_constant(ir, *compare)
    {
        return Some(*base);
    }
    None
}

fn may_be_global(ir: &KernelIr, base: Value) -> bool {
    let ty = ir.values.get(base).map(|data| data.ty);
    matches!(ty, Some(Type::Pointer { space: Space::Global | Space::Generic, .. }))
}

fn is_constant(ir: &KernelIr, value: Value) -> bool {
    let Some(ValueDef::Result(op, _)) = ir.values.get(value).map(|data| data.def) else {
        return false;
    };
    ir.ops.get(op).is_some_and(|data| matches!(data.op, Op::Const(_)))
}
