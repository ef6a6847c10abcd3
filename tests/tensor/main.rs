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

mod accumulators;
mod async_tile;
mod atoms;
mod autovec;
mod bulk;
mod carried;
mod copies;
mod cotiled;
mod counts;
mod devices;
mod divisors;
mod dynamic;
mod hopper;
mod im2col;
mod map;
mod online_softmax;
mod pipelines;
mod products;
mod row_columns;
mod row_reduce;
mod row_tile;
mod schedulers;
mod sparse;
mod storage;
mod swizzle;
mod tensor;
mod tiled;
mod tiled_row_copy;
mod values;
mod views;
