//! The second walk: follows integers, conditions and pointers through the regions of a kernel, and
//! asks at each access whether it is inside its allocation.
//!
//! A value of a kernel is followed as the integer that it would be if nothing wrapped. So it is
//! *congruent* to its polynomial modulo the width of its type, and equal to it if the polynomial
//! stays within the type. This is decided where the value is used rather than where it is computed,
//! because there the guards help: `row*n + col` of a thread outside the matrix may wrap, but the
//! guard `row < m` comes before the access.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::atom::{Atoms, Choice, Key};
use super::claim::{Claim, Cond, Deps, MAX_DEPS};
use super::entail::{Answer, Found, Search};
use super::facts::{Facts, Mark};
use super::numbers;
use super::pointer::{Pointer, Root};
use super::poly::Poly;
use super::range::Range;
use super::ranges::{Ranges, constant_of, of_register, of_type};
use super::site::{Open, Requirement, Site, Subject, Verdict};
use crate::ir::op::{
    Arith, Axis, Compare, Control, Convert, IntArith, Mem, Op, ShflMode, SpecialReg, Thread, Warp,
};
use crate::ir::types::{Scalar, Type};
use crate::ir::{Entity, KernelIr, OpId, RegionId, Value, ValueDef, VarId};

/// Offsets up to this many bytes never leave the range of 64 bits when a few are added.
const SMALL: i128 = 1 << 58;

/// An integer: congruent to `poly` modulo the width of its type, if the conditions of `deps` hold.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) poly: Poly,
    pub(super) deps: Deps,
}

/// What is known about a value.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Number(Number),
    Cond(Rc<Cond>),
    Pointer(Rc<Pointer>),
    Nothing,
}

pub(super) struct Walk<'k> {
    pub(super) ir: &'k KernelIr,
    ranges: Ranges,
    pub(super) atoms: Atoms,
    pub(super) facts: Facts,
    values: Vec<Known>,
    /// Values that were shown not to wrap here, and what that relies on.
    exact: HashMap<Value, Deps>,
    exact_undo: Vec<Value>,
    /// The registers of variables whose present value is known.
    vars: HashMap<(VarId, u32), Known>,
    /// What each `yield` passed, by its region.
    yields: HashMap<RegionId, Vec<Known>>,
    /// What the `break`s of each loop passed.
    breaks: HashMap<OpId, Vec<Vec<Known>>>,
    /// The `continue`s of each loop.
    continues: HashMap<OpId, Vec<OpId>>,
    /// Carried values that are assumed not to wrap: `value + step` must stay within its type at each
    /// `continue`.
    obligations: HashMap<OpId, Vec<Obligation>>,
    pub(super) requirements: Vec<Requirement>,
    /// How often a loop's body was walked again. Unknowns of different walks are not the same.
    generation: u32,
    pub(super) sites: Vec<Site>,
}

#[derive(Clone, Debug)]
struct Obligation {
    next: Poly,
    range: Range,
    deps: Deps,
    /// The launch condition that stands for all obligations of the loop.
    requirement: usize,
}

impl<'k> Walk<'k> {
    pub(super) fn new(ir: &'k KernelIr) -> Walk<'k> {
        let mut continues: HashMap<OpId, Vec<OpId>> = HashMap::new();
        for (id, data) in ir.ops.iter() {
            if let Op::Control(Control::Continue { target, .. }) = data.op {
                continues.entry(target).or_default().push(id);
            }
        }
        let mut walk = Walk {
            ir,
            ranges: Ranges::new(ir),
            atoms: Atoms::default(),
            facts: Facts::default(),
            values: vec![Known::Nothing; ir.values.len()],
            exact: HashMap::new(),
            exact_undo: Vec::new(),
            vars: HashMap::new(),
            yields: HashMap::new(),
            breaks: HashMap::new(),
            continues,
            obligations: HashMap::new(),
            requirements: Vec::new(),
            generation: 0,
            sites: Vec::new(),
        };
        for (i, param) in ir.params.iter().enumerate() {
            let i = i as u32;
            let known = match ir.type_of(param.value) {
                Type::Pointer { .. } => Known::Pointer(Rc::new(Pointer::new(Root::Param(i)))),
                ty => match of_type(ty) {
                    Some(range) => {
                        let poly = walk.atoms.of(Key::Param(i), range, 1);
                        Known::Number(Number { poly, deps: 0 })
                    }
                    None => Known::Nothing,
                },
            };
            walk.values[param.value.index()] = known;
        }
        walk
    }

    /// Adds a fact that holds everywhere.
    pub(super) fn assume_everywhere(&mut self, poly: Poly) {
        self.facts.add(&self.atoms, poly, 0);
        self.facts.universal = self.facts.all.len();
    }

    /// The element count of a buffer.
    pub(super) fn len(&mut self, param: u32) -> Poly {
        // No address space has more bytes than this.
        self.atoms.of(Key::Len(param), Range::new(0, 1 << 60), 1)
    }

    pub(super) fn run(&mut self) {
        self.registers();
        self.region(self.ir.body);
    }

    /// Relates indices with sizes: `tid.x < ntid.x`, and so on.
    fn registers(&mut self) {
        use SpecialReg as R;
        let mut pairs = Vec::new();
        for axis in Axis::ALL {
            pairs.push((R::Tid(axis), R::Ntid(axis)));
            pairs.push((R::Ctaid(axis), R::Nctaid(axis)));
            pairs.push((R::ClusterId(axis), R::NClusterId(axis)));
            pairs.push((R::ClusterCtaid(axis), R::ClusterNctaid(axis)));
        }
        pairs.push((R::ClusterCtaRank, R::ClusterNctaRank));
        let registers = self.ir.ops.iter().filter_map(|(_, data)| match data.op {
            Op::Thread(Thread::Sreg { reg }) => Some(reg),
            _ => None,
        });
        let registers: HashSet<R> = registers.collect();
        let used: Vec<(R, R)> =
            pairs.into_iter().filter(|(index, _)| registers.contains(index)).collect();
        for (index, count) in used {
            let (index, count) = (self.register(index), self.register(count));
            if let Some(left) = count.minus(&index).and_then(|left| left.plus_constant(-1)) {
                self.facts.add(&self.atoms, left, 0);
            }
        }
        self.facts.universal = self.facts.all.len();
    }

    fn register(&mut self, reg: SpecialReg) -> Poly {
        if let (SpecialReg::LaneId, Some([_, 1, 1])) = (reg, self.ir.bounds.block) {
            let thread = self.register(SpecialReg::Tid(Axis::X));
            if let Some(lane) = numbers::rem(&mut self.atoms, &thread, &Poly::constant(32)) {
                return lane;
            }
        }
        self.atoms.of(Key::Register(reg), of_register(self.ir, reg), 1)
    }

    // ---- what is known ----

    pub(super) fn known(&self, value: Value) -> &Known {
        &self.values[value.index()]
    }

    /// Makes the value an unknown of its own.
    fn unknown(&mut self, value: Value) -> Number {
        let (range, multiple) = (self.ranges.of(self.ir, value), self.ranges.multiple(value));
        Number { poly: self.atoms.of(Key::Value(value, self.generation), range, multiple), deps: 0 }
    }

    /// Returns the integer that the value is congruent to.
    fn number(&mut self, value: Value) -> Option<Number> {
        match self.known(value) {
            Known::Number(number) => Some(number.clone()),
            _ if of_type(self.ir.type_of(value)).is_some() => {
                let number = self.unknown(value);
                self.values[value.index()] = Known::Number(number.clone());
                Some(number)
            }
            _ => None,
        }
    }

    /// Returns the integer that the value is. If it may have wrapped, that is an unknown.
    pub(super) fn exact(&mut self, value: Value) -> Option<Number> {
        let number = self.number(value)?;
        let all = of_type(self.ir.type_of(value))?;
        if self.atoms.range(&number.poly).is_within(all) {
            return Some(number);
        }
        if let Some(deps) = self.exact.get(&value) {
            return Some(Number { poly: number.poly, deps: number.deps | deps });
        }
        if let Some(deps) = self.is_within(&number.poly, all) {
            self.exact.insert(value, deps);
            self.exact_undo.push(value);
            return Some(Number { poly: number.poly, deps: number.deps | deps });
        }
        let number = self.unknown(value);
        self.values[value.index()] = Known::Number(number.clone());
        Some(number)
    }

    fn is_within(&mut self, poly: &Poly, all: Range) -> Option<Deps> {
        let (range, deps) = self.facts.range_of(&self.atoms, poly);
        if range.is_within(all) {
            return Some(deps);
        }
        let above = poly.plus_constant(-all.lo)?;
        let below = poly.scaled(-1)?.plus_constant(all.hi)?;
        Some(self.ensure(&above)? | self.ensure(&below)?)
    }

    /// Adds an index to a pointer, in elements of `bytes` bytes.
    ///
    /// Addresses have 64 bits, so an index of 64 bits may wrap on its way as long as the whole offset
    /// ends inside the allocation.
    pub(super) fn advanced(
        &mut self,
        pointer: &Pointer,
        index: Value,
        bytes: i128,
    ) -> Option<Pointer> {
        let is_wide = self.ir.type_of(index).bits() == 64;
        let number = if is_wide { self.number(index)? } else { self.exact(index)? };
        let mut pointer = pointer.clone();
        pointer.deps |= number.deps;
        self.advance(&mut pointer, &number.poly.scaled(bytes)?)?;
        Some(pointer)
    }

    /// Adds an offset in bytes to a pointer.
    fn advance(&mut self, pointer: &mut Pointer, by: &Poly) -> Option<()> {
        let small = Range::new(-SMALL, SMALL);
        if !self.atoms.range(by).is_within(small) {
            if pointer.is_loose {
                pointer.deps |= self.is_within(by, small)?;
            }
            pointer.is_loose = true;
        }
        pointer.offset = numbers::tidy(&mut self.atoms, pointer.offset.plus(by)?);
        pointer.since = numbers::tidy(&mut self.atoms, pointer.since.plus(by)?);
        Some(())
    }

    fn cond(&self, value: Value) -> Option<Rc<Cond>> {
        if let Some(constant) = constant_of(self.ir, value) {
            return Some(Rc::new(Cond::known(constant.bits() & 1 == 1)));
        }
        match self.known(value) {
            Known::Cond(cond) => Some(Rc::clone(cond)),
            _ => None,
        }
    }

    pub(super) fn pointer(&self, value: Value) -> Rc<Pointer> {
        match self.known(value) {
            Known::Pointer(pointer) => Rc::clone(pointer),
            _ => Rc::new(Pointer::new(Root::Unknown)),
        }
    }

    // ---- decisions ----

    /// Returns what it relies on that the polynomial is never negative here, perhaps a new launch
    /// condition; `None` if nothing makes it so.
    pub(super) fn ensure(&mut self, poly: &Poly) -> Option<Deps> {
        match Search::new(&mut self.atoms, &mut self.facts).decide(poly) {
            Answer::Yes(deps) => Some(deps),
            Answer::If(found) => self.require(found),
        }
    }

    /// Returns whether the polynomial is never negative here for every launch.
    pub(super) fn is_known(&mut self, poly: &Poly) -> Option<Deps> {
        Search::new(&mut self.atoms, &mut self.facts).is_known(poly)
    }

    fn assume(&mut self, claims: &[Claim], deps: Deps) {
        for claim in claims {
            self.refine_remainder(claim, deps);
            Search::new(&mut self.atoms, &mut self.facts).assume(claim, deps);
        }
    }

    /// A remainder of zero makes the dividend a multiple.
    fn refine_remainder(&mut self, claim: &Claim, deps: Deps) {
        let Claim::Eq(poly) = claim else { return };
        let Some(atom) = poly.as_atom().or_else(|| poly.scaled(-1)?.as_atom()) else { return };
        let Key::Rem(value, by) = self.atoms.get(atom).key.clone() else { return };
        self.assume_multiple(&value, &by, deps);
    }

    /// Notes that the polynomial is a multiple of `by`.
    pub(super) fn assume_multiple(&mut self, value: &Poly, by: &Poly, deps: Deps) {
        let whole = numbers::div(&mut self.atoms, value, by)
            .and_then(|quotient| value.minus(&quotient.times(by)?));
        if let Some(rest) = whole {
            self.facts.add_equal(&self.atoms, &rest, deps);
        }
    }

    /// Adds the launch condition that one of the polynomials is at least 0.
    fn require(&mut self, found: Vec<Found>) -> Option<Deps> {
        if found.is_empty() {
            return None;
        }
        let mut any: Vec<Vec<Poly>> = Vec::new();
        let mut deps = 0;
        for Found { all, deps: own } in found {
            let all: Vec<Poly> = all.iter().filter_map(|poly| simplified(poly)).collect();
            deps |= own;
            // Leave out what says more than another one.
            if any.iter().any(|known| is_implied(known, &all)) {
                continue;
            }
            any.retain(|known| !is_implied(&all, known));
            any.push(all);
        }
        // The access happens only if the guards hold that the launch decides.
        let guards = self.facts.all.get(self.facts.universal..).unwrap_or_default();
        let guards = guards.iter().filter(|fact| fact.deps == 0);
        for fact in guards.filter(|fact| self.atoms.is_launch(&fact.poly)).take(3) {
            let Some(never) = fact.poly.scaled(-1).and_then(|poly| poly.plus_constant(-1)) else {
                continue;
            };
            let never = vec![never];
            if !any.contains(&never) {
                any.push(never);
            }
        }
        self.require_all(Requirement::Any { any, deps })
    }

    pub(super) fn require_all(&mut self, requirement: Requirement) -> Option<Deps> {
        let own = requirement.deps();
        let index = match self.requirements.iter().position(|known| *known == requirement) {
            Some(index) => index,
            None => {
                self.requirements.push(requirement);
                self.requirements.len() - 1
            }
        };
        (index < MAX_DEPS).then(|| own | 1 << index)
    }

    // ---- regions ----

    fn mark(&self) -> (Mark, usize) {
        (self.facts.mark(), self.exact_undo.len())
    }

    fn back_to(&mut self, (mark, exact): (Mark, usize)) {
        self.facts.back_to(mark);
        for value in self.exact_undo.drain(exact..) {
            self.exact.remove(&value);
        }
    }

    fn region(&mut self, region: RegionId) {
        let ir = self.ir;
        for &id in &ir.regions[region].ops {
            self.op(id);
        }
    }

    fn op(&mut self, id: OpId) {
        let data = &self.ir.ops[id];
        match &data.op {
            Op::Control(control) => self.control(id, control),
            _ => {
                self.check(id);
                self.evaluate(id);
            }
        }
    }

    fn control(&mut self, id: OpId, control: &Control) {
        match control {
            Control::If { cond, then_region, else_region } => {
                self.if_(id, *cond, *then_region, *else_region);
            }
            Control::For { .. } | Control::Loop { .. } => self.loop_(id, control),
            Control::Yield { values } => {
                let region = self.ir.ops[id].region;
                let passed = self.passed(values);
                self.yields.insert(region, passed);
            }
            Control::Break { target, values } => {
                let passed = self.passed(values);
                self.breaks.entry(*target).or_default().push(passed);
            }
            Control::Continue { target, .. } => self.continue_(*target),
            Control::Return => {}
        }
    }

    /// What is known about values that a region passes on.
    fn passed(&mut self, values: &[Value]) -> Vec<Known> {
        values
            .iter()
            .map(|value| match self.exact(*value) {
                Some(number) => Known::Number(number),
                None => match self.cond(*value) {
                    Some(cond) => Known::Cond(cond),
                    None => self.known(*value).clone(),
                },
            })
            .collect()
    }

    fn if_(&mut self, id: OpId, cond: Value, then_region: RegionId, else_region: Option<RegionId>) {
        let ir = self.ir;
        let cond = self.cond(cond).unwrap_or_default();
        let before = self.vars.clone();
        let mark = self.mark();
        self.assume(&cond.yes, cond.deps);
        self.region(then_region);
        self.back_to(mark);
        let after_then = std::mem::replace(&mut self.vars, before);
        if let Some(region) = else_region {
            self.assume(&cond.no, cond.deps);
            self.region(region);
            self.back_to(mark);
        }
        let falls = |region: RegionId| ir.falls_through(region);
        let (then_falls, else_falls) = (falls(then_region), else_region.is_none_or(falls));
        match (then_falls, else_falls) {
            (true, true) => self.vars.retain(|var, known| {
                matches!((known, after_then.get(var)),
                    (Known::Number(a), Some(Known::Number(b))) if a.poly == b.poly && a.deps == b.deps)
            }),
            (true, false) => self.vars = after_then,
            (false, _) => {}
        }
        let results = &ir.ops[id].results;
        let passed = |walk: &mut Self, region: Option<RegionId>| {
            region.and_then(|region| walk.yields.remove(&region)).unwrap_or_default()
        };
        let (yes, no) = (passed(self, Some(then_region)), passed(self, else_region));
        for (i, &result) in results.iter().enumerate() {
            let known = match (then_falls, else_falls) {
                (true, false) => yes.get(i).cloned().unwrap_or(Known::Nothing),
                (false, true) => no.get(i).cloned().unwrap_or(Known::Nothing),
                _ => match (yes.get(i), no.get(i)) {
                    (Some(yes), Some(no)) => self.either(result, &cond, yes, no),
                    _ => Known::Nothing,
                },
            };
            self.values[result.index()] = known;
        }
        // Only one of the two arms leads to what follows.
        if !then_falls {
            self.assume(&cond.no, cond.deps);
        } else if !else_falls {
            self.assume(&cond.yes, cond.deps);
        }
    }

    /// What is known about a value that is `yes` where the condition holds, else `no`.
    fn either(&mut self, result: Value, cond: &Rc<Cond>, yes: &Known, no: &Known) -> Known {
        match (yes, no) {
            (Known::Number(yes), Known::Number(no)) => {
                if yes.poly == no.poly {
                    return Known::Number(Number {
                        poly: yes.poly.clone(),
                        deps: yes.deps | no.deps,
                    });
                }
                let range = self.ranges.of(self.ir, result);
                let choice =
                    Choice { cond: Rc::clone(cond), yes: yes.poly.clone(), no: no.poly.clone() };
                let poly = self.atoms.choose((result, self.generation), range, choice);
                Known::Number(Number { poly, deps: yes.deps | no.deps })
            }
            (Known::Cond(yes), Known::Cond(no)) => {
                let [a, b] = [cond.and(yes), cond.not().and(no)];
                Known::Cond(Rc::new(a.or(&b)))
            }
            (Known::Pointer(a), Known::Pointer(b)) if a.root == b.root => {
                if a == b {
                    return yes.clone();
                }
                let choice =
                    Choice { cond: Rc::clone(cond), yes: a.offset.clone(), no: b.offset.clone() };
                let offset = self.atoms.choose((result, self.generation), Range::ALL, choice);
                let mut pointer = Pointer::new(a.root);
                pointer.offset = offset.clone();
                pointer.since = offset;
                pointer.deps = a.deps | b.deps;
                pointer.is_loose = a.is_loose || b.is_loose;
                Known::Pointer(Rc::new(pointer))
            }
            _ => Known::Nothing,
        }
    }

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

    fn loop_(&mut self, id: OpId, control: &Control) {
        let ir = self.ir;
        let (init, body) = match control {
            Control::For { init, body, .. } | Control::Loop { init, body } => (init, *body),
            _ => return,
        };
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
                    None => (Known::Nothing, None),
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
                for (fact, deps) in &trip.facts {
                    self.facts.add(&self.atoms, fact.clone(), *deps);
                }
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
    fn continue_(&mut self, target: OpId) {
        let Some(all) = self.obligations.get(&target).cloned() else { return };
        if self.facts.dead.is_some() {
            return;
        }
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
            let known = match control {
                Control::Loop { .. } => match &breaks[..] {
                    [one] => one.get(i).cloned(),
                    _ => None,
                },
                _ if !breaks.is_empty() => None,
                _ => self.after_for(id, initial.get(i), steps.get(i), trip),
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
                None => Verdict::Open(Open::Bound(positive.clone())),
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

    // ---- operations ----

    fn evaluate(&mut self, id: OpId) {
        let ir = self.ir;
        let data = &ir.ops[id];
        if let Op::Mem(Mem::SetVar { value, var, index }) = data.op {
            let ty = ir.vars[var].ty;
            if of_type(ty).is_none() && ty.scalar() != Some(Scalar::Bool) && ty.scalar().is_some() {
                return;
            }
            let known = match self.exact(value) {
                Some(number) => Known::Number(number),
                None => self.known(value).clone(),
            };
            self.vars.insert((var, index), known);
            return;
        }
        let Some(&result) = data.results.first() else { return };
        let ty = ir.type_of(result);
        let known = match ty {
            Type::Pointer { .. } => self.pointer_of(&data.op, result),
            _ if ty.scalar() == Some(Scalar::Bool) => {
                self.cond_of(&data.op).map(|cond| Known::Cond(Rc::new(cond)))
            }
            _ if of_type(ty).is_some() => self.number_of(&data.op, result).map(|number| {
                let poly = numbers::tidy(&mut self.atoms, number.poly);
                Known::Number(Number { poly, deps: number.deps })
            }),
            _ => None,
        };
        self.values[result.index()] = known.unwrap_or(Known::Nothing);
    }

    pub(super) fn elem_bytes(&self, pointer: Value) -> i128 {
        match self.ir.type_of(pointer) {
            Type::Pointer { elem, .. } => elem.size_bytes().into(),
            _ => 1,
        }
    }

    fn pointer_of(&mut self, op: &Op, result: Value) -> Option<Known> {
        if let Op::Arith(Arith::Selp { cond, then_value, else_value }) = *op {
            let cond = self.cond(cond).unwrap_or_default();
            let (yes, no) = (self.known(then_value).clone(), self.known(else_value).clone());
            return Some(self.either(result, &cond, &yes, &no));
        }
        let Op::Mem(mem) = op else { return None };
        let pointer = if let Mem::SharedBase { shared } = *mem {
            Pointer::new(Root::Shared(shared))
        } else if let Mem::LocalBase { local } = *mem {
            Pointer::new(Root::Local(local))
        } else if let Mem::ArrayBase { array } = *mem {
            Pointer::new(Root::Array(array))
        } else if let Mem::IntToPtr { .. } = *mem {
            Pointer::new(Root::Integer)
        } else if let Mem::Offset { base, index } = *mem {
            self.advanced(&self.pointer(base), index, self.elem_bytes(base))?
        } else if let Mem::AssumeAligned { base, bytes } = *mem {
            let mut pointer = Pointer::clone(&self.pointer(base));
            pointer.since = Poly::default();
            pointer.since_align = bytes.into();
            pointer
        } else if let Mem::Mapa { base, .. } = *mem {
            let mut pointer = Pointer::clone(&self.pointer(base));
            pointer.root = match pointer.root {
                Root::Shared(shared) => Root::Remote(shared),
                _ => Root::Unknown,
            };
            pointer
        } else if let Mem::PtrCast { base, .. } | Mem::Cvta { base } | Mem::CvtaTo { base, .. } =
            *mem
        {
            return Some(self.known(base).clone());
        } else if let Mem::GetVar { var, index } = *mem {
            return self.vars.get(&(var, index)).cloned();
        } else {
            return None;
        };
        Some(Known::Pointer(Rc::new(pointer)))
    }

    fn cond_of(&mut self, op: &Op) -> Option<Cond> {
        let ir = self.ir;
        if let Op::Const(constant) = op {
            return Some(Cond::known(constant.bits() & 1 == 1));
        }
        if let Op::Mem(Mem::GetVar { var, index }) = *op {
            return match self.vars.get(&(var, index)) {
                Some(Known::Cond(cond)) => Some(Cond::clone(cond)),
                _ => None,
            };
        }
        let Op::Arith(arith) = op else { return None };
        let unknown = Rc::new(Cond::default());
        let of =
            |walk: &Self, value: Value| walk.cond(value).unwrap_or_else(|| Rc::clone(&unknown));
        if let Arith::Setp { lhs, rhs, compare } = *arith {
            if ir.type_of(lhs).scalar() == Some(Scalar::Bool) {
                return None;
            }
            let (a, b) = (self.exact(lhs)?, self.exact(rhs)?);
            let deps = a.deps | b.deps;
            let less = b.poly.minus(&a.poly)?;
            let more = a.poly.minus(&b.poly)?;
            let (lt, gt) = (less.plus_constant(-1)?, more.plus_constant(-1)?);
            let (yes, no) = match compare {
                Compare::Lt => (Claim::Ge(lt), Claim::Ge(more)),
                Compare::Le => (Claim::Ge(less), Claim::Ge(gt)),
                Compare::Gt => (Claim::Ge(gt), Claim::Ge(less)),
                Compare::Ge => (Claim::Ge(more), Claim::Ge(lt)),
                Compare::Eq => (Claim::Eq(more.clone()), Claim::Ne(more)),
                Compare::Ne => (Claim::Ne(more.clone()), Claim::Eq(more)),
                _ => return None,
            };
            Some(Cond { yes: vec![yes], no: vec![no], deps })
        } else if let Arith::And { lhs, rhs } = *arith {
            Some(of(self, lhs).and(&of(self, rhs)))
        } else if let Arith::Or { lhs, rhs } = *arith {
            Some(of(self, lhs).or(&of(self, rhs)))
        } else if let Arith::Not { value } = *arith {
            Some(of(self, value).not())
        } else if let Arith::Selp { cond, then_value, else_value } = *arith {
            let (cond, yes, no) = (of(self, cond), of(self, then_value), of(self, else_value));
            Some(cond.and(&yes).or(&cond.not().and(&no)))
        } else {
            None
        }
    }

    fn number_of(&mut self, op: &Op, result: Value) -> Option<Number> {
        let ir = self.ir;
        let bits = ir.type_of(result).bits();
        match op {
            Op::Const(constant) => {
                Some(Number { poly: Poly::constant(constant.as_int()?), deps: 0 })
            }
            Op::Thread(Thread::Sreg { reg }) => Some(Number { poly: self.register(*reg), deps: 0 }),
            Op::Arith(arith) => self.arith(arith, result, bits),
            Op::IntArith(IntArith::Mad { lhs, rhs, addend }) => {
                let (a, b, c) = (self.number(*lhs)?, self.number(*rhs)?, self.number(*addend)?);
                let poly = a.poly.times(&b.poly)?.plus(&c.poly)?;
                Some(Number { poly, deps: a.deps | b.deps | c.deps })
            }
            Op::Convert(Convert::Cvt { value, .. }) => {
                if of_type(ir.type_of(*value)).is_none() {
                    return None;
                }
                if ir.type_of(*value).bits() < bits {
                    self.exact(*value)
                } else {
                    self.number(*value)
                }
            }
            Op::Convert(Convert::Bitcast { value, .. }) => {
                of_type(ir.type_of(*value))?;
                self.number(*value)
            }
            Op::Mem(Mem::GetVar { var, index }) => match self.vars.get(&(*var, *index)) {
                Some(Known::Number(number)) => Some(number.clone()),
                _ => {
                    let range = self.ranges.of_var(ir, *var);
                    Some(Number {
                        poly: self.atoms.of(Key::Value(result, self.generation), range, 1),
                        deps: 0,
                    })
                }
            },
            Op::Mem(Mem::AssumeDivisibleBy { value, divisor }) => {
                let number = self.exact(*value)?;
                self.assume_multiple(&number.poly, &Poly::constant((*divisor).into()), number.deps);
                Some(number)
            }
            Op::Mem(Mem::AssumeBetween { value, low, high }) => {
                let (value, low, high) =
                    (self.exact(*value)?, self.exact(*low)?, self.exact(*high)?);
                let deps = value.deps | low.deps | high.deps;
                for (a, b) in [(&value, &low), (&high, &value)] {
                    if let Some(left) = a.poly.minus(&b.poly) {
                        self.facts.add(&self.atoms, left, deps);
                    }
                }
                Some(value)
            }
            Op::Warp(Warp::Shfl { value, mode: ShflMode::Idx, .. }) => {
                let number = self.exact(*value)?;
                self.is_uniform(&number.poly).then_some(number)
            }
            _ => None,
        }
    }

    /// Returns whether all threads of a warp have the same value.
    fn is_uniform(&self, poly: &Poly) -> bool {
        let is_flat = matches!(self.ir.bounds.block, Some([_, 1, 1]));
        poly.atoms().all(|atom| {
            let atom = self.atoms.get(atom);
            atom.is_launch
                || match &atom.key {
                    Key::Register(SpecialReg::Ctaid(_) | SpecialReg::ClusterCtaRank) => true,
                    Key::Div(value, by) => {
                        let thread = Key::Register(SpecialReg::Tid(Axis::X));
                        is_flat
                            && by.as_constant().is_some_and(|by| by % 32 == 0)
                            && value
                                .as_atom()
                                .is_some_and(|atom| self.atoms.get(atom).key == thread)
                    }
                    _ => false,
                }
        })
    }

    fn arith(&mut self, arith: &Arith, result: Value, bits: u32) -> Option<Number> {
        let ir = self.ir;
        // Modulo the width of the type.
        let pair = |walk: &mut Self, a: Value, b: Value| Some((walk.number(a)?, walk.number(b)?));
        if let Arith::Add { lhs, rhs } = *arith {
            let (a, b) = pair(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.plus(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::Sub { lhs, rhs } = *arith {
            let (a, b) = pair(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.minus(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::Mul { lhs, rhs } = *arith {
            let (a, b) = pair(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.times(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::Neg { value } = *arith {
            let a = self.number(value)?;
            return Some(Number { poly: a.poly.scaled(-1)?, deps: a.deps });
        }
        if let Arith::Shl { value, amount } = *arith {
            let a = self.number(value)?;
            let amount = constant_of(ir, amount)?.as_int()?;
            let factor = 1i128.checked_shl(u32::try_from(amount).ok().filter(|n| *n < bits)?)?;
            return Some(Number { poly: a.poly.scaled(factor)?, deps: a.deps });
        }
        // The lowest bits of a value are those of the integer that it is congruent to.
        if let Arith::And { lhs, rhs } = *arith {
            for (value, mask) in [(lhs, rhs), (rhs, lhs)] {
                let mask = constant_of(ir, mask).and_then(|mask| mask.as_int());
                if let Some(mask) = mask.filter(|mask| (0..1 << (bits - 1)).contains(mask)) {
                    let a = self.number(value)?;
                    let poly = numbers::and_constant(&mut self.atoms, &a.poly, mask, bits)?;
                    return Some(Number { poly, deps: a.deps });
                }
            }
        }
        // From here on, of the integers that the operands are.
        let exact = |walk: &mut Self, a: Value, b: Value| Some((walk.exact(a)?, walk.exact(b)?));
        if let Arith::MulWide { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.times(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::MadWide { lhs, rhs, addend } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let c = self.number(addend)?;
            let poly = a.poly.times(&b.poly)?.plus(&c.poly)?;
            return Some(Number { poly, deps: a.deps | b.deps | c.deps });
        }
        if let Arith::Div { lhs, rhs } | Arith::Rem { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let mut deps = a.deps | b.deps;
            // Rounding toward zero and rounding down agree if nothing is negative.
            deps |= self.ensure(&a.poly)?;
            deps |= self.ensure(&b.poly.plus_constant(-1)?)?;
            let poly = match arith {
                Arith::Div { .. } => numbers::div(&mut self.atoms, &a.poly, &b.poly)?,
                _ => numbers::rem(&mut self.atoms, &a.poly, &b.poly)?,
            };
            return Some(Number { poly, deps });
        }
        if let Arith::Min { lhs, rhs } | Arith::Max { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let is_min = matches!(arith, Arith::Min { .. });
            let poly = numbers::min_max(&mut self.atoms, &a.poly, &b.poly, is_min);
            return Some(Number { poly, deps: a.deps | b.deps });
        }
        if let Arith::Abs { value } = *arith {
            let a = self.exact(value)?;
            return (self.atoms.range(&a.poly).lo >= 0).then_some(a);
        }
        if let Arith::Shr { value, amount } = *arith {
            let a = self.exact(value)?;
            let amount = constant_of(ir, amount)?.as_int()?;
            let factor = 1i128.checked_shl(u32::try_from(amount).ok().filter(|n| *n < bits)?)?;
            let poly = numbers::div(&mut self.atoms, &a.poly, &Poly::constant(factor))?;
            return Some(Number { poly, deps: a.deps });
        }
        if let Arith::Bfe { value, start, count } = *arith {
            let unsigned = of_type(ir.type_of(value))?.lo == 0;
            let a = self.exact(value)?;
            let start = constant_of(ir, start)?.as_int()?;
            let count = constant_of(ir, count)?.as_int()?;
            if !unsigned || !(0..64).contains(&start) || !(0..=64).contains(&count) {
                return None;
            }
            let poly = numbers::div(&mut self.atoms, &a.poly, &Poly::constant(1 << start))?;
            let poly = numbers::rem(&mut self.atoms, &poly, &Poly::constant(1 << count))?;
            return Some(Number { poly, deps: a.deps });
        }
        if let Arith::And { lhs, rhs } | Arith::Or { lhs, rhs } | Arith::Xor { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let deps = a.deps | b.deps;
            if let Arith::And { .. } = arith {
                for (value, mask) in [(&a, &b), (&b, &a)] {
                    if let Some(mask) = mask.poly.as_constant()
                        && let Some(poly) =
                            numbers::and_constant(&mut self.atoms, &value.poly, mask, bits)
                    {
                        return Some(Number { poly, deps });
                    }
                }
            }
            let poly = match arith {
                Arith::And { .. } => numbers::and(&mut self.atoms, &a.poly, &b.poly)?,
                Arith::Or { .. } => numbers::or(&mut self.atoms, &a.poly, &b.poly)?,
                _ => numbers::xor(&mut self.atoms, &a.poly, &b.poly)?,
            };
            return Some(Number { poly, deps });
        }
        if let Arith::Selp { cond, then_value, else_value } = *arith {
            let (yes, no) = exact(self, then_value, else_value)?;
            let cond = self.cond(cond).unwrap_or_default();
            let (yes, no) = (Known::Number(yes), Known::Number(no));
            return match self.either(result, &cond, &yes, &no) {
                Known::Number(number) => Some(number),
                _ => None,
            };
        }
        None
    }
}

/// Divides `poly >= 0` by the common factor of its terms.
fn simplified(poly: &Poly) -> Option<Poly> {
    let content = i128::try_from(poly.content()).ok()?.max(1);
    let mut poly = poly.clone();
    poly.constant = poly.constant.div_euclid(content);
    for term in &mut poly.terms {
        term.factor /= content;
    }
    Some(poly)
}

/// Returns whether each polynomial of `weak` is one of `strong`, or larger by a constant.
fn is_implied(weak: &[Poly], strong: &[Poly]) -> bool {
    weak.iter().all(|weak| {
        strong.iter().any(|strong| weak.constant >= strong.constant && weak.terms == strong.terms)
    })
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
