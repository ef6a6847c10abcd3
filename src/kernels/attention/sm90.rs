//! The warp-specialised kernel for `sm_90a`.
//!
//! One thread of the first warp group fetches tiles of Q, K and V by tensor copies. Each consumer group has 64 queries.
//! `S = Q Kᵀ` reads both operands from shared memory, `O += P V` reads P from registers. The scores of a step are
//! multiplied while the powers of the step before are multiplied with V, and both run under the softmax of another group.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::{OnDevice, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{
    Body, GlobalMut, Kernel, KernelOptions, NamedBarrier, Shared as SharedSpace, TensorMap,
    TensorMapMut, Val, WARP, range,
};
use crate::layout::{ComposedLayout, Layout, layout, shape, tiler};
use crate::tensor::{
    AccumulatorOperand, AccumulatorRows, CopyAtom, CopyOp, Matrices, MmaAtom, OnlineSoftmax,
    Operand, OperandSource, OrderedBarrier, PipelineState, RegisterTensor, SharedTensor, SmemAtom,
    SmemOperand, SmemSwizzle, TiledCopy, TiledMma, TmaCopy, TmaPipeline, TmaStorePipeline, ValType,
    WarpRole, Wgmma, warp_roles,
};

use super::config::{AttentionConfig, GROUP, ROWS, SoftmaxOverlap, swizzle_of};
use super::error::AttentionError;

/// Alignment of swizzled tiles.
const ALIGN: u32 = 1024;

crate::params! {
    /// The parameters of the kernel.
    pub(super) struct Params<T: VectorElement<2>> {
        pub(super) q: TensorMap<T, 4>,
        pub(super) k: TensorMap<T, 4>,
        pub(super) v: TensorMap<T, 4>,
        pub(super) o: TensorMapMut<T, 4>,
        pub(super) lse: GlobalMut<f32>,
        /// The work items that blocks have taken beside their first ones; 0 before and after a launch.
        pub(super) taken: GlobalMut<u32>,
        /// Tiles of queries of a head; heads of a sequence and of all; heads that share keys; heads of a section.
        pub(super) row_tiles: i32,
        pub(super) heads: i32,
        pub(super) all_heads: i32,
        pub(super) group: i32,
        pub(super) section: i32,
        pub(super) queries: i32,
        pub(super) keys: i32,
        /// Query `i` sees the keys from `i + lower` to `i + upper`.
        pub(super) lower: i32,
        pub(super) upper: i32,
        /// The factor of scores in powers of two, and below a softcap.
        pub(super) scale: f32,
        pub(super) inner: f32,
    }
}

/// The parameters in a kernel body.
type Args<'a, T> = Params<T, OnDevice<'a>>;

/// A ring of tiles in shared memory, and the copy that fetches one.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    layout: ComposedLayout,
    pub(super) copy: TmaCopy,
}

impl Ring {
    /// Tiles of `len` positions, with the mode `dim` first where it is contiguous in the operand's M or N.
    fn new(
        elem: Scalar,
        major: Major,
        [len, dim, stages]: [u32; 3],
    ) -> Result<Ring, AttentionError> {
        let swizzle = if swizzle_of(dim) == 64 { SmemSwizzle::Sw128 } else { SmemSwizzle::Sw64 };
        let atom = SmemAtom::new(major, swizzle).position_independent(elem.bits())?;
        let (tile, ring, order) = match major {
            Major::K => (shape!(len, dim, 1, 1), shape!(len, dim, stages), [0, 1]),
            Major::Mn => (shape!(dim, len, 1, 1), shape!(dim, len, stages), [1, 0]),
        };
        let [first, second] = order;
        let tile = atom.tile_to_shape(&tile, Some(&shape!(first, second, 2, 3)))?;
        let layout = atom.tile_to_shape(&ring, Some(&shape!(first, second, 2)))?;
        Ok(Ring { layout, copy: TmaCopy::new(elem, &tile)? })
    }
}

/// Everything that is known before the kernel runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) config: AttentionConfig,
    scores: TiledMma,
    output: TiledMma,
    score_rows: AccumulatorRows,
    output_rows: AccumulatorRows,
    powers: AccumulatorOperand,
    pub(super) q: Ring,
    pub(super) k: Ring,
    pub(super) v: Ring,
    pub(super) o_copy: TmaCopy,
    o_store: TiledCopy,
}

impl Plan {
    pub(super) fn new<T: VectorElement<2>>(
        config: &AttentionConfig,
    ) -> Result<Plan, AttentionError> {
        config.check()?;
        let AttentionConfig { head_dim, value_dim, tile: [_, columns], stages, .. } = *config;
        let (elem, ty) = match T::SCALAR {
            Scalar::F16 => (Scalar::F16, ValType::F16),
            Scalar::Bf16 => (Scalar::Bf16, ValType::Bf16),
            found => return Err(AttentionError::Element { found }),
        };
        let mma = |n, source| -> Result<TiledMma, AttentionError> {
            let atom = MmaAtom::new(Wgmma::new(n, ty, ty, ValType::F32, source))?;
            Ok(TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?)
        };
        let scores = mma(columns, OperandSource::Shared)?;
        let output = mma(value_dim, OperandSource::Registers)?;
        let groups = config.groups();
        let q = Ring::new(elem, Major::K, [ROWS, head_dim, groups * config.query_stages()])?;
        let o = q.copy.tile().composition(&tiler!(ROWS, value_dim, 1, 1))?;
        let store = CopyAtom::new(CopyOp::StMatrix { matrices: Matrices::X4, transposed: false })?;
        Ok(Plan {
            config: *config,
            score_rows: AccumulatorRows::new(&scores, [ROWS, columns])?,
            output_rows: AccumulatorRows::new(&output, [ROWS, value_dim])?,
            powers: AccumulatorOperand::new(&scores, &output, [ROWS, columns])?,
            k: Ring::new(elem, Major::K, [columns, head_dim, stages])?,
            v: Ring::new(elem, Major::Mn, [columns, value_dim, stages])?,
            o_copy: TmaCopy::new(elem, &o)?,
            o_store: TiledCopy::of_operand(store, elem, &output, Operand::C)?,
            scores,
            output,
            q,
        })
    }

    /// The map of a tensor with `[len, dim, heads, batch]` and the strides of position, head and batch.
    pub(super) fn map(
        &self,
        copy: &TmaCopy,
        [len, dim, heads, batch]: [u32; 4],
        strides: [u64; 3],
    ) -> Result<TensorMapDesc, AttentionError> {
        let [position, head, sequence] = strides;
        let [len, dim, heads, batch] = [len, dim, heads, batch].map(i64::from);
        let tensor = if *copy == self.v.copy {
            Layout::new([dim, len, heads, batch], (1, position, head, sequence))?
        } else {
            Layout::new([len, dim, heads, batch], (position, 1, head, sequence))?
        };
        Ok(copy.desc(&tensor)?.with_l2_promotion(L2Promotion::B256))
    }

    pub(super) fn build<T: VectorElement<2>>(
        &self,
    ) -> Result<Kernel<(Params<T>,)>, AttentionError> {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let (options, name) = (options.min_blocks_per_sm(1), format!("attention_{}", self.config));
        let kernel = Kernel::build_with(options, &name, self.config.target, |k, (args,)| {
            self.body::<T>(k, &args);
        });
        Ok(kernel?)
    }

    fn body<'a, T: VectorElement<2>>(&self, k: &mut Body<'a, '_>, args: &Args<'a, T>) {
        let Plan { config, .. } = self;
        let groups = config.groups();
        let tiles = [&self.q, &self.k, &self.v]
            .map(|ring| SharedTensor::<T>::shared_aligned(k, ring.layout.clone(), ALIGN));
        let pipes = [
            TmaPipeline::new(k, config.query_stages(), self.q.copy.bytes() * groups, groups),
            TmaPipeline::new(k, config.stages, self.k.copy.bytes(), groups),
            TmaPipeline::new(k, config.stages, self.v.copy.bytes(), groups),
        ];
        let numbers = k.shared::<i32>(config.query_stages());
        // Warps may still wait for the section that another one of their group has ended.
        let new_order = || OrderedBarrier::new(k, groups).arrivals(GROUP / 32);
        let order = (config.ordered && groups > 1).then(new_order);
        let thread = k.thread_idx().x;
        pipes.iter().for_each(|pipe| pipe.init(k, thread.eq(0)));
        order.inspect(|order| order.init(k, thread.eq(0)));
        k.barrier();
        let roles = WarpRole::producer_and_consumers(groups, Some(config.registers()));
        warp_roles(k, &roles, config.entry_registers(), |k, role, group| {
            let shared = Shared { plan: self, args, tiles: &tiles, pipes, numbers };
            if role == 0 {
                return k.if_(thread.eq(0), |k| shared.produce(k));
            }
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let thread = thread % GROUP;
            Consumer { shared, order, group, thread, barrier }.consume(k);
        });
    }
}

crate::values! {
    /// A tile of queries: its first query, the head of all sequences' heads, and its tiles of keys.
    struct Item<'b> {
        row: Val<'b, i32>,
        head: Val<'b, i32>,
        last: Val<'b, i32>,
        steps: Val<'b, i32>,
    }
}

/// The tiles, rings and parameters that all roles share.
#[derive(Clone, Copy)]
struct Shared<'p, 'a, 'b, T: VectorElement<2>> {
    plan: &'p Plan,
    args: &'p Args<'a, T>,
    tiles: &'p [SharedTensor<'b, T>; 3],
    pipes: [TmaPipeline<'b>; 3],
    /// For each stage of Q, the number of the work item after the one in it.
    numbers: Val<'b, SharedSpace<i32>>,
}

impl<'a: 'b, 'b, T: VectorElement<2>> Shared<'_, 'a, 'b, T> {
    /// The number of work items.
    fn items<'c>(&self) -> Val<'c, i32>
    where
        'b: 'c,
    {
        self.args.row_tiles * self.args.all_heads
    }

    /// The tile of Q of a consumer group in the ring.
    fn query<'c>(&self, state: PipelineState<'c>, group: Val<'c, i32>) -> Val<'c, i32> {
        state.stage * self.plan.config.groups() + group
    }

    /// Decodes a work item: sections of heads, in a section the last tiles of all heads first, which are the longest.
    fn item<'c>(&self, k: &Body<'c, '_>, number: Val<'c, i32>) -> Item<'c>
    where
        'b: 'c,
    {
        let (args, config) = (self.args, &self.plan.config);
        let [rows, columns] = config.tile;
        let of_section = args.section * args.row_tiles;
        let section = number / of_section;
        let (first, inside) = (section * args.section, number - section * of_section);
        let heads = (args.all_heads - first).min(args.section);
        let tile = inside / heads;
        let head = first + (inside - tile * heads);
        let row = (args.row_tiles - 1 - tile) * rows;
        let zero = k.constant(0);
        let begin = match config.left {
            true => ((row + args.lower).max(0) / columns).max(zero),
            false => zero,
        };
        let end = match config.right {
            true => ((row + rows).min(args.queries) + args.upper).min(args.keys),
            false => args.keys + 0,
        };
        // At least one tile, so that the output of a query without keys is written too.
        let end = ((end.max(0) + (columns - 1)) / columns).max(begin + 1);
        Item { row, head, last: end - 1, steps: end - begin }
    }

    /// Fetches tiles, in the order in which the consumers use them.
    fn produce(&self, k: &mut Body<'b, '_>) {
        let (Plan { q, k: keys, v, config, .. }, args) = (self.plan, self.args);
        let ([sq, sk, sv], [q_pipe, k_pipe, v_pipe]) = (self.tiles, self.pipes);
        let [_, columns] = config.tile;
        let number = k.block_idx().x;
        let start = (number, q_pipe.producer(k), k_pipe.producer(k), v_pipe.producer(k));
        k.while_(
            start,
            |_, (number, ..)| number.lt(self.items()),
            |k, carried| {
                let (number, q_state, k_state, v_state) = carried;
                // Each item takes one number, so that the last one makes the count 0 again.
                let taken = args.taken.atom().inc(k, 0, (self.items() - 1).cvt::<u32>());
                let next = taken.cvt::<i32>() + k.grid_dim().x;
                let item = self.item(k, number);
                let batch = item.head / args.heads;
                let head = item.head - batch * args.heads;
                let key_head = head / args.group;
                // The tile of Q may still be the way out of the item before; K does not wait for it.
                let full = k_pipe.acquire(k, k_state);
                let to = sk.slice(k, (.., .., k_state.stage));
                keys.copy.load(k, args.k, (item.last * columns, 0, key_head, batch), &to, full);
                let full = q_pipe.acquire(k, q_state);
                for group in 0..config.groups() {
                    let to = sq.slice(k, (.., .., self.query(q_state, k.constant(group as i32))));
                    q.copy.load(k, args.q, (item.row + group * ROWS, 0, head, batch), &to, full);
                }
                let states = (k_state.next(), v_state);
                let (k_state, v_state) =
                    k.for_(range(1, item.steps), states, |k, step, (k_state, v_state)| {
                        let at = (item.last - step) * columns;
                        let full = k_pipe.acquire(k, k_state);
                        let to = sk.slice(k, (.., .., k_state.stage));
                        keys.copy.load(k, args.k, (at, 0, key_head, batch), &to, full);
                        let full = v_pipe.acquire(k, v_state);
                        let to = sv.slice(k, (.., .., v_state.stage));
                        v.copy.load(k, args.v, (0, at + columns, key_head, batch), &to, full);
                        (k_state.next(), v_state.next())
                    });
                // The barrier of V hands the number to the consumers, and that of Q says when they have read it.
                self.numbers.store(k, q_state.stage, next);
                let full = v_pipe.acquire(k, v_state);
                let to = sv.slice(k, (.., .., v_state.stage));
                let at = (item.last - item.steps + 1) * columns;
                v.copy.load(k, args.v, (0, at, key_head, batch), &to, full);
                (next, q_state.next(), k_state, v_state.next())
            },
        );
    }
}

/// A consumer warp group: 64 queries of each tile.
struct Consumer<'p, 'a, 'b, T: VectorElement<2>> {
    shared: Shared<'p, 'a, 'b, T>,
    order: Option<OrderedBarrier<'b>>,
    group: Val<'b, i32>,
    thread: Val<'b, i32>,
    barrier: NamedBarrier<'b>,
}

/// The registers of a consumer: scores, powers as the operand A, and the output.
struct Fragments<'b> {
    scores: RegisterTensor<'b, f32>,
    powers: RegisterTensor<'b, u32>,
    output: RegisterTensor<'b, f32>,
}

impl<'a: 'b, 'b, T: VectorElement<2>> Consumer<'_, 'a, 'b, T> {
    fn consume(&self, k: &mut Body<'b, '_>) {
        let Shared { plan, args, tiles: [sq, sk, sv], pipes, numbers } = self.shared;
        let [q_pipe, k_pipe, v_pipe] = pipes;
        let (rows, overlap) = (&plan.score_rows, plan.config.overlap);
        let [scores, output] = [&plan.scores, &plan.output].map(|mma| mma.slice(0));
        let q = SmemOperand::new(k, &scores.partition_a(k, sq));
        let keys = SmemOperand::new(k, &scores.partition_b(k, sk));
        let values = SmemOperand::new(k, &output.partition_b(k, sv));
        let (leader, lane) = (self.thread.eq(0), self.thread % 32);
        let parity = match self.order {
            Some(order) => order.start(self.group),
            None => k.constant(0),
        };
        let first = k.block_idx().x;
        let start = (first, q_pipe.consumer(k), k_pipe.consumer(k), v_pipe.consumer(k), parity);
        k.while_(
            start,
            |_, (number, ..)| number.lt(self.shared.items()),
            |k, carried| {
                let (number, q_state, k_state, v_state, parity) = carried;
                let q = q.stage(k, self.shared.query(q_state, self.group));
                let item = self.shared.item(k, number);
                let [_, columns] = plan.config.tile;
                let fragments = Fragments {
                    scores: scores.fragment_c(k, shape!(ROWS, columns)),
                    powers: plan.powers.fragment(k, &plan.output),
                    output: output.fragment_c(k, shape!(ROWS, plan.config.value_dim)),
                };
                let Fragments { scores: s, powers: p, output: o } = &fragments;
                q_pipe.wait(k, q_state);
                k_pipe.wait(k, k_state);
                k.wgmma_fence();
                plan.scores.gemm_async(k, s, &q, &keys.stage(k, k_state.stage), false);
                k.wgmma_commit_group();
                k.wgmma_wait_group(0);
                k.if_(leader, |k| k_pipe.release(k, k_state.stage));
                self.mask(k, s, item, item.last);
                let softmax = OnlineSoftmax::new(k);
                let (softmax, _) = softmax.update(k, &plan.score_rows, s, args.scale);
                plan.powers.convert::<T>(k, s, p);
                let carried = (softmax, k_state.next(), v_state, parity);
                let (softmax, k_state, v_state, parity) = k.for_(
                    range(1, item.steps),
                    carried,
                    |k, step, (softmax, k_state, v_state, parity)| {
                        k_pipe.wait(k, k_state);
                        self.order.inspect(|order| order.wait(k, self.group, parity));
                        k.wgmma_fence();
                        plan.scores.gemm_async(k, s, &q, &keys.stage(k, k_state.stage), false);
                        k.wgmma_commit_group();
                        self.order.inspect(|order| order.arrive(k, self.group, lane.eq(0)));
                        v_pipe.wait(k, v_state);
                        k.wgmma_fence();
                        plan.output.gemm_async(
                            k,
                            o,
                            p,
                            &values.stage(k, v_state.stage),
                            step.gt(1),
                        );
                        k.wgmma_commit_group();
                        k.wgmma_wait_group(1);
                        k.if_(leader, |k| k_pipe.release(k, k_state.stage));
                        self.mask(k, s, item, item.last - step);
                        // Q stays until the item ends; another warp may have released K and V already.
                        let maxima = softmax.maxima(k, rows, s);
                        if overlap == SoftmaxOverlap::Maxima {
                            q_pipe.wait(k, q_state);
                        }
                        let (softmax, factors) = softmax.update_to(k, rows, s, args.scale, maxima);
                        if overlap == SoftmaxOverlap::Softmax {
                            q_pipe.wait(k, q_state);
                        }
                        k.wgmma_wait_group(0);
                        k.if_(leader, |k| v_pipe.release(k, v_state.stage));
                        OnlineSoftmax::rescale(k, &plan.output_rows, o, factors);
                        plan.powers.convert::<T>(k, s, p);
                        (softmax, k_state.next(), v_state.next(), parity ^ 1)
                    },
                );
                v_pipe.wait(k, v_state);
                // All lanes read the same number; `ptxas` knows it of what a lane hands to the others.
                let number = numbers.load(k, q_state.stage);
                let next = k.shfl_idx(WARP, number, 0);
                k.wgmma_fence();
                plan.output.gemm_async(k, o, p, &values.stage(k, v_state.stage), item.steps.gt(1));
                k.wgmma_commit_group();
                let [inverse, lse] = softmax.finish(k, &plan.score_rows, args.scale);
                k.wgmma_wait_group(0);
                k.if_(leader, |k| v_pipe.release(k, v_state.stage));
                OnlineSoftmax::rescale(k, &plan.output_rows, o, inverse);
                self.store(k, item, q_state, o, lse);
                k.if_(leader, |k| q_pipe.release(k, q_state.stage));
                (next, q_state.next(), k_state, v_state.next(), parity)
            },
        );
    }

    /// Returns the first key that a query does not see.
    fn high<'c>(&self, query: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        let args = self.shared.args;
        match self.shared.plan.config.right {
            true => (query + args.upper + 1).min(args.keys),
            false => args.keys + 0,
        }
    }

    /// Masks the scores of a tile of keys, if the mask cuts it.
    fn mask<'c>(
        &self,
        k: &mut Body<'c, '_>,
        scores: &RegisterTensor<'c, f32>,
        item: Item<'c>,
        tile: Val<'c, i32>,
    ) where
        'b: 'c,
    {
        let (Plan { config, score_rows, .. }, args) = (self.shared.plan, self.shared.args);
        if config.softcap {
            for row in 0..score_rows.row_offsets().len() {
                score_rows.map_row(k, scores, row, |_, score| (score * args.inner).tanh_fast());
            }
        }
        let [_, columns] = config.tile;
        let (first, column) = (item.row + self.group * ROWS, tile * columns);
        let cut = (column + columns).gt(self.high(first));
        let cut = match config.left {
            true => cut | column.lt(first + (ROWS - 1) + args.lower),
            false => cut,
        };
        k.if_(cut, |k| {
            let [own_row, own_column] = score_rows.origin(k, &self.shared.plan.scores, self.thread);
            let (first, column) = (first + own_row, column + own_column);
            score_rows.mask(k, scores, f32::NEG_INFINITY, |offset| {
                let low = config.left.then(|| first + offset + args.lower - column);
                [low, Some(self.high(first + offset) - column)]
            });
        });
    }

    /// Writes the output, through the tile of Q, and the LSE of the group's queries.
    fn store<'c>(
        &self,
        k: &mut Body<'c, '_>,
        item: Item<'c>,
        state: PipelineState<'c>,
        output: &RegisterTensor<'c, f32>,
        lse: [Val<'c, f32>; 2],
    ) where
        'b: 'c,
    {
        let Shared { plan, args, tiles: [sq, ..], .. } = self.shared;
        let (dim, thread) = (plan.config.value_dim, self.thread);
        let first = item.row + self.group * ROWS;
        let [own_row, own_column] = plan.output_rows.origin(k, &plan.output, thread);
        for (offset, lse) in plan.output_rows.row_offsets().iter().zip(lse) {
            let row = first + own_row + *offset;
            let mine = own_column.eq(0) & row.lt(args.queries);
            k.if_(mine, |k| args.lse.store(k, item.head * args.queries + row, lse));
        }
        let rounded = plan.output.slice(0).fragment_c::<T>(k, shape!(ROWS, dim));
        let (from, to) = (output.variables(), rounded.variables());
        for pair in 0..to.len() / 2 {
            let two = [2 * pair, 2 * pair + 1];
            let values = Val::pack(two.map(|register| from.get(k, register))).cvt::<T>().lanes();
            two.into_iter().zip(values).for_each(|(register, value)| to.set(k, register, value));
        }
        let batch = item.head / args.heads;
        let head = item.head - batch * args.heads;
        let tile = sq
            .slice(k, (.., .., self.shared.query(state, self.group)))
            .composition(k, &tiler!(ROWS, dim));
        let pipe = TmaStorePipeline::new(k, 1, thread.eq(0)).with_barrier(self.barrier);
        let thr = plan.o_store.slice(thread);
        pipe.acquire(k);
        thr.copy(k, &thr.retile_s(k, &rounded), &thr.partition_d(k, &tile));
        pipe.commit(k, |k| plan.o_copy.store(k, args.o, &tile, (first, 0, head, batch)));
        pipe.finish(k);
    }
}
