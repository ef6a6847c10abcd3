//! Evaluates floating-point operations with a mode: one arm per row of the op table's family
//! `FloatArith`. A new row needs an arm here.

use super::dispatch::with_type;
use super::number::Cvt;
use super::round::{self, Operation};
use super::{Machine, elem};
use crate::ir::entity::Value;
use crate::ir::op::{ApproxFunction, FloatArith, FloatMode, FloatTest, Subnormals};
use crate::ir::types::Scalar;

fn approx(function: ApproxFunction, x: f64) -> f64 {
    match function {
        ApproxFunction::Rcp => 1.0 / x,
        ApproxFunction::Sqrt => x.sqrt(),
        ApproxFunction::Rsqrt => 1.0 / x.sqrt(),
        ApproxFunction::Ex2 => x.exp2(),
        ApproxFunction::Lg2 => x.log2(),
        ApproxFunction::Sin => x.sin(),
        ApproxFunction::Cos => x.cos(),
        ApproxFunction::Tanh => x.tanh(),
    }
}

/// Flushes `x` to zero, keeping its sign, if it is subnormal in `f32` or `bf16` and `subnormals`
/// asks for it.
fn flushed(x: f64, subnormals: Subnormals) -> f64 {
    let flush = subnormals == Subnormals::Ftz && x.abs() < f64::from(f32::MIN_POSITIVE);
    if flush { 0f64.copysign(x) } else { x }
}

fn has_property(x: f64, scalar: Scalar, test: FloatTest) -> bool {
    let smallest = if scalar == Scalar::F32 { f32::MIN_POSITIVE.into() } else { f64::MIN_POSITIVE };
    let is_subnormal = x != 0.0 && x.abs() < smallest;
    match test {
        FloatTest::Finite => x.is_finite(),
        FloatTest::Infinite => x.is_infinite(),
        FloatTest::Number => !x.is_nan(),
        FloatTest::NotANumber => x.is_nan(),
        // Zero counts as normal, as in PTX.
        FloatTest::Normal => x.is_finite() && !is_subnormal,
        FloatTest::Subnormal => is_subnormal,
    }
}

/// Returns the smaller or the larger value, or NaN if either is NaN. -0 is smaller than 0.
fn extreme([a, b]: [f64; 2], larger: bool) -> f64 {
    let b_is_larger = a < b || (a == b && a.is_sign_negative());
    match () {
        () if a.is_nan() || b.is_nan() => f64::NAN,
        () if b_is_larger == larger => b,
        () => a,
    }
}

/// Runs an operation with the rounding and clamping of `mode`.
fn rounded<M: Machine, const N: usize>(
    machine: M,
    values: [Value; N],
    operation: Operation,
    mode: FloatMode,
) -> Option<M::Output> {
    let scalar = elem(&machine, *values.first()?)?;
    machine.elements(values, move |bits| {
        let mut all = [0; 3];
        all.iter_mut().zip(bits).for_each(|(all, bits)| *all = bits);
        operation.bits(scalar, mode, all)
    })
}

/// Runs a floating-point operation.
pub(super) fn float_arith<M: Machine>(op: &FloatArith, machine: M) -> Option<M::Output> {
    match *op {
        FloatArith::AddRounded { lhs, rhs, mode } => {
            rounded(machine, [lhs, rhs], Operation::Add, mode)
        }
        FloatArith::SubRounded { lhs, rhs, mode } => {
            rounded(machine, [lhs, rhs], Operation::Sub, mode)
        }
        FloatArith::MulRounded { lhs, rhs, mode } => {
            rounded(machine, [lhs, rhs], Operation::Mul, mode)
        }
        FloatArith::FmaRounded { lhs, rhs, addend, mode } => {
            rounded(machine, [lhs, rhs, addend], Operation::Fma, mode)
        }
        FloatArith::DivRounded { lhs, rhs, mode } => {
            rounded(machine, [lhs, rhs], Operation::Div, mode)
        }
        FloatArith::SqrtRounded { value, mode } => rounded(machine, [value], Operation::Sqrt, mode),
        FloatArith::RcpRounded { value, mode } => rounded(machine, [value], Operation::Rcp, mode),
        FloatArith::Approx { value, function, subnormals } => {
            let scalar = elem(&machine, value)?;
            machine.elements([value], move |[x]| {
                let x = flushed(round::decode(scalar, x), subnormals);
                let y = round::decode(scalar, round::encode(scalar, approx(function, x)));
                round::encode(scalar, flushed(y, subnormals))
            })
        }
        FloatArith::DivApprox { lhs, rhs, form: _, subnormals } => {
            machine.elements([lhs, rhs], move |operands| {
                let [a, b] = operands.map(|x| flushed(round::decode(Scalar::F32, x), subnormals));
                let quotient = f64::from((a / b) as f32);
                round::encode(Scalar::F32, flushed(quotient, subnormals))
            })
        }
        FloatArith::MinNan { lhs, rhs } | FloatArith::MaxNan { lhs, rhs } => {
            let scalar = elem(&machine, lhs)?;
            let larger = matches!(op, FloatArith::MaxNan { .. });
            machine.elements([lhs, rhs], move |operands| {
                let operands = operands.map(|x| round::decode(scalar, x));
                round::encode(scalar, extreme(operands, larger))
            })
        }
        FloatArith::Testp { value, test } => {
            let scalar = machine.type_of(value)?.scalar()?;
            with_type!(scalar, [F32 f32, F64 f64], T => {
                machine.unary(value, move |x: T| has_property(Cvt::<f64>::cvt(x), scalar, test))
            })?
        }
    }
}
