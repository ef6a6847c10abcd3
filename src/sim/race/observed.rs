//! Observation order: a strong read is ordered after the strong writes whose values it returns. The
//! detector uses it to accept a plain store after such a read, for example when the last thread
//! resets a counter.
//!
//! PTX's causality order (PTX ISA 8.9) has two parts. A release and an acquire order all accesses
//! around them. Without them, a strong read still orders the write that it reads, and the atomic
//! operations that this write continues, before everything that follows the read. For example, the
//! last thread that adds to a counter can reset it by a plain store, although the other threads
//! only added to it.
//!
//! The detector applies this to plain stores only. For a plain load it would hide a missing barrier
//! whenever the thread that loads happens to be the last one that added.
//!
//! A location stores its strong writes and the reads that returned their values. A write is ordered
//! before an access if the accessing thread knows one of these reads. Clocks cannot express this,
//! because they know all accesses of a thread up to some count, never a single one.

use std::collections::{HashMap, VecDeque};

use super::clock::Component;
use super::record::Record;

/// How many reads a location keeps.
const READS: usize = 64;

/// A strong operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) component: Component,
    pub(super) count: u32,
    pub(super) lane: u32,
}

/// A read, and the index of the last write that it saw.
#[derive(Clone, Copy, Debug)]
struct Read {
    by: Operation,
    saw: u32,
}

/// A location's strong writes, and the reads that saw them.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// For each thread, the epoch and the index of its last write.
    writes: HashMap<(Component, u32), (u32, u32)>,
    /// The index of the last write.
    last: u32,
    reads: VecDeque<Read>,
}

impl Observed {
    /// Called when a thread reads the location.
    pub(super) fn read(&mut self, by: Operation) {
        let saw = self.last;
        let same = |read: &Read| {
            (read.saw, read.by.component, read.by.lane) == (saw, by.component, by.lane)
        };
        // A polling loop reads the same write again and again.
        if self.writes.is_empty() || self.reads.iter().any(same) {
            return;
        }
        if self.reads.len() >= READS {
            self.reads.pop_front();
        }
        self.reads.push_back(Read { by, saw });
    }

    /// Called when a thread overwrites the location. The new write continues the earlier writes for
    /// which `knows` returns true.
    pub(super) fn store(&mut self, by: Operation, knows: impl Fn(Operation) -> bool) {
        let saw = self.reads.iter().filter(|read| knows(read.by)).map(|read| read.saw).max();
        self.writes.retain(|(component, lane), (count, index)| {
            let write = Operation { component: *component, count: *count, lane: *lane };
            saw.is_some_and(|saw| *index <= saw) || knows(write)
        });
        self.write(by);
    }

    /// Called when a thread reads and writes the location in one atomic operation, which continues
    /// all earlier writes.
    pub(super) fn update(&mut self, by: Operation) {
        self.write(by);
        // A thread that knows an earlier read, but not this one, races with this one.
        self.reads.clear();
        self.reads.push_back(Read { by, saw: self.last });
    }

    fn write(&mut self, by: Operation) {
        self.last += 1;
        self.writes.insert((by.component, by.lane), (by.count, self.last));
    }

    /// Returns whether some read saw the lane's strong write, and `knows` says that the thread
    /// knows this read.
    pub(super) fn is_before(
        &self,
        write: &Record,
        lane: u32,
        knows: impl Fn(Operation) -> bool,
    ) -> bool {
        let Some((count, index)) = self.writes.get(&(write.component, lane)) else { return false };
        *count >= write.count && self.reads.iter().any(|read| read.saw >= *index && knows(read.by))
    }
}
