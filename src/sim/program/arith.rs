//! The arithmetic operations as functions on registers: one exhaustive match, one arm for each row of the
//! operation table.

use super::code::{Checked, Inst};
use super::compiler::Compiler;
use super::dispatch::{
    with_bits, with_float, with_fused, with_int, with_number, with_ordered, with_scalar,
    with_signed, with_type,
};
use super::refused::Refused::{self, Malformed};
use super::scalar::{Bits, Cvt, Float, Fused, Int, Number, Signed};
use super::slots::Slots;
use super::vector::narrow_cvt;
use crate::ir::{Arith, Compare, Const, Scalar, Type, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::address::{Alloc, PointerSlots};
use crate::sim::memory::lanes::{Lane, Pure, Regs, Word, binary, ternary, unary};
use crate::sim::memory::mask::lanes_of;

/// The function of an integer division or remainder, which faults where the divisor is zero.
fn divide<T: Int>(scalar: Scalar, dst: u32, [a, b]: [u32; 2], f: fn(T, T) -> T) -> Inst {
    let (dst, a, b) = (dst as usize, a as usize, b as usize);
    let run: Checked = Box::new(move |regs: &mut Regs, mask| {
        let (lhs, rhs) = (T::Word::file(regs)[a], T::Word::file(regs)[b]);
        let out = &mut T::Word::file_mut(regs)[dst];
        for lane in lanes_of(mask) {
            let (lhs, rhs) = (T::of(lhs[lane]), T::of(rhs[lane]));
            if rhs == T::ZERO {
                let dividend = Const::new(scalar, lhs.bits());
                return Err(RawFault::new(lane, RawCause::DivisionByZero { dividend }));
            }
            out[lane] = f(lhs, rhs).word();
        }
        Ok(())
    });
    Inst::Checked(run)
}

impl Compiler<'_> {
    /// The instruction of an arithmetic operation with the result in `result`.
    pub(in crate::sim) fn arith(&mut self, op: &Arith, result: Slots) -> Result<Inst, Refused> {
        Ok(match *op {
            Arith::Add { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_number!(s, T => binary(dst, args, |a: T, b: T| Number::add(a, b))))
            }
            Arith::Sub { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_number!(s, T => binary(dst, args, |a: T, b: T| Number::sub(a, b))))
            }
            Arith::Mul { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_number!(s, T => binary(dst, args, |a: T, b: T| Number::mul(a, b))))
            }
            Arith::Div { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                if s.scalar().is_some_and(Scalar::is_float) {
                    Inst::Pure(
                        with_float!(s, T => binary(dst, args, |a: T, b: T| Float::div(a, b))),
                    )
                } else {
                    let scalar = s.scalar().ok_or(Malformed)?;
                    with_int!(s, T => divide::<T>(scalar, dst, args, Int::quotient))
                }
            }
            Arith::Rem { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                let scalar = s.scalar().ok_or(Malformed)?;
                with_int!(s, T => divide::<T>(scalar, dst, args, Int::remainder))
            }
            Arith::Min { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_number!(s, T => binary(dst, args, |a: T, b: T| Number::min(a, b))))
            }
            Arith::Max { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_number!(s, T => binary(dst, args, |a: T, b: T| Number::max(a, b))))
            }
            Arith::Neg { value } => {
                let (s, dst, [a]) = self.same(result, [value])?;
                Inst::Pure(with_signed!(s, T => unary(dst, a, |a: T| Signed::neg(a))))
            }
            Arith::Abs { value } => {
                let (s, dst, [a]) = self.same(result, [value])?;
                Inst::Pure(with_signed!(s, T => unary(dst, a, |a: T| Signed::abs(a))))
            }
            Arith::Fma { lhs, rhs, addend } => {
                let (s, dst, args) = self.same(result, [lhs, rhs, addend])?;
                Inst::Pure(
                    with_fused!(s, T => ternary(dst, args, |a: T, b: T, c: T| Fused::fma(a, b, c))),
                )
            }
            Arith::Sqrt { value } => {
                let (s, dst, [a]) = self.same(result, [value])?;
                Inst::Pure(with_float!(s, T => unary(dst, a, |a: T| Float::sqrt(a))))
            }
            Arith::And { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_bits!(s, T => binary(dst, args, |a: T, b: T| Bits::and(a, b))))
            }
            Arith::Or { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_bits!(s, T => binary(dst, args, |a: T, b: T| Bits::or(a, b))))
            }
            Arith::Xor { lhs, rhs } => {
                let (s, dst, args) = self.same(result, [lhs, rhs])?;
                Inst::Pure(with_bits!(s, T => binary(dst, args, |a: T, b: T| Bits::xor(a, b))))
            }
            Arith::Not { value } => {
                let (s, dst, [a]) = self.same(result, [value])?;
                Inst::Pure(with_bits!(s, T => unary(dst, a, |a: T| Bits::not(a))))
            }
            Arith::Shl { value, amount } => {
                let (s, dst, [a]) = self.same(result, [value])?;
                let b = self.scalar_of(amount, Scalar::U32)?;
                Inst::Pure(with_int!(s, T => binary(dst, [a, b], |a: T, b: u32| Int::shl(a, b))))
            }
            Arith::Shr { value, amount } => {
                let (s, dst, [a]) = self.same(result, [value])?;
                let b = self.scalar_of(amount, Scalar::U32)?;
                Inst::Pure(with_int!(s, T => binary(dst, [a, b], |a: T, b: u32| Int::shr(a, b))))
            }
            Arith::Setp { lhs, rhs, compare } => {
                let dst = result.scalar(Scalar::Bool)?;
                let (s, a) = self.scalar(lhs)?;
                let args = [a, self.scalar_of(rhs, s)?];
                Inst::Pure(with_ordered!(s, T => setp::<T>(compare, dst, args)))
            }
            Arith::Selp { cond, then_value, else_value } => {
                let cond = self.scalar_of(cond, Scalar::Bool)?;
                self.selp(result, cond, self.slots(then_value)?, self.slots(else_value)?)?
            }
            Arith::Cvt { value, to } => {
                if let Slots::Vector(..) = result {
                    return self.cvt_vector(result, self.slots(value)?);
                }
                let dst = result.scalar(to)?;
                let (from, a) = self.scalar(value)?;
                if from.format().is_some() || to.format().is_some() {
                    return narrow_cvt(from, to, dst, a);
                }
                Inst::Pure(with_scalar!(from, A => with_scalar!(to, B => {
                    unary(dst, a, |x: A| Cvt::<B>::cvt(x))
                })))
            }
            Arith::VecPack { ref values } => self.vec_pack(result, values)?,
            Arith::VecSplat { value, .. } => {
                let (vector, _) = result.vector()?;
                self.vec_pack(result, &vec![value; vector.lanes() as usize])?
            }
            Arith::VecExtract { vector, lane } => self.vec_extract(result, vector, lane)?,
            Arith::AddRounded { .. }
            | Arith::SubRounded { .. }
            | Arith::MulRounded { .. }
            | Arith::FmaRounded { .. }
            | Arith::DivRounded { .. }
            | Arith::SqrtRounded { .. }
            | Arith::RcpRounded { .. }
            | Arith::Approx { .. }
            | Arith::DivApprox { .. }
            | Arith::MinNan { .. }
            | Arith::MaxNan { .. }
            | Arith::Copysign { .. }
            | Arith::Testp { .. }
            | Arith::AddSat { .. }
            | Arith::SubSat { .. }
            | Arith::MulHi { .. }
            | Arith::MulWide { .. }
            | Arith::Mad { .. }
            | Arith::MadHi { .. }
            | Arith::MadHiSat { .. }
            | Arith::Mul24 { .. }
            | Arith::Mad24 { .. }
            | Arith::Mad24HiSat { .. }
            | Arith::AddPacked { .. }
            | Arith::MinPacked { .. }
            | Arith::MaxPacked { .. }
            | Arith::MinRelu { .. }
            | Arith::MaxRelu { .. }
            | Arith::CvtPack { .. }
            | Arith::MadWide { .. }
            | Arith::Sad { .. }
            | Arith::Dp4a { .. }
            | Arith::Dp2a { .. }
            | Arith::Popc { .. }
            | Arith::Clz { .. }
            | Arith::Brev { .. }
            | Arith::Bfind { .. }
            | Arith::Bfe { .. }
            | Arith::Bfi { .. }
            | Arith::Fns { .. }
            | Arith::Lop3 { .. }
            | Arith::Shf { .. }
            | Arith::Prmt { .. }
            | Arith::Szext { .. }
            | Arith::Bmsk { .. }
            | Arith::Bitcast { .. }
            | Arith::CvtRounded { .. }
            | Arith::CvtRint { .. }
            | Arith::CvtSat { .. } => self.bit_function(op, result)?,
            // Special registers do not change while a thread runs: they are filled in before it starts.
            Arith::Sreg { .. } => return Err(Malformed),
        })
    }

    /// The type of `result`, a scalar or a vector of one register, its slot, and those of operands of the same
    /// type.
    fn same<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
    ) -> Result<(Type, u32, [u32; N]), Refused> {
        let (ty, dst) = result.single()?;
        let mut slots = [0; N];
        for (slot, operand) in slots.iter_mut().zip(operands) {
            let (found, from) = self.slots(operand)?.single()?;
            if found != ty {
                return Err(Malformed);
            }
            *slot = from;
        }
        Ok((ty, dst, slots))
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
}

/// The allocation of a pointer that is one of two.
pub(in crate::sim) fn joined(a: PointerSlots, b: PointerSlots) -> Option<u32> {
    match (a.alloc, b.alloc) {
        (Alloc::Static(a), Alloc::Static(b)) if a == b => Some(a),
        _ => None,
    }
}

fn select<T: Lane<Word = T> + Word>(dst: u32, cond: u32, a: u32, b: u32) -> Pure {
    ternary(dst, [cond, a, b], |cond: bool, a: T, b: T| if cond { a } else { b })
}

fn setp<T: Lane + PartialOrd>(compare: Compare, dst: u32, args: [u32; 2]) -> Pure {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match compare {
        Compare::Eq => binary(dst, args, |a: T, b: T| a == b),
        Compare::Ne => {
            binary(dst, args, |a: T, b: T| matches!(a.partial_cmp(&b), Some(Less | Greater)))
        }
        Compare::Equ => {
            binary(dst, args, |a: T, b: T| !matches!(a.partial_cmp(&b), Some(Less | Greater)))
        }
        Compare::Neu => binary(dst, args, |a: T, b: T| a != b),
        Compare::Ltu => {
            binary(dst, args, |a: T, b: T| !matches!(a.partial_cmp(&b), Some(Equal | Greater)))
        }
        Compare::Leu => binary(dst, args, |a: T, b: T| !matches!(a.partial_cmp(&b), Some(Greater))),
        Compare::Gtu => {
            binary(dst, args, |a: T, b: T| !matches!(a.partial_cmp(&b), Some(Equal | Less)))
        }
        Compare::Geu => binary(dst, args, |a: T, b: T| !matches!(a.partial_cmp(&b), Some(Less))),
        Compare::Num => binary(dst, args, |a: T, b: T| a.partial_cmp(&b).is_some()),
        Compare::Nan => binary(dst, args, |a: T, b: T| a.partial_cmp(&b).is_none()),
        Compare::Lt => binary(dst, args, |a: T, b: T| a < b),
        Compare::Le => binary(dst, args, |a: T, b: T| a <= b),
        Compare::Gt => binary(dst, args, |a: T, b: T| a > b),
        Compare::Ge => binary(dst, args, |a: T, b: T| a >= b),
    }
}
