//! Runs one launch under one schedule: checks the arguments and the grid, runs the clusters, and
//! explains the first fault. `schedules.rs` comes here once for each schedule.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use super::exec::cluster::{Arguments, Cluster, Count, Stop};
use super::exec::warp_scheduler::{COOPERATIVE_QUANTUM, WarpScheduler};
use super::fault::error::RunError;
use super::memory::buffer::GlobalBuffer;
use super::memory::races::{Rules, Watched};
use super::options::{LaunchReport, Options, Order};
use super::program::code::Code;
use super::program::special::{Shape, blocks_at_once};
use super::progress::Ticker;
use super::race::{Before, Footprint};
use super::report::block_output::BlockOutput;
use super::report::explain::{Launch, explain};
use super::report::kernel::kernel_report;
use super::report::trace::trace;
use super::stream_order::{Earlier, NameRacer, StreamOrder, Uses};
use super::trace::Recorder;
use super::trace::class::OpClass;
use crate::arch::TensorMapDesc;
use crate::ir::op::{self, Op};
use crate::ir::types::{Const, Type};
use crate::ir::{KernelIr, LaunchBounds, OpData};
use crate::launch::grid::Grid;
use crate::sorting::sort_by_key;

/// An argument for one kernel parameter, if you run IR on the simulator directly with
/// [`run`](crate::sim::run). [`Device`](crate::runtime::Device) makes them for you.
#[derive(Clone, Copy, Debug)]
pub enum KernelArg<'a> {
    /// A value for a scalar parameter of the same type.
    Scalar(Const),
    /// A buffer for a pointer parameter. A buffer is bytes, so the element type does not matter.
    Buffer(&'a GlobalBuffer),
    /// For a tensor map parameter with the same element type and rank: the map, and the buffer with
    /// the tensor.
    TensorMap(&'a TensorMapDesc, &'a GlobalBuffer),
}

/// Returns the cluster size along each axis, if the kernel can run on the grid.
pub(in crate::sim) fn check_grid(ir: &KernelIr, grid: Grid) -> Result<[u32; 3], RunError> {
    let Grid { blocks, threads, .. } = grid;
    let [x, y, z] = threads;
    // The limits of the axes keep the product small.
    if x > 1024 || y > 1024 || z > 64 || !(1..=1024).contains(&(x * y * z)) {
        return Err(RunError::BlockSize { threads });
    }
    let [x, y, z] = blocks;
    if x > i32::MAX as u32 || y > 65535 || z > 65535 || blocks.contains(&0) {
        return Err(RunError::GridSize { blocks });
    }
    let found = threads;
    if let Some(expected) = ir.bounds.block.filter(|block| *block != threads) {
        return Err(RunError::FixedBlockSize { expected, found });
    }
    let [x, y, z] = threads;
    if let Some(limit) = ir.bounds.max_threads.filter(|limit| x * y * z > *limit) {
        return Err(RunError::MaxThreads { limit, found });
    }
    grid.cluster_blocks(&ir.bounds, LaunchBounds::MAX_CLUSTER).map_err(RunError::Cluster)
}

/// Returns the arguments, if they fit the parameters.
fn check_args<'a>(
    ir: &KernelIr,
    args: &[KernelArg<'a>],
    empty: &'a GlobalBuffer,
) -> Result<Arguments<'a>, RunError> {
    if args.len() != ir.params.len() {
        let (expected, found) = (ir.params.len(), args.len());
        return Err(RunError::ArgumentCount { expected, found });
    }
    let mut all = Arguments::default();
    for (param, arg) in ir.params.iter().zip(args) {
        let expected = ir.values.get(param.value).ok_or(RunError::NotVerified)?.ty;
        let (word, buffer, found) = match (expected, arg) {
            (Type::Scalar(s), KernelArg::Scalar(c)) if s == c.scalar() => {
                let word = if s == crate::ir::types::Scalar::Bool {
                    0u64.wrapping_sub(c.bits())
                } else {
                    c.bits()
                };
                (word, empty, None)
            }
            (Type::Pointer { .. }, KernelArg::Buffer(buffer)) => (0, *buffer, None),
            (Type::TensorMap { elem, rank, .. }, KernelArg::TensorMap(map, buffer))
                if elem == map.elem() && usize::from(rank) == map.rank() =>
            {
                if map.tensor_bytes() > buffer.len_bytes() as u64 {
                    let (param, tensor_bytes) = (param.name.clone(), map.tensor_bytes());
                    let buffer_bytes = buffer.len_bytes() as u64;
                    return Err(RunError::TensorMapBeyondBuffer {
                        param,
                        tensor_bytes,
                        buffer_bytes,
                    });
                }
                (0, *buffer, None)
            }
            (_, KernelArg::Scalar(c)) => (0, empty, Some(c.scalar().to_string())),
            (_, KernelArg::Buffer(_)) => (0, empty, Some("a buffer".to_owned())),
            (_, KernelArg::TensorMap(map, _)) => (0, empty, Some(format!("a tensor map of {map}"))),
        };
        if let Some(found) = found {
            let param = param.name.clone();
            return Err(RunError::ArgumentType { param, expected, found });
        }
        all.words.push(word);
        all.buffers.push(buffer);
        all.maps.push(match arg {
            KernelArg::TensorMap(map, _) => Some(*map),
            KernelArg::Scalar(_) | KernelArg::Buffer(_) => None,
        });
    }
    Ok(all)
}

/// Returns, for each parameter, whether the kernel may write through it; then `true` for each
/// global array.
pub(in crate::sim) fn written(ir: &KernelIr) -> impl Iterator<Item = bool> + '_ {
    let params =
        ir.params.iter().map(|param| match ir.values.get(param.value).map(|data| data.ty) {
            Some(Type::Pointer { mutable, .. } | Type::TensorMap { mutable, .. }) => mutable,
            Some(Type::Scalar(_) | Type::Vector(_)) | None => false,
        });
    params.chain(ir.globals.iter().map(|_| true))
}

/// Returns the name of a parameter or, behind them, of a global array.
pub(in crate::sim) fn global_name(ir: &KernelIr, number: usize) -> Option<String> {
    match ir.params.get(number) {
        Some(param) => Some(param.name.clone()),
        None => ir.globals.keys().nth(number - ir.params.len()).map(|global| global.to_string()),
    }
}

/// A launch's place in its stream: which earlier launches may still run, and what later ones will
/// see of it.
pub(in crate::sim) struct InStream<'l> {
    order: &'l StreamOrder,
    /// The launch's buffers, each with whether the launch may write it.
    buffers: Vec<(&'l Arc<Uses>, bool)>,
    /// The earlier launches, the most recent first, each with whether `griddepcontrol.wait` waits
    /// for it.
    before: Vec<(Arc<Earlier>, bool)>,
    /// Set if the next launch may start early.
    keeps: bool,
    /// Set once the launch has ended under one schedule.
    ended: Cell<bool>,
}

impl<'l> InStream<'l> {
    /// Starts a launch in the options' stream. Returns `None` if they name none, or if races are
    /// not detected.
    pub(in crate::sim) fn start(
        ir: &KernelIr,
        code: &'l Code,
        args: &[KernelArg<'l>],
        options: &'l Options,
    ) -> Option<InStream<'l>> {
        let order = options.stream.as_ref().filter(|_| options.race)?;
        let buffer = |(arg, written): (&KernelArg<'l>, bool)| match arg {
            KernelArg::Buffer(buffer) | KernelArg::TensorMap(_, buffer) => {
                Some((buffer.place().0, written))
            }
            KernelArg::Scalar(_) => None,
        };
        let globals = code.globals.iter().map(|global| (global.place().0, true));
        let buffers: Vec<_> =
            args.iter().zip(written(ir)).filter_map(buffer).chain(globals).collect();
        let before = order.start(options.programmatic, &buffers);
        let starts =
            |op: &OpData| matches!(op.op, Op::Sync(op::Sync::GriddepcontrolLaunchDependents {}));
        let keeps = ir.ops.iter().any(|(_, op)| starts(op));
        Some(InStream { order, buffers, before, keeps, ended: Cell::new(false) })
    }

    /// Returns the launches that may overlap with this one, and whether its accesses must be kept;
    /// `None` if nothing overlaps.
    fn overlap(&self) -> Option<(Vec<Before>, bool)> {
        let before = || self.before.iter().map(|(launch, ends)| launch.before(*ends)).collect();
        (self.keeps || !self.before.is_empty()).then(|| (before(), self.keeps))
    }

    /// The launch failed, so later launches are not compared with it or with anything before it.
    pub(in crate::sim) fn fail(&self) {
        self.order.finish();
    }

    /// Ends the launch under one schedule. Later launches are compared with the accesses of the
    /// first schedule.
    fn end(&self, footprint: Option<Footprint>, waited: bool, racer: NameRacer) {
        if !self.ended.replace(true) {
            self.order.end(&self.before, Earlier::new(racer, footprint, waited, &self.buffers));
        }
    }
}

/// A kernel, its grid and its arguments: what stays the same under every schedule.
#[derive(Clone, Copy)]
pub(in crate::sim) struct Call<'l> {
    pub(in crate::sim) ir: &'l KernelIr,
    pub(in crate::sim) code: &'l Code,
    pub(in crate::sim) grid: Grid,
    pub(in crate::sim) args: &'l [KernelArg<'l>],
}

/// Runs a launch under one schedule.
pub(in crate::sim) fn launch_once(
    call: Call<'_>,
    options: &Options,
    in_stream: Option<&InStream<'_>>,
    ticker: &Ticker<'_>,
) -> Result<LaunchReport, RunError> {
    let Call { ir, code, grid, args } = call;
    let shape = Shape {
        cluster: check_grid(ir, grid)?,
        names_cluster: ir.bounds.cluster.is_some() || grid.cluster.is_some(),
        // The verifier has checked that it fits into a block.
        dynamic_shared_bytes: ir.dynamic_shared_bytes() as u32,
    };
    let empty = GlobalBuffer::zeros(0);
    let mut arguments = check_args(ir, args, &empty)?;
    arguments.buffers.extend(&code.globals);
    let watched = options.race.then(|| {
        let buffers = arguments.buffers.iter().copied();
        let params: Vec<(&GlobalBuffer, bool)> = buffers.zip(written(ir)).collect();
        let rules = Rules {
            equal_stores: options.equal_stores,
            fence_after_reads: options.fence_after_reads,
        };
        Watched::new(&params, rules, in_stream.and_then(InStream::overlap))
    });
    let watched = watched.as_ref();
    let blocks: u64 = grid.blocks.iter().map(|n| u64::from(*n)).product();
    let clusters = blocks / u64::from(shape.blocks());
    let recorded = recorded(ir, code, options);
    let make = || {
        let mut cluster =
            Cluster::new(code, grid, shape, &arguments, options.accumulation, watched);
        cluster.memory.recorder = recorded.as_ref().map(|classes| {
            let traced = options.trace.as_ref().map(|_| 0);
            Recorder::new(classes, cluster.warps(), cluster.warps_of_block, traced)
        });
        cluster
    };

    let results = if options.cooperative {
        let threads = grid.threads.iter().product();
        let limit = blocks_at_once(threads, code.shared_bytes);
        if blocks > limit {
            return Err(RunError::TooManyBlocksAtOnce { blocks, limit });
        }
        vec![AtOnce::new(clusters).run(make, clusters, options, ticker)]
    } else if options.race && options.order.clusters_at_once() > 1 {
        let width = options.order.clusters_at_once();
        vec![AtOnce::new(width).run(make, clusters, options, ticker)]
    } else {
        in_parallel(make, clusters, options, ticker)
    };

    let mut report = LaunchReport::default();
    let mut first: Option<(u64, Stop)> = None;
    let mut all = BlockOutput::default();
    for (count, output, stop) in results {
        all.failed += output.failed;
        all.failures.extend(output.failures);
        all.prints.extend(output.prints);
        all.add_records(output.records);
        report.thread_ops += count.thread_ops;
        report.warp_ops += count.warp_ops;
        if let Some((number, _)) = &stop
            && first.as_ref().is_none_or(|(lowest, _)| number < lowest)
        {
            first = stop;
        }
    }
    // The output of clusters above the stopped one depends on the host's timing.
    let last = first.as_ref().map_or(u64::MAX, |(number, _)| *number);
    all.prints.retain(|(number, _)| *number <= last);
    sort_by_key(&mut all.prints, |(number, _)| *number);
    options.output.write(all.prints.iter().map(|(_, text)| text.as_str()));
    let before = in_stream.map_or(&[][..], |in_stream| &in_stream.before);
    let launch = Launch { ir, code, grid, fuel: options.fuel, order: options.order, shape, before };
    if let (Some(in_stream), Some(watched)) = (in_stream, watched) {
        let (footprint, waited) = watched.take_footprint();
        in_stream.end(footprint, waited, launch.racers());
    }
    let records = all.records.take();
    let result = match first {
        None if all.failed > 0 => Err(RunError::AssertFailed(Box::new(launch.failures(all)))),
        None => Ok(report),
        Some((number, stop)) => {
            let block = |rank: u32| shape.block(grid, number, rank);
            Err(explain(&launch, &block, &stop))
        }
    };
    if let Some(records) = records {
        let report = kernel_report(&launch, &report, &records);
        if let (Some(to), Some(timeline)) = (&options.trace, &records.trace) {
            let text = format!("{}\n", trace(&launch, &report, timeline, result.as_ref().err()));
            to.write([text.as_str()].into_iter());
        }
        if let Some(reports) = &options.reports {
            reports.push(report);
        }
    }
    result
}

/// Returns the class of each step, if the run is recorded.
fn recorded(ir: &KernelIr, code: &Code, options: &Options) -> Option<Arc<[OpClass]>> {
    let records = options.reports.is_some() || options.trace.is_some();
    records.then(|| code.ops.iter().map(|op| OpClass::of(ir, *op)).collect())
}

/// Counts and diagnostics of some clusters, and the cluster that stopped.
type Ran = (Count, BlockOutput, Option<(u64, Stop)>);

/// Runs the clusters on the host's threads, which take them in order. After a cluster has stopped,
/// none above it is started, and all below it run to their end, so the lowest stopped cluster
/// is always the same.
fn in_parallel<'c>(
    make: impl Fn() -> Cluster<'c> + Sync,
    clusters: u64,
    options: &Options,
    ticker: &Ticker<'_>,
) -> Vec<Ran> {
    let (next, stopped) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        let mut cluster = make();
        let (mut total, mut output) = (Count::default(), BlockOutput::default());
        loop {
            let number = next.fetch_add(1, Relaxed);
            let number =
                if options.race { cluster_of(number, clusters, options.order) } else { number };
            if number >= clusters || number > stopped.load(Relaxed) {
                return (total, output, None);
            }
            let run = cluster.run(number, options.order, options.fuel, ticker);
            ticker.cluster_ended();
            output.add_all(number, &mut cluster);
            match run {
                Ok(count) => total.add(count),
                Err(stop) => {
                    stopped.fetch_min(number, Relaxed);
                    return (total, output, Some((number, stop)));
                }
            }
        }
    };
    // With race detection, clusters share shadow memory, and the findings must not depend on the
    // host.
    let host = if options.race { 1 } else { host_threads() };
    let workers = if options.threads == 0 { host } else { options.threads.min(host) };
    let workers = (workers as u64).min(clusters).max(1);
    if workers == 1 {
        return vec![work()];
    }
    let ran = Mutex::new(Vec::new());
    let run = || {
        let one = work();
        ran.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // A short launch may be done before all threads exist. If the host has no more threads,
            // those that exist do all the work.
            let is_left = next.load(Relaxed) < clusters;
            if !is_left || thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    ran.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Returns how many threads the host can run at the same time.
fn host_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// Returns which cluster runs next, if clusters run one after the other.
fn cluster_of(number: u64, clusters: u64, order: Order) -> u64 {
    match order {
        Order::Reverse if number < clusters => clusters - 1 - number,
        _ => number,
    }
}

/// Clusters that run at the same time: in turn, each lets every warp run for a while.
struct AtOnce<'c> {
    /// Clusters that have not ended, by rising index.
    live: Vec<(u64, Cluster<'c>)>,
    /// Clusters that have ended, to be reused.
    idle: Vec<Cluster<'c>>,
    /// How many clusters may be live.
    width: u64,
    total: Count,
    output: BlockOutput,
    /// The lowest cluster with a race, and a cluster that stopped for another reason.
    raced: Option<(u64, Stop)>,
    stopped: Option<(u64, Stop)>,
}

impl<'c> AtOnce<'c> {
    fn new(width: u64) -> AtOnce<'c> {
        let (live, idle, total, output) = Default::default();
        AtOnce { live, idle, width, total, output, raced: None, stopped: None }
    }

    /// Runs the clusters until all have ended or one has stopped. A cluster starts as soon as there
    /// is room, the lowest first, so that a cluster may wait for those below it.
    fn run(
        mut self,
        make: impl Fn() -> Cluster<'c>,
        clusters: u64,
        options: &Options,
        ticker: &Ticker<'_>,
    ) -> Ran {
        let mut chooser = WarpScheduler::new(options.order, 1, [u32::MAX; 3]);
        let (mut next, mut raced_long) = (0, false);
        while self.stopped.is_none() && !raced_long {
            // After a race, no new cluster starts, but those that run may find other races.
            while next < clusters && (self.live.len() as u64) < self.width && self.raced.is_none() {
                let mut cluster = self.idle.pop().unwrap_or_else(&make);
                cluster.start(next, options.order, COOPERATIVE_QUANTUM);
                self.live.push((next, cluster));
                next += 1;
            }
            if self.live.is_empty() {
                break;
            }
            let turns = self.live.len();
            for turn in 0..turns {
                let index = match options.order {
                    Order::Reverse | Order::Fine => turns - 1 - turn,
                    Order::RoundRobin | Order::Eager | Order::Paced => {
                        self.live.len() - (turns - turn)
                    }
                    Order::Random { .. } => {
                        chooser.choice().unwrap_or(0) as usize % self.live.len()
                    }
                };
                let (_, cluster) = &mut self.live[index];
                match cluster.run_each(options.fuel) {
                    None => raced_long |= cluster.has_raced(),
                    Some(ended) => {
                        self.end(index, ended);
                        ticker.cluster_ended();
                    }
                }
            }
            ticker.tick();
        }
        while !self.live.is_empty() {
            self.end(0, Ok(()));
        }
        // Races happened before the fault that ended the run.
        (self.total, self.output, self.raced.or(self.stopped))
    }

    /// Ends a live cluster, given by its index.
    fn end(&mut self, index: usize, ended: Result<(), Stop>) {
        let (number, mut cluster) = self.live.remove(index);
        match cluster.with_races(ended) {
            Err(stop) if stop.has_race() => {
                if self.raced.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
                    self.raced = Some((number, stop));
                }
            }
            Err(stop) => {
                self.stopped.get_or_insert((number, stop));
            }
            Ok(()) => {}
        }
        self.total.add(cluster.count());
        self.output.add_all(number, &mut cluster);
        self.idle.push(cluster);
    }
}
