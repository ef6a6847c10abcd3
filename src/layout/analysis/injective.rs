//! Decides whether a layout is one-to-one, from its strides if possible.
//! [`Analysis::is_injective`](super::Analysis::is_injective) and
//! [`Analysis::collision`](super::Analysis::collision) ask here, for example before threads write
//! through a layout.
//!
//! Two coordinates have the same index exactly if their difference `c`, with `|c_k| < extent_k`,
//! solves `sum c_k * stride_k == 0`. For example, `(2,0)` and `(0,3)` share the index 6 of
//! `(4,8):(3,2)`, because `2 * 3 - 3 * 2 == 0`.
//!
//! We first drop each mode with `c_k == 0` in every solution. There are two reasons for a mode to
//! be like this. Its stride may be larger than all others together can reach, such as the mode
//! `2:4` in `(4,2):(1,4)`. Or all other strides have a common divisor, and no `c_k` but 0 makes
//! `c_k * stride_k` a multiple of it, such as the mode `2:1` in `(2,8):(1,2)`. If one or two modes
//! are left, we solve the equation. If more are left, we try their coordinates.

use smallvec::SmallVec;

use super::{DOMAIN_LIMIT, Inner, Offsets, Overlap, Result};
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;

/// A mode with more than one coordinate: its leaf, extent and stride.
#[derive(Clone, Copy)]
struct Mode {
    leaf: usize,
    extent: i128,
    stride: i128,
}

/// The difference of two coordinates with the same index: each leaf whose entry is not 0, with that
/// entry.
type Relation = SmallVec<[(usize, i64); 4]>;

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

/// Drops modes as long as one has `c_k == 0` in every solution.
#[inline]
fn set_aside(modes: &mut SmallVec<[Mode; 8]>) {
    while let Some(free) = (0..modes.len()).find(|&i| stands_alone(modes, i)) {
        modes.remove(free);
    }
}

#[inline]
fn stands_alone(modes: &[Mode], i: usize) -> bool {
    let Some(mode) = modes.get(i) else { return false };
    let others = || modes.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, m)| m);
    let divisor = others().fold(0, |g, m| gcd(g, m.stride));
    if divisor == 0 || divisor / gcd(divisor, mode.stride) >= mode.extent {
        return true;
    }
    let reach = others()
        .try_fold(0i128, |sum, m| sum.checked_add((m.extent - 1).checked_mul(m.stride.abs())?));
    reach.is_some_and(|reach| mode.stride.abs() > reach)
}

/// Returns the smallest solution that uses only these two modes: `c_i * d_i == -c_j * d_j`.
#[inline]
fn pair(a: Mode, b: Mode) -> Option<Relation> {
    let g = gcd(a.stride, b.stride);
    let (ca, cb) = (b.stride / g, -(a.stride / g));
    if ca.abs() >= a.extent || cb.abs() >= b.extent {
        return None;
    }
    Some(
        [(a.leaf, i64::try_from(ca).ok()?), (b.leaf, i64::try_from(cb).ok()?)]
            .into_iter()
            .collect(),
    )
}

/// Returns a relation between these modes, whose extents are above 1, if there is one.
#[inline]
fn relation(mut modes: SmallVec<[Mode; 8]>) -> Result<Option<Relation>> {
    if let Some(zero) = modes.iter().find(|m| m.stride == 0) {
        return Ok(Some([(zero.leaf, 1)].into_iter().collect()));
    }
    set_aside(&mut modes);
    for (i, &a) in modes.iter().enumerate() {
        for &b in modes.iter().skip(i + 1) {
            if let Some(found) = pair(a, b) {
                return Ok(Some(found));
            }
        }
    }
    // If two modes are left without a relation, they were dropped. So none or at least three are
    // left.
    if modes.is_empty() { Ok(None) } else { walked_relation(&modes) }
}

/// Tries all coordinates of these modes. If there are too many, it tries only a box in one corner,
/// where a collision is still a valid relation.
#[inline]
fn walked_relation(modes: &[Mode]) -> Result<Option<Relation>> {
    let limit = i128::from(DOMAIN_LIMIT);
    let mut modes: SmallVec<[Mode; 8]> = modes.into();
    let mut whole = true;
    let size = loop {
        let size = modes.iter().try_fold(1i128, |size, m| size.checked_mul(m.extent));
        match (size, modes.iter_mut().max_by_key(|m| m.extent)) {
            (Some(size), _) if size <= limit => break size,
            (_, Some(longest)) => {
                longest.extent = longest.extent / 2 + 1;
                whole = false;
            }
            // Without modes there is one coordinate.
            (_, None) => break 1,
        }
        // Even two coordinates per mode are too many.
        if modes.iter().all(|m| m.extent <= 2) {
            return Err(super::domain_too_large());
        }
    };
    let digits = |mut index: i128| {
        modes.iter().map(move |m| {
            let digit = index % m.extent;
            index /= m.extent;
            (m, digit)
        })
    };
    let mut values: Vec<(i128, i128)> = (0..size)
        .map(|i| (digits(i).fold(0i128, |sum, (m, c)| sum.saturating_add(c * m.stride)), i))
        .collect();
    values.sort_unstable();
    let twice = values.windows(2).find_map(|w| match w {
        [a, b] if a.0 == b.0 => Some((a.1, b.1)),
        _ => None,
    });
    let (first, second) = match twice {
        Some(twice) => twice,
        None if whole => return Ok(None),
        None => return Err(super::domain_too_large()),
    };
    let found = digits(first).zip(digits(second)).filter_map(|((m, x), (_, y))| {
        i64::try_from(x - y).ok().filter(|&c| c != 0).map(|c| (m.leaf, c))
    });
    Ok(Some(found.collect()))
}

/// Returns a relation of a static layout.
#[inline]
fn static_relation(layout: &Layout) -> Result<Option<Relation>> {
    let mut modes = SmallVec::new();
    for (leaf, (extent, stride)) in layout.as_ref().leaves().enumerate() {
        let (s, d) = (extent.to_static()?, stride.to_int()?.to_static()?);
        if s < 1 {
            return Err(LayoutError::ExtentNotPositive { extent: extent.clone() });
        }
        if s > 1 {
            modes.push(Mode { leaf, extent: s.into(), stride: d.into() });
        }
    }
    relation(modes)
}

/// Finds two coordinates with the same index for a map that we can only evaluate.
#[inline]
fn walked_collision(offsets: &Offsets<'_>) -> Result<Option<(usize, usize, i64)>> {
    let values = offsets.walk()?;
    let mut order: Vec<(i64, usize)> =
        values.into_iter().enumerate().map(|(i, v)| (v, i)).collect();
    order.sort_unstable();
    Ok(order.windows(2).find_map(|w| match w {
        [(a, i), (b, j)] if a == b => Some((*i, *j, *a)),
        _ => None,
    }))
}

#[inline]
pub(super) fn is_injective(offsets: &Offsets<'_>) -> Result<bool> {
    // A swizzle is one-to-one.
    match offsets.inner {
        Inner::Any(_) => Ok(walked_collision(offsets)?.is_none()),
        _ if offsets.outer.is_static() => Ok(static_relation(offsets.outer)?.is_none()),
        _ => symbolic(offsets.outer),
    }
}

#[inline]
pub(super) fn collision(offsets: &Offsets<'_>) -> Result<Option<Overlap>> {
    if matches!(offsets.inner, Inner::Any(_)) {
        let Some((i, j, index)) = walked_collision(offsets)? else { return Ok(None) };
        let coordinate = |i: usize| offsets.coordinate(i64::try_from(i).unwrap_or(i64::MAX));
        return Ok(Some(Overlap { left: coordinate(i)?, right: coordinate(j)?, index }));
    }
    let Some(relation) = static_relation(offsets.outer)? else { return Ok(None) };
    let entry = |leaf: usize| relation.iter().find(|(l, _)| *l == leaf).map_or(0, |(_, c)| *c);
    let leaves = offsets.outer.shape.len();
    let left = offsets.of_digits((0..leaves).map(|leaf| entry(leaf).max(0)));
    let right = offsets.of_digits((0..leaves).map(|leaf| (-entry(leaf)).max(0)));
    let index = offsets.outer.crd2idx(&left)?.add(&offsets.shift)?.to_static()?;
    let index = match offsets.inner {
        Inner::Swizzle(swizzle) => swizzle.apply(index),
        _ => index,
    };
    Ok(Some(Overlap { left, right, index }))
}

/// Returns the answer if it is the same for all values of the symbols.
#[inline]
fn symbolic(layout: &Layout) -> Result<bool> {
    let mut modes: SmallVec<[(&Int, &Int); 8]> = SmallVec::new();
    let mut numbers = SmallVec::new();
    for (leaf, (extent, stride)) in layout.as_ref().leaves().enumerate() {
        let stride = stride.to_int()?;
        if extent.bounds().1 < 1 {
            return Err(LayoutError::ExtentNotPositive { extent: extent.clone() });
        }
        if !extent.is(1) {
            modes.push((extent, stride));
        }
        // Coordinates below an extent's lower bound exist whatever the symbols are.
        if let (min @ 2.., Some(d)) = (extent.bounds().0, stride.as_static()) {
            numbers.push(Mode { leaf, extent: min.into(), stride: d.into() });
        }
    }
    if matches!(relation(numbers), Ok(Some(_))) {
        return Ok(false);
    }
    let repeats = |i: usize| {
        modes.iter().skip(i + 1).any(|(s, d)| {
            modes.get(i).is_some_and(|(t, e)| d.same(e) && s.bounds().0 > 1 && t.bounds().0 > 1)
        })
    };
    if (0..modes.len()).any(repeats) {
        return Ok(false);
    }
    while let Some(free) = (0..modes.len()).find(|&i| stands_alone_symbolic(&modes, i)) {
        modes.remove(free);
    }
    if modes.is_empty() {
        return Ok(true);
    }
    let open: Vec<String> = modes.iter().map(|(s, d)| format!("{s}:{d}")).collect();
    Err(LayoutError::Undecided {
        operation: "is_injective",
        condition: format!("that the modes {} do not overlap", open.join(" and ")),
    })
}

#[inline]
fn stands_alone_symbolic(modes: &[(&Int, &Int)], i: usize) -> bool {
    let Some((extent, stride)) = modes.get(i) else { return false };
    let (low, high) = stride.bounds();
    if low <= 0 && high >= 0 {
        return false;
    }
    let others = || modes.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, m)| m);
    if stride.mul(extent).is_ok_and(|period| others().all(|(_, d)| d.multiple_of(&period))) {
        return true;
    }
    let reach = others().try_fold(Int::ONE, |sum, (s, d)| {
        if d.bounds().0 < 0 {
            return None;
        }
        sum.add(&s.sub(&Int::ONE).ok()?.mul(d).ok()?).ok()
    });
    low > 0 && reach.is_some_and(|reach| stride.at_least(&reach))
}
