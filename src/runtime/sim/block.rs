//! One block: its warps, its shared memory, and the order in which the warps run.

use super::barrier::Barriers;
use super::buffer::Buffer;
use super::diagnostic::Diagnostics;
use super::lanes::LANES;
use super::memory::{Memory, Shared};
use super::options::Order;
use super::program::Code;
use super::special::{Position, Shape};
use super::trap::Trap;
use super::warp::{Pause, Warp};
use crate::runtime::Grid;

/// Operations that a warp runs at most before another one has its turn.
const QUANTUM: u64 = 4096;
/// The same where the order is random.
const RANDOM_QUANTUM: u64 = 32;

/// The parameters of a launch as words: for each one the bits of a scalar, zero for a pointer.
pub(super) type ParamWords = [u64];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waiting,
    /// At a numbered barrier, at this step.
    AtNamed(u32),
    Ended,
}

/// Why a block did not end.
#[derive(Debug)]
pub(super) enum Stop {
    /// A lane of a warp cannot go on, at the given step.
    Trap { warp: u32, step: u32, trap: Box<Trap> },
    /// The warps have executed as many operations as they may; `warp` is the one that ran last.
    OutOfFuel { warp: u32, lane: u32, step: u32 },
}

/// What a block executed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) thread_ops: u64,
    pub(super) warp_ops: u64,
}

/// A block that can be run again and again, each time as another block of the grid.
pub(super) struct Block<'c> {
    code: &'c Code,
    grid: Grid,
    shape: Shape,
    warps: Vec<Warp>,
    states: Vec<State>,
    barriers: Barriers,
    memory: Memory<'c>,
}

impl<'c> Block<'c> {
    pub(super) fn new(
        code: &'c Code,
        grid: Grid,
        shape: Shape,
        params: &ParamWords,
        globals: &'c [&'c Buffer],
    ) -> Block<'c> {
        let threads = grid.threads.iter().product::<u32>() as usize;
        let warps: Vec<Warp> =
            (0..threads.div_ceil(LANES)).map(|number| Warp::new(code, number as u32)).collect();
        let shared = Shared::new(code.shared_bytes, &code.shared);
        let diagnostics = Diagnostics::default();
        let arrays = &code.arrays;
        let memory = Memory { globals, shared, diagnostics, arrays, block: 0, operations: 0 };
        let states = vec![State::Ended; warps.len()];
        let mut block =
            Block { code, grid, shape, warps, states, barriers: Barriers::default(), memory };
        for warp in &mut block.warps {
            let regs = &mut warp.regs;
            for (slot, word) in &code.fill_w {
                regs.w[*slot as usize] = [*word; LANES];
            }
            for (slot, word) in &code.fill_d {
                regs.d[*slot as usize] = [*word; LANES];
            }
            for (param, word) in code.params.iter().zip(params) {
                let Some((slot, wide)) = param else { continue };
                if *wide {
                    regs.d[*slot as usize] = [*word; LANES];
                } else {
                    regs.w[*slot as usize] = [*word as u32; LANES];
                }
            }
        }
        block
    }

    /// What the threads said since the last call.
    pub(super) fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.memory.diagnostics
    }

    /// Threads of a block.
    fn threads(&self) -> u32 {
        self.grid.threads.iter().product()
    }

    /// Sets up all threads as those of block `index`.
    fn start(&mut self, index: [u32; 3]) {
        let threads = self.threads();
        for (number, warp) in self.warps.iter_mut().enumerate() {
            let first = (number * LANES) as u32;
            let shared_bytes = self.code.shared_bytes;
            let position = Position {
                grid: self.grid,
                shape: self.shape,
                block: index,
                first_thread: first,
                shared_bytes,
            };
            for (reg, slot) in &self.code.special {
                position.fill(&mut warp.regs, *reg, *slot);
            }
            let count = threads.saturating_sub(first).min(LANES as u32);
            warp.start(u32::MAX >> (LANES as u32 - count));
        }
        self.states.fill(State::Ready);
        self.memory.shared.reset();
        self.barriers.reset();
        let [[x, y, z], [nx, ny, _]] = [index, self.grid.blocks].map(|n| n.map(u64::from));
        self.memory.block = x + nx * (y + ny * z);
    }

    /// Runs block `index` to its end, for at most `fuel` operations of its warps.
    pub(super) fn run(&mut self, index: [u32; 3], order: Order, fuel: u64) -> Result<Count, Stop> {
        self.start(index);
        let mut turn = Turns::new(order, index);
        let mut used = 0u64;
        loop {
            let Some((warp, quantum)) = turn.next(&self.states) else {
                // Nobody is ready: the barrier opens when all who have not ended wait there.
                if self.states.iter().all(|state| *state == State::Ended) {
                    break;
                }
                // A warp at a numbered barrier neither ends nor comes here.
                if let Some(stop) = self.deadlock() {
                    return Err(stop);
                }
                for state in &mut self.states {
                    if *state == State::Waiting {
                        *state = State::Ready;
                    }
                }
                continue;
            };
            self.memory.diagnostics.first_thread = (warp * LANES) as u32;
            let before = self.warps[warp].warp_ops;
            self.memory.operations = used - before;
            let pause = self.warps[warp].run(self.code, &mut self.memory, quantum);
            used += self.warps[warp].warp_ops - before;
            match pause {
                Err(trap) => {
                    let step = self.warps[warp].step();
                    return Err(Stop::Trap { warp: warp as u32, step, trap });
                }
                Ok(Pause::Quantum) => {}
                Ok(Pause::Named(arrival)) => {
                    if arrival.waits {
                        self.states[warp] = State::AtNamed(arrival.step);
                    }
                    match self.barriers.take(warp, &arrival, &mut self.warps) {
                        Ok(open) => {
                            open.into_iter().for_each(|warp| self.states[warp] = State::Ready)
                        }
                        Err(trap) => {
                            let (warp, step) = (warp as u32, arrival.step);
                            return Err(Stop::Trap { warp, step, trap });
                        }
                    }
                }
                Ok(Pause::Barrier) => self.states[warp] = State::Waiting,
                Ok(Pause::Ended) => self.states[warp] = State::Ended,
            }
            if used > fuel && self.states[warp] != State::Ended {
                let current = &self.warps[warp];
                return Err(Stop::OutOfFuel {
                    warp: warp as u32,
                    lane: current.first_lane(),
                    step: current.step(),
                });
            }
        }
        let count = |f: fn(&Warp) -> u64| self.warps.iter().map(f).sum();
        Ok(Count { thread_ops: count(|warp| warp.thread_ops), warp_ops: used })
    }

    /// The first warp at a numbered barrier, now that none is ready.
    fn deadlock(&self) -> Option<Stop> {
        let mut waiting = self.states.iter().enumerate();
        let (warp, step) = waiting.find_map(|(warp, state)| match state {
            State::AtNamed(step) => Some((warp, *step)),
            State::Ready | State::Waiting | State::Ended => None,
        })?;
        let trap = Trap::new(self.warps[warp].first_lane() as usize, self.barriers.deadlock(warp)?);
        Some(Stop::Trap { warp: warp as u32, step, trap })
    }
}

/// Whose turn it is.
struct Turns {
    order: Order,
    last: usize,
    state: u64,
}

impl Turns {
    fn new(order: Order, [x, y, z]: [u32; 3]) -> Turns {
        let seed = match order {
            Order::RoundRobin => 0,
            Order::Random { seed } => seed,
        };
        // Every block has a sequence of its own.
        let mut turns = Turns { order, last: usize::MAX, state: seed };
        for word in [x, y, z] {
            turns.state = turns.random() ^ u64::from(word);
        }
        turns
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next warp that is ready and the operations that it may execute.
    fn next(&mut self, states: &[State]) -> Option<(usize, u64)> {
        let ready = |warp: &usize| states[*warp] == State::Ready;
        match self.order {
            Order::RoundRobin => {
                let from = self.last.wrapping_add(1);
                let warp = (from..states.len()).chain(0..from.min(states.len())).find(ready)?;
                self.last = warp;
                Some((warp, QUANTUM))
            }
            Order::Random { .. } => {
                let count = (0..states.len()).filter(ready).count();
                if count == 0 {
                    return None;
                }
                let chosen = self.random() % count as u64;
                let warp = (0..states.len()).filter(ready).nth(chosen as usize)?;
                Some((warp, 1 + self.random() % RANDOM_QUANTUM))
            }
        }
    }
}
