//! Inverts a [`ComposedLayout`]. Use it to ask which coordinate lies at an index of swizzled
//! memory.

use super::{ComposedLayout, Part};
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;

type Result<T> = std::result::Result<T, LayoutError>;

impl ComposedLayout {
    /// Returns a layout with `self(R(i)) == i`, namely `right_inverse(outer) o -offset o inner`. It
    /// finds the coordinate of each element in memory order. If the offset is 0, it is written as
    /// CuTe does, with a swizzle on the outside that acts on the permuted bits.
    ///
    /// The swizzle can move an index past those that the outer layout reaches. Then `R(i)` may be a
    /// coordinate past the outer layout's size, where its last mode continues.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<2,3,3> o 0 o (8,32):(32,1)".parse()?;
    /// assert_eq!(s.right_inverse()?.to_string(), "S<2,1,-5> o 0 o (32,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::right_inverse`], and [`LayoutError::Unsupported`] if a function is
    /// inside or if the swizzle moves an index to one that the outer layout does not have.
    #[inline]
    pub fn right_inverse(&self) -> Result<ComposedLayout> {
        let inverse = self.inverse(Layout::right_inverse)?;
        let (Some(swizzle), Part::Layout(outer)) = (self.swizzle(), self.outer()) else {
            return Ok(inverse);
        };
        // The swizzle must permute the outer layout's indices among themselves. If it moves an
        // index past them, the outer layout must have that index past its size.
        let plain = outer.right_inverse()?;
        let size = plain.size()?.to_static()?;
        let has = |index: i64| {
            let moved = swizzle.apply(index);
            moved < size || plain.at(moved).and_then(|at| outer.at(at)) == Ok(moved)
        };
        let is_power = size > 0 && size.count_ones() == 1 && swizzle.apply(size - 1) < size;
        let bits = (0..62).map(|bit| 1i64 << bit).take_while(|bit| *bit < size);
        let inside = is_power && bits.into_iter().all(|bit| swizzle.apply(bit) < size);
        let fits = inside || (size <= 1 << 16 && (0..size).all(has));
        if fits || self.offset().as_static() != Some(0) {
            return Ok(inverse);
        }
        Err(LayoutError::Unsupported {
            operation: "right_inverse of a swizzle that leaves the image",
            argument: self.to_string(),
        })
    }

    /// Returns a layout with `R(self(i)) == i`, if `self` is one-to-one: it maps each index back to
    /// its coordinate. It has the same form as a [`right_inverse`](ComposedLayout::right_inverse).
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let inverse = s.left_inverse()?;
    /// for i in 0..64 {
    ///     assert_eq!(inverse.apply(s.apply(i)?)?, i.into());
    /// }
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::left_inverse`], and [`LayoutError::Unsupported`] if a function is
    /// inside.
    #[inline]
    pub fn left_inverse(&self) -> Result<ComposedLayout> {
        self.inverse(Layout::left_inverse)
    }

    #[inline]
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

    /// Returns the coordinates with index 0 for a plain layout, as [`Layout::nullspace`] does. If
    /// the layout has a swizzle, an offset or a function, the result is `1:0`.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.nullspace()?, layout!(1:0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::nullspace`].
    #[inline]
    pub fn nullspace(&self) -> Result<Layout> {
        self.as_normal().map_or_else(|| Ok(Layout::trivial()), Layout::nullspace)
    }
}
