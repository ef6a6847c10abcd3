//! Loads and stores of vectors, and what is promised of pointers.

use super::access::{Access, Address, Alloc, Memory, Offsets, PointerSlots, Strength};
use super::element::Element;
use super::lanes::{LANES, Word, lanes_of};
use super::shared::{Shared, SharedRange};
use super::space::{Allocation, MemorySpace};
use crate::ir::{LocalData, Mem, OpId, Value, VectorType};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::refused::Refused::{self, Malformed};
use crate::sim::program::slots::Slots;

/// The slots of a vector: as many as it has registers.
type Parts = (usize, [u32; 4]);

impl Compiler<'_> {
    pub(in crate::sim) fn vector_access(
        &mut self,
        id: OpId,
        op: &Mem,
        result: Option<Value>,
    ) -> Result<(), Refused> {
        if let Mem::LdVec { base, index, access, .. } = *op {
            let to = self.result(&[result.ok_or(Malformed)?], 0)?;
            let (vector, parts) = parts(to)?;
            let strength = Strength::of_load(&access);
            let address = self.vector_address(base, index, vector, strength)?;
            let access = match vector.size_bytes() / parts.0 as u32 {
                2 => load::<u16>(address, parts),
                4 => load::<u32>(address, parts),
                8 => load::<u64>(address, parts),
                _ => return Err(Malformed),
            };
            let access = self.watched_access(&address, false, access);
            self.emit(id, Inst::Memory(access));
        } else if let Mem::StVec { base, index, vector, access } = *op {
            let (vector, parts) = parts(self.slots(vector)?)?;
            let strength = Strength::of_store(&access);
            let address = self.vector_address(base, index, vector, strength)?;
            let access = match vector.size_bytes() / parts.0 as u32 {
                2 => store::<u16>(address, parts),
                4 => store::<u32>(address, parts),
                8 => store::<u64>(address, parts),
                _ => return Err(Malformed),
            };
            let access = self.watched_access(&address, true, access);
            self.emit(id, Inst::Memory(access));
        } else if let Mem::AssumeAligned { base, bytes } = *op {
            self.assume_aligned(id, base, bytes, result.ok_or(Malformed)?)?;
        }
        Ok(())
    }

    fn vector_address(
        &self,
        base: Value,
        index: Value,
        vector: VectorType,
        strength: Strength,
    ) -> Result<Address, Refused> {
        let address = self.address(base, index, strength)?;
        if address.elem != vector.elem() {
            return Err(Malformed);
        }
        Ok(Address { lanes: vector.lanes(), ..address })
    }

    /// A copy of the pointer, which is checked.
    fn assume_aligned(
        &mut self,
        id: OpId,
        base: Value,
        bytes: u32,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, space, _) = self.pointer(base)?;
        if !bytes.is_power_of_two() {
            return Err(Malformed);
        }
        let mut to = self.result(&[result], 0)?;
        if let Alloc::Static(alloc) = pointer.alloc {
            to = self.regs.with_static(to, alloc);
            self.set(result, to)?;
        }
        let Slots::Pointer(PointerSlots { alloc, offset: Some(dst) }) = to else {
            return Err(Malformed);
        };
        let (src, from) = (self.regs.offset_slot(pointer), pointer.alloc);
        let run = move |regs: &mut super::lanes::Regs, memory: &mut Memory<'_>, mask: u32| {
            for lane in lanes_of(mask) {
                let Allocation { memory_space, number } =
                    Allocation::of(space, from.lane(regs, lane));
                let start = match memory_space {
                    // Buffers and arrays start at a multiple of every alignment that is asked for.
                    MemorySpace::Global | MemorySpace::Const => 0,
                    // The allocations lie the same way in all blocks.
                    MemorySpace::Shared | MemorySpace::Cluster => {
                        memory.shared().range(number).start as i64
                    }
                    // An allocation starts at a multiple of this, and of no more as far as is known.
                    MemorySpace::Local => LocalData::ALIGN_BYTES.into(),
                };
                let byte = regs.d[src as usize][lane] as i64;
                if start.wrapping_add(byte) & (i64::from(bytes) - 1) != 0 {
                    return Err(RawFault::new(lane, RawCause::BrokenPromise { bytes, byte }));
                }
            }
            regs.d[dst as usize] = regs.d[src as usize];
            if let (Alloc::Slot(dst), Alloc::Slot(src)) = (alloc, from) {
                regs.w[dst as usize] = regs.w[src as usize];
            }
            Ok(())
        };
        self.emit(id, Inst::Memory(Box::new(run)));
        Ok(())
    }
}

fn parts(slots: Slots) -> Result<(VectorType, Parts), Refused> {
    let (vector, list) = slots.vector()?;
    let mut all = [0; 4];
    for (slot, from) in all.iter_mut().zip(list) {
        *slot = *from;
    }
    Ok((vector, (list.len(), all)))
}

/// The slots as indices of a register file.
fn all_slots(slots: [u32; 4]) -> [usize; 4] {
    slots.map(|slot| slot as usize)
}

/// The offsets of the lanes of `mask` in a shared allocation, which itself need not be aligned for what is accessed.
pub(in crate::sim) fn shared_offsets(
    address: &Address,
    regs: &super::lanes::Regs,
    (found, range, mask): (Allocation, SharedRange, u32),
) -> RawResult<Offsets> {
    let offsets = address.offsets(regs, (found, range.len, mask))?;
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

fn load<E: Element + 'static>(address: Address, (count, slots): Parts) -> Access {
    Box::new(move |regs, memory, mask| {
        address.for_each_alloc(regs, mask, |regs, found, mask| {
            let mut read = [[E::Word::default(); LANES]; 4];
            match found.memory_space {
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = address.offsets(regs, (found, buffer.len_bytes(), mask))?;
                    if found.memory_space == MemorySpace::Const && address.strength.whole {
                        return Err(address.no_order(regs, (found, mask)));
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
                    return address.load_local::<E>(
                        regs,
                        &all_slots(slots)[..count],
                        (found, mask),
                    );
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at(found, mask)?;
                    let range = shared.range(found.number);
                    let offsets = shared_offsets(&address, regs, (found, range, mask))?;
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
                        let at = (found, mask);
                        return Err(address.uninitialised::<E>(regs, &offsets, at, shared));
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

fn store<E: Element + 'static>(address: Address, (count, slots): Parts) -> Access {
    Box::new(move |regs, memory, mask| {
        address.for_each_alloc(regs, mask, |regs, found, mask| match found.memory_space {
            MemorySpace::Global | MemorySpace::Const => {
                let buffer = memory.buffer(found);
                let offsets = address.offsets(regs, (found, buffer.len_bytes(), mask))?;
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
                address.store_local::<E>(regs, &all_slots(slots)[..count], (found, mask))
            }
            MemorySpace::Shared | MemorySpace::Cluster => {
                let shared = memory.shared_at_mut(found, mask)?;
                let range = shared.range(found.number);
                let offsets = shared_offsets(&address, regs, (found, range, mask))?;
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
