//! `local_tile` and `local_partition`: the part of a layout that belongs to a thread block or a
//! thread. You call them at the start of most tiled kernels.

use super::coord::Coord;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::slice::{flat_coord, padded, product_each, underscores};
use super::tiler::{Tiler, TilerRef};
use super::tuple::{IntTuple, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// # Tiles and partitions
///
/// Returns the part of a layout on which a thread block or a thread works.
impl Layout {
    /// Divides by `tiler` and returns the tile at `coord` with its offset: CuTe's `local_tile`. Use
    /// it to get a thread block's tile of a tensor.
    ///
    /// The result has the modes of the tile, followed by one mode for each `_` of `coord`, which
    /// runs over the remaining tiles. Missing entries of `coord` count as `_`.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout, tiler};
    /// let a = layout!((64, 32):(1, 64));
    /// let (tile, offset) = a.local_tile(&tiler!(16, 8), &coord!(2, _))?;
    /// assert_eq!(tile.to_string(), "(16,8,4):(1,64,512)");
    /// assert_eq!(offset.as_static(), Some(32));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`zipped_divide`](Layout::zipped_divide) and
    /// [`slice_and_offset`](Layout::slice_and_offset).
    pub fn local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: &Coord,
    ) -> Result<(Layout, IntTuple)> {
        let tiled = self.zipped_divide(tiler)?;
        tiled.slice_and_offset(&tile_coord(&tiled, coord)?)
    }

    /// Returns the elements of thread `index`, with their offset, when copies of `threads` cover
    /// the layout: CuTe's `local_partition`. Use it to divide a tile among the threads of a block.
    ///
    /// ```
    /// # use tilewright::layout::{Int, layout};
    /// let a = layout!((16, 8):(1, 16));
    /// let (part, offset) = a.local_partition(&layout!((4, 8):(1, 4)), &Int::from(5))?;
    /// assert_eq!((part.to_string(), offset.as_static()), ("(4,1):(4,0)".into(), Some(17)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`local_tile`](Layout::local_tile).
    #[inline]
    pub fn local_partition(&self, threads: &Layout, index: &Int) -> Result<(Layout, IntTuple)> {
        let tiled = self.zipped_divide(&thread_tiler(threads)?)?;
        tiled.slice_and_offset(&thread_coord(&tiled, threads, index)?)
    }
}

fn ranks(tiled: &Layout) -> Result<[usize; 2]> {
    let mut modes = tiled.modes();
    match (modes.next(), modes.next()) {
        (Some(tile), Some(rest)) => Ok([tile.rank(), rest.rank()]),
        _ => Err(LayoutError::RankMismatch { expected: 2, found: tiled.rank() }),
    }
}

/// Returns the coordinate in a zipped divide that keeps the tile and takes `coord` of the rest.
#[inline]
pub(crate) fn tile_coord(tiled: &Layout, coord: &Coord) -> Result<Coord> {
    let [tile, rest] = ranks(tiled)?;
    let coord = padded(coord.as_ref(), rest)?;
    Tuple::from_items([underscores(tile)?.as_ref(), coord.as_ref()])
}

/// Returns the tile that `threads` covers once.
#[inline]
pub(crate) fn thread_tiler(threads: &Layout) -> Result<Tiler> {
    Ok(Tiler::from(&product_each(threads.shape())?))
}

/// Returns the coordinate in a zipped divide that takes thread `index`'s element of the tile and
/// keeps the rest.
#[inline]
pub(crate) fn thread_coord(tiled: &Layout, threads: &Layout, index: &Int) -> Result<Coord> {
    let [tile, rest] = ranks(tiled)?;
    let coord = padded(flat_coord(index, threads.as_ref())?.as_ref(), tile)?;
    Tuple::from_items([coord.as_ref(), underscores(rest)?.as_ref()])
}
