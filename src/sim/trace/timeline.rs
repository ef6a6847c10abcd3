//! The events of one cluster, in the order in which they happen. A trace is drawn from them, and
//! the stage report is computed from them.
//!
//! Time is counted in steps. In each step a warp has at most one event, and whatever an event
//! completes belongs to the same step. Arithmetic takes no steps. So time tells the order, not a
//! number of cycles.

use std::collections::HashMap;

use super::heat::Heat;
use super::stages::{Bytes, Filler, Stages};
use crate::sim::fault::raw::Origin;
use crate::sim::race::MbarrierAddress;

/// How many events, waits, copies and arrivals a trace keeps of each kind.
const MAX: usize = 1 << 19;

/// An operation of a warp.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Event {
    pub(in crate::sim) at: u32,
    /// The warp's index in its cluster.
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
    /// How many plain operations the warp executed since its last event.
    pub(in crate::sim) plain: u32,
}

/// A barrier that threads arrive at and wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sim) enum BarrierKey {
    /// An mbarrier.
    Memory(MbarrierAddress),
    /// A block's named barrier.
    Named(usize, u32),
    /// The barrier of a whole block.
    Block(usize),
    Cluster,
    /// A warp group's `wgmma`, by block and group.
    WarpGroup(usize, usize),
}

/// What arrives at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Arriver {
    /// A warp, by its index in the cluster.
    Warp(u32),
    /// An asynchronous operation, by its index.
    Flight(u32),
}

/// A phase of a barrier.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct PhaseLog {
    pub(in crate::sim) arrivals: Vec<(u32, Arriver)>,
    /// When it ended.
    pub(in crate::sim) end: Option<u32>,
}

/// A warp's wait.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Wait {
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
    pub(in crate::sim) from: u32,
    pub(in crate::sim) to: Option<u32>,
    pub(in crate::sim) on: BarrierKey,
    /// The barrier's phase that it waits for.
    pub(in crate::sim) phase: u32,
}

/// An asynchronous operation that starts.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct AsyncOp {
    pub(in crate::sim) engine: Engine,
    pub(in crate::sim) origin: Origin,
    pub(in crate::sim) bytes: u64,
    /// The mbarrier that it signals.
    pub(in crate::sim) barrier: Option<MbarrierAddress>,
    /// The index of the group that it belongs to.
    pub(in crate::sim) group: Option<u32>,
}

/// Kinds of asynchronous operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Engine {
    Load,
    Store,
    CpAsync,
    Remote,
    Arrival,
    Wgmma,
}

/// An asynchronous operation.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Flight {
    pub(in crate::sim) engine: Engine,
    pub(in crate::sim) origin: Origin,
    pub(in crate::sim) from: u32,
    /// For a store, when it had read its source.
    pub(in crate::sim) read: Option<u32>,
    pub(in crate::sim) done: Option<u32>,
    pub(in crate::sim) bytes: u64,
    /// The mbarrier that it signals.
    pub(in crate::sim) barrier: Option<MbarrierAddress>,
    /// For `cp.async`, the block and the group.
    group: Option<(usize, u32)>,
    /// The fills that it reads.
    reads: Vec<usize>,
}

/// A cluster's timeline.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Timeline {
    /// Whether events are kept, or only stages.
    keeps: bool,
    pub(in crate::sim) truncated: bool,
    warps_of_block: usize,
    /// The current step.
    now: u32,
    /// The step of each warp's last event.
    last: Vec<u32>,
    plain: Vec<u32>,
    /// For each warp, the mbarrier that it waited for last, and its open wait.
    waited: Vec<Option<MbarrierAddress>>,
    open: Vec<Option<Wait>>,
    /// Set if the next event starts a new step.
    bump: bool,
    /// Set if the operation that is executing ends a phase.
    ends: bool,
    /// The step of the operation that is executing.
    acts_at: Option<u32>,
    pub(in crate::sim) events: Vec<Event>,
    pub(in crate::sim) waits: Vec<Wait>,
    pub(in crate::sim) flights: Vec<Flight>,
    pub(in crate::sim) barriers: HashMap<BarrierKey, Vec<PhaseLog>>,
    pub(in crate::sim) stages: Stages,
    /// For each `wgmma` in flight: block, group, its number in the group, and its index in
    /// `flights`.
    wgmma: Vec<(usize, usize, u64, usize)>,
    /// Races: both accesses, and when they were found.
    pub(in crate::sim) races: Vec<(Origin, Origin, u32)>,
    pub(in crate::sim) heat: Heat,
}

impl Timeline {
    pub(in crate::sim) fn new(warps: usize, warps_of_block: usize, keeps: bool) -> Timeline {
        Timeline {
            keeps,
            warps_of_block,
            last: vec![0; warps],
            plain: vec![0; warps],
            waited: vec![None; warps],
            open: vec![None; warps],
            ..Timeline::default()
        }
    }

    /// Returns the number of steps so far, with a few more to show waits that never end.
    pub(in crate::sim) fn end(&self) -> u32 {
        self.now + if self.open_waits().next().is_some() { 4 } else { 1 }
    }

    fn warp(&self, origin: Origin) -> usize {
        origin.block as usize * self.warps_of_block + origin.warp as usize
    }

    /// Adds to a list of the trace while there is room.
    fn keep<T>(list: &mut Vec<T>, truncated: &mut bool, keeps: bool, item: T) {
        if keeps && list.len() < MAX {
            list.push(item);
        } else {
            *truncated |= keeps;
        }
    }

    /// Returns the step of what happens now: that of the executing operation, or a new one.
    fn moment(&mut self) -> u32 {
        if let Some(at) = self.acts_at {
            return at;
        }
        (self.now, self.bump) = (self.now + 1, true);
        self.now
    }

    /// Returns the step of a warp's next event.
    fn next(&self, warp: usize) -> u32 {
        let again = self.bump || self.last[warp] == self.now;
        if again { self.now + 1 } else { self.now }
    }

    /// A warp executes a plain operation.
    pub(in crate::sim) fn plain(&mut self, origin: Origin, weight: u32) {
        let warp = self.warp(origin);
        self.plain[warp] += weight;
    }

    /// A warp starts an operation that may wait.
    pub(in crate::sim) fn begin_act(&mut self, origin: Origin) {
        self.acts_at = Some(self.next(self.warp(origin)));
    }

    /// The operation has to wait.
    pub(in crate::sim) fn leave_act(&mut self) {
        self.acts_at = None;
    }

    /// A warp executed an operation that counts as an event. Returns its step.
    pub(in crate::sim) fn event(&mut self, origin: Origin) -> u32 {
        let warp = self.warp(origin);
        let at = self.acts_at.take().unwrap_or_else(|| self.next(warp));
        if at > self.now {
            (self.now, self.bump) = (at, false);
        }
        self.bump |= std::mem::take(&mut self.ends);
        self.last[warp] = at;
        self.end_wait(warp, at);
        let plain = std::mem::take(&mut self.plain[warp]);
        let event = Event { at, warp: warp as u32, step: origin.step, plain };
        Self::keep(&mut self.events, &mut self.truncated, self.keeps, event);
        at
    }

    // Waits and barriers.

    /// A warp starts to wait at a step. Returns false if it was already waiting.
    pub(in crate::sim) fn begin_wait(&mut self, warp: usize, step: u32, on: BarrierKey) -> bool {
        if self.open[warp].is_some() {
            return false;
        }
        let phase = match on {
            BarrierKey::WarpGroup(..) => 0,
            _ => self.phases(on).len().saturating_sub(1) as u32,
        };
        let from = self.now;
        self.open[warp] = Some(Wait { warp: warp as u32, step, from, to: None, on, phase });
        true
    }

    /// A warp's wait ends.
    pub(in crate::sim) fn end_wait(&mut self, warp: usize, at: u32) {
        let Some(wait) = self.open[warp].take() else { return };
        let wait = Wait { to: Some(at), ..wait };
        Self::keep(&mut self.waits, &mut self.truncated, self.keeps, wait);
    }

    /// A warp waited successfully for a phase of an mbarrier.
    pub(in crate::sim) fn waited(&mut self, origin: Origin, barrier: MbarrierAddress) {
        let warp = self.warp(origin);
        self.waited[warp] = Some(barrier);
    }

    fn phases(&mut self, key: BarrierKey) -> &mut Vec<PhaseLog> {
        let phases = self.barriers.entry(key).or_default();
        if phases.last().is_none_or(|phase| phase.end.is_some()) {
            phases.push(PhaseLog::default());
        }
        phases
    }

    /// Something arrives at a barrier.
    pub(in crate::sim) fn arrive(&mut self, key: BarrierKey, by: Arriver) {
        if !self.keeps {
            return;
        }
        let at = self.acts_at.unwrap_or(self.now);
        if let Some(phase) = self.phases(key).last_mut()
            && !phase.arrivals.contains(&(at, by))
            && phase.arrivals.len() < MAX
        {
            phase.arrivals.push((at, by));
        }
    }

    pub(in crate::sim) fn warp_arrives(&mut self, key: BarrierKey, origin: Origin) {
        let warp = self.warp(origin) as u32;
        self.arrive(key, Arriver::Warp(warp));
    }

    /// A phase of a barrier ends.
    pub(in crate::sim) fn phase_ended(&mut self, key: BarrierKey) {
        let at = self.acts_at.unwrap_or(self.now);
        // Whoever waits for it goes on in a later step.
        match self.acts_at {
            Some(_) => self.ends = true,
            None => self.bump = true,
        }
        if let BarrierKey::Memory(barrier) = key {
            self.stages.phase_ended(barrier, at);
        }
        for warp in 0..self.open.len() {
            if self.open[warp].is_some_and(|wait| wait.on == key) {
                self.end_wait(warp, at);
            }
        }
        if self.keeps
            && let Some(phase) = self.phases(key).last_mut()
        {
            phase.end = Some(at);
        }
    }

    // Asynchronous operations.

    /// An asynchronous operation starts. It writes `writes` and reads `reads` in blocks' shared
    /// memory. Returns its index.
    pub(in crate::sim) fn take_off(
        &mut self,
        op: AsyncOp,
        writes: &[(usize, Vec<Bytes>)],
        reads: &[(usize, Bytes)],
    ) -> u32 {
        let AsyncOp { engine, origin, bytes, barrier, group } = op;
        let from = self.acts_at.unwrap_or(self.now);
        let warp = self.warp(origin);
        let group = group.map(|group| (origin.block as usize, group));
        for (block, ranges) in writes.iter().filter(|(_, ranges)| !ranges.is_empty()) {
            let filler = match (barrier, group) {
                (Some(barrier), _) => Filler::Barrier(barrier.byte),
                (None, Some((_, group))) => Filler::Group(group),
                (None, None) => continue,
            };
            self.stages.fill(*block, filler, ranges, self.waited[warp], from);
        }
        let mut fills = Vec::new();
        for (block, bytes) in reads {
            for fill in self.stages.read(*block, bytes, from) {
                if !fills.contains(&fill) {
                    fills.push(fill);
                }
            }
        }
        let (read, done) = (None, None);
        let reads = fills;
        self.flights.push(Flight {
            engine,
            origin,
            from,
            read,
            done,
            bytes,
            barrier,
            group,
            reads,
        });
        self.flights.len() as u32 - 1
    }

    /// An operation has read its source.
    pub(in crate::sim) fn has_read(&mut self, flight: u32) {
        let at = self.moment();
        if let Some(flight) = self.flights.get_mut(flight as usize) {
            flight.read = flight.read.or(Some(at));
        }
    }

    /// An operation takes effect and then signals its mbarrier.
    pub(in crate::sim) fn land(&mut self, number: u32) {
        let at = self.moment();
        let Some(flight) = self.flights.get_mut(number as usize) else { return };
        flight.done = flight.done.or(Some(at));
        self.stages.read_ended(&flight.reads, at);
        if let Some((block, group)) = flight.group {
            self.stages.group_landed(block, group, at);
        }
        if let Some(barrier) = flight.barrier {
            self.arrive(BarrierKey::Memory(barrier), Arriver::Flight(number));
        }
    }

    /// A warp reaches `wgmma` number `number` of its group. Returns whether it is the first warp of
    /// the group to do so.
    pub(in crate::sim) fn wgmma(
        &mut self,
        origin: Origin,
        group: usize,
        number: u64,
        bytes: u64,
        reads: &[(usize, Bytes)],
    ) -> bool {
        let rank = origin.block as usize;
        let key = (rank, group, number);
        if self.wgmma.iter().any(|(rank, group, number, _)| (*rank, *group, *number) == key) {
            return false;
        }
        let op = AsyncOp { engine: Engine::Wgmma, origin, bytes, barrier: None, group: None };
        let flight = self.take_off(op, &[], reads);
        self.wgmma.push((rank, group, number, flight as usize));
        true
    }

    /// A warp group's `wgmma` before number `end` take effect.
    pub(in crate::sim) fn multiplied(&mut self, rank: usize, group: usize, end: u64) {
        let due = |found: &(usize, usize, u64, usize)| {
            (found.0, found.1) == (rank, group) && found.2 < end
        };
        if !self.wgmma.iter().any(due) {
            return;
        }
        let at = self.moment();
        for warp in 0..self.open.len() {
            if self.open[warp].is_some_and(|wait| wait.on == BarrierKey::WarpGroup(rank, group)) {
                self.end_wait(warp, at);
            }
        }
        let (flights, stages) = (&mut self.flights, &mut self.stages);
        self.wgmma.retain(|found| {
            if due(found)
                && let Some(flight) = flights.get_mut(found.3)
            {
                flight.done = flight.done.or(Some(at));
                stages.read_ended(&flight.reads, at);
            }
            !due(found)
        });
    }

    /// Threads read shared memory.
    pub(in crate::sim) fn read(&mut self, rank: usize, bytes: &Bytes) {
        let at = self.acts_at.unwrap_or(self.now);
        self.stages.read(rank, bytes, at);
    }

    /// A race was found.
    pub(in crate::sim) fn raced(&mut self, by: Origin, other: Origin) {
        let at = self.acts_at.unwrap_or(self.now);
        Self::keep(&mut self.races, &mut self.truncated, self.keeps, (by, other, at));
    }

    /// Returns the waits that have not ended.
    pub(in crate::sim) fn open_waits(&self) -> impl Iterator<Item = &Wait> {
        self.open.iter().flatten()
    }
}
