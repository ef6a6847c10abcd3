//! [`GlobalLines`]: tiles of matrices whose lines start anywhere, copied to shared memory by the threads of a warp group.

use crate::arch::Major;
use crate::ir::builder::DeviceCoord;
use crate::ir::{Body, Element, Global, Val, range};

use super::global_rows::shifted;
use crate::tensor::view::tensor::SharedTensor;

/// Bytes of an aligned vector.
const VECTOR: u32 = 16;
/// Threads of a warp group.
const GROUP: u32 = 128;

/// A batch of matrices in global memory, whose lines of contiguous elements may start at any element.
#[derive(Clone, Debug)]
pub struct GlobalLines<'b, T> {
    /// The first element of the first matrix.
    pub from: Val<'b, Global<T>>,
    /// The mode of a matrix (row, K) along which lines run.
    pub major: Major,
    /// The pitch of lines and the batch stride, in elements.
    pub strides: [Val<'b, i64>; 2],
    /// Elements from the first one to the end of the last line of the last matrix: [`MIN`](GlobalLines::MIN) bytes or
    /// more.
    pub readable: Val<'b, i64>,
    /// The lines of a matrix, and the elements of a line.
    pub extents: [Val<'b, i32>; 2],
}

/// 16 bytes of a tile, and the two aligned vectors in global memory that have them.
struct Unit<'b> {
    /// Its line and its first element in the tile.
    line: Val<'b, i32>,
    column: Val<'b, i32>,
    /// The first element in global memory, and that of the first aligned vector.
    first: Val<'b, i64>,
    window: Val<'b, i64>,
    /// The bytes of the vectors before the unit.
    shift: Val<'b, i32>,
    /// The elements of the unit that are in the matrix.
    inside: Val<'b, i32>,
    /// True if the thread has this unit at all.
    is_own: Val<'b, bool>,
    /// True if both vectors are in the buffer.
    is_readable: Val<'b, bool>,
}

impl<T> GlobalLines<'_, T> {
    /// The least bytes of all lines together: two aligned vectors, wherever they start.
    pub const MIN: u32 = 3 * VECTOR;
}

impl<'b, T: Element> GlobalLines<'b, T> {
    /// Copies the tile of `rows` rows and `depth` elements along K from (row, K, matrix) `origin` on to `to`, (row, K), with
    /// zeros beyond the matrix, as tensor copies do. All threads of a warp group do it together.
    ///
    /// A thread loads the two aligned vectors that have its 16 bytes, and shifts them together. All its loads are on their
    /// way at the same time. Those that cross the ends of the buffer are made
    /// element by element.
    #[track_caller]
    pub fn load(
        &self,
        k: &mut Body<'b, '_>,
        to: &SharedTensor<'b, T>,
        [rows, depth]: [u32; 2],
        [row, along, matrix]: [Val<'b, i32>; 3],
    ) {
        let _call = k.call();
        let size = T::SCALAR.size_bytes();
        let by_rows = self.major == Major::K;
        let [lines, columns] = if by_rows { [rows, depth] } else { [depth, rows] };
        let origin = if by_rows { [row, along, matrix] } else { [along, row, matrix] };
        let tile = [lines, columns * size / VECTOR];
        let count = (tile[0] * tile[1]).div_ceil(GROUP);
        let (ends, thread) = (self.ends(), k.thread_idx().x % GROUP);
        // Without conditions, so that all loads are on their way at the same time: what is not needed is read elsewhere.
        let units: Vec<_> = (0..count)
            .map(|number| {
                let unit = self.unit(tile, origin, thread + number * GROUP);
                let window = unit.window.max(ends[0]).min(ends[1]);
                let words = self.from.offset(window).ptr_cast::<u32>();
                let [low, high] = [0, 4].map(|at| words.load_vector::<4>(k, at).lanes());
                (unit, low, high)
            })
            .collect();
        let is_whole = (tile[0] * tile[1]).is_multiple_of(GROUP);
        let mut is_missed = k.constant(false);
        for (unit, low, high) in units {
            let words = shifted(low, high, unit.shift.cvt::<u32>());
            let bytes = unit.inside * size;
            let words = [0, 1, 2, 3].map(|i| words[i as usize] & first_bytes(bytes - 4 * i));
            let missed = unit.inside.gt(0) & !unit.is_readable;
            let store = |k: &mut Body<'_, '_>| {
                let coord = self.coord(unit.line, unit.column);
                let Some(to) = to.element(k, "load", &coord) else { return };
                let (to, at) = to.plain().recast::<u32>(k).resolve();
                to.store_vector(k, at, Val::pack(words));
            };
            if is_whole {
                store(k)
            } else {
                k.if_(unit.is_own, store)
            }
            is_missed |= unit.is_own & missed;
        }
        k.if_(is_missed, |k| {
            k.for_(range(0, count as i32), (), |k, number, ()| {
                let unit = self.unit(tile, origin, thread + number * GROUP);
                let missed = unit.is_own & unit.inside.gt(0) & !unit.is_readable;
                k.if_(missed, |k| {
                    for i in 0..(VECTOR / size) as i32 {
                        k.if_(unit.inside.gt(i), |k| {
                            let x = self.from.offset(unit.first).load(k, i);
                            to.store(k, self.coord(unit.line, unit.column + i), x);
                        });
                    }
                });
            });
        });
    }

    /// Returns the elements at which the first and the last pair of aligned vectors start that are in the buffer.
    fn ends(&self) -> [Val<'b, i64>; 2] {
        let size = T::SCALAR.size_bytes();
        let per = (VECTOR / size) as i32;
        let lead = (self.from.ptr_to_int().cvt::<i32>() & (VECTOR as i32 - 1)) >> size.ilog2();
        let first = (-lead & (per - 1)).cvt::<i64>();
        let pairs = self.readable - i64::from(2 * per) - first;
        [first, first + (pairs & -i64::from(per))]
    }

    /// Returns the coordinate (row, K) of an element of a tile.
    fn coord<'c>(&self, line: Val<'c, i32>, column: Val<'c, i32>) -> DeviceCoord<'c> {
        if self.major == Major::K { (line, column).into() } else { (column, line).into() }
    }

    /// Returns unit number `index` of a tile of lines of units.
    fn unit<'c>(
        &self,
        [lines, units]: [u32; 2],
        [first_line, first_column, matrix]: [Val<'c, i32>; 3],
        index: Val<'c, i32>,
    ) -> Unit<'c>
    where
        'b: 'c,
    {
        let size = T::SCALAR.size_bytes();
        let per = (VECTOR / size) as i32;
        let index = index.cvt::<u32>();
        let [line, unit] = [index / units, index % units].map(|x| x.cvt::<i32>());
        let column = unit * per;
        let ([pitch, next], [extent, width]) = (self.strides, self.extents);
        let (at, from) = (first_line + line, first_column + column);
        let first = matrix.cvt::<i64>() * next + at.cvt::<i64>() * pitch + from.cvt::<i64>();
        let address = self.from.ptr_to_int() + first * i64::from(size);
        let shift = address.cvt::<i32>() & (VECTOR as i32 - 1);
        let window = first - (shift >> size.ilog2()).cvt::<i64>();
        let inside = (width - from).min(per).max(0);
        let inside = at.lt(extent).select(inside, inside.constant(0));
        let is_readable = window.ge(0) & (window + i64::from(2 * per)).le(self.readable);
        let is_own = index.lt(lines * units);
        Unit { line, column, first, window, shift, inside, is_own, is_readable }
    }
}

/// Returns a word whose first `bytes` bytes have all bits set: of none or of all where there are fewer than 0 or more than 4.
fn first_bytes(bytes: Val<'_, i32>) -> Val<'_, u32> {
    let some = (bytes.max(0).min(3) * 8).cvt::<u32>();
    let mask = (some.constant(1u32) << some) - 1u32;
    bytes.ge(4).select(mask.constant(u32::MAX), mask)
}
