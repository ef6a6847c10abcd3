//! [`Grid`]: how many blocks, threads and clusters a launch starts. [`ClusterError`] says why a
//! kernel cannot run with the clusters of a launch.

use crate::errors::errors;
use std::fmt;

use crate::ir::{ClusterShape, LaunchBounds};

/// The size of a launch: how many blocks it starts and how many threads each block has, along x, y
/// and z. Every launch takes one. For a one-dimensional launch, use [`Grid::cover`].
///
/// ```
/// use tilewright::runtime::Grid;
/// let grid = Grid::cover(1000, 256);
/// assert_eq!((grid.blocks, grid.threads), ([4, 1, 1], [256, 1, 1]));
/// assert_eq!(grid.cluster([2, 1, 1]).cluster, Some([2, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// How many blocks the grid has along each axis.
    pub blocks: [u32; 3],
    /// How many threads a block has along each axis.
    pub threads: [u32; 3],
    /// How many blocks a cluster has along each axis. If it is `None`, the launch uses the cluster
    /// shape that the kernel was built for, or no clusters if it was built for none.
    pub cluster: Option<[u32; 3]>,
}

impl Grid {
    /// Makes a grid of `blocks` blocks with `threads` threads each, without a cluster shape.
    pub const fn new(blocks: [u32; 3], threads: [u32; 3]) -> Grid {
        Grid { blocks, threads, cluster: None }
    }

    /// Returns the smallest one-dimensional grid with at least one thread for each of `n` elements:
    /// `max(1, ceil(n / threads))` blocks of `threads` threads. It has at least one block, even if
    /// `n` is 0, and the kernel must skip the threads from index `n` on. If more than `u32::MAX`
    /// blocks are needed, the grid gets `u32::MAX` blocks, and the launch fails.
    pub fn cover(n: usize, threads: u32) -> Grid {
        let blocks = n.div_ceil(threads.max(1) as usize).max(1);
        Grid::new([u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1], [threads, 1, 1])
    }

    /// Returns the same grid with clusters of `blocks` blocks along each axis. Each count must
    /// divide the grid's block count along that axis. You need it if the kernel leaves its cluster
    /// shape to the launch.
    pub const fn cluster(self, blocks: [u32; 3]) -> Grid {
        Grid { cluster: Some(blocks), ..self }
    }

    /// Returns how many blocks a cluster has along each axis when a kernel with `bounds` is
    /// launched with this grid, or `[1, 1, 1]` if there are no clusters. `limit` is the most blocks
    /// that the device allows in a cluster. A launch calls it for you; call it to check a grid in
    /// advance.
    ///
    /// # Errors
    /// Returns a [`ClusterError`] if the grid, the kernel and the device do not agree on a cluster
    /// shape.
    ///
    /// ```
    /// use tilewright::ir::{ClusterShape, LaunchBounds};
    /// use tilewright::runtime::{ClusterError, Grid};
    /// let pairs = LaunchBounds { cluster: Some(ClusterShape::Fixed([2, 1, 1])), ..Default::default() };
    /// assert_eq!(Grid::cover(1024, 256).cluster_blocks(&pairs, 8), Ok([2, 1, 1]));
    /// let (blocks, cluster) = ([3, 1, 1], [2, 1, 1]);
    /// assert_eq!(
    ///     Grid::cover(768, 256).cluster_blocks(&pairs, 8),
    ///     Err(ClusterError::NotWhole { blocks, cluster })
    /// );
    /// ```
    #[inline]
    pub fn cluster_blocks(
        &self,
        bounds: &LaunchBounds,
        limit: u32,
    ) -> Result<[u32; 3], ClusterError> {
        let portable = limit.min(LaunchBounds::PORTABLE_CLUSTER);
        let (cluster, limit) = match (bounds.cluster, self.cluster) {
            (None, None) => return Ok([1; 3]),
            (None, Some(given)) => (given, portable),
            (Some(ClusterShape::AtLaunch), Some(given)) => (given, limit),
            (Some(ClusterShape::AtLaunch), None) => return Err(ClusterError::NotNamed),
            (Some(ClusterShape::Fixed(built)), None) => (built, limit),
            (Some(ClusterShape::Fixed(built)), Some(given)) if built == given => (built, limit),
            (Some(ClusterShape::Fixed(built)), Some(given)) => {
                return Err(ClusterError::NotAsBuilt { built, given });
            }
        };
        let blocks = self.blocks;
        if cluster.iter().zip(blocks).any(|(n, blocks)| *n == 0 || !blocks.is_multiple_of(*n)) {
            return Err(ClusterError::NotWhole { blocks, cluster });
        }
        let all = cluster.iter().fold(1u64, |all, n| all.saturating_mul(u64::from(*n)));
        if all > u64::from(limit) {
            return Err(ClusterError::TooLarge { cluster, limit });
        }
        Ok(cluster)
    }
}

errors! {
    /// Why the cluster shape of a kernel, the grid of a launch and the limits of a device do not
    /// fit together. [`Grid::cluster_blocks`] and every launch return it.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ClusterError {
        /// The kernel fixes other clusters than the launch names.
        NotAsBuilt {
            /// The blocks along each axis that the kernel is built for.
            built: [u32; 3],
            /// The blocks along each axis of the launch.
            given: [u32; 3],
        } = |f| write!(
            f,
            "it is built for clusters of {} blocks, but is launched with {}",
            Extent(*built),
            Extent(*given)
        ),
        /// it leaves the cluster size to the launch, which sets none: call `Grid::cluster`
        NotNamed,
        /// The blocks of the grid do not make whole clusters.
        NotWhole {
            /// The blocks of the grid along each axis.
            blocks: [u32; 3],
            /// The blocks of a cluster along each axis.
            cluster: [u32; 3],
        } = |f| write!(
            f,
            "a grid of {} blocks cannot be divided into clusters of {}: round its blocks up along \
                     each axis",
            Extent(*blocks),
            Extent(*cluster)
        ),
        /// More blocks than a cluster can have.
        TooLarge {
            /// The blocks of a cluster along each axis.
            cluster: [u32; 3],
            /// The most blocks that a cluster may have in total. It is 1 on a device without
            /// clusters.
            limit: u32,
        } = |f| match limit {
            1 => write!(
                f,
                "the device has no clusters, but {} blocks per cluster are asked for: use a GPU with `sm_90` or newer",
                Extent(*cluster)
            ),
            limit => write!(
                f,
                "a cluster of {} blocks is too large: at most {limit} in all are possible{}",
                Extent(*cluster),
                if *limit == LaunchBounds::PORTABLE_CLUSTER {
                    ", unless the kernel is built for larger ones (`KernelOptions::cluster`)"
                } else {
                    ""
                }
            ),
        },
    }
}
crate::errors::message_as_debug!(ClusterError);

/// `128 x 1 x 1`
pub(crate) struct Extent(pub(crate) [u32; 3]);

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x} x {y} x {z}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(cluster: Option<ClusterShape>) -> LaunchBounds {
        LaunchBounds { cluster, ..LaunchBounds::default() }
    }

    /// Kernel and launch agree, the grid is whole clusters, the device has room: else the reason is
    /// named.
    #[test]
    fn clusters_are_those_of_the_kernel_or_of_the_launch() {
        let grid = Grid::new([8, 6, 1], [32, 1, 1]);
        let [plain, at_launch, pairs, sixteen] = [
            None,
            Some(ClusterShape::AtLaunch),
            Some(ClusterShape::Fixed([2, 1, 1])),
            Some(ClusterShape::Fixed([8, 2, 1])),
        ]
        .map(bounds);
        let not_whole = |cluster| Err(ClusterError::NotWhole { blocks: grid.blocks, cluster });
        let too_large = |cluster, limit| Err(ClusterError::TooLarge { cluster, limit });
        let cases = [
            (plain, None, 1, Ok([1, 1, 1])),
            (plain, Some([4, 2, 1]), 16, Ok([4, 2, 1])),
            (plain, Some([1, 1, 1]), 1, Ok([1, 1, 1])),
            (plain, Some([2, 1, 1]), 1, too_large([2, 1, 1], 1)),
            (plain, Some([8, 2, 1]), 16, too_large([8, 2, 1], 8)),
            (plain, Some([3, 1, 1]), 16, not_whole([3, 1, 1])),
            (plain, Some([1, 0, 1]), 16, not_whole([1, 0, 1])),
            (plain, Some([1, 1, 2]), 16, not_whole([1, 1, 2])),
            (at_launch, None, 16, Err(ClusterError::NotNamed)),
            (at_launch, Some([8, 2, 1]), 16, Ok([8, 2, 1])),
            (at_launch, Some([8, 3, 1]), 16, too_large([8, 3, 1], 16)),
            (pairs, None, 8, Ok([2, 1, 1])),
            (pairs, Some([2, 1, 1]), 8, Ok([2, 1, 1])),
            (pairs, None, 1, too_large([2, 1, 1], 1)),
            (
                pairs,
                Some([1, 2, 1]),
                8,
                Err(ClusterError::NotAsBuilt { built: [2, 1, 1], given: [1, 2, 1] }),
            ),
            (sixteen, None, 16, Ok([8, 2, 1])),
            (sixteen, None, 8, too_large([8, 2, 1], 8)),
        ];
        for (bounds, given, limit, expected) in cases {
            let grid = Grid { cluster: given, ..grid };
            assert_eq!(grid.cluster_blocks(&bounds, limit), expected, "{bounds:?} {given:?}");
        }
    }

    #[test]
    fn errors_of_clusters_name_their_cure() {
        let built = [2, 1, 1];
        let sentences = [
            (
                ClusterError::NotAsBuilt { built, given: [1, 2, 1] },
                "it is built for clusters of 2 x 1 x 1 blocks, but is launched with 1 x 2 x 1",
            ),
            (
                ClusterError::NotWhole { blocks: [3, 1, 1], cluster: built },
                "a grid of 3 x 1 x 1 blocks cannot be divided into clusters of 2 x 1 x 1: round its \
                 blocks up along each axis",
            ),
            (
                ClusterError::TooLarge { cluster: [16, 1, 1], limit: 8 },
                "a cluster of 16 x 1 x 1 blocks is too large: at most 8 in all are possible, unless the kernel is \
                 built for larger ones (`KernelOptions::cluster`)",
            ),
            (
                ClusterError::TooLarge { cluster: built, limit: 1 },
                "the device has no clusters, but 2 x 1 x 1 blocks per cluster are asked for: use a GPU with `sm_90` or newer",
            ),
        ];
        for (error, sentence) in sentences {
            assert_eq!(error.to_string(), sentence);
        }
        assert!(ClusterError::NotNamed.to_string().contains("call `Grid::cluster`"));
    }
}
