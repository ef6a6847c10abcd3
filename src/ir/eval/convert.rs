//! Evaluates conversions of numbers, bits and vectors: one arm per row of the op table's family
//! `Convert`. A new row needs an arm here.

use super::dispatch::{with_scalar, with_source, with_target};
use super::number::Cvt;
use super::round::{self, Source};
use super::{Machine, elem, integers};
use crate::ir::entity::Value;
use crate::ir::narrow;
use crate::ir::number::{Rounding, int_to_odd};
use crate::ir::op::Convert;
use crate::ir::types::{Const, Scalar};

/// Runs a conversion.
pub(super) fn conversion<M: Machine>(op: &Convert, machine: M) -> Option<M::Output> {
    match *op {
        Convert::Cvt { value, to } => cvt(machine, value, to),
        Convert::Bitcast { value, to: _ } => machine.bitcast(value),
        Convert::CvtRounded { value, to: Scalar::Tf32, mode }
            if mode.rounding == Rounding::NearestAway =>
        {
            machine.elements([value], move |[x]| round::tf32_away(x as u32, mode).into())
        }
        Convert::CvtRounded { value, to, mode } => {
            let from = elem(&machine, value)?;
            machine.elements([value], move |[x]| round::convert_rounded(source(from, x), to, mode))
        }
        Convert::CvtRint { value, to, rounding } => {
            let from = elem(&machine, value)?;
            machine.elements([value], move |[x]| {
                let x = round::to_integral(round::decode(from, x), rounding);
                if to.is_float() { round::encode(to, x) } else { cut(to, x as i128) }
            })
        }
        Convert::CvtSat { value, to } => {
            integers(machine, [value], move |[x]| Const::new(to, cut(to, x)).as_int().unwrap_or(0))
        }
        Convert::CvtPack { ref values, to } => match values[..] {
            [a, b] => machine.words([a, b], move |words| packed(to, words)),
            [a, b, c, d] => machine.words([a, b, c, d], move |words| packed(to, words)),
            _ => None,
        },
        Convert::VecPack { ref values } => machine.pack(values),
        Convert::VecSplat { value, lanes } => machine.pack(&vec![value; lanes as usize]),
        Convert::VecExtract { vector, lane } => machine.extract(vector, lane),
    }
}

fn cvt<M: Machine>(machine: M, value: Value, to: Scalar) -> Option<M::Output> {
    let ty = machine.type_of(value)?;
    let from = elem(&machine, value)?;
    let is_narrow = from.format().is_some() || to.format().is_some();
    if ty.vector().is_some() || (is_narrow && to != Scalar::Bool) {
        return machine.elements([value], move |[bits]| convert(from, to, bits));
    }
    match from {
        Scalar::F32 => with_scalar!(to, B => machine.unary(value, <f32 as Cvt<B>>::cvt))?,
        Scalar::F64 => with_scalar!(to, B => machine.unary(value, <f64 as Cvt<B>>::cvt))?,
        _ => with_source!(from, A => {
            with_target!(to, B => machine.unary(value, <A as Cvt<B>>::cvt))
        })??,
    }
}

/// Clamps `i32` values to the range of `to` and packs them.
fn packed<const N: usize>(to: Scalar, words: [u32; N]) -> u32 {
    (0..).zip(words).fold(0, |packed, (i, word)| {
        packed | (cut(to, i128::from(word as i32)) as u32) << (i * to.bits())
    })
}

/// A value of any scalar type.
enum Number {
    Int(i128),
    Float(f64),
}

/// Converts a scalar as Rust's `as` does. Takes and returns bits, zero-extended.
///
/// Floating-point values pass through `f64`, which represents all of them exactly. Integers that
/// `f64` cannot represent are rounded to odd. So the result is rounded only once, from the exact
/// value.
fn convert(from: Scalar, to: Scalar, bits: u64) -> u64 {
    // This also keeps the ignored bits of a `tf32`, as a GPU does.
    if from == to {
        return bits;
    }
    let number = match (from, Const::new(from, bits).as_int()) {
        (_, Some(int)) => Number::Int(int),
        (Scalar::F32, _) => Number::Float(Cvt::<f64>::cvt(f32::from_bits(bits as u32))),
        (Scalar::F64, _) => Number::Float(f64::from_bits(bits)),
        (narrow, _) => match narrow::decode(narrow, bits as u32) {
            Some(x) => Number::Float(x),
            None => Number::Int(i128::from(bits != 0)),
        },
    };
    match (to, number) {
        (Scalar::Bool, Number::Int(int)) => u64::from(int != 0),
        (Scalar::Bool, Number::Float(x)) => u64::from(x != 0.0),
        (Scalar::F32, Number::Int(int)) => (int as f32).to_bits().into(),
        (Scalar::F32, Number::Float(x)) => Cvt::<f32>::cvt(x).to_bits().into(),
        (Scalar::F64, Number::Int(int)) => (int as f64).to_bits(),
        (Scalar::F64, Number::Float(x)) => x.to_bits(),
        (int, Number::Int(value)) if int.is_int() => Const::new(int, value as u64).bits(),
        (int, Number::Float(x)) if int.is_int() => cut(int, x as i128),
        (narrow, Number::Int(int)) => encoded(narrow, int_to_odd(int)),
        (narrow, Number::Float(x)) => encoded(narrow, x),
    }
}

fn encoded(scalar: Scalar, x: f64) -> u64 {
    // Only narrow formats get here.
    narrow::encode_nearest(scalar, x).unwrap_or(0).into()
}

/// Clamps an integer to the range of its type and returns the bits.
fn cut(to: Scalar, x: i128) -> u64 {
    let bits = to.bits();
    let (min, max) = if to.is_signed() {
        (-1i128 << (bits - 1), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    Const::new(to, x.clamp(min, max) as u64).bits()
}

/// Decodes an integer or floating-point value.
fn source(scalar: Scalar, bits: u64) -> Source {
    match Const::new(scalar, bits).as_int() {
        Some(int) => Source::Int(int),
        None => Source::Float(round::decode(scalar, bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For Rust's own types, this is Rust's `as`.
    #[test]
    fn conversions_between_rust_types_are_those_of_rust() {
        for x in [0.0, -0.5, 1.9, -129.0, 3e9, -3e9, 1e19, -1e19, f64::INFINITY, f64::NAN] {
            let narrow = x as f32;
            assert_eq!(convert(Scalar::F64, Scalar::I8, x.to_bits()), u64::from(x as i8 as u8));
            assert_eq!(convert(Scalar::F64, Scalar::U64, x.to_bits()), x as u64);
            let from_f32 = convert(Scalar::F32, Scalar::I32, narrow.to_bits().into());
            assert_eq!(from_f32, u64::from(narrow as i32 as u32));
        }
        for i in [0i64, 1, -1, i64::MAX, i64::MIN, (1 << 60) + 1] {
            assert_eq!(convert(Scalar::I64, Scalar::U16, i as u64), u64::from(i as u16));
            let float = convert(Scalar::I64, Scalar::F32, i as u64);
            assert_eq!(float, u64::from((i as f32).to_bits()));
        }
    }

    #[test]
    fn a_conversion_to_the_own_type_changes_nothing() {
        for (scalar, bits) in
            [(Scalar::Tf32, 0x3fc0_0001), (Scalar::F16, 0x7c01), (Scalar::I8, 0xff)]
        {
            assert_eq!(convert(scalar, scalar, bits), bits);
        }
    }

    #[test]
    fn narrow_formats_are_rounded_once() {
        // Slightly above the midpoint of two bf16 values. Rounding to f32 first would lose the
        // difference.
        let middle = 257.0 + 2f64.powi(-40);
        assert_eq!(convert(Scalar::F64, Scalar::Bf16, middle.to_bits()), 0x4381);
        assert_eq!(convert(Scalar::F64, Scalar::Bf16, 257f64.to_bits()), 0x4380);
        let int = (257u64 << 40) + 1;
        assert_eq!(convert(Scalar::U64, Scalar::Bf16, int), 0x5781);
        assert_eq!(convert(Scalar::Bool, Scalar::F16, 1), 0x3c00);
        assert_eq!(convert(Scalar::F32, Scalar::F8E4M3, 1e9f32.to_bits().into()), 0x7e);
        assert_eq!(convert(Scalar::F8E5M2, Scalar::I32, 0xc0), -2i32 as u32 as u64);
    }
}
