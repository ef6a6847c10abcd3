//! [`Prediction`]: the cost model's answer for one configuration and problem, with the parts that
//! say what bounds the GEMM.

/// A launch's predicted time and its parts, which say what bounds it: for example, `memory_s` close
/// to `seconds` means memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds per launch. This is about the longest of the next four times, which overlap, plus
    /// `copies_s`.
    pub seconds: f64,
    /// Whether `seconds` is calibrated against measurements of such kernels on this machine. It is
    /// for warp-specialised kernels with 16-bit inputs on an H200. There, predictions for common
    /// sizes are within 2 % of the measurement in steady work, 10 % in bursts and 16 % in latency;
    /// over all measured configurations, slow ones included, nine of ten are within 30 %. If it is
    /// not set, trust only the order of configurations: for example, large GEMMs with `mma.sync` on
    /// an H200 take half of the predicted time.
    pub is_calibrated: bool,
    /// Seconds the busiest SM needs at full clock, including the launch.
    pub busy_s: f64,
    /// Seconds that memory needs for all reads and writes.
    pub memory_s: f64,
    /// Seconds that the L2 cache needs to serve all SMs.
    pub cache_s: f64,
    /// Seconds the GPU takes to consume the launch's energy at its power limit.
    pub energy_s: f64,
    /// Tiles that the busiest SM computes one after the other.
    pub waves: u32,
    /// Bytes read from and written to memory.
    pub memory_bytes: f64,
    /// Bytes fetched from the L2 cache for tiles.
    pub l2_bytes: f64,
    /// Seconds of MMA on the busiest SM. This time and the next three are parts of `busy_s`.
    pub mma_s: f64,
    /// Seconds the busiest SM spends fetching tiles from the L2 cache, at the same time as `mma_s`.
    pub l2_s: f64,
    /// Seconds of writing D during which nothing is multiplied.
    pub store_s: f64,
    /// Seconds of summing partial accumulators (split-K, stream-K).
    pub fix_up_s: f64,
    /// Seconds of repacking misaligned operands before the GEMM.
    pub copies_s: f64,
}

impl Prediction {
    /// Returns the name of the longest of the times that overlap, which limits the launch:
    /// `busiest SM`, `memory`, `L2 cache` or `energy`.
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
        // `max_by` returns the last of equal values, hence `rev`.
        let longest = times.into_iter().rev().max_by(|a, b| a.0.total_cmp(&b.0));
        longest.map_or("busiest SM", |(_, name)| name)
    }
}
