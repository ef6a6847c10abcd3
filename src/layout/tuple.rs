//! [`Tuple`] is a leaf or a nested tuple, stored flat. Shapes, strides, coordinates and tilers are
//! tuples.
//!
//! The leaves are in one small vector in pre-order. A second vector holds the profile: for each
//! node, also in pre-order, how many children it has, or that it is a leaf. So a subtree is just a
//! pair of slices, [`TupleRef`], and up to 8 leaves and 16 nodes nothing is allocated.

use std::fmt;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::error::LayoutError;
use super::int::{Env, Int};
use super::into_tuple::{Builder, IntoTuple};
use super::profile::{Codes, LEAF};

pub(crate) type Leaves<L> = SmallVec<[L; 8]>;

/// A leaf, or a nested tuple with leaves of type `L`. [`IntTuple`], `Coord`, `Tiler` and
/// `StrideTuple` are tuples. You name this type only for leaves of your own, for example one string
/// per mode.
///
/// ```
/// use tilewright::layout::{Int, Tuple, shape};
/// let sizes: Tuple<Int> = shape!(4, (2, 8));
/// let names: Tuple<String> = sizes.map(|n| Ok::<_, ()>(format!("n{n}"))).expect("no error");
/// assert_eq!(names.to_string(), "(n4,(n2,n8))");
/// ```
#[derive(Clone)]
pub struct Tuple<L> {
    pub(crate) codes: Codes,
    pub(crate) leaves: Leaves<L>,
}

/// An integer or a nested tuple of integers: a shape, an order, a coordinate. You pass one for
/// every shape, order and coordinate; `shape!` writes one.
///
/// ```
/// use tilewright::layout::{IntTuple, shape};
/// let s = shape!(4, (2, 8));
/// assert_eq!(s, IntTuple::from((4, (2, 8))));
/// assert_eq!((s.rank(), s.depth(), s.product()?.as_static()), (2, 2, Some(64)));
/// assert_eq!(s.to_string(), "(4,(2,8))");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type IntTuple = Tuple<Int>;
/// A borrowed subtree of an [`IntTuple`]. `Layout::shape` and [`mode`](Tuple::mode) return one, so
/// that you can look at part of a shape without copying it.
///
/// ```
/// use tilewright::layout::{IntTupleRef, shape};
/// let s = shape!(4, (2, 8));
/// let inner: IntTupleRef<'_> = s.mode(&[1])?;
/// assert_eq!(inner.product()?, 16);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type IntTupleRef<'a> = TupleRef<'a, Int>;

/// A borrowed subtree of a [`Tuple`]: two slices, so it is `Copy`. [`mode`](Tuple::mode) and
/// [`children`](Tuple::children) return it, so that you can walk a nested tuple without copying.
///
/// ```
/// use tilewright::layout::{Slot, TupleRef, coord};
/// let c = coord!(1, (_, 2));
/// let inner: TupleRef<'_, Slot> = c.mode(&[1])?;
/// assert_eq!((inner.rank(), inner.leaves().len()), (2, 2));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub struct TupleRef<'a, L> {
    pub(crate) codes: &'a [u16],
    pub(crate) leaves: &'a [L],
}

impl<L> Clone for TupleRef<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for TupleRef<'_, L> {}

/// Returns how many codes and how many leaves the first subtree in `codes` has.
#[inline]
pub(crate) fn first_subtree(codes: &[u16]) -> (usize, usize) {
    let (mut pending, mut nodes, mut leaves) = (1usize, 0, 0);
    while pending > 0 && nodes < codes.len() {
        let code = codes[nodes];
        nodes += 1;
        pending -= 1;
        if code == LEAF { leaves += 1 } else { pending += usize::from(code) }
    }
    (nodes, leaves)
}

impl<'a, L> TupleRef<'a, L> {
    /// Returns true for a leaf and false for a tuple. A recursive function tests it before it
    /// visits the children.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert!(t.mode(&[0])?.is_leaf() && !t.mode(&[1])?.is_leaf());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.codes.first() == Some(&LEAF)
    }

    /// Returns the leaf, or `None` for a tuple. Use it to end a recursion over a nested tuple.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.mode(&[1, 1])?.as_leaf(), Some(&8.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn as_leaf(self) -> Option<&'a L> {
        if self.is_leaf() { self.leaves.first() } else { None }
    }

    /// Returns how many modes there are. A leaf counts as one mode. Compare it with the rank that
    /// your code expects.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!((t.mode(&[0])?.rank(), t.mode(&[1])?.rank()), (1, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn rank(self) -> usize {
        match self.codes.first() {
            Some(&LEAF) | None => 1,
            Some(&arity) => usize::from(arity),
        }
    }

    /// Returns how deeply the tuple is nested: 0 for a leaf, 1 for a tuple of leaves. A depth above
    /// 1 means that a mode has modes of its own.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.mode(&[1])?.depth(), 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn depth(self) -> usize {
        if self.is_leaf() {
            return 0;
        }
        1 + self.children().map(TupleRef::depth).max().unwrap_or(0)
    }

    /// Iterates over the modes, for example to handle each dimension of a shape. For a leaf, it
    /// returns the leaf itself.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert!(t.mode(&[1])?.children().map(|c| c.to_string()).eq(["2", "8"]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn children(self) -> Children<'a, L> {
        let codes = if self.is_leaf() { self.codes } else { self.codes.get(1..).unwrap_or(&[]) };
        Children { rest: TupleRef { codes, leaves: self.leaves } }
    }

    /// Returns mode `index`, or `None` if the index is not below the rank. A leaf has one mode,
    /// itself.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.as_ref().child(1).map(|c| c.to_string()), Some("(2,8)".to_owned()));
    /// ```
    pub fn child(self, index: usize) -> Option<TupleRef<'a, L>> {
        self.children().nth(index)
    }

    /// Returns the mode at a path, which gives the index at each level. For example, `[1, 0]` leads
    /// to the 2 in `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.as_ref().mode(&[1, 0])?.as_static(), Some(2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    pub fn mode(self, path: &[usize]) -> Result<TupleRef<'a, L>, LayoutError> {
        let mut node = self;
        for &mode in path {
            let rank = node.rank();
            node = node.child(mode).ok_or(LayoutError::NoSuchMode { mode, rank })?;
        }
        Ok(node)
    }

    /// Returns all leaves in pre-order, that is, from left to right. Use it if the nesting does not
    /// matter.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.mode(&[1])?.leaves().len(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn leaves(self) -> &'a [L] {
        self.leaves
    }

    /// Returns true if both are nested in the same way, whatever their leaves are. For example, a
    /// layout's strides must be congruent to its shape.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert!(t.mode(&[1])?.congruent(shape!(1, 1).as_ref()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn congruent<M>(self, other: TupleRef<'_, M>) -> bool {
        self.codes == other.codes
    }

    /// Returns true if `other` is nested like `self` or more deeply, that is, if each leaf of
    /// `self` stands for a leaf or a subtree of `other`. For example, `(4,16)` is weakly congruent
    /// to `(4,(2,8))`. An order or a profile must fit its shape in this way.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert!(t.mode(&[0])?.weakly_congruent(t.as_ref()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn weakly_congruent<M>(self, other: TupleRef<'_, M>) -> bool {
        self.is_leaf()
            || (!other.is_leaf()
                && self.rank() == other.rank()
                && self.children().zip(other.children()).all(|(a, b)| a.weakly_congruent(b)))
    }
}

impl<L: Clone> TupleRef<'_, L> {
    /// Copies the subtree into a tuple of its own. Use it to keep a mode longer than the tuple that
    /// it belongs to.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.mode(&[1])?.to_owned(), shape!(2, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn to_owned(self) -> Tuple<L> {
        Tuple {
            codes: Codes::from_slice(self.codes),
            leaves: self.leaves.iter().cloned().collect(),
        }
    }
}

/// Iterates over the modes of a tuple. [`Tuple::children`] returns it.
///
/// ```
/// use tilewright::layout::{Children, Int, shape};
/// let s = shape!(4, (2, 8));
/// let modes: Children<'_, Int> = s.children();
/// assert_eq!(modes.map(|mode| mode.to_string()).collect::<Vec<_>>(), ["4", "(2,8)"]);
/// ```
pub struct Children<'a, L> {
    rest: TupleRef<'a, L>,
}

impl<'a, L> Iterator for Children<'a, L> {
    type Item = TupleRef<'a, L>;

    #[inline]
    fn next(&mut self) -> Option<TupleRef<'a, L>> {
        if self.rest.codes.is_empty() {
            return None;
        }
        let (nodes, leaves) = first_subtree(self.rest.codes);
        let (codes, codes_rest) = self.rest.codes.split_at(nodes);
        let (head, tail) = self.rest.leaves.split_at(leaves);
        self.rest = TupleRef { codes: codes_rest, leaves: tail };
        Some(TupleRef { codes, leaves: head })
    }
}

impl<L: Clone> From<TupleRef<'_, L>> for Tuple<L> {
    /// Copies the subtree.
    fn from(tuple: TupleRef<'_, L>) -> Self {
        tuple.to_owned()
    }
}

impl<L> Default for Tuple<L> {
    /// Returns the empty tuple `()`.
    #[inline]
    fn default() -> Self {
        let mut codes = Codes::new();
        codes.push(0);
        Self { codes, leaves: Leaves::new() }
    }
}

impl<L> Tuple<L> {
    /// Makes a leaf, for example where a function takes a tuple and you have one integer.
    ///
    /// ```
    /// # use tilewright::layout::IntTuple;
    /// assert_eq!(IntTuple::leaf(4).as_static(), Some(4));
    /// ```
    #[inline]
    pub fn leaf(leaf: impl Into<L>) -> Self {
        let (mut codes, mut leaves) = (Codes::new(), Leaves::new());
        codes.push(LEAF);
        leaves.push(leaf.into());
        Self { codes, leaves }
    }

    /// Borrows the whole tuple as a subtree. Use it to pass a tuple to a function that takes a
    /// [`TupleRef`].
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.as_ref().leaves().len(), 3);
    /// ```
    #[inline]
    pub fn as_ref(&self) -> TupleRef<'_, L> {
        TupleRef { codes: &self.codes, leaves: &self.leaves }
    }

    /// Returns true for a leaf and false for a tuple. A recursive function tests it before it
    /// visits the children.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert!(IntTuple::from(4).is_leaf() && !shape!((4)).is_leaf());
    /// ```
    pub fn is_leaf(&self) -> bool {
        self.as_ref().is_leaf()
    }

    /// Returns the leaf, or `None` for a tuple. Use it to end a recursion over a nested tuple.
    ///
    /// ```
    /// # use tilewright::layout::IntTuple;
    /// assert_eq!(IntTuple::from(4).as_leaf(), Some(&4.into()));
    /// ```
    pub fn as_leaf(&self) -> Option<&L> {
        self.as_ref().as_leaf()
    }

    /// Returns how many modes there are. A leaf counts as one mode. Compare it with the rank that
    /// your code expects.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.rank(), 2);
    /// ```
    pub fn rank(&self) -> usize {
        self.as_ref().rank()
    }

    /// Returns how deeply the tuple is nested: 0 for a leaf, 1 for `(4,8)`, and 2 for `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.depth(), 2);
    /// ```
    pub fn depth(&self) -> usize {
        self.as_ref().depth()
    }

    /// Iterates over the modes, for example to handle each dimension of a shape. For a leaf, it
    /// returns the leaf itself.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert!(t.children().map(|c| c.to_string()).eq(["4", "(2,8)"]));
    /// ```
    pub fn children(&self) -> Children<'_, L> {
        self.as_ref().children()
    }

    /// Returns all leaves in pre-order, that is, from left to right. Use it if the nesting does not
    /// matter.
    ///
    /// ```
    /// # use tilewright::layout::{Int, shape};
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.leaves().last(), Some(&Int::new(8)));
    /// ```
    pub fn leaves(&self) -> &[L] {
        &self.leaves
    }

    /// Returns the mode at a path, which gives the index at each level. For example, `[1, 0]` leads
    /// to the 2 in `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.mode(&[1])?.to_string(), "(2,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    pub fn mode(&self, path: &[usize]) -> Result<TupleRef<'_, L>, LayoutError> {
        self.as_ref().mode(path)
    }

    /// Makes a tuple whose modes are `items`. Use it if the number of modes is known only at run
    /// time; otherwise write the tuple with `shape!` or `coord!`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!(IntTuple::from_items([4, 8])?, shape!(4, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] if there are more than 65534 items.
    pub fn from_items<T: IntoTuple<L>>(
        items: impl IntoIterator<Item = T>,
    ) -> Result<Self, LayoutError> {
        let mut out = Builder::new();
        out.open();
        for item in items {
            item.push_into(&mut out);
        }
        out.close();
        out.finish()
    }

    /// Returns true if both are nested in the same way, whatever their leaves are. For example, a
    /// layout's strides must be congruent to its shape.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(4, (2, 8)).congruent(&shape!(1, (1, 1))));
    /// assert!(!shape!(4, 2).congruent(&shape!(4)));
    /// ```
    pub fn congruent<M>(&self, other: &Tuple<M>) -> bool {
        self.codes == other.codes
    }

    /// Returns true if `other` is nested like `self` or more deeply, that is, if each leaf of
    /// `self` stands for a leaf or a subtree of `other`. For example, `(4,16)` is weakly congruent
    /// to `(4,(2,8))`. An order or a profile must fit its shape in this way.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(4, 16).weakly_congruent(&shape!(4, (2, 8))));
    /// ```
    pub fn weakly_congruent<M>(&self, other: &Tuple<M>) -> bool {
        self.as_ref().weakly_congruent(other.as_ref())
    }

    /// Applies `f` to each leaf and keeps the nesting, for example to double every extent.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.map(|leaf| leaf.mul(&2.into()))?, shape!(8, (4, 16)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error of `f`.
    pub fn map<M, E>(&self, f: impl FnMut(&L) -> Result<M, E>) -> Result<Tuple<M>, E> {
        let leaves = self.leaves.iter().map(f).collect::<Result<_, E>>()?;
        Ok(Tuple { codes: self.codes.clone(), leaves })
    }
}

impl<L: PartialEq> PartialEq for Tuple<L> {
    fn eq(&self, other: &Self) -> bool {
        self.codes == other.codes && self.leaves == other.leaves
    }
}
impl<L: Eq> Eq for Tuple<L> {}
impl<L: PartialEq> PartialEq for TupleRef<'_, L> {
    fn eq(&self, other: &Self) -> bool {
        self.codes == other.codes && self.leaves == other.leaves
    }
}
impl<L: Eq> Eq for TupleRef<'_, L> {}
impl<L: Hash> Hash for Tuple<L> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.codes.hash(state);
        self.leaves.hash(state);
    }
}

impl<L: fmt::Display> fmt::Display for TupleRef<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(leaf) = self.as_leaf() {
            return leaf.fmt(f);
        }
        f.write_str("(")?;
        for (i, child) in self.children().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            child.fmt(f)?;
        }
        f.write_str(")")
    }
}
impl<L: fmt::Display> fmt::Display for Tuple<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
impl<L: fmt::Display> fmt::Debug for Tuple<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}
impl<L: fmt::Display> fmt::Debug for TupleRef<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}

impl IntTupleRef<'_> {
    /// Returns the value if this is a leaf without symbols, and `None` for a tuple or a symbolic
    /// value.
    ///
    /// ```
    /// # use tilewright::layout::IntTuple;
    /// assert_eq!(IntTuple::from(4).as_ref().as_static(), Some(4));
    /// ```
    pub fn as_static(self) -> Option<i64> {
        self.as_leaf().and_then(Int::as_static)
    }

    /// Returns the product of all leaves, which is the number of elements if the tuple is a shape.
    /// It is 1 for the empty tuple.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.mode(&[1])?.product()?, 16);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the product does not fit in 64 bits.
    pub fn product(self) -> Result<Int, LayoutError> {
        product(self.leaves)
    }
}

/// Returns the product of `leaves`.
#[inline]
pub(crate) fn product(leaves: &[Int]) -> Result<Int, LayoutError> {
    let Some((first, rest)) = leaves.split_first() else { return Ok(Int::ONE) };
    let mut product = first.clone();
    for leaf in rest {
        product = product.mul(leaf)?;
    }
    Ok(product)
}

impl IntTuple {
    /// Returns the product of all leaves, which is the number of elements if the tuple is a shape.
    /// It is 1 for the empty tuple.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// let t = shape!(4, (2, 8));
    /// assert_eq!(t.product()?, 64);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the product does not fit in 64 bits.
    pub fn product(&self) -> Result<Int, LayoutError> {
        self.as_ref().product()
    }

    /// Returns the value if this is a leaf without symbols, and `None` for a tuple or a symbolic
    /// value.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, shape};
    /// assert_eq!((shape!(4).as_static(), shape!((4)).as_static()), (Some(4), None));
    /// ```
    pub fn as_static(&self) -> Option<i64> {
        self.as_ref().as_static()
    }

    /// Returns true if no leaf has a symbol. Test it before you call something that needs plain
    /// integers.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(4, 8).is_static());
    /// ```
    pub fn is_static(&self) -> bool {
        self.leaves.iter().all(Int::is_static)
    }

    /// Replaces the symbols by their values in `env`. Use it when the sizes are known, for example
    /// at the launch.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, IntTuple, shape};
    /// let t = IntTuple::from((4, Int::symbol("n")));
    /// assert_eq!(t.eval(&Env::new().with("n", 8))?, shape!(4, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::eval`].
    #[inline]
    pub fn eval(&self, env: &Env) -> Result<IntTuple, LayoutError> {
        self.map(|leaf| leaf.eval(env).map(Int::new))
    }
}
