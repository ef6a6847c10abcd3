//! Math functions: `exp`, `ln`, `sin`, `pow`, activations and so on, each in a precise form `f` and
//! a fast form `f_fast`. Use the precise form if results must be the same on every device, the fast
//! form if a few wrong low bits do not matter.
//!
//! Both forms are composed of IR operations. The precise forms use only exactly rounded operations,
//! so the simulator and every GPU return the same bits. The file `elementary` has the rest of C's
//! `math.h`.

use super::typed::{IntoOperand, Val};
use super::vector::Vector;
use crate::ir::narrow::{bf16, f16};
use crate::ir::op::{ApproxFunction, Subnormals};

/// `ln(2)` as a sum: a value with few significant bits, and the remainder.
pub(super) const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// Evaluates the polynomial with these coefficients, highest power first.
#[track_caller]
pub(super) fn polynomial<'b>(x: Val<'b, f32>, coefficients: &[f32]) -> Val<'b, f32> {
    let mut sum = x.constant(0.0);
    for (i, coefficient) in coefficients.iter().enumerate() {
        sum = if i == 0 { x.constant(*coefficient) } else { sum.fma(x, *coefficient) };
    }
    sum
}

#[track_caller]
fn polynomial_f64<'b>(x: Val<'b, f64>, coefficients: &[f64]) -> Val<'b, f64> {
    let mut sum = x.constant(0.0);
    for (i, coefficient) in coefficients.iter().enumerate() {
        sum = if i == 0 { x.constant(*coefficient) } else { sum.fma(x, *coefficient) };
    }
    sum
}

/// Returns `e^r` for `|r| <= 0.35`, by its series.
#[track_caller]
#[inline]
pub(super) fn exp_series(r: Val<'_, f32>) -> Val<'_, f32> {
    polynomial(r, &[1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0])
}

/// Returns `x * 2^n` for integers `n` from -252 to 254.
#[track_caller]
#[inline]
pub(super) fn times_power_of_two<'b>(x: Val<'b, f32>, n: Val<'b, f32>) -> Val<'b, f32> {
    // In two steps, because 2^n itself may overflow or underflow. The first one is exact.
    let n = n.cvt::<i32>();
    let half = n >> 1;
    let power = |n: Val<'b, i32>| ((n + 127) << 23).bitcast::<f32>();
    x * power(half) * power(n - half)
}

/// Returns `e^r * 2^n` for `|r| <= 0.35` and integers `n` from -252 to 254.
#[track_caller]
#[inline]
pub(super) fn exp_of_parts<'b>(r: Val<'b, f32>, n: Val<'b, f32>) -> Val<'b, f32> {
    times_power_of_two(exp_series(r), n)
}

/// Splits a positive value into exponent `k` and mantissa `m`, with `m` between `sqrt(1/2)` and
/// `sqrt(2)`.
#[track_caller]
#[inline]
fn exponent_and_mantissa(x: Val<'_, f32>) -> (Val<'_, i32>, Val<'_, f32>) {
    let small = x.lt(f32::MIN_POSITIVE);
    let bits = small.select::<f32>(x * 33_554_432.0, x).bitcast::<i32>();
    let k = (bits - 0x3f35_04f3) >> 23;
    let m = (bits - (k << 23)).bitcast::<f32>();
    (k + small.select::<i32>(-25, 0), m)
}

/// Returns `result` for positive finite `x`, otherwise the logarithm's special values.
#[track_caller]
fn with_ends<'b>(x: Val<'b, f32>, result: Val<'b, f32>) -> Val<'b, f32> {
    let finite = x.lt(f32::INFINITY).select::<f32>(result, x);
    let result = x.eq(0.0).select::<f32>(f32::NEG_INFINITY, finite);
    x.lt(0.0).select::<f32>(f32::NAN, result)
}

/// Returns `ln(m)` for `m` between `sqrt(1/2)` and `sqrt(2)`, as `f - square + rest` with `f = m -
/// 1`.
#[track_caller]
#[inline]
fn ln_of_mantissa(m: Val<'_, f32>) -> [Val<'_, f32>; 3] {
    let f = m - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let series = polynomial(z, &[2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    let square = f * 0.5 * f;
    [f, square, s * z.fma(series, square)]
}

/// Returns `x - n * pi / 2` for the nearest integer `n`, and the lowest bits of `n`.
///
/// It works in `f64` with pi / 2 as a sum of two values: up to 2^50 the error is below 2^-53.
/// Beyond that it returns NaN.
#[track_caller]
#[inline]
pub(super) fn quadrant(x: Val<'_, f32>) -> (Val<'_, f64>, Val<'_, i32>) {
    let wide = x.abs().le(1_125_899_906_842_624.0).select::<f32>(x, f32::NAN).cvt::<f64>();
    let n = (wide * std::f64::consts::FRAC_2_PI).round_ties_even();
    let r = (-n).fma(std::f64::consts::FRAC_PI_2, wide);
    let r = (-n).fma(6.123_233_995_736_766e-17, r);
    (r, n.cvt::<i64>().cvt::<i32>())
}

/// Returns the sine of `x` if `shift` is 0, the cosine if it is 1.
#[track_caller]
#[inline]
fn sine<'b>(x: Val<'b, f32>, shift: i32) -> Val<'b, f32> {
    let (r, n) = quadrant(x);
    let r = r.cvt::<f32>();
    let n = n + shift;
    let z = r * r;
    let odd = polynomial(z, &[2.724_985e-6, -1.984_008_6e-4, 8.333_332e-3, -1.666_666_6e-1]);
    let sine = (odd * z).fma(r, r);
    let even = polynomial(z, &[-2.730_089_7e-7, 2.480_06e-5, -1.388_888_8e-3, 4.166_666_7e-2]);
    let cosine = even.fma(z, -0.5).fma(z, 1.0);
    let value = (n & 1).eq(0).select::<f32>(sine, cosine);
    (n & 2).eq(0).select::<f32>(value, -value)
}

/// Returns the error function for `|x| < 1`.
#[track_caller]
#[inline]
pub(super) fn erf_near_zero(x: Val<'_, f32>) -> Val<'_, f32> {
    let p = [
        -9.667_045e-6,
        1.126_595_9e-4,
        -8.484_08e-4,
        5.221_032e-3,
        -2.686_543e-2,
        0.112_837_82,
        -0.376_126_38,
        0.128_379_17,
    ];
    polynomial(x * x, &p).fma(x, x)
}

/// # Math functions
///
/// These are precise, with the domain and the special values of Rust's `f32` methods. If speed
/// matters more than the last bits, use the form that ends in `_fast`. `docs/arithmetic.md` lists
/// errors and costs.
impl<'b> Val<'b, f32> {
    /// Returns `e^self`, within 1 ulp.
    #[doc(alias = "expf")]
    #[track_caller]
    #[inline]
    pub fn exp(self) -> Val<'b, f32> {
        let x = self.max_nan(-110.0).min_nan(100.0);
        let n = (x * std::f32::consts::LOG2_E).round_ties_even();
        let r = n.fma(-LN_2[0], x);
        exp_of_parts(n.fma(-LN_2[1], r), n)
    }

    /// Returns `2^self`, within 1 ulp.
    #[doc(alias = "exp2f")]
    #[track_caller]
    #[inline]
    pub fn exp2(self) -> Val<'b, f32> {
        let x = self.max_nan(-160.0).min_nan(140.0);
        let n = x.round_ties_even();
        exp_of_parts((x - n) * std::f32::consts::LN_2, n)
    }

    /// Returns the natural logarithm, within 1 ulp.
    #[doc(alias("logf", "log"))]
    #[track_caller]
    #[inline]
    pub fn ln(self) -> Val<'b, f32> {
        let (k, m) = exponent_and_mantissa(self);
        let k = k.cvt::<f32>();
        let [f, square, rest] = ln_of_mantissa(m);
        let low = k.fma(LN_2[1], rest);
        with_ends(self, k.fma(LN_2[0], f - (square - low)))
    }

    /// Returns the base-2 logarithm, within 1 ulp.
    #[doc(alias = "log2f")]
    #[track_caller]
    #[inline]
    pub fn log2(self) -> Val<'b, f32> {
        const LOG2_E: [f32; 2] = [std::f32::consts::LOG2_E, 1.925_963e-8];
        let (k, m) = exponent_and_mantissa(self);
        let k = k.cvt::<f32>();
        let [f, square, rest] = ln_of_mantissa(m);
        let high = f - square;
        let low = (f - high) - square + rest;
        let product = high * LOG2_E[0];
        let error = high.fma(LOG2_E[0], -product);
        let error = high.fma(LOG2_E[1], low.fma(LOG2_E[0], error));
        let sum = k + product;
        with_ends(self, sum + (error + (product - (sum - k))))
    }

    /// Returns the hyperbolic tangent, within 2 ulp.
    #[doc(alias = "tanhf")]
    #[track_caller]
    #[inline]
    pub fn tanh(self) -> Val<'b, f32> {
        let z = self * self;
        let p = [-6.406_294e-3, 2.119_492_6e-2, -5.388_971_4e-2, 0.133_330_08, -0.333_333_3];
        let small = (polynomial(z, &p) * z).fma(self, self);
        let magnitude = self.abs();
        let e = (magnitude.min_nan(20.0) * 2.0).exp();
        let large = self.constant(1.0) - self.constant(2.0) / (e + 1.0);
        magnitude.lt(0.58).select::<f32>(small, large.copysign(self))
    }

    /// Returns the error function, within 1 ulp, as in the exact form of GELU. For `1 - erf` use
    /// [`erfc`](Val::erfc).
    #[doc(alias = "erff")]
    #[track_caller]
    #[inline]
    pub fn erf(self) -> Val<'b, f32> {
        let small = erf_near_zero(self);
        let magnitude = self.abs().min_nan(4.0);
        // ln(1 - erf)
        let q = [
            -6.123_972_5e-8,
            2.980_912e-6,
            -5.883_021_5e-5,
            6.656_847e-4,
            -4.991_385_5e-3,
            2.692_486_5e-2,
            -0.110_785_72,
            -0.631_212_65,
            -1.130_533_3,
            3.829_373_4e-4,
        ];
        let large = self.constant(1.0) - polynomial(magnitude, &q).exp();
        self.abs().lt(1.0).select::<f32>(small, large.copysign(self))
    }

    /// Returns `1 / sqrt(self)`, within 1.5 ulp, for example for the scale of a layer norm.
    #[doc(alias = "rsqrtf")]
    #[track_caller]
    pub fn rsqrt(self) -> Val<'b, f32> {
        self.constant(1.0) / self.sqrt()
    }

    /// Returns the sine, within 1.5 ulp for `|self| <= 2^50`, and NaN beyond.
    #[doc(alias = "sinf")]
    #[track_caller]
    #[inline]
    pub fn sin(self) -> Val<'b, f32> {
        // A zero keeps its sign.
        self.eq(0.0).select::<f32>(self, sine(self, 0))
    }

    /// Returns the cosine, within 1.5 ulp for `|self| <= 2^50`, and NaN beyond.
    #[doc(alias = "cosf")]
    #[track_caller]
    #[inline]
    pub fn cos(self) -> Val<'b, f32> {
        sine(self, 1)
    }

    /// Returns `self^exponent`, within 1 ulp. It computes in `f64`, which is slow on GPUs with few
    /// `f64` units.
    #[doc(alias = "powf")]
    #[track_caller]
    pub fn pow(self, exponent: impl IntoOperand<'b, f32>) -> Val<'b, f32> {
        let y = Val::<f32>::new(self.context(), self.context().operand_of(exponent));
        let magnitude = self.abs();
        let (k, m) = exponent_and_mantissa(magnitude);
        let m = m.cvt::<f64>();
        let s = (m - 1.0) / (m + 1.0);
        let series: Vec<f64> = (0..9).rev().map(|i| 2.0 / f64::from(2 * i + 1)).collect();
        let ln = s * polynomial_f64(s * s, &series);
        let log2 = ln.fma(std::f64::consts::LOG2_E, k.cvt::<f64>());
        let infinite = f64::INFINITY;
        let log2 = magnitude.eq(0.0).select::<f64>(-infinite, log2);
        let log2 = magnitude.eq(f32::INFINITY).select::<f64>(infinite, log2);
        let t = y.cvt::<f64>() * log2;
        let n = t.max(-200.0).min(200.0).round_ties_even();
        let f = (t.max(-200.0).min(200.0) - n) * std::f64::consts::LN_2;
        let mut factor = 1.0;
        let mut series: Vec<f64> = (1..11)
            .map(|i| {
                factor /= f64::from(i);
                factor
            })
            .collect();
        series.insert(0, 1.0);
        series.reverse();
        let scale = ((n.cvt::<i64>() + 1023) << 52).bitcast::<f64>();
        let power = (polynomial_f64(f, &series) * scale).cvt::<f32>();
        // A negative base: an odd integer exponent gives a negative power, a fractional exponent
        // gives NaN.
        let whole = y.trunc().eq(y);
        let odd = whole & y.abs().lt(16_777_216.0) & (y.cvt::<i32>() & 1).ne(0);
        let negative = self.bitcast::<i32>().lt(0);
        let power = (negative & odd).select::<f32>(-power, power);
        let no_number = self.lt(0.0) & !whole & magnitude.lt(f32::INFINITY);
        let power = (no_number | self.is_nan() | y.is_nan()).select::<f32>(f32::NAN, power);
        let always_one = y.eq(0.0) | self.eq(1.0) | (self.eq(-1.0) & y.abs().eq(f32::INFINITY));
        always_one.select::<f32>(1.0, power)
    }
}

/// # Activation functions
///
/// Each has a precise and a fast form.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("silu", Target::SM_80, |_, (x,)| {
///     let v = x.load(0);
///     x.store(0, v.silu());
///     x.store(1, v.silu_fast());
/// })?;
/// assert!(kernel.ptx().text().contains("ex2.approx.ftz.f32"));
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0f32, 0.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// let x = x.to_vec()?;
/// assert_eq!(x[0], 0.731_058_6);
/// assert!((x[1] - x[0]).abs() < 1e-6);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b> Val<'b, f32> {
    /// Returns `1 / (1 + e^-self)`, the logistic function of gates, within 2 ulp.
    #[track_caller]
    #[inline]
    pub fn sigmoid(self) -> Val<'b, f32> {
        let e = (-self.abs()).exp();
        self.lt(0.0).select::<f32>(e, 1.0) / (e + 1.0)
    }

    /// Returns `self * sigmoid(self)`, the activation SiLU (Swish): within 4 ulp from -87 on, and
    /// within 2^-142 below. Negative infinity gives -0.
    #[track_caller]
    #[inline]
    pub fn silu(self) -> Val<'b, f32> {
        let x = self.max_nan(-120.0);
        x * x.sigmoid()
    }

    /// Returns `self / 2 * (1 + erf(self / sqrt(2)))`, the exact form of GELU, within 1e-6 for
    /// `|self| <= 10`. Negative infinity gives -0.
    #[track_caller]
    #[inline]
    pub fn gelu(self) -> Val<'b, f32> {
        let x = self.max_nan(-20.0);
        x * 0.5 * ((x * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0)
    }

    /// Returns `self / 2 * (1 + tanh(sqrt(2 / pi) * (self + 0.044715 * self^3)))`, the tanh form of
    /// GELU, within 1e-6 for `|self| <= 10`. Negative infinity gives -0.
    #[track_caller]
    #[inline]
    pub fn gelu_tanh(self) -> Val<'b, f32> {
        let x = self.max_nan(-20.0);
        let y = x.min_nan(20.0);
        let inner = y * (y * y).fma(0.071_354_814, 1.595_769);
        x * inner.sigmoid()
    }

    /// Returns approximately `1 / (1 + e^-self)`.
    #[track_caller]
    pub fn sigmoid_fast(self) -> Val<'b, f32> {
        ((self * -std::f32::consts::LOG2_E).exp2_fast() + 1.0).recip_fast()
    }

    /// Returns approximately `self * sigmoid(self)`. Negative infinity gives NaN.
    #[track_caller]
    pub fn silu_fast(self) -> Val<'b, f32> {
        self * self.sigmoid_fast()
    }

    /// Returns approximately the exact form of GELU. Negative infinity gives NaN.
    #[track_caller]
    #[inline]
    pub fn gelu_fast(self) -> Val<'b, f32> {
        let half = self * 0.5;
        half.fma((self * std::f32::consts::FRAC_1_SQRT_2).erf_fast(), half)
    }

    /// Returns approximately the tanh form of GELU. Negative infinity gives NaN.
    #[track_caller]
    pub fn gelu_tanh_fast(self) -> Val<'b, f32> {
        let inner = self * (self * self).fma(0.071_354_814, 1.595_769);
        self * inner.sigmoid_fast()
    }
}

/// # Fast math functions
///
/// Each takes a few instructions. Most flush subnormals to zero.
impl<'b> Val<'b, f32> {
    #[track_caller]
    fn flushed(self, function: ApproxFunction) -> Val<'b, f32> {
        self.approx(function, Subnormals::Ftz)
    }

    /// Returns approximately `1 / self`, in one instruction. PTX ISA 9.7.3.13 `rcp.approx.ftz`.
    #[doc(alias = "reciprocal")]
    #[track_caller]
    pub fn recip_fast(self) -> Val<'b, f32> {
        self.flushed(ApproxFunction::Rcp)
    }

    /// Returns approximately the square root, in one instruction. PTX ISA 9.7.3.15
    /// `sqrt.approx.ftz`.
    #[track_caller]
    pub fn sqrt_fast(self) -> Val<'b, f32> {
        self.flushed(ApproxFunction::Sqrt)
    }

    /// Returns approximately `1 / sqrt(self)`, in one instruction. PTX ISA 9.7.3.17
    /// `rsqrt.approx.ftz`.
    #[track_caller]
    pub fn rsqrt_fast(self) -> Val<'b, f32> {
        self.flushed(ApproxFunction::Rsqrt)
    }

    /// Returns approximately `e^self`, in two instructions.
    #[doc(alias = "__expf")]
    #[track_caller]
    pub fn exp_fast(self) -> Val<'b, f32> {
        (self * std::f32::consts::LOG2_E).exp2_fast()
    }

    /// Returns approximately the base-2 logarithm, in one instruction. PTX ISA 9.7.3.20
    /// `lg2.approx.ftz`.
    #[doc(alias = "__log2f")]
    #[track_caller]
    pub fn log2_fast(self) -> Val<'b, f32> {
        self.flushed(ApproxFunction::Lg2)
    }

    /// Returns approximately the natural logarithm, in two instructions.
    #[doc(alias = "__logf")]
    #[track_caller]
    pub fn ln_fast(self) -> Val<'b, f32> {
        self.log2_fast() * std::f32::consts::LN_2
    }

    /// Returns approximately the sine, in one instruction. PTX ISA 9.7.3.18 `sin.approx.ftz`.
    #[doc(alias = "__sinf")]
    #[track_caller]
    pub fn sin_fast(self) -> Val<'b, f32> {
        self.flushed(ApproxFunction::Sin)
    }

    /// Returns approximately the cosine, in one instruction. PTX ISA 9.7.3.19 `cos.approx.ftz`.
    #[doc(alias = "__cosf")]
    #[track_caller]
    pub fn cos_fast(self) -> Val<'b, f32> {
        self.flushed(ApproxFunction::Cos)
    }

    /// Returns approximately `self^exponent` for a positive value, in three instructions.
    #[doc(alias = "__powf")]
    #[track_caller]
    pub fn pow_fast(self, exponent: impl IntoOperand<'b, f32>) -> Val<'b, f32> {
        (self.log2_fast() * exponent).exp2_fast()
    }

    /// Returns approximately the error function, by Abramowitz and Stegun 7.1.28.
    #[track_caller]
    #[inline]
    pub fn erf_fast(self) -> Val<'b, f32> {
        let p = [
            4.306_38e-5,
            2.765_672e-4,
            1.520_143e-4,
            9.270_527e-3,
            4.228_201e-2,
            7.052_308e-2,
            1.0,
        ];
        let p = polynomial(self.abs(), &p);
        let square = p * p;
        let fourth = square * square;
        let eighth = fourth * fourth;
        (self.constant(1.0) - (eighth * eighth).recip_fast()).copysign(self)
    }
}

macro_rules! native {
    ($($ty:ty: $subnormals:ident;)*) => {$(
        #[doc = concat!("# Fast `exp2` and `tanh` of `", stringify!($ty), "`")]
        ///
        /// Each is one PTX instruction.
        impl<'b> Val<'b, $ty> {
            /// Returns approximately `2^self`, in one instruction. Subnormal `f32` and `bf16`
            /// values count as zero. PTX ISA 9.7.3.21, 9.7.4.10 `ex2.approx`.
            #[track_caller]
            pub fn exp2_fast(self) -> Val<'b, $ty> {
                self.approx(ApproxFunction::Ex2, Subnormals::$subnormals)
            }

            /// Returns approximately the hyperbolic tangent, in one instruction. PTX ISA 9.7.3.22,
            /// 9.7.4.9 `tanh.approx`.
            #[track_caller]
            pub fn tanh_fast(self) -> Val<'b, $ty> {
                self.approx(ApproxFunction::Tanh, Subnormals::Keep)
            }
        }
    )*};
}

native! {
    f32: Ftz;
    f16: Keep;
    bf16: Ftz;
    Vector<f16, 2>: Keep;
    Vector<bf16, 2>: Ftz;
}

macro_rules! through_f32 {
    ($ty:ty: $($name:ident)*) => {
        #[doc = concat!("# Math functions of `", stringify!($ty), "`")]
        ///
        /// Each converts to `f32`, computes there, and rounds the result back.
        impl<'b> Val<'b, $ty> {
            $(
                #[doc = concat!("As [`", stringify!($name), "`](Val::<f32>::", stringify!($name), ") of `f32`.")]
                #[track_caller]
                pub fn $name(self) -> Val<'b, $ty> {
                    self.cvt::<f32>().$name().cvt::<$ty>()
                }
            )*

            through_f32! { @binary $ty: pow pow_fast atan2 fmod remainder }
        }
    };
    (@binary $ty:ty: $($name:ident)*) => {$(
        #[doc = concat!("As [`", stringify!($name), "`](Val::<f32>::", stringify!($name), ") of `f32`.")]
        #[track_caller]
        pub fn $name(self, other: impl IntoOperand<'b, $ty>) -> Val<'b, $ty> {
            let other = self.context().operand_of(other);
            let other = Val::<$ty>::new(self.context(), other).cvt::<f32>();
            self.cvt::<f32>().$name(other).cvt::<$ty>()
        }
    )*};
}

through_f32! { f16: exp exp2 ln log2 tanh sigmoid silu erf gelu gelu_tanh rsqrt sin cos tan sinh cosh asin acos
atan cbrt exp_m1 ln_1p erfc tan_fast exp_fast ln_fast log2_fast
sigmoid_fast silu_fast erf_fast gelu_fast gelu_tanh_fast rsqrt_fast sin_fast cos_fast recip_fast sqrt_fast }
through_f32! { bf16: exp exp2 ln log2 tanh sigmoid silu erf gelu gelu_tanh rsqrt sin cos tan sinh cosh asin acos
atan cbrt exp_m1 ln_1p erfc tan_fast exp_fast ln_fast log2_fast
sigmoid_fast silu_fast erf_fast gelu_fast gelu_tanh_fast rsqrt_fast sin_fast cos_fast recip_fast sqrt_fast }
