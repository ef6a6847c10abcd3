//! Ready kernels, written with the public API only.

mod arrival;
pub mod attention;
pub mod decode;
pub mod elementwise;
pub mod gather;
pub mod gemm;
pub mod norm;
pub mod parallel;
pub mod permute;
pub mod reduce;
pub mod rows;
pub mod softmax;
pub mod transpose;
