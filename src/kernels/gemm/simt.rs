//! The matrix product on plain multiply-add units, for every target.

use std::fmt;

use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Registers, Shared, Target, Val,
    range,
};
use crate::layout::{Layout, LayoutError};

use super::partition::Partition;

/// `A`, `B`, `C`.
pub type SimtSignature = (Global<f32>, Global<f32>, GlobalMut<f32>);

/// `C = A B` in `f32`, with row-major `A[m, k]`, `B[k, n]` and `C[m, n]`.
///
/// A block of 256 threads computes a tile of 64 x 64; each thread keeps 4 x 4 accumulators in registers. The
/// tiles of `A` (64 x 16) and `B` (16 x 64) pass through shared memory. Sizes that are not multiples of the
/// tile are predicated. Every entry is the sum of its products in the order of `k`, each added with one
/// rounding (`fma`), so the result does not depend on the device.
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::kernels::gemm::SimtGemm;
///
/// let gemm = SimtGemm { m: 251, n: 127, k: 63 };
/// let kernel = gemm.build(Target::SM_80)?;
/// assert_eq!(gemm.blocks(), [2, 4, 1]);
/// assert_eq!(kernel.ir().bounds.block, Some([256, 1, 1]));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtGemm {
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`.
    pub k: u32,
}

/// Why there is no kernel for a matrix product.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimtGemmError {
    /// A size is 0 or above [`SimtGemm::MAX_SIZE`].
    Size {
        /// `m`, `n` or `k`.
        name: &'static str,
        /// The size.
        size: u32,
    },
    /// The layouts of the matrices cannot be tiled.
    Layout(LayoutError),
}

impl fmt::Display for SimtGemmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimtGemmError::Size { name, size } => write!(
                f,
                "the size `{name}` is {size}, but must be from 1 to {}",
                SimtGemm::MAX_SIZE
            ),
            SimtGemmError::Layout(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SimtGemmError {}

impl From<LayoutError> for SimtGemmError {
    fn from(error: LayoutError) -> SimtGemmError {
        SimtGemmError::Layout(error)
    }
}

const TILE_M: i64 = 64;
const TILE_N: i64 = 64;
const TILE_K: i64 = 16;

/// The distance of two columns of the tile of `A` in shared memory. One more than its rows, so that the
/// threads of a warp, which store along `k`, meet different banks.
const A_COLUMN: i64 = TILE_M + 1;

impl SimtGemm {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// The tile and how it is computed, for people.
    pub const TILE: &'static str = "64x64x16, 256 threads, 4x4 accumulators each";

    /// The largest size along any mode: the coordinates of the last tile are still numbers of `i32`.
    pub const MAX_SIZE: u32 = i32::MAX as u32 - 63;

    fn check(&self) -> Result<(), SimtGemmError> {
        for (name, size) in [("m", self.m), ("n", self.n), ("k", self.k)] {
            if size == 0 || size > Self::MAX_SIZE {
                return Err(SimtGemmError::Size { name, size });
            }
        }
        Ok(())
    }

    /// Blocks of the grid: tiles along `n`, then along `m`.
    pub fn blocks(&self) -> [u32; 3] {
        [self.n.div_ceil(TILE_N as u32), self.m.div_ceil(TILE_M as u32), 1]
    }

    /// The tiles along `k` that [`build`](SimtGemm::build) fetches ahead.
    pub const PREFETCH_STAGES: u32 = 2;

    /// Builds the kernel for these sizes.
    ///
    /// # Errors
    /// [`SimtGemmError`] as an error of the body: a size of 0 or above [`SimtGemm::MAX_SIZE`].
    pub fn build(&self, target: Target) -> Result<Kernel<SimtSignature>, BuildErrors> {
        self.build_with(target, Self::PREFETCH_STAGES)
    }

    /// As [`build`](SimtGemm::build), with the elements of the next `prefetch_stages` tiles along `k` fetched
    /// into registers while a tile is multiplied. The result does not depend on it.
    ///
    /// # Errors
    /// As for [`build`](SimtGemm::build), and for more than 32 stages.
    pub fn build_with(
        &self,
        target: Target,
        prefetch_stages: u32,
    ) -> Result<Kernel<SimtSignature>, BuildErrors> {
        let options = KernelOptions::default().block([Self::THREADS, 1, 1]);
        let name = format!("gemm_simt_f32_{}x{}x{}", self.m, self.n, self.k);
        Kernel::<SimtSignature>::build_with(options, &name, target, |k, (a, b, c)| {
            self.check()?;
            Ok::<(), SimtGemmError>(Plan::new(self, prefetch_stages)?.body(k, a, b, c)?)
        })
    }
}

/// The coordinate of a tile.
type Tile<'b> = (Val<'b, i32>, Val<'b, i32>);

/// A matrix in global memory as the threads of a block see it.
struct Matrix {
    /// Where its elements lie.
    elements: Partition,
    /// The row and the column of an element, layouts like the one of its offset and partitioned the same way.
    row: Partition,
    column: Partition,
    /// The size, for the predicates; `None` along a mode that the tiles divide.
    limit: [Option<i32>; 2],
}

impl Matrix {
    /// A row-major matrix of the given size.
    fn new(size: [i64; 2], tile: [i64; 2], threads: &Layout) -> Result<Matrix, LayoutError> {
        let [rows, columns] = size;
        let limit = [0, 1].map(|mode| {
            (size[mode] % tile[mode] != 0).then(|| i32::try_from(size[mode]).unwrap_or(i32::MAX))
        });
        let part = |strides: (i64, i64)| {
            Partition::new(&Layout::new((rows, columns), strides)?, tile, threads)
        };
        Ok(Matrix {
            elements: part((columns, 1))?,
            row: part((1, 0))?,
            column: part((0, 1))?,
            limit,
        })
    }

    /// The first element of a thread in a tile.
    fn first<'b>(&self, k: &Body<'b, '_>, thread: Val<'b, i32>, tile: Tile<'b>) -> First<'b> {
        let position = |part: &Partition| part.first::<i32>(k, thread, tile);
        First {
            offset: self.elements.first::<i64>(k, thread, tile),
            row: self.limit[0].map(|limit| (position(&self.row), limit)),
            column: self.limit[1].map(|limit| (position(&self.column), limit)),
        }
    }

    /// Whether element `value` of a thread is inside the matrix, of which `first` is the first one; `None`
    /// where it always is.
    fn inside<'b>(
        &self,
        first: &First<'b>,
        value: i64,
    ) -> Result<Option<Val<'b, bool>>, LayoutError> {
        let check = |part: &Partition, first: Option<(Val<'b, i32>, i32)>| {
            let Some((first, limit)) = first else { return Ok(None) };
            // Positions in a tile are far below 2^31.
            Ok(Some((first + part.value.at(value)? as i32).lt(limit)))
        };
        let row = check(&self.row, first.row)?;
        let column = check(&self.column, first.column)?;
        Ok(match (row, column) {
            (Some(row), Some(column)) => Some(row & column),
            (row, column) => row.or(column),
        })
    }
}

/// Where the first element of a thread in a tile lies.
struct First<'b> {
    offset: Val<'b, i64>,
    /// Its row and its column, each with its limit, along the modes that need a predicate.
    row: Option<(Val<'b, i32>, i32)>,
    column: Option<(Val<'b, i32>, i32)>,
}

/// Everything that is known before the kernel runs.
struct Plan {
    k_tiles: i32,
    prefetch_stages: u32,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    /// The tiles in shared memory, shared out as their copies are.
    a_copy: Partition,
    b_copy: Partition,
    /// The rows of the tile of `A` and the columns of the tile of `B` that a thread multiplies: both as
    /// layouts of the tile of `C`, of which each ignores one mode.
    a_operand: Partition,
    b_operand: Partition,
}

impl Plan {
    fn new(gemm: &SimtGemm, prefetch_stages: u32) -> Result<Plan, LayoutError> {
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(i64::from);
        // Neighbouring threads copy neighbouring elements of a row.
        let a_threads = Layout::new((16, 16), (16, 1))?;
        let b_threads = Layout::new((4, 64), (64, 1))?;
        let c_threads = Layout::new((16, 16), (16, 1))?;
        let shared = |shape: (i64, i64), strides: (i64, i64), threads: &Layout| {
            Partition::new(&Layout::new(shape, strides)?, [shape.0, shape.1], threads)
        };
        Ok(Plan {
            // Below the largest size, so the cast keeps the number.
            k_tiles: gemm.k.div_ceil(TILE_K as u32) as i32,
            prefetch_stages,
            a: Matrix::new([m, k], [TILE_M, TILE_K], &a_threads)?,
            b: Matrix::new([k, n], [TILE_K, TILE_N], &b_threads)?,
            c: Matrix::new([m, n], [TILE_M, TILE_N], &c_threads)?,
            a_copy: shared((TILE_M, TILE_K), (1, A_COLUMN), &a_threads)?,
            b_copy: shared((TILE_K, TILE_N), (TILE_N, 1), &b_threads)?,
            a_operand: shared((TILE_M, TILE_N), (1, 0), &c_threads)?,
            b_operand: shared((TILE_M, TILE_N), (0, 1), &c_threads)?,
        })
    }

    fn body<'b>(
        &self,
        k: &mut Body<'b, '_>,
        a: Val<'b, Global<f32>>,
        b: Val<'b, Global<f32>>,
        c: Val<'b, GlobalMut<f32>>,
    ) -> Result<(), LayoutError> {
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let (tile_m, tile_n) = (block.y, block.x);
        let a_tile = SharedTile::new(k, &self.a_copy, A_COLUMN * TILE_K, thread);
        let b_tile = SharedTile::new(k, &self.b_copy, TILE_K * TILE_N, thread);
        let a_operand = a_tile.base.offset(k.crd2idx::<i32>(thread, &self.a_operand.thread));
        let b_operand = b_tile.base.offset(k.crd2idx::<i32>(thread, &self.b_operand.thread));
        // The distinct rows and columns among the accumulators of a thread.
        let rows = offsets(&self.a_operand.value, 0)?;
        let columns = offsets(&self.b_operand.value, 1)?;
        let acc = k.registers::<f32>(rows.len() * columns.len());
        acc.fill(k, 0.0);

        let mut copied = Ok(());
        let tiles = range(0, self.k_tiles).prefetch_stages(self.prefetch_stages);
        k.for_(tiles, (), |k, tile_k, ()| {
            copied = copy(k, &self.a, a, (tile_m, tile_k), &a_tile, thread)
                .and_then(|()| copy(k, &self.b, b, (tile_k, tile_n), &b_tile, thread));
            k.barrier();
            for step in 0..TILE_K {
                let load = |base: Val<'_, Shared<f32>>, offsets: &[i64], stride: i64| {
                    let offsets = offsets.iter().map(|offset| offset + step * stride);
                    offsets.map(|offset| base.load(k, offset)).collect::<Vec<_>>()
                };
                let x = load(a_operand, &rows, A_COLUMN);
                let y = load(b_operand, &columns, TILE_N);
                multiply(k, &acc, &x, &y);
            }
            k.barrier();
        });
        copied?;

        let first = self.c.first(k, thread, (tile_m, tile_n));
        let c = c.offset(first.offset);
        for index in 0..acc.len() {
            let value = index as i64;
            let (offset, sum) = (self.c.elements.value.at(value)?, acc.get(k, index));
            match self.c.inside(&first, value)? {
                Some(inside) => k.if_(inside, |k| c.store(k, offset, sum)),
                None => c.store(k, offset, sum),
            }
        }
        Ok(())
    }
}

/// A tile in shared memory and how it is copied to.
struct SharedTile<'p, 'b> {
    part: &'p Partition,
    base: Val<'b, Shared<f32>>,
    /// The offset of the first element that this thread copies.
    thread: Val<'b, i32>,
}

impl<'p, 'b> SharedTile<'p, 'b> {
    fn new(k: &Body<'b, '_>, part: &'p Partition, len: i64, thread: Val<'b, i32>) -> Self {
        let thread = k.crd2idx::<i32>(thread, &part.thread);
        SharedTile { part, base: k.shared(len as usize), thread }
    }
}

/// Copies one tile of a matrix to shared memory; what lies outside of the matrix becomes 0.
fn copy<'b>(
    k: &mut Body<'b, '_>,
    matrix: &Matrix,
    from: Val<'b, Global<f32>>,
    tile: Tile<'b>,
    to: &SharedTile<'_, 'b>,
    thread: Val<'b, i32>,
) -> Result<(), LayoutError> {
    let first = matrix.first(k, thread, tile);
    let (from, to_first) = (from.offset(first.offset), to.base.offset(to.thread));
    for value in 0..to.part.values()? {
        let offset = matrix.elements.value.at(value)?;
        let element = match matrix.inside(&first, value)? {
            Some(inside) => k.if_with(inside, 0.0, |k| from.load(k, offset)),
            None => from.load(k, offset),
        };
        to_first.store(k, to.part.value.at(value)?, element);
    }
    Ok(())
}

/// `acc += x yᵀ`, the accumulators in column-major order.
fn multiply<'b>(
    k: &Body<'b, '_>,
    acc: &Registers<'_, f32>,
    x: &[Val<'b, f32>],
    y: &[Val<'b, f32>],
) {
    let pairs = y.iter().flat_map(|y| x.iter().map(move |x| (x, y)));
    for (index, (x, y)) in pairs.enumerate() {
        acc.set(k, index, x.fma(*y, acc.get(k, index)));
    }
}

/// The offsets of one mode of a layout.
fn offsets(layout: &Layout, mode: usize) -> Result<Vec<i64>, LayoutError> {
    let mode = layout.get(&[mode])?;
    (0..mode.size()?.to_static()?).map(|i| mode.at(i)).collect()
}
