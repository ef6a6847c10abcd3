//! [`Prediction`]: the predicted time of a matrix product, with its parts.

/// The predicted time of a product, with its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds of a launch: about the longest of the next four times, which overlap, and `copies_s`.
    pub seconds: f64,
    /// Set if measured times of such kernels on this machine calibrate `seconds`: warp-specialised kernels with 16-bit inputs on an
    /// H200. The times of usual products are then within 2 % of the measured ones in steady work, 10 % in bursts and 16 % in latency;
    /// of all measured configurations, slow ones too, nine of ten are within 30 %. Otherwise use the order of configurations only:
    /// large products by `mma.sync` on an H200, for example, take half of the predicted time.
    pub is_calibrated: bool,
    /// Seconds of the busiest SM at full clock, with the launch.
    pub busy_s: f64,
    /// Seconds that the memory needs for what it reads and writes.
    pub memory_s: f64,
    /// Seconds that the L2 cache needs for what all SMs ask it for.
    pub cache_s: f64,
    /// Seconds in which the device draws the energy of the product at its power limit.
    pub energy_s: f64,
    /// Tiles of the busiest SM, one after the other.
    pub waves: u32,
    /// Bytes that come from memory or go to it.
    pub memory_bytes: f64,
    /// Bytes that tiles fetch from the L2 cache.
    pub l2_bytes: f64,
    /// Seconds of the multiply-accumulates of the busiest SM: a part of `busy_s`, as the next ones.
    pub mma_s: f64,
    /// Seconds for which it fetches tiles from the L2 cache, at the same time.
    pub l2_s: f64,
    /// Seconds in which it writes D and nothing is multiplied.
    pub store_s: f64,
    /// Seconds of the sums of split tiles.
    pub fix_up_s: f64,
    /// Seconds of the copies of unaligned operands, before the product.
    pub copies_s: f64,
}

impl Prediction {
    /// Returns the name of the longest of the times that overlap: the busiest SM's, the memory's, the L2 cache's, the energy's.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Machine};
    ///
    /// let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    /// let limit = |m, n, k| wanted.explain(&GemmProblem::new(m, n, k), &Machine::H200).unwrap().prediction.limit();
    /// assert_eq!(limit(16, 14336, 4096), "memory");
    /// assert_eq!(limit(4096, 4096, 4096), "busiest SM");
    /// ```
    #[inline]
    pub fn limit(&self) -> &'static str {
        let Prediction { busy_s, memory_s, cache_s, energy_s, .. } = *self;
        let times = [
            (busy_s, "busiest SM"),
            (memory_s, "memory"),
            (cache_s, "L2 cache"),
            (energy_s, "energy"),
        ];
        // The first of equal ones.
        let longest = times.into_iter().rev().max_by(|a, b| a.0.total_cmp(&b.0));
        longest.map_or("busiest SM", |(_, name)| name)
    }
}
