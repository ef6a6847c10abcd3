//! [`Coord`], the coordinate type for slicing, and the maps between coordinates and indices:
//! `crd2idx`, `idx2crd`, `crd2crd`. Use the maps to find where an element lies, or which element
//! lies at an index.

use std::fmt;

use super::basis::{ScaledBasis, Sum};
use super::error::LayoutError;
use super::int::{Env, Int};
use super::into_tuple::{Builder, IntoTuple};
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tuple::{IntTuple, IntTupleRef, Tuple, TupleRef, product};

type Result<T> = std::result::Result<T, LayoutError>;

/// A leaf of a [`Coord`]: an index into the mode, or `_` for the whole mode. You match on it if you
/// walk a coordinate yourself.
///
/// ```
/// use tilewright::layout::{Slot, coord};
/// assert_eq!(coord!(3, _).leaves(), [Slot::At(3.into()), Slot::All]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Slot {
    /// An index into the mode.
    At(Int),
    /// `_`: keeps the whole mode.
    All,
}

/// A coordinate in which a mode may be `_`, for slicing. Write it with `coord!`. If no mode is `_`,
/// an [`IntTuple`] is enough.
///
/// ```
/// use tilewright::layout::{Coord, coord};
/// let c: Coord = coord!(1, (_, 2));
/// assert_eq!(c.to_string(), "(1,(_,2))");
/// assert_eq!("(1,(_,2))".parse::<Coord>()?, c);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type Coord = Tuple<Slot>;
/// A borrowed subtree of a [`Coord`]. [`mode`](Tuple::mode) returns one, so that you can look at
/// part of a coordinate without copying it.
///
/// ```
/// use tilewright::layout::{Coord, CoordRef, coord};
/// let c: Coord = coord!(1, (_, 2));
/// let inner: CoordRef<'_> = c.mode(&[1])?;
/// assert_eq!(inner.to_string(), "(_,2)");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type CoordRef<'a> = TupleRef<'a, Slot>;

/// The value that `_` stands for in `coord!` and `tiler!`. Use it if you build a [`Coord`] or a
/// tiler without the macro.
///
/// ```
/// use tilewright::layout::{Coord, Tiler, Underscore, coord, tiler};
/// assert_eq!(Coord::from((1, Underscore)), coord!(1, _));
/// assert_eq!(Tiler::from((4, Underscore)), tiler!(4, _));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Underscore;

impl From<Int> for Slot {
    fn from(value: Int) -> Self {
        Slot::At(value)
    }
}
impl From<Underscore> for Slot {
    fn from(_: Underscore) -> Self {
        Slot::All
    }
}
impl<L: From<Underscore>> IntoTuple<L> for Underscore {
    fn push_into(self, out: &mut Builder<L>) {
        out.push(Underscore);
    }
}
impl IntoTuple<Slot> for &IntTuple {
    #[inline]
    fn push_into(self, out: &mut Builder<Slot>) {
        out.push_tree(Coord::from(self).as_ref());
    }
}
impl From<&IntTuple> for Coord {
    #[inline]
    fn from(tuple: &IntTuple) -> Self {
        Tuple {
            codes: tuple.codes.clone(),
            leaves: tuple.leaves.iter().cloned().map(Slot::At).collect(),
        }
    }
}
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::At(value) => value.fmt(f),
            Slot::All => f.write_str("_"),
        }
    }
}
impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}

impl Coord {
    /// Returns true if a leaf is `_`, so that the coordinate selects whole modes and not a single
    /// element.
    ///
    /// ```
    /// # use tilewright::layout::coord;
    /// assert!(coord!(1, (_, 2)).has_underscore() && !coord!(1, 2).has_underscore());
    /// ```
    pub fn has_underscore(&self) -> bool {
        self.leaves.contains(&Slot::All)
    }

    /// Converts the coordinate to integers. Use it where a coordinate must select a single element.
    /// `operation` is the name that appears in the error if there is a `_`.
    ///
    /// ```
    /// # use tilewright::layout::{coord, shape};
    /// assert_eq!(coord!(1, 2).to_ints("slice")?, shape!(1, 2));
    /// assert!(coord!(1, _).to_ints("slice").is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::UnexpectedUnderscore`] if a leaf is `_`.
    #[inline]
    pub fn to_ints(&self, operation: &'static str) -> Result<IntTuple> {
        self.map(|slot| match slot {
            Slot::At(value) => Ok(value.clone()),
            Slot::All => Err(LayoutError::UnexpectedUnderscore { operation }),
        })
    }

    /// Replaces the symbols by their values in `env`. Use it when the indices are known.
    ///
    /// ```
    /// # use tilewright::layout::{Coord, Env, Int, Underscore, coord};
    /// let c = Coord::from((Int::symbol("i"), Underscore));
    /// assert_eq!(c.eval(&Env::new().with("i", 3))?, coord!(3, _));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::eval`].
    #[inline]
    pub fn eval(&self, env: &Env) -> Result<Coord> {
        self.map(|slot| {
            Ok(match slot {
                Slot::At(value) => Slot::At(value.eval(env)?.into()),
                Slot::All => Slot::All,
            })
        })
    }
}

fn rank_mismatch(expected: usize, found: usize) -> LayoutError {
    LayoutError::RankMismatch { expected, found }
}

/// Calls `step` for each leaf of `layout`, with that leaf's part of the coordinate.
fn distribute<'a>(
    coord: IntTupleRef<'_>,
    layout: LayoutRef<'a>,
    step: &mut impl FnMut(&'a Int, &'a ScaledBasis, &Int) -> Result<()>,
) -> Result<()> {
    if let Some(index) = coord.as_leaf() {
        return distribute_index(index, layout, step);
    }
    if layout.is_leaf() {
        return Err(LayoutError::NotAnInteger { found: coord.to_string() });
    }
    if coord.rank() != layout.rank() {
        return Err(rank_mismatch(layout.rank(), coord.rank()));
    }
    for (i, (c, mode)) in coord.children().zip(layout.modes()).enumerate() {
        distribute(c, mode, step).map_err(|e| e.at(i))?;
    }
    Ok(())
}

/// Splits an integer into mixed-radix digits, one for each leaf. The last leaf takes what is left.
fn distribute_index<'a>(
    index: &Int,
    layout: LayoutRef<'a>,
    step: &mut impl FnMut(&'a Int, &'a ScaledBasis, &Int) -> Result<()>,
) -> Result<()> {
    let last = layout.shape.len().saturating_sub(1);
    let mut rest = index.clone();
    for (i, (extent, stride)) in layout.leaves().enumerate() {
        if i == last {
            step(extent, stride, &rest)?;
        } else {
            step(extent, stride, &rest.modulo(extent)?)?;
            rest = rest.floor_div(extent)?;
        }
    }
    Ok(())
}

/// # Coordinates and indices
///
/// Applies the layout to a coordinate.
impl Layout {
    /// Returns the index of a coordinate, `L(c)`. The layout must map to integers; if its strides
    /// are basis elements, use [`apply`](Layout::apply).
    ///
    /// As in CuTe, the coordinate may be outside the shape: each entry is multiplied by its stride,
    /// and an integer past the end continues in the last mode. A negative integer does the same:
    /// all its entries but the last are at least 0, and the last one is `floor(c / n)`, where `n`
    /// is the product of the other extents. (C++ rounds toward zero instead.)
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(a.crd2idx((1, (1, 3)))?, 27);
    /// assert_eq!(a.crd2idx((1, 7))?, 27);
    /// assert_eq!(a.crd2idx(29)?, 27);
    /// assert_eq!(layout!((4, 4):(4, 1)).crd2idx(-1)?, 3 * 4 - 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] or [`LayoutError::NotAnInteger`] if the coordinate
    /// does not fit the shape, [`LayoutError::NotAnIndex`] if a stride is a basis element,
    /// [`LayoutError::NotAnIntegerStride`] if a stride is a fraction, and
    /// [`LayoutError::Overflow`].
    pub fn crd2idx(&self, coord: impl IntoTuple<Int>) -> Result<Int> {
        let coord = coord.into_tuple()?;
        let mut sum = Int::ZERO;
        distribute(coord.as_ref(), self.as_ref(), &mut |_, stride, c| {
            sum = sum.add(&index_stride(stride)?.mul(c)?)?;
            Ok(())
        })?;
        Ok(sum)
    }

    /// Returns the value at a coordinate: an integer, or a coordinate if the strides are basis
    /// elements. For example, the identity on `(4,8)` maps 13 to `(1,3)`.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, shape};
    /// assert_eq!(Layout::identity((4, 8))?.apply(13)?, shape!(1, 3));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`crd2idx`](Layout::crd2idx), except that basis elements are allowed. Returns
    /// [`LayoutError::MixedCodomain`] if only some strides are basis elements.
    pub fn apply(&self, coord: impl IntoTuple<Int>) -> Result<IntTuple> {
        let coord = coord.into_tuple()?;
        let mut sum = Sum::Zero;
        distribute(coord.as_ref(), self.as_ref(), &mut |_, stride, c| sum.add(stride, c))?;
        sum.finish()
    }

    /// Returns the index of the `index`-th coordinate of a static layout. It is the fast form of
    /// [`crd2idx`](Layout::crd2idx), for loops over a layout.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(8, 1)).at(5)?, 9);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotStatic`] if the layout has symbols, [`LayoutError::NotAnIndex`] if
    /// a stride is a basis element, [`LayoutError::NotAnIntegerStride`] if it is a fraction,
    /// [`LayoutError::Overflow`], and [`LayoutError::DivisionByZero`] if an extent is 0.
    #[inline]
    pub fn at(&self, index: i64) -> Result<i64> {
        let overflow = || LayoutError::overflow("crd2idx");
        let Some((last, inner)) = self.shape.split_last() else { return Ok(0) };
        let (mut rest, mut sum) = (index, 0i64);
        for (extent, stride) in inner.iter().zip(&self.stride) {
            let (Some(extent), Some(stride)) = (extent.as_static(), stride.as_static()) else {
                return Err(not_a_number(extent, stride));
            };
            let digit;
            if extent > 0 && rest >= 0 {
                // Unsigned division is cheaper, and most indices are not negative.
                let (n, d) = (rest.unsigned_abs(), extent.unsigned_abs());
                let quotient =
                    if (n | d) >> 32 == 0 { u64::from(n as u32 / d as u32) } else { n / d };
                digit = (n - quotient * d).cast_signed();
                rest = quotient.cast_signed();
            } else if extent == 0 {
                return Err(LayoutError::DivisionByZero { operation: "crd2idx" });
            } else {
                let quotient = super::int::floor_div_i64(rest, extent).ok_or_else(overflow)?;
                // The remainder fits even if this product wraps.
                digit = rest.wrapping_sub(quotient.wrapping_mul(extent));
                rest = quotient;
            }
            let step = digit.checked_mul(stride).ok_or_else(overflow)?;
            sum = sum.checked_add(step).ok_or_else(overflow)?;
        }
        let stride = &self.stride[inner.len()];
        let Some(step) = stride.as_static() else { return Err(not_a_number(last, stride)) };
        let step = rest.checked_mul(step).ok_or_else(overflow)?;
        sum.checked_add(step).ok_or_else(overflow)
    }
}

/// Returns the stride as an integer, or says why it is none.
fn index_stride(stride: &ScaledBasis) -> Result<&Int> {
    match stride.as_int() {
        None if stride.is_basis() => Err(LayoutError::NotAnIndex { stride: stride.to_string() }),
        _ => stride.to_int(),
    }
}

#[cold]
fn not_a_number(extent: &Int, stride: &ScaledBasis) -> LayoutError {
    let error = extent.to_static().and_then(|_| index_stride(stride)?.to_static());
    error.err().unwrap_or(LayoutError::overflow("crd2idx"))
}

/// Returns the position of a coordinate when a shape is counted through with the first mode
/// fastest: `c0 + s0 * (c1 + s1 * ..)`. For example, `(1,(1,3))` is at position 29 of `(4,(2,8))`.
/// For the index in a layout, use [`Layout::crd2idx`].
///
/// ```
/// use tilewright::layout::{crd2idx, shape};
/// assert_eq!(crd2idx(&shape!(1, (1, 3)), &shape!(4, (2, 8)))?, 29);
/// assert_eq!(crd2idx(&shape!(1, 7), &shape!(4, (2, 8)))?, 29);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Returns [`LayoutError::RankMismatch`] or [`LayoutError::NotAnInteger`] if the coordinate does
/// not fit the shape, or [`LayoutError::Overflow`].
#[inline]
pub fn crd2idx(coord: &IntTuple, shape: &IntTuple) -> Result<Int> {
    #[inline]
    fn walk(
        coord: IntTupleRef<'_>,
        shape: IntTupleRef<'_>,
        sum: &mut Int,
        stride: &mut Int,
        last: bool,
    ) -> Result<()> {
        if let Some(c) = coord.as_leaf() {
            *sum = sum.add(&c.mul(stride)?)?;
            if !last {
                *stride = stride.mul(&product(shape.leaves())?)?;
            }
            return Ok(());
        }
        if shape.is_leaf() {
            return Err(LayoutError::NotAnInteger { found: coord.to_string() });
        }
        let rank = shape.rank();
        if coord.rank() != rank {
            return Err(rank_mismatch(rank, coord.rank()));
        }
        for (i, (c, s)) in coord.children().zip(shape.children()).enumerate() {
            walk(c, s, sum, stride, last && i + 1 == rank).map_err(|e| e.at(i))?;
        }
        Ok(())
    }
    let (mut sum, mut stride) = (Int::ZERO, Int::ONE);
    walk(coord.as_ref(), shape.as_ref(), &mut sum, &mut stride, true)?;
    Ok(sum)
}

/// Returns the coordinate at a position when a shape is counted through with the first mode
/// fastest: position 29 of `(4,(2,8))` is `(1,(1,3))`. If `index` is a tuple, each entry is split
/// within its own mode. An index past the end continues in the last entry.
///
/// ```
/// use tilewright::layout::{idx2crd, shape};
/// assert_eq!(idx2crd(&29.into(), &shape!(4, (2, 8)))?, shape!(1, (1, 3)));
/// assert_eq!(idx2crd(&shape!(1, 7), &shape!(4, (2, 8)))?, shape!(1, (1, 3)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Returns [`LayoutError::RankMismatch`] or [`LayoutError::NotAnInteger`] if a tuple index does not
/// fit the shape, or [`LayoutError::DivisionByZero`] if an extent is 0.
#[inline]
pub fn idx2crd(index: &IntTuple, shape: &IntTuple) -> Result<IntTuple> {
    #[inline]
    fn walk(index: IntTupleRef<'_>, shape: IntTupleRef<'_>, out: &mut Builder<Int>) -> Result<()> {
        if let Some(index) = index.as_leaf() {
            let mut rest = index.clone();
            let mut remaining = shape.leaves().len();
            return split(&mut rest, &mut remaining, shape, out);
        }
        if shape.is_leaf() {
            return Err(LayoutError::NotAnInteger { found: index.to_string() });
        }
        if index.rank() != shape.rank() {
            return Err(rank_mismatch(shape.rank(), index.rank()));
        }
        out.open();
        for (i, (x, s)) in index.children().zip(shape.children()).enumerate() {
            walk(x, s, out).map_err(|e| e.at(i))?;
        }
        out.close();
        Ok(())
    }
    #[inline]
    fn split(
        rest: &mut Int,
        remaining: &mut usize,
        shape: IntTupleRef<'_>,
        out: &mut Builder<Int>,
    ) -> Result<()> {
        if let Some(extent) = shape.as_leaf() {
            *remaining -= 1;
            if *remaining == 0 {
                out.push(rest.clone());
            } else {
                out.push(rest.modulo(extent)?);
                *rest = rest.floor_div(extent)?;
            }
            return Ok(());
        }
        out.open();
        for child in shape.children() {
            split(rest, remaining, child, out)?;
        }
        out.close();
        Ok(())
    }
    let mut out = Builder::new();
    walk(index.as_ref(), shape.as_ref(), &mut out)?;
    out.finish()
}

/// Returns the coordinate with the index `index` in a compact layout, for example to find which
/// element lies at an offset in memory. Each entry is `(index / stride) % extent`, and 0 if the
/// extent is 1. For example, index 9 of `(4,8):(8,1)` is `(1,1)`.
///
/// ```
/// use tilewright::layout::{idx2crd_with, layout, shape};
/// assert_eq!(idx2crd_with(&9.into(), &layout!((4, 8):(8, 1)))?, shape!(1, 1));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// The same as [`idx2crd`], and [`LayoutError::NotAnIntegerStride`] if a stride is a basis element
/// or a fraction.
#[inline]
pub fn idx2crd_with(index: &IntTuple, layout: &Layout) -> Result<IntTuple> {
    #[inline]
    fn walk(index: IntTupleRef<'_>, layout: LayoutRef<'_>, out: &mut Builder<Int>) -> Result<()> {
        if let (Some(i), Some(extent), Some(stride)) =
            (index.as_leaf(), layout.shape().as_leaf(), layout.stride().as_leaf())
        {
            out.push(if extent.is(1) {
                Int::ZERO
            } else {
                i.floor_div(stride.to_int()?)?.modulo(extent)?
            });
            return Ok(());
        }
        if layout.is_leaf() {
            return Err(LayoutError::NotAnInteger { found: index.to_string() });
        }
        if !index.is_leaf() && index.rank() != layout.rank() {
            return Err(rank_mismatch(layout.rank(), index.rank()));
        }
        out.open();
        for (i, mode) in layout.modes().enumerate() {
            let part = if index.is_leaf() { Some(index) } else { index.child(i) };
            walk(part.unwrap_or(index), mode, out).map_err(|e| e.at(i))?;
        }
        out.close();
        Ok(())
    }
    let mut out = Builder::new();
    walk(index.as_ref(), layout.as_ref(), &mut out)?;
    out.finish()
}

/// Converts a coordinate of the shape `src` to the coordinate of `dst` at the same position. For
/// example, 13 in the shape 32 is `(1,3)` in `(4,8)`. Use it to follow an element through a change
/// of shape. If all three are tuples, it converts mode by mode.
///
/// ```
/// use tilewright::layout::{crd2crd, shape};
/// assert_eq!(crd2crd(&shape!(1, 3), &shape!(4, 8), &shape!(2, 16))?, shape!(1, 3));
/// assert_eq!(crd2crd(&13.into(), &32.into(), &shape!(4, 8))?, shape!(1, 3));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// The same as [`crd2idx`](crd2idx()) and [`idx2crd`].
#[inline]
pub fn crd2crd(coord: &IntTuple, src: &IntTuple, dst: &IntTuple) -> Result<IntTuple> {
    if !coord.is_leaf() && !src.is_leaf() && !dst.is_leaf() {
        let rank = coord.rank();
        for other in [src, dst] {
            if other.rank() != rank {
                return Err(rank_mismatch(rank, other.rank()));
            }
        }
        let modes = coord.children().zip(src.children()).zip(dst.children());
        let items = modes
            .map(|((c, s), d)| crd2crd(&c.to_owned(), &s.to_owned(), &d.to_owned()))
            .collect::<Result<Vec<_>>>()?;
        return Tuple::from_items(&items);
    }
    idx2crd(&Tuple::leaf(crd2idx(coord, src)?), dst)
}
