//! [`TmaStorePipeline`]: a ring buffer that threads fill and one thread stores with TMA. Use it in
//! an epilogue, so that the store of one part overlaps with the computation of the next.

use crate::ir::op::{BulkWait, ProxySpace};
use crate::ir::{Body, NamedBarrier, Val};

use crate::tensor::error::{TensorError, count_of};

/// A ring buffer in shared memory from which one thread stores to global memory with TMA or bulk
/// copies, while the others fill the next stages: CuTe's `PipelineTmaStore`.
///
/// Use it for output that a loop produces step by step. For `wgmma` accumulators,
/// [`StagedStore`](crate::tensor::copy::StagedStore) does the same with the right layout.
///
/// All threads that share the barrier loop over [`acquire`](TmaStorePipeline::acquire), their
/// writes and [`commit`](TmaStorePipeline::commit), and call [`finish`](TmaStorePipeline::finish)
/// at the end.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Kernel, Target, TensorMapMut};
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::TmaCopy;
/// use tilewright::tensor::pipeline::TmaStorePipeline;
/// use tilewright::tensor::view::SharedTensor;
///
/// // A warp writes 5 rows of 32 numbers through a ring of two rows.
/// let copy = TmaCopy::new(Scalar::I32, layout!((1, 32) : (32, 1)))?;
/// let kernel = Kernel::<(TensorMapMut<i32, 2>,)>::build("rows", Target::SM_90, |k, (to,)| {
///     let ring = SharedTensor::<i32>::shared_aligned(k, layout!((1, 32, 2) : (32, 1, 32)), 128);
///     let t = k.thread_idx().x;
///     let pipe = TmaStorePipeline::new(k, 2, t.eq(0));
///     for row in 0..5 {
///         let stage = ring.slice((.., .., i64::from(pipe.stage(row))));
///         pipe.acquire();
///         stage.store((0, t), t + 100 * row);
///         pipe.commit(|_| copy.store(to, &stage, (row, 0)));
///     }
///     pipe.finish();
/// })?;
/// assert!(kernel.ptx().text().contains("cp.async.bulk.wait_group.read 1;"));
/// let device = Device::sim()?;
/// let mut x = device.zeros::<i32>(160)?;
/// let map = copy.desc(&layout!((5, 32) : (32, 1)))?;
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut x.tensor_map_mut(&map)?,))?;
/// assert_eq!(x.to_vec()?, (0..160).map(|i| i % 32 + 100 * (i / 32)).collect::<Vec<i32>>());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TmaStorePipeline<'b> {
    stages: u32,
    issuer: Val<'b, bool>,
    barrier: Option<NamedBarrier<'b>>,
}

impl<'b> TmaStorePipeline<'b> {
    /// Makes a ring buffer of `stages` stages for all threads of the block. The thread in which
    /// `issuer` holds issues the copies.
    ///
    /// It is a build error if there are no stages.
    #[track_caller]
    #[inline]
    pub fn new(k: &Body<'b, '_>, stages: u32, issuer: Val<'b, bool>) -> Self {
        if let Err(kind) = count_of("stages", stages, [1, u32::MAX]) {
            let operand = format!("{stages} stages");
            k.report(TensorError { operation: "TmaStorePipeline", operand, kind });
        }
        TmaStorePipeline { stages: stages.max(1), issuer, barrier: None }
    }

    /// Makes the pipeline for the threads of a named barrier instead of the whole block. Use it if
    /// only one role or warp group runs the epilogue.
    pub fn with_barrier(self, barrier: NamedBarrier<'b>) -> Self {
        TmaStorePipeline { barrier: Some(barrier), ..self }
    }

    /// Returns the stage count, for example to allocate the ring buffer.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// Returns the stage to write in a step: `step` modulo the stage count.
    pub fn stage(&self, step: u32) -> u32 {
        step % self.stages
    }

    #[track_caller]
    fn sync(&self) {
        let k = &self.issuer.body();
        match self.barrier {
            Some(barrier) => barrier.sync(),
            None => k.barrier(),
        }
    }

    /// Waits until the next stage has been read and can be written again: until at most
    /// `stages - 1` stores are still reading. Call it before the threads write the stage.
    #[track_caller]
    pub fn acquire(&self) {
        self.wait(self.stages - 1);
        self.sync();
    }

    /// Makes all threads' writes visible to the copies, then lets one thread issue `copies` as one
    /// group. Call it after the threads have written the stage.
    #[track_caller]
    pub fn commit(&self, copies: impl FnOnce(&mut Body<'_, 'b>)) {
        let k = &mut self.issuer.body();
        k.fence_proxy_async(ProxySpace::SharedCta);
        self.sync();
        k.if_(self.issuer, |k| {
            copies(k);
            k.cp_async_bulk_commit_group();
        });
    }

    #[track_caller]
    fn wait(&self, pending: u32) {
        let k = &mut self.issuer.body();
        k.if_(self.issuer, |k| k.cp_async_bulk_wait_group(pending, BulkWait::Read));
    }

    /// Waits until all stores have read shared memory. Call it before you reuse that memory and
    /// before the block ends. Only the issuing thread waits; other threads need a barrier after it.
    #[track_caller]
    pub fn finish(&self) {
        self.wait(0);
    }
}
