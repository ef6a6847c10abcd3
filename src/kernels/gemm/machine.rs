//! [`Machine`] and [`Parameters`]: a device as the model of matrix products sees it.

use crate::runtime::Properties;

/// The figures of a device that the model uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Multiprocessors.
    pub sms: u32,
    /// Cycles per second at full clock.
    pub clock_hz: f64,
    /// Bytes of the L2 cache.
    pub l2_bytes: f64,
    /// Bytes per second of its memory, as streams reach it.
    pub memory_bytes_per_s: f64,
    /// Watts that it may take.
    pub power_w: f64,
    /// Bytes of shared memory of an SM.
    pub shared_bytes: u64,
}

impl Machine {
    /// The NVIDIA H200 (SXM): 132 SMs, 1980 MHz, 60 MiB of L2, 700 W; 4.4 TB/s are measured.
    pub const H200: Machine = Machine {
        sms: 132,
        clock_hz: 1.98e9,
        l2_bytes: 60.0 * 1024.0 * 1024.0,
        memory_bytes_per_s: 4.4e12,
        power_w: 700.0,
        shared_bytes: 228 * 1024,
    };

    /// Returns the number of clusters of thread blocks, one on each SM, that run at once. The SMs of a cluster are of one group of
    /// SMs: larger clusters leave some without work, 12 of the 132 of an H200.
    pub(super) fn clusters(&self, blocks: u32) -> u32 {
        let sms = if blocks > 2 { self.sms - self.sms.div_ceil(11) } else { self.sms };
        (sms / blocks.max(1)).max(1)
    }

    /// Returns a device with these properties. What they do not say is taken from the H200, in proportion to the width
    /// of the bus and to the SMs.
    pub fn of(properties: &Properties) -> Machine {
        let base = Machine::H200;
        let bus = f64::from(properties.memory_bus_bits) / 6016.0;
        let size = f64::from(properties.sm_count) / f64::from(base.sms);
        Machine {
            sms: properties.sm_count.max(1),
            l2_bytes: properties.l2_bytes as f64,
            memory_bytes_per_s: base.memory_bytes_per_s * bus.max(0.01),
            power_w: base.power_w * size,
            shared_bytes: properties.shared_bytes_per_sm,
            ..base
        }
    }
}

/// Names the parameters, so that a fit can go through them.
macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// The unknowns of a device and its kernels, fitted to measurements (`tune::fit`).
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Parameters {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Parameters {
            /// Fitted on an NVIDIA H200 to `benches/data/h200-gemm.json`.
            pub const H200: Parameters = Parameters { $($name: $value,)* };

            /// The number of parameters.
            #[cfg(feature = "tune")]
            pub(crate) const COUNT: usize = [$(stringify!($name)),*].len();

            #[cfg(feature = "tune")]
            pub(crate) fn to_array(self) -> [f64; Parameters::COUNT] {
                [$(self.$name),*]
            }

            #[cfg(feature = "tune")]
            pub(crate) fn from_array(values: [f64; Parameters::COUNT]) -> Parameters {
                let [$($name),*] = values;
                Parameters { $($name),* }
            }
        }
    };
}

parameters! {
    /// Seconds of a launch in a graph that do not depend on the kernel.
    launch_s = 2.35e-6,
    /// Seconds that a programmatic launch hides.
    programmatic_s = 0.58e-6,
    /// Cycles from the start of a block to its first product, and from its last store to its end.
    prologue_cycles = 1000.0,
    /// Cycles of a step along K beside its products, for the two warp groups of a block together.
    step_cycles = 4.12,
    /// Cycles of a step of a single warp group that nothing hides.
    drain_cycles = 21.2,
    /// Bytes that an SM reads from the L2 cache in a cycle.
    fill_bytes = 77.3,
    /// Cycles from asking for a tile to having it.
    latency_cycles = 2160.0,
    /// Cycles of the end of a tile, beside its bytes.
    switch_cycles = 600.0,
    /// Bytes of D that an SM writes in a cycle.
    store_bytes = 11.7,
    /// The share of the end of a tile that is seen where the other warp group multiplies meanwhile.
    pingpong_share = 0.199,
    /// The share of it that is seen where D is written under the next tile.
    deferred_share = 0.407,
    /// The same for narrow stores, relative to stores as wide as the tile.
    chunks_share = 0.722,
    /// Extra cycles of a step for each other block of its cluster.
    cluster_cycles = 44.0,
    /// The share of the rate of `wgmma` that `mma.sync` reaches.
    mma_sync_share = 0.53,
    /// The share of the L2 cache that keeps tiles for other blocks.
    kept_share = 0.533,
    /// Joules of a floating point operation of 16-bit inputs.
    flop_j = 0.447e-12,
    /// Joules of a byte from the L2 cache.
    l2_j = 18.8e-12,
    /// Joules of a byte from memory.
    memory_j = 42.6e-12,
    /// Watts without work.
    idle_w = 158.0,
    /// Watts of a millisecond's burst, relative to the limit.
    burst_w = 1.28,
}
