//! From the region tree to the flat steps of a [`Code`].
//!
//! Two walks over the regions, both with a stack of their own, so that no depth of nesting can exhaust the
//! host's: the first finds the operation after which each value is dead, the second places values in slots
//! and emits steps. A value lives until the operation *of its own region* that holds its last use: inside a
//! loop it so survives all iterations, and lanes that wait for others keep what they need.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use super::arith::joined;
use super::dispatch::{with_int, with_type};
use super::lanes::{FULL, LANES, Lane, Move, Word, lanes_of};
use super::memory::{Address, Alloc, Index, PointerSlots, SharedRange, offset};
use super::program::{Advance, Code, Enter, ForLoop, Inst, Step};
use super::scalar::Int;
use super::trap::{Trap, TrapCause};
use crate::ir::{
    Arena, Arith, Const, Control, Entity, KernelIr, Mem, Op, OpId, RegionId, Scalar, SharedData,
    Space, SpecialReg, Sync, Type, Value, ValueDef, VarId,
};

/// Why a kernel is not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The IR breaks a rule of the verifier.
    Malformed,
    /// A thread needs more register slots than [`MAX_SLOTS`] at once.
    TooManyRegisters,
}

use Refused::Malformed;

/// Register slots of a thread: 64 MiB for a whole block. A device has 255 registers, and spills the rest.
pub(super) const MAX_SLOTS: u32 = 8192;

/// Constants that keep a slot while a kernel runs; further ones are made where they are used.
const MAX_CONSTANTS: usize = 4096;

/// Where a value lives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slots {
    /// In the file `d` where the type has 64 bits, else in `w`.
    Scalar(Scalar, u32),
    Pointer(PointerSlots),
}

impl Slots {
    /// The slot of a value of type `expected`.
    pub(super) fn scalar(self, expected: Scalar) -> Result<u32, Refused> {
        match self {
            Slots::Scalar(scalar, slot) if scalar == expected => Ok(slot),
            _ => Err(Malformed),
        }
    }
}

fn get<K: Entity, T>(arena: &Arena<K, T>, key: K) -> Result<&T, Refused> {
    arena.get(key).ok_or(Malformed)
}

/// Free and used slots of one register file.
#[derive(Default)]
struct File {
    free: Vec<u32>,
    len: u32,
}

impl File {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.grow())
    }

    fn grow(&mut self) -> u32 {
        self.len += 1;
        self.len - 1
    }
}

/// An open loop, as `break` and `continue` see it.
struct Target {
    frame: u32,
    args: Vec<Slots>,
    results: Vec<Slots>,
}

/// What is left to do of an open construct.
enum Task {
    /// The operations of a region from `next` on.
    Region { region: RegionId, next: usize },
    /// The `else` of the `if` at step `at` begins.
    Else { at: usize },
    /// The construct at step `at` ends.
    End { op: OpId, at: usize, owned: Vec<Slots> },
}

pub(super) struct Compiler<'k> {
    ir: &'k KernelIr,
    code: Code,
    w: File,
    d: File,
    slots: Vec<Option<Slots>>,
    /// For each operation, the results that are dead after it.
    dead: Vec<SmallVec<[Value; 2]>>,
    vars: Vec<Vec<Slots>>,
    vars_of: HashMap<RegionId, Vec<VarId>>,
    constants: HashMap<(bool, u64), u32>,
    special: HashMap<SpecialReg, u32>,
    targets: HashMap<OpId, Target>,
    /// Operations without a step since the last step.
    weight: u32,
    /// Open frames.
    depth: u32,
}

/// Compiles a verified kernel.
///
/// # Errors
/// If the kernel is not one: every index is checked on the way.
pub(super) fn compile(ir: &KernelIr) -> Result<Code, Refused> {
    let mut vars_of: HashMap<RegionId, Vec<VarId>> = HashMap::new();
    for (var, data) in ir.vars.iter() {
        vars_of.entry(data.region).or_default().push(var);
    }
    let (shared, shared_bytes) = shared_ranges(ir)?;
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
            shared,
            shared_bytes,
        },
        w: File::default(),
        d: File::default(),
        slots: vec![None; ir.values.len()],
        dead: last_uses(ir)?,
        vars: vec![Vec::new(); ir.vars.len()],
        vars_of,
        constants: HashMap::new(),
        special: HashMap::new(),
        targets: HashMap::new(),
        weight: 0,
        depth: 0,
    };
    compiler.params()?;
    compiler.body()?;
    compiler.check_slots(0)?;
    let mut code = compiler.code;
    (code.w, code.d) = (compiler.w.len as usize, compiler.d.len as usize);
    Ok(code)
}

/// Where the shared allocations lie, and the bytes that they take.
fn shared_ranges(ir: &KernelIr) -> Result<(Vec<SharedRange>, usize), Refused> {
    if !ir.shared.iter().all(|(_, data)| data.align_bytes.is_power_of_two()) {
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

/// For each operation, the results of operations that nothing after it reads.
fn last_uses(ir: &KernelIr) -> Result<Vec<SmallVec<[Value; 2]>>, Refused> {
    // The number of open regions where the value was made, and the last operation there that reads it.
    let mut depth_of = vec![usize::MAX; ir.values.len()];
    let mut last: Vec<Option<OpId>> = vec![None; ir.values.len()];
    let mut visited = vec![false; ir.ops.len()];
    // Open regions, each with the operation that is being looked at.
    let mut open: Vec<(RegionId, usize)> = vec![(ir.body, 0)];
    let mut current: Vec<Option<OpId>> = vec![None];
    while let Some((region, next)) = open.last_mut() {
        let Some(&op) = get(&ir.regions, *region)?.ops.get(*next) else {
            open.pop();
            current.pop();
            continue;
        };
        *next += 1;
        let data = get(&ir.ops, op)?;
        if std::mem::replace(&mut visited[op.index()], true) {
            return Err(Malformed);
        }
        let depth = open.len() - 1;
        current[depth] = Some(op);
        let mut malformed = false;
        data.op.for_each_operand(|value| match depth_of.get(value.index()) {
            // Parameters, arguments and values that are not visible: the second walk sees to them.
            Some(&usize::MAX) => {}
            Some(&made) => last[value.index()] = current.get(made).copied().flatten(),
            None => malformed = true,
        });
        for result in &data.results {
            *depth_of.get_mut(result.index()).ok_or(Malformed)? = depth;
            last[result.index()] = Some(op);
        }
        if malformed {
            return Err(Malformed);
        }
        let regions = data.op.regions();
        for region in regions.into_iter().rev() {
            open.push((region, 0));
            current.push(None);
        }
    }
    let mut dead = vec![SmallVec::new(); ir.ops.len()];
    for (value, op) in last.into_iter().enumerate() {
        if let Some(op) = op {
            dead[op.index()].push(Value::from_index(value));
        }
    }
    Ok(dead)
}

impl Compiler<'_> {
    // Slots.

    fn allocate(&mut self, ty: Type) -> Slots {
        match ty {
            Type::Scalar(s) if s.bits() == 64 => Slots::Scalar(s, self.d.take()),
            Type::Scalar(s) => Slots::Scalar(s, self.w.take()),
            Type::Pointer { .. } => Slots::Pointer(PointerSlots {
                alloc: Alloc::Slot(self.w.take()),
                offset: Some(self.d.take()),
            }),
        }
    }

    fn release(&mut self, slots: Slots) {
        match slots {
            Slots::Scalar(s, slot) if s.bits() == 64 => self.d.free.push(slot),
            Slots::Scalar(_, slot) => self.w.free.push(slot),
            Slots::Pointer(PointerSlots { alloc, offset }) => {
                if let Alloc::Slot(slot) = alloc {
                    self.w.free.push(slot);
                }
                self.d.free.extend(offset);
            }
        }
    }

    /// Checks that `more` slots are still to be had.
    fn check_slots(&self, more: u32) -> Result<(), Refused> {
        let used = self.w.len.saturating_add(self.d.len);
        if used.saturating_add(more) > MAX_SLOTS { Err(Refused::TooManyRegisters) } else { Ok(()) }
    }

    fn constant_w(&mut self, word: u32) -> u32 {
        let (file, fill) = (&mut self.w, &mut self.code.fill_w);
        *self.constants.entry((false, word.into())).or_insert_with(|| {
            let slot = file.grow();
            fill.push((slot, word));
            slot
        })
    }

    fn constant_d(&mut self, word: u64) -> u32 {
        let (file, fill) = (&mut self.d, &mut self.code.fill_d);
        *self.constants.entry((true, word)).or_insert_with(|| {
            let slot = file.grow();
            fill.push((slot, word));
            slot
        })
    }

    /// The word of a constant, and its key in the table of those that keep a slot.
    fn constant_word(constant: Const) -> (bool, u64) {
        match constant.scalar() {
            Scalar::Bool => (false, (constant.bits() != 0).word().into()),
            scalar => (scalar.bits() == 64, constant.bits()),
        }
    }

    fn constant(&mut self, op: OpId, constant: Const) -> Slots {
        let scalar = constant.scalar();
        let key @ (wide, word) = Self::constant_word(constant);
        if self.constants.len() < MAX_CONSTANTS || self.constants.contains_key(&key) {
            self.weight += 1;
            let slot = if wide { self.constant_d(word) } else { self.constant_w(word as u32) };
            return Slots::Scalar(scalar, slot);
        }
        let slots = self.allocate(scalar.into());
        let Slots::Scalar(_, slot) = slots else { return slots };
        let slot = slot as usize;
        self.emit(
            op,
            Inst::Pure(if wide {
                Box::new(move |regs| regs.d[slot] = [word; LANES])
            } else {
                Box::new(move |regs| regs.w[slot] = [word as u32; LANES])
            }),
        );
        slots
    }

    /// The slot of the pointer's offset.
    pub(super) fn offset_slot(&mut self, pointer: PointerSlots) -> u32 {
        pointer.offset.unwrap_or_else(|| self.constant_d(0))
    }

    /// The slot of the pointer's allocation.
    pub(super) fn alloc_slot(&mut self, pointer: PointerSlots) -> u32 {
        match pointer.alloc {
            Alloc::Static(alloc) => self.constant_w(alloc),
            Alloc::Slot(slot) => slot,
        }
    }

    pub(super) fn slots(&self, value: Value) -> Result<Slots, Refused> {
        self.slots.get(value.index()).copied().flatten().ok_or(Malformed)
    }

    /// The type and the slot of a scalar.
    pub(super) fn scalar(&self, value: Value) -> Result<(Scalar, u32), Refused> {
        match self.slots(value)? {
            Slots::Scalar(scalar, slot) => Ok((scalar, slot)),
            Slots::Pointer(_) => Err(Malformed),
        }
    }

    /// The slot of a scalar of type `expected`.
    pub(super) fn scalar_of(&self, value: Value, expected: Scalar) -> Result<u32, Refused> {
        self.slots(value)?.scalar(expected)
    }

    fn pointer(&self, value: Value) -> Result<(PointerSlots, Space, Scalar), Refused> {
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

    fn set(&mut self, value: Value, slots: Slots) -> Result<(), Refused> {
        *self.slots.get_mut(value.index()).ok_or(Malformed)? = Some(slots);
        Ok(())
    }

    /// Copies of values to slots, as if all at once.
    fn moves(&mut self, to: &[Slots], from: &[Slots]) -> Result<Box<[Move]>, Refused> {
        let mut moves = Vec::new();
        if to.len() != from.len() {
            return Err(Malformed);
        }
        for (to, from) in to.iter().zip(from) {
            match (*to, *from) {
                (Slots::Scalar(a, dst), Slots::Scalar(b, src)) if a == b => {
                    moves.push(if a.bits() == 64 {
                        Move::D { dst, src }
                    } else {
                        Move::W { dst, src }
                    });
                }
                (Slots::Pointer(to), Slots::Pointer(from)) => {
                    let (Alloc::Slot(alloc), Some(dst)) = (to.alloc, to.offset) else {
                        return Err(Malformed);
                    };
                    moves.push(Move::W { dst: alloc, src: self.alloc_slot(from) });
                    moves.push(Move::D { dst, src: self.offset_slot(from) });
                }
                _ => return Err(Malformed),
            }
        }
        Ok(self.in_order(moves))
    }

    /// The same copies one after the other: a slot that is overwritten before it is read goes through one
    /// more slot.
    fn in_order(&mut self, mut moves: Vec<Move>) -> Box<[Move]> {
        moves.retain(|step| match step {
            Move::W { dst, src } | Move::D { dst, src } => dst != src,
        });
        let (mut before, mut spare) = (Vec::new(), Vec::new());
        let mut written = HashSet::new();
        for step in &mut moves {
            let (is_w, dst, src) = match step {
                Move::W { dst, src } => (true, *dst, src),
                Move::D { dst, src } => (false, *dst, src),
            };
            if written.contains(&(is_w, *src)) {
                let slot = if is_w { self.w.take() } else { self.d.take() };
                before.push(if is_w {
                    Move::W { dst: slot, src: *src }
                } else {
                    Move::D { dst: slot, src: *src }
                });
                spare.push((is_w, slot));
                *src = slot;
            }
            written.insert((is_w, dst));
        }
        for (is_w, slot) in spare {
            if is_w { &mut self.w } else { &mut self.d }.free.push(slot);
        }
        before.extend(moves);
        before.into()
    }

    fn values(&self, values: &[Value]) -> Result<Vec<Slots>, Refused> {
        values.iter().map(|value| self.slots(*value)).collect()
    }

    fn allocate_values(&mut self, values: &[Value]) -> Result<Vec<Slots>, Refused> {
        let mut all = Vec::with_capacity(values.len());
        for value in values {
            let slots = self.allocate(get(&self.ir.values, *value)?.ty);
            self.set(*value, slots)?;
            all.push(slots);
        }
        Ok(all)
    }

    fn emit(&mut self, op: OpId, inst: Inst) -> usize {
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
                    let slot = if s.bits() == 64 { self.d.grow() } else { self.w.grow() };
                    (Slots::Scalar(s, slot), Some((slot, s.bits() == 64)))
                }
                Type::Pointer { .. } => {
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
                    owned.into_iter().for_each(|slots| self.release(slots));
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
            self.check_slots(data.len)?;
            self.vars[var.index()] = (0..data.len).map(|_| self.allocate(data.ty)).collect();
        }
        Ok(())
    }

    fn close_region(&mut self, region: RegionId) -> Result<(), Refused> {
        for var in self.vars_of.get(&region).cloned().unwrap_or_default() {
            for slots in std::mem::take(&mut self.vars[var.index()]) {
                self.release(slots);
            }
        }
        // Control must not run into what follows the region.
        let last = get(&self.ir.regions, region)?.ops.last().ok_or(Malformed)?;
        let ends = match &self.ir.ops[*last].op {
            Op::Control(Control::If { else_region, .. }) => else_region.is_some(),
            Op::Control(control) => control.is_terminator(),
            Op::Const(_) | Op::Arith(_) | Op::Mem(_) | Op::Sync(_) => false,
        };
        if ends { Ok(()) } else { Err(Malformed) }
    }

    fn release_dead(&mut self, op: OpId) {
        for value in std::mem::take(&mut self.dead[op.index()]) {
            // Constants and the like stay in their slots.
            let ValueDef::Result(made, _) = self.ir.values[value].def else { continue };
            let owned = match self.ir.ops.get(made).map(|data| &data.op) {
                None | Some(Op::Arith(Arith::Sreg { .. }) | Op::Mem(Mem::SharedBase { .. })) => {
                    false
                }
                Some(Op::Const(constant)) => {
                    !self.constants.contains_key(&Self::constant_word(*constant))
                }
                Some(Op::Arith(_) | Op::Mem(_) | Op::Sync(_) | Op::Control(_)) => true,
            };
            if owned && let Some(slots) = self.slots[value.index()].take() {
                self.release(slots);
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
            Op::Arith(Arith::Sreg { reg }) => {
                let (file, fill) = (&mut self.w, &mut self.code.special);
                let slot = *self.special.entry(*reg).or_insert_with(|| {
                    let slot = file.grow();
                    fill.push((*reg, slot));
                    slot
                });
                self.set(result.ok_or(Malformed)?, Slots::Scalar(Scalar::I32, slot))?;
                self.weight += 1;
            }
            Op::Arith(op) => {
                let result = result.ok_or(Malformed)?;
                let mut to = self.allocate(get(&self.ir.values, result)?.ty);
                if let Arith::Selp { then_value, else_value, .. } = op
                    && let (Slots::Pointer(a), Slots::Pointer(b)) =
                        (self.slots(*then_value)?, self.slots(*else_value)?)
                    && let Some(alloc) = joined(a, b)
                {
                    to = self.with_static(to, alloc);
                }
                let inst = self.arith(op, to)?;
                self.set(result, to)?;
                self.emit(id, inst);
            }
            Op::Mem(op) => self.mem(id, op, result)?,
            Op::Sync(Sync::Barrier {}) => {
                self.emit(id, Inst::Barrier);
            }
            Op::Control(control) => return self.control(id, control, tasks),
        }
        self.release_dead(id);
        Ok(())
    }

    /// The pointer with an allocation that is known.
    fn with_static(&mut self, slots: Slots, alloc: u32) -> Slots {
        let Slots::Pointer(PointerSlots { alloc: old, offset }) = slots else { return slots };
        if let Alloc::Slot(slot) = old {
            self.w.free.push(slot);
        }
        Slots::Pointer(PointerSlots { alloc: Alloc::Static(alloc), offset })
    }

    fn mem(&mut self, id: OpId, op: &Mem, result: Option<Value>) -> Result<(), Refused> {
        match *op {
            Mem::Ld { base, index } => {
                let (pointer, space, elem) = self.pointer(base)?;
                let address = Address { space, elem, pointer, index: self.index(index)? };
                let to = self.allocate(elem.into());
                let dst = to.scalar(elem)?;
                self.set(result.ok_or(Malformed)?, to)?;
                self.emit(id, Inst::Memory(address.load_elem(dst)));
            }
            Mem::St { base, index, value } => {
                let (pointer, space, elem) = self.pointer(base)?;
                let address = Address { space, elem, pointer, index: self.index(index)? };
                let src = self.scalar_of(value, elem)?;
                self.emit(id, Inst::Memory(address.store_elem(src)));
            }
            Mem::Offset { base, index } => {
                let (pointer, _, elem) = self.pointer(base)?;
                let index = self.index(index)?;
                let result = result.ok_or(Malformed)?;
                let mut to = self.allocate(get(&self.ir.values, result)?.ty);
                if let Alloc::Static(alloc) = pointer.alloc {
                    to = self.with_static(to, alloc);
                }
                let Slots::Pointer(PointerSlots { alloc, offset: Some(dst) }) = to else {
                    return Err(Malformed);
                };
                let alloc = match (alloc, pointer.alloc) {
                    (Alloc::Slot(dst), Alloc::Slot(src)) => Some((dst as usize, src as usize)),
                    _ => None,
                };
                let size_bytes = elem.size_bytes();
                self.set(result, to)?;
                self.emit(
                    id,
                    Inst::Pure(Box::new(move |regs| {
                        regs.d[dst as usize] = offset(regs, pointer, index, size_bytes);
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
            Mem::GetVar { var, index } => {
                let from = self.register(var, index)?;
                let to = self.allocate(get(&self.ir.vars, var)?.ty);
                self.set(result.ok_or(Malformed)?, to)?;
                let moves = self.moves(&[to], &[from])?;
                self.emit(id, Inst::Pure(Box::new(move |regs| regs.copy(&moves, FULL))));
            }
            Mem::SetVar { value, var, index } => {
                let (to, from) = (self.register(var, index)?, self.slots(value)?);
                let moves = self.moves(&[to], &[from])?;
                self.emit(id, Inst::Copy(moves));
            }
        }
        Ok(())
    }

    fn register(&self, var: VarId, index: u32) -> Result<Slots, Refused> {
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
            Control::For { lo, hi, step, init, body, unroll: _ } => {
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
                let remaining = Slots::Scalar(Scalar::U64, self.d.take());
                let init = self.values(init)?;
                let init = self.moves(&args, &init)?;
                let slots = Range {
                    lo,
                    hi,
                    step,
                    index: index.scalar(scalar)?,
                    remaining: remaining.scalar(Scalar::U64)?,
                };
                let (enter, advance) = with_int!(scalar, T => slots.functions::<T>(scalar));
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
                let init = self.moves(&args, &init)?;
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
                let moves = self.moves(&to, &from)?;
                self.emit(id, Inst::Yield(moves));
                self.release_dead(id);
            }
            Control::Continue { target, values } => {
                let target = self.targets.get(target).ok_or(Malformed)?;
                let (frame, to) = (target.frame, target.args.clone());
                let from = self.values(values)?;
                let moves = self.moves(&to, &from)?;
                self.emit(id, Inst::Continue { frame, moves });
                self.release_dead(id);
            }
            Control::Break { target, values } => {
                let target = self.targets.get(target).ok_or(Malformed)?;
                let (frame, to) = (target.frame, target.results.clone());
                let from = self.values(values)?;
                let moves = self.moves(&to, &from)?;
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

/// The slots of a `for`.
#[derive(Clone, Copy)]
struct Range {
    lo: u32,
    hi: u32,
    step: u32,
    index: u32,
    remaining: u32,
}

impl Range {
    /// How a loop over integers of type `T` starts and goes on.
    fn functions<T: Int>(self, scalar: Scalar) -> (Enter, Advance) {
        let [lo, hi, step, index, remaining] =
            [self.lo, self.hi, self.step, self.index, self.remaining].map(|slot| slot as usize);
        let enter: Enter = Box::new(move |regs, mask| {
            let (lo, hi, step) =
                (T::Word::file(regs)[lo], T::Word::file(regs)[hi], T::Word::file(regs)[step]);
            // Most loops are the same in all lanes: the division is made once then.
            let mut known: Option<(T, T, T, u64)> = None;
            let (mut trips, mut entered) = ([0; LANES], 0);
            for lane in lanes_of(mask) {
                let (lo, hi, step) = (T::of(lo[lane]), T::of(hi[lane]), T::of(step[lane]));
                if step <= T::ZERO {
                    let step = Const::new(scalar, step.bits());
                    return Err(Trap::new(lane, TrapCause::StepNotPositive { step }));
                }
                trips[lane] = match known {
                    Some((l, h, s, trips)) if l == lo && h == hi && s == step => trips,
                    _ => lo.trips(hi, step),
                };
                known = Some((lo, hi, step, trips[lane]));
                entered |= u32::from(trips[lane] != 0) << lane;
            }
            T::Word::file_mut(regs)[index] = lo;
            regs.d[remaining] = trips;
            Ok(entered)
        });
        let advance: Advance = Box::new(move |regs| {
            let step = T::Word::file(regs)[step];
            for (index, step) in T::Word::file_mut(regs)[index].iter_mut().zip(step) {
                *index = T::of(*index).add(T::of(step)).word();
            }
            let mut mask = FULL;
            for (lane, remaining) in regs.d[remaining].iter_mut().enumerate() {
                *remaining = remaining.wrapping_sub(1);
                if *remaining == 0 {
                    mask &= !(1 << lane);
                }
            }
            mask
        });
        (enter, advance)
    }
}
