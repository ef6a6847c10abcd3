//! Adds checks to a kernel where the prover shows nothing. Loading with checks uses it.

use super::{Obligation, Verdict, What, prove};
use crate::ir::{CheckedKernel, KernelIr, OpId, Proved, Signature, VerifyErrors};

/// Returns the kernel with checks, but without those that are proved for every launch. What holds
/// by a condition on the launch is checked, because launches do not evaluate conditions.
///
/// # Errors
/// Those of [`Kernel::checked`](crate::ir::Kernel::checked).
pub(crate) fn checked(ir: &KernelIr, signature: &Signature) -> Result<CheckedKernel, VerifyErrors> {
    CheckedKernel::of(ir, |ir| proved(prove(ir, signature).obligations()))
}

fn proved(obligations: &[Obligation]) -> Proved {
    let mut proved: Proved = keys(obligations, |verdict| *verdict == Verdict::Proved).collect();
    for key in keys(obligations, |verdict| *verdict != Verdict::Proved) {
        proved.remove(&key);
    }
    proved
}

/// The checks of the obligations with such a verdict.
fn keys(
    obligations: &[Obligation],
    wanted: impl Fn(&Verdict) -> bool,
) -> impl Iterator<Item = (OpId, Option<usize>)> {
    obligations.iter().filter(move |obligation| wanted(&obligation.verdict)).filter_map(
        |obligation| match obligation.what {
            What::Access { operand, .. } => Some((obligation.op, Some(operand))),
            What::Division | What::Step | What::Promise => Some((obligation.op, None)),
            What::Rank | What::InlinePtx | What::Matrix => None,
        },
    )
}
