//! Compiles loads, stores, variables and pointer arithmetic, together with the checks of each
//! access. `memory/access.rs` performs the access.

use super::code::{Checked, Inst, MemoryStep};
use super::compiler::{Compiler, get};
use super::context::Next;
use super::refused::Refused::{self, Malformed};
use super::slots::Slots;
use crate::ir::op::Mem;
use crate::ir::types::{Const, Space, VectorType};
use crate::ir::{Entity, LocalData, OpId, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::access::Access;
use crate::sim::memory::address::{Address, Alloc, PointerSlots, Strength, offset};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::{Move, Regs};
use crate::sim::memory::mask::{FULL, lanes_of};
use crate::sim::memory::races::{Accessed, Stored};
use crate::sim::memory::space::{Allocation, MemorySpace};
use crate::sim::memory::vector_access::{VectorSlots, load, store};

impl Compiler<'_> {
    pub(in crate::sim) fn vector_access(
        &mut self,
        id: OpId,
        op: &Mem,
        result: Option<Value>,
    ) -> Result<(), Refused> {
        if let Mem::LdVec { base, index, access: access_of, .. } = *op {
            let to = self.result(&[result.ok_or(Malformed)?], 0)?;
            let (vector, slots) = vector_slots(to)?;
            let strength = Strength::of_load(&access_of);
            let address = self.vector_address(base, index, vector, strength)?;
            let access = match vector.size_bytes() / slots.count as u32 {
                2 => load::<u16>(address, slots),
                4 => load::<u32>(address, slots),
                8 => load::<u64>(address, slots),
                _ => return Err(Malformed),
            };
            let what = Accessed::load(address, &access_of);
            self.emit_access(id, what, access);
        } else if let Mem::StVec { base, index, vector, access: access_of } = *op {
            let (vector, slots) = vector_slots(self.slots(vector)?)?;
            let strength = Strength::of_store(&access_of);
            let address = self.vector_address(base, index, vector, strength)?;
            let access = match vector.size_bytes() / slots.count as u32 {
                2 => store::<u16>(address, slots),
                4 => store::<u32>(address, slots),
                8 => store::<u64>(address, slots),
                _ => return Err(Malformed),
            };
            let bytes = (vector.size_bytes() / slots.count as u32) as usize;
            let stored = Stored::Vector { slots, bytes };
            let what = Accessed::store(address, &access_of, stored);
            self.emit_access(id, what, access);
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

    /// Compiles `assume_aligned`: copies the pointer, and faults if the pointer is not aligned as
    /// promised.
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
        let run = move |regs: &mut Regs, memory: &mut Memory<'_>, mask: u32| {
            for lane in lanes_of(mask) {
                let Allocation { memory_space, number } =
                    Allocation::of(space, from.lane(regs, lane));
                let start = match memory_space {
                    // Buffers and arrays start at a multiple of every alignment that can be asked
                    // for.
                    MemorySpace::Global | MemorySpace::Const => 0,
                    // The allocations have the same place in all blocks.
                    MemorySpace::Shared | MemorySpace::Cluster => {
                        memory.shared().range(number).start as i64
                    }
                    // A local allocation starts at a multiple of this, and nothing more is known.
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

pub(in crate::sim) fn vector_slots(slots: Slots) -> Result<(VectorType, VectorSlots), Refused> {
    let (vector, list) = slots.vector()?;
    Ok((vector, VectorSlots::new(list)))
}

impl Compiler<'_> {
    /// Returns an address that must be in the given space.
    pub(in crate::sim) fn address_in(
        &self,
        space: Space,
        base: Value,
        index: Value,
    ) -> Result<Address, Refused> {
        let address = self.address(base, index, Strength::default())?;
        if address.space == space { Ok(address) } else { Err(Refused::Malformed) }
    }
}

impl Compiler<'_> {
    /// Emits a memory access. `what` describes it for the race detector and the recorder, `run`
    /// performs it.
    pub(in crate::sim) fn emit_access(&mut self, id: OpId, what: Accessed, run: Access) {
        let run = self.watched_access(&what.address, what.writes, run);
        self.emit(id, Inst::Access(Box::new(MemoryStep { run, what })));
    }

    /// Wraps an access so that it also updates the check for missing proxy fences
    /// (`memory/proxy.rs`).
    fn watched_access(&self, address: &Address, stores: bool, access: Access) -> Access {
        let stores = stores
            && match address.space {
                Space::Shared | Space::SharedCluster | Space::Generic => true,
                Space::Global | Space::Const | Space::Local => false,
            };
        let acquires = address.strength.acquires();
        if !self.code.watches_proxies || !(stores || acquires) {
            return access;
        }
        let address = *address;
        Box::new(move |regs, memory, mask| {
            access(regs, memory, mask)?;
            if acquires {
                memory.learn();
            }
            if stores { memory.note_stores(&address, regs, mask) } else { Ok(()) }
        })
    }
}

/// Copies from or to an accumulator's slot.
pub(in crate::sim) fn watched(slot: u32, moves: Box<[Move]>) -> Inst {
    Inst::Act(Box::new(move |context| {
        context.touch(&[slot])?;
        context.regs.copy(&moves, context.active);
        Ok(Next::Go)
    }))
}

impl Compiler<'_> {
    pub(super) fn mem(&mut self, id: OpId, op: &Mem, result: Option<Value>) -> Result<(), Refused> {
        match *op {
            Mem::Ld { base, index, access } => {
                let strength = Strength::of_load(&access);
                let address = self.address(base, index, strength)?;
                let elem = address.elem;
                let to = self.regs.allocate(elem.into());
                let dst = to.scalar(elem)?;
                self.set(result.ok_or(Malformed)?, to)?;
                self.emit_access(id, Accessed::load(address, &access), address.load_elem(dst));
            }
            Mem::St { base, index, value, access } => {
                let strength = Strength::of_store(&access);
                let address = self.address(base, index, strength)?;
                let src = self.scalar_of(value, address.elem)?;
                let what = Accessed::store(address, &access, Stored::Element(src));
                self.emit_access(id, what, address.store_elem(src));
            }
            Mem::LdVec { .. } | Mem::StVec { .. } | Mem::AssumeAligned { .. } => {
                self.vector_access(id, op, result)?;
            }
            Mem::AssumeDivisibleBy { value, divisor } => {
                self.assume(id, [value], result.ok_or(Malformed)?, move |[value]| {
                    let int = value.as_int().unwrap_or(0);
                    let holds =
                        if divisor == 0 { int == 0 } else { int % i128::from(divisor) == 0 };
                    if holds { Ok(()) } else { Err(RawCause::NotDivisible { value, divisor }) }
                })?;
            }
            Mem::AssumeBetween { value, low, high } => {
                let values = [value, low, high];
                self.assume(id, values, result.ok_or(Malformed)?, |[value, low, high]| {
                    let holds = low.as_int() <= value.as_int() && value.as_int() <= high.as_int();
                    if holds { Ok(()) } else { Err(RawCause::OutsideBounds { value, low, high }) }
                })?;
            }
            Mem::IntToPtr { address, .. } => {
                self.int_to_ptr(id, address, result.ok_or(Malformed)?)?;
            }
            Mem::Offset { base, index } => {
                let (pointer, _, elem) = self.pointer(base)?;
                let (index, size_bytes) = (self.index(index)?, elem.size_bytes());
                let (dst, alloc) = self.derived_pointer(pointer, result.ok_or(Malformed)?)?;
                self.emit(
                    id,
                    Inst::Pure(Box::new(move |regs| {
                        regs.d[dst] = offset(regs, pointer, index, size_bytes);
                        if let Some((dst, src)) = alloc {
                            regs.w[dst] = regs.w[src];
                        }
                    })),
                );
            }
            Mem::ArrayBase { array } => {
                get(&self.ir.arrays, array)?;
                let alloc = Alloc::Static(array.index() as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::GlobalBase { global } => {
                get(&self.ir.globals, global)?;
                // Their indices follow those of the parameters.
                let alloc = Alloc::Static((self.ir.params.len() + global.index()) as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::PtrCast { base, .. } => {
                let (pointer, ..) = self.pointer(base)?;
                let (dst, alloc) = self.derived_pointer(pointer, result.ok_or(Malformed)?)?;
                let src = self.regs.offset_slot(pointer) as usize;
                self.emit(
                    id,
                    Inst::Pure(Box::new(move |regs| {
                        regs.d[dst] = regs.d[src];
                        if let Some((dst, src)) = alloc {
                            regs.w[dst] = regs.w[src];
                        }
                    })),
                );
            }
            Mem::SharedBase { shared } => {
                get(&self.ir.shared, shared)?;
                let alloc = Alloc::Static(shared.index() as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::LocalBase { local } => {
                get(&self.ir.locals, local)?;
                let alloc = Alloc::Static(local.index() as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::Cvta { base } => self.cvta(id, base, result.ok_or(Malformed)?)?,
            Mem::CvtaTo { base, space } => {
                self.cvta_to(id, base, space, result.ok_or(Malformed)?)?;
            }
            Mem::Isspacep { base, space } => {
                self.isspacep(id, base, space, result.ok_or(Malformed)?)?;
            }
            Mem::PtrToInt { base } => self.ptr_to_int(id, base, result.ok_or(Malformed)?)?,
            Mem::Getctarank { base } => self.getctarank(id, base, result.ok_or(Malformed)?)?,
            Mem::Mapa { base, cta } => self.mapa(id, base, cta, result.ok_or(Malformed)?)?,
            Mem::GetVar { var, index } => {
                let from = self.register(var, index)?;
                let to = self.regs.allocate(get(&self.ir.vars, var)?.ty);
                self.set(result.ok_or(Malformed)?, to)?;
                let moves = self.regs.moves(&[to], &[from])?;
                let inst = if self.is_watched(var) {
                    watched(from.single()?.1, moves)
                } else {
                    Inst::Pure(Box::new(move |regs| regs.copy(&moves, FULL)))
                };
                self.emit(id, inst);
            }
            Mem::SetVar { value, var, index } => {
                let (to, from) = (self.register(var, index)?, self.slots(value)?);
                let moves = self.regs.moves(&[to], &[from])?;
                let inst = if self.is_watched(var) {
                    watched(to.single()?.1, moves)
                } else {
                    Inst::Copy(moves)
                };
                self.emit(id, inst);
            }
        }
        Ok(())
    }

    /// Compiles a promise such as `assume_divisible_by`: copies the first of some integers, and
    /// faults if the promise about the integers is false.
    fn assume<const N: usize>(
        &mut self,
        id: OpId,
        values: [Value; N],
        result: Value,
        check: impl Fn([Const; N]) -> Result<(), RawCause> + Send + Sync + 'static,
    ) -> Result<(), Refused> {
        let (scalar, _) = self.scalar(values[0])?;
        let mut slots = [0; N];
        for (slot, value) in slots.iter_mut().zip(values) {
            *slot = self.scalar_of(value, scalar)?;
        }
        let dst = self.result(&[result], 0)?.scalar(scalar)? as usize;
        let is_wide = scalar.bits() == 64;
        let run: Checked = Box::new(move |regs: &mut Regs, mask| {
            let bits = |regs: &Regs, slot: u32, lane: usize| match is_wide {
                true => regs.d[slot as usize][lane],
                false => regs.w[slot as usize][lane].into(),
            };
            for lane in lanes_of(mask) {
                check(slots.map(|slot| Const::new(scalar, bits(regs, slot, lane))))
                    .map_err(|cause| RawFault::new(lane, cause))?;
            }
            match is_wide {
                true => regs.d[dst] = regs.d[slots[0] as usize],
                false => regs.w[dst] = regs.w[slots[0] as usize],
            }
            Ok(())
        });
        self.emit(id, Inst::Checked(run));
        Ok(())
    }

    /// Allocates the slots of `result`, a pointer into the allocation of `pointer`. Returns the
    /// slot of its offset and, if the allocation is in a slot, the slots to copy it to and from.
    fn derived_pointer(
        &mut self,
        pointer: PointerSlots,
        result: Value,
    ) -> Result<(usize, Option<(usize, usize)>), Refused> {
        let mut to = self.regs.allocate(get(&self.ir.values, result)?.ty);
        if let Alloc::Static(alloc) = pointer.alloc {
            to = self.regs.with_static(to, alloc);
        }
        let Slots::Pointer(PointerSlots { alloc, offset: Some(dst) }) = to else {
            return Err(Malformed);
        };
        self.set(result, to)?;
        let copied = match (alloc, pointer.alloc) {
            (Alloc::Slot(dst), Alloc::Slot(src)) => Some((dst as usize, src as usize)),
            _ => None,
        };
        Ok((dst as usize, copied))
    }

    pub(in crate::sim) fn address(
        &self,
        base: Value,
        index: Value,
        strength: Strength,
    ) -> Result<Address, Refused> {
        let (pointer, space, elem) = self.pointer(base)?;
        Ok(Address { space, elem, lanes: 1, strength, pointer, index: self.index(index)? })
    }
}
