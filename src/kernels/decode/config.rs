//! [`DecodeConfig`]: the warps and the stages of a kernel.

use std::fmt;

use crate::ir::Target;

use super::error::DecodeError;

/// Rows of queries of a thread block: those of an instruction.
pub(super) const ROWS: u32 = 16;
/// Keys of a step of a warp.
pub(super) const KEYS: u32 = 16;
/// Bytes of an element.
const BYTES: u32 = 2;
/// Elements between rows in shared memory. With them rows are an odd number of 16-byte units apart, so `ldmatrix` has no bank
/// conflicts and every address is one register and an immediate offset.
const PADDING: u32 = 8;

/// The configuration of a [`Decode`](super::Decode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeConfig {
    /// The target, `sm_80` or newer.
    pub target: Target,
    /// The dimension of queries, keys and values: 64, 96, 128 or 256.
    pub head_dim: u32,
    /// The warps of a thread block: 1, 2 or 4. Each takes every `warps`-th 16 keys.
    pub warps: u32,
    /// The stages of the ring of each warp: 16 keys and 16 values each.
    pub stages: u32,
}

impl DecodeConfig {
    /// The configuration for a head dimension: as many stages as shared memory has, for three thread blocks on an SM with up to
    /// 96 elements in a head; else for two if each has at least 3 stages, else for one.
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

    /// Returns configurations to choose from for a head dimension, the one of [`new`](DecodeConfig::new) first: 1, 2 or 4
    /// warps, and as many stages as shared memory has for 1 to 8 thread blocks on an SM.
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

    /// Returns the configuration with the most stages, up to 8, for which an SM has room for `blocks` thread blocks.
    #[inline]
    fn filling(target: Target, head_dim: u32, [warps, blocks]: [u32; 2]) -> Self {
        // An SM has 1 KiB for each block beside what the block asks for.
        let available = (target.max_shared_bytes() + 1024) / u64::from(blocks) - 1024;
        let config = DecodeConfig { target, head_dim, warps, stages: 0 };
        let ring = available.saturating_sub(config.shared_bytes());
        let stages = ring / u64::from(config.stage_elements() * warps * BYTES).max(1);
        DecodeConfig { stages: stages.min(8) as u32, ..config }
    }

    /// Returns the threads of a block.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Returns the elements between rows in shared memory.
    pub(super) fn pitch(&self) -> u32 {
        self.head_dim + PADDING
    }

    /// Returns the elements of a stage of a warp.
    pub(super) fn stage_elements(&self) -> u32 {
        2 * KEYS * self.pitch()
    }

    /// Returns the columns of a row of the output that a lane has where the warps share the columns.
    pub(super) fn share_columns(&self) -> u32 {
        self.head_dim / 4 / self.warps
    }

    /// Returns the numbers of a warp's share of a partial result: of 32 lanes the columns of two rows, each with the maximum of
    /// the scores and the lane's sum of powers.
    pub(super) fn share_numbers(&self) -> u32 {
        32 * 2 * (self.share_columns() + 2)
    }

    /// Returns the number of partial results that a lane loads ahead: as many as registers hold.
    pub(super) fn parts_ahead(&self) -> u32 {
        96 * 32 / self.share_numbers()
    }

    /// Returns the bytes of keys and values that a thread block has in flight.
    pub fn bytes_in_flight(&self) -> u64 {
        let of_stage = self.warps * 2 * KEYS * self.head_dim * BYTES;
        u64::from(of_stage) * u64::from(self.stages.saturating_sub(1))
    }

    /// Returns the bytes of shared memory of a block.
    pub fn shared_bytes(&self) -> u64 {
        let rings = u64::from(self.stages) * u64::from(self.warps * self.stage_elements());
        (rings + u64::from(ROWS * self.pitch())) * u64::from(BYTES)
    }

    /// Checks that there is such a kernel.
    ///
    /// # Errors
    /// [`DecodeError::Target`], [`DecodeError::HeadDim`], [`DecodeError::Ring`], [`DecodeError::SharedMemory`].
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

/// The name of the configuration: `d128_w4_s3`.
impl fmt::Display for DecodeConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeConfig { head_dim, warps, stages, .. } = *self;
        write!(f, "d{head_dim}_w{warps}_s{stages}")
    }
}
