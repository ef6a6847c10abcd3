//! Named barriers, cluster barriers and memory fences: synchronisation beyond the block-wide
//! `k.barrier()`, for example between the warps of one role.

use super::body::Body;
use super::typed::{IntoVal, Val};
use crate::ir::op::{
    BarrierForm, BarrierRed, ClusterArrival, FenceOrder, MemScope, ProxySpace, Sync,
};

/// One of the block's 16 named barriers, for some of its threads. Use it to synchronise warps with
/// different roles, such as producers and consumers. [`Body::named_barrier`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct NamedBarrier<'b> {
    id: Val<'b, u32>,
    threads: Val<'b, u32>,
    form: BarrierForm,
}

/// # Named barriers
///
/// Synchronises some warps of the block, for example producers and consumers.
impl<'b> Body<'b, '_> {
    /// Returns named barrier `id` (0 to 15) for `threads` threads, a multiple of 32. It opens when
    /// that many threads have arrived; barriers count whole warps. [`Body::barrier`] is barrier 0
    /// for all threads of the block.
    ///
    /// You may branch on the warp index around a barrier; a branch on the lane is rejected, because
    /// a warp arrives as a whole. A barrier that never opens is a fault in the simulator.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// // The first warp fills the tile, the second one reads it.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("relay", Target::SM_80, |k, (x,)| {
    ///     let tile = k.shared::<i32>(32);
    ///     let full = k.named_barrier(1, 64);
    ///     let t = k.thread_idx().x;
    ///     k.if_else(
    ///         (t / 32).eq(0),
    ///         |_| {
    ///             tile.store(t, t);
    ///             full.arrive();
    ///         },
    ///         |_| {
    ///             full.sync();
    ///             x.store(t, tile.load(63 - t));
    ///         },
    ///     );
    /// })?;
    /// let ptx = kernel.ptx();
    /// assert!(ptx.text().contains("barrier.arrive 1, 64;") && ptx.text().contains("barrier.sync 1, 64;"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias("NamedBarrier", "bar.sync", "__barrier_sync_count"))]
    #[track_caller]
    pub fn named_barrier(
        &self,
        id: impl IntoVal<'b, u32>,
        threads: impl IntoVal<'b, u32>,
    ) -> NamedBarrier<'b> {
        let cx = self.context();
        let (id, threads) = (id.into_val(cx), threads.into_val(cx));
        NamedBarrier { id, threads, form: BarrierForm::Unaligned }
    }
}

/// # Cluster barrier
///
/// Synchronises the threads of a cluster. Requires `sm_90`.
impl<'b> Body<'b, '_> {
    /// Arrives at the cluster's barrier without waiting, so that the thread can work on until it
    /// calls [`barrier_cluster_wait`](Body::barrier_cluster_wait). Threads that wait see this
    /// thread's earlier accesses, unless `order` is [`Relaxed`](ClusterArrival::Relaxed). The form
    /// `Aligned` promises that all threads of a warp execute the same instruction. PTX ISA 9.7.13.3
    /// `barrier.cluster.arrive`; `sm_90`.
    #[doc(alias = "cluster_arrive")]
    #[track_caller]
    pub fn barrier_cluster_arrive(&self, form: BarrierForm, order: ClusterArrival) {
        self.context().emit(Sync::BarrierClusterArrive { form, order });
    }

    /// Waits until all threads of the cluster have arrived, except those that have ended. Call it
    /// after [`barrier_cluster_arrive`](Body::barrier_cluster_arrive). PTX ISA 9.7.13.3
    /// `barrier.cluster.wait`; `sm_90`.
    #[doc(alias("cluster_wait", "cluster_sync"))]
    #[track_caller]
    pub fn barrier_cluster_wait(&self, form: BarrierForm) {
        self.context().emit(Sync::BarrierClusterWait { form });
    }
}

/// # Fences
///
/// Orders memory accesses without waiting for other threads.
impl<'b> Body<'b, '_> {
    /// Orders the thread's memory accesses: those before the fence become visible before those
    /// after it, to the threads of `scope` that synchronise through it. Use it between writing data
    /// and setting a flag that tells other blocks about the data. PTX ISA 9.7.13.4 `fence`;
    /// `membar` is the fence of order [`Sc`](FenceOrder::Sc).
    ///
    /// ```
    /// use tilewright::ir::op::{FenceOrder, MemScope, ProxySpace};
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("publish", Target::SM_90, |k, (x,)| {
    ///     x.store(0, 1);
    ///     k.fence(FenceOrder::AcqRel, MemScope::Gpu);
    ///     x.store(1, 1);
    ///     k.fence_proxy_async(ProxySpace::SharedCta);
    /// })?;
    /// let ptx = kernel.ptx();
    /// assert!(ptx.text().contains("fence.acq_rel.gpu;"));
    /// assert!(ptx.text().contains("fence.proxy.async.shared::cta;"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias(
        "__threadfence",
        "threadfence",
        "__threadfence_block",
        "__threadfence_system",
        "membar",
        "atomic_thread_fence"
    ))]
    #[track_caller]
    pub fn fence(&self, order: FenceOrder, scope: MemScope) {
        self.context().emit(Sync::Fence { order, scope });
    }

    /// Orders the thread's accesses to memory that is mapped at several virtual addresses. Call it
    /// between an access through one address and an access to the same memory through another. PTX
    /// ISA 9.7.13.4 `fence.proxy.alias`.
    #[track_caller]
    pub fn fence_proxy_alias(&self) {
        self.context().emit(Sync::FenceProxyAlias {});
    }

    /// Makes the thread's ordinary accesses visible to asynchronous copies and `wgmma`. Call it
    /// between your stores and a bulk copy, TMA store or `wgmma` that reads what you stored. PTX
    /// ISA 9.7.13.4 `fence.proxy.async`; `sm_90`.
    #[doc(alias = "fence_view_async_shared")]
    #[track_caller]
    pub fn fence_proxy_async(&self, space: ProxySpace) {
        self.context().emit(Sync::FenceProxyAsync { space });
    }
}

impl<'b> NamedBarrier<'b> {
    /// Promises that all threads of a warp execute the barrier instruction together: PTX's
    /// `.aligned`. Leave it out if the warp may have diverged.
    pub fn aligned(self) -> NamedBarrier<'b> {
        NamedBarrier { form: BarrierForm::Aligned, ..self }
    }

    /// Waits until all of the barrier's threads have arrived. Each thread then sees the earlier
    /// writes of all others. PTX ISA 9.7.13.1 `barrier.sync`.
    #[track_caller]
    pub fn sync(self) {
        let cx = self.id.context();
        let (id, threads) = (cx.operand(self.id), cx.operand(self.threads));
        cx.emit(Sync::BarrierSync { id, threads, form: self.form });
    }

    /// Arrives without waiting. Threads that wait see this thread's earlier writes. A producer
    /// calls it when only the consumers have to wait. PTX ISA 9.7.13.1 `barrier.arrive`.
    #[track_caller]
    pub fn arrive(self) {
        let cx = self.id.context();
        let (id, threads) = (cx.operand(self.id), cx.operand(self.threads));
        cx.emit(Sync::BarrierArrive { id, threads, form: self.form });
    }

    #[track_caller]
    fn red(self, op: BarrierRed, pred: impl IntoVal<'b, bool>) -> Val<'b, bool> {
        let cx = self.id.context();
        let (id, threads) = (cx.operand(self.id), cx.operand(self.threads));
        let pred = cx.operand_of(pred);
        cx.emit_val(Sync::BarrierRed { pred, id, threads, op, form: self.form })
    }

    /// Waits for all of the barrier's threads, and returns whether `pred` is true in every one, for
    /// example whether every thread is done with its elements. PTX ISA 9.7.13.1 `barrier.red.and`.
    #[doc(alias("__syncthreads_and", "syncthreads_and"))]
    #[track_caller]
    pub fn red_and(self, pred: impl IntoVal<'b, bool>) -> Val<'b, bool> {
        self.red(BarrierRed::And, pred)
    }

    /// Waits for all of the barrier's threads, and returns whether `pred` is true in at least one,
    /// for example whether any thread found a match. PTX ISA 9.7.13.1 `barrier.red.or`.
    #[doc(alias("__syncthreads_or", "syncthreads_or"))]
    #[track_caller]
    pub fn red_or(self, pred: impl IntoVal<'b, bool>) -> Val<'b, bool> {
        self.red(BarrierRed::Or, pred)
    }

    /// Waits for all of the barrier's threads, and returns in how many of them `pred` is true, for
    /// example how many threads found a match. PTX ISA 9.7.13.1 `barrier.red.popc`.
    #[doc(alias("__syncthreads_count", "syncthreads_count"))]
    #[track_caller]
    pub fn red_popc(self, pred: impl IntoVal<'b, bool>) -> Val<'b, u32> {
        let cx = self.id.context();
        let (id, threads) = (cx.operand(self.id), cx.operand(self.threads));
        let pred = cx.operand_of(pred);
        cx.emit_val(Sync::BarrierRedPopc { pred, id, threads, form: self.form })
    }
}
