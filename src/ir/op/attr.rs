//! Attributes: the parts of an operation that are known when it is built.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::ir::name::{self, ParseNameError};

/// A comparison of two values. PTX ISA 9.7.6.2 `setp`.
///
/// The first six are ordered: false where an operand is NaN. The others are for floating point only; the names
/// that end in `u` are true where an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `lhs == rhs`
    Eq,
    /// `lhs != rhs`, and neither is NaN.
    Ne,
    /// `lhs < rhs`
    Lt,
    /// `lhs <= rhs`
    Le,
    /// `lhs > rhs`
    Gt,
    /// `lhs >= rhs`
    Ge,
    /// `lhs == rhs`, or either is NaN.
    Equ,
    /// `!(lhs == rhs)`: Rust's `!=`.
    Neu,
    /// `lhs < rhs`, or either is NaN.
    Ltu,
    /// `lhs <= rhs`, or either is NaN.
    Leu,
    /// `lhs > rhs`, or either is NaN.
    Gtu,
    /// `lhs >= rhs`, or either is NaN.
    Geu,
    /// Neither is NaN.
    Num,
    /// Either is NaN.
    Nan,
}

impl Compare {
    /// All comparisons.
    pub const ALL: [Compare; 14] = [
        Compare::Eq,
        Compare::Ne,
        Compare::Lt,
        Compare::Le,
        Compare::Gt,
        Compare::Ge,
        Compare::Equ,
        Compare::Neu,
        Compare::Ltu,
        Compare::Leu,
        Compare::Gtu,
        Compare::Geu,
        Compare::Num,
        Compare::Nan,
    ];

    /// PTX's name of the comparison.
    pub const fn name(self) -> &'static str {
        match self {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
            Compare::Equ => "equ",
            Compare::Neu => "neu",
            Compare::Ltu => "ltu",
            Compare::Leu => "leu",
            Compare::Gtu => "gtu",
            Compare::Geu => "geu",
            Compare::Num => "num",
            Compare::Nan => "nan",
        }
    }

    /// Returns whether the comparison is for floating point only.
    pub const fn needs_float(self) -> bool {
        match self {
            Compare::Eq | Compare::Ne | Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge => {
                false
            }
            Compare::Equ
            | Compare::Neu
            | Compare::Ltu
            | Compare::Leu
            | Compare::Gtu
            | Compare::Geu
            | Compare::Num
            | Compare::Nan => true,
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

/// The unrolling of a `for` when the kernel is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unroll {
    /// It stays a loop.
    #[default]
    Keep,
    /// A loop with this many iterations in its body, and a loop for the remaining ones.
    By(NonZeroU32),
    /// As `By`, with vectors for the loads and stores of so many iterations.
    Vector(NonZeroU32),
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
