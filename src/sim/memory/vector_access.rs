//! Compiles a warp's vector loads and stores into closures. Unlike the scalar accesses in
//! `access.rs`, they must be aligned to the size of the whole vector.

use super::access::Access;
use super::address::{Address, Offsets};
use super::element::Element;
use super::lanes::Word;
use super::mask::{LANES, lanes_of};
use super::shared::{Shared, SharedRange};
use super::space::{Allocation, MemorySpace};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};

/// The slots of a vector's registers.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct VectorSlots {
    /// How many registers the vector has. Later slots are unused.
    pub(in crate::sim) count: usize,
    pub(in crate::sim) slots: [u32; 4],
}

impl VectorSlots {
    /// Takes the slots of at most 4 registers.
    pub(in crate::sim) fn new(list: &[u32]) -> VectorSlots {
        let mut slots = [0; 4];
        for (slot, from) in slots.iter_mut().zip(list) {
            *slot = *from;
        }
        VectorSlots { count: list.len(), slots }
    }

    /// Returns the slots as indices of a register file.
    fn indices(self) -> [usize; 4] {
        self.slots.map(|slot| slot as usize)
    }
}

/// Returns the lanes' offsets in a shared allocation, which itself need not be aligned for the
/// vector.
pub(in crate::sim) fn shared_offsets(
    address: &Address,
    regs: &super::lanes::Regs,
    found: Allocation,
    range: SharedRange,
    mask: u32,
) -> RawResult<Offsets> {
    let offsets = address.offsets(regs, found, range.len, mask)?;
    let size = address.bytes_accessed() as usize;
    if range.start.is_multiple_of(size) {
        return Ok(offsets);
    }
    for lane in lanes_of(mask) {
        let elem = address.elem.size_bytes() as usize;
        if !(range.start + offsets.byte(lane, elem)).is_multiple_of(size) {
            let at = address.at(regs, lane, found, range.len);
            return Err(RawFault::new(lane, RawCause::Misaligned { access: at }));
        }
    }
    Ok(offsets)
}

pub(in crate::sim) fn load<E: Element + 'static>(address: Address, to: VectorSlots) -> Access {
    let VectorSlots { count, slots } = to;
    Box::new(move |regs, memory, mask| {
        address.for_each_alloc(regs, mask, |regs, found, mask| {
            let mut read = [[E::Word::default(); LANES]; 4];
            match found.memory_space {
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = address.offsets(regs, found, buffer.len_bytes(), mask)?;
                    if found.memory_space == MemorySpace::Const && address.strength.whole {
                        return Err(address.no_order(regs, found, mask));
                    }
                    for (part, read) in read.iter_mut().take(count).enumerate() {
                        offsets.for_each::<E>(mask, |lane, at| {
                            let at = at + part * E::BYTES;
                            let _whole = address.strength.lock(buffer, at, E::BYTES);
                            read[lane] = E::load(at, |i| buffer.word(i));
                        });
                    }
                    address.strength.after();
                }
                MemorySpace::Local => {
                    return address.load_local::<E>(regs, &to.indices()[..count], found, mask);
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at(found, mask)?;
                    let range = shared.range(found.number);
                    let offsets = shared_offsets(&address, regs, found, range, mask)?;
                    let Shared { words, written, .. } = shared;
                    let mut all_written = true;
                    for (part, read) in read.iter_mut().take(count).enumerate() {
                        offsets.for_each::<E>(mask, |lane, at| {
                            let at = range.start + at + part * E::BYTES;
                            read[lane] = E::load(at, |i| words[i]);
                            all_written &= E::is_ones(E::load(at, |i| written[i]));
                        });
                    }
                    if !all_written {
                        return Err(address.uninitialised::<E>(regs, &offsets, found, mask, shared));
                    }
                }
            }
            for (slot, read) in slots.iter().zip(&read).take(count) {
                let out = &mut E::Word::file_mut(regs)[*slot as usize];
                lanes_of(mask).for_each(|lane| out[lane] = read[lane]);
            }
            Ok(())
        })
    })
}

pub(in crate::sim) fn store<E: Element + 'static>(address: Address, from: VectorSlots) -> Access {
    let VectorSlots { count, slots } = from;
    Box::new(move |regs, memory, mask| {
        address.for_each_alloc(regs, mask, |regs, found, mask| match found.memory_space {
            MemorySpace::Global | MemorySpace::Const => {
                let buffer = memory.buffer(found);
                let offsets = address.offsets(regs, found, buffer.len_bytes(), mask)?;
                address.strength.before();
                for (part, slot) in slots.iter().take(count).enumerate() {
                    let from = &E::Word::file(regs)[*slot as usize];
                    offsets.for_each::<E>(mask, |lane, at| {
                        let at = at + part * E::BYTES;
                        let _whole = address.strength.lock(buffer, at, E::BYTES);
                        E::store(at, from[lane], |i, mask, bits| buffer.update(i, mask, bits));
                    });
                }
                Ok(())
            }
            MemorySpace::Local => {
                address.store_local::<E>(regs, &from.indices()[..count], found, mask)
            }
            MemorySpace::Shared | MemorySpace::Cluster => {
                let shared = memory.shared_at_mut(found, mask)?;
                let range = shared.range(found.number);
                let offsets = shared_offsets(&address, regs, found, range, mask)?;
                for (part, slot) in slots.iter().take(count).enumerate() {
                    let from = &E::Word::file(regs)[*slot as usize];
                    offsets.for_each::<E>(mask, |lane, at| {
                        let at = range.start + at + part * E::BYTES;
                        E::store(at, from[lane], |i, mask, bits| {
                            shared.words[i] = shared.words[i] & !mask | bits;
                            shared.written[i] |= mask;
                        });
                    });
                }
                Ok(())
            }
        })
    })
}
