//! [`Compiler`]: the state while a kernel is compiled, namely the slots of values and variables,
//! and the steps emitted so far. Each file that compiles a family of operations adds methods to it.
//! Here are the helpers that they share.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::code::{Code, Inst, Step};
use super::refused::Refused::{self, Malformed};
use super::slots::{ConstWord, Registers, Slots};
use crate::ir::op::SpecialReg;
use crate::ir::types::{Const, Scalar, Space, Type};
use crate::ir::{Arena, Entity, KernelIr, OpId, RegionId, Value, VarId};
use crate::sim::memory::address::{Alloc, Index, PointerSlots};
use crate::sim::memory::mask::LANES;

/// Returns the entry of an arena, or refuses the kernel.
pub(in crate::sim) fn get<K: Entity, T>(arena: &Arena<K, T>, key: K) -> Result<&T, Refused> {
    arena.get(key).ok_or(Malformed)
}

/// A loop that is being compiled: where `break` and `continue` inside it jump to.
pub(super) struct Target {
    pub(super) frame: u32,
    pub(super) args: Vec<Slots>,
    pub(super) results: Vec<Slots>,
}

pub(in crate::sim) struct Compiler<'k> {
    pub(super) ir: &'k KernelIr,
    pub(in crate::sim) code: Code,
    pub(in crate::sim) regs: Registers,
    pub(super) slots: Vec<Option<Slots>>,
    /// For each operation, the results that are dead after it.
    pub(super) dead: Vec<SmallVec<[Value; 2]>>,
    pub(super) vars: Vec<Vec<Slots>>,
    pub(super) vars_of: HashMap<RegionId, Vec<VarId>>,
    /// For each variable, whether it holds accumulators of `wgmma`.
    pub(super) watched: Vec<bool>,
    pub(in crate::sim) special: HashMap<SpecialReg, u32>,
    pub(super) targets: HashMap<OpId, Target>,
    /// How many operations since the last step needed no step.
    pub(in crate::sim) weight: u32,
    /// How many frames are open.
    pub(super) depth: u32,
}

impl Compiler<'_> {
    pub(in crate::sim) fn ir(&self) -> &KernelIr {
        self.ir
    }

    // Values.

    pub(in crate::sim) fn slots(&self, value: Value) -> Result<Slots, Refused> {
        self.slots.get(value.index()).copied().flatten().ok_or(Malformed)
    }

    /// Returns a scalar's type and slot.
    pub(in crate::sim) fn scalar(&self, value: Value) -> Result<(Scalar, u32), Refused> {
        match self.slots(value)? {
            Slots::Scalar(scalar, slot) => Ok((scalar, slot)),
            Slots::Vector(..) | Slots::Pointer(_) => Err(Malformed),
        }
    }

    /// Returns the slot of a scalar of type `expected`.
    pub(in crate::sim) fn scalar_of(&self, value: Value, expected: Scalar) -> Result<u32, Refused> {
        self.slots(value)?.scalar(expected)
    }

    pub(in crate::sim) fn pointer(
        &self,
        value: Value,
    ) -> Result<(PointerSlots, Space, Scalar), Refused> {
        match (self.slots(value)?, get(&self.ir.values, value)?.ty) {
            (Slots::Pointer(slots), Type::Pointer { space, elem, .. }) => Ok((slots, space, elem)),
            _ => Err(Malformed),
        }
    }

    pub(super) fn index(&self, value: Value) -> Result<Index, Refused> {
        match self.scalar(value)? {
            (Scalar::I32, slot) => Ok(Index::I32(slot)),
            (Scalar::U32, slot) => Ok(Index::U32(slot)),
            (Scalar::I64, slot) => Ok(Index::I64(slot)),
            (Scalar::U64, slot) => Ok(Index::U64(slot)),
            _ => Err(Malformed),
        }
    }

    pub(in crate::sim) fn set(&mut self, value: Value, slots: Slots) -> Result<(), Refused> {
        *self.slots.get_mut(value.index()).ok_or(Malformed)? = Some(slots);
        Ok(())
    }

    /// Returns the slot of a constant. If no slot keeps it, a step writes it.
    pub(super) fn constant(&mut self, op: OpId, constant: Const) -> Slots {
        let (scalar, word) = (constant.scalar(), ConstWord::from(constant));
        if let Some(slot) = self.regs.constant(word) {
            self.weight += 1;
            return Slots::Scalar(scalar, slot);
        }
        let slots = self.regs.allocate(scalar.into());
        let Slots::Scalar(_, slot) = slots else { return slots };
        let slot = slot as usize;
        self.emit(
            op,
            Inst::Pure(match word {
                ConstWord::D(word) => Box::new(move |regs| regs.d[slot] = [word; LANES]),
                ConstWord::W(word) => Box::new(move |regs| regs.w[slot] = [word; LANES]),
            }),
        );
        slots
    }

    pub(super) fn values(&self, values: &[Value]) -> Result<Vec<Slots>, Refused> {
        values.iter().map(|value| self.slots(*value)).collect()
    }

    pub(in crate::sim) fn allocate_values(
        &mut self,
        values: &[Value],
    ) -> Result<Vec<Slots>, Refused> {
        let mut all = Vec::with_capacity(values.len());
        for value in values {
            let slots = self.regs.allocate(get(&self.ir.values, *value)?.ty);
            self.set(*value, slots)?;
            all.push(slots);
        }
        Ok(all)
    }

    pub(in crate::sim) fn emit(&mut self, op: OpId, inst: Inst) -> usize {
        let weight = std::mem::take(&mut self.weight).saturating_add(1);
        self.code.steps.push(Step { inst, weight });
        self.code.ops.push(op);
        self.code.steps.len() - 1
    }

    // Walks.

    /// Returns the allocation that stands for a tensor map.
    pub(in crate::sim) fn tensor_map(&self, value: Value) -> Result<Alloc, Refused> {
        match (self.slots(value)?, get(&self.ir.values, value)?.ty) {
            (Slots::Pointer(slots), Type::TensorMap { .. }) => Ok(slots.alloc),
            _ => Err(Malformed),
        }
    }

    /// Returns whether the variable holds accumulators of `wgmma`, which are written
    /// asynchronously.
    pub(in crate::sim) fn is_watched(&self, var: VarId) -> bool {
        self.watched.get(var.index()).copied().unwrap_or(false)
    }

    pub(in crate::sim) fn var_type(&self, var: VarId) -> Result<Type, Refused> {
        Ok(get(&self.ir.vars, var)?.ty)
    }

    pub(in crate::sim) fn register(&self, var: VarId, index: u32) -> Result<Slots, Refused> {
        let registers = self.vars.get(var.index()).ok_or(Malformed)?;
        registers.get(index as usize).copied().ok_or(Malformed)
    }
}
