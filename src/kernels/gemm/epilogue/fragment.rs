//! [`Fragment`]: which elements of D a thread's accumulators become, and where its warp and lane
//! are in the tile. Reductions need this to know what belongs to the same row or column.

use crate::ir::{Body, Val};
use crate::layout::{Layout, LayoutError};
use crate::tensor::atom::{Operand, TiledMma};
use crate::tensor::pipeline::Tile;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::methods::Schedule;

/// An element of D: the two registers that make it (twice the same without `pairs`), and its offset
/// from the thread's first element.
#[derive(Clone, Copy)]
pub(crate) struct FragmentElement {
    pub(crate) registers: [u32; 2],
    pub(crate) offset: [i32; 2],
}

/// The (row, column, matrix) in D of a thread's first element, and the ends of the tile's rows and
/// columns if they are not those of D.
pub(crate) type FirstElement<'b> = ([Val<'b, i32>; 3], [Option<Val<'b, i32>>; 2]);

/// A thread's elements of D in a tile. Arrays of two are for M and N.
pub(crate) struct Fragment<'b> {
    pub(crate) elements: Vec<FragmentElement>,
    /// The (row, column, matrix) of the first element.
    pub(crate) first: [Val<'b, i32>; 3],
    /// The ends of the tile's rows and columns, if they are not those of D.
    pub(crate) ends: [Option<Val<'b, i32>>; 2],
    /// The lane-id bits that move along M, and those that move along N.
    pub(crate) lanes: [&'static [u32]; 2],
    /// The warp's index among the warps of all tiles.
    pub(crate) parts: [Val<'b, i32>; 2],
    /// The first row and column of the tile. In a cluster, a tile may be beyond D.
    pub(crate) origin: [Val<'b, i32>; 2],
    /// The rows and columns of D.
    pub(crate) extents: [Val<'b, i32>; 2],
    /// The index of the matrix to which results belong, and how many such matrices there are.
    pub(crate) matrix: [Val<'b, i32>; 2],
}

impl<'b> Fragment<'b> {
    /// Returns the elements of a thread whose accumulators are at these offsets in A B, in register
    /// order. The last argument is the rows and columns of D, and the matrices.
    #[inline]
    pub(crate) fn new(
        k: &Body<'b, '_>,
        config: &GemmConfig,
        offsets: &[[i32; 2]],
        tile: Tile<'b>,
        first: FirstElement<'b>,
        [rows, columns, matrices]: [Val<'b, i32>; 3],
    ) -> Self {
        let ([m, n], [high, wide]) = (config.tile_of_d(), config.warps_of_tile());
        let (first, ends) = first;
        let warp = config.warp(k).map(|warp| warp.cvt::<i32>());
        // A grouped GEMM counts as one matrix.
        let matrix = match config.is_grouped() {
            true => [k.constant(0), k.constant(1)],
            false => [tile.batch, matrices],
        };
        Fragment {
            elements: elements(offsets, config.accumulators_per_element()),
            first,
            ends,
            lanes: config.lane_bits(),
            parts: [tile.row * high + warp[0], tile.column * wide + warp[1]],
            origin: [tile.row * m, tile.column * n],
            extents: [rows, columns],
            matrix,
        }
    }
}

impl GemmConfig {
    /// Returns the warps per tile along M and along N.
    #[inline]
    pub(crate) const fn warps_of_tile(&self) -> [u32; 2] {
        let [m, n, _] = self.tile;
        match self.schedule {
            Schedule::Simt => {
                let [high, wide] = self.thread_tile();
                let [lanes_m, lanes_n] = self.lanes_of_warp();
                [m / (high * lanes_m), n / (wide * lanes_n)]
            }
            Schedule::Multistage => {
                let [high, wide] = self.warp_tile();
                [m / high, n / wide]
            }
            Schedule::Cooperative | Schedule::Pingpong => {
                let warps = 4 * self.consumers_of_tile();
                if self.swap { [1, warps] } else { [warps, 1] }
            }
        }
    }

    /// Returns the lanes of a warp along M and along N, in the kernel without tensor cores.
    #[inline]
    pub(crate) const fn lanes_of_warp(&self) -> [u32; 2] {
        match self.tile {
            [0..16, ..] => [1, 32],
            [_, n, _] if n / self.thread_tile()[1] >= 8 => [4, 8],
            _ => [8, 4],
        }
    }

    /// Returns the index of a thread's warp in its tile, along M and along N.
    #[inline]
    pub(crate) fn warp<'b>(&self, k: &Body<'b, '_>) -> [Val<'b, u32>; 2] {
        let ([high, wide], warp) = (self.warps_of_tile(), k.thread_idx().x.cvt::<u32>() / 32);
        match self.schedule {
            Schedule::Simt => [warp / wide, warp % wide],
            Schedule::Multistage => [warp % high, warp / high],
            // The first warp group is the producer.
            Schedule::Cooperative | Schedule::Pingpong => {
                let warp = if self.is_pingpong() { warp % 4 } else { warp - 4 };
                if self.swap { [k.constant(0), warp] } else { [warp, k.constant(0)] }
            }
        }
    }

    /// Returns the lane-id bits that move along M, and those that move along N.
    #[inline]
    fn lane_bits(&self) -> [&'static [u32]; 2] {
        match self.schedule {
            Schedule::Simt => match self.lanes_of_warp() {
                [1, _] => [&[], &[0, 1, 2, 3, 4]],
                [4, _] => [&[0, 4], &[1, 2, 3]],
                _ => [&[1, 2, 3], &[0, 4]],
            },
            _ if self.swap => [&[0, 1], &[2, 3, 4]],
            _ => [&[2, 3, 4], &[0, 1]],
        }
    }
}

/// Returns the elements for accumulators at these offsets. If `per_element` is 2, neighbours along
/// N become one.
#[inline]
fn elements(offsets: &[[i32; 2]], per_element: u32) -> Vec<FragmentElement> {
    let mut elements: Vec<FragmentElement> = Vec::with_capacity(offsets.len());
    for (register, [row, column]) in (0..).zip(offsets) {
        let offset = [*row, *column / per_element.cast_signed()];
        match elements.iter_mut().find(|element| per_element > 1 && element.offset == offset) {
            Some(element) => element.registers[1] = register,
            None => elements.push(FragmentElement { registers: [register; 2], offset }),
        }
    }
    elements
}

/// Returns the offsets of a thread's accumulators from its first one, in register order. Columns
/// follow `order`.
#[inline]
pub(crate) fn offsets(
    mma: &TiledMma,
    [m, n]: [u32; 2],
    order: &Layout,
) -> Result<Vec<[i32; 2]>, LayoutError> {
    let parts = mma.thrfrg(Operand::C, &Layout::compact((m, n)))?.get(&[1])?;
    let size = parts.size()?.to_static()?;
    let offset = |register: i64| {
        let index = parts.at(register)?;
        let column = order.at(index / i64::from(m))?;
        Ok([(index % i64::from(m)) as i32, column as i32])
    };
    (0..size).map(offset).collect()
}
