//! The kernels of `kernels::gemm` in random orders of warps and asynchronous operations, and
//! without one wait or fence.

use crate::support::gemm_case::Case;
use crate::support::slow::sample;

use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, KernelIr, Target, Untyped, bf16};
use tilewright::kernels::gemm::{
    Gemm, GemmArgs, GemmConfig, GemmProblem, LoadMethod, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::{Arg, Device};
use tilewright::sim::{Options, Order};
use tilewright::tensor::pipeline::Raster;

fn in_order(order: Order) -> Device {
    Device::sim_with(Options::default().order(order))
}

/// A tile and a ring that are small, so that the simulator sees several of them.
fn cooperative() -> GemmConfig {
    let config = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    GemmConfig { stages: 2, raster: Raster::Swizzle { width: 2 }, ..config }
}

#[test]
fn no_order_of_warps_changes_a_result() {
    let base = cooperative();
    let multistage = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    let configs = [
        GemmConfig { tile: [64, 64, 8], ..GemmConfig::simt(Target::SM_80, Scalar::F32) },
        GemmConfig { stages: 2, ..multistage },
        GemmConfig { stages: 3, ..multistage },
        base,
        GemmConfig { tile: [128, 40, 64], store: StoreMethod::Rows, stages: 3, ..base },
        GemmConfig { cluster: [2, 1], ..base },
        GemmConfig { cluster: [2, 2], ..base },
        GemmConfig { tile: [128, 256, 64], store: StoreMethod::Overlapped, ..base },
        GemmConfig { tile: [128, 64, 64], schedule: Schedule::Pingpong, ..base },
        GemmConfig { splits: Splits::SplitK(2), tile: [128, 64, 64], ..base },
        GemmConfig { splits: Splits::StreamK, tile: [128, 64, 64], ..base },
        GemmConfig {
            tile: [24, 128, 64],
            swap: true,
            store: StoreMethod::Rows,
            registers: Some([40, 232]),
            ..base
        },
    ];
    for config in configs {
        for seed in sample(3, 0..3) {
            let device = in_order(Order::Random { seed });
            // At least two tiles along M, and two along N where a tile has at most 128 columns.
            Case::new(GemmProblem::new(136, 136, 264)).check_any(&device, config);
        }
    }
}

/// A programmatic launch reads and writes nothing before the one before it has ended: D of one is A
/// of the next one, which is overwritten by the third one.
#[test]
fn programmatic_products_wait_for_the_one_before() {
    let pdl = |config| GemmConfig { programmatic: true, ..config };
    let base = cooperative();
    let multistage = GemmConfig::sm80(Target::SM_90, Scalar::Bf16, [64, 64]);
    let simt = GemmConfig { tile: [64, 64, 16], ..GemmConfig::simt(Target::SM_90, Scalar::Bf16) };
    let threads = GemmConfig { load: LoadMethod::Threads, store: StoreMethod::Direct, ..base };
    let configs = [
        base,
        GemmConfig { tile: [128, 64, 64], schedule: Schedule::Pingpong, ..base },
        GemmConfig { tile: [64, 64, 64], registers: None, ..threads },
        pdl(multistage),
        pdl(GemmConfig { splits: Splits::SplitK(2), ..multistage }),
        pdl(GemmConfig { splits: Splits::StreamK, ..multistage }),
        pdl(simt),
    ];
    let device = in_order(Order::Random { seed: 5 });
    let size = 128;
    let problem = GemmProblem::new(size, size, size);
    let one = |i: usize| bf16::from_f32(if i % (size as usize + 1) == 1 { 1.0 } else { 0.0 });
    let b: Vec<bf16> = (0..(size * size) as usize).map(one).collect();
    let a: Vec<bf16> =
        (0..(size * size) as usize).map(|i| bf16::from_f32((i % 7) as f32)).collect();
    for config in configs {
        assert_eq!(config.check(), Ok(()), "{config}");
        let function = Gemm::<bf16>::new(config).unwrap().load(&device).unwrap();
        let [a, b] = [&a, &b].map(|x| device.upload(x).unwrap());
        let [mut x, mut y] = [(); 2].map(|()| device.zeros::<bf16>(a.len()).unwrap());
        for _ in 0..2 {
            function.launch(&problem, GemmArgs::new(&a, &b, &mut x)).unwrap();
            function.launch(&problem, GemmArgs::new(&x, &b, &mut y)).unwrap();
        }
        // Row `j` of B is column `j + 1` of the product, so each product shifts columns by one:
        // `B[n, k]` is 1 at `k = n + 1`.
        let (a, y) = (a.to_vec().unwrap(), y.to_vec().unwrap());
        let n = size as usize;
        let expected = |i: usize| if i % n + 2 < n { a[i + 2] } else { bf16::from_f32(0.0) };
        assert!((0..n * n).all(|i| y[i] == expected(i)), "{config}");
    }
}

/// `D = A B^T` in `bf16`, with operands for which every sum is exact in `f32`.
struct Product {
    sizes: [usize; 3],
    a: Vec<bf16>,
    b: Vec<bf16>,
}

impl Product {
    fn new(sizes: [usize; 3]) -> Product {
        let matrix = |len: usize, step: usize| -> Vec<bf16> {
            (0..len).map(|i| bf16::from_f32(((i * step) % 9) as f32 - 4.0)).collect()
        };
        let [m, n, k] = sizes;
        Product { sizes, a: matrix(m * k, 7), b: matrix(n * k, 5) }
    }

    fn expected(&self) -> Vec<bf16> {
        let [m, n, k] = self.sizes;
        let element = |at: usize| {
            let (a, b) = (&self.a[at / n * k..][..k], &self.b[at % n * k..][..k]);
            let sum: f32 = a.iter().zip(b).map(|(a, b)| a.to_f32() * b.to_f32()).sum();
            bf16::from_f32(sum)
        };
        (0..m * n).map(element).collect()
    }

    /// The error of a launch of a changed `kernel` of `gemm` as one thread block, or what is wrong
    /// with D.
    fn wrong(
        &self,
        gemm: &Gemm<bf16>,
        kernel: &Kernel<Untyped>,
        device: &Device,
    ) -> Option<String> {
        let [m, n, k] = self.sizes.map(|size| size as u32);
        let problem = GemmProblem::new(m, n, k);
        let [a_map, b_map, d_map] = gemm.tensor_maps(&problem).unwrap().unwrap();
        let (a, b) = (device.upload(&self.a).unwrap(), device.upload(&self.b).unwrap());
        let mut d = device.upload(&vec![bf16::from_f32(f32::NAN); self.sizes[0] * self.sizes[1]]);
        let (a, b) = (a.tensor_map(&a_map).unwrap(), b.tensor_map(&b_map).unwrap());
        let d = d.as_mut().unwrap();
        let mut map = d.tensor_map_mut(&d_map).unwrap();
        let unused = device.zeros::<bf16>(1).unwrap();
        let mut args = vec![Arg::from(&a), Arg::from(&b)];
        let [rows, columns, steps] = gemm.config().tiles(&problem);
        // Tiles with the batch, batch strides, extents, and an epilogue that is off.
        args.extend([rows, columns, steps, 1, 0, 0, m, n].map(|x| Arg::from(x as i32)));
        args.extend([Arg::from(1.0f32), Arg::from(0.0f32), Arg::from(&unused)]);
        args.extend([Arg::from(0i64), Arg::from(0i64), Arg::from(&unused)]);
        args.push(Arg::from(&mut map));
        let grid = gemm.config().grid(&problem, 1);
        if let Err(error) = device.load(kernel).unwrap().launch(grid, args) {
            return Some(error.to_string());
        }
        let found = d.to_vec().unwrap();
        let bad = found.iter().zip(self.expected()).position(|(d, expected)| *d != expected)?;
        Some(format!("D[{bad}] is {}", found[bad]))
    }
}

/// Each wait and each fence of the kernel, removed alone, is missed in some order: the launch
/// faults, or D is wrong.
#[test]
fn no_wait_or_fence_can_be_left_out() {
    // Three tiles for one thread block, and more steps along K than stages.
    let product = Product::new([128, 384, 256]);
    let gemm = Gemm::<bf16>::new(cooperative()).unwrap();
    let text = gemm.text();
    let orders = [Order::RoundRobin, Order::Random { seed: 1 }, Order::Random { seed: 2 }];
    let wrong = |lines: &[&str]| {
        let ir: KernelIr = lines.join("\n").parse().unwrap();
        let kernel = Kernel::verify(ir).unwrap();
        orders.iter().find_map(|order| product.wrong(&gemm, &kernel, &in_order(*order)))
    };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(wrong(&lines), None);
    let mut removed = 0;
    for op in [
        "mbarrier_wait_parity",
        "wgmma_fence",
        "wgmma_wait_group",
        "fence_proxy_async",
        "barrier_sync",
        "cp_async_bulk_wait_group",
    ] {
        let found: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with(op)).collect();
        assert!(!found.is_empty(), "the kernel has no {op}");
        for at in found {
            let less = [&lines[..at], &lines[at + 1..]].concat();
            assert!(wrong(&less).is_some(), "line {} is not missed: {}", at + 1, lines[at]);
            removed += 1;
        }
    }
    assert!(removed >= 10, "only {removed}");
}
