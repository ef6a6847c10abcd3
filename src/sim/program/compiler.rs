//! From the region tree to the flat steps of a [`Code`].
//!
//! Two walks over the regions, both with a stack of their own, so that no depth of nesting can exhaust the
//! host's: the first finds when each value dies (`liveness.rs`), the second places values in slots
//! (`slots.rs`) and emits steps.

use crate::sim::program::refused::Refused;
use std::collections::HashMap;

use smallvec::SmallVec;

use super::arith::joined;
use super::code::{Code, ForLoop, Inst, Step};
use super::for_range::ForRange;
use super::liveness::last_uses;
use super::slots::{ConstWord, Registers, Slots};
use crate::ir::eval::with_int;
use crate::ir::{
    Arena, Arith, ArrayData, Const, Control, Entity, KernelIr, LocalData, Mem, Mma, Op, OpId,
    RegionId, Scalar, SharedData, Space, SpecialReg, Thread, Type, Value, ValueDef, VarId,
};
use crate::sim::exec::context::Next;
use crate::sim::memory::access::{Address, Alloc, Index, PointerSlots, Strength, offset};
use crate::sim::memory::buffer::Buffer;
use crate::sim::memory::lanes::{FULL, LANES, Move};
use crate::sim::memory::proxy;
use crate::sim::memory::shared::SharedRange;

use super::refused::Refused::Malformed;

/// The entry of an arena.
pub(in crate::sim) fn get<K: Entity, T>(arena: &Arena<K, T>, key: K) -> Result<&T, Refused> {
    arena.get(key).ok_or(Malformed)
}

/// An open loop, as `break` and `continue` see it.
struct Target {
    frame: u32,
    args: Vec<Slots>,
    results: Vec<Slots>,
}

/// Remaining work of an open construct.
enum Task {
    /// The operations of a region from `next` on.
    Region { region: RegionId, next: usize },
    /// The `else` of the `if` at step `at` begins.
    Else { at: usize },
    /// The construct at step `at` ends.
    End { op: OpId, at: usize, owned: Vec<Slots> },
}

pub(in crate::sim) struct Compiler<'k> {
    ir: &'k KernelIr,
    pub(in crate::sim) code: Code,
    pub(in crate::sim) regs: Registers,
    slots: Vec<Option<Slots>>,
    /// For each operation, the results that are dead after it.
    dead: Vec<SmallVec<[Value; 2]>>,
    vars: Vec<Vec<Slots>>,
    vars_of: HashMap<RegionId, Vec<VarId>>,
    /// For each variable, whether it has sums of `wgmma`.
    watched: Vec<bool>,
    pub(in crate::sim) special: HashMap<SpecialReg, u32>,
    targets: HashMap<OpId, Target>,
    /// Operations without a step since the last step.
    pub(in crate::sim) weight: u32,
    /// Open frames.
    depth: u32,
}

/// Compiles a verified kernel.
///
/// # Errors
/// If the kernel is not one: every index is checked on the way.
pub(in crate::sim) fn compile(ir: &KernelIr) -> Result<Code, Refused> {
    let mut vars_of: HashMap<RegionId, Vec<VarId>> = HashMap::new();
    for (var, data) in ir.vars.iter() {
        vars_of.entry(data.region).or_default().push(var);
    }
    let (shared, shared_bytes) = shared_ranges(ir)?;
    let (local, local_bytes) = local_ranges(ir)?;
    let mut compiler = Compiler {
        ir,
        code: Code {
            steps: Vec::new(),
            ops: Vec::new(),
            w: 0,
            d: 0,
            fill_w: Vec::new(),
            fill_d: Vec::new(),
            special: Vec::new(),
            params: Vec::new(),
            arrays: ir.arrays.iter().map(|(_, array)| array_bytes(array)).collect(),
            shared,
            shared_bytes,
            watches_proxies: proxy::is_used(ir),
            local,
            local_bytes,
        },
        regs: Registers::default(),
        slots: vec![None; ir.values.len()],
        dead: last_uses(ir)?,
        vars: vec![Vec::new(); ir.vars.len()],
        vars_of,
        watched: watched_vars(ir)?,
        special: HashMap::new(),
        targets: HashMap::new(),
        weight: 0,
        depth: 0,
    };
    compiler.params()?;
    compiler.body()?;
    compiler.regs.check_slots(0)?;
    let mut code = compiler.code;
    (code.w, code.d) = compiler.regs.len();
    (code.fill_w, code.fill_d) = (compiler.regs.fill_w, compiler.regs.fill_d);
    Ok(code)
}

/// For each variable, whether it has sums of `wgmma`.
fn watched_vars(ir: &KernelIr) -> Result<Vec<bool>, Refused> {
    let mut watched = vec![false; ir.vars.len()];
    for (_, data) in ir.ops.iter() {
        if let Op::Mma(Mma::Wgmma { d, .. } | Mma::WgmmaRs { d, .. }) = data.op {
            *watched.get_mut(d.index()).ok_or(Malformed)? = true;
        }
    }
    Ok(watched)
}

/// Copies from or to the slot of an accumulator.
fn watched(slot: u32, moves: Box<[Move]>) -> Inst {
    Inst::Act(Box::new(move |context| {
        context.touch(&[slot])?;
        context.regs.copy(&moves, context.active);
        Ok(Next::Go)
    }))
}

/// The memory of a constant array.
fn array_bytes(array: &ArrayData) -> Buffer {
    let size = array.elem.size_bytes() as usize;
    let bytes = array.elements().flat_map(|x| x.bits().to_le_bytes().into_iter().take(size));
    Buffer::from_slice::<u8>(&bytes.collect::<Vec<u8>>())
}

/// Returns the byte ranges of the shared allocations, and their total size in bytes.
fn shared_ranges(ir: &KernelIr) -> Result<(Vec<SharedRange>, usize), Refused> {
    let aligned = |data: &SharedData| {
        data.align_bytes.is_power_of_two() && data.align_bytes >= data.elem.size_bytes()
    };
    if !ir.shared.iter().all(|(_, data)| aligned(data)) {
        return Err(Malformed);
    }
    let (starts, end) = ir.shared_layout();
    // More than any device has is not a verified kernel, and must not exhaust the host's memory.
    if end > 1 << 20 {
        return Err(Malformed);
    }
    let range = |(start, data): (u64, &SharedData)| SharedRange {
        start: start as usize,
        len: data.len as usize * data.elem.size_bytes() as usize,
    };
    let ranges = starts.into_iter().zip(ir.shared.iter().map(|(_, data)| data)).map(range);
    Ok((ranges.collect(), end as usize))
}

/// Returns the byte ranges of the local allocations of a thread, and their total size in bytes.
fn local_ranges(ir: &KernelIr) -> Result<(Vec<SharedRange>, usize), Refused> {
    let (starts, end) = ir.local_layout();
    if end > KernelIr::LOCAL_BYTES {
        return Err(Malformed);
    }
    let range = |(start, data): (u64, &LocalData)| SharedRange {
        start: start as usize,
        len: data.bytes() as usize,
    };
    let ranges = starts.into_iter().zip(ir.locals.iter().map(|(_, data)| data)).map(range);
    Ok((ranges.collect(), end as usize))
}

impl Compiler<'_> {
    pub(in crate::sim) fn ir(&self) -> &KernelIr {
        self.ir
    }

    // Values.

    pub(in crate::sim) fn slots(&self, value: Value) -> Result<Slots, Refused> {
        self.slots.get(value.index()).copied().flatten().ok_or(Malformed)
    }

    /// The type and the slot of a scalar.
    pub(in crate::sim) fn scalar(&self, value: Value) -> Result<(Scalar, u32), Refused> {
        match self.slots(value)? {
            Slots::Scalar(scalar, slot) => Ok((scalar, slot)),
            Slots::Vector(..) | Slots::Pointer(_) => Err(Malformed),
        }
    }

    /// The slot of a scalar of type `expected`.
    pub(in crate::sim) fn scalar_of(&self, value: Value, expected: Scalar) -> Result<u32, Refused> {
        self.slots(value)?.scalar(expected)
    }

    pub(in crate::sim) fn pointer(
        &self,
        value: Value,
    ) -> Result<(PointerSlots, Space, Scalar), Refused> {
        match (self.slots(value)?, get(&self.ir.values, value)?.ty) {
            (Slots::Pointer(slots), Type::Pointer { space, elem, .. }) => Ok((slots, space, elem)),
            _ => Err(Malformed),
        }
    }

    fn index(&self, value: Value) -> Result<Index, Refused> {
        match self.scalar(value)? {
            (Scalar::I32, slot) => Ok(Index::I32(slot)),
            (Scalar::U32, slot) => Ok(Index::U32(slot)),
            (Scalar::I64, slot) => Ok(Index::I64(slot)),
            (Scalar::U64, slot) => Ok(Index::U64(slot)),
            _ => Err(Malformed),
        }
    }

    pub(in crate::sim) fn set(&mut self, value: Value, slots: Slots) -> Result<(), Refused> {
        *self.slots.get_mut(value.index()).ok_or(Malformed)? = Some(slots);
        Ok(())
    }

    /// The slot of a constant. Those that keep none are made by a step.
    fn constant(&mut self, op: OpId, constant: Const) -> Slots {
        let (scalar, word) = (constant.scalar(), ConstWord::from(constant));
        if let Some(slot) = self.regs.constant(word) {
            self.weight += 1;
            return Slots::Scalar(scalar, slot);
        }
        let slots = self.regs.allocate(scalar.into());
        let Slots::Scalar(_, slot) = slots else { return slots };
        let slot = slot as usize;
        self.emit(
            op,
            Inst::Pure(match word {
                ConstWord::D(word) => Box::new(move |regs| regs.d[slot] = [word; LANES]),
                ConstWord::W(word) => Box::new(move |regs| regs.w[slot] = [word; LANES]),
            }),
        );
        slots
    }

    fn values(&self, values: &[Value]) -> Result<Vec<Slots>, Refused> {
        values.iter().map(|value| self.slots(*value)).collect()
    }

    pub(in crate::sim) fn allocate_values(
        &mut self,
        values: &[Value],
    ) -> Result<Vec<Slots>, Refused> {
        let mut all = Vec::with_capacity(values.len());
        for value in values {
            let slots = self.regs.allocate(get(&self.ir.values, *value)?.ty);
            self.set(*value, slots)?;
            all.push(slots);
        }
        Ok(all)
    }

    pub(in crate::sim) fn emit(&mut self, op: OpId, inst: Inst) -> usize {
        let weight = std::mem::take(&mut self.weight).saturating_add(1);
        self.code.steps.push(Step { inst, weight });
        self.code.ops.push(op);
        self.code.steps.len() - 1
    }

    // Walks.

    fn params(&mut self) -> Result<(), Refused> {
        for (i, param) in self.ir.params.iter().enumerate() {
            let (slots, param_slot) = match get(&self.ir.values, param.value)?.ty {
                Type::Scalar(s) => {
                    let slot = self.regs.reserve(s);
                    (Slots::Scalar(s, slot), Some((slot, s.bits() == 64)))
                }
                // The verifier allows none.
                Type::Vector(_) => return Err(Malformed),
                Type::Pointer { .. } | Type::TensorMap { .. } => {
                    let alloc = Alloc::Static(i as u32);
                    (Slots::Pointer(PointerSlots { alloc, offset: None }), None)
                }
            };
            self.set(param.value, slots)?;
            self.code.params.push(param_slot);
        }
        Ok(())
    }

    fn body(&mut self) -> Result<(), Refused> {
        let mut tasks = Vec::new();
        self.open_region(self.ir.body, &mut tasks)?;
        while let Some(task) = tasks.last_mut() {
            match task {
                Task::Region { region, next } => {
                    let region = *region;
                    let first = *next == 0;
                    *next += 1;
                    let next = *next - 1;
                    if first {
                        self.declare(region)?;
                    }
                    let op = get(&self.ir.regions, region)?.ops.get(next).copied();
                    match op {
                        Some(op) => self.op(op, &mut tasks)?,
                        None => {
                            self.close_region(region)?;
                            tasks.pop();
                        }
                    }
                }
                Task::Else { at } => {
                    let (at, here) = (*at, self.code.steps.len() as u32);
                    if let Some(Step { inst: Inst::If { else_, .. }, .. }) =
                        self.code.steps.get_mut(at)
                    {
                        *else_ = Some(here);
                    }
                    tasks.pop();
                }
                Task::End { op, at, owned } => {
                    let (op, at, owned) = (*op, *at, std::mem::take(owned));
                    let here = self.code.steps.len() as u32;
                    match self.code.steps.get_mut(at).map(|step| &mut step.inst) {
                        Some(Inst::If { end, .. } | Inst::Loop { end, .. }) => *end = here,
                        Some(Inst::For(inner)) => inner.end = here,
                        _ => return Err(Malformed),
                    }
                    owned.into_iter().for_each(|slots| self.regs.release(slots));
                    self.targets.remove(&op);
                    self.depth -= 1;
                    self.release_dead(op);
                    tasks.pop();
                }
            }
        }
        Ok(())
    }

    fn open_region(&mut self, region: RegionId, tasks: &mut Vec<Task>) -> Result<(), Refused> {
        get(&self.ir.regions, region)?;
        tasks.push(Task::Region { region, next: 0 });
        Ok(())
    }

    /// The registers of the variables that `region` declares.
    fn declare(&mut self, region: RegionId) -> Result<(), Refused> {
        for var in self.vars_of.get(&region).cloned().unwrap_or_default() {
            let data = self.ir.vars[var];
            self.regs.check_slots(data.len)?;
            self.vars[var.index()] = (0..data.len).map(|_| self.regs.allocate(data.ty)).collect();
        }
        Ok(())
    }

    fn close_region(&mut self, region: RegionId) -> Result<(), Refused> {
        for var in self.vars_of.get(&region).cloned().unwrap_or_default() {
            let slots = std::mem::take(&mut self.vars[var.index()]);
            // A `wgmma` that nobody waits for may still set them.
            if !self.is_watched(var) {
                slots.into_iter().for_each(|slots| self.regs.release(slots));
            }
        }
        // Control must not run into what follows the region.
        let last = get(&self.ir.regions, region)?.ops.last().ok_or(Malformed)?;
        let ends = self.ir.ops[*last].op.control().is_some_and(|control| {
            if let Control::If { else_region, .. } = control {
                else_region.is_some()
            } else {
                control.is_terminator()
            }
        });
        if ends { Ok(()) } else { Err(Malformed) }
    }

    fn release_dead(&mut self, op: OpId) {
        for value in std::mem::take(&mut self.dead[op.index()]) {
            // Constants and the like stay in their slots.
            let ValueDef::Result(made, _) = self.ir.values[value].def else { continue };
            let made = self.ir.ops.get(made).map(|data| &data.op);
            let owned = if let Some(Op::Const(constant)) = made {
                !self.regs.is_kept(ConstWord::from(*constant))
            } else {
                !matches!(
                    made,
                    None | Some(
                        Op::Thread(Thread::Sreg { .. })
                            | Op::Mem(
                                Mem::SharedBase { .. }
                                    | Mem::LocalBase { .. }
                                    | Mem::ArrayBase { .. }
                            )
                    )
                )
            };
            if owned && let Some(slots) = self.slots[value.index()].take() {
                self.regs.release(slots);
            }
        }
    }

    fn op(&mut self, id: OpId, tasks: &mut Vec<Task>) -> Result<(), Refused> {
        let data = get(&self.ir.ops, id)?;
        let result = data.results.first().copied();
        match &data.op {
            Op::Const(constant) => {
                let slots = self.constant(id, *constant);
                self.set(result.ok_or(Malformed)?, slots)?;
            }
            Op::Thread(Thread::Sreg { reg }) => {
                let slot = self.special(*reg);
                self.set(result.ok_or(Malformed)?, Slots::Scalar(reg.scalar(), slot))?;
                self.weight += 1;
            }
            op @ (Op::Arith(_) | Op::FloatArith(_) | Op::IntArith(_) | Op::Convert(_)) => {
                let result = result.ok_or(Malformed)?;
                let mut to = self.regs.allocate(get(&self.ir.values, result)?.ty);
                if let Op::Arith(Arith::Selp { then_value, else_value, .. }) = op
                    && let (Slots::Pointer(a), Slots::Pointer(b)) =
                        (self.slots(*then_value)?, self.slots(*else_value)?)
                    && let Some(alloc) = joined(a, b)
                {
                    to = self.regs.with_static(to, alloc);
                }
                let inst = self.pure(op, to)?;
                self.set(result, to)?;
                self.emit(id, inst);
            }
            Op::Mem(op) => self.mem(id, op, result)?,
            Op::Inline(op) => {
                let results = self.allocate_values(&data.results)?;
                let access = self.inline(op, &results)?;
                self.emit(id, Inst::Memory(access));
            }
            Op::Diagnostic(op) => {
                let access = self.diagnostic(id, op)?;
                self.emit(id, Inst::Memory(access));
            }
            Op::Sync(op) => self.sync(id, op, &data.results)?,
            Op::Atomic(op) => self.atomic(id, op, &data.results)?,
            Op::Cache(op) => self.cache(id, op)?,
            Op::Mma(op) => self.mma(id, op, &data.results)?,
            Op::Mbarrier(op) => self.mbarrier(id, op, &data.results)?,
            Op::AsyncCopy(op) => self.async_copy(id, op)?,
            Op::Warp(op) => self.warp(id, op, &data.results)?,
            Op::Thread(op) => self.thread(id, op, &data.results)?,
            Op::Control(control) => return self.control(id, control, tasks),
        }
        self.release_dead(id);
        Ok(())
    }

    fn mem(&mut self, id: OpId, op: &Mem, result: Option<Value>) -> Result<(), Refused> {
        match *op {
            Mem::Ld { base, index, access } => {
                let strength = Strength::of_load(&access);
                let address = self.address(base, index, strength)?;
                let elem = address.elem;
                let to = self.regs.allocate(elem.into());
                let dst = to.scalar(elem)?;
                self.set(result.ok_or(Malformed)?, to)?;
                let access = self.watched_access(&address, false, address.load_elem(dst));
                self.emit(id, Inst::Memory(access));
            }
            Mem::St { base, index, value, access } => {
                let strength = Strength::of_store(&access);
                let address = self.address(base, index, strength)?;
                let src = self.scalar_of(value, address.elem)?;
                let access = self.watched_access(&address, true, address.store_elem(src));
                self.emit(id, Inst::Memory(access));
            }
            Mem::LdVec { .. } | Mem::StVec { .. } | Mem::AssumeAligned { .. } => {
                self.vector_access(id, op, result)?;
            }
            Mem::Offset { base, index } => {
                let (pointer, _, elem) = self.pointer(base)?;
                let (index, size_bytes) = (self.index(index)?, elem.size_bytes());
                let (dst, alloc) = self.derived_pointer(pointer, result.ok_or(Malformed)?)?;
                self.emit(
                    id,
                    Inst::Pure(Box::new(move |regs| {
                        regs.d[dst] = offset(regs, pointer, index, size_bytes);
                        if let Some((dst, src)) = alloc {
                            regs.w[dst] = regs.w[src];
                        }
                    })),
                );
            }
            Mem::ArrayBase { array } => {
                get(&self.ir.arrays, array)?;
                let alloc = Alloc::Static(array.index() as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::PtrCast { base, .. } => {
                let (pointer, ..) = self.pointer(base)?;
                let (dst, alloc) = self.derived_pointer(pointer, result.ok_or(Malformed)?)?;
                let src = self.regs.offset_slot(pointer) as usize;
                self.emit(
                    id,
                    Inst::Pure(Box::new(move |regs| {
                        regs.d[dst] = regs.d[src];
                        if let Some((dst, src)) = alloc {
                            regs.w[dst] = regs.w[src];
                        }
                    })),
                );
            }
            Mem::SharedBase { shared } => {
                get(&self.ir.shared, shared)?;
                let alloc = Alloc::Static(shared.index() as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::LocalBase { local } => {
                get(&self.ir.locals, local)?;
                let alloc = Alloc::Static(local.index() as u32);
                let slots = Slots::Pointer(PointerSlots { alloc, offset: None });
                self.set(result.ok_or(Malformed)?, slots)?;
                self.weight += 1;
            }
            Mem::Cvta { base } => self.cvta(id, base, result.ok_or(Malformed)?)?,
            Mem::CvtaTo { base, space } => {
                self.cvta_to(id, (base, space), result.ok_or(Malformed)?)?;
            }
            Mem::Isspacep { base, space } => {
                self.isspacep(id, (base, space), result.ok_or(Malformed)?)?;
            }
            Mem::PtrToInt { base } => self.ptr_to_int(id, base, result.ok_or(Malformed)?)?,
            Mem::Getctarank { base } => self.getctarank(id, base, result.ok_or(Malformed)?)?,
            Mem::Mapa { base, cta } => self.mapa(id, (base, cta), result.ok_or(Malformed)?)?,
            Mem::GetVar { var, index } => {
                let from = self.register(var, index)?;
                let to = self.regs.allocate(get(&self.ir.vars, var)?.ty);
                self.set(result.ok_or(Malformed)?, to)?;
                let moves = self.regs.moves(&[to], &[from])?;
                let inst = if self.is_watched(var) {
                    watched(from.single()?.1, moves)
                } else {
                    Inst::Pure(Box::new(move |regs| regs.copy(&moves, FULL)))
                };
                self.emit(id, inst);
            }
            Mem::SetVar { value, var, index } => {
                let (to, from) = (self.register(var, index)?, self.slots(value)?);
                let moves = self.regs.moves(&[to], &[from])?;
                let inst = if self.is_watched(var) {
                    watched(to.single()?.1, moves)
                } else {
                    Inst::Copy(moves)
                };
                self.emit(id, inst);
            }
        }
        Ok(())
    }

    /// Makes the slots of `result`, a pointer into the allocation of `pointer`: that of its offset, and, where the
    /// allocation is in a slot, the slots that it is copied to and from.
    fn derived_pointer(
        &mut self,
        pointer: PointerSlots,
        result: Value,
    ) -> Result<(usize, Option<(usize, usize)>), Refused> {
        let mut to = self.regs.allocate(get(&self.ir.values, result)?.ty);
        if let Alloc::Static(alloc) = pointer.alloc {
            to = self.regs.with_static(to, alloc);
        }
        let Slots::Pointer(PointerSlots { alloc, offset: Some(dst) }) = to else {
            return Err(Malformed);
        };
        self.set(result, to)?;
        let copied = match (alloc, pointer.alloc) {
            (Alloc::Slot(dst), Alloc::Slot(src)) => Some((dst as usize, src as usize)),
            _ => None,
        };
        Ok((dst as usize, copied))
    }

    pub(in crate::sim) fn address(
        &self,
        base: Value,
        index: Value,
        strength: Strength,
    ) -> Result<Address, Refused> {
        let (pointer, space, elem) = self.pointer(base)?;
        Ok(Address { space, elem, lanes: 1, strength, pointer, index: self.index(index)? })
    }

    /// The tensor map that a value is.
    pub(in crate::sim) fn tensor_map(&self, value: Value) -> Result<Alloc, Refused> {
        match (self.slots(value)?, get(&self.ir.values, value)?.ty) {
            (Slots::Pointer(slots), Type::TensorMap { .. }) => Ok(slots.alloc),
            _ => Err(Malformed),
        }
    }

    /// Returns whether the variable is an accumulator of `wgmma`, which is written asynchronously.
    pub(in crate::sim) fn is_watched(&self, var: VarId) -> bool {
        self.watched.get(var.index()).copied().unwrap_or(false)
    }

    pub(in crate::sim) fn var_type(&self, var: VarId) -> Result<Type, Refused> {
        Ok(get(&self.ir.vars, var)?.ty)
    }

    pub(in crate::sim) fn register(&self, var: VarId, index: u32) -> Result<Slots, Refused> {
        let registers = self.vars.get(var.index()).ok_or(Malformed)?;
        registers.get(index as usize).copied().ok_or(Malformed)
    }

    fn control(
        &mut self,
        id: OpId,
        control: &Control,
        tasks: &mut Vec<Task>,
    ) -> Result<(), Refused> {
        let data = get(&self.ir.ops, id)?;
        match control {
            Control::If { cond, then_region, else_region } => {
                let cond = self.scalar_of(*cond, Scalar::Bool)?;
                self.allocate_values(&data.results)?;
                let at = self.emit(id, Inst::If { cond, else_: None, end: 0 });
                self.depth += 1;
                tasks.push(Task::End { op: id, at, owned: Vec::new() });
                if let Some(else_region) = else_region {
                    self.open_region(*else_region, tasks)?;
                    tasks.push(Task::Else { at });
                }
                self.open_region(*then_region, tasks)?;
            }
            Control::For { lo, hi, step, init, body, unroll: _, prefetch: _ } => {
                let (scalar, lo) = self.scalar(*lo)?;
                let (hi, step) = (self.scalar_of(*hi, scalar)?, self.scalar_of(*step, scalar)?);
                let (index, carried) =
                    get(&self.ir.regions, *body)?.args.split_first().ok_or(Malformed)?;
                let index = self.allocate_values(&[*index])?[0];
                let args = self.allocate_values(carried)?;
                if args.len() != data.results.len() {
                    return Err(Malformed);
                }
                for (result, slots) in data.results.iter().zip(&args) {
                    self.set(*result, *slots)?;
                }
                let remaining = self.regs.allocate(Scalar::U64.into());
                let init = self.values(init)?;
                let init = self.regs.moves(&args, &init)?;
                let slots = ForRange {
                    lo,
                    hi,
                    step,
                    index: index.scalar(scalar)?,
                    remaining: remaining.scalar(Scalar::U64)?,
                };
                let (enter, advance) =
                    with_int!(scalar, T => slots.functions::<T>(scalar)).ok_or(Malformed)?;
                let inst = Inst::For(Box::new(ForLoop { enter, advance, init, end: 0 }));
                let at = self.emit(id, inst);
                self.open_loop(id, args.clone(), args);
                tasks.push(Task::End { op: id, at, owned: vec![index, remaining] });
                self.open_region(*body, tasks)?;
            }
            Control::Loop { init, body } => {
                let args = self.allocate_values(&get(&self.ir.regions, *body)?.args)?;
                let results = self.allocate_values(&data.results)?;
                let init = self.values(init)?;
                let init = self.regs.moves(&args, &init)?;
                let at = self.emit(id, Inst::Loop { init, end: 0 });
                self.open_loop(id, args.clone(), results);
                tasks.push(Task::End { op: id, at, owned: args });
                self.open_region(*body, tasks)?;
            }
            Control::Yield { values } => {
                let parent = get(&self.ir.regions, data.region)?.parent.ok_or(Malformed)?;
                let parent = get(&self.ir.ops, parent)?;
                if !matches!(parent.op, Op::Control(Control::If { .. })) {
                    return Err(Malformed);
                }
                let (to, from) = (self.values(&parent.results)?, self.values(values)?);
                let moves = self.regs.moves(&to, &from)?;
                self.emit(id, Inst::Yield(moves));
                self.release_dead(id);
            }
            Control::Continue { target, values } => {
                let target = self.targets.get(target).ok_or(Malformed)?;
                let (frame, to) = (target.frame, target.args.clone());
                let from = self.values(values)?;
                let moves = self.regs.moves(&to, &from)?;
                self.emit(id, Inst::Continue { frame, moves });
                self.release_dead(id);
            }
            Control::Break { target, values } => {
                let target = self.targets.get(target).ok_or(Malformed)?;
                let (frame, to) = (target.frame, target.results.clone());
                let from = self.values(values)?;
                let moves = self.regs.moves(&to, &from)?;
                self.emit(id, Inst::Break { frame, moves });
                self.release_dead(id);
            }
            Control::Return => {
                self.emit(id, Inst::Return);
            }
        }
        Ok(())
    }

    fn open_loop(&mut self, op: OpId, args: Vec<Slots>, results: Vec<Slots>) {
        self.targets.insert(op, Target { frame: self.depth, args, results });
        self.depth += 1;
    }
}
