//! `logical_divide` and its arrangements `zipped`, `tiled` and `flat`.

use super::coalesce::Flat;
use super::complement::complement_flat;
use super::compose::{ByTiler, Composer, Pairwise};
use super::draft::{Draft, Operation, perform};
use super::error::LayoutError;
use super::layout::{Layout, LayoutRef};
use super::number::{Number, Stride as _};
use super::tiler::{TilerRef, TilerTuple};

type Result<T, E = LayoutError> = std::result::Result<T, E>;
type Done<N> = Result<(), <N as Number>::Error>;

/// How the modes of a divide or product are arranged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrange {
    Zipped,
    Tiled,
    Flat,
}

struct Divide;

impl Pairwise for Divide {
    const REST: bool = true;

    /// `(layout o tile, layout o complement(tile, shape(coalesce(layout))))`, with modes that the
    /// tile does not divide rounded up.
    #[inline]
    fn pair<N: Number>(
        &self,
        layout: LayoutRef<'_>,
        tile: LayoutRef<'_>,
        out: &mut Draft<N>,
    ) -> Done<N> {
        let mut left = Flat::<N>::coalesced(layout, true)?;
        let rest = complement_flat::<N>(tile, Some(&left.shape))?;
        let violation = pad(&mut left, &rest.tile)?.max(&rest.violation)?;
        let mut composer = Composer::with_flat(layout, left)?;
        out.tuple(2)?;
        composer.compose(tile, out)?;
        composer.compose_flat(&rest.flat.or_trivial()?, out).map_err(|e| N::within(e, 1))?;
        composer.check(tile, out)?;
        out.check_last(&violation)
    }
}

/// Rounds the extents of all modes but the last up to multiples of the part of `tile` that falls to
/// them, if it is not the whole extent; the last is unbounded anyway.
///
/// A mode of symbols may turn out to be contiguous with a later one. Numbers would have been merged
/// then and rounded up together, so the result holds on the condition that a mode which is rounded
/// up is not. The number that is returned is 0 if it holds.
#[inline]
fn pad<N: Number>(left: &mut Flat<N>, tile: &N) -> Result<N, N::Error> {
    let mut tile = tile.clone();
    let mut violation = N::new(0);
    for i in 0..left.shape.len().saturating_sub(1) {
        if tile.is(1) {
            break;
        }
        let extent = left.shape[i].clone();
        let padded = extent.ceil_div(&tile)?.mul(&extent.min(&tile)?)?;
        let ragged = padded.sub(&extent)?;
        if !ragged.is(0) {
            let merged = merged_raggedly(left, i, &ragged)?;
            if merged.is_number() && !merged.is(0) {
                return Err(N::fail(|| LayoutError::NotDivisible {
                    value: extent.to_int(),
                    by: tile.to_int(),
                }));
            }
            violation = violation.max(&merged)?;
            left.shape[i] = padded;
        }
        tile = tile.ceil_div(&extent)?;
    }
    Ok(violation)
}

/// 0 unless `ragged` is not and mode `i` is contiguous with a later one.
fn merged_raggedly<N: Number>(left: &Flat<N>, i: usize, ragged: &N) -> Result<N, N::Error> {
    let mut violation = N::new(0);
    let stride = &left.stride[i];
    for later in &left.stride[i + 1..] {
        if let (true, Ok(d), Ok(e)) =
            (stride.path() == later.path(), stride.factor(), later.factor())
        {
            let apart = left.shape[i].mul(d)?.sub(e)?;
            let apart = apart.max(&apart.negate()?)?;
            let contiguous = N::new(1).sub(&apart)?.max(&N::new(0))?;
            violation = violation.max(&ragged.min(&contiguous)?)?;
        }
    }
    Ok(violation)
}

/// The modes of a divide or product by a tiler, arranged.
pub(crate) struct Arranged<'a> {
    pub(crate) layout: LayoutRef<'a>,
    pub(crate) tiler: TilerRef<'a>,
    pub(crate) arrange: Arrange,
}

impl Operation for Arranged<'_> {
    /// Collects at the leaves of a tiler the first modes of the pairs there, then the second ones and
    /// the modes that the tiler does not have.
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Done<N> {
        let (layout, arrange) = (self.layout, self.arrange);
        let TilerRef::Tuple(tiler) = self.tiler else {
            return arrange_pair(layout, arrange, out);
        };
        if tiler.is_leaf() {
            return arrange_pair(layout, arrange, out);
        }
        // A tuple of one mode stays a tuple: CuTe slices it with one `_`.
        let wrap_tile = arrange != Arrange::Flat || tiler.rank() == 1;
        let wrap_rest = arrange == Arrange::Zipped || layout.rank() == 1;
        let (tiles, rests) = (tiler.rank().min(layout.rank()), layout.rank());
        out.tuple(if wrap_tile { 1 } else { tiles } + if wrap_rest { 1 } else { rests })?;
        if wrap_tile {
            out.tuple(tiles)?;
        }
        firsts(layout, tiler, out)?;
        if wrap_rest {
            out.tuple(rests)?;
        }
        seconds(layout, tiler, out)
    }
}

/// The two modes of a pair, arranged.
fn arrange_pair<N: Number>(layout: LayoutRef<'_>, arrange: Arrange, out: &mut Draft<N>) -> Done<N> {
    if arrange == Arrange::Zipped {
        return out.push_ref(layout);
    }
    let whole =
        |i: usize, mode: LayoutRef<'_>| (i == 0 && arrange == Arrange::Tiled) || mode.rank() == 1;
    let modes = layout.modes().enumerate();
    out.tuple(modes.map(|(i, mode)| if whole(i, mode) { 1 } else { mode.rank() }).sum())?;
    for (i, mode) in layout.modes().enumerate() {
        if whole(i, mode) {
            out.push_ref(mode)?;
        } else {
            mode.modes().try_for_each(|m| out.push_ref(m))?;
        }
    }
    Ok(())
}

fn pair<N: Number>(layout: LayoutRef<'_>, index: usize) -> Result<LayoutRef<'_>, N::Error> {
    let rank = if layout.is_leaf() { 1 } else { layout.rank() };
    if layout.is_leaf() || rank != 2 {
        return Err(N::fail(|| LayoutError::RankMismatch { expected: 2, found: rank }));
    }
    let mode = layout.modes().nth(index);
    mode.ok_or_else(|| N::fail(|| LayoutError::NoSuchMode { mode: index, rank }))
}

fn firsts<N: Number>(layout: LayoutRef<'_>, tiler: TilerTuple<'_>, out: &mut Draft<N>) -> Done<N> {
    for (i, (mode, tile)) in layout.modes().zip(tiler.children()).enumerate() {
        if tile.is_leaf() {
            out.push_ref(pair::<N>(mode, 0).map_err(|e| N::within(e, i))?)?;
        } else {
            out.tuple(mode.rank().min(tile.rank()))?;
            firsts(mode, tile, out).map_err(|e| N::within(e, i))?;
        }
    }
    Ok(())
}

fn seconds<N: Number>(layout: LayoutRef<'_>, tiler: TilerTuple<'_>, out: &mut Draft<N>) -> Done<N> {
    let mut tiles = tiler.children();
    for (i, mode) in layout.modes().enumerate() {
        match tiles.next() {
            None => out.push_ref(mode)?,
            Some(tile) if tile.is_leaf() => {
                out.push_ref(pair::<N>(mode, 1).map_err(|e| N::within(e, i))?)?;
            }
            Some(tile) => {
                out.tuple(mode.rank())?;
                seconds(mode, tile, out).map_err(|e| N::within(e, i))?;
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
        let (layout, tiler) = (self.as_ref(), tiler.into());
        perform(&ByTiler { layout, tiler, pairwise: Divide })
    }

    fn divided<'t>(&self, tiler: impl Into<TilerRef<'t>>, arrange: Arrange) -> Result<Layout> {
        let tiler = tiler.into();
        let divided = self.logical_divide(tiler)?;
        perform(&Arranged { layout: divided.as_ref(), tiler, arrange })
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
