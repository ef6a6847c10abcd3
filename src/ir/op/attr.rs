//! Attributes: the parts of an operation that are known when it is built.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::ir::name::{self, ParseNameError};

/// How two values are compared. On floating point operands all are ordered (false when an operand is
/// NaN), except `Ne`, which is true then, so that `Ne` is the negation of `Eq` as in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `lhs == rhs`
    Eq,
    /// `lhs != rhs`
    Ne,
    /// `lhs < rhs`
    Lt,
    /// `lhs <= rhs`
    Le,
    /// `lhs > rhs`
    Gt,
    /// `lhs >= rhs`
    Ge,
}

impl Compare {
    /// All comparisons.
    pub const ALL: [Compare; 6] =
        [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

    /// PTX's name of the comparison.
    pub const fn name(self) -> &'static str {
        match self {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        }
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compare {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Compare, ParseNameError> {
        name::find("a comparison", &Compare::ALL, text)
    }
}

/// What is to become of a `for` when the kernel is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unroll {
    /// It stays a loop.
    #[default]
    Keep,
    /// A loop with this many iterations in its body, and a loop for the remaining ones.
    By(NonZeroU32),
    /// All iterations one after the other, without a loop. The bounds must be constants.
    Full,
}

/// An axis of a grid or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// The fastest varying axis.
    X,
    /// The second axis.
    Y,
    /// The slowest axis.
    Z,
}

impl Axis {
    /// `x`, `y`, `z`.
    pub const ALL: [Axis; 3] = [Axis::X, Axis::Y, Axis::Z];

    /// The position of the axis: 0, 1 or 2.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Axis::X => "x",
            Axis::Y => "y",
            Axis::Z => "z",
        })
    }
}
