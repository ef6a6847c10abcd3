//! Recasts a [`ComposedLayout`] to wider or narrower elements, and computes how wide a vector
//! access to it may be.

use super::{ComposedLayout, Part};
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;
use crate::layout::recast::recast_steps;
use crate::layout::swizzle::Swizzle;

type Result<T> = std::result::Result<T, LayoutError>;

impl ComposedLayout {
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

    /// Returns the layout of the same memory for elements `n` times as wide. If there is a swizzle,
    /// `n` must be a power of two. Use it to see swizzled memory as vectors.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<1,4,3> o 0 o (32,8):(1,32)".parse()?;
    /// assert_eq!(s.upcast(2)?.to_string(), "S<1,3,3> o 0 o (16,8):(1,16)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::upcast`] and [`Swizzle::upcast`].
    #[inline]
    pub fn upcast(&self, n: i64) -> Result<ComposedLayout> {
        self.recast_by(|s| s.upcast(n), |o| o.exact_div(&Int::new(n)), |l| l.upcast(n))
    }

    /// Returns the layout of the same memory for elements 1/`n` as wide. Use it to see the elements
    /// inside vectors.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<1,3,3> o 0 o (16,8):(1,16)".parse()?;
    /// assert_eq!(s.downcast(2)?.to_string(), "S<1,4,3> o 0 o (32,8):(1,32)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::downcast`] and [`Swizzle::downcast`].
    #[inline]
    pub fn downcast(&self, n: i64) -> Result<ComposedLayout> {
        self.recast_by(|s| s.downcast(n), |o| o.mul(&Int::new(n)), |l| l.downcast(n))
    }

    /// Returns the layout of the same memory for elements of `new_bits` instead of `old_bits`, as
    /// [`Layout::recast_layout`] does.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<1,4,3> o 0 o (32,8):(1,32)".parse()?;
    /// assert_eq!(s.recast_layout(8, 16)?.to_string(), "S<1,3,3> o 0 o (16,8):(1,16)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`upcast`](ComposedLayout::upcast) and [`downcast`](ComposedLayout::downcast).
    #[inline]
    pub fn recast_layout(&self, old_bits: i64, new_bits: i64) -> Result<ComposedLayout> {
        match recast_steps(old_bits, new_bits)? {
            (1, 1) => Ok(self.clone()),
            (1, down) => self.downcast(down),
            (up, 1) => self.upcast(up),
            (up, down) => self.upcast(up)?.downcast(down),
        }
    }

    /// Returns the largest `n` for which every block of `n` elements provably stays contiguous and
    /// aligned; at least 1. It limits how wide a vector access can be.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<1,3,3> o 0 o (16,8):(1,16)".parse()?;
    /// assert_eq!(s.max_alignment()?, 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::max_alignment`].
    #[inline]
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

    /// Returns [`Layout::max_common_layout`] of two layouts, of which at most one may be swizzled.
    /// A swizzle limits the result to the block that it leaves contiguous.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<1,3,3> o 0 o (16,8):(1,16)".parse()?;
    /// assert_eq!(s.max_common_layout(&layout!((16, 8):(1, 16)).into())?, layout!(8:1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::max_common_layout`], and [`LayoutError::Unsupported`] if both are
    /// swizzled.
    #[inline]
    pub fn max_common_layout(&self, other: &ComposedLayout) -> Result<Layout> {
        let swizzle = match (self.as_normal(), other.as_normal()) {
            (Some(a), Some(b)) => return a.max_common_layout(b),
            (None, Some(_)) => self.swizzle(),
            (Some(_), None) => other.swizzle(),
            (None, None) => None,
        };
        let Some(swizzle) = swizzle else {
            return Err(LayoutError::Unsupported {
                operation: "max_common_layout of two composed layouts",
                argument: other.to_string(),
            });
        };
        let (own, other) = (self.outer_layout()?, other.outer_layout()?);
        let common = own.max_common_layout(other)?;
        let block = swizzle.max_alignment();
        if Int::new(block).at_least(&common.size()?) {
            return Ok(common);
        }
        own.common_layout(other, block)
    }

    /// Returns how many elements can be copied as one vector, as [`Layout::max_common_vector`]
    /// does. Unless both swizzles are equal, a vector is at most as long as the block that each
    /// swizzle leaves contiguous.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<1,3,3> o 0 o (16,8):(1,16)".parse()?;
    /// assert_eq!(s.max_common_vector(&layout!((16, 8):(1, 16)).into())?, 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::max_common_vector`], and [`LayoutError::Unsupported`] if something
    /// other than a swizzle is inside.
    #[inline]
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
}
