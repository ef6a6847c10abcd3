//! Defines [`ChecksLeft`]: the error of a load that allows no checks.

use std::fmt;

use crate::ir::{KernelIr, SourceLocation};
use crate::prove::{Obligation, Verdict};

/// What [`LoadOptions::deny_checks`](super::LoadOptions::deny_checks) refuses: accesses, divisors,
/// steps or promises that are neither proved nor follow from conditions on the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChecksLeft {
    /// The kernel's name.
    pub kernel: String,
    /// How many are left.
    pub count: usize,
    /// The name of the first operation.
    pub op: &'static str,
    /// The first operation's source line in the Rust program.
    pub location: SourceLocation,
    /// What could not be shown about it, for example `len(x) - i - 1 >= 0`.
    pub missing: String,
}

impl ChecksLeft {
    pub(super) fn new(ir: &KernelIr, count: usize, first: &Obligation) -> ChecksLeft {
        let missing = match &first.verdict {
            Verdict::Checked(missing) => missing.clone(),
            _ => String::new(),
        };
        let (op, location) = (first.name, first.location);
        ChecksLeft { kernel: ir.name.clone(), count, op, location, missing }
    }
}

impl fmt::Display for ChecksLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChecksLeft { kernel, count, op, location, missing } = self;
        write!(
            f,
            "kernel `{kernel}` needs checks in its code, which `deny_checks` refuses: {count} \
             accesses or other operations are not proved; the first is `{op}` at {location}, \
             where it is not known that {missing}; state a bound in the kernel, or load it without \
             `deny_checks`"
        )
    }
}
