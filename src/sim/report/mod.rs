//! Translates what a run left behind into the kernel's terms: faults, deadlocks, prints, reports
//! and traces. A launch comes here when its clusters have ended.

pub(super) mod block_output;
pub(super) mod explain;
pub(super) mod kernel;
pub(super) mod trace;
mod waits_for;
