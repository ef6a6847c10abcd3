//! Generates random kernels that are valid by construction.
//!
//! A kernel is a function of a list of choices, so that a failing list can be shrunk: past the end
//! of the list every choice is 0, which adds nothing.

use std::num::NonZeroU32;
use std::sync::LazyLock;

use tilewright::ir::op::{
    Arith, Atomic, AtomicOp, AtomicOrder, BarrierForm, BarrierRed, Cache, Class, Compare, Control,
    Convert, Diagnostic, FenceOrder, L1Evict, L2Policy, L2Prefetch, LoadAccess, LoadCache,
    LoadOrder, Mem, MemScope, Op, PrefetchLevel, ProxySpace, RedOrder, ReduxOp, ShflMode,
    SpecialReg, StoreAccess, StoreCache, StoreOrder, Sync, Thread, Unroll, ValueList, VolatileReg,
    VoteMode, Warp,
};
use tilewright::ir::types::{Const, Scalar, Space, Type, VectorType};
use tilewright::ir::{
    ArrayData, GlobalData, KernelIr, LocalData, LocationId, OpData, OpId, Param, Region, RegionId,
    SharedData, SourceLocation, Target, Value, ValueData, ValueDef, VarData, VarId,
};

pub(crate) use super::raw;
use super::rng::Rng;
use raw::Raw;

#[path = "random_tensor.rs"]
mod random_tensor;

/// Returns the kernel that the choices stand for.
pub(crate) fn random_kernel(choices: &[u32]) -> KernelIr {
    let target = if choices.len().is_multiple_of(2) { Target::SM_80 } else { Target::SM_90A };
    let raw = Raw::new("random", target);
    let body = raw.ir.body;
    let mut generator = Generator {
        raw,
        rng: Rng::of(choices),
        visible: vec![Vec::new()],
        vars: Vec::new(),
        loops: Vec::new(),
        results: Vec::new(),
    };
    generator.header();
    generator.region(body, End::Kernel);
    generator.raw.ir
}

/// How a region ends, besides `return` and jumps to enclosing loops.
#[derive(Clone)]
enum End {
    /// The kernel's body.
    Kernel,
    /// An arm of an `if`, which may yield values of these types.
    Arm(Vec<Type>),
    /// The innermost loop's body.
    Loop,
}

struct LoopInfo {
    op: OpId,
    carried: Vec<Type>,
    results: Vec<Type>,
}

struct Generator {
    raw: Raw,
    rng: Rng,
    /// The values that are visible, for each open region.
    visible: Vec<Vec<Value>>,
    /// The variables that are visible, for each open region. All of them are set.
    vars: Vec<(usize, VarId)>,
    loops: Vec<LoopInfo>,
    results: Vec<Value>,
}

/// Bits that constants often have.
const BITS: [u64; 10] = [
    0,
    1,
    u64::MAX,
    0x80,
    0x7fff_ffff,
    0x7fc0_0001,
    0xff80_0000,
    0x8000_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_1234,
];

impl Generator {
    fn header(&mut self) {
        if self.rng.below(3) == 1 {
            self.raw.ir.bounds.block = Some([32, 1 + self.rng.below(4) as u32, 1]);
            let blocks = self.rng.below(5) as u32;
            self.raw.ir.bounds.min_blocks_per_sm = (blocks > 0).then_some(blocks);
        }
        if self.rng.below(4) == 1 {
            self.raw.ir.bounds.max_registers = Some(24 + self.rng.below(232) as u32);
        }
        // Only few, because the tests that run kernels have no tensors for them.
        let maps = self.raw.ir.target.offers(Target::SM_90) && self.rng.below(4) == 1;
        for i in 0..self.rng.below(6) {
            let ty = match self.rng.below(3) {
                0 if maps => Type::TensorMap {
                    elem: *self.rng.pick(&[Scalar::U32, Scalar::F16]),
                    rank: 1 + self.rng.below(5) as u8,
                    mutable: self.rng.below(3) > 0,
                },
                0 => self.scalar(Class::Any).into(),
                mutable => {
                    let (space, elem) = (Space::Global, self.scalar(Class::Any));
                    Type::Pointer { space, elem, mutable: mutable == 1 }
                }
            };
            let (name, def) = (format!("arg_{i}"), ValueDef::Param(i as u32));
            let value = self.raw.value(ty, def, self.raw.ir.body);
            self.raw.ir.params.push(Param { name, value });
            self.visible[0].push(value);
        }
    }

    /// Draws a scalar type of the class.
    fn scalar(&mut self, class: Class) -> Scalar {
        let all: Vec<Scalar> =
            Scalar::ALL.into_iter().filter(|scalar| class.contains((*scalar).into())).collect();
        *self.rng.pick(&all)
    }

    fn all_visible(&self) -> Vec<Value> {
        self.visible.concat()
    }

    /// Draws a type of the class that some value has or that a constant can have.
    fn ty(&mut self, class: Class) -> Type {
        let values = self.all_visible();
        let types: Vec<Type> = values.into_iter().map(|value| self.raw.ir.type_of(value)).collect();
        let types: Vec<Type> = types.into_iter().filter(|ty| class.contains(*ty)).collect();
        if class == Class::Pointer && (types.is_empty() || self.rng.below(4) == 0) {
            let (space, mutable) = match self.rng.below(8) {
                3 => (Space::Const, false),
                4 | 5 => (Space::Local, true),
                6 => (Space::Generic, true),
                7 => (Space::Generic, false),
                _ => (Space::Shared, true),
            };
            return Type::Pointer { space, elem: self.scalar(Class::Any), mutable };
        }
        if types.is_empty() || (class != Class::Pointer && self.rng.below(3) == 0) {
            return self.scalar(class).into();
        }
        *self.rng.pick(&types)
    }

    fn types(&mut self) -> Vec<Type> {
        (0..self.rng.below(4)).map(|_| self.ty(Class::Any)).collect()
    }

    /// Returns a value of the type: a visible one, or a new one.
    fn of(&mut self, ty: Type) -> Value {
        let mut values = self.all_visible();
        values.retain(|value| self.raw.ir.type_of(*value) == ty);
        match ty {
            Type::Scalar(scalar) if values.is_empty() || self.rng.below(4) == 0 => {
                let bits = match self.rng.below(BITS.len() + 1) {
                    10 => self.rng.word() << 32 | self.rng.word(),
                    i => BITS[i],
                };
                self.emit_one(Op::Const(Const::new(scalar, bits)))
            }
            Type::Pointer { space: Space::Const, elem, .. } if values.is_empty() => {
                let bits = (0..1 + self.rng.below(4)).map(|_| self.rng.word()).collect();
                let array =
                    self.raw.ir.arrays.push(ArrayData { elem, bits, location: self.raw.location });
                self.emit_one(Mem::ArrayBase { array })
            }
            Type::Pointer { space: Space::Global, elem, mutable: true }
                if values.is_empty() || self.rng.below(8) == 0 =>
            {
                let bits = (0..self.rng.below(4)).map(|_| self.rng.word()).collect();
                let (len, location) = (4 + self.rng.below(64) as u32, self.raw.location);
                let global = self.raw.ir.globals.push(GlobalData { elem, len, bits, location });
                self.emit_one(Mem::GlobalBase { global })
            }
            Type::Vector(vector) if values.is_empty() => {
                let values = (0..vector.lanes()).map(|_| self.of(vector.elem().into())).collect();
                self.emit_one(Convert::VecPack { values })
            }
            Type::Pointer { space: Space::Local, elem, .. } if values.is_empty() => {
                let len =
                    if self.raw.ir.locals.len() < 16 { 1 + self.rng.below(64) as u32 } else { 1 };
                let local =
                    self.raw.ir.locals.push(LocalData { elem, len, location: self.raw.location });
                self.emit_one(Mem::LocalBase { local })
            }
            Type::Pointer { space: Space::Generic, elem, mutable } if values.is_empty() => {
                let space = match (mutable, self.rng.below(3)) {
                    (true, 0) => Space::Local,
                    (true, _) => Space::Shared,
                    (false, _) => Space::Const,
                };
                let base = self.of(Type::Pointer { space, elem, mutable });
                self.emit_one(Mem::Cvta { base })
            }
            Type::Pointer { space: Space::Shared, elem, .. } if values.is_empty() => {
                let align_bytes = elem.size_bytes() << self.rng.below(3);
                // All allocations of a kernel must fit together, so later ones are small.
                let len =
                    if self.raw.ir.shared.len() < 16 { 1 + self.rng.below(64) as u32 } else { 1 };
                let data = SharedData { elem, len, align_bytes, location: self.raw.location };
                let shared = self.raw.ir.shared.push(data);
                self.emit_one(Mem::SharedBase { shared })
            }
            _ => *self.rng.pick(&values),
        }
    }

    fn all_of(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|ty| self.of(*ty)).collect()
    }

    fn show(&mut self, op: OpId) {
        self.results = self.raw.ir.ops[op].results.to_vec();
        let last = self.visible.len() - 1;
        self.visible[last].extend(&self.results);
    }

    /// Adds an operation with the result types of its row.
    fn emit(&mut self, op: impl Into<Op>) {
        let op = op.into();
        let results = op.result_types(&self.raw.ir);
        let id = self.raw.push(op, &results);
        self.show(id);
    }

    fn emit_one(&mut self, op: impl Into<Op>) -> Value {
        self.emit(op);
        self.results[0]
    }

    fn any(&mut self, class: Class) -> Value {
        let ty = self.ty(class);
        self.of(ty)
    }

    fn pair(&mut self, class: Class) -> [Value; 2] {
        let ty = self.ty(class);
        [self.of(ty), self.of(ty)]
    }

    fn arith(&mut self) -> Op {
        let kind = self.rng.below(36);
        match kind {
            0..=6 => {
                let [lhs, mut rhs] = self.pair(match kind {
                    3 => Class::ScalarNumber,
                    4 => Class::Int,
                    _ => Class::Number,
                });
                if matches!(kind, 3 | 4) && self.is_zero(rhs) {
                    let Type::Scalar(scalar) = self.raw.ir.type_of(rhs) else { unreachable!() };
                    rhs = self.emit_one(Op::Const(Const::new(scalar, 3)));
                }
                match kind {
                    0 => Arith::Add { lhs, rhs }.into(),
                    1 => Arith::Sub { lhs, rhs }.into(),
                    2 => Arith::Mul { lhs, rhs }.into(),
                    3 => Arith::Div { lhs, rhs }.into(),
                    4 => Arith::Rem { lhs, rhs }.into(),
                    5 => Arith::Min { lhs, rhs }.into(),
                    _ => Arith::Max { lhs, rhs }.into(),
                }
            }
            7 => Arith::Neg { value: self.any(Class::Signed) }.into(),
            8 => Arith::Abs { value: self.any(Class::Signed) }.into(),
            9 => {
                let [lhs, rhs] = self.pair(Class::Float);
                Arith::Fma { lhs, rhs, addend: self.of(self.raw.ir.type_of(lhs)) }.into()
            }
            10 => Arith::Sqrt { value: self.any(Class::ScalarFloat) }.into(),
            11..=13 => {
                let [lhs, rhs] = self.pair(Class::Bits);
                match kind {
                    11 => Arith::And { lhs, rhs }.into(),
                    12 => Arith::Or { lhs, rhs }.into(),
                    _ => Arith::Xor { lhs, rhs }.into(),
                }
            }
            14 => Arith::Not { value: self.any(Class::Bits) }.into(),
            15 | 16 => {
                let (value, amount) = (self.any(Class::Int), self.of(Scalar::U32.into()));
                let shr = Arith::Shr { value, amount };
                if kind == 15 { Arith::Shl { value, amount } } else { shr }.into()
            }
            17 => {
                let [lhs, rhs] = self.pair(Class::Ordered);
                let float = self.raw.ir.type_of(lhs).scalar().is_some_and(Scalar::is_float);
                let mut all = Compare::ALL.to_vec();
                all.retain(|compare| float || !compare.needs_float());
                Arith::Setp { lhs, rhs, compare: *self.rng.pick(&all) }.into()
            }
            18 => {
                let [then_value, else_value] = self.pair(Class::Any);
                Arith::Selp { cond: self.of(Type::BOOL), then_value, else_value }.into()
            }
            19 => {
                // Not every target can convert 8-bit floats.
                let class =
                    [Class::Ordered, Class::Scalar][usize::from(self.raw.ir.target.sm() >= 89)];
                let value = self.any(class);
                let to = match self.scalar(class) {
                    Scalar::Bool => Scalar::Tf32,
                    to => to,
                };
                Convert::Cvt { value, to }.into()
            }
            20 => {
                let vector = self.vector();
                let values = (0..vector.lanes()).map(|_| self.of(vector.elem().into())).collect();
                Convert::VecPack { values }.into()
            }
            21 => {
                let vector = self.vector();
                Convert::VecSplat { value: self.of(vector.elem().into()), lanes: vector.lanes() }
                    .into()
            }
            22 => {
                let ty = self.vector();
                let (vector, lane) =
                    (self.of(ty.into()), self.rng.below(ty.lanes() as usize) as u32);
                Convert::VecExtract { vector, lane }.into()
            }
            23 => {
                // Elements with no more bits always fit.
                let (vector, to) = (self.vector(), self.scalar(Class::Number));
                let no_byte = |s: Scalar| !matches!(s, Scalar::F8E4M3 | Scalar::F8E5M2);
                let fits = to.bits() <= vector.elem().bits() && no_byte(vector.elem());
                let to = if fits { to } else { vector.elem() };
                Convert::Cvt { value: self.of(vector.into()), to }.into()
            }
            24..=33 => self.any_row(),
            _ => {
                let mut all = SpecialReg::ALL.to_vec();
                all.retain(|reg| self.raw.ir.target.offers(reg.first_target()));
                Thread::Sreg { reg: *self.rng.pick(&all) }.into()
            }
        }
    }

    /// Returns an operation of any row with any attributes, if one is found that PTX supports.
    fn any_row(&mut self) -> Op {
        static ROWS: LazyLock<Vec<Vec<Op>>> = LazyLock::new(|| {
            let mut all = raw::arith();
            // Other code takes care that no divisor is zero, and of which special registers exist.
            all.retain(|op| !matches!(raw::info(op).name, "div" | "rem" | "sreg"));
            // Most modes of this one do not exist for any type.
            all.retain(|op| match op {
                Op::Convert(Convert::CvtRounded { to, mode, .. }) => to.is_float() && !mode.ftz,
                _ => true,
            });
            all.sort_by_key(|op| raw::info(op).name);
            all.chunk_by(|a, b| raw::info(a).name == raw::info(b).name)
                .map(<[Op]>::to_vec)
                .collect()
        });
        let rows = &ROWS[self.rng.below(ROWS.len())];
        for _ in 0..16 {
            let row = &rows[self.rng.below(rows.len())];
            let class = raw::info(row).class;
            let ty = match class {
                Class::Vector => self.vector().into(),
                Class::PackedInt => {
                    let elem = *self.rng.pick(&[Scalar::I16, Scalar::U16]);
                    VectorType::new(elem, 2).unwrap().into()
                }
                Class::Data if self.rng.below(2) == 0 => Scalar::F32.into(),
                Class::Any | Class::Data => self.scalar(Class::Scalar).into(),
                class => self.ty(class),
            };
            let types = raw::operand_types(row, ty);
            let operands: Vec<Value> = types.into_iter().map(|ty| self.of(ty)).collect();
            let op = raw::with_operands(row, &operands);
            if raw::is_valid(&op, &self.raw.ir) {
                return op;
            }
        }
        Thread::Sreg { reg: SpecialReg::LaneId }.into()
    }

    /// Returns whether the value is the integer constant 0.
    fn is_zero(&self, value: Value) -> bool {
        let ValueDef::Result(def, _) = self.raw.ir.values[value].def else { return false };
        matches!(self.raw.ir.ops[def].op, Op::Const(c) if c.as_int() == Some(0))
    }

    /// Returns the vector type of a visible value, or any vector type.
    fn vector(&mut self) -> VectorType {
        let values = self.all_visible();
        let types: Vec<VectorType> =
            values.into_iter().filter_map(|value| self.raw.ir.type_of(value).vector()).collect();
        if types.is_empty() || self.rng.below(2) == 0 {
            return *self.rng.pick(&VectorType::all().collect::<Vec<_>>());
        }
        *self.rng.pick(&types)
    }

    /// Returns an index. For shared and local memory it is not a constant, which could be out of
    /// bounds.
    fn index(&mut self, space: Space) -> Value {
        if matches!(space, Space::Shared | Space::Local) {
            return self.emit_one(Thread::Sreg { reg: SpecialReg::LaneId });
        }
        let ty = *self.rng.pick(&[Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64]);
        self.of(ty.into())
    }

    fn memory(&mut self) {
        let base = self.any(Class::Pointer);
        let Type::Pointer { space, elem, mutable } = self.raw.ir.type_of(base) else { return };
        let index = self.index(space);
        match self.rng.below(13) {
            12 if matches!(space, Space::Shared | Space::SharedCluster)
                && self.raw.ir.target.offers(Target::SM_90) =>
            {
                self.emit(Mem::Getctarank { base });
            }
            10 if space != Space::Generic => self.emit(Mem::Cvta { base }),
            10 | 11 if space == Space::Generic => {
                let mut spaces = Space::ALL.to_vec();
                spaces.retain(|space| *space != Space::Generic);
                let older = !self.raw.ir.target.offers(Target::SM_90);
                spaces.retain(|space| !(older && *space == Space::SharedCluster));
                let is = self.rng.below(2) == 0;
                spaces.retain(|space| is || !(mutable && *space == Space::Const));
                let space = *self.rng.pick(&spaces);
                if is {
                    self.emit(Mem::Isspacep { base, space });
                } else {
                    self.emit(Mem::CvtaTo { base, space });
                }
            }
            12 => self.emit(Mem::PtrToInt { base }),
            9 => {
                let to = *self.rng.pick(&Scalar::ALL);
                self.emit(Mem::PtrCast { base, to });
            }
            6 => self.diagnostic(),
            7 => self.vector_access(base),
            8 => self.sync(),
            0 => {
                let access = self.load_access(space);
                self.emit(Mem::Ld { base, index, access });
            }
            1 if mutable => {
                let value = self.of(elem.into());
                let access = self.store_access(space);
                self.emit(Mem::St { base, index, value, access });
            }
            2 => self.emit(Mem::Offset { base, index }),
            4 if mutable && matches!(elem, Scalar::F16) && space != Space::Local => {
                self.atomic_pair(base, index);
            }
            4 if mutable && elem.bits() >= 32 && space != Space::Local => {
                self.atomic(base, index, elem)
            }
            5 if space == Space::Global => {
                let op = match self.rng.below(3) {
                    0 => Cache::Prefetch { base, index, level: *self.rng.pick(PrefetchLevel::ALL) },
                    1 if mutable => Cache::Discard { base, index },
                    _ => Cache::Applypriority { base, index },
                };
                self.emit(op);
            }
            // In the kernel's body, all threads that have not returned are together.
            3 if self.raw.region == self.raw.ir.body => self.emit(Sync::Barrier {}),
            _ => {}
        }
    }

    /// Adds a promise about an integer that it keeps, or turns an address back into a pointer.
    fn promise(&mut self, base: Value) {
        if let Type::Pointer { space: Space::Global, elem: to, mutable: true } =
            self.raw.ir.type_of(base)
        {
            let address = self.emit_one(Mem::PtrToInt { base });
            self.emit(Mem::IntToPtr { address, to });
        }
        let value = self.any(Class::Int);
        self.emit(Mem::AssumeDivisibleBy { value, divisor: 1 });
        let other = self.of(self.raw.ir.type_of(value));
        let low = self.emit_one(Arith::Min { lhs: value, rhs: other });
        let high = self.emit_one(Arith::Max { lhs: value, rhs: other });
        self.emit(Mem::AssumeBetween { value, low, high });
    }

    /// Adds a vector access at an index that is not known to be misaligned.
    fn vector_access(&mut self, base: Value) {
        let Type::Pointer { space, elem, mutable } = self.raw.ir.type_of(base) else { return };
        let mut vectors = VectorType::all().collect::<Vec<_>>();
        vectors.retain(|vector| vector.elem() == elem && vector.is_one_access());
        if space != Space::Global || vectors.is_empty() {
            let bytes = 1 << self.rng.below(6);
            self.emit(Mem::AssumeAligned { base, bytes });
            return self.promise(base);
        }
        let index = self.emit_one(Thread::Sreg { reg: SpecialReg::LaneId });
        let vector = *self.rng.pick(&vectors);
        if mutable && self.rng.below(2) == 0 {
            let (value, access) = (self.of(vector.into()), self.store_access(space));
            self.emit(Mem::StVec { base, index, vector: value, access });
        } else {
            let (lanes, access) = (vector.lanes(), self.load_access(space));
            self.emit(Mem::LdVec { base, index, lanes, access });
        }
    }

    /// Adds a fence or, in the kernel's body, where warps are complete, a barrier.
    fn sync(&mut self) {
        if self.raw.region != self.raw.ir.body || self.rng.below(3) == 0 {
            let order = *self.rng.pick(FenceOrder::ALL);
            if self.raw.ir.target.offers(Target::SM_90) && self.rng.below(2) == 0 {
                let space = *self.rng.pick(ProxySpace::ALL);
                self.emit(Sync::FenceProxyAsync { space });
            } else {
                let scope = self.scope();
                self.emit(Sync::Fence { order, scope });
            }
            return;
        }
        let number = self.rng.below(16) as u64;
        let id = self.emit_one(Op::Const(Const::new(Scalar::U32, number)));
        let threads = self.emit_one(Op::Const(Const::new(Scalar::U32, 32 + 32 * (number % 4))));
        let (pred, form) = (self.of(Type::BOOL), *self.rng.pick(BarrierForm::ALL));
        let op = match number % 4 {
            0 => Sync::BarrierSync { id, threads, form },
            1 => Sync::BarrierArrive { id, threads, form },
            2 => Sync::BarrierRed { pred, id, threads, op: *self.rng.pick(BarrierRed::ALL), form },
            _ => Sync::BarrierRedPopc { pred, id, threads, form },
        };
        self.emit(op);
    }

    fn scope(&mut self) -> MemScope {
        let scope = *self.rng.pick(MemScope::ALL);
        if self.raw.ir.target.offers(scope.first_target()) { scope } else { MemScope::Gpu }
    }

    fn maybe<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (self.rng.below(3) == 0).then(|| *self.rng.pick(all))
    }

    fn load_access(&mut self, space: Space) -> LoadAccess {
        let access = LoadAccess::default();
        if matches!(space, Space::Local | Space::Const) {
            return access;
        }
        let mut access = match self.rng.below(8) {
            1 => access.volatile(),
            2 => access.relaxed(self.scope()),
            3 => access.acquire(self.scope()),
            _ => access,
        };
        let volatile = access.order == LoadOrder::Volatile;
        if space == Space::Global && !volatile {
            access.l1_evict = self.maybe(L1Evict::ALL);
            access.l2_policy = self.policy();
            access.l2_prefetch = self.maybe(L2Prefetch::ALL);
            if access.order == Default::default() {
                access.non_coherent = self.rng.below(4) == 1;
                access.cache = self.maybe(LoadCache::ALL).filter(|cache| {
                    let read_only = matches!(cache, LoadCache::Ca | LoadCache::Cg | LoadCache::Cs);
                    access.l1_evict.is_none() && (read_only || !access.non_coherent)
                });
            }
        }
        access
    }

    fn policy(&mut self) -> L2Policy {
        self.maybe(L2Policy::ALL).unwrap_or_default()
    }

    fn store_access(&mut self, space: Space) -> StoreAccess {
        let access = StoreAccess::default();
        if space == Space::Local {
            return access;
        }
        let mut access = match self.rng.below(8) {
            1 => access.volatile(),
            2 => access.relaxed(self.scope()),
            3 => access.release(self.scope()),
            _ => access,
        };
        let volatile = access.order == StoreOrder::Volatile;
        if space == Space::Global && !volatile {
            access.l1_evict = self.maybe(L1Evict::ALL);
            access.l2_policy = self.policy();
            if access.order == Default::default() && access.l1_evict.is_none() {
                access.cache = self.maybe(StoreCache::ALL);
            }
        }
        access
    }

    /// Adds a sum of two halves at an index that is not known to be misaligned.
    fn atomic_pair(&mut self, base: Value, index: Value) {
        let (vector, scope) = (self.of(VectorType::F16X2.into()), self.scope());
        let (value, order) = (self.of(Scalar::F16.into()), *self.rng.pick(RedOrder::ALL));
        let op = AtomicOp::Add;
        self.emit(Atomic::Red { base, index, value, op, order, scope });
        let index = self.emit_one(Thread::Sreg { reg: SpecialReg::LaneId });
        let aligned = self.emit_one(Mem::AssumeAligned { base, bytes: 4 });
        if self.rng.below(2) == 0 {
            self.emit(Atomic::RedVec { base: aligned, index, vector, op, order, scope });
        } else {
            let order = *self.rng.pick(AtomicOrder::ALL);
            self.emit(Atomic::AtomVec { base: aligned, index, vector, op, order, scope });
        }
    }

    fn atomic(&mut self, base: Value, index: Value, elem: Scalar) {
        let (value, scope) = (self.of(elem.into()), self.scope());
        let order = *self.rng.pick(AtomicOrder::ALL);
        let op = match elem {
            Scalar::U32 => *self.rng.pick(AtomicOp::ALL),
            Scalar::F32 | Scalar::F64 => *self.rng.pick(&[AtomicOp::Exch, AtomicOp::Add]),
            Scalar::Tf32 => AtomicOp::Exch,
            _ => *self.rng.pick(&[AtomicOp::Exch, AtomicOp::Min, AtomicOp::Xor, AtomicOp::Add]),
        };
        match self.rng.below(3) {
            0 => self.emit(Atomic::Atom { base, index, value, op, order, scope }),
            1 => {
                let compare = self.of(elem.into());
                self.emit(Atomic::AtomCas { base, index, compare, value, order, scope });
            }
            _ => {
                let order = *self.rng.pick(RedOrder::ALL);
                self.emit(Atomic::Red { base, index, value, op, order, scope });
            }
        }
    }

    fn diagnostic(&mut self) {
        let cond = self.of(Type::BOOL);
        let prints = self.rng.below(2) == 1;
        // C has no narrow floating-point types.
        let class = if prints { Class::Int } else { Class::Scalar };
        let values: ValueList = (0..self.rng.below(4)).map(|_| self.any(class)).collect();
        let texts = ["{}", "{:4}\n", "{{{}}}\"", "\\{} é"];
        let text: String = values.iter().map(|_| *self.rng.pick(&texts)).collect();
        let op = if prints {
            Diagnostic::Printf { format: text.into(), values }
        } else {
            Diagnostic::Assert { cond, message: text.into(), values, element: None }
        };
        self.emit(op);
    }

    /// Adds a warp operation. Its member mask is only known at run time, so it may be anywhere.
    fn warp(&mut self) {
        let members = self.emit_one(Thread::Sreg { reg: SpecialReg::LaneMaskEq });
        let u32 = Type::from(Scalar::U32);
        let op = match self.rng.below(9) {
            0 => Warp::Activemask {},
            1 => {
                let (value, lane, segment) = (self.any(Class::Scalar), self.of(u32), self.of(u32));
                Warp::Shfl { value, lane, segment, members, mode: *self.rng.pick(&ShflMode::ALL) }
            }
            2 => {
                let (pred, mode) = (self.of(Type::BOOL), *self.rng.pick(&VoteMode::ALL));
                Warp::Vote { pred, members, mode }
            }
            3 => Warp::VoteBallot { pred: self.of(Type::BOOL), members },
            4 => Warp::MatchAny { value: self.any(Class::ScalarNumber), members },
            5 => Warp::MatchAll { value: self.any(Class::ScalarNumber), members },
            6 => {
                let (value, op) = (self.any(Class::Int32), *self.rng.pick(&ReduxOp::ALL));
                Warp::Redux { value, members, op }
            }
            7 if self.raw.ir.target.offers(Target::SM_90) => Warp::Elect { members },
            _ => Warp::BarWarp { members },
        };
        self.emit(op);
    }

    fn thread(&mut self) {
        let newer = self.raw.ir.target.offers(Target::SM_90);
        let op: Op = match self.rng.below(6) {
            0 => Thread::VolatileSreg { reg: *self.rng.pick(&VolatileReg::ALL) }.into(),
            1 => Thread::Nanosleep { nanoseconds: self.of(Scalar::U32.into()) }.into(),
            2 => Thread::Trap {}.into(),
            3 => Thread::Brkpt {}.into(),
            4 if newer => Sync::GriddepcontrolWait {}.into(),
            5 if newer => Sync::GriddepcontrolLaunchDependents {}.into(),
            _ => return,
        };
        self.emit(op);
    }

    fn variable(&mut self) {
        if self.vars.is_empty() || self.rng.below(3) == 0 {
            let (ty, len) = (self.ty(Class::Any), 1 + self.rng.below(3) as u32);
            self.registers(ty, len);
            return;
        }
        let vars = self.vars.clone();
        let (_, var) = *self.rng.pick(&vars);
        let data = self.raw.ir.vars[var];
        let index = self.rng.below(data.len as usize) as u32;
        if self.rng.below(2) == 0 {
            self.emit(Mem::GetVar { var, index });
        } else {
            let value = self.of(data.ty);
            self.emit(Mem::SetVar { value, var, index });
        }
    }

    /// Adds an operation that is in no region, as a transformation can leave behind.
    fn dead(&mut self) {
        let value = self.any(Class::Number);
        let (region, location) = (self.raw.region, self.raw.location);
        let results = Default::default();
        let op = self.raw.ir.ops.push(OpData {
            op: Arith::Neg { value }.into(),
            results,
            region,
            location,
        });
        let ty = self.raw.ir.type_of(value);
        let result = self.raw.value(ty, ValueDef::Result(op, 0), region);
        self.raw.ir.ops[op].results.push(result);
    }

    /// Fills the region. Returns whether control can leave its end.
    fn region(&mut self, region: RegionId, end: End) -> bool {
        let outer = std::mem::replace(&mut self.raw.region, region);
        let inner_args = self.raw.ir.regions[region].args.to_vec();
        if region != self.raw.ir.body {
            self.visible.push(inner_args);
        }
        let mut open = true;
        for _ in 0..self.rng.below(8) {
            match self.rng.below(16) {
                14 | 15 => self.tensor(),
                0..=3 => {
                    let op = self.arith();
                    self.emit(op);
                }
                4 | 5 => self.memory(),
                6 | 7 => self.variable(),
                8 => open = self.if_(),
                9 => self.for_(),
                10 => self.loop_(),
                11 => self.warp(),
                12 => self.thread(),
                _ => self.dead(),
            }
            if !open {
                break;
            }
        }
        let falls_through = open && self.end(end);
        self.vars.retain(|(depth, _)| *depth < self.visible.len() || region == self.raw.ir.body);
        if region != self.raw.ir.body {
            self.visible.pop();
        }
        self.raw.region = outer;
        falls_through
    }

    /// Adds a terminator. Returns whether it falls through.
    fn end(&mut self, end: End) -> bool {
        let choice = self.rng.below(6);
        match end {
            End::Kernel => {}
            End::Arm(types) if choice < 3 || self.loops.is_empty() && choice < 5 => {
                let values = self.all_of(&types).into();
                self.raw.push(Control::Yield { values }, &[]);
                return true;
            }
            End::Arm(_) | End::Loop if choice < 5 => {
                let depth = match end {
                    End::Loop if choice < 3 => self.loops.len() - 1,
                    _ => self.rng.below(self.loops.len()),
                };
                let LoopInfo { op: target, carried, results } = &self.loops[depth];
                let (target, carried, results) = (*target, carried.clone(), results.clone());
                if self.rng.below(3) == 0 {
                    let values = self.all_of(&results).into();
                    self.raw.push(Control::Break { target, values }, &[]);
                } else {
                    let values = self.all_of(&carried).into();
                    self.raw.push(Control::Continue { target, values }, &[]);
                }
                return false;
            }
            End::Arm(_) | End::Loop => {}
        }
        self.raw.push(Control::Return, &[]);
        false
    }

    fn inner(&mut self, op: OpId, args: &[Type]) -> RegionId {
        let region = self.raw.ir.regions.push(Region { parent: Some(op), ..Region::default() });
        for (i, ty) in args.iter().enumerate() {
            let value = self.raw.value(*ty, ValueDef::Arg(region, i as u32), region);
            self.raw.ir.regions[region].args.push(value);
        }
        region
    }

    fn if_(&mut self) -> bool {
        let cond = self.of(Type::BOOL);
        let results = if self.rng.below(3) == 0 { None } else { Some(self.types()) };
        let types = results.clone().unwrap_or_default();
        let then_region = self.raw.ir.body;
        let op = self.raw.push(Control::If { cond, then_region, else_region: None }, &types);
        let then_region = self.inner(op, &[]);
        let else_region = results.map(|_| self.inner(op, &[]));
        self.raw.ir.ops[op].op = Control::If { cond, then_region, else_region }.into();
        let mut falls_through = self.region(then_region, End::Arm(types.clone()));
        match else_region {
            Some(else_region) => falls_through |= self.region(else_region, End::Arm(types)),
            None => falls_through = true,
        }
        self.show(op);
        falls_through
    }

    fn for_(&mut self) {
        let scalar = self.scalar(Class::Int);
        let [mut lo, mut hi] = [self.of(scalar.into()), self.of(scalar.into())];
        let step = 1 + self.rng.below(7) as u64;
        let step = self.emit_one(Op::Const(Const::new(scalar, step)));
        let carried = self.types();
        let init = self.all_of(&carried);
        let body = self.raw.ir.body;
        let unroll = match self.rng.below(4) {
            0 | 1 => Unroll::Keep,
            2 => NonZeroU32::new(self.rng.below(8) as u32).map_or(Unroll::Keep, Unroll::By),
            _ => {
                // The iteration count has to be known and small.
                let mut constant = |bits| self.emit_one(Op::Const(Const::new(scalar, bits)));
                (lo, hi) = (constant(3), constant(8));
                Unroll::Full
            }
        };
        let control = |body| {
            let init = init.clone().into();
            Control::For { lo, hi, step, unroll, prefetch: 0, init, body }
        };
        let op = self.raw.push(control(body), &carried);
        let args: Vec<Type> = [scalar.into()].into_iter().chain(carried.iter().copied()).collect();
        let body = self.inner(op, &args);
        self.raw.ir.ops[op].op = control(body).into();
        self.loops.push(LoopInfo { op, results: carried.clone(), carried });
        self.region(body, End::Loop);
        self.loops.pop();
        self.show(op);
    }

    fn loop_(&mut self) {
        let (carried, results) = (self.types(), self.types());
        let init = self.all_of(&carried);
        let body = self.raw.ir.body;
        let op = self.raw.push(Control::Loop { init: init.clone().into(), body }, &results);
        let body = self.inner(op, &carried);
        self.raw.ir.ops[op].op = Control::Loop { init: init.into(), body }.into();
        self.loops.push(LoopInfo { op, carried, results });
        self.region(body, End::Loop);
        self.loops.pop();
        self.show(op);
    }
}
