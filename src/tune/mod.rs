//! Measures kernels, and chooses among their configurations.
//!
//! * [`Regime`] says what the GPU does while it is timed; [`interleave`] and [`Estimate`] make figures that can be
//!   compared; a [`Report`] keeps each round of them.
//! * [`Search`] finds the best of many candidates, whatever they are; a [`TuningStore`] keeps what it found.
//! * [`GemmSpace`] has the configurations of a matrix product, [`GemmModel`] says which of them come first. Its
//!   parameters are fitted ([`fit`]) to measurements ([`Sweep`]).

mod chart;
mod data;
mod element_offsets;
mod figure;
mod fit;
mod gemm;
mod record;
mod rounds;
mod space;
mod stats;
mod store;
mod tuner;
mod workload;

pub use crate::kernels::gemm::{
    GemmModel, Machine, Parameters, ParseRegimeError, Prediction, Regime,
};
pub use chart::{Chart, Look, Series};
pub use fit::{Ranking, fit, is_held_out, rankings};
pub use gemm::{GemmBench, GemmElement, GemmMeasure, tune};
pub use record::{
    Comparison, Entry, Maker, ProblemTimes, Provenance, Report, Sweep, SweepError, SweepShape,
};
pub use rounds::interleave;
pub use space::{GemmSpace, USUAL_SHAPES};
pub use stats::{Estimate, median};
pub use store::{Best, Outcome, TuningKey, TuningStore};
pub use tuner::{Effort, Measure, Rejection, Search, SearchError, Tuned};
pub use workload::{GemmOperands, Window, Workload};
