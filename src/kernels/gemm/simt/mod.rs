//! The kernel without tensor cores, for every target: accumulators of `f32` by `fma`, in the order of K.
//!
//! Tiles of A and B are in a ring in shared memory, copied some tiles ahead ([`PaddedTile`]). A thread has runs of 4 rows
//! and of 4 columns, far from each other in the tile, and reads them in vectors, one step along K ahead of the products,
//! also from one tile to the next: so there are products to do on both sides of a barrier.

pub(crate) mod padded_tile;

use crate::ir::builder::DeviceCoord;
use crate::ir::types::Scalar;
use crate::ir::{Body, Kernel, Registers, Shared, Val, Vector, range};
use crate::runtime::Declared;
use crate::tensor::{CpAsyncPipeline, CpAsyncState, wait_for_launch};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::{GemmConfig, SM_REGISTERS};
use crate::kernels::gemm::elements::Sum;
use crate::kernels::gemm::epilogue::direct_store::DirectStore;
use crate::kernels::gemm::epilogue::{EpilogueForm, EpilogueRef};
use crate::kernels::gemm::simt::padded_tile::PaddedTile;
use crate::kernels::gemm::sm80::arguments::{
    self, ThreadsBody, count, matrix, of_d, threads_of_block,
};
use crate::kernels::gemm::split::parts::Parts;

/// Rows and columns of a thread that follow each other.
const RUN: u32 = 4;
/// Steps along K between copies. All at once they would hold up the loads of operands, which take the same way; one after
/// the other, each would cost what the compiler puts between loads of shared memory and copies.
const EVERY: u32 = 4;

/// Builds the kernel.
#[inline]
pub(crate) fn build(
    config: &GemmConfig,
    form: &dyn EpilogueForm,
) -> Result<Kernel<Declared>, GemmError> {
    let GemmConfig { tile: [m, n, _], .. } = *config;
    let threads = config.threads();
    let [high, wide] = config.thread_tile();
    // A thread with 64 accumulators does with 168 registers, and with 128 in a square tile of 256 threads; there are
    // two blocks then. With 32 it does with 128. With more accumulators, with elements that wait in registers, or where a single warp makes all copies, it
    // has all that there are.
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
    // 8 lines of 4 elements are in all banks. With few rows the copies take longer than the products, and longer requests
    // outweigh a second access to the banks.
    let along = if m < 16 { 16 } else { 8 };
    let tile_a = PaddedTile { extent: m, depth, threads, major: config.major_a, along };
    let tile_b = PaddedTile { extent: n, depth, threads, major: config.major_b, along };
    // A stage is a tile of A, then one of B.
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
        let parts = Parts::new(k, &config, (extents, (None, None)), all_steps, None);
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
            // Of a part that is not the first one, nothing is missing.
            let missing = (all_steps - part.first) * depth - depths;
            let copy_a =
                tile_a.slice(k, matrix(args.a, args.a_strides, tile), [row, rows], missing, sa);
            let copy_b = tile_b.slice(
                k,
                matrix(args.b, args.b_strides, tile),
                [column, columns],
                missing,
                sb,
            );
            let accumulators = k.registers::<Sum>(high * wide).named(k, "accumulators");
            accumulators.fill(k, Sum::default());
            let [down, across] = first_element(k, &config).map(|i| (i * RUN).cvt::<i32>());
            let (read_a, read_b) = (sa.offset(down), sb.offset(across));
            let operands = [0, 1].map(|_| (k.registers(high), k.registers(wide)));
            // The operands of a step of a stage, alternating between even and odd steps.
            let load = |k: &Body<'_, '_>, stage: Val<'_, i32>, step: u32| {
                let (x, y) = &operands[step as usize % 2];
                load_line(k, read_a.offset(stage), tile_a, step, x);
                load_line(k, read_b.offset(stage), tile_b, step, y);
            };
            wait_for_launch(k, config.programmatic, [copy_a.address(k), copy_b.address(k)]);
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
                        // The last operands of this stage are in registers, so it may be overwritten.
                        copy_a.finish(k, write);
                        copy_b.finish(k, write);
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
                    multiply(k, &accumulators, x, y);
                }
                CpAsyncState { read: next, write: pipe.after(write) }
            });
            parts.leave(k, pipe);
            let origin = [row, of_d(&config, column)];
            let store = DirectStore::new(args.d, args.d_strides, tile, origin, limits);
            let store = store.pairs(config.pairs);
            let first = DeviceCoord::from((down, across));
            let threads = (threads_of_block(k, &config), &accumulators);
            parts.sum(k, split, part, threads, |k| {
                let epilogue = epilogue.reduce(k, &accumulators, tile, |k| store.first(k, &first));
                store.all(k, &accumulators, &first, &offsets, epilogue);
            });
        });
        epilogue.finish(k);
    }))
}

/// The row and the column of the thread among the threads of the tile.
///
/// A warp is 4 x 8 threads, 8 x 4 in tiles with fewer than 8 beside each other, and 1 x 32 in tiles of 4 rows. Of lanes whose numbers differ in bit 0 alone, and of
/// lanes that differ in bit 1 alone, ones are below each other and the others beside each other: then shared memory
/// gives a vector to half a warp at a time, though it has but 64 or 128 bytes for all of it.
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

/// Loads a thread's elements of line `step` of the stage whose first element for it is at `from`.
#[inline]
fn load_line(
    k: &Body<'_, '_>,
    from: Val<'_, Shared<f32>>,
    tile: PaddedTile,
    step: u32,
    to: &Registers<'_, f32>,
) {
    let runs = to.len() / RUN;
    for run in 0..runs {
        let at = step * tile.pitch() + run * (tile.extent / runs);
        let four: Val<'_, Vector<f32, 4>> = from.load_vector(k, at);
        for (i, x) in (run * RUN..).zip(four.lanes()) {
            to.set(k, i, x);
        }
    }
}

/// `accumulators += x yᵀ`, row by row and back, so that products after each other share an operand.
#[inline]
fn multiply(
    k: &Body<'_, '_>,
    accumulators: &Registers<'_, Sum>,
    x: &Registers<'_, f32>,
    y: &Registers<'_, f32>,
) {
    let wide = y.len();
    for i in 0..x.len() {
        for j in 0..wide {
            let j = if i % 2 == 0 { j } else { wide - 1 - j };
            let at = wide * i + j;
            let [x, y] = [x.get(k, i), y.get(k, j)].map(|value| value.cvt::<Sum>());
            accumulators.set(k, at, x.fma(y, accumulators.get(k, at)));
        }
    }
}
