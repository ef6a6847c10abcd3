//! Finds two coordinates with the same index, one in each of two layouts, or both in a layout that
//! is not one-to-one. Writes through two layouts collide at such a pair.

use std::fmt;

use smallvec::SmallVec;

use super::{Inner, Offsets, Result, image};
use crate::layout::int::Int;
use crate::layout::tuple::IntTuple;

/// Two coordinates with the same index: one in each of two layouts, or both in a layout that is not
/// one-to-one. [`Analysis::overlap`](super::Analysis::overlap) and
/// [`Analysis::collision`](super::Analysis::collision) return it as the proof. It prints as `(2,0)
/// and (0,3) share the index 6`.
///
/// ```
/// use tilewright::layout::{Analysis, ComposedLayout, layout, shape};
/// let even: ComposedLayout = "S<0,4,3> o 0 o (4,8):(2,8)".parse()?;
/// let odd: ComposedLayout = "S<0,4,3> o 1 o (4,8):(2,8)".parse()?;
/// assert_eq!(even.overlap(&odd)?, None);
/// let found = even.overlap(&layout!((3, 3):(5, 30)))?;
/// assert_eq!(found.map(|o| (o.left, o.right, o.index)), Some((shape!(0, 0), shape!(0, 0), 0)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The coordinate in the first layout, congruent to its shape.
    pub left: IntTuple,
    /// The coordinate in the second layout, or another one in the same layout.
    pub right: IntTuple,
    /// The index of both.
    pub index: i64,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {} share the index {}", self.left, self.right, self.index)
    }
}

/// Returns the smallest common element of two arithmetic progressions `(first, step, count)`.
fn common(a: (i64, i64, u64), b: (i64, i64, u64)) -> Option<i64> {
    let wide = |(first, step, count): (i64, i64, u64)| {
        (i128::from(first), i128::from(step), i128::from(count))
    };
    let ((fa, sa, na), (fb, sb, nb)) = (wide(a), wide(b));
    // Euclid's algorithm: `sa * x + sb * y == g`.
    let (mut r, mut x) = ((sa, sb), (1i128, 0i128));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        x = (x.1, x.0 - q * x.1);
    }
    let g = r.0;
    if (fb - fa) % g != 0 {
        return None;
    }
    let period = sb / g;
    let count = ((fb - fa) / g % period * (x.0 % period)).rem_euclid(period);
    let (found, lcm) = (fa + sa * count, sa * period);
    // The first element that is in both.
    let begin = fa.max(fb);
    let steps = (begin - found).div_euclid(lcm) + i128::from((begin - found).rem_euclid(lcm) != 0);
    let found = found + steps.max(0) * lcm;
    let end = (fa + sa * (na - 1)).min(fb + sb * (nb - 1));
    if found <= end { i64::try_from(found).ok() } else { None }
}

/// Returns a coordinate with the index `index` in a layout whose indices are one run. Takes as many
/// steps as fit, from the largest stride down; the smaller strides can always reach the rest.
#[inline]
fn locate(offsets: &Offsets<'_>, index: i64) -> Result<IntTuple> {
    let plain = match offsets.inner {
        Inner::Swizzle(swizzle) => swizzle.inverse().apply(index),
        _ => index,
    };
    let mut modes: SmallVec<[(usize, i128, i128); 8]> = SmallVec::new();
    let mut rest = i128::from(plain) - i128::from(offsets.shift.to_static()?);
    for (leaf, (extent, stride)) in offsets.outer.as_ref().leaves().enumerate() {
        let (s, d) = (i128::from(extent.to_static()?), i128::from(stride.to_int()?.to_static()?));
        // Walk a negative stride from its end.
        rest -= (d * (s - 1)).min(0);
        modes.push((leaf, s, d));
    }
    modes.sort_unstable_by_key(|&(_, _, d)| std::cmp::Reverse(d.abs()));
    let mut digits: SmallVec<[i64; 8]> = SmallVec::from_elem(0, modes.len());
    for (leaf, s, d) in modes {
        let steps = if d == 0 { 0 } else { (rest / d.abs()).min(s - 1) };
        rest -= steps * d.abs();
        let digit = if d < 0 { s - 1 - steps } else { steps };
        if let Some(slot) = digits.get_mut(leaf) {
            *slot = i64::try_from(digit).unwrap_or(0);
        }
    }
    Ok(offsets.of_digits(digits))
}

/// Returns bounds on all indices, if the strides give them.
fn hull(offsets: &Offsets<'_>) -> Result<Option<(i64, i64)>> {
    let block = match offsets.inner {
        Inner::Any(_) => return Ok(None),
        Inner::Plain => 0,
        Inner::Swizzle(s) => (s.y_mask() | s.z_mask()).unsigned_abs().next_power_of_two() - 1,
    };
    let shift = i128::from(offsets.shift.to_static()?);
    let (mut low, mut high) = (shift, shift);
    for (extent, stride) in offsets.outer.as_ref().leaves() {
        let (s, d) = (extent.to_static()?, stride.to_int()?.to_static()?);
        let back = i128::from(d) * (i128::from(s) - 1);
        low += back.min(0);
        high += back.max(0);
    }
    let block = i128::from(block);
    // A swizzle moves an index only inside its block.
    match (i64::try_from(low & !block), i64::try_from(high | block)) {
        (Ok(low), Ok(high)) => Ok(Some((low, high))),
        _ => Ok(None),
    }
}

/// Returns true if all indices of `a` are below all indices of `b` whatever the symbols are.
#[inline]
fn ends_before(a: &Offsets<'_>, b: &Offsets<'_>) -> Result<bool> {
    if !(a.is_plain() && b.is_plain()) {
        return Ok(false);
    }
    for offsets in [a, b] {
        for (_, stride) in offsets.outer.as_ref().leaves() {
            if stride.to_int()?.bounds().0 < 0 {
                return Ok(false);
            }
        }
    }
    let end: Int = a.shift.add(&a.outer.cosize()?)?;
    Ok(b.shift.at_least(&end))
}

/// Finds an index of `walked` that is also in `table`.
#[inline]
fn walk(table: &Offsets<'_>, walked: &Offsets<'_>) -> Result<Option<(i64, i64, i64)>> {
    let indexed = |values: Vec<i64>| (0i64..).zip(values);
    let mut sorted: Vec<(i64, i64)> = indexed(table.walk()?).map(|(i, v)| (v, i)).collect();
    sorted.sort_unstable();
    for (j, value) in indexed(walked.walk()?) {
        let at = sorted.partition_point(|&(v, _)| v < value);
        if let Some(&(found, i)) = sorted.get(at)
            && found == value
        {
            return Ok(Some((i, j, value)));
        }
    }
    Ok(None)
}

#[inline]
pub(super) fn overlap(a: &Offsets<'_>, b: &Offsets<'_>) -> Result<Option<Overlap>> {
    let is_static = |o: &Offsets<'_>| o.outer.is_static() && o.shift.is_static();
    if !(is_static(a) && is_static(b)) && (ends_before(a, b)? || ends_before(b, a)?) {
        return Ok(None);
    }
    if let (Some(pa), Some(pb)) = (image::progression(a)?, image::progression(b)?) {
        let Some(index) = common(pa, pb) else { return Ok(None) };
        return Ok(Some(Overlap { left: locate(a, index)?, right: locate(b, index)?, index }));
    }
    if let (Some((low_a, high_a)), Some((low_b, high_b))) = (hull(a)?, hull(b)?)
        && (high_a < low_b || high_b < low_a)
    {
        return Ok(None);
    }
    let (size_a, size_b) = (a.walkable_size()?, b.walkable_size()?);
    let found =
        if size_a <= size_b { walk(a, b)? } else { walk(b, a)?.map(|(j, i, value)| (i, j, value)) };
    let Some((i, j, index)) = found else { return Ok(None) };
    Ok(Some(Overlap { left: a.coordinate(i)?, right: b.coordinate(j)?, index }))
}
