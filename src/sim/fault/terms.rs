//! Terms in which a fault names accesses, barriers, threads and operations.

use std::fmt::Debug;

/// Types by which a [`FaultCause`](crate::sim::FaultCause) names things. Only the simulator implements it.
pub trait Terms {
    /// An access to memory.
    type Access: Clone + Debug + Eq;
    /// A barrier in shared memory.
    type Barrier: Clone + Debug + Eq;
    /// An allocation.
    type Allocation: Clone + Debug + Eq;
    /// A thread of the warp.
    type Thread: Clone + Debug + Eq;
    /// Another operation of the kernel.
    type Op: Clone + Debug + Eq;
    /// The text of an inline PTX operation.
    type Text: Clone + Debug + Eq;
    /// One of the two accesses of a race.
    type Racer: Clone + Debug + Eq;
}
