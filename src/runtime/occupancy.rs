//! Defines [`Occupancy`]: how many blocks of a kernel run at once, for example to size the grid of
//! a persistent kernel.

/// How many blocks of a kernel a GPU runs at once, from
/// [`Function::occupancy`](super::Function::occupancy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    /// Blocks that fit on one SM.
    pub blocks_per_sm: u32,
    /// SMs of the GPU.
    pub sm_count: u32,
}

impl Occupancy {
    /// Returns how many blocks run at once: the largest grid of a cooperative launch, and the usual
    /// grid of a persistent kernel.
    pub const fn blocks(self) -> u32 {
        self.blocks_per_sm.saturating_mul(self.sm_count)
    }
}
