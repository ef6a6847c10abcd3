//! How much of a kernel runs at once.

/// How many blocks of a kernel a GPU runs at once, made by [`Function::occupancy`](super::Function::occupancy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    /// Blocks that one multiprocessor has room for.
    pub blocks_per_sm: u32,
    /// Multiprocessors of the GPU.
    pub multiprocessors: u32,
}

impl Occupancy {
    /// Blocks that run at once: what a cooperative launch can have, and a persistent kernel wants.
    pub const fn blocks(self) -> u32 {
        self.blocks_per_sm.saturating_mul(self.multiprocessors)
    }
}
