//! A launch: arguments and grid are checked, clusters run in parallel, the first fault is named.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::exec::cluster::{Arguments, Cluster, Count, Stop};
use super::exec::warp_scheduler::COOPERATIVE_QUANTUM;
use super::fault::error::RunError;
use super::memory::buffer::GlobalBuffer;
use super::memory::races::Watched;
use super::options::{LaunchReport, Options, Order};
use super::output::Output;
use super::program::code::Code;
use super::program::special::{Shape, blocks_at_once};
use super::report::explain::{Launch, explain};
use super::report::kernel::kernel_report;
use super::report::said::Said;
use super::report::trace::trace;
use super::trace::Recorder;
use super::trace::class::OpClass;
use crate::arch::TensorMapDesc;
use crate::ir::types::{Const, Type};
use crate::ir::{KernelIr, LaunchBounds};
use crate::launch::grid::Grid;

/// An argument of a launch.
#[derive(Clone, Copy, Debug)]
pub enum KernelArg<'a> {
    /// For a scalar parameter of the constant's type.
    Scalar(Const),
    /// For a pointer parameter, whatever its element type: a buffer is bytes.
    Buffer(&'a GlobalBuffer),
    /// For a tensor map of the same elements and rank: the map and the buffer with the tensor.
    TensorMap(&'a TensorMapDesc, &'a GlobalBuffer),
}

/// The blocks of a cluster along each axis, if the kernel runs on the grid.
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

/// The arguments, if they fit the parameters.
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

/// The shadows of a launch: of each buffer that is an argument of a parameter through which the kernel may write.
fn watched(ir: &KernelIr, buffers: &[&GlobalBuffer], options: &Options) -> Watched {
    let written = |value| match ir.values.get(value).map(|data| data.ty) {
        Some(Type::Pointer { mutable, .. } | Type::TensorMap { mutable, .. }) => mutable,
        Some(Type::Scalar(_) | Type::Vector(_)) | None => false,
    };
    let params = ir.params.iter().map(|param| written(param.value));
    let params: Vec<(&GlobalBuffer, bool)> = buffers.iter().copied().zip(params).collect();
    Watched::new(&params, options.equal_stores)
}

/// Runs a launch under each of the schedules of the options. The output and the results are those of the first.
pub(in crate::sim) fn launch(
    ir: &KernelIr,
    code: &Code,
    grid: Grid,
    args: &[KernelArg<'_>],
    options: &Options,
) -> Result<LaunchReport, RunError> {
    if options.schedules <= 1 {
        return launch_once(ir, code, grid, args, options);
    }
    let buffers = args.iter().filter_map(|arg| match arg {
        KernelArg::Buffer(buffer) | KernelArg::TensorMap(_, buffer) => Some(*buffer),
        KernelArg::Scalar(_) => None,
    });
    let content = || -> Vec<(&GlobalBuffer, Vec<u8>)> {
        buffers.clone().map(|buffer| (buffer, buffer.to_vec())).collect()
    };
    let restore = |content: &[(&GlobalBuffer, Vec<u8>)]| {
        content.iter().for_each(|(buffer, bytes)| buffer.write_bytes(0, bytes));
    };
    let before = content();
    let report = launch_once(ir, code, grid, args, options)?;
    let after = content();
    for order in options.order.others().take(options.schedules as usize - 1) {
        restore(&before);
        let (output, reports, trace) = (Output::captured(), None, None);
        let options = Options { order, output, reports, trace, ..options.clone() };
        launch_once(ir, code, grid, args, &options)?;
    }
    restore(&after);
    Ok(report)
}

fn launch_once(
    ir: &KernelIr,
    code: &Code,
    grid: Grid,
    args: &[KernelArg<'_>],
    options: &Options,
) -> Result<LaunchReport, RunError> {
    let shape = Shape {
        cluster: check_grid(ir, grid)?,
        names_cluster: ir.bounds.cluster.is_some() || grid.cluster.is_some(),
        // The verifier has seen that it fits a block.
        dynamic_shared_bytes: ir.dynamic_shared_bytes() as u32,
    };
    let empty = GlobalBuffer::zeros(0);
    let arguments = check_args(ir, args, &empty)?;
    let watched = options.race.then(|| watched(ir, &arguments.buffers, options));
    let watched = watched.as_ref();
    let blocks: u64 = grid.blocks.iter().map(|n| u64::from(*n)).product();
    let clusters = blocks / u64::from(shape.blocks());
    let recorded = recorded(ir, code, options);
    let make = || {
        let mut cluster =
            Cluster::new(code, (grid, shape), &arguments, (options.accumulation, watched));
        cluster.memory.recorder = recorded.as_ref().map(|classes| {
            let warps = (cluster.warps(), cluster.warps_of_block);
            Recorder::new(classes, warps, options.trace.as_ref().map(|_| 0))
        });
        cluster
    };

    let results = if options.cooperative {
        let threads = grid.threads.iter().product();
        let limit = blocks_at_once(threads, code.shared_bytes);
        if blocks > limit {
            return Err(RunError::TooManyBlocksAtOnce { blocks, limit });
        }
        let mut all: Vec<Cluster<'_>> = Vec::new();
        all.resize_with(clusters as usize, make);
        vec![at_once(&mut all, options)]
    } else {
        in_parallel(make, clusters, options)
    };

    let mut report = LaunchReport::default();
    let mut first: Option<(u64, Stop)> = None;
    let mut all = Said::default();
    for (count, said, stop) in results {
        all.failed += said.failed;
        all.failures.extend(said.failures);
        all.prints.extend(said.prints);
        all.add_records(said.records);
        report.thread_ops += count.thread_ops;
        report.warp_ops += count.warp_ops;
        if let Some((number, _)) = &stop
            && first.as_ref().is_none_or(|(lowest, _)| number < lowest)
        {
            first = stop;
        }
    }
    // The output of clusters above the stopped one depends on the host.
    let last = first.as_ref().map_or(u64::MAX, |(number, _)| *number);
    all.prints.retain(|(number, _)| *number <= last);
    all.prints.sort_by_key(|(number, _)| *number);
    options.output.write(all.prints.iter().map(|(_, text)| text.as_str()));
    let launch = Launch { ir, code, grid, fuel: options.fuel, order: options.order, shape };
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

/// The classes of the steps, where the run is recorded.
fn recorded(ir: &KernelIr, code: &Code, options: &Options) -> Option<Arc<[OpClass]>> {
    let records = options.reports.is_some() || options.trace.is_some();
    records.then(|| code.ops.iter().map(|op| OpClass::of(ir, *op)).collect())
}

/// Counts and diagnostics of clusters, and the stopped cluster.
type Ran = (Count, Said, Option<(u64, Stop)>);

/// Runs the clusters on the threads of the host, which take them in order. A cluster above a stopped one is not
/// started. All below it run to their end, so the lowest stopped cluster is always the same.
fn in_parallel<'c>(
    make: impl Fn() -> Cluster<'c> + Sync,
    clusters: u64,
    options: &Options,
) -> Vec<Ran> {
    let (next, stopped) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        let mut cluster = make();
        let (mut total, mut said) = (Count::default(), Said::default());
        loop {
            let number = next.fetch_add(1, Relaxed);
            let number = if options.race { place(number, clusters, options.order) } else { number };
            if number >= clusters || number > stopped.load(Relaxed) {
                return (total, said, None);
            }
            let run = cluster.run(number, options.order, options.fuel);
            said.add_all(number, &mut cluster);
            match run {
                Ok(count) => total.add(count),
                Err(stop) => {
                    stopped.fetch_min(number, Relaxed);
                    return (total, said, Some((number, stop)));
                }
            }
        }
    };
    let pool = rayon::current_num_threads();
    // With race detection clusters share shadows, and what is found must not depend on the host.
    let pool = if options.race { 1 } else { pool };
    let workers = if options.threads == 0 { pool } else { options.threads.min(pool) };
    let workers = (workers as u64).min(clusters).max(1);
    match workers {
        1 => vec![work()],
        _ => (0..workers).into_par_iter().map(|_| work()).collect(),
    }
}

/// The cluster that runs as number `number`, where clusters run one after the other.
fn place(number: u64, clusters: u64, order: Order) -> u64 {
    match order {
        Order::Reverse if number < clusters => clusters - 1 - number,
        _ => number,
    }
}

/// Runs all clusters at once: one after the other lets each of its warps run in the middle once, until all have ended
/// or one has stopped.
fn at_once(all: &mut [Cluster<'_>], options: &Options) -> Ran {
    for (number, cluster) in all.iter_mut().enumerate() {
        cluster.start(number as u64, (options.order, COOPERATIVE_QUANTUM));
    }
    let mut live: Vec<usize> = (0..all.len()).collect();
    let (mut stopped, mut raced) = (None, false);
    while !live.is_empty() && stopped.is_none() {
        live.retain(|number| {
            let cluster = &mut all[*number];
            for _ in 0..cluster.warps() {
                match cluster.run_one(options.fuel) {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(stop) => {
                        stopped = stopped.take().or(Some((*number as u64, stop)));
                        return false;
                    }
                }
            }
            raced |= cluster.has_raced();
            true
        });
        if raced {
            break;
        }
    }
    // Races came before the fault that ended the run.
    let raced = all.iter_mut().enumerate().find_map(|(number, cluster)| {
        let own = stopped.take_if(|(at, _)| *at == number as u64);
        let ended = own.map_or(Ok(()), |(_, stop)| Err(stop));
        match cluster.with_races(ended) {
            Err(stop) if stop.has_race() => Some((number as u64, stop)),
            Err(stop) => {
                stopped = Some((number as u64, stop));
                None
            }
            Ok(()) => None,
        }
    });
    let stopped = raced.or(stopped);
    let (mut total, mut said) = (Count::default(), Said::default());
    for (number, cluster) in all.iter_mut().enumerate() {
        total.add(cluster.count());
        said.add_all(number as u64, cluster);
    }
    (total, said, stopped)
}
