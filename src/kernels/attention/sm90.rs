//! The warp-specialised kernel for `sm_90a`.
//!
//! One thread of the first warp group fetches tiles of Q, K and V by tensor copies. Each consumer group has 64 rows of
//! queries. `S = Q Kᵀ` reads both operands from shared memory, `O += P V` reads P from registers. The scores of a step are
//! multiplied while the powers of the step before are multiplied with V, and both run under the softmax of another group.

use crate::ir::builder::{IntoVal, VectorElement};
use crate::ir::op::BulkWait;
use crate::ir::{Body, NamedBarrier, TensorMapMut, Val, range};
use crate::layout::{shape, tiler};
use crate::tensor::{
    OnlineSoftmax, OrderedBarrier, PipelineState, RegisterTensor, SharedTensor, SmemOperand,
    TiledMma, TmaPipeline, TmaStorePipeline, WarpRole, WgmmaOperand, WorkCounter, WorkNumbers,
    WorkScheduler, warp_roles,
};

use super::config::{GROUP, ROWS, SoftmaxOverlap};
use super::item::{Item, Own};
use super::plan::{Args, Output, Params, Plan};

/// Alignment of swizzled tiles.
const ALIGN: u32 = 1024;

impl Plan {
    /// The kernel.
    pub(super) fn body<'a, T: VectorElement<2>>(&self, k: &mut Body<'a, '_>, args: &Args<'a, T>) {
        let Plan { config, .. } = self;
        let groups = config.groups();
        let tiles = [&self.q, &self.k, &self.v]
            .map(|ring| SharedTensor::<T>::shared_aligned(k, ring.layout.clone(), ALIGN));
        let pipes = [
            TmaPipeline::new(k, config.query_stages(), self.q.copy.bytes() * groups, groups),
            TmaPipeline::new(k, config.stages, self.k.copy.bytes(), groups),
            TmaPipeline::new(k, config.stages, self.v.copy.bytes(), groups),
        ];
        let numbers = WorkNumbers::new(k, config.query_stages());
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

/// The tiles, rings and parameters that all roles share.
#[derive(Clone, Copy)]
struct Shared<'p, 'a, 'b, T: VectorElement<2>> {
    plan: &'p Plan,
    args: &'p Args<'a, T>,
    tiles: &'p [SharedTensor<'b, T>; 3],
    pipes: [TmaPipeline<'b>; 3],
    /// For each stage of Q, the number of the work item after the one in it.
    numbers: WorkNumbers<'b>,
}

impl<'a: 'b, 'b, T: VectorElement<2>> Shared<'_, 'a, 'b, T> {
    /// The work items, which the producer draws.
    fn work(&self) -> WorkCounter<'b> {
        let Params { taken, row_tiles, all_heads, .. } = self.args.params;
        WorkCounter::new(taken, row_tiles * all_heads)
    }

    /// The tile of Q of a consumer group in the ring.
    fn query(&self, state: PipelineState<'b>, group: Val<'b, i32>) -> Val<'b, i32> {
        state.stage * self.plan.config.groups() + group
    }

    /// The tile of a slot of Q or O in the ring, as its tensor copy has it: heads may share it.
    fn packed(
        &self,
        k: &Body<'b, '_>,
        tile: SharedTensor<'b, T>,
        which: usize,
    ) -> SharedTensor<'b, T> {
        let packed = self.plan.packed.as_ref().map(|packed| &packed[which]);
        packed.map_or_else(|| tile.clone(), |packed| tile.composition(k, packed))
    }

    fn item(&self, k: &mut Body<'b, '_>, number: Val<'b, i32>) -> Item<'b> {
        let Args { output, params, .. } = self.args;
        let sequences = match output {
            Output::Map(_) => None,
            Output::Sequences(of) => Some(of),
        };
        Item::decode(k, &self.plan.config, params, sequences, number)
    }

    /// Fetches tiles, in the order in which the consumers use them.
    fn produce(&self, k: &mut Body<'b, '_>) {
        let Plan { q, k: keys, v, config, .. } = self.plan;
        let (args, inputs) = (&self.args.params, &self.args.inputs);
        let ([sq, sk, sv], [q_pipe, k_pipe, v_pipe]) = (self.tiles, self.pipes);
        let [_, columns] = config.tile;
        let number = k.block_idx().x;
        let start = (number, q_pipe.producer(k), k_pipe.producer(k), v_pipe.producer(k));
        k.while_(
            start,
            |_, (number, ..)| self.work().is_item(number),
            |k, carried| {
                let (number, q_state, k_state, v_state) = carried;
                let next = self.work().next(k, number);
                let item = self.item(k, number);
                let [head, key_head, batch] = item.heads(config, args);
                // The tile of Q may still be the way out of the item before; K does not wait for it.
                let full = k_pipe.acquire(k, k_state);
                let to = sk.slice(k, (.., .., k_state.stage));
                let at = item.key(item.last * columns);
                keys.copy.load(k, inputs.k, (at, 0, key_head, batch), &to, full);
                let full = q_pipe.acquire(k, q_state);
                for group in 0..config.groups() {
                    let to = sq.slice(k, (.., .., self.query(q_state, k.constant(group as i32))));
                    let to = self.packed(k, to, 0);
                    let at = item.query(item.row + group * config.queries_of_group());
                    q.copy.load(k, inputs.q, (at, 0, head, batch), &to, full);
                }
                let states = (k_state.next(), v_state);
                let (k_state, v_state) =
                    k.for_(range(1, item.steps), states, |k, step, (k_state, v_state)| {
                        let at = item.key((item.last - step) * columns);
                        let full = k_pipe.acquire(k, k_state);
                        let to = sk.slice(k, (.., .., k_state.stage));
                        keys.copy.load(k, inputs.k, (at, 0, key_head, batch), &to, full);
                        let full = v_pipe.acquire(k, v_state);
                        let to = sv.slice(k, (.., .., v_state.stage));
                        v.copy.load(k, inputs.v, (0, at + columns, key_head, batch), &to, full);
                        (k_state.next(), v_state.next())
                    });
                // The barrier of V hands the number to the consumers, and that of Q says when they have read it.
                self.numbers.write(k, q_state.stage, next);
                let full = v_pipe.acquire(k, v_state);
                let to = sv.slice(k, (.., .., v_state.stage));
                let at = item.key((item.last - item.steps + 1) * columns);
                v.copy.load(k, inputs.v, (0, at, key_head, batch), &to, full);
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

/// An item that ends: the reciprocal sums and the LSE of its rows, and the stages of Q and V that it releases.
#[derive(Clone, Copy)]
struct Ending<'b> {
    item: Item<'b>,
    ends: [[Val<'b, f32>; 2]; 2],
    states: [PipelineState<'b>; 2],
}

impl<'a: 'b, 'b, T: VectorElement<2>> Consumer<'_, 'a, 'b, T> {
    fn consume(&self, k: &mut Body<'b, '_>) {
        let Shared { plan, args: Args { params: args, .. }, tiles: [sq, sk, sv], pipes, numbers } =
            self.shared;
        let [q_pipe, k_pipe, v_pipe] = pipes;
        let (rows, overlap, lazy) = (&plan.score_rows, plan.config.overlap, plan.config.lazy);
        let [scores, output] = [&plan.scores, &plan.output].map(|mma| mma.slice(0));
        let q = SmemOperand::new(k, &scores.partition_a(k, sq));
        let keys = SmemOperand::new(k, &scores.partition_b(k, sk));
        let values = SmemOperand::new(k, &output.partition_b(k, sv));
        let [_, columns] = plan.config.tile;
        // Scores, powers as the operand A, and the output.
        let s = &scores.fragment_c(k, shape!(ROWS, columns));
        let p = &plan.powers.fragment(k, &plan.output);
        let o = &output.fragment_c(k, shape!(ROWS, plan.config.value_dim));
        let operands = [&q, &keys];
        let (leader, lane) = (self.thread.eq(0), self.thread % 32);
        let parity = match self.order {
            Some(order) => order.start(self.group),
            None => k.constant(0),
        };
        // The first scores of the next item are multiplied while the output of an item is written. The tile of Q of the next
        // item is another one then.
        let ahead = plan.config.scores_ahead();
        let first = k.block_idx().x;
        let [q_state, k_state, v_state] = pipes.map(|pipe| pipe.consumer(k));
        if ahead {
            self.first_scores(&mut k.rescoped(), operands, s, [q_state, k_state]);
        }
        k.loop_::<_, ()>((first, q_state, k_state, v_state, parity), |k, items, carried| {
            let (number, q_state, k_state, v_state, parity) = carried;
            if !ahead {
                k.if_(!self.shared.work().is_item(number), |k| items.break_(k, ()));
                self.first_scores(k, operands, s, [q_state, k_state]);
            }
            let q = q.stage(k, self.shared.query(q_state, self.group));
            let item = self.shared.item(k, number);
            k.wgmma_wait_group(0);
            k.if_(leader, |k| k_pipe.release(k, k_state));
            self.mask(k, s, item, item.last);
            let softmax = OnlineSoftmax::new(k);
            let (softmax, _) = softmax.update(k, rows, s, args.scale);
            plan.powers.convert::<T>(k, s, p);
            if ahead {
                // By now the copies have read the output of the item before.
                k.if_(leader & number.ne(first), |k| self.release_queries(k, q_state.next()));
            }
            let carried = (softmax, k_state.next(), v_state, parity);
            let (softmax, k_state, v_state, parity) = k.for_(
                range(1, item.steps),
                carried,
                |k, step, (softmax, k_state, v_state, parity)| {
                    k_pipe.wait(k, k_state);
                    self.order.inspect(|order| order.wait(k, self.group, parity));
                    multiply(k, &plan.scores, s, (&q, &keys), k_state, false);
                    self.order.inspect(|order| order.arrive(k, self.group, lane.eq(0)));
                    v_pipe.wait(k, v_state);
                    multiply(k, &plan.output, o, (p, &values), v_state, step.gt(1));
                    k.wgmma_wait_group(1);
                    k.if_(leader, |k| k_pipe.release(k, k_state));
                    self.mask(k, s, item, item.last - step);
                    // Q stays until the item ends; another warp may have released K and V already.
                    let mut maxima = softmax.maxima(k, rows, s);
                    if overlap == SoftmaxOverlap::Maxima {
                        q_pipe.wait(k, q_state);
                    }
                    if lazy {
                        maxima = softmax.settle(k, args.scale, maxima);
                    }
                    let (softmax, factors) = softmax.update_to(k, rows, s, args.scale, maxima);
                    if overlap == SoftmaxOverlap::Softmax {
                        q_pipe.wait(k, q_state);
                    }
                    k.wgmma_wait_group(0);
                    k.if_(leader, |k| v_pipe.release(k, v_state));
                    if lazy {
                        OnlineSoftmax::rescale_changed(k, &plan.output_rows, o, factors);
                    } else {
                        OnlineSoftmax::rescale(k, &plan.output_rows, o, factors);
                    }
                    plan.powers.convert::<T>(k, s, p);
                    (softmax, k_state.next(), v_state.next(), parity ^ 1)
                },
            );
            v_pipe.wait(k, v_state);
            let next = numbers.read(k, q_state.stage);
            let (has_steps, ends) = (item.steps.gt(1), softmax.finish(k, rows, args.scale));
            let end = Ending { item, ends, states: [q_state, v_state] };
            if ahead {
                // `ptxas` serialises products that are in flight where paths part, so each path has the last one.
                k.if_(!self.shared.work().is_item(next), |k| {
                    multiply(k, &plan.output, o, (p, &values), v_state, has_steps);
                    k.wgmma_wait_group(0);
                    self.end(k, o, end);
                    // Shared memory stays until the copies have read it.
                    k.if_(leader, |k| k.cp_async_bulk_wait_group(0, BulkWait::Read));
                    items.break_(k, ())
                });
            }
            multiply(k, &plan.output, o, (p, &values), v_state, has_steps);
            if ahead {
                self.first_scores(k, operands, s, [q_state.next(), k_state]);
            }
            k.wgmma_wait_group(u32::from(ahead));
            self.end(k, o, end);
            items.continue_(k, (next, q_state.next(), k_state, v_state.next(), parity))
        });
    }

    /// Starts the product of the queries of an item with its first tile of keys.
    fn first_scores(
        &self,
        k: &mut Body<'b, '_>,
        [q, keys]: [&SmemOperand<'b>; 2],
        scores: &RegisterTensor<'b, f32>,
        [q_state, k_state]: [PipelineState<'b>; 2],
    ) {
        let Shared { plan, pipes: [q_pipe, k_pipe, _], .. } = self.shared;
        q_pipe.wait(k, q_state);
        k_pipe.wait(k, k_state);
        let q = q.stage(k, self.shared.query(q_state, self.group));
        multiply(k, &plan.scores, scores, (&q, keys), k_state, false);
    }

    /// Ends an item, whose last product is complete.
    fn end(
        &self,
        k: &mut Body<'b, '_>,
        output: &RegisterTensor<'b, f32>,
        Ending { item, ends: [inverse, lse], states: [q_state, v_state] }: Ending<'b>,
    ) {
        let Shared { plan, pipes: [.., v_pipe], .. } = self.shared;
        let leader = self.thread.eq(0);
        k.if_(leader, |k| v_pipe.release(k, v_state));
        OnlineSoftmax::rescale(k, &plan.output_rows, output, inverse);
        self.store(k, item, q_state, output, lse);
        if !plan.config.scores_ahead() {
            k.if_(leader, |k| self.release_queries(k, q_state));
        }
    }

    /// Releases the tile of Q of an item, in the leader, when its copies have read the output in it.
    fn release_queries(&self, k: &mut Body<'b, '_>, state: PipelineState<'b>) {
        k.cp_async_bulk_wait_group(0, BulkWait::Read);
        self.shared.pipes[0].release(k, state);
    }

    /// Masks the scores of a tile of keys, if the mask cuts it.
    fn mask(
        &self,
        k: &mut Body<'b, '_>,
        scores: &RegisterTensor<'b, f32>,
        item: Item<'b>,
        tile: Val<'b, i32>,
    ) {
        let Plan { config, scores: mma, score_rows: rows, .. } = self.shared.plan;
        let (queries, params) = (config.queries_of_group(), &self.shared.args.params);
        let first = item.row + self.group * queries;
        let of = (mma, rows, self.thread);
        item.mask(k, config, params, of, scores, (first, queries, tile * config.tile[1]));
    }

    /// Writes the output and the LSE of the group's queries.
    fn store(
        &self,
        k: &mut Body<'b, '_>,
        item: Item<'b>,
        state: PipelineState<'b>,
        output: &RegisterTensor<'b, f32>,
        lse: [Val<'b, f32>; 2],
    ) {
        let Shared { plan, args: Args { output: to, params: args, .. }, .. } = self.shared;
        let (heads, queries) = (plan.config.packed_heads, plan.config.queries_of_group());
        let first = item.row + self.group * queries;
        let [own_row, own_column] = plan.output_rows.origin(k, &plan.output, self.thread);
        let own = Own { heads, first: Some(first), head: item.head * heads, row: own_row };
        item.store_lse(k, args, (own, own_column), &plan.output_rows, lse);
        match to {
            Output::Map(map) => self.store_tile(k, *map, item, (first, state), output),
            Output::Sequences(to) => {
                let to = (to, k.constant(0));
                item.store_rows(k, to, (own, own_column), (&plan.output_rows, output));
                // All threads have read the number of the next item before the tile of Q is released.
                self.barrier.sync(k);
            }
        }
    }

    /// Writes a tile through the tile of Q, by tensor copies.
    fn store_tile(
        &self,
        k: &mut Body<'b, '_>,
        map: Val<'a, TensorMapMut<T, 4>>,
        item: Item<'b>,
        (first, state): (Val<'b, i32>, PipelineState<'b>),
        output: &RegisterTensor<'_, f32>,
    ) {
        let Shared { plan, args: Args { params: args, .. }, tiles: [sq, ..], .. } = self.shared;
        let (dim, thread) = (plan.config.value_dim, self.thread);
        let rounded = plan.output.slice(0).fragment_c::<T>(k, shape!(ROWS, dim));
        let (from, to) = (output.variables(), rounded.variables());
        for pair in 0..to.len() / 2 {
            let two = [2 * pair, 2 * pair + 1];
            let values = Val::pack(two.map(|register| from.get(k, register))).cvt::<T>().lanes();
            two.into_iter().zip(values).for_each(|(register, value)| to.set(k, register, value));
        }
        let [head, _, batch] = item.heads(&plan.config, args);
        let tile = sq
            .slice(k, (.., .., self.shared.query(state, self.group)))
            .composition(k, &tiler!(ROWS, dim));
        let pipe = TmaStorePipeline::new(k, 1, thread.eq(0)).with_barrier(self.barrier);
        let thr = plan.o_store.slice(thread);
        pipe.acquire(k);
        thr.copy(k, &thr.retile_s(k, &rounded), &thr.partition_d(k, &tile));
        let (at, tile) = (item.query(first), self.shared.packed(k, tile, 1));
        pipe.commit(k, |k| plan.o_copy.store(k, map, &tile, (at, 0, head, batch)));
    }
}

/// Starts `acc = a b`, or `acc += a b` if `adds`, as one `wgmma` group. `state` has the stage of `b`.
fn multiply<'b>(
    k: &Body<'b, '_>,
    mma: &TiledMma,
    acc: &RegisterTensor<'b, f32>,
    (a, b): (&impl WgmmaOperand<'b>, &SmemOperand<'b>),
    state: PipelineState<'b>,
    adds: impl IntoVal<'b, bool>,
) {
    k.wgmma_fence();
    mma.gemm_async(k, acc, a, &b.stage(k, state.stage), adds);
    k.wgmma_commit_group();
}
