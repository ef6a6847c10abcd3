//! Op-table rows for barriers, fences and asynchronous copies, one per operation (`table.rs`
//! explains the notation).

/// Passes these rows on, after the rows that came before.
macro_rules! sync_rows {
    ($callback:ident $($before:tt)*) => {
        $crate::ir::op::table::warp::warp_rows! { $callback
            $($before)*
        /// Barriers and fences.
        Sync {
            /// Waits until all threads of the block that have not ended arrive; memory accesses
            /// before it are seen by the block after it. PTX ISA 9.7.13.1 `barrier.sync 0`.
            barrier = Barrier () {} -> Unit : Any, Sync / Block, SM_80;
            /// Waits at barrier `id`, 0 to 15, until `threads` threads have come to it, a multiple
            /// of 32. PTX ISA 9.7.13.1 `barrier.sync`.
            barrier_sync = BarrierSync (id: U32, threads: U32) { form: BarrierForm } -> Unit
                : Any, Sync / Warp, SM_80;
            /// Comes to barrier `id` of `threads` threads without waiting.
            /// PTX ISA 9.7.13.1 `barrier.arrive`.
            barrier_arrive = BarrierArrive (id: U32, threads: U32) { form: BarrierForm } -> Unit
                : Any, Sync / Warp, SM_80;
            /// Waits as `barrier_sync`; the result is `pred` of all threads, combined.
            /// PTX ISA 9.7.13.1 `barrier.red.and`, `barrier.red.or`.
            barrier_red = BarrierRed (pred: Bool, id: U32, threads: U32)
                { op: BarrierRed, form: BarrierForm } -> Bool : Any, Sync / Warp, SM_80;
            /// Waits as `barrier_sync`; the result is the number of threads in which `pred` holds.
            /// PTX ISA 9.7.13.1 `barrier.red.popc`.
            barrier_red_popc = BarrierRedPopc (pred: Bool, id: U32, threads: U32)
                { form: BarrierForm } -> U32 : Any, Sync / Warp, SM_80;
            /// Memory accesses before it come before those after it, for the threads of `scope`.
            /// PTX ISA 9.7.13.4 `fence`.
            fence = Fence () { order: FenceOrder, scope: MemScope } -> Unit : Any, Sync, SM_80
                where scope(scope);
            /// The same for accesses of the thread to one memory at several addresses.
            /// PTX ISA 9.7.13.4 `fence.proxy.alias`.
            fence_proxy_alias = FenceProxyAlias () {} -> Unit : Any, Sync, SM_80, PTX_7_5;
            /// The same for accesses of the thread and of asynchronous copies and tensor cores.
            /// PTX ISA 9.7.13.4 `fence.proxy.async`.
            fence_proxy_async = FenceProxyAsync () { space: ProxySpace } -> Unit
                : Any, Sync, SM_90, PTX_8_0;
            /// Comes to the barrier of the cluster without waiting. PTX ISA 9.7.13.3
            /// `barrier.cluster.arrive`.
            barrier_cluster_arrive = BarrierClusterArrive ()
                { form: BarrierForm, order: ClusterArrival } -> Unit : Any, Sync / Warp, SM_90, PTX_7_8;
            /// Waits until all threads of the cluster have come to its barrier. PTX ISA 9.7.13.3
            /// `barrier.cluster.wait`.
            barrier_cluster_wait = BarrierClusterWait () { form: BarrierForm } -> Unit
                : Any, Sync / Warp, SM_90, PTX_7_8;
            /// Waits until the grids that this one depends on have ended and their memory accesses
            /// are seen. PTX ISA 9.7.13.13 `griddepcontrol.wait`.
            griddepcontrol_wait = GriddepcontrolWait () {} -> Unit : Any, Sync, SM_90, PTX_7_8;
            /// Lets the grids that depend on this one start, once all its blocks have called this
            /// or have ended. PTX ISA 9.7.13.13 `griddepcontrol.launch_dependents`.
            griddepcontrol_launch_dependents = GriddepcontrolLaunchDependents () {} -> Unit
                : Any, Sync, SM_90, PTX_7_8;
        }
        /// Mbarriers: barriers in shared memory that count arrivals and bytes. A phase completes
        /// when no arrival and no byte is pending. The mbarrier is the element
        /// `*(barrier + index)`.
        Mbarrier {
            /// Makes a barrier whose phases wait for `count` arrivals. PTX ISA 9.7.13.15.9
            /// `mbarrier.init`.
            mbarrier_init = MbarrierInit (barrier: MutPointer, index: Index, count: U32) {} -> Unit
                : Any, Sync, SM_80 where counts(barrier, count);
            /// Makes the barrier memory again. PTX ISA 9.7.13.15.10 `mbarrier.inval`.
            mbarrier_inval = MbarrierInval (barrier: MutPointer, index: Index) {} -> Unit
                : Any, Sync, SM_80 where barrier(barrier);
            /// `count` arrivals; the result stands for the phase. PTX ISA 9.7.13.15.13
            /// `mbarrier.arrive`.
            mbarrier_arrive = MbarrierArrive (barrier: MutPointer, index: Index, count: U32) {} -> U64
                : Any, Sync + Own, SM_80 where arrivals(barrier, count);
            /// The phase waits for `bytes` more bytes; then one arrival. The result stands for the
            /// phase. PTX ISA 9.7.13.15.13 `mbarrier.arrive.expect_tx`.
            mbarrier_arrive_expect_tx = MbarrierArriveExpectTx
                (barrier: MutPointer, index: Index, bytes: U32) {} -> U64 : Any, Sync + Own, SM_90, PTX_8_0
                where barrier(barrier);
            /// An arrival at the barrier of the same location in block `cta` of the cluster.
            /// PTX ISA 9.7.13.15.13 `mbarrier.arrive.shared::cluster`, 9.7.9.23 `mapa`.
            mbarrier_arrive_cluster = MbarrierArriveCluster
                (barrier: MutPointer, index: Index, cta: U32) { order: RemoteArrival } -> Unit
                : Any, Sync, SM_90, PTX_8_0 where barrier(barrier);
            /// The phase waits for `bytes` more bytes. PTX ISA 9.7.13.15.11 `mbarrier.expect_tx`.
            mbarrier_expect_tx = MbarrierExpectTx (barrier: MutPointer, index: Index, bytes: U32) {}
                -> Unit : Any, Sync, SM_90, PTX_8_0 where barrier(barrier);
            /// The phase waits for `bytes` fewer bytes. PTX ISA 9.7.13.15.12
            /// `mbarrier.complete_tx`.
            mbarrier_complete_tx = MbarrierCompleteTx (barrier: MutPointer, index: Index, bytes: U32)
                {} -> Unit : Any, Sync, SM_90, PTX_8_0 where barrier(barrier);
            /// True where the phase of `state` has ended. PTX ISA 9.7.13.15.16
            /// `mbarrier.test_wait`.
            mbarrier_test_wait = MbarrierTestWait (barrier: MutPointer, index: Index, state: U64) {}
                -> Bool : Any, Sync + Own, SM_80 where barrier(barrier);
            /// True where the phase of parity `parity` has ended: 0 for the first phase, 1 for the
            /// one before it and for the second one, and so on. PTX ISA 9.7.13.15.16
            /// `mbarrier.test_wait.parity`.
            mbarrier_test_wait_parity = MbarrierTestWaitParity
                (barrier: MutPointer, index: Index, parity: U32) {} -> Bool : Any, Sync + Own, SM_80, PTX_7_1
                where parity(barrier, parity);
            /// As `mbarrier_test_wait`, perhaps after some time. PTX ISA 9.7.13.15.16
            /// `mbarrier.try_wait`.
            mbarrier_try_wait = MbarrierTryWait (barrier: MutPointer, index: Index, state: U64) {}
                -> Bool : Any, Sync + Own, SM_90, PTX_7_8 where barrier(barrier);
            /// As `mbarrier_test_wait_parity`, perhaps after some time.
            /// PTX ISA 9.7.13.15.16 `mbarrier.try_wait.parity`.
            mbarrier_try_wait_parity = MbarrierTryWaitParity
                (barrier: MutPointer, index: Index, parity: U32) {} -> Bool : Any, Sync + Own, SM_90, PTX_7_8
                where parity(barrier, parity);
            /// Waits until the phase of `state` has ended. PTX ISA 9.7.13.15.16,
            /// `mbarrier.try_wait` or `mbarrier.test_wait` in a loop.
            mbarrier_wait = MbarrierWait (barrier: MutPointer, index: Index, state: U64) {} -> Unit
                : Any, Sync, SM_80 where barrier(barrier);
            /// Waits until the phase of parity `parity` has ended. PTX ISA 9.7.13.15.16,
            /// `mbarrier.try_wait.parity` or `mbarrier.test_wait.parity` in a loop.
            mbarrier_wait_parity = MbarrierWaitParity (barrier: MutPointer, index: Index, parity: U32)
                {} -> Unit : Any, Sync, SM_80, PTX_7_1 where parity(barrier, parity);
            /// Makes the initialisation of mbarriers visible to the cluster and to bulk copies. PTX
            /// ISA 9.7.13.4 `fence.mbarrier_init`.
            fence_mbarrier_init = FenceMbarrierInit () {} -> Unit : Any, Sync, SM_90, PTX_8_0;
        }
        /// Asynchronous copies: the thread does not wait for them until it asks to.
        AsyncCopy {
            /// Copies `bytes` bytes, 4, 8 or 16, from global memory `*(from + from_index)` to
            /// shared memory `*(to + to_index)`: the first `src_bytes` of them, the rest is zero.
            /// Nothing is read for 0. PTX ISA 9.7.9.25.3.1 `cp.async`.
            cp_async = CpAsync
                (to: MutPointer, to_index: Index, from: Pointer, from_index: Index, src_bytes: U32)
                { cache: CpAsyncCache, bytes: u32 } -> Unit : Any, Sync, SM_80
                where cp_async(to, from, cache, bytes, src_bytes);
            /// Makes a group of the copies that are in none. PTX ISA 9.7.9.25.3.2
            /// `cp.async.commit_group`.
            cp_async_commit_group = CpAsyncCommitGroup () {} -> Unit : Any, Sync, SM_80;
            /// Waits until at most `pending` groups are not done, the latest ones.
            /// PTX ISA 9.7.9.25.3.3 `cp.async.wait_group`.
            cp_async_wait_group = CpAsyncWaitGroup () { pending: u32 } -> Unit : Any, Sync, SM_80;
            /// Waits for all copies of the thread. PTX ISA 9.7.9.25.3.3 `cp.async.wait_all`.
            cp_async_wait_all = CpAsyncWaitAll () {} -> Unit : Any, Sync, SM_80;
            /// An arrival at the barrier when all copies of the thread so far are done.
            /// PTX ISA 9.7.13.15.15 `cp.async.mbarrier.arrive`.
            cp_async_mbarrier_arrive = CpAsyncMbarrierArrive (barrier: MutPointer, index: Index)
                { count: PendingCount } -> Unit : Any, Sync, SM_80 where barrier(barrier);
            /// Copies `bytes` bytes, a multiple of 16, from global to shared memory; the phase of
            /// the barrier then waits for as many fewer. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
            cp_async_bulk_load = CpAsyncBulkLoad (to: MutPointer, to_index: Index, from: Pointer,
                from_index: Index, bytes: U32, barrier: MutPointer, barrier_index: Index)
                { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                where bulk_load(to, from, bytes, barrier);
            /// As `cp_async_bulk_load`, to the same location in each block of the cluster whose bit
            /// `ctas` has, and to the barrier there. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
            cp_async_bulk_multicast = CpAsyncBulkMulticast (to: MutPointer, to_index: Index, from: Pointer,
                from_index: Index, bytes: U32, barrier: MutPointer, barrier_index: Index, ctas: U32)
                { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                where bulk_load(to, from, bytes, barrier);
            /// Copies `bytes` bytes, a multiple of 16, from shared memory to that of a block of the
            /// cluster; the phase of the barrier, which is in the same block, then waits for as
            /// many fewer. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
            cp_async_bulk_cluster = CpAsyncBulkCluster (to: MutPointer, to_index: Index, from: Pointer,
                from_index: Index, bytes: U32, barrier: MutPointer, barrier_index: Index) {} -> Unit
                : Any, Sync, SM_90, PTX_8_0 where bulk_cluster(to, from, bytes, barrier);
            /// Copies `bytes` bytes, a multiple of 16, from shared to global memory, as one of the
            /// group that is committed next. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
            cp_async_bulk_store = CpAsyncBulkStore
                (to: MutPointer, to_index: Index, from: Pointer, from_index: Index, bytes: U32)
                { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                where bulk_store(to, from, bytes);
            /// Brings `bytes` bytes, a multiple of 16, into L2. PTX ISA 9.7.9.25.4.3
            /// `cp.async.bulk.prefetch`.
            cp_async_bulk_prefetch = CpAsyncBulkPrefetch (from: Pointer, from_index: Index, bytes: U32)
                { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                where bulk_prefetch(from, bytes);
            /// Copies the box at `coords` of a tensor to shared memory; the phase of the barrier
            /// then waits for as many bytes fewer. The first of `coords` is that of the contiguous
            /// dimension. In mode `im2col` an offset from base pixels follows for each spatial
            /// dimension. PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor`.
            cp_async_bulk_tensor_load = CpAsyncBulkTensorLoad (map: TensorMap, to: MutPointer,
                to_index: Index, barrier: MutPointer, barrier_index: Index; coords: [I32])
                { policy: L2Policy, mode: BoxMode } -> Unit : Any, Sync, SM_90, PTX_8_0
                where tensor_load(map, to, barrier, coords, mode);
            /// As `cp_async_bulk_tensor_load`, to the same location in each block of the cluster
            /// whose bit `ctas` has, and to the barrier there. PTX ISA 9.7.9.25.5.2
            /// `cp.async.bulk.tensor` `.multicast::cluster`.
            cp_async_bulk_tensor_multicast = CpAsyncBulkTensorMulticast (map: TensorMap, to: MutPointer,
                to_index: Index, barrier: MutPointer, barrier_index: Index, ctas: U32; coords: [I32])
                { policy: L2Policy, mode: BoxMode } -> Unit : Any, Sync, SM_90, PTX_8_0
                where tensor_load(map, to, barrier, coords, mode);
            /// Copies a box from shared memory to `coords` of a tensor, as one of the group that is
            /// committed next. No coordinate is negative. In mode `im2col` all base pixels are
            /// inside of the tensor. PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor`.
            cp_async_bulk_tensor_store = CpAsyncBulkTensorStore
                (map: TensorMap, from: Pointer, from_index: Index; coords: [I32])
                { policy: L2Policy, mode: BoxMode } -> Unit : Any, Sync, SM_90, PTX_8_0
                where tensor_store(map, from, coords, mode);
            /// As `cp_async_bulk_tensor_store`, combined with the destination element by element.
            /// PTX ISA 9.7.9.25.5.3 `cp.reduce.async.bulk.tensor`.
            cp_reduce_async_bulk_tensor = CpReduceAsyncBulkTensor
                (map: TensorMap, from: Pointer, from_index: Index; coords: [I32])
                { op: BulkReduce, policy: L2Policy, mode: BoxMode } -> Unit : Any, Sync, SM_90, PTX_8_0
                where tensor_reduce(map, from, coords, op, mode);
            /// Brings the box at `coords` of a tensor into L2.
            /// PTX ISA 9.7.9.25.5.4 `cp.async.bulk.prefetch.tensor`.
            cp_async_bulk_prefetch_tensor = CpAsyncBulkPrefetchTensor (map: TensorMap; coords: [I32])
                { policy: L2Policy, mode: BoxMode } -> Unit : Any, Sync, SM_90, PTX_8_0
                where tensor_prefetch(map, coords, mode);
            /// Sets `*(to + index)` in the shared memory of a block of the cluster to `value`; the
            /// phase of the barrier, which is in the same block, then waits for as many bytes
            /// fewer. PTX ISA 9.7.9.13 `st.async`.
            st_async = StAsync (base: MutPointer, index: Index, value: Elem, barrier: MutPointer,
                barrier_index: Index) {} -> Unit : Any, Sync, SM_90, PTX_8_1
                where st_async(base, barrier);
            /// As `st_async`, combined with the destination. PTX ISA 9.7.13.8 `red.async`.
            red_async = RedAsync (base: MutPointer, index: Index, value: Elem, barrier: MutPointer,
                barrier_index: Index) { op: BulkReduce } -> Unit : Any, Sync, SM_90, PTX_8_1
                where red_async(base, barrier, op);
            /// Makes a group of the bulk copies of the thread that are in none.
            /// PTX ISA 9.7.9.25.6.2 `cp.async.bulk.commit_group`.
            cp_async_bulk_commit_group = CpAsyncBulkCommitGroup () {} -> Unit : Any, Sync, SM_90, PTX_8_0;
            /// Waits until at most `pending` groups of bulk copies of the thread, the latest ones,
            /// are not done, or have not read their source. PTX ISA 9.7.9.25.6.3
            /// `cp.async.bulk.wait_group`.
            cp_async_bulk_wait_group = CpAsyncBulkWaitGroup () { pending: u32, wait: BulkWait } -> Unit
                : Any, Sync, SM_90, PTX_8_0;
            /// Brings the description of a tensor into a cache. PTX ISA 9.7.9.15
            /// `prefetch.tensormap`.
            prefetch_tensormap = PrefetchTensormap (map: TensorMap) {} -> Unit : Any, Read, SM_90, PTX_8_0;
            /// Writes the description of a tensor to the 128 bytes at `*(to + to_index)`, a
            /// multiple of 128: that of `map`, but the tensor starts at `*(base + base_index)`, a
            /// multiple of 16 bytes, and has the extents `sizes`, the contiguous one first,
            /// followed by the strides of the other dimensions in bytes. Then releases them for
            /// `tensormap_acquire`. Assemblers before PTX 8.5 count strides in 16 bytes. PTX ISA
            /// 9.7.9.27 `tensormap.replace`, 9.7.13.4 `fence.proxy.tensormap`.
            tensormap_replace = TensormapReplace (map: TensorMap, to: MutPointer, to_index: Index,
                base: Pointer, base_index: Index; sizes: [U64]) {} -> Unit : Any, Sync, SM_90A, PTX_8_5
                where tensormap_replace(map, to, base, sizes);
            /// The tensor that the 128 bytes at `*(from + from_index)` describe, which
            /// `tensormap_replace` has written for the same `map`. PTX ISA 9.7.13.4
            /// `fence.proxy.tensormap::generic.acquire`.
            tensormap_acquire = TensormapAcquire (map: TensorMap, from: Pointer, from_index: Index) {}
                -> Map : Any, Sync, SM_90, PTX_8_3 where tensormap_acquire(from);
        }
        }
    };
}

pub(in crate::ir) use sync_rows;
