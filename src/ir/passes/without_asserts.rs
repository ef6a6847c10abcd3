//! Removes assertions, so that a kernel that was debugged with assertions pays nothing for them in
//! a release build. `Kernel::without_asserts` runs it.
//!
//! * Every `assert` is removed.
//! * Constants and pure operations that only assertions used are removed too.
//! * All other operations are kept. In particular, loads are kept because they may fault, and so is
//!   all control flow.

use crate::ir::entity::{Entity, OpId};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Diagnostic, Effect, Op};

/// Returns the verified kernel without its assertions.
#[inline]
pub(in crate::ir) fn without_asserts(ir: &KernelIr) -> KernelIr {
    let mut users = vec![0usize; ir.values.len()];
    let mut removed = vec![false; ir.ops.len()];
    let mut asserts = Vec::new();
    for (_, region) in ir.regions.iter() {
        for id in &region.ops {
            let op = &ir.ops[*id].op;
            op.operands().iter().for_each(|value| users[value.index()] += 1);
            if matches!(op, Op::Diagnostic(Diagnostic::Assert { .. })) {
                asserts.push(*id);
            }
        }
    }
    // Operations to remove. Removing one may leave its operands unused.
    let mut next = asserts;
    while let Some(id) = next.pop() {
        removed[id.index()] = true;
        for value in ir.ops[id].op.operands() {
            users[value.index()] -= 1;
            if let ValueDef::Result(made, _) = ir.values[value].def
                && ir.ops[made].results.iter().all(|result| users[result.index()] == 0)
                && only_computes(ir, made)
                && !removed[made.index()]
            {
                next.push(made);
            }
        }
    }
    let mut out = ir.clone();
    for region in ir.regions.keys() {
        out.regions[region].ops.retain(|id| !removed[id.index()]);
    }
    out
}

fn only_computes(ir: &KernelIr, id: OpId) -> bool {
    let op = &ir.ops[id].op;
    matches!(op, Op::Const(_)) || op.info().is_some_and(|info| info.effect == Effect::Pure)
}
