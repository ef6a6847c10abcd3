//! Common parts of the kernels in which all threads copy tiles.

use crate::ir::{Element, Global, GlobalMut, Val};
use crate::tensor::Tile;

use super::epilogue::EpilogueParams;
use super::types::Types;

crate::params! {
    /// The parameters of a kernel: matrices, each with its row pitch and its batch stride, and sizes.
    pub(super) struct Params<T: Types> {
        pub(super) a: Global<T::A>,
        pub(super) a_strides: [i64; 2],
        pub(super) b: Global<T::B>,
        pub(super) b_strides: [i64; 2],
        pub(super) d: GlobalMut<T::D>,
        pub(super) d_strides: [i64; 2],
        pub(super) m: i32,
        pub(super) n: i32,
        pub(super) k: i32,
        pub(super) batch: i32,
        pub(super) epilogue: EpilogueParams<T>,
    }
}

/// The number of tiles of a size.
pub(super) fn count(size: Val<'_, i32>, tile: u32) -> Val<'_, i32> {
    (size + (tile - 1)) / tile
}

/// The matrix of a tile, and its pitch.
pub(super) fn matrix<'b, T: Element>(
    from: Val<'b, Global<T>>,
    [pitch, next]: [Val<'b, i64>; 2],
    tile: Tile<'b>,
) -> (Val<'b, Global<T>>, Val<'b, i64>) {
    (from.offset(tile.batch.cvt::<i64>() * next), pitch)
}
