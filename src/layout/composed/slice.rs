//! Slices a [`ComposedLayout`], and drops its swizzle if it no longer has an effect. The part of a
//! swizzled tile that one thread accesses is such a slice.

use super::ComposedLayout;
use crate::layout::builder::LayoutBuilder;
use crate::layout::coord::{Coord, Slot};
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;
use crate::layout::layout_ref::LayoutRef;
use crate::layout::slice::offset_of;
use crate::layout::swizzle::{Swizzle, lowest_bit};
use crate::layout::tuple::{IntTuple, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// Returns a mask of the bits that a static layout can set, if all its extents and strides are
/// powers of two and every index is a sum of distinct bits.
pub(crate) fn bits_of(layout: LayoutRef<'_>) -> Option<i64> {
    let mut all = 0i64;
    for (s, d) in layout.leaves() {
        let (s, d) = (s.as_static()?, d.as_static()?);
        if s < 1 || d < 0 {
            return None;
        }
        if s == 1 || d == 0 {
            continue;
        }
        let bits = (s - 1).checked_mul(d)?;
        if s.count_ones() != 1 || d.count_ones() != 1 || all & bits != 0 {
            return None;
        }
        all |= bits;
    }
    Some(all)
}

impl ComposedLayout {
    /// Fixes some entries of the coordinate. Returns the layout `R` of the modes at the `_` and an
    /// outer offset, so that `self(c) == offset + R(the entries of c at the `_`)`.
    ///
    /// The fixed entries go into the inner offset, except for the bits that a swizzle neither reads
    /// nor changes: these go to the outer offset. If the remaining modes do not touch both a bit
    /// that the swizzle reads and the bit that it changes, the swizzle is replaced by a plain
    /// layout, possibly with negative strides. CuTe calls this decay.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, coord};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let (row, offset) = s.slice_and_offset(&coord!(5, _))?;
    /// assert_eq!((row.to_string(), offset.to_string()), ("((2,2,2)):((-1,2,-4))".into(), "45".into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::slice_and_offset`].
    #[inline]
    pub fn slice_and_offset(&self, coord: &Coord) -> Result<(ComposedLayout, IntTuple)> {
        let outer = self.outer_layout()?;
        let sliced = outer.slice(coord)?;
        let zero = Tuple::leaf(Int::ZERO);
        if coord.leaves().iter().all(|slot| *slot == Slot::All) {
            return Ok((self.with_outer(sliced), zero));
        }
        let moved = offset_of(coord, outer.as_ref())?;
        if self.is_normal() {
            return Ok((sliced.into(), moved));
        }
        if let (Some(swizzle), Some(offset), Some(moved)) =
            (self.swizzle(), self.offset().as_static(), moved.as_static())
        {
            return sliced_swizzle(swizzle, offset, moved, &sliced);
        }
        let inside = self.offset().plus(&moved)?;
        let kept = ComposedLayout::from_parts(self.inner().clone(), inside, sliced.into());
        Ok((kept, zero))
    }

    /// Returns only the layout of [`slice_and_offset`](ComposedLayout::slice_and_offset), for
    /// example to ask about its size or its alignment.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, coord};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.slice(&coord!(5, _))?.to_string(), "((2,2,2)):((-1,2,-4))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::slice`].
    #[inline]
    pub fn slice(&self, coord: &Coord) -> Result<ComposedLayout> {
        Ok(self.slice_and_offset(coord)?.0)
    }

    /// Moves the origin to `coord`. Returns the moved layout and an outer offset. The outer offset
    /// is 0 unless the layout is plain, because the offset goes inside the swizzle. Use it to shift
    /// a tensor.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let (moved, rest) = s.domain_offset(&shape!(1, 2))?;
    /// assert_eq!((moved.to_string(), rest), ("S<3,0,3> o 10 o (8,8):(8,1)".to_owned(), 0.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`apply`](ComposedLayout::apply).
    #[inline]
    pub fn domain_offset(&self, coord: &IntTuple) -> Result<(ComposedLayout, IntTuple)> {
        let outer = self.outer_layout()?;
        if self.is_normal() {
            return Ok((self.clone(), outer.apply(coord)?));
        }
        let inside = self.offset().plus(&outer.apply(coord)?)?;
        let moved = ComposedLayout::from_parts(self.inner().clone(), inside, self.outer().clone());
        Ok((moved, Tuple::leaf(Int::ZERO)))
    }
}

/// Returns `swizzle o (offset + moved) o layout`, with the bits of `moved` that the swizzle does
/// not touch outside. The result is a plain layout if `layout` does not touch both a bit that the
/// swizzle reads and the bit that it changes.
#[inline]
fn sliced_swizzle(
    swizzle: Swizzle,
    offset: i64,
    moved: i64,
    layout: &Layout,
) -> Result<(ComposedLayout, IntTuple)> {
    let overflow = || LayoutError::overflow("slice");
    if swizzle.is_identity() {
        let total = offset.checked_add(moved).ok_or_else(overflow)?;
        return Ok((layout.clone().into(), Tuple::leaf(total)));
    }
    let touched = swizzle.y_mask() | swizzle.z_mask();
    // Bits above the swizzle's bits never carry down into them.
    let below = (1i64 << (i64::BITS - touched.leading_zeros())) - 1;
    let (high, low) = (moved & !below, moved & below);
    // If two integers share no bit, adding them is a bitwise or, so each bit can be treated alone.
    let disjoint =
        |bits: &i64| offset >= 0 && offset & low == 0 && (offset | low) & bits & below == 0;
    let Some(bits) = bits_of(layout.as_ref()).filter(disjoint) else {
        let inside = offset.checked_add(low).ok_or_else(overflow)?;
        return Ok((ComposedLayout::new(swizzle, inside, layout)?, Tuple::leaf(high)));
    };
    let (seen, outside) = (offset | (low & touched), high + (low & !touched));
    let active = bits & touched;
    if active & !swizzle.apply(active) != 0 {
        return Ok((ComposedLayout::new(swizzle, seen, layout)?, Tuple::leaf(outside)));
    }
    let normal = swizzle_as_layout(swizzle, seen)?.composition(layout)?;
    let start = swizzle.apply(seen).checked_add(outside).ok_or_else(overflow)?;
    Ok((normal.into(), Tuple::leaf(start)))
}

/// Returns a layout of how `swizzle(offset)` changes when bits are set. It is right for arguments
/// that do not set both a bit that the swizzle reads and the bit that it changes.
#[inline]
fn swizzle_as_layout(swizzle: Swizzle, offset: i64) -> Result<Layout> {
    let (bits, base, distance) = (swizzle.bits(), swizzle.base(), swizzle.shift().abs());
    let (y, z) = (lowest_bit(swizzle.y_mask()), lowest_bit(swizzle.z_mask()));
    let changed = |i: i64| if offset & (y << i) == 0 { z << i } else { -(z << i) };
    let read = |i: i64| if offset & (z << i) == 0 { (y + z) << i } else { (y - z) << i };
    let mut out = LayoutBuilder::new();
    out.open();
    out.push(1i64 << base, 1);
    let low_changes = z < y;
    for high in [false, true] {
        for i in 0..bits {
            out.push(2, if low_changes != high { changed(i) } else { read(i) });
        }
        if !high {
            out.push(1i64 << (distance - bits), 1i64 << (base + bits));
        }
    }
    out.push(1, 1i64 << (base + bits + distance));
    out.close();
    out.finish()
}
