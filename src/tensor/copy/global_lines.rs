//! [`GlobalLines`]: tiles of matrices whose lines start anywhere, copied to shared memory by the threads of a warp group.

use crate::ir::builder::DeviceCoord;
use crate::ir::{Body, Element, Global, Val, Vector, range};

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
    /// The pitch of lines and the batch stride, in elements.
    pub strides: [Val<'b, i64>; 2],
    /// Elements from the first one to the end of the last line of the last matrix.
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
    /// Whether the thread has this unit at all.
    is_own: Val<'b, bool>,
    /// Whether the second vector is needed, and whether all that is needed can be read as vectors.
    is_long: Val<'b, bool>,
    is_readable: Val<'b, bool>,
}

impl<'b, T: Element> GlobalLines<'b, T> {
    /// Copies the tile of `lines` lines of `columns` elements from (line, column, matrix) `origin` on to `to`, with zeros
    /// beyond the matrix, as tensor copies do. In `to`, mode `of_lines` counts lines, and the other one of the first
    /// two counts columns. All threads of a warp group do it together; `thread` is the thread in the group.
    ///
    /// A thread loads the two aligned vectors that have its 16 bytes, and shifts them together. All its loads are on their
    /// way at the same time. Those that cross the ends of the buffer are made
    /// element by element.
    #[track_caller]
    pub fn load(
        &self,
        k: &mut Body<'b, '_>,
        to: &SharedTensor<'b, T>,
        (of_lines, [lines, columns]): (usize, [u32; 2]),
        origin: [Val<'b, i32>; 3],
        thread: Val<'b, i32>,
    ) {
        let _call = k.call();
        let size = T::SCALAR.size_bytes();
        let tile = [lines, columns * size / VECTOR];
        let count = (tile[0] * tile[1]).div_ceil(GROUP);
        let mut units = Vec::new();
        for number in 0..count {
            let unit = self.unit(tile, origin, thread + number * GROUP);
            let is_read = unit.is_own & unit.inside.gt(0) & unit.is_readable;
            let words = self.from.offset(unit.window).ptr_cast::<u32>();
            let [low, high] = [(0, is_read), (4, is_read & unit.is_long)].map(|(at, is_read)| {
                k.if_else(
                    is_read,
                    |k| k.yield_(words.load_vector::<4>(k, at)),
                    |k| k.yield_(Val::<Vector<u32, 4>>::pack([k.constant(0); 4])),
                )
            });
            units.push((unit, low.lanes(), high.lanes()));
        }
        let mut is_missed = k.constant(false);
        for (unit, low, high) in units {
            let words = shifted(low, high, unit.shift.cvt::<u32>());
            let bytes = unit.inside * size;
            let words = [0, 1, 2, 3].map(|i| words[i as usize] & first_bytes(bytes - 4 * i));
            let missed = unit.inside.gt(0) & !unit.is_readable;
            k.if_(unit.is_own, |k| {
                let coord = coord(of_lines, unit.line, unit.column);
                let Some(to) = to.element(k, "load", &coord) else { return };
                let (to, at) = to.plain().recast::<u32>(k).resolve();
                to.store_vector(k, at, Val::pack(words));
            });
            is_missed = is_missed | (unit.is_own & missed);
        }
        k.if_(is_missed, |k| {
            k.for_(range(0, count as i32), (), |k, number, ()| {
                let unit = self.unit(tile, origin, thread + number * GROUP);
                let missed = unit.is_own & unit.inside.gt(0) & !unit.is_readable;
                k.if_(missed, |k| {
                    for i in 0..(VECTOR / size) as i32 {
                        k.if_(unit.inside.gt(i), |k| {
                            let x = self.from.offset(unit.first).load(k, i);
                            to.store(k, coord(of_lines, unit.line, unit.column + i), x);
                        });
                    }
                });
            });
        });
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
        let is_long = (shift + inside * size).gt(VECTOR as i32);
        let read = is_long.select(at.constant(2 * per), at.constant(per)).cvt::<i64>();
        let is_readable = window.ge(0) & (window + read).le(self.readable);
        let is_own = index.lt(lines * units);
        Unit { line, column, first, window, shift, inside, is_own, is_long, is_readable }
    }
}

/// Returns the coordinate of an element of a tile.
fn coord<'b>(of_lines: usize, line: Val<'b, i32>, column: Val<'b, i32>) -> DeviceCoord<'b> {
    if of_lines == 0 { (line, column).into() } else { (column, line).into() }
}

/// Returns a word whose first `bytes` bytes have all bits set: of none or of all where there are fewer than 0 or more than 4.
fn first_bytes(bytes: Val<'_, i32>) -> Val<'_, u32> {
    let some = (bytes.max(0).min(3) * 8).cvt::<u32>();
    let mask = (some.constant(1u32) << some) - 1u32;
    bytes.ge(4).select(mask.constant(u32::MAX), mask)
}
