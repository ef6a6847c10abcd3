//! Folds floating point operations on constants.
//!
//! They are computed here, not left to the compiler behind PTX: that of CUDA 13.0's driver (13.0.98, not the
//! `ptxas` 13.0.88 of the toolkit) rounds a sum of two constants that lies in the middle of two numbers toward
//! zero, so that `3 - 2^-23` becomes the number below 3. A result that is NaN is left to the device, which
//! has its own choice of bits.

use crate::ir::number::{int_to_odd, mul_add_to_odd};
use crate::ir::{Arith, Const, FloatMode, Scalar, Value, narrow};

/// The result of an operation whose operands `constant` knows, if it is a floating point number.
pub(super) fn fold(op: &Arith, constant: impl Fn(Value) -> Option<Const>) -> Option<Const> {
    let result = match *op {
        Arith::Add { lhs, rhs } | Arith::AddRounded { lhs, rhs, mode: FloatMode::RN } => {
            binary(constant(lhs)?, constant(rhs)?, |a, b| a + b, |a, b| a + b)
        }
        Arith::Sub { lhs, rhs } | Arith::SubRounded { lhs, rhs, mode: FloatMode::RN } => {
            binary(constant(lhs)?, constant(rhs)?, |a, b| a - b, |a, b| a - b)
        }
        Arith::Mul { lhs, rhs } | Arith::MulRounded { lhs, rhs, mode: FloatMode::RN } => {
            binary(constant(lhs)?, constant(rhs)?, |a, b| a * b, |a, b| a * b)
        }
        Arith::Div { lhs, rhs } | Arith::DivRounded { lhs, rhs, mode: FloatMode::RN } => {
            binary(constant(lhs)?, constant(rhs)?, |a, b| a / b, |a, b| a / b)
        }
        Arith::Neg { value } => unary(constant(value)?, |a| -a, |a| -a),
        Arith::Abs { value } => unary(constant(value)?, f32::abs, f64::abs),
        Arith::Sqrt { value } | Arith::SqrtRounded { value, mode: FloatMode::RN } => {
            unary(constant(value)?, f32::sqrt, f64::sqrt)
        }
        Arith::Fma { lhs, rhs, addend }
        | Arith::FmaRounded { lhs, rhs, addend, mode: FloatMode::RN } => {
            let (a, b, c) = (constant(lhs)?, constant(rhs)?, constant(addend)?);
            if let (Some(a), Some(b), Some(c)) = (decoded(a), decoded(b), decoded(c)) {
                return encoded(constant(lhs)?.scalar(), mul_add_to_odd(a, b, c));
            }
            let (narrow, wide) =
                (|x: Const| f32::from_bits(x.bits() as u32), |x: Const| f64::from_bits(x.bits()));
            match a.scalar() {
                Scalar::F32 => Some(of_f32(narrow(a).mul_add(narrow(b), narrow(c)))),
                Scalar::F64 => Some(of_f64(wide(a).mul_add(wide(b), wide(c)))),
                _ => None,
            }
        }
        Arith::Cvt { value, to } => convert(constant(value)?, to),
        // The rest does not round.
        Arith::Rem { .. }
        | Arith::Min { .. }
        | Arith::Max { .. }
        | Arith::And { .. }
        | Arith::Or { .. }
        | Arith::Xor { .. }
        | Arith::Not { .. }
        | Arith::Shl { .. }
        | Arith::Shr { .. }
        | Arith::Setp { .. }
        | Arith::Selp { .. }
        | Arith::AddRounded { .. }
        | Arith::SubRounded { .. }
        | Arith::MulRounded { .. }
        | Arith::FmaRounded { .. }
        | Arith::DivRounded { .. }
        | Arith::SqrtRounded { .. }
        | Arith::RcpRounded { .. }
        | Arith::Approx { .. }
        | Arith::DivApprox { .. }
        | Arith::MinNan { .. }
        | Arith::MaxNan { .. }
        | Arith::Copysign { .. }
        | Arith::Testp { .. }
        | Arith::AddSat { .. }
        | Arith::SubSat { .. }
        | Arith::MulHi { .. }
        | Arith::MulWide { .. }
        | Arith::Mad { .. }
        | Arith::MadHi { .. }
        | Arith::MadHiSat { .. }
        | Arith::Mul24 { .. }
        | Arith::Mad24 { .. }
        | Arith::Mad24HiSat { .. }
        | Arith::AddPacked { .. }
        | Arith::MinPacked { .. }
        | Arith::MaxPacked { .. }
        | Arith::MinRelu { .. }
        | Arith::MaxRelu { .. }
        | Arith::CvtPack { .. }
        | Arith::MadWide { .. }
        | Arith::Sad { .. }
        | Arith::Dp4a { .. }
        | Arith::Dp2a { .. }
        | Arith::Popc { .. }
        | Arith::Clz { .. }
        | Arith::Brev { .. }
        | Arith::Bfind { .. }
        | Arith::Bfe { .. }
        | Arith::Bfi { .. }
        | Arith::Fns { .. }
        | Arith::Lop3 { .. }
        | Arith::Shf { .. }
        | Arith::Prmt { .. }
        | Arith::Szext { .. }
        | Arith::Bmsk { .. }
        | Arith::Bitcast { .. }
        | Arith::CvtRounded { .. }
        | Arith::CvtRint { .. }
        | Arith::CvtSat { .. }
        | Arith::VecPack { .. }
        | Arith::VecSplat { .. }
        | Arith::VecExtract { .. }
        | Arith::Sreg { .. } => None,
    };
    result.filter(|result| !is_nan(*result))
}

/// The number of a format narrower than `f32`.
fn decoded(constant: Const) -> Option<f64> {
    narrow::decode(constant.scalar(), constant.bits() as u32)
}

/// The nearest number of a format narrower than `f32`. Results of `+ - * /` and `sqrt` that were rounded to
/// `f64` before are those of one rounding, for `f64` has more than twice as many digits.
fn encoded(scalar: Scalar, x: f64) -> Option<Const> {
    let bits = narrow::encode_nearest(scalar, x).filter(|_| !x.is_nan())?;
    Some(Const::new(scalar, bits.into()))
}

fn of_f32(x: f32) -> Const {
    Const::new(Scalar::F32, x.to_bits().into())
}

fn of_f64(x: f64) -> Const {
    Const::new(Scalar::F64, x.to_bits())
}

fn is_nan(constant: Const) -> bool {
    match constant.scalar() {
        Scalar::F32 => f32::from_bits(constant.bits() as u32).is_nan(),
        _ if decoded(constant).is_some() => decoded(constant).is_some_and(f64::is_nan),
        _ => f64::from_bits(constant.bits()).is_nan(),
    }
}

fn binary(
    a: Const,
    b: Const,
    narrow: fn(f32, f32) -> f32,
    wide: fn(f64, f64) -> f64,
) -> Option<Const> {
    match a.scalar() {
        Scalar::F32 => {
            let [a, b] = [a, b].map(|x| f32::from_bits(x.bits() as u32));
            Some(of_f32(narrow(a, b)))
        }
        Scalar::F64 => {
            let [a, b] = [a, b].map(|x| f64::from_bits(x.bits()));
            Some(of_f64(wide(a, b)))
        }
        scalar => encoded(scalar, wide(decoded(a)?, decoded(b)?)),
    }
}

fn unary(a: Const, narrow: fn(f32) -> f32, wide: fn(f64) -> f64) -> Option<Const> {
    match a.scalar() {
        Scalar::F32 => Some(of_f32(narrow(f32::from_bits(a.bits() as u32)))),
        Scalar::F64 => Some(of_f64(wide(f64::from_bits(a.bits())))),
        scalar => encoded(scalar, wide(decoded(a)?)),
    }
}

fn convert(from: Const, to: Scalar) -> Option<Const> {
    if from.scalar() == to {
        return Some(from);
    }
    let (narrow, wide) = (f32::from_bits(from.bits() as u32), f64::from_bits(from.bits()));
    let number = match from.scalar() {
        Scalar::F32 => Some(f64::from(narrow)),
        Scalar::F64 => Some(wide),
        _ => decoded(from).or_else(|| from.as_int().map(int_to_odd)),
    };
    if to.format().is_some() {
        return encoded(to, number?);
    }
    match (from.scalar(), from.as_int(), to) {
        (_, Some(int), Scalar::F32) => Some(of_f32(int as f32)),
        (_, Some(int), Scalar::F64) => Some(of_f64(int as f64)),
        (Scalar::F32, _, Scalar::F64) => Some(of_f64(narrow.into())),
        (Scalar::F64, _, Scalar::F32) => Some(of_f32(wide as f32)),
        (_, None, Scalar::F32) => decoded(from).map(|x| of_f32(x as f32)),
        (_, None, Scalar::F64) => decoded(from).map(of_f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Entity;

    /// The result of `op` on the first and the second number.
    fn folded(op: impl Fn(Value, Value) -> Arith, a: Const, b: Const) -> Option<Const> {
        let [first, second] = [0, 1].map(Value::from_index);
        fold(&op(first, second), |value| Some(if value == first { a } else { b }))
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
        assert_eq!(fold(&Arith::Sqrt { value }, |_| None), None);
        let cvt = |to| fold(&Arith::Cvt { value, to }, |_| Some(Const::new(Scalar::I8, 0xff)));
        assert_eq!((cvt(Scalar::F64), cvt(Scalar::U8)), (Some(of_f64(-1.0)), None));
    }
}
