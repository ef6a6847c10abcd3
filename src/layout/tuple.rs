//! [`Tuple`]: a leaf, or a tuple of tuples, stored flat.
//!
//! The leaves lie in pre-order in one small vector, and a second one holds the profile: for each
//! node, again in pre-order, its number of children or the mark of a leaf. A sub-tree is therefore
//! a pair of slices, [`TupleRef`], and nothing is allocated up to 8 leaves and 16 nodes.

use std::fmt;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::error::LayoutError;
use super::int::{Env, Int};

/// The code of a leaf in a profile.
pub(crate) const LEAF: u16 = u16::MAX;
/// The deepest nesting that is represented; it bounds the recursion of every operation.
pub(crate) const MAX_DEPTH: usize = 64;

pub(crate) type Codes = SmallVec<[u16; 16]>;
pub(crate) type Leaves<L> = SmallVec<[L; 8]>;

/// A leaf, or a tuple of tuples, with leaves of type `L`.
#[derive(Clone)]
pub struct Tuple<L> {
    pub(crate) codes: Codes,
    pub(crate) leaves: Leaves<L>,
}

/// An integer or a tuple of integer tuples: a shape, an order, a coordinate.
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
/// A sub-tree of an [`IntTuple`].
pub type IntTupleRef<'a> = TupleRef<'a, Int>;

/// A sub-tree of a [`Tuple`]: two slices, copied freely.
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

/// The number of codes and of leaves of the first sub-tree in `codes`.
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
    /// True for a leaf, false for a tuple.
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.codes.first() == Some(&LEAF)
    }

    /// The leaf, if it is one.
    #[inline]
    pub fn as_leaf(self) -> Option<&'a L> {
        if self.is_leaf() { self.leaves.first() } else { None }
    }

    /// The number of modes: 1 for a leaf.
    #[inline]
    pub fn rank(self) -> usize {
        match self.codes.first() {
            Some(&LEAF) | None => 1,
            Some(&arity) => usize::from(arity),
        }
    }

    /// The deepest nesting: 0 for a leaf, 1 for a tuple of leaves.
    pub fn depth(self) -> usize {
        if self.is_leaf() {
            return 0;
        }
        1 + self.children().map(TupleRef::depth).max().unwrap_or(0)
    }

    /// The children of a tuple; for a leaf, the leaf itself.
    #[inline]
    pub fn children(self) -> Children<'a, L> {
        let codes = if self.is_leaf() { self.codes } else { self.codes.get(1..).unwrap_or(&[]) };
        Children { rest: TupleRef { codes, leaves: self.leaves } }
    }

    /// Mode `index`; a leaf has mode 0, itself.
    pub fn child(self, index: usize) -> Option<TupleRef<'a, L>> {
        self.children().nth(index)
    }

    /// The mode at a path.
    ///
    /// # Errors
    /// [`LayoutError::NoSuchMode`].
    pub fn mode(self, path: &[usize]) -> Result<TupleRef<'a, L>, LayoutError> {
        let mut node = self;
        for &mode in path {
            let rank = node.rank();
            node = node.child(mode).ok_or(LayoutError::NoSuchMode { mode, rank })?;
        }
        Ok(node)
    }

    /// All leaves, in pre-order.
    #[inline]
    pub fn leaves(self) -> &'a [L] {
        self.leaves
    }

    /// True if both have the same profile, whatever their leaves are.
    pub fn congruent<M>(self, other: TupleRef<'_, M>) -> bool {
        self.codes == other.codes
    }

    /// True if the profile of `self` is the one of `other` cut off at the leaves of `self`.
    pub fn weakly_congruent<M>(self, other: TupleRef<'_, M>) -> bool {
        self.is_leaf()
            || (!other.is_leaf()
                && self.rank() == other.rank()
                && self.children().zip(other.children()).all(|(a, b)| a.weakly_congruent(b)))
    }
}

impl<L: Clone> TupleRef<'_, L> {
    /// A copy of its own.
    pub fn to_owned(self) -> Tuple<L> {
        Tuple {
            codes: Codes::from_slice(self.codes),
            leaves: self.leaves.iter().cloned().collect(),
        }
    }
}

/// Iterator over the modes of a tuple.
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

impl<L> Default for Tuple<L> {
    /// The empty tuple `()`.
    fn default() -> Self {
        let mut codes = Codes::new();
        codes.push(0);
        Self { codes, leaves: Leaves::new() }
    }
}

impl<L> Tuple<L> {
    /// A leaf.
    #[inline]
    pub fn leaf(leaf: impl Into<L>) -> Self {
        let (mut codes, mut leaves) = (Codes::new(), Leaves::new());
        codes.push(LEAF);
        leaves.push(leaf.into());
        Self { codes, leaves }
    }

    /// The whole tuple as a borrowed sub-tree.
    #[inline]
    pub fn as_ref(&self) -> TupleRef<'_, L> {
        TupleRef { codes: &self.codes, leaves: &self.leaves }
    }

    /// True for a leaf, false for a tuple.
    pub fn is_leaf(&self) -> bool {
        self.as_ref().is_leaf()
    }

    /// The leaf, if it is one.
    pub fn as_leaf(&self) -> Option<&L> {
        self.as_ref().as_leaf()
    }

    /// The number of modes: 1 for a leaf.
    pub fn rank(&self) -> usize {
        self.as_ref().rank()
    }

    /// The deepest nesting: 0 for a leaf.
    pub fn depth(&self) -> usize {
        self.as_ref().depth()
    }

    /// The modes; for a leaf, the leaf itself.
    pub fn children(&self) -> Children<'_, L> {
        self.as_ref().children()
    }

    /// All leaves, in pre-order.
    pub fn leaves(&self) -> &[L] {
        &self.leaves
    }

    /// The mode at a path.
    ///
    /// # Errors
    /// [`LayoutError::NoSuchMode`].
    pub fn mode(&self, path: &[usize]) -> Result<TupleRef<'_, L>, LayoutError> {
        self.as_ref().mode(path)
    }

    /// The tuple of `items`.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`] for more than 65534 items.
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

    /// True if both have the same profile, whatever their leaves are.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(4, (2, 8)).congruent(&shape!(1, (1, 1))));
    /// assert!(!shape!(4, 2).congruent(&shape!(4)));
    /// ```
    pub fn congruent<M>(&self, other: &Tuple<M>) -> bool {
        self.codes == other.codes
    }

    /// True if the profile of `self` is the one of `other` cut off at the leaves of `self`.
    pub fn weakly_congruent<M>(&self, other: &Tuple<M>) -> bool {
        self.as_ref().weakly_congruent(other.as_ref())
    }

    /// A tuple of the same profile with `f` of each leaf.
    ///
    /// # Errors
    /// The first error of `f`.
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
        self.as_ref().fmt(f)
    }
}
impl<L: fmt::Display> fmt::Debug for TupleRef<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Builds a [`Tuple`] from the left to the right.
#[derive(Clone)]
pub struct Builder<L> {
    tuple: Tuple<L>,
    /// The place of the code and the number of children so far of each open tuple.
    open: SmallVec<[(u32, u32); 8]>,
    error: Option<LayoutError>,
}

impl<L> Default for Builder<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L> Builder<L> {
    /// Nothing yet.
    pub fn new() -> Self {
        let tuple = Tuple { codes: Codes::new(), leaves: Leaves::new() };
        Self { tuple, open: SmallVec::new(), error: None }
    }

    fn child(&mut self) {
        if let Some((_, count)) = self.open.last_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// Begins a tuple.
    pub fn open(&mut self) {
        self.child();
        if self.open.len() >= MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.open.push((u32::try_from(self.tuple.codes.len()).unwrap_or(u32::MAX), 0));
        self.tuple.codes.push(0);
    }

    /// Ends the tuple that was begun last.
    pub fn close(&mut self) {
        let Some((at, count)) = self.open.pop() else { return };
        match u16::try_from(count) {
            Ok(count) if count != LEAF => {
                if let Some(code) = self.tuple.codes.get_mut(at as usize) {
                    *code = count;
                }
            }
            _ => {
                self.error.get_or_insert(LayoutError::TooLarge { limit: u64::from(LEAF) - 1 });
            }
        }
    }

    /// Appends a leaf.
    #[inline]
    pub fn push(&mut self, leaf: impl Into<L>) {
        self.child();
        self.tuple.codes.push(LEAF);
        self.tuple.leaves.push(leaf.into());
    }

    /// Appends a whole sub-tree.
    #[inline]
    pub fn push_tree(&mut self, tree: TupleRef<'_, L>)
    where
        L: Clone,
    {
        self.child();
        if self.open.len() + tree.depth() > MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.tuple.codes.extend_from_slice(tree.codes);
        self.tuple.leaves.extend(tree.leaves.iter().cloned());
    }

    /// Makes one tuple of the last `count` children of the open tuple, which must be leaves; one
    /// child stays as it is.
    #[inline]
    pub(crate) fn group_last(&mut self, count: usize) {
        if count < 2 {
            return;
        }
        if let (Ok(arity), Some(at)) =
            (u16::try_from(count), self.tuple.codes.len().checked_sub(count))
        {
            self.tuple.codes.insert(at, arity);
            if let Some((_, children)) = self.open.last_mut() {
                *children = children.saturating_sub(u32::from(arity) - 1);
            }
        }
    }

    /// Replaces the last leaf.
    pub(crate) fn change_last(&mut self, f: impl FnOnce(&L) -> L) {
        if let Some(last) = self.tuple.leaves.last_mut() {
            *last = f(last);
        }
    }

    /// The tuple.
    ///
    /// # Errors
    /// [`LayoutError::TooDeep`], [`LayoutError::TooLarge`].
    pub fn finish(mut self) -> Result<Tuple<L>, LayoutError> {
        while !self.open.is_empty() {
            self.close();
        }
        match self.error {
            Some(error) => Err(error),
            None if self.tuple.codes.is_empty() => Ok(Tuple::default()),
            None => Ok(self.tuple),
        }
    }
}

/// What can stand for a tuple with leaves of type `L` in an argument: a leaf, a Rust tuple or
/// array of such things, or a [`Tuple`].
pub trait IntoTuple<L> {
    /// Appends itself to a tuple under construction.
    fn push_into(self, out: &mut Builder<L>);

    /// The tuple.
    ///
    /// # Errors
    /// [`LayoutError::TooDeep`], [`LayoutError::TooLarge`].
    fn into_tuple(self) -> Result<Tuple<L>, LayoutError>
    where
        Self: Sized,
    {
        let mut out = Builder::new();
        self.push_into(&mut out);
        out.finish()
    }
}

impl<L> IntoTuple<L> for Tuple<L>
where
    L: Clone,
{
    fn push_into(self, out: &mut Builder<L>) {
        out.push_tree(self.as_ref());
    }

    fn into_tuple(self) -> Result<Tuple<L>, LayoutError> {
        Ok(self)
    }
}
impl<L: Clone> IntoTuple<L> for &Tuple<L> {
    fn push_into(self, out: &mut Builder<L>) {
        out.push_tree(self.as_ref());
    }
}
impl<L: Clone> IntoTuple<L> for TupleRef<'_, L> {
    fn push_into(self, out: &mut Builder<L>) {
        out.push_tree(self);
    }
}
impl<L, T: IntoTuple<L>, const N: usize> IntoTuple<L> for [T; N] {
    fn push_into(self, out: &mut Builder<L>) {
        out.open();
        for item in self {
            item.push_into(out);
        }
        out.close();
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl<L: From<Int>> IntoTuple<L> for $t {
            #[inline]
            fn push_into(self, out: &mut Builder<L>) {
                out.push(Int::from(self));
            }
        }
        impl<L: From<Int>> From<$t> for Tuple<L> {
            fn from(value: $t) -> Self {
                Tuple::leaf(Int::from(value))
            }
        }
    )*};
}
integers!(i64, i32, i16, i8, u64, u32, u16, u8, usize, isize, Int, &Int);

macro_rules! rust_tuples {
    ($($name:ident)*) => {
        impl<Leaf, $($name: IntoTuple<Leaf>),*> IntoTuple<Leaf> for ($($name,)*) {
            #[expect(non_snake_case, reason = "type names double as variable names")]
            fn push_into(self, out: &mut Builder<Leaf>) {
                let ($($name,)*) = self;
                out.open();
                $($name.push_into(out);)*
                out.close();
            }
        }
        impl<Leaf, $($name: IntoTuple<Leaf>),*> From<($($name,)*)> for Tuple<Leaf> {
            fn from(items: ($($name,)*)) -> Self {
                let mut out = Builder::new();
                items.push_into(&mut out);
                // Rust tuples of eight are far from both limits, and a nested `Tuple` is inside
                // of them already; only absurd nesting of both is cut to the empty tuple.
                out.finish().unwrap_or_default()
            }
        }
    };
}
rust_tuples!(A);
rust_tuples!(A B);
rust_tuples!(A B C);
rust_tuples!(A B C D);
rust_tuples!(A B C D E);
rust_tuples!(A B C D E F);
rust_tuples!(A B C D E F G);
rust_tuples!(A B C D E F G H);

impl<L, T: IntoTuple<L>, const N: usize> From<[T; N]> for Tuple<L> {
    fn from(items: [T; N]) -> Self {
        const { assert!(N < LEAF as usize, "a tuple has at most 65534 modes") };
        let mut out = Builder::new();
        items.push_into(&mut out);
        out.finish().unwrap_or_default()
    }
}

impl IntTupleRef<'_> {
    /// The number, if it is a leaf and static.
    pub fn as_static(self) -> Option<i64> {
        self.as_leaf().and_then(Int::as_static)
    }

    /// The product of all leaves, 1 for the empty tuple.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn product(self) -> Result<Int, LayoutError> {
        product(self.leaves)
    }
}

/// The product of `leaves`.
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
    /// The product of all leaves, 1 for the empty tuple.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn product(&self) -> Result<Int, LayoutError> {
        self.as_ref().product()
    }

    /// The number, if it is a leaf and static.
    pub fn as_static(&self) -> Option<i64> {
        self.as_ref().as_static()
    }

    /// True if no leaf has a symbol.
    pub fn is_static(&self) -> bool {
        self.leaves.iter().all(Int::is_static)
    }

    /// The tuple of the values for the numbers that `env` gives the symbols.
    ///
    /// # Errors
    /// Those of [`Int::eval`].
    pub fn eval(&self, env: &Env) -> Result<IntTuple, LayoutError> {
        self.map(|leaf| leaf.eval(env).map(Int::new))
    }
}
