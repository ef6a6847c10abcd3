//! Asynchronous copies between global and shared memory: `cp.async` by every thread, bulk copies
//! and TMA tensor copies by one thread. A kernel loads the next tile with them while it computes
//! with the current one.

use super::body::Body;
use super::mbarrier::MbarrierRef;
use super::typed::{
    Element, Global, GlobalMut, IntoVal, Pointer, Shared, SharedCluster, TensorMap, TensorMapMut,
    TensorMapType, Val,
};
use crate::ir::entity::Value;
use crate::ir::op::{AsyncCopy, BoxMode, BulkReduce, BulkWait, CpAsyncCache, L2Policy, ValueList};

/// # Copies with `cp.async`
///
/// Each thread starts asynchronous copies of 4, 8 or 16 bytes, from `sm_80` on (PTX ISA
/// 9.7.9.25.3). Copy, commit a group, wait for the group, then pass a barrier before other threads
/// read the data.
///
/// ```
/// use tilewright::ir::op::CpAsyncCache;
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
///
/// let kernel = Kernel::<(Global<f32>, GlobalMut<f32>)>::build("stage", Target::SM_80, |k, (x, y)| {
///     let tile = k.shared_aligned::<f32>(32 * 4, 16);
///     let i = k.thread_idx().x * 4;
///     k.cp_async(tile.offset(i), x.offset(i), CpAsyncCache::Cg, 16);
///     k.cp_async_commit_group();
///     k.cp_async_wait_group(0);
///     k.barrier();
///     y.store(i, tile.load(i ^ 4));
/// })?;
/// assert!(kernel.ptx().text().contains("cp.async.cg.shared.global ["));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b> Body<'b, '_> {
    /// Starts a copy of `bytes` bytes (4, 8 or 16) from global to shared memory. Both addresses
    /// must be multiples of `bytes`. The copy runs in the background: the data is there after
    /// [`cp_async_wait_group`](Body::cp_async_wait_group) or
    /// [`cp_async_wait_all`](Body::cp_async_wait_all). Only 16-byte copies can bypass L1 with
    /// [`Cg`](CpAsyncCache::Cg). PTX ISA 9.7.9.25.3.1 `cp.async`.
    #[doc(alias("__pipeline_memcpy_async", "memcpy_async"))]
    #[track_caller]
    pub fn cp_async<T: Element, P: Pointer<Elem = T>>(
        &self,
        to: Val<'b, Shared<T>>,
        from: Val<'b, P>,
        cache: CpAsyncCache,
        bytes: u32,
    ) {
        self.cp_async_zfill(to, from, cache, bytes, bytes);
    }

    /// Starts a copy as [`cp_async`](Body::cp_async) does, but reads only the first `src_bytes`
    /// bytes and fills the others with zeros. If `src_bytes` is 0, nothing is read and `from` may
    /// be any address, so you can predicate a copy this way. PTX ISA 9.7.9.25.3.1 `cp.async` with
    /// `src-size`.
    #[track_caller]
    pub fn cp_async_zfill<T: Element, P: Pointer<Elem = T>>(
        &self,
        to: Val<'b, Shared<T>>,
        from: Val<'b, P>,
        cache: CpAsyncCache,
        bytes: u32,
        src_bytes: impl IntoVal<'b, u32>,
    ) {
        let ((to, to_index), (from, from_index)) = (self.start(to), self.start(from));
        let src_bytes = self.context().operand_of(src_bytes);
        let copy = AsyncCopy::CpAsync { to, to_index, from, from_index, src_bytes, cache, bytes };
        self.context().emit(copy);
    }

    /// Splits a pointer into the two operands that memory operations take: base and index.
    #[track_caller]
    pub(super) fn start<P: Pointer>(&self, pointer: Val<'b, P>) -> (Value, Value) {
        let cx = self.context();
        (cx.operand(pointer), cx.operand_of::<i32>(0))
    }

    /// Commits all of the thread's `cp.async` that are in no group yet as one group. Call it once
    /// per tile, so that you can wait for each tile separately. PTX ISA 9.7.9.25.3.2
    /// `cp.async.commit_group`.
    #[doc(alias("__pipeline_commit", "cp_async_fence"))]
    #[track_caller]
    pub fn cp_async_commit_group(&self) {
        self.context().emit(AsyncCopy::CpAsyncCommitGroup {});
    }

    /// Waits until at most the latest `pending` groups of this thread are still in flight. For
    /// example, with one group per tile, `1` waits for all tiles except the newest. The copied data
    /// is then visible to this thread; other threads need a barrier after the wait. PTX
    /// ISA 9.7.9.25.3.3 `cp.async.wait_group`.
    #[doc(alias("__pipeline_wait_prior", "cp_async_wait"))]
    #[track_caller]
    pub fn cp_async_wait_group(&self, pending: u32) {
        self.context().emit(AsyncCopy::CpAsyncWaitGroup { pending });
    }

    /// Waits until all of the thread's `cp.async` have completed, in groups or not. The data is
    /// then visible to this thread; other threads need a barrier after the wait. PTX
    /// ISA 9.7.9.25.3.3 `cp.async.wait_all`.
    #[track_caller]
    pub fn cp_async_wait_all(&self) {
        self.context().emit(AsyncCopy::CpAsyncWaitAll {});
    }
}

/// # Bulk copies
///
/// One thread starts a copy of many contiguous bytes, from `sm_90` on (PTX ISA 9.7.9.25.4). A copy
/// to shared memory completes on an mbarrier, a copy to global memory in a bulk group. TMA copies
/// are methods of a tensor map.
impl<'b> Body<'b, '_> {
    /// Starts a copy of `bytes` bytes from global to shared memory; call it in one thread. When the
    /// copy is done, it completes the bytes on the mbarrier `barrier`, on which the readers wait.
    /// Announce the bytes with [`arrive_expect_tx`](MbarrierRef::arrive_expect_tx). Addresses and
    /// `bytes` must be multiples of 16. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
    ///
    /// ```
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::ir::op::L2Policy;
    ///
    /// let kernel = Kernel::<(Global<f32>, GlobalMut<f32>)>::build("bulk", Target::SM_90, |k, (x, y)| {
    ///     let (tile, full) = (k.shared_aligned::<f32>(256, 16), k.shared::<u64>(1).mbarrier(0));
    ///     let t = k.thread_idx().x;
    ///     k.if_(t.eq(0), |k| {
    ///         full.init(1);
    ///         k.fence_mbarrier_init();
    ///         full.arrive_expect_tx(1024);
    ///         k.cp_async_bulk_load(tile, x, 1024, full, L2Policy::EvictFirst);
    ///     });
    ///     k.barrier();
    ///     full.wait_parity(0);
    ///     y.store(t, tile.load(t));
    /// })?;
    /// assert!(kernel.ptx().text().contains("mbarrier::complete_tx::bytes.L2::cache_hint ["));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn cp_async_bulk_load<T: Element, P: Pointer<Elem = T>>(
        &self,
        to: Val<'b, Shared<T>>,
        from: Val<'b, P>,
        bytes: impl IntoVal<'b, u32>,
        barrier: MbarrierRef<'_>,
        policy: L2Policy,
    ) {
        let ((to, to_index), (from, from_index)) = (self.start(to), self.start(from));
        let [barrier, barrier_index] = barrier.location(self);
        let bytes = self.context().operand_of(bytes);
        self.context().emit(AsyncCopy::CpAsyncBulkLoad {
            to,
            to_index,
            from,
            from_index,
            bytes,
            barrier,
            barrier_index,
            policy,
        });
    }

    /// Starts a copy as [`cp_async_bulk_load`](Body::cp_async_bulk_load) does, into several blocks
    /// of the cluster that need the same data. Every block whose bit is set in `ctas` gets the data
    /// at the same offset in its shared memory, and the bytes are completed on that block's own
    /// barrier. PTX ISA 9.7.9.25.4.1 `.multicast::cluster`.
    ///
    /// ```
    /// use tilewright::ir::op::{BarrierForm, ClusterArrival, L2Policy};
    /// use tilewright::ir::{Global, GlobalMut, Kernel, KernelOptions, Target};
    ///
    /// let options = KernelOptions::default().cluster([2, 1, 1]);
    /// type Params = (Global<f32>, GlobalMut<f32>);
    /// let kernel = Kernel::<Params>::build_with(options, "both", Target::SM_90, |k, (x, y)| {
    ///     let (tile, full) = (k.shared_aligned::<f32>(256, 16), k.shared::<u64>(1).mbarrier(0));
    ///     let t = k.thread_idx().x;
    ///     k.if_(t.eq(0), |k| {
    ///         full.init(1);
    ///         k.fence_mbarrier_init();
    ///         full.arrive_expect_tx(1024);
    ///     });
    ///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
    ///     k.barrier_cluster_wait(BarrierForm::Unaligned);
    ///     k.if_((k.block_idx().x + t).eq(0), |k| {
    ///         k.cp_async_bulk_multicast(tile, x, 1024, full, 0b11, L2Policy::Default);
    ///     });
    ///     full.wait_parity(0);
    ///     y.store(k.block_idx().x * 256 + t, tile.load(t));
    /// })?;
    /// assert!(kernel.ptx().text().contains("mbarrier::complete_tx::bytes.multicast::cluster ["));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn cp_async_bulk_multicast<T: Element, P: Pointer<Elem = T>>(
        &self,
        to: Val<'b, Shared<T>>,
        from: Val<'b, P>,
        bytes: impl IntoVal<'b, u32>,
        barrier: MbarrierRef<'_>,
        ctas: impl IntoVal<'b, u32>,
        policy: L2Policy,
    ) {
        let ((to, to_index), (from, from_index)) = (self.start(to), self.start(from));
        let [barrier, barrier_index] = barrier.location(self);
        let cx = self.context();
        let (bytes, ctas) = (cx.operand_of(bytes), cx.operand_of(ctas));
        cx.emit(AsyncCopy::CpAsyncBulkMulticast {
            to,
            to_index,
            from,
            from_index,
            bytes,
            barrier,
            barrier_index,
            ctas,
            policy,
        });
    }

    /// Starts a copy of `bytes` bytes from this block's shared memory to the shared memory of
    /// another block in the cluster, for example to combine partial results without global memory.
    /// When the copy is done, the bytes are completed on `barrier`, which must be in the same block
    /// as `to`. Addresses and `bytes` must be multiples of 16. Threads that stored the data must
    /// first call [`fence_proxy_async`](Body::fence_proxy_async). PTX ISA 9.7.9.25.4.1
    /// `cp.async.bulk`.
    ///
    /// ```
    /// use tilewright::ir::op::{BarrierForm, ClusterArrival, ProxySpace};
    /// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
    ///
    /// let options = KernelOptions::default().cluster([2, 1, 1]);
    /// let kernel = Kernel::<(GlobalMut<u32>,)>::build_with(options, "swap", Target::SM_90, |k, (y,)| {
    ///     let (mine, theirs) = (k.shared_aligned::<u32>(32, 16), k.shared_aligned::<u32>(32, 16));
    ///     let bar = k.shared::<u64>(1);
    ///     let (t, rank) = (k.thread_idx().x, k.block_idx().x);
    ///     k.if_(t.eq(0), |k| {
    ///         bar.mbarrier(0).init(1);
    ///         k.fence_mbarrier_init();
    ///         bar.mbarrier(0).arrive_expect_tx(128);
    ///     });
    ///     mine.store(t, (rank * 32 + t).cvt::<u32>());
    ///     k.fence_proxy_async(ProxySpace::SharedCta);
    ///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
    ///     k.barrier_cluster_wait(BarrierForm::Unaligned);
    ///     k.if_(t.eq(0), |k| {
    ///         let other = (rank ^ 1).cvt::<u32>();
    ///         k.cp_async_bulk_cluster(theirs.mapa(other), mine, 128, bar.mapa(other));
    ///     });
    ///     bar.mbarrier(0).wait_parity(0);
    ///     y.store(rank * 32 + t, theirs.load(t));
    ///     k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
    ///     k.barrier_cluster_wait(BarrierForm::Unaligned);
    /// })?;
    /// assert!(kernel.ptx().text().contains("cp.async.bulk.shared::cluster.shared::cta.mbarrier"));
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::{Device, Grid};
    /// let device = Device::sim()?;
    /// let mut y = device.zeros::<u32>(64)?;
    /// device.load(&kernel)?.launch(Grid::new([2, 1, 1], [32, 1, 1]), (&mut y,))?;
    /// assert_eq!(y.to_vec()?, (32..64).chain(0..32).collect::<Vec<u32>>());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn cp_async_bulk_cluster<T: Element>(
        &self,
        to: Val<'b, SharedCluster<T>>,
        from: Val<'b, Shared<T>>,
        bytes: impl IntoVal<'b, u32>,
        barrier: Val<'b, SharedCluster<u64>>,
    ) {
        let ((to, to_index), (from, from_index)) = (self.start(to), self.start(from));
        let (barrier, barrier_index) = self.start(barrier);
        let bytes = self.context().operand_of(bytes);
        self.context().emit(AsyncCopy::CpAsyncBulkCluster {
            to,
            to_index,
            from,
            from_index,
            bytes,
            barrier,
            barrier_index,
        });
    }

    /// Starts a copy of `bytes` bytes from shared to global memory, for example to write a block's
    /// results. The copy belongs to the thread's next [bulk
    /// group](Body::cp_async_bulk_commit_group). Addresses and `bytes` must be multiples of 16.
    /// Threads that stored the data must first call [`fence_proxy_async`](Body::fence_proxy_async).
    /// PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
    #[track_caller]
    pub fn cp_async_bulk_store<T: Element>(
        &self,
        to: Val<'b, GlobalMut<T>>,
        from: Val<'b, Shared<T>>,
        bytes: impl IntoVal<'b, u32>,
        policy: L2Policy,
    ) {
        let ((to, to_index), (from, from_index)) = (self.start(to), self.start(from));
        let bytes = self.context().operand_of(bytes);
        let copy = AsyncCopy::CpAsyncBulkStore { to, to_index, from, from_index, bytes, policy };
        self.context().emit(copy);
    }

    /// Prefetches `bytes` bytes of global memory into L2, so that a later copy or load is faster.
    /// The address and `bytes` must be multiples of 16. PTX ISA 9.7.9.25.4.3
    /// `cp.async.bulk.prefetch`.
    #[track_caller]
    pub fn cp_async_bulk_prefetch<T: Element>(
        &self,
        from: Val<'b, Global<T>>,
        bytes: impl IntoVal<'b, u32>,
        policy: L2Policy,
    ) {
        let (from, from_index) = self.start(from);
        let bytes = self.context().operand_of(bytes);
        self.context().emit(AsyncCopy::CpAsyncBulkPrefetch { from, from_index, bytes, policy });
    }

    /// Makes one group of the thread's bulk copies to global memory that are in no group yet. Call
    /// it after the copies that you want to wait for together. A group without copies counts too
    /// when you wait. PTX ISA 9.7.9.25.6.2 `cp.async.bulk.commit_group`.
    #[doc(alias = "tma_store_arrive")]
    #[track_caller]
    pub fn cp_async_bulk_commit_group(&self) {
        self.context().emit(AsyncCopy::CpAsyncBulkCommitGroup {});
    }

    /// Waits until at most the latest `pending` bulk groups of this thread are still in flight, or
    /// with [`BulkWait::Read`] until all older groups have read their source. Wait with `Read`
    /// before you overwrite the shared memory that a copy stores from. PTX ISA 9.7.9.25.6.3
    /// `cp.async.bulk.wait_group`.
    #[doc(alias = "tma_store_wait")]
    #[track_caller]
    pub fn cp_async_bulk_wait_group(&self, pending: u32, wait: BulkWait) {
        self.context().emit(AsyncCopy::CpAsyncBulkWaitGroup { pending, wait });
    }
}

/// # Tensor map descriptors
///
/// Takes maps of any rank and element type, mutable or not.
impl<'b> Body<'b, '_> {
    #[track_caller]
    pub(super) fn coords<'c, const RANK: usize>(&self, coords: [Val<'c, i32>; RANK]) -> ValueList {
        let cx = self.context();
        coords.iter().map(|coord| cx.operand(*coord)).collect()
    }

    /// Prefetches the tensor map's descriptor into a cache. Call it in one thread at the start of
    /// the kernel, so that the first copy need not wait for the descriptor. PTX ISA 9.7.9.15
    /// `prefetch.tensormap`; `sm_90`.
    #[track_caller]
    pub fn prefetch_tensormap<M: TensorMapType>(&self, map: Val<'_, M>) {
        let map = self.context().operand(map);
        self.context().emit(AsyncCopy::PrefetchTensormap { map });
    }
}

macro_rules! loads {
    ($($Map:ident)*) => {$(
        #[doc = concat!("# TMA loads through a `", stringify!($Map), "`")]
        ///
        /// Copies a tensor's boxes from global to shared memory, from `sm_90` on (PTX ISA
        /// 9.7.9.25.5).
        impl<'b, T: Element, const RANK: usize> Val<'b, $Map<T, RANK>> {
            /// Starts a copy of the box at `coords` to shared memory `to`; call it in one thread.
            /// `coords` lists the contiguous dimension first; `to` must be a multiple of 128 bytes.
            /// Parts of the box outside the tensor are filled with the tensor map's fill value.
            /// When the copy is done, the bytes of a whole box, filled parts included, are
            /// completed on the mbarrier `barrier`, on which the readers wait. PTX ISA 9.7.9.25.5.2
            /// `cp.async.bulk.tensor`.
            ///
            /// ```
            /// use tilewright::ir::{GlobalMut, Kernel, Target, TensorMap};
            /// use tilewright::ir::op::L2Policy;
            ///
            /// type Params = (TensorMap<f32, 2>, GlobalMut<f32>);
            /// let kernel = Kernel::<Params>::build("box", Target::SM_90, |k, (map, y)| {
            ///     let (tile, full) = (k.shared_aligned::<f32>(256, 128), k.shared::<u64>(1).mbarrier(0));
            ///     let t = k.thread_idx().x;
            ///     k.if_(t.eq(0), |k| {
            ///         full.init(1);
            ///         k.fence_mbarrier_init();
            ///         full.arrive_expect_tx(1024);
            ///         let coords = [k.constant(32), k.constant(8)];
            ///         map.cp_async_bulk_tensor_load(tile, coords, full, L2Policy::Default);
            ///     });
            ///     k.barrier();
            ///     full.wait_parity(0);
            ///     y.store(t, tile.load(t));
            /// })?;
            /// assert!(kernel.ptx().text().contains("cp.async.bulk.tensor.2d.shared::cluster.global"));
            /// # Ok::<(), tilewright::ir::BuildErrors>(())
            /// ```
            #[doc(alias("tma_load", "SM90_TMA_LOAD"))]
            #[track_caller]
            pub fn cp_async_bulk_tensor_load(
                self,
                to: Val<'b, Shared<T>>,
                coords: [Val<'b, i32>; RANK],
                barrier: MbarrierRef<'_>,
                policy: L2Policy,
            ) {
                let k = &self.body();
                let cx = k.context();
                let (map, (to, to_index)) = (cx.operand(self), k.start(to));
                let [barrier, barrier_index] = barrier.location(k);
                let coords = k.coords(coords);
                cx.emit(AsyncCopy::CpAsyncBulkTensorLoad {
                    map,
                    to,
                    to_index,
                    barrier,
                    barrier_index,
                    coords,
                    policy,
                    mode: BoxMode::Tile,
                });
            }

            /// Starts a copy as [`cp_async_bulk_tensor_load`](Val::cp_async_bulk_tensor_load) does,
            /// into several blocks of the cluster that need the same box. Every block whose bit is
            /// set in `ctas` gets the box at the same offset in its shared memory, and the bytes
            /// are completed on that block's own barrier. PTX ISA 9.7.9.25.5.2
            /// `.multicast::cluster`.
            #[track_caller]
            pub fn cp_async_bulk_tensor_multicast(
                self,
                to: Val<'b, Shared<T>>,
                coords: [Val<'b, i32>; RANK],
                barrier: MbarrierRef<'_>,
                ctas: impl IntoVal<'b, u32>,
                policy: L2Policy,
            ) {
                let k = &self.body();
                let cx = k.context();
                let (map, (to, to_index)) = (cx.operand(self), k.start(to));
                let [barrier, barrier_index] = barrier.location(k);
                let (ctas, coords) = (cx.operand_of(ctas), k.coords(coords));
                cx.emit(AsyncCopy::CpAsyncBulkTensorMulticast {
                    map,
                    to,
                    to_index,
                    barrier,
                    barrier_index,
                    ctas,
                    coords,
                    policy,
                    mode: BoxMode::Tile,
                });
            }

            /// Prefetches the box at `coords` into L2, so that a later load of it is faster. PTX
            /// ISA 9.7.9.25.5.4 `cp.async.bulk.prefetch.tensor`.
            #[track_caller]
            pub fn cp_async_bulk_prefetch_tensor(
                self,
                coords: [Val<'b, i32>; RANK],
                policy: L2Policy,
            ) {
                let k = &self.body();
                let (map, coords) = (k.context().operand(self), k.coords(coords));
                let mode = BoxMode::Tile;
                k.context().emit(AsyncCopy::CpAsyncBulkPrefetchTensor { map, coords, policy, mode });
            }
        }
    )*};
}
loads!(TensorMap TensorMapMut);

macro_rules! in_memory {
    ($($Map:ident)*) => {$(
        #[doc = concat!("# Device-made maps from a `", stringify!($Map), "`")]
        ///
        /// The kernel itself writes a tensor map to global memory. Use it if a tensor's address or
        /// shape is known only on the device, as in a grouped GEMM. Requires `sm_90a`.
        impl<'b, T: Element, const RANK: usize> Val<'b, $Map<T, RANK>> {
            /// Writes a tensor map to the 16 elements at `to`, a multiple of 128 bytes. Read it
            /// with [`tensormap_acquire`](Val::tensormap_acquire), after a barrier or in a later
            /// launch. No copy that uses the map at `to` may be in flight.
            ///
            /// The new map is a copy of this one with another address and shape. The tensor starts
            /// at `base`, a multiple of 16 bytes inside this map's buffer. `dims` are its extents,
            /// contiguous dimension first. `strides_bytes` are the `RANK - 1` strides of the other
            /// dimensions in bytes, multiples of 16. PTX ISA 9.7.9.27 `tensormap.replace`.
            ///
            /// ```
            /// # #[cfg(feature = "sim")] {
            /// use tilewright::arch::TensorMapDesc;
            /// use tilewright::ir::op::L2Policy;
            /// use tilewright::ir::types::Scalar;
            /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, TensorMap};
            /// use tilewright::runtime::{Device, Grid};
            ///
            /// // Sums a box of 4 x 4 at the start of the matrix of 3 x 3 from element 20 on: elements outside are 0.
            /// type Params = (TensorMap<f32, 2>, Global<f32>, GlobalMut<u64>, GlobalMut<f32>);
            /// let kernel = Kernel::<Params>::build("k", Target::SM_90A, |k, (map, x, maps, y)| {
            ///     let (tile, full) = (k.shared_aligned::<f32>(16, 128), k.shared::<u64>(1).mbarrier(0));
            ///     k.if_(k.thread_idx().x.eq(0), |k| {
            ///         full.init(1);
            ///         k.fence_mbarrier_init();
            ///         let three = k.constant(3u64);
            ///         map.tensormap_replace(maps, x.offset(20), [three; 2], &[k.constant(16u64)]);
            ///         let matrix = map.tensormap_acquire(maps);
            ///         full.arrive_expect_tx(64);
            ///         let first = [k.constant(0); 2];
            ///         matrix.cp_async_bulk_tensor_load(tile, first, full, L2Policy::Default);
            ///         full.wait_parity(0);
            ///         let elements = (0..16).map(|i| tile.load(i));
            ///         y.store(0, elements.reduce(|a, b| a + b).unwrap_or(k.constant(0.0)));
            ///     });
            /// })?;
            /// let device = Device::sim()?;
            /// let x = device.upload(&(0..100).map(|i| i as f32).collect::<Vec<_>>())?;
            /// let (mut maps, mut y) = (device.zeros::<u64>(16)?, device.zeros::<f32>(1)?);
            /// let map = x.tensor_map(&TensorMapDesc::new(Scalar::F32, &[8, 8], &[32], &[4, 4])?)?;
            /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&map, &x, &mut maps, &mut y))?;
            /// let sum: usize = (0..3).map(|row| (0..3).map(|i| 20 + 4 * row + i).sum::<usize>()).sum();
            /// assert_eq!(y.to_vec()?, [sum as f32]);
            /// # }
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[track_caller]
            pub fn tensormap_replace(
                self,
                to: Val<'b, GlobalMut<u64>>,
                base: Val<'b, impl Pointer<Elem = T>>,
                dims: [Val<'b, u64>; RANK],
                strides_bytes: &[Val<'b, u64>],
            ) {
                let k = &self.body();
                let cx = k.context();
                let (map, (to, to_index), (base, base_index)) =
                    (cx.operand(self), k.start(to), k.start(base));
                let sizes = dims.iter().chain(strides_bytes).map(|size| cx.operand(*size));
                let sizes = sizes.collect();
                cx.emit(AsyncCopy::TensormapReplace { map, to, to_index, base, base_index, sizes });
            }

            /// Returns the tensor map that [`tensormap_replace`](Val::tensormap_replace) wrote from
            /// this map to the 16 elements at `from`. Call it in the thread that starts the copies,
            /// before each use of a map that may have changed. PTX ISA 9.7.13.4
            /// `fence.proxy.tensormap::generic.acquire`.
            #[track_caller]
            pub fn tensormap_acquire(
                self,
                from: Val<'b, impl Pointer<Elem = u64>>,
            ) -> Val<'b, $Map<T, RANK>>
{
                let k = &self.body();
                let (map, (from, from_index)) = (k.context().operand(self), k.start(from));
                k.context().emit_val(AsyncCopy::TensormapAcquire { map, from, from_index })
            }
        }
    )*};
}
in_memory!(TensorMap TensorMapMut);

/// # TMA stores
///
/// Copies boxes from shared memory to a tensor in global memory, from `sm_90` on (PTX ISA
/// 9.7.9.25.5).
impl<'b, T: Element, const RANK: usize> Val<'b, TensorMapMut<T, RANK>> {
    /// Starts a copy of a box from shared memory to the tensor at `coords`, for example to write a
    /// result tile. The copy belongs to the thread's next [bulk
    /// group](Body::cp_async_bulk_commit_group). Parts of the box outside the tensor are not
    /// written; coordinates must not be negative. Threads that stored the data must first call
    /// [`fence_proxy_async`](Body::fence_proxy_async). PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor`.
    #[doc(alias("tma_store", "SM90_TMA_STORE"))]
    #[track_caller]
    pub fn cp_async_bulk_tensor_store(
        self,
        coords: [Val<'b, i32>; RANK],
        from: Val<'b, Shared<T>>,
        policy: L2Policy,
    ) {
        let k = &self.body();
        let (map, coords) = (k.context().operand(self), k.coords(coords));
        let (from, from_index) = k.start(from);
        let mode = BoxMode::Tile;
        let copy =
            AsyncCopy::CpAsyncBulkTensorStore { map, from, from_index, coords, policy, mode };
        k.context().emit(copy);
    }

    /// Starts a copy as [`cp_async_bulk_tensor_store`](Val::cp_async_bulk_tensor_store) does, but
    /// combines each element with the tensor's element by `op`, for example to add partial sums of
    /// several blocks. PTX ISA 9.7.9.25.5.3 `cp.reduce.async.bulk.tensor`.
    #[track_caller]
    pub fn cp_reduce_async_bulk_tensor(
        self,
        op: BulkReduce,
        coords: [Val<'b, i32>; RANK],
        from: Val<'b, Shared<T>>,
        policy: L2Policy,
    ) {
        let k = &self.body();
        let (map, coords) = (k.context().operand(self), k.coords(coords));
        let (from, from_index) = k.start(from);
        let mode = BoxMode::Tile;
        let copy =
            AsyncCopy::CpReduceAsyncBulkTensor { map, from, from_index, op, coords, policy, mode };
        k.context().emit(copy);
    }
}
