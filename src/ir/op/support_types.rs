//! Queries about operand types, such as a vector's element type, shared by the support checks of
//! the op table's rows.

use super::mma::fragment;
use crate::ir::entity::{Value, VarId};
use crate::ir::kernel::KernelIr;
use crate::ir::types::{Scalar, Space, Type};

pub(super) const SHARED: &str = "the pointer is to shared memory";

pub(super) fn only(condition: bool, reason: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(reason) }
}

/// Answers queries about a kernel's types. Assumes that the row's constraints hold.
#[derive(Clone, Copy)]
pub(super) struct Types<'k>(pub(super) &'k KernelIr);

impl Types<'_> {
    pub(super) fn of(self, value: Value) -> Option<Type> {
        self.0.values.get(value).map(|value| value.ty)
    }

    pub(super) fn in_space(self, pointer: Value, expected: Space) -> bool {
        matches!(self.of(pointer), Some(Type::Pointer { space, .. }) if space == expected)
    }

    pub(super) fn pointee(self, pointer: Value) -> Option<Scalar> {
        match self.of(pointer) {
            Some(Type::Pointer { elem, .. }) => Some(elem),
            _ => None,
        }
    }

    pub(super) fn fragment(self, value: Value) -> Option<(Scalar, u32)> {
        fragment(self.of(value)?)
    }

    pub(super) fn var(self, var: VarId) -> Option<Type> {
        self.0.vars.get(var).map(|var| var.ty)
    }

    /// Returns whether the value can satisfy `holds`. A value that is not a constant always can.
    pub(super) fn may(self, value: Value, holds: impl Fn(i128) -> bool) -> bool {
        self.0.integer(value).is_none_or(holds)
    }
}
