//! Messages to the host: operations with a text and any number of operands.

use std::sync::Arc;

use super::{Op, ValueList};
use crate::ir::entity::Value;

/// Messages of a kernel to the host: assertions and prints.
///
/// Texts are [`Format`](crate::ir::Format)s with a placeholder for each value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Diagnostic {
    /// Reports the message where `cond` is false. The thread goes on.
    Assert {
        /// The asserted condition.
        cond: Value,
        /// The message where the condition is false.
        message: Arc<str>,
        /// The values of the message, at most [`Diagnostic::ASSERT_VALUES`].
        values: ValueList,
        /// The index of the element at fault, an `i32`, where the condition is one of all elements of a fragment.
        element: Option<Value>,
    },
    /// Prints the text. PTX has it as the function `vprintf` (CUDA's PTX interoperability guide, "System
    /// Calls").
    Printf {
        /// The text.
        format: Arc<str>,
        /// Its values, at most [`Diagnostic::PRINTF_VALUES`].
        values: ValueList,
    },
}

impl From<Diagnostic> for Op {
    fn from(diagnostic: Diagnostic) -> Op {
        Op::Diagnostic(diagnostic)
    }
}

impl Diagnostic {
    /// The maximum number of values of an `assert`.
    pub const ASSERT_VALUES: usize = 4;

    /// The maximum number of values of a `printf`.
    pub const PRINTF_VALUES: usize = 32;

    /// The name in the text form.
    pub const fn name(&self) -> &'static str {
        match self {
            Diagnostic::Assert { .. } => "assert",
            Diagnostic::Printf { .. } => "printf",
        }
    }

    /// The text, with a placeholder for each of the values.
    pub fn text(&self) -> (&Arc<str>, &[Value]) {
        match self {
            Diagnostic::Assert { message: text, values, .. }
            | Diagnostic::Printf { format: text, values } => (text, values),
        }
    }

    /// The operands, in order.
    pub fn operands(&self) -> ValueList {
        match self {
            Diagnostic::Assert { cond, values, element, .. } => {
                [cond].into_iter().chain(values).chain(element).copied().collect()
            }
            Diagnostic::Printf { values, .. } => values.clone(),
        }
    }

    /// Calls `visit` with each operand, in order, so that it can be replaced.
    pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        match self {
            Diagnostic::Assert { cond, values, element, .. } => {
                [cond].into_iter().chain(values).chain(element).for_each(visit);
            }
            Diagnostic::Printf { values, .. } => values.iter_mut().for_each(visit),
        }
    }
}
