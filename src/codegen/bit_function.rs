//! Writes integer and bit functions such as `mul_hi`, `bfe` and `lop3`, conversions with an
//! explicit rounding, and bit-casts. For types that have no instruction of their own, it writes a
//! sequence of instructions.

use smallvec::SmallVec;

use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type, memory_type};
use crate::ir::Value;
use crate::ir::op::{Clamp, FloatMode};
use crate::ir::types::{Rounding, Scalar, Type};

/// Returns the suffixes of a conversion to `to`.
pub(super) fn cvt_mode(to: Scalar, mode: FloatMode) -> String {
    match mode.clamp {
        // Conversions to 8 bits have these two suffixes in the other order.
        Clamp::SatfiniteRelu if to.bits() > 8 => format!("{}.relu.satfinite", mode.rounding),
        _ => mode.to_string(),
    }
}

/// Returns PTX's name of a rounding to an integer.
const fn to_integral(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::NearestEven | Rounding::NearestAway => "rni",
        Rounding::Zero => "rzi",
        Rounding::Down => "rmi",
        Rounding::Up => "rpi",
    }
}

impl Entry<'_> {
    /// Writes the high half of a product.
    pub(super) fn mul_hi(&mut self, result: Value, lhs: Value, rhs: Value) {
        match self.scalar(lhs).bits() {
            32 | 64 => self.typed("mul.hi.", result, &[lhs, rhs]),
            _ => {
                let to = self.def(result);
                self.narrow_high(to, lhs, rhs);
            }
        }
    }

    /// Writes the high half of a product, plus `addend`.
    pub(super) fn mad_hi(&mut self, result: Value, lhs: Value, rhs: Value, addend: Value) {
        match self.scalar(lhs).bits() {
            32 | 64 => self.typed("mad.hi.", result, &[lhs, rhs, addend]),
            _ => {
                let (to, high) = (self.def(result), self.temp(Class::B32));
                self.narrow_high(high, lhs, rhs);
                let addend = self.operand(addend);
                self.ins(&["add.s32"], &[to.into(), high.into(), addend]);
                self.wrap(to, self.scalar(result));
            }
        }
    }

    /// Writes `mul` or `mad` with a result of twice the width.
    pub(super) fn wide(&mut self, name: &str, result: Value, values: &[Value]) {
        let scalar = values.first().map_or(Scalar::I32, |value| self.scalar(*value));
        let half = match scalar {
            Scalar::I32 | Scalar::U32 => ".wide.",
            // The registers of narrow integers have room for the product.
            _ => ".lo.",
        };
        let to = self.def(result);
        self.write_op(&[name, half, arith_type(scalar)], to, values);
    }

    pub(super) fn bfe(&mut self, result: Value, value: Value, field: [Value; 2]) {
        let (ty, bits) = (arith_type(self.scalar(value)), self.scalar(value).bits());
        let value = self.operand(value);
        let [start, count] = field.map(|amount| self.low_byte(amount, bits));
        let to = self.def(result);
        self.ins(&["bfe.", ty], &[to.into(), value, start, count]);
    }

    pub(super) fn bfi(&mut self, result: Value, values: [Value; 2], field: [Value; 2]) {
        let ty = Class::of(self.ir.type_of(values[0])).bits_name();
        let bits = self.scalar(values[0]).bits();
        let [value, into] = values.map(|value| self.operand(value));
        let [start, count] = field.map(|amount| self.low_byte(amount, bits));
        let to = self.def(result);
        self.ins(&["bfi.", ty], &[to.into(), value, into, start, count]);
    }

    pub(super) fn fns(&mut self, result: Value, mask: Value, base: Value, offset: Value) {
        let (mask, base) = self.fns_mask_and_base(mask, base);
        let offset = self.fns_offset(offset);
        let to = self.def(result);
        self.ins(&["fns.b32"], &[to.into(), mask, base, offset]);
    }

    pub(super) fn lop3(&mut self, result: Value, values: [Value; 3], table: u8) {
        let to = self.def(result);
        let [a, b, c] = values.map(|value| self.operand(value));
        self.ins(&["lop3.b32"], &[to.into(), a, b, c, Operand::Int(table.into())]);
    }

    /// Writes a conversion with explicit rounding, of a scalar or of each element of a vector.
    pub(super) fn cvt_rounded(&mut self, result: Value, value: Value, to: Scalar, mode: FloatMode) {
        match self.ir.type_of(value) {
            Type::Vector(vector) => self.cvt_vector_rounded(result, value, vector, to, mode),
            Type::Scalar(from) => {
                let operand = self.computed(value);
                let register = self.def(result);
                self.cvt_rounded_to(register, operand, from, to, mode);
            }
            Type::Pointer { .. } | Type::TensorMap { .. } => {}
        }
    }

    /// Writes a conversion to an integer type that clamps the value to its range.
    pub(super) fn cvt_sat(&mut self, result: Value, value: Value, to: Scalar) {
        let from_type = self.scalar(value);
        let signed_fits = to.is_signed() || !from_type.is_signed();
        let wider = to.bits() > from_type.bits();
        if (wider && signed_fits)
            || (from_type.bits(), from_type.is_signed()) == (to.bits(), to.is_signed())
        {
            // Nothing can be out of range, and PTX has no `.sat` for this.
            return self.cvt(result, value, to);
        }
        let from = self.operand(value);
        let register = self.def(result);
        let name = ["cvt.sat.", memory_type(to), ".", arith_type(from_type)];
        self.ins(&name, &[register.into(), from]);
    }

    /// Packs integers, clamped to the range of `to`, side by side: two with one instruction, four
    /// with two.
    pub(super) fn cvt_pack(&mut self, result: Value, values: &[Value], to: Scalar) {
        let ty = match to {
            Scalar::I8 => "s8",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            _ => "s16",
        };
        let values: SmallVec<[Operand; 5]> =
            values.iter().map(|value| self.operand(*value)).collect();
        let target = self.def(result);
        match values[..] {
            [low, high] => self.ins(&["cvt.pack.sat.", ty, ".s32"], &[target.into(), high, low]),
            [a, b, c, d] => {
                let name = ["cvt.pack.sat.", ty, ".s32.b32"];
                let above = self.temp(Class::B32);
                self.ins(&name, &[above.into(), d, c, Operand::Int(0)]);
                self.ins(&name, &[target.into(), b, a, above.into()]);
            }
            // The verifier has checked that there are two or four.
            _ => {}
        }
    }

    /// Writes the high half of the product of two 8-bit or 16-bit integers. The product fits into
    /// 32 bits.
    fn narrow_high(&mut self, to: Reg, lhs: Value, rhs: Value) {
        let scalar = self.scalar(lhs);
        let ty = arith_type(scalar);
        self.write_op(&["mul.lo.", ty], to, &[lhs, rhs]);
        let bits = Operand::Int(scalar.bits().into());
        self.ins(&["shr.", ty], &[to.into(), to.into(), bits]);
    }

    /// Returns the low 8 bits of an amount, because `ptxas` accepts no other constants. An H200
    /// computes 64-bit fields with shifts and does not mask their amounts. There the amount is
    /// clamped to the width, since a larger one gives the same result.
    fn low_byte(&mut self, amount: Value, bits: u32) -> Operand {
        match self.operand(amount) {
            Operand::Const(constant) => {
                Operand::Int(((constant.bits() & 0xff) as i64).min(bits.max(32).into()))
            }
            operand @ (Operand::Reg(_) | Operand::Int(_)) if bits == 64 => {
                let amount = self.temp(Class::B32);
                self.ins(&["and.b32"], &[amount.into(), operand, Operand::Int(255)]);
                self.ins(&["min.u32"], &[amount.into(), amount.into(), Operand::Int(64)]);
                amount.into()
            }
            operand @ (Operand::Reg(_) | Operand::Int(_)) => operand,
        }
    }

    /// Returns a mask and a base of at most 31 for which `fns` finds the same bit. PTX does not
    /// define larger bases, so the mask is 0 for those.
    fn fns_mask_and_base(&mut self, mask: Value, base: Value) -> (Operand, Operand) {
        let (mask, base) = (self.operand(mask), self.operand(base));
        if let Operand::Const(constant) = base {
            let is_bit = constant.bits() < 32;
            return if is_bit { (mask, base) } else { (Operand::Int(0), Operand::Int(0)) };
        }
        let (is_bit, kept, bit) =
            (self.temp(Class::Pred), self.temp(Class::B32), self.temp(Class::B32));
        self.ins(&["setp.lt.u32"], &[is_bit.into(), base, Operand::Int(32)]);
        self.ins(&["selp.b32"], &[kept.into(), mask, Operand::Int(0), is_bit.into()]);
        self.ins(&["and.b32"], &[bit.into(), base, Operand::Int(31)]);
        (kept.into(), bit.into())
    }

    /// Returns the offset, clamped from below to -33. `ptxas` implements `fns` by negating the
    /// offset, and would find bit 0 for the smallest `i32`.
    fn fns_offset(&mut self, offset: Value) -> Operand {
        const BEYOND: i64 = -33;
        match self.operand(offset) {
            Operand::Const(constant) => Operand::Int(i64::from(constant.bits() as i32).max(BEYOND)),
            operand @ (Operand::Reg(_) | Operand::Int(_)) => {
                let offset = self.temp(Class::B32);
                self.ins(&["max.s32"], &[offset.into(), operand, Operand::Int(BEYOND)]);
                offset.into()
            }
        }
    }

    /// Sets `to` to the conversion of `from`, which must be in a register if it has 16 bits or
    /// less.
    pub(super) fn cvt_rounded_to(
        &mut self,
        to: Reg,
        from: Operand,
        from_type: Scalar,
        to_type: Scalar,
        mode: FloatMode,
    ) {
        let (a, b) = (arith_type(from_type), arith_type(to_type));
        if from_type == to_type {
            // Nothing is rounded, and PTX allows no rounding here.
            return self.ins(&["cvt.", mode.clamp.name(), ".", b, ".", a], &[to.into(), from]);
        }
        let mode = cvt_mode(to_type, mode);
        if to_type.bits() == 8 {
            // The upper byte of the result is not used.
            let zero = Operand::Const(crate::ir::types::Const::new(Scalar::F32, 0));
            return self.ins(&["cvt.", &mode, ".", b, "x2.", a], &[to.into(), zero, from]);
        }
        self.ins(&["cvt.", &mode, ".", b, ".", a], &[to.into(), from]);
    }

    pub(super) fn cvt_rint(
        &mut self,
        result: Value,
        value: Value,
        to_type: Scalar,
        rounding: Rounding,
    ) {
        let from_type = self.scalar(value);
        let from = self.operand(value);
        let name = to_integral(rounding);
        if to_type.is_int() {
            let (from, from_type) = match from_type.format() {
                Some(_) => (self.widened(from, from_type), Scalar::F32),
                None => (from, from_type),
            };
            let to = self.def(result);
            return self.float_to_int(to, from, from_type, to_type, name);
        }
        if from_type == Scalar::Bf16 {
            // PTX has no such conversion, but every integral `f32` between two `bf16` values is
            // itself one.
            let wide = self.widened(from, from_type);
            let integral = self.temp(Class::F32);
            self.ins(&["cvt.", name, ".f32.f32"], &[integral.into(), wide]);
            let to = self.def(result);
            return self.narrowed(to, integral.into(), to_type);
        }
        let (from, ty) = (self.computed(value), arith_type(from_type));
        let to = self.def(result);
        self.ins(&["cvt.", name, ".", ty, ".", ty], &[to.into(), from]);
    }

    pub(super) fn bitcast(&mut self, result: Value, value: Value) {
        let (from, to) = (self.ir.type_of(value), self.ir.type_of(result));
        if from.bits() <= 16 {
            return self.bitcast_half(result, value, to);
        }
        let words = self.words(value);
        let registers = self.def_parts(result);
        if Class::of(to).bits_name() == "b64" {
            for (register, words) in registers.iter().zip(words.chunks_exact(2)) {
                self.mov_joined(*register, [words[0], words[1]]);
            }
        } else {
            for (register, word) in registers.iter().zip(words) {
                self.mov(*register, word.into());
            }
        }
    }

    /// Returns a value's bits in 32-bit registers, lowest first.
    fn words(&mut self, value: Value) -> SmallVec<[Reg; 4]> {
        let class = Class::of(self.ir.type_of(value));
        let mut words = SmallVec::new();
        for part in self.parts(value) {
            let part = self.in_reg(part, class);
            if class.bits_name() == "b64" {
                let halves = [Class::B32; 2].map(|class| self.temp(class));
                self.mov_halves(halves, part);
                words.extend(halves);
            } else {
                words.push(part);
            }
        }
        words
    }

    /// Bit-casts values of 8 and 16 bits. Integers live in 32-bit registers, extended; everything
    /// else lives in 16-bit registers.
    fn bitcast_half(&mut self, result: Value, value: Value, to: Type) {
        let (from_class, to_class) = (Class::of(self.ir.type_of(value)), Class::of(to));
        let from = self.operand(value);
        let from = self.in_reg(from, from_class);
        let register = self.def(result);
        match (from_class, to_class) {
            (Class::B16, Class::B16) => self.mov(register, from.into()),
            (_, Class::B16) => self.ins(&["cvt.u16.u32"], &[register.into(), from.into()]),
            (Class::B16, _) => {
                self.ins(&["cvt.u32.u16"], &[register.into(), from.into()]);
                self.wrap(register, self.scalar(result));
            }
            _ => self.extend(register, from.into(), self.scalar(result)),
        }
    }
}
