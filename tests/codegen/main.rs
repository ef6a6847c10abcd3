//! Tests of `codegen`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod ptx_division;
mod ptx_interpreted;
mod ptx_text;
mod ptxas;
mod ptxas_cells;
mod skipped;
mod wgmma_operands;
