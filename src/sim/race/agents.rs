//! Asynchronous operations (`cp.async`, bulk copies, `wgmma`) in the race detector: which accesses
//! each operation performs when it is issued, and how a thread learns that the operation has
//! completed.
//!
//! `cp.async` and bulk stores complete in groups that each lane commits and waits for. A wait
//! raises the count up to which the lane knows its own warp's component. An operation that signals
//! an mbarrier completes with a phase of this mbarrier. `wgmma` belongs to the warp group, and each
//! warp waits for it separately.

use std::collections::VecDeque;

use super::clock::ALL;
use super::layout::{GROUP, Source};
use super::record::{Access, Record};
use super::shadow::{Completion, Order, Viewer};
use super::threads::{Fact, State};
use super::{Agent, At, MbarrierAddress, Races, Target, lanes_of, lock};
use crate::ir::op::MemScope;

/// A warp's operations, in groups that each lane commits for itself.
#[derive(Clone, Debug, Default)]
struct Groups {
    /// The count of the last operation.
    count: u32,
    /// The lanes that committed a group, and the count of its last operation.
    commits: VecDeque<(u32, u32)>,
}

/// How many commits of a warp are remembered.
const GROUPS: usize = 256;

impl Groups {
    fn commit(&mut self, lanes: u32) {
        self.commits.push_back((lanes, self.count));
        if self.commits.len() > GROUPS {
            self.commits.pop_front();
        }
    }

    /// Returns the count of the lane's last operation that is not in one of the last `pending`
    /// groups.
    fn waited(&self, lane: u32, pending: u32) -> u32 {
        let own = self.commits.iter().rev().filter(|(lanes, _)| lanes >> lane & 1 == 1);
        own.map(|(_, count)| *count).nth(pending as usize).unwrap_or(0)
    }
}

/// A warp's `cp.async`.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies(Groups);

/// A warp's bulk stores.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores(Groups);

/// The bytes of an asynchronous operation, as a function that calls its argument with the address
/// and length of each piece.
pub(in crate::sim) type Pieces<'p> = &'p mut dyn FnMut(&mut dyn FnMut(usize, usize));

/// A write to shared memory that completes at an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct MbarrierWrite {
    /// The rank of the block whose shared memory it writes.
    pub(in crate::sim) rank: usize,
    /// Whether it writes through the asynchronous proxy.
    pub(in crate::sim) is_async: bool,
    /// Whether it combines the value with the one in memory.
    pub(in crate::sim) reduces: bool,
}

impl Races {
    /// Counts a `cp.async` of a warp. Call [`Races::copy_access`] next, for its accesses.
    pub(in crate::sim) fn copy_issue(&mut self, at: At) {
        let warp = self.warp(at) as usize;
        self.copies[warp].0.count += 1;
    }

    /// Records one lane's access of the warp's last `cp.async`.
    pub(in crate::sim) fn copy_access(
        &mut self,
        at: At,
        lane: u32,
        target: Target,
        writes: bool,
        pieces: Pieces<'_>,
    ) {
        let warp = self.warp(at);
        let access = Access {
            component: self.layout.of_warp(self.range, Source::Copies, warp),
            count: self.copies[warp as usize].0.count,
            lane,
            writes,
            strong: None,
            is_async: false,
            step: at.step,
        };
        self.agent_access(at, Agent::Copy, target, access, None, pieces);
    }

    /// `cp.async.commit_group`.
    pub(in crate::sim) fn copy_commit(&mut self, at: At, lanes: u32) {
        let warp = self.warp(at) as usize;
        self.copies[warp].0.commit(lanes);
    }

    /// `cp.async.wait_group`; `None` for `wait_all`.
    pub(in crate::sim) fn copy_wait(&mut self, at: At, lanes: u32, pending: Option<u32>) {
        let warp = self.warp(at) as usize;
        let (groups, threads) = (&self.copies[warp].0, &mut self.threads[warp]);
        wait(groups, lanes, pending, |lanes, count| threads.wait(lanes, 1, count));
    }

    /// Tells an mbarrier that the first `count` copies of some lanes are complete:
    /// `cp.async.mbarrier.arrive`.
    pub(in crate::sim) fn copy_arrive(
        &mut self,
        at: At,
        lanes: u32,
        barrier: MbarrierAddress,
        count: u32,
    ) {
        let warp = self.warp(at);
        let component = self.layout.of_warp(self.range, Source::Copies, warp);
        if let Some(barrier) = self.mbarriers.get_mut(&barrier) {
            barrier.pending_mut().order.raise_lanes(component, lanes, count);
        }
    }

    /// Returns the count of a warp's last `cp.async`.
    pub(in crate::sim) fn copy_count(&self, at: At) -> u32 {
        self.copies[self.warp(at) as usize].0.count
    }

    /// Issues one lane's bulk store, which reads `from` in its block's shared memory and writes
    /// `to`, unless the buffer is not watched. A reduction counts as a strong operation of scope
    /// `gpu`.
    pub(in crate::sim) fn store_issue(
        &mut self,
        at: At,
        lane: u32,
        from: Pieces<'_>,
        to: Option<(usize, Pieces<'_>)>,
        reduces: bool,
    ) {
        let warp = self.warp(at);
        let groups = &mut self.stores[warp as usize].0;
        groups.count += 1;
        let mut access = Access {
            component: self.layout.of_warp(self.range, Source::StoreReads, warp),
            count: groups.count,
            lane,
            writes: false,
            strong: None,
            is_async: true,
            step: at.step,
        };
        let shared = Target::Shared(at.block as usize);
        self.agent_access(at, Agent::Store, shared, access, None, from);
        let Some((buffer, to)) = to else { return };
        access.component = self.layout.of_warp(self.range, Source::StoreWrites, warp);
        access.writes = true;
        access.strong = reduces.then_some(MemScope::Gpu);
        self.agent_access(at, Agent::Store, Target::Global(buffer), access, None, to);
    }

    /// `cp.async.bulk.commit_group`.
    pub(in crate::sim) fn store_commit(&mut self, at: At, lanes: u32) {
        let warp = self.warp(at) as usize;
        self.stores[warp].0.commit(lanes);
    }

    /// `cp.async.bulk.wait_group`.
    pub(in crate::sim) fn store_wait(&mut self, at: At, lanes: u32, pending: u32, only_read: bool) {
        let warp = self.warp(at) as usize;
        let (groups, threads) = (&self.stores[warp].0, &mut self.threads[warp]);
        wait(groups, lanes, Some(pending), |lanes, count| {
            threads.wait(lanes, 2, count);
            if !only_read {
                threads.wait(lanes, 3, count);
            }
        });
    }

    /// Issues one lane's operation that completes at an mbarrier and writes `to`. Returns its
    /// number.
    pub(in crate::sim) fn load_issue(
        &mut self,
        at: At,
        lane: u32,
        write: MbarrierWrite,
        to: Pieces<'_>,
        from: Option<(usize, Pieces<'_>)>,
    ) -> u32 {
        let MbarrierWrite { rank, is_async, reduces } = write;
        let warp = self.warp(at);
        let number = self.completions.len() as u32;
        self.completions.push(Completion { barrier: 0, phases: u32::MAX });
        let mut access = Access {
            component: self.layout.of_warp(self.range, Source::Loads, warp),
            count: number,
            lane,
            writes: true,
            strong: reduces.then_some(MemScope::Cluster),
            is_async,
            step: at.step,
        };
        self.agent_access(at, Agent::Load, Target::Shared(rank), access, None, to);
        if let Some((buffer, from)) = from {
            (access.writes, access.strong) = (false, None);
            self.agent_access(at, Agent::Load, Target::Global(buffer), access, None, from);
            let pending = Completion { barrier: 0, phases: u32::MAX };
            lock(&self.grid).completions.insert((access.component, number), pending);
        }
        number
    }

    /// Records that operation `number`, a load whose source is shared memory, reads the shared
    /// memory of its own block.
    pub(in crate::sim) fn source_read(&mut self, at: At, lane: u32, number: u32, from: Pieces<'_>) {
        let component = self.layout.of_warp(self.range, Source::Loads, self.warp(at));
        let access = Access {
            component,
            count: number,
            lane,
            writes: false,
            strong: None,
            is_async: true,
            step: at.step,
        };
        let shared = Target::Shared(at.block as usize);
        self.agent_access(at, Agent::Load, shared, access, None, from);
    }

    /// Completes operation `number` in the current phase of an mbarrier. Call this before the
    /// completion is counted there.
    pub(in crate::sim) fn load_complete(&mut self, at: At, number: u32, barrier: MbarrierAddress) {
        let warp = self.warp(at);
        let Some(barrier) = self.mbarriers.get_mut(&barrier) else { return };
        // A thread that waits for the phase knows that the block that issued the operation has
        // started.
        barrier.pending_mut().started |= 1 << at.block;
        let found = Completion { barrier: barrier.component, phases: barrier.phases + 1 };
        if let Some(completion) = self.completions.get_mut(number as usize) {
            *completion = found;
        }
        let component = self.layout.of_warp(self.range, Source::Loads, warp);
        if let Some(far) = lock(&self.grid).completions.get_mut(&(component, number)) {
            *far = found;
        }
    }

    /// Called when a warp executes `wgmma` number `number` of its group, which reads `pieces` of
    /// its block's shared memory.
    ///
    /// The first warp that executes the `wgmma` performs the reads for the whole group. A write
    /// after these reads would race with them. So for the other warps it is enough to test whether
    /// they too know the writes that the first warp has compared.
    pub(in crate::sim) fn wgmma_issue(&mut self, at: At, number: u64, pieces: Pieces<'_>) {
        let warp = self.warp(at);
        let access = Access {
            component: self.layout.of_group(self.range, warp),
            count: number as u32 + 1,
            lane: 0,
            writes: false,
            strong: None,
            is_async: true,
            step: at.step,
        };
        let key = (access.component, access.count);
        let mut compared = self.products.remove(&key).unwrap_or_default();
        if compared.warps == 0 || !self.knows(warp, &compared.writes, Some(Fact::AsyncShared)) {
            let (shared, writes) = (Target::Shared(at.block as usize), &mut compared.writes);
            self.agent_access(at, Agent::Wgmma, shared, access, Some(writes), pieces);
        }
        compared.warps += 1;
        if compared.warps < GROUP {
            self.products.insert(key, compared);
        }
    }

    /// Returns whether all these accesses happen before the warp's next one.
    fn knows(&self, warp: u32, records: &[Record], proxy: Option<Fact>) -> bool {
        let state = State::new(self.threads[warp as usize].released(ALL));
        let mut view = self.view(&state, Viewer::whole_warp(warp), proxy);
        records.iter().all(|record| view.order_of(record, ALL) == Order::Before)
    }

    /// Called when a warp has waited for all `wgmma` of its group before number `end`.
    pub(in crate::sim) fn wgmma_wait(&mut self, at: At, end: u64) {
        let warp = self.warp(at);
        let component = self.layout.of_group(self.range, warp);
        self.threads[warp as usize].raise(ALL, component, end as u32);
    }
}

/// Calls `f` with lanes, and with the count of the last operation that they have waited for.
fn wait(groups: &Groups, lanes: u32, pending: Option<u32>, mut f: impl FnMut(u32, u32)) {
    let count = |lane| match pending {
        None => groups.count,
        Some(pending) => groups.waited(lane, pending),
    };
    let mut rest = lanes;
    while rest != 0 {
        let first = count(rest.trailing_zeros());
        let same = lanes_of(rest).filter(|lane| count(*lane) == first);
        let same = same.fold(0, |same, lane| same | 1 << lane);
        f(same, first);
        rest &= !same;
    }
}
