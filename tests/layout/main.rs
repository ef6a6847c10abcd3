//! Tests of `layout`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod analysis;
mod campaigns;
mod checks;
mod cute;
mod docs;
mod draw;
mod exhaustive;
mod laws;
mod named;
mod portable;
mod regressions;
mod strategies;
mod theorems;
mod tuples;
