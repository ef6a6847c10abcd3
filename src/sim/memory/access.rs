//! Compiles a warp's scalar loads and stores into closures, which the interpreter calls when it
//! reaches the operation. Each closure checks the access against the allocation from which the
//! pointer was made.
//!
//! An access outside that allocation is a fault, even if its address lies in another allocation.

use super::address::Address;
use super::cluster_memory::Memory;
use super::element::Element;
use super::lanes::{Regs, Word};
use super::shared::{Shared, SharedRange};
use super::space::{Allocation, MemorySpace};
use crate::ir::types::Scalar;
use crate::sim::fault::raw_fault::RawResult;

/// A compiled access. It is called with the warp's registers, the memory that the warp sees, and
/// the mask of the active lanes.
pub(in crate::sim) type Access =
    Box<dyn Fn(&mut Regs, &mut Memory<'_>, u32) -> RawResult + Send + Sync>;

impl Address {
    /// Compiles a load into slot `dst`, in the element type's register file.
    pub(in crate::sim) fn load_elem(self, dst: u32) -> Access {
        match self.elem {
            Scalar::Bool => self.load::<bool>(dst),
            Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => self.load::<u8>(dst),
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => self.load::<u16>(dst),
            Scalar::I32 | Scalar::U32 | Scalar::Tf32 | Scalar::F32 => self.load::<u32>(dst),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.load::<u64>(dst),
        }
    }

    /// Compiles a store from slot `src`, in the element type's register file. If lanes store to the
    /// same bytes, the value of the highest lane stays.
    pub(in crate::sim) fn store_elem(self, src: u32) -> Access {
        match self.elem {
            Scalar::Bool => self.store::<bool>(src),
            Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => self.store::<u8>(src),
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => self.store::<u16>(src),
            Scalar::I32 | Scalar::U32 | Scalar::Tf32 | Scalar::F32 => self.store::<u32>(src),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.store::<u64>(src),
        }
    }

    fn load<E: Element + 'static>(self, dst: u32) -> Access {
        let dst = dst as usize;
        let each =
            move |regs: &mut Regs, memory: &mut Memory<'_>, found: Allocation, mask| match found
                .memory_space
            {
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = self.offsets(regs, found, buffer.len_bytes(), mask)?;
                    if found.memory_space == MemorySpace::Const && self.strength.whole {
                        return Err(self.no_order(regs, found, mask));
                    }
                    let dst = &mut E::Word::file_mut(regs)[dst];
                    offsets.for_each::<E>(mask, |lane, at| {
                        let _whole = self.strength.lock(buffer, at, E::BYTES);
                        dst[lane] = E::load(at, |i| buffer.word(i));
                    });
                    self.strength.after();
                    Ok(())
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at(found, mask)?;
                    let SharedRange { start, len } = shared.range(found.number);
                    let offsets = self.offsets(regs, found, len, mask)?;
                    let Shared { words, written, .. } = shared;
                    let dst = &mut E::Word::file_mut(regs)[dst];
                    let mut all_written = true;
                    offsets.for_each::<E>(mask, |lane, at| {
                        dst[lane] = E::load(start + at, |i| words[i]);
                        all_written &= E::is_ones(E::load(start + at, |i| written[i]));
                    });
                    if all_written {
                        return Ok(());
                    }
                    Err(self.uninitialised::<E>(regs, &offsets, found, mask, shared))
                }
                MemorySpace::Local => self.load_local::<E>(regs, &[dst], found, mask),
            };
        Box::new(move |regs, memory, mask| {
            self.for_each_alloc(regs, mask, |regs, found, mask| each(regs, memory, found, mask))
        })
    }

    fn store<E: Element + 'static>(self, src: u32) -> Access {
        let src = src as usize;
        let each = move |regs: &mut Regs, memory: &mut Memory<'_>, found: Allocation, mask| {
            match found.memory_space {
                // The verifier has checked that nothing is stored to a constant array.
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = self.offsets(regs, found, buffer.len_bytes(), mask)?;
                    let src = &E::Word::file(regs)[src];
                    self.strength.before();
                    offsets.for_each::<E>(mask, |lane, at| {
                        let _whole = self.strength.lock(buffer, at, E::BYTES);
                        E::store(at, src[lane], |i, mask, bits| buffer.update(i, mask, bits));
                    });
                    Ok(())
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at_mut(found, mask)?;
                    let SharedRange { start, len } = shared.range(found.number);
                    let offsets = self.offsets(regs, found, len, mask)?;
                    let src = &E::Word::file(regs)[src];
                    let Shared { words, written, .. } = shared;
                    offsets.for_each::<E>(mask, |lane, at| {
                        E::store(start + at, src[lane], |i, mask, bits| {
                            words[i] = words[i] & !mask | bits;
                            written[i] |= mask;
                        });
                    });
                    Ok(())
                }
                MemorySpace::Local => self.store_local::<E>(regs, &[src], found, mask),
            }
        };
        Box::new(move |regs, memory, mask| {
            self.for_each_alloc(regs, mask, |regs, found, mask| each(regs, memory, found, mask))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::{Alloc, Index, PointerSlots, Strength};
    use super::super::agent::Pending;
    use super::super::block_memory::BlockMemory;
    use super::super::buffer::GlobalBuffer;
    use super::*;
    use crate::ir::types::Space;
    use crate::sim::fault::raw::AccessAt;
    use crate::sim::fault::raw_fault::RawCause;
    use crate::sim::options::Accumulation;

    /// A warp whose lane `i` points to byte `byte(i)` of a 64-byte allocation, with index 0.
    fn check_load(byte: impl Fn(usize) -> i64, mask: u32) -> RawResult {
        let mut regs = Regs::new(2, 1);
        regs.d[0] = std::array::from_fn(|lane| byte(lane) as u64);
        let buffer = GlobalBuffer::zeros(64);
        let globals = [&buffer];
        let mut memory = Memory {
            globals: &globals,
            maps: &[],
            acquired: Vec::new(),
            arrays: &[],
            blocks: vec![BlockMemory::new(0, &[], false)],
            here: 0,
            warp: 0,
            proxies: None,
            pending: Pending::default(),
            cluster_arrival: false,
            threads: 32,
            operations: 0,
            accumulation: Accumulation::Nearest,
            races: None,
            recorder: None,
        };
        let pointer = PointerSlots { alloc: Alloc::Static(0), offset: Some(0) };
        let address = Address {
            space: Space::Global,
            elem: Scalar::F32,
            lanes: 1,
            strength: Strength::default(),
            pointer,
            index: Index::I32(0),
        };
        address.load_elem(1)(&mut regs, &mut memory, mask)
    }

    #[test]
    fn only_active_lanes_are_checked() {
        assert!(check_load(|lane| lane as i64 % 16 * 4, u32::MAX).is_ok());
        assert!(check_load(|lane| if lane == 3 { 0 } else { -4 }, 0b1000).is_ok());
        let trap = check_load(|lane| lane as i64 * 4, u32::MAX).unwrap_err();
        assert_eq!(trap.lane, 16);
        assert!(matches!(trap.cause, RawCause::OutOfBounds { access: AccessAt { byte: 64, .. } }));
    }

    #[test]
    fn misaligned_bytes_inside_are_told_from_bytes_outside() {
        let trap = check_load(|_| 6, 0b10).unwrap_err();
        assert_eq!(trap.lane, 1);
        assert!(matches!(trap.cause, RawCause::Misaligned { access: AccessAt { byte: 6, .. } }));
        let trap = check_load(|_| 62, 1).unwrap_err();
        assert!(matches!(trap.cause, RawCause::OutOfBounds { access: AccessAt { byte: 62, .. } }));
    }
}
