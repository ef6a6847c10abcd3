//! [`CpAsyncPipeline`]: a ring of stages in shared memory that all threads fill by `cp.async` and all use.

use crate::ir::{Body, Val, WARP};

use crate::tensor::error::{TensorError, count_of};

/// A ring of stages in shared memory between copies and products that the same threads make: `stages - 1` of them are
/// filled ahead of the stage in use, without a barrier for each. CuTe's multistage mainloop of `sm_80`.
///
/// Each step along the ring commits the copies of the threads as one group, then waits until the group of the next stage
/// is done in all threads. At that point all have left the stage before, so it is the next to be filled.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::CpAsyncCache;
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::CpAsyncPipeline;
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
///         let sum = sum + ring.load(k, state.read + (31 - t));
///         pipe.commit(k);
///         pipe.wait(k);
///         (pipe.next(state), sum)
///     });
///     y.store(k, t, sum);
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
    /// The state of a [`CpAsyncPipeline`]: the stage in use and the stage to be filled, as offsets in the ring.
    pub struct CpAsyncState<'b> {
        /// The stage that is used.
        pub read: Val<'b, i32>,
        /// The stage that is filled.
        pub write: Val<'b, i32>,
    }
}

impl CpAsyncPipeline {
    /// A ring of `stages` stages that are `elements` apart: stage `i` starts at element `i * elements`. With 1, that is
    /// its number.
    ///
    /// # Errors
    /// [`TensorErrorKind::Count`](crate::tensor::TensorErrorKind::Count) for fewer than two stages, for no elements, and for a ring
    /// with stages that start above `i32::MAX`.
    #[inline]
    pub fn new(stages: u32, elements: u32) -> Result<Self, TensorError> {
        let max = (i32::MAX as u32).checked_div(elements).unwrap_or(u32::MAX);
        let error = |kind| TensorError {
            operation: "CpAsyncPipeline",
            operand: format!("{stages} stages of {elements} elements"),
            kind,
        };
        count_of("elements of a stage", elements, [1, i32::MAX as u32 / 2]).map_err(error)?;
        count_of("stages", stages, [2, max]).map_err(error)?;
        Ok(CpAsyncPipeline { stages, elements, of_warp: false })
    }

    /// The same for a ring that one warp alone fills and uses: it waits for its own threads only.
    #[must_use]
    pub fn of_warp(self) -> Self {
        CpAsyncPipeline { of_warp: true, ..self }
    }

    /// The stages.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// The number of stages that are filled before the first stage is used: data copied to the stage
    /// [`write`](CpAsyncState::write) is needed that number of steps later.
    pub fn ahead(&self) -> u32 {
        self.stages - 1
    }

    /// Fills the first stages, all but one, and waits for the first of them: `copy` gets the number of a step and the first
    /// element of its stage.
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

    /// Makes the copies since the last one a group of their own; of none, too.
    #[track_caller]
    pub fn commit(&self, k: &Body<'_, '_>) {
        k.cp_async_commit_group();
    }

    /// Waits until the next stage is full, and all threads have left the stage in use.
    #[track_caller]
    pub fn wait(&self, k: &Body<'_, '_>) {
        k.cp_async_wait_group(self.stages - 2);
        self.synchronise(k);
    }

    /// Waits for the threads that share the ring.
    #[track_caller]
    fn synchronise(&self, k: &Body<'_, '_>) {
        if self.of_warp { k.bar_warp(WARP) } else { k.barrier() }
    }

    /// Waits for all copies in all threads: before the memory of the ring is used for something else.
    #[track_caller]
    pub fn drain(&self, k: &Body<'_, '_>) {
        k.cp_async_wait_all();
        self.synchronise(k);
    }

    /// The state after [`fill`](CpAsyncPipeline::fill).
    #[track_caller]
    pub fn start<'b>(&self, k: &Body<'b, '_>) -> CpAsyncState<'b> {
        CpAsyncState { read: k.constant(0), write: k.value(self.ahead() * self.elements) }
    }

    /// The first element of the stage after the one at `first`.
    #[track_caller]
    pub fn after<'b>(&self, first: Val<'b, i32>) -> Val<'b, i32> {
        first.eq(self.ahead() * self.elements).select(0, first + self.elements)
    }

    /// The state one step further.
    #[track_caller]
    pub fn next<'b>(&self, state: CpAsyncState<'b>) -> CpAsyncState<'b> {
        CpAsyncState { read: self.after(state.read), write: self.after(state.write) }
    }
}
