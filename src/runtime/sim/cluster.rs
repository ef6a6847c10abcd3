//! The blocks of a cluster, which run together: their warps, the order in which those run, and when
//! asynchronous operations take effect. Without clusters each block is one.
//!
//! One after the other, warps have their turn. In order, an asynchronous operation takes effect when a thread
//! waits for it, and one that a barrier is told of when no warp can go on without, so as late as can be; with a
//! random order, at any time.

use super::barrier::Barriers;
use super::block_memory::BlockMemory;
use super::buffer::Buffer;
use super::cluster_barrier;
use super::diagnostic::Diagnostics;
use super::lanes::LANES;
use super::memory::Memory;
use super::options::{Accumulation, Order};
use super::pending::Pending;
use super::program::Code;
use super::proxy::Proxies;
use super::shared::Spot;
use super::special::{Position, Shape};
use super::trap::{Trap, TrapCause};
use super::turn::Park;
use super::turns::Turns;
use super::warp::{Pause, Warp};
use super::warp_group::WarpGroup;
use crate::arch::TensorMapDesc;
use crate::runtime::Grid;

/// Turns that warps have at most while an operation is pending that a barrier is told of.
const LATEST: u32 = 256;

/// The arguments of a launch: for each parameter the bits of a scalar, a buffer, and a tensor map, two of them
/// without meaning.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    pub(super) words: Vec<u64>,
    pub(super) buffers: Vec<&'a Buffer>,
    pub(super) maps: Vec<Option<&'a TensorMapDesc>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// At the barrier of the block.
    Waiting,
    /// At a numbered barrier, at this step.
    AtNamed(u32),
    Parked(Park),
    Ended,
}

/// Why a cluster did not end.
#[derive(Debug)]
pub(super) struct Stop {
    /// The rank of the block.
    pub(super) block: u32,
    pub(super) warp: u32,
    pub(super) step: u32,
    pub(super) why: Why,
}

#[derive(Debug)]
pub(super) enum Why {
    /// A lane of the warp cannot go on.
    Trap(Box<Trap>),
    /// The warps have executed as many operations as they may; the warp is the one that ran last.
    OutOfFuel { lane: u32 },
}

/// What a cluster executed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) thread_ops: u64,
    pub(super) warp_ops: u64,
}

/// A cluster that can be run again and again, each time as another one of the grid.
pub(super) struct Cluster<'c> {
    code: &'c Code,
    grid: Grid,
    shape: Shape,
    /// Warps of a block.
    warps_of_block: usize,
    /// Those of all blocks, one block after the other.
    warps: Vec<Warp>,
    states: Vec<State>,
    /// The numbered barriers of each block.
    barriers: Vec<Barriers>,
    memory: Memory<'c>,
}

impl<'c> Cluster<'c> {
    pub(super) fn new(
        code: &'c Code,
        (grid, shape): (Grid, Shape),
        arguments: &'c Arguments<'c>,
        accumulation: Accumulation,
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
        };
        let (states, barriers) = (vec![State::Ended; warps.len()], Vec::new());
        let mut cluster =
            Cluster { code, grid, shape, warps_of_block, warps, states, barriers, memory };
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

    /// What the threads of each block said since the last call, with the number of the block.
    pub(super) fn diagnostics(&mut self) -> impl Iterator<Item = (u64, &mut Diagnostics)> {
        self.memory.blocks.iter_mut().map(|block| (block.number, &mut block.diagnostics))
    }

    /// Sets up all threads as those of cluster `number`.
    fn start(&mut self, number: u64) {
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
    }

    /// Runs cluster `number` to its end, for at most `fuel` operations of the warps of a block.
    pub(super) fn run(&mut self, number: u64, order: Order, fuel: u64) -> Result<Count, Stop> {
        self.start(number);
        let fuel = fuel.saturating_mul(self.memory.blocks.len() as u64);
        let mut turns = Turns::new(order, self.shape.block(self.grid, number, 0));
        let mut used = 0u64;
        // Turns without progress of the warps, and those since an operation took effect.
        let (mut idle, mut since) = (0, 0);
        loop {
            self.take_effect_at_random(&mut turns)?;
            let ready = |warp: &usize| self.states[*warp] == State::Ready;
            let Some((number, quantum)) = turns.next(self.states.len(), ready) else {
                if self.states.iter().all(|state| *state == State::Ended) {
                    break;
                }
                if !self.take_effect(&mut turns)? {
                    return Err(self.deadlock());
                }
                (idle, since) = (0, 0);
                continue;
            };
            let before = self.warps[number].warp_ops;
            self.memory.operations = used - before;
            let was_idle = self.turn(number, quantum)?;
            used += self.warps[number].warp_ops - before;
            if used > fuel && self.states[number] != State::Ended {
                let lane = self.warps[number].first_lane();
                return Err(self.stop(number, Why::OutOfFuel { lane }));
            }
            // Who asks again and again gets an answer.
            (idle, since) = (if was_idle { idle + 1 } else { 0 }, since + 1);
            let ready = self.states.iter().filter(|state| **state == State::Ready).count();
            if idle >= ready.max(1) || since >= LATEST {
                self.take_effect(&mut turns)?;
                (idle, since) = (0, 0);
            }
        }
        self.finish()?;
        let count = |f: fn(&Warp) -> u64| self.warps.iter().map(f).sum();
        Ok(Count { thread_ops: count(|warp| warp.thread_ops), warp_ops: used })
    }

    fn rank(&self, number: usize) -> usize {
        number / self.warps_of_block
    }

    /// The warps of a block, as numbers in the cluster.
    fn of_block(&self, rank: usize) -> std::ops::Range<usize> {
        rank * self.warps_of_block..(rank + 1) * self.warps_of_block
    }

    /// A warp has its turn. Returns whether what it asked for was not there.
    fn turn(&mut self, number: usize, quantum: u64) -> Result<bool, Stop> {
        let (rank, warp) = (self.rank(number), number % self.warps_of_block);
        (self.memory.here, self.memory.warp) = (rank, warp as u32);
        self.memory.block_mut().diagnostics.first_thread = (warp * LANES) as u32;
        let pause = self.warps[number].run(self.code, &mut self.memory, quantum);
        match pause {
            Err(trap) => return Err(self.stop(number, Why::Trap(trap))),
            Ok(Pause::Quantum) => {}
            Ok(Pause::Idle) => {
                self.wake();
                return Ok(true);
            }
            Ok(Pause::Named(arrival)) => {
                if arrival.waits {
                    self.states[number] = State::AtNamed(arrival.step);
                }
                let range = self.of_block(rank);
                let first = range.start;
                match self.barriers[rank].take(warp, &arrival, &mut self.warps[range]) {
                    Ok(open) => {
                        for warp in open {
                            self.states[first + warp] = State::Ready;
                            self.memory.learn();
                        }
                    }
                    Err(trap) => {
                        let (block, warp) = (rank as u32, warp as u32);
                        return Err(Stop { block, warp, step: arrival.step, why: Why::Trap(trap) });
                    }
                }
            }
            Ok(Pause::Barrier) => {
                self.states[number] = State::Waiting;
                self.open_barrier(rank);
            }
            Ok(Pause::Parked(park)) => self.states[number] = State::Parked(park),
            Ok(Pause::Multiply { end }) => {
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
        self.wake();
        Ok(false)
    }

    /// Opens the barrier of a block if all its warps that have not ended wait there.
    fn open_barrier(&mut self, rank: usize) {
        let range = self.of_block(rank);
        let states = &mut self.states[range];
        if states.iter().all(|state| matches!(state, State::Waiting | State::Ended)) {
            self.memory.learn();
            for state in states {
                if *state == State::Waiting {
                    *state = State::Ready;
                }
            }
        }
    }

    /// Makes warps ready for which what they wait for may have come.
    fn wake(&mut self) {
        if std::mem::take(&mut self.memory.cluster_arrival)
            && cluster_barrier::open(&mut self.warps)
        {
            self.memory.learn();
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

    /// Lets an operation take effect that a barrier is told of. Returns whether there was one.
    fn take_effect(&mut self, turns: &mut Turns) -> Result<bool, Stop> {
        let random = turns.choice();
        let found = self.memory.complete_awaited(random).map_err(|trap| self.stopped(trap))?;
        self.wake();
        Ok(found)
    }

    /// With a random order, now and then lets something asynchronous take effect.
    fn take_effect_at_random(&mut self, turns: &mut Turns) -> Result<(), Stop> {
        if !turns.are_random() {
            return Ok(());
        }
        let runnable = |rank: usize, group: usize| {
            self.memory.blocks[rank].groups[group].runnable().map(|end| (rank, group, end))
        };
        let groups = self.warps_of_block.div_ceil(WarpGroup::WARPS);
        let all =
            (0..self.memory.blocks.len()).flat_map(|rank| (0..groups).map(move |g| (rank, g)));
        let multiplies: smallvec::SmallVec<[_; 4]> =
            all.filter_map(|(rank, group)| runnable(rank, group)).collect();
        let count = multiplies.len() + self.memory.pending.len();
        if count == 0 {
            return Ok(());
        }
        let Some(random) = turns.choice() else { return Ok(()) };
        if random % 4 != 0 {
            return Ok(());
        }
        let chosen = (random / 4 % count as u64) as usize;
        if let Some((rank, group, end)) = multiplies.get(chosen) {
            return self.multiply(*rank, *group, *end);
        }
        let random = random / 4 / count as u64;
        self.memory.complete_some(random).map_err(|trap| self.stopped(trap))?;
        self.wake();
        Ok(())
    }

    /// Lets the `wgmma` of a warp group before the number `end` take effect.
    fn multiply(&mut self, rank: usize, group: usize, end: u64) -> Result<(), Stop> {
        let first = rank * self.warps_of_block + group * WarpGroup::WARPS;
        let accumulation = self.memory.accumulation;
        let block = &mut self.memory.blocks[rank];
        let warps = &mut self.warps[first..first + WarpGroup::WARPS];
        let shared = (&block.shared, self.memory.proxies.as_ref());
        let done = block.groups[group].multiply(end, shared, warps, accumulation);
        done.map_err(|trap| self.stopped(trap))
    }

    /// The end of all threads.
    fn finish(&mut self) -> Result<(), Stop> {
        let groups = self.memory.blocks.iter().flat_map(|block| &block.groups);
        if let Some(trap) = groups.into_iter().find_map(WarpGroup::partial) {
            return Err(self.stopped(trap));
        }
        self.memory.finish().map_err(|trap| self.stopped(trap))
    }

    fn stop(&self, number: usize, why: Why) -> Stop {
        let why = match why {
            Why::Trap(trap) if trap.origin.is_some() => return self.stopped(trap),
            why => why,
        };
        let (block, warp) = (self.rank(number) as u32, (number % self.warps_of_block) as u32);
        Stop { block, warp, step: self.warps[number].step(), why }
    }

    /// A trap at the operation that it names.
    fn stopped(&self, trap: Box<Trap>) -> Stop {
        let (block, warp, step) =
            trap.origin.map_or((0, 0, 0), |origin| (origin.block, origin.warp, origin.step));
        Stop { block, warp, step, why: Why::Trap(trap) }
    }

    /// Why no warp can go on: the first one that waits for what only others can bring.
    fn deadlock(&mut self) -> Stop {
        // A phase that lacks bytes only, which nothing brings any more, is more telling than one to which a
        // thread may not come because of that.
        let lacks_bytes = |number: usize, spot: Spot| {
            self.memory.blocks[self.rank(number)].shared.lacks_only_bytes(spot)
        };
        let order = |(number, state): &(usize, &State)| match state {
            State::Parked(Park::Barrier { spot, .. }) if lacks_bytes(*number, *spot) => 0,
            State::Parked(Park::Barrier { .. }) => 1,
            State::AtNamed(_) => 2,
            State::Parked(Park::WarpGroup) => 3,
            State::Parked(Park::Cluster) => 4,
            State::Waiting => 5,
            State::Ready | State::Ended => 6,
        };
        let first = self.states.iter().enumerate().min_by_key(order);
        let number = first.map_or(0, |(number, _)| number);
        let (rank, warp) = (self.rank(number), number % self.warps_of_block);
        let lane = self.warps[number].first_lane() as usize;
        let mut step = self.warps[number].step();
        let (lane, cause) = match self.states[number] {
            State::Parked(Park::Barrier { lane, spot }) => {
                (lane as usize, self.memory.blocks[rank].shared.deadlock(spot))
            }
            State::AtNamed(at) => {
                step = at;
                let cause = self.barriers[rank].deadlock(warp);
                (lane, cause.unwrap_or(TrapCause::Trap))
            }
            State::Parked(Park::WarpGroup) => {
                let group = &self.memory.blocks[rank].groups[warp / WarpGroup::WARPS];
                match group.partial() {
                    Some(trap) => return self.stopped(trap),
                    None => (lane, TrapCause::PartialWarpGroup { warps: 0 }),
                }
            }
            State::Parked(Park::Cluster) | State::Waiting | State::Ready | State::Ended => {
                (lane, cluster_barrier::deadlock(&self.warps))
            }
        };
        let (block, warp) = (rank as u32, warp as u32);
        Stop { block, warp, step, why: Why::Trap(Trap::new(lane, cause)) }
    }
}
