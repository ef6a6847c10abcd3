//! Computes the version of the PTX ISA that each operation needs.

use super::ptx::PtxVersion;
use crate::ir::{
    Arith, AsyncCopy, Atomic, AtomicOp, Cache, Clamp, ClusterArrival, KernelIr, Mbarrier, Mem,
    MemScope, Mma, Op, PrefetchLevel, Scalar, SpecialReg, Sync, Target, Thread, Warp,
};

const fn version(major: u16, minor: u16) -> PtxVersion {
    PtxVersion { major, minor }
}

/// The version that has every operation without a rule below: that of `sm_80`.
pub(super) const FIRST: PtxVersion = version(7, 0);

/// The first version that has the operation with its attributes, on the types of its operands.
pub(super) fn of(op: &Op, ir: &KernelIr) -> PtxVersion {
    match op {
        // Conversions of 8-bit floating point came to `sm_90` with that target, to `sm_89` later.
        Op::Arith(Arith::Cvt { .. } | Arith::CvtRounded { .. }) | Op::Diagnostic(_)
            if op.support(ir) == Ok(Target::SM_89) && ir.target.sm() < 90 =>
        {
            version(8, 1)
        }
        Op::Arith(Arith::CvtRounded { mode, to, .. })
            if matches!(mode.clamp, Clamp::Satfinite | Clamp::SatfiniteRelu) && to.bits() > 8 =>
        {
            version(8, 1)
        }
        Op::Arith(
            Arith::AddPacked { .. }
            | Arith::MinPacked { .. }
            | Arith::MaxPacked { .. }
            | Arith::MinRelu { .. }
            | Arith::MaxRelu { .. },
        ) => version(8, 0),
        Op::Arith(Arith::Szext { .. } | Arith::Bmsk { .. }) => version(7, 6),
        Op::Arith(Arith::Sreg { reg }) => special(*reg),
        Op::Sync(Sync::GriddepcontrolWait {} | Sync::GriddepcontrolLaunchDependents {}) => {
            version(7, 8)
        }
        Op::Mem(Mem::Ld { access, .. } | Mem::LdVec { access, .. }) => {
            let hinted = access.l1_evict.is_some() || access.l2_prefetch.is_some();
            scoped(access.order.scope()).max(if hinted { version(7, 4) } else { FIRST })
        }
        Op::Mem(Mem::St { access, .. } | Mem::StVec { access, .. }) => {
            let hinted = access.l1_evict.is_some();
            scoped(access.order.scope()).max(if hinted { version(7, 4) } else { FIRST })
        }
        Op::Atomic(
            Atomic::AtomVec { vector, op: kind, .. } | Atomic::RedVec { vector, op: kind, .. },
        ) if ir.type_of(*vector).bits() > 32 || *kind != AtomicOp::Add => version(8, 1),
        // Sums of `bf16` came with their target.
        Op::Atomic(_) if op.support(ir) == Ok(Target::SM_90) => version(7, 8),
        Op::Atomic(
            Atomic::AtomVec { scope, .. }
            | Atomic::RedVec { scope, .. }
            | Atomic::Atom { scope, .. }
            | Atomic::AtomCas { scope, .. }
            | Atomic::Red { scope, .. },
        ) => scoped(Some(*scope)),
        Op::Cache(Cache::Prefetch { level: PrefetchLevel::L1 | PrefetchLevel::L2, .. }) => FIRST,
        Op::Cache(Cache::Prefetch { .. } | Cache::Discard { .. } | Cache::Applypriority { .. }) => {
            version(7, 4)
        }
        Op::Inline(op) => {
            let (major, minor) = op.ptx.version();
            version(major, minor)
        }
        Op::Sync(Sync::Fence { scope, .. }) => scoped(Some(*scope)),
        Op::Mma(Mma::Wgmma { a_type, b_type, .. }) if a_type.is_int() && a_type != b_type => {
            version(8, 4)
        }
        Op::Mma(Mma::WgmmaRs { a, b_type, .. })
            if b_type.is_int()
                && ir.values.get(*a).and_then(|a| a.ty.vector()).map(|a| a.elem())
                    != Some(*b_type) =>
        {
            version(8, 4)
        }
        Op::Mma(
            Mma::Wgmma { .. }
            | Mma::WgmmaRs { .. }
            | Mma::WgmmaFence {}
            | Mma::WgmmaCommitGroup {}
            | Mma::WgmmaWaitGroup { .. }
            | Mma::Setmaxnreg { .. },
        ) => version(8, 0),
        Op::Mma(Mma::Stmatrix { .. } | Mma::Movmatrix { .. }) => version(7, 8),
        // One form of products of 8-bit floating point came first: k32 with sums in `f32`.
        Op::Mma(Mma::MmaSync { shape, d, .. }) if op.support(ir) == Ok(Target::SM_89) => {
            let in_f32 = ir.vars.get(*d).is_some_and(|var| var.ty == Scalar::F32.into());
            if shape.k == 32 && in_f32 { version(8, 4) } else { version(8, 7) }
        }
        Op::Mma(Mma::MmaSync { .. } | Mma::MmaSyncF64 { .. })
            if op.support(ir) == Ok(Target::SM_90) =>
        {
            version(7, 8)
        }
        Op::Mma(Mma::MmaSyncF64 { .. }) => version(7, 8),
        Op::Mma(Mma::MmaSync { .. } | Mma::Ldmatrix { .. } | Mma::MatrixDescriptor { .. }) => FIRST,
        Op::Mbarrier(
            Mbarrier::MbarrierArriveExpectTx { .. }
            | Mbarrier::MbarrierArriveCluster { .. }
            | Mbarrier::MbarrierExpectTx { .. }
            | Mbarrier::MbarrierCompleteTx { .. }
            | Mbarrier::FenceMbarrierInit {},
        ) => version(8, 0),
        Op::Mbarrier(Mbarrier::MbarrierTryWait { .. } | Mbarrier::MbarrierTryWaitParity { .. }) => {
            version(7, 8)
        }
        Op::Mbarrier(
            Mbarrier::MbarrierTestWaitParity { .. } | Mbarrier::MbarrierWaitParity { .. },
        ) => version(7, 1),
        Op::Mbarrier(
            Mbarrier::MbarrierInit { .. }
            | Mbarrier::MbarrierInval { .. }
            | Mbarrier::MbarrierArrive { .. }
            | Mbarrier::MbarrierTestWait { .. }
            | Mbarrier::MbarrierWait { .. },
        )
        | Op::AsyncCopy(
            AsyncCopy::CpAsync { .. }
            | AsyncCopy::CpAsyncCommitGroup {}
            | AsyncCopy::CpAsyncWaitGroup { .. }
            | AsyncCopy::CpAsyncWaitAll {}
            | AsyncCopy::CpAsyncMbarrierArrive { .. },
        ) => version(7, 0),
        Op::AsyncCopy(
            AsyncCopy::CpAsyncBulkLoad { .. }
            | AsyncCopy::CpAsyncBulkStore { .. }
            | AsyncCopy::CpAsyncBulkPrefetch { .. }
            | AsyncCopy::CpAsyncBulkTensorLoad { .. }
            | AsyncCopy::CpAsyncBulkTensorMulticast { .. }
            | AsyncCopy::CpAsyncBulkTensorStore { .. }
            | AsyncCopy::CpReduceAsyncBulkTensor { .. }
            | AsyncCopy::CpAsyncBulkPrefetchTensor { .. }
            | AsyncCopy::CpAsyncBulkCommitGroup {}
            | AsyncCopy::CpAsyncBulkWaitGroup { .. }
            | AsyncCopy::PrefetchTensormap { .. },
        ) => version(8, 0),
        Op::Sync(Sync::BarrierClusterArrive { order: ClusterArrival::Relaxed, .. }) => {
            version(8, 0)
        }
        Op::Sync(Sync::BarrierClusterArrive { .. } | Sync::BarrierClusterWait { .. }) => {
            version(7, 8)
        }
        Op::Mem(Mem::Cvta { .. } | Mem::CvtaTo { .. } | Mem::Isspacep { .. })
            if op.support(ir) == Ok(Target::SM_90) =>
        {
            version(7, 8)
        }
        Op::Mem(Mem::Cvta { .. } | Mem::CvtaTo { .. } | Mem::Isspacep { .. }) => FIRST,
        Op::Mem(Mem::PtrToInt { .. }) => FIRST,
        Op::Mem(Mem::Mapa { .. } | Mem::Getctarank { .. }) => version(7, 8),
        Op::Sync(Sync::FenceProxyAlias {}) => version(7, 5),
        Op::AsyncCopy(AsyncCopy::StAsync { .. } | AsyncCopy::RedAsync { .. }) => version(8, 1),
        Op::Warp(Warp::Elect { .. }) | Op::Sync(Sync::FenceProxyAsync { .. }) => version(8, 0),
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
        | Op::Mem(
            Mem::Offset { .. }
            | Mem::LocalBase { .. }
            | Mem::AssumeAligned { .. }
            | Mem::SharedBase { .. }
            | Mem::PtrCast { .. }
            | Mem::ArrayBase { .. }
            | Mem::GetVar { .. }
            | Mem::SetVar { .. },
        )
        | Op::Sync(
            Sync::Barrier {}
            | Sync::BarrierSync { .. }
            | Sync::BarrierArrive { .. }
            | Sync::BarrierRed { .. }
            | Sync::BarrierRedPopc { .. },
        )
        | Op::Thread(
            Thread::VolatileSreg { .. }
            | Thread::Nanosleep { .. }
            | Thread::Trap {}
            | Thread::Brkpt {},
        )
        | Op::Control(_) => FIRST,
    }
}

fn scoped(scope: Option<MemScope>) -> PtxVersion {
    if scope == Some(MemScope::Cluster) { version(7, 8) } else { FIRST }
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
