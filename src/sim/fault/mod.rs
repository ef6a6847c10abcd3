//! Faults: cause, report, and sentence.

pub(super) mod cause;
mod checked;
pub(super) mod error;
mod race_sentence;
pub(super) mod raw;
pub(super) mod raw_fault;
pub(super) mod report;
mod sentence;
pub(super) mod source;
pub(super) mod state;
pub(super) mod terms;
