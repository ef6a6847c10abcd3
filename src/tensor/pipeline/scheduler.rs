//! [`TileScheduler`]: which output tiles a persistent block computes, and in which order. Use it in
//! a GEMM whose blocks stay on their SM and loop over tiles.

use crate::ir::builder::{DeviceCoord, IntoValues, Values};
use crate::ir::{Body, GlobalMut, Val};

use super::group_sizes::GroupSizes;
use super::groups::Groups;
use super::raster::Raster;
use super::row_groups::{RowGroup, RowGroups};
use super::work::{DynamicScheduler, DynamicWork, StaticScheduler, WorkScheduler};
use crate::tensor::copy::ClusterPeers;
use crate::tensor::error::{TensorError, TensorErrorKind, count_of};

crate::values! {
    /// One output tile that the scheduler hands out. Multiply `row` and `column` by the tile's
    /// extents to get its first matrix row and column.
    pub struct Tile<'b> {
        /// The tile's index along M, in tiles.
        pub row: Val<'b, i32>,
        /// The tile's index along N, in tiles.
        pub column: Val<'b, i32>,
        /// The matrix's index in the batch, or the group's index in a grouped GEMM.
        pub batch: Val<'b, i32>,
    }
}

/// Hands out the tiles of a batch of matrices to persistent blocks: of `n` blocks, block `i`
/// computes tiles `i`, `i + n`, .. in [`Raster`] order, one matrix after the other.
///
/// Every role of a block must go through the same tiles. They need no communication for that,
/// unless tiles are [drawn](TileScheduler::drawn) from a counter.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{Raster, TileScheduler};
///
/// type Params = (GlobalMut<i32>, i32, i32);
/// let kernel = Kernel::<Params>::build("order", Target::SM_80, |k, (x, rows, columns)| {
///     let tiles = TileScheduler::new(k, Raster::Swizzle { width: 2 }, [rows, columns, k.constant(1)]);
///     tiles.for_each(k, k.constant(0), |_, tile, count| {
///         x.store(tile.row * columns + tile.column, count);
///         count + 1
///     });
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.zeros::<i32>(12)?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x, 4, 3))?;
/// // The order of the tiles, written at their coordinates: two groups of rows, the second group from right to left.
/// assert_eq!(x.to_vec()?, [0, 2, 4, 1, 3, 5, 10, 8, 6, 11, 9, 7]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TileScheduler<'b> {
    raster: Raster,
    rows: Val<'b, i32>,
    columns: Val<'b, i32>,
    batch: Val<'b, i32>,
    first: Val<'b, i32>,
    step: Val<'b, i32>,
    /// The cluster's blocks along M and N, and this block's position among them.
    cluster: [u32; 2],
    place: Option<[Val<'b, i32>; 2]>,
    groups: Option<Groups<'b>>,
    /// The scheduler of drawn indices, and a role's share of it.
    draws: Option<DynamicScheduler<'b>>,
    work: Option<DynamicWork<'b>>,
}

impl<'b> TileScheduler<'b> {
    /// Makes the scheduler of this block, for `rows` x `columns` tiles in each of `batch` matrices.
    ///
    /// It is a build error if a swizzle width is 0.
    #[track_caller]
    #[inline]
    pub fn new(
        k: &Body<'b, '_>,
        raster: Raster,
        [rows, columns, batch]: [Val<'b, i32>; 3],
    ) -> Self {
        let checked = match raster {
            Raster::Swizzle { width } => count_of("rows in a strip", width, [1, i32::MAX as u32]),
            Raster::SwizzleAlongM { width } => {
                count_of("columns in a strip", width, [1, i32::MAX as u32])
            }
            Raster::AlongM | Raster::AlongN | Raster::Hilbert => Ok(()),
        };
        if let Err(kind) = checked {
            k.report(TensorError { operation: "TileScheduler", operand: raster.to_string(), kind });
        }
        let (first, step) = (k.block_idx().x, k.grid_dim().x);
        TileScheduler {
            raster,
            rows,
            columns,
            batch,
            first,
            step,
            cluster: [1, 1],
            place: None,
            groups: None,
            draws: None,
            work: None,
        }
    }

    /// Schedules clusters of `m` blocks along M by `n` along N, whose blocks take adjacent tiles:
    /// block `r` of a cluster gets row tile `r % m` and column tile `r / m` of the cluster's tiles.
    /// Use it if the blocks of a cluster share tiles by multicast loads.
    #[track_caller]
    pub fn clusters(self, [m, n]: [u32; 2]) -> Self {
        let blocks = m * n;
        if blocks == 1 {
            return self;
        }
        let (rank, zero) = (self.first % blocks, self.first.constant(0));
        let place = match [m, n] {
            [_, 1] => [rank, zero],
            [1, _] => [zero, rank],
            _ => [rank % m, rank / m],
        };
        TileScheduler {
            rows: (self.rows + (m - 1)) / m,
            columns: (self.columns + (n - 1)) / n,
            first: self.first / blocks,
            step: self.step / blocks,
            cluster: [m, n],
            place: Some(place),
            ..self
        }
    }

    /// Schedules groups of rows instead, with tiles of `size` rows and `columns` column tiles per
    /// group. The rows and the batch that you passed to [`new`](TileScheduler::new) are ignored.
    /// `None` changes nothing.
    ///
    /// Groups come one after the other, each in raster order. Only
    /// [`for_each`](TileScheduler::for_each) can go through them, and there are no clusters.
    #[track_caller]
    pub fn row_groups(self, groups: Option<RowGroups<'b>>, size: u32) -> Self {
        let k = &self.rows.body();
        let Some(groups) = groups else { return self };
        let groups = Groups::Rows(groups, k.constant(size.cast_signed()));
        TileScheduler { groups: Some(groups), ..self }
    }

    /// Schedules GEMMs of different sizes instead, with tiles of `tile` rows and columns. The tile
    /// counts that you passed to [`new`](TileScheduler::new) are ignored. `None` changes nothing.
    /// Only [`for_each`](TileScheduler::for_each) can go through them, and there are no clusters.
    /// Use it if the GEMMs of a launch differ in more than their row counts.
    #[track_caller]
    pub fn group_sizes(self, sizes: Option<GroupSizes<'b>>, tile: [u32; 2]) -> Self {
        let k = &self.rows.body();
        let Some(sizes) = sizes else { return self };
        let groups = Groups::Sizes(sizes, tile.map(|size| k.constant(size.cast_signed())));
        TileScheduler { groups: Some(groups), ..self }
    }

    /// Returns the first matrix row of a tile's row group. Add it to the tile's rows to get their
    /// place in the matrix. It is 0 if the scheduler has no [row
    /// groups](TileScheduler::row_groups).
    #[track_caller]
    #[inline]
    pub fn first_row(&self, tile: Tile<'b>) -> DeviceCoord<'b> {
        match self.groups {
            Some(Groups::Rows(groups, _)) => groups.range(tile.batch)[0].into(),
            Some(Groups::Sizes(..)) | None => DeviceCoord::Host(0),
        }
    }

    /// Hands out the tiles of groups dynamically, because their costs differ: block `i` starts with
    /// tile `i` and draws every further index from a counter when it is free.
    ///
    /// `draws` is the counter and the count of threads that consume its indices, in whole warps.
    /// The counter has two elements, which must be 0 before a launch and are 0 again after it.
    /// `None` changes nothing. Each role must then take [its own share](TileScheduler::of_role) and
    /// use [`for_each`](TileScheduler::for_each).
    ///
    /// It is a build error if there are no groups, if a
    /// [`DynamicScheduler`](super::DynamicScheduler) cannot have so many consumers, or if tiles are
    /// [split among groups of threads](TileScheduler::of_group).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::pipeline::{Raster, RowGroups, TileScheduler};
    ///
    /// // A thread draws tiles of 4 rows, and a warp counts their rows.
    /// type Params = (Global<i32>, GlobalMut<i32>, GlobalMut<u32>);
    /// let kernel = Kernel::<Params>::build("drawn", Target::SM_90, |k, (bounds, x, taken)| {
    ///     let (count, capacity, one) = (k.constant(4), k.constant(0), k.constant(1));
    ///     let groups = RowGroups { bounds, count, capacity };
    ///     let tiles = TileScheduler::new(k, Raster::AlongN, [one; 3]).row_groups(Some(groups), 4);
    ///     let (tiles, thread) = (tiles.drawn(Some((taken, 32))), k.thread_idx().x);
    ///     tiles.init(thread.eq(0));
    ///     k.barrier();
    ///     k.if_(thread.eq(32), |k| tiles.of_role(true).for_each(k, (), |_, _, ()| ()));
    ///     k.if_(thread.lt(32), |k| {
    ///         tiles.of_role(false).for_each(k, (), |_, tile, ()| {
    ///             let [start, end] = groups.range(tile.batch);
    ///             x.red().add(tile.batch, (end - start - tile.row * 4).min(4));
    ///         });
    ///     });
    /// })?;
    /// let device = Device::sim()?;
    /// let (bounds, mut x) = (device.upload(&[0, 7, 7, 8, 21])?, device.zeros::<i32>(4)?);
    /// let mut taken = device.zeros::<u32>(2)?;
    /// let function = device.load(&kernel)?;
    /// for launch in 1..3 {
    ///     function.launch(Grid::new([2, 1, 1], [64, 1, 1]), (&bounds, &mut x, &mut taken))?;
    ///     assert_eq!(x.to_vec()?, [7, 0, 1, 13].map(|rows| 32 * launch * rows));
    ///     assert_eq!(taken.to_vec()?, [0, 0]);
    /// }
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn drawn(self, draws: Option<(Val<'b, GlobalMut<u32>>, u32)>) -> Self {
        let k = &self.rows.body();
        let Some((taken, consumers)) = draws else { return self };
        if self.groups.is_none() {
            k.report(
                self.not_drawn("without groups the tile count is fixed: use `DynamicScheduler`"),
            );
        }
        // Only the groups tell how many items there are.
        let draws = DynamicScheduler::new(k, taken, k.constant(i32::MAX), consumers);
        TileScheduler { draws: Some(draws), ..self }
    }

    fn not_drawn(&self, why: &'static str) -> TensorError {
        let (operation, operand) = ("TileScheduler::drawn", self.raster.to_string());
        TensorError { operation, operand, kind: TensorErrorKind::DrawnTiles { why } }
    }

    /// Initialises the barriers through which a block's roles share tile indices that are
    /// [drawn](TileScheduler::drawn) from a counter, in the thread in which `elected` holds. Put a
    /// block barrier after it. If tiles are not drawn, there are no such barriers and it does
    /// nothing.
    #[track_caller]
    #[inline]
    pub fn init(&self, elected: Val<'b, bool>) {
        self.draws.inspect(|draws| draws.init(elected));
    }

    /// Returns a role's share of the scheduler, if tiles are [drawn](TileScheduler::drawn) from a
    /// counter: pass `true` in the thread that draws the indices, `false` in the warps that read
    /// them. Otherwise all roles have the same scheduler, and it changes nothing.
    #[track_caller]
    #[inline]
    pub fn of_role(self, is_producer: bool) -> Self {
        let of = |draws: DynamicScheduler<'b>| match is_producer {
            true => draws.producer(),
            false => draws.consumer(),
        };
        TileScheduler { work: self.draws.map(of), ..self }
    }

    /// Returns whether row `first` of a tile, and so every later row, is beyond the end of the
    /// tile's group, so that a consumer can skip the rows. It is `None` if there are no groups.
    #[track_caller]
    #[inline]
    pub fn is_behind(&self, tile: Tile<'b>, first: Val<'b, i32>) -> Option<Val<'b, bool>> {
        self.groups.map(|groups| match groups {
            Groups::Rows(groups, size) => {
                let [start, end] = groups.range(tile.batch);
                (end - start).le(tile.row * size + first)
            }
            Groups::Sizes(sizes, [size, _]) => sizes.of(tile.batch)[0].le(tile.row * size + first),
        })
    }

    /// Splits the block's tiles among `groups` groups of threads, as ping-pong consumers do: group
    /// `i` takes tiles `i`, `i + groups`, .. of the block. It is a build error if tiles are
    /// [drawn](TileScheduler::drawn).
    #[track_caller]
    #[inline]
    pub fn of_group(self, group: Val<'b, i32>, groups: u32) -> Self {
        if self.draws.is_some() {
            group.report(
                self.not_drawn("`of_group` hands out tiles that the counter hands out again"),
            );
        }
        let first = self.first + group * self.step;
        TileScheduler { first, step: self.step * groups, ..self }
    }

    /// Returns the block's rank in its cluster, or 0 without clusters. Use it to elect a block of
    /// the cluster.
    #[track_caller]
    pub fn rank(&self) -> Val<'b, i32> {
        let k = &self.rows.body();
        match (self.place, self.cluster) {
            (None, _) => k.constant(0),
            (Some([rank, _]), [_, 1]) | (Some([_, rank]), [1, _]) => rank,
            (Some([m, n]), [rows, _]) => n * rows + m,
        }
    }

    /// Returns the cluster's blocks along M, which need the same columns of B, and those along N,
    /// which need the same rows of A. Pass one of them to
    /// [`TmaCopy::load_rotated`](crate::tensor::copy::TmaCopy::load_rotated).
    #[track_caller]
    #[inline]
    pub fn peers(&self) -> [ClusterPeers<'b>; 2] {
        let k = &self.rows.body();
        let ([blocks_m, blocks_n], zero) = (self.cluster, k.constant(0));
        let [m, n] = self.place.unwrap_or([zero; 2]);
        let mask = |blocks: u32, step: u32, first: Val<'b, i32>, others: u32| {
            let mask = k.constant((0..blocks).map(|block| 1 << (block * step)).sum::<u32>());
            if others == 1 { mask } else { mask << first.cvt::<u32>() }
        };
        let along_m = mask(blocks_m, 1, n * blocks_m, blocks_n);
        let along_n = mask(blocks_n, blocks_m, m, blocks_m);
        [
            ClusterPeers { blocks: blocks_m, rank: m, ctas: along_m },
            ClusterPeers { blocks: blocks_n, rank: n, ctas: along_n },
        ]
    }

    /// Runs `body` for each of the block's tiles: the outer loop of a persistent kernel. It carries
    /// values from one tile to the next, for example the pipeline state, and returns the last ones.
    #[track_caller]
    pub fn for_each<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            Tile<'c>,
            <I::V as Values>::At<'c>,
        ) -> <I::V as Values>::At<'c>,
    ) -> <I::V as Values>::At<'b> {
        let Some(groups) = self.groups else {
            return self.numbers().for_each_item(k, init, |k, number, carried| {
                let tile = self.tile(number);
                body(k, tile, carried)
            });
        };
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let (columns, step, start) = (self.columns, self.step, RowGroup::before_all(k));
        let (count, at) = (groups.count(), groups.seek(k, start, self.first, columns));
        let (_, _, last) = k.while_(
            (self.first, at, init),
            |_, (_, at, _)| at.group.lt(count),
            |k, (number, at, carried)| {
                let extents = [at.rows, at.columns];
                let [row, column] = coordinate(k, self.raster, number - at.first, extents);
                let tile = Tile { row, column, batch: at.group };
                let Some(work) = self.work else {
                    let number = number + step;
                    let next = groups.seek(k, at, number, columns);
                    return (number, next, body(k, tile, carried));
                };
                // The counter answers while this tile's loads are in flight.
                let carried = body(k, tile, carried);
                let number = work.next(k, number);
                (number, groups.seek(k, at, number, columns), carried)
            },
        );
        self.work.inspect(|work| work.finish(k));
        last
    }

    /// Returns the walk over the tiles of groups, for a role that has work to do between a tile and
    /// the search for the next one; otherwise use [`for_each`](TileScheduler::for_each). It is
    /// `None` if there are no groups. Tiles must not be drawn from a counter.
    pub(crate) fn group_walk(&self) -> Option<GroupWalk<'b>> {
        self.groups.map(|groups| GroupWalk { tiles: *self, groups })
    }

    /// Returns the schedule of the tiles' indices, for a kernel that has work to do before it needs
    /// a tile's coordinates. There must be no groups.
    #[track_caller]
    pub(crate) fn numbers(&self) -> StaticScheduler<'b> {
        StaticScheduler::strided([self.first, self.step, self.rows * self.columns * self.batch])
    }

    /// Returns the tile with index `number` in raster order. Use it if you loop over the indices
    /// yourself instead of calling [`for_each`](TileScheduler::for_each).
    #[track_caller]
    #[inline]
    pub fn tile(&self, number: Val<'b, i32>) -> Tile<'b> {
        let k = &mut self.rows.body();
        let _call = k.call();
        let matrix = self.rows * self.columns;
        let batch = number / matrix;
        let [row, column] =
            coordinate(k, self.raster, number - batch * matrix, [self.rows, self.columns]);
        let Some([m, n]) = self.place else { return Tile { row, column, batch } };
        let of = |tile, blocks, place| if blocks == 1 { tile } else { tile * blocks + place };
        let [rows, columns] = self.cluster;
        Tile { row: of(row, rows, m), column: of(column, columns, n), batch }
    }
}

crate::values! {
    /// A tile of a [`GroupWalk`], or the end of the walk.
    pub(crate) struct GroupTile<'b> {
        pub(crate) tile: Tile<'b>,
        number: Val<'b, i32>,
        at: RowGroup<'b>,
    }
}

/// The block's tiles of groups, one after the other: see [`TileScheduler::group_walk`].
#[derive(Clone, Copy)]
pub(crate) struct GroupWalk<'b> {
    tiles: TileScheduler<'b>,
    groups: Groups<'b>,
}

impl<'b> GroupWalk<'b> {
    /// Returns the first tile.
    #[track_caller]
    #[inline]
    pub(crate) fn first(&self, k: &mut Body<'b, '_>) -> GroupTile<'b> {
        let start = RowGroup::before_all(k);
        self.seek(k, start, self.tiles.first)
    }

    /// Returns the tile after `tile`.
    #[track_caller]
    #[inline]
    pub(crate) fn next<'c>(&self, k: &mut Body<'c, '_>, tile: GroupTile<'c>) -> GroupTile<'c>
    where
        'b: 'c,
    {
        self.seek(k, tile.at, tile.number + self.tiles.step)
    }

    /// Returns whether this is a tile, and not the end.
    #[track_caller]
    #[inline]
    pub(crate) fn is_tile<'c>(&self, tile: GroupTile<'c>) -> Val<'c, bool>
    where
        'b: 'c,
    {
        tile.at.group.lt(self.groups.count())
    }

    #[inline]
    fn seek<'c>(
        &self,
        k: &mut Body<'c, '_>,
        from: RowGroup<'c>,
        number: Val<'c, i32>,
    ) -> GroupTile<'c>
    where
        'b: 'c,
    {
        let GroupWalk { tiles, groups }: GroupWalk<'c> = *self;
        let at = groups.seek(k, from, number, tiles.columns);
        // At the end, which has no tiles, nothing may divide by 0.
        let extents = [at.rows.max(1), at.columns.max(1)];
        let index = at.group.lt(groups.count()).select(number - at.first, k.constant(0));
        let [row, column] = coordinate(k, tiles.raster, index, extents);
        GroupTile { tile: Tile { row, column, batch: at.group }, number, at }
    }
}

/// Hands out the indices that [`TileScheduler::tile`] decodes.
impl<'b> WorkScheduler<'b> for TileScheduler<'b> {
    fn first(&self, _: &Body<'b, '_>) -> Val<'b, i32> {
        self.first
    }

    #[track_caller]
    fn is_item<'c>(&self, number: Val<'c, i32>) -> Val<'c, bool>
    where
        'b: 'c,
    {
        self.numbers().is_item(number)
    }

    #[track_caller]
    fn next<'c>(&self, k: &mut Body<'c, '_>, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        self.numbers().next(k, number)
    }
}

/// [`Raster::tile`] on the device.
#[track_caller]
#[inline]
fn coordinate<'b>(
    k: &mut Body<'b, '_>,
    raster: Raster,
    index: Val<'b, i32>,
    [rows, columns]: [Val<'b, i32>; 2],
) -> [Val<'b, i32>; 2] {
    let pair = |index: Val<'b, i32>, inner: Val<'b, i32>| {
        let outer = index / inner;
        [index - outer * inner, outer]
    };
    match raster {
        Raster::AlongM => pair(index, rows),
        Raster::AlongN => {
            let [column, row] = pair(index, columns);
            [row, column]
        }
        Raster::Swizzle { width } => strips(index, [rows, columns], width),
        Raster::SwizzleAlongM { width } => {
            let [column, row] = strips(index, [columns, rows], width);
            [row, column]
        }
        Raster::Hilbert => hilbert(k, index, [rows, columns]),
    }
}

#[inline]
fn strips<'b>(
    index: Val<'b, i32>,
    [rows, columns]: [Val<'b, i32>; 2],
    height: u32,
) -> [Val<'b, i32>; 2] {
    let width = columns * height;
    let strip = index / width;
    let inside = index - strip * width;
    let first = strip * height;
    let height = (rows - first).min(height);
    let along = inside / height;
    let column = (strip & 1).ne(0).select(columns - 1 - along, along);
    [first + (inside - along * height), column]
}

crate::values! {
    /// A rectangle that the Hilbert curve passes: its first tile, its axes, and the remaining steps
    /// in it.
    struct Rectangle<'b> {
        at: [Val<'b, i32>; 2],
        a: [Val<'b, i32>; 2],
        b: [Val<'b, i32>; 2],
        index: Val<'b, i32>,
    }
}

/// As on the host, cuts the rectangle that contains the tile until it is a line.
#[inline]
fn hilbert<'b>(
    k: &mut Body<'b, '_>,
    index: Val<'b, i32>,
    [rows, columns]: [Val<'b, i32>; 2],
) -> [Val<'b, i32>; 2] {
    type Pair<'v> = [Val<'v, i32>; 2];
    fn each<'v>(f: impl Fn(usize) -> Val<'v, i32>) -> Pair<'v> {
        [f(0), f(1)]
    }
    fn length<'v>(v: Pair<'v>) -> Val<'v, i32> {
        (v[0] + v[1]).abs()
    }
    // -1, 0 or 1.
    fn unit<'v>(v: Pair<'v>) -> Pair<'v> {
        each(|i| v[i].min(1).max(-1))
    }
    fn choose<'v>(c: Val<'v, bool>, x: Pair<'v>, y: Pair<'v>) -> Pair<'v> {
        each(|i| c.select(x[i], y[i]))
    }
    fn half<'v>(v: Pair<'v>) -> Pair<'v> {
        each(|i| v[i] / 2)
    }
    // Half of an axis, plus one if that is odd and the axis is long enough.
    #[inline]
    fn even_half<'v>(v: Pair<'v>) -> Pair<'v> {
        let part = half(v);
        let odd = (length(part) & 1).ne(0) & length(v).gt(2);
        let one = unit(v);
        each(|i| odd.select(part[i] + one[i], part[i]))
    }
    let zero = k.constant(0);
    let tall = rows.gt(columns);
    let (along, down) = ([zero, columns], [rows, zero]);
    let all = Rectangle {
        at: [zero, zero],
        a: choose(tall, down, along),
        b: choose(tall, along, down),
        index,
    };
    let line = k.while_(
        all,
        |_, r| length(r.a).ne(1) & length(r.b).ne(1),
        |_, Rectangle { at, a, b, index }| {
            let (width, height) = (length(a), length(b));
            let (a2, b2, even_a2) = (half(a), even_half(b), even_half(a));
            // Two parts along the long axis.
            let first = length(even_a2) * height;
            let is_first = index.lt(first);
            let rest: Pair<'_> = each(|i| a[i] - even_a2[i]);
            let cut = Rectangle {
                at: choose(is_first, at, each(|i| at[i] + even_a2[i])),
                a: choose(is_first, even_a2, rest),
                b,
                index: is_first.select(index, index - first),
            };
            // Three parts: up, along, down.
            let up = length(b2) * length(a2);
            let across = width * (height - length(b2));
            let (is_up, is_across) = (index.lt(up), index.lt(up + across));
            let (one_a, one_b) = (unit(a), unit(b));
            let start = each(|i| at[i] + (a[i] - one_a[i]) + (b2[i] - one_b[i]));
            let above = each(|i| at[i] + b2[i]);
            let rest_b = each(|i| b[i] - b2[i]);
            let back_b = each(|i| zero - b2[i]);
            let back_a = each(|i| a2[i] - a[i]);
            let turned = Rectangle {
                at: choose(is_up, at, choose(is_across, above, start)),
                a: choose(is_up, b2, choose(is_across, a, back_b)),
                b: choose(is_up, a2, choose(is_across, rest_b, back_a)),
                index: is_up.select(index, is_across.select(index - up, index - (up + across))),
            };
            let long = (width * 2).gt(height * 3);
            Rectangle {
                at: choose(long, cut.at, turned.at),
                a: choose(long, cut.a, turned.a),
                b: choose(long, cut.b, turned.b),
                index: long.select(cut.index, turned.index),
            }
        },
    );
    let step = choose(length(line.b).eq(1), unit(line.a), unit(line.b));
    each(|i| line.at[i] + step[i] * line.index)
}
