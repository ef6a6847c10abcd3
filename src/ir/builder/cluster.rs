//! Shared memory of the blocks of a cluster.

use super::body::Body;
use super::typed::{Element, IntoVal, Shared, SharedCluster, Val};
use crate::ir::op::{AsyncCopy, BulkReduce, Mem};

/// The shared memory of other blocks of the cluster, `sm_90`.
///
/// ```
/// use tilewright::ir::{
///     BarrierForm, ClusterArrival, GlobalMut, Kernel, KernelOptions, Target,
/// };
///
/// let options = KernelOptions::default().cluster([2, 1, 1]);
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build_with(options, "swap", Target::SM_90, |k, (x,)| {
///     let (tile, t) = (k.shared::<i32>(32), k.thread_idx().x);
///     tile.store(k, t, t + k.block_idx().x * 32);
///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
///     k.barrier_cluster_wait(BarrierForm::Unaligned);
///     let other = tile.mapa(k.cluster_ctarank() ^ 1);
///     x.store(k, k.block_idx().x * 32 + t, other.load(k, t));
///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
///     k.barrier_cluster_wait(BarrierForm::Unaligned);
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("mapa.shared::cluster.u32") && ptx.text().contains("ld.shared::cluster"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b, T: Element> Val<'b, Shared<T>> {
    /// The pointer to the same place in the shared memory of block `cta` of the cluster.
    /// PTX ISA 9.7.9.23 `mapa`; `sm_90`.
    #[track_caller]
    pub fn mapa(self, cta: impl IntoVal<'b, u32>) -> Val<'b, SharedCluster<T>> {
        let cx = self.context();
        let (base, cta) = (cx.operand(self), cx.operand_of(cta));
        cx.emit_val(Mem::Mapa { base, cta })
    }
}

/// Stores to other blocks of the cluster that the thread does not wait for.
impl<T: Element> Val<'_, SharedCluster<T>> {
    /// Sets the element to `value`; the phase of `barrier`, in the same block, then waits for as many bytes
    /// fewer as an element has. PTX ISA 9.7.9.13 `st.async`; `sm_90`.
    #[track_caller]
    pub fn st_async<'c>(
        self,
        k: &Body<'c, '_>,
        value: impl IntoVal<'c, T>,
        barrier: Val<'c, SharedCluster<u64>>,
    ) {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of::<i32>(0));
        let (value, barrier) = (cx.operand_of(value), cx.operand(barrier));
        cx.emit(AsyncCopy::StAsync { base, index, value, barrier, barrier_index: index });
    }

    /// As [`st_async`](Val::st_async), combined with what is there. PTX ISA 9.7.13.8 `red.async`; `sm_90`.
    #[track_caller]
    pub fn red_async<'c>(
        self,
        k: &Body<'c, '_>,
        op: BulkReduce,
        value: impl IntoVal<'c, T>,
        barrier: Val<'c, SharedCluster<u64>>,
    ) {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of::<i32>(0));
        let (value, barrier) = (cx.operand_of(value), cx.operand(barrier));
        cx.emit(AsyncCopy::RedAsync { base, index, value, barrier, barrier_index: index, op });
    }
}
