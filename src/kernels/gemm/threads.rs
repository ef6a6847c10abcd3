//! Common parts of the kernels in which all threads copy tiles.

use crate::ir::{Element, Global, GlobalMut, Val};
use crate::tensor::Tile;

use super::epilogue::EpilogueParams;

/// A, B and D, each with its pitch and the distance of its matrices; M, N, K and matrices of the batch; the epilogue.
pub(super) type Params<A, B, C, D> = (
    (Global<A>, [i64; 2]),
    (Global<B>, [i64; 2]),
    (GlobalMut<D>, [i64; 2]),
    [i32; 4],
    EpilogueParams<C, D>,
);

/// The number of tiles of a size.
pub(super) fn count(size: Val<'_, i32>, tile: u32) -> Val<'_, i32> {
    (size + (tile - 1)) / tile
}

/// The matrix of a tile, and its pitch.
pub(super) fn matrix<'b, T: Element>(
    (from, [pitch, next]): (Val<'b, Global<T>>, [Val<'b, i64>; 2]),
    tile: Tile<'b>,
) -> (Val<'b, Global<T>>, Val<'b, i64>) {
    (from.offset(tile.batch.cvt::<i64>() * next), pitch)
}
