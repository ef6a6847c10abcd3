//! Arithmetic on integer tuples, and whether shapes are compatible. Use it to count tiles, or to
//! test a tiler against a shape before you divide.

use super::compare::{all, equal};
use super::complement::complement;
use super::error::LayoutError;
use super::int::Int;
use super::into_tuple::Builder;
use super::tiler::{TilerLeaf, TilerRef, TilerTuple};
use super::tuple::{IntTuple, IntTupleRef, Tuple, product};

type Result<T> = std::result::Result<T, LayoutError>;

fn ranks_differ(expected: usize, found: usize) -> LayoutError {
    LayoutError::RankMismatch { expected, found }
}

/// Applies `f` leaf by leaf. If `pad` is set, missing leaves of the second tuple count as 1.
fn zip_with(
    a: IntTupleRef<'_>,
    b: IntTupleRef<'_>,
    pad: bool,
    out: &mut Builder<Int>,
    f: &mut impl FnMut(IntTupleRef<'_>, IntTupleRef<'_>, &mut Builder<Int>) -> Result<()>,
) -> Result<()> {
    let fits = if pad { b.rank() <= a.rank() } else { b.rank() == a.rank() };
    if !fits {
        return Err(ranks_differ(a.rank(), b.rank()));
    }
    let one = Tuple::leaf(Int::ONE);
    let mut others = b.children();
    out.open();
    for (i, x) in a.children().enumerate() {
        f(x, others.next().unwrap_or(one.as_ref()), out).map_err(|e| e.at(i))?;
    }
    out.close();
    Ok(())
}

#[inline]
fn divide_into(
    a: IntTupleRef<'_>,
    b: IntTupleRef<'_>,
    pad: bool,
    f: fn(&Int, &Int) -> Result<Int>,
    out: &mut Builder<Int>,
) -> Result<()> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(a), Some(b)) => out.push(f(a, b)?),
        (Some(a), None) => out.push(f(a, &b.product()?)?),
        (None, None) => {
            return zip_with(a, b, pad, out, &mut |x, y, out| divide_into(x, y, pad, f, out));
        }
        (None, Some(b)) => {
            // Fold as CuTe does: the next mode is divided by what is left of the divisor.
            let mut rest = b.clone();
            out.open();
            for mode in a.children() {
                divide_into(mode, Tuple::leaf(rest.clone()).as_ref(), pad, f, out)?;
                rest = f(&rest, &product(mode.leaves())?)?;
            }
            out.close();
        }
    }
    Ok(())
}

impl Int {
    /// Returns the least common multiple, which is never negative:
    /// `|self| / gcd(self, other) * |other|`. It is 0 if one of them is 0.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!((Int::new(4).lcm(&6.into())?, Int::new(-4).lcm(&Int::ZERO)?), (12.into(), Int::ZERO));
    /// let n = Int::symbol("n").divisible_by(16).assume(16, 16, 1024)?;
    /// assert_eq!(n.lcm(&8.into())?, n);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the result does not fit in 64 bits.
    pub fn lcm(&self, other: &Int) -> Result<Int> {
        if self.is(0) || other.is(0) {
            return Ok(Int::ZERO);
        }
        self.abs()?.floor_div(&self.gcd(other)?)?.mul(&other.abs()?)
    }
}

impl IntTuple {
    /// Returns the integer, or an error for a tuple. Use it for results that are an integer unless
    /// the layout maps to coordinates, such as the offset of a slice.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!(IntTuple::from(7).to_int()?, &7);
    /// assert!(shape!(4, 8).to_int().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnInteger`] for a tuple.
    pub fn to_int(&self) -> Result<&Int> {
        self.as_leaf().ok_or_else(|| LayoutError::NotAnInteger { found: self.to_string() })
    }

    /// Returns the sum of all leaves. It is 0 for the empty tuple.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(2, (3, 4)).sum()?, 9);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the sum does not fit in 64 bits.
    pub fn sum(&self) -> Result<Int> {
        self.leaves.iter().try_fold(Int::ZERO, |sum, leaf| sum.add(leaf))
    }

    fn reduce(&self, f: fn(&Int, &Int) -> Result<Int>) -> Result<Int> {
        let (first, rest) = self.leaves.split_first().ok_or(ranks_differ(1, 0))?;
        rest.iter().try_fold(first.clone(), |acc, leaf| f(&acc, leaf))
    }

    /// Returns the largest leaf.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(2, (7, 4)).max()?, 7);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] for `()`.
    pub fn max(&self) -> Result<Int> {
        self.reduce(Int::max)
    }

    /// Returns the smallest leaf.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(2, (7, 4)).min()?, 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] for `()`.
    pub fn min(&self) -> Result<Int> {
        self.reduce(Int::min)
    }

    /// Returns the greatest common divisor of all leaves.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(8, (12, 4)).gcd()?, 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] for `()`.
    pub fn gcd(&self) -> Result<Int> {
        self.reduce(Int::gcd)
    }

    /// Returns the least common multiple of all leaves, by [`Int::lcm`].
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(8, (12, 4)).lcm()?, 24);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] for `()`, or [`LayoutError::Overflow`].
    pub fn lcm(&self) -> Result<Int> {
        self.reduce(Int::lcm)
    }

    /// Multiplies corresponding leaves and returns the sum. For a coordinate and its strides, it is
    /// the index.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(2, (3, 4)).inner_product(&shape!(1, (10, 100)))?, 432);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotCongruent`] if the tuples are nested differently, or
    /// [`LayoutError::Overflow`].
    pub fn inner_product(&self, other: &IntTuple) -> Result<Int> {
        if !self.congruent(other) {
            return Err(LayoutError::NotCongruent {
                left: self.to_string(),
                right: other.to_string(),
            });
        }
        let pairs = self.leaves.iter().zip(&other.leaves);
        pairs.into_iter().try_fold(Int::ZERO, |sum, (a, b)| sum.add(&a.mul(b)?))
    }

    /// Divides mode by mode and rounds up. Missing modes of the divisor count as 1. If a tuple is
    /// divided by an integer, each mode takes its part of the divisor: `ceil_div((4,5,6), 40)` is
    /// `(1,1,3)`. Use it to count the tiles along each mode.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(8, 12, 6).ceil_div(&shape!(8, 8))?, shape!(1, 2, 6));
    /// assert_eq!(shape!(4, 5, 6).ceil_div(&40.into())?, shape!(1, 1, 3));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the divisor is nested differently,
    /// [`LayoutError::DivisionByZero`], or [`LayoutError::Overflow`].
    #[inline]
    pub fn ceil_div(&self, by: &IntTuple) -> Result<IntTuple> {
        let mut out = Builder::new();
        divide_into(self.as_ref(), by.as_ref(), true, Int::ceil_div, &mut out)?;
        out.finish()
    }

    /// Returns how many tiles each mode has: [`ceil_div`](IntTuple::ceil_div) by a tiler. If a tile
    /// is a layout, the result there is the shape of its complement in the mode.
    ///
    /// ```
    /// # use tilewright::layout::{shape, tiler};
    /// assert_eq!(shape!(8, 12).ceil_div_by(&tiler!(4, 5))?, shape!(2, 3));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`ceil_div`](IntTuple::ceil_div) and
    /// [`Layout::complement`](super::Layout::complement).
    pub fn ceil_div_by<'t>(&self, by: impl Into<TilerRef<'t>>) -> Result<IntTuple> {
        let mut out = Builder::new();
        match by.into() {
            TilerRef::Layout(tile) => {
                out.push_tree(complement(tile, Some(self.as_ref()))?.shape());
            }
            TilerRef::Tuple(tiler) => ceil_div_tiler(self.as_ref(), tiler, &mut out)?,
        }
        out.finish()
    }

    /// Applies [`Int::shape_div`] mode by mode: a division that rounds up and refuses integers of
    /// which neither divides the other. If a tuple is divided by an integer, each mode takes its
    /// part of the divisor: `(4,5,6)` by 40 is `(1,1,3)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 5, 6).shape_div(&40.into())?, shape!(1, 1, 3));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the divisor is nested differently,
    /// [`LayoutError::NotDivisible`], or [`LayoutError::DivisionByZero`].
    #[inline]
    pub fn shape_div(&self, by: &IntTuple) -> Result<IntTuple> {
        let mut out = Builder::new();
        divide_into(self.as_ref(), by.as_ref(), false, Int::shape_div, &mut out)?;
        out.finish()
    }

    /// Rounds each mode up to a multiple, as [`Int::round_up`] does. Missing modes of the divisor
    /// count as 1. For example, it pads `(7,12)` to `(8,15)` for tiles of `(4,5)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(7, 12).round_up(&shape!(4, 5))?, shape!(8, 15));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the divisor has more modes,
    /// [`LayoutError::NotAnInteger`] if an integer meets a tuple, [`LayoutError::DivisionByZero`],
    /// or [`LayoutError::Overflow`].
    #[inline]
    pub fn round_up(&self, by: &IntTuple) -> Result<IntTuple> {
        #[inline]
        fn walk(a: IntTupleRef<'_>, b: IntTupleRef<'_>, out: &mut Builder<Int>) -> Result<()> {
            match (a.as_leaf(), b.as_leaf()) {
                (Some(a), Some(b)) => out.push(a.round_up(b)?),
                (None, None) => return zip_with(a, b, true, out, &mut walk),
                (None, Some(_)) => return Err(LayoutError::NotAnInteger { found: a.to_string() }),
                (Some(_), None) => return Err(LayoutError::NotAnInteger { found: b.to_string() }),
            }
            Ok(())
        }
        let mut out = Builder::new();
        walk(self.as_ref(), by.as_ref(), &mut out)?;
        out.finish()
    }

    /// Multiplies each leaf by the product of the subtree of `other` at its place. For example,
    /// `(4,3)` and `(2,(2,5))` give `(8,30)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 3).elem_scale(&shape!(2, (2, 5)))?, shape!(8, 30));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if `other` is nested differently, or
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn elem_scale(&self, other: &IntTuple) -> Result<IntTuple> {
        #[inline]
        fn walk(a: IntTupleRef<'_>, b: IntTupleRef<'_>, out: &mut Builder<Int>) -> Result<()> {
            if let Some(leaf) = a.as_leaf() {
                out.push(leaf.mul(&b.product()?)?);
                return Ok(());
            }
            zip_with(a, b, false, out, &mut walk)
        }
        let mut out = Builder::new();
        walk(self.as_ref(), other.as_ref(), &mut out)?;
        out.finish()
    }

    /// Returns true if each leaf of `self` is the size of the subtree of `other` at its place. Then
    /// every coordinate into `self` is also a coordinate into `other`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert!(IntTuple::from(16).compatible(&shape!(2, 8))?);
    /// assert!(shape!(4, 6).compatible(&shape!((2, 2), 6))?);
    /// assert!(!shape!(4, 6).compatible(&shape!(6, 4))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Undecided`] if symbols leave it open, or [`LayoutError::Overflow`].
    #[inline]
    pub fn compatible(&self, other: &IntTuple) -> Result<bool> {
        compatible(self.as_ref(), other.as_ref())
    }

    /// Returns true if `tiler` divides the shape mode by mode without remainder. Test it if your
    /// kernel cannot handle tiles that reach outside the tensor.
    ///
    /// ```
    /// # use tilewright::layout::{shape, tiler};
    /// assert!(shape!(8, 6).evenly_divides(&tiler!(4, 3))?);
    /// assert!(!shape!(8, 6).evenly_divides(&tiler!(3))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Undecided`] if symbols leave it open,
    /// [`LayoutError::UnexpectedUnderscore`] for `_`, and the errors of
    /// [`ceil_div_by`](IntTuple::ceil_div_by).
    pub fn evenly_divides<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<bool> {
        match tiler.into() {
            TilerRef::Layout(tile) => {
                let rest = complement(tile, Some(self.as_ref()))?;
                equal(&self.product()?, &tile.size()?.mul(&rest.size()?)?)
            }
            TilerRef::Tuple(tiler) => evenly_divides(self.as_ref(), tiler),
        }
    }

    /// Returns the next coordinate of a shape, counting with the first mode fastest. After the last
    /// one comes the first. Use it to visit all coordinates of a shape in a loop.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(3, (1, 0)).increment(&shape!(4, (2, 8)))?, shape!(0, (0, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotCongruent`] if the two are nested differently, or
    /// [`LayoutError::NotStatic`].
    #[inline]
    pub fn increment(&self, shape: &IntTuple) -> Result<IntTuple> {
        if !self.congruent(shape) {
            return Err(LayoutError::NotCongruent {
                left: self.to_string(),
                right: shape.to_string(),
            });
        }
        let mut out = self.clone();
        for (leaf, extent) in out.leaves.iter_mut().zip(&shape.leaves) {
            let next = leaf.add(&Int::ONE)?;
            if next.to_static()? < extent.to_static()? {
                *leaf = next;
                return Ok(out);
            }
            *leaf = Int::ZERO;
        }
        Ok(out)
    }
}

#[inline]
fn ceil_div_tiler(a: IntTupleRef<'_>, b: TilerTuple<'_>, out: &mut Builder<Int>) -> Result<()> {
    match b.as_leaf() {
        Some(TilerLeaf::Int(by)) => {
            divide_into(a, Tuple::leaf(by.clone()).as_ref(), true, Int::ceil_div, out)
        }
        Some(TilerLeaf::Layout(tile)) => {
            out.push_tree(complement(tile.as_ref().as_ref(), Some(a))?.shape());
            Ok(())
        }
        Some(TilerLeaf::All) => Err(LayoutError::UnexpectedUnderscore { operation: "ceil_div" }),
        None if a.is_leaf() => {
            let mut size = Int::ONE;
            for leaf in b.leaves() {
                size = size.mul(&leaf_size(leaf)?)?;
            }
            out.push(a.product()?.ceil_div(&size)?);
            Ok(())
        }
        None => {
            if b.rank() > a.rank() {
                return Err(LayoutError::TooManyModes { tiler: b.rank(), layout: a.rank() });
            }
            let mut tiles = b.children();
            out.open();
            for (i, mode) in a.children().enumerate() {
                match tiles.next() {
                    Some(tile) => ceil_div_tiler(mode, tile, out).map_err(|e| e.at(i))?,
                    None => out.push_tree(mode),
                }
            }
            out.close();
            Ok(())
        }
    }
}

fn leaf_size(leaf: &TilerLeaf) -> Result<Int> {
    match leaf {
        TilerLeaf::Int(extent) => Ok(extent.clone()),
        TilerLeaf::Layout(layout) => layout.size(),
        TilerLeaf::All => Err(LayoutError::UnexpectedUnderscore { operation: "size" }),
    }
}

#[inline]
fn compatible(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> Result<bool> {
    if let Some(extent) = a.as_leaf() {
        return equal(extent, &b.product()?);
    }
    if b.is_leaf() || a.rank() != b.rank() {
        return Ok(false);
    }
    all(a.children().zip(b.children()), compatible)
}

#[inline]
fn evenly_divides(a: IntTupleRef<'_>, tiler: TilerTuple<'_>) -> Result<bool> {
    if let Some(leaf) = tiler.as_leaf() {
        let mut count = Builder::new();
        ceil_div_tiler(a, tiler, &mut count)?;
        let count = count.finish()?.product()?;
        return equal(&a.product()?, &leaf_size(leaf)?.mul(&count)?);
    }
    if tiler.rank() > a.rank() {
        return Ok(false);
    }
    all(a.children().zip(tiler.children()), evenly_divides)
}
