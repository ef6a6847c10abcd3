//! Functions of real numbers are within their documented bounds of the exact value, and have its
//! special values.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use tilewright::ir::Val;

use crate::support::computed;

use computed::computed;

/// The error function, by its series and by the continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if x.is_nan() {
        return x;
    }
    if magnitude > 6.0 {
        return x.signum();
    }
    if magnitude > 2.5 {
        let fraction =
            (1..60).rev().fold(magnitude, |tail, k| magnitude + f64::from(k) / 2.0 / tail);
        return x.signum() * (1.0 - (-x * x).exp() / PI.sqrt() / fraction);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / PI.sqrt()
}

/// The complement of the error function: the series loses no digits below 2, the fraction none
/// above.
fn erfc(x: f64) -> f64 {
    match x {
        2.0.. => {
            let fraction = (1..200).rev().fold(x, |tail, k| x + f64::from(k) / 2.0 / tail);
            (-x * x).exp() / PI.sqrt() / fraction
        }
        ..-6.0 => 2.0,
        _ => 1.0 - erf(x),
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * 0.5 * (1.0 + erf(x * FRAC_1_SQRT_2)) }
}

fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x);
    if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid(2.0 * inner) }
}

/// Numbers of all magnitudes and both signs, and all special ones; every 40009th bit pattern is a
/// sample.
fn samples() -> Vec<f32> {
    let special =
        [0.0, 1.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1e-45, 88.72284, 103.97];
    let patterns = (0..=u32::MAX).step_by(40_009).map(f32::from_bits);
    let small = (0..20_000).map(|i| (i as f32 - 10_000.0) * 0.001_237);
    special.into_iter().flat_map(|x| [x, -x]).chain(patterns).chain(small).collect()
}

/// The difference in units in the last place of the exact number.
fn ulps(found: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if rounded.is_nan() || found.is_nan() || rounded.is_infinite() || found.is_infinite() {
        let next = f32::MAX as f64 * 1.000_001;
        let same = rounded.is_nan() == found.is_nan() && (rounded.is_nan() || found == rounded);
        let edge = !rounded.is_nan()
            && !found.is_nan()
            && exact.abs() < next
            && exact.abs() >= f32::MAX.into();
        return if same || edge { 0.0 } else { f64::INFINITY };
    }
    let exponent = (exact.abs().log2().floor()).max(-126.0);
    (f64::from(found) - exact).abs() / 2f64.powf(exponent - 23.0)
}

type Function = for<'b> fn(Val<'b, f32>) -> Val<'b, f32>;

/// A function's name, the function in a kernel, and the host's.
type Case = (&'static str, Function, fn(f32) -> f32);

/// The worst error of `f` over the samples that `domain` has.
fn worst(
    f: Function,
    exact: fn(f64) -> f64,
    error: fn(f32, f64) -> f64,
    domain: fn(f32) -> bool,
) -> (f64, f32) {
    let operands: Vec<(f32, bool, bool)> =
        samples().into_iter().filter(|x| domain(*x)).map(|x| (x, false, false)).collect();
    let device = tilewright::runtime::Device::sim().unwrap();
    let found = computed(&device, &operands, move |x, _, _| f(x));
    let errors =
        operands.iter().zip(found).map(|((x, ..), found)| (error(found, exact((*x).into())), *x));
    errors.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// A function in `f64`.
type Exact = fn(f64) -> f64;

/// The distance of a result from the exact one.
type Distance = fn(f32, f64) -> f64;

#[test]
fn precise_functions_are_within_their_bounds() {
    let all: [(&str, Function, Exact, f64); 21] = [
        ("exp", |x| x.exp(), f64::exp, 1.0),
        ("exp2", |x| x.exp2(), f64::exp2, 1.0),
        ("ln", |x| x.ln(), f64::ln, 1.0),
        ("log2", |x| x.log2(), f64::log2, 1.0),
        ("tanh", |x| x.tanh(), f64::tanh, 2.0),
        ("sigmoid", |x| x.sigmoid(), sigmoid, 2.0),
        ("silu", |x| x.silu(), |x| if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid(x) }, 4.0),
        ("erf", |x| x.erf(), erf, 1.0),
        ("rsqrt", |x| x.rsqrt(), |x| 1.0 / x.sqrt(), 1.5),
        ("sin", |x| x.sin(), f64::sin, 1.5),
        ("cos", |x| x.cos(), f64::cos, 1.5),
        ("tan", |x| x.tan(), f64::tan, 2.5),
        ("sinh", |x| x.sinh(), f64::sinh, 2.0),
        ("cosh", |x| x.cosh(), f64::cosh, 1.5),
        ("asin", |x| x.asin(), f64::asin, 2.0),
        ("acos", |x| x.acos(), f64::acos, 1.5),
        ("atan", |x| x.atan(), f64::atan, 1.5),
        ("cbrt", |x| x.cbrt(), f64::cbrt, 1.0),
        ("exp_m1", |x| x.exp_m1(), f64::exp_m1, 1.5),
        ("ln_1p", |x| x.ln_1p(), f64::ln_1p, 1.0),
        ("erfc", |x| x.erfc(), erfc, 4.0),
    ];
    let below = |x: f32| (f32::MIN..-87.0).contains(&x);
    let absolute = |found: f32, exact: f64| (f64::from(found) - exact).abs();
    let (error, at) = worst(|x| x.silu(), |x| x * sigmoid(x), absolute, below);
    assert!(error <= 2f64.powi(-142), "silu: {error:e} at {at:e}");
    let mut beyond = Vec::new();
    for (name, f, exact, bound) in all {
        let domain: fn(f32) -> bool = match name {
            "sin" | "cos" | "tan" => |x| x.abs() <= 1_125_899_906_842_624.0 || !x.is_finite(),
            "silu" => |x| !(f32::MIN..-87.0).contains(&x),
            _ => |_| true,
        };
        let (error, at) = worst(f, exact, ulps, domain);
        println!("{name}: {error:.3} ulp at {at:e}");
        if error > bound {
            beyond.push(format!("{name}: {error:.3} ulp at {at:e}"));
        }
    }
    for (name, f, exact) in [
        ("gelu", (|x| x.gelu()) as Function, gelu as fn(f64) -> f64),
        ("gelu_tanh", |x| x.gelu_tanh(), gelu_tanh),
    ] {
        let (error, at) =
            worst(f, exact, |found, exact| (f64::from(found) - exact).abs(), |x| x.abs() < 10.0);
        println!("{name}: {error:e} at {at:e}");
        if error > 1e-6 {
            beyond.push(format!("{name}: {error:e} at {at:e}"));
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// Pairs of special numbers, of numbers of all magnitudes, and of numbers that are close to each
/// other.
fn pairs() -> Vec<(f32, f32, bool)> {
    let ends =
        [0.0, 1.0, 0.5, 2.5, 3.0, f32::INFINITY, f32::NAN, f32::MAX, 1e-45, f32::MIN_POSITIVE];
    let ends: Vec<f32> = ends.into_iter().flat_map(|x| [x, -x]).collect();
    let mut pairs: Vec<_> =
        ends.iter().flat_map(|x| ends.iter().map(move |y| (*x, *y, false))).collect();
    for i in 1..20_000u32 {
        let (a, b) = (i.wrapping_mul(2_654_435_761), i.wrapping_mul(2_246_822_519) ^ 0x5bd1_e995);
        pairs.push((f32::from_bits(a), f32::from_bits(b), false));
        let near = |x: u32| f32::from_bits((x & 0x81ff_ffff) | 0x3f00_0000);
        pairs.push((near(a), near(b), false));
        // Halves of quotients.
        pairs.push(((near(a) * 16.0).floor() * 0.5, (near(b) * 4.0).floor(), false));
    }
    pairs
}

#[test]
fn angles_of_points_are_within_their_bound() {
    let pairs = pairs();
    let device = tilewright::runtime::Device::sim().unwrap();
    let found = computed(&device, &pairs, |y, x, _| y.atan2(x));
    let mut worst = 0.0f64;
    for ((y, x, _), found) in pairs.iter().zip(found) {
        let exact = f64::from(*y).atan2(f64::from(*x));
        worst = worst.max(ulps(found, exact));
        assert!(ulps(found, exact) <= 2.0, "atan2({y:e}, {x:e}): {found:e} and {exact:e}");
        assert!(exact != 0.0 || found.is_sign_negative() == exact.is_sign_negative());
    }
    println!("atan2: {worst:.3} ulp");
}

/// By the definition, in whole multiples of the smallest number: `x = a * 2^e` and `y = b * 2^e`.
fn exact_remainder(x: f32, y: f32, nearest: bool) -> f32 {
    if !x.is_finite() || y.is_nan() || y == 0.0 {
        return f32::NAN;
    }
    if y.is_infinite() {
        return x;
    }
    // Mantissa and exponent: |v| = m * 2^e.
    let parts = |v: f32| {
        let bits = v.to_bits() & 0x7fff_ffff;
        let (e, m) = (bits >> 23, u128::from(bits & 0x7f_ffff));
        if e == 0 { (m, 1) } else { (m | 0x80_0000, e) }
    };
    let ((a, e), (b, f)) = (parts(x), parts(y));
    // In units of 2^f, or of 2^e where that is less. A divisor much larger leaves `x`.
    let unit = e.min(f);
    if f - unit > 60 {
        return x;
    }
    let divisor = b << (f - unit);
    let (mut rest, mut odd) = (0, false);
    // Long division, a bit at a time.
    for bit in (0..24 + e - unit).rev() {
        let next = if bit >= e - unit { a >> (bit - (e - unit)) & 1 } else { 0 };
        rest = rest * 2 + next;
        odd = rest >= divisor;
        rest %= divisor;
    }
    let back = nearest && (2 * rest > divisor || (2 * rest == divisor && odd));
    let magnitude = if back { divisor - rest } else { rest };
    let value = (magnitude as f64) * 2f64.powi(unit as i32 - 150);
    let value = if back { -value } else { value } as f32;
    if x.is_sign_negative() { -value } else { value }
}

#[test]
fn remainders_are_exact() {
    let pairs = pairs();
    let device = tilewright::runtime::Device::sim().unwrap();
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let found = computed(&device, &pairs, |x, y, _| x.fmod(y));
    for ((x, y, _), found) in pairs.iter().zip(found) {
        let exact = exact_remainder(*x, *y, false);
        assert!(same(exact, x % y), "the definition of {x:e} % {y:e}: {exact:e} and {:e}", x % y);
        assert!(same(found, exact), "{x:e} % {y:e}: {found:e} and {exact:e}");
    }
    let found = computed(&device, &pairs, |x, y, _| x.remainder(y));
    for ((x, y, _), found) in pairs.iter().zip(found) {
        let exact = exact_remainder(*x, *y, true);
        assert!(same(found, exact), "remainder({x:e}, {y:e}): {found:e} and {exact:e}");
    }
}

#[test]
fn functions_of_special_numbers_are_those_of_rust() {
    let inf = f32::INFINITY;
    let all: [Case; 9] = [
        ("sinh", |x| x.sinh(), f32::sinh),
        ("cosh", |x| x.cosh(), f32::cosh),
        ("asin", |x| x.asin(), f32::asin),
        ("acos", |x| x.acos(), f32::acos),
        ("atan", |x| x.atan(), f32::atan),
        ("cbrt", |x| x.cbrt(), f32::cbrt),
        ("exp_m1", |x| x.exp_m1(), f32::exp_m1),
        ("ln_1p", |x| x.ln_1p(), f32::ln_1p),
        ("tan", |x| x.tan(), |x| if x.is_finite() { x } else { f32::NAN }),
    ];
    let numbers = [0.0, -0.0, 1e-45, -1e-45, inf, -inf, f32::NAN];
    let operands = numbers.map(|x| (x, false, false));
    let device = tilewright::runtime::Device::sim().unwrap();
    for (name, f, rust) in all {
        let found = computed(&device, &operands, move |x, _, _| f(x));
        for (x, found) in numbers.into_iter().zip(found) {
            let exact = rust(x);
            let near = (found - exact).abs() <= 2e-7
                && found.is_sign_negative() == exact.is_sign_negative();
            assert!(
                found == exact || near || (found.is_nan() && exact.is_nan()),
                "{name}({x:e}): {found:e}"
            );
        }
    }
    // -1 is the end of the logarithm, 1 that of the arc functions; a far angle has no quadrant.
    let ends = [-1.0, 1.0, 1.000_000_1, -1.000_000_1, 1e30].map(|x| (x, false, false));
    let compute = |f: Function| computed(&device, &ends, move |x, _, _| f(x));
    assert_eq!(compute(|x| x.ln_1p())[0], -inf);
    assert!(compute(|x| x.ln_1p())[3].is_nan());
    assert_eq!(compute(|x| x.acos())[1].to_bits(), 0);
    assert!(compute(|x| x.asin())[2].is_nan() && compute(|x| x.acos())[3].is_nan());
    assert!(compute(|x| x.tan())[4].is_nan());
    assert_eq!(compute(|x| x.sinh())[4], inf);
    assert_eq!(compute(|x| x.erfc())[4].to_bits(), 0);
    let found = computed(&device, &operands, |x, _, _| x.is_infinite());
    assert_eq!(found, numbers.map(f32::is_infinite));
}

#[test]
fn powers_are_within_their_bound_and_have_the_special_values_of_rust() {
    let ends = [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        1.5,
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        1e-45,
        16_777_217.0,
        7.0,
        33.0,
    ];
    let ends: Vec<f32> = ends.into_iter().flat_map(|x| [x, -x]).collect();
    let mut operands: Vec<(f32, f32, bool)> =
        ends.iter().flat_map(|x| ends.iter().map(move |y| (*x, *y, false))).collect();
    for i in 1..20_000u32 {
        let x = f32::from_bits(i.wrapping_mul(214_003) & 0x7fff_ffff);
        operands.push((x, (i as f32 - 10_000.0) * 0.003_1, false));
    }
    let device = tilewright::runtime::Device::sim().unwrap();
    let found = computed(&device, &operands, |x, y, _| x.pow(y));
    for ((x, y, _), found) in operands.iter().zip(found) {
        let exact = f64::from(*x).powf(f64::from(*y));
        assert!(ulps(found, exact) <= 1.0, "{x:e} ^ {y:e}: {found:e} and {exact:e}");
        let special = exact == 0.0 || !exact.is_finite();
        assert!(!special || exact.is_nan() || found == exact as f32, "{x:e} ^ {y:e}: {found:e}");
    }
}

#[test]
fn fast_functions_are_within_their_bounds() {
    let absolute: fn(f32, f64) -> f64 = |found, exact| (f64::from(found) - exact).abs();
    let relative: Distance = |found, exact| {
        let difference = (f64::from(found) - exact).abs();
        if difference == 0.0 { 0.0 } else { difference / exact.abs().max(1e-37) }
    };
    let all: [(&str, Function, Exact, Distance, f64); 12] = [
        ("exp", |x| x.exp_fast(), f64::exp, relative, 1e-6),
        ("exp2", |x| x.exp2_fast(), f64::exp2, relative, 1e-6),
        ("ln", |x| x.abs().ln_fast(), |x| x.abs().ln(), absolute, 1e-6),
        ("log2", |x| x.abs().log2_fast(), |x| x.abs().log2(), absolute, 1e-6),
        ("tanh", |x| x.tanh_fast(), f64::tanh, absolute, 5e-4),
        ("sigmoid", |x| x.sigmoid_fast(), sigmoid, absolute, 1e-6),
        ("silu", |x| x.silu_fast(), |x| x * sigmoid(x), absolute, 4e-6),
        ("erf", |x| x.erf_fast(), erf, absolute, 2e-6),
        ("gelu", |x| x.gelu_fast(), gelu, absolute, 1e-5),
        ("gelu_tanh", |x| x.gelu_tanh_fast(), gelu_tanh, absolute, 4e-6),
        ("sin", |x| x.sin_fast(), f64::sin, absolute, 1e-6),
        ("rsqrt", |x| x.abs().rsqrt_fast(), |x| 1.0 / x.abs().sqrt(), relative, 1e-6),
    ];
    for (name, f, exact, error, bound) in all {
        let domain: fn(f32) -> bool = |x| x.abs() > 0.01 && x.abs() < 10.0;
        let (error, at) = worst(f, exact, error, domain);
        println!("{name}_fast: {error:e} at {at:e}");
        assert!(error <= bound, "{name}_fast: {error:e} at {at:e}");
    }
}

#[test]
fn the_fast_tangent_is_near_below_its_pole() {
    let relative: Distance = |found, exact| (f64::from(found) - exact).abs() / exact.abs();
    let (error, at) =
        worst(|x| x.tan_fast(), f64::tan, relative, |x| x.abs() > 0.01 && x.abs() < 1.5);
    assert!(error <= 1e-6, "tan_fast: {error:e} at {at:e}");
}

#[test]
fn fast_exponentials_and_logarithms_are_one_instruction() {
    use tilewright::ir::{GlobalMut, Kernel, Target};
    let kernel = Kernel::<(GlobalMut<f32>,)>::build("fast", Target::SM_80, |_, (x,)| {
        let v = x.load(0);
        x.store(0, v.exp2_fast());
        x.store(1, v.log2_fast());
    });
    let text = kernel.unwrap().ptx().into_text();
    for name in ["ex2.approx.ftz.f32", "lg2.approx.ftz.f32"] {
        assert_eq!(text.matches(name).count(), 1, "{text}");
    }
}
