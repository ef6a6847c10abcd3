//! What a consumer warp group of the `sm_90a` attention kernel does after an item's last tile of
//! keys: divides O by the row sums, and stores O and the LSE. `sm90.rs` calls it at the end of an
//! item's loop over keys.

use crate::ir::{Body, TensorMapMut, Val};
use crate::layout::{shape, tiler};
use crate::tensor::mma::{OnlineSoftmax, SoftmaxEnd};
use crate::tensor::pipeline::{PipelineState, TmaStorePipeline};
use crate::tensor::view::RegisterTensor;

use super::config::{OUTPUT_STAGES, ROWS};
use super::item::{Item, Own};
use super::plan::{Output, X};
use super::sm90::{Consumer, Shared};

impl<'a: 'b, 'b> Consumer<'_, 'a, 'b> {
    /// Ends an item whose last P V is complete: releases V, and stores the LSE and the output of
    /// the group's queries.
    #[inline]
    pub(super) fn end(
        &self,
        k: &mut Body<'b, '_>,
        item: Item<'b>,
        output: &RegisterTensor<'b, f32>,
        ends: SoftmaxEnd<'b>,
        q_state: PipelineState<'b>,
        v_state: PipelineState<'b>,
    ) {
        let Shared { plan, args, pipes: [.., v_pipe], .. } = self.shared;
        let (config, rows, thread) = (&plan.config, &plan.output_rows, self.thread);
        let (leader, heads) = (thread.eq(0), config.packed_heads);
        k.if_(leader, |_| v_pipe.release(v_state));
        OnlineSoftmax::rescale(rows, output, ends.inverse, false);
        let first = item.row + self.group * config.queries_of_group();
        let [row, column] = rows.origin(&plan.output, thread);
        let own = Own { heads, first, head: item.head * heads, row, column };
        item.store_lse(k, &args.params, own, rows, ends.lse);
        let [head, _, batch] = item.heads(config, &args.params);
        match &args.output {
            Output::Rows(to) => {
                item.store_rows(k, to, batch, Own { head, ..own }, rows, output);
                // All threads must have read the next item's index before its tile of Q is
                // released.
                self.barrier.sync();
            }
            Output::Tiles(map) => {
                let origin = [item.query(first), head, batch];
                self.store_tiles(k, output, *map, origin, q_state);
            }
        }
        if !config.scores_ahead() && config.query_stages() > 1 {
            k.if_(leader, |k| self.release_queries(k, q_state));
        }
    }

    /// Stores an output by TMA, some columns at a time. The columns are staged in the ring buffer
    /// or in the group's tile of Q.
    #[inline]
    fn store_tiles(
        &self,
        k: &mut Body<'b, '_>,
        output: &RegisterTensor<'b, f32>,
        map: Val<'a, TensorMapMut<X, 4>>,
        [query, head, batch]: [Val<'b, i32>; 3],
        q_state: PipelineState<'b>,
    ) {
        let Shared { plan, tiles: [sq, ..], o_ring, .. } = self.shared;
        let leader = self.thread.eq(0);
        let pipe = TmaStorePipeline::new(k, OUTPUT_STAGES, leader).with_barrier(self.barrier);
        let (thr, shape) = (plan.o_store.slice(self.thread), shape!(ROWS, plan.part));
        // If there is an odd count of parts, the last one is in the stage that the next output's
        // first part uses.
        pipe.finish();
        for part in 0..plan.config.value_dim / plan.part {
            let rounded = plan.part_mma.slice(0).fragment_c::<X>(k, shape.clone());
            let (from, to) = (output.variables(), rounded.variables());
            for pair in (0..to.len()).step_by(2).map(|register| [register, register + 1]) {
                let values = pair.map(|at| from.get(part * to.len() + at));
                let values = Val::pack(values).cvt::<X>().lanes();
                pair.into_iter().zip(values).for_each(|(at, value)| to.set(at, value));
            }
            let (of, stage) = match o_ring {
                Some(ring) => (ring, self.group * OUTPUT_STAGES + pipe.stage(part)),
                None => (sq, self.shared.query(q_state, self.group)),
            };
            let tile = of.slice((.., .., stage)).composition(&tiler!(ROWS, plan.part));
            pipe.acquire();
            thr.copy(&thr.retile_s(&rounded), &thr.partition_d(&tile));
            let (tile, at) = (tile.composition(&plan.packed[1]), part * plan.part);
            pipe.commit(|_| plan.o_copy.store(map, &tile, (query, at, head, batch)));
        }
    }
}
