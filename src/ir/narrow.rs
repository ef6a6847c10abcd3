//! Rust types for the floating-point formats that Rust lacks: `f16`, `bf16`, `tf32`, `f8e4m3` and
//! `f8e5m2`. Use them for the elements of host buffers and as literals in kernels.

use std::cmp::Ordering;
use std::fmt;

use super::number::Rounding;
use super::types::Scalar;

/// How many low bits of a `tf32` are ignored.
const TF32_SHIFT: u32 = 13;

/// Decodes a value of a narrow format, exactly. Returns `None` for other scalars.
pub(crate) fn decode(scalar: Scalar, bits: u32) -> Option<f64> {
    let shift = if matches!(scalar, Scalar::Tf32) { TF32_SHIFT } else { 0 };
    scalar.format().map(|format| format.decode(bits >> shift))
}

/// Rounds `x` to a narrow format and returns the bits, or `None` for other scalars.
pub(crate) fn encode(scalar: Scalar, x: f64, rounding: Rounding, saturate: bool) -> Option<u32> {
    let shift = if matches!(scalar, Scalar::Tf32) { TF32_SHIFT } else { 0 };
    scalar.format().map(|format| format.encode(x, rounding, saturate) << shift)
}

/// Like [`encode`], with the rounding of conversions that name none: to nearest even. 8-bit formats
/// saturate, because PTX has no other conversion to them.
pub(crate) fn encode_nearest(scalar: Scalar, x: f64) -> Option<u32> {
    encode(scalar, x, Rounding::NearestEven, scalar.bits() == 8)
}

macro_rules! narrow {
    ($(
        $(#[$doc:meta])*
        $name:ident($bits:ty): $scalar:ident, one $one:literal, largest $max:literal, nan $nan:literal;
    )*) => {$(
        $(#[$doc])*
        ///
        /// Compares and prints by value: NaN is not equal to itself, and the two zeros are equal.
        #[allow(non_camel_case_types, reason = "it is named like Rust's own `f32`")]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name($bits);

        impl $name {
            /// Zero.
            pub const ZERO: $name = $name(0);
            /// One.
            pub const ONE: $name = $name($one);
            /// The largest finite value.
            pub const MAX: $name = $name($max);
            /// The NaN that PTX operations return.
            pub const NAN: $name = $name($nan);

            /// Reinterprets the bits as a value, for example of data read from a file.
            pub const fn from_bits(bits: $bits) -> $name {
                $name(bits)
            }

            /// Returns the value's bits.
            pub const fn to_bits(self) -> $bits {
                self.0
            }

            /// Rounds to the nearest value of the format, ties to an even fraction. Use it to
            /// prepare input on the host.
            #[doc = narrow!(@overflow $scalar)]
            pub fn from_f32(x: f32) -> $name {
                $name::from_f64(x.into())
            }

            /// Rounds as [`from_f32`](Self::from_f32) does, but once from the exact `f64`.
            /// Converting to `f32` first would round twice.
            pub fn from_f64(x: f64) -> $name {
                // The scalar is a narrow one, so `encode_nearest` always returns bits.
                $name(encode_nearest(Scalar::$scalar, x).unwrap_or($nan) as $bits)
            }

            /// Converts to `f32`, exactly.
            pub fn to_f32(self) -> f32 {
                self.to_f64() as f32
            }

            /// Converts to `f64`, exactly.
            pub fn to_f64(self) -> f64 {
                decode(Scalar::$scalar, self.0.into()).unwrap_or(f64::NAN)
            }

            /// Returns whether this is NaN.
            pub fn is_nan(self) -> bool {
                self.to_f64().is_nan()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f64() == other.to_f64()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                self.to_f64().partial_cmp(&other.to_f64())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }

        impl From<$name> for f32 {
            fn from(x: $name) -> f32 {
                x.to_f32()
            }
        }

        impl From<$name> for f64 {
            fn from(x: $name) -> f64 {
                x.to_f64()
            }
        }
    )*};
    (@overflow F8E4M3) => { "What is beyond the largest number becomes that number, infinities too." };
    (@overflow F8E5M2) => { "What is beyond the largest number becomes that number, infinities too." };
    (@overflow $scalar:ident) => { "What is too large becomes infinity." };
}

narrow! {
    /// IEEE 754 binary16: 5 exponent bits, 10 fraction bits.
    ///
    /// ```
    /// use tilewright::ir::f16;
    /// let third = f16::from_f32(1.0 / 3.0);
    /// assert_eq!(third.to_bits(), 0x3555);
    /// assert_eq!(third.to_f32(), 0.33325195);
    /// assert!(f16::from_f32(65520.0).to_f32().is_infinite() && f16::MAX.to_f32() == 65504.0);
    /// ```
    f16(u16): F16, one 0x3c00, largest 0x7bff, nan 0x7fff;
    /// bfloat16, the upper half of an `f32`: 8 exponent bits, 7 fraction bits.
    ///
    /// ```
    /// use tilewright::ir::bf16;
    /// assert_eq!(bf16::from_f32(3.14159).to_string(), "3.140625");
    /// ```
    bf16(u16): Bf16, one 0x3f80, largest 0x7f7f, nan 0x7fff;
    /// TensorFloat-32, the part of an `f32` that tensor cores read: 8 exponent bits and 10 fraction
    /// bits, in the upper 19 bits of 32. The lower 13 bits are ignored.
    ///
    /// ```
    /// use tilewright::ir::tf32;
    /// assert_eq!(tf32::from_f32(0.3).to_f32(), 0.30004883);
    /// assert_eq!(tf32::from_bits(0.3f32.to_bits()).to_f32(), 0.2998047); // cut off
    /// ```
    tf32(u32): Tf32, one 0x3f80_0000, largest 0x7f7f_e000, nan 0x7fff_e000;
    /// OCP 8-bit E4M3: 4 exponent bits, 3 fraction bits. It has NaN but no infinity.
    ///
    /// ```
    /// use tilewright::ir::f8e4m3;
    /// assert_eq!(f8e4m3::from_f32(0.3).to_f32(), 0.3125);
    /// assert_eq!(f8e4m3::from_f32(1e9), f8e4m3::MAX); // 448
    /// ```
    f8e4m3(u8): F8E4M3, one 0x38, largest 0x7e, nan 0x7f;
    /// OCP 8-bit E5M2: 5 exponent bits, 2 fraction bits, with infinity and NaN.
    ///
    /// ```
    /// use tilewright::ir::f8e5m2;
    /// assert_eq!(f8e5m2::from_f32(0.3).to_f32(), 0.3125);
    /// assert_eq!(f8e5m2::from_f32(1e9), f8e5m2::MAX); // 57344
    /// ```
    f8e5m2(u8): F8E5M2, one 0x3c, largest 0x7b, nan 0x7f;
}

macro_rules! infinity {
    ($($name:ident $infinity:literal;)*) => {$(
        impl $name {
            /// Positive infinity.
            pub const INFINITY: $name = $name($infinity);
        }
    )*};
}

infinity! {
    f16 0x7c00;
    bf16 0x7f80;
    tf32 0x7f80_0000;
    f8e5m2 0x7c;
}

/// Conversions to and from the crate `half`, whose types have the same bits.
#[cfg(feature = "half")]
mod half_types {
    use super::{bf16, f16};

    impl From<half::f16> for f16 {
        fn from(x: half::f16) -> f16 {
            f16::from_bits(x.to_bits())
        }
    }

    impl From<f16> for half::f16 {
        fn from(x: f16) -> half::f16 {
            half::f16::from_bits(x.to_bits())
        }
    }

    impl From<half::bf16> for bf16 {
        fn from(x: half::bf16) -> bf16 {
            bf16::from_bits(x.to_bits())
        }
    }

    impl From<bf16> for half::bf16 {
        fn from(x: bf16) -> half::bf16 {
            half::bf16::from_bits(x.to_bits())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_numbers_that_they_are_named_after() {
        macro_rules! check {
            ($($name:ident $max:literal;)*) => {$(
                assert_eq!($name::ONE.to_f32(), 1.0);
                assert_eq!($name::MAX.to_f64(), $max);
                assert!($name::NAN.is_nan() && $name::NAN != $name::NAN);
                assert_eq!($name::from_f32(-0.0), $name::ZERO);
                assert_eq!($name::from_f32(f32::NAN).to_bits(), $name::NAN.to_bits());
                assert!($name::from_f32(-2.0) < $name::ONE);
            )*};
        }
        check! {
            f16 65504.0;
            bf16 338953138925153547590470800371487866880.0;
            tf32 340116213421465348979261631549233168384.0;
            f8e4m3 448.0;
            f8e5m2 57344.0;
        }
        assert_eq!(f16::from_f32(f32::INFINITY), f16::INFINITY);
        assert_eq!(bf16::from_f64(1e300), bf16::INFINITY);
        assert_eq!(tf32::from_f64(1e300), tf32::INFINITY);
        assert_eq!(f8e5m2::INFINITY.to_f32(), f32::INFINITY);
        assert_eq!(f8e5m2::from_f32(f32::INFINITY), f8e5m2::MAX);
    }

    #[test]
    fn other_scalars_are_not_narrow() {
        assert_eq!(decode(Scalar::F32, 0), None);
        assert_eq!(encode(Scalar::I8, 1.0, Rounding::Zero, false), None);
    }

    #[cfg(feature = "half")]
    #[test]
    fn bits_agree_with_the_crate_half() {
        for bits in 0..=u16::MAX {
            assert_eq!(half::f16::from(f16::from_bits(bits)).to_bits(), bits);
            assert_eq!(bf16::from(half::bf16::from_bits(bits)).to_bits(), bits);
            let (x, y) = (half::f16::from_bits(bits), f16::from_bits(bits));
            assert!(x.to_f32() == y.to_f32() || (x.is_nan() && y.is_nan()));
        }
    }
}
