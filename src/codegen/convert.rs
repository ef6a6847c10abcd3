//! Writes conversions between scalar types, with the meaning of Rust's `as`. Conversions with an
//! explicit rounding are in `bit_function.rs`.

use super::arith::narrow_range;
use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::types::{Const, Scalar};
use crate::ir::{Value, narrow};

impl Entry<'_> {
    pub(super) fn cvt(&mut self, result: Value, value: Value, to_type: Scalar) {
        let from_type = self.scalar(value);
        let from = self.operand(value);
        if from_type == to_type {
            return self.bind(result, from);
        }
        if from_type.is_int() && to_type.is_int() && stays(from_type, to_type) {
            // The register already holds the converted value.
            return match from {
                Operand::Const(constant) => {
                    let bits = constant.as_int().map_or(constant.bits(), |int| int as u64);
                    self.bind(result, Operand::Const(Const::new(to_type, bits)));
                }
                from => self.bind(result, from),
            };
        }
        let to = self.def(result);
        self.cvt_to(to, from, from_type, to_type);
    }

    /// Sets `to` to the conversion of `from`.
    pub(super) fn cvt_to(&mut self, to: Reg, from: Operand, from_type: Scalar, to_type: Scalar) {
        match (from_type, to_type) {
            (a, b) if a == b => self.mov(to, from),
            (Scalar::Bool, b) => self.bool_to_number(to, from, b),
            (a, b) if a.is_int() && b.is_int() => self.int_to_int(to, from, a, b),
            (a, b) if a.format().is_some() => {
                let wide = self.widened(from, a);
                self.cvt_to(to, wide, Scalar::F32, b);
            }
            (Scalar::F32, b) if b.format().is_some() => self.narrowed(to, from, b),
            // PTX converts every type to `f16` with one rounding, but not to the other narrow
            // formats.
            (a, b) if b.format().is_some() && b != Scalar::F16 => {
                let wide = self.rounded_to_odd(from, a);
                self.narrowed(to, wide.into(), b);
            }
            (a, b) if a.is_float() && b.is_int() => self.float_to_int(to, from, a, b, "rzi"),
            // To floating point: round to nearest even if the value may not fit. From `f32` to
            // `f64`, where it always does, PTX allows no rounding.
            (a, b) => {
                let rounding =
                    if (a, b) == (Scalar::F32, Scalar::F64) { "cvt." } else { "cvt.rn." };
                let name = [rounding, arith_type(b), ".", arith_type(a)];
                self.ins(&name, &[to.into(), from]);
            }
        }
    }

    /// Returns the exact `f32` of a value in a narrow format.
    pub(super) fn widened(&mut self, from: Operand, scalar: Scalar) -> Operand {
        if let Operand::Const(constant) = from
            && let Some(x) = narrow::decode(scalar, constant.bits() as u32)
        {
            let bits = (x as f32).to_bits().into();
            return Operand::Const(Const::new(Scalar::F32, bits));
        }
        let to = self.temp(Class::F32);
        match scalar {
            Scalar::F16 => self.ins(&["cvt.f32.f16"], &[to.into(), from]),
            Scalar::Bf16 => {
                let zero = self.temp(Class::B16);
                self.mov(zero, Operand::Int(0));
                self.mov_pack(to, &[zero.into(), from]);
            }
            Scalar::F8E4M3 | Scalar::F8E5M2 => {
                let (pair, half) = (self.temp(Class::B32), self.temp(Class::B16));
                self.ins(&["cvt.rn.f16x2.", arith_type(scalar), "x2"], &[pair.into(), from]);
                self.mov_unpack(half, pair.into(), 0);
                self.ins(&["cvt.f32.f16"], &[to.into(), half.into()]);
            }
            // The lowest 13 bits of a `tf32` are ignored.
            _ => self.ins(&["and.b32"], &[to.into(), from, Operand::Int(!0x1fff)]),
        }
        to.into()
    }

    /// Sets `to` to an `f32` rounded to a narrow format.
    pub(super) fn narrowed(&mut self, to: Reg, from: Operand, scalar: Scalar) {
        match scalar {
            Scalar::F8E4M3 | Scalar::F8E5M2 => {
                // The upper byte of the result is not used.
                let name = ["cvt.rn.satfinite.", arith_type(scalar), "x2.f32"];
                let zero = Operand::Const(Const::new(Scalar::F32, 0));
                self.ins(&name, &[to.into(), zero, from]);
            }
            Scalar::Tf32 if self.ir.target.sm() < 90 => self.narrowed_to_tf32(to, from),
            _ => self.ins(&["cvt.rn.", arith_type(scalar), ".f32"], &[to.into(), from]),
        }
    }

    /// Rounds to nearest even by adding just less than half of the last kept digit, or exactly half
    /// if that digit is odd. A NaN must be left alone, because the carry could make it a number.
    fn narrowed_to_tf32(&mut self, to: Reg, from: Operand) {
        let (bits, sum) = (self.temp(Class::B32), self.temp(Class::B32));
        self.mov(bits, from);
        let (bits, sum) = (Operand::Reg(bits), Operand::Reg(sum));
        self.ins(&["bfe.u32"], &[sum, bits, Operand::Int(13), Operand::Int(1)]);
        self.ins(&["add.u32"], &[sum, sum, Operand::Int(0xfff)]);
        self.ins(&["add.u32"], &[sum, sum, bits]);
        self.ins(&["and.b32"], &[sum, sum, Operand::Int(!0x1fff)]);
        let number = self.temp(Class::Pred);
        self.ins(&["setp.num.f32"], &[number.into(), from, from]);
        let nan = Operand::Int(0x7fff_e000);
        self.ins(&["selp.b32"], &[to.into(), sum, nan, number.into()]);
    }

    /// Returns the value as `f32`, rounded to odd: toward zero, with the last bit set if that is
    /// not exact. `f32` has more than two bits more than the narrow formats, so rounding this
    /// result to one of them gives the same as rounding the value itself.
    fn rounded_to_odd(&mut self, from: Operand, from_type: Scalar) -> Reg {
        let ty = arith_type(from_type);
        let (toward_zero, odd) = (self.temp(Class::F32), self.temp(Class::F32));
        let back = self.temp(Class::of_scalar(from_type));
        let (inexact, last) = (self.temp(Class::Pred), self.temp(Class::B32));
        self.ins(&["cvt.rz.f32.", ty], &[toward_zero.into(), from]);
        let (back_name, compare) =
            if from_type.is_float() { ("cvt.", "setp.neu.") } else { ("cvt.rzi.", "setp.ne.") };
        self.ins(&[back_name, ty, ".f32"], &[back.into(), toward_zero.into()]);
        self.ins(&[compare, ty], &[inexact.into(), back.into(), from]);
        let select = [last.into(), Operand::Int(1), Operand::Int(0), inexact.into()];
        self.ins(&["selp.b32"], &select);
        self.ins(&["or.b32"], &[odd.into(), toward_zero.into(), last.into()]);
        odd
    }

    fn bool_to_number(&mut self, to: Reg, from: Operand, to_type: Scalar) {
        let one = match to_type {
            Scalar::F32 => 1.0f32.to_bits().into(),
            Scalar::F64 => 1.0f64.to_bits(),
            _ => narrow::encode_nearest(to_type, 1.0).unwrap_or(1).into(),
        };
        let [zero, one] = [0, one].map(|bits| Operand::Const(Const::new(to_type, bits)));
        self.ins(&["selp.", to.class().bits_name()], &[to.into(), one, zero, from]);
    }

    fn int_to_int(&mut self, to: Reg, from: Operand, from_type: Scalar, to_type: Scalar) {
        let (wide_from, wide_to) = (from_type.bits() == 64, to_type.bits() == 64);
        match (wide_from, wide_to) {
            (false, true) => {
                let signed = from_type.is_signed();
                let name = if signed { "cvt.s64.s32" } else { "cvt.u64.u32" };
                self.ins(&[name], &[to.into(), from]);
            }
            (true, false) if to_type.bits() == 32 => {
                self.ins(&["cvt.u32.u64"], &[to.into(), from]);
            }
            _ if stays(from_type, to_type) => self.mov(to, from),
            _ => self.extend(to, from, to_type),
        }
    }

    /// Saturates, and turns NaN into 0. PTX's conversion to 32 and 64 bits saturates, but turns NaN
    /// into another value if one side has 64 bits (PTX ISA 9.7.9.21). Narrower results are clamped
    /// after a conversion to 32 bits.
    pub(super) fn float_to_int(
        &mut self,
        to: Reg,
        from: Operand,
        from_type: Scalar,
        to_type: Scalar,
        rounding: &str,
    ) {
        let range = narrow_range(to_type);
        let converted = if range.is_some() { Scalar::I32 } else { to_type };
        let name = ["cvt.", rounding, ".", arith_type(converted), ".", arith_type(from_type)];
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

/// Returns whether a register that holds a value of type `from` already holds its conversion to
/// `to`.
fn stays(from: Scalar, to: Scalar) -> bool {
    (from.bits() == 64) == (to.bits() == 64) && holds(from, to)
}

/// Returns whether a register with a value of type `from` holds its conversion to `to`, if both
/// registers have the same width: the types have the same width, or `to` contains every value of
/// `from`.
fn holds(from: Scalar, to: Scalar) -> bool {
    if from.bits() == to.bits() {
        return from.bits() >= 32;
    }
    from.bits() < to.bits() && (!from.is_signed() || to.is_signed() || to.bits() == 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contents of the 32-bit register for a value of an integer type.
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
