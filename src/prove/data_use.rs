//! [`DataUse`]: the first place where what a kernel does depends on the contents of its buffers.

use std::fmt;

use crate::ir::op::{Arith, Constraint, Control, Diagnostic, Effect, Mem, Mma, Op, Warp};
use crate::ir::types::{Space, Type};
use crate::ir::{Entity, Kernel, KernelIr, OpId, SourceLocation, Value, VarId};

/// A place where the course of a kernel depends on the contents of its buffers: a branch, a loop's
/// range, an address, a divisor, an assertion. [`Kernel::data_use`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataUse {
    /// The operation that depends on data, such as `if`.
    pub op: &'static str,
    /// Where the operation is.
    pub location: SourceLocation,
    /// The operand that depends on data, such as `index`.
    pub operand: &'static str,
    /// The operation that reads the data, such as `ld`.
    pub source: &'static str,
    /// Where that operation is.
    pub source_location: SourceLocation,
}

impl fmt::Display for DataUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DataUse { op, location, operand, source, source_location } = self;
        write!(
            f,
            "the {operand} of `{op}` at {location} depends on what `{source}` at {source_location} \
             reads"
        )
    }
}

impl<P> Kernel<P> {
    /// Finds the first operation that does something else if the buffers have other contents: a
    /// branch, a loop, an address, a barrier's operand, a divisor, an assertion or inline PTX.
    ///
    /// `None` means that which operations run, and what they access, is the same for all data. Then
    /// one run on the simulator covers all data: if it has no fault and no data race, then with the
    /// same grid, numbers and buffer lengths no other data has one under that schedule. Stores of
    /// equal values need [`Options::equal_stores`](crate::sim::Options::equal_stores), because
    /// without it they are no race.
    ///
    /// What memory holds counts as data, also shared memory and the results of atomics. Constant
    /// arrays do not count, nor whether an mbarrier's phase has ended, nor clocks.
    ///
    /// ```
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    ///
    /// type Params = (Global<i32>, GlobalMut<i32>);
    /// let double = Kernel::<Params>::build("double", Target::SM_80, |k, (x, y)| {
    ///     let i = k.thread_idx().x;
    ///     y.store(i, x.load(i) * 2);
    /// })?;
    /// assert_eq!(double.data_use(), None);
    ///
    /// let scatter = Kernel::<Params>::build("scatter", Target::SM_80, |k, (x, y)| {
    ///     let i = k.thread_idx().x;
    ///     y.store(x.load(i), i);
    /// })?;
    /// let found = scatter.data_use().expect("the index is loaded");
    /// assert_eq!((found.op, found.operand, found.source), ("st", "index", "ld"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn data_use(&self) -> Option<DataUse> {
        let ir = self.ir();
        let mut flow = Flow {
            ir,
            values: vec![None; ir.values.len()],
            vars: vec![None; ir.vars.len()],
            changed: true,
        };
        let ops = ir.reached_ops();
        while std::mem::take(&mut flow.changed) {
            for &op in &ops {
                flow.op(op);
            }
        }
        let (op, operand, source) = ops.iter().find_map(|&op| {
            let (operand, source) = flow.use_of(op)?;
            Some((op, operand, source))
        })?;
        Some(DataUse {
            op: ir.ops[op].op.name(),
            location: ir.location_of(op),
            operand,
            source: ir.ops[source].op.name(),
            source_location: ir.location_of(source),
        })
    }
}

/// Follows data from where it is read.
struct Flow<'k> {
    ir: &'k KernelIr,
    /// For each value, the operation that reads the data that it depends on.
    values: Vec<Option<OpId>>,
    /// The same for each register variable.
    vars: Vec<Option<OpId>>,
    changed: bool,
}

impl Flow<'_> {
    fn source(&self, value: Value) -> Option<OpId> {
        self.values[value.index()]
    }

    fn set(&mut self, value: Value, source: Option<OpId>) {
        self.changed |= keep_first(&mut self.values[value.index()], source);
    }

    fn set_var(&mut self, var: VarId, source: Option<OpId>) {
        self.changed |= keep_first(&mut self.vars[var.index()], source);
    }

    fn pass(&mut self, to: &[Value], from: &[Value]) {
        for (to, from) in to.iter().zip(from) {
            self.set(*to, self.source(*from));
        }
    }

    /// Passes data on from an operation's operands to its results.
    fn op(&mut self, op: OpId) {
        let ir = self.ir;
        let data = &ir.ops[op];
        let operands = data.op.operands();
        let passed = operands.iter().find_map(|value| self.source(*value));
        let source = match &data.op {
            Op::Control(control) => return self.control(op, control),
            Op::Mem(Mem::Ld { base, .. } | Mem::LdVec { base, .. }) => {
                let is_constant =
                    matches!(ir.type_of(*base), Type::Pointer { space: Space::Const, .. });
                if is_constant { passed } else { Some(op) }
            }
            Op::Atomic(_) | Op::Mma(Mma::Ldmatrix { .. }) | Op::Inline(_) => Some(op),
            Op::Mem(Mem::GetVar { var, .. }) => self.vars[var.index()],
            Op::Mem(Mem::SetVar { var, .. }) => return self.set_var(*var, passed),
            Op::Mma(_) => match data.op.var() {
                // The products of what is in shared memory or comes from it.
                Some(var) => return self.set_var(var, Some(op)),
                None => passed,
            },
            Op::Warp(Warp::Shfl { value, .. }) => {
                // Whether the other lane is in the segment does not depend on its value.
                if let Some(result) = data.results.first() {
                    self.set(*result, self.source(*value));
                }
                return;
            }
            Op::Const(_) | Op::Mem(_) | Op::Cache(_) | Op::Warp(_) | Op::Thread(_) => passed,
            Op::Arith(_) | Op::FloatArith(_) | Op::IntArith(_) | Op::Convert(_) => passed,
            Op::Sync(_) | Op::Mbarrier(_) | Op::AsyncCopy(_) | Op::Diagnostic(_) => passed,
        };
        for result in &data.results {
            self.set(*result, source);
        }
    }

    fn control(&mut self, op: OpId, control: &Control) {
        let ir = self.ir;
        let results = &ir.ops[op].results;
        match control {
            // A condition or a range that depends on data ends the search.
            Control::If { .. } | Control::Return => {}
            Control::For { init, body, .. } => {
                self.pass(results, init);
                self.pass(ir.regions[*body].args.get(1..).unwrap_or_default(), init);
            }
            Control::Loop { init, body } => self.pass(&ir.regions[*body].args, init),
            Control::Yield { values } => {
                if let Some(parent) = ir.regions[ir.ops[op].region].parent {
                    self.pass(&ir.ops[parent].results, values);
                }
            }
            Control::Continue { target, values } => {
                self.pass(ir.carried_args(*target).unwrap_or_default(), values);
                if let Op::Control(Control::For { .. }) = &ir.ops[*target].op {
                    self.pass(&ir.ops[*target].results, values);
                }
            }
            Control::Break { target, values } => self.pass(&ir.ops[*target].results, values),
        }
    }

    /// Returns the operand that decides what the operation does, and the source of its data, if it
    /// depends on data.
    fn use_of(&self, op: OpId) -> Option<(&'static str, OpId)> {
        let data = &self.ir.ops[op];
        let of = |name, value: &Value| self.source(*value).map(|source| (name, source));
        let is_integer = |value: &Value| {
            let ty = self.ir.type_of(*value);
            matches!(ty, Type::Scalar(scalar) if scalar.is_int())
        };
        match &data.op {
            Op::Const(_) => None,
            Op::Control(Control::If { cond, .. }) => of("condition", cond),
            Op::Control(Control::For { lo, hi, step, .. }) => {
                of("range", lo).or_else(|| of("range", hi)).or_else(|| of("range", step))
            }
            Op::Control(_) => None,
            Op::Diagnostic(Diagnostic::Assert { cond, .. }) => of("condition", cond),
            Op::Diagnostic(Diagnostic::Printf { .. }) => None,
            // Its text may do anything with what it gets.
            Op::Inline(inline) => inline.operands.iter().find_map(|value| of("operand", value)),
            // Division by zero is a fault.
            Op::Arith(Arith::Div { rhs, .. } | Arith::Rem { rhs, .. }) if is_integer(rhs) => {
                of("divisor", rhs)
            }
            // A pointer into another space, and a block that the cluster does not have, are faults.
            Op::Mem(Mem::CvtaTo { base, .. } | Mem::Mapa { base, .. })
                if self.source(*base).is_some() =>
            {
                of("base", base)
            }
            Op::Mem(Mem::Mapa { cta, .. }) => of("cta", cta),
            // A broken promise is a fault.
            Op::Mem(
                Mem::AssumeAligned { base: value, .. } | Mem::AssumeDivisibleBy { value, .. },
            ) => of("promised value", value),
            Op::Mem(Mem::AssumeBetween { value, low, high }) => of("promised value", value)
                .or_else(|| of("promised value", low))
                .or_else(|| of("promised value", high)),
            Op::Arith(_) | Op::FloatArith(_) | Op::IntArith(_) | Op::Convert(_) => None,
            Op::Mem(_)
            | Op::Atomic(_)
            | Op::Cache(_)
            | Op::Mma(_)
            | Op::Warp(_)
            | Op::Thread(_) => self.decides(op),
            Op::Sync(_) | Op::Mbarrier(_) | Op::AsyncCopy(_) => self.decides(op),
        }
    }

    /// Returns the first operand that is not only data, but depends on data.
    fn decides(&self, op: OpId) -> Option<(&'static str, OpId)> {
        let op = &self.ir.ops[op].op;
        let info = op.info().filter(|info| info.effect != Effect::Pure)?;
        let operands = op.operands();
        let mut all = info.operands.iter().chain(info.list.iter().cycle()).zip(&operands);
        all.find_map(|((name, constraint), value)| {
            let source = self.source(*value).filter(|_| !is_data(op, name, *constraint));
            source.map(|source| (*name, source))
        })
    }
}

/// Sets a source that is not known yet. Returns whether that changed it.
fn keep_first(known: &mut Option<OpId>, source: Option<OpId>) -> bool {
    let changes = known.is_none() && source.is_some();
    *known = known.or(source);
    changes
}

/// Returns whether an operation with effects only stores, sends, combines or multiplies the
/// operand, so that it does the same for every value.
fn is_data(op: &Op, name: &str, constraint: Constraint) -> bool {
    if let Op::Mma(_) = op {
        return constraint != Constraint::U64
            && matches!(name, "a" | "b" | "value" | "values" | "vector");
    }
    matches!(name, "value" | "vector" | "compare" | "pred")
}
