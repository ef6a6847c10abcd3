//! [`AllLayouts`] enumerates all small layouts, for tests that try every case instead of random
//! ones.

use std::ops::RangeInclusive;

use crate::layout::builder::LayoutBuilder;
use crate::layout::layout::Layout;

/// Enumerates all flat layouts with ranks in `ranks`, extents in `extents` and strides in
/// `strides`.
///
/// A layout of rank 1 is a single mode, such as `4:2`. The first mode varies fastest, its extent
/// before its stride. Skipping is cheap, so use `step_by` for an even sample if there are too many
/// layouts to try them all. Extents below 1 and ranks outside of 1 to 64 are left out.
///
/// ```
/// use tilewright::layout::laws::{all_layouts, check_left_inverse};
///
/// // Rank 1 and 2, with the sign of each stride: every left inverse satisfies its law.
/// let all = all_layouts(1..=2, 1..=3, -2..=4);
/// assert_eq!(all.len(), 21 + 21 * 21);
/// for l in all {
///     if let Ok(inverse) = l.left_inverse() {
///         check_left_inverse(&l, &inverse)?;
///     }
/// }
/// # Ok::<(), tilewright::layout::laws::Violation>(())
/// ```
pub fn all_layouts(
    ranks: RangeInclusive<usize>,
    extents: RangeInclusive<i64>,
    strides: RangeInclusive<i64>,
) -> AllLayouts {
    let (first_extent, last_extent) = ((*extents.start()).max(1), *extents.end());
    let count = |first: i64, last: i64| {
        if first > last { 0 } else { first.abs_diff(last).saturating_add(1) }
    };
    AllLayouts {
        ranks: (*ranks.start()).max(1)..=(*ranks.end()).min(64),
        extents: count(first_extent, last_extent),
        strides: count(*strides.start(), *strides.end()),
        first_extent,
        first_stride: *strides.start(),
        next: 0,
    }
}

/// The iterator that [`all_layouts`] returns. You name it only to store it or to pass it on.
///
/// ```
/// use tilewright::layout::laws::{AllLayouts, all_layouts};
/// let mut all: AllLayouts = all_layouts(1..=1, 1..=2, 0..=1);
/// assert!(all.by_ref().map(|l| l.to_string()).eq(["1:0", "2:0", "1:1", "2:1"]));
/// assert_eq!((all.len(), all.next()), (0, None));
/// ```
#[derive(Clone, Debug)]
pub struct AllLayouts {
    /// The ranks that are not finished.
    ranks: RangeInclusive<usize>,
    extents: u64,
    strides: u64,
    first_extent: i64,
    first_stride: i64,
    /// The next layout's index among those of the first rank left.
    next: u64,
}

impl AllLayouts {
    /// Returns how many layouts are left, or `u64::MAX` if there are more than that. Use it to
    /// choose a sample if there are too many to try.
    ///
    /// ```
    /// use tilewright::layout::laws::all_layouts;
    /// let mut all = all_layouts(1..=2, 1..=3, -2..=4);
    /// assert_eq!(all.len(), 462);
    /// all.next();
    /// assert_eq!(all.len(), 461);
    /// ```
    pub fn len(&self) -> u64 {
        let of_ranks = self.ranks.clone().map(|rank| self.of_rank(rank));
        of_ranks.fold(0, u64::saturating_add).saturating_sub(self.next)
    }

    /// Returns true if no layout is left, or if the ranges allow none.
    ///
    /// ```
    /// use tilewright::layout::laws::all_layouts;
    /// assert!(all_layouts(1..=3, 1..=0, 0..=8).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn of_rank(&self, rank: usize) -> u64 {
        let one = self.extents.saturating_mul(self.strides);
        u32::try_from(rank).map_or(u64::MAX, |rank| one.saturating_pow(rank))
    }

    #[inline]
    fn layout(&self, rank: usize, mut index: u64) -> Layout {
        let mut digit = |count: u64, first: i64| {
            let digit = index % count;
            index /= count;
            first.saturating_add_unsigned(digit)
        };
        let mut out = LayoutBuilder::new();
        if rank > 1 {
            out.open();
        }
        for _ in 0..rank {
            let extent = digit(self.extents, self.first_extent);
            out.push(extent, digit(self.strides, self.first_stride));
        }
        if rank > 1 {
            out.close();
        }
        out.finish_literal()
    }
}

impl Iterator for AllLayouts {
    type Item = Layout;

    #[inline]
    fn next(&mut self) -> Option<Layout> {
        self.nth(0)
    }

    #[inline]
    fn nth(&mut self, skipped: usize) -> Option<Layout> {
        let mut index = self.next.saturating_add(u64::try_from(skipped).unwrap_or(u64::MAX));
        loop {
            if self.ranks.is_empty() {
                return None;
            }
            let rank = *self.ranks.start();
            let count = self.of_rank(rank);
            if index < count {
                self.next = index + 1;
                return Some(self.layout(rank, index));
            }
            index -= count;
            self.next = 0;
            self.ranks.next();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = usize::try_from(self.len()).ok();
        (len.unwrap_or(usize::MAX), len)
    }
}
