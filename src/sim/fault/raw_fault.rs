//! A fault as the simulator finds it, before `report/explain.rs` translates it to names and Rust
//! lines.

use super::cause::FaultCause;
use super::raw::{Origin, RawTerms};

/// A cause in the compiled program's terms.
pub(in crate::sim) type RawCause = FaultCause<RawTerms>;

/// A lane that cannot go on.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct RawFault {
    /// The lowest faulting lane.
    pub(in crate::sim) lane: u32,
    pub(in crate::sim) cause: RawCause,
    /// Where the operation was issued; `None` for the warp's current operation.
    pub(in crate::sim) origin: Option<Origin>,
}

/// Boxed, so that the path without a fault stays cheap.
pub(in crate::sim) type RawResult<T = ()> = Result<T, Box<RawFault>>;

impl RawFault {
    pub(in crate::sim) fn new(lane: usize, cause: RawCause) -> Box<RawFault> {
        Box::new(RawFault { lane: lane as u32, cause, origin: None })
    }
}
