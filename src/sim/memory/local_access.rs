//! Loads and stores of local memory, lane by lane. A load of bytes that the thread has never
//! written is a fault. `access.rs` and `vector_access.rs` call it for pointers into local memory.

use super::address::Address;
use super::element::Element;
use super::lanes::{Regs, Word};
use super::local::LaneMemory;
use super::mask::lanes_of;
use super::shared::SharedRange;
use super::space::Allocation;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};

impl Address {
    /// Loads the parts of a vector, or one element, into the slots `dst`.
    pub(in crate::sim) fn load_local<E: Element>(
        &self,
        regs: &mut Regs,
        dst: &[usize],
        found: Allocation,
        mask: u32,
    ) -> RawResult {
        if self.strength.whole {
            return Err(self.no_order(regs, found, mask));
        }
        let SharedRange { start, len } = regs.local.range(found.number);
        let offsets = self.offsets(regs, found, len, mask)?;
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

    /// Stores the parts of a vector, or one element, from the slots `src`.
    pub(in crate::sim) fn store_local<E: Element>(
        &self,
        regs: &mut Regs,
        src: &[usize],
        found: Allocation,
        mask: u32,
    ) -> RawResult {
        if self.strength.whole {
            return Err(self.no_order(regs, found, mask));
        }
        let SharedRange { start, len } = regs.local.range(found.number);
        let offsets = self.offsets(regs, found, len, mask)?;
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
