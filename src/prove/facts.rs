//! [`Facts`]: the inequalities and equalities that hold at the operation that `walk.rs` looks at,
//! for example `i < n` inside of `if_(i.lt(n))`. They are a stack, because a region's facts end
//! with the region. `entail.rs` derives bounds from them.

use std::collections::HashMap;
use std::rc::Rc;

use super::atom::Atoms;
use super::claim::{Claim, Cond, Deps};
use super::numbers;
use super::pointer::Root;
use super::poly::{AtomId, Poly, Term, gcd};
use super::range::Range;

/// `poly >= 0`, if the conditions of `deps` hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) poly: Poly,
    pub(super) deps: Deps,
    /// Whether the kernel compares here, rather than that the fact follows from a definition.
    pub(super) is_guard: bool,
    /// The fact that this one is a part of: what is at most a minimum is at most each operand, but
    /// perhaps never reaches it.
    pub(super) part_of: Option<usize>,
}

/// `atom == value`, if the conditions of `deps` hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Equality {
    pub(super) atom: AtomId,
    pub(super) value: Poly,
    pub(super) deps: Deps,
}

/// Which parameters are presumed to be at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presume {
    /// Those of 64 bits. Guards hardly ever say anything about them.
    Pitches,
    /// Also those that the polynomial multiplies with.
    Factors,
    All,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) all: Vec<Fact>,
    pub(super) equalities: Vec<Equality>,
    /// What a launch knows not to be 0 here, and what that relies on.
    pub(super) unequal: Vec<(Poly, Deps)>,
    /// Addresses, as offsets into allocations, and what they are multiples of.
    pub(super) aligned: Vec<(Root, Poly, u128, Deps)>,
    /// Pairs of which one holds, and what that relies on.
    pub(super) cases: Vec<(Rc<[Vec<Claim>; 2]>, Deps)>,
    /// The conditions of the enclosing `if`s, and whether they hold here.
    pub(super) conds: Vec<(Rc<Cond>, bool)>,
    /// Atoms with a smaller range than everywhere. The ranges that were known before are in
    /// `undo`.
    ranges: Vec<Option<(Range, Deps)>>,
    undo: Vec<(AtomId, Option<(Range, Deps)>)>,
    /// How many of `all` hold everywhere.
    pub(super) universal: usize,
    /// Parameters that may be presumed to be at least 0, each with the launch condition that says
    /// so. Pitches and strides are signed, but hardly any launch passes a negative one.
    pub(super) presumed: HashMap<AtomId, Deps>,
    /// Launch values that are multiples of these, if the launch conditions hold. Aligned accesses
    /// need them to be.
    pub(super) multiples: HashMap<AtomId, (u128, Deps)>,
    /// How many guards say more here than their claims.
    pub(super) lost: u32,
    /// Whether the place cannot be reached.
    pub(super) dead: Option<Deps>,
}

/// A height of the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    all: usize,
    equalities: usize,
    unequal: usize,
    aligned: usize,
    cases: usize,
    conds: usize,
    undo: usize,
    lost: u32,
    dead: Option<Deps>,
}

impl Facts {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            all: self.all.len(),
            equalities: self.equalities.len(),
            unequal: self.unequal.len(),
            aligned: self.aligned.len(),
            cases: self.cases.len(),
            conds: self.conds.len(),
            undo: self.undo.len(),
            lost: self.lost,
            dead: self.dead,
        }
    }

    pub(super) fn back_to(&mut self, mark: Mark) {
        self.all.truncate(mark.all);
        self.equalities.truncate(mark.equalities);
        self.unequal.truncate(mark.unequal);
        self.aligned.truncate(mark.aligned);
        self.cases.truncate(mark.cases);
        self.conds.truncate(mark.conds);
        while self.undo.len() > mark.undo {
            match self.undo.pop() {
                Some((atom, known)) => self.ranges[atom as usize] = known,
                None => break,
            }
        }
        self.lost = mark.lost;
        self.dead = mark.dead;
    }

    /// Returns the atom's range here, and what that relies on.
    pub(super) fn range(&self, atoms: &Atoms, atom: AtomId) -> (Range, Deps) {
        match self.ranges.get(atom as usize) {
            Some(Some(known)) => *known,
            _ => (atoms.get(atom).range, 0),
        }
    }

    /// Returns the polynomial's range here, and what that relies on.
    pub(super) fn range_of(&self, atoms: &Atoms, poly: &Poly) -> (Range, Deps) {
        let range = atoms.range_with(poly, &|atom| self.range(atoms, atom).0);
        let deps = if self.ranges.is_empty() {
            0
        } else {
            poly.atoms().fold(0, |deps, atom| deps | self.range(atoms, atom).1)
        };
        (range, deps)
    }

    /// Returns the polynomial's range here if presumed parameters are at least 0, and what that
    /// relies on.
    pub(super) fn presumed_range_of(
        &self,
        atoms: &Atoms,
        poly: &Poly,
        presume: Presume,
    ) -> (Range, Deps) {
        let least = match presume {
            Presume::Pitches | Presume::Factors => -(1 << 32),
            Presume::All => 0,
        };
        let presumed = |atom: AtomId| {
            let (known, deps) = self.range(atoms, atom);
            let is_factor = || {
                presume == Presume::Factors
                    && poly
                        .terms
                        .iter()
                        .any(|term| term.atoms.len() > 1 && term.atoms.contains(&atom))
            };
            let is_open = known.lo < 0 && (atoms.get(atom).range.lo < least || is_factor());
            match is_open.then(|| self.presumed.get(&atom)).flatten() {
                Some(more) => (Range { lo: 0, hi: known.hi.max(0) }, deps | more),
                None => (known, deps),
            }
        };
        let range = atoms.range_with(poly, &|atom| presumed(atom).0);
        (range, poly.atoms().fold(0, |deps, atom| deps | presumed(atom).1))
    }

    /// Returns an integer that divides every value of the polynomial if launch values are multiples,
    /// and what that relies on.
    pub(super) fn presumed_multiple(&self, atoms: &Atoms, poly: &Poly) -> (u128, Deps) {
        let plain = (atoms.multiple(poly), 0);
        if !poly.atoms().any(|atom| self.multiples.contains_key(&atom)) {
            return plain;
        }
        let of_term = |term: &Term| {
            let own = (term.factor.unsigned_abs(), 0);
            term.atoms.iter().fold(own, |(all, deps), atom| {
                let known = atoms.get(*atom).multiple;
                let (multiple, own) = match self.multiples.get(atom) {
                    Some((multiple, own)) if *multiple > known => (*multiple, *own),
                    _ => (known, 0),
                };
                (all.checked_mul(multiple).unwrap_or(all), deps | own)
            })
        };
        let start = (poly.constant.unsigned_abs(), 0);
        let presumed = poly.terms.iter().fold(start, |(all, deps), term| {
            let (multiple, own) = of_term(term);
            (gcd(all, multiple), deps | own)
        });
        if presumed.0 > plain.0 { presumed } else { plain }
    }

    /// Returns the guards of the place.
    pub(super) fn guards(&self) -> impl DoubleEndedIterator<Item = &Fact> {
        let local = self.all.get(self.universal..).unwrap_or_default();
        local.iter().filter(|fact| fact.is_guard)
    }

    /// Returns what the guards say about an atom, with `value` in its place.
    pub(super) fn guards_with(
        &self,
        atoms: &mut Atoms,
        atom: AtomId,
        value: &Poly,
    ) -> Vec<(Claim, Deps)> {
        self.guards()
            .filter_map(|fact| {
                let guard = numbers::replaced(atoms, &fact.poly, atom, value)?;
                Some((Claim::Ge(guard), fact.deps))
            })
            .collect()
    }

    /// Adds `poly >= 0`, which follows from a definition.
    pub(super) fn add_definition(&mut self, atoms: &Atoms, poly: Poly, deps: Deps) {
        if self.all.iter().any(|fact| fact.poly == poly) {
            return;
        }
        let count = self.all.len();
        self.add(atoms, poly, deps);
        if let Some(fact) = self.all.get_mut(count) {
            fact.is_guard = false;
        }
    }

    /// Adds `poly >= 0`, which is a part of the fact with this index.
    pub(super) fn add_part(&mut self, atoms: &Atoms, poly: Poly, deps: Deps, whole: usize) {
        if self.all.iter().any(|fact| fact.poly == poly) {
            return;
        }
        let count = self.all.len();
        self.add(atoms, poly, deps);
        if let Some(fact) = self.all.get_mut(count) {
            fact.part_of = Some(whole);
        }
    }

    /// Says that the facts from index `first` on are what an `assume_*` promises. If a launch decides
    /// them, they are no guards.
    pub(super) fn promised(&mut self, atoms: &Atoms, first: usize) {
        for fact in self.all.iter_mut().skip(first) {
            fact.is_guard &= !atoms.is_launch(&fact.poly);
        }
    }

    /// Adds `poly >= 0`.
    pub(super) fn add(&mut self, atoms: &Atoms, poly: Poly, deps: Deps) {
        if let Some(constant) = poly.as_constant() {
            if constant < 0 {
                self.dead.get_or_insert(deps);
            }
            return;
        }
        // A bound of a single atom by a constant makes its range smaller.
        if let [term] = &poly.terms[..]
            && let [atom] = term.atoms[..]
        {
            let (known, known_deps) = self.range(atoms, atom);
            let bound = if term.factor > 0 {
                let lo = -poly.constant.div_euclid(term.factor);
                Range { lo, hi: Range::LIMIT }
            } else {
                let hi = poly.constant.div_euclid(-term.factor);
                Range { lo: -Range::LIMIT, hi }
            };
            let both = Range { lo: known.lo.max(bound.lo), hi: known.hi.min(bound.hi) };
            if both.lo > both.hi {
                self.dead.get_or_insert(deps | known_deps);
            } else if both != known {
                if self.ranges.len() <= atom as usize {
                    self.ranges.resize(atom as usize + 1, None);
                }
                let own = Some((both, deps | known_deps));
                let before = std::mem::replace(&mut self.ranges[atom as usize], own);
                self.undo.push((atom, before));
            }
        }
        let (range, range_deps) = self.range_of(atoms, &poly);
        if range.hi < 0 {
            self.dead.get_or_insert(deps | range_deps);
        }
        self.all.push(Fact { poly, deps, is_guard: true, part_of: None });
    }

    /// Adds `poly == 0`.
    pub(super) fn add_equal(&mut self, atoms: &Atoms, poly: &Poly, deps: Deps) {
        // Solve for the latest atom with a factor of one.
        let solvable = poly.terms.iter().filter(|term| {
            term.factor.abs() == 1 && matches!(term.atoms[..], [atom] if poly.split(atom).is_some())
        });
        let latest = solvable.max_by_key(|term| term.atoms[0]);
        if let Some(term) = latest
            && let Some((_, rest)) = poly.split(term.atoms[0])
            && let Some(value) = rest.scaled(-term.factor)
            && !value.contains(term.atoms[0])
        {
            self.equalities.push(Equality { atom: term.atoms[0], value, deps });
        }
        self.add(atoms, poly.clone(), deps);
        if let Some(negated) = poly.scaled(-1) {
            self.add(atoms, negated, deps);
        }
    }
}
