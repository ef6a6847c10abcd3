//! A fault as the simulator finds it, before it has names and source locations.

use super::cause::FaultCause;
use super::raw::{Origin, RawTerms};

/// The cause of a fault in the terms of the compiled program.
pub(in crate::sim) type RawCause = FaultCause<RawTerms>;

/// A lane that cannot go on.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct RawFault {
    /// The lowest active lane at fault.
    pub(in crate::sim) lane: u32,
    pub(in crate::sim) cause: RawCause,
    /// The issue of the operation; `None` for the current operation of the warp.
    pub(in crate::sim) origin: Option<Origin>,
}

/// Boxed: the way without a fault must stay cheap.
pub(in crate::sim) type RawResult<T = ()> = Result<T, Box<RawFault>>;

impl RawFault {
    pub(in crate::sim) fn new(lane: usize, cause: RawCause) -> Box<RawFault> {
        Box::new(RawFault { lane: lane as u32, cause, origin: None })
    }
}
