//! [`CpAsyncPipeline`]: a ring buffer that all threads fill with `cp.async` and all threads read.
//! Use it for the main loop of an `sm_80` GEMM, to load tiles some K steps ahead.

use crate::ir::{Body, Val, WARP};

use crate::tensor::error::{TensorError, count_of};

/// A ring buffer of stages in shared memory whose threads both copy and compute: CuTe's multistage
/// main loop for `sm_80`. `stages - 1` stages are filled ahead of the one in use.
///
/// Use it when there are no producer warps. It needs one barrier per step and keeps copy addresses
/// in every thread's registers. With TMA and warp roles, use [`TmaPipeline`](super::TmaPipeline).
///
/// In each step, the threads commit their copies as one group and wait until the next stage's group
/// is complete in all threads. By then all of them have left the previous stage, so it can be
/// filled next.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::CpAsyncCache;
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::CpAsyncPipeline;
///
/// // Sums of 32 columns of 8 rows, which come through a ring of 3 rows; each thread uses what its neighbour copied.
/// let pipe = CpAsyncPipeline::new(3, 32)?;
/// let kernel = Kernel::<(Global<i32>, GlobalMut<i32>)>::build("accumulators", Target::SM_80, |k, (x, y)| {
///     let ring = k.shared::<i32>(3 * 32);
///     let t = k.thread_idx().x;
///     pipe.fill(k, |k, row, stage| {
///         k.cp_async(ring.offset(stage + t), x.offset(t + 32 * row), CpAsyncCache::Ca, 4);
///     });
///     let start = (pipe.start(k), k.constant(0));
///     let (_, sum) = k.for_(range(0, 8), start, |k, row, (state, sum)| {
///         let ahead = row + pipe.ahead();
///         k.if_(ahead.lt(8), |k| {
///             k.cp_async(ring.offset(state.write + t), x.offset(ahead * 32 + t), CpAsyncCache::Ca, 4);
///         });
///         let sum = sum + ring.load(state.read + (31 - t));
///         pipe.commit(k);
///         pipe.wait(k);
///         (pipe.next(state), sum)
///     });
///     y.store(t, sum);
/// })?;
/// let device = Device::sim()?;
/// let (x, mut y) = (device.upload(&(0..256).collect::<Vec<i32>>())?, device.zeros::<i32>(32)?);
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&x, &mut y))?;
/// let accumulators: Vec<i32> = (0..32).map(|t| (0..8).map(|row| 32 * row + 31 - t).sum()).collect();
/// assert_eq!(y.to_vec()?, accumulators);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpAsyncPipeline {
    stages: u32,
    elements: u32,
    of_warp: bool,
}

crate::values! {
    /// The state of a [`CpAsyncPipeline`], which the main loop carries: which stage to read and
    /// which to fill in this step, as offsets of their first elements in the ring buffer.
    pub struct CpAsyncState<'b> {
        /// The stage to read.
        pub read: Val<'b, i32>,
        /// The stage to fill.
        pub write: Val<'b, i32>,
    }
}

impl CpAsyncPipeline {
    /// Makes a ring buffer of `stages` stages: stage `i` starts at element `i * elements`. If
    /// `elements` is 1, offsets are stage indices.
    ///
    /// # Errors
    /// [`TensorErrorKind::Count`](crate::tensor::TensorErrorKind::Count) if there are fewer than
    /// two stages or no elements, or if a stage starts above `i32::MAX`.
    #[inline]
    pub fn new(stages: u32, elements: u32) -> Result<Self, TensorError> {
        let max = (i32::MAX as u32).checked_div(elements).unwrap_or(u32::MAX);
        let error = |kind| TensorError {
            operation: "CpAsyncPipeline",
            operand: format!("{stages} stages of {elements} elements"),
            kind,
        };
        count_of("elements per stage", elements, [1, i32::MAX as u32 / 2]).map_err(error)?;
        count_of("stages", stages, [2, max]).map_err(error)?;
        Ok(CpAsyncPipeline { stages, elements, of_warp: false })
    }

    /// Makes the pipeline of a single warp, which then synchronises only its own threads. Use it if
    /// each warp has a ring buffer of its own.
    #[must_use]
    pub fn of_warp(self) -> Self {
        CpAsyncPipeline { of_warp: true, ..self }
    }

    /// Returns the stage count, for example to allocate the ring buffer.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// Returns how many stages are filled before the first one is read. What you copy to
    /// [`write`](CpAsyncState::write) is read that many steps later.
    pub fn ahead(&self) -> u32 {
        self.stages - 1
    }

    /// Fills all stages but one and waits for the first. `copy` gets the step's index and its
    /// stage's first element. Call it before the main loop.
    #[track_caller]
    pub fn fill<'b>(
        &self,
        k: &mut Body<'b, '_>,
        mut copy: impl FnMut(&mut Body<'b, '_>, u32, Val<'b, i32>),
    ) {
        for step in 0..self.ahead() {
            let first = k.value(step * self.elements);
            copy(k, step, first);
            self.commit(k);
        }
        self.wait(k);
    }

    /// Commits the copies since the last commit as one group, which may be empty. Call it once in
    /// each step, even if the step copies nothing, because waits count groups.
    #[track_caller]
    pub fn commit(&self, k: &Body<'_, '_>) {
        k.cp_async_commit_group();
    }

    /// Waits until the next stage is full and all threads have left the current one. Call it at the
    /// end of each step, after [`commit`](CpAsyncPipeline::commit).
    #[track_caller]
    pub fn wait(&self, k: &Body<'_, '_>) {
        k.cp_async_wait_group(self.stages - 2);
        self.synchronise(k);
    }

    #[track_caller]
    fn synchronise(&self, k: &Body<'_, '_>) {
        if self.of_warp { k.bar_warp(WARP) } else { k.barrier() }
    }

    /// Waits for all copies of all threads. Call it before you reuse the ring buffer's memory.
    #[track_caller]
    pub fn drain(&self, k: &Body<'_, '_>) {
        k.cp_async_wait_all();
        self.synchronise(k);
    }

    /// Returns the state after [`fill`](CpAsyncPipeline::fill), with which the main loop starts.
    #[track_caller]
    pub fn start<'b>(&self, k: &Body<'b, '_>) -> CpAsyncState<'b> {
        CpAsyncState { read: k.constant(0), write: k.value(self.ahead() * self.elements) }
    }

    /// Returns the first element of the stage after the one that starts at `first`. Use it if a
    /// loop carries only one of the two offsets.
    #[track_caller]
    pub fn after<'b>(&self, first: Val<'b, i32>) -> Val<'b, i32> {
        first.eq(self.ahead() * self.elements).select(0, first + self.elements)
    }

    /// Returns the next step's state: both stages move on by one, around the ring buffer. Call it
    /// at the end of each step and carry the result.
    #[track_caller]
    pub fn next<'b>(&self, state: CpAsyncState<'b>) -> CpAsyncState<'b> {
        CpAsyncState { read: self.after(state.read), write: self.after(state.write) }
    }
}
