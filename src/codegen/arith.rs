//! Arithmetic, logic and comparison.

use super::entry::Entry;
use super::fold::fold;
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::{Arith, Compare, Const, Scalar, Type, Value};

/// The smallest and the largest number of an integer type of 8 or 16 bits.
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
        | Scalar::F32
        | Scalar::F64 => None,
    }
}

impl Entry<'_> {
    pub(super) fn arith(&mut self, op: &Arith, result: Value) {
        let constant = |value| match self.operand(value) {
            Operand::Const(constant) => Some(constant),
            Operand::Reg(_) | Operand::Int(_) => None,
        };
        if let Some(constant) = fold(op, constant) {
            return self.bind(result, Operand::Const(constant));
        }
        match *op {
            Arith::Add { lhs, rhs } => self.wrapping(["add.", "add.rn."], result, &[lhs, rhs]),
            Arith::Sub { lhs, rhs } => self.wrapping(["sub.", "sub.rn."], result, &[lhs, rhs]),
            Arith::Mul { lhs, rhs } => self.wrapping(["mul.lo.", "mul.rn."], result, &[lhs, rhs]),
            // The smallest number divided by -1 leaves the range of a narrow type.
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
            Arith::Cvt { value, to } => self.cvt(result, value, to),
            Arith::Sreg { reg } => {
                self.read_special(result, reg.scalar(), &reg.to_string());
            }
        }
    }

    /// The scalar type of a value; the verifier has seen that it is one where this is asked.
    pub(super) fn scalar(&self, value: Value) -> Scalar {
        match self.ir.type_of(value) {
            Type::Scalar(scalar) => scalar,
            Type::Pointer { .. } => Scalar::U64,
        }
    }

    fn write_op(&mut self, name: &[&str], to: Reg, values: &[Value]) {
        let mut operands = [Operand::Reg(to); 4];
        for (operand, value) in operands[1..].iter_mut().zip(values) {
            *operand = self.operand(*value);
        }
        self.ins(name, &operands[..=values.len().min(3)]);
    }

    /// An operation in the type of its result.
    fn typed(&mut self, name: &str, result: Value, values: &[Value]) {
        let (to, ty) = (self.def(result), arith_type(self.scalar(result)));
        self.write_op(&[name, ty], to, values);
    }

    /// An operation that can leave the range of its type: the name for integers and for floating point.
    fn wrapping(&mut self, [int, float]: [&str; 2], result: Value, values: &[Value]) {
        let scalar = self.scalar(result);
        let to = self.def(result);
        let name = if scalar.is_float() { float } else { int };
        self.write_op(&[name, arith_type(scalar)], to, values);
        self.wrap(to, scalar);
    }

    /// Extends the low bits of `reg`, where `scalar` is narrower than it.
    pub(super) fn wrap(&mut self, reg: Reg, scalar: Scalar) {
        self.extend(reg, reg.into(), scalar);
    }

    /// `to` becomes the low bits of `from`, extended to 32, where `scalar` is narrower than that.
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
            | Scalar::F32
            | Scalar::F64 => return,
        };
        self.ins(&[name], &[to.into(), from]);
    }

    /// An operation on the bits of its operands.
    fn bitwise(&mut self, name: &str, result: Value, values: &[Value]) {
        let to = self.def(result);
        self.write_op(&[name, to.class().bits_name()], to, values);
    }

    fn not(&mut self, result: Value, value: Value) {
        let scalar = self.scalar(result);
        match narrow_range(scalar) {
            // The bits above an unsigned number stay 0.
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
        // PTX's `ne` is false where an operand is NaN; `neu` is true there.
        let unordered = if scalar.is_float() && compare == Compare::Ne { "u." } else { "." };
        let to = self.def(result);
        self.write_op(&["setp.", compare.name(), unordered, arith_type(scalar)], to, &[lhs, rhs]);
    }

    /// `false < true`.
    fn compare_bools(&mut self, result: Value, compare: Compare, lhs: Value, rhs: Value) {
        let to = self.def(result);
        let (a, b) = (self.operand(lhs), self.operand(rhs));
        let to_operand = Operand::Reg(to);
        // `lhs < rhs` is `!lhs & rhs`, and so on: the negated operand, the operation, the other one.
        let (negated, name, other) = match compare {
            Compare::Ne => return self.ins(&["xor.pred"], &[to_operand, a, b]),
            Compare::Eq => (a, "xor.pred", b),
            Compare::Lt => (a, "and.pred", b),
            Compare::Le => (a, "or.pred", b),
            Compare::Gt => (b, "and.pred", a),
            Compare::Ge => (b, "or.pred", a),
        };
        let not = self.temp(Class::Pred);
        self.ins(&["not.pred"], &[not.into(), negated]);
        self.ins(&[name], &[to_operand, not.into(), other]);
    }

    fn selp(&mut self, result: Value, cond: Value, then_value: Value, else_value: Value) {
        let [cond, a, b] = [cond, then_value, else_value].map(|value| self.operand(value));
        let to = self.def(result);
        match (to.class(), cond) {
            (Class::Pred, Operand::Reg(guard)) => {
                self.mov(to, b);
                self.guarded((guard, false), &["mov.pred"], &[to.into(), a]);
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
