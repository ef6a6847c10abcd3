//! Builds a GEMM for Hopper and a kernel of plain loops without one cast of a count.
//!
//! Counts of the host are `u32`. `tests/hygiene.rs` checks that this file has no cast between
//! integers.

use std::error::Error;

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Global, GlobalMut, Kernel, KernelOptions, Target, TensorMap, TensorMapMut, bf16, range,
};
use tilewright::layout::{Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::{StagedStore, TmaCopy};
use tilewright::tensor::mma::WgmmaMainloop;
use tilewright::tensor::pipeline::{TmaPipeline, WarpRole, warp_roles};
use tilewright::tensor::view::SharedTensor;

/// A small whole number: sums of products of them are exact.
fn number(i: u32) -> f32 {
    u16::try_from(i % 7).map_or(0.0, f32::from) - 3.0
}

/// `sum_k a(row, k) b(column, k)` of `M x K` and `N x K` matrices of [`number`]s, row by row.
fn product([m, n, k]: [u32; 3]) -> Vec<f32> {
    let element =
        |row, column| (0..k).map(|i| number(row * k + i) * number(column * k + i + 3)).sum();
    (0..m)
        .flat_map(|row| (0..n).map(move |column| (row, column)))
        .map(|(r, c)| element(r, c))
        .collect()
}

/// The shape of a kernel for Hopper: tile, stages, warp groups that multiply, columns of one store.
struct Hopper {
    tile: [u32; 3],
    stages: u32,
    consumers: u32,
    store_columns: u32,
}

impl Hopper {
    /// Threads of a block: one warp group fetches.
    fn threads(&self) -> u32 {
        (1 + self.consumers) * WarpRole::THREADS
    }
}

/// The maps of A, B and D, and the steps along K.
type HopperParams = (TensorMap<bf16, 2>, TensorMap<bf16, 2>, TensorMapMut<bf16, 3>, i32);

/// One tile of D a block; the copies of a tile of A and of B, and the store of D.
type Built = (Kernel<HopperParams>, [TmaCopy; 2], StagedStore);

fn hopper(config: &Hopper) -> Result<Built, Box<dyn Error>> {
    let Hopper { tile: [m, n, depth], stages, consumers, store_columns } = *config;
    let op = Wgmma::new(n, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((consumers, 1, 1)), tiler!(_, _, _))?;
    assert_eq!(mma.size()?, consumers * WarpRole::THREADS);
    let lines = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
    let copy_a = TmaCopy::new(Scalar::Bf16, &lines.tile_to_shape(&shape!(m, depth), None)?)?;
    let copy_b = TmaCopy::new(Scalar::Bf16, &lines.tile_to_shape(&shape!(n, depth), None)?)?;
    let ring_a = lines.tile_to_shape(&shape!(m, depth, stages), None)?;
    let ring_b = lines.tile_to_shape(&shape!(n, depth, stages), None)?;
    let store = StagedStore::new(Scalar::Bf16, store_columns, 2)?;
    let options = KernelOptions::default().block([config.threads(), 1, 1]).min_blocks_per_sm(1);
    let kernel = Kernel::build_with(options, "user", Target::SM_90A, |k, (a, b, d, steps)| {
        let sa = SharedTensor::<bf16>::shared_aligned(k, ring_a.clone(), 1024);
        let sb = SharedTensor::<bf16>::shared_aligned(k, ring_b.clone(), 1024);
        let staging = k.shared_aligned::<bf16>(consumers * store.elements(), 1024);
        let pipe = TmaPipeline::new(k, stages, copy_a.bytes() + copy_b.bytes(), consumers);
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let (row, column) = (block.x * m, block.y * n);
        pipe.init(thread.eq(0));
        k.barrier();
        let roles = WarpRole::producers_and_consumers([1, consumers], Some([40, 232]));
        warp_roles(k, &roles, 65536 / config.threads() / 8 * 8, |k, role, group| {
            if role == 0 {
                return k.if_(thread.eq(0), |k| {
                    k.for_(range(0, steps), pipe.producer(), |_, step, state| {
                        let (full, at) = (pipe.acquire(state), step * depth);
                        copy_a.load(a, (row, at), &sa.slice((.., .., state.stage)), full);
                        copy_b.load(b, (column, at), &sb.slice((.., .., state.stage)), full);
                        state.next()
                    });
                });
            }
            let products = WgmmaMainloop::new(k, &mma, pipe, thread - WarpRole::THREADS, &sa, &sb);
            let acc = mma.slice(0).fragment_c::<f32>(k, shape!(m, n));
            let state = products.run(&acc, pipe.consumer(), steps);
            products.finish(state);
            let to = staging.offset(group * store.elements());
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), WarpRole::THREADS).aligned();
            let store = store.slice(k, d, to, thread % WarpRole::THREADS, barrier);
            let origin = [row + group * 64, column, k.constant(0)];
            let blocks = m / (64 * consumers);
            store.tile(&acc, origin, [blocks, 64 * consumers, n], &());
            store.finish();
        });
    })?;
    Ok((kernel, [copy_a, copy_b], store))
}

#[test]
fn a_gemm_for_hopper_needs_no_cast() -> Result<(), Box<dyn Error>> {
    let config = Hopper { tile: [128, 64, 64], stages: 3, consumers: 2, store_columns: 64 };
    let ([m, n, k], [tile_m, tile_n, tile_k]) = ([256, 128, 192], config.tile);
    let (kernel, [copy_a, copy_b], store) = hopper(&config)?;
    let device = Device::sim()?;
    let matrix = |len: u32, shift: u32| {
        let elements: Vec<bf16> = (0..len).map(|i| bf16::from_f32(number(i + shift))).collect();
        device.upload(&elements)
    };
    let (a, b, mut d) = (matrix(m * k, 0)?, matrix(n * k, 3)?, matrix(m * n, 0)?);
    let map_a = copy_a.desc(&Layout::row_major((m, k)))?;
    let map_b = copy_b.desc(&Layout::row_major((n, k)))?;
    let map_d = store.desc(&layout!((m, n, 1) : (n, 1, 0)))?;
    let grid = Grid::new([m / tile_m, n / tile_n, 1], [config.threads(), 1, 1]);
    let (maps, steps) =
        ((a.tensor_map(&map_a)?, b.tensor_map(&map_b)?), i32::try_from(k / tile_k)?);
    let args = (&maps.0, &maps.1, &mut d.tensor_map_mut(&map_d)?, steps);
    device.load(&kernel)?.launch(grid, args)?;
    let expected = product([m, n, k]).into_iter().map(bf16::from_f32);
    assert!(d.to_vec()?.into_iter().eq(expected));
    Ok(())
}

/// Threads of a block along each mode of a tile, the elements of each thread, and the depth of a
/// step.
const ACROSS: u32 = 16;
const EACH: u32 = 2;
const DEPTH: u32 = 8;

#[test]
fn a_kernel_of_plain_loops_needs_no_cast() -> Result<(), Box<dyn Error>> {
    const TILE: u32 = ACROSS * EACH;
    const THREADS: u32 = ACROSS * ACROSS;
    type Params = (Global<f32>, Global<f32>, GlobalMut<f32>, i32, i32);
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let kernel =
        Kernel::<Params>::build_with(options, "plain", Target::SM_80, |k, (a, b, d, n, depth)| {
            let (thread, block) = (k.thread_idx().x, k.block_idx());
            // The tiles of A and B, k by k; a pad keeps the stores free of conflicts.
            let tiles = k.shared_aligned::<f32>(2 * DEPTH * (TILE + 4), 16);
            let sums = k.registers::<f32>(EACH * EACH).named("sums");
            sums.fill(0.0);
            let (down, right) = (thread / ACROSS, thread % ACROSS);
            k.for_(range(0, depth).step(DEPTH), (), |k, step, ()| {
                for (which, (from, first)) in (0..).zip([(a, block.x * TILE), (b, block.y * TILE)])
                {
                    for part in 0..TILE * DEPTH / THREADS {
                        let at = thread + part * THREADS;
                        let (line, along) = (at / DEPTH, at % DEPTH);
                        let element = from.load((first + line) * depth + step + along);
                        tiles
                            .store(along * (TILE + 4) + line + which * DEPTH * (TILE + 4), element);
                    }
                }
                k.barrier();
                k.for_(range(0, DEPTH), (), |k, i, ()| {
                    let lines = [tiles, tiles.offset(DEPTH * (TILE + 4))];
                    let [x, y] = [(lines[0], down), (lines[1], right)].map(|(line, place)| {
                        let held = k.registers::<f32>(EACH);
                        for j in 0..EACH {
                            held.set(j, line.load(i * (TILE + 4) + place * EACH + j));
                        }
                        held
                    });
                    for (i, j) in (0..EACH).flat_map(|i| (0..EACH).map(move |j| (i, j))) {
                        let sum = sums.get(i * EACH + j);
                        sums.set(i * EACH + j, x.get(i).fma(y.get(j), sum));
                    }
                });
                k.barrier();
            });
            let row = block.x * TILE + down * EACH;
            let column = block.y * TILE + right * EACH;
            for (i, j) in (0..EACH).flat_map(|i| (0..EACH).map(move |j| (i, j))) {
                d.store((row + i) * n + column + j, sums.get(i * EACH + j));
            }
        })?;
    let device = Device::sim()?;
    let [m, n, k] = [2 * TILE, TILE, 3 * DEPTH];
    let matrix = |len: u32, shift: u32| {
        device.upload(&(0..len).map(|i| number(i + shift)).collect::<Vec<f32>>())
    };
    let (a, b, mut d) = (matrix(m * k, 0)?, matrix(n * k, 3)?, matrix(m * n, 0)?);
    let grid = Grid::new([m / TILE, n / TILE, 1], [THREADS, 1, 1]);
    let args = (&a, &b, &mut d, i32::try_from(n)?, i32::try_from(k)?);
    device.load(&kernel)?.launch(grid, args)?;
    assert_eq!(d.to_vec()?, product([m, n, k]));
    Ok(())
}

/// A count that a device `i32` does not hold is an error at its line, wherever it stands.
#[test]
fn counts_above_i32_are_refused() {
    type Params = (GlobalMut<i32>,);
    let said = |body: fn(&mut tilewright::ir::Body<'_, '_>)| {
        let built = Kernel::<Params>::build("k", Target::SM_80, |k, _| body(k));
        built.map(|_| ()).unwrap_err().to_string()
    };
    let bodies: [fn(&mut tilewright::ir::Body<'_, '_>); 4] = [
        |k| k.assert((k.thread_idx().x * (u32::MAX / 2 + 1)).eq(0), "product"),
        |k| k.assert(k.thread_idx().x.lt(u32::MAX), "comparison"),
        |k| k.for_(range(0, u32::MAX), (), |_, _, ()| {}),
        |k| k.for_(range(0, 8).step(1u32 << 31), (), |_, _, ()| {}),
    ];
    for body in bodies {
        let error = said(body);
        assert!(
            error.contains("tests/tensor/counts.rs:") && error.contains("the count "),
            "{error}"
        );
    }
}
