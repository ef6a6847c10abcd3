//! Loops: what a value that a loop carries is in each iteration, and after the last one.
//!
//! If each iteration adds the same to a carried value, it is `initial + step * trip`, for the atom
//! `trip` that counts the iterations. A `for` bounds `trip`. For other loops the walk assumes that
//! the value does not wrap, and shows at each `continue` that the next one does not either.

use std::rc::Rc;

use super::atom::Key;
use super::claim::{Deps, MAX_DEPS};
use super::pointer::Pointer;
use super::poly::Poly;
use super::range::Range;
use super::ranges::{constant_of, of_type};
use super::site::{Open, Requirement, Site, Subject, Verdict};
use super::walk::{Known, Number, Walk};
use crate::ir::op::{Arith, Control, Mem, Op};
use crate::ir::{Entity, OpId, RegionId, Value, ValueDef, VarId};

#[derive(Clone, Debug)]
pub(super) struct Obligation {
    next: Poly,
    range: Range,
    deps: Deps,
    /// The launch condition that stands for all obligations of the loop.
    requirement: usize,
}

/// What a loop carries: an argument of its body, or a register of a variable.
#[derive(Clone, Copy, Debug)]
enum Carried {
    Arg(Value),
    Register((VarId, u32)),
}

/// A register that each iteration of a loop adds the same to.
#[derive(Debug)]
struct RegisterStep {
    register: (VarId, u32),
    initial: Known,
    step: Number,
}

/// The iterations of a `for`.
struct Trip {
    /// How many iterations came before the present one.
    count: Poly,
    /// The loop's index in the body.
    index: Option<Number>,
    /// What holds in the body.
    facts: Vec<(Poly, Deps)>,
    /// How many iterations there are, if that is a constant.
    total: Option<i128>,
    /// The most iterations that there can be.
    most: i128,
}

impl Walk<'_> {
    /// Returns the sum of what a loop adds to `arg` to make `next`, if it is the same in each
    /// iteration: an integer, or an offset in bytes.
    fn step_of(&mut self, arg: Carried, next: Value, body: RegionId, depth: u32) -> Option<Number> {
        let is_start = match arg {
            Carried::Arg(arg) => arg == next,
            Carried::Register(register) => self.reads(register, next, body),
        };
        if is_start {
            return Some(Number { poly: Poly::default(), deps: 0 });
        }
        let (depth, ValueDef::Result(op, 0)) = (depth.checked_sub(1)?, self.ir.values[next].def)
        else {
            return None;
        };
        if let Op::Arith(Arith::Add { lhs, rhs }) = self.ir.ops[op].op {
            for (from, by) in [(lhs, rhs), (rhs, lhs)] {
                if let Some(known) = self.step_of(arg, from, body, depth) {
                    let by = self.invariant(by, body)?;
                    let poly = known.poly.plus(&by.poly)?;
                    return Some(Number { poly, deps: known.deps | by.deps });
                }
            }
        } else if let Op::Arith(Arith::Sub { lhs, rhs }) = self.ir.ops[op].op {
            let known = self.step_of(arg, lhs, body, depth)?;
            let by = self.invariant(rhs, body)?;
            let poly = known.poly.minus(&by.poly)?;
            return Some(Number { poly, deps: known.deps | by.deps });
        } else if let Op::Mem(Mem::Offset { base, index }) = self.ir.ops[op].op {
            let known = self.step_of(arg, base, body, depth)?;
            let by = self.invariant(index, body)?;
            let poly = known.poly.plus_scaled(&by.poly, self.elem_bytes(base))?;
            return Some(Number { poly, deps: known.deps | by.deps });
        } else if let Op::Mem(Mem::PtrCast { base, .. }) = self.ir.ops[op].op {
            return self.step_of(arg, base, body, depth);
        }
        None
    }

    /// Returns whether the value is the register's at the start of an iteration.
    fn reads(&self, register: (VarId, u32), value: Value, body: RegionId) -> bool {
        let ValueDef::Result(op, 0) = self.ir.values[value].def else { return false };
        let data = &self.ir.ops[op];
        matches!(data.op, Op::Mem(Mem::GetVar { var, index }) if (var, index) == register)
            && data.region == body
    }

    /// Finds what each iteration of a loop adds to the registers of variables that the body sets
    /// once, at its top level.
    fn register_steps(&mut self, body: RegionId, continues: &[OpId]) -> Vec<RegisterStep> {
        let ir = self.ir;
        if self.vars.is_empty() || continues.iter().any(|next| ir.ops[*next].region != body) {
            return Vec::new();
        }
        let mut sets = Vec::new();
        self.sets_in(body, &mut sets);
        let mut found = Vec::new();
        for &op in &sets {
            let Op::Mem(Mem::SetVar { value, var, index }) = ir.ops[op].op else { continue };
            let register = (var, index);
            let is_only = sets.iter().all(|other| {
                *other == op
                    || !matches!(ir.ops[*other].op,
                        Op::Mem(Mem::SetVar { var, index, .. }) if (var, index) == register)
            });
            let Some(initial) = self.vars.get(&register).cloned().filter(|_| is_only) else {
                continue;
            };
            if ir.ops[op].region == body
                && let Some(step) = self.step_of(Carried::Register(register), value, body, 6)
            {
                found.push(RegisterStep { register, initial, step });
            }
        }
        found
    }

    /// Collects the operations of a region that set registers.
    fn sets_in(&self, region: RegionId, found: &mut Vec<OpId>) {
        for &op in &self.ir.regions[region].ops {
            if matches!(self.ir.ops[op].op, Op::Mem(Mem::SetVar { .. })) {
                found.push(op);
            }
            for inner in self.ir.ops[op].op.regions() {
                self.sets_in(inner, found);
            }
        }
    }

    /// Returns the integer if the loop does not change it.
    fn invariant(&mut self, value: Value, body: RegionId) -> Option<Number> {
        // Constants of the body have not been visited yet.
        if let Some(constant) = constant_of(self.ir, value) {
            return Some(Number { poly: Poly::constant(constant.as_int()?), deps: 0 });
        }
        let mut region = Some(self.ir.values[value].region);
        while let Some(inner) = region {
            if inner == body {
                return None;
            }
            region = self.ir.regions[inner].parent.map(|parent| self.ir.ops[parent].region);
        }
        self.exact(value)
    }

    pub(super) fn loop_(&mut self, id: OpId, control: &Control) {
        let ir = self.ir;
        let (Control::For { init, body, .. } | Control::Loop { init, body }) = control else {
            return;
        };
        let body = *body;
        let carried: Vec<Value> = ir.carried_args(id).unwrap_or_default().to_vec();
        let initial = self.passed(init);
        let continues = self.continues.get(&id).cloned().unwrap_or_default();
        // The registers that the body sets have another value in the next iteration.
        let registers = self.register_steps(body, &continues);
        self.forget_vars(body);
        let after_vars = self.vars.clone();
        let mark = self.mark();
        let trip = self.trip(id, control);
        let count = match &trip {
            Some(trip) => trip.count.clone(),
            None => self.atoms.of(Key::Trip(id, self.generation), Range::new(0, 1 << 62), 1),
        };
        // What a loop adds to each carried value.
        let mut steps = Vec::new();
        for (i, &arg) in carried.iter().enumerate() {
            let mut step: Option<Number> = None;
            let mut is_same = !continues.is_empty();
            for &next in &continues {
                let Op::Control(Control::Continue { values, .. }) = &ir.ops[next].op else {
                    continue;
                };
                let found =
                    values.get(i).and_then(|next| self.step_of(Carried::Arg(arg), *next, body, 6));
                is_same &= match (&step, &found) {
                    (_, None) => false,
                    (None, Some(_)) => true,
                    (Some(known), Some(found)) => known.poly == found.poly,
                };
                step = found;
            }
            steps.push(step.filter(|_| is_same));
        }
        let before = (self.sites.len(), self.breaks.get(&id).map_or(0, Vec::len));
        for attempt in 0..2 {
            self.obligations.remove(&id);
            self.exact.retain(|value, _| !carried.contains(value));
            let promises = attempt == 0 && trip.is_none();
            let placeholder = self.requirements.len();
            let mut promised = Vec::new();
            for (i, &arg) in carried.iter().enumerate() {
                let known = self.carried(arg, initial.get(i), steps[i].as_ref(), &count, promises);
                let (known, obligation) = match known {
                    Some((known, obligation)) => (known, obligation),
                    None => {
                        let ring = self.ring(arg, i, initial.get(i), &continues, &count);
                        (ring.unwrap_or(Known::Nothing), None)
                    }
                };
                self.values[arg.index()] = known;
                promised.extend(obligation.map(|obligation| (arg, obligation)));
            }
            if !promised.is_empty() {
                // It stands for the obligations, which are not known before the body is.
                if placeholder >= MAX_DEPS {
                    continue;
                }
                self.requirements.push(Requirement::Loop { id, deps: 0 });
                for (arg, obligation) in promised {
                    let obligation = Obligation { requirement: placeholder, ..obligation };
                    self.exact.insert(arg, 1 << placeholder);
                    self.exact_undo.push(arg);
                    self.obligations.entry(id).or_default().push(obligation);
                }
            }
            if let Some(trip) = &trip {
                if let (Some(&index), Some(number)) = (ir.regions[body].args.first(), &trip.index) {
                    self.values[index.index()] = Known::Number(number.clone());
                }
                let first = self.facts.all.len();
                for (fact, deps) in &trip.facts {
                    self.facts.add(&self.atoms, fact.clone(), *deps);
                }
                self.add_parts(first);
            }
            for RegisterStep { register, initial, step } in &registers {
                if let Some(known) = self.moved(initial, step, &count) {
                    self.vars.insert(*register, known);
                }
            }
            let inside = self.mark();
            self.region(body);
            self.back_to(inside);
            self.vars.clone_from(&after_vars);
            let is_kept = match self.obligations.get(&id) {
                Some(all) => !all.is_empty(),
                None => true,
            };
            if is_kept {
                break;
            }
            // A carried value may wrap: once more without the promise.
            self.generation += 1;
            self.sites.truncate(before.0);
            if let Some(all) = self.breaks.get_mut(&id) {
                all.truncate(before.1);
            }
            self.back_to(mark);
        }
        self.back_to(mark);
        self.loop_results(id, control, &initial, &steps, trip.as_ref());
    }

    /// What is known about a carried value in the body, and the promise that it relies on.
    fn carried(
        &mut self,
        arg: Value,
        initial: Option<&Known>,
        step: Option<&Number>,
        count: &Poly,
        promises: bool,
    ) -> Option<(Known, Option<Obligation>)> {
        let step = step?;
        match initial? {
            Known::Number(initial) => {
                let poly = initial.poly.plus(&step.poly.times(count)?)?;
                let deps = initial.deps | step.deps;
                let all = of_type(self.ir.type_of(arg))?;
                let known = Known::Number(Number { poly: poly.clone(), deps });
                if step.poly == Poly::default() || self.atoms.range(&poly).is_within(all) {
                    return Some((known, None));
                }
                if !promises {
                    return Some((known, None));
                }
                let next = poly.plus(&step.poly)?;
                let obligation = Obligation { next, range: all, deps, requirement: 0 };
                Some((known, Some(obligation)))
            }
            initial @ Known::Pointer(_) => Some((self.moved(initial, step, count)?, None)),
            known if step.poly == Poly::default() => Some((known.clone(), None)),
            _ => None,
        }
    }

    /// What is known about a value after `count` steps.
    fn moved(&mut self, initial: &Known, step: &Number, count: &Poly) -> Option<Known> {
        let moved = step.poly.times(count)?;
        Some(match initial {
            Known::Number(initial) => {
                let poly = initial.poly.plus(&moved)?;
                Known::Number(Number { poly, deps: initial.deps | step.deps })
            }
            Known::Pointer(initial) => {
                let mut pointer = Pointer::clone(initial);
                pointer.deps |= step.deps;
                self.advance(&mut pointer, &moved)?;
                Known::Pointer(Rc::new(pointer))
            }
            Known::Cond(_) | Known::Nothing => return None,
        })
    }

    /// At a `continue`, the promises about carried values must hold for the next iteration.
    pub(super) fn continue_(&mut self, target: OpId) {
        let Some(all) = self.obligations.get(&target).cloned() else { return };
        for obligation in all {
            let own = 1 << obligation.requirement;
            match self.is_within(&obligation.next, obligation.range) {
                Some(deps) => {
                    let deps = (deps | obligation.deps) & !own;
                    if let Some(Requirement::Loop { deps: known, .. }) =
                        self.requirements.get_mut(obligation.requirement)
                    {
                        *known |= deps;
                    }
                }
                None => {
                    // An empty list says that a promise was broken.
                    self.obligations.insert(target, Vec::new());
                    return;
                }
            }
        }
    }

    fn loop_results(
        &mut self,
        id: OpId,
        control: &Control,
        initial: &[Known],
        steps: &[Option<Number>],
        trip: Option<&Trip>,
    ) {
        let ir = self.ir;
        let breaks = self.breaks.remove(&id).unwrap_or_default();
        for (i, &result) in ir.ops[id].results.iter().enumerate() {
            let known = if let Control::Loop { .. } = control {
                match &breaks[..] {
                    [one] => one.get(i).cloned(),
                    _ => None,
                }
            } else if !breaks.is_empty() {
                None
            } else {
                self.after_for(id, initial.get(i), steps.get(i), trip)
            };
            self.values[result.index()] = known.unwrap_or(Known::Nothing);
        }
    }

    /// What is known about a carried value after a `for`.
    fn after_for(
        &mut self,
        id: OpId,
        initial: Option<&Known>,
        step: Option<&Option<Number>>,
        trip: Option<&Trip>,
    ) -> Option<Known> {
        let (step, trip) = (step?.as_ref()?, trip?);
        if step.poly == Poly::default() {
            return initial.cloned();
        }
        let Known::Number(initial) = initial? else { return None };
        let total = match trip.total {
            Some(total) => Poly::constant(total),
            None => self.atoms.of(Key::Trips(id, self.generation), Range::new(0, trip.most), 1),
        };
        let poly = initial.poly.plus(&step.poly.times(&total)?)?;
        Some(Known::Number(Number { poly, deps: initial.deps | step.deps }))
    }

    /// Describes the iterations of a `for`.
    fn trip(&mut self, id: OpId, control: &Control) -> Option<Trip> {
        let Control::For { lo, hi, step, .. } = control else { return None };
        let (lo, hi) = (self.exact(*lo)?, self.exact(*hi)?);
        let step_value = *step;
        let step = self.exact(step_value)?;
        if constant_of(self.ir, step_value).is_none() {
            let positive = step.poly.plus_constant(-1)?;
            let found = self.ensure(&positive);
            let verdict = match found {
                Some(deps) => Verdict::Relies(deps | step.deps),
                None => Verdict::Open(Open::Bound(Box::new(positive.clone()))),
            };
            self.sites.push(Site { op: id, subject: Subject::Step, verdict });
        }
        let (low, high) = (self.atoms.range(&lo.poly), self.atoms.range(&hi.poly));
        let by = self.atoms.range(&step.poly).lo.max(1);
        let most = (high.hi - low.lo).max(1);
        // At most ceil((hi - lo) / step) iterations.
        let most = (most + by - 1) / by;
        let total = match (lo.poly.as_constant(), hi.poly.as_constant(), step.poly.as_constant()) {
            (Some(lo), Some(hi), Some(step)) if step > 0 => {
                Some(((hi - lo).max(0) + step - 1) / step)
            }
            _ => None,
        };
        let count = self.atoms.of(Key::Trip(id, self.generation), Range::new(0, most - 1), 1);
        let index = step.poly.times(&count).and_then(|moved| lo.poly.plus(&moved));
        let deps = lo.deps | hi.deps | step.deps;
        let mut facts = Vec::new();
        if let Some(left) = hi.poly.minus(&lo.poly).and_then(|left| left.plus_constant(-1)) {
            facts.push((left, deps));
        }
        if let Some(index) = &index
            && let Some(left) = hi.poly.minus(index).and_then(|left| left.plus_constant(-1))
        {
            facts.push((left, deps));
        }
        Some(Trip { count, index: index.map(|poly| Number { poly, deps }), facts, total, most })
    }

    fn forget_vars(&mut self, region: RegionId) {
        let ir = self.ir;
        if self.vars.is_empty() {
            return;
        }
        for &op in &ir.regions[region].ops {
            if let Op::Mem(Mem::SetVar { var, index, .. }) = ir.ops[op].op {
                self.vars.remove(&(var, index));
            }
            for inner in ir.ops[op].op.regions() {
                self.forget_vars(inner);
            }
        }
    }
}
