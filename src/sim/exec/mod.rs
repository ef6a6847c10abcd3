//! Executes compiled kernels: warps, their scheduler, barriers, and clusters that tie them
//! together.
//!
//! `cluster.rs` is the main loop, `warp.rs` the interpreter. If no warp can continue, `deadlock.rs`
//! explains why. `program/` compiles the kernel first.

pub(super) mod barrier;
pub(super) mod cluster;
pub(super) mod cluster_barrier;
pub(super) mod deadlock;
mod out_of_fuel;
mod paced;
mod recorded;
pub(super) mod warp;
pub(super) mod warp_scheduler;
