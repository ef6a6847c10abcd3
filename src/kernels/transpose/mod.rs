//! Transposes of matrices, or of a batch of them, through a swizzled tile in shared memory, so that
//! both loads and stores are coalesced.

mod bind;
mod problem;
mod tile;

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::{AnyVector, Role, with_roles};
use crate::ir::op::{MatrixCount, MatrixOrder};
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, KernelOptions, Target, Untyped};
use crate::layout::LayoutError;
use crate::runtime::{AnyElement, BufferElement, Declared, Function, LoadOptions};
use crate::tensor::pipeline::{Raster, TileScheduler};
use crate::tensor::rows::{MatrixRows, RowAccess, RowTile};
use crate::tensor::view::SharedTensor;

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::RowError;
pub(in crate::kernels) use bind::LoadedTranspose;
pub use problem::{TransposeBatch, TransposeProblem};
use tile::Tile;

/// What decides the generated code of a [`Transpose`] kernel. [`new`](TransposeConfig::new) chooses
/// it for a problem; set it yourself if you tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeConfig {
    /// The target.
    pub target: Target,
    /// How input and output rows are accessed: `Aligned` or `Ragged`.
    pub access: RowAccess,
    /// Rows and columns of a block's tile of the input in 16-byte chunks, each a power of two up to
    /// 64 (and at least 2 for a ragged matrix, whose tiles overlap by one chunk).
    pub tile: [u32; 2],
    /// How many of the batch's matrices a tile covers: a power of two from 1 to 1024.
    pub matrices: u32,
    /// The order in which blocks process tiles.
    pub raster: Raster,
    /// The batch's rank: 0 to 3 modes.
    pub batch_modes: u32,
}

impl TransposeConfig {
    /// Returns the configuration for a matrix of this size with elements of this type.
    #[inline]
    pub fn new(target: Target, elem: Scalar, problem: &TransposeProblem) -> Self {
        let access = problem.access(elem);
        let (tile, raster) = default_tile(access, elem, problem);
        let (matrices, batch_modes) = (1, problem.batch_modes());
        let config = TransposeConfig { target, access, tile, matrices, raster, batch_modes };
        // For ragged rows, more matrices per tile are faster than a longer tile.
        let max = if access == RowAccess::Ragged { 16 } else { MAX_CHUNKS };
        config.fitted_within(max, elem, problem)
    }

    /// Returns the configuration with the tile reshaped to the problem, keeping its size in bytes:
    /// rows and columns become less than twice those of the problem. If one mode is short, the tile
    /// gets longer along the other one, and then covers more matrices.
    ///
    /// ```
    /// use tilewright::ir::{Target, types::Scalar};
    /// use tilewright::kernels::transpose::{TransposeConfig, TransposeProblem};
    ///
    /// let of = |problem| TransposeConfig::new(Target::SM_90, Scalar::Bf16, &problem);
    /// assert_eq!(of(TransposeProblem::new(8192, 8192)).to_string(), "32x16_mstrip4");
    /// // 128 tiles of 64 KiB would be 0.3 waves of thread blocks.
    /// assert_eq!(of(TransposeProblem::new(2048, 2048)).to_string(), "16x8_n");
    /// // 16 x 64 elements are 2 x 8 chunks of 16 bytes: a tile has 8 matrices.
    /// let small = of(TransposeProblem::new(16, 64).batched(10_000));
    /// assert_eq!((small.tile, small.matrices), ([2, 8], 8));
    /// assert_eq!(small.to_string(), "2x8x8_n");
    /// ```
    #[inline]
    pub fn fitted(self, elem: Scalar, problem: &TransposeProblem) -> Self {
        self.fitted_within(MAX_CHUNKS, elem, problem)
    }

    /// Reshapes the tile as [`fitted`](TransposeConfig::fitted) does, but makes it longer than
    /// `self.tile` only up to `most` chunks.
    #[inline]
    fn fitted_within(self, most: u32, elem: Scalar, problem: &TransposeProblem) -> Self {
        let chunk = RowTile::vector_len(elem);
        let before = if self.access == RowAccess::Ragged { chunk - 1 } else { 0 };
        let needed = [problem.rows, problem.columns].map(|extent| {
            extent.saturating_add(before).div_ceil(chunk).max(self.min_chunks()).next_power_of_two()
        });
        let own = self.tile.map(|chunks| chunks.clamp(1, MAX_CHUNKS));
        let area = own[0] * own[1] * self.matrices.clamp(1, MAX_MATRICES);
        let mut tile = [0, 1].map(|mode| own[mode].min(needed[mode]));
        for mode in [1, 0] {
            while tile[0] * tile[1] < area && tile[mode] < needed[mode].min(most) {
                tile[mode] *= 2;
            }
        }
        let count = problem.batch.iter().fold(1u32, |all, mode| all.saturating_mul(mode.count));
        let matrices = (area / (tile[0] * tile[1])).min(MAX_MATRICES);
        let matrices = matrices.min(count.clamp(1, MAX_MATRICES).next_power_of_two());
        // Every thread needs an access.
        while tile[0] * tile[1] * chunk * matrices < THREADS {
            tile[usize::from(tile[1] < MAX_CHUNKS)] *= 2;
        }
        TransposeConfig { tile, matrices, ..self }
    }

    /// Returns configurations for a tuner to try for a matrix of this size, that of
    /// [`new`](TransposeConfig::new) first.
    #[inline]
    pub fn candidates(target: Target, elem: Scalar, problem: &TransposeProblem) -> Vec<Self> {
        let mut found = vec![Self::new(target, elem, problem)];
        // The tile for a large matrix, for comparison.
        let large = TransposeConfig {
            tile: default_tile(found[0].access, elem, problem).0,
            matrices: 1,
            ..found[0]
        };
        let mut configs = Vec::new();
        for tile in [[8, 16], [16, 16], [16, 8], [8, 8], [16, 32], [32, 16]] {
            let config = TransposeConfig { tile, ..large };
            for config in [config.fitted(elem, problem), config.fitted_within(1, elem, problem)] {
                // A single line of tiles has only one order.
                let has_line = problem.rows <= config.tile[0] * RowTile::vector_len(elem)
                    || problem.columns <= config.tile[1] * RowTile::vector_len(elem);
                let rasters = if has_line { &RASTERS[1..2] } else { &RASTERS[..] };
                configs.extend(rasters.iter().map(|raster| Self { raster: *raster, ..config }));
            }
        }
        for config in configs.into_iter().chain([large]) {
            let small = config.tile_bytes(elem) <= 64 << 10;
            if !found.contains(&config) && small && config.check(elem).is_ok() {
                found.push(config);
            }
        }
        found
    }

    /// Returns the minimum tile size along each mode, in chunks. Ragged tiles overlap by one.
    fn min_chunks(&self) -> u32 {
        if self.access == RowAccess::Ragged { 2 } else { 1 }
    }

    #[inline]
    fn tile_bytes(&self, elem: Scalar) -> u32 {
        self.tile[0]
            * self.tile[1]
            * self.matrices
            * RowTile::vector_len(elem)
            * RowTile::VECTOR_BYTES
    }

    #[inline]
    fn check(&self, elem: Scalar) -> Result<(), RowError> {
        let is_size = |size: u32, max| size.is_power_of_two() && size <= max;
        let is_tile = |size| is_size(size, MAX_CHUNKS) && size >= self.min_chunks();
        let [rows, columns] = self.tile;
        let rule = if self.access == RowAccess::Elements {
            "a transpose needs aligned or ragged rows, not access by single elements"
        } else if !is_tile(rows) || !is_tile(columns) {
            "along each mode a tile must have 1, 2, 4, .. or 64 chunks of 16 bytes, and at least 2 if rows are ragged"
        } else if !is_size(self.matrices, MAX_MATRICES) {
            "the matrix count of a tile must be a power of two from 1 to 1024"
        } else if rows * columns * RowTile::vector_len(elem) * self.matrices < THREADS {
            "a tile must have at least 256 chunks"
        } else if u64::from(self.tile_bytes(elem)) > self.target.max_shared_bytes() {
            "the tile must fit into shared memory"
        } else if !self.raster.is_valid() {
            "the swizzle width must be 1 to 65535"
        } else if self.batch_modes > TransposeProblem::MAX_BATCH_MODES {
            "a batch can have at most 3 modes"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }
}

/// Prints the configuration's name: the tile's rows and columns in 16-byte chunks, its matrices if
/// more than one, the tile order, and `_ragged` unless rows are aligned. For example `8x16_n`,
/// `2x8x16_n`, `16x16_mstrip8_ragged`.
impl fmt::Display for TransposeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.tile;
        write!(f, "{rows}x{columns}")?;
        if self.matrices != 1 {
            write!(f, "x{}", self.matrices)?;
        }
        write!(f, "_{}", self.raster)?;
        f.write_str(if self.access == RowAccess::Aligned { "" } else { "_ragged" })
    }
}

/// The tile orders that candidates use.
const RASTERS: [Raster; 3] =
    [Raster::AlongN, Raster::SwizzleAlongM { width: 8 }, Raster::SwizzleAlongM { width: 4 }];

/// Returns the tile before it is fitted to the problem, and the tile order.
///
/// A block stores only after its whole tile has arrived, so other blocks must keep memory busy.
/// Therefore 64-KiB tiles, which have long row segments, are used only if they give a full wave of
/// blocks, and 16-KiB tiles only if they give two blocks per SM. Smaller problems use 8-KiB tiles.
/// rows, need a wave of blocks, and tiles of 16 KiB need two blocks for each SM. Smaller problems
/// have tiles of 8 KiB.
#[inline]
fn default_tile(access: RowAccess, elem: Scalar, problem: &TransposeProblem) -> ([u32; 2], Raster) {
    let chunk = RowTile::vector_len(elem);
    let bytes_of_matrices = problem.elements().saturating_mul(elem.size_bytes().into());
    let bytes = |[rows, columns]: [u32; 2]| rows * columns * chunk * RowTile::VECTOR_BYTES;
    let has_enough = |tile, blocks_per_sm: u32| {
        bytes_of_matrices >= u64::from(bytes(tile)) * u64::from(blocks_per_sm * SMS)
    };
    // Consecutive tiles then write long segments of few output rows.
    let strips = Raster::SwizzleAlongM { width: 4 };
    let raster = if bytes_of_matrices > KEPT_BYTES { strips } else { Raster::AlongN };
    let (large, medium) = ([32, 128 / chunk], [16, 64 / chunk]);
    // For small matrices a larger tile has no longer segments.
    let is_large = chunk >= 8 && problem.rows.min(problem.columns) >= 512;
    if access == RowAccess::Ragged {
        // More thread blocks hide the extra instructions for ragged rows.
        (medium, strips)
    } else if is_large && has_enough(large, resident(access, bytes(large))) {
        (large, raster)
    } else if has_enough(medium, 2) {
        (medium, raster)
    } else {
        ([8, 64 / chunk], raster)
    }
}

/// Returns how many blocks an SM runs: limited by shared memory, and by 40 registers per thread, or
/// 48 for ragged rows.
#[inline]
fn resident(access: RowAccess, tile_bytes: u32) -> u32 {
    let max = if access == RowAccess::Ragged { 5 } else { 6 };
    ((192 << 10) / tile_bytes).clamp(1, max)
}

/// The SM count of an H100 or H200.
const SMS: u32 = 132;
/// Up to this many bytes the tile order does not matter, because the matrix and its transpose
/// hardly exceed a 50-MB L2 cache.
const KEPT_BYTES: u64 = 32 << 20;
/// Threads per block.
const THREADS: u32 = 256;
/// Limits of a tile: 16-byte chunks along a mode, and matrices.
const MAX_CHUNKS: u32 = 64;
const MAX_MATRICES: u32 = 1024;

/// The input with its pitch and length, the output with its pitch; rows, columns and matrices; rows
/// and columns from one tile to the next; tiles along the three modes; extents and strides of the
/// batch.
type Params = (
    (Global<X>, i64, i64),
    (GlobalMut<X>, i64),
    [i32; 3],
    [i32; 2],
    [i32; 3],
    ([i32; 3], [[i64; 3]; 2]),
);

/// The transpose of a matrix, or of a batch of them: `y(column, row) = x(row, column)`. Elements of
/// `T` have 1, 2, 4 or 8 bytes.
///
/// Reads and writes whole 16-byte vectors where the rows' alignment allows it.
///
/// A launch takes a [`TransposeProblem`] and `(&x, &mut y)`. It does nothing if there are no
/// elements.
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
/// transpose.launch(&problem, (&device.upload(&x)?, &mut y))?;
/// assert_eq!(y.to_vec()?[..6], [0.0, 100.0, 200.0, 1.0, 101.0, 201.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transpose<T> {
    config: TransposeConfig,
    elem: PhantomData<fn() -> T>,
}

/// The type of the elements.
type X = Role<0>;

impl<T: Element> Transpose<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// [`RowError::Element`] for `bool`; [`RowError::Tile`] for a configuration that breaks a rule
    /// of its fields.
    #[inline]
    pub fn new(config: TransposeConfig) -> Result<Built<Self>, RowError> {
        let kernel = build(&config, T::SCALAR)?;
        Ok(Built::new(Transpose { config, elem: PhantomData }, kernel.untyped()))
    }
}

impl Transpose<AnyElement> {
    /// Builds the kernel for an element type that is a value: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`new`](Transpose::new).
    #[inline]
    pub fn untyped(config: TransposeConfig, elem: Scalar) -> Result<Built<Self>, RowError> {
        let kernel = build(&config, elem)?.untyped();
        Ok(Built::new(Transpose { config, elem: PhantomData }, kernel))
    }
}

impl<T: BufferElement> ReadyKernel for Transpose<T> {
    type Config = TransposeConfig;
    type Params = Untyped;
    type Problem = TransposeProblem;
    type Args<'a> = (T::Ref<'a>, T::Mut<'a>);
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &TransposeConfig {
        &self.config
    }

    fn share(&self, _: &Function<Untyped>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// [`RowError::Pitch`], [`RowError::TooLarge`] or [`RowError::Rows`]; [`RowError::Access`] if a
    /// kernel with aligned accesses gets other rows; [`RowError::Tile`] if the batch has more modes
    /// than the kernel; errors for buffers that are too short or misaligned, and those of
    /// [`Function::launch`].
    fn launch(
        &self,
        problem: &TransposeProblem,
        (x, y): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|args| self.config.bind(problem, x.into(), y.into(), args))
    }
}

/// Builds the kernel for elements of a type.
#[inline]
pub(in crate::kernels) fn build(
    config: &TransposeConfig,
    elem: Scalar,
) -> Result<Kernel<Declared>, RowError> {
    if elem == Scalar::Bool {
        let (operand, found) = ("the input", elem);
        return Err(RowError::Element { operand, found, expected: "a numeric type" });
    }
    config.check(elem)?;
    Ok(with_roles(&[elem], || build_body(config))?)
}

/// A block copies rows of the input to shared memory, then stores the tile's columns as rows of the
/// output.
#[inline]
fn build_body(config: &TransposeConfig) -> Result<Kernel<Declared>, BuildErrors> {
    let TransposeConfig { target, raster, batch_modes: modes, access, .. } = *config;
    let tile = Tile::of(config, X::scalar());
    let blocks = resident(access, config.tile_bytes(X::scalar()));
    let options = KernelOptions::default().block([THREADS, 1, 1]).min_blocks_per_sm(blocks);
    let name = format!("transpose_{}_{config}", X::scalar());
    Kernel::build_as::<Params, _>(
        options,
        &name,
        target,
        |k, ((x, x_pitch, len), (y, y_pitch), sizes, own, tiles, (counts, strides))| {
            let at = TileScheduler::new(k, raster, tiles).tile(k.block_idx().x);
            let [row, column] = [at.row * own[0], at.column * own[1]];
            let matrix = at.batch * tile.matrices as i32;
            let left = [sizes[0] - row, sizes[1] - column, sizes[2] - matrix];
            let [x_batch, y_batch] = strides
                .map(|strides| counts.into_iter().zip(strides).take(modes as usize).collect());
            let first = [row, column, matrix];
            let x = MatrixRows { base: x, pitch: x_pitch, batch: x_batch, first, left };
            let first = [column, row, matrix];
            // Columns that two tiles share belong to the next one.
            let left = [left[1].min(own[1]), left[0], left[2]];
            let y = MatrixRows { base: y, pitch: y_pitch, batch: y_batch, first, left };

            let shared = SharedTensor::<X>::shared_aligned(k, tile.layout()?, 16);
            tile.input().copy_to(k, &x, len, &shared.composition(&tile.input_vectors()));
            k.barrier();
            let own = shared.composition(&tile.output_vectors()?);
            let own = own.slice((.., k.thread_idx().x, ..));
            tile.output().store(k, &y, |_, vector| {
                let (shared, leads) = (&shared, x.leads(vector.matrix));
                let own = own.slice((.., vector.number));
                move |_, rows| match access {
                    RowAccess::Ragged => {
                        let line = |row| vector.matrix * tile.rows as i32 + row;
                        let element =
                            |row: &_| shared.load((line(*row), vector.row + leads.of(*row)));
                        AnyVector::pack::<X>(&rows.iter().map(element).collect::<Vec<_>>())
                    }
                    _ if tile.has_matrices => {
                        let matrices = own.data().to_pointer();
                        Some(matrices.ldmatrix_any(0, MatrixCount::X4, MatrixOrder::Trans))
                    }
                    _ => AnyVector::pack::<X>(own.load_all().values()),
                }
            });
            Ok::<(), LayoutError>(())
        },
    )
}
