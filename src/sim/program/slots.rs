//! Register slots: where a compiled kernel's values live. The compiler places each value in a slot
//! and reuses the slot after the value's last use.

use std::collections::{HashMap, HashSet};

use super::refused::Refused::{self, Malformed};
use crate::ir::types::{Const, Scalar, Type, VectorType};
use crate::sim::memory::address::{Alloc, PointerSlots};
use crate::sim::memory::lanes::{Lane, Move};

/// How many register slots a thread may have: 64 MiB for a whole block. A device has 255 registers,
/// and spills the rest.
pub(in crate::sim) const MAX_SLOTS: u32 = 8192;

/// How many constants keep a slot while a kernel runs. Further ones are written where they are
/// used.
const MAX_CONSTANTS: usize = 4096;

/// Where a value lives in the register files.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Slots {
    /// In the file `d` if the type has 64 bits, otherwise in `w`.
    Scalar(Scalar, u32),
    /// One slot for each register of the vector, at the start of the list. They are in the file `d`
    /// if elements have 64 bits, otherwise in `w`.
    Vector(VectorType, [u32; 8]),
    Pointer(PointerSlots),
}

impl Slots {
    /// Returns a vector's type and slots.
    pub(in crate::sim) fn vector(&self) -> Result<(VectorType, &[u32]), Refused> {
        match self {
            Slots::Vector(ty, slots) => {
                Ok((*ty, slots.get(..ty.registers() as usize).ok_or(Malformed)?))
            }
            Slots::Scalar(..) | Slots::Pointer(_) => Err(Malformed),
        }
    }

    /// Returns the type and slot of a scalar, or of a vector with one register.
    pub(in crate::sim) fn single(&self) -> Result<(Type, u32), Refused> {
        match *self {
            Slots::Scalar(scalar, slot) => Ok((scalar.into(), slot)),
            Slots::Vector(ty, [slot, ..]) if ty.registers() == 1 => Ok((ty.into(), slot)),
            Slots::Vector(..) | Slots::Pointer(_) => Err(Malformed),
        }
    }

    /// Returns the type of a scalar or vector, or `None` for a pointer.
    pub(in crate::sim) fn ty(&self) -> Option<Type> {
        match *self {
            Slots::Scalar(scalar, _) => Some(scalar.into()),
            Slots::Vector(vector, _) => Some(vector.into()),
            Slots::Pointer(_) => None,
        }
    }

    /// Returns the slot of a scalar of type `expected`.
    pub(in crate::sim) fn scalar(self, expected: Scalar) -> Result<u32, Refused> {
        match self {
            Slots::Scalar(scalar, slot) if scalar == expected => Ok(slot),
            _ => Err(Malformed),
        }
    }
}

/// The free and used slots of one register file.
#[derive(Default)]
struct File {
    free: Vec<u32>,
    len: u32,
}

impl File {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.grow())
    }

    fn grow(&mut self) -> u32 {
        self.len += 1;
        self.len - 1
    }
}

/// The slots of both files: which are free, and which hold constants.
#[derive(Default)]
pub(in crate::sim) struct Registers {
    w: File,
    d: File,
    constants: HashMap<(bool, u64), u32>,
    /// Slots of `w` with the same word in all lanes.
    pub(in crate::sim) fill_w: Vec<(u32, u32)>,
    /// Slots of `d` with the same word in all lanes.
    pub(in crate::sim) fill_d: Vec<(u32, u64)>,
}

/// A constant, as a register file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum ConstWord {
    W(u32),
    D(u64),
}

impl From<Const> for ConstWord {
    fn from(constant: Const) -> ConstWord {
        match constant.scalar() {
            Scalar::Bool => ConstWord::W((constant.bits() != 0).word()),
            scalar if scalar.bits() == 64 => ConstWord::D(constant.bits()),
            _ => ConstWord::W(constant.bits() as u32),
        }
    }
}

impl ConstWord {
    fn key(self) -> (bool, u64) {
        match self {
            ConstWord::W(word) => (false, word.into()),
            ConstWord::D(word) => (true, word),
        }
    }
}

impl Registers {
    /// Returns how many slots the files `w` and `d` have.
    pub(in crate::sim) fn len(&self) -> (usize, usize) {
        (self.w.len as usize, self.d.len as usize)
    }

    /// Reserves a slot that no other value gets.
    pub(in crate::sim) fn reserve(&mut self, scalar: Scalar) -> u32 {
        if scalar.bits() == 64 { self.d.grow() } else { self.w.grow() }
    }

    pub(in crate::sim) fn allocate(&mut self, ty: Type) -> Slots {
        match ty {
            Type::Scalar(s) if s.bits() == 64 => Slots::Scalar(s, self.d.take()),
            Type::Scalar(s) => Slots::Scalar(s, self.w.take()),
            Type::Vector(vector) => {
                let file = if vector.elem().bits() == 64 { &mut self.d } else { &mut self.w };
                let mut slots = [0; 8];
                slots.iter_mut().take(vector.registers() as usize).for_each(|s| *s = file.take());
                Slots::Vector(vector, slots)
            }
            // A tensor map is a parameter, and stands for the allocation with its tensor.
            Type::Pointer { .. } | Type::TensorMap { .. } => Slots::Pointer(PointerSlots {
                alloc: Alloc::Slot(self.w.take()),
                offset: Some(self.d.take()),
            }),
        }
    }

    pub(in crate::sim) fn release(&mut self, slots: Slots) {
        match slots {
            Slots::Scalar(s, slot) if s.bits() == 64 => self.d.free.push(slot),
            Slots::Scalar(_, slot) => self.w.free.push(slot),
            Slots::Vector(vector, slots) => {
                let file = if vector.elem().bits() == 64 { &mut self.d } else { &mut self.w };
                file.free.extend(slots.iter().take(vector.registers() as usize));
            }
            Slots::Pointer(PointerSlots { alloc, offset }) => {
                if let Alloc::Slot(slot) = alloc {
                    self.w.free.push(slot);
                }
                self.d.free.extend(offset);
            }
        }
    }

    /// Returns the pointer with an allocation that is known statically.
    pub(in crate::sim) fn with_static(&mut self, slots: Slots, alloc: u32) -> Slots {
        let Slots::Pointer(PointerSlots { alloc: old, offset }) = slots else { return slots };
        if let Alloc::Slot(slot) = old {
            self.w.free.push(slot);
        }
        Slots::Pointer(PointerSlots { alloc: Alloc::Static(alloc), offset })
    }

    /// Checks that `more` slots are still available.
    pub(in crate::sim) fn check_slots(&self, more: u32) -> Result<(), Refused> {
        let used = self.w.len.saturating_add(self.d.len);
        if used.saturating_add(more) > MAX_SLOTS { Err(Refused::TooManyRegisters) } else { Ok(()) }
    }

    fn constant_w(&mut self, word: u32) -> u32 {
        let (file, fill) = (&mut self.w, &mut self.fill_w);
        *self.constants.entry((false, word.into())).or_insert_with(|| {
            let slot = file.grow();
            fill.push((slot, word));
            slot
        })
    }

    fn constant_d(&mut self, word: u64) -> u32 {
        let (file, fill) = (&mut self.d, &mut self.fill_d);
        *self.constants.entry((true, word)).or_insert_with(|| {
            let slot = file.grow();
            fill.push((slot, word));
            slot
        })
    }

    /// Returns the slot that keeps the constant while the kernel runs; `None` if there are too many
    /// already.
    pub(in crate::sim) fn constant(&mut self, word: ConstWord) -> Option<u32> {
        if self.constants.len() >= MAX_CONSTANTS && !self.is_kept(word) {
            return None;
        }
        Some(match word {
            ConstWord::W(word) => self.constant_w(word),
            ConstWord::D(word) => self.constant_d(word),
        })
    }

    /// Returns whether a slot keeps the constant while the kernel runs.
    pub(in crate::sim) fn is_kept(&self, word: ConstWord) -> bool {
        self.constants.contains_key(&word.key())
    }

    /// Returns the slot of the pointer's offset.
    pub(in crate::sim) fn offset_slot(&mut self, pointer: PointerSlots) -> u32 {
        pointer.offset.unwrap_or_else(|| self.constant_d(0))
    }

    /// Returns the slot of the pointer's allocation.
    pub(in crate::sim) fn alloc_slot(&mut self, pointer: PointerSlots) -> u32 {
        match pointer.alloc {
            Alloc::Static(alloc) => self.constant_w(alloc),
            Alloc::Slot(slot) => slot,
        }
    }

    /// Returns copies, in an order that has the same effect as copying all values at once.
    pub(in crate::sim) fn moves(
        &mut self,
        to: &[Slots],
        from: &[Slots],
    ) -> Result<Box<[Move]>, Refused> {
        let mut moves = Vec::new();
        if to.len() != from.len() {
            return Err(Malformed);
        }
        for (to, from) in to.iter().zip(from) {
            match (*to, *from) {
                (Slots::Scalar(a, dst), Slots::Scalar(b, src)) if a == b => {
                    moves.push(if a.bits() == 64 {
                        Move::D { dst, src }
                    } else {
                        Move::W { dst, src }
                    });
                }
                (Slots::Vector(a, to), Slots::Vector(b, from)) if a == b => {
                    let wide = a.elem().bits() == 64;
                    let parts = to.into_iter().zip(from).take(a.registers() as usize);
                    moves.extend(parts.map(|(dst, src)| {
                        if wide { Move::D { dst, src } } else { Move::W { dst, src } }
                    }));
                }
                (Slots::Pointer(to), Slots::Pointer(from)) => {
                    let (Alloc::Slot(alloc), Some(dst)) = (to.alloc, to.offset) else {
                        return Err(Malformed);
                    };
                    moves.push(Move::W { dst: alloc, src: self.alloc_slot(from) });
                    moves.push(Move::D { dst, src: self.offset_slot(from) });
                }
                _ => return Err(Malformed),
            }
        }
        Ok(self.in_order(moves))
    }

    /// Orders copies that should happen at once. If an earlier copy overwrites a slot that a later
    /// copy reads, the slot is first saved in a spare slot.
    fn in_order(&mut self, mut moves: Vec<Move>) -> Box<[Move]> {
        moves.retain(|step| match step {
            Move::W { dst, src } | Move::D { dst, src } => dst != src,
        });
        let (mut before, mut spare) = (Vec::new(), Vec::new());
        let mut written = HashSet::new();
        for step in &mut moves {
            let (is_w, dst, src) = match step {
                Move::W { dst, src } => (true, *dst, src),
                Move::D { dst, src } => (false, *dst, src),
            };
            if written.contains(&(is_w, *src)) {
                let slot = if is_w { self.w.take() } else { self.d.take() };
                before.push(if is_w {
                    Move::W { dst: slot, src: *src }
                } else {
                    Move::D { dst: slot, src: *src }
                });
                spare.push((is_w, slot));
                *src = slot;
            }
            written.insert((is_w, dst));
        }
        for (is_w, slot) in spare {
            if is_w { &mut self.w } else { &mut self.d }.free.push(slot);
        }
        before.extend(moves);
        before.into()
    }
}
