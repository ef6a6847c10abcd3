//! The warp-specialised attention kernel for `sm_90a`, as in FlashAttention-3 (Shah et al. 2024).
//!
//! A block is persistent and fetches work items from a counter, each a tile of queries of one head
//! ([`Item`]). One thread of the first warp group, the producer, fetches the items' indices, and
//! the tiles of Q, K and V by TMA. Each consumer group has 64 rows of the query tile. For each tile
//! of keys, from the last one the queries see to the first, a consumer
//!
//! 1. starts `S = Q Kᵀ` for this tile (both operands in shared memory),
//! 2. starts `O += P V` for the previous tile (P in registers),
//! 3. waits for S, masks it, and computes the online softmax while P V still runs,
//! 4. waits for P V, rescales O, and converts the new weights to P.
//!
//! So a group's softmax overlaps with its own P V and with the other groups' MMAs. After the last
//! tile it divides O by the row sums and stores it with the LSE.

use crate::ir::builder::{IntoVal, MbarrierRef};
use crate::ir::op::BulkWait;
use crate::ir::{Body, NamedBarrier, Val, range};
use crate::layout::{ComposedLayout, shape};
use crate::tensor::atom::TiledMma;
use crate::tensor::mma::{OnlineSoftmax, SmemOperand, WgmmaOperand};
use crate::tensor::pipeline::{
    OrderedBarrier, PipelineState, TmaPipeline, WarpRole, WorkCounter, WorkNumbers, WorkScheduler,
    warp_roles,
};
use crate::tensor::view::{RegisterTensor, SharedTensor};

use super::config::{GROUP, ROWS, SoftmaxOverlap};
use super::item::{Item, ScoreTile};
use super::plan::{Args, Output, ParamsAt, Plan, X};

/// Alignment of swizzled tiles, in bytes.
const ALIGN: u32 = 1024;

impl Plan {
    /// Emits the kernel: setup by all threads, then one body per warp-group role.
    #[inline]
    pub(super) fn body<'a>(&self, k: &mut Body<'a, '_>, args: &Args<'a>) {
        let Plan { config, .. } = self;
        let groups = config.groups();
        let tiles = [&self.q, &self.k, &self.v]
            .map(|ring| SharedTensor::<X>::shared_aligned(k, ring.layout.clone(), ALIGN));
        let aligned =
            |layout: &ComposedLayout| SharedTensor::<X>::shared_aligned(k, layout.clone(), ALIGN);
        let o_ring = self.o_ring.as_ref().map(aligned);
        let pipes = [
            TmaPipeline::new(k, config.query_stages(), self.q.copy.bytes() * groups, groups),
            TmaPipeline::new(k, config.stages, self.k.copy.bytes(), groups),
            TmaPipeline::new(k, config.stages, self.v.copy.bytes(), groups),
        ];
        let (numbers, open) = (WorkNumbers::new(k, 2), k.shared::<u64>(1).mbarrier(0));
        // Several arrivals, because a warp may still wait for the turn that another warp of its
        // group has ended.
        let new_order = || OrderedBarrier::new(k, groups).arrivals(GROUP / 32);
        let order = (config.ordered && groups > 1).then(new_order);
        let thread = k.thread_idx().x;
        pipes.iter().for_each(|pipe| pipe.init(thread.eq(0)));
        if let Some(order) = order {
            order.init(thread.eq(0));
        }
        k.if_(thread.eq(0), |_| open.init(1));
        k.barrier();
        let roles = WarpRole::producers_and_consumers([1, groups], Some(config.registers()));
        warp_roles(k, &roles, config.entry_registers(), |k, role, group| {
            let shared =
                Shared { plan: self, args, tiles: &tiles, o_ring: o_ring.as_ref(), pipes, numbers };
            if role == 0 {
                return k.if_(thread.eq(0), |k| shared.produce(k));
            }
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let thread = thread % GROUP;
            Consumer { shared, order, open, group, thread, barrier }.consume(k);
        });
    }
}

/// The tiles, ring buffers and parameters that all roles share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'p, 'a, 'b> {
    pub(super) plan: &'p Plan,
    pub(super) args: &'p Args<'a>,
    pub(super) tiles: &'p [SharedTensor<'b, X>; 3],
    pub(super) o_ring: Option<&'p SharedTensor<'b, X>>,
    pub(super) pipes: [TmaPipeline<'b>; 3],
    /// The indices of the next work items, published by the producer.
    numbers: WorkNumbers<'b>,
}

impl<'a: 'b, 'b> Shared<'_, 'a, 'b> {
    /// Returns the counter from which the producer fetches the work items.
    #[inline]
    fn work(&self) -> WorkCounter<'b> {
        let ParamsAt { taken, row_tiles, all_heads, .. } = self.args.params;
        WorkCounter::new(taken, row_tiles * all_heads)
    }

    /// Returns the index of a consumer group's tile of Q in the ring buffer.
    #[inline]
    pub(super) fn query(&self, state: PipelineState<'b>, group: Val<'b, i32>) -> Val<'b, i32> {
        state.stage * self.plan.config.groups() + group
    }

    #[inline]
    fn item(&self, k: &mut Body<'b, '_>, number: Val<'b, i32>) -> Item<'b> {
        let (config, Args { output, params, .. }) = (&self.plan.config, self.args);
        let sequences = match output {
            Output::Rows(sequences) if config.varlen => Some(sequences),
            _ => None,
        };
        // Decoding relies on it, and not every loop shows it.
        let items = params.row_tiles * params.all_heads;
        Item::decode(k, config, params, sequences, number.assume_between(0, items - 1))
    }

    /// Fetches a tile of K (operand 1) or of V (operand 2) into its stage.
    #[inline]
    fn fetch(
        &self,
        operand: usize,
        state: PipelineState<'b>,
        item: Item<'b>,
        tile: Val<'b, i32>,
        [head, batch]: [Val<'b, i32>; 2],
    ) {
        let (plan, inputs) = (self.plan, &self.args.inputs);
        let key = item.key(tile * plan.config.tile[1]);
        let full = self.pipes[operand].acquire(state);
        let to = self.tiles[operand].slice((.., .., state.stage));
        match operand {
            1 => plan.k.copy.load(inputs.k, (key, 0, head, batch), &to, full),
            _ => plan.v.copy.load(inputs.v, (0, key, head, batch), &to, full),
        }
    }

    /// Fetches all tiles, in the order in which consumers use them.
    #[inline]
    fn produce(&self, k: &mut Body<'b, '_>) {
        let Plan { q, config, packed, .. } = self.plan;
        let (args, inputs) = (&self.args.params, &self.args.inputs);
        let ([sq, ..], [q_pipe, k_pipe, v_pipe]) = (self.tiles, self.pipes);
        let number = k.block_idx().x;
        let start = (number, q_pipe.producer(), k_pipe.producer(), v_pipe.producer());
        k.while_(
            start,
            |_, (number, ..)| self.work().is_item(number),
            |k, (number, q_state, k_state, v_state)| {
                let next = self.work().next(k, number);
                let item = self.item(k, number);
                let [head, key_head, batch] = item.heads(config, args);
                let heads = [key_head, batch];
                // Q's stage may still hold an output that TMA is reading. K does not have to wait
                // for that.
                self.fetch(1, k_state, item, item.last, heads);
                let full = q_pipe.acquire(q_state);
                for group in 0..config.groups() {
                    let slot = self.query(q_state, k.constant(group as i32));
                    let to = sq.slice((.., .., slot)).composition(&packed[0]);
                    let at = item.query(item.row + group * config.queries_of_group());
                    q.copy.load(inputs.q, (at, 0, head, batch), &to, full);
                }
                let states = (k_state.next(), v_state);
                let (k_state, v_state) =
                    k.for_(range(1, item.steps), states, |_, step, (k_state, v_state)| {
                        self.fetch(1, k_state, item, item.last - step, heads);
                        self.fetch(2, v_state, item, item.last - step + 1, heads);
                        (k_state.next(), v_state.next())
                    });
                // V's full barrier publishes `next` to the consumers. The slot is free again once
                // they release the following Q stage.
                self.numbers.write(slot(q_state, q_pipe.producer()), next);
                self.fetch(2, v_state, item, item.last - item.steps + 1, heads);
                (next, q_state.next(), k_state, v_state.next())
            },
        );
    }
}

/// A consumer warp group. It has 64 rows of each query tile.
pub(super) struct Consumer<'p, 'a, 'b> {
    pub(super) shared: Shared<'p, 'a, 'b>,
    order: Option<OrderedBarrier<'b>>,
    /// An mbarrier that never completes a phase, so waiting for the previous parity returns at
    /// once. Used only to pin `ptxas`'s schedule.
    open: MbarrierRef<'b>,
    pub(super) group: Val<'b, i32>,
    pub(super) thread: Val<'b, i32>,
    pub(super) barrier: NamedBarrier<'b>,
}

impl<'a: 'b, 'b> Consumer<'_, 'a, 'b> {
    #[inline]
    fn consume(&self, k: &mut Body<'b, '_>) {
        let Shared { plan, args, tiles: [sq, sk, sv], pipes, numbers, .. } = self.shared;
        let args = &args.params;
        let ([q_pipe, k_pipe, v_pipe], config, rows) = (pipes, &plan.config, &plan.score_rows);
        let ([_, columns], overlap, lazy) = (config.tile, config.overlap, config.lazy);
        let [scores, output] = [&plan.scores, &plan.output].map(|mma| mma.slice(0));
        let q = SmemOperand::new(&scores.partition_a(sq));
        let keys = SmemOperand::new(&scores.partition_b(sk));
        let values = SmemOperand::new(&output.partition_b(sv));
        // S, the weights P as operand A, and O.
        let s = &scores.fragment_c(k, shape!(ROWS, columns));
        let p = &plan.powers.fragment(k, &plan.output);
        let o = &output.fragment_c(k, shape!(ROWS, config.value_dim));
        let (leader, lane) = (self.thread.eq(0), self.thread % 32);
        let parity = match self.order {
            Some(order) => order.start(self.group),
            None => k.constant(0),
        };
        // Multiply the next item's first scores while this item's output is written.
        let ahead = config.scores_ahead();
        let first = k.block_idx().x;
        let [q_state, k_state, v_state] = pipes.map(|pipe| pipe.consumer());
        if ahead {
            self.first_scores(&mut k.rescoped(), &q, &keys, s, q_state, k_state);
        }
        k.loop_::<_, ()>((first, q_state, k_state, v_state, parity), |k, items, carried| {
            let (number, q_state, k_state, v_state, parity) = carried;
            if !ahead {
                k.if_(!self.shared.work().is_item(number), |k| items.break_(k, ()));
                self.first_scores(k, &q, &keys, s, q_state, k_state);
            }
            let own_q = q.stage(self.shared.query(q_state, self.group));
            let item = self.shared.item(k, number);
            k.wgmma_wait_group(0);
            self.release_scores(k, item.steps.eq(1), q_state, k_state);
            self.mask(k, item, s, item.last);
            let softmax = OnlineSoftmax::new(k);
            let (softmax, _) = softmax.update(rows, s, args.scale);
            plan.powers.convert::<X>(s, p);
            if ahead && config.query_stages() > 1 {
                // By now, TMA has read the previous item's output.
                k.if_(leader & number.ne(first), |k| self.release_queries(k, q_state.next()));
            }
            let carried = (softmax, k_state.next(), v_state, parity);
            let (softmax, k_state, v_state, parity) = k.for_(
                range(1, item.steps),
                carried,
                |k, step, (softmax, k_state, v_state, parity)| {
                    k_pipe.wait(k_state);
                    if let Some(order) = self.order {
                        order.wait(self.group, parity);
                    }
                    multiply(k, &plan.scores, s, &own_q, &keys, k_state, false);
                    if let Some(order) = self.order {
                        order.arrive(self.group, lane.eq(0));
                    }
                    v_pipe.wait(v_state);
                    multiply(k, &plan.output, o, p, &values, v_state, step.gt(1));
                    k.wgmma_wait_group(1);
                    self.release_scores(k, step.eq(item.steps - 1), q_state, k_state);
                    self.mask(k, item, s, item.last - step);
                    let maxima = softmax.maxima(rows, s, args.scale, lazy);
                    if overlap == SoftmaxOverlap::Maxima {
                        self.hold(q_state);
                    }
                    let (softmax, factors) = softmax.update_to(rows, s, args.scale, maxima);
                    if overlap == SoftmaxOverlap::Softmax {
                        self.hold(q_state);
                    }
                    k.wgmma_wait_group(0);
                    k.if_(leader, |_| v_pipe.release(v_state));
                    OnlineSoftmax::rescale(&plan.output_rows, o, factors, lazy);
                    plan.powers.convert::<X>(s, p);
                    (softmax, k_state.next(), v_state.next(), parity ^ 1)
                },
            );
            v_pipe.wait(v_state);
            let next = numbers.read(slot(q_state, q_pipe.consumer()));
            let (has_steps, ends) = (item.steps.gt(1), softmax.finish(rows, args.scale));
            if ahead {
                // `ptxas` serialises MMAs in flight at a branch, so each side of it has its own
                // copy of the last one.
                k.if_(!self.shared.work().is_item(next), |k| {
                    multiply(k, &plan.output, o, p, &values, v_state, has_steps);
                    k.wgmma_wait_group(0);
                    self.end(k, item, o, ends, q_state, v_state);
                    // Shared memory must stay alive until TMA has read it.
                    k.if_(leader, |k| k.cp_async_bulk_wait_group(0, BulkWait::Read));
                    items.break_(k, ())
                });
            }
            multiply(k, &plan.output, o, p, &values, v_state, has_steps);
            if ahead {
                self.first_scores(k, &q, &keys, s, q_state.next(), k_state);
            }
            k.wgmma_wait_group(u32::from(ahead));
            self.end(k, item, o, ends, q_state, v_state);
            items.continue_(k, (next, q_state.next(), k_state, v_state.next(), parity))
        });
    }

    /// Releases a tile of K whose scores are complete. After the `last` scores of an item, also
    /// releases its tile of Q, if Q has a single stage.
    #[inline]
    fn release_scores(
        &self,
        k: &mut Body<'b, '_>,
        last: Val<'b, bool>,
        q_state: PipelineState<'b>,
        k_state: PipelineState<'b>,
    ) {
        let Shared { plan, pipes: [q_pipe, k_pipe, _], .. } = self.shared;
        k.if_(self.thread.eq(0), |k| {
            k_pipe.release(k_state);
            if plan.config.query_stages() == 1 {
                k.if_(last, |_| q_pipe.release(q_state));
            }
        });
    }

    /// Waits for a barrier that is already complete, to keep `ptxas` from moving later waits up.
    /// With two stages that is the tile of Q, which stays until the item ends, otherwise `open`. K
    /// and V will not do, because another warp may have released them.
    #[inline]
    fn hold(&self, q_state: PipelineState<'b>) {
        match q_state.stages {
            1 => self.open.wait_parity(1u32),
            _ => self.shared.pipes[0].wait(q_state),
        }
    }

    /// Starts S = Q Kᵀ for an item's first tile of keys.
    #[inline]
    fn first_scores(
        &self,
        k: &mut Body<'b, '_>,
        q: &SmemOperand<'b>,
        keys: &SmemOperand<'b>,
        scores: &RegisterTensor<'b, f32>,
        q_state: PipelineState<'b>,
        k_state: PipelineState<'b>,
    ) {
        let Shared { plan, pipes: [q_pipe, k_pipe, _], .. } = self.shared;
        q_pipe.wait(q_state);
        k_pipe.wait(k_state);
        let q = q.stage(self.shared.query(q_state, self.group));
        multiply(k, &plan.scores, scores, &q, keys, k_state, false);
    }

    /// Masks the scores of a tile of keys, if the mask cuts through it.
    #[inline]
    fn mask(
        &self,
        k: &mut Body<'b, '_>,
        item: Item<'b>,
        scores: &RegisterTensor<'b, f32>,
        tile: Val<'b, i32>,
    ) {
        let Shared { plan, args, .. } = self.shared;
        let queries = plan.config.queries_of_group();
        let tile = ScoreTile {
            mma: &plan.scores,
            rows: &plan.score_rows,
            thread: self.thread,
            scores,
            first_query: item.row + self.group * queries,
            queries,
            first_key: tile * plan.config.tile[1],
        };
        item.mask(k, &plan.config, &args.params, &tile);
    }

    /// Releases an item's tile of Q once TMA has read the output staged in it. Called by the
    /// leader.
    #[inline]
    pub(super) fn release_queries(&self, k: &mut Body<'b, '_>, state: PipelineState<'b>) {
        k.cp_async_bulk_wait_group(0, BulkWait::Read);
        self.shared.pipes[0].release(state);
    }
}

/// Returns the slot for the index of the item after this one. Items alternate between two. `start`
/// is the role's state at its first item.
#[inline]
fn slot<'b>(state: PipelineState<'b>, start: PipelineState<'b>) -> Val<'b, i32> {
    if state.stages == 1 { (state.parity ^ start.parity).cvt::<i32>() } else { state.stage }
}

/// Starts `acc = a b`, or `acc += a b` if `adds` is true, as one `wgmma` group. `state` has `b`'s
/// stage.
#[inline]
fn multiply<'b>(
    k: &Body<'b, '_>,
    mma: &TiledMma,
    acc: &RegisterTensor<'b, f32>,
    a: &impl WgmmaOperand<'b>,
    b: &SmemOperand<'b>,
    state: PipelineState<'b>,
    adds: impl IntoVal<'b, bool>,
) {
    k.wgmma_fence();
    mma.gemm_async(acc, a, &b.stage(state.stage), adds);
    k.wgmma_commit_group();
}
