//! A GEMM with TMA and `wgmma`, written as one plain loop:
//! `cargo run --release --example plain_gemm`.
//!
//! The loop copies a tile of A and of B, waits, multiplies, and waits again. `prefetch_stages(4)`
//! turns the tiles into ring buffers of five stages with one mbarrier each, and starts the copies
//! four iterations ahead. On a GPU it prints its time beside the library's warp-specialised kernel.

use std::error::Error;
use std::time::Duration;

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target, TensorMap, bf16, range};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::layout::{ComposedLayout, Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::{TmaCopy, copy_if};
use tilewright::tensor::mma::SmemOperand;
use tilewright::tensor::view::{SharedTensor, Tensor};

/// M and N of a tile of D, and the depth of a step.
const TILE: [u32; 3] = [128, 128, 64];
/// Two warp groups, with 64 rows of the tile each.
const THREADS: u32 = 256;
/// How many iterations ahead the copies start.
const STAGES: u32 = 4;

/// A (M, K), B (N, K), both contiguous along K; D (M, N), contiguous along N; M; the steps along K.
type Params = (TensorMap<bf16, 2>, TensorMap<bf16, 2>, GlobalMut<bf16>, i32, i32);

/// The layout of an A or B tile in shared memory, with the swizzle that `wgmma` reads without bank
/// conflicts.
fn tile() -> Result<ComposedLayout, Box<dyn Error>> {
    let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
    Ok(rows.tile_to_shape(&shape!(128, 64), None)?)
}

/// The kernel for a D with `columns` columns.
pub(crate) fn kernel(stages: u32, columns: u32) -> Result<Kernel<Params>, Box<dyn Error>> {
    let [m, n, depth] = TILE;
    let op = Wgmma::new(n, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((2, 1, 1)), tiler!(_, _, _))?;
    let tile = tile()?;
    let copy = TmaCopy::new(Scalar::Bf16, &tile)?;
    let options = KernelOptions::default().block([THREADS, 1, 1]).min_blocks_per_sm(1);
    let stored = Layout::new((m, n), (columns, 1))?;
    let name = "plain_gemm";
    let kernel = Kernel::<Params>::build_with(
        options,
        name,
        Target::SM_90A,
        |k, (a, b, d, rows, steps)| {
            let sa = SharedTensor::<bf16>::shared_aligned(k, tile.clone(), 1024);
            let sb = SharedTensor::<bf16>::shared_aligned(k, tile.clone(), 1024);
            let full = k.shared::<u64>(1).mbarrier(0);
            let (t, row, column) = (k.thread_idx().x, k.block_idx().y, k.block_idx().x);
            k.if_(t.eq(0), |k| {
                full.init(1);
                k.fence_mbarrier_init();
            });
            k.barrier();
            let thr = mma.slice(t);
            let acc = thr.fragment_c::<f32>(k, shape!(m, n));
            acc.fill(0.0);
            k.for_(range(0, steps).prefetch_stages(stages), (), |k, i, ()| {
                k.if_(t.eq(0), |_| {
                    full.arrive_expect_tx(2 * copy.bytes());
                    copy.load(a, (row * m, i * depth), &sa, full);
                    copy.load(b, (column * n, i * depth), &sb, full);
                });
                full.wait_parity((i & 1).cvt::<u32>());
                let x = SmemOperand::new(&thr.partition_a(&sa));
                let y = SmemOperand::new(&thr.partition_b(&sb));
                k.wgmma_fence();
                mma.gemm_async(&acc, &x, &y, true);
                k.wgmma_commit_group();
                k.wgmma_wait_group(0);
                k.barrier();
            });
            let rounded = thr.fragment_c::<bf16>(k, shape!(m, n));
            rounded.store_all(&acc.load_all().convert::<bf16>());
            let to = d.offset(row.cvt::<i64>() * i64::from(m * columns)).offset(column * n);
            let to = thr.partition_c(&Tensor::new(to, stored.clone()));
            let places = Tensor::identity(k, shape!(m, n)).domain_offset((row * m, column * n));
            let inside = thr.partition_c(&places).within((rows, columns));
            copy_if(&inside, &rounded, &to);
        },
    )?;
    Ok(kernel)
}

/// Multiplies and checks entries of D, for any M and N and a K that is a multiple of 8: TMA needs
/// rows of A and B whose pitch is a multiple of 16 bytes. Returns the fastest of `rounds` times.
fn measure(
    device: &Device,
    [m, n, depth]: [u32; 3],
    rounds: u32,
) -> Result<[Duration; 2], Box<dyn Error>> {
    // Small integers, so that every product and every sum is exact in `f32`.
    let element = |i: usize| bf16::from_f32((i % 5) as f32 - 2.0);
    let len = |rows: u32, columns: u32| usize::try_from(u64::from(rows) * u64::from(columns));
    let a: Vec<bf16> = (0..len(m, depth)?).map(element).collect();
    let b: Vec<bf16> = (0..len(n, depth)?).map(|i| element(i + 3)).collect();
    let (x, y) = (device.upload(&a)?, device.upload(&b)?);
    let (mut d, mut by_library) =
        (device.zeros::<bf16>(len(m, n)?)?, device.zeros::<bf16>(len(m, n)?)?);
    let copy = TmaCopy::new(Scalar::Bf16, &tile()?)?;
    let map_a = copy.desc(&Layout::new((m, depth), (depth, 1))?)?;
    let map_b = copy.desc(&Layout::new((n, depth), (depth, 1))?)?;
    let (map_a, map_b) = (x.tensor_map(&map_a)?, y.tensor_map(&map_b)?);
    let product = device.load(&kernel(STAGES, n)?)?;
    let grid = Grid::new([n.div_ceil(TILE[1]), m.div_ceil(TILE[0]), 1], [THREADS, 1, 1]);
    let (rows, steps) = (i32::try_from(m)?, i32::try_from(depth.div_ceil(TILE[2]))?);
    let mut least = [Duration::MAX; 2];
    for _ in 0..rounds {
        let timing = product.time(grid, (&map_a, &map_b, &mut d, rows, steps))?;
        least[0] = least[0].min(timing.elapsed);
    }
    let found = d.to_vec()?;
    for (row, column) in [(0, 0), (m - 1, n - 1), (m / 2, n / 2 - 1), (m - 3, 5)] {
        let (from, to) = (len(row, depth)?, len(column, depth)?);
        let products = (0..len(1, depth)?).map(|i| a[from + i].to_f32() * b[to + i].to_f32());
        let expected = bf16::from_f32(products.sum());
        assert_eq!(found[len(row, n)? + len(column, 1)?], expected, "D({row}, {column})");
    }
    let config = GemmConfig::sm90(Scalar::Bf16, [TILE[0], TILE[1]]);
    let problem = GemmProblem::new(m, n, depth);
    let library = Gemm::<bf16>::new(config)?.load(device)?;
    for _ in 0..rounds {
        let args = GemmArgs::new(&x, &y, &mut by_library);
        let timing = library.prepare(&problem, args)?.time()?;
        least[1] = least[1].min(timing.elapsed);
    }
    assert_eq!(found, by_library.to_vec()?, "the library's kernel has another product");
    Ok(least)
}

/// Runs a small GEMM on the simulator, or a large one with its ratio on a GPU.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let kernel = kernel(STAGES, 256)?;
    let copies = kernel.ptx().text().matches("cp.async.bulk.tensor.2d").count();
    // Four of A and of B before the loop, one of each in it, and one of each in the loop for fewer
    // iterations.
    assert_eq!(u32::try_from(copies), Ok(2 * (STAGES + 2)));
    if device.is_sim() {
        for sizes @ [m, n, depth] in [[128, 256, 448], [130, 200, 72]] {
            measure(device, sizes, 1)?;
            println!("{m} x {n} x {depth} on {}", device.name());
        }
        return Ok(());
    }
    let sizes = [4096, 4096, 4096];
    let [plain, library] = measure(device, sizes, 20)?;
    let flops = 2.0 * sizes.map(f64::from).iter().product::<f64>();
    let rate = |time: Duration| flops / time.as_secs_f64() / 1e12;
    println!(
        "4096 x 4096 x 4096 on {}: one plain loop {:.0} TFLOPS, warp-specialised {:.0} TFLOPS, ratio {:.2}",
        device.name(),
        rate(plain),
        rate(library),
        library.as_secs_f64() / plain.as_secs_f64()
    );
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&Device::default()?)
}
