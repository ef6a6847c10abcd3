//! Diagnostics: the operations behind `assert` and `printf`, which send a message with values to
//! the host.

use std::sync::Arc;

use super::{Op, ValueList};
use crate::ir::entity::Value;

/// A message from the kernel to the host: an assertion or a print. In a kernel, use
/// [`Body::assert`](crate::ir::Body::assert) and [`Body::printf`](crate::ir::Body::printf).
///
/// Texts are [`Format`](crate::ir::Format) strings with one placeholder per value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Diagnostic {
    /// Reports the message if `cond` is false. The thread continues.
    Assert {
        /// The asserted condition.
        cond: Value,
        /// The message for a false condition.
        message: Arc<str>,
        /// The values for the message's placeholders, at most [`Diagnostic::ASSERT_VALUES`].
        values: ValueList,
        /// For a condition over all elements of a fragment: the index of the failing element, an
        /// `i32`.
        element: Option<Value>,
    },
    /// Prints the text. PTX does this with the function `vprintf` (CUDA's PTX interoperability
    /// guide, "System Calls").
    Printf {
        /// The format string.
        format: Arc<str>,
        /// The values for its placeholders, at most [`Diagnostic::PRINTF_VALUES`].
        values: ValueList,
    },
}

impl From<Diagnostic> for Op {
    fn from(diagnostic: Diagnostic) -> Op {
        Op::Diagnostic(diagnostic)
    }
}

impl Diagnostic {
    /// The maximum number of values in an `assert`.
    pub const ASSERT_VALUES: usize = 4;

    /// The maximum number of values in a `printf`.
    pub const PRINTF_VALUES: usize = 32;

    /// Returns the operation's name in a printed kernel, such as `printf`.
    pub const fn name(&self) -> &'static str {
        match self {
            Diagnostic::Assert { .. } => "assert",
            Diagnostic::Printf { .. } => "printf",
        }
    }

    /// Returns the format string and the values for its placeholders.
    pub fn text(&self) -> (&Arc<str>, &[Value]) {
        match self {
            Diagnostic::Assert { message: text, values, .. }
            | Diagnostic::Printf { format: text, values } => (text, values),
        }
    }

    /// Returns the operands, in order.
    pub fn operands(&self) -> ValueList {
        match self {
            Diagnostic::Assert { cond, values, element, .. } => {
                [cond].into_iter().chain(values).chain(element).copied().collect()
            }
            Diagnostic::Printf { values, .. } => values.clone(),
        }
    }

    /// Calls `visit` with each operand, in order, so that a pass can replace it.
    pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        match self {
            Diagnostic::Assert { cond, values, element, .. } => {
                [cond].into_iter().chain(values).chain(element).for_each(visit);
            }
            Diagnostic::Printf { values, .. } => values.iter_mut().for_each(visit),
        }
    }
}
