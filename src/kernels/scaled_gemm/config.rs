//! [`ScaledGemmConfig`]: the tile, the stages, the clusters and the order of tiles of a GEMM with
//! block scales. `new` chooses them for a problem, `candidates` lists what a tuner should try.

use std::fmt;
use std::str::FromStr;

use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::pipeline::{Raster, RowGroups};

use super::super::gemm::BatchMode;
use super::error::ScaledGemmError;
use super::problem::{BLOCK, BScaleBlock, ScaledBatch, ScaledGemmProblem};

/// Threads per warp group.
pub(super) const GROUP: u32 = 128;
/// Rows of one `wgmma`.
pub(super) const ROWS: u32 = 64;
/// The SMs of an H100 (SXM) or H200, for which tiles are chosen.
const SMS: u64 = 132;
/// The widths of tiles that are chosen from.
const WIDTHS: [u32; 7] = [192, 160, 128, 112, 96, 64, 32];

/// Whether a kernel starts before the previous launch on its stream has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LaunchOverlap {
    /// It starts afterwards.
    #[default]
    None,
    /// It starts early, and waits for the previous launch before it accesses memory: programmatic
    /// dependent launch. This hides about a microsecond of a short launch.
    Programmatic,
}

/// The parameters that are fixed when a [`ScaledGemm`](super::ScaledGemm) kernel is built.
///
/// Get one from [`new`](ScaledGemmConfig::new), or measure the
/// [`candidates`](ScaledGemmConfig::candidates), and pass it to
/// [`ScaledGemm::new`](super::ScaledGemm::new). A configuration runs any problem with the same
/// `b_block` and `batch`; apart from these and `d`, its fields affect only the speed. It prints as a
/// name, which parses back:
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::scaled_gemm::{ScaledGemmConfig, ScaledGemmProblem};
///
/// // Few rows: narrow tiles, so that all SMs read B.
/// let problem = ScaledGemmProblem::new(64, 7168, 16384);
/// let config = ScaledGemmConfig::new(Target::SM_90A, Scalar::Bf16, &problem)?;
/// assert_eq!(config.to_string(), "sm90a_bf16_64x64x128_s6_strip1");
/// let pairs = ScaledGemmConfig { cluster: [1, 2], stages: 8, ..config };
/// assert_eq!("sm90a_bf16_64x64x128_s8_c1x2_strip1".parse(), Ok(pairs));
/// # Ok::<(), tilewright::kernels::scaled_gemm::ScaledGemmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledGemmConfig {
    /// The target to build for, `sm_90a`.
    pub target: Target,
    /// The elements of D: `Bf16`, `F16` or `F32`.
    pub d: Scalar,
    /// The rows and columns of D that a block computes, and the depth of one step: 64, 128 or 256;
    /// a multiple of 8 up to 192; 128. Rows beyond 64 take a second consumer warp group.
    pub tile: [u32; 3],
    /// Steps that the producer may be ahead of the consumers, 2 to 12. More of them hide more
    /// latency, if shared memory has room.
    pub stages: u32,
    /// The blocks along M and along N that share tiles by multicast. `[1, 1]` is no cluster.
    pub cluster: [u32; 2],
    /// Which elements of B share a scale. A kernel runs only problems with the same.
    pub b_block: BScaleBlock,
    /// Whether the kernel runs batches of equal GEMMs, or grouped GEMMs. `Ragged` is not supported.
    pub batch: BatchMode,
    /// The order in which blocks compute tiles.
    pub raster: Raster,
    /// Whether launches start before the previous one has ended. This decides, not the option of
    /// the launch.
    pub overlap: LaunchOverlap,
}

impl ScaledGemmConfig {
    /// Chooses the configuration for a problem with elements `d` of D: the tile whose waves take
    /// the least time in a simple model of an H200.
    ///
    /// # Errors
    /// [`ScaledGemmError::Target`], [`ScaledGemmError::Element`], and those of
    /// [`ScaledGemmProblem::check`].
    #[inline]
    pub fn new(
        target: Target,
        d: Scalar,
        problem: &ScaledGemmProblem,
    ) -> Result<Self, ScaledGemmError> {
        problem.check(d.bits())?;
        let best = Self::all(target, d, problem).min_by_key(|config| config.cost(problem));
        let config = best.unwrap_or_else(|| Self::of_tile(target, d, [128, 128], problem));
        config.check()?;
        Ok(config)
    }

    /// Returns configurations worth measuring for a problem. The choice of
    /// [`new`](ScaledGemmConfig::new) comes first; the others have other tiles, the best ones also
    /// clusters.
    #[inline]
    pub fn candidates(target: Target, d: Scalar, problem: &ScaledGemmProblem) -> Vec<Self> {
        if Self::new(target, d, problem).is_err() {
            return Vec::new();
        }
        let mut all: Vec<Self> = Self::all(target, d, problem).collect();
        all.sort_by_key(|config| config.cost(problem));
        all.truncate(8);
        let pairs =
            |config: &Self| [[2, 1], [1, 2]].map(|cluster| ScaledGemmConfig { cluster, ..*config });
        let clustered: Vec<Self> = match problem.batch {
            ScaledBatch::Uniform { .. } => all.iter().take(3).flat_map(pairs).collect(),
            ScaledBatch::Grouped { .. } => Vec::new(),
        };
        all.extend(clustered);
        all
    }

    /// Returns the configurations of all tiles.
    #[inline]
    fn all(target: Target, d: Scalar, problem: &ScaledGemmProblem) -> impl Iterator<Item = Self> {
        let problem = *problem;
        let tiles =
            [256, 128, 64].into_iter().flat_map(|rows| WIDTHS.map(|columns| [rows, columns]));
        let most = move |rows| most_columns(rows, problem.b_block);
        let fits = move |[rows, columns]: &[u32; 2]| *columns <= most(*rows);
        tiles.filter(fits).map(move |tile| Self::of_tile(target, d, tile, &problem))
    }

    /// Returns the configuration with a tile of these rows and columns: up to six stages, and
    /// strips that divide the row tiles.
    #[inline]
    fn of_tile(target: Target, d: Scalar, tile: [u32; 2], problem: &ScaledGemmProblem) -> Self {
        let [rows, columns] = tile;
        let raster = Raster::AlongM;
        let tile = [rows, columns, BLOCK];
        let (cluster, overlap) = ([1, 1], LaunchOverlap::None);
        let config = ScaledGemmConfig {
            target,
            d,
            tile,
            stages: 0,
            cluster,
            b_block: problem.b_block,
            batch: problem.batch.mode(),
            raster,
            overlap,
        };
        // Six steps are enough for the latency of DRAM, and more of them do not run faster.
        let room = target.max_shared_bytes().saturating_sub(config.shared_bytes());
        let stages = (room / config.stage_bytes().max(1)).clamp(2, 6) as u32;
        let [row_tiles, _] = config.tiles(problem);
        // About 2048 rows: the blocks of a wave cover a square.
        let most = u64::from(2048 / rows).min(row_tiles).max(1);
        let divides = |width: &u64| row_tiles.is_multiple_of(*width);
        let width = match problem.batch {
            ScaledBatch::Uniform { .. } => (most.div_ceil(2)..=most).rev().find(divides),
            // Each group has another count of row tiles.
            ScaledBatch::Grouped { .. } => None,
        };
        let raster = Raster::Swizzle { width: width.unwrap_or(most) as u32 };
        ScaledGemmConfig { stages, raster, ..config }
    }

    /// Estimates the time of all waves in picoseconds. The constants are fitted to measurements on
    /// an H200.
    #[inline]
    fn cost(&self, problem: &ScaledGemmProblem) -> u64 {
        let [rows, columns, _] = self.tile.map(u64::from);
        let (elements, blocks) = (rows * columns, u64::from(self.blocks()));
        // 17.5 ps per element is the peak of the tensor cores. They are idle while no consumer has
        // an MMA in flight: once per step, and after each block of 64 rows.
        let tensor_cores = elements * 35 / 2 + 60_000 + 80_000 * blocks;
        // A consumer waits for a stage, for its MMAs and for their promotion, one after the other.
        // A second consumer takes turns with it.
        // Scales of single columns cost another multiplication per sum; this is an estimate.
        let of_column = match self.b_block {
            BScaleBlock::Square128 => 1_350,
            BScaleBlock::Row128 => 1_900,
        };
        let consumer = 180_000 + of_column * columns + 60_000 * u64::from(self.consumers() - 1);
        // A tile can begin inside a block of 128 columns, so each group of columns between two
        // possible ends of a block selects its scale of B.
        let group = 1 << columns.trailing_zeros().min(BLOCK.trailing_zeros());
        let step = tensor_cores.max(consumer) + 4_000 * (columns / group);
        // A tile fills the pipeline, and stores D at 100 bytes per ns.
        let start_and_end = 500_000 + 10 * elements * u64::from(self.d.size_bytes());
        let of_tile = u64::from(problem.k_blocks()) * step + start_and_end;
        let tiles = match problem.batch {
            ScaledBatch::Uniform { count, .. } => {
                let of_one = self.tiles(problem).into_iter().fold(1, u64::saturating_mul);
                of_one.saturating_mul(count.into())
            }
            // On average, a group has half a tile of 64 rows beyond its end: a consumer without
            // rows leaves the tensor cores to the other one.
            ScaledBatch::Grouped { groups } => {
                let (m, groups) = (u64::from(problem.m), u64::from(groups));
                let end = rows - u64::from(ROWS * (self.consumers() - 1));
                let rows_of_all = (m + groups * (end / 2)).max(groups.min(m) * rows);
                rows_of_all.div_ceil(rows).saturating_mul(self.tiles(problem)[1])
            }
        };
        tiles.div_ceil(SMS).saturating_mul(of_tile)
    }

    /// Returns the tiles of one D along M and along N: along M for a grouped GEMM as many as its
    /// groups can need.
    #[inline]
    pub(super) fn tiles(&self, problem: &ScaledGemmProblem) -> [u64; 2] {
        let [rows, columns, _] = self.tile.map(|size| size.max(1));
        let row_tiles = match problem.batch {
            ScaledBatch::Uniform { .. } => problem.m.div_ceil(rows).into(),
            ScaledBatch::Grouped { groups } => RowGroups::max_tiles(problem.m, groups, rows),
        };
        [row_tiles, problem.n.div_ceil(columns).into()]
    }

    /// Returns how many consumer warp groups share a tile's rows.
    #[inline]
    pub(super) fn consumers(&self) -> u32 {
        (self.tile[0] / ROWS).clamp(1, 2)
    }

    /// Returns how many blocks of 64 rows a consumer multiplies, one after the other.
    #[inline]
    pub(super) fn blocks(&self) -> u32 {
        self.tile[0] / (ROWS * self.consumers())
    }

    /// Returns the blocks in a cluster.
    #[inline]
    pub(super) fn cluster_blocks(&self) -> u32 {
        self.cluster[0].saturating_mul(self.cluster[1])
    }

    /// Returns the columns of one TMA store: 128 bytes, a row of the swizzle, or half of the tile
    /// if `stmatrix` can write it, or the tile.
    #[inline]
    pub(super) fn store_columns(&self) -> u32 {
        let (columns, line) = (self.tile[1], 128 / self.d.size_bytes().max(1));
        match columns / 2 {
            _ if columns.is_multiple_of(line) => line,
            half if half.is_multiple_of(8) => half,
            _ => columns,
        }
    }

    /// Returns how many TMA stores a consumer may have in flight. They use its staging memory in
    /// turn, so they divide the stores of a tile.
    #[inline]
    pub(super) fn store_slots(&self) -> u32 {
        match self.tile[1] / self.store_columns().max(1) {
            3 => 3,
            stores if stores.is_multiple_of(2) => 2,
            _ => 1,
        }
    }

    /// Returns the threads per block, for example to compute the kernel's occupancy.
    pub fn threads(&self) -> u32 {
        GROUP * (1 + self.consumers())
    }

    #[inline]
    fn stage_bytes(&self) -> u64 {
        let [rows, columns, depth] = self.tile.map(u64::from);
        rows.saturating_add(columns)
            .saturating_mul(depth)
            .saturating_add(4 * u64::from(self.column_scale_pitch()))
    }

    /// Returns how many scales of single columns a stage has room for.
    #[inline]
    pub(super) fn column_scale_pitch(&self) -> u32 {
        match self.b_block {
            BScaleBlock::Square128 => 0,
            // Each lane of a warp copies as many.
            BScaleBlock::Row128 => self.tile[1].checked_next_multiple_of(32).unwrap_or(u32::MAX),
        }
    }

    /// Returns the shared memory per block, in bytes. Use it to see whether another stage fits.
    #[inline]
    pub fn shared_bytes(&self) -> u64 {
        let staging = [self.consumers() * ROWS, self.store_columns(), self.store_slots()];
        let staging = staging.map(u64::from).into_iter().product::<u64>();
        // 512 bytes are for barriers and alignment.
        u64::from(self.stages)
            .saturating_mul(self.stage_bytes())
            .saturating_add(staging.saturating_mul(self.d.size_bytes().into()))
            .saturating_add(512)
    }

    /// Checks that a kernel exists for this configuration. Call it after you have changed a field;
    /// [`ScaledGemm::new`](super::ScaledGemm::new) calls it too.
    ///
    /// # Errors
    /// [`ScaledGemmError::Target`], [`ScaledGemmError::Element`], [`ScaledGemmError::Config`],
    /// [`ScaledGemmError::SharedMemory`].
    #[inline]
    pub fn check(&self) -> Result<(), ScaledGemmError> {
        let ScaledGemmConfig { target, d, tile: [rows, columns, depth], .. } = *self;
        if !target.offers(Target::SM_90A) {
            return Err(ScaledGemmError::Target { target });
        }
        if ![Scalar::Bf16, Scalar::F16, Scalar::F32].contains(&d) {
            let expected = "bf16, f16 or f32".to_owned();
            return Err(ScaledGemmError::Element { operand: "D", found: d, expected });
        }
        let refused = |rule| Err(ScaledGemmError::Config { config: self.to_string(), rule });
        if ![64, 128, 256].contains(&rows) || depth != BLOCK {
            return refused("a tile must have 64, 128 or 256 rows and a depth of 128");
        }
        if columns == 0 || columns > 192 || !columns.is_multiple_of(8) {
            return refused("a tile's columns must be a multiple of 8 up to 192");
        }
        if columns > most_columns(rows, self.b_block) {
            return refused(match self.b_block {
                BScaleBlock::Square128 => "a tile with 256 rows has at most 128 columns",
                BScaleBlock::Row128 => {
                    "with scales of single columns, a tile has at most 128 columns, or 80 with 256 \
                     rows"
                }
            });
        }
        if !(2..=12).contains(&self.stages) {
            return refused("the stage count must be 2 to 12");
        }
        if ![[1, 1], [2, 1], [1, 2]].contains(&self.cluster) {
            return refused("a cluster must be 1x1, 2x1 or 1x2");
        }
        match self.batch {
            BatchMode::Uniform => {}
            BatchMode::Grouped if self.cluster != [1, 1] => {
                return refused("a grouped GEMM has no clusters");
            }
            BatchMode::Grouped => {}
            BatchMode::Ragged => return refused("the batch must be uniform or grouped"),
        }
        if !self.raster.is_valid() {
            return refused("a strip's width must be 1 to 65535");
        }
        let (needed, available) = (self.shared_bytes(), target.max_shared_bytes());
        if needed > available {
            return Err(ScaledGemmError::SharedMemory { needed, available });
        }
        Ok(())
    }
}

/// Returns how many columns a tile can have: a thread's registers must hold its accumulators, the
/// products of a step and the scales.
#[inline]
fn most_columns(rows: u32, b_block: BScaleBlock) -> u32 {
    match (b_block, rows) {
        (BScaleBlock::Square128, 256) | (BScaleBlock::Row128, 0..256) => 128,
        (BScaleBlock::Square128, _) => 192,
        (BScaleBlock::Row128, _) => 80,
    }
}

/// Prints the configuration's name: target, the elements of D, tile, `s` and the stages, `c` and
/// the cluster if there is one, `b1x128` for scales of single columns, `grouped`, the order of the
/// tiles, and `pdl` for programmatic launches.
impl fmt::Display for ScaledGemmConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScaledGemmConfig { target, d, tile: [rows, columns, depth], .. } = *self;
        write!(f, "sm{}{}", target.sm(), if target.arch_specific() { "a" } else { "" })?;
        write!(f, "_{d}_{rows}x{columns}x{depth}_s{}", self.stages)?;
        if self.cluster != [1, 1] {
            write!(f, "_c{}x{}", self.cluster[0], self.cluster[1])?;
        }
        if self.b_block == BScaleBlock::Row128 {
            f.write_str("_b1x128")?;
        }
        match self.batch {
            BatchMode::Uniform => {}
            BatchMode::Grouped => f.write_str("_grouped")?,
            BatchMode::Ragged => f.write_str("_ragged")?,
        }
        write!(f, "_{}", self.raster)?;
        match self.overlap {
            LaunchOverlap::None => Ok(()),
            LaunchOverlap::Programmatic => f.write_str("_pdl"),
        }
    }
}

impl FromStr for ScaledGemmConfig {
    type Err = ScaledGemmError;

    /// Parses a configuration's name. [`check`](ScaledGemmConfig::check) says whether a kernel
    /// exists for it.
    #[inline]
    fn from_str(name: &str) -> Result<Self, ScaledGemmError> {
        let parse = || -> Option<ScaledGemmConfig> {
            let mut words = name.split('_').peekable();
            let target = format!("sm_{}", words.next()?.strip_prefix("sm")?).parse().ok()?;
            let d = words.next()?.parse().ok()?;
            let tile = numbers(words.next()?)?;
            let stages = words.next()?.strip_prefix('s')?.parse().ok()?;
            let cluster = words.next_if(|word| word.starts_with('c'));
            let cluster = cluster.map_or(Some([1, 1]), |cluster| numbers(&cluster[1..]))?;
            let b_block = match words.next_if_eq(&"b1x128") {
                Some(_) => BScaleBlock::Row128,
                None => BScaleBlock::Square128,
            };
            let batch = match words.next_if_eq(&"grouped") {
                Some(_) => BatchMode::Grouped,
                None => BatchMode::Uniform,
            };
            let raster = words.next()?.parse().ok()?;
            let overlap = match words.next() {
                Some(_) => LaunchOverlap::Programmatic,
                None => LaunchOverlap::None,
            };
            Some(ScaledGemmConfig {
                target,
                d,
                tile,
                stages,
                cluster,
                b_block,
                batch,
                raster,
                overlap,
            })
        };
        // Refuses numbers with leading zeros, and words at the end.
        let config = parse().filter(|config| config.to_string() == name);
        config.ok_or_else(|| ScaledGemmError::Name { name: name.to_owned() })
    }
}

/// Parses `N` integers with an `x` between them.
#[inline]
fn numbers<const N: usize>(text: &str) -> Option<[u32; N]> {
    let all: Option<Vec<u32>> = text.split('x').map(|number| number.parse().ok()).collect();
    all?.try_into().ok()
}
