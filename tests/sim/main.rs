//! Tests of `sim`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod arith;
mod arith_devices;
mod async_;
mod control;
mod cooperative;
mod deadlocks;
mod faults;
mod in_flight;
mod limits;
mod mma;
mod mma_devices;
mod mutants;
mod narrow;
mod race;
mod random_devices;
mod random_loops;
mod readme;
mod reports;
mod schedules;
