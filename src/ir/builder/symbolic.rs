//! Symbolic integers in a kernel: computes expressions over the parameters' symbols as device
//! values. Layouts and tensors with symbolic shapes use it for their offsets.
//!
//! Each expression, and each part of one, is computed once per body and reused in the bodies inside
//! it. Every launch, which knows the symbols' values, checks that no step overflows its type.

use super::body::Body;
use super::context::Context;
use super::error::BuildErrorKind;
use super::typed::{Bits, MemIndex, Signed, Val};
use crate::layout::{Call, Factor, Fun, Int, LayoutError, Symbol, Term};

/// # Symbolic integers
///
/// Computes with the symbols of the kernel's layout and tuple parameters.
impl<'b> Body<'b, '_> {
    /// Returns the value of an expression over the symbols in the kernel's layout and tuple
    /// parameters, in the index type `I`: for example a layout's size as a loop bound. It is
    /// computed once for this body and the bodies inside it.
    ///
    /// A launch refuses symbol values with which a step would overflow: 32 bits for `i32` and
    /// `u32`, otherwise 64. A symbol that is in no parameter, and a greatest common divisor of
    /// symbols, are errors of the build.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
    /// use tilewright::layout::{Int, IntTuple};
    ///
    /// let n = Int::symbol("n").divisible_by(16);
    /// let tiles = n.ceil_div(&Int::from(16))?; // n/16: a shift
    /// let options = KernelOptions::default().template(IntTuple::leaf(n));
    /// type Params = (IntTuple, GlobalMut<i32>);
    /// let kernel = Kernel::<Params>::build_with(options, "tiles", Target::SM_80, |k, (_, x)| {
    ///     let count = k.int::<i32>(&tiles);
    ///     x.store(0, count);
    /// })?;
    /// assert!(kernel.to_string().contains("shr %p0_n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn int<I: MemIndex>(&self, value: &Int) -> Val<'b, I> {
        int(self.context(), value)
    }
}

/// Returns the value of an expression.
#[track_caller]
pub(super) fn int<'b, I: MemIndex>(cx: &'b Context, value: &Int) -> Val<'b, I> {
    if let Some(number) = value.as_static() {
        return cx.constant(I::from_i64(number).unwrap_or_else(|| {
            cx.error(BuildErrorKind::OffsetTooLarge { offset: number, index: I::scalar() });
            I::ZERO
        }));
    }
    if I::scalar().bits() == 32 {
        expression::<i32>(cx, value).cvt()
    } else {
        expression::<i64>(cx, value).cvt()
    }
}

/// The signed integers that expressions are computed in.
trait Wide: MemIndex + Signed + Bits {}
impl Wide for i32 {}
impl Wide for i64 {}

#[track_caller]
fn number<'b, S: Wide>(cx: &'b Context, number: i64) -> Val<'b, S> {
    int::<S>(cx, &Int::new(number))
}

#[track_caller]
fn expression<'b, S: Wide>(cx: &'b Context, value: &Int) -> Val<'b, S> {
    if let Some(static_value) = value.as_static() {
        return number(cx, static_value);
    }
    if let Some(known) = cx.with(|state| state.computed(value, S::scalar())) {
        return Val::new(cx, known);
    }
    let (mut sum, mut negative): (Option<Val<'b, S>>, Vec<Val<'b, S>>) = (None, Vec::new());
    for term in value.terms() {
        let (product, is_negative) = product(cx, term);
        if is_negative {
            negative.push(product);
        } else {
            sum = Some(sum.map_or(product, |sum| sum + product));
        }
    }
    let mut sum = match (sum, negative.is_empty()) {
        (Some(sum), _) => sum,
        (None, true) => number(cx, 0),
        (None, false) => -negative.remove(0),
    };
    for term in negative {
        sum -= term;
    }
    cx.with(|state| state.note_computed(value, S::scalar(), sum.id()));
    sum
}

/// Returns a term's magnitude, and whether it is subtracted.
#[track_caller]
fn product<'b, S: Wide>(cx: &'b Context, term: &Term) -> (Val<'b, S>, bool) {
    let mut coefficient = term.coefficient;
    let mut product: Option<Val<'b, S>> = None;
    for factor in &term.factors {
        let factor = match factor {
            // The factor is the symbol divided by its known divisor.
            Factor::Symbol(symbol) => {
                let (value, divisor) = (symbol_value(cx, symbol), symbol.divisor());
                if coefficient % divisor == 0 {
                    coefficient /= divisor;
                    value
                } else {
                    exact_quotient(cx, value, divisor)
                }
            }
            Factor::Call(call) => self::call(cx, call),
        };
        product = Some(product.map_or(factor, |product| product * factor));
    }
    let negative = coefficient < 0;
    let Some(magnitude) = coefficient.checked_abs() else {
        cx.error(BuildErrorKind::Layout(LayoutError::Overflow { operation: "k.int" }));
        return (number(cx, 0), false);
    };
    let product = match (product, magnitude) {
        (None, magnitude) => number(cx, magnitude),
        (Some(product), 1) => product,
        (Some(product), magnitude) => product * number(cx, magnitude),
    };
    (product, negative)
}

/// Returns the parameter that holds a symbol's value.
#[track_caller]
fn symbol_value<'b, S: Wide>(cx: &'b Context, symbol: &Symbol) -> Val<'b, S> {
    match cx.with(|state| state.symbol(symbol)) {
        Some((value, scalar)) if scalar.bits() == 32 => Val::<i32>::new(cx, value).cvt(),
        Some((value, _)) => Val::<i64>::new(cx, value).cvt(),
        None => {
            cx.error(BuildErrorKind::UnknownSymbol { symbol: symbol.name().to_owned() });
            number(cx, 1)
        }
    }
}

/// Returns `value / divisor` for a multiple of the divisor.
#[track_caller]
fn exact_quotient<'b, S: Wide>(cx: &'b Context, value: Val<'b, S>, divisor: i64) -> Val<'b, S> {
    if divisor.count_ones() == 1 {
        value >> divisor.trailing_zeros()
    } else {
        value / number(cx, divisor)
    }
}

#[track_caller]
fn call<'b, S: Wide>(cx: &'b Context, call: &Call) -> Val<'b, S> {
    match call.fun {
        // The launch checks what they claim.
        Fun::Assume | Fun::Checked => return expression(cx, &call.a),
        Fun::Gcd | Fun::Overflow => return unsupported(cx, call),
        _ => {}
    }
    let (lhs, rhs) = (expression::<S>(cx, &call.a), expression::<S>(cx, &call.b));
    // Division in a kernel rounds toward zero. For operands that are not negative, that is down.
    let rounds_down = call.a.bounds().0 >= 0 && call.b.bounds().0 > 0;
    let power = call.b.as_static().filter(|b| *b > 0 && b.count_ones() == 1);
    match call.fun {
        Fun::FloorDiv => match power {
            Some(power) => lhs >> power.trailing_zeros(),
            None if rounds_down => lhs / rhs,
            None => {
                let below = is_inexact(lhs, rhs) & differ_in_sign(cx, lhs % rhs, rhs);
                lhs / rhs - below.select(number(cx, 1), number::<S>(cx, 0))
            }
        },
        Fun::Mod => match power {
            Some(power) => lhs & number(cx, power - 1),
            None if rounds_down => lhs % rhs,
            None => {
                let rest = lhs % rhs;
                let below = is_inexact(lhs, rhs) & differ_in_sign(cx, rest, rhs);
                rest + below.select(rhs, number(cx, 0))
            }
        },
        Fun::CeilDiv => {
            let inexact = is_inexact(lhs, rhs);
            let above =
                if rounds_down { inexact } else { inexact & !differ_in_sign(cx, lhs % rhs, rhs) };
            lhs / rhs + above.select(number(cx, 1), number::<S>(cx, 0))
        }
        Fun::Min => lhs.min(rhs),
        Fun::Max => lhs.max(rhs),
        Fun::Xor => lhs ^ rhs,
        Fun::And => lhs & rhs,
        _ => unsupported(cx, call),
    }
}

#[track_caller]
fn unsupported<'b, S: Wide>(cx: &'b Context, call: &Call) -> Val<'b, S> {
    let (a, b) = (call.a.to_string(), call.b.to_string());
    cx.error(BuildErrorKind::UnsupportedSymbolic { operation: format!("{:?}", call.fun), a, b });
    number(cx, 1)
}

#[track_caller]
fn is_inexact<'b, S: Wide>(lhs: Val<'b, S>, rhs: Val<'b, S>) -> Val<'b, bool> {
    (lhs % rhs).ne(S::ZERO)
}

/// Returns whether exactly one of two nonzero values is negative.
#[track_caller]
fn differ_in_sign<'b, S: Wide>(cx: &'b Context, a: Val<'b, S>, b: Val<'b, S>) -> Val<'b, bool> {
    (a ^ b).lt(number::<S>(cx, 0))
}
