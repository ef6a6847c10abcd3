//! Passes: from a verified kernel to another one that computes the same.
//!
//! `lower` runs when a kernel is built: it carries out what the operations ask for, such as the unrolling
//! of a loop, so that code generation and the simulator see plain loops only.

mod rewrite;
mod unroll;
mod without_asserts;

pub(in crate::ir) use without_asserts::without_asserts;

use super::entity::RegionId;
use super::kernel::KernelIr;
use super::op::{Control, Op, Unroll};

/// Carries out what the operations of a verified kernel ask for: the new kernel, or `None` where they ask
/// for nothing. What cannot be carried out the verifier has refused.
pub(in crate::ir) fn lower(ir: &KernelIr) -> Option<KernelIr> {
    asks_for_unrolling(ir, ir.body).then(|| unroll::unroll(ir))
}

fn asks_for_unrolling(ir: &KernelIr, region: RegionId) -> bool {
    ir.regions[region].ops.iter().any(|op| {
        let op = &ir.ops[*op].op;
        matches!(op, Op::Control(Control::For { unroll: Unroll::By(_) | Unroll::Full, .. }))
            || op.regions().into_iter().any(|inner| asks_for_unrolling(ir, inner))
    })
}
