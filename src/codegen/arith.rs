//! Writes arithmetic, logic and comparisons as PTX instructions, or as `fma` and `f32` sequences if
//! the target has no instruction for the type.

use smallvec::{SmallVec, smallvec};

use super::entry::Entry;
use super::fold::fold;
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::Value;
use crate::ir::op::{Arith, Compare, Convert, FloatArith, Op};
use crate::ir::types::{Const, Scalar, Type, VectorType};

/// An operand of an `fma` that stands in for another operation.
#[derive(Clone, Copy)]
enum Factor {
    Value(Value),
    Constant,
}

impl From<Value> for Factor {
    fn from(value: Value) -> Factor {
        Factor::Value(value)
    }
}

/// Returns the smallest and the largest value of an 8-bit or 16-bit integer type.
pub(super) fn narrow_range(scalar: Scalar) -> Option<(i64, i64)> {
    match scalar {
        Scalar::I8 => Some((i8::MIN.into(), i8::MAX.into())),
        Scalar::I16 => Some((i16::MIN.into(), i16::MAX.into())),
        Scalar::U8 => Some((0, u8::MAX.into())),
        Scalar::U16 => Some((0, u16::MAX.into())),
        Scalar::Bool
        | Scalar::I32
        | Scalar::I64
        | Scalar::U32
        | Scalar::U64
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::F16
        | Scalar::Bf16
        | Scalar::Tf32
        | Scalar::F32
        | Scalar::F64 => None,
    }
}

/// Returns the operation without a rounding mode that computes the same on `bf16`, which has only
/// one mode.
fn unrounded(op: &Op) -> Option<Arith> {
    if let Op::FloatArith(FloatArith::AddRounded { lhs, rhs, .. }) = *op {
        Some(Arith::Add { lhs, rhs })
    } else if let Op::FloatArith(FloatArith::SubRounded { lhs, rhs, .. }) = *op {
        Some(Arith::Sub { lhs, rhs })
    } else if let Op::FloatArith(FloatArith::MulRounded { lhs, rhs, .. }) = *op {
        Some(Arith::Mul { lhs, rhs })
    } else {
        None
    }
}

impl Entry<'_> {
    /// Writes a pure operation, or binds its result to a constant.
    pub(super) fn pure(&mut self, op: &Op, result: Value) {
        let constant = |value| match self.operand(value) {
            Operand::Const(constant) => Some(constant),
            Operand::Reg(_) | Operand::Int(_) => None,
        };
        if let Some(constant) = fold(op, self.ir.type_of(result), constant) {
            return self.bind(result, Operand::Const(constant));
        }
        if let Op::Arith(op) = op {
            self.arith(op, result);
        } else if let Op::Convert(op) = op {
            self.conversion(op, result);
        } else if let Some(op) = unrounded(op).filter(|_| self.by_fma(result)) {
            self.arith(&op, result);
        } else {
            self.plain(op, result);
        }
    }

    fn arith(&mut self, op: &Arith, result: Value) {
        match *op {
            Arith::Add { lhs, rhs } if self.by_fma(result) => {
                self.fma_with_constant(result, 0x3f80, |one| [lhs.into(), one, rhs.into()]);
            }
            Arith::Sub { lhs, rhs } if self.by_fma(result) => {
                self.fma_with_constant(result, 0xbf80, |minus_one| {
                    [rhs.into(), minus_one, lhs.into()]
                });
            }
            // Adding -0 to a product leaves it unchanged, even if it is a zero.
            Arith::Mul { lhs, rhs } if self.by_fma(result) => {
                self.fma_with_constant(result, 0x8000, |zero| [lhs.into(), rhs.into(), zero]);
            }
            Arith::Neg { value } if self.loses_sign(value) => self.negate(result, value),
            Arith::Sub { lhs, rhs } if self.negates(lhs, 0, rhs) => self.negate(result, rhs),
            Arith::Mul { lhs, rhs } if self.negates(rhs, -1, lhs) => self.negate(result, lhs),
            Arith::Mul { lhs, rhs } if self.negates(lhs, -1, rhs) => self.negate(result, rhs),
            Arith::Add { lhs, rhs } => self.wrapping(["add.", "add.rn."], result, &[lhs, rhs]),
            Arith::Sub { lhs, rhs } => self.wrapping(["sub.", "sub.rn."], result, &[lhs, rhs]),
            Arith::Mul { lhs, rhs } => self.wrapping(["mul.lo.", "mul.rn."], result, &[lhs, rhs]),
            Arith::Div { lhs, rhs } if self.scalar(result).format().is_some() => {
                self.in_f32("div.rn.f32", result, &[lhs, rhs]);
            }
            Arith::Sqrt { value } if self.scalar(result).format().is_some() => {
                self.in_f32("sqrt.rn.f32", result, &[value]);
            }
            Arith::Div { lhs, rhs } if self.divides_by_constant(result, lhs, rhs, false) => {}
            Arith::Rem { lhs, rhs } if self.divides_by_constant(result, lhs, rhs, true) => {}
            // The smallest value divided by -1 leaves the range of a narrow type.
            Arith::Div { lhs, rhs } => self.wrapping(["div.", "div.rn."], result, &[lhs, rhs]),
            Arith::Rem { lhs, rhs } => self.typed("rem.", result, &[lhs, rhs]),
            Arith::Min { lhs, rhs } => self.typed("min.", result, &[lhs, rhs]),
            Arith::Max { lhs, rhs } => self.typed("max.", result, &[lhs, rhs]),
            Arith::Neg { value } => self.wrapping(["neg."; 2], result, &[value]),
            Arith::Abs { value } => self.wrapping(["abs."; 2], result, &[value]),
            Arith::Fma { lhs, rhs, addend } => {
                self.typed("fma.rn.", result, &[lhs, rhs, addend]);
            }
            Arith::Sqrt { value } => self.typed("sqrt.rn.", result, &[value]),
            Arith::And { lhs, rhs } => self.bitwise("and.", result, &[lhs, rhs]),
            Arith::Or { lhs, rhs } => self.bitwise("or.", result, &[lhs, rhs]),
            Arith::Xor { lhs, rhs } => self.bitwise("xor.", result, &[lhs, rhs]),
            Arith::Not { value } => self.not(result, value),
            Arith::Shl { value, amount } => {
                self.bitwise("shl.", result, &[value, amount]);
                let to = self.def(result);
                self.wrap(to, self.scalar(result));
            }
            Arith::Shr { value, amount } => self.typed("shr.", result, &[value, amount]),
            Arith::Setp { lhs, rhs, compare } => self.setp(result, compare, lhs, rhs),
            Arith::Selp { cond, then_value, else_value } => {
                self.selp(result, cond, then_value, else_value);
            }
            Arith::Copysign { magnitude, sign } => {
                self.typed("copysign.", result, &[sign, magnitude]);
            }
            Arith::MulHi { lhs, rhs } => self.mul_hi(result, lhs, rhs),
            Arith::MulWide { lhs, rhs } => self.wide("mul", result, &[lhs, rhs]),
            Arith::MadHi { lhs, rhs, addend } => self.mad_hi(result, lhs, rhs, addend),
            Arith::MadWide { lhs, rhs, addend } => self.wide("mad", result, &[lhs, rhs, addend]),
            Arith::Bfe { value, start, count } => self.bfe(result, value, [start, count]),
            Arith::Bfi { value, into, start, count } => {
                self.bfi(result, [value, into], [start, count]);
            }
            Arith::Fns { mask, base, offset } => self.fns(result, mask, base, offset),
            Arith::Lop3 { a, b, c, table } => self.lop3(result, [a, b, c], table),
        }
    }

    fn conversion(&mut self, op: &Convert, result: Value) {
        match *op {
            Convert::Cvt { value, to } => match self.ir.type_of(value) {
                Type::Vector(vector) => self.cvt_vector(result, value, vector, to),
                Type::Scalar(_) | Type::Pointer { .. } | Type::TensorMap { .. } => {
                    self.cvt(result, value, to)
                }
            },
            Convert::VecPack { ref values } => self.vec_pack(result, values),
            Convert::VecSplat { value, lanes } => {
                self.vec_pack(result, &vec![value; lanes as usize]);
            }
            Convert::VecExtract { vector, lane } => self.vec_extract(result, vector, lane),
            Convert::Bitcast { value, to: _ } => self.bitcast(result, value),
            Convert::CvtRounded { value, to, mode } => self.cvt_rounded(result, value, to, mode),
            Convert::CvtRint { value, to, rounding } => self.cvt_rint(result, value, to, rounding),
            Convert::CvtSat { value, to } => self.cvt_sat(result, value, to),
            Convert::CvtPack { ref values, to } => self.cvt_pack(result, values, to),
        }
    }

    /// Returns the scalar type of a value, or of a vector's elements. The verifier has checked that
    /// the value is one of these wherever this is called.
    pub(super) fn scalar(&self, value: Value) -> Scalar {
        match self.ir.type_of(value) {
            Type::Scalar(scalar) => scalar,
            Type::Vector(vector) => vector.elem(),
            Type::Pointer { .. } | Type::TensorMap { .. } => Scalar::U64,
        }
    }

    pub(super) fn write_op(&mut self, name: &[&str], to: Reg, values: &[Value]) {
        let mut operands = [Operand::Reg(to); 4];
        for (operand, value) in operands[1..].iter_mut().zip(values) {
            *operand = self.computed(*value);
        }
        self.ins(name, &operands[..=values.len().min(3)]);
    }

    /// Returns a value as an operand of an arithmetic instruction. Instructions on 16-bit floating
    /// point accept no constants.
    pub(super) fn computed(&mut self, value: Value) -> Operand {
        let operand = self.operand(value);
        match Class::of(self.ir.type_of(value)) {
            Class::B16 => self.in_reg(operand, Class::B16).into(),
            Class::Pred | Class::B32 | Class::B64 | Class::F32 | Class::F64 => operand,
        }
    }

    /// Returns the type of an instruction that computes with such values.
    pub(super) fn computed_type(&self, value: Value) -> &'static str {
        match self.ir.type_of(value) {
            Type::Vector(VectorType::F16X2) => "f16x2",
            Type::Vector(VectorType::BF16X2) => "bf16x2",
            Type::Scalar(_) | Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => {
                arith_type(self.scalar(value))
            }
        }
    }

    /// Returns whether the target computes with the value's type by `fma` only, without `add`,
    /// `sub` and `mul`.
    pub(super) fn by_fma(&self, value: Value) -> bool {
        self.scalar(value) == Scalar::Bf16 && self.ir.target.sm() < 90
    }

    /// Writes an `fma` on `bf16`, with the constant `bits` as one operand in each element of a
    /// vector. The PTX ISA defines `add`, `sub` and `mul` on `bf16` by this `fma` (9.7.4).
    fn fma_with_constant(
        &mut self,
        result: Value,
        bits: i64,
        operands: impl Fn(Factor) -> [Factor; 3],
    ) {
        let to = self.def(result);
        let constant = self.temp(to.class());
        let bits = if to.class() == Class::B32 { bits << 16 | bits } else { bits };
        self.mov(constant, Operand::Int(bits));
        let operands = operands(Factor::Constant).map(|factor| match factor {
            Factor::Constant => constant.into(),
            Factor::Value(value) => self.computed(value),
        });
        let [a, b, c] = operands;
        self.ins(&["fma.rn.", self.computed_type(result)], &[to.into(), a, b, c]);
    }

    /// Writes a correctly rounded operation on a 16-bit floating point type by computing in `f32`.
    /// Since `f32` has more than twice as many digits, rounding twice gives the same as rounding
    /// once (Figueroa: When is double rounding innocuous?, 1995).
    fn in_f32(&mut self, name: &str, result: Value, values: &[Value]) {
        let scalar = self.scalar(result);
        let wide = self.temp(Class::F32);
        let mut operands: SmallVec<[Operand; 5]> = smallvec![wide.into()];
        for value in values {
            let operand = self.operand(*value);
            operands.push(self.widened(operand, scalar));
        }
        self.ins(&[name], &operands);
        let to = self.def(result);
        self.narrowed(to, wide.into(), scalar);
    }

    /// Writes an operation in the type of its result.
    pub(super) fn typed(&mut self, name: &str, result: Value, values: &[Value]) {
        let (to, ty) = (self.def(result), self.computed_type(result));
        self.write_op(&[name, ty], to, values);
    }

    /// Writes an operation that can leave the range of its type, with one name for integers and one
    /// for floating point.
    fn wrapping(&mut self, [int, float]: [&str; 2], result: Value, values: &[Value]) {
        let scalar = self.scalar(result);
        let to = self.def(result);
        let name = if scalar.is_float() { float } else { int };
        self.write_op(&[name, self.computed_type(result)], to, values);
        if self.ir.type_of(result).scalar().is_some() {
            self.wrap(to, scalar);
        }
    }

    /// Extends the low bits of `reg` if `scalar` is narrower than the register.
    pub(super) fn wrap(&mut self, reg: Reg, scalar: Scalar) {
        self.extend(reg, reg.into(), scalar);
    }

    /// Sets `to` to the low bits of `from`, extended to 32 bits if `scalar` is narrower.
    pub(super) fn extend(&mut self, to: Reg, from: Operand, scalar: Scalar) {
        let name = match scalar {
            Scalar::I8 => "cvt.s32.s8",
            Scalar::I16 => "cvt.s32.s16",
            Scalar::U8 => "cvt.u32.u8",
            Scalar::U16 => "cvt.u32.u16",
            Scalar::Bool
            | Scalar::I32
            | Scalar::I64
            | Scalar::U32
            | Scalar::U64
            | Scalar::F8E4M3
            | Scalar::F8E5M2
            | Scalar::F16
            | Scalar::Bf16
            | Scalar::Tf32
            | Scalar::F32
            | Scalar::F64 => return,
        };
        self.ins(&[name], &[to.into(), from]);
    }

    /// Writes an operation on the bits of its operands.
    fn bitwise(&mut self, name: &str, result: Value, values: &[Value]) {
        let to = self.def(result);
        self.write_op(&[name, to.class().bits_name()], to, values);
    }

    fn not(&mut self, result: Value, value: Value) {
        let scalar = self.scalar(result);
        match narrow_range(scalar) {
            // The bits above an unsigned value stay 0.
            Some((0, mask)) => {
                let to = self.def(result);
                let value = self.operand(value);
                self.ins(&["xor.b32"], &[to.into(), value, Operand::Int(mask)]);
            }
            _ => self.bitwise("not.", result, &[value]),
        }
    }

    fn setp(&mut self, result: Value, compare: Compare, lhs: Value, rhs: Value) {
        let scalar = self.scalar(lhs);
        if scalar == Scalar::Bool {
            return self.compare_bools(result, compare, lhs, rhs);
        }
        let to = self.def(result);
        if scalar == Scalar::Bf16 && self.ir.target.sm() < 90 {
            let [a, b] = [lhs, rhs].map(|value| self.operand(value));
            let (a, b) = (self.widened(a, scalar), self.widened(b, scalar));
            return self.ins(&["setp.", compare.name(), ".f32"], &[to.into(), a, b]);
        }
        self.write_op(&["setp.", compare.name(), ".", arith_type(scalar)], to, &[lhs, rhs]);
    }

    /// Compares predicates, with `false < true`.
    fn compare_bools(&mut self, result: Value, compare: Compare, lhs: Value, rhs: Value) {
        let to = self.def(result);
        let (a, b) = (self.operand(lhs), self.operand(rhs));
        let to_operand = Operand::Reg(to);
        // `lhs < rhs` is `!lhs & rhs`, and so on: the negated operand, the operation, the other
        // operand.
        let (negated, name, other) = match compare {
            Compare::Ne => return self.ins(&["xor.pred"], &[to_operand, a, b]),
            Compare::Eq => (a, "xor.pred", b),
            Compare::Lt => (a, "and.pred", b),
            Compare::Le => (a, "or.pred", b),
            Compare::Gt => (b, "and.pred", a),
            Compare::Ge => (b, "or.pred", a),
            // The verifier allows these for floating point only.
            Compare::Equ
            | Compare::Neu
            | Compare::Ltu
            | Compare::Leu
            | Compare::Gtu
            | Compare::Geu
            | Compare::Num
            | Compare::Nan => return,
        };
        let not = self.temp(Class::Pred);
        self.ins(&["not.pred"], &[not.into(), negated]);
        self.ins(&[name], &[to_operand, not.into(), other]);
    }

    fn selp(&mut self, result: Value, cond: Value, then_value: Value, else_value: Value) {
        let cond = self.operand(cond);
        let (then_parts, else_parts) = (self.parts(then_value), self.parts(else_value));
        let parts = self.def_parts(result).into_iter().zip(then_parts.into_iter().zip(else_parts));
        for (to, (a, b)) in parts {
            self.selp_part(to, cond, a, b);
        }
    }

    fn selp_part(&mut self, to: Reg, cond: Operand, a: Operand, b: Operand) {
        match (to.class(), cond) {
            (Class::Pred, Operand::Reg(guard)) => {
                self.mov(to, b);
                self.guarded(guard, &["mov.pred"], &[to.into(), a]);
            }
            (Class::Pred, Operand::Const(cond)) => {
                self.mov(to, if cond == Const::new(Scalar::Bool, 1) { a } else { b });
            }
            (class, _) => {
                self.ins(&["selp.", class.bits_name()], &[to.into(), a, b, cond]);
            }
        }
    }
}
