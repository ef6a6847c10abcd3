//! Faults: raw cause, report, and sentence.

pub(super) mod error;
pub(super) mod explain;
pub(super) mod raw;
pub(super) mod report;
pub(super) mod sentence;
pub(super) mod state;
