//! Matrix products.

mod check;
mod config;
mod defaults;
mod direct_store;
mod epilogue;
mod error;
mod fma;
mod front;
mod launch;
mod name;
mod padded_tile;
mod problem;
mod sm80;
mod sm90;
mod threads;
mod types;

pub use config::{Activation, Bias, Epilogue, GemmConfig, Schedule, StoreForm};
pub use error::GemmError;
pub use front::Gemm;
pub use launch::{GemmArgs, GemmFunction, GemmLaunch};
pub use problem::{GemmProblem, GemmStrides, MatrixStrides};
#[cfg(feature = "tune")]
pub(crate) use types::in_memory;
