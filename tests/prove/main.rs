//! Tests of the prover: what is proved never faults on the simulator.
//!
//! `TILEWRIGHT_PROVE_CASES=100000 cargo test --release --test prove` is the long run;
//! `TILEWRIGHT_PROVE_SEED` starts elsewhere.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and prints its counts"
)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "only a part of the subjects is used here")]
#[path = "../mutants/kernels/mod.rs"]
mod kernels;
#[allow(dead_code, reason = "only a part of the operators is used here")]
#[path = "../mutants/operators.rs"]
mod operators;

mod barriers;
mod conditions;
mod copies;
mod copy_kernels;
mod data_use;
mod ends;
mod generator;
mod law;
mod library;
mod pitched;
mod race_kernels;
mod race_library;
mod races;
mod random;
mod subjects;
mod verdicts;
