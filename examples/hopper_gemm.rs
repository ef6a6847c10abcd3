//! A GEMM at cuBLAS's speed on Hopper, in a screen and a half:
//! `cargo run --release --example hopper_gemm`. `cargo bench --bench hopper_gemm` times it beside
//! cuBLAS.
//!
//! `D = A B` in bf16 with f32 accumulators, for any M, N and K. A is row-major and B is
//! column-major, as in most linear layers. `plain_gemm` is the same GEMM as one plain loop; this
//! one adds what the last 20 % of speed need:
//!
//! * **Persistent blocks.** One block per SM walks over the 128 x 256 tiles of D, in an order that
//!   keeps the operands in L2.
//! * **Warp specialization.** Thread 0 of the producer warp group starts TMA loads into a ring
//!   buffer of four stages. Two consumer warp groups multiply with `wgmma`, 64 rows of the tile
//!   each, and release a stage when they have read it.
//! * **An overlapped epilogue.** A consumer keeps its finished tile in 64 registers, as packed
//!   bf16, and stores a quarter of it in each of the first four steps of the next tile, so that the
//!   tensor cores never wait for a store.

use std::error::Error;

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, KernelOptions, Target, TensorMap, TensorMapMut, bf16, range};
use tilewright::layout::{ComposedLayout, Layout, layout, shape, tiler};
use tilewright::runtime::{Buffer, Device, Grid, TensorMapArg, TensorMapArgMut};
use tilewright::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::{OverlappedStore, StagedStore, TmaCopy};
use tilewright::tensor::mma::WgmmaMainloop;
use tilewright::tensor::pipeline::{Raster, TileScheduler, TmaPipeline, WarpRole, warp_roles};
use tilewright::tensor::view::SharedTensor;

/// The tile of D that a block computes, and the depth of one step along K.
const TILE: [u32; 3] = [128, 256, 64];
/// Steps that the producer may be ahead of the consumers.
const STAGES: u32 = 4;
/// Columns of D in one TMA store: 128 bytes, a row of the swizzle.
const STORE: u32 = 64;

/// A (M, K), B (N, K) and D (M, N, 1) as tensor maps; the tiles along M and N, and the steps along
/// K (at least four).
type Params = (TensorMap<bf16, 2>, TensorMap<bf16, 2>, TensorMapMut<bf16, 3>, [i32; 3]);

/// Everything the host decides before the kernel is built: where tiles lie in shared memory, and
/// the copies that move them.
pub(crate) struct Plan {
    ring_a: ComposedLayout,
    ring_b: ComposedLayout,
    copy_a: TmaCopy,
    copy_b: TmaCopy,
    store_d: StagedStore,
}

impl Plan {
    pub(crate) fn new() -> Result<Plan, Box<dyn Error>> {
        let [m, n, depth] = TILE;
        // The layout that `wgmma` reads without bank conflicts.
        let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
        let order = shape!(0, 1, 2);
        Ok(Plan {
            ring_a: atom.tile_to_shape(&shape!(m, depth, STAGES), Some(&order))?,
            ring_b: atom.tile_to_shape(&shape!(n, depth, STAGES), Some(&order))?,
            copy_a: TmaCopy::new(Scalar::Bf16, &atom.tile_to_shape(&shape!(m, depth), None)?)?,
            copy_b: TmaCopy::new(Scalar::Bf16, &atom.tile_to_shape(&shape!(n, depth), None)?)?,
            store_d: StagedStore::new(Scalar::Bf16, STORE, 2)?,
        })
    }
}

pub(crate) fn kernel(plan: &Plan) -> Result<Kernel<Params>, Box<dyn Error>> {
    let [m, n, depth] = TILE;
    let op = Wgmma::new(n, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((2, 1, 1)), tiler!(_, _, _))?;
    let options = KernelOptions::default().block([384, 1, 1]).min_blocks_per_sm(1);

    let (name, target) = ("hopper_gemm", Target::SM_90A);
    let kernel = Kernel::<Params>::build_with(options, name, target, |k, (a, b, d, sizes)| {
        let sa = SharedTensor::<bf16>::shared_aligned(k, plan.ring_a.clone(), 1024);
        let sb = SharedTensor::<bf16>::shared_aligned(k, plan.ring_b.clone(), 1024);
        let staging = k.shared_aligned::<bf16>(2 * plan.store_d.elements(), 1024);
        let pipe = TmaPipeline::new(k, STAGES, plan.copy_a.bytes() + plan.copy_b.bytes(), 2);
        let [row_tiles, column_tiles, steps] = sizes;
        let batch = k.constant(1);
        let raster = Raster::Swizzle { width: 16 };
        let tiles = TileScheduler::new(k, raster, [row_tiles, column_tiles, batch]);
        let thread = k.thread_idx().x;
        pipe.init(thread.eq(0));
        k.barrier();

        // The producer gives registers away, so that a consumer thread can hold 128 accumulators
        // and the 64 packed words of its previous tile.
        let roles = WarpRole::producers_and_consumers([1, 2], Some([40, 232]));
        warp_roles(k, &roles, 168, |k, role, group| {
            if role == 0 {
                let (a, b) = (plan.copy_a.tensor(a), plan.copy_b.tensor(b));
                k.if_(thread.eq(0), |k| {
                    tiles.for_each(k, pipe.producer(), |k, tile, state| {
                        let ga = a.local_tile(&tiler!(m, depth), (tile.row, ..));
                        let gb = b.local_tile(&tiler!(n, depth), (tile.column, ..));
                        k.for_(range(0, steps), state, |_, step, state| {
                            let full = pipe.acquire(state);
                            let sa = sa.slice((.., .., state.stage));
                            let sb = sb.slice((.., .., state.stage));
                            ga.slice((.., .., step)).load(&sa, full);
                            gb.slice((.., .., step)).load(&sb, full);
                            state.next()
                        })
                    });
                });
                return;
            }
            let mainloop = WgmmaMainloop::new(k, &mma, pipe, thread - 128, &sa, &sb);
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), 128).aligned();
            let own = staging.offset(group * plan.store_d.elements());
            let store = plan.store_d.slice(k, d, own, thread % 128, barrier);
            let overlapped = OverlappedStore::new(k, store, n);
            let start = (pipe.consumer(), overlapped.nothing());
            let (_, last) = tiles.for_each(k, start, |k, tile, (state, previous)| {
                let acc = mma.slice(0).fragment_c::<f32>(k, shape!(m, n));
                let parts = overlapped.parts();
                let state = mainloop.run_over(&acc, state, steps, parts, |_, part| {
                    overlapped.store(previous, part..part + 1);
                });
                mainloop.finish(state);
                let origin = [tile.row * m + group * 64, tile.column * n, tile.batch];
                (state, overlapped.keep(&acc, origin, &()))
            });
            overlapped.finish(last);
        });
    })?;
    Ok(kernel)
}

/// The launch arguments and the grid for matrices of any size.
pub(crate) struct Launch<'h> {
    pub(crate) grid: Grid,
    pub(crate) a: TensorMapArg<'h, bf16>,
    pub(crate) b: TensorMapArg<'h, bf16>,
    pub(crate) d: TensorMapArgMut<'h, bf16>,
    pub(crate) sizes: [i32; 3],
}

impl<'h> Launch<'h> {
    pub(crate) fn new(
        device: &Device,
        plan: &Plan,
        [m, n, depth]: [u32; 3],
        a: &'h Buffer<bf16>,
        b: &'h Buffer<bf16>,
        d: &'h mut Buffer<bf16>,
    ) -> Result<Launch<'h>, Box<dyn Error>> {
        let (rows, columns) = (m.div_ceil(TILE[0]), n.div_ceil(TILE[1]));
        // TMA reads zeros past the end of K, so a short K takes four steps, too.
        let steps = depth.div_ceil(TILE[2]).max(TILE[1] / STORE);
        // The simulator runs a few blocks of a persistent kernel.
        let sms = device.properties().map_or(3, |properties| properties.sm_count);
        Ok(Launch {
            grid: Grid::new([sms.min(rows * columns), 1, 1], [384, 1, 1]),
            a: a.tensor_map(&plan.copy_a.desc(&Layout::new((m, depth), (depth, 1))?)?)?,
            b: b.tensor_map(&plan.copy_b.desc(&Layout::new((n, depth), (depth, 1))?)?)?,
            d: d.tensor_map_mut(&plan.store_d.desc(&Layout::new((m, n, 1), (n, 1, 0))?)?)?,
            sizes: [rows.cast_signed(), columns.cast_signed(), steps.cast_signed()],
        })
    }
}

/// Computes D on the device and compares a thousand elements with the host.
fn check(device: &Device, sizes: [u32; 3]) -> Result<(), Box<dyn Error>> {
    let plan = Plan::new()?;
    let [m, n, depth] = sizes.map(usize::try_from);
    let (m, n, depth) = (m?, n?, depth?);
    // Small integers: every product and every sum is exact in f32.
    let element = |i: usize| (i * 7 % 5) as f32 - 2.0;
    let upload = |len: usize, first: usize| {
        let values: Vec<bf16> = (first..first + len).map(|i| bf16::from_f32(element(i))).collect();
        device.upload(&values)
    };
    let (a, b, mut d) = (upload(m * depth, 0)?, upload(n * depth, 3)?, device.zeros(m * n)?);
    let function = device.load(&kernel(&plan)?)?;
    let mut launch = Launch::new(device, &plan, sizes, &a, &b, &mut d)?;
    function.launch(launch.grid, (&launch.a, &launch.b, &mut launch.d, launch.sizes))?;
    let d = d.to_vec()?;
    for at in (0..m * n).step_by((m * n / 1000).max(1) | 1) {
        let (row, column) = (at / n, at % n);
        let product = |i| element(row * depth + i) * element(3 + column * depth + i);
        let expected = bf16::from_f32((0..depth).map(product).sum());
        assert_eq!(d[at], expected, "D({row}, {column}) of {sizes:?}");
    }
    Ok(())
}

/// Checks sizes that fit the tile and others.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    // More tiles than the simulator has blocks, edges along all three modes, a K of fewer than four
    // steps.
    for sizes in [[256, 512, 256], [200, 296, 328], [130, 1032, 40]] {
        check(device, sizes)?;
    }
    println!("right on {}", device.name());
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    // `wgmma` is an instruction of Hopper only.
    run(&if device.target() == Target::SM_90A { device } else { Device::sim_for(Target::SM_90A)? })
}
