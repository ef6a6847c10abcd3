//! [`Atoms`]: the unknowns of [polynomials](super::poly), with what is known about each of them
//! wherever it is defined.

use std::collections::HashMap;
use std::rc::Rc;

use super::claim::{Claim, Cond};
use super::poly::{AtomId, Poly, Term, gcd};
use super::range::Range;
use crate::ir::op::SpecialReg;
use crate::ir::{OpId, SharedId, Value};

/// The largest exponent of a [`Key::Power`].
pub(super) const MAX_POWER: i128 = 62;

/// What an atom stands for. Equal keys are the same atom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A special register, such as `tid.x`.
    Register(SpecialReg),
    /// The integer parameter with this index.
    Param(u32),
    /// How many elements the buffer of this parameter has.
    Len(u32),
    /// The size of this tensor map's box, in bytes.
    BoxBytes(u32),
    /// The address of this parameter's buffer, in elements: buffers start at a multiple of an element.
    Address(u32),
    /// The address of this shared allocation, in units of 16 bytes.
    Start(SharedId),
    /// A value of the kernel that nothing more is known about.
    /// Walks of a loop's body are numbered.
    Value(Value, u32),
    /// How many iterations of the loop came before the present one.
    Trip(OpId, u32),
    /// How many iterations the loop had.
    Trips(OpId, u32),
    /// The quotient rounded down; the divisor is at least 1.
    Div(Poly, Poly),
    /// The remainder of the quotient rounded down, from 0 to the divisor less 1.
    Rem(Poly, Poly),
    /// Exclusive or; both are at least 0.
    Xor(Poly, Poly),
    /// Bitwise and; both are at least 0.
    And(Poly, Poly),
    /// Bitwise or; both are at least 0.
    Or(Poly, Poly),
    Min(Poly, Poly),
    Max(Poly, Poly),
    /// Two to the power of an integer, of which only 0 to [`MAX_POWER`] counts.
    Power(Poly),
    /// What this atom is in another thread. Unknowns of different pairs of accesses are numbered.
    Second(AtomId, u32),
    /// The polynomial under a name of its own, for example a row that is made of a tile's row and
    /// a thread's. Guards and products of it have few terms then.
    Sum(Poly),
}

impl Key {
    /// Returns the polynomials that the atom is made of: none if it is an unknown of its own.
    pub(super) fn operands(&self) -> impl Iterator<Item = &Poly> {
        let (a, b) = match self {
            Key::Div(a, b)
            | Key::Rem(a, b)
            | Key::Xor(a, b)
            | Key::And(a, b)
            | Key::Or(a, b)
            | Key::Min(a, b)
            | Key::Max(a, b) => (Some(a), Some(b)),
            Key::Power(poly) | Key::Sum(poly) => (Some(poly), None),
            Key::Register(_)
            | Key::Param(_)
            | Key::Len(_)
            | Key::BoxBytes(_)
            | Key::Address(_)
            | Key::Start(_)
            | Key::Value(..)
            | Key::Trip(..)
            | Key::Trips(..)
            | Key::Second(..) => (None, None),
        };
        a.into_iter().chain(b)
    }
}

/// An atom that is one of two values.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) cond: Rc<Cond>,
    pub(super) yes: Poly,
    pub(super) no: Poly,
}

#[derive(Debug)]
pub(super) struct Atom {
    pub(super) key: Key,
    pub(super) range: Range,
    /// All values are multiples of this.
    pub(super) multiple: u128,
    /// Whether a launch knows the value.
    pub(super) is_launch: bool,
    pub(super) choice: Option<Choice>,
}

/// All atoms of a kernel.
#[derive(Debug, Default)]
pub(super) struct Atoms {
    all: Vec<Atom>,
    ids: HashMap<Key, AtomId>,
    /// The atoms that name polynomials.
    names: Vec<AtomId>,
}

impl Atoms {
    pub(super) fn get(&self, atom: AtomId) -> &Atom {
        &self.all[atom as usize - 1]
    }

    pub(super) fn find(&self, key: &Key) -> Option<AtomId> {
        self.ids.get(key).copied()
    }

    /// Returns the atom as a polynomial, or its value if there is only one.
    pub(super) fn of(&mut self, key: Key, range: Range, multiple: u128) -> Poly {
        if let Some(value) = range.as_point() {
            return Poly::constant(value);
        }
        Poly::atom(self.id(key, range, multiple, None))
    }

    /// Returns the atom that is `choice.yes` where the condition holds, and else `choice.no`.
    pub(super) fn choose(
        &mut self,
        (value, walk): (Value, u32),
        range: Range,
        choice: Choice,
    ) -> Poly {
        let multiple = gcd(self.multiple(&choice.yes), self.multiple(&choice.no)).max(1);
        Poly::atom(self.id(Key::Value(value, walk), range, multiple, Some(choice)))
    }

    /// Returns the atom's value in another thread, whose choice is `choice`.
    pub(super) fn second(&mut self, atom: AtomId, pair: u32, choice: Option<Choice>) -> Poly {
        let (range, multiple) = (self.get(atom).range, self.get(atom).multiple);
        Poly::atom(self.id(Key::Second(atom, pair), range, multiple, choice))
    }

    fn id(&mut self, key: Key, range: Range, multiple: u128, choice: Option<Choice>) -> AtomId {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let all = |polys: &[&Poly]| polys.iter().all(|poly| self.is_launch(poly));
        let is_launch = match &key {
            Key::Register(SpecialReg::Ntid(_) | SpecialReg::Nctaid(_)) => true,
            Key::Param(_) | Key::Len(_) | Key::BoxBytes(_) => true,
            Key::Address(_) | Key::Start(_) => false,
            Key::Register(_) | Key::Value(..) | Key::Trip(..) | Key::Trips(..) => false,
            Key::Second(..) => false,
            Key::Div(a, b) | Key::Rem(a, b) | Key::Min(a, b) | Key::Max(a, b) => all(&[a, b]),
            Key::Xor(..) | Key::And(..) | Key::Or(..) => false,
            Key::Power(poly) | Key::Sum(poly) => all(&[poly]),
        };
        let id = self.all.len() as AtomId + 1;
        if let Key::Sum(_) = &key {
            self.names.push(id);
        }
        self.all.push(Atom {
            key: key.clone(),
            range,
            multiple: multiple.max(1),
            is_launch,
            choice,
        });
        self.ids.insert(key, id);
        id
    }

    /// Gives the polynomial's terms a name. Returns the named polynomial.
    pub(super) fn named(&mut self, poly: &Poly) -> Option<Poly> {
        let sum = poly.plus_constant(poly.constant.checked_neg()?)?;
        let is_size = |term: &Term| term.atoms.iter().all(|atom| self.get(*atom).is_launch);
        let is_plain = !sum.atoms().any(|atom| self.is_complex(atom));
        if sum.terms.len() < 2 || is_plain || sum.terms.iter().any(is_size) {
            return Some(poly.clone());
        }
        let (range, multiple) = (self.range(&sum), self.multiple(&sum));
        self.of(Key::Sum(sum), range, multiple).plus_constant(poly.constant)
    }

    /// Returns whether a search has to look into the atom, as it is one of two values, or made by
    /// dividing by an unknown.
    fn is_complex(&self, atom: AtomId) -> bool {
        let data = self.get(atom);
        match &data.key {
            Key::Div(_, by) | Key::Rem(_, by) => by.as_constant().is_none(),
            _ => data.choice.is_some(),
        }
    }

    /// Counts of tiles: quotients by a constant that a launch knows, with the constant.
    pub(super) fn tile_counts(&self) -> Vec<(AtomId, i128)> {
        let count = |(id, atom): (usize, &Atom)| match &atom.key {
            Key::Div(size, by) => {
                let [Term { atoms, factor: 1 }] = &size.terms[..] else { return None };
                let [param] = atoms[..] else { return None };
                let is_param = matches!(self.get(param).key, Key::Param(_));
                let size = by.as_constant().filter(|by| is_param && size.constant == by - 1)?;
                Some((id as AtomId + 1, size))
            }
            _ => None,
        };
        self.all.iter().enumerate().filter_map(count).take(3).collect()
    }

    /// Puts names in place of the sums that they name.
    pub(super) fn folded(&self, poly: Poly) -> Poly {
        let mut poly = poly;
        for &name in &self.names {
            let Key::Sum(sum) = &self.get(name).key else { continue };
            let Some(first) = sum.terms.first() else { continue };
            let own = poly.terms.iter().find(|term| term.atoms == first.atoms);
            let Some(scale) = own.map(|term| term.factor).filter(|f| f % first.factor == 0) else {
                continue;
            };
            let scale = scale / first.factor;
            let is_part = sum.terms.iter().all(|part| {
                let factor = part.factor.checked_mul(scale);
                let has = |term: &Term| term.atoms == part.atoms && Some(term.factor) == factor;
                poly.terms.iter().any(has)
            });
            if is_part
                && let Some(rest) = poly.plus_scaled(sum, -scale)
                && let Some(folded) = rest.plus_scaled(&Poly::atom(name), scale)
            {
                poly = folded;
            }
        }
        poly
    }

    /// Returns whether the polynomial contains the name of a sum.
    pub(super) fn has_name(&self, poly: &Poly) -> bool {
        poly.atoms().any(|atom| matches!(self.get(atom).key, Key::Sum(_)))
    }

    /// Returns whether the polynomial contains a buffer's address.
    pub(super) fn has_address(&self, poly: &Poly) -> bool {
        poly.atoms().any(|atom| matches!(self.get(atom).key, Key::Address(_)))
    }

    /// Puts sums in place of their names.
    pub(super) fn expanded(&self, poly: &Poly) -> Option<Poly> {
        let mut poly = poly.clone();
        if !self.has_name(&poly) {
            return Some(poly);
        }
        for &name in self.names.iter().rev() {
            if poly.contains(name)
                && let Key::Sum(sum) = &self.get(name).key
            {
                poly = poly.with(name, sum)?;
            }
        }
        Some(poly)
    }

    /// Returns whether a launch can compute the polynomial.
    pub(super) fn is_launch(&self, poly: &Poly) -> bool {
        poly.atoms().all(|atom| self.get(atom).is_launch)
    }

    /// Returns the atoms of the polynomial that are one of two values, also those in quotients,
    /// minima and maxima.
    pub(super) fn choices(&self, poly: &Poly) -> Vec<AtomId> {
        let mut found = Vec::new();
        for atom in poly.atoms() {
            let data = self.get(atom);
            match &data.key {
                _ if data.choice.is_some() => found.push(atom),
                Key::Div(a, b) | Key::Min(a, b) | Key::Max(a, b) => {
                    found.extend(self.choices(a));
                    found.extend(self.choices(b));
                }
                _ => {}
            }
        }
        found
    }

    /// Returns whether the polynomial contains a minimum or a maximum.
    pub(super) fn has_extremum(&self, poly: &Poly) -> bool {
        poly.atoms().any(|atom| self.is_extremum(atom))
    }

    fn is_extremum(&self, atom: AtomId) -> bool {
        matches!(self.get(atom).key, Key::Min(..) | Key::Max(..))
    }

    /// Returns the latest minimum or maximum in the quotients of the polynomial.
    pub(super) fn divided_extremum(&self, poly: &Poly) -> Option<AtomId> {
        let of_quotient = |atom: AtomId| match &self.get(atom).key {
            Key::Div(a, _) => a.atoms().filter(|atom| self.is_extremum(*atom)).max(),
            _ => None,
        };
        poly.atoms().filter_map(of_quotient).max()
    }

    /// Returns whether one of the polynomial's atoms is one of two values, and their condition bounds
    /// the atom without data.
    pub(super) fn is_choice_about(&self, poly: &Poly, atom: AtomId) -> bool {
        poly.atoms().any(|other| {
            let Some(choice) = &self.get(other).choice else { return false };
            choice.cond.yes.iter().chain(&choice.cond.no).any(|claim| {
                let Claim::Ge(claim) = claim else { return false };
                let expanded = self.expanded(claim);
                expanded.is_some_and(|claim| claim.contains(atom) && !self.is_data(&claim))
            })
        })
    }

    /// Returns whether the polynomial depends on values that nothing is known about, such as data.
    pub(super) fn is_data(&self, poly: &Poly) -> bool {
        poly.atoms().any(|atom| {
            let data = self.get(atom);
            if let Some(choice) = &data.choice {
                return self.is_data(&choice.yes) || self.is_data(&choice.no);
            }
            match &data.key {
                Key::Value(..) => true,
                Key::Second(first, _) => self.is_data(&Poly::atom(*first)),
                key => key.operands().any(|operand| self.is_data(operand)),
            }
        })
    }

    /// Returns an integer that divides every value of the polynomial; 0 if it is always 0.
    pub(super) fn multiple(&self, poly: &Poly) -> u128 {
        poly.terms
            .iter()
            .fold(poly.constant.unsigned_abs(), |all, term| gcd(all, self.of_term(term)))
    }

    pub(super) fn of_term(&self, term: &Term) -> u128 {
        let factors = term.atoms.iter().map(|atom| self.get(*atom).multiple);
        let own = term.factor.unsigned_abs();
        factors.fold(own, |all, factor| all.checked_mul(factor).unwrap_or(all))
    }

    /// Returns the range of a polynomial whose atoms have the ranges that `of` returns.
    pub(super) fn range_with(&self, poly: &Poly, of: &dyn Fn(AtomId) -> Range) -> Range {
        let mut sum = Range::point(poly.constant);
        for term in &poly.terms {
            let mut product = Range::point(term.factor);
            let mut i = 0;
            while let Some(&atom) = term.atoms.get(i) {
                // A square is never negative.
                if term.atoms.get(i + 1) == Some(&atom) {
                    let square = of(atom).times(of(atom));
                    product = product.times(Range { lo: square.lo.max(0), hi: square.hi });
                    i += 2;
                } else {
                    product = product.times(of(atom));
                    i += 1;
                }
            }
            sum = sum.plus(product);
        }
        sum
    }

    /// Returns the range of a polynomial, from what holds everywhere.
    pub(super) fn range(&self, poly: &Poly) -> Range {
        self.range_with(poly, &|atom| self.get(atom).range)
    }
}
