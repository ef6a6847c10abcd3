//! Measuring kernels, and choosing among their configurations.
//!
//! * [`Regime`] says what the GPU does while it is timed; [`take_turns`] and [`Estimate`] make figures that can be
//!   compared.
//! * [`Search`] finds the best of many candidates, whatever they are; a [`TuningStore`] keeps what it found.

mod regime;
mod rounds;
mod stats;
mod store;
mod tuner;

pub use regime::{ParseRegimeError, Regime};
pub use rounds::take_turns;
pub use stats::{Estimate, median};
pub use store::{Best, Outcome, TuningKey, TuningStore};
pub use tuner::{Effort, Measure, Rejection, Search, SearchError, Tuned};
