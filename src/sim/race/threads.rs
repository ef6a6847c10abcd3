//! A warp's threads, and which accesses each of them knows to happen before its next one. The
//! detector calls it to decide whether an earlier access races.
//!
//! Lanes that know the same form a group with one state, so a converged warp has a single
//! clock. A thread always knows its own accesses. Its clock has no entry for them.

use super::clock::{ALL, Clock, Component, Range};
use super::layout::rank;
use super::observed::Operation;
use super::strong::Acquired;
use crate::ir::op::MemScope;

/// Facts about accesses. They travel along every edge together with the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// Visible to the asynchronous proxy, in shared memory.
    AsyncShared,
    /// Visible to the asynchronous proxy, in global memory.
    AsyncGlobal,
    /// mbarrier initialisations that are fenced.
    Inits,
    /// Fenced for the threads of the block: what a relaxed operation releases.
    FencedCta,
    FencedCluster,
    FencedGpu,
    /// Seen by a relaxed operation in the block: what a fence acquires.
    SeenCta,
    SeenCluster,
    SeenGpu,
}

impl Fact {
    const COUNT: usize = 9;

    pub(super) fn fenced(scope: MemScope) -> Fact {
        match scope {
            MemScope::Cta => Fact::FencedCta,
            MemScope::Cluster => Fact::FencedCluster,
            MemScope::Gpu | MemScope::Sys => Fact::FencedGpu,
        }
    }

    pub(super) fn seen(scope: MemScope) -> Fact {
        match scope {
            MemScope::Cta => Fact::SeenCta,
            MemScope::Cluster => Fact::SeenCluster,
            MemScope::Gpu | MemScope::Sys => Fact::SeenGpu,
        }
    }
}

/// What a thread knows: the accesses that happen before its next one, and the facts about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Knowledge {
    pub(super) order: Clock,
    facts: [Clock; Fact::COUNT],
    /// A bit for each block of the cluster that is known to have started.
    pub(super) started: u32,
}

impl Knowledge {
    pub(super) fn new(range: Range) -> Knowledge {
        let facts = std::array::from_fn(|_| Clock::new(range));
        Knowledge { order: Clock::new(range), facts, started: 0 }
    }

    pub(super) fn fact(&self, fact: Fact) -> &Clock {
        &self.facts[fact as usize]
    }

    pub(super) fn fact_mut(&mut self, fact: Fact) -> &mut Clock {
        &mut self.facts[fact as usize]
    }

    pub(super) fn join(&mut self, other: &Knowledge) {
        self.order.join(&other.order);
        self.join_facts(other);
        self.started |= other.started;
    }

    /// Learns the facts, but not the order.
    pub(super) fn join_facts(&mut self, other: &Knowledge) {
        for (fact, found) in self.facts.iter_mut().zip(&other.facts) {
            fact.join(found);
        }
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.facts.iter_mut().for_each(Clock::clear);
        self.started = 0;
    }
}

/// A warp's components: its threads, their `cp.async`, the reads and the writes of their bulk
/// stores.
pub(super) type Own = [Component; 4];

/// A thread's state: what it knows of others, and of its own asynchronous operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) known: Knowledge,
    /// How far the thread has waited for its own operations, by component. It always knows its
    /// plain accesses.
    waited: [u32; 4],
    /// For each fact, up to which count it holds for the thread's own accesses.
    own: [[u32; 4]; Fact::COUNT],
}

impl State {
    pub(super) fn new(known: Knowledge) -> State {
        State { known, ..State::default() }
    }

    /// Returns the count up to which a thread has waited for its own accesses of its warp's
    /// component `wing`.
    pub(super) fn waited(&self, wing: usize) -> u32 {
        if wing == 0 { u32::MAX } else { self.waited[wing] }
    }

    /// Returns whether this thread knows an operation. It is lane `lane` of the warp with
    /// components `own`.
    pub(super) fn knows(&self, own: &Own, lane: u32, operation: Operation) -> bool {
        (own[0], lane) == (operation.component, operation.lane)
            || self.known.order.covers(operation.component, 1 << operation.lane, operation.count)
    }

    /// Returns the count up to which a fact holds for the own accesses of component `wing`.
    pub(super) fn own(&self, fact: Fact, wing: usize) -> u32 {
        self.own[fact as usize][wing]
    }
}

/// Lanes of a warp that know the same.
#[derive(Clone, Debug)]
struct Group {
    lanes: u32,
    state: State,
}

/// A warp's threads.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    pub(super) own: Own,
    /// The epoch of the next accesses. It grows with each release.
    pub(super) now: u32,
    /// Lanes without a thread.
    missing: u32,
    groups: Vec<Group>,
    /// What each lane acquired last.
    pub(super) acquired: [Acquired; 32],
}

impl Threads {
    /// Makes the threads of `lanes` at the start of a cluster. They know that their own block,
    /// `rank`, has started.
    pub(super) fn new(range: Range, own: Own, lanes: u32, rank: u32) -> Threads {
        let state = State::new(Knowledge { started: 1 << rank, ..Knowledge::new(range) });
        let groups = vec![Group { lanes: ALL, state }];
        Threads { own, now: 1, missing: !lanes, groups, acquired: [Acquired::default(); 32] }
    }

    /// Calls `f` with groups of `lanes` that know the same, and with what they know.
    pub(super) fn each(&self, lanes: u32, mut f: impl FnMut(u32, &State)) {
        for group in self.groups.iter().filter(|group| group.lanes & lanes != 0) {
            f(group.lanes & lanes, &group.state);
        }
    }

    /// Returns one lane's state.
    pub(super) fn state(&self, lane: u32) -> &State {
        let has = |group: &&Group| group.lanes >> lane & 1 == 1;
        match self.groups.iter().find(has) {
            Some(group) => &group.state,
            None => &self.groups[0].state,
        }
    }

    /// Changes what `lanes` know.
    fn change(&mut self, lanes: u32, mut f: impl FnMut(&mut State)) {
        let mut index = 0;
        while let Some(group) = self.groups.get_mut(index) {
            let (inside, outside) = (group.lanes & lanes, group.lanes & !lanes);
            if inside != 0 {
                if outside != 0 {
                    group.lanes = inside;
                    let rest = Group { lanes: outside, state: group.state.clone() };
                    self.groups.push(rest);
                }
                f(&mut self.groups[index].state);
            }
            index += 1;
        }
        self.merge(lanes);
    }

    /// Merges groups that know the same again. Only groups with some of `lanes` can have become
    /// equal to another.
    fn merge(&mut self, lanes: u32) {
        let mut index = 0;
        while index < self.groups.len() {
            let group = &self.groups[index];
            let equal = |(at, other): (usize, &Group)| at != index && other.state == group.state;
            let same = match group.lanes & lanes {
                0 => None,
                _ => self.groups.iter().enumerate().position(equal),
            };
            match same {
                Some(same) => {
                    let lanes = group.lanes;
                    self.groups[same].lanes |= lanes;
                    self.groups.swap_remove(index);
                }
                None => index += 1,
            }
        }
    }

    /// Returns all 32 lanes if `lanes` are all that have a thread. The others make no accesses, so
    /// nothing of them is unknown.
    fn whole(&self, lanes: u32) -> u32 {
        if lanes | self.missing == ALL { ALL } else { lanes }
    }

    /// Returns what `lanes` release together: what they know, and what they did up to now.
    pub(super) fn released(&self, lanes: u32) -> Knowledge {
        let mut all: Option<Knowledge> = None;
        self.each(lanes, |inside, state| {
            let all = match &mut all {
                Some(all) => {
                    all.join(&state.known);
                    all
                }
                None => all.insert(state.known.clone()),
            };
            let inside = self.whole(inside);
            for (wing, component) in self.own.into_iter().enumerate() {
                let count = if wing == 0 { self.now } else { state.waited[wing] };
                all.order.raise_lanes(component, inside, count);
                for (fact, own) in all.facts.iter_mut().zip(&state.own) {
                    fact.raise_lanes(component, inside, own[wing]);
                }
            }
        });
        all.unwrap_or_default()
    }

    /// Starts the next epoch, so that later accesses are not part of what was released.
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    /// Lets `lanes` learn `what`.
    pub(super) fn learn(&mut self, lanes: u32, what: &Knowledge) {
        self.change(lanes, |state| state.known.join(what));
    }

    /// Notes that each of `lanes` has waited for its own operations of component `wing`, up to a
    /// count.
    pub(super) fn wait(&mut self, lanes: u32, wing: usize, count: u32) {
        self.change(lanes, |state| state.waited[wing] = state.waited[wing].max(count));
    }

    /// Lets `lanes` learn of all accesses of a component, up to a count.
    pub(super) fn raise(&mut self, lanes: u32, component: Component, count: u32) {
        self.change(lanes, |state| state.known.order.raise(component, count));
    }

    /// Changes what one lane knows.
    pub(super) fn update(&mut self, lane: u32, mut f: impl FnMut(&mut Knowledge)) {
        self.change(1 << lane, |state| f(&mut state.known));
    }

    /// Synchronises `lanes` with each other.
    pub(super) fn sync(&mut self, lanes: u32) {
        let lanes = self.whole(lanes);
        let state = State::new(self.released(lanes));
        self.groups.iter_mut().for_each(|group| group.lanes &= !lanes);
        self.groups.retain(|group| group.lanes != 0);
        self.groups.push(Group { lanes, state });
        self.tick();
    }

    /// Establishes facts for all accesses that `lanes` made or know of.
    pub(super) fn establish(&mut self, lanes: u32, facts: &[Fact]) {
        let now = self.now;
        self.change(lanes, |state| {
            for fact in facts {
                let Knowledge { order, facts, .. } = &mut state.known;
                facts[*fact as usize].join(order);
                state.own[*fact as usize] = state.waited;
                state.own[*fact as usize][0] = now;
            }
        });
        self.tick();
    }

    /// A fence: makes the lanes' accesses ready for relaxed operations to release, and acquires
    /// what relaxed operations have seen.
    pub(super) fn fence(&mut self, lanes: u32, scope: MemScope) {
        let scopes = [MemScope::Cta, MemScope::Cluster, MemScope::Gpu];
        let scopes = &scopes[..=rank(scope) as usize];
        self.change(lanes, |state| {
            let Knowledge { order, facts, .. } = &mut state.known;
            for scope in scopes {
                order.join(&facts[Fact::seen(*scope) as usize]);
            }
        });
        let facts: smallvec::SmallVec<[Fact; 3]> =
            scopes.iter().map(|scope| Fact::fenced(*scope)).collect();
        self.establish(lanes, &facts);
    }

    /// Returns whether a lane has fenced anything for a scope.
    pub(super) fn has_fenced(&self, lane: u32, scope: MemScope) -> bool {
        let (state, fact) = (self.state(lane), Fact::fenced(scope));
        state.own(fact, 0) > 0 || !state.known.fact(fact).is_empty()
    }
}
