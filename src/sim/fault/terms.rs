//! How a fault names accesses, mbarriers, threads and operations: once in the simulator's terms
//! while the kernel runs, and once in the kernel's terms in a report.

use std::fmt::Debug;

/// The types by which a [`FaultCause`](crate::sim::FaultCause) names things, so that one enum of
/// causes serves the running simulator and its reports. Only the simulator implements this.
pub trait Terms {
    /// An access to memory.
    type Access: Clone + Debug + Eq;
    /// An mbarrier.
    type Barrier: Clone + Debug + Eq;
    /// An allocation.
    type Allocation: Clone + Debug + Eq;
    /// A thread of the warp.
    type Thread: Clone + Debug + Eq;
    /// Another operation of the kernel.
    type Op: Clone + Debug + Eq;
    /// The text of inline PTX.
    type Text: Clone + Debug + Eq;
    /// One of the two accesses of a race.
    type RacingAccess: Clone + Debug + Eq;
}
