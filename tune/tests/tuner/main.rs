//! Tests of the search, of benchmarks, and of the GEMM model on the tuner's configurations.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod bench;
mod model;
mod search;
