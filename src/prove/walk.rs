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
use super::entail::{Answer, Found, ROOM, Search};
use super::facts::{Fact, Facts, Mark};
use super::loops::Obligation;
use super::numbers;
use super::pointer::{Pointer, Root};
use super::poly::{AtomId, Poly, Product, Term};
use super::races::Record;
use super::range::Range;
use super::ranges::{Ranges, constant_of, of_register, of_type};
use super::site::{Open, Requirement, Site};
use crate::ir::op::{Axis, Control, Op, SpecialReg, Thread};
use crate::ir::types::Type;
use crate::ir::{Entity, KernelIr, OpId, RegionId, Value, VarId};

/// Offsets up to this many bytes never leave the range of 64 bits when a few are added.
const SMALL: i128 = 1 << 58;

/// How many guards may weaken a launch condition.
const GUARDS: usize = 6;

/// The steps of a search for a fact that may be useful.
const SHORT: u32 = 40;

/// An integer: congruent to `poly` modulo the width of its type, if the conditions of `deps` hold.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) poly: Poly,
    pub(super) deps: Deps,
}

/// Whether the kernel is wrong where something does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Always,
    /// For example, the index of a thread without work may wrap.
    Perhaps,
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
    pub(super) ranges: Ranges,
    pub(super) atoms: Atoms,
    pub(super) facts: Facts,
    pub(super) values: Vec<Known>,
    /// Values that were shown not to wrap here, and what that relies on.
    pub(super) exact: HashMap<Value, Deps>,
    pub(super) exact_undo: Vec<Value>,
    /// The registers of variables whose present value is known.
    pub(super) vars: HashMap<(VarId, u32), Known>,
    /// What each `yield` passed, by its region.
    pub(super) yields: HashMap<RegionId, Vec<Known>>,
    /// What the `break`s of each loop passed.
    pub(super) breaks: HashMap<OpId, Vec<Vec<Known>>>,
    /// The `continue`s of each loop.
    pub(super) continues: HashMap<OpId, Vec<OpId>>,
    /// Carried values that are assumed not to wrap: `value + step` must stay within its type at
    /// each `continue`.
    pub(super) obligations: HashMap<OpId, Vec<Obligation>>,
    pub(super) requirements: Vec<Requirement>,
    /// How often a loop's body was walked again. Unknowns of different walks are not the same.
    pub(super) generation: u32,
    pub(super) sites: Vec<Site>,
    /// The accesses for a proof of races, if somebody wants one.
    pub(super) records: Option<Vec<Record>>,
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
            records: None,
        };
        for (i, param) in ir.params.iter().enumerate() {
            let i = i as u32;
            let known = match ir.type_of(param.value) {
                Type::Pointer { .. } => Known::Pointer(Rc::new(Pointer::new(Root::Param(i)))),
                ty => match of_type(ty) {
                    Some(range) => {
                        let poly = walk.atoms.of(Key::Param(i), range, 1);
                        walk.presume(&poly);
                        Known::Number(Number { poly, deps: 0 })
                    }
                    None => Known::Nothing,
                },
            };
            walk.values[param.value.index()] = known;
        }
        walk
    }

    /// Prepares the launch condition that a parameter is not negative, for the proofs that need it.
    fn presume(&mut self, param: &Poly) {
        if let Some(atom) = param.as_atom()
            && self.atoms.get(atom).range.lo < 0
            && self.requirements.len() < MAX_DEPS / 4
        {
            let any = vec![vec![param.clone()]];
            if let Some(deps) = self.require_all(Requirement::Any { any, deps: 0 }) {
                self.facts.presumed.insert(atom, deps);
            }
        }
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
        let mark = self.mark();
        self.region(self.ir.body);
        // What a `return` leaves behind holds at the end of the kernel only.
        self.back_to(mark);
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
        let registers = self.ir.ops.iter().filter_map(|(_, data)| {
            if let Op::Thread(Thread::Sreg { reg }) = data.op { Some(reg) } else { None }
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

    pub(super) fn register(&mut self, reg: SpecialReg) -> Poly {
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
    pub(super) fn unknown(&mut self, value: Value) -> Number {
        let (range, multiple) = (self.ranges.of(self.ir, value), self.ranges.multiple(value));
        Number { poly: self.atoms.of(Key::Value(value, self.generation), range, multiple), deps: 0 }
    }

    /// Returns the integer that the value is congruent to.
    pub(super) fn number(&mut self, value: Value) -> Option<Number> {
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
            let poly = self.name(&number.poly, all, deps)?;
            self.values[value.index()] =
                Known::Number(Number { poly: poly.clone(), deps: number.deps });
            return Some(Number { poly, deps: number.deps | deps });
        }
        let number = self.unknown(value);
        self.values[value.index()] = Known::Number(number.clone());
        Some(number)
    }

    /// Names a polynomial that is within a range here, which took a search to find.
    fn name(&mut self, poly: &Poly, all: Range, deps: Deps) -> Option<Poly> {
        if self.atoms.is_launch(poly) {
            return Some(poly.clone());
        }
        let named = self.atoms.named(poly)?;
        if named == *poly && named.terms.len() > 1 {
            return Some(named);
        }
        let above = named.plus_constant(-all.lo)?;
        let below = named.scaled(-1)?.plus_constant(all.hi)?;
        for fact in [above, below] {
            self.facts.add_definition(&self.atoms, fact, deps);
        }
        let start = named.plus_constant(-named.constant)?;
        self.bound_names(&start);
        Some(named)
    }

    /// Adds bounds of the polynomial's named sums: indices are not negative, and inside of a tile.
    pub(super) fn bound_names(&mut self, poly: &Poly) {
        let mut names: Vec<AtomId> = poly.atoms().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let Key::Sum(sum) = self.atoms.get(name).key.clone() else { continue };
            let start = Poly::atom(name);
            if self.facts.all.iter().any(|fact| fact.poly == start) || !self.derive(start.clone()) {
                continue;
            }
            for (count, size) in self.atoms.tile_counts() {
                let own = sum.terms.iter().filter(|term| term.factor.abs() < size);
                let own = Poly { terms: own.cloned().collect(), constant: 0 };
                let own = self.atoms.range(&own).hi.min(size);
                let most = Poly::atom(count).scaled(size);
                let most = most.and_then(|most| most.plus_constant(own - size)?.minus(&start));
                if most.is_some_and(|most| self.derive(most)) {
                    break;
                }
            }
        }
    }

    /// Adds a fact that follows from what is known, if a short search finds it.
    fn derive(&mut self, fact: Poly) -> bool {
        let found = Search::new(&mut self.atoms, &mut self.facts).presumed_within(&fact, SHORT);
        if let Some(deps) = found {
            self.facts.add_definition(&self.atoms, fact, deps);
        }
        found.is_some()
    }

    /// Bounds a quotient by the sizes that its dividend is made of: with `b = s*c`, from `a < n*c`
    /// follows `s*(a/b) < n`.
    pub(super) fn bound_quotient(&mut self, a: &Poly, b: &Poly, quotient: &Poly, deps: Deps) {
        if b.as_constant().is_some() || self.atoms.is_launch(a) {
            return;
        }
        let mut sizes: Vec<AtomId> = Vec::new();
        for atom in a.atoms() {
            if let Key::Rem(_, by) = &self.atoms.get(atom).key {
                sizes.extend(by.atoms().filter(|size| self.atoms.get(*size).is_launch));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        let scale =
            i128::try_from(b.content()).ok().filter(|_| b.constant == 0).unwrap_or(1).max(1);
        let mut unit = b.clone();
        for term in &mut unit.terms {
            term.factor /= scale;
        }
        for size in sizes {
            let size = Poly::atom(size);
            let all = size.times(&unit).and_then(|all| all.minus(a)?.plus_constant(-1));
            let fact = size.plus_scaled(quotient, -scale).and_then(|left| left.plus_constant(-1));
            if let (Some(all), Some(fact)) = (all, fact)
                && let Some(more) =
                    Search::new(&mut self.atoms, &mut self.facts).presumed_within(&all, SHORT)
            {
                self.facts.add_definition(&self.atoms, fact, deps | more);
            }
        }
    }

    pub(super) fn is_within(&mut self, poly: &Poly, all: Range) -> Option<Deps> {
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
    /// Addresses have 64 bits, so an index of 64 bits may wrap on its way as long as the whole
    /// offset ends inside the allocation.
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
    pub(super) fn advance(&mut self, pointer: &mut Pointer, by: &Poly) -> Option<()> {
        if !self.atoms.range(by).is_within(Range::new(-SMALL, SMALL)) {
            pointer.loose.push(by.clone());
        }
        pointer.offset = numbers::tidy(&mut self.atoms, pointer.offset.plus(by)?);
        pointer.since = numbers::tidy(&mut self.atoms, pointer.since.plus(by)?);
        Some(())
    }

    /// Returns what it relies on that no sum of the pointer's offsets wraps on the way, if the whole
    /// offset is inside the allocation.
    pub(super) fn settled(&mut self, pointer: &Pointer) -> Option<Deps> {
        if pointer.loose.len() < 2 {
            return Some(0);
        }
        let mut deps = 0;
        let mut negative = Vec::new();
        for by in &pointer.loose {
            let above = by.plus_constant(SMALL)?;
            match Search::new(&mut self.atoms, &mut self.facts).presumed(&above) {
                Some(own) => deps |= own,
                None => negative.push(by),
            }
        }
        // If none is far below zero, each sum is hardly larger than the whole offset.
        if negative.is_empty() {
            return Some(deps);
        }
        // Else only one may be large.
        let mut deps = 0;
        for by in &pointer.loose[1..] {
            deps |= self.is_within(by, Range::new(-SMALL, SMALL))?;
        }
        Some(deps)
    }

    pub(super) fn cond(&self, value: Value) -> Option<Rc<Cond>> {
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
        self.ensured(poly, Need::Perhaps)
    }

    /// As [`ensure`](Walk::ensure), for something without which the kernel is wrong.
    pub(super) fn ensure_needed(&mut self, poly: &Poly) -> Option<Deps> {
        self.ensured(poly, Need::Always)
    }

    fn ensured(&mut self, poly: &Poly, need: Need) -> Option<Deps> {
        match Search::new(&mut self.atoms, &mut self.facts).decide(poly) {
            Answer::Yes(deps) => return Some(deps),
            Answer::If(found) => {
                if let Some(deps) = self.require(poly, found, need) {
                    return Some(deps);
                }
            }
        }
        match Search::new(&mut self.atoms, &mut self.facts).decide_by_search(poly) {
            Answer::Yes(deps) => Some(deps),
            Answer::If(found) => self.require(poly, found, need),
        }
    }

    /// As [`ensure_needed`](Walk::ensure_needed), separately for the factor of each stride: with
    /// `row*pitch + column`, that neither the row nor the column is negative.
    pub(super) fn ensure_parts(&mut self, poly: &Poly) -> Option<Deps> {
        let (launch, other): (Vec<Term>, Vec<Term>) = poly
            .terms
            .iter()
            .copied()
            .partition(|term| term.atoms.iter().all(|atom| self.atoms.get(*atom).is_launch));
        let mut parts: Vec<(Term, Poly)> = Vec::new();
        for term in other {
            let (launch, other) =
                term.atoms.iter().copied().partition(|atom| self.atoms.get(*atom).is_launch);
            let (stride, own) =
                (Term { atoms: launch, factor: 1 }, Term { atoms: other, factor: term.factor });
            match parts.iter_mut().find(|(known, _)| *known == stride) {
                Some((_, part)) => *part = part.plus(&own.into())?,
                None => parts.push((stride, own.into())),
            }
        }
        let mut rest = Poly::constant(poly.constant);
        for term in launch {
            let own = parts.iter_mut().find_map(|(stride, part)| {
                let quotient = (!stride.atoms.is_empty()).then(|| term.divided(stride))??;
                Some((part, quotient))
            });
            match own {
                Some((part, quotient)) => *part = part.plus(&quotient.into())?,
                None => rest = rest.plus(&term.into())?,
            }
        }
        match parts.iter_mut().find(|(stride, _)| stride.atoms.is_empty()) {
            Some((_, part)) => *part = part.plus(&rest)?,
            None => parts.push((Term { atoms: Product::default(), factor: 1 }, rest)),
        }
        if parts.len() < 2 {
            return None;
        }
        let mut deps = 0;
        for (stride, part) in parts {
            if !stride.atoms.is_empty() {
                deps |= self.ensure(&stride.into())?;
            }
            deps |= self.ensure_needed(&part)?;
        }
        Some(deps)
    }

    /// Returns whether the polynomial is never negative here for every launch.
    pub(super) fn is_known(&mut self, poly: &Poly) -> Option<Deps> {
        Search::new(&mut self.atoms, &mut self.facts).known(poly)
    }

    pub(super) fn assume(&mut self, claims: &[Claim], deps: Deps) {
        for claim in claims {
            if let Claim::Cases(cases) = claim
                && let Some((other, own)) = self.only_case(cases)
            {
                self.assume(other, deps | own);
                continue;
            }
            self.refine_remainder(claim, deps);
            let first = self.facts.all.len();
            Search::new(&mut self.atoms, &mut self.facts).assume(claim, deps);
            self.add_parts(first);
            self.settle_choices(claim, deps);
        }
    }

    /// Adds the parts of the facts from index `first` on: what is at most a minimum is at most each
    /// operand, and what is at least a maximum is at least each operand.
    pub(super) fn add_parts(&mut self, first: usize) {
        let mut i = first;
        while let Some(Fact { poly, deps, part_of, .. }) = self.facts.all.get(i).cloned() {
            let found = poly.terms.iter().find_map(|term| {
                let [atom] = term.atoms[..] else { return None };
                match (&self.atoms.get(atom).key, term.factor > 0) {
                    (Key::Min(a, b), true) | (Key::Max(a, b), false) => {
                        Some((atom, [a.clone(), b.clone()]))
                    }
                    _ => None,
                }
            });
            if let Some((atom, operands)) = found {
                for operand in operands {
                    if let Some(part) = poly.with(atom, &operand) {
                        let part = numbers::tidy(&mut self.atoms, part);
                        self.facts.add_part(&self.atoms, part, deps, part_of.unwrap_or(i));
                    }
                }
            }
            i += 1;
        }
    }

    /// As [`ensure`](Walk::ensure), separately for both operands of a minimum or maximum that a
    /// quotient of the polynomial is made of. Else they lose sight of each other: `(n - min(n, h))/8`
    /// is 0 where the minimum is `n`.
    fn ensure_split(&mut self, poly: &Poly, depth: u32) -> Option<Deps> {
        let depth = depth.checked_sub(1)?;
        let atom = self.atoms.divided_extremum(poly)?;
        let (a, b, is_min) = match self.atoms.get(atom).key.clone() {
            Key::Min(a, b) => (a, b, true),
            Key::Max(a, b) => (a, b, false),
            _ => return None,
        };
        let mut deps = 0;
        for (value, other) in [(&a, &b), (&b, &a)] {
            let (less, more) = if is_min { (value, other) } else { (other, value) };
            let claim = Claim::Ge(more.minus(less)?);
            let guards = self.facts.guards_with(&mut self.atoms, atom, value);
            let mark = self.mark();
            self.assume(&[claim], 0);
            for (guard, own) in guards {
                self.assume(&[guard], own);
            }
            let found = numbers::replaced(&mut self.atoms, poly, atom, value)
                .and_then(|poly| self.ensure(&poly).or_else(|| self.ensure_split(&poly, depth)));
            self.back_to(mark);
            deps |= found?;
        }
        Some(deps)
    }

    /// As [`ensure`](Walk::ensure), by all means.
    pub(super) fn ensure_somehow(&mut self, poly: &Poly) -> Option<Deps> {
        if let Some(deps) = self.ensure(poly).or_else(|| self.ensure_split(poly, 2)) {
            return Some(deps);
        }
        let expanded = self.atoms.expanded(poly)?;
        let rounded = numbers::rounded(&mut self.atoms, &expanded)?;
        self.ensure(&rounded)
    }

    /// Returns what it relies on that one of the claims is wrong here, as far as ranges say.
    fn is_contradicted(&self, claims: &[Claim]) -> Option<Deps> {
        claims.iter().find_map(|claim| {
            let (Claim::Ge(poly) | Claim::Eq(poly) | Claim::Ne(poly)) = claim else { return None };
            let (range, deps) = self.facts.range_of(&self.atoms, poly);
            let is_wrong = match claim {
                Claim::Ge(_) => range.hi < 0,
                Claim::Eq(_) => range.hi < 0 || range.lo > 0,
                _ => range.as_point() == Some(0),
            };
            is_wrong.then_some(deps)
        })
    }

    /// Returns the case that holds if the other one cannot, and what that relies on.
    fn only_case<'c>(&self, [a, b]: &'c [Vec<Claim>; 2]) -> Option<(&'c [Claim], Deps)> {
        let other = |claims, other| Some((other, self.is_contradicted(claims)?));
        other(a, &b[..]).or_else(|| other(b, &a[..]))
    }

    /// Decides about a polynomial in each case of a guard that chooses between two conditions, and
    /// if that does not help without them. `from` is the first pair of cases to look at.
    pub(super) fn by_cases(
        &mut self,
        poly: &Poly,
        from: usize,
        decide: &dyn Fn(&mut Self, &Poly) -> Result<Deps, Open>,
    ) -> Result<Deps, Open> {
        let (poly, settled) = match self.with_choices(poly) {
            (chosen, _) if chosen == *poly => (chosen, 0),
            _ => self.in_case(poly, &[], 0),
        };
        let poly = &poly;
        for i in (from..self.facts.cases.len()).rev() {
            let Some((cases, deps)) = self.facts.cases.get(i).cloned() else { continue };
            let found = cases.iter().try_fold(deps | settled, |all, claims| {
                let (mark, before) = (self.mark(), self.facts.cases.len());
                // Within a case, nothing of the guard is lost.
                self.facts.lost = self.facts.lost.saturating_sub(1);
                let (poly, own) = self.in_case(poly, claims, deps);
                let found = self.by_cases(&poly, before, decide);
                self.back_to(mark);
                Ok::<_, Open>(all | own | found?)
            });
            if found.is_ok() {
                return found;
            }
        }
        decide(self, poly).map(|deps| deps | settled)
    }

    /// Assumes the claims of a case. Returns the polynomial with the values that its choices have
    /// there, and what that relies on.
    fn in_case(&mut self, poly: &Poly, claims: &[Claim], deps: Deps) -> (Poly, Deps) {
        let guards: Vec<(Poly, Deps)> =
            self.facts.guards().map(|fact| (fact.poly.clone(), fact.deps)).collect();
        for claim in claims {
            let (claim, own) = match claim {
                Claim::Ge(poly) => {
                    let (poly, own) = self.with_choices(poly);
                    (Claim::Ge(poly), own)
                }
                other => (other.clone(), 0),
            };
            self.assume(&[claim], deps | own);
        }
        for (guard, own) in guards {
            let (chosen, more) = self.with_choices(&guard);
            if chosen != guard && !self.facts.all.iter().any(|fact| fact.poly == chosen) {
                self.assume(&[Claim::Ge(chosen)], own | more);
            }
        }
        self.with_choices(poly)
    }

    /// Replaces atoms that are one of two values by the one that they are here, as far as ranges
    /// say. Returns what that relies on, too.
    fn with_choices(&mut self, poly: &Poly) -> (Poly, Deps) {
        let (mut poly, mut deps) = (poly.clone(), 0);
        for _ in 0..4 {
            let found = self.atoms.choices(&poly).into_iter().find_map(|atom| {
                let Choice { cond, yes, no } = self.atoms.get(atom).choice.clone()?;
                // The place is inside of an `if` with the same condition.
                let known = self.facts.conds.iter().find(|(known, _)| Rc::ptr_eq(known, &cond));
                if let Some((_, holds)) = known {
                    let value = if *holds { &yes } else { &no };
                    let chosen = numbers::replaced(&mut self.atoms, &poly, atom, value)?;
                    return Some((chosen, cond.deps));
                }
                let (value, own) = match (self.is_contradicted(&cond.no), &cond.yes) {
                    (Some(own), _) => (yes, own),
                    (None, claims) => (no, self.is_contradicted(claims)?),
                };
                let chosen = numbers::replaced(&mut self.atoms, &poly, atom, &value)?;
                Some((chosen, own | cond.deps))
            });
            let Some((chosen, own)) = found else { break };
            (poly, deps) = (chosen, deps | own);
        }
        (poly, deps)
    }

    /// If a claim is about an atom that is one of two values, and does not hold for one of them, the
    /// atom is the other one, and its condition holds.
    fn settle_choices(&mut self, claim: &Claim, deps: Deps) {
        let Claim::Ge(poly) = claim else { return };
        for atom in self.atoms.choices(poly) {
            let Some(choice) = self.atoms.get(atom).choice.clone() else { continue };
            let Choice { cond, yes, no } = choice;
            for (claims, value, other) in [(&cond.yes, &yes, &no), (&cond.no, &no, &yes)] {
                let [with, without] = [value, other]
                    .map(|value| numbers::replaced(&mut self.atoms, poly, atom, value));
                let (Some(with), Some(without)) = (with, without) else { continue };
                let (range, own) = self.facts.range_of(&self.atoms, &without);
                if range.hi < 0 && !self.facts.all.iter().any(|fact| fact.poly == with) {
                    let deps = deps | own | cond.deps;
                    self.assume(claims, deps);
                    self.facts.add(&self.atoms, with, deps);
                    break;
                }
            }
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

    /// Adds the launch condition that one of the polynomials is at least 0, so that `poly` is.
    fn require(&mut self, poly: &Poly, found: Vec<Found>, need: Need) -> Option<Deps> {
        if found.is_empty() {
            return None;
        }
        let mut any: Vec<Vec<Poly>> = Vec::new();
        let mut deps = 0;
        // Nothing was dropped if the launch knew all of it to begin with.
        let is_exact = self.atoms.is_launch(poly);
        for Found { all, deps: own, is_sharp } in found {
            let is_fitting: Vec<bool> =
                all.iter().map(|one| one.constant >= ROOM && !self.has_len(one)).collect();
            let all: Vec<Poly> = all.iter().filter_map(Poly::simplified).collect();
            // Several lengths come from cases whose guards the search lost sight of.
            let is_split = all.iter().filter(|one| self.has_len(one)).count() > 1;
            let is_needed = |(one, is_fitting): (&Poly, &bool)| {
                let is_free = *is_fitting || need == Need::Always && !self.has_len(one);
                is_sharp && (is_free || self.is_plain(one, poly))
                    || !is_split && self.is_needed(one, poly)
            };
            if !is_exact && !all.iter().zip(&is_fitting).all(is_needed) {
                continue;
            }
            deps |= own;
            // Leave out what says more than another one.
            if any.iter().any(|known| is_implied(known, &all)) {
                continue;
            }
            any.retain(|known| !is_implied(&all, known));
            any.push(all);
        }
        if any.is_empty() {
            return None;
        }
        // The access happens only if the guards hold that the launch decides.
        let guards = self.facts.guards().filter(|fact| fact.deps == 0);
        let guards = guards.filter(|fact| self.atoms.is_launch(&fact.poly));
        let never = guards.filter_map(|fact| fact.poly.scaled(-1)?.plus_constant(-1));
        let mut never: Vec<Poly> =
            never.filter(|never| self.atoms.range(never).hi >= 0).take(GUARDS).collect();
        if self.has_len(poly) {
            let (more, own) = self.never(poly);
            never.extend(more);
            deps |= own;
        }
        let mut never: Vec<Vec<Poly>> = never.into_iter().map(|one| vec![one]).collect();
        for (poly, own) in self.facts.unequal.iter().take(GUARDS) {
            if let Some(opposite) = poly.scaled(-1) {
                never.push(vec![poly.clone(), opposite]);
                deps |= own;
            }
        }
        for never in never {
            if !any.contains(&never) {
                any.push(never);
            }
        }
        self.require_all(Requirement::Any { any, deps })
    }

    /// Returns what a launch fulfils if a guard of the place never holds. That is worth to know for
    /// guards about other values than the index, for example how many parts the work has.
    fn never(&mut self, goal: &Poly) -> (Vec<Poly>, Deps) {
        let expanded = self.atoms.expanded(goal).unwrap_or_default();
        let is_other = |atom: AtomId| {
            !self.atoms.get(atom).is_launch && !goal.contains(atom) && !expanded.contains(atom)
        };
        let guards = self.facts.guards().filter(|fact| fact.poly.constant < 0);
        let guards = guards.filter(|fact| fact.poly.atoms().all(is_other));
        let guards: Vec<(Poly, Deps)> =
            guards.take(GUARDS).map(|fact| (fact.poly.clone(), fact.deps)).collect();
        let (mut all, mut deps) = (Vec::new(), 0);
        for (guard, own) in guards {
            let most = Search::new(&mut self.atoms, &mut self.facts).largest_anywhere(&guard);
            if let Some((most, more)) = most
                && let Some(never) = most.scaled(-1).and_then(|never| never.plus_constant(-1))
                && self.atoms.range(&never).hi >= 0
            {
                all.push(never);
                deps |= own | more;
            }
        }
        (all, deps)
    }

    /// Returns whether `poly >= 0` is likely to hold for every correct launch. It is a condition
    /// that the search found for `goal`.
    ///
    /// The search drops what it cannot use, so a condition may ask for more than the kernel needs.
    /// For example, without the guard `i < n` a buffer would have to be as long as all tiles
    /// together. Such a condition would refuse correct launches, so the access stays open instead.
    fn is_needed(&self, poly: &Poly, goal: &Poly) -> bool {
        let key = |atom: AtomId| &self.atoms.get(atom).key;
        let is_param = |atom: AtomId| matches!(key(atom), Key::Param(_));
        let is_len = |term: &Term| term.atoms.iter().any(|atom| matches!(key(*atom), Key::Len(_)));
        let is_block = |atom: AtomId| {
            matches!(key(atom), Key::Register(SpecialReg::Ntid(_)) | Key::BoxBytes(_))
        };
        let is_grid = |atom: AtomId| matches!(key(atom), Key::Register(SpecialReg::Nctaid(_)));
        let Some(len) = poly.terms.iter().find(|term| is_len(term)) else {
            // Sizes are not negative, two parameters are in order, or something fits in its type.
            let is_sign = poly.constant >= -1 && poly.terms.iter().all(|term| term.factor > 0);
            let is_order = matches!(&poly.terms[..], [a, b] if a.factor == -b.factor)
                && poly.constant.abs() <= 1
                && poly.terms.iter().all(|term| term.atoms.len() == 1 && term.factor.abs() == 1);
            let is_plain =
                poly.atoms().all(|atom| is_block(atom) || is_grid(atom) || is_param(atom));
            let is_fitting = poly.constant >= ROOM || poly.atoms().all(is_block);
            return is_sign || is_plain && (is_order || is_fitting);
        };
        // A guard compares an index of the access with a parameter.
        let is_guarded = |index: AtomId| {
            self.facts.guards().any(|fact| {
                let is_guard = fact.poly.contains(index)
                    && fact.poly.atoms().any(|atom| self.depends_on_param(atom));
                // Both sides of an equation are facts too, but no guards.
                let opposite = fact.poly.scaled(-1);
                is_guard && !self.facts.guards().any(|other| Some(&other.poly) == opposite.as_ref())
            })
        };
        // A guard may be about a named sum, or about what it is made of.
        let expanded = self.atoms.expanded(goal).unwrap_or_default();
        let indices: Vec<AtomId> = goal
            .atoms()
            .chain(expanded.atoms())
            .filter(|atom| !self.atoms.get(*atom).is_launch)
            .collect();
        if !indices.iter().any(|atom| is_guarded(*atom)) {
            // No buffer is longer by the range of a type.
            let is_short = len.atoms.len() == 1 && poly.constant >= -ROOM;
            return len.factor > 0 && is_short;
        }
        // The guards' parameters bound the indices, to the element. Only threads and blocks without
        // a guard may reach further.
        let is_loose = indices.iter().all(|atom| matches!(key(*atom), Key::Register(_)))
            && indices.iter().any(|atom| !is_guarded(*atom));
        let mut others = poly.terms.iter().filter(|term| !is_len(term)).peekable();
        len.factor > 0
            && (poly.constant >= 0 || is_loose)
            && others.peek().is_some()
            && others.all(|term| {
                term.factor.abs() <= len.factor && term.atoms.iter().all(|atom| is_param(*atom))
            })
    }

    /// Returns whether a guard is about the atom, or about a sum that it is part of.
    fn is_in_guard(&self, atom: AtomId) -> bool {
        self.facts.guards().any(|fact| {
            let expanded = self.atoms.expanded(&fact.poly);
            fact.poly.contains(atom)
                || expanded.is_some_and(|poly| poly.contains(atom))
                || self.atoms.is_choice_about(&fact.poly, atom)
        })
    }

    fn has_len(&self, poly: &Poly) -> bool {
        poly.atoms().any(|atom| matches!(self.atoms.get(atom).key, Key::Len(_)))
    }

    /// Returns whether the condition asks for a buffer as long as sizes say, neither as long as all
    /// tiles of the grid together, nor by a few elements longer.
    fn is_plain(&self, poly: &Poly, goal: &Poly) -> bool {
        // The whole grid accesses the buffer if no guard ends it.
        let is_whole = |count: AtomId| match self.atoms.get(count).key {
            Key::Register(SpecialReg::Nctaid(axis)) => {
                let block = self.atoms.find(&Key::Register(SpecialReg::Ctaid(axis)));
                goal.contains(count)
                    || self.facts.lost == 0 && !block.is_some_and(|block| self.is_in_guard(block))
            }
            _ => true,
        };
        let key = |atom: &AtomId| &self.atoms.get(*atom).key;
        let len = poly
            .terms
            .iter()
            .find(|term| matches!(term.atoms[..], [one] if matches!(key(&one), Key::Len(_))));
        let Some(len) = len.map(|term| term.factor).filter(|factor| *factor > 0) else {
            return false;
        };
        let is_pitched = poly.terms.iter().any(|term| term.atoms.len() > 1);
        (poly.constant >= 0 || is_pitched)
            && poly.terms.iter().all(|term| {
                let is_grid = !term.atoms.iter().all(|atom| is_whole(*atom));
                let most = match term.atoms[..] {
                    // Counts of tiles are sizes rounded up.
                    [one] => match key(&one) {
                        Key::Div(_, by) => by.as_constant().unwrap_or(term.factor.abs()),
                        Key::Min(..) | Key::Max(..) | Key::Power(_) => term.factor.abs(),
                        _ => 1,
                    },
                    _ => term.factor.abs(),
                };
                // What makes the length smaller does not count.
                term.factor > 0 || !is_grid && term.factor.abs() <= len.saturating_mul(most)
            })
    }

    /// Returns whether the atom is a parameter, or made of one.
    fn depends_on_param(&self, atom: AtomId) -> bool {
        let any = |poly: &Poly| poly.atoms().any(|atom| self.depends_on_param(atom));
        let data = self.atoms.get(atom);
        if let Some(choice) = &data.choice {
            return any(&choice.yes) || any(&choice.no);
        }
        match &data.key {
            Key::Param(_) => true,
            key => key.operands().any(any),
        }
    }

    pub(super) fn require_all(&mut self, requirement: Requirement) -> Option<Deps> {
        let own = requirement.deps();
        // A launch has to fulfil all of them together. So one that follows from another one is the
        // other one.
        let known = self.requirements.iter().position(|known| known.implies(&requirement));
        let weaker = || self.requirements.iter().position(|known| requirement.implies(known));
        let index = match (known, known.is_none().then(weaker).flatten()) {
            (Some(index), _) => index,
            (None, Some(index)) => {
                self.requirements[index] = requirement;
                index
            }
            (None, None) => {
                self.requirements.push(requirement);
                self.requirements.len() - 1
            }
        };
        let deps = (index < MAX_DEPS).then(|| own | 1 << index)?;
        if let Some(Requirement::Multiple { poly, by, .. }) = self.requirements.get(index)
            && let Some(atom) = poly.as_atom()
        {
            let known = self.facts.multiples.entry(atom).or_insert((1, 0));
            if u128::from(*by) > known.0 {
                *known = (u128::from(*by), deps);
            }
        }
        Some(deps)
    }

    // ---- regions ----

    pub(super) fn mark(&self) -> (Mark, usize) {
        (self.facts.mark(), self.exact_undo.len())
    }

    pub(super) fn back_to(&mut self, (mark, exact): (Mark, usize)) {
        self.facts.back_to(mark);
        for value in self.exact_undo.drain(exact..) {
            self.exact.remove(&value);
        }
    }

    pub(super) fn region(&mut self, region: RegionId) {
        let ir = self.ir;
        for &id in &ir.regions[region].ops {
            self.op(id);
        }
    }

    pub(super) fn op(&mut self, id: OpId) {
        if let Op::Control(control) = &self.ir.ops[id].op {
            self.control(id, control);
        } else {
            self.check(id);
            self.evaluate(id);
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
    pub(super) fn passed(&mut self, values: &[Value]) -> Vec<Known> {
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
        let cond = self.cond(cond);
        // A condition about data is no bound, but one that was followed and lost its claims may be.
        let is_followed = cond.as_ref().is_some_and(|cond| cond.as_known().is_none());
        let cond = cond.unwrap_or_default();
        let before = self.vars.clone();
        let mark = self.mark();
        self.facts.conds.push((Rc::clone(&cond), true));
        self.assume(&cond.yes, cond.deps);
        self.facts.lost += u32::from(is_followed && cond.yes.is_empty());
        self.region(then_region);
        self.back_to(mark);
        let after_then = std::mem::replace(&mut self.vars, before);
        if let Some(region) = else_region {
            self.facts.conds.push((Rc::clone(&cond), false));
            self.assume(&cond.no, cond.deps);
            self.facts.lost += u32::from(is_followed && cond.no.is_empty());
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
    pub(super) fn either(
        &mut self,
        result: Value,
        cond: &Rc<Cond>,
        yes: &Known,
        no: &Known,
    ) -> Known {
        match (yes, no) {
            (Known::Number(yes), Known::Number(no)) => {
                if yes.poly == no.poly {
                    return Known::Number(Number {
                        poly: yes.poly.clone(),
                        deps: yes.deps | no.deps,
                    });
                }
                // One of the two never happens here.
                for (claims, other) in [(&cond.yes, no), (&cond.no, yes)] {
                    if let Some(deps) = self.is_contradicted(claims) {
                        let deps = deps | cond.deps | other.deps;
                        return Known::Number(Number { poly: other.poly.clone(), deps });
                    }
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
                let (Some(settled), Some(other)) = (self.settled(a), self.settled(b)) else {
                    return Known::Nothing;
                };
                let choice =
                    Choice { cond: Rc::clone(cond), yes: a.offset.clone(), no: b.offset.clone() };
                let offset = self.atoms.choose((result, self.generation), Range::ALL, choice);
                let mut pointer = Pointer::new(a.root);
                pointer.offset = offset.clone();
                pointer.since = offset.clone();
                pointer.deps = a.deps | b.deps | settled | other;
                if !a.loose.is_empty() || !b.loose.is_empty() {
                    pointer.loose.push(offset);
                }
                Known::Pointer(Rc::new(pointer))
            }
            _ => Known::Nothing,
        }
    }
}

/// Returns whether each polynomial of `weak` is one of `strong`, or larger by a constant.
pub(super) fn is_implied(weak: &[Poly], strong: &[Poly]) -> bool {
    weak.iter().all(|weak| {
        strong.iter().any(|strong| weak.constant >= strong.constant && weak.terms == strong.terms)
    })
}
