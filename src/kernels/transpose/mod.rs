//! Transposes of matrices through a swizzled tile of shared memory.

mod launch;

use crate::codegen::Ptx;
use crate::ir::builder::AnyVector;
use crate::ir::types::Scalar;
use crate::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Kernel, KernelIr, KernelOptions, Shared, Target,
    Val,
};

use super::rows::RowError;
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

/// A tile of the input: its rows and columns, powers of two. A row of its transpose has 128 bytes.
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
        Tile { rows: ROW_BYTES / bytes, columns: TILE_BYTES / ROW_BYTES, chunk: 16 / bytes }
    }

    /// Returns the offset of (row, column) in shared memory. Rows are contiguous, and chunks of 16 bytes swizzled: 8 threads
    /// that store neighbouring chunks of a row, and 8 threads that load from rows a chunk apart, access all banks.
    fn offset(self, row: u32, column: u32) -> i32 {
        (row * self.columns + (column ^ (row / self.chunk % 8 * self.chunk))) as i32
    }

    /// The same in the kernel. The offset of the sum of two coordinates without common bits is the XOR of their offsets.
    #[track_caller]
    fn offset_of<'b>(self, row: Val<'b, i32>, column: Val<'b, i32>) -> Val<'b, i32> {
        let chunk = self.chunk as i32;
        row * self.columns as i32 + (column ^ (((row / chunk) & 7) * chunk))
    }
}

/// The input and the output, each with its pitch; rows and columns of the input.
type Params<T> = ((Global<T>, i64), (GlobalMut<T>, i64), [i32; 2]);

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
        let Accesses { inner, outer: row, step, count } = Accesses::of(k, [columns / vector, rows]);
        let column = inner * vector as i32;
        let x = x
            .offset((self.first_row + row).cvt::<i64>() * pitch)
            .offset(self.first_column + column);
        let from = |access: u32| pitch * i64::from(access * step);
        let first = self.tile.offset_of(row, column);
        let to = |access: u32| first ^ self.tile.offset(access * step, 0);
        let Some([rows, columns]) = extents else {
            let loaded: Vec<_> = (0..count).map(|i| x.load_any(k, from(i), vector)).collect();
            for (i, values) in (0..).zip(loaded.into_iter().flatten()) {
                self.shared.store_vector(k, to(i), values);
            }
            return;
        };
        for i in 0..count {
            k.if_((row + (i * step) as i32).lt(rows) & column.lt(columns), |k| {
                if let Some(values) = x.load_any(k, from(i), vector) {
                    self.shared.store_vector(k, to(i), values);
                }
            });
        }
    }

    /// Stores the columns of the tile as rows of the output; of a tile at the edge, those of `extents` rows and columns.
    fn store(
        &self,
        k: &mut Body<'b, '_>,
        (y, pitch): (Val<'b, GlobalMut<T>>, Val<'b, i64>),
        vector: u32,
        extents: Option<[Val<'b, i32>; 2]>,
    ) {
        let Tile { rows, columns, .. } = self.tile;
        let Accesses { inner, outer: column, step, count } =
            Accesses::of(k, [rows / vector, columns]);
        let row = inner * vector as i32;
        let y = y
            .offset((self.first_column + column).cvt::<i64>() * pitch)
            .offset(self.first_row + row);
        let first = self.tile.offset_of(row, column);
        for i in 0..count {
            let from = self.shared.offset(first ^ self.tile.offset(0, i * step));
            let to = y.offset(pitch * i64::from(i * step));
            match extents {
                None => self.store_vector(k, from, to, vector),
                Some([rows, columns]) => {
                    let is_inside = row.lt(rows) & (column + (i * step) as i32).lt(columns);
                    k.if_(is_inside, |k| self.store_vector(k, from, to, vector));
                }
            }
        }
    }

    /// Stores `vector` elements of a column. They are in one chunk of rows, so that the swizzle of the first one is that of
    /// all.
    fn store_vector(
        &self,
        k: &Body<'b, '_>,
        from: Val<'b, Shared<T>>,
        to: Val<'b, GlobalMut<T>>,
        vector: u32,
    ) {
        let load = |row: u32| from.load(k, (row * self.tile.columns) as i32);
        let values: Vec<_> = (0..vector).map(load).collect();
        if let Some(values) = AnyVector::pack::<T>(&values) {
            to.store_vector(k, 0, values);
        }
    }
}

/// A thread's accesses to a tile of (`inner`, `outer`) accesses, at most as many along the inner mode as a block has
/// threads. Neighbouring threads have neighbouring accesses along the inner mode.
struct Accesses<'b> {
    /// The coordinates of the first access.
    inner: Val<'b, i32>,
    outer: Val<'b, i32>,
    /// The outer coordinates from one access to the next one.
    step: u32,
    count: u32,
}

impl<'b> Accesses<'b> {
    #[track_caller]
    fn of(k: &Body<'b, '_>, [inner, outer]: [u32; 2]) -> Accesses<'b> {
        let (thread, step) = (k.thread_idx().x, THREADS / inner);
        let extent = inner as i32;
        Accesses { inner: thread % extent, outer: thread / extent, step, count: outer / step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Swizzle};
    use crate::tensor::{SmemAccess, SwizzleCandidate, choose_swizzle};

    /// The swizzle of `Tile::offset` is among those of the chooser, and has no bank conflict.
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
            let is_ours = |found: &&SwizzleCandidate| found.swizzle() == ours;
            let found = choice.candidates().iter().find(is_ours);
            assert!(found.is_some_and(SwizzleCandidate::is_free), "{choice}");
        }
    }
}
