//! [`Phases`]: which accesses of two threads may happen without a barrier in between.
//!
//! If all threads of a block take the same path to each barrier, they all pass the same barriers,
//! one after the other. Two accesses are ordered if one of these barriers comes after the first and
//! before the second. Only barriers count that the divergence analysis shows to be reached by all
//! threads, without looking at data. The same holds for the threads of a warp and its barriers.
//!
//! A `cp.async` is complete only when the thread that issued it has waited for its group. So an
//! access makes [`Progress`] on its way to other threads: a copy is issued, its thread commits
//! groups, then it waits until only so many groups are pending, and then it passes a barrier. A
//! thread never loses progress. Where several paths meet, the least progress counts.
//!
//! A loop whose iterations make progress keeps the threads in step: two accesses without a barrier
//! in between are in the same iteration, or a few iterations apart. For example, a copy that a wait
//! for all groups but two covers may be unordered with the reads of the next two iterations, and is
//! ordered with those after them. Other loops say nothing: one thread may be in any iteration, the
//! other one in any other.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

use super::super::ranges::constant_of;
use crate::ir::op::{AsyncCopy, Control, Op, Sync, Warp};
use crate::ir::{KernelIr, OpId, RegionId, Uniformity, Value};

/// How many committed groups are counted.
const GROUPS: u32 = 64;

/// How many iterations two unordered accesses may be apart.
const DISTANCE: u32 = 24;

/// Which threads pass barriers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Block,
    Warp,
}

/// The iteration of a loop that the second thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// So many iterations after the first thread's.
    Ahead(i32),
    /// The one with this index. The first thread is not in the loop.
    At(u32),
}

/// How far an access is on its way to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// A copy is issued, and its thread has committed so many groups since.
    Issued(u32),
    /// It is complete for its own thread.
    Complete,
    /// The thread has passed a barrier since.
    Ordered,
}

/// How the iterations of two threads may differ at two accesses without a barrier in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relation {
    /// The loops, from the outermost inwards, that keep the threads in step. All other loops are in
    /// any iteration.
    pub(super) steps: Vec<(OpId, Step)>,
    /// Whether the second access is the first thread's.
    pub(super) is_swapped: bool,
    /// Whether a thread that makes both accesses has completed one of them before the other one.
    pub(super) is_sequential: bool,
}

impl Relation {
    /// Returns whether both threads are in the same iteration of `depth` loops.
    pub(super) fn is_same(&self, depth: usize) -> bool {
        self.steps.len() == depth && self.steps.iter().all(|(_, step)| *step == Step::Ahead(0))
    }
}

/// An access: its operation, and whether it is asynchronous, as a `cp.async` makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) op: OpId,
    pub(super) is_copy: bool,
}

impl Event {
    fn start(self) -> Progress {
        if self.is_copy { Progress::Issued(0) } else { Progress::Complete }
    }
}

/// A use of a named barrier.
struct NamedBarrier {
    id: Option<i128>,
    /// Whether all threads of the block wait at it.
    is_of_block: bool,
}

impl NamedBarrier {
    fn of(ir: &KernelIr, op: OpId) -> Option<NamedBarrier> {
        let (id, threads, waits) = if let Op::Sync(
            Sync::BarrierSync { id, threads, .. }
            | Sync::BarrierRed { id, threads, .. }
            | Sync::BarrierRedPopc { id, threads, .. },
        ) = &ir.ops[op].op
        {
            (*id, *threads, true)
        } else if let Op::Sync(Sync::BarrierArrive { id, threads, .. }) = &ir.ops[op].op {
            (*id, *threads, false)
        } else {
            return None;
        };
        let [id, threads] = [id, threads].map(|value| constant_of(ir, value)?.as_int());
        let is_all = threads.is_some() && threads == threads_of_block(ir).map(i128::from);
        Some(NamedBarrier { id, is_of_block: waits && is_all })
    }
}

/// Returns how many threads a block has, if the kernel fixes its size.
fn threads_of_block(ir: &KernelIr) -> Option<u64> {
    let block = ir.bounds.block?;
    Some(block.into_iter().fold(1, |all: u64, threads| all.saturating_mul(threads.into())))
}

/// An operation in a region.
#[derive(Clone, Copy, Debug)]
struct Place {
    region: RegionId,
    index: usize,
    op: OpId,
}

/// Where a thread goes on after a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Break(OpId),
    Continue(OpId),
    /// Nowhere, while other threads go on.
    Return,
}

/// The jumps of a path, with the progress that they take along.
#[derive(Debug, Default)]
struct Jumps(Vec<(Exit, Progress)>);

impl Jumps {
    /// Takes the jumps with one of these targets, and adds their progress to `at`.
    fn join(&mut self, exits: &[Exit], at: Option<Progress>) -> Option<Progress> {
        let mut at = at;
        self.0.retain(|(exit, progress)| {
            let is_one = exits.contains(exit);
            if is_one {
                at = least(at, Some(*progress));
            }
            !is_one
        });
        at
    }
}

/// Returns the progress where two paths meet.
fn least(a: Option<Progress>, b: Option<Progress>) -> Option<Progress> {
    a.into_iter().chain(b).min()
}

/// How a path comes from one access to the other one, whose regions it leaves and enters.
#[derive(Clone, Copy, Debug)]
enum Route {
    /// On to a later operation of the same region.
    On,
    /// On to a later loop of the same region, and through so many of its iterations.
    Into(u32),
    /// So many times back to the start of the loop that both are in.
    Around(u32),
}

/// A region, and how many of its operations that change progress come before an access.
pub(super) type Slot = (RegionId, usize);

/// Two accesses of which [`Phases::relations`] are known: what comes before each of them, which is
/// first, and whether they are copies.
type Question = (Slot, Slot, Ordering, bool, bool);

pub(super) struct Phases<'k> {
    ir: &'k KernelIr,
    uniform: Uniformity,
    scope: Scope,
    /// Whether barriers count at all.
    counts: bool,
    /// The named barriers, and whether all uses of each are by all threads of the block.
    named: HashMap<i128, bool>,
    /// The index of each operation in its region.
    places: HashMap<OpId, usize>,
    /// The operations of each region that change a thread's progress or its path, with their
    /// indices.
    relevant: HashMap<RegionId, Vec<(usize, OpId)>>,
    known: RefCell<HashMap<Question, Rc<Vec<Relation>>>>,
}

impl<'k> Phases<'k> {
    pub(super) fn new(ir: &'k KernelIr, scope: Scope) -> Phases<'k> {
        let mut counts = true;
        let mut places = HashMap::new();
        let ops = ir.reached_ops();
        let mut named: HashMap<i128, bool> = HashMap::new();
        for &op in &ops {
            if let Some(barrier) = NamedBarrier::of(ir, op) {
                match barrier.id.filter(|id| *id != 0) {
                    Some(id) => *named.entry(id).or_insert(true) &= barrier.is_of_block,
                    // It may be the block's barrier 0.
                    None => counts = false,
                }
            }
        }
        for (_, region) in ir.regions.iter() {
            places.extend(region.ops.iter().enumerate().map(|(index, op)| (*op, index)));
        }
        let uniform = match scope {
            Scope::Block => Uniformity::without_data(ir),
            Scope::Warp => Uniformity::of_warps_without_data(ir),
        };
        // Without a size, nothing says which threads are a warp.
        counts &= scope == Scope::Block || ir.bounds.block.is_some();
        let (relevant, known) = (HashMap::new(), RefCell::default());
        let mut phases = Phases { ir, uniform, scope, counts, named, places, relevant, known };
        // Inner operations come before the ones around them.
        for op in ops.into_iter().rev() {
            if phases.is_relevant(op) {
                let place = (phases.places.get(&op).copied().unwrap_or(0), op);
                phases.relevant.entry(ir.ops[op].region).or_default().push(place);
            }
        }
        phases.relevant.values_mut().for_each(|all| all.sort_unstable());
        phases
    }

    /// Returns whether all threads of the scope see the same value in the same iterations.
    pub(super) fn is_uniform(&self, value: Value) -> bool {
        !self.uniform.is_divergent(value)
    }

    /// Returns the loops around a region, from the innermost outwards.
    pub(super) fn loops(&self, region: RegionId) -> Vec<OpId> {
        let mut loops = Vec::new();
        let mut region = Some(region);
        while let Some(parent) = region.and_then(|region| self.ir.regions[region].parent) {
            if self.is_loop(parent) {
                loops.push(parent);
            }
            region = Some(self.ir.ops[parent].region);
        }
        loops
    }

    fn is_loop(&self, op: OpId) -> bool {
        matches!(self.ir.ops[op].op, Op::Control(Control::For { .. } | Control::Loop { .. }))
    }

    /// Returns whether the operation changes a thread's progress or its path.
    fn is_relevant(&self, op: OpId) -> bool {
        let data = &self.ir.ops[op].op;
        if let Op::Control(control) = data {
            return match control {
                Control::Break { .. } | Control::Continue { .. } | Control::Return => true,
                Control::Yield { .. } => false,
                Control::If { .. } | Control::For { .. } | Control::Loop { .. } => {
                    control.regions().iter().any(|region| self.relevant.contains_key(region))
                }
            };
        }
        let is_group = matches!(
            data,
            Op::AsyncCopy(
                AsyncCopy::CpAsyncCommitGroup {}
                    | AsyncCopy::CpAsyncWaitGroup { .. }
                    | AsyncCopy::CpAsyncWaitAll {}
            )
        );
        is_group || self.is_barrier(op)
    }

    /// Returns whether all threads of the scope pass the operation as a barrier.
    fn is_barrier(&self, op: OpId) -> bool {
        let is_one = if let Op::Sync(Sync::Barrier {}) = self.ir.ops[op].op {
            true
        } else if let Op::Warp(Warp::BarWarp { members }) = self.ir.ops[op].op {
            let all = constant_of(self.ir, members).map(|members| members.bits());
            let is_whole = match self.scope {
                Scope::Block => threads_of_block(self.ir).is_some_and(|threads| threads <= 32),
                Scope::Warp => true,
            };
            all == Some(u32::MAX.into()) && is_whole
        } else {
            let id = NamedBarrier::of(self.ir, op).and_then(|barrier| barrier.id);
            id.is_some_and(|id| self.named.get(&id) == Some(&true))
        };
        is_one && self.counts && self.uniform.divergence_of(op).is_none()
    }

    /// Returns a thread's progress behind an operation.
    fn step(&self, op: OpId, at: Progress, jumps: &mut Jumps) -> Option<Progress> {
        let data = &self.ir.ops[op].op;
        if let Op::Control(control) = data {
            return self.control(op, control, at, jumps);
        }
        let is_complete = at >= Progress::Complete;
        let next = if let Op::AsyncCopy(AsyncCopy::CpAsyncCommitGroup {}) = data {
            match at {
                Progress::Issued(groups) => Progress::Issued((groups + 1).min(GROUPS)),
                Progress::Complete | Progress::Ordered => at,
            }
        } else if let Op::AsyncCopy(AsyncCopy::CpAsyncWaitGroup { pending }) = data {
            // The copy is in the first of the groups.
            match at {
                Progress::Issued(groups) if groups > *pending => Progress::Complete,
                Progress::Issued(_) | Progress::Complete | Progress::Ordered => at,
            }
        } else if let Op::AsyncCopy(AsyncCopy::CpAsyncWaitAll {}) = data {
            at.max(Progress::Complete)
        } else if is_complete && self.is_barrier(op) {
            Progress::Ordered
        } else {
            at
        };
        Some(next)
    }

    fn control(
        &self,
        op: OpId,
        control: &Control,
        at: Progress,
        jumps: &mut Jumps,
    ) -> Option<Progress> {
        let whole =
            |region: RegionId, jumps: &mut Jumps| self.run(region, 0, usize::MAX, Some(at), jumps);
        match control {
            Control::If { then_region, else_region, .. } => {
                let yes = whole(*then_region, jumps);
                let no = else_region.map_or(Some(at), |region| whole(region, jumps));
                least(yes, no)
            }
            // Each iteration only makes progress, and there may be none.
            Control::For { lo, hi, body, .. } => {
                whole(*body, jumps);
                let first = jumps.join(&[Exit::Continue(op)], None);
                let [lo, hi] = [lo, hi].map(|end| constant_of(self.ir, *end)?.as_int());
                let is_entered = lo.zip(hi).is_some_and(|(lo, hi)| lo < hi);
                jumps.join(&[Exit::Break(op)], if is_entered { first } else { Some(at) })
            }
            Control::Loop { body, .. } => {
                whole(*body, jumps);
                jumps.join(&[Exit::Continue(op)], None);
                jumps.join(&[Exit::Break(op)], None)
            }
            Control::Break { target, .. } => {
                jumps.0.push((Exit::Break(*target), at));
                None
            }
            Control::Continue { target, .. } => {
                jumps.0.push((Exit::Continue(*target), at));
                None
            }
            Control::Return => {
                // If all threads return, none comes to the second access.
                if self.uniform.divergence_of(op).is_some() {
                    jumps.0.push((Exit::Return, at));
                }
                None
            }
            Control::Yield { .. } => Some(at),
        }
    }

    /// Returns a thread's progress when it has gone from one index of a region to another one. None
    /// if all paths jump out of the region.
    fn run(
        &self,
        region: RegionId,
        from: usize,
        to: usize,
        at: Option<Progress>,
        jumps: &mut Jumps,
    ) -> Option<Progress> {
        let mut at = at?;
        for &(index, op) in self.relevant.get(&region).map_or(&[][..], |all| all) {
            if (from..to).contains(&index) {
                at = self.step(op, at, jumps)?;
            }
        }
        Some(at)
    }

    /// Returns the operations around `op`, from the outermost inwards, with `op` itself.
    fn path(&self, op: OpId) -> Vec<Place> {
        let mut places = Vec::new();
        let mut next = Some(op);
        while let Some(op) = next {
            let region = self.ir.ops[op].region;
            places.push(Place { region, index: self.places.get(&op).copied().unwrap_or(0), op });
            next = self.ir.regions[region].parent;
        }
        places.reverse();
        places
    }

    /// Returns which of two operations comes first in the kernel's text.
    pub(super) fn order(&self, a: OpId, b: OpId) -> Ordering {
        let (first, second) = (self.path(a), self.path(b));
        let order = first.iter().zip(&second).map(|(x, y)| x.index.cmp(&y.index));
        order.fold(Ordering::Equal, Ordering::then)
    }

    /// Returns where an access is. Two accesses in the same slot have the same relations to others.
    pub(super) fn slot(&self, op: OpId) -> Slot {
        let region = self.ir.ops[op].region;
        let index = self.places.get(&op).copied().unwrap_or(0);
        let all = self.relevant.get(&region).map_or(&[][..], |all| all);
        (region, all.partition_point(|(at, _)| *at < index))
    }

    /// Returns how the iterations of two threads may differ when one of them is at `a` and the other
    /// one at `b`, without a barrier in between. None if a barrier is always in between.
    pub(super) fn relations(&self, a: Event, b: Event) -> Rc<Vec<Relation>> {
        let order = self.order(a.op, b.op);
        let question = (self.slot(a.op), self.slot(b.op), order, a.is_copy, b.is_copy);
        if let Some(known) = self.known.borrow().get(&question) {
            return Rc::clone(known);
        }
        let (first, second) = (self.path(a.op), self.path(b.op));
        let found = Rc::new(self.compared(&first, &second, a.start(), b.start()));
        self.known.borrow_mut().insert(question, Rc::clone(&found));
        found
    }

    fn compared(
        &self,
        first: &[Place],
        second: &[Place],
        start: Progress,
        other: Progress,
    ) -> Vec<Relation> {
        let (mut found, mut same): (Vec<Relation>, Vec<(OpId, Step)>) = (Vec::new(), Vec::new());
        let relation = |steps: Vec<(OpId, Step)>, is_sequential: bool| Relation {
            steps,
            is_swapped: false,
            is_sequential,
        };
        for level in 0..first.len().min(second.len()) {
            let (x, y) = (first[level], second[level]);
            if x.region != y.region {
                // Two arms of the same `if`, of which a thread takes one.
                let parent = self.ir.regions[x.region].parent;
                let is_uniform = parent.is_some_and(|parent| {
                    matches!(&self.ir.ops[parent].op,
                        Op::Control(Control::If { cond, .. }) if self.is_uniform(*cond))
                });
                if !is_uniform {
                    found.push(relation(same, true));
                }
                return found;
            }
            if x.index != y.index {
                let is_swapped = y.index < x.index;
                let (from, to, at) =
                    if is_swapped { (second, first, other) } else { (first, second, start) };
                let inner = to[level].op;
                let count = self.unordered(|round| {
                    let route = if self.is_loop(inner) { Route::Into(round) } else { Route::On };
                    self.along(from, to, level, route, at)
                });
                let apart = |round: u32| {
                    let mut steps = same.clone();
                    steps.push((inner, Step::At(round)));
                    steps
                };
                match count {
                    Some(all) if self.is_loop(inner) => {
                        found.extend(all.into_iter().zip(0..).map(|(progress, round)| Relation {
                            is_swapped,
                            ..relation(apart(round), progress == Progress::Complete)
                        }));
                    }
                    Some(all) if all.is_empty() => {}
                    Some(_) | None => {
                        let progress = self.along(from, to, level, Route::On, at);
                        found.push(relation(same, progress >= Progress::Complete));
                    }
                }
                return found;
            }
            if !self.is_loop(x.op) {
                continue;
            }
            let later = |from: &[Place], to: &[Place], at: Progress| {
                self.unordered(|round| self.along(from, to, level, Route::Around(round + 1), at))
            };
            let (Some(ahead), Some(behind)) =
                (later(first, second, start), later(second, first, other))
            else {
                // Whichever comes first may be a copy.
                let is_sequential = [start, other] == [Progress::Complete; 2];
                found.push(relation(same, is_sequential));
                return found;
            };
            for (all, sign) in [(ahead, 1), (behind, -1)] {
                for (progress, distance) in all.into_iter().zip(1..) {
                    let mut steps = same.clone();
                    steps.push((x.op, Step::Ahead(sign * distance)));
                    found.push(relation(steps, progress == Progress::Complete));
                }
            }
            same.push((x.op, Step::Ahead(0)));
        }
        found.push(relation(same, true));
        found
    }

    /// Returns the progress in each round until the accesses are ordered. `None` if they may never
    /// be.
    fn unordered(&self, progress: impl Fn(u32) -> Progress) -> Option<Vec<Progress>> {
        let mut found = Vec::new();
        for round in 0..DISTANCE {
            match progress(round) {
                Progress::Ordered => return Some(found),
                unordered => found.push(unordered),
            }
        }
        None
    }

    /// Returns the progress of the first access when its thread comes to the second one. The paths
    /// to both part at `level`.
    ///
    /// The threads may take different paths. But both pass the barriers that count, and so the first
    /// thread takes none of the jumps that would lead around them.
    fn along(
        &self,
        from: &[Place],
        to: &[Place],
        level: usize,
        route: Route,
        start: Progress,
    ) -> Progress {
        let mut jumps = Jumps::default();
        let found = self.followed(from, to, level, route, start, &mut jumps);
        // A thread that returns makes no more progress.
        let found = found.unwrap_or(start);
        jumps.join(&[Exit::Return], Some(found)).unwrap_or(start)
    }

    fn followed(
        &self,
        from: &[Place],
        to: &[Place],
        level: usize,
        route: Route,
        start: Progress,
        jumps: &mut Jumps,
    ) -> Option<Progress> {
        let mut at = Some(start);
        for inner in (level + 1..from.len()).rev() {
            let Place { region, index, .. } = from[inner];
            at = self.run(region, index + 1, usize::MAX, at, jumps);
            // Whatever jumped behind or to the end of this loop's body is here now.
            let owner = from[inner - 1].op;
            let is_left = !matches!(route, Route::Around(_)) || inner - 1 > level;
            let exits = [Exit::Continue(owner), Exit::Break(owner)];
            at = jumps.join(if is_left { &exits } else { &exits[..1] }, at);
        }
        let Place { region, index, .. } = from[level];
        let inner = to[level].op;
        let rounds = match route {
            Route::On | Route::Into(_) => {
                at = self.run(region, index + 1, to[level].index, at, jumps);
                if let Route::Into(rounds) = route { rounds } else { 0 }
            }
            Route::Around(rounds) => rounds.saturating_sub(1),
        };
        for _ in 0..rounds {
            let body = self.ir.ops[inner].op.regions().first().copied()?;
            at = self.run(body, 0, usize::MAX, at, jumps);
            at = jumps.join(&[Exit::Continue(inner)], at);
        }
        for place in &to[level + 1..] {
            at = self.run(place.region, 0, place.index, at, jumps);
        }
        at
    }
}
