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

#[cfg(feature = "sim")]
mod arith;
#[cfg(feature = "sim")]
mod arith_devices;
#[cfg(feature = "sim")]
mod async_;
#[cfg(feature = "sim")]
mod control;
#[cfg(feature = "sim")]
mod cooperative;
#[cfg(feature = "sim")]
mod deadlocks;
#[cfg(feature = "sim")]
mod faults;
#[cfg(feature = "sim")]
mod in_flight;
#[cfg(feature = "sim")]
mod limits;
#[cfg(feature = "sim")]
mod mma;
#[cfg(feature = "sim")]
mod mma_devices;
#[cfg(feature = "sim")]
mod mutants;
#[cfg(feature = "sim")]
mod narrow;
#[cfg(feature = "sim")]
mod race;
#[cfg(feature = "sim")]
mod random_devices;
#[cfg(feature = "sim")]
mod random_loops;
#[cfg(feature = "sim")]
mod readme;
#[cfg(feature = "sim")]
mod reports;
#[cfg(feature = "sim")]
mod schedules;
