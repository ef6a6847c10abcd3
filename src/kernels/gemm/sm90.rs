//! The warp-specialised persistent kernel for `sm_90a`.
//!
//! One thread of the first warp group fills a ring of tiles of A and B by tensor copies. The other groups multiply them
//! with `wgmma` and write their rows of D by tensor copies: both on one tile, or each on tiles of its own in turn. Blocks
//! stay, and every role goes through the same tiles.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::{
    BarrierForm, Body, Element, Kernel, KernelOptions, Number, Scalar, TensorMap, TensorMapMut,
    Val, range,
};
use crate::layout::{ComposedLayout, IntTuple, Layout, layout, shape, tiler};
use crate::tensor::{
    MmaAtom, OperandSource, OrderedBarrier, PipelineState, RegisterTensor, SharedTensor, SmemAtom,
    SmemSwizzle, StagedStore, ThrStore, Tile, TileScheduler, TiledMma, TmaCopy, TmaPipeline,
    ValType, WarpRole, Wgmma, WgmmaMainloop, warp_roles,
};

use super::config::{
    GROUP, GemmConfig, SM_REGISTERS, SWIZZLE_ALIGN, Schedule, StoreForm, WGMMA_ROWS,
};
use super::epilogue::{EpilogueArgs, EpilogueOps, EpilogueParams};
use super::error::GemmError;
use super::problem::{GemmProblem, GemmStrides};
use super::types::{in_memory, val_type};

/// A, B and D; row tiles, column tiles, steps along K, and matrices of the batch; how far the matrix of A and of B batch_strides
/// with that of D, 0 or 1; the epilogue.
pub(super) type Params<A, B, C, D> = (
    TensorMap<A, 3>,
    TensorMap<B, 3>,
    TensorMapMut<D, 3>,
    [i32; 4],
    [i32; 2],
    EpilogueParams<C, D>,
);

/// Everything that is known before the kernel runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    config: GemmConfig,
    mma: TiledMma,
    /// The rings of tiles of A and B, and the copies of one tile.
    rings: [ComposedLayout; 2],
    copies: [TmaCopy; 2],
    store: StagedStore,
}

impl Plan {
    pub(super) fn new(config: &GemmConfig) -> Result<Plan, GemmError> {
        config.check()?;
        let GemmConfig { tile: [m, n, depth], stages, schedule, a, b, acc, .. } = *config;
        let inputs = val_type(a).zip(val_type(b));
        let (ty_a, ty_b) = inputs.ok_or(GemmError::Inputs { schedule, a, b, acc })?;
        let op = Wgmma::new(n, ty_a, ty_b, ValType::F32, OperandSource::Shared);
        let groups = if schedule == Schedule::Pingpong { 1 } else { config.consumers() };
        let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((groups, 1, 1)), tiler!(_, _, _))?;
        let operand = |scalar: Scalar, major, rows: u32, fetched: u32| -> Result<_, GemmError> {
            let atom =
                SmemAtom::new(major, SmemSwizzle::Sw128).position_independent(scalar.bits())?;
            // A box of a tensor copy goes on along the other mode of the atom.
            let order = if major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
            let tiled = |shape: IntTuple| atom.tile_to_shape(&shape, Some(&order));
            let part = tiled(shape!(rows, depth, 1))?.composition(&tiler!(fetched, depth, 1))?;
            let copy = TmaCopy::new(in_memory(scalar), &part)?;
            Ok((tiled(shape!(rows, depth, stages))?, copy))
        };
        let (ring_a, copy_a) = operand(a, config.major_a, config.rows_of_products(), m)?;
        let (ring_b, copy_b) = operand(b, config.major_b, n, n)?;
        let (columns, slots) = (config.store_columns(), config.store_slots());
        let store = StagedStore::of_rows(config.d, m.min(WGMMA_ROWS), columns, slots)?;
        let (rings, copies) = ([ring_a, ring_b], [copy_a, copy_b]);
        Ok(Plan { config: *config, mma, rings, copies, store })
    }

    /// Returns whether each consumer has tiles of its own.
    fn is_pingpong(&self) -> bool {
        self.config.schedule == Schedule::Pingpong
    }

    /// The accumulators of a thread.
    fn accumulators<'b>(&self, k: &Body<'b, '_>) -> RegisterTensor<'b, f32> {
        self.mma.slice(0).fragment_c(k, shape!(self.config.rows_of_products(), self.config.tile[1]))
    }

    /// The maps of A, B and D of a problem. A matrix that all of a batch share is one matrix.
    pub(super) fn maps(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<[TensorMapDesc; 3], GemmError> {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(i64::from);
        let tensor = |major, lines: i64, columns: i64, [pitch, next]: [u64; 2]| {
            let matrices = if next == 0 { 1 } else { i64::from(problem.batch) };
            let strides = if major == Major::K { (pitch, 1, next) } else { (1, pitch, next) };
            Layout::new((lines, columns, matrices), strides)
        };
        let a = self.copies[0].desc(&tensor(self.config.major_a, m, k, strides.a)?)?;
        let b = self.copies[1].desc(&tensor(self.config.major_b, n, k, strides.b)?)?;
        let d = self.store.desc(&tensor(Major::K, m, n, strides.d)?)?;
        Ok([a.with_l2_promotion(L2Promotion::B256), b.with_l2_promotion(L2Promotion::B256), d])
    }

    pub(super) fn build<A, B, C, D>(&self) -> Result<Kernel<Params<A, B, C, D>>, GemmError>
    where
        A: Element,
        B: Element,
        C: Number,
        D: Number,
    {
        let config = self.config;
        let threads = config.threads();
        let mut options = KernelOptions::default().block([threads, 1, 1]).min_blocks_per_sm(1);
        if config.cluster > 1 {
            options = options.cluster([config.cluster, 1, 1]);
        }
        let name = config.to_string();
        Ok(Kernel::build_with(options, &name, config.target, |k, params| self.body(k, params))?)
    }

    /// The kernel.
    fn body<'b, A: Element, B: Element, C: Number, D: Number>(
        &self,
        k: &mut Body<'b, '_>,
        params: Args<'b, A, B, C, D>,
    ) {
        let Plan { config, store, .. } = self;
        let (a, b, d, [rows, columns, steps, batch], batch_strides, epilogue) = params;
        let sa = SharedTensor::<A>::shared_aligned(k, self.rings[0].clone(), SWIZZLE_ALIGN);
        let sb = SharedTensor::<B>::shared_aligned(k, self.rings[1].clone(), SWIZZLE_ALIGN);
        let staging = config.consumers() * store.elements();
        let staging = k.shared_aligned::<D>(staging, SWIZZLE_ALIGN);
        let bytes = self.copies.iter().map(TmaCopy::bytes).sum();
        let consumers = if self.is_pingpong() { 1 } else { config.consumers() };
        let pipe = TmaPipeline::new(k, config.stages, bytes, consumers).cluster(config.cluster);
        let order = self.is_pingpong().then(|| OrderedBarrier::new(k));
        let tiles = TileScheduler::new(k, config.raster, [rows, columns, batch]);
        let tiles = tiles.clusters(config.cluster);
        let thread = k.thread_idx().x;
        if config.programmatic {
            k.griddepcontrol_launch_dependents();
        }
        pipe.init(k, thread.eq(0));
        order.inspect(|order| order.init(k, thread.eq(0)));
        k.barrier();
        pipe.cluster_sync(k, BarrierForm::Aligned);
        if config.programmatic {
            k.griddepcontrol_wait();
        }
        let roles = WarpRole::producer_and_consumers(config.consumers(), config.registers);
        warp_roles(k, &roles, SM_REGISTERS / config.threads(), |k, role, group| {
            if role == 0 {
                let ring = (pipe, &sa, &sb);
                return k.if_(thread.eq(0), |k| {
                    self.produce(k, tiles, steps, ring, (a, b, batch_strides))
                });
            }
            let mma_thread = if order.is_some() { thread % GROUP } else { thread - GROUP };
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            WgmmaMainloop::clear_rows(k, &sa, config.tile[0], mma_thread, barrier);
            let to = staging.offset(group * store.elements());
            let consumer = Consumer {
                plan: self,
                group,
                steps,
                products: WgmmaMainloop::new(k, &self.mma, pipe, mma_thread, &sa, &sb),
                store: store.slice(k, d, to, thread % GROUP, barrier),
                epilogue: EpilogueOps::new(config.epilogue, epilogue),
            };
            match (config.store, order) {
                (StoreForm::Overlapped, _) => consumer.consume_overlapped(k, tiles),
                (_, Some(order)) => consumer.consume_ordered(k, tiles, order),
                (_, None) => consumer.consume(k, tiles),
            }
            consumer.store.finish(k);
        });
        pipe.cluster_sync(k, BarrierForm::Unaligned);
    }

    /// Fills the ring.
    fn produce<'b, A: Element, B: Element>(
        &self,
        k: &mut Body<'b, '_>,
        tiles: TileScheduler<'b>,
        steps: Val<'b, i32>,
        (pipe, sa, sb): (TmaPipeline<'b>, &SharedTensor<'b, A>, &SharedTensor<'b, B>),
        (a, b, [stride_a, stride_b]): Operands<'b, A, B>,
    ) {
        let GemmConfig { tile: [m, n, depth], stages, cluster, .. } = self.config;
        let [copy_a, copy_b] = &self.copies;
        tiles.for_each(k, PipelineState::producer(k), |k, tile, ring| {
            let (row, column) = (tile.row * m, tile.column * n);
            let (batch_a, batch_b) = (tile.batch * stride_a, tile.batch * stride_b);
            k.for_(range(0, steps), ring, |k, step, ring| {
                let (full, at) = (pipe.acquire(k, ring), step * depth);
                let to_a = sa.local_tile(k, &tiler!(m, depth, 1), (0, 0, ring.stage));
                let to_b = sb.slice(k, (.., .., ring.stage));
                copy_a.load(k, a, (row, at, batch_a), &to_a, full);
                let turn = [step, tiles.rank(k)];
                copy_b.load_rotated(k, b, (column, at, batch_b), &to_b, full, cluster, turn);
                ring.next(stages)
            })
        });
    }
}

/// A consumer warp group: multiplies, and writes its rows of D.
struct Consumer<'p, 'b, C, D> {
    plan: &'p Plan,
    group: Val<'b, i32>,
    steps: Val<'b, i32>,
    products: WgmmaMainloop<'p, 'b>,
    store: ThrStore<'p, 'b, D>,
    epilogue: EpilogueOps<'b, C, D>,
}

impl<'b, C: Number, D: Number> Consumer<'_, 'b, C, D> {
    /// Tiles that all groups share.
    fn consume(&self, k: &mut Body<'b, '_>, tiles: TileScheduler<'b>) {
        tiles.for_each(k, PipelineState::consumer(k), |k, tile, ring| {
            let acc = self.plan.accumulators(k);
            let ring = self.products.run(k, &acc, ring, self.steps);
            self.products.finish(k, ring);
            self.write(k, &acc, tile);
            ring
        });
    }

    /// Tiles of its own: multiplies while the other group writes.
    fn consume_ordered(
        &self,
        k: &mut Body<'b, '_>,
        tiles: TileScheduler<'b>,
        order: OrderedBarrier<'b>,
    ) {
        let (group, stages) = (self.group, self.plan.config.stages);
        let ring = PipelineState::consumer(k).skip(group * self.steps, stages);
        tiles.turns(group, 2).for_each(k, (ring, order.start(group)), |k, tile, (ring, parity)| {
            let acc = self.plan.accumulators(k);
            order.wait(k, group, parity);
            let ring = self.products.run(k, &acc, ring, self.steps);
            order.arrive(k, group, self.products.leader());
            self.products.finish(k, ring);
            self.write(k, &acc, tile);
            // The steps of the other group's tile are not for this one.
            (ring.skip(self.steps, stages), parity ^ 1)
        });
    }

    /// 64 rows of a shared tile: kept as words, and stored in parts during the first steps of the next tile.
    fn consume_overlapped(&self, k: &mut Body<'b, '_>, tiles: TileScheduler<'b>) {
        let n = self.plan.config.tile[1];
        let kept = k.registers::<u32>(n / 4);
        kept.fill(k, 0);
        let none = Tile { row: k.constant(-1), column: k.constant(0), batch: k.constant(0) };
        let start = (PipelineState::consumer(k), none);
        let (_, last) = tiles.for_each(k, start, |k, tile, (ring, before)| {
            let (acc, origin) = (self.plan.accumulators(k), self.origin(before));
            let ring = self.products.run_over(k, &acc, ring, self.steps, PARTS, |k, part| {
                k.if_(before.row.ge(0), |k| self.store.part(k, origin, &kept, part));
            });
            self.products.finish(k, ring);
            self.store.keep(k, &acc, self.origin(tile), &kept, &self.epilogue);
            (ring, tile)
        });
        k.if_(last.row.ge(0), |k| {
            let origin = self.origin(last);
            (0..PARTS).for_each(|part| self.store.part(k, origin, &kept, part));
        });
    }

    /// The first row and column of the group in a tile, and the matrix. Blocks of 64 rows of the groups alternate.
    fn origin(&self, tile: Tile<'b>) -> [Val<'b, i32>; 3] {
        let [m, n, _] = self.plan.config.tile;
        let own =
            if self.plan.is_pingpong() { tile.row.constant(0) } else { self.group * WGMMA_ROWS };
        [tile.row * m + own, tile.column * n, tile.batch]
    }

    /// Writes the rows of the group.
    fn write(&self, k: &mut Body<'b, '_>, acc: &RegisterTensor<'b, f32>, tile: Tile<'b>) {
        let config = &self.plan.config;
        let blocks = config.rows_of_consumer() / WGMMA_ROWS;
        let shape = [blocks, config.rows_of_products() / blocks, config.tile[1]];
        self.store.tile(k, acc, self.origin(tile), shape, &self.epilogue);
    }
}

/// The parts in which an overlapped epilogue stores a tile.
const PARTS: u32 = 4;

/// The tensors that are fetched, and whether the matrix of each batch_strides with the batch.
type Operands<'b, A, B> = (Val<'b, TensorMap<A, 3>>, Val<'b, TensorMap<B, 3>>, [Val<'b, i32>; 2]);

/// The device values of [`Params`].
type Args<'b, A, B, C, D> = (
    Val<'b, TensorMap<A, 3>>,
    Val<'b, TensorMap<B, 3>>,
    Val<'b, TensorMapMut<D, 3>>,
    [Val<'b, i32>; 4],
    [Val<'b, i32>; 2],
    EpilogueArgs<'b, C, D>,
);
