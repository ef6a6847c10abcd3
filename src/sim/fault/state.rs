//! What mbarriers and asynchronous operations were doing when a fault was found. A fault report
//! prints it, so that you can see which copy or phase was still open.

/// What an asynchronous operation in flight does with some shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncUse {
    /// It reads the bytes.
    Reads,
    /// It writes the bytes.
    Writes,
}

/// What is in 8 bytes where an mbarrier was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierState {
    /// No mbarrier was initialised there.
    NotInitialised,
    /// There was one, but it was invalidated.
    Invalidated,
    /// There was one, but it was overwritten by a store.
    Overwritten,
}

/// An operand of `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WgmmaMatrix {
    /// Operand A.
    A,
    /// Operand B.
    B,
}
