//! A naive model of happens-before: a thread knows a set of accesses, and a synchronisation edge is
//! a union of two sets. Tests compare the race detector's verdicts with it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::layout::rank;
use super::super::threads::Fact;
use super::super::*;

pub(super) type Set = BTreeSet<usize>;

pub(super) const SCOPES: [MemScope; 3] = [MemScope::Cta, MemScope::Cluster, MemScope::Gpu];

/// The launch has two clusters of two blocks of two warps; the second warp of a block has four
/// threads.
pub(super) const WARPS: usize = 8;
pub(super) const THREADS: u32 = 36;
/// The mbarrier of a block.
pub(super) const BARRIER: usize = 128;

#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) order: Set,
    pub(super) facts: [Set; 9],
}

impl Known {
    pub(super) fn join(&mut self, other: &Known) {
        self.order.extend(&other.order);
        self.join_facts(other);
    }

    pub(super) fn join_facts(&mut self, other: &Known) {
        for (fact, found) in self.facts.iter_mut().zip(&other.facts) {
            fact.extend(found);
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) warp: usize,
    pub(super) target: Target,
    pub(super) bytes: std::ops::Range<usize>,
    pub(super) writes: bool,
    pub(super) strong: Option<MemScope>,
    pub(super) is_async: bool,
    /// Whether it completes at an mbarrier.
    pub(super) loads: bool,
    pub(super) generic: bool,
    /// Whether a thread makes the access itself, so observation order applies.
    pub(super) by_thread: bool,
    /// The strong operations that come before everything after this one. For a strong read, what it
    /// observes.
    pub(super) observed: Set,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sync {
    pub(super) pending: Known,
    pub(super) done: Known,
}

#[derive(Clone, Debug)]
pub(super) struct Released {
    pub(super) warp: usize,
    pub(super) scope: MemScope,
    pub(super) whole: bool,
    pub(super) known: Known,
}

/// A lane's operations in groups: the accesses of the open group, and those of each committed one.
#[derive(Clone, Debug, Default)]
pub(super) struct Grouped {
    pub(super) open: Vec<usize>,
    pub(super) groups: Vec<Vec<usize>>,
}

impl Grouped {
    pub(super) fn waited(&self, pending: Option<u32>) -> Vec<usize> {
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
pub(super) struct Model {
    pub(super) threads: Vec<Vec<Known>>,
    pub(super) history: Vec<Done>,
    /// Two named barriers for each block.
    pub(super) barriers: Vec<[Sync; 2]>,
    pub(super) clusters: [Sync; 2],
    pub(super) mbarriers: Vec<Sync>,
    pub(super) locations: Vec<((Target, usize), Vec<Released>)>,
    /// For each location, the strong operations that a read observes.
    pub(super) chains: BTreeMap<(usize, usize), Set>,
    pub(super) copies: Vec<Vec<Grouped>>,
    pub(super) stores: Vec<Vec<Grouped>>,
    /// For each operation that completes at an mbarrier: its accesses, its block, and whether it is
    /// pending.
    pub(super) loads: Vec<(Vec<usize>, usize, bool)>,
    /// For each block, the accesses of each `wgmma`.
    pub(super) tensor: Vec<Vec<Vec<usize>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    Concurrent,
    Invisible,
}

pub(super) fn block(warp: usize) -> usize {
    warp / 2
}

pub(super) fn distance(a: usize, b: usize) -> MemScope {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => MemScope::Cta,
        (false, true) => MemScope::Cluster,
        (false, false) => MemScope::Gpu,
    }
}

pub(super) fn lanes(warp: usize, mask: u32) -> Vec<usize> {
    let mask = if warp % 2 == 1 { mask & 15 } else { mask };
    lanes_of(mask).map(|lane| lane as usize).collect()
}

/// Translates a target from how a cluster's threads name it to the whole launch.
pub(super) fn absolute(warp: usize, target: Target) -> Target {
    match target {
        Target::Shared(rank) => Target::Shared(warp / 4 * 2 + rank),
        global @ Target::Global(_) => global,
    }
}

impl Model {
    pub(super) fn new() -> Model {
        Model {
            threads: vec![vec![Known::default(); 32]; WARPS],
            history: Vec::new(),
            barriers: vec![Default::default(); 4],
            clusters: Default::default(),
            mbarriers: vec![Sync::default(); 4],
            locations: Vec::new(),
            chains: BTreeMap::new(),
            copies: vec![vec![Grouped::default(); 32]; WARPS],
            stores: vec![vec![Grouped::default(); 32]; WARPS],
            loads: Vec::new(),
            tensor: vec![Vec::new(); 4],
        }
    }

    pub(super) fn released(&self, warp: usize, mask: u32) -> Known {
        let mut all = Known::default();
        for lane in lanes(warp, mask) {
            all.join(&self.threads[warp][lane]);
        }
        all
    }

    pub(super) fn learn(&mut self, warp: usize, mask: u32, what: &Known) {
        for lane in lanes(warp, mask) {
            self.threads[warp][lane].join(what);
        }
    }

    /// Makes an access with what is known. Returns its number if it does not race.
    pub(super) fn access(
        &mut self,
        known: &Known,
        proxy: Option<Fact>,
        new: Done,
    ) -> Result<usize, Verdict> {
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
            let is_observed = new.by_thread && new.writes && self.observes(known, number);
            if !known.order.contains(&number) && !is_observed {
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

    /// Returns whether a known operation has observed operation `number`.
    fn observes(&self, known: &Known, number: usize) -> bool {
        known.order.iter().any(|read| self.history[*read].observed.contains(&number))
    }

    /// Makes operation `number` of a thread a strong one.
    fn observe(
        &mut self,
        warp: usize,
        lane: usize,
        number: usize,
        at: (Target, usize),
        op: Strong,
    ) {
        let key = match at.0 {
            Target::Shared(rank) => (rank, at.1),
            Target::Global(buffer) => (usize::MAX - buffer, at.1),
        };
        let mut chain = self.chains.remove(&key).unwrap_or_default();
        let known = &self.threads[warp][lane];
        if op.writes {
            if !op.reads {
                chain.retain(|old| known.order.contains(old) || self.observes(known, *old));
            }
            let before = known.order.iter().copied().filter(|old| {
                let old = &self.history[*old];
                old.strong.is_some() && (old.target, old.bytes.start) == at
            });
            chain.extend(before);
            chain.insert(number);
        }
        if op.reads {
            self.history[number].observed = chain.clone();
        }
        self.chains.insert(key, chain);
    }

    pub(super) fn operate(
        &mut self,
        warp: usize,
        lane: usize,
        number: usize,
        at: (Target, usize),
        op: Strong,
    ) {
        self.observe(warp, lane, number, at, op);
        let index = self.locations.iter().position(|(known, _)| *known == at);
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
