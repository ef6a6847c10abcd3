//! Stops and diagnostics of a launch, in the terms of the kernel.

pub(super) mod explain;
pub(super) mod kernel;
pub(super) mod said;
pub(super) mod trace;
mod waits_for;
