//! Common parts of the kernels in which all threads copy tiles.

use crate::ir::{Element, Global, GlobalMut, Kernel, Val};
use crate::tensor::Tile;

use super::config::GemmConfig;
use super::types::Types;

crate::params! {
    /// The parameters of a kernel beside those of its epilogue: matrices, each with its row pitch and its batch stride, and sizes.
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
    }
}

/// A kernel with its parameters and those of its epilogue.
pub(super) type ThreadsKernel<T, E> = Kernel<(Params<T>, E)>;

/// The number of tiles of a size.
pub(super) fn count(size: Val<'_, i32>, tile: u32) -> Val<'_, i32> {
    (size + (tile - 1)) / tile
}

/// The columns of D for some of A B, from the first one on: pairs of them are one.
pub(super) fn of_d<'b>(config: &GemmConfig, columns: Val<'b, i32>) -> Val<'b, i32> {
    if config.pairs { columns / config.sums() } else { columns }
}

/// The matrix of a tile, and its pitch.
pub(super) fn matrix<'b, T: Element>(
    from: Val<'b, Global<T>>,
    [pitch, next]: [Val<'b, i64>; 2],
    tile: Tile<'b>,
) -> (Val<'b, Global<T>>, Val<'b, i64>) {
    (from.offset(tile.batch.cvt::<i64>() * next), pitch)
}
