//! Attributes: the parts of an operation that are fixed when the kernel is built, such as a
//! comparison's predicate. You meet them when you match on operations of a kernel's IR.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::ir::name::{self, ParseNameError};

/// A comparison predicate, for [`compare`](crate::ir::Val::compare). The methods
/// [`lt`](crate::ir::Val::lt) and so on cover the ordered ones. PTX ISA 9.7.6.2 `setp`.
///
/// The first six are ordered: false if an operand is NaN. The others are for floating point only;
/// those whose names end in `u` are true if an operand is NaN.
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
    /// All predicates, for example for a test of each.
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

    /// Returns PTX's name for the predicate, such as `lt`.
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

    /// Returns whether the predicate is for floating point only; the verifier rejects such a
    /// predicate on integers.
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

/// How a `for` loop is unrolled when the kernel is lowered. In a kernel you set it with
/// [`Range::unroll`](crate::ir::Range::unroll) and its siblings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unroll {
    /// Do not unroll.
    #[default]
    Keep,
    /// Unroll by this factor. A second loop runs the remaining iterations.
    By(NonZeroU32),
    /// Like `By`, and also merge the loads and stores of this many iterations into vector accesses.
    Vector(NonZeroU32),
    /// Unroll completely. The bounds must be constants.
    Full,
}

/// An axis of the grid, the cluster or the block, for special registers such as `tid.x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// The fastest-varying axis.
    X,
    /// The second axis.
    Y,
    /// The slowest-varying axis.
    Z,
}

impl Axis {
    /// All axes: `x`, `y`, `z`.
    pub const ALL: [Axis; 3] = [Axis::X, Axis::Y, Axis::Z];

    /// Returns 0, 1 or 2, the axis's index in an array such as a grid size.
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
