//! [`AttentionConfig`]: the parameters that are fixed when an attention kernel is built, such as
//! schedule, tile, stages, and which masks the kernel supports. You choose a configuration before
//! you build an `Attention`.

use std::fmt;

use crate::ir::Target;
use crate::sorting::sort_by_key;

use super::error::AttentionError;
use super::problem::AttentionProblem;

/// Threads per warp group.
pub(super) const GROUP: u32 = 128;
/// Rows of queries per consumer group.
pub(super) const ROWS: u32 = 64;
/// Threads per warp.
const WARP: u32 = 32;
/// Bytes per element.
const BYTES: u32 = 2;
/// Stages of a consumer group's output ring buffer.
pub(super) const OUTPUT_STAGES: u32 = 2;

/// How a consumer group's output is stored to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Staging {
    /// Threads store rows. Used if sequences of different lengths share the tensor, so that a tile
    /// can cross a sequence's end, or if shared memory has no room for a ring buffer.
    Rows,
    /// By TMA, through the group's tile of Q. The next tile of Q is in another stage.
    Queries,
    /// By TMA in parts, through a ring buffer of its own. There is only one tile of Q, and it was
    /// released after the last scores.
    Ring,
}

/// Which MMA instructions the kernel uses, and how the warps of a block divide the work. Choose
/// `WarpSpecialized` on `sm_90a`, where it is much faster, and `Multistage` everywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionSchedule {
    /// `wgmma`: one producer warp group fetches tiles by TMA, and one to three consumer warp groups
    /// compute 64 rows of the query tile each. Needs `sm_90a`.
    WarpSpecialized,
    /// `mma.sync`: all warps fetch tiles by `cp.async`, and each warp computes 16 or 32 rows of the
    /// query tile. Runs on every target.
    Multistage {
        /// Warps per block: 4 or 8.
        warps: u32,
    },
}

/// How much of a step's softmax is guaranteed to overlap with the previous step's P V. It affects
/// only the speed: measure the values, because the fastest one depends on the head dimension and
/// the mask. `ptxas` moves the wait for P V up as far as it can, which shortens the overlap. To
/// stop it, the kernel inserts a wait on a barrier that is already complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SoftmaxOverlap {
    /// No guarantee: `ptxas` decides.
    Free,
    /// At least the row maxima overlap.
    Maxima,
    /// At least the row maxima and the exponentials overlap.
    Softmax,
}

impl SoftmaxOverlap {
    /// All values, for example to measure each of them.
    pub const ALL: [SoftmaxOverlap; 3] =
        [SoftmaxOverlap::Free, SoftmaxOverlap::Maxima, SoftmaxOverlap::Softmax];
}

/// The parameters that are fixed when an [`Attention`](super::Attention) kernel is built.
/// [`new`](AttentionConfig::new) chooses them for a problem;
/// [`candidates`](AttentionConfig::candidates) lists the configurations that are worth measuring.
///
/// `head_dim`, `value_dim`, `left`, `right`, `softcap` and `varlen` say which problems the kernel
/// runs, and must match the problem. The other fields affect only the speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionConfig {
    /// The target to build for.
    pub target: Target,
    /// Which MMA instructions the kernel uses, and how the warps divide the work.
    pub schedule: AttentionSchedule,
    /// The dimension of queries and keys: a multiple of 32, at most 256.
    pub head_dim: u32,
    /// The dimension of values and outputs: a multiple of 32, at most 256. With `WarpSpecialized`,
    /// at most `head_dim`, and a multiple of 64 if `head_dim` is one.
    pub value_dim: u32,
    /// The queries and keys per tile. Queries: 64 per consumer group (1 to 3), or 16 or 32 per
    /// warp. Keys: a multiple of 16. More queries read K and V less often; more keys rescale the
    /// output less often, but mask more scores in vain at the diagonal.
    pub tile: [u32; 2],
    /// The stages of the ring buffers for K and V. More of them hide more latency, if shared memory
    /// has room.
    pub stages: u32,
    /// Supports a limit on how many earlier keys a query sees (sliding window).
    pub left: bool,
    /// Supports a limit on how many later keys a query sees: 0 for a causal mask.
    pub right: bool,
    /// Supports a softcap on the scores.
    pub softcap: bool,
    /// Consumer groups take turns to start their MMAs, so that one multiplies while the others
    /// compute exponentials (FlashAttention-3's ping-pong). Faster for small head dimensions. For
    /// `WarpSpecialized` only, like `overlap`.
    pub ordered: bool,
    /// How much of the softmax is guaranteed to overlap with P V.
    pub overlap: SoftmaxOverlap,
    /// Rescales the output only if a score exceeds the running maximum by more than 8 powers of
    /// two, instead of at every tile of keys
    /// ([`OnlineSoftmax::maxima`](crate::tensor::mma::OnlineSoftmax::maxima)). Saves
    /// multiplications for large value dimensions.
    pub lazy: bool,
    /// Supports sequences of different lengths in one tensor.
    pub varlen: bool,
    /// How many query heads share a tile: 1, or all heads that share a key head, if their count
    /// divides 64. Share tiles if a sequence has too few queries to fill one.
    pub packed_heads: u32,
}

impl AttentionConfig {
    /// Chooses the configuration for a problem: `wgmma` on `sm_90a`, and
    /// [`sm80`](AttentionConfig::sm80) on other targets or if `wgmma` does not support the value
    /// dimension.
    ///
    /// # Errors
    /// Those of [`check`](AttentionConfig::check).
    #[inline]
    pub fn new(target: Target, problem: &AttentionProblem) -> Result<Self, AttentionError> {
        if !target.offers(Target::SM_90A) {
            return Self::sm80(target, problem);
        }
        let AttentionProblem { head_dim, value_dim, left, right, .. } = *problem;
        // With `varlen`, the mean lengths.
        let [queries, keys] =
            [problem.queries, problem.keys].map(|positions| positions / problem.sequences());
        let (masked, fills) = (left.is_some() || right.is_some(), queries >= 1024);
        // With more keys per tile, the output is rescaled less often, but more scores are masked at
        // the diagonal. Three groups with fewer keys read K and V less often than two.
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
        // Taking turns is faster for small head dimensions, unless a mask leaves few tiles of keys.
        // For larger ones it is slower, because there most kernels start the next item's first
        // scores early.
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
        // Takes a third stage if shared memory still has room for two tiles of queries.
        let deeper = AttentionConfig { stages: 3, ..config };
        let config = if deeper.query_stages() == 2 { deeper } else { config };
        match config.check() {
            Err(AttentionError::HeadDim { which: "value", .. }) => Self::sm80(target, problem),
            checked => checked.map(|()| config),
        }
    }

    /// Chooses the `mma.sync` configuration for a problem, which runs on every target.
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
        // If scores and output take more than 192 registers, too few are left for operands and
        // addresses. With exactly 192 (d = 128) `ptxas` spills 12 bytes for sm_90a, but an H200 is
        // still 1.17x as fast as with half the keys. A warp with 32 queries loads half as much from
        // shared memory per MMA as one with 16, and needs twice the output registers. With 4 warps,
        // two blocks share an SM.
        let (warps, blocks) = if head_dim.max(value_dim) > 128 { (8, 1) } else { (4, 2) };
        // With 64 output dimensions, rescaling costs no more than testing whether to.
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
        // What the driver reserves in each block.
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

    /// Returns configurations worth measuring for a problem. The choice of
    /// [`new`](AttentionConfig::new) comes first. On `sm_90a`, the same tile with other values of
    /// `ordered`, `overlap`, `lazy` and `packed_heads` follows, then other tiles with 2 and with 3
    /// stages, beginning with tiles of similar size. The last entries are `mma.sync`
    /// configurations, which are the only ones on other targets. All pass
    /// [`check`](AttentionConfig::check), and except for the first one, `ptxas` spills none.
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
            // Three stages suit the tiles that leave memory for them.
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

    /// Returns whether `ptxas` spills nothing, for any mask. With `wgmma`, the kernel may then use
    /// 8 registers less than [`check`](AttentionConfig::check) allows.
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

    /// Returns how many consumer warp groups a block of the `WarpSpecialized` kernel has.
    pub fn groups(&self) -> u32 {
        self.tile[0] / ROWS
    }

    /// Returns the queries per tile, each with all heads that share the tile. Use it to compute how
    /// many tiles a sequence has.
    #[inline]
    pub fn queries_of_tile(&self) -> u32 {
        self.tile[0] / self.packed_heads.max(1)
    }

    /// Returns the queries per consumer group.
    #[inline]
    pub(super) fn queries_of_group(&self) -> u32 {
        ROWS / self.packed_heads.max(1)
    }

    /// Returns the threads per block, for example to compute the kernel's occupancy.
    pub fn threads(&self) -> u32 {
        match self.schedule {
            AttentionSchedule::WarpSpecialized => (self.groups() + 1).saturating_mul(GROUP),
            AttentionSchedule::Multistage { warps } => warps.saturating_mul(WARP),
        }
    }

    /// Returns the registers of a producer thread and of a consumer thread.
    pub(super) fn registers(&self) -> [u32; 2] {
        match self.groups() {
            3 => [32, 160],
            _ => [24, 240],
        }
    }

    /// Returns the registers of each thread when the kernel starts.
    #[inline]
    pub(super) fn entry_registers(&self) -> u32 {
        (65536 / self.threads()).min(255) / 8 * 8
    }

    /// Returns the stages of Q's ring buffer. With `WarpSpecialized` there are 2 stages if they fit
    /// into shared memory, so that the next query tile can be fetched early; otherwise there is 1.
    #[inline]
    pub fn query_stages(&self) -> u32 {
        let fits = self.shared_bytes_with(2) <= self.target.max_shared_bytes();
        if self.is_specialized() && fits { 2 } else { 1 }
    }

    /// Returns whether the next item's first scores are multiplied while an item's output is
    /// written: only if MMAs take long enough to hide the store.
    #[inline]
    pub(super) fn scores_ahead(&self) -> bool {
        self.head_dim > 64
    }

    /// Returns how the output is stored, with `WarpSpecialized`.
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

    /// Returns the size of all groups' output ring buffers, in bytes.
    fn ring_bytes(&self) -> u64 {
        u64::from(OUTPUT_STAGES * self.tile[0]) * u64::from(swizzle_of(self.value_dim) * BYTES)
    }

    /// Returns the shared memory per block, in bytes. Use it to see whether a larger tile or
    /// another stage fits.
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
        // 512 bytes are for barriers, work-item indices and alignment.
        tiles.into_iter().fold(512, |bytes, tile| bytes.saturating_add(product(tile)))
    }

    /// Checks that a kernel exists for this configuration. Call it after you have changed a field;
    /// [`Attention::new`](super::Attention::new) calls it too.
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
            return tile("the key count must be a multiple of 16, at most 256");
        }
        if !(1..=8).contains(&self.stages) {
            return tile("the stage count must be 1 to 8");
        }
        if self.packed_heads == 0 || !ROWS.is_multiple_of(self.packed_heads) {
            return tile("the number of heads that share it must divide 64");
        }
        let (needed, max) = match self.schedule {
            AttentionSchedule::WarpSpecialized => {
                if value_dim > head_dim || swizzle_of(value_dim) < swizzle_of(head_dim) {
                    let rule = "it must be at most the head dimension, and a multiple of 64 if the head dimension is one";
                    return Err(AttentionError::HeadDim { which: "value", found: value_dim, rule });
                }
                if ![64, 128, 192].contains(&rows) {
                    return tile("the query count must be 64, 128 or 192");
                }
                (self.fragments(), self.registers()[1] - 24)
            }
            AttentionSchedule::Multistage { warps } => {
                if self.stages < 2 {
                    return tile("the stage count must be 2 to 8");
                }
                if ![4, 8].contains(&warps) {
                    return tile("the warp count must be 4 or 8");
                }
                if ![16, 32].contains(&(rows / warps)) || !rows.is_multiple_of(16 * warps) {
                    return tile("each warp must have 16 or 32 queries");
                }
                // Each thread copies 16 bytes at a time, so that a round of all threads covers
                // whole keys.
                let shared_by = |dim| columns.is_multiple_of(self.threads() * 8 / swizzle_of(dim));
                if !shared_by(head_dim) || !shared_by(value_dim) {
                    return tile("the keys must divide evenly among the threads");
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

    /// Returns the registers per thread for scores, weights (two per register) and output, with
    /// `wgmma`.
    fn fragments(&self) -> u32 {
        self.tile[1] / 2 + self.tile[1] / 4 + self.value_dim / 2
    }

    /// Returns the registers per thread for scores and output, with `mma.sync`.
    fn accumulators(&self, warps: u32) -> u32 {
        (self.tile[1] + self.value_dim) * (self.tile[0] / warps) / WARP
    }

    /// Checks that the kernel can run a problem. Every launch calls it; call it to choose between
    /// kernels.
    ///
    /// # Errors
    /// Those of [`AttentionProblem::check`]. [`AttentionError::Feature`],
    /// [`AttentionError::HeadDim`] and [`AttentionError::PackedHeads`] if the kernel was configured
    /// for other problems.
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
                    let what = if is_list {
                        "no list of sequences"
                    } else {
                        "no such window bound or softcap"
                    };
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
                let rule = "the kernel was built for another one";
                return Err(AttentionError::HeadDim { which, found, rule });
            }
        }
        Ok(())
    }
}

/// Returns the elements per swizzle row that suit a dimension.
#[inline]
pub(super) fn swizzle_of(dim: u32) -> u32 {
    if dim.is_multiple_of(64) { 64 } else { 32 }
}

/// Prints the configuration's name: `d128_128x176_s2`, `d192x128_128x64_s2_right_warps8`.
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
