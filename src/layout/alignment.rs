//! Finds the elements that two layouts have in common, and the alignment of one layout.

use smallvec::{SmallVec, smallvec};

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
    /// The largest coordinate.
    last: i64,
    bounds: Bounds,
}

/// The limits of a search for common elements.
#[derive(Clone, Copy)]
struct Bounds {
    /// The number of coordinates that both layouts have.
    domain: i64,
    /// The largest number of elements.
    count: i64,
}

impl Prefix<'_> {
    /// Appends the coordinates `extent:step`; none if the prefix ends before the last of them.
    #[inline]
    fn extend(&mut self, mut extent: i64, mut step: i64) -> Option<()> {
        while extent > 1 {
            let run = self.run(step)?;
            let inside = (self.bounds.domain - 1 - self.last).checked_div(step)?.checked_add(1)?;
            let count = run.min(extent).min(inside).min(self.bounds.count / self.reached);
            if count < 2 {
                return None;
            }
            self.last += (count - 1) * step;
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
    /// The coordinates that both layouts map to `0..n`, as a layout of at least `n` elements, and
    /// `n`, which is at most `limit`.
    #[inline]
    pub(crate) fn common(&self, other: &Layout, limit: i64) -> Result<(Layout, i64)> {
        let domain = self.size()?.bounds().0.min(other.size()?.bounds().0).max(1);
        let bounds = Bounds { domain, count: limit };
        let first = other.first_right_inverse()?;
        let mut best = self.identity_after(&first, bounds)?;
        let mut longest = (first, best);
        // CuTe tries this inverse alone. If layouts overlap themselves there can be a longer one, and
        // `self` can have a longer one than `other`.
        let all = Layout::right_inverse as fn(&Layout) -> Result<Layout>;
        for (invert, inverted, layout) in
            [(all, other, self), (Layout::first_right_inverse, self, other), (all, self, other)]
        {
            if best == domain.min(limit) {
                break;
            }
            let inverse = invert(inverted)?;
            let count = layout.identity_after(&inverse, bounds)?;
            if count > best {
                best = count;
                longest = (inverse, count);
            }
        }
        Ok(longest)
    }

    /// The largest `n` within the bounds such that the first `n` coordinates of `inverse` are whole
    /// modes, or a part of the last one, and `self(inverse(i)) == i` for all `i < n`. A symbol ends
    /// the count.
    #[inline]
    fn identity_after(&self, inverse: &Layout, bounds: Bounds) -> Result<i64> {
        let mut left = Flat::<Int>::default();
        left.coalesce(self.as_ref(), Keep::WideAndLast)?;
        let loads = smallvec![(0, 0); left.modes.len().saturating_sub(1)];
        let mut prefix = Prefix { modes: &left.modes, loads, reached: 1, last: 0, bounds };
        for (extent, step) in inverse.as_ref().leaves() {
            let (Some(extent), Some(step)) = (extent.as_static(), step.as_static()) else { break };
            if prefix.extend(extent, step).is_none() {
                break;
            }
        }
        Ok(prefix.reached)
    }

    /// The coordinates of the elements that both layouts have at the same index, from index 0 on:
    /// `self(R(i)) == i == other(R(i))` for all `i < size(R)`.
    ///
    /// `R(i)` is a coordinate of both layouts, so `R` is at most as large as the smaller one. `R` is
    /// the longest beginning of the right inverses of both that keeps this law, or `1:0`. Its size
    /// is the same if you exchange the layouts, and so is `R`, unless a layout has several
    /// coordinates of one index. CuTe tries the right inverse of `other` alone and continues a
    /// layout beyond its size: `(2:1)` and `(4:1)` have 2 elements in common, and CuTe answers 4.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let (a, b) = (layout!((8, 4):(1, 8)), layout!((8, 4):(1, 16)));
    /// assert_eq!(a.max_common_layout(&b)?, layout!(8:1));
    /// assert_eq!(layout!(2:1).max_common_layout(&layout!(4:1))?, layout!(2:1));
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
    /// vector of a copy. The size of [`max_common_layout`](Layout::max_common_layout), which is at
    /// most the size of either layout and the same in both directions.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let (a, b) = (layout!((8, 4):(1, 8)), layout!((8, 4):(1, 16)));
    /// assert_eq!((a.max_common_vector(&b)?, b.max_common_vector(&a)?), (8.into(), 8.into()));
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
