//! What two layouts have in common, and how far one is aligned.

use super::builder::LayoutBuilder;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;

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
    /// elements, as far as static extents and strides and the divisors of symbols tell. CuTe takes
    /// every run-time stride for aligned.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout, layout};
    /// assert_eq!(layout!((4, 8):(1, 16)).max_alignment()?, 4);
    /// let pitch = Int::symbol("pitch").divisible_by(4);
    /// assert_eq!(Layout::new((8, 8), (1, pitch))?.max_alignment()?, 4);
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
        // The steps of modes that have a symbol: what is known to divide them.
        let mut steps = Int::ZERO;
        for (s, d) in flat.as_ref().leaves() {
            if s.is_static() && d.as_static().is_some() {
                out.push(s.clone(), d.clone());
            } else {
                steps = steps.gcd(&Int::new(d.to_int()?.divisibility()))?;
                out.push(1, 0);
            }
        }
        if many {
            out.close();
        }
        let known = out.finish()?;
        let inverse = known.first_right_inverse()?;
        let permuted = known.logical_divide(&inverse)?;
        let mut alignment = permuted.as_ref().mode(&[0])?.size()?.gcd(&steps)?;
        for stride in permuted.as_ref().mode(&[1])?.stride {
            alignment = alignment.gcd(stride.to_int()?)?;
        }
        Ok(alignment)
    }
}
