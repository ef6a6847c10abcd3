//! [`Image`] is the set of indices that a layout reaches, stored as runs with one step.
//! [`Analysis::image`](super::Analysis::image) returns it. Where no run is, the layout has a gap.

use std::fmt;

use smallvec::SmallVec;

use super::{DOMAIN_LIMIT, Inner, Offsets, Result};
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;

/// One piece of an [`Image`]: `count` indices `start, start + step, ..`. The step is in the
/// [`Image`].
///
/// ```
/// use tilewright::layout::{Analysis, Run, layout};
/// let image = layout!((4, 2):(2, 16)).image()?;
/// assert_eq!(image.runs(), [Run { start: 0, count: 4 }, Run { start: 16, count: 4 }]);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The smallest index of the run.
    pub start: i64,
    /// How many indices the run has. It is at least one.
    pub count: u64,
}

/// The set of indices that a layout reaches, as runs with one common step, in increasing order.
/// [`Analysis::image`](super::Analysis::image) returns it. Use it to see the gaps of a layout, or
/// to test whether two layouts reach the same elements.
///
/// The step is the greatest common divisor of all differences (1 if there is a single index). The
/// runs are maximal, so two images are equal exactly if the sets are equal.
///
/// ```
/// use tilewright::layout::{Analysis, layout};
/// let image = layout!((4, 2):(2, 16)).image()?;
/// assert_eq!((image.step(), image.runs().len(), image.len()), (2, 2, 8));
/// assert!(image.contains(18) && !image.contains(8) && !image.contains(3));
/// assert_eq!(image.iter().collect::<Vec<_>>(), [0, 2, 4, 6, 16, 18, 20, 22]);
/// assert_eq!(image.to_string(), "0..=6, 16..=22 by 2");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    step: i64,
    runs: Vec<Run>,
}

impl Image {
    /// Builds an image from sorted starts of runs of `count`, in units of `step` from `first` on.
    fn from_starts(first: i64, step: i64, starts: &[i64], count: u64) -> Result<Self> {
        let overflow = || LayoutError::overflow("the image of a layout");
        let absolute = |index: i64| step.checked_mul(index).and_then(|x| x.checked_add(first));
        let mut runs: Vec<Run> = Vec::new();
        let mut end = None;
        for &start in starts {
            let stop = i64::try_from(count).ok().and_then(|c| start.checked_add(c));
            let stop = stop.ok_or_else(overflow)?;
            match (runs.last_mut(), end) {
                (Some(run), Some(end)) if start <= end => {
                    run.count += (stop - end).max(0).unsigned_abs();
                }
                _ => runs.push(Run { start: absolute(start).ok_or_else(overflow)?, count }),
            }
            end = Some(stop);
            absolute(stop - 1).ok_or_else(overflow)?;
        }
        Ok(Self { step, runs })
    }

    /// Builds an image from its indices.
    #[inline]
    fn from_values(mut values: Vec<i64>) -> Result<Self> {
        values.sort_unstable();
        values.dedup();
        let first = values.first().copied().unwrap_or(0);
        let overflow = || LayoutError::overflow("the image of a layout");
        let mut step = 0;
        for value in &mut values {
            *value = value.checked_sub(first).ok_or_else(overflow)?;
            step = crate::layout::int::gcd_i64(step, *value);
        }
        let step = step.max(1);
        values.iter_mut().for_each(|value| *value /= step);
        Self::from_starts(first, step, &values, 1)
    }

    /// Returns the difference between neighbours in a run. All runs have the same.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert_eq!(image.step(), 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn step(&self) -> i64 {
        self.step
    }

    /// Returns the runs in increasing order. The gaps are between them.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert_eq!(image.runs().len(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns how many different indices there are. It is less than the layout's size if
    /// coordinates share an index.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert_eq!(image.len(), 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// Returns true if there is no index. The image of a layout always has one; the method is here
    /// because [`len`](Image::len) is.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert!(!image.is_empty());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the smallest index. It is `None` only if the image is empty.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert_eq!(image.first(), Some(0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn first(&self) -> Option<i64> {
        self.runs.first().map(|run| run.start)
    }

    /// Returns the largest index. It is `None` only if the image is empty. A buffer must reach
    /// beyond it.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert_eq!(image.last(), Some(13));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn last(&self) -> Option<i64> {
        self.runs.last().map(|run| self.end(run))
    }

    /// Returns a run's last index.
    fn end(&self, run: &Run) -> i64 {
        let steps = i64::try_from(run.count - 1).unwrap_or(i64::MAX);
        run.start.saturating_add(steps.saturating_mul(self.step))
    }

    /// Returns true if the layout reaches `index`. Use it to ask whether an element belongs to a
    /// tile, for example.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert!(image.contains(5) && !image.contains(6));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn contains(&self, index: i64) -> bool {
        let after = self.runs.partition_point(|run| run.start <= index);
        match after.checked_sub(1).and_then(|i| self.runs.get(i)) {
            Some(run) => index <= self.end(run) && index.wrapping_sub(run.start) % self.step == 0,
            None => false,
        }
    }

    /// Returns true if the layout reaches every integer from the first to the last index. Then
    /// there are no gaps.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert!(!image.is_interval() && layout!(8:1).image()?.is_interval());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_interval(&self) -> bool {
        self.step == 1 && self.runs.len() == 1
    }

    /// Iterates over all indices in increasing order. Use it to compare an image with a list of
    /// expected indices.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let image = layout!((2, 4):(1, 4)).image()?;
    /// assert!(image.iter().eq([0, 1, 4, 5, 8, 9, 12, 13]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.runs.iter().flat_map(move |run| {
            let mut next = Some(run.start);
            (0..run.count).filter_map(move |_| {
                let index = next;
                next = next.and_then(|i| i.checked_add(self.step));
                index
            })
        })
    }
}

/// Prints at most eight runs.
impl fmt::Display for Image {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, run) in self.runs.iter().take(SHOWN).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{}", run.start)?;
            if run.count > 1 {
                write!(f, "..={}", self.end(run))?;
            }
        }
        if self.runs.len() > SHOWN {
            write!(f, ", and {} more runs", self.runs.len() - SHOWN)?;
        }
        if self.step > 1 {
            write!(f, " by {}", self.step)?;
        }
        Ok(())
    }
}

/// A plain layout's indices: `first + step * (0..count + sum of the other modes)`.
struct Strided {
    first: i64,
    step: i64,
    count: u64,
    /// The modes that leave gaps: their extents, and their strides in units of `step`.
    gaps: SmallVec<[(i64, i64); 8]>,
}

/// Finds the indices of a plain layout. Sort the modes by stride: a mode adds no gap if its stride
/// is at most the interval that the modes before it cover. Otherwise the first integer after that
/// interval stays a gap, because later strides are larger.
#[inline]
fn strided(layout: &Layout, shift: &Int) -> Result<Strided> {
    let overflow = || LayoutError::overflow("the image of a layout");
    // Refuses layouts that have symbols, map to coordinates, or have indices outside of 64 bits.
    layout.indices()?;
    let mut modes: SmallVec<[(i64, i64); 8]> = SmallVec::new();
    let (mut first, mut step, mut reach) = (shift.to_static()?, 0, 0i64);
    for (extent, stride) in layout.as_ref().leaves() {
        let (s, d) = (extent.to_static()?, stride.to_int()?.to_static()?);
        if s == 1 || d == 0 {
            continue;
        }
        if d < 0 {
            let back = d.checked_mul(s - 1).ok_or_else(overflow)?;
            first = first.checked_add(back).ok_or_else(overflow)?;
        }
        let d = d.checked_abs().ok_or_else(overflow)?;
        // No sum of strides below can be larger than this one.
        let back = d.checked_mul(s - 1).ok_or_else(overflow)?;
        reach = reach.checked_add(back).ok_or_else(overflow)?;
        step = crate::layout::int::gcd_i64(step, d);
        modes.push((s, d));
    }
    first.checked_add(reach).ok_or_else(overflow)?;
    let step = step.max(1);
    modes.sort_unstable_by_key(|&(_, d)| d);
    let (mut count, mut gaps) = (1i64, SmallVec::new());
    for (s, d) in modes {
        let d = d / step;
        if d <= count && gaps.is_empty() {
            let more = d.checked_mul(s - 1).ok_or_else(overflow)?;
            count = count.checked_add(more).ok_or_else(overflow)?;
        } else {
            gaps.push((s, d));
        }
    }
    Ok(Strided { first, step, count: count.unsigned_abs(), gaps })
}

/// Returns true if the swizzle maps the interval to itself, which is so if it consists of whole
/// blocks.
fn keeps(offsets: &Offsets<'_>, plain: &Strided) -> bool {
    match offsets.inner {
        Inner::Plain => true,
        Inner::Any(_) => false,
        Inner::Swizzle(s) => {
            // A power of two above all bits that the swizzle reads or changes.
            let block = (s.y_mask() | s.z_mask()).unsigned_abs().next_power_of_two();
            plain.step == 1
                && plain.gaps.is_empty()
                && plain.first.unsigned_abs().is_multiple_of(block)
                && plain.count.is_multiple_of(block)
        }
    }
}

/// Returns the closed form of the indices, if there is one.
#[inline]
fn closed(offsets: &Offsets<'_>) -> Result<Option<Strided>> {
    if matches!(offsets.inner, Inner::Any(_)) {
        return Ok(None);
    }
    let plain = strided(offsets.outer, &offsets.shift)?;
    Ok(keeps(offsets, &plain).then_some(plain))
}

/// Returns `first, step, count` if the strides prove that the indices are one run.
#[inline]
pub(super) fn progression(offsets: &Offsets<'_>) -> Result<Option<(i64, i64, u64)>> {
    Ok(closed(offsets)?.filter(|s| s.gaps.is_empty()).map(|s| (s.first, s.step, s.count)))
}

#[inline]
pub(super) fn image(offsets: &Offsets<'_>) -> Result<Image> {
    let Some(plain) = closed(offsets)? else { return Image::from_values(offsets.walk()?) };
    let too_large = super::domain_too_large();
    let mut starts = vec![0i64];
    for (s, d) in &plain.gaps {
        let limit = i64::try_from(DOMAIN_LIMIT).unwrap_or(i64::MAX);
        let len = i64::try_from(starts.len()).unwrap_or(i64::MAX);
        if len.checked_mul(*s).is_none_or(|n| n > limit) {
            return Err(too_large);
        }
        // No sum is larger than the reach of all modes, which fits.
        starts = (0..*s).flat_map(|c| starts.iter().map(move |x| x + c * d)).collect();
        starts.sort_unstable();
        starts.dedup();
    }
    Image::from_starts(plain.first, plain.step, &starts, plain.count)
}

#[inline]
pub(super) fn is_contiguous(offsets: &Offsets<'_>) -> Result<bool> {
    if !offsets.outer.is_static() && offsets.is_plain() {
        return symbolic(offsets.outer, "is_contiguous");
    }
    match closed(offsets)? {
        Some(plain) => Ok(plain.step == 1 && plain.gaps.is_empty()),
        None => Ok(image(offsets)?.is_interval()),
    }
}

#[inline]
pub(super) fn is_bijective(offsets: &Offsets<'_>) -> Result<bool> {
    if !offsets.outer.is_static() && offsets.is_plain() {
        return match symbolic(offsets.outer, "is_bijective")? {
            true if offsets.shift.is(0) => Ok(true),
            true if offsets.shift.bounds().0 > 0 || offsets.shift.bounds().1 < 0 => Ok(false),
            true => Err(LayoutError::Undecided {
                operation: "is_bijective",
                condition: format!("that the offset {} is 0", offsets.shift),
            }),
            false => Ok(false),
        };
    }
    let size = offsets.outer.size()?.to_static()?;
    let whole = |first: i64, count: u64| first == 0 && i64::try_from(count) == Ok(size);
    match closed(offsets)? {
        Some(s) => Ok(s.gaps.is_empty() && s.step == 1 && whole(s.first, s.count)),
        None => {
            let image = image(offsets)?;
            Ok(image.is_interval() && whole(image.first().unwrap_or(-1), image.len()))
        }
    }
}

/// Returns true if the modes, in some order, each continue where the previous ones end; then the
/// layout is a permutation of `0..size`. Returns false if it has at least two coordinates but never
/// reaches index 1.
#[inline]
fn symbolic(layout: &Layout, operation: &'static str) -> Result<bool> {
    let mut modes: SmallVec<[(&Int, &Int); 8]> = SmallVec::new();
    for (extent, stride) in layout.as_ref().leaves() {
        if !extent.is(1) {
            modes.push((extent, stride.to_int()?));
        }
    }
    let sparse = modes.iter().all(|(_, d)| d.divisibility() > 1);
    if sparse && modes.iter().any(|(s, d)| s.bounds().0 > 1 && d.bounds().0 > 0) {
        return Ok(false);
    }
    let mut reach = Int::ONE;
    while let Some(next) = modes.iter().position(|(_, d)| d.same(&reach)) {
        let (extent, _) = modes.remove(next);
        reach = reach.mul(extent)?;
    }
    if modes.is_empty() {
        return Ok(true);
    }
    let open: Vec<String> = modes.iter().map(|(s, d)| format!("{s}:{d}")).collect();
    Err(LayoutError::Undecided {
        operation,
        condition: format!("that one of the modes {} has stride {reach}", open.join(" and ")),
    })
}
