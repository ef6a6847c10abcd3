//! Verifier rules for barriers and warp operations: all threads of the block or warp reach them
//! together. Otherwise a GPU would hang or return wrong results.

use super::{Report, VerifyError};
use crate::ir::analysis::uniformity::{Scope, Uniformity};
use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Op, Together};

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut found = Found::default();
    collect(ir, ir.body, &mut found);
    if !found.of_block.is_empty() {
        let uniformity = Uniformity::new(ir, Scope::Block);
        for op in found.of_block {
            if let Some(branch) = uniformity.divergence_of(op) {
                let (branch, location) = (ir.ops[branch].op.name(), ir.location_of(branch));
                report.at(op, VerifyError::DivergentBarrier { branch, location });
            }
        }
    }
    if !found.of_warp.is_empty() {
        let uniformity = Uniformity::new(ir, Scope::Warp);
        for op in found.of_warp {
            if let Some(branch) = uniformity.divergence_of(op) {
                let op_name = ir.ops[op].op.name();
                let is_barrier = matches!(ir.ops[op].op, Op::Sync(_));
                let (branch, location) = (ir.ops[branch].op.name(), ir.location_of(branch));
                report.at(
                    op,
                    if is_barrier {
                        VerifyError::DivergentNamedBarrier { op: op_name, branch, location }
                    } else {
                        VerifyError::DivergentWarpOp { op: op_name, branch, location }
                    },
                );
            }
        }
    }
}

/// The operations that threads must execute together.
#[derive(Default)]
struct Found {
    /// By all threads of the block.
    of_block: Vec<OpId>,
    /// By all threads of the warp.
    of_warp: Vec<OpId>,
}

/// Collects operations from a region and its inner regions. Recursion is safe because nesting depth
/// is limited.
fn collect(ir: &KernelIr, region: RegionId, found: &mut Found) {
    for &op in &ir.regions[region].ops {
        match ir.ops[op].op.info().and_then(|info| info.together) {
            Some(Together::Block) => found.of_block.push(op),
            Some(Together::Warp) => found.of_warp.push(op),
            Some(Together::Members) if is_whole_warp(ir, op) => found.of_warp.push(op),
            Some(Together::Members) | None => {}
        }
        for inner in ir.ops[op].op.regions() {
            collect(ir, inner, found);
        }
    }
}

/// Returns whether the operation's mask `members` is known to contain all lanes. The simulator
/// checks other masks at run time.
fn is_whole_warp(ir: &KernelIr, op: OpId) -> bool {
    let data = &ir.ops[op].op;
    let position = data
        .info()
        .and_then(|info| info.operands.iter().position(|(operand, _)| *operand == "members"));
    let operands = data.operands();
    position
        .and_then(|position| ir.constant(*operands.get(position)?))
        .is_some_and(|mask| mask.bits() == u64::from(u32::MAX))
}
