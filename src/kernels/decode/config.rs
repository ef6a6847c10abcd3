//! [`DecodeConfig`]: the target, head dimension, warps and stages for which a decode kernel is
//! built. `new` has good defaults, `candidates` lists what a tuner should try.

use std::fmt;

use crate::ir::Target;

use super::error::DecodeError;

/// Rows, (query, head), per thread block: the M of one MMA instruction.
pub(super) const ROWS: u32 = 16;
/// Keys that a warp processes per step.
pub(super) const KEYS: u32 = 16;
/// The base-2 logarithm of the most tokens that a page can have.
pub(super) const MAX_PAGE_BITS: u32 = 20;
/// Bytes per element.
const BYTES: u32 = 2;
/// Padding between rows in shared memory, in elements. Rows are then an odd number of 16-byte units
/// apart, so `ldmatrix` has no bank conflicts, and every address is one register plus an immediate
/// offset.
const PADDING: u32 = 8;

/// The parameters that are fixed when a [`Decode`](super::Decode) kernel is built. Get one from
/// [`new`](DecodeConfig::new), or measure the [`candidates`](DecodeConfig::candidates), and pass it
/// to [`Decode::new`](super::Decode::new). `head_dim` must match the problem; `warps` and `stages`
/// affect only the speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeConfig {
    /// The target to build for, `sm_80` or newer.
    pub target: Target,
    /// The dimension of queries, keys and values: 64, 96, 128 or 256.
    pub head_dim: u32,
    /// Warps per thread block: 1, 2 or 4. Each warp processes every `warps`-th group of 16 keys.
    pub warps: u32,
    /// Stages of each warp's ring buffer, each with 16 keys and 16 values. More stages keep more
    /// bytes in flight, which decoding needs because it is bound by memory latency and bandwidth.
    pub stages: u32,
}

impl DecodeConfig {
    /// Chooses the configuration for a head dimension, with as many stages as fit into shared
    /// memory. For head dimensions up to 96, three thread blocks share an SM. For larger ones, two
    /// blocks share an SM if each then has at least 3 stages; otherwise a block has the SM for
    /// itself. Use it unless you measure the [`candidates`](DecodeConfig::candidates).
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::decode::DecodeConfig;
    ///
    /// let config = DecodeConfig::new(Target::SM_90A, 128)?;
    /// assert_eq!((config.warps, config.stages), (4, 3));
    /// assert_eq!(config.bytes_in_flight(), 64 << 10);
    /// # Ok::<(), tilewright::kernels::decode::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`check`](DecodeConfig::check).
    #[inline]
    pub fn new(target: Target, head_dim: u32) -> Result<Self, DecodeError> {
        let with = |warps, blocks| Self::filling(target, head_dim, [warps, blocks]);
        let small = with(4, 3);
        if head_dim <= 96 && small.check().is_ok() {
            return Ok(small);
        }
        let all = [4, 2, 1].into_iter().flat_map(|warps| [2, 1].map(|blocks| with(warps, blocks)));
        let config = all.clone().find(|config| config.stages >= 3).unwrap_or(with(1, 1));
        config.check()?;
        Ok(config)
    }

    /// Returns configurations worth measuring for a head dimension. The choice of
    /// [`new`](DecodeConfig::new) comes first. The other configurations have 1, 2 or 4 warps, and
    /// as many stages as fit if 1 to 8 thread blocks share an SM.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::decode::DecodeConfig;
    ///
    /// let all = DecodeConfig::candidates(Target::SM_90A, 128);
    /// let names: Vec<String> = all.iter().take(4).map(|config| config.to_string()).collect();
    /// assert_eq!(names, ["d128_w4_s3", "d128_w4_s6", "d128_w4_s2", "d128_w2_s8"]);
    /// assert!(all.iter().all(|config| config.check().is_ok()));
    /// ```
    #[inline]
    pub fn candidates(target: Target, head_dim: u32) -> Vec<Self> {
        let mut found = Vec::from_iter(Self::new(target, head_dim));
        for warps in [4, 2, 1] {
            for blocks in [1, 2, 3, 4, 6, 8] {
                let config = Self::filling(target, head_dim, [warps, blocks]);
                if config.check().is_ok() && !found.contains(&config) {
                    found.push(config);
                }
            }
        }
        found
    }

    /// Returns the configuration with the most stages, up to 8, that still lets `blocks` thread
    /// blocks share an SM.
    #[inline]
    fn filling(target: Target, head_dim: u32, [warps, blocks]: [u32; 2]) -> Self {
        // The driver reserves 1 KiB per block on top of what the block asks for.
        let available = (target.max_shared_bytes() + 1024) / u64::from(blocks) - 1024;
        let config = DecodeConfig { target, head_dim, warps, stages: 0 };
        let ring = available.saturating_sub(config.shared_bytes());
        let stages = ring / u64::from(config.stage_elements() * warps * BYTES).max(1);
        DecodeConfig { stages: stages.min(8) as u32, ..config }
    }

    /// Returns the threads per block, for example to compute the kernel's occupancy.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Returns the elements from one row to the next in shared memory.
    pub(super) fn pitch(&self) -> u32 {
        self.head_dim + PADDING
    }

    /// Returns the elements in a warp's stage.
    pub(super) fn stage_elements(&self) -> u32 {
        2 * KEYS * self.pitch()
    }

    /// Returns how many columns of an output row a lane has, once the warps have divided the
    /// columns.
    pub(super) fn share_columns(&self) -> u32 {
        self.head_dim / 4 / self.warps
    }

    /// Returns the `f32` values in a warp's share of a partial result. Each of the 32 lanes has
    /// some columns of two rows, and for each row the maximum of the scores and the lane's sum of
    /// exponentials.
    pub(super) fn share_numbers(&self) -> u32 {
        32 * 2 * (self.share_columns() + 2)
    }

    /// Returns how many partial results a lane can load ahead before it runs out of registers.
    pub(super) fn parts_ahead(&self) -> u32 {
        96 * 32 / self.share_numbers()
    }

    /// Returns how many bytes of keys and values a thread block has in flight while it computes one
    /// stage. Use it to compare configurations: the loop is bound by memory latency and bandwidth.
    pub fn bytes_in_flight(&self) -> u64 {
        let of_stage = self.warps * 2 * KEYS * self.head_dim * BYTES;
        u64::from(of_stage) * u64::from(self.stages.saturating_sub(1))
    }

    /// Returns the shared memory per block, in bytes. Use it to see how many blocks fit on an SM.
    pub fn shared_bytes(&self) -> u64 {
        let rings = u64::from(self.stages) * u64::from(self.warps * self.stage_elements());
        (rings + u64::from(ROWS * self.pitch())) * u64::from(BYTES)
    }

    /// Checks that a kernel exists for this configuration. Call it after you have changed a field;
    /// [`Decode::new`](super::Decode::new) calls it too.
    ///
    /// # Errors
    /// [`DecodeError::Target`], [`DecodeError::HeadDim`], [`DecodeError::Ring`],
    /// [`DecodeError::SharedMemory`].
    #[inline]
    pub fn check(&self) -> Result<(), DecodeError> {
        let DecodeConfig { target, head_dim, warps, stages } = *self;
        if !target.offers(Target::SM_80) {
            return Err(DecodeError::Target { target });
        }
        if ![64, 96, 128, 256].contains(&head_dim) {
            return Err(DecodeError::HeadDim { found: head_dim });
        }
        if ![1, 2, 4].contains(&warps) || !(2..=64).contains(&stages) {
            return Err(DecodeError::Ring { warps, stages });
        }
        let (needed, available) = (self.shared_bytes(), target.max_shared_bytes());
        if needed > available {
            return Err(DecodeError::SharedMemory { needed, available });
        }
        Ok(())
    }
}

/// Prints the configuration's name: `d128_w4_s3`.
impl fmt::Display for DecodeConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeConfig { head_dim, warps, stages, .. } = *self;
        write!(f, "d{head_dim}_w{warps}_s{stages}")
    }
}
