//! Tests of `ir`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod address_spaces;
mod atomics;
mod barriers;
mod bits;
mod build_errors;
mod call_sites;
mod collectives;
mod control_flow;
mod diagnostics;
mod filetests;
mod inline_ptx;
mod math;
mod merge_shared;
mod mistakes;
mod params;
mod prefetch_async;
mod prefetch_bulk;
mod splitting;
mod text_limits;
mod text_roundtrip;
mod tile_ir_examples;
mod vector_access;
mod vector_rows;
mod verify_ir;
mod warp_ops;
