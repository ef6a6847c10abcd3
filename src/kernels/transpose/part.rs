//! A block's tile of a transpose: it is loaded in 16-byte accesses, and so are its columns stored.

use crate::ir::builder::AnyVector;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, GlobalMut, Shared, Val, Vector, range};

use super::{THREADS, chunk};

/// A tile of the input: its rows and columns, powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// The elements of 16 bytes.
    chunk: u32,
    /// The tile overlaps its neighbours by a chunk.
    ragged: bool,
}

impl Tile {
    pub(super) fn of([rows, columns]: [u32; 2], elem: Scalar, ragged: bool) -> Tile {
        let chunk = chunk(elem);
        Tile { rows: rows * chunk, columns: columns * chunk, chunk, ragged }
    }

    /// Returns the rows and columns from a tile to the next one.
    pub(super) fn steps(self) -> [i32; 2] {
        let overlap = if self.ragged { self.chunk } else { 0 };
        [self.rows - overlap, self.columns - overlap].map(|extent| extent as i32)
    }

    /// Returns the offset of (row, column) in shared memory. Rows are contiguous, and chunks of 16 bytes swizzled: 8 threads
    /// that store neighbouring chunks of a row, and 8 threads that load from rows a chunk apart, access all banks.
    fn offset(self, row: u32, column: u32) -> i32 {
        (row * self.columns + (column ^ (row / self.chunk % 8 * self.chunk))) as i32
    }

    /// The same in the kernel. The offset of the sum of two coordinates without common bits is the XOR of their offsets.
    #[track_caller]
    fn offset_of<'b>(self, row: Val<'b, i32>, column: Val<'b, i32>) -> Val<'b, i32> {
        let chunk = self.chunk as i32;
        row * self.columns as i32 + (column ^ (((row / chunk) & 7) * chunk))
    }
}

/// A block's tile.
#[derive(Clone, Copy)]
pub(super) struct Part<'b, T> {
    pub(super) tile: Tile,
    /// The first row and column of the tile.
    pub(super) first: [Val<'b, i32>; 2],
    /// The rows and columns of the matrix from the first of the tile on.
    pub(super) left: [Val<'b, i32>; 2],
    /// The elements before the matrix in the input and the output.
    pub(super) starts: [Val<'b, i64>; 2],
    pub(super) shared: Val<'b, Shared<T>>,
}

/// A matrix with its pitch.
type Matrix<'b, P> = (Val<'b, P>, Val<'b, i64>);

impl<'b, T: Element> Part<'b, T> {
    /// Transposes a tile whose rows and columns start and end at multiples of 16 bytes.
    pub(super) fn transpose(
        &self,
        k: &mut Body<'b, '_>,
        x: Matrix<'b, Global<T>>,
        y: Matrix<'b, GlobalMut<T>>,
    ) {
        let [rows, columns] = self.left;
        let is_whole = rows.ge(self.tile.rows as i32) & columns.ge(self.tile.columns as i32);
        k.if_else(is_whole, |k| self.load(k, x, None), |k| self.load(k, x, Some(self.left)));
        k.barrier();
        k.if_else(is_whole, |k| self.store(k, y, None), |k| self.store(k, y, Some(self.left)));
    }

    /// Loads the tile into shared memory; of a tile at the edge, `extents` rows and columns.
    fn load(
        &self,
        k: &mut Body<'_, '_>,
        (x, pitch): Matrix<'b, Global<T>>,
        extents: Option<[Val<'b, i32>; 2]>,
    ) {
        let Tile { rows, columns, chunk, .. } = self.tile;
        let Accesses { inner, outer: row, step, count } = Accesses::of(k, [columns / chunk, rows]);
        let column = inner * chunk as i32;
        let x = x
            .offset(self.starts[0] + (self.first[0] + row).cvt::<i64>() * pitch)
            .offset(self.first[1] + column);
        let from = |access: u32| pitch * i64::from(access * step);
        let first = self.tile.offset_of(row, column);
        let to = |access: u32| first ^ self.tile.offset(access * step, 0);
        let Some([rows, columns]) = extents else {
            let loaded: Vec<_> = (0..count).map(|i| x.load_any(k, from(i), chunk)).collect();
            for (i, values) in (0..).zip(loaded.into_iter().flatten()) {
                self.shared.store_vector(k, to(i), values);
            }
            return;
        };
        for i in 0..count {
            k.if_((row + (i * step) as i32).lt(rows) & column.lt(columns), |k| {
                if let Some(values) = x.load_any(k, from(i), chunk) {
                    self.shared.store_vector(k, to(i), values);
                }
            });
        }
    }

    /// Stores the columns of the tile as rows of the output; of a tile at the edge, those of `extents` rows and columns.
    fn store(
        &self,
        k: &mut Body<'_, '_>,
        (y, pitch): Matrix<'b, GlobalMut<T>>,
        extents: Option<[Val<'b, i32>; 2]>,
    ) {
        let Tile { rows, columns, chunk, .. } = self.tile;
        // 8 threads store 128 bytes of a row.
        let Accesses { inner, outer: column, step, count } = Accesses::of(k, [8, columns]);
        let row = inner * chunk as i32;
        let y = y
            .offset(self.starts[1] + (self.first[1] + column).cvt::<i64>() * pitch)
            .offset(self.first[0] + row);
        let first = self.tile.offset_of(row, column);
        for down in (0..rows).step_by(8 * chunk as usize) {
            for i in 0..count {
                let from = self.shared.offset(first ^ self.tile.offset(down, i * step));
                let to = y.offset(pitch * i64::from(i * step) + i64::from(down));
                let store = |k: &Body<'_, '_>| {
                    let load = |row: u32| from.load(k, (row * columns) as i32);
                    let values: Vec<_> = (0..chunk).map(load).collect();
                    if let Some(values) = AnyVector::pack::<T>(&values) {
                        to.store_vector(k, 0, values);
                    }
                };
                match extents {
                    None => store(k),
                    Some([rows, columns]) => {
                        let is_inside =
                            (row + down as i32).lt(rows) & (column + (i * step) as i32).lt(columns);
                        k.if_(is_inside, |k| store(k));
                    }
                }
            }
        }
    }

    /// Transposes a tile of matrices whose rows start and end anywhere. A row of the tile is loaded from the multiple of 16
    /// bytes before its first element on, and lies so in shared memory. The tile's part of a row of the output starts at the
    /// first multiple of 16 bytes in it, and ends with a whole chunk: so its last elements are of rows that the next tile
    /// has too. Single elements are accessed only at the ends of the matrices' rows.
    pub(super) fn transpose_ragged(
        &self,
        k: &mut Body<'b, '_>,
        x: Matrix<'b, Global<T>>,
        y: Matrix<'b, GlobalMut<T>>,
    ) {
        self.load_ragged(k, x);
        k.barrier();
        self.store_ragged(k, x.1, y);
    }

    fn load_ragged(&self, k: &mut Body<'_, '_>, (x, pitch): Matrix<'b, Global<T>>) {
        let Tile { rows, columns, chunk, .. } = self.tile;
        let lanes = chunk as i32;
        let Accesses { inner, outer, step, count } = Accesses::of(k, [columns / chunk, rows]);
        let zero: Val<'_, Vector<u32, 4>> = Val::splat(k.constant(0u32));
        let mut loaded = Vec::new();
        for i in 0..count {
            let Chunk { from, is_whole, to, .. } =
                self.chunk((x, pitch), inner, outer + (i * step) as i32);
            let from = from.ptr_cast::<u32>();
            loaded.push((to, k.if_with(is_whole, zero, |k| from.load_vector::<4>(k, 0))));
        }
        for (to, values) in loaded {
            self.shared.offset(to).ptr_cast::<u32>().store_vector(k, 0, values);
        }
        // Chunks that the ends of the matrix's rows cut.
        let is_cut = self.first[1].lt(lanes) | self.left[1].lt(columns as i32);
        k.if_(is_cut, |k| {
            k.for_(range(0, count as i32), (), |k, i, ()| {
                let Chunk { from, column, has_row, is_whole, to } =
                    self.chunk((x, pitch), inner, outer + i * step as i32);
                k.if_(has_row & !is_whole, |k| {
                    for lane in 0..lanes {
                        let column = column + lane;
                        let is_inside = (column + self.first[1]).ge(0) & column.lt(self.left[1]);
                        k.if_(is_inside, |k| {
                            self.shared.store(k, to + lane, from.load(k, lane));
                        });
                    }
                });
            });
        });
    }

    fn store_ragged(
        &self,
        k: &mut Body<'_, '_>,
        x_pitch: Val<'b, i64>,
        (y, pitch): Matrix<'b, GlobalMut<T>>,
    ) {
        let Tile { rows, columns, chunk, .. } = self.tile;
        let (lanes, [down, across]) = (chunk as i32, self.tile.steps());
        // The offset of (row, column) from the tile's first element: a row starts after the elements before it in its chunk.
        let x_low = x_pitch.cvt::<i32>() & (lanes - 1);
        let start = self.starts[0].cvt::<i32>() + self.first[0] * x_low + self.first[1];
        let rows_of_x = Shifted { tile: self.tile, start, step: x_low };
        let Accesses { inner, outer, step, count } = Accesses::of(k, [8, columns]);
        for i in 0..count {
            let column = outer + (i * step) as i32;
            let to = self.starts[1] + (self.first[1] + column).cvt::<i64>() * pitch;
            let to = to + self.first[0].cvt::<i64>();
            // The rows before the first multiple of 16 bytes.
            let head = (k.constant(0) - to.cvt::<i32>()) & (lanes - 1);
            let has_column = column.lt(self.left[1]) & column.lt(across);
            let to = y.offset(to);
            for up in 0..(rows / (8 * chunk)) as i32 {
                let row = inner * lanes + (up * 8 * lanes) + head;
                // Before the head, chunk -1, there is a chunk of the tile above, or the start of the matrix's rows.
                let is_first = self.first[0].eq(0) & row.eq(head);
                let is_own = row.lt(down + head) & has_column;
                k.if_(is_own & (row + lanes).le(self.left[0]), |k| {
                    let values: Vec<_> = (0..lanes)
                        .map(|lane| self.shared.load(k, rows_of_x.offset(row + lane, column)))
                        .collect();
                    if let Some(values) = AnyVector::pack::<T>(&values) {
                        to.store_vector(k, row, values);
                    }
                });
                let is_cut = (row + lanes).gt(self.left[0]);
                k.if_(is_own & is_cut, |k| {
                    for lane in 0..lanes - 1 {
                        let row = row + lane;
                        k.if_(row.lt(self.left[0]), |k| {
                            to.store(k, row, self.shared.load(k, rows_of_x.offset(row, column)));
                        });
                    }
                });
                k.if_(is_first & has_column, |k| {
                    for row in 0..lanes - 1 {
                        let is_inside = head.gt(row) & self.left[0].gt(row);
                        k.if_(is_inside, |k| {
                            let row = k.constant(row);
                            to.store(k, row, self.shared.load(k, rows_of_x.offset(row, column)));
                        });
                    }
                });
            }
        }
    }

    /// Returns chunk `number` of a row of the tile, from the multiple of 16 bytes before its first element on.
    #[track_caller]
    fn chunk<'c>(
        &self,
        (x, pitch): Matrix<'c, Global<T>>,
        number: Val<'c, i32>,
        row: Val<'c, i32>,
    ) -> Chunk<'c, T>
    where
        'b: 'c,
    {
        let lanes = self.tile.chunk as i32;
        let [first_row, first_column]: [Val<'c, i32>; 2] = self.first;
        let [left_rows, left_columns]: [Val<'c, i32>; 2] = self.left;
        let start = (first_row + row).cvt::<i64>() * pitch + self.starts[0];
        let start = start + first_column.cvt::<i64>();
        let column = number * lanes - (start.cvt::<i32>() & (lanes - 1));
        let has_row = row.lt(left_rows);
        let is_whole = has_row & (column + first_column).ge(0) & (column + lanes).le(left_columns);
        let to = self.tile.offset_of(row, number * lanes);
        Chunk { from: x.offset(start).offset(column), column, has_row, is_whole, to }
    }
}

/// 16 bytes of a row of the input.
struct Chunk<'b, T> {
    from: Val<'b, Global<T>>,
    /// The column of the first element in the tile.
    column: Val<'b, i32>,
    has_row: Val<'b, bool>,
    /// All elements are in the matrix.
    is_whole: Val<'b, bool>,
    /// The offset in shared memory.
    to: Val<'b, i32>,
}

/// A tile in shared memory whose row `i` starts `(start + i * step) % chunk` elements after the first of its chunk.
#[derive(Clone, Copy)]
struct Shifted<'b> {
    tile: Tile,
    start: Val<'b, i32>,
    step: Val<'b, i32>,
}

impl<'b> Shifted<'b> {
    /// Returns the offset of an element.
    #[track_caller]
    fn offset<'c>(&self, row: Val<'c, i32>, column: Val<'c, i32>) -> Val<'c, i32>
    where
        'b: 'c,
    {
        let ahead = (row * self.step + self.start) & (self.tile.chunk as i32 - 1);
        self.tile.offset_of(row, column + ahead)
    }
}

/// A thread's accesses to a tile of (`inner`, `outer`) accesses, at most as many along the inner mode as a block has
/// threads. Neighbouring threads have neighbouring accesses along the inner mode.
struct Accesses<'b> {
    /// The coordinates of the first access.
    inner: Val<'b, i32>,
    outer: Val<'b, i32>,
    /// The outer coordinates from one access to the next one.
    step: u32,
    count: u32,
}

impl<'b> Accesses<'b> {
    #[track_caller]
    fn of(k: &Body<'b, '_>, [inner, outer]: [u32; 2]) -> Accesses<'b> {
        let (thread, step) = (k.thread_idx().x, THREADS / inner);
        let extent = inner as i32;
        Accesses {
            inner: thread % extent,
            outer: thread / extent,
            step,
            count: outer.div_ceil(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Swizzle};
    use crate::tensor::{SmemAccess, SwizzleCandidate, choose_swizzle};

    /// The swizzle of `Tile::offset` is among those of the chooser, and has no bank conflict.
    #[test]
    fn the_swizzle_is_that_of_the_chooser() {
        for (elem, swizzle) in [(Scalar::F32, "S<3,2,7>"), (Scalar::Bf16, "S<3,3,7>")] {
            let across = if elem == Scalar::F32 { 32 } else { 16 };
            let Tile { rows, columns, chunk, .. } = Tile::of([8, across], elem, false);
            let bits = i64::from(chunk.trailing_zeros());
            let ours = Swizzle::new(3, bits, i64::from(columns.trailing_zeros())).unwrap();
            let (rows, columns, chunk) = (i64::from(rows), i64::from(columns), i64::from(chunk));
            assert_eq!(ours.to_string(), swizzle, "of {rows} x {columns}");
            let tile = Layout::new((rows, columns), (columns, 1)).unwrap();
            // Threads along a row; threads a chunk of rows apart, then along columns.
            let store = Layout::new((columns / chunk, rows), (rows * chunk, 1)).unwrap();
            let load = Layout::new((rows / chunk, columns), (chunk, rows)).unwrap();
            let accesses =
                [SmemAccess::new("store", store, chunk as u32), SmemAccess::new("load", load, 1)];
            let choice = choose_swizzle(&tile, elem, &accesses).unwrap();
            let is_ours = |found: &&SwizzleCandidate| found.swizzle() == ours;
            let found = choice.candidates().iter().find(is_ours);
            assert!(found.is_some_and(SwizzleCandidate::is_free), "{choice}");
        }
    }
}
