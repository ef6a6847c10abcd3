//! Synchronisation: what all threads of a block must do together.

use super::{Report, VerifyError};
use crate::ir::analysis::uniformity::Uniformity;
use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Op, Sync};

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut barriers = Vec::new();
    collect(ir, ir.body, &mut barriers);
    if barriers.is_empty() {
        return;
    }
    let uniformity = Uniformity::new(ir);
    for op in barriers {
        if let Some(branch) = uniformity.divergence_of(op) {
            let (branch, place) = (ir.ops[branch].op.name(), ir.place_of(branch));
            report.at(op, VerifyError::DivergentBarrier { branch, place });
        }
    }
}

/// The barriers of a region and of the regions inside it. The depth of regions is limited.
fn collect(ir: &KernelIr, region: RegionId, barriers: &mut Vec<OpId>) {
    for &op in &ir.regions[region].ops {
        if let Op::Sync(Sync::Barrier {}) = &ir.ops[op].op {
            barriers.push(op);
        }
        for inner in ir.ops[op].op.regions() {
            collect(ir, inner, barriers);
        }
    }
}
