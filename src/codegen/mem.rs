//! Writes loads, stores, pointers and register variables. An address that was computed before is
//! reused.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::entry::Entry;
use super::regs::{Class, Operand, Reg, memory_type};
use crate::ir::op::{
    L1Evict, L2Policy, L2Prefetch, LoadAccess, LoadCache, Mem, StoreAccess, StoreCache,
};
use crate::ir::types::{Scalar, Space, Type, VectorType};
use crate::ir::{Entity, Value, VarId};

/// Addresses that are already in a register, while the body that computed them is being written.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    registers: HashMap<Indexed, Reg>,
    order: Vec<Indexed>,
}

/// `base + index * size`: what an address is computed from. The index's type says how it is
/// widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Indexed {
    base: Reg,
    index: Reg,
    index_type: Scalar,
    size: u32,
}

/// Hashes the registers only, because size and index type seldom differ if these are the same.
impl Hash for Indexed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.base, self.index).hash(state);
    }
}

impl Addresses {
    /// Returns a mark for [`forget`](Addresses::forget).
    pub(super) fn known(&self) -> usize {
        self.order.len()
    }

    /// Forgets the addresses that were computed after the mark was made.
    pub(super) fn forget(&mut self, known: usize) {
        for address in self.order.drain(known..) {
            self.registers.remove(&address);
        }
    }
}

/// An address in the form that instructions take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    base: Reg,
    offset: i64,
}

impl Address {
    /// Returns the address `offset` bytes after the one in a register.
    pub(super) fn of(base: Reg, offset: i64) -> Address {
        Address { base, offset }
    }
}

impl Entry<'_> {
    pub(super) fn mem(&mut self, op: &Mem, result: Option<Value>) {
        match (op, result) {
            (&Mem::Ld { base, index, access }, Some(result)) => {
                self.load(result, base, index, &access);
            }
            (&Mem::St { base, index, value, access }, _) => self.store(base, index, value, &access),
            (&Mem::LdVec { base, index, lanes: _, access }, Some(result)) => {
                self.load_vector(result, base, index, &access);
            }
            (&Mem::StVec { base, index, vector, access }, _) => {
                self.store_vector(base, index, vector, &access);
            }
            (&Mem::AssumeAligned { base, bytes: _ }, Some(result)) => {
                let base = self.operand(base);
                self.bind(result, base);
            }
            (
                &Mem::AssumeDivisibleBy { value, .. } | &Mem::AssumeBetween { value, .. },
                Some(result),
            ) => {
                let value = self.operand(value);
                self.bind(result, value);
            }
            (&Mem::IntToPtr { address, .. }, Some(result)) => {
                let (to, from) = (self.def(result), self.operand(address));
                self.mov(to, from);
            }
            (&Mem::Offset { base, index }, Some(result)) => self.offset(result, base, index),
            (&Mem::PtrCast { base, .. }, Some(result)) => {
                let (to, from) = (self.def(result), self.operand(base));
                self.mov(to, from);
            }
            (Mem::SharedBase { shared }, Some(result)) => {
                let to = self.def(result);
                let bytes = self.shared.1;
                let offset = self.shared.0.get(shared.index()).copied().unwrap_or(0);
                self.begin();
                self.text.push("mov.u32 ");
                self.text.reg(to);
                // No array is declared if it would be empty.
                self.text.push(if bytes == 0 { ", 0" } else { ", $shared" });
                if offset > 0 {
                    self.text.push("+");
                    self.text.number(offset);
                }
                self.text.push(";\n");
            }
            (&Mem::ArrayBase { array }, Some(result)) => {
                let to = self.def(result);
                let name = self.arrays.get(array.index()).copied().unwrap_or(0);
                self.begin();
                self.text.push("mov.u64 ");
                self.text.reg(to);
                self.text.push(", $array");
                self.text.number(name);
                self.text.push(";\n");
            }
            (&Mem::GlobalBase { global }, Some(result)) => {
                let (to, name) = (self.def(result), self.global_name(global));
                self.begin();
                self.text.push("mov.u64 ");
                self.text.reg(to);
                self.text.push(", ");
                self.text.push(&name);
                self.text.push(";\n");
            }
            (&Mem::LocalBase { local }, Some(result)) => {
                let to = self.def(result);
                self.begin();
                self.text.push("mov.u64 ");
                self.text.reg(to);
                self.text.push(", $local");
                self.text.number(local.index() as u64);
                self.text.push(";\n");
            }
            (&Mem::Cvta { base }, Some(result)) => {
                let (space, _) = self.pointee(base);
                let base = self.operand(base);
                let base = self.in_reg(base, Class::of_pointer(space));
                let to = self.def(result);
                // There are no 32-bit generic addresses.
                let wide = match base.class() {
                    Class::B32 => {
                        self.ins(&["cvt.u64.u32"], &[to.into(), base.into()]);
                        to
                    }
                    _ => base,
                };
                self.ins(&["cvta.", space.name(), ".u64"], &[to.into(), wide.into()]);
            }
            (&Mem::CvtaTo { base, space }, Some(result)) => {
                let base = self.operand(base);
                let base = self.in_reg(base, Class::B64);
                let to = self.def(result);
                let wide = if to.class() == Class::B32 { self.temp(Class::B64) } else { to };
                self.ins(&["cvta.to.", space.name(), ".u64"], &[wide.into(), base.into()]);
                if wide != to {
                    self.ins(&["cvt.u32.u64"], &[to.into(), wide.into()]);
                }
            }
            (&Mem::Isspacep { base, space }, Some(result)) => {
                let base = self.operand(base);
                let base = self.in_reg(base, Class::B64);
                let to = self.def(result);
                self.ins(&["isspacep.", space.name()], &[to.into(), base.into()]);
            }
            (&Mem::PtrToInt { base }, Some(result)) => {
                let (space, _) = self.pointee(base);
                let from = self.operand(base);
                let from = self.in_reg(from, Class::of_pointer(space));
                let to = self.def(result);
                match (from.class(), to.class()) {
                    (Class::B64, Class::B32) => {
                        self.ins(&["cvt.u32.u64"], &[to.into(), from.into()]);
                    }
                    _ => self.mov(to, from.into()),
                }
            }
            (&Mem::Getctarank { base }, Some(result)) => {
                let base = self.operand(base);
                let base = self.in_reg(base, Class::B32);
                let to = self.def(result);
                self.ins(&["getctarank.shared::cluster.u32"], &[to.into(), base.into()]);
            }
            (&Mem::Mapa { base, cta }, Some(result)) => {
                let (base, cta) = (self.operand(base), self.operand(cta));
                let base = self.in_reg(base, Class::B32);
                let to = self.def(result);
                self.ins(&["mapa.shared::cluster.u32"], &[to.into(), base.into(), cta]);
            }
            (&Mem::GetVar { var, index }, Some(result)) => {
                for (to, from) in self.def_parts(result).into_iter().zip(self.var(var, index)) {
                    self.mov(to, from.into());
                }
            }
            (&Mem::SetVar { value, var, index }, _) => {
                for (to, from) in self.var(var, index).into_iter().zip(self.parts(value)) {
                    self.mov(to, from);
                }
            }
            // The verifier has checked that the others have a result.
            (_, None) => {}
        }
    }

    /// Returns the registers of element `index` of a variable: one, or several for a vector.
    pub(super) fn var(&self, var: VarId, index: u32) -> SmallVec<[Reg; 4]> {
        let ty = self.ir.vars[var].ty;
        let count = ty.vector().map_or(1, VectorType::registers);
        let reg = |part| Reg::Var(Class::of(ty), var.index() as u32, index * count + part);
        (0..count).map(reg).collect()
    }

    /// Returns a pointer's space and element type. The verifier has checked that the value is a
    /// pointer wherever this is called.
    pub(super) fn pointee(&self, pointer: Value) -> (Space, Scalar) {
        match self.ir.type_of(pointer) {
            Type::Pointer { space, elem, .. } => (space, elem),
            Type::Scalar(scalar) => (Space::Global, scalar),
            Type::Vector(vector) => (Space::Global, vector.elem()),
            Type::TensorMap { elem, .. } => (Space::Global, elem),
        }
    }

    fn load(&mut self, result: Value, base: Value, index: Value, access: &LoadAccess) {
        let (space, elem) = self.pointee(base);
        let address = self.address_of(base, index);
        let to = self.def(result);
        let in_memory = if elem == Scalar::Bool { self.temp(Class::B32) } else { to };
        let policy = self.policy(access.l2_policy);
        self.load_name(space, access);
        self.hint(Some(memory_type(elem)));
        self.text.push(" ");
        self.text.reg(in_memory);
        self.text.push(", ");
        self.write_address(address);
        self.end_with_policy(policy);
        if elem == Scalar::Bool {
            self.ins(&["setp.ne.u32"], &[to.into(), in_memory.into(), Operand::Int(0)]);
        }
    }

    fn store(&mut self, base: Value, index: Value, value: Value, access: &StoreAccess) {
        let (space, elem) = self.pointee(base);
        let address = self.address_of(base, index);
        let mut value = self.operand(value);
        if let (Scalar::Bool, Operand::Reg(truth)) = (elem, value) {
            let byte = self.temp(Class::B32);
            let operands = [byte.into(), Operand::Int(1), Operand::Int(0), truth.into()];
            self.ins(&["selp.b32"], &operands);
            value = byte.into();
        }
        let policy = self.policy(access.l2_policy);
        self.store_name(space, access);
        self.hint(Some(memory_type(elem)));
        self.text.push(" ");
        self.write_address(address);
        self.text.push(", ");
        self.text.operand(value);
        self.end_with_policy(policy);
    }

    /// Starts a load: writes its name up to the type.
    fn load_name(&mut self, space: Space, access: &LoadAccess) {
        self.begin();
        self.text.push("ld");
        self.order(&access.order.to_string());
        self.text.push(of_space(space));
        self.hint(access.cache.map(LoadCache::name));
        self.hint(access.non_coherent.then_some("nc"));
        self.hint(access.l1_evict.map(L1Evict::name));
        self.cache_hint(access.l2_policy);
        self.hint(access.l2_prefetch.map(L2Prefetch::name));
    }

    /// Starts a store: writes its name up to the type.
    fn store_name(&mut self, space: Space, access: &StoreAccess) {
        self.begin();
        self.text.push("st");
        self.order(&access.order.to_string());
        self.text.push(of_space(space));
        self.hint(access.cache.map(StoreCache::name));
        self.hint(access.l1_evict.map(L1Evict::name));
        self.cache_hint(access.l2_policy);
    }

    fn load_vector(&mut self, result: Value, base: Value, index: Value, access: &LoadAccess) {
        let (space, _) = self.pointee(base);
        let address = self.address_of(base, index);
        let to = self.def_parts(result);
        let policy = self.policy(access.l2_policy);
        self.load_name(space, access);
        self.vector_type(&to);
        self.text.push(" ");
        self.vector_of(&to);
        self.text.push(", ");
        self.write_address(address);
        self.end_with_policy(policy);
    }

    fn store_vector(&mut self, base: Value, index: Value, vector: Value, access: &StoreAccess) {
        let (space, _) = self.pointee(base);
        let address = self.address_of(base, index);
        let class = Class::of(self.ir.type_of(vector));
        let from: SmallVec<[Reg; 4]> =
            self.parts(vector).into_iter().map(|part| self.in_reg(part, class)).collect();
        let policy = self.policy(access.l2_policy);
        self.store_name(space, access);
        self.vector_type(&from);
        self.text.push(" ");
        self.write_address(address);
        self.text.push(", ");
        self.vector_of(&from);
        self.end_with_policy(policy);
    }

    /// Writes the count and the type of a vector's registers: `.v4.b32`.
    fn vector_type(&mut self, regs: &[Reg]) {
        match regs.len() {
            4 => self.text.push(".v4"),
            2 => self.text.push(".v2"),
            _ => {}
        }
        self.hint(regs.first().map(|reg| reg.class().bits_name()));
    }

    /// Writes `{%r0, %r1}`, or the register alone if there is only one.
    pub(super) fn vector_of(&mut self, regs: &[Reg]) {
        let braces = regs.len() > 1;
        for (i, reg) in regs.iter().enumerate() {
            self.text.push(match (i, braces) {
                (0, true) => "{",
                (0, false) => "",
                _ => ", ",
            });
            self.text.reg(*reg);
        }
        self.text.push(if braces { "}" } else { "" });
    }

    /// Writes an access's order and scope; nothing for a weak access.
    fn order(&mut self, order: &str) {
        self.hint(Some(order).filter(|order| !order.is_empty()));
    }

    fn hint(&mut self, hint: Option<&str>) {
        if let Some(hint) = hint {
            self.text.push(".");
            self.text.push(hint);
        }
    }

    fn cache_hint(&mut self, policy: L2Policy) {
        self.hint((policy != L2Policy::Default).then_some("L2::cache_hint"));
    }

    /// Ends an access, with its cache policy if it has one.
    fn end_with_policy(&mut self, policy: Option<Reg>) {
        if let Some(policy) = policy {
            self.text.push(", ");
            self.text.reg(policy);
        }
        self.text.push(";\n");
    }

    /// Writes `[register+offset]`.
    pub(super) fn write_address(&mut self, address: Address) {
        self.text.push("[");
        self.text.reg(address.base);
        if address.offset != 0 {
            self.text.push("+");
            self.text.signed(address.offset);
        }
        self.text.push("]");
    }

    /// Returns a register with the address of `*(base + index)`.
    pub(super) fn address_register(&mut self, base: Value, index: Value) -> Reg {
        let Address { base, offset } = self.address_of(base, index);
        if offset == 0 {
            return base;
        }
        let sum = self.temp(base.class());
        self.add_offset(sum, base, offset);
        sum
    }

    /// Returns the address of `*(base + index)`.
    pub(super) fn address_of(&mut self, base: Value, index: Value) -> Address {
        let (space, elem) = self.pointee(base);
        let index_type = self.scalar(index);
        let base = self.operand(base);
        let base = self.in_reg(base, Class::of_pointer(space));
        let size = elem.size_bytes();
        match self.operand(index) {
            Operand::Reg(index) => {
                let address = Indexed { base, index, index_type, size };
                Address { base: self.address(address, space), offset: 0 }
            }
            index @ (Operand::Const(_) | Operand::Int(_)) => {
                let offset = byte_offset(index, size);
                match i32::try_from(offset) {
                    Ok(offset) => Address { base, offset: offset.into() },
                    Err(_) => {
                        let sum = self.temp(Class::of_pointer(space));
                        self.add_offset(sum, base, offset);
                        Address { base: sum, offset: 0 }
                    }
                }
            }
        }
    }

    /// Returns a register with an address.
    fn address(&mut self, address: Indexed, space: Space) -> Reg {
        if let Some(known) = self.addresses.registers.get(&address) {
            return *known;
        }
        let to = self.temp(Class::of_pointer(space));
        self.compute(to, address, space);
        self.addresses.registers.insert(address, to);
        self.addresses.order.push(address);
        to
    }

    /// Writes `to = base + index * size`. Addresses wrap, in shared memory at 32 bits, so only
    /// the low half of a wide index counts there.
    fn compute(&mut self, to: Reg, address: Indexed, space: Space) {
        let Indexed { base, index, index_type, size } = address;
        let mut index = index;
        if Class::of_pointer(space) == Class::B32 && index_type.bits() == 64 {
            let low = self.temp(Class::B32);
            self.ins(&["cvt.u32.u64"], &[low.into(), index.into()]);
            index = low;
        }
        let widened = Class::of_pointer(space) == Class::B64 && index_type.bits() == 32;
        let name = match (widened, to.class()) {
            (true, _) if index_type.is_signed() => "mad.wide.s32",
            (true, _) => "mad.wide.u32",
            (false, Class::B64) if size == 1 => "add.s64",
            (false, _) if size == 1 => "add.s32",
            (false, Class::B64) => "mad.lo.s64",
            (false, _) => "mad.lo.s32",
        };
        let (to, index, base) = (to.into(), index.into(), base.into());
        if size == 1 && !widened {
            self.ins(&[name], &[to, base, index]);
        } else {
            self.ins(&[name], &[to, index, Operand::Int(size.into()), base]);
        }
    }

    fn add_offset(&mut self, to: Reg, base: Reg, offset: i64) {
        match to.class() {
            // A shared pointer wraps at 32 bits.
            Class::B32 => {
                let offset = Operand::Int((offset as i32).into());
                self.ins(&["add.s32"], &[to.into(), base.into(), offset]);
            }
            Class::B64 | Class::Pred | Class::B16 | Class::F32 | Class::F64 => {
                self.ins(&["add.s64"], &[to.into(), base.into(), Operand::Int(offset)]);
            }
        }
    }

    fn offset(&mut self, result: Value, base: Value, index: Value) {
        let (space, elem) = self.pointee(base);
        let index_type = self.scalar(index);
        let base = self.operand(base);
        let base = self.in_reg(base, Class::of_pointer(space));
        let size = elem.size_bytes();
        let to = self.def(result);
        match self.operand(index) {
            Operand::Reg(index) => {
                self.compute(to, Indexed { base, index, index_type, size }, space);
            }
            index @ (Operand::Const(_) | Operand::Int(_)) => {
                self.add_offset(to, base, byte_offset(index, size));
            }
        }
    }
}

/// Returns a space's part of an instruction name; empty for generic addresses.
pub(super) fn of_space(space: Space) -> &'static str {
    match space {
        Space::Global => ".global",
        Space::Shared => ".shared",
        Space::SharedCluster => ".shared::cluster",
        Space::Local => ".local",
        Space::Const => ".const",
        Space::Generic => "",
    }
}

/// Returns the byte offset of a constant index, modulo 2^64 like all addresses.
fn byte_offset(index: Operand, size: u32) -> i64 {
    let index = match index {
        Operand::Const(constant) => constant.as_int().unwrap_or(0) as i64,
        Operand::Int(index) => index,
        Operand::Reg(_) => 0,
    };
    index.wrapping_mul(size.into())
}
