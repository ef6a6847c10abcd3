//! [`Poly`]: polynomials with integer coefficients over [atoms](super::atom).
//!
//! Every integer of a kernel that the prover follows is a polynomial. Most are affine, for example
//! `128*ctaid.x + tid.x`. Products of two unknowns appear in row pitches, for example
//! `row*n + col`.

use smallvec::SmallVec;

/// The index of an atom.
pub(super) type AtomId = u32;

/// Atoms that are multiplied, sorted. An atom may appear more than once.
pub(super) type Product = SmallVec<[AtomId; 2]>;

/// The maximum count of terms. Larger polynomials are not followed.
const TERMS: usize = 40;

/// The maximum degree of a term.
const DEGREE: usize = 4;

/// `factor` times the product of `atoms`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) atoms: Product,
    pub(super) factor: i128,
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
        let term = Term { atoms: SmallVec::from_slice(&[atom]), factor: 1 };
        Poly { terms: SmallVec::from_iter([term]), constant: 0 }
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
                terms.push(Term { atoms: term.atoms.clone(), factor: sum });
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
                if term.atoms.len() + other.atoms.len() > DEGREE {
                    return None;
                }
                let mut atoms: Product = term.atoms.iter().chain(&other.atoms).copied().collect();
                atoms.sort_unstable();
                part.terms.push(Term { atoms, factor: term.factor.checked_mul(other.factor)? });
            }
            part.terms.sort_unstable();
            let own = Term { atoms: term.atoms.clone(), factor: term.factor };
            product = product.plus(&part)?;
            if other.constant != 0 {
                let own = Poly { terms: SmallVec::from_iter([own]), constant: 0 };
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
                0 => rest.terms.push(term.clone()),
                1 => {
                    let others: Product =
                        term.atoms.iter().copied().filter(|other| *other != atom).collect();
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
        let [a, b] = [0, 1].map(Poly::atom);
        let sum = a.plus_scaled(&b, 3).unwrap().plus_constant(-2).unwrap();
        let square = sum.times(&sum).unwrap();
        // (a + 3b - 2)^2 = a^2 + 6ab - 4a + 9b^2 - 12b + 4
        assert_eq!((square.terms.len(), square.constant), (5, 4));
        assert_eq!(square.split(0), None);
        let product = sum.times(&Poly::atom(2)).unwrap();
        let (coefficient, rest) = product.split(0).unwrap();
        assert_eq!(coefficient, Poly::atom(2));
        assert_eq!(
            product.with(0, &Poly::constant(2)).unwrap(),
            rest.plus_scaled(&Poly::atom(2), 2).unwrap()
        );
        assert_eq!(sum.minus(&sum), Some(Poly::default()));
    }
}
