//! Finds the pipeline stages of a recorded run: pieces of shared memory that asynchronous copies
//! fill again and again. The trace draws each fill as a bar, and
//! [`StageReport`](crate::sim::StageReport) says how long stages are being filled, full, read and
//! free, so that you can see whether copies or compute hold up a pipeline.
//!
//! A kernel does not declare its stages. They are recognised by what fills them:
//!
//! * Copies that signal an mbarrier, for example TMA loads: this *full* barrier identifies the
//!   stage. The *empty* barrier is the one that the filling warp waited for before it issued the
//!   copies. When a phase of the empty barrier completes after the fill, the consumers have
//!   released the stage, and it is free.
//! * `cp.async` groups: the first byte that they fill identifies the stage.
//!
//! Without an empty barrier, as with `cp.async`, the stage is free after its last read.

use std::ops::Range;

use crate::sim::race::MbarrierAddress;
use crate::sorting::{sort, sort_by_key};

/// Some bytes of a block's shared memory.
pub(in crate::sim) type Bytes = Range<usize>;

/// What fills a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Filler {
    /// Copies that signal this mbarrier of the block.
    Barrier(usize),
    /// The `cp.async` group with this index.
    Group(u32),
}

/// One fill of a stage, from its first copy until the stage is free again. Times are those of the
/// timeline.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Fill {
    pub(in crate::sim) block: usize,
    pub(in crate::sim) filler: Filler,
    /// The empty barrier: the mbarrier that the filling warp waited for before its copies.
    pub(in crate::sim) empty: Option<MbarrierAddress>,
    pub(in crate::sim) ranges: Vec<Bytes>,
    pub(in crate::sim) begin: u32,
    pub(in crate::sim) full: Option<u32>,
    pub(in crate::sim) first_read: Option<u32>,
    pub(in crate::sim) last_read: Option<u32>,
    pub(in crate::sim) free: Option<u32>,
    /// How many copies are in flight.
    copies: u32,
}

impl Fill {
    /// Returns the stage's key. Fills with the same key follow each other in one stage.
    pub(in crate::sim) fn stage(&self) -> (usize, bool, usize) {
        let first = self.ranges.iter().map(|range| range.start).min().unwrap_or(0);
        match self.filler {
            Filler::Barrier(at) => (self.block, false, at),
            Filler::Group(_) => (self.block, true, first),
        }
    }

    /// Returns how many bytes of shared memory are filled.
    pub(in crate::sim) fn bytes(&self) -> u64 {
        let mut ranges: Vec<&Bytes> = self.ranges.iter().collect();
        sort_by_key(&mut ranges, |range| range.start);
        let add = |(bytes, end): (usize, usize), range: &Bytes| {
            let start = range.start.max(end);
            (bytes + range.end.saturating_sub(start), end.max(range.end))
        };
        ranges.into_iter().fold((0, 0), add).0 as u64
    }

    fn overlaps(&self, bytes: &Bytes) -> bool {
        self.ranges.iter().any(|range| range.start < bytes.end && bytes.start < range.end)
    }

    /// Returns when the stage became free: when its empty barrier completed or the next fill began,
    /// or without an empty barrier at its last read. A stage that never became free ends with the
    /// run, at `end`.
    pub(in crate::sim) fn end(&self, end: u32) -> u32 {
        // Without an mbarrier, the last read frees the stage.
        let read = self.last_read.filter(|_| self.empty.is_none());
        self.free.into_iter().chain(read).min().unwrap_or(end)
    }
}

/// All fills of a cluster, in the order of their first copies.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Stages {
    pub(in crate::sim) fills: Vec<Fill>,
    /// The fills whose stage is not free yet.
    live: Vec<usize>,
}

impl Stages {
    /// A copy to `ranges` of the block starts.
    pub(in crate::sim) fn fill(
        &mut self,
        block: usize,
        filler: Filler,
        ranges: &[Bytes],
        empty: Option<MbarrierAddress>,
        now: u32,
    ) {
        let same = |fill: &Fill| (fill.block, fill.filler) == (block, filler);
        let of_group = matches!(filler, Filler::Group(_));
        let open = self.live.iter().copied().rev().find(|fill| same(&self.fills[*fill]));
        let open = open.filter(|fill| of_group || self.fills[*fill].full.is_none());
        if let Some(index) = open {
            let fill = &mut self.fills[index];
            for range in ranges {
                if !fill.ranges.contains(range) {
                    fill.ranges.push(range.clone());
                }
            }
            (fill.full, fill.copies) = (None, fill.copies + 1);
            return;
        }
        let fills = &mut self.fills;
        self.live.retain(|index| {
            let fill = &mut fills[*index];
            let again = same(fill)
                || fill.block == block && ranges.iter().any(|range| fill.overlaps(range));
            if again {
                fill.free = fill.free.or(Some(now));
            }
            !again
        });
        self.live.push(fills.len());
        fills.push(Fill {
            block,
            filler,
            empty: empty.filter(|empty| filler != Filler::Barrier(empty.byte)),
            ranges: ranges.to_vec(),
            begin: now,
            full: None,
            first_read: None,
            last_read: None,
            free: None,
            copies: 1,
        });
    }

    /// A copy of a group has landed.
    pub(in crate::sim) fn group_landed(&mut self, block: usize, group: u32, now: u32) {
        for index in &self.live {
            let fill = &mut self.fills[*index];
            if (fill.block, fill.filler) == (block, Filler::Group(group)) {
                fill.copies = fill.copies.saturating_sub(1);
                if fill.copies == 0 {
                    fill.full = Some(now);
                }
            }
        }
    }

    /// A phase of an mbarrier has ended.
    pub(in crate::sim) fn phase_ended(&mut self, barrier: MbarrierAddress, now: u32) {
        let fills = &mut self.fills;
        self.live.retain(|index| {
            let fill = &mut fills[*index];
            if (fill.block, fill.filler) == (barrier.rank, Filler::Barrier(barrier.byte)) {
                fill.full = fill.full.or(Some(now));
            }
            let freed = fill.empty == Some(barrier) && fill.full.is_some();
            if freed {
                fill.free = Some(now);
            }
            !freed
        });
    }

    /// A thread or an asynchronous operation reads bytes of a block. Returns the fills that these
    /// bytes belong to.
    pub(in crate::sim) fn read(&mut self, block: usize, bytes: &Bytes, now: u32) -> Vec<usize> {
        let mut found = Vec::new();
        for index in &self.live {
            let fill = &mut self.fills[*index];
            if fill.block == block && fill.full.is_some() && fill.overlaps(bytes) {
                fill.first_read = fill.first_read.or(Some(now));
                fill.last_read = Some(now);
                found.push(*index);
            }
        }
        found
    }

    /// An asynchronous read of some fills has ended.
    pub(in crate::sim) fn read_ended(&mut self, fills: &[usize], now: u32) {
        for index in fills {
            if let Some(fill) = self.fills.get_mut(*index).filter(|fill| fill.free.is_none()) {
                fill.last_read = Some(now);
            }
        }
    }
}

/// How much time the stages of a cluster spent in each state, in steps of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct StageTime {
    pub(in crate::sim) stages: u64,
    pub(in crate::sim) fills: u64,
    pub(in crate::sim) filling: u64,
    pub(in crate::sim) full: u64,
    pub(in crate::sim) read: u64,
    pub(in crate::sim) free: u64,
}

impl StageTime {
    pub(in crate::sim) fn add(&mut self, other: StageTime) {
        self.stages = self.stages.max(other.stages);
        self.fills += other.fills;
        self.filling += other.filling;
        self.full += other.full;
        self.read += other.read;
        self.free += other.free;
    }
}

impl Stages {
    /// Returns the times of all stages, up to the last step `end`. A stage counts as free only
    /// between two of its fills.
    pub(in crate::sim) fn time(&self, end: u32) -> StageTime {
        let mut keys: Vec<_> = self.fills.iter().map(Fill::stage).collect();
        sort(&mut keys);
        keys.dedup();
        let fills = self.fills.len() as u64;
        let mut time = StageTime { stages: keys.len() as u64, fills, ..StageTime::default() };
        for key in keys {
            let mut before: Option<u32> = None;
            for fill in self.fills.iter().filter(|fill| fill.stage() == key) {
                let ends = fill.end(end);
                let full = fill.full.unwrap_or(ends).min(ends);
                let read = fill.first_read.unwrap_or(ends).clamp(full, ends);
                time.free += before.map_or(0, |before| fill.begin.saturating_sub(before)) as u64;
                time.filling += u64::from(full.saturating_sub(fill.begin));
                time.full += u64::from(read - full);
                time.read += u64::from(ends - read);
                before = Some(ends);
            }
        }
        time
    }
}
