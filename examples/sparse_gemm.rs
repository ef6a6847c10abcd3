//! A GEMM with a 2:4 sparse A on Hopper: `cargo run --release --example sparse_gemm`.
//!
//! Of each four neighbouring weights in a row of A, at most two are not zero. The host keeps these
//! two and notes their columns in *metadata* words. `wgmma` then multiplies at up to twice the rate
//! of a dense product, and half of A is read.
//!
//! The kernel is the loop of `plain_gemm` with three changes: A's tile is half as wide, each thread
//! loads its metadata one step ahead, and `SparseMma::gemm_async` multiplies.

use std::error::Error;
use std::time::Duration;

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, KernelOptions, Target, TensorMap, bf16, range};
use tilewright::layout::{ComposedLayout, Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    OperandSource, SmemAtom, SmemSwizzle, SparseMatrix, SparseMma, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::{TmaCopy, copy_if};
use tilewright::tensor::mma::SmemOperand;
use tilewright::tensor::view::{SharedTensor, Tensor};

/// M and N of a tile of D, and the columns of A and B in a step, zeros included.
const TILE: [u32; 3] = [128, 128, 64];
/// Two warp groups, with 64 rows of the tile each.
const THREADS: u32 = 256;
/// How many iterations ahead the copies start.
const STAGES: u32 = 4;
/// Metadata words of a warp group in a step: two instructions, a word per thread.
const WORDS: u32 = 2 * 128;

/// A's kept elements (M, K / 2) and metadata, B (N, K), D (M, N), M, and the steps along K.
type Params = (TensorMap<bf16, 2>, Global<u32>, TensorMap<bf16, 2>, GlobalMut<bf16>, i32, i32);

/// The MMA, and the layouts of the tiles of A and B in shared memory.
struct Plan {
    mma: SparseMma,
    tile_a: ComposedLayout,
    tile_b: ComposedLayout,
    copy_a: TmaCopy,
    copy_b: TmaCopy,
}

impl Plan {
    fn new() -> Result<Plan, Box<dyn Error>> {
        let [m, n, depth] = TILE;
        let types = (ValType::Bf16, ValType::F32);
        let half = Wgmma::new(n, types.0, types.0, types.1, OperandSource::Shared);
        let tile = |swizzle, rows: u32, columns: u32| -> Result<ComposedLayout, Box<dyn Error>> {
            let atom = SmemAtom::new(Major::K, swizzle).position_independent(16)?;
            Ok(atom.tile_to_shape(&shape!(rows, columns), None)?)
        };
        let tile_a = tile(SmemSwizzle::Sw64, m, depth / 2)?;
        let tile_b = tile(SmemSwizzle::Sw128, n, depth)?;
        Ok(Plan {
            mma: SparseMma::wgmma(half)?,
            copy_a: TmaCopy::new(Scalar::Bf16, &tile_a)?,
            copy_b: TmaCopy::new(Scalar::Bf16, &tile_b)?,
            tile_a,
            tile_b,
        })
    }

    /// Returns the metadata in the order of the kernel's loads: instruction by instruction along K
    /// for 64 rows, then the next 64 rows.
    fn metadata(&self, a: &SparseMatrix<bf16>) -> Result<Vec<u32>, Box<dyn Error>> {
        let k = usize::try_from(self.mma.shape_mnk()[2])?;
        let mut words = Vec::new();
        for row in (0..a.rows()).step_by(64) {
            for column in (0..a.columns()).step_by(k) {
                words.extend(self.mma.metadata(a, [row, column], 0)?);
            }
        }
        Ok(words)
    }

    /// The kernel for a D with `columns` columns.
    fn kernel(&self, columns: u32) -> Result<Kernel<Params>, Box<dyn Error>> {
        let [m, n, depth] = TILE;
        let tiled = TiledMma::new(self.mma.half().clone(), &layout!((2, 1, 1)), tiler!(_, _, _))?;
        let options = KernelOptions::default().block([THREADS, 1, 1]).min_blocks_per_sm(1);
        let stored = Layout::new((m, n), (columns, 1))?;
        let (name, target) = ("sparse_gemm", Target::SM_90A);
        let kernel =
            Kernel::<Params>::build_with(options, name, target, |k, (a, e, b, d, rows, steps)| {
                let sa = SharedTensor::<bf16>::shared_aligned(k, self.tile_a.clone(), 1024);
                let sb = SharedTensor::<bf16>::shared_aligned(k, self.tile_b.clone(), 1024);
                let full = k.shared::<u64>(1).mbarrier(0);
                let (t, row, column) = (k.thread_idx().x, k.block_idx().y, k.block_idx().x);
                k.if_(t.eq(0), |k| {
                    full.init(1);
                    k.fence_mbarrier_init();
                });
                k.barrier();
                let thr = tiled.slice(t);
                let acc = thr.fragment_c::<f32>(k, shape!(m, n));
                acc.fill(0.0);
                // This thread's words of its warp group's 64 rows.
                let group = row * 2 + t / 128;
                let e = e.offset(
                    group.cvt::<i64>() * (steps * WORDS).cvt::<i64>() + (t % 128).cvt::<i64>(),
                );
                k.for_(range(0, steps).prefetch_stages(STAGES), (), |k, i, ()| {
                    k.if_(t.eq(0), |_| {
                        full.arrive_expect_tx(self.copy_a.bytes() + self.copy_b.bytes());
                        self.copy_a.load(a, (row * m, i * (depth / 2)), &sa, full);
                        self.copy_b.load(b, (column * n, i * depth), &sb, full);
                    });
                    let words = [e.load(i * WORDS), e.load(i * WORDS + 128)];
                    full.wait_parity((i & 1).cvt::<u32>());
                    let x = SmemOperand::new(&thr.partition_a(&sa));
                    let y = SmemOperand::new(&thr.partition_b(&sb));
                    k.wgmma_fence();
                    self.mma.gemm_async(&acc, &x, &y, |_, step| words[step], true);
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
            })?;
        Ok(kernel)
    }
}

/// Multiplies a sparse A (M, K) and B (N, K), compares elements of D with the host, and returns the
/// time. M and K are multiples of the tile's, because metadata has no edges; N is a multiple of 8.
fn check(device: &Device, [m, n, depth]: [u32; 3]) -> Result<Duration, Box<dyn Error>> {
    let [rows, columns, length] = [m, n, depth].map(usize::try_from);
    let (rows, columns, length) = (rows?, columns?, length?);
    // Small integers, so that every sum is exact. Each chunk of four elements of A keeps another
    // pair.
    let value = |i: usize| bf16::from_f32((i % 5) as f32 - 2.0);
    let pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
    let mut a = vec![bf16::from_f32(0.0); rows * length];
    for (number, chunk) in a.chunks_exact_mut(4).enumerate() {
        for at in pairs[number * 7 / 3 % 6] {
            chunk[at] = value(4 * number + at);
        }
    }
    let b: Vec<bf16> = (0..columns * length).map(|i| value(i + 3)).collect();
    let plan = Plan::new()?;
    let sparse = SparseMatrix::compress(&a, length)?;
    let (x, e) = (device.upload(sparse.values())?, device.upload(&plan.metadata(&sparse)?)?);
    let (y, mut d) = (device.upload(&b)?, device.zeros::<bf16>(rows * columns)?);
    let map_a = x.tensor_map(&plan.copy_a.desc(&Layout::new((m, depth / 2), (depth / 2, 1))?)?)?;
    let map_b = y.tensor_map(&plan.copy_b.desc(&Layout::new((n, depth), (depth, 1))?)?)?;
    let function = device.load(&plan.kernel(n)?)?;
    let grid = Grid::new([n.div_ceil(TILE[1]), m.div_ceil(TILE[0]), 1], [THREADS, 1, 1]);
    let steps = (depth / TILE[2]).cast_signed();
    let mut once = || function.time(grid, (&map_a, &e, &map_b, &mut d, m.cast_signed(), steps));
    let mut time = once()?.elapsed;
    if !device.is_sim() {
        for _ in 0..20 {
            time = time.min(once()?.elapsed);
        }
    }
    let d = d.to_vec()?;
    // At most some ten thousand elements.
    for (i, found) in d.iter().enumerate().step_by((rows * columns / 10_000).max(1) | 1) {
        let (row, column) = (i / columns, i % columns);
        let products =
            (0..length).map(|j| a[row * length + j].to_f32() * b[column * length + j].to_f32());
        assert_eq!(*found, bf16::from_f32(products.sum()), "D({row}, {column}) of {m}x{n}x{depth}");
    }
    Ok(time)
}

/// Checks small sizes, and on a GPU times a large one.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    // One step; more steps than stages, and an edge along N.
    for sizes in [[128, 128, 64], [256, 136, 448]] {
        check(device, sizes)?;
    }
    println!("right on {}", device.name());
    if !device.is_sim() {
        let time = check(device, [4096; 3])?;
        let flops = 2.0 * 4096f64.powi(3);
        println!("4096 cubed: {:.0} TFLOP/s, zeros counted", flops / time.as_secs_f64() / 1e12);
    }
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    run(&if device.is_sim() { Device::sim_for(Target::SM_90A)? } else { device })
}
