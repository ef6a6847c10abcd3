//! Evaluates arithmetic, logic and comparisons: one exhaustive match with an arm per row of the op
//! table's family `Arith`. A new row needs an arm here.

use super::dispatch::{
    with_bits, with_float, with_fused, with_int, with_modular, with_number, with_ordered,
    with_signed, with_unsigned, with_word,
};
use super::number::{Bits, Float, Fused, Int, Number, Signed};
use super::{Machine, bits, elem, integers, same};
use crate::ir::entity::Value;
use crate::ir::op::{Arith, Compare};
use crate::ir::types::Type;

/// Runs an arithmetic operation.
pub(super) fn arith<M: Machine>(op: &Arith, machine: M) -> Option<M::Output> {
    match *op {
        Arith::Add { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_modular!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::add))?
        }
        Arith::Sub { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_modular!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::sub))?
        }
        Arith::Mul { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_modular!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Number::mul))?
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
            with_word!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Bits::and))?
        }
        Arith::Or { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_word!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Bits::or))?
        }
        Arith::Xor { lhs, rhs } => {
            let ty = same(&machine, [lhs, rhs])?;
            with_word!(ty, T => machine.binary::<T, T, T>([lhs, rhs], Bits::xor))?
        }
        Arith::Not { value } => {
            let ty = same(&machine, [value])?;
            with_bits!(ty, T => machine.unary::<T, T>(value, Bits::not))?
        }
        Arith::Shl { value, amount } => {
            let ty = same(&machine, [value])?;
            with_unsigned!(ty, T => machine.binary::<T, u32, T>([value, amount], Int::shl))?
        }
        Arith::Shr { value, amount } => {
            let ty = same(&machine, [value])?;
            with_int!(ty, T => machine.binary::<T, u32, T>([value, amount], Int::shr))?
        }
        Arith::Setp { lhs, rhs, compare } => {
            let ty = machine.type_of(lhs).filter(|ty| machine.type_of(rhs) == Some(*ty))?;
            match ty.scalar()?.is_float() {
                true => with_float!(ty, T => setp_float::<T, M>(compare, machine, [lhs, rhs]))?,
                false => setp_int(compare, machine, ty, [lhs, rhs]),
            }
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
            let (bits, signed) = (scalar.bits(), scalar.is_signed());
            machine.elements([value, start, count], move |[x, start, count]| {
                bits::bfe(x, bits, signed, start as u32, count as u32)
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

// These are functions because each arm of the macros would compile its own copy of a closure.
fn equal<T: PartialEq>(a: T, b: T) -> bool {
    a == b
}

fn unequal<T: PartialEq>(a: T, b: T) -> bool {
    a != b
}

fn less<T: PartialOrd>(a: T, b: T) -> bool {
    a < b
}

fn at_most<T: PartialOrd>(a: T, b: T) -> bool {
    a <= b
}

/// Compares integers. Equality compares whole words.
fn setp_int<M: Machine>(
    compare: Compare,
    machine: M,
    ty: Type,
    [a, b]: [Value; 2],
) -> Option<M::Output> {
    match compare {
        Compare::Eq => with_word!(ty, T => machine.binary([a, b], equal::<T>))?,
        Compare::Ne => with_word!(ty, T => machine.binary([a, b], unequal::<T>))?,
        Compare::Lt => with_ordered!(ty, T => machine.binary([a, b], less::<T>))?,
        Compare::Le => with_ordered!(ty, T => machine.binary([a, b], at_most::<T>))?,
        Compare::Gt => setp_int(Compare::Lt, machine, ty, [b, a]),
        Compare::Ge => setp_int(Compare::Le, machine, ty, [b, a]),
        // Integers are never unordered.
        _ => None,
    }
}

/// Compares floating-point values.
fn setp_float<T: Float + PartialOrd, M: Machine>(
    compare: Compare,
    machine: M,
    values: [Value; 2],
) -> Option<M::Output> {
    let [unordered, less, greater, equal] = orders(compare);
    machine.binary(values, move |a: T, b: T| {
        let (is_less, is_greater, is_equal) = (a < b, a > b, a == b);
        let is_unordered = !(is_less | is_greater | is_equal);
        is_less & less | is_greater & greater | is_equal & equal | is_unordered & unordered
    })
}

/// Returns whether the comparison holds for unordered, less, greater and equal operands, in this
/// order.
fn orders(compare: Compare) -> [bool; 4] {
    let holds = match compare {
        Compare::Eq => 0b1000,
        Compare::Ne => 0b0110,
        Compare::Lt => 0b0010,
        Compare::Le => 0b1010,
        Compare::Gt => 0b0100,
        Compare::Ge => 0b1100,
        Compare::Equ => 0b1001,
        Compare::Neu => 0b0111,
        Compare::Ltu => 0b0011,
        Compare::Leu => 0b1011,
        Compare::Gtu => 0b0101,
        Compare::Geu => 0b1101,
        Compare::Num => 0b1110,
        Compare::Nan => 0b0001,
    };
    [0, 1, 2, 3].map(|order| holds >> order & 1 == 1)
}
