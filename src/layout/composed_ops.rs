//! The algebra of [`ComposedLayout`]: what acts on the domain acts on the outer layout.

use super::composed::{ComposedLayout, Part, add};
use super::coord::{Coord, Slot};
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutRef};
use super::slice::offset_of;
use super::swizzle::Swizzle;
use super::tiler::TilerRef;
use super::tuple::{IntTuple, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

macro_rules! on_outer {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $t:ty),*);)*) => {
        /// Operations on the domain: each is the operation of the same name of [`Layout`] on the
        /// outer layout, with the same equation and errors, besides
        /// [`LayoutError::Unsupported`] where the outer part is a swizzle.
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of [`Layout`]'s operation; [`LayoutError::Unsupported`].
            pub fn $name(&self $(, $arg: $t)*) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name($($arg),*)?))
            }
        )*}
    };
}

on_outer! {
    /// The mode at a path.
    fn get(path: &[usize]);
    /// The modes `begin..end` as a tuple.
    fn take(begin: usize, end: usize);
    /// The modes `modes` as a tuple.
    fn select(modes: &[usize]);
    /// The layout with the modes `begin..end` as one.
    fn group(begin: usize, end: usize);
    /// The leaves as one flat tuple.
    fn flatten();
    /// The layout with `mode` after its modes.
    fn append(mode: &Layout);
    /// The layout with `mode` before its modes.
    fn prepend(mode: &Layout);
    /// The layout with `mode` appended until it has `rank` modes.
    fn append_to(rank: usize, mode: &Layout);
    /// The layout with `mode` prepended until it has `rank` modes.
    fn prepend_to(rank: usize, mode: &Layout);
    /// The same function with as few modes as possible.
    fn coalesce();
    /// [`coalesce`](ComposedLayout::coalesce) of each mode below a leaf of `profile`.
    fn coalesce_by(profile: &IntTuple);
    /// [`Layout::filter_by`].
    fn filter_by(profile: &IntTuple);
    /// [`Layout::filter`].
    fn filter();
    /// [`Layout::blocked_product`].
    fn blocked_product(tiler: &Layout);
    /// [`Layout::raked_product`].
    fn raked_product(tiler: &Layout);
    /// [`Layout::tile_to_shape`].
    fn tile_to_shape(target: &IntTuple, order: Option<&IntTuple>);
}

macro_rules! by_tiler {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// Operations with a tiler, on the outer layout.
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of [`Layout`]'s operation; [`LayoutError::Unsupported`].
            pub fn $name<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name(tiler)?))
            }
        )*}
    };
}

by_tiler! {
    /// `self o right`: [`Layout::composition`] of the outer layout.
    composition;
    /// [`Layout::logical_divide`].
    logical_divide;
    /// [`Layout::zipped_divide`].
    zipped_divide;
    /// [`Layout::tiled_divide`].
    tiled_divide;
    /// [`Layout::flat_divide`].
    flat_divide;
    /// [`Layout::logical_product`].
    logical_product;
    /// [`Layout::zipped_product`].
    zipped_product;
    /// [`Layout::tiled_product`].
    tiled_product;
    /// [`Layout::flat_product`].
    flat_product;
}

/// The bits that a static layout of powers of two can set, if its values are sums of disjoint bits.
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
    /// The modes at the `_` of a coordinate and the offset that is left outside:
    /// `self(c) == offset + R(the entries of c at the `_`)`.
    ///
    /// The places go into the offset inside. Under a swizzle, the bits that it neither reads nor
    /// changes are put outside, and where the remaining modes do not touch both bits that are read
    /// and bits that change, the result is a normal layout, whose strides may be negative: CuTe's
    /// decay.
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
    /// Those of [`Layout::slice_and_offset`].
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
        let inside = add(self.offset(), &moved)?;
        let kept = ComposedLayout::from_parts(self.inner().clone(), inside, sliced.into());
        Ok((kept, zero))
    }

    /// The layout part of [`slice_and_offset`](ComposedLayout::slice_and_offset).
    ///
    /// # Errors
    /// Those of [`Layout::slice`].
    pub fn slice(&self, coord: &Coord) -> Result<ComposedLayout> {
        Ok(self.slice_and_offset(coord)?.0)
    }

    /// The layout with `coord` as its new origin, and the offset that is left outside, 0.
    ///
    /// # Errors
    /// As [`apply`](ComposedLayout::apply).
    pub fn domain_offset(&self, coord: &IntTuple) -> Result<(ComposedLayout, IntTuple)> {
        let outer = self.outer_layout()?;
        if self.is_normal() {
            return Ok((self.clone(), outer.apply(coord)?));
        }
        let inside = add(self.offset(), &outer.apply(coord)?)?;
        let moved = ComposedLayout::from_parts(self.inner().clone(), inside, self.outer().clone());
        Ok((moved, Tuple::leaf(Int::ZERO)))
    }

    /// [`Layout::complement`] of the outer layout.
    ///
    /// # Errors
    /// Those of [`Layout::complement`]; [`LayoutError::Unsupported`].
    pub fn complement(&self, cotarget: &IntTuple) -> Result<Layout> {
        self.outer_layout()?.complement(cotarget)
    }

    /// A layout with `self(R(i)) == i`: `right_inverse(outer) o -offset o inner`, which for offset
    /// 0 is written with the swizzle of the permuted bits outermost, as in CuTe.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<2,3,3> o 0 o (8,32):(32,1)".parse()?;
    /// assert_eq!(s.right_inverse()?.to_string(), "S<2,1,-5> o 0 o (32,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::right_inverse`]; [`LayoutError::Unsupported`] for a function inside.
    pub fn right_inverse(&self) -> Result<ComposedLayout> {
        let inverse = self.inverse(Layout::right_inverse)?;
        let (Some(swizzle), Part::Layout(outer)) = (self.swizzle(), self.outer()) else {
            return Ok(inverse);
        };
        // The indices that the outer layout reaches must be swizzled among themselves.
        let size = outer.right_inverse()?.size()?.to_static()?;
        let inside = size.count_ones() == 1 && swizzle.apply(size - 1) < size;
        let moves = |bit: &i64| swizzle.apply(*bit) >= size;
        let bits = (0..62).map(|i| 1i64 << i).take_while(|bit| *bit < size);
        let fits = if inside {
            !bits.into_iter().any(|bit| moves(&bit))
        } else {
            size <= 1 << 16 && !(0..size).any(|i| moves(&i))
        };
        if fits || self.offset().as_static() != Some(0) {
            return Ok(inverse);
        }
        Err(LayoutError::Unsupported {
            operation: "right_inverse of a swizzle that leaves the image",
            argument: self.to_string(),
        })
    }

    /// A layout with `R(self(i)) == i` for a one-to-one layout; see
    /// [`right_inverse`](ComposedLayout::right_inverse) for its form.
    ///
    /// # Errors
    /// Those of [`Layout::left_inverse`]; [`LayoutError::Unsupported`] for a function inside.
    pub fn left_inverse(&self) -> Result<ComposedLayout> {
        self.inverse(Layout::left_inverse)
    }

    fn inverse(&self, of: fn(&Layout) -> Result<Layout>) -> Result<ComposedLayout> {
        let invert = |part: &Part| match part {
            Part::Identity => Ok(Part::Identity),
            Part::Layout(layout) => of(layout).map(Part::from),
            Part::Swizzle(swizzle) => Ok(Part::from(swizzle.inverse())),
            Part::Function(function) => Err(LayoutError::Unsupported {
                operation: "the inverse",
                argument: function.name().to_owned(),
            }),
        };
        let (first, last) = (invert(self.outer())?, invert(self.inner())?);
        match (&first, &last) {
            (Part::Layout(layout), Part::Identity) if self.is_normal() => Ok(layout.clone().into()),
            (Part::Layout(layout), Part::Swizzle(swizzle))
                if self.offset().as_static() == Some(0) =>
            {
                layout.compose_swizzle(*swizzle)
            }
            _ => {
                let offset = self.offset().map(Int::negate)?;
                Ok(ComposedLayout::from_parts(first, offset, last))
            }
        }
    }

    /// The coordinates that are mapped to 0: `1:0`, unless it is a normal layout.
    ///
    /// # Errors
    /// Those of [`Layout::nullspace`].
    pub fn nullspace(&self) -> Result<Layout> {
        self.as_normal().map_or_else(|| Ok(Layout::trivial()), Layout::nullspace)
    }

    fn recast_by(
        &self,
        swizzle: impl Fn(Swizzle) -> Result<Swizzle>,
        offset: impl Fn(&Int) -> Result<Int>,
        layout: impl Fn(&Layout) -> Result<Layout>,
    ) -> Result<ComposedLayout> {
        let part = |part: &Part| match part {
            Part::Identity => Ok(Part::Identity),
            Part::Swizzle(s) => swizzle(*s).map(Part::from),
            Part::Layout(l) => layout(l).map(Part::from),
            Part::Function(f) => Err(LayoutError::Unsupported {
                operation: "recasting",
                argument: f.name().to_owned(),
            }),
        };
        Ok(ComposedLayout::from_parts(
            part(self.inner())?,
            self.offset().map(offset)?,
            part(self.outer())?,
        ))
    }

    /// The layout in elements of `n` of the present ones; `n` must be a power of two under a
    /// swizzle.
    ///
    /// # Errors
    /// Those of [`Layout::upcast`] and [`Swizzle::upcast`].
    pub fn upcast(&self, n: i64) -> Result<ComposedLayout> {
        self.recast_by(|s| s.upcast(n), |o| o.exact_div(&Int::new(n)), |l| l.upcast(n))
    }

    /// The layout in elements of which `n` make one of the present ones.
    ///
    /// # Errors
    /// Those of [`Layout::downcast`] and [`Swizzle::downcast`].
    pub fn downcast(&self, n: i64) -> Result<ComposedLayout> {
        self.recast_by(|s| s.downcast(n), |o| o.mul(&Int::new(n)), |l| l.downcast(n))
    }

    /// The layout for elements of `new_bits`, see [`Layout::recast_layout`].
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<1,4,3> o 0 o (32,8):(1,32)".parse()?;
    /// assert_eq!(s.recast_layout(8, 16)?.to_string(), "S<1,3,3> o 0 o (16,8):(1,16)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`upcast`](ComposedLayout::upcast) and [`downcast`](ComposedLayout::downcast).
    pub fn recast_layout(&self, old_bits: i64, new_bits: i64) -> Result<ComposedLayout> {
        match super::recast::recast_steps(old_bits, new_bits)? {
            (1, 1) => Ok(self.clone()),
            (1, down) => self.downcast(down),
            (up, 1) => self.upcast(up),
            (up, down) => self.upcast(up)?.downcast(down),
        }
    }

    /// The largest `n` such that blocks of `n` elements stay contiguous and aligned; 1 where that
    /// is not known.
    ///
    /// # Errors
    /// Those of [`Layout::max_alignment`].
    pub fn max_alignment(&self) -> Result<Int> {
        if let Some(layout) = self.as_normal() {
            return layout.max_alignment();
        }
        let (Some(swizzle), Part::Layout(outer)) = (self.swizzle(), self.outer()) else {
            return Ok(Int::ONE);
        };
        let own = outer.max_alignment()?;
        let offset = self.offset().to_int()?;
        let offset = if offset.is_static() { offset.clone() } else { offset.divisibility().into() };
        Int::new(swizzle.max_alignment()).gcd(&offset)?.gcd(&own)
    }

    /// [`Layout::max_common_layout`] of two layouts of which at most one is swizzled.
    ///
    /// # Errors
    /// Those of [`Layout::max_common_layout`]; [`LayoutError::Unsupported`] for two swizzles.
    pub fn max_common_layout(&self, other: &ComposedLayout) -> Result<Layout> {
        let common = self.outer_layout()?.max_common_layout(other.outer_layout()?)?;
        let limit = match (self.as_normal(), other.as_normal()) {
            (Some(_), Some(_)) => return Ok(common),
            (None, Some(_)) => self.swizzle(),
            (Some(_), None) => other.swizzle(),
            (None, None) => None,
        };
        let Some(swizzle) = limit else {
            return Err(LayoutError::Unsupported {
                operation: "max_common_layout of two composed layouts",
                argument: other.to_string(),
            });
        };
        let base = Int::new(swizzle.max_alignment());
        if base.at_least(&common.size()?) {
            return Ok(common);
        }
        common.composition(&Layout::leaf(base, 1))
    }

    /// [`Layout::max_common_vector`]: at most the block that each swizzle leaves contiguous, if
    /// they are not the same.
    ///
    /// # Errors
    /// Those of [`Layout::max_common_vector`]; [`LayoutError::Unsupported`] without a swizzle.
    pub fn max_common_vector(&self, other: &ComposedLayout) -> Result<Int> {
        let mut vector = self.outer_layout()?.max_common_vector(other.outer_layout()?)?;
        let same = self.swizzle() == other.swizzle() && !self.is_normal() && !other.is_normal();
        for side in [self, other] {
            if side.is_normal() || same {
                continue;
            }
            let Some(swizzle) = side.swizzle() else {
                return Err(LayoutError::Unsupported {
                    operation: "max_common_vector",
                    argument: side.to_string(),
                });
            };
            vector = vector.min(&Int::new(swizzle.max_alignment()))?;
        }
        Ok(vector)
    }

    /// [`Layout::layout_like`] of the outer layout.
    ///
    /// # Errors
    /// Those of [`Layout::layout_like`].
    pub fn layout_like(&self) -> Result<Layout> {
        self.outer_layout()?.layout_like()
    }

    /// [`Layout::fragment_like`] of the outer layout.
    ///
    /// # Errors
    /// Those of [`Layout::fragment_like`].
    pub fn fragment_like(&self) -> Result<Layout> {
        self.outer_layout()?.fragment_like()
    }

    /// The tile at `coord`, as [`Layout::local_tile`].
    ///
    /// # Errors
    /// Those of [`Layout::local_tile`].
    pub fn local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: &Coord,
    ) -> Result<(ComposedLayout, IntTuple)> {
        let tiled = self.zipped_divide(tiler)?;
        let coord = super::partition::tile_coord(tiled.outer_layout()?, coord)?;
        tiled.slice_and_offset(&coord)
    }

    /// The elements of thread `index`, as [`Layout::local_partition`].
    ///
    /// # Errors
    /// Those of [`Layout::local_partition`].
    pub fn local_partition(
        &self,
        threads: &Layout,
        index: &Int,
    ) -> Result<(ComposedLayout, IntTuple)> {
        let tiler = super::partition::thread_tiler(threads)?;
        let tiled = self.zipped_divide(&tiler)?;
        let coord = super::partition::thread_coord(tiled.outer_layout()?, threads, index)?;
        tiled.slice_and_offset(&coord)
    }
}

/// `swizzle o (offset + moved) o layout`, with what the swizzle does not touch of `moved` outside,
/// and as a normal layout where `layout` does not touch both the bits that are read and those that
/// change.
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
    // Bits above all that the swizzle touches never come back down into them.
    let below = (1i64 << (i64::BITS - touched.leading_zeros())) - 1;
    let (high, low) = (moved & !below, moved & below);
    // Without common bits adding is the same as or-ing, and each bit can be looked at alone.
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

/// The layout of the changes that setting bits makes to `swizzle(offset)`, for arguments that do
/// not set both a bit that is read and the one that it changes.
fn swizzle_as_layout(swizzle: Swizzle, offset: i64) -> Result<Layout> {
    let (bits, base, distance) = (swizzle.bits(), swizzle.base(), swizzle.shift().abs());
    let (y, z) = (lowest_bit(swizzle.y_mask()), lowest_bit(swizzle.z_mask()));
    let changed = |i: i64| if offset & (y << i) == 0 { z << i } else { -(z << i) };
    let read = |i: i64| if offset & (z << i) == 0 { (y + z) << i } else { (y - z) << i };
    let mut out = super::layout::LayoutBuilder::new();
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

fn lowest_bit(mask: i64) -> i64 {
    mask & mask.wrapping_neg()
}

impl Swizzle {
    /// `self o layout`.
    ///
    /// ```
    /// # use tilewright::layout::{Swizzle, layout};
    /// let s = Swizzle::new(3, 0, 3)?.compose_layout(&layout!((8, 8):(8, 1)))?;
    /// assert_eq!(s.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// None today; the type leaves room for limits.
    pub fn compose_layout(self, layout: &Layout) -> Result<ComposedLayout> {
        if self.is_identity() {
            return Ok(layout.clone().into());
        }
        ComposedLayout::new(self, 0, layout)
    }

    /// `self o layout` of a layout that is itself composed.
    ///
    /// # Errors
    /// Those of [`Swizzle::compose`]; [`LayoutError::Unsupported`] unless a swizzle is inside.
    pub fn compose_composed(self, layout: &ComposedLayout) -> Result<ComposedLayout> {
        if let Some(layout) = layout.as_normal() {
            return self.compose_layout(layout);
        }
        let Some(inner) = layout.swizzle() else {
            return Err(LayoutError::Unsupported {
                operation: "composition of a swizzle",
                argument: layout.to_string(),
            });
        };
        let swizzle = self.compose(inner)?;
        Ok(ComposedLayout::from_parts(
            swizzle.into(),
            layout.offset().clone(),
            layout.outer().clone(),
        ))
    }
}

impl Layout {
    /// `self o swizzle`. Where `self` moves the bits of the swizzle to bits, the result is written
    /// as `swizzle' o 0 o self` with the moved bits, as in CuTe; else as `self o 0 o swizzle`.
    ///
    /// ```
    /// # use tilewright::layout::{Swizzle, layout};
    /// let s = layout!((8, 8):(8, 1)).compose_swizzle(Swizzle::new(3, 0, 3)?)?;
    /// assert_eq!(s.to_string(), "S<3,0,-3> o 0 o (8,8):(8,1)");
    /// let t = layout!((6, 8):(8, 1)).compose_swizzle(Swizzle::new(3, 0, 3)?)?;
    /// assert_eq!(t.to_string(), "(6,8):(8,1) o 0 o S<3,0,3>");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotStatic`], [`LayoutError::Overflow`].
    pub fn compose_swizzle(&self, swizzle: Swizzle) -> Result<ComposedLayout> {
        if swizzle.is_identity() {
            return Ok(self.clone().into());
        }
        let last = self.size()?.to_static()?.saturating_sub(1);
        if let Some(moved) = self.moved_swizzle(swizzle, last)? {
            return ComposedLayout::new(moved, 0, self);
        }
        ComposedLayout::new(self, 0, swizzle)
    }

    /// The swizzle `S'` with `self(swizzle(x)) == S'(self(x))` for all `x <= last`, if `self` moves
    /// the bits of those `x` to bits.
    fn moved_swizzle(&self, swizzle: Swizzle, last: i64) -> Result<Option<Swizzle>> {
        let flat = super::coalesce::Flat::<Int>::coalesced(self.as_ref(), true)?;
        if flat.shape.split_last().is_some_and(|(_, inner)| {
            inner.iter().any(|s| s.as_static().is_none_or(|s| s < 1 || s.count_ones() != 1))
        }) {
            return Ok(None);
        }
        // The bits that arguments can have, and where they go.
        let domain = if last > 0 { i64::MAX >> last.leading_zeros().saturating_sub(1) } else { 0 };
        let read = swizzle.y_mask() & domain;
        let changed =
            if swizzle.shift() >= 0 { read >> swizzle.shift() } else { read << -swizzle.shift() };
        let (mut image, mut from_domain) = (0i64, 0i64);
        let reached = domain | changed;
        for bit in (0..62).map(|i| 1i64 << i).filter(|bit| reached & bit != 0) {
            let to = self.at(bit)?;
            if to < 1 || to.count_ones() != 1 || image & to != 0 {
                return Ok(None);
            }
            image |= to;
            from_domain |= if domain & bit == 0 { 0 } else { to };
        }
        let (y, z) = (self.at(swizzle.y_mask())?, self.at(swizzle.z_mask())?);
        let Ok(moved) = Swizzle::from_masks(y.unsigned_abs(), z.unsigned_abs()) else {
            return Ok(None);
        };
        if moved.bits() != swizzle.bits() {
            return Ok(None);
        }
        let (y, z) = (lowest_bit(swizzle.y_mask()), lowest_bit(swizzle.z_mask()));
        let mut moved_reads = 0i64;
        for i in 0..swizzle.bits() {
            if domain & (y << i) != 0 {
                let (from, to) = (self.at(y << i)?, self.at(z << i)?);
                if moved.apply(from) != from ^ to {
                    return Ok(None);
                }
                moved_reads |= from;
            }
        }
        // The moved swizzle must not read a bit that another argument bit goes to.
        if moved.y_mask() & from_domain & !moved_reads != 0 {
            return Ok(None);
        }
        Ok(Some(moved))
    }

    /// `self o right` of a composed layout: the parts of `right` are composed one by one.
    ///
    /// # Errors
    /// Those of [`composition`](Layout::composition) and
    /// [`compose_swizzle`](Layout::compose_swizzle); [`LayoutError::Unsupported`] where the result
    /// would need three parts.
    pub fn compose_composed(&self, right: &ComposedLayout) -> Result<ComposedLayout> {
        if let Some(layout) = right.as_normal() {
            return Ok(self.composition(layout)?.into());
        }
        let unsupported = || LayoutError::Unsupported {
            operation: "composition with a layout on the left",
            argument: right.to_string(),
        };
        let zero = right.offset().as_static() == Some(0);
        match right.inner() {
            Part::Layout(inner) => Ok(ComposedLayout::from_parts(
                self.composition(inner)?.into(),
                right.offset().clone(),
                right.outer().clone(),
            )),
            Part::Swizzle(swizzle) if zero => {
                let outer = right.outer_layout()?;
                let last = outer.cosize()?.to_static()?.saturating_sub(1);
                let moved = self.moved_swizzle(*swizzle, last)?.ok_or_else(unsupported)?;
                moved.compose_layout(&self.composition(outer)?)
            }
            _ => Err(unsupported()),
        }
    }

    /// The block repeated over a swizzled tiler: the swizzle of the tiler moved to the bits that
    /// the tiles get.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let tiler: ComposedLayout = "S<1,0,1> o 0 o 4:1".parse()?;
    /// let l = layout!(8:1).logical_product_composed(&tiler)?;
    /// assert_eq!(l.to_string(), "S<1,3,1> o 0 o (8,4):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`logical_product`](Layout::logical_product); [`LayoutError::Unsupported`] for an
    /// offset, [`LayoutError::BadSwizzleMasks`] if the moved bits are not a swizzle.
    pub fn logical_product_composed(&self, tiler: &ComposedLayout) -> Result<ComposedLayout> {
        let product = self.logical_product(tiler.outer_layout()?)?;
        if tiler.is_normal() {
            return Ok(product.into());
        }
        let (Some(swizzle), Some(0)) = (tiler.swizzle(), tiler.offset().as_static()) else {
            return Err(LayoutError::Unsupported {
                operation: "logical_product",
                argument: tiler.to_string(),
            });
        };
        // The repetition alone maps tile numbers to indices; the swizzle acts before it.
        let size = self.size()?.mul(&tiler.outer_layout()?.cosize()?)?;
        let free = self.complement(&Tuple::leaf(size))?;
        let last = tiler.outer_layout()?.cosize()?.to_static()?.saturating_sub(1);
        match free.moved_swizzle(swizzle, last)? {
            Some(moved) => ComposedLayout::new(moved, 0, product),
            None => Err(LayoutError::BadSwizzleMasks {
                y: swizzle.y_mask().unsigned_abs(),
                z: swizzle.z_mask().unsigned_abs(),
            }),
        }
    }
}
