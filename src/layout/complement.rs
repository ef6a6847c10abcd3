//! `complement`: the indices that a layout does not reach.

use super::coalesce::Flat;
use super::draft::{Draft, Operation, perform};
use super::error::LayoutError;
use super::layout::{Layout, LayoutRef};
use super::number::{Number, Stride};
use super::tuple::{IntTuple, IntTupleRef};

type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// The coalesced shape: runs of static and runs of symbolic extents multiplied together.
#[inline]
fn coalesced_shape<N: Number>(shape: &[N]) -> Result<N::Extents, N::Error> {
    let mut out = N::Extents::default();
    for extent in shape {
        match out.last_mut() {
            Some(last) if last.is_number() == extent.is_number() => *last = last.mul(extent)?,
            _ => N::put(&mut out, extent.clone())?,
        }
    }
    Ok(out)
}

/// `ceil_div` of a flat shape by a number, CuTe's fold: what is left of the divisor goes on.
#[inline]
fn ceil_div_fold<N: Number>(shape: &[N], by: &N) -> Result<N::Extents, N::Error> {
    let mut by = by.clone();
    let mut out = N::Extents::default();
    for extent in shape {
        N::put(&mut out, extent.ceil_div(&by)?)?;
        by = by.ceil_div(extent)?;
    }
    Ok(out)
}

/// The complement of a layout, before it is put together.
pub(crate) struct Complement<N: Number> {
    /// The modes, coalesced.
    pub(crate) flat: Flat<N>,
    /// The size of one tile: the stride times the extent of the last mode of the filtered layout.
    pub(crate) tile: N,
    /// 0 if the values of the symbols are such that the result holds.
    pub(crate) violation: N,
}

/// The complement of the filtered leaves of `layout` in `cotarget`.
#[inline]
pub(crate) fn complement_flat<N: Number>(
    layout: LayoutRef<'_>,
    cotarget: Option<&[N]>,
) -> Result<Complement<N>, N::Error> {
    let not_injective = || N::fail(|| LayoutError::NotInjective { layout: layout.to_string() });
    let mut modes = Flat::<N>::filtered(layout)?;
    let cosize;
    let cotarget: &[N] = match cotarget {
        Some(shape) => shape,
        None => {
            let mut last = N::new(1);
            for (s, d) in modes.shape.iter().zip(modes.stride.iter()) {
                let d = d.plain()?;
                let d = if d.bounds().0 >= 0 { d.clone() } else { d.max(&d.negate()?)? };
                last = last.add(&s.sub(&N::new(1))?.mul(&d)?)?;
            }
            cosize = [last];
            &cosize
        }
    };
    for (s, d) in modes.shape.iter().zip(modes.stride.iter()) {
        let d = d.plain()?;
        if s.bounds().1 < 1 {
            return Err(N::fail(|| LayoutError::ExtentNotPositive { extent: s.to_int() }));
        }
        if d.bounds().1 < 1 {
            return Err(not_injective());
        }
    }
    // Repeatedly the mode of the smallest stride: what is between its stride and the indices that
    // are covered so far is a mode of the complement.
    let mut out = Flat::default();
    let mut current = N::new(1);
    let mut violation = N::new(0);
    for place in 0..modes.shape.len() {
        let at = place + smallest::<N>(modes.stride.get(place..).unwrap_or(&[]), "complement")?;
        modes.shape[place..=at].rotate_right(1);
        modes.stride[place..=at].rotate_right(1);
        let (s, d) = (&modes.shape[place], modes.stride[place].plain()?);
        let gap = match (d.number(), current.number()) {
            // A gap that the covered part does not divide is used as far as it does.
            (Some(_), Some(_)) => d.floor_div(&current)?,
            _ => {
                violation = violation.max(&current.sub(d)?)?;
                d.floor_div(&current)?
            }
        };
        if gap.bounds().1 < 1 {
            return Err(not_injective());
        }
        if s.bounds().0 < 2 && !d.same(&current) {
            // Numbers would drop a mode of extent 1, and what lies before it.
            let dropped = N::new(2).sub(s)?.min(&d.sub(&current)?)?;
            violation = violation.max(&dropped)?;
        }
        let next = d.mul(s)?;
        push(&mut out, gap, &current)?;
        current = next;
    }
    let tile = current.clone();
    let shape = if modes.shape.is_empty() {
        coalesced_shape::<N>(cotarget)?
    } else {
        coalesced_shape::<N>(&ceil_div_fold::<N>(cotarget, &current)?)?
    };
    for extent in shape.iter() {
        push(&mut out, extent.clone(), &current)?;
        current = current.mul(extent)?;
    }
    Ok(Complement { flat: out, tile, violation })
}

#[inline]
fn push<N: Number>(out: &mut Flat<N>, s: N, d: &N) -> Result<(), N::Error> {
    if s.is(1) { Ok(()) } else { out.merge(s, N::Stride::from_number(d.clone())) }
}

/// The place of the smallest stride.
#[inline]
pub(crate) fn smallest<N: Number>(
    strides: &[N::Stride],
    operation: &'static str,
) -> Result<usize, N::Error> {
    'candidates: for (i, d) in strides.iter().enumerate() {
        let d = d.plain()?;
        for (j, other) in strides.iter().enumerate() {
            if i != j && !other.plain()?.at_least(d) {
                continue 'candidates;
            }
        }
        return Ok(i);
    }
    Err(N::fail(|| {
        let strides: Vec<String> = strides.iter().map(|d| d.to_basis().to_string()).collect();
        LayoutError::Undecided {
            operation,
            condition: format!("the order of the strides {}", strides.join(", ")),
        }
    }))
}

/// The complement in a shape, or in the cosize.
struct Complementing<'a> {
    layout: LayoutRef<'a>,
    cotarget: Option<IntTupleRef<'a>>,
}

impl Operation for Complementing<'_> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error> {
        let parts = match self.cotarget {
            None => complement_flat::<N>(self.layout, None)?,
            Some(cotarget) => {
                let mut shape = N::Extents::default();
                for extent in cotarget.leaves() {
                    N::put(&mut shape, N::read(extent)?)?;
                }
                complement_flat::<N>(self.layout, Some(&shape))?
            }
        };
        parts.flat.emit(out)?;
        out.check_last(&parts.violation)
    }
}

impl Layout {
    /// The indices below `size(cotarget)` that the layout does not reach, in order.
    ///
    /// With `F = filter(self)` and `R` the result: `F` and `R` together are one-to-one and `R` is
    /// increasing. Where the strides of `F` divide each other in order,
    /// `size(F) * size(R) >= size(cotarget)`, as the tile is repeated over each mode of `cotarget`
    /// and the last repetition may stand out; a gap that does not divide is used as far as it does.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// assert_eq!(layout!((2, 2):(1, 6)).complement(&24.into())?, layout!((3, 2):(2, 12)));
    /// assert_eq!(layout!(4:2).complement(&shape!(24))?, layout!((2, 3):(1, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotInjective`] if a mode of `F` reaches past the stride of the next larger one, [`LayoutError::Undecided`], [`LayoutError::NotAnIntegerStride`],
    /// [`LayoutError::Overflow`].
    pub fn complement(&self, cotarget: &IntTuple) -> Result<Layout> {
        complement(self.as_ref(), Some(cotarget.as_ref()))
    }

    /// [`complement`](Layout::complement) in `cosize(filter(self))`: only the gaps inside.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 2):(1, 6)).complement_inner()?, layout!(3:2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`complement`](Layout::complement).
    pub fn complement_inner(&self) -> Result<Layout> {
        complement(self.as_ref(), None)
    }
}

pub(crate) fn complement(
    layout: LayoutRef<'_>,
    cotarget: Option<IntTupleRef<'_>>,
) -> Result<Layout> {
    perform(&Complementing { layout, cotarget })
}
