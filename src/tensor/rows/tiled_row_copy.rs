//! [`TiledRowCopy`]: a block copies a tile's rows to shared memory, or stores them from there. Use
//! it to rearrange whole tiles, for example in a transpose.

use crate::ir::builder::AnyVector;
use crate::ir::{Body, Element, Global, GlobalMut, Pointer, Val, Vector, range};
use crate::tensor::error::{TensorError, TensorErrorKind, count_of};
use crate::tensor::view::tensor::SharedTensor;

use super::row_tile::{RowAccess, RowTile};

/// A block of rows of a tile that all threads copy to shared memory or store to global memory, in
/// vectors of 16 bytes.
///
/// Use it if a kernel needs rows in another arrangement than they are loaded in, for example a
/// transpose or a permutation. To hold rows in registers instead, use
/// [`RowTile`](crate::tensor::rows::RowTile). Compared with
/// [`AsyncTile`](crate::tensor::copy::AsyncTile), it keeps 16-byte loads for rows with any start
/// and takes batches with any strides, but its copies pass through registers.
///
/// Rows can start anywhere: a row starts `lead` elements after a multiple of 16 bytes. With `n`
/// elements per vector, vector `v` covers the elements from `v * n - lead` on. `across` adjacent
/// threads load adjacent vectors of a row. A thread has every `across`-th vector of every
/// `threads / across`-th row, numbered row by row.
///
/// It is a build error if an extent is not a power of two, or if there are more threads than
/// vectors.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::builder::AnyVector;
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::{MatrixRows, RowAccess, TiledRowCopy};
/// use tilewright::tensor::view::SharedTensor;
///
/// // Copies 20 rows of 13 elements: from rows 13 elements apart to rows 15 elements apart.
/// let access = RowAccess::Ragged;
/// let tile = TiledRowCopy { threads: 32, rows: 32, matrices: 1, vectors: 4, across: 4, access };
/// type Params = (Global<bf16>, GlobalMut<bf16>);
/// let kernel = Kernel::<Params>::build("copy", Target::SM_80, |k, (x, y)| {
///     let first = [0; 3].map(|at| k.constant(at));
///     let left = [20, 13, 1].map(|size| k.constant(size));
///     let [x_pitch, y_pitch] = [13, 15].map(|pitch| k.constant(pitch));
///     let x = MatrixRows { base: x, pitch: x_pitch, batch: Vec::new(), first, left };
///     let y = MatrixRows { base: y, pitch: y_pitch, batch: Vec::new(), first, left };
///     let rows = SharedTensor::<bf16>::shared(k, layout!((32, 32) : (32, 1)));
///     // Vector `i` of thread `t` has the elements `8 * (t % 4) ..` of row `t / 4 + 8 * i`.
///     let vectors = rows.composition(&layout!((8, (4, 8), 4) : (32, (256, 1), 8)));
///     tile.copy_to(k, &x, k.constant(20 * 13), &vectors);
///     k.barrier();
///     tile.store(k, &y, |_, vector| {
///         let (rows, lead) = (&rows, x.leads(vector.matrix).of(vector.row));
///         move |_, columns| {
///             let element = |column: &_| rows.load((vector.row, *column + lead));
///             AnyVector::pack::<bf16>(&columns.iter().map(element).collect::<Vec<_>>())
///         }
///     });
/// })?;
/// assert!(kernel.ptx().text().contains("st.global.v4.b32"));
/// let device = Device::sim()?;
/// let x: Vec<bf16> = (0..20 * 13).map(|i| bf16::from_f32(i as f32)).collect();
/// let mut y = device.zeros::<bf16>(20 * 15)?;
/// device.load(&kernel)?.launch(Grid::cover(32, 32), (&device.upload(&x)?, &mut y))?;
/// for (to, from) in y.to_vec()?.chunks(15).zip(x.chunks(13)) {
///     assert_eq!((&to[..13], to[14].to_f32()), (from, 0.0));
/// }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TiledRowCopy {
    /// Threads per block.
    pub threads: u32,
    /// Rows per matrix.
    pub rows: u32,
    /// Matrices per tile.
    pub matrices: u32,
    /// Vectors per row.
    pub vectors: u32,
    /// How many adjacent threads load adjacent vectors of a row.
    pub across: u32,
    /// `Aligned`: every row starts and ends at a multiple of 16 bytes. Otherwise rows can start and
    /// end anywhere.
    pub access: RowAccess,
}

/// A tile's rows in a batch of matrices in global memory: where they are, and how much of the
/// matrices remains from the tile's origin on. Pass it to the copies of a [`TiledRowCopy`].
#[derive(Clone, Debug)]
pub struct MatrixRows<'b, P> {
    /// The first matrix's first element, at a multiple of 16 bytes.
    pub base: Val<'b, P>,
    /// The row pitch in elements.
    pub pitch: Val<'b, i64>,
    /// Each batch mode's count and stride, in elements.
    pub batch: Vec<(Val<'b, i32>, Val<'b, i64>)>,
    /// The tile's first row, first element of a row, and first matrix.
    pub first: [Val<'b, i32>; 3],
    /// How many rows, elements of a row, and matrices remain from there.
    pub left: [Val<'b, i32>; 3],
}

/// The leads of a matrix's rows: how many elements each row starts after a multiple of 16 bytes.
/// Ragged rows need them to find an element in shared memory, where a copied row starts with its
/// lead.
#[derive(Clone, Copy, Debug)]
pub struct RowMisalignment<'b> {
    start: Val<'b, i32>,
    pitch: Val<'b, i32>,
    lanes: u32,
}

/// One 16-byte vector of a tile's row, and where it is in the tile and in memory. You need it to
/// choose the vector's place in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct RowVector<'b> {
    /// The vector's index among the thread's vectors.
    pub number: u32,
    /// The row's index in its matrix, relative to the tile.
    pub row: Val<'b, i32>,
    /// The matrix's index in the tile.
    pub matrix: Val<'b, i32>,
    /// The vector's first element in the row, relative to the tile. It can be negative in a ragged
    /// row.
    pub element: Val<'b, i32>,
    /// The row's start in memory, in elements.
    start: Val<'b, i64>,
    lead: Option<Val<'b, i32>>,
    /// Whether the row is inside its matrix.
    exists: Val<'b, bool>,
}

/// Returns the offset of a batch item, whose modes are pairs of count and stride. Unsigned division
/// of 31-bit values takes few instructions.
#[track_caller]
#[inline]
pub(crate) fn strided<'b>(
    mut item: Val<'b, u32>,
    modes: impl ExactSizeIterator<Item = (Val<'b, i32>, Val<'b, i64>)>,
) -> Val<'b, i64> {
    let (last, mut start) = (modes.len(), item.constant(0i64));
    for (number, (count, stride)) in (1..).zip(modes) {
        // The last mode needs no division.
        let next = if number == last { item.constant(0) } else { item / count.cvt::<u32>() };
        start += (item - next * count.cvt::<u32>()).cvt::<i64>() * stride;
        item = next;
    }
    start
}

impl<'b, P: Pointer> MatrixRows<'b, P> {
    /// Returns the offset of a matrix of the tile.
    #[track_caller]
    fn start(&self, matrix: Val<'b, i32>) -> Val<'b, i64> {
        strided((self.first[2] + matrix).cvt(), self.batch.iter().copied())
    }

    /// Returns the leads of the rows of a matrix of the tile. [`store`](TiledRowCopy::store) code
    /// uses them to find a row's elements in shared memory.
    #[track_caller]
    pub fn leads(&self, matrix: Val<'b, i32>) -> RowMisalignment<'b> {
        let [row, element, _] = self.first.map(|at| at.cvt::<i64>());
        let start = (self.start(matrix) + row * self.pitch + element).cvt::<i32>();
        let lanes = RowTile::vector_len(P::Elem::scalar());
        RowMisalignment { start, pitch: self.pitch.cvt::<i32>(), lanes }
    }
}

impl RowMisalignment<'_> {
    /// Returns the lead of a row of the tile: how many elements it starts after a multiple of 16
    /// bytes.
    #[track_caller]
    pub fn of<'c>(&self, row: Val<'c, i32>) -> Val<'c, i32>
    where
        Self: 'c,
    {
        (self.start + row * self.pitch) & (self.lanes as i32 - 1)
    }
}

impl TiledRowCopy {
    /// Checks that all extents are powers of two, and that each thread has a vector.
    #[inline]
    fn check(&self) -> Result<(), TensorErrorKind> {
        const MAX: u32 = 1 << 10;
        let TiledRowCopy { threads, rows, matrices, vectors, across, .. } = *self;
        for (what, count, min, max) in [
            ("threads", threads, 1, MAX),
            ("vectors", vectors, 1, MAX),
            ("neighbouring vectors", across, 1, vectors.min(threads)),
            ("matrices", matrices, 1, MAX),
            ("rows", rows, (threads / across.max(1)).div_ceil(matrices.max(1)), MAX),
        ] {
            count_of(what, count, [min, max])?;
            count_of(what, count, [count.next_power_of_two(), max])?;
        }
        Ok(())
    }

    /// Returns whether the extents are possible; if not, reports the error.
    #[track_caller]
    #[inline]
    fn is_possible(&self, k: &Body<'_, '_>, operation: &'static str) -> bool {
        let checked = self.check().map_err(|kind| {
            k.report(TensorError { operation, operand: format!("{self:?}"), kind });
        });
        checked.is_ok()
    }

    /// Returns the thread's vectors.
    #[track_caller]
    fn vectors<'r, 'b: 'r, P: Pointer>(
        self,
        k: &Body<'b, '_>,
        of: &'r MatrixRows<'b, P>,
    ) -> impl Iterator<Item = RowVector<'b>> + use<'r, 'b, P> {
        let TiledRowCopy { threads, across, vectors, .. } = self;
        let lanes = RowTile::vector_len(P::Elem::scalar());
        let (thread, step) = (k.thread_idx().x, threads / across);
        let [column, row] = [thread % across as i32 * lanes as i32, thread / across as i32];
        let rows = (0..self.rows * self.matrices).step_by(step as usize);
        let coordinates = rows.flat_map(move |more| {
            (0..vectors).step_by(across as usize).map(move |vector| [more, vector * lanes])
        });
        coordinates.enumerate().map(move |(number, [more, element])| {
            let first = self.row(of, row, more);
            let element = column + element as i32 - first.element;
            RowVector { number: number as u32, element, ..first }
        })
    }

    /// Returns the tile's row `row + more`; `row` and `more` must share no set bit. `element` is
    /// its lead.
    #[track_caller]
    fn row<'b, P: Pointer>(
        self,
        of: &MatrixRows<'b, P>,
        row: Val<'b, i32>,
        more: u32,
    ) -> RowVector<'b> {
        let (mut row, mut matrix) = (row, row.constant(0));
        if self.matrices > 1 {
            (row, matrix) = (row & (self.rows as i32 - 1), row >> self.rows.ilog2());
            matrix += (more / self.rows) as i32;
        }
        // Multiplying the pitch by a host value takes fewer instructions than one product per row.
        let more = more % self.rows;
        let [first, element, _] = of.first;
        let start = of.start(matrix) + element.cvt::<i64>();
        let start = start + (first + row).cvt::<i64>() * of.pitch + of.pitch * i64::from(more);
        row += more as i32;
        let exists = row.lt(of.left[0]) & matrix.lt(of.left[2]);
        let lanes = RowTile::vector_len(P::Elem::scalar()) as i32;
        let lead = match self.access {
            RowAccess::Aligned => None,
            RowAccess::Ragged | RowAccess::Elements => Some(start.cvt::<i32>() & (lanes - 1)),
        };
        let element = lead.unwrap_or(row.constant(0));
        RowVector { number: 0, row, matrix, element, start, lead, exists }
    }

    /// Copies the rows to shared memory: thread `t`'s vector `i` goes to `to(.., t, i)`, which must
    /// be contiguous. A row's first and last vector bring along the elements around the row, as far
    /// as they are among the input's `len` elements. Call it at the start of a tile, and put a
    /// barrier before the rows are read.
    #[track_caller]
    pub fn copy_to<'k: 'b, 'b, T: Element>(
        self,
        k: &mut Body<'k, '_>,
        from: &MatrixRows<'b, Global<T>>,
        len: Val<'b, i64>,
        to: &SharedTensor<'b, T>,
    ) {
        let (k, _call) = (&mut k.rescoped(), k.call());
        if !self.is_possible(k, "TiledRowCopy::copy_to") {
            return;
        }
        let (thread, lanes) = (k.thread_idx().x, RowTile::vector_len(T::scalar()) as i32);
        let zero: Val<'b, Vector<u32, 4>> = Val::splat(k.constant(0u32));
        // Addresses of ragged rows stay live until their words arrive; a thread has registers for 8
        // vectors'.
        let at_once = if self.access == RowAccess::Aligned { usize::MAX } else { 8 };
        let mut vectors = self.vectors(k, from);
        loop {
            let mut loaded = Vec::new();
            for vector in vectors.by_ref().take(at_once) {
                let at = vector.start + vector.element.cvt::<i64>();
                let has = vector.exists & vector.element.lt(from.left[1]);
                let is_cut = vector.lead.map(|_| (at + i64::from(lanes)).gt(len));
                let is_whole = is_cut.map_or(has, |is_cut| has & !is_cut);
                let source = from.base.offset(at).ptr_cast::<u32>();
                let words = k.if_with(is_whole, zero, |_| source.load_vector::<4>(0));
                loaded.push((vector.number, words, at, is_cut.map(|is_cut| has & is_cut)));
            }
            if loaded.is_empty() {
                break;
            }
            for (number, words, at, is_cut) in loaded {
                let to = to.slice((.., thread, number)).data().to_pointer();
                to.ptr_cast::<u32>().store_vector(0, words);
                let Some(is_cut) = is_cut else { continue };
                k.if_(is_cut, |k| {
                    k.for_(range(0, lanes), (), |k, lane, ()| {
                        let at = at + lane.cvt::<i64>();
                        k.if_(at.lt(len), |_| to.store(lane, from.base.load(at)));
                    });
                });
            }
        }
    }

    /// Stores the rows. Vectors that lie completely inside a row are one access each; a row's first
    /// and last elements are stored one by one. For each vector, `row_of(vector)` returns a closure
    /// that returns, for given columns, the row's elements packed as a vector. Call it after the
    /// barrier.
    ///
    /// In ragged rows, a tile whose `first[1]` is not 0 leaves out its first `n - lead` elements.
    /// The tile before must overlap it by `n` elements and stores them.
    #[track_caller]
    pub fn store<'k: 'b, 'b, T: Element, F>(
        self,
        k: &mut Body<'k, '_>,
        to: &MatrixRows<'b, GlobalMut<T>>,
        row_of: impl Fn(&Body<'b, 'b>, RowVector<'b>) -> F,
    ) where
        F: for<'c> Fn(&mut Body<'c, 'b>, &[Val<'c, i32>]) -> Option<AnyVector<'c>>,
    {
        let (k, _call): (&mut Body<'b, 'b>, _) = (&mut k.rescoped(), k.call());
        if !self.is_possible(k, "TiledRowCopy::store") {
            return;
        }
        let lanes = RowTile::vector_len(T::scalar()) as i32;
        let first_of_row = to.first[1].eq(0);
        for vector in self.vectors(k, to) {
            let RowVector { element, exists, .. } = vector;
            let (row, values) = (to.base.offset(vector.start), row_of(k, vector));
            let elements: Vec<_> = (0..lanes).map(|lane| element + lane).collect();
            let Some(lead) = vector.lead else {
                let values = values(k, &elements);
                k.if_(exists & element.lt(to.left[1]), |_| {
                    values.into_iter().for_each(|values| row.store_vector(element, values));
                });
                continue;
            };
            // The vector that a tile's start cuts belongs to the tile before, except in a row's
            // first tile.
            let begin = first_of_row.select(0, element.constant(lanes) - lead);
            let (begin, end) = (element.max(begin), (element + lanes).min(to.left[1]));
            let is_whole = (end - begin).eq(lanes);
            k.if_(exists & is_whole, |k| {
                let values = values(k, &elements);
                values.into_iter().for_each(|values| row.store_vector(element, values));
            });
            k.if_(exists & !is_whole, |k| {
                k.for_(range(begin, end), (), |k, element, ()| {
                    let value = values(&mut k.rescoped(), &[element]);
                    let value = value.and_then(|value| value.values::<T>());
                    value.into_iter().flatten().for_each(|value| row.store(element, value));
                });
            });
        }
    }
}
