//! Defines [`Properties`]: the resources of a GPU, such as its SM count, from which kernels and
//! cost models choose their configuration.

/// The resources of a GPU, from [`Device::properties`](super::Device::properties). Use them to
/// choose tiles, stages and grids. For what a launch may ask for, see [`Limits`](super::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Properties {
    /// The compute capability, major and minor: `(9, 0)` for Hopper.
    pub capability: (u16, u16),
    /// How many SMs the GPU has: a persistent kernel runs one or a few blocks on each.
    pub sm_count: u32,
    /// Maximum resident threads per SM.
    pub threads_per_sm: u32,
    /// 32-bit registers per SM.
    pub registers_per_sm: u32,
    /// Shared memory per SM, in bytes.
    pub shared_bytes_per_sm: u64,
    /// L2 cache size, in bytes.
    pub l2_bytes: u64,
    /// Memory bus width, in bits.
    pub memory_bus_bits: u32,
    /// Maximum SM clock, in kHz.
    pub clock_khz: u32,
    /// Maximum memory clock, in kHz. Each cycle transfers 2 bits per wire of the bus.
    pub memory_clock_khz: u32,
}
