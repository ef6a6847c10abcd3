//! The rest of C's `math.h`: inverse and hyperbolic functions, remainders, and variants that stay
//! exact near zero. As in `math`, the precise functions use only exactly rounded operations.

use std::{f32, f64};

use super::math::{
    LN_2, erf_near_zero, exp_of_parts, exp_series, polynomial, quadrant, times_power_of_two,
};
use super::typed::{IntoOperand, Val};
use crate::ir::narrow::{bf16, f16};

/// pi / 2 as a sum of two values.
const HALF_PI: [f32; 2] = [f32::consts::FRAC_PI_2, -4.371_139e-8];

/// Returns `e^x / 2` for `x` from -110 on. It overflows later than `e^x`.
#[track_caller]
#[inline]
fn half_exp(x: Val<'_, f32>) -> Val<'_, f32> {
    let x = x.min_nan(100.0);
    let n = (x * f32::consts::LOG2_E).round_ties_even();
    let r = n.fma(-LN_2[1], n.fma(-LN_2[0], x));
    exp_of_parts(r, n - 1.0)
}

/// Returns `asin(s)` for `z = s * s` and `|s| <= 0.5`, or slightly more if `z` is at most 0.25.
#[track_caller]
#[inline]
fn asin_near_zero<'b>(s: Val<'b, f32>, z: Val<'b, f32>) -> Val<'b, f32> {
    let p =
        [0.033_690_847, 0.017_149_238, 0.031_100_662, 0.044_599_403, 0.075_000_94, 0.166_666_67];
    (polynomial(z, &p) * z).fma(s, s)
}

/// Returns true and `asin(|x|)` for `|x| <= 0.5`, otherwise false and `acos(|x|) / 2`.
#[track_caller]
#[inline]
fn asin_or_half_acos(x: Val<'_, f32>) -> (Val<'_, bool>, Val<'_, f32>) {
    let magnitude = x.abs();
    let small = magnitude.le(0.5);
    let z = small.select::<f32>(magnitude * magnitude, (x.constant(1.0) - magnitude) * 0.5);
    let s = small.select::<f32>(magnitude, z.sqrt());
    (small, asin_near_zero(s, z))
}

/// Returns `atan(t)` for `0 <= t <= 1`.
#[track_caller]
#[inline]
fn atan_to_one(t: Val<'_, f32>) -> Val<'_, f32> {
    let p = [
        0.001_488_691_9,
        -0.009_144_63,
        0.026_305,
        -0.048_960_514,
        0.070_319_146,
        -0.089_318_27,
        0.110_882_62,
        -0.142_840_04,
        0.199_999_5,
        -0.333_333_34,
    ];
    let z = t * t;
    (polynomial(z, &p) * z).fma(t, t)
}

/// Returns `turns * pi / 2 - angle`.
#[track_caller]
fn turned<'b>(turns: f32, angle: Val<'b, f32>) -> Val<'b, f32> {
    angle.constant(turns * HALF_PI[0]) - (angle - turns * HALF_PI[1])
}

/// Divides `|x|` by `|y|` in `f64`. Returns the remainder `r = |x| - q * |y|`, exact and nearest to
/// zero (up to the rounding of `|x| / |y|`), the lowest bits of `q`, and `|y|`.
///
/// `x / y` has up to 277 integer bits. A step removes at least 48 of them: `q` is within 0.57 of
/// the quotient, so the remainder has at most 26 bits and the `fma` is exact.
#[track_caller]
#[inline]
fn divided<'b>(x: Val<'b, f32>, y: Val<'b, f32>) -> [Val<'b, f64>; 3] {
    let (mut r, y) = (x.abs().cvt::<f64>(), y.abs().cvt::<f64>());
    let inverse = y.constant(1.0) / y;
    let mut q = r;
    for shift in [240, 192, 144, 96, 48, 0] {
        let scale = 2f64.powi(shift);
        q = (r * (inverse * (1.0 / scale))).round_ties_even();
        r = (-q).fma(y * scale, r);
    }
    [r, q, y]
}

/// Returns `remainder` of `x` by `y` with the sign that a zero must have, or the special values of
/// remainders.
#[track_caller]
fn with_special_remainders<'b>(
    x: Val<'b, f32>,
    y: Val<'b, f32>,
    remainder: Val<'b, f32>,
) -> Val<'b, f32> {
    let remainder = remainder.eq(0.0).select::<f32>(remainder.copysign(x), remainder);
    let remainder = y.abs().eq(f32::INFINITY).select::<f32>(x, remainder);
    let none = x.is_infinite() | x.is_nan() | y.is_nan() | y.eq(0.0);
    none.select::<f32>(f32::NAN, remainder)
}

/// # More math functions
///
/// These are the less common functions of C's `math.h`, with the names, the domain and the special
/// values of Rust's `f32` methods.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("angle", Target::SM_80, |_, (x,)| {
///     let (y, z) = (x.load(0), x.load(1));
///     x.store(0, y.atan2(z));
///     x.store(1, y.fmod(z));
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[5.5f32, -2.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// let found = x.to_vec()?;
/// assert!((found[0] - 5.5f32.atan2(-2.0)).abs() < 1e-6);
/// assert_eq!(found[1], 1.5);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b> Val<'b, f32> {
    /// Returns the tangent, within 2.5 ulp for `|self| <= 2^50`, and NaN beyond.
    #[doc(alias = "tanf")]
    #[track_caller]
    #[inline]
    pub fn tan(self) -> Val<'b, f32> {
        let (r, n) = quadrant(self);
        // For a large input n may be off by one, which the polynomial does not tolerate.
        let more = (r * f64::consts::FRAC_2_PI).round_ties_even();
        let r = (-more)
            .fma(6.123_233_995_736_766e-17, (-more).fma(f64::consts::FRAC_PI_2, r))
            .cvt::<f32>();
        let n = n + more.cvt::<i32>();
        let p = [
            0.003_843_972_2,
            0.001_183_918_6,
            0.009_963_025,
            0.021_620_877,
            0.053_994_496,
            0.133_332_31,
            0.333_333_34,
        ];
        let z = r * r;
        let tangent = (polynomial(z, &p) * z).fma(r, r);
        let cotangent = self.constant(-1.0) / tangent;
        let value = (n & 1).eq(0).select::<f32>(tangent, cotangent);
        // A zero keeps its sign.
        self.eq(0.0).select::<f32>(self, value)
    }

    /// Returns the hyperbolic sine, within 2 ulp.
    #[doc(alias = "sinhf")]
    #[track_caller]
    #[inline]
    pub fn sinh(self) -> Val<'b, f32> {
        let z = self * self;
        let p = [2.806_280_3e-6, 1.983_810_2e-4, 8.333_339e-3, 0.166_666_67];
        let small = (polynomial(z, &p) * z).fma(self, self);
        let half = half_exp(self.abs());
        let large = half - self.constant(0.25) / half;
        self.abs().lt(1.0).select::<f32>(small, large.copysign(self))
    }

    /// Returns the hyperbolic cosine, within 1.5 ulp.
    #[doc(alias = "coshf")]
    #[track_caller]
    #[inline]
    pub fn cosh(self) -> Val<'b, f32> {
        let half = half_exp(self.abs());
        half + self.constant(0.25) / half
    }

    /// Returns the arc sine, within 2 ulp, and NaN outside -1 to 1.
    #[doc(alias = "asinf")]
    #[track_caller]
    #[inline]
    pub fn asin(self) -> Val<'b, f32> {
        let (small, p) = asin_or_half_acos(self);
        let large = p.fma(-2.0, HALF_PI[0]) + HALF_PI[1];
        small.select::<f32>(p, large).copysign(self)
    }

    /// Returns the arc cosine, within 1.5 ulp, and NaN outside -1 to 1.
    #[doc(alias = "acosf")]
    #[track_caller]
    #[inline]
    pub fn acos(self) -> Val<'b, f32> {
        let (small, p) = asin_or_half_acos(self);
        let p = p.copysign(self);
        let negative = p.fma(2.0, 2.0 * HALF_PI[0]) + 2.0 * HALF_PI[1];
        let large = self.lt(0.0).select::<f32>(negative, p + p);
        small.select::<f32>(turned(1.0, p), large)
    }

    /// Returns the arc tangent, within 1.5 ulp.
    #[doc(alias = "atanf")]
    #[track_caller]
    #[inline]
    pub fn atan(self) -> Val<'b, f32> {
        let magnitude = self.abs();
        let large = magnitude.gt(1.0);
        let inverse = self.constant(1.0) / magnitude;
        let p = atan_to_one(large.select::<f32>(inverse, magnitude));
        large.select::<f32>(turned(1.0, p), p).copysign(self)
    }

    /// Returns the angle of the point `(x, self)`, from -pi to pi, within 2 ulp. Zeros and
    /// infinities follow IEEE 754.
    #[doc(alias = "atan2f")]
    #[track_caller]
    #[inline]
    pub fn atan2(self, x: impl IntoOperand<'b, f32>) -> Val<'b, f32> {
        let x = Val::<f32>::new(self.context(), self.context().operand_of(x));
        let (a, b) = (self.abs(), x.abs());
        let (high, low) = (a.max_nan(b), a.min_nan(b));
        let t = low / high;
        let t = low.eq(f32::INFINITY).select::<f32>(1.0, t);
        let t = high.eq(0.0).select::<f32>(0.0, t);
        let p = atan_to_one(t);
        let p = a.gt(b).select::<f32>(turned(1.0, p), p);
        let is_left = x.bitcast::<i32>().lt(0);
        is_left.select::<f32>(turned(2.0, p), p).copysign(self)
    }

    /// Returns the cube root, within 1 ulp.
    #[doc(alias = "cbrtf")]
    #[track_caller]
    #[inline]
    pub fn cbrt(self) -> Val<'b, f32> {
        let magnitude = self.abs();
        let tiny = magnitude.lt(f32::MIN_POSITIVE);
        let x = tiny.select::<f32>(magnitude * 16_777_216.0, magnitude);
        // x^(-1/3) by Newton's steps from an estimate of 5 bits.
        let estimate = self.constant(0x54a2_fa8c_u32) - x.bitcast::<u32>() / 3;
        let mut y = estimate.bitcast::<f32>();
        for _ in 0..3 {
            let cube = (x * y) * (y * y);
            y *= (self.constant(1.0) - cube).fma(1.0 / 3.0, 1.0);
        }
        let s = y * y;
        let root = x * s;
        // root + (x - root^3) * s / 3, with the error of root^2.
        let square = root * root;
        let rest = root.fma(root, -square);
        let missing = (-rest).fma(root, (-square).fma(root, x));
        let root = (missing * s).fma(1.0 / 3.0, root);
        let root = tiny.select::<f32>(root * 0.003_906_25, root).copysign(self);
        (magnitude.lt(f32::INFINITY) & self.ne(0.0)).select::<f32>(root, self)
    }

    /// Returns `e^self - 1`, within 1.5 ulp, also near zero, where `exp() - 1` would lose its
    /// digits.
    #[doc(alias("expm1", "expm1f"))]
    #[track_caller]
    #[inline]
    pub fn exp_m1(self) -> Val<'b, f32> {
        let x = self.min_nan(89.0).max_nan(-30.0);
        let n = (x * f32::consts::LOG2_E).round_ties_even();
        let r = n.fma(-LN_2[1], n.fma(-LN_2[0], x));
        let p = [1.989_104_6e-4, 1.393_37e-3, 8.333_310_5e-3, 4.166_646_3e-2, 0.166_666_67, 0.5];
        let p = (r * r).fma(polynomial(r, &p), r);
        // Half of the result, because 2^n itself may overflow.
        let scale = ((n.cvt::<i32>() + 126) << 23).bitcast::<f32>();
        let half = p.fma(scale, scale - 0.5);
        n.eq(0.0).select::<f32>(p, half + half).copysign(self)
    }

    /// Returns `ln(1 + self)`, within 1 ulp. Use it for values near zero, where `1 + self` would
    /// lose their digits.
    #[doc(alias("log1p", "log1pf"))]
    #[track_caller]
    #[inline]
    pub fn ln_1p(self) -> Val<'b, f32> {
        // 1 + self = 2^k * (1 + m) with m from -1/4 to 1/2.
        let bits = (self + 1.0).bitcast::<i32>();
        let k = (bits - 0x3f40_0000) & (0xff80_0000_u32 as i32);
        let scaled = (self.bitcast::<i32>() - k).bitcast::<f32>();
        let four = (self.constant(0x4080_0000) - k).bitcast::<f32>();
        let m = scaled + four.fma(0.25, -1.0);
        let p = [
            0.042_871_98,
            -0.095_613_41,
            0.116_806_82,
            -0.126_393_11,
            0.142_683_06,
            -0.166_608_17,
            0.200_001_4,
            -0.250_000_57,
            0.333_333_34,
        ];
        let ln = (m * m).fma(m.fma(polynomial(m, &p), -0.5), m);
        let k = (k >> 23).cvt::<f32>();
        let value = k.fma(LN_2[0], k.fma(LN_2[1], ln)).copysign(self);
        let value = self.lt(f32::INFINITY).select::<f32>(value, self);
        let value = self.eq(-1.0).select::<f32>(f32::NEG_INFINITY, value);
        self.lt(-1.0).select::<f32>(f32::NAN, value)
    }

    /// Returns `1 - erf(self)`, within 4 ulp. Use it for large values, where the result is near
    /// zero and the difference would lose its digits.
    #[doc(alias = "erfcf")]
    #[track_caller]
    #[inline]
    pub fn erfc(self) -> Val<'b, f32> {
        let near = self.constant(1.0) - erf_near_zero(self);
        let a = self.abs().min_nan(10.5);
        // q = (a - 4) / (a + 4), and e^(a * a) * erfc(a) * (1 + 2 a) as a polynomial in q.
        let d = self.constant(1.0) / (a + 4.0);
        let q = (a - 4.0) * d;
        let rest = (-q).fma(a, q.fma(-4.0, a - 4.0));
        let q = rest.fma(d, q);
        let p = [
            -6.535_981_7e-4,
            -1.172_991e-3,
            5.008_096e-3,
            -1.602_643e-2,
            3.723_611_3e-2,
            -6.634_98e-2,
            9.371_957e-2,
            -0.101_038_61,
            6.809_791e-2,
            1.537_966_7e-2,
            -0.139_621_14,
            1.232_995_2,
        ];
        let p = polynomial(q, &p);
        let w = a.fma(2.0, 1.0);
        let inverse = self.constant(1.0) / w;
        let quotient = p * inverse;
        let quotient = (-quotient).fma(w, p).fma(inverse, quotient);
        // e^-(a * a), with the error of the square.
        let square = a * a;
        let low = a.fma(a, -square);
        let n = (-square * f32::consts::LOG2_E).round_ties_even();
        let r = n.fma(-LN_2[1], n.fma(-LN_2[0], -square)) - low;
        let far = times_power_of_two(exp_series(r) * quotient, n);
        let far = self.lt(0.0).select::<f32>(self.constant(2.0) - far, far);
        self.abs().lt(0.8).select::<f32>(near, far)
    }

    /// Returns approximately the tangent, as `sin_fast / cos_fast`. Use it if speed matters more
    /// than the last bits.
    #[doc(alias = "__tanf")]
    #[track_caller]
    pub fn tan_fast(self) -> Val<'b, f32> {
        self.sin_fast() * self.cos_fast().recip_fast()
    }
}

/// # Remainders
///
/// Divides floats with a remainder; for integers, use `%`.
impl<'b> Val<'b, f32> {
    /// Returns `self - trunc(self / divisor) * divisor`, exactly: C's `fmod`, Rust's `%`. The
    /// result has the sign of `self`. It is NaN if `self` is infinite or `divisor` is zero.
    /// Computes in `f64`.
    #[doc(alias("fmodf", "rem", "%"))]
    #[track_caller]
    #[inline]
    pub fn fmod(self, divisor: impl IntoOperand<'b, f32>) -> Val<'b, f32> {
        let divisor = Val::<f32>::new(self.context(), self.context().operand_of(divisor));
        let [r, _, y] = divided(self, divisor);
        let r = r.lt(0.0).select::<f64>(r + y, r).cvt::<f32>();
        with_special_remainders(self, divisor, r.copysign(self))
    }

    /// Returns `self - n * divisor` exactly, where `n` is the integer nearest to `self / divisor`
    /// and halfway cases take the even one: IEEE 754's `remainder`. A zero has the sign of `self`.
    /// It is NaN if `self` is infinite or `divisor` is zero. Computes in `f64`.
    #[doc(alias("remainderf", "drem"))]
    #[track_caller]
    #[inline]
    pub fn remainder(self, divisor: impl IntoOperand<'b, f32>) -> Val<'b, f32> {
        let divisor = Val::<f32>::new(self.context(), self.context().operand_of(divisor));
        let [r, q, y] = divided(self, divisor);
        let half = y * 0.5;
        let odd = (q.cvt::<i64>() & 1).ne(0);
        let over = r.gt(half) | (r.eq(half) & odd);
        let under = r.lt(-half) | (r.eq(-half) & odd);
        let r = over.select::<f64>(r - y, under.select::<f64>(r + y, r)).cvt::<f32>();
        let r = self.bitcast::<i32>().lt(0).select::<f32>(-r, r);
        with_special_remainders(self, divisor, r)
    }
}

macro_rules! infinite {
    ($($ty:ty)*) => {$(
        #[doc = concat!("# Infinity of `", stringify!($ty), "`")]
        ///
        /// Finds overflowed results.
        impl<'b> Val<'b, $ty> {
            /// Returns whether the value is positive or negative infinity, for example to find
            /// overflowed results.
            #[doc(alias = "isinf")]
            #[track_caller]
            pub fn is_infinite(self) -> Val<'b, bool> {
                self.abs().eq(<$ty>::INFINITY)
            }
        }
    )*};
}

infinite! { f16 bf16 f32 f64 }
