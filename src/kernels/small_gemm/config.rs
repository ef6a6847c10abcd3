//! [`SmallGemmConfig`]: what decides the generated code of a GEMM with few rows. `new` chooses it
//! for a problem, `candidates` lists what a tuner should try.

use std::fmt;
use std::str::FromStr;

use crate::ir::Target;

use super::error::SmallGemmError;
use super::problem::SmallGemmProblem;
use super::weights::{ScaleGroup, WeightFormat};
use crate::kernels::gemm::Activation;

/// Columns of D in a tile of weights: the M of `mma.sync`, whose A operand the weights are.
pub(super) const TILE: u32 = 16;

/// How blocks that share columns of D add up their parts of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// The blocks are a cluster, and read each other's shared memory; up to 8 blocks, `sm_90`.
    Cluster,
    /// They write partial sums to global memory, and the last block to arrive adds them up.
    Workspace,
}

/// The instruction that multiplies. The weights are its A operand, in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaKind {
    /// `mma.sync`: one per 16 columns, 8 rows and 16 elements of K. For the fewest rows.
    Warp,
    /// `wgmma`: one for all rows of a block. It reads A from shared memory itself, so that 64 rows
    /// take as many instructions as 8. Only for 4-bit weights; needs `sm_90a`.
    WarpGroup,
}

/// When a launch may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchStart {
    /// When the previous launch of the stream has ended.
    AfterPrevious,
    /// Before that, as a programmatic launch: its blocks already load weights. They wait before
    /// they read A or write D, so only the weights must not be a result of the previous launch.
    /// Needs `sm_90`.
    Early,
}

/// What decides the generated code of a [`SmallGemm`](super::SmallGemm). `weights` says what is
/// multiplied, `activation` what happens to the results. The other fields affect only the speed, and
/// every configuration runs every problem.
///
/// A block computes `rows` rows of D and `columns * warps` columns of them. Its warps are a grid of
/// `warps` along N and `depth_warps` along K. A warp goes through its part of K in steps of
/// [`WeightFormat::step`] elements, and has the weights of `stages - 1` steps in flight. The block
/// copies A to shared memory once per `steps` steps, which takes a barrier.
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::kernels::small_gemm::{
///     ScaleGroup, SmallGemmConfig, SmallGemmProblem, WeightFormat, ZeroPoints,
/// };
///
/// let weights = WeightFormat::Int4 { group: ScaleGroup::Of128, zeros: ZeroPoints::Absent };
/// let problem = SmallGemmProblem::new(1, 8192, 8192);
/// let config = SmallGemmConfig::new(Target::SM_90A, weights, &problem)?;
/// assert_eq!(config.to_string().parse(), Ok(config));
/// // A block has a warp of 32 columns for each of four parts of K: 256 blocks, about two per SM.
/// assert_eq!(config.to_string(), "sm90a_int4g128_1x32x1_k4_t8_s8_pdl");
/// # Ok::<(), tilewright::kernels::small_gemm::SmallGemmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmallGemmConfig {
    /// The target to build for, `sm_80` or newer.
    pub target: Target,
    /// The format of the weights.
    pub weights: WeightFormat,
    /// The instruction that multiplies.
    pub mma: MmaKind,
    /// Rows of D per block: a power of two, at most 64. Blocks with other rows read the same
    /// weights.
    pub rows: u32,
    /// Columns of D per warp: 16, 32 or 64.
    pub columns: u32,
    /// Warps along N: a power of two, and whole warp groups for [`MmaKind::WarpGroup`].
    pub warps: u32,
    /// Warps along K: a power of two. They add up their sums in shared memory.
    pub depth_warps: u32,
    /// Steps of each warp for which a block copies A at once: a power of two.
    pub steps: u32,
    /// Steps whose weights are in shared memory, or on their way: a power of two of at least 2, at
    /// most `steps`.
    pub stages: u32,
    /// Blocks along K.
    pub splits: u32,
    /// How these blocks add up their sums.
    pub exchange: Exchange,
    /// When a launch may begin.
    pub start: LaunchStart,
    /// The function that is applied to D before a residual is added.
    pub activation: Option<Activation>,
}

/// The SMs of an H100 (SXM) or H200, for which configurations are chosen.
const SMS: u64 = 132;

impl SmallGemmConfig {
    /// Chooses the configuration for a problem.
    ///
    /// # Errors
    /// Those of [`check`](SmallGemmConfig::check).
    #[inline]
    pub fn new(
        target: Target,
        weights: WeightFormat,
        problem: &SmallGemmProblem,
    ) -> Result<Self, SmallGemmError> {
        let is_packed = weights.is_packed();
        let has_groups = target.offers(Target::SM_90A) && is_packed;
        let rows = problem.rows.max(1).checked_next_power_of_two().unwrap_or(64);
        let mma = if has_groups && rows >= 8 { MmaKind::WarpGroup } else { MmaKind::Warp };
        let rows = rows.min(match mma {
            MmaKind::WarpGroup => 64,
            // With more, a warp's accumulators and partial sums do not fit in its registers.
            MmaKind::Warp => 32,
        });
        // Fitted to an H200, `docs/evidence/gpu.md`, "GEMM with few rows".
        let (columns, warps, depth_warps, steps, stages) = match (mma, rows) {
            (MmaKind::WarpGroup, ..=16) => (16, 4, 2, 4, 4),
            (MmaKind::WarpGroup, 32) => (32, 4, 2, 4, 4),
            (MmaKind::WarpGroup, _) if problem.columns >= 16_384 => (32, 8, 1, 4, 4),
            (MmaKind::WarpGroup, _) => (16, 8, 1, 4, 4),
            (MmaKind::Warp, ..=2) if is_packed => (32, 1, 4, 8, 8),
            (MmaKind::Warp, ..=2) if weights == WeightFormat::Full => (16, 2, 4, 8, 8),
            (MmaKind::Warp, ..=2) => (16, 2, 4, 8, 4),
            (MmaKind::Warp, 4) => (16, 2, 4, 4, 4),
            (MmaKind::Warp, 8) => (16, 4, 4, 4, 4),
            (MmaKind::Warp, 16) if is_packed => (32, 4, 2, 4, 4),
            (MmaKind::Warp, 16) if weights == WeightFormat::Full => (32, 2, 4, 4, 4),
            (MmaKind::Warp, 16) => (16, 4, 2, 4, 4),
            (MmaKind::Warp, _) => (32, 8, 1, 4, 4),
        };
        let (exchange, start) = match target.offers(Target::SM_90) {
            true => (Exchange::Cluster, LaunchStart::Early),
            false => (Exchange::Workspace, LaunchStart::AfterPrevious),
        };
        let config = SmallGemmConfig {
            target,
            weights,
            mma,
            rows,
            columns,
            warps,
            depth_warps,
            steps,
            stages,
            splits: 1,
            exchange,
            start,
            activation: None,
        };
        let fits = |steps, stages| {
            let config = SmallGemmConfig { steps, stages, ..config };
            let fits = config.shared_bytes() <= target.max_shared_bytes();
            fits.then_some(config)
        };
        let options = [(steps, stages), (4, 4), (2, 2)];
        let config =
            options.into_iter().find_map(|(steps, stages)| fits(steps, stages)).unwrap_or(config);
        let config = SmallGemmConfig { splits: config.filling_splits(problem), ..config };
        config.check()?;
        Ok(config)
    }

    /// Returns configurations worth measuring for a problem. The choice of
    /// [`new`](SmallGemmConfig::new) comes first; the others have other grids of warps, and blocks
    /// of 128 to 512 threads.
    #[inline]
    pub fn candidates(
        target: Target,
        weights: WeightFormat,
        problem: &SmallGemmProblem,
    ) -> Vec<Self> {
        let Ok(first) = Self::new(target, weights, problem) else { return Vec::new() };
        let mut all = vec![first];
        let powers = || (0..=4).map(|power| 1 << power);
        let grids: Vec<_> = powers()
            .flat_map(|warps| powers().map(move |depth_warps| (warps, depth_warps)))
            .filter(|(warps, depth_warps)| (128..=512).contains(&(32 * warps * depth_warps)))
            .collect();
        let kinds = match first.mma {
            MmaKind::WarpGroup => vec![MmaKind::WarpGroup, MmaKind::Warp],
            MmaKind::Warp => vec![MmaKind::Warp],
        };
        let blocks = kinds.into_iter().flat_map(|mma| {
            let grids = grids.iter();
            grids.map(move |&(warps, depth_warps)| SmallGemmConfig {
                mma,
                warps,
                depth_warps,
                splits: 1,
                ..first
            })
        });
        for (block, columns) in
            blocks.flat_map(|block| [16, 32, 64].map(|columns| (block, columns)))
        {
            for (stages, steps) in [(4, 4), (4, 8), (8, 8), (8, 16), (2, 2), (2, 4)] {
                let config = SmallGemmConfig { columns, stages, steps, ..block };
                let config = SmallGemmConfig { splits: config.filling_splits(problem), ..config };
                if config.check().is_ok() && !all.contains(&config) {
                    all.push(config);
                }
            }
        }
        all
    }

    /// Returns the fewest splits of K that give each SM 8 warps, and two blocks of warp groups if
    /// they fit: a warp group waits for its products, and the other block computes meanwhile.
    #[inline]
    fn filling_splits(&self, problem: &SmallGemmProblem) -> u32 {
        let blocks = u64::from(problem.columns.div_ceil(self.block_columns()))
            * u64::from(problem.rows.div_ceil(self.rows));
        let slabs = problem.depth.div_ceil(self.slab());
        let wanted = match self.mma {
            MmaKind::Warp => 8,
            MmaKind::WarpGroup => 8 * u64::from(self.blocks_per_sm().min(2)),
        };
        let warps = blocks * u64::from(self.threads() / 32);
        let most = [8, 4, 2].into_iter().find(|splits| *splits <= slabs).unwrap_or(1);
        // Nine tenths are enough.
        let fills = |splits: &u32| warps * u64::from(*splits) * 10 >= wanted * SMS * 9;
        [1, 2, 4, 8].into_iter().filter(|splits| *splits <= most).find(fills).unwrap_or(most)
    }

    /// Returns the threads per block.
    pub fn threads(&self) -> u32 {
        self.warps.saturating_mul(self.depth_warps).saturating_mul(32)
    }

    /// Returns the columns of D per block.
    pub fn block_columns(&self) -> u32 {
        self.columns.saturating_mul(self.warps)
    }

    /// Returns the tiles of 16 columns per warp.
    pub(super) fn tiles(&self) -> u32 {
        self.columns / TILE
    }

    /// Returns the 8-row tiles of D per block.
    pub(super) fn row_tiles(&self) -> u32 {
        self.rows.div_ceil(8)
    }

    /// Returns the blocks that an SM runs at once, which bounds the registers of a thread.
    pub(super) fn blocks_per_sm(&self) -> u32 {
        let tiles = self.tiles() * self.row_tiles();
        // Two sets of 4 accumulators per tile, for one group and for all, words of weights, and
        // what else `ptxas` needs.
        let registers = match self.mma {
            MmaKind::Warp => 72 + 16 * tiles + (self.weights.lane_bytes() - 32) / 4 * self.tiles(),
            MmaKind::WarpGroup => 96 + 4 * tiles + 8 * self.row_tiles(),
        };
        let threads = self.threads().max(1);
        let shared = (self.target.max_shared_bytes() + 1024) / (self.shared_bytes() + 1024);
        let blocks = (65_536 / registers / threads).min(2048 / threads).min(32);
        blocks.min(shared as u32).max(1)
    }

    /// Returns the elements of K for which a block copies A at once.
    pub(super) fn slab(&self) -> u32 {
        self.slab_steps().saturating_mul(self.weights.step())
    }

    /// Returns the steps of all warps along K between two copies of A.
    pub(super) fn slab_steps(&self) -> u32 {
        self.steps.saturating_mul(self.depth_warps)
    }

    /// Returns the elements from one row of A to the next in shared memory, for `mma.sync`. The
    /// padding lets lanes that load 16 bytes of different rows use different banks.
    pub(super) fn pitch(&self) -> u32 {
        self.slab() + if self.weights == WeightFormat::Full { 32 } else { 8 }
    }

    /// Returns the elements of a copy of A in shared memory.
    pub(super) fn activations(&self) -> u32 {
        match self.mma {
            MmaKind::Warp => self.rows * self.pitch(),
            MmaKind::WarpGroup => self.rows * self.slab(),
        }
    }

    /// Returns the words of weights in the block's ring buffer. The sums take the same memory.
    pub(super) fn ring_words(&self) -> u32 {
        let of_lane = self.weights.lane_bytes() / 4;
        (self.stages * self.tiles() * self.threads() * of_lane).max(self.sums())
    }

    /// Returns how often a lane loads 16 bytes of weights per tile and step.
    pub(super) fn pieces(&self) -> u32 {
        self.weights.lane_bytes() / 16
    }

    /// Returns the scales and zero points in the block's ring buffer, in elements.
    pub(super) fn ring_scales(&self) -> u32 {
        self.stages * self.tiles() * self.threads() * self.weights.lane_scales()
    }

    /// Returns the sums from one row to the next in shared memory: different banks for the rows of
    /// adjacent lanes.
    pub(super) fn sum_pitch(&self) -> u32 {
        self.block_columns() + 4
    }

    /// Returns how many sums all warps along K have in shared memory.
    fn sums(&self) -> u32 {
        self.depth_warps * self.rows * self.sum_pitch()
    }

    /// Returns the shared memory per block in bytes.
    #[inline]
    pub fn shared_bytes(&self) -> u64 {
        let [words, scales, activations] =
            [self.ring_words(), self.ring_scales(), self.activations()].map(u64::from);
        4 * words + 2 * scales + 2 * 2 * activations
    }

    /// Checks that a kernel exists for this configuration. Call it after you have changed a field;
    /// [`SmallGemm::new`](super::SmallGemm::new) calls it too.
    ///
    /// # Errors
    /// [`SmallGemmError::Target`], [`SmallGemmError::Config`], [`SmallGemmError::SharedMemory`].
    #[inline]
    pub fn check(&self) -> Result<(), SmallGemmError> {
        let SmallGemmConfig { target, rows, columns, warps, depth_warps, steps, .. } = *self;
        if !target.offers(Target::SM_80) {
            return Err(SmallGemmError::Target { target });
        }
        let is_power = |count: u32, most: u32| count.is_power_of_two() && count <= most;
        let has_group = |group| self.weights.group() == Some(group);
        let rule = if has_group(ScaleGroup::Of32) && !self.weights.is_packed() {
            "8-bit weights must have groups of 64, of 128 or per column"
        } else if !is_power(rows, 64) {
            "the rows of a block must be a power of two, at most 64"
        } else if ![16, 32, 64].contains(&columns) {
            "a warp must have 16, 32 or 64 columns"
        } else if rows * columns > 64 * 32 {
            "a warp can have 32 columns of 64 rows, or 64 columns of 32 rows"
        } else if self.mma == MmaKind::WarpGroup
            && (!self.weights.is_packed() || target != Target::SM_90A)
        {
            "`wgmma` needs 4-bit weights and sm_90a"
        } else if self.mma == MmaKind::WarpGroup
            && (rows < 8 || !warps.is_multiple_of(4) || rows * (self.tiles() + 2) > 256)
        {
            "`wgmma` needs at least 8 rows, a multiple of 4 warps along N, and few tiles"
        } else if !is_power(warps, 16)
            || !is_power(depth_warps, 16)
            || !(1..=32).contains(&(warps * depth_warps))
        {
            "a block must have a power of two of warps along N and along K, together at most 32"
        } else if !is_power(steps, 32) {
            "A must be copied for a power of two of steps, at most 32"
        } else if !is_power(self.stages, steps) || self.stages < 2 {
            "the stages must be a power of two, at least 2 and at most the steps"
        } else if !(1..=64).contains(&self.splits) {
            "K can be split among 1 to 64 blocks"
        } else if self.exchange == Exchange::Cluster
            && (!is_power(self.splits, 8) || !target.offers(Target::SM_90))
        {
            "a cluster must have 1, 2, 4 or 8 blocks, and needs sm_90"
        } else if self.start == LaunchStart::Early && !target.offers(Target::SM_90) {
            "an early start needs sm_90"
        } else {
            let (needed, available) = (self.shared_bytes(), target.max_shared_bytes());
            if needed > available {
                return Err(SmallGemmError::SharedMemory { needed, available });
            }
            return Ok(());
        };
        Err(SmallGemmError::Config { config: self.to_string(), rule })
    }

    /// Reads a name, which need not be in the printed form.
    #[inline]
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split('_').peekable();
        let target = format!("sm_{}", words.next()?.strip_prefix("sm")?).parse().ok()?;
        let weights = WeightFormat::read(words.next()?)?;
        let sizes: Option<Vec<u32>> =
            words.next()?.split('x').map(|size| size.parse().ok()).collect();
        let [rows, columns, warps] = sizes?.try_into().ok()?;
        let mut count = |prefix: char| words.next()?.strip_prefix(prefix)?.parse().ok();
        let (depth_warps, steps, stages) = (count('k')?, count('t')?, count('s')?);
        let is_split = |word: &&str| word.starts_with("cluster") || word.starts_with("split");
        let (splits, exchange) = match words.next_if(is_split) {
            None => (1, Exchange::Cluster),
            Some(word) => match word.strip_prefix("cluster") {
                Some(splits) => (splits.parse().ok()?, Exchange::Cluster),
                None => (word.strip_prefix("split")?.parse().ok()?, Exchange::Workspace),
            },
        };
        let mma = match words.next_if_eq(&"wg") {
            None => MmaKind::Warp,
            Some(_) => MmaKind::WarpGroup,
        };
        let start = match words.next_if_eq(&"pdl") {
            None => LaunchStart::AfterPrevious,
            Some(_) => LaunchStart::Early,
        };
        let activation = match words.next() {
            None => None,
            Some(word) => Some(Activation::ALL.into_iter().find(|one| one.name() == word)?),
        };
        if words.next().is_some() {
            return None;
        }
        Some(SmallGemmConfig {
            target,
            weights,
            mma,
            rows,
            columns,
            warps,
            depth_warps,
            steps,
            stages,
            splits,
            exchange,
            start,
            activation,
        })
    }
}

/// Prints a name such as `sm90a_int4g128_16x32x4_k2_t4_s4_cluster2_pdl`: target, weights, rows,
/// columns per warp and warps along N, warps along K, steps, stages, the splits of K if there are
/// any, `wg` for `wgmma`, `pdl` for an early start, and the activation.
impl fmt::Display for SmallGemmConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SmallGemmConfig { target, weights, rows, columns, warps, splits, .. } = *self;
        let suffix = if target.arch_specific() { "a" } else { "" };
        write!(f, "sm{}{suffix}_{weights}_{rows}x{columns}x{warps}", target.sm())?;
        write!(f, "_k{}_t{}_s{}", self.depth_warps, self.steps, self.stages)?;
        match self.exchange {
            Exchange::Cluster if splits == 1 => Ok(()),
            Exchange::Cluster => write!(f, "_cluster{splits}"),
            Exchange::Workspace => write!(f, "_split{splits}"),
        }?;
        f.write_str(if self.mma == MmaKind::WarpGroup { "_wg" } else { "" })?;
        f.write_str(if self.start == LaunchStart::Early { "_pdl" } else { "" })?;
        self.activation.map_or(Ok(()), |activation| write!(f, "_{}", activation.name()))
    }
}

impl FromStr for SmallGemmConfig {
    type Err = SmallGemmError;

    /// Reads a configuration's name. [`check`](SmallGemmConfig::check) says whether a kernel exists
    /// for it.
    #[inline]
    fn from_str(name: &str) -> Result<Self, SmallGemmError> {
        // A name has one form: this refuses leading zeros and plus signs.
        let config = Self::read(name).filter(|config| config.to_string() == name);
        config.ok_or_else(|| SmallGemmError::Name { name: name.to_owned() })
    }
}
