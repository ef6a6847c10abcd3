//! Verifier rules for memory accesses: whether the attributes fit each other, the state space, the
//! element type and the alignment. Named barriers have theirs here too.

use super::{Report, VerifyError};
use crate::ir::analysis::alignment;
use crate::ir::entity::{OpId, RegionId, SharedId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{
    Atomic, AtomicOp, Cache, L2Policy, LoadCache, LoadOrder, Mem, Mma, Op, StoreOrder, Sync,
};
use crate::ir::types::{Scalar, Space, Type};
use crate::ir::vector::VectorType;

pub(super) fn check(report: &mut Report<'_>) {
    region(report, report.ir.body);
}

/// Recursion is safe because nesting depth is limited.
fn region(report: &mut Report<'_>, id: RegionId) {
    let ir = report.ir;
    for &op in &ir.regions[id].ops {
        check_op(report, op);
        for inner in ir.ops[op].op.regions() {
            region(report, inner);
        }
    }
}

/// The cache hints of a load or store, as the rules need them.
struct Hints {
    weak: bool,
    volatile: bool,
    operator: bool,
    evict: bool,
    /// Whether there is an L2 eviction policy.
    policy: bool,
    prefetch: bool,
    non_coherent: bool,
    /// Whether the read-only path supports the cache operator.
    read_only: bool,
}

fn check_op(report: &mut Report<'_>, op: OpId) {
    check_alignment(report, op);
    let data = &report.ir.ops[op].op;
    if let Op::Mem(Mem::Ld { base, access, .. } | Mem::LdVec { base, access, .. }) = data {
        let hints = Hints {
            weak: access.order == Default::default(),
            volatile: access.order == LoadOrder::Volatile,
            operator: access.cache.is_some(),
            evict: access.l1_evict.is_some(),
            policy: access.l2_policy != L2Policy::Default,
            prefetch: access.l2_prefetch.is_some(),
            non_coherent: access.non_coherent,
            read_only: !matches!(access.cache, Some(LoadCache::Lu | LoadCache::Cv)),
        };
        check_hints(report, op, *base, &hints);
    } else if let Op::Mem(Mem::St { base, access, .. } | Mem::StVec { base, access, .. }) = data {
        let hints = Hints {
            weak: access.order == Default::default(),
            volatile: access.order == StoreOrder::Volatile,
            operator: access.cache.is_some(),
            evict: access.l1_evict.is_some(),
            policy: access.l2_policy != L2Policy::Default,
            prefetch: false,
            non_coherent: false,
            read_only: true,
        };
        check_hints(report, op, *base, &hints);
    } else if let Op::Atomic(atomic) = data {
        match atomic {
            Atomic::Atom { base, op: kind, .. } | Atomic::Red { base, op: kind, .. } => {
                check_atomic(report, op, *base, Some(*kind));
            }
            Atomic::AtomCas { base, .. } => check_atomic(report, op, *base, None),
            Atomic::AtomVec { base, .. } | Atomic::RedVec { base, .. } => {
                check_atomic_space(report, op, *base);
            }
        }
    } else if let Op::Sync(
        Sync::BarrierSync { id, threads, .. }
        | Sync::BarrierArrive { id, threads, .. }
        | Sync::BarrierRed { id, threads, .. }
        | Sync::BarrierRedPopc { id, threads, .. },
    ) = data
    {
        check_barrier(report, op, *id, *threads);
    } else if let Op::Mma(Mma::Setmaxnreg { .. }) = data {
        let bounds = report.ir.bounds;
        let fixed = bounds.block.is_some() || bounds.max_threads.is_some();
        let beside = bounds.min_blocks_per_sm.is_some()
            || bounds.max_registers.is_some()
            || bounds.cluster_blocks().is_some();
        if !(fixed && beside) {
            report.at(op, VerifyError::SetmaxnregBounds);
        }
    } else if let Op::Cache(
        Cache::Prefetch { base, .. }
        | Cache::Discard { base, .. }
        | Cache::Applypriority { base, .. },
    ) = data
    {
        check_space(report, op, *base);
    }
}

/// Checks a named barrier's id and thread count, if they are constants.
fn check_barrier(report: &mut Report<'_>, op: OpId, id: Value, threads: Value) {
    let ir = report.ir;
    if let Some(id) = ir.integer(id).filter(|id| *id > 15) {
        report.at(op, VerifyError::BarrierId { id });
    }
    let possible = |threads: &i128| (1..=1024).contains(threads) && threads % 32 == 0;
    if let Some(threads) = ir.integer(threads).filter(|threads| !possible(threads)) {
        report.at(op, VerifyError::BarrierThreads { threads });
    }
}

/// Returns the base pointer, index and type of a vector access.
fn vector_access(ir: &KernelIr, op: OpId) -> Option<(Value, Value, VectorType)> {
    if let Op::Mem(Mem::LdVec { base, index, .. }) = ir.ops[op].op {
        let result = *ir.ops[op].results.first()?;
        Some((base, index, ir.type_of(result).vector()?))
    } else if let Op::Mem(Mem::StVec { base, index, vector, .. })
    | Op::Atomic(
        Atomic::AtomVec { base, index, vector, .. } | Atomic::RedVec { base, index, vector, .. },
    ) = ir.ops[op].op
    {
        Some((base, index, ir.type_of(vector).vector()?))
    } else {
        None
    }
}

fn check_alignment(report: &mut Report<'_>, op: OpId) {
    let ir = report.ir;
    if let Op::Mem(Mem::AssumeAligned { bytes, .. }) = ir.ops[op].op
        && !bytes.is_power_of_two()
    {
        report.at(op, VerifyError::AssumedAlignment { bytes });
    }
    let Some((base, index, vector)) = vector_access(ir, op) else { return };
    let bytes = vector.size_bytes();
    let rest = alignment::address(ir, base, index).rest_by(bytes.into());
    if rest != 0 {
        let op_name = ir.ops[op].op.name_with_attributes();
        report.at(op, VerifyError::MisalignedVector { op: op_name, vector, bytes, rest });
    } else if let Some((shared, align_bytes)) = allocation(ir, base)
        && align_bytes < bytes
    {
        let made = ir.locations[ir.shared[shared].location];
        report.at(op, VerifyError::VectorInShared { vector, bytes, shared, align_bytes, made });
    }
}

/// Returns the shared allocation that a pointer derives from, with its alignment. Returns `None` if
/// an alignment promise lies in between.
fn allocation(ir: &KernelIr, base: Value) -> Option<(SharedId, u32)> {
    let mut base = base;
    // The chain of definitions is finite because definitions dominate uses. The bound guards
    // against kernels that break this rule, which are rejected anyway.
    for _ in 0..ir.ops.len() {
        let ValueDef::Result(op, _) = ir.values[base].def else { return None };
        if let Op::Mem(Mem::Offset { base: from, .. }) = ir.ops[op].op {
            base = from;
        } else if let Op::Mem(Mem::SharedBase { shared }) = ir.ops[op].op {
            return ir.shared.get(shared).map(|data| (shared, data.align_bytes));
        } else {
            return None;
        }
    }
    None
}

/// Returns a pointer's space and element type. Other types are reported by another rule.
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
    let Hints { weak, volatile, operator, evict, policy, prefetch, non_coherent, read_only } =
        *hints;
    let name = || report.ir.ops[op].op.name_with_attributes();
    if let Some((space @ (Space::Local | Space::Const), _)) = pointee(report, base)
        && !weak
    {
        let error = VerifyError::OrderSpace { op: name(), space };
        report.at(op, error);
    } else if !weak && (operator || non_coherent) {
        let error = VerifyError::CacheWithOrder { op: name() };
        report.at(op, error);
    } else if non_coherent && !read_only {
        let error = VerifyError::CacheOfReadOnly { op: name() };
        report.at(op, error);
    } else if (evict && operator) || ((evict || policy) && volatile) {
        let error = VerifyError::CacheWithEviction { op: name() };
        report.at(op, error);
    } else if operator || evict || policy || prefetch || non_coherent {
        check_space(report, op, base);
    }
}

fn check_atomic_space(report: &mut Report<'_>, op: OpId, base: Value) {
    if let Some((space @ Space::Local, _)) = pointee(report, base) {
        let op_name = report.ir.ops[op].op.name_with_attributes();
        report.at(op, VerifyError::AtomicSpace { op: op_name, space });
    }
}

/// `kind` is `None` for `atom.cas`.
fn check_atomic(report: &mut Report<'_>, op: OpId, base: Value, kind: Option<AtomicOp>) {
    let Some((_, found)) = pointee(report, base) else { return };
    check_atomic_space(report, op, base);
    let wide = found.bits() >= 32;
    let half = matches!(found, Scalar::F16 | Scalar::Bf16);
    let (taken, expected) = match kind {
        Some(AtomicOp::Add) => {
            (half || (wide && found.is_number()), "i32, u32, i64, u64, f16, bf16, f32 and f64")
        }
        Some(AtomicOp::Min | AtomicOp::Max | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => {
            (wide && found.is_int(), "i32, u32, i64 and u64")
        }
        Some(AtomicOp::Inc | AtomicOp::Dec) => (found == Scalar::U32, "u32"),
        Some(AtomicOp::Exch) => (wide, "elements of 32 and 64 bits"),
        None => (found.bits() >= 16, "elements of 16, 32 and 64 bits"),
    };
    if !taken {
        let op_name = report.ir.ops[op].op.name_with_attributes();
        report.at(op, VerifyError::AtomicType { op: op_name, expected, found });
    }
}
