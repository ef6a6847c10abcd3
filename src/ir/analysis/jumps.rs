//! Finds operations that jump, and loops without jumps. The unrolling pass and the analyses behind
//! prefetching ask it, because they cannot transform a body that jumps out.

use std::collections::HashSet;

use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Control, Op};

/// Returns whether a thread may not reach the next operation, because this one contains a `return`
/// or a jump out of itself.
pub(in crate::ir) fn leaves(ir: &KernelIr, op: OpId) -> bool {
    let mut open = vec![op];
    let mut loops = HashSet::new();
    while let Some(inner) = open.pop() {
        let data = &ir.ops[inner];
        if let Op::Control(control) = &data.op {
            match control {
                Control::Return => return true,
                Control::Continue { target, .. } | Control::Break { target, .. } => {
                    if !loops.contains(target) {
                        return true;
                    }
                }
                Control::For { .. } | Control::Loop { .. } => {
                    loops.insert(inner);
                }
                Control::If { .. } | Control::Yield { .. } => {}
            }
        }
        for region in data.op.regions() {
            open.extend(&ir.regions[region].ops);
        }
    }
    false
}

/// Returns whether the body of loop `id` has no jump of that loop except the `continue` at its end.
pub(in crate::ir) fn is_straight(ir: &KernelIr, id: OpId, body: RegionId) -> bool {
    let jumps = |op: &Op| {
        matches!(op, Op::Control(Control::Continue { target, .. } | Control::Break { target, .. })
            if *target == id)
    };
    let Some((last, ops)) = ir.regions[body].ops.split_last() else { return false };
    let ends =
        matches!(&ir.ops[*last].op, Op::Control(Control::Continue { target, .. }) if *target == id);
    ends && !ops.iter().any(|op| any(ir, *op, &jumps))
}

/// Returns whether the operation or one nested in it satisfies `has`.
pub(in crate::ir) fn any(ir: &KernelIr, op: OpId, has: &dyn Fn(&Op) -> bool) -> bool {
    find(ir, op, has).is_some()
}

/// Returns the first operation that satisfies `has`: this one, or one nested in it.
pub(in crate::ir) fn find(ir: &KernelIr, op: OpId, has: &dyn Fn(&Op) -> bool) -> Option<OpId> {
    if has(&ir.ops[op].op) {
        return Some(op);
    }
    let regions = ir.ops[op].op.regions();
    let mut ops = regions.into_iter().flat_map(|region| &ir.regions[region].ops);
    ops.find_map(|op| find(ir, *op, has))
}
