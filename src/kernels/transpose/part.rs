//! A thread block's tile of a transpose: rows are loaded in 16-byte accesses, and columns are stored in them.

use crate::ir::builder::AnyVector;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, GlobalMut, Shared, Val, Vector, range};
use crate::layout::Swizzle;
use crate::tensor::RowAccess;

use super::{THREADS, TransposeConfig, chunk};

/// A tile of the input. Its extents are powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) matrices: u32,
    /// The elements of 16 bytes.
    chunk: u32,
    is_ragged: bool,
    swizzle: Swizzle,
}

impl Tile {
    /// Returns the tile of a configuration.
    pub(super) fn of(config: &TransposeConfig, elem: Scalar) -> Tile {
        let TransposeConfig { tile, matrices, .. } = *config;
        let chunk = chunk(elem);
        let [rows, columns] = tile.map(|chunks| chunks * chunk);
        // A wavefront of a store's loads has up to 8 chunks of rows, and as many columns as it has banks for. The number of the
        // chunk is added to the bits above those of the columns: from `base` on.
        let bits = tile[0].min(8).ilog2();
        let wavefront = (128 / elem.size_bytes().max(4)) >> bits;
        let (base, source) = (wavefront.max(chunk).ilog2(), (columns * chunk).ilog2());
        // The lowest bits of the number may be there already.
        let present = (base + bits).saturating_sub(source);
        let (bits, shift) = (bits.saturating_sub(present), source + present - base);
        let swizzle = Swizzle::new(bits.into(), base.into(), shift.into());
        let swizzle = swizzle.unwrap_or(Swizzle::identity());
        let is_ragged = config.access == RowAccess::Ragged;
        Tile { rows, columns, matrices, chunk, is_ragged, swizzle }
    }

    /// Returns the rows and columns from a tile to the next one. Tiles of ragged matrices overlap by a chunk, unless one tile has
    /// all of a mode.
    pub(super) fn steps(self, [rows, columns]: [u32; 2]) -> [u32; 2] {
        // The first column of a row is up to `chunk - 1` elements after the start of its first chunk.
        let has_all = [rows <= self.rows, columns + self.chunk <= self.columns + 1];
        let step =
            |has_all, extent| if has_all || !self.is_ragged { extent } else { extent - self.chunk };
        [step(has_all[0], self.rows), step(has_all[1], self.columns)]
    }

    /// Returns the elements of the tile in shared memory.
    pub(super) fn len(self) -> u32 {
        self.rows * self.columns * self.matrices
    }

    /// Returns the offset of a column of a line in shared memory. Line `matrix * rows + row` has a row of a matrix.
    fn offset(self, line: u32, column: u32) -> i32 {
        self.swizzle.apply((line * self.columns + column).into()) as i32
    }

    /// The same in the kernel. The offset of the sum of two coordinates without common bits is the XOR of their offsets.
    #[track_caller]
    fn offset_of<'b>(self, line: Val<'b, i32>, column: Val<'b, i32>) -> Val<'b, i32> {
        let offset = line * self.columns as i32 + column;
        offset ^ ((offset & self.swizzle.y_mask() as i32) >> self.swizzle.shift() as u32)
    }
}

/// A batch of matrices.
#[derive(Clone, Copy)]
pub(super) struct Batch<'b> {
    pub(super) modes: u32,
    pub(super) counts: [Val<'b, i32>; 3],
    /// The strides of the input and the output.
    pub(super) strides: [[Val<'b, i64>; 3]; 2],
}

impl<'b> Batch<'b> {
    /// Returns the elements before a matrix in the input (side 0) or the output (side 1).
    #[track_caller]
    fn start(&self, k: &Body<'b, '_>, side: usize, matrix: Val<'b, i32>) -> Val<'b, i64> {
        let (mut rest, mut start) = (matrix.cvt::<u32>(), k.constant(0i64));
        for mode in 0..self.modes as usize {
            let count: Val<'b, u32> = self.counts[mode].cvt();
            // The last mode needs no division.
            let is_last = mode + 1 == self.modes as usize;
            let next = if is_last { k.constant(0u32) } else { rest / count };
            let index = if is_last { rest } else { rest - next * count };
            start += index.cvt::<i64>() * self.strides[side][mode];
            rest = next;
        }
        start
    }
}

/// A thread block's tile.
pub(super) struct Part<'b, T> {
    pub(super) tile: Tile,
    pub(super) batch: Batch<'b>,
    /// The first row, column and matrix of the tile.
    pub(super) first: [Val<'b, i32>; 3],
    /// The rows, columns and matrices of the problem from the first of the tile on.
    pub(super) left: [Val<'b, i32>; 3],
    /// The rows and columns of the tile that belong to no other one.
    pub(super) own: [Val<'b, i32>; 2],
    pub(super) shared: Val<'b, Shared<T>>,
}

/// Matrices with their pitch.
type Matrix<'b, P> = (Val<'b, P>, Val<'b, i64>);

/// A row of the tile in the input (side 0), or a column of the tile, which is a row of the output (side 1).
struct Line<'c> {
    /// The number of the row or column, and that of the matrix in the tile.
    number: Val<'c, i32>,
    matrix: Val<'c, i32>,
    /// The offset of its first element in the tile.
    start: Val<'c, i64>,
    /// The problem has it.
    exists: Val<'c, bool>,
}

/// 16 bytes of a row of the input.
struct Chunk<'c, T> {
    from: Val<'c, Global<T>>,
    /// The column of the first element in the tile.
    column: Val<'c, i32>,
    has_row: Val<'c, bool>,
    /// All elements are in the matrix.
    is_whole: Val<'c, bool>,
}

impl<'b, T: Element> Part<'b, T> {
    /// Transposes the tile. Whole tiles of aligned matrices have no other guards than one uniform branch.
    pub(super) fn transpose(
        &self,
        k: &mut Body<'b, '_>,
        x: Matrix<'b, Global<T>>,
        y: Matrix<'b, GlobalMut<T>>,
    ) {
        let Tile { rows, columns, matrices, is_ragged, .. } = self.tile;
        if is_ragged {
            self.load(k, x, true);
            k.barrier();
            self.store(k, x.1, y, true);
            return;
        }
        let [row, column, matrix] = self.left;
        let is_whole = row.ge(rows as i32) & column.ge(columns as i32) & matrix.ge(matrices as i32);
        k.if_else(is_whole, |k| self.load(k, x, false), |k| self.load(k, x, true));
        k.barrier();
        k.if_else(is_whole, |k| self.store(k, x.1, y, false), |k| self.store(k, x.1, y, true));
    }

    /// Loads the tile into shared memory, from the multiple of 16 bytes before the first element of each row on. With guards,
    /// elements outside of the matrices are not loaded.
    fn load(&self, k: &mut Body<'b, '_>, x: Matrix<'b, Global<T>>, is_guarded: bool) {
        let Tile { rows, columns, matrices, chunk, is_ragged, .. } = self.tile;
        let Accesses { inner, outer, step, count } =
            Accesses::of(k, [columns / chunk, rows * matrices]);
        let first = self.tile.offset_of(outer, inner * chunk as i32);
        let zero: Val<'b, Vector<u32, 4>> = Val::splat(k.constant(0u32));
        let load = |i: u32| {
            let Chunk { from, is_whole, .. } = self.chunk(k, x, inner, (outer, i * step));
            let from = from.ptr_cast::<u32>();
            match is_guarded {
                true => k.if_with(is_whole, zero, |k| from.load_vector::<4>(k, 0)),
                false => from.load_vector::<4>(k, 0),
            }
        };
        let loaded: Vec<_> = (0..count).map(load).collect();
        for (i, values) in (0..).zip(loaded) {
            let (to, at) = self.slot(first, self.tile.offset(i * step, 0));
            self.shared.offset(to).ptr_cast::<u32>().store_vector(k, at * 4 / chunk as i32, values);
        }
        if !is_ragged {
            return;
        }
        // Chunks that the ends of the matrices' rows cut.
        let lanes = chunk as i32;
        let is_cut = self.first[1].lt(lanes) | self.left[1].lt(columns as i32);
        k.if_(is_cut, |k| {
            k.for_(range(0, count as i32), (), |k, i, ()| {
                let line = outer + i * step as i32;
                let Chunk { from, column, has_row, is_whole } = self.chunk(k, x, inner, (line, 0));
                k.if_(has_row & !is_whole, |k| {
                    let to = self.tile.offset_of(line, inner * lanes);
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

    /// Stores the columns of the tile as rows of the output, from the first multiple of 16 bytes in each on. The last elements of
    /// a ragged column are those of rows that the next tile has too. Single elements are stored only at the ends of the
    /// output's rows.
    fn store(
        &self,
        k: &mut Body<'b, '_>,
        x_pitch: Val<'b, i64>,
        (y, pitch): Matrix<'b, GlobalMut<T>>,
        is_guarded: bool,
    ) {
        let Tile { rows, columns, matrices, chunk, is_ragged, .. } = self.tile;
        let (lanes, low) = (chunk as i32, chunk as i32 - 1);
        // 8 threads store 128 bytes of a row, or more where the tile has few columns.
        let across = (rows / chunk).min(8.max(THREADS / (columns * matrices)));
        let Accesses { inner, outer, step, count } = Accesses::of(k, [across, columns * matrices]);
        let own = self.place(k, outer, 0, columns);
        let first = self.tile.offset_of(own.1 * rows as i32 + inner * lanes, own.0);
        let (y, zero): (Val<'b, GlobalMut<T>>, Val<'b, i32>) = (y, k.constant(0));
        let downs = (0..rows).step_by((across * chunk) as usize);
        let mut parts: Vec<(u32, u32)> =
            downs.flat_map(|down| (0..count).map(move |i| (down, i))).collect();
        if is_ragged {
            // The parts of a row come after each other: they share sectors of memory.
            parts.sort_by_key(|(down, i)| (*i, *down));
        }
        for (down, i) in parts {
            let line = self.line(k, 1, pitch, (outer, i * step));
            let has_column = line.exists & line.number.lt(self.own[1]);
            // The rows before the first multiple of 16 bytes.
            let head = if is_ragged { -line.start.cvt::<i32>() & low } else { zero };
            let row = inner * lanes + head + down as i32;
            let to = y.offset(line.start);
            let of_x = if is_ragged {
                self.batch.start(k, 0, self.first[2] + line.matrix)
            } else {
                k.constant(0i64)
            };
            let of_x = of_x + self.first[0].cvt::<i64>() * x_pitch + self.first[1].cvt::<i64>();
            // A row of a ragged matrix starts after the elements before it in its first chunk.
            let shifted = |row: Val<'b, i32>| {
                let ahead = (of_x.cvt::<i32>() + row * x_pitch.cvt::<i32>()) & low;
                self.tile.offset_of(line.matrix * rows as i32 + row, line.number + ahead)
            };
            let more = [(i * step) / columns * rows + down, i * step % columns];
            let slot = |lane: u32| match is_ragged {
                true => (shifted(row + lane as i32), 0),
                false => self.slot(first, self.tile.offset(more[0] + lane, more[1])),
            };
            let store = |k: &Body<'_, '_>| {
                let load = |(from, at)| self.shared.offset(from).load(k, at);
                let values: Vec<_> = (0..chunk).map(|lane| load(slot(lane))).collect();
                if let Some(values) = AnyVector::pack::<T>(&values) {
                    to.store_vector(k, row, values);
                }
            };
            if !is_guarded {
                store(k);
                continue;
            }
            let is_own = has_column & row.lt(self.own[0] + head);
            let is_whole = (row + lanes).le(self.left[0]);
            k.if_(is_own & is_whole, |k| store(k));
            if !is_ragged {
                continue;
            }
            let mut store_some = |first: Val<'b, i32>, holds: Val<'b, bool>, end: Val<'b, i32>| {
                k.if_(holds, |k| {
                    for lane in 0..low {
                        let row = first + lane;
                        k.if_(row.lt(end), |k| to.store(k, row, self.shared.load(k, shifted(row))));
                    }
                })
            };
            store_some(row, is_own & !is_whole, self.left[0]);
            // Before the head, there is a chunk of the tile above, or the start of the matrix.
            if down == 0 {
                let is_start = self.first[0].eq(0) & inner.eq(0) & has_column;
                store_some(zero, is_start, head.min(self.left[0]));
            }
        }
    }

    /// Returns a chunk of row `line.0 + line.1` of the tile, from the multiple of 16 bytes before its first element on.
    #[track_caller]
    fn chunk(
        &self,
        k: &Body<'b, '_>,
        (x, pitch): Matrix<'b, Global<T>>,
        number: Val<'b, i32>,
        line: (Val<'b, i32>, u32),
    ) -> Chunk<'b, T> {
        let lanes = self.tile.chunk as i32;
        let Line { start, exists: has_row, .. } = self.line(k, 0, pitch, line);
        let mut column = number * lanes;
        if self.tile.is_ragged {
            column -= start.cvt::<i32>() & (lanes - 1);
        }
        let [first, left]: [Val<'b, i32>; 2] = [self.first[1], self.left[1]];
        let is_whole = has_row & (column + lanes).le(left);
        let is_whole =
            if self.tile.is_ragged { is_whole & (column + first).ge(0) } else { is_whole };
        Chunk { from: x.offset(start).offset(column), column, has_row, is_whole }
    }

    /// Returns line `outer + more` of a side.
    #[track_caller]
    fn line(
        &self,
        k: &Body<'b, '_>,
        side: usize,
        pitch: Val<'b, i64>,
        (outer, more): (Val<'b, i32>, u32),
    ) -> Line<'b> {
        let extent = [self.tile.rows, self.tile.columns][side];
        let [first, across, matrix]: [Val<'b, i32>; 3] =
            [self.first[side], self.first[1 - side], self.first[2]];
        let (number, of_matrix) = self.place(k, outer, more, extent);
        let start = self.batch.start(k, side, matrix + of_matrix) + across.cvt::<i64>();
        // A multiple of the pitch by the host takes fewer instructions than one for each line.
        let more = more % extent;
        let start = start + (first + number).cvt::<i64>() * pitch + pitch * i64::from(more);
        let number = number + more as i32;
        let exists = number.lt(self.left[side]) & of_matrix.lt(self.left[2]);
        Line { number, matrix: of_matrix, start, exists }
    }

    /// Returns the number of line `outer + more` in its matrix, without `more % extent`, and the matrix in the tile.
    #[track_caller]
    fn place<'c>(
        &self,
        k: &Body<'c, '_>,
        outer: Val<'c, i32>,
        more: u32,
        extent: u32,
    ) -> (Val<'c, i32>, Val<'c, i32>) {
        if self.tile.matrices == 1 {
            return (outer, k.constant(0));
        }
        let extent = extent as i32;
        (outer & (extent - 1), (outer >> extent.ilog2()) + more as i32 / extent)
    }

    /// Returns the offset `first ^ more`, the bits that a swizzle does not change apart.
    #[track_caller]
    fn slot<'c>(&self, first: Val<'c, i32>, more: i32) -> (Val<'c, i32>, i32) {
        let changes = self.tile.swizzle.z_mask() as i32;
        (first ^ (more & changes), more & !changes)
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
    use crate::ir::Target;
    use crate::kernels::transpose::TransposeProblem;
    use crate::layout::Layout;
    use crate::tensor::{SmemAccess, SwizzleCandidate, choose_swizzle};

    /// The swizzle of a tile is among those of the chooser, and has no bank conflict.
    #[test]
    fn the_swizzle_is_that_of_the_chooser() {
        let large = TransposeProblem::new(4096, 4096);
        for (elem, problem, swizzle) in [
            (Scalar::F32, large, "S<3,2,7>"),
            (Scalar::Bf16, large, "S<3,3,7>"),
            (Scalar::U8, large, "S<3,4,7>"),
            (Scalar::Bf16, TransposeProblem::new(16, 64).batched(99), "S<1,4,5>"),
            (Scalar::Bf16, TransposeProblem::new(16, 16).batched(99), "S<1,4,3>"),
            (Scalar::Bf16, TransposeProblem::new(64, 16).batched(99), "S<3,3,4>"),
            (Scalar::F32, TransposeProblem::new(32, 64).batched(99), "S<3,2,6>"),
            (Scalar::F32, TransposeProblem::new(99, 8).batched(99), "S<3,2,4>"),
        ] {
            let config = TransposeConfig::new(Target::SM_90, elem, &problem);
            let Tile { rows, columns, matrices, chunk, swizzle: ours, .. } =
                Tile::of(&config, elem);
            assert_eq!(ours.to_string(), swizzle, "of {elem} {config}");
            let [lines, columns, chunk, across] =
                [rows * matrices, columns, chunk, (rows / chunk).min(8)].map(i64::from);
            let tile = Layout::new((lines, columns), (columns, 1)).unwrap();
            // Threads along a row; threads a chunk of rows apart, then along columns.
            let store = Layout::new((columns / chunk, lines), (lines * chunk, 1)).unwrap();
            let load = Layout::new((across, columns), (chunk, lines)).unwrap();
            let accesses =
                [SmemAccess::new("store", store, chunk as u32), SmemAccess::new("load", load, 1)];
            let choice = choose_swizzle(&tile, elem, &accesses).unwrap();
            let is_ours = |found: &&SwizzleCandidate| found.swizzle() == ours;
            let found = choice.candidates().iter().find(is_ours);
            assert!(found.is_some_and(SwizzleCandidate::is_free), "{config}: {choice}");
        }
    }
}
