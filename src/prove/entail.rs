//! Decides whether a polynomial is never negative where the walk is, in a bounded search.
//!
//! The search eliminates one atom after the other, the latest first, because an atom's bounds are
//! made of earlier ones. To show `100 - 8*i >= 0` from the fact `n - 1 - i >= 0`, it subtracts the
//! fact eight times and goes on with `108 - 8*n`. An atom is bounded by the facts of the place, by
//! its own definition (for example `8*(x / 8) <= x`), and by its range. An atom that is one of two
//! values is tried with both.
//!
//! If only atoms are left whose values a launch knows, the rest is a *launch condition*, for
//! example `len(p0) - n >= 0`. The search may also assume something about a launch on its way, for
//! example that a pitch is not negative; then the condition is both together.
//!
//! A condition must not refuse correct launches. So the search counts the bounds on its way that
//! perhaps no thread reaches, such as the end of a tile where a guard ends the matrix. A condition
//! without such bounds is *sharp*.
//!
//! Different orders of elimination lead to the same polynomials. So a search notes what it could not
//! show, and does not try it again.

use std::collections::HashMap;
use std::rc::Rc;

use super::atom::{Atoms, Key};
use super::claim::{Claim, Cond, Deps};
use super::facts::{Fact, Facts, Presume};
use super::numbers;
use super::poly::{AtomId, Poly, Product, Term};
use super::range::Range;
use crate::ir::LaunchBounds;
use crate::ir::op::SpecialReg;

/// The maximum count of atoms that one branch of the search eliminates.
const DEPTH: u32 = 12;

/// The maximum count of steps of one search.
const STEPS: u32 = 60;

/// How many steps follow the first launch condition.
const AFTER: u32 = 4;

/// What must not wrap has at least this much room.
pub(super) const ROOM: i128 = 1 << 24;

/// How many steps may compare what a launch knows with the facts about it.
const LAUNCH: u32 = 8;

/// How deep a search goes to show that a dividend is not negative.
const VALUE: u32 = 6;

/// The maximum count of things that one branch assumes about the launch.
const ASSUMED: usize = 3;

/// How often one search may look for a guard that bounds an index.
const LOOKUPS: u32 = 100;

/// How deep the quotients, minima and maxima of an index are followed to its largest value.
const NESTING: u32 = 12;

/// The maximum count of launch conditions of one polynomial, any of which suffices.
const CONDITIONS: usize = 4;

/// The answer of a search.
#[derive(Debug)]
pub(super) enum Answer {
    /// Never negative, if the conditions of these `Deps` hold.
    Yes(Deps),
    /// Never negative if a launch fulfils one of these. There may be none.
    If(Vec<Found>),
}

/// What a launch has to fulfil: all polynomials are at least 0, and the conditions of `deps` hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) all: Vec<Poly>,
    pub(super) deps: Deps,
    /// Whether each bound on the way is one that some thread reaches, as far as the search can
    /// tell. Then no correct launch breaks the condition.
    pub(super) is_sharp: bool,
}

/// What may bound a polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Whole guards.
    Guards,
    /// Also what a guard says about the operands of a minimum or maximum.
    Parts,
}

/// Under which circumstances the search tries a polynomial. What it knows and may assume is the
/// same in both goals if these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Goal {
    poly: Poly,
    /// The number of the facts that the search has added.
    added: u32,
    /// Whether it collects launch conditions, and is already about what a launch knows.
    collects: bool,
    is_launch: bool,
    is_loose: bool,
}

pub(super) struct Search<'a> {
    pub(super) atoms: &'a mut Atoms,
    pub(super) facts: &'a mut Facts,
    /// How many steps are left, and how many were taken.
    steps: u32,
    taken: u32,
    /// How many more bounds by guards may be looked up.
    lookups: u32,
    /// Whether the present bound leaves out a guard.
    is_coarse_bound: bool,
    /// The guards that the present bound was derived from.
    bounding: Vec<usize>,
    /// Whether to collect launch conditions.
    collects: bool,
    /// Whether parameters may be presumed to be at least 0.
    presumes: bool,
    /// Whether parameters that are multiplied with others may be, too.
    presumes_factors: bool,
    /// Whether the present branch is about what a launch knows.
    is_launch: bool,
    /// How many bounds of the present branch no thread may reach.
    loose: u32,
    /// The atoms that the present branch has eliminated.
    gone: Vec<AtomId>,
    found: Vec<Found>,
    /// What the present branch assumes about the launch.
    assumed: Vec<Poly>,
    /// The number of the facts that the present branch has added, and how many numbers there are.
    added: u32,
    additions: u32,
    /// The goals that could not be shown, and how deep the search for each went.
    failed: HashMap<Goal, u32>,
}

impl<'a> Search<'a> {
    pub(super) fn new(atoms: &'a mut Atoms, facts: &'a mut Facts) -> Search<'a> {
        Search {
            atoms,
            facts,
            steps: STEPS,
            taken: 0,
            lookups: LOOKUPS,
            is_coarse_bound: false,
            bounding: Vec::new(),
            collects: false,
            presumes: false,
            presumes_factors: false,
            is_launch: false,
            loose: 0,
            gone: Vec::new(),
            found: Vec::new(),
            assumed: Vec::new(),
            added: 0,
            additions: 0,
            failed: HashMap::new(),
        }
    }

    /// Decides whether `poly >= 0`, and collects launch conditions if it is not known.
    pub(super) fn decide(mut self, poly: &Poly) -> Answer {
        self.collects = true;
        self.presumes = true;
        let has_len = poly.atoms().any(|atom| matches!(self.atoms.get(atom).key, Key::Len(_)));
        // What needs no condition must not get one.
        let is_required = || {
            let about = self.facts.all.iter().take(self.facts.universal).map(|fact| &fact.poly);
            let mut shared = about.flat_map(Poly::atoms);
            shared
                .any(|atom| matches!(self.atoms.get(atom).key, Key::Len(_)) && poly.contains(atom))
        };
        if !has_len || is_required() {
            self.collects = false;
            if let Some(deps) = self.start(poly, 0, DEPTH) {
                return Answer::Yes(deps);
            }
            self.collects = true;
            self.steps = STEPS;
        }
        match self.by_parts(poly) {
            Some(deps) => Answer::Yes(deps),
            None => Answer::If(self.found),
        }
    }

    /// Decides by a search over all bounds, if [`decide`](Search::decide) has no answer that helps.
    pub(super) fn decide_by_search(mut self, poly: &Poly) -> Answer {
        self.collects = true;
        self.presumes = true;
        let has_len = poly.atoms().any(|atom| matches!(self.atoms.get(atom).key, Key::Len(_)));
        if let Some(deps) = self.start(poly, 0, DEPTH) {
            return Answer::Yes(deps);
        }
        if !has_len && !self.found.iter().any(|found| found.is_sharp) {
            (self.presumes_factors, self.steps) = (true, STEPS);
            self.failed.clear();
            if let Some(deps) = self.start(poly, 0, DEPTH) {
                return Answer::Yes(deps);
            }
        }
        Answer::If(self.found)
    }

    /// Returns whether `poly >= 0` is known, and what that relies on.
    pub(super) fn known(mut self, poly: &Poly) -> Option<Deps> {
        self.start(poly, 0, DEPTH)
    }

    /// As [`known`](Search::known), if parameters are not negative, with at most this many steps.
    pub(super) fn presumed_within(mut self, poly: &Poly, steps: u32) -> Option<Deps> {
        self.presumes = true;
        self.steps = steps;
        self.start(poly, 0, DEPTH)
    }

    /// As [`known`](Search::known), if parameters are not negative.
    pub(super) fn presumed(mut self, poly: &Poly) -> Option<Deps> {
        self.presumes = true;
        self.start(poly, 0, DEPTH)
    }

    /// Proves that a buffer is long enough for the largest values of all that a launch does not
    /// know. Most accesses need no other search.
    fn by_parts(&mut self, poly: &Poly) -> Option<Deps> {
        let (launch, other): (Vec<Term>, Vec<Term>) = poly
            .terms
            .iter()
            .copied()
            .partition(|term| term.atoms.iter().all(|atom| self.atoms.get(*atom).is_launch));
        if other.is_empty() {
            return None;
        }
        let launch = Poly { terms: launch.into_iter().collect(), constant: poly.constant };
        let other = Poly { terms: other.into_iter().collect(), constant: 0 }.scaled(-1)?;
        self.is_coarse_bound = false;
        let (most, deps) = self.largest(&other, NESTING)?;
        let is_loose = self.is_coarse_bound;
        let left = launch.minus(&most)?;
        self.loosely(is_loose, |search| search.prove(&left, deps, DEPTH - 1))
    }

    /// Proves the polynomial, first with the smallest values of what only threads decide.
    fn start(&mut self, poly: &Poly, deps: Deps, depth: u32) -> Option<Deps> {
        if depth == DEPTH
            && self.collects
            && let Some(atom) = self.limit(poly)
            && let Some(choice) = self.atoms.get(atom).choice.clone()
        {
            let (cond, values) = (&choice.cond, [&choice.yes, &choice.no]);
            let found = self.choose(poly, atom, cond, values, deps, depth - 1);
            if found.is_some() || self.found.iter().any(|found| found.is_sharp) {
                return found;
            }
        }
        let mut least = Poly::constant(poly.constant);
        for term in &poly.terms {
            let end = match term.atoms[..] {
                [atom] if self.is_of_thread(atom) => {
                    let range = self.atoms.get(atom).range;
                    if term.factor > 0 { range.lo } else { range.hi }.checked_mul(term.factor)
                }
                _ => None,
            };
            match end {
                Some(end) => least = least.plus_constant(end)?,
                None => least.terms.push(*term),
            }
        }
        if least.terms.len() < poly.terms.len()
            && !least.terms.is_empty()
            && let Some(found) = self.prove(&least, deps, depth)
        {
            return Some(found);
        }
        self.prove(poly, deps, depth)
    }

    /// Returns a limit in the guards of the polynomial's atoms that is one of two values, for example
    /// the columns of a row, and none beyond the last row.
    fn limit(&self, poly: &Poly) -> Option<AtomId> {
        fn choice(atoms: &Atoms, poly: &Poly) -> Option<AtomId> {
            poly.atoms().find_map(|atom| {
                let data = atoms.get(atom);
                match &data.key {
                    _ if data.choice.is_some() => Some(atom),
                    Key::Div(a, by) if by.as_constant().is_some() => choice(atoms, a),
                    _ => None,
                }
            })
        }
        let has_len = |atom: AtomId| matches!(self.atoms.get(atom).key, Key::Len(_));
        if !poly.atoms().any(has_len) {
            return None;
        }
        self.facts.guards().rev().find_map(|fact| {
            let found = choice(self.atoms, &fact.poly)?;
            let value = self.atoms.get(found).choice.as_ref()?;
            let mut about = fact.poly.atoms().chain(value.yes.atoms()).chain(value.no.atoms());
            let is_of = about.any(|atom| poly.contains(atom));
            (is_of && !poly.contains(found)).then_some(found)
        })
    }

    /// Returns whether the atom is made of the thread's index and constants, and no guard bounds
    /// it. Then it reaches the ends of its range.
    fn is_of_thread(&self, atom: AtomId) -> bool {
        self.is_made_of_thread(atom) && !self.is_guarded(atom)
    }

    fn is_made_of_thread(&self, atom: AtomId) -> bool {
        fn is_of(search: &Search<'_>, atom: AtomId) -> bool {
            let data = search.atoms.get(atom);
            match &data.key {
                Key::Register(_) => data.range.hi < i128::from(LaunchBounds::MAX_THREADS),
                Key::Div(a, by) | Key::Rem(a, by) => {
                    by.as_constant().is_some() && a.atoms().all(|atom| is_of(search, atom))
                }
                _ => false,
            }
        }
        let data = self.atoms.get(atom);
        !data.is_launch && matches!(data.key, Key::Div(..) | Key::Rem(..)) && is_of(self, atom)
    }

    fn prove(&mut self, poly: &Poly, deps: Deps, depth: u32) -> Option<Deps> {
        if let Some(dead) = self.facts.dead {
            return Some(deps | dead);
        }
        let mut poly = numbers::tidy(self.atoms, poly.clone());
        if poly.constant < ROOM {
            poly = poly.simplified()?;
        }
        let poly = &poly;
        let (range, range_deps) = self.facts.range_of(self.atoms, poly);
        if range.lo >= 0 {
            return Some(deps | range_deps);
        }
        if self.presumes {
            // What must not wrap has room for sizes.
            let presume = match self.presumes_factors {
                _ if poly.constant >= ROOM => Presume::All,
                true => Presume::Factors,
                false => Presume::Pitches,
            };
            let (range, own) = self.facts.presumed_range_of(self.atoms, poly, presume);
            if range.lo >= 0 {
                return Some(deps | own);
            }
        }
        if poly.terms.is_empty() || depth == 0 || self.steps == 0 {
            return None;
        }
        let goal = Goal {
            poly: poly.clone(),
            added: self.added,
            collects: self.collects,
            is_launch: self.is_launch,
            is_loose: self.loose > 0,
        };
        if self.failed.get(&goal).is_some_and(|known| *known >= depth) {
            return None;
        }
        self.steps -= 1;
        self.taken += 1;
        let found = self.step(poly, range, deps, depth);
        // Without steps, the search has not tried everything.
        if found.is_none() && self.steps > 0 {
            self.failed.insert(goal, depth);
        }
        found
    }

    /// Tries to eliminate one atom after the other.
    fn step(&mut self, poly: &Poly, range: Range, deps: Deps, depth: u32) -> Option<Deps> {
        let mut order: Vec<AtomId> = poly.atoms().collect();
        order.sort_unstable();
        order.dedup();
        // Guards come first, because they are the tightest bounds.
        order.sort_by_cached_key(|atom| {
            let is_launch = self.atoms.get(*atom).is_launch;
            let is_scaled =
                poly.terms.iter().any(|term| term.atoms.len() > 1 && term.atoms.contains(atom));
            let is_guarded = !is_launch && self.is_guarded(*atom);
            (is_launch, !is_guarded, is_guarded && is_scaled, std::cmp::Reverse(*atom))
        });
        let is_launch = order.first().is_some_and(|atom| self.atoms.get(*atom).is_launch);
        if is_launch && self.collects && range.hi >= 0 {
            self.note(Some(poly), deps);
        }
        if is_launch && self.collects && !self.is_launch {
            let steps = self.steps;
            self.steps = steps.min(LAUNCH);
            self.is_launch = true;
            let found = self.eliminated(poly, order, deps, depth);
            self.is_launch = false;
            self.steps = steps - (steps.min(LAUNCH) - self.steps);
            return found;
        }
        self.eliminated(poly, order, deps, depth)
    }

    /// Eliminates one of the atoms.
    fn eliminated(
        &mut self,
        poly: &Poly,
        order: Vec<AtomId>,
        deps: Deps,
        depth: u32,
    ) -> Option<Deps> {
        let is_launch = order.first().is_some_and(|atom| self.atoms.get(*atom).is_launch);
        let mut tried = 0;
        for atom in order {
            if self.steps == 0 {
                return None;
            }
            let Some((coefficient, rest)) = poly.split(atom) else { continue };
            let Some((sign, sign_deps)) = self.sign(&coefficient, depth) else {
                if !is_launch && self.atoms.is_launch(&coefficient) {
                    // A launch decides: try the usual sign first, with positive pitches.
                    let first = if coefficient.terms.iter().all(|t| t.factor < 0) { -1 } else { 1 };
                    for sign in [first, -first] {
                        let Some(signed) = coefficient.scaled(sign) else { continue };
                        self.assuming(signed, |search| {
                            search.eliminate(poly, (atom, sign), &coefficient, &rest, deps, depth)
                        });
                    }
                }
                continue;
            };
            let deps = deps | sign_deps;
            if let Some(found) =
                self.eliminate(poly, (atom, sign), &coefficient, &rest, deps, depth)
            {
                return Some(found);
            }
            // Another order of elimination often finds the same bounds.
            tried += 1;
            if !is_launch && tried == if depth == DEPTH { 2 } else { 1 } {
                break;
            }
        }
        None
    }

    /// Returns whether a condition of the place bounds the atom.
    fn is_guarded(&self, atom: AtomId) -> bool {
        self.facts.guards().any(|fact| fact.poly.contains(atom))
    }

    /// Notes what a launch has to fulfil.
    fn note(&mut self, poly: Option<&Poly>, deps: Deps) {
        if poly.is_some_and(|poly| !self.is_plausible(poly)) {
            return;
        }
        let all: Vec<Poly> = self.assumed.iter().chain(poly).cloned().collect();
        let found = Found { all, deps, is_sharp: self.loose == 0 };
        if self.found.len() < CONDITIONS && !self.found.contains(&found) {
            self.found.push(found);
            // The first ones are the best ones.
            if self.loose == 0 {
                self.steps = self.steps.min(AFTER);
            }
        }
    }

    /// Returns whether a small launch, whose sizes are 1, can come close to `poly >= 0` with buffers
    /// of up to 2^31 elements. Bounds that do not cancel end in conditions such as
    /// `2^31 >= 2^37*n` and `len(y) >= n + 2^32`, which no launch fulfils.
    fn is_plausible(&self, poly: &Poly) -> bool {
        let range = self.atoms.range_with(poly, &|atom| {
            let (range, _) = self.facts.range(self.atoms, atom);
            match self.atoms.get(atom).key {
                Key::Param(_) | Key::Register(_) if range.hi >= 1 => Range::point(range.lo.max(1)),
                Key::Len(_) => Range { hi: range.hi.min(1 << 31), ..range },
                _ => range,
            }
        });
        range.hi >= -ROOM
    }

    /// Searches on with `poly >= 0` about the launch. What that proves is a condition.
    fn assuming(&mut self, poly: Poly, search: impl FnOnce(&mut Self) -> Option<Deps>) {
        if !self.collects || self.assumed.len() >= ASSUMED || self.found.len() >= CONDITIONS {
            return;
        }
        self.adding(|own| {
            own.facts.add(own.atoms, poly.clone(), 0);
            own.assumed.push(poly);
            if own.facts.dead.is_none()
                && let Some(deps) = search(own)
            {
                own.note(None, deps);
            }
            own.assumed.pop();
        });
    }

    /// Searches on with more facts, which `search` adds.
    fn adding<T>(&mut self, search: impl FnOnce(&mut Self) -> T) -> T {
        let (mark, added) = (self.facts.mark(), self.added);
        self.additions += 1;
        self.added = self.additions;
        let found = search(self);
        self.added = added;
        self.facts.back_to(mark);
        found
    }

    /// Proves two cases, each with claims of its own. If a launch has to fulfil something in one of
    /// them, that is a condition of both together.
    fn both_cases(
        &mut self,
        cases: [(Vec<(Claim, Deps)>, Option<Poly>); 2],
        deps: Deps,
        depth: u32,
    ) -> Option<Deps> {
        let before = std::mem::take(&mut self.found);
        let (steps, taken) = (self.steps, self.taken);
        let mut open = vec![Found { all: Vec::new(), deps, is_sharp: true }];
        let mut proved = Some(deps);
        for (claims, poly) in cases {
            // A condition of the first case must not end the search for one of the second.
            self.steps = steps.saturating_sub(self.taken - taken);
            let own = self.adding(|search| {
                for (claim, own) in &claims {
                    search.assume(claim, *own);
                }
                search.prove(&poly?, deps, depth)
            });
            let found = std::mem::take(&mut self.found);
            let mut next = Vec::new();
            for known in &open {
                if let Some(own) = own {
                    next.push(Found { deps: known.deps | own, ..known.clone() });
                    continue;
                }
                let sharp_first = found.iter().filter(|one| one.is_sharp);
                for one in sharp_first.chain(found.iter().filter(|one| !one.is_sharp)).take(2) {
                    let mut all = known.all.clone();
                    all.extend(one.all.iter().filter(|poly| !known.all.contains(poly)).cloned());
                    let is_sharp = known.is_sharp && one.is_sharp;
                    next.push(Found { all, deps: known.deps | one.deps, is_sharp });
                }
            }
            open = next;
            proved = proved.and_then(|deps| Some(deps | own?));
            if open.is_empty() {
                break;
            }
        }
        self.found = before;
        if proved.is_none() && self.collects {
            if open.iter().any(|one| one.is_sharp) {
                self.steps = self.steps.min(AFTER);
            }
            for one in open {
                if self.found.len() < CONDITIONS && !self.found.contains(&one) {
                    self.found.push(one);
                }
            }
        }
        proved
    }

    /// Returns 1 if the polynomial is never negative, -1 if it is never positive.
    fn sign(&mut self, poly: &Poly, depth: u32) -> Option<(i128, Deps)> {
        if let Some(constant) = poly.as_constant() {
            return Some((constant.signum(), 0));
        }
        let (range, deps) = self.facts.range_of(self.atoms, poly);
        if range.lo >= 0 {
            return Some((1, deps));
        }
        if range.hi <= 0 {
            return Some((-1, deps));
        }
        if let Some(sign) = self.presumed_sign(poly, Presume::Pitches) {
            return Some(sign);
        }
        let collects = std::mem::take(&mut self.collects);
        let depth = depth.min(3) - 1;
        let mut sign = self.prove(poly, 0, depth).map(|deps| (1, deps));
        if sign.is_none()
            && let Some(negated) = poly.scaled(-1)
        {
            sign = self.prove(&negated, 0, depth).map(|deps| (-1, deps));
        }
        self.collects = collects;
        sign.or_else(|| self.presumed_sign(poly, Presume::All))
    }

    fn presumed_sign(&self, poly: &Poly, presume: Presume) -> Option<(i128, Deps)> {
        if !self.presumes {
            return None;
        }
        let (range, own) = self.facts.presumed_range_of(self.atoms, poly, presume);
        match range {
            Range { lo: 0.., .. } => Some((1, own)),
            Range { hi: ..=0, .. } => Some((-1, own)),
            _ => None,
        }
    }

    /// Searches on behind a bound that no thread may reach.
    fn loosely<T>(&mut self, is_loose: bool, search: impl FnOnce(&mut Self) -> T) -> T {
        self.loose += u32::from(is_loose);
        let found = search(self);
        self.loose -= u32::from(is_loose);
        found
    }

    /// Tries each bound of the atom, whose coefficient has the given sign.
    fn eliminate(
        &mut self,
        poly: &Poly,
        (atom, sign): (AtomId, i128),
        coefficient: &Poly,
        rest: &Poly,
        deps: Deps,
        depth: u32,
    ) -> Option<Deps> {
        self.gone.push(atom);
        let found = self.bounded(poly, (atom, sign), coefficient, rest, deps, depth - 1);
        self.gone.pop();
        found
    }

    fn bounded(
        &mut self,
        poly: &Poly,
        (atom, sign): (AtomId, i128),
        coefficient: &Poly,
        rest: &Poly,
        deps: Deps,
        next: u32,
    ) -> Option<Deps> {
        if let Some(choice) = self.atoms.get(atom).choice.clone() {
            let both = self.choose(poly, atom, &choice.cond, [&choice.yes, &choice.no], deps, next);
            if both.is_some() {
                return both;
            }
        }
        // Some thread reaches the end of an index that is made of the thread's alone, unless a guard
        // is on this side.
        let is_bounded = |fact: &Fact| fact.poly.sign_of(atom).is_none_or(|own| own == sign);
        if self.is_made_of_thread(atom) && !self.facts.guards().any(is_bounded) {
            let before = self.found.len();
            let range = self.atoms.get(atom).range;
            let end = coefficient.scaled(if sign > 0 { range.lo } else { range.hi })?.plus(rest)?;
            let found = self.prove(&end, deps, next);
            if found.is_some() || self.found.len() > before {
                return found;
            }
        }
        // Bounds of quotients and sums that were found before are better than their definitions.
        let is_bounded = |fact: &Fact| {
            fact.poly
                .sign_of(atom)
                .map_or_else(|| fact.poly.split(atom).is_some(), |own| own == sign)
        };
        let is_unknown = match &self.atoms.get(atom).key {
            Key::Sum(_) => true,
            Key::Div(_, by) => by.as_constant().is_none(),
            _ => false,
        };
        let is_first = !is_unknown && !self.facts.guards().any(is_bounded);
        if is_first && let Some(found) = self.definition(poly, (atom, sign), deps, next) {
            return Some(found);
        }
        let mut is_guarded = false;
        for i in (0..self.facts.all.len()).rev() {
            let fact = &self.facts.all[i];
            // The opposite bound does not help.
            if fact.poly.sign_of(atom).is_some_and(|own| own != sign) {
                continue;
            }
            if self.steps == 0 {
                return None;
            }
            let is_guard = fact.is_guard && i >= self.facts.universal;
            let is_part = fact.part_of.is_some();
            let (fact, deps) = (fact.poly.clone(), deps | fact.deps);
            // The innermost guard counts.
            // Tile counts are sizes rounded up.
            let is_derived =
                !is_guard && i >= self.facts.universal && !self.atoms.get(atom).is_launch;
            let is_loose = is_guarded && (is_guard || i < self.facts.universal)
                || is_derived
                || is_part
                || fact.atoms().any(|other| other != atom && self.gone.contains(&other));
            is_guarded |= is_guard;
            let found = self.loosely(is_loose, |search| {
                if let Some(tight) = search.tightened(&fact)
                    && let Some(found) =
                        search.combine(poly, (atom, sign), coefficient, &tight, deps, next)
                {
                    return Some(found);
                }
                search.combine(poly, (atom, sign), coefficient, &fact, deps, next)
            });
            if found.is_some() {
                return found;
            }
        }
        if !is_first {
            let found = self
                .loosely(is_guarded, |search| search.definition(poly, (atom, sign), deps, next));
            if found.is_some() {
                return found;
            }
        }
        for i in (0..self.facts.equalities.len()).rev() {
            let equality = &self.facts.equalities[i];
            if equality.atom == atom && !equality.value.contains(atom) {
                let (value, own) = (equality.value.clone(), equality.deps);
                if let Some(found) =
                    poly.with(atom, &value).and_then(|poly| self.prove(&poly, deps | own, next))
                {
                    return Some(found);
                }
            }
        }
        if let Key::Sum(sum) = self.atoms.get(atom).key.clone() {
            let poly = coefficient.times(&sum)?.plus(rest)?;
            return self.loosely(is_guarded, |search| search.start(&poly, deps, next));
        }
        // The ends of the atom's range.
        let (range, range_deps) = self.facts.range(self.atoms, atom);
        let end = if sign > 0 { range.lo } else { range.hi };
        if end.abs() < Range::LIMIT {
            let poly = coefficient.scaled(end)?.plus(rest)?;
            let is_loose = is_guarded || self.is_coarse(atom, sign);
            return self.loosely(is_loose, |search| search.prove(&poly, deps | range_deps, next));
        }
        None
    }

    /// Returns whether the end of the atom's range, the lower one for a positive `sign`, may be a
    /// value that it never has.
    fn is_coarse(&self, atom: AtomId, sign: i128) -> bool {
        let data = self.atoms.get(atom);
        match &data.key {
            Key::Value(..) | Key::Address(_) | Key::Start(_) | Key::Sum(_) => true,
            Key::Trip(..) | Key::Trips(..) => data.range.hi >= i128::from(i32::MAX) - 1,
            // There is always a first block.
            Key::Register(_) => sign < 0 && data.range.hi > i128::from(LaunchBounds::MAX_THREADS),
            _ => false,
        }
    }

    /// Makes use of common factors: if `n - 1 - 8*i >= 0`, then `8*((n - 1)/8) - 8*i >= 0`.
    fn tightened(&mut self, fact: &Poly) -> Option<Poly> {
        let mut launch = Poly::constant(fact.constant);
        let mut others = Poly::default();
        for term in &fact.terms {
            let is_launch = term.atoms.iter().all(|atom| self.atoms.get(*atom).is_launch);
            let part = if is_launch { &mut launch } else { &mut others };
            part.terms.push(*term);
        }
        let common = i128::try_from(self.atoms.multiple(&others)).ok().filter(|all| *all > 1)?;
        if self.atoms.multiple(&launch).is_multiple_of(common.unsigned_abs()) {
            return None;
        }
        let quotient = numbers::div(self.atoms, &launch, &Poly::constant(common))?;
        others.plus_scaled(&quotient, common)
    }

    /// Returns a bound that a launch knows: the largest value of the polynomial here. The innermost
    /// guard that bounds the polynomial counts, else its terms are bounded one by one.
    fn largest(&mut self, poly: &Poly, depth: u32) -> Option<(Poly, Deps)> {
        if self.atoms.is_launch(poly) {
            return Some((poly.clone(), 0));
        }
        let depth = depth.checked_sub(1)?;
        // A single atom is looked at below.
        let is_open = |atom: &AtomId| !self.atoms.get(*atom).is_launch;
        if poly.atoms().filter(is_open).count() > 1
            && let Some(found) = self.guarded_bound(poly, By::Guards, depth)
        {
            return Some(found);
        }
        if let Some(found) = self.largest_by_bound(poly, depth) {
            return Some(found);
        }
        if let Some(found) = self.largest_by_guard(poly, depth) {
            return Some(found);
        }
        // Terms with the same launch values as factors are bounded together: the row of
        // `row*pitch + column`, which may be a sum, and then the column.
        let (mut sum, mut deps) = (Poly::constant(poly.constant), 0);
        let mut parts: Vec<(Product, Poly)> = Vec::new();
        for term in &poly.terms {
            let (launch, other): (Product, Product) =
                term.atoms.iter().copied().partition(|atom| self.atoms.get(*atom).is_launch);
            let part = match parts.iter_mut().find(|(known, _)| *known == launch) {
                Some((_, part)) => part,
                None => {
                    parts.push((launch, Poly::default()));
                    &mut parts.last_mut()?.1
                }
            };
            part.terms.push(Term { atoms: other, factor: term.factor });
        }
        for (launch, mut part) in parts {
            let factor = Poly::from(Term { atoms: launch, factor: 1 });
            let (constants, others): (Vec<Term>, Vec<Term>) =
                part.terms.drain(..).partition(|term| term.atoms.is_empty());
            for term in constants {
                sum = sum.plus_scaled(&factor, term.factor)?;
            }
            if others.is_empty() {
                continue;
            }
            let mut others = Poly { terms: others.into_iter().collect(), constant: 0 };
            others.terms.sort_unstable();
            let (sign, own) = match factor.as_constant() {
                Some(_) => (1, 0),
                None => self.presumed_sign(&factor, Presume::All)?,
            };
            if sign < 0 {
                return None;
            }
            let (most, more) = self.largest_part(&others, depth)?;
            deps |= own | more;
            sum = sum.plus(&factor.times(&most)?)?;
        }
        Some((sum, deps))
    }

    /// Returns the largest value of the polynomial without the guards of the place.
    pub(super) fn largest_anywhere(mut self, poly: &Poly) -> Option<(Poly, Deps)> {
        self.bounding = (0..self.facts.all.len()).collect();
        self.largest(poly, NESTING)
    }

    /// Replaces an atom by its bound, if that is no value of the launch. It may cancel with other
    /// terms: `s*q + x` with `x < min(s, n - s*q)` is less than `n`.
    fn largest_by_bound(&mut self, poly: &Poly, depth: u32) -> Option<(Poly, Deps)> {
        let mut atoms: Vec<AtomId> =
            poly.atoms().filter(|atom| !self.atoms.get(*atom).is_launch).collect();
        if atoms.len() < 2 {
            return None;
        }
        atoms.sort_unstable();
        for atom in atoms.into_iter().rev() {
            let ends = match self.atoms.get(atom).key.clone() {
                Key::Rem(_, by) if !self.atoms.is_launch(&by) => vec![by.plus_constant(-1)?],
                // Without a size, nothing cancels.
                Key::Min(a, b) if self.has_size(&a) || self.has_size(&b) => vec![a, b],
                _ => continue,
            };
            let Some((coefficient, _)) = poly.split(atom) else { continue };
            let sign = match coefficient.as_constant() {
                Some(constant) => Some((constant.signum(), 0)),
                None => self.presumed_sign(&coefficient, Presume::All),
            };
            let Some((1, sign_deps)) = sign else { continue };
            let bounded: Option<Vec<Poly>> = ends.iter().map(|end| poly.with(atom, end)).collect();
            return self.least(&bounded?, depth).map(|(most, deps)| (most, deps | sign_deps));
        }
        None
    }

    /// Bounds the terms that a guard has together, and then the others: with `2*x + y*n < m`, the
    /// largest value of `4*x + 2*y*n + z` is that of `z` and `2*(m - 1)`.
    fn largest_by_guard(&mut self, poly: &Poly, depth: u32) -> Option<(Poly, Deps)> {
        let all = self.facts.all.iter().enumerate().skip(self.facts.universal);
        let guards: Vec<(usize, Poly)> = all
            .filter(|(_, fact)| fact.is_guard && fact.part_of.is_none())
            .map(|(i, fact)| (i, fact.poly.clone()))
            .collect();
        for (i, guard) in guards.into_iter().rev() {
            let whole = self.bounded_terms(&guard);
            let parts = self.facts.all.iter().filter(|fact| fact.part_of == Some(i));
            let parts = parts.map(|fact| self.bounded_terms(&fact.poly));
            // A part may bound more terms together than the guard itself.
            let parts = parts.filter(|part| part.len() > whole.len());
            let mut all: Vec<Vec<Term>> = parts.chain([whole.clone()]).collect();
            all.sort_by_key(|bounded| std::cmp::Reverse(bounded.len()));
            let found = all.iter().find_map(|bounded| {
                let is_part = |term: &&Term| bounded.iter().any(|own| own.atoms == term.atoms);
                let part: Vec<Term> = poly.terms.iter().filter(is_part).copied().collect();
                // Single atoms are bounded one by one.
                let is_atom = matches!(&bounded[..], [term] if term.atoms.len() == 1);
                let is_some = !bounded.is_empty() && !is_atom && part.len() < poly.terms.len();
                (is_some && part.len() == bounded.len()).then_some(part)
            });
            let Some(part) = found else { continue };
            let part = Poly { terms: part.into_iter().collect(), constant: 0 };
            let rest = poly.minus(&part)?;
            if let Some((most, deps)) = self.guarded_bound(&part, By::Parts, depth) {
                let (others, more) = self.largest(&rest, depth)?;
                return Some((most.plus(&others)?, deps | more));
            }
        }
        None
    }

    /// Returns whether the polynomial contains what a launch knows.
    fn has_size(&self, poly: &Poly) -> bool {
        poly.atoms().any(|atom| self.atoms.get(atom).is_launch)
    }

    /// Returns the terms that a guard bounds from above and that a launch does not know.
    fn bounded_terms(&self, guard: &Poly) -> Vec<Term> {
        let Some(guard) = self.atoms.expanded(guard) else { return Vec::new() };
        let is_launch = |term: &Term| term.atoms.iter().all(|atom| self.atoms.get(*atom).is_launch);
        guard.terms.iter().filter(|term| term.factor < 0 && !is_launch(term)).copied().collect()
    }

    /// Returns the smallest of the largest values of several polynomials, as far as they are known.
    fn least(&mut self, all: &[Poly], depth: u32) -> Option<(Poly, Deps)> {
        let before = self.is_coarse_bound;
        let mut is_coarse = true;
        let mut least: Option<(Poly, Deps)> = None;
        for poly in all {
            self.is_coarse_bound = false;
            let Some((most, own)) = self.largest(poly, depth) else { continue };
            is_coarse &= self.is_coarse_bound;
            least = Some(match least {
                Some((known, deps)) => {
                    // What both add is no part of the choice.
                    let more = if known.constant == most.constant { most.constant } else { 0 };
                    let (known, most) = (known.plus_constant(-more)?, most.plus_constant(-more)?);
                    let least = numbers::min_max(self.atoms, &known, &most, true);
                    (least.plus_constant(more)?, deps | own)
                }
                None => (most, own),
            });
        }
        self.is_coarse_bound = before || is_coarse;
        least
    }

    /// Returns whether a guard bounds the atom from above, and does not depend on data.
    fn is_limited(&self, atom: AtomId) -> bool {
        self.facts.guards().any(|fact| {
            let is_about = fact.poly.contains(atom) || self.atoms.has_name(&fact.poly);
            let is_bounded = is_about
                && self.atoms.expanded(&fact.poly).is_some_and(|guard| {
                    !matches!(guard.sign_of(atom), Some(0 | 1)) && !self.atoms.is_data(&guard)
                });
            is_bounded || self.atoms.is_choice_about(&fact.poly, atom)
        })
    }

    /// Returns a launch's bound of the polynomial from the innermost guard that has one.
    fn guarded_bound(&mut self, poly: &Poly, by: By, depth: u32) -> Option<(Poly, Deps)> {
        // Guards count in elements, offsets in bytes.
        let plain = Poly { terms: poly.terms.clone(), constant: 0 };
        let content = i128::try_from(plain.content()).ok()?.max(1);
        let expanded = self.atoms.expanded(&plain.simplified()?)?;
        let open: Vec<AtomId> =
            expanded.atoms().filter(|atom| !self.atoms.get(*atom).is_launch).collect();
        let first = *open.first()?;
        let first_term = expanded.terms.iter().find(|term| term.atoms.contains(&first))?.atoms;
        let mut bounds = Vec::new();
        let local = self.facts.all.iter().enumerate().skip(self.facts.universal);
        for (i, fact) in local.filter(|(_, fact)| fact.is_guard).rev() {
            if self.bounding.contains(&i) || by == By::Guards && fact.part_of.is_some() {
                continue;
            }
            let is_about = fact.poly.contains(first) || self.atoms.has_name(&fact.poly);
            let Some(guard) = is_about.then(|| self.atoms.expanded(&fact.poly)).flatten() else {
                continue;
            };
            let factor = |poly: &Poly| poly.factor_of(&first_term);
            let scale = match (factor(&guard), factor(&expanded)) {
                (Some(guard), Some(own)) if guard % own == 0 => -(guard / own),
                (Some(_), Some(_)) => continue,
                _ => 1,
            };
            if scale > 0
                && let Some(bound) = guard.plus_scaled(&expanded, scale)
                && !open.iter().any(|atom| bound.contains(*atom))
            {
                bounds.push((fact.part_of, i, scale, bound, fact.deps));
            }
        }
        // Guards first, then the parts of one, which bound the polynomial together.
        bounds.sort_by_key(|bound| bound.0.is_some());
        bounds.chunk_by(|a, b| a.0.is_some() && a.0 == b.0).find_map(|parts| {
            let mut least: Option<(Poly, Deps)> = None;
            for (_, i, scale, bound, deps) in parts {
                self.lookups = self.lookups.checked_sub(1)?;
                self.bounding.push(*i);
                let found = self.largest(bound, depth);
                self.bounding.pop();
                let Some((most, own)) = found else { continue };
                // An even index below `n` is at most `2*((n - 1)/2)`.
                let (most, more) = self.rounded(&most, *scale, &expanded)?;
                let most = most.scaled(content)?.plus_constant(poly.constant)?;
                let own = own | more;
                least = Some(match least {
                    Some((known, deps)) => {
                        (numbers::min_max(self.atoms, &known, &most, true), deps | own)
                    }
                    None => (most, deps | own),
                });
            }
            least
        })
    }

    /// Returns the largest value that `index` may have if its product with `scale` is at most `most`,
    /// and what that relies on.
    fn rounded(&mut self, most: &Poly, scale: i128, index: &Poly) -> Option<(Poly, Deps)> {
        let signed = |step: u128| i128::try_from(step).ok().map(|step| step.max(1));
        let whole = most.plus_constant(most.constant.checked_neg()?)?;
        if self.presumes && scale == 1 {
            let (step, deps) = self.facts.presumed_multiple(self.atoms, index);
            let step = signed(step)?;
            let (multiple, more) = self.facts.presumed_multiple(self.atoms, &whole);
            if deps != 0 && multiple.is_multiple_of(step.unsigned_abs()) {
                let rest = most.constant.div_euclid(step).checked_mul(step)?;
                return Some((whole.plus_constant(rest)?, deps | more));
            }
            // For example, the end of a row of any length.
            if deps != 0 && whole.terms.len() == 1 {
                let most = numbers::div(self.atoms, most, &Poly::constant(step))?;
                return Some((most.scaled(step)?, deps));
            }
        }
        let step = signed(self.atoms.multiple(index))?;
        let by = Poly::constant(scale.checked_mul(step)?);
        Some((numbers::div(self.atoms, most, &by)?.scaled(step)?, 0))
    }

    /// Returns the largest value of a sum of products that a launch does not know.
    fn largest_part(&mut self, poly: &Poly, depth: u32) -> Option<(Poly, Deps)> {
        if poly.terms.len() > 1
            && let Some(found) = self.guarded_bound(poly, By::Parts, depth)
        {
            return Some(found);
        }
        let (mut sum, mut deps) = (Poly::default(), 0);
        for term in &poly.terms {
            let [atom] = term.atoms[..] else { return None };
            let (most, own) = if term.factor > 0 {
                self.largest_of(atom, depth)?
            } else {
                let (range, own) = self.facts.range(self.atoms, atom);
                if range.lo < 0 {
                    return None;
                }
                (Poly::constant(range.lo), own)
            };
            sum = sum.plus_scaled(&most, term.factor)?;
            deps |= own;
        }
        Some((sum, deps))
    }

    /// Returns the largest value of an atom that a launch does not know.
    fn largest_of(&mut self, atom: AtomId, depth: u32) -> Option<(Poly, Deps)> {
        // A guard about data does not make an index of the thread smaller.
        let (range, range_deps) = self.facts.range(self.atoms, atom);
        if self.is_made_of_thread(atom) && range.hi < ROOM {
            let most = Poly::constant(range.hi);
            return Some(match self.guarded_bound(&Poly::atom(atom), By::Guards, 0) {
                Some((bound, deps)) => {
                    (numbers::min_max(self.atoms, &most, &bound, true), deps | range_deps)
                }
                None => {
                    self.is_coarse_bound |= self.is_limited(atom);
                    (most, range_deps)
                }
            });
        }
        let guarded = self.guarded_bound(&Poly::atom(atom), By::Parts, depth);
        if let Some((most, _)) = &guarded
            && most.as_constant().is_none()
        {
            // A minimum of a size is simpler than what a guard says about other minima.
            if matches!(self.atoms.get(atom).key, Key::Min(..))
                && self.atoms.has_extremum(most)
                && let Some(defined) = self.largest_by_definition(atom, (range, range_deps), depth)
                && !self.atoms.has_extremum(&defined.0)
            {
                return Some(defined);
            }
            return guarded;
        }
        // A constant may be more than a launch makes of it.
        let is_coarse = self.is_coarse_bound;
        let defined = self.largest_by_definition(atom, (range, range_deps), depth);
        match (guarded, defined) {
            (Some((a, x)), Some((b, y))) => {
                self.is_coarse_bound = is_coarse;
                Some((numbers::min_max(self.atoms, &a, &b, true), x | y))
            }
            (Some(guarded), None) => {
                self.is_coarse_bound = is_coarse;
                Some(guarded)
            }
            (None, defined) => defined,
        }
    }

    /// Returns the largest value of an atom from what it is made of.
    fn largest_by_definition(
        &mut self,
        atom: AtomId,
        (range, range_deps): (Range, Deps),
        depth: u32,
    ) -> Option<(Poly, Deps)> {
        let is_limited = self.is_limited(atom);
        let data = self.atoms.get(atom);
        if let Some(choice) = data.choice.clone() {
            let (yes, a) = self.largest(&choice.yes, depth)?;
            let (no, b) = self.largest(&choice.no, depth)?;
            return Some((numbers::min_max(self.atoms, &yes, &no, false), a | b));
        }
        match data.key.clone() {
            Key::Register(SpecialReg::Ctaid(axis)) => {
                self.is_coarse_bound |= is_limited;
                let count = self.atoms.find(&Key::Register(SpecialReg::Nctaid(axis)))?;
                Some((Poly::atom(count).plus_constant(-1)?, 0))
            }
            Key::Register(SpecialReg::Tid(axis))
                if self.atoms.find(&Key::Register(SpecialReg::Ntid(axis))).is_some() =>
            {
                self.is_coarse_bound |= is_limited;
                let count = self.atoms.find(&Key::Register(SpecialReg::Ntid(axis)))?;
                Some((Poly::atom(count).plus_constant(-1)?, 0))
            }
            Key::Div(a, by) if self.atoms.is_launch(&by) => {
                let (most, deps) = self.largest(&a, depth)?;
                Some((numbers::div(self.atoms, &most, &by)?, deps))
            }
            Key::Rem(_, by) if by.as_constant().is_none() && self.atoms.is_launch(&by) => {
                self.is_coarse_bound |= is_limited;
                let step = i128::try_from(self.atoms.get(atom).multiple).ok()?;
                Some((by.plus_constant(-step)?, 0))
            }
            Key::Rem(_, by) if !self.atoms.is_launch(&by) => {
                let (most, deps) = self.largest(&by, depth)?;
                Some((most.plus_constant(-1)?, deps))
            }
            Key::Sum(sum) => self.largest(&sum, depth),
            Key::Min(a, b) => self.least(&[a, b], depth),
            Key::Max(a, b) => {
                let ((a, x), (b, y)) = (self.largest(&a, depth)?, self.largest(&b, depth)?);
                Some((numbers::min_max(self.atoms, &a, &b, false), x | y))
            }
            _ => {
                if range.hi >= ROOM {
                    return None;
                }
                self.is_coarse_bound |= is_limited;
                Some((Poly::constant(range.hi), range_deps))
            }
        }
    }

    /// Tries both values of an atom that is one of two.
    fn choose(
        &mut self,
        poly: &Poly,
        atom: AtomId,
        cond: &Cond,
        [yes, no]: [&Poly; 2],
        deps: Deps,
        depth: u32,
    ) -> Option<Deps> {
        let cases = [(&cond.yes, yes), (&cond.no, no)].map(|(claims, value)| {
            // What guards say about the atom, they say about its value.
            let mut claims: Vec<(Claim, Deps)> =
                claims.iter().map(|claim| (claim.clone(), cond.deps)).collect();
            claims.extend(self.facts.guards_with(self.atoms, atom, value));
            // The polynomial may have the atom in the operands of a minimum only.
            let replaced = numbers::replaced(self.atoms, poly, atom, value);
            (claims, replaced.or_else(|| Some(poly.clone())))
        });
        self.both_cases(cases, deps | cond.deps, depth)
    }

    /// Adds a claim to the facts.
    pub(super) fn assume(&mut self, claim: &Claim, deps: Deps) {
        match claim {
            Claim::Ge(poly) => self.facts.add(self.atoms, poly.clone(), deps),
            Claim::Eq(poly) => self.facts.add_equal(self.atoms, poly, deps),
            Claim::Unknown => self.facts.lost += 1,
            Claim::Cases(cases) => {
                self.facts.lost += 1;
                self.facts.cases.push((Rc::clone(cases), deps));
            }
            Claim::Aligned(root, offset, bytes, own) => {
                self.facts.aligned.push((*root, offset.clone(), *bytes, deps | own));
            }
            Claim::Ne(poly) => {
                // If one side is known, the integer is at least one away from zero.
                for sign in [1, -1] {
                    let Some(side) = poly.scaled(sign) else { continue };
                    let (range, own) = self.facts.range_of(self.atoms, &side);
                    let (steps, collects) = (self.steps, std::mem::take(&mut self.collects));
                    let known = if range.lo >= 0 { Some(own) } else { self.prove(&side, 0, 3) };
                    (self.steps, self.collects) = (steps, collects);
                    if let (Some(own), Some(away)) = (known, side.plus_constant(-1)) {
                        self.facts.add(self.atoms, away, deps | own);
                        return;
                    }
                }
                if self.atoms.is_launch(poly) {
                    self.facts.unequal.push((poly.clone(), deps));
                }
            }
        }
    }

    /// Eliminates the atom by what its definition says.
    fn definition(
        &mut self,
        poly: &Poly,
        (atom, sign): (AtomId, i128),
        deps: Deps,
        depth: u32,
    ) -> Option<Deps> {
        let key = self.atoms.get(atom).key.clone();
        let (coefficient, rest) = poly.split(atom)?;
        match key {
            Key::Div(value, by) => {
                // The largest quotient, if a launch knows it.
                if sign < 0
                    && by.as_constant().is_none()
                    && !self.atoms.get(atom).is_launch
                    && self.atoms.is_launch(&by)
                    && let Some((most, own)) = self.largest(&value, NESTING)
                    && let Some(quotient) = numbers::div(self.atoms, &most, &by)
                    && let Some(found) =
                        self.prove(&coefficient.times(&quotient)?.plus(&rest)?, deps | own, depth)
                {
                    return Some(found);
                }
                // Nothing is lost to rounding where the dividend is not negative.
                if sign > 0
                    && self.facts.range(self.atoms, atom).0.lo < 0
                    && let Some(own) = self.is_positive(&value, depth)
                    && let Some(found) = self.prove(&rest, deps | own, depth)
                {
                    return Some(found);
                }
                // by*atom <= value <= by*atom + by - 1
                let scaled = Poly::atom(atom).times(&by)?;
                let fact = if sign < 0 {
                    value.minus(&scaled)?
                } else {
                    scaled.plus(&by)?.plus_constant(-1)?.minus(&value)?
                };
                self.combine(poly, (atom, sign), &coefficient, &fact, deps, depth)
            }
            Key::Rem(value, by) => {
                if sign < 0 {
                    // At most `by - 1`, and at most the value if that is not negative. If both
                    // are multiples of 16, at most `by - 16`.
                    let step = match by.as_constant() {
                        Some(_) => 1,
                        None => i128::try_from(self.atoms.get(atom).multiple).ok()?,
                    };
                    let end = coefficient.times(&by.plus_constant(-step)?)?.plus(&rest)?;
                    let found = self.prove(&end, deps, depth);
                    if found.is_some() {
                        return found;
                    }
                    let deps = deps | self.is_positive(&value, depth)?;
                    let end = coefficient.times(&value)?.plus(&rest)?;
                    return self.prove(&end, deps, depth);
                }
                None
            }
            Key::Min(a, b) | Key::Max(a, b) => {
                let is_min = matches!(self.atoms.get(atom).key, Key::Min(..));
                let any = is_min == (sign < 0);
                if any {
                    // Either operand is a bound.
                    let [a, b] = [a, b].map(|end| coefficient.times(&end)?.plus(&rest));
                    let found = self.prove(&a?, deps, depth);
                    return found.or_else(|| self.prove(&b?, deps, depth));
                }
                // The atom is the smaller operand, also in quotients and in the guards.
                let (less, more) = if is_min { (&a, &b) } else { (&b, &a) };
                let claims = [more.minus(less)?, less.minus(more)?.plus_constant(-1)?];
                let [yes, no] = claims.map(|claim| vec![Claim::Ge(claim)]);
                self.choose(poly, atom, &Cond { yes, no, deps: 0 }, [&a, &b], deps, depth)
            }
            _ => None,
        }
    }

    /// Returns whether a dividend is known not to be negative, and what that relies on.
    fn is_positive(&mut self, value: &Poly, depth: u32) -> Option<Deps> {
        let (range, deps) = self.facts.range_of(self.atoms, value);
        if range.lo >= 0 {
            return Some(deps);
        }
        let collects = std::mem::take(&mut self.collects);
        let found = self.prove(value, 0, depth.min(VALUE));
        self.collects = collects;
        found
    }

    /// Subtracts a fact so often that the atom cancels, and goes on with the rest.
    fn combine(
        &mut self,
        poly: &Poly,
        (atom, sign): (AtomId, i128),
        coefficient: &Poly,
        fact: &Poly,
        deps: Deps,
        depth: u32,
    ) -> Option<Deps> {
        let (own, _) = fact.split(atom)?;
        // k * poly = c * fact + next, with c >= 0 and k >= 1
        let (mut k, mut c) = (own.scaled(sign)?, coefficient.scaled(sign)?);
        let mut deps = deps;
        if let Some((small, other)) = without_common_factor(&k, &c)
            && let (Range { lo: 0.., .. }, own) = self.facts.range_of(self.atoms, &other)
        {
            (k, c) = (small, other);
            deps |= own;
        }
        let mut unknown = None;
        match k.as_constant() {
            Some(k) if k < 1 => return None,
            Some(_) => {}
            None => {
                let (range, own) = self.facts.range_of(self.atoms, &k);
                if range.lo >= 1 {
                    deps |= own;
                } else {
                    let positive = k.plus_constant(-1)?;
                    let fact = self.facts.all.iter().find(|fact| fact.poly == positive);
                    let fact = fact.map(|fact| fact.deps);
                    let collects = std::mem::take(&mut self.collects);
                    let known = fact.or_else(|| self.prove(&positive, 0, depth.min(2)));
                    self.collects = collects;
                    match known {
                        Some(known) => deps |= known,
                        None if self.atoms.is_launch(&k) => unknown = Some(positive),
                        None => return None,
                    }
                }
            }
        }
        let next = poly.times(&k)?.minus(&c.times(fact)?)?;
        if next.contains(atom) {
            return None;
        }
        // poly is an integer, so k * poly > -k is enough.
        let next = next.plus(&k)?.plus_constant(-1)?;
        match unknown {
            None => self.prove(&next, deps, depth),
            Some(positive) => {
                self.assuming(positive, |search| search.prove(&next, deps, depth));
                None
            }
        }
    }
}

/// Divides both by the atoms that all their terms have in common, if there are any.
fn without_common_factor(a: &Poly, b: &Poly) -> Option<(Poly, Poly)> {
    if a.constant != 0 || b.constant != 0 {
        return None;
    }
    let is_common =
        |atom: &AtomId| a.terms.iter().chain(&b.terms).all(|term| term.atoms.contains(atom));
    let common = a.terms.first()?.atoms.iter().copied().find(is_common)?;
    let (small, other) = (a.split(common)?.0, b.split(common)?.0);
    without_common_factor(&small, &other).or(Some((small, other)))
}
