//! Matrix products.

mod check;
mod config;
mod defaults;
mod direct_store;
mod epilogue;
mod error;
mod explain;
mod fields;
mod fma;
mod forms;
mod fragment;
mod front;
mod groups;
mod how;
mod launch;
mod machine;
mod model;
mod padded_tile;
mod parameters;
mod parts;
mod prediction;
mod problem;
mod product;
mod ragged;
mod reduction;
mod regime;
mod repack;
mod roles;
mod shared_memory;
mod sm80;
mod sm90;
mod split;
mod terms;
mod threads;
mod traffic;
mod types;

#[cfg(feature = "tune")]
pub(crate) use config::output_of;
pub use config::{Activation, Bias, Epilogue, GemmConfig};
#[cfg(feature = "tune")]
pub(crate) use epilogue::EpilogueParameter;
pub use epilogue::FusedEpilogue;
pub use error::GemmError;
pub use explain::Explanation;
pub use forms::{LoadForm, Schedule, StoreForm};
pub use front::Gemm;
pub use groups::GroupRows;
pub use launch::{GemmArgs, GemmFunction, GemmLaunch};
pub use machine::Machine;
pub use model::GemmModel;
pub use parameters::Parameters;
pub use parts::Splits;
pub use prediction::Prediction;
pub use problem::{GemmProblem, GemmStrides, MatrixStrides};
pub use ragged::RaggedProblem;
pub use reduction::{AmaxGemm, ReducedGemm};
pub use regime::{ParseRegimeError, Regime};
pub use split::GemmWorkspace;
pub use terms::Reduction;
#[cfg(feature = "tune")]
pub(crate) use types::in_memory;
