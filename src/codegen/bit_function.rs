//! Writes integer and bit functions, and sequences of instructions for types without one of their own.

use smallvec::SmallVec;

use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type, memory_type};
use crate::ir::{
    Arith, Clamp, FloatMode, PermuteMode, Rounding, Scalar, Subnormals, Type, Value, VectorType,
};

/// The suffixes of a conversion to `to`.
pub(super) fn cvt_mode(to: Scalar, mode: FloatMode) -> String {
    match mode.clamp {
        // Conversions to 8 bits have the two in the other order.
        Clamp::SatfiniteRelu if to.bits() > 8 => format!("{}.relu.satfinite", mode.rounding),
        _ => mode.to_string(),
    }
}

const fn ftz(subnormals: Subnormals) -> &'static str {
    match subnormals {
        Subnormals::Keep => ".",
        Subnormals::Ftz => ".ftz.",
    }
}

/// PTX's name of a rounding to an integer.
const fn to_integral(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::NearestEven | Rounding::NearestAway => "rni",
        Rounding::Zero => "rzi",
        Rounding::Down => "rmi",
        Rounding::Up => "rpi",
    }
}

impl Entry<'_> {
    pub(super) fn bit_function(&mut self, op: &Arith, result: Value) {
        match *op {
            Arith::AddRounded { lhs, rhs, mode } => {
                self.typed(&format!("add.{mode}."), result, &[lhs, rhs]);
            }
            Arith::SubRounded { lhs, rhs, mode } => {
                self.typed(&format!("sub.{mode}."), result, &[lhs, rhs]);
            }
            Arith::MulRounded { lhs, rhs, mode } => {
                self.typed(&format!("mul.{mode}."), result, &[lhs, rhs]);
            }
            Arith::FmaRounded { lhs, rhs, addend, mode } => {
                self.typed(&format!("fma.{mode}."), result, &[lhs, rhs, addend]);
            }
            Arith::DivRounded { lhs, rhs, mode } => {
                self.typed(&format!("div.{mode}."), result, &[lhs, rhs]);
            }
            Arith::SqrtRounded { value, mode } => {
                self.typed(&format!("sqrt.{mode}."), result, &[value]);
            }
            Arith::RcpRounded { value, mode } => {
                self.typed(&format!("rcp.{mode}."), result, &[value]);
            }
            Arith::Approx { value, function, subnormals } => {
                let name = format!("{function}.approx{}", ftz(subnormals));
                self.typed(&name, result, &[value]);
            }
            Arith::DivApprox { lhs, rhs, form, subnormals } => {
                self.typed(&format!("div.{form}{}", ftz(subnormals)), result, &[lhs, rhs]);
            }
            Arith::MinNan { lhs, rhs } => self.typed("min.NaN.", result, &[lhs, rhs]),
            Arith::MaxNan { lhs, rhs } => self.typed("max.NaN.", result, &[lhs, rhs]),
            Arith::Copysign { magnitude, sign } => {
                self.typed("copysign.", result, &[sign, magnitude]);
            }
            Arith::Testp { value, test } => {
                let ty = arith_type(self.scalar(value));
                let to = self.def(result);
                self.write_op(&["testp.", test.name(), ".", ty], to, &[value]);
            }
            Arith::AddSat { lhs, rhs } => self.typed("add.sat.", result, &[lhs, rhs]),
            Arith::SubSat { lhs, rhs } => self.typed("sub.sat.", result, &[lhs, rhs]),
            Arith::MulHi { lhs, rhs } => match self.scalar(lhs).bits() {
                32 | 64 => self.typed("mul.hi.", result, &[lhs, rhs]),
                _ => {
                    let to = self.def(result);
                    self.narrow_high(to, lhs, rhs);
                }
            },
            Arith::MadHi { lhs, rhs, addend } => match self.scalar(lhs).bits() {
                32 | 64 => self.typed("mad.hi.", result, &[lhs, rhs, addend]),
                _ => {
                    let (to, high) = (self.def(result), self.temp(Class::B32));
                    self.narrow_high(high, lhs, rhs);
                    let addend = self.operand(addend);
                    self.ins(&["add.s32"], &[to.into(), high.into(), addend]);
                    self.wrap(to, self.scalar(result));
                }
            },
            Arith::MadHiSat { lhs, rhs, addend } => {
                self.typed("mad.hi.sat.", result, &[lhs, rhs, addend]);
            }
            Arith::Mul24 { lhs, rhs, half } => {
                self.typed(&format!("mul24.{half}."), result, &[lhs, rhs]);
            }
            Arith::Mad24 { lhs, rhs, addend, half } => {
                self.typed(&format!("mad24.{half}."), result, &[lhs, rhs, addend]);
            }
            Arith::Mad24HiSat { lhs, rhs, addend } => {
                self.typed("mad24.hi.sat.", result, &[lhs, rhs, addend]);
            }
            Arith::AddPacked { lhs, rhs } => self.halves("add.", result, [lhs, rhs]),
            Arith::MinPacked { lhs, rhs } => self.halves("min.", result, [lhs, rhs]),
            Arith::MaxPacked { lhs, rhs } => self.halves("max.", result, [lhs, rhs]),
            Arith::MinRelu { lhs, rhs } => self.halves("min.relu.", result, [lhs, rhs]),
            Arith::MaxRelu { lhs, rhs } => self.halves("max.relu.", result, [lhs, rhs]),
            Arith::CvtPack { ref values, to } => self.cvt_pack(result, values, to),
            Arith::MulWide { lhs, rhs } => {
                let (name, ty) = match self.scalar(lhs) {
                    Scalar::I32 | Scalar::U32 => ("mul.wide.", arith_type(self.scalar(lhs))),
                    // The registers of narrow integers have room for the product.
                    narrow => ("mul.lo.", arith_type(narrow)),
                };
                let to = self.def(result);
                self.write_op(&[name, ty], to, &[lhs, rhs]);
            }
            Arith::MadWide { lhs, rhs, addend } => {
                let (name, ty) = match self.scalar(lhs) {
                    Scalar::I32 | Scalar::U32 => ("mad.wide.", arith_type(self.scalar(lhs))),
                    narrow => ("mad.lo.", arith_type(narrow)),
                };
                let to = self.def(result);
                self.write_op(&[name, ty], to, &[lhs, rhs, addend]);
            }
            Arith::Mad { lhs, rhs, addend } => {
                self.typed("mad.lo.", result, &[lhs, rhs, addend]);
                let to = self.def(result);
                self.wrap(to, self.scalar(result));
            }
            Arith::Sad { lhs, rhs, addend } => {
                self.typed("sad.", result, &[lhs, rhs, addend]);
                let to = self.def(result);
                self.wrap(to, self.scalar(result));
            }
            Arith::Dp4a { lhs, rhs, addend } => {
                let (a, b) = (self.dot_type(lhs), self.dot_type(rhs));
                let to = self.def(result);
                self.write_op(&["dp4a.", a, ".", b], to, &[lhs, rhs, addend]);
            }
            Arith::Dp2a { lhs, rhs, addend, half } => {
                let (a, b) = (self.dot_type(lhs), self.dot_type(rhs));
                let to = self.def(result);
                self.write_op(&["dp2a.", half.name(), ".", a, ".", b], to, &[lhs, rhs, addend]);
            }
            Arith::Popc { value } => self.on_bits("popc.", result, value),
            Arith::Clz { value } => self.on_bits("clz.", result, value),
            Arith::Brev { value } => self.on_bits("brev.", result, value),
            Arith::Bfind { value, from } => {
                let name = match from {
                    crate::ir::FindFrom::Position => "bfind.",
                    crate::ir::FindFrom::ShiftAmount => "bfind.shiftamt.",
                };
                let ty = arith_type(self.scalar(value));
                let to = self.def(result);
                self.write_op(&[name, ty], to, &[value]);
            }
            Arith::Bfe { value, start, count } => {
                let (ty, bits) = (arith_type(self.scalar(value)), self.scalar(value).bits());
                let value = self.operand(value);
                let [start, count] = [start, count].map(|amount| self.low_byte(amount, bits));
                let to = self.def(result);
                self.ins(&["bfe.", ty], &[to.into(), value, start, count]);
            }
            Arith::Bfi { value, into, start, count } => {
                let ty = Class::of(self.ir.type_of(value)).bits_name();
                let bits = self.scalar(value).bits();
                let [value, into] = [value, into].map(|value| self.operand(value));
                let [start, count] = [start, count].map(|amount| self.low_byte(amount, bits));
                let to = self.def(result);
                self.ins(&["bfi.", ty], &[to.into(), value, into, start, count]);
            }
            Arith::Fns { mask, base, offset } => {
                let (mask, base) = self.fns_mask_and_base(mask, base);
                let offset = self.fns_offset(offset);
                let to = self.def(result);
                self.ins(&["fns.b32"], &[to.into(), mask, base, offset]);
            }
            Arith::Lop3 { a, b, c, table } => {
                let to = self.def(result);
                let [a, b, c] = [a, b, c].map(|value| self.operand(value));
                self.ins(&["lop3.b32"], &[to.into(), a, b, c, Operand::Int(table.into())]);
            }
            Arith::Shf { low, high, amount, direction, excess } => {
                let to = self.def(result);
                let name = ["shf.", direction.name(), ".", excess.name(), ".b32"];
                self.write_op(&name, to, &[low, high, amount]);
            }
            Arith::Prmt { low, high, selector, mode } => {
                let to = self.def(result);
                let (dot, mode) = match mode {
                    PermuteMode::Index => ("", ""),
                    PermuteMode::F4e
                    | PermuteMode::B4e
                    | PermuteMode::Rc8
                    | PermuteMode::Ecl
                    | PermuteMode::Ecr
                    | PermuteMode::Rc16 => (".", mode.name()),
                };
                self.write_op(&["prmt.b32", dot, mode], to, &[low, high, selector]);
            }
            Arith::Szext { value, bits, excess } => {
                let ty = arith_type(self.scalar(value));
                let to = self.def(result);
                self.write_op(&["szext.", excess.name(), ".", ty], to, &[value, bits]);
            }
            Arith::Bmsk { start, count, excess } => {
                let to = self.def(result);
                self.write_op(&["bmsk.", excess.name(), ".b32"], to, &[start, count]);
            }
            Arith::Bitcast { value, to: _ } => self.bitcast(result, value),
            Arith::CvtRounded { value, to, mode } => match self.ir.type_of(value) {
                Type::Vector(vector) => {
                    self.cvt_vector_rounded(result, value, vector, (to, mode));
                }
                Type::Scalar(from) => {
                    let operand = self.computed(value);
                    let register = self.def(result);
                    self.cvt_rounded_to(register, operand, (from, to), mode);
                }
                Type::Pointer { .. } | Type::TensorMap { .. } => {}
            },
            Arith::CvtRint { value, to, rounding } => self.cvt_rint(result, value, to, rounding),
            Arith::CvtSat { value, to } => {
                let from_type = self.scalar(value);
                let signed_fits = to.is_signed() || !from_type.is_signed();
                let wider = to.bits() > from_type.bits();
                if (wider && signed_fits)
                    || (from_type.bits(), from_type.is_signed()) == (to.bits(), to.is_signed())
                {
                    // Nothing is out of range, and PTX has no `.sat` of it.
                    return self.cvt(result, value, to);
                }
                let from = self.operand(value);
                let register = self.def(result);
                let name = ["cvt.sat.", memory_type(to), ".", arith_type(from_type)];
                self.ins(&name, &[register.into(), from]);
            }
            // These are written elsewhere.
            Arith::Add { .. }
            | Arith::Sub { .. }
            | Arith::Mul { .. }
            | Arith::Div { .. }
            | Arith::Rem { .. }
            | Arith::Min { .. }
            | Arith::Max { .. }
            | Arith::Neg { .. }
            | Arith::Abs { .. }
            | Arith::Fma { .. }
            | Arith::Sqrt { .. }
            | Arith::And { .. }
            | Arith::Or { .. }
            | Arith::Xor { .. }
            | Arith::Not { .. }
            | Arith::Shl { .. }
            | Arith::Shr { .. }
            | Arith::Setp { .. }
            | Arith::Selp { .. }
            | Arith::Cvt { .. }
            | Arith::VecPack { .. }
            | Arith::VecSplat { .. }
            | Arith::VecExtract { .. }
            | Arith::Sreg { .. } => {}
        }
    }

    /// An instruction on two half words in a register, or on the one integer that it has.
    fn halves(&mut self, name: &str, result: Value, operands: [Value; 2]) {
        let ty = match self.ir.type_of(result).vector().map(VectorType::elem) {
            Some(Scalar::U16) => "u16x2",
            Some(_) => "s16x2",
            None => "s32",
        };
        let to = self.def(result);
        self.write_op(&[name, ty], to, &operands);
    }

    /// Integers cut to the range of `to`, side by side: two by one instruction, four by two.
    fn cvt_pack(&mut self, result: Value, values: &[Value], to: Scalar) {
        let ty = match to {
            Scalar::I8 => "s8",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            _ => "s16",
        };
        let values: SmallVec<[Operand; 4]> =
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
            // The verifier has seen that there are two or four.
            _ => {}
        }
    }

    /// The high half of the product of two integers of 8 or 16 bits, whose product 32 bits hold.
    fn narrow_high(&mut self, to: Reg, lhs: Value, rhs: Value) {
        let scalar = self.scalar(lhs);
        let ty = arith_type(scalar);
        self.write_op(&["mul.lo.", ty], to, &[lhs, rhs]);
        let bits = Operand::Int(scalar.bits().into());
        self.ins(&["shr.", ty], &[to.into(), to.into(), bits]);
    }

    fn dot_type(&self, value: Value) -> &'static str {
        if self.scalar(value).is_signed() { "s32" } else { "u32" }
    }

    /// An operation on the bits of a value.
    fn on_bits(&mut self, name: &str, result: Value, value: Value) {
        let ty = Class::of(self.ir.type_of(value)).bits_name();
        let to = self.def(result);
        self.write_op(&[name, ty], to, &[value]);
    }

    /// Returns the lowest 8 bits of an amount; `ptxas` takes no other constants. An H200 computes 64-bit fields
    /// with shifts and does not mask their amounts. There the amount is cut to the width; a larger one gives
    /// the same result.
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

    /// Returns a mask and a base of at most 31 for which `fns` finds the same bit. PTX does not define larger
    /// bases, so the mask is 0 there.
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

    /// Returns the offset, clamped below to -33. The code that `ptxas` makes of `fns` negates the offset, so it
    /// finds bit 0 for the smallest `i32`.
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

    /// Sets `to` to the conversion of `from`, which is in a register where it has 16 bits or less.
    pub(super) fn cvt_rounded_to(
        &mut self,
        to: Reg,
        from: Operand,
        (from_type, to_type): (Scalar, Scalar),
        mode: FloatMode,
    ) {
        let (a, b) = (arith_type(from_type), arith_type(to_type));
        if from_type == to_type {
            // Nothing is rounded, and PTX allows no rounding.
            return self.ins(&["cvt.", mode.clamp.name(), ".", b, ".", a], &[to.into(), from]);
        }
        let mode = cvt_mode(to_type, mode);
        if to_type.bits() == 8 {
            // The upper byte of the result is not used.
            let zero = Operand::Const(crate::ir::Const::new(Scalar::F32, 0));
            return self.ins(&["cvt.", &mode, ".", b, "x2.", a], &[to.into(), zero, from]);
        }
        self.ins(&["cvt.", &mode, ".", b, ".", a], &[to.into(), from]);
    }

    fn cvt_rint(&mut self, result: Value, value: Value, to_type: Scalar, rounding: Rounding) {
        let from_type = self.scalar(value);
        let from = self.operand(value);
        let name = to_integral(rounding);
        if to_type.is_int() {
            let (from, from_type) = match from_type.format() {
                Some(_) => (self.widened(from, from_type), Scalar::F32),
                None => (from, from_type),
            };
            let to = self.def(result);
            return self.float_to_int(to, from, (from_type, to_type), name);
        }
        if from_type == Scalar::Bf16 {
            // PTX has no such conversion, but every integral number of `f32` between two of `bf16` is one.
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

    fn bitcast(&mut self, result: Value, value: Value) {
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

    /// The bits of a value in registers of 32 bits, from the lowest.
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

    /// Values of 8 and 16 bits: integers are in registers of 32 bits, extended, everything else in those of 16.
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
