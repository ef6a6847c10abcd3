//! `coalesce`, `filter`, `filter_zeros`: the same function with fewer modes.

use super::basis::{Scale, ScaledBasis};
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutBuilder, LayoutRef};
use super::tuple::{IntTuple, IntTupleRef, Leaves};

type Result<T> = std::result::Result<T, LayoutError>;

/// Leaves of a layout without nesting.
#[derive(Clone, Default)]
pub(crate) struct Flat {
    pub(crate) shape: Leaves<Int>,
    pub(crate) stride: Leaves<ScaledBasis>,
}

/// True if the modes `s0:d0` and then `s1:d1` are one mode: `d1 == s0 * d0`.
///
/// A static extent is not merged with a symbolic one, as in CuTe: kernels unroll over the static
/// one.
#[inline]
fn merges(s0: &Int, d0: &ScaledBasis, s1: &Int, d1: &ScaledBasis) -> bool {
    if let (Some(s), Some(a), Some(b)) = (s0.as_static(), d0.as_static(), d1.as_static()) {
        return s1.is_static() && s.checked_mul(a) == Some(b);
    }
    if d0.path != d1.path || s0.is_static() != s1.is_static() {
        return false;
    }
    match (&d0.value, &d1.value) {
        (Scale::Int(v0), Scale::Int(v1)) => s0.mul(v0).is_ok_and(|end| end.same(v1)),
        (Scale::Ratio(r0), Scale::Ratio(r1)) => {
            s0.as_static().is_some_and(|s| r0.mul(s.into()).is_ok_and(|end| end == **r1))
        }
        (Scale::Ratio(r0), Scale::Int(v1)) => s0
            .as_static()
            .zip(v1.as_static())
            .is_some_and(|(s, v)| r0.mul(s.into()).is_ok_and(|end| end.as_integer() == Some(v))),
        (Scale::Int(_), Scale::Ratio(_)) => false,
    }
}

impl Flat {
    /// The leaves, adjacent ones merged and extents 1 dropped. With `keep_last`, a last mode of
    /// extent 1 stays: it is the mode that is read as unbounded.
    #[inline]
    pub(crate) fn coalesced(layout: LayoutRef<'_>, keep_last: bool) -> Result<Self> {
        let mut out = Flat::default();
        let n = layout.shape.len();
        for (i, (s, d)) in layout.leaves().enumerate() {
            let kept = keep_last && i + 1 == n;
            if s.is(1) && !kept {
                continue;
            }
            out.push(s, d)?;
        }
        Ok(out)
    }

    #[inline]
    pub(crate) fn push(&mut self, s: &Int, d: &ScaledBasis) -> Result<()> {
        if let (Some(last), Some(stride)) = (self.shape.last_mut(), self.stride.last())
            && merges(last, stride, s, d)
        {
            *last = last.mul(s)?;
            return Ok(());
        }
        self.shape.push(s.clone());
        self.stride.push(d.clone());
        Ok(())
    }

    /// The leaves of the layout that [`emit`](Flat::emit) makes.
    #[inline]
    pub(crate) fn or_trivial(mut self) -> Self {
        if self.shape.is_empty() {
            self.shape.push(Int::ONE);
            self.stride.push(ScaledBasis::from(0));
        }
        self
    }

    /// `1:0`, a leaf, or a tuple of leaves.
    #[inline]
    pub(crate) fn emit(self, out: &mut LayoutBuilder) {
        let many = self.shape.len() > 1;
        if self.shape.is_empty() {
            out.push(1, 0);
            return;
        }
        if many {
            out.open();
        }
        for (s, d) in self.shape.into_iter().zip(self.stride) {
            out.push(s, d);
        }
        if many {
            out.close();
        }
    }
}

impl Layout {
    /// The same function of an integer with as few modes as possible, flat.
    ///
    /// `R(i) == L(i)` for all `i < size(L)`, `depth(R) <= 1`. A static extent is not merged with a
    /// symbolic one.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, (1, 6)):(1, (6, 2))).coalesce()?, layout!(12:1));
    /// assert_eq!(layout!((1, 1):(5, 7)).coalesce()?, layout!(1:0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn coalesce(&self) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        Flat::coalesced(self.as_ref(), false)?.emit(&mut out);
        out.finish()
    }

    /// [`coalesce`](Layout::coalesce) of each mode below a leaf of `profile`; modes that the
    /// profile does not reach stay.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((2, (1, 6)):(1, (6, 2)));
    /// assert_eq!(l.coalesce_by(&shape!(1, 1))?, layout!((2, 6):(1, 2)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooManyModes`] if the profile has more modes than the layout.
    pub fn coalesce_by(&self, profile: &IntTuple) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        by_profile(self.as_ref(), profile.as_ref(), &mut out, &mut |mode, out| {
            Flat::coalesced(mode, false)?.emit(out);
            Ok(())
        })?;
        out.finish()
    }

    /// The layout with each extent of a static stride 0 replaced by 1.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 4):(0, 1)).filter_zeros(), layout!((1, 4):(0, 1)));
    /// ```
    #[must_use]
    pub fn filter_zeros(&self) -> Layout {
        let mut out = self.clone();
        for (extent, stride) in out.shape.iter_mut().zip(&out.stride) {
            if stride.as_static() == Some(0) {
                *extent = Int::ONE;
            }
        }
        out
    }

    /// [`filter_zeros`](Layout::filter_zeros) where `profile`, a tuple that the shape refines, is 0.
    ///
    /// # Errors
    /// [`LayoutError::NotCongruent`].
    pub fn filter_zeros_by(&self, profile: &IntTuple) -> Result<Layout> {
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

    /// [`coalesce`](Layout::coalesce) of [`filter_zeros`](Layout::filter_zeros): only the modes that
    /// reach new indices.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2, 4):(1, 0, 4)).filter()?, layout!(16:1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn filter(&self) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        Flat::filtered(self.as_ref())?.emit(&mut out);
        out.finish()
    }

    /// [`filter`](Layout::filter) of each mode below a leaf of `profile`.
    ///
    /// # Errors
    /// As [`coalesce_by`](Layout::coalesce_by).
    pub fn filter_by(&self, profile: &IntTuple) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        by_profile(self.as_ref(), profile.as_ref(), &mut out, &mut |mode, out| {
            Flat::filtered(mode)?.emit(out);
            Ok(())
        })?;
        out.finish()
    }
}

impl Flat {
    /// The coalesced leaves of static stride other than 0.
    #[inline]
    pub(crate) fn filtered(layout: LayoutRef<'_>) -> Result<Self> {
        let mut out = Flat::default();
        for (s, d) in layout.leaves() {
            if !s.is(1) && d.as_static() != Some(0) {
                out.push(s, d)?;
            }
        }
        Ok(out)
    }
}

/// Applies `f` to the modes of `layout` below the leaves of `profile`; the modes that `profile`
/// does not have are copied.
pub(crate) fn by_profile(
    layout: LayoutRef<'_>,
    profile: IntTupleRef<'_>,
    out: &mut LayoutBuilder,
    f: &mut impl FnMut(LayoutRef<'_>, &mut LayoutBuilder) -> Result<()>,
) -> Result<()> {
    if profile.is_leaf() {
        return f(layout, out);
    }
    if profile.rank() > layout.rank() {
        return Err(LayoutError::TooManyModes { tiler: profile.rank(), layout: layout.rank() });
    }
    out.open();
    let mut parts = profile.children();
    for (i, mode) in layout.modes().enumerate() {
        match parts.next() {
            Some(part) => by_profile(mode, part, out, f).map_err(|e| e.at(i))?,
            None => out.push_ref(mode),
        }
    }
    out.close();
    Ok(())
}
