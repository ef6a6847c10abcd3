//! What two layouts have in common, how far one is aligned, and layouts made like others.

use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutBuilder};
use super::tuple::{Builder, IntTuple, IntTupleRef, Leaves};

type Result<T> = std::result::Result<T, LayoutError>;

impl Layout {
    /// A right inverse of `other`, and the first mode of `coalesce(self o inverse)` if it is static
    /// with stride 1.
    fn common(&self, other: &Layout) -> Result<(Layout, Option<Int>)> {
        let first = other.first_right_inverse()?;
        let extent = self.identity_after(&first)?;
        let longer = other.right_inverse()?;
        if longer != first
            && let Ok(further) = self.identity_after(&longer)
            && further.as_ref().and_then(Int::as_static) > extent.as_ref().and_then(Int::as_static)
        {
            return Ok((longer, further));
        }
        Ok((first, extent))
    }

    /// The number of elements on which `self o inverse` is the identity.
    fn identity_after(&self, inverse: &Layout) -> Result<Option<Int>> {
        let common = self.composition(inverse)?.coalesce()?;
        Ok(match (common.shape.first(), common.stride.first()) {
            (Some(s), Some(d)) if s.is_static() && d.as_static() == Some(1) => Some(s.clone()),
            _ => None,
        })
    }

    /// The largest layout of coordinates on which both are the identity:
    /// `self(R(i)) == i == other(R(i))` for all `i < size(R)`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let (a, b) = (layout!((8, 4):(1, 8)), layout!((8, 4):(1, 16)));
    /// assert_eq!(a.max_common_layout(&b)?, layout!(8:1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`composition`](Layout::composition) and [`right_inverse`](Layout::right_inverse).
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout> {
        match self.common(other)? {
            (inverse, Some(extent)) => inverse.composition(&Layout::leaf(extent, 1)),
            (_, None) => Ok(Layout::trivial()),
        }
    }

    /// The number of elements that are contiguous in both at the same coordinates: the widest
    /// vector of a copy. The size of [`max_common_layout`](Layout::max_common_layout).
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((8, 4):(1, 8)).max_common_vector(&layout!((8, 4):(1, 16)))?, 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`max_common_layout`](Layout::max_common_layout).
    pub fn max_common_vector(&self, other: &Layout) -> Result<Int> {
        Ok(self.common(other)?.1.unwrap_or(Int::ONE))
    }

    /// The largest `n` such that the layout is a layout of aligned blocks of `n` contiguous
    /// elements, as far as static extents and strides tell.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(1, 16)).max_alignment()?, 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`logical_divide`](Layout::logical_divide).
    pub fn max_alignment(&self) -> Result<Int> {
        let flat = self.coalesce()?;
        let mut out = LayoutBuilder::new();
        let many = !flat.is_leaf();
        if many {
            out.open();
        }
        for (s, d) in flat.as_ref().leaves() {
            let extent = if s.is_static() { s.clone() } else { Int::ONE };
            out.push(extent, d.as_static().unwrap_or(0));
        }
        if many {
            out.close();
        }
        let known = out.finish()?;
        let inverse = known.first_right_inverse()?;
        let permuted = known.logical_divide(&inverse)?;
        let mut alignment = permuted.as_ref().mode(&[0])?.size()?;
        for stride in permuted.as_ref().mode(&[1])?.stride {
            alignment = alignment.gcd(stride.to_int()?)?;
        }
        Ok(alignment)
    }

    /// A compact layout of the same shape whose modes have their strides in the same order;
    /// modes of stride 0 keep stride 0.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 6, 2):(24, 0, 3)).layout_like()?, layout!((4, 6, 2):(2, 0, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotAnIntegerStride`], [`LayoutError::Overflow`].
    pub fn layout_like(&self) -> Result<Layout> {
        let filtered = self.filter_zeros();
        let shape = filtered.shape().to_owned();
        let stride = Layout::ordered(&shape, &self.int_strides()?)?;
        Ok(Layout { codes: self.codes.clone(), shape: self.shape.clone(), stride: stride.stride })
    }

    pub(crate) fn int_strides(&self) -> Result<IntTuple> {
        let leaves =
            self.stride.iter().map(|d| d.to_int().cloned()).collect::<Result<Leaves<_>>>()?;
        Ok(IntTuple { codes: self.codes.clone(), leaves })
    }

    /// The layout of a register fragment of the same shape: the first mode compact, the others
    /// behind it in the order of their strides. CuTe's `make_fragment_like`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!(((2, 2), 4, 3):((1, 0), 12, 2)).fragment_like()?;
    /// assert_eq!(l.to_string(), "((2,2),4,3):((1,0),6,2)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotAnIntegerStride`], [`LayoutError::Overflow`].
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

    /// The identity on the shape of the layout: CuTe's `make_basis_like` as a layout.
    ///
    /// # Errors
    /// As [`identity`](Layout::identity).
    pub fn identity_like(&self) -> Result<Layout> {
        Layout::identity(self.shape())
    }
}

/// A layout of up to `n` coordinates of `shape`, spread over its modes: from each extent the
/// greatest divisor that `n` still has. CuTe's `domain_distribute`.
///
/// ```
/// use tilewright::layout::{Int, domain_distribute, layout, shape};
/// assert_eq!(domain_distribute(&shape!(15, 14), &Int::from(6))?, layout!((3, 2):(1, 15)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// [`LayoutError::Overflow`], [`LayoutError::DivisionByZero`] for an extent and `n` 0.
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

/// The strides of the compact column-major layout of `shape` that begins at `start`; where `start`
/// is a tuple, mode by mode. CuTe's `compact_col_major`.
///
/// ```
/// use tilewright::layout::{compact_col_major, shape};
/// assert_eq!(compact_col_major(&shape!(4, (2, 8)), &3.into())?, shape!(3, (12, 24)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// [`LayoutError::RankMismatch`], [`LayoutError::Overflow`].
pub fn compact_col_major(shape: &IntTuple, start: &IntTuple) -> Result<IntTuple> {
    let mut out = Builder::new();
    compact(shape.as_ref(), start.as_ref(), false, &mut out)?;
    out.finish()
}

/// The strides of the compact row-major layout of `shape` that begins at `start`. CuTe's
/// `compact_row_major`.
///
/// # Errors
/// As [`compact_col_major`].
pub fn compact_row_major(shape: &IntTuple, start: &IntTuple) -> Result<IntTuple> {
    let mut out = Builder::new();
    compact(shape.as_ref(), start.as_ref(), true, &mut out)?;
    out.finish()
}

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
