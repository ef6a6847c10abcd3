//! Helpers for the verifier's error messages: counted nouns, lists of types, and why a launch
//! cannot pass a pointer.

use std::fmt;

use crate::ir::types::{Space, Type};

/// Prints a count with its noun, in the plural unless the count is 1.
pub(super) struct Count(pub usize, pub &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(number, thing) = self;
        write!(f, "{number} {thing}{}", if *number == 1 { "" } else { "s" })
    }
}

/// Returns why a launch cannot pass a pointer into this space, and what to pass instead.
pub(super) fn without_param(space: Space) -> &'static str {
    match space {
        Space::Shared | Space::SharedCluster => {
            "exists only while a block runs: make it in the kernel (`k.shared`), and pass an index"
        }
        Space::Local => {
            "exists only while a thread runs: make it in the kernel (`k.local_array`), and pass an index"
        }
        Space::Const => {
            "belongs to the module: make it in the kernel (`k.const_array`), and pass an index"
        }
        Space::Global | Space::Generic => {
            "may be anywhere: pass a pointer to global memory, and make it generic (`cvta`)"
        }
    }
}

/// Prints types as a comma-separated list in parentheses.
pub(super) struct TypeList<'a>(pub &'a [Type]);

impl fmt::Display for TypeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, ty) in self.0.iter().enumerate() {
            write!(f, "{}{ty}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}
