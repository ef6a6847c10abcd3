//! Options of a simulation, its counters and its output.

pub(super) mod explain;
pub(super) mod options;
pub(super) mod output;
