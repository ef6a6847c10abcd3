//! [`Consumer`]: a warp group that multiplies 64 rows at a time with four `wgmma`, waits for them,
//! and adds the scaled sums to its accumulators. While one consumer scales, the tensor cores work
//! for the other one.
//!
//! The first `wgmma` of a tile do not touch the accumulators. So a consumer stores the previous
//! tile while they run.

use crate::ir::builder::{DeviceCoord, IntoVal};
use crate::ir::{Body, Registers, Val, WARP, range};
use crate::layout::{shape, tiler};
use crate::tensor::copy::ThrStore;
use crate::tensor::mma::SmemOperand;
use crate::tensor::pipeline::{
    GroupTile, GroupWalk, PipelineState, Tile, TileScheduler, TmaPipeline, WorkScheduler,
};
use crate::tensor::view::{RegisterTensor, SharedTensor};

use super::columns::ColumnScales;
use super::config::{GROUP, ROWS, ScaledGemmConfig};
use super::kernel::{A, B, D, Plan, Sizes, inside};
use super::problem::BLOCK;

/// The lanes that share a row of `wgmma`'s accumulators.
const QUAD: i32 = 4;

/// The ring buffers that the producer's warps fill.
pub(super) struct Rings<'s, 'b> {
    pub(super) pipe: TmaPipeline<'b>,
    pub(super) a: &'s SharedTensor<'b, A>,
    pub(super) b: &'s SharedTensor<'b, B>,
    /// B's scales, if each column has its own.
    pub(super) columns: Option<ColumnScales<'b>>,
}

/// A consumer warp group.
pub(super) struct Consumer<'p, 'a, 'b> {
    plan: &'p Plan,
    sizes: &'p Sizes<'a>,
    tiles: TileScheduler<'b>,
    group: Val<'b, i32>,
    pipe: TmaPipeline<'b>,
    leader: Val<'b, bool>,
    /// The ring of A for each block of rows, and the ring of B.
    a: Vec<SmemOperand<'b>>,
    b: SmemOperand<'b>,
    columns: Option<ColumnScales<'b>>,
    /// The scaled sums of each block of rows.
    acc: Vec<RegisterTensor<'b, f32>>,
    /// The products of one step and one block of rows.
    partial: RegisterTensor<'b, f32>,
    scales: Scales<'b>,
    store: ThrStore<'p, 'b, D>,
}

crate::values! {
    /// A tile that a consumer has found ahead of its work.
    struct NextTile<'b> {
        tile: GroupTile<'b>,
        /// Whether all of the consumer's rows lie past the end of the tile's group.
        is_past_end: Val<'b, bool>,
    }
}

/// Where a thread finds the scales of a tile: the indices at the first step. A block of 64 rows
/// has two rows of a thread.
struct ScaleIndices<'b> {
    a: Vec<Val<'b, i32>>,
    b: Vec<Val<'b, i32>>,
    /// The tile's first column in its block of 128.
    offset: Val<'b, i32>,
}

/// A thread's scales. The four lanes of a quad need the same rows, so each lane loads a different
/// one of four steps, and they exchange the scales with shuffles.
#[derive(Clone, Copy)]
struct Scales<'b> {
    /// The scales of one of the four steps around the current one: A's, then B's.
    now: Registers<'b, f32>,
    /// Those of one of the four steps after them.
    next: Registers<'b, f32>,
    /// A's scales times those of B, computed one step ahead, for each block of 128 columns. With
    /// [`BScaleBlock::Row128`](super::BScaleBlock::Row128), A's scales.
    products: Registers<'b, f32>,
}

impl<'a: 'b, 'b> Consumer<'_, 'a, 'b> {
    #[inline]
    pub(super) fn new<'p>(
        k: &Body<'b, '_>,
        plan: &'p Plan,
        sizes: &'p Sizes<'a>,
        tiles: TileScheduler<'b>,
        group: Val<'b, i32>,
        rings: Rings<'_, 'b>,
        store: ThrStore<'p, 'b, D>,
    ) -> Consumer<'p, 'a, 'b> {
        let Plan { config, mma, .. } = plan;
        let ScaledGemmConfig { tile: [_, columns, depth], stages, .. } = *config;
        let (rows, thread) = (ROWS * config.consumers(), k.thread_idx().x);
        let thr = mma.slice(thread - GROUP);
        let a = (0..config.blocks()).map(|block| {
            let ring = rings.a.local_tile(&tiler!(rows, depth, stages), (block, 0, 0));
            SmemOperand::new(&thr.partition_a(&ring))
        });
        let registers = || mma.slice(0).fragment_c::<f32>(k, shape!(rows, columns));
        let acc: Vec<_> = (0..config.blocks()).map(|_| registers()).collect();
        // The verifier cannot see that no tile is stored before the first one is computed.
        acc.iter().for_each(|acc| acc.fill(0.0));
        let (of_a, of_b) = (2 * config.blocks(), plan.column_blocks());
        let scales = Scales {
            now: k.registers(of_a + of_b),
            next: k.registers(of_a + of_b),
            products: k.registers(of_a * of_b.max(1)),
        };
        // The verifier cannot see that the first step of a tile loads them.
        scales.next.fill(0.0);
        Consumer {
            plan,
            sizes,
            tiles,
            group,
            pipe: rings.pipe,
            leader: (thread % GROUP).eq(0),
            a: a.collect(),
            b: SmemOperand::new(&thr.partition_b(rings.b)),
            columns: rings.columns,
            acc,
            partial: registers(),
            scales,
            store,
        }
    }

    /// Computes and stores all tiles.
    #[inline]
    pub(super) fn consume(&self, k: &mut Body<'b, '_>) {
        let last = self.multiply_all(k);
        (0..self.plan.config.blocks()).for_each(|block| self.store(k, last, block));
        self.store.finish();
    }

    /// Computes all tiles, and returns the last one, which is not stored yet.
    #[inline]
    fn multiply_all(&self, k: &mut Body<'b, '_>) -> Tile<'b> {
        let none = Tile { row: k.constant(-1), column: k.constant(0), batch: k.constant(0) };
        let start = (self.pipe.consumer(), none);
        if let Some(walk) = self.tiles.group_walk() {
            return self.consume_groups(k, walk, start);
        }
        let tiles = self.tiles;
        let (_, last) = tiles.numbers().for_each_item(k, start, |k, number, carried| {
            let (state, previous) = carried;
            let (state, tile, ()) = self.multiply(k, |_| (tiles.tile(number), ()), state, previous);
            (state, tile)
        });
        last
    }

    /// Computes the tiles of groups. It searches for a tile's successor while the tensor cores
    /// work. If all rows of the consumer are behind the end of a tile's group, it only releases the
    /// stages.
    #[inline]
    fn consume_groups(
        &self,
        k: &mut Body<'b, '_>,
        walk: GroupWalk<'b>,
        start: (PipelineState<'b>, Tile<'b>),
    ) -> Tile<'b> {
        let first = walk.first(k);
        let first = self.look_at(k, walk, first);
        let (_, (_, last)) = k.while_(
            (first, start),
            |_, (ahead, _)| walk.is_tile(ahead.tile),
            |k, (NextTile { tile, is_past_end }, (state, previous))| {
                k.if_else(
                    is_past_end,
                    |k| {
                        let state = self.skip(k, state);
                        let next = walk.next(k, tile);
                        let next = self.look_at(k, walk, next);
                        k.yield_((next, (state, previous)))
                    },
                    |k| {
                        let (state, tile, next) = self.multiply(
                            k,
                            |k| {
                                let next = walk.next(k, tile);
                                (tile.tile, self.look_at(k, walk, next))
                            },
                            state,
                            previous,
                        );
                        k.yield_((next, (state, tile)))
                    },
                )
            },
        );
        last
    }

    /// Finds out whether the consumer has rows in a tile.
    #[inline]
    fn look_at<'c>(
        &self,
        k: &mut Body<'c, '_>,
        walk: GroupWalk<'b>,
        tile: GroupTile<'c>,
    ) -> NextTile<'c>
    where
        'b: 'c,
    {
        let is_past_end = k.if_with(walk.is_tile(tile), false, |k| {
            let (tiles, group): (TileScheduler<'_>, Val<'_, i32>) = (self.tiles, self.group);
            let is_past_end = tiles.is_behind(tile.tile, group * ROWS);
            is_past_end.unwrap_or_else(|| k.constant(false))
        });
        NextTile { tile, is_past_end }
    }

    /// Waits for the stages of a tile and releases them. Returns the state after it.
    #[inline]
    fn skip<'c>(&self, k: &mut Body<'c, '_>, state: PipelineState<'c>) -> PipelineState<'c>
    where
        'b: 'c,
    {
        k.for_(range(0, self.sizes.steps), state, |k, _, state| {
            self.pipe.wait(state);
            // Otherwise the stage could be filled again while a warp still waits for it.
            self.store.barrier().sync();
            k.if_(self.leader, |_| self.pipe.release(state));
            if let Some(columns) = &self.columns {
                columns.skip(k, state);
            }
            state.next()
        })
    }

    /// Computes a tile, and stores the previous one meanwhile. Calls `look`, which returns the
    /// tile, while the first MMAs run. Returns the state after the tile, and what `look` returned.
    #[inline]
    fn multiply<'c, L>(
        &self,
        k: &mut Body<'c, '_>,
        look: impl FnOnce(&mut Body<'c, '_>) -> (Tile<'c>, L),
        state: PipelineState<'c>,
        previous: Tile<'c>,
    ) -> (PipelineState<'c>, Tile<'c>, L)
    where
        'b: 'c,
    {
        let blocks = self.plan.config.blocks();
        // The MMAs need only the stage, so the tile's position is computed while they run. The
        // second wait returns at once; it stops `ptxas` from hoisting that work above the MMAs.
        self.start(k, state, 0);
        self.pipe.wait(state);
        let (tile, seen) = look(k);
        let at = self.scale_indices(k, tile);
        self.load(k, &at, 0, self.scales.now);
        self.store(k, previous, 0);
        self.multiply_scales(k, k.constant(0));
        let factors = self.prepare(k, &at, k.constant(0));
        let columns = self.take_columns(k, state);
        for block in 0..blocks {
            if block > 0 {
                self.start(k, state, block);
                self.store(k, previous, block);
            }
            self.wait(k, state, block);
            self.scale(block, &factors, &columns, |factor, product, _| product * factor);
        }
        let state = k.for_(range(1, self.sizes.steps), state.next(), |k, step, state| {
            self.start(k, state, 0);
            let factors = self.prepare(k, &at, step);
            let columns = self.take_columns(k, state);
            for block in 0..blocks {
                if block > 0 {
                    self.start(k, state, block);
                }
                self.wait(k, state, block);
                self.scale(block, &factors, &columns, |factor, product, sum| {
                    product.fma(factor, sum)
                });
            }
            state.next()
        });
        (state, tile, seen)
    }

    /// Starts the MMAs of a stage and a block of rows. The first block waits for the stage.
    #[inline]
    fn start<'c>(&self, k: &mut Body<'c, '_>, state: PipelineState<'c>, block: u32)
    where
        'b: 'c,
    {
        if block == 0 {
            self.pipe.wait(state);
        }
        let a = self.a[block as usize].stage(state.stage);
        let b = self.b.stage(state.stage);
        k.wgmma_fence();
        self.plan.mma.gemm_async(&self.partial, &a, &b, false);
        k.wgmma_commit_group();
    }

    /// Waits for the MMAs of a block of rows. The last block releases the stage.
    #[inline]
    fn wait<'c>(&self, k: &mut Body<'c, '_>, state: PipelineState<'c>, block: u32)
    where
        'b: 'c,
    {
        k.wgmma_wait_group(0);
        if block + 1 == self.plan.config.blocks() {
            k.if_(self.leader, |_| self.pipe.release(state));
        }
    }

    /// Returns the stage's scales of B, if each column has its own.
    #[inline]
    fn take_columns<'c>(
        &self,
        k: &mut Body<'c, '_>,
        state: PipelineState<'c>,
    ) -> Option<Vec<Val<'c, f32>>>
    where
        'b: 'c,
    {
        let columns = self.columns?;
        Some(columns.take(k, state))
    }

    /// Replaces the accumulators of a block of rows by `sum(factor, product, accumulator)`, with
    /// the products multiplied by their columns' scales, if those have some.
    #[inline]
    fn scale<'c>(
        &self,
        block: u32,
        factors: &[Vec<Val<'c, f32>>],
        columns: &Option<Vec<Val<'c, f32>>>,
        sum: impl Fn(Val<'c, f32>, Val<'c, f32>, Val<'c, f32>) -> Val<'c, f32>,
    ) where
        'b: 'c,
    {
        let (acc, partial) = (self.acc[block as usize].variables(), self.partial.variables());
        for i in 0..acc.len() {
            // In 8 columns of `wgmma`'s accumulators, a thread has two columns of two rows.
            let group = &factors[(i / 4 * 8 / self.plan.group_columns()) as usize];
            let factor = group[(2 * block + i / 2 % 2) as usize];
            let product = match columns {
                Some(scales) => partial.get(i) * scales[(i / 4 * 2 + i % 2) as usize],
                None => partial.get(i),
            };
            acc.set(i, sum(factor, product, acc.get(i)));
        }
    }

    /// Returns a step's factors, and multiplies the scales of the next step.
    #[inline]
    fn prepare<'c>(
        &self,
        k: &mut Body<'c, '_>,
        at: &ScaleIndices<'c>,
        step: Val<'c, i32>,
    ) -> Vec<Vec<Val<'c, f32>>>
    where
        'b: 'c,
    {
        let (factors, step) = (self.factors(at.offset), step + 1);
        let (Scales { now, next, .. }, of_quad) = (self.scales, step & (QUAD - 1));
        k.if_(of_quad.eq(0), |_| {
            (0..now.len()).for_each(|i| now.set(i, next.get(i)));
        });
        // Nothing waits for them during the next steps.
        k.if_(of_quad.eq(1), |k| self.load(k, at, step + (QUAD - 1), next));
        self.multiply_scales(k, step);
        factors
    }

    /// Multiplies the scales of A and of B in a step, one of the four of `now`.
    #[inline]
    fn multiply_scales<'c>(&self, k: &Body<'c, '_>, step: Val<'c, i32>)
    where
        'b: 'c,
    {
        let Scales { now, products, .. } = self.scales;
        let lane = ((k.lane_id() & -QUAD) | (step & (QUAD - 1))).cvt::<u32>();
        let all: Vec<Val<'c, f32>> =
            (0..now.len()).map(|i| k.shfl_idx(WARP, now.get(i), lane)).collect();
        let (of_a, of_b) = all.split_at(2 * self.a.len());
        if of_b.is_empty() {
            (0..).zip(of_a).for_each(|(i, scale)| products.set(i, *scale));
        }
        let pairs = of_b.iter().flat_map(|b| of_a.iter().map(|a| *a * *b));
        (0..).zip(pairs).for_each(|(i, product)| products.set(i, product));
    }

    /// Returns the factors of a thread's rows in each group of columns: the product of the scales
    /// of A and of B, or those of A if each column has its own scales of B.
    #[inline]
    fn factors<'c>(&self, offset: Val<'c, i32>) -> Vec<Vec<Val<'c, f32>>>
    where
        'b: 'c,
    {
        let products = self.scales.products;
        let all: Vec<Val<'c, f32>> = (0..products.len()).map(|i| products.get(i)).collect();
        let of_blocks: Vec<&[Val<'c, f32>]> = all.chunks(2 * self.a.len()).collect();
        let groups = (0..self.plan.config.tile[1]).step_by(self.plan.group_columns() as usize);
        let of_group = |first: u32| -> Vec<Val<'c, f32>> {
            let mut factors = of_blocks[0].to_vec();
            for (block, next) in (1..).zip(&of_blocks[1..]) {
                // The group's first column is in this block of 128 or a later one.
                let is_past_end = (offset + first).ge(block * BLOCK);
                for (factor, next) in factors.iter_mut().zip(*next) {
                    *factor = is_past_end.select(*next, *factor);
                }
            }
            factors
        };
        groups.map(of_group).collect()
    }

    /// Returns where the scales of a tile are. Rows and blocks beyond the end get the last one's:
    /// their sums are not stored.
    #[inline]
    fn scale_indices<'c>(&self, k: &Body<'c, '_>, tile: Tile<'c>) -> ScaleIndices<'c>
    where
        'b: 'c,
    {
        let (config, sizes) = (&self.plan.config, self.sizes);
        let ([rows, columns, _], tiles): (_, TileScheduler<'c>) = (config.tile, self.tiles);
        let matrix = inside(tile.batch, sizes.tiles[2]);
        let [in_a, in_b] = [sizes.a_strides[2], sizes.b_strides[2]].map(|next| matrix * next);
        let warp = k.thread_idx().x % GROUP / 32;
        let first = tile.row * rows + self.group * ROWS + warp * 16 + k.lane_id() / 4;
        let first = match tiles.first_row(tile) {
            DeviceCoord::Device(row) => row + first,
            _ => first,
        };
        let mut a = Vec::new();
        for block in 0..config.blocks() {
            for row in [0, 8] {
                let row = first + (block * ROWS * config.consumers() + row);
                a.push(in_a + inside(row, sizes.rows) * sizes.a_strides[0]);
            }
        }
        let column = tile.column * columns;
        let (block, offset) = (column / BLOCK, column % BLOCK);
        let of_block =
            |next: u32| in_b + inside(block + next, sizes.b_scale_rows) * sizes.b_strides[0];
        ScaleIndices { a, b: (0..self.plan.column_blocks()).map(of_block).collect(), offset }
    }

    /// Loads the scales of four steps from `first` on, each lane of a quad those of one step. Steps
    /// beyond the end get the scales of the last one.
    #[inline]
    fn load<'c>(
        &self,
        k: &Body<'c, '_>,
        at: &ScaleIndices<'c>,
        first: impl IntoVal<'c, i32>,
        to: Registers<'b, f32>,
    ) where
        'b: 'c,
    {
        let Sizes { a_scales, b_scales, a_strides, b_strides, steps, .. } = *self.sizes;
        let step = (k.lane_id() & (QUAD - 1)) + k.value::<i32>(first);
        let step = step.min(steps - 1);
        let (in_a, in_b) = (step * a_strides[1], step * b_strides[1]);
        let of_a = at.a.iter().map(|first| a_scales.load(*first + in_a));
        let of_b = at.b.iter().map(|first| b_scales.load(*first + in_b));
        (0..).zip(of_a.chain(of_b)).for_each(|(i, scale)| to.set(i, scale));
    }

    /// Stores a block of the consumer's rows of a tile, if there is a tile.
    #[inline]
    fn store<'c>(&self, k: &mut Body<'c, '_>, tile: Tile<'c>, block: u32)
    where
        'b: 'c,
    {
        let config = &self.plan.config;
        let [rows, columns, _] = config.tile;
        k.if_(tile.row.ge(0), |_| {
            let down = block * ROWS * config.consumers();
            let row = tile.row * rows + self.group * ROWS + down;
            let origin = [row, tile.column * columns, tile.batch];
            let acc = &self.acc[block as usize];
            self.store.tile(acc, origin, [1, 0, columns], &());
        });
    }
}
