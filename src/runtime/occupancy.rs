//! Defines [`Occupancy`], the number of blocks that run at once.

/// The number of blocks of a kernel that a GPU runs at once, from [`Function::occupancy`](super::Function::occupancy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    /// The blocks that fit on one SM.
    pub blocks_per_sm: u32,
    /// The number of SMs of the GPU.
    pub sm_count: u32,
}

impl Occupancy {
    /// Blocks that run at once: what a cooperative launch can have, and a persistent kernel wants.
    pub const fn blocks(self) -> u32 {
        self.blocks_per_sm.saturating_mul(self.sm_count)
    }
}
