//! [`RowConfig`]: the target of a row kernel, and how its threads share a row. Softmax, norm, row
//! reduction, top-k and gather configurations contain one.

use std::fmt;

use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::rows::{RowAccess, RowTile};

use super::error::RowError;
use super::problem::RowProblem;

/// The configuration that all row kernels share: the target, and how threads share a row.
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
    /// How many threads share a row, and how many elements each holds.
    pub tile: RowTile,
}

/// Limits: threads per block, and blocks per cluster.
const MOST_THREADS: u32 = 1024;
pub(super) const MOST_BLOCKS: u32 = 8;
/// Elements that a thread holds at most, because 1024 threads have 64 registers each.
const MOST_ELEMENTS: u32 = 32;

impl RowConfig {
    /// Returns the configuration for rows of this size with input elements of this type.
    ///
    /// A thread holds up to 32 elements, or 8 vectors in rows of more than 16 KiB. Up to 32 lanes
    /// of a warp share a short row; a block shares a longer one, or the smallest cluster that holds
    /// it, if the target has clusters. Blocks have up to 256 threads (512 for unaligned rows), and
    /// up to 1024 only if no cluster would hold the row otherwise.
    ///
    /// # Errors
    /// [`RowError::NoTile`] if a row does not fit in 1024 threads (8192 with clusters) with 8
    /// vectors or 32 single elements each.
    #[inline]
    pub fn new(target: Target, input: Scalar, problem: &RowProblem) -> Result<RowConfig, RowError> {
        let is_long = u64::from(problem.columns) * u64::from(input.size_bytes()) > 16 << 10;
        // With 64 registers per thread an SM has 1024 threads: some blocks load while others
        // reduce.
        let (vectors, threads) = match problem.access(input) {
            RowAccess::Aligned => (8, 256),
            RowAccess::Ragged => (8, 512),
            RowAccess::Elements => (0, 512),
        };
        let elements = if is_long { vectors * RowTile::vector_len(input) } else { 0 };
        Self::within(target, input, problem, elements.max(MOST_ELEMENTS), threads)
    }

    /// Returns configurations for a tuner to try, that of [`new`](RowConfig::new) first. Threads
    /// hold up to 8, 16, 32 or 64 elements, and blocks have up to 256, 512 or 1024 threads.
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

    /// Returns the configuration for copying rows: with aligned accesses if possible, otherwise
    /// ragged. Rows longer than the tile take several steps.
    #[inline]
    pub(in crate::kernels) fn of_copy(
        target: Target,
        elem: Scalar,
        access: RowAccess,
        columns: u32,
    ) -> RowConfig {
        // A ragged row has up to 3 vectors' worth of single elements, so short rows use single
        // elements only.
        let access = match access {
            RowAccess::Aligned => access,
            _ if columns < 8 * RowTile::VECTOR_BYTES / elem.size_bytes().max(1) => {
                RowAccess::Elements
            }
            _ => RowAccess::Ragged,
        };
        // Single elements are small, so each thread has more of them in flight.
        let most = if access == RowAccess::Elements { 8 } else { 4 };
        let lanes = RowTile { threads: 128, team: 32, cluster: 1, vectors: most, access };
        let vectors = columns.div_ceil(lanes.vector(elem)).max(1);
        // From 8 vectors on, each thread has two in flight, and at least 4 neighbouring threads
        // share the row.
        let sharers = if vectors < 8 { vectors } else { vectors.div_ceil(2) };
        let team = sharers.next_power_of_two().min(32);
        let tile = match vectors.div_ceil(team) {
            vectors if vectors <= most => RowTile { team, vectors, ..lanes },
            _ => RowTile { team: 128, ..lanes },
        };
        RowConfig { target, tile }
    }

    /// Returns configurations for a tuner to try when copying rows, that of
    /// [`of_copy`](RowConfig::of_copy) first: 4 to 32 lanes or a block share a row, and each thread
    /// moves 1 to 8 vectors at once.
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
                // A row has a vector for each thread, and takes at most 16 steps if only some lanes
                // share it.
                let fits = team <= all && (team == threads || all <= 16 * team * vectors);
                if fits && !found.contains(&config) {
                    found.push(config);
                }
            }
        }
        found
    }

    /// Returns a configuration in which a thread holds at most `elements` elements and a block has
    /// at most `threads` threads, or 512 or 1024 if no cluster would hold the row otherwise.
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
        Err(RowError::NoTile { columns: problem.columns, target, max })
    }

    /// Checks that a kernel can be built with this tile.
    ///
    /// # Errors
    /// [`RowError::Tile`] says which rule is broken.
    #[inline]
    pub fn check(&self) -> Result<(), RowError> {
        let RowTile { threads, team, cluster, vectors, access: _ } = self.tile;
        let rule = if !threads.is_multiple_of(32) || !(32..=MOST_THREADS).contains(&threads) {
            "a block must have a multiple of 32 threads from 32 to 1024"
        } else if team != threads && !(team.is_power_of_two() && team <= 32) {
            "1, 2, 4, 8, 16 or 32 threads must share a row, or all threads of the block"
        } else if cluster > 1 && team != threads {
            "with clusters, all threads of a block must share one row"
        } else if !cluster.is_power_of_two() || cluster > MOST_BLOCKS {
            "a cluster must have 1, 2, 4 or 8 blocks"
        } else if cluster > 1 && !self.target.offers(Target::SM_90) {
            "clusters need sm_90"
        } else if !(1..=64).contains(&vectors) {
            "a thread must hold 1 to 64 vectors"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }

    /// Checks that a copy can be built with this tile.
    #[inline]
    pub(in crate::kernels) fn check_copy(&self) -> Result<(), RowError> {
        if self.tile.cluster > 1 {
            return Err(RowError::Tile { rule: "a copy cannot use clusters" });
        }
        self.check()
    }

    /// Returns the tile that a copy's launch is checked with: ragged rows may start anywhere, as
    /// single elements may.
    pub(in crate::kernels) fn tile_of_copy(&self) -> RowTile {
        let access = match self.tile.access {
            RowAccess::Aligned => RowAccess::Aligned,
            RowAccess::Ragged | RowAccess::Elements => RowAccess::Elements,
        };
        RowTile { access, ..self.tile }
    }

    /// Checks that the kernel can process rows of this size with input elements of this type.
    /// Returns the row pitches of input and output.
    ///
    /// # Errors
    /// [`RowError::Columns`], [`RowError::Rows`], [`RowError::Access`], [`RowError::Pitch`] or
    /// [`RowError::TooLarge`].
    #[inline]
    pub fn check_problem(&self, input: Scalar, problem: &RowProblem) -> Result<[u64; 2], RowError> {
        problem.check(&self.tile, input, self.tile.capacity(input))
    }
}

/// Prints the configuration's name: `128x4` if 128 threads share a row and hold 4 vectors each,
/// `32x2_rows4` if a block has 4 rows, `1024x4_cluster8` if a cluster of 8 blocks shares a row. The
/// access follows unless rows are aligned, for example `128x4_ragged`.
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
    /// Checks that an operand's type is `f32`, `f16` or `bf16`, or an `f8` if that is allowed.
    pub(in crate::kernels) fn check_element(
        operand: &'static str,
        found: Scalar,
        f8: bool,
    ) -> Result<(), RowError> {
        match found {
            Scalar::F32 | Scalar::F16 | Scalar::Bf16 => Ok(()),
            Scalar::F8E4M3 | Scalar::F8E5M2 if f8 => Ok(()),
            _ => {
                let expected =
                    if f8 { "f32, f16, bf16 or an 8-bit float" } else { "f32, f16 or bf16" };
                Err(RowError::Element { operand, found, expected })
            }
        }
    }
}
