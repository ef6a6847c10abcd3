//! Takes tuples apart and puts them together: access, grouping, flattening, appending, slicing.

use super::coord::{Coord, CoordRef, Slot};
use super::error::LayoutError;
use super::into_tuple::{Builder, IntoTuple};
use super::profile::{LEAF, too_many_modes};
use super::slice::check_rank;
use super::tuple::{IntTuple, IntTupleRef, Tuple, TupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

fn check_range(begin: usize, end: usize, rank: usize) -> Result<()> {
    if begin < end && end <= rank {
        return Ok(());
    }
    Err(LayoutError::BadRange { begin, end, rank })
}

impl<L: Clone> Tuple<L> {
    fn build<'a>(items: impl IntoIterator<Item = TupleRef<'a, L>>) -> Result<Self>
    where
        L: 'a,
    {
        Tuple::from_items(items)
    }

    /// Copies the mode at a path into a tuple of its own. Use it to keep a mode longer than the
    /// tuple.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, (2, 8)).get(&[1])?, shape!(2, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    #[inline]
    pub fn get(&self, path: &[usize]) -> Result<Self> {
        Ok(self.mode(path)?.to_owned())
    }

    /// Returns the first leaf, or `None` if there is none. In a shape, it is the extent that runs
    /// fastest.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.front(), Some(&4.into()));
    /// ```
    pub fn front(&self) -> Option<&L> {
        self.leaves.first()
    }

    /// Returns the last leaf, or `None` if there is none. In a shape, it is the extent that runs
    /// slowest.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.back(), Some(&8.into()));
    /// ```
    pub fn back(&self) -> Option<&L> {
        self.leaves.last()
    }

    /// Turns a leaf into a 1-tuple, for code that iterates over modes. A tuple stays as it is.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!(IntTuple::from(4).wrap()?, shape!((4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] beyond the limit on nesting.
    pub fn wrap(&self) -> Result<Self> {
        if self.is_leaf() { Self::build([self.as_ref()]) } else { Ok(self.clone()) }
    }

    /// Takes the content out of a 1-tuple, however deeply it is wrapped, so that `((4))` becomes 4.
    /// Anything else stays as it is.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!("((4))".parse::<IntTuple>()?.unwrap_tuple(), 4.into());
    /// assert_eq!(shape!(4, 2).unwrap_tuple(), shape!(4, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[must_use]
    pub fn unwrap_tuple(&self) -> Self {
        let mut node = self.as_ref();
        while !node.is_leaf() && node.rank() == 1 {
            match node.child(0) {
                Some(child) => node = child,
                None => break,
            }
        }
        node.to_owned()
    }

    /// Flattens into one tuple of leaves. A leaf stays a leaf. Use it if the nesting does not
    /// matter any more.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, (2, (3, 8))).flatten()?, shape!(4, 2, 3, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] if there are more leaves than a tuple can have modes.
    pub fn flatten(&self) -> Result<Self> {
        if self.is_leaf() {
            return Ok(self.clone());
        }
        let mut out = Builder::new();
        out.open();
        self.leaves.iter().for_each(|leaf| out.push(leaf.clone()));
        out.close();
        out.finish()
    }

    /// Nests the modes like `profile`, with one mode for each of its leaves. It undoes
    /// [`flatten`](Tuple::flatten): `(4,2,8)` with the profile `(0,(0,0))` becomes `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2, 8).unflatten(&shape!(0, (0, 0)))?, shape!(4, (2, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if `profile` has another number of leaves than `self`
    /// has modes.
    pub fn unflatten<M>(&self, profile: &Tuple<M>) -> Result<Self> {
        fn walk<'a, L: Clone + 'a, M>(
            profile: TupleRef<'_, M>,
            modes: &mut impl Iterator<Item = TupleRef<'a, L>>,
            out: &mut Builder<L>,
        ) {
            if profile.is_leaf() {
                modes.next().into_iter().for_each(|m| out.push_tree(m));
                return;
            }
            out.open();
            profile.children().for_each(|child| walk(child, modes, out));
            out.close();
        }
        if profile.leaves.len() != self.rank() {
            return Err(LayoutError::RankMismatch {
                expected: profile.leaves.len(),
                found: self.rank(),
            });
        }
        let mut out = Builder::new();
        walk(profile.as_ref(), &mut self.children(), &mut out);
        out.finish()
    }

    /// Groups the modes `begin..end` into one mode. For example, modes 1 and 2 of `(4,2,8)` give
    /// `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2, 8).group(1, 3)?, shape!(4, (2, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadRange`] if the range is empty or reaches past the rank.
    pub fn group(&self, begin: usize, end: usize) -> Result<Self> {
        check_range(begin, end, self.rank())?;
        let mut out = Builder::new();
        out.open();
        for (i, mode) in self.children().enumerate() {
            if i == begin {
                out.open();
            }
            out.push_tree(mode);
            if i + 1 == end {
                out.close();
            }
        }
        out.close();
        out.finish()
    }

    /// Returns the modes `begin..end` as a tuple, for example all modes but the batch.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2, 8).take(1, 3)?, shape!(2, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadRange`] if the range is empty or reaches past the rank.
    pub fn take(&self, begin: usize, end: usize) -> Result<Self> {
        check_range(begin, end, self.rank())?;
        Self::build(self.children().skip(begin).take(end - begin))
    }

    /// Returns the modes `modes` as a tuple, in that order. Use it to permute or to drop modes.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2, 8).select(&[2, 0])?, shape!(8, 4));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank.
    pub fn select(&self, modes: &[usize]) -> Result<Self> {
        let items = modes.iter().map(|&m| self.mode(&[m])).collect::<Result<Vec<_>>>()?;
        Self::build(items)
    }

    /// Appends `mode` as the last mode. Use it to add a batch mode, for example.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2).append(&shape!(3, 5))?, shape!(4, 2, (3, 5)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limit on modes.
    pub fn append(&self, mode: &Self) -> Result<Self> {
        self.insert(self.rank(), mode)
    }

    /// Prepends `mode` as the first mode. For example, it puts a thread extent before the value
    /// extents.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2).prepend(&3.into())?, shape!(3, 4, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limit on modes.
    #[inline]
    pub fn prepend(&self, mode: &Self) -> Result<Self> {
        self.insert(0, mode)
    }

    /// Appends `mode` until the tuple has `rank` modes, for example extents of 1 for code that
    /// expects a fixed rank.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4).append_to(3, &1.into())?, shape!(4, 1, 1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the tuple already has more.
    pub fn append_to(&self, rank: usize, mode: &Self) -> Result<Self> {
        let missing = self.missing(rank)?;
        if missing == 0 {
            return Ok(self.clone());
        }
        Self::build(self.children().chain(std::iter::repeat_n(mode.as_ref(), missing)))
    }

    /// Prepends `mode` until the tuple has `rank` modes, for example extents of 1 for code that
    /// expects a fixed rank.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4).prepend_to(3, &1.into())?, shape!(1, 1, 4));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the tuple already has more.
    pub fn prepend_to(&self, rank: usize, mode: &Self) -> Result<Self> {
        let missing = self.missing(rank)?;
        if missing == 0 {
            return Ok(self.clone());
        }
        Self::build(std::iter::repeat_n(mode.as_ref(), missing).chain(self.children()))
    }

    fn missing(&self, rank: usize) -> Result<usize> {
        let found = self.rank();
        rank.checked_sub(found).ok_or(LayoutError::RankMismatch { expected: rank, found })
    }

    /// Inserts `mode` before mode `index`. For example, it adds an extent of 1 in the middle of a
    /// shape.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2).insert(1, &3.into())?, shape!(4, 3, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if the index is above the rank.
    #[inline]
    pub fn insert(&self, index: usize, mode: &Self) -> Result<Self> {
        let rank = self.rank();
        if index > rank {
            return Err(LayoutError::NoSuchMode { mode: index, rank });
        }
        let (before, after) = (self.children().take(index), self.children().skip(index));
        Self::build(before.chain([mode.as_ref()]).chain(after))
    }

    /// Removes mode `index`. For example, it drops the batch extent of a shape.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 3, 2).remove(1)?, shape!(4, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if the index is not below the rank.
    pub fn remove(&self, index: usize) -> Result<Self> {
        let rank = self.rank();
        if index >= rank {
            return Err(LayoutError::NoSuchMode { mode: index, rank });
        }
        Self::build(self.children().take(index).chain(self.children().skip(index + 1)))
    }

    /// Replaces mode `index` by `mode`. Use it to change one mode and keep the others.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2).replace(1, &shape!(3, 5))?, shape!(4, (3, 5)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if the index is not below the rank.
    #[inline]
    pub fn replace(&self, index: usize, mode: &Self) -> Result<Self> {
        let rank = self.rank();
        if index >= rank {
            return Err(LayoutError::NoSuchMode { mode: index, rank });
        }
        if self.is_leaf() {
            return Ok(mode.clone());
        }
        let (before, after) = (self.children().take(index), self.children().skip(index + 1));
        Self::build(before.chain([mode.as_ref()]).chain(after))
    }

    /// Makes a tuple of `count` copies of `self`. For example, it makes a tile shape with equal
    /// extents.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!(IntTuple::from(4).repeat(3)?, shape!(4, 4, 4));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limit on modes.
    pub fn repeat(&self, count: usize) -> Result<Self> {
        if count >= usize::from(LEAF) {
            return Err(too_many_modes());
        }
        Self::build(std::iter::repeat_n(self.as_ref(), count))
    }

    /// Pairs up the modes of two tuples: `(4,2)` and `(3,5)` become `((4,3),(2,5))`, for example
    /// extents and tile sizes.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, 2).zip(&shape!(3, 5))?, shape!((4, 3), (2, 5)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the ranks differ.
    pub fn zip(&self, other: &Self) -> Result<Self> {
        if self.rank() != other.rank() {
            return Err(LayoutError::RankMismatch { expected: self.rank(), found: other.rank() });
        }
        let pairs = self.children().zip(other.children()).map(|(a, b)| Pair(a, b));
        Tuple::from_items(pairs)
    }

    /// Keeps the subtrees at the `_` of a coordinate, as one tuple, for example the extents that
    /// are left after a slice. The coordinate `_` keeps the whole.
    ///
    /// ```
    /// # use tilewright::layout::{coord, shape};
    /// assert_eq!(shape!(4, (2, 8)).slice(&coord!(1, _))?.to_string(), "((2,8))");
    /// assert_eq!(shape!(4, (2, 8)).slice(&coord!(_, (1, _)))?, shape!(4, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`], or [`LayoutError::NotAnInteger`] if the coordinate is
    /// nested more deeply than the tuple.
    pub fn slice(&self, coord: &Coord) -> Result<Self> {
        self.as_ref().picked(coord, true)
    }

    /// Keeps the subtrees at the integers of a coordinate, which [`slice`](Tuple::slice) drops. Use
    /// it to get the extents that a slice fixes.
    ///
    /// ```
    /// # use tilewright::layout::{coord, shape};
    /// assert_eq!(shape!(4, 2, 8).dice(&coord!(1, _, 3))?, shape!(4, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`slice`](Tuple::slice).
    pub fn dice(&self, coord: &Coord) -> Result<Self> {
        self.as_ref().picked(coord, false)
    }
}

impl<L: Clone> TupleRef<'_, L> {
    /// Keeps the subtrees at the `_` of `coord` (`keep`), or those at its integers (`!keep`).
    #[inline]
    pub(crate) fn picked(self, coord: &Coord, keep: bool) -> Result<Tuple<L>> {
        fn walk<L: Clone>(
            coord: CoordRef<'_>,
            tuple: TupleRef<'_, L>,
            keep: bool,
            out: &mut Builder<L>,
        ) -> Result<()> {
            if let Some(slot) = coord.as_leaf() {
                if (*slot == Slot::All) == keep {
                    out.push_tree(tuple);
                }
                return Ok(());
            }
            if tuple.is_leaf() {
                return Err(LayoutError::NotAnInteger { found: coord.to_string() });
            }
            check_rank(coord, tuple.rank())?;
            for (i, (c, t)) in coord.children().zip(tuple.children()).enumerate() {
                walk(c, t, keep, out).map_err(|e| e.at(i))?;
            }
            Ok(())
        }
        if coord.as_leaf().is_some_and(|slot| (*slot == Slot::All) == keep) {
            return Ok(self.to_owned());
        }
        let mut out = Builder::new();
        out.open();
        walk(coord.as_ref(), self, keep, &mut out)?;
        out.close();
        out.finish()
    }

    /// Folds `f` over the leaves in pre-order, from left to right, for example to count or to sum
    /// them.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.as_ref().fold(0, |count, _| count + 1), 3);
    /// ```
    pub fn fold<A>(&self, init: A, f: impl FnMut(A, &L) -> A) -> A {
        self.leaves.iter().fold(init, f)
    }
}

struct Pair<'a, L>(TupleRef<'a, L>, TupleRef<'a, L>);

impl<L: Clone> IntoTuple<L> for Pair<'_, L> {
    fn push_into(self, out: &mut Builder<L>) {
        out.open();
        out.push_tree(self.0);
        out.push_tree(self.1);
        out.close();
    }
}

/// Applies `f` to the subtree of `tuple` at each leaf of `guide`.
pub(crate) fn map_like(
    tuple: IntTupleRef<'_>,
    guide: IntTupleRef<'_>,
    out: &mut Builder<super::int::Int>,
    f: &mut impl FnMut(IntTupleRef<'_>) -> Result<super::int::Int>,
) -> Result<()> {
    if guide.is_leaf() {
        out.push(f(tuple)?);
        return Ok(());
    }
    if tuple.is_leaf() || tuple.rank() != guide.rank() {
        return Err(LayoutError::RankMismatch { expected: guide.rank(), found: tuple.rank() });
    }
    out.open();
    for (i, (t, g)) in tuple.children().zip(guide.children()).enumerate() {
        map_like(t, g, out, f).map_err(|e| e.at(i))?;
    }
    out.close();
    Ok(())
}

impl IntTuple {
    /// Returns the product of each mode, as a flat tuple: `(4,16)` for `(4,(2,8))`. For a leaf, it
    /// returns a 1-tuple. Use it to ask how long each mode is.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, (2, 8)).product_each()?, shape!(4, 16));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if a product does not fit in 64 bits.
    #[inline]
    pub fn product_each(&self) -> Result<IntTuple> {
        super::slice::product_each(self.as_ref())
    }

    /// Returns the product of the subtree at each leaf of `guide`, nested like `guide`. For
    /// example, `(2,(4,6))` by `(0,0)` is `(2,24)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(2, (4, 6)).product_like(&shape!(0, 0))?, shape!(2, 24));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if `guide` is nested differently, or
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn product_like(&self, guide: &IntTuple) -> Result<IntTuple> {
        let mut out = Builder::new();
        map_like(self.as_ref(), guide.as_ref(), &mut out, &mut |t| t.product())?;
        out.finish()
    }
}
