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
    /// Returns the configuration for rows of these sizes, with elements of this type in the input. Rows of more than
    /// 16 KiB are pipelined on a target with enough shared memory, and rows of more than 128 KiB are shared by clusters of small
    /// blocks there.
    ///
    /// # Errors
    /// [`RowError::Columns`]: rows are longer than 32,768 elements, or than 262,144 where the target has clusters.
    pub fn new(target: Target, input: Scalar, problem: &RowProblem) -> Result<RowConfig, RowError> {
        Self::pipelined_above([16 << 10, 128 << 10], target, input, problem)
    }

    /// As [`new`](RowConfig::new), for a kernel whose rows are pipelined from another number of bytes on, and shared by small
    /// blocks from another one on.
    pub(in crate::kernels) fn pipelined_above(
        [pipelined, small_blocks]: [u32; 2],
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Result<RowConfig, RowError> {
        // With 512 threads, two blocks of an SM have 64 registers for each thread.
        let plain = Self::within(target, input, problem, MOST_ELEMENTS, 512)?;
        let bytes = plain.tile.sharers() * plain.tile.vectors * RowTile::VECTOR_BYTES;
        if bytes <= pipelined {
            return Ok(plain);
        }
        if bytes > small_blocks {
            // The blocks of an SM work while others wait for their clusters.
            let max = 8 * plain.tile.vector(input);
            let small = [256, 512].into_iter().find_map(|threads| {
                let config = Self::within(target, input, problem, max, threads).ok()?;
                (config.tile.threads <= threads).then(|| config.pipelined()).flatten()
            });
            if let Some(small) = small {
                return Ok(small);
            }
        }
        let max = (4 * plain.tile.vector(input)).min(MOST_ELEMENTS);
        let long = [512, 1024].into_iter().find_map(|threads| {
            let config = Self::within(target, input, problem, max, threads).ok()?;
            // One block rather than a cluster.
            (config.tile.cluster == 1 || threads == 1024).then(|| config.pipelined()).flatten()
        });
        Ok(long.unwrap_or(plain))
    }

    /// Returns configurations to choose from for rows of these sizes, the one of [`new`](RowConfig::new) first. Threads hold
    /// up to 8, 16, 32 or 64 elements, and blocks have up to 256, 512 or 1024 threads; each also pipelined, where it can be.
    pub fn candidates(target: Target, input: Scalar, problem: &RowProblem) -> Vec<RowConfig> {
        let mut found = Vec::from_iter(Self::new(target, input, problem));
        for elements in [32, 16, 8, 64] {
            for threads in [512, 256, 1024] {
                let Ok(config) = Self::within(target, input, problem, elements, threads) else {
                    continue;
                };
                for config in [Some(config), config.pipelined()].into_iter().flatten() {
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
    pub(in crate::kernels) fn of_copy(
        target: Target,
        elem: Scalar,
        access: RowAccess,
        columns: u32,
    ) -> RowConfig {
        // Ragged rows have up to 3 vectors of single elements, so short ones have no others.
        let access = match access {
            RowAccess::Aligned => access,
            _ if columns * elem.size_bytes() < 8 * RowTile::VECTOR_BYTES => RowAccess::Elements,
            _ => RowAccess::Ragged,
        };
        // Single elements are short: a thread has more of them in flight.
        let most = if access == RowAccess::Elements { 8 } else { 4 };
        let (cluster, pipelined) = (1, false);
        let lanes = RowTile { threads: 128, team: 32, cluster, vectors: most, access, pipelined };
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

    /// The same with the next row in flight: where a block shares a row in vectors, and shared memory has the vectors of two
    /// inputs.
    fn pipelined(&self) -> Option<RowConfig> {
        let RowTile { threads, team, vectors, access, .. } = self.tile;
        let bytes = 2 * u64::from(threads * vectors * RowTile::VECTOR_BYTES) + 4096;
        let fits = bytes <= self.target.max_shared_bytes() && self.target.offers(Target::SM_90);
        let tile = RowTile { pipelined: true, ..self.tile };
        let possible = team == threads && access != RowAccess::Elements && fits;
        possible.then_some(RowConfig { tile, ..*self })
    }

    /// Returns the configuration in which a thread holds at most `elements`, and a block has at most `threads`, or 1024
    /// where no cluster would hold the row.
    fn within(
        target: Target,
        input: Scalar,
        problem: &RowProblem,
        elements: u32,
        threads: u32,
    ) -> Result<RowConfig, RowError> {
        let access = problem.access(input);
        let lanes =
            RowTile { threads: 128, team: 32, cluster: 1, vectors: 1, access, pipelined: false };
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
    pub fn check(&self) -> Result<(), RowError> {
        let RowTile { threads, team, cluster, vectors, pipelined, access: _ } = self.tile;
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
        } else if pipelined && team != threads {
            "all threads of a block share a row that is pipelined"
        } else if !(1..=64).contains(&vectors) {
            "a thread holds 1 to 64 vectors"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }

    /// Checks that there is a copy with this tile.
    pub(in crate::kernels) fn check_copy(&self) -> Result<(), RowError> {
        if self.tile.cluster > 1 || self.tile.pipelined {
            return Err(RowError::Tile { rule: "a copy has no clusters, and is not pipelined" });
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
    pub fn check_problem(&self, input: Scalar, problem: &RowProblem) -> Result<[u64; 2], RowError> {
        problem.check(&self.tile, input, self.tile.capacity(input))
    }
}

/// The name of the configuration: `128x4` for rows that 128 threads share with 4 vectors each; `32x2_rows4` where a block
/// has 4 rows; `1024x4_cluster8` where a cluster of 8 blocks shares a row;
/// `512x4_pipelined` where the next row is in flight; then the accesses, unless rows are aligned.
impl fmt::Display for RowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowTile { threads, team, cluster, vectors, access, pipelined } = self.tile;
        write!(f, "{team}x{vectors}")?;
        if team != threads {
            write!(f, "_rows{}", self.tile.rows_per_block())?;
        }
        if cluster != 1 {
            write!(f, "_cluster{cluster}")?;
        }
        if pipelined {
            f.write_str("_pipelined")?;
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
