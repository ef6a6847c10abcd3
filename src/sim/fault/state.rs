//! What mbarriers and asynchronous operations were doing when a fault was found. A fault report
//! prints it, so that you can see which copy or phase was still open.

/// How an asynchronous operation in flight uses the shared memory that another access touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncUse {
    /// It reads the bytes.
    Reads,
    /// It writes the bytes.
    Writes,
}

/// What an mbarrier operation finds in memory that does not hold a valid mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierState {
    /// No mbarrier was initialised there.
    NotInitialised,
    /// There was one, but it was invalidated.
    Invalidated,
    /// There was one, but it was overwritten by a store.
    Overwritten,
}

/// The operand of a `wgmma` that a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WgmmaMatrix {
    /// Operand A.
    A,
    /// Operand B.
    B,
}
