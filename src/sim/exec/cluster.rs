//! Runs a cluster's blocks together, and executes their asynchronous operations. In a launch
//! without clusters, each block is a cluster of its own. This is the simulator's main loop, and
//! `Cluster::run_one` is one turn of it.
//!
//! The warps run in turn, or at random. An asynchronous operation is executed as late as possible:
//! when a thread waits for the operation, or when no warp can continue and one waits at the
//! operation's mbarrier. With a random order, a `wgmma`, or a load into bytes that were written
//! before, may also be executed early.

use super::cluster_barrier;
use smallvec::SmallVec;

use super::barrier::Barriers;
use super::paced::Pace;
use super::warp::{Pause, Warp};
use super::warp_scheduler::{QUANTUM, WarpScheduler};
use crate::arch::TensorMapDesc;
use crate::ir::types::Space;
use crate::launch::grid::Grid;
use crate::sim::fault::raw::RacerAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::agent::Pending;
use crate::sim::memory::block_memory::BlockMemory;
use crate::sim::memory::buffer::GlobalBuffer;
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::diagnostics::Diagnostics;
use crate::sim::memory::mask::LANES;
use crate::sim::memory::proxy::{Proxies, ProxyView};
use crate::sim::memory::races::{Detector, Watched};
use crate::sim::memory::warp_group::WarpGroup;
use crate::sim::options::{Accumulation, Order};
use crate::sim::program::code::Code;
use crate::sim::program::context::Park;
use crate::sim::program::special::{Position, Shape};
use crate::sim::progress::Ticker;
use crate::sim::race::{At, BLOCK_BARRIER, MbarrierAddress, MissingEdge, Races};
use crate::sim::trace::timeline::BarrierKey;

/// After how many turns an operation that signals an mbarrier is executed, even if the warps could
/// continue.
const LATEST: u32 = 256;
/// How many operations a cluster may still execute after its first race.
const AFTER_RACE: u64 = 1 << 20;
/// With a random order, one in `EARLY` operations that may be executed early is executed, each time
/// a warp has run.
const EARLY: u64 = 4;

/// The arguments of a launch. For each parameter there are a scalar's bits, a buffer and a tensor
/// map, of which only the one that fits the parameter's type is used.
#[derive(Debug, Default)]
pub(in crate::sim) struct Arguments<'a> {
    pub(in crate::sim) words: Vec<u64>,
    pub(in crate::sim) buffers: Vec<&'a GlobalBuffer>,
    pub(in crate::sim) maps: Vec<Option<&'a TensorMapDesc>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum State {
    Ready,
    /// At the block's barrier.
    Waiting,
    /// At a named barrier, at this step.
    AtNamed(u32),
    Parked(Park),
    Ended,
}

/// Why a cluster stopped before its end.
#[derive(Debug)]
pub(in crate::sim) struct Stop {
    /// The block's rank.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
    pub(in crate::sim) why: Why,
    /// If no warp can continue, all warps: the likely culprit first, ended warps last.
    pub(in crate::sim) stuck: Vec<Stuck>,
    /// Further faults of the same run: races, and the fault that ended it.
    pub(in crate::sim) also: Vec<Stop>,
}

impl Stop {
    /// Returns whether one of its faults was found by the race detector.
    pub(in crate::sim) fn has_race(&self) -> bool {
        let races = |why: &Why| match why {
            Why::Fault(fault) => {
                matches!(fault.cause, RawCause::Race { .. } | RawCause::BlockNotStarted { .. })
            }
            Why::OutOfFuel { .. } => false,
        };
        races(&self.why) || self.also.iter().any(|stop| races(&stop.why))
    }
}

/// A warp that cannot continue, for the report of a deadlock.
#[derive(Debug)]
pub(in crate::sim) struct Stuck {
    /// The block's rank.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) warp: u32,
    /// At which step it waits, and for what; `None` if it has ended.
    pub(in crate::sim) waits: Option<(u32, RawCause)>,
}

#[derive(Debug)]
pub(in crate::sim) enum Why {
    /// A lane of the warp faulted.
    Fault(Box<RawFault>),
    /// The fuel is used up. The warp is the last that ran, and `steps` says where the warps were
    /// afterwards.
    OutOfFuel { lane: u32, steps: Vec<u32> },
}

/// How many operations a cluster executed, for the launch's report.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct Count {
    pub(in crate::sim) thread_ops: u64,
    pub(in crate::sim) warp_ops: u64,
}

impl Count {
    pub(in crate::sim) fn add(&mut self, other: Count) {
        self.thread_ops += other.thread_ops;
        self.warp_ops += other.warp_ops;
    }
}

/// A cluster. It can be run again and again, each time as another cluster of the grid.
pub(in crate::sim) struct Cluster<'c> {
    code: &'c Code,
    grid: Grid,
    shape: Shape,
    /// Warps in a block.
    pub(in crate::sim) warps_of_block: usize,
    /// The warps of all blocks, block after block.
    pub(in crate::sim) warps: Vec<Warp>,
    pub(in crate::sim) states: Vec<State>,
    /// For each warp, the address of the mbarrier that it polled in vain at the end of its last
    /// turn.
    pub(super) asked: Vec<Option<usize>>,
    /// For each warp, when it stopped, and how many operations it had executed by then.
    pub(in crate::sim) stopped_at: Vec<(u64, u64)>,
    /// Each block's named barriers.
    pub(in crate::sim) barriers: Vec<Barriers>,
    pub(in crate::sim) memory: Memory<'c>,
    pub(super) scheduler: WarpScheduler,
    pub(super) pace: Pace,
    /// How many operations its warps have executed.
    used: u64,
    /// How many operations the cluster had executed at its first race.
    raced_at: Option<u64>,
    /// The stop of a cluster that has used up its fuel.
    pub(super) spent: Option<Stop>,
    /// How many turns warps have had.
    runs: u64,
    /// How many turns brought no progress in a row, and how many turns there were since an
    /// operation was executed.
    idle: usize,
    since: u32,
}

impl<'c> Cluster<'c> {
    pub(in crate::sim) fn new(
        code: &'c Code,
        grid: Grid,
        shape: Shape,
        arguments: &'c Arguments<'c>,
        accumulation: Accumulation,
        watched_buffers: Option<&Watched>,
    ) -> Cluster<'c> {
        let threads = grid.threads.iter().product::<u32>() as usize;
        let (warps_of_block, blocks) = (threads.div_ceil(LANES), shape.blocks() as usize);
        let warp = |number: usize| {
            let (block, warp) = (number / warps_of_block, number % warps_of_block);
            Warp::new(code, block as u32, warp as u32)
        };
        let warps: Vec<Warp> = (0..blocks * warps_of_block).map(warp).collect();
        let watched = code.watches_proxies;
        let block = |_| BlockMemory::new(code.shared_bytes, &code.shared, watched);
        let memory = Memory {
            globals: &arguments.buffers,
            maps: &arguments.maps,
            acquired: Vec::new(),
            arrays: &code.arrays,
            blocks: (0..blocks).map(block).collect(),
            here: 0,
            warp: 0,
            proxies: watched.then(|| Proxies::new(blocks)),
            pending: Pending::default(),
            cluster_arrival: false,
            threads,
            operations: 0,
            accumulation,
            races: watched_buffers.map(|watched| {
                Detector::new(watched, shape.blocks(), threads as u32, code.shared_bytes)
            }),
            recorder: None,
        };
        let mut cluster = Cluster {
            code,
            grid,
            shape,
            warps_of_block,
            states: vec![State::Ended; warps.len()],
            asked: vec![None; warps.len()],
            stopped_at: vec![(0, 0); warps.len()],
            warps,
            barriers: Vec::new(),
            memory,
            scheduler: WarpScheduler::new(Order::RoundRobin, QUANTUM, [0; 3]),
            pace: Pace::default(),
            used: 0,
            raced_at: None,
            spent: None,
            runs: 0,
            idle: 0,
            since: 0,
        };
        cluster.barriers.resize_with(blocks, Barriers::default);
        for warp in &mut cluster.warps {
            let regs = &mut warp.regs;
            for (slot, word) in &code.fill_w {
                regs.w[*slot as usize] = [*word; LANES];
            }
            for (slot, word) in &code.fill_d {
                regs.d[*slot as usize] = [*word; LANES];
            }
            for (param, word) in code.params.iter().zip(&arguments.words) {
                let Some((slot, wide)) = param else { continue };
                if *wide {
                    regs.d[*slot as usize] = [*word; LANES];
                } else {
                    regs.w[*slot as usize] = [*word as u32; LANES];
                }
            }
        }
        cluster
    }

    /// Returns each block's diagnostics since the last call, with the block's index.
    pub(in crate::sim) fn diagnostics(&mut self) -> impl Iterator<Item = (u64, &mut Diagnostics)> {
        self.memory.blocks.iter_mut().map(|block| (block.number, &mut block.diagnostics))
    }

    /// Resets the state, so that the next run executes cluster `number`.
    pub(in crate::sim) fn start(&mut self, number: u64, order: Order, quantum: u64) {
        let threads = self.grid.threads.iter().product::<u32>();
        for (i, warp) in self.warps.iter_mut().enumerate() {
            let rank = (i / self.warps_of_block) as u32;
            let first = (i % self.warps_of_block * LANES) as u32;
            let block = self.shape.block(self.grid, number, rank);
            let shared_bytes = self.code.shared_bytes;
            let (grid, shape) = (self.grid, self.shape);
            let position = Position { grid, shape, block, first_thread: first, shared_bytes };
            for (reg, slot) in &self.code.special {
                position.fill(&mut warp.regs, *reg, *slot);
            }
            let count = threads.saturating_sub(first).min(LANES as u32);
            warp.start(u32::MAX >> (LANES as u32 - count));
        }
        self.states.fill(State::Ready);
        self.asked.fill(None);
        self.stopped_at.fill((0, 0));
        self.scheduler = WarpScheduler::new(order, quantum, self.shape.block(self.grid, number, 0));
        self.pace = Pace::new(self.warps.len());
        (self.used, self.runs, self.idle, self.since) = (0, 0, 0, 0);
        self.barriers.iter_mut().for_each(Barriers::reset);
        let [nx, ny, _] = self.grid.blocks.map(u64::from);
        for (rank, block) in self.memory.blocks.iter_mut().enumerate() {
            let [x, y, z] = self.shape.block(self.grid, number, rank as u32).map(u64::from);
            block.start(x + nx * (y + ny * z), self.warps_of_block);
        }
        self.memory.pending.clear();
        if let Some(proxies) = &mut self.memory.proxies {
            proxies.reset();
        }
        self.memory.cluster_arrival = false;
        if let Some(detector) = &mut self.memory.races {
            detector.start(number);
        }
        self.memory.record(|recorder| recorder.start(number));
        (self.raced_at, self.spent) = (None, None);
    }

    /// Runs cluster `number` to its end, for at most `fuel` operations for each block.
    pub(in crate::sim) fn run(
        &mut self,
        number: u64,
        order: Order,
        fuel: u64,
        ticker: &Ticker<'_>,
    ) -> Result<Count, Stop> {
        self.start(number, order, QUANTUM);
        let ended = loop {
            if let Some(ended) = self.run_each(fuel) {
                break ended;
            }
            ticker.tick();
        };
        self.with_races(ended)?;
        Ok(self.count())
    }

    /// Gives each warp one turn, like [`Cluster::run_one`]. Returns the result if the cluster has
    /// ended.
    pub(in crate::sim) fn run_each(&mut self, fuel: u64) -> Option<Result<(), Stop>> {
        for _ in 0..self.warps() {
            match self.run_one(fuel) {
                Ok(true) => {}
                Ok(false) => return Some(Ok(())),
                Err(stop) => return Some(Err(stop)),
            }
        }
        None
    }

    /// Adds the races that were found to the result of a run.
    pub(in crate::sim) fn with_races(&mut self, ended: Result<(), Stop>) -> Result<(), Stop> {
        let mut races = match &mut self.memory.races {
            Some(detector) => std::mem::take(&mut detector.found),
            None => return ended,
        };
        if let Err(stop) = &ended {
            self.widen_races(stop, &mut races);
        }
        let mut all: Vec<Stop> =
            races.into_iter().map(|race| self.stopped(Box::new(race))).collect();
        // A missing fence after reads comes last, because working kernels omit it.
        all.sort_by_key(|stop| match &stop.why {
            Why::Fault(fault) => matches!(
                fault.cause,
                RawCause::Race { missing: MissingEdge::ProxyFenceAfterRead, .. }
            ),
            Why::OutOfFuel { .. } => false,
        });
        let Some(first) = all.first() else { return ended };
        if let Err(stop) = ended
            && let Why::Fault(fault) = &stop.why
        {
            // If the racing access itself faults, that fault says more than the race, but less than
            // that its block may not be there.
            let at = |stop: &Stop| (stop.block, stop.warp, stop.step);
            let raced = !matches!(&first.why, Why::Fault(first) if matches!(first.cause, RawCause::BlockNotStarted { .. }));
            let same = fault.origin.is_none() && at(&stop) == at(first) && raced;
            let index = if same { 0 } else { all.len() };
            all.insert(index, stop);
        }
        let mut first = all.remove(0);
        first.also = all;
        Err(first)
    }

    /// Asks for the block's barrier if a load that raced within its warp also read shared memory
    /// that nobody has written yet. The warps that write it have not run, so their races are not
    /// known, and the warp's own barrier would not order them.
    fn widen_races(&self, stop: &Stop, races: &mut [RawFault]) {
        let Why::Fault(fault) = &stop.why else { return };
        let RawCause::Uninitialised { access, .. } = fault.cause else { return };
        if access.space != Space::Shared || self.warps_of_block == 1 {
            return;
        }
        for race in races {
            if let RawCause::Race { by: RacerAt(by), missing, .. } = &mut race.cause
                && *missing == MissingEdge::Warp
                && (by.rank, by.warp, by.step) == (stop.block, stop.warp, stop.step)
            {
                *missing = MissingEdge::Block;
            }
        }
    }

    /// Returns whether a race was found and the cluster has run on long enough to find others.
    pub(in crate::sim) fn has_raced(&mut self) -> bool {
        if self.memory.races.as_ref().is_none_or(|detector| detector.found.is_empty()) {
            return false;
        }
        let first = *self.raced_at.get_or_insert(self.used);
        self.used - first > AFTER_RACE
    }

    /// Returns how many operations were executed since the start.
    pub(in crate::sim) fn count(&self) -> Count {
        let thread_ops = self.warps.iter().map(|warp| warp.thread_ops).sum();
        Count { thread_ops, warp_ops: self.used }
    }

    /// Returns how many warps all its blocks have.
    pub(in crate::sim) fn warps(&self) -> usize {
        self.warps.len()
    }

    /// Gives one warp a turn, or executes an asynchronous operation. Returns false if there is
    /// nothing more to do.
    pub(in crate::sim) fn run_one(&mut self, fuel: u64) -> Result<bool, Stop> {
        if self.has_raced() {
            return Ok(false);
        }
        self.take_effect_early()?;
        let ready = |warp: &usize| self.states[*warp] == State::Ready;
        let Some((number, quantum)) = self.scheduler.next(self.states.len(), ready) else {
            if self.states.iter().all(|state| *state == State::Ended) {
                return self.finish().map(|()| false);
            }
            let done = match self.is_paced() {
                true => self.complete_aged(true)?,
                false => self.take_effect()?,
            };
            if !done {
                return Err(self.deadlock());
            }
            (self.idle, self.since) = (0, 0);
            return Ok(true);
        };
        let quantum = if self.spent.is_some() { 1 } else { quantum };
        let (before, step) = (self.warps[number].warp_ops, self.warps[number].step());
        self.memory.operations = self.used - before;
        self.count_round(number);
        self.asked[number] = None;
        let was_idle = self.context(number, quantum)?;
        self.used += self.warps[number].warp_ops - before;
        self.runs += 1;
        if self.states[number] != State::Ready
            && self.stopped_at[number].1 != self.warps[number].warp_ops
        {
            self.stopped_at[number] = (self.runs, self.warps[number].warp_ops);
        }
        let fuel = fuel.saturating_mul(self.memory.blocks.len() as u64);
        if self.used > fuel && self.states[number] != State::Ended {
            self.out_of_fuel(number, step)?;
        }
        // A warp that polls again and again must get an answer.
        (self.idle, self.since) = (if was_idle { self.idle + 1 } else { 0 }, self.since + 1);
        let ready = self.states.iter().filter(|state| **state == State::Ready).count();
        if !self.is_paced() && (self.idle >= ready.max(1) || self.since >= LATEST) {
            self.take_effect()?;
            (self.idle, self.since) = (0, 0);
        }
        Ok(true)
    }

    pub(in crate::sim) fn rank(&self, number: usize) -> usize {
        number / self.warps_of_block
    }

    /// Returns the warps of a block, as indices in the cluster.
    pub(in crate::sim) fn of_block(&self, rank: usize) -> std::ops::Range<usize> {
        rank * self.warps_of_block..(rank + 1) * self.warps_of_block
    }

    /// Runs a warp. Returns whether it polled without success.
    fn context(&mut self, number: usize, quantum: u64) -> Result<bool, Stop> {
        let (rank, warp) = (self.rank(number), number % self.warps_of_block);
        (self.memory.here, self.memory.warp) = (rank, warp as u32);
        self.memory.block_mut().diagnostics.first_thread = (warp * LANES) as u32;
        let warp_of_cluster = &mut self.warps[number];
        let pause = match self.memory.recorder {
            None => warp_of_cluster.run::<false>(self.code, &mut self.memory, quantum),
            Some(_) => warp_of_cluster.run::<true>(self.code, &mut self.memory, quantum),
        };
        match pause {
            Err(trap) => return Err(self.stop(number, Why::Fault(trap))),
            Ok(Pause::Quantum) => {}
            Ok(Pause::Idle(asked)) => {
                self.asked[number] = asked;
                self.record_wait(number);
                self.wake();
                return Ok(true);
            }
            Ok(Pause::Named(arrival)) => {
                let lanes = self.warps[number].alive();
                let at = At { block: rank as u32, warp: warp as u32, step: arrival.step };
                self.memory.note(|races| races.barrier_arrive(at, lanes, arrival.id));
                self.record_arrival(number, BarrierKey::Named(rank, arrival.id));
                if arrival.waits {
                    self.states[number] = State::AtNamed(arrival.step);
                }
                let range = self.of_block(rank);
                let first = range.start;
                match self.barriers[rank].take(warp, &arrival, &mut self.warps[range]) {
                    Ok(open) => {
                        let waiting = open
                            .iter()
                            .map(|warp| (*warp as u32, self.warps[first + warp].alive()));
                        if !open.is_empty() {
                            self.memory.note(|races| {
                                races.barrier_open(rank as u32, arrival.id, waiting);
                            });
                            let key = BarrierKey::Named(rank, arrival.id);
                            self.memory.record(|recorder| recorder.timeline.phase_ended(key));
                        }
                        for warp in open {
                            self.states[first + warp] = State::Ready;
                            self.memory.learn();
                        }
                    }
                    Err(trap) => {
                        let (block, warp, step) = (rank as u32, warp as u32, arrival.step);
                        let (why, stuck) = (Why::Fault(trap), Vec::new());
                        return Err(Stop { block, warp, step, why, stuck, also: Vec::new() });
                    }
                }
            }
            Ok(Pause::Barrier) => {
                self.states[number] = State::Waiting;
                let lanes = self.warps[number].alive();
                let at = At { block: rank as u32, warp: warp as u32, step: 0 };
                self.memory.note(|races| races.barrier_arrive(at, lanes, BLOCK_BARRIER));
                self.record_arrival(number, BarrierKey::Block(rank));
                self.open_barrier(rank);
            }
            Ok(Pause::Parked(park)) => self.states[number] = State::Parked(park),
            Ok(Pause::Multiply { end }) => {
                if !self.products_are_due(number) {
                    self.record_wait(number);
                    return Ok(true);
                }
                self.multiply(rank, warp / WarpGroup::WARPS, end)?;
            }
            Ok(Pause::Ended) => {
                self.states[number] = State::Ended;
                self.open_barrier(rank);
                let range = self.of_block(rank);
                self.memory.blocks[rank].ended =
                    self.states[range].iter().all(|state| *state == State::Ended);
                self.memory.cluster_arrival = true;
            }
        }
        self.record_wait(number);
        self.wake();
        Ok(false)
    }

    /// Opens a block's barrier if all its warps that have not ended wait there.
    fn open_barrier(&mut self, rank: usize) {
        let range = self.of_block(rank);
        let states = &mut self.states[range];
        if states.iter().all(|state| matches!(state, State::Waiting | State::Ended)) {
            self.memory.learn();
            let first = rank * self.warps_of_block;
            let waits = |warp: &usize| states[*warp] == State::Waiting;
            let waiting = (0..states.len()).filter(waits);
            let waiting = waiting.map(|warp| (warp as u32, self.warps[first + warp].alive()));
            self.memory.note(|races| races.barrier_open(rank as u32, BLOCK_BARRIER, waiting));
            if states.contains(&State::Waiting) {
                let key = BarrierKey::Block(rank);
                self.memory.record(|recorder| recorder.timeline.phase_ended(key));
            }
            for state in states {
                if *state == State::Waiting {
                    *state = State::Ready;
                }
            }
        }
    }

    /// Makes those warps ready again whose condition may now hold, such as the end of an mbarrier's
    /// phase.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.memory.cluster_arrival)
            && cluster_barrier::open(&mut self.warps)
        {
            self.memory.learn();
            self.memory.note(Races::cluster_open);
            let key = BarrierKey::Cluster;
            self.memory.record(|recorder| recorder.timeline.phase_ended(key));
            self.ready(0..self.states.len(), |park| matches!(park, Park::Cluster));
        }
        for rank in 0..self.memory.blocks.len() {
            let block = &mut self.memory.blocks[rank];
            let complete =
                block.groups.iter_mut().fold(false, |all, group| group.take_complete() | all);
            if block.shared.take_phase_ended() {
                self.memory.learn();
                self.ready(self.of_block(rank), |park| matches!(park, Park::Barrier { .. }));
            }
            if complete {
                self.ready(self.of_block(rank), |park| matches!(park, Park::WarpGroup));
            }
        }
    }

    fn ready(&mut self, warps: std::ops::Range<usize>, holds: impl Fn(Park) -> bool) {
        for state in &mut self.states[warps] {
            if let State::Parked(park) = *state
                && holds(park)
            {
                *state = State::Ready;
            }
        }
    }

    /// Executes an operation that signals an mbarrier on which a warp waits or polls, or if there
    /// is none, an operation that signals any mbarrier. Returns false if there is no such
    /// operation.
    fn take_effect(&mut self) -> Result<bool, Stop> {
        let random =
            self.scheduler.choice().filter(|random| random % 2 == 0).map(|random| random / 2);
        let awaited = |number: usize| -> Option<MbarrierAddress> {
            let byte = match self.states[number] {
                State::Parked(Park::Barrier { byte_address, .. }) => byte_address.at,
                _ => self.asked[number]?,
            };
            Some(MbarrierAddress { rank: self.rank(number), byte })
        };
        let barriers: SmallVec<[_; 16]> = (0..self.states.len()).filter_map(awaited).collect();
        let mut found = self.memory.complete_awaited(&barriers, random);
        if matches!(found, Ok(false)) {
            found = self.memory.complete_any(random);
        }
        let found = found.map_err(|trap| self.stopped(trap))?;
        self.wake();
        Ok(found)
    }

    /// Executes asynchronous operations before a warp waits for them: at random, or always,
    /// depending on the order.
    fn take_effect_early(&mut self) -> Result<(), Stop> {
        match self.scheduler.order() {
            Order::RoundRobin | Order::Reverse | Order::Fine => return Ok(()),
            Order::Paced => return self.complete_aged(false).map(|_| ()),
            Order::Random { .. } => {
                let scheduler = &mut self.scheduler;
                let chooses = || scheduler.is_chosen(EARLY);
                let done = self.memory.complete_again(chooses);
                done.map_err(|trap| self.stopped(trap))?;
                self.wake();
            }
            Order::Eager => while self.take_effect()? {},
        }
        for rank in 0..self.memory.blocks.len() {
            for group in 0..self.memory.blocks[rank].groups.len() {
                if let Some(end) = self.memory.blocks[rank].groups[group].runnable()
                    && self.scheduler.is_chosen(EARLY)
                {
                    self.multiply(rank, group, end)?;
                }
            }
        }
        Ok(())
    }

    /// Computes a warp group's `wgmma` before number `end`.
    fn multiply(&mut self, rank: usize, group: usize, end: u64) -> Result<(), Stop> {
        let first = rank * self.warps_of_block + group * WarpGroup::WARPS;
        let accumulation = self.memory.accumulation;
        let block = &mut self.memory.blocks[rank];
        let warps = self.warps[first..first + WarpGroup::WARPS].iter_mut();
        let mut regs: SmallVec<[_; WarpGroup::WARPS]> = warps.map(|warp| &mut warp.regs).collect();
        let memory = ProxyView { shared: &block.shared, proxies: self.memory.proxies.as_ref() };
        let done = block.groups[group].multiply(end, memory, &mut regs, accumulation);
        drop(regs);
        self.memory.record(|recorder| recorder.timeline.multiplied(rank, group, end));
        done.map_err(|trap| self.stopped(trap))
    }

    /// Called when all threads have ended. Returns a fault if an operation of a warp group is
    /// incomplete, or if an asynchronous operation may still access shared memory.
    fn finish(&mut self) -> Result<(), Stop> {
        let groups = self.memory.blocks.iter().flat_map(|block| &block.groups);
        if let Some(trap) = groups.into_iter().find_map(WarpGroup::partial) {
            return Err(self.stopped(trap));
        }
        self.memory.finish().map_err(|trap| self.stopped(trap))
    }

    pub(super) fn stop(&self, number: usize, why: Why) -> Stop {
        let rank = self.rank(number);
        let why = match why {
            Why::Fault(trap) if trap.origin.is_some() => return self.stopped(trap),
            Why::Fault(mut trap) => {
                trap.cause = self.memory.explain_read(rank, trap.cause);
                Why::Fault(trap)
            }
            why @ Why::OutOfFuel { .. } => why,
        };
        let (block, warp) = (rank as u32, (number % self.warps_of_block) as u32);
        Stop {
            block,
            warp,
            step: self.warps[number].step(),
            why,
            stuck: Vec::new(),
            also: Vec::new(),
        }
    }

    /// Makes the [`Stop`] of a fault that names its own operation, for example an asynchronous copy
    /// that faults when it is executed.
    pub(in crate::sim) fn stopped(&self, mut trap: Box<RawFault>) -> Stop {
        let (block, warp, step) =
            trap.origin.map_or((0, 0, 0), |origin| (origin.block, origin.warp, origin.step));
        trap.cause = self.memory.explain_read(block as usize, trap.cause);
        Stop { block, warp, step, why: Why::Fault(trap), stuck: Vec::new(), also: Vec::new() }
    }
}
