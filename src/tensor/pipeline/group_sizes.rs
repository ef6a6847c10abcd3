//! [`GroupSizes`]: M, N and K of each GEMM in a grouped launch, which only the device knows. Pass
//! it to [`TileScheduler::group_sizes`](crate::tensor::pipeline::TileScheduler::group_sizes).

use crate::ir::{Global, Val};

/// Sizes of the GEMMs of a group, in device memory: `table` holds M, N and K of each in the first
/// three of `words` elements. A GEMM with a size of 0 or less has no tiles.
///
/// Use it if every GEMM has its own M, N and K. If only the row counts differ and the rows are in
/// one matrix, use [`RowGroups`](super::RowGroups).
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{GroupSizes, Raster, TileScheduler};
///
/// // Counts the tiles of 4 x 8 of each product.
/// type Params = (Global<i64>, GlobalMut<i32>, i32);
/// let kernel = Kernel::<Params>::build("tiles", Target::SM_80, |k, (table, x, count)| {
///     let (sizes, one) = (GroupSizes { table, words: 4, count }, k.constant(1));
///     let tiles = TileScheduler::new(k, Raster::AlongN, [one; 3]).group_sizes(Some(sizes), [4, 8]);
///     tiles.for_each(k, (), |_, tile, ()| x.red().add(tile.batch, 1));
/// })?;
/// let device = Device::sim()?;
/// let sizes = [[9, 16, 1, 0], [0, 8, 1, 0], [4, 9, 1, 0]].concat();
/// let (sizes, mut x) = (device.upload::<i64>(&sizes)?, device.zeros::<i32>(3)?);
/// device.load(&kernel)?.launch(Grid::cover(2, 1), (&sizes, &mut x, 3))?;
/// assert_eq!(x.to_vec()?, [6, 0, 2]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GroupSizes<'b> {
    /// The table of sizes.
    pub table: Val<'b, Global<i64>>,
    /// Elements per table entry.
    pub words: u32,
    /// The GEMM count.
    pub count: Val<'b, i32>,
}

impl<'b> GroupSizes<'b> {
    /// Returns M, N and K of the GEMM with index `product`. A role calls it for each tile, for
    /// example to get the K extent of its main loop.
    #[track_caller]
    #[inline]
    pub fn of(&self, product: Val<'b, i32>) -> [Val<'b, i32>; 3] {
        let first = product * self.words;
        [0, 1, 2].map(|word| self.table.load(first + word).cvt::<i32>())
    }

    /// Returns the counts of row tiles and column tiles of a GEMM, for tiles of `tile` rows and
    /// columns.
    #[track_caller]
    #[inline]
    pub(super) fn tiles(
        &self,
        product: Val<'b, i32>,
        tile: [Val<'b, i32>; 2],
    ) -> [Val<'b, i32>; 2] {
        let [m, n, depth] = self.of(product).map(|size| size.max(0));
        let tiles = |size: Val<'b, i32>, tile| (size + (tile - 1)) / tile;
        // Without tiles along one mode there are none at all.
        [tiles(m, tile[0]) * depth.min(1), tiles(n, tile[1])]
    }
}
