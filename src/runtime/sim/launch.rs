//! A launch: arguments and grid are checked, blocks run in parallel, the first fault is named.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::block::{Block, Count, Stop};
use super::buffer::Buffer;
use super::diagnostic::{Diagnostics, Failure};
use super::error::RunError;
use super::fault::{Fault, FaultCause, MemoryAccess};
use super::lanes::LANES;
use super::options::{Options, Report};
use super::program::Code;
use super::special::Shape;
use super::trap::{AccessAt, TrapCause};
use crate::codegen::TensorMapDesc;
use crate::ir::{
    ArrayId, Cache, Const, Entity, KernelIr, LaunchBounds, Mem, Op, Place, SharedId, Space, Type,
};
use crate::runtime::Grid;
use crate::runtime::assert::{AssertFailures, AssertSites};

/// An argument of a launch.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// For a scalar parameter of the constant's type.
    Scalar(Const),
    /// For a pointer parameter, whatever its element type: a buffer is bytes.
    Buffer(&'a Buffer),
    /// For a tensor map of the same elements and rank: the map and the buffer with the tensor.
    TensorMap(&'a TensorMapDesc, &'a Buffer),
}

/// The blocks of a cluster along each axis, if the kernel runs on the grid.
pub(super) fn check_grid(ir: &KernelIr, grid: Grid) -> Result<[u32; 3], RunError> {
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

/// The arguments as words, and as buffers: for each parameter both, one of them without meaning.
fn check_args<'a>(
    ir: &KernelIr,
    args: &[Arg<'a>],
    empty: &'a Buffer,
) -> Result<(Vec<u64>, Vec<&'a Buffer>), RunError> {
    if args.len() != ir.params.len() {
        let (expected, found) = (ir.params.len(), args.len());
        return Err(RunError::ArgumentCount { expected, found });
    }
    let (mut words, mut buffers) = (Vec::new(), Vec::new());
    for (param, arg) in ir.params.iter().zip(args) {
        let expected = ir.values.get(param.value).ok_or(RunError::NotVerified)?.ty;
        let (word, buffer, found) = match (expected, arg) {
            (Type::Scalar(s), Arg::Scalar(c)) if s == c.scalar() => {
                let word = if s == crate::ir::Scalar::Bool {
                    0u64.wrapping_sub(c.bits())
                } else {
                    c.bits()
                };
                (word, empty, None)
            }
            (Type::Pointer { .. }, Arg::Buffer(buffer)) => (0, *buffer, None),
            (Type::TensorMap { elem, rank, .. }, Arg::TensorMap(map, buffer))
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
            (_, Arg::Scalar(c)) => (0, empty, Some(c.scalar().to_string())),
            (_, Arg::Buffer(_)) => (0, empty, Some("a buffer".to_owned())),
            (_, Arg::TensorMap(map, _)) => (0, empty, Some(format!("a tensor map of {map}"))),
        };
        if let Some(found) = found {
            let param = param.name.clone();
            return Err(RunError::ArgumentType { param, expected, found });
        }
        words.push(word);
        buffers.push(buffer);
    }
    Ok((words, buffers))
}

/// The position of block number `number`, x fastest.
fn position(number: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}

pub(super) fn launch(
    ir: &KernelIr,
    code: &Code,
    grid: Grid,
    args: &[Arg<'_>],
    options: &Options,
) -> Result<Report, RunError> {
    let shape = Shape {
        cluster: check_grid(ir, grid)?,
        names_cluster: ir.bounds.cluster.is_some() || grid.cluster.is_some(),
        // The verifier has seen that it fits a block.
        dynamic_shared_bytes: ir.dynamic_shared_bytes() as u32,
    };
    let empty = Buffer::zeros(0);
    let (words, buffers) = check_args(ir, args, &empty)?;
    let blocks: u64 = grid.blocks.iter().map(|n| u64::from(*n)).product();

    // Blocks are handed out in order. A block above one that stopped is not started; all below it are run
    // to their end, so that the lowest one that stops is always the same.
    let (next, stopped) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        let mut block = Block::new(code, grid, shape, &words, &buffers);
        let (mut total, mut said) = (Count::default(), Said::default());
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= blocks || number > stopped.load(Relaxed) {
                return (total, said, None);
            }
            let run = block.run(position(number, grid.blocks), options.order, options.fuel);
            said.add(number, block.diagnostics());
            match run {
                Ok(count) => {
                    total.thread_ops += count.thread_ops;
                    total.warp_ops += count.warp_ops;
                }
                Err(stop) => {
                    stopped.fetch_min(number, Relaxed);
                    return (total, said, Some((number, stop)));
                }
            }
        }
    };
    let pool = rayon::current_num_threads();
    let workers = if options.threads == 0 { pool } else { options.threads.min(pool) };
    let workers = (workers as u64).min(blocks).max(1);
    let results: Vec<_> = match workers {
        1 => vec![work()],
        _ => (0..workers).into_par_iter().map(|_| work()).collect(),
    };

    let mut report = Report::default();
    let mut first: Option<(u64, Stop)> = None;
    let mut all = Said::default();
    for (count, said, stop) in results {
        all.failed += said.failed;
        all.failures.extend(said.failures);
        all.prints.extend(said.prints);
        report.thread_ops += count.thread_ops;
        report.warp_ops += count.warp_ops;
        if let Some((number, _)) = &stop
            && first.as_ref().is_none_or(|(lowest, _)| number < lowest)
        {
            first = stop;
        }
    }
    // What a block above the one that stopped has printed depends on the host.
    let last = first.as_ref().map_or(u64::MAX, |(number, _)| *number);
    all.prints.retain(|(number, _)| *number <= last);
    all.prints.sort_by_key(|(number, _)| *number);
    options.output.write(all.prints.iter().map(|(_, text)| text.as_str()));
    match first {
        None if all.failed > 0 => {
            let launch = Launch { ir, code, grid, fuel: options.fuel };
            Err(RunError::AssertFailed(Box::new(launch.failures(all))))
        }
        None => Ok(report),
        Some((number, stop)) => {
            let block = position(number, grid.blocks);
            Err(explain(&Launch { ir, code, grid, fuel: options.fuel }, block, &stop))
        }
    }
}

/// What the blocks that a thread of the host ran have said to the host, in the order of the blocks.
#[derive(Default)]
struct Said {
    /// Failed assertions, in all.
    failed: u64,
    /// Those that are kept, with the number of the block.
    failures: Vec<(u64, Failure)>,
    /// What the blocks print, with their numbers.
    prints: Vec<(u64, String)>,
}

impl Said {
    fn add(&mut self, block: u64, diagnostics: &mut Diagnostics) {
        let prints = diagnostics.take_prints();
        if !prints.is_empty() {
            self.prints.push((block, prints));
        }
        let (failed, failures) = diagnostics.take();
        self.failed += failed;
        let room = AssertFailures::RECORDED.saturating_sub(self.failures.len());
        self.failures.extend(failures.into_iter().take(room).map(|failure| (block, failure)));
    }
}

/// What a message needs to know.
struct Launch<'l> {
    ir: &'l KernelIr,
    code: &'l Code,
    grid: Grid,
    fuel: u64,
}

impl Launch<'_> {
    fn thread(&self, warp: u32, lane: u32) -> [u32; 3] {
        let number = warp * LANES as u32 + lane;
        let [x, y, _] = self.grid.threads;
        [number % x, number / x % y, number / x / y]
    }

    /// The failures of the lowest blocks and threads.
    fn failures(&self, said: Said) -> AssertFailures {
        let Said { failed, mut failures, .. } = said;
        // The sort keeps the order of the failures of a block.
        failures.sort_by_key(|(block, _)| *block);
        let sites = AssertSites::new(self.ir);
        let explained = failures.into_iter().take(AssertFailures::RECORDED).filter_map(|found| {
            let (block, Failure { thread, op, values }) = found;
            let (warp, lane) = (thread / LANES as u32, thread % LANES as u32);
            let thread = self.thread(warp, lane);
            sites.failure(op.index(), position(block, self.grid.blocks), thread, None, &values)
        });
        AssertFailures::new(&sites, "the simulator", failed, explained.collect())
    }

    /// The name of the operation of a step, and its Rust line.
    fn op(&self, step: u32) -> Option<(&'static str, Place)> {
        let op = *self.code.ops.get(step as usize)?;
        Some((self.ir.ops[op].op.name(), *self.ir.places.get(self.ir.ops[op].place)?))
    }

    fn access(&self, access: AccessAt, is_store: bool) -> MemoryAccess {
        let AccessAt { space, alloc, elem, byte, bytes, len_bytes } = access;
        let (allocation, made) = match space {
            Space::Global => {
                let name = self.ir.params.get(alloc as usize).map(|param| param.name.clone());
                (name.unwrap_or_default(), None)
            }
            Space::Const => {
                let array = ArrayId::from_index(alloc as usize);
                let place = self.ir.arrays.get(array).and_then(|a| self.ir.places.get(a.place));
                (array.to_string(), place.copied())
            }
            Space::Shared => {
                let shared = SharedId::from_index(alloc as usize);
                let place = self.ir.shared.get(shared).and_then(|s| self.ir.places.get(s.place));
                (shared.to_string(), place.copied())
            }
        };
        let element = byte.div_euclid(i128::from(elem.size_bytes()));
        MemoryAccess { is_store, space, allocation, made, elem, element, byte, bytes, len_bytes }
    }
}

/// The stop of a block in the terms of the kernel.
fn explain(launch: &Launch<'_>, block: [u32; 3], stop: &Stop) -> RunError {
    let ir = launch.ir;
    match stop {
        Stop::OutOfFuel { warp, lane, step } => {
            let Some((op, place)) = launch.op(*step) else { return RunError::NotVerified };
            let thread = launch.thread(*warp, *lane);
            RunError::OutOfFuel { fuel: launch.fuel, op, place, block, thread }
        }
        Stop::Trap { warp, step, trap } => {
            let Some(id) = launch.code.ops.get(*step as usize).copied() else {
                return RunError::NotVerified;
            };
            let Some((op, place)) = launch.op(*step) else { return RunError::NotVerified };
            let is_store = matches!(
                ir.ops[id].op,
                Op::Mem(Mem::St { .. } | Mem::StVec { .. })
                    | Op::Atomic(_)
                    | Op::Cache(Cache::Discard { .. })
            );
            let cause = match trap.cause {
                TrapCause::DivisionByZero { dividend } => FaultCause::DivisionByZero { dividend },
                TrapCause::StepNotPositive { step } => FaultCause::StepNotPositive { step },
                TrapCause::OutOfBounds(at) => {
                    FaultCause::OutOfBounds { access: launch.access(at, is_store) }
                }
                TrapCause::Misaligned(at) => {
                    FaultCause::Misaligned { access: launch.access(at, is_store) }
                }
                TrapCause::Uninitialised { access, byte } => {
                    FaultCause::Uninitialised { access: launch.access(access, is_store), byte }
                }
                TrapCause::NotSimulated => {
                    let text = if let Op::Inline(op) = &ir.ops[id].op {
                        op.ptx.text().to_owned()
                    } else {
                        String::new()
                    };
                    FaultCause::NotSimulated { text }
                }
                TrapCause::BrokenPromise { bytes, byte } => {
                    FaultCause::BrokenPromise { bytes, byte }
                }
                TrapCause::OtherBarrier { here, there } => FaultCause::OtherBarrier { here, there },
                TrapCause::NoBarrier { id } => FaultCause::NoBarrier { id },
                TrapCause::BarrierThreads { threads } => FaultCause::BarrierThreads { threads },
                TrapCause::BarrierMismatch { id, expected, found } => {
                    FaultCause::BarrierMismatch { id, expected, found }
                }
                TrapCause::BarrierDeadlock { id, threads, arrived } => {
                    FaultCause::BarrierDeadlock { id, threads, arrived }
                }
                TrapCause::Trap => FaultCause::Trap,
                TrapCause::Breakpoint => FaultCause::Breakpoint,
                TrapCause::NotAMember { members } => FaultCause::NotAMember { members },
                TrapCause::OtherMembers { members, other } => {
                    let other = launch.thread(*warp, other);
                    FaultCause::OtherMembers { members, other }
                }
                TrapCause::MissingMember { members, other, step } => {
                    let Some((op, place)) = launch.op(step) else {
                        return RunError::NotVerified;
                    };
                    let other = launch.thread(*warp, other);
                    FaultCause::MissingMember { members, other, op, place }
                }
                TrapCause::InactiveSource { source, group } => {
                    FaultCause::InactiveSource { source, group }
                }
                TrapCause::BarrierDivergence { other, step } => {
                    let Some((op, place)) = launch.op(step) else {
                        return RunError::NotVerified;
                    };
                    let other = launch.thread(*warp, other);
                    FaultCause::BarrierDivergence { other, op, place }
                }
            };
            let thread = launch.thread(*warp, trap.lane);
            let (kernel, path) = (ir.name.clone(), ir.path_of(id));
            Fault { cause, kernel, op, path, place, block, thread }.into()
        }
    }
}
