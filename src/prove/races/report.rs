//! [`RaceProof`]: which allocations of a kernel are free of data races.

use std::fmt;

use super::super::condition::Condition;
use crate::ir::SourceLocation;
use crate::ir::types::Space;

/// Whether threads of a kernel race for its buffers and shared allocations.
/// [`Kernel::prove_races`](crate::ir::Kernel::prove_races) makes one.
#[derive(Clone, Debug)]
pub struct RaceProof {
    pub(super) kernel: String,
    pub(super) allocations: Vec<Contention>,
    pub(super) conditions: Vec<Condition>,
}

/// A buffer or shared allocation that threads access.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// The parameter's or allocation's name.
    pub name: String,
    /// The memory that it is in.
    pub space: Space,
    /// How many operations access it.
    pub accesses: usize,
    /// Whether threads race for it.
    pub verdict: RaceVerdict,
}

/// Whether threads race for an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RaceVerdict {
    /// They do not, in any launch.
    Proved,
    /// They do not if a launch fulfils the conditions with these indices in
    /// [`RaceProof::conditions`].
    Condition(Vec<usize>),
    /// Not known. The first pair of accesses that is not shown to be ordered or apart.
    Open(OpenPair),
    /// Nobody can show it. The text names what has to be trusted.
    Assumed(&'static str),
}

/// Two accesses that may race, as far as the prover knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenPair {
    /// What is not known.
    pub reason: String,
    /// One of the operations, and its source line.
    pub first: (&'static str, SourceLocation),
    /// The other one. Both are the same if two threads may race in one line.
    pub second: (&'static str, SourceLocation),
}

impl RaceProof {
    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The buffers and shared allocations that the kernel accesses.
    pub fn allocations(&self) -> &[Contention] {
        &self.allocations
    }

    /// What a launch has to fulfil. Each condition is listed once.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns whether the kernel has no data race, perhaps with conditions on the launch.
    pub fn is_complete(&self) -> bool {
        self.allocations.iter().all(|allocation| allocation.verdict.is_settled())
    }
}

impl RaceVerdict {
    /// Returns whether there is no race, perhaps with conditions on the launch.
    pub fn is_settled(&self) -> bool {
        matches!(self, RaceVerdict::Proved | RaceVerdict::Condition(_))
    }
}

/// Prints a summary, the conditions on the launch, and one line for each allocation that stays open.
impl fmt::Display for RaceProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: fn(&RaceVerdict) -> bool| {
            self.allocations.iter().filter(|one| wanted(&one.verdict)).count()
        };
        let proved = count(|verdict| matches!(verdict, RaceVerdict::Proved));
        let conditions = count(|verdict| matches!(verdict, RaceVerdict::Condition(_)));
        let open = count(|verdict| matches!(verdict, RaceVerdict::Open(_)));
        let assumed = count(|verdict| matches!(verdict, RaceVerdict::Assumed(_)));
        write!(
            f,
            "`{}`: {} allocations: {proved} without races in every launch, {conditions} by \
             conditions on the launch, {open} open, {assumed} assumed",
            self.kernel,
            self.allocations.len()
        )?;
        for condition in &self.conditions {
            let (op, location) = (condition.op(), condition.location());
            write!(f, "\nno race if: {condition} (`{op}` at {location})")?;
        }
        for Contention { name, space, verdict, .. } in &self.allocations {
            match verdict {
                RaceVerdict::Open(open) => {
                    write!(f, "\n{space} `{name}`: races are not excluded: {open}")?;
                }
                RaceVerdict::Assumed(what) => write!(f, "\n{space} `{name}`: assumed: {what}")?,
                RaceVerdict::Proved | RaceVerdict::Condition(_) => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for OpenPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenPair { reason, first: (a, at), second: (b, other) } = self;
        if (a, at) == (b, other) {
            write!(f, "`{a}` at {at} in two threads: {reason}")
        } else {
            write!(f, "`{a}` at {at} and `{b}` at {other}: {reason}")
        }
    }
}
