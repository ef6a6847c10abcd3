//! The parts of an operation in the text form, from which the table builds it.

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use super::{SpecialReg, ValueList, VolatileReg};
use crate::ir::entity::{ArrayId, LocalId, SharedId, Value, VarId};
use crate::ir::kernel::KernelIr;
use crate::ir::types::{Scalar, Space, Type};

/// Writes and reads an attribute in the text form.
///
/// An attribute type needs `Display` and `FromStr` only; entities, which are written as `@name`, are the
/// exception.
pub(in crate::ir) trait Attribute: Sized {
    /// The attribute as it prints.
    fn to_text(&self) -> String;

    /// The variable that the attribute names.
    fn var(&self) -> Option<VarId> {
        None
    }

    /// The variable that the attribute names, to be replaced.
    fn var_mut(&mut self) -> Option<&mut VarId> {
        None
    }

    /// The attribute that `text` stands for.
    fn from_text(text: &str, names: &dyn Names) -> Option<Self>;
}

impl<T: fmt::Display + FromStr> Attribute for T {
    fn to_text(&self) -> String {
        self.to_string()
    }

    #[inline]
    fn from_text(text: &str, _: &dyn Names) -> Option<T> {
        text.parse().ok()
    }
}

impl Attribute for VarId {
    fn var(&self) -> Option<VarId> {
        Some(*self)
    }

    fn var_mut(&mut self) -> Option<&mut VarId> {
        Some(self)
    }

    fn to_text(&self) -> String {
        format!("@{self}")
    }

    fn from_text(text: &str, names: &dyn Names) -> Option<VarId> {
        names.var(text.strip_prefix('@')?)
    }
}

impl Attribute for SharedId {
    fn to_text(&self) -> String {
        format!("@{self}")
    }

    fn from_text(text: &str, names: &dyn Names) -> Option<SharedId> {
        names.shared(text.strip_prefix('@')?)
    }
}

impl Attribute for LocalId {
    fn to_text(&self) -> String {
        format!("@{self}")
    }

    fn from_text(text: &str, names: &dyn Names) -> Option<LocalId> {
        names.local(text.strip_prefix('@')?)
    }
}

impl Attribute for ArrayId {
    fn to_text(&self) -> String {
        format!("@{self}")
    }

    fn from_text(text: &str, names: &dyn Names) -> Option<ArrayId> {
        names.array(text.strip_prefix('@')?)
    }
}

/// The type that an attribute stands for, if it stands for one.
pub(super) fn type_of(attribute: &dyn Any, ir: &KernelIr) -> Option<Type> {
    let pointer = |space, elem, mutable| Type::Pointer { space, elem, mutable };
    if let Some(scalar) = attribute.downcast_ref::<Scalar>() {
        Some((*scalar).into())
    } else if let Some(ty) = attribute.downcast_ref::<Type>() {
        Some(*ty)
    } else if let Some(reg) = attribute.downcast_ref::<SpecialReg>() {
        Some(reg.scalar().into())
    } else if let Some(reg) = attribute.downcast_ref::<VolatileReg>() {
        Some(reg.scalar().into())
    } else if let Some(shared) = attribute.downcast_ref::<SharedId>() {
        ir.shared.get(*shared).map(|alloc| pointer(Space::Shared, alloc.elem, true))
    } else if let Some(local) = attribute.downcast_ref::<LocalId>() {
        ir.locals.get(*local).map(|alloc| pointer(Space::Local, alloc.elem, true))
    } else if let Some(array) = attribute.downcast_ref::<ArrayId>() {
        ir.arrays.get(*array).map(|array| pointer(Space::Const, array.elem, false))
    } else if let Some(var) = attribute.downcast_ref::<VarId>() {
        ir.vars.get(*var).map(|var| var.ty)
    } else {
        None
    }
}

/// The entities that the text has named.
pub(in crate::ir) trait Names {
    /// The register variable with the name, without its `@`.
    fn var(&self, name: &str) -> Option<VarId>;
    /// The shared allocation with the name, without its `@`.
    fn shared(&self, name: &str) -> Option<SharedId>;
    /// The local allocation with the name, without its `@`.
    fn local(&self, name: &str) -> Option<LocalId>;
    /// The constant array with the name, without its `@`.
    fn array(&self, name: &str) -> Option<ArrayId>;
}

/// No entities.
pub(super) struct NoNames;

impl Names for NoNames {
    fn var(&self, _: &str) -> Option<VarId> {
        None
    }
    fn shared(&self, _: &str) -> Option<SharedId> {
        None
    }
    fn local(&self, _: &str) -> Option<LocalId> {
        None
    }
    fn array(&self, _: &str) -> Option<ArrayId> {
        None
    }
}

/// The reason why an operation cannot be built from its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) enum BadPart {
    /// No row has the name.
    Name,
    /// There are fewer operands or attributes than the row has.
    Missing,
    /// The attribute with this position has no such value.
    Attribute(usize),
}

/// The operands and attributes of an operation, taken one after the other in the order of its row.
pub(in crate::ir) struct Parts<'p> {
    operands: &'p [Value],
    attributes: &'p [&'p str],
    names: &'p dyn Names,
    taken_operands: usize,
    taken_attributes: usize,
}

impl<'p> Parts<'p> {
    pub(in crate::ir) fn new(
        operands: &'p [Value],
        attributes: &'p [&'p str],
        names: &'p dyn Names,
    ) -> Parts<'p> {
        Parts { operands, attributes, names, taken_operands: 0, taken_attributes: 0 }
    }

    /// The next operand.
    pub(super) fn operand(&mut self) -> Result<Value, BadPart> {
        let operand = self.operands.get(self.taken_operands).ok_or(BadPart::Missing)?;
        self.taken_operands += 1;
        Ok(*operand)
    }

    /// The operands that are left.
    pub(super) fn operands(&mut self) -> ValueList {
        let rest = self.operands.get(self.taken_operands..).unwrap_or_default();
        self.taken_operands = self.operands.len();
        ValueList::from_slice(rest)
    }

    /// The next attribute.
    pub(super) fn attribute<A: Attribute>(&mut self) -> Result<A, BadPart> {
        let position = self.taken_attributes;
        let text = self.attributes.get(position).ok_or(BadPart::Missing)?;
        self.taken_attributes += 1;
        A::from_text(text, self.names).ok_or(BadPart::Attribute(position))
    }
}
