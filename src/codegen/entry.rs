//! Writes one entry, that is, the PTX function of one kernel: its head, its registers, and its
//! operations in order. This is where most of the code generator's state lives.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use super::PtxOptions;
use super::assert_buffer::AssertBuffer;
use super::control::OpenLoop;
use super::mem::Addresses;
use super::negation;
use super::printf::Printing;
use super::ptx::{LARGE_PARAMS, PtxVersion};
use super::regs::{Class, Operand, Reg, memory_type};
use super::text::Text;
use super::uses::Uses;
use super::version;
use crate::ir::op::{Diagnostic, Op};
use crate::ir::types::{Scalar, Space, Type, VectorType};
use crate::ir::{
    ClusterShape, Entity, GlobalData, GlobalId, KernelIr, LocalData, LocationId, OpId, RegionId,
    Value, ValueDef,
};
use crate::sorting::sort_by_key;

/// The source files that `.loc` directives refer to by index.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: Vec<&'static str>,
    numbers: HashMap<&'static str, u64>,
}

impl Files {
    /// Returns a file's index, from 1.
    fn number(&mut self, name: &'static str) -> u64 {
        let next = self.names.len() as u64 + 1;
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }

    /// Writes the `.file` directives.
    pub(super) fn write(&self, text: &mut Text) {
        for (name, number) in self.names.iter().zip(1..) {
            text.push("\n.file ");
            text.number(number);
            text.push(" \"");
            text.ascii(&name.replace('\\', "/"));
            text.push("\"");
        }
        if !self.names.is_empty() {
            text.push("\n");
        }
    }
}

/// Returns whether the kernel has a `printf`.
pub(super) fn prints(ir: &KernelIr) -> bool {
    let prints = |op: OpId| matches!(ir.ops[op].op, Op::Diagnostic(Diagnostic::Printf { .. }));
    ir.reached_ops().into_iter().any(prints)
}

/// Returns the register of a value, or the first one of a vector with several.
fn first_reg(ty: Type, value: Value) -> Reg {
    let (class, number) = (Class::of(ty), value.index() as u32);
    match ty {
        Type::Vector(vector) if vector.registers() > 1 => Reg::Part(class, number, 0),
        Type::Scalar(_) | Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => {
            Reg::Value(class, number)
        }
    }
}

/// Returns the lowest version of the PTX ISA that the kernel's operations need, apart from its
/// target.
pub(super) fn version_of(ir: &KernelIr) -> PtxVersion {
    let params = if ir.param_bytes() > 4352 { LARGE_PARAMS } else { version::FIRST };
    // Operations in regions count even if they are not written, so that the version does not depend
    // on the code generator.
    ir.ops.iter().map(|(_, data)| version::of(&data.op, ir)).fold(params, PtxVersion::max)
}

/// Returns the alignment of the shared array, which is that of the most aligned allocation; `None`
/// if there is none.
fn shared_align(ir: &KernelIr) -> Option<u32> {
    ir.shared.iter().map(|(_, alloc)| alloc.align_bytes).max()
}

/// Returns the alignment of the dynamic shared array that all entries of a module share, if one of
/// them needs it.
pub(super) fn dynamic_shared_align(kernels: &[&KernelIr]) -> Option<u32> {
    let dynamic = kernels.iter().filter(|ir| ir.dynamic_shared_bytes() > 0);
    dynamic.filter_map(|ir| shared_align(ir)).max()
}

/// Writes the entry of a verified kernel. `arrays` holds the module's indices of its constant
/// arrays.
pub(super) fn write(
    ir: &KernelIr,
    options: PtxOptions,
    arrays: Vec<u64>,
    files: &mut Files,
    text: &mut Text,
) {
    let operands = ir
        .values
        .iter()
        .map(|(value, data)| {
            if let ValueDef::Result(op, _) = data.def
                && let Op::Const(constant) = ir.ops[op].op
            {
                return Operand::Const(constant);
            }
            Operand::Reg(first_reg(data.ty, value))
        })
        .collect();
    let mut entry = Entry {
        ir,
        options,
        files,
        text,
        uses: Uses::of(ir),
        compares: negation::compares(ir),
        operands,
        value_ends: [0; Class::ALL.len()],
        vectors: Vec::new(),
        temp_ends: [0; Class::ALL.len()],
        location: None,
        last_location: None,
        addresses: Addresses::default(),
        loops: Vec::new(),
        labels: 0,
        reachable: true,
        shared: ir.shared_layout(),
        printing: Printing::default(),
        arrays,
        globals: String::new(),
    };
    entry.declare_globals();
    entry.text.name_vars(ir);
    let start = entry.text.position();
    entry.head();
    entry.text.push("{\n");
    entry.text.indent();
    let declarations = entry.text.position();
    entry.params();
    entry.region(ir.body);
    entry.text.dedent();
    entry.text.push("}\n");
    let (declared, mut globals) = (entry.declarations(), std::mem::take(&mut entry.globals));
    text.insert(declarations, &declared);
    if !globals.is_empty() {
        globals.push('\n');
        text.insert(start, &globals);
    }
}

/// An entry under construction.
pub(super) struct Entry<'a> {
    pub(super) ir: &'a KernelIr,
    options: PtxOptions,
    files: &'a mut Files,
    pub(super) text: &'a mut Text,
    pub(super) uses: Uses<'a>,
    /// True if there is a `min` or `max` on `i32`.
    pub(super) compares: bool,
    /// Each value's operand: its register, the register of a value with the same bits, or a
    /// constant.
    operands: Vec<Operand>,
    /// For each class, one more than the highest register number of a value.
    value_ends: [u32; Class::ALL.len()],
    /// Vectors with several registers, once for each time they are written: the value's number, the
    /// registers' class, and how many there are.
    vectors: Vec<(u32, Class, u32)>,
    /// For each class, how many registers the code generator added.
    temp_ends: [u32; Class::ALL.len()],
    /// The location that the next line comes from.
    location: Option<LocationId>,
    /// The location that the last comment named.
    last_location: Option<LocationId>,
    pub(super) addresses: Addresses,
    /// The loops around the current operation, outermost first.
    pub(super) loops: Vec<OpenLoop>,
    /// How many labelled constructs there are so far.
    pub(super) labels: u32,
    /// True if control can reach the current end of the text.
    pub(super) reachable: bool,
    /// Each shared allocation's offset in the shared array, and the array's size in bytes.
    pub(super) shared: (Vec<u64>, u64),
    pub(super) printing: Printing,
    /// The module's index of each constant array.
    pub(super) arrays: Vec<u64>,
    /// Declarations that go before the entry.
    pub(super) globals: String,
}

impl<'a> Entry<'a> {
    /// Declares the global arrays, which go before the entry.
    fn declare_globals(&mut self) {
        for (global, data) in self.ir.globals.iter() {
            let (align, width, len) =
                (GlobalData::ALIGN_BYTES, 8 * data.elem.size_bytes(), data.len);
            let name = self.global_name(global);
            self.globals += &format!("\n.global .align {align} .b{width} {name}[{len}]");
            // Elements without a value are 0.
            for (i, element) in data.elements().enumerate() {
                let separator = if i == 0 { " = {" } else { ", " };
                self.globals += &format!("{separator}{}", element.bits());
            }
            self.globals += if data.bits.is_empty() { ";" } else { "};" };
        }
    }

    /// Returns the name of a global array in the module.
    pub(super) fn global_name(&self, global: GlobalId) -> String {
        format!("${}_{global}", self.ir.name)
    }

    /// Writes the name, the parameters and the launch bounds.
    fn head(&mut self) {
        let ir = self.ir;
        self.text.push("\n.visible .entry ");
        self.text.push(&ir.name);
        self.text.push("(");
        for (i, param) in ir.params.iter().enumerate() {
            self.text.push(if i == 0 { "\n  .param ." } else { ",\n  .param ." });
            let ty = ir.type_of(param.value);
            match ty {
                Type::TensorMap { .. } => {
                    self.text.push("align ");
                    self.text.number(Type::TENSOR_MAP_ALIGN_BYTES);
                    self.text.push(" .b8");
                }
                Type::Scalar(scalar) => self.text.push(memory_type(scalar)),
                Type::Pointer { space: Space::Global, elem, .. } => {
                    self.text.push("u64 .ptr .global .align ");
                    self.text.number(elem.size_bytes().into());
                }
                // The verifier has checked that there are none.
                Type::Pointer {
                    space:
                        Space::Shared
                        | Space::SharedCluster
                        | Space::Local
                        | Space::Const
                        | Space::Generic,
                    ..
                }
                | Type::Vector(_) => {}
            }
            self.text.push(" ");
            self.text.push(&param.name);
            if let Type::TensorMap { .. } = ty {
                self.text.push("[");
                self.text.number(Type::TENSOR_MAP_BYTES);
                self.text.push("]");
            }
        }
        if ir.has_asserts() {
            self.text.push(if ir.params.is_empty() { "\n" } else { ",\n" });
            self.text.push("  .param .u64 .ptr .global .align 8 ");
            self.text.push(AssertBuffer::PARAM);
            self.text.push("\n)\n");
        } else {
            self.text.push(if ir.params.is_empty() { ")\n" } else { "\n)\n" });
        }
        self.launch_bounds();
    }

    fn launch_bounds(&mut self) {
        let bounds = self.ir.bounds;
        let mut directive = |text: String| {
            self.text.push(&text);
            self.text.push("\n");
        };
        if let Some([x, y, z]) = bounds.block {
            directive(format!(".reqntid {x}, {y}, {z}"));
        }
        let numbers = [
            (".maxntid", bounds.max_threads),
            (".minnctapersm", bounds.min_blocks_per_sm),
            (".maxnreg", bounds.max_registers),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                directive(format!("{name} {number}"));
            }
        }
        match bounds.cluster {
            Some(ClusterShape::Fixed([x, y, z])) => {
                directive(format!(".reqnctapercluster {x}, {y}, {z}"));
            }
            Some(ClusterShape::AtLaunch) => directive(".explicitcluster".to_owned()),
            None => {}
        }
    }

    /// Returns the declarations of registers and shared memory, once it is known which are used.
    fn declarations(&self) -> String {
        let mut text = Text::default();
        text.indent();
        let mut declare = |class: Class, name: &str, count: u32| {
            if count > 0 {
                text.begin();
                text.push(&format!(".reg .{} {name}<{count}>;\n", class.name()));
            }
        };
        for (class, count) in Class::ALL.into_iter().zip(self.value_ends) {
            declare(class, class.prefix(), count);
        }
        let mut vectors = self.vectors.clone();
        sort_by_key(&mut vectors, |(number, ..)| *number);
        vectors.dedup();
        for (number, class, count) in vectors {
            declare(class, &format!("{}{number}_", class.prefix()), count);
        }
        for (class, count) in Class::ALL.into_iter().zip(self.temp_ends) {
            declare(class, &format!("%t{}", &class.prefix()[1..]), count);
        }
        for (id, var) in self.ir.vars.iter() {
            let registers = var.len * var.ty.vector().map_or(1, VectorType::registers);
            let name = self.text.var_name(id.index());
            declare(Class::of(var.ty), &format!("%{name}_"), registers);
        }
        let (_, bytes) = self.shared;
        // A dynamic array is declared once for the module, because PTX allows it only outside
        // entries.
        let is_static = bytes > 0 && self.ir.dynamic_shared_bytes() == 0;
        if let Some(align) = shared_align(self.ir).filter(|_| is_static) {
            text.begin();
            text.push(&format!(".shared .align {align} .b8 $shared[{bytes}];\n"));
        }
        for (local, data) in self.ir.locals.iter() {
            let (align, bytes) = (LocalData::ALIGN_BYTES, data.bytes());
            text.begin();
            text.push(&format!(".local .align {align} .b8 $local{}[{bytes}];\n", local.index()));
        }
        if let Some(declaration) = self.printing.declaration() {
            text.begin();
            text.push(&declaration);
        }
        text.push("\n");
        text.finish()
    }

    /// Loads the parameters that are used.
    fn params(&mut self) {
        let ir = self.ir;
        for param in &ir.params {
            if !self.uses.is_live(param.value) {
                continue;
            }
            let to = self.def(param.value);
            let ty = ir.type_of(param.value);
            let (loaded, scalar) = match ty {
                Type::TensorMap { .. } => {
                    self.tensor_map_address(to, &param.name);
                    continue;
                }
                Type::Scalar(Scalar::Bool) => (self.temp(Class::B32), Scalar::Bool),
                Type::Scalar(scalar) => (to, scalar),
                Type::Pointer { space: Space::Global, .. } => (to, Scalar::U64),
                Type::Pointer {
                    space:
                        Space::Shared
                        | Space::SharedCluster
                        | Space::Local
                        | Space::Const
                        | Space::Generic,
                    ..
                }
                | Type::Vector(_) => continue,
            };
            self.begin();
            self.text.push("ld.param.");
            self.text.push(memory_type(scalar));
            self.text.push(" ");
            self.text.reg(loaded);
            self.text.push(", [");
            self.text.push(&param.name);
            self.text.push("];\n");
            match ty {
                Type::Scalar(Scalar::Bool) => {
                    self.ins(&["setp.ne.u32"], &[to.into(), loaded.into(), Operand::Int(0)]);
                }
                Type::Pointer { .. } => {
                    self.ins(&["cvta.to.global.u64"], &[to.into(), to.into()]);
                }
                Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => {}
            }
        }
    }

    /// Writes the generic address of a tensor map, which is used in the parameter space, where it
    /// was passed.
    fn tensor_map_address(&mut self, to: Reg, param: &str) {
        self.begin();
        self.text.push("mov.b64 ");
        self.text.reg(to);
        self.text.push(", ");
        self.text.push(param);
        self.text.push(";\n");
        self.ins(&["cvta.param.u64"], &[to.into(), to.into()]);
    }

    /// Writes the operations of a region, without its yield.
    pub(super) fn region(&mut self, region: RegionId) {
        let ir = self.ir;
        let known = self.addresses.known();
        for &op in &ir.regions[region].ops {
            if self.reachable && self.uses.is_written(op) {
                self.op(op);
            }
        }
        self.addresses.forget(known);
    }

    fn op(&mut self, id: OpId) {
        let data = &self.ir.ops[id];
        self.location = Some(data.location);
        match &data.op {
            // A constant is an operand of the instructions that use it.
            Op::Const(_) => {}
            op @ (Op::Arith(_) | Op::FloatArith(_) | Op::IntArith(_) | Op::Convert(_)) => {
                if let Some(result) = data.results.first() {
                    self.pure(op, *result);
                }
            }
            Op::Mem(op) => self.mem(op, data.results.first().copied()),
            Op::Atomic(op) => self.atomic(op, data.results.first().copied()),
            Op::Cache(op) => self.cache(op),
            Op::Sync(op) => self.sync(op, data.results.first().copied()),
            Op::Mma(op) => self.mma(op, data.results.first().copied()),
            Op::Mbarrier(op) => self.mbarrier(op, data.results.first().copied()),
            Op::AsyncCopy(op) => self.async_copy(op, data.results.first().copied()),
            Op::Warp(op) => self.warp(op, &data.results),
            Op::Thread(op) => self.thread(op, data.results.first().copied()),
            Op::Control(control) => self.control(id, control),
            Op::Diagnostic(op) => self.diagnostic(id, op),
            Op::Inline(op) => self.inline(id, op),
        }
    }

    /// The next lines belong to operation `id` again.
    pub(super) fn resume(&mut self, id: OpId) {
        self.location = Some(self.ir.ops[id].location);
    }

    /// Returns a value's operand.
    pub(super) fn operand(&self, value: Value) -> Operand {
        self.operands[value.index()]
    }

    /// Makes `operand` stand for `value`.
    pub(super) fn bind(&mut self, value: Value, operand: Operand) {
        self.operands[value.index()] = operand;
    }

    /// Returns the register that holds `value`, to be written.
    pub(super) fn def(&mut self, value: Value) -> Reg {
        let ty = self.ir.type_of(value);
        let reg = match self.operands[value.index()] {
            Operand::Reg(reg) => reg,
            Operand::Const(_) | Operand::Int(_) => first_reg(ty, value),
        };
        match reg {
            Reg::Value(class, number) => {
                let end = &mut self.value_ends[class as usize];
                *end = (number + 1).max(*end);
            }
            Reg::Part(class, number, _) => {
                let registers = ty.vector().map_or(1, VectorType::registers);
                self.vectors.push((number, class, registers));
            }
            Reg::Temp(..) | Reg::Var(..) => {}
        }
        reg
    }

    /// Returns a value's operands for instructions that take registers one by one: one operand, or
    /// one for each register of a vector.
    pub(super) fn parts(&self, value: Value) -> SmallVec<[Operand; 5]> {
        let count = self.ir.type_of(value).vector().map_or(1, VectorType::registers);
        match self.operand(value) {
            Operand::Reg(Reg::Part(class, number, _)) if count > 1 => {
                (0..count).map(|i| Reg::Part(class, number, i).into()).collect()
            }
            // If a value stands for an element of a vector, it may be any of its parts.
            single => smallvec![single],
        }
    }

    /// Returns the registers that hold `value`, to be written.
    pub(super) fn def_parts(&mut self, value: Value) -> SmallVec<[Reg; 4]> {
        let count = self.ir.type_of(value).vector().map_or(1, VectorType::registers);
        match self.def(value) {
            Reg::Part(class, number, _) => {
                (0..count).map(|i| Reg::Part(class, number, i)).collect()
            }
            single => smallvec![single],
        }
    }

    /// Returns a new register.
    pub(super) fn temp(&mut self, class: Class) -> Reg {
        let end = &mut self.temp_ends[class as usize];
        *end += 1;
        Reg::Temp(class, *end - 1)
    }

    /// Returns a register with the operand.
    pub(super) fn in_reg(&mut self, operand: Operand, class: Class) -> Reg {
        match operand {
            Operand::Reg(reg) => reg,
            Operand::Const(_) | Operand::Int(_) => {
                let reg = self.temp(class);
                self.mov(reg, operand);
                reg
            }
        }
    }

    /// Starts an instruction's line. Writes its Rust line first if that differs from the last
    /// one's.
    pub(super) fn begin(&mut self) {
        if self.location != self.last_location
            && let Some(id) = self.location
        {
            let location = self.ir.locations[id];
            let last = self.last_location.map(|last| self.ir.locations[last]);
            let same_line =
                last.is_some_and(|last| (last.line, last.file) == (location.line, location.file));
            if self.options.locations && !same_line {
                self.text.location(location);
            }
            if self.options.line_info && location.line > 0 {
                let file = self.files.number(location.file);
                self.text.begin();
                self.text.push(&format!(".loc {file} {} {}\n", location.line, location.column));
            }
            self.last_location = self.location;
        }
        self.text.begin();
    }

    /// Writes an instruction: the parts of its name, then its operands.
    pub(super) fn ins(&mut self, name: &[&str], operands: &[Operand]) {
        self.begin();
        self.rest(name, operands);
    }

    /// Like [`ins`](Entry::ins), executed only if the predicate `guard` holds.
    pub(super) fn guarded(&mut self, guard: Reg, name: &[&str], operands: &[Operand]) {
        self.begin();
        self.guard(guard, false);
        self.rest(name, operands);
    }

    pub(super) fn guard(&mut self, reg: Reg, negated: bool) {
        self.text.push(if negated { "@!" } else { "@" });
        self.text.reg(reg);
        self.text.push(" ");
    }

    fn rest(&mut self, name: &[&str], operands: &[Operand]) {
        name.iter().for_each(|part| self.text.push(part));
        for (i, operand) in operands.iter().enumerate() {
            self.text.push(if i == 0 { " " } else { ", " });
            self.text.operand(*operand);
        }
        self.text.push(";\n");
    }

    /// Copies an operand into a register.
    pub(super) fn mov(&mut self, to: Reg, from: Operand) {
        self.ins(&["mov.", to.class().bits_name()], &[to.into(), from]);
    }
}
