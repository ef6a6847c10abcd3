//! [`Splits`]: the parts of tiles along K that a thread block takes.

use crate::ir::builder::{IntoValues, Values};
use crate::ir::types::Scalar;
use crate::ir::{Body, Val};
use crate::tensor::{CpAsyncPipeline, GroupSizes, RowGroups, Tile, TileScheduler};

use crate::kernels::gemm::config::{GROUP, GemmConfig};
use crate::kernels::gemm::split::SplitArgs;

/// The division of the steps along K among thread blocks, for every schedule but [`Schedule::Pingpong`](crate::kernels::gemm::Schedule). Blocks
/// that share a tile sum their parts in the order of K, so results do not change from run to run.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Splits};
///
/// let config = GemmConfig { splits: Splits::Stream, ..GemmConfig::sm90(Scalar::Bf16, [128, 256]) };
/// assert!(config.to_string().contains("_coop_streamk_"));
/// // 150 tiles are 1.14 waves of 132 SMs: thread blocks share the 64 steps of all of them.
/// let problem = GemmProblem::new(1920, 2560, 4096);
/// let [rows, columns, steps] = config.tiles(&problem);
/// assert_eq!((rows * columns, steps, config.grid(&problem, 132).blocks[0]), (150, 64, 132));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Splits {
    /// Split-K: each tile has this many parts, with equal numbers of steps but for the last one. With 1, a thread block has
    /// all steps of a tile.
    Even(u32),
    /// Stream-K ([Osama et al. 2023](https://arxiv.org/abs/2301.03598)): with `t` tiles of `s` steps for `b` thread blocks,
    /// `t % b` tiles and, where `t > b`, `b` more are shared. Each block has a run of `ceil(shared s / b)` of their steps,
    /// which is the end of one tile and the start of another one. Then it takes whole tiles, as many as the others.
    Stream,
}

impl Splits {
    /// The steps of the smallest run for which there is a thread block, if a device has one.
    const MIN_RUN: u64 = 4;

    /// Returns whether thread blocks share tiles.
    pub const fn is_split(self) -> bool {
        !matches!(self, Splits::Even(0 | 1))
    }

    /// The parts of each tile; 1 where their number differs from tile to tile.
    pub(crate) const fn even(self) -> u32 {
        match self {
            Splits::Even(0) | Splits::Stream => 1,
            Splits::Even(parts) => parts,
        }
    }

    /// The thread blocks, or clusters, that stay and take parts of `tiles` tiles with `steps` steps each, where a device
    /// runs `max` at once.
    #[inline]
    pub(crate) fn blocks(self, tiles: u64, steps: u64, max: u64) -> u64 {
        let max = max.max(1);
        match self {
            Splits::Even(parts) => tiles.saturating_mul(parts.max(1).into()).min(max),
            Splits::Stream => (tiles.saturating_mul(steps) / Self::MIN_RUN).max(tiles).min(max),
        }
    }

    /// The tiles that `blocks` thread blocks share by stream-K, of `tiles`.
    pub(crate) const fn shared(tiles: u64, blocks: u64) -> u64 {
        let rest = tiles % blocks;
        if rest > 0 && tiles > blocks { rest + blocks } else { rest }
    }
}

/// Groups of rows, or products of different sizes.
type Groups<'b> = (Option<RowGroups<'b>>, Option<GroupSizes<'b>>);

/// The parts of tiles that a thread block takes.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'b> {
    /// The tiles. The parts of equal splits count as tiles of more matrices.
    pub(crate) tiles: TileScheduler<'b>,
    pub(crate) splits: Splits,
    /// Row tiles, column tiles and matrices.
    extents: [Val<'b, i32>; 3],
    /// Steps along K of a tile.
    steps: Val<'b, i32>,
    /// Products of different sizes, and the columns of a step.
    sizes: Option<(GroupSizes<'b>, Val<'b, i32>)>,
    /// Blocks of a cluster along M and N.
    cluster: [u32; 2],
    /// The type of accumulators.
    pub(crate) acc: Scalar,
}

/// A part of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Part<'b> {
    pub(crate) tile: Tile<'b>,
    /// The first step along K, and the end.
    pub(crate) first: Val<'b, i32>,
    pub(crate) end: Val<'b, i32>,
    /// The number of the part in its tile; by stream-K, that of the tile.
    number: Val<'b, i32>,
}

/// The parts of a tile in the workspace, in the order of K.
pub(crate) struct Slots<'b> {
    /// The number of the tile.
    pub(crate) tile: Val<'b, i32>,
    /// The slot of the first part.
    pub(crate) first: Val<'b, i32>,
    /// The slots from one part to the next.
    pub(crate) step: u32,
    /// The number of this part, and the number of parts.
    pub(crate) number: Val<'b, i32>,
    pub(crate) count: Val<'b, i32>,
    /// The first part is ready long after the others.
    pub(crate) first_is_late: bool,
}

/// The runs of steps of stream-K.
#[derive(Clone, Copy)]
struct Runs<'b> {
    block: Val<'b, i32>,
    blocks: Val<'b, i32>,
    /// All tiles, and the shared ones.
    tiles: Val<'b, i32>,
    shared: Val<'b, i32>,
    /// The steps of a run.
    len: Val<'b, i32>,
}

impl<'b> Part<'b> {
    /// The steps along K.
    #[inline]
    pub(crate) fn steps(self) -> Val<'b, i32> {
        self.end - self.first
    }
}

impl<'b> Parts<'b> {
    /// The parts of `[row tiles, column tiles, matrices]`, or of the tiles of groups of rows, each tile with `steps` steps; or of
    /// products of different sizes.
    #[inline]
    pub(crate) fn new(
        k: &Body<'b, '_>,
        config: &GemmConfig,
        (extents, groups): ([Val<'b, i32>; 3], Groups<'b>),
        steps: Val<'b, i32>,
        split: Option<&SplitArgs<'b>>,
    ) -> Self {
        let GemmConfig { acc, splits, cluster, raster, tile: [m, n, depth], .. } = *config;
        let [rows, columns, batch] = extents;
        let tiles = TileScheduler::new(k, raster, [rows, columns, batch * splits.even()]);
        let (groups, sizes) = groups;
        let tiles = tiles.clusters(cluster).row_groups(k, groups, m).group_sizes(k, sizes, [m, n]);
        let sizes = sizes.map(|sizes| (sizes, k.constant(depth.cast_signed())));
        let draws = split.filter(|_| config.draws_tiles());
        let tiles = tiles.drawn(k, draws.map(|split| (split.arrivals, GROUP * config.consumers())));
        Parts { tiles, splits, extents, steps, sizes, cluster, acc }
    }

    /// The same for a role: see [`TileScheduler::of_role`].
    #[inline]
    pub(crate) fn of_role(self, k: &Body<'b, '_>, is_producer: bool) -> Self {
        Parts { tiles: self.tiles.of_role(k, is_producer), ..self }
    }

    /// Runs `body` for each part of a thread block without roles: the one with its number, or, by stream-K, those of its run
    /// and whole tiles.
    pub(crate) fn for_each_of_block(
        &self,
        k: &mut Body<'b, '_>,
        body: impl for<'c> FnOnce(&mut Body<'c, 'b>, Part<'c>),
    ) {
        if self.splits == Splits::Stream {
            return self.for_each_of_runs(k, (), |k, part, ()| body(k, part));
        }
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let block = k.block_idx().x;
        let tile = self.tiles.tile(k, block);
        let part = self.of_tile(k, tile);
        body(&mut k.rescoped(), part);
    }

    /// Frees the ring of a part for the next one, if a thread block without roles may have several.
    #[inline]
    pub(crate) fn leave(&self, k: &Body<'_, '_>, ring: CpAsyncPipeline) {
        if self.splits == Splits::Stream {
            ring.drain(k);
        }
    }

    /// Returns the part for a tile of the scheduler.
    #[inline]
    fn of_tile<'c>(&self, k: &Body<'c, '_>, tile: Tile<'c>) -> Part<'c>
    where
        'b: 'c,
    {
        let (splits, zero) = (self.splits.even(), k.constant(0));
        if let Some((sizes, depth)) = self.sizes {
            let [_, _, columns] = sizes.of(k, tile.batch);
            let end = (columns + (depth - 1)) / depth;
            return Part { tile, first: zero, end, number: zero };
        }
        if splits == 1 {
            return Part { tile, first: zero, end: self.steps, number: zero };
        }
        let batch = tile.batch / splits;
        let number = tile.batch - batch * splits;
        let each = (self.steps + (splits - 1)) / splits;
        let first = number * each;
        Part { tile: Tile { batch, ..tile }, first, end: (first + each).min(self.steps), number }
    }

    /// Runs `body` for each part, with values that are carried from one to the next; returns the last ones.
    pub(crate) fn for_each<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            Part<'c>,
            <I::V as Values>::At<'c>,
        ) -> <I::V as Values>::At<'c>,
    ) -> <I::V as Values>::At<'b> {
        if self.splits == Splits::Stream {
            return self.for_each_of_runs(k, init, body);
        }
        self.tiles.for_each(k, init, |k, tile, carried| {
            let part = self.of_tile(k, tile);
            body(k, part, carried)
        })
    }

    /// The run of the thread block, then its whole tiles.
    fn for_each_of_runs<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            Part<'c>,
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
                let part = Part { tile: self.tiles.tile(k, number), first, end, number };
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

    /// Returns whether a part is less than its tile; `None` where all parts are.
    #[inline]
    pub(crate) fn is_partial<'c>(&self, part: Part<'c>) -> Option<Val<'c, bool>>
    where
        'b: 'c,
    {
        (self.splits == Splits::Stream).then(|| part.steps().lt(self.steps))
    }

    /// The slots of the parts of a tile; `even` are the parts of each tile of equal splits.
    ///
    /// By stream-K, the slot of a part is the sum of the numbers of its thread block and of its tile. From one part to the
    /// next, one of both increases at least, so no two parts have one slot.
    #[inline]
    pub(crate) fn slots<'c>(
        &self,
        k: &Body<'c, '_>,
        part: Part<'c>,
        even: Val<'c, i32>,
    ) -> Slots<'c>
    where
        'b: 'c,
    {
        let ([rows, columns, _], Tile { row, column, batch }) = (self.extents, part.tile);
        // A cluster beyond the last tile along M or N has tiles there, too.
        let ([m, n], cluster) = (self.cluster, self.cluster[0] * self.cluster[1]);
        let tile = (batch * (columns + (n - 1)) + column) * (rows + (m - 1)) + row;
        match self.splits {
            Splits::Even(_) => {
                let parts = self.splits.even();
                let (first, number) = (tile * parts, part.number);
                Slots { tile, first, step: 1, number, count: even, first_is_late: false }
            }
            Splits::Stream => {
                let (runs, start) = (self.runs(k), part.number * self.steps);
                let block = start / runs.len;
                let last = (start + (self.steps - 1)) / runs.len;
                Slots {
                    tile,
                    first: (block + part.number) * cluster + self.tiles.rank(k),
                    step: cluster,
                    number: runs.block - block,
                    count: last - block + 1,
                    first_is_late: true,
                }
            }
        }
    }
}
