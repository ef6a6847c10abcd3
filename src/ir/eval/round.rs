//! Floating-point arithmetic with every rounding mode: computes the exact result with integers,
//! then rounds once. The operations that take a `FloatMode` are evaluated with it, because the host
//! only rounds to nearest.

use super::number::Nan;
use crate::ir::narrow;
use crate::ir::number::Rounding;
use crate::ir::op::{Clamp, FloatMode};
use crate::ir::types::Scalar;

/// A floating-point type's precision and range.
#[derive(Clone, Copy, Debug)]
struct Format {
    /// Width of the significand in bits, including the hidden bit.
    digits: u32,
    /// The exponent of the smallest subnormal.
    lowest: i32,
    /// The largest finite value.
    max: f64,
}

impl Format {
    /// Returns the format of `f16`, `bf16`, `f32` or `f64`.
    fn of(scalar: Scalar) -> Format {
        match scalar {
            Scalar::F16 => Format { digits: 11, lowest: -24, max: 65504.0 },
            Scalar::Bf16 => {
                Format { digits: 8, lowest: -133, max: f32::from_bits(0x7f7f_0000).into() }
            }
            Scalar::F32 => Format { digits: 24, lowest: -149, max: f32::MAX.into() },
            _ => Format { digits: 53, lowest: -1074, max: f64::MAX },
        }
    }

    /// Returns whether `x`, a value of the format, is subnormal.
    fn is_subnormal(self, x: f64) -> bool {
        x != 0.0 && x.abs() < scale(1.0, self.lowest + self.digits as i32 - 1)
    }

    fn flushed(self, x: f64) -> f64 {
        if self.is_subnormal(x) { 0f64.copysign(x) } else { x }
    }
}

/// Returns `x * 2^exponent`, which must be exact in `f64`.
fn scale(x: f64, exponent: i32) -> f64 {
    let power = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
    // Three normal factors reach every exponent.
    let (first, rest) = (exponent.clamp(-1000, 1000), exponent - exponent.clamp(-1000, 1000));
    let (second, third) = (rest.clamp(-1000, 1000), rest - rest.clamp(-1000, 1000));
    x * power(first) * power(second) * power(third)
}

/// A nonzero value: `significand * 2^exponent`. The last bit of the significand is sticky: if it is
/// set, the exact magnitude may be larger by less than that bit.
#[derive(Clone, Copy, Debug)]
struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
}

/// The width that significands are normalised to. It leaves room for a carry.
const BITS: u32 = 126;

impl Exact {
    fn new(negative: bool, significand: u128, exponent: i32) -> Exact {
        let unused = significand.leading_zeros();
        let room = 128 - BITS;
        if unused >= room {
            let shift = unused - room;
            let significand = significand << shift;
            return Exact { negative, significand, exponent: exponent - shift as i32 };
        }
        // Bits that are shifted out set the sticky last bit.
        let shift = room - unused;
        let kept = significand >> shift;
        let significand = kept | u128::from(kept << shift != significand);
        Exact { negative, significand, exponent: exponent + shift as i32 }
    }

    /// Converts a finite, nonzero value.
    fn of(x: f64) -> Exact {
        let bits = x.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        let significand = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        Exact::new(x < 0.0, significand.into(), exponent.max(1) - 1075)
    }

    /// Returns the significand without trailing zeros, and the matching exponent.
    fn reduced(self) -> (u128, i32) {
        let zeros = self.significand.trailing_zeros();
        (self.significand >> zeros, self.exponent + zeros as i32)
    }

    /// Multiplies. Both values come from `f64`, so the product has at most 106 bits.
    fn mul(self, rhs: Exact) -> Exact {
        let ((a, ae), (b, be)) = (self.reduced(), rhs.reduced());
        Exact::new(self.negative != rhs.negative, a * b, ae + be)
    }

    /// Adds. Returns `None` if the sum is zero. At most one operand may have more than 53 bits, and
    /// it has at most 106.
    fn add(self, rhs: Exact) -> Option<Exact> {
        let (large, small) = if self.exponent >= rhs.exponent { (self, rhs) } else { (rhs, self) };
        let distance = (large.exponent - small.exponent) as u32;
        // Bits that are shifted out set the sticky last bit. More than the spare bits are shifted
        // out only if the exponents differ so much that at most one digit cancels.
        let shifted = match distance {
            0 => small.significand,
            1..=127 => {
                let lost = small.significand << (128 - distance) != 0;
                small.significand >> distance | u128::from(lost)
            }
            _ => 1,
        };
        let (negative, significand) = if large.negative == small.negative {
            (large.negative, large.significand + shifted)
        } else if large.significand >= shifted {
            (large.negative, large.significand - shifted)
        } else {
            (small.negative, shifted - large.significand)
        };
        (significand != 0).then(|| Exact::new(negative, significand, large.exponent))
    }

    fn div(self, rhs: Exact) -> Exact {
        let ((a, _), (b, be)) = ((self.significand, 0), rhs.reduced());
        let sticky = u128::from(a % b != 0);
        Exact::new(self.negative != rhs.negative, (a / b) << 1 | sticky, self.exponent - be - 1)
    }

    fn sqrt(self) -> Exact {
        let odd = self.exponent.rem_euclid(2);
        let (a, exponent) = (self.significand << odd, self.exponent - odd);
        let root = a.isqrt();
        Exact::new(false, root << 1 | u128::from(root * root != a), exponent / 2 - 1)
    }

    /// Rounds to a value of the format.
    fn round(self, format: Format, rounding: Rounding) -> f64 {
        let Exact { negative, significand, exponent } = self;
        let sign = if negative { -1.0 } else { 1.0 };
        let away = match rounding {
            Rounding::Down => negative,
            Rounding::Up => !negative,
            Rounding::NearestEven | Rounding::NearestAway | Rounding::Zero => false,
        };
        let excess = ((BITS - format.digits) as i32).max(format.lowest - exponent);
        let (kept, middle) = match excess {
            ..=126 => {
                let kept = significand >> excess;
                let lost = significand - (kept << excess);
                (kept, lost.cmp(&(1 << (excess - 1))))
            }
            127 => (0, significand.cmp(&(1 << 126))),
            _ => (0, std::cmp::Ordering::Less),
        };
        let exact = excess <= 126 && significand == kept << excess;
        let up = !exact
            && match rounding {
                Rounding::NearestEven => middle.is_gt() || (middle.is_eq() && kept & 1 == 1),
                Rounding::NearestAway => middle.is_ge(),
                Rounding::Zero | Rounding::Down | Rounding::Up => away,
            };
        // At most 2^53, which is exact in `f64`.
        let magnitude = (kept + u128::from(up)) as f64;
        let too_large = exponent + excess > 1023;
        let rounded = if too_large { f64::INFINITY } else { scale(magnitude, exponent + excess) };
        if rounded <= format.max {
            return sign * rounded;
        }
        let nearest = matches!(rounding, Rounding::NearestEven | Rounding::NearestAway);
        sign * if nearest || away { f64::INFINITY } else { format.max }
    }
}

/// The operations that support every rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
    Rcp,
}

impl Operation {
    /// Computes the result for operands of the format, given as `f64`. Returns NaN if the result is
    /// undefined. Ignores the operands that the operation does not have.
    fn apply(self, [a, b, c]: [f64; 3], format: Format, rounding: Rounding) -> f64 {
        let zero = |a: f64, b: f64| match (a.is_sign_negative(), b.is_sign_negative()) {
            (true, true) => -0.0,
            (false, false) => 0.0,
            _ if rounding == Rounding::Down => -0.0,
            _ => 0.0,
        };
        let rounded = |x: Exact| x.round(format, rounding);
        let sum = |a: f64, b: f64| match (a == 0.0, b == 0.0) {
            (true, true) => zero(a, b),
            (true, false) => b,
            (false, true) => a,
            (false, false) => Exact::of(a).add(Exact::of(b)).map_or(zero(1.0, -1.0), rounded),
        };
        let usual = |x: f64| x.is_finite() && x != 0.0;
        match self {
            Operation::Add if a.is_finite() && b.is_finite() => sum(a, b),
            Operation::Add => a + b,
            Operation::Sub => Operation::Add.apply([a, -b, c], format, rounding),
            Operation::Mul if usual(a) && usual(b) => rounded(Exact::of(a).mul(Exact::of(b))),
            Operation::Mul => a * b,
            Operation::Fma if usual(a) && usual(b) && c.is_finite() => {
                let product = Exact::of(a).mul(Exact::of(b));
                if c == 0.0 {
                    return rounded(product);
                }
                product.add(Exact::of(c)).map_or(zero(1.0, -1.0), rounded)
            }
            // The product is zero, infinite or NaN, or the addend is not finite.
            Operation::Fma if a.is_finite() && b.is_finite() && c.is_finite() => sum(a * b, c),
            Operation::Fma if a.is_finite() && b.is_finite() => c,
            Operation::Fma => a * b + c,
            Operation::Div if usual(a) && usual(b) => rounded(Exact::of(a).div(Exact::of(b))),
            Operation::Div => a / b,
            Operation::Sqrt if usual(a) && a > 0.0 => rounded(Exact::of(a).sqrt()),
            Operation::Sqrt => a.sqrt(),
            Operation::Rcp => Operation::Div.apply([1.0, a, c], format, rounding),
        }
    }

    /// Computes the result's bits for `f16`, `bf16`, `f32` or `f64`. A NaN result has the bits that
    /// PTX calls canonical, or some quiet NaN for `f64`, which has no canonical one.
    pub(super) fn bits(self, scalar: Scalar, mode: FloatMode, operands: [u64; 3]) -> u64 {
        let format = Format::of(scalar);
        let mut operands = operands.map(|bits| decode(scalar, bits));
        if mode.ftz {
            operands = operands.map(|x| format.flushed(x));
        }
        let mut x = self.apply(operands, format, mode.rounding);
        if mode.ftz {
            x = format.flushed(x);
        }
        encode(scalar, clamped(x, mode.clamp))
    }
}

/// Clamps a result. `Satfinite` is not handled here but when rounding.
pub(super) fn clamped(x: f64, clamp: Clamp) -> f64 {
    match clamp {
        Clamp::None | Clamp::Satfinite => x,
        // NaN fails this comparison and becomes 0.
        Clamp::Sat => {
            if x > 0.0 {
                x.min(1.0)
            } else {
                0.0
            }
        }
        Clamp::Relu | Clamp::SatfiniteRelu => {
            if x <= 0.0 {
                0.0
            } else {
                x
            }
        }
    }
}

/// Decodes a floating-point value, exactly.
pub(super) fn decode(scalar: Scalar, bits: u64) -> f64 {
    match scalar {
        Scalar::F32 => f32::from_bits(bits as u32).into(),
        _ => narrow::decode(scalar, bits as u32).unwrap_or(f64::from_bits(bits)),
    }
}

/// Encodes a value of the type. NaN becomes the type's NaN.
pub(super) fn encode(scalar: Scalar, x: f64) -> u64 {
    match scalar {
        Scalar::F32 => (x as f32).or_nan_of([]).to_bits().into(),
        Scalar::F64 => x.or_nan_of([]).to_bits(),
        _ => narrow::encode_nearest(scalar, x).unwrap_or(0).into(),
    }
}

/// Rounds to a floating-point type, as conversions with an explicit mode do, and returns the bits.
pub(super) fn convert_rounded(x: Source, to: Scalar, mode: FloatMode) -> u64 {
    let saturates = matches!(mode.clamp, Clamp::Satfinite | Clamp::SatfiniteRelu);
    let exact = match x {
        Source::Float(x) if !x.is_finite() || x == 0.0 => Err(x),
        Source::Float(x) => Ok(Exact::of(x)),
        Source::Int(0) => Err(0.0),
        Source::Int(int) => Ok(Exact::new(int < 0, int.unsigned_abs(), 0)),
    };
    if let Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 = to {
        let format = Format::of(to);
        let mut x = match exact {
            Ok(exact) => exact.round(format, mode.rounding),
            Err(special) => special,
        };
        if saturates && !x.is_nan() {
            x = x.clamp(-format.max, format.max);
        }
        return encode(to, clamped(x, mode.clamp));
    }
    // These types are converted only from `f32`.
    let x = match x {
        Source::Float(x) => clamped(x, mode.clamp),
        Source::Int(int) => int as f64,
    };
    narrow::encode(to, x, mode.rounding, saturates).unwrap_or(0).into()
}

/// Computes `cvt.rna.tf32.f32` the way compilers for all targets emit it: add half a unit, then
/// truncate. Values that are not finite are only truncated, so a NaN whose payload is in the lower
/// bits becomes infinity. With `satfinite`, infinity becomes the largest finite value.
pub(super) fn tf32_away(bits: u32, mode: FloatMode) -> u32 {
    const UNIT: u32 = 1 << 13;
    let is_finite = |bits: u32| bits & 0x7fff_ffff < 0x7f80_0000;
    let rounded = if is_finite(bits) { bits + UNIT / 2 } else { bits } & !(UNIT - 1);
    match mode.clamp {
        Clamp::Satfinite if !is_finite(rounded) => rounded - UNIT,
        _ => rounded,
    }
}

/// A value to convert.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Int(i128),
    Float(f64),
}

/// Rounds to an integral value. Infinity and NaN stay, and zero keeps its sign.
pub(super) fn to_integral(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::NearestEven => x.round_ties_even(),
        Rounding::NearestAway => x.round(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_of(operation: Operation, operands: [f64; 3], rounding: Rounding) -> f64 {
        operation.apply(operands, Format::of(Scalar::F64), rounding)
    }

    /// Ties go away from zero; values that are not finite become what the hardware makes of them.
    #[test]
    fn tf32_away_from_zero() {
        let of = |bits, clamp| {
            tf32_away(bits, FloatMode { rounding: Rounding::NearestAway, ftz: false, clamp })
        };
        let cases = [
            (0x3f80_0fff, 0x3f80_0000, 0x3f80_0000),
            (0x3f80_1000, 0x3f80_2000, 0x3f80_2000),
            (0xbf80_1000, 0xbf80_2000, 0xbf80_2000),
            (0x7f7f_ffff, 0x7f80_0000, 0x7f7f_e000),
            (0xff80_0000, 0xff80_0000, 0xff7f_e000),
            (0x7f80_0001, 0x7f80_0000, 0x7f7f_e000),
            (0x7fff_ffff, 0x7fff_e000, 0x7fff_c000),
        ];
        for (bits, plain, limited) in cases {
            assert_eq!(of(bits, Clamp::None), plain, "{bits:#x}");
            assert_eq!(of(bits, Clamp::Satfinite), limited, "{bits:#x}");
        }
    }

    /// For finite values, this is the format's own rounding.
    #[test]
    fn tf32_away_is_the_rounding_of_the_format() {
        for i in 0..4000u32 {
            let bits = i.wrapping_mul(0x9e37_79b9);
            let x = f32::from_bits(bits);
            if x.is_finite() {
                let mode = FloatMode { rounding: Rounding::NearestAway, ..FloatMode::RN };
                let expected = convert_rounded(Source::Float(x.into()), Scalar::Tf32, mode);
                assert_eq!(u64::from(tf32_away(bits, mode)), expected, "{x:e}");
            }
        }
    }

    proptest::proptest! {
        /// To nearest, the host's `f64` arithmetic is the reference.
        #[test]
        fn to_nearest_is_that_of_the_host(a: u64, b: u64, c: u64, near in -60i32..60) {
            let [a, b, c] = [a, b, c].map(f64::from_bits);
            let close = scale(a, near.clamp(-1, 1)) * (1.0 + f64::from(near) * f64::EPSILON);
            for (a, b, c) in [(a, b, c), (a, close, -a * close), (a, -close, a), (1.0 + a, b, -b)] {
                for (operation, expected) in [
                    (Operation::Add, a + b),
                    (Operation::Sub, a - b),
                    (Operation::Mul, a * b),
                    (Operation::Fma, a.mul_add(b, c)),
                    (Operation::Div, a / b),
                    (Operation::Sqrt, a.sqrt()),
                    (Operation::Rcp, 1.0 / a),
                ] {
                    let found = f64_of(operation, [a, b, c], Rounding::NearestEven);
                    proptest::prop_assert!(
                        found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                        "{operation:?} {a:e} {b:e} {c:e}: {found:e}, not {expected:e}"
                    );
                }
            }
        }

        /// The directed roundings are the exact result, or its neighbours on both sides.
        #[test]
        fn directed_roundings_enclose_the_nearest(a: u64, b: u64, c: u64) {
            let operands = [a, b, c].map(f64::from_bits);
            for operation in [Operation::Add, Operation::Mul, Operation::Fma, Operation::Div] {
                let of = |rounding| f64_of(operation, operands, rounding);
                let nearest = of(Rounding::NearestEven);
                if !nearest.is_finite() {
                    continue;
                }
                let (down, up, zero) = (of(Rounding::Down), of(Rounding::Up), of(Rounding::Zero));
                proptest::prop_assert!(down <= nearest && nearest <= up);
                proptest::prop_assert!(down == up || down.next_up() == up);
                let toward_zero = if nearest.is_sign_negative() { up } else { down };
                proptest::prop_assert!(zero == toward_zero);
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        let of = |operation, a, rounding| f64_of(operation, a, rounding);
        assert_eq!(of(Operation::Mul, [f64::MAX, 2.0, 0.0], Rounding::Zero), f64::MAX);
        assert_eq!(of(Operation::Mul, [f64::MAX, 2.0, 0.0], Rounding::Up), f64::INFINITY);
        assert_eq!(of(Operation::Mul, [f64::MAX, -2.0, 0.0], Rounding::Up), -f64::MAX);
        let tiny = f64::from_bits(1);
        assert_eq!(of(Operation::Mul, [tiny, 0.25, 0.0], Rounding::Up), tiny);
        assert_eq!(of(Operation::Mul, [tiny, 0.5, 0.0], Rounding::NearestEven), 0.0);
        let zero = of(Operation::Sub, [1.0, 1.0, 0.0], Rounding::Down);
        assert!(zero == 0.0 && zero.is_sign_negative());
        let ftz = FloatMode::RN.ftz();
        assert_eq!(Operation::Add.bits(Scalar::F32, ftz, [1, 0x8000_0000, 0]), 0);
        let sat = FloatMode::RN.sat();
        let nan = f32::NAN.to_bits().into();
        assert_eq!(Operation::Add.bits(Scalar::F32, sat, [nan, 0, 0]), 0);
        assert_eq!(Operation::Add.bits(Scalar::F16, sat, [0x4000, 0, 0]), 0x3c00);
        assert_eq!(Operation::Fma.bits(Scalar::Bf16, FloatMode::RN.relu(), [0xbf80, 0x3f80, 0]), 0);
    }
}
