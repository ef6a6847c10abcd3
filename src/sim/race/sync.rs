//! Synchronisation edges: barriers of warps, blocks and clusters, fences, mbarriers.
//!
//! Every barrier works the same way. Arriving threads *release*: they store what they know and did
//! at the barrier, and start a new epoch. Threads that leave the barrier *learn* the union of what
//! was stored. For an mbarrier the union of a phase becomes available when the phase ends, and its
//! component's count is the number of ended phases, so that operations which complete at the
//! mbarrier are ordered too.

use super::clock::{Component, LAUNCHES};
use super::layout::Source;
use super::record::Access;
use super::shadow::{Order, Viewer};
use super::threads::{Fact, Knowledge};
use super::{Agent, At, Later, MissingEdge, Races, Target, lanes_of, lock};
use crate::ir::op::MemScope;

/// A barrier: what was released to it in the current phase, and in the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Join {
    pending: Option<Knowledge>,
    done: Option<Knowledge>,
}

impl Join {
    fn arrive(&mut self, known: Knowledge) {
        match &mut self.pending {
            None => self.pending = Some(known),
            Some(pending) => pending.join(&known),
        }
    }

    fn open(&mut self) {
        self.done = self.pending.take();
    }
}

/// An mbarrier of a cluster: its block's rank, and its first byte in that block's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sim) struct MbarrierAddress {
    pub(in crate::sim) rank: usize,
    pub(in crate::sim) byte: usize,
}

/// An mbarrier. Each phase knows all that earlier ones do, because its arrivals are operations on
/// one location.
#[derive(Clone, Debug)]
pub(super) struct Mbarrier {
    pub(super) component: Component,
    /// How many phases have ended, over all initialisations.
    pub(super) phases: u32,
    pending: Knowledge,
    done: Knowledge,
}

impl Mbarrier {
    pub(super) fn pending_mut(&mut self) -> &mut Knowledge {
        &mut self.pending
    }
}

/// The index of the block's own barrier, after the 16 named ones.
pub(in crate::sim) const BLOCK_BARRIER: u32 = 16;

impl Races {
    /// Lanes of a warp execute a `bar.warp.sync`.
    pub(in crate::sim) fn warp_sync(&mut self, at: At, lanes: u32) {
        let warp = self.warp(at);
        self.threads[warp as usize].sync(lanes);
    }

    /// Lanes of a warp arrive at a barrier of their block.
    pub(in crate::sim) fn barrier_arrive(&mut self, at: At, lanes: u32, id: u32) {
        let warp = self.warp(at) as usize;
        let known = self.threads[warp].released(lanes);
        self.threads[warp].tick();
        self.barriers[at.block as usize][id as usize % 17].arrive(known);
    }

    /// Opens a block's barrier for the warps that wait, each with its lanes.
    pub(in crate::sim) fn barrier_open(
        &mut self,
        block: u32,
        id: u32,
        waiting: impl Iterator<Item = (u32, u32)>,
    ) {
        let barrier = &mut self.barriers[block as usize][id as usize % 17];
        barrier.open();
        let Some(done) = barrier.done.take() else { return };
        for (warp, lanes) in waiting {
            let warp = block * self.layout.warps_of_block + warp;
            self.threads[warp as usize].learn(lanes, &done);
        }
    }

    /// Lanes arrive at the cluster's barrier.
    pub(in crate::sim) fn cluster_arrive(&mut self, at: At, lanes: u32, relaxed: bool) {
        let warp = self.warp(at) as usize;
        let mut known = self.threads[warp].released(lanes);
        if relaxed {
            known.order = known.fact(Fact::FencedCluster).meet(&known.order);
        }
        self.threads[warp].tick();
        self.cluster_barrier.arrive(known);
    }

    /// Opens the cluster's barrier.
    pub(in crate::sim) fn cluster_open(&mut self) {
        self.cluster_barrier.open();
    }

    /// Lanes leave the cluster's barrier.
    pub(in crate::sim) fn cluster_wait(&mut self, at: At, lanes: u32) {
        let warp = self.warp(at) as usize;
        if let Some(done) = &self.cluster_barrier.done {
            self.threads[warp].learn(lanes, done);
        }
    }

    /// Returns one of `lanes` that does not know that the block `rank` of its cluster has started.
    pub(in crate::sim) fn unaware_of_start(&self, at: At, lanes: u32, rank: u32) -> Option<u32> {
        let mut unaware = 0;
        if self.checks {
            self.threads[self.warp(at) as usize].each(lanes, |inside, state| {
                if state.known.started >> rank & 1 == 0 {
                    unaware |= inside;
                }
            });
        }
        lanes_of(unaware).next()
    }

    /// The lanes execute `fence` with this scope.
    pub(in crate::sim) fn fence(&mut self, at: At, lanes: u32, scope: MemScope) {
        let warp = self.warp(at) as usize;
        self.threads[warp].fence(lanes, scope);
    }

    /// The lanes execute `griddepcontrol.wait`: they learn that the launches before this one have
    /// ended.
    pub(in crate::sim) fn launches_wait(&mut self, at: At, lanes: u32) {
        let warp = self.warp(at) as usize;
        if let Some(overlap) = &mut lock(&self.grid).overlap {
            overlap.waited = true;
            self.threads[warp].raise(lanes, LAUNCHES, 1);
        }
    }

    /// A thread executes `griddepcontrol.launch_dependents`: the next launch may start early.
    pub(in crate::sim) fn start_dependents(&mut self) {
        if let Some(overlap) = &mut lock(&self.grid).overlap {
            overlap.starts_dependents = true;
        }
    }

    /// The lanes execute `fence.proxy.async`, for shared memory, global memory or both.
    pub(in crate::sim) fn proxy_fence(&mut self, at: At, lanes: u32, shared: bool, global: bool) {
        let warp = self.warp(at) as usize;
        let facts: &[Fact] = match (shared, global) {
            (true, true) => &[Fact::AsyncShared, Fact::AsyncGlobal],
            (true, false) => &[Fact::AsyncShared],
            (false, true) => &[Fact::AsyncGlobal],
            (false, false) => &[],
        };
        self.threads[warp].establish(lanes, facts);
    }

    /// The lanes execute `fence.mbarrier_init`.
    pub(in crate::sim) fn init_fence(&mut self, at: At, lanes: u32) {
        let warp = self.warp(at) as usize;
        self.threads[warp].establish(lanes, &[Fact::Inits]);
    }

    /// A lane initialises or invalidates an mbarrier.
    pub(in crate::sim) fn mbarrier_set(&mut self, at: At, lane: u32, barrier: MbarrierAddress) {
        let MbarrierAddress { rank, byte } = barrier;
        let warp = self.warp(at) as usize;
        let access = self.generic(at, lane, true);
        let target = Target::Shared(rank);
        self.agent_access(at, Agent::Thread, target, access, None, &mut |f| f(byte, 8));
        let (next, range) = (self.mbarriers.len() as u32, self.range);
        let component = self.layout.of_barrier(range, next % self.layout.barriers.max(1));
        let found = self.mbarriers.entry(barrier).or_insert_with(|| Mbarrier {
            component,
            phases: 0,
            pending: Knowledge::new(range),
            done: Knowledge::new(range),
        });
        // What was left at an earlier mbarrier at this address is not released by the new one.
        found.pending.clear();
        found.done.clear();
        self.threads[warp].tick();
    }

    fn generic(&self, at: At, lane: u32, writes: bool) -> Access {
        let threads = &self.threads[self.warp(at) as usize];
        Access {
            component: threads.own[0],
            count: threads.now,
            lane,
            writes,
            strong: None,
            is_async: false,
            step: at.step,
        }
    }

    /// Checks that an mbarrier's initialisation is ordered and fenced before its use from another
    /// block or by the asynchronous proxy.
    pub(in crate::sim) fn mbarrier_use(
        &mut self,
        at: At,
        lanes: u32,
        MbarrierAddress { rank, byte }: MbarrierAddress,
        by_proxy: bool,
    ) {
        let Some(record) = self.shared.get(rank).and_then(|s| s.last_write(byte / 4, 15)) else {
            return;
        };
        if !self.checks {
            return;
        }
        let warp = self.warp(at);
        let threads = &self.threads[warp as usize];
        let mut found = None;
        threads.each(lanes, |inside, state| {
            for lane in lanes_of(inside) {
                let viewer = Viewer { own: threads.own, warp, lane: 1 << lane };
                let mut view = self.view(state, viewer, None);
                let ordered = view.order(&record, 15) == Order::Before;
                let knows = |fact: Fact| view.has_fact(fact, &record, record.lanes_at(15));
                let fenced = knows(Fact::Inits);
                let good = if by_proxy {
                    fenced || ordered && knows(Fact::AsyncShared)
                } else {
                    fenced || ordered
                };
                if !good && found.is_none() {
                    let order = if ordered { Order::Invisible } else { Order::Concurrent };
                    let clash = super::shadow::Clash { record, order, word: byte / 4, bytes: 15 };
                    let later = Later {
                        warp,
                        lane,
                        agent: Agent::Thread,
                        writes: false,
                        strong: false,
                        target: Target::Shared(rank),
                        step: at.step,
                    };
                    let mut race = self.race(None, &clash, later);
                    if ordered {
                        race.missing = MissingEdge::InitFence;
                    }
                    found = Some(race);
                }
            }
        });
        if let Some(race) = found {
            self.add(race);
        }
    }

    /// Lanes arrive at an mbarrier. An arrival at another block's mbarrier that does not release to
    /// the cluster publishes only what asynchronous operations did, and what its threads have
    /// fenced for the cluster.
    pub(in crate::sim) fn mbarrier_arrive(
        &mut self,
        at: At,
        lanes: u32,
        barrier: MbarrierAddress,
        releases: bool,
    ) {
        let warp = self.warp(at) as usize;
        let mut known = self.threads[warp].released(lanes);
        if !releases {
            let mut order = known.fact(Fact::FencedCluster).meet(&known.order);
            order.join_if(&known.order, |component| match self.layout.source(component).1 {
                Source::Threads | Source::Copies | Source::Launches => false,
                Source::StoreReads
                | Source::StoreWrites
                | Source::Loads
                | Source::Tensor
                | Source::Barrier => true,
            });
            known.order = order;
        }
        self.threads[warp].tick();
        if let Some(barrier) = self.mbarriers.get_mut(&barrier) {
            barrier.pending.join(&known);
        }
    }

    /// Ends an mbarrier's phase.
    pub(in crate::sim) fn mbarrier_phase(&mut self, barrier: MbarrierAddress) {
        if let Some(barrier) = self.mbarriers.get_mut(&barrier) {
            barrier.phases += 1;
            let Mbarrier { component, phases, pending, done } = barrier;
            done.join(pending);
            done.order.raise(*component, *phases);
            pending.clear();
        }
    }

    /// Lanes learn that an mbarrier's phase has ended.
    pub(in crate::sim) fn mbarrier_wait(&mut self, at: At, lanes: u32, barrier: MbarrierAddress) {
        let warp = self.warp(at) as usize;
        if let Some(barrier) = self.mbarriers.get(&barrier) {
            self.threads[warp].learn(lanes, &barrier.done);
        }
    }
}
