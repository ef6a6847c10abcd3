//! [`RowGroups`]: the rows of one matrix in groups, and the tiles of each.

use super::groups::Groups;
use crate::ir::{Body, Global, Val};

/// Groups of rows of one matrix, for example the tokens of each expert of a mixture. Only the device knows the lengths, which
/// may be 0.
///
/// The groups follow each other, and `bounds` has the first row of each group and the end of the last one, ascending
/// (`cu_seqlens`); or each group has room for `capacity` rows, and `bounds` has the number of rows that it has.
///
/// The tiles of all groups have consecutive numbers. A loop over ascending numbers finds the group of each by
/// [`seek`](RowGroups::seek), which goes on from the group before.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{Raster, RowGroups, TileScheduler};
///
/// // Tiles of 4 rows count their own ones.
/// type Params = (Global<i32>, GlobalMut<i32>, [i32; 2]);
/// let kernel = Kernel::<Params>::build("rows", Target::SM_80, |k, (bounds, x, [count, capacity])| {
///     let groups = RowGroups { bounds, count, capacity };
///     let one = k.constant(1);
///     let tiles = TileScheduler::new(k, Raster::AlongN, [one; 3]).row_groups(k, Some(groups), 4);
///     tiles.for_each(k, (), |k, tile, ()| {
///         let [start, end] = groups.range(k, tile.batch);
///         x.red().add(k, tile.batch, (end - start - tile.row * 4).min(4));
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
    /// The first rows of the groups and the end of the last one, or the rows of each.
    pub bounds: Val<'b, Global<i32>>,
    /// The number of groups.
    pub count: Val<'b, i32>,
    /// The rows from a group to the next one where `bounds` has the rows of each; else 0.
    pub capacity: Val<'b, i32>,
}

crate::values! {
    /// A group among the tiles of all.
    pub struct RowGroup<'b> {
        /// The number of the group; that of all groups behind the last tile.
        pub group: Val<'b, i32>,
        /// The number of its first tile.
        pub first: Val<'b, i32>,
        /// Its row tiles.
        pub rows: Val<'b, i32>,
        /// Its column tiles.
        pub columns: Val<'b, i32>,
    }
}

impl<'b> RowGroups<'b> {
    /// The number of row tiles of `size` rows that `count` groups of `rows` rows in all have at most.
    pub fn max_tiles(rows: u32, count: u32, size: u32) -> u64 {
        u64::from(rows / size.max(1)) + u64::from(count)
    }

    /// The first row of a group and its end.
    #[track_caller]
    #[inline]
    pub fn range(&self, k: &Body<'b, '_>, group: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let is_listed = self.capacity.eq(0);
        let bound = self.bounds.load(k, group);
        let next = self.bounds.load(k, group + is_listed.select(k.constant(1), k.constant(0)));
        let room = group * self.capacity;
        let end = room + next.min(self.capacity);
        [is_listed.select(bound, room), is_listed.select(next, end)]
    }

    /// Returns the group before all tiles.
    #[track_caller]
    pub fn start(&self, k: &Body<'b, '_>) -> RowGroup<'b> {
        RowGroup::before_all(k)
    }

    /// Returns the group of the tile with a number, from that of a tile before it on: groups have tiles of `size` rows, and
    /// `columns` of them beside each other.
    #[track_caller]
    #[inline]
    pub fn seek(
        &self,
        k: &mut Body<'b, '_>,
        from: RowGroup<'b>,
        number: Val<'b, i32>,
        [size, columns]: [Val<'b, i32>; 2],
    ) -> RowGroup<'b> {
        Groups::Rows(*self, size).seek(k, from, number, columns)
    }
}

impl<'c> RowGroup<'c> {
    /// The group before all tiles.
    #[track_caller]
    pub(super) fn before_all(k: &Body<'c, '_>) -> Self {
        let zero = k.constant(0);
        RowGroup { group: k.constant(-1), first: zero, rows: zero, columns: zero }
    }
}
