//! Arithmetic when at least one operand has symbols. Every rule is right for all values that the
//! assumptions about the symbols allow.

use super::expr::{Expr, Facts, Fun, MAX_NODES};
use super::{Int, Repr, Result, gcd_i64};
use crate::layout::error::LayoutError;

#[cold]
pub(super) fn static_error(operation: &'static str, divisor: i64) -> LayoutError {
    match operation {
        "division" | "remainder" | "ceil_div" if divisor == 0 => {
            LayoutError::DivisionByZero { operation }
        }
        _ => LayoutError::overflow(operation),
    }
}

fn expr(x: &Int) -> Result<std::borrow::Cow<'_, Expr>> {
    match &x.0 {
        Repr::Static(v) => Ok(std::borrow::Cow::Owned(Expr::constant(*v))),
        Repr::Symbolic(e) if e.is_overflowed() => Err(LayoutError::overflow("an extent or stride")),
        Repr::Symbolic(e) => small(e).map(|()| std::borrow::Cow::Borrowed(&**e)),
    }
}

fn small(expr: &Expr) -> Result<()> {
    if expr.nodes > MAX_NODES {
        return Err(LayoutError::ExpressionTooLarge { limit: MAX_NODES });
    }
    Ok(())
}

/// Makes an `Int`, or returns an error if the expression is too large.
fn made(expr: Expr) -> Result<Int> {
    small(&expr)?;
    Ok(Int::from_expr(expr))
}

pub(super) fn add(a: &Int, b: &Int) -> Result<Int> {
    combine(a, b, 1, "addition")
}

pub(super) fn sub(a: &Int, b: &Int) -> Result<Int> {
    combine(a, b, -1, "subtraction")
}

fn combine(a: &Int, b: &Int, sign: i64, operation: &'static str) -> Result<Int> {
    let sum = expr(a)?.combine(1, &*expr(b)?, sign);
    made(sum.ok_or_else(|| LayoutError::overflow(operation))?)
}

pub(super) fn mul(a: &Int, b: &Int) -> Result<Int> {
    made(expr(a)?.product(&*expr(b)?)?)
}

/// Returns `a / b` if `b` divides `a` whatever the symbols are. `b` must provably not be zero.
pub(super) fn exact_div(a: &Int, b: &Int) -> Option<Int> {
    let (min, max) = b.bounds();
    if min <= 0 && max >= 0 {
        return None;
    }
    if a.same(b) {
        return Some(Int::ONE);
    }
    let (x, y) = (expr(a).ok()?, expr(b).ok()?);
    if let [by] = &*y.terms {
        let (q, r) = x.split(by);
        return r.terms.is_empty().then(|| Int::from_expr(q));
    }
    // A sum divides only its own multiples, so try the quotient of the first terms.
    let (first, by) = (x.terms.first()?, y.terms.first()?);
    let q = first.divided_by(by)?;
    let q = Int::from_expr(Expr::single(q));
    mul(&q, b).ok()?.same(a).then_some(q)
}

/// Returns true if the value is provably at least 0, also after a common factor is taken out:
/// `n*m - n` is `n*(m - 1)`.
pub(super) fn never_negative(d: &Int) -> bool {
    if d.bounds().0 >= 0 {
        return true;
    }
    let [first, rest @ ..] = d.terms() else { return false };
    if rest.is_empty() {
        return false;
    }
    for factor in &first.factors {
        let by = super::Term { factors: vec![factor.clone()], coefficient: 1 };
        if factor.facts().min >= 0 && rest.iter().all(|t| t.factors.contains(factor)) {
            let Ok(x) = expr(d) else { return false };
            let (q, _) = x.split(&by);
            return never_negative(&Int::from_expr(q));
        }
    }
    false
}

fn positive(b: &Int) -> bool {
    b.bounds().0 > 0
}

/// Returns true if `b` is provably larger than `a`.
fn is_above(b: &Int, a: &Int) -> bool {
    a.add(&Int::ONE).is_ok_and(|next| b.at_least(&next))
}

/// Refuses a zero divisor, even one that is zero only under a condition, because no values of the
/// symbols could make the quotient defined.
fn refuse_zero(b: &Int, operation: &'static str) -> Result<()> {
    if b.bounds() == (0, 0) {
        return Err(LayoutError::DivisionByZero { operation });
    }
    Ok(())
}

/// Divides a common factor out of two values. Returns `(a', b', g)` with `a = g a'` and `b = g b'`.
fn cancel(a: &Int, b: &Int) -> (Int, Int, Int) {
    let g = gcd_i64(a.divisibility(), b.divisibility());
    if g > 1 {
        let by = Int::new(g);
        if let (Ok(x), Ok(y)) = (a.exact_div(&by), b.exact_div(&by)) {
            return (x, y, by);
        }
    }
    (a.clone(), b.clone(), Int::ONE)
}

/// Returns `(q, r)` with `a == q * b + r`. `q` takes all terms that `b` divides.
fn divide_out(a: &Int, b: &Int) -> Result<(Int, Int)> {
    if a.same(b) {
        return Ok((Int::ONE, Int::ZERO));
    }
    let (x, y) = (expr(a)?, expr(b)?);
    if let [by] = &*y.terms {
        let (q, r) = x.split(by);
        return Ok((Int::from_expr(q), Int::from_expr(r)));
    }
    Ok(match exact_div(a, b) {
        Some(q) => (q, Int::ZERO),
        None => (Int::ZERO, a.clone()),
    })
}

fn call(fun: Fun, a: &Int, b: &Int, (min, max): (i64, i64)) -> Result<Int> {
    made(Expr::call(fun, a, b, Facts { divisor: 1, min, max }))
}

/// Returns `value` on the condition that `violation` is not above 0.
pub(super) fn checked(value: &Int, violation: &Int) -> Int {
    let (min, max) = value.bounds();
    let divisor = value.divisibility().max(1);
    Int::from_expr(Expr::call(Fun::Checked, value, violation, Facts { divisor, min, max }))
}

/// Returns the bounds of a quotient by a positive divisor, rounded by `round`.
fn quotient_bounds(a: &Int, b: &Int, round: fn(i64, i64) -> Option<i64>) -> (i64, i64) {
    let ((alo, ahi), (blo, bhi)) = (a.bounds(), b.bounds());
    let lo = round(alo, if alo >= 0 { bhi } else { blo }).unwrap_or(i64::MIN);
    let hi = round(ahi, if ahi >= 0 { blo } else { bhi }).unwrap_or(i64::MAX);
    (lo, hi)
}

pub(super) fn floor_div(a: &Int, b: &Int) -> Result<Int> {
    quotient(a, b, Fun::FloorDiv, "division")
}

pub(super) fn ceil_div(a: &Int, b: &Int) -> Result<Int> {
    quotient(a, b, Fun::CeilDiv, "ceil_div")
}

fn quotient(a: &Int, b: &Int, fun: Fun, operation: &'static str) -> Result<Int> {
    refuse_zero(b, operation)?;
    expr(a)?;
    expr(b)?;
    if !positive(b) {
        if b.bounds().1 < 0 {
            return quotient(&a.negate()?, &b.negate()?, fun, operation);
        }
        return call(fun, a, b, (i64::MIN, i64::MAX));
    }
    let (a, b, _) = cancel(a, b);
    if b.is(1) {
        return Ok(a);
    }
    let (q, r) = divide_out(&a, &b)?;
    if r.is(0) {
        return Ok(q);
    }
    let (r, b, _) = cancel(&r, &b);
    if b.is(1) {
        return q.add(&r);
    }
    if r.is_static() && b.is_static() {
        return q.add(&if fun == Fun::CeilDiv { r.ceil_div(&b) } else { r.floor_div(&b) }?);
    }
    let lo = r.bounds().0;
    let (below, whole) = match fun {
        Fun::CeilDiv => (lo > 0 && b.at_least(&r), Int::ONE),
        _ => (lo >= 0 && is_above(&b, &r), Int::ZERO),
    };
    if below {
        return q.add(&whole);
    }
    // ceil((b' * m - c) / b) and similar nests of constants: floor(floor(x / c) / d).
    if let Some(inner) = nested_quotient(&r, fun)
        && let (Some(c), Some(d)) = (inner.1.as_static(), b.as_static())
        && let Some(cd) = c.checked_mul(d)
        && c > 0
    {
        return q.add(&quotient(&inner.0, &Int::new(cd), fun, operation)?);
    }
    let round = if fun == Fun::CeilDiv { super::ceil_div_i64 } else { super::floor_div_i64 };
    let bounds = quotient_bounds(&r, &b, round);
    q.add(&call(fun, &r, &b, bounds)?)
}

/// Returns the operands of `r`, if `r` is itself a single quotient of the same kind.
fn nested_quotient(r: &Int, fun: Fun) -> Option<(Int, Int)> {
    match r.terms() {
        [super::Term { factors, coefficient: 1 }] => match &**factors {
            [super::Factor::Call(c)] if c.fun == fun => Some((c.a.clone(), c.b.clone())),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn modulo(a: &Int, b: &Int) -> Result<Int> {
    refuse_zero(b, "remainder")?;
    expr(a)?;
    expr(b)?;
    if b.is(1) {
        return Ok(Int::ZERO);
    }
    if !positive(b) {
        return call(Fun::Mod, a, b, (i64::MIN, i64::MAX));
    }
    let (_, r) = divide_out(a, b)?;
    if r.is(0) {
        return Ok(r);
    }
    let (r, b, g) = cancel(&r, b);
    if b.is(1) {
        return Ok(Int::ZERO);
    }
    if r.is_static() && b.is_static() {
        return r.modulo(&b)?.mul(&g);
    }
    if r.bounds().0 >= 0 && is_above(&b, &r) {
        return r.mul(&g);
    }
    let max = b.bounds().1.saturating_sub(1);
    call(Fun::Mod, &r, &b, (0, max))?.mul(&g)
}

pub(super) fn min(a: &Int, b: &Int) -> Result<Int> {
    extremum(a, b, Fun::Min)
}

pub(super) fn max(a: &Int, b: &Int) -> Result<Int> {
    extremum(a, b, Fun::Max)
}

fn extremum(a: &Int, b: &Int, fun: Fun) -> Result<Int> {
    expr(a)?;
    expr(b)?;
    if a.at_least(b) {
        return Ok(if fun == Fun::Min { b.clone() } else { a.clone() });
    }
    if b.at_least(a) {
        return Ok(if fun == Fun::Min { a.clone() } else { b.clone() });
    }
    let (x, y, g) = cancel(a, b);
    let ((alo, ahi), (blo, bhi)) = (x.bounds(), y.bounds());
    let bounds = match fun {
        Fun::Min => (alo.min(blo), ahi.min(bhi)),
        _ => (alo.max(blo), ahi.max(bhi)),
    };
    let (x, y) = if x.0 <= y.0 { (x, y) } else { (y, x) };
    call(fun, &x, &y, bounds)?.mul(&g)
}

pub(super) fn gcd(a: &Int, b: &Int) -> Result<Int> {
    expr(a)?;
    expr(b)?;
    for (x, y) in [(a, b), (b, a)] {
        if x.is(0) {
            return y.abs();
        }
        if y.multiple_of(x) {
            return x.abs();
        }
    }
    let (x, y, g) = cancel(a, b);
    if x.is(1) || y.is(1) {
        return Ok(g);
    }
    let top = |v: &Int| {
        let (lo, hi) = v.bounds();
        if lo > 0 { hi } else { i64::MAX }
    };
    let (x, y) = if x.0 <= y.0 { (x, y) } else { (y, x) };
    let max = top(&x).min(top(&y));
    call(Fun::Gcd, &x, &y, (0, max))?.mul(&g)
}

/// Returns the bounds of a bit operation on two values.
fn bit_bounds(a: &Int, b: &Int) -> (i64, i64) {
    let ((alo, ahi), (blo, bhi)) = (a.bounds(), b.bounds());
    if alo < 0 || blo < 0 {
        return (i64::MIN, i64::MAX);
    }
    let top = (ahi | bhi).checked_ilog2().map_or(0, |bit| i64::MAX >> (62 - bit));
    (0, top)
}

/// Returns how many low bits are known to be zero.
fn zero_bits(x: &Int) -> u32 {
    x.divisibility().trailing_zeros().min(62)
}

pub(super) fn xor(a: &Int, b: &Int) -> Result<Int> {
    expr(a)?;
    expr(b)?;
    if a.is(0) {
        return Ok(b.clone());
    }
    if b.is(0) {
        return Ok(a.clone());
    }
    if a.same(b) {
        return Ok(Int::ZERO);
    }
    // A bit of the result is zero if it is zero in both operands.
    scaled_bits(Fun::Xor, a, b, bit_bounds(a, b), zero_bits(a).min(zero_bits(b)))
}

/// Returns true if `mask` contains every bit that `x` can have.
fn covers(mask: &Int, x: &Int) -> bool {
    mask.as_static().is_some_and(|mask| {
        let (min, max) = x.bounds();
        mask == -1 || (min >= 0 && max <= mask && mask & mask.wrapping_add(1) == 0)
    })
}

pub(super) fn and(a: &Int, b: &Int) -> Result<Int> {
    expr(a)?;
    expr(b)?;
    if a.is(0) || b.is(0) {
        return Ok(Int::ZERO);
    }
    if a.same(b) || covers(b, a) {
        return Ok(a.clone());
    }
    if covers(a, b) {
        return Ok(b.clone());
    }
    // The result is at most each operand that cannot be negative.
    let highest = [a, b].into_iter().map(Int::bounds).filter(|(min, _)| *min >= 0).map(|b| b.1);
    let bounds = highest.min().map_or((i64::MIN, i64::MAX), |highest| (0, highest));
    // A bit of the result is zero if it is zero in one operand.
    scaled_bits(Fun::And, a, b, bounds, zero_bits(a).max(zero_bits(b)))
}

/// Takes the `zeros` low bits out of a bit operation, because they are zero in its result.
///
/// `fun(a, b) == fun(a >> zeros, b >> zeros) << zeros`, since each bit of the result depends on one
/// bit of each operand. Rounding down also shifts negative values correctly. A negative value can
/// lead to the factor 2^63, which is not a valid coefficient; then the operands stay as they are.
fn scaled_bits(fun: Fun, a: &Int, b: &Int, bounds: (i64, i64), zeros: u32) -> Result<Int> {
    if zeros > 0 {
        let by = Int::new(1 << zeros);
        let (x, y) = (a.floor_div(&by)?, b.floor_div(&by)?);
        let high = if fun == Fun::Xor { xor(&x, &y) } else { and(&x, &y) };
        if let Ok(scaled) = high?.mul(&by) {
            return Ok(scaled);
        }
    }
    let (x, y) = if a.0 <= b.0 { (a, b) } else { (b, a) };
    call(fun, x, y, bounds)
}
