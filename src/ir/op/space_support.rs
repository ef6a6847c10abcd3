//! Which operations on pointers PTX has for which state spaces.

use super::Mem;
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Space, Type};

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
        | Mem::SharedBase { .. }
        | Mem::LocalBase { .. }
        | Mem::ArrayBase { .. }
        | Mem::GetVar { .. }
        | Mem::SetVar { .. } => Ok(Target::SM_80),
    }
}
