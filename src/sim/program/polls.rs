//! Finds kernels whose threads poll global memory. Their blocks may wait for each other, so
//! one schedule is not enough to test them (see
//! [`Order::RoundRobin`](crate::sim::Order::RoundRobin)).

use crate::ir::op::{Atomic, AtomicOp, Control, LoadOrder, Mem, Op};
use crate::ir::types::{Space, Type};
use crate::ir::{KernelIr, Value};

/// Returns whether the kernel polls global memory, which means that a `loop` contains a strong load
/// from it, a compare-and-swap or an exchange.
pub(in crate::sim) fn polls(ir: &KernelIr) -> bool {
    let mut left = vec![(ir.body, false)];
    while let Some((region, in_loop)) = left.pop() {
        let ops = ir.regions.get(region).into_iter().flat_map(|region| &region.ops);
        for op in ops.filter_map(|op| ir.ops.get(*op)) {
            if in_loop && polled(&op.op).is_some_and(|base| may_be_global(ir, base)) {
                return true;
            }
            let in_loop = in_loop || matches!(op.op, Op::Control(Control::Loop { .. }));
            left.extend(op.op.regions().into_iter().map(|region| (region, in_loop)));
        }
    }
    false
}

/// Returns the pointer, if the operation asks for a value that another thread may write.
fn polled(op: &Op) -> Option<Value> {
    if let Op::Mem(Mem::Ld { base, access, .. } | Mem::LdVec { base, access, .. }) = op
        && access.order != LoadOrder::Weak
    {
        return Some(*base);
    }
    if let Op::Atomic(
        Atomic::AtomCas { base, .. } | Atomic::Atom { base, op: AtomicOp::Exch, .. },
    ) = op
    {
        return Some(*base);
    }
    None
}

fn may_be_global(ir: &KernelIr, base: Value) -> bool {
    let ty = ir.values.get(base).map(|data| data.ty);
    matches!(ty, Some(Type::Pointer { space: Space::Global | Space::Generic, .. }))
}
