//! Adds runtime checks to a kernel: bounds, alignment, divisors, loop steps and `assume_*`
//! promises. `Kernel::checked` runs it for kernels that should report a wrong index instead of
//! corrupting memory, because a GPU itself checks almost nothing.
//!
//! ```text
//! %q = offset %base, %index                   (the address of the access)
//! %byte = ptr_to_int %q - ptr_to_int %root    (%root: the parameter or allocation that %base was made from)
//! if %byte >= %limit {                        (as unsigned numbers; %limit: its bytes, less those of the access, plus 1)
//!   %number = atom add violations[0], 1
//!   if %number == 0 { .. the record ..; violations[1] = site + 1 }
//!   loop until violations[1] != 0             (the record is complete)
//!   trap
//! }
//! ```
//!
//! * New parameters pass the size in bytes of each accessed buffer and of each tensor map's box.
//!   The last new parameter points to the record, the memory in which the first violation is
//!   stored.
//! * Bounds are checked only if the pointer is known to derive from a single allocation
//!   (`analysis/origin.rs`).
//! * What is proved already gets no check: see [`Proved`].
//! * Alignment is checked unless the access is exactly as large as an element of its allocation and
//!   the kernel never casts a pointer to smaller elements. Such accesses are always aligned.

use std::collections::{HashMap, HashSet};

use super::rewrite::Rewrite;
use crate::ir::analysis::accesses::{Access, AccessBytes as Bytes, accesses};
use crate::ir::analysis::origin::{Origins, Root, is_visible};
use crate::ir::checked::{Check, CheckedAccess, Record, Site};
use crate::ir::entity::{LocationId, OpId, RegionId, Value};
use crate::ir::kernel::{KernelIr, Param, ValueData, ValueDef};
use crate::ir::op::{
    Arith, Atomic, AtomicOp, AtomicOrder, Axis, Compare, Control, Convert, FenceOrder, LoadAccess,
    Mem, MemScope, Op, SpecialReg, StoreAccess, Sync, Thread,
};
use crate::ir::types::{Const, Scalar, Space, Type};

/// A kernel with checks, and the tables that a launch needs to pass sizes and to explain a
/// violation.
pub(in crate::ir) struct WithChecks {
    pub(in crate::ir) ir: KernelIr,
    /// The parameters whose sizes the new parameters pass, in order.
    pub(in crate::ir) extents: Vec<u32>,
    pub(in crate::ir) sites: Vec<Site>,
}

/// What needs no check, because it holds in every launch: an operation, with the position of the
/// pointer among its operands, or with `None` for its divisor, step or promise.
pub(crate) type Proved = HashSet<(OpId, Option<usize>)>;

/// Adds checks to a verified kernel, except for what is proved.
pub(in crate::ir) fn with_checks(ir: &KernelIr, proved: &Proved) -> WithChecks {
    let mut rewrite = Rewrite::new(ir);
    let (body, location) = (rewrite.out.body, rewrite.out.location(first_location(ir)));
    let mut add_param = |name: String, ty: Type| {
        let def = ValueDef::Param(rewrite.out.params.len() as u32);
        let value = rewrite.out.values.push(ValueData { ty, def, region: body, location });
        let mut name = name;
        while rewrite.out.params.iter().any(|param| param.name == name) {
            name.push('_');
        }
        rewrite.out.params.push(Param { name, value });
        value
    };
    let origins = Origins::new(ir);
    let ops = ir.reached_ops();
    let mut lengths = HashMap::new();
    let mut extents = Vec::new();
    for (i, param) in ir.params.iter().enumerate() {
        let root = Some(Root::Param(i as u32));
        let asks = |access: &Access| match access.bytes {
            Bytes::Box(map) if map == i as u32 => true,
            _ => origins.root(access.base) == root,
        };
        let is_accessed = |op: &OpId| unproved(ir, *op, proved).any(|access| asks(&access));
        if ops.iter().any(is_accessed) {
            let length = add_param(format!("{}_bytes", param.name), Scalar::U64.into());
            lengths.insert(i as u32, length);
            extents.push(i as u32);
        }
    }
    let words = Type::Pointer { space: Space::Global, elem: Scalar::U64, mutable: true };
    let record = add_param("violations".to_owned(), words);
    let mut pass = Pass {
        rewrite,
        origins,
        lengths,
        limits: HashMap::new(),
        bases: HashMap::new(),
        record,
        proved,
        sites: Vec::new(),
        narrows: ops.iter().any(|op| is_narrowed(ir, *op)),
        location,
    };
    pass.rewrite.declare_vars(ir.body, body);
    for op in &ops {
        for access in unproved(ir, *op, proved) {
            if let (Some(Root::Param(param)), Bytes::Known(bytes)) =
                (pass.origins.root(access.base), access.bytes)
            {
                pass.add_limit(param, bytes);
            }
        }
    }
    pass.region(ir.body, body);
    WithChecks { ir: pass.rewrite.out, extents, sites: pass.sites }
}

fn first_location(ir: &KernelIr) -> crate::ir::SourceLocation {
    let first = ir.regions[ir.body].ops.first();
    first.map_or_else(crate::ir::SourceLocation::caller, |op| ir.location_of(*op))
}

/// Returns the operation's accesses that get a check.
fn unproved(ir: &KernelIr, id: OpId, proved: &Proved) -> impl Iterator<Item = Access> {
    let all = accesses(ir, id).into_iter();
    all.filter(move |access| !proved.contains(&(id, Some(access.operand))))
}

/// Returns whether the operation casts a pointer to smaller elements.
fn is_narrowed(ir: &KernelIr, op: OpId) -> bool {
    let Op::Mem(Mem::PtrCast { base, to }) = ir.ops[op].op else { return false };
    let Type::Pointer { elem, .. } = ir.type_of(base) else { return false };
    to.size_bytes() < elem.size_bytes()
}

struct Pass<'k> {
    rewrite: Rewrite<'k>,
    origins: Origins,
    /// For each pointer parameter, the new parameter with its size in bytes.
    lengths: HashMap<u32, Value>,
    /// For a parameter and an access size: the first byte offset at which the access no longer
    /// fits.
    limits: HashMap<(u32, u32), Value>,
    /// For each `mapa`, the start of the allocation in the other block's shared memory.
    bases: HashMap<OpId, Value>,
    record: Value,
    proved: &'k Proved,
    sites: Vec<Site>,
    /// Whether the kernel casts a pointer to smaller elements. If so, an access to larger elements
    /// may be misaligned.
    narrows: bool,
    /// The source location for the operations that are being added.
    location: LocationId,
}

impl Pass<'_> {
    fn region(&mut self, source: RegionId, region: RegionId) {
        let ir = self.rewrite.source;
        for &id in &ir.regions[source].ops {
            self.location = ir.ops[id].location;
            self.check(id, region);
            if ir.ops[id].op.regions().is_empty() {
                self.rewrite.copy_plain(id, region);
                self.note_mapa(id, region);
            } else {
                for (from, to) in self.rewrite.copy_owner(id, region) {
                    self.region(from, to);
                }
            }
        }
    }

    fn push(&mut self, region: RegionId, op: impl Into<Op>, ty: impl Into<Type>) -> Value {
        self.rewrite.push_value(region, self.location, op, ty)
    }

    fn push_unit(&mut self, region: RegionId, op: impl Into<Op>) -> OpId {
        self.rewrite.push(region, self.location, op, &[]).0
    }

    fn constant(&mut self, region: RegionId, scalar: Scalar, bits: u64) -> Value {
        self.push(region, Op::Const(Const::new(scalar, bits)), scalar)
    }

    fn compare(&mut self, region: RegionId, lhs: Value, compare: Compare, rhs: Value) -> Value {
        self.push(region, Arith::Setp { lhs, rhs, compare }, Scalar::Bool)
    }

    /// Extends the integer to 64 bits, with its sign if its type is signed.
    fn wide(&mut self, region: RegionId, value: Value) -> Value {
        match self.rewrite.out.type_of(value).scalar() {
            Some(Scalar::U64) => value,
            Some(Scalar::I64) => {
                let to = Scalar::U64.into();
                self.push(region, Convert::Bitcast { value, to }, Scalar::U64)
            }
            _ => self.push(region, Convert::Cvt { value, to: Scalar::U64 }, Scalar::U64),
        }
    }

    fn add_limit(&mut self, param: u32, bytes: u32) {
        let Some(&length) = self.lengths.get(&param) else { return };
        if self.limits.contains_key(&(param, bytes)) {
            return;
        }
        let region = self.rewrite.out.body;
        let less = self.constant(region, Scalar::U64, u64::from(bytes.max(1) - 1));
        let zero = self.constant(region, Scalar::U64, 0);
        let rest = self.push(region, Arith::Sub { lhs: length, rhs: less }, Scalar::U64);
        let cond = self.compare(region, length, Compare::Gt, less);
        let selp = Arith::Selp { cond, then_value: rest, else_value: zero };
        let limit = self.push(region, selp, Scalar::U64);
        self.limits.insert((param, bytes), limit);
    }

    /// Emits the start of the allocation in the other block, for pointers that derive from this
    /// `mapa`.
    fn note_mapa(&mut self, id: OpId, region: RegionId) {
        let ir = self.rewrite.source;
        let Op::Mem(Mem::Mapa { cta, .. }) = ir.ops[id].op else { return };
        let Some(&result) = ir.ops[id].results.first() else { return };
        let Some(Root::Mapa(_, shared)) = self.origins.root(result) else { return };
        let base = self.start(region, Root::Shared(shared));
        let (Some(base), cta) = (base, self.rewrite.value(cta)) else { return };
        let elem = ir.shared[shared].elem;
        let ty = Type::Pointer { space: Space::SharedCluster, elem, mutable: true };
        let base = self.push(region, Mem::Mapa { base, cta }, ty);
        self.bases.insert(id, base);
    }

    /// Returns a pointer to the start of an allocation, in the allocation's own space.
    fn start(&mut self, region: RegionId, root: Root) -> Option<Value> {
        let ir = self.rewrite.source;
        let pointer = |space, elem, mutable| Type::Pointer { space, elem, mutable };
        Some(match root {
            Root::Param(param) => self.rewrite.value(ir.params.get(param as usize)?.value),
            Root::Shared(shared) => {
                let ty = pointer(Space::Shared, ir.shared[shared].elem, true);
                self.push(region, Mem::SharedBase { shared }, ty)
            }
            Root::Local(local) => {
                let ty = pointer(Space::Local, ir.locals[local].elem, true);
                self.push(region, Mem::LocalBase { local }, ty)
            }
            Root::Array(array) => {
                let ty = pointer(Space::Const, ir.arrays[array].elem, false);
                self.push(region, Mem::ArrayBase { array }, ty)
            }
            Root::Global(global) => {
                let ty = pointer(Space::Global, ir.globals[global].elem, true);
                self.push(region, Mem::GlobalBase { global }, ty)
            }
            Root::Mapa(op, _) => *self.bases.get(&op)?,
        })
    }

    /// Returns the address of an allocation's start, as a pointer into `space` represents it.
    fn start_address(&mut self, region: RegionId, root: Root, space: Space) -> Option<Value> {
        let start = self.start(region, root)?;
        let ty = self.rewrite.out.type_of(start);
        let Type::Pointer { space: own, elem, mutable } = ty else { return None };
        let start = if own == space {
            start
        } else if space == Space::Generic {
            let ty = Type::Pointer { space, elem, mutable };
            self.push(region, Mem::Cvta { base: start }, ty)
        } else {
            return None;
        };
        Some(self.address(region, start, space))
    }

    /// Returns the address, as an unsigned integer as wide as the pointer.
    fn address(&mut self, region: RegionId, base: Value, space: Space) -> Value {
        let (signed, unsigned) = match space {
            Space::Global | Space::Generic => (Scalar::I64, Scalar::U64),
            _ => (Scalar::I32, Scalar::U32),
        };
        let value = self.push(region, Mem::PtrToInt { base }, signed);
        self.push(region, Convert::Bitcast { value, to: unsigned.into() }, unsigned)
    }

    /// Emits the operation's checks in front of it.
    fn check(&mut self, id: OpId, region: RegionId) {
        let ir = self.rewrite.source;
        for access in unproved(ir, id, self.proved) {
            self.check_access(id, &access, region);
        }
        if self.proved.contains(&(id, None)) {
            return;
        }
        let op = &ir.ops[id].op;
        if let Op::Arith(Arith::Div { lhs, rhs } | Arith::Rem { lhs, rhs }) = *op {
            self.check_divisor(id, region, lhs, rhs);
        } else if let Op::Control(Control::For { step, .. }) = *op {
            let Some(scalar) = ir.type_of(step).scalar() else { return };
            if ir.integer(step).is_some_and(|step| step > 0) {
                return;
            }
            let step = self.rewrite.value(step);
            let zero = self.constant(region, scalar, 0);
            let bad = self.compare(region, step, Compare::Le, zero);
            self.stop(id, Check::Step { scalar }, region, bad, &[step]);
        } else if let Op::Mem(Mem::AssumeAligned { base, bytes }) = *op {
            self.check_promise(id, region, base, bytes);
        } else if let Op::Mem(Mem::AssumeDivisibleBy { value, divisor }) = *op {
            self.check_divisible(id, region, value, divisor);
        } else if let Op::Mem(Mem::AssumeBetween { value, low, high }) = *op {
            let Some(scalar) = ir.type_of(value).scalar() else { return };
            let [value, low, high] = [value, low, high].map(|value| self.rewrite.value(value));
            let below = self.compare(region, value, Compare::Lt, low);
            let above = self.compare(region, value, Compare::Gt, high);
            let bad = self.push(region, Arith::Or { lhs: below, rhs: above }, Scalar::Bool);
            self.stop(id, Check::Between { scalar }, region, bad, &[value, low, high]);
        }
    }

    fn check_divisible(&mut self, id: OpId, region: RegionId, value: Value, divisor: u32) {
        let Some(scalar) = self.rewrite.source.type_of(value).scalar() else { return };
        let value = self.rewrite.value(value);
        let zero = self.constant(region, scalar, 0);
        // If the divisor does not fit in the type, only 0 is a multiple of it, and -divisor if that
        // does fit.
        let bits = i64::from(divisor);
        let holds = |int: i64| Const::new(scalar, int as u64).as_int() == Some(int.into());
        let bad = if divisor > 0 && holds(bits) {
            let rhs = self.constant(region, scalar, divisor.into());
            let rest = self.push(region, Arith::Rem { lhs: value, rhs }, scalar);
            self.compare(region, rest, Compare::Ne, zero)
        } else {
            let bad = self.compare(region, value, Compare::Ne, zero);
            if divisor > 0 && holds(-bits) {
                let negative = self.constant(region, scalar, (-bits) as u64);
                let other = self.compare(region, value, Compare::Ne, negative);
                self.push(region, Arith::And { lhs: bad, rhs: other }, Scalar::Bool)
            } else {
                bad
            }
        };
        self.stop(id, Check::Divisible { scalar, divisor }, region, bad, &[value]);
    }

    fn check_divisor(&mut self, id: OpId, region: RegionId, lhs: Value, rhs: Value) {
        let ir = self.rewrite.source;
        let Some(scalar) = ir.type_of(rhs).scalar().filter(|scalar| scalar.is_int()) else {
            return;
        };
        if ir.integer(rhs).is_some_and(|divisor| divisor != 0) {
            return;
        }
        let (lhs, rhs) = (self.rewrite.value(lhs), self.rewrite.value(rhs));
        let zero = self.constant(region, scalar, 0);
        let bad = self.compare(region, rhs, Compare::Eq, zero);
        self.stop(id, Check::Division { scalar }, region, bad, &[lhs]);
    }

    fn check_promise(&mut self, id: OpId, region: RegionId, base: Value, bytes: u32) {
        let Type::Pointer { space, .. } = self.rewrite.source.type_of(base) else { return };
        let root = self.root(id, base);
        let base = self.rewrite.value(base);
        let address = self.address(region, base, space);
        let bad = self.misaligned(region, address, bytes);
        let pointer_bits = match space {
            Space::Global | Space::Generic => 64,
            _ => 32,
        };
        let start = root.and_then(|root| self.start_address(region, root, space));
        let byte = start.map_or(address, |start| self.distance(region, address, start));
        self.stop(id, Check::Promise { bytes, pointer_bits }, region, bad, &[byte]);
    }

    /// Returns the pointer's allocation, if its start is available at the operation.
    fn root(&self, id: OpId, pointer: Value) -> Option<Root> {
        let root = self.origins.root(pointer)?;
        match root {
            Root::Mapa(made, _) if !is_visible(self.rewrite.source, made, id) => None,
            _ => Some(root),
        }
    }

    /// Emits the test that the address is not a multiple of `align`, a power of two.
    fn misaligned(&mut self, region: RegionId, address: Value, align: u32) -> Value {
        let scalar = self.rewrite.out.type_of(address).scalar().unwrap_or(Scalar::U64);
        let mask = self.constant(region, scalar, u64::from(align.max(1) - 1));
        let zero = self.constant(region, scalar, 0);
        let low = self.push(region, Arith::And { lhs: address, rhs: mask }, scalar);
        self.compare(region, low, Compare::Ne, zero)
    }

    /// Emits `address - start` in bytes. Negative distances wrap to large unsigned values.
    fn distance(&mut self, region: RegionId, address: Value, start: Value) -> Value {
        let ty = self.rewrite.out.type_of(address);
        self.push(region, Arith::Sub { lhs: address, rhs: start }, ty)
    }

    fn check_access(&mut self, id: OpId, access: &Access, region: RegionId) {
        let ir = self.rewrite.source;
        let Type::Pointer { space, elem, .. } = ir.type_of(access.base) else { return };
        let Some(root) = self.root(id, access.base) else { return };
        let (name, made, own, known) = match root {
            Root::Param(param) => {
                let Some(param) = ir.params.get(param as usize) else { return };
                let Type::Pointer { elem, .. } = ir.type_of(param.value) else { return };
                (param.name.clone(), None, elem, None)
            }
            Root::Shared(shared) | Root::Mapa(_, shared) => {
                let data = &ir.shared[shared];
                let bytes = u64::from(data.len) * u64::from(data.elem.size_bytes());
                (shared.to_string(), Some(data.location), data.elem, Some(bytes))
            }
            Root::Local(local) => {
                let data = &ir.locals[local];
                (local.to_string(), Some(data.location), data.elem, Some(data.bytes()))
            }
            Root::Array(array) => {
                let data = &ir.arrays[array];
                (array.to_string(), Some(data.location), data.elem, Some(data.bytes()))
            }
            Root::Global(global) => {
                let data = &ir.globals[global];
                (global.to_string(), Some(data.location), data.elem, Some(data.bytes()))
            }
        };
        let Some(start) = self.start_address(region, root, space) else { return };
        let (base, index) = (self.rewrite.value(access.base), self.rewrite.value(access.index));
        let ty = self.rewrite.out.type_of(base);
        let at = self.push(region, Mem::Offset { base, index }, ty);
        let address = self.address(region, at, space);
        let byte = self.distance(region, address, start);
        let scalar = self.rewrite.out.type_of(byte).scalar().unwrap_or(Scalar::U64);
        let length = match (known, root) {
            (Some(bytes), _) => self.constant(region, Scalar::U64, bytes),
            (None, Root::Param(param)) => match self.lengths.get(&param) {
                Some(length) => *length,
                None => return,
            },
            (None, _) => return,
        };
        let (mut bad, count, is_some) = match access.bytes {
            Bytes::Known(bytes) => {
                let limit = match (known, root) {
                    (Some(all), _) => {
                        let limit = (all + 1).saturating_sub(u64::from(bytes));
                        Some(self.constant(region, scalar, limit))
                    }
                    (None, Root::Param(param)) => self.limits.get(&(param, bytes)).copied(),
                    (None, _) => None,
                };
                let Some(limit) = limit else { return };
                let count = self.constant(region, Scalar::U64, bytes.into());
                (self.compare(region, byte, Compare::Ge, limit), count, None)
            }
            Bytes::Computed(_) | Bytes::Box(_) => {
                let bytes = match access.bytes {
                    Bytes::Computed(bytes) => self.rewrite.value(bytes),
                    Bytes::Box(map) => match self.lengths.get(&map) {
                        Some(bytes) => *bytes,
                        None => return,
                    },
                    Bytes::Known(_) => return,
                };
                let (bytes, byte) = (self.wide(region, bytes), self.wide(region, byte));
                let is_long = self.compare(region, bytes, Compare::Gt, length);
                let rest = self.push(region, Arith::Sub { lhs: length, rhs: bytes }, Scalar::U64);
                let is_far = self.compare(region, byte, Compare::Gt, rest);
                let bad = self.push(region, Arith::Or { lhs: is_long, rhs: is_far }, Scalar::Bool);
                let zero = self.constant(region, Scalar::U64, 0);
                let is_some = self.compare(region, bytes, Compare::Ne, zero);
                (bad, bytes, Some(is_some))
            }
        };
        let is_aligned = match access.bytes {
            Bytes::Known(bytes) => !self.narrows && bytes == own.size_bytes(),
            Bytes::Computed(_) | Bytes::Box(_) => false,
        };
        if !is_aligned && access.align > 1 {
            let odd = self.misaligned(region, address, access.align);
            bad = self.push(region, Arith::Or { lhs: bad, rhs: odd }, Scalar::Bool);
        }
        // An access of zero bytes may point anywhere.
        if let Some(is_some) = is_some {
            bad = self.push(region, Arith::And { lhs: bad, rhs: is_some }, Scalar::Bool);
        }
        if let Some(lanes) = access.lanes {
            let lane = self.push(
                region,
                Thread::Sreg { reg: SpecialReg::LaneId },
                SpecialReg::LaneId.scalar(),
            );
            let lanes = self.constant(region, SpecialReg::LaneId.scalar(), lanes.into());
            let counts = self.compare(region, lane, Compare::Lt, lanes);
            bad = self.push(region, Arith::And { lhs: bad, rhs: counts }, Scalar::Bool);
        }
        let check = Check::Access(CheckedAccess {
            is_store: access.is_store,
            space: match root {
                Root::Param(_) | Root::Global(_) => Space::Global,
                Root::Shared(_) => Space::Shared,
                Root::Mapa(..) => Space::SharedCluster,
                Root::Local(_) => Space::Local,
                Root::Array(_) => Space::Const,
            },
            allocation: name,
            made: made.map(|location| ir.locations[location]),
            elem,
            align: access.align,
        });
        let mut values = vec![byte, length, count];
        if let (Root::Mapa(..), Space::SharedCluster) = (root, space) {
            values.push(self.push(region, Mem::Getctarank { base }, Scalar::U32));
        }
        self.stop(id, check, region, bad, &values);
    }

    /// Emits the code that records the violation and traps if `bad` is true.
    fn stop(&mut self, id: OpId, check: Check, region: RegionId, bad: Value, values: &[Value]) {
        let ir = self.rewrite.source;
        let number = self.sites.len() as u64;
        self.sites.push(Site {
            op: ir.ops[id].op.name(),
            path: ir.path_of(id),
            location: ir.location_of(id),
            check,
        });
        let (inner, _) = self.rewrite.new_region(self.location, &[]);
        let stop = Control::If { cond: bad, then_region: inner, else_region: None };
        self.push_unit(region, stop);

        let zero = self.constant(inner, Scalar::U64, 0);
        let one = self.constant(inner, Scalar::U64, 1);
        let index = self.constant(inner, Scalar::I32, Record::COUNT as u64);
        let (order, scope) = (AtomicOrder::Relaxed, MemScope::Gpu);
        let atom =
            Atomic::Atom { base: self.record, index, value: one, op: AtomicOp::Add, order, scope };
        let before = self.push(inner, atom, Scalar::U64);
        let is_first = self.compare(inner, before, Compare::Eq, zero);
        self.write_record(inner, is_first, number + 1, values);
        self.wait_for_record(inner, zero);
        // The host reads the record after the trap has ended the grid.
        self.push_unit(inner, Sync::Fence { order: FenceOrder::Sc, scope: MemScope::Sys });
        self.push_unit(inner, Thread::Trap {});
        self.push_unit(inner, Control::Return);
    }

    fn write_record(&mut self, inner: RegionId, is_first: Value, site: u64, values: &[Value]) {
        let (region, _) = self.rewrite.new_region(self.location, &[]);
        let write = Control::If { cond: is_first, then_region: region, else_region: None };
        self.push_unit(inner, write);
        let indices = [SpecialReg::Tid as fn(Axis) -> SpecialReg, SpecialReg::Ctaid];
        let mut words = Vec::new();
        for reg in indices.into_iter().flat_map(|reg| Axis::ALL.map(reg)) {
            let value = self.push(region, Thread::Sreg { reg }, reg.scalar());
            words.push(self.wide(region, value));
        }
        for value in values {
            words.push(self.wide(region, *value));
        }
        let site = self.constant(region, Scalar::U64, site);
        let relaxed = StoreAccess::default().relaxed(MemScope::Sys);
        for (i, word) in words.into_iter().enumerate() {
            self.store(region, Record::THREAD + i, word, relaxed);
        }
        self.push_unit(region, Sync::Fence { order: FenceOrder::AcqRel, scope: MemScope::Sys });
        self.store(region, Record::SITE, site, relaxed);
        self.push_unit(region, Control::Yield { values: [].into_iter().collect() });
    }

    fn store(&mut self, region: RegionId, word: usize, value: Value, access: StoreAccess) {
        let index = self.constant(region, Scalar::I32, word as u64);
        self.push_unit(region, Mem::St { base: self.record, index, value, access });
    }

    fn wait_for_record(&mut self, inner: RegionId, zero: Value) {
        let (body, _) = self.rewrite.new_region(self.location, &[]);
        let target = self.push_unit(inner, Control::Loop { init: [].into_iter().collect(), body });
        let index = self.constant(body, Scalar::I32, Record::SITE as u64);
        let access = LoadAccess::default().relaxed(MemScope::Sys);
        let site = self.push(body, Mem::Ld { base: self.record, index, access }, Scalar::U64);
        let cond = self.compare(body, site, Compare::Ne, zero);
        let (done, _) = self.rewrite.new_region(self.location, &[]);
        self.push_unit(body, Control::If { cond, then_region: done, else_region: None });
        self.push_unit(done, Control::Break { target, values: [].into_iter().collect() });
        let nanoseconds = self.constant(body, Scalar::U32, 1000);
        self.push_unit(body, Thread::Nanosleep { nanoseconds });
        self.push_unit(body, Control::Continue { target, values: [].into_iter().collect() });
    }
}
