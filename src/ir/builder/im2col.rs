//! TMA copies in im2col mode: the columns of pixels that an implicit-GEMM convolution reads from a
//! feature map. [`Im2colCopy`](crate::tensor::copy::Im2colCopy) does it for whole tiles.

use super::body::Body;
use super::mbarrier::MbarrierRef;
use super::typed::{Element, IntoVal, Shared, TensorMap, TensorMapMut, Val};
use crate::ir::op::{AsyncCopy, BoxMode, BulkReduce, L2Policy, ValueList};

impl<'b> Body<'b, '_> {
    /// Returns the coordinates, followed by the offsets.
    #[track_caller]
    fn pixels<const RANK: usize>(
        &self,
        coords: [Val<'b, i32>; RANK],
        offsets: &[Val<'b, i32>],
    ) -> ValueList {
        let mut all = self.coords(coords);
        let cx = self.context();
        all.extend(offsets.iter().map(|offset| cx.operand(*offset)));
        all
    }
}

macro_rules! loads {
    ($($Map:ident)*) => {$(
        #[doc = concat!("# TMA loads of pixel columns through a `", stringify!($Map), "`")]
        ///
        /// Needs a tensor map of [im2col mode](crate::arch::TensorMapDesc::im2col) and `sm_90` (PTX
        /// ISA 9.7.9.25.5).
        impl<'b, T: Element, const RANK: usize> Val<'b, $Map<T, RANK>> {
            /// Starts a copy of pixels to shared memory `to`, for a convolution. It begins with the
            /// base pixel at `coords`: channel, then W, H and D as far as they exist, then image.
            /// Each pixel that it reads lies `offsets` away from its base pixel, one offset per
            /// spatial dimension, W first; a convolution passes the filter position. `to` must be a
            /// multiple of 128 bytes.
            ///
            /// Pixels outside the tensor are filled with the tensor map's fill value. When the copy
            /// is done, the bytes of all its pixels, filled ones included, are completed on the
            /// mbarrier `barrier`. PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor.im2col`.
            ///
            /// ```
            /// use tilewright::ir::{GlobalMut, Kernel, Target, TensorMap};
            /// use tilewright::ir::op::L2Policy;
            ///
            /// type Params = (TensorMap<f32, 4>, GlobalMut<f32>);
            /// let kernel = Kernel::<Params>::build("pixels", Target::SM_90, |k, (map, y)| {
            ///     let (tile, full) = (k.shared_aligned::<f32>(256, 128), k.shared::<u64>(1).mbarrier(0));
            ///     let t = k.thread_idx().x;
            ///     k.if_(t.eq(0), |k| {
            ///         full.init(1);
            ///         k.fence_mbarrier_init();
            ///         full.arrive_expect_tx(1024);
            ///         let [zero, one] = [0, 1].map(|n| k.constant(n));
            ///         let coords = [zero, one, zero, zero];
            ///         map.cp_async_bulk_tensor_load_im2col(
            ///             tile, coords, &[zero, one], full, L2Policy::Default,
            ///         );
            ///     });
            ///     k.barrier();
            ///     full.wait_parity(0);
            ///     y.store(t, tile.load(t));
            /// })?;
            /// assert!(kernel.ptx().text().contains("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"));
            /// # Ok::<(), tilewright::ir::BuildErrors>(())
            /// ```
            #[track_caller]
            pub fn cp_async_bulk_tensor_load_im2col(
                self,
                to: Val<'b, Shared<T>>,
                coords: [Val<'b, i32>; RANK],
                offsets: &[Val<'b, i32>],
                barrier: MbarrierRef<'_>,
                policy: L2Policy,
            ) {
                let k = &self.body();
                let cx = k.context();
                let (map, (to, to_index)) = (cx.operand(self), k.start(to));
                let [barrier, barrier_index] = barrier.location(k);
                let coords = k.pixels(coords, offsets);
                cx.emit(AsyncCopy::CpAsyncBulkTensorLoad {
                    map,
                    to,
                    to_index,
                    barrier,
                    barrier_index,
                    coords,
                    policy,
                    mode: BoxMode::Im2col,
                });
            }

            /// Starts a copy as
            /// [`cp_async_bulk_tensor_load_im2col`](Val::cp_async_bulk_tensor_load_im2col) does,
            /// into several blocks of the cluster that need the same pixels. Every block whose bit
            /// is set in `ctas` gets the pixels at the same offset in its shared memory, and the
            /// bytes are completed on that block's own barrier. PTX ISA 9.7.9.25.5.2
            /// `.multicast::cluster`.
            #[track_caller]
            pub fn cp_async_bulk_tensor_multicast_im2col(
                self,
                to: Val<'b, Shared<T>>,
                coords: [Val<'b, i32>; RANK],
                offsets: &[Val<'b, i32>],
                barrier: MbarrierRef<'_>,
                ctas: impl IntoVal<'b, u32>,
                policy: L2Policy,
            ) {
                let k = &self.body();
                let cx = k.context();
                let (map, (to, to_index)) = (cx.operand(self), k.start(to));
                let [barrier, barrier_index] = barrier.location(k);
                let (ctas, coords) = (cx.operand_of(ctas), k.pixels(coords, offsets));
                cx.emit(AsyncCopy::CpAsyncBulkTensorMulticast {
                    map,
                    to,
                    to_index,
                    barrier,
                    barrier_index,
                    ctas,
                    coords,
                    policy,
                    mode: BoxMode::Im2col,
                });
            }

            /// Prefetches into L2 the pixels that a [load](Val::cp_async_bulk_tensor_load_im2col)
            /// with the same arguments would copy. PTX ISA 9.7.9.25.5.4
            /// `cp.async.bulk.prefetch.tensor`.
            #[track_caller]
            pub fn cp_async_bulk_prefetch_tensor_im2col(
                self,
                coords: [Val<'b, i32>; RANK],
                offsets: &[Val<'b, i32>],
                policy: L2Policy,
            ) {
                let k = &self.body();
                let (map, coords) = (k.context().operand(self), k.pixels(coords, offsets));
                let mode = BoxMode::Im2col;
                k.context().emit(AsyncCopy::CpAsyncBulkPrefetchTensor { map, coords, policy, mode });
            }
        }
    )*};
}
loads!(TensorMap TensorMapMut);

/// # TMA stores of pixel columns
///
/// Needs a tensor map of [im2col mode](crate::arch::TensorMapDesc::im2col) and `sm_90` (PTX ISA
/// 9.7.9.25.5).
impl<'b, T: Element, const RANK: usize> Val<'b, TensorMapMut<T, RANK>> {
    /// Starts a copy of pixels from shared memory to the base pixels from `coords` on, for example
    /// to write a convolution's results. The copy belongs to the thread's next [bulk
    /// group](Body::cp_async_bulk_commit_group). Pixels past the last image are not written.
    /// Threads that stored the data must first call [`fence_proxy_async`](Body::fence_proxy_async).
    /// PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor.im2col_no_offs`.
    ///
    /// The hardware stores only to base pixels inside the tensor. A launch refuses maps with a
    /// lower corner below 0 or an upper corner above 0, and coordinates must not be negative.
    #[track_caller]
    pub fn cp_async_bulk_tensor_store_im2col(
        self,
        coords: [Val<'b, i32>; RANK],
        from: Val<'b, Shared<T>>,
        policy: L2Policy,
    ) {
        let k = &self.body();
        let (map, coords) = (k.context().operand(self), k.coords(coords));
        let ((from, from_index), mode) = (k.start(from), BoxMode::Im2col);
        k.context().emit(AsyncCopy::CpAsyncBulkTensorStore {
            map,
            from,
            from_index,
            coords,
            policy,
            mode,
        });
    }

    /// Starts a copy as
    /// [`cp_async_bulk_tensor_store_im2col`](Val::cp_async_bulk_tensor_store_im2col) does, but
    /// combines each element with the tensor's element by `op`, for example to add partial sums of
    /// several blocks. PTX ISA 9.7.9.25.5.3 `cp.reduce.async.bulk.tensor.im2col_no_offs`.
    #[track_caller]
    pub fn cp_reduce_async_bulk_tensor_im2col(
        self,
        op: BulkReduce,
        coords: [Val<'b, i32>; RANK],
        from: Val<'b, Shared<T>>,
        policy: L2Policy,
    ) {
        let k = &self.body();
        let (map, coords) = (k.context().operand(self), k.coords(coords));
        let ((from, from_index), mode) = (k.start(from), BoxMode::Im2col);
        k.context().emit(AsyncCopy::CpReduceAsyncBulkTensor {
            map,
            from,
            from_index,
            op,
            coords,
            policy,
            mode,
        });
    }
}
