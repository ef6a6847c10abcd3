//! `coalesce`, `filter` and `filter_zeros`: simplify a layout so that it has fewer modes, for
//! example `(2,4):(1,2)` to `8:1`. Use them before you compare, print or vectorize.

use super::builder::LayoutBuilder;
use super::draft::{Draft, Operation, perform};
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::number::{List as _, Number, Stride as _};
use super::tuple::{IntTuple, IntTupleRef, Leaves};

type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// Which leaves of a layout [`merged`] visits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Leaves whose extent is not 1.
    Wide,
    /// The same, and the last leaf, which is read as unbounded.
    WideAndLast,
    /// Leaves whose extent is not 1 and whose stride is not a static 0.
    Filtered,
}

/// Merges adjacent leaves if possible, and calls `each` with the results.
#[inline(always)]
pub(crate) fn merged<N: Number>(
    layout: LayoutRef<'_>,
    keep: Keep,
    mut each: impl FnMut(N, N::Stride) -> Result<(), N::Error>,
) -> Result<(), N::Error> {
    let mut open: Option<(N, N::Stride)> = None;
    let mut left = layout.shape.len();
    for (s, d) in layout.leaves() {
        left -= 1;
        let kept = match keep {
            Keep::Wide => !s.is(1),
            Keep::WideAndLast => !s.is(1) || left == 0,
            Keep::Filtered => !s.is(1) && d.as_static() != Some(0),
        };
        if !kept {
            continue;
        }
        let (s, d) = (N::read(s)?, N::Stride::read(d)?);
        if let Some((extent, stride)) = &mut open
            && N::Stride::merges(extent, stride, &s, &d)
        {
            *extent = extent.mul(&s)?;
        } else if let Some((extent, stride)) = open.replace((s, d)) {
            each(extent, stride)?;
        }
    }
    match open {
        Some((extent, stride)) => each(extent, stride),
        None => Ok(()),
    }
}

/// The leaves of a layout without nesting.
pub(crate) struct Flat<N: Number> {
    pub(crate) modes: N::Flat,
}

impl<N: Number> Default for Flat<N> {
    #[inline]
    fn default() -> Self {
        Self { modes: N::Flat::default() }
    }
}

impl<N: Number> Flat<N> {
    /// Appends the leaves of `layout`, merged if they are adjacent.
    #[inline]
    pub(crate) fn coalesce(&mut self, layout: LayoutRef<'_>, keep: Keep) -> Result<(), N::Error> {
        merged(layout, keep, |s, d| N::put(&mut self.modes, (s, d)))
    }

    /// Appends a mode, or merges it into the last one if possible.
    #[inline]
    pub(crate) fn merge(&mut self, s: N, d: N::Stride) -> Result<(), N::Error> {
        if let Some((last, stride)) = self.modes.tail()
            && N::Stride::merges(last, stride, &s, &d)
        {
            *last = last.mul(&s)?;
            return Ok(());
        }
        N::put(&mut self.modes, (s, d))
    }

    /// Appends `1:0` if there are no modes, so that the leaves are the same as [`emit`](Flat::emit)
    /// writes.
    #[inline]
    pub(crate) fn fill(&mut self) -> Result<(), N::Error> {
        if self.modes.is_empty() {
            N::put(&mut self.modes, (N::new(1), N::Stride::from_number(N::new(0))))?;
        }
        Ok(())
    }

    /// Writes `1:0`, a leaf, or a tuple of leaves.
    #[inline]
    pub(crate) fn emit(&self, out: &mut Draft<N>) -> Result<(), N::Error> {
        match self.modes.len() {
            0 => return out.push(N::new(1), N::Stride::from_number(N::new(0))),
            1 => {}
            n => out.tuple(n)?,
        }
        for (s, d) in self.modes.iter() {
            out.push(s.clone(), d.clone())?;
        }
        Ok(())
    }
}

impl<N: Number> std::fmt::Display for Flat<N> {
    #[inline]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = LayoutBuilder::new();
        let many = self.modes.len() > 1;
        if many {
            out.open();
        }
        for (s, d) in self.modes.iter() {
            out.push(s.to_int(), d.to_basis());
        }
        if many {
            out.close();
        }
        out.finish().map_err(|_| std::fmt::Error)?.fmt(f)
    }
}

/// `coalesce` or `filter`, on the whole layout or on each mode below a leaf of a profile.
struct Simplify<'a> {
    layout: LayoutRef<'a>,
    profile: Option<IntTupleRef<'a>>,
    filter: bool,
}

impl Operation for Simplify<'_> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error> {
        match self.profile {
            None => self.simplify(self.layout, out),
            Some(profile) => self.by_profile(self.layout, profile, out),
        }
    }
}

impl Simplify<'_> {
    #[inline]
    fn simplify<N: Number>(&self, mode: LayoutRef<'_>, out: &mut Draft<N>) -> Result<(), N::Error> {
        let mut flat = Flat::default();
        flat.coalesce(mode, if self.filter { Keep::Filtered } else { Keep::Wide })?;
        flat.emit(out)
    }

    /// Copies the modes that the profile does not cover.
    fn by_profile<N: Number>(
        &self,
        layout: LayoutRef<'_>,
        profile: IntTupleRef<'_>,
        out: &mut Draft<N>,
    ) -> Result<(), N::Error> {
        if profile.is_leaf() {
            return self.simplify(layout, out);
        }
        let (tiler, rank) = (profile.rank(), layout.rank());
        if tiler > rank {
            return Err(N::fail(|| LayoutError::TooManyModes { tiler, layout: rank }));
        }
        out.tuple(rank)?;
        let mut parts = profile.children();
        for (i, mode) in layout.modes().enumerate() {
            match parts.next() {
                Some(part) => self.by_profile(mode, part, out).map_err(|e| N::within(e, i))?,
                None => out.push_ref(mode)?,
            }
        }
        Ok(())
    }
}

/// # Coalescing and filtering
///
/// Removes modes that the function does not need.
impl Layout {
    /// Returns the same function with as few modes as possible: `R(i) == L(i)` for all `i <
    /// size(L)`, and `R` is not nested. For example, `(2,(1,6)):(1,(6,2))` becomes `12:1`. Use it
    /// to see how much of a layout is contiguous, or before you compare layouts.
    ///
    /// A static extent is not merged with a symbolic one.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, (1, 6)):(1, (6, 2))).coalesce()?, layout!(12:1));
    /// assert_eq!(layout!((1, 1):(5, 7)).coalesce()?, layout!(1:0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if an extent does not fit in 64 bits.
    #[inline]
    pub fn coalesce(&self) -> Result<Layout> {
        perform(&Simplify { layout: self.as_ref(), profile: None, filter: false })
    }

    /// Runs [`coalesce`](Layout::coalesce) on each mode below a leaf of `profile`. Use it to keep
    /// the rank. Modes that the profile does not cover stay.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((2, (1, 6)):(1, (6, 2)));
    /// assert_eq!(l.coalesce_by(&shape!(1, 1))?, layout!((2, 6):(1, 2)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooManyModes`] if the profile has more modes than the layout.
    #[inline]
    pub fn coalesce_by(&self, profile: &IntTuple) -> Result<Layout> {
        let profile = Some(profile.as_ref());
        perform(&Simplify { layout: self.as_ref(), profile, filter: false })
    }

    /// Sets the extent to 1 for each static stride 0, because such a mode reaches no new index. The
    /// rank stays. Use it to count the distinct elements of a broadcast layout.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 4):(0, 1)).filter_zeros(), layout!((1, 4):(0, 1)));
    /// ```
    #[must_use]
    #[inline]
    pub fn filter_zeros(&self) -> Layout {
        let mut out = self.clone();
        for (extent, stride) in out.shape.iter_mut().zip(&out.stride) {
            if stride.as_static() == Some(0) {
                *extent = Int::ONE;
            }
        }
        out
    }

    /// Sets all extents to 1 below each leaf of `profile` that is 0. Use it to ignore some modes
    /// and keep the rank. The shape must be nested like `profile` or more deeply.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((2, (4, 8)):(1, (2, 8)));
    /// assert_eq!(l.filter_zeros_by(&shape!(0, 1))?, layout!((1, (4, 8)):(1, (2, 8))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotCongruent`] if the shape is nested differently.
    #[inline]
    pub fn filter_zeros_by(&self, profile: &IntTuple) -> Result<Layout> {
        #[inline]
        fn walk(profile: IntTupleRef<'_>, shape: IntTupleRef<'_>, out: &mut Leaves<Int>) {
            if let Some(p) = profile.as_leaf() {
                let zero = p.is(0);
                out.extend(shape.leaves().iter().map(|s| if zero { Int::ONE } else { s.clone() }));
                return;
            }
            for (p, s) in profile.children().zip(shape.children()) {
                walk(p, s, out);
            }
        }
        if !profile.as_ref().weakly_congruent(self.shape()) {
            return Err(LayoutError::NotCongruent {
                left: profile.to_string(),
                right: self.shape().to_string(),
            });
        }
        let mut shape = Leaves::new();
        walk(profile.as_ref(), self.shape(), &mut shape);
        Ok(Layout { codes: self.codes.clone(), shape, stride: self.stride.clone() })
    }

    /// Removes stride-0 modes, which reach no new index, and coalesces. Use it to get the layout of
    /// the distinct elements.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2, 4):(1, 0, 4)).filter()?, layout!(16:1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if an extent does not fit in 64 bits.
    #[inline]
    pub fn filter(&self) -> Result<Layout> {
        perform(&Simplify { layout: self.as_ref(), profile: None, filter: true })
    }

    /// Runs [`filter`](Layout::filter) on each mode below a leaf of `profile`. Use it to keep the
    /// rank.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!(((2, 4), 8):((0, 1), 4));
    /// assert_eq!(l.filter_by(&shape!(1, 1))?, layout!((4, 8):(1, 4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`coalesce_by`](Layout::coalesce_by).
    #[inline]
    pub fn filter_by(&self, profile: &IntTuple) -> Result<Layout> {
        let profile = Some(profile.as_ref());
        perform(&Simplify { layout: self.as_ref(), profile, filter: true })
    }
}
