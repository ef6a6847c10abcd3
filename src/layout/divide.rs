//! `logical_divide` and its arrangements `zipped`, `tiled` and `flat`.

use super::coalesce::Flat;
use super::complement::complement_flat;
use super::compose::{by_tiler, compose_pair_into};
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutBuilder, LayoutRef};
use super::tiler::{TilerRef, TilerTuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// How the modes of a divide or product are arranged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrange {
    Zipped,
    Tiled,
    Flat,
}

/// Appends `(layout o tile, layout o complement(tile, shape(coalesce(layout))))`, with modes that
/// the tile does not divide rounded up.
fn divide_into(layout: LayoutRef<'_>, tile: LayoutRef<'_>, out: &mut LayoutBuilder) -> Result<()> {
    let mut left = Flat::coalesced(layout, true)?;
    let rest = complement_flat(tile, Some(&left.shape))?;
    let violation = pad(&mut left, &rest.tile)?.max(&rest.violation)?;
    compose_pair_into(layout, left, tile, &rest.flat.or_trivial(), out)?;
    out.check_last(&violation);
    Ok(())
}

/// Rounds the extents of all modes but the last up to multiples of the part of `tile` that falls to
/// them, if it is not the whole extent; the last is unbounded anyway.
///
/// A mode of symbols may turn out to be contiguous with a later one. Numbers would have been merged
/// then and rounded up together, so the result holds on the condition that a mode which is rounded
/// up is not. The number that is returned is 0 if it holds.
fn pad(left: &mut Flat, tile: &Int) -> Result<Int> {
    let mut tile = tile.clone();
    let mut violation = Int::ZERO;
    for i in 0..left.shape.len().saturating_sub(1) {
        if tile.is(1) {
            break;
        }
        let extent = left.shape[i].clone();
        let padded = extent.ceil_div(&tile)?.mul(&extent.min(&tile)?)?;
        let ragged = padded.sub(&extent)?;
        if !ragged.is(0) {
            let merged = merged_raggedly(left, i, &ragged)?;
            if merged.is_static() && !merged.is(0) {
                return Err(LayoutError::NotDivisible { value: extent, by: tile });
            }
            violation = violation.max(&merged)?;
            left.shape[i] = padded;
        }
        tile = tile.ceil_div(&extent)?;
    }
    Ok(violation)
}

/// 0 unless `ragged` is not and mode `i` is contiguous with a later one.
fn merged_raggedly(left: &Flat, i: usize, ragged: &Int) -> Result<Int> {
    let mut violation = Int::ZERO;
    let stride = &left.stride[i];
    for later in &left.stride[i + 1..] {
        if let (true, Some(d), Some(e)) = (stride.path == later.path, stride.value(), later.value())
        {
            let apart = left.shape[i].mul(d)?.sub(e)?.abs()?;
            let contiguous = Int::ONE.sub(&apart)?.max(&Int::ZERO)?;
            violation = violation.max(&ragged.min(&contiguous)?)?;
        }
    }
    Ok(violation)
}

/// Collects at the leaves of a tiler the first modes of the pairs there, then the second ones and
/// the modes that the tiler does not have.
pub(crate) fn unzip_into(
    layout: LayoutRef<'_>,
    tiler: TilerRef<'_>,
    arrange: Arrange,
    out: &mut LayoutBuilder,
) -> Result<()> {
    let TilerRef::Tuple(tiler) = tiler else {
        return arrange_pair(layout, arrange, out);
    };
    if tiler.is_leaf() {
        return arrange_pair(layout, arrange, out);
    }
    // A tuple of one mode stays a tuple: CuTe slices it with one `_`.
    let wrap_tile = arrange != Arrange::Flat || tiler.rank() == 1;
    let wrap_rest = arrange == Arrange::Zipped || layout.rank() == 1;
    out.open();
    if wrap_tile {
        out.open();
    }
    firsts(layout, tiler, out)?;
    if wrap_tile {
        out.close();
    }
    if wrap_rest {
        out.open();
    }
    seconds(layout, tiler, out)?;
    if wrap_rest {
        out.close();
    }
    out.close();
    Ok(())
}

/// The two modes of a pair, arranged.
fn arrange_pair(layout: LayoutRef<'_>, arrange: Arrange, out: &mut LayoutBuilder) -> Result<()> {
    if arrange == Arrange::Zipped {
        out.push_ref(layout);
        return Ok(());
    }
    out.open();
    for (i, mode) in layout.modes().enumerate() {
        if (i == 0 && arrange == Arrange::Tiled) || mode.rank() == 1 {
            out.push_ref(mode);
        } else {
            mode.modes().for_each(|m| out.push_ref(m));
        }
    }
    out.close();
    Ok(())
}

fn pair(layout: LayoutRef<'_>, index: usize) -> Result<LayoutRef<'_>> {
    let rank = if layout.is_leaf() { 1 } else { layout.rank() };
    if layout.is_leaf() || rank != 2 {
        return Err(LayoutError::RankMismatch { expected: 2, found: rank });
    }
    layout.modes().nth(index).ok_or(LayoutError::NoSuchMode { mode: index, rank })
}

fn firsts(layout: LayoutRef<'_>, tiler: TilerTuple<'_>, out: &mut LayoutBuilder) -> Result<()> {
    for (i, (mode, tile)) in layout.modes().zip(tiler.children()).enumerate() {
        if tile.is_leaf() {
            out.push_ref(pair(mode, 0).map_err(|e| e.at(i))?);
        } else {
            out.open();
            firsts(mode, tile, out).map_err(|e| e.at(i))?;
            out.close();
        }
    }
    Ok(())
}

fn seconds(layout: LayoutRef<'_>, tiler: TilerTuple<'_>, out: &mut LayoutBuilder) -> Result<()> {
    let mut tiles = tiler.children();
    for (i, mode) in layout.modes().enumerate() {
        match tiles.next() {
            None => out.push_ref(mode),
            Some(tile) if tile.is_leaf() => out.push_ref(pair(mode, 1).map_err(|e| e.at(i))?),
            Some(tile) => {
                out.open();
                seconds(mode, tile, out).map_err(|e| e.at(i))?;
                out.close();
            }
        }
    }
    Ok(())
}

impl Layout {
    /// Splits into a tile and the rest: `A o (tiler, complement(tiler, shape(A)))` with
    /// `A = coalesce(self)`, mode by mode for a tuple tiler. A mode of `A` that its part of the tile
    /// does not divide is rounded up: the result runs over whole tiles.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout, layout, tiler};
    /// let a = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(a.logical_divide(&tiler!(2, 4))?.to_string(), "((2,2),((2,2),4)):((2,4),((1,8),16))");
    /// assert_eq!(layout!(16:1).logical_divide(&layout!(4:2))?, layout!((4, (2, 2)):(2, (1, 8))));
    /// let n = Int::symbol("n").divisible_by(16);
    /// let d = Layout::compact((n, 64)).logical_divide(&tiler!(16, 16))?;
    /// assert_eq!(d.to_string(), "((16,n/16),(16,4)):((1,16),(n,16*n))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`composition`](Layout::composition) and [`complement`](Layout::complement).
    pub fn logical_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        match tiler.into() {
            TilerRef::Layout(tile) => divide_into(self.as_ref(), tile, &mut out)?,
            TilerRef::Tuple(tiler) => {
                by_tiler(self.as_ref(), tiler, &mut out, &mut divide_into, true)?;
            }
        }
        out.finish()
    }

    fn divided<'t>(&self, tiler: impl Into<TilerRef<'t>>, arrange: Arrange) -> Result<Layout> {
        let tiler = tiler.into();
        let divided = self.logical_divide(tiler)?;
        let mut out = LayoutBuilder::new();
        unzip_into(divided.as_ref(), tiler, arrange, &mut out)?;
        out.finish()
    }

    /// [`logical_divide`](Layout::logical_divide) as `((tile, ..), (rest, ..))`.
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// let a = layout!((4, 6):(1, 4));
    /// assert_eq!(a.zipped_divide(&tiler!(2, 3))?.to_string(), "((2,3),(2,2)):((1,4),(2,12))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`logical_divide`](Layout::logical_divide); [`LayoutError::RankMismatch`] where a
    /// `_` in the tiler leaves a mode that is not a pair.
    pub fn zipped_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.divided(tiler, Arrange::Zipped)
    }

    /// [`logical_divide`](Layout::logical_divide) as `((tile, ..), rest, ..)`.
    ///
    /// # Errors
    /// Those of [`zipped_divide`](Layout::zipped_divide).
    pub fn tiled_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.divided(tiler, Arrange::Tiled)
    }

    /// [`logical_divide`](Layout::logical_divide) as `(tile, .., rest, ..)`.
    ///
    /// # Errors
    /// Those of [`zipped_divide`](Layout::zipped_divide).
    pub fn flat_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.divided(tiler, Arrange::Flat)
    }
}
