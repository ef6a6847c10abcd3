//! Local memory: a private memory for each thread, which holds the kernel's local arrays.
//! `local_access.rs` performs the loads and stores.

use super::mask::LANES;
use super::shared::SharedRange;

/// The local memory of a warp's threads: words, and for each bit whether it was written. Allocated
/// when a thread first uses it.
#[derive(Debug, Default)]
pub(in crate::sim) struct LocalMemory {
    ranges: Vec<SharedRange>,
    /// Words for each lane.
    lane_words: usize,
    words: Vec<u32>,
    written: Vec<u32>,
}

/// One lane's local memory.
pub(in crate::sim) struct LaneMemory<'l> {
    pub(in crate::sim) words: &'l mut [u32],
    pub(in crate::sim) written: &'l mut [u32],
}

impl LocalMemory {
    /// Makes the memory for allocations at `ranges`, which end at byte `bytes`.
    pub(in crate::sim) fn new(ranges: Vec<SharedRange>, bytes: usize) -> LocalMemory {
        let lane_words = bytes.div_ceil(4);
        LocalMemory { ranges, lane_words, words: Vec::new(), written: Vec::new() }
    }

    /// Forgets the content, for the next block.
    pub(in crate::sim) fn reset(&mut self) {
        self.written.fill(0);
    }

    /// Returns the byte range of an allocation in a lane's memory.
    pub(in crate::sim) fn range(&self, number: u32) -> SharedRange {
        self.ranges.get(number as usize).copied().unwrap_or(SharedRange { start: 0, len: 0 })
    }

    /// Returns a lane's memory.
    pub(in crate::sim) fn lane(&mut self, lane: usize) -> LaneMemory<'_> {
        if self.words.is_empty() {
            self.words = vec![0; self.lane_words * LANES];
            self.written = self.words.clone();
        }
        let range = lane * self.lane_words..(lane + 1) * self.lane_words;
        LaneMemory { words: &mut self.words[range.clone()], written: &mut self.written[range] }
    }
}
