//! Composition with swizzles and composed layouts on either side. [`Layout::compose_swizzle`] puts
//! a swizzle on a layout.

use super::{ComposedLayout, Part, bits_of};
use crate::layout::coalesce::{Flat, Keep};
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;
use crate::layout::swizzle::{Swizzle, lowest_bit};
use crate::layout::tuple::Tuple;

type Result<T> = std::result::Result<T, LayoutError>;

/// Returns a mask of the bits that can occur in integers up to `last`.
fn bits_up_to(last: i64) -> i64 {
    if last > 0 { i64::MAX >> last.leading_zeros().saturating_sub(1) } else { 0 }
}

/// Returns a static layout's largest index, or `None` if an index may be negative, because then all
/// its high bits are set.
#[inline]
fn last_index(layout: &Layout) -> Result<Option<i64>> {
    let last = layout.cosize()?.to_static()?.saturating_sub(1);
    let negative = layout.as_ref().leaves().any(|(s, d)| !s.is(1) && d.as_static() < Some(0));
    Ok((!negative).then_some(last))
}

impl Swizzle {
    /// Returns `self o layout`: swizzles the layout's indices. This is how you make a swizzled
    /// shared-memory layout.
    ///
    /// ```
    /// # use tilewright::layout::{Swizzle, layout};
    /// let s = Swizzle::new(3, 0, 3)?.compose_layout(&layout!((8, 8):(8, 1)))?;
    /// assert_eq!(s.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// None today. The type leaves room for limits.
    #[inline]
    pub fn compose_layout(self, layout: &Layout) -> Result<ComposedLayout> {
        if self.is_identity() {
            return Ok(layout.clone().into());
        }
        ComposedLayout::new(self, 0, layout)
    }

    /// Returns `self o layout` for a layout that may already be swizzled. The two swizzles are
    /// combined. For example, the same swizzle twice gives the plain layout again.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, Swizzle};
    /// let l: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(Swizzle::new(3, 0, 3)?.compose_composed(&l)?.to_string(), "(8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Swizzle::compose`], and [`LayoutError::Unsupported`] if the inner part of
    /// `layout` is not a swizzle.
    #[inline]
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
        let (offset, outer) = (layout.offset().clone(), layout.outer().clone());
        match &outer {
            Part::Layout(plain) if swizzle.is_identity() && offset.as_static() == Some(0) => {
                Ok(plain.clone().into())
            }
            _ => Ok(ComposedLayout::from_parts(swizzle.into(), offset, outer)),
        }
    }
}

impl ComposedLayout {
    /// Returns `self o right` for two composed layouts, for example to apply one swizzled
    /// permutation after another. It composes the outer part of `self` with `right`, and then
    /// applies the inner part of `self`. The two swizzles must combine into one.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let a: ComposedLayout = "S<2,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let b: ComposedLayout = "S<2,0,-3> o 0 o (8,8):(8,1)".parse()?;
    /// // The second swizzle, moved to the bits behind `(8,8):(8,1)`, undoes the first.
    /// let c = a.compose_composed(&b)?;
    /// assert_eq!(c.to_string(), "(8,8):(1,8)");
    /// for i in 0..64 {
    ///     assert_eq!(c.apply(i)?, a.apply(&b.apply(i)?)?);
    /// }
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::compose_composed`] and [`Swizzle::compose`], and
    /// [`LayoutError::Unsupported`] if the result would need more than three parts.
    #[inline]
    pub fn compose_composed(&self, right: &ComposedLayout) -> Result<ComposedLayout> {
        if let Some(layout) = right.as_normal() {
            return self.composition(layout);
        }
        let made = self.outer_layout()?.compose_composed(right)?;
        if self.is_normal() {
            return Ok(made);
        }
        if let Some(layout) = made.as_normal() {
            return Ok(self.with_outer(layout.clone()));
        }
        match self.inner() {
            Part::Swizzle(swizzle) if self.offset().as_static() == Some(0) => {
                swizzle.compose_composed(&made)
            }
            Part::Layout(layout) if self.offset().as_static() == Some(0) => {
                layout.compose_composed(&made)
            }
            _ => Err(LayoutError::Unsupported {
                operation: "the composition of two composed layouts",
                argument: right.to_string(),
            }),
        }
    }
}

/// # Composition with swizzles
///
/// Applies swizzled layouts before a plain one.
impl Layout {
    /// Returns `self o swizzle`: swizzles the coordinates instead of the indices. Use it for a
    /// permutation that is defined on coordinates. If `self` maps the swizzle's bits to single
    /// bits, the result is `swizzle' o 0 o self` with these bits, as in CuTe. Otherwise it is `self
    /// o 0 o swizzle`.
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
    /// Returns [`LayoutError::NotStatic`] if the layout has symbols, or [`LayoutError::Overflow`].
    #[inline]
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

    /// Returns the swizzle `S'` with `self(swizzle(x)) == S'(self(x))` for all `x <= last`, if
    /// `self` maps the bits of these `x` to single bits.
    #[inline]
    fn moved_swizzle(&self, swizzle: Swizzle, last: i64) -> Result<Option<Swizzle>> {
        let mut flat = Flat::<Int>::default();
        flat.coalesce(self.as_ref(), Keep::WideAndLast)?;
        if flat.modes.split_last().is_some_and(|(_, inner)| {
            inner.iter().any(|(s, _)| s.as_static().is_none_or(|s| s < 1 || s.count_ones() != 1))
        }) {
            return Ok(None);
        }
        // The bits that can be set in an argument, and their images.
        let domain = bits_up_to(last);
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
        // The moved swizzle must not read a bit that is the image of another argument bit.
        if moved.y_mask() & from_domain & !moved_reads != 0 {
            return Ok(None);
        }
        Ok(Some(moved))
    }

    /// Returns `self o right` for a composed `right`, part by part. Use it if a swizzled layout
    /// describes coordinates of `self`.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let right: ComposedLayout = "S<3,0,-3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = layout!((8, 8):(8, 1)).compose_composed(&right)?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`composition`](Layout::composition) and
    /// [`compose_swizzle`](Layout::compose_swizzle), and [`LayoutError::Unsupported`] if the result
    /// would need three parts, or if `right`'s swizzle can get a negative index.
    #[inline]
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
                let Some(last) = last_index(outer)? else { return Err(unsupported()) };
                match self.moved_swizzle(*swizzle, last)? {
                    Some(moved) => moved.compose_layout(&self.composition(outer)?),
                    None if swizzle.y_mask() & bits_up_to(last) == 0 => {
                        Ok(self.composition(outer)?.into())
                    }
                    None => Err(unsupported()),
                }
            }
            _ => Err(unsupported()),
        }
    }

    /// Repeats the block over a swizzled tiler. In the result, the swizzle acts on the bits of the
    /// tile index, so that it permutes whole blocks. Use it to swizzle the order of tiles, for
    /// example.
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
    /// The same as [`logical_product`](Layout::logical_product); [`LayoutError::Unsupported`] if
    /// the tiler has an offset or a negative stride; [`LayoutError::BadSwizzleMasks`] if the moved
    /// bits do not form a swizzle, or if the block uses some of them, because then the swizzle
    /// would also permute elements inside the block.
    #[inline]
    pub fn logical_product_composed(&self, tiler: &ComposedLayout) -> Result<ComposedLayout> {
        let product = self.logical_product(tiler.outer_layout()?)?;
        if tiler.is_normal() {
            return Ok(product.into());
        }
        let tile = tiler.outer_layout()?;
        let (Some(swizzle), Some(0), Some(last)) =
            (tiler.swizzle(), tiler.offset().as_static(), last_index(tile)?)
        else {
            return Err(LayoutError::Unsupported {
                operation: "logical_product",
                argument: tiler.to_string(),
            });
        };
        // `free` alone maps a tile index to its first element. The swizzle acts before it.
        let size = self.size()?.mul(&tile.cosize()?)?;
        let free = self.complement(&Tuple::leaf(size))?;
        match free.moved_swizzle(swizzle, last)? {
            Some(moved)
                if spares_block(moved, &product)?
                    || self.repeats(&free, tile, swizzle, |i| moved.apply(i))? =>
            {
                ComposedLayout::new(moved, 0, product)
            }
            // There are so few tiles that the swizzle reads no bit of their indices.
            _ if swizzle.y_mask() & bits_up_to(last) == 0 => Ok(product.into()),
            _ => Err(LayoutError::BadSwizzleMasks {
                y: swizzle.y_mask().unsigned_abs(),
                z: swizzle.z_mask().unsigned_abs(),
            }),
        }
    }

    /// Checks that `moved(self(i) + free(tile(j)))` equals `self(i) + free(swizzle(tile(j)))`
    /// everywhere, by trying all `i` and `j`. Returns false if the product is too large for that.
    fn repeats(
        &self,
        free: &Layout,
        tile: &Layout,
        swizzle: Swizzle,
        moved: impl Fn(i64) -> i64,
    ) -> Result<bool> {
        let count = self.size()?.mul(&tile.size()?)?;
        if count.as_static().is_none_or(|count| count > 1 << 16) {
            return Ok(false);
        }
        let overflow = || LayoutError::overflow("logical_product");
        for t in tile.indices()? {
            let (start, wanted) = (free.at(t)?, free.at(swizzle.apply(t))?);
            for i in self.indices()? {
                let sum = |to: i64| to.checked_add(i).ok_or_else(overflow);
                if moved(sum(start)?) != sum(wanted)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Returns true if a block (a product's first mode) provably shares no bit with the swizzle and
/// with the tiles (the second mode). Then adding the block's index never carries, and the swizzle
/// leaves it alone.
#[inline]
fn spares_block(swizzle: Swizzle, product: &Layout) -> Result<bool> {
    let bits = |mode: usize| -> Result<Option<i64>> {
        let part = product.mode(&[mode])?;
        let up_to_last = || match part.stride().leaves().iter().all(|d| d.as_static() >= Some(0)) {
            true => part.to_layout().cosize().ok()?.as_static().map(|end| bits_up_to(end - 1)),
            false => None,
        };
        Ok(bits_of(part).or_else(up_to_last))
    };
    let (Some(block), Some(tiles)) = (bits(0)?, bits(1)?) else { return Ok(false) };
    Ok(block & (swizzle.y_mask() | swizzle.z_mask() | tiles) == 0)
}
