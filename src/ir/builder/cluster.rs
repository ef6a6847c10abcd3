//! Distributed shared memory: accesses to the shared memory of other blocks in the cluster, for
//! example to combine partial results without global memory.

use super::typed::{Element, IntoVal, Shared, SharedCluster, Val};
use crate::ir::op::{AsyncCopy, BulkReduce, Mem};

/// # Shared memory of other blocks
///
/// Pointers into the shared memory of other blocks in the cluster, from `sm_90` on. Pass a cluster
/// barrier before the first access, and another before a block may end.
///
/// ```
/// use tilewright::ir::op::{BarrierForm, ClusterArrival};
/// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
///
/// let options = KernelOptions::default().cluster([2, 1, 1]);
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build_with(options, "swap", Target::SM_90, |k, (x,)| {
///     let (tile, t) = (k.shared::<i32>(32), k.thread_idx().x);
///     tile.store(t, t + k.block_idx().x * 32);
///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
///     k.barrier_cluster_wait(BarrierForm::Unaligned);
///     let other = tile.mapa(k.cluster_ctarank().cvt::<u32>() ^ 1);
///     x.store(k.block_idx().x * 32 + t, other.load(t));
///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
///     k.barrier_cluster_wait(BarrierForm::Unaligned);
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("mapa.shared::cluster.u32") && ptx.text().contains("ld.shared::cluster"));
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::{Device, Grid};
///
/// let device = Device::sim()?;
/// let mut found = device.zeros::<i32>(64)?;
/// device.load(&kernel)?.launch(Grid::cover(64, 32), (&mut found,))?;
/// let other: Vec<i32> = (32..64).chain(0..32).collect();
/// assert_eq!(found.to_vec()?, other);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, T: Element> Val<'b, Shared<T>> {
    /// Returns the pointer to the same offset in the shared memory of block `cta` (a rank in the
    /// cluster), so that you can load and store there. PTX ISA 9.7.9.23 `mapa`; `sm_90`.
    #[track_caller]
    pub fn mapa(self, cta: impl IntoVal<'b, u32>) -> Val<'b, SharedCluster<T>> {
        let cx = self.context();
        let (base, cta) = (cx.operand(self), cx.operand_of(cta));
        cx.emit_val(Mem::Mapa { base, cta })
    }
}

/// # Cluster ranks
///
/// Tells which block of the cluster owns the memory.
impl<'b, T: Element> Val<'b, SharedCluster<T>> {
    /// Returns the cluster rank of the block that the pointer points into: the inverse of
    /// [`mapa`](Val::mapa). PTX ISA 9.7.9.24 `getctarank`; `sm_90`.
    #[track_caller]
    pub fn ctarank(self) -> Val<'b, u32> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::Getctarank { base })
    }
}

/// # Asynchronous stores to other blocks
///
/// Stores without waiting: the receiving block of the cluster waits on an mbarrier. Element and
/// mbarrier must be in the same block. The simulator reports a fault if they are not, and if a
/// block ends while a store to it is in flight.
///
/// ```
/// use tilewright::ir::op::{BarrierForm, BulkReduce, ClusterArrival};
/// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
///
/// let options = KernelOptions::default().cluster([2, 1, 1]);
/// let kernel = Kernel::<(GlobalMut<u32>,)>::build_with(options, "sums", Target::SM_90, |k, (x,)| {
///     let (sum, bars, t) = (k.shared::<u32>(1), k.shared::<u64>(1), k.thread_idx().x);
///     k.if_(t.eq(0), |k| {
///         sum.store(0, 100);
///         bars.mbarrier(0).init(1);
///         k.fence_mbarrier_init();
///         bars.mbarrier(0).arrive_expect_tx(32 * 4);
///     });
///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
///     k.barrier_cluster_wait(BarrierForm::Unaligned);
///     let other = k.cluster_ctarank().cvt::<u32>() ^ 1;
///     let one = k.block_idx().x.cvt::<u32>() + 1;
///     sum.mapa(other).red_async(BulkReduce::Add, one, bars.mapa(other));
///     bars.mbarrier(0).wait_parity(0);
///     k.if_(t.eq(0), |k| x.store(k.block_idx().x, sum.load(0)));
/// })?;
/// assert!(kernel.ptx().text().contains("red.async.relaxed.cluster.shared::cluster"));
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::{Device, Grid};
///
/// let device = Device::sim()?;
/// let mut sums = device.zeros::<u32>(2)?;
/// device.load(&kernel)?.launch(Grid::cover(64, 32), (&mut sums,))?;
/// assert_eq!(sums.to_vec()?, [100 + 32 * 2, 100 + 32]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, T: Element> Val<'b, SharedCluster<T>> {
    /// Starts to store `value` to the element. When the store is done, it completes the element's
    /// bytes on `barrier`, which must be in the same block as the element. The receiving block
    /// announces the bytes with [`expect_tx`](super::MbarrierRef::expect_tx) and waits. PTX
    /// ISA 9.7.9.13 `st.async`; `sm_90`.
    #[track_caller]
    pub fn st_async(self, value: impl IntoVal<'b, T>, barrier: Val<'b, SharedCluster<u64>>) {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of::<i32>(0));
        let (value, barrier) = (cx.operand_of(value), cx.operand(barrier));
        cx.emit(AsyncCopy::StAsync { base, index, value, barrier, barrier_index: index });
    }

    /// Starts to combine the element with `value` by `op`, for example to add a partial sum, and
    /// completes the element's bytes as [`st_async`](Val::st_async) does. PTX ISA 9.7.13.8
    /// `red.async`; `sm_90`.
    #[track_caller]
    pub fn red_async(
        self,
        op: BulkReduce,
        value: impl IntoVal<'b, T>,
        barrier: Val<'b, SharedCluster<u64>>,
    ) {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of::<i32>(0));
        let (value, barrier) = (cx.operand_of(value), cx.operand(barrier));
        cx.emit(AsyncCopy::RedAsync { base, index, value, barrier, barrier_index: index, op });
    }
}
