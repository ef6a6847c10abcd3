//! PTX's support for pointer and atomic operations, by memory space and type.

use super::{Atomic, AtomicOp, Mem};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Space, Type};

type Support = Result<Target, &'static str>;

/// The first target that has a space.
fn first_target(space: Space) -> Target {
    match space {
        Space::SharedCluster => Target::SM_90,
        Space::Global | Space::Shared | Space::Local | Space::Const | Space::Generic => {
            Target::SM_80
        }
    }
}

/// The type of integers that are addresses of pointers of a type.
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

/// The type of pointers to the same elements in another space.
pub(super) fn into(pointer: Type, space: Space) -> Option<Type> {
    match pointer {
        Type::Pointer { elem, mutable, .. } => Some(Type::Pointer { space, elem, mutable }),
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => None,
    }
}

/// As [`Op::support`](super::Op::support), beyond the target of the row.
pub(super) fn mem(op: &Mem, ir: &KernelIr) -> Support {
    let space_of = |pointer: Value| match ir.values.get(pointer).map(|value| value.ty) {
        Some(Type::Pointer { space, .. }) => Some(space),
        Some(Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. }) | None => None,
    };
    let is_mutable = |pointer: Value| {
        let ty = ir.values.get(pointer).map(|value| value.ty);
        matches!(ty, Some(Type::Pointer { mutable: true, .. }))
    };
    match *op {
        Mem::Mapa { base, .. } => match space_of(base) {
            Some(Space::Shared) => Ok(Target::SM_90),
            _ => Err("the pointer is to shared memory"),
        },
        Mem::Getctarank { base } => match space_of(base) {
            Some(Space::Shared | Space::SharedCluster) => Ok(Target::SM_90),
            _ => Err("the pointer is to shared memory, of the block or of the cluster"),
        },
        Mem::Cvta { base } => match space_of(base) {
            Some(Space::Generic) => Err("the pointer is generic already"),
            space => Ok(space.map_or(Target::SM_80, first_target)),
        },
        Mem::CvtaTo { base, space } => match (space_of(base), space) {
            (_, Space::Const) if is_mutable(base) => {
                Err("constant memory is not written, but the pointer allows stores")
            }
            (_, Space::Generic) => Err("`cvta` makes generic pointers, of those into a space"),
            (Some(Space::Generic), space) => Ok(first_target(space)),
            _ => Err("the pointer is not generic: its space is known"),
        },
        Mem::Isspacep { base, space } => match (space_of(base), space) {
            (_, Space::Generic) => Err("every pointer is in the generic space"),
            (Some(Space::Generic), space) => Ok(first_target(space)),
            _ => Err("the pointer is not generic: its space is known"),
        },
        Mem::Ld { .. }
        | Mem::St { .. }
        | Mem::LdVec { .. }
        | Mem::StVec { .. }
        | Mem::AssumeAligned { .. }
        | Mem::Offset { .. }
        | Mem::PtrCast { .. }
        | Mem::PtrToInt { .. }
        | Mem::SharedBase { .. }
        | Mem::LocalBase { .. }
        | Mem::ArrayBase { .. }
        | Mem::GetVar { .. }
        | Mem::SetVar { .. } => Ok(Target::SM_80),
    }
}

/// As [`Op::support`](super::Op::support), beyond the target of the row; which scalars there are is a rule of its
/// own.
pub(super) fn atomic(op: &Atomic, ir: &KernelIr) -> Support {
    let ty = |value: Value| ir.values.get(value).map(|value| value.ty);
    let pointee = |base: Value| match ty(base) {
        Some(Type::Pointer { space, elem, .. }) => Some((space, elem)),
        Some(Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. }) | None => None,
    };
    match *op {
        Atomic::Atom { base, op, .. } | Atomic::Red { base, op, .. } => match (pointee(base), op) {
            (Some((_, Scalar::Bf16)), AtomicOp::Add) => Ok(Target::SM_90),
            _ => Ok(Target::SM_80),
        },
        Atomic::AtomCas { .. } => Ok(Target::SM_80),
        Atomic::AtomVec { base, vector, op, .. } | Atomic::RedVec { base, vector, op, .. } => {
            let (Some((space, elem)), Some(Type::Vector(vector))) = (pointee(base), ty(vector))
            else {
                return Ok(Target::SM_80);
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
                    "vectors of f32, f16 and bf16 are added, and of the latter two the smaller or \
                            larger elements taken",
                );
            }
            if !vector.is_one_access() {
                return Err("one access has at most 128 bits");
            }
            // Two halves in one register are an instruction of their own.
            if op == AtomicOp::Add && half && vector.lanes() == 2 {
                return Ok(if elem == Scalar::F16 { Target::SM_80 } else { Target::SM_90 });
            }
            match space {
                Space::Global | Space::Generic => Ok(Target::SM_90),
                Space::Shared | Space::SharedCluster | Space::Local | Space::Const => {
                    Err("it is for global memory; elsewhere pairs of f16 and of bf16 are added")
                }
            }
        }
    }
}
