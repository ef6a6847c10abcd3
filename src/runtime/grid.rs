//! How many threads a launch runs.

/// The blocks of a launch and the threads of each block, along x, y and z.
///
/// ```
/// use tilewright::runtime::Grid;
/// let grid = Grid::cover(1000, 256);
/// assert_eq!((grid.blocks, grid.threads), ([4, 1, 1], [256, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks of the grid along each axis.
    pub blocks: [u32; 3],
    /// Threads of a block along each axis.
    pub threads: [u32; 3],
}

impl Grid {
    /// `blocks` blocks of `threads` threads each.
    pub const fn new(blocks: [u32; 3], threads: [u32; 3]) -> Grid {
        Grid { blocks, threads }
    }

    /// The fewest blocks of `threads` threads along x that have at least `n` threads in all, and at least
    /// one: `max(1, ceil(n / threads))`. More than `u32::MAX` blocks are cut to that, which no device
    /// takes.
    pub fn cover(n: usize, threads: u32) -> Grid {
        let blocks = n.div_ceil(threads.max(1) as usize).max(1);
        Grid::new([u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1], [threads, 1, 1])
    }
}
