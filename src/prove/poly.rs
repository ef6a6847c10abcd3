//! [`Poly`]: polynomials with integer coefficients over [atoms](super::atom).
//!
//! Every integer of a kernel that the prover follows is a polynomial. Most are affine, for example
//! `128*ctaid.x + tid.x`. Products of two unknowns appear in row pitches, for example
//! `row*n + col`.

use std::ops::Deref;

use smallvec::SmallVec;

/// The index of an atom, at least 1.
pub(super) type AtomId = u32;

/// The maximum count of terms. Larger polynomials are not followed.
const TERMS: usize = 40;

/// The maximum degree of a term.
const DEGREE: usize = 4;

/// Atoms that are multiplied, sorted. An atom may appear more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Product {
    /// Those behind the last atom are 0. Searches copy products all the time, so they own no
    /// memory.
    atoms: [AtomId; DEGREE],
}

impl Product {
    fn one(atom: AtomId) -> Product {
        let mut product = Product::default();
        product.atoms[0] = atom;
        product
    }

    /// Returns the product of both, or `None` if its degree is too large.
    fn times(&self, other: &Product) -> Option<Product> {
        let count = self.len();
        let mut product = *self;
        product.atoms.get_mut(count..count + other.len())?.copy_from_slice(other);
        product.atoms[..count + other.len()].sort_unstable();
        Some(product)
    }

    /// Returns the product without the atom, which may appear only once.
    fn without(&self, atom: AtomId) -> Product {
        let mut product = *self;
        if let Some(position) = self.iter().position(|other| *other == atom) {
            product.atoms.copy_within(position + 1.., position);
            product.atoms[DEGREE - 1] = 0;
        }
        product
    }
}

impl Deref for Product {
    type Target = [AtomId];

    fn deref(&self) -> &[AtomId] {
        let count = self.atoms.iter().take_while(|atom| **atom != 0).count();
        &self.atoms[..count]
    }
}

/// Appends atoms in ascending order, [`DEGREE`] at most.
impl Extend<AtomId> for Product {
    fn extend<I: IntoIterator<Item = AtomId>>(&mut self, atoms: I) {
        let count = self.len();
        for (place, atom) in self.atoms[count..].iter_mut().zip(atoms) {
            *place = atom;
        }
    }
}

/// `factor` times the product of `atoms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) atoms: Product,
    pub(super) factor: i128,
}

impl Term {
    /// Returns the exact quotient of two terms, if there is one.
    pub(super) fn divided(&self, by: &Term) -> Option<Term> {
        let factor = (self.factor % by.factor == 0).then_some(self.factor / by.factor)?;
        let mut atoms = self.atoms;
        for atom in by.atoms.iter() {
            atoms = atoms.contains(atom).then(|| atoms.without(*atom))?;
        }
        Some(Term { atoms, factor })
    }
}

impl From<Term> for Poly {
    fn from(term: Term) -> Poly {
        if term.atoms.is_empty() {
            return Poly::constant(term.factor);
        }
        Poly { terms: SmallVec::from_iter([term]), constant: 0 }
    }
}

/// A sum of terms and a constant. Terms are sorted by their atoms, and no factor is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Poly {
    pub(super) terms: SmallVec<[Term; 3]>,
    pub(super) constant: i128,
}

impl Poly {
    pub(super) fn constant(constant: i128) -> Poly {
        Poly { terms: SmallVec::new(), constant }
    }

    pub(super) fn atom(atom: AtomId) -> Poly {
        let term = Term { atoms: Product::one(atom), factor: 1 };
        Poly { terms: SmallVec::from_iter([term]), constant: 0 }
    }

    /// Returns a polynomial without a common factor that is at least 0 where this one is.
    pub(super) fn simplified(&self) -> Option<Poly> {
        let content = i128::try_from(self.content()).ok()?;
        if content < 2 {
            return Some(self.clone());
        }
        let mut poly = self.clone();
        poly.constant = poly.constant.div_euclid(content);
        for term in &mut poly.terms {
            term.factor /= content;
        }
        Some(poly)
    }

    pub(super) fn as_constant(&self) -> Option<i128> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns the atom if the polynomial is nothing else.
    pub(super) fn as_atom(&self) -> Option<AtomId> {
        match (&self.terms[..], self.constant) {
            ([Term { atoms, factor: 1 }], 0) => match atoms[..] {
                [atom] => Some(atom),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns `self + factor * other`, or `None` if it is too large to follow.
    pub(super) fn plus_scaled(&self, other: &Poly, factor: i128) -> Option<Poly> {
        let constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        let mut terms = SmallVec::new();
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(a), Some(b)) => a.atoms.cmp(&b.atoms),
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            let scaled = match right {
                Some(right) => right.factor.checked_mul(factor)?,
                None => 0,
            };
            let Some(term) = left.or(right) else { break };
            let sum = left.map_or(0, |left| left.factor).checked_add(scaled)?;
            if sum != 0 {
                terms.push(Term { atoms: term.atoms, factor: sum });
            }
        }
        (terms.len() <= TERMS).then_some(Poly { terms, constant })
    }

    pub(super) fn plus(&self, other: &Poly) -> Option<Poly> {
        self.plus_scaled(other, 1)
    }

    pub(super) fn minus(&self, other: &Poly) -> Option<Poly> {
        self.plus_scaled(other, -1)
    }

    pub(super) fn plus_constant(&self, constant: i128) -> Option<Poly> {
        let constant = self.constant.checked_add(constant)?;
        Some(Poly { terms: self.terms.clone(), constant })
    }

    pub(super) fn scaled(&self, factor: i128) -> Option<Poly> {
        if factor == 0 {
            return Some(Poly::default());
        }
        let mut scaled = self.clone();
        scaled.constant = scaled.constant.checked_mul(factor)?;
        for term in &mut scaled.terms {
            term.factor = term.factor.checked_mul(factor)?;
        }
        Some(scaled)
    }

    pub(super) fn times(&self, other: &Poly) -> Option<Poly> {
        if let Some(factor) = other.as_constant() {
            return self.scaled(factor);
        }
        if let Some(factor) = self.as_constant() {
            return other.scaled(factor);
        }
        let mut product = other.scaled(self.constant)?;
        for term in &self.terms {
            let mut part = Poly::default();
            for other in &other.terms {
                let atoms = term.atoms.times(&other.atoms)?;
                part.terms.push(Term { atoms, factor: term.factor.checked_mul(other.factor)? });
            }
            part.terms.sort_unstable();
            product = product.plus(&part)?;
            if other.constant != 0 {
                let own = Poly { terms: SmallVec::from_iter([*term]), constant: 0 };
                product = product.plus_scaled(&own, other.constant)?;
            }
        }
        Some(product)
    }

    pub(super) fn contains(&self, atom: AtomId) -> bool {
        self.terms.iter().any(|term| term.atoms.contains(&atom))
    }

    /// Splits the polynomial into `coefficient * atom + rest`. Returns `None` if the atom is absent
    /// or appears with itself in a product.
    pub(super) fn split(&self, atom: AtomId) -> Option<(Poly, Poly)> {
        let (mut coefficient, mut rest) = (Poly::default(), Poly::constant(self.constant));
        for term in &self.terms {
            match term.atoms.iter().filter(|other| **other == atom).count() {
                0 => rest.terms.push(*term),
                1 => {
                    let others = term.atoms.without(atom);
                    if others.is_empty() {
                        coefficient.constant = term.factor;
                    } else {
                        coefficient.terms.push(Term { atoms: others, factor: term.factor });
                    }
                }
                _ => return None,
            }
        }
        coefficient.terms.sort_unstable();
        (coefficient != Poly::default()).then_some((coefficient, rest))
    }

    /// Returns the sign of the atom's coefficient: -1, 0 or 1, or `None` if it is no constant.
    pub(super) fn sign_of(&self, atom: AtomId) -> Option<i128> {
        let mut terms = self.terms.iter().filter(|term| term.atoms.contains(&atom));
        match (terms.next(), terms.next()) {
            (None, _) => Some(0),
            (Some(term), None) if term.atoms.len() == 1 => Some(term.factor.signum()),
            _ => None,
        }
    }

    /// Returns the factor of the term that is a multiple of this product, if there is one.
    pub(super) fn factor_of(&self, product: &Product) -> Option<i128> {
        self.terms.iter().find(|term| term.atoms == *product).map(|term| term.factor)
    }

    /// Returns the polynomial with `value` in place of the atom.
    pub(super) fn with(&self, atom: AtomId, value: &Poly) -> Option<Poly> {
        let (coefficient, rest) = self.split(atom)?;
        coefficient.times(value)?.plus(&rest)
    }

    /// The atoms of all terms; one that several terms have comes several times.
    pub(super) fn atoms(&self) -> impl Iterator<Item = AtomId> + '_ {
        self.terms.iter().flat_map(|term| term.atoms.iter().copied())
    }

    /// The greatest common divisor of all factors, without the constant.
    pub(super) fn content(&self) -> u128 {
        self.terms.iter().fold(0, |all, term| gcd(all, term.factor.unsigned_abs()))
    }
}

pub(super) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::Poly;

    #[test]
    fn products_and_splits_agree() {
        let [a, b] = [1, 2].map(Poly::atom);
        let sum = a.plus_scaled(&b, 3).unwrap().plus_constant(-2).unwrap();
        let square = sum.times(&sum).unwrap();
        // (a + 3b - 2)^2 = a^2 + 6ab - 4a + 9b^2 - 12b + 4
        assert_eq!((square.terms.len(), square.constant), (5, 4));
        assert_eq!(square.split(1), None);
        let product = sum.times(&Poly::atom(3)).unwrap();
        let (coefficient, rest) = product.split(1).unwrap();
        assert_eq!(coefficient, Poly::atom(3));
        assert_eq!(
            product.with(1, &Poly::constant(2)).unwrap(),
            rest.plus_scaled(&Poly::atom(3), 2).unwrap()
        );
        assert_eq!(sum.minus(&sum), Some(Poly::default()));
    }
}
