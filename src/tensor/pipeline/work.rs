//! [`WorkScheduler`]: the work items that a thread block takes, one after the other.

use crate::ir::builder::{IntoValues, Values};
use crate::ir::op::{FenceOrder, MemScope};
use crate::ir::{Body, GlobalMut, Shared, Val, Var, WARP, range};

use super::tma::{PipelineState, TmaPipeline};

/// Hands the numbers of work items to a thread block. The caller decodes a number: into a tile
/// ([`TileScheduler::tile`](super::TileScheduler::tile)), a tile of a head ([`HeadSections`](super::HeadSections)), or a
/// tile of a sequence ([`Sequences`](super::Sequences)).
///
/// | scheduler | order | the roles of a block |
/// |---|---|---|
/// | [`TileScheduler`](super::TileScheduler), [`StaticScheduler`] | block `i` of `n` takes `i`, `i + n`, .. | go through the same numbers without communication |
/// | [`WorkCounter`] | the next number of a counter in global memory | have one thread |
/// | [`DynamicScheduler`] | the same | one thread draws numbers and broadcasts them through shared memory |
/// | [`TileScheduler::drawn`](super::TileScheduler::drawn) | the next number of a counter, without a known number of items | as a `DynamicScheduler` |
///
/// A kernel is generic over its scheduler:
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Body, GlobalMut, Kernel, Target, Val};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{StaticScheduler, WorkCounter, WorkScheduler};
///
/// /// Counts how often each item is taken.
/// fn count<'b>(k: &mut Body<'b, '_>, work: impl WorkScheduler<'b>, x: Val<'b, GlobalMut<i32>>) {
///     work.for_each_item(k, (), |k, item, ()| x.red().add(k, item, 1));
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
    /// The number of the block's first item.
    fn first(&self, k: &Body<'b, '_>) -> Val<'b, i32>;

    /// Returns whether there is an item with this number. The first number without one ends the work of a block.
    fn is_item<'c>(&self, number: Val<'c, i32>) -> Val<'c, bool>
    where
        'b: 'c;

    /// Takes the number after `number`: once for each item.
    fn next<'c>(&self, k: &mut Body<'c, '_>, number: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c;

    /// Runs `body` for each item, with values that are carried from one to the next; returns the last ones. The next
    /// number is taken before the body runs, so that a counter answers meanwhile.
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

/// Block `i` of `n` takes the numbers `i`, `i + n`, .. below the number of items.
#[derive(Clone, Copy, Debug)]
pub struct StaticScheduler<'b> {
    pub(super) first: Val<'b, i32>,
    pub(super) step: Val<'b, i32>,
    items: Val<'b, i32>,
}

impl<'b> StaticScheduler<'b> {
    /// The items of this block, of `items` in all.
    #[track_caller]
    pub fn new(k: &Body<'b, '_>, items: Val<'b, i32>) -> Self {
        StaticScheduler { first: k.block_idx().x, step: k.grid_dim().x, items }
    }

    /// The items `first`, `first + step`, .. below `items`.
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

/// Numbers of a counter in global memory. Block `i` starts with the number `i`; each item takes one number, so that the
/// counter is 0 again after the last item and launches can be replayed. Items that take longer come first in the order of
/// the caller: the others fill the gaps.
///
/// The counter is 0 before the first launch. Launches that share it come after each other, and a grid has at most as many
/// blocks as there are items.
#[derive(Clone, Copy, Debug)]
pub struct WorkCounter<'b> {
    taken: Val<'b, GlobalMut<u32>>,
    items: Val<'b, i32>,
}

impl<'b> WorkCounter<'b> {
    /// The counter at `taken`, of `items` items.
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
        number.lt(self.items)
    }

    #[track_caller]
    #[inline]
    fn next<'c>(&self, k: &mut Body<'c, '_>, _: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        // It wraps after the number of items.
        let taken = self.taken.atom().inc(k, 0, (self.items - 1).cvt::<u32>());
        taken.cvt::<i32>() + k.grid_dim().x
    }
}

impl<'b> WorkCounter<'b> {
    /// Ends the work of a block, in one thread, where no block knows the number of items before it has them all: a counter
    /// of `i32::MAX` items then, whose numbers are items until the caller finds none. The last of all blocks sets the counter
    /// to 0. `ended` counts the blocks that end: 0 before a launch and after it.
    #[track_caller]
    #[inline]
    fn finish<'c>(&self, k: &mut Body<'c, '_>, ended: Val<'c, GlobalMut<u32>>)
    where
        'b: 'c,
    {
        k.fence(FenceOrder::AcqRel, MemScope::Gpu);
        let others = (k.grid_dim().x - 1).cvt::<u32>();
        // It wraps to 0 after `others`.
        let before = ended.atom().inc(k, 0, others);
        k.if_(before.eq(others), |k| {
            k.fence(FenceOrder::AcqRel, MemScope::Gpu);
            self.taken.store(k, 0, 0u32);
        });
    }
}

/// Numbers in shared memory that one thread writes and whole warps read. A barrier of the caller separates both.
#[derive(Clone, Copy, Debug)]
pub struct WorkNumbers<'b> {
    slots: Val<'b, Shared<i32>>,
}

impl<'b> WorkNumbers<'b> {
    /// `slots` numbers.
    #[track_caller]
    pub fn new(k: &Body<'b, '_>, slots: u32) -> Self {
        WorkNumbers { slots: k.shared::<i32>(slots) }
    }

    /// Writes the number of a slot.
    #[track_caller]
    pub fn write<'c>(&self, k: &Body<'c, '_>, slot: Val<'c, i32>, number: Val<'c, i32>)
    where
        'b: 'c,
    {
        self.slots.store(k, slot, number);
    }

    /// Reads the number of a slot in all lanes of a warp.
    #[track_caller]
    pub fn read<'c>(&self, k: &Body<'c, '_>, slot: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        // All lanes read the same number; `ptxas` knows it of what a lane hands to the others.
        let number = self.slots.load(k, slot);
        k.shfl_idx(WARP, number, 0)
    }
}

/// The numbers of a [`WorkCounter`] for a block with roles: one thread, the [`producer`](DynamicScheduler::producer), draws
/// them, and the [`consumer`](DynamicScheduler::consumer) warps read them from shared memory. The producer is up to two
/// items ahead.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{DynamicScheduler, WorkScheduler};
///
/// // A warp draws, two warps count.
/// type Params = (GlobalMut<i32>, GlobalMut<u32>, i32);
/// let kernel = Kernel::<Params>::build("dynamic", Target::SM_90, |k, (x, taken, items)| {
///     let work = DynamicScheduler::new(k, taken, items, 64);
///     let thread = k.thread_idx().x;
///     work.init(k, thread.eq(0));
///     k.barrier();
///     k.if_(thread.eq(64), |k| {
///         let work = work.producer(k);
///         work.for_each_item(k, (), |_, _, ()| ());
///     });
///     k.if_(thread.lt(64), |k| {
///         let work = work.consumer(k);
///         work.for_each_item(k, (), |k, item, ()| x.red().add(k, item, 1));
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
    /// The counter at `taken`, of `items` items, for `consumers` threads: whole warps.
    ///
    /// No consumers, or more than a barrier counts, are errors of the build.
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

    /// Makes the barriers, in the thread where `elected` holds. A barrier of the block follows.
    #[track_caller]
    pub fn init<'k: 'b>(&self, k: &mut Body<'k, '_>, elected: Val<'b, bool>) {
        self.pipe.init(k, elected);
    }

    /// The items for the thread that draws them.
    #[track_caller]
    pub fn producer<'c>(&self, k: &Body<'c, '_>) -> DynamicWork<'c>
    where
        'b: 'c,
    {
        DynamicWork::new(k, *self, true)
    }

    /// The items for the threads of the consumers.
    #[track_caller]
    pub fn consumer<'c>(&self, k: &Body<'c, '_>) -> DynamicWork<'c>
    where
        'b: 'c,
    {
        DynamicWork::new(k, *self, false)
    }
}

/// The items of a role of a [`DynamicScheduler`].
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
            true => scheduler.pipe.producer(k),
            false => scheduler.pipe.consumer(k),
        };
        let (stage, parity) = (k.var(start.stage), k.var(start.parity));
        DynamicWork { scheduler, is_producer, stage, parity }
    }
}

impl<'b> DynamicWork<'b> {
    /// Ends the work of the block where the items have no known number: after the last item, in all threads that went through them.
    #[track_caller]
    #[inline]
    pub(super) fn finish<'c>(&self, k: &mut Body<'c, '_>)
    where
        'b: 'c,
    {
        let counter = self.scheduler.counter;
        if self.is_producer {
            // The element behind the counter.
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
        let (stage, parity) = (self.stage.get(k), self.parity.get(k));
        let state = PipelineState { stage, parity, stages: pipe.stages() };
        let next = if self.is_producer {
            let next = counter.next(k, number);
            pipe.acquire(k, state);
            numbers.write(k, stage, next);
            pipe.commit(k, state);
            next
        } else {
            pipe.wait(k, state);
            let next = numbers.read(k, stage);
            pipe.release(k, state);
            next
        };
        let state = state.next();
        self.stage.set(k, state.stage);
        self.parity.set(k, state.parity);
        next
    }
}
