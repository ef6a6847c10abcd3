//! `logical_divide` and its arrangements: splits a layout into a tile and the layout of the tiles.
//! Use them to cut a tensor into block tiles or thread tiles.

use super::coalesce::{Flat, Keep};
use super::complement::complement_into;
use super::compose::{ByTiler, Composer, Pairwise, by_tiler_or_advice};
use super::draft::{Draft, Operation, Tree, perform};
use super::error::LayoutError;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::number::{Number, Stride as _};
use super::tiler::{TilerLeaf, TilerRef, TilerTuple};

type Result<T, E = LayoutError> = std::result::Result<T, E>;
type Done<N> = Result<(), <N as Number>::Error>;

/// How a divide or product arranges its modes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrange {
    Zipped,
    Tiled,
    Flat,
}

struct Divide;

impl Pairwise for Divide {
    const REST: bool = true;

    /// Appends `(layout o tile, layout o complement(tile, shape(coalesce(layout))))`. Modes that
    /// the tile does not divide are rounded up.
    #[inline]
    fn pair<N: Number>(
        &self,
        layout: LayoutRef<'_>,
        tile: LayoutRef<'_>,
        out: &mut Draft<N>,
    ) -> Done<N> {
        let mut composer = Composer::<N>::new(layout);
        let left = composer.flat();
        left.coalesce(layout, Keep::WideAndLast)?;
        let mut rest = Flat::default();
        let mut extents = left.modes.iter().map(|(extent, _)| Ok(extent.clone()));
        let covered = complement_into(tile, &mut extents, &mut rest)?;
        rest.fill()?;
        let violation = pad(left, &covered.tile)?.max(&covered.violation)?;
        composer.begin()?;
        out.tuple(2)?;
        composer.compose(tile, out)?;
        composer.compose_flat(&rest, out).map_err(|e| N::within(e, 1))?;
        composer.check(tile, out)?;
        out.check_last(&violation)
    }
}

/// Rounds each extent but the last up to a multiple of that mode's part of `tile`, unless the part
/// is the whole extent. The last mode is unbounded, so it needs no rounding.
///
/// A symbolic mode may turn out to be contiguous with a later one. With static extents the two
/// would have been merged and divided together, so the result is right only if no such mode is
/// rounded up or fails to divide the part of the tile beyond it. Returns an expression that is 0 if
/// so.
#[inline]
fn pad<N: Number>(left: &mut Flat<N>, tile: &N) -> Result<N, N::Error> {
    let mut tile = tile.clone();
    let mut violation = N::new(0);
    for i in 0..left.modes.len().saturating_sub(1) {
        if tile.is(1) {
            break;
        }
        let extent = left.modes[i].0.clone();
        let padded = extent.ceil_div(&tile)?.mul(&extent.min(&tile)?)?;
        let ragged = padded.sub(&extent)?;
        if !extent.at_least(&tile) {
            // The complement counts `ceil(extent / tile) * ceil(next / ceil(tile / extent))` tiles.
            // That equals `ceil(extent * next / tile)` if the extent divides the tile.
            let past = tile.sub(&extent)?.max(&N::new(0))?;
            let uneven = tile.modulo(&extent)?.min(&past)?;
            violation = violation.max(&merged_unevenly(left, i, &uneven)?)?;
        }
        if !ragged.is(0) {
            let merged = merged_unevenly(left, i, &ragged)?;
            if merged.is_number() && !merged.is(0) {
                return Err(N::fail(|| LayoutError::NotDivisible {
                    value: extent.to_int(),
                    by: tile.to_int(),
                }));
            }
            violation = violation.max(&merged)?;
            left.modes[i].0 = padded;
        }
        tile = tile.ceil_div(&extent)?;
    }
    Ok(violation)
}

/// Returns an expression above 0 if `uneven` is above 0 and static extents would merge mode `i`
/// with a later one, that is, if the two are contiguous and all modes between them have extent 1.
fn merged_unevenly<N: Number>(left: &Flat<N>, i: usize, uneven: &N) -> Result<N, N::Error> {
    let mut violation = N::new(0);
    let mut uneven = uneven.clone();
    let (extent, stride) = &left.modes[i];
    for (between, later) in &left.modes[i + 1..] {
        if uneven.is(0) {
            break;
        }
        if let (true, Ok(d), Ok(e)) =
            (stride.path() == later.path(), stride.factor(), later.factor())
        {
            let apart = extent.mul(d)?.sub(e)?;
            let apart = apart.max(&apart.negate()?)?;
            let contiguous = N::new(1).sub(&apart)?.max(&N::new(0))?;
            violation = violation.max(&uneven.min(&contiguous)?)?;
        }
        uneven = uneven.min(&N::new(2).sub(between)?.max(&N::new(0))?)?;
    }
    Ok(violation)
}

/// A divide or product by a tiler, with its modes rearranged.
pub(crate) struct Arranged<'a, P> {
    pub(crate) operation: ByTiler<'a, P>,
    pub(crate) arrange: Arrange,
}

impl<P: Pairwise> Operation for Arranged<'_, P> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Done<N> {
        let mut made = Draft::new();
        self.operation.run(&mut made)?;
        match self.operation.tiler {
            TilerRef::Tuple(tiler) if !tiler.is_leaf() => {
                arrange_modes(made.as_ref(), tiler, self.arrange, out)
            }
            _ => arrange_pair(made.as_ref(), self.arrange, out),
        }
    }
}

/// Collects the tiles (the first modes of the pairs at the tiler's leaves), then the rests (the
/// second modes, and the modes beyond the tiler).
fn arrange_modes<N: Number>(
    layout: Tree<'_, N>,
    tiler: TilerTuple<'_>,
    arrange: Arrange,
    out: &mut Draft<N>,
) -> Done<N> {
    // A tuple with one mode stays a tuple, because CuTe slices it with a single `_`.
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

/// Appends the two modes of a pair in the arrangement `arrange`.
fn arrange_pair<N: Number>(layout: Tree<'_, N>, arrange: Arrange, out: &mut Draft<N>) -> Done<N> {
    if arrange == Arrange::Zipped {
        return out.push_tree(layout);
    }
    let whole =
        |i: usize, mode: Tree<'_, N>| (i == 0 && arrange == Arrange::Tiled) || mode.rank() == 1;
    let modes = layout.children().enumerate();
    out.tuple(modes.map(|(i, mode)| if whole(i, mode) { 1 } else { mode.rank() }).sum())?;
    for (i, mode) in layout.children().enumerate() {
        if whole(i, mode) {
            out.push_tree(mode)?;
        } else {
            mode.children().try_for_each(|m| out.push_tree(m))?;
        }
    }
    Ok(())
}

fn pair<'a, N: Number>(
    layout: Tree<'a, N>,
    index: usize,
    tile: TilerTuple<'_>,
) -> Result<Tree<'a, N>, N::Error> {
    let rank = layout.rank();
    if layout.is_leaf() || rank != 2 {
        return Err(N::fail(|| match tile.as_leaf() {
            // `_` keeps the mode as it is, so it was not split into tile and rest.
            Some(TilerLeaf::All) => LayoutError::UnexpectedUnderscore {
                operation: "a zipped, tiled or flat divide or product",
            },
            _ => LayoutError::RankMismatch { expected: 2, found: rank },
        }));
    }
    let mode = layout.child(index);
    mode.ok_or_else(|| N::fail(|| LayoutError::NoSuchMode { mode: index, rank }))
}

fn firsts<N: Number>(layout: Tree<'_, N>, tiler: TilerTuple<'_>, out: &mut Draft<N>) -> Done<N> {
    for (i, (mode, tile)) in layout.children().zip(tiler.children()).enumerate() {
        if tile.is_leaf() {
            out.push_tree(pair(mode, 0, tile).map_err(|e| N::within(e, i))?)?;
        } else {
            out.tuple(mode.rank().min(tile.rank()))?;
            firsts(mode, tile, out).map_err(|e| N::within(e, i))?;
        }
    }
    Ok(())
}

fn seconds<N: Number>(layout: Tree<'_, N>, tiler: TilerTuple<'_>, out: &mut Draft<N>) -> Done<N> {
    let mut tiles = tiler.children();
    for (i, mode) in layout.children().enumerate() {
        match tiles.next() {
            None => out.push_tree(mode)?,
            Some(tile) if tile.is_leaf() => {
                out.push_tree(pair(mode, 1, tile).map_err(|e| N::within(e, i))?)?;
            }
            Some(tile) => {
                out.tuple(mode.rank())?;
                seconds(mode, tile, out).map_err(|e| N::within(e, i))?;
            }
        }
    }
    Ok(())
}

/// # Division
///
/// Splits a layout into tiles. The four forms differ in how they group the modes.
impl Layout {
    /// Splits each mode into a tile and the rest: `(tile, tiles)`. For example, `16:1` by the tile
    /// `4:2` is `(4,(2,2)):(2,(1,8))`: the first mode runs inside a tile, and the second from tile
    /// to tile. With `A = coalesce(self)` the result is `A o (tiler, complement(tiler, shape(A)))`;
    /// a tuple tiler does this mode by mode.
    ///
    /// If the tile does not divide a mode of `A`, that mode is rounded up, so the result covers
    /// whole tiles and can reach indices outside `self`. For example, dividing `10:1` by 4 gives
    /// three tiles.
    ///
    /// To collect all tile modes in front, use [`zipped_divide`](Layout::zipped_divide).
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
    /// The same as [`composition`](Layout::composition) and [`complement`](Layout::complement).
    #[doc(alias = "tile")]
    pub fn logical_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        by_tiler_or_advice(self.as_ref(), tiler.into(), |layout, tiler| {
            perform(&ByTiler { layout, tiler, pairwise: Divide })
        })
    }

    fn divided<'t>(&self, tiler: impl Into<TilerRef<'t>>, arrange: Arrange) -> Result<Layout> {
        by_tiler_or_advice(self.as_ref(), tiler.into(), |layout, tiler| {
            perform(&Arranged { operation: ByTiler { layout, tiler, pairwise: Divide }, arrange })
        })
    }

    /// Splits into tiles like [`logical_divide`](Layout::logical_divide), arranged as `((tile, ..),
    /// (rest, ..))`. Slice the second mode to pick a tile: this is the form for assigning tiles to
    /// thread blocks.
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// let a = layout!((4, 6):(1, 4));
    /// assert_eq!(a.zipped_divide(&tiler!(2, 3))?.to_string(), "((2,3),(2,2)):((1,4),(2,12))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`logical_divide`](Layout::logical_divide), and
    /// [`LayoutError::UnexpectedUnderscore`] if a `_` in the tiler keeps a mode, which then has no
    /// tile and rest.
    pub fn zipped_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.divided(tiler, Arrange::Zipped)
    }

    /// Splits into tiles like [`logical_divide`](Layout::logical_divide), arranged as `((tile, ..),
    /// rest, ..)`. Use it if you pick a tile with one index per mode.
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// let a = layout!((4, 6):(1, 4));
    /// assert_eq!(a.tiled_divide(&tiler!(2, 3))?.to_string(), "((2,3),2,2):((1,4),2,12)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`zipped_divide`](Layout::zipped_divide).
    pub fn tiled_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.divided(tiler, Arrange::Tiled)
    }

    /// Splits into tiles like [`logical_divide`](Layout::logical_divide), arranged as `(tile, ..,
    /// rest, ..)`. Use it if you need no nesting.
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// let a = layout!((4, 6):(1, 4));
    /// assert_eq!(a.flat_divide(&tiler!(2, 3))?.to_string(), "(2,3,2,2):(1,4,2,12)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`zipped_divide`](Layout::zipped_divide).
    pub fn flat_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.divided(tiler, Arrange::Flat)
    }
}
