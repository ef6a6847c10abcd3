//! Kernels as text.

use std::collections::HashMap;
use std::fmt;

use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Control, Op, ValueList};

/// The text form; see the module documentation.
impl fmt::Display for KernelIr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel @{} target {}", self.name, self.target)?;
        if let Some([x, y, z]) = self.block {
            write!(f, " block {x} x {y} x {z}")?;
        }
        f.write_str(" (")?;
        for (i, param) in self.params.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}%{}: {}", param.name, self.type_of(param.value))?;
        }
        f.write_str(") {\n")?;
        for (id, data) in self.shared.iter() {
            let (elem, len, align) = (data.elem, data.len, data.align_bytes);
            writeln!(f, "  shared @{id}: {elem} x {len} align {align}")?;
        }
        let mut printer = Printer { ir: self, f, depth: 1, labels: HashMap::new() };
        printer.region(self.body)?;
        f.write_str("}\n")
    }
}

struct Printer<'k, 'f, 'w> {
    ir: &'k KernelIr,
    f: &'f mut fmt::Formatter<'w>,
    depth: usize,
    labels: HashMap<OpId, usize>,
}

/// A value under the name that the text gives it.
struct Name<'k>(&'k KernelIr, Value);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.values.get(self.1).map(|value| value.def) {
            Some(ValueDef::Param(i)) => match self.0.params.get(i as usize) {
                Some(param) => write!(f, "%{}", param.name),
                None => write!(f, "{}", self.1),
            },
            _ => write!(f, "{}", self.1),
        }
    }
}

impl Printer<'_, '_, '_> {
    fn region(&mut self, region: RegionId) -> fmt::Result {
        for (id, var) in self.ir.vars.iter().filter(|(_, var)| var.region == region) {
            let indent = self.depth * 2;
            writeln!(self.f, "{:indent$}var @{id}: {} x {}", "", var.ty, var.len)?;
        }
        self.ir.regions[region].ops.iter().try_for_each(|op| self.op(*op))
    }

    fn list(&mut self, before: &str, values: &[Value]) -> fmt::Result {
        for (i, value) in values.iter().enumerate() {
            let separator = if i == 0 { before } else { ", " };
            write!(self.f, "{separator}{}", Name(self.ir, *value))?;
        }
        Ok(())
    }

    fn op(&mut self, id: OpId) -> fmt::Result {
        let ir = self.ir;
        let data = &ir.ops[id];
        let indent = self.depth * 2;
        write!(self.f, "{:indent$}", "")?;
        self.list("", &data.results)?;
        if !data.results.is_empty() {
            self.f.write_str(" = ")?;
        }
        self.f.write_str(data.op.name())?;
        match &data.op {
            Op::Const(constant) => write!(self.f, " {constant}")?,
            Op::Control(control) => return self.control(id, control),
            Op::Arith(_) | Op::Mem(_) | Op::Sync(_) => {
                let attributes = data.op.attributes();
                if !attributes.is_empty() {
                    write!(self.f, "<{}>", attributes.join(", "))?;
                }
                let mut operands = ValueList::new();
                data.op.for_each_operand(|value| operands.push(value));
                self.list(" ", &operands)?;
            }
        }
        self.types(id)?;
        self.f.write_str("\n")
    }

    fn types(&mut self, id: OpId) -> fmt::Result {
        for (i, result) in self.ir.ops[id].results.iter().enumerate() {
            let separator = if i == 0 { " : " } else { ", " };
            write!(self.f, "{separator}{}", self.ir.type_of(*result))?;
        }
        Ok(())
    }

    fn label(&mut self, id: OpId) -> String {
        let next = self.labels.len();
        format!("@l{}", self.labels.entry(id).or_insert(next))
    }

    fn iter(&mut self, args: &[Value], init: &[Value]) -> fmt::Result {
        if args.is_empty() {
            return Ok(());
        }
        self.f.write_str(" iter(")?;
        for (i, (arg, init)) in args.iter().zip(init).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let (ty, arg, init) =
                (self.ir.type_of(*arg), Name(self.ir, *arg), Name(self.ir, *init));
            write!(self.f, "{comma}{arg}: {ty} = {init}")?;
        }
        self.f.write_str(")")
    }

    fn body(&mut self, region: RegionId) -> fmt::Result {
        self.f.write_str(" {\n")?;
        self.depth += 1;
        self.region(region)?;
        self.depth -= 1;
        let indent = self.depth * 2;
        write!(self.f, "{:indent$}}}", "")
    }

    fn control(&mut self, id: OpId, control: &Control) -> fmt::Result {
        let ir = self.ir;
        match control {
            Control::If { cond, then_region, else_region } => {
                self.list(" ", &[*cond])?;
                self.types(id)?;
                self.body(*then_region)?;
                if let Some(else_region) = else_region {
                    self.f.write_str(" else")?;
                    self.body(*else_region)?;
                }
            }
            Control::For { lo, hi, step, init, body } => {
                let label = self.label(id);
                let args = &ir.regions[*body].args;
                if let Some((index, carried)) = args.split_first() {
                    let [lo, hi, step] = [lo, hi, step].map(|value| Name(ir, *value));
                    let (ty, index) = (ir.type_of(*index), Name(ir, *index));
                    write!(self.f, " {label} {index}: {ty} = {lo} to {hi} step {step}")?;
                    self.iter(carried, init)?;
                }
                self.types(id)?;
                self.body(*body)?;
            }
            Control::Loop { init, body } => {
                let label = self.label(id);
                write!(self.f, " {label}")?;
                self.iter(&ir.regions[*body].args, init)?;
                self.types(id)?;
                self.body(*body)?;
            }
            Control::Yield { values } => self.list(" ", values)?,
            Control::Continue { target, values } | Control::Break { target, values } => {
                let label = self.label(*target);
                write!(self.f, " {label}")?;
                self.list(" ", values)?;
            }
            Control::Return => {}
        }
        self.f.write_str("\n")
    }
}
