//! [`Fragment`]: the accumulators of a thread, and the elements of D that they become.

use crate::ir::{Body, Val};
use crate::layout::{Layout, LayoutError};
use crate::tensor::{Operand, Tile, TiledMma};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::forms::Schedule;

/// An element of D: its registers, twice the same where an element has one, and its offset from the first element of the thread.
#[derive(Clone, Copy)]
pub(crate) struct FragmentElement {
    pub(crate) registers: [u32; 2],
    pub(crate) offset: [i32; 2],
}

/// The (row, column, matrix) in D of the first element of a thread, and the ends of the rows and columns of the tile where they
/// are not those of D.
pub(crate) type FirstElement<'b> = ([Val<'b, i32>; 3], [Option<Val<'b, i32>>; 2]);

/// The elements of D of a thread in a tile. Entries of arrays are for M and for N.
pub(crate) struct Fragment<'b> {
    pub(crate) elements: Vec<FragmentElement>,
    /// The (row, column, matrix) of the first element.
    pub(crate) first: [Val<'b, i32>; 3],
    /// The ends of the rows and columns of the tile, where they are not those of D.
    pub(crate) ends: [Option<Val<'b, i32>>; 2],
    /// The bits of the lane number that move along M, and along N.
    pub(crate) lanes: [&'static [u32]; 2],
    /// The number of the warp among those of all tiles.
    pub(crate) parts: [Val<'b, i32>; 2],
    /// The first row and column of the tile: tiles of a cluster may lie behind D.
    pub(crate) origin: [Val<'b, i32>; 2],
    /// The rows and columns of D.
    pub(crate) extents: [Val<'b, i32>; 2],
    /// The number of the matrix that has results of its own, and the number of such matrices.
    pub(crate) matrix: [Val<'b, i32>; 2],
}

impl<'b> Fragment<'b> {
    /// The elements of a thread with accumulators at these offsets of A B, in the order of their registers. The last argument has the
    /// rows and columns of D, and the number of matrices.
    #[inline]
    pub(crate) fn new(
        k: &Body<'b, '_>,
        (config, offsets): (&GemmConfig, &[[i32; 2]]),
        tile: Tile<'b>,
        (first, ends): FirstElement<'b>,
        [rows, columns, matrices]: [Val<'b, i32>; 3],
    ) -> Self {
        let ([m, n], [high, wide]) = (config.tile_of_d(), config.warps_of_tile());
        let warp = config.warp(k).map(|warp| warp.cvt::<i32>());
        // Groups of rows are one matrix.
        let matrix = match config.grouped {
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
    /// The warps of a tile along M and along N.
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

    /// The threads of a warp along M and along N, of the kernel without tensor cores.
    #[inline]
    pub(crate) const fn lanes_of_warp(&self) -> [u32; 2] {
        match self.tile {
            [0..16, ..] => [1, 32],
            [_, n, _] if n / self.thread_tile()[1] >= 8 => [4, 8],
            _ => [8, 4],
        }
    }

    /// The number of a thread's warp among those of its tile, along M and along N.
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

    /// The bits of the lane number that move along M, and along N.
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

/// The elements of accumulators with these offsets: pairs of neighbours along N are one where `per_element` is 2.
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

/// The offsets of a thread's accumulators, in the order of their registers, from the first one: rows, and columns in `order`.
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
