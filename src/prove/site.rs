//! [`Site`]: a place in a kernel that is safe only if something holds there, as the walk finds it.
//! `proof.rs` has the public form.

use super::claim::{Deps, MAX_DEPS};
use super::pointer::Root;
use super::poly::Poly;
use super::walk::is_implied;
use crate::ir::OpId;
use crate::ir::types::Space;

/// Something that a launch has to fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// In one of the lists all polynomials are at least 0.
    Any { any: Vec<Vec<Poly>>, deps: Deps },
    /// The buffer of the parameter starts at a multiple of `bytes`.
    Aligned { param: u32, bytes: u32 },
    /// The polynomial is a multiple of `by`.
    Multiple { poly: Poly, by: u32, deps: Deps },
    /// No value that the loop carries wraps.
    Loop { id: OpId, deps: Deps },
    /// It follows from others.
    Follows { deps: Deps },
}

impl Requirement {
    /// Returns whether a launch that fulfils this one and what the other one relies on fulfils the
    /// other one, as far as their forms show.
    pub(super) fn implies(&self, other: &Requirement) -> bool {
        match (self, other) {
            (Requirement::Any { any, .. }, Requirement::Any { any: others, .. }) => {
                any.iter().all(|strong| others.iter().any(|weak| is_implied(weak, strong)))
            }
            _ => self == other,
        }
    }

    /// The requirements that this one relies on.
    pub(super) fn deps(&self) -> Deps {
        match self {
            Requirement::Any { deps, .. }
            | Requirement::Multiple { deps, .. }
            | Requirement::Loop { deps, .. }
            | Requirement::Follows { deps } => *deps,
            Requirement::Aligned { .. } => 0,
        }
    }
}

/// Returns the requirements in `deps`, and all that they rely on.
pub(super) fn closure(requirements: &[Requirement], deps: Deps) -> Deps {
    let (mut all, mut left) = (deps, deps);
    while left != 0 {
        let i = left.trailing_zeros() as usize;
        left &= left - 1;
        let own = requirements.get(i).map_or(0, Requirement::deps);
        left |= own & !all;
        all |= own;
    }
    all
}

/// Returns the indices of the requirements that a launch has to test, so that all of `deps` hold.
pub(super) fn tested(requirements: &[Requirement], deps: Deps) -> impl Iterator<Item = usize> {
    let all = closure(requirements, deps);
    let is_tested = move |(i, requirement): &(usize, &Requirement)| {
        // What these rely on is in the closure itself.
        let is_derived =
            matches!(requirement, Requirement::Loop { .. } | Requirement::Follows { .. });
        all >> i & 1 == 1 && !is_derived
    };
    requirements.iter().enumerate().take(MAX_DEPS).filter(is_tested).map(|(i, _)| i)
}

#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) op: OpId,
    pub(super) subject: Subject,
    pub(super) verdict: Verdict,
}

impl Site {
    /// The requirements that the verdict relies on.
    pub(super) fn deps(&self) -> Deps {
        match self.verdict {
            Verdict::Relies(deps) => deps,
            Verdict::Open(_) | Verdict::Assumed(_) => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// An access to memory through the operand with this index.
    Access { operand: usize, root: Root, space: Space, is_store: bool },
    /// A divisor is not zero.
    Division,
    /// A loop's step is positive.
    Step,
    /// What an `assume_*` promises holds.
    Promise,
    /// The rank of a block exists in the cluster.
    Rank,
    /// Inline PTX does what its author says.
    InlinePtx,
    /// A matrix descriptor's tile is inside of shared memory.
    Matrix,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Holds, if the requirements hold.
    Relies(Deps),
    Open(Open),
    Assumed(&'static str),
}

/// What could not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// This polynomial is at least 0.
    Bound(Box<Poly>),
    /// The offset is a multiple of `bytes`.
    Alignment { offset: Box<Poly>, bytes: u32 },
    /// The pointer comes from one allocation.
    Origin,
    /// An integer is followed.
    Index,
}
