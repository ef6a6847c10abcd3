//! Options of a simulation, its counters and its output.

pub(super) mod options;
pub(super) mod output;
