//! Transposes of matrices through a swizzled tile of shared memory.

mod launch;
mod part;
mod problem;

use std::fmt;

use crate::codegen::Ptx;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, KernelIr, KernelOptions, Target};
use crate::tensor::{Raster, RowAccess, RowTile, TileScheduler};

use super::rows::RowError;
pub use launch::TransposeFunction;
use part::{Part, Tile};
pub use problem::{TransposeBatch, TransposeProblem};

/// The configuration of a [`Transpose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeConfig {
    /// The target.
    pub target: Target,
    /// The accesses to input and output: `Aligned` or `Ragged`.
    pub access: RowAccess,
    /// The rows and columns of a block's tile of the input, in chunks of 16 bytes: powers of two from 8 to 64. A tile of a
    /// ragged matrix overlaps its neighbours by a chunk.
    pub tile: [u32; 2],
    /// The order of the tiles.
    pub raster: Raster,
    /// The modes of a batch of matrices: 0 to 3.
    pub batch_modes: u32,
}

impl TransposeConfig {
    /// The configuration for a matrix of these sizes with elements of this type.
    pub fn new(target: Target, elem: Scalar, problem: &TransposeProblem) -> Self {
        let chunk = chunk(elem);
        let access = problem.access(elem);
        // 32 KiB of elements of 16 bits: 256 bytes of each row of the input and of the output.
        let tile = [16, (128 / chunk).clamp(8, 64)];
        // Rows of the output that are written at about the same time are few, and each gets a long piece.
        let raster = Raster::SwizzleAlongM { width: 8 };
        let batch_modes = problem.batch_modes();
        TransposeConfig { target, access, tile, raster, batch_modes }
    }

    /// Returns configurations to choose from for a matrix of these sizes, the one of [`new`](TransposeConfig::new) first.
    pub fn candidates(target: Target, elem: Scalar, problem: &TransposeProblem) -> Vec<Self> {
        let mut found = vec![Self::new(target, elem, problem)];
        for tile in [[8, 16], [16, 16], [16, 8], [8, 32], [16, 32], [32, 16]] {
            for raster in [
                Raster::AlongN,
                Raster::SwizzleAlongM { width: 8 },
                Raster::SwizzleAlongM { width: 32 },
                Raster::Swizzle { width: 16 },
            ] {
                let config = TransposeConfig { tile, raster, ..found[0] };
                let small = config.tile_bytes(elem) <= 64 << 10;
                if !found.contains(&config) && small && config.check(elem).is_ok() {
                    found.push(config);
                }
            }
        }
        found
    }

    fn tile_bytes(&self, elem: Scalar) -> u32 {
        self.tile[0] * self.tile[1] * chunk(elem) * RowTile::VECTOR_BYTES
    }

    fn check(&self, elem: Scalar) -> Result<(), RowError> {
        let is_size = |size: &u32| size.is_power_of_two() && (8..=64).contains(size);
        let rule = if self.access == RowAccess::Elements {
            "a transpose accesses whole vectors where it can"
        } else if !self.tile.iter().all(is_size) {
            "a tile has 8, 16, 32 or 64 chunks of 16 bytes along both modes"
        } else if self.tile[1] * chunk(elem) < 32
            || self.tile[0] * self.tile[1] * chunk(elem) < THREADS
        {
            "a tile has at least 32 columns and 256 chunks"
        } else if u64::from(self.tile_bytes(elem)) > self.target.max_shared_bytes() {
            "a tile fits into shared memory"
        } else if !self.raster.is_valid() {
            "the swizzle width is from 1 to 65535"
        } else if self.batch_modes > TransposeProblem::MAX_BATCH_MODES {
            "a batch has at most 3 modes"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }
}

/// The name of the configuration: the rows and columns of a tile in chunks of 16 bytes, the order of the tiles, and the
/// accesses, unless rows are aligned: `8x16_n`, `16x16_mstrip8_ragged`.
impl fmt::Display for TransposeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.tile;
        write!(f, "{rows}x{columns}_{}", self.raster)?;
        f.write_str(if self.access == RowAccess::Aligned { "" } else { "_ragged" })
    }
}

/// The threads of a block.
const THREADS: u32 = 256;

/// The elements of 16 bytes.
fn chunk(elem: Scalar) -> u32 {
    (RowTile::VECTOR_BYTES / elem.size_bytes().max(1)).max(1)
}

/// The input and the output, each with its pitch; rows and columns of the input; the extents and strides of the batch.
type Params<T> = ((Global<T>, i64), (GlobalMut<T>, i64), [i32; 2], [i32; 3], [[i64; 3]; 2]);

/// The transpose of a matrix of `T`, of 1, 2, 4 or 8 bytes: `y(column, row) = x(row, column)`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// let problem = TransposeProblem::new(3, 100);
/// let config = TransposeConfig::new(device.target(), Scalar::F32, &problem);
/// let transpose = Transpose::<f32>::new(config)?.load(&device)?;
/// let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
/// let mut y = device.zeros::<f32>(300)?;
/// transpose.launch(&problem, &device.upload(&x)?, &mut y)?;
/// assert_eq!(y.to_vec()?[..6], [0.0, 100.0, 200.0, 1.0, 101.0, 201.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transpose<T> {
    config: TransposeConfig,
    kernel: Kernel<Params<T>>,
}

impl<T: Element> Transpose<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// [`RowError::Element`] for `bool`; [`RowError::Tile`] for accesses that no vector has.
    pub fn new(config: TransposeConfig) -> Result<Self, RowError> {
        if T::SCALAR == Scalar::Bool {
            let (operand, found) = ("the input", T::SCALAR);
            return Err(RowError::Element { operand, found, expected: "numbers" });
        }
        config.check(T::SCALAR)?;
        Ok(Transpose { config, kernel: build(&config)? })
    }

    /// The configuration.
    pub fn config(&self) -> &TransposeConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }
}

/// A block loads a tile by rows, and stores it by columns.
fn build<T: Element>(config: &TransposeConfig) -> Result<Kernel<Params<T>>, BuildErrors> {
    let TransposeConfig { target, access, raster, batch_modes, .. } = *config;
    let tile = Tile::of(config.tile, T::SCALAR, access == RowAccess::Ragged);
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let name = format!("transpose_{}_{config}", T::SCALAR);
    Kernel::<Params<T>>::build_with(options, &name, target, |k, (x, y, sizes, counts, strides)| {
        let [down, across] = tile.steps();
        let tiles = [sizes[0] + (down - 1), sizes[1] + (across - 1)];
        let tiles = [tiles[0] / down, tiles[1] / across];
        let batch = counts.into_iter().take(batch_modes as usize).fold(k.constant(1), |a, b| a * b);
        let scheduler = TileScheduler::new(k, raster, [tiles[0], tiles[1], batch]);
        let at = scheduler.tile(k, k.block_idx().x);
        let (mut matrix, mut starts) = (at.batch, [k.constant(0i64); 2]);
        for mode in 0..batch_modes as usize {
            let next = matrix / counts[mode];
            let index = (matrix - next * counts[mode]).cvt::<i64>();
            starts = [0, 1].map(|i| starts[i] + index * strides[i][mode]);
            matrix = next;
        }
        let first = [at.row * down, at.column * across];
        let shared = k.shared_aligned::<T>(tile.rows * tile.columns, 16);
        let left = [sizes[0] - first[0], sizes[1] - first[1]];
        let part = Part { tile, first, left, starts, shared };
        match access {
            RowAccess::Ragged => part.transpose_ragged(k, x, y),
            _ => part.transpose(k, x, y),
        }
    })
}
