//! Defines [`Properties`], the resources of a GPU.

/// The resources of a GPU, from [`Device::properties`](super::Device::properties), for the choice of tiles, stages and grids. [`Limits`](super::Limits) bounds a
/// launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Properties {
    /// The compute capability, major and minor: 9 and 0 for Hopper.
    pub capability: (u16, u16),
    /// The number of SMs.
    pub sm_count: u32,
    /// The threads that fit on an SM.
    pub threads_per_sm: u32,
    /// The 32-bit registers of an SM.
    pub registers_per_sm: u32,
    /// The bytes of shared memory of an SM.
    pub shared_bytes_per_sm: u64,
    /// The bytes of the second-level cache.
    pub l2_bytes: u64,
    /// The width of the bus to the memory, in bits.
    pub memory_bus_bits: u32,
    /// The maximum clock of the SMs, in kHz.
    pub clock_khz: u32,
    /// The maximum clock of the memory, in kHz: each cycle transfers 2 bits on each wire of the bus.
    pub memory_clock_khz: u32,
}
