//! [`GlobalRows`]: rows of matrices that start anywhere, written in aligned vectors by the threads of a warp group.

use crate::ir::op::{Direction, Excess};
use crate::ir::{Body, Element, GlobalMut, Shared, Val, range};

/// Bytes of an aligned vector.
const VECTOR: u32 = 16;
/// Threads of a warp group.
const GROUP: u32 = 128;

/// A batch of row-major matrices in global memory, whose rows may start at any element.
#[derive(Clone, Debug)]
pub struct GlobalRows<'b, T> {
    /// The first element of the first matrix.
    pub to: Val<'b, GlobalMut<T>>,
    /// The row pitch and the batch stride, in elements.
    pub strides: [Val<'b, i64>; 2],
    /// The rows and columns of a matrix.
    pub extents: [Val<'b, i32>; 2],
}

/// Rows in shared memory, of whole units of 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedRows<'b, T> {
    pub(super) from: Val<'b, Shared<T>>,
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// Elements from a row to the next one.
    pub(super) pitch: u32,
    /// Unit `u` of row `r` is in the place of unit `u ^ (r % 8)`.
    pub(super) swizzled: bool,
}

impl<'b, T: Element> SharedRows<'b, T> {
    /// Returns the element at which a unit of a row starts.
    fn unit(&self, row: Val<'b, i32>, unit: Val<'b, i32>) -> Val<'b, i32> {
        let unit = if self.swizzled { unit ^ (row & 7) } else { unit };
        row * self.pitch + unit * per_unit::<T>()
    }
}

/// A row of the destination.
struct Row<'b, T> {
    to: Val<'b, GlobalMut<T>>,
    /// The elements before the first aligned vector.
    head: Val<'b, i32>,
    is_inside: Val<'b, bool>,
}

impl<'b, T: Element> GlobalRows<'b, T> {
    /// Stores rows in shared memory to (row, column, matrix) `origin`, without those and the columns that are out of bounds.
    /// All threads of a warp group do it together; `thread` is the thread in the group.
    ///
    /// A thread shifts two aligned units of shared memory together, to one aligned vector of global memory. The elements
    /// before the first vector of a row, and after the last one, are stored one by one.
    pub(super) fn store(
        &self,
        k: &mut Body<'b, '_>,
        source: &SharedRows<'b, T>,
        [first_row, first_column, batch]: [Val<'b, i32>; 3],
        thread: Val<'b, i32>,
    ) {
        let (size, per) = (T::SCALAR.size_bytes(), per_unit::<T>());
        let [_, next] = self.strides;
        let matrix = self.to.offset(batch.cvt::<i64>() * next + first_column.cvt::<i64>());
        let length = (self.extents[1] - first_column).min(source.columns);
        let units = source.columns / per;
        k.for_(range(0, steps(source.rows * units)), (), |k, step, ()| {
            let [row, unit] = place(thread, step, units);
            let Row { to, head, is_inside } = self.row(matrix, source, first_row, row);
            let first = head + unit * per;
            k.if_(is_inside & (first + per).le(length), |k| {
                let next = head.eq(0).select(unit, unit + 1);
                let [low, high] = [unit, next].map(|unit| {
                    let from = source.from.offset(source.unit(row, unit));
                    from.ptr_cast::<u32>().load_vector::<4>(k, 0).lanes()
                });
                let words = shifted(low, high, (head * size).cvt::<u32>());
                to.offset(first).ptr_cast::<u32>().store_vector(k, 0, Val::pack(words));
            });
        });
        let edges = 2 * per;
        k.for_(range(0, steps(source.rows * edges)), (), |k, step, ()| {
            let [row, edge] = place(thread, step, edges);
            let Row { to, head, is_inside } = self.row(matrix, source, first_row, row);
            let tail = head + ((length - head) & -(per as i32)) + (edge - per);
            let is_head = edge.lt(per);
            let at = is_head.select(edge, tail);
            let is_edge = is_head.select(edge.lt(head), tail.ge(head));
            k.if_(is_inside & is_edge & at.lt(length), |k| {
                let at_unit = source.unit(row, at >> per.ilog2());
                let x = source.from.load(k, at_unit + (at & (per - 1)));
                to.store(k, at, x);
            });
        });
    }

    /// Returns row `row` of the source in a matrix.
    fn row<'c>(
        &self,
        matrix: Val<'c, GlobalMut<T>>,
        source: &SharedRows<'b, T>,
        first: Val<'c, i32>,
        row: Val<'c, i32>,
    ) -> Row<'c, T>
    where
        'b: 'c,
    {
        let per = per_unit::<T>();
        let ([rows, _], [pitch, _]) = (self.extents, self.strides);
        let at = first + row;
        let to = matrix.offset(at.cvt::<i64>() * pitch);
        let lead = to.ptr_to_int().cvt::<i32>() >> T::SCALAR.size_bytes().ilog2();
        let is_inside = at.lt(rows) & row.lt(source.rows);
        Row { to, head: -lead & (per - 1), is_inside }
    }
}

/// Returns the row and the item in it that a thread has in a step, of `each` items in a row.
fn place<'c>(thread: Val<'c, i32>, step: Val<'c, i32>, each: u32) -> [Val<'c, i32>; 2] {
    let index = (thread + step * GROUP).cvt::<u32>();
    [index / each, index % each].map(|x| x.cvt::<i32>())
}

/// Elements of a unit of 16 bytes.
fn per_unit<T: Element>() -> u32 {
    VECTOR / T::SCALAR.size_bytes()
}

/// The steps in which a warp group goes through items.
fn steps(items: u32) -> i32 {
    items.div_ceil(GROUP) as i32
}

/// Returns the 16 bytes from byte `shift` (0 to 15) of `high:low` on.
pub(crate) fn shifted<'b>(
    low: [Val<'b, u32>; 4],
    high: [Val<'b, u32>; 4],
    shift: Val<'b, u32>,
) -> [Val<'b, u32>; 4] {
    let [a, b, c, d] = low;
    let [e, f, g, h] = high;
    let by_two = (shift & 8u32).ne(0u32);
    let [a, b, c, d, e, f] =
        [(a, c), (b, d), (c, e), (d, f), (e, g), (f, h)].map(|(x, y)| by_two.select(y, x));
    let by_one = (shift & 4u32).ne(0u32);
    let words = [(a, b), (b, c), (c, d), (d, e), (e, f)].map(|(x, y)| by_one.select(y, x));
    let bits = (shift & 3u32) * 8u32;
    [0, 1, 2, 3].map(|i| words[i].shf(words[i + 1], bits, Direction::Right, Excess::Wrap))
}
