//! The law: if an obligation is proved, or proved by conditions that a launch fulfils, the
//! simulator finds no fault there.

use tilewright::ir::{Kernel, KernelIr};
use tilewright::prove::{Condition, LaunchValues, Obligation, Proof, Verdict};
use tilewright::runtime::Grid;
use tilewright::sim::{Fault, FaultCause, KernelArg, Options, RunError, run};

/// What a launch showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It ran to its end, or ended with a fault that the prover does not speak of.
    Passed,
    /// It faulted where nothing was proved.
    FaultAtOpen,
}

/// Returns whether the fault is one that the prover speaks of.
pub(crate) fn is_of_memory(fault: &Fault) -> bool {
    matches!(
        fault.cause,
        FaultCause::OutOfBounds { .. }
            | FaultCause::Misaligned { .. }
            | FaultCause::DivisionByZero { .. }
            | FaultCause::StepNotPositive { .. }
            | FaultCause::BrokenPromise { .. }
            | FaultCause::NotDivisible { .. }
            | FaultCause::OutsideBounds { .. }
            | FaultCause::OtherSpace { .. }
            | FaultCause::MatrixOutOfBounds { .. }
    )
}

/// Returns whether the fault contradicts the proof, for a launch with these values.
pub(crate) fn contradicts(
    ir: &KernelIr,
    proof: &Proof,
    values: &LaunchValues,
    fault: &Fault,
) -> bool {
    let holds = |condition: &Condition| condition.holds(values);
    let all = proof.obligations().iter().filter(|o| ir.path_of(o.op) == fault.path);
    let mut found = 0;
    for obligation in all {
        found += 1;
        let is_safe = match &obligation.verdict {
            Verdict::Proved => true,
            Verdict::Condition(needed) => needed.iter().all(|i| holds(&proof.conditions()[*i])),
            _ => false,
        };
        if !is_safe {
            return false;
        }
    }
    // An operation without an obligation must not fault at all.
    let _ = found;
    true
}

/// Runs the kernel and compares what happens with its proof.
pub(crate) fn check(
    kernel: &KernelIr,
    proof: &Proof,
    grid: Grid,
    args: &[KernelArg<'_>],
    values: &LaunchValues,
    options: &Options,
) -> Shown {
    match run(kernel, grid, args, options) {
        Ok(_) => Shown::Passed,
        Err(error) => judge(kernel, proof, values, &error),
    }
}

/// Panics if the error contradicts the proof.
pub(crate) fn judge(
    kernel: &KernelIr,
    proof: &Proof,
    values: &LaunchValues,
    error: &RunError,
) -> Shown {
    let Some(fault) = error.fault().filter(|fault| is_of_memory(fault)) else {
        return Shown::Passed;
    };
    assert!(
        !contradicts(kernel, proof, values, fault),
        "the proof is wrong: {fault:#}\n{values:?}\n{proof}\n{kernel}"
    );
    Shown::FaultAtOpen
}

/// How many obligations have conditions that the launch fulfils, and how many have one that it does
/// not. `refuse` gets the first such condition of each.
pub(crate) fn fulfilled(
    proof: &Proof,
    values: &LaunchValues,
    mut refuse: impl FnMut(&Obligation, &Condition),
) -> [usize; 2] {
    let mut counts = [0; 2];
    for obligation in proof.obligations() {
        let Verdict::Condition(needed) = &obligation.verdict else { continue };
        let mut conditions = needed.iter().map(|i| &proof.conditions()[*i]);
        let failing = conditions.find(|condition| !condition.holds(values));
        if let Some(condition) = failing {
            refuse(obligation, condition);
        }
        counts[usize::from(failing.is_some())] += 1;
    }
    counts
}

/// How many obligations hold for every launch, hold under conditions, and stay open.
pub(crate) fn counts(proof: &Proof) -> [usize; 3] {
    let mut counts = [0; 3];
    for obligation in proof.obligations() {
        counts[match obligation.verdict {
            Verdict::Proved => 0,
            Verdict::Condition(_) => 1,
            _ => 2,
        }] += 1;
    }
    counts
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
}

pub(crate) fn verified(text: &str) -> Kernel<tilewright::ir::Untyped> {
    let ir = tilewright::ir::parse("kernel.kir", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}
