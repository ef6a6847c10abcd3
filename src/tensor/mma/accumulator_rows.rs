//! [`AccumulatorRows`]: which row and column of the tile each of a thread's accumulators is. Use it
//! for row-wise work after an MMA, for example the softmax, the mask or a row sum in an epilogue.

use crate::ir::{Val, WARP};
use crate::layout::{Layout, LayoutError, shape};

use crate::ir::builder::DeviceCoord;
use crate::tensor::atom::tiled_mma::{Operand, TiledMma};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::rows::tree;
use crate::tensor::view::tensor::{RegisterTensor, Tensor};

/// How many independent chains a thread-local reduction uses.
const CHAINS: usize = 4;

/// A thread's accumulators of an M x N tile, arranged by rows and columns. Use it for row-wise work
/// on accumulators, for example softmax, masking or row scaling.
///
/// The arrangement is the same in every thread, only its origin differs: the accumulator in row `r`
/// and column `c` of a thread is the tile's element at
/// `origin + (row_offsets[r], column_offsets[c])`. Other lanes of the warp hold the rest of the
/// row: four lanes share a row for `mma.sync` and `wgmma`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape, tiler};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::atom::{MmaAtom, TiledMma};
/// use tilewright::tensor::copy::copy;
/// use tilewright::tensor::mma::AccumulatorRows;
/// use tilewright::tensor::view::Tensor;
///
/// let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
/// let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?;
/// let rows = AccumulatorRows::new(&mma, [16, 32])?;
/// assert_eq!((rows.row_offsets(), rows.column_offsets()), (&[0, 8][..], &[0, 1, 8, 9, 16, 17, 24, 25][..]));
///
/// // The largest element of each row of a matrix.
/// let kernel = Kernel::<(GlobalMut<f32>, GlobalMut<f32>)>::build("max", Target::SM_80, |k, (x, y)| {
///     let thr = mma.slice(k.thread_idx().x);
///     let acc = thr.fragment_c::<f32>(k, shape!(16, 32));
///     let x = Tensor::new(x, layout!((16, 32) : (32, 1)));
///     copy(&thr.partition_c(&x), &acc);
///     let [row, _] = rows.origin(&mma, k.thread_idx().x);
///     for (r, offset) in rows.row_offsets().iter().enumerate() {
///         let own = rows.fold(&acc, r, k.constant(f32::MIN), |a, b| a.max(b));
///         let max = rows.reduce_lanes(own, |a, b| a.max(b));
///         y.store(row + *offset, max);
///     }
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&(0..512).map(|i| i as f32).collect::<Vec<_>>())?;
/// let mut y = device.zeros::<f32>(16)?;
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut x, &mut y))?;
/// assert!(y.to_vec()?.iter().zip(0..).all(|(y, row)| *y == (32 * row + 31) as f32));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccumulatorRows {
    shape: [u32; 2],
    row_offsets: Vec<u32>,
    column_offsets: Vec<u32>,
    /// Each row's registers, by column.
    registers: Vec<Vec<u32>>,
    /// The lane masks of the butterfly that reduces a row.
    lanes: Vec<u32>,
}

impl AccumulatorRows {
    /// Arranges the accumulators of a tile of `shape` rows and columns.
    ///
    /// # Errors
    /// Those of C's layout; [`TensorErrorKind::Layout`] if a thread's accumulators do not form rows
    /// and columns, or if several warps share a row.
    #[inline]
    pub fn new(mma: &TiledMma, shape: [u32; 2]) -> Result<AccumulatorRows, TensorError> {
        Self::of(mma, shape).map_err(|kind| TensorError {
            operation: "make_accumulator_rows",
            operand: format!("{shape:?} of {}", mma.atom().op()),
            kind,
        })
    }

    #[inline]
    fn of(mma: &TiledMma, shape: [u32; 2]) -> Result<AccumulatorRows, TensorErrorKind> {
        let none = |argument: &str| LayoutError::Unsupported {
            operation: "rows of accumulators",
            argument: argument.to_owned(),
        };
        let [m, n] = shape.map(i64::from);
        let parts = mma.parts(Operand::C, &Layout::compact((m, n)))?;
        let thread = parts.get(&[0])?;
        let values = parts.take(1, parts.rank())?;
        let coord = |layout: &Layout, index: i64| -> Result<[u32; 2], LayoutError> {
            let offset = layout.crd2idx(index)?.to_static()?;
            Ok([(offset % m) as u32, (offset / m) as u32])
        };
        let mut found = Vec::new();
        for register in 0..values.size()?.to_static()? {
            found.push((coord(&values, register)?, register as u32));
        }
        let mut row_offsets: Vec<u32> = found.iter().map(|([row, _], _)| *row).collect();
        let mut column_offsets: Vec<u32> = found.iter().map(|([_, column], _)| *column).collect();
        for offsets in [&mut row_offsets, &mut column_offsets] {
            offsets.sort_unstable();
            offsets.dedup();
        }
        let mut registers = Vec::new();
        for row in &row_offsets {
            let mut of_row = Vec::new();
            for column in &column_offsets {
                let at = found.iter().find(|(coord, _)| coord == &[*row, *column]);
                of_row.push(
                    at.ok_or_else(|| none("accumulators that do not form rows and columns"))?.1,
                );
            }
            registers.push(of_row);
        }
        let (mut lanes, mut bit) = (Vec::new(), 1);
        while bit < mma.size()? {
            let [row, column] = coord(&thread, bit.into())?;
            match (row, column) {
                (0, 1..) if bit < 32 => lanes.push(bit),
                (0, 1..) => return Err(none("rows that several warps share").into()),
                _ => {}
            }
            bit *= 2;
        }
        Ok(AccumulatorRows { shape, row_offsets, column_offsets, registers, lanes })
    }

    /// Keeps only the thread's rows `first..end`, as indices into
    /// [`row_offsets`](AccumulatorRows::row_offsets), so that you can process them in portions.
    #[must_use]
    pub fn part(&self, [first, end]: [usize; 2]) -> AccumulatorRows {
        let part = self.row_offsets.get(first..end).unwrap_or_default().to_vec();
        let registers = self.registers.get(first..end).unwrap_or_default().to_vec();
        AccumulatorRows { row_offsets: part, registers, ..self.clone() }
    }

    /// Returns the offsets of the thread's rows from its first row, for a loop over its rows: index
    /// `r` of this slice is the `row` argument of [`fold`](AccumulatorRows::fold) and
    /// [`map_row`](AccumulatorRows::map_row).
    pub fn row_offsets(&self) -> &[u32] {
        &self.row_offsets
    }

    /// Returns the offsets of the thread's columns from its first column, for example to load the
    /// bias of each column.
    pub fn column_offsets(&self) -> &[u32] {
        &self.column_offsets
    }

    /// Returns the tile's row and column that hold the first accumulator of `mma`'s thread
    /// `thread`. Add the offsets to it to find where any other accumulator belongs.
    #[track_caller]
    #[inline]
    pub fn origin<'b>(&self, mma: &TiledMma, thread: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let k = &thread.body();
        let [m, n] = self.shape.map(i64::from);
        let coords = mma.slice(thread).partition_c(&Tensor::identity(k, shape!(m, n)));
        let number = |coord: Option<&DeviceCoord<'b>>| match coord {
            Some(DeviceCoord::Device(number)) => *number,
            Some(DeviceCoord::Host(number)) => k.constant(*number as i32),
            _ => k.constant(0),
        };
        match coords.coord((0, 0, 0)) {
            DeviceCoord::Tuple(items) => [number(items.first()), number(items.get(1))],
            one => [number(Some(&one)), k.constant(0)],
        }
    }

    /// Returns the accumulators that this thread holds of a row, by column, for work that neither
    /// [`fold`](AccumulatorRows::fold) nor [`map_row`](AccumulatorRows::map_row) covers.
    #[track_caller]
    #[inline]
    pub fn row<'b>(&self, acc: &RegisterTensor<'b, f32>, row: usize) -> Vec<Val<'b, f32>> {
        let variables = acc.variables();
        self.registers_of(row).iter().map(|register| variables.get(*register)).collect()
    }

    fn registers_of(&self, row: usize) -> &[u32] {
        self.registers.get(row).map_or(&[], Vec::as_slice)
    }

    /// Replaces each accumulator of the thread's row `row` by `map(column offset, accumulator)`,
    /// for example to scale the row or to add a bias.
    #[track_caller]
    pub fn map_row<'b>(
        &self,
        acc: &RegisterTensor<'b, f32>,
        row: usize,
        mut map: impl FnMut(u32, Val<'b, f32>) -> Val<'b, f32>,
    ) {
        let variables = acc.variables();
        for (register, offset) in self.registers_of(row).iter().zip(&self.column_offsets) {
            let value = variables.get(*register);
            variables.set(*register, map(*offset, value));
        }
    }

    /// Combines the accumulators that this thread holds of a row, in four independent chains, and
    /// then with `init`. For the whole row's maximum or sum, pass the result to
    /// [`reduce_lanes`](AccumulatorRows::reduce_lanes).
    #[track_caller]
    pub fn fold<'b>(
        &self,
        acc: &RegisterTensor<'b, f32>,
        row: usize,
        init: Val<'b, f32>,
        combine: impl Fn(Val<'b, f32>, Val<'b, f32>) -> Val<'b, f32> + Copy,
    ) -> Val<'b, f32> {
        let values = self.row(acc, row);
        let mut chains: Vec<Val<'b, f32>> = values.iter().copied().take(CHAINS).collect();
        for value in values.chunks(CHAINS).skip(1) {
            for (chain, value) in chains.iter_mut().zip(value) {
                *chain = combine(*chain, *value);
            }
        }
        combine(init, tree(init, &chains, combine))
    }

    /// Combines `value` over the lanes that share the thread's rows; each of them gets the result.
    /// The second half of a row reduction, after [`fold`](AccumulatorRows::fold).
    #[track_caller]
    pub fn reduce_lanes<'b>(
        &self,
        value: Val<'b, f32>,
        combine: impl Fn(Val<'b, f32>, Val<'b, f32>) -> Val<'b, f32>,
    ) -> Val<'b, f32> {
        let k = &value.body();
        let step = |value, mask: &u32| combine(value, k.shfl_bfly(WARP, value, *mask));
        self.lanes.iter().fold(value, step)
    }

    /// Replaces accumulators outside `low <= column < high` by `value`, for example by negative
    /// infinity for causal masking before a softmax. `bounds` returns the limits
    /// for a row offset, relative to the thread's first column; `None` means no limit.
    #[track_caller]
    pub fn mask<'b>(
        &self,
        acc: &RegisterTensor<'b, f32>,
        value: f32,
        bounds: impl Fn(u32) -> [Option<Val<'b, i32>>; 2],
    ) {
        let k = &acc.body();
        for (row, offset) in self.row_offsets.iter().enumerate() {
            let [low, high] = bounds(*offset);
            self.map_row(acc, row, |column, old| {
                let new = k.constant(value);
                let old = low.map_or(old, |low| low.le(column as i32).select(old, new));
                high.map_or(old, |high| high.gt(column as i32).select(old, new))
            });
        }
    }
}
