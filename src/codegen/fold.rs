//! Folds floating point operations on constants.
//!
//! They are not left to the compiler behind PTX, because CUDA 13.0's driver (13.0.98, not the
//! toolkit's `ptxas` 13.0.88) rounds a sum of two constants toward zero if it lies halfway between
//! two numbers. For example, `3 - 2^-23` becomes the number below 3. A NaN result is left to the
//! device, which has its own choice of bits.

use crate::ir::op::{Arith, Convert, FloatArith, FloatMode, Op};
use crate::ir::types::{Const, Type};
use crate::ir::{Value, eval};

/// Returns the result of an operation on operands that `constant` knows, if it is a floating point
/// number.
pub(super) fn fold(
    op: &Op,
    result: Type,
    constant: impl Fn(Value) -> Option<Const>,
) -> Option<Const> {
    let scalar = result.scalar().filter(|scalar| scalar.is_float() && rounds(op))?;
    eval::constant(op, scalar, constant).filter(|result| !is_nan(*result))
}

/// Returns whether the operation rounds to nearest even, or only moves a number that was folded.
fn rounds(op: &Op) -> bool {
    const RN: FloatMode = FloatMode::RN;
    matches!(
        op,
        Op::Arith(
            Arith::Add { .. }
                | Arith::Sub { .. }
                | Arith::Mul { .. }
                | Arith::Div { .. }
                | Arith::Neg { .. }
                | Arith::Abs { .. }
                | Arith::Sqrt { .. }
                | Arith::Fma { .. }
        ) | Op::FloatArith(
            FloatArith::AddRounded { mode: RN, .. }
                | FloatArith::SubRounded { mode: RN, .. }
                | FloatArith::MulRounded { mode: RN, .. }
                | FloatArith::DivRounded { mode: RN, .. }
                | FloatArith::SqrtRounded { mode: RN, .. }
                | FloatArith::FmaRounded { mode: RN, .. }
        ) | Op::Convert(Convert::Cvt { .. })
    )
}

fn is_nan(constant: Const) -> bool {
    constant.to_f64().is_some_and(f64::is_nan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Entity;
    use crate::ir::types::Scalar;

    fn of_f32(x: f32) -> Const {
        Const::new(Scalar::F32, x.to_bits().into())
    }

    fn of_f64(x: f64) -> Const {
        Const::new(Scalar::F64, x.to_bits())
    }

    /// Returns the result of `op` on `a` and `b`.
    fn folded(op: impl Fn(Value, Value) -> Arith, a: Const, b: Const) -> Option<Const> {
        let [first, second] = [0, 1].map(Value::from_index);
        let operands = |value| Some(if value == first { a } else { b });
        fold(&op(first, second).into(), a.scalar().into(), operands)
    }

    #[test]
    fn sums_round_to_even() {
        let add = |lhs, rhs| Arith::Add { lhs, rhs };
        let sub = |lhs, rhs| Arith::Sub { lhs, rhs };
        let (three, tiny) = (of_f32(3.0), of_f32(f32::EPSILON));
        assert_eq!(folded(sub, three, tiny), Some(of_f32(3.0)));
        assert_eq!(folded(add, three, of_f32(-f32::EPSILON)), Some(of_f32(3.0)));
        assert_eq!(folded(add, of_f64(1.0), of_f64(0.5)), Some(of_f64(1.5)));
    }

    #[test]
    fn nan_integers_and_unknown_operands_are_left() {
        let add = |lhs, rhs| Arith::Add { lhs, rhs };
        let infinity = of_f32(f32::INFINITY);
        assert_eq!(folded(add, infinity, of_f32(f32::NEG_INFINITY)), None);
        assert_eq!(folded(add, infinity, infinity), Some(infinity));
        let int = Const::new(Scalar::I32, 1);
        assert_eq!(folded(add, int, int), None);
        let value = Value::from_index(0);
        assert_eq!(fold(&Arith::Sqrt { value }.into(), Scalar::F32.into(), |_| None), None);
        let byte = |_| Some(Const::new(Scalar::I8, 0xff));
        let cvt = |to: Scalar| fold(&Convert::Cvt { value, to }.into(), to.into(), byte);
        assert_eq!((cvt(Scalar::F64), cvt(Scalar::U8)), (Some(of_f64(-1.0)), None));
    }
}
