//! [`ColumnScales`]: the ring buffer of B's scales, if each column of D has its own.

use crate::ir::op::{CpAsyncCache, PendingCount};
use crate::ir::{Body, Shared, Val, WARP, range};
use crate::tensor::pipeline::{PipelineState, TileScheduler, TmaPipeline};

use super::config::ScaledGemmConfig;
use super::kernel::{Sizes, inside};

/// The scales of a tile's columns, in as many stages as A and B have, so that both rings share one
/// [`PipelineState`]. A warp copies them with `cp.async`, because TMA cannot read any stride. Each
/// warp of a consumer releases a stage, because it reads the scales with plain loads.
#[derive(Clone, Copy)]
pub(super) struct ColumnScales<'b> {
    ring: Val<'b, Shared<f32>>,
    pipe: TmaPipeline<'b>,
    columns: u32,
    /// Scales per stage.
    pitch: u32,
}

impl<'b> ColumnScales<'b> {
    /// The threads that copy.
    pub(super) const WARP: u32 = 32;

    /// Allocates the ring.
    #[inline]
    pub(super) fn new(k: &Body<'b, '_>, config: &ScaledGemmConfig) -> Self {
        let pitch = config.column_scale_pitch();
        let warps = 4 * config.consumers();
        ColumnScales {
            ring: k.shared_aligned(config.stages * pitch, 16),
            pipe: TmaPipeline::new(k, config.stages, 4 * pitch, warps).written_by(Self::WARP),
            columns: config.tile[1],
            pitch,
        }
    }

    /// Initialises the barriers, in the thread in which `elected` holds.
    #[inline]
    pub(super) fn init(&self, elected: Val<'b, bool>) {
        self.pipe.init(elected);
    }

    /// Copies the scales of all tiles. A whole warp calls it. Columns beyond the end get the last
    /// one's scales: their sums are not stored.
    #[inline]
    pub(super) fn produce(
        &self,
        k: &mut Body<'b, '_>,
        tiles: &TileScheduler<'b>,
        sizes: &Sizes<'_>,
    ) {
        let Sizes {
            b_scales,
            b_strides: [to_row, to_block, to_matrix],
            b_scale_rows,
            steps,
            tiles: [_, _, matrices],
            ..
        } = *sizes;
        tiles.for_each(k, self.pipe.producer(), |k, tile, state| {
            let first = tile.column * self.columns + k.lane_id();
            let in_matrix = inside(tile.batch, matrices) * to_matrix;
            let rows: Vec<Val<'_, i32>> = (0..self.pitch)
                .step_by(Self::WARP as usize)
                .map(|next| inside(first + next, b_scale_rows) * to_row + in_matrix)
                .collect();
            k.for_(range(0, steps), state, |k, step, state| {
                let full = self.pipe.acquire(state);
                let to = self.ring.offset(state.stage * self.pitch + k.lane_id());
                for (next, row) in (0..).zip(&rows) {
                    let from = b_scales.offset(*row + step * to_block);
                    k.cp_async(to.offset(next * Self::WARP), from, CpAsyncCache::Ca, 4);
                }
                full.cp_async_arrive(PendingCount::Noinc);
                state.next()
            })
        });
    }

    /// Waits for a stage, and returns the scales of the thread's columns: two of every 8, as in
    /// `wgmma`'s accumulators. Then releases the stage. All threads of a consumer call it.
    #[inline]
    pub(super) fn take<'c>(
        &self,
        k: &mut Body<'c, '_>,
        state: PipelineState<'c>,
    ) -> Vec<Val<'c, f32>>
    where
        'b: 'c,
    {
        self.pipe.wait(state);
        let first = state.stage * self.pitch + (k.lane_id() & 3) * 2;
        let groups = (0..self.columns).step_by(8);
        let scales = groups.flat_map(|group| self.ring.load_vector::<2>(first + group).lanes());
        let scales = scales.collect();
        self.release(k, state);
        scales
    }

    /// Waits for a stage and releases it, without its scales. All threads of a consumer call it.
    #[inline]
    pub(super) fn skip<'c>(&self, k: &mut Body<'c, '_>, state: PipelineState<'c>)
    where
        'b: 'c,
    {
        self.pipe.wait(state);
        self.release(k, state);
    }

    #[inline]
    fn release<'c>(&self, k: &mut Body<'c, '_>, state: PipelineState<'c>)
    where
        'b: 'c,
    {
        // The stage is free once all lanes have their scales.
        k.bar_warp(WARP);
        k.if_(k.lane_id().eq(0), |_| self.pipe.release(state));
    }
}
