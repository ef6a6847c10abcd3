//! Integer operations on polynomials: quotients, remainders and bits.
//!
//! Everything here is exact arithmetic on integers of any size. Whether a kernel's value wraps is
//! decided elsewhere (`walk.rs`).

use super::atom::{Atoms, Key};
use super::poly::{AtomId, Poly, Term, gcd};
use super::range::Range;

/// Returns `poly / by`, rounded down. `by` must be at least 1.
pub(super) fn div(atoms: &mut Atoms, poly: &Poly, by: &Poly) -> Option<Poly> {
    let Some(d) = by.as_constant() else {
        return symbolic(atoms, poly, by).map(|(quotient, _)| quotient);
    };
    if d < 1 {
        return None;
    }
    if d == 1 {
        return Some(poly.clone());
    }
    let (whole, rest) = split_multiples(poly, d)?;
    let range = atoms.range(&rest);
    if range.lo >= 0 && range.hi < d {
        return Some(whole);
    }
    let (rest, d, _) = reduced(&rest, d)?;
    if let Some(atom) = rest.as_atom()
        && let Key::Div(inner, by) = &atoms.get(atom).key
        && let Some(inner_by) = by.as_constant()
    {
        let (inner, by) = (inner.clone(), inner_by.checked_mul(d)?);
        return div(atoms, &inner, &Poly::constant(by))?.plus(&whole);
    }
    let range = atoms.range(&rest).floor_div(Range::point(d))?;
    let quotient = match range.as_point() {
        Some(point) => Poly::constant(point),
        None => atoms.of(Key::Div(rest, Poly::constant(d)), range, 1),
    };
    whole.plus(&quotient)
}

/// Returns `poly` modulo `by`, never negative. `by` must be at least 1.
pub(super) fn rem(atoms: &mut Atoms, poly: &Poly, by: &Poly) -> Option<Poly> {
    let Some(d) = by.as_constant() else {
        return symbolic(atoms, poly, by).map(|(_, remainder)| remainder);
    };
    if d < 1 {
        return None;
    }
    let (_, mut rest) = split_multiples(poly, d)?;
    rest.terms.retain(|term| !atoms.of_term(term).is_multiple_of(d.unsigned_abs()));
    let range = atoms.range(&rest);
    if range.lo >= 0 && range.hi < d {
        return Some(rest);
    }
    let (rest, small, scale) = reduced(&rest, d)?;
    let low = poly.constant.rem_euclid(scale);
    let inner = if small == 1 { Poly::default() } else { rem_atom(atoms, &rest, small)? };
    inner.scaled(scale)?.plus_constant(low)
}

fn rem_atom(atoms: &mut Atoms, rest: &Poly, d: i128) -> Option<Poly> {
    let range = atoms.range(rest);
    if range.lo >= 0 && range.hi < d {
        return Some(rest.clone());
    }
    if let Some(atom) = rest.as_atom()
        && let Key::Rem(inner, by) = &atoms.get(atom).key
        && by.as_constant().is_some_and(|by| by % d == 0)
    {
        let inner = inner.clone();
        return rem(atoms, &inner, &Poly::constant(d));
    }
    let hi = if range.lo >= 0 { range.hi.min(d - 1) } else { d - 1 };
    let multiple = gcd(atoms.multiple(rest), d.unsigned_abs());
    Some(atoms.of(Key::Rem(rest.clone(), Poly::constant(d)), Range::new(0, hi), multiple))
}

/// Splits a polynomial into multiples of `d`, divided by it, and the rest.
fn split_multiples(poly: &Poly, d: i128) -> Option<(Poly, Poly)> {
    let mut whole = Poly::constant(poly.constant.div_euclid(d));
    let mut rest = Poly::constant(poly.constant.rem_euclid(d));
    for term in &poly.terms {
        if term.factor % d == 0 {
            let mut term = *term;
            term.factor /= d;
            whole.terms.push(term);
        } else {
            rest.terms.push(*term);
        }
    }
    Some((whole, rest))
}

/// Divides the polynomial and the divisor by their common factor, which is the third result. The
/// polynomial's constant is rounded down.
fn reduced(rest: &Poly, d: i128) -> Option<(Poly, i128, i128)> {
    let common = i128::try_from(gcd(rest.content(), d.unsigned_abs())).ok()?.max(1);
    let mut small = rest.clone();
    small.constant = small.constant.div_euclid(common);
    for term in &mut small.terms {
        term.factor /= common;
    }
    Some((small, d / common, common))
}

/// Splits a polynomial into multiples of a product, divided by it, and the rest.
fn split_products(poly: &Poly, by: &Term) -> Option<(Poly, Poly)> {
    let (mut whole, mut rest) = (Poly::default(), Poly::constant(poly.constant));
    for term in &poly.terms {
        match term.divided(by) {
            Some(quotient) => whole = whole.plus(&quotient.into())?,
            None => rest.terms.push(*term),
        }
    }
    Some((whole, rest))
}

/// Divides by an unknown that is at least 1. Returns the quotient and the remainder.
fn symbolic(atoms: &mut Atoms, poly: &Poly, by: &Poly) -> Option<(Poly, Poly)> {
    // Terms that contain the divisor divide exactly: (row*n + col) / n = row + col/n.
    let (mut whole, mut rest) = (Poly::default(), poly.clone());
    if let Some(atom) = by.as_atom()
        && let Some((coefficient, without)) = poly.split(atom)
    {
        (whole, rest) = (coefficient, without);
    } else if let ([by], 0) = (&by.terms[..], by.constant) {
        (whole, rest) = split_products(poly, by)?;
    }
    let (range, by_range) = (atoms.range(&rest), atoms.range(by));
    let by_range = Range::new(by_range.lo.max(1), by_range.hi.max(1));
    let quotient = atoms.of(Key::Div(rest.clone(), by.clone()), range.floor_div(by_range)?, 1);
    let most = by_range.hi - 1;
    let hi = if range.lo >= 0 { most.min(range.hi) } else { most };
    let multiple = gcd(atoms.multiple(&rest), atoms.multiple(by));
    let remainder = atoms.of(Key::Rem(rest, by.clone()), Range::new(0, hi.max(0)), multiple);
    Some((whole.plus(&quotient)?, remainder))
}

/// Puts quotients and remainders of the same division together: `8*(x/8) + x%8` is `x`.
pub(super) fn tidy(atoms: &mut Atoms, poly: Poly) -> Poly {
    let mut poly = poly;
    for _ in 0..8 {
        match join(atoms, &poly) {
            Some(joined) => poly = joined,
            None => break,
        }
    }
    poly
}

fn join(atoms: &mut Atoms, poly: &Poly) -> Option<Poly> {
    if poly.terms.len() < 2 {
        return None;
    }
    for i in 0..poly.terms.len() {
        for position in 0..poly.terms[i].atoms.len() {
            let atom = poly.terms[i].atoms[position];
            let Key::Div(value, by) = &atoms.get(atom).key else { continue };
            let (value, by) = (value.clone(), by.clone());
            let multiple = by.times(&Poly::atom(atom))?;
            let Some(first) = multiple.terms.first() else { continue };
            let own = poly.terms.iter().find(|term| term.atoms == first.atoms);
            let Some(scale) = own.map(|term| term.factor).filter(|f| f % first.factor == 0) else {
                continue;
            };
            let scale = scale / first.factor;
            if !has(poly, &multiple, scale) {
                continue;
            }
            // scale * (by * quotient + remainder) = scale * value
            let remainder = rem(atoms, &value, &by)?;
            let joined = if !remainder.terms.is_empty() && has(poly, &remainder, scale) {
                let both = multiple.plus(&remainder)?;
                poly.plus_scaled(&both, -scale)?.plus_scaled(&value, scale)?
            } else if !value.terms.is_empty() && has(poly, &value, -scale) {
                let both = value.minus(&multiple)?;
                poly.plus_scaled(&both, scale)?.plus_scaled(&remainder, -scale)?
            } else {
                continue;
            };
            if joined.terms.len() < poly.terms.len() {
                return Some(joined);
            }
        }
    }
    None
}

/// Replaces a value less its remainder by the quotient's multiple: `x - x%8` is `8*(x/8)`. Returns
/// `None` if nothing changes.
pub(super) fn rounded(atoms: &mut Atoms, poly: &Poly) -> Option<Poly> {
    poly.terms.iter().find_map(|term| {
        let [atom] = term.atoms[..] else { return None };
        let Key::Rem(value, by) = &atoms.get(atom).key else { return None };
        let (value, by) = (value.clone(), by.clone());
        let scale = term.factor.checked_neg()?;
        if value.terms.is_empty() || !has(poly, &value, scale) {
            return None;
        }
        let rest = poly.plus_scaled(&value, -scale)?.plus_scaled(&Poly::atom(atom), scale)?;
        let whole = div(atoms, &value, &by)?.times(&by)?;
        rest.plus_scaled(&whole, scale)
    })
}

/// Returns whether the polynomial contains the terms of `part`, times `scale`.
fn has(poly: &Poly, part: &Poly, scale: i128) -> bool {
    part.terms.iter().all(|part| {
        let factor = part.factor.checked_mul(scale);
        poly.terms.iter().any(|term| term.atoms == part.atoms && Some(term.factor) == factor)
    })
}

/// Returns the polynomial with `value` in place of the atom, also in the operands of quotients,
/// minima and maxima. `None` if nothing changes.
pub(super) fn replaced(atoms: &mut Atoms, poly: &Poly, atom: AtomId, value: &Poly) -> Option<Poly> {
    // An atom is made of earlier ones.
    let mut all: Vec<AtomId> = poly.atoms().filter(|other| *other >= atom).collect();
    all.sort_unstable();
    all.dedup();
    let mut sum: Option<Poly> = None;
    for other in all {
        if other == atom {
            sum = Some(sum.as_ref().unwrap_or(poly).with(atom, value)?);
            continue;
        }
        let (a, b, kind) = match &atoms.get(other).key {
            Key::Div(a, b) => (a.clone(), b.clone(), 0),
            Key::Min(a, b) => (a.clone(), b.clone(), 1),
            Key::Max(a, b) => (a.clone(), b.clone(), 2),
            _ => continue,
        };
        let (x, y) = (replaced(atoms, &a, atom, value), replaced(atoms, &b, atom, value));
        if x.is_none() && y.is_none() {
            continue;
        }
        let (a, b) = (x.unwrap_or(a), y.unwrap_or(b));
        let made = match kind {
            0 => div(atoms, &a, &b)?,
            kind => min_max(atoms, &a, &b, kind == 1),
        };
        sum = Some(sum.as_ref().unwrap_or(poly).with(other, &made)?);
    }
    sum
}

/// Returns the bits that may be set in the polynomial, if it is never negative.
pub(super) fn mask(atoms: &Atoms, poly: &Poly) -> Option<u128> {
    let all = atoms.range(poly).mask()?;
    let multiple = atoms.multiple(poly);
    let low = if multiple == 0 { 0 } else { (1u128 << multiple.trailing_zeros()) - 1 };
    let mut parts = u128::try_from(poly.constant).ok();
    for term in &poly.terms {
        let one = Poly { terms: smallvec::SmallVec::from_iter([*term]), constant: 0 };
        let bits = atoms.range(&one).mask().map(|mask| {
            let multiple = atoms.multiple(&one);
            mask & !((1u128 << multiple.trailing_zeros()) - 1)
        });
        parts = match (parts, bits) {
            (Some(parts), Some(bits)) if parts & bits == 0 => Some(parts | bits),
            _ => None,
        };
    }
    let all = all & !low;
    Some(parts.map_or(all, |parts| all & parts))
}

fn power(bits: u32) -> Option<Poly> {
    Some(Poly::constant(1i128.checked_shl(bits).filter(|_| bits < 100)?))
}

/// Returns `poly & mask` for a constant mask of a type of `bits` bits.
pub(super) fn and_constant(atoms: &mut Atoms, poly: &Poly, mask: i128, bits: u32) -> Option<Poly> {
    let all = (1u128 << bits) - 1;
    let ones = (mask as u128) & all;
    let inverted = !ones & all;
    // Clears the lowest bits, and nothing else.
    if ones != 0 && inverted != 0 && (inverted + 1).is_power_of_two() {
        let low = rem(atoms, poly, &Poly::constant(i128::try_from(inverted).ok()? + 1))?;
        return Some(tidy(atoms, poly.minus(&low)?));
    }
    if mask < 0 {
        return None;
    }
    // One run of ones after the other.
    let (mut sum, mut left) = (Poly::default(), ones);
    while left != 0 {
        let from = left.trailing_zeros();
        let to = from + (left >> from).trailing_ones();
        let part = rem(atoms, poly, &power(to)?)?;
        let part = div(atoms, &part, &power(from)?)?;
        sum = sum.plus_scaled(&part, 1i128 << from)?;
        left = if to >= 128 { 0 } else { left >> to << to };
    }
    Some(tidy(atoms, sum))
}

/// Returns `a & b` of two polynomials that are never negative.
pub(super) fn and(atoms: &mut Atoms, a: &Poly, b: &Poly) -> Option<Poly> {
    let (ones_a, ones_b) = (mask(atoms, a)?, mask(atoms, b)?);
    if ones_a & ones_b == 0 {
        return Some(Poly::default());
    }
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    let hi = atoms.range(a).hi.min(atoms.range(b).hi);
    let hi = hi.min(i128::try_from(ones_a & ones_b).ok()?);
    let multiple = 1u128 << (ones_a & ones_b).trailing_zeros();
    Some(atoms.of(Key::And(a.clone(), b.clone()), Range::new(0, hi), multiple))
}

/// Returns `a | b` of two polynomials that are never negative.
pub(super) fn or(atoms: &mut Atoms, a: &Poly, b: &Poly) -> Option<Poly> {
    let (ones_a, ones_b) = (mask(atoms, a)?, mask(atoms, b)?);
    if ones_a & ones_b == 0 {
        let sum = a.plus(b)?;
        return Some(tidy(atoms, sum));
    }
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    let range = Range::new(0, i128::try_from(ones_a | ones_b).ok()?);
    let multiple = 1u128 << (ones_a | ones_b).trailing_zeros();
    Some(atoms.of(Key::Or(a.clone(), b.clone()), range, multiple))
}

/// Returns `a ^ b` of two polynomials, of which the one with fewer bits is never negative. The other
/// one may be: its upper bits stay as they are.
///
/// Swizzles change few bits of a wide offset. So the wide operand is split into the bits above
/// those of the narrow one, the same bits, and those below. Only the middle bits are unknown: for
/// example `x ^ (8 * y)` with `y < 8` is `64*(x/64) + 8*m + x%8` with `m < 8`.
pub(super) fn xor(atoms: &mut Atoms, a: &Poly, b: &Poly) -> Option<Poly> {
    let (ones_a, ones_b) = match (mask(atoms, a), mask(atoms, b)) {
        (None, None) => return None,
        (a, b) => (a.unwrap_or(u128::MAX), b.unwrap_or(u128::MAX)),
    };
    if ones_a & ones_b == 0 {
        let sum = a.plus(b)?;
        return Some(tidy(atoms, sum));
    }
    let span = |ones: u128| 128 - ones.leading_zeros() - ones.trailing_zeros();
    let ((wide, _), (narrow, ones)) = if span(ones_b) <= span(ones_a) {
        ((a, ones_a), (b, ones_b))
    } else {
        ((b, ones_b), (a, ones_a))
    };
    let (from, to) = (ones.trailing_zeros(), 128 - ones.leading_zeros());
    let high = div(atoms, wide, &power(to)?)?;
    let below = rem(atoms, wide, &power(to)?)?;
    let middle = div(atoms, &below, &power(from)?)?;
    let low = rem(atoms, wide, &power(from)?)?;
    let narrow = div(atoms, narrow, &power(from)?)?;
    let changed = match (middle.as_constant(), narrow.as_constant()) {
        (Some(a), Some(b)) => Poly::constant(a ^ b),
        _ if middle == narrow => Poly::default(),
        _ => {
            let bits = mask(atoms, &middle)? | mask(atoms, &narrow)?;
            let (a, b) = if middle <= narrow { (middle, narrow) } else { (narrow, middle) };
            let multiple = 1u128 << bits.trailing_zeros().min(100);
            atoms.of(Key::Xor(a, b), Range::new(0, i128::try_from(bits).ok()?), multiple)
        }
    };
    let sum = high.scaled(1 << to)?.plus_scaled(&changed, 1 << from)?.plus(&low)?;
    Some(tidy(atoms, sum))
}

/// Returns the smaller of two polynomials, or the larger.
pub(super) fn min_max(atoms: &mut Atoms, a: &Poly, b: &Poly, is_min: bool) -> Poly {
    let (x, y) = (atoms.range(a), atoms.range(b));
    if x.hi <= y.lo {
        return if is_min { a.clone() } else { b.clone() };
    }
    if y.hi <= x.lo {
        return if is_min { b.clone() } else { a.clone() };
    }
    let multiple = gcd(atoms.multiple(a), atoms.multiple(b));
    let (a, b) = if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
    if is_min {
        let range = Range { lo: x.lo.min(y.lo), hi: x.hi.min(y.hi) };
        atoms.of(Key::Min(a, b), range, multiple)
    } else {
        let range = Range { lo: x.lo.max(y.lo), hi: x.hi.max(y.hi) };
        atoms.of(Key::Max(a, b), range, multiple)
    }
}
