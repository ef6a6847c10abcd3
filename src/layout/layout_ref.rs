//! [`LayoutRef`] is a borrowed mode of a layout. [`Layout::mode`] returns one, so that you can read
//! a mode without copying it.

use std::fmt;

use super::basis::{ScaledBasis, Sum};
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, StrideRef};
use super::profile::{Codes, LEAF};
use super::tuple::{IntTuple, IntTupleRef, TupleRef, first_subtree, product};

type Result<T> = std::result::Result<T, LayoutError>;

/// A borrowed mode of a [`Layout`], or the whole layout. [`Layout::mode`] and [`Layout::modes`]
/// return it, so that you can read a mode's shape, strides or size without copying it. It is
/// `Copy`. To run operations of the algebra on it, call [`to_layout`](LayoutRef::to_layout) first.
///
/// ```
/// use tilewright::layout::{LayoutRef, layout};
/// let l = layout!((4, (2, 8)):(2, (1, 8)));
/// let mode: LayoutRef<'_> = l.mode(&[1])?;
/// assert_eq!((mode.to_string(), mode.size()?.as_static()), ("(2,8):(1,8)".into(), Some(16)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy)]
pub struct LayoutRef<'a> {
    pub(crate) codes: &'a [u16],
    pub(crate) shape: &'a [Int],
    pub(crate) stride: &'a [ScaledBasis],
}

impl<'a> LayoutRef<'a> {
    /// Returns the mode's shape: its extents, nested as its coordinates are.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.mode(&[1])?.shape().to_owned(), shape!(2, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn shape(self) -> IntTupleRef<'a> {
        TupleRef { codes: self.codes, leaves: self.shape }
    }

    /// Returns the mode's strides, which are congruent to its shape. Use them to read the memory
    /// order within the mode.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.mode(&[1])?.stride().to_string(), "(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn stride(self) -> StrideRef<'a> {
        TupleRef { codes: self.codes, leaves: self.stride }
    }

    /// Returns true for a leaf, that is, one extent with one stride and no parentheses. A recursive
    /// function tests it before it visits the modes.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert!(l.mode(&[0])?.is_leaf() && !l.mode(&[1])?.is_leaf());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.codes.first() == Some(&LEAF)
    }

    /// Returns how many modes there are. A leaf counts as one mode. Compare it with the rank that
    /// your code expects.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!((l.mode(&[0])?.rank(), l.mode(&[1])?.rank()), (1, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn rank(self) -> usize {
        self.shape().rank()
    }

    /// Iterates over the modes inside this mode. For a leaf, it returns the leaf itself.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert!(l.mode(&[1])?.modes().map(|mode| mode.to_string()).eq(["2:1", "8:8"]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn modes(self) -> Modes<'a> {
        let codes = if self.is_leaf() { self.codes } else { self.codes.get(1..).unwrap_or(&[]) };
        Modes { rest: LayoutRef { codes, ..self } }
    }

    /// Iterates over the extents and strides of the leaves, in order. Use it if the nesting does
    /// not matter.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// let extents: Vec<i64> = l.as_ref().leaves().filter_map(|(s, _)| s.as_static()).collect();
    /// assert_eq!(extents, [4, 2, 8]);
    /// ```
    #[inline]
    pub fn leaves(self) -> impl DoubleEndedIterator<Item = (&'a Int, &'a ScaledBasis)> {
        self.shape.iter().zip(self.stride)
    }

    /// Returns how many coordinates there are: the product of the extents. In CuTe, this is
    /// `size<I>(layout)`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.mode(&[1])?.size()?, 16);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the product does not fit in 64 bits.
    #[inline]
    pub fn size(self) -> Result<Int> {
        product(self.shape)
    }

    /// Returns how deeply the mode is nested: 0 for a leaf, 1 for `(2,8)`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!((l.mode(&[0])?.depth(), l.mode(&[1])?.depth()), (0, 1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn depth(self) -> usize {
        self.shape().depth()
    }

    /// Returns one more than the largest index, if no stride is negative, as [`Layout::cosize`]
    /// does. A buffer for the mode needs as many elements.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, (2, 8)):(2, (1, 8))).mode(&[1])?.cosize()?, 58);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`coshape`](LayoutRef::coshape).
    #[inline]
    pub fn cosize(self) -> Result<Int> {
        self.coshape()?.product()
    }

    /// Returns the smallest shape that contains all results, as [`Layout::coshape`] does. Use it to
    /// bound the indices or coordinates that the mode reaches.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.mode(&[0])?.coshape()?, 7.into());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`], or [`LayoutError::NotAnIntegerStride`] if a stride is a
    /// fraction.
    #[inline]
    pub fn coshape(self) -> Result<IntTuple> {
        let mut sum = Sum::Zero;
        for (extent, stride) in self.leaves() {
            let last = extent.sub(&Int::ONE)?;
            match stride.value() {
                Some(value) => sum.add(&stride.with_value(value.abs()?), &last)?,
                None => return Err(LayoutError::NotAnIntegerStride { stride: stride.to_string() }),
            }
        }
        sum.finish()?.map(|leaf| leaf.add(&Int::ONE))
    }

    /// Copies the mode into a layout of its own, so that you can run operations of the algebra on
    /// it.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.mode(&[1])?.to_layout(), layout!((2, 8):(1, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn to_layout(self) -> Layout {
        Layout {
            codes: Codes::from_slice(self.codes),
            shape: self.shape.iter().cloned().collect(),
            stride: self.stride.iter().cloned().collect(),
        }
    }
}

/// Iterates over the modes of a layout. [`Layout::modes`] returns it.
///
/// ```
/// use tilewright::layout::{Modes, layout};
/// let l = layout!((4, (2, 8)):(2, (1, 8)));
/// let mut modes: Modes<'_> = l.modes();
/// assert_eq!(modes.next().map(|mode| mode.to_string()), Some("4:2".into()));
/// assert_eq!(modes.next().map(|mode| mode.to_string()), Some("(2,8):(1,8)".into()));
/// assert!(modes.next().is_none());
/// ```
pub struct Modes<'a> {
    rest: LayoutRef<'a>,
}

impl<'a> Iterator for Modes<'a> {
    type Item = LayoutRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<LayoutRef<'a>> {
        if self.rest.codes.is_empty() {
            return None;
        }
        let (nodes, leaves) = first_subtree(self.rest.codes);
        let (codes, codes_rest) = self.rest.codes.split_at(nodes);
        let (shape, shape_rest) = self.rest.shape.split_at(leaves);
        let (stride, stride_rest) = self.rest.stride.split_at(leaves);
        self.rest = LayoutRef { codes: codes_rest, shape: shape_rest, stride: stride_rest };
        Some(LayoutRef { codes, shape, stride })
    }
}

impl PartialEq for LayoutRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.codes == other.codes && self.shape == other.shape && self.stride == other.stride
    }
}

impl fmt::Display for LayoutRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape().fmt(f)?;
        f.write_str(":")?;
        self.stride().fmt(f)
    }
}
impl fmt::Debug for LayoutRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}
