//! A tiled f32 GEMM without tensor cores, as a workload of known size for the simulator.

use tilewright::ir::{BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Target, range};
use tilewright::runtime::Grid;

/// `A`, `B`, `C`, row-major, and the sizes `m`, `n`, `k`.
pub(crate) type Gemm = (Global<f32>, Global<f32>, GlobalMut<f32>, i32, i32, i32);

/// Rows and columns of a block's tile of `C`.
pub(crate) const TILE: i32 = 64;
/// Depth of a tile of `A` and `B`.
pub(crate) const DEPTH: i32 = 16;

/// `C = A * B` for sizes that are multiples of the tile: 256 threads of a block compute 64 x 64 elements,
/// 4 x 4 each, from tiles in shared memory.
pub(crate) fn gemm() -> Result<Kernel<Gemm>, BuildErrors> {
    let options = KernelOptions::default().block([256, 1, 1]);
    Kernel::<Gemm>::build_with(options, "gemm_simt", Target::SM_80, |k, (a, b, c, _m, n, depth)| {
        let sa = k.shared::<f32>((TILE * DEPTH) as usize);
        let sb = k.shared::<f32>((TILE * DEPTH) as usize);
        let t = k.thread_idx().x;
        let (row0, col0) = (k.block_idx().y * TILE, k.block_idx().x * TILE);
        let (tr, tc) = (t / 16 * 4, t % 16 * 4);
        let acc = k.registers::<f32>(16);
        acc.fill(k, 0.0);
        k.for_(range(0, depth).step(DEPTH), (), |k, k0, ()| {
            for i in 0..4 {
                let e = t + i * 256;
                let (r, q) = (e / DEPTH, e % DEPTH);
                sa.store(k, e, a.load(k, (row0 + r) * depth + k0 + q));
                let (r, q) = (e / TILE, e % TILE);
                sb.store(k, e, b.load(k, (k0 + r) * n + col0 + q));
            }
            k.barrier();
            for kk in 0..DEPTH {
                let x: [_; 4] = std::array::from_fn(|i| sa.load(k, (tr + i as i32) * DEPTH + kk));
                let y: [_; 4] = std::array::from_fn(|j| sb.load(k, tc + (kk * TILE + j as i32)));
                for (i, x) in x.into_iter().enumerate() {
                    for (j, y) in y.into_iter().enumerate() {
                        let old = acc.get(k, i * 4 + j);
                        acc.set(k, i * 4 + j, x.fma(y, old));
                    }
                }
            }
            k.barrier();
        });
        for i in 0..4 {
            for j in 0..4 {
                let at = (row0 + tr + i) * n + col0 + tc + j;
                c.store(k, at, acc.get(k, (i * 4 + j) as usize));
            }
        }
    })
}

/// The grid for `m` x `n` elements of `C`.
pub(crate) fn grid(m: u32, n: u32) -> Grid {
    Grid::new([n / TILE as u32, m / TILE as u32, 1], [256, 1, 1])
}
