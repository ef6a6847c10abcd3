//! [`Splits`]: whether and how thread blocks divide tiles along K, and which parts each block gets.
//! Use it if D has too few tiles to fill the SMs.

use crate::ir::builder::{IntoValues, Values};
use crate::ir::types::Scalar;
use crate::ir::{Body, Val};
use crate::tensor::pipeline::{CpAsyncPipeline, GroupSizes, RowGroups, Tile, TileScheduler};

use crate::kernels::gemm::config::methods::Splits;
use crate::kernels::gemm::config::{GROUP, GemmConfig};
use crate::kernels::gemm::split::SplitArgs;

/// The groups of a grouped GEMM, or the sizes of a ragged one.
type Groups<'b> = (Option<RowGroups<'b>>, Option<GroupSizes<'b>>);

/// The parts of tiles that a thread block computes, and in which order.
#[derive(Clone, Copy)]
pub(crate) struct WorkTiles<'b> {
    /// The tiles. With split-K, the parts are scheduled like further matrices of the batch.
    pub(crate) tiles: TileScheduler<'b>,
    pub(crate) splits: Splits,
    /// Row tiles, column tiles and matrices.
    extents: [Val<'b, i32>; 3],
    /// Steps along K per tile.
    steps: Val<'b, i32>,
    /// The sizes of a ragged GEMM, and the columns of A per step.
    sizes: Option<(GroupSizes<'b>, Val<'b, i32>)>,
    /// The cluster's blocks along M and N.
    cluster: [u32; 2],
    /// The accumulator type.
    pub(crate) acc: Scalar,
}

/// A part of a tile.
#[derive(Clone, Copy)]
pub(crate) struct WorkTile<'b> {
    pub(crate) tile: Tile<'b>,
    /// The first step along K, and the end.
    pub(crate) first: Val<'b, i32>,
    pub(crate) end: Val<'b, i32>,
    /// With split-K, the part's index in its tile. With stream-K, the tile's index.
    number: Val<'b, i32>,
}

/// Where the parts of a tile are in the workspace, in the order of K. The last block to arrive
/// reads them there.
pub(crate) struct Slots<'b> {
    /// The tile's index.
    pub(crate) tile: Val<'b, i32>,
    /// The first part's slot.
    pub(crate) first: Val<'b, i32>,
    /// The distance from one part's slot to the next.
    pub(crate) step: u32,
    /// This part's index, and how many parts there are.
    pub(crate) number: Val<'b, i32>,
    pub(crate) count: Val<'b, i32>,
    /// Whether the first part is usually ready long after the others.
    pub(crate) first_is_late: bool,
}

/// How stream-K divides the steps into runs.
#[derive(Clone, Copy)]
struct Runs<'b> {
    block: Val<'b, i32>,
    blocks: Val<'b, i32>,
    /// All tiles, and those that are shared.
    tiles: Val<'b, i32>,
    shared: Val<'b, i32>,
    /// Steps per run.
    len: Val<'b, i32>,
}

impl<'b> WorkTile<'b> {
    /// Returns the steps along K.
    #[inline]
    pub(crate) fn steps(self) -> Val<'b, i32> {
        self.end - self.first
    }
}

impl<'b> WorkTiles<'b> {
    /// Returns the parts of `extents` (row tiles, column tiles, matrices) with `steps` steps per
    /// tile, or those of a grouped or ragged GEMM.
    #[inline]
    pub(crate) fn new(
        k: &Body<'b, '_>,
        config: &GemmConfig,
        extents: [Val<'b, i32>; 3],
        groups: Groups<'b>,
        steps: Val<'b, i32>,
        split: Option<&SplitArgs<'b>>,
    ) -> Self {
        let GemmConfig { acc, splits, cluster, raster, tile: [m, n, depth], .. } = *config;
        let [rows, columns, batch] = extents;
        let tiles = TileScheduler::new(k, raster, [rows, columns, batch * splits.even()]);
        let (groups, sizes) = groups;
        let tiles = tiles.clusters(cluster).row_groups(groups, m).group_sizes(sizes, [m, n]);
        let sizes = sizes.map(|sizes| (sizes, k.constant(depth.cast_signed())));
        let draws = split.filter(|_| config.draws_tiles());
        let tiles = tiles.drawn(draws.map(|split| (split.arrivals, GROUP * config.consumers())));
        WorkTiles { tiles, splits, extents, steps, sizes, cluster, acc }
    }

    /// The same parts, for one of a block's roles: see [`TileScheduler::of_role`].
    #[inline]
    pub(crate) fn of_role(self, is_producer: bool) -> Self {
        WorkTiles { tiles: self.tiles.of_role(is_producer), ..self }
    }

    /// Runs `body` for each part of a block without roles: the part with the block's index, or with
    /// stream-K those of its run and its whole tiles.
    pub(crate) fn for_each_of_block(
        &self,
        k: &mut Body<'b, '_>,
        body: impl for<'c> FnOnce(&mut Body<'c, 'b>, WorkTile<'c>),
    ) {
        if self.splits == Splits::StreamK {
            return self.for_each_of_runs(k, (), |k, part, ()| body(k, part));
        }
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let block = k.block_idx().x;
        let tile = self.tiles.tile(block);
        let part = self.of_tile(k, tile);
        body(&mut k.rescoped(), part);
    }

    /// Drains the ring buffer after a part, if the block may get another one.
    #[inline]
    pub(crate) fn leave(&self, k: &Body<'_, '_>, ring: CpAsyncPipeline) {
        if self.splits == Splits::StreamK {
            ring.drain(k);
        }
    }

    /// Returns the part for a tile of the scheduler.
    #[inline]
    fn of_tile<'c>(&self, k: &Body<'c, '_>, tile: Tile<'c>) -> WorkTile<'c>
    where
        'b: 'c,
    {
        let (splits, zero) = (self.splits.even(), k.constant(0));
        if let Some((sizes, depth)) = self.sizes {
            let [_, _, columns] = sizes.of(tile.batch);
            let end = (columns + (depth - 1)) / depth;
            return WorkTile { tile, first: zero, end, number: zero };
        }
        if splits == 1 {
            return WorkTile { tile, first: zero, end: self.steps, number: zero };
        }
        let batch = tile.batch / splits;
        let number = tile.batch - batch * splits;
        let each = (self.steps + (splits - 1)) / splits;
        let first = number * each;
        WorkTile {
            tile: Tile { batch, ..tile },
            first,
            end: (first + each).min(self.steps),
            number,
        }
    }

    /// Runs `body` for each part. Carries values from one part to the next, and returns the last
    /// ones.
    pub(crate) fn for_each<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            WorkTile<'c>,
            <I::V as Values>::At<'c>,
        ) -> <I::V as Values>::At<'c>,
    ) -> <I::V as Values>::At<'b> {
        if self.splits == Splits::StreamK {
            return self.for_each_of_runs(k, init, body);
        }
        self.tiles.for_each(k, init, |k, tile, carried| {
            let part = self.of_tile(k, tile);
            body(k, part, carried)
        })
    }

    /// Stream-K: runs `body` for the block's run, then for its whole tiles.
    fn for_each_of_runs<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            WorkTile<'c>,
            <I::V as Values>::At<'c>,
        ) -> <I::V as Values>::At<'c>,
    ) -> <I::V as Values>::At<'b> {
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let (runs, steps) = (self.runs(k), self.steps);
        let start = runs.block * runs.len;
        let left = (runs.shared * steps - start).min(runs.len).max(0);
        let tile = left.gt(0).select(start / steps, runs.shared + runs.block);
        let first = left.gt(0).select(start - tile * steps, 0);
        let (_, _, _, last) = k.while_(
            (tile, first, left, init),
            |_, (number, ..)| number.lt(runs.tiles),
            |k, (number, first, left, carried)| {
                let is_shared = left.gt(0);
                let end = is_shared.select((first + left).min(steps), steps);
                let part = WorkTile { tile: self.tiles.tile(number), first, end, number };
                let carried = body(k, part, carried);
                let left = (left - part.steps()).max(0);
                let whole = is_shared.select(runs.shared + runs.block, number + runs.blocks);
                (left.gt(0).select(number + 1, whole), k.constant(0), left, carried)
            },
        );
        last
    }

    #[inline]
    fn runs<'c>(&self, k: &Body<'c, '_>) -> Runs<'c>
    where
        'b: 'c,
    {
        let [rows, columns, batch] = self.extents;
        let [m, n] = self.cluster;
        let tiles = (rows + (m - 1)) / m * ((columns + (n - 1)) / n) * batch;
        let (block, blocks) = (k.block_idx().x / (m * n), k.grid_dim().x / (m * n));
        let rest = tiles % blocks;
        let shared = (rest.gt(0) & tiles.gt(blocks)).select(rest + blocks, rest);
        let len = (shared * self.steps + (blocks - 1)) / blocks;
        Runs { block, blocks, tiles, shared, len }
    }

    /// Returns whether a part is less than its tile, or `None` if every part is.
    #[inline]
    pub(crate) fn is_partial<'c>(&self, part: WorkTile<'c>) -> Option<Val<'c, bool>>
    where
        'b: 'c,
    {
        (self.splits == Splits::StreamK).then(|| part.steps().lt(self.steps))
    }

    /// Returns the slots of a part's tile. `even` is the parts per tile with split-K.
    ///
    /// With stream-K, a part's slot is the block's index plus the tile's index. From one part to
    /// the next at least one of both increases, so no two parts share a slot.
    #[inline]
    pub(crate) fn slots<'c>(
        &self,
        k: &Body<'c, '_>,
        part: WorkTile<'c>,
        even: Val<'c, i32>,
    ) -> Slots<'c>
    where
        'b: 'c,
    {
        let ([rows, columns, _], Tile { row, column, batch }) = (self.extents, part.tile);
        // A cluster at the last tile along M or N also has tiles beyond it.
        let ([m, n], cluster) = (self.cluster, self.cluster[0] * self.cluster[1]);
        let tile = (batch * (columns + (n - 1)) + column) * (rows + (m - 1)) + row;
        match self.splits {
            Splits::SplitK(_) => {
                let parts = self.splits.even();
                let (first, number) = (tile * parts, part.number);
                Slots { tile, first, step: 1, number, count: even, first_is_late: false }
            }
            Splits::StreamK => {
                let (runs, start) = (self.runs(k), part.number * self.steps);
                let block = start / runs.len;
                let last = (start + (self.steps - 1)) / runs.len;
                Slots {
                    tile,
                    first: (block + part.number) * cluster + self.tiles.rank(),
                    step: cluster,
                    number: runs.block - block,
                    count: last - block + 1,
                    first_is_late: true,
                }
            }
        }
    }
}
