//! [`GlobalLines`]: tiles of matrices whose lines start anywhere, copied to shared memory by the threads of a warp group.

use crate::arch::Major;
use crate::ir::builder::DeviceCoord;
use crate::ir::{Body, Element, Global, Registers, Val, range};

use super::global_rows::{lead, shifted};
use crate::tensor::pipeline::wait_for_launch;
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
    /// The pitch of lines, at most [`MAX_PITCH`](GlobalLines::MAX_PITCH), and the batch stride, in elements.
    pub strides: [Val<'b, i64>; 2],
    /// Elements from the first one to the end of the last line of the last matrix: [`MIN`](GlobalLines::MIN) bytes or
    /// more.
    pub readable: Val<'b, i64>,
    /// The lines of a matrix, and the elements of a line.
    pub extents: [Val<'b, i32>; 2],
}

impl<T> GlobalLines<'_, T> {
    /// The least bytes of all lines together: two aligned vectors, wherever they start.
    pub const MIN: u32 = 3 * VECTOR;
    /// The largest pitch: offsets inside a tile of 256 lines are below 2^29.
    pub const MAX_PITCH: u64 = 1 << 21;
}

impl<'b, T: Element> GlobalLines<'b, T> {
    /// The part of a thread in copies of tiles of `rows` rows and `depth` elements along K; `thread` is the thread in the warp
    /// group.
    pub fn slice(
        &self,
        k: &Body<'b, '_>,
        [rows, depth]: [u32; 2],
        thread: Val<'b, i32>,
    ) -> ThrLines<'b, T> {
        let [lines, columns] = if self.major == Major::K { [rows, depth] } else { [depth, rows] };
        let units = columns * T::scalar().size_bytes() / VECTOR;
        let words = k.registers(8 * (lines * units).div_ceil(GROUP));
        ThrLines { of: self.clone(), tile: [lines, units], thread, words }
    }

    /// Returns the elements at which the first and the last pair of aligned vectors start that are in the buffer.
    fn ends(&self) -> [Val<'b, i64>; 2] {
        let per = per_unit::<T>();
        let first = (-lead(self.from) & (per - 1)).cvt::<i64>();
        let pairs = self.readable - i64::from(2 * per) - first;
        [first, first + (pairs & -i64::from(per))]
    }

    /// Returns the coordinate (row, K) of an element of a tile.
    fn coord<'c>(&self, [line, column]: [Val<'c, i32>; 2]) -> DeviceCoord<'c> {
        if self.major == Major::K { (line, column).into() } else { (column, line).into() }
    }
}

/// The part of a thread in copies of tiles of [`GlobalLines`]: units of 16 bytes, which it loads as the two aligned vectors that have
/// them. The vectors wait in registers until they are stored, so that those of a tile are on their way while the tile before
/// it is stored.
///
/// Unit `u` of the tile is the unit `u / 128` of thread `u % 128`. Lines of a tile that are a multiple of 16 bytes apart start at
/// the same place of a vector: a thread shifts all its units alike where its lines are.
#[derive(Clone, Debug)]
pub struct ThrLines<'b, T> {
    of: GlobalLines<'b, T>,
    /// The lines of a tile, and the units of a line.
    tile: [u32; 2],
    thread: Val<'b, i32>,
    words: Registers<'b, u32>,
}

/// Tiles of [`ThrLines`] that follow each other along K; the vectors of the next one are on their way.
#[derive(Clone, Debug)]
pub struct FetchedLines<'b, T> {
    thr: ThrLines<'b, T>,
    /// The first row of the tiles, and the first element of the rows at K = 0.
    row: Val<'b, i32>,
    start: Val<'b, i64>,
}

/// Two aligned vectors that have a unit of a tile.
struct LineVectors<'b> {
    from: Val<'b, Global<u32>>,
    /// The unit has elements of the matrix.
    is_inside: Val<'b, bool>,
}

/// A tile in global memory. Offsets are elements from its first one.
struct Origin<'b, T> {
    first: Val<'b, Global<T>>,
    /// The elements from an aligned vector to the first one, modulo those of a vector.
    lead: Val<'b, i32>,
    /// The first and the last offset at which a pair of vectors of the buffer starts.
    ends: [Val<'b, i32>; 2],
    /// The lines and the elements of a line from here to the end of the matrix.
    left: [Val<'b, i32>; 2],
}

/// A unit in global memory.
struct Unit<'b> {
    /// Its line and its first element in the tile.
    line: Val<'b, i32>,
    column: Val<'b, i32>,
    /// The offset of its first element.
    offset: Val<'b, i32>,
    /// The elements of the first vector before the unit.
    shift: Val<'b, i32>,
}

impl<'b, T: Element> ThrLines<'b, T> {
    /// Starts the loads of the tiles of two operands that begin at (row, K, matrix). `programmatic` holds in a launch that
    /// overlaps with the one before: all addresses are computed, then it waits for that one.
    #[track_caller]
    pub fn fetch_with<U: Element>(
        &self,
        k: &mut Body<'b, '_>,
        origin: [Val<'b, i32>; 3],
        (other, of_other): (&ThrLines<'b, U>, [Val<'b, i32>; 3]),
        programmatic: bool,
    ) -> (FetchedLines<'b, T>, FetchedLines<'b, U>) {
        let _call = k.call();
        let (fetched, units) = self.locate(origin);
        let (other, of_other) = other.locate(of_other);
        let all = units.iter().chain(&of_other);
        wait_for_launch(k, programmatic, all.map(|unit| unit.from.ptr_to_int()));
        fetched.start(k, &units);
        other.start(k, &of_other);
        (fetched, other)
    }

    /// The tiles along K from the tile at (row, K, matrix), and the vectors of that tile.
    fn locate(
        &self,
        [row, along, matrix]: [Val<'b, i32>; 3],
    ) -> (FetchedLines<'b, T>, Vec<LineVectors<'b>>) {
        let ([pitch, next], first) = (self.of.strides, row.cvt::<i64>());
        let first = if self.of.major == Major::K { first * pitch } else { first };
        let start = matrix.cvt::<i64>() * next + first;
        let fetched = FetchedLines { thr: self.clone(), row, start };
        let origin = fetched.origin(along);
        let vectors = |unit: Unit<'b>| LineVectors {
            from: self.vectors(&origin, &unit),
            is_inside: unit.line.lt(origin.left[0]) & unit.column.lt(origin.left[1]),
        };
        let all = self.units(&origin).into_iter().map(vectors).collect();
        (fetched, all)
    }

    /// The vectors of a unit; others where these are not in the buffer.
    fn vectors(&self, origin: &Origin<'b, T>, unit: &Unit<'b>) -> Val<'b, Global<u32>> {
        let window = origin.inside(unit.offset - unit.shift);
        origin.first.offset(window).ptr_cast()
    }

    /// Loads the vectors of a unit.
    fn load(&self, k: &Body<'b, '_>, number: u32, from: Val<'b, Global<u32>>) {
        for first in [0, 4] {
            let words = from.load_vector::<4>(k, first as i32).lanes();
            for (word, register) in words.into_iter().zip(8 * number + first..) {
                self.words.set(k, register, word);
            }
        }
    }

    /// The thread's units of a tile.
    fn units(&self, origin: &Origin<'b, T>) -> Vec<Unit<'b>> {
        let [lines, units] = self.tile;
        // Whole lines of the threads: a thread has one column.
        let at_once = GROUP.is_multiple_of(units).then_some(GROUP / units);
        let is_alike = |lines: u32| (lines * size::<T>() as u32).is_multiple_of(VECTOR);
        let is_alike = at_once.is_some_and(is_alike);
        let [line, column] = self.place(self.thread);
        let mut all: Vec<Unit<'b>> = Vec::new();
        for number in 0..(lines * units).div_ceil(GROUP) {
            let place = match at_once {
                Some(lines) => [line + (number * lines) as i32, column],
                None => self.place(self.thread + (number * GROUP) as i32),
            };
            let like = if is_alike { all.first() } else { None };
            all.push(self.unit(origin, place, like));
        }
        all
    }

    /// The line and the column of unit number `index`.
    fn place(&self, index: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let ([_, units], index) = (self.tile, index.cvt::<u32>());
        let [line, unit] = [index / units, index % units].map(|x| x.cvt::<i32>());
        [line, unit * per_unit::<T>()]
    }

    /// The unit at a place, which is as far from an aligned vector as `like`.
    fn unit(
        &self,
        origin: &Origin<'b, T>,
        [line, column]: [Val<'b, i32>; 2],
        like: Option<&Unit<'b>>,
    ) -> Unit<'b> {
        let offset = line * self.of.strides[0].cvt::<i32>() + column;
        let shift = (origin.lead + offset) & (per_unit::<T>() - 1);
        Unit { line, column, offset, shift: like.map_or(shift, |like| like.shift) }
    }
}

impl<'b, T: Element> FetchedLines<'b, T> {
    /// Loads the vectors of the first tile. Units beyond the matrix are zero, without an access.
    fn start(&self, k: &mut Body<'b, '_>, first: &[LineVectors<'b>]) {
        for (number, unit) in (0..).zip(first) {
            k.if_else(
                unit.is_inside,
                |k| self.thr.load(k, number, unit.from),
                |k| (0..8).for_each(|word| self.thr.words.set(k, 8 * number + word, 0)),
            );
        }
    }

    /// Stores the tile from `along` on along K to `to`, (row, K), with zeros beyond K. Rows beyond the matrix have any elements of it.
    /// All threads of a warp group do it together. If `more` holds, the loads of the tile `depth` further start meanwhile.
    ///
    /// LineVectors that cross the ends of the buffer are loaded element by element.
    #[track_caller]
    pub fn store(
        &self,
        k: &mut Body<'b, '_>,
        to: &SharedTensor<'b, T>,
        along: Val<'b, i32>,
        (depth, more): (u32, Val<'b, bool>),
    ) {
        let _call = k.call();
        let (at, depth) = (self.origin(along), depth as i32);
        let next = if self.thr.of.major == Major::K {
            let left = [at.left[0], at.left[1] - depth];
            let ends = at.ends.map(|end| end - depth);
            Origin { first: at.first.offset(depth), lead: at.lead, ends, left }
        } else {
            self.origin(along + depth)
        };
        self.store_units(k, to, [&at, &next], more);
        let [lines, units] = self.thr.tile;
        // The vectors of the tile with the lowest and the highest address.
        let lines = at.left[0].min(lines as i32);
        let last = (lines - 1) * self.thr.of.strides[0].cvt::<i32>();
        let last = last + at.left[1].min((units as i32) * per_unit::<T>()) - 1;
        let crosses = at.ends[0].gt(1 - per_unit::<T>()) | at.ends[1].lt(last);
        k.if_(crosses, |k| self.store_missed(k, to, &at));
    }

    /// Stores the units, with zeros beyond the end along K, and starts the loads of the next ones.
    fn store_units(
        &self,
        k: &mut Body<'b, '_>,
        to: &SharedTensor<'b, T>,
        [at, next]: [&Origin<'b, T>; 2],
        more: Val<'b, bool>,
    ) {
        let (thr, by_rows) = (&self.thr, self.thr.of.major == Major::K);
        let total = thr.tile[0] * thr.tile[1];
        let units = thr.units(at).into_iter().zip(thr.units(next));
        for (number, (unit, following)) in (0..).zip(units) {
            let [low, high] = [0, 4]
                .map(|first| [0, 1, 2, 3].map(|word| thr.words.get(k, 8 * number + first + word)));
            let words = shifted(low, high, (unit.shift * size::<T>()).cvt::<u32>());
            let words = if by_rows {
                // The compiler computes these masks once for all units of a column.
                let bytes = (at.left[1] - unit.column) * size::<T>();
                [0, 1, 2, 3].map(|i| words[i as usize] & first_bytes(bytes - 4 * i))
            } else {
                let has_line = unit.line.lt(at.left[0]);
                words.map(|word| has_line.select(word, 0))
            };
            let coord = thr.of.coord([unit.line, unit.column]);
            let store = |k: &mut Body<'_, '_>| {
                let Some(to) = to.element(k, "store", &coord) else { return };
                let (to, at) = to.plain().recast::<u32>(k).resolve();
                to.store_vector(k, at, Val::pack(words));
            };
            if (number + 1) * GROUP <= total {
                store(k);
            } else {
                k.if_((thr.thread + (number * GROUP) as i32).lt(total as i32), store);
            }
            let following = thr.vectors(next, &following);
            k.if_(more, |k| thr.load(k, number, following));
        }
    }

    /// Stores the units whose vectors are not in the buffer.
    fn store_missed(&self, k: &mut Body<'b, '_>, to: &SharedTensor<'b, T>, at: &Origin<'b, T>) {
        let thr = &self.thr;
        let total = (thr.tile[0] * thr.tile[1]) as i32;
        k.for_(range(0, total).step(GROUP as i32), (), |k, first, ()| {
            let index = thr.thread + first;
            let unit = thr.unit(at, thr.place(index), None);
            let (window, elements) = (unit.offset - unit.shift, at.elements(&unit));
            let is_missed = at.inside(window).ne(window) & elements.gt(0);
            k.if_(index.lt(total) & is_missed, |k| {
                let from = at.first.offset(unit.offset);
                for i in 0..per_unit::<T>() {
                    k.if_(elements.gt(i), |k| {
                        let x = from.load(k, i);
                        to.store(k, thr.of.coord([unit.line, unit.column + i]), x);
                    });
                }
            });
        });
    }

    /// The tile from `along` on along K.
    fn origin(&self, along: Val<'b, i32>) -> Origin<'b, T> {
        /// Beyond every offset inside a tile and the next one.
        const FAR: i64 = 1 << 30;
        let GlobalLines { from, major, strides: [pitch, _], extents, .. } = self.thr.of;
        let (by_rows, k) = (major == Major::K, along.cvt::<i64>());
        let offset = self.start + if by_rows { k } else { k * pitch };
        let [line, column] = if by_rows { [self.row, along] } else { [along, self.row] };
        let ends = self.thr.of.ends().map(|end| (end - offset).max(-FAR).min(FAR).cvt::<i32>());
        let left = [extents[0] - line, extents[1] - column];
        // Tiles are multiples of a vector apart along K.
        let lead = lead(from.offset(self.start));
        Origin { first: from.offset(offset), lead, ends, left }
    }
}

impl<'b, T: Element> Origin<'b, T> {
    /// Returns the nearest pair of vectors that is in the buffer.
    fn inside(&self, window: Val<'b, i32>) -> Val<'b, i32> {
        window.max(self.ends[0]).min(self.ends[1])
    }

    /// Returns the number of elements of the unit that are in the matrix.
    fn elements(&self, unit: &Unit<'b>) -> Val<'b, i32> {
        let inside = (self.left[1] - unit.column).min(per_unit::<T>()).max(0);
        unit.line.lt(self.left[0]).select(inside, 0)
    }
}

/// Bytes of an element.
fn size<T: Element>() -> i32 {
    T::scalar().size_bytes() as i32
}

/// Elements of a unit of 16 bytes.
fn per_unit<T: Element>() -> i32 {
    VECTOR as i32 / size::<T>()
}

/// Returns a word whose first `bytes` bytes have all bits set: of none or of all where there are fewer than 0 or more than 4.
#[inline]
fn first_bytes(bytes: Val<'_, i32>) -> Val<'_, u32> {
    let some = (bytes.max(0).min(3) * 8).cvt::<u32>();
    let mask = (some.constant(1u32) << some) - 1u32;
    bytes.ge(4).select(mask.constant(u32::MAX), mask)
}
