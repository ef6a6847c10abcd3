//! Tests of the kernels that work on rows and on elements.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod attention;
mod attention_varlen;
mod axis;
mod checked;
mod convolution;
mod decode;
mod elementwise;
mod gather;
mod matrix;
mod norm;
mod quantize;
mod ready;
mod reduce;
mod row_copy;
mod scaled_gemm;
mod selective_scan;
mod small_gemm;
mod softmax;
mod top_k;
mod transpose;
