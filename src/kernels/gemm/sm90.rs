//! The warp-specialised persistent kernel for `sm_90a`.
//!
//! One thread of the first warp group fills a ring of tiles of A and B by tensor copies. The other groups multiply them
//! with `wgmma` and write their rows of D by tensor copies: both on one tile, or each on tiles of its own in turn. Blocks
//! stay, and every role goes through the same tiles.

use crate::codegen::{L2Promotion, Major, TensorMapDesc};
use crate::ir::{
    BarrierForm, Body, ClusterArrival, Element, Kernel, KernelOptions, Number, Registers, Scalar,
    TensorMap, TensorMapMut, Val, range,
};
use crate::layout::{ComposedLayout, IntTuple, Layout, layout, shape, tiler};
use crate::tensor::{
    Fragment, MmaAtom, OperandSource, PipelineState, SharedTensor, SmemAtom, SmemOperand,
    SmemSwizzle, StagedStore, ThrMma, ThrStore, Tile, TileScheduler, TiledMma, TmaCopy,
    TmaPipeline, Turns, ValType, WarpRole, Wgmma, warp_roles,
};

use super::config::{GROUP, GemmConfig, Schedule, StoreForm};
use super::epilogue::{EpilogueOps, EpilogueParams};
use super::error::GemmError;
use super::problem::{GemmProblem, GemmStrides};

/// A, B and D; row tiles, column tiles, steps along K, and matrices of the batch; how far the matrix of A and of B moves
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

/// The instruction's name of a type.
pub(super) fn val_type(scalar: Scalar) -> Option<ValType> {
    Some(match scalar {
        Scalar::Bf16 => ValType::Bf16,
        Scalar::F16 => ValType::F16,
        Scalar::Tf32 => ValType::Tf32,
        Scalar::F32 => ValType::F32,
        Scalar::F8E4M3 => ValType::E4M3,
        Scalar::F8E5M2 => ValType::E5M2,
        _ => return None,
    })
}

/// The type of elements in memory.
pub(super) const fn in_memory(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Tf32 => Scalar::F32,
        other => other,
    }
}

impl Plan {
    pub(super) fn new(config: &GemmConfig) -> Result<Plan, GemmError> {
        config.check()?;
        let GemmConfig { tile: [m, n, depth], stages, schedule, a, b, acc, .. } = *config;
        let inputs = val_type(a).zip(val_type(b));
        let (ty_a, ty_b) = inputs.ok_or(GemmError::Inputs { schedule, a, b, acc })?;
        let op = Wgmma::new(n as u16, ty_a, ty_b, ValType::F32, OperandSource::Shared);
        let groups = if schedule == Schedule::Pingpong { 1 } else { config.consumers() };
        let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((groups, 1, 1)), tiler!(_, _, _))?;
        let operand = |scalar: Scalar, major, rows: u32| -> Result<_, GemmError> {
            let atom =
                SmemAtom::new(major, SmemSwizzle::Sw128).position_independent(scalar.bits())?;
            // A box of a tensor copy goes on along the other mode of the atom.
            let order = if major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
            let tiled = |shape: IntTuple| atom.tile_to_shape(&shape, Some(&order));
            let copy = TmaCopy::new(in_memory(scalar), &tiled(shape!(rows, depth, 1))?)?;
            Ok((tiled(shape!(rows, depth, stages))?, copy))
        };
        let (ring_a, copy_a) = operand(a, config.major_a, m)?;
        let (ring_b, copy_b) = operand(b, config.major_b, n)?;
        let store = StagedStore::new(config.d, config.store_columns(), config.store_slots())?;
        let (rings, copies) = ([ring_a, ring_b], [copy_a, copy_b]);
        Ok(Plan { config: *config, mma, rings, copies, store })
    }

    /// The maps of A, B and D of a problem. A matrix that all of a batch share is one matrix.
    pub(super) fn maps(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<[TensorMapDesc; 3], GemmError> {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(i64::from);
        let tensor = |major, lines: i64, columns: i64, [pitch, next]: [u64; 2]| {
            let (pitch, next) = (pitch as i64, next as i64);
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
        Ok(Kernel::build_with(
            options,
            &name,
            config.target,
            |k, (a, b, d, extents, moves, epilogue)| {
                let [rows, columns, steps, batch] = extents;
                let sa = SharedTensor::<A>::shared_aligned(k, self.rings[0].clone(), 1024);
                let sb = SharedTensor::<B>::shared_aligned(k, self.rings[1].clone(), 1024);
                let staging = config.consumers() as usize * self.store.elements();
                let staging = k.shared_aligned::<D>(staging, 1024);
                let users =
                    if config.schedule == Schedule::Pingpong { 1 } else { config.consumers() };
                let bytes = self.copies.iter().map(TmaCopy::bytes).sum();
                let pipe = TmaPipeline::new(k, config.stages, bytes, users).cluster(config.cluster);
                let tiles = TileScheduler::new(k, config.raster, [rows, columns, batch]);
                let tiles = tiles.clusters(config.cluster);
                let thread = k.thread_idx().x;
                let turns = (config.schedule == Schedule::Pingpong).then(|| Turns::new(k));
                if config.programmatic {
                    k.griddepcontrol_launch_dependents();
                }
                pipe.init(k, thread.eq(0));
                if let Some(turns) = turns {
                    turns.init(k, thread.eq(0));
                }
                k.barrier();
                self.meet_cluster(k, BarrierForm::Aligned);
                if config.programmatic {
                    k.griddepcontrol_wait();
                }
                let [fetch, multiply] = match config.registers {
                    Some(counts) => counts.map(Some),
                    None => [None; 2],
                };
                let roles = [WarpRole::new(1), WarpRole::new(config.consumers())];
                let roles = [roles[0].registers(fetch), roles[1].registers(multiply)];
                warp_roles(k, &roles, 65536 / threads, |k, role, group| {
                    let gemm =
                        Role { plan: self, pipe, tiles, steps, sa: sa.clone(), sb: sb.clone() };
                    if role == 0 {
                        k.if_(thread.eq(0), |k| gemm.produce(k, a, b, moves));
                    } else {
                        let slots = group * self.store.elements() as i32;
                        let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
                        let to = staging.offset(slots);
                        let store = self.store.slice(k, d, to, thread % GROUP as i32, barrier);
                        let epilogue = EpilogueOps::new(config.epilogue, epilogue);
                        gemm.consume(k, group, &store, &epilogue, turns);
                    }
                });
                self.meet_cluster(k, BarrierForm::Unaligned);
            },
        )?)
    }
}

impl Plan {
    /// Blocks of a cluster write to each other's shared memory: not before it is ready, nor after its block has ended.
    fn meet_cluster(&self, k: &Body<'_, '_>, form: BarrierForm) {
        if self.config.cluster > 1 {
            k.barrier_cluster_arrive(form, ClusterArrival::Release);
            k.barrier_cluster_wait(form);
        }
    }
}

/// What the roles share.
struct Role<'p, 'b, A, B> {
    plan: &'p Plan,
    pipe: TmaPipeline<'b>,
    tiles: TileScheduler<'b>,
    steps: Val<'b, i32>,
    sa: SharedTensor<'b, A>,
    sb: SharedTensor<'b, B>,
}

impl<'b, A: Element, B: Element> Role<'_, 'b, A, B> {
    /// Fills the ring.
    fn produce(
        &self,
        k: &mut Body<'b, '_>,
        a: Val<'b, TensorMap<A, 3>>,
        b: Val<'b, TensorMap<B, 3>>,
        [move_a, move_b]: [Val<'b, i32>; 2],
    ) {
        let GemmConfig { tile: [m, n, depth], stages, cluster, .. } = self.plan.config;
        let [copy_a, copy_b] = &self.plan.copies;
        self.tiles.for_each(k, PipelineState::producer(k), |k, tile, ring| {
            let (row, column) = (tile.row * m as i32, tile.column * n as i32);
            let (batch_a, batch_b) = (tile.batch * move_a, tile.batch * move_b);
            k.for_(range(0, self.steps), ring, |k, step, ring| {
                let full = self.pipe.acquire(k, ring);
                let at = step * depth as i32;
                let to = self.sa.slice(k, (.., .., ring.stage));
                copy_a.load(k, a, (row, at, batch_a), &to, full);
                let to = self.sb.slice(k, (.., .., ring.stage));
                if cluster == 1 {
                    copy_b.load(k, b, (column, at, batch_b), &to, full);
                } else {
                    // The blocks take turns in fetching for all.
                    let mine = (step % cluster as i32).eq(self.tiles.rank(k));
                    let all = (1 << cluster) - 1;
                    k.if_(mine, |k| {
                        copy_b.load_multicast(k, b, (column, at, batch_b), &to, full, all)
                    });
                }
                ring.next(stages)
            })
        });
    }

    /// Multiplies the tiles of warp group `group`, and writes its rows of D.
    fn consume<C: Number, D: Number>(
        &self,
        k: &mut Body<'b, '_>,
        group: Val<'b, i32>,
        store: &ThrStore<'_, 'b, D>,
        epilogue: &EpilogueOps<'b, C, D>,
        turns: Option<Turns<'b>>,
    ) {
        let GemmConfig { tile: [m, n, _], stages, .. } = self.plan.config;
        let leader = (k.thread_idx().x % GROUP as i32).eq(0);
        let work = self.operands(k, group, turns.is_some());
        let (mut ring, mut turn) = (PipelineState::consumer(k), k.constant(0));
        let mut tiles = self.tiles;
        if let Some(turns) = turns {
            ring = ring.skip(group * self.steps, stages);
            turn = turns.start(group);
            tiles = tiles.turns(group, 2);
        }
        if self.plan.config.store == StoreForm::Deferred {
            self.consume_deferred(k, &work, group, store, epilogue);
        } else {
            tiles.for_each(k, (ring, turn), |k, tile, (mut ring, turn)| {
                let acc = work.thr.fragment_c::<f32>(k, shape!(m, n));
                if let Some(turns) = turns {
                    turns.wait(k, group, turn);
                }
                (ring, _) = k.do_while((ring, k.constant(0)), |k, (ring, step)| {
                    let more = step.gt(0);
                    self.multiply(k, &acc, &work, ring, more);
                    // The products of the step before are done: its stage can be filled again.
                    k.wgmma_wait_group(1);
                    k.if_(leader & more, |k| self.pipe.release(k, ring.previous_stage(stages)));
                    let step = step + 1;
                    ((ring.next(stages), step), step.lt(self.steps))
                });
                if let Some(turns) = turns {
                    k.if_(leader, |k| turns.pass(k, group));
                }
                k.wgmma_wait_group(0);
                k.if_(leader, |k| self.pipe.release(k, ring.previous_stage(stages)));
                self.write(k, &acc, self.origin(tile, group), store, epilogue);
                match turns {
                    // The steps of the other group's tile are not for this one.
                    Some(_) => (ring.skip(self.steps, stages), turn ^ 1),
                    None => (ring, turn),
                }
            });
        }
        store.finish(k);
    }

    /// As `consume`, for 64 rows of a group: they are kept as words of two elements, and written in four parts under the
    /// first four steps of the next tile.
    fn consume_deferred<C: Number, D: Number>(
        &self,
        k: &mut Body<'b, '_>,
        work: &Work<'_, 'b>,
        group: Val<'b, i32>,
        store: &ThrStore<'_, 'b, D>,
        epilogue: &EpilogueOps<'b, C, D>,
    ) {
        let GemmConfig { tile: [m, n, _], stages, .. } = self.plan.config;
        let leader = (k.thread_idx().x % GROUP as i32).eq(0);
        let kept = k.registers::<u32>(n as usize / 4);
        kept.fill(k, 0);
        let none = Tile { row: k.constant(-1), column: k.constant(0), batch: k.constant(0) };
        let start = (PipelineState::consumer(k), none);
        let (_, last) = self.tiles.for_each(k, start, |k, tile, (mut ring, before)| {
            let acc = work.thr.fragment_c::<f32>(k, shape!(m, n));
            for part in 0..PARTS {
                self.multiply(k, &acc, work, ring, k.constant(part > 0));
                k.if_(before.row.ge(0), |k| {
                    self.write_kept(k, &kept, self.origin(before, group), part, store)
                });
                k.wgmma_wait_group(1);
                if part > 0 {
                    k.if_(leader, |k| self.pipe.release(k, ring.previous_stage(stages)));
                }
                ring = ring.next(stages);
            }
            let ring = k.for_(range(PARTS as i32, self.steps), ring, |k, _, ring| {
                self.multiply(k, &acc, work, ring, k.constant(true));
                k.wgmma_wait_group(1);
                k.if_(leader, |k| self.pipe.release(k, ring.previous_stage(stages)));
                ring.next(stages)
            });
            k.wgmma_wait_group(0);
            k.if_(leader, |k| self.pipe.release(k, ring.previous_stage(stages)));
            let origin = self.origin(tile, group);
            for unit in 0..n / 8 {
                let words = epilogue.words(k, &acc, unit, unit, origin, store);
                for (half, word) in words.into_iter().enumerate() {
                    kept.set(k, 2 * unit as usize + half, word);
                }
            }
            (ring, tile)
        });
        k.if_(last.row.ge(0), |k| {
            let origin = self.origin(last, group);
            (0..PARTS).for_each(|part| self.write_kept(k, &kept, origin, part, store));
        });
    }

    /// Writes a part of the rows of a group that are kept as words.
    fn write_kept<D: Number>(
        &self,
        k: &mut Body<'b, '_>,
        kept: &Registers<'b, u32>,
        [row, column, batch]: [Val<'b, i32>; 3],
        part: u32,
        store: &ThrStore<'_, 'b, D>,
    ) {
        let columns = store.columns();
        store.rows(k, [row, column + (part * columns) as i32, batch], part, |k, unit| {
            let first = (2 * (part * columns / 8 + unit)) as usize;
            vec![kept.get(k, first), kept.get(k, first + 1)]
        });
    }

    /// What a warp group multiplies.
    fn operands(&self, k: &Body<'b, '_>, group: Val<'b, i32>, own_tiles: bool) -> Work<'_, 'b> {
        let thread = k.thread_idx().x % GROUP as i32;
        let thread = if own_tiles { thread } else { thread + group * GROUP as i32 };
        let thr = self.plan.mma.slice(thread);
        let a = SmemOperand::new(k, &thr.partition_a(k, &self.sa));
        let b = SmemOperand::new(k, &thr.partition_b(k, &self.sb));
        Work { thr, a, b }
    }

    /// Waits for a stage, and starts its products: `acc += A B`, or `acc = A B` where not `more`.
    fn multiply(
        &self,
        k: &Body<'b, '_>,
        acc: &Fragment<'_, f32>,
        work: &Work<'_, 'b>,
        ring: PipelineState<'b>,
        more: Val<'b, bool>,
    ) {
        self.pipe.wait(k, ring);
        k.wgmma_fence();
        let (a, b) = (work.a.stage(k, ring.stage), work.b.stage(k, ring.stage));
        self.plan.mma.gemm_async(k, acc, &a, &b, more);
        k.wgmma_commit_group();
    }

    /// The first row and column of a group in a tile, and the matrix.
    fn origin(&self, tile: Tile<'b>, group: Val<'b, i32>) -> [Val<'b, i32>; 3] {
        let GemmConfig { tile: [m, n, _], schedule, .. } = self.plan.config;
        let row = tile.row * m as i32;
        let row = if schedule == Schedule::Pingpong { row } else { row + group * 64 };
        [row, tile.column * n as i32, tile.batch]
    }

    /// Writes the rows of a group, 64 at a time: those of the groups lie between each other.
    fn write<C: Number, D: Number>(
        &self,
        k: &mut Body<'b, '_>,
        acc: &Fragment<'b, f32>,
        [row, column, batch]: [Val<'b, i32>; 3],
        store: &ThrStore<'_, 'b, D>,
        epilogue: &EpilogueOps<'b, C, D>,
    ) {
        let config = &self.plan.config;
        let (n, columns) = (config.tile[1], store.columns());
        let apart = config.tile[0] / (config.rows_of_consumer() / 64);
        for block in 0..config.rows_of_consumer() / 64 {
            for chunk in 0..n / columns {
                let shift = [(block * apart) as i32, (chunk * columns) as i32];
                let origin = [row + shift[0], column + shift[1], batch];
                store.rows(k, origin, block * (n / columns) + chunk, |k, unit| {
                    let first = (block * n + chunk * columns) / 8 + unit;
                    epilogue.words(k, acc, first, unit, origin, store)
                });
            }
        }
    }
}

/// The parts in which a tile is written late.
const PARTS: u32 = 4;

/// What a warp group multiplies.
struct Work<'m, 'b> {
    thr: ThrMma<'m, 'b>,
    a: SmemOperand<'b>,
    b: SmemOperand<'b>,
}
