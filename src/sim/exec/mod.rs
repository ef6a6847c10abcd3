//! Execution of a launch: warps, their scheduler, clusters and barriers.

pub(super) mod barrier;
pub(super) mod cluster;
pub(super) mod cluster_barrier;
pub(super) mod deadlock;
mod out_of_fuel;
mod paced;
mod recorded;
pub(super) mod warp;
pub(super) mod warp_scheduler;
