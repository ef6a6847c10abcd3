//! The multistage GEMM of Ampere, written with the builder alone: `C[M,N] = A[M,K] B[N,K]^T`, row-major `bf16`,
//! sums in `f32`.
//!
//! All threads of a block copy tiles of A and B to a ring in shared memory by `cp.async`, some tiles ahead of the
//! products; each warp reads its parts by `ldmatrix` from rows in the swizzle of 128 bytes, one step of 16 ahead,
//! and multiplies them by `mma.sync`. K and N are multiples of 8; rows and columns outside are zeros.

use tilewright::ir::{
    Body, BuildErrors, CpAsyncCache, Global, GlobalMut, Kernel, KernelOptions, Registers, Shared,
    Target, Val, Vector, bf16, range,
};
use tilewright::layout::Layout;
use tilewright::runtime::Grid;

/// A, B, C and the extents M, N, K.
pub(crate) type Gemm = (Global<bf16>, Global<bf16>, GlobalMut<bf16>, i32, i32, i32);

/// Elements along K of a tile: 128 bytes.
const BK: i32 = 64;
/// Rows and columns of a warp's part of a tile.
const WARP: i32 = 64;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) target: Target,
    /// Rows and columns of a tile of C: multiples of 64, not both 64.
    pub(crate) bm: i32,
    pub(crate) bn: i32,
    /// Tiles of A and B in shared memory.
    pub(crate) stages: i32,
    /// Row tiles of a strip, which is walked column by column.
    pub(crate) strip: i32,
}

impl Config {
    fn threads(&self) -> i32 {
        self.bm / WARP * (self.bn / WARP) * 32
    }

    /// The grid for a problem.
    pub(crate) fn grid(&self, [m, n, _]: [u32; 3]) -> Grid {
        let blocks = m.div_ceil(self.bm as u32) * n.div_ceil(self.bn as u32);
        Grid::new([blocks, 1, 1], [self.threads() as u32, 1, 1])
    }
}

/// A tile that the threads of a block copy, 16 bytes each at a time.
struct Copy<'b> {
    /// The thread's first 16 bytes of the first tile in global memory, and the distance of its rows there.
    from: Val<'b, Global<bf16>>,
    pitch: Val<'b, i64>,
    /// The thread's first row of the tile that is there or not, and the rows that there are.
    row: Val<'b, i32>,
    rows: Val<'b, i32>,
    /// The thread's columns.
    column: Val<'b, i32>,
    /// Its place in the first stage, and the elements of a stage.
    to: Val<'b, Shared<bf16>>,
    stage: i32,
    /// How far apart the thread's rows are, and how many it has.
    step: i32,
    count: i32,
}

/// Element `column` of row `row` of a tile: row-major, 8 columns at a time xored with the row.
fn swizzled<'b>(k: &Body<'b, '_>, row: Val<'b, i32>, unit: Val<'b, i32>) -> Val<'b, i32> {
    k.crd2idx::<i32>((row, 0), &Layout::row_major((1 << 16, i64::from(BK))))
        + (unit ^ (row & 7)) * 8
}

impl<'b> Copy<'b> {
    fn new(
        k: &Body<'b, '_>,
        from: Val<'b, Global<bf16>>,
        to: Val<'b, Shared<bf16>>,
        [first, rows, depth]: [Val<'b, i32>; 3],
        [extent, threads]: [i32; 2],
    ) -> Copy<'b> {
        let t = k.thread_idx().x.cvt::<u32>();
        let (row, unit) = ((t / 8).cvt::<i32>(), (t % 8).cvt::<i32>());
        let step = threads / 8;
        let start = (first + row).cvt::<i64>() * depth.cvt::<i64>() + (unit * 8).cvt::<i64>();
        Copy {
            from: from.offset(start),
            pitch: depth.cvt::<i64>() * i64::from(step),
            row: first + row,
            rows,
            column: unit * 8,
            to: to.offset(swizzled(k, row, unit)),
            stage: extent * BK,
            step,
            count: extent / step,
        }
    }

    /// Starts the copy of the tile at `depth` along K, where there is one, to a stage.
    fn start(&self, k: &Body<'b, '_>, [stage, depth, end]: [Val<'b, i32>; 3]) {
        let to = self.to.offset(stage * self.stage);
        let from = self.from.offset(depth);
        let inside = (depth + self.column).lt(end);
        for i in 0..self.count {
            let there = inside & (self.row + i * self.step).lt(self.rows);
            let bytes = there.select(k.constant(16), k.constant(0));
            // The step between rows is a multiple of 8, so the swizzle is the same in all of them.
            let to = to.offset(i * self.step * BK);
            let from = from.offset(self.pitch * i64::from(i));
            k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, bytes);
        }
    }
}

/// A warp's part of a tile in shared memory, 16 rows at a time.
#[derive(Clone, Copy)]
struct Rows<'b> {
    tile: Val<'b, Shared<bf16>>,
    /// The row and the 8 columns that the lane gives to `ldmatrix`.
    row: Val<'b, i32>,
    unit: Val<'b, i32>,
    stage: i32,
}

impl<'b> Rows<'b> {
    /// 16 rows of 16 columns: of rows 16 `block` .. and of columns 16 `step` .. .
    fn load(
        &self,
        k: &Body<'b, '_>,
        stage: Val<'b, i32>,
        block: i32,
        step: i32,
    ) -> Val<'b, Vector<bf16, 8>> {
        let tile = self.tile.offset(stage * self.stage + block * 16 * BK);
        tile.ldmatrix(k, swizzled(k, self.row, self.unit + 2 * step))
    }
}

/// Builds the kernel.
pub(crate) fn gemm(config: Config) -> Result<Kernel<Gemm>, BuildErrors> {
    let Config { target, bm, bn, stages, strip } = config;
    let threads = config.threads();
    let options = KernelOptions::default().block([threads as u32, 1, 1]).min_blocks_per_sm(1);
    Kernel::<Gemm>::build_with(options, "gemm_sm80", target, |k, (a, b, c, m, n, depth)| {
        let sa = k.shared_aligned::<bf16>((stages * bm * BK) as usize, 128);
        let sb = k.shared_aligned::<bf16>((stages * bn * BK) as usize, 128);
        let [row0, column0] = place(k, [m, n], [bm, bn, strip]);
        let copies = [
            Copy::new(k, a, sa, [row0, m, depth], [bm, threads]),
            Copy::new(k, b, sb, [column0, n, depth], [bn, threads]),
        ];
        // The lanes of a warp give the rows of four 8x8 matrices: for A those of 16 rows and of 8 columns, then of
        // the next 8 columns; for B the columns come first, as the registers of B do.
        let t = k.thread_idx().x.cvt::<u32>();
        let (lane, warp) = ((t % 32).cvt::<i32>(), (t / 32).cvt::<i32>());
        let (warp_row, warp_column) = (warp % (bm / WARP) * WARP, warp / (bm / WARP) * WARP);
        let rows_a =
            Rows { tile: sa, row: warp_row + (lane & 15), unit: lane >> 4, stage: bm * BK };
        let rows_b = Rows {
            tile: sb,
            row: warp_column + ((lane & 7) + (lane >> 4) * 8),
            unit: (lane >> 3) & 1,
            stage: bn * BK,
        };
        let acc = k.registers::<f32>(128).named(k, "acc");
        acc.fill(k, 0.0);
        let blocks = (depth + (BK - 1)) / BK;
        for stage in 0..stages - 1 {
            copies.iter().for_each(|copy| {
                copy.start(k, [k.constant(stage), k.constant(stage * BK), depth]);
            });
            k.cp_async_commit_group();
        }
        let init = (k.constant(0), k.constant(stages - 1));
        k.for_(range(0, blocks), init, |k, block, (read, write)| {
            k.cp_async_wait_group(stages as u32 - 2);
            k.barrier();
            let ahead = (block + (stages - 1)) * BK;
            copies.iter().for_each(|copy| copy.start(k, [write, ahead, depth]));
            k.cp_async_commit_group();
            multiply(k, &acc, [rows_a, rows_b], read);
            let next = [read, write].map(|stage| (stage + 1).eq(stages).select(0, stage + 1));
            (next[0], next[1])
        });
        store(k, c, &acc, [row0 + warp_row, column0 + warp_column], [m, n], lane);
    })
}

/// The first row and column of the block's tile.
fn place<'b>(
    k: &Body<'b, '_>,
    extents: [Val<'b, i32>; 2],
    [bm, bn, strip]: [i32; 3],
) -> [Val<'b, i32>; 2] {
    let [rows, columns] = [(extents[0] + (bm - 1)) / bm, (extents[1] + (bn - 1)) / bn];
    let tile = k.block_idx().x;
    let width = columns * strip;
    let first = tile / width * strip;
    let inside = tile % width;
    let height = (rows - first).min(strip);
    [(first + inside % height) * bm, inside / height * bn]
}

/// `acc += A B^T` of the warp's parts of one stage.
fn multiply<'b>(
    k: &Body<'b, '_>,
    acc: &Registers<'_, f32>,
    [a, b]: [Rows<'b>; 2],
    stage: Val<'b, i32>,
) {
    let load = |step: i32| {
        let of = |rows: Rows<'b>| [0, 1, 2, 3].map(|block| rows.load(k, stage, block, step));
        (of(a), of(b))
    };
    let mut fragments = load(0);
    for step in 0..BK / 16 {
        let (a, b) = fragments;
        if step + 1 < BK / 16 {
            fragments = load(step + 1);
        }
        for (i, b) in b.into_iter().enumerate() {
            let [w, x, y, z] = b.bitcast::<Vector<u32, 4>>().lanes();
            for (half, words) in [[w, x], [y, z]].into_iter().enumerate() {
                let b = Val::pack(words).bitcast::<Vector<bf16, 4>>();
                for (block, a) in a.into_iter().enumerate() {
                    let first = 4 * (8 * block + 2 * i + half);
                    k.mma_sync(&acc.part(first, 4), a, b);
                }
            }
        }
    }
}

/// Writes the warp's part of C, two columns at a time.
fn store<'b>(
    k: &mut Body<'b, '_>,
    c: Val<'b, GlobalMut<bf16>>,
    acc: &Registers<'b, f32>,
    [row0, column0]: [Val<'b, i32>; 2],
    [m, n]: [Val<'b, i32>; 2],
    lane: Val<'b, i32>,
) {
    let (row0, column0) = (row0 + (lane >> 2), column0 + (lane & 3) * 2);
    for block in 0..8 {
        let row = row0 + block * 8;
        k.if_(row.lt(m), |k| {
            let line = c.offset(row.cvt::<i64>() * n.cvt::<i64>());
            for columns in 0..8 {
                let column = column0 + columns * 8;
                let first = (4 * (8 * (block / 2) + columns) + 2 * (block % 2)) as usize;
                k.if_(column.lt(n), |k| {
                    let two: Val<'_, Vector<f32, 2>> =
                        Val::pack([acc.get(k, first), acc.get(k, first + 1)]);
                    line.store_vector(k, column, two.cvt::<bf16>());
                });
            }
        });
    }
}
