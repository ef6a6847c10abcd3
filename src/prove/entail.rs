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

use super::atom::{Atoms, Key};
use super::claim::{Claim, Cond, Deps};
use super::facts::Facts;
use super::poly::{AtomId, Poly};
use super::range::Range;

/// The maximum count of atoms that one branch of the search eliminates.
const DEPTH: u32 = 9;

/// The maximum count of steps of one search.
const STEPS: u32 = 240;

/// How many steps follow the first launch condition.
const AFTER: u32 = 60;

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
}

pub(super) struct Search<'a> {
    pub(super) atoms: &'a mut Atoms,
    pub(super) facts: &'a mut Facts,
    steps: u32,
    /// Whether to collect launch conditions.
    collects: bool,
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
            collects: false,
            found: Vec::new(),
            assumed: Vec::new(),
        }
    }

    /// Decides whether `poly >= 0`, and collects launch conditions if it is not known.
    pub(super) fn decide(mut self, poly: &Poly) -> Answer {
        self.collects = true;
        match self.prove(poly, 0, DEPTH) {
            Some(deps) => Answer::Yes(deps),
            None => Answer::If(self.found),
        }
    }

    /// Returns whether `poly >= 0` is known, and what that relies on.
    pub(super) fn known(mut self, poly: &Poly) -> Option<Deps> {
        self.prove(poly, 0, DEPTH)
    }

    fn prove(&mut self, poly: &Poly, deps: Deps, depth: u32) -> Option<Deps> {
        if let Some(dead) = self.facts.dead {
            return Some(deps | dead);
        }
        let (range, range_deps) = self.facts.range_of(self.atoms, poly);
        if range.lo >= 0 {
            return Some(deps | range_deps);
        }
        if poly.terms.is_empty() || depth == 0 || self.steps == 0 {
            return None;
        }
        self.steps -= 1;
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
        let mut tried = 0;
        for atom in order {
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
        self.facts.all[self.facts.universal..].iter().any(|fact| fact.poly.contains(atom))
    }

    /// Notes what a launch has to fulfil.
    fn note(&mut self, poly: Option<&Poly>, deps: Deps) {
        let all: Vec<Poly> = self.assumed.iter().chain(poly).cloned().collect();
        let found = Found { all, deps };
        if self.found.len() < CONDITIONS && !self.found.contains(&found) {
            self.found.push(found);
            // The first ones are the best ones.
            self.steps = self.steps.min(AFTER);
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
        cases: [(&[Claim], Option<Poly>); 2],
        (deps, claim_deps): (Deps, Deps),
        depth: u32,
    ) -> Option<Deps> {
        let before = std::mem::take(&mut self.found);
        let mut open = vec![Found { all: Vec::new(), deps }];
        let mut proved = Some(deps);
        for (claims, poly) in cases {
            let mark = self.facts.mark();
            for claim in claims {
                self.assume(claim, claim_deps);
            }
            let own = poly.and_then(|poly| self.prove(&poly, deps, depth));
            self.facts.back_to(mark);
            let found = std::mem::take(&mut self.found);
            let mut next = Vec::new();
            for known in &open {
                if let Some(own) = own {
                    next.push(Found { all: known.all.clone(), deps: known.deps | own });
                    continue;
                }
                for one in found.iter().take(2) {
                    let mut all = known.all.clone();
                    all.extend(one.all.iter().filter(|poly| !known.all.contains(poly)).cloned());
                    next.push(Found { all, deps: known.deps | one.deps });
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
        let collects = std::mem::take(&mut self.collects);
        let depth = depth.min(4) - 1;
        let mut sign = self.prove(poly, 0, depth).map(|deps| (1, deps));
        if sign.is_none()
            && let Some(negated) = poly.scaled(-1)
        {
            sign = self.prove(&negated, 0, depth).map(|deps| (-1, deps));
        }
        self.collects = collects;
        sign
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
        let next = depth - 1;
        if let Some(choice) = self.atoms.get(atom).choice.clone() {
            let both = self.choose(poly, atom, &choice.cond, [&choice.yes, &choice.no], deps, next);
            if both.is_some() {
                return both;
            }
        }
        if let Some(found) = self.definition(poly, (atom, sign), deps, next) {
            return Some(found);
        }
        for i in (0..self.facts.all.len()).rev() {
            let fact = &self.facts.all[i];
            if !fact.poly.contains(atom) {
                continue;
            }
            let (fact, fact_deps) = (fact.poly.clone(), fact.deps);
            if let Some(found) =
                self.combine(poly, (atom, sign), coefficient, &fact, deps | fact_deps, next)
            {
                return Some(found);
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
        // The ends of the atom's range.
        let (range, range_deps) = self.facts.range(self.atoms, atom);
        let end = if sign > 0 { range.lo } else { range.hi };
        if end.abs() < Range::LIMIT {
            let poly = coefficient.scaled(end)?.plus(rest)?;
            return self.prove(&poly, deps | range_deps, next);
        }
        None
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
        let cases = [(&cond.yes[..], poly.with(atom, yes)), (&cond.no[..], poly.with(atom, no))];
        self.both_cases(cases, (deps | cond.deps, cond.deps), depth)
    }

    /// Adds a claim to the facts.
    pub(super) fn assume(&mut self, claim: &Claim, deps: Deps) {
        match claim {
            Claim::Ge(poly) => self.facts.add(self.atoms, poly.clone(), deps),
            Claim::Eq(poly) => self.facts.add_equal(self.atoms, poly, deps),
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
                self.both_cases([(&[], a), (&[], b)], (deps, 0), depth)
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
                    let collects = std::mem::take(&mut self.collects);
                    let known = self.prove(&positive, 0, depth.min(3));
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
