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

/// Operand of `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WgmmaMatrix {
    /// A.
    A,
    /// B.
    B,
}
