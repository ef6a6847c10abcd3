//! Compiles a kernel's region tree into the flat steps of a [`Code`].
//!
//! It walks over the regions twice. The first walk finds when each value dies (`liveness.rs`), the
//! second places values in slots (`slots.rs`) and emits steps. Both walks keep an explicit stack on
//! the heap instead of recursing, so that a deeply nested kernel cannot overflow the host thread's
//! call stack.

use std::collections::HashMap;

use super::arith::joined;
use super::code::{Code, ForLoop, Inst, Step};
use super::compiler::{Compiler, Target, get};
use super::for_range::ForRange;
use super::liveness::last_uses;
use super::polls::polls;
use super::refused::Refused::{self, Malformed};
use super::slots::{ConstWord, Registers, Slots};
use crate::ir::eval::with_int;
use crate::ir::op::{Arith, Control, Mem, Mma, Op, Thread};
use crate::ir::types::{Scalar, Type};
use crate::ir::{
    ArrayData, Entity, GlobalData, KernelIr, LocalData, OpId, RegionId, SharedData, ValueDef, VarId,
};
use crate::sim::memory::address::{Alloc, PointerSlots};
use crate::sim::memory::buffer::GlobalBuffer;
use crate::sim::memory::proxy;
use crate::sim::memory::shared::SharedRange;

/// Compiles a verified kernel.
///
/// # Errors
/// If the IR is not that of a verified kernel. Every index is checked on the way.
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
            globals: global_buffers(ir)?,
            shared,
            shared_bytes,
            watches_proxies: proxy::is_used(ir),
            polls: false,
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
    code.polls = polls(ir);
    (code.fill_w, code.fill_d) = (compiler.regs.fill_w, compiler.regs.fill_d);
    Ok(code)
}

/// Returns, for each variable, whether it holds accumulators of `wgmma`.
pub(in crate::sim) fn watched_vars(ir: &KernelIr) -> Result<Vec<bool>, Refused> {
    let mut watched = vec![false; ir.vars.len()];
    for (_, data) in ir.ops.iter() {
        if let Op::Mma(
            Mma::Wgmma { d, .. }
            | Mma::WgmmaRs { d, .. }
            | Mma::WgmmaSp { d, .. }
            | Mma::WgmmaRsSp { d, .. },
        ) = data.op
        {
            *watched.get_mut(d.index()).ok_or(Malformed)? = true;
        }
    }
    Ok(watched)
}

/// Returns the memory of a constant array.
pub(in crate::sim) fn array_bytes(array: &ArrayData) -> GlobalBuffer {
    let size = array.elem.size_bytes() as usize;
    let bytes = array.elements().flat_map(|x| x.bits().to_le_bytes().into_iter().take(size));
    GlobalBuffer::from_slice::<u8>(&bytes.collect::<Vec<u8>>())
}

/// Returns the memory of the global arrays, as it is when the kernel is loaded.
fn global_buffers(ir: &KernelIr) -> Result<Vec<GlobalBuffer>, Refused> {
    let bytes = ir.globals.iter().map(|(_, global)| global.bytes()).sum::<u64>();
    // A kernel that needs more is not verified, and must not exhaust the host's memory.
    if bytes > KernelIr::GLOBAL_BYTES {
        return Err(Malformed);
    }
    let buffer = |global: &GlobalData| {
        let size = global.elem.size_bytes() as usize;
        let buffer = GlobalBuffer::zeros(global.bytes() as usize);
        for (i, element) in global.elements().take(global.len as usize).enumerate() {
            buffer.write_bytes(i * size, &element.bits().to_le_bytes()[..size]);
        }
        buffer
    };
    Ok(ir.globals.iter().map(|(_, global)| buffer(global)).collect())
}

/// Returns the byte ranges of the shared allocations, and their total size in bytes.
pub(in crate::sim) fn shared_ranges(ir: &KernelIr) -> Result<(Vec<SharedRange>, usize), Refused> {
    let aligned = |data: &SharedData| {
        data.align_bytes.is_power_of_two() && data.align_bytes >= data.elem.size_bytes()
    };
    if !ir.shared.iter().all(|(_, data)| aligned(data)) {
        return Err(Malformed);
    }
    let (starts, end) = ir.shared_layout();
    // A kernel that needs more than any device has is not verified, and must not exhaust the host's
    // memory.
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

/// Returns the byte ranges of a thread's local allocations, and their total size in bytes.
pub(in crate::sim) fn local_ranges(ir: &KernelIr) -> Result<(Vec<SharedRange>, usize), Refused> {
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
    fn params(&mut self) -> Result<(), Refused> {
        for (i, param) in self.ir.params.iter().enumerate() {
            let (slots, param_slot) = match get(&self.ir.values, param.value)?.ty {
                Type::Scalar(s) => {
                    let slot = self.regs.reserve(s);
                    (Slots::Scalar(s, slot), Some((slot, s.bits() == 64)))
                }
                // The verifier allows no vector parameters.
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

    /// Allocates the registers of the variables that `region` declares.
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
            // A `wgmma` that nobody waits for may still write them.
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
                                    | Mem::GlobalBase { .. }
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
            Op::AsyncCopy(op) => self.async_copy(id, op, &data.results)?,
            Op::Warp(op) => self.warp(id, op, &data.results)?,
            Op::Thread(op) => self.thread(id, op, &data.results)?,
            Op::Control(control) => return self.control(id, control, tasks),
        }
        self.release_dead(id);
        Ok(())
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

/// What the walk still has to do for a construct that it has entered.
pub(in crate::sim) enum Task {
    /// Compile the operations of a region from `next` on.
    Region { region: RegionId, next: usize },
    /// The `else` arm of the `if` at step `at` begins.
    Else { at: usize },
    /// The construct at step `at` ends.
    End { op: OpId, at: usize, owned: Vec<Slots> },
}
