//! Compiles the operations that pack and extract vector elements. Elements of less than 32 bits
//! share a register slot, so [`At`] says where in the slot an element is.

use super::code::Inst;
use super::compiler::Compiler;
use super::refused::Refused::{self, Malformed};
use super::slots::Slots;
use crate::ir::Value;
use crate::ir::types::{Scalar, VectorType};
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::LANES;

/// Where an element lives in the register files.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum At {
    /// In a slot of the file `w`.
    W { slot: usize },
    /// In a slot of the file `d`.
    D { slot: usize },
    /// In some bits of a slot of `w`.
    Bits { slot: usize, shift: u32, mask: u32 },
}

impl At {
    pub(in crate::sim) fn scalar(scalar: Scalar, slot: u32) -> At {
        let slot = slot as usize;
        if scalar.bits() == 64 { At::D { slot } } else { At::W { slot } }
    }

    /// Returns where element `lane` of a vector with these slots is.
    pub(in crate::sim) fn element(
        vector: VectorType,
        slots: &[u32],
        lane: u32,
    ) -> Result<At, Refused> {
        let (per_slot, bits) = (vector.lanes_per_register(), vector.elem().bits());
        let slot = *slots.get((lane / per_slot) as usize).ok_or(Malformed)?;
        if per_slot == 1 {
            return Ok(At::scalar(vector.elem(), slot));
        }
        let (shift, mask) = (lane % per_slot * bits, (1 << bits) - 1);
        Ok(At::Bits { slot: slot as usize, shift, mask })
    }

    /// Returns the element's bits in all threads, zero-extended.
    pub(in crate::sim) fn read(self, regs: &Regs) -> [u64; LANES] {
        match self {
            At::W { slot } => regs.w[slot].map(u64::from),
            At::D { slot } => regs.d[slot],
            At::Bits { slot, shift, mask } => {
                regs.w[slot].map(|word| u64::from(word >> shift & mask))
            }
        }
    }

    /// Writes the element and keeps whatever else is in its slot.
    pub(in crate::sim) fn write(self, regs: &mut Regs, values: &[u64; LANES]) {
        match self {
            At::W { slot } => regs.w[slot] = values.map(|value| value as u32),
            At::D { slot } => regs.d[slot] = *values,
            At::Bits { slot, shift, mask } => {
                for (word, value) in regs.w[slot].iter_mut().zip(values) {
                    *word = *word & !(mask << shift) | (*value as u32 & mask) << shift;
                }
            }
        }
    }
}

/// A function of elements in all threads.
pub(in crate::sim) type InThreads<const N: usize> =
    Box<dyn Fn([[u64; LANES]; N]) -> [u64; LANES] + Send + Sync>;

pub(in crate::sim) fn in_threads<const N: usize>(
    f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
) -> InThreads<N> {
    Box::new(move |from| {
        let mut out = [0; LANES];
        for (thread, out) in out.iter_mut().enumerate() {
            *out = f(of_thread(&from, thread));
        }
        out
    })
}

fn of_thread<const N: usize>(from: &[[u64; LANES]; N], thread: usize) -> [u64; N] {
    from.map(|values| values[thread])
}

/// Makes an instruction that writes `f` of some elements to other slots, step by step. No slot may
/// be read after it was written.
pub(in crate::sim) fn each<const N: usize>(steps: Vec<(At, [At; N])>, f: InThreads<N>) -> Inst {
    Inst::Pure(Box::new(move |regs| {
        for (to, from) in &steps {
            let values = f(from.map(|at| at.read(regs)));
            to.write(regs, &values);
        }
    }))
}

impl Compiler<'_> {
    pub(in crate::sim) fn vec_pack(
        &mut self,
        result: Slots,
        values: &[Value],
    ) -> Result<Inst, Refused> {
        let (vector, slots) = result.vector()?;
        if values.len() != vector.lanes() as usize {
            return Err(Malformed);
        }
        let mut steps = Vec::with_capacity(values.len());
        for (lane, value) in (0..).zip(values) {
            let from = At::scalar(vector.elem(), self.scalar_of(*value, vector.elem())?);
            steps.push((At::element(vector, slots, lane)?, [from]));
        }
        Ok(each(steps, Box::new(|[bits]| bits)))
    }

    pub(in crate::sim) fn vec_extract(
        &mut self,
        result: Slots,
        vector: Value,
        lane: u32,
    ) -> Result<Inst, Refused> {
        let from = self.slots(vector)?;
        let (vector, slots) = from.vector()?;
        let dst = result.scalar(vector.elem())?;
        let step = (At::scalar(vector.elem(), dst), [At::element(vector, slots, lane)?]);
        Ok(each(vec![step], Box::new(|[bits]| bits)))
    }
}
