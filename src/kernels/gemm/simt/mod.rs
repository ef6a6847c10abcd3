//! The kernel without tensor cores, for every target: `f32` FMAs, in the order of K. Tensor cores
//! would round `f32` inputs to `tf32`, so GEMMs in full `f32` precision run here.
//!
//! All threads of a block first prefetch the first tiles of A and B into a ring buffer in shared
//! memory ([`PaddedTile`]). Then, for each tile along K, each thread loads its rows of A and
//! columns of B from shared memory, multiplies them, and in between starts copies of a later tile.
//! Finally it applies the epilogue and stores its elements.
//!
//! A thread has runs of 4 rows and 4 columns, spread over the tile, and reads them as vectors. It
//! reads one step along K ahead of the FMAs, also from one tile to the next, so that there are FMAs
//! to do on both sides of a barrier.

pub(crate) mod padded_tile;

use crate::ir::builder::DeviceCoord;
use crate::ir::types::Scalar;
use crate::ir::{Body, Kernel, Registers, Shared, Untyped, Val, Vector, range};
use crate::tensor::pipeline::{CpAsyncPipeline, CpAsyncState, wait_for_launch};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::{GemmConfig, SM_REGISTERS};
use crate::kernels::gemm::elements::Sum;
use crate::kernels::gemm::epilogue::direct_store::DirectStore;
use crate::kernels::gemm::epilogue::{EpilogueForm, EpilogueRef};
use crate::kernels::gemm::simt::padded_tile::PaddedTile;
use crate::kernels::gemm::sm80::arguments::{
    self, Matrix, ThreadsBody, count, of_d, threads_of_block,
};
use crate::kernels::gemm::split::work_tiles::WorkTiles;

/// Adjacent rows, and adjacent columns, per thread.
const RUN: u32 = 4;
/// Steps along K between copies. If a thread issued all its copies at once, they would hold up the
/// loads of operands, which use the same path. If it issued one per step, each would cost the
/// instructions that `ptxas` puts between shared-memory loads and copies.
const EVERY: u32 = 4;

/// Builds the kernel.
#[inline]
pub(crate) fn build(
    config: &GemmConfig,
    form: &dyn EpilogueForm,
) -> Result<Kernel<Untyped>, GemmError> {
    let GemmConfig { tile: [m, n, _], .. } = *config;
    let threads = config.threads();
    let [high, wide] = config.thread_tile();
    // A thread with 64 accumulators needs 168 registers, or 128 in a square tile with 256 threads,
    // so that two blocks share an SM. With 32 accumulators, 128 are enough. With more accumulators,
    // with converted elements waiting in registers, or with a single warp that makes all copies, a
    // thread gets all there are.
    let blocks = match (config.a, [m, n]) {
        (Scalar::F32, [128, 128]) if !config.splits.is_split() => 2,
        (Scalar::F32, _) if high * wide == 64 && threads > 32 => {
            (SM_REGISTERS / (168 * threads)).max(1)
        }
        (Scalar::F32, _) if high * wide == 32 => (SM_REGISTERS / (128 * threads)).max(1),
        _ => 1,
    };
    arguments::build(config, form, blocks, &*body(*config)?)
}

#[inline]
fn body(config: GemmConfig) -> Result<Box<ThreadsBody>, GemmError> {
    let GemmConfig { tile: [m, n, depth], stages, .. } = config;
    let threads = config.threads();
    let [high, wide] = config.thread_tile();
    // 8 lines of 4 elements cover all banks. With few rows, copies take longer than FMAs, and then
    // longer requests are worth a second access to the banks.
    let along = if m < 16 { 16 } else { 8 };
    let tile_a = PaddedTile { extent: m, depth, threads, major: config.major_a, along };
    let tile_b = PaddedTile { extent: n, depth, threads, major: config.major_b, along };
    // A stage is a tile of A, then a tile of B.
    let elements = tile_a.elements() + tile_b.elements();
    let pipe = CpAsyncPipeline::new(stages, elements)?;
    // The offsets of a thread's accumulators.
    let far = |i: u32, run: u32, extent: u32| i % RUN + i / RUN * (extent / (run / RUN));
    let offsets: Vec<[i32; 2]> = (0..high * wide)
        .map(|i| [far(i / wide, high, m), far(i % wide, wide, n)].map(|i| i as i32))
        .collect();
    Ok(Box::new(move |k, args, epilogue, split| {
        let (rows, columns, depths) = (args.m, args.n, args.k);
        let extents = [count(rows, m), count(columns, n), args.batch];
        let all_steps = count(depths, depth);
        let parts = WorkTiles::new(k, &config, extents, (None, None), all_steps, None);
        if config.programmatic {
            k.griddepcontrol_launch_dependents();
        }
        let sa = k.shared_aligned::<f32>(stages * elements, 16);
        let sb = sa.offset(tile_a.elements());
        let limits = [rows, of_d(&config, columns)];
        let extents = [limits[0], limits[1], args.batch];
        let epilogue = EpilogueRef::new(&config, &offsets, extents, epilogue);
        parts.for_each_of_block(k, |k, part| {
            let (tile, steps) = (part.tile, part.steps());
            let (row, column) = (tile.row * m, tile.column * n);
            // How many steps the first tile lacks. Only a tile's first part lacks any.
            let missing = (all_steps - part.first) * depth - depths;
            let a = Matrix::of_tile(args.a, args.a_strides, tile);
            let b = Matrix::of_tile(args.b, args.b_strides, tile);
            let copy_a = tile_a.slice(k, a, [row, rows], missing, sa);
            let copy_b = tile_b.slice(k, b, [column, columns], missing, sb);
            let accumulators = k.registers::<Sum>(high * wide).named("accumulators");
            accumulators.fill(Sum::default());
            let [down, across] = first_element(k, &config).map(|i| (i * RUN).cvt::<i32>());
            let (read_a, read_b) = (sa.offset(down), sb.offset(across));
            let operands = [0, 1].map(|_| (k.registers(high), k.registers(wide)));
            // The operands of a step. Even and odd steps use different registers.
            let load = |_: &Body<'_, '_>, stage: Val<'_, i32>, step: u32| {
                let (x, y) = &operands[step as usize % 2];
                load_line(read_a.offset(stage), tile_a, step, x);
                load_line(read_b.offset(stage), tile_b, step, y);
            };
            wait_for_launch(k, config.programmatic, [copy_a.address(), copy_b.address()]);
            pipe.fill(k, |k, step, stage| {
                let exists = steps.gt(step);
                copy_a.tile(k, stage, exists, step == 0);
                copy_b.tile(k, stage, exists, step == 0);
            });
            load(k, k.constant(0), 0);
            let start = pipe.start(k);
            k.for_(range(0, steps), start, |k, step, CpAsyncState { read, write }| {
                let next = pipe.after(read);
                let exists = (step + pipe.ahead()).lt(steps);
                let mut ahead_a = copy_a.start(k, write, exists);
                let mut ahead_b = copy_b.start(k, write, exists);
                for step in 0..depth {
                    if step + 1 < depth {
                        load(k, read, step + 1);
                    } else {
                        // This stage's last operands are in registers, so it may be overwritten.
                        copy_a.finish(write);
                        copy_b.finish(write);
                        pipe.wait(k);
                        load(k, next, 0);
                    }
                    if step % EVERY == 0 {
                        let times = (depth - step) / EVERY;
                        let left = ahead_a.remaining() + ahead_b.remaining();
                        for _ in 0..left.div_ceil(times) {
                            let _ = ahead_a.copy(k) || ahead_b.copy(k);
                        }
                        if times == 1 {
                            pipe.commit(k);
                        }
                    }
                    let (x, y) = &operands[step as usize % 2];
                    multiply(&accumulators, x, y);
                }
                CpAsyncState { read: next, write: pipe.after(write) }
            });
            parts.leave(k, pipe);
            let origin = [row, of_d(&config, column)];
            let store = DirectStore::new(args.d, args.d_strides, tile, origin, limits);
            let store = store.pairs(config.pairs);
            let first = DeviceCoord::from((down, across));
            let threads = threads_of_block(k, &config);
            parts.sum(k, split, part, threads, &accumulators, |k| {
                let epilogue = epilogue.reduce(k, &accumulators, tile, |k| store.first(k, &first));
                store.all(k, &accumulators, &first, &offsets, epilogue);
            });
        });
        epilogue.finish(k);
    }))
}

/// Returns a thread's row and column among the threads of the tile.
///
/// A warp is 4 x 8 threads, 8 x 4 in tiles that are less than 8 threads wide, and 1 x 32 in tiles
/// with 4 rows. Lanes that differ only in bit 0 are in the same column, and lanes that differ only
/// in bit 1 in the same row, or the other way round. Shared memory then serves half a warp's
/// vectors at a time, although a whole warp reads only 64 or 128 different bytes.
#[inline]
fn first_element<'b>(k: &Body<'b, '_>, config: &GemmConfig) -> [Val<'b, u32>; 2] {
    let lane = k.thread_idx().x.cvt::<u32>() % 32;
    let (of_4, of_8) = (lane % 2 + lane / 16 * 2, lane / 2 % 8);
    let lanes @ [high, wide] = config.lanes_of_warp();
    let [down, across] = match lanes {
        [1, _] => [lane.constant(0), lane],
        [4, _] => [of_4, of_8],
        _ => [of_8, of_4],
    };
    let [above, left] = config.warp(k);
    [down + above * high, across + left * wide]
}

/// Loads a thread's elements of line `step` in a stage. `from` is the thread's first element there.
#[inline]
fn load_line(from: Val<'_, Shared<f32>>, tile: PaddedTile, step: u32, to: &Registers<'_, f32>) {
    let runs = to.len() / RUN;
    for run in 0..runs {
        let at = step * tile.pitch() + run * (tile.extent / runs);
        let four: Val<'_, Vector<f32, 4>> = from.load_vector(at);
        for (i, x) in (run * RUN..).zip(four.lanes()) {
            to.set(i, x);
        }
    }
}

/// Computes `accumulators += x yᵀ`. Goes through the rows back and forth, so that consecutive FMAs
/// share an operand.
#[inline]
fn multiply(accumulators: &Registers<'_, Sum>, x: &Registers<'_, f32>, y: &Registers<'_, f32>) {
    let wide = y.len();
    for i in 0..x.len() {
        for j in 0..wide {
            let j = if i % 2 == 0 { j } else { wide - 1 - j };
            let at = wide * i + j;
            let [x, y] = [x.get(i), y.get(j)].map(|value| value.cvt::<Sum>());
            accumulators.set(at, x.fma(y, accumulators.get(at)));
        }
    }
}
