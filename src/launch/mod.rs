//! The parts of a launch that the simulator and the CUDA runtime share: its grid and clusters, and
//! the report of failed assertions.

pub(crate) mod assert;
pub(crate) mod grid;
