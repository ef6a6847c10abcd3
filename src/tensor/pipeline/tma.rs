//! [`TmaPipeline`]: a ring buffer with full and empty mbarriers between producer and consumer
//! warps. Use it on `sm_90` to let copies run ahead of the MMAs.

use std::any::Any;
use std::rc::Rc;

use crate::ir::builder::{Context, HostPart, HostParts, IntoVal, IntoValues, MbarrierRef, Values};
use crate::ir::op::{BarrierForm, ClusterArrival, ProxySpace, RemoteArrival, ValueList};
use crate::ir::types::Type;
use crate::ir::{Body, Shared, Val, Value};

use crate::tensor::error::{TensorError, count_of};

/// A position in a ring buffer, carried through loops: the stage's index, and the parity of the
/// current round over all stages. CuTe's `PipelineState`.
///
/// It also carries its ring's stage count, so that [`next`](PipelineState::next) can wrap.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, range};
/// use tilewright::tensor::pipeline::TmaPipeline;
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("ring", Target::SM_90, |k, (x,)| {
///     let pipe = TmaPipeline::new(k, 3, 128, 1);
///     let last = k.for_(range(0, 7), pipe.consumer(), |_, _, state| state.next());
///     x.store(0, last.stage);
///     x.store(1, last.parity.cvt::<i32>());
/// })?;
/// # #[cfg(feature = "sim")] {
/// # use tilewright::runtime::{Device, Grid};
/// let device = Device::sim()?;
/// let mut x = device.zeros::<i32>(2)?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// // After 7 steps in a ring of 3: the second stage of the third round, whose parity is that of the first.
/// assert_eq!(x.to_vec()?, [1, 0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PipelineState<'b> {
    /// The stage's index.
    pub stage: Val<'b, i32>,
    /// The round's parity.
    pub parity: Val<'b, u32>,
    /// The ring's stage count, a host value.
    pub stages: u32,
}

type Carried = (i32, u32);

impl Values for PipelineState<'static> {
    type At<'x> = PipelineState<'x>;

    fn types(lengths: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>) {
        Carried::types(lengths, out);
    }

    fn make<'x>(
        cx: &'x Context,
        lengths: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> PipelineState<'x> {
        let (stage, parity) = Carried::make(cx, lengths, ids);
        PipelineState { stage, parity, stages: 0 }
    }

    #[track_caller]
    fn ids(state: &PipelineState<'_>, cx: &Context, out: &mut ValueList) {
        Carried::ids(&(state.stage, state.parity), cx, out);
    }

    fn host_parts(state: &PipelineState<'_>, out: &mut HostParts) {
        out.push(Rc::new(Ring(state.stages)));
    }

    fn with_host_parts<'x>(
        _: &'x Context,
        made: PipelineState<'x>,
        parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> PipelineState<'x> {
        let part = parts.next();
        let ring = part.as_ref().and_then(|part| part.as_any().downcast_ref::<Ring>());
        PipelineState { stages: ring.map_or(made.stages, |ring| ring.0), ..made }
    }
}

/// The stage count, the host part of a carried state.
struct Ring(u32);

impl HostPart for Ring {
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>> {
        let other = other.as_any().downcast_ref::<Ring>()?;
        (self.0 == other.0).then(|| Rc::new(Ring(self.0)) as Rc<dyn HostPart>)
    }

    fn text(&self) -> String {
        format!("the state of a ring buffer with {} stages", self.0)
    }

    fn advice(&self) -> &'static str {
        "the states of different ring buffers cannot share a variable: carry one for each"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<'b> IntoValues<'b> for PipelineState<'b> {
    type V = PipelineState<'static>;

    fn at(self, _: &'b Context) -> PipelineState<'b> {
        self
    }
}

impl<'b> PipelineState<'b> {
    /// Returns the stage count; it is a build error if the state has no ring.
    #[track_caller]
    #[inline]
    fn ring(self, operation: &'static str) -> u32 {
        if let Err(kind) = count_of("stages", self.stages, [1, MAX_STAGES]) {
            let operand = "a state without a ring buffer".to_owned();
            self.stage.report(TensorError { operation, operand, kind });
        }
        self.stages.clamp(1, MAX_STAGES)
    }

    /// Returns the next stage's state. Call it after each step; after the last stage it wraps to
    /// stage 0 and flips the parity.
    #[track_caller]
    #[inline]
    pub fn next(self) -> Self {
        let stage = self.stage + 1;
        let wraps = stage.eq(self.ring("next"));
        PipelineState {
            stage: wraps.select(stage.constant(0), stage),
            parity: wraps.select(self.parity ^ 1, self.parity),
            ..self
        }
    }

    /// Returns the state `steps` stages further; `steps` is a device value. Use it if a role skips
    /// steps that another one handles.
    #[track_caller]
    #[inline]
    pub fn skip(self, steps: Val<'b, i32>) -> Self {
        let stages = self.ring("skip");
        // Unsigned, so that the stage is one of the ring's whatever `steps` is.
        let ahead = (self.stage + steps).cvt::<u32>();
        let parity = (self.parity + ahead / stages) & 1;
        PipelineState { stage: (ahead % stages).cvt(), parity, ..self }
    }

    /// Returns the previous stage's state. Use it to release a stage one step after it was read.
    #[track_caller]
    #[inline]
    pub fn previous(self) -> Self {
        let last = self.stage.count(self.ring("previous") - 1);
        let wraps = self.stage.eq(0);
        PipelineState {
            stage: wraps.select(last, self.stage - 1),
            parity: wraps.select(self.parity ^ 1, self.parity),
            ..self
        }
    }
}

/// The maximum stage count: a barrier's index is an `i32`, and each stage has two barriers.
const MAX_STAGES: u32 = i32::MAX as u32 / 2;

/// A ring buffer that TMA or bulk copies fill and consumer warps read: CuTe's `PipelineTmaAsync`.
/// Each stage has a full barrier, which counts the copied bytes, and an empty barrier, which counts
/// the consumers that have released it.
///
/// Use it on `sm_90` with warp roles. Producer and consumers never meet at a block barrier, so
/// copies run ahead by as many stages as you have shared memory for. Without roles,
/// [`CpAsyncPipeline`](super::CpAsyncPipeline) needs no extra warps; for stores, use
/// [`TmaStorePipeline`](super::TmaStorePipeline).
///
/// The producer thread loops over [`acquire`](TmaPipeline::acquire), the copies and
/// [`next`](PipelineState::next). Consumers loop over [`wait`](TmaPipeline::wait), their work,
/// [`release`](TmaPipeline::release) and `next`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, TensorMap, range};
/// use tilewright::ir::op::ProxySpace;
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::TmaCopy;
/// use tilewright::tensor::pipeline::TmaPipeline;
/// use tilewright::tensor::view::SharedTensor;
///
/// // Rows of 32 numbers pass through a ring of two: the first warp uses what the second one fetches.
/// let copy = TmaCopy::new(Scalar::I32, layout!((1, 32) : (32, 1)))?;
/// type Params = (TensorMap<i32, 2>, GlobalMut<i32>);
/// let kernel = Kernel::<Params>::build("sum", Target::SM_90, |k, (map, y)| {
///     let ring = SharedTensor::<i32>::shared_aligned(k, layout!((1, 32, 2) : (32, 1, 32)), 128);
///     let pipe = TmaPipeline::new(k, 2, copy.bytes(), 32);
///     let t = k.thread_idx().x;
///     pipe.init(t.eq(0));
///     k.barrier();
///     k.if_(t.eq(32), |k| {
///         k.for_(range(0, 5), pipe.producer(), |_, row, state| {
///             let full = pipe.acquire(state);
///             copy.load(map, (row, 0), &ring.slice((.., .., state.stage)), full);
///             state.next()
///         });
///     });
///     k.if_(t.lt(32), |k| {
///         let start = (pipe.consumer(), k.constant(0));
///         let (_, sum) = k.for_(range(0, 5), start, |k, _, (state, sum)| {
///             pipe.wait(state);
///             let sum = sum + ring.load((0, t, state.stage));
///             // The next copy into the stage is of another proxy than the load.
///             k.fence_proxy_async(ProxySpace::SharedCta);
///             pipe.release(state);
///             (state.next(), sum)
///         });
///         y.store(t, sum);
///     });
/// })?;
/// let device = Device::sim()?;
/// let x = device.upload(&(0..160).collect::<Vec<i32>>())?;
/// let mut y = device.zeros::<i32>(32)?;
/// let map = copy.desc(&layout!((5, 32) : (32, 1)))?;
/// device.load(&kernel)?.launch(Grid::cover(64, 64), (&x.tensor_map(&map)?, &mut y))?;
/// let accumulators: Vec<i32> = (0..32).map(|t| (0..5).map(|row| 32 * row + t).sum()).collect();
/// assert_eq!(y.to_vec()?, accumulators);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TmaPipeline<'b> {
    barriers: Val<'b, Shared<u64>>,
    stages: u32,
    bytes: u32,
    consumers: u32,
    cluster: u32,
    /// How many threads write a stage; 0 if TMA or bulk copies do.
    writers: u32,
}

impl<'b> TmaPipeline<'b> {
    /// Makes a ring buffer of `stages` stages of `bytes` bytes. A stage is empty after `consumers`
    /// calls of [`release`](TmaPipeline::release); threads that read it without releasing it do not
    /// count.
    ///
    /// It is a build error if there are no stages, bytes or consumers, or more than an mbarrier can
    /// count.
    #[track_caller]
    #[inline]
    pub fn new(k: &Body<'b, '_>, stages: u32, bytes: u32, consumers: u32) -> Self {
        // The maximum of an mbarrier's arrivals and bytes per phase (PTX ISA 9.7.13.15).
        const MAX: u32 = (1 << 20) - 1;
        let wrong = [
            count_of("stages", stages, [1, MAX_STAGES]),
            count_of("bytes per stage", bytes, [1, MAX]),
            count_of("consumers", consumers, [1, MAX]),
        ];
        for kind in wrong.into_iter().filter_map(Result::err) {
            let operand = format!("{stages} stages of {bytes} bytes, {consumers} consumers");
            k.report(TensorError { operation: "TmaPipeline", operand, kind });
        }
        let stages = stages.clamp(1, MAX_STAGES);
        let barriers = k.shared::<u64>(2 * stages);
        TmaPipeline { barriers, stages, bytes, consumers, cluster: 1, writers: 0 }
    }

    /// Makes the pipeline for a cluster of `blocks` blocks that share multicast copies: a stage is
    /// empty once the consumers of all of them have released it. Use it with
    /// [`TmaCopy::load_rotated`](crate::tensor::copy::TmaCopy::load_rotated).
    pub fn cluster(self, blocks: u32) -> Self {
        TmaPipeline { cluster: blocks, ..self }
    }

    /// Makes the pipeline for stages that `threads` threads write instead of TMA. Each of them
    /// loops over [`acquire`](TmaPipeline::acquire), its stores and
    /// [`commit`](TmaPipeline::commit). CuTe's `PipelineAsync`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target, range};
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::pipeline::TmaPipeline;
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// // The second warp writes rows of 32 numbers, the first one adds them up.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sum", Target::SM_90, |k, (y,)| {
    ///     let ring = SharedTensor::<i32>::shared(k, layout!((32, 2) : (1, 32)));
    ///     let pipe = TmaPipeline::new(k, 2, 128, 32).written_by(32);
    ///     let t = k.thread_idx().x;
    ///     pipe.init(t.eq(0));
    ///     k.barrier();
    ///     k.if_else(
    ///         t.ge(32),
    ///         |k| {
    ///             k.for_(range(0, 5), pipe.producer(), |_, row, state| {
    ///                 pipe.acquire(state);
    ///                 ring.store((t - 32, state.stage), 32 * row + t - 32);
    ///                 pipe.commit(state);
    ///                 state.next()
    ///             });
    ///         },
    ///         |k| {
    ///             let start = (pipe.consumer(), k.constant(0));
    ///             let (_, sum) = k.for_(range(0, 5), start, |_, _, (state, sum)| {
    ///                 pipe.wait(state);
    ///                 let sum = sum + ring.load((t, state.stage));
    ///                 pipe.release(state);
    ///                 (state.next(), sum)
    ///             });
    ///             y.store(t, sum);
    ///         },
    ///     );
    /// })?;
    /// let device = Device::sim()?;
    /// let mut y = device.zeros::<i32>(32)?;
    /// device.load(&kernel)?.launch(Grid::cover(64, 64), (&mut y,))?;
    /// let sums: Vec<i32> = (0..32).map(|t| (0..5).map(|row| 32 * row + t).sum()).collect();
    /// assert_eq!(y.to_vec()?, sums);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn written_by(self, threads: u32) -> Self {
        TmaPipeline { writers: threads, ..self }
    }

    /// Returns the stage count, for example to allocate the ring buffers.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// Returns the producer's first state. Its parity makes the first round's waits return at once,
    /// because all stages are empty.
    #[track_caller]
    pub fn producer(&self) -> PipelineState<'b> {
        let k = &self.barriers.body();
        PipelineState { stage: k.constant(0), parity: k.constant(1), stages: self.stages }
    }

    /// Returns a consumer's first state: stage 0, whose first wait lasts until the stage has been
    /// filled.
    #[track_caller]
    pub fn consumer(&self) -> PipelineState<'b> {
        let k = &self.barriers.body();
        PipelineState { stage: k.constant(0), parity: k.constant(0), stages: self.stages }
    }

    /// Initialises the barriers, in the thread in which `elected` holds. Put a block barrier after
    /// it, or a cluster barrier for clusters.
    #[track_caller]
    pub fn init(&self, elected: Val<'b, bool>) {
        let k = &mut self.barriers.body();
        k.if_(elected, |k| {
            for stage in 0..self.stages {
                self.full(k.value(stage)).init(self.writers.max(1));
                self.empty(k.value(stage)).init(self.consumers * self.cluster);
            }
            k.fence_mbarrier_init();
        });
    }

    /// Waits for the other blocks of the cluster, if there are any. Blocks may write to each
    /// other's shared memory only between two such syncs: one after the barriers are initialised,
    /// one before a block ends. `form` says whether all threads of a warp reach the call together.
    #[track_caller]
    pub fn cluster_sync(&self, form: BarrierForm) {
        let k = &self.barriers.body();
        if self.cluster > 1 {
            k.barrier_cluster_arrive(form, ClusterArrival::Release);
            k.barrier_cluster_wait(form);
        }
    }

    #[track_caller]
    fn full(&self, stage: Val<'b, i32>) -> MbarrierRef<'b> {
        self.barriers.mbarrier(stage)
    }

    #[track_caller]
    fn empty(&self, stage: Val<'b, i32>) -> MbarrierRef<'b> {
        self.barriers.mbarrier(stage + self.stages)
    }

    /// Waits until the stage is empty and returns its full barrier for the copies. If TMA fills the
    /// stage, also makes the barrier expect the stage's bytes. It is
    /// [`wait_empty`](TmaPipeline::wait_empty) plus
    /// [`expect_transaction`](TmaPipeline::expect_transaction).
    #[track_caller]
    #[inline]
    pub fn acquire(&self, state: PipelineState<'b>) -> MbarrierRef<'b> {
        self.wait_empty(state);
        match self.writers {
            0 => self.expect_transaction(state, self.bytes),
            _ => self.full(state.stage),
        }
    }

    /// Tests whether the stage is empty; the hardware can suspend the thread for a bounded time
    /// first. If it returns false, call [`wait_empty`](TmaPipeline::wait_empty). CuTe's
    /// `producer_try_acquire`. Use it to do other work between the test and the wait.
    #[track_caller]
    pub fn try_acquire(&self, state: PipelineState<'b>) -> Val<'b, bool> {
        self.empty(state.stage).try_wait_parity(state.parity)
    }

    /// Waits until the stage is empty. Use it instead of [`acquire`](TmaPipeline::acquire) if other
    /// work goes between the wait and the copies.
    #[track_caller]
    pub fn wait_empty(&self, state: PipelineState<'b>) {
        self.empty(state.stage).wait_parity(state.parity);
    }

    /// Makes an empty stage's full barrier expect `bytes` bytes and returns it. Call it once per
    /// round, instead of [`acquire`](TmaPipeline::acquire), if the byte count varies or other work
    /// goes between the wait and the copies. CUTLASS's `producer_expect_transaction`.
    ///
    /// It is a build error if [threads write](TmaPipeline::written_by) the stages.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::op::{L2Policy, ProxySpace};
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::pipeline::TmaPipeline;
    ///
    /// // Row `i` of 5 has `4 * (i + 1)` numbers. Each role looks at its next stage before it waits.
    /// type Params = (Global<i32>, GlobalMut<i32>);
    /// let kernel = Kernel::<Params>::build("sum", Target::SM_90, |k, (x, y)| {
    ///     let ring = k.shared_aligned::<i32>(2 * 32, 128);
    ///     let pipe = TmaPipeline::new(k, 2, 128, 32);
    ///     let t = k.thread_idx().x;
    ///     pipe.init(t.eq(0));
    ///     k.barrier();
    ///     k.if_(t.eq(32), |k| {
    ///         k.for_(range(0, 5), pipe.producer(), |k, row, state| {
    ///             let is_empty = pipe.try_acquire(state);
    ///             let bytes = (row + 1).cvt::<u32>() * 16;
    ///             k.if_(!is_empty, |_| pipe.wait_empty(state));
    ///             let full = pipe.expect_transaction(state, bytes);
    ///             let (to, from) = (ring.offset(state.stage * 32), x.offset(row * 32));
    ///             k.cp_async_bulk_load(to, from, bytes, full, L2Policy::EvictFirst);
    ///             state.next()
    ///         });
    ///     });
    ///     k.if_(t.lt(32), |k| {
    ///         let state = pipe.consumer();
    ///         let start = (state, pipe.try_wait(state), k.constant(0));
    ///         let (.., sum) = k.for_(range(0, 5), start, |k, row, (state, is_full, sum)| {
    ///             k.if_(!is_full, |_| pipe.wait(state));
    ///             let next = state.next();
    ///             let is_next_full = pipe.try_wait(next);
    ///             let has = t.lt(4 * (row + 1));
    ///             let number = k.if_with(has, 0, |_| ring.load(state.stage * 32 + t));
    ///             k.fence_proxy_async(ProxySpace::SharedCta);
    ///             pipe.release(state);
    ///             (next, is_next_full, sum + number)
    ///         });
    ///         y.store(t, sum);
    ///     });
    /// })?;
    /// let device = Device::sim()?;
    /// let (x, mut y) = (device.upload(&[1; 5 * 32])?, device.zeros::<i32>(32)?);
    /// device.load(&kernel)?.launch(Grid::cover(64, 64), (&x, &mut y))?;
    /// assert_eq!(y.to_vec()?, (0..32).map(|t| 5 - (t / 4).min(5)).collect::<Vec<_>>());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn expect_transaction(
        &self,
        state: PipelineState<'b>,
        bytes: impl IntoVal<'b, u32>,
    ) -> MbarrierRef<'b> {
        let k = &self.barriers.body();
        if let Err(kind) = count_of("threads that write a stage", self.writers, [0, 0]) {
            let (operation, operand) = ("expect_transaction", "a stage".to_owned());
            k.report(TensorError { operation, operand, kind });
        }
        let full = self.full(state.stage);
        full.arrive_expect_tx(bytes);
        full
    }

    /// Publishes one thread's writes to the stage. After [`wait`](TmaPipeline::wait), `wgmma` and
    /// bulk copies see them too. Only for stages that [threads write](TmaPipeline::written_by): TMA
    /// signals the full barrier itself.
    #[track_caller]
    pub fn commit(&self, state: PipelineState<'b>) {
        let k = &self.barriers.body();
        k.fence_proxy_async(ProxySpace::SharedCta);
        self.full(state.stage).arrive();
    }

    /// Tests whether the stage is full; the hardware can suspend the thread for a bounded time
    /// first. If it returns false, call [`wait`](TmaPipeline::wait). CuTe's `consumer_try_wait`.
    /// Use it to do other work between the test and the wait.
    #[track_caller]
    pub fn try_wait(&self, state: PipelineState<'b>) -> Val<'b, bool> {
        self.full(state.stage).try_wait_parity(state.parity)
    }

    /// Waits until the stage is full. A consumer calls it before it reads the stage.
    #[track_caller]
    pub fn wait(&self, state: PipelineState<'b>) {
        self.full(state.stage).wait_parity(state.parity);
    }

    /// Releases the stage: one of the arrivals that make it empty, in every block of the cluster. A
    /// consumer calls it after its last read.
    ///
    /// A thread that has loaded from the stage must call [`Body::fence_proxy_async`] first, because
    /// the copy that refills it belongs to the async proxy. `wgmma` needs no fence.
    #[track_caller]
    pub fn release(&self, state: PipelineState<'b>) {
        let empty = self.empty(state.stage);
        if self.cluster == 1 {
            empty.arrive();
        } else {
            for block in 0..self.cluster {
                // What is released was read by `wgmma` or before an arrival, so no further memory
                // ordering is needed.
                empty.arrive_cluster(block, RemoteArrival::Plain);
            }
        }
    }
}

/// Makes groups of threads take turns in a section: one after the other enters it, round after
/// round. CUTLASS's `OrderedSequenceBarrier`. Use it for ping-pong, where one consumer's epilogue
/// overlaps with the other's main loop.
///
/// A group [waits](OrderedBarrier::wait) before its section and [arrives](OrderedBarrier::arrive)
/// after it. It carries a parity, which begins with [`start`](OrderedBarrier::start) and flips with
/// each section.
#[derive(Clone, Copy, Debug)]
pub struct OrderedBarrier<'b> {
    barriers: Val<'b, Shared<u64>>,
    groups: u32,
    arrivals: u32,
}

impl<'b> OrderedBarrier<'b> {
    /// Makes the barriers of `groups` groups. Group 0 goes first.
    ///
    /// It is a build error if there are no groups.
    #[track_caller]
    #[inline]
    pub fn new(k: &Body<'b, '_>, groups: u32) -> Self {
        if let Err(kind) = count_of("groups", groups, [1, MAX_STAGES]) {
            let operand = format!("{groups} groups");
            k.report(TensorError { operation: "OrderedBarrier", operand, kind });
        }
        let groups = groups.clamp(1, MAX_STAGES);
        OrderedBarrier { barriers: k.shared::<u64>(groups), groups, arrivals: 1 }
    }

    /// Sets how many threads of a group call [`arrive`](OrderedBarrier::arrive) at the end of the
    /// group's section (1 by default). Use it if one warp of a group can arrive before another warp
    /// of the same group has returned from [`wait`](OrderedBarrier::wait): pass the group's warp
    /// count, and let one thread of each warp arrive. Otherwise the other groups can finish their
    /// sections and complete the next phase of this group's barrier before the slow warp has tested
    /// the current phase. The slow warp then sees the parity flipped and keeps waiting, although
    /// its section had begun.
    pub const fn arrivals(self, arrivals: u32) -> Self {
        OrderedBarrier { arrivals, ..self }
    }

    /// Initialises the barriers, in the thread in which `elected` holds. Put a block barrier after
    /// it.
    #[track_caller]
    pub fn init(&self, elected: Val<'b, bool>) {
        let k = &mut self.barriers.body();
        k.if_(elected, |k| {
            for group in 0..self.groups {
                self.barriers.mbarrier(k.value(group)).init(self.arrivals);
            }
        });
    }

    /// Returns the parity of a group's first section. Group 0 does not have to wait. Carry it
    /// through the group's loop.
    #[track_caller]
    pub fn start(&self, group: Val<'b, i32>) -> Val<'b, u32> {
        group.eq(0).select(group.constant(1), group.constant(0))
    }

    /// Waits until `group` may enter its section. Flip the parity for its next section.
    #[track_caller]
    pub fn wait(&self, group: Val<'b, i32>, parity: Val<'b, u32>) {
        self.barriers.mbarrier(group).wait_parity(parity);
    }

    /// Ends the section of `group`, in the thread in which `elected` holds, so that the next group
    /// may enter. Call it after the group's last access in the section.
    #[track_caller]
    #[inline]
    pub fn arrive(&self, group: Val<'b, i32>, elected: Val<'b, bool>) {
        let k = &mut self.barriers.body();
        k.if_(elected, |_| {
            let next = group + 1;
            let wraps = next.eq(group.count(self.groups));
            self.barriers.mbarrier(wraps.select(group.constant(0), next)).arrive();
        });
    }
}
