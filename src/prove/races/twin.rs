//! [`Twins`]: what an unknown of the first thread is in the second thread.

use std::collections::HashMap;
use std::rc::Rc;

use crate::ir::OpId;
use crate::ir::op::{Axis, SpecialReg};

use super::super::atom::{Atoms, Choice, Key};
use super::super::claim::{Claim, Cond};
use super::super::numbers;
use super::super::poly::{AtomId, Poly};
use super::super::walk::Walk;
use super::phase::{Phases, Scope, Step};

/// Which two threads are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pair {
    /// Two threads of a block or warp, whose loops are related like this, from the outermost inwards.
    Threads(Scope, Vec<(OpId, Step)>),
    /// Two threads of the grid.
    Grid,
}

/// The second thread's unknowns.
pub(super) struct Twins {
    pub(super) pair: Pair,
    /// Names the pair, so that unknowns of two pairs are not the same.
    index: u32,
    known: HashMap<AtomId, Option<Poly>>,
}

impl Twins {
    pub(super) fn new(pair: Pair, index: u32) -> Twins {
        Twins { pair, index, known: HashMap::new() }
    }

    /// Returns the polynomial in the second thread.
    pub(super) fn of(
        &mut self,
        walk: &mut Walk<'_>,
        phases: &Phases<'_>,
        poly: &Poly,
    ) -> Option<Poly> {
        let mut sum = Poly::constant(poly.constant);
        for term in &poly.terms {
            let mut product = Poly::constant(term.factor);
            for &atom in term.atoms.iter() {
                product = product.times(&self.atom(walk, phases, atom)?)?;
            }
            sum = sum.plus(&product)?;
        }
        Some(numbers::tidy(&mut walk.atoms, sum))
    }

    /// Returns the atom in the second thread: itself if both threads have the same.
    pub(super) fn atom(
        &mut self,
        walk: &mut Walk<'_>,
        phases: &Phases<'_>,
        atom: AtomId,
    ) -> Option<Poly> {
        if let Some(known) = self.known.get(&atom) {
            return known.clone();
        }
        let twin = self.find(walk, phases, atom);
        self.known.insert(atom, twin.clone());
        twin
    }

    fn find(&mut self, walk: &mut Walk<'_>, phases: &Phases<'_>, atom: AtomId) -> Option<Poly> {
        let own = Poly::atom(atom);
        let key = walk.atoms.get(atom).key.clone();
        let is_block = matches!(self.pair, Pair::Threads(..));
        let is_warp = matches!(&key, Key::Div(value, by) if self.is_warp(walk, value, by));
        let mut pair = |twins: &mut Twins, a: &Poly, b: &Poly| {
            let (x, y) = (twins.of(walk, phases, a)?, twins.of(walk, phases, b)?);
            Some((x != *a || y != *b, x, y))
        };
        let is_same = match &key {
            Key::Param(_) | Key::Len(_) | Key::BoxBytes(_) | Key::Address(_) => true,
            Key::Register(register) => !varies(*register, is_block),
            Key::Start(_) => is_block,
            Key::Value(value, _) => {
                let region = walk.ir.values[*value].region;
                is_block
                    && phases.is_uniform(*value)
                    && phases.loops(region).iter().all(|of| self.step(*of) == Some(Step::Ahead(0)))
            }
            Key::Trip(of, _) => match self.step(*of) {
                Some(Step::Ahead(distance)) => return own.plus_constant(distance.into()),
                Some(Step::At(trip)) => return Some(Poly::constant(trip.into())),
                None => false,
            },
            Key::Div(..) if is_warp => true,
            Key::Trips(..) | Key::Second(..) => false,
            Key::Sum(sum) => {
                let twin = self.of(walk, phases, sum)?;
                if twin == *sum {
                    return Some(own);
                }
                let rest = twin.plus_constant(-twin.constant)?;
                let (range, multiple) = (walk.atoms.range(&rest), walk.atoms.multiple(&rest));
                if rest.terms.len() < 2 {
                    return Some(twin);
                }
                return walk.atoms.of(Key::Sum(rest), range, multiple).plus_constant(twin.constant);
            }
            Key::Power(exponent) => {
                let twin = self.of(walk, phases, exponent)?;
                return (twin == *exponent).then_some(own);
            }
            Key::Div(a, b)
            | Key::Rem(a, b)
            | Key::Xor(a, b)
            | Key::And(a, b)
            | Key::Or(a, b)
            | Key::Min(a, b)
            | Key::Max(a, b) => {
                let (changes, a, b) = pair(self, a, b)?;
                if !changes {
                    return Some(own);
                }
                return made(&mut walk.atoms, &key, &a, &b);
            }
        };
        if is_same {
            return Some(own);
        }
        let choice = walk.atoms.get(atom).choice.clone();
        let choice = match choice {
            Some(choice) => Some(self.choice(walk, phases, &choice)?),
            None => None,
        };
        let index = if choice.is_some() { self.index } else { 0 };
        Some(walk.atoms.second(atom, index, choice))
    }

    fn step(&self, of: OpId) -> Option<Step> {
        match &self.pair {
            Pair::Threads(_, steps) => {
                steps.iter().find(|(known, _)| *known == of).map(|(_, step)| *step)
            }
            Pair::Grid => None,
        }
    }

    /// Returns whether the quotient is the same in all threads of a warp, and they are compared.
    fn is_warp(&self, walk: &Walk<'_>, value: &Poly, by: &Poly) -> bool {
        let thread = Key::Register(SpecialReg::Tid(Axis::X));
        matches!(self.pair, Pair::Threads(Scope::Warp, _))
            && matches!(walk.ir.bounds.block, Some([_, 1, 1]))
            && by.as_constant().is_some_and(|by| by > 0 && by % 32 == 0)
            && value.as_atom().is_some_and(|atom| walk.atoms.get(atom).key == thread)
    }

    fn choice(
        &mut self,
        walk: &mut Walk<'_>,
        phases: &Phases<'_>,
        choice: &Choice,
    ) -> Option<Choice> {
        let (yes, no) = (self.of(walk, phases, &choice.yes)?, self.of(walk, phases, &choice.no)?);
        let mut claims = |all: &[Claim]| -> Vec<Claim> {
            let twin = |claim| self.claim(walk, phases, claim).unwrap_or(Claim::Unknown);
            all.iter().map(twin).collect()
        };
        let cond = Cond {
            yes: claims(&choice.cond.yes),
            no: claims(&choice.cond.no),
            deps: choice.cond.deps,
        };
        Some(Choice { cond: Rc::new(cond), yes, no })
    }

    fn claim(&mut self, walk: &mut Walk<'_>, phases: &Phases<'_>, claim: &Claim) -> Option<Claim> {
        Some(match claim {
            Claim::Ge(poly) => Claim::Ge(self.of(walk, phases, poly)?),
            Claim::Eq(poly) => Claim::Eq(self.of(walk, phases, poly)?),
            Claim::Ne(poly) => Claim::Ne(self.of(walk, phases, poly)?),
            Claim::Aligned(..) | Claim::Cases(_) | Claim::Unknown => return None,
        })
    }
}

/// Makes an operation of other operands.
fn made(atoms: &mut Atoms, key: &Key, a: &Poly, b: &Poly) -> Option<Poly> {
    match key {
        Key::Div(..) => numbers::div(atoms, a, b),
        Key::Rem(..) => numbers::rem(atoms, a, b),
        Key::Xor(..) => numbers::xor(atoms, a, b),
        Key::And(..) => numbers::and(atoms, a, b),
        Key::Or(..) => numbers::or(atoms, a, b),
        Key::Min(..) => Some(numbers::min_max(atoms, a, b, true)),
        Key::Max(..) => Some(numbers::min_max(atoms, a, b, false)),
        Key::Register(_)
        | Key::Param(_)
        | Key::Len(_)
        | Key::BoxBytes(_)
        | Key::Address(_)
        | Key::Start(_)
        | Key::Value(..)
        | Key::Trip(..)
        | Key::Trips(..)
        | Key::Second(..)
        | Key::Power(_)
        | Key::Sum(_) => None,
    }
}

/// Returns whether two threads of a block, or of the grid, see different values of a register.
fn varies(register: SpecialReg, is_block: bool) -> bool {
    use SpecialReg as R;
    match register {
        R::Tid(_) | R::LaneId => true,
        R::LaneMaskEq | R::LaneMaskLe | R::LaneMaskLt | R::LaneMaskGe | R::LaneMaskGt => true,
        R::Ctaid(_) | R::ClusterId(_) | R::ClusterCtaid(_) | R::ClusterCtaRank => !is_block,
        R::Ntid(_) | R::Nctaid(_) | R::NClusterId(_) | R::ClusterNctaid(_) => false,
        R::ClusterNctaRank | R::IsExplicitCluster | R::GridId => false,
        R::NWarpId | R::NSmId => !is_block,
        R::DynamicSmemSize | R::TotalSmemSize | R::AggrSmemSize => false,
    }
}
