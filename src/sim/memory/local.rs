//! Local memory: what each thread of a warp has of its own.

use super::access::Address;
use super::element::Element;
use super::lanes::{LANES, Regs, Word, lanes_of};
use super::shared::SharedRange;
use super::space::Allocation;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::program::code::Code;

/// The local memory of the threads of a warp: words, and for each bit whether it was written. It takes no room
/// until a thread uses it.
#[derive(Debug, Default)]
pub(in crate::sim) struct LocalMemory {
    ranges: Vec<SharedRange>,
    /// The words of one lane.
    lane_words: usize,
    words: Vec<u32>,
    written: Vec<u32>,
}

/// Local memory of one lane.
pub(in crate::sim) struct LaneMemory<'l> {
    pub(in crate::sim) words: &'l mut [u32],
    pub(in crate::sim) written: &'l mut [u32],
}

impl LocalMemory {
    pub(in crate::sim) fn new(code: &Code) -> LocalMemory {
        let (ranges, lane_words) = (code.local.clone(), code.local_bytes.div_ceil(4));
        LocalMemory { ranges, lane_words, words: Vec::new(), written: Vec::new() }
    }

    /// Forgets all content, for the next block.
    pub(in crate::sim) fn reset(&mut self) {
        self.written.fill(0);
    }

    /// Returns the byte range of an allocation in the memory of a lane.
    pub(in crate::sim) fn range(&self, number: u32) -> SharedRange {
        self.ranges.get(number as usize).copied().unwrap_or(SharedRange { start: 0, len: 0 })
    }

    /// The memory of a lane.
    pub(in crate::sim) fn lane(&mut self, lane: usize) -> LaneMemory<'_> {
        if self.words.is_empty() {
            self.words = vec![0; self.lane_words * LANES];
            self.written = self.words.clone();
        }
        let range = lane * self.lane_words..(lane + 1) * self.lane_words;
        LaneMemory { words: &mut self.words[range.clone()], written: &mut self.written[range] }
    }
}

impl Address {
    /// The parts of a vector, or one element, from local memory to the slots `dst`.
    pub(in crate::sim) fn load_local<E: Element>(
        &self,
        regs: &mut Regs,
        dst: &[usize],
        (found, mask): (Allocation, u32),
    ) -> RawResult {
        if self.strength.whole {
            return Err(self.no_order(regs, (found, mask)));
        }
        let SharedRange { start, len } = regs.local.range(found.number);
        let offsets = self.offsets(regs, (found, len, mask))?;
        for lane in lanes_of(mask) {
            let first = offsets.byte(lane, E::BYTES);
            let mut read = [E::Word::default(); 4];
            let LaneMemory { words, written } = regs.local.lane(lane);
            for (part, read) in read.iter_mut().take(dst.len()).enumerate() {
                let at = start + first + part * E::BYTES;
                *read = E::load(at, |i| words[i]);
                if !E::is_ones(E::load(at, |i| written[i])) {
                    let is_missing =
                        |byte: &usize| <u8 as Element>::load(*byte, |i| written[i]) == 0;
                    let byte = (at..at + E::BYTES).find(is_missing).unwrap_or(at) - start;
                    let access = self.at(regs, lane, found, len).read();
                    let cause = RawCause::Uninitialised { access, byte: byte as u64 };
                    return Err(RawFault::new(lane, cause));
                }
            }
            for (slot, read) in dst.iter().zip(read) {
                E::Word::file_mut(regs)[*slot][lane] = read;
            }
        }
        Ok(())
    }

    /// As [`load_local`](Address::load_local), from the slots `src` to local memory.
    pub(in crate::sim) fn store_local<E: Element>(
        &self,
        regs: &mut Regs,
        src: &[usize],
        (found, mask): (Allocation, u32),
    ) -> RawResult {
        if self.strength.whole {
            return Err(self.no_order(regs, (found, mask)));
        }
        let SharedRange { start, len } = regs.local.range(found.number);
        let offsets = self.offsets(regs, (found, len, mask))?;
        for lane in lanes_of(mask) {
            let first = offsets.byte(lane, E::BYTES);
            for (part, slot) in src.iter().enumerate() {
                let value = E::Word::file(regs)[*slot][lane];
                let LaneMemory { words, written } = regs.local.lane(lane);
                E::store(start + first + part * E::BYTES, value, |i, mask, bits| {
                    words[i] = words[i] & !mask | bits;
                    written[i] |= mask;
                });
            }
        }
        Ok(())
    }
}
