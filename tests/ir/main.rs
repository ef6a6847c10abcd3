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

#[cfg(feature = "sim")]
mod address_spaces;
#[cfg(feature = "sim")]
mod atomics;
#[cfg(feature = "sim")]
mod barriers;
#[cfg(feature = "sim")]
mod bits;
mod build_errors;
mod call_sites;
#[cfg(feature = "sim")]
mod collectives;
#[cfg(feature = "sim")]
mod control_flow;
#[cfg(feature = "sim")]
mod diagnostics;
#[cfg(feature = "sim")]
mod filetests;
#[cfg(feature = "sim")]
mod inline_ptx;
#[cfg(feature = "sim")]
mod math;
#[cfg(feature = "sim")]
mod merge_shared;
#[cfg(feature = "sim")]
mod mistakes;
#[cfg(feature = "sim")]
mod params;
#[cfg(feature = "sim")]
mod prefetch_async;
#[cfg(feature = "sim")]
mod prefetch_bulk;
#[cfg(feature = "sim")]
mod splitting;
mod text_limits;
mod text_roundtrip;
#[cfg(feature = "sim")]
mod tile_ir_examples;
#[cfg(feature = "sim")]
mod vector_access;
#[cfg(feature = "sim")]
mod vector_rows;
mod verify_ir;
#[cfg(feature = "sim")]
mod warp_ops;
