//! Tests of `gemm`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod config;
mod defaults;
mod family;
mod fused;
mod gemm;
mod groups;
mod levels;
mod loops;
mod orders;
mod pairs;
mod ragged;
mod reductions;
mod space;
mod splits;
mod tiles;
mod tuner_devices;
mod types;
