//! Accumulates as tensor cores do: an instruction's products and the incoming accumulator are
//! aligned to the largest exponent among them, the bits below a fixed position are truncated, and
//! the rest is added exactly. Floating point MMAs use this if the launch sets
//! [`Accumulation::Truncated`](crate::sim::Accumulation::Truncated); by default, `mma.rs` rounds
//! after every addition instead.

use super::mma::{Columns, Rows};
use crate::sim::memory::mask::LANES;

/// Returns the exponent of a nonzero number: the largest `e` with `2^e <= |x|`.
fn exponent(x: f64) -> i32 {
    // No number here is subnormal in `f64`, because all are products of two `f32`.
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// Returns `2^e`, for an exponent of products of `f32`.
fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// Adds `addend` and the products exactly, after cutting each term toward zero to a multiple of
/// `2^(e - fraction_bits)`. `e` is the largest exponent of a nonzero term; a product's exponent is
/// the sum of its factors' exponents.
fn sum(addend: f64, products: impl Iterator<Item = (f64, f64)> + Clone, fraction_bits: u32) -> f64 {
    let terms = || products.clone().map(|(a, b)| a * b).chain([addend]);
    if terms().any(|term| !term.is_finite()) {
        // Infinities and NaN do not depend on the order.
        return terms().sum();
    }
    let of_products = products.clone().filter(|(a, b)| a * b != 0.0);
    let exponents = of_products.map(|(a, b)| exponent(a) + exponent(b));
    let of_addend = (addend != 0.0).then(|| exponent(addend));
    let Some(largest) = exponents.chain(of_addend).max() else { return terms().sum() };
    let step = power(largest - fraction_bits.min(MAX_FRACTION_BITS) as i32);
    let cut = |term: f64| (term / step).trunc() as i64;
    let sum: i64 = terms().map(cut).sum();
    sum as f64 * step
}

/// Chosen so that all terms of an instruction together are integers of 53 bits.
const MAX_FRACTION_BITS: u32 = 44;

/// Adds `A B` to one register of a warp, for operands that are `f32`. The sums stay `f64`; the
/// caller converts them to the accumulators' type, for `f32` with [`to_f32`].
pub(in crate::sim) fn multiply(
    accumulators: &mut [f64; LANES],
    a: &[Rows<f64>],
    b: &[Columns<f64>],
    fraction_bits: u32,
) {
    for (lane, found) in accumulators.iter_mut().enumerate() {
        let products = a.iter().zip(b).map(|(a, b)| (a[lane / 4], b[lane % 4]));
        *found = sum(*found, products, fraction_bits);
    }
}

/// Truncates a number toward zero to an `f32`. A number beyond the range of `f32` becomes infinity.
pub(in crate::sim) fn to_f32(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest).abs() <= x.abs() || x.abs() >= power(128) {
        return nearest;
    }
    // Toward zero is down in the order of the bits.
    f32::from_bits(nearest.to_bits() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addend: f64, products: &[(f64, f64)], fraction_bits: u32) -> f64 {
        sum(addend, products.iter().copied(), fraction_bits)
    }

    #[test]
    fn terms_are_cut_below_the_largest() {
        let tiny = 2f64.powi(-25);
        assert_eq!(of(1.0, &[(tiny, 1.0)], 25), 1.0 + tiny);
        assert_eq!(of(1.0, &[(tiny, 1.0)], 24), 1.0);
        // Each term is cut on its own, toward zero: two halves of a step add up to nothing.
        assert_eq!(of(1.0, &[(tiny, 0.5), (tiny, 0.5)], 25), 1.0);
        assert_eq!(of(-1.0, &[(tiny, -1.75)], 25), -1.0 - tiny);
        // A large term truncates the terms that it cancels.
        assert_eq!(of(1.0, &[(2f64.powi(30), 1.0), (-(2f64.powi(30)), 1.0)], 25), 0.0);
        // A product's exponent is that of its factors, even if the product has one bit more.
        assert_eq!(of(0.0, &[(1.5, 1.5), (tiny, 1.0)], 25), 2.25 + tiny);
        assert_eq!(of(0.0, &[(1.5, 1.5), (tiny, 0.75)], 25), 2.25);
        assert_eq!(of(0.0, &[(0.0, 1.0)], 25), 0.0);
    }

    #[test]
    fn infinities_and_nan_stay() {
        assert_eq!(of(1.0, &[(f64::INFINITY, -1.0)], 25), f64::NEG_INFINITY);
        assert!(of(1.0, &[(f64::INFINITY, 0.0)], 25).is_nan());
        assert!(of(f64::INFINITY, &[(f64::NEG_INFINITY, 1.0)], 25).is_nan());
    }

    #[test]
    fn results_are_cut_toward_zero() {
        let step = 2f64.powi(-23);
        for sign in [1.0, -1.0] {
            assert_eq!(f64::from(to_f32(sign * (1.0 + 0.9 * step))), sign);
            assert_eq!(f64::from(to_f32(sign * (1.0 + step))), sign * (1.0 + step));
            let below = power(128) * (1.0 - power(-40));
            assert_eq!(to_f32(sign * below), sign as f32 * f32::MAX);
            assert_eq!(to_f32(sign * power(128)), sign as f32 * f32::INFINITY);
            assert_eq!(to_f32(sign * 1.9 * power(-149)), sign as f32 * f32::from_bits(1));
        }
        assert_eq!(to_f32(0.9 * power(-149)).to_bits(), 0);
        assert!(to_f32(f64::NAN).is_nan());
    }
}
