//! The verifier. A kernel that it accepts is simulated and written as PTX without a panic.
//!
//! It checks, and returns every violation of:
//!
//! * **entities** (`entities.rs`): every index is inside its arena; every region and operation has one
//!   owner, which it names; every value names its definition and the region of it; regions are not too
//!   deep inside each other.
//! * **structure** (`structure.rs`): a value is used only where its definition reaches (SSA dominance over
//!   regions); every region ends in a terminator and nothing follows it; `yield` ends an arm of an `if`;
//!   `break` and `continue` name an enclosing loop; what passes into and out of regions has the types
//!   expected there; an `if` with results has an `else`.
//! * **types** (`types.rs`): operands and results are what the operation's row says; the target has the
//!   operation; the range of a `for` is of one integer type with a positive step.
//! * **texts** (`diagnostic.rs`): the text of an `assert` or a `printf` is a format with a placeholder for each
//!   value, of a type that it can write, and there are not too many values.
//! * **variables** (`vars.rs`): a register exists, its variable is in scope, and it was set on every path
//!   before it is read.
//! * **synchronisation** (`sync.rs`): a barrier is reached by all threads of a block that have not returned,
//!   or by none; an operation of a warp that names all lanes as members by all threads of a warp that have
//!   not returned, or by none.
//! * **limits** (`limits.rs`): names, launch bounds, shared memory, registers of a variable.
//!
//! Entities come first alone: when one is broken, the others are not run, because they follow indices freely.
//! Synchronisation comes last, for a kernel that breaks no other rule.

mod diagnostic;
mod entities;
mod error;
mod limits;
mod structure;
mod sync;
mod types;
mod vars;

pub use error::{VerifyError, VerifyErrors, Violation};

use super::entity::{OpId, PlaceId};
use super::kernel::KernelIr;

/// The violations found so far.
struct Report<'k> {
    ir: &'k KernelIr,
    violations: Vec<Violation>,
}

impl Report<'_> {
    /// Records that `op` breaks a rule.
    fn at(&mut self, op: OpId, error: VerifyError) {
        let (place, path) = (Some(self.ir.place_of(op)), self.ir.path_of(op));
        self.violations.push(Violation { place, path, error });
    }

    /// Records that what was made at `place` breaks a rule.
    fn place(&mut self, place: PlaceId, error: VerifyError) {
        let place = self.ir.places.get(place).copied();
        self.violations.push(Violation { place, path: String::new(), error });
    }

    /// Records a broken rule of the kernel as a whole.
    fn kernel(&mut self, error: VerifyError) {
        self.violations.push(Violation { place: None, path: String::new(), error });
    }
}

/// Checks all rules.
///
/// # Errors
/// Every violation.
pub(super) fn verify(ir: &KernelIr) -> Result<(), VerifyErrors> {
    let mut report = Report { ir, violations: Vec::new() };
    entities::check(&mut report);
    if report.violations.is_empty() {
        limits::check(&mut report);
        structure::check(&mut report);
        types::check(&mut report);
        vars::check(&mut report);
    }
    if report.violations.is_empty() {
        sync::check(&mut report);
    }
    match report.violations {
        violations if violations.is_empty() => Ok(()),
        violations => Err(VerifyErrors { violations }),
    }
}
