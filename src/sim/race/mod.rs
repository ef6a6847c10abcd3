//! Detects data races: happens-before over threads and asynchronous agents, by byte.
//!
//! **Clocks.** Each source of accesses is a component of a launch (`layout.rs`): the threads of a warp, its `cp.async`,
//! the reads and the writes of its bulk stores, the `wgmma` of a warp group, an mbarrier. A clock (`clock.rs`) counts
//! for each component the accesses that are known, by lane where lanes differ. The threads of a warp share one epoch,
//! which grows with each release; lanes that know the same share one clock (`threads.rs`). No lock step is assumed: within
//! a warp only `bar.warp.sync` orders lanes. Shuffles, votes, `match`, `redux` and `elect` exchange values and order no memory
//! accesses, because neither PTX nor CUDA promises that they do.
//!
//! **Agents.** An asynchronous operation makes its accesses when it is issued, with what its thread knows then. They are
//! before a thread that knows of its completion: the count of its component, or the phase of its mbarrier.
//!
//! **Facts.** A thread also knows facts about accesses, which travel along every edge as the order does: what the
//! asynchronous proxy sees (`fence.proxy.async`), which initialisations of mbarriers are fenced, what is fenced for
//! which scope. A fence counts on either side of an edge. An access of a thread that is before one of the
//! asynchronous proxy, but not visible to it, lacks a proxy fence.
//!
//! **Observation.** A strong write is before what follows a strong read of its value, also without a release and an acquire
//! (`observed.rs`): a counter to which threads added can be reset by a plain store of the last one.
//!
//! **Starts.** A thread knows which blocks of its cluster have started, by any edge from one of their threads. An access to the
//! shared memory of a block that it does not know to have started is a fault.
//!
//! **Shadow.** Each word has the records of its last write and of the reads since (`shadow.rs`); a new access is compared
//! with them. Buffers of a launch have a shadow only if the kernel can write them.
//!
//! **Reports.** A race is noted, and the run goes on. A cluster keeps one race for each pair of operations
//! (`memory/races.rs`); its end reports them with the fault that ended it, if there is one.
//!
//! **Order of clusters.** With race detection the clusters of a launch run on one host thread, so that the fault is
//! always the same. They share one [`Grid`] of shadows and of locations that release.
//!
//! **Lenient.** Of the scopes of mbarriers only remote arrivals without a release
//! to the cluster count: they publish the accesses of asynchronous operations. A fence before a barrier of the block
//! counts for the thread behind the barrier. Stores of equal values do not race.
//!
//! **Launches.** A programmatic launch is compared with those before it (`overlap.rs`). Other launches have an order.
//!
//! **Left out.** The host, which the runtime orders; tensor maps that kernels change.

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
use self::shadow::{Clash, Completion, FarCompletions, Locations, Order, Shadow, View};
use self::strong::Block;
use self::sync::{Join, Mbarrier};
use self::threads::{Fact, State, Threads};
use crate::ir::op::MemScope;
use crate::sim::options::FenceAfterReads;

pub(in crate::sim) use self::agents::Pieces;
pub(in crate::sim) use self::overlap::{Before, Footprint, Overlap};
pub use self::report::{Agent, MissingEdge};
pub(in crate::sim) use self::report::{Party, Race, Target};
pub(in crate::sim) use self::strong::Strong;
pub(in crate::sim) use self::sync::{BLOCK_BARRIER, MbarrierAddress};

/// State that the clusters of a launch share.
#[derive(Debug)]
pub(in crate::sim) struct Grid {
    /// The shadow of each buffer that the kernel can write. Numbers beyond are those of other buffers of a launch that may
    /// overlap with others.
    buffers: Vec<Shadow>,
    /// By buffer and byte.
    locations: Locations,
    /// Of operations that access such a buffer.
    completions: FarCompletions,
    /// Launches that may overlap with this one.
    overlap: Option<Overlap>,
}

impl Grid {
    /// For buffers of these lengths.
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

    /// Takes the accesses of the launch, if a later one may start before its end, and whether a thread has waited for the
    /// launches before.
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

/// A warp at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct At {
    /// The rank of the block in its cluster.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
}

/// An access of the lanes of a warp.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Lanes {
    pub(in crate::sim) target: Target,
    pub(in crate::sim) writes: bool,
    /// The scope of a strong operation.
    pub(in crate::sim) strong: Option<MemScope>,
    /// The bytes of each lane.
    pub(in crate::sim) bytes: usize,
}

/// The writes that the operands of a `wgmma` were compared with for the first warp.
#[derive(Debug, Default)]
struct Compared {
    writes: Vec<Record>,
    /// The warps that have come.
    warps: u32,
}

/// The race detector of a cluster.
#[derive(Debug)]
pub(in crate::sim) struct Races {
    grid: Arc<Mutex<Grid>>,
    layout: Layout,
    /// The threads of a block.
    block_threads: u32,
    cluster: u64,
    range: Range,
    /// Whether an asynchronous write over bytes that threads have read needs a proxy fence.
    pub(in crate::sim) fence_after_reads: FenceAfterReads,
    /// Unset for clusters of so high a number that their components have none.
    checks: bool,
    threads: Vec<Threads>,
    shared: Vec<Shadow>,
    /// The named barriers of each block, and the barrier of the block.
    barriers: Vec<[Join; 17]>,
    cluster_barrier: Join,
    /// By the rank of the block, and the address.
    mbarriers: HashMap<MbarrierAddress, Mbarrier>,
    locations: Locations,
    copies: Vec<Copies>,
    stores: Vec<Stores>,
    completions: Vec<Completion>,
    /// The `wgmma` to which not all warps of their group have come: what their operands were compared with.
    products: HashMap<(Component, u32), Compared>,
    /// The races of the present operation.
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
    /// For clusters of `blocks` blocks with `threads` threads and `shared_bytes` bytes of shared memory each.
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

    /// Forgets all, for cluster number `cluster`.
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

    /// Notes a race of the present operation, unless the operation has one like it.
    fn note(found: &mut Vec<Race>, race: Race) {
        let same = |old: &Race| {
            let of = |race: &Race| (race.other.launch, race.other.step, race.other.writes);
            (of(old), old.missing) == (of(&race), race.missing)
        };
        if !found.iter().any(same) {
            found.push(race);
        }
    }

    /// Notes a race of the present operation.
    pub(in crate::sim) fn add(&mut self, race: Race) {
        Races::note(&mut self.found, race);
    }

    /// Takes the races that the present operation was found to have.
    pub(in crate::sim) fn take_found(&mut self) -> Vec<Race> {
        std::mem::take(&mut self.found)
    }

    /// The number of a warp in the cluster.
    fn warp(&self, at: At) -> u32 {
        at.block * self.layout.warps_of_block + at.warp
    }

    fn block(&self, warp: u32) -> Block {
        Block { cluster: self.cluster, rank: warp / self.layout.warps_of_block }
    }

    fn is_near(&self, component: Component) -> bool {
        component.wrapping_sub(self.range.first) < self.range.count
    }

    /// Makes the accesses of some lanes, at `offset(lane)` of the memory each. Where a store meets a store without an
    /// order, `equal` says whether the lane stores what the bytes already are.
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
        let proxy = None;
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
                    let bytes = (offset(lane as usize), what.bytes);
                    overlap.access((&access_of(lane), waited), buffer, bytes, &mut |clash| {
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
                    let own = (threads.own, warp, 0);
                    let space = (&self.layout, self.range);
                    let mut view = View::new(space, state, own, proxy, &self.completions);
                    (view.far, view.locations) = (far, Some(locations));
                    for lane in lanes_of(lanes) {
                        let access = access_of(lane);
                        view.lane = 1 << lane;
                        let from = offset(lane as usize);
                        shadow.access(&mut view, &access, (from, what.bytes), &mut |clash| {
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

    /// Makes accesses to words that other lanes store the same to in the same operation.
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
            let space = (&self.layout, self.range);
            let own = (threads.own, warp, 1 << lane);
            let mut view = View::new(space, threads.state(lane), own, None, &self.completions);
            let (mut from, end) = (offset(lane as usize), offset(lane as usize) + what.bytes);
            while from < end {
                let to = end.min(from / 4 * 4 + 4);
                let bytes = (15 >> (4 - (to - from))) << (from % 4);
                shadow.force(&mut view, &access, (from / 4, bytes));
                from = to;
            }
        }
    }

    /// Makes an access of an agent with what a lane of a warp knows, or where `of` is [`ALL`] all of its lanes.
    #[allow(clippy::too_many_arguments, reason = "one access of one agent")]
    fn agent_access(
        &mut self,
        at: At,
        (lane, of): (u32, u32),
        target: Target,
        access: Access,
        proxy: Option<Fact>,
        (agent, compared): (Agent, Option<&mut Vec<Record>>),
        pieces: Pieces<'_>,
    ) {
        if !self.checks {
            return;
        }
        let warp = self.warp(at);
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
                overlap.access((&access, waited), buffer, (from, len), &mut |clash| {
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
            let space = (&self.layout, self.range);
            // Lanes that come together make the access with all that they know.
            let whole;
            let (own, state) = match of {
                ALL => {
                    whole = State::new(threads.released(ALL));
                    ([Component::MAX; 4], &whole)
                }
                _ => (threads.own, threads.state(lane)),
            };
            let own = (own, warp, of);
            let mut view = View::new(space, state, own, proxy, &self.completions);
            (view.far, view.compared) = (far, compared);
            pieces(&mut |from, len| {
                shadow.access(&mut view, &access, (from, len), &mut |clash| {
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

    /// One lane makes a strong operation at a byte of a memory.
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
