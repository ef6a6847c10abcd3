//! `complement`: the indices that a layout does not reach.

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::coalesce::Flat;
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutBuilder, LayoutRef};
use super::tuple::{IntTuple, IntTupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

/// The coalesced shape: runs of static and runs of symbolic extents multiplied together.
fn coalesced_shape(shape: &[Int]) -> Result<SmallVec<[Int; 4]>> {
    let mut out: SmallVec<[Int; 4]> = SmallVec::new();
    for extent in shape {
        match out.last_mut() {
            Some(last) if last.is_static() == extent.is_static() => *last = last.mul(extent)?,
            _ => out.push(extent.clone()),
        }
    }
    Ok(out)
}

/// `ceil_div` of a flat shape by a number, CuTe's fold: what is left of the divisor goes on.
fn ceil_div_fold(shape: &[Int], by: &Int) -> Result<SmallVec<[Int; 4]>> {
    let mut by = by.clone();
    let mut out = SmallVec::new();
    for extent in shape {
        out.push(extent.ceil_div(&by)?);
        by = by.ceil_div(extent)?;
    }
    Ok(out)
}

/// The complement of a layout, before it is put together.
pub(crate) struct Complement {
    /// The modes, coalesced.
    pub(crate) flat: Flat,
    /// The size of one tile: the stride times the extent of the last mode of the filtered layout.
    pub(crate) tile: Int,
    /// 0 if the values of the symbols are such that the result holds.
    pub(crate) violation: Int,
}

/// The complement of the filtered leaves of `layout` in `cotarget`.
pub(crate) fn complement_flat(
    layout: LayoutRef<'_>,
    cotarget: Option<&[Int]>,
) -> Result<Complement> {
    let filtered = Flat::filtered(layout)?;
    let not_injective = || LayoutError::NotInjective { layout: layout.to_string() };
    let cosize;
    let cotarget: &[Int] = match cotarget {
        Some(shape) => shape,
        None => {
            let mut last = Int::ONE;
            for (s, d) in filtered.shape.iter().zip(&filtered.stride) {
                last = last.add(&s.sub(&Int::ONE)?.mul(&d.to_int()?.abs()?)?)?;
            }
            cosize = [last];
            &cosize
        }
    };
    let mut out = Flat::default();
    let mut modes: SmallVec<[(&Int, &Int); 8]> = SmallVec::new();
    for (s, d) in filtered.shape.iter().zip(&filtered.stride) {
        let d = d.to_int()?;
        if s.bounds().1 < 1 {
            return Err(LayoutError::ExtentNotPositive { extent: s.clone() });
        }
        if d.bounds().1 < 1 {
            return Err(not_injective());
        }
        modes.push((s, d));
    }
    // Repeatedly the mode of the smallest stride: what is between its stride and the indices that
    // are covered so far is a mode of the complement.
    let mut current = Int::ONE;
    let mut violation = Int::ZERO;
    while !modes.is_empty() {
        let at = smallest(&modes)?;
        let (s, d) = modes.remove(at);
        let gap = match (d.as_static(), current.as_static()) {
            // A gap that the covered part does not divide is used as far as it does.
            (Some(d), Some(c)) => Int::new(d / c),
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
            let dropped = Int::new(2).sub(s)?.min(&d.sub(&current)?)?;
            violation = violation.max(&dropped)?;
        }
        push(&mut out, &gap, &current)?;
        current = d.mul(s)?;
    }
    let tile = current.clone();
    let shape = if filtered.shape.is_empty() {
        coalesced_shape(cotarget)?
    } else {
        coalesced_shape(&ceil_div_fold(cotarget, &current)?)?
    };
    for extent in &shape {
        push(&mut out, extent, &current)?;
        current = current.mul(extent)?;
    }
    Ok(Complement { flat: out, tile, violation })
}

fn push(out: &mut Flat, s: &Int, d: &Int) -> Result<()> {
    if s.is(1) { Ok(()) } else { out.push(s, &ScaledBasis::from(d.clone())) }
}

/// The place of the smallest stride.
fn smallest(modes: &[(&Int, &Int)]) -> Result<usize> {
    'candidates: for (i, (_, d)) in modes.iter().enumerate() {
        for (j, (_, other)) in modes.iter().enumerate() {
            if i != j && !other.at_least(d) {
                continue 'candidates;
            }
        }
        return Ok(i);
    }
    let strides: Vec<String> = modes.iter().map(|(_, d)| d.to_string()).collect();
    Err(LayoutError::Undecided {
        operation: "complement",
        condition: format!("the order of the strides {}", strides.join(", ")),
    })
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
    let mut out = LayoutBuilder::new();
    let parts = complement_flat(layout, cotarget.map(IntTupleRef::leaves))?;
    parts.flat.emit(&mut out);
    out.check_last(&parts.violation);
    out.finish()
}
