//! Writes atomic operations and cache hints such as prefetches. Types and vectors without an
//! instruction of their own are written as several.

use smallvec::SmallVec;

use super::entry::Entry;
use super::mem::{Address, of_space};
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::Value;
use crate::ir::op::{Atomic, AtomicOp, Cache};
use crate::ir::types::Scalar;

impl Entry<'_> {
    pub(super) fn atomic(&mut self, op: &Atomic, result: Option<Value>) {
        match (op, result) {
            (&Atomic::Atom { base, index, value, op, order, scope }, Some(result)) => {
                let (space, elem) = self.pointee(base);
                let (address, value) = (self.address_of(base, index), self.operand(value));
                let to = self.def(result);
                let value = self.as_bits(op, value, to.class());
                let head = ["atom.", order.name(), ".", scope.name(), of_space(space)];
                self.at_address(
                    &[&head[..], &operation(op, elem)].concat(),
                    Some(to),
                    address,
                    &[value],
                );
            }
            (&Atomic::AtomCas { base, index, compare, value, order, scope }, Some(result)) => {
                let (space, elem) = self.pointee(base);
                let address = self.address_of(base, index);
                let operands = [compare, value].map(|value| self.operand(value));
                let to = self.def(result);
                let head = ["atom.", order.name(), ".", scope.name(), of_space(space), ".cas."];
                if elem.bits() == 16 {
                    return self.cas_half(&head, to, elem, address, operands);
                }
                let operands =
                    operands.map(|operand| self.as_bits(AtomicOp::Exch, operand, to.class()));
                let name = [&head[..], &[to.class().bits_name()]].concat();
                self.at_address(&name, Some(to), address, &operands);
            }
            (&Atomic::Red { base, index, value, op, order, scope }, _) => {
                let (space, elem) = self.pointee(base);
                let (address, value) = (self.address_of(base, index), self.operand(value));
                let head = [order.name(), ".", scope.name(), of_space(space)];
                if op == AtomicOp::Exch {
                    // `red` does not have this operation, so write `atom` and ignore its result.
                    let class = Class::of_scalar(elem);
                    let unused = self.temp(class);
                    let value = self.as_bits(op, value, class);
                    let name = [&["atom."], &head[..], &operation(op, elem)].concat();
                    return self.at_address(&name, Some(unused), address, &[value]);
                }
                let value = self.as_bits(op, value, Class::of_scalar(elem));
                self.at_address(
                    &[&["red."], &head[..], &operation(op, elem)].concat(),
                    None,
                    address,
                    &[value],
                );
            }
            (&Atomic::AtomVec { base, index, vector, op, order, scope }, Some(result)) => {
                let (space, _) = self.pointee(base);
                let head = ["atom.", order.name(), ".", scope.name(), of_space(space)];
                self.atomic_vector(&head, op, base, index, vector, Some(result));
            }
            (&Atomic::RedVec { base, index, vector, op, order, scope }, _) => {
                let (space, _) = self.pointee(base);
                let head = ["red.", order.name(), ".", scope.name(), of_space(space)];
                self.atomic_vector(&head, op, base, index, vector, None);
            }
            // The verifier has checked that these have a result.
            (Atomic::Atom { .. } | Atomic::AtomCas { .. } | Atomic::AtomVec { .. }, None) => {}
        }
    }

    /// Writes `cas.b16`, which takes 16-bit registers, although 16-bit integers live in 32-bit
    /// registers.
    fn cas_half(
        &mut self,
        head: &[&str],
        to: Reg,
        elem: Scalar,
        address: Address,
        operands: [Operand; 2],
    ) {
        let halves = operands.map(|operand| {
            let reg = self.in_reg(operand, to.class());
            if to.class() == Class::B16 {
                return Operand::from(reg);
            }
            let half = self.temp(Class::B16);
            self.ins(&["cvt.u16.u32"], &[half.into(), reg.into()]);
            half.into()
        });
        let found = if to.class() == Class::B16 { to } else { self.temp(Class::B16) };
        self.at_address(&[head, &["b16"]].concat(), Some(found), address, &halves);
        if found != to {
            let name = if elem.is_signed() { "cvt.s32.s16" } else { "cvt.u32.u16" };
            self.ins(&[name], &[to.into(), found.into()]);
        }
    }

    /// Writes an operation on all elements of a vector, as pairs of halves in registers or as
    /// `f32`. If there is no instruction for a single pair, it is written as two halves.
    fn atomic_vector(
        &mut self,
        head: &[&str],
        op: AtomicOp,
        base: Value,
        index: Value,
        vector: Value,
        result: Option<Value>,
    ) {
        let (_, elem) = self.pointee(base);
        let address = self.address_of(base, index);
        let class = Class::of(self.ir.type_of(vector));
        let from: SmallVec<[Reg; 4]> =
            self.parts(vector).into_iter().map(|part| self.in_reg(part, class)).collect();
        let to = result.map(|result| self.def_parts(result));
        let kind = if elem == Scalar::F32 { op.name() } else { with_noftz(op) };
        let ty = arith_type(elem);
        if let ([pair], true) = (&from[..], op != AtomicOp::Add) {
            let halves = [0, 1].map(|half| {
                let reg = self.temp(Class::B16);
                self.mov_unpack(reg, (*pair).into(), half);
                reg
            });
            let found = to.as_ref().map(|_| [0, 1].map(|_| self.temp(Class::B16)));
            let name = [head, &[".", kind, ".v2.", ty]].concat();
            self.vector_at(&name, found.as_ref().map(|found| &found[..]), address, &halves);
            if let (Some(to), Some(found)) = (to, found) {
                self.mov_pack(to[0], &found.map(Operand::from));
            }
            return;
        }
        let count = match from.len() {
            4 => ".v4",
            2 => ".v2",
            _ => "",
        };
        let packed = if elem == Scalar::F32 { "" } else { "x2" };
        let name = [head, &[".", kind, count, ".", ty, packed]].concat();
        self.vector_at(&name, to.as_deref(), address, &from);
    }

    /// Like [`at_address`](Entry::at_address), with lists of registers.
    fn vector_at(&mut self, name: &[&str], to: Option<&[Reg]>, address: Address, from: &[Reg]) {
        self.begin();
        name.iter().for_each(|part| self.text.push(part));
        self.text.push(" ");
        if let Some(to) = to {
            self.vector_of(to);
            self.text.push(", ");
        }
        self.write_address(address);
        self.text.push(", ");
        self.vector_of(from);
        self.text.push(";\n");
    }

    /// Returns the operand of an instruction that takes bits. There, `ptxas` accepts neither
    /// floating point immediates nor 16-bit ones.
    fn as_bits(&mut self, op: AtomicOp, operand: Operand, class: Class) -> Operand {
        match class {
            Class::F32 | Class::F64 if op == AtomicOp::Exch => self.in_reg(operand, class).into(),
            Class::B16 => self.in_reg(operand, class).into(),
            Class::Pred | Class::B32 | Class::B64 | Class::F32 | Class::F64 => operand,
        }
    }

    /// Writes an instruction on memory: its destination, its address, its sources.
    pub(super) fn at_address(
        &mut self,
        name: &[&str],
        to: Option<Reg>,
        address: Address,
        operands: &[Operand],
    ) {
        self.begin();
        name.iter().for_each(|part| self.text.push(part));
        self.text.push(" ");
        if let Some(to) = to {
            self.text.reg(to);
            self.text.push(", ");
        }
        self.write_address(address);
        for operand in operands {
            self.text.push(", ");
            self.text.operand(*operand);
        }
        self.text.push(";\n");
    }

    pub(super) fn cache(&mut self, op: &Cache) {
        match *op {
            Cache::Prefetch { base, index, level } => {
                let address = self.address_of(base, index);
                self.at_address(&["prefetch.global.", level.name()], None, address, &[]);
            }
            Cache::Discard { base, index } => {
                let address = self.address_of(base, index);
                self.at_address(&["discard.global.L2"], None, address, &[Operand::Int(128)]);
            }
            Cache::Applypriority { base, index } => {
                let address = self.address_of(base, index);
                let name = ["applypriority.global.L2::evict_normal"];
                self.at_address(&name, None, address, &[Operand::Int(128)]);
            }
        }
    }
}

/// Returns the end of a scalar atomic instruction's name: the operation and the type.
fn operation(op: AtomicOp, elem: Scalar) -> [&'static str; 4] {
    let kind = if matches!(elem, Scalar::F16 | Scalar::Bf16) { with_noftz(op) } else { op.name() };
    [".", kind, ".", atomic_type(op, elem)]
}

/// Returns the name of an operation on halves. It always keeps subnormal numbers, and the name has
/// to say so.
fn with_noftz(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add.noftz",
        AtomicOp::Min => "min.noftz",
        AtomicOp::Max => "max.noftz",
        AtomicOp::And
        | AtomicOp::Or
        | AtomicOp::Xor
        | AtomicOp::Exch
        | AtomicOp::Inc
        | AtomicOp::Dec => op.name(),
    }
}

/// Returns the type of an atomic instruction. 64-bit sums are unsigned, which gives the same bits.
fn atomic_type(op: AtomicOp, elem: Scalar) -> &'static str {
    match (op, elem) {
        (AtomicOp::Add, Scalar::I64) => "u64",
        (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch, _) => {
            if elem.bits() == 64 {
                "b64"
            } else {
                "b32"
            }
        }
        _ => arith_type(elem),
    }
}
