//! [`Proof`]: what is known about every access of a kernel before it runs.

use std::fmt;

use super::atom::Atoms;
use super::condition::Condition;
use super::pointer::Root;
use super::site::{Open, Requirement, Site, Subject, Verdict as Found, tested};
use crate::ir::types::Space;
use crate::ir::{KernelIr, OpId, SourceLocation};

/// Whether a kernel is memory safe, access by access. [`Kernel::prove`](crate::ir::Kernel::prove)
/// makes one.
#[derive(Clone, Debug)]
pub struct Proof {
    kernel: String,
    obligations: Vec<Obligation>,
    conditions: Vec<Condition>,
}

/// Something that must hold at an operation, so that the kernel is safe: an access is inside its
/// allocation and aligned, a divisor is not zero, a promise holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Obligation {
    /// The operation in the kernel.
    pub op: OpId,
    /// The operation's name.
    pub name: &'static str,
    /// The operation's source line in the Rust program.
    pub location: SourceLocation,
    /// What must hold.
    pub what: What,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// What an [`Obligation`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// An access is inside its allocation and aligned.
    Access {
        /// The memory that is accessed.
        space: Space,
        /// The parameter or allocation, if it is known.
        allocation: Option<String>,
        /// Whether it is a store rather than a load.
        is_store: bool,
        /// The pointer's position among the operation's operands.
        operand: usize,
    },
    /// The divisor is not zero.
    Division,
    /// The loop's step is positive.
    Step,
    /// What an `assume_aligned`, `assume_divisible_by` or `assume_between` says holds.
    Promise,
    /// The block that a pointer is mapped to exists in the cluster.
    Rank,
    /// Inline PTX does what its author says.
    InlinePtx,
    /// The tile of a matrix descriptor is inside its allocation.
    Matrix,
}

/// Whether an [`Obligation`] holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// For every launch.
    Proved,
    /// For every launch that fulfils the conditions with these indices in [`Proof::conditions`].
    Condition(Vec<usize>),
    /// Not known. The text says what could not be shown, for example `len(x) - i - 1 >= 0`.
    Checked(String),
    /// Nobody can show it. The text names what has to be trusted.
    Assumed(&'static str),
}

impl Proof {
    pub(super) fn new(
        ir: &KernelIr,
        atoms: &Atoms,
        sites: Vec<Site>,
        requirements: &[Requirement],
    ) -> Proof {
        let mut conditions = Vec::new();
        // The public index of each requirement that a site relies on.
        let mut public: Vec<Option<usize>> = vec![None; requirements.len()];
        let mut obligations = Vec::new();
        for site in sites {
            let location = ir.location_of(site.op);
            let name = ir.ops[site.op].op.name();
            let verdict = match site.verdict {
                Found::Relies(deps) => {
                    let mut all = Vec::new();
                    let mut is_whole = true;
                    for i in tested(requirements, deps) {
                        let index = public[i].or_else(|| {
                            let new =
                                Condition::new(ir, atoms, &requirements[i], (name, location))?;
                            conditions.push(new);
                            Some(conditions.len() - 1)
                        });
                        public[i] = index;
                        is_whole &= index.is_some();
                        all.extend(index);
                    }
                    match (is_whole, all.is_empty()) {
                        (false, _) => Verdict::Checked("a condition on the launch".to_owned()),
                        (true, true) => Verdict::Proved,
                        (true, false) => Verdict::Condition(all),
                    }
                }
                Found::Open(open) => Verdict::Checked(reason(ir, atoms, &open)),
                Found::Assumed(what) => Verdict::Assumed(what),
            };
            let what = what(ir, &site.subject);
            obligations.push(Obligation { op: site.op, name, location, what, verdict });
        }
        Proof { kernel: ir.name.clone(), obligations, conditions }
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Everything that must hold, in the order of the operations.
    pub fn obligations(&self) -> &[Obligation] {
        &self.obligations
    }

    /// What a launch has to fulfil. Each condition is listed once.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The obligations that are neither proved nor covered by a condition on the launch.
    pub fn open(&self) -> impl Iterator<Item = &Obligation> {
        let is_open = |obligation: &&Obligation| {
            matches!(obligation.verdict, Verdict::Checked(_) | Verdict::Assumed(_))
        };
        self.obligations.iter().filter(is_open)
    }

    /// Returns whether every access, division and promise is proved, perhaps with conditions on the
    /// launch.
    pub fn is_complete(&self) -> bool {
        self.open().next().is_none()
    }
}

fn what(ir: &KernelIr, subject: &Subject) -> What {
    match subject {
        Subject::Access { operand, root, space, is_store } => {
            let allocation = match root {
                Root::Param(param) => ir.params.get(*param as usize).map(|p| p.name.clone()),
                Root::Shared(shared) | Root::Remote(shared) => Some(shared.to_string()),
                Root::Local(local) => Some(local.to_string()),
                Root::Array(array) => Some(array.to_string()),
                Root::Integer | Root::Unknown => None,
            };
            What::Access { space: *space, allocation, is_store: *is_store, operand: *operand }
        }
        Subject::Division => What::Division,
        Subject::Step => What::Step,
        Subject::Promise => What::Promise,
        Subject::Rank => What::Rank,
        Subject::InlinePtx => What::InlinePtx,
        Subject::Matrix => What::Matrix,
    }
}

fn reason(ir: &KernelIr, atoms: &Atoms, open: &Open) -> String {
    let show = |poly| super::show::poly(ir, atoms, poly);
    match open {
        Open::Bound(poly) => format!("{} >= 0", show(poly)),
        Open::Alignment { offset, bytes } => format!("{} is a multiple of {bytes}", show(offset)),
        Open::Origin => "the pointer comes from one allocation".to_owned(),
        Open::Index => "the index does not wrap".to_owned(),
    }
}

/// Prints a summary, the conditions on the launch, and one line for each obligation that stays
/// open.
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: fn(&Verdict) -> bool| {
            self.obligations.iter().filter(|obligation| wanted(&obligation.verdict)).count()
        };
        let proved = count(|verdict| matches!(verdict, Verdict::Proved));
        let conditions = count(|verdict| matches!(verdict, Verdict::Condition(_)));
        let checked = count(|verdict| matches!(verdict, Verdict::Checked(_)));
        let assumed = count(|verdict| matches!(verdict, Verdict::Assumed(_)));
        write!(
            f,
            "`{}`: {} obligations: {proved} proved for every launch, {conditions} by conditions on \
             the launch, {checked} checked, {assumed} assumed",
            self.kernel,
            self.obligations.len()
        )?;
        for condition in &self.conditions {
            let (op, location) = (condition.op(), condition.location());
            write!(f, "\ncondition: {condition} (`{op}` at {location})")?;
        }
        for obligation in self.open() {
            let Obligation { name, location, what, verdict, .. } = obligation;
            write!(f, "\n{what} in `{name}` at {location}: ")?;
            match verdict {
                Verdict::Checked(reason) => {
                    write!(f, "checked, because this is not known: {reason}")?
                }
                Verdict::Assumed(what) => write!(f, "assumed: {what}")?,
                Verdict::Proved | Verdict::Condition(_) => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Access { space, allocation, is_store, .. } => {
                let kind = if *is_store { "store" } else { "load" };
                match allocation {
                    Some(name) => write!(f, "{space} {kind} of `{name}`"),
                    None => write!(f, "{space} {kind}"),
                }
            }
            What::Division => f.write_str("divisor"),
            What::Step => f.write_str("loop step"),
            What::Promise => f.write_str("promise"),
            What::Rank => f.write_str("block rank"),
            What::InlinePtx => f.write_str("inline PTX"),
            What::Matrix => f.write_str("matrix descriptor"),
        }
    }
}
