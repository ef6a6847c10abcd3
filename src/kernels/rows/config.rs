//! [`RowConfig`]: the target and the tile of a kernel that works on rows.

use std::fmt;

use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::{RowAccess, RowTile};

use super::error::RowError;
use super::problem::RowProblem;

/// The target and the tile of a kernel that works on rows.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::Target;
/// use tilewright::kernels::rows::{RowConfig, RowProblem};
///
/// // 4096 elements of 16 bits are 512 vectors: 4 of them for each of 128 threads.
/// let config = RowConfig::new(Target::SM_90, Scalar::Bf16, &RowProblem::new(8192, 4096))?;
/// assert_eq!((config.tile.team, config.tile.vectors), (128, 4));
/// // A cluster of 8 blocks holds the longest rows.
/// let config = RowConfig::new(Target::SM_90, Scalar::Bf16, &RowProblem::new(64, 262_144))?;
/// assert_eq!((config.tile.team, config.tile.vectors, config.tile.cluster), (1024, 4, 8));
/// # Ok::<(), tilewright::kernels::rows::RowError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowConfig {
    /// The target.
    pub target: Target,
    /// The threads that share a row, and the elements that each of them holds.
    pub tile: RowTile,
}

/// The maximum number of threads of a block, and the maximum number of blocks of a cluster.
const MOST_THREADS: u32 = 1024;
const MOST_BLOCKS: u32 = 8;
/// The maximum number of elements that a thread holds: 1024 threads have 64 registers each.
const MOST_ELEMENTS: u32 = 32;
/// The maximum number of stages of the candidates.
const MOST_STAGES: u32 = 3;

/// The tile of long rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct LongRows {
    /// Rows of more bytes have this tile.
    pub(in crate::kernels) above_bytes: u32,
    /// The maximum number of vectors of a thread and of threads of a block. The smallest cluster that holds the row has it.
    pub(in crate::kernels) vectors: u32,
    pub(in crate::kernels) threads: u32,
    /// The number of stages, fewer where shared memory lacks them; 0 if they are not pipelined.
    pub(in crate::kernels) stages: u32,
}

/// The tiles of long rows, in the order of their bytes: the fastest on an H200.
const LONG_ROWS: [LongRows; 2] = [
    LongRows { above_bytes: 32 << 10, vectors: 8, threads: 512, stages: 0 },
    LongRows { above_bytes: 64 << 10, vectors: 4, threads: 512, stages: 1 },
];

impl RowConfig {
    /// Returns the configuration for rows of these sizes, with elements of this type in the input. Rows of more than 64 KiB are
    /// shared by clusters, and pipelined, on a target that has them.
    ///
    /// # Errors
    /// [`RowError::Columns`]: rows are longer than 32,768 elements, or than 262,144 where the target has clusters.
    #[inline]
    pub fn new(target: Target, input: Scalar, problem: &RowProblem) -> Result<RowConfig, RowError> {
        Self::of_long_rows(&LONG_ROWS, target, input, problem)
    }

    /// As [`new`](RowConfig::new), with other tiles of long rows.
    #[inline]
    pub(in crate::kernels) fn of_long_rows(
        tiles: &[LongRows],
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Result<RowConfig, RowError> {
        // With 512 threads, two blocks of an SM have 64 registers for each thread.
        let plain = Self::within(target, input, problem, MOST_ELEMENTS, 512)?;
        let bytes = plain.tile.cluster * plain.tile.stage_bytes();
        let long = tiles.iter().rev().find(|long| bytes > long.above_bytes).and_then(|long| {
            let elements = long.vectors * plain.tile.vector(input);
            let config = Self::within(target, input, problem, elements, long.threads).ok()?;
            let mut stages = (1..=long.stages).rev();
            let staged = stages.find_map(|stages| config.with_stages(stages));
            if long.stages == 0 { Some(config) } else { staged }
        });
        Ok(long.unwrap_or(plain))
    }

    /// Returns configurations to choose from for rows of these sizes, the one of [`new`](RowConfig::new) first. Threads hold
    /// up to 8, 16, 32 or 64 elements, and blocks have up to 256, 512 or 1024 threads, each with 0 to 3 stages where shared memory has them.
    #[inline]
    pub fn candidates(target: Target, input: Scalar, problem: &RowProblem) -> Vec<RowConfig> {
        let mut found = Vec::from_iter(Self::new(target, input, problem));
        for elements in [32, 16, 8, 64] {
            for threads in [512, 256, 1024] {
                let Ok(config) = Self::within(target, input, problem, elements, threads) else {
                    continue;
                };
                let staged = (1..=MOST_STAGES).filter_map(|stages| config.with_stages(stages));
                for config in [config].into_iter().chain(staged) {
                    if !found.contains(&config) {
                        found.push(config);
                    }
                }
            }
        }
        found
    }

    /// Returns the configuration for copies of rows: with aligned accesses, or with ragged ones for all other rows. Rows that
    /// are longer than the tile take several steps.
    #[inline]
    pub(in crate::kernels) fn of_copy(
        target: Target,
        elem: Scalar,
        access: RowAccess,
        columns: u32,
    ) -> RowConfig {
        // Ragged rows have up to 3 vectors of single elements, so short ones have no others.
        let access = match access {
            RowAccess::Aligned => access,
            _ if columns < 8 * RowTile::VECTOR_BYTES / elem.size_bytes().max(1) => {
                RowAccess::Elements
            }
            _ => RowAccess::Ragged,
        };
        // Single elements are short: a thread has more of them in flight.
        let most = if access == RowAccess::Elements { 8 } else { 4 };
        let (cluster, stages) = (1, 0);
        let lanes = RowTile { threads: 128, team: 32, cluster, vectors: most, access, stages };
        let vectors = columns.div_ceil(lanes.vector(elem)).max(1);
        // A thread has two vectors in flight, where a row has 4 for its neighbours.
        let sharers = if vectors < 8 { vectors } else { vectors.div_ceil(2) };
        let team = sharers.next_power_of_two().min(32);
        let tile = match vectors.div_ceil(team) {
            vectors if vectors <= most => RowTile { team, vectors, ..lanes },
            _ => RowTile { team: 128, ..lanes },
        };
        RowConfig { target, tile }
    }

    /// Returns configurations of copies of rows to choose from, the one of [`of_copy`](RowConfig::of_copy) first: 4 to 32 lanes or a
    /// block share a row, and each thread moves 1 to 8 vectors at once.
    #[inline]
    pub(in crate::kernels) fn copies(
        target: Target,
        elem: Scalar,
        access: RowAccess,
        columns: u32,
    ) -> Vec<RowConfig> {
        let default = Self::of_copy(target, elem, access, columns);
        let all = columns.div_ceil(default.tile.vector(elem)).max(1);
        let mut found = vec![default];
        for [threads, team] in
            [[128, 4], [128, 8], [128, 16], [128, 32], [128; 2], [256; 2], [512; 2]]
        {
            for vectors in [1, 2, 4, 8] {
                let tile = RowTile { threads, team, vectors, ..default.tile };
                let config = RowConfig { target, tile };
                // A row has a vector for each thread, and takes at most 16 steps of some lanes.
                let fits = team <= all && (team == threads || all <= 16 * team * vectors);
                if fits && !found.contains(&config) {
                    found.push(config);
                }
            }
        }
        found
    }

    /// The same with stages: where a block shares a row in vectors, and shared memory has the stages of an input.
    #[inline]
    fn with_stages(&self, stages: u32) -> Option<RowConfig> {
        let config = RowConfig { tile: RowTile { stages, ..self.tile }, ..*self };
        let RowTile { threads, team, access, .. } = self.tile;
        let possible = team == threads
            && access != RowAccess::Elements
            && self.target.offers(Target::SM_90)
            && config.has_shared_bytes(1);
        possible.then_some(config)
    }

    /// Returns true if a block's shared memory has the stages of `inputs` inputs.
    fn has_shared_bytes(&self, inputs: u32) -> bool {
        let stages = u64::from(inputs * self.tile.stages) * u64::from(self.tile.stage_bytes());
        stages + 4096 <= self.target.max_shared_bytes()
    }

    /// The same for a kernel with `inputs` inputs: about as many bytes in flight, where shared memory has them.
    #[inline]
    pub(in crate::kernels) fn for_inputs(&self, inputs: u32) -> RowConfig {
        let stages = (0..=self.tile.stages.div_ceil(inputs)).rev();
        let mut configs =
            stages.map(|stages| RowConfig { tile: RowTile { stages, ..self.tile }, ..*self });
        configs.find(|config| config.has_shared_bytes(inputs)).unwrap_or(*self)
    }

    /// Returns the configuration in which a thread holds at most `elements`, and a block has at most `threads`, or 1024
    /// where no cluster would hold the row.
    #[inline]
    fn within(
        target: Target,
        input: Scalar,
        problem: &RowProblem,
        elements: u32,
        threads: u32,
    ) -> Result<RowConfig, RowError> {
        let access = problem.access(input);
        let lanes = RowTile { threads: 128, team: 32, cluster: 1, vectors: 1, access, stages: 0 };
        let vector = lanes.vector(input);
        let max = (elements / vector).max(1);
        let vectors = problem.columns.div_ceil(vector).max(1);
        let team = vectors.next_power_of_two().min(32);
        if vectors <= 32 * max.min(MOST_ELEMENTS / vector) {
            let tile = RowTile { team, vectors: vectors.div_ceil(team), ..lanes };
            return Ok(RowConfig { target, tile });
        }
        let clusters = if target.offers(Target::SM_90) { MOST_BLOCKS } else { 1 };
        let sizes = [1, 2, 4, 8].into_iter().filter(|cluster| *cluster <= clusters);
        let sizes = sizes.map(|cluster| (cluster, threads)).chain([(clusters, MOST_THREADS)]);
        for (cluster, most_threads) in sizes {
            let threads = vectors.div_ceil(max * cluster).next_multiple_of(32);
            if threads <= most_threads {
                let vectors = vectors.div_ceil(threads * cluster);
                let tile = RowTile { threads, team: threads, cluster, vectors, ..lanes };
                return Ok(RowConfig { target, tile });
            }
        }
        let max = MOST_THREADS * clusters * max * vector;
        Err(RowError::Columns { columns: problem.columns, max })
    }

    /// Checks that there is a kernel with this tile.
    ///
    /// # Errors
    /// [`RowError::Tile`].
    #[inline]
    pub fn check(&self) -> Result<(), RowError> {
        let RowTile { threads, team, cluster, vectors, stages, access: _ } = self.tile;
        let rule = if !threads.is_multiple_of(32) || !(32..=MOST_THREADS).contains(&threads) {
            "a block has 32 to 1024 threads, a multiple of 32"
        } else if team != threads && !(team.is_power_of_two() && team <= 32) {
            "a row is shared by 1, 2, 4, 8, 16 or 32 threads, or by all threads of the block"
        } else if cluster > 1 && team != threads {
            "the blocks of a cluster share one row"
        } else if !(1..=MOST_BLOCKS).contains(&cluster) {
            "a cluster has 1 to 8 blocks"
        } else if cluster > 1 && !self.target.offers(Target::SM_90) {
            "clusters need sm_90"
        } else if stages > 0 && team != threads {
            "all threads of a block share a row of a tile with stages"
        } else if !(1..=64).contains(&vectors) {
            "a thread holds 1 to 64 vectors"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }

    /// Checks that there is a kernel without stages with this tile.
    #[inline]
    pub(in crate::kernels) fn check_unstaged(&self) -> Result<(), RowError> {
        if self.tile.stages > 0 {
            return Err(RowError::Tile { rule: "this kernel has no stages" });
        }
        self.check()
    }

    /// Checks that there is a copy with this tile.
    #[inline]
    pub(in crate::kernels) fn check_copy(&self) -> Result<(), RowError> {
        if self.tile.cluster > 1 {
            return Err(RowError::Tile { rule: "a copy has no clusters" });
        }
        self.check_unstaged()
    }

    /// Returns the tile by which a launch of a copy is checked: ragged rows may start anywhere, as single elements may.
    pub(in crate::kernels) fn tile_of_copy(&self) -> RowTile {
        let access = match self.tile.access {
            RowAccess::Aligned => RowAccess::Aligned,
            RowAccess::Ragged | RowAccess::Elements => RowAccess::Elements,
        };
        RowTile { access, ..self.tile }
    }

    /// Checks that the kernel takes rows of these sizes, with elements of this type in the input. Returns the pitches of
    /// the input and the output.
    ///
    /// # Errors
    /// [`RowError::Columns`], [`RowError::Rows`], [`RowError::Access`], [`RowError::Pitch`], [`RowError::TooLarge`].
    #[inline]
    pub fn check_problem(&self, input: Scalar, problem: &RowProblem) -> Result<[u64; 2], RowError> {
        problem.check(&self.tile, input, self.tile.capacity(input))
    }
}

/// The name of the configuration: `128x4` for rows that 128 threads share with 4 vectors each; `32x2_rows4` where a block
/// has 4 rows; `1024x4_cluster8` where a cluster of 8 blocks shares a row;
/// `512x4_s2` where two stages have the next rows in flight; then the accesses, unless rows are aligned.
impl fmt::Display for RowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowTile { threads, team, cluster, vectors, access, stages } = self.tile;
        write!(f, "{team}x{vectors}")?;
        if team != threads {
            write!(f, "_rows{}", self.tile.rows_per_block())?;
        }
        if cluster != 1 {
            write!(f, "_cluster{cluster}")?;
        }
        if stages > 0 {
            write!(f, "_s{stages}")?;
        }
        f.write_str(match access {
            RowAccess::Aligned => "",
            RowAccess::Ragged => "_ragged",
            RowAccess::Elements => "_elements",
        })
    }
}

impl RowConfig {
    /// Checks that an operand is of `f32`, `f16` or `bf16`, or of `f8` if that is allowed.
    pub(in crate::kernels) fn check_element(
        operand: &'static str,
        found: Scalar,
        f8: bool,
    ) -> Result<(), RowError> {
        match found {
            Scalar::F32 | Scalar::F16 | Scalar::Bf16 => Ok(()),
            Scalar::F8E4M3 | Scalar::F8E5M2 if f8 => Ok(()),
            _ => {
                let expected = if f8 { "f32, f16, bf16 or an f8" } else { "f32, f16 or bf16" };
                Err(RowError::Element { operand, found, expected })
            }
        }
    }
}
