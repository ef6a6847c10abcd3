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
/// assert_eq!((config.tile.team, config.tile.vectors, config.tile.cluster), (512, 8, 8));
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

impl RowConfig {
    /// Returns the configuration for rows of these sizes, with elements of this type in the input: 4 vectors for each thread, or 8 of a
    /// row of more than 16 KiB. The smallest cluster holds the row, on a target that has clusters, whose blocks have up to 256 threads, or 512
    /// of rows that are not aligned. Of longer rows, blocks have up to 1024 threads.
    ///
    /// # Errors
    /// [`RowError::Columns`]: 1024 threads, or 8192 where the target has clusters, do not hold a row, with 8 vectors each, or 32 single
    /// elements.
    #[inline]
    pub fn new(target: Target, input: Scalar, problem: &RowProblem) -> Result<RowConfig, RowError> {
        let is_long = u64::from(problem.columns) * u64::from(input.size_bytes()) > 16 << 10;
        // An SM has 1024 threads with 64 registers: some blocks load while others reduce.
        let (vectors, threads) = match problem.access(input) {
            RowAccess::Aligned => (8, 256),
            RowAccess::Ragged => (8, 512),
            RowAccess::Elements => (0, 512),
        };
        let elements = if is_long { vectors * RowTile::vector_len(input) } else { 0 };
        Self::within(target, input, problem, elements.max(MOST_ELEMENTS), threads)
    }

    /// Returns configurations to choose from for rows of these sizes, the one of [`new`](RowConfig::new) first. Threads hold
    /// up to 8, 16, 32 or 64 elements, and blocks have up to 256, 512 or 1024 threads.
    #[inline]
    pub fn candidates(target: Target, input: Scalar, problem: &RowProblem) -> Vec<RowConfig> {
        let mut found = Vec::from_iter(Self::new(target, input, problem));
        for elements in [32, 16, 8, 64] {
            for threads in [512, 256, 1024] {
                let config = Self::within(target, input, problem, elements, threads);
                found.extend(config.ok().filter(|config| !found.contains(config)));
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
        let lanes = RowTile { threads: 128, team: 32, cluster: 1, vectors: most, access };
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

    /// Returns the configuration in which a thread holds at most `elements`, and a block has at most `threads`, or 512 or 1024
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
        let lanes = RowTile { threads: 128, team: 32, cluster: 1, vectors: 1, access };
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
        let sizes = sizes.map(|cluster| (cluster, threads));
        let sizes = sizes.chain([512, MOST_THREADS].map(|threads| (clusters, threads)));
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
        let RowTile { threads, team, cluster, vectors, access: _ } = self.tile;
        let rule = if !threads.is_multiple_of(32) || !(32..=MOST_THREADS).contains(&threads) {
            "a block has 32 to 1024 threads, a multiple of 32"
        } else if team != threads && !(team.is_power_of_two() && team <= 32) {
            "a row is shared by 1, 2, 4, 8, 16 or 32 threads, or by all threads of the block"
        } else if cluster > 1 && team != threads {
            "the blocks of a cluster share one row"
        } else if !cluster.is_power_of_two() || cluster > MOST_BLOCKS {
            "a cluster has 1, 2, 4 or 8 blocks"
        } else if cluster > 1 && !self.target.offers(Target::SM_90) {
            "clusters need sm_90"
        } else if !(1..=64).contains(&vectors) {
            "a thread holds 1 to 64 vectors"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }

    /// Checks that there is a copy with this tile.
    #[inline]
    pub(in crate::kernels) fn check_copy(&self) -> Result<(), RowError> {
        if self.tile.cluster > 1 {
            return Err(RowError::Tile { rule: "a copy has no clusters" });
        }
        self.check()
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
/// then the accesses, unless rows are aligned.
impl fmt::Display for RowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowTile { threads, team, cluster, vectors, access } = self.tile;
        write!(f, "{team}x{vectors}")?;
        if team != threads {
            write!(f, "_rows{}", self.tile.rows_per_block())?;
        }
        if cluster != 1 {
            write!(f, "_cluster{cluster}")?;
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
