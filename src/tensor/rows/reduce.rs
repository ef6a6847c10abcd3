//! Reductions over the threads that share a row.

use crate::ir::builder::Group;
use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::{Body, Val};

use super::part::RowPart;
use super::tile::RowTile;

impl RowPart<'_> {
    /// Returns `value` of all threads that share the row, combined in the order of the threads: the same result in all
    /// of them. The combining body must be associative. All threads of the block come here together. A cluster
    /// exchanges the results of its blocks through distributed shared memory.
    ///
    /// Use it to combine values, not to order memory accesses. What it orders depends on who shares the row:
    ///
    /// * Lanes of one warp, also if they are the whole block: nothing. The exchange is by shuffles. If one lane reads an
    ///   element that another lane overwrites after the reduction, for example in place, call
    ///   [`bar_warp`](Body::bar_warp) between the two.
    /// * Several warps of a block: accesses before it come before accesses after it, as at [`barrier`](Body::barrier).
    /// * A cluster: as much within each block, and nothing between blocks. It passes the barrier of the cluster once, relaxed.
    ///   For accesses of other blocks, pass that barrier again with a release
    ///   ([`barrier_cluster_arrive`](Body::barrier_cluster_arrive)) behind the reduction, not around it.
    #[track_caller]
    pub fn reduce<'o, const N: usize>(
        &self,
        k: &mut Body<'o, '_>,
        value: [Val<'o, f32>; N],
        combine: impl for<'c> Fn(
            &mut Body<'c, 'o>,
            [Val<'c, f32>; N],
            [Val<'c, f32>; N],
        ) -> [Val<'c, f32>; N],
    ) -> [Val<'o, f32>; N] {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let RowTile { cluster, .. } = self.tile;
        if cluster == 1 {
            return k.reduce(self.tile.group(), value, combine);
        }
        // Remote stores that an mbarrier counts: in the release of a cluster barrier, every thread would wait for all its accesses.
        let (blocks, bytes) = (cluster as i32, cluster * N as u32 * 4);
        let (slots, full) = (k.shared::<f32>(cluster * N as u32), k.shared::<u64>(1));
        let (thread, rank) = (k.thread_idx().x, k.block_idx().x % blocks);
        k.if_(thread.eq(0), |k| {
            full.mbarrier(0).init(k, 1);
            k.fence_mbarrier_init();
            full.mbarrier(0).arrive_expect_tx(k, bytes);
        });
        // The fence is the release. No block stores to a block that has not started.
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
        let own = k.reduce(self.tile.group(), value, &combine);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        k.if_(thread.lt(blocks), |k| {
            let (block, to) = (thread.cvt::<u32>(), slots.offset(rank * N as i32));
            for (i, own) in (0..).zip(own) {
                to.offset(i).mapa(block).st_async(k, own, full.mapa(block));
            }
        });
        full.mbarrier(0).wait_parity(k, 0u32);
        let slot = slots.offset(thread % blocks * N as i32);
        let results = std::array::from_fn(|i| slot.load(k, i as i32));
        k.reduce(Group::Lanes(cluster), results, &combine)
    }

    /// Returns the sum of `value` of all threads that share the row, as [`reduce`](RowPart::reduce) does.
    #[track_caller]
    #[inline]
    pub fn sum<'o>(&self, k: &mut Body<'o, '_>, value: Val<'o, f32>) -> Val<'o, f32> {
        let [sum] = self.reduce(k, [value], |_, [a], [b]| [a + b]);
        sum
    }
}
