//! The end of a GEMM with few rows: adds up the sums of warps and blocks, and stores D.

use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::{Body, Registers, Shared, Val, range};

use super::super::arrival::ArrivingGroup;
use super::config::{Exchange, SmallGemmConfig, TILE};
use super::kernel::{Block, X};

impl<'b> Block<'b> {
    /// Adds up the sums of the block's warps, then those of other blocks, and stores D.
    #[inline]
    pub(super) fn finish(&self, k: &mut Body<'b, '_>, sums: &[Registers<'b, f32>]) {
        let SmallGemmConfig { rows, splits, exchange, .. } = self.config;
        let (count, threads) = (rows * self.config.block_columns(), self.config.threads());
        self.share(k, sums);
        let own = range(self.thread, count).step(threads);
        match exchange {
            _ if splits == 1 => k.for_(own, (), |k, at, ()| {
                let sum = self.of_warps(at);
                self.store(k, at, sum);
            }),
            Exchange::Cluster => {
                k.for_(own, (), |_, at, ()| {
                    let sum = self.of_warps(at);
                    self.sums().store(self.place(at), sum);
                });
                self.cluster_barrier(k);
                let first = k.block_idx().y * threads + self.thread;
                k.for_(range(first, count).step(threads * splits), (), |k, at, ()| {
                    let (sums, place) = (self.sums(), self.place(at));
                    let sum = added(splits, |block| sums.mapa(block).load(place));
                    self.store(k, at, sum);
                });
                // No block may end while others read its sums.
                self.cluster_barrier(k);
            }
            Exchange::Workspace => {
                let (block, grid) = (k.block_idx(), k.grid_dim());
                let tile = block.z * grid.x + block.x;
                let partials = self.p.partials.offset(tile.mul_wide(splits * count));
                k.for_(own, (), |_, at, ()| {
                    let sum = self.of_warps(at);
                    partials.store(block.y * count + at, sum);
                });
                let barrier = k.named_barrier(1, threads).aligned();
                let arriving = ArrivingGroup { barrier, is_leader: self.thread.eq(0) };
                let (arrivals, blocks) = (self.p.arrivals.offset(tile), k.constant(splits as i32));
                let is_last = arriving.is_last_to_arrive(k, arrivals, blocks);
                k.if_(is_last, |k| {
                    k.for_(own, (), |k, at, ()| {
                        let sum = added(splits, |part| partials.load(at + part * count));
                        self.store(k, at, sum);
                    });
                });
            }
        }
    }

    /// Stores the warp's sums to shared memory, for all threads of the block.
    #[inline]
    fn share(&self, k: &mut Body<'b, '_>, sums: &[Registers<'b, f32>]) {
        let config = &self.config;
        // They take the ring buffer's memory.
        k.cp_async_wait_all();
        k.barrier();
        let (shared, lane) = (self.sums(), k.lane_id());
        for (tile, sums) in (0..).zip(sums) {
            let column = (self.along_n * config.tiles() + tile) * TILE + lane / 4;
            for row_tile in 0..config.row_tiles() {
                let sums = sums.part(4 * row_tile, 4);
                for second in 0..2 {
                    let row = lane % 4 * 2 + (8 * row_tile + second);
                    let at = (self.along_k * config.rows + row) * config.sum_pitch() + column;
                    let store = |_: &mut Body<'_, '_>| {
                        shared.store(at, sums.get(second));
                        shared.store(at + 8, sums.get(second + 2));
                    };
                    if config.rows >= 8 { store(k) } else { k.if_(row.lt(config.rows), store) }
                }
            }
        }
        k.barrier();
    }

    /// Returns the sums of all warps in shared memory.
    fn sums(&self) -> Val<'b, Shared<f32>> {
        self.ring.ptr_cast()
    }

    /// Returns where the sums of the block's element `at` are; the elements count along rows of D.
    fn place(&self, at: Val<'b, i32>) -> Val<'b, i32> {
        let columns = self.config.block_columns();
        (at >> columns.ilog2()) * self.config.sum_pitch() + (at & (columns - 1))
    }

    /// Returns the sum of the warps along K for the block's element `at`.
    #[inline]
    fn of_warps(&self, at: Val<'b, i32>) -> Val<'b, f32> {
        let (sums, place) = (self.sums(), self.place(at));
        let of_warp = self.config.rows * self.config.sum_pitch();
        added(self.config.depth_warps, |warp| sums.load(place + warp * of_warp))
    }

    #[inline]
    fn cluster_barrier(&self, k: &Body<'b, '_>) {
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
        k.barrier_cluster_wait(BarrierForm::Aligned);
    }

    /// Stores the block's element `at` of D.
    #[inline]
    fn store(&self, k: &mut Body<'b, '_>, at: Val<'b, i32>, sum: Val<'b, f32>) {
        let (p, block, columns) = (self.p, k.block_idx(), self.config.block_columns());
        let row = block.z * self.config.rows + (at >> columns.ilog2());
        let column = block.x * columns + (at & (columns - 1));
        k.if_(row.lt(p.rows) & column.lt(p.columns), |k| {
            let at = row * p.columns + column;
            let bias =
                k.if_with(column.lt(p.bias_columns), 0.0, |_| p.bias.load(column).cvt::<f32>());
            let residual =
                k.if_with(row.lt(p.residual_rows), 0.0, |_| p.residual.load(at).cvt::<f32>());
            let sum = sum + bias;
            let sum = self.config.activation.map_or(sum, |activation| activation.apply(sum));
            p.d.store(at, (sum + residual).cvt::<X>());
        });
    }
}

/// Adds up `count` values. All are loaded before the first addition.
#[inline]
fn added<'b>(count: u32, load: impl Fn(u32) -> Val<'b, f32>) -> Val<'b, f32> {
    let first = load(0);
    let others: Vec<_> = (1..count).map(load).collect();
    others.into_iter().fold(first, |sum, other| sum + other)
}
