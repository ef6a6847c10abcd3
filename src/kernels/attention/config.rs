//! [`AttentionConfig`]: the tile, the stages and the features of a kernel.

use std::fmt;

use crate::ir::Target;
use crate::sorting::sort_by_key;

use super::error::AttentionError;
use super::problem::AttentionProblem;

/// Threads of a warp group.
pub(super) const GROUP: u32 = 128;
/// Rows of queries of a consumer group.
pub(super) const ROWS: u32 = 64;
/// Threads of a warp.
const WARP: u32 = 32;
/// Bytes of an element.
const BYTES: u32 = 2;
/// Stages of the ring of a consumer group's output.
pub(super) const OUTPUT_STAGES: u32 = 2;

/// The way of a consumer group's output to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Staging {
    /// Threads write rows: sequences of different lengths cut tiles, or shared memory has no room for a ring.
    Rows,
    /// Through the group's tile of Q: the next tile of Q has another stage.
    Queries,
    /// Parts of the output through a ring: the only tile of Q is released after the last scores.
    Ring,
}

/// The division of work among the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionSchedule {
    /// `wgmma`: a warp group fetches tiles by tensor copies, others have 64 queries of a tile each. `sm_90a`.
    WarpSpecialized,
    /// `mma.sync`: all warps fetch tiles by `cp.async`, and each has 16 or 32 queries of a tile. Every target.
    Multistage {
        /// The warps of a block: 4 or 8.
        warps: u32,
    },
}

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
    /// The target.
    pub target: Target,
    /// The division of work among the threads.
    pub schedule: AttentionSchedule,
    /// The dimension of queries and keys: a multiple of 32, at most 256.
    pub head_dim: u32,
    /// The dimension of values and of the output: a multiple of 32, at most 256. With `WarpSpecialized` it is at most
    /// `head_dim`, and a multiple of 64 if that is one.
    pub value_dim: u32,
    /// The queries and the keys of a tile: 64 queries for each of 1 to 3 consumer groups or 16 or 32 for each warp, and a
    /// multiple of 16 keys.
    pub tile: [u32; 2],
    /// The stages of the rings of K and of V.
    pub stages: u32,
    /// Queries see a bounded number of earlier keys.
    pub left: bool,
    /// Queries see a bounded number of later keys, none if causal.
    pub right: bool,
    /// Scores are bounded by a softcap.
    pub softcap: bool,
    /// The consumer groups alternate in starting products, so that one multiplies while the others compute powers. Of
    /// `WarpSpecialized` alone, as `overlap` is.
    pub ordered: bool,
    /// The softmax under the product with V.
    pub overlap: SoftmaxOverlap,
    /// The output is rescaled only when a score exceeds the base of the powers by more than 8 powers of two
    /// ([`OnlineSoftmax::maxima`](crate::tensor::OnlineSoftmax::maxima)), instead of for each tile of keys.
    pub lazy: bool,
    /// The sequences have different lengths.
    pub varlen: bool,
    /// The heads of queries whose rows share a tile: 1, or all that share a head of keys, a divisor of 64. Short queries fill a
    /// tile that way.
    pub packed_heads: u32,
}

impl AttentionConfig {
    /// The configuration for a problem: `wgmma` for `sm_90a`, and [`sm80`](AttentionConfig::sm80) for other targets and for values
    /// of a dimension that `wgmma` does not take.
    ///
    /// # Errors
    /// Those of [`check`](AttentionConfig::check).
    #[inline]
    pub fn new(target: Target, problem: &AttentionProblem) -> Result<Self, AttentionError> {
        if !target.offers(Target::SM_90A) {
            return Self::sm80(target, problem);
        }
        let AttentionProblem { head_dim, value_dim, left, right, .. } = *problem;
        // Of sequences of different lengths, the mean.
        let [queries, keys] =
            [problem.queries, problem.keys].map(|positions| positions / problem.sequences());
        let (masked, fills) = (left.is_some() || right.is_some(), queries >= 1024);
        // More keys in a tile are fewer rescaled outputs, and more masked scores at a diagonal. Three groups with fewer keys read K
        // and V less often than two.
        let tile = match head_dim {
            ..=64 if masked && keys <= 4096 => [128, 128],
            ..=64 => [192, 128],
            ..=96 if fills && keys >= 4096 => [192, 96],
            ..=192 if fills && keys >= 2048 && !masked && value_dim <= 128 => [192, 80],
            ..=128 if keys >= 8192 => [128, 160],
            65..=128 => [128, 128],
            129..=192 => [128, 96],
            _ => [128, 64],
        };
        // Ordered groups are faster with few dimensions, unless a mask leaves few tiles of keys. With more dimensions they are slower:
        // most kernels start the first scores of the next item early.
        let ordered = head_dim <= 64 && tile[0] == 192;
        let config = AttentionConfig {
            target,
            schedule: AttentionSchedule::WarpSpecialized,
            head_dim,
            value_dim,
            tile,
            stages: 2,
            left: left.is_some(),
            right: right.is_some(),
            softcap: problem.softcap.is_some(),
            ordered,
            overlap: SoftmaxOverlap::Maxima,
            lazy: head_dim > 64 || ordered,
            varlen: problem.varlen,
            packed_heads: problem.packed_heads(tile[0]),
        };
        // A third stage, where two tiles of queries leave memory for it.
        let deeper = AttentionConfig { stages: 3, ..config };
        let config = if deeper.query_stages() == 2 { deeper } else { config };
        match config.check() {
            Err(AttentionError::HeadDim { which: "value", .. }) => Self::sm80(target, problem),
            checked => checked.map(|()| config),
        }
    }

    /// The configuration for a problem with `mma.sync`, which every target has.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::attention::{AttentionConfig, AttentionProblem};
    ///
    /// let problem = AttentionProblem::new([1, 8, 8], [256, 256], 128).causal();
    /// let config = AttentionConfig::sm80(Target::SM_80, &problem)?;
    /// assert_eq!(config.to_string(), "d128_128x32_s3_right_lazy_warps4");
    /// assert_eq!(AttentionConfig::new(Target::SM_80, &problem)?, config);
    /// # Ok::<(), tilewright::kernels::attention::AttentionError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`check`](AttentionConfig::check).
    #[inline]
    pub fn sm80(target: Target, problem: &AttentionProblem) -> Result<Self, AttentionError> {
        let AttentionProblem { head_dim, value_dim, left, right, .. } = *problem;
        // More than 192 registers of scores and output leave too few for operands and addresses. With 192, d = 128, `ptxas`
        // spills 12 bytes for sm_90a, and an H200 is still 1.17 times as fast as with half as many keys.
        // A warp with 32 queries loads half as much from shared memory for each product as one with 16, and needs the
        // registers of twice the output. Blocks of 4 warps come in pairs.
        let (warps, blocks) = if head_dim.max(value_dim) > 128 { (8, 1) } else { (4, 2) };
        // An output of 64 dimensions is rescaled as fast as tested.
        let config = AttentionConfig {
            target,
            schedule: AttentionSchedule::Multistage { warps: 4 },
            head_dim,
            value_dim,
            tile: [64, 32],
            stages: 2,
            left: left.is_some(),
            right: right.is_some(),
            softcap: problem.softcap.is_some(),
            ordered: false,
            overlap: SoftmaxOverlap::Free,
            lazy: head_dim > 64,
            varlen: problem.varlen,
            packed_heads: 1,
        };
        config.check()?;
        // What the driver takes of each block.
        const RESERVED: u64 = 1 << 10;
        let fits = |config: &Self| {
            let available = (target.max_shared_bytes() + RESERVED) / blocks;
            let has_registers = config.accumulators(warps) <= 192;
            let has_memory = config.shared_bytes() + RESERVED <= available;
            has_registers && has_memory && config.check().is_ok()
        };
        let schedule = AttentionSchedule::Multistage { warps };
        let form = |(columns, stages)| AttentionConfig {
            tile: [128, columns],
            stages,
            schedule,
            ..config
        };
        let forms = [(64, 3), (64, 2), (32, 3), (32, 2)].map(form);
        let config = forms.into_iter().find(fits).unwrap_or(config);
        let config =
            AttentionConfig { packed_heads: problem.packed_heads(config.tile[0]), ..config };
        config.check()?;
        Ok(config)
    }

    /// Returns configurations to choose from for a problem, the one of [`new`](AttentionConfig::new) first: for `sm_90a` other
    /// overlaps and orders of its tile, then other tiles, the nearest in size first, each with 2 and with 3 stages; at last `mma.sync`, which
    /// other targets have alone. All pass [`check`](AttentionConfig::check), and `ptxas` spills no registers of any but the
    /// first.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::attention::{AttentionConfig, AttentionProblem};
    ///
    /// let problem = AttentionProblem::new([4, 32, 8], [4096, 4096], 128).causal();
    /// let all = AttentionConfig::candidates(Target::SM_90A, &problem);
    /// assert_eq!(all[0], AttentionConfig::new(Target::SM_90A, &problem)?);
    /// assert_eq!(all[1].to_string(), "d128_128x128_s2_right_free_lazy");
    /// assert!(all.iter().all(|config| config.check_problem(&problem).is_ok()));
    /// # Ok::<(), tilewright::kernels::attention::AttentionError>(())
    /// ```
    #[inline]
    pub fn candidates(target: Target, problem: &AttentionProblem) -> Vec<Self> {
        let Ok(first) = Self::new(target, problem) else { return Vec::new() };
        let mut all = vec![first];
        let shared = problem.heads.checked_div(problem.key_heads).unwrap_or(1);
        let packed_heads = if first.packed_heads > 1 { 1 } else { shared };
        let packed = AttentionConfig { packed_heads, ..first };
        if first.is_specialized() {
            let with = |ordered| {
                SoftmaxOverlap::ALL.map(|overlap| AttentionConfig { ordered, overlap, ..first })
            };
            all.extend([first.ordered, !first.ordered].into_iter().flat_map(with));
            all.push(AttentionConfig { lazy: !first.lazy, ..first });
            all.push(packed);
            let columns = (4..=16).map(|sixteens| 16 * sixteens);
            let tiles = columns.flat_map(|columns| [64, 128, 192].map(|rows| [rows, columns]));
            let mut tiles: Vec<[u32; 2]> = tiles.collect();
            let area = |[rows, columns]: [u32; 2]| rows * columns;
            sort_by_key(&mut tiles, |tile| area(*tile).abs_diff(area(first.tile)));
            // Three stages go with the tiles that leave memory for them.
            for stages in [2, 3] {
                all.extend(tiles.iter().map(|tile| AttentionConfig {
                    tile: *tile,
                    stages,
                    ..first
                }));
            }
        } else {
            all.push(packed);
        }
        if let Ok(base) = Self::sm80(target, problem) {
            for (warps, queries) in [(4, 32), (8, 16), (4, 16), (8, 32)] {
                let schedule = AttentionSchedule::Multistage { warps };
                for (columns, stages) in [(64, 2), (32, 2), (64, 3), (32, 3), (128, 2)] {
                    let tile = [warps * queries, columns];
                    all.push(AttentionConfig { schedule, tile, stages, ..base });
                }
            }
        }
        let mut kept: Vec<Self> = Vec::new();
        for config in all {
            let is_first = config == first;
            let possible = config.check().is_ok() && (is_first || config.has_spare_registers());
            if possible && !kept.contains(&config) {
                kept.push(config);
            }
        }
        kept
    }

    /// Returns true if `ptxas` spills no registers for any mask: with `wgmma` from 8 registers below the bound of
    /// [`check`](AttentionConfig::check) on.
    #[inline]
    fn has_spare_registers(&self) -> bool {
        match self.schedule {
            AttentionSchedule::WarpSpecialized => self.fragments() + 8 <= self.registers()[1] - 24,
            AttentionSchedule::Multistage { warps: 4 } => self.accumulators(4) <= 160,
            AttentionSchedule::Multistage { warps } => self.accumulators(warps) < 160,
        }
    }

    fn is_specialized(&self) -> bool {
        self.schedule == AttentionSchedule::WarpSpecialized
    }

    /// Returns the consumer warp groups.
    pub fn groups(&self) -> u32 {
        self.tile[0] / ROWS
    }

    /// Returns the queries of a tile, each in all heads that share the tile.
    #[inline]
    pub fn queries_of_tile(&self) -> u32 {
        self.tile[0] / self.packed_heads.max(1)
    }

    /// Returns the queries of a consumer group.
    #[inline]
    pub(super) fn queries_of_group(&self) -> u32 {
        ROWS / self.packed_heads.max(1)
    }

    /// Returns the threads of a block.
    pub fn threads(&self) -> u32 {
        match self.schedule {
            AttentionSchedule::WarpSpecialized => (self.groups() + 1).saturating_mul(GROUP),
            AttentionSchedule::Multistage { warps } => warps.saturating_mul(WARP),
        }
    }

    /// Registers of a thread of the producer and of a consumer.
    pub(super) fn registers(&self) -> [u32; 2] {
        match self.groups() {
            3 => [32, 160],
            _ => [24, 240],
        }
    }

    /// Registers of a thread when the kernel starts.
    #[inline]
    pub(super) fn entry_registers(&self) -> u32 {
        (65536 / self.threads()).min(255) / 8 * 8
    }

    /// Returns the stages of the ring of Q: with `WarpSpecialized` 2 where they fit, so that the next tile of queries is fetched early.
    #[inline]
    pub fn query_stages(&self) -> u32 {
        let fits = self.shared_bytes_with(2) <= self.target.max_shared_bytes();
        if self.is_specialized() && fits { 2 } else { 1 }
    }

    /// Returns true if the first scores of the next item are multiplied while the output of an item is written: where
    /// products are long enough to hide the store.
    #[inline]
    pub(super) fn scores_ahead(&self) -> bool {
        self.head_dim > 64
    }

    /// Returns the way of the output with `WarpSpecialized`.
    #[inline]
    pub(super) fn staging(&self) -> Staging {
        if self.varlen {
            Staging::Rows
        } else if self.query_stages() == 2 {
            Staging::Queries
        } else if self.shared_bytes_with(1) + self.ring_bytes() <= self.target.max_shared_bytes() {
            Staging::Ring
        } else {
            Staging::Rows
        }
    }

    /// Returns the bytes of the rings of all groups.
    fn ring_bytes(&self) -> u64 {
        u64::from(OUTPUT_STAGES * self.tile[0]) * u64::from(swizzle_of(self.value_dim) * BYTES)
    }

    /// Returns the bytes of shared memory of a block.
    #[inline]
    pub fn shared_bytes(&self) -> u64 {
        let has_ring = self.is_specialized() && self.staging() == Staging::Ring;
        let ring = if has_ring { self.ring_bytes() } else { 0 };
        self.shared_bytes_with(self.query_stages()) + ring
    }

    fn shared_bytes_with(&self, query_stages: u32) -> u64 {
        let AttentionConfig { head_dim, value_dim, tile: [rows, columns], stages, .. } = *self;
        let product = |factors: [u32; 3]| {
            factors.into_iter().fold(u64::from(BYTES), |bytes, n| bytes.saturating_mul(n.into()))
        };
        let tiles = [
            [query_stages, rows, head_dim],
            [stages, columns, head_dim],
            [stages, columns, value_dim],
        ];
        // Barriers, the numbers of work items, alignment.
        tiles.into_iter().fold(512, |bytes, tile| bytes.saturating_add(product(tile)))
    }

    /// Checks that there is such a kernel.
    ///
    /// # Errors
    /// [`AttentionError::Target`], [`AttentionError::HeadDim`], [`AttentionError::Tile`],
    /// [`AttentionError::Accumulators`], [`AttentionError::SharedMemory`].
    #[inline]
    pub fn check(&self) -> Result<(), AttentionError> {
        let AttentionConfig { target, head_dim, value_dim, tile: [rows, columns], .. } = *self;
        let needed = match self.schedule {
            AttentionSchedule::WarpSpecialized => Target::SM_90A,
            AttentionSchedule::Multistage { .. } => Target::SM_80,
        };
        if !target.offers(needed) {
            return Err(AttentionError::Target { needed, target });
        }
        for (which, found) in [("head", head_dim), ("value", value_dim)] {
            if found == 0 || !found.is_multiple_of(32) || found > 256 {
                let rule = "it must be a multiple of 32 from 32 to 256";
                return Err(AttentionError::HeadDim { which, found, rule });
            }
        }
        let tile = |rule| Err(AttentionError::Tile { rows, columns, rule });
        if columns == 0 || !columns.is_multiple_of(16) || columns > 256 {
            return tile("it has a multiple of 16 keys, at most 256");
        }
        if !(1..=8).contains(&self.stages) {
            return tile("the rings have 1 to 8 stages");
        }
        if self.packed_heads == 0 || !ROWS.is_multiple_of(self.packed_heads) {
            return tile("the heads that share it divide 64");
        }
        let (needed, max) = match self.schedule {
            AttentionSchedule::WarpSpecialized => {
                if value_dim > head_dim || swizzle_of(value_dim) < swizzle_of(head_dim) {
                    let rule = "it must be at most the head dimension, and a multiple of 64 if that is one";
                    return Err(AttentionError::HeadDim { which: "value", found: value_dim, rule });
                }
                if ![64, 128, 192].contains(&rows) {
                    return tile("it has 64, 128 or 192 queries");
                }
                (self.fragments(), self.registers()[1] - 24)
            }
            AttentionSchedule::Multistage { warps } => {
                if self.stages < 2 {
                    return tile("the rings have 2 to 8 stages");
                }
                if ![4, 8].contains(&warps) {
                    return tile("it is for 4 or 8 warps");
                }
                if ![16, 32].contains(&(rows / warps)) || !rows.is_multiple_of(16 * warps) {
                    return tile("it has 16 or 32 queries for each warp");
                }
                // A thread copies 16 bytes of each line of a dimension.
                let shared_by = |dim| columns.is_multiple_of(self.threads() * 8 / swizzle_of(dim));
                if !shared_by(head_dim) || !shared_by(value_dim) {
                    return tile("the threads do not share the keys evenly");
                }
                (self.accumulators(warps), 208)
            }
        };
        if needed > max {
            return Err(AttentionError::Accumulators { needed, max });
        }
        let (needed, available) = (self.shared_bytes(), target.max_shared_bytes());
        if needed > available {
            return Err(AttentionError::SharedMemory { needed, available });
        }
        Ok(())
    }

    /// Returns the registers of a thread for scores, powers in pairs and the output, with `wgmma`.
    fn fragments(&self) -> u32 {
        self.tile[1] / 2 + self.tile[1] / 4 + self.value_dim / 2
    }

    /// Returns the registers of a thread for scores and output, with `mma.sync`.
    fn accumulators(&self, warps: u32) -> u32 {
        (self.tile[1] + self.value_dim) * (self.tile[0] / warps) / WARP
    }

    /// Checks that the kernel takes a problem.
    ///
    /// # Errors
    /// Those of [`AttentionProblem::check`]; [`AttentionError::Feature`], [`AttentionError::HeadDim`].
    #[inline]
    pub fn check_problem(&self, problem: &AttentionProblem) -> Result<(), AttentionError> {
        problem.check()?;
        let features = [
            ("a bounded window before a query", self.left, problem.left.is_some()),
            ("a bounded window after a query", self.right, problem.right.is_some()),
            ("a softcap", self.softcap, problem.softcap.is_some()),
            ("a list of sequences", self.varlen, problem.varlen),
        ];
        for (what, has, needs) in features {
            match (has, needs) {
                (true, false) => {
                    let is_list = what == "a list of sequences";
                    let what = if is_list { "no list of sequences" } else { "no bound" };
                    return Err(AttentionError::Feature { what, with: "with" });
                }
                (false, true) => return Err(AttentionError::Feature { what, with: "without" }),
                _ => {}
            }
        }
        let (packed, group) = (self.packed_heads, problem.heads / problem.key_heads.max(1));
        if packed > 1 && packed != group {
            return Err(AttentionError::PackedHeads { packed, group });
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
#[inline]
pub(super) fn swizzle_of(dim: u32) -> u32 {
    if dim.is_multiple_of(64) { 64 } else { 32 }
}

/// The name of the configuration: `d128_128x176_s2`, `d192x128_128x64_s2_right_warps8`.
impl fmt::Display for AttentionConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionConfig { head_dim, value_dim, tile: [rows, columns], stages, .. } = *self;
        write!(f, "d{head_dim}")?;
        if value_dim != head_dim {
            write!(f, "x{value_dim}")?;
        }
        write!(f, "_{rows}x{columns}_s{stages}")?;
        let is_specialized = self.is_specialized();
        let features = [
            ("_left", self.left),
            ("_right", self.right),
            ("_softcap", self.softcap),
            ("_ordered", self.ordered),
            ("_free", is_specialized && self.overlap == SoftmaxOverlap::Free),
            ("_softmax", is_specialized && self.overlap == SoftmaxOverlap::Softmax),
            ("_lazy", self.lazy),
            ("_varlen", self.varlen),
        ];
        features.iter().filter(|(_, has)| *has).try_for_each(|(name, _)| f.write_str(name))?;
        if let AttentionSchedule::Multistage { warps } = self.schedule {
            write!(f, "_warps{warps}")?;
        }
        if self.packed_heads > 1 { write!(f, "_heads{}", self.packed_heads) } else { Ok(()) }
    }
}
