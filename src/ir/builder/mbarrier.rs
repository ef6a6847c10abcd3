//! [`MbarrierRef`]: mbarriers, the barrier objects in shared memory on which asynchronous copies
//! complete. Build your own producer and consumer pipeline with them, or take one from
//! [`tensor::pipeline`](crate::tensor::pipeline).

use super::body::Body;
use super::typed::{IntoOperand, IntoVal, Shared, Ty, Val};
use crate::ir::entity::Value;
use crate::ir::op::{AsyncCopy, Mbarrier, PendingCount, RemoteArrival};

/// An mbarrier: a barrier object in shared memory, one element of a `Shared<u64>`, made by
/// [`Val::mbarrier`]. Use it to wait for bulk copies, or to pass ring-buffer stages between
/// producer and consumer warps.
///
/// An mbarrier goes through phases, numbered from 0. A phase completes when all expected arrivals
/// have come and no announced bytes are outstanding; the next phase then expects the same number of
/// arrivals. A thread waits for a phase by its parity: `wait_parity(k, 0)` waits until phase 0 has
/// completed, and passes until phase 1 completes as well. On a new barrier the phase of parity 1
/// counts as completed, so a producer's first wait for an empty stage passes at once.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("count", Target::SM_80, |k, (x,)| {
///     let full = k.shared::<u64>(1).mbarrier(0);
///     let t = k.thread_idx().x;
///     k.if_(t.eq(0), |_| full.init(64));
///     k.barrier();
///     x.store(t, t);
///     full.arrive();
///     full.wait_parity(0);
///     x.store(t, x.load(t ^ 1));
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("mbarrier.init.shared.b64") && ptx.text().contains("mbarrier.arrive.shared.b64"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MbarrierRef<'b> {
    base: Val<'b, Shared<u64>>,
    index: Val<'b, i32>,
}

/// # Mbarriers
///
/// Turns an element of shared memory into an mbarrier, for asynchronous copies and pipelines.
impl<'b> Val<'b, Shared<u64>> {
    /// Returns the mbarrier in element `index` of the allocation. Element and mbarrier are the same
    /// 8 bytes; call [`init`](MbarrierRef::init) before the first use.
    #[track_caller]
    pub fn mbarrier(self, index: impl IntoOperand<'b, i32>) -> MbarrierRef<'b> {
        MbarrierRef { base: self, index: index.into_operand(self.context()) }
    }
}

impl<'b> MbarrierRef<'b> {
    fn body(self) -> Body<'b, 'b> {
        self.base.body()
    }

    /// Returns base and index of the shared-memory element.
    #[track_caller]
    pub(super) fn location(self, k: &Body<'_, '_>) -> [Value; 2] {
        let cx = k.context();
        [cx.operand(self.base), cx.operand(self.index)]
    }

    /// Returns base and index of the shared-memory element, and one more operand.
    #[track_caller]
    fn place_with<'c, T: Ty>(self, k: &Body<'c, '_>, operand: impl IntoVal<'c, T>) -> [Value; 3] {
        let [barrier, index] = self.location(k);
        [barrier, index, k.context().operand_of(operand)]
    }

    /// Initialises the mbarrier; each phase expects `count` arrivals, 1 to 2^20 - 1. Call it in one
    /// thread. Other threads of the block may use the mbarrier after a block barrier; bulk copies
    /// and other blocks of the cluster also need
    /// [`fence_mbarrier_init`](Body::fence_mbarrier_init). PTX ISA 9.7.13.15.9 `mbarrier.init`.
    #[doc(alias("mbarrier_init", "ClusterBarrier::init"))]
    #[track_caller]
    pub fn init(self, count: impl IntoVal<'b, u32>) {
        let k = &self.body();
        let [barrier, index, count] = self.place_with(k, count);
        k.context().emit(Mbarrier::MbarrierInit { barrier, index, count });
    }

    /// Turns the mbarrier back into ordinary memory. Call it before you use its 8 bytes for
    /// something else. PTX ISA 9.7.13.15.10 `mbarrier.inval`.
    #[track_caller]
    pub fn inval(self) {
        let k = &self.body();
        let [barrier, index] = self.location(k);
        k.context().emit(Mbarrier::MbarrierInval { barrier, index });
    }

    /// Arrives once, without waiting. Threads that wait see this thread's earlier writes. Returns
    /// the current phase's state, which you pass to [`wait`](MbarrierRef::wait). PTX
    /// ISA 9.7.13.15.13 `mbarrier.arrive`.
    #[track_caller]
    pub fn arrive(self) -> Val<'b, u64> {
        self.arrive_n(1)
    }

    /// Arrives `count` times at once, for example on behalf of several threads. More than one
    /// arrival requires `sm_90`. PTX ISA 9.7.13.15.13 `mbarrier.arrive`.
    #[track_caller]
    pub fn arrive_n(self, count: impl IntoVal<'b, u32>) -> Val<'b, u64> {
        let k = &self.body();
        let [barrier, index, count] = self.place_with(k, count);
        k.context().emit_val(Mbarrier::MbarrierArrive { barrier, index, count })
    }

    /// Announces `bytes` more bytes for the current phase, then arrives once. A producer calls it
    /// before it starts the bulk copies that complete these bytes. PTX ISA 9.7.13.15.13
    /// `mbarrier.arrive.expect_tx`; `sm_90`.
    #[doc(alias("arrive_and_expect_bytes", "mbarrier_arrive_and_expect_tx"))]
    #[track_caller]
    pub fn arrive_expect_tx(self, bytes: impl IntoVal<'b, u32>) -> Val<'b, u64> {
        let k = &self.body();
        let [barrier, index, bytes] = self.place_with(k, bytes);
        k.context().emit_val(Mbarrier::MbarrierArriveExpectTx { barrier, index, bytes })
    }

    /// Arrives once at the mbarrier at the same offset in the shared memory of block `cta` of the
    /// cluster. A consumer calls it to release a stage that another block fills. PTX
    /// ISA 9.7.13.15.13 `mbarrier.arrive.shared::cluster`; `sm_90`.
    #[track_caller]
    pub fn arrive_cluster(self, cta: impl IntoVal<'b, u32>, order: RemoteArrival) {
        let k = &self.body();
        let [barrier, index, cta] = self.place_with(k, cta);
        k.context().emit(Mbarrier::MbarrierArriveCluster { barrier, index, cta, order });
    }

    /// Triggers one arrival when all of this thread's [`cp_async`](Body::cp_async) so far have
    /// completed. It does not wait, so that a producer can go on while consumers wait for its
    /// copies. PTX ISA 9.7.13.15.15 `cp.async.mbarrier.arrive`.
    #[track_caller]
    pub fn cp_async_arrive(self, count: PendingCount) {
        let k = &self.body();
        let [barrier, index] = self.location(k);
        k.context().emit(AsyncCopy::CpAsyncMbarrierArrive { barrier, index, count });
    }

    /// Announces `bytes` more bytes for the current phase, without arriving. Use it if another
    /// thread or a later call arrives. PTX ISA 9.7.13.15.11 `mbarrier.expect_tx`; `sm_90`.
    #[track_caller]
    pub fn expect_tx(self, bytes: impl IntoVal<'b, u32>) {
        let k = &self.body();
        let [barrier, index, bytes] = self.place_with(k, bytes);
        k.context().emit(Mbarrier::MbarrierExpectTx { barrier, index, bytes });
    }

    /// Completes `bytes` of the current phase's announced bytes, as a bulk copy would. Use it for
    /// announced bytes that no copy brings. PTX ISA 9.7.13.15.12 `mbarrier.complete_tx`; `sm_90`.
    #[track_caller]
    pub fn complete_tx(self, bytes: impl IntoVal<'b, u32>) {
        let k = &self.body();
        let [barrier, index, bytes] = self.place_with(k, bytes);
        k.context().emit(Mbarrier::MbarrierCompleteTx { barrier, index, bytes });
    }

    /// Waits until the phase whose state [`arrive`](MbarrierRef::arrive) returned has completed.
    /// PTX ISA 9.7.13.15.16 `mbarrier.try_wait`, in a loop.
    #[track_caller]
    pub fn wait(self, state: Val<'b, u64>) {
        let k = &self.body();
        let [barrier, index, state] = self.place_with(k, state);
        k.context().emit(Mbarrier::MbarrierWait { barrier, index, state });
    }

    /// Waits until the phase with parity `parity` has completed. Use it if the thread has not
    /// arrived itself, or counts the phases of a ring buffer. PTX ISA 9.7.13.15.16
    /// `mbarrier.try_wait.parity`, in a loop.
    #[doc(alias = "ClusterBarrier::wait")]
    #[track_caller]
    pub fn wait_parity(self, parity: impl IntoVal<'b, u32>) {
        let k = &self.body();
        let [barrier, index, parity] = self.place_with(k, parity);
        k.context().emit(Mbarrier::MbarrierWaitParity { barrier, index, parity });
    }

    /// Returns at once whether the phase whose state [`arrive`](MbarrierRef::arrive) returned has
    /// completed. Use it to do other work in the meantime. PTX ISA 9.7.13.15.16
    /// `mbarrier.test_wait`.
    #[track_caller]
    pub fn test_wait(self, state: Val<'b, u64>) -> Val<'b, bool> {
        let k = &self.body();
        let [barrier, index, state] = self.place_with(k, state);
        k.context().emit_val(Mbarrier::MbarrierTestWait { barrier, index, state })
    }

    /// Returns at once whether the phase with parity `parity` has completed. Use it to do other
    /// work in the meantime. PTX ISA 9.7.13.15.16 `mbarrier.test_wait.parity`.
    #[track_caller]
    pub fn test_wait_parity(self, parity: impl IntoVal<'b, u32>) -> Val<'b, bool> {
        let k = &self.body();
        let [barrier, index, parity] = self.place_with(k, parity);
        k.context().emit_val(Mbarrier::MbarrierTestWaitParity { barrier, index, parity })
    }

    /// Tests as [`test_wait`](MbarrierRef::test_wait) does, but may first suspend the thread for
    /// some time. Use it in a loop that has nothing else to do. PTX ISA 9.7.13.15.16
    /// `mbarrier.try_wait`; `sm_90`.
    #[track_caller]
    pub fn try_wait(self, state: Val<'b, u64>) -> Val<'b, bool> {
        let k = &self.body();
        let [barrier, index, state] = self.place_with(k, state);
        k.context().emit_val(Mbarrier::MbarrierTryWait { barrier, index, state })
    }

    /// Tests as [`test_wait_parity`](MbarrierRef::test_wait_parity) does, but may first suspend the
    /// thread for some time. Use it in a loop that has nothing else to do. PTX ISA 9.7.13.15.16
    /// `mbarrier.try_wait.parity`; `sm_90`.
    #[track_caller]
    pub fn try_wait_parity(self, parity: impl IntoVal<'b, u32>) -> Val<'b, bool> {
        let k = &self.body();
        let [barrier, index, parity] = self.place_with(k, parity);
        k.context().emit_val(Mbarrier::MbarrierTryWaitParity { barrier, index, parity })
    }
}

/// # Mbarrier initialisation
///
/// Publishes new mbarriers. The other operations are methods of [`MbarrierRef`].
impl Body<'_, '_> {
    /// Makes the mbarriers that this thread initialised visible to bulk copies and to other blocks
    /// of the cluster. Call it after [`init`](MbarrierRef::init) and before the barrier that the
    /// users of the mbarriers wait at. PTX ISA 9.7.13.4 `fence.mbarrier_init`; `sm_90`.
    #[track_caller]
    pub fn fence_mbarrier_init(&self) {
        self.context().emit(Mbarrier::FenceMbarrierInit {});
    }
}
