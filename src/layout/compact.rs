//! Builds compact layouts: for a shape, in a given order, or like another layout. Use them for new
//! buffers, which have no strides yet.

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::builder::LayoutBuilder;
use super::error::LayoutError;
use super::int::Int;
use super::into_tuple::Builder;
use super::layout::Layout;
use super::tuple::{IntTuple, IntTupleRef, Leaves, product};

type Result<T> = std::result::Result<T, LayoutError>;

/// # Compact layouts
///
/// Makes layouts whose elements fill memory without gaps, in a chosen order.
impl Layout {
    /// Builds the column-major compact layout of a shape: the first mode has stride 1, and each
    /// following mode's stride is the product of the extents before it. A static extent of 1 gets
    /// stride 0, as in CuTe. This is CuTe's default for a shape without strides.
    ///
    /// This never fails. If a stride does not fit in 64 bits, every use of it returns
    /// [`LayoutError::Overflow`].
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::compact((4, (2, 8))).to_string(), "(4,(2,8)):(1,(4,8))");
    /// assert_eq!(Layout::compact((4, 1, 8)).to_string(), "(4,1,8):(1,0,4)");
    /// ```
    #[doc(alias = "LayoutLeft")]
    pub fn compact(shape: impl Into<IntTuple>) -> Self {
        Self::compact_in(shape.into(), false)
    }

    /// Builds the row-major compact layout of a shape: the last leaf has stride 1. Use it for
    /// tensors from C, NumPy or PyTorch.
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::row_major((4, (2, 8))).to_string(), "(4,(2,8)):(16,(8,1))");
    /// ```
    #[doc(alias = "LayoutRight")]
    pub fn row_major(shape: impl Into<IntTuple>) -> Self {
        Self::compact_in(shape.into(), true)
    }

    #[inline]
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

    /// Builds the compact layout whose strides grow in the order of the integers in `order`: CuTe's
    /// `make_ordered_layout`. For example, the shape `(2,3,4)` in the order `(2,0,1)` gives
    /// `(2,3,4):(12,1,3)`. `shape` must be nested like `order` or more deeply. Symbols in `order`
    /// come last, from left to right.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, shape};
    /// assert_eq!(Layout::ordered(&shape!(2, 3, 4), &shape!(2, 0, 1))?.to_string(), "(2,3,4):(12,1,3)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotCongruent`] if `order` is not weakly congruent to `shape`, or
    /// [`LayoutError::Overflow`].
    #[doc(alias("make_ordered_layout", "compact_order"))]
    #[inline]
    pub fn ordered(shape: &IntTuple, order: &IntTuple) -> Result<Self> {
        if !order.weakly_congruent(shape) {
            return Err(LayoutError::NotCongruent {
                left: order.to_string(),
                right: shape.to_string(),
            });
        }
        // For each leaf of the order, the leaves of the shape that it covers.
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
}

/// # Layouts like another
///
/// Keeps the shape, and chooses new strides.
impl Layout {
    /// Builds a compact layout with the same shape, whose strides are in the same order. Use it to
    /// allocate a buffer that keeps a tensor's memory order but not its gaps: for
    /// `(4,6,2):(24,0,3)` it is `(4,6,2):(2,0,1)`. Stride-0 modes keep stride 0. Symbolic strides
    /// come last, from left to right, as in CuTe.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 6, 2):(24, 0, 3)).layout_like()?, layout!((4, 6, 2):(2, 0, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnIntegerStride`] if a stride is a basis element or a fraction, or
    /// [`LayoutError::Overflow`].
    #[doc(alias = "make_layout_like")]
    #[inline]
    pub fn layout_like(&self) -> Result<Layout> {
        let filtered = self.filter_zeros();
        let shape = filtered.shape().to_owned();
        let stride = Layout::ordered(&shape, &self.int_strides()?)?;
        Ok(Layout { codes: self.codes.clone(), shape: self.shape.clone(), stride: stride.stride })
    }

    #[inline]
    pub(crate) fn int_strides(&self) -> Result<IntTuple> {
        let leaves =
            self.stride.iter().map(|d| d.to_int().cloned()).collect::<Result<Leaves<_>>>()?;
        Ok(IntTuple { codes: self.codes.clone(), leaves })
    }

    /// Builds the layout of a register fragment with the same shape: the first mode is compact, and
    /// the other modes follow in the order of their strides. CuTe's `make_fragment_like`. Use it
    /// for the registers that hold a thread's elements of a tile.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!(((2, 2), 4, 3):((1, 0), 12, 2)).fragment_like()?;
    /// assert_eq!(l.to_string(), "((2,2),4,3):((1,0),6,2)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnIntegerStride`] if a stride is a basis element or a fraction, or
    /// [`LayoutError::Overflow`].
    #[doc(alias = "make_fragment_like")]
    #[inline]
    pub fn fragment_like(&self) -> Result<Layout> {
        let shape = self.shape().to_owned();
        if self.rank() < 2 || !shape.is_static() {
            return Ok(Layout::compact(shape));
        }
        let first = self.get(&[0])?;
        let filtered = Layout::compact(first.filter_zeros().shape().to_owned());
        let block = Layout { codes: first.codes, shape: first.shape, stride: filtered.stride };
        let rest = self.take(1, self.rank())?;
        let tiler = Layout::ordered(&rest.shape().to_owned(), &rest.int_strides()?)?;
        block.tiled_product(&tiler)
    }

    /// Builds the identity on the layout's shape: CuTe's `make_basis_like` as a layout. Use it to
    /// find out which coordinate each element has, for example to skip elements outside a tensor.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(8, 1)).identity_like()?.to_string(), "(4,8):(1@0,1@1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`identity`](Layout::identity).
    #[inline]
    pub fn identity_like(&self) -> Result<Layout> {
        Layout::identity(self.shape())
    }
}

/// For each leaf of an order: its position in the order, and the leaves of the shape that it
/// covers.
type Groups = SmallVec<[((i64, usize), std::ops::Range<usize>); 8]>;

#[inline]
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

/// Builds a layout of up to `n` coordinates of `shape`, spread over its modes, for example to give
/// each of `n` threads one. Each mode takes the greatest common divisor of its extent and what is
/// left of `n`. For `(15,14)` and 6, the result is `(3,2):(1,15)`. CuTe's `domain_distribute`.
///
/// ```
/// use tilewright::layout::{Int, domain_distribute, layout, shape};
/// assert_eq!(domain_distribute(&shape!(15, 14), &Int::from(6))?, layout!((3, 2):(1, 15)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Returns [`LayoutError::Overflow`], or [`LayoutError::DivisionByZero`] if both an extent and `n`
/// are 0.
#[inline]
pub fn domain_distribute(shape: &IntTuple, n: &Int) -> Result<Layout> {
    let mut out = LayoutBuilder::new();
    let (mut rest, mut stride) = (n.clone(), Int::ONE);
    out.open();
    for extent in shape.leaves() {
        let part = extent.gcd(&rest)?;
        rest = rest.floor_div(&part)?;
        out.push(part, stride.clone());
        stride = stride.mul(extent)?;
    }
    out.close();
    out.finish()?.coalesce()
}

/// Returns the compact column-major strides of `shape`, with `start` as the first stride. If
/// `start` is a tuple, it applies mode by mode. CuTe's `compact_col_major`. Use it if you need only
/// the strides; [`Layout::compact`] builds the whole layout.
///
/// ```
/// use tilewright::layout::{compact_col_major, shape};
/// assert_eq!(compact_col_major(&shape!(4, (2, 8)), &3.into())?, shape!(3, (12, 24)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Returns [`LayoutError::RankMismatch`] if `start` is nested differently, or
/// [`LayoutError::Overflow`].
#[inline]
pub fn compact_col_major(shape: &IntTuple, start: &IntTuple) -> Result<IntTuple> {
    let mut out = Builder::new();
    compact(shape.as_ref(), start.as_ref(), false, &mut out)?;
    out.finish()
}

/// Returns the compact row-major strides of `shape`, with `start` as the last stride. CuTe's
/// `compact_row_major`. Use it if you need only the strides; [`Layout::row_major`] builds the whole
/// layout.
///
/// ```
/// # use tilewright::layout::{compact_row_major, shape};
/// assert_eq!(compact_row_major(&shape!(4, (2, 8)), &1.into())?, shape!(16, (8, 1)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// The same as [`compact_col_major`].
#[inline]
pub fn compact_row_major(shape: &IntTuple, start: &IntTuple) -> Result<IntTuple> {
    let mut out = Builder::new();
    compact(shape.as_ref(), start.as_ref(), true, &mut out)?;
    out.finish()
}

#[inline]
fn compact(
    shape: IntTupleRef<'_>,
    start: IntTupleRef<'_>,
    reverse: bool,
    out: &mut Builder<Int>,
) -> Result<()> {
    let Some(start) = start.as_leaf() else {
        if shape.is_leaf() || shape.rank() != start.rank() {
            return Err(LayoutError::RankMismatch { expected: shape.rank(), found: start.rank() });
        }
        out.open();
        for (s, c) in shape.children().zip(start.children()) {
            compact(s, c, reverse, out)?;
        }
        out.close();
        return Ok(());
    };
    let mut strides: Leaves<Int> = shape.leaves().iter().map(|_| Int::ZERO).collect();
    let mut current = start.clone();
    let n = strides.len();
    for i in 0..n {
        let i = if reverse { n - 1 - i } else { i };
        let extent = &shape.leaves()[i];
        if !extent.is(1) {
            strides[i] = current.clone();
            current = current.mul(extent)?;
        }
    }
    let tuple = super::tuple::Tuple { codes: shape.codes.into(), leaves: strides };
    out.push_tree(tuple.as_ref());
    Ok(())
}
