//! Finds the elements that two layouts have in common, and the alignment of one layout.

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::builder::LayoutBuilder;
use super::coalesce::{Flat, Keep};
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::number::split_i64;

type Result<T> = std::result::Result<T, LayoutError>;

/// The coordinates that a layout maps to 0, 1, 2, ..
struct Prefix<'a> {
    /// The coalesced layout; its last mode is unbounded.
    modes: &'a [(Int, ScaledBasis)],
    /// For each mode but the last, the largest digit of the coordinates so far and the digit of a
    /// step.
    loads: SmallVec<[(i64, i64); 8]>,
    /// The number of coordinates.
    reached: i64,
    limit: i64,
}

impl Prefix<'_> {
    /// Appends the coordinates `extent:step`; none if the prefix ends before the last of them.
    #[inline]
    fn extend(&mut self, mut extent: i64, mut step: i64) -> Option<()> {
        while extent > 1 {
            let run = self.run(step)?;
            let count = run.min(extent).min(self.limit / self.reached);
            if count < 2 {
                return None;
            }
            for (load, digit) in &mut self.loads {
                *load += (count - 1) * *digit;
            }
            self.reached = self.reached.checked_mul(count)?;
            if extent % count != 0 {
                return None;
            }
            (extent, step) = (extent / count, step.checked_mul(count)?);
        }
        Some(())
    }

    /// The number of steps until a digit carries, if the index of one step is `reached`.
    #[inline]
    fn run(&mut self, step: i64) -> Option<i64> {
        let ((_, last), inner) = self.modes.split_last()?;
        let (mut high, mut index, mut run) = (step, 0i64, i64::MAX);
        for ((extent, stride), (load, digit)) in inner.iter().zip(&mut self.loads) {
            *digit = 0;
            if high == 0 {
                continue;
            }
            let extent = extent.as_static().filter(|extent| *extent > 0)?;
            (high, *digit) = split_i64(high, extent)?;
            if *digit > 0 {
                index = index.checked_add(digit.checked_mul(stride.as_static()?)?)?;
                run = run.min((extent - 1 - *load) / *digit + 1);
            }
        }
        if high != 0 {
            index = index.checked_add(high.checked_mul(last.as_static()?)?)?;
        }
        (index == self.reached).then_some(run)
    }
}

impl Layout {
    /// A right inverse of `other`, and the number of its elements that both layouts have in common,
    /// at most `limit`.
    #[inline]
    pub(crate) fn common(&self, other: &Layout, limit: i64) -> Result<(Layout, i64)> {
        let first = other.first_right_inverse()?;
        let count = self.identity_after(&first, limit)?;
        let longer = other.right_inverse()?;
        if longer != first {
            let further = self.identity_after(&longer, limit)?;
            if further > count {
                return Ok((longer, further));
            }
        }
        Ok((first, count))
    }

    /// The largest `n <= limit` such that the first `n` coordinates of `inverse` are whole modes,
    /// or a part of the last one, and `self(inverse(i)) == i` for all `i < n`. A symbol ends the
    /// count.
    #[inline]
    fn identity_after(&self, inverse: &Layout, limit: i64) -> Result<i64> {
        let mut left = Flat::<Int>::default();
        left.coalesce(self.as_ref(), Keep::WideAndLast)?;
        let mut prefix = Prefix { modes: &left.modes, loads: SmallVec::new(), reached: 1, limit };
        prefix.loads.resize(left.modes.len().saturating_sub(1), (0, 0));
        for (extent, step) in inverse.as_ref().leaves() {
            let (Some(extent), Some(step)) = (extent.as_static(), step.as_static()) else { break };
            if prefix.extend(extent, step).is_none() {
                break;
            }
        }
        Ok(prefix.reached)
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
    /// Those of [`right_inverse`](Layout::right_inverse).
    #[inline]
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout> {
        self.common_layout(other, i64::MAX)
    }

    /// As [`max_common_layout`](Layout::max_common_layout), of at most `limit` elements. A result
    /// of one element keeps the stride that CuTe prints.
    #[inline]
    pub(crate) fn common_layout(&self, other: &Layout, limit: i64) -> Result<Layout> {
        match self.common(other, limit)? {
            (_, ..=1) if limit > 1 => Ok(Layout::trivial()),
            (inverse, count) => inverse.composition(&Layout::leaf(count, 1)),
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
    #[inline]
    pub fn max_common_vector(&self, other: &Layout) -> Result<Int> {
        Ok(self.common(other, i64::MAX)?.1.into())
    }

    /// The largest `n` such that the layout is a layout of aligned blocks of `n` contiguous
    /// elements, as far as static extents and strides and the divisors of symbols prove it. CuTe
    /// takes every dynamic stride for aligned.
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
    #[inline]
    pub fn max_alignment(&self) -> Result<Int> {
        let flat = self.coalesce()?;
        let mut out = LayoutBuilder::new();
        let many = !flat.is_leaf();
        if many {
            out.open();
        }
        // The divisors of the steps of modes with a symbol.
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
