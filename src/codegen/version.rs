//! The version of the PTX ISA that each operation needs.

use super::ptx::PtxVersion;
use crate::ir::{Arith, KernelIr, Op, SpecialReg, Sync, Target, Thread, Warp};

const fn version(major: u16, minor: u16) -> PtxVersion {
    PtxVersion { major, minor }
}

/// The version that has everything of which nothing else is said: that of `sm_80`.
pub(super) const FIRST: PtxVersion = version(7, 0);

/// The first version that has the operation with its attributes, on the types of its operands.
pub(super) fn of(op: &Op, ir: &KernelIr) -> PtxVersion {
    match op {
        // Conversions of 8-bit floating point came to `sm_90` with that target, to `sm_89` later.
        Op::Arith(Arith::Cvt { .. })
            if op.first_target_on(ir) == Target::SM_89 && ir.target.sm() < 90 =>
        {
            version(8, 1)
        }
        Op::Arith(Arith::Sreg { reg }) => special(*reg),
        Op::Sync(Sync::GriddepcontrolWait {} | Sync::GriddepcontrolLaunchDependents {}) => {
            version(7, 8)
        }
        Op::Warp(Warp::Elect { .. }) => version(8, 0),
        Op::Warp(
            Warp::Shfl { .. }
            | Warp::Vote { .. }
            | Warp::VoteBallot { .. }
            | Warp::MatchAny { .. }
            | Warp::MatchAll { .. }
            | Warp::Redux { .. }
            | Warp::BarWarp { .. }
            | Warp::Activemask {},
        )
        | Op::Const(_)
        | Op::Diagnostic(_)
        | Op::Arith(_)
        | Op::Mem(_)
        | Op::Sync(Sync::Barrier {})
        | Op::Thread(
            Thread::VolatileSreg { .. }
            | Thread::Nanosleep { .. }
            | Thread::Trap {}
            | Thread::Brkpt {},
        )
        | Op::Control(_) => FIRST,
    }
}

fn special(reg: SpecialReg) -> PtxVersion {
    use SpecialReg as R;
    match reg {
        R::AggrSmemSize => version(8, 1),
        R::IsExplicitCluster
        | R::ClusterId(_)
        | R::NClusterId(_)
        | R::ClusterCtaid(_)
        | R::ClusterNctaid(_)
        | R::ClusterCtaRank
        | R::ClusterNctaRank => version(7, 8),
        R::Tid(_) | R::Ntid(_) | R::Ctaid(_) | R::Nctaid(_) => FIRST,
        R::LaneId | R::NWarpId | R::NSmId | R::GridId => FIRST,
        R::LaneMaskEq | R::LaneMaskLe | R::LaneMaskLt | R::LaneMaskGe | R::LaneMaskGt => FIRST,
        R::DynamicSmemSize | R::TotalSmemSize => FIRST,
    }
}
