//! [`AttentionConfig`]: the tile, the stages and the features of a kernel.

use std::fmt;

use crate::ir::Target;

use super::error::AttentionError;
use super::problem::AttentionProblem;

/// Threads of a warp group.
pub(super) const GROUP: u32 = 128;
/// Rows of queries of a consumer group.
pub(super) const ROWS: u32 = 64;
/// Bytes of an element.
const BYTES: u32 = 2;

/// The part of a softmax that surely runs while the powers of the step before are multiplied with V. `ptxas` moves the
/// wait for that product upwards as far as it can; another wait in front of it, which is already over, holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SoftmaxOverlap {
    /// As much as `ptxas` leaves.
    Free,
    /// The maxima of rows.
    Maxima,
    /// Maxima and powers.
    Softmax,
}

impl SoftmaxOverlap {
    /// All of them.
    pub const ALL: [SoftmaxOverlap; 3] =
        [SoftmaxOverlap::Free, SoftmaxOverlap::Maxima, SoftmaxOverlap::Softmax];
}

/// The configuration of an [`Attention`](super::Attention).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionConfig {
    /// The target, `sm_90a`.
    pub target: Target,
    /// The dimension of queries and keys: a multiple of 32, at most 256.
    pub head_dim: u32,
    /// The dimension of values and of the output: a multiple of 32, at most `head_dim`.
    pub value_dim: u32,
    /// The queries and the keys of a tile: 64 queries for each of 1 to 3 consumer groups, and a multiple of 16 keys.
    pub tile: [u32; 2],
    /// The stages of the rings of K and of V.
    pub stages: u32,
    /// Queries see a bounded number of earlier keys.
    pub left: bool,
    /// Queries see a bounded number of later keys, none if causal.
    pub right: bool,
    /// Scores are bounded by a softcap.
    pub softcap: bool,
    /// The consumer groups alternate in starting products, so that one multiplies while the others compute powers.
    pub ordered: bool,
    /// The softmax under the product with V.
    pub overlap: SoftmaxOverlap,
}

impl AttentionConfig {
    /// The configuration for a problem.
    ///
    /// # Errors
    /// Those of [`check`](AttentionConfig::check).
    pub fn new(target: Target, problem: &AttentionProblem) -> Result<Self, AttentionError> {
        let AttentionProblem { head_dim, value_dim, left, right, .. } = *problem;
        let masked = left.is_some() || right.is_some();
        // More keys in a tile are fewer rescaled outputs, and more masked scores at a diagonal.
        let tile = match (head_dim, problem.keys) {
            (..=64, _) => [192, 128],
            (128, 8192..) if !masked => [128, 176],
            (128, 8192..) => [128, 160],
            (128, 4096..) if !masked => [128, 160],
            (..=128, _) => [128, 128],
            (..=192, _) => [128, if value_dim <= 128 { 112 } else { 96 }],
            _ => [128, 80],
        };
        let config = AttentionConfig {
            target,
            head_dim,
            value_dim,
            tile,
            stages: 2,
            left: left.is_some(),
            right: right.is_some(),
            softcap: problem.softcap.is_some(),
            ordered: true,
            overlap: SoftmaxOverlap::Maxima,
        };
        config.check()?;
        Ok(config)
    }

    /// Returns the consumer warp groups.
    pub fn groups(&self) -> u32 {
        self.tile[0] / ROWS
    }

    /// Returns the threads of a block.
    pub fn threads(&self) -> u32 {
        (self.groups() + 1) * GROUP
    }

    /// Registers of a thread of the producer and of a consumer.
    pub(super) fn registers(&self) -> [u32; 2] {
        match self.groups() {
            3 => [32, 160],
            _ => [24, 240],
        }
    }

    /// Registers of a thread when the kernel starts.
    pub(super) fn entry_registers(&self) -> u32 {
        (65536 / self.threads()).min(255) / 8 * 8
    }

    /// Returns the stages of the ring of Q: 2 where they fit, so that the next tile of queries is fetched early.
    pub fn query_stages(&self) -> u32 {
        if self.shared_bytes_with(2) <= self.target.max_shared_bytes() { 2 } else { 1 }
    }

    /// Returns the bytes of shared memory of a block.
    pub fn shared_bytes(&self) -> u64 {
        self.shared_bytes_with(self.query_stages())
    }

    fn shared_bytes_with(&self, query_stages: u32) -> u64 {
        let AttentionConfig { head_dim, value_dim, tile: [rows, columns], stages, .. } = *self;
        let elements = u64::from(query_stages) * u64::from(rows) * u64::from(head_dim)
            + u64::from(stages) * u64::from(columns) * u64::from(head_dim + value_dim);
        // Barriers, the numbers of work items, alignment.
        elements * u64::from(BYTES) + 512
    }

    /// Checks that there is such a kernel.
    ///
    /// # Errors
    /// [`AttentionError::Target`], [`AttentionError::HeadDim`], [`AttentionError::Tile`],
    /// [`AttentionError::Accumulators`], [`AttentionError::SharedMemory`].
    pub fn check(&self) -> Result<(), AttentionError> {
        let AttentionConfig { target, head_dim, value_dim, tile: [rows, columns], .. } = *self;
        if !target.offers(Target::SM_90A) {
            return Err(AttentionError::Target { target });
        }
        for (which, found) in [("head", head_dim), ("value", value_dim)] {
            if found == 0 || !found.is_multiple_of(32) || found > 256 {
                let rule = "it must be a multiple of 32 from 32 to 256";
                return Err(AttentionError::HeadDim { which, found, rule });
            }
        }
        if value_dim > head_dim || swizzle_of(value_dim) < swizzle_of(head_dim) {
            let rule = "it must be at most the head dimension, and a multiple of 64 if that is one";
            return Err(AttentionError::HeadDim { which: "value", found: value_dim, rule });
        }
        let tile = |rule| Err(AttentionError::Tile { rows, columns, rule });
        if ![64, 128, 192].contains(&rows) {
            return tile("it has 64, 128 or 192 queries");
        }
        if columns == 0 || !columns.is_multiple_of(16) || columns > 256 {
            return tile("it has a multiple of 16 keys, at most 256");
        }
        if !(1..=8).contains(&self.stages) {
            return tile("the rings have 1 to 8 stages");
        }
        // Scores, powers in pairs and the output.
        let (needed, most) = (columns / 2 + columns / 4 + value_dim / 2, self.registers()[1] - 24);
        if needed > most {
            return Err(AttentionError::Accumulators { needed, most });
        }
        let (needed, available) = (self.shared_bytes(), target.max_shared_bytes());
        if needed > available {
            return Err(AttentionError::SharedMemory { needed, available });
        }
        Ok(())
    }

    /// Checks that the kernel takes a problem.
    ///
    /// # Errors
    /// Those of [`AttentionProblem::check`]; [`AttentionError::Feature`], [`AttentionError::HeadDim`].
    pub fn check_problem(&self, problem: &AttentionProblem) -> Result<(), AttentionError> {
        problem.check()?;
        let features = [
            ("a bounded window before a query", self.left, problem.left.is_some()),
            ("a bounded window after a query", self.right, problem.right.is_some()),
            ("a softcap", self.softcap, problem.softcap.is_some()),
        ];
        for (what, has, needs) in features {
            match (has, needs) {
                (true, false) => {
                    let what = "no bound";
                    return Err(AttentionError::Feature { what, with: "with" });
                }
                (false, true) => return Err(AttentionError::Feature { what, with: "without" }),
                _ => {}
            }
        }
        let dims = [
            ("head", self.head_dim, problem.head_dim),
            ("value", self.value_dim, problem.value_dim),
        ];
        for (which, own, found) in dims {
            if own != found {
                let rule = "the kernel is for another one";
                return Err(AttentionError::HeadDim { which, found, rule });
            }
        }
        Ok(())
    }
}

/// Returns the elements of a row of the swizzle of a dimension.
pub(super) fn swizzle_of(dim: u32) -> u32 {
    if dim.is_multiple_of(64) { 64 } else { 32 }
}

/// The name of the configuration: `d128_128x176_s2`, `d192x128_128x112_s2_causal`.
impl fmt::Display for AttentionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionConfig { head_dim, value_dim, tile: [rows, columns], stages, .. } = *self;
        write!(f, "d{head_dim}")?;
        if value_dim != head_dim {
            write!(f, "x{value_dim}")?;
        }
        write!(f, "_{rows}x{columns}_s{stages}")?;
        let features = [
            ("_left", self.left),
            ("_right", self.right),
            ("_softcap", self.softcap),
            ("_unordered", !self.ordered),
            ("_free", self.overlap == SoftmaxOverlap::Free),
            ("_softmax", self.overlap == SoftmaxOverlap::Softmax),
        ];
        features.iter().filter(|(_, has)| *has).try_for_each(|(name, _)| f.write_str(name))
    }
}
