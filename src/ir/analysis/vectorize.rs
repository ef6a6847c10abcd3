//! Finds the accesses of a loop that can be merged into vector accesses for several iterations at
//! once. The verifier asks it whether `.vectorize(n)` is possible, the unrolling pass what to
//! merge.
//!
//! A load or store at the loop's index, through a pointer from outside the loop, touches
//! consecutive elements in consecutive iterations. For each group of `lanes` iterations, the
//! vectorized loop runs first all loads, then the computations, then all stores. The result is the
//! same if no load of a later iteration reads what an earlier iteration stored, and if no two
//! stores touch the same element.

use super::alignment;
use super::origin::Origins;
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Control, Effect, LoadOrder, Mem, Op, StoreOrder};
use crate::ir::types::{Space, Type, VectorType};

/// The loads and stores that become vector accesses, in body order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::ir) struct Vectorized {
    pub(in crate::ir) loads: Vec<OpId>,
    pub(in crate::ir) stores: Vec<OpId>,
}

/// Why a loop cannot be vectorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) enum CannotVectorize {
    /// No access is at the index, or the step is not 1.
    Nothing,
    /// This operation is neither an access at the index nor a pure computation.
    Obstacle(OpId),
    /// This access is not known to start at a multiple of its size, given in bytes.
    Unaligned(OpId, u32),
    /// Two accesses, the second of them a store, may touch the same element in different
    /// iterations.
    Aliasing(OpId, OpId),
}

/// An access to one element.
#[derive(Clone, Copy)]
struct Access {
    op: OpId,
    /// The position in the body.
    at: usize,
    base: Value,
    is_vector: bool,
}

/// Returns the accesses of loop `id` that become vectors of `lanes` elements.
pub(in crate::ir) fn vectorize(
    ir: &KernelIr,
    id: OpId,
    lanes: u32,
) -> Result<Vectorized, CannotVectorize> {
    let Op::Control(Control::For { lo, step, body, .. }) = ir.ops[id].op else {
        return Err(CannotVectorize::Nothing);
    };
    if ir.integer(step) != Some(1) {
        return Err(CannotVectorize::Nothing);
    }
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    let ops = &ir.regions[body].ops;
    for (at, &op) in ops[..ops.len().saturating_sub(1)].iter().enumerate() {
        let kind = &ir.ops[op].op;
        if let Op::Mem(Mem::Ld { base, index, access }) = *kind
            && access.order == LoadOrder::Weak
        {
            let is_vector = is_at_index(ir, body, base, index) && has_vector(ir, base, lanes);
            loads.push(Access { op, at, base, is_vector });
        } else if let Op::Mem(Mem::St { base, index, access, .. }) = *kind
            && access.order == StoreOrder::Weak
            && is_at_index(ir, body, base, index)
        {
            if !has_vector(ir, base, lanes) {
                return Err(CannotVectorize::Nothing);
            }
            stores.push(Access { op, at, base, is_vector: true });
        } else if !is_harmless(kind) {
            return Err(CannotVectorize::Obstacle(op));
        }
    }
    let vectors = loads.iter().chain(&stores).filter(|access| access.is_vector);
    let mut vectors = vectors.peekable();
    if vectors.peek().is_none() {
        return Err(CannotVectorize::Nothing);
    }
    for access in vectors {
        let Type::Pointer { elem, .. } = ir.type_of(access.base) else { continue };
        let bytes = lanes * elem.size_bytes();
        if !alignment::address(ir, access.base, lo).is_multiple(bytes.into()) {
            return Err(CannotVectorize::Unaligned(access.op, bytes));
        }
    }
    check_aliasing(ir, &loads, &stores)?;
    let ops = |of: Vec<Access>| of.into_iter().filter(|a| a.is_vector).map(|a| a.op).collect();
    Ok(Vectorized { loads: ops(loads), stores: ops(stores) })
}

/// Returns whether loads and stores may move across the operation.
fn is_harmless(op: &Op) -> bool {
    matches!(op, Op::Const(_) | Op::Mem(Mem::GetVar { .. } | Mem::SetVar { .. }))
        || op.info().is_some_and(|info| info.effect == Effect::Pure)
}

/// Returns whether `base + index` is the loop's index from a pointer that is defined outside the
/// body.
fn is_at_index(ir: &KernelIr, body: RegionId, base: Value, index: Value) -> bool {
    ir.regions[body].args.first() == Some(&index) && ir.values[base].region != body
}

/// Returns whether one access can move `lanes` of the elements that `base` points to.
fn has_vector(ir: &KernelIr, base: Value, lanes: u32) -> bool {
    let Type::Pointer { elem, .. } = ir.type_of(base) else { return false };
    VectorType::new(elem, lanes).is_some_and(|vector| vector.is_one_access())
}

fn check_aliasing(
    ir: &KernelIr,
    loads: &[Access],
    stores: &[Access],
) -> Result<(), CannotVectorize> {
    if stores.is_empty() {
        return Ok(());
    }
    let origins = Origins::new(ir);
    let space = |base: Value| match ir.type_of(base) {
        Type::Pointer { space, .. } => space,
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => Space::Generic,
    };
    // Different roots never overlap: allocations are disjoint, and a launch never passes a written
    // buffer twice.
    let is_apart = |a: Value, b: Value| {
        let (first, second) = (space(a), space(b));
        let generic = first == Space::Generic || second == Space::Generic;
        match (origins.root(a), origins.root(b)) {
            (Some(a), Some(b)) => a != b,
            _ => first != second && !generic,
        }
    };
    for (i, store) in stores.iter().enumerate() {
        let meets = |access: &&Access, same_is_fine: bool| {
            let same = access.base == store.base && access.is_vector && same_is_fine;
            !same && !is_apart(access.base, store.base)
        };
        let load = loads.iter().find(|load| meets(load, load.at < store.at));
        let met = load.or_else(|| stores[..i].iter().find(|other| meets(other, true)));
        if let Some(other) = met {
            return Err(CannotVectorize::Aliasing(other.op, store.op));
        }
    }
    Ok(())
}
