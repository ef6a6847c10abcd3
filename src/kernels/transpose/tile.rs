//! [`Tile`]: a block's tile in shared memory, and which vectors each thread moves, as layouts.

use crate::ir::types::Scalar;
use crate::layout::{ComposedLayout, Layout, LayoutError, Swizzle, layout};
use crate::tensor::rows::{RowAccess, RowTile, TiledRowCopy};

use super::{THREADS, TransposeConfig};

/// A tile of the input, with power-of-two extents. Line `matrix * rows + row` of the tile holds one
/// row of one matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: u32,
    columns: u32,
    pub(super) matrices: u32,
    /// Elements per 16 bytes.
    chunk: u32,
    access: RowAccess,
    /// True if columns are loaded with `ldmatrix`, as 8x8 matrices.
    pub(super) has_matrices: bool,
}

impl Tile {
    /// Returns the tile for a configuration.
    #[inline]
    pub(super) fn of(config: &TransposeConfig, elem: Scalar) -> Tile {
        let TransposeConfig { tile, matrices, access, .. } = *config;
        let chunk = RowTile::vector_len(elem);
        let [rows, columns] = tile.map(|chunks| chunks * chunk);
        // A warp loads 8 columns of 4 row chunks at a time. Storing the lines of narrower tiles
        // would cause bank conflicts.
        let has_matrices = elem.bits() == 16
            && access == RowAccess::Aligned
            && tile.iter().all(|chunks| *chunks >= 4)
            && columns * matrices >= THREADS / 4;
        Tile { rows, columns, matrices, chunk, access, has_matrices }
    }

    /// Returns the rows and columns from one tile to the next. Ragged tiles overlap by a chunk
    /// unless one tile covers the whole mode: they load and store whole aligned chunks, which may
    /// start up to `chunk - 1` elements early.
    pub(super) fn steps(self, sizes: [u32; 2]) -> [u32; 2] {
        let step = |size: u32, extent: u32| {
            let has_all = size + self.chunk <= extent + 1;
            let overlaps = self.access == RowAccess::Ragged && !has_all;
            if overlaps { extent - self.chunk } else { extent }
        };
        [step(sizes[0], self.rows), step(sizes[1], self.columns)]
    }

    /// Returns how threads load rows of the input.
    pub(super) fn input(self) -> TiledRowCopy {
        let vectors = self.columns / self.chunk;
        let Tile { rows, matrices, access, .. } = self;
        TiledRowCopy { threads: THREADS, rows, matrices, vectors, across: vectors, access }
    }

    /// Returns how threads store rows of the output, which are columns of the tile.
    pub(super) fn output(self) -> TiledRowCopy {
        let Tile { rows, columns, matrices, chunk, access, has_matrices } = self;
        let vectors = rows / chunk;
        // 8 threads store 128 bytes of a row, or more if the tile has few columns. With `ldmatrix`,
        // 4 threads share a row.
        let across = if has_matrices { 4 } else { 8.max(THREADS / (columns * matrices)) };
        let across = across.min(vectors);
        TiledRowCopy { threads: THREADS, rows: columns, matrices, vectors, across, access }
    }

    /// Returns the shared-memory layout: (line, column) to element.
    #[inline]
    pub(super) fn layout(self) -> Result<ComposedLayout, LayoutError> {
        let [lines, columns] = [self.rows * self.matrices, self.columns].map(i64::from);
        let elements = match self.has_matrices {
            // The 8 lines of a matrix are adjacent: 2 from each of the 4 chunks that adjacent
            // threads store.
            true => {
                let strides = [1, 8, 2, 32].map(|line| line * columns);
                let [a, b, c, d] = strides;
                layout!(((2, 4, 4, lines / 32), columns):((a, b, c, d), 1))
            }
            false => layout!((lines, columns):(columns, 1)),
        };
        ComposedLayout::new(self.swizzle(), 0, elements)
    }

    /// Returns the swizzle. Without it, neighbouring threads would load columns from the same
    /// banks.
    fn swizzle(self) -> Swizzle {
        let Tile { rows, columns, chunk, .. } = self;
        let (bits, base, source) = if self.has_matrices {
            // The line index modulo 8 is XORed into the chunk index; for short lines only its upper
            // bits.
            (3.min((columns / chunk).ilog2()), 3, columns.ilog2().max(6))
        } else {
            // A wavefront of a store's loads covers up to 8 row chunks, and as many columns as
            // there are banks left. The chunk index is XORed into the bits above those of the
            // columns, from `base` on.
            let bits = (rows / chunk).min(8).ilog2();
            let wavefront = (8 * chunk).min(32) >> bits;
            let (base, source) = (wavefront.max(chunk).ilog2(), (columns * chunk).ilog2());
            // The lowest bits of the index may already be there.
            let present = (base + bits).saturating_sub(source);
            (bits.saturating_sub(present), base, source + present)
        };
        let swizzle = Swizzle::new(bits.into(), base.into(), (source - base).into());
        swizzle.unwrap_or(Swizzle::identity())
    }

    /// Returns the elements of a thread's input vectors: (element, thread, vector) to (line,
    /// column).
    #[inline]
    pub(super) fn input_vectors(self) -> Layout {
        let [lines, chunk] = [self.rows * self.matrices, self.chunk].map(i64::from);
        let TiledRowCopy { across, .. } = self.input();
        let step = i64::from(THREADS / across);
        layout!((chunk, (i64::from(across), step), lines / step):(lines, (chunk * lines, 1), step))
    }

    /// Returns the elements of a thread's output vectors in the same way; with `ldmatrix`, those
    /// whose addresses the thread passes.
    #[inline]
    pub(super) fn output_vectors(self) -> Result<Layout, LayoutError> {
        let Tile { rows, columns, matrices, .. } = self;
        let [lines, chunk] = [rows * matrices, self.chunk].map(i64::from);
        let TiledRowCopy { across, vectors, .. } = self.output();
        let (step, more) = (i64::from(THREADS / across), i64::from(vectors / across));
        let [across, columns, rows] = [across, columns, rows].map(i64::from);
        let all = layout!((columns, i64::from(matrices)):(lines, rows));
        let later = all.composition(&layout!((columns * i64::from(matrices) / step):step))?;
        let vectors = Layout::concat([&layout!(more:(across * chunk)), &later])?;
        let (element, thread) = if self.has_matrices {
            let warps = all.composition(&layout!((step / 8):8))?;
            (layout!(8:lines), Layout::concat([&layout!((2, 4, 4):(1, 8, 2)), &warps])?)
        } else {
            let first = all.composition(&layout!(step))?;
            (layout!(chunk), Layout::concat([&layout!(across:chunk), &first])?)
        };
        Layout::concat([&element, &thread, &vectors])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Target;
    use crate::kernels::transpose::TransposeProblem;
    use crate::tensor::atom::{SmemAccess, SwizzleCandidate, choose_swizzle};

    /// The tile's swizzle is among those that `choose_swizzle` finds, and has no bank conflicts.
    #[test]
    fn the_swizzle_is_that_of_the_chooser() {
        let large = TransposeProblem::new(16384, 16384);
        for (elem, problem, swizzle) in [
            (Scalar::F32, large, "S<3,2,6>"),
            (Scalar::Bf16, large, "S<3,3,4>"),
            (Scalar::U8, large, "S<3,4,7>"),
            (Scalar::Bf16, TransposeProblem::new(16, 64).batched(999_999), "S<1,4,5>"),
            (Scalar::Bf16, TransposeProblem::new(16, 16).batched(999_999), "S<1,4,3>"),
            (Scalar::Bf16, TransposeProblem::new(64, 16).batched(999_999), "S<3,3,4>"),
            (Scalar::Bf16, TransposeProblem::new(64, 32).batched(999_999), "S<2,3,3>"),
            (Scalar::F32, TransposeProblem::new(32, 64).batched(999_999), "S<3,2,6>"),
            (Scalar::F32, TransposeProblem::new(99, 8).batched(999_999), "S<3,2,4>"),
        ] {
            let config = TransposeConfig::new(Target::SM_90, elem, &problem);
            let tile = Tile::of(&config, elem);
            assert_eq!(tile.swizzle().to_string(), swizzle, "of {elem} {config}");
            let layout = tile.layout().unwrap();
            let elements = layout.outer_layout().unwrap();
            let of_warp = |vectors: &Layout| {
                let threads = vectors.get(&[1]).unwrap();
                threads.composition(&layout!(32)).unwrap()
            };
            let store = of_warp(&tile.input_vectors());
            let load = of_warp(&tile.output_vectors().unwrap());
            let at_once = if tile.has_matrices { 8 } else { 1 };
            let accesses = [
                SmemAccess::new("store", store, tile.chunk),
                SmemAccess::new("load", load, at_once),
            ];
            let choice = choose_swizzle(elements, elem, &accesses).unwrap();
            let is_ours = |found: &&SwizzleCandidate| found.swizzle() == tile.swizzle();
            let found = choice.candidates().iter().find(is_ours);
            assert!(found.is_some_and(SwizzleCandidate::is_free), "{config}: {choice}");
        }
    }
}
