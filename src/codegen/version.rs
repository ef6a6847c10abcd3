//! Computes which version of the PTX ISA each operation needs, so that a module declares the lowest
//! version that suffices and older drivers accept it. Add an entry here if a new operation needs a
//! newer PTX ISA than its row in the op table says.

use super::ptx::PtxVersion;
use crate::ir::op::{
    Atomic, AtomicOp, Cache, Clamp, ClusterArrival, Convert, L2Policy, Mem, MemScope, Mma, Op,
    PrefetchLevel, SpecialReg, Sync, Thread,
};
use crate::ir::types::Scalar;
use crate::ir::{KernelIr, Target};

const fn version(major: u16, minor: u16) -> PtxVersion {
    PtxVersion { major, minor }
}

/// The version of `sm_80`, which has every operation unless its row or a rule names a later one.
pub(super) const FIRST: PtxVersion = version(7, 0);

/// Returns the first version that has the operation, with its attributes and operand types.
pub(super) fn of(op: &Op, ir: &KernelIr) -> PtxVersion {
    let row = op.info().map_or(FIRST, |info| version(info.version.0, info.version.1));
    row.max(of_attributes(op, ir))
}

/// Returns the version that attributes and operand types need, or `FIRST` if the row says it all.
fn of_attributes(op: &Op, ir: &KernelIr) -> PtxVersion {
    match (op, op.support(ir)) {
        // Conversions of 8-bit floating point came to `sm_90` together with that target, and to
        // `sm_89` later.
        (
            Op::Convert(Convert::Cvt { .. } | Convert::CvtRounded { .. }) | Op::Diagnostic(_),
            Ok(Target::SM_89),
        ) if ir.target.sm() < 90 => version(8, 1),
        (Op::Convert(Convert::CvtRounded { mode, to, .. }), _)
            if matches!(mode.clamp, Clamp::Satfinite | Clamp::SatfiniteRelu) && to.bits() > 8 =>
        {
            version(8, 1)
        }
        (Op::Thread(Thread::Sreg { reg }), _) => special(*reg),
        (Op::Mem(Mem::Ld { access, .. } | Mem::LdVec { access, .. }), _) => {
            let hinted = access.l1_evict.is_some()
                || access.l2_prefetch.is_some()
                || access.l2_policy != L2Policy::Default;
            scoped(access.order.scope()).max(if hinted { version(7, 4) } else { FIRST })
        }
        (Op::Mem(Mem::St { access, .. } | Mem::StVec { access, .. }), _) => {
            let hinted = access.l1_evict.is_some() || access.l2_policy != L2Policy::Default;
            scoped(access.order.scope()).max(if hinted { version(7, 4) } else { FIRST })
        }
        (
            Op::Mem(Mem::Cvta { .. } | Mem::CvtaTo { .. } | Mem::Isspacep { .. }),
            Ok(Target::SM_90),
        ) => version(7, 8),
        (
            Op::Atomic(
                Atomic::AtomVec { vector, op: kind, .. } | Atomic::RedVec { vector, op: kind, .. },
            ),
            _,
        ) if ir.type_of(*vector).bits() > 32 || *kind != AtomicOp::Add => version(8, 1),
        // `bf16` sums came together with their target.
        (Op::Atomic(_), Ok(Target::SM_90)) => version(7, 8),
        (
            Op::Atomic(
                Atomic::AtomVec { scope, .. }
                | Atomic::RedVec { scope, .. }
                | Atomic::Atom { scope, .. }
                | Atomic::AtomCas { scope, .. }
                | Atomic::Red { scope, .. },
            ),
            _,
        ) => scoped(Some(*scope)),
        (Op::Cache(Cache::Prefetch { level, .. }), _)
            if !matches!(level, PrefetchLevel::L1 | PrefetchLevel::L2) =>
        {
            version(7, 4)
        }
        (Op::Inline(op), _) => {
            let (major, minor) = op.ptx.version();
            version(major, minor)
        }
        (Op::Sync(Sync::Fence { scope, .. }), _) => scoped(Some(*scope)),
        (Op::Sync(Sync::BarrierClusterArrive { order: ClusterArrival::Relaxed, .. }), _) => {
            version(8, 0)
        }
        (Op::Mma(Mma::Wgmma { a_type, b_type, .. }), _) if a_type.is_int() && a_type != b_type => {
            version(8, 4)
        }
        (Op::Mma(Mma::WgmmaRs { a, b_type, .. }), _)
            if b_type.is_int()
                && ir.values.get(*a).and_then(|a| a.ty.vector()).map(|a| a.elem())
                    != Some(*b_type) =>
        {
            version(8, 4)
        }
        (Op::Mma(Mma::WgmmaSp { a_type, b_type, .. }), _)
            if a_type.is_int() && a_type != b_type =>
        {
            version(8, 4)
        }
        (Op::Mma(Mma::WgmmaRsSp { a, b_type, .. }), _)
            if b_type.is_int()
                && ir.values.get(*a).and_then(|a| a.ty.vector()).map(|a| a.elem())
                    != Some(*b_type) =>
        {
            version(8, 4)
        }
        // One form of the 8-bit floating point MMA came first: k32 with `f32` accumulators.
        (Op::Mma(Mma::MmaSync { shape, d, .. }), Ok(Target::SM_89)) => {
            let in_f32 = ir.vars.get(*d).is_some_and(|var| var.ty == Scalar::F32.into());
            if shape.k == 32 && in_f32 { version(8, 4) } else { version(8, 7) }
        }
        (Op::Mma(Mma::MmaSync { .. }), Ok(Target::SM_90)) => version(7, 8),
        (_, _) => FIRST,
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
