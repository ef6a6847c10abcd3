//! Compiles conversions of pointers, between memory spaces (`cvta`) and to and from integers.

use super::code::Inst;
use super::compiler::Compiler;
use super::refused::Refused::{self, Malformed};
use super::slots::Slots;
use crate::ir::types::{Scalar, Space};
use crate::ir::{OpId, Value};
use crate::sim::fault::raw::AllocationAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::address::{Alloc, PointerSlots};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::{Lane, Regs};
use crate::sim::memory::mask::{LANES, lanes_of};
use crate::sim::memory::shared::of_cluster;
use crate::sim::memory::space::{Allocation, MemorySpace, Starts, global_at};

impl Compiler<'_> {
    pub(in crate::sim) fn ptr_to_int(
        &mut self,
        id: OpId,
        base: Value,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, space, _) = self.pointer(base)?;
        let src = self.regs.offset_slot(pointer) as usize;
        let (scalar, dst) = self.result(&[result], 0)?.single()?;
        let dst = dst as usize;
        let starts =
            Starts { shared: self.ir().shared_layout().0, local: self.ir().local_layout().0 };
        self.emit(
            id,
            Inst::Pure(Box::new(move |regs| {
                let addresses: [u64; LANES] = std::array::from_fn(|lane| {
                    let allocation = Allocation::of(space, pointer.alloc.lane(regs, lane));
                    allocation.address(space, &starts).wrapping_add(regs.d[src][lane])
                });
                if scalar.bits() == 64 {
                    regs.d[dst] = addresses;
                } else {
                    regs.w[dst] = addresses.map(|address| address as u32);
                }
            })),
        );
        Ok(())
    }

    /// Compiles the inverse of [`Compiler::ptr_to_int`] in global memory. If no buffer is at the
    /// address, every access through the pointer is out of bounds.
    pub(in crate::sim) fn int_to_ptr(
        &mut self,
        id: OpId,
        address: Value,
        result: Value,
    ) -> Result<(), Refused> {
        let src = self.scalar_of(address, Scalar::I64)? as usize;
        let Slots::Pointer(PointerSlots { alloc: Alloc::Slot(alloc), offset: Some(dst) }) =
            self.result(&[result], 0)?
        else {
            return Err(Malformed);
        };
        let (alloc, dst) = (alloc as usize, dst as usize);
        self.emit(
            id,
            Inst::Pure(Box::new(move |regs| {
                for lane in 0..LANES {
                    (regs.w[alloc][lane], regs.d[dst][lane]) = global_at(regs.d[src][lane]);
                }
            })),
        );
        Ok(())
    }

    /// Compiles the conversion to a generic pointer, which carries its memory together with the
    /// allocation index.
    pub(in crate::sim) fn cvta(
        &mut self,
        id: OpId,
        base: Value,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, space, _) = self.pointer(base)?;
        let generic = move |number: u32| Allocation::of(space, number).generic();
        let src = self.regs.offset_slot(pointer) as usize;
        let mut to = self.result(&[result], 0)?;
        if let Alloc::Static(number) = pointer.alloc {
            to = self.regs.with_static(to, generic(number));
            self.set(result, to)?;
        }
        let Slots::Pointer(PointerSlots { alloc, offset: Some(dst) }) = to else {
            return Err(Malformed);
        };
        let dst = dst as usize;
        let numbers = match (alloc, pointer.alloc) {
            (Alloc::Slot(to), Alloc::Slot(from)) => Some((to as usize, from as usize)),
            _ => None,
        };
        self.emit(
            id,
            Inst::Pure(Box::new(move |regs| {
                regs.d[dst] = regs.d[src];
                if let Some((to, from)) = numbers {
                    regs.w[to] = regs.w[from].map(generic);
                }
            })),
        );
        Ok(())
    }

    /// Compiles the conversion of a generic pointer to one into a space.
    pub(in crate::sim) fn cvta_to(
        &mut self,
        id: OpId,
        base: Value,
        space: Space,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, from, _) = self.pointer(base)?;
        let src = self.regs.offset_slot(pointer) as usize;
        let to = self.result(&[result], 0)?;
        let Slots::Pointer(PointerSlots { alloc: Alloc::Slot(alloc), offset: Some(dst) }) = to
        else {
            return Err(Malformed);
        };
        let (alloc, dst) = (alloc as usize, dst as usize);
        let run = move |regs: &mut Regs, memory: &mut Memory<'_>, mask: u32| {
            for lane in lanes_of(mask) {
                let found = Allocation::of(from, pointer.alloc.lane(regs, lane));
                let Some(number) = found.number_in(space, memory.here as u32) else {
                    let cause = RawCause::OtherSpace {
                        expected: space,
                        found: found.memory_space.space(),
                        allocation: AllocationAt {
                            space: found.memory_space.space(),
                            number: found.number,
                        },
                    };
                    return Err(RawFault::new(lane, cause));
                };
                regs.w[alloc][lane] = number;
                regs.d[dst][lane] = regs.d[src][lane];
            }
            Ok(())
        };
        self.emit(id, Inst::Memory(Box::new(run)));
        Ok(())
    }

    pub(in crate::sim) fn getctarank(
        &mut self,
        id: OpId,
        base: Value,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, space, _) = self.pointer(base)?;
        let dst = self.result(&[result], 0)?.scalar(Scalar::U32)? as usize;
        let run = move |regs: &mut Regs, memory: &mut Memory<'_>, _: u32| {
            let own = memory.here as u32;
            regs.w[dst] = std::array::from_fn::<u32, LANES, _>(|lane| {
                match Allocation::of(space, pointer.alloc.lane(regs, lane)) {
                    Allocation { memory_space: MemorySpace::Cluster, number } => {
                        of_cluster(number).0
                    }
                    _ => own,
                }
            });
            Ok(())
        };
        self.emit(id, Inst::Memory(Box::new(run)));
        Ok(())
    }

    pub(in crate::sim) fn isspacep(
        &mut self,
        id: OpId,
        base: Value,
        space: Space,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, from, _) = self.pointer(base)?;
        let dst = self.result(&[result], 0)?.scalar(Scalar::Bool)? as usize;
        let run = move |regs: &mut Regs, memory: &mut Memory<'_>, _: u32| {
            let rank = memory.here as u32;
            regs.w[dst] = std::array::from_fn::<u32, LANES, _>(|lane| {
                let found = Allocation::of(from, pointer.alloc.lane(regs, lane));
                found.number_in(space, rank).is_some().word()
            });
            Ok(())
        };
        self.emit(id, Inst::Memory(Box::new(run)));
        Ok(())
    }
}
