//! Merges requirements: a launch does not test what follows from another test.
//!
//! For example, the rows of a tile need `len(x) >= 16*pitch`, `len(x) >= 15*pitch` and so on. The
//! first one says all of them, if the pitch is not negative.

use super::atom::Key;
use super::claim::{Deps, MAX_DEPS};
use super::facts::Presume;
use super::poly::Poly;
use super::site::{Requirement, closure};
use super::walk::Walk;

impl Walk<'_> {
    /// Replaces each requirement that follows from others by a reference to them.
    pub(super) fn merge_requirements(&mut self) {
        let count = self.requirements.len().min(MAX_DEPS);
        let used =
            closure(&self.requirements, self.sites.iter().fold(0, |used, site| used | site.deps()));
        let is_used = |i: &usize| used >> i & 1 == 1;
        let lens: Vec<Option<u32>> =
            self.requirements.iter().map(|requirement| self.buffer_of(requirement)).collect();
        for i in (0..count).filter(is_used) {
            let others = (0..count).filter(is_used).filter(|j| *j != i && lens[*j] == lens[i]);
            let mut found = others.filter_map(|j| {
                let own = self.follows(&self.requirements[i], &self.requirements[j])?;
                Some(own | 1 << j | self.requirements[i].deps())
            });
            // Nothing follows from itself.
            if let Some(deps) = found.find(|deps| closure(&self.requirements, *deps) >> i & 1 == 0)
            {
                self.requirements[i] = Requirement::Follows { deps };
            }
        }
    }

    /// Returns the buffer whose length the requirement is about.
    fn buffer_of(&self, requirement: &Requirement) -> Option<u32> {
        let Requirement::Any { any, .. } = requirement else { return None };
        any.iter().flatten().flat_map(Poly::atoms).find_map(|atom| match self.atoms.get(atom).key {
            Key::Len(param) => Some(param),
            _ => None,
        })
    }

    /// Returns what it relies on that a launch which fulfils `strong` fulfils `weak`.
    fn follows(&self, weak: &Requirement, strong: &Requirement) -> Option<Deps> {
        match (weak, strong) {
            (Requirement::Any { any: weak, .. }, Requirement::Any { any: strong, .. }) => {
                strong.iter().try_fold(0, |deps, strong| {
                    let found = weak.iter().find_map(|weak| self.all_follow(weak, strong));
                    found.map(|own| deps | own)
                })
            }
            // A multiple of a multiple of 8.
            (
                Requirement::Multiple { poly: weak, by, .. },
                Requirement::Multiple { poly: strong, by: own, .. },
            ) => {
                let ([term], 0) = (&weak.terms[..], weak.constant) else { return None };
                let ([other], 0) = (&strong.terms[..], strong.constant) else { return None };
                term.divided(other).filter(|_| own.is_multiple_of(*by)).map(|_| 0)
            }
            _ => None,
        }
    }

    /// Returns what it relies on that each of `weak` is at least 0 if all of `strong` are.
    fn all_follow(&self, weak: &[Poly], strong: &[Poly]) -> Option<Deps> {
        weak.iter().try_fold(0, |deps, weak| {
            let found = strong.iter().find_map(|strong| {
                let more = weak.minus(strong)?;
                let (range, own) =
                    self.facts.presumed_range_of(&self.atoms, &more, Presume::Pitches);
                (range.lo >= 0).then_some(own)
            });
            found.map(|own| deps | own)
        })
    }
}
