//! Transposes of matrices through a swizzled tile of shared memory.

#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
mod launch;

use crate::codegen::Ptx;
use crate::ir::{
    AnyVector, Body, BuildErrors, Element, Global, GlobalMut, Kernel, KernelIr, KernelOptions,
    Scalar, Shared, Target, Val,
};

use super::rows::RowError;
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
pub use launch::TransposeFunction;

/// The sizes of a matrix and where it and its transpose lie. Rows of both are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeProblem {
    /// The rows of the input, the columns of the output.
    pub rows: u32,
    /// The columns of the input, the rows of the output.
    pub columns: u32,
    /// The elements from a row of the input to the next one; `None` is `columns`.
    pub input_pitch: Option<u64>,
    /// The elements from a row of the output to the next one; `None` is `rows`.
    pub output_pitch: Option<u64>,
}

impl TransposeProblem {
    /// Contiguous matrices.
    pub const fn new(rows: u32, columns: u32) -> TransposeProblem {
        TransposeProblem { rows, columns, input_pitch: None, output_pitch: None }
    }

    /// Returns the pitches of the input and the output.
    pub fn pitches(&self) -> [u64; 2] {
        let [input, output] = [(self.input_pitch, self.columns), (self.output_pitch, self.rows)]
            .map(|(pitch, contiguous)| pitch.unwrap_or(contiguous.into()));
        [input, output]
    }

    /// Returns the widest accesses to input and output, in elements: up to 16 bytes, and a divisor of the length and the
    /// pitch of rows.
    pub fn vectors(&self, elem: Scalar) -> [u32; 2] {
        let widest = (16 / elem.size_bytes().max(1)).max(1);
        let [input, output] = self.pitches();
        [(input, self.columns), (output, self.rows)].map(|(pitch, len)| {
            // The lowest bit that is set is the largest power of two that divides both and the widest vector.
            let all = pitch | u64::from(len) | u64::from(widest);
            1 << all.trailing_zeros()
        })
    }
}

/// The configuration of a [`Transpose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeConfig {
    /// The target.
    pub target: Target,
    /// The elements of an access to the input: 1, 2, 4, 8 or 16, at most 16 bytes.
    pub input_vector: u32,
    /// The elements of an access to the output, likewise.
    pub output_vector: u32,
}

impl TransposeConfig {
    /// The configuration with the widest accesses for a matrix of these sizes with elements of this type.
    pub fn new(target: Target, elem: Scalar, problem: &TransposeProblem) -> Self {
        let [input_vector, output_vector] = problem.vectors(elem);
        TransposeConfig { target, input_vector, output_vector }
    }
}

/// The threads of a block.
const THREADS: u32 = 256;
/// The bytes of a tile: 4 vectors of 16 bytes for each thread.
const TILE_BYTES: u32 = THREADS * 4 * 16;
/// The bytes from one row of the output to the next one in a tile.
const ROW_BYTES: u32 = 128;

/// A tile of the input: its rows and columns. A row of its transpose has 128 bytes.
#[derive(Clone, Copy, Debug)]
struct Tile {
    rows: u32,
    columns: u32,
    /// The elements of 16 bytes.
    chunk: u32,
}

impl Tile {
    fn of(elem: Scalar) -> Tile {
        let bytes = elem.size_bytes();
        let rows = ROW_BYTES / bytes;
        Tile { rows, columns: TILE_BYTES / ROW_BYTES, chunk: 16 / bytes }
    }

    /// Returns the offset of (row, column) in shared memory. Rows are contiguous, and chunks of 16 bytes swizzled: 8 threads
    /// that store neighbouring chunks of a row, and 8 threads that load from rows a chunk apart, access all banks.
    #[track_caller]
    fn offset<'b>(self, row: Val<'b, i32>, column: Val<'b, i32>) -> Val<'b, i32> {
        let chunk = self.chunk as i32;
        row * self.columns as i32 + (column ^ (row / chunk % 8 * chunk))
    }
}

/// The input and the output, each with its pitch; rows and columns of the input.
type Params<T> = ((Global<T>, i64), (GlobalMut<T>, i64), [i32; 2]);

/// The transpose of a matrix of `T`, of 1, 2, 4 or 8 bytes: `y(column, row) = x(row, column)`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::Scalar;
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
        let widest = 16 / T::SCALAR.size_bytes();
        for vector in [config.input_vector, config.output_vector] {
            if !vector.is_power_of_two() || vector > widest {
                let rule = "an access has 1, 2, 4, 8 or 16 elements and at most 16 bytes";
                return Err(RowError::Tile { rule });
            }
        }
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
    let TransposeConfig { target, input_vector, output_vector } = *config;
    let tile = Tile::of(T::SCALAR);
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let name = format!("transpose_{}_{input_vector}_{output_vector}", T::SCALAR);
    Kernel::<Params<T>>::build_with(options, &name, target, |k, (x, y, [rows, columns])| {
        let across = (columns + (tile.columns - 1) as i32) / tile.columns as i32;
        let (block, shared) =
            (k.block_idx().x, k.shared_aligned::<T>(tile.rows * tile.columns, 16));
        let first_row = block / across * tile.rows as i32;
        let first_column = block % across * tile.columns as i32;
        let rows = (rows - first_row).min(tile.rows as i32);
        let columns = (columns - first_column).min(tile.columns as i32);
        let part = Part { tile, first_row, first_column, shared };
        let is_whole = rows.eq(tile.rows as i32) & columns.eq(tile.columns as i32);
        k.if_else(
            is_whole,
            |k| part.load(k, x, input_vector, None),
            |k| part.load(k, x, input_vector, Some([rows, columns])),
        );
        k.barrier();
        k.if_else(
            is_whole,
            |k| part.store(k, y, output_vector, None),
            |k| part.store(k, y, output_vector, Some([rows, columns])),
        );
    })
}

/// A block's tile.
#[derive(Clone, Copy)]
struct Part<'b, T> {
    tile: Tile,
    first_row: Val<'b, i32>,
    first_column: Val<'b, i32>,
    shared: Val<'b, Shared<T>>,
}

impl<'b, T: Element> Part<'b, T> {
    /// Loads the tile into shared memory; of a tile at the edge, `extents` rows and columns.
    fn load(
        &self,
        k: &mut Body<'b, '_>,
        (x, pitch): (Val<'b, Global<T>>, Val<'b, i64>),
        vector: u32,
        extents: Option<[Val<'b, i32>; 2]>,
    ) {
        let Tile { rows, columns, .. } = self.tile;
        let x = x.offset(self.first_row.cvt::<i64>() * pitch + self.first_column.cvt::<i64>());
        let places = places(k, [columns / vector, rows]);
        let from = |[column, row]: [Val<'b, i32>; 2]| {
            row.cvt::<i64>() * pitch + (column * vector as i32).cvt::<i64>()
        };
        let to = |[column, row]: [Val<'b, i32>; 2]| self.tile.offset(row, column * vector as i32);
        let Some([rows, columns]) = extents else {
            let loaded: Vec<_> =
                places.iter().map(|place| x.load_any(k, from(*place), vector)).collect();
            for (place, values) in places.into_iter().zip(loaded.into_iter().flatten()) {
                self.shared.store_vector(k, to(place), values);
            }
            return;
        };
        for place @ [column, row] in places {
            k.if_(row.lt(rows) & (column * vector as i32).lt(columns), |k| {
                if let Some(values) = x.load_any(k, from(place), vector) {
                    self.shared.store_vector(k, to(place), values);
                }
            });
        }
    }
}

impl<'b, T: Element> Part<'b, T> {
    /// Stores the columns of the tile as rows of the output; of a tile at the edge, those of `extents` rows and columns.
    fn store(
        &self,
        k: &mut Body<'b, '_>,
        (y, pitch): (Val<'b, GlobalMut<T>>, Val<'b, i64>),
        vector: u32,
        extents: Option<[Val<'b, i32>; 2]>,
    ) {
        let Tile { rows, columns, .. } = self.tile;
        let y = y.offset(self.first_column.cvt::<i64>() * pitch + self.first_row.cvt::<i64>());
        for [row, column] in places(k, [rows / vector, columns]) {
            let row = row * vector as i32;
            let values: Vec<_> = (0..vector as i32)
                .map(|i| self.shared.load(k, self.tile.offset(row + i, column)))
                .collect();
            let Some(values) = AnyVector::pack::<T>(&values) else { continue };
            let to = column.cvt::<i64>() * pitch + row.cvt::<i64>();
            match extents {
                None => y.store_vector(k, to, values),
                Some([rows, columns]) => k.if_(row.lt(rows) & column.lt(columns), |k| {
                    y.store_vector(k, to, values);
                }),
            }
        }
    }
}

/// Returns the coordinates of the thread's accesses to a tile of (`inner`, `outer`) accesses: neighbouring threads have
/// neighbouring ones along the inner mode.
#[track_caller]
fn places<'b>(k: &Body<'b, '_>, [inner, outer]: [u32; 2]) -> Vec<[Val<'b, i32>; 2]> {
    let (thread, inner_extent) = (k.thread_idx().x, inner as i32);
    let place = |access: u32| {
        let number = thread + (access * THREADS) as i32;
        [number % inner_extent, number / inner_extent]
    };
    (0..inner * outer / THREADS).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Swizzle};
    use crate::tensor::{SmemAccess, choose_swizzle};

    /// The chooser finds the swizzle of [`Tile::offset`], and no bank conflict with it.
    #[test]
    fn the_swizzle_is_that_of_the_chooser() {
        for (elem, swizzle) in [(Scalar::F32, "S<3,2,7>"), (Scalar::Bf16, "S<3,3,7>")] {
            let Tile { rows, columns, chunk } = Tile::of(elem);
            let bits = i64::from(chunk.trailing_zeros());
            let ours = Swizzle::new(3, bits, i64::from(columns.trailing_zeros())).unwrap();
            let (rows, columns, chunk) = (i64::from(rows), i64::from(columns), i64::from(chunk));
            assert_eq!(ours.to_string(), swizzle, "of {rows} x {columns}");
            let tile = Layout::new((rows, columns), (columns, 1)).unwrap();
            // Threads along a row; threads a chunk of rows apart, then along columns.
            let store = Layout::new((columns / chunk, rows), (rows * chunk, 1)).unwrap();
            let load = Layout::new((rows / chunk, columns), (chunk, rows)).unwrap();
            let accesses =
                [SmemAccess::new("store", store, chunk as u32), SmemAccess::new("load", load, 1)];
            let choice = choose_swizzle(&tile, elem, &accesses).unwrap();
            assert!(choice.best().is_free(), "{choice}");
            assert_eq!(choice.best().swizzle(), ours, "{choice}");
        }
    }
}
