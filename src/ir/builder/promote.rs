//! The common type of two scalar types, for generic code that mixes them, for example an epilogue
//! that adds an `f16` bias to an `f32` sum.

use super::typed::{Element, Number, Val};
use crate::ir::narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};

/// A type that has a common type with `U`. Name it as a bound in generic code that mixes two types;
/// [`promote`] converts the values.
///
/// The rules are those of C's mixed-type operators, without C's promotion to `int`:
///
/// * two integers: the wider type; at equal width, the unsigned one if either is unsigned;
/// * `bool` and another type: the common type is that of the other type alone;
/// * a float and anything: the narrowest type with floating-point arithmetic (`f16`, `bf16`, `f32`,
///   `f64`) that holds every value of the floats involved.
///
/// | | `bool` | `i8` | `i16` | `i32` | `i64` | `u8` | `u16` | `u32` | `u64` | `f8e4m3` | `f8e5m2` | `f16` | `bf16` | `tf32` | `f32` | `f64` |
/// |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
/// | **`bool`** | - | i8 | i16 | i32 | i64 | u8 | u16 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`i8`** | i8 | i8 | i16 | i32 | i64 | u8 | u16 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`i16`** | i16 | i16 | i16 | i32 | i64 | i16 | u16 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`i32`** | i32 | i32 | i32 | i32 | i64 | i32 | i32 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`i64`** | i64 | i64 | i64 | i64 | i64 | i64 | i64 | i64 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`u8`** | u8 | u8 | i16 | i32 | i64 | u8 | u16 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`u16`** | u16 | u16 | u16 | i32 | i64 | u16 | u16 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`u32`** | u32 | u32 | u32 | u32 | i64 | u32 | u32 | u32 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`u64`** | u64 | u64 | u64 | u64 | u64 | u64 | u64 | u64 | u64 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`f8e4m3`** | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`f8e5m2`** | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | bf16 | f32 | f32 | f64 |
/// | **`f16`** | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f32 | f32 | f32 | f64 |
/// | **`bf16`** | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | f32 | bf16 | f32 | f32 | f64 |
/// | **`tf32`** | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f64 |
/// | **`f32`** | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f64 |
/// | **`f64`** | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 |
#[diagnostic::on_unimplemented(message = "`{Self}` and `{U}` have no common number type")]
pub trait Promote<U: Element>: Element {
    /// The common type.
    type Common: Number;
}

macro_rules! promote {
    ($($A:ident: $($B:ident => $Common:ident),+;)*) => {$($(
        impl Promote<$B> for $A {
            type Common = $Common;
        }
    )+)*};
}

promote! {
    bool: i8 => i8, i16 => i16, i32 => i32, i64 => i64, u8 => u8, u16 => u16, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    i8: bool => i8, i8 => i8, i16 => i16, i32 => i32, i64 => i64, u8 => u8, u16 => u16, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    i16: bool => i16, i8 => i16, i16 => i16, i32 => i32, i64 => i64, u8 => i16, u16 => u16, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    i32: bool => i32, i8 => i32, i16 => i32, i32 => i32, i64 => i64, u8 => i32, u16 => i32, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    i64: bool => i64, i8 => i64, i16 => i64, i32 => i64, i64 => i64, u8 => i64, u16 => i64, u32 => i64, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    u8: bool => u8, i8 => u8, i16 => i16, i32 => i32, i64 => i64, u8 => u8, u16 => u16, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    u16: bool => u16, i8 => u16, i16 => u16, i32 => i32, i64 => i64, u8 => u16, u16 => u16, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    u32: bool => u32, i8 => u32, i16 => u32, i32 => u32, i64 => i64, u8 => u32, u16 => u32, u32 => u32, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    u64: bool => u64, i8 => u64, i16 => u64, i32 => u64, i64 => u64, u8 => u64, u16 => u64, u32 => u64, u64 => u64, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    f8e4m3: bool => f16, i8 => f16, i16 => f16, i32 => f16, i64 => f16, u8 => f16, u16 => f16, u32 => f16, u64 => f16, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    f8e5m2: bool => f16, i8 => f16, i16 => f16, i32 => f16, i64 => f16, u8 => f16, u16 => f16, u32 => f16, u64 => f16, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    f16: bool => f16, i8 => f16, i16 => f16, i32 => f16, i64 => f16, u8 => f16, u16 => f16, u32 => f16, u64 => f16, f8e4m3 => f16, f8e5m2 => f16, f16 => f16, bf16 => f32, tf32 => f32, f32 => f32, f64 => f64;
    bf16: bool => bf16, i8 => bf16, i16 => bf16, i32 => bf16, i64 => bf16, u8 => bf16, u16 => bf16, u32 => bf16, u64 => bf16, f8e4m3 => bf16, f8e5m2 => bf16, f16 => f32, bf16 => bf16, tf32 => f32, f32 => f32, f64 => f64;
    tf32: bool => f32, i8 => f32, i16 => f32, i32 => f32, i64 => f32, u8 => f32, u16 => f32, u32 => f32, u64 => f32, f8e4m3 => f32, f8e5m2 => f32, f16 => f32, bf16 => f32, tf32 => f32, f32 => f32, f64 => f64;
    f32: bool => f32, i8 => f32, i16 => f32, i32 => f32, i64 => f32, u8 => f32, u16 => f32, u32 => f32, u64 => f32, f8e4m3 => f32, f8e5m2 => f32, f16 => f32, bf16 => f32, tf32 => f32, f32 => f32, f64 => f64;
    f64: bool => f64, i8 => f64, i16 => f64, i32 => f64, i64 => f64, u8 => f64, u16 => f64, u32 => f64, u64 => f64, f8e4m3 => f64, f8e5m2 => f64, f16 => f64, bf16 => f64, tf32 => f64, f32 => f64, f64 => f64;
}

/// Converts both values to their [common type](Promote), so that you can combine them, for example
/// an `f16` bias and an `f32` sum.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::ir::builder::promote;
///
/// let kernel = Kernel::<(GlobalMut<f32>, i32, f32)>::build("max", Target::SM_80, |_, (y, n, x)| {
///     let (n, x) = promote(n, x); // both f32
///     y.store(0, n.max(x));
/// })?;
/// assert_eq!(kernel.to_string().matches("cvt<f32>").count(), 1);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[track_caller]
pub fn promote<'x, A: Promote<B>, B: Element>(
    a: Val<'x, A>,
    b: Val<'x, B>,
) -> (Val<'x, A::Common>, Val<'x, A::Common>) {
    (a.cvt(), b.cvt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::types::Scalar;

    /// Returns the widths of exponent and fraction in bits.
    fn digits(s: Scalar) -> (u32, u32) {
        match (s, s.format()) {
            (Scalar::F32, _) => (8, 23),
            (Scalar::F64, _) => (11, 52),
            (_, format) => format.map_or((0, 0), |f| (f.exponent_bits, f.fraction_bits)),
        }
    }

    /// Computes the common type from the rules in the documentation of [`Promote`].
    fn common(a: Scalar, b: Scalar) -> Scalar {
        if a.is_float() || b.is_float() {
            let ((ea, fa), (eb, fb)) = (digits(a), digits(b));
            let has_all = |s: &Scalar| {
                let (e, f) = digits(*s);
                e >= ea.max(eb) && f >= fa.max(fb)
            };
            let all = [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64];
            return all.into_iter().find(has_all).unwrap();
        }
        let rank = |s: Scalar| (s.is_int(), s.bits(), !s.is_signed());
        if rank(a) >= rank(b) { a } else { b }
    }

    fn check<A: Promote<B>, B: Promote<A>>() {
        let expected = common(A::SCALAR, B::SCALAR);
        assert_eq!(<A as Promote<B>>::Common::SCALAR, expected, "{} {}", A::SCALAR, B::SCALAR);
        assert_eq!(<B as Promote<A>>::Common::SCALAR, expected, "{} {}", B::SCALAR, A::SCALAR);
    }

    #[test]
    fn every_pair_follows_the_rule() {
        macro_rules! pairs {
            ($($A:ident: $($B:ident)*;)*) => {$($(check::<$A, $B>();)*)*};
        }
        pairs! {
            bool: i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            i8: i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            i16: i16 i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            i32: i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            i64: i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            u8: u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            u16: u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            u32: u32 u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            u64: u64 f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            f8e4m3: f8e4m3 f8e5m2 f16 bf16 tf32 f32 f64;
            f8e5m2: f8e5m2 f16 bf16 tf32 f32 f64;
            f16: f16 bf16 tf32 f32 f64;
            bf16: bf16 tf32 f32 f64;
            tf32: tf32 f32 f64;
            f32: f32 f64;
            f64: f64;
        }
    }
}
