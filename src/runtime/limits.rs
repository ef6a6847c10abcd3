//! What a launch may ask of a device.

use super::error::RuntimeError;
use super::grid::Grid;

/// The largest grid and block of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Blocks of a grid along each axis.
    pub blocks: [u32; 3],
    /// Threads of a block along each axis.
    pub threads: [u32; 3],
    /// Threads of a block in all.
    pub threads_per_block: u32,
    /// Bytes of static shared memory of a block.
    pub shared_bytes: u64,
}

impl Limits {
    /// The limits that all targets share (CUDA C++ Programming Guide, "Technical Specifications per Compute
    /// Capability"); those of the simulator.
    pub const EVERY_TARGET: Limits = Limits {
        blocks: [i32::MAX as u32, 65_535, 65_535],
        threads: [1024, 1024, 64],
        threads_per_block: 1024,
        shared_bytes: 48 * 1024,
    };

    /// Checks a grid, for the kernel `kernel` that fixes its block to `block`, if it does.
    ///
    /// # Errors
    /// [`EmptyGrid`](RuntimeError::EmptyGrid), [`GridTooLarge`](RuntimeError::GridTooLarge),
    /// [`BlockTooLarge`](RuntimeError::BlockTooLarge), [`BlockNotAsBuilt`](RuntimeError::BlockNotAsBuilt).
    ///
    /// ```
    /// use tilewright::runtime::{Grid, Limits, RuntimeError};
    /// let limits = Limits::EVERY_TARGET;
    /// assert_eq!(limits.check("k", None, Grid::cover(1000, 256)), Ok(()));
    /// assert!(matches!(
    ///     limits.check("k", None, Grid::cover(1000, 2048)),
    ///     Err(RuntimeError::BlockTooLarge { .. })
    /// ));
    /// ```
    pub fn check(
        &self,
        kernel: &str,
        block: Option<[u32; 3]>,
        grid: Grid,
    ) -> Result<(), RuntimeError> {
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
        match block {
            Some(built) if built != grid.threads => Err(RuntimeError::BlockNotAsBuilt {
                kernel: kernel.to_owned(),
                built,
                given: grid.threads,
            }),
            _ => Ok(()),
        }
    }
}

fn exceeds(extent: [u32; 3], limit: [u32; 3]) -> bool {
    extent.iter().zip(limit).any(|(extent, limit)| *extent > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid is taken exactly when each extent and the threads in all are within the limits.
    #[test]
    fn extents_at_the_limit_are_taken_and_one_more_is_not() {
        let limits = Limits::EVERY_TARGET;
        let check = |blocks, threads| limits.check("k", None, Grid::new(blocks, threads));
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

    #[test]
    fn a_fixed_block_is_kept() {
        let check =
            |given| Limits::EVERY_TARGET.check("k", Some([8, 4, 1]), Grid::new([1, 1, 1], given));
        assert_eq!(check([8, 4, 1]), Ok(()));
        let (kernel, built, given) = ("k".to_owned(), [8, 4, 1], [32, 1, 1]);
        assert_eq!(check(given), Err(RuntimeError::BlockNotAsBuilt { kernel, built, given }));
    }
}
