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

use super::atom::{Atoms, Key};
use super::claim::{Claim, Cond, Deps};
use super::facts::{Fact, Facts, Presume};
use super::numbers;
use super::poly::{AtomId, Poly};
use super::range::Range;
use crate::ir::LaunchBounds;
use crate::ir::op::SpecialReg;

/// The maximum count of atoms that one branch of the search eliminates.
const DEPTH: u32 = 12;

/// The maximum count of steps of one search.
const STEPS: u32 = 150;

/// How many steps follow the first launch condition.
const AFTER: u32 = 4;

/// What must not wrap has at least this much room.
const ROOM: i128 = 1 << 24;

/// How many steps may compare what a launch knows with the facts about it.
const LAUNCH: u32 = 8;

/// The maximum count of things that one branch assumes about the launch.
const ASSUMED: usize = 3;

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

pub(super) struct Search<'a> {
    pub(super) atoms: &'a mut Atoms,
    pub(super) facts: &'a mut Facts,
    /// How many steps are left, and how many were taken.
    steps: u32,
    taken: u32,
    /// Whether to collect launch conditions.
    collects: bool,
    /// Whether parameters may be presumed to be at least 0.
    presumes: bool,
    /// Whether the present branch is about what a launch knows.
    is_launch: bool,
    /// How many bounds of the present branch no thread may reach.
    loose: u32,
    /// The atoms that the present branch has eliminated.
    gone: Vec<AtomId>,
    found: Vec<Found>,
    /// What the present branch assumes about the launch.
    assumed: Vec<Poly>,
}

impl<'a> Search<'a> {
    pub(super) fn new(atoms: &'a mut Atoms, facts: &'a mut Facts) -> Search<'a> {
        Search {
            atoms,
            facts,
            steps: STEPS,
            taken: 0,
            collects: false,
            presumes: false,
            is_launch: false,
            loose: 0,
            gone: Vec::new(),
            found: Vec::new(),
            assumed: Vec::new(),
        }
    }

    /// Decides whether `poly >= 0`, and collects launch conditions if it is not known.
    pub(super) fn decide(mut self, poly: &Poly) -> Answer {
        self.collects = true;
        self.presumes = true;
        match self.start(poly, 0, DEPTH) {
            Some(deps) => Answer::Yes(deps),
            None => Answer::If(self.found),
        }
    }

    /// Returns whether `poly >= 0` is known, and what that relies on.
    pub(super) fn known(mut self, poly: &Poly) -> Option<Deps> {
        self.start(poly, 0, DEPTH)
    }

    /// As [`known`](Search::known), with at most this many steps.
    pub(super) fn known_within(mut self, poly: &Poly, steps: u32) -> Option<Deps> {
        self.steps = steps;
        self.start(poly, 0, DEPTH)
    }

    /// As [`known`](Search::known), if parameters are not negative.
    pub(super) fn presumed(mut self, poly: &Poly) -> Option<Deps> {
        self.presumes = true;
        self.start(poly, 0, DEPTH)
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
        let poly = &numbers::tidy(self.atoms, poly.clone());
        let (range, range_deps) = self.facts.range_of(self.atoms, poly);
        if range.lo >= 0 {
            return Some(deps | range_deps);
        }
        if self.presumes {
            // What must not wrap has room for sizes.
            let presume = if poly.constant >= ROOM { Presume::All } else { Presume::Pitches };
            let (range, own) = self.facts.presumed_range_of(self.atoms, poly, presume);
            if range.lo >= 0 {
                return Some(deps | own);
            }
        }
        if poly.terms.is_empty() || depth == 0 || self.steps == 0 {
            return None;
        }
        self.steps -= 1;
        self.taken += 1;
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

    /// Searches on with `poly >= 0` about the launch. What that proves is a condition.
    fn assuming(&mut self, poly: Poly, search: impl FnOnce(&mut Self) -> Option<Deps>) {
        if !self.collects || self.assumed.len() >= ASSUMED || self.found.len() >= CONDITIONS {
            return;
        }
        let mark = self.facts.mark();
        self.facts.add(self.atoms, poly.clone(), 0);
        self.assumed.push(poly);
        if self.facts.dead.is_none()
            && let Some(deps) = search(self)
        {
            self.note(None, deps);
        }
        self.assumed.pop();
        self.facts.back_to(mark);
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
            let mark = self.facts.mark();
            for (claim, own) in &claims {
                self.assume(claim, *own);
            }
            let own = poly.and_then(|poly| self.prove(&poly, deps, depth));
            self.facts.back_to(mark);
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
            let (fact, deps) = (fact.poly.clone(), deps | fact.deps);
            // The innermost guard counts.
            // Tile counts are sizes rounded up.
            let is_derived =
                !is_guard && i >= self.facts.universal && !self.atoms.get(atom).is_launch;
            let is_loose = is_guarded && (is_guard || i < self.facts.universal)
                || is_derived
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
            Key::Value(..) | Key::Start(_) | Key::Sum(_) => true,
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

    /// Returns a bound that a launch knows: the largest value of the polynomial.
    fn largest(&self, poly: &Poly) -> Option<Poly> {
        let mut sum = Poly::constant(poly.constant);
        for term in &poly.terms {
            let own = Poly { terms: [*term].into_iter().collect(), constant: 0 };
            let count = match term.atoms[..] {
                [atom] if term.factor > 0 => match self.atoms.get(atom).key {
                    Key::Register(SpecialReg::Ctaid(axis)) => {
                        self.atoms.find(&Key::Register(SpecialReg::Nctaid(axis)))
                    }
                    _ => None,
                },
                _ => None,
            };
            if let Some(count) = count {
                sum = sum.plus_scaled(&Poly::atom(count).plus_constant(-1)?, term.factor)?;
            } else if self.atoms.is_launch(&own) {
                sum = sum.plus(&own)?;
            } else {
                return None;
            }
        }
        Some(sum)
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
            let guards: Vec<(Poly, Deps)> =
                self.facts.guards().map(|fact| (fact.poly.clone(), fact.deps)).collect();
            let mut claims: Vec<(Claim, Deps)> =
                claims.iter().map(|claim| (claim.clone(), cond.deps)).collect();
            for (guard, own) in guards {
                if let Some(guard) = numbers::replaced(self.atoms, &guard, atom, value) {
                    claims.push((Claim::Ge(guard), own));
                }
            }
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
                    && coefficient.as_constant().is_none()
                    && self.atoms.is_launch(&by)
                    && let Some(most) = self.largest(&value)
                    && let Some(quotient) = numbers::div(self.atoms, &most, &by)
                    && let Some(found) =
                        self.prove(&coefficient.times(&quotient)?.plus(&rest)?, deps, depth)
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
                    // At most `by - 1`, and at most the value if that is not negative.
                    let end = coefficient.times(&by.plus_constant(-1)?)?.plus(&rest)?;
                    let found = self.prove(&end, deps, depth);
                    if found.is_some() || self.atoms.range(&value).lo < 0 {
                        return found;
                    }
                    let end = coefficient.times(&value)?.plus(&rest)?;
                    return self.prove(&end, deps, depth);
                }
                None
            }
            Key::Min(a, b) | Key::Max(a, b) => {
                let is_min = matches!(self.atoms.get(atom).key, Key::Min(..));
                let any = is_min == (sign < 0);
                let [a, b] = [a, b].map(|end| coefficient.times(&end)?.plus(&rest));
                if any {
                    // Either operand is a bound.
                    let found = self.prove(&a?, deps, depth);
                    return found.or_else(|| self.prove(&b?, deps, depth));
                }
                self.both_cases([(Vec::new(), a), (Vec::new(), b)], deps, depth)
            }
            _ => None,
        }
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
        let k = own.scaled(sign)?;
        let c = coefficient.scaled(sign)?;
        let mut deps = deps;
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
