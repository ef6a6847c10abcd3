//! Compiles operations without side effects: each becomes an instruction that applies a function of
//! [`eval`](crate::ir::eval) to all lanes. Constant folding uses the same functions, so both
//! compute the same bits. `eval::evaluate` dispatches, so a new operation of a known form needs no
//! code here.

use super::code::{Checked, Inst};
use super::compiler::Compiler;
use super::refused::Refused::{self, Malformed};
use super::slots::Slots;
use super::vector::{At, InThreads, each, in_threads};
use crate::ir::Value;
use crate::ir::eval::{self, Int, Machine};
use crate::ir::op::Op;
use crate::ir::types::{Const, Scalar, Type};
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::address::{Alloc, PointerSlots};
use crate::sim::memory::lanes::{Lane, Pure, Regs, Word, binary, ternary, unary};
use crate::sim::memory::mask::{LANES, lanes_of};

/// Compiles the function of one operation into an instruction on all lanes.
struct Lanes<'c, 'k> {
    compiler: &'c mut Compiler<'k>,
    result: Slots,
}

impl Lanes<'_, '_> {
    /// Returns the slots of the result and of operands that have one register each.
    fn slots<const N: usize>(&self, values: [Value; N]) -> Option<(u32, [u32; N])> {
        let (_, dst) = self.result.single().ok()?;
        let mut slots = [0; N];
        for (slot, value) in slots.iter_mut().zip(values) {
            (_, *slot) = self.compiler.slots(value).ok()?.single().ok()?;
        }
        Some((dst, slots))
    }
}

impl Machine for Lanes<'_, '_> {
    type Output = Inst;

    fn type_of(&self, value: Value) -> Option<Type> {
        self.compiler.slots(value).ok()?.ty()
    }

    fn result(&self) -> Option<Type> {
        self.result.ty()
    }

    fn unary<A: Lane, R: Lane>(
        self,
        value: Value,
        f: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Option<Inst> {
        let (dst, [a]) = self.slots([value])?;
        Some(Inst::Pure(unary(dst, a, f)))
    }

    fn binary<A: Lane, B: Lane, R: Lane>(
        self,
        values: [Value; 2],
        f: impl Fn(A, B) -> R + Send + Sync + 'static,
    ) -> Option<Inst> {
        let (dst, slots) = self.slots(values)?;
        Some(Inst::Pure(binary(dst, slots, f)))
    }

    fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
        self,
        values: [Value; 3],
        f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
    ) -> Option<Inst> {
        let (dst, slots) = self.slots(values)?;
        Some(Inst::Pure(ternary(dst, slots, f)))
    }

    fn divide<T: Int>(self, values: [Value; 2], f: fn(T, T) -> T) -> Option<Inst> {
        let scalar = self.result()?.scalar()?;
        let (dst, slots) = self.slots(values)?;
        Some(divide(scalar, dst, slots, f))
    }

    fn elements<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
    ) -> Option<Inst> {
        self.compiler.elementwise(self.result, values, in_threads(f)).ok()
    }

    fn words<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u32; N]) -> u32 + Send + Sync + 'static,
    ) -> Option<Inst> {
        let f = in_threads(move |bits| f(bits.map(eval::low)).into());
        self.compiler.wordwise(self.result, values, f).ok()
    }

    fn select(self, cond: Value, then_value: Value, else_value: Value) -> Option<Inst> {
        let Lanes { compiler, result } = self;
        let cond = compiler.scalar_of(cond, Scalar::Bool).ok()?;
        let (a, b) = (compiler.slots(then_value).ok()?, compiler.slots(else_value).ok()?);
        compiler.selp(result, cond, a, b).ok()
    }

    fn pack(self, values: &[Value]) -> Option<Inst> {
        self.compiler.vec_pack(self.result, values).ok()
    }

    fn extract(self, vector: Value, lane: u32) -> Option<Inst> {
        self.compiler.vec_extract(self.result, vector, lane).ok()
    }

    fn bitcast(self, value: Value) -> Option<Inst> {
        self.compiler.bitcast(self.result, value).ok()
    }
}

/// Makes an integer division or remainder, which faults if the divisor is zero.
fn divide<T: Int>(scalar: Scalar, dst: u32, [a, b]: [u32; 2], f: fn(T, T) -> T) -> Inst {
    let (dst, a, b) = (dst as usize, a as usize, b as usize);
    let run: Checked = Box::new(move |regs: &mut Regs, mask| {
        let (lhs, rhs) = (T::Word::file(regs)[a], T::Word::file(regs)[b]);
        let out = &mut T::Word::file_mut(regs)[dst];
        for lane in lanes_of(mask) {
            let (lhs, rhs) = (T::of(lhs[lane]), T::of(rhs[lane]));
            if rhs == T::ZERO {
                let dividend = Const::new(scalar, lhs.word().bits());
                return Err(RawFault::new(lane, RawCause::DivisionByZero { dividend }));
            }
            out[lane] = f(lhs, rhs).word();
        }
        Ok(())
    });
    Inst::Checked(run)
}

impl Compiler<'_> {
    /// Returns the instruction of a pure operation whose result goes to `result`.
    pub(in crate::sim) fn pure(&mut self, op: &Op, result: Slots) -> Result<Inst, Refused> {
        eval::evaluate(op, Lanes { compiler: self, result }).ok_or(Malformed)
    }

    /// Applies `f` to the bits of each element of the operands. They are scalars, or vectors with
    /// as many elements as the result. Bits are zero-extended.
    fn elementwise<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
        f: InThreads<N>,
    ) -> Result<Inst, Refused> {
        let lanes = match result {
            Slots::Vector(vector, _) => vector.lanes(),
            Slots::Scalar(..) | Slots::Pointer(_) => 1,
        };
        let at = |slots: Slots, lane: u32| match slots {
            Slots::Scalar(scalar, slot) => Ok(At::scalar(scalar, slot)),
            Slots::Vector(..) => {
                let (vector, slots) = slots.vector()?;
                At::element(vector, slots, lane)
            }
            Slots::Pointer(_) => Err(Malformed),
        };
        let mut steps = Vec::new();
        for lane in 0..lanes {
            let mut from = [At::scalar(Scalar::U32, 0); N];
            for (from, operand) in from.iter_mut().zip(operands) {
                *from = at(self.slots(operand)?, lane)?;
            }
            steps.push((at(result, lane)?, from));
        }
        Ok(each(steps, f))
    }

    /// Applies `f` to whole words. Each operand consists of one word.
    fn wordwise<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
        f: InThreads<N>,
    ) -> Result<Inst, Refused> {
        let word = |slots: Slots| match slots.single()? {
            (ty, slot) if ty.bits() <= 32 => Ok(At::scalar(Scalar::U32, slot)),
            _ => Err(Malformed),
        };
        let mut from = [At::scalar(Scalar::U32, 0); N];
        for (from, operand) in from.iter_mut().zip(operands) {
            *from = word(self.slots(operand)?)?;
        }
        let step = (word(result)?, from);
        Ok(each(vec![step], f))
    }

    fn selp(&mut self, to: Slots, cond: u32, a: Slots, b: Slots) -> Result<Inst, Refused> {
        match (to, a, b) {
            (Slots::Scalar(s, dst), Slots::Scalar(sa, a), Slots::Scalar(sb, b))
                if s == sa && s == sb =>
            {
                Ok(Inst::Pure(if s.bits() == 64 {
                    select::<u64>(dst, cond, a, b)
                } else {
                    select::<u32>(dst, cond, a, b)
                }))
            }
            (Slots::Vector(to, dst), Slots::Vector(ta, a), Slots::Vector(tb, b))
                if to == ta && to == tb =>
            {
                let wide = to.elem().bits() == 64;
                let parts: Vec<Pure> = (0..to.registers() as usize)
                    .map(|i| match wide {
                        true => select::<u64>(dst[i], cond, a[i], b[i]),
                        false => select::<u32>(dst[i], cond, a[i], b[i]),
                    })
                    .collect();
                Ok(Inst::Pure(Box::new(move |regs| parts.iter().for_each(|part| part(regs)))))
            }
            (Slots::Pointer(to), Slots::Pointer(a), Slots::Pointer(b)) => {
                let dst = to.offset.ok_or(Malformed)?;
                let offset =
                    select::<u64>(dst, cond, self.regs.offset_slot(a), self.regs.offset_slot(b));
                Ok(Inst::Pure(match to.alloc {
                    Alloc::Static(_) => offset,
                    Alloc::Slot(dst) => {
                        let alloc = select::<u32>(
                            dst,
                            cond,
                            self.regs.alloc_slot(a),
                            self.regs.alloc_slot(b),
                        );
                        Box::new(move |regs| {
                            alloc(regs);
                            offset(regs);
                        })
                    }
                }))
            }
            _ => Err(Malformed),
        }
    }

    /// Copies a value's bits to the slots of the result, in order.
    fn bitcast(&self, result: Slots, value: Value) -> Result<Inst, Refused> {
        let pieces = |slots: Slots| -> Result<Vec<(At, u32)>, Refused> {
            match slots {
                Slots::Scalar(scalar, slot) => Ok(vec![(At::scalar(scalar, slot), scalar.bits())]),
                Slots::Vector(..) => {
                    let (vector, slots) = slots.vector()?;
                    let scalar = if vector.elem().bits() == 64 { Scalar::U64 } else { Scalar::U32 };
                    let bits = vector.bits() / vector.registers();
                    Ok(slots.iter().map(|slot| (At::scalar(scalar, *slot), bits)).collect())
                }
                Slots::Pointer(_) => Err(Malformed),
            }
        };
        let (to, from) = (pieces(result)?, pieces(self.slots(value)?)?);
        // More than 128 bits are always pieces of 32 bits on both sides.
        if to.iter().map(|(_, width)| width).sum::<u32>() > u128::BITS {
            let steps = to.iter().zip(&from).map(|((to, _), (from, _))| (*to, [*from])).collect();
            return Ok(each(steps, Box::new(|[bits]| bits)));
        }
        Ok(Inst::Pure(Box::new(move |regs| {
            let mut bits = [0u128; LANES];
            let mut shift = 0;
            for (from, width) in &from {
                let words = from.read(regs);
                for (bits, word) in bits.iter_mut().zip(words) {
                    *bits |= (u128::from(word) & ((1 << width) - 1)) << shift;
                }
                shift += width;
            }
            for (to, width) in &to {
                to.write(regs, &bits.map(|bits| (bits & ((1 << width) - 1)) as u64));
                bits.iter_mut().for_each(|bits| *bits >>= width);
            }
        })))
    }
}

/// Returns the static allocation of a pointer that `selp` chooses from `a` and `b`, if both point
/// into the same one.
pub(in crate::sim) fn joined(a: PointerSlots, b: PointerSlots) -> Option<u32> {
    match (a.alloc, b.alloc) {
        (Alloc::Static(a), Alloc::Static(b)) if a == b => Some(a),
        _ => None,
    }
}

fn select<T: Lane<Word = T> + Word>(dst: u32, cond: u32, a: u32, b: u32) -> Pure {
    ternary(dst, [cond, a, b], |cond: bool, a: T, b: T| if cond { a } else { b })
}
