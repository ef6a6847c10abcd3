//! Defines [`Limits`]: the largest grid, block, cluster and shared memory that a device takes.
//! Launches are checked against it.

use super::error::RuntimeError;
use crate::ir::{KernelIr, LaunchBounds, Target};
use crate::launch::grid::Grid;

/// A device's limits for the grid, the block, the cluster and the shared memory of a launch, from
/// [`Device::limits`](super::Device::limits). Each launch is checked against them; read them if
/// your program computes its block or tile size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum blocks per grid along each axis.
    pub blocks: [u32; 3],
    /// Maximum threads per block along each axis.
    pub threads: [u32; 3],
    /// Maximum threads per block.
    pub threads_per_block: u32,
    /// Maximum static shared memory per block, in bytes.
    pub shared_bytes: u64,
    /// Maximum shared memory per block in bytes, static and dynamic together, for a kernel that
    /// opts in. [`Device::load`](super::Device::load) opts in if a kernel needs it.
    pub shared_bytes_opt_in: u64,
    /// Maximum blocks per cluster; 1 if the device has no clusters.
    pub cluster_blocks: u32,
}

impl Limits {
    /// The limits that hold for every target (CUDA C++ Programming Guide, "Technical Specifications
    /// per Compute Capability"). Use them if a configuration must run on any GPU.
    pub const EVERY_TARGET: Limits = Limits {
        blocks: [i32::MAX as u32, 65_535, 65_535],
        threads: [1024, 1024, 64],
        threads_per_block: 1024,
        shared_bytes: KernelIr::MAX_STATIC_SHARED_BYTES,
        shared_bytes_opt_in: 99 * 1024,
        cluster_blocks: 1,
    };

    /// The simulator's limits: the largest of any target, because the simulator runs kernels for
    /// all of them.
    pub const SIMULATOR: Limits = Limits {
        shared_bytes_opt_in: Target::SM_90A.max_shared_bytes(),
        cluster_blocks: LaunchBounds::MAX_CLUSTER,
        ..Limits::EVERY_TARGET
    };

    /// Returns bounds within which a grid without clusters is valid. [`Function`](super::Function)
    /// computes them once, so that most launches need not call [`Limits::check`].
    pub(super) fn plain_grids(&self, bounds: &LaunchBounds) -> PlainGrids {
        let threads_per_block = bounds.max_threads.unwrap_or(u32::MAX).min(self.threads_per_block);
        PlainGrids {
            max_blocks: if bounds.cluster.is_none() { self.blocks } else { [0; 3] },
            min_threads: bounds.block.unwrap_or([1; 3]),
            max_threads: [0, 1, 2].map(|axis| {
                bounds.block.map_or(u32::MAX, |block| block[axis]).min(self.threads[axis])
            }),
            threads_per_block,
        }
    }

    /// Returns an error if the kernel `kernel`, which was built with `bounds`, cannot run on
    /// `grid`. A launch does this by itself; call it to check a grid early. Returns the blocks per
    /// cluster along each axis, which is `[1, 1, 1]` without clusters.
    ///
    /// # Errors
    /// [`EmptyGrid`](RuntimeError::EmptyGrid), [`GridTooLarge`](RuntimeError::GridTooLarge),
    /// [`BlockTooLarge`](RuntimeError::BlockTooLarge),
    /// [`BlockNotAsBuilt`](RuntimeError::BlockNotAsBuilt),
    /// [`MoreThreadsThanBuilt`](RuntimeError::MoreThreadsThanBuilt),
    /// [`Cluster`](RuntimeError::Cluster).
    ///
    /// ```
    /// use tilewright::runtime::{Grid, Limits, RuntimeError};
    /// use tilewright::ir::LaunchBounds;
    /// let (limits, bounds) = (Limits::EVERY_TARGET, LaunchBounds::default());
    /// assert_eq!(limits.check("k", &bounds, Grid::cover(1000, 256)), Ok([1, 1, 1]));
    /// assert!(matches!(
    ///     limits.check("k", &bounds, Grid::cover(1000, 2048)),
    ///     Err(RuntimeError::BlockTooLarge { .. })
    /// ));
    /// ```
    #[inline]
    pub fn check(
        &self,
        kernel: &str,
        bounds: &LaunchBounds,
        grid: Grid,
    ) -> Result<[u32; 3], RuntimeError> {
        if grid.blocks.contains(&0) || grid.threads.contains(&0) {
            return Err(RuntimeError::EmptyGrid { grid });
        }
        if exceeds(grid.blocks, self.blocks) {
            return Err(RuntimeError::GridTooLarge { blocks: grid.blocks, limit: self.blocks });
        }
        let threads = grid.threads.iter().fold(1u64, |all, n| all.saturating_mul(u64::from(*n)));
        if exceeds(grid.threads, self.threads) || threads > u64::from(self.threads_per_block) {
            return Err(RuntimeError::BlockTooLarge {
                threads: grid.threads,
                limit: self.threads,
                limit_in_all: self.threads_per_block,
            });
        }
        if let Some(built) = bounds.block.filter(|built| *built != grid.threads) {
            let (kernel, given) = (kernel.to_owned(), grid.threads);
            return Err(RuntimeError::BlockNotAsBuilt { kernel, built, given });
        }
        if let Some(built) = bounds.max_threads.filter(|built| u64::from(*built) < threads) {
            let (kernel, given) = (kernel.to_owned(), grid.threads);
            return Err(RuntimeError::MoreThreadsThanBuilt { kernel, built, given });
        }
        grid.cluster_blocks(bounds, self.cluster_blocks)
            .map_err(|error| RuntimeError::Cluster { kernel: kernel.to_owned(), error })
    }
}

/// Bounds within which a grid is valid, so that a few comparisons are enough for nearly every
/// launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainGrids {
    max_blocks: [u32; 3],
    min_threads: [u32; 3],
    max_threads: [u32; 3],
    threads_per_block: u32,
}

impl PlainGrids {
    /// Returns whether `grid` is within the bounds.
    #[inline]
    pub(super) fn has(&self, grid: Grid) -> bool {
        let Grid { blocks, threads, cluster } = grid;
        let in_axis = |axis: usize| {
            let is_extent = (1..=self.max_blocks[axis]).contains(&blocks[axis]);
            is_extent & (self.min_threads[axis]..=self.max_threads[axis]).contains(&threads[axis])
        };
        let all = u64::from(threads[0]) * u64::from(threads[1]);
        let is_small = all.saturating_mul(threads[2].into()) <= self.threads_per_block.into();
        in_axis(0) & in_axis(1) & in_axis(2) & is_small & cluster.is_none()
    }
}

#[inline]
fn exceeds(extent: [u32; 3], limit: [u32; 3]) -> bool {
    extent.iter().zip(limit).any(|(extent, limit)| *extent > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid is accepted exactly if each extent and the thread count are within the limits.
    #[test]
    fn extents_at_the_limit_are_taken_and_one_more_is_not() {
        let limits = Limits::EVERY_TARGET;
        let bounds = LaunchBounds::default();
        let check =
            |blocks, threads| limits.check("k", &bounds, Grid::new(blocks, threads)).map(|_| ());
        for axis in 0..3 {
            let mut blocks = [1; 3];
            blocks[axis] = limits.blocks[axis];
            assert_eq!(check(blocks, [1; 3]), Ok(()));
            blocks[axis] += 1;
            let limit = limits.blocks;
            assert_eq!(check(blocks, [1; 3]), Err(RuntimeError::GridTooLarge { blocks, limit }));
            blocks[axis] = 0;
            let grid = Grid::new(blocks, [1; 3]);
            assert_eq!(check(blocks, [1; 3]), Err(RuntimeError::EmptyGrid { grid }));

            let mut threads = [1; 3];
            threads[axis] = limits.threads[axis];
            assert_eq!(check([1; 3], threads), Ok(()));
            threads[axis] += 1;
            assert!(matches!(check([1; 3], threads), Err(RuntimeError::BlockTooLarge { .. })));
        }
        assert_eq!(check([1; 3], [16, 16, 4]), Ok(()));
        assert!(matches!(check([1; 3], [16, 16, 5]), Err(RuntimeError::BlockTooLarge { .. })));
        assert!(matches!(
            check([1; 3], [u32::MAX, u32::MAX, u32::MAX]),
            Err(RuntimeError::BlockTooLarge { .. })
        ));
    }

    /// For grids without clusters, the fast check agrees with the full one.
    #[test]
    fn plain_grids_are_those_that_are_taken_without_clusters() {
        use crate::ir::ClusterShape;
        let limits =
            Limits { threads_per_block: 512, threads: [512, 512, 64], ..Limits::SIMULATOR };
        let all = [
            LaunchBounds::default(),
            LaunchBounds { max_threads: Some(96), ..LaunchBounds::default() },
            LaunchBounds { block: Some([8, 4, 1]), ..LaunchBounds::default() },
            LaunchBounds { block: Some([1024, 1, 1]), ..LaunchBounds::default() },
        ];
        let extents = [0, 1, 4, 8, 12, 64, 65, 512, 513, 65_536];
        let axes: Vec<[u32; 3]> = extents
            .iter()
            .flat_map(|x| extents.iter().flat_map(|y| extents.iter().map(|z| [*x, *y, *z])))
            .collect();
        let mut plain = 0;
        for bounds in &all {
            let grids = limits.plain_grids(bounds);
            let mut check = |grid: Grid| {
                assert_eq!(grids.has(grid), limits.check("k", bounds, grid).is_ok(), "{grid:?}");
                plain += usize::from(grids.has(grid));
                assert!(!grids.has(grid.cluster([1, 1, 1])));
            };
            for axes in &axes {
                check(Grid::new([1, 1, 1], *axes));
                check(Grid::new(*axes, bounds.block.unwrap_or([32, 1, 1])));
            }
        }
        assert!(plain > 1000, "{plain}");
        for cluster in [ClusterShape::AtLaunch, ClusterShape::Fixed([1, 1, 1])] {
            let bounds = LaunchBounds { cluster: Some(cluster), ..LaunchBounds::default() };
            assert!(!limits.plain_grids(&bounds).has(Grid::new([1, 1, 1], [32, 1, 1])));
        }
    }

    #[test]
    fn a_fixed_block_is_kept() {
        let bounds = LaunchBounds { block: Some([8, 4, 1]), ..LaunchBounds::default() };
        let check = |given| Limits::EVERY_TARGET.check("k", &bounds, Grid::new([1, 1, 1], given));
        assert_eq!(check([8, 4, 1]), Ok([1, 1, 1]));
        let (kernel, built, given) = ("k".to_owned(), [8, 4, 1], [32, 1, 1]);
        assert_eq!(check(given), Err(RuntimeError::BlockNotAsBuilt { kernel, built, given }));
    }

    #[test]
    fn a_block_has_no_more_threads_than_the_kernel_is_built_for() {
        let bounds = LaunchBounds { max_threads: Some(96), ..LaunchBounds::default() };
        let check = |given| Limits::SIMULATOR.check("k", &bounds, Grid::new([1, 1, 1], given));
        assert!(check([96, 1, 1]).is_ok() && check([1, 1, 1]).is_ok());
        let (kernel, built, given) = ("k".to_owned(), 96, [97, 1, 1]);
        assert_eq!(check(given), Err(RuntimeError::MoreThreadsThanBuilt { kernel, built, given }));
    }
}
