//! [`Steps`]: the vectors of a row, step by step.

use crate::ir::builder::Converted;
use crate::ir::op::{L2Policy, LoadAccess, ProxySpace};
use crate::ir::{Body, Global, Shared, Val};
use crate::tensor::{RowElements, RowPart, RowTile, filled, narrow};

/// The vectors of a row, step by step. A tile with stages has the next steps in flight: bulk copies fill a ring in shared memory.
pub(super) struct Steps<'b, T> {
    /// The tile, and the thread's part of step 0.
    tile: RowTile,
    part: RowPart<'b>,
    row: Val<'b, Global<T>>,
    ring: Option<Ring<'b>>,
}

/// The first stage, and the barriers of the stages: full, and read by all threads.
#[derive(Clone, Copy)]
struct Ring<'b> {
    slots: Val<'b, Shared<u32>>,
    full: Val<'b, Shared<u64>>,
    free: Val<'b, Shared<u64>>,
}

impl<'b, T: Converted> Steps<'b, T> {
    /// Starts the copies of the first steps. All threads of the block come here together.
    pub(super) fn new(
        k: &mut Body<'b, '_>,
        tile: RowTile,
        part: RowPart<'b>,
        row: Val<'b, Global<T>>,
    ) -> Self {
        let mut steps = Steps { tile, part, row, ring: None };
        if tile.stages > 0 {
            let slots = k.shared_aligned::<u32>(tile.stages * tile.stage_bytes() / 4, 128);
            let [full, free] = [(); 2].map(|()| k.shared::<u64>(tile.stages));
            let ring = Ring { slots, full, free };
            steps.ring = Some(ring);
            k.if_(k.thread_idx().x.eq(0), |k| {
                for stage in 0..tile.stages {
                    full.mbarrier(stage).init(k, 1);
                    free.mbarrier(stage).init(k, tile.threads);
                }
                k.fence_mbarrier_init();
                for stage in 0..tile.stages as i32 {
                    steps.fill(k, ring, k.constant(stage), k.constant(stage));
                }
            });
            k.barrier();
        }
        steps
    }

    /// Loads the thread's vectors of a step, with `fill` for vectors beyond the end of the row. All threads of the block load each step
    /// once, in order.
    pub(super) fn load<'c>(
        &self,
        k: &mut Body<'c, '_>,
        step: Val<'c, i32>,
        fill: f32,
    ) -> RowElements<'c, T>
    where
        'b: 'c,
    {
        let (part, row): (RowPart<'c>, Val<'c, Global<T>>) = (self.part, self.row);
        let Some(ring) = self.ring else {
            let access = LoadAccess::default().non_coherent();
            return part.step(step).load_inner(k, row, fill, access);
        };
        let RowTile { threads, vectors, stages, .. } = self.tile;
        let (part, stages) = (part.step(step), stages as i32);
        let place = |step: Val<'c, i32>| (step % stages, ((step / stages) & 1).cvt::<u32>());
        // The stage of the step before is filled again.
        k.if_(step.gt(0) & k.thread_idx().x.eq(0), |k| {
            let (stage, parity) = place(step - 1);
            ring.free.mbarrier(stage).wait_parity(k, parity);
            self.fill(k, ring, step - 1 + stages, stage);
        });
        let (stage, parity) = place(step);
        ring.full.mbarrier(stage).wait_parity(k, parity);
        let fill = filled(k, narrow::<T>(fill));
        let own = stage * (self.tile.stage_bytes() / 4) as i32 + k.thread_idx().x * 4;
        let slots: Val<'c, Shared<u32>> = ring.slots.offset(own);
        let load = |number: u32| {
            let at = (number * threads * 4) as i32;
            k.if_with(part.has_vector(number), fill, |k| slots.load_vector::<4>(k, at))
        };
        let vectors = (0..vectors).map(load).collect();
        k.fence_proxy_async(ProxySpace::SharedCta);
        ring.free.mbarrier(stage).arrive(k);
        RowElements { vectors, singles: Vec::new() }
    }

    /// Starts the copies of the block's vectors of a step, if the row has it. The first thread does it.
    fn fill<'c>(
        &self,
        k: &mut Body<'c, '_>,
        ring: Ring<'b>,
        step: Val<'c, i32>,
        stage: Val<'c, i32>,
    ) where
        'b: 'c,
    {
        let RowTile { threads, vectors, .. } = self.tile;
        let part: RowPart<'c> = self.part;
        k.if_(step.lt(part.steps()), |k| {
            let part = part.step(step);
            let from = self.row.offset(part.first_column()).ptr_cast::<u32>();
            let words = stage * (self.tile.stage_bytes() / 4) as i32;
            let bytes =
                |number| part.vectors_from(number).max(0).min(threads as i32).cvt::<u32>() * 16;
            let bytes: Vec<_> = (0..vectors).map(bytes).collect();
            let all = bytes.iter().copied().reduce(|a, b| a + b);
            let full = ring.full.mbarrier(stage);
            full.arrive_expect_tx(k, all.unwrap_or_else(|| k.constant(0)));
            for (number, bytes) in (0..).zip(bytes) {
                let to = ring.slots.offset(words + (number * threads * 4) as i32);
                let in_word = 32 / T::SCALAR.bits() as i32;
                let from = from.offset(number as i32 * part.stride() / in_word);
                k.if_(bytes.gt(0), |k| {
                    k.cp_async_bulk_load(to, from, bytes, full, L2Policy::EvictFirst);
                });
            }
        });
    }
}
