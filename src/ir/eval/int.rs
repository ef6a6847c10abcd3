//! Evaluates integer and bit operations: one arm per row of the op table's family `IntArith`. A new
//! row needs an arm here.

use super::bits::{bfind, bmsk, element, high_half, prmt, product24, saturated, shf, szext};
use super::{Machine, elem, integers};
use crate::ir::op::{ByteHalf, IntArith, ProductHalf, Subnormals};

/// Runs an integer operation.
pub(super) fn int_arith<M: Machine>(op: &IntArith, machine: M) -> Option<M::Output> {
    match *op {
        IntArith::AddSat { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| saturated(a + b)),
        IntArith::SubSat { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| saturated(a - b)),
        IntArith::Mad { lhs, rhs, addend } => {
            integers(machine, [lhs, rhs, addend], |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))
        }
        IntArith::MadHiSat { lhs, rhs, addend } => {
            integers(machine, [lhs, rhs, addend], |[a, b, c]| saturated(high_half(a, b, 32) + c))
        }
        IntArith::Mul24 { lhs, rhs, half } => {
            let signed = elem(&machine, lhs)?.is_signed();
            integers(machine, [lhs, rhs], move |[a, b]| product24(signed, [a, b], half))
        }
        IntArith::Mad24 { lhs, rhs, addend, half } => {
            let signed = elem(&machine, lhs)?.is_signed();
            integers(machine, [lhs, rhs, addend], move |[a, b, c]| {
                product24(signed, [a, b], half) + c
            })
        }
        IntArith::Mad24HiSat { lhs, rhs, addend } => {
            integers(machine, [lhs, rhs, addend], |[a, b, c]| {
                saturated(product24(true, [a, b], ProductHalf::Hi) + c)
            })
        }
        IntArith::AddPacked { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| a + b),
        IntArith::MinPacked { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| a.min(b)),
        IntArith::MaxPacked { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| a.max(b)),
        IntArith::MinRelu { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| a.min(b).max(0)),
        IntArith::MaxRelu { lhs, rhs } => integers(machine, [lhs, rhs], |[a, b]| a.max(b).max(0)),
        IntArith::Sad { lhs, rhs, addend } => {
            integers(machine, [lhs, rhs, addend], |[a, b, c]| (a - b).abs() + c)
        }
        IntArith::Dp4a { lhs, rhs, addend } => {
            let (a, b) = (elem(&machine, lhs)?, elem(&machine, rhs)?);
            machine.words([lhs, rhs, addend], move |[x, y, sum]| {
                let product = |i| (element(a, x, i) * element(b, y, i)) as u32;
                (0..4).map(product).fold(sum, u32::wrapping_add)
            })
        }
        IntArith::Dp2a { lhs, rhs, addend, half } => {
            let (a, b) = (elem(&machine, lhs)?, elem(&machine, rhs)?);
            let first = if half == ByteHalf::Hi { 2 } else { 0 };
            machine.words([lhs, rhs, addend], move |[x, y, sum]| {
                let product = |i| (element(a, x, i) * element(b, y, first + i)) as u32;
                (0..2).map(product).fold(sum, u32::wrapping_add)
            })
        }
        IntArith::Popc { value } => machine.elements([value], |[x]| x.count_ones().into()),
        IntArith::Clz { value } => {
            let unused = 64 - elem(&machine, value)?.bits();
            machine.elements([value], move |[x]| (x.leading_zeros() - unused).into())
        }
        IntArith::Cnot { value } => machine.elements([value], |[x]| (x == 0).into()),
        IntArith::Slct { then_value, else_value, sign } => {
            machine.elements([then_value, else_value, sign], |[a, b, sign]| {
                if (sign as u32).cast_signed() >= 0 { a } else { b }
            })
        }
        IntArith::SlctFloat { then_value, else_value, sign, subnormals } => {
            let flush = subnormals == Subnormals::Ftz;
            machine.elements([then_value, else_value, sign], move |[a, b, sign]| {
                let sign = f32::from_bits(sign as u32);
                if sign >= 0.0 || (flush && sign.is_subnormal()) { a } else { b }
            })
        }
        IntArith::Brev { value } => {
            let unused = 64 - elem(&machine, value)?.bits();
            machine.elements([value], move |[x]| x.reverse_bits() >> unused)
        }
        IntArith::Bfind { value, from } => {
            let width = elem(&machine, value)?.bits();
            integers(machine, [value], move |[x]| bfind(x, width, from).into())
        }
        IntArith::Shf { low, high, amount, direction, excess } => machine
            .words([low, high, amount], move |[low, high, amount]| {
                shf(low, high, amount, direction, excess)
            }),
        IntArith::Prmt { low, high, selector, mode } => machine
            .words([low, high, selector], move |[low, high, selector]| {
                prmt(low, high, selector, mode)
            }),
        IntArith::Szext { value, bits, excess } => {
            let signed = elem(&machine, value)?.is_signed();
            machine.words([value, bits], move |[x, bits]| szext(x, signed, bits, excess))
        }
        IntArith::Bmsk { start, count, excess } => {
            machine.words([start, count], move |[start, count]| bmsk(start, count, excess))
        }
    }
}
