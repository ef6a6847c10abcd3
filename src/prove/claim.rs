//! [`Claim`]: what a condition of a kernel says about polynomials. [`Deps`]: which launch
//! conditions a claim relies on.

use std::rc::Rc;

use super::pointer::Root;
use super::poly::Poly;

/// A set of launch conditions, by index.
pub(super) type Deps = u128;

/// The maximum count of launch conditions.
pub(super) const MAX_DEPS: usize = 128;

/// A fact about a polynomial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is at least 0.
    Ge(Poly),
    /// It is 0.
    Eq(Poly),
    /// It is not 0.
    Ne(Poly),
    /// The address this many bytes from the start of the allocation is a multiple of that, if the
    /// conditions hold.
    Aligned(Root, Poly, u128, Deps),
    /// All claims of one of the two lists hold, for example because a condition chooses which of two
    /// comparisons counts.
    Cases(Rc<[Vec<Claim>; 2]>),
    /// Something that no claim can say.
    Unknown,
}

/// A boolean value: what holds where it is true, and what holds where it is false.
#[derive(Clone, Debug, Default)]
pub(super) struct Cond {
    pub(super) yes: Vec<Claim>,
    pub(super) no: Vec<Claim>,
    pub(super) deps: Deps,
}

impl Cond {
    /// A boolean that is always the same.
    pub(super) fn known(value: bool) -> Cond {
        let never = vec![Claim::Ge(Poly::constant(-1))];
        let (yes, no) = if value { (Vec::new(), never) } else { (never, Vec::new()) };
        Cond { yes, no, deps: 0 }
    }

    /// Returns the value if it is always the same.
    pub(super) fn as_known(&self) -> Option<bool> {
        let is_never = |claims: &[Claim]| matches!(claims, [Claim::Ge(poly), ..] if poly.as_constant().is_some_and(|c| c < 0));
        if is_never(&self.no) {
            Some(true)
        } else if is_never(&self.yes) {
            Some(false)
        } else {
            None
        }
    }

    pub(super) fn not(&self) -> Cond {
        Cond { yes: self.no.clone(), no: self.yes.clone(), deps: self.deps }
    }

    pub(super) fn and(&self, other: &Cond) -> Cond {
        match (self.as_known(), other.as_known()) {
            (Some(true), _) => return other.clone(),
            (_, Some(true)) => return self.clone(),
            (Some(false), _) | (_, Some(false)) => return Cond::known(false),
            (None, None) => {}
        }
        let mut yes: Vec<Claim> = self.yes.iter().chain(&other.yes).cloned().collect();
        if self.yes.is_empty() || other.yes.is_empty() {
            yes.push(Claim::Unknown);
        }
        Cond { yes, no: Vec::new(), deps: self.deps | other.deps }
    }

    pub(super) fn or(&self, other: &Cond) -> Cond {
        self.not().and(&other.not()).not()
    }

    /// The boolean that is `yes` where this one is true, and else `no`.
    pub(super) fn select(&self, yes: &Cond, no: &Cond) -> Cond {
        if [self, yes, no].into_iter().any(|cond| cond.as_known().is_some()) {
            return self.and(yes).or(&self.not().and(no));
        }
        let cases = |yes: &[Claim], no: &[Claim]| {
            let both = [[&self.yes[..], yes].concat(), [&self.no[..], no].concat()];
            let is_any = both.iter().any(Vec::is_empty);
            vec![if is_any { Claim::Unknown } else { Claim::Cases(Rc::new(both)) }]
        };
        Cond {
            yes: cases(&yes.yes, &no.yes),
            no: cases(&yes.no, &no.no),
            deps: self.deps | yes.deps | no.deps,
        }
    }
}
