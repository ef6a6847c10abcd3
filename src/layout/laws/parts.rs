//! Checks slices, `local_tile`, `local_partition` and recasts against the equations that define
//! them.

use std::collections::BTreeSet;

use super::{Check, LIMIT, Law, Violation, check_zipped_divide};
use crate::layout::composed::ComposedLayout;
use crate::layout::coord::{Coord, CoordRef, Slot};
use crate::layout::error::LayoutError;
use crate::layout::int::{Int, gcd_i64};
use crate::layout::layout::Layout;
use crate::layout::partition::{thread_coord, thread_tiler, tile_coord};
use crate::layout::tiler::TilerRef;
use crate::layout::tuple::{IntTuple, IntTupleRef};

/// Checks a slice of `layout` (`L`) at `coord`, given as the layout `R` and an offset: `L(c) ==
/// offset + R(rest of c)`, where the rest of `c` are its entries at the `_` of `coord`.
///
/// ```
/// use tilewright::layout::{coord, layout, laws, shape};
/// let (l, c) = (layout!((4, (2, 8)):(2, (1, 8))), coord!(3, _));
/// let (rest, offset) = l.slice_and_offset(&c)?;
/// laws::check_slice(&l, &c, &rest, &offset)?;
/// assert!(laws::check_slice(&l, &c, &rest, &shape!(5)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_slice(
    layout: impl Into<ComposedLayout>,
    coord: &Coord,
    result: impl Into<ComposedLayout>,
    offset: &IntTuple,
) -> Result<(), Violation> {
    slice(&layout.into(), coord, &result.into(), offset)
}

#[inline]
fn slice(
    layout: &ComposedLayout,
    coord: &Coord,
    result: &ComposedLayout,
    offset: &IntTuple,
) -> Check {
    let law = Law::Slice;
    let mut extents = Vec::new();
    free_extents(law, coord.as_ref(), law.outer(layout)?.shape(), &mut extents)?;
    let overflow = || law.stuck()(LayoutError::overflow("check_slice"));
    let needed = extents.iter().try_fold(1, |n: i64, s| n.checked_mul(*s)).ok_or_else(overflow)?;
    let found = law.size(law.outer(result)?)?;
    if found != needed {
        return Err(Violation::Size { law, result: result.to_string(), found, needed });
    }
    for i in 0..needed.min(LIMIT) {
        let mut rest = i;
        let mut extents = extents.iter();
        let at = coord.map(|slot| {
            Ok::<Int, LayoutError>(match slot {
                Slot::At(value) => value.clone(),
                Slot::All => {
                    let extent = extents.next().copied().unwrap_or(1);
                    let digit = rest % extent;
                    rest /= extent;
                    digit.into()
                }
            })
        });
        let at = at.map_err(law.stuck())?;
        let left = layout.apply(&at).map_err(law.stuck())?;
        let right = sum(offset.as_ref(), law.value(result, i)?.as_ref()).map_err(law.stuck())?;
        law.equal(at, &left, &right)?;
    }
    Ok(())
}

/// Collects the sizes of the modes at the `_` of a coordinate.
fn free_extents(
    law: Law,
    coord: CoordRef<'_>,
    shape: IntTupleRef<'_>,
    out: &mut Vec<i64>,
) -> Check {
    if let Some(slot) = coord.as_leaf() {
        if *slot == Slot::All {
            let extent = law.number(shape.product())?;
            if extent < 1 {
                let extent = extent.into();
                return Err(law.stuck()(LayoutError::ExtentNotPositive { extent }));
            }
            out.push(extent);
        }
        return Ok(());
    }
    // A leaf is its own mode 0.
    if shape.is_leaf() {
        return coord.children().take(1).try_for_each(|c| free_extents(law, c, shape, out));
    }
    let mut modes = coord.children().zip(shape.children());
    modes.try_for_each(|(c, s)| free_extents(law, c, s, out))
}

/// Adds two integers or two coordinates. An integer 0 counts as a coordinate of zeros.
fn sum(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> Result<IntTuple, LayoutError> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(a), Some(b)) => Ok(a.add(b)?.into()),
        (Some(a), None) if a.is(0) => Ok(b.to_owned()),
        (None, Some(b)) if b.is(0) => Ok(a.to_owned()),
        (None, None) => {
            let entry = |i: usize| match (a.child(i), b.child(i)) {
                (Some(a), Some(b)) => sum(a, b),
                (Some(one), None) | (None, Some(one)) => Ok(one.to_owned()),
                (None, None) => Ok(IntTuple::from(0)),
            };
            let entries = (0..a.rank().max(b.rank())).map(entry);
            IntTuple::from_items(&entries.collect::<Result<Vec<_>, _>>()?)
        }
        _ => Err(LayoutError::NotCongruent { left: a.to_string(), right: b.to_string() }),
    }
}

/// Checks that `result` and `offset` are the tile at `coord`. It computes the zipped divide that
/// the tile comes from, and checks that too.
///
/// ```
/// use tilewright::layout::{coord, layout, laws, shape, tiler};
/// let (l, t, c) = (layout!((64, 32):(1, 64)), tiler!(16, 8), coord!(2, _));
/// let (tile, offset) = l.local_tile(&t, &c)?;
/// laws::check_local_tile(&l, &t, &c, &tile, &offset)?;
/// assert!(laws::check_local_tile(&l, &t, &c, &tile, &shape!(0)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_local_tile<'t>(
    layout: &Layout,
    tiler: impl Into<TilerRef<'t>>,
    coord: &Coord,
    result: &Layout,
    offset: &IntTuple,
) -> Result<(), Violation> {
    let (law, tiler) = (Law::Slice, tiler.into());
    let tiled = layout.zipped_divide(tiler).map_err(law.stuck())?;
    check_zipped_divide(layout, tiler, &tiled)?;
    let coord = tile_coord(&tiled, coord).map_err(law.stuck())?;
    slice(&tiled.into(), &coord, &result.into(), offset)
}

/// Checks that `result` and `offset` are the elements of thread `index` when copies of `threads`
/// cover the layout.
///
/// ```
/// use tilewright::layout::{Int, layout, laws, shape};
/// let (l, threads) = (layout!((16, 8):(1, 16)), layout!((4, 8):(1, 4)));
/// let (part, offset) = l.local_partition(&threads, &Int::from(5))?;
/// laws::check_local_partition(&l, &threads, &Int::from(5), &part, &offset)?;
/// assert!(laws::check_local_partition(&l, &threads, &Int::from(6), &part, &offset).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_local_partition(
    layout: &Layout,
    threads: &Layout,
    index: &Int,
    result: &Layout,
    offset: &IntTuple,
) -> Result<(), Violation> {
    let law = Law::Slice;
    let tiler = thread_tiler(threads).map_err(law.stuck())?;
    let tiled = layout.zipped_divide(&tiler).map_err(law.stuck())?;
    check_zipped_divide(layout, &tiler, &tiled)?;
    let coord = thread_coord(&tiled, threads, index).map_err(law.stuck())?;
    slice(&tiled.into(), &coord, &result.into(), offset)
}

/// Checks that `result` describes the same memory as `layout`, with elements of `new_bits` instead
/// of `old_bits`.
///
/// * If the elements get narrower, one element becomes `n`: `R` must have the indices `n * L(i) ..
///   n * L(i) + n`.
/// * If they get wider, `n` elements become one. A mode that steps over whole new elements keeps
///   its extent, and its stride is divided by `n`. A mode that is contiguous inside a new element
///   gets shorter.
/// * Otherwise each mode must keep its step and its span in bits.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((4, 8):(8, 1));
/// laws::check_recast(&l, 16, 32, &l.recast_layout(16, 32)?)?;
/// laws::check_recast(&l, 16, 8, &l.recast_layout(16, 8)?)?;
/// assert!(laws::check_recast(&l, 16, 32, &l).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_recast(
    layout: &Layout,
    old_bits: i64,
    new_bits: i64,
    result: &Layout,
) -> Result<(), Violation> {
    let law = Law::Recast;
    for bits in [old_bits, new_bits] {
        if bits < 1 {
            return Err(law.stuck()(LayoutError::ExtentNotPositive { extent: bits.into() }));
        }
    }
    if !layout.shape().congruent(result.shape()) {
        return Err(law.form(result, format_args!("has another profile than {layout}")));
    }
    let common = gcd_i64(old_bits, new_bits);
    let (up, down) = (i128::from(new_bits / common), i128::from(old_bits / common));
    let stride = |d: &crate::layout::ScaledBasis| match d.value() {
        Some(value) => law.number(Ok(value.clone())),
        None => Err(law.stuck()(LayoutError::NotAnIntegerStride { stride: d.to_string() })),
    };
    let mut into_integers = true;
    for ((s, d), (t, e)) in layout.as_ref().leaves().zip(result.as_ref().leaves()) {
        into_integers &= d.as_int().is_some() && e.as_int().is_some();
        let (s, t) = (law.number(Ok(s.clone()))?, law.number(Ok(t.clone()))?);
        let (d, e) = (stride(d)?, stride(e)?);
        let wide = [s, d, t, e].map(i128::from);
        let kept = keeps_bits(wide, up, down);
        if !kept.ok_or_else(|| law.stuck()(LayoutError::overflow("check_recast")))? {
            let fault = format_args!("has {t}:{e} for {s}:{d}, which covers different bits");
            return Err(law.form(result, fault));
        }
    }
    if up == 1 && into_integers {
        same_memory(law, layout, old_bits / common, result)?;
    }
    Ok(())
}

/// Returns true if the mode `t:e`, in elements `up / down` times as wide, covers the bits of the
/// mode `s:d`. Returns `None` if that does not fit in 128 bits.
fn keeps_bits([s, d, t, e]: [i128; 4], up: i128, down: i128) -> Option<bool> {
    if d == 0 {
        return Some(t == s && e == 0);
    }
    if up == 1 {
        let longer = d.abs() == 1 && t == s.checked_mul(down)? && e == d;
        return Some(longer || (t == s && e == d.checked_mul(down)?));
    }
    if down == 1 && s == 1 {
        return Some(t == 1);
    }
    if down == 1 {
        // How many old elements of this mode are in one new element.
        let inside = (up / d.abs()).max(1);
        let whole = if d.abs() >= up { d % up == 0 } else { up % d == 0 };
        let extent_fits = t == s.checked_add(inside - 1)? / inside;
        let step_fits = t == 1 || e.checked_mul(up)? == d.checked_mul(inside)?;
        return Some(whole && extent_fits && step_fits);
    }
    let step_fits = t == 1 || d.abs() < up || d.checked_mul(down)? == e.checked_mul(up)?;
    let span = t.checked_mul(e.abs().max(1))?.checked_mul(up)?;
    Some(step_fits && span >= s.checked_mul(d.min(1))?)
}

/// Checks that each old element becomes `n` new ones.
fn same_memory(law: Law, layout: &Layout, n: i64, result: &Layout) -> Check {
    let walked = |l: &Layout| {
        let indices = l.indices().map_err(law.stuck())?;
        Ok(indices.zip(0..LIMIT).map(|(index, _)| index).collect::<BTreeSet<i64>>())
    };
    if law.size(result)? > LIMIT {
        return Ok(());
    }
    let (coarse, fine) = (walked(layout)?, walked(result)?);
    let mut covered = BTreeSet::new();
    for index in coarse {
        let overflow = || law.stuck()(LayoutError::overflow("check_recast"));
        let first = index.checked_mul(n).ok_or_else(overflow)?;
        let end = first.checked_add(n).ok_or_else(overflow)?;
        // Stop above the limit, because the result has fewer indices than that.
        if i64::try_from(covered.len()).is_ok_and(|len| len > LIMIT) {
            break;
        }
        covered.extend((first..end).zip(0..=LIMIT).map(|(index, _)| index));
    }
    match covered.symmetric_difference(&fine).next() {
        Some(index) => {
            let fault = format_args!("and {layout} do not both have the new element {index}");
            Err(law.form(result, fault))
        }
        None => Ok(()),
    }
}
