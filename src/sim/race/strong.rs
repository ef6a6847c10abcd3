//! Synchronisation through memory: releases and acquires by scope, and fences with relaxed
//! operations, of which kernels build locks, flags and counters.
//!
//! A location stores what was released to it. A thread that reads the location learns it if the
//! scopes of both operations include both threads. A releasing operation stores everything that its
//! thread knows and did. A relaxed operation stores only what its thread has fenced, and a thread
//! that reads with a relaxed operation learns it at its next fence.
//!
//! A polling loop reads the same releases again and again. So each lane remembers the version of
//! the location that it acquired last, and skips this version when it reads it again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::layout::rank;
use super::observed::{Observed, Operation};
use super::threads::{Fact, Knowledge, Threads};
use crate::ir::op::MemScope;

/// A thread's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) cluster: u64,
    pub(super) rank: u32,
}

impl Block {
    fn distance(self, other: Block) -> MemScope {
        if self.cluster != other.cluster {
            MemScope::Gpu
        } else if self.rank != other.rank {
            MemScope::Cluster
        } else {
            MemScope::Cta
        }
    }
}

/// What a strong operation does, and with which scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Strong {
    pub(in crate::sim) scope: MemScope,
    pub(in crate::sim) acquires: bool,
    pub(in crate::sim) releases: bool,
    pub(in crate::sim) reads: bool,
    pub(in crate::sim) writes: bool,
}

/// A release to a location.
#[derive(Clone, Debug)]
struct Release {
    block: Block,
    scope: MemScope,
    /// Set for a releasing operation, unset for a relaxed one.
    whole: bool,
    known: Knowledge,
}

/// The releases to a location since it was last overwritten.
#[derive(Clone, Debug, Default)]
pub(super) struct Location {
    releases: Vec<Release>,
    /// Unique among all versions of all locations; 0 if there is no release.
    version: u64,
    pub(super) observed: Observed,
}

/// The last version that was given to any location.
static VERSION: AtomicU64 = AtomicU64::new(0);

/// What a lane acquired last. Knowledge only grows, so acquiring the same again would teach
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acquired {
    version: u64,
    scope: u32,
    acquires: bool,
}

impl Location {
    /// Called when one lane performs a strong operation: acquires from the location, releases to
    /// it, or both.
    pub(super) fn operate(&mut self, threads: &mut Threads, block: Block, lane: u32, op: Strong) {
        let by = Operation { component: threads.own[0], count: threads.now, lane };
        match (op.reads, op.writes) {
            (true, false) => self.observed.read(by),
            (true, true) => self.observed.update(by),
            (false, true) => {
                self.observed
                    .store(by, |other| threads.state(lane).knows(&threads.own, lane, other));
            }
            (false, false) => {}
        }
        if op.reads {
            self.acquire(threads, block, lane, op);
        }
        if !op.writes {
            return;
        }
        // A store overwrites what was released before; a read-modify-write continues it.
        if !op.reads {
            self.releases.clear();
            self.version = 0;
        }
        let scopes = [MemScope::Cta, MemScope::Cluster, MemScope::Gpu];
        let fenced =
            scopes[..=rank(op.scope) as usize].iter().any(|scope| threads.has_fenced(lane, *scope));
        if !op.releases && !fenced {
            return;
        }
        let mut known = threads.released(1 << lane);
        if !op.releases {
            for scope in scopes {
                let fact = Fact::fenced(scope);
                *known.fact_mut(fact) = known.fact(fact).meet(&known.order);
            }
            known.order.clear();
        }
        let new = Release { block, scope: op.scope, whole: op.releases, known };
        let same = |old: &&mut Release| {
            (old.block, old.scope, old.whole) == (new.block, new.scope, new.whole)
        };
        self.version = 1 + VERSION.fetch_add(1, Relaxed);
        match self.releases.iter_mut().find(same) {
            Some(old) => old.known.join(&new.known),
            None => self.releases.push(new),
        }
    }

    fn acquire(&self, threads: &mut Threads, block: Block, lane: u32, op: Strong) {
        let acquired =
            Acquired { version: self.version, scope: rank(op.scope), acquires: op.acquires };
        if std::mem::replace(&mut threads.acquired[lane as usize], acquired) == acquired {
            return;
        }
        for release in &self.releases {
            let distance = block.distance(release.block);
            if rank(distance) > rank(op.scope) || rank(distance) > rank(release.scope) {
                continue;
            }
            let known = &release.known;
            let fenced = known.fact(Fact::fenced(distance));
            let order = if release.whole { &known.order } else { fenced };
            threads.update(lane, |own| {
                own.join_facts(known);
                if block.cluster == release.block.cluster {
                    own.started |= known.started;
                }
                if op.acquires {
                    own.order.join(order);
                } else {
                    own.fact_mut(Fact::seen(distance)).join(order);
                }
            });
        }
    }
}
