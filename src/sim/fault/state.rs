//! States of barriers and of asynchronous operations that faults name.

/// Use of shared memory by an asynchronous operation in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncUse {
    /// It reads it.
    Reads,
    /// It writes it.
    Writes,
}

/// State of 8 bytes where a barrier was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierState {
    /// No barrier was made there.
    NotInitialised,
    /// It was made memory again.
    Invalidated,
    /// It was written as if it were memory.
    Overwritten,
}

/// A barrier, in the terms of its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct BarrierAt {
    pub(in crate::sim) alloc: u32,
    /// Counted from the start of the allocation, in units of 8 bytes.
    pub(in crate::sim) element: u64,
}

/// Operand of `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WgmmaOperand {
    /// A.
    A,
    /// B.
    B,
}

/// Step, warp and block of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Origin {
    /// The rank of the block in its cluster.
    pub(in crate::sim) block: u32,
    /// The warp in its block.
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
}
