//! Ready kernels, written with the public API only.

pub mod gemm;
