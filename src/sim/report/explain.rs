//! Explains raw faults in the kernel's terms: names, Rust lines, threads. Each failed launch comes
//! here once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::ir::op::{AsyncCopy, Effect, Mbarrier, Mma, Op};
use crate::ir::types::Space;
use crate::ir::{ArrayId, Entity, GlobalId, KernelIr, LocalId, OpId, SharedId, SourceLocation};
use crate::launch::assert::{AssertFailures, AssertSites};
use crate::launch::grid::Grid;
use crate::sim::exec::cluster::{Stop, Stuck, Why};
use crate::sim::fault::cause::{FaultCause, Names};
use crate::sim::fault::error::RunError;
use crate::sim::fault::raw::{
    AccessAt, AllocationAt, BarrierAt, InlineText, RacerAt, StepAt, ThreadAt,
};
use crate::sim::fault::report::{Fault, StuckWarp, WarpWait};
use crate::sim::fault::source::{
    Barrier, HotLine, MemoryAccess, RacingAccess, SourceAllocation, SourceOp,
};
use crate::sim::launch::global_name;
use crate::sim::memory::diagnostics::Failure;
use crate::sim::memory::mask::LANES;
use crate::sim::memory::shared::of_cluster;
use crate::sim::options::Order;
use crate::sim::program::code::Code;
use crate::sim::program::special::Shape;
use crate::sim::race::Party;
use crate::sim::report::block_output::BlockOutput;
use crate::sim::stream_order::{Earlier, NameRacer};
use crate::sorting::{sort, sort_by_key};

/// What a report needs to know of its launch.
pub(in crate::sim) struct Launch<'l> {
    pub(in crate::sim) ir: &'l KernelIr,
    pub(in crate::sim) code: &'l Code,
    pub(in crate::sim) grid: Grid,
    pub(in crate::sim) fuel: u64,
    pub(in crate::sim) order: Order,
    pub(in crate::sim) shape: Shape,
    /// The earlier launches of its stream that may still run, the most recent first.
    pub(in crate::sim) before: &'l [(Arc<Earlier>, bool)],
}

/// Returns the position of block `number`, x fastest.
fn position(number: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}

/// Returns the thread of a lane.
fn thread_of(grid: Grid, warp: u32, lane: u32) -> [u32; 3] {
    let number = warp * LANES as u32 + lane;
    let [x, y, _] = grid.threads;
    [number % x, number / x % y, number / x / y]
}

impl Launch<'_> {
    fn thread(&self, warp: u32, lane: u32) -> [u32; 3] {
        thread_of(self.grid, warp, lane)
    }

    /// Returns a function that names this launch's accesses for later launches.
    pub(in crate::sim) fn racers(&self) -> NameRacer {
        let ops: Vec<_> = (0..self.code.ops.len()).map(|step| self.op(step as u32)).collect();
        let (kernel, grid, shape) = (self.ir.name.clone(), self.grid, self.shape);
        Box::new(move |party| {
            let op = ops.get(party.step as usize).copied().flatten()?;
            Some(racer(party, op, grid, shape, Some(kernel.clone())))
        })
    }

    /// Returns the failures of the lowest blocks and threads.
    pub(in crate::sim) fn failures(&self, output: BlockOutput) -> AssertFailures {
        let BlockOutput { failed, mut failures, .. } = output;
        // The sort is stable, so a block's failures keep their order.
        sort_by_key(&mut failures, |(block, _)| *block);
        let sites = AssertSites::new(self.ir, self.ir);
        let explained = failures.into_iter().take(AssertFailures::RECORDED).filter_map(|found| {
            let (block, Failure { thread, op, values, element }) = found;
            let (warp, lane) = (thread / LANES as u32, thread % LANES as u32);
            let thread = self.thread(warp, lane);
            sites.failure(op.index(), position(block, self.grid.blocks), thread, element, &values)
        });
        AssertFailures::new(&sites, "the simulator", failed, explained.collect())
    }

    /// Returns the operation of a step: its name and its Rust line.
    pub(super) fn op(&self, step: u32) -> Option<SourceOp> {
        let op = *self.code.ops.get(step as usize)?;
        let location = *self.ir.locations.get(self.ir.ops[op].location)?;
        Some(SourceOp { name: self.ir.ops[op].op.name(), location })
    }

    /// Returns the name of a shared allocation and where it was made.
    pub(super) fn shared(&self, alloc: u32) -> (String, Option<SourceLocation>) {
        let shared = SharedId::from_index(alloc as usize);
        let location = self.ir.shared.get(shared).and_then(|s| self.ir.locations.get(s.location));
        (shared.to_string(), location.copied())
    }

    /// Returns the name of an allocation and where the kernel made it.
    fn allocation(&self, space: Space, alloc: u32) -> (String, Option<SourceLocation>) {
        match space {
            Space::Global => {
                let name = global_name(self.ir, alloc as usize).unwrap_or_default();
                let global = (alloc as usize).checked_sub(self.ir.params.len());
                let global = global.and_then(|i| self.ir.globals.get(GlobalId::from_index(i)));
                (name, global.and_then(|g| self.ir.locations.get(g.location)).copied())
            }
            Space::Const => {
                let array = ArrayId::from_index(alloc as usize);
                let location =
                    self.ir.arrays.get(array).and_then(|a| self.ir.locations.get(a.location));
                (array.to_string(), location.copied())
            }
            Space::Shared => self.shared(alloc),
            Space::SharedCluster => self.shared(of_cluster(alloc).1),
            Space::Local => {
                let local = LocalId::from_index(alloc as usize);
                let location =
                    self.ir.locals.get(local).and_then(|l| self.ir.locations.get(l.location));
                (local.to_string(), location.copied())
            }
            // An access knows which memory its pointer points into.
            Space::Generic => (String::new(), None),
        }
    }
}

/// The operation at which a warp found a cause.
struct Site<'s> {
    launch: &'s Launch<'s>,
    warp: u32,
    op: OpId,
}

impl Names for Site<'_> {
    fn access(&self, access: AccessAt) -> Option<MemoryAccess> {
        let AccessAt { is_store, space, alloc, elem, byte, bytes, align, len_bytes } = access;
        let rank = (space == Space::SharedCluster).then(|| of_cluster(alloc).0);
        let (allocation, made) = self.launch.allocation(space, alloc);
        let element = byte.div_euclid(i128::from(elem.size_bytes()));
        let is_store = is_store.unwrap_or_else(|| stores(&self.launch.ir.ops[self.op].op, space));
        Some(MemoryAccess {
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
        })
    }

    fn barrier(&self, barrier: BarrierAt) -> Option<Barrier> {
        let (allocation, made) = self.launch.shared(barrier.alloc);
        Some(Barrier { allocation, made, element: barrier.element })
    }

    fn allocation(&self, allocation: AllocationAt) -> Option<SourceAllocation> {
        let (name, made) = self.launch.allocation(allocation.space, allocation.number);
        Some(SourceAllocation { name, made })
    }

    fn thread(&self, thread: ThreadAt) -> Option<[u32; 3]> {
        Some(self.launch.thread(self.warp, thread.0))
    }

    fn op(&self, step: StepAt) -> Option<SourceOp> {
        self.launch.op(step.0)
    }

    fn racer(&self, RacerAt(party): RacerAt) -> Option<RacingAccess> {
        let Launch { grid, shape, before, .. } = *self.launch;
        match party.launch {
            Some(launch) => (before.get(launch as usize)?.0.racer)(party),
            None => Some(racer(party, self.launch.op(party.step)?, grid, shape, None)),
        }
    }

    fn text(&self, _: InlineText) -> Option<String> {
        let op = &self.launch.ir.ops[self.op].op;
        if let Op::Inline(op) = op { Some(op.ptx.text().to_owned()) } else { None }
    }
}

/// Names an access of a launch with this shape.
fn racer(
    party: Party,
    op: SourceOp,
    grid: Grid,
    shape: Shape,
    kernel: Option<String>,
) -> RacingAccess {
    RacingAccess {
        agent: party.agent,
        writes: party.writes,
        op,
        kernel,
        block: shape.block(grid, party.cluster.into(), party.rank),
        rank: shape.names_cluster.then_some(party.rank),
        warp: party.warp,
        thread: thread_of(grid, party.warp, party.lane),
    }
}

/// Describes a stuck warp. `blocks` gives the position of the block with a rank.
fn stuck_warp(launch: &Launch<'_>, blocks: &dyn Fn(u32) -> [u32; 3], stuck: &Stuck) -> StuckWarp {
    let waits = stuck.waits.as_ref().and_then(|(step, found)| {
        let SourceOp { name: op, location } = launch.op(*step)?;
        let id = *launch.code.ops.get(*step as usize)?;
        let cause = found.named(&Site { launch, warp: stuck.warp, op: id })?;
        Some(WarpWait { op, location, cause })
    });
    StuckWarp { block: blocks(stuck.block), warp: stuck.warp, waits }
}

/// Explains why a cluster stopped. `blocks` gives the position of the block with a rank in that
/// cluster.
pub(in crate::sim) fn explain(
    launch: &Launch<'_>,
    blocks: &dyn Fn(u32) -> [u32; 3],
    stop: &Stop,
) -> RunError {
    let (ir, block) = (launch.ir, blocks(stop.block));
    let Stop { warp, step, .. } = stop;
    let Some(SourceOp { name: op, location }) = launch.op(*step) else {
        return RunError::NotVerified;
    };
    match &stop.why {
        Why::OutOfFuel { lane, steps } => {
            let thread = launch.thread(*warp, *lane);
            RunError::OutOfFuel {
                fuel: launch.fuel,
                op,
                location,
                block,
                thread,
                order: launch.order,
                hot: hot_lines(launch, steps),
            }
        }
        Why::Fault(fault) => {
            let Some(id) = launch.code.ops.get(*step as usize).copied() else {
                return RunError::NotVerified;
            };
            let Some(cause) = fault.cause.named(&Site { launch, warp: *warp, op: id }) else {
                return RunError::NotVerified;
            };
            let thread = launch.thread(*warp, fault.lane);
            let (kernel, path) = (ir.name.clone(), ir.path_of(id));
            let stuck = stop.stuck.iter().map(|stuck| stuck_warp(launch, blocks, stuck)).collect();
            let cycle = launch.cycle(&stop.stuck);
            let order = launch.order;
            let also = also(launch, blocks, stop, lines(&cause, location));
            Fault { cause, kernel, op, path, location, block, thread, stuck, cycle, order, also }
                .into()
        }
    }
}

/// Returns the source lines that most of these steps belong to.
fn hot_lines(launch: &Launch<'_>, steps: &[u32]) -> Vec<HotLine> {
    let mut counts: HashMap<(&str, u32), (SourceLocation, usize)> = HashMap::new();
    for SourceOp { location, .. } in steps.iter().filter_map(|step| launch.op(*step)) {
        counts.entry((location.file, location.line)).or_insert((location, 0)).1 += 1;
    }
    let percent = |count: usize| (100 * count / steps.len()) as u32;
    let lines = counts.into_values();
    let mut lines: Vec<HotLine> =
        lines.map(|(location, count)| HotLine { location, percent: percent(count) }).collect();
    lines.retain(|line| line.percent > 0);
    sort_by_key(&mut lines, |line| (Reverse(line.percent), line.location.file, line.location.line));
    lines.truncate(3);
    lines
}

/// A race's two source lines, sorted.
type Lines = Option<[(&'static str, u32, u32); 2]>;

/// Returns the lines of a race's two accesses; the later one is at `here`.
fn lines(cause: &FaultCause, here: SourceLocation) -> Lines {
    let FaultCause::Race { other, .. } = cause else { return None };
    let key = |location: SourceLocation| (location.file, location.line, location.column);
    let mut both = [key(here), key(other.op.location)];
    sort(&mut both);
    Some(both)
}

/// Returns the stop's further faults, with one race for each pair of source lines.
fn also(
    launch: &Launch<'_>,
    blocks: &dyn Fn(u32) -> [u32; 3],
    stop: &Stop,
    first: Lines,
) -> Vec<Fault> {
    let mut seen = vec![first];
    let all = stop.also.iter().filter_map(|other| match explain(launch, blocks, other) {
        RunError::Fault(fault) => Some(*fault),
        _ => None,
    });
    let new = all.filter(|fault| {
        let lines = lines(&fault.cause, fault.location);
        let is_new = lines.is_none() || !seen.contains(&lines);
        seen.push(lines);
        is_new
    });
    new.collect()
}

/// Returns whether the faulting operation writes to the memory space.
fn stores(op: &Op, space: Space) -> bool {
    match (op, op.info()) {
        (Op::Mma(Mma::Stmatrix { .. }), _) => true,
        (Op::Mbarrier(op), _) => !matches!(
            op,
            Mbarrier::MbarrierTestWait { .. }
                | Mbarrier::MbarrierTestWaitParity { .. }
                | Mbarrier::MbarrierTryWait { .. }
                | Mbarrier::MbarrierTryWaitParity { .. }
                | Mbarrier::MbarrierWait { .. }
                | Mbarrier::MbarrierWaitParity { .. }
        ),
        (Op::AsyncCopy(op), _) => {
            let from_shared = matches!(
                op,
                AsyncCopy::CpAsyncBulkStore { .. }
                    | AsyncCopy::CpAsyncBulkTensorStore { .. }
                    | AsyncCopy::CpReduceAsyncBulkTensor { .. }
            );
            matches!(space, Space::Shared | Space::SharedCluster) != from_shared
        }
        (_, info) => info.is_some_and(|info| info.effect == Effect::Write),
    }
}
