//! Memory: what attributes of an access go together, with the space and the element of its pointer.

use super::{Report, VerifyError};
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::op::{Atomic, AtomicOp, Cache, LoadCache, Mem, Op};
use crate::ir::types::{Scalar, Space, Type};

pub(super) fn check(report: &mut Report<'_>) {
    region(report, report.ir.body);
}

/// The depth of regions is limited.
fn region(report: &mut Report<'_>, id: RegionId) {
    let ir = report.ir;
    for &op in &ir.regions[id].ops {
        check_op(report, op);
        for inner in ir.ops[op].op.regions() {
            region(report, inner);
        }
    }
}

/// What a load or a store says about caches.
struct Hints {
    weak: bool,
    operator: bool,
    evict: bool,
    prefetch: bool,
    non_coherent: bool,
    /// Whether the read-only path has the cache operator.
    read_only: bool,
}

fn check_op(report: &mut Report<'_>, op: OpId) {
    match &report.ir.ops[op].op {
        Op::Mem(Mem::Ld { base, access, .. }) => {
            let hints = Hints {
                weak: access.order == Default::default(),
                operator: access.cache.is_some(),
                evict: access.l1_evict.is_some(),
                prefetch: access.l2_prefetch.is_some(),
                non_coherent: access.non_coherent,
                read_only: !matches!(access.cache, Some(LoadCache::Lu | LoadCache::Cv)),
            };
            check_hints(report, op, *base, &hints);
        }
        Op::Mem(Mem::St { base, access, .. }) => {
            let hints = Hints {
                weak: access.order == Default::default(),
                operator: access.cache.is_some(),
                evict: access.l1_evict.is_some(),
                prefetch: false,
                non_coherent: false,
                read_only: true,
            };
            check_hints(report, op, *base, &hints);
        }
        Op::Atomic(Atomic::Atom { base, op: kind, .. } | Atomic::Red { base, op: kind, .. }) => {
            check_atomic(report, op, *base, Some(*kind));
        }
        Op::Atomic(Atomic::AtomCas { base, .. }) => check_atomic(report, op, *base, None),
        Op::Cache(
            Cache::Prefetch { base, .. }
            | Cache::Discard { base, .. }
            | Cache::Applypriority { base, .. },
        ) => check_space(report, op, *base),
        Op::Const(_)
        | Op::Arith(_)
        | Op::Mem(
            Mem::Offset { .. }
            | Mem::SharedBase { .. }
            | Mem::ArrayBase { .. }
            | Mem::GetVar { .. }
            | Mem::SetVar { .. },
        )
        | Op::Sync(_)
        | Op::Warp(_)
        | Op::Thread(_)
        | Op::Diagnostic(_)
        | Op::Inline(_)
        | Op::Control(_) => {}
    }
}

/// The space and the element of a pointer; another type is another rule's concern.
fn pointee(report: &Report<'_>, base: Value) -> Option<(Space, Scalar)> {
    match report.ir.type_of(base) {
        Type::Pointer { space, elem, .. } => Some((space, elem)),
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => None,
    }
}

fn check_space(report: &mut Report<'_>, op: OpId, base: Value) {
    if let Some((space, _)) = pointee(report, base)
        && space != Space::Global
    {
        let op_name = report.ir.ops[op].op.name_with_attributes();
        report.at(op, VerifyError::CacheSpace { op: op_name, space });
    }
}

fn check_hints(report: &mut Report<'_>, op: OpId, base: Value, hints: &Hints) {
    let Hints { weak, operator, evict, prefetch, non_coherent, read_only } = *hints;
    let name = || report.ir.ops[op].op.name_with_attributes();
    if !weak && (operator || non_coherent) {
        let error = VerifyError::CacheWithOrder { op: name() };
        report.at(op, error);
    } else if non_coherent && !read_only {
        let error = VerifyError::CacheOfReadOnly { op: name() };
        report.at(op, error);
    } else if operator && evict {
        let error = VerifyError::CacheWithEviction { op: name() };
        report.at(op, error);
    } else if operator || evict || prefetch || non_coherent {
        check_space(report, op, base);
    }
}

/// `kind` is that of an operation with one operand; `None` stands for `atom.cas`.
fn check_atomic(report: &mut Report<'_>, op: OpId, base: Value, kind: Option<AtomicOp>) {
    let Some((_, found)) = pointee(report, base) else { return };
    let wide = found.bits() >= 32;
    let (taken, expected) = match kind {
        Some(AtomicOp::Add) => (wide && found.is_number(), "i32, u32, i64, u64, f32 and f64"),
        Some(AtomicOp::Min | AtomicOp::Max | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => {
            (wide && found.is_int(), "i32, u32, i64 and u64")
        }
        Some(AtomicOp::Inc | AtomicOp::Dec) => (found == Scalar::U32, "u32"),
        Some(AtomicOp::Exch) | None => (wide, "elements of 32 and 64 bits"),
    };
    if !taken {
        let op_name = report.ir.ops[op].op.name_with_attributes();
        report.at(op, VerifyError::AtomicType { op: op_name, expected, found });
    }
}
