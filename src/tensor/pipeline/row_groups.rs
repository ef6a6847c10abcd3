//! [`RowGroups`]: groups of rows in one matrix, for grouped GEMM. In a mixture of experts a group
//! is the tokens of one expert, and each group is multiplied by its own expert's weights. Use it if
//! the groups differ only in how many rows they have.

use super::groups::Groups;
use crate::ir::{Body, Global, Val};

/// Groups of rows in one matrix, for example each expert's tokens in a mixture of experts. Only the
/// device knows the row counts, which can be 0.
///
/// There are two forms. With `capacity` 0 the groups are contiguous, and `bounds` holds the first
/// row of each group and the end of the last one, ascending (`cu_seqlens`). Otherwise each group
/// has room for `capacity` rows, and `bounds` holds its row count.
///
/// The tiles of all groups are numbered consecutively. A loop over ascending tile indices finds
/// each tile's group with [`seek`](RowGroups::seek), which continues from the previous group.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{Raster, RowGroups, TileScheduler};
///
/// // Tiles of 4 rows count their own ones.
/// type Params = (Global<i32>, GlobalMut<i32>, [i32; 2]);
/// let kernel = Kernel::<Params>::build("rows", Target::SM_80, |k, (bounds, x, [count, capacity])| {
///     let groups = RowGroups { bounds, count, capacity };
///     let one = k.constant(1);
///     let tiles = TileScheduler::new(k, Raster::AlongN, [one; 3]).row_groups(Some(groups), 4);
///     tiles.for_each(k, (), |_, tile, ()| {
///         let [start, end] = groups.range(tile.batch);
///         x.red().add(tile.batch, (end - start - tile.row * 4).min(4));
///     });
/// })?;
/// let device = Device::sim()?;
/// let function = device.load(&kernel)?;
/// let mut count = |bounds: &[i32], capacity| -> Result<_, Box<dyn std::error::Error>> {
///     let (bounds, mut x) = (device.upload(bounds)?, device.zeros::<i32>(4)?);
///     function.launch(Grid::cover(2, 1), (&bounds, &mut x, [4, capacity]))?;
///     Ok(x.to_vec()?)
/// };
/// assert_eq!(count(&[0, 7, 7, 8, 21], 0)?, [7, 0, 1, 13]);
/// // Groups of up to 16 rows.
/// assert_eq!(count(&[7, 0, 16, 3], 16)?, [7, 0, 16, 3]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowGroups<'b> {
    /// The groups' first rows and the end of the last one, or each group's row count.
    pub bounds: Val<'b, Global<i32>>,
    /// The group count.
    pub count: Val<'b, i32>,
    /// With row counts in `bounds`: how many rows each group has room for, which is the distance
    /// between the first rows of two groups. With first rows in `bounds`: 0.
    pub capacity: Val<'b, i32>,
}

crate::values! {
    /// A position in a grouped GEMM's tiles: one group (in a mixture of experts the rows of one
    /// expert), and which of the consecutive tile indices belong to it.
    ///
    /// [`TileScheduler`](crate::tensor::pipeline::TileScheduler) hands out the tiles and keeps this
    /// position for you if you call
    /// [`row_groups`](crate::tensor::pipeline::TileScheduler::row_groups). You only need it if you
    /// hand out tile indices yourself: [`RowGroups::start`] returns the first position, and
    /// [`RowGroups::seek`] moves it to the group of the next tile.
    pub struct RowGroup<'b> {
        /// The group's index; the group count once all tiles are past.
        pub group: Val<'b, i32>,
        /// The index of the group's first tile, among the tiles of all groups.
        pub first: Val<'b, i32>,
        /// How many tiles the group has along M.
        pub rows: Val<'b, i32>,
        /// How many tiles the group has along N.
        pub columns: Val<'b, i32>,
    }
}

impl<'b> RowGroups<'b> {
    /// Returns an upper limit for the tiles along M, with `size` rows per tile and `rows` rows in
    /// total over `count` groups. Use it on the host to size a grid, because only the device knows
    /// the groups' row counts.
    pub fn max_tiles(rows: u32, count: u32, size: u32) -> u64 {
        u64::from(rows / size.max(1)) + u64::from(count)
    }

    /// Returns a group's first matrix row and the row after its last one, for example to mask the
    /// rows of a tile that reach beyond its group.
    #[track_caller]
    #[inline]
    pub fn range(&self, group: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        // The prover does not know which numbers the caller passes.
        let group = group.min(self.count - 1).max(0);
        let is_listed = self.capacity.eq(0);
        let bound = self.bounds.load(group);
        // One further if the groups are listed, as an expression of what a launch knows.
        let next = self.bounds.load(group + 1 - self.capacity.min(1).max(0));
        let room = group * self.capacity;
        let end = room + next.min(self.capacity);
        [is_listed.select(bound, room), is_listed.select(next, end)]
    }

    /// Returns the position before the first tile: what you pass to the first
    /// [`seek`](RowGroups::seek).
    #[track_caller]
    pub fn start(&self) -> RowGroup<'b> {
        let k = &self.bounds.body();
        RowGroup::before_all(k)
    }

    /// Returns the group of tile `number`, searching forward from an earlier tile's group. Tiles
    /// have `size` rows, and each group has `columns` column tiles. Call it if you hand out tile
    /// indices yourself, in ascending order.
    #[track_caller]
    #[inline]
    pub fn seek(
        &self,
        from: RowGroup<'b>,
        number: Val<'b, i32>,
        [size, columns]: [Val<'b, i32>; 2],
    ) -> RowGroup<'b> {
        let k = &mut self.bounds.body();
        Groups::Rows(*self, size).seek(k, from, number, columns)
    }
}

impl<'c> RowGroup<'c> {
    /// Returns the position before the first tile.
    #[track_caller]
    pub(super) fn before_all(k: &Body<'c, '_>) -> Self {
        let zero = k.constant(0);
        RowGroup { group: k.constant(-1), first: zero, rows: zero, columns: zero }
    }
}
