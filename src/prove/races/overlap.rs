//! [`Overlap`]: whether two accesses can touch the same byte, if different threads make them.
//!
//! Suppose that they do. Then the difference of their offsets is smaller than their sizes. It is a
//! sum such as `128*(row - row') + 4*(column - column')`. If 128 is more than the rest can reach,
//! `row` and `row'` are equal, and the same goes for the columns. Equal digits make equal values:
//! if `x/8` and `x%8` are the same in both threads, `x` is. If all this makes the threads the same
//! one, different threads never touch the same byte.

use std::collections::HashSet;

use crate::ir::op::{Axis, SpecialReg};

use super::super::atom::Key;
use super::super::claim::Deps;
use super::super::entail::{self, Search};
use super::super::facts::Equality;
use super::super::numbers;
use super::super::poly::{AtomId, Poly, Product, Term, gcd};
use super::super::range::Range;
use super::super::site::Requirement;
use super::super::walk::Walk;
use super::phase::Phases;
use super::record::Record;
use super::twin::{Pair, Twins};

/// How many unknowns are compared at most.
const UNKNOWNS: usize = 200;

/// How many summands a search looks at.
const SEARCHED: usize = 3;

/// How many threads a warp has.
const WARP: i128 = 32;

/// The largest factor in a condition on sizes.
const FACTOR: i128 = 1 << 20;

/// Why two threads do not race.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// They touch different bytes.
    Apart(Deps),
    /// If they touch the same byte, they are the same thread.
    SameThread(Deps),
    /// If they touch the same byte, they are in the same warp.
    SameWarp(Deps),
    /// If they touch the same byte, they are in the same block.
    SameBlock(Deps),
    Unknown,
}

/// The assumption that both threads touch the same byte leads to a contradiction.
struct Never;

pub(super) struct Overlap<'a, 'k> {
    walk: &'a mut Walk<'k>,
    phases: &'a Phases<'k>,
    twins: &'a mut Twins,
    /// The registers that the kernel reads.
    registers: &'a HashSet<SpecialReg>,
    /// The first thread's unknowns that are the same in the second thread.
    equal: HashSet<AtomId>,
    /// Unknowns that have been taken apart.
    done: HashSet<AtomId>,
    deps: Deps,
    effort: Effort,
}

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// By ranges only.
    Ranges,
    /// By searches as well, perhaps with conditions on the launch.
    Searches,
}

/// Returns whether the polynomial is at least 0 if one of its sizes is large enough, as a pitch may
/// be, or if all are small. Others say something else: `rows >= rows*matrices` allows one matrix.
fn is_met_by_a_size(poly: &Poly) -> bool {
    let is_less =
        |atom: AtomId| poly.terms.iter().any(|term| term.factor < 0 && term.atoms.contains(&atom));
    let is_large = |term: &Term| matches!(term.atoms[..], [atom] if !is_less(atom));
    let mut positive = poly.terms.iter().filter(|term| term.factor > 0).peekable();
    positive.peek().is_none() || positive.any(is_large)
}

/// A summand `coefficient * form` of a difference.
struct Summand {
    coefficient: Poly,
    form: Poly,
}

/// Puts summands with the same pitch together: `8*p*x + 2*p*y` is `2*p*(4*x + y)`.
fn join_pitches(all: &mut Vec<Summand>) {
    let mut joined: Vec<Summand> = Vec::new();
    for summand in all.drain(..) {
        let own = summand.coefficient.terms.first().copied();
        let same = joined.iter_mut().find(|known| {
            let known = known.coefficient.terms.first();
            own.is_some() && known.map(|term| term.atoms) == own.map(|term| term.atoms)
        });
        let (Some(same), Some(own)) = (same, own) else {
            joined.push(summand);
            continue;
        };
        let Some(known) = same.coefficient.terms.first().copied() else { continue };
        let common = gcd(known.factor.unsigned_abs(), own.factor.unsigned_abs());
        let Ok(common) = i128::try_from(common) else {
            joined.push(summand);
            continue;
        };
        let form = same
            .form
            .scaled(known.factor / common)
            .and_then(|form| form.plus_scaled(&summand.form, own.factor / common));
        match form {
            Some(form) => {
                same.form = form;
                for term in &mut same.coefficient.terms {
                    term.factor = common;
                }
            }
            None => joined.push(summand),
        }
    }
    *all = joined;
}

impl<'a, 'k> Overlap<'a, 'k> {
    pub(super) fn new(
        walk: &'a mut Walk<'k>,
        phases: &'a Phases<'k>,
        twins: &'a mut Twins,
        registers: &'a HashSet<SpecialReg>,
        effort: Effort,
    ) -> Overlap<'a, 'k> {
        Overlap {
            walk,
            phases,
            twins,
            registers,
            equal: HashSet::new(),
            done: HashSet::new(),
            deps: 0,
            effort,
        }
    }

    /// Decides about access `a` of the first thread and access `b` of the second one.
    pub(super) fn decide(mut self, a: &Record, b: &Record) -> Answer {
        let mark = self.walk.mark();
        let answer = self.decided(a, b).unwrap_or(Answer::Unknown);
        self.walk.back_to(mark);
        answer
    }

    fn decided(&mut self, a: &Record, b: &Record) -> Option<Answer> {
        self.deps = a.deps | b.deps;
        if let Some(dead) = a.dead.or(b.dead) {
            return Some(Answer::Apart(dead));
        }
        let ((x, x_bytes), (y, y_bytes)) = (a.bytes.as_ref()?, b.bytes.as_ref()?);
        self.add_facts(a, b);
        if let Some(dead) = self.walk.facts.dead {
            return Some(Answer::Apart(self.deps | dead));
        }
        let y = self.twin(y)?;
        let difference = x.minus(&y)?;
        // Both touch a byte if the difference is in this window.
        let window = Range::new(1 - x_bytes, y_bytes - 1);
        let unknowns = self.unknowns(a);
        let mut differences = vec![difference.clone()];
        let expanded = self.walk.atoms.expanded(x).zip(self.walk.atoms.expanded(&y));
        if let Some(other) = expanded.and_then(|(x, y)| x.minus(&y))
            && other != difference
        {
            differences.push(numbers::tidy(&mut self.walk.atoms, other));
        }
        let mut is_same_warp = None;
        for left in differences {
            let found = self.peel(left, window).and_then(|()| self.close(&unknowns));
            if found.is_err() {
                return Some(Answer::Apart(self.deps));
            }
            match self.same() {
                Some(Answer::SameWarp(deps)) => is_same_warp = Some(Answer::SameWarp(deps)),
                Some(answer) => return Some(answer),
                None => {}
            }
        }
        if self.effort == Effort::Ranges {
            return is_same_warp;
        }
        let before = self.deps;
        for (sign, end) in [(1, window.hi), (-1, -window.lo)] {
            let apart = difference.scaled(sign)?.plus_constant(-end - 1)?;
            if let Some(deps) = self.walk.is_known(&apart) {
                return Some(Answer::Apart(before | deps));
            }
        }
        is_same_warp
    }

    fn twin(&mut self, poly: &Poly) -> Option<Poly> {
        self.twins.of(self.walk, self.phases, poly)
    }

    /// Adds what both threads know at their places.
    fn add_facts(&mut self, a: &Record, b: &Record) {
        let add = |walk: &mut Walk<'_>, poly: Poly, deps: Deps, is_guard: bool| {
            if is_guard {
                walk.facts.add(&walk.atoms, poly, deps);
            } else {
                walk.facts.add_definition(&walk.atoms, poly, deps);
            }
        };
        for fact in &a.facts {
            add(self.walk, fact.poly.clone(), fact.deps, fact.is_guard);
        }
        self.walk.facts.equalities.extend(a.equalities.iter().cloned());
        let universal = self.walk.facts.all[..self.walk.facts.universal].to_vec();
        for fact in universal.iter().chain(&b.facts) {
            if let Some(poly) = self.twin(&fact.poly) {
                add(self.walk, poly, fact.deps, fact.is_guard);
            }
        }
        for Equality { atom, value, deps } in b.equalities.clone() {
            let atom = self.twin(&Poly::atom(atom)).and_then(|atom| atom.as_atom());
            if let (Some(atom), Some(value)) = (atom, self.twin(&value))
                && !value.contains(atom)
            {
                self.walk.facts.equalities.push(Equality { atom, value, deps });
            }
        }
    }

    /// Collects the unknowns of an access and its guards, and what they are made of.
    fn unknowns(&self, record: &Record) -> Vec<AtomId> {
        let mut found: Vec<AtomId> = Vec::new();
        let mut left: Vec<AtomId> =
            record.bytes.iter().flat_map(|(poly, _)| poly.atoms()).collect();
        left.extend(record.facts.iter().flat_map(|fact| fact.poly.atoms()));
        while let Some(atom) = left.pop() {
            if found.contains(&atom) || found.len() >= UNKNOWNS {
                continue;
            }
            found.push(atom);
            left.extend(self.walk.atoms.get(atom).key.operands().flat_map(Poly::atoms));
        }
        found
    }

    fn range(&mut self, poly: &Poly) -> (Range, Deps) {
        self.walk.facts.range_of(&self.walk.atoms, poly)
    }

    /// Splits a difference into summands, those with the largest coefficients first.
    fn summands(&self, poly: &Poly) -> Vec<Summand> {
        let mut all: Vec<Summand> = Vec::new();
        for term in &poly.terms {
            let (launch, other): (Product, Product) =
                term.atoms.iter().copied().partition(|atom| self.walk.atoms.get(*atom).is_launch);
            if other.is_empty() {
                continue;
            }
            let one = |atoms: Product, factor: i128| {
                if atoms.is_empty() {
                    Poly::constant(factor)
                } else {
                    Poly { terms: [Term { atoms, factor }].into_iter().collect(), constant: 0 }
                }
            };
            let coefficient = one(launch, term.factor.abs());
            let form = one(other, term.factor.signum());
            match all.iter_mut().find(|known| known.coefficient == coefficient) {
                Some(known) => {
                    if let Some(sum) = known.form.plus(&form) {
                        known.form = sum;
                    }
                }
                None => all.push(Summand { coefficient, form }),
            }
        }
        join_pitches(&mut all);
        all.sort_by_key(|summand| {
            let degree = summand.coefficient.terms.first().map_or(0, |term| term.atoms.len());
            let factor = summand.coefficient.terms.first().map(|term| term.factor);
            std::cmp::Reverse((degree, factor.unwrap_or(summand.coefficient.constant)))
        });
        all
    }

    /// Takes apart the difference, which is in the window.
    fn peel(&mut self, difference: Poly, window: Range) -> Result<(), Never> {
        let mut left = difference;
        loop {
            left = self.cancelled(left);
            let (range, deps) = self.range(&left);
            if range.lo > window.hi || range.hi < window.lo {
                self.deps |= deps;
                return Err(Never);
            }
            let varying = Poly { terms: left.terms.clone(), constant: 0 };
            let unit = i128::try_from(self.walk.atoms.multiple(&varying)).unwrap_or(0);
            if unit > 1 && window.lo + (left.constant - window.lo).rem_euclid(unit) > window.hi {
                return Err(Never);
            }
            let summands = self.summands(&left);
            let mut next = None;
            for summand in &summands {
                next = self.fixed(&left, summand, window)?;
                if next.is_some() {
                    break;
                }
            }
            if next.is_none() && self.effort == Effort::Searches {
                next = summands.iter().take(SEARCHED).find_map(|summand| {
                    let rest = self.rest(&left, summand)?;
                    let is_zero = self.is_zero(summand, &rest, window);
                    is_zero.then(|| (summand.form.clone(), rest))
                });
            }
            let Some((equation, rest)) = next else { return Ok(()) };
            self.equate(&equation)?;
            left = rest;
        }
    }

    /// Puts the first thread's unknowns in place of the second one's where both are equal.
    fn cancelled(&mut self, poly: Poly) -> Poly {
        let mut atoms: Vec<AtomId> = poly.atoms().collect();
        atoms.sort_unstable();
        atoms.dedup();
        let mut poly = poly;
        for &atom in &atoms {
            let own = Poly::atom(atom);
            if let Some(twin) = self.twin(&own).and_then(|twin| twin.as_atom())
                && twin != atom
                && atoms.contains(&twin)
                && self.is_equal_atom(atom)
                && let Some(with) = poly.with(twin, &own)
            {
                poly = with;
            }
        }
        poly
    }

    fn rest(&self, poly: &Poly, summand: &Summand) -> Option<Poly> {
        poly.minus(&summand.coefficient.times(&summand.form)?)
    }

    /// If the summand's form has only one possible value, returns the form minus this value, which
    /// is 0, and the rest of the difference.
    fn fixed(
        &mut self,
        poly: &Poly,
        summand: &Summand,
        window: Range,
    ) -> Result<Option<(Poly, Poly)>, Never> {
        let Some(factor) = summand.coefficient.as_constant() else { return Ok(None) };
        let Some(rest) = self.rest(poly, summand) else { return Ok(None) };
        let ((others, deps), (own, own_deps)) = (self.range(&rest), self.range(&summand.form));
        if others.lo <= -Range::LIMIT || others.hi >= Range::LIMIT {
            return Ok(None);
        }
        let least = -((others.hi - window.lo).div_euclid(factor));
        let most = (window.hi - others.lo).div_euclid(factor);
        let (least, most) = (least.max(own.lo), most.min(own.hi));
        let value = match self.digits(&summand.form) {
            Some(digits) => {
                let mut all = digits.into_iter().filter(|value| (least..=most).contains(value));
                match (all.next(), all.next()) {
                    (None, _) => None,
                    (Some(value), None) => Some(value),
                    (Some(_), Some(_)) => return Ok(None),
                }
            }
            None if least == most => Some(least),
            None if least > most => None,
            None => return Ok(None),
        };
        self.deps |= deps | own_deps;
        let Some(value) = value else { return Err(Never) };
        let next = rest.plus_constant(factor * value);
        Ok(summand.form.plus_constant(-value).zip(next))
    }

    /// Returns the values of a difference of two remainders, if their dividends differ by a
    /// constant.
    fn digits(&self, form: &Poly) -> Option<Vec<i128>> {
        let [a, b] = &form.terms[..] else { return None };
        let (a, b) = if a.factor == 1 { (a, b) } else { (b, a) };
        if a.factor != 1 || b.factor != -1 || form.constant != 0 {
            return None;
        }
        let ([a], [b]) = (&a.atoms[..], &b.atoms[..]) else { return None };
        let (Key::Rem(x, by), Key::Rem(y, other)) =
            (&self.walk.atoms.get(*a).key, &self.walk.atoms.get(*b).key)
        else {
            return None;
        };
        let by = by.as_constant().filter(|by| other.as_constant() == Some(*by))?;
        let apart = x.minus(y)?;
        let varying = Poly { terms: apart.terms.clone(), constant: 0 };
        if !self.walk.atoms.multiple(&varying).is_multiple_of(by.unsigned_abs()) {
            return None;
        }
        let digit = apart.constant.rem_euclid(by);
        Some(if digit == 0 { vec![0] } else { vec![digit, digit - by] })
    }

    /// Returns whether the summand's form is 0, because otherwise the difference would be outside of
    /// the window, perhaps with a condition on the launch, for example that a pitch is not smaller than
    /// a row.
    fn is_zero(&mut self, summand: &Summand, rest: &Poly, window: Range) -> bool {
        let Summand { coefficient, .. } = summand;
        let above = coefficient.plus(rest).and_then(|sum| sum.plus_constant(-window.hi - 1));
        let below = coefficient.minus(rest).and_then(|sum| sum.plus_constant(window.lo - 1));
        let (Some(above), Some(below)) = (above, below) else { return false };
        let mut deps = 0;
        for side in [above, below] {
            // Together they make the coefficient positive.
            match self.suppose(&side) {
                Some(own) => deps |= own,
                None => return false,
            }
        }
        self.deps |= deps;
        true
    }

    /// Returns what it relies on that the polynomial is never negative, perhaps a condition on sizes.
    fn suppose(&mut self, poly: &Poly) -> Option<Deps> {
        let found = match Search::new(&mut self.walk.atoms, &mut self.walk.facts).decide(poly) {
            entail::Answer::Yes(deps) => return Some(deps),
            entail::Answer::If(found) => found,
        };
        let is_size = |atom: AtomId| {
            matches!(
                self.walk.atoms.get(atom).key,
                Key::Param(_) | Key::Register(SpecialReg::Ntid(_) | SpecialReg::Nctaid(_))
            )
        };
        // A bound of a type is no size, so a condition with such a factor asks for too much.
        let is_plain = |poly: &Poly| {
            poly.atoms().all(is_size)
                && poly.terms.iter().all(|term| term.factor.abs() <= FACTOR)
                && is_met_by_a_size(poly)
        };
        let one =
            found.into_iter().find(|one| !one.all.is_empty() && one.all.iter().all(is_plain))?;
        // A pitch is at least a row, not a row less what the last thread leaves of it.
        let rounded = |poly: &Poly| {
            let mut poly = poly.simplified()?;
            if poly.terms.iter().any(|term| term.factor < 0) && poly.terms.len() == 2 {
                poly.constant = poly.constant.min(0);
            }
            Some(poly)
        };
        let all: Vec<Poly> = one.all.iter().map(rounded).collect::<Option<_>>()?;
        self.walk.require_all(Requirement::Any { any: vec![all], deps: one.deps })
    }

    /// Notes that the polynomial is 0.
    fn equate(&mut self, equation: &Poly) -> Result<(), Never> {
        self.walk.facts.add_equal(&self.walk.atoms, equation, self.deps);
        if let Some(dead) = self.walk.facts.dead {
            self.deps |= dead;
            return Err(Never);
        }
        if let ([x, y], 0) = (&equation.terms[..], equation.constant)
            && x.factor == -y.factor
            && x.factor.abs() == 1
            && let ([x], [y]) = (&x.atoms[..], &y.atoms[..])
        {
            for (first, second) in [(*x, *y), (*y, *x)] {
                let is_second = matches!(self.walk.atoms.get(first).key, Key::Second(..));
                if !is_second
                    && self.twin(&Poly::atom(first)).and_then(|twin| twin.as_atom()) == Some(second)
                {
                    self.equal.insert(first);
                }
            }
        }
        // For example `4*(block - block') + row - row' = 0`.
        if equation.terms.iter().any(|term| term.factor.abs() > 1) {
            return self.peel(equation.clone(), Range::point(0));
        }
        Ok(())
    }

    /// Returns whether both threads have the same value.
    fn is_equal(&mut self, poly: &Poly) -> bool {
        let atoms: Vec<AtomId> = poly.atoms().collect();
        atoms.into_iter().all(|atom| self.is_equal_atom(atom))
    }

    fn is_equal_atom(&mut self, atom: AtomId) -> bool {
        if self.equal.contains(&atom) {
            return true;
        }
        let own = Poly::atom(atom);
        let Some(twin) = self.twin(&own) else { return false };
        if twin == own {
            return true;
        }
        let ((x, deps), (y, other)) = (self.range(&own), self.range(&twin));
        if x.as_point().is_some() && x == y {
            self.deps |= deps | other;
            return true;
        }
        if self.is_of_equal_digits(atom) {
            return true;
        }
        let operands: Vec<Poly> = self.walk.atoms.get(atom).key.operands().cloned().collect();
        !operands.is_empty() && operands.iter().all(|operand| self.is_equal(operand))
    }

    /// Returns whether the quotient or remainder follows from another one of the same value: `x/64`
    /// from `x/4`, and `x%4` from `x%64`.
    fn is_of_equal_digits(&self, atom: AtomId) -> bool {
        let key = |atom: AtomId| &self.walk.atoms.get(atom).key;
        self.equal.iter().any(|known| match (key(atom), key(*known)) {
            (Key::Div(x, by), Key::Div(y, other)) | (Key::Rem(y, other), Key::Rem(x, by)) => {
                let divides = by.as_constant().zip(other.as_constant());
                x == y && divides.is_some_and(|(by, other)| other > 0 && by % other == 0)
            }
            _ => false,
        })
    }

    /// Finds out what else is equal in both threads.
    fn close(&mut self, unknowns: &[AtomId]) -> Result<(), Never> {
        loop {
            let count = self.equal.len();
            for &atom in unknowns {
                if self.done.contains(&atom) {
                    continue;
                }
                match self.walk.atoms.get(atom).key.clone() {
                    Key::Div(x, by) | Key::Rem(x, by) => {
                        let quotient = numbers::div(&mut self.walk.atoms, &x, &by);
                        let digit = numbers::rem(&mut self.walk.atoms, &x, &by);
                        let (Some(quotient), Some(digit)) = (quotient, digit) else { continue };
                        if self.is_equal(&by) && self.is_equal(&quotient) && self.is_equal(&digit) {
                            self.done.insert(atom);
                            self.make_equal(&x)?;
                        }
                    }
                    Key::Xor(a, b) if self.is_equal_atom(atom) => {
                        if self.is_equal(&a) {
                            self.done.insert(atom);
                            self.make_equal(&b)?;
                        } else if self.is_equal(&b) {
                            self.done.insert(atom);
                            self.make_equal(&a)?;
                        }
                    }
                    Key::Sum(sum) if self.is_equal_atom(atom) => {
                        self.done.insert(atom);
                        self.make_equal(&sum)?;
                    }
                    _ => {}
                }
            }
            if self.equal.len() == count {
                return Ok(());
            }
        }
    }

    /// Takes apart a value that is the same in both threads.
    fn make_equal(&mut self, poly: &Poly) -> Result<(), Never> {
        let difference = self.twin(poly).and_then(|twin| poly.minus(&twin));
        match difference {
            Some(difference) => self.peel(difference, Range::point(0)),
            None => Ok(()),
        }
    }

    /// Decides whether the threads are the same one, or in the same block.
    fn same(&mut self) -> Option<Answer> {
        let blocks = match self.twins.pair {
            Pair::Threads(..) => Some(self.deps),
            Pair::Grid => self.are_equal(SpecialReg::Ctaid, SpecialReg::Nctaid),
        }?;
        match self.are_equal(SpecialReg::Tid, SpecialReg::Ntid) {
            Some(threads) => Some(Answer::SameThread(blocks | threads)),
            None if self.twins.pair == Pair::Grid => Some(Answer::SameBlock(blocks)),
            None => self.is_same_warp().then_some(Answer::SameWarp(blocks)),
        }
    }

    /// Returns whether both threads are in the same warp.
    fn is_same_warp(&mut self) -> bool {
        if !matches!(self.walk.ir.bounds.block, Some([_, 1, 1])) {
            return false;
        }
        let thread = self.walk.register(SpecialReg::Tid(Axis::X));
        let warp = numbers::div(&mut self.walk.atoms, &thread, &Poly::constant(WARP));
        warp.is_some_and(|warp| self.is_equal(&warp))
    }

    /// Returns what it relies on that an index is the same along all axes. A kernel that does not
    /// read an index expects that there is only one.
    fn are_equal(
        &mut self,
        index: fn(Axis) -> SpecialReg,
        count: fn(Axis) -> SpecialReg,
    ) -> Option<Deps> {
        let (used, unused): (Vec<Axis>, Vec<Axis>) =
            Axis::ALL.into_iter().partition(|axis| self.registers.contains(&index(*axis)));
        for axis in used {
            let index = self.walk.register(index(axis));
            if !self.is_equal(&index) {
                return None;
            }
        }
        let mut deps = self.deps;
        for axis in unused {
            let left = Poly::constant(1).minus(&self.walk.register(count(axis)))?;
            deps |= match left.as_constant() {
                Some(0..) => 0,
                _ => self.walk.require_all(Requirement::Any { any: vec![vec![left]], deps: 0 })?,
            };
        }
        Some(deps)
    }
}
