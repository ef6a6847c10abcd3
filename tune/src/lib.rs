//! Measures GPU kernels of [`tilewright`] and chooses among their configurations. It tunes a
//! kernel, benchmarks it, or compares two candidates properly.
//!
//! Tune ready kernels, for example softmax:
//!
//! ```
//! use tilewright::ir::types::Scalar;
//! use tilewright::kernels::rows::RowProblem;
//! use tilewright::runtime::Device;
//! use tilewright_tune::{Effort, Regime, SoftmaxTunable, Tuner, TuningStore};
//!
//! let device = Device::sim()?; // the simulator's times mean nothing: use a GPU
//! let softmax = SoftmaxTunable::new(Scalar::F32, RowProblem::new(5, 300));
//! let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
//! let tuned = Tuner::new(&device).tune(&softmax, &TuningStore::none(), effort, Regime::Latency)?;
//! assert!(tuned.seconds > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate uses the features of `tilewright` that your program chooses: with its default features
//! it tunes on a GPU. The feature `cublas` adds NVIDIA's kernels to the benchmarks of GEMM.
//!
//! A GPU's clock drifts, so candidates are timed alternately, and a median with a confidence
//! interval says whether they differ:
//!
//! ```
//! use tilewright_tune::{Estimate, interleave};
//!
//! let seconds = [2.0e-3, 1.5e-3]; // a launch of each candidate, timed
//! let rounds: Result<Vec<Vec<f64>>, String> = interleave(2, 9, 7, |candidate| Ok(seconds[candidate])).into_iter().collect();
//! let rounds = rounds?;
//! let speedup = Estimate::of_ratios(&rounds[0], &rounds[1], 7);
//! assert!(speedup.is_some_and(|speedup| speedup.low > 1.3)); // the second one is faster
//! # Ok::<(), String>(())
//! ```
//!
//! * To tune a kernel, use a [`Tunable`] (a problem together with a kernel's configurations) and a
//!   [`Tuner`], which finds the fastest one. Every ready kernel has a `Tunable`, for example
//!   [`SoftmaxTunable`], and you can write one for your own kernel.
//! * To benchmark a kernel, call [`bench()`], or [`bench_on`] if you want progress reports.
//!   [`MemoryTunable`] provides the memcpy baseline.
//! * A [`Search`] tunes without kernels: it only needs a way to measure candidates. A
//!   [`TuningStore`] keeps its results.
//! * A [`Regime`] says what the GPU does while it is timed. [`interleave`] and [`Estimate`] make
//!   figures comparable, and a [`Report`] keeps every round of them.
//! * For GEMM, [`GemmSpace`] lists the configurations and [`GemmModel`] predicts which to try
//!   first. Its parameters are fitted ([`fit`]) to measurements ([`Sweep`]).

#![warn(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod attention;
mod attention_reference;
mod bench;
mod bench_report;
mod chart;
mod data;
mod decode;
mod definition;
mod element_config;
mod element_offsets;
mod elementwise;
mod engine;
mod figure;
mod fit;
mod gemm;
mod memory;
mod movement;
mod operands;
mod record;
mod reduce;
mod rounds;
mod rows;
mod scaled_gemm;
mod scatter;
mod search;
mod small_gemm;
mod space;
mod stats;
mod store;
mod transpose;
mod tunable;
mod tuner;
mod workload;

pub use attention::{AttentionOperands, AttentionTunable};
pub use bench::{
    BenchConfigs, BenchError, BenchOptions, BenchProgress, BenchReport, BenchTimes, bench, bench_on,
};
pub use chart::{Chart, Series, SeriesStyle};
pub use decode::{DecodeChoice, DecodeOperands, DecodeTunable};
pub use element_config::ElementConfig;
pub use elementwise::{ElementwiseChoice, ElementwiseTunable};
pub use fit::{Ranking, fit, is_held_out, rankings};
pub use gemm::{GemmBench, GemmTunable, tune};
pub use memory::{MemoryConfig, MemoryTunable};
pub use movement::{GatherTunable, PermuteTunable};
pub use operands::GemmOperands;
pub use record::{
    Comparison, Entry, KernelSource, ProblemTimes, Provenance, Report, Sweep, SweepError,
    SweepShape,
};
pub use reduce::{AxisReduceTunable, RowReduceTunable, TopKTunable};
pub use rounds::interleave;
pub use rows::{NormOperands, NormTunable, SoftmaxTunable};
pub use scaled_gemm::{ScaledGemmOperands, ScaledGemmTunable};
pub use scatter::{PointSeries, Scatter};
pub use search::{Effort, Measure, Rejection, Search, SearchError, Tuned};
pub use small_gemm::{SmallGemmOperands, SmallGemmTunable};
pub use space::{GemmSpace, USUAL_SHAPES};
pub use stats::{Estimate, median};
pub use store::{Best, Outcome, TuningKey, TuningStore};
pub use tilewright::kernels::gemm::{
    GemmModel, Machine, Parameters, ParseRegimeError, Prediction, Regime,
};
pub use transpose::TransposeTunable;
pub use tunable::{FunctionOf, Loadable, Tunable};
pub use tuner::{Compared, Tuner};
pub use workload::{Window, Workload};

/// Compiles and runs the listings of the book's chapter on tuning as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../book/src/21-tuning.md")]
mod book {}
