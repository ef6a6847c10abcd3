//! The matrix products with tensor cores of `benches/kernels/`, on every device there is.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too, on many more sizes.

use crate::support::{device, rng};

#[allow(dead_code, reason = "a benchmark uses the rest")]
#[path = "../../benches/kernels/gemm_sm80.rs"]
mod gemm_sm80;
#[allow(dead_code, reason = "a benchmark uses the rest")]
#[path = "../../benches/kernels/gemm_sm90.rs"]
mod gemm_sm90;
use gemm_sm90::{Config, Epilogue};
use rng::Rng;
use tilewright::ir::{Kernel, KernelIr, Target, Untyped, bf16};
use tilewright::runtime::sim::{Options, Order};
use tilewright::runtime::{Arg, Device};

/// `C = A B^T`: the sizes M, N and K, and the matrices.
struct Problem {
    sizes: [u32; 3],
    a: Vec<bf16>,
    b: Vec<bf16>,
}

impl Problem {
    fn new(sizes: [u32; 3], seed: u64, mut number: impl FnMut(&mut Rng) -> f32) -> Problem {
        let [m, n, k] = sizes.map(|n| n as usize);
        let mut rng = Rng::new(seed);
        let mut matrix = |len: usize| (0..len).map(|_| bf16::from_f32(number(&mut rng))).collect();
        Problem { sizes, a: matrix(m * k), b: matrix(n * k) }
    }

    /// Fractions of both signs.
    fn fractions(sizes: [u32; 3], seed: u64) -> Problem {
        Problem::new(sizes, seed, |rng| (rng.below(512) as f32 - 256.0) / 64.0)
    }

    /// Numbers of which all sums are exact in `f32`, and few are in `bf16`.
    fn integers(sizes: [u32; 3], seed: u64) -> Problem {
        Problem::new(sizes, seed, |rng| rng.below(9) as f32 - 4.0)
    }

    /// A row of C in `f64`, and of `|A| |B|^T`, which bounds what rounding may change.
    fn row(&self, row: usize) -> Vec<(f64, f64)> {
        let [_, n, k] = self.sizes.map(|n| n as usize);
        let line = |matrix: &[bf16], at: usize| -> Vec<f64> {
            matrix[at * k..][..k].iter().map(|x| f64::from(x.to_f32())).collect()
        };
        let a = line(&self.a, row);
        (0..n)
            .map(|column| {
                let products = line(&self.b, column).into_iter().zip(&a).map(|(b, a)| a * b);
                products.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
            })
            .collect()
    }

    /// What is wrong with some rows of C.
    fn check(&self, c: &[bf16], rows: impl Iterator<Item = usize>) -> Result<(), String> {
        let n = self.sizes[1] as usize;
        for row in rows {
            for (column, (expected, size)) in self.row(row).into_iter().enumerate() {
                let found = f64::from(c[row * n + column].to_f32());
                // Half a unit of the 8 digits of C, and what sums in f32 lose.
                let allowed = expected.abs() / 256.0 + size * f64::from(f32::EPSILON) * 8.0;
                let close = (found - expected).abs() <= allowed;
                if !close {
                    return Err(format!("C[{row}, {column}] is {found}, not {expected}"));
                }
            }
        }
        Ok(())
    }
}

/// The kernels that there are.
#[derive(Clone, Copy, Debug)]
enum Gemm {
    Sm80(gemm_sm80::Config),
    Sm90(Config),
}

const SM_80: Gemm =
    Gemm::Sm80(gemm_sm80::Config { target: Target::SM_80, bm: 128, bn: 256, stages: 3, strip: 8 });

/// A small tile, so that the simulator sees several of them.
const SMALL_80: Gemm =
    Gemm::Sm80(gemm_sm80::Config { target: Target::SM_80, bm: 128, bn: 64, stages: 2, strip: 2 });

const WIDE: Config = Config {
    bm: 128,
    bn: 256,
    stages: 4,
    strip: 8,
    epilogue: Epilogue::Chunks,
    cluster: 1,
    programmatic: true,
};

fn hopper() -> Vec<Gemm> {
    let tall = Config { bm: 256, bn: 200, stages: 3, epilogue: Epilogue::Rows, ..WIDE };
    let configs = [
        WIDE,
        tall,
        Config { epilogue: Epilogue::Deferred, ..WIDE },
        Config { cluster: 2, strip: 3, ..WIDE },
        Config { cluster: 2, strip: 1, programmatic: false, ..tall },
    ];
    configs.map(Gemm::Sm90).to_vec()
}

/// Tiles of half the size, for the simulator.
fn small_hopper() -> Vec<Gemm> {
    let small = Config { bn: 128, stages: 2, strip: 2, ..WIDE };
    let configs = [
        small,
        Config { bn: 64, epilogue: Epilogue::Rows, stages: 3, ..small },
        Config { bn: 40, epilogue: Epilogue::Rows, ..small },
        Config { epilogue: Epilogue::Deferred, bn: 256, ..small },
        Config { cluster: 2, ..small },
        Config { epilogue: Epilogue::Deferred, bn: 256, cluster: 2, ..small },
    ];
    configs.map(Gemm::Sm90).to_vec()
}

impl Gemm {
    fn target(&self) -> Target {
        match self {
            Gemm::Sm80(config) => config.target,
            Gemm::Sm90(_) => Target::SM_90A,
        }
    }

    /// C, which has NaN where the kernel writes nothing.
    fn run(&self, device: &Device, problem: &Problem, sms: u32) -> Vec<bf16> {
        let [m, n, k] = problem.sizes;
        let (a, b) = (device.upload(&problem.a).unwrap(), device.upload(&problem.b).unwrap());
        let nan = bf16::from_f32(f32::NAN);
        let mut c = device.upload(&vec![nan; m as usize * n as usize]).unwrap();
        match self {
            Gemm::Sm80(config) => {
                let f = device.load(&gemm_sm80::gemm(*config).unwrap()).unwrap();
                let sizes = [m, n, k].map(|n| n as i32);
                f.launch(
                    config.grid(problem.sizes),
                    (&a, &b, &mut c, sizes[0], sizes[1], sizes[2]),
                )
                .unwrap();
            }
            Gemm::Sm90(config) => {
                let f = device.load(&gemm_sm90::gemm(*config).unwrap()).unwrap();
                let [a_map, b_map, c_map] = config.maps(problem.sizes).unwrap();
                let (a, b) = (a.tensor_map(&a_map).unwrap(), b.tensor_map(&b_map).unwrap());
                let mut map = c.tensor_map_mut(&c_map).unwrap();
                let [rows, columns, depth] = config.tiles(problem.sizes);
                let grid = config.grid(problem.sizes, sms);
                f.launch(grid, (&a, &b, &mut map, rows, columns, depth)).unwrap();
            }
        }
        c.to_vec().unwrap()
    }
}

#[track_caller]
fn check(gemm: Gemm, device: &Device, sizes: [u32; 3], sms: u32) {
    let problem = Problem::fractions(sizes, 1);
    let c = gemm.run(device, &problem, sms);
    if let Err(error) = problem.check(&c, 0..sizes[0] as usize) {
        panic!("{gemm:?}, {sizes:?}, {}: {error}", device.name());
    }
}

/// Whole tiles, ragged ones, fewer rows than a tile; several tiles for each block.
const SIZES: [[u32; 3]; 3] = [[128, 128, 256], [136, 200, 264], [72, 48, 264]];

#[test]
fn the_ampere_kernel_on_the_simulator() {
    let device = Device::sim().unwrap();
    for sizes in SIZES {
        check(SMALL_80, &device, sizes, 2);
    }
    check(SM_80, &device, [200, 264, 72], 2);
}

#[test]
fn the_hopper_kernel_on_the_simulator() {
    let device = Device::sim().unwrap();
    for gemm in small_hopper() {
        for sizes in SIZES {
            check(gemm, &device, sizes, 2);
        }
    }
}

/// 200 sizes, ragged ones among them, or as many as `TILEWRIGHT_CASES` says; a sample of the rows of each.
#[test]
fn random_sizes_on_the_gpu() {
    let Some(device) = device::gpu() else { return };
    let wanted = std::env::var("TILEWRIGHT_CASES").ok().and_then(|cases| cases.parse().ok());
    let mut rng = Rng::new(7);
    let kernels: Vec<Gemm> = hopper().into_iter().chain([SM_80]).collect();
    for number in 0..wanted.unwrap_or(200) {
        let mut size = |most: usize| 1 + rng.below(most) as u32;
        let sizes = [size(1200), 8 * size(150), 256 + 8 * size(150)];
        let gemm = kernels[number % kernels.len()];
        let problem = Problem::fractions(sizes, number as u64);
        let c = gemm.run(&device, &problem, 132);
        let rows = (0..12).map(|_| rng.below(sizes[0] as usize)).collect::<Vec<_>>();
        // Nothing is left out, in the other rows either.
        assert!(c.iter().all(|x| !x.to_f32().is_nan()), "{gemm:?}, {sizes:?}");
        if let Err(error) = problem.check(&c, rows.into_iter()) {
            panic!("{gemm:?}, {sizes:?}: {error}");
        }
    }
}

/// Where all sums are exact, simulator and GPU have the same bits.
#[test]
fn both_devices_agree_bit_for_bit() {
    let Some(gpu) = device::gpu() else { return };
    let sim = Device::sim().unwrap();
    for gemm in small_hopper().into_iter().chain([SMALL_80]) {
        let problem = Problem::integers([136, 200, 328], 3);
        let [on_sim, on_gpu] = [&sim, &gpu].map(|device| gemm.run(device, &problem, 2));
        assert!(on_sim == on_gpu, "{gemm:?}, {}", gemm.target());
    }
}

/// Each wait and each fence of the kernel, taken away alone, is missed in some order: the launch is at fault, or C is
/// another one.
#[test]
fn no_wait_or_fence_of_the_hopper_kernel_can_be_left_out() {
    // Three tiles for one block, and more blocks along K than places in the ring.
    let problem = Problem::integers([128, 384, 256], 5);
    let config = Config { bn: 128, stages: 2, strip: 2, ..WIDE };
    let text = gemm_sm90::gemm(config).unwrap().to_string();
    let orders = [0, 1, 2].map(|seed| match seed {
        0 => Order::RoundRobin,
        seed => Order::Random { seed },
    });
    let wrong = |lines: &[&str]| {
        let ir: KernelIr = lines.join("\n").parse().unwrap();
        let kernel = Kernel::verify(ir).unwrap();
        orders.iter().find_map(|order| {
            let device = Device::sim_with(Options::default().order(*order));
            wrong_c(&config, &kernel, &device, &problem)
        })
    };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(wrong(&lines), None);
    for (op, count) in [
        ("mbarrier_wait_parity", 2),
        ("wgmma_fence", 1),
        ("wgmma_wait_group", 2),
        ("fence_proxy_async", 2),
        ("barrier_sync", 4),
        ("cp_async_bulk_wait_group", 3),
    ] {
        let places = (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with(op));
        let found: Vec<usize> = places.collect();
        assert_eq!(found.len(), count, "{op}");
        for at in found {
            let less = [&lines[..at], &lines[at + 1..]].concat();
            assert!(wrong(&less).is_some(), "line {} is not missed: {}", at + 1, lines[at]);
        }
    }
}

/// What is wrong with a run of a kernel of this configuration on one multiprocessor.
fn wrong_c(
    config: &Config,
    kernel: &Kernel<Untyped>,
    device: &Device,
    problem: &Problem,
) -> Option<String> {
    let f = device.load(kernel).unwrap();
    let (a, b) = (device.upload(&problem.a).unwrap(), device.upload(&problem.b).unwrap());
    let [m, n, _] = problem.sizes;
    let mut c = device.zeros::<bf16>(m as usize * n as usize).unwrap();
    let [a_map, b_map, c_map] = config.maps(problem.sizes).unwrap();
    let (a, b) = (a.tensor_map(&a_map).unwrap(), b.tensor_map(&b_map).unwrap());
    let mut map = c.tensor_map_mut(&c_map).unwrap();
    let tiles = config.tiles(problem.sizes).map(Arg::from);
    let args = [Arg::from(&a), Arg::from(&b), Arg::from(&mut map)].into_iter().chain(tiles);
    match f.launch(config.grid(problem.sizes, 1), args.collect()) {
        Ok(()) => problem.check(&c.to_vec().unwrap(), 0..m as usize).err(),
        Err(error) => Some(error.to_string()),
    }
}
