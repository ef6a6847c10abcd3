//! Defines [`Lease`]: whether memory that other code has lent may still be used. Work on lent
//! memory checks it before it is queued.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::runtime::error::RuntimeError;

/// Tells whether lent memory may still be used. It is the owner of the memory's allocation.
pub(super) struct Lease {
    /// Set if other code was capturing the memory's stream when it was lent. Then only captured
    /// work may use it.
    captured: bool,
    /// Changes only under the context's graph lock.
    ended: AtomicBool,
}

impl Lease {
    pub(super) fn new(captured: bool) -> Lease {
        Lease { captured, ended: AtomicBool::default() }
    }

    /// Returns an error if the memory went back to its lender, or if other code captures its
    /// stream, because then the graph has not written the memory yet. Hold the graph lock.
    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        if self.captured { Err(RuntimeError::StreamCaptures) } else { self.check_lent() }
    }

    /// Returns an error if the memory went back to its lender. Hold the graph lock.
    pub(super) fn check_lent(&self) -> Result<(), RuntimeError> {
        if self.ended.load(Relaxed) { Err(RuntimeError::BorrowEnded) } else { Ok(()) }
    }

    /// Ends the loan. Hold the graph lock.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}
