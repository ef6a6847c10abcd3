//! Conversion between scalar types, as Rust's `as` has it.

use super::arith::narrow_range;
use super::entry::Entry;
use super::regs::{Class, Operand, arith_type};
use crate::ir::{Const, Scalar, Value};

impl Entry<'_> {
    pub(super) fn cvt(&mut self, result: Value, value: Value, to_type: Scalar) {
        let from_type = self.scalar(value);
        let from = self.operand(value);
        match (from_type, to_type) {
            (a, b) if a == b => self.bind(result, from),
            (Scalar::Bool, _) => self.bool_to_number(result, from, to_type),
            (_, Scalar::Bool) => self.number_to_bool(result, from, from_type),
            (a, b) if a.is_int() && b.is_int() => self.int_to_int(result, from, a, b),
            (a, b) if a.is_float() && b.is_int() => self.float_to_int(result, from, a, b),
            // To floating point: rounds to nearest even where the number may not fit; from `f32` to
            // `f64`, where it always does, PTX allows no rounding.
            (a, b) => {
                let to = self.def(result);
                let rounding =
                    if (a, b) == (Scalar::F32, Scalar::F64) { "cvt." } else { "cvt.rn." };
                let name = [rounding, arith_type(b), ".", arith_type(a)];
                self.ins(&name, &[to.into(), from]);
            }
        }
    }

    fn bool_to_number(&mut self, result: Value, from: Operand, to_type: Scalar) {
        let one = match to_type {
            Scalar::F32 => 1.0f32.to_bits().into(),
            Scalar::F64 => 1.0f64.to_bits(),
            _ => 1,
        };
        let to = self.def(result);
        let [zero, one] = [0, one].map(|bits| Operand::Const(Const::new(to_type, bits)));
        self.ins(&["selp.", to.class().bits_name()], &[to.into(), one, zero, from]);
    }

    fn number_to_bool(&mut self, result: Value, from: Operand, from_type: Scalar) {
        let to = self.def(result);
        let zero = Operand::Const(Const::new(from_type, 0));
        // NaN is not zero.
        let name = if from_type.is_float() { "setp.neu." } else { "setp.ne." };
        self.ins(&[name, arith_type(from_type)], &[to.into(), from, zero]);
    }

    fn int_to_int(&mut self, result: Value, from: Operand, from_type: Scalar, to_type: Scalar) {
        let (wide_from, wide_to) = (from_type.bits() == 64, to_type.bits() == 64);
        if wide_from == wide_to && holds(from_type, to_type) {
            // The register holds the number already.
            return match from {
                Operand::Const(constant) => {
                    let bits = constant.as_int().map_or(constant.bits(), |int| int as u64);
                    self.bind(result, Operand::Const(Const::new(to_type, bits)));
                }
                from => self.bind(result, from),
            };
        }
        let to = self.def(result);
        match (wide_from, wide_to) {
            (false, true) => {
                let signed = from_type.is_signed();
                let name = if signed { "cvt.s64.s32" } else { "cvt.u64.u32" };
                self.ins(&[name], &[to.into(), from]);
            }
            (true, false) if to_type.bits() == 32 => {
                self.ins(&["cvt.u32.u64"], &[to.into(), from]);
            }
            _ => self.extend(to, from, to_type),
        }
    }

    /// Saturates, and NaN becomes 0. PTX's conversion to 32 and 64 bits saturates, but turns NaN into
    /// another number where a side has 64 bits (PTX ISA 9.7.9.22); narrower results are clamped after a
    /// conversion to 32 bits.
    fn float_to_int(&mut self, result: Value, from: Operand, from_type: Scalar, to_type: Scalar) {
        let range = narrow_range(to_type);
        let converted = if range.is_some() { Scalar::I32 } else { to_type };
        let to = self.def(result);
        let name = ["cvt.rzi.", arith_type(converted), ".", arith_type(from_type)];
        self.ins(&name, &[to.into(), from]);
        if from_type.bits() == 64 || to_type.bits() == 64 {
            let number = self.temp(Class::Pred);
            let name = ["setp.num.", arith_type(from_type)];
            self.ins(&name, &[number.into(), from, from]);
            let operands = [to.into(), to.into(), Operand::Int(0), number.into()];
            self.ins(&["selp.", to.class().bits_name()], &operands);
        }
        if let Some((min, max)) = range {
            self.ins(&["max.s32"], &[to.into(), to.into(), Operand::Int(min)]);
            self.ins(&["min.s32"], &[to.into(), to.into(), Operand::Int(max)]);
        }
    }
}

/// Whether a register that holds a number of type `from` holds its conversion to `to`, which lives in a
/// register of the same width: same width, or each number of `from` is one of `to`.
fn holds(from: Scalar, to: Scalar) -> bool {
    if from.bits() == to.bits() {
        return from.bits() >= 32;
    }
    from.bits() < to.bits() && (!from.is_signed() || to.is_signed() || to.bits() == 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contents of the 32-bit register for a number of an integer type.
    fn register(scalar: Scalar, bits: u64) -> u32 {
        Const::new(scalar, bits).as_int().unwrap() as u32
    }

    #[test]
    fn a_register_is_kept_where_the_conversion_has_the_same_contents() {
        let narrow = Scalar::ALL.into_iter().filter(|s| s.is_int() && s.bits() < 64);
        for from in narrow.clone() {
            for to in narrow.clone().filter(|to| *to != from) {
                let same = (0..=0xffff).all(|low| {
                    let bits = [low, low << 16 | 0x8000];
                    bits.into_iter().all(|bits| {
                        let number = Const::new(from, bits).as_int().unwrap();
                        register(from, bits) == register(to, number as u64)
                    })
                });
                assert_eq!(holds(from, to), same, "{from} to {to}");
            }
        }
    }
}
