//! The floating point formats that Rust does not have, and vectors of them, against their
//! definition.
//!
//! All bit patterns where there is one operand; random and corner ones where there are more. The
//! reference computes with integers and picks the nearer neighbour in a table of all numbers of the
//! format: it shares nothing with the code under test. With `TILEWRIGHT_GPU=1` the first GPU runs
//! the same.

use crate::support::{computed, device};

use computed::computed;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::FloatFormat;
use tilewright::ir::{Element, Float, Val, Vector, bf16, f8e4m3, f8e5m2, f16, tf32};

/// A format as the reference sees it.
trait Narrow: Element + Converted {
    /// The number, by the definition of the format.
    fn value(self) -> f64;
    /// The lowest bits that do not count.
    const IGNORED: u32;
    /// True if a result that is too large becomes the largest number.
    const SATURATES: bool;
}

macro_rules! narrow {
    ($($ty:ty: $format:ident, $ignored:literal, $saturates:literal;)*) => {$(
        impl Narrow for $ty {
            fn value(self) -> f64 {
                let bits = self.to_const().bits() >> $ignored;
                let FloatFormat { exponent_bits, fraction_bits, .. } = FloatFormat::$format;
                let fraction = (bits & ((1 << fraction_bits) - 1)) as f64;
                let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
                let negative = bits >> (exponent_bits + fraction_bits) & 1 == 1;
                let (unit, bias) = (2f64.powi(-(fraction_bits as i32)), (1 << (exponent_bits - 1)) - 1);
                let is_top = exponent == (1 << exponent_bits) - 1;
                let magnitude = match FloatFormat::$format {
                    FloatFormat::F8E4M3 if is_top && fraction == 7.0 => f64::NAN,
                    FloatFormat::F8E4M3 => number(exponent, fraction * unit, bias),
                    _ if is_top && fraction == 0.0 => f64::INFINITY,
                    _ if is_top => f64::NAN,
                    _ => number(exponent, fraction * unit, bias),
                };
                if negative { -magnitude } else { magnitude }
            }
            const IGNORED: u32 = $ignored;
            const SATURATES: bool = $saturates;
        }
    )*};
}
narrow! {
    f16: F16, 0, false;
    bf16: BF16, 0, false;
    tf32: TF32, 13, false;
    f8e4m3: F8E4M3, 0, true;
    f8e5m2: F8E5M2, 0, true;
}

fn number(exponent: i32, fraction: f64, bias: i32) -> f64 {
    if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    }
}

/// All bit patterns; the ignored bits are zero.
fn all<T: Narrow>() -> Vec<T> {
    let count = 1u64 << (T::SCALAR.bits() - T::IGNORED);
    (0..count).map(|bits| T::from_bits(bits << T::IGNORED)).collect()
}

/// The numbers from zero up, in order, with their bits.
struct Table<T> {
    numbers: Vec<(f64, T)>,
}

impl<T: Narrow> Table<T> {
    fn new() -> Table<T> {
        let positive = |x: &T| x.value().is_finite() && x.value().is_sign_positive();
        let mut numbers: Vec<(f64, T)> =
            all::<T>().into_iter().filter(positive).map(|x| (x.value(), x)).collect();
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        Table { numbers }
    }

    /// The number nearest to `x`, of two the one with an even last bit. `x` must be exact, or so
    /// much more precise than the format that it is on the right side of every middle.
    fn nearest(&self, x: f64) -> f64 {
        let (magnitude, sign) = (x.abs(), if x.is_sign_negative() { -1.0 } else { 1.0 });
        let above = self.numbers.partition_point(|(number, _)| *number < magnitude);
        let (largest, _) = self.numbers[self.numbers.len() - 1];
        let (second, _) = self.numbers[self.numbers.len() - 2];
        let Some((up, up_bits)) = self.numbers.get(above) else {
            // Beyond the largest: as if one more number followed.
            let too_large = magnitude >= largest + (largest - second) / 2.0;
            let beyond = if T::SATURATES { largest } else { f64::INFINITY };
            return sign * if too_large { beyond } else { largest };
        };
        if above == 0 || *up == magnitude {
            return sign * up;
        }
        let (down, _) = self.numbers[above - 1];
        let middle = down + (up - down) / 2.0;
        let up_is_even = up_bits.to_const().bits() >> T::IGNORED & 1 == 0;
        let goes_up = magnitude > middle || (magnitude == middle && up_is_even);
        sign * if goes_up { *up } else { down }
    }
}

/// Returns true if the result is the expected number: NaN for NaN, and a zero with its sign.
fn same<T: Narrow>(found: T, expected: f64) -> bool {
    let found = found.value();
    if expected.is_nan() { found.is_nan() } else { found.to_bits() == expected.to_bits() }
}

#[track_caller]
fn check<A: Element, B: Element, C: Element, R: Narrow>(
    name: &str,
    operands: &[(A, B, C)],
    f: impl for<'b> Fn(Val<'b, A>, Val<'b, B>, Val<'b, C>) -> Val<'b, R>,
    expected: impl Fn(A, B, C) -> f64,
) {
    for device in device::devices() {
        let found = computed(&device, operands, &f);
        for ((a, b, c), found) in operands.iter().zip(found) {
            let expected = expected(*a, *b, *c);
            assert!(
                same(found, expected),
                "{name} of {a:?}, {b:?}, {c:?} gives {found:?}, not {expected:?} as {}, on {}",
                R::SCALAR,
                device.name()
            );
        }
    }
}

fn with_nothing<A: Element>(all: &[A]) -> Vec<(A, bool, bool)> {
    all.iter().map(|a| (*a, false, false)).collect()
}

/// A linear congruential generator, with the constants of Knuth's MMIX.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 16
    }
}

/// Every number of the format is one of `f32` and of `f64`, and converts to integers as these do.
#[test]
fn every_number_is_widened_exactly() {
    fn widened<T: Narrow>() {
        let all = all::<T>();
        for device in device::devices() {
            let operands = with_nothing(&all);
            let narrow = computed(&device, &operands, |x, _, _| x.cvt::<f32>());
            let wide = computed(&device, &operands, |x, _, _| x.cvt::<f64>());
            let int = computed(&device, &operands, |x, _, _| x.cvt::<i32>());
            let byte = computed(&device, &operands, |x, _, _| x.cvt::<u8>());
            let long = computed(&device, &operands, |x, _, _| x.cvt::<u64>());
            for (i, x) in all.iter().enumerate() {
                let value = x.value();
                assert!(
                    narrow[i] == value as f32 || (narrow[i].is_nan() && value.is_nan()),
                    "{x:?}"
                );
                assert!(wide[i] == value || (wide[i].is_nan() && value.is_nan()), "{x:?}");
                assert_eq!(
                    (int[i], byte[i], long[i]),
                    (value as i32, value as u8, value as u64),
                    "{x:?}"
                );
            }
        }
    }
    widened::<f16>();
    widened::<bf16>();
    widened::<tf32>();
    widened::<f8e4m3>();
    widened::<f8e5m2>();
}

/// Values of `f32` that are hard to round to the format: its numbers, their middles, and the
/// neighbours of both.
fn hard<T: Narrow>() -> Vec<f32> {
    let table = Table::<T>::new();
    let step = (table.numbers.len() / 4000).max(1);
    let mut hard = vec![f32::INFINITY, f32::NAN, f32::MAX, 0.0, f32::from_bits(1)];
    for pair in table.numbers.windows(2).step_by(step) {
        let (down, up) = (pair[0].0, pair[1].0);
        for x in [down, down + (up - down) / 2.0, up] {
            let x = x as f32;
            hard.extend([x, x.next_up(), x.next_down()]);
        }
    }
    let (largest, _) = table.numbers[table.numbers.len() - 1];
    let (second, _) = table.numbers[table.numbers.len() - 2];
    let end = (largest + (largest - second) / 2.0) as f32;
    hard.extend([end, end.next_up(), end.next_down()]);
    let mut random = Random(1);
    hard.extend((0..4000).map(|_| f32::from_bits(random.next() as u32)));
    let negative: Vec<f32> = hard.iter().map(|x| -x).collect();
    hard.extend(negative);
    hard
}

#[test]
fn conversions_round_to_nearest_once() {
    fn narrowed<T: Narrow>() {
        let table = Table::<T>::new();
        let nearest = |x: f64| if x.is_nan() { x } else { table.nearest(x) };
        let floats = hard::<T>();
        check(
            "cvt of f32",
            &with_nothing(&floats),
            |x, _, _| x.cvt::<T>(),
            |x, _, _| nearest(x.into()),
        );
        // Just beside a middle, so that rounding to `f32` first would lose the side.
        let doubles: Vec<f64> = floats
            .iter()
            .flat_map(|x| [f64::from(*x), f64::from(*x).next_up(), f64::from(*x).next_down()])
            .collect();
        check("cvt of f64", &with_nothing(&doubles), |x, _, _| x.cvt::<T>(), |x, _, _| nearest(x));
        let mut random = Random(2);
        let ints: Vec<i32> = (0..2000)
            .map(|i| random.next() as i32 >> (i % 32))
            .chain([0, 1, -1, i32::MIN, i32::MAX, 257, 0x0101_0001, 0x0180_0000, 0x0180_0001])
            .collect();
        check(
            "cvt of i32",
            &with_nothing(&ints),
            |x, _, _| x.cvt::<T>(),
            |x, _, _| nearest(x.into()),
        );
        // At most 53 bits: the reference is exact.
        let longs: Vec<u64> = (0..2000)
            .map(|i| random.next() << 16 >> (11 + i % 50))
            .chain([0, 1, (1 << 40) + 1, (257 << 40) + 1, (257 << 40) - 1])
            .collect();
        check(
            "cvt of u64",
            &with_nothing(&longs),
            |x, _, _| x.cvt::<T>(),
            |x, _, _| nearest(x as f64),
        );
        check(
            "cvt of bool",
            &with_nothing(&[false, true]),
            |x, _, _| x.cvt::<T>(),
            |x, _, _| f64::from(u8::from(x)),
        );
    }
    narrowed::<f16>();
    narrowed::<bf16>();
    narrowed::<tf32>();
    narrowed::<f8e4m3>();
    narrowed::<f8e5m2>();
}

#[test]
fn formats_convert_to_each_other() {
    fn pair<A: Narrow, B: Narrow>() {
        let table = Table::<B>::new();
        let nearest = |x: f64| if x.is_nan() { x } else { table.nearest(x) };
        check(
            "cvt",
            &with_nothing(&all::<A>()),
            |x, _, _| x.cvt::<B>(),
            |x, _, _| nearest(x.value()),
        );
    }
    pair::<f16, bf16>();
    pair::<bf16, f16>();
    pair::<f16, f8e4m3>();
    pair::<bf16, f8e5m2>();
    pair::<f8e4m3, bf16>();
    pair::<f8e5m2, tf32>();
    pair::<f8e4m3, f8e5m2>();
}

/// Rust's own functions do the same as the device.
#[test]
fn the_host_types_round_as_the_device() {
    for x in hard::<f16>() {
        assert!(same(
            f16::from_f32(x),
            if x.is_nan() { f64::NAN } else { Table::<f16>::new_once().nearest(x.into()) }
        ));
    }
}

impl Table<f16> {
    fn new_once() -> &'static Table<f16> {
        static TABLE: std::sync::LazyLock<Table<f16>> = std::sync::LazyLock::new(Table::new);
        &TABLE
    }
}

/// Pairs and triples: all corners with each other, and random patterns.
fn triples<T: Narrow>() -> Vec<(T, T, T)> {
    let one = T::from_bits(if T::SCALAR == f16::SCALAR { 0x3c00 } else { 0x3f80 });
    let bits = |x: T| x.to_const().bits();
    let infinity = if T::SCALAR == f16::SCALAR { 0x7c00 } else { 0x7f80 };
    let mut corners =
        vec![0, 1, 2, bits(one), bits(one) + 1, bits(one) - 1, infinity, infinity - 1];
    corners.extend([infinity + 1, 0x7fff, 0x0400, 0x0080, bits(one) + 0x55]);
    let negative: Vec<u64> = corners.iter().map(|bits| bits | 0x8000).collect();
    corners.extend(negative);
    let mut triples = Vec::new();
    for a in &corners {
        for b in &corners {
            triples.extend(corners.iter().map(|c| [*a, *b, *c]));
        }
    }
    let mut random = Random(3);
    for _ in 0..20_000 {
        let [a, b] = [random.next() & 0xffff, random.next() & 0xffff];
        // Half of the addends are near the size of the product, where digits cancel.
        let (x, y) = (T::from_bits(a).value(), T::from_bits(b).value());
        let near = Table::<T>::approximate(-x * y);
        let c =
            if random.next() & 1 == 0 { random.next() & 0xffff } else { near ^ random.next() & 7 };
        triples.push([a, b, c]);
    }
    triples
        .into_iter()
        .map(|[a, b, c]| (T::from_bits(a), T::from_bits(b), T::from_bits(c)))
        .collect()
}

impl<T: Narrow> Table<T> {
    /// Some number near `x`.
    fn approximate(x: f64) -> u64 {
        let upper = u64::from((x as f32).to_bits() >> 16);
        if T::SCALAR == bf16::SCALAR {
            return upper;
        }
        f16::from_f32(x as f32).to_bits().into()
    }
}

/// The exact value of `a * b + c`, rounded to 100 bits or so: an integer and the exponent of its
/// unit, where the operands are numbers of a format.
fn exact_fma(a: f64, b: f64, c: f64) -> Option<(i128, i32)> {
    // All three as integers of a common unit, if the range allows.
    let split = |x: f64| {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
        let significand = ((bits & ((1 << 52) - 1)) | 1 << 52) as i128;
        // At most 11 digits are not zero.
        let (significand, exponent) = (significand >> 40, exponent + 40);
        (
            if x < 0.0 {
                -significand
            } else if x == 0.0 {
                0
            } else {
                significand
            },
            exponent,
        )
    };
    let ((a, ae), (b, be), (c, ce)) = (split(a), split(b), split(c));
    let (product, exponent) = (a * b, ae + be);
    if c == 0 {
        return Some((product, exponent));
    }
    if product == 0 {
        return Some((c, ce));
    }
    let unit = exponent.min(ce);
    let (p, q) = (exponent - unit, ce - unit);
    (p < 90 && q < 90).then(|| ((product << p) + (c << q), unit))
}

fn arithmetic<T: Narrow + Float>() {
    let table = Table::<T>::new();
    // `f64` has more than twice as many digits, so the operations rounded to it are on the right
    // side of every middle.
    let nearest = |x: f64| if x.is_finite() { table.nearest(x) } else { x };
    let triples = triples::<T>();
    let pairs: Vec<(T, T, bool)> = triples.iter().map(|(a, b, _)| (*a, *b, false)).collect();
    check("add", &pairs, |a, b, _| a + b, |a, b, _| nearest(a.value() + b.value()));
    check("sub", &pairs, |a, b, _| a - b, |a, b, _| nearest(a.value() - b.value()));
    check("mul", &pairs, |a, b, _| a * b, |a, b, _| nearest(a.value() * b.value()));
    check("div", &pairs, |a, b, _| a / b, |a, b, _| nearest(a.value() / b.value()));
    let less = |a: f64, b: f64| a < b || (a == b && a.is_sign_negative());
    let least = |a: f64, b: f64| match () {
        () if a.is_nan() => b,
        () if b.is_nan() || less(a, b) => a,
        () => b,
    };
    let most = |a: f64, b: f64| match () {
        () if a.is_nan() => b,
        () if b.is_nan() || less(b, a) => a,
        () => b,
    };
    let nan = |f: &dyn Fn(f64, f64) -> f64, a: f64, b: f64| {
        if a.is_nan() || b.is_nan() { f64::NAN } else { f(a, b) }
    };
    check("min", &pairs, |a, b, _| a.min(b), |a, b, _| least(a.value(), b.value()));
    check("max", &pairs, |a, b, _| a.max(b), |a, b, _| most(a.value(), b.value()));
    check("min_nan", &pairs, |a, b, _| a.min_nan(b), |a, b, _| nan(&least, a.value(), b.value()));
    check("max_nan", &pairs, |a, b, _| a.max_nan(b), |a, b, _| nan(&most, a.value(), b.value()));
    let all = with_nothing(&all::<T>());
    check("neg", &all, |a, _, _| -a, |a, _, _| -a.value());
    check("abs", &all, |a, _, _| a.abs(), |a, _, _| a.value().abs());
    check("sqrt", &all, |a, _, _| a.sqrt(), |a, _, _| nearest(a.value().sqrt()));
    check("floor", &all, |a, _, _| a.floor(), |a, _, _| a.value().floor());
    check("ceil", &all, |a, _, _| a.ceil(), |a, _, _| a.value().ceil());
    check("trunc", &all, |a, _, _| a.trunc(), |a, _, _| a.value().trunc());
    check("round", &all, |a, _, _| a.round_ties_even(), |a, _, _| a.value().round_ties_even());

    // `fma` where integers can hold the exact result.
    let fused = |a: T, b: T, c: T| {
        let [a, b, c] = [a.value(), b.value(), c.value()];
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return Some(a * b + c);
        }
        let (sum, unit) = exact_fma(a, b, c)?;
        if sum == 0 {
            return Some(a * b + c);
        }
        // To odd, with 53 bits: the table is asked with a number on the right side of every middle.
        let excess = (128 - sum.unsigned_abs().leading_zeros()).saturating_sub(53);
        let kept = sum.unsigned_abs() >> excess;
        let odd = kept | u128::from(kept << excess != sum.unsigned_abs());
        let magnitude = odd as f64 * 2f64.powi(unit + excess as i32);
        Some(nearest(if sum < 0 { -magnitude } else { magnitude }))
    };
    let known: Vec<(T, T, T)> =
        triples.into_iter().filter(|(a, b, c)| fused(*a, *b, *c).is_some()).collect();
    assert!(known.len() > 10_000, "{}", known.len());
    check("fma", &known, |a, b, c| a.fma(b, c), |a, b, c| fused(a, b, c).expect("it is known"));
}

#[test]
fn f16_arithmetic() {
    arithmetic::<f16>();
}

#[test]
fn bf16_arithmetic() {
    arithmetic::<bf16>();
}

#[test]
fn comparisons_follow_the_numbers() {
    fn compared<T: Narrow + Float>() {
        let pairs: Vec<(T, T, bool)> =
            triples::<T>().into_iter().map(|(a, b, _)| (a, b, false)).collect();
        for device in device::devices() {
            let less = computed(&device, &pairs, |a, b, _| a.lt(b));
            let not_equal = computed(&device, &pairs, |a, b, _| a.ne(b));
            let nan =
                computed(&device, &pairs, |a, b, _| a.compare(tilewright::ir::op::Compare::Nan, b));
            let geu =
                computed(&device, &pairs, |a, b, _| a.compare(tilewright::ir::op::Compare::Geu, b));
            for (i, (a, b, _)) in pairs.iter().enumerate() {
                let (x, y) = (a.value(), b.value());
                assert_eq!(less[i], x < y, "{a:?} {b:?}");
                assert_eq!(not_equal[i], x != y, "{a:?} {b:?}");
                assert_eq!(nan[i], x.is_nan() || y.is_nan(), "{a:?} {b:?}");
                let is_less = x < y;
                assert_eq!(geu[i], !is_less, "{a:?} {b:?}");
            }
        }
    }
    compared::<f16>();
    compared::<bf16>();
}

/// Packed arithmetic is that of the elements, each by itself.
#[test]
fn pairs_compute_element_by_element() {
    fn pairs<T: Narrow + Float + VectorElement<2>>()
    where
        Vector<T, 2>: tilewright::ir::builder::Fused,
    {
        let triples = triples::<T>();
        type Op<T> = for<'b> fn([Val<'b, Vector<T, 2>>; 3]) -> Val<'b, Vector<T, 2>>;
        type Single<T> = for<'b> fn([Val<'b, T>; 3]) -> Val<'b, T>;
        let operations: [(Op<T>, Single<T>); 8] = [
            (|[a, b, _]| a + b, |[a, b, _]| a + b),
            (|[a, b, _]| a - b, |[a, b, _]| a - b),
            (|[a, b, _]| a * b, |[a, b, _]| a * b),
            (|[a, b, c]| a.fma(b, c), |[a, b, c]| a.fma(b, c)),
            (|[a, b, _]| a.min(b), |[a, b, _]| a.min(b)),
            (|[a, b, _]| a.max(b), |[a, b, _]| a.max(b)),
            (|[a, _, _]| -a, |[a, _, _]| -a),
            (|[a, _, _]| a.abs(), |[a, _, _]| a.abs()),
        ];
        for device in device::devices() {
            for (packed, single) in operations {
                // The second element has the operands in another order.
                let first = computed(&device, &triples, |a, b, c| {
                    packed([Val::pack([a, b]), Val::pack([b, c]), Val::pack([c, a])]).lane(0)
                });
                let second = computed(&device, &triples, |a, b, c| {
                    packed([Val::pack([b, a]), Val::pack([c, b]), Val::pack([a, c])]).lane(1)
                });
                let alone = computed(&device, &triples, |a, b, c| single([a, b, c]));
                for (i, operands) in triples.iter().enumerate() {
                    let expected = alone[i].value();
                    assert!(same(first[i], expected), "{operands:?}");
                    assert!(same(second[i], expected), "{operands:?}");
                }
            }
        }
    }
    pairs::<f16>();
    pairs::<bf16>();
}

/// Elements go in and come out, and conversions of a vector are those of its elements.
#[test]
fn vectors_hold_and_convert_their_elements() {
    fn holds<T: Element + VectorElement<N>, const N: usize>(all: &[T])
    where
        Vector<T, N>: tilewright::ir::builder::Ty,
    {
        let operands: Vec<(T, T, bool)> = all
            .iter()
            .zip(all.iter().skip(1))
            .enumerate()
            .map(|(i, (a, b))| (*a, *b, i % 2 == 0))
            .collect();
        for device in device::devices() {
            for lane in 0..N {
                let found = computed(&device, &operands, |a, b, c| {
                    // Only the lane that is read has `b`.
                    let one = Val::<Vector<T, N>>::pack(std::array::from_fn(|i| {
                        if i == lane { b } else { a }
                    }));
                    let other = Val::<Vector<T, N>>::splat(a);
                    c.select(one, other).lane(lane as u32)
                });
                for ((a, b, c), found) in operands.iter().zip(found) {
                    let expected = if *c { b } else { a };
                    assert_eq!(found.to_const(), expected.to_const(), "{N} {lane}");
                }
            }
        }
    }
    let bytes: Vec<u8> = (0..=255).collect();
    let signed: Vec<i8> = bytes.iter().map(|x| *x as i8).collect();
    holds::<u8, 2>(&bytes);
    holds::<u8, 4>(&bytes);
    holds::<i8, 16>(&signed);
    holds::<f8e4m3, 2>(&all());
    holds::<f8e5m2, 8>(&all());
    holds::<i16, 2>(&[0, -1, i16::MIN, i16::MAX, 77]);
    holds::<u16, 8>(&[0, u16::MAX, 0x8000, 77]);
    holds::<f16, 4>(&[f16::ONE, f16::MAX, f16::NAN, f16::ZERO]);
    holds::<bf16, 2>(&[bf16::ONE, bf16::MAX, bf16::ZERO]);
    holds::<f32, 4>(&[1.0, -0.0, f32::MAX]);
    holds::<i32, 2>(&[1, -1, i32::MIN]);
    holds::<f64, 2>(&[1.0, -0.0, f64::MAX]);
    holds::<u64, 2>(&[1, u64::MAX, 1 << 63]);

    fn converts<A: Element + VectorElement<4>, B: Narrow + VectorElement<4>>(all: &[A]) {
        let operands: Vec<(A, A, bool)> =
            all.iter().zip(all.iter().rev()).map(|(a, b)| (*a, *b, false)).collect();
        for device in device::devices() {
            let alone = computed(&device, &operands, |a, _, _| a.cvt::<B>());
            for lane in 0..4u32 {
                let found = computed(&device, &operands, |a, b, _| {
                    let lanes = std::array::from_fn(|i| if i == lane as usize { a } else { b });
                    Val::<Vector<A, 4>>::pack(lanes).cvt::<B>().lane(lane)
                });
                for (i, found) in found.into_iter().enumerate() {
                    assert!(same(found, alone[i].value()), "{:?} {lane}", operands[i]);
                }
            }
        }
    }
    let floats = hard::<f8e4m3>();
    converts::<f32, f16>(&floats);
    converts::<f32, bf16>(&floats);
    converts::<f32, f8e4m3>(&floats);
    converts::<f32, f8e5m2>(&floats);
    converts::<f32, tf32>(&floats);
    converts::<f16, f8e4m3>(&all());
    converts::<f8e5m2, f16>(&all());
    converts::<f8e4m3, bf16>(&all());
    converts::<bf16, f16>(&all::<bf16>()[..4096]);
}

#[test]
fn every_pattern_is_stored_and_loaded_unchanged() {
    fn copied<T: Narrow>() {
        for device in device::devices() {
            let operands = with_nothing(&all::<T>());
            let found = computed(&device, &operands, |x, _, _| x);
            for ((x, ..), found) in operands.iter().zip(found) {
                assert_eq!(found.to_const(), x.to_const());
            }
        }
    }
    copied::<f16>();
    copied::<bf16>();
    copied::<tf32>();
    copied::<f8e4m3>();
    copied::<f8e5m2>();
}
