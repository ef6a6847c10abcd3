//! A thread block's tile of a transpose: rows are loaded in 16-byte accesses, and columns are stored in them.

use crate::ir::builder::AnyVector;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, GlobalMut, Shared, Val, Vector, range};
use crate::layout::Swizzle;
use crate::tensor::RowAccess;

use super::super::rows::strided;
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
    #[inline]
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
    /// all of a mode: they load and store whole aligned chunks, which may start up to `chunk - 1` elements early.
    pub(super) fn steps(self, sizes: [u32; 2]) -> [u32; 2] {
        let step = |size: u32, extent: u32| {
            let has_all = size + self.chunk <= extent + 1;
            if has_all || !self.is_ragged { extent } else { extent - self.chunk }
        };
        [step(sizes[0], self.rows), step(sizes[1], self.columns)]
    }

    /// Returns the elements of the tile in shared memory.
    pub(super) fn len(self) -> u32 {
        self.rows * self.columns * self.matrices
    }

    /// Returns the offset of a column of a line in shared memory. Line `matrix * rows + row` has a row of a matrix.
    #[inline]
    fn offset(self, line: u32, column: u32) -> i32 {
        self.swizzle.apply((line * self.columns + column).into()) as i32
    }

    /// The same in the kernel. The offset of the sum of two coordinates without common bits is the XOR of their offsets.
    #[track_caller]
    #[inline]
    fn offset_of<'b>(self, line: Val<'b, i32>, column: Val<'b, i32>) -> Val<'b, i32> {
        let offset = line * self.columns as i32 + column;
        offset ^ ((offset & self.swizzle.y_mask() as i32) >> self.swizzle.shift() as u32)
    }
}

/// A thread block's tile.
pub(super) struct Part<'b, T> {
    pub(super) tile: Tile,
    /// The first row, column and matrix of the tile.
    pub(super) first: [Val<'b, i32>; 3],
    /// The rows, columns and matrices of the problem from the first of the tile on.
    pub(super) left: [Val<'b, i32>; 3],
    /// The rows and columns of the tile that belong to no other one.
    pub(super) own: [Val<'b, i32>; 2],
    pub(super) shared: Val<'b, Shared<T>>,
}

/// A batch of matrices with their pitch. A mode of the batch has a count and a stride.
pub(super) struct Matrices<'b, P> {
    pub(super) base: Val<'b, P>,
    pub(super) pitch: Val<'b, i64>,
    pub(super) modes: Vec<(Val<'b, i32>, Val<'b, i64>)>,
}

impl<'b, P> Matrices<'b, P> {
    /// Returns the elements before a matrix.
    #[track_caller]
    fn start(&self, matrix: Val<'b, i32>) -> Val<'b, i64> {
        strided(matrix.cvt(), self.modes.iter().copied())
    }
}

/// A thread's accesses to the chunks of the lines of a tile: rows of the input (side 0), or columns, which are rows of the output
/// (side 1). Neighbouring threads have neighbouring chunks of a line.
struct Accesses<'b> {
    side: usize,
    /// The first chunk and line.
    chunk: Val<'b, i32>,
    line: Val<'b, i32>,
    /// The lines from one access to the next one.
    step: u32,
    count: u32,
}

/// A line of a tile.
struct Line<'b> {
    /// Its number in its matrix, and that of the matrix in the tile.
    number: Val<'b, i32>,
    matrix: Val<'b, i32>,
    /// The elements before it in the operand.
    start: Val<'b, i64>,
    /// The problem has it.
    exists: Val<'b, bool>,
}

impl<'b> Accesses<'b> {
    /// Those to `across` chunks of each line, at most as many as a block has threads.
    #[track_caller]
    #[inline]
    fn of(k: &Body<'b, '_>, tile: Tile, side: usize, across: u32) -> Accesses<'b> {
        let (thread, step) = (k.thread_idx().x, THREADS / across);
        let lines = [tile.rows, tile.columns][side] * tile.matrices;
        let [chunk, line] = [thread % across as i32, thread / across as i32];
        Accesses { side, chunk, line, step, count: lines.div_ceil(step) }
    }

    /// Returns the line of access `access`.
    #[track_caller]
    fn line<P>(&self, part: &Part<'b, impl Sized>, of: &Matrices<'b, P>, access: u32) -> Line<'b> {
        let (side, more) = (self.side, access * self.step);
        let extent = [part.tile.rows, part.tile.columns][side];
        let (mut number, mut matrix) = (self.line, self.line.constant(0));
        if part.tile.matrices > 1 {
            (number, matrix) = (number & (extent as i32 - 1), number >> extent.ilog2());
            matrix += (more / extent) as i32;
        }
        let start = of.start(part.first[2] + matrix) + part.first[1 - side].cvt::<i64>();
        // A multiple of the pitch by the host takes fewer instructions than one for each line.
        let more = more % extent;
        let line = (part.first[side] + number).cvt::<i64>() * of.pitch;
        let (number, start) = (number + more as i32, start + line + of.pitch * i64::from(more));
        let exists = number.lt(part.left[side]) & matrix.lt(part.left[2]);
        Line { number, matrix, start, exists }
    }
}

impl<'b, T: Element> Part<'b, T> {
    /// Loads the tile into shared memory, each row from the multiple of 16 bytes before its first element on. A chunk that ends
    /// after element `len` of the input is loaded by single elements.
    pub(super) fn load(
        &self,
        k: &mut Body<'b, '_>,
        x: &Matrices<'b, Global<T>>,
        len: Val<'b, i64>,
    ) {
        let Tile { columns, chunk, is_ragged, .. } = self.tile;
        let accesses = Accesses::of(k, self.tile, 0, columns / chunk);
        let elements = chunk as i32;
        let column = accesses.chunk * elements;
        let to = self.tile.offset_of(accesses.line, column);
        let zero: Val<'b, Vector<u32, 4>> = Val::splat(k.constant(0u32));
        let load = |k: &mut Body<'b, '_>, access: u32| {
            let line = accesses.line(self, x, access);
            let (mut at, mut left) = (line.start + column.cvt::<i64>(), self.left[1]);
            if is_ragged {
                let ahead = line.start.cvt::<i32>() & (elements - 1);
                (at, left) = (at - ahead.cvt::<i64>(), left + ahead);
            }
            let has = line.exists & column.lt(left);
            let is_inside = if is_ragged { has & (at + i64::from(chunk)).le(len) } else { has };
            let from = x.base.offset(at).ptr_cast::<u32>();
            (at, has & !is_inside, k.if_with(is_inside, zero, |k| from.load_vector::<4>(k, 0)))
        };
        // Addresses of ragged rows stay until their words have arrived: a thread has registers for those of 8 accesses.
        let at_once = if is_ragged { 8 } else { accesses.count };
        for first in (0..accesses.count).step_by(at_once as usize) {
            let accessed = first..(first + at_once).min(accesses.count);
            let loaded: Vec<_> = accessed.clone().map(|access| load(k, access)).collect();
            for (access, (at, is_cut, words)) in accessed.zip(loaded) {
                let (to, by) = self.slot(to, self.tile.offset(access * accesses.step, 0));
                let to = self.shared.offset(to);
                to.ptr_cast::<u32>().store_vector(k, by * 4 / elements, words);
                if is_ragged {
                    k.if_(is_cut, |k| {
                        k.for_(range(0, elements), (), |k, element, ()| {
                            let at = at + element.cvt::<i64>();
                            k.if_(at.lt(len), |k| to.store(k, element + by, x.base.load(k, at)));
                        });
                    });
                }
            }
        }
    }

    /// Stores the columns of the tile as rows of the output: whole aligned chunks, and single elements at the ends of a row.
    pub(super) fn store(
        &self,
        k: &mut Body<'b, '_>,
        x: &Matrices<'b, Global<T>>,
        y: &Matrices<'b, GlobalMut<T>>,
    ) {
        let Tile { rows, columns, matrices, chunk, is_ragged, .. } = self.tile;
        let elements = chunk as i32;
        // 8 threads store 128 bytes of a row, or more where the tile has few columns.
        let across = (rows / chunk).min(8.max(THREADS / (columns * matrices)));
        let accesses = Accesses::of(k, self.tile, 1, across);
        let own = accesses.line(self, y, 0);
        let first =
            self.tile.offset_of(own.matrix * rows as i32 + accesses.chunk * elements, own.number);
        let downs = (0..rows).step_by((across * chunk) as usize);
        // The chunks of a row come after each other: they share sectors of memory.
        for access in 0..accesses.count {
            let line = accesses.line(self, y, access);
            // Row `row` of a ragged matrix starts `(of_x.0 + row * of_x.1) % chunk` elements late in its first chunk.
            let of_x = is_ragged.then(|| {
                let start = x.start(self.first[2] + line.matrix);
                let start = start + self.first[0].cvt::<i64>() * x.pitch;
                ((start + self.first[1].cvt::<i64>()).cvt::<i32>(), x.pitch.cvt::<i32>())
            });
            for down in downs.clone() {
                let (mut row, to) =
                    (accesses.chunk * elements + down as i32, y.base.offset(line.start));
                let more = access * accesses.step;
                let more = [more / columns * rows + down, more % columns];
                let Some(of_x) = of_x else {
                    let values: Vec<_> = (0..chunk)
                        .map(|element| {
                            let (from, at) =
                                self.slot(first, self.tile.offset(more[0] + element, more[1]));
                            self.shared.offset(from).load(k, at)
                        })
                        .collect();
                    k.if_(line.exists & row.lt(self.left[0]), |k| {
                        if let Some(values) = AnyVector::pack::<T>(&values) {
                            to.store_vector(k, row, values);
                        }
                    });
                    continue;
                };
                // The first tile also has the chunk that the start of the row cuts.
                let head = -line.start.cvt::<i32>() & (elements - 1);
                let is_cut = self.first[0].eq(0) & head.gt(0);
                row += head - is_cut.select(elements, 0);
                let is_own = line.exists & line.number.lt(self.own[1]) & row.lt(self.own[0] + head);
                let is_whole = row.ge(0) & (row + elements).le(self.left[0]);
                k.if_(is_own & is_whole, |k| {
                    let values: Vec<_> = (0..elements)
                        .map(|element| self.element(k, &line, of_x, row + element))
                        .collect();
                    if let Some(values) = AnyVector::pack::<T>(&values) {
                        to.store_vector(k, row, values);
                    }
                });
                k.if_(is_own & !is_whole, |k| {
                    let ends = range(row.max(0), (row + elements).min(self.left[0]));
                    k.for_(ends, (), |k, row, ()| {
                        to.store(k, row, self.element(k, &line, of_x, row))
                    });
                });
            }
        }
    }

    /// Loads the element of a column of a ragged tile.
    #[track_caller]
    #[inline]
    fn element<'c>(
        &self,
        k: &Body<'c, '_>,
        column: &Line<'b>,
        (start, pitch): (Val<'b, i32>, Val<'b, i32>),
        row: Val<'c, i32>,
    ) -> Val<'c, T>
    where
        'b: 'c,
    {
        let ahead = (start + row * pitch) & (self.tile.chunk as i32 - 1);
        let line = column.matrix * self.tile.rows as i32 + row;
        self.shared.load(k, self.tile.offset_of(line, column.number + ahead))
    }

    /// Returns the offset `first ^ more`, the bits that a swizzle does not change apart.
    #[track_caller]
    fn slot<'c>(&self, first: Val<'c, i32>, more: i32) -> (Val<'c, i32>, i32) {
        let changes = self.tile.swizzle.z_mask() as i32;
        (first ^ (more & changes), more & !changes)
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
            (Scalar::F32, large, "S<3,2,6>"),
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
