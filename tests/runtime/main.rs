//! Tests of `runtime`.

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
mod errors;
#[cfg(feature = "sim")]
mod eval;
#[cfg(feature = "sim")]
mod launch;
#[cfg(feature = "sim")]
mod modules;
