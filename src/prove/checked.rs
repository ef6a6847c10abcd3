//! Adds checks to a kernel where the prover shows nothing. Loading with checks uses it.

use std::collections::{BTreeSet, HashSet};

use super::{Condition, Obligation, Verdict, What, prove};
use crate::ir::{CheckedKernel, KernelIr, OpId, Proved, Signature, VerifyErrors};

/// A kernel whose launches access nothing out of bounds if they fulfil the conditions.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// The kernel with checks of what is neither proved nor follows from the conditions. `None` if
    /// nothing is left to check.
    pub(crate) checked: Option<CheckedKernel>,
    /// The conditions that the kernel without those checks relies on.
    pub(crate) conditions: Vec<Condition>,
    /// What is neither proved nor follows from the conditions, also if no check is possible.
    pub(crate) open: Vec<Obligation>,
}

/// Returns the kernel with as few checks as a launch needs that fulfils the kernel's conditions.
///
/// # Errors
/// Those of [`Kernel::checked`](crate::ir::Kernel::checked).
pub(crate) fn guarded(ir: &KernelIr, signature: &Signature) -> Result<Guarded, VerifyErrors> {
    let (mut conditions, mut open) = (Vec::new(), Vec::new());
    let kernel = CheckedKernel::of(ir, |ir| {
        let proof = prove(ir, signature);
        let proved = keys(proof.obligations(), is_settled);
        let mut used = BTreeSet::new();
        for obligation in proof.obligations() {
            match &obligation.verdict {
                Verdict::Condition(all)
                    if key(obligation).is_none_or(|key| proved.contains(&key)) =>
                {
                    used.extend(all.iter().copied());
                }
                _ => {}
            }
        }
        conditions = used.into_iter().map(|i| proof.conditions()[i].clone()).collect();
        let is_open = |obligation: &&Obligation| matches!(obligation.verdict, Verdict::Checked(_));
        open = proof.obligations().iter().filter(is_open).cloned().collect();
        proved
    })?;
    let checked = (!kernel.sites().is_empty()).then_some(kernel);
    Ok(Guarded { checked, conditions, open })
}

/// Returns the kernel with checks of all that is not proved for every launch. It needs no condition.
///
/// # Errors
/// Those of [`Kernel::checked`](crate::ir::Kernel::checked).
pub(crate) fn checked(ir: &KernelIr, signature: &Signature) -> Result<CheckedKernel, VerifyErrors> {
    let is_proved = |verdict: &Verdict| *verdict == Verdict::Proved;
    CheckedKernel::of(ir, |ir| keys(prove(ir, signature).obligations(), is_proved))
}

fn is_settled(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Proved | Verdict::Condition(_))
}

/// Returns the checks that are not needed, because all obligations behind them have such a verdict.
fn keys(obligations: &[Obligation], is_settled: impl Fn(&Verdict) -> bool) -> Proved {
    let (settled, left): (Vec<_>, Vec<_>) =
        obligations.iter().partition(|obligation| is_settled(&obligation.verdict));
    let left: HashSet<_> = left.into_iter().filter_map(key).collect();
    settled.into_iter().filter_map(key).filter(|key| !left.contains(key)).collect()
}

/// The check that an obligation gets, if there is one.
fn key(obligation: &Obligation) -> Option<(OpId, Option<usize>)> {
    match obligation.what {
        What::Access { operand, .. } => Some((obligation.op, Some(operand))),
        What::Division | What::Step | What::Promise => Some((obligation.op, None)),
        What::Rank | What::InlinePtx | What::Matrix => None,
    }
}
