//! [`Layout`]: a function from coordinates to integers (or coordinates), given by shape and stride.

use std::fmt;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::error::LayoutError;
use super::int::{Env, Int};
use super::tuple::{
    Codes, IntTuple, IntTupleRef, IntoTuple, LEAF, Leaves, MAX_DEPTH, Tuple, TupleRef,
    first_subtree, product,
};

type Result<T> = std::result::Result<T, LayoutError>;

/// Strides: a tuple congruent to a shape.
pub type StrideTuple = Tuple<ScaledBasis>;
/// A sub-tree of a [`StrideTuple`].
pub type StrideRef<'a> = TupleRef<'a, ScaledBasis>;

/// A function from coordinates to indices: `shape : stride`.
///
/// A coordinate is an integer, or a tuple that the shape refines. The index of a coordinate of
/// leaves is the sum of the products with the strides; an integer is split into such a coordinate
/// with the first mode running fastest, the last mode taking what is left.
///
/// ```
/// use tilewright::layout::{Layout, layout};
/// let a: Layout = layout!((4, (2, 8)):(2, (1, 8)));
/// assert_eq!(a.to_string(), "(4,(2,8)):(2,(1,8))");
/// assert_eq!(a.crd2idx((3, (1, 2)))?, 3 * 2 + 1 + 2 * 8);
/// assert_eq!(a.at(3 + 4 * (1 + 2 * 2))?, 23);
/// assert_eq!((a.size()?.as_static(), a.cosize()?.as_static()), (Some(64), Some(64)));
/// assert_eq!("(4,(_2,8)):(2,(1,8))".parse::<Layout>()?, a);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone)]
pub struct Layout {
    pub(crate) codes: Codes,
    pub(crate) shape: Leaves<Int>,
    pub(crate) stride: Leaves<ScaledBasis>,
}

/// A mode of a [`Layout`], borrowed.
#[derive(Clone, Copy)]
pub struct LayoutRef<'a> {
    pub(crate) codes: &'a [u16],
    pub(crate) shape: &'a [Int],
    pub(crate) stride: &'a [ScaledBasis],
}

impl<'a> LayoutRef<'a> {
    /// The shape.
    #[inline]
    pub fn shape(self) -> IntTupleRef<'a> {
        TupleRef { codes: self.codes, leaves: self.shape }
    }

    /// The strides, congruent to the shape.
    #[inline]
    pub fn stride(self) -> StrideRef<'a> {
        TupleRef { codes: self.codes, leaves: self.stride }
    }

    /// True for a single extent and stride.
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.codes.first() == Some(&LEAF)
    }

    /// The number of modes: 1 for a leaf.
    #[inline]
    pub fn rank(self) -> usize {
        self.shape().rank()
    }

    /// The modes; for a leaf, the leaf itself.
    #[inline]
    pub fn modes(self) -> Modes<'a> {
        let codes = if self.is_leaf() { self.codes } else { self.codes.get(1..).unwrap_or(&[]) };
        Modes { rest: LayoutRef { codes, ..self } }
    }

    /// The extents and strides of the leaves, in order.
    #[inline]
    pub fn leaves(self) -> impl DoubleEndedIterator<Item = (&'a Int, &'a ScaledBasis)> {
        self.shape.iter().zip(self.stride)
    }

    /// The number of coordinates: the product of the extents.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn size(self) -> Result<Int> {
        product(self.shape)
    }

    /// A copy of its own.
    pub fn to_layout(self) -> Layout {
        Layout {
            codes: Codes::from_slice(self.codes),
            shape: self.shape.iter().cloned().collect(),
            stride: self.stride.iter().cloned().collect(),
        }
    }
}

/// Iterator over the modes of a layout.
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

impl Layout {
    /// `shape : stride`.
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::new((4, (2, 8)), (2, (1, 8)))?.to_string(), "(4,(2,8)):(2,(1,8))");
    /// assert!(Layout::new((4, 8), (1, (4, 32))).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotCongruent`].
    pub fn new(shape: impl IntoTuple<Int>, stride: impl IntoTuple<ScaledBasis>) -> Result<Self> {
        let (shape, stride) = (shape.into_tuple()?, stride.into_tuple()?);
        if !shape.congruent(&stride) {
            return Err(LayoutError::NotCongruent {
                left: shape.to_string(),
                right: stride.to_string(),
            });
        }
        Ok(Self { codes: shape.codes, shape: shape.leaves, stride: stride.leaves })
    }

    /// One mode: `extent : stride`.
    #[inline]
    pub fn leaf(extent: impl Into<Int>, stride: impl Into<ScaledBasis>) -> Self {
        let mut codes = Codes::new();
        codes.push(LEAF);
        let (mut shape, mut strides) = (Leaves::new(), Leaves::new());
        shape.push(extent.into());
        strides.push(stride.into());
        Self { codes, shape, stride: strides }
    }

    /// `1:0`, the layout of one coordinate.
    #[inline]
    pub fn trivial() -> Self {
        Self::leaf(1, 0)
    }

    /// The column-major compact layout of a shape: the first mode has stride 1, each further one
    /// the product of the extents before it. A static extent 1 gets stride 0, as in CuTe.
    ///
    /// A stride that does not fit into 64 bits is kept as a value whose every use is
    /// [`LayoutError::Overflow`].
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::compact((4, (2, 8))).to_string(), "(4,(2,8)):(1,(4,8))");
    /// assert_eq!(Layout::compact((4, 1, 8)).to_string(), "(4,1,8):(1,0,4)");
    /// ```
    pub fn compact(shape: impl Into<IntTuple>) -> Self {
        Self::compact_in(shape.into(), false)
    }

    /// The row-major compact layout of a shape: the last leaf has stride 1.
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::row_major((4, (2, 8))).to_string(), "(4,(2,8)):(16,(8,1))");
    /// ```
    pub fn row_major(shape: impl Into<IntTuple>) -> Self {
        Self::compact_in(shape.into(), true)
    }

    fn compact_in(shape: IntTuple, reverse: bool) -> Self {
        let mut stride: Leaves<ScaledBasis> =
            shape.leaves.iter().map(|_| ScaledBasis::from(0)).collect();
        let mut current = Int::ONE;
        let mut assign = |extent: &Int, stride: &mut ScaledBasis| {
            if !extent.is(1) {
                *stride = current.clone().into();
                current = current.mul(extent).unwrap_or_else(|_| Int::overflowed());
            }
        };
        if reverse {
            shape.leaves.iter().zip(&mut stride).rev().for_each(|(s, d)| assign(s, d));
        } else {
            shape.leaves.iter().zip(&mut stride).for_each(|(s, d)| assign(s, d));
        }
        Self { codes: shape.codes, shape: shape.leaves, stride }
    }

    /// The compact layout whose modes get their strides in the order of the numbers in `order`,
    /// a tuple that `shape` refines: CuTe's `make_ordered_layout`. Symbols in `order` come after all
    /// numbers, from the left to the right.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, shape};
    /// assert_eq!(Layout::ordered(&shape!(2, 3, 4), &shape!(2, 0, 1))?.to_string(), "(2,3,4):(12,1,3)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotCongruent`] if `order` is not weakly congruent to `shape`,
    /// [`LayoutError::Overflow`].
    pub fn ordered(shape: &IntTuple, order: &IntTuple) -> Result<Self> {
        if !order.weakly_congruent(shape) {
            return Err(LayoutError::NotCongruent {
                left: order.to_string(),
                right: shape.to_string(),
            });
        }
        // The leaves of the shape below each leaf of the order.
        let mut groups = Groups::new();
        let mut next = 0;
        collect_groups(order.as_ref(), shape.as_ref(), &mut next, &mut groups);
        let mut stride: Leaves<ScaledBasis> =
            shape.leaves.iter().map(|_| ScaledBasis::from(0)).collect();
        for (rank, range) in &groups {
            let mut current = Int::ONE;
            for (other, below) in &groups {
                if other < rank {
                    current = current.mul(&product(&shape.leaves[below.clone()])?)?;
                }
            }
            for i in range.clone() {
                if !shape.leaves[i].is(1) {
                    stride[i] = current.clone().into();
                    current = current.mul(&shape.leaves[i])?;
                }
            }
        }
        Ok(Self { codes: shape.codes.clone(), shape: shape.leaves.clone(), stride })
    }

    /// The identity on a shape: each leaf has its own basis element as stride.
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::identity((4, (2, 8)))?.to_string(), "(4,(2,8)):(1@0,(1@0@1,1@1@1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooDeep`], [`LayoutError::TooLarge`] for more than a basis path holds.
    pub fn identity(shape: impl IntoTuple<Int>) -> Result<Self> {
        fn walk(
            node: IntTupleRef<'_>,
            path: &mut Vec<usize>,
            out: &mut Leaves<ScaledBasis>,
        ) -> Result<()> {
            if node.is_leaf() {
                out.push(ScaledBasis::e(path)?);
                return Ok(());
            }
            for (i, child) in node.children().enumerate() {
                path.push(i);
                walk(child, path, out)?;
                path.pop();
            }
            Ok(())
        }
        let shape = shape.into_tuple()?;
        let mut stride = Leaves::new();
        walk(shape.as_ref(), &mut Vec::new(), &mut stride)?;
        Ok(Self { codes: shape.codes, shape: shape.leaves, stride })
    }

    /// The layout whose modes are `modes`, in order: CuTe's `make_layout` of layouts.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout};
    /// let l = Layout::concat([&layout!(4:1), &layout!((2, 8):(4, 8))])?;
    /// assert_eq!(l.to_string(), "(4,(2,8)):(1,(4,8))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooDeep`], [`LayoutError::TooLarge`].
    pub fn concat<'a>(modes: impl IntoIterator<Item = &'a Layout>) -> Result<Self> {
        let mut out = LayoutBuilder::new();
        out.open();
        for mode in modes {
            out.push_ref(mode.as_ref());
        }
        out.close();
        out.finish()
    }

    /// The whole layout as a borrowed mode.
    #[inline]
    pub fn as_ref(&self) -> LayoutRef<'_> {
        LayoutRef { codes: &self.codes, shape: &self.shape, stride: &self.stride }
    }

    /// The shape.
    #[inline]
    pub fn shape(&self) -> IntTupleRef<'_> {
        self.as_ref().shape()
    }

    /// The strides, congruent to the shape.
    #[inline]
    pub fn stride(&self) -> StrideRef<'_> {
        self.as_ref().stride()
    }

    /// The number of modes: 1 for a single extent and stride.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// The deepest nesting: 0 for a single extent and stride.
    pub fn depth(&self) -> usize {
        self.shape().depth()
    }

    /// True for a single extent and stride.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.as_ref().is_leaf()
    }

    /// The modes.
    pub fn modes(&self) -> Modes<'_> {
        self.as_ref().modes()
    }

    /// True if no extent and no stride has a symbol.
    pub fn is_static(&self) -> bool {
        self.shape.iter().all(Int::is_static) && self.stride.iter().all(ScaledBasis::is_static)
    }

    /// The number of coordinates: the product of the extents.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn size(&self) -> Result<Int> {
        product(&self.shape)
    }

    /// One more than the largest index, for strides that are not negative. In general the size of
    /// [`coshape`](Layout::coshape), in which strides count with their absolute value.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 4):(8, 0)).cosize()?, 9);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn cosize(&self) -> Result<Int> {
        self.coshape()?.product()
    }

    /// The smallest shape that contains all results: `sum (extent - 1) * |stride|`, plus 1 in each
    /// place. An integer for a layout into the integers.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, shape};
    /// assert_eq!(Layout::identity((4, (2, 8)))?.coshape()?, shape!(4, (2, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`], [`LayoutError::NotAnIntegerStride`] for a ratio.
    pub fn coshape(&self) -> Result<IntTuple> {
        let mut sum = super::basis::Sum::Zero;
        for (extent, stride) in self.as_ref().leaves() {
            let last = extent.sub(&Int::ONE)?;
            match stride.value() {
                Some(value) => sum.add(&stride.with_value(value.abs()?), &last)?,
                None => return Err(LayoutError::NotAnIntegerStride { stride: stride.to_string() }),
            }
        }
        sum.finish()?.map(|leaf| leaf.add(&Int::ONE))
    }

    /// The layout for the numbers that `env` gives the symbols.
    ///
    /// # Errors
    /// Those of [`Int::eval`].
    pub fn eval(&self, env: &Env) -> Result<Layout> {
        Ok(Self {
            codes: self.codes.clone(),
            shape: self.shape.iter().map(|s| s.eval(env).map(Int::new)).collect::<Result<_>>()?,
            stride: self.stride.iter().map(|d| d.eval(env)).collect::<Result<_>>()?,
        })
    }
}

/// For each leaf of an order its place in the order and the leaves of the shape below it.
type Groups = SmallVec<[((i64, usize), std::ops::Range<usize>); 8]>;

fn collect_groups(
    order: IntTupleRef<'_>,
    shape: IntTupleRef<'_>,
    next: &mut usize,
    out: &mut Groups,
) {
    if let Some(leaf) = order.as_leaf() {
        let end = *next + shape.leaves().len();
        let key = leaf.as_static().map_or((i64::MAX, out.len()), |order| (order, 0));
        out.push((key, *next..end));
        *next = end;
        return;
    }
    for (o, s) in order.children().zip(shape.children()) {
        collect_groups(o, s, next, out);
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.codes == other.codes && self.shape == other.shape && self.stride == other.stride
    }
}
impl Eq for Layout {}
impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.codes.hash(state);
        self.shape.hash(state);
        self.stride.hash(state);
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
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Builds a [`Layout`] from the left to the right, leaf by leaf.
///
/// ```
/// use tilewright::layout::{LayoutBuilder, layout};
/// let mut out = LayoutBuilder::new();
/// out.open();
/// out.push(4, 2);
/// out.push_ref(layout!((2, 8):(1, 8)).as_ref());
/// out.close();
/// assert_eq!(out.finish()?, layout!((4, (2, 8)):(2, (1, 8))));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone)]
pub struct LayoutBuilder {
    layout: Layout,
    /// The place of the code and the number of modes so far of each open tuple.
    open: SmallVec<[(u32, u32); 8]>,
    error: Option<LayoutError>,
}

impl Default for LayoutBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl LayoutBuilder {
    /// Nothing yet.
    #[inline]
    pub fn new() -> Self {
        let layout = Layout { codes: Codes::new(), shape: Leaves::new(), stride: Leaves::new() };
        Self { layout, open: SmallVec::new(), error: None }
    }

    #[inline]
    fn mode(&mut self) {
        if let Some((_, count)) = self.open.last_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// Begins a tuple of modes.
    #[inline]
    pub fn open(&mut self) {
        self.mode();
        if self.open.len() >= MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.open.push((u32::try_from(self.layout.codes.len()).unwrap_or(u32::MAX), 0));
        self.layout.codes.push(0);
    }

    /// Ends the tuple that was begun last.
    #[inline]
    pub fn close(&mut self) {
        let Some((at, count)) = self.open.pop() else { return };
        match (u16::try_from(count), self.layout.codes.get_mut(at as usize)) {
            (Ok(count), Some(code)) if count != LEAF => *code = count,
            _ => {
                self.error.get_or_insert(LayoutError::TooLarge { limit: u64::from(LEAF) - 1 });
            }
        }
    }

    /// Appends the mode `extent : stride`.
    #[inline]
    pub fn push(&mut self, extent: impl Into<Int>, stride: impl Into<ScaledBasis>) {
        self.mode();
        self.layout.codes.push(LEAF);
        self.layout.shape.push(extent.into());
        self.layout.stride.push(stride.into());
    }

    /// Appends a copy of a mode.
    #[inline]
    pub fn push_ref(&mut self, mode: LayoutRef<'_>) {
        self.mode();
        // A mode of few nodes cannot be too deep in a shallow place.
        if self.open.len() + mode.codes.len() > MAX_DEPTH
            && self.open.len() + mode.shape().depth() > MAX_DEPTH
        {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.layout.codes.extend_from_slice(mode.codes);
        for (s, d) in mode.leaves() {
            self.layout.shape.push(s.clone());
            self.layout.stride.push(d.clone());
        }
    }

    /// The layout.
    ///
    /// # Errors
    /// [`LayoutError::TooDeep`], [`LayoutError::TooLarge`].
    #[inline]
    pub fn finish(mut self) -> Result<Layout> {
        while !self.open.is_empty() {
            self.close();
        }
        if self.layout.codes.is_empty() {
            self.layout.codes.push(0);
        }
        match self.error {
            None => Ok(self.layout),
            Some(error) => Err(error),
        }
    }

    /// The layout that a macro wrote down; only nesting beyond the limit, which would have to be
    /// in the source text, is replaced by the empty layout.
    #[doc(hidden)]
    pub fn finish_literal(self) -> Layout {
        self.finish().unwrap_or_else(|_| Layout {
            codes: SmallVec::from_slice(&[0]),
            shape: Leaves::new(),
            stride: Leaves::new(),
        })
    }
}

const _: () = assert!(MAX_DEPTH < 128);
