//! One tile of a matrix, shared out among the threads of a block.

use crate::ir::{Body, MemIndex, Val};
use crate::layout::{IntTuple, Layout, LayoutError, Tiler};

/// Where the elements of a tiled matrix lie: the offset of an element is the sum of the offsets of its
/// thread, of its place among the elements of the thread, and of its tile.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    /// From the index of a thread.
    pub(super) thread: Layout,
    /// From the index of an element of a thread.
    pub(super) value: Layout,
    /// From the coordinate of a tile, one number for each mode of the matrix.
    pub(super) rest: Layout,
}

impl Partition {
    /// Tiles `matrix` by `tile` and gives each tile to the threads of `threads`, a compact layout from a
    /// position in the tile to the index of a thread: neighbours in `threads` take neighbouring elements,
    /// and a thread takes every position that is a multiple of the shape of `threads` away from its first.
    pub(super) fn new(
        matrix: &Layout,
        tile: [i64; 2],
        threads: &Layout,
    ) -> Result<Partition, LayoutError> {
        let [rows, columns] = tile;
        // ((tile rows, tile columns), (tiles along the rows, tiles along the columns))
        let tiled = matrix.zipped_divide(&Tiler::from((rows, columns)))?;
        let (tile, rest) = pair(&tiled)?;
        // ((thread row, thread column), (element row, element column)) of one tile
        let shared_out = tile.zipped_divide(&threads_tiler(threads)?)?;
        let (position, value) = pair(&shared_out)?;
        // The index of a thread, to its position, to the offset.
        let thread = position.composition(&threads.right_inverse()?)?;
        Ok(Partition { thread, value, rest })
    }

    /// The number of elements of a thread.
    pub(super) fn values(&self) -> Result<i64, LayoutError> {
        self.value.size()?.to_static()
    }

    /// The offset of the first element of a thread in a tile.
    pub(super) fn first<'b, I: MemIndex>(
        &self,
        k: &Body<'b, '_>,
        thread: Val<'b, i32>,
        tile: (Val<'b, i32>, Val<'b, i32>),
    ) -> Val<'b, I> {
        k.crd2idx::<I>(thread, &self.thread) + k.crd2idx::<I>(tile, &self.rest)
    }
}

/// The tile that takes one element for each thread.
fn threads_tiler(threads: &Layout) -> Result<Tiler, LayoutError> {
    let sizes: IntTuple = threads.shape().to_owned();
    Ok(Tiler::from(&sizes))
}

/// The two modes of a layout of rank 2.
fn pair(layout: &Layout) -> Result<(Layout, Layout), LayoutError> {
    Ok((layout.get(&[0])?, layout.get(&[1])?))
}
