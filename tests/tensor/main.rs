//! Tests of `tensor`.

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
mod accumulators;
#[cfg(feature = "sim")]
mod async_tile;
mod atoms;
#[cfg(feature = "sim")]
mod autovec;
#[cfg(feature = "sim")]
mod bulk;
#[cfg(feature = "sim")]
mod carried;
#[cfg(feature = "sim")]
mod copies;
#[cfg(feature = "sim")]
mod cotiled;
#[cfg(feature = "sim")]
mod counts;
#[cfg(feature = "sim")]
mod devices;
#[cfg(feature = "sim")]
mod divisors;
#[cfg(feature = "sim")]
mod dynamic;
#[cfg(feature = "sim")]
mod hopper;
#[cfg(feature = "sim")]
mod im2col;
mod map;
#[cfg(feature = "sim")]
mod online_softmax;
#[cfg(feature = "sim")]
mod pipelines;
#[cfg(feature = "sim")]
mod products;
#[cfg(feature = "sim")]
mod row_columns;
mod row_reduce;
#[cfg(feature = "sim")]
mod row_tile;
#[cfg(feature = "sim")]
mod schedulers;
#[cfg(feature = "sim")]
mod sparse;
#[cfg(feature = "sim")]
mod storage;
#[cfg(feature = "sim")]
mod swizzle;
#[cfg(feature = "sim")]
mod tensor;
#[cfg(feature = "sim")]
mod tiled;
#[cfg(feature = "sim")]
mod tiled_row_copy;
#[cfg(feature = "sim")]
mod values;
#[cfg(feature = "sim")]
mod views;
