//! Attributes as text, and the parts (operands and attribute texts) from which the op table builds
//! an operation. The parser uses this.

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use super::{SpecialReg, ValueList, VolatileReg};
use crate::ir::entity::{ArrayId, GlobalId, LocalId, SharedId, Value, VarId};
use crate::ir::kernel::KernelIr;
use crate::ir::types::{Scalar, Space, Type};

/// Prints and parses an attribute in the text form.
///
/// Any type with `Display` and `FromStr` is an attribute. Entity ids implement it by hand, because
/// they print as `@name` and parsing them needs the names of the kernel.
pub(in crate::ir) trait Attribute: Sized {
    /// Returns the attribute as printed.
    fn to_text(&self) -> String;

    /// Returns the register variable, if the attribute is one.
    fn var(&self) -> Option<VarId> {
        None
    }

    /// Returns the register variable, if the attribute is one, for replacing it.
    fn var_mut(&mut self) -> Option<&mut VarId> {
        None
    }

    /// Parses the attribute.
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

impl Attribute for GlobalId {
    fn to_text(&self) -> String {
        format!("@{self}")
    }

    fn from_text(text: &str, names: &dyn Names) -> Option<GlobalId> {
        names.global(text.strip_prefix('@')?)
    }
}

/// Returns the type that an attribute stands for, if any.
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
    } else if let Some(global) = attribute.downcast_ref::<GlobalId>() {
        ir.globals.get(*global).map(|global| pointer(Space::Global, global.elem, true))
    } else if let Some(var) = attribute.downcast_ref::<VarId>() {
        ir.vars.get(*var).map(|var| var.ty)
    } else {
        None
    }
}

/// Looks up entities by their names in the text.
pub(in crate::ir) trait Names {
    /// Returns the register variable of this name, without the `@`.
    fn var(&self, name: &str) -> Option<VarId>;
    /// Returns the shared allocation of this name, without the `@`.
    fn shared(&self, name: &str) -> Option<SharedId>;
    /// Returns the local allocation of this name, without the `@`.
    fn local(&self, name: &str) -> Option<LocalId>;
    /// Returns the constant array of this name, without the `@`.
    fn array(&self, name: &str) -> Option<ArrayId>;
    /// Returns the global array of this name, without the `@`.
    fn global(&self, name: &str) -> Option<GlobalId>;
}

/// Knows no entities.
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
    fn global(&self, _: &str) -> Option<GlobalId> {
        None
    }
}

/// Why an operation cannot be built from its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) enum BadPart {
    /// No row has this name.
    Name,
    /// An operand or attribute is missing.
    Missing,
    /// The attribute at this position does not parse.
    Attribute(usize),
}

/// The operands and attributes of an operation, consumed one by one in row order.
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

    /// Takes the next operand.
    pub(super) fn operand(&mut self) -> Result<Value, BadPart> {
        let operand = self.operands.get(self.taken_operands).ok_or(BadPart::Missing)?;
        self.taken_operands += 1;
        Ok(*operand)
    }

    /// Takes all remaining operands.
    pub(super) fn operands(&mut self) -> ValueList {
        let rest = self.operands.get(self.taken_operands..).unwrap_or_default();
        self.taken_operands = self.operands.len();
        ValueList::from_slice(rest)
    }

    /// Takes the next attribute.
    pub(super) fn attribute<A: Attribute>(&mut self) -> Result<A, BadPart> {
        let position = self.taken_attributes;
        let text = self.attributes.get(position).ok_or(BadPart::Missing)?;
        self.taken_attributes += 1;
        A::from_text(text, self.names).ok_or(BadPart::Attribute(position))
    }
}
