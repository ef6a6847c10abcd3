//! What went wrong, in three forms: a cause in the simulator's own terms (`raw*.rs`), the
//! [`Fault`](report::Fault) in the kernel's terms, and the sentence that it prints as
//! (`sentence.rs`).
//!
//! A new cause is a variant in `cause.rs`, and a sentence with the cure in `sentence.rs`.
//! `report/explain.rs` translates from the first form to the second.

pub(super) mod cause;
mod checked;
pub(super) mod error;
mod race_sentence;
pub(super) mod raw;
pub(super) mod raw_fault;
pub(super) mod report;
pub(super) mod results_differ;
mod sentence;
pub(super) mod source;
pub(super) mod state;
pub(super) mod terms;
