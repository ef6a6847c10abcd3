//! Reductions over the threads that share a row.

use crate::ir::op::{BarrierForm, ClusterArrival, RemoteArrival};
use crate::ir::{Body, Val};

use super::part::RowPart;

impl RowPart<'_> {
    /// Returns `value` of all threads that share the row, combined in the order of the threads: the same result in all
    /// of them. The combining body must be associative. All threads of the block come here together. A cluster
    /// exchanges the results of its blocks through distributed shared memory.
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
        let own = k.reduce(self.tile.group(), value, &combine);
        if self.tile.cluster == 1 {
            return own;
        }
        // Remote stores that an mbarrier counts: in the release of a cluster barrier, every thread would wait for its stores of
        // the row before. Two sets of slots alternate from row to row, each with a barrier for its results and one for its
        // readers.
        let (blocks, bytes) = (self.tile.cluster as i32, self.tile.cluster * N as u32 * 4);
        let slots = k.shared::<f32>(2 * self.tile.cluster * N as u32);
        let (full, free) = (k.shared::<u64>(2), k.shared::<u64>(2));
        let (thread, rank) = (k.thread_idx().x, k.block_idx().x % blocks);
        let start = |k: &mut Body<'_, '_>| {
            k.if_(thread.eq(0), |k| {
                for set in 0..2 {
                    full.mbarrier(set).init(k, 1);
                    free.mbarrier(set).init(k, self.tile.cluster);
                }
                k.fence_mbarrier_init();
                for set in 0..2 {
                    full.mbarrier(set).arrive_expect_tx(k, bytes);
                }
            });
            cluster_sync(k);
        };
        match self.round {
            Some(round) => k.if_(round.eq(0), |k| start(&mut k.rescoped())),
            None => start(k),
        }
        let round = self.round.unwrap_or_else(|| k.constant(0));
        let (set, parity) = (round & 1, ((round >> 1) & 1).cvt::<u32>());
        let slots = slots.offset(set * (blocks * N as i32));
        k.if_(thread.lt(blocks), |k| {
            let block = thread.cvt::<u32>();
            free.mbarrier(set).wait_parity(k, parity ^ 1);
            let (to, barrier) = (slots.offset(rank * N as i32), full.offset(set));
            for (i, own) in (0..).zip(own) {
                to.offset(i).mapa(block).st_async(k, own, barrier.mapa(block));
            }
            if self.round.is_some() {
                // All threads of this block have read the other slots.
                k.if_(round.gt(0), |k| {
                    free.mbarrier(set ^ 1).arrive_cluster(k, block, RemoteArrival::Release);
                });
            }
        });
        full.mbarrier(set).wait_parity(k, parity);
        k.if_(thread.eq(0), |k| {
            full.mbarrier(set).arrive_expect_tx(k, bytes);
        });
        let of = |block: i32| std::array::from_fn(|i| slots.load(k, block * N as i32 + i as i32));
        let results: Vec<[Val<'o, f32>; N]> = (0..blocks).map(of).collect();
        let mut results = results.into_iter();
        results.next().map_or(own, |first| {
            results.fold(first, |sum, next| combine(&mut k.rescoped(), sum, next))
        })
    }

    /// Returns the sum of `value` of all threads that share the row, as [`reduce`](RowPart::reduce) does.
    #[track_caller]
    #[inline]
    pub fn sum<'o>(&self, k: &mut Body<'o, '_>, value: Val<'o, f32>) -> Val<'o, f32> {
        let [sum] = self.reduce(k, [value], |_, [a], [b]| [a + b]);
        sum
    }
}

#[track_caller]
pub(super) fn cluster_sync(k: &Body<'_, '_>) {
    k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
    k.barrier_cluster_wait(BarrierForm::Aligned);
}
