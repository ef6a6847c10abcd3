//! [`Plan`]: the layouts and copies that the host computes before it builds the kernel, and the
//! device code, which starts at `Plan::body`.
//!
//! A block is persistent and walks over tiles of D. Thread 0 of the producer warp group loads
//! blocks of 128 elements along K of A and B by TMA. Each of the two consumer warp groups
//! multiplies 64 rows at a time with four `wgmma`, waits for them, and adds the scaled sums to its
//! accumulators. While one consumer scales, the tensor cores work for the other one.
//!
//! The first `wgmma` of a tile do not touch the accumulators. So a consumer stores the previous
//! tile while they run.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::{IntoVal, Role};
use crate::ir::op::BarrierForm;
use crate::ir::types::Scalar;
use crate::ir::{
    Body, Element, Global, Kernel, KernelOptions, Registers, TensorMap, TensorMapMut, Untyped, Val,
    WARP, range,
};
use crate::layout::{ComposedLayout, Layout, layout, shape, tiler};
use crate::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use crate::tensor::copy::{StagedStore, ThrStore, TmaCopy};
use crate::tensor::mma::SmemOperand;
use crate::tensor::pipeline::{
    PipelineState, Tile, TileScheduler, TmaPipeline, WarpRole, WorkScheduler, warp_roles,
};
use crate::tensor::view::{RegisterTensor, SharedTensor};

use super::config::{GROUP, LaunchOverlap, ROWS, ScaledGemmConfig};
use super::error::ScaledGemmError;
use super::problem::{BLOCK, ScaledGemmProblem};

/// The elements of A, B and D in the body of the kernel.
type A = Role<0>;
type B = Role<1>;
type D = Role<2>;

/// Alignment of swizzled tiles, in bytes.
const ALIGN: u32 = 1024;
/// The lanes that share a row of `wgmma`'s accumulators.
const QUAD: i32 = 4;
/// Bytes of an L2 line.
const LINE: u32 = 128;

crate::params! {
    /// The scales and the sizes of a launch.
    pub(super) struct SizeParams => Sizes<'b> {
        pub(super) a_scales: Global<f32>,
        pub(super) b_scales: Global<f32>,
        /// Elements between the scales of rows, and of blocks along K.
        pub(super) a_strides: [i32; 2],
        pub(super) b_strides: [i32; 2],
        pub(super) a_scale_count: i32,
        pub(super) b_scale_count: i32,
        /// Rows of A, and blocks of 128 rows of B.
        pub(super) rows: i32,
        pub(super) column_blocks: i32,
        /// Blocks of 128 elements along K, at least one.
        pub(super) steps: i32,
        /// The tiles along M and along N.
        pub(super) tiles: [i32; 2],
    }
}

/// A (M, K), B (N, K) and D (M, N, 1) as tensor maps, and the sizes.
pub(super) type Params<A, B, D> =
    (TensorMap<A, 2>, TensorMap<B, 2>, TensorMapMut<D, 3>, SizeParams);

/// Everything about the kernel that is known on the host.
#[derive(Debug)]
pub(super) struct Plan {
    config: ScaledGemmConfig,
    mma: TiledMma,
    a_ring: ComposedLayout,
    b_ring: ComposedLayout,
    a: TmaCopy,
    b: TmaCopy,
    d: StagedStore,
}

impl Plan {
    #[inline]
    pub(super) fn new(config: &ScaledGemmConfig) -> Result<Plan, ScaledGemmError> {
        config.check()?;
        let ([rows, columns, depth], stages) = (config.tile, config.stages);
        if D::scalar() != config.d {
            let expected = config.d.to_string();
            return Err(ScaledGemmError::Element { operand: "D", found: D::scalar(), expected });
        }
        let (a, b) = (val_type("A", A::scalar())?, val_type("B", B::scalar())?);
        let op = Wgmma::new(columns, a, b, ValType::F32, OperandSource::Shared);
        // The layout that `wgmma` reads without bank conflicts.
        let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(8)?;
        let order = shape!(0, 1, 2);
        let ring = |rows: u32| atom.tile_to_shape(&shape!(rows, depth, stages), Some(&order));
        let copy = |scalar, rows: u32| -> Result<TmaCopy, ScaledGemmError> {
            Ok(TmaCopy::new(scalar, &atom.tile_to_shape(&shape!(rows, depth), None)?)?)
        };
        let groups = layout!((config.consumers(), 1, 1));
        Ok(Plan {
            config: *config,
            mma: TiledMma::new(MmaAtom::new(op)?, &groups, tiler!(_, _, _))?,
            a_ring: ring(rows)?,
            b_ring: ring(columns)?,
            a: copy(A::scalar(), rows)?,
            b: copy(B::scalar(), columns)?,
            d: StagedStore::new(config.d, config.store_columns(), config.store_slots())?,
        })
    }

    /// Returns the tensor maps of A, B and D.
    #[inline]
    pub(super) fn maps(
        &self,
        problem: &ScaledGemmProblem,
    ) -> Result<[TensorMapDesc; 3], ScaledGemmError> {
        let ScaledGemmProblem { m, n, k, .. } = *problem;
        // A fetch of 256 bytes must not straddle two rows.
        let promotion = match k {
            _ if k.is_multiple_of(2 * LINE) => L2Promotion::B256,
            _ if k.is_multiple_of(LINE) => L2Promotion::B128,
            _ => L2Promotion::None,
        };
        let rows = |rows: u32| Layout::new((rows, k), (k, 1));
        Ok([
            self.a.desc(&rows(m)?)?.with_l2_promotion(promotion),
            self.b.desc(&rows(n)?)?.with_l2_promotion(promotion),
            self.d.desc(&Layout::new((m, n, 1), (n, 1, 0))?)?,
        ])
    }

    /// Returns how many adjacent columns of a tile share a scale, wherever the tile starts.
    #[inline]
    fn group_columns(&self) -> u32 {
        1 << self.config.tile[1].trailing_zeros().min(BLOCK.trailing_zeros())
    }

    /// Returns how many blocks of 128 columns a tile meets if it starts as late in a block as it
    /// can.
    #[inline]
    fn column_blocks(&self) -> u32 {
        (BLOCK - self.group_columns() + self.config.tile[1]).div_ceil(BLOCK)
    }

    #[inline]
    pub(super) fn build(&self) -> Result<Kernel<Untyped>, ScaledGemmError> {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let options = options.min_blocks_per_sm(1);
        let options = match self.config.cluster_blocks() {
            1 => options,
            blocks => options.cluster([blocks, 1, 1]),
        };
        let name = format!("scaled_gemm_{}_{}_{}", A::scalar(), B::scalar(), self.config);
        let kernel = Kernel::<Params<A, B, D>>::build_with(
            options,
            &name,
            self.config.target,
            |k, (a, b, d, sizes)| self.body(k, a, b, d, &sizes),
        )?;
        Ok(kernel.untyped())
    }

    /// Emits the kernel: setup by all threads, then one body per warp-group role.
    #[inline]
    fn body<'a>(
        &self,
        k: &mut Body<'a, '_>,
        a: Val<'a, TensorMap<A, 2>>,
        b: Val<'a, TensorMap<B, 2>>,
        d: Val<'a, TensorMapMut<D, 3>>,
        sizes: &Sizes<'a>,
    ) {
        let ScaledGemmConfig { tile: [m, n, depth], stages, cluster, raster, overlap, .. } =
            self.config;
        let consumers = self.config.consumers();
        let sa = SharedTensor::<A>::shared_aligned(k, self.a_ring.clone(), ALIGN);
        let sb = SharedTensor::<B>::shared_aligned(k, self.b_ring.clone(), ALIGN);
        let staging = k.shared_aligned::<D>(consumers * self.d.elements(), ALIGN);
        let pipe = TmaPipeline::new(k, stages, self.a.bytes() + self.b.bytes(), consumers);
        let pipe = pipe.cluster(self.config.cluster_blocks());
        let [row_tiles, column_tiles] = sizes.tiles;
        let tiles = TileScheduler::new(k, raster, [row_tiles, column_tiles, k.constant(1)]);
        let tiles = tiles.clusters(cluster);
        sizes.a_scales.require_len(sizes.a_scale_count);
        sizes.b_scales.require_len(sizes.b_scale_count);
        let (thread, is_early) = (k.thread_idx().x, overlap == LaunchOverlap::Programmatic);
        if is_early {
            k.griddepcontrol_launch_dependents();
        }
        pipe.init(thread.eq(0));
        k.barrier();
        pipe.cluster_sync(BarrierForm::Aligned);
        if is_early {
            k.griddepcontrol_wait();
        }
        // The producer gives registers away, so that a consumer thread can hold two sets of
        // accumulators. A single consumer has enough.
        let (registers, entry) = match consumers {
            1 => (None, 255),
            _ => (Some([40, 232]), 168),
        };
        let roles = WarpRole::producers_and_consumers([1, consumers], registers);
        warp_roles(k, &roles, entry, |k, role, group| {
            if role == 0 {
                return k.if_(thread.eq(0), |k| {
                    let (a, b) = (self.a.tensor(a), self.b.tensor(b));
                    let [along_m, along_n] = tiles.peers();
                    tiles.for_each(k, pipe.producer(), |k, tile, state| {
                        let ga = a.local_tile(&tiler!(m, depth), (tile.row, ..));
                        let gb = b.local_tile(&tiler!(n, depth), (tile.column, ..));
                        k.for_(range(0, sizes.steps), state, |_, step, state| {
                            let full = pipe.acquire(state);
                            let sa = sa.slice((.., .., state.stage));
                            let sb = sb.slice((.., .., state.stage));
                            let (ga, gb) = (ga.slice((.., .., step)), gb.slice((.., .., step)));
                            ga.load_rotated(&sa, full, along_n, step);
                            gb.load_rotated(&sb, full, along_m, step);
                            state.next()
                        })
                    });
                });
            }
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let own = staging.offset(group * self.d.elements());
            let store = self.d.slice(k, d, own, thread % GROUP, barrier);
            let consumer = Consumer::new(k, self, sizes, group, (pipe, store), (&sa, &sb));
            let none = Tile { row: k.constant(-1), column: k.constant(0), batch: k.constant(0) };
            let start = (pipe.consumer(), none);
            let (_, last) = tiles.numbers().for_each_item(k, start, |k, number, carried| {
                let (state, previous) = carried;
                consumer.multiply(k, &tiles, number, state, previous)
            });
            (0..self.config.blocks()).for_each(|block| consumer.store(k, last, block));
            consumer.store.finish();
        });
        pipe.cluster_sync(BarrierForm::Unaligned);
    }
}

/// Returns the type of an operand of `wgmma`.
#[inline]
fn val_type(operand: &'static str, found: Scalar) -> Result<ValType, ScaledGemmError> {
    match found {
        Scalar::F8E4M3 => Ok(ValType::E4M3),
        Scalar::F8E5M2 => Ok(ValType::E5M2),
        _ => {
            let expected = "f8e4m3 or f8e5m2".to_owned();
            Err(ScaledGemmError::Element { operand, found, expected })
        }
    }
}

/// A consumer warp group.
struct Consumer<'p, 'a, 'b> {
    plan: &'p Plan,
    sizes: &'p Sizes<'a>,
    group: Val<'b, i32>,
    pipe: TmaPipeline<'b>,
    leader: Val<'b, bool>,
    /// The ring of A for each block of rows, and the ring of B.
    a: Vec<SmemOperand<'b>>,
    b: SmemOperand<'b>,
    /// The scaled sums of each block of rows.
    acc: Vec<RegisterTensor<'b, f32>>,
    /// The products of one step and one block of rows.
    partial: RegisterTensor<'b, f32>,
    scales: Scales<'b>,
    store: ThrStore<'p, 'b, D>,
}

/// Where a thread finds the scales of a tile: the indices at the first step. A block of 64 rows
/// has two rows of a thread.
struct ScaleIndices<'b> {
    a: Vec<Val<'b, i32>>,
    b: Vec<Val<'b, i32>>,
    /// The tile's first column in its block of 128.
    offset: Val<'b, i32>,
}

/// A thread's scales. The four lanes of a quad have the same rows, so each loads the scales of
/// another step, and they pass them to each other.
#[derive(Clone, Copy)]
struct Scales<'b> {
    /// The scales of one of the four steps around the current one: A's, then B's.
    now: Registers<'b, f32>,
    /// Those of one of the four steps after them.
    next: Registers<'b, f32>,
    /// The products of A's scales with those of B in the next step, for each scale of B.
    products: Registers<'b, f32>,
}

impl<'a: 'b, 'b> Consumer<'_, 'a, 'b> {
    #[inline]
    fn new<'p>(
        k: &Body<'b, '_>,
        plan: &'p Plan,
        sizes: &'p Sizes<'a>,
        group: Val<'b, i32>,
        (pipe, store): (TmaPipeline<'b>, ThrStore<'p, 'b, D>),
        (sa, sb): (&SharedTensor<'b, A>, &SharedTensor<'b, B>),
    ) -> Consumer<'p, 'a, 'b> {
        let Plan { config, mma, .. } = plan;
        let ScaledGemmConfig { tile: [_, columns, depth], stages, .. } = *config;
        let (rows, thread) = (ROWS * config.consumers(), k.thread_idx().x);
        let thr = mma.slice(thread - GROUP);
        let a = (0..config.blocks()).map(|block| {
            let ring = sa.local_tile(&tiler!(rows, depth, stages), (block, 0, 0));
            SmemOperand::new(&thr.partition_a(&ring))
        });
        let registers = || mma.slice(0).fragment_c::<f32>(k, shape!(rows, columns));
        let acc: Vec<_> = (0..config.blocks()).map(|_| registers()).collect();
        // A store of no tile reads them, as the verifier sees it.
        acc.iter().for_each(|acc| acc.fill(0.0));
        let (of_a, of_b) = (2 * config.blocks(), plan.column_blocks());
        let scales = Scales {
            now: k.registers(of_a + of_b),
            next: k.registers(of_a + of_b),
            products: k.registers(of_a * of_b),
        };
        // The first step of a tile loads them; the verifier does not see that the loop comes later.
        scales.next.fill(0.0);
        Consumer {
            plan,
            sizes,
            group,
            pipe,
            leader: (thread % GROUP).eq(0),
            a: a.collect(),
            b: SmemOperand::new(&thr.partition_b(sb)),
            acc,
            partial: registers(),
            scales,
            store,
        }
    }

    /// Computes a tile, and stores the previous one meanwhile. Returns the state after it, and the
    /// tile.
    #[inline]
    fn multiply<'c>(
        &self,
        k: &mut Body<'c, '_>,
        tiles: &TileScheduler<'b>,
        number: Val<'c, i32>,
        state: PipelineState<'c>,
        previous: Tile<'c>,
    ) -> (PipelineState<'c>, Tile<'c>)
    where
        'b: 'c,
    {
        let blocks = self.plan.config.blocks();
        // The MMAs need only the stage. Where the tile is can be computed while they run: `ptxas`
        // moves nothing before them across a second wait, which returns at once.
        self.start(k, state, 0);
        self.pipe.wait(state);
        let tile = tiles.tile(number);
        let at = self.scale_indices(k, tile);
        self.load(k, &at, 0, self.scales.now);
        self.store(k, previous, 0);
        self.multiply_scales(k, k.constant(0));
        let factors = self.prepare(k, &at, k.constant(0));
        for block in 0..blocks {
            if block > 0 {
                self.start(k, state, block);
                self.store(k, previous, block);
            }
            self.wait(k, state, block);
            self.scale(block, &factors, |factor, product, _| product * factor);
        }
        let state = k.for_(range(1, self.sizes.steps), state.next(), |k, step, state| {
            self.start(k, state, 0);
            let factors = self.prepare(k, &at, step);
            for block in 0..blocks {
                if block > 0 {
                    self.start(k, state, block);
                }
                self.wait(k, state, block);
                self.scale(block, &factors, |factor, product, sum| product.fma(factor, sum));
            }
            state.next()
        });
        (state, tile)
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

    /// Replaces the accumulators of a block of rows by `sum(factor, product, accumulator)`.
    #[inline]
    fn scale<'c>(
        &self,
        block: u32,
        factors: &[Vec<Val<'c, f32>>],
        sum: impl Fn(Val<'c, f32>, Val<'c, f32>, Val<'c, f32>) -> Val<'c, f32>,
    ) where
        'b: 'c,
    {
        let (acc, partial) = (self.acc[block as usize].variables(), self.partial.variables());
        for i in 0..acc.len() {
            // In 8 columns of `wgmma`'s accumulators, a thread has two columns of two rows.
            let group = &factors[(i / 4 * 8 / self.plan.group_columns()) as usize];
            let factor = group[(2 * block + i / 2 % 2) as usize];
            acc.set(i, sum(factor, partial.get(i), acc.get(i)));
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
        let pairs = of_b.iter().flat_map(|b| of_a.iter().map(|a| *a * *b));
        (0..).zip(pairs).for_each(|(i, product)| products.set(i, product));
    }

    /// Returns the factors of a thread's rows in each group of columns: the product of the scales.
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
                let is_behind = (offset + first).ge(block * BLOCK);
                for (factor, next) in factors.iter_mut().zip(*next) {
                    *factor = is_behind.select(*next, *factor);
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
        let [rows, columns, _] = config.tile;
        let warp = k.thread_idx().x % GROUP / 32;
        let first = tile.row * rows + self.group * ROWS + warp * 16 + k.lane_id() / 4;
        let mut a = Vec::new();
        for block in 0..config.blocks() {
            for row in [0, 8] {
                let row = first + (block * ROWS * config.consumers() + row);
                a.push(row.min(sizes.rows - 1) * sizes.a_strides[0]);
            }
        }
        let column = tile.column * columns;
        let (block, offset) = (column / BLOCK, column % BLOCK);
        let of_block = |next: u32| {
            let block = (block + next).min(sizes.column_blocks - 1);
            block * sizes.b_strides[0]
        };
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
