//! [`ColumnReduction`]: a block reduces a matrix along its columns, for example to sum a bias
//! gradient over the batch or to find each column's maximum.

use crate::ir::builder::Converted;
use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::types::Scalar;
use crate::ir::{Body, Global, KernelOptions, MutPointer, Range, Shared, Val, Var, WARP, range};
use crate::tensor::copy::{lead, shifted};
use crate::tensor::error::{TensorError, TensorErrorKind, count_of};

use super::partition::{RowFragment, RowPointer, filled, narrow};
use super::row_tile::{RowAccess, RowTile};

/// A value and the index of the row that it comes from. An argmax needs the index; a plain sum or
/// maximum ignores it.
pub type Indexed<'b> = (Val<'b, f32>, Val<'b, i32>);

/// Reduces a chunk of columns over many rows with one block, for example for column sums or the
/// gradient of a norm's weights. To reduce along a row instead, use
/// [`RowTile`](crate::tensor::rows::RowTile).
///
/// `team` adjacent threads share a row, each with one vector of 16 bytes, so the block reads
/// `threads / team` rows at a time. [`fold`](ColumnReduction::fold) accumulates in each thread's
/// registers; [`join`](ColumnReduction::join) then combines the threads through shuffles and shared
/// memory.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16, range};
/// use tilewright::ir::types::Scalar;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::{ColumnReduction, ColumnRows, RowAccess};
///
/// // The sums of the columns of a matrix of 100 x 13 elements.
/// let access = RowAccess::Ragged;
/// let tile = ColumnReduction { threads: 64, team: 2, rows: 2, cluster: 1, access };
/// assert_eq!(tile.columns(Scalar::Bf16), 16);
/// type Params = (Global<bf16>, GlobalMut<f32>, i32, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "sums", Target::SM_80, |k, (x, y, rows, columns)| {
///     let (zero, identity) = (k.constant(0), (0.0, 0));
///     let matrix = ColumnRows { x, column: zero, columns, rows: rows.cvt::<i64>() };
///     let sums = tile.fold(k, &matrix, [zero, rows], identity, |sum, value| (sum.0 + value.0, sum.1));
///     let (sum, _) = tile.join(k, sums, identity, |a, b| (a.0 + b.0, a.1));
///     let column = k.thread_idx().x;
///     k.if_(column.lt(columns), |_| y.store(column, sum.0));
/// })?;
/// let device = Device::sim()?;
/// let x: Vec<bf16> = (0..1300).map(|i| bf16::from_f32((i % 13) as f32)).collect();
/// let mut y = device.zeros::<f32>(13)?;
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [64, 1, 1]), (&device.upload(&x)?, &mut y, 100, 13))?;
/// assert_eq!(y.to_vec()?, std::array::from_fn::<f32, 13, _>(|column| 100.0 * column as f32));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnReduction {
    /// Threads per block: a power of two from 32 to 1024, at least `8 * team`.
    pub threads: u32,
    /// Threads that share a row: a power of two from 1 to 32.
    pub team: u32,
    /// Rows that a thread loads together, 1 to 8. The rows of the next iteration are in flight as
    /// well, so this many loads hide the latency at the cost of registers.
    pub rows: u32,
    /// Blocks of a cluster, along the grid's second mode, that join their results. More than 1
    /// needs `sm_90`.
    pub cluster: u32,
    /// How rows start. Anything but `Aligned` loads two vectors and shifts them together.
    pub access: RowAccess,
}

/// The part of a row-major matrix that a [`ColumnReduction`] reduces: the columns from `column` on,
/// over the rows that you pass to the reduction.
#[derive(Clone, Copy, Debug)]
pub struct ColumnRows<'b, T> {
    /// Row 0's first element. The memory must start at a multiple of 16 bytes and end with a row.
    pub x: Val<'b, Global<T>>,
    /// The tile's first column.
    pub column: Val<'b, i32>,
    /// Columns per row. Rows are contiguous.
    pub columns: Val<'b, i32>,
    /// Rows in memory, counted from row 0.
    pub rows: Val<'b, i64>,
}

impl ColumnReduction {
    /// Returns how many columns the tile covers for elements of this type. Divide the matrix's
    /// columns by it to get the grid's width.
    pub fn columns(&self, elem: Scalar) -> u32 {
        self.team * RowTile::vector_len(elem)
    }

    fn check(&self, elem: Scalar) -> Result<(), TensorErrorKind> {
        if !matches!(elem, Scalar::F32 | Scalar::F16 | Scalar::Bf16) {
            let expected = "f32, f16 or bf16".to_owned();
            return Err(TensorErrorKind::ElementType { operand: "x", found: elem, expected });
        }
        for (what, count, [min, max]) in [
            ("team", self.team, [1, 32]),
            ("threads", self.threads, [self.team.saturating_mul(8).max(32), 1024]),
            ("blocks per cluster", self.cluster, [1, 8]),
        ] {
            count_of(what, count, [min, max])?;
            count_of(what, count, [count.next_power_of_two(), max])?;
        }
        count_of("rows", self.rows, [1, 8])
    }

    /// Returns the launch bounds of a kernel with this tile: its threads and its cluster. Build the
    /// kernel with them.
    pub fn options(&self) -> KernelOptions {
        let options = KernelOptions::default().block([self.threads, 1, 1]);
        if self.cluster > 1 { options.cluster([1, self.cluster, 1]) } else { options }
    }

    /// Folds rows `first..end` into accumulators that start at `identity`. Returns the results for
    /// the columns of the thread's vector. Each thread visits its rows in ascending order; elements
    /// outside the matrix count as `identity`.
    ///
    /// It is a build error if elements are not `f32`, `f16` or `bf16`, or if a field of the tile is
    /// out of its range.
    #[track_caller]
    pub fn fold<'b, T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        matrix: &ColumnRows<'b, T>,
        [first, end]: [Val<'b, i32>; 2],
        identity: (f32, i32),
        add: impl for<'c> Fn(Indexed<'c>, Indexed<'c>) -> Indexed<'c>,
    ) -> Vec<Indexed<'b>> {
        let ColumnRows { x, column, columns, rows } = *matrix;
        if let Err(kind) = self.check(T::scalar()) {
            k.report(TensorError {
                operation: "ColumnReduction::fold",
                operand: format!("{self:?}"),
                kind,
            });
            return vec![(k.constant(identity.0), k.constant(identity.1))];
        }
        let [team, slots] = [self.team, self.threads / self.team].map(|count| count as i32);
        let (vector, thread) = (self.columns(T::scalar()) as i32 / team, k.thread_idx().x);
        let (first, column) = (first + thread / team, column + thread % team * vector);
        let (x, is_ragged) = (x.offset(column), self.access != RowAccess::Aligned);
        // How many elements the column is behind the start of its vector: the same in all rows of a
        // thread, because `slots % 8 == 0`. In the rows before `whole`, both vectors end inside the
        // memory.
        let (mut ahead, mut whole) = (k.constant(0), end);
        if is_ragged {
            ahead = lead(x.offset(first.mul_wide(columns))) & (vector - 1);
            let whole_rows = rows - ((column + (2 * vector - 1)) / columns).cvt::<i64>();
            whole = whole_rows.min(end.cvt::<i64>()).cvt::<i32>();
        }
        let (from, bytes) = (x.offset(-ahead), (ahead * T::scalar().size_bytes()).cvt::<u32>());
        let (has_columns, fill) = (column.lt(columns), filled(k, narrow::<T>(identity.0)));
        let found: Vec<Found<'_>> =
            (0..vector).map(|_| (k.var(identity.0), k.var(identity.1))).collect();
        let at_once = self.rows as i32;
        let steps = range(first, end).step(at_once * slots).prefetch_stages(1);
        k.for_(steps, (), |k, row, ()| {
            let load = |number: i32| {
                let row = row + number * slots;
                let words = from.offset(row.mul_wide(columns)).ptr_cast::<u32>();
                let mut vector_at = |at| {
                    k.if_with(row.lt(whole) & has_columns, fill, |_| {
                        words.load_vector_with::<4>(at, <Global<T>>::access())
                    })
                };
                (row, vector_at(0), is_ragged.then(|| vector_at(4)))
            };
            for (row, low, high) in (0..at_once).map(load).collect::<Vec<_>>() {
                let vector =
                    high.map_or(low, |high| Val::pack(shifted(low.lanes(), high.lanes(), bytes)));
                let values = RowFragment::<T> { vectors: vec![vector], singles: Vec::new() };
                let values = values.iter_f32().zip(&found);
                values.for_each(|(value, found)| update(found, (value, row), &add));
            }
        });
        if is_ragged {
            let skipped = ((whole - first).max(0) + (slots - 1)) / slots * slots;
            k.for_(range(first + skipped, end).step(slots), (), |k, row, ()| {
                for (element, found) in (0..).zip(&found) {
                    k.if_((column + element).lt(columns), |_| {
                        let value = x.offset(row.mul_wide(columns)).load(element).cvt::<f32>();
                        update(found, (value, row), &add);
                    });
                }
            });
        }
        found.iter().map(|found| (found.0.get(), found.1.get())).collect()
    }

    /// Combines the results of all threads: over the lanes of a warp, the block's warps, then the
    /// cluster's blocks, always in the same order.
    ///
    /// Returns column `i`'s result in thread `i` of the first block. Also returns the
    /// block's shared memory for results, which has room for `threads / columns` parts of all
    /// columns. All threads of the cluster must call it together.
    #[track_caller]
    pub fn join<'b>(
        &self,
        k: &mut Body<'b, '_>,
        mut results: Vec<Indexed<'b>>,
        identity: (f32, i32),
        combine: impl for<'c> Fn(Indexed<'c>, Indexed<'c>) -> Indexed<'c> + Copy,
    ) -> (Indexed<'b>, ColumnResults<'b, Shared<u32>>) {
        let (thread, team, vector) = (k.thread_idx().x, self.team as i32, results.len() as i32);
        let (columns, warps) = (team * vector, self.threads as i32 / 32);
        if self.cluster > 1 {
            // No block may store to a block that has not started.
            k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
        }
        for stride in (0..5).map(|log| 1u32 << log).filter(|stride| *stride >= self.team) {
            let join = |own: &Indexed<'b>| {
                combine(*own, (k.shfl_bfly(WARP, own.0, stride), k.shfl_bfly(WARP, own.1, stride)))
            };
            results = results.iter().map(join).collect();
        }
        let shared = |k: &Body<'b, '_>, results: i32| ColumnResults {
            columns,
            words: k.shared_aligned::<u32>(2 * results as u32, 8),
        };
        let own = shared(k, (warps * columns).max(self.threads as i32));
        k.if_((thread % 32).lt(team), |_| {
            for (element, result) in (0..).zip(&results) {
                own.save(thread / 32, thread % team * vector + element, *result);
            }
        });
        k.barrier();
        let is_column = thread.lt(columns);
        let found = k.if_with(is_column, identity, |k| {
            own.join(k, range(0, warps), thread, identity, combine)
        });
        if self.cluster == 1 {
            return (found, own);
        }
        let (rank, blocks) = (k.block_idx().y % self.cluster as i32, self.cluster as i32);
        let inbox = shared(k, blocks * columns);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        let first = ColumnResults { columns, words: inbox.words.mapa(0u32) };
        k.if_(is_column, |_| first.save(rank, thread, found));
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        let found = k.if_with(rank.eq(0) & is_column, identity, |k| {
            inbox.join(k, range(0, blocks), thread, identity, combine)
        });
        (found, own)
    }
}

/// A thread's accumulator.
type Found<'b> = (Var<'b, f32>, Var<'b, i32>);

fn update<'c>(
    found: &Found<'c>,
    value: Indexed<'c>,
    add: &impl for<'d> Fn(Indexed<'d>, Indexed<'d>) -> Indexed<'d>,
) {
    let result = add((found.0.get(), found.1.get()), value);
    found.0.set(result.0);
    found.1.set(result.1);
}

/// Partial results of a column reduction in global or shared memory, if several blocks or groups of
/// threads (the *parts*) reduce different rows of the same columns. Each part
/// [saves](ColumnResults::save) its result, and later one thread per column
/// [joins](ColumnResults::join) them. A result takes two words: the value and its row. Use it if
/// one block per chunk of columns does not fill the GPU.
#[derive(Clone, Copy, Debug)]
pub struct ColumnResults<'b, P> {
    /// The column count.
    pub columns: i32,
    /// The memory, aligned to 8 bytes.
    pub words: Val<'b, P>,
}

impl<'b, P: MutPointer<Elem = u32>> ColumnResults<'b, P> {
    /// Stores part `part`'s result for column `column`. Call it in the thread that has the column's
    /// result.
    #[track_caller]
    pub fn save(&self, part: Val<'b, i32>, column: Val<'b, i32>, result: Indexed<'b>) {
        let words = Val::pack([result.0.bitcast::<u32>(), result.1.bitcast::<u32>()]);
        self.words.store_vector((part * self.columns + column) * 2, words);
    }

    /// Combines a column's results of `parts` in order, starting with `identity`. Several loads are
    /// in flight at once. Call it after a barrier, or in a second launch, when all parts are saved.
    #[track_caller]
    pub fn join<'c>(
        &self,
        k: &mut Body<'c, '_>,
        parts: Range<'c, i32>,
        column: Val<'c, i32>,
        identity: (f32, i32),
        combine: impl for<'d> Fn(Indexed<'d>, Indexed<'d>) -> Indexed<'d>,
    ) -> Indexed<'c>
    where
        'b: 'c,
    {
        k.for_(parts.unroll(8), identity, |_, part, found| {
            let words = self.words.load_vector::<2>((part * self.columns + column) * 2);
            let [value, row] = words.lanes();
            combine(found, (value.bitcast::<f32>(), row.bitcast::<i32>()))
        })
    }
}
