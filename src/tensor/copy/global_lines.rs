//! [`GlobalLines`]: a warp group copies operand tiles to shared memory from matrices whose lines
//! start at any element. GEMM on `sm_90` uses it if TMA cannot read an operand.

use crate::arch::Major;
use crate::ir::builder::DeviceCoord;
use crate::ir::{Body, Element, Global, Registers, Val, range};

use super::global_rows::{lead, shifted};
use crate::tensor::pipeline::wait_for_launch;
use crate::tensor::view::tensor::SharedTensor;

/// Bytes per aligned vector.
const VECTOR: u32 = 16;
/// Threads per warp group.
const GROUP: u32 = 128;

/// A batch of matrices in global memory whose contiguous lines can start at any element.
///
/// Use it as GEMM's operand source when TMA cannot read the matrix because its address or pitch is
/// not a multiple of 16 bytes. A warp group loads every 16 bytes as the two aligned vectors that
/// contain them and shifts them together, so it costs registers and about twice the load
/// instructions of aligned copies. [`GlobalRows`](crate::tensor::copy::GlobalRows) is the
/// counterpart for stores.
#[derive(Clone, Debug)]
pub struct GlobalLines<'b, T> {
    /// The first matrix's first element.
    pub from: Val<'b, Global<T>>,
    /// The mode of (row, K) along which lines run.
    pub major: Major,
    /// Elements from one line to the next, at most [`MAX_PITCH`](GlobalLines::MAX_PITCH), and from
    /// one matrix of the batch to the next.
    pub strides: [Val<'b, i64>; 2],
    /// How many elements may be read: from the first one to the end of the last matrix's last line.
    /// They must have at least [`MIN`](GlobalLines::MIN) bytes.
    pub readable: Val<'b, i64>,
    /// Lines per matrix, and elements per line.
    pub extents: [Val<'b, i32>; 2],
}

impl<T> GlobalLines<'_, T> {
    /// The minimum bytes of all lines together. A buffer that starts anywhere contains two aligned
    /// vectors only if it has at least so many; GEMM refuses smaller operands.
    pub const MIN: u32 = 3 * VECTOR;
    /// The maximum line pitch in elements. It keeps offsets inside a tile of 256 lines below 2^29.
    /// GEMM refuses larger ones.
    pub const MAX_PITCH: u64 = 1 << 21;
}

impl<'b, T: Element> GlobalLines<'b, T> {
    /// Returns a thread's share of the copies of tiles with `rows` rows and `depth` elements along
    /// K. `thread` is the thread's index in its warp group. Call it once, before the loop over
    /// tiles.
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

    /// Returns the elements where the first and last pair of aligned vectors inside the buffer
    /// start.
    fn ends(&self) -> [Val<'b, i64>; 2] {
        let per = per_unit::<T>();
        let first = (-lead(self.from) & (per - 1)).cvt::<i64>();
        let pairs = self.readable - i64::from(2 * per) - first;
        [first, first + (pairs & -i64::from(per))]
    }

    /// Returns the (row, K) coordinate of a tile's element.
    fn coord<'c>(&self, [line, column]: [Val<'c, i32>; 2]) -> DeviceCoord<'c> {
        if self.major == Major::K { (line, column).into() } else { (column, line).into() }
    }
}

/// A thread's share of the copies of [`GlobalLines`] tiles. It loads each unit of 16 bytes as the
/// two aligned vectors that contain it. The vectors stay in registers until they are stored, so
/// that one tile's loads overlap with the previous tile's stores.
///
/// Unit `u` of a tile belongs to thread `u % 128`, as its unit `u / 128`. If a thread's lines are a
/// multiple of 16 bytes apart, it shifts all its units by the same amount.
#[derive(Clone, Debug)]
pub struct ThrLines<'b, T> {
    of: GlobalLines<'b, T>,
    /// Lines per tile, and units per line.
    tile: [u32; 2],
    thread: Val<'b, i32>,
    words: Registers<'b, u32>,
}

/// Consecutive tiles along K that a thread loads ahead: while one tile is stored to shared memory,
/// the next tile's vectors are in flight. Made by [`ThrLines::fetch_with`].
#[derive(Clone, Debug)]
pub struct FetchedLines<'b, T> {
    thr: ThrLines<'b, T>,
    /// The tiles' first row, and the element where that row starts at K = 0.
    row: Val<'b, i32>,
    start: Val<'b, i64>,
}

/// The two aligned vectors that contain a unit.
struct LineVectors<'b> {
    from: Val<'b, Global<u32>>,
    /// Whether the unit contains elements of the matrix.
    is_inside: Val<'b, bool>,
}

/// A tile in global memory. Offsets count elements from its first one.
struct Origin<'b, T> {
    first: Val<'b, Global<T>>,
    /// How many elements the first one is behind an aligned vector.
    lead: Val<'b, i32>,
    /// The offsets where the first and last pair of vectors inside the buffer start.
    ends: [Val<'b, i32>; 2],
    /// How many lines, and elements per line, remain in the matrix.
    left: [Val<'b, i32>; 2],
}

/// A unit in global memory.
struct Unit<'b> {
    /// Its line and first column in the tile.
    line: Val<'b, i32>,
    column: Val<'b, i32>,
    /// Its first element's offset.
    offset: Val<'b, i32>,
    /// How many elements of the first vector precede the unit.
    shift: Val<'b, i32>,
}

impl<'b, T: Element> ThrLines<'b, T> {
    /// Starts loading the tiles of A and B that begin at (row, K, matrix), before the loop along K.
    /// Pass `programmatic` if the kernel is launched by programmatic dependent launch (it starts
    /// before the previous launch has ended): the call then computes all addresses before it waits
    /// for that launch.
    #[track_caller]
    pub fn fetch_with<U: Element>(
        &self,
        origin: [Val<'b, i32>; 3],
        other: &ThrLines<'b, U>,
        other_origin: [Val<'b, i32>; 3],
        programmatic: bool,
    ) -> (FetchedLines<'b, T>, FetchedLines<'b, U>) {
        let k = &mut self.thread.body();
        let _call = k.call();
        let (fetched, units) = self.locate(origin);
        let (other, of_other) = other.locate(other_origin);
        let all = units.iter().chain(&of_other);
        wait_for_launch(k, programmatic, all.map(|unit| unit.from.ptr_to_int()));
        fetched.start(k, &units);
        other.start(k, &of_other);
        (fetched, other)
    }

    /// Returns the tiles along K from (row, K, matrix) on, and the first tile's vectors.
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

    /// Returns a unit's vectors, clamped to the buffer.
    fn vectors(&self, origin: &Origin<'b, T>, unit: &Unit<'b>) -> Val<'b, Global<u32>> {
        let window = origin.inside(unit.offset - unit.shift);
        origin.first.offset(window).ptr_cast()
    }

    /// Loads a unit's vectors.
    fn load(&self, number: u32, from: Val<'b, Global<u32>>) {
        for first in [0, 4] {
            let words = from.load_vector::<4>(first as i32).lanes();
            for (word, register) in words.into_iter().zip(8 * number + first..) {
                self.words.set(register, word);
            }
        }
    }

    /// Returns the thread's units of a tile.
    fn units(&self, origin: &Origin<'b, T>) -> Vec<Unit<'b>> {
        let [lines, units] = self.tile;
        // If the threads cover whole lines together, a thread keeps its column.
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

    /// Returns the line and column of the unit with this index.
    fn place(&self, index: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let ([_, units], index) = (self.tile, index.cvt::<u32>());
        let [line, unit] = [index / units, index % units].map(|x| x.cvt::<i32>());
        [line, unit * per_unit::<T>()]
    }

    /// Returns the unit at a position; it takes its shift from `like`, if given.
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
    /// Loads the first tile's vectors. Units beyond the matrix become zero without an access.
    fn start(&self, k: &mut Body<'b, '_>, first: &[LineVectors<'b>]) {
        for (number, unit) in (0..).zip(first) {
            k.if_else(
                unit.is_inside,
                |_| self.thr.load(number, unit.from),
                |_| (0..8).for_each(|word| self.thr.words.set(8 * number + word, 0)),
            );
        }
    }

    /// Stores the tile that starts at `along` along K to `to`, a (row, K) tensor, and fills with
    /// zeros beyond K. Rows beyond the matrix hold arbitrary elements of it. All threads of the
    /// warp group must call it together. If `more` is true, it also starts loading the tile `depth`
    /// further along K.
    ///
    /// Vectors that cross the ends of the buffer are loaded element by element.
    #[track_caller]
    pub fn store(
        &self,
        to: &SharedTensor<'b, T>,
        along: Val<'b, i32>,
        depth: u32,
        more: Val<'b, bool>,
    ) {
        let k = &mut self.row.body();
        let _call = k.call();
        let (at, depth) = (self.origin(along), depth as i32);
        let next = if self.thr.of.major == Major::K {
            let left = [at.left[0], at.left[1] - depth];
            let ends = at.ends.map(|end| end - depth);
            Origin { first: at.first.offset(depth), lead: at.lead, ends, left }
        } else {
            self.origin(along + depth)
        };
        self.store_units(k, to, &at, &next, more);
        let [lines, units] = self.thr.tile;
        // The lowest and the highest vector of the tile.
        let lines = at.left[0].min(lines as i32);
        let last = (lines - 1) * self.thr.of.strides[0].cvt::<i32>();
        let last = last + at.left[1].min((units as i32) * per_unit::<T>()) - 1;
        let crosses = at.ends[0].gt(1 - per_unit::<T>()) | at.ends[1].lt(last);
        k.if_(crosses, |k| self.store_missed(k, to, &at));
    }

    /// Stores the units, with zeros beyond the end of K, and starts loading the next ones.
    fn store_units(
        &self,
        k: &mut Body<'b, '_>,
        to: &SharedTensor<'b, T>,
        at: &Origin<'b, T>,
        next: &Origin<'b, T>,
        more: Val<'b, bool>,
    ) {
        let (thr, by_rows) = (&self.thr, self.thr.of.major == Major::K);
        let total = thr.tile[0] * thr.tile[1];
        let units = thr.units(at).into_iter().zip(thr.units(next));
        for (number, (unit, following)) in (0..).zip(units) {
            let [low, high] = [0, 4]
                .map(|first| [0, 1, 2, 3].map(|word| thr.words.get(8 * number + first + word)));
            let words = shifted(low, high, (unit.shift * size::<T>()).cvt::<u32>());
            let words = if by_rows {
                // The compiler computes these masks once per column.
                let bytes = (at.left[1] - unit.column) * size::<T>();
                [0, 1, 2, 3].map(|i| words[i as usize] & first_bytes(bytes - 4 * i))
            } else {
                let has_line = unit.line.lt(at.left[0]);
                words.map(|word| has_line.select(word, 0))
            };
            let coord = thr.of.coord([unit.line, unit.column]);
            let store = |k: &mut Body<'_, '_>| {
                let Some(to) = to.element(k, "store", &coord) else { return };
                let (to, at) = to.plain().recast::<u32>().resolve();
                to.store_vector(at, Val::pack(words));
            };
            if (number + 1) * GROUP <= total {
                store(k);
            } else {
                k.if_((thr.thread + (number * GROUP) as i32).lt(total as i32), store);
            }
            let following = thr.vectors(next, &following);
            k.if_(more, |_| thr.load(number, following));
        }
    }

    /// Stores the units whose vectors are not inside the buffer.
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
                    k.if_(elements.gt(i), |_| {
                        let x = from.load(i);
                        to.store(thr.of.coord([unit.line, unit.column + i]), x);
                    });
                }
            });
        });
    }

    /// Returns the tile that starts at `along` along K.
    fn origin(&self, along: Val<'b, i32>) -> Origin<'b, T> {
        /// Larger than any offset inside a tile and the next one.
        const FAR: i64 = 1 << 30;
        let GlobalLines { from, major, strides: [pitch, _], extents, .. } = self.thr.of;
        let (by_rows, k) = (major == Major::K, along.cvt::<i64>());
        let offset = self.start + if by_rows { k } else { k * pitch };
        let [line, column] = if by_rows { [self.row, along] } else { [along, self.row] };
        let ends = self.thr.of.ends().map(|end| (end - offset).max(-FAR).min(FAR).cvt::<i32>());
        let left = [extents[0] - line, extents[1] - column];
        // Along K, tiles are multiples of a vector apart.
        let lead = lead(from.offset(self.start));
        Origin { first: from.offset(offset), lead, ends, left }
    }
}

impl<'b, T: Element> Origin<'b, T> {
    /// Returns the nearest pair of vectors inside the buffer.
    fn inside(&self, window: Val<'b, i32>) -> Val<'b, i32> {
        window.max(self.ends[0]).min(self.ends[1])
    }

    /// Returns how many of the unit's elements are in the matrix.
    fn elements(&self, unit: &Unit<'b>) -> Val<'b, i32> {
        let inside = (self.left[1] - unit.column).min(per_unit::<T>()).max(0);
        unit.line.lt(self.left[0]).select(inside, 0)
    }
}

fn size<T: Element>() -> i32 {
    T::scalar().size_bytes() as i32
}

/// Elements per unit of 16 bytes.
fn per_unit<T: Element>() -> i32 {
    VECTOR as i32 / size::<T>()
}

/// Returns a word whose first `bytes` bytes are all ones. `bytes` is clamped to 0 to 4.
#[inline]
fn first_bytes(bytes: Val<'_, i32>) -> Val<'_, u32> {
    let some = (bytes.max(0).min(3) * 8).cvt::<u32>();
    let mask = (some.constant(1u32) << some) - 1u32;
    bytes.ge(4).select(mask.constant(u32::MAX), mask)
}
