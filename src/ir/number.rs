//! Floating-point formats other than `f32` and `f64`: exact decoding, and encoding with each of
//! PTX's rounding modes. Constants, the narrow host types and the simulator's conversions use it.
//!
//! A format has a sign bit, `exponent_bits` and `fraction_bits`, with IEEE 754's bias and
//! subnormals. Every value of these formats is exact in `f64`, so decoding never rounds and
//! encoding rounds once.

/// How a value between two neighbours of a format is rounded (PTX ISA 9.7.9.21 `cvt`). Pass it to
/// [`cvt_rint`](crate::ir::Val::cvt_rint), or as part of a [`FloatMode`](crate::ir::op::FloatMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `.rn`: to the nearest, ties to an even fraction.
    NearestEven,
    /// `.rna`: to the nearest, ties away from zero.
    NearestAway,
    /// `.rz`: toward zero.
    Zero,
    /// `.rm`: toward negative infinity.
    Down,
    /// `.rp`: toward positive infinity.
    Up,
}

/// What the largest exponent of a format encodes: infinity and NaN, or finite values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specials {
    /// Infinity (fraction 0) and NaN, as in IEEE 754.
    Ieee,
    /// Finite values, except that the largest fraction is NaN. The format has no infinity.
    NanOnly,
}

/// A floating-point format: the widths of its fields, and what its largest exponent means.
/// [`Scalar::format`](crate::ir::types::Scalar::format) returns a type's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatFormat {
    /// Width of the exponent, in bits.
    pub exponent_bits: u32,
    /// Width of the fraction, in bits.
    pub fraction_bits: u32,
    /// What the largest exponent encodes.
    pub specials: Specials,
}

impl FloatFormat {
    /// IEEE 754 binary16.
    pub const F16: FloatFormat = FloatFormat::ieee(5, 10);
    /// bfloat16, the upper half of binary32.
    pub const BF16: FloatFormat = FloatFormat::ieee(8, 7);
    /// The 19 bits of binary32 that tensor cores use, without the 13 ignored bits below them.
    pub const TF32: FloatFormat = FloatFormat::ieee(8, 10);
    /// OCP 8-bit format with 5 exponent bits.
    pub const F8E5M2: FloatFormat = FloatFormat::ieee(5, 2);
    /// OCP 8-bit format with 4 exponent bits.
    pub const F8E4M3: FloatFormat =
        FloatFormat { exponent_bits: 4, fraction_bits: 3, specials: Specials::NanOnly };

    const fn ieee(exponent_bits: u32, fraction_bits: u32) -> FloatFormat {
        FloatFormat { exponent_bits, fraction_bits, specials: Specials::Ieee }
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn fraction_mask(self) -> u32 {
        (1 << self.fraction_bits) - 1
    }

    const fn exponent_mask(self) -> u32 {
        (1 << self.exponent_bits) - 1
    }

    /// Returns the bits of the largest finite value, without the sign.
    const fn largest(self) -> u32 {
        let largest_exponent = self.exponent_mask() << self.fraction_bits;
        match self.specials {
            Specials::Ieee => largest_exponent - 1,
            Specials::NanOnly => (largest_exponent | self.fraction_mask()) - 1,
        }
    }

    /// Returns the bits of the quiet NaN that PTX produces, without the sign: all fraction bits
    /// set.
    const fn nan(self) -> u32 {
        (self.exponent_mask() << self.fraction_bits) | self.fraction_mask()
    }

    /// Returns the value that `bits` encode, exactly. Bits above the format's width are ignored.
    pub fn decode(self, bits: u32) -> f64 {
        let fraction = bits & self.fraction_mask();
        let exponent = (bits >> self.fraction_bits) & self.exponent_mask();
        let negative = bits >> (self.fraction_bits + self.exponent_bits) & 1 == 1;
        let magnitude = if exponent == self.exponent_mask() {
            match self.specials {
                Specials::Ieee if fraction == 0 => f64::INFINITY,
                Specials::Ieee => f64::NAN,
                Specials::NanOnly if fraction == self.fraction_mask() => f64::NAN,
                Specials::NanOnly => self.normal(exponent, fraction),
            }
        } else if exponent == 0 {
            scale(f64::from(fraction), 1 - self.bias() - self.fraction_bits as i32)
        } else {
            self.normal(exponent, fraction)
        };
        if negative { -magnitude } else { magnitude }
    }

    fn normal(self, exponent: u32, fraction: u32) -> f64 {
        let significand = f64::from(fraction | 1 << self.fraction_bits);
        scale(significand, exponent as i32 - self.bias() - self.fraction_bits as i32)
    }

    /// Rounds `x` to the format and returns the bits. If the result is too large and `saturate` is
    /// true, returns the largest finite value with the same sign (PTX `.satfinite`). Without
    /// `saturate`, returns infinity or the largest finite value, as the rounding mode demands, and
    /// NaN instead of infinity in formats without one.
    pub fn encode(self, x: f64, rounding: Rounding, saturate: bool) -> u32 {
        let sign = u32::from(x.is_sign_negative()) << (self.fraction_bits + self.exponent_bits);
        if x.is_nan() {
            return self.nan();
        }
        if x.is_infinite() {
            return sign | if saturate { self.largest() } else { self.infinity() };
        }
        let x_bits = x.to_bits();
        let (x_exponent, x_fraction) = ((x_bits >> 52 & 0x7ff) as i32, x_bits & ((1 << 52) - 1));
        // x = significand * 2^(exponent - 52), also when x is subnormal.
        let (significand, exponent) = if x_exponent == 0 {
            (x_fraction, -1022)
        } else {
            (x_fraction | 1 << 52, x_exponent - 1023)
        };
        // At this magnitude, the format's unit in the last place is 2^(shift - 52 + exponent).
        let lowest = 1 - self.bias();
        let shift = 52 - self.fraction_bits as i32 + (lowest - exponent).max(0);
        let (kept, lost) = if shift < 64 {
            (significand >> shift, significand << (64 - shift))
        } else {
            // Below half of the smallest subnormal: keep nothing. Any nonzero remainder below half
            // will do.
            (0, u64::from(significand != 0))
        };
        let away = match rounding {
            Rounding::NearestEven => lost > 1 << 63 || (lost == 1 << 63 && kept & 1 == 1),
            Rounding::NearestAway => lost >= 1 << 63,
            Rounding::Zero => false,
            Rounding::Down => lost != 0 && sign != 0,
            Rounding::Up => lost != 0 && sign == 0,
        };
        // `kept` includes the implicit bit of normal values, which adds one to the exponent field.
        // A carry out of the fraction increments the exponent in the same way.
        let biased = (exponent.max(lowest) - lowest) as u64;
        let magnitude = (biased << self.fraction_bits) + kept + u64::from(away);
        if magnitude > u64::from(self.largest()) {
            let stays = match rounding {
                Rounding::NearestEven | Rounding::NearestAway => false,
                Rounding::Zero => true,
                Rounding::Down => sign == 0,
                Rounding::Up => sign != 0,
            };
            return sign | if saturate || stays { self.largest() } else { self.infinity() };
        }
        sign | magnitude as u32
    }

    /// Returns the bits, without the sign, that overflow produces.
    const fn infinity(self) -> u32 {
        match self.specials {
            Specials::Ieee => self.exponent_mask() << self.fraction_bits,
            Specials::NanOnly => self.nan(),
        }
    }
}

/// Returns `a * b + c` rounded to odd: toward zero, then with the last bit set if the result is
/// inexact. `a * b` must be exact in `f64`.
///
/// Because `f64` has over two bits more than every format up to `f32`, rounding the result again to
/// such a format gives the same as rounding the exact sum once (Boldo, Melquiond: Emulation of a
/// FMA and correctly rounded sums, 2008). We do this instead of `f64::mul_add` because it compiles
/// to vector instructions, whereas `mul_add` is a library call on many hosts.
#[inline(always)]
pub(crate) fn mul_add_to_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    // The exact error of the sum (Knuth's two-sum); NaN if the sum is not finite.
    let of_c = sum - product;
    let error = (product - (sum - of_c)) + (c - of_c);
    let is_inexact = (error > 0.0) | (error < 0.0);
    let is_too_large = (error < 0.0) != (sum < 0.0);
    let bits = sum.to_bits();
    let odd = bits.wrapping_sub(u64::from(is_too_large)) | 1;
    f64::from_bits(if is_inexact { odd } else { bits })
}

/// Converts an integer with magnitude below 2^64 to `f64`, rounded to odd.
pub(crate) fn int_to_odd(int: i128) -> f64 {
    let magnitude = int.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(f64::MANTISSA_DIGITS);
    let kept = magnitude >> excess;
    let odd = kept | u128::from(kept << excess != magnitude);
    // At most 53 bits times a power of two within `f64`'s range: both steps are exact.
    let x = odd as f64 * f64::from_bits(u64::from(1023 + excess) << 52);
    if int < 0 { -x } else { x }
}

/// Returns `x * 2^exponent`, exact for the values of narrow formats.
fn scale(x: f64, exponent: i32) -> f64 {
    // The smallest value is 2^-133 (bf16) and the largest factor 2^117: both are normal f64 values.
    x * f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [FloatFormat; 5] = [
        FloatFormat::F16,
        FloatFormat::BF16,
        FloatFormat::TF32,
        FloatFormat::F8E5M2,
        FloatFormat::F8E4M3,
    ];

    fn width(format: FloatFormat) -> u32 {
        1 + format.exponent_bits + format.fraction_bits
    }

    /// Every value of the format survives a round trip, and each rounding mode picks the right
    /// neighbour.
    #[test]
    fn encoding_inverts_decoding_and_rounds_to_a_neighbour() {
        for format in FORMATS {
            for bits in 0..1 << width(format) {
                let x = format.decode(bits);
                if x.is_nan() {
                    assert!(format.decode(format.encode(x, Rounding::NearestEven, false)).is_nan());
                    continue;
                }
                for rounding in
                    [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up]
                {
                    assert_eq!(format.encode(x, rounding, false), bits, "{format:?} {x}");
                }
                let next = format.decode(bits + 1);
                if bits + 1 < 1 << (width(format) - 1) && next.is_finite() {
                    check_between(format, bits, x, next);
                }
            }
        }
    }

    /// `lo` and `hi` are neighbours with the bits `bits` and `bits + 1`, both positive.
    fn check_between(format: FloatFormat, bits: u32, lo: f64, hi: f64) {
        let middle = (lo + hi) / 2.0;
        let even = if bits & 1 == 0 { bits } else { bits + 1 };
        for (x, nearest_even, nearest_away) in [
            (middle, even, bits + 1),
            ((lo + middle) / 2.0, bits, bits),
            ((hi + middle) / 2.0, bits + 1, bits + 1),
        ] {
            let sign = 1 << (width(format) - 1);
            let cases = [
                (Rounding::NearestEven, nearest_even, nearest_even),
                (Rounding::NearestAway, nearest_away, nearest_away),
                (Rounding::Zero, bits, bits),
                (Rounding::Down, bits, bits + 1),
                (Rounding::Up, bits + 1, bits),
            ];
            for (rounding, positive, negative) in cases {
                assert_eq!(
                    format.encode(x, rounding, false),
                    positive,
                    "{format:?} {rounding:?} {x}"
                );
                assert_eq!(format.encode(-x, rounding, false), sign | negative, "{format:?} {x}");
            }
        }
    }

    #[test]
    fn overflow_goes_to_infinity_or_to_the_largest_number() {
        let big = 1e300;
        assert_eq!(FloatFormat::F16.encode(65504.0, Rounding::NearestEven, false), 0x7bff);
        assert_eq!(FloatFormat::F16.encode(65519.9, Rounding::NearestEven, false), 0x7bff);
        assert_eq!(FloatFormat::F16.encode(65520.0, Rounding::NearestEven, false), 0x7c00);
        assert_eq!(FloatFormat::F16.encode(big, Rounding::Zero, false), 0x7bff);
        assert_eq!(FloatFormat::F16.encode(-big, Rounding::Up, false), 0xfbff);
        assert_eq!(FloatFormat::F8E4M3.encode(448.0, Rounding::NearestEven, true), 0x7e);
        assert_eq!(FloatFormat::F8E4M3.encode(big, Rounding::NearestEven, true), 0x7e);
        assert_eq!(FloatFormat::F8E4M3.encode(big, Rounding::NearestEven, false), 0x7f);
        assert_eq!(FloatFormat::F8E5M2.encode(f64::INFINITY, Rounding::NearestEven, false), 0x7c);
        assert_eq!(FloatFormat::F16.encode(1e-300, Rounding::Up, false), 1);
        assert_eq!(FloatFormat::F16.encode(-1e-300, Rounding::NearestEven, false), 0x8000);
    }

    #[test]
    fn integers_round_to_odd() {
        for (int, expected) in [
            (0, 0.0),
            (-5, -5.0),
            ((1 << 53) + 1, 9007199254740994.0),
            ((1 << 54) + 1, 18014398509481988.0),
            ((1 << 54) + 4, 18014398509481988.0),
            (i128::from(u64::MAX), 18446744073709549568.0),
        ] {
            assert_eq!(int_to_odd(int), expected, "{int}");
        }
    }

    #[test]
    fn bf16_is_the_upper_half_of_f32() {
        for upper in 0..=0xffffu32 {
            let x = f32::from_bits(upper << 16);
            let decoded = FloatFormat::BF16.decode(upper);
            assert!(decoded == f64::from(x) || (decoded.is_nan() && x.is_nan()));
        }
    }
}
