//! Writes operations on vectors of elements in registers: packing, extracting, and conversions of
//! all elements.

use smallvec::SmallVec;

use super::bit_function::cvt_mode;
use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::Value;
use crate::ir::op::{Clamp, FloatMode};
use crate::ir::types::{Rounding, Scalar, VectorType};

impl Entry<'_> {
    /// Writes `to = {from[0], from[1]}`, for halves in registers or constants.
    pub(super) fn mov_pack(&mut self, to: Reg, from: &[Operand; 2]) {
        let [low, high] = from.map(|half| self.in_reg(half, Class::B16));
        self.begin();
        self.text.push("mov.b32 ");
        self.text.reg(to);
        self.text.push(", {");
        self.text.reg(low);
        self.text.push(", ");
        self.text.reg(high);
        self.text.push("};\n");
    }

    /// Sets `to` to half `half` of the word `from`: 0 is the lower, 1 the upper.
    pub(super) fn mov_unpack(&mut self, to: Reg, from: Operand, half: u32) {
        self.begin();
        self.text.push(if half == 0 { "mov.b32 {" } else { "mov.b32 {_, " });
        self.text.reg(to);
        self.text.push(if half == 0 { ", _}, " } else { "}, " });
        self.text.operand(from);
        self.text.push(";\n");
    }

    /// Picks four bytes out of two words. Each digit of `selector`, starting from the last, is the
    /// index of a byte in `low` (0 to 3) or `high` (4 to 7).
    fn prmt(&mut self, to: Reg, [low, high]: [Operand; 2], selector: &str) {
        self.begin();
        self.text.push("prmt.b32 ");
        self.text.reg(to);
        for operand in [low, high] {
            self.text.push(", ");
            self.text.operand(operand);
        }
        self.text.push(", ");
        self.text.push(selector);
        self.text.push(";\n");
    }

    /// Returns the operand as a word. Only its lower bits have a meaning.
    fn in_word(&mut self, operand: Operand, class: Class) -> Operand {
        match operand {
            Operand::Reg(reg) if class == Class::B16 => {
                let word = self.temp(Class::B32);
                self.ins(&["cvt.u32.u16"], &[word.into(), reg.into()]);
                word.into()
            }
            Operand::Reg(_) | Operand::Const(_) | Operand::Int(_) => operand,
        }
    }

    pub(super) fn vec_pack(&mut self, result: Value, values: &[Value]) {
        let Some(vector) = self.ir.type_of(result).vector() else { return };
        let lanes: SmallVec<[Operand; 16]> =
            values.iter().map(|value| self.operand(*value)).collect();
        let to = self.def_parts(result);
        self.pack_lanes(&to, vector, &lanes);
    }

    /// Sets the registers of a vector to its elements.
    fn pack_lanes(&mut self, to: &[Reg], vector: VectorType, lanes: &[Operand]) {
        let class = Class::of_scalar(vector.elem());
        let per_register = vector.lanes_per_register() as usize;
        for (to, lanes) in to.iter().zip(lanes.chunks(per_register)) {
            match (lanes, vector.elem().bits()) {
                (&[single], _) => self.mov(*to, single),
                (&[low, high], 16) if class == Class::B16 => self.mov_pack(*to, &[low, high]),
                (&[low, high], 16) => self.prmt(*to, [low, high], "0x5410"),
                (&[low, high], _) => {
                    let pair = self.byte_pair([low, high], class);
                    self.ins(&["cvt.u16.u32"], &[(*to).into(), pair.into()]);
                }
                (&[a, b, c, d], _) => {
                    let low = self.byte_pair([a, b], class);
                    let high = self.byte_pair([c, d], class);
                    self.prmt(*to, [low.into(), high.into()], "0x5410");
                }
                // A register holds one, two or four elements.
                _ => {}
            }
        }
    }

    /// Returns a word with two bytes in its lower half.
    fn byte_pair(&mut self, bytes: [Operand; 2], class: Class) -> Reg {
        let bytes = bytes.map(|byte| self.in_word(byte, class));
        let pair = self.temp(Class::B32);
        self.prmt(pair, bytes, "0x0040");
        pair
    }

    pub(super) fn vec_extract(&mut self, result: Value, vector: Value, lane: u32) {
        let Some(ty) = self.ir.type_of(vector).vector() else { return };
        let parts = self.parts(vector);
        let Some(&part) = parts.get((lane / ty.lanes_per_register()) as usize) else { return };
        if ty.lanes_per_register() == 1 {
            return self.bind(result, part);
        }
        let to = self.def(result);
        self.extract(to, ty, part, lane % ty.lanes_per_register());
    }

    /// Extracts element `at` from a register with several.
    fn extract(&mut self, to: Reg, ty: VectorType, part: Operand, at: u32) {
        let (elem, bits) = (ty.elem(), ty.elem().bits());
        if elem.is_float() && bits == 16 {
            return self.mov_unpack(to, part, at);
        }
        let part = if ty.bits() == 16 { self.in_word(part, Class::B16) } else { part };
        let word = if elem.is_float() { self.temp(Class::B32) } else { to };
        let name = if elem.is_signed() { "bfe.s32" } else { "bfe.u32" };
        let (start, count) = (Operand::Int((at * bits).into()), Operand::Int(bits.into()));
        self.ins(&[name], &[word.into(), part, start, count]);
        if word != to {
            self.ins(&["cvt.u16.u32"], &[to.into(), word.into()]);
        }
    }

    /// Converts all elements: two at once if PTX can, otherwise one by one.
    pub(super) fn cvt_vector(&mut self, result: Value, value: Value, from: VectorType, to: Scalar) {
        let Some(to_type) = VectorType::new(to, from.lanes()) else { return };
        let parts = self.parts(value);
        let registers = self.def_parts(result);
        let mode = if to.is_f8() { "rn.satfinite" } else { "rn" };
        if let Some(pairs) = self.cvt_pairs(&parts, from, to, mode) {
            return self.join_pairs(&registers, to_type, &pairs);
        }
        self.cvt_each(&registers, &parts, from, to_type, |entry, converted, elem| {
            entry.cvt_to(converted, elem, from.elem(), to);
        });
    }

    /// Converts all elements as `mode` says.
    pub(super) fn cvt_vector_rounded(
        &mut self,
        result: Value,
        value: Value,
        from: VectorType,
        to: Scalar,
        mode: FloatMode,
    ) {
        let Some(to_type) = VectorType::new(to, from.lanes()) else { return };
        let parts = self.parts(value);
        let registers = self.def_parts(result);
        let has_pairs = matches!(mode.rounding, Rounding::NearestEven | Rounding::Zero)
            && mode.clamp != Clamp::Sat;
        if has_pairs && let Some(pairs) = self.cvt_pairs(&parts, from, to, &cvt_mode(to, mode)) {
            return self.join_pairs(&registers, to_type, &pairs);
        }
        self.cvt_each(&registers, &parts, from, to_type, |entry, converted, elem| {
            entry.cvt_rounded_to(converted, elem, from.elem(), to, mode);
        });
    }

    /// Converts the elements one by one.
    fn cvt_each(
        &mut self,
        registers: &[Reg],
        parts: &[Operand],
        from: VectorType,
        to: VectorType,
        convert: impl Fn(&mut Self, Reg, Operand),
    ) {
        let per_register = from.lanes_per_register();
        let mut lanes: SmallVec<[Operand; 16]> = SmallVec::new();
        for lane in 0..from.lanes() {
            let Some(&part) = parts.get((lane / per_register) as usize) else { return };
            let mut elem = part;
            if per_register > 1 {
                let reg = self.temp(Class::of_scalar(from.elem()));
                self.extract(reg, from, part, lane % per_register);
                elem = reg.into();
            }
            let converted = self.temp(Class::of_scalar(to.elem()));
            convert(self, converted, elem);
            lanes.push(converted.into());
        }
        self.pack_lanes(registers, to, &lanes);
    }

    /// Converts two elements at a time, each pair in a register, if PTX has it: `f32` to 16 and 8
    /// bits, and between `f16` and 8 bits.
    fn cvt_pairs(
        &mut self,
        parts: &[Operand],
        from: VectorType,
        to: Scalar,
        mode: &str,
    ) -> Option<SmallVec<[Reg; 8]>> {
        let class = if to.is_f8() { Class::B16 } else { Class::B32 };
        let mut pairs = SmallVec::new();
        match (from.elem(), to) {
            (Scalar::F32, Scalar::F16 | Scalar::Bf16 | Scalar::F8E4M3 | Scalar::F8E5M2) => {
                for pair in parts.chunks_exact(2) {
                    let reg = self.temp(class);
                    let name = ["cvt.", mode, ".", arith_type(to), "x2.f32"];
                    self.ins(&name, &[reg.into(), pair[1], pair[0]]);
                    pairs.push(reg);
                }
            }
            (Scalar::F16, to) if to.is_f8() => {
                for part in parts {
                    let reg = self.temp(class);
                    let name = ["cvt.", mode, ".", arith_type(to), "x2.f16x2"];
                    self.ins(&name, &[reg.into(), *part]);
                    pairs.push(reg);
                }
            }
            (byte, Scalar::F16) if byte.is_f8() => {
                let name = ["cvt.", mode, ".f16x2.", arith_type(byte), "x2"];
                for part in parts {
                    let halves = if from.bits() == 16 { 1 } else { 2 };
                    for half in 0..halves {
                        let mut bytes = *part;
                        if halves == 2 {
                            let reg = self.temp(Class::B16);
                            self.mov_unpack(reg, *part, half);
                            bytes = reg.into();
                        }
                        let reg = self.temp(class);
                        self.ins(&name, &[reg.into(), bytes]);
                        pairs.push(reg);
                    }
                }
            }
            _ => return None,
        }
        Some(pairs)
    }

    /// Sets the registers of a vector to pairs of elements.
    fn join_pairs(&mut self, to: &[Reg], vector: VectorType, pairs: &[Reg]) {
        let per_register = (vector.lanes_per_register() / 2).max(1) as usize;
        for (to, pairs) in to.iter().zip(pairs.chunks(per_register)) {
            match *pairs {
                [low, high] => self.mov_pack(*to, &[low.into(), high.into()]),
                [single, ..] => self.mov(*to, single.into()),
                [] => {}
            }
        }
    }
}
