//! Defines [`Lease`], the time for which memory is lent.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::runtime::error::RuntimeError;

/// Tells whether lent memory may still be used. Its allocation has it as its owner.
pub(super) struct Lease {
    /// Set if other code captured the stream of the memory when it was lent: only work that is captured, too, may use it.
    captured: bool,
    /// It changes behind the lock of the graphs of the context.
    ended: AtomicBool,
}

impl Lease {
    pub(super) fn new(captured: bool) -> Lease {
        Lease { captured, ended: AtomicBool::default() }
    }

    /// Refuses memory that went back to its lender, and memory of a stream that other code captures: what the graph writes
    /// there is not written yet. The lock of the graphs is held.
    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        if self.captured { Err(RuntimeError::StreamCaptures) } else { self.check_lent() }
    }

    /// Refuses memory that went back to its lender. The lock of the graphs is held.
    pub(super) fn check_lent(&self) -> Result<(), RuntimeError> {
        if self.ended.load(Relaxed) { Err(RuntimeError::BorrowEnded) } else { Ok(()) }
    }

    /// Ends the loan. The lock of the graphs is held.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}
