//! Repeats, reverses, searches and scans the modes of tuples. These are CuTe's tuple algorithms,
//! for code that is ported from there.

use super::error::LayoutError;
use super::into_tuple::Builder;
use super::tuple::{Tuple, TupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

impl<L: Clone> Tuple<L> {
    /// Reverses the modes, but not what is inside them. Use it to write a shape with its fastest
    /// extent first instead of last. A leaf stays a leaf. CuTe's `reverse`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert_eq!(shape!(4, (2, 8)).reverse()?, shape!((2, 8), 4));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limits of a tuple.
    pub fn reverse(&self) -> Result<Self> {
        if self.is_leaf() {
            return Ok(self.clone());
        }
        let modes: Vec<TupleRef<'_, L>> = self.children().collect();
        Tuple::from_items(modes.into_iter().rev())
    }

    /// Nests copies of `self` like `profile`, one at each of its leaves. CuTe's `repeat_like`. Use
    /// it to make a tuple of equal values for a shape.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!(IntTuple::from(1).repeat_like(&shape!(4, (2, 8)))?, shape!(1, (1, 1)));
    /// assert_eq!(shape!(3, 5).repeat_like(&shape!(4, 8))?, shape!((3, 5), (3, 5)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] or [`LayoutError::TooLarge`] beyond the limits of a tuple.
    pub fn repeat_like<M>(&self, profile: &Tuple<M>) -> Result<Self> {
        fn walk<L: Clone, M>(
            profile: TupleRef<'_, M>,
            leaf: TupleRef<'_, L>,
            out: &mut Builder<L>,
        ) {
            if profile.is_leaf() {
                out.push_tree(leaf);
                return;
            }
            out.open();
            profile.children().for_each(|mode| walk(mode, leaf, out));
            out.close();
        }
        let mut out = Builder::new();
        walk(profile.as_ref(), self.as_ref(), &mut out);
        out.finish()
    }

    /// Concatenates the modes of `self` and `other` into one tuple. A leaf counts as one mode.
    /// CuTe's `tuple_cat`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!(shape!(4, (2, 8)).cat(&shape!(3, 5))?, shape!(4, (2, 8), 3, 5));
    /// assert_eq!(IntTuple::from(4).cat(&5.into())?, shape!(4, 5));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limit on modes.
    pub fn cat(&self, other: &Self) -> Result<Self> {
        Tuple::from_items(self.children().chain(other.children()))
    }

    /// Returns the path of the first leaf, in pre-order, that equals `leaf`. This is the CuTe DSL's
    /// `find`; the one in C++ finds only modes. Use it to ask which mode has an extent or a stride.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8), 2);
    /// assert_eq!(t.find(&2.into()), Some(vec![1, 0]));
    /// assert_eq!(t.find(&3.into()), None);
    /// ```
    pub fn find(&self, leaf: &L) -> Option<Vec<usize>>
    where
        L: PartialEq,
    {
        self.find_if(|found, _| found == leaf)
    }

    /// Returns the path of the first leaf, in pre-order, for which `is_it(leaf, path)` is true. The
    /// CuTe DSL's `find_if`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// // The leading mode: the stride 1, if the extent is not 1.
    /// let (shape, stride) = (shape!(1, 8, 4), shape!(1, 4, 1));
    /// let is_one = |path: &[usize]| shape.mode(path).is_ok_and(|mode| mode.as_static() == Some(1));
    /// assert_eq!(stride.find_if(|d, path| d.is(1) && !is_one(path)), Some(vec![2]));
    /// ```
    pub fn find_if(&self, mut is_it: impl FnMut(&L, &[usize]) -> bool) -> Option<Vec<usize>> {
        fn walk<L>(
            node: TupleRef<'_, L>,
            path: &mut Vec<usize>,
            is_it: &mut impl FnMut(&L, &[usize]) -> bool,
        ) -> bool {
            if let Some(leaf) = node.as_leaf() {
                return is_it(leaf, path);
            }
            for (i, mode) in node.children().enumerate() {
                path.push(i);
                if walk(mode, path, is_it) {
                    return true;
                }
                path.pop();
            }
            false
        }
        let mut path = Vec::new();
        walk(self.as_ref(), &mut path, &mut is_it).then_some(path)
    }

    /// Replaces each mode by the modes of `f(mode)`. To drop a mode, return the empty tuple; to
    /// keep it, return a 1-tuple; to split it, return a longer one. CuTe's `filter_tuple`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// let not_one = |mode: tilewright::layout::IntTupleRef<'_>| match mode.as_static() {
    ///     Some(1) => Ok(IntTuple::default()),
    ///     _ => mode.to_owned().repeat(1),
    /// };
    /// assert_eq!(shape!(1, 4, (2, 8), 1).filter_tuple(not_one)?, shape!(4, (2, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error of `f` with its mode, or [`LayoutError::TooLarge`].
    pub fn filter_tuple(
        &self,
        mut f: impl FnMut(TupleRef<'_, L>) -> Result<Tuple<L>>,
    ) -> Result<Self> {
        let mut out = Builder::new();
        out.open();
        for (i, mode) in self.children().enumerate() {
            f(mode).map_err(|e| e.at(i))?.children().for_each(|kept| out.push_tree(kept));
        }
        out.close();
        out.finish()
    }

    /// Returns the running results of `f` over the modes: mode `i` is `f(.. f(f(init, mode 0),
    /// mode 1) .., mode i)`. For example, the running product of `(4,(2,8),3)` is `(4,64,192)`.
    /// CuTe's `iscan`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// let times = |product: &IntTuple, mode: tilewright::layout::IntTupleRef<'_>| {
    ///     Ok(IntTuple::leaf(product.product()?.mul(&mode.product()?)?))
    /// };
    /// assert_eq!(shape!(4, (2, 8), 3).inclusive_scan(&1.into(), times)?, shape!(4, 64, 192));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error of `f` with its mode, or [`LayoutError::TooLarge`].
    pub fn inclusive_scan(
        &self,
        init: &Self,
        f: impl FnMut(&Self, TupleRef<'_, L>) -> Result<Self>,
    ) -> Result<Self> {
        self.scanned(init, f, true)
    }

    /// Returns the running results of `f` before each mode: mode 0 is `init`, and mode `i` is mode
    /// `i - 1` of [`inclusive_scan`](Tuple::inclusive_scan). For example, the running product of
    /// `(4,(2,8),3)` is `(1,4,64)`, which are the compact strides. CuTe's `escan`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// // Compact strides are the exclusive products of the extents.
    /// let times = |product: &IntTuple, mode: tilewright::layout::IntTupleRef<'_>| {
    ///     Ok(IntTuple::leaf(product.product()?.mul(&mode.product()?)?))
    /// };
    /// assert_eq!(shape!(4, (2, 8), 3).exclusive_scan(&1.into(), times)?, shape!(1, 4, 64));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`inclusive_scan`](Tuple::inclusive_scan). `f` is not called for the last mode.
    pub fn exclusive_scan(
        &self,
        init: &Self,
        f: impl FnMut(&Self, TupleRef<'_, L>) -> Result<Self>,
    ) -> Result<Self> {
        self.scanned(init, f, false)
    }

    fn scanned(
        &self,
        init: &Self,
        mut f: impl FnMut(&Self, TupleRef<'_, L>) -> Result<Self>,
        inclusive: bool,
    ) -> Result<Self> {
        let (mut value, rank) = (init.clone(), self.rank());
        let mut out = Builder::new();
        if !self.is_leaf() {
            out.open();
        }
        for (i, mode) in self.children().enumerate() {
            if !inclusive {
                out.push_tree(value.as_ref());
            }
            if inclusive || i + 1 < rank {
                value = f(&value, mode).map_err(|e| e.at(i))?;
            }
            if inclusive {
                out.push_tree(value.as_ref());
            }
        }
        if !self.is_leaf() {
            out.close();
        }
        out.finish()
    }

    /// Takes the pairs at `guide`'s leaves apart: returns a tuple of their first entries and one of
    /// their second entries, each nested like `guide`. For example, `((A,a),((B,b),(C,c)),d)` by
    /// `(X,(X,X))` becomes `((A,(B,C)),(a,(b,c),d))`. Use it to separate the tiles from the rest
    /// after a divide by modes. Modes that the guide does not cover are appended to the second
    /// tuple. CuTe's `zip2_by`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// // ((A,a),((B,b),(C,c)),d) by (X,(X,X)) is ((A,(B,C)),(a,(b,c),d)).
    /// let t = shape!((10, 1), ((20, 2), (30, 3)), 4);
    /// assert_eq!(t.zip2_by(&shape!(0, (0, 0)))?, shape!((10, (20, 30)), (1, (2, 3), 4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if there is no pair at a leaf of the guide, or if the
    /// guide has more modes than the tuple.
    pub fn zip2_by<M>(&self, guide: &Tuple<M>) -> Result<Self> {
        let (first, second) = split_by(self.as_ref(), guide.as_ref())?;
        Tuple::from_items([first, second])
    }
}

/// Returns the first and the second entries of the pairs at `guide`'s leaves.
fn split_by<L: Clone, M>(
    tuple: TupleRef<'_, L>,
    guide: TupleRef<'_, M>,
) -> Result<(Tuple<L>, Tuple<L>)> {
    let mismatch = |expected| LayoutError::RankMismatch { expected, found: tuple.rank() };
    if guide.is_leaf() {
        let mut entries = tuple.children();
        return match (tuple.rank(), entries.next(), entries.next()) {
            (2, Some(first), Some(second)) => Ok((first.to_owned(), second.to_owned())),
            _ => Err(mismatch(2)),
        };
    }
    if tuple.is_leaf() || guide.rank() > tuple.rank() {
        return Err(mismatch(guide.rank()));
    }
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    let mut guides = guide.children();
    for (i, mode) in tuple.children().enumerate() {
        match guides.next() {
            Some(guide) => {
                let (first, second) = split_by(mode, guide).map_err(|e| e.at(i))?;
                firsts.push(first);
                seconds.push(second);
            }
            None => seconds.push(mode.to_owned()),
        }
    }
    Ok((Tuple::from_items(&firsts)?, Tuple::from_items(&seconds)?))
}
