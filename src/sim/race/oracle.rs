//! Compares the detector with sets of accesses on random programs.
//!
//! A thread knows a set, an edge is a union, and an access is compared with all accesses before.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::layout::rank;
use super::threads::Fact;
use super::*;

type Set = BTreeSet<usize>;

const SCOPES: [MemScope; 3] = [MemScope::Cta, MemScope::Cluster, MemScope::Gpu];

/// Two clusters of two blocks of two warps; the second warp of a block has four threads.
const WARPS: usize = 8;
const THREADS: u32 = 36;
/// The mbarrier of a block.
const BARRIER: usize = 128;

#[derive(Clone, Debug, Default)]
struct Known {
    order: Set,
    facts: [Set; 9],
}

impl Known {
    fn join(&mut self, other: &Known) {
        self.order.extend(&other.order);
        self.join_facts(other);
    }

    fn join_facts(&mut self, other: &Known) {
        for (fact, found) in self.facts.iter_mut().zip(&other.facts) {
            fact.extend(found);
        }
    }
}

#[derive(Clone, Debug)]
struct Done {
    warp: usize,
    target: Target,
    bytes: std::ops::Range<usize>,
    writes: bool,
    strong: Option<MemScope>,
    is_async: bool,
    /// It completes at an mbarrier.
    loads: bool,
    generic: bool,
}

#[derive(Clone, Debug, Default)]
struct Sync {
    pending: Known,
    done: Known,
}

#[derive(Clone, Debug)]
struct Released {
    warp: usize,
    scope: MemScope,
    whole: bool,
    known: Known,
}

/// Operations of a lane in groups: the accesses of the open group, and those of each committed one.
#[derive(Clone, Debug, Default)]
struct Grouped {
    open: Vec<usize>,
    groups: Vec<Vec<usize>>,
}

impl Grouped {
    fn waited(&self, pending: Option<u32>) -> Vec<usize> {
        let all = self.groups.iter().flatten().chain(&self.open).copied();
        match pending {
            None => all.collect(),
            Some(pending) => {
                let count = self.groups.len().saturating_sub(pending as usize);
                self.groups[..count].iter().flatten().copied().collect()
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Model {
    threads: Vec<Vec<Known>>,
    history: Vec<Done>,
    /// Of each block: two named barriers.
    barriers: Vec<[Sync; 2]>,
    clusters: [Sync; 2],
    mbarriers: Vec<Sync>,
    locations: Vec<((Target, usize), Vec<Released>)>,
    copies: Vec<Vec<Grouped>>,
    stores: Vec<Vec<Grouped>>,
    /// The accesses of each operation that completes at an mbarrier, its block, and whether it is pending.
    loads: Vec<(Vec<usize>, usize, bool)>,
    /// The accesses of each `wgmma` of a block.
    tensor: Vec<Vec<Vec<usize>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Concurrent,
    Invisible,
}

fn block(warp: usize) -> usize {
    warp / 2
}

fn distance(a: usize, b: usize) -> MemScope {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => MemScope::Cta,
        (false, true) => MemScope::Cluster,
        (false, false) => MemScope::Gpu,
    }
}

fn lanes(warp: usize, mask: u32) -> Vec<usize> {
    let mask = if warp % 2 == 1 { mask & 15 } else { mask };
    lanes_of(mask).map(|lane| lane as usize).collect()
}

/// The target as the threads of a cluster name it, in the whole launch.
fn absolute(warp: usize, target: Target) -> Target {
    match target {
        Target::Shared(rank) => Target::Shared(warp / 4 * 2 + rank),
        global @ Target::Global(_) => global,
    }
}

impl Model {
    fn new() -> Model {
        Model {
            threads: vec![vec![Known::default(); 32]; WARPS],
            history: Vec::new(),
            barriers: vec![Default::default(); 4],
            clusters: Default::default(),
            mbarriers: vec![Sync::default(); 4],
            locations: Vec::new(),
            copies: vec![vec![Grouped::default(); 32]; WARPS],
            stores: vec![vec![Grouped::default(); 32]; WARPS],
            loads: Vec::new(),
            tensor: vec![Vec::new(); 4],
        }
    }

    fn released(&self, warp: usize, mask: u32) -> Known {
        let mut all = Known::default();
        for lane in lanes(warp, mask) {
            all.join(&self.threads[warp][lane]);
        }
        all
    }

    fn learn(&mut self, warp: usize, mask: u32, what: &Known) {
        for lane in lanes(warp, mask) {
            self.threads[warp][lane].join(what);
        }
    }

    /// Makes an access with what is known; its number follows if it does not race.
    fn access(&mut self, known: &Known, proxy: Option<Fact>, new: Done) -> Result<usize, Verdict> {
        let mut verdict = Verdict::Good;
        for (number, old) in self.history.iter().enumerate() {
            let apart = old.target != new.target
                || old.bytes.end <= new.bytes.start
                || new.bytes.end <= old.bytes.start;
            if apart || !(old.writes || new.writes) {
                continue;
            }
            let far = rank(distance(old.warp, new.warp));
            let strong = |scope: Option<MemScope>| scope.is_some_and(|scope| rank(scope) >= far);
            if !known.order.contains(&number) {
                if old.is_async != new.is_async || !(strong(old.strong) && strong(new.strong)) {
                    verdict = Verdict::Concurrent;
                }
            } else if let Some(fact) = proxy
                && old.generic
                && !known.facts[fact as usize].contains(&number)
                && verdict == Verdict::Good
            {
                verdict = Verdict::Invisible;
            }
        }
        if verdict != Verdict::Good {
            return Err(verdict);
        }
        self.history.push(new);
        Ok(self.history.len() - 1)
    }

    fn operate(&mut self, warp: usize, lane: usize, at: (Target, usize), op: Strong) {
        let index = self.locations.iter().position(|(place, _)| *place == at);
        let index = index.unwrap_or_else(|| {
            self.locations.push((at, Vec::new()));
            self.locations.len() - 1
        });
        if op.reads {
            for release in self.locations[index].1.clone() {
                let far = distance(warp, release.warp);
                if rank(far) > rank(op.scope) || rank(far) > rank(release.scope) {
                    continue;
                }
                let own = &mut self.threads[warp][lane];
                own.join_facts(&release.known);
                let order = match release.whole {
                    true => &release.known.order,
                    false => &release.known.facts[Fact::fenced(far) as usize],
                };
                match op.acquires {
                    true => own.order.extend(order),
                    false => own.facts[Fact::seen(far) as usize].extend(order),
                }
            }
        }
        if !op.writes {
            return;
        }
        let mut known = self.threads[warp][lane].clone();
        if !op.releases {
            for scope in SCOPES {
                let fact = &mut known.facts[Fact::fenced(scope) as usize];
                *fact = fact.intersection(&known.order).copied().collect();
            }
            known.order.clear();
        }
        let all = &mut self.locations[index].1;
        if !op.reads {
            all.clear();
        }
        let fenced = SCOPES[..=rank(op.scope) as usize]
            .iter()
            .any(|scope| !self.threads[warp][lane].facts[Fact::fenced(*scope) as usize].is_empty());
        if op.releases || fenced {
            all.push(Released { warp, scope: op.scope, whole: op.releases, known });
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Access {
        mask: u32,
        target: Target,
        at: usize,
        len: usize,
        writes: bool,
        strong: Option<Strong>,
    },
    WarpSync {
        mask: u32,
    },
    Arrive {
        mask: u32,
        id: u32,
    },
    Open {
        id: u32,
        warps: u32,
    },
    ClusterArrive {
        mask: u32,
        relaxed: bool,
    },
    ClusterOpen,
    ClusterWait {
        mask: u32,
    },
    Fence {
        mask: u32,
        scope: MemScope,
    },
    ProxyFence {
        mask: u32,
        shared: bool,
        global: bool,
    },
    MbarrierArrive {
        mask: u32,
        rank: usize,
        releases: bool,
    },
    MbarrierPhase {
        rank: usize,
    },
    MbarrierWait {
        mask: u32,
        rank: usize,
    },
    Copy {
        mask: u32,
        at: usize,
    },
    CopyCommit {
        mask: u32,
    },
    CopyWait {
        mask: u32,
        pending: Option<u32>,
    },
    Store {
        lane: u32,
        from: usize,
        to: Option<usize>,
        reduces: bool,
    },
    StoreCommit {
        mask: u32,
    },
    StoreWait {
        mask: u32,
        pending: u32,
        only_read: bool,
    },
    Load {
        lane: u32,
        rank: usize,
        to: usize,
        from: Option<usize>,
        is_async: bool,
    },
    Complete {
        index: usize,
    },
    Wgmma {
        at: usize,
    },
    WgmmaWait {
        pending: usize,
    },
}

fn events() -> impl Strategy<Value = (usize, Event)> {
    let mask = || prop_oneof![Just(1u32), Just(2), Just(15), Just(3), Just(8), Just(u32::MAX)];
    let scope = || prop::sample::select(SCOPES.to_vec());
    let target = prop_oneof![
        3 => (0usize..2).prop_map(Target::Shared),
        2 => Just(Target::Global(0)),
    ];
    let strong = (scope(), any::<[bool; 2]>(), 0..3).prop_map(|(scope, [a, r], kind)| Strong {
        scope,
        acquires: a && kind != 1,
        releases: r && kind != 0,
        reads: kind != 1,
        writes: kind != 0,
    });
    let small = || (0usize..6).prop_map(|word| word * 4);
    let plain =
        (mask(), target.clone(), 0usize..12, prop::sample::select(vec![1, 2, 4]), any::<bool>());
    let plain = plain.prop_map(|(mask, target, at, len, writes)| Event::Access {
        mask,
        target,
        at: at * len,
        len,
        writes,
        strong: None,
    });
    let lane = prop_oneof![Just(1u32), Just(2)];
    let strong = (lane, target, small(), strong).prop_map(|(mask, target, at, strong)| {
        Event::Access { mask, target, at, len: 4, writes: strong.writes, strong: Some(strong) }
    });
    let event = prop_oneof![
        8 => plain,
        4 => strong,
        4 => mask().prop_map(|mask| Event::WarpSync { mask }),
        4 => (mask(), 0u32..2).prop_map(|(mask, id)| Event::Arrive { mask, id }),
        4 => (0u32..2, 1u32..4).prop_map(|(id, warps)| Event::Open { id, warps }),
        2 => (mask(), any::<bool>()).prop_map(|(mask, relaxed)| Event::ClusterArrive { mask, relaxed }),
        2 => Just(Event::ClusterOpen),
        2 => mask().prop_map(|mask| Event::ClusterWait { mask }),
        3 => (mask(), scope()).prop_map(|(mask, scope)| Event::Fence { mask, scope }),
        3 => (mask(), any::<bool>(), any::<bool>())
            .prop_map(|(mask, shared, global)| Event::ProxyFence { mask, shared, global }),
        3 => (mask(), 0usize..2, any::<bool>())
            .prop_map(|(mask, rank, releases)| Event::MbarrierArrive { mask, rank, releases }),
        3 => (0usize..2).prop_map(|rank| Event::MbarrierPhase { rank }),
        3 => (mask(), 0usize..2).prop_map(|(mask, rank)| Event::MbarrierWait { mask, rank }),
        2 => (mask(), small()).prop_map(|(mask, at)| Event::Copy { mask, at }),
        2 => mask().prop_map(|mask| Event::CopyCommit { mask }),
        2 => (mask(), prop::option::of(0u32..2))
            .prop_map(|(mask, pending)| Event::CopyWait { mask, pending }),
        2 => (0u32..2, small(), prop::option::of(small()), any::<bool>())
            .prop_map(|(lane, from, to, reduces)| Event::Store { lane, from, to, reduces }),
        2 => mask().prop_map(|mask| Event::StoreCommit { mask }),
        2 => (mask(), 0u32..2, any::<bool>())
            .prop_map(|(mask, pending, only_read)| Event::StoreWait { mask, pending, only_read }),
        2 => (0u32..2, 0usize..2, small(), prop::option::of(small()), any::<bool>())
            .prop_map(|(lane, rank, to, from, is_async)| Event::Load { lane, rank, to, from, is_async }),
        2 => (0usize..4).prop_map(|index| Event::Complete { index }),
        2 => small().prop_map(|at| Event::Wgmma { at }),
        2 => (0usize..2).prop_map(|pending| Event::WgmmaWait { pending }),
    ];
    (0..WARPS, event)
}

/// The detector, and the sets.
struct Both {
    races: [Races; 2],
    /// For each pending load of the detector, its warp.
    issued: Vec<(usize, u32)>,
    /// The next `wgmma` of each warp.
    next: [u64; WARPS],
    model: Model,
}

impl Both {
    fn new() -> Both {
        let grid: Arc<Mutex<Grid>> = Grid::new([256].into_iter());
        let races = [0, 1].map(|cluster| {
            let mut races = Races::new(Arc::clone(&grid), 2, THREADS, 256);
            races.start(cluster);
            for block in 0..2 {
                let at = At { block, warp: 0, step: 0 };
                races.mbarrier_set(at, 0, (block as usize, BARRIER)).unwrap();
            }
            races
        });
        Both { races, issued: Vec::new(), next: [0; WARPS], model: Model::new() }
    }

    /// One lane makes an access in the model.
    fn one(
        &mut self,
        warp: usize,
        lane: usize,
        proxy: Option<Fact>,
        new: Done,
    ) -> Result<usize, Verdict> {
        let known = self.model.threads[warp][lane].clone();
        self.model.access(&known, proxy, new)
    }

    fn apply(&mut self, warp: usize, event: &Event) -> (Raced, Verdict) {
        let at = At { block: (warp / 2 % 2) as u32, warp: (warp % 2) as u32, step: 1 };
        let fix = |mask: u32| if warp % 2 == 1 { mask & 15 } else { mask };
        let (cluster, own) = (warp / 4, warp / 2 % 2);
        let mut verdict = Verdict::Good;
        let done = |target: Target, bytes: std::ops::Range<usize>, writes: bool| Done {
            warp,
            target: absolute(warp, target),
            bytes,
            writes,
            strong: None,
            is_async: false,
            loads: false,
            generic: true,
        };
        let races = &mut self.races[cluster];
        let raced = match *event {
            Event::Access { mask, target, at: first, len, writes, strong } => {
                let mask = fix(mask);
                let what =
                    Lanes { target, writes, strong: strong.map(|strong| strong.scope), bytes: len };
                // Reads may meet, writes are side by side.
                let step = if writes { len } else { len / 2 * 2 };
                let offset =
                    |lane: usize| if strong.is_some() { first } else { first + lane % 8 * step };
                let mask = if writes { mask & 0xff } else { mask };
                let raced = races.access(at, mask, what, offset, |_| false);
                if raced.is_ok()
                    && let Some(op) = strong
                {
                    races.operate(at, mask, target, offset, op);
                }
                for lane in lanes(warp, mask) {
                    let mut new = done(target, offset(lane)..offset(lane) + len, writes);
                    new.strong = what.strong;
                    match self.one(warp, lane, None, new) {
                        Ok(number) => {
                            self.model.threads[warp][lane].order.insert(number);
                        }
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                    if let Some(op) = strong {
                        self.model.operate(warp, lane, (absolute(warp, target), first), op);
                    }
                }
                raced
            }
            Event::WarpSync { mask } => {
                races.warp_sync(at, fix(mask));
                let all = self.model.released(warp, mask);
                self.model.learn(warp, mask, &all);
                Ok(())
            }
            Event::Arrive { mask, id } => {
                races.barrier_arrive(at, fix(mask), id);
                let all = self.model.released(warp, mask);
                self.model.barriers[block(warp)][id as usize].pending.join(&all);
                Ok(())
            }
            Event::Open { id, warps } => {
                let waiting =
                    lanes_of(warps).map(|warp| (warp, if warp == 1 { 15 } else { u32::MAX }));
                races.barrier_open(own as u32, id, waiting);
                let barrier = &mut self.model.barriers[block(warp)][id as usize];
                let all = std::mem::take(&mut barrier.pending);
                for other in lanes_of(warps) {
                    self.model.learn(block(warp) * 2 + other as usize, u32::MAX, &all);
                }
                Ok(())
            }
            Event::ClusterArrive { mask, relaxed } => {
                races.cluster_arrive(at, fix(mask), relaxed);
                let mut all = self.model.released(warp, mask);
                if relaxed {
                    let fenced = &all.facts[Fact::FencedCluster as usize];
                    all.order = all.order.intersection(fenced).copied().collect();
                }
                self.model.clusters[cluster].pending.join(&all);
                Ok(())
            }
            Event::ClusterOpen => {
                races.cluster_open();
                let barrier = &mut self.model.clusters[cluster];
                barrier.done = std::mem::take(&mut barrier.pending);
                Ok(())
            }
            Event::ClusterWait { mask } => {
                races.cluster_wait(at, fix(mask));
                let all = self.model.clusters[cluster].done.clone();
                self.model.learn(warp, mask, &all);
                Ok(())
            }
            Event::Fence { mask, scope } => {
                races.fence(at, fix(mask), scope);
                for lane in lanes(warp, mask) {
                    let known = &mut self.model.threads[warp][lane];
                    for scope in &SCOPES[..=rank(scope) as usize] {
                        known.order.extend(&known.facts[Fact::seen(*scope) as usize]);
                    }
                    for scope in &SCOPES[..=rank(scope) as usize] {
                        known.facts[Fact::fenced(*scope) as usize].extend(&known.order);
                    }
                }
                Ok(())
            }
            Event::ProxyFence { mask, shared, global } => {
                races.proxy_fence(at, fix(mask), shared, global);
                for lane in lanes(warp, mask) {
                    let known = &mut self.model.threads[warp][lane];
                    for (fact, set) in [(Fact::AsyncShared, shared), (Fact::AsyncGlobal, global)] {
                        if set {
                            known.facts[fact as usize].extend(&known.order);
                        }
                    }
                }
                Ok(())
            }
            Event::MbarrierArrive { mask, rank, releases } => {
                races.mbarrier_arrive(at, fix(mask), (rank, BARRIER), releases);
                let mut all = self.model.released(warp, mask);
                if !releases {
                    let fenced = &all.facts[Fact::FencedCluster as usize];
                    let history = &self.model.history;
                    let keep = |number: &usize| !history[*number].generic || history[*number].loads;
                    all.order.retain(|number| fenced.contains(number) || keep(number));
                }
                self.model.mbarriers[cluster * 2 + rank].pending.join(&all);
                Ok(())
            }
            Event::MbarrierPhase { rank } => {
                races.mbarrier_phase((rank, BARRIER));
                let barrier = &mut self.model.mbarriers[cluster * 2 + rank];
                let all = std::mem::take(&mut barrier.pending);
                barrier.done.join(&all);
                Ok(())
            }
            Event::MbarrierWait { mask, rank } => {
                races.mbarrier_wait(at, fix(mask), (rank, BARRIER));
                let all = self.model.mbarriers[cluster * 2 + rank].done.clone();
                self.model.learn(warp, mask, &all);
                Ok(())
            }
            Event::Copy { mask, at: first } => {
                races.copy_issue(at);
                let target = Target::Shared(own);
                let mut raced = Ok(());
                for lane in lanes(warp, mask) {
                    let place = first + lane % 8 * 4;
                    if raced.is_ok() {
                        raced = races
                            .copy_access(at, lane as u32, (target, true), &mut |f| f(place, 4));
                    }
                }
                for lane in lanes(warp, mask) {
                    let place = first + lane % 8 * 4;
                    match self.one(warp, lane, None, done(target, place..place + 4, true)) {
                        Ok(number) => self.model.copies[warp][lane].open.push(number),
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                }
                raced
            }
            Event::CopyCommit { mask } => {
                races.copy_commit(at, fix(mask));
                for lane in lanes(warp, mask) {
                    let copies = &mut self.model.copies[warp][lane];
                    let open = std::mem::take(&mut copies.open);
                    copies.groups.push(open);
                }
                Ok(())
            }
            Event::CopyWait { mask, pending } => {
                races.copy_wait(at, fix(mask), pending);
                for lane in lanes(warp, mask) {
                    let waited = self.model.copies[warp][lane].waited(pending);
                    self.model.threads[warp][lane].order.extend(waited);
                }
                Ok(())
            }
            Event::Store { lane, from, to, reduces } => {
                let mut first = |f: &mut dyn FnMut(usize, usize)| f(from, 4);
                let mut second = |f: &mut dyn FnMut(usize, usize)| f(to.unwrap_or(0), 4);
                let target: Option<(usize, super::agents::Pieces<'_>)> = match to {
                    None => None,
                    Some(_) => Some((0, &mut second)),
                };
                let raced = races.store_issue(at, lane, &mut first, target, reduces);
                let lane = lane as usize;
                let mut new = done(Target::Shared(own), from..from + 4, false);
                (new.is_async, new.generic) = (true, false);
                let mut all = vec![(new, Fact::AsyncShared)];
                if let Some(to) = to {
                    let mut new = done(Target::Global(0), to..to + 4, true);
                    (new.is_async, new.generic) = (true, false);
                    new.strong = reduces.then_some(MemScope::Gpu);
                    all.push((new, Fact::AsyncGlobal));
                }
                for (new, fact) in all {
                    match self.one(warp, lane, Some(fact), new) {
                        Ok(number) => self.model.stores[warp][lane].open.push(number),
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                }
                raced
            }
            Event::StoreCommit { mask } => {
                races.store_commit(at, fix(mask));
                for lane in lanes(warp, mask) {
                    let stores = &mut self.model.stores[warp][lane];
                    let open = std::mem::take(&mut stores.open);
                    stores.groups.push(open);
                }
                Ok(())
            }
            Event::StoreWait { mask, pending, only_read } => {
                races.store_wait(at, fix(mask), pending, only_read);
                for lane in lanes(warp, mask) {
                    let mut waited = self.model.stores[warp][lane].waited(Some(pending));
                    let history = &self.model.history;
                    waited.retain(|number| !only_read || !history[*number].writes);
                    self.model.threads[warp][lane].order.extend(waited);
                }
                Ok(())
            }
            Event::Load { lane, rank, to, from, is_async } => {
                let mut first = |f: &mut dyn FnMut(usize, usize)| f(to, 4);
                let mut second = |f: &mut dyn FnMut(usize, usize)| f(from.unwrap_or(0), 4);
                let source: Option<(usize, super::agents::Pieces<'_>)> = match from {
                    Some(_) if is_async => Some((0, &mut second)),
                    _ => None,
                };
                let issued =
                    races.load_issue(at, lane, (rank, is_async, false), &mut first, source);
                let raced = issued.map(|number| self.issued.push((warp, number)));
                let lane = lane as usize;
                let mut new = done(Target::Shared(rank), to..to + 4, true);
                (new.is_async, new.generic, new.loads) = (is_async, false, true);
                let mut all = vec![(new, is_async.then_some(Fact::AsyncShared))];
                if let Some(from) = from.filter(|_| is_async) {
                    let mut new = done(Target::Global(0), from..from + 4, false);
                    (new.is_async, new.generic, new.loads) = (true, false, true);
                    all.push((new, Some(Fact::AsyncGlobal)));
                }
                let mut numbers = Vec::new();
                for (new, fact) in all {
                    match self.one(warp, lane, fact, new) {
                        Ok(number) => numbers.push(number),
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                }
                if raced.is_ok() {
                    self.model.loads.push((numbers, cluster * 2 + rank, true));
                }
                raced
            }
            Event::Complete { index } => {
                if let Some((numbers, block, pending)) = self.model.loads.get_mut(index)
                    && *pending
                {
                    *pending = false;
                    self.model.mbarriers[*block].pending.order.extend(numbers.iter());
                    let (warp, number) = self.issued[index];
                    let at = At { block: (warp / 2 % 2) as u32, warp: (warp % 2) as u32, step: 1 };
                    self.races[warp / 4].load_complete(at, number, (*block % 2, BARRIER));
                }
                Ok(())
            }
            Event::Wgmma { at: first } => {
                let number = self.next[warp];
                self.next[warp] += 1;
                let raced = races.wgmma_issue(at, number, &mut |f| f(first, 4));
                let known = self.model.released(warp, u32::MAX);
                let mut new = done(Target::Shared(own), first..first + 4, false);
                (new.is_async, new.generic) = (true, false);
                match self.model.access(&known, Some(Fact::AsyncShared), new) {
                    Ok(access) => {
                        let all = &mut self.model.tensor[block(warp)];
                        all.resize(all.len().max(number as usize + 1), Vec::new());
                        all[number as usize].push(access);
                    }
                    Err(found) => verdict = found,
                }
                raced
            }
            Event::WgmmaWait { pending } => {
                let end = self.next[warp].saturating_sub(pending as u64);
                // A warp waits for what the whole group has come to.
                let end = end.min(self.next[warp ^ 1]);
                races.wgmma_wait(at, end);
                let all: Vec<usize> = self.model.tensor[block(warp)]
                    .iter()
                    .take(end as usize)
                    .flatten()
                    .copied()
                    .collect();
                for lane in 0..32 {
                    self.model.threads[warp][lane].order.extend(&all);
                }
                Ok(())
            }
        };
        (raced, verdict)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The first race is found at the same access, whatever the events before.
    #[test]
    fn clocks_and_sets_find_the_same_races(program in prop::collection::vec(events(), 1..60)) {
        let mut both = Both::new();
        for (warp, event) in &program {
            let (raced, verdict) = both.apply(*warp, event);
            prop_assert_eq!(raced.is_err(), verdict != Verdict::Good, "{:?} {:?}: {:?} {:?}", warp, event, raced, verdict);
            let ends = raced.is_err();
            if verdict == Verdict::Invisible {
                prop_assert_eq!(raced.map_err(|race| race.missing), Err(MissingEdge::ProxyFence));
            }
            if ends {
                break;
            }
        }
    }
}
