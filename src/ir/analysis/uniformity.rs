//! Which values are the same in all threads of a block, and which operations all of its threads reach
//! together.
//!
//! A value is *divergent* if threads of one block may have different values of it at one execution. The
//! sources are the thread's index and lane; a result of divergent operands is divergent, a load from one
//! address is not. An operation is *divergent* if it may be executed by a part of the threads that have not
//! returned:
//!
//! * inside an arm of an `if` with a divergent condition, and inside a loop with a divergent range;
//! * after an `if` that some threads leave with `break` or `continue` and others do not, until the end of
//!   the loop's body for `continue`, and of all its iterations for `break`.
//!
//! Threads that return are gone: what follows a divergent `return` is not divergent by it, as barriers do not
//! wait for them. The analysis is a fixed point over flags that only rise, so it ends after at most as many
//! rounds as there are values, and after two or three in practice.

use std::collections::HashSet;

use crate::ir::entity::{Entity, OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Arith, Control, Mem, Op, SpecialReg};

/// The result of the analysis.
pub(in crate::ir) struct Uniformity {
    ops: Vec<Option<OpId>>,
}

impl Uniformity {
    /// The analysis of a kernel whose structure is verified.
    pub(in crate::ir) fn new(ir: &KernelIr) -> Uniformity {
        let mut flow = Flow {
            ir,
            values: vec![false; ir.values.len()],
            vars: vec![false; ir.vars.len()],
            broken: HashSet::new(),
            ops: vec![None; ir.ops.len()],
            changed: true,
        };
        while std::mem::take(&mut flow.changed) {
            flow.region(ir.body, None);
        }
        Uniformity { ops: flow.ops }
    }

    /// The branch or loop that lets only a part of the threads reach `op`; `None` where all reach it.
    pub(in crate::ir) fn divergence_of(&self, op: OpId) -> Option<OpId> {
        self.ops.get(op.index()).copied().flatten()
    }
}

struct Flow<'k> {
    ir: &'k KernelIr,
    /// Whether each value is divergent.
    values: Vec<bool>,
    /// Whether each variable may hold a divergent value.
    vars: Vec<bool>,
    /// The loops that some threads leave in an iteration in which others stay.
    broken: HashSet<OpId>,
    /// For each operation, what makes it divergent.
    ops: Vec<Option<OpId>>,
    changed: bool,
}

/// The loops to whose next iteration, or out of which, only a part of the threads jumps.
type Jumps = HashSet<OpId>;

impl Flow<'_> {
    fn is_divergent(&self, value: Value) -> bool {
        self.values[value.index()]
    }

    fn raise(&mut self, value: Value, divergent: bool) {
        let flag = &mut self.values[value.index()];
        self.changed |= divergent && !*flag;
        *flag |= divergent;
    }

    fn raise_all(&mut self, to: &[Value], from: &[Value], divergent: bool) {
        for (to, from) in to.iter().zip(from) {
            let divergent = divergent || self.is_divergent(*from);
            self.raise(*to, divergent);
        }
    }

    /// Runs over a region that is reached by a part of the threads because of `cause`, and returns the
    /// divergent jumps out of it.
    fn region(&mut self, region: RegionId, cause: Option<OpId>) -> Jumps {
        let ir = self.ir;
        let mut cause = cause;
        let mut jumps = Jumps::new();
        for &op in &ir.regions[region].ops {
            self.ops[op.index()] = cause;
            let left = self.op(op, cause);
            // What follows is reached by those that did not jump.
            if !left.is_empty() {
                cause = cause.or(Some(op));
            }
            jumps.extend(left);
        }
        jumps
    }

    fn op(&mut self, op: OpId, cause: Option<OpId>) -> Jumps {
        let ir = self.ir;
        let data = &ir.ops[op];
        let mut divergent = false;
        data.op.for_each_operand(|value| divergent |= self.is_divergent(value));
        match &data.op {
            Op::Control(control) => return self.control(op, control, cause),
            Op::Arith(Arith::Sreg { reg }) => {
                divergent = matches!(reg, SpecialReg::Tid(_) | SpecialReg::LaneId);
            }
            Op::Mem(Mem::SetVar { var, .. }) => {
                // A thread that does not come here keeps its old value.
                let flag = &mut self.vars[var.index()];
                let divergent = divergent || cause.is_some();
                self.changed |= divergent && !*flag;
                *flag |= divergent;
            }
            Op::Mem(Mem::GetVar { var, .. }) => divergent = self.vars[var.index()],
            Op::Const(_)
            | Op::Arith(_)
            | Op::Mem(
                Mem::Ld { .. } | Mem::St { .. } | Mem::Offset { .. } | Mem::SharedBase { .. },
            )
            | Op::Sync(_)
            | Op::Diagnostic(_) => {}
        }
        for result in &data.results {
            self.raise(*result, divergent);
        }
        Jumps::new()
    }

    fn control(&mut self, op: OpId, control: &Control, cause: Option<OpId>) -> Jumps {
        let ir = self.ir;
        let results = &ir.ops[op].results;
        match control {
            Control::If { cond, then_region, else_region } => {
                let splits = self.is_divergent(*cond);
                let inside = if splits { cause.or(Some(op)) } else { cause };
                let mut jumps = self.region(*then_region, inside);
                if let Some(else_region) = else_region {
                    jumps.extend(self.region(*else_region, inside));
                }
                for result in results {
                    self.raise(*result, splits);
                }
                jumps
            }
            Control::For { lo, hi, step, init, body, .. } => {
                let args = &ir.regions[*body].args;
                let [lo, hi, step] = [lo, hi, step].map(|value| self.is_divergent(*value));
                if let Some((index, carried)) = args.split_first() {
                    self.raise(*index, lo || step);
                    self.raise_all(carried, init, false);
                }
                let splits = lo || hi || step || self.broken.contains(&op);
                self.raise_all(results, init, splits);
                self.loop_body(op, *body, splits, cause)
            }
            Control::Loop { init, body } => {
                self.raise_all(&ir.regions[*body].args, init, false);
                let splits = self.broken.contains(&op);
                self.loop_body(op, *body, splits, cause)
            }
            Control::Yield { values } => {
                if let Some(parent) = ir.regions[ir.ops[op].region].parent {
                    self.raise_all(&ir.ops[parent].results, values, false);
                }
                Jumps::new()
            }
            Control::Continue { target, values } => {
                let apart = self.jumps_apart(*target, cause);
                let args = ir.carried_args(*target).unwrap_or(&[]);
                self.raise_all(args, values, apart);
                if let Op::Control(Control::For { .. }) = &ir.ops[*target].op {
                    self.raise_all(&ir.ops[*target].results, values, apart);
                }
                apart.then_some(*target).into_iter().collect()
            }
            Control::Break { target, values } => {
                let apart = self.jumps_apart(*target, cause);
                if apart && self.broken.insert(*target) {
                    self.changed = true;
                }
                self.raise_all(&ir.ops[*target].results, values, apart);
                apart.then_some(*target).into_iter().collect()
            }
            Control::Return => Jumps::new(),
        }
    }

    /// Whether a jump to `target`, reached because of `cause`, is taken by a part of the threads that
    /// entered the loop.
    fn jumps_apart(&self, target: OpId, cause: Option<OpId>) -> bool {
        cause.is_some() && cause != self.ops[target.index()]
    }

    fn loop_body(&mut self, op: OpId, body: RegionId, splits: bool, cause: Option<OpId>) -> Jumps {
        let inside = if splits { cause.or(Some(op)) } else { cause };
        if self.broken.contains(&op) {
            // Threads leave with the values of different iterations.
            for result in &self.ir.ops[op].results {
                self.raise(*result, true);
            }
        }
        let mut jumps = self.region(body, inside);
        // At the end of the loop its threads meet again.
        jumps.remove(&op);
        jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::Sync;

    /// Whether the barriers of a kernel, in the order of the text, are divergent.
    fn barriers(body: &str) -> Vec<bool> {
        let text = format!("kernel @k target sm_80 (%x: ptr<global, mut i32>, %n: i32) {{{body}}}");
        let ir: KernelIr = text.parse().unwrap();
        let uniformity = Uniformity::new(&ir);
        let is_barrier = |op: &OpId| matches!(ir.ops[*op].op, Op::Sync(Sync::Barrier {}));
        let barriers = ir.ops.keys().filter(is_barrier);
        barriers.map(|op| uniformity.divergence_of(op).is_some()).collect()
    }

    const START: &str = "
        %t = sreg<tid.x> : i32
        %b = sreg<ctaid.x> : i32
        %zero = const 0 : i32
        %one = const 1 : i32
        %apart = setp<lt> %t, %n : bool
        %together = setp<lt> %b, %n : bool
        ";

    #[track_caller]
    fn check(body: &str, expected: &[bool]) {
        assert_eq!(barriers(&format!("{START}{body}\nreturn\n")), expected, "{body}");
    }

    #[test]
    fn branches_on_the_thread_index_diverge() {
        check("barrier\nif %together {\nbarrier\nyield\n}\nbarrier", &[false, false, false]);
        check(
            "if %apart {\nbarrier\nyield\n} else {\nbarrier\nyield\n}\nbarrier",
            &[true, true, false],
        );
        check("if %apart {\nif %together {\nbarrier\nyield\n}\nyield\n}", &[true]);
    }

    #[test]
    fn loads_from_one_address_do_not_diverge() {
        check(
            "%v = ld %x, %b : i32\n%c = setp<lt> %v, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[false],
        );
        check(
            "%v = ld %x, %t : i32\n%c = setp<lt> %v, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
    }

    #[test]
    fn loops_diverge_by_their_range_and_by_their_breaks() {
        check(
            "for @l %i: i32 = %zero to %n step %one {\nbarrier\ncontinue @l\n}\nbarrier",
            &[false, false],
        );
        check(
            "for @l %i: i32 = %zero to %t step %one {\nbarrier\ncontinue @l\n}\nbarrier",
            &[true, false],
        );
        check(
            "for @l %i: i32 = %zero to %n step %one {\nbarrier\nif %apart {\nbreak @l\n}\nbarrier\ncontinue @l\n}\nbarrier",
            &[true, true, false],
        );
        check(
            "for @l %i: i32 = %zero to %n step %one {\nbarrier\nif %apart {\ncontinue @l\n}\nbarrier\ncontinue @l\n}",
            &[false, true],
        );
        check(
            "for @l %i: i32 = %zero to %n step %one {\nif %apart {\nreturn\n}\nbarrier\ncontinue @l\n}",
            &[false],
        );
    }

    #[test]
    fn jumps_of_outer_loops_diverge_until_these_end() {
        let inner = "loop @m {\nif %apart {\ncontinue @l\n}\nbreak @m\n}";
        check(
            &format!(
                "for @l %i: i32 = %zero to %n step %one {{\nbarrier\n{inner}\nbarrier\ncontinue @l\n}}\nbarrier"
            ),
            &[false, true, false],
        );
    }

    #[test]
    fn values_diverge_through_carried_values_results_and_variables() {
        check(
            "%r = for @l %i: i32 = %zero to %n step %one iter(%a: i32 = %zero) : i32 {\n%s = add %a, %t : i32\ncontinue @l %s\n}\n%c = setp<lt> %r, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
        check(
            "%r = if %apart : i32 {\nyield %zero\n} else {\nyield %one\n}\n%c = setp<lt> %r, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
        check(
            "var @v: i32 x 1\nset_var<@v, 0> %zero\nif %apart {\nset_var<@v, 0> %one\nyield\n}\n%g = get_var<@v, 0> : i32\n%c = setp<lt> %g, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
    }
}
