//! Connects a cluster's memory with the race detector: passes each access to the detector as byte
//! ranges of shared or global memory, and turns each race that the detector finds into a fault. Of
//! several races between the same two operations it keeps the one between the threads that are
//! farthest apart.

use std::sync::{Arc, Mutex};

use super::address::Address;
use super::buffer::GlobalBuffer;
use super::cluster_memory::Memory;
use super::lanes::Regs;
use super::mask::lanes_of;
use super::shared::{ByteAddress, in_cluster, of_cluster};
use super::space::{Allocation, MemorySpace};
use super::vector_access::VectorSlots;
use crate::ir::op::{LoadAccess, LoadOrder, MemScope, StoreAccess, StoreOrder};
use crate::ir::types::{Scalar, Space};
use crate::sim::fault::raw::{AccessAt, Origin, RacerAt};
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::options::FenceAfterReads;
use crate::sim::race::{
    At, Before, Footprint, Grid, Lanes, MbarrierAddress, Overlap, Party, Race, Races, Strong,
    Target,
};

/// The part of the race detector that all clusters of a launch share: the shadow memory of the
/// buffers that the kernel can write.
#[derive(Debug)]
pub(in crate::sim) struct Watched {
    grid: Arc<Mutex<Grid>>,
    /// For each parameter, the index of its buffer among the watched ones. Buffers with a shadow
    /// come first.
    buffers: Vec<Option<usize>>,
    rules: Rules,
}

/// What counts as a race, according to the launch's options.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Rules {
    /// Whether unordered stores of equal values are a race.
    pub(in crate::sim) equal_stores: bool,
    pub(in crate::sim) fence_after_reads: FenceAfterReads,
}

impl Watched {
    /// Takes the parameters' buffers, each with whether the kernel can write it; one buffer may be
    /// passed for several parameters. `before` holds the launches that may still run, and whether a
    /// later launch may start early and compare its accesses with this one's; `None` if the launch
    /// overlaps with no other.
    pub(in crate::sim) fn new(
        params: &[(&GlobalBuffer, bool)],
        rules: Rules,
        before: Option<(Vec<Before>, bool)>,
    ) -> Watched {
        let mut found: Vec<&GlobalBuffer> = Vec::new();
        let same = |a: &GlobalBuffer, b: &GlobalBuffer| std::ptr::eq(a, b);
        let mut add = |chosen: bool| {
            for (buffer, _) in params.iter().filter(|(_, written)| *written == chosen) {
                if !found.iter().any(|other| same(other, buffer)) {
                    found.push(buffer);
                }
            }
            found.len()
        };
        let written = add(true);
        if before.is_some() {
            add(false);
        }
        let number =
            |(buffer, _): &(&GlobalBuffer, bool)| found.iter().position(|b| same(b, buffer));
        let buffers = params.iter().map(number).collect();
        let place = |buffer: &&GlobalBuffer| {
            let (uses, first) = buffer.place();
            (uses.number, first)
        };
        let overlap = before
            .map(|(before, keeps)| Overlap::new(found.iter().map(place).collect(), before, keeps));
        let lengths = found[..written].iter().map(|buffer| buffer.len_bytes());
        Watched { grid: Grid::new(lengths, overlap), buffers, rules }
    }

    /// See [`Grid::take_footprint`].
    pub(in crate::sim) fn take_footprint(&self) -> (Option<Footprint>, bool) {
        Grid::take_footprint(&self.grid)
    }
}

/// The race detector of a cluster, with the races that it has found.
#[derive(Debug)]
pub(in crate::sim) struct Detector {
    pub(in crate::sim) races: Races,
    /// For each parameter, the index of its buffer among the watched ones.
    pub(in crate::sim) buffers: Vec<Option<usize>>,
    /// Whether unordered stores of equal values are a race.
    equal_stores: bool,
    /// The cluster's races, one for each pair of operations.
    pub(in crate::sim) found: Vec<RawFault>,
}

/// How many races a cluster reports at most.
pub(in crate::sim) const MOST_RACES: usize = 32;

impl Detector {
    /// Makes a detector for clusters of `blocks` blocks, each with `threads` threads and
    /// `shared_bytes` bytes of shared memory.
    pub(in crate::sim) fn new(
        watched: &Watched,
        blocks: u32,
        threads: u32,
        shared_bytes: usize,
    ) -> Box<Detector> {
        let mut races = Races::new(Arc::clone(&watched.grid), blocks, threads, shared_bytes);
        races.fence_after_reads = watched.rules.fence_after_reads;
        Box::new(Detector {
            races,
            buffers: watched.buffers.clone(),
            equal_stores: watched.rules.equal_stores,
            found: Vec::new(),
        })
    }

    /// Starts the next cluster.
    pub(in crate::sim) fn start(&mut self, cluster: u64) {
        self.races.start(cluster);
        self.found.clear();
    }

    /// Adds a race, one for each pair of operations. Of several races between the same operations
    /// it keeps the one between the threads that are farthest apart, because a barrier that orders
    /// these two threads orders the others too.
    fn add(&mut self, race: &Race, fault: RawFault) {
        let pair = |by: &Party, other: &Party| match other.launch {
            Some(_) => (other.launch, by.step, other.step),
            None => (None, by.step.min(other.step), by.step.max(other.step)),
        };
        let new = pair(&race.by, &race.other);
        let known = self.found.iter_mut().find_map(|old| match old.cause {
            RawCause::Race { by: RacerAt(by), other: RacerAt(other), missing, .. } => {
                (pair(&by, &other) == new).then_some((old, missing))
            }
            _ => None,
        });
        if let Some((old, missing)) = known {
            if (1..race.missing.distance()).contains(&missing.distance()) {
                *old = fault;
            }
        } else if self.found.len() < MOST_RACES {
            self.found.push(fault);
        }
    }

    /// Reports an access to the shared memory of a block that may not have started, once for each
    /// operation.
    fn add_unstarted(&mut self, origin: Origin, lane: u32, rank: u32) {
        let known = self.found.iter().any(|old| {
            matches!(old.cause, RawCause::BlockNotStarted { .. })
                && old.origin.is_some_and(|old| old.step == origin.step)
        });
        if !known && self.found.len() < MOST_RACES {
            let fault = RawFault::new(lane as usize, RawCause::BlockNotStarted { rank });
            self.found.push(RawFault { origin: Some(origin), ..*fault });
        }
    }

    /// Returns the index of a parameter's buffer among the watched ones.
    pub(in crate::sim) fn buffer(&self, param: u32) -> Option<usize> {
        self.buffers.get(param as usize).copied().flatten()
    }
}

impl From<Party> for Origin {
    fn from(party: Party) -> Origin {
        Origin { block: party.rank, warp: party.warp, step: party.step }
    }
}

impl From<Origin> for At {
    fn from(Origin { block, warp, step }: Origin) -> At {
        At { block, warp, step }
    }
}

/// Which register slots hold the value that a warp stores, for the comparison of equal stores.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Stored {
    /// None: the access is a load, or the stored value depends on memory.
    None,
    /// The slot of an element, in its type's register file.
    Element(u32),
    /// The slots of a vector, and how many bytes each register has.
    Vector { slots: VectorSlots, bytes: usize },
}

impl Stored {
    /// Returns the bytes that a lane stores.
    fn bytes(self, regs: &Regs, elem: Scalar, lane: usize) -> [u8; 16] {
        let mut all = [0; 16];
        let word = |slot: u32, size: usize| match size {
            8 => regs.d[slot as usize][lane],
            _ => regs.w[slot as usize][lane].into(),
        };
        match self {
            Stored::None => {}
            Stored::Element(slot) => {
                let word = word(slot, elem.size_bytes() as usize);
                let word = if elem == Scalar::Bool { word & 1 } else { word };
                all[..8].copy_from_slice(&word.to_le_bytes());
            }
            Stored::Vector { slots: VectorSlots { count, slots }, bytes } => {
                for (part, slot) in slots.into_iter().enumerate().take(count) {
                    let word = word(slot, bytes).to_le_bytes();
                    all[part * bytes..(part + 1) * bytes].copy_from_slice(&word[..bytes]);
                }
            }
        }
        all
    }
}

/// Describes a load, store or atomic operation for the race detector.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Accessed {
    pub(in crate::sim) address: Address,
    pub(in crate::sim) writes: bool,
    /// Order and scope, if the operation is strong.
    pub(in crate::sim) strong: Option<Strong>,
    pub(in crate::sim) stored: Stored,
}

impl Accessed {
    pub(in crate::sim) fn load(address: Address, access: &LoadAccess) -> Accessed {
        let scope = match access.order {
            LoadOrder::Volatile => Some(MemScope::Sys),
            order => order.scope(),
        };
        let strong = scope.map(|scope| Strong {
            scope,
            acquires: address.strength.acquires,
            releases: false,
            reads: true,
            writes: false,
        });
        Accessed { address, writes: false, strong, stored: Stored::None }
    }

    pub(in crate::sim) fn store(
        address: Address,
        access: &StoreAccess,
        stored: Stored,
    ) -> Accessed {
        let scope = match access.order {
            StoreOrder::Volatile => Some(MemScope::Sys),
            order => order.scope(),
        };
        let strong = scope.map(|scope| Strong {
            scope,
            acquires: false,
            releases: address.strength.releases,
            reads: false,
            writes: true,
        });
        Accessed { address, writes: true, strong, stored }
    }
}

/// Returns the lanes of a store. If several lanes store to the same address, only one of these
/// lanes is kept. If two lanes store different values to one byte (or any values, if equal stores
/// race), returns these two as an error.
fn lanes_apart(
    mask: u32,
    bytes: usize,
    at: impl Fn(usize) -> usize,
    stored: impl Fn(usize) -> [u8; 16],
    equal_stores: bool,
) -> Result<u32, (usize, usize)> {
    let mut last = None;
    let mut apart = true;
    for lane in lanes_of(mask) {
        let from = at(lane);
        apart &= last.is_none_or(|end| from >= end);
        last = Some(from + bytes);
    }
    if apart {
        return Ok(mask);
    }
    let mut kept = 0;
    for lane in lanes_of(mask) {
        let mut own = true;
        for other in lanes_of(mask & ((1 << lane) - 1)) {
            let (low, high) = (at(lane).max(at(other)), at(lane).min(at(other)) + bytes);
            if low >= high {
                continue;
            }
            let part = |of: usize| stored(of)[low - at(of)..high - at(of)].to_vec();
            if equal_stores || part(lane) != part(other) {
                return Err((lane, other));
            }
            own &= at(lane) != at(other);
        }
        kept |= if own { 1 << lane } else { 0 };
    }
    Ok(kept)
}

impl Memory<'_> {
    /// Passes the accesses of the lanes in `mask` to the detector.
    #[cold]
    pub(in crate::sim) fn race_access(
        &mut self,
        regs: &mut Regs,
        accessed: &Accessed,
        origin: Origin,
        mask: u32,
    ) {
        let Some(mut detector) = self.races.take() else { return };
        let address = &accessed.address;
        // The access itself reports a bad address.
        let _fault = address.for_each_alloc(regs, mask, |regs, found, mask| {
            self.race_access_at(&mut detector, regs, accessed, origin, found, mask);
            Ok(())
        });
        self.take_races(&mut detector, address.elem);
        self.races = Some(detector);
    }

    /// Turns the current operation's races into faults about elements of type `elem`, and keeps
    /// them.
    fn take_races(&mut self, detector: &mut Detector, elem: Scalar) {
        for race in detector.races.take_found() {
            let fault = self.raced(detector, &race, elem);
            let (by, other) = (Origin::from(race.by), Origin::from(race.other));
            if race.other.launch.is_none() {
                self.record(|recorder| recorder.timeline.raced(by, other));
            }
            detector.add(&race, *fault);
        }
    }

    fn race_access_at(
        &self,
        detector: &mut Detector,
        regs: &Regs,
        accessed: &Accessed,
        origin: Origin,
        found: Allocation,
        mask: u32,
    ) {
        let (address, bytes) = (&accessed.address, accessed.address.bytes_accessed() as usize);
        let (target, start, len) = match found.memory_space {
            MemorySpace::Global => match detector.buffer(found.number) {
                Some(buffer) => (Target::Global(buffer), 0, self.buffer(found).len_bytes()),
                None => return,
            },
            MemorySpace::Shared | MemorySpace::Cluster => {
                let rank = match found.memory_space {
                    MemorySpace::Cluster => of_cluster(found.number).0 as usize,
                    _ => self.here,
                };
                let Some(block) = self.blocks.get(rank) else { return };
                let at = At::from(origin);
                if rank != self.here
                    && let Some(lane) = detector.races.unaware_of_start(at, mask, rank as u32)
                {
                    detector.add_unstarted(origin, lane, rank as u32);
                }
                let range = block.shared.range(found.number);
                (Target::Shared(rank), range.start, range.len)
            }
            MemorySpace::Const | MemorySpace::Local => return,
        };
        let offsets = address.bytes(regs);
        // An access out of bounds is a fault of its own.
        let fits = |lane: &usize| {
            offsets[*lane].checked_add(bytes as u64).is_some_and(|end| end <= len as u64)
        };
        let mask = lanes_of(mask).filter(fits).fold(0, |mask, lane| mask | 1 << lane);
        let at = |lane: usize| start + offsets[lane] as usize;
        let stored = |lane: usize| accessed.stored.bytes(regs, address.elem, lane);
        let mut alone = mask;
        if accessed.writes && accessed.strong.is_none() {
            match lanes_apart(mask, bytes, at, stored, detector.equal_stores) {
                Ok(lanes) => alone = lanes,
                Err((lane, other)) => {
                    let race = detector.races.same_operation(
                        origin.into(),
                        lane as u32,
                        other as u32,
                        target,
                        at(lane),
                        bytes,
                    );
                    detector.races.add(race);
                }
            }
        }
        let strong = accessed.strong;
        let what = Lanes {
            target,
            writes: accessed.writes,
            strong: strong.map(|strong| strong.scope),
            bytes,
        };
        let Detector { races, buffers, equal_stores, .. } = &mut *detector;
        let equal_stores = *equal_stores;
        let equal = |race: &Race| {
            if equal_stores {
                return false;
            }
            let lane = race.by.lane as usize;
            let from = race.byte - at(lane);
            let mut now = [0; 4];
            let count = race.bytes as usize;
            self.current(buffers, target, race.byte, &mut now[..count])
                && now[..count] == stored(lane)[from..from + count]
        };
        races.access(origin.into(), alone, what, at, equal);
        if alone != mask {
            detector.races.access_too(origin.into(), mask & !alone, what, at);
        }
        if let Some(op) = strong {
            detector.races.operate(origin.into(), mask, target, at, op);
        }
    }

    /// Reads the current bytes. Returns whether all of them were written before.
    fn current(
        &self,
        buffers: &[Option<usize>],
        target: Target,
        at: usize,
        out: &mut [u8],
    ) -> bool {
        match target {
            Target::Shared(rank) => self.blocks[rank].shared.read_bytes(at, out).is_ok(),
            Target::Global(number) => {
                let param = buffers.iter().position(|found| *found == Some(number));
                let Some(param) = param else { return false };
                self.globals[param].read_bytes(at, out);
                true
            }
        }
    }

    /// Turns a race into a fault about elements of type `elem`.
    fn raced(&self, detector: &Detector, race: &Race, elem: Scalar) -> Box<RawFault> {
        let Race { by, other, target, byte, missing, .. } = *race;
        let (space, alloc, start, len) = match target {
            Target::Shared(rank) => {
                let shared = &self.blocks[rank].shared;
                let (alloc, range) = shared.allocation_at(byte);
                match rank == self.here {
                    true => (Space::Shared, alloc, range.start, range.len),
                    false => {
                        let alloc = in_cluster(rank as u32, alloc);
                        (Space::SharedCluster, alloc, range.start, range.len)
                    }
                }
            }
            Target::Global(number) => {
                let param = detector.buffers.iter().position(|found| *found == Some(number));
                let param = param.unwrap_or(0);
                (Space::Global, param as u32, 0, self.globals[param].len_bytes())
            }
        };
        let size = elem.size_bytes();
        let byte = byte.saturating_sub(start) / size as usize * size as usize;
        let access = AccessAt {
            is_store: Some(by.writes),
            space,
            alloc,
            elem,
            byte: byte as i128,
            bytes: size,
            align: size,
            len_bytes: len as u64,
        };
        let (lane, origin) =
            (by.lane as usize, Origin { block: by.rank, warp: by.warp, step: by.step });
        let (by, other) = (RacerAt(by), RacerAt(other));
        let fault = RawFault::new(lane, RawCause::Race { access, by, other, missing });
        Box::new(RawFault { origin: Some(origin), ..*fault })
    }

    /// Reports a fault if one of `lanes` accesses the shared memory of block `rank`, but nothing
    /// orders the start of that block before the access.
    #[inline]
    pub(in crate::sim) fn check_started(&mut self, origin: Origin, lanes: u32, rank: u32) {
        if let Some(detector) = &mut self.races
            && rank != origin.block
            && (rank as usize) < self.blocks.len()
            && let Some(lane) = detector.races.unaware_of_start(origin.into(), lanes, rank)
        {
            detector.add_unstarted(origin, lane, rank);
        }
    }

    /// Calls `f` with the detector, if there is one, and keeps the races that it finds, as faults
    /// about elements of type `elem`.
    #[inline]
    pub(in crate::sim) fn detect(
        &mut self,
        elem: Scalar,
        f: impl FnOnce(&mut Detector, &Memory<'_>),
    ) {
        let Some(mut detector) = self.races.take() else { return };
        f(&mut detector, self);
        self.take_races(&mut detector, elem);
        self.races = Some(detector);
    }

    /// Calls `f` with the detector, if there is one.
    #[inline]
    pub(in crate::sim) fn note(&mut self, f: impl FnOnce(&mut Races)) {
        if let Some(detector) = &mut self.races {
            f(&mut detector.races);
        }
    }

    /// Called when a lane has arrived at an mbarrier. `lanes` collects the lanes whose arrival has
    /// not been passed to the detector yet.
    pub(in crate::sim) fn note_arrival(
        &mut self,
        origin: Origin,
        lanes: &mut Arrived,
        arrival: Arrival,
    ) {
        let Arrival { lane, barrier, releases, ended } = arrival;
        self.record_arrival(origin, barrier, ended);
        let Some(detector) = &mut self.races else { return };
        if lanes.barrier != Some(barrier) {
            lanes.flush(&mut detector.races, origin);
        }
        *lanes = Arrived { barrier: Some(barrier), lanes: lanes.lanes | 1 << lane, releases };
        if ended {
            lanes.flush(&mut detector.races, origin);
            detector.races.mbarrier_phase(barrier);
        }
    }

    /// Called when an asynchronous operation has completed and signalled an mbarrier, which may
    /// have ended a phase.
    pub(in crate::sim) fn note_completion(
        &mut self,
        origin: Origin,
        number: u32,
        barrier: MbarrierAddress,
        ended: bool,
    ) {
        self.record_phase(barrier, ended);
        self.note(|races| {
            races.load_complete(origin.into(), number, barrier);
            if ended {
                races.mbarrier_phase(barrier);
            }
        });
    }

    /// Passes the collected arrivals that are left to the detector. Call it at the end of the
    /// operation.
    pub(in crate::sim) fn note_arrivals(&mut self, origin: Origin, lanes: &mut Arrived) {
        if let Some(detector) = &mut self.races {
            lanes.flush(&mut detector.races, origin);
        }
    }
}

/// A lane's arrival at an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Arrival {
    pub(in crate::sim) lane: usize,
    pub(in crate::sim) barrier: MbarrierAddress,
    /// Whether the lane's earlier accesses are ordered before the arrival.
    pub(in crate::sim) releases: bool,
    /// Whether the arrival has ended a phase.
    pub(in crate::sim) ended: bool,
}

/// Lanes that arrived at one mbarrier in one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct Arrived {
    barrier: Option<MbarrierAddress>,
    lanes: u32,
    releases: bool,
}

impl Arrived {
    fn flush(&mut self, races: &mut Races, origin: Origin) {
        if let (Some(barrier), true) = (self.barrier, self.lanes != 0) {
            races.mbarrier_arrive(origin.into(), self.lanes, barrier, self.releases);
        }
        self.lanes = 0;
    }
}

/// Returns the address of an mbarrier of block `rank` in the cluster.
pub(in crate::sim) fn mbarrier_address(rank: u32, barrier: ByteAddress) -> MbarrierAddress {
    MbarrierAddress { rank: rank as usize, byte: barrier.at }
}
