//! Decides whether two layouts are the same function, for example to show that a rewritten layout
//! is right. [`Analysis::same_function`](super::Analysis::same_function) asks here.
//!
//! The function of a static layout determines its coalesced form: the first mode is the longest run
//! of equal steps from coordinate 0 on, the second mode is the longest run of such runs, and so on.
//! So two layouts are the same function exactly if their coalesced forms are equal, and we need not
//! try any coordinate. A swizzle is one-to-one, so equal swizzles make no difference.

use super::{Inner, Offsets, Result};
use crate::layout::basis::ScaledBasis;
use crate::layout::compare::equal;
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;

#[inline]
pub(super) fn same_function(a: &Offsets<'_>, b: &Offsets<'_>) -> Result<bool> {
    let strides_decide = match (&a.inner, &b.inner) {
        (Inner::Plain, Inner::Plain) => true,
        (Inner::Swizzle(a), Inner::Swizzle(b)) => a == b,
        _ => false,
    };
    if strides_decide {
        return same_strided(a, b);
    }
    Ok(equal(&a.outer.size()?, &b.outer.size()?)? && a.walk()? == b.walk()?)
}

#[inline]
fn same_strided(a: &Offsets<'_>, b: &Offsets<'_>) -> Result<bool> {
    let (left, right) = (modes(a.outer)?, modes(b.outer)?);
    if a.shift == b.shift && left == right {
        return Ok(true);
    }
    let is_static = a.shift.is_static()
        && b.shift.is_static()
        && left.iter().chain(&right).all(|(s, d)| s.is_static() && d.is_static());
    if is_static
        || equal(&a.shift, &b.shift) == Ok(false)
        || equal(&a.outer.size()?, &b.outer.size()?) == Ok(false)
    {
        return Ok(false);
    }
    Err(LayoutError::Undecided {
        operation: "same_function",
        condition: format!("that {}+{} is {}+{}", a.shift, a.outer, b.shift, b.outer),
    })
}

/// Returns the coalesced modes of more than one coordinate. Strides of 0 are the plain 0. Unlike
/// `coalesce`, which keeps a static extent apart from a symbolic one, this merges any two
/// contiguous modes: `(2,n):(1,2)` is `2*n:1`.
#[inline]
fn modes(layout: &Layout) -> Result<Vec<(Int, ScaledBasis)>> {
    let mut plain = layout.clone();
    for (s, d) in plain.shape.iter().zip(&mut plain.stride) {
        if s.bounds().1 < 1 {
            return Err(LayoutError::ExtentNotPositive { extent: s.clone() });
        }
        if d.is_zero() {
            *d = ScaledBasis::from(Int::ZERO);
        }
    }
    let flat = plain.coalesce()?;
    let mut merged: Vec<(Int, ScaledBasis)> = Vec::new();
    for (s, d) in flat.as_ref().leaves().filter(|(s, _)| !s.is(1)) {
        match merged.last_mut() {
            Some((extent, stride)) if stride.scaled(extent).is_ok_and(|end| end == *d) => {
                *extent = extent.mul(s)?;
            }
            _ => merged.push((s.clone(), d.clone())),
        }
    }
    Ok(merged)
}
