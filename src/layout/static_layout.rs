//! [`StaticLayout`] is a static layout that was checked once, so that its accessors cannot fail.
//! Use it in host code that computes with plain integers.

use super::error::LayoutError;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::walk::Indices;

type Result<T> = std::result::Result<T, LayoutError>;

/// A static layout into the integers whose size and cosize fit in 64 bits. Get it from
/// [`Layout::to_static`] if you want plain `i64` values without a `?` on every call.
///
/// ```
/// use tilewright::layout::{StaticLayout, layout};
/// let l = layout!((4, (2, 8)):(2, (1, 8)));
/// let l: StaticLayout<'_> = l.to_static()?;
/// assert_eq!((l.size(), l.cosize(), l.rank(), l.depth()), (64, 64, 2, 2));
/// assert_eq!((l.at(7), l.at(64)), (Some(7 % 4 * 2 + 7 / 4), None));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StaticLayout<'a> {
    layout: LayoutRef<'a>,
    indices: Indices,
    size: i64,
    cosize: i64,
}

/// # Static layouts
///
/// Checks once that there are no symbols, so that sizes are plain integers.
impl Layout {
    /// Checks the layout once, so that you can write `l.to_static()?.size()` instead of
    /// `l.size()?.to_static()?`.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout, layout};
    /// assert_eq!(layout!((4, 8):(8, 1)).to_static()?.size(), 32);
    /// assert!(Layout::leaf(Int::symbol("n"), 1).to_static().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotStatic`] if there are symbols, [`LayoutError::NotAnIntegerStride`]
    /// if a stride is a basis element or a fraction, [`LayoutError::ExtentNotPositive`], or
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn to_static(&self) -> Result<StaticLayout<'_>> {
        self.as_ref().to_static()
    }
}

impl<'a> LayoutRef<'a> {
    /// Checks one mode of a layout, as [`Layout::to_static`] checks a whole layout. Use it to get a
    /// mode's size or strides as plain `i64` values.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.mode(&[1])?.to_static()?.cosize(), 58);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::to_static`].
    #[inline]
    pub fn to_static(self) -> Result<StaticLayout<'a>> {
        let indices = Indices::of(self)?;
        let (size, cosize) = (self.size()?.to_static()?, self.cosize()?.to_static()?);
        Ok(StaticLayout { layout: self, indices, size, cosize })
    }
}

impl<'a> StaticLayout<'a> {
    /// Returns how many coordinates there are: the product of the extents. For example, it is the
    /// length of a loop over the layout.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(8, 1)).to_static()?.size(), 32);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Returns one more than the largest index, if no stride is negative: the number of elements
    /// that a buffer for the layout needs. See [`Layout::cosize`] for negative strides.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 4):(8, 0)).to_static()?.cosize(), 9);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn cosize(&self) -> i64 {
        self.cosize
    }

    /// Returns how many modes there are. A leaf counts as one mode. Compare it with the rank that
    /// your code expects.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, (2, 8)):(2, (1, 8))).to_static()?.rank(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Returns how deeply the shape is nested: 0 for a leaf, 1 for `(4,8)`, and 2 for `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, (2, 8)):(2, (1, 8))).to_static()?.depth(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn depth(&self) -> usize {
        self.layout.depth()
    }

    /// Returns the layout itself, borrowed. Use it for operations that `StaticLayout` does not
    /// have.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, 8):(8, 1));
    /// assert_eq!(l.to_static()?.layout().to_layout(), l);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn layout(&self) -> LayoutRef<'a> {
        self.layout
    }

    /// Iterates over the leaves in pre-order, as extent and stride. Use it for loops over plain
    /// integers.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert!(l.to_static()?.leaves().eq([(4, 2), (2, 1), (8, 8)]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn leaves(&self) -> impl Iterator<Item = (i64, i64)> + 'a {
        // The constructor made sure that each is static.
        let number = |(s, d): (&crate::layout::Int, &crate::layout::ScaledBasis)| {
            (s.as_static().unwrap_or(1), d.as_static().unwrap_or(0))
        };
        self.layout.leaves().map(number)
    }

    /// Returns the index of the coordinate `i`, or `None` outside `0..size`. To visit all
    /// coordinates, [`indices`](StaticLayout::indices) is faster.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, 8):(8, 1));
    /// assert_eq!((l.to_static()?.at(9), l.to_static()?.at(32)), (Some(10), None));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn at(&self, i: i64) -> Option<i64> {
        let mut rest = i;
        let index = |(s, d): (i64, i64)| {
            let digit = rest % s;
            rest /= s;
            digit * d
        };
        (0..self.size).contains(&i).then(|| self.leaves().map(index).sum())
    }

    /// Iterates over the indices `self(0), self(1), ..`, in the order of the coordinates. Use it
    /// for a loop over all elements.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 3):(3, 1));
    /// assert!(l.to_static()?.indices().eq([0, 3, 1, 4, 2, 5]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn indices(&self) -> Indices {
        self.indices.clone()
    }
}
