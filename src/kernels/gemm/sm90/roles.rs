//! [`Producer`] and [`Consumer`]: what the warp groups of the `sm_90a` kernel do in a loop. The
//! producer waits for empty stages and fills them; a consumer waits for full stages, multiplies,
//! releases them and stores its rows of D. Consumers have three loops: `consume` is cooperative,
//! `consume_ordered` is ping-pong, and `consume_overlapped` stores a tile under the main loop of
//! the next one.

use crate::ir::{Body, Val};
use crate::layout::{shape, tiler};
use crate::tensor::copy::ThrStore;
use crate::tensor::mma::WgmmaMainloop;
use crate::tensor::pipeline::{
    OrderedBarrier, PipelineTurns, Tile, TileScheduler, TmaPipeline, wait_for_launch,
};
use crate::tensor::view::{RegisterTensor, SharedTensor};

use crate::kernels::gemm::config::{GemmConfig, WGMMA_ROWS};
use crate::kernels::gemm::elements::{A, B, D};
use crate::kernels::gemm::epilogue::EpilogueRef;
use crate::kernels::gemm::sm90::input::Input;
use crate::kernels::gemm::sm90::plan::{Plan, Sizes};
use crate::kernels::gemm::split::work_tiles::{WorkTile, WorkTiles};
use crate::kernels::gemm::split::{SplitArgs, Threads};

/// The producer: fetches tiles of A and B into the ring buffer. With TMA it is one thread,
/// otherwise its whole warp group.
pub(crate) struct Producer<'p, 'a, 'b> {
    pub(crate) plan: &'p Plan,
    pub(crate) sizes: &'p Sizes<'a>,
    pub(crate) input: &'p Input<'p, 'a>,
    pub(crate) pipe: TmaPipeline<'b>,
    pub(crate) turns: PipelineTurns<'b>,
    pub(crate) sa: &'p SharedTensor<'b, A>,
    pub(crate) sb: &'p SharedTensor<'b, B>,
}

impl<'a: 'b, 'b> Producer<'_, 'a, 'b> {
    /// Fetches every step of every part. With TMA, one thread starts the copies. If threads fetch,
    /// each producer group does it together, and the groups take the steps in turn.
    #[inline]
    pub(crate) fn produce(&self, k: &mut Body<'b, '_>, parts: WorkTiles<'b>) {
        let Producer { plan, sizes, input, pipe, turns, sa, sb } = *self;
        let GemmConfig { tile: [m, n, depth], programmatic, .. } = plan.config;
        let sa = sa.local_tile(&tiler!(m, depth, 1), (0, 0, ..));
        let [along_m, along_n] = parts.tiles.peers();
        let start = turns.start(pipe.producer());
        parts.for_each(k, start, |k, WorkTile { tile, first, end, .. }, turn| {
            let [of_a, of_b] = [sizes.batched_a, sizes.batched_b].map(|next| tile.batch * next);
            let first_row = parts.tiles.first_row(tile);
            let known = [(tile.row | tile.column | tile.batch).cvt::<i64>() + 1];
            wait_for_launch(k, programmatic && plan.config.writers() == 0, known);
            let (mut maps, mut fetched) = (None, None);
            match input {
                Input::Maps(a, b) => maps = Some((a.of(tile.batch), b.of(tile.batch))),
                Input::Lines(lines) => {
                    let at_a = [tile.row * m, turns.first(first, turn) * depth, of_a];
                    let at_b = [tile.column * n, at_a[1], of_b];
                    fetched = Some(lines.0.fetch_with(at_a, &lines.1, at_b, programmatic));
                }
            }
            turns.for_each(k, [first, end], turn, |_, step, state| {
                let (full, stage) = (pipe.acquire(state), state.stage);
                let (sa, sb) = (sa.slice((.., .., 0, stage)), sb.slice((.., .., stage)));
                if let Some((a, b)) = &maps {
                    let ga = a.local_tile(&tiler!(m, depth), (tile.row, step, of_a));
                    let gb = b.local_tile(&tiler!(n, depth), (tile.column, step, of_b));
                    let ga = ga.domain_offset((first_row.clone(), 0));
                    ga.load_rotated(&sa, full, along_n, step);
                    gb.load_rotated(&sb, full, along_m, step);
                }
                if let Some((a, b)) = &fetched {
                    let (ahead, more) = (depth * turns.groups, turns.after(step).lt(end));
                    a.store(&sa, step * depth, ahead, more);
                    b.store(&sb, step * depth, ahead, more);
                    pipe.commit(state);
                }
            })
        });
    }
}

/// A consumer warp group: multiplies, applies the epilogue and stores its rows of D.
pub(crate) struct Consumer<'p, 'a, 'b> {
    pub(crate) plan: &'p Plan,
    pub(crate) sizes: &'p Sizes<'a>,
    pub(crate) epilogue: EpilogueRef<'p, 'a>,
    pub(crate) split: Option<&'p SplitArgs<'a>>,
    pub(crate) threads: Threads<'b>,
    pub(crate) pipe: TmaPipeline<'b>,
    pub(crate) products: WgmmaMainloop<'p, 'b>,
    pub(crate) store: ThrStore<'p, 'b, D>,
}

impl<'a: 'b, 'b> Consumer<'_, 'a, 'b> {
    /// Cooperative: all consumer groups multiply each tile together. A group whose rows are all
    /// beyond the end of D skips the tile.
    #[inline]
    pub(crate) fn consume(&self, k: &mut Body<'b, '_>, parts: WorkTiles<'b>) {
        parts.for_each(k, self.pipe.consumer(), |_, part, state| {
            let is_idle = parts.tiles.is_behind(part.tile, self.threads.group * WGMMA_ROWS);
            let steps = part.steps();
            let (state, ()) =
                self.products.unless(is_idle, self.threads.barrier, steps, state, (), |k| {
                    let acc = self.accumulators(k);
                    let state = self.products.multiply(&acc, state, steps, |_| {});
                    parts.sum(k, self.split, part, self.threads, &acc.variables(), |k| {
                        self.write(k, &acc, part.tile);
                    });
                    (state, ())
                });
            state
        });
    }

    /// Ping-pong: each group works on its own tiles, and multiplies while the other one stores. It
    /// skips the stages of the other group's tile. `order` makes the two groups take turns.
    #[inline]
    pub(crate) fn consume_ordered(
        &self,
        k: &mut Body<'b, '_>,
        parts: WorkTiles<'b>,
        order: OrderedBarrier<'b>,
    ) {
        let (group, steps) = (self.threads.group, self.sizes.steps);
        let start = (self.pipe.consumer().skip(group * steps), order.start(group));
        parts.tiles.of_group(group, 2).for_each(k, start, |k, tile, (state, parity)| {
            let acc = self.accumulators(k);
            order.wait(group, parity);
            let state = self.products.multiply(&acc, state, steps, |_| {
                order.arrive(group, self.products.leader());
            });
            self.write(k, &acc, tile);
            (state.skip(steps), parity ^ 1)
        });
    }

    /// Cooperative with an overlapped store: a tile stays in registers, packed, and is stored in
    /// parts during the first steps of the next tile. A group whose rows of a grouped tile are all
    /// beyond the group's end skips that tile and keeps what it has.
    #[inline]
    pub(crate) fn consume_overlapped(&self, k: &mut Body<'b, '_>, tiles: TileScheduler<'b>) {
        let config = &self.plan.config;
        let (kept, parts) = (k.registers::<u32>(config.kept_words()), config.store_parts());
        kept.fill(0);
        let none = Tile { row: k.constant(-1), column: k.constant(0), batch: k.constant(0) };
        let (start, steps) = ((self.pipe.consumer(), none), self.sizes.steps);
        let (_, last) = tiles.for_each(k, start, |_, tile, (state, before)| {
            let is_idle = tiles.is_behind(tile, self.threads.group * WGMMA_ROWS);
            self.products.unless(is_idle, self.threads.barrier, steps, state, before, |k| {
                let (acc, origin) = (self.accumulators(k), self.origin(before));
                let state = self.products.run_over(&acc, state, steps, parts, |k, part| {
                    k.if_(before.row.ge(0), |_| self.store.part(origin, &kept, part));
                });
                self.products.finish(state);
                let (registers, at, store) = (acc.variables(), self.origin(tile), &self.store);
                let epilogue = self.epilogue.reduce(k, &registers, tile, |_| store.first(at));
                store.keep(&acc, at, &kept, &epilogue);
                (state, tile)
            })
        });
        k.if_(last.row.ge(0), |_| {
            let origin = self.origin(last);
            (0..parts).for_each(|part| self.store.part(origin, &kept, part));
        });
    }

    #[inline]
    fn accumulators<'c>(&self, k: &Body<'c, '_>) -> RegisterTensor<'c, f32> {
        let Plan { config, mma, .. } = self.plan;
        mma.slice(0).fragment_c(k, shape!(config.rows_of_products(), config.mma_tile()[1]))
    }

    /// Returns the group's first row and column in a tile, and the matrix. The groups take blocks
    /// of 64 MMA rows in turn. With swapped operands, these are columns of D.
    #[inline]
    fn origin<'c>(&self, tile: Tile<'c>) -> [Val<'c, i32>; 3]
    where
        'b: 'c,
    {
        let (config, own) = (&self.plan.config, self.threads.group * WGMMA_ROWS);
        let [m, n] = config.tile_of_d();
        let own = if config.is_pingpong() { own.constant(0) } else { own };
        if config.swap {
            return [tile.row * m, tile.column * n + own, tile.batch];
        }
        [tile.row * m + own, tile.column * n, tile.batch]
    }

    /// Applies the epilogue and stores the group's rows of D.
    #[inline]
    fn write<'c>(&self, k: &mut Body<'c, '_>, acc: &RegisterTensor<'c, f32>, tile: Tile<'c>)
    where
        'b: 'c,
    {
        let (at, store) = (self.origin(tile), &self.store);
        let epilogue = self.epilogue.reduce(k, &acc.variables(), tile, |_| store.first(at));
        store.tile(acc, at, self.plan.shape, &epilogue);
    }
}
