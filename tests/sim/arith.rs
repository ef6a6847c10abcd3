//! Every arithmetic operation on every scalar type, against its definition, on all pairs of corner
//! values.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::skip::skip;
use crate::support::{computed, device};

use tilewright::ir::builder::{Bits, Ordered, Signed, Word32};
use tilewright::ir::op::ProductHalf;
use tilewright::ir::types::{Const, Scalar};
use tilewright::ir::{Element, Float, Integer, Number, Target, Val, Vector};
use tilewright::runtime::Device;

/// The bits of `f` for each triple of operands, computed by the device.
fn computed<A: Element, B: Element, C: Element, R: Element>(
    device: &Device,
    operands: &[(A, B, C)],
    f: impl for<'b> Fn(Val<'b, A>, Val<'b, B>, Val<'b, C>) -> Val<'b, R>,
) -> Vec<u64> {
    let values = computed::computed(device, operands, f);
    values.into_iter().map(|value| value.to_const().bits()).collect()
}

/// Checks `f` against the definition `host` on all triples of values.
#[track_caller]
fn check3<A: Element, B: Element, C: Element, R: Element>(
    name: &str,
    values: (&[A], &[B], &[C]),
    f: impl for<'b> Fn(Val<'b, A>, Val<'b, B>, Val<'b, C>) -> Val<'b, R>,
    host: impl Fn(A, B, C) -> R,
) {
    let (a, b, c) = values;
    let mut operands = Vec::new();
    for a in a {
        for b in b {
            operands.extend(c.iter().map(|c| (*a, *b, *c)));
        }
    }
    for device in device::devices() {
        let found = computed(&device, &operands, &f);
        for ((a, b, c), found) in operands.iter().zip(found) {
            let expected = host(*a, *b, *c).to_const();
            let found = Const::new(R::SCALAR, found);
            assert_eq!(
                found,
                expected,
                "{name} of {a:?}, {b:?}, {c:?} as {} gives {found}, not {expected}, on {}",
                R::SCALAR,
                device.name()
            );
        }
    }
}

#[track_caller]
fn check2<A: Element, B: Element, R: Element>(
    name: &str,
    (a, b): (&[A], &[B]),
    f: impl for<'b> Fn(Val<'b, A>, Val<'b, B>) -> Val<'b, R>,
    host: impl Fn(A, B) -> R,
) {
    check3(name, (a, b, &[false]), |a, b, _| f(a, b), |a, b, _| host(a, b));
}

#[track_caller]
fn check1<A: Element, R: Element>(
    name: &str,
    a: &[A],
    f: impl for<'b> Fn(Val<'b, A>) -> Val<'b, R>,
    host: impl Fn(A) -> R,
) {
    check2(name, (a, &[false]), |a, _| f(a), |a, _| host(a));
}

/// Corner values of an integer type: its ends, small numbers, single bits, a pattern.
fn ints<T: Integer>() -> Vec<T> {
    let bits = T::SCALAR.bits();
    let mut all = vec![0, 1, 2, 3, 7, u64::MAX, u64::MAX - 1, 0x5555_5555_5555_5555];
    all.extend([1 << (bits - 1), (1 << (bits - 1)) - 1, 1 << (bits / 2), 1 << (bits - 2)]);
    all.into_iter().map(T::from_bits).collect()
}

/// The value of an integer.
fn value<T: Integer>(x: T) -> i128 {
    x.to_const().as_int().expect("it is an integer")
}

/// The integer of type `T` that is equal to `x` modulo 2 to the number of its bits.
fn wrap<T: Integer>(x: i128) -> T {
    T::from_bits(Const::new(T::SCALAR, x as u64).bits())
}

fn check_int<T: Integer + Bits>() {
    let all = ints::<T>();
    let pairs = (all.as_slice(), all.as_slice());
    let without_zero: Vec<T> = all.iter().copied().filter(|x| value(*x) != 0).collect();
    let divisions = (all.as_slice(), without_zero.as_slice());
    let amounts = [0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, u32::MAX];
    let shifts = (all.as_slice(), amounts.as_slice());

    check2("add", pairs, |a, b| a + b, |a, b| wrap(value(a) + value(b)));
    check2("sub", pairs, |a, b| a - b, |a, b| wrap(value(a) - value(b)));
    check2("mul", pairs, |a, b| a * b, |a, b| wrap(value(a).wrapping_mul(value(b))));
    check2("div", divisions, |a, b| a / b, |a, b| wrap(value(a) / value(b)));
    check2("rem", divisions, |a, b| a % b, |a, b| wrap(value(a) % value(b)));
    check2("min", pairs, |a, b| a.min(b), |a, b| if value(a) < value(b) { a } else { b });
    check2("max", pairs, |a, b| a.max(b), |a, b| if value(a) < value(b) { b } else { a });
    check2("and", pairs, |a, b| a & b, |a, b| wrap(value(a) & value(b)));
    check2("or", pairs, |a, b| a | b, |a, b| wrap(value(a) | value(b)));
    check2("xor", pairs, |a, b| a ^ b, |a, b| wrap(value(a) ^ value(b)));
    check1("not", &all, |a| !a, |a| wrap(!value(a)));
    let bits = T::SCALAR.bits();
    check2(
        "shl",
        shifts,
        |a, b| a << b,
        |a, b| if b >= bits { wrap(0) } else { wrap(value(a) << b) },
    );
    check2("shr", shifts, |a, b| a >> b, |a, b| wrap(value(a) >> b.min(bits)));
    check_compare(&all, |a, b| value(a).partial_cmp(&value(b)));
    check_cvt_from_int::<T>();
}

#[track_caller]
fn check_compare<T: Ordered>(all: &[T], order: impl Fn(T, T) -> Option<std::cmp::Ordering> + Copy) {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let pairs = (all, all);
    check2("eq", pairs, |a, b| a.eq(b), |a, b| order(a, b) == Some(Equal));
    check2("ne", pairs, |a, b| a.ne(b), |a, b| order(a, b) != Some(Equal));
    check2("lt", pairs, |a, b| a.lt(b), |a, b| order(a, b) == Some(Less));
    check2("gt", pairs, |a, b| a.gt(b), |a, b| order(a, b) == Some(Greater));
    check2("le", pairs, |a, b| a.le(b), |a, b| matches!(order(a, b), Some(Less | Equal)));
    check2("ge", pairs, |a, b| a.ge(b), |a, b| matches!(order(a, b), Some(Greater | Equal)));
    check3(
        "select",
        (&[false, true], all, all),
        |c, a, b| c.select(a, b),
        |c, a, b| if c { a } else { b },
    );
}

fn check_cvt_from_int<T: Integer>() {
    let all = ints::<T>();
    fn to_int<T: Integer, R: Integer>(all: &[T]) {
        check1("cvt", all, |a| a.cvt::<R>(), |a| wrap(value(a)));
    }
    to_int::<T, i8>(&all);
    to_int::<T, i16>(&all);
    to_int::<T, i32>(&all);
    to_int::<T, i64>(&all);
    to_int::<T, u8>(&all);
    to_int::<T, u16>(&all);
    to_int::<T, u32>(&all);
    to_int::<T, u64>(&all);
    check1("cvt", &all, |a| a.cvt::<f32>(), |a| value(a) as f32);
    check1("cvt", &all, |a| a.cvt::<f64>(), |a| value(a) as f64);
}

fn check_signed_int<T: Integer + Signed>() {
    let all = ints::<T>();
    check1("neg", &all, |a| -a, |a| wrap(-value(a)));
    check1("abs", &all, |a| a.abs(), |a| wrap(value(a).abs()));
}

/// Minima of minima, and maxima, of negated operands: what a compiler makes one instruction of.
fn check_chains<T: Integer + Signed>() {
    let all = ints::<T>();
    let all = (all.as_slice(), all.as_slice(), all.as_slice());
    let neg = |x: T| wrap::<T>(-value(x));
    let least = |a: T, b: T| if value(a) < value(b) { a } else { b };
    let most = |a: T, b: T| if value(a) < value(b) { b } else { a };
    check3(
        "min of min",
        all,
        |a, b, c| (-a).min(b.min(-c)),
        |a, b, c| least(neg(a), least(b, neg(c))),
    );
    check3(
        "max of max",
        all,
        |a, b, c| (-b).max(a).max(-c),
        |a, b, c| most(most(neg(b), a), neg(c)),
    );
    let zero = wrap::<T>(0);
    check3(
        "min of 0 - c",
        all,
        |a, b, c| a.min(b.min(a.constant(zero) - c)),
        |a, b, c| least(a, least(b, neg(c))),
    );
    let minus = wrap::<T>(-1);
    check3(
        "max of c * -1",
        all,
        |a, b, c| a.max(b.max(c * minus)),
        |a, b, c| most(a, most(b, neg(c))),
    );
}

#[test]
fn chains_of_minima_and_maxima() {
    check_chains::<i8>();
    check_chains::<i16>();
    check_chains::<i32>();
    check_chains::<i64>();
}

#[test]
fn integers() {
    check_int::<i8>();
    check_int::<i16>();
    check_int::<i32>();
    check_int::<i64>();
    check_int::<u8>();
    check_int::<u16>();
    check_int::<u32>();
    check_int::<u64>();
    check_signed_int::<i8>();
    check_signed_int::<i16>();
    check_signed_int::<i32>();
    check_signed_int::<i64>();
}

#[test]
fn truth_values() {
    let all = [false, true];
    check2("and", (&all, &all), |a, b| a & b, |a, b| a && b);
    check2("or", (&all, &all), |a, b| a | b, |a, b| a || b);
    check2("xor", (&all, &all), |a, b| a ^ b, |a, b| a != b);
    check1("not", &all, |a| !a, |a| !a);
    check_compare(&all, |a, b| u8::from(a).partial_cmp(&u8::from(b)));
    check1("cvt", &all, |a| a.cvt::<i8>(), i8::from);
    check1("cvt", &all, |a| a.cvt::<u32>(), u32::from);
    check1("cvt", &all, |a| a.cvt::<i64>(), i64::from);
    check1("cvt", &all, |a| a.cvt::<f32>(), |a| f32::from(u8::from(a)));
    check1("cvt", &all, |a| a.cvt::<f64>(), |a| f64::from(u8::from(a)));
}

fn f32s() -> Vec<f32> {
    let mut all = vec![0.0, 1.0, 1.5, 3.0, 0.1, 2.5, 255.5, 2147483648.0, 1e19, 1e-20, 1e30];
    all.extend([f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::EPSILON, 1.0 + f32::EPSILON]);
    all.extend([f32::INFINITY, f32::NAN, f32::from_bits(0x7f80_0001), 16777217.0, 0.5]);
    let negative: Vec<f32> = all.iter().map(|x| -x).collect();
    all.extend(negative);
    all
}

fn f64s() -> Vec<f64> {
    let mut all: Vec<f64> = f32s().into_iter().map(f64::from).collect();
    all.extend([f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), 1e300, -1e-300]);
    all.extend([0x7ff8_0000_0000_0aaa, 0xfff8_1234_5678_9abc].map(f64::from_bits));
    all.extend([1.0 + f64::EPSILON, 9007199254740993.0, 1.0 + 2f64.powi(-24), 3.5e38, 1e-46]);
    all
}

/// The NaN that an H200 gives. It is recognised and chosen by its bits: where floating point
/// numbers are compared, an optimised build may give the host's NaN instead.
trait Nan: Float {
    fn has_nan_bits(self) -> bool;
    fn is_negative(self) -> bool;
    /// The NaN of an operation, given its operands in the order in which they are preferred.
    fn nan_of(operands: &[Self]) -> u64;
    /// The value, or else that NaN.
    fn or_nan_of(self, operands: &[Self]) -> Self {
        let nan = Self::nan_of(operands);
        Self::from_bits(if self.has_nan_bits() { nan } else { self.to_const().bits() })
    }
}
impl Nan for f32 {
    fn has_nan_bits(self) -> bool {
        self.to_bits() & 0x7fff_ffff > 0x7f80_0000
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    fn nan_of(_: &[f32]) -> u64 {
        0x7fff_ffff
    }
}
impl Nan for f64 {
    fn has_nan_bits(self) -> bool {
        self.to_bits() << 1 > 0x7ff << 53
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    fn nan_of(operands: &[f64]) -> u64 {
        let first = operands.iter().find(|x| x.has_nan_bits()).map(|x| x.to_bits() | 1 << 51);
        first.unwrap_or(0xfff8_0000_0000_0000)
    }
}

fn check_float<T: Nan + Signed + PartialOrd>(all: &[T]) {
    let pairs = (all, all);
    let least = |a: T, b: T| match () {
        () if a.has_nan_bits() => b.or_nan_of(&[b, a]),
        () if b.has_nan_bits() || a < b => a,
        () if b < a || b.is_negative() => b,
        () => a,
    };
    let greatest = |a: T, b: T| match () {
        () if a.has_nan_bits() => b.or_nan_of(&[b, a]),
        () if b.has_nan_bits() || a > b => a,
        () if b > a || a.is_negative() => b,
        () => a,
    };
    check2("min", pairs, |a, b| a.min(b), least);
    check2("max", pairs, |a, b| a.max(b), greatest);
    let sign = 1 << (T::SCALAR.bits() - 1);
    let neg = |a: T| T::from_bits(a.to_const().bits() ^ sign).or_nan_of(&[a]);
    let abs = |a: T| T::from_bits(a.to_const().bits() & !sign).or_nan_of(&[a]);
    check1("neg", all, |a| -a, neg);
    check1("abs", all, |a| a.abs(), abs);
    check_compare(all, |a, b| a.partial_cmp(&b));
}

#[test]
fn f32_is_the_rounded_result_of_f64() {
    // 53 bits are more than twice 24 and two more, so rounding twice gives the correctly rounded
    // result.
    let all = f32s();
    let pairs = (all.as_slice(), all.as_slice());
    let wide = |f: fn(f64, f64) -> f64| {
        move |a: f32, b: f32| (f(f64::from(a), f64::from(b)) as f32).or_nan_of(&[])
    };
    check2("add", pairs, |a, b| a + b, wide(|a, b| a + b));
    check2("sub", pairs, |a, b| a - b, wide(|a, b| a - b));
    check2("mul", pairs, |a, b| a * b, wide(|a, b| a * b));
    check2("div", pairs, |a, b| a / b, wide(|a, b| a / b));
    check1("sqrt", &all, |a| a.sqrt(), |a| (f64::from(a).sqrt() as f32).or_nan_of(&[]));
    check_float(&all);
}

#[test]
fn f64_is_ieee() {
    let all = f64s();
    let pairs = (all.as_slice(), all.as_slice());
    check2("add", pairs, |a, b| a + b, |a, b| (a + b).or_nan_of(&[b, a]));
    check2("sub", pairs, |a, b| a - b, |a, b| (a - b).or_nan_of(&[b, a]));
    check2("mul", pairs, |a, b| a * b, |a, b| (a * b).or_nan_of(&[b, a]));
    check2("div", pairs, |a, b| a / b, |a, b| (a / b).or_nan_of(&[a, b]));
    check1("sqrt", &all, |a| a.sqrt(), |a| a.sqrt().or_nan_of(&[a]));
    check_float(&all);
}

#[test]
fn fma_rounds_once() {
    let all = [0.0f32, -0.0, 1.0, -1.0 - f32::EPSILON, 1.0 + f32::EPSILON, 3e38, 1e-30, f32::NAN];
    let fma = |a: f32, b: f32, c: f32| a.mul_add(b, c).or_nan_of(&[b, c, a]);
    check3("fma", (&all, &all, &all), |a, b, c| a.fma(b, c), fma);
    let all = [
        0.0f64,
        -0.0,
        1.0,
        -1.0 - f64::EPSILON,
        1.0 + f64::EPSILON,
        1e300,
        f64::INFINITY,
        f64::NAN,
        -f64::NAN,
    ];
    let fma = |a: f64, b: f64, c: f64| a.mul_add(b, c).or_nan_of(&[b, c, a]);
    check3("fma", (&all, &all, &all), |a, b, c| a.fma(b, c), fma);

    // (1 + e)^2 - (1 + 2e) is e^2, which a rounded product loses.
    let e = f32::EPSILON;
    let operands = [(1.0 + e, 1.0 + e, -(1.0 + 2.0 * e))];
    for device in device::devices() {
        let [once, twice] = [e * e, 0.0].map(|x: f32| [x.to_const().bits()]);
        assert_eq!(computed(&device, &operands, |a, b, c| a.fma(b, c)), once);
        assert_eq!(computed(&device, &operands, |a, b, c| a * b + c), twice);
    }
}

#[test]
fn floats_convert_as_in_rust() {
    let (narrow, wide) = (f32s(), f64s());
    macro_rules! check {
        ($($to:ty)*) => {$(
            check1("cvt", &narrow, |a| a.cvt::<$to>(), |a| a as $to);
            check1("cvt", &wide, |a| a.cvt::<$to>(), |a| a as $to);
        )*};
    }
    check!(i8 i16 i32 i64 u8 u16 u32 u64);
    // NaN keeps its sign and its upper digits, and becomes quiet.
    let nan = |sign: bool, digits: u64| u64::from(sign) << 63 | 0x7ff8 << 48 | digits;
    let widened = |a: f32| {
        let digits = u64::from(a.to_bits()) << 29 & ((1 << 52) - 1);
        let quiet = nan(a.is_sign_negative(), digits);
        f64::from_bits(if a.has_nan_bits() { quiet } else { f64::from(a).to_bits() })
    };
    check1("cvt", &narrow, |a| a.cvt::<f64>(), widened);
    let narrowed = |a: f64| {
        let digits = (a.to_bits() >> 29) as u32 & 0x3f_ffff;
        let nan = u32::from(a.is_sign_negative()) << 31 | 0x7fc0_0000 | digits;
        f32::from_bits(if a.has_nan_bits() { nan } else { (a as f32).to_bits() })
    };
    check1("cvt", &wide, |a| a.cvt::<f32>(), narrowed);
}

#[test]
fn stored_values_are_loaded_unchanged() {
    fn check<T: Element>(all: &[T]) {
        check1("copy", all, |a| a, |a| a);
    }
    check(&[false, true]);
    check(&ints::<i8>());
    check(&ints::<u16>());
    check(&ints::<i64>());
    check(&f32s());
    check(&f64s());
}

/// The integer of the lowest 24 bits.
fn low24(x: i128, signed: bool) -> i128 {
    let low = x.rem_euclid(1 << 24);
    if signed && low >= 1 << 23 { low - (1 << 24) } else { low }
}

fn check_24_bits<T: Word32>() {
    let all = ints::<T>();
    let mut all24 = all.clone();
    all24.extend([0x7f_ffff, 0x80_0000, 0xff_ffff, 0x1234_5678].map(wrap::<T>));
    let (pairs, signed) = ((all24.as_slice(), all24.as_slice()), T::SCALAR.is_signed());
    let product = |a: T, b: T| low24(value(a), signed) * low24(value(b), signed);
    let (lo, hi) = (ProductHalf::Lo, ProductHalf::Hi);
    check2("mul24.lo", pairs, |a, b| a.mul24(b, lo), |a, b| wrap(product(a, b)));
    check2("mul24.hi", pairs, |a, b| a.mul24(b, hi), |a, b| wrap(product(a, b) >> 16));
    let triples = (all24.as_slice(), all24.as_slice(), all.as_slice());
    check3(
        "mad24.lo",
        triples,
        |a, b, c| a.mad24(b, c, lo),
        |a, b, c| wrap(product(a, b) + value(c)),
    );
    check3(
        "mad24.hi",
        triples,
        |a, b, c| a.mad24(b, c, hi),
        |a, b, c| wrap((product(a, b) >> 16) + value(c)),
    );
}

#[test]
fn products_of_24_bits() {
    check_24_bits::<i32>();
    check_24_bits::<u32>();
}

#[test]
fn sums_with_a_limit() {
    let all = ints::<i32>();
    let triples = (all.as_slice(), all.as_slice(), all.as_slice());
    let cut = |x: i128| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    let wide = |a: i32, b: i32| i128::from(a) * i128::from(b);
    check3(
        "mad.hi.sat",
        triples,
        |a, b, c| a.mad_hi_sat(b, c),
        |a, b, c| cut((wide(a, b) >> 32) + i128::from(c)),
    );
    check3(
        "mad24.hi.sat",
        triples,
        |a, b, c| a.mad24_hi_sat(b, c),
        |a, b, c| cut(((low24(a.into(), true) * low24(b.into(), true)) >> 16) + i128::from(c)),
    );
}

/// Two half words as a word, the first one in the lower half.
fn word_of(halves: [i32; 2]) -> u32 {
    (halves[0] as u32 & 0xffff) | (halves[1] as u32) << 16
}

/// Integers cut to bytes and half words, each in its place.
#[test]
fn integers_packed_with_a_limit() {
    let all = [-70_000, -40_000, -129, -128, -1, 0, 1, 127, 128, 255, 256, 70_000];
    let pairs = (&all[..], &all[..]);
    check2(
        "cvt.pack.sat.s16",
        pairs,
        |a, b| Val::<Vector<i16, 2>>::cvt_pack([a, b]).bitcast::<u32>(),
        |a, b| word_of([a, b].map(|x| x.clamp(-0x8000, 0x7fff))),
    );
    check2(
        "cvt.pack.sat.u16",
        pairs,
        |a, b| Val::<Vector<u16, 2>>::cvt_pack([a, b]).bitcast::<u32>(),
        |a, b| word_of([a, b].map(|x| x.clamp(0, 0xffff))),
    );
    check2(
        "cvt.pack.sat.s8",
        pairs,
        |a, b| Val::<Vector<i8, 4>>::cvt_pack([a, b, b, a]).bitcast::<u32>(),
        |a, b| u32::from_le_bytes([a, b, b, a].map(|x| x.clamp(-128, 127) as u8)),
    );
    check2(
        "cvt.pack.sat.u8",
        pairs,
        |a, b| Val::<Vector<u8, 4>>::cvt_pack([b, a, b, a]).bitcast::<u32>(),
        |a, b| u32::from_le_bytes([b, a, b, a].map(|x| x.clamp(0, 255) as u8)),
    );
}

/// Sums, smaller and larger numbers of two half words at once, and with 0 as the least.
#[test]
fn half_words_in_pairs() {
    if device::gpu().is_some_and(|device| !device.target().offers(Target::SM_90)) {
        skip("the GPU has no instructions for half words, which sm_90 brings");
        return;
    }
    let words = [0x0000_0000, 0x7fff_8000, 0x8000_7fff, 0xffff_0001, 0x0001_ffff, 0x1234_fedc_u32];
    let pairs = (&words[..], &words[..]);
    type Op = fn(i32, i32) -> i32;
    let each = |f: Op, signed: bool| {
        move |a: u32, b: u32| {
            let of = |x: u32| if signed { i32::from(x as u16 as i16) } else { i32::from(x as u16) };
            word_of([f(of(a), of(b)), f(of(a >> 16), of(b >> 16))])
        }
    };
    macro_rules! check {
        ($ty:ty, $method:ident, $host:expr) => {
            let signed = <$ty as Element>::SCALAR.is_signed();
            check2(
                stringify!($method),
                pairs,
                |a, b| {
                    let [a, b] = [a, b].map(|x: Val<'_, u32>| x.bitcast::<Vector<$ty, 2>>());
                    a.$method(b).bitcast::<u32>()
                },
                each($host, signed),
            );
        };
    }
    check!(i16, add_packed, |a, b| a + b);
    check!(u16, add_packed, |a, b| a + b);
    check!(i16, min_packed, |a, b| a.min(b));
    check!(u16, min_packed, |a, b| a.min(b));
    check!(i16, max_packed, |a, b| a.max(b));
    check!(u16, max_packed, |a, b| a.max(b));
    check!(i16, min_relu, |a, b| a.min(b).max(0));
    check!(i16, max_relu, |a, b| a.max(b).max(0));
    let all = ints::<i32>();
    let pairs = (all.as_slice(), all.as_slice());
    check2("min.relu.s32", pairs, |a, b| a.min_relu(b), |a, b| a.min(b).max(0));
    check2("max.relu.s32", pairs, |a, b| a.max_relu(b), |a, b| a.max(b).max(0));
}

/// Every scalar type is covered above; a new one must be added there.
#[test]
fn no_scalar_type_is_left_out() {
    fn is_number<T: Number>() -> Scalar {
        T::SCALAR
    }
    let numbers = [
        is_number::<i8>(),
        is_number::<i16>(),
        is_number::<i32>(),
        is_number::<i64>(),
        is_number::<u8>(),
        is_number::<u16>(),
        is_number::<u32>(),
        is_number::<u64>(),
        is_number::<f32>(),
        is_number::<f64>(),
    ];
    // Those of other formats are covered in `sim_narrow.rs`.
    let left = |s: &Scalar| !numbers.contains(s) && s.format().is_none() && *s != Scalar::Bool;
    assert!(!Scalar::ALL.iter().any(left));
}
