//! [`ColumnTile`]: columns of a matrix that the threads of a block reduce over its rows.

use crate::ir::builder::{Converted, Range};
use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::types::Scalar;
use crate::ir::{
    Body, Global, KernelOptions, MutPointer, Registers, Shared, Val, Vector, WARP, range,
};
use crate::tensor::error::{TensorError, TensorErrorKind, count_of};
use crate::tensor::{lead, shifted};

use super::part::{RowPointer, filled, load_vectors, narrow};
use super::tile::{RowAccess, RowTile};

/// A value and the row that it comes from.
pub type Indexed<'b> = (Val<'b, f32>, Val<'b, i32>);

/// A chunk of columns that a block reduces over rows. `team` neighbouring threads share a row, each with a vector of 16 bytes, and all
/// threads together have `threads / team` rows at a time. Then they [join](ColumnTile::join) their results.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, Vector, bf16};
/// use tilewright::ir::types::Scalar;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{ColumnRows, ColumnTile, RowAccess};
///
/// // The sums of the columns of a matrix of 100 x 13 elements.
/// let access = RowAccess::Ragged;
/// let tile = ColumnTile { threads: 64, team: 2, rows: 2, cluster: 1, access };
/// assert_eq!(tile.columns(Scalar::Bf16), 16);
/// type Params = (Global<bf16>, GlobalMut<f32>, i32, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "sums", Target::SM_80, |k, (x, y, rows, columns)| {
///     let zero = k.constant(0);
///     let matrix = ColumnRows { x, column: zero, columns, rows: rows.cvt::<i64>() };
///     let sums = k.registers::<f32>(8);
///     sums.fill(k, 0.0);
///     tile.fold(k, &matrix, [zero, rows], 0.0, |k, words, _| {
///         let elements = words.into_iter().flat_map(|word| word.bitcast::<Vector<bf16, 2>>().lanes());
///         (0..).zip(elements).for_each(|(i, value)| sums.set(k, i, sums.get(k, i) + value.cvt::<f32>()));
///     });
///     let sums = (0..8).map(|i| (sums.get(k, i), zero)).collect();
///     let ((sum, _), _) = tile.join(k, sums, ((0.0, 0), false), |a, b| (a.0 + b.0, a.1));
///     let column = k.thread_idx().x;
///     k.if_(column.lt(columns), |k| y.store(k, column, sum));
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
pub struct ColumnTile {
    /// The threads of a block: a power of two from 32 to 1024, at least `8 * team`.
    pub threads: u32,
    /// The threads that share a row: a power of two from 1 to 32.
    pub team: u32,
    /// The rows of a stage, 1 to 8. A thread has the loads of two stages in flight.
    pub rows: u32,
    /// The blocks of a cluster along the second mode of the grid, which join their results: more than 1 needs `sm_90`.
    pub cluster: u32,
    /// `Aligned`; with others two vectors are shifted together.
    pub access: RowAccess,
}

/// The columns of a matrix that a [`ColumnTile`] has.
#[derive(Clone, Copy, Debug)]
pub struct ColumnRows<'b, T> {
    /// The first element of row 0. The memory starts at a multiple of 16 bytes, and ends with a row.
    pub x: Val<'b, Global<T>>,
    /// The first column of the tile.
    pub column: Val<'b, i32>,
    /// The columns of the matrix, whose rows come after each other.
    pub columns: Val<'b, i32>,
    /// The rows of the memory from row 0 on.
    pub rows: Val<'b, i64>,
}

impl ColumnTile {
    /// Returns the columns of the tile.
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
            ("blocks of a cluster", self.cluster, [1, 8]),
        ] {
            count_of(what, count, [min, max])?;
            count_of(what, count, [count.next_power_of_two(), max])?;
        }
        count_of("rows", self.rows, [1, 8])
    }

    /// Returns the launch bounds of a kernel with this tile.
    pub fn options(&self) -> KernelOptions {
        let options = KernelOptions::default().block([self.threads, 1, 1]);
        if self.cluster > 1 { options.cluster([1, self.cluster, 1]) } else { options }
    }

    /// Calls `add` with each of the thread's vectors in rows `first` to `end`, and the number of its row among the thread's rows, which
    /// [`row`](ColumnTile::row) converts. The numbers ascend. An element that is not there is `missing`.
    ///
    /// Elements that are not `f32`, `f16` or `bf16`, and a tile that breaks the rules of its fields, are errors of the build.
    #[track_caller]
    pub fn fold<'b, T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        matrix: &ColumnRows<'b, T>,
        [first, end]: [Val<'b, i32>; 2],
        missing: f32,
        mut add: impl for<'c> FnMut(&Body<'c, '_>, [Val<'c, u32>; 4], Val<'c, i32>),
    ) {
        let ColumnRows { x, column, columns, rows } = *matrix;
        if let Err(kind) = self.check(T::SCALAR) {
            let operation = "ColumnTile::fold";
            return k.report(TensorError { operation, operand: format!("{self:?}"), kind });
        }
        let [team, slots] = [self.team, self.threads / self.team].map(|count| count as i32);
        let (vector, thread) = (self.columns(T::SCALAR) as i32 / team, k.thread_idx().x);
        let (first, column) = (self.row(k, first, k.constant(0)), column + thread % team * vector);
        let (x, is_ragged) = (x.offset(column), self.access != RowAccess::Aligned);
        // The elements from a vector's start to the column: as many in all rows of a thread, because `slots % 8 == 0`. Both vectors
        // end within the memory in the rows before `whole`.
        let (mut ahead, mut whole) = (k.constant(0), end);
        let start = x.offset(first.mul_wide(columns));
        if is_ragged {
            ahead = lead(start) & (vector - 1);
            let whole_rows = rows - ((column + (2 * vector - 1)) / columns).cvt::<i64>();
            whole = whole_rows.min(end.cvt::<i64>()).cvt::<i32>();
        }
        let number_of = |end: Val<'b, i32>| {
            column.lt(columns).select((end - first + (slots - 1)).max(0) / slots, 0)
        };
        let (whole, numbers) = (number_of(whole), number_of(end));
        let bytes = (ahead * T::SCALAR.size_bytes()).cvt::<u32>();
        let (at_once, pitch) = (self.rows as i32, columns.mul_wide(slots));
        let loads = 1 + u32::from(is_ragged);
        let fill = filled(k, narrow::<T>(missing));
        let from = ThreadRows { pitch, whole, fill, loads };
        // The loads of one stage are in flight while the other one is added.
        let [a, b] = [(); 2].map(|()| k.registers(self.rows * loads));
        let next = from.load(k, start.offset(-ahead), k.constant(0), &a);
        k.for_(range(0, whole).step(2 * at_once), next, |k, number, mut next| {
            for (first, [own, other]) in [(0, [a, b]), (at_once, [b, a])] {
                let number = number + first;
                next = from.load(k, next, number + at_once, &other);
                for index in 0..self.rows {
                    let part = |load: u32| own.get(k, index * loads + load).lanes();
                    let mut words = part(0);
                    if is_ragged {
                        words = shifted(words, part(1), bytes);
                    }
                    add(k, words, number + index as i32);
                }
            }
            next
        });
        if is_ragged {
            let in_word = 32 / T::SCALAR.bits() as i32;
            k.for_(range(whole, numbers), (), |k, number, ()| {
                let row = start.offset(pitch * number.cvt::<i64>());
                let fill = k.constant(narrow::<T>(missing));
                let words = [0, 1, 2, 3].map(|word| {
                    let elements = (word * in_word..(word + 1) * in_word).map(|element| {
                        let has = (column + element).lt(columns);
                        let value = k.if_with(has, fill, |k| row.load(k, element));
                        match T::SCALAR.bits() {
                            16 => {
                                value.bitcast::<u16>().cvt::<u32>()
                                    << (element % in_word * 16) as u32
                            }
                            _ => value.bitcast::<u32>(),
                        }
                    });
                    elements.reduce(|a, b| a | b).unwrap_or(bytes)
                });
                add(k, words, number);
            });
        }
    }

    /// Returns the row of a number of the thread's rows from row `first` on.
    #[track_caller]
    pub fn row<'b>(
        &self,
        k: &Body<'b, '_>,
        first: Val<'b, i32>,
        number: Val<'b, i32>,
    ) -> Val<'b, i32> {
        let slots = (self.threads / self.team) as i32;
        first + k.thread_idx().x / self.team as i32 + number * slots
    }

    /// Joins the results of the columns of each thread's vector: those of the lanes of a warp, then those of the warps of the block, then
    /// those of the blocks of the cluster, always in the same order. Without `has_rows` only values count. Returns the result of column `i`
    /// in thread `i` of the first block, and shared memory for results of as many parts of all columns as there are threads for. All threads
    /// of the cluster come here together.
    #[track_caller]
    pub fn join<'b>(
        &self,
        k: &mut Body<'b, '_>,
        mut results: Vec<Indexed<'b>>,
        (identity, has_rows): ((f32, i32), bool),
        combine: impl for<'c> Fn(Indexed<'c>, Indexed<'c>) -> Indexed<'c> + Copy,
    ) -> (Indexed<'b>, ColumnResults<'b, Shared<u32>>) {
        let (thread, team, vector) = (k.thread_idx().x, self.team as i32, results.len() as i32);
        let (columns, warps) = (team * vector, self.threads as i32 / 32);
        if self.cluster > 1 {
            // No block stores to a block that has not started.
            k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
        }
        for stride in (0..5).map(|log| 1u32 << log).filter(|stride| *stride >= self.team) {
            let join = |own: &Indexed<'b>| {
                let row = if has_rows { k.shfl_bfly(WARP, own.1, stride) } else { own.1 };
                combine(*own, (k.shfl_bfly(WARP, own.0, stride), row))
            };
            results = results.iter().map(join).collect();
        }
        let shared = |k: &Body<'b, '_>, results: i32| {
            let words = (1 + u32::from(has_rows)) * results as u32;
            ColumnResults { columns, has_rows, words: k.shared_aligned::<u32>(words, 8) }
        };
        let own = shared(k, (warps * columns).max(self.threads as i32));
        k.if_((thread % 32).lt(team), |k| {
            for (element, result) in (0..).zip(&results) {
                own.save(k, thread / 32, thread % team * vector + element, *result);
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
        let first = ColumnResults { columns, has_rows, words: inbox.words.mapa(0u32) };
        k.if_(is_column, |k| first.save(k, rank, thread, found));
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        let found = k.if_with(rank.eq(0) & is_column, identity, |k| {
            inbox.join(k, range(0, blocks), thread, identity, combine)
        });
        (found, own)
    }
}

/// The rows of a thread.
#[derive(Clone, Copy)]
struct ThreadRows<'b> {
    /// The elements from a row to the next one.
    pitch: Val<'b, i64>,
    /// The rows that have their vectors.
    whole: Val<'b, i32>,
    fill: Val<'b, Vector<u32, 4>>,
    /// The vectors of a row: 1 or 2.
    loads: u32,
}

impl<'b> ThreadRows<'b> {
    /// Loads the rows from row number `first` on, which starts at `*start`. Returns the start of the row after them.
    #[track_caller]
    fn load<'k: 'b, T: Converted>(
        &self,
        k: &mut Body<'k, '_>,
        start: Val<'b, Global<T>>,
        first: Val<'b, i32>,
        into: &Registers<'_, Vector<u32, 4>>,
    ) -> Val<'b, Global<T>> {
        let (ThreadRows { pitch, whole, fill, loads }, rows) = (*self, into.len() / self.loads);
        let addresses = || {
            let rows = std::iter::successors(Some(start), |row| Some(row.offset(pitch)))
                .take(rows as usize)
                .map(Global::words);
            rows.flat_map(|row| (0..loads as i32).map(move |load| row.offset(load * 4))).collect()
        };
        let has = |load: u32| (first + (load / loads) as i32).lt(whole);
        load_vectors(k, into, (fill, <Global<T>>::access()), addresses, has);
        start.offset(pitch * i64::from(rows))
    }
}

/// Results of parts of some columns in memory: the values, and the rows beside them.
#[derive(Clone, Copy, Debug)]
pub struct ColumnResults<'b, P> {
    /// The number of columns.
    pub columns: i32,
    /// The results have rows, not values alone.
    pub has_rows: bool,
    /// The memory, at a multiple of 8 bytes.
    pub words: Val<'b, P>,
}

impl<'b, P: MutPointer<Elem = u32>> ColumnResults<'b, P> {
    /// Stores the result of a part and column.
    #[track_caller]
    pub fn save<'c>(
        &self,
        k: &Body<'c, '_>,
        part: Val<'c, i32>,
        column: Val<'c, i32>,
        (value, row): Indexed<'c>,
    ) where
        'b: 'c,
    {
        let (at, value) = (part * self.columns + column, value.bitcast::<u32>());
        if self.has_rows {
            self.words.store_vector(k, at * 2, Val::pack([value, row.bitcast::<u32>()]));
        } else {
            self.words.store(k, at, value);
        }
    }

    /// Joins the results of some parts in their order; `identity` of no parts. Several are loaded at once.
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
        k.for_(parts.unroll(8), identity, |k, part, found| {
            let at = part * self.columns + column;
            let result = if self.has_rows {
                let [value, row] = self.words.load_vector::<2>(k, at * 2).lanes();
                (value.bitcast::<f32>(), row.bitcast::<i32>())
            } else {
                (self.words.load(k, at).bitcast::<f32>(), found.1)
            };
            combine(found, result)
        })
    }
}
