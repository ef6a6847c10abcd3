//! Checks that all threads of a block or warp reach a collective operation together.

use super::{Report, VerifyError};
use crate::ir::analysis::uniformity::{Scope, Uniformity};
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Mma, Op, Sync, Warp};

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut found = Found::default();
    collect(ir, ir.body, &mut found);
    if !found.of_block.is_empty() {
        let uniformity = Uniformity::new(ir, Scope::Block);
        for op in found.of_block {
            if let Some(branch) = uniformity.divergence_of(op) {
                let (branch, place) = (ir.ops[branch].op.name(), ir.place_of(branch));
                report.at(op, VerifyError::DivergentBarrier { branch, place });
            }
        }
    }
    if !found.of_warp.is_empty() {
        let uniformity = Uniformity::new(ir, Scope::Warp);
        for op in found.of_warp {
            if let Some(branch) = uniformity.divergence_of(op) {
                let op_name = ir.ops[op].op.name();
                let is_barrier = matches!(ir.ops[op].op, Op::Sync(_));
                let (branch, place) = (ir.ops[branch].op.name(), ir.place_of(branch));
                report.at(
                    op,
                    if is_barrier {
                        VerifyError::DivergentNamedBarrier { op: op_name, branch, place }
                    } else {
                        VerifyError::DivergentWarpOp { op: op_name, branch, place }
                    },
                );
            }
        }
    }
}

/// The operations that threads execute together.
#[derive(Default)]
struct Found {
    /// All threads of a block.
    of_block: Vec<OpId>,
    /// All threads of a warp.
    of_warp: Vec<OpId>,
}

/// Collects from a region and from the regions inside it. The depth of regions is limited.
fn collect(ir: &KernelIr, region: RegionId, found: &mut Found) {
    for &op in &ir.regions[region].ops {
        match &ir.ops[op].op {
            Op::Sync(Sync::Barrier {}) => found.of_block.push(op),
            // A warp comes to these as a whole.
            Op::Sync(
                Sync::BarrierSync { .. }
                | Sync::BarrierArrive { .. }
                | Sync::BarrierRed { .. }
                | Sync::BarrierRedPopc { .. }
                | Sync::BarrierClusterArrive { .. }
                | Sync::BarrierClusterWait { .. },
            ) => found.of_warp.push(op),
            Op::Mma(mma) if !matches!(mma, Mma::MatrixDescriptor { .. }) => {
                found.of_warp.push(op);
            }
            Op::Warp(warp) if members(warp).is_some_and(|members| is_whole_warp(ir, members)) => {
                found.of_warp.push(op);
            }
            Op::Const(_)
            | Op::Arith(_)
            | Op::FloatArith(_)
            | Op::IntArith(_)
            | Op::Convert(_)
            | Op::Mem(_)
            | Op::Atomic(_)
            | Op::Cache(_)
            | Op::Sync(
                Sync::Fence { .. }
                | Sync::FenceProxyAlias {}
                | Sync::FenceProxyAsync { .. }
                | Sync::GriddepcontrolWait {}
                | Sync::GriddepcontrolLaunchDependents {},
            )
            | Op::Mma(_)
            | Op::Mbarrier(_)
            | Op::AsyncCopy(_)
            | Op::Warp(_)
            | Op::Thread(_)
            | Op::Diagnostic(_)
            | Op::Inline(_)
            | Op::Control(_) => {}
        }
        for inner in ir.ops[op].op.regions() {
            collect(ir, inner, found);
        }
    }
}

/// The member mask of an operation.
fn members(op: &Warp) -> Option<Value> {
    match *op {
        Warp::Shfl { members, .. }
        | Warp::Vote { members, .. }
        | Warp::VoteBallot { members, .. }
        | Warp::MatchAny { members, .. }
        | Warp::MatchAll { members, .. }
        | Warp::Redux { members, .. }
        | Warp::Elect { members }
        | Warp::BarWarp { members } => Some(members),
        Warp::Activemask {} => None,
    }
}

/// Returns whether a member mask is known to name all lanes. The simulator checks other masks.
fn is_whole_warp(ir: &KernelIr, members: Value) -> bool {
    ir.constant(members).is_some_and(|mask| mask.bits() == u64::from(u32::MAX))
}
