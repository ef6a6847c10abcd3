//! Prints kernels in the text form, which the parser reads back. A change to `parse.rs` or
//! `region.rs` needs one here.

use std::collections::HashMap;
use std::fmt;

use super::literal;
use crate::ir::bounds::{ClusterShape, LaunchBounds};
use crate::ir::entity::{Entity, OpId, RegionId, Value, VarId};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Control, Diagnostic, Op, Unroll};
use crate::ir::types::Type;

/// Prints the text form, which [`parse`](super::parse) reads.
///
/// Unverified kernels print too. A dangling id prints as a comment or as its number.
impl fmt::Display for KernelIr {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel @{} target {}", self.name.escape_debug(), self.target)?;
        let LaunchBounds { block, max_threads, min_blocks_per_sm, max_registers, cluster } =
            self.bounds;
        if let Some([x, y, z]) = block {
            write!(f, " block {x} x {y} x {z}")?;
        }
        let numbers = [
            ("max_threads", max_threads),
            ("min_blocks_per_sm", min_blocks_per_sm),
            ("max_registers", max_registers),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                write!(f, " {name} {number}")?;
            }
        }
        match cluster {
            Some(ClusterShape::Fixed([x, y, z])) => write!(f, " cluster {x} x {y} x {z}")?,
            Some(ClusterShape::AtLaunch) => f.write_str(" cluster at_launch")?,
            None => {}
        }
        f.write_str(" (")?;
        for (i, param) in self.params.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}%{}: {}", param.name.escape_debug(), TypeOf(self, param.value))?;
        }
        f.write_str(") {\n")?;
        for (id, data) in self.shared.iter() {
            let (elem, len, align) = (data.elem, data.len, data.align_bytes);
            writeln!(f, "  shared @{id}: {elem} x {len} align {align}")?;
        }
        for (id, data) in self.locals.iter() {
            writeln!(f, "  local @{id}: {} x {}", data.elem, data.len)?;
        }
        for (id, array) in self.arrays.iter() {
            write!(f, "  array @{id}: {} =", array.elem)?;
            for (i, element) in array.elements().enumerate() {
                write!(f, "{} {element}", if i == 0 { "" } else { "," })?;
            }
            f.write_str("\n")?;
        }
        for (id, global) in self.globals.iter() {
            write!(f, "  global @{id}: {} x {}", global.elem, global.len)?;
            for (i, element) in global.elements().enumerate() {
                write!(f, "{} {element}", if i == 0 { " =" } else { "," })?;
            }
            f.write_str("\n")?;
        }
        let mut vars: HashMap<usize, Vec<VarId>> = HashMap::new();
        for (id, var) in self.vars.iter() {
            vars.entry(var.region.index()).or_default().push(id);
        }
        let seen = vec![false; self.regions.len()];
        let mut printer = Printer { ir: self, f, depth: 1, labels: HashMap::new(), vars, seen };
        printer.region(self.body)?;
        f.write_str("}\n")
    }
}

struct Printer<'k, 'f, 'w> {
    ir: &'k KernelIr,
    f: &'f mut fmt::Formatter<'w>,
    depth: usize,
    labels: HashMap<OpId, usize>,
    /// The variables that each region declares, by region index.
    vars: HashMap<usize, Vec<VarId>>,
    /// Which regions have been printed.
    seen: Vec<bool>,
}

/// A value, by its name in the text.
struct Name<'k>(&'k KernelIr, Value);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.values.get(self.1).map(|value| value.def) {
            Some(ValueDef::Param(i)) => match self.0.params.get(i as usize) {
                Some(param) => write!(f, "%{}", param.name.escape_debug()),
                None => write!(f, "{}", self.1),
            },
            _ => write!(f, "{}", self.1),
        }
    }
}

/// The type of a value, or `?` if the value does not exist.
struct TypeOf<'k>(&'k KernelIr, Value);

impl fmt::Display for TypeOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.values.get(self.1) {
            Some(data) => Type::fmt(&data.ty, f),
            None => f.write_str("?"),
        }
    }
}

impl Printer<'_, '_, '_> {
    fn line(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        let indent = self.depth * 2;
        writeln!(self.f, "{:indent$}{text}", "")
    }

    #[inline]
    fn region(&mut self, id: RegionId) -> fmt::Result {
        let ir = self.ir;
        let Some(region) = ir.regions.get(id) else {
            return self.line(format_args!("; {id} does not exist"));
        };
        if std::mem::replace(&mut self.seen[id.index()], true) {
            return self.line(format_args!("; {id} again"));
        }
        if self.depth > KernelIr::MAX_DEPTH {
            return self.line(format_args!("; {id} is too deep"));
        }
        for var in self.vars.remove(&id.index()).unwrap_or_default() {
            let data = &ir.vars[var];
            self.line(format_args!("var @{var}: {} x {}", data.ty, data.len))?;
        }
        region.ops.iter().try_for_each(|op| self.op(*op))
    }

    fn list(&mut self, before: &str, values: &[Value]) -> fmt::Result {
        for (i, value) in values.iter().enumerate() {
            let separator = if i == 0 { before } else { ", " };
            write!(self.f, "{separator}{}", Name(self.ir, *value))?;
        }
        Ok(())
    }

    #[inline]
    fn op(&mut self, id: OpId) -> fmt::Result {
        let ir = self.ir;
        let Some(data) = ir.ops.get(id) else {
            return self.line(format_args!("; {id} does not exist"));
        };
        let indent = self.depth * 2;
        write!(self.f, "{:indent$}", "")?;
        self.list("", &data.results)?;
        if !data.results.is_empty() {
            self.f.write_str(" = ")?;
        }
        self.f.write_str(data.op.name())?;
        if let Op::Const(constant) = &data.op {
            write!(self.f, " {constant}")?;
        } else if let Op::Control(control) = &data.op {
            self.control(id, control)?;
        } else if let Op::Diagnostic(op) = &data.op {
            self.diagnostic(op)?;
        } else if let Op::Inline(op) = &data.op {
            let (ptx, (major, minor)) = (&op.ptx, op.ptx.version());
            let (text, target) = (literal::quote(ptx.text()), ptx.target());
            let pure = if ptx.is_pure() { " pure" } else { "" };
            write!(self.f, " {text} target {target} version {major}.{minor}{pure}")?;
            self.list(" ", &op.operands)?;
        } else {
            let attributes = data.op.attributes();
            // Omit trailing attributes that print as nothing.
            let said = attributes.iter().rposition(|attribute| !attribute.is_empty());
            if let Some(last) = said {
                write!(self.f, "<{}>", attributes[..=last].join(", "))?;
            }
            self.list(" ", &data.op.operands())?;
        }
        for (i, result) in data.results.iter().enumerate() {
            let separator = if i == 0 { " : " } else { ", " };
            write!(self.f, "{separator}{}", TypeOf(ir, *result))?;
        }
        match data.op.control() {
            Some(Control::If { then_region, else_region, .. }) => {
                self.body(*then_region)?;
                if let Some(else_region) = else_region {
                    self.f.write_str(" else")?;
                    self.body(*else_region)?;
                }
            }
            Some(Control::For { body, .. } | Control::Loop { body, .. }) => self.body(*body)?,
            Some(
                Control::Yield { .. }
                | Control::Continue { .. }
                | Control::Break { .. }
                | Control::Return,
            )
            | None => {}
        }
        self.f.write_str("\n")
    }

    /// Prints the part of a diagnostic after its name.
    #[inline]
    fn diagnostic(&mut self, op: &Diagnostic) -> fmt::Result {
        write!(self.f, " {}", literal::quote(op.text().0))?;
        let mut operands = op.operands();
        if let Diagnostic::Assert { element: Some(element), .. } = op {
            operands.pop();
            self.list(" ", &operands)?;
            return write!(self.f, " element {}", Name(self.ir, *element));
        }
        self.list(" ", &operands)
    }

    fn label(&mut self, id: OpId) -> String {
        let next = self.labels.len();
        format!("@l{}", self.labels.entry(id).or_insert(next))
    }

    /// Prints a loop's carried arguments with their initial values. In an unverified kernel,
    /// missing ones print as `?`.
    #[inline]
    fn iter(&mut self, args: &[Value], init: &[Value]) -> fmt::Result {
        let count = args.len().max(init.len());
        for i in 0..count {
            self.f.write_str(if i == 0 { " iter(" } else { ", " })?;
            match args.get(i) {
                Some(arg) => write!(self.f, "{}: {}", Name(self.ir, *arg), TypeOf(self.ir, *arg))?,
                None => self.f.write_str("?")?,
            }
            match init.get(i) {
                Some(init) => write!(self.f, " = {}", Name(self.ir, *init))?,
                None => self.f.write_str(" = ?")?,
            }
        }
        self.f.write_str(if count == 0 { "" } else { ")" })
    }

    #[inline]
    fn body(&mut self, region: RegionId) -> fmt::Result {
        self.f.write_str(" {\n")?;
        self.depth += 1;
        self.region(region)?;
        self.depth -= 1;
        let indent = self.depth * 2;
        write!(self.f, "{:indent$}}}", "")
    }

    /// Prints a control flow operation's part between its name and its result types.
    #[inline]
    fn control(&mut self, id: OpId, control: &Control) -> fmt::Result {
        let ir = self.ir;
        let args = |body: RegionId| ir.regions.get(body).map_or(&[][..], |region| &region.args);
        match control {
            Control::If { cond, .. } => self.list(" ", &[*cond]),
            Control::For { lo, hi, step, init, body, unroll, prefetch } => {
                let label = self.label(id);
                let [lo, hi, step] = [lo, hi, step].map(|value| Name(ir, *value));
                let carried = match args(*body).split_first() {
                    Some((index, carried)) => {
                        write!(self.f, " {label} {}: {}", Name(ir, *index), TypeOf(ir, *index))?;
                        carried
                    }
                    None => {
                        write!(self.f, " {label} ?")?;
                        &[]
                    }
                };
                write!(self.f, " = {lo} to {hi} step {step}")?;
                match unroll {
                    Unroll::Keep => {}
                    Unroll::By(n) => write!(self.f, " unroll {n}")?,
                    Unroll::Vector(n) => write!(self.f, " vectorize {n}")?,
                    Unroll::Full => self.f.write_str(" unroll full")?,
                }
                if *prefetch > 0 {
                    write!(self.f, " prefetch {prefetch}")?;
                }
                self.iter(carried, init)
            }
            Control::Loop { init, body } => {
                let label = self.label(id);
                write!(self.f, " {label}")?;
                self.iter(args(*body), init)
            }
            Control::Yield { values } => self.list(" ", values),
            Control::Continue { target, values } | Control::Break { target, values } => {
                let label = self.label(*target);
                write!(self.f, " {label}")?;
                self.list(" ", values)
            }
            Control::Return => Ok(()),
        }
    }
}
