//! Arithmetic, logic and comparison: one exhaustive match with one arm for each row of the family.

use super::dispatch::{
    with_bits, with_float, with_fused, with_int, with_number, with_ordered, with_signed,
};
use super::lane::Lane;
use super::number::{Bits, Float, Fused, Int, Number, Signed};
use super::{Machine, bits, elem, integers, same};
use crate::ir::entity::Value;
use crate::ir::op::{Arith, Compare};

/// Runs an arithmetic operation.
pub(super) fn arith<M: Machine>(op: &Arith, machine: M) -> Option<M::Output> {
    match *op {
        Arith::Add { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_number!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::add))?
        }
        Arith::Sub { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_number!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::sub))?
        }
        Arith::Mul { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_number!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::mul))?
        }
        Arith::Div { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            if ty.scalar()?.is_float() {
                with_float!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Float::div))?
            } else {
                with_int!(ty, T => machine.divide::<T>([lhs, rhs], Int::quotient))?
            }
        }
        Arith::Rem { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_int!(ty, T => machine.divide::<T>([lhs, rhs], Int::remainder))?
        }
        Arith::Min { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_number!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::min))?
        }
        Arith::Max { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_number!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::max))?
        }
        Arith::Neg { value } => {
            let ty = same(&machine, [value])?;
            with_signed!(ty, T => machine.unary::<T, T>(value, Signed::neg))?
        }
        Arith::Abs { value } => {
            let ty = same(&machine, [value])?;
            with_signed!(ty, T => machine.unary::<T, T>(value, Signed::abs))?
        }
        Arith::Fma { lhs, rhs, addend } => {
            let values = [lhs, rhs, addend];
            let ty = same(&machine, values)?;
            with_fused!(ty, T => machine.ternary::<T, T, T, T>(values, Fused::fma))?
        }
        Arith::Sqrt { value } => {
            let ty = same(&machine, [value])?;
            with_float!(ty, T => machine.unary::<T, T>(value, Float::sqrt))?
        }
        Arith::And { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_bits!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Bits::and))?
        }
        Arith::Or { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_bits!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Bits::or))?
        }
        Arith::Xor { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_bits!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Bits::xor))?
        }
        Arith::Not { value } => {
            let ty = same(&machine, [value])?;
            with_bits!(ty, T => machine.unary::<T, T>(value, Bits::not))?
        }
        Arith::Shl { value, amount } => {
            let ty = same(&machine, [value])?;
            with_int!(ty, T => machine.binary::<T, u32, T>([value, amount], Int::shl))?
        }
        Arith::Shr { value, amount } => {
            let ty = same(&machine, [value])?;
            with_int!(ty, T => machine.binary::<T, u32, T>([value, amount], Int::shr))?
        }
        Arith::Setp { lhs, rhs, compare } => {
            let ty = machine.type_of(lhs).filter(|ty| machine.type_of(rhs) == Some(*ty))?;
            with_ordered!(ty, T => setp::<T, M>(compare, machine, [lhs, rhs]))?
        }
        Arith::Selp { cond, then_value, else_value } => {
            machine.select(cond, then_value, else_value)
        }
        Arith::Copysign { magnitude, sign } => {
            let bit = 1u64 << (elem(&machine, sign)?.bits() - 1);
            machine
                .elements([magnitude, sign], move |[magnitude, sign]| magnitude & !bit | sign & bit)
        }
        Arith::MulHi { lhs, rhs } => {
            let width = elem(&machine, lhs)?.bits();
            integers(machine, [lhs, rhs], move |[a, b]| bits::high_half(a, b, width))
        }
        Arith::MadHi { lhs, rhs, addend } => {
            let width = elem(&machine, lhs)?.bits();
            integers(machine, [lhs, rhs, addend], move |[a, b, c]| bits::high_half(a, b, width) + c)
        }
        Arith::MulWide { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| a * b),
        Arith::MadWide { lhs, rhs, addend } => {
            integers(machine, [lhs, rhs, addend], |[a, b, c]| a * b + c)
        }
        Arith::Bfe { value, start, count } => {
            let scalar = elem(&machine, value)?;
            let ty = (scalar.bits(), scalar.is_signed());
            machine.elements([value, start, count], move |[x, start, count]| {
                bits::bfe(x, ty, start as u32, count as u32)
            })
        }
        Arith::Bfi { value, into, start, count } => {
            let width = elem(&machine, value)?.bits();
            machine.elements([value, into, start, count], move |[x, into, start, count]| {
                bits::bfi(x, into, width, start as u32, count as u32)
            })
        }
        Arith::Fns { mask, base, offset } => machine
            .words([mask, base, offset], |[mask, base, offset]| {
                bits::fns(mask, base, offset as i32)
            }),
        Arith::Lop3 { a, b, c, table } => {
            machine.words([a, b, c], move |words| bits::lop3(words, table))
        }
    }
}

fn setp<T: Lane + PartialOrd, M: Machine>(
    compare: Compare,
    machine: M,
    [a, b]: [Value; 2],
) -> Option<M::Output> {
    // One bit for each order of the operands: unordered, less, greater, equal.
    let holds = match compare {
        Compare::Eq => return machine.binary([a, b], |a: T, b: T| a == b),
        Compare::Ne => {
            return machine.binary([a, b], |a: T, b: T| a != b && a.partial_cmp(&b).is_some());
        }
        Compare::Neu => return machine.binary([a, b], |a: T, b: T| a != b),
        Compare::Lt => return machine.binary([a, b], |a: T, b: T| a < b),
        Compare::Le => return machine.binary([a, b], |a: T, b: T| a <= b),
        Compare::Gt => return setp::<T, M>(Compare::Lt, machine, [b, a]),
        Compare::Ge => return setp::<T, M>(Compare::Le, machine, [b, a]),
        Compare::Equ => 0b1001,
        Compare::Ltu => 0b0011,
        Compare::Leu => 0b1011,
        Compare::Gtu => 0b0101,
        Compare::Geu => 0b1101,
        Compare::Num => 0b1110,
        Compare::Nan => 0b0001,
    };
    machine.binary([a, b], move |a: T, b: T| {
        holds >> (u32::from(a <= b) | u32::from(a >= b) << 1) & 1 == 1
    })
}
