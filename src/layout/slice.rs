//! `slice` and `dice`: fix some entries of a coordinate, and keep the modes at the `_` or the
//! others. Use them to get the row, the tile or the elements that a thread or a thread block works
//! on.

use super::basis::Sum;
use super::coord::{Coord, CoordRef, Slot};
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tuple::{IntTuple, IntTupleRef, Tuple, TupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

pub(crate) fn check_rank(coord: CoordRef<'_>, rank: usize) -> Result<()> {
    if coord.rank() == rank {
        return Ok(());
    }
    Err(LayoutError::RankMismatch { expected: rank, found: coord.rank() })
}

/// Keeps the modes at the `_` of `coord` (`keep`), or those at its indices (`!keep`).
#[inline]
fn picked(coord: &Coord, layout: LayoutRef<'_>, keep: bool) -> Result<Layout> {
    let shape = layout.shape().picked(coord, keep)?;
    let stride = layout.stride().picked(coord, keep)?;
    Ok(Layout { codes: shape.codes, shape: shape.leaves, stride: stride.leaves })
}

/// Adds the offset of the indices of `coord`.
#[inline]
fn add_offset(coord: CoordRef<'_>, layout: LayoutRef<'_>, sum: &mut Sum) -> Result<()> {
    match coord.as_leaf() {
        Some(Slot::All) => return Ok(()),
        Some(Slot::At(index)) => {
            let last = layout.shape.len().saturating_sub(1);
            let mut rest = index.clone();
            for (i, (extent, stride)) in layout.leaves().enumerate() {
                if i == last {
                    sum.add(stride, &rest)?;
                } else {
                    sum.add(stride, &rest.modulo(extent)?)?;
                    rest = rest.floor_div(extent)?;
                }
            }
            return Ok(());
        }
        None => {}
    }
    if layout.is_leaf() {
        return Err(LayoutError::NotAnInteger { found: coord.to_string() });
    }
    check_rank(coord, layout.rank())?;
    for (i, (c, mode)) in coord.children().zip(layout.modes()).enumerate() {
        add_offset(c, mode, sum).map_err(|e| e.at(i))?;
    }
    Ok(())
}

/// Returns the offset of the indices of `coord`. If `layout` maps to coordinates, so is the offset,
/// nested like them.
#[inline]
pub(crate) fn offset_of(coord: &Coord, layout: LayoutRef<'_>) -> Result<IntTuple> {
    let mut sum = Sum::Zero;
    for (_, stride) in layout.leaves() {
        // Every basis element of the layout gets its entry, so the profile is the same for all
        // coordinates.
        sum.add(stride, &Int::ZERO)?;
    }
    add_offset(coord.as_ref(), layout, &mut sum)?;
    sum.finish()
}

/// # Slices
///
/// Fixes some entries of the coordinate and keeps the rest.
impl Layout {
    /// Keeps the modes at the `_` of a coordinate, as one tuple. For example, `(4,8):(8,1)` at
    /// `(3,_)` is the row `(8):(1)`. It says how the rest is laid out, not where it begins; for
    /// both, use [`slice_and_offset`](Layout::slice_and_offset).
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(a.slice(&coord!(1, _))?.to_string(), "((2,8)):((1,8))");
    /// assert_eq!(a.slice(&coord!(_, (1, _)))?.to_string(), "(4,8):(2,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`], or [`LayoutError::NotAnInteger`] if the coordinate is
    /// nested more deeply than the layout.
    #[inline]
    pub fn slice(&self, coord: &Coord) -> Result<Layout> {
        picked(coord, self.as_ref(), true)
    }

    /// Keeps the modes at the indices of a coordinate, which [`slice`](Layout::slice) drops. Use it
    /// to get the layout of the modes that you index.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(a.dice(&coord!(_, (1, _)))?.to_string(), "(2):(1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`slice`](Layout::slice).
    #[inline]
    pub fn dice(&self, coord: &Coord) -> Result<Layout> {
        picked(coord, self.as_ref(), false)
    }

    /// Returns the [`slice`](Layout::slice) `R`, and the layout's value at the coordinate with 0
    /// for each `_`: `self(c) == offset + R(the entries of c at the `_`)`. Use it to get the part
    /// of a tensor that a thread or a thread block works on.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, (2, 8)):(2, (1, 8)));
    /// let (rest, offset) = a.slice_and_offset(&coord!(_, (1, 2)))?;
    /// assert_eq!((rest.to_string(), offset.to_string()), ("(4):(2)".into(), "17".into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`slice`](Layout::slice), and [`LayoutError::Overflow`].
    #[inline]
    pub fn slice_and_offset(&self, coord: &Coord) -> Result<(Layout, IntTuple)> {
        Ok((self.slice(coord)?, offset_of(coord, self.as_ref())?))
    }

    /// Returns the layout itself and its value at `coord`. Together they move the origin to
    /// `coord`. Use it to shift a tensor: the offset goes to its pointer, and the layout stays.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let (l, offset) = layout!((4, 8):(8, 1)).domain_offset(&shape!(1, 2))?;
    /// assert_eq!((l.to_string(), offset), ("(4,8):(8,1)".to_owned(), 10.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`apply`](Layout::apply).
    #[inline]
    pub fn domain_offset(&self, coord: &IntTuple) -> Result<(Layout, IntTuple)> {
        Ok((self.clone(), self.apply(coord)?))
    }
}

/// Extends the tuple `coord` with `_` to `rank` modes. An integer or `_` stays as it is.
#[inline]
pub(crate) fn padded(coord: CoordRef<'_>, rank: usize) -> Result<Coord> {
    if coord.is_leaf() {
        return Ok(coord.to_owned());
    }
    let underscore = Tuple::leaf(Slot::All);
    let missing = rank.saturating_sub(coord.rank());
    let items: Vec<CoordRef<'_>> =
        coord.children().chain(std::iter::repeat_n(underscore.as_ref(), missing)).collect();
    Tuple::from_items(items)
}

/// Returns `(_, _, ..)`. One mode is sliced by one `_`, as in CuTe.
#[inline]
pub(crate) fn underscores(rank: usize) -> Result<Coord> {
    let underscore: Coord = Tuple::leaf(Slot::All);
    if rank == 1 {
        return Ok(underscore);
    }
    Tuple::from_items(std::iter::repeat_n(underscore.as_ref(), rank))
}

/// Splits a flat index into a shape, with one entry for each mode.
#[inline]
pub(crate) fn flat_coord(index: &Int, thread: LayoutRef<'_>) -> Result<Coord> {
    let mut items: Vec<Coord> = Vec::new();
    for mode in thread.modes() {
        // The index in the mode, from the strides of its leaves.
        let (mut inner, mut step) = (Int::ZERO, Int::ONE);
        for (extent, stride) in mode.leaves() {
            let stride = stride.to_int()?;
            if !extent.is(1) && !stride.is(0) {
                let digit = index.floor_div(stride)?.modulo(extent)?;
                inner = inner.add(&digit.mul(&step)?)?;
            }
            step = step.mul(extent)?;
        }
        items.push(Tuple::leaf(Slot::At(inner)));
    }
    let items: Vec<TupleRef<'_, Slot>> = items.iter().map(Tuple::as_ref).collect();
    Tuple::from_items(items)
}

/// Returns the product of each mode of a shape, as a flat tuple.
#[inline]
pub(crate) fn product_each(shape: IntTupleRef<'_>) -> Result<IntTuple> {
    let items = shape.children().map(IntTupleRef::product).collect::<Result<Vec<_>>>()?;
    Tuple::from_items(items)
}
