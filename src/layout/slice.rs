//! Computes `slice`, `dice` and the offset of a slice.

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

/// The modes at the `_` of `coord` (`keep`), or those at its indices (`!keep`).
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

/// The offset of the indices of `coord`. If `layout` maps to coordinates, it has their profile.
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

impl Layout {
    /// The modes at the `_` of a coordinate, as one tuple.
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
    /// [`LayoutError::RankMismatch`], [`LayoutError::NotAnInteger`].
    #[inline]
    pub fn slice(&self, coord: &Coord) -> Result<Layout> {
        picked(coord, self.as_ref(), true)
    }

    /// The modes at the indices of a coordinate, which [`slice`](Layout::slice) leaves out.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(a.dice(&coord!(_, (1, _)))?.to_string(), "(2):(1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`slice`](Layout::slice).
    #[inline]
    pub fn dice(&self, coord: &Coord) -> Result<Layout> {
        picked(coord, self.as_ref(), false)
    }

    /// [`slice`](Layout::slice), and the value of the layout at the coordinate with 0 for each `_`:
    /// `self(c) == offset + R(the entries of c at the `_`)`.
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
    /// As [`slice`](Layout::slice), [`LayoutError::Overflow`].
    #[inline]
    pub fn slice_and_offset(&self, coord: &Coord) -> Result<(Layout, IntTuple)> {
        Ok((self.slice(coord)?, offset_of(coord, self.as_ref())?))
    }

    /// The layout itself and its value at `coord`, which together move its domain by `coord`.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let (l, offset) = layout!((4, 8):(8, 1)).domain_offset(&shape!(1, 2))?;
    /// assert_eq!((l.to_string(), offset), ("(4,8):(8,1)".to_owned(), 10.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply`](Layout::apply).
    #[inline]
    pub fn domain_offset(&self, coord: &IntTuple) -> Result<(Layout, IntTuple)> {
        Ok((self.clone(), self.apply(coord)?))
    }
}

/// `coord`, a tuple, extended with `_` to `rank` modes; an integer or `_` stays.
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

/// `(_, _, ..)`; one mode is sliced by one `_`, as in CuTe.
#[inline]
pub(crate) fn underscores(rank: usize) -> Result<Coord> {
    let underscore: Coord = Tuple::leaf(Slot::All);
    if rank == 1 {
        return Ok(underscore);
    }
    Tuple::from_items(std::iter::repeat_n(underscore.as_ref(), rank))
}

/// The entries of a flat index into a shape, one for each mode.
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

/// The products of the modes of a shape, as a flat tuple.
#[inline]
pub(crate) fn product_each(shape: IntTupleRef<'_>) -> Result<IntTuple> {
    let items = shape.children().map(IntTupleRef::product).collect::<Result<Vec<_>>>()?;
    Tuple::from_items(items)
}
