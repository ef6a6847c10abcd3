//! Required buffer lengths: an expression over the other parameters that each launch evaluates
//! before it starts, so that a short buffer is an error on the host rather than an out-of-bounds
//! access on the device.

use std::fmt;

use super::entity::Value;
use super::kernel::{KernelIr, ValueDef};
use super::op::{Arith, Convert, Op};
use super::types::Const;

/// The minimum length of the buffer that a launch passes for a pointer parameter, in elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequiredLen {
    /// The pointer's index among the parameters.
    pub(crate) param: usize,
    pub(crate) len: LenExpr,
}

/// An integer expression over kernel parameters. Evaluated in 128 bits, so it does not wrap as the
/// kernel's arithmetic would.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LenExpr {
    Number(i128),
    /// A parameter's index and name.
    Param(usize, String),
    Call(LenFun, Box<(LenExpr, LenExpr)>),
}

/// A binary integer function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LenFun {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    Shl,
    Shr,
    And,
}

impl LenFun {
    /// Returns the function that an operation computes, with its operands.
    fn of(op: &Arith) -> Option<(LenFun, Value, Value)> {
        let (fun, a, b) = if let Arith::Add { lhs, rhs } = op {
            (LenFun::Add, lhs, rhs)
        } else if let Arith::Sub { lhs, rhs } = op {
            (LenFun::Sub, lhs, rhs)
        } else if let Arith::Mul { lhs, rhs } = op {
            (LenFun::Mul, lhs, rhs)
        } else if let Arith::Div { lhs, rhs } = op {
            (LenFun::Div, lhs, rhs)
        } else if let Arith::Rem { lhs, rhs } = op {
            (LenFun::Rem, lhs, rhs)
        } else if let Arith::Min { lhs, rhs } = op {
            (LenFun::Min, lhs, rhs)
        } else if let Arith::Max { lhs, rhs } = op {
            (LenFun::Max, lhs, rhs)
        } else if let Arith::And { lhs, rhs } = op {
            (LenFun::And, lhs, rhs)
        } else if let Arith::Shl { value, amount } = op {
            (LenFun::Shl, value, amount)
        } else if let Arith::Shr { value, amount } = op {
            (LenFun::Shr, value, amount)
        } else {
            return None;
        };
        Some((fun, *a, *b))
    }

    /// Returns `None` if the result is undefined, such as a division by zero, or does not fit in
    /// 128 bits.
    fn apply(self, a: i128, b: i128) -> Option<i128> {
        let amount = || u32::try_from(b).ok().filter(|amount| *amount < i128::BITS - 1);
        match self {
            LenFun::Add => a.checked_add(b),
            LenFun::Sub => a.checked_sub(b),
            LenFun::Mul => a.checked_mul(b),
            LenFun::Div => a.checked_div(b),
            LenFun::Rem => a.checked_rem(b),
            LenFun::Min => Some(a.min(b)),
            LenFun::Max => Some(a.max(b)),
            LenFun::Shl => a.checked_mul(1i128.checked_shl(amount()?)?),
            LenFun::Shr => Some(a >> amount()?),
            LenFun::And => Some(a & b),
        }
    }

    /// Returns the function's name in Rust, and whether it is an infix operator.
    fn text(self) -> (&'static str, bool) {
        match self {
            LenFun::Add => ("+", true),
            LenFun::Sub => ("-", true),
            LenFun::Mul => ("*", true),
            LenFun::Div => ("/", true),
            LenFun::Rem => ("%", true),
            LenFun::Shl => ("<<", true),
            LenFun::Shr => (">>", true),
            LenFun::And => ("&", true),
            LenFun::Min => ("min", false),
            LenFun::Max => ("max", false),
        }
    }
}

/// The maximum depth of an expression, in operations. Deeper expressions are not followed.
const DEPTH: u32 = 64;

impl LenExpr {
    /// Returns the expression that computes `value`. Returns `None` if it depends on anything but
    /// integer arithmetic on parameters and constants, such as a load or a loop.
    pub(in crate::ir) fn of(ir: &KernelIr, value: Value) -> Option<LenExpr> {
        LenExpr::within(ir, value, DEPTH)
    }

    fn within(ir: &KernelIr, value: Value, depth: u32) -> Option<LenExpr> {
        let depth = depth.checked_sub(1)?;
        let op = match ir.values.get(value)?.def {
            ValueDef::Param(index) => {
                let index = index as usize;
                return Some(LenExpr::Param(index, ir.params.get(index)?.name.clone()));
            }
            ValueDef::Result(op, 0) => &ir.ops.get(op)?.op,
            ValueDef::Result(..) | ValueDef::Arg(..) => return None,
        };
        if let Op::Const(number) = op {
            return number.as_int().map(LenExpr::Number);
        }
        // A conversion between integers keeps the value, unless it overflowed and the kernel has
        // already lost it.
        if let Op::Convert(Convert::Cvt { value, .. }) = *op {
            return LenExpr::within(ir, value, depth);
        }
        let Op::Arith(arith) = op else { return None };
        let (fun, a, b) = LenFun::of(arith)?;
        let operands = (LenExpr::within(ir, a, depth)?, LenExpr::within(ir, b, depth)?);
        Some(LenExpr::Call(fun, Box::new(operands)))
    }

    /// Evaluates the expression with the parameter values that `argument` returns. Returns `None`
    /// if a value is missing or not an integer, or if the result is undefined or does not fit in
    /// 128 bits.
    pub(in crate::ir) fn eval(&self, argument: &dyn Fn(usize) -> Option<Const>) -> Option<i128> {
        match self {
            LenExpr::Number(number) => Some(*number),
            LenExpr::Param(index, _) => argument(*index)?.as_int(),
            LenExpr::Call(fun, operands) => {
                fun.apply(operands.0.eval(argument)?, operands.1.eval(argument)?)
            }
        }
    }
}

/// Prints the expression as Rust code, with parameters as `%name`.
impl fmt::Display for LenExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |expr: &LenExpr, f: &mut fmt::Formatter<'_>| match expr {
            LenExpr::Call(fun, _) if fun.text().1 => write!(f, "({expr})"),
            LenExpr::Call(..) | LenExpr::Number(_) | LenExpr::Param(..) => expr.fmt(f),
        };
        match self {
            LenExpr::Number(number) => number.fmt(f),
            LenExpr::Param(_, name) => write!(f, "%{name}"),
            LenExpr::Call(fun, operands) => {
                let (a, b) = &**operands;
                match fun.text() {
                    (operator, true) => {
                        inner(a, f)?;
                        write!(f, " {operator} ")?;
                        inner(b, f)
                    }
                    (name, false) => write!(f, "{name}({a}, {b})"),
                }
            }
        }
    }
}
