//! Finds unused values, so that the writer can leave out pure operations whose results nothing
//! reads.

use crate::ir::op::{Arith, Control, Diagnostic, Effect, Mem, Op};
use crate::ir::{Entity, KernelIr, OpId, RegionId, Value, ValueDef};

/// For each value, whether something that is written reads it.
pub(super) struct Uses<'k> {
    ir: &'k KernelIr,
    live: Vec<bool>,
}

impl<'k> Uses<'k> {
    /// Visits operations from the last to the first, so that a value's users are seen before it.
    pub(super) fn of(ir: &'k KernelIr) -> Uses<'k> {
        let mut uses = Uses { ir, live: vec![false; ir.values.len()] };
        uses.region(ir.body);
        uses
    }

    pub(super) fn is_live(&self, value: Value) -> bool {
        self.live[value.index()]
    }

    /// Returns whether the operation is written: it has a side effect, or its result is used.
    pub(super) fn is_written(&self, op: OpId) -> bool {
        let data = &self.ir.ops[op];
        let needed = match (&data.op, data.op.info()) {
            (Op::Inline(op), _) => !op.ptx.is_pure(),
            (Op::Mem(Mem::GetVar { .. }), _) => false,
            (_, Some(info)) => info.effect != Effect::Pure,
            (op, None) => !matches!(op, Op::Const(_)),
        };
        needed || data.results.iter().any(|result| self.is_live(*result))
    }

    fn mark(&mut self, value: Value) {
        self.live[value.index()] = true;
    }

    fn mark_all(&mut self, values: &[Value]) {
        values.iter().for_each(|value| self.mark(*value));
    }

    /// Marks those of `values` that are passed on to a used one of `results`.
    fn mark_passed(&mut self, values: &[Value], results: &[Value]) {
        for (value, result) in values.iter().zip(results) {
            if self.is_live(*result) {
                self.mark(*value);
            }
        }
    }

    fn region(&mut self, region: RegionId) {
        let ir = self.ir;
        for &op in ir.regions[region].ops.iter().rev() {
            if self.is_written(op) {
                self.op(op);
            }
        }
    }

    fn op(&mut self, op: OpId) {
        let ir = self.ir;
        let data = &ir.ops[op];
        if let Op::Diagnostic(Diagnostic::Assert { cond, values, .. }) = &data.op {
            self.mark(condition(ir, *cond).0);
            return self.mark_all(values);
        }
        let Some(control) = data.op.control() else {
            return self.mark_all(&data.op.operands());
        };
        match control {
            Control::If { cond, then_region, else_region } => {
                self.mark(condition(ir, *cond).0);
                else_region.iter().for_each(|region| self.region(*region));
                self.region(*then_region);
            }
            Control::For { lo, hi, step, init, body, unroll: _, prefetch: _ } => {
                self.mark_all(&[*lo, *hi, *step]);
                self.mark_all(init);
                self.region(*body);
            }
            Control::Loop { init, body } => {
                self.mark_all(init);
                self.region(*body);
            }
            Control::Yield { values } => {
                if let Some(parent) = ir.regions[data.region].parent {
                    self.mark_passed(values, &ir.ops[parent].results);
                }
            }
            Control::Continue { values, .. } => self.mark_all(values),
            Control::Break { target, values } => {
                // The results of a `for` share the registers of its carried values.
                if matches!(ir.ops[*target].op, Op::Control(Control::For { .. })) {
                    self.mark_all(values);
                } else {
                    self.mark_passed(values, &ir.ops[*target].results);
                }
            }
            Control::Return => {}
        }
    }
}

/// Returns the value that an `if` tests, and whether it runs its first region if that value is
/// false. This way a condition that negates another value needs no register of its own.
pub(super) fn condition(ir: &KernelIr, cond: Value) -> (Value, bool) {
    let (mut cond, mut negated) = (cond, false);
    while let ValueDef::Result(op, _) = ir.values[cond].def
        && let Op::Arith(Arith::Not { value }) = ir.ops[op].op
    {
        (cond, negated) = (value, !negated);
    }
    (cond, negated)
}
