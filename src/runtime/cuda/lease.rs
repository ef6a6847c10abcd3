//! Defines [`Lease`], the time for which memory is lent.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::runtime::RuntimeError;

/// Tells whether lent memory may still be used. Its allocation has it as its owner.
#[derive(Default)]
pub(super) struct Lease {
    /// It changes behind the lock of the graphs of the context.
    ended: AtomicBool,
}

impl Lease {
    /// Refuses memory that went back to its lender. The lock of the graphs is held.
    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        if self.ended.load(Relaxed) { Err(RuntimeError::BorrowEnded) } else { Ok(()) }
    }

    /// Ends the loan. The lock of the graphs is held.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}
