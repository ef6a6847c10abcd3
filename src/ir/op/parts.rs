//! The parts of an operation in the text form, from which the table builds it.

use std::fmt;
use std::str::FromStr;

use super::ValueList;
use crate::ir::entity::{ArrayId, LocalId, SharedId, Value, VarId};

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
