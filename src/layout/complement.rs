//! `complement` finds the indices that a layout does not reach, as a layout. Divides and products
//! are built on it; you rarely call it yourself.

use super::assume::{Operands, advise};
use super::coalesce::{Flat, Keep};
use super::draft::{Draft, Operation, perform};
use super::error::LayoutError;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::number::{Number, Stride};
use super::tuple::{IntTuple, IntTupleRef};

type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// What a complement tells besides its modes.
pub(crate) struct Covered<N> {
    /// The size of one tile: the last filtered mode's stride times its extent.
    pub(crate) tile: N,
    /// 0 if the result is right for the values of the symbols.
    pub(crate) violation: N,
}

/// Returns 1 plus the sum of each mode's largest step, by absolute value.
#[inline]
pub(crate) fn cosize<N: Number>(layout: LayoutRef<'_>) -> Result<N, N::Error> {
    let mut sum = N::new(1);
    for (s, d) in layout.leaves() {
        let (s, d) = (N::read(s)?, N::Stride::read(d)?);
        let d = d.plain()?;
        let d = if d.bounds().0 >= 0 { d.clone() } else { d.max(&d.negate()?)? };
        sum = sum.add(&s.sub(&N::new(1))?.mul(&d)?)?;
    }
    Ok(sum)
}

/// Appends the coalesced complement of `layout`'s filtered leaves within the shape `cotarget`.
pub(crate) fn complement_into<N: Number>(
    layout: LayoutRef<'_>,
    cotarget: &mut dyn Iterator<Item = Result<N, N::Error>>,
    out: &mut Flat<N>,
) -> Result<Covered<N>, N::Error> {
    let not_injective = || N::fail(|| LayoutError::NotInjective { layout: layout.to_string() });
    let mut filtered = Flat::<N>::default();
    filtered.coalesce(layout, Keep::Filtered)?;
    let modes = &mut *filtered.modes;
    for (s, d) in &*modes {
        if s.bounds().1 < 1 {
            return Err(N::fail(|| LayoutError::ExtentNotPositive { extent: s.to_int() }));
        }
        match d.plain()?.bounds().1 {
            1.. => {}
            0 => return Err(not_injective()),
            _ => {
                return Err(N::fail(|| LayoutError::Unsupported {
                    operation: "complement with a negative stride",
                    argument: layout.to_string(),
                }));
            }
        }
    }
    // Take the mode with the smallest stride again and again. The gap between the indices covered
    // so far and that stride becomes a mode of the complement.
    let mut current = N::new(1);
    let mut violation = N::new(0);
    let mut below: Option<(N, N)> = None;
    for first in 0..modes.len() {
        let rest = modes.get_mut(first..).unwrap_or(&mut []);
        let at = smallest::<N>(rest.iter().map(|(_, d)| d))?;
        for i in (0..at).rev() {
            rest.swap(i, i + 1);
        }
        let Some((s, d)) = rest.first() else { break };
        let d = d.plain()?;
        // If the gap is not a multiple of the covered part, use it up to the last multiple.
        let gap = d.floor_div(&current)?;
        if !d.is_number() || !current.is_number() {
            violation = violation.max(&current.sub(d)?)?;
        }
        if gap.bounds().1 < 1 {
            return Err(match &below {
                // The mode below reaches this stride, too, only if it steps onto it.
                Some((extent, stride)) if !d.multiple_of(stride) || s.bounds().0 < 2 => {
                    N::fail(|| LayoutError::Interleaved {
                        layout: layout.to_string(),
                        extent: extent.to_int(),
                        stride: stride.to_int(),
                        next: d.to_int(),
                    })
                }
                _ => not_injective(),
            });
        }
        if s.bounds().0 < 2 && !d.same(&current) {
            // With static extents, a mode of extent 1 would be dropped together with the modes
            // before it.
            let dropped = N::new(2).sub(s)?.min(&d.sub(&current)?)?;
            violation = violation.max(&dropped)?;
        }
        let next = d.mul(s)?;
        below = Some((s.clone(), d.clone()));
        push(out, gap, &current)?;
        current = next;
    }
    let tile = current.clone();
    // The rest of the shape, by folding `ceil_div` as CuTe does. Consecutive static extents are
    // multiplied together, and so are consecutive symbolic ones.
    let mut by = tile.clone();
    let mut open: Option<N> = None;
    for extent in cotarget {
        let extent = extent?;
        if extent.bounds().1 < 1 {
            return Err(N::fail(|| LayoutError::ExtentNotPositive { extent: extent.to_int() }));
        }
        let left = if modes.is_empty() { extent.clone() } else { extent.ceil_div(&by)? };
        by = by.ceil_div(&extent)?;
        if let Some(run) = &mut open
            && run.is_number() == left.is_number()
        {
            *run = run.mul(&left)?;
        } else if let Some(run) = open.replace(left) {
            push(out, run.clone(), &current)?;
            current = current.mul(&run)?;
        }
    }
    if let Some(run) = open {
        push(out, run, &current)?;
    }
    Ok(Covered { tile, violation })
}

#[inline]
fn push<N: Number>(out: &mut Flat<N>, s: N, d: &N) -> Result<(), N::Error> {
    if s.is(1) { Ok(()) } else { out.merge(s, N::Stride::from_number(d.clone())) }
}

/// Returns the position of the smallest stride. If symbols leave the order open, this is a guess
/// that the caller checks with a condition: static strides before symbolic ones, then by divisor,
/// then by position.
#[inline]
pub(crate) fn smallest<'a, N: Number<Stride: 'a>>(
    strides: impl Iterator<Item = &'a N::Stride> + Clone,
) -> Result<usize, N::Error> {
    'candidates: for (i, d) in strides.clone().enumerate() {
        let d = d.plain()?;
        for (j, other) in strides.clone().enumerate() {
            if i != j && !other.plain()?.at_least(d) {
                continue 'candidates;
            }
        }
        return Ok(i);
    }
    guessed::<N>(strides)
}

/// Guesses the smallest stride among those that are not provably larger than another.
#[cold]
fn guessed<'a, N: Number<Stride: 'a>>(
    strides: impl Iterator<Item = &'a N::Stride> + Clone,
) -> Result<usize, N::Error> {
    let mut best: Option<(usize, (bool, i64))> = None;
    for (i, d) in strides.clone().enumerate() {
        let d = d.plain()?;
        let mut minimal = true;
        for other in strides.clone() {
            let other = other.plain()?;
            minimal &= !d.at_least(other) || other.at_least(d);
        }
        let key = (!d.is_number(), d.number().unwrap_or_else(|| d.to_int().divisibility()));
        if minimal && best.is_none_or(|(_, found)| key < found) {
            best = Some((i, key));
        }
    }
    Ok(best.map_or(0, |(i, _)| i))
}

/// The complement within a shape, or within the cosize if there is none.
struct Complementing<'a> {
    layout: LayoutRef<'a>,
    cotarget: Option<IntTupleRef<'a>>,
}

impl Operation for Complementing<'_> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error> {
        let mut flat = Flat::<N>::default();
        let covered = match self.cotarget {
            None => {
                let mut all = std::iter::once(cosize(self.layout));
                complement_into(self.layout, &mut all, &mut flat)?
            }
            Some(cotarget) => {
                let mut extents = cotarget.leaves().iter().map(N::read);
                complement_into(self.layout, &mut extents, &mut flat)?
            }
        };
        flat.emit(out)?;
        out.check_last(&covered.violation)
    }
}

/// # Complements
///
/// Finds the indices that the layout does not reach.
impl Layout {
    /// Returns the indices below `size(cotarget)` that the layout does not reach, in increasing
    /// order, as a layout `R`. For example, `4:2` fills every second index of a tile of 8. Its
    /// complement in 24 is `(2,3):(1,8)`: the first mode steps into the gaps, and the second visits
    /// the 3 tiles. [`logical_divide`](Layout::logical_divide) uses it to enumerate the tiles; you
    /// rarely call it yourself.
    ///
    /// With `F = filter(self)`, `F` and `R` together are one-to-one, and `R` is increasing. If the
    /// strides of `F` divide each other in order, `F` and the gaps in it make a tile of `c`
    /// elements, where `c` is the largest stride times its extent. `R` repeats this tile over
    /// `cotarget`:
    ///
    /// * If `cotarget` is an integer, `R` repeats the tile `ceil_div(cotarget, c)` times. Then
    ///   `size(F) * size(R) >= cotarget`, and the last repetition may reach beyond it.
    /// * If `cotarget` is a shape `(s0, s1, ..)`, `R` counts mode by mode, as CuTe does:
    ///   `ceil_div(s0, c0) * ceil_div(s1, c1) * ..` times with `c0 = c` and
    ///   `c(i+1) = ceil_div(ci, si)`. If a mode does not divide its part of the tile, this does not
    ///   cover the whole shape: `(2,2):(1,2)` fills one tile of 4 of the 6 elements of `(3,2)`.
    ///
    /// If a gap is not a multiple of the covered part, `R` uses it up to the last multiple.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// assert_eq!(layout!((2, 2):(1, 6)).complement(&24.into())?, layout!((3, 2):(2, 12)));
    /// assert_eq!(layout!(4:2).complement(&shape!(24))?, layout!((2, 3):(1, 8)));
    /// assert_eq!(layout!((2, 2):(1, 2)).complement(&shape!(3, 2))?, layout!(1:0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Interleaved`] if a mode of `F` reaches past the stride of the next
    /// larger one, [`LayoutError::NotInjective`] if it steps onto that stride, so that two
    /// coordinates share an index, [`LayoutError::ExtentNotPositive`] if an extent is below 1,
    /// [`LayoutError::Unsupported`] for a negative stride, [`LayoutError::NotAnIntegerStride`] if a
    /// stride is a basis element or a fraction, and [`LayoutError::Overflow`]. If symbols leave the
    /// order of the strides open, the result carries a condition, which evaluation checks.
    #[inline]
    pub fn complement(&self, cotarget: &IntTuple) -> Result<Layout> {
        complement(self.as_ref(), Some(cotarget.as_ref())).map_err(|error| {
            let operands = Operands::new(self.as_ref()).with_tuple(cotarget.as_ref());
            advise(error, &operands, |o| complement(o.layout.as_ref(), Some(o.tuple.as_ref())))
        })
    }

    /// Returns only the gaps inside the layout: its [`complement`](Layout::complement) within
    /// `cosize(filter(self))`. For example, `(2,2):(1,6)` reaches 0, 1, 6 and 7, and the gaps are
    /// `3:2`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 2):(1, 6)).complement_inner()?, layout!(3:2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`complement`](Layout::complement).
    #[inline]
    pub fn complement_inner(&self) -> Result<Layout> {
        complement(self.as_ref(), None).map_err(|error| {
            let operands = Operands::new(self.as_ref());
            advise(error, &operands, |o| complement(o.layout.as_ref(), None))
        })
    }
}

#[inline]
pub(crate) fn complement(
    layout: LayoutRef<'_>,
    cotarget: Option<IntTupleRef<'_>>,
) -> Result<Layout> {
    perform(&Complementing { layout, cotarget })
}
