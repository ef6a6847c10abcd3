//! Tests of `runtime::comm` and `kernels::parallel`: several devices.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod collectives;
mod devices;
mod example;
mod failures;
mod parallel;
mod processes;
mod ranks;
