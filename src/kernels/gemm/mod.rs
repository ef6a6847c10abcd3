//! Matrix products.

mod check;
mod config;
mod error;
mod name;
mod partition;
mod problem;
mod simt;

pub use config::{Activation, Bias, Epilogue, GemmConfig, Schedule, StoreForm};
pub use error::GemmError;
pub use problem::{GemmProblem, GemmStrides, MatrixStrides};
pub use simt::{SimtGemm, SimtGemmError, SimtSignature};
