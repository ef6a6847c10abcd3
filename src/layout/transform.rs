//! Applies functions to the modes of a layout, changes its shape, and reads the profile of its
//! results. Use it if an operation should run on each mode separately, or if the same elements need
//! another shape.

use super::basis::Sum;
use super::builder::LayoutBuilder;
use super::composed::ComposedLayout;
use super::error::LayoutError;
use super::int::Int;
use super::into_tuple::IntoTuple;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tuple::IntTuple;

type Result<T> = std::result::Result<T, LayoutError>;

/// # Functions of modes
///
/// Applies a function to each mode.
impl Layout {
    /// Applies `f` to each mode: `(f(mode 0), f(mode 1), ..)`, for example to coalesce each mode
    /// without merging modes. A leaf counts as its only mode. CuTe's `transform_layout`.
    ///
    /// ```
    /// # use tilewright::layout::{LayoutRef, layout};
    /// let l = layout!(((2, 4), (4, 2)):((1, 2), (8, 32)));
    /// let coalesced = l.transform_layout(|mode: LayoutRef<'_>| mode.to_layout().coalesce())?;
    /// assert_eq!(coalesced, layout!((8, 8):(1, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error of `f` with its mode, or [`LayoutError::TooLarge`].
    pub fn transform_layout(
        &self,
        mut f: impl FnMut(LayoutRef<'_>) -> Result<Layout>,
    ) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        out.open();
        for (i, mode) in self.modes().enumerate() {
            out.push_ref(f(mode).map_err(|e| e.at(i))?.as_ref());
        }
        out.close();
        out.finish()
    }

    /// Applies `f` to each pair of modes, for example to divide each mode by its own tile. Appends
    /// the modes that only one of the two layouts has. CuTe's `transform_layout` on two layouts.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout};
    /// let (a, b) = (layout!((8, 6):(1, 8)), layout!(2:1));
    /// let divided = a.transform_layout_with(&b, |mode, tile| mode.to_layout().logical_divide(&tile.to_layout()))?;
    /// assert_eq!(divided, layout!(((2, 4), 6):((1, 2), 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`transform_layout`](Layout::transform_layout).
    pub fn transform_layout_with(
        &self,
        other: &Layout,
        mut f: impl FnMut(LayoutRef<'_>, LayoutRef<'_>) -> Result<Layout>,
    ) -> Result<Layout> {
        let (mut left, mut right) = (self.modes(), other.modes());
        let mut out = LayoutBuilder::new();
        out.open();
        for i in 0.. {
            match (left.next(), right.next()) {
                (Some(a), Some(b)) => out.push_ref(f(a, b).map_err(|e| e.at(i))?.as_ref()),
                (Some(rest), None) | (None, Some(rest)) => out.push_ref(rest),
                (None, None) => break,
            }
        }
        out.close();
        out.finish()
    }
}

/// # New shapes
///
/// Keeps the elements and their order.
impl Layout {
    /// Returns a layout with the shape `shape` and `R(i) == self(i)` for every integer `i`: the
    /// composition with the compact layout of that shape. Use it to see the same elements under
    /// another shape, for example `(4,8):(8,1)` as `(2,(2,8)):(8,(16,1))` for the shape `(2,16)`.
    /// CuTe's `Layout::with_shape`.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((4, 8):(8, 1));
    /// assert_eq!(l.with_shape(&shape!(2, 16))?.to_string(), "(2,(2,8)):(8,(16,1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`composition`](Layout::composition).
    pub fn with_shape(&self, shape: impl IntoTuple<Int>) -> Result<Layout> {
        self.composition(&Layout::compact(shape.into_tuple()?))
    }
}

/// # Profiles of results
///
/// Says whether the layout maps to integers or to coordinates.
impl Layout {
    /// Returns a tuple of zeros that is nested like the layout's results, or `0` if the layout maps
    /// to integers. Use it as the offset 0 of a layout. CuTe's `coprofile`.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout, shape};
    /// assert_eq!(layout!((4, 8):(8, 1)).coprofile()?, 0.into());
    /// assert_eq!(Layout::identity((4, (2, 8)))?.coprofile()?, shape!(0, (0, 0)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::MixedCodomain`] if only some strides are basis elements.
    #[inline]
    pub fn coprofile(&self) -> Result<IntTuple> {
        let mut sum = Sum::Zero;
        for (_, stride) in self.as_ref().leaves() {
            sum.add(&stride.with_value(Int::ONE), &Int::ZERO)?;
        }
        sum.finish()
    }
}

impl ComposedLayout {
    /// Gives the outer layout another shape, as [`Layout::with_shape`] does: `R(i) == self(i)` for
    /// every integer `i`.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.with_shape(&shape!(4, 16))?.to_string(), "S<3,0,3> o 0 o (4,(2,8)):(8,(32,1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::with_shape`], and [`LayoutError::Unsupported`] if the outer part is a
    /// swizzle.
    pub fn with_shape(&self, shape: impl IntoTuple<Int>) -> Result<ComposedLayout> {
        Ok(self.with_outer(self.outer_layout()?.with_shape(shape)?))
    }
}
