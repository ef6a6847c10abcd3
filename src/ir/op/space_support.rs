//! Support checks for pointers and atomic operations: which state spaces and types PTX allows. The
//! op table's rows name these functions, and the verifier runs them.

use super::support::{ANY, Support};
use super::{AtomicOp, LoadAccess, MemScope, StoreAccess};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Space, Type};

/// Returns the first target that has a state space.
fn first_target(space: Space) -> Target {
    match space {
        Space::SharedCluster => Target::SM_90,
        Space::Global | Space::Shared | Space::Local | Space::Const | Space::Generic => {
            Target::SM_80
        }
    }
}

/// Returns the integer type of a pointer's address.
pub(super) fn address(pointer: Type) -> Option<Type> {
    match pointer {
        Type::Pointer { space: Space::Global | Space::Generic, .. } => Some(Scalar::I64.into()),
        Type::Pointer {
            space: Space::Shared | Space::SharedCluster | Space::Local | Space::Const,
            ..
        } => Some(Scalar::I32.into()),
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => None,
    }
}

/// Returns the pointer type moved to another space.
pub(super) fn into(pointer: Type, space: Space) -> Option<Type> {
    match pointer {
        Type::Pointer { elem, mutable, .. } => Some(Type::Pointer { space, elem, mutable }),
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => None,
    }
}

fn type_of(ir: &KernelIr, value: &Value) -> Option<Type> {
    ir.values.get(*value).map(|value| value.ty)
}

fn space_of(ir: &KernelIr, pointer: &Value) -> Option<Space> {
    match type_of(ir, pointer) {
        Some(Type::Pointer { space, .. }) => Some(space),
        Some(Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. }) | None => None,
    }
}

fn pointee(ir: &KernelIr, pointer: &Value) -> Option<(Space, Scalar)> {
    match type_of(ir, pointer) {
        Some(Type::Pointer { space, elem, .. }) => Some((space, elem)),
        Some(Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. }) | None => None,
    }
}

/// Returns the first target that has an access's scope.
fn scoped(scope: Option<MemScope>) -> Target {
    scope.map_or(Target::SM_80, MemScope::first_target)
}

pub(super) fn load(_: &KernelIr, access: &LoadAccess) -> Support {
    Ok(scoped(access.order.scope()))
}

pub(super) fn store(_: &KernelIr, access: &StoreAccess) -> Support {
    Ok(scoped(access.order.scope()))
}

pub(super) fn mapa(ir: &KernelIr, base: &Value) -> Support {
    match space_of(ir, base) {
        Some(Space::Shared) => Ok(Target::SM_90),
        _ => Err("the pointer is to shared memory"),
    }
}

pub(super) fn getctarank(ir: &KernelIr, base: &Value) -> Support {
    match space_of(ir, base) {
        Some(Space::Shared | Space::SharedCluster) => Ok(Target::SM_90),
        _ => Err("the pointer is to shared memory, of the block or of the cluster"),
    }
}

pub(super) fn cvta(ir: &KernelIr, base: &Value) -> Support {
    match space_of(ir, base) {
        Some(Space::Generic) => Err("the pointer is generic already"),
        space => Ok(space.map_or(Target::SM_80, first_target)),
    }
}

pub(super) fn cvta_to(ir: &KernelIr, base: &Value, space: &Space) -> Support {
    let is_mutable = matches!(type_of(ir, base), Some(Type::Pointer { mutable: true, .. }));
    match (space_of(ir, base), *space) {
        (_, Space::Const) if is_mutable => {
            Err("constant memory is read-only, but the pointer allows stores")
        }
        (_, Space::Generic) => Err("`cvta` makes a generic pointer from one whose space is known"),
        (Some(Space::Generic), space) => Ok(first_target(space)),
        _ => Err("the pointer is not generic: its space is known"),
    }
}

pub(super) fn int_to_ptr(ir: &KernelIr, address: &Value) -> Support {
    match type_of(ir, address) {
        Some(Type::Scalar(Scalar::I64)) => ANY,
        _ => Err("an address of global memory is an i64"),
    }
}

pub(super) fn isspacep(ir: &KernelIr, base: &Value, space: &Space) -> Support {
    match (space_of(ir, base), *space) {
        (_, Space::Generic) => Err("every pointer is in the generic space"),
        (Some(Space::Generic), space) => Ok(first_target(space)),
        _ => Err("the pointer is not generic: its space is known"),
    }
}

/// Checks an atomic operation on one element. A separate check covers the element's type.
pub(super) fn atom(ir: &KernelIr, base: &Value, op: &AtomicOp, scope: &MemScope) -> Support {
    let first = scope.first_target();
    match (pointee(ir, base), op) {
        (Some((_, Scalar::Bf16)), AtomicOp::Add) => Ok(first.max(Target::SM_90)),
        _ => Ok(first),
    }
}

/// Checks an atomic operation on the elements of a vector.
pub(super) fn atom_vec(
    ir: &KernelIr,
    base: &Value,
    vector: &Value,
    op: &AtomicOp,
    scope: &MemScope,
) -> Support {
    let first = scope.first_target();
    let (Some((space, elem)), Some(Type::Vector(vector))) =
        (pointee(ir, base), type_of(ir, vector))
    else {
        return Ok(first);
    };
    let half = matches!(elem, Scalar::F16 | Scalar::Bf16);
    let legal = match op {
        AtomicOp::Add => half || elem == Scalar::F32,
        AtomicOp::Min | AtomicOp::Max => half,
        AtomicOp::And
        | AtomicOp::Or
        | AtomicOp::Xor
        | AtomicOp::Exch
        | AtomicOp::Inc
        | AtomicOp::Dec => false,
    };
    if !legal {
        return Err(
            "vectors of f32, f16 and bf16 have `add`, those of f16 and bf16 also `min` and `max`",
        );
    }
    if !vector.is_one_access() {
        return Err("one access has at most 128 bits");
    }
    // A pair of 16-bit elements in one register has its own instruction.
    if *op == AtomicOp::Add && half && vector.lanes() == 2 {
        return Ok(if elem == Scalar::F16 { first } else { first.max(Target::SM_90) });
    }
    match space {
        Space::Global | Space::Generic => Ok(first.max(Target::SM_90)),
        Space::Shared | Space::SharedCluster | Space::Local | Space::Const => {
            Err("it needs global memory; elsewhere only pairs of f16 or of bf16 can be added")
        }
    }
}
