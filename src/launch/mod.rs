//! Grids, clusters and failed assertions of a launch, for the simulator and for devices.

pub(crate) mod assert;
pub(crate) mod grid;
