//! Finds data races between threads and asynchronous operations, byte by byte.
//!
//! Read this header first, then `clock.rs`, `threads.rs`, `shadow.rs`, `sync.rs` and `agents.rs`.
//!
//! # Happens-before
//!
//! Two accesses race if they touch the same byte, at least one of them writes, and neither *happens
//! before* the other. Which of the two the simulator executed first does not matter, so a race
//! shows even if the values came out right. The detector keeps two things:
//!
//! * **What each thread knows**, as a vector clock (`clock.rs`, `threads.rs`): up to where the
//!   accesses of everyone else happen before this thread's next access.
//! * **Who accessed each word**, as shadow memory (`shadow.rs`): a record of its last write and of
//!   the reads since.
//!
//! A new access is compared with the records in its words. A record that the thread's clock does
//! not cover is a race. Synchronisation moves knowledge (`sync.rs`): a thread that arrives at a
//! barrier stores its clock there, and a thread that leaves the barrier joins the stored clocks to
//! its own clock. For example:
//!
//! ```text
//! thread 0  (warp 0, epoch 1)   st x      record in x: warp 0, epoch 1
//! thread 0                      barrier   stores "warp 0: 1" at the barrier, starts epoch 2
//! thread 32 (warp 1)            barrier   now knows "warp 0: 1"
//! thread 32                     ld x      its clock covers warp 0, epoch 1: no race
//! ```
//!
//! Without the barrier, thread 32 knows "warp 0: 0", and its load races with the store.
//!
//! # Components and epochs
//!
//! A clock does not have an entry for each thread, but for each *component* (`layout.rs`), which is
//! a source of accesses: the threads of a warp, the warp's `cp.async`, the reads of its bulk
//! stores, their writes, its operations that complete at an mbarrier, the `wgmma` of a warp group,
//! an mbarrier. Each component counts, and one number in a clock stands for all accesses up to it.
//! The threads of a warp share one count, the epoch, which grows with each release, so later
//! accesses are not part of what was released.
//!
//! A converged warp needs one clock, because lanes that know the same share it; where lanes differ,
//! a clock tells them apart. Nothing relies on lock step: within a warp only `bar.warp.sync` orders
//! lanes. Shuffles, votes, `match`, `redux` and `elect` exchange values but order no memory
//! accesses, because neither PTX nor CUDA promises that they do.
//!
//! # Asynchronous operations
//!
//! An asynchronous operation (`agents.rs`) performs its accesses when it is issued, with what its
//! thread knows at that moment. But no thread knows these accesses until a thread waits for the
//! operation, not even the thread that issued it. `cp.async.wait_group` and its relatives raise the
//! count that the waiting thread knows of its own operations. A load that signals an mbarrier
//! belongs to a phase of this mbarrier, and every thread that knows that the phase has ended knows
//! the load.
//!
//! # Facts: proxies and fences
//!
//! For some pairs of accesses the order is not enough. If a thread stores to shared memory and a
//! TMA store then reads it, a barrier orders the two, but the asynchronous proxy still sees the
//! bytes only after a `fence.proxy.async`. So a thread also knows *facts* about accesses. A fact is
//! one more clock, which says up to where it holds: visible to the asynchronous proxy (for shared
//! and for global memory), an mbarrier initialisation that is fenced, fenced for a scope, seen by a
//! relaxed operation. A fence copies the thread's order into the clock of its fact, and facts
//! travel along the same edges as the order. Therefore the fence counts on either side of the
//! barrier. An access that is ordered before one of the asynchronous proxy, but lacks the fact, is
//! reported as a missing proxy fence.
//!
//! Fences and relaxed atomics work by facts too (`strong.rs`). A relaxed operation releases what
//! its thread has fenced before, and what it sees becomes known at the thread's next fence.
//!
//! # Details
//!
//! * **Observation** (`observed.rs`). A strong write is ordered before everything that follows a
//!   strong read of its value, even without a release and an acquire. For example, the last thread
//!   that adds to a counter can reset it by a plain store.
//! * **Block starts.** A thread learns that a block of its cluster has started by any edge from one
//!   of its threads. Touching the shared memory of a block that is not known to have started is a
//!   fault.
//! * **Launches** (`overlap.rs`). A programmatic launch is compared with the launches before it.
//!   All other launches are ordered.
//! * **Which buffers.** A buffer has a shadow only if the kernel can write it.
//! * **Reports.** The run continues after a race. A cluster keeps one race for each pair of
//!   operations (`memory/races.rs`), and reports them when it ends, together with the fault that
//!   ended it, if there is one.
//! * **Determinism.** The clusters of a launch run on one host thread, so the fault is always
//!   the same. They share one [`Grid`] with the shadows of global memory.
//!
//! # What is not found
//!
//! * Unordered stores of equal values, unless
//!   [`Options::equal_stores`](crate::sim::Options::equal_stores) is set.
//! * Too narrow a scope at an mbarrier, with one exception: an arrival at another block's mbarrier
//!   that does not release to the cluster publishes only the accesses of asynchronous operations,
//!   and what its threads have fenced.
//! * Accesses of the host, which the runtime orders, and changes that kernels make to tensor maps.
//!
//! A fence before the block's barrier also counts for the threads behind that barrier.

mod agents;
mod clock;
mod layout;
mod observed;
mod overlap;
mod record;
mod report;
mod shadow;
mod strong;
mod sync;
mod threads;

#[cfg(test)]
mod oracle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::agents::{Copies, Stores};
use self::clock::{ALL, Component, LAUNCHES, Range};
use self::layout::{Layout, Source};
use self::overlap::Overlapped;
use self::record::{Access, Record};
use self::report::Later;
use self::shadow::{Clash, Completion, FarCompletions, Locations, Order, Shadow, View, Viewer};
use self::strong::Block;
use self::sync::{Join, Mbarrier};
use self::threads::{Fact, State, Threads};
use crate::ir::op::MemScope;
use crate::sim::options::FenceAfterReads;

pub(in crate::sim) use self::agents::{MbarrierWrite, Pieces};
pub(in crate::sim) use self::overlap::{Before, Footprint, Overlap};
pub use self::report::{Agent, MissingEdge};
pub(in crate::sim) use self::report::{Party, Race, Target};
pub(in crate::sim) use self::strong::Strong;
pub(in crate::sim) use self::sync::{BLOCK_BARRIER, MbarrierAddress};

/// The part of the race detector that all clusters of a launch share: the shadows of global memory.
#[derive(Debug)]
pub(in crate::sim) struct Grid {
    /// The shadow of each buffer that the kernel can write. Higher buffer indices belong to
    /// read-only buffers, which only matter if launches overlap.
    buffers: Vec<Shadow>,
    /// The locations of strong operations, by buffer and byte.
    locations: Locations,
    /// Completions of the asynchronous operations that access one of these buffers.
    completions: FarCompletions,
    /// The launches that may overlap with this one.
    overlap: Option<Overlap>,
}

impl Grid {
    /// Makes the shared state for buffers of these lengths.
    pub(in crate::sim) fn new(
        len_bytes: impl Iterator<Item = usize>,
        overlap: Option<Overlap>,
    ) -> Arc<Mutex<Grid>> {
        Arc::new(Mutex::new(Grid {
            buffers: len_bytes.map(Shadow::new).collect(),
            locations: HashMap::new(),
            completions: FarCompletions::new(),
            overlap,
        }))
    }

    /// Takes the launch's accesses, if a later launch may start before this launch ends. Also
    /// returns whether a thread has waited for the previous launches.
    pub(in crate::sim) fn take_footprint(grid: &Mutex<Grid>) -> (Option<Footprint>, bool) {
        match &mut lock(grid).overlap {
            Some(overlap) => {
                let own = std::mem::take(&mut overlap.own);
                (overlap.starts_dependents.then_some(own), overlap.waited)
            }
            None => (None, false),
        }
    }
}

/// Identifies an operation that a warp executes: the block, the warp and the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct At {
    /// The block's rank in its cluster.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
}

/// An access by some lanes of a warp, the same for all of them but for the address.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Lanes {
    pub(in crate::sim) target: Target,
    pub(in crate::sim) writes: bool,
    /// The scope, if the operation is strong.
    pub(in crate::sim) strong: Option<MemScope>,
    /// Bytes for each lane.
    pub(in crate::sim) bytes: usize,
}

/// The writes with which the operands of a `wgmma` were compared when the first warp executed it.
#[derive(Debug, Default)]
struct Compared {
    writes: Vec<Record>,
    /// How many warps have executed it.
    warps: u32,
}

/// The race detector of a cluster. The simulator calls a method for each access and each
/// synchronisation.
#[derive(Debug)]
pub(in crate::sim) struct Races {
    grid: Arc<Mutex<Grid>>,
    layout: Layout,
    /// Threads in a block.
    block_threads: u32,
    cluster: u64,
    range: Range,
    /// Whether an asynchronous write over bytes that threads have only read needs a proxy fence.
    pub(in crate::sim) fence_after_reads: FenceAfterReads,
    /// False if the cluster's index is so high that no component ids are left for it.
    checks: bool,
    threads: Vec<Threads>,
    shared: Vec<Shadow>,
    /// Each block's named barriers, and then the barrier of the whole block.
    barriers: Vec<[Join; 17]>,
    cluster_barrier: Join,
    /// By block rank and address.
    mbarriers: HashMap<MbarrierAddress, Mbarrier>,
    locations: Locations,
    copies: Vec<Copies>,
    stores: Vec<Stores>,
    completions: Vec<Completion>,
    /// `wgmma` that some warps of the warp group have not executed yet.
    products: HashMap<(Component, u32), Compared>,
    /// Races found by the current operation.
    found: Vec<Race>,
}

fn lock(grid: &Mutex<Grid>) -> MutexGuard<'_, Grid> {
    grid.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lanes_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

impl Races {
    /// Makes a detector for clusters of `blocks` blocks, each with `threads` threads and
    /// `shared_bytes` bytes of shared memory.
    pub(in crate::sim) fn new(
        grid: Arc<Mutex<Grid>>,
        blocks: u32,
        threads: u32,
        shared_bytes: usize,
    ) -> Races {
        let layout = Layout {
            blocks,
            warps_of_block: threads.div_ceil(32),
            barriers: blocks * (shared_bytes / 8) as u32,
        };
        if let Some(overlap) = &mut lock(&grid).overlap {
            overlap.own.layout = layout;
        }
        let mut races = Races {
            grid,
            layout,
            block_threads: threads,
            cluster: 0,
            range: Range::default(),
            fence_after_reads: FenceAfterReads::Required,
            checks: true,
            threads: Vec::new(),
            shared: (0..blocks).map(|_| Shadow::new(shared_bytes)).collect(),
            barriers: Vec::new(),
            cluster_barrier: Join::default(),
            mbarriers: HashMap::new(),
            locations: HashMap::new(),
            copies: Vec::new(),
            stores: Vec::new(),
            completions: Vec::new(),
            products: HashMap::new(),
            found: Vec::new(),
        };
        races.start(0);
        races
    }

    /// Forgets everything and starts cluster `cluster`.
    pub(in crate::sim) fn start(&mut self, cluster: u64) {
        let (layout, warps) = (self.layout, self.layout.blocks * self.layout.warps_of_block);
        let range = layout.range(cluster);
        self.checks = range.is_some();
        self.range = range.unwrap_or(Range { first: 0, count: layout.stride() });
        (self.cluster, self.threads) = (cluster, Vec::new());
        for warp in 0..warps {
            let own = [Source::Threads, Source::Copies, Source::StoreReads, Source::StoreWrites];
            let own = own.map(|source| layout.of_warp(self.range, source, warp));
            let first = warp % layout.warps_of_block * 32;
            let count = self.block_threads.saturating_sub(first).clamp(1, 32);
            let rank = warp / layout.warps_of_block;
            self.threads.push(Threads::new(self.range, own, u32::MAX >> (32 - count), rank));
        }
        self.shared.iter_mut().for_each(Shadow::reset);
        self.barriers.clear();
        self.barriers.resize_with(layout.blocks as usize, Default::default);
        self.cluster_barrier = Join::default();
        self.mbarriers.clear();
        self.locations.clear();
        self.copies.clear();
        self.copies.resize_with(warps as usize, Copies::default);
        self.stores.clear();
        self.stores.resize_with(warps as usize, Stores::default);
        self.completions.clear();
        self.products.clear();
        self.found.clear();
    }

    /// Keeps a race of the current operation, unless a similar one is already there.
    fn note(found: &mut Vec<Race>, race: Race) {
        let same = |old: &Race| {
            let of = |race: &Race| (race.other.launch, race.other.step, race.other.writes);
            (of(old), old.missing) == (of(&race), race.missing)
        };
        if !found.iter().any(same) {
            found.push(race);
        }
    }

    /// Keeps a race of the current operation.
    pub(in crate::sim) fn add(&mut self, race: Race) {
        Races::note(&mut self.found, race);
    }

    /// Takes the races that were found for the current operation.
    pub(in crate::sim) fn take_found(&mut self) -> Vec<Race> {
        std::mem::take(&mut self.found)
    }

    /// Returns a warp's index in the cluster.
    fn warp(&self, at: At) -> u32 {
        at.block * self.layout.warps_of_block + at.warp
    }

    fn block(&self, warp: u32) -> Block {
        Block { cluster: self.cluster, rank: warp / self.layout.warps_of_block }
    }

    /// Returns what a thread in `state` knows, for its next access.
    fn view<'v>(&'v self, state: &'v State, viewer: Viewer, proxy: Option<Fact>) -> View<'v> {
        View::new(&self.layout, self.range, state, viewer, proxy, &self.completions)
    }

    fn is_near(&self, component: Component) -> bool {
        component.wrapping_sub(self.range.first) < self.range.count
    }

    /// Records the accesses of some lanes, each at `offset(lane)`, and finds their races. For two
    /// unordered stores, `equal` returns whether the new store writes the bytes that are in memory
    /// already; then no race is reported.
    pub(in crate::sim) fn access(
        &mut self,
        at: At,
        mask: u32,
        what: Lanes,
        offset: impl Fn(usize) -> usize,
        mut equal: impl FnMut(&Race) -> bool,
    ) {
        if !self.checks {
            return;
        }
        let warp = self.warp(at);
        let mut found = std::mem::take(&mut self.found);
        let grid = Arc::clone(&self.grid);
        let mut grid = matches!(what.target, Target::Global(_)).then(|| lock(&grid));
        let mut shared = match what.target {
            Target::Shared(rank) => std::mem::take(&mut self.shared[rank]),
            Target::Global(_) => Shadow::default(),
        };
        let later = |lane| Later {
            warp,
            lane,
            agent: Agent::Thread,
            writes: what.writes,
            strong: what.strong.is_some(),
            target: what.target,
            step: at.step,
        };
        let threads = &self.threads[warp as usize];
        let access_of = |lane| Access {
            component: threads.own[0],
            count: threads.now,
            lane,
            writes: what.writes,
            strong: what.strong,
            is_async: false,
            step: at.step,
        };
        if let (Target::Global(buffer), Some(grid)) = (what.target, grid.as_deref_mut())
            && let Some(overlap) = &mut grid.overlap
        {
            let mut clashes: Vec<(u32, Overlapped)> = Vec::new();
            threads.each(mask, |lanes, state| {
                let waited = state.known.order.base(LAUNCHES) > 0;
                for lane in lanes_of(lanes) {
                    let (access, from) = (access_of(lane), offset(lane as usize));
                    overlap.access(&access, waited, buffer, from, what.bytes, &mut |clash| {
                        clashes.push((lane, clash));
                    });
                }
            });
            for (lane, clash) in clashes {
                Races::note(&mut found, self.overlapped(overlap, &clash, later(lane)));
            }
        }
        {
            let shadow = match (what.target, grid.as_deref_mut()) {
                (Target::Global(buffer), Some(Grid { buffers, completions, locations, .. })) => {
                    let far = (Some(&*completions), (&*locations, buffer));
                    buffers.get_mut(buffer).map(|shadow| (shadow, far))
                }
                (Target::Shared(number) | Target::Global(number), _) => {
                    Some((&mut shared, (None, (&self.locations, number))))
                }
            };
            if let Some((shadow, (far, locations))) = shadow {
                threads.each(mask, |lanes, state| {
                    let viewer = Viewer { own: threads.own, warp, lane: 0 };
                    let mut view = self.view(state, viewer, None);
                    (view.far, view.locations) = (far, Some(locations));
                    for lane in lanes_of(lanes) {
                        let access = access_of(lane);
                        view.lane = 1 << lane;
                        let from = offset(lane as usize);
                        shadow.access(&mut view, &access, from, what.bytes, &mut |clash| {
                            let race = self.race(None, &clash, later(lane));
                            let benign = what.writes
                                && what.strong.is_none()
                                && clash.record.writes()
                                && !clash.record.is_async()
                                && clash.record.strong().is_none()
                                && equal(&race);
                            if !benign {
                                Races::note(&mut found, race);
                            }
                        });
                    }
                });
            }
        }
        if let Target::Shared(rank) = what.target {
            self.shared[rank] = shared;
        }
        self.found = found;
    }

    /// Records the accesses of lanes that store the same value to the same address as another lane
    /// of the operation, without a search for races.
    pub(in crate::sim) fn access_too(
        &mut self,
        at: At,
        mask: u32,
        what: Lanes,
        offset: impl Fn(usize) -> usize,
    ) {
        let warp = self.warp(at);
        let threads = &self.threads[warp as usize];
        let mut grid = lock(&self.grid);
        let shadow = match what.target {
            Target::Shared(rank) => Some(&mut self.shared[rank]),
            Target::Global(buffer) => grid.buffers.get_mut(buffer),
        };
        let Some(shadow) = shadow else { return };
        for lane in lanes_of(mask) {
            let access = Access {
                component: threads.own[0],
                count: threads.now,
                lane,
                writes: what.writes,
                strong: what.strong,
                is_async: false,
                step: at.step,
            };
            let viewer = Viewer { own: threads.own, warp, lane: 1 << lane };
            let state = threads.state(lane);
            let mut view =
                View::new(&self.layout, self.range, state, viewer, None, &self.completions);
            let (mut from, end) = (offset(lane as usize), offset(lane as usize) + what.bytes);
            while from < end {
                let to = end.min(from / 4 * 4 + 4);
                let bytes = (15 >> (4 - (to - from))) << (from % 4);
                shadow.force(&mut view, &access, from / 4, bytes);
                from = to;
            }
        }
    }

    /// Records an asynchronous operation's access, with what its lane knows, or for a `wgmma` with
    /// what the whole warp knows. `compared` collects the records that it is compared with.
    fn agent_access(
        &mut self,
        at: At,
        agent: Agent,
        target: Target,
        access: Access,
        compared: Option<&mut Vec<Record>>,
        pieces: Pieces<'_>,
    ) {
        if !self.checks {
            return;
        }
        let (warp, lane) = (self.warp(at), access.lane);
        let proxy = access.is_async.then_some(match target {
            Target::Shared(_) => Fact::AsyncShared,
            Target::Global(_) => Fact::AsyncGlobal,
        });
        let arc = Arc::clone(&self.grid);
        let mut grid = matches!(target, Target::Global(_)).then(|| lock(&arc));
        let mut shared = match target {
            Target::Shared(rank) => std::mem::take(&mut self.shared[rank]),
            Target::Global(_) => Shadow::default(),
        };
        let later = Later {
            warp,
            lane,
            agent,
            writes: access.writes,
            strong: access.strong.is_some(),
            target,
            step: at.step,
        };
        let mut clashes: Vec<Clash> = Vec::new();
        let threads = &self.threads[warp as usize];
        if let (Target::Global(buffer), Some(grid)) = (target, grid.as_deref_mut())
            && let Some(overlap) = &mut grid.overlap
        {
            let waited = threads.state(lane).known.order.base(LAUNCHES) > 0;
            let mut clashes: Vec<Overlapped> = Vec::new();
            pieces(&mut |from, len| {
                overlap.access(&access, waited, buffer, from, len, &mut |clash| {
                    clashes.push(clash);
                });
            });
            for clash in clashes {
                let race = self.overlapped(overlap, &clash, later);
                Races::note(&mut self.found, race);
            }
        }
        let shadow = match (target, grid.as_deref_mut()) {
            (Target::Global(buffer), Some(Grid { buffers, completions, .. })) => {
                buffers.get_mut(buffer).map(|shadow| (shadow, Some(&*completions)))
            }
            _ => Some((&mut shared, None)),
        };
        if let Some((shadow, far)) = shadow {
            // Lanes that come together access with all that they know together.
            let whole;
            let (viewer, state) = match agent {
                Agent::Wgmma => {
                    whole = State::new(threads.released(ALL));
                    (Viewer::whole_warp(warp), &whole)
                }
                Agent::Thread | Agent::Copy | Agent::Load | Agent::Store => {
                    let viewer = Viewer { own: threads.own, warp, lane: 1 << lane };
                    (viewer, threads.state(lane))
                }
            };
            let mut view = self.view(state, viewer, proxy);
            (view.far, view.compared) = (far, compared);
            pieces(&mut |from, len| {
                shadow.access(&mut view, &access, from, len, &mut |clash| {
                    if clash.order == Order::Invisible
                        && !clash.record.writes()
                        && self.fence_after_reads == FenceAfterReads::Optional
                    {
                        return;
                    }
                    let same = |old: &Clash| {
                        (old.record.step(), old.record.writes(), old.order)
                            == (clash.record.step(), clash.record.writes(), clash.order)
                    };
                    if !clashes.iter().any(same) {
                        clashes.push(clash);
                    }
                });
            });
        }
        for clash in clashes {
            let race = self.race(grid.as_deref(), &clash, later);
            self.add(race);
        }
        if let Target::Shared(rank) = target {
            self.shared[rank] = shared;
        }
    }

    /// Called when lanes perform a strong operation, each at `offset(lane)`.
    pub(in crate::sim) fn operate(
        &mut self,
        at: At,
        mask: u32,
        target: Target,
        offset: impl Fn(usize) -> usize,
        op: Strong,
    ) {
        let warp = self.warp(at);
        let block = self.block(warp);
        let arc = Arc::clone(&self.grid);
        let mut grid = matches!(target, Target::Global(_)).then(|| lock(&arc));
        let threads = &mut self.threads[warp as usize];
        for lane in lanes_of(mask) {
            let byte = offset(lane as usize);
            let location = match (target, grid.as_deref_mut()) {
                (Target::Global(buffer), Some(grid)) => {
                    grid.locations.entry((buffer, byte)).or_default()
                }
                (Target::Shared(rank), _) => self.locations.entry((rank, byte)).or_default(),
                (Target::Global(_), None) => continue,
            };
            location.operate(threads, block, lane, op);
        }
        if op.writes {
            threads.tick();
        }
    }
}
