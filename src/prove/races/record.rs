//! [`Record`]: an access as the walk finds it, with what is known at its place.

use crate::ir::op::{AsyncCopy, Atomic, Cache, LoadOrder, Mem, MemScope, Mma, Op, StoreOrder};
use crate::ir::{Access, AccessBytes, KernelIr, OpId};

use super::super::claim::Deps;
use super::super::facts::{Equality, Fact};
use super::super::pointer::{Pointer, Root};
use super::super::poly::Poly;
use super::super::range::Range;
use super::super::site::Verdict;
use super::super::walk::Walk;

/// Offsets within this many bytes are exact, because sums of a few of them do not wrap.
const EXACT: i128 = 1 << 58;

#[derive(Clone, Debug)]
pub(in crate::prove) struct Record {
    pub(super) op: OpId,
    pub(super) root: Root,
    /// The first byte, and how many follow, if both are known.
    pub(super) bytes: Option<(Poly, i128)>,
    pub(super) deps: Deps,
    pub(super) is_store: bool,
    /// The scope and size of an atomic access.
    pub(super) atomic: Option<(MemScope, i128)>,
    /// Whether the lanes of a warp make it together, with each other's addresses.
    pub(super) is_collective: bool,
    /// Whether it is a `cp.async`, which ends when its thread has waited for it.
    pub(super) is_copy: bool,
    /// Why the access is not ordered with the thread's other operations.
    pub(super) asynchronous: Option<&'static str>,
    pub(super) facts: Vec<Fact>,
    pub(super) equalities: Vec<Equality>,
    /// Set if the place cannot be reached.
    pub(super) dead: Option<Deps>,
    /// How many sites came before. A loop's body may be walked twice.
    site: usize,
}

impl Walk<'_> {
    /// Returns what it relies on that the pointer's offset did not wrap.
    fn is_exact(&mut self, pointer: &Pointer) -> Option<Deps> {
        let mut deps = 0;
        for part in &pointer.loose {
            deps |= self.is_within(part, Range::new(-EXACT, EXACT))?;
        }
        Some(deps)
    }

    /// Records an access, if somebody wants to know.
    pub(in crate::prove) fn record(&mut self, id: OpId, access: &Access, pointer: &Pointer) {
        if self.records.is_none() {
            return;
        }
        let mark = self.mark();
        if let Some(lanes) = access.lanes {
            self.only_lanes(lanes);
        }
        let ir = self.ir;
        let elem_bytes = self.elem_bytes(access.base);
        let target = self.advanced(pointer, access.index, elem_bytes);
        let is_inside =
            matches!(self.sites.last().map(|site| &site.verdict), Some(Verdict::Relies(_)));
        let mut deps = match self.sites.last().map(|site| &site.verdict) {
            Some(Verdict::Relies(deps)) => *deps,
            _ => 0,
        };
        let bytes = match (target, access.bytes) {
            (Some(target), AccessBytes::Known(bytes)) => {
                let exact = self.is_exact(&target);
                // What is inside its allocation did not wrap either.
                if let Some(own) = exact {
                    deps = target.deps | own;
                }
                let (offset, own) = self.without_extrema(&target.offset);
                deps |= own;
                (exact.is_some() || is_inside).then_some((offset, i128::from(bytes)))
            }
            _ => None,
        };
        let local = self.facts.all.get(self.facts.universal..).unwrap_or_default().to_vec();
        let record = Record {
            op: id,
            root: pointer.root,
            bytes,
            deps,
            is_store: access.is_store,
            atomic: atomic(ir, id),
            is_collective: matches!(ir.ops[id].op, Op::Mma(_)),
            is_copy: matches!(ir.ops[id].op, Op::AsyncCopy(AsyncCopy::CpAsync { .. })),
            asynchronous: asynchronous(&ir.ops[id].op),
            facts: local,
            equalities: self.facts.equalities.clone(),
            dead: self.facts.dead,
            site: self.sites.len(),
        };
        self.back_to(mark);
        let sites = record.site;
        if let Some(records) = &mut self.records {
            // What an earlier walk of the same body found does not count.
            while records.last().is_some_and(|last| last.site >= sites) {
                records.pop();
            }
            records.push(record);
        }
    }
}

/// Returns the scope and size of an access that may happen at the same time as others of its kind.
fn atomic(ir: &KernelIr, id: OpId) -> Option<(MemScope, i128)> {
    let scope = if let Op::Atomic(atomic) = &ir.ops[id].op {
        match atomic {
            Atomic::Atom { scope, .. }
            | Atomic::AtomCas { scope, .. }
            | Atomic::Red { scope, .. } => *scope,
            Atomic::AtomVec { .. } | Atomic::RedVec { .. } => return None,
        }
    } else if let Op::Mem(Mem::Ld { access, .. }) = &ir.ops[id].op {
        match access.order {
            LoadOrder::Relaxed(scope) | LoadOrder::Acquire(scope) => scope,
            LoadOrder::Weak | LoadOrder::Volatile => return None,
        }
    } else if let Op::Mem(Mem::St { access, .. }) = &ir.ops[id].op {
        match access.order {
            StoreOrder::Relaxed(scope) | StoreOrder::Release(scope) => scope,
            StoreOrder::Weak | StoreOrder::Volatile => return None,
        }
    } else {
        return None;
    };
    let access = crate::ir::accesses(ir, id).into_iter().next()?;
    match access.bytes {
        AccessBytes::Known(bytes) => Some((scope, bytes.into())),
        AccessBytes::Computed(_) | AccessBytes::Box(_) => None,
    }
}

/// Returns why the order of an operation's accesses is not followed.
fn asynchronous(op: &Op) -> Option<&'static str> {
    match op {
        Op::AsyncCopy(AsyncCopy::CpAsync { .. }) => None,
        Op::AsyncCopy(_) => Some("an asynchronous copy, whose end is not followed"),
        Op::Mbarrier(_) => Some("an mbarrier, whose phases are not followed"),
        Op::Mma(Mma::Ldmatrix { .. } | Mma::Stmatrix { .. }) => None,
        Op::Mma(_) => Some("a matrix operation, whose end is not followed"),
        Op::Cache(Cache::Discard { .. }) => Some("a discarded line"),
        Op::Inline(_) => Some("inline PTX"),
        Op::Mem(_) | Op::Atomic(_) | Op::Cache(_) => None,
        Op::Const(_) | Op::Arith(_) | Op::FloatArith(_) | Op::IntArith(_) | Op::Convert(_) => None,
        Op::Sync(_) | Op::Warp(_) | Op::Thread(_) | Op::Control(_) | Op::Diagnostic(_) => {
            Some("an operation that is not followed")
        }
    }
}
