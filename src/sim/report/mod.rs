//! Translates what a run left behind into the kernel's terms: faults, deadlocks, prints, reports
//! and traces.

pub(super) mod block_output;
pub(super) mod explain;
pub(super) mod kernel;
pub(super) mod trace;
mod waits_for;
