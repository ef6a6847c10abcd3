//! Arithmetic for each scalar type, bit for bit as on the GPU, including the bits of NaN. Constant
//! folding and the simulator compute with it.
//!
//! IEEE 754 leaves a NaN's bits open, and hosts differ. We use the bits that an H200 returns: for
//! `f32` always `0x7fffffff`; for `f16` and `bf16` `0x7fff`; for `f64` the first NaN operand, made
//! quiet, in an order that depends on the operation, or `0xfff8000000000000` if no operand is NaN.
//!
//! We detect NaN by its bits, not by `is_nan`. LLVM treats all NaNs alike, so in an optimised build
//! a test by `is_nan` could fail to replace the host's NaN, for example the result of a square
//! root.

use super::lane::{Lane, Pair};
use crate::ir::narrow::{bf16, f16};
use crate::ir::number::mul_add_to_odd;

/// Types with arithmetic.
pub(crate) trait Number: Lane {
    fn add(self, rhs: Self) -> Self;
    fn sub(self, rhs: Self) -> Self;
    fn mul(self, rhs: Self) -> Self;
    fn min(self, rhs: Self) -> Self;
    fn max(self, rhs: Self) -> Self;
}

/// Types with a sign.
pub(crate) trait Signed: Number {
    fn neg(self) -> Self;
    fn abs(self) -> Self;
}

/// Integer types and `bool`.
pub(crate) trait Bits: Lane {
    fn and(self, rhs: Self) -> Self;
    fn or(self, rhs: Self) -> Self;
    fn xor(self, rhs: Self) -> Self;
    fn not(self) -> Self;
}

/// Integer types.
pub(crate) trait Int: Number + Bits + PartialOrd {
    const ZERO: Self;
    /// Quotient, rounded toward zero. The smallest integer divided by -1 is itself. The divisor
    /// must not be zero.
    fn quotient(self, rhs: Self) -> Self;
    /// Remainder with the sign of `self`. The divisor must not be zero.
    fn remainder(self, rhs: Self) -> Self;
    fn shl(self, amount: u32) -> Self;
    fn shr(self, amount: u32) -> Self;
}

/// Types with a fused multiply-add.
pub(crate) trait Fused: Number {
    fn fma(self, rhs: Self, addend: Self) -> Self;
}

/// Floating-point types.
pub(crate) trait Float: Fused {
    fn div(self, rhs: Self) -> Self;
    fn sqrt(self) -> Self;
}

macro_rules! bits {
    ($($ty:ty)*) => {$(
        impl Bits for $ty {
            #[inline(always)]
            fn and(self, rhs: Self) -> Self {
                self & rhs
            }
            #[inline(always)]
            fn or(self, rhs: Self) -> Self {
                self | rhs
            }
            #[inline(always)]
            fn xor(self, rhs: Self) -> Self {
                self ^ rhs
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
        }
    )*};
}
bits!(bool i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! int {
    ($($ty:ty, $negative:expr;)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn add(self, rhs: Self) -> Self {
                self.wrapping_add(rhs)
            }
            #[inline(always)]
            fn sub(self, rhs: Self) -> Self {
                self.wrapping_sub(rhs)
            }
            #[inline(always)]
            fn mul(self, rhs: Self) -> Self {
                self.wrapping_mul(rhs)
            }
            #[inline(always)]
            fn min(self, rhs: Self) -> Self {
                Ord::min(self, rhs)
            }
            #[inline(always)]
            fn max(self, rhs: Self) -> Self {
                Ord::max(self, rhs)
            }
        }

        impl Int for $ty {
            const ZERO: Self = 0;

            #[inline(always)]
            fn quotient(self, rhs: Self) -> Self {
                self.wrapping_div(rhs)
            }
            #[inline(always)]
            fn remainder(self, rhs: Self) -> Self {
                self.wrapping_rem(rhs)
            }
            #[inline(always)]
            fn shl(self, amount: u32) -> Self {
                if amount >= <$ty>::BITS { 0 } else { self << amount }
            }
            #[inline(always)]
            fn shr(self, amount: u32) -> Self {
                let is_negative: fn($ty) -> bool = $negative;
                match amount {
                    _ if amount < <$ty>::BITS => self >> amount,
                    _ if is_negative(self) => !0,
                    _ => 0,
                }
            }
        }
    )*};
}
int! {
    i8, |x| x < 0;
    i16, |x| x < 0;
    i32, |x| x < 0;
    i64, |x| x < 0;
    u8, |_| false;
    u16, |_| false;
    u32, |_| false;
    u64, |_| false;
}

macro_rules! signed {
    ($($ty:ty)*) => {$(
        impl Signed for $ty {
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.wrapping_abs()
            }
        }
    )*};
}
signed!(i8 i16 i32 i64);

/// The NaN that operations return.
pub(crate) trait Nan: Sized {
    /// Returns whether the bits encode a NaN.
    fn has_nan_bits(self) -> bool;
    /// Returns the operation's result: `self`, or if that is NaN, the NaN for these operands, which
    /// are given in order of preference.
    fn or_nan_of<const N: usize>(self, operands: [Self; N]) -> Self;
}

impl Nan for f32 {
    #[inline(always)]
    fn has_nan_bits(self) -> bool {
        self.to_bits() & 0x7fff_ffff > 0x7f80_0000
    }
    #[inline(always)]
    fn or_nan_of<const N: usize>(self, _: [f32; N]) -> f32 {
        f32::from_bits(if self.has_nan_bits() { 0x7fff_ffff } else { self.to_bits() })
    }
}

impl Nan for f64 {
    #[inline(always)]
    fn has_nan_bits(self) -> bool {
        self.to_bits() & (u64::MAX >> 1) > 0x7ff << 52
    }
    #[inline(always)]
    fn or_nan_of<const N: usize>(self, operands: [f64; N]) -> f64 {
        const QUIET: u64 = 1 << 51;
        if !self.has_nan_bits() {
            return self;
        }
        f64::from_bits(operands.into_iter().rev().fold(0xfff8_0000_0000_0000, |nan, operand| {
            if operand.has_nan_bits() { operand.to_bits() | QUIET } else { nan }
        }))
    }
}

macro_rules! float {
    ($($ty:ty, $fma:expr;)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn add(self, rhs: Self) -> Self {
                (self + rhs).or_nan_of([rhs, self])
            }
            #[inline(always)]
            fn sub(self, rhs: Self) -> Self {
                (self - rhs).or_nan_of([rhs, self])
            }
            #[inline(always)]
            fn mul(self, rhs: Self) -> Self {
                (self * rhs).or_nan_of([rhs, self])
            }
            #[inline(always)]
            fn min(self, rhs: Self) -> Self {
                if self < rhs || rhs.is_nan() {
                    self.or_nan_of([rhs, self])
                } else if self == rhs {
                    // Equal values have equal bits, except for zeros: -0 is the smaller.
                    <$ty>::from_bits(self.to_bits() | rhs.to_bits())
                } else {
                    rhs
                }
            }
            #[inline(always)]
            fn max(self, rhs: Self) -> Self {
                if self > rhs || rhs.is_nan() {
                    self.or_nan_of([rhs, self])
                } else if self == rhs {
                    <$ty>::from_bits(self.to_bits() & rhs.to_bits())
                } else {
                    rhs
                }
            }
        }

        impl Signed for $ty {
            #[inline(always)]
            fn neg(self) -> Self {
                (-self).or_nan_of([self])
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs().or_nan_of([self])
            }
        }

        impl Fused for $ty {
            #[inline(always)]
            fn fma(self, rhs: Self, addend: Self) -> Self {
                let fma: fn($ty, $ty, $ty) -> $ty = $fma;
                fma(self, rhs, addend).or_nan_of([rhs, addend, self])
            }
        }

        impl Float for $ty {
            #[inline(always)]
            fn div(self, rhs: Self) -> Self {
                (self / rhs).or_nan_of([self, rhs])
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt().or_nan_of([self])
            }
        }
    )*};
}
float! {
    f32, fma_f32;
    f64, f64::mul_add;
}

/// Computes `a * b + c` with a single rounding.
#[inline(always)]
fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    mul_add_to_odd(a.into(), b.into(), c.into()) as f32
}

/// Computed in `f64`. Because `f64` has more than twice the digits and exponent range, rounding to
/// it first does not change the result (Figueroa: When is double rounding innocuous?, 1995).
macro_rules! narrow_float {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn add(self, rhs: Self) -> Self {
                <$ty>::from_f64(self.to_f64() + rhs.to_f64())
            }
            #[inline(always)]
            fn sub(self, rhs: Self) -> Self {
                <$ty>::from_f64(self.to_f64() - rhs.to_f64())
            }
            #[inline(always)]
            fn mul(self, rhs: Self) -> Self {
                <$ty>::from_f64(self.to_f64() * rhs.to_f64())
            }
            #[inline(always)]
            fn min(self, rhs: Self) -> Self {
                <$ty>::from_f64(Number::min(self.to_f64(), rhs.to_f64()))
            }
            #[inline(always)]
            fn max(self, rhs: Self) -> Self {
                <$ty>::from_f64(Number::max(self.to_f64(), rhs.to_f64()))
            }
        }

        impl Signed for $ty {
            #[inline(always)]
            fn neg(self) -> Self {
                <$ty>::from_f64(-self.to_f64())
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$ty>::from_f64(self.to_f64().abs())
            }
        }

        impl Fused for $ty {
            #[inline(always)]
            fn fma(self, rhs: Self, addend: Self) -> Self {
                <$ty>::from_f64(mul_add_to_odd(self.to_f64(), rhs.to_f64(), addend.to_f64()))
            }
        }

        impl Float for $ty {
            #[inline(always)]
            fn div(self, rhs: Self) -> Self {
                <$ty>::from_f64(self.to_f64() / rhs.to_f64())
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                <$ty>::from_f64(self.to_f64().sqrt())
            }
        }
    )*};
}
narrow_float!(f16 bf16);

/// Operates on both halves separately.
impl<T: Number + Lane<Word = u32>> Number for Pair<T> {
    #[inline(always)]
    fn add(self, rhs: Self) -> Self {
        Pair(self.0.add(rhs.0), self.1.add(rhs.1))
    }
    #[inline(always)]
    fn sub(self, rhs: Self) -> Self {
        Pair(self.0.sub(rhs.0), self.1.sub(rhs.1))
    }
    #[inline(always)]
    fn mul(self, rhs: Self) -> Self {
        Pair(self.0.mul(rhs.0), self.1.mul(rhs.1))
    }
    #[inline(always)]
    fn min(self, rhs: Self) -> Self {
        Pair(self.0.min(rhs.0), self.1.min(rhs.1))
    }
    #[inline(always)]
    fn max(self, rhs: Self) -> Self {
        Pair(self.0.max(rhs.0), self.1.max(rhs.1))
    }
}

impl<T: Signed + Lane<Word = u32>> Signed for Pair<T> {
    #[inline(always)]
    fn neg(self) -> Self {
        Pair(self.0.neg(), self.1.neg())
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Pair(self.0.abs(), self.1.abs())
    }
}

impl<T: Fused + Lane<Word = u32>> Fused for Pair<T> {
    #[inline(always)]
    fn fma(self, rhs: Self, addend: Self) -> Self {
        Pair(self.0.fma(rhs.0, addend.0), self.1.fma(rhs.1, addend.1))
    }
}

/// Converts as Rust's `as` does. To `bool`: whether the value is not zero.
pub(crate) trait Cvt<To> {
    fn cvt(self) -> To;
}

macro_rules! cvt {
    ($from:ty => $($to:ty)*) => {$(
        impl Cvt<$to> for $from {
            #[inline(always)]
            fn cvt(self) -> $to {
                self as $to
            }
        }
    )*};
}
macro_rules! cvt_int {
    ($($from:ty)*) => {$(
        cvt!($from => i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        impl Cvt<bool> for $from {
            #[inline(always)]
            fn cvt(self) -> bool {
                self != 0
            }
        }
    )*};
}
cvt_int!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! cvt_float {
    ($($from:ty)*) => {$(
        cvt!($from => i8 i16 i32 i64 u8 u16 u32 u64 $from);
        impl Cvt<bool> for $from {
            #[inline(always)]
            fn cvt(self) -> bool {
                self != 0.0
            }
        }
    )*};
}
cvt_float!(f32 f64);

/// A NaN keeps its sign and the payload bits that fit, and becomes quiet.
impl Cvt<f64> for f32 {
    #[inline(always)]
    fn cvt(self) -> f64 {
        let bits = u64::from(self.to_bits());
        let nan = (bits >> 31) << 63 | 0x7ff8 << 48 | (bits & 0x7f_ffff) << 29;
        f64::from_bits(if self.has_nan_bits() { nan } else { f64::from(self).to_bits() })
    }
}

/// A NaN keeps its sign and the payload bits that fit, and becomes quiet.
impl Cvt<f32> for f64 {
    #[inline(always)]
    fn cvt(self) -> f32 {
        let bits = self.to_bits();
        let nan = ((bits >> 63) << 31 | 0x7fc0_0000 | bits >> 29 & 0x3f_ffff) as u32;
        f32::from_bits(if self.has_nan_bits() { nan } else { (self as f32).to_bits() })
    }
}

macro_rules! cvt_bool {
    ($($to:ty)*) => {$(
        impl Cvt<$to> for bool {
            #[inline(always)]
            fn cvt(self) -> $to {
                u8::from(self) as $to
            }
        }
    )*};
}
cvt_bool!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

impl Cvt<bool> for bool {
    #[inline(always)]
    fn cvt(self) -> bool {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn fma_is_that_of_the_host(a: u32, b: u32, c: u32, near in 0u32..4, shift in 0u32..60) {
            let [a, b, c] = [a, b, c].map(f32::from_bits);
            // Addends near the product, where digits cancel, and far below it.
            let product = (f64::from(a) * f64::from(b)) as f32;
            let close = f32::from_bits((-product).to_bits().wrapping_add(near));
            let small = product * 2f32.powi(-(shift as i32));
            let below = f32::from_bits(c.to_bits() & 0x80ff_ffff);
            for c in [c, close, small, -small, below, 0.0, -0.0] {
                let (found, expected) = (Fused::fma(a, b, c), a.mul_add(b, c).or_nan_of([]));
                proptest::prop_assert_eq!(found.to_bits(), expected.to_bits(), "{} {} {}", a, b, c);
            }
        }
    }

    /// NaN bits are as defined even if the compiler knows nothing about the operands: all values
    /// arrive at run time, in loops that it vectorizes.
    #[test]
    fn the_bits_of_nan_are_not_those_of_the_host() {
        use std::hint::black_box;
        let nans = [0x7fc0_0000, 0x7f80_0001, 0xffc0_0000, 0xff80_0001].map(f32::from_bits);
        let operands: [f32; 8] =
            [&nans[..], &[-1.0, f32::NEG_INFINITY, -1e-30, -f32::MAX]].concat().try_into().unwrap();
        let operands = black_box(operands);
        let roots = operands.map(Float::sqrt);
        let fours = operands.map(|x| {
            [
                Number::add(x, nans[0]),
                Number::mul(nans[1], x),
                Float::div(x, nans[2]),
                Signed::neg(x),
            ]
        });
        assert_eq!(roots.map(f32::to_bits), [0x7fff_ffff; 8]);
        for (x, results) in operands.iter().zip(fours) {
            let expected = if x.is_nan() { 0x7fff_ffff } else { (-x).to_bits() };
            let found = results.map(f32::to_bits);
            assert_eq!(found, [0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff, expected]);
        }
        let wide = black_box([-1.0, f64::from_bits(0xfff0_0000_0000_0001), f64::NEG_INFINITY]);
        let expected = [0xfff8_0000_0000_0000, 0xfff8_0000_0000_0001, 0xfff8_0000_0000_0000];
        assert_eq!(wide.map(|x| Float::sqrt(x).to_bits()), expected);
        let made = black_box([(0.0, 0.0), (f64::NAN, 0.0)]).map(|(a, b)| Float::div(a, b));
        assert_eq!(made.map(f64::to_bits), [0xfff8_0000_0000_0000, 0x7ff8_0000_0000_0000]);
    }

    #[test]
    fn the_smaller_zero_is_the_negative_one() {
        for (a, b) in [(0.0f32, -0.0), (-0.0, 0.0)] {
            assert_eq!(Number::min(a, b).to_bits(), (-0.0f32).to_bits());
            assert_eq!(Number::max(a, b).to_bits(), 0.0f32.to_bits());
        }
        assert_eq!(Number::min(f64::NAN, 1.0), 1.0);
        assert_eq!(Number::max(1.0, f64::NAN), 1.0);
        assert_eq!(Number::min(-f32::NAN, f32::NAN).to_bits(), 0x7fff_ffff);
    }
}
