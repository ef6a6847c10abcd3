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
#[cfg(feature = "sim")]
mod defaults;
#[cfg(feature = "sim")]
mod family;
#[cfg(feature = "sim")]
mod fused;
#[cfg(feature = "sim")]
mod gemm;
#[cfg(feature = "sim")]
mod groups;
#[cfg(feature = "sim")]
mod levels;
mod loops;
#[cfg(feature = "sim")]
mod orders;
#[cfg(feature = "sim")]
mod pairs;
mod ragged;
#[cfg(feature = "sim")]
mod reductions;
#[cfg(feature = "sim")]
mod space;
#[cfg(feature = "sim")]
mod splits;
#[cfg(feature = "sim")]
mod tiles;
#[cfg(feature = "sim")]
mod tuner_devices;
#[cfg(feature = "sim")]
mod types;
