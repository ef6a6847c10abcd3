//! [`GlobalRows`]: a warp group writes rows that start at any element of global memory, in aligned
//! vectors. GEMM's epilogue uses it if TMA cannot write the matrix.

use crate::ir::op::{Direction, Excess};
use crate::ir::{Body, Element, GlobalMut, Pointer, Shared, Val, range};

/// Bytes per aligned vector.
const VECTOR: u32 = 16;
/// Threads per warp group.
const GROUP: u32 = 128;

/// A batch of row-major matrices in global memory whose rows can start at any element.
///
/// Use it as a [`StagedStore`](crate::tensor::copy::StagedStore)'s destination when TMA cannot
/// write the matrix because its address or pitch is not a multiple of 16 bytes. Threads write
/// aligned vectors of 16 bytes and single elements at the ends of a row; unlike TMA, all of them
/// must take part.
#[derive(Clone, Debug)]
pub struct GlobalRows<'b, T> {
    /// The first matrix's first element.
    pub to: Val<'b, GlobalMut<T>>,
    /// Row pitch and batch stride, in elements.
    pub strides: [Val<'b, i64>; 2],
    /// Rows and columns per matrix.
    pub extents: [Val<'b, i32>; 2],
}

/// Rows in shared memory that consist of whole 16-byte units: the source of [`GlobalRows::store`].
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedRows<'b, T> {
    pub(super) from: Val<'b, Shared<T>>,
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// The row pitch in elements.
    pub(super) pitch: u32,
    /// Unit `u` of row `r` is at unit `u ^ (r % 8)`.
    pub(super) swizzled: bool,
}

impl<'b, T: Element> SharedRows<'b, T> {
    /// Returns the element where a unit of a row starts.
    fn unit(&self, row: Val<'b, i32>, unit: Val<'b, i32>) -> Val<'b, i32> {
        let unit = if self.swizzled { unit ^ (row & 7) } else { unit };
        row * self.pitch + unit * per_unit::<T>()
    }
}

/// Where the rows go: the top of their first column in the matrix, and their first row.
#[derive(Clone, Copy)]
struct Origin<'b, T> {
    column: Val<'b, GlobalMut<T>>,
    row: Val<'b, i32>,
}

/// A destination row.
#[derive(Clone, Copy)]
struct Row<'b, T> {
    to: Val<'b, GlobalMut<T>>,
    /// Its index in shared memory.
    number: Val<'b, i32>,
    /// How many elements precede the first aligned vector.
    head: Val<'b, i32>,
    is_inside: Val<'b, bool>,
}

impl<'b, T: Element> GlobalRows<'b, T> {
    /// Stores rows from shared memory to (row, column, matrix) `origin`, clipped to the matrix. All
    /// threads of the warp group must call it together; `thread` is the index in the group.
    ///
    /// A thread shifts two aligned units of shared memory together into one aligned vector of
    /// global memory. Elements before a row's first vector and after its last one are stored one by
    /// one.
    pub(super) fn store(
        &self,
        k: &mut Body<'b, '_>,
        source: &SharedRows<'b, T>,
        [first_row, first_column, batch]: [Val<'b, i32>; 3],
        thread: Val<'b, i32>,
    ) {
        let (size, per) = (T::scalar().size_bytes(), per_unit::<T>());
        let [_, next] = self.strides;
        // Whatever tile the caller passes, its columns are those of the matrix.
        let first_column = first_column.min(self.extents[1]).max(0);
        let column = self.to.offset(batch.cvt::<i64>() * next + first_column.cvt::<i64>());
        let origin = Origin { column, row: first_row };
        let length = (self.extents[1] - first_column).min(source.columns);
        let units = source.columns / per;
        self.each_row(k, origin, source, units, thread, |k, rows, unit| {
            let (is_unit, unit) = (unit.lt(units), unit.min(units - 1));
            let words: Vec<_> = rows
                .iter()
                .map(|row| {
                    let next = row.head.eq(0).select(unit, (unit + 1).min(units - 1));
                    let [low, high] = [unit, next].map(|unit| {
                        let from = source.from.offset(source.unit(row.number, unit));
                        from.ptr_cast::<u32>().load_vector::<4>(0).lanes()
                    });
                    shifted(low, high, (row.head * size).cvt::<u32>())
                })
                .collect();
            for (row, words) in rows.iter().zip(words) {
                let first = row.head + unit * per;
                k.if_(row.is_inside & is_unit & (first + per).le(length), |_| {
                    let to = row.to.offset(first).ptr_cast::<u32>();
                    to.store_vector(0, Val::pack(words));
                });
            }
        });
        self.each_row(k, origin, source, 2 * per, thread, |k, rows, edge| {
            let is_head = edge.lt(per);
            let edges: Vec<_> = rows
                .iter()
                .map(|row| {
                    let tail = row.head + ((length - row.head) & -(per as i32)) + (edge - per);
                    let at = is_head.select(edge, tail);
                    let is_edge = is_head.select(edge.lt(row.head), tail.ge(row.head));
                    let is_edge = row.is_inside & is_edge & at.ge(0) & at.lt(length);
                    let at = is_edge.select(at, 0);
                    let unit = source.unit(row.number, at >> per.ilog2());
                    (is_edge, at, source.from.load(unit + (at & (per - 1))))
                })
                .collect();
            for (row, (is_edge, at, x)) in rows.iter().zip(edges) {
                k.if_(is_edge, |_| row.to.store(at, x));
            }
        });
    }

    /// Calls `f` with batches of rows, so that their loads overlap, and with the thread's item in
    /// them. Item indices go up to `items`, rounded up to a power of two.
    fn each_row(
        &self,
        k: &mut Body<'b, '_>,
        origin: Origin<'b, T>,
        source: &SharedRows<'b, T>,
        items: u32,
        thread: Val<'b, i32>,
        f: impl Fn(&mut Body<'_, '_>, &[Row<'_, T>], Val<'_, i32>),
    ) {
        let (per, items) = (per_unit::<T>() as i32, items.next_power_of_two());
        let ([extent, _], [pitch, _]) = (self.extents, self.strides);
        let at_once = GROUP / items;
        let steps = source.rows.div_ceil(at_once);
        let batch = [4, 2].into_iter().find(|batch| steps.is_multiple_of(*batch)).unwrap_or(1);
        let [row, item] = [thread >> items.ilog2(), thread & (items - 1)];
        let to = origin.column.offset((origin.row + row).cvt::<i64>() * pitch);
        let down = pitch * i64::from(at_once);
        k.for_(range(0, (steps / batch) as i32), (to, row), |k, _, (mut to, mut row)| {
            let rows: Vec<Row<'_, T>> = (0..batch)
                .map(|_| {
                    let is_inside = (origin.row + row).lt(extent) & row.lt(source.rows);
                    let number = row.min(source.rows - 1);
                    let of = Row { to, number, head: -lead(to) & (per - 1), is_inside };
                    (to, row) = (to.offset(down), row + at_once);
                    of
                })
                .collect();
            f(k, &rows, item);
            (to, row)
        });
    }
}

/// Elements per unit of 16 bytes.
fn per_unit<T: Element>() -> u32 {
    VECTOR / T::scalar().size_bytes()
}

/// Returns an address in elements. Only the remainder by the elements per 16-byte vector counts: it
/// is how many elements the address lies behind the last vector boundary.
pub(crate) fn lead<P: Pointer>(at: Val<'_, P>) -> Val<'_, i32> {
    at.ptr_to_int().cvt::<i32>() >> P::Elem::scalar().size_bytes().ilog2()
}

/// Returns the 16 bytes of `high:low` that start at byte `shift`, 0 to 15. Use it to read a vector
/// that two aligned vectors contain.
#[inline]
pub(crate) fn shifted<'b>(
    low: [Val<'b, u32>; 4],
    high: [Val<'b, u32>; 4],
    shift: Val<'b, u32>,
) -> [Val<'b, u32>; 4] {
    let [a, b, c, d] = low;
    let [e, f, g, h] = high;
    let by_two = (shift & 8u32).ne(0u32);
    let words = [(a, c), (b, d), (c, e), (d, f), (e, g), (f, h)].map(|(x, y)| by_two.select(y, x));
    ByteShift::new(shift).of(words)
}

/// Shifts 24 bytes by 0 to 7 bytes. Use it to read the 16 bytes that start at any of the first 8.
#[derive(Clone, Copy)]
pub(crate) struct ByteShift<'b> {
    by_one: Val<'b, bool>,
    bits: Val<'b, u32>,
}

impl<'b> ByteShift<'b> {
    /// Shifts by `bytes` modulo 8.
    #[inline]
    pub(crate) fn new(bytes: Val<'b, u32>) -> Self {
        ByteShift { by_one: (bytes & 4u32).ne(0u32), bits: (bytes & 3u32) * 8u32 }
    }

    /// Returns the 16 bytes of these words that start at the shift, low words first.
    #[inline]
    pub(crate) fn of(self, [a, b, c, d, e, f]: [Val<'b, u32>; 6]) -> [Val<'b, u32>; 4] {
        let words = [(a, b), (b, c), (c, d), (d, e), (e, f)];
        let words = words.map(|(x, y)| self.by_one.select(y, x));
        [0, 1, 2, 3].map(|i| words[i].shf(words[i + 1], self.bits, Direction::Right, Excess::Wrap))
    }
}
