//! [`WorkScheduler`]: hands out work items to persistent thread blocks, statically or from a
//! counter in global memory. Use it if items are not matrix tiles, for example attention's (head,
//! query tile) pairs; for tiles use [`TileScheduler`](crate::tensor::pipeline::TileScheduler).

use crate::ir::builder::{IntoValues, Values};
use crate::ir::op::{FenceOrder, MemScope};
use crate::ir::{Body, GlobalMut, Shared, Val, Var, WARP, range};

use super::tma::{PipelineState, TmaPipeline};

/// Hands out the indices of work items to a thread block. You decode an index: into a tile
/// ([`TileScheduler::tile`](super::TileScheduler::tile)), a head's tile
/// ([`HeadSections`](super::HeadSections)) or a sequence's tile ([`Sequences`](super::Sequences)).
///
/// Pick a static order if items cost about the same, a counter if they do not.
///
/// | scheduler | order | a block's roles |
/// |---|---|---|
/// | [`StaticScheduler`] | `i`, `i + n`, .. | need no communication |
/// | [`TileScheduler`](super::TileScheduler) | the same, as tiles | need no communication |
/// | [`WorkCounter`] | a counter in global memory | one thread only |
/// | [`DynamicScheduler`] | the same | one thread draws and broadcasts to the others |
/// | [`drawn`](super::TileScheduler::drawn) tiles | the same; item count unknown | as above |
///
/// Write a kernel that is generic over its scheduler:
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Body, GlobalMut, Kernel, Target, Val};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{StaticScheduler, WorkCounter, WorkScheduler};
///
/// /// Counts how often each item is taken.
/// fn count<'b>(k: &mut Body<'b, '_>, work: impl WorkScheduler<'b>, x: Val<'b, GlobalMut<i32>>) {
///     work.for_each_item(k, (), |_, item, ()| x.red().add(item, 1));
/// }
///
/// type Params = (GlobalMut<i32>, GlobalMut<u32>, i32);
/// let kernel = Kernel::<Params>::build("both", Target::SM_80, |k, (x, taken, items)| {
///     let work = StaticScheduler::new(k, items);
///     count(k, work, x);
///     count(k, WorkCounter::new(taken, items), x);
/// })?;
/// let device = Device::sim()?;
/// let (mut x, mut taken) = (device.zeros::<i32>(10)?, device.zeros::<u32>(1)?);
/// let function = device.load(&kernel)?;
/// for launch in 1..4 {
///     function.launch(Grid::new([4, 1, 1], [1, 1, 1]), (&mut x, &mut taken, 10))?;
///     assert_eq!(x.to_vec()?, [2 * launch; 10]);
///     // The counter is 0 again, so that the next launch needs no host.
///     assert_eq!(taken.to_vec()?, [0]);
/// }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WorkScheduler<'b>: Copy {
    /// Returns the block's first index. It may be beyond the last item, so check it with
    /// [`is_item`](WorkScheduler::is_item).
    fn first(&self, k: &Body<'b, '_>) -> Val<'b, i32>;

    /// Returns whether an item has this index. The first index without an item ends the block's
    /// work.
    fn is_item<'c>(&self, number: Val<'c, i32>) -> Val<'c, bool>
    where
        'b: 'c;

    /// Takes the index after `number`. Call it once per item, because a counter moves on with each
    /// call.
    fn next<'c>(&self, k: &mut Body<'c, '_>, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c;

    /// Runs `body` for each item, carrying values from one item to the next, and returns the last
    /// ones. It takes the next index before `body` runs, so that a counter answers in the meantime.
    #[track_caller]
    fn for_each_item<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            Val<'c, i32>,
            <I::V as Values>::At<'c>,
        ) -> <I::V as Values>::At<'c>,
    ) -> <I::V as Values>::At<'b> {
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let first = self.first(k);
        let (_, last) = k.while_(
            (first, init),
            |_, (number, _)| self.is_item(number),
            |k, (number, carried)| {
                let next = self.next(k, number);
                (next, body(k, number, carried))
            },
        );
        last
    }
}

/// A static schedule: of `n` blocks, block `i` takes the indices `i`, `i + n`, .. below the item
/// count. Pick it if all items cost about the same: it needs neither a counter nor communication.
#[derive(Clone, Copy, Debug)]
pub struct StaticScheduler<'b> {
    pub(super) first: Val<'b, i32>,
    pub(super) step: Val<'b, i32>,
    items: Val<'b, i32>,
}

impl<'b> StaticScheduler<'b> {
    /// Makes the schedule of this block for `items` items in total, at the start of the kernel.
    #[track_caller]
    pub fn new(k: &Body<'b, '_>, items: Val<'b, i32>) -> Self {
        StaticScheduler { first: k.block_idx().x, step: k.grid_dim().x, items }
    }

    /// Makes a schedule of the items `first`, `first + step`, .. below `items`.
    pub(super) fn strided([first, step, items]: [Val<'b, i32>; 3]) -> Self {
        StaticScheduler { first, step, items }
    }
}

impl<'b> WorkScheduler<'b> for StaticScheduler<'b> {
    fn first(&self, _: &Body<'b, '_>) -> Val<'b, i32> {
        self.first
    }

    #[track_caller]
    fn is_item<'c>(&self, number: Val<'c, i32>) -> Val<'c, bool>
    where
        'b: 'c,
    {
        number.lt(self.items)
    }

    #[track_caller]
    fn next<'c>(&self, _: &mut Body<'c, '_>, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        number + self.step
    }

    #[track_caller]
    fn for_each_item<'k: 'b, I: IntoValues<'b>>(
        &self,
        k: &mut Body<'k, '_>,
        init: I,
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            Val<'c, i32>,
            <I::V as Values>::At<'c>,
        ) -> <I::V as Values>::At<'c>,
    ) -> <I::V as Values>::At<'b> {
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        k.for_(range(self.first, self.items).step(self.step), init, body)
    }
}

/// A dynamic schedule from a counter in global memory: block `i` starts with item `i`, and fetches
/// each further index from the counter with an atomic increment. Use it if items differ in cost and
/// a single thread per block fetches them; with warp roles, use [`DynamicScheduler`]. Put expensive
/// items first, so that cheap ones fill the gaps at the end.
///
/// The counter must be 0 before the first launch. Each item draws exactly one index, so the counter
/// wraps to 0 after the last one, and a launch can be replayed. Launches that share a counter must
/// not overlap, and a grid must not have more blocks than there are items.
#[derive(Clone, Copy, Debug)]
pub struct WorkCounter<'b> {
    taken: Val<'b, GlobalMut<u32>>,
    items: Val<'b, i32>,
}

impl<'b> WorkCounter<'b> {
    /// Makes the schedule of `items` items from the counter at `taken`, a `u32` in global memory.
    /// Call it in a block in which a single thread takes the items.
    pub fn new(taken: Val<'b, GlobalMut<u32>>, items: Val<'b, i32>) -> Self {
        WorkCounter { taken, items }
    }
}

impl<'b> WorkScheduler<'b> for WorkCounter<'b> {
    #[track_caller]
    fn first(&self, k: &Body<'b, '_>) -> Val<'b, i32> {
        k.block_idx().x
    }

    #[track_caller]
    fn is_item<'c>(&self, number: Val<'c, i32>) -> Val<'c, bool>
    where
        'b: 'c,
    {
        // One comparison for both ends: a negative index is a large unsigned one.
        number.cvt::<u32>().lt(self.items.cvt::<u32>())
    }

    #[track_caller]
    #[inline]
    fn next<'c>(&self, k: &mut Body<'c, '_>, _: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        // It wraps to 0 at the item count.
        let taken = self.taken.atom().inc(0, (self.items - 1).cvt::<u32>());
        taken.cvt::<i32>() + k.grid_dim().x
    }
}

impl<'b> WorkCounter<'b> {
    /// Ends a block's work if no block knows the item count in advance. The counter then has
    /// `i32::MAX` items, and the caller finds the end itself. Call it in one thread per block: the
    /// last block resets the counter to 0. `ended` counts the blocks that end, and is 0 before and
    /// after a launch.
    #[track_caller]
    #[inline]
    fn finish<'c>(&self, k: &mut Body<'c, '_>, ended: Val<'c, GlobalMut<u32>>)
    where
        'b: 'c,
    {
        k.fence(FenceOrder::AcqRel, MemScope::Gpu);
        let others = (k.grid_dim().x - 1).cvt::<u32>();
        // It wraps to 0 after `others`.
        let before = ended.atom().inc(0, others);
        k.if_(before.eq(others), |k| {
            k.fence(FenceOrder::AcqRel, MemScope::Gpu);
            self.taken.store(0, 0u32);
        });
    }
}

/// Work-item indices in shared memory: one thread, for example the producer that draws items,
/// writes an index to a slot, and the consumer warps read it. Put a barrier between write and read,
/// for example a pipeline's full barrier. [`DynamicScheduler`] uses it; take it for an exchange of
/// your own.
#[derive(Clone, Copy, Debug)]
pub struct WorkNumbers<'b> {
    slots: Val<'b, Shared<i32>>,
}

impl<'b> WorkNumbers<'b> {
    /// Allocates `slots` indices in shared memory, for example two that are used in turn.
    #[track_caller]
    pub fn new(k: &Body<'b, '_>, slots: u32) -> Self {
        WorkNumbers { slots: k.shared::<i32>(slots) }
    }

    /// Writes an index to a slot, in the thread that has drawn it.
    #[track_caller]
    pub fn write(&self, slot: Val<'b, i32>, number: Val<'b, i32>) {
        self.slots.store(slot, number);
    }

    /// Reads a slot's index in all lanes of a warp, after the barrier.
    #[track_caller]
    pub fn read(&self, slot: Val<'b, i32>) -> Val<'b, i32> {
        let k = &self.slots.body();
        // All lanes read the same index, but `ptxas` knows it only for what a lane broadcasts.
        let number = self.slots.load(slot);
        k.shfl_idx(WARP, number, 0)
    }
}

/// A [`WorkCounter`] for a block with warp roles: one thread, the
/// [`producer`](DynamicScheduler::producer), draws indices, and the
/// [`consumer`](DynamicScheduler::consumer) warps read them from shared memory. The producer runs
/// up to two items ahead.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{DynamicScheduler, WorkScheduler};
///
/// // A warp draws, two warps count.
/// type Params = (GlobalMut<i32>, GlobalMut<u32>, i32);
/// let kernel = Kernel::<Params>::build("dynamic", Target::SM_90, |k, (x, taken, items)| {
///     let work = DynamicScheduler::new(k, taken, items, 64);
///     let thread = k.thread_idx().x;
///     work.init(thread.eq(0));
///     k.barrier();
///     k.if_(thread.eq(64), |k| {
///         let work = work.producer();
///         work.for_each_item(k, (), |_, _, ()| ());
///     });
///     k.if_(thread.lt(64), |k| {
///         let work = work.consumer();
///         work.for_each_item(k, (), |_, item, ()| x.red().add(item, 1));
///     });
/// })?;
/// let device = Device::sim()?;
/// let (mut x, mut taken) = (device.zeros::<i32>(9)?, device.zeros::<u32>(1)?);
/// let function = device.load(&kernel)?;
/// for launch in 1..3 {
///     function.launch(Grid::new([2, 1, 1], [96, 1, 1]), (&mut x, &mut taken, 9))?;
///     assert_eq!((x.to_vec()?, taken.to_vec()?), (vec![64 * launch; 9], vec![0]));
/// }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DynamicScheduler<'b> {
    counter: WorkCounter<'b>,
    numbers: WorkNumbers<'b>,
    pipe: TmaPipeline<'b>,
}

impl<'b> DynamicScheduler<'b> {
    /// Makes the schedule of `items` items from the counter at `taken`, for `consumers` consumer
    /// threads in whole warps.
    ///
    /// It is a build error if there are no consumers, or more than an mbarrier can count.
    #[track_caller]
    #[inline]
    pub fn new(
        k: &Body<'b, '_>,
        taken: Val<'b, GlobalMut<u32>>,
        items: Val<'b, i32>,
        consumers: u32,
    ) -> Self {
        const STAGES: u32 = 2;
        let pipe = TmaPipeline::new(k, STAGES, size_of::<i32>() as u32, consumers).written_by(1);
        let numbers = WorkNumbers::new(k, STAGES);
        DynamicScheduler { counter: WorkCounter::new(taken, items), numbers, pipe }
    }

    /// Initialises the barriers, in the thread in which `elected` holds. Put a block barrier after
    /// it.
    #[track_caller]
    pub fn init(&self, elected: Val<'b, bool>) {
        self.pipe.init(elected);
    }

    /// Returns the share of the thread that draws the indices. Loop over it with
    /// [`for_each_item`](WorkScheduler::for_each_item).
    #[track_caller]
    pub fn producer(&self) -> DynamicWork<'b> {
        let k = &self.counter.items.body();
        DynamicWork::new(k, *self, true)
    }

    /// Returns the share of the consumer threads, which loop over the same items as the producer.
    #[track_caller]
    pub fn consumer(&self) -> DynamicWork<'b> {
        let k = &self.counter.items.body();
        DynamicWork::new(k, *self, false)
    }
}

/// A role's share of a [`DynamicScheduler`]: the [`WorkScheduler`] over which the role loops. Made
/// by [`DynamicScheduler::producer`] and [`DynamicScheduler::consumer`].
#[derive(Clone, Copy, Debug)]
pub struct DynamicWork<'b> {
    scheduler: DynamicScheduler<'b>,
    is_producer: bool,
    stage: Var<'b, i32>,
    parity: Var<'b, u32>,
}

impl<'b> DynamicWork<'b> {
    #[track_caller]
    fn new(k: &Body<'b, '_>, scheduler: DynamicScheduler<'b>, is_producer: bool) -> Self {
        let start = match is_producer {
            true => scheduler.pipe.producer(),
            false => scheduler.pipe.consumer(),
        };
        let (stage, parity) = (k.var(start.stage), k.var(start.parity));
        DynamicWork { scheduler, is_producer, stage, parity }
    }
}

impl<'b> DynamicWork<'b> {
    /// Ends the block's work if the item count is not known. Call it after the last item in all
    /// threads that went through the items.
    #[track_caller]
    #[inline]
    pub(super) fn finish<'c>(&self, k: &mut Body<'c, '_>)
    where
        'b: 'c,
    {
        let counter = self.scheduler.counter;
        if self.is_producer {
            // The element after the counter.
            counter.finish(k, counter.taken.offset(1));
        }
    }
}

impl<'b> WorkScheduler<'b> for DynamicWork<'b> {
    #[track_caller]
    fn first(&self, k: &Body<'b, '_>) -> Val<'b, i32> {
        self.scheduler.counter.first(k)
    }

    #[track_caller]
    fn is_item<'c>(&self, number: Val<'c, i32>) -> Val<'c, bool>
    where
        'b: 'c,
    {
        self.scheduler.counter.is_item(number)
    }

    #[track_caller]
    #[inline]
    fn next<'c>(&self, k: &mut Body<'c, '_>, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        let DynamicScheduler { counter, numbers, pipe } = self.scheduler;
        let (stage, parity) = (self.stage.get(), self.parity.get());
        let state = PipelineState { stage, parity, stages: pipe.stages() };
        let next = if self.is_producer {
            let next = counter.next(k, number);
            pipe.acquire(state);
            numbers.write(stage, next);
            pipe.commit(state);
            next
        } else {
            pipe.wait(state);
            let next = numbers.read(stage);
            pipe.release(state);
            next
        };
        let state = state.next();
        self.stage.set(state.stage);
        self.parity.set(state.parity);
        next
    }
}
