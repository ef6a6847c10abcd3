//! Explains raw faults in the terms of the kernel: names, lines, threads.

use super::error::RunError;
use super::raw::{AccessAt, TrapCause};
use super::report::{Barrier, Fault, FaultCause, MemoryAccess, StuckWarp, WarpWait};
use super::state::BarrierAt;
use crate::ir::{
    ArrayId, AsyncCopy, Cache, Entity, KernelIr, LocalId, Mbarrier, Mem, Mma, Op, Place, SharedId,
    Space,
};
use crate::launch::assert::{AssertFailures, AssertSites};
use crate::launch::grid::Grid;
use crate::sim::exec::cluster::{Stop, Why};
use crate::sim::exec::deadlock::Stuck;
use crate::sim::exec::diagnostic::Failure;
use crate::sim::exec::launch::Said;
use crate::sim::memory::lanes::LANES;
use crate::sim::memory::shared::of_cluster;
use crate::sim::program::code::Code;

/// Launch facts that a report needs.
pub(in crate::sim) struct Launch<'l> {
    pub(in crate::sim) ir: &'l KernelIr,
    pub(in crate::sim) code: &'l Code,
    pub(in crate::sim) grid: Grid,
    pub(in crate::sim) fuel: u64,
}

/// The position of block number `number`, x fastest.
fn position(number: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}

impl Launch<'_> {
    fn thread(&self, warp: u32, lane: u32) -> [u32; 3] {
        let number = warp * LANES as u32 + lane;
        let [x, y, _] = self.grid.threads;
        [number % x, number / x % y, number / x / y]
    }

    /// The failures of the lowest blocks and threads.
    pub(in crate::sim) fn failures(&self, said: Said) -> AssertFailures {
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

    /// The name of a shared allocation, and where it was made.
    fn shared(&self, alloc: u32) -> (String, Option<Place>) {
        let shared = SharedId::from_index(alloc as usize);
        let place = self.ir.shared.get(shared).and_then(|s| self.ir.places.get(s.place));
        (shared.to_string(), place.copied())
    }

    fn barrier(&self, at: BarrierAt) -> Barrier {
        let (allocation, made) = self.shared(at.alloc);
        Barrier { allocation, made, element: at.element }
    }

    fn access(&self, access: AccessAt, is_store: bool) -> MemoryAccess {
        let AccessAt { space, alloc, elem, byte, bytes, align, len_bytes } = access;
        let rank = (space == Space::SharedCluster).then(|| of_cluster(alloc).0);
        let (allocation, made) = self.allocation(space, alloc);
        let element = byte.div_euclid(i128::from(elem.size_bytes()));
        MemoryAccess {
            is_store,
            space,
            rank,
            allocation,
            made,
            elem,
            element,
            byte,
            bytes,
            align,
            len_bytes,
        }
    }

    /// The name of an allocation, and where the kernel made it.
    fn allocation(&self, space: Space, alloc: u32) -> (String, Option<Place>) {
        match space {
            Space::Global => {
                let name = self.ir.params.get(alloc as usize).map(|param| param.name.clone());
                (name.unwrap_or_default(), None)
            }
            Space::Const => {
                let array = ArrayId::from_index(alloc as usize);
                let place = self.ir.arrays.get(array).and_then(|a| self.ir.places.get(a.place));
                (array.to_string(), place.copied())
            }
            Space::Shared => self.shared(alloc),
            Space::SharedCluster => self.shared(of_cluster(alloc).1),
            Space::Local => {
                let local = LocalId::from_index(alloc as usize);
                let place = self.ir.locals.get(local).and_then(|l| self.ir.places.get(l.place));
                (local.to_string(), place.copied())
            }
            // An access knows the memory that its pointer points into.
            Space::Generic => (String::new(), None),
        }
    }
}

/// A warp of a cluster whose blocks are those of `blocks`.
fn stuck_warp(launch: &Launch<'_>, blocks: &dyn Fn(u32) -> [u32; 3], stuck: &Stuck) -> StuckWarp {
    let waits = stuck.waits.as_ref().and_then(|(step, found)| {
        let (op, place) = launch.op(*step)?;
        let id = *launch.code.ops.get(*step as usize)?;
        let cause = cause(launch, stuck.warp, (&launch.ir.ops[id].op, false), found)?;
        Some(WarpWait { op, place, cause })
    });
    StuckWarp { block: blocks(stuck.block), warp: stuck.warp, waits }
}

/// The stop of a block in the terms of the kernel. `blocks` gives the index of the block with some rank in the cluster
/// that stopped.
pub(in crate::sim) fn explain(
    launch: &Launch<'_>,
    blocks: &dyn Fn(u32) -> [u32; 3],
    stop: &Stop,
) -> RunError {
    let (ir, block) = (launch.ir, blocks(stop.block));
    let Stop { warp, step, .. } = stop;
    let Some((op, place)) = launch.op(*step) else { return RunError::NotVerified };
    match &stop.why {
        Why::OutOfFuel { lane } => {
            let thread = launch.thread(*warp, *lane);
            RunError::OutOfFuel { fuel: launch.fuel, op, place, block, thread }
        }
        Why::Trap(trap) => {
            let Some(id) = launch.code.ops.get(*step as usize).copied() else {
                return RunError::NotVerified;
            };
            let is_store = stores(&ir.ops[id].op, &trap.cause);
            let Some(cause) = cause(launch, *warp, (&ir.ops[id].op, is_store), &trap.cause) else {
                return RunError::NotVerified;
            };
            let thread = launch.thread(*warp, trap.lane);
            let (kernel, path) = (ir.name.clone(), ir.path_of(id));
            let stuck = stop.stuck.iter().map(|stuck| stuck_warp(launch, blocks, stuck)).collect();
            Fault { cause, kernel, op, path, place, block, thread, stuck }.into()
        }
    }
}

/// Returns whether the faulting operation writes.
fn stores(op: &Op, cause: &TrapCause) -> bool {
    if let TrapCause::InFlight { is_store, .. } = cause {
        return *is_store;
    }
    let (TrapCause::OutOfBounds(at) | TrapCause::Misaligned(at) | TrapCause::OrderSpace(at)) =
        cause
    else {
        return false;
    };
    match op {
        Op::Mem(Mem::St { .. } | Mem::StVec { .. })
        | Op::Atomic(_)
        | Op::Cache(Cache::Discard { .. })
        | Op::Mma(Mma::Stmatrix { .. }) => true,
        Op::Mbarrier(op) => !matches!(
            op,
            Mbarrier::MbarrierTestWait { .. }
                | Mbarrier::MbarrierTestWaitParity { .. }
                | Mbarrier::MbarrierTryWait { .. }
                | Mbarrier::MbarrierTryWaitParity { .. }
                | Mbarrier::MbarrierWait { .. }
                | Mbarrier::MbarrierWaitParity { .. }
        ),
        Op::AsyncCopy(op) => {
            let from_shared = matches!(
                op,
                AsyncCopy::CpAsyncBulkStore { .. }
                    | AsyncCopy::CpAsyncBulkTensorStore { .. }
                    | AsyncCopy::CpReduceAsyncBulkTensor { .. }
            );
            matches!(at.space, Space::Shared | Space::SharedCluster) != from_shared
        }
        Op::Const(_)
        | Op::Arith(_)
        | Op::FloatArith(_)
        | Op::IntArith(_)
        | Op::Convert(_)
        | Op::Mem(_)
        | Op::Cache(_)
        | Op::Sync(_)
        | Op::Mma(_)
        | Op::Warp(_)
        | Op::Thread(_)
        | Op::Diagnostic(_)
        | Op::Inline(_)
        | Op::Control(_) => false,
    }
}

/// The cause at an operation of warp `warp`, and whether that operation writes.
fn cause(
    launch: &Launch<'_>,
    warp: u32,
    (op, is_store): (&Op, bool),
    cause: &TrapCause,
) -> Option<FaultCause> {
    Some(match *cause {
        TrapCause::DivisionByZero { dividend } => FaultCause::DivisionByZero { dividend },
        TrapCause::StepNotPositive { step } => FaultCause::StepNotPositive { step },
        TrapCause::OutOfBounds(at) => {
            FaultCause::OutOfBounds { access: launch.access(at, is_store) }
        }
        TrapCause::Misaligned(at) => FaultCause::Misaligned { access: launch.access(at, is_store) },
        TrapCause::Uninitialised { access, byte } => {
            FaultCause::Uninitialised { access: launch.access(access, is_store), byte }
        }
        TrapCause::NotSimulated => {
            let text =
                if let Op::Inline(op) = op { op.ptx.text().to_owned() } else { String::new() };
            FaultCause::NotSimulated { text }
        }
        TrapCause::OtherSpace { expected, found, alloc } => {
            let (allocation, made) = launch.allocation(found, alloc);
            FaultCause::OtherSpace { expected, found, allocation, made }
        }
        TrapCause::OrderSpace(at) => FaultCause::OrderSpace { access: launch.access(at, is_store) },
        TrapCause::BrokenPromise { bytes, byte } => FaultCause::BrokenPromise { bytes, byte },
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
            let other = launch.thread(warp, other);
            FaultCause::OtherMembers { members, other }
        }
        TrapCause::MissingMember { members, other, step } => {
            let (op, place) = launch.op(step)?;
            let other = launch.thread(warp, other);
            FaultCause::MissingMember { members, other, op, place }
        }
        TrapCause::InactiveSource { source, group } => FaultCause::InactiveSource { source, group },
        TrapCause::BarrierDivergence { other, step } => {
            let (op, place) = launch.op(step)?;
            let other = launch.thread(warp, other);
            FaultCause::BarrierDivergence { other, op, place }
        }
        TrapCause::NotABarrier { barrier, state } => {
            FaultCause::NotABarrier { barrier: launch.barrier(barrier), state }
        }
        TrapCause::LiveBarrier { barrier } => {
            FaultCause::LiveBarrier { barrier: launch.barrier(barrier) }
        }
        TrapCause::BarrierCount { count } => FaultCause::BarrierCount { count },
        TrapCause::ArrivalsBeyond { barrier, pending, count } => {
            FaultCause::ArrivalsBeyond { barrier: launch.barrier(barrier), pending, count }
        }
        TrapCause::BytesBeyond { barrier, pending, bytes } => {
            FaultCause::BytesBeyond { barrier: launch.barrier(barrier), pending, bytes }
        }
        TrapCause::PhaseDeadlock { barrier, phase, arrivals, count, bytes } => {
            let barrier = launch.barrier(barrier);
            FaultCause::PhaseDeadlock { barrier, phase, arrivals, count, bytes }
        }
        TrapCause::BlockDeadlock { threads, arrived } => {
            FaultCause::BlockDeadlock { threads, arrived }
        }
        TrapCause::ClusterDeadlock { threads, arrived } => {
            FaultCause::ClusterDeadlock { threads, arrived }
        }
        TrapCause::ClusterBarrierOrder { arrives } => FaultCause::ClusterBarrierOrder { arrives },
        TrapCause::BoxStart { coord, elem } => FaultCause::BoxStart { coord, elem },
        TrapCause::NoClusterBlock { rank, blocks } => FaultCause::NoClusterBlock { rank, blocks },
        TrapCause::BarrierElsewhere { rank, barrier_rank } => {
            FaultCause::BarrierElsewhere { rank, barrier_rank }
        }
        TrapCause::BlockEnded { rank } => FaultCause::BlockEnded { rank },
        TrapCause::CopyBytes { bytes, limit } => FaultCause::CopyBytes { bytes, limit },
        TrapCause::AsyncAtExit => FaultCause::AsyncAtExit,
        TrapCause::PartialWarp { lanes } => FaultCause::PartialWarp { lanes },
        TrapCause::PartialWarpGroup { warps } => FaultCause::PartialWarpGroup { warps },
        TrapCause::OtherWgmma { step } => {
            let (op, place) = launch.op(step)?;
            FaultCause::OtherWgmma { op, place }
        }
        TrapCause::NotUniform { here, there } => FaultCause::NotUniform { here, there },
        TrapCause::MatrixOutOfBounds { which, address, len_bytes } => {
            FaultCause::MatrixOutOfBounds { which, address, len_bytes }
        }
        TrapCause::MatrixUninitialised { which, address } => {
            FaultCause::MatrixUninitialised { which, address }
        }
        TrapCause::AccumulatorInFlight { step } => {
            let (op, place) = launch.op(step)?;
            FaultCause::AccumulatorInFlight { op, place }
        }
        TrapCause::InFlight { access, is_store, how, step } => {
            let (op, place) = launch.op(step)?;
            FaultCause::InFlight { access: launch.access(access, is_store), how, op, place }
        }
        TrapCause::MatrixInFlight { which, address, step } => {
            let (op, place) = launch.op(step)?;
            FaultCause::MatrixInFlight { which, address, op, place }
        }
        TrapCause::NotFenced => FaultCause::NotFenced,
        TrapCause::UnfencedStore { address, block, warp } => {
            FaultCause::UnfencedStore { address, block, warp }
        }
    })
}
