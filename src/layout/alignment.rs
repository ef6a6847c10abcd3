//! How many elements two layouts have in common, and how well a layout is aligned. Together they
//! give the widest vector of a copy between the two.

use smallvec::{SmallVec, smallvec};

use super::basis::ScaledBasis;
use super::builder::LayoutBuilder;
use super::coalesce::{Flat, Keep};
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::number::split_i64;

type Result<T> = std::result::Result<T, LayoutError>;

/// The coordinates found so far that a layout maps to 0, 1, 2, ..
struct Prefix<'a> {
    /// The coalesced layout. Its last mode is unbounded.
    modes: &'a [(Int, ScaledBasis)],
    /// For each mode but the last, the largest digit of the coordinates so far and the current
    /// step's digit.
    loads: SmallVec<[(i64, i64); 8]>,
    /// How many coordinates there are so far.
    reached: i64,
    /// The largest coordinate so far.
    last: i64,
    bounds: Bounds,
}

/// What limits a search for common elements.
#[derive(Clone, Copy)]
struct Bounds {
    /// How many coordinates both layouts have.
    domain: i64,
    /// The most elements to look for.
    count: i64,
}

impl Prefix<'_> {
    /// Appends the coordinates `extent:step`. Returns `None` if the prefix ends before the last of
    /// them.
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

    /// Returns how many steps fit until a digit carries, if one step has the index `reached`.
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

/// # Common vectors and alignment
///
/// Finds the widest vector that a copy between two layouts can use.
impl Layout {
    /// Returns the coordinates that both layouts map to `0..n`, as a layout with at least `n`
    /// elements, and `n` itself, which is at most `limit`.
    #[inline]
    pub(crate) fn common(&self, other: &Layout, limit: i64) -> Result<(Layout, i64)> {
        let domain = self.size()?.bounds().0.min(other.size()?.bounds().0).max(1);
        let bounds = Bounds { domain, count: limit };
        let first = other.first_right_inverse()?;
        let mut best = self.identity_after(&first, bounds)?;
        let mut longest = (first, best);
        // CuTe tries only this inverse. There can be a longer one if layouts overlap themselves, or
        // if `self` has a longer inverse than `other`.
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

    /// Returns the largest `n` within the bounds for which `self(inverse(i)) == i` for all `i < n`,
    /// and for which the first `n` coordinates of `inverse` are whole modes, except that the last
    /// may be cut. A symbol ends the count.
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

    /// Returns the coordinates of the elements that both layouts have at the same index, from index
    /// 0 on: `self(R(i)) == i == other(R(i))` for all `i < size(R)`. Use it to find what a copy
    /// between them can move as one block.
    ///
    /// `R(i)` is a coordinate of both layouts, so `R` is at most as large as the smaller one. It is
    /// the longest prefix of a right inverse of either layout for which this holds, or `1:0`. If
    /// you exchange the layouts, `size(R)` stays the same. So does `R`, unless a layout has several
    /// coordinates with the same index.
    ///
    /// CuTe tries only the right inverse of `other`, and lets a layout continue past its size: it
    /// says that `(2:1)` and `(4:1)` have 4 elements in common, but there are only 2.
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
    /// The same as [`right_inverse`](Layout::right_inverse).
    #[inline]
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout> {
        self.common_layout(other, i64::MAX)
    }

    /// Like [`max_common_layout`](Layout::max_common_layout), but with at most `limit` elements. A
    /// result with one element keeps the stride that CuTe prints.
    #[inline]
    pub(crate) fn common_layout(&self, other: &Layout, limit: i64) -> Result<Layout> {
        match self.common(other, limit)? {
            (_, ..=1) if limit > 1 => Ok(Layout::trivial()),
            (inverse, count) => inverse.composition(&Layout::leaf(count, 1)),
        }
    }

    /// Returns how many elements are contiguous in both layouts at the same coordinates. This is
    /// the widest vector that a copy between them can use. It is the size of
    /// [`max_common_layout`](Layout::max_common_layout), so it is at most the size of either layout
    /// and the same in both directions.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let (a, b) = (layout!((8, 4):(1, 8)), layout!((8, 4):(1, 16)));
    /// assert_eq!((a.max_common_vector(&b)?, b.max_common_vector(&a)?), (8.into(), 8.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`max_common_layout`](Layout::max_common_layout).
    #[inline]
    pub fn max_common_vector(&self, other: &Layout) -> Result<Int> {
        Ok(self.common(other, i64::MAX)?.1.into())
    }

    /// Returns the largest `n` for which the layout provably consists of aligned blocks of `n`
    /// contiguous elements. For example, it is 4 for `(4,8):(1,16)`, so a copy may use vectors
    /// of 4. Static extents and strides count, and so do the divisors of symbols. (CuTe assumes
    /// that every dynamic stride is aligned.)
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
    /// The same as [`logical_divide`](Layout::logical_divide).
    #[inline]
    pub fn max_alignment(&self) -> Result<Int> {
        let flat = self.coalesce()?;
        let mut out = LayoutBuilder::new();
        let many = !flat.is_leaf();
        if many {
            out.open();
        }
        // The greatest common divisor of the steps of modes that have a symbol.
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
