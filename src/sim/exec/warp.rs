//! The interpreter of one warp: 32 lanes in lock step, an execution mask, and a stack of open
//! constructs (`if`, `for`, `loop`).
//!
//! A construct's frame stores which lanes wait. A lane waits at the end of the construct until the
//! other lanes get there, or for its turn in the `else` arm of an `if`, or for the next iteration
//! of a loop. When no active lane is left, the innermost frame decides which of its lanes run next.
//! If all lanes of the frame wait at the end, the frame is popped and these lanes continue. `break`
//! and `continue` deactivate all active lanes and add them to the frame of the loop that they leave
//! or repeat; `return` only deactivates them.

use crate::sim::fault::raw::{Origin, StepAt, ThreadAt};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::local::LocalMemory;
use crate::sim::memory::mask::{LANE_BIT, lanes_of};
use crate::sim::program::code::{Code, Group, Inst};
use crate::sim::program::context::{ExecContext, Flight, Next, Park};
use crate::sim::program::named_barrier::Arrival;
use crate::sim::program::special::read_volatile;
use crate::sim::race::At;

/// An open construct: the `if`, `for` or `loop` at step `at`.
#[derive(Clone, Copy, Debug)]
struct Frame {
    at: u32,
    /// Lanes that wait at the end of the construct and continue after it.
    joined: u32,
    /// Lanes that will run the `else` arm of the `if` when the lanes in its first arm are done.
    other_arm: u32,
    /// Lanes that wait for the next iteration.
    again: u32,
}

/// Why a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Pause {
    /// It has executed as many operations as its turn allows.
    Quantum,
    /// It waits at the block's barrier.
    Barrier,
    /// It has arrived at a named barrier.
    Named(Arrival),
    /// It polled without success, perhaps the mbarrier at this address.
    Idle(Option<usize>),
    /// It waits, and will then execute its current operation again.
    Parked(Park),
    /// The warp waits for its warp group's `wgmma` before number `end`. Once they have been
    /// computed, the warp executes its current operation again.
    Multiply { end: u64 },
    /// All its threads have ended.
    Ended,
}

/// A warp of a block.
#[derive(Debug)]
pub(in crate::sim) struct Warp {
    pub(in crate::sim) regs: Regs,
    step: u32,
    active: u32,
    /// Lanes with a thread that has not ended.
    alive: u32,
    frames: Vec<Frame>,
    /// The rank of its block.
    block: u32,
    /// The warp's index in its block.
    number: u32,
    /// Asynchronous operations that it has started.
    pub(in crate::sim) flight: Flight,
    /// How many operations the warp executed.
    pub(in crate::sim) warp_ops: u64,
    /// How many operations the threads executed: each of the warp's operations counts once for each
    /// active lane.
    pub(in crate::sim) thread_ops: u64,
}

impl Warp {
    pub(in crate::sim) fn new(code: &Code, block: u32, number: u32) -> Warp {
        let mut regs = Regs::new(code.w, code.d);
        regs.local = LocalMemory::new(code.local.clone(), code.local_bytes);
        Warp {
            block,
            number,
            flight: Flight::new(code.w),
            regs,
            step: 0,
            active: 0,
            alive: 0,
            frames: Vec::new(),
            warp_ops: 0,
            thread_ops: 0,
        }
    }

    /// Starts the threads of `mask` at the first step.
    pub(in crate::sim) fn start(&mut self, mask: u32) {
        (self.step, self.active, self.alive) = (0, mask, mask);
        (self.warp_ops, self.thread_ops) = (0, 0);
        self.frames.clear();
        self.regs.local.reset();
        self.flight.start();
    }

    /// Returns the lanes that have not ended.
    pub(in crate::sim) fn alive(&self) -> u32 {
        self.alive
    }

    /// Returns the warp's current step.
    pub(in crate::sim) fn step(&self) -> u32 {
        self.step
    }

    /// Sets a slot of the file `w` in the active lanes.
    pub(in crate::sim) fn set_active(&mut self, slot: u32, word: u32) {
        for lane in lanes_of(self.active) {
            self.regs.w[slot as usize][lane] = word;
        }
    }

    /// Returns the lowest active lane.
    pub(in crate::sim) fn first_lane(&self) -> u32 {
        self.active.trailing_zeros()
    }

    /// Runs until the warp pauses, for about `quantum` operations at most.
    ///
    /// Recorded runs have their own copy of this code, so that others pay nothing.
    pub(in crate::sim) fn run<const RECORDED: bool>(
        &mut self,
        code: &Code,
        memory: &mut Memory<'_>,
        quantum: u64,
    ) -> Result<Pause, Box<RawFault>> {
        let end = self.warp_ops.saturating_add(quantum);
        let mut lanes = u64::from(self.active.count_ones());
        while let Some(step) = code.steps.get(self.step as usize) {
            if self.warp_ops >= end {
                return Ok(Pause::Quantum);
            }
            self.warp_ops += u64::from(step.weight);
            self.thread_ops += u64::from(step.weight) * lanes;
            if RECORDED {
                self.record(memory, &step.inst, lanes, step.weight);
            }
            match &step.inst {
                Inst::Pure(f) => {
                    f(&mut self.regs);
                    self.step += 1;
                    continue;
                }
                Inst::Memory(f) => {
                    f(&mut self.regs, memory, self.active)?;
                    self.step += 1;
                    continue;
                }
                Inst::Access(access) => {
                    if memory.races.is_some() {
                        let (block, warp) = (self.block, self.number);
                        let origin = Origin { block, warp, step: self.step };
                        memory.race_access(&mut self.regs, &access.what, origin, self.active);
                    }
                    (access.run)(&mut self.regs, memory, self.active)?;
                    self.step += 1;
                    continue;
                }
                Inst::Checked(f) => {
                    f(&mut self.regs, self.active)?;
                    self.step += 1;
                    continue;
                }
                Inst::Copy(moves) => {
                    self.regs.copy(moves, self.active);
                    self.step += 1;
                    continue;
                }
                Inst::Barrier => {
                    if self.active != self.alive {
                        return Err(self.divergence());
                    }
                    self.step += 1;
                    return Ok(Pause::Barrier);
                }
                Inst::Named(named) => {
                    if self.active != self.alive {
                        return Err(self.divergence());
                    }
                    let arrival = named.arrive(&self.regs, self.active, self.step)?;
                    self.step += 1;
                    return Ok(Pause::Named(arrival));
                }
                Inst::Act(act) => {
                    let origin = Origin { block: self.block, warp: self.number, step: self.step };
                    let mut context = ExecContext {
                        regs: &mut self.regs,
                        memory,
                        flight: &mut self.flight,
                        origin,
                        active: self.active,
                        alive: self.alive,
                    };
                    let next = act(&mut context)?;
                    if let Next::Go | Next::Idle(_) = next {
                        self.step += 1;
                        if RECORDED && !matches!(next, Next::Idle(Some(_))) {
                            memory.record(|recorder| recorder.step(origin, lanes, step.weight));
                        }
                    } else {
                        // The operation counts when it is done.
                        self.warp_ops -= u64::from(step.weight);
                        self.thread_ops -= u64::from(step.weight) * lanes;
                    }
                    match next {
                        Next::Go => continue,
                        Next::Idle(asked) => return Ok(Pause::Idle(asked)),
                        Next::Park(park) => return Ok(Pause::Parked(park)),
                        Next::Multiply { end } => return Ok(Pause::Multiply { end }),
                        Next::Diverged => return Err(self.divergence()),
                    }
                }
                Inst::Warp { members, run, orders_memory } => {
                    self.collective(*members as usize, run, memory, *orders_memory)?;
                    self.step += 1;
                    continue;
                }
                Inst::Volatile { reg, dst } => {
                    let operations = memory.operations + self.warp_ops;
                    read_volatile(&mut self.regs, memory, self.number, operations, *reg, *dst);
                    self.step += 1;
                    continue;
                }
                Inst::Sleep => {
                    self.step += 1;
                    return Ok(Pause::Idle(None));
                }
                Inst::If { cond, else_, .. } => {
                    let then = self.regs.truth(*cond) & self.active;
                    let other = self.active & !then;
                    let (joined, other_arm) = if else_.is_some() { (0, other) } else { (other, 0) };
                    self.frames.push(Frame { at: self.step, joined, other_arm, again: 0 });
                    self.active = then;
                    self.step += 1;
                }
                Inst::For(inner) => {
                    let entered = (inner.enter)(&mut self.regs, self.active)?;
                    self.regs.copy(&inner.init, self.active);
                    let joined = self.active & !entered;
                    self.frames.push(Frame { at: self.step, joined, other_arm: 0, again: 0 });
                    self.active = entered;
                    self.step += 1;
                }
                Inst::Loop { init, .. } => {
                    self.regs.copy(init, self.active);
                    self.frames.push(Frame { at: self.step, joined: 0, other_arm: 0, again: 0 });
                    self.step += 1;
                }
                Inst::Yield(moves) => {
                    self.regs.copy(moves, self.active);
                    if let Some(frame) = self.frames.last_mut() {
                        frame.joined |= self.active;
                    }
                    self.active = 0;
                }
                Inst::Continue { frame, moves } => {
                    self.regs.copy(moves, self.active);
                    if let Some(frame) = self.frames.get_mut(*frame as usize) {
                        frame.again |= self.active;
                    }
                    self.active = 0;
                }
                Inst::Break { frame, moves } => {
                    self.regs.copy(moves, self.active);
                    if let Some(frame) = self.frames.get_mut(*frame as usize) {
                        frame.joined |= self.active;
                    }
                    self.active = 0;
                }
                Inst::Return => {
                    self.alive &= !self.active;
                    self.active = 0;
                }
            }
            if self.active == 0 {
                self.resume(code);
                if self.active == 0 {
                    return Ok(Pause::Ended);
                }
            }
            lanes = u64::from(self.active.count_ones());
        }
        Ok(Pause::Ended)
    }

    /// Records a step before it is executed. An operation that may wait is recorded after it.
    fn record(&mut self, memory: &mut Memory<'_>, inst: &Inst, lanes: u64, weight: u32) {
        let origin = Origin { block: self.block, warp: self.number, step: self.step };
        memory.record(|recorder| recorder.begin(origin));
        match inst {
            Inst::Act(_) => return,
            Inst::Access(access) => {
                memory.record_access(&mut self.regs, &access.what, origin, self.active);
            }
            _ => {}
        }
        memory.record(|recorder| recorder.step(origin, lanes, weight));
    }

    /// Finds the lanes that run next, now that none is active.
    fn resume(&mut self, code: &Code) {
        while let Some(frame) = self.frames.last_mut() {
            let Some(construct) = code.steps.get(frame.at as usize) else { return };
            let end = match &construct.inst {
                Inst::If { else_, end, .. } => {
                    if let (Some(else_), true) = (*else_, frame.other_arm != 0) {
                        self.active = std::mem::take(&mut frame.other_arm);
                        self.step = else_;
                        return;
                    }
                    *end
                }
                Inst::For(inner) => {
                    if frame.again != 0 {
                        let again = std::mem::take(&mut frame.again);
                        let more = again & (inner.advance)(&mut self.regs);
                        frame.joined |= again & !more;
                        if more != 0 {
                            self.active = more;
                            self.step = frame.at + 1;
                            return;
                        }
                    }
                    inner.end
                }
                Inst::Loop { end, .. } => {
                    if frame.again != 0 {
                        self.active = std::mem::take(&mut frame.again);
                        self.step = frame.at + 1;
                        return;
                    }
                    *end
                }
                Inst::Pure(_)
                | Inst::Checked(_)
                | Inst::Memory(_)
                | Inst::Access(_)
                | Inst::Copy(_)
                | Inst::Barrier
                | Inst::Named(_)
                | Inst::Act(_)
                | Inst::Warp { .. }
                | Inst::Volatile { .. }
                | Inst::Sleep
                | Inst::Yield(_)
                | Inst::Continue { .. }
                | Inst::Break { .. }
                | Inst::Return => return,
            };
            let joined = frame.joined;
            self.frames.pop();
            if joined != 0 {
                self.active = joined;
                self.step = end;
                return;
            }
        }
    }

    /// Runs a warp operation for each group of lanes that name the same members.
    fn collective(
        &mut self,
        members: usize,
        run: &Group,
        memory: &mut Memory<'_>,
        orders_memory: bool,
    ) -> RawResult {
        let mut rest = self.active;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let masks = &self.regs.w[members];
            let mask = masks[first];
            let same = lanes_of(rest).filter(|lane| masks[*lane] == mask);
            let group = same.fold(0, |group, lane| group | LANE_BIT[lane]);
            let strangers = group & !mask;
            if strangers != 0 {
                let lane = strangers.trailing_zeros() as usize;
                return Err(RawFault::new(lane, RawCause::NotAMember { members: mask }));
            }
            let missing = mask & self.alive & !group;
            if missing != 0 {
                return Err(self.missing_member(first, mask, missing.trailing_zeros()));
            }
            run(&mut self.regs, group)?;
            if orders_memory {
                let at = At { block: self.block, warp: self.number, step: self.step };
                memory.note(|races| races.warp_sync(at, group));
            }
            rest &= !group;
        }
        Ok(())
    }

    #[cold]
    fn missing_member(&self, lane: usize, members: u32, other: u32) -> Box<RawFault> {
        let cause = if self.active >> other & 1 == 1 {
            RawCause::OtherMembers { members, other: ThreadAt(other) }
        } else {
            RawCause::MissingMember { members, other: ThreadAt(other), op: self.elsewhere(other) }
        };
        RawFault::new(lane, cause)
    }

    /// Makes the fault of a barrier that some living lanes of the warp have not reached.
    fn divergence(&self) -> Box<RawFault> {
        let other = (self.alive & !self.active).trailing_zeros();
        let cause =
            RawCause::BarrierDivergence { other: ThreadAt(other), op: self.elsewhere(other) };
        RawFault::new(self.first_lane() as usize, cause)
    }

    /// Returns the step of the construct in which an inactive lane waits.
    fn elsewhere(&self, other: u32) -> StepAt {
        // Each living inactive lane waits in exactly one frame.
        let frame = self
            .frames
            .iter()
            .rev()
            .find(|frame| (frame.joined | frame.other_arm | frame.again) >> other & 1 == 1);
        StepAt(frame.map_or(self.step, |frame| frame.at))
    }
}
