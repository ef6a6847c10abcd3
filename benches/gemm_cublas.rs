//! The GEMMs of the library, and those of `kernels/gemm_sm90.rs` and `kernels/gemm_sm80.rs`, beside cuBLAS, on a GPU of `sm_90`:
//! `cargo bench --bench gemm_cublas -- [burst] [steady] [--rounds N] [--only NAME] [SIZE ..]`.
//!
//! `C = A B^T` in `bf16`, inputs from N(0,1). Before anything is timed, all of C is compared with what cuBLAS
//! gives; C has NaN everywhere before. *burst*: 1 ms of work after 40 ms of rest. *steady*: windows of 0.25 s. All
//! variants take turns in random order; a ratio is that of the times of one round, cuBLAS to ours, so above 1 is
//! faster than cuBLAS; printed are the median of the rounds and its 95 % interval by bootstrap.
#![expect(unsafe_code, reason = "cuBLAS takes addresses")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends with the message"
)]

#[path = "kernels/gemm_configs.rs"]
mod gemm_configs;
#[path = "kernels/gemm_sm80.rs"]
mod gemm_sm80;
#[path = "kernels/gemm_sm90.rs"]
mod gemm_sm90;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudarc::cublas::{CudaBlas, result::gemm_ex, sys};
use cudarc::driver::sys::{CUdevice_attribute, CUresult, cuLaunchHostFunc};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use gemm_sm90::Config;
use tilewright::ir::{Kernel, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmFunction, GemmProblem};
use tilewright::runtime::{Buffer, Device, Function, LaunchOptions, Stream};

/// What a kernel is built for.
#[derive(Clone, Copy)]
enum Choice {
    Sm90(Config),
    Sm80(gemm_sm80::Config),
    Family(GemmConfig),
}

/// A kernel that is compared.
enum Loaded {
    Sm90(Config, Function<gemm_sm90::Gemm>),
    Sm80(gemm_sm80::Config, Function<gemm_sm80::Gemm>),
    Family(GemmFunction<bf16>),
}

/// The kernels that are compared, for a square problem.
fn choices(size: u32) -> Vec<(String, Choice)> {
    let yardsticks = gemm_configs::sm90(size).into_iter();
    let mut all: Vec<(String, Choice)> =
        yardsticks.map(|(name, config)| (name.to_owned(), Choice::Sm90(config))).collect();
    all.push(("sm_80 128x256".to_owned(), Choice::Sm80(gemm_configs::sm80())));
    let family = gemm_configs::family(size).into_iter();
    all.extend(family.map(|config| (config.to_string(), Choice::Family(config))));
    all
}

/// Random numbers: xorshift64* (Vigna, 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `len` numbers, drawn from a table of numbers of N(0,1).
    fn normal(&mut self, len: usize) -> Vec<u16> {
        let table: Vec<u16> = (0..1 << 16)
            .map(|_| {
                let (u, v) = (1.0 - self.unit(), self.unit());
                let x = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                bf16::from_f32(x as f32).to_bits()
            })
            .collect();
        (0..len).map(|_| table[(self.next() >> 48) as usize]).collect()
    }
}

struct Bench {
    device: Device,
    raw: Arc<CudaStream>,
    stream: Stream,
    blas: CudaBlas,
    sms: u32,
}

/// The matrices of a problem, for cuBLAS and for us.
struct Problem {
    sizes: [u32; 3],
    theirs: [CudaSlice<u16>; 3],
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    c: Buffer<bf16>,
}

impl Bench {
    fn problem(&self, sizes: [u32; 3], random: &mut Random) -> Problem {
        let [m, n, k] = sizes.map(|n| n as usize);
        let (a, b) = (random.normal(m * k), random.normal(n * k));
        let of = |bits: &[u16]| -> Buffer<bf16> {
            let values: Vec<bf16> = bits.iter().map(|bits| bf16::from_bits(*bits)).collect();
            self.device.upload(&values).unwrap()
        };
        let c = self.device.upload(&vec![bf16::from_f32(f32::NAN); m * n]).unwrap();
        let theirs = [
            self.raw.clone_htod(&a).unwrap(),
            self.raw.clone_htod(&b).unwrap(),
            self.raw.alloc_zeros::<u16>(m * n).unwrap(),
        ];
        Problem { sizes, theirs, a: of(&a), b: of(&b), c }
    }

    /// cuBLAS's product, which has columns where we have rows: `C^T = B A^T`.
    fn cublas(&self, problem: &mut Problem) {
        let [m, n, k] = problem.sizes.map(|n| n as i32);
        let [a, b, c] = &mut problem.theirs;
        let (alpha, beta) = (1.0f32, 0.0f32);
        let (a, b) = (a.device_ptr(&self.raw).0, b.device_ptr(&self.raw).0);
        let c = c.device_ptr_mut(&self.raw).0;
        let bf16 = sys::cudaDataType_t::CUDA_R_16BF;
        // SAFETY: the addresses are those of matrices of these sizes.
        unsafe {
            gemm_ex(
                *self.blas.handle(),
                sys::cublasOperation_t::CUBLAS_OP_T,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n,
                m,
                k,
                (&raw const alpha).cast(),
                b as *const _,
                bf16,
                k,
                a as *const _,
                bf16,
                k,
                (&raw const beta).cast(),
                c as *mut _,
                bf16,
                n,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
            .unwrap();
        }
    }

    fn load(&self, choice: Choice) -> Loaded {
        fn load<P>(bench: &Bench, build: impl FnOnce() -> Kernel<P>) -> Function<P> {
            let begin = Instant::now();
            let kernel = build();
            kernel.ptx();
            let built = begin.elapsed();
            let begin = Instant::now();
            let f = bench.device.load(&kernel).unwrap();
            println!("  built {built:.2?}, loaded {:.2?}", begin.elapsed());
            f.compiler_log().lines().for_each(|line| println!("  {line}"));
            f
        }
        match choice {
            Choice::Sm90(config) => {
                Loaded::Sm90(config, load(self, || gemm_sm90::gemm(config).unwrap()))
            }
            Choice::Sm80(config) => {
                Loaded::Sm80(config, load(self, || gemm_sm80::gemm(config).unwrap()))
            }
            Choice::Family(config) => {
                let begin = Instant::now();
                let gemm = Gemm::new(config).unwrap();
                gemm.ptx();
                let built = begin.elapsed();
                let begin = Instant::now();
                let f = gemm.load(&self.device).unwrap();
                println!("  built {built:.2?}, loaded {:.2?}", begin.elapsed());
                Loaded::Family(f)
            }
        }
    }

    /// Gives `body` a function that launches our kernel once.
    fn ours<R>(
        &self,
        kernel: &Loaded,
        problem: &mut Problem,
        body: impl FnOnce(&mut dyn FnMut()) -> R,
    ) -> R {
        let options = LaunchOptions::default().stream(&self.stream);
        let Problem { sizes, a, b, c, .. } = problem;
        match kernel {
            Loaded::Sm90(config, f) => {
                let [a_map, b_map, c_map] = config.maps(*sizes).unwrap();
                let [rows, columns, depth] = config.tiles(*sizes);
                let a = a.tensor_map(&a_map).unwrap();
                let b = b.tensor_map(&b_map).unwrap();
                let mut c = c.tensor_map_mut(&c_map).unwrap();
                let options = options.programmatic(config.programmatic);
                let grid = config.grid(*sizes, self.sms);
                body(&mut || {
                    f.launch_with(options, grid, (&a, &b, &mut c, rows, columns, depth)).unwrap();
                })
            }
            Loaded::Sm80(config, f) => {
                let [m, n, k] = sizes.map(|n| n as i32);
                let grid = config.grid(*sizes);
                body(&mut || f.launch_with(options, grid, (&*a, &*b, &mut *c, m, n, k)).unwrap())
            }
            Loaded::Family(f) => {
                let [m, n, k] = *sizes;
                let problem = GemmProblem::new(m, n, k);
                let mut launch = f.prepare(&problem, GemmArgs::new(a, b, c)).unwrap();
                let options = options.programmatic(f.config().programmatic);
                body(&mut || launch.launch_with(options).unwrap())
            }
        }
    }

    /// Compares all of C with what cuBLAS gives.
    fn check(&self, kernel: &Loaded, problem: &mut Problem) -> Result<(), String> {
        let poison = vec![bf16::from_f32(f32::NAN); problem.c.len()];
        problem.c.write(&poison).unwrap();
        self.cublas(problem);
        self.ours(kernel, problem, |launch| launch());
        self.stream.synchronize().unwrap();
        let theirs = self.raw.clone_dtoh(&problem.theirs[2]).unwrap();
        let ours = problem.c.to_vec().unwrap();
        let scale = (problem.sizes[2] as f32).sqrt();
        let (mut wrong, mut first) = (0u64, None);
        for (i, (x, y)) in ours.iter().zip(&theirs).enumerate() {
            let (x, y) = (x.to_f32(), bf16::from_bits(*y).to_f32());
            // Rounding to 8 bits, and sums in another order.
            let close = (x - y).abs() <= y.abs() / 128.0 + scale * 2e-5;
            if !close {
                wrong += 1;
                first.get_or_insert((i, x, y));
            }
        }
        match first {
            None => Ok(()),
            Some((i, x, y)) => {
                let n = problem.sizes[1] as usize;
                Err(format!("{wrong} wrong, the first at ({}, {}): {x}, cuBLAS {y}", i / n, i % n))
            }
        }
    }

    /// Seconds for each of `times` launches. The GPU starts when all of them are queued, so that it never waits
    /// for the host.
    fn time(&self, times: u32, launch: &mut dyn FnMut()) -> f64 {
        let gate = Arc::new(AtomicBool::new(false));
        let waiting = Arc::into_raw(gate.clone()).cast_mut().cast();
        // SAFETY: the callback gets back the reference that is given away here, and is called once.
        let answer =
            unsafe { cuLaunchHostFunc(self.raw.cu_stream(), Some(wait_for_gate), waiting) };
        assert_eq!(answer, CUresult::CUDA_SUCCESS);
        let begin = self.stream.record().unwrap();
        // A queue is not endless.
        let queued = times.min(256);
        (0..queued).for_each(|_| launch());
        gate.store(true, Ordering::Release);
        (queued..times).for_each(|_| launch());
        let end = self.stream.record().unwrap();
        end.synchronize().unwrap();
        begin.elapsed_until(&end).unwrap().as_secs_f64() / f64::from(times)
    }

    /// The times of cuBLAS (first) and of our kernels, one list of rounds each.
    fn compare(
        &self,
        regime: Regime,
        kernels: &[(String, Loaded)],
        problem: &mut Problem,
        rounds: usize,
        random: &mut Random,
    ) -> Vec<Vec<f64>> {
        let mut times = vec![Vec::new(); kernels.len() + 1];
        let mut seconds = vec![0.0; kernels.len() + 1];
        for round in 0..=rounds {
            let mut order: Vec<usize> = (0..times.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.next() as usize % (i + 1));
            }
            for which in order {
                let mut time = |times: u32| match which.checked_sub(1) {
                    None => self.time(times, &mut || self.cublas(problem)),
                    Some(i) => self.ours(&kernels[i].1, problem, |launch| self.time(times, launch)),
                };
                // The first round finds out how many launches a window takes.
                if round == 0 {
                    time(3);
                    seconds[which] = time(5);
                    continue;
                }
                let window = match regime {
                    Regime::Burst => {
                        self.stream.synchronize().unwrap();
                        std::thread::sleep(Duration::from_millis(40));
                        1e-3
                    }
                    Regime::Steady => 0.25,
                };
                let launches = (window / seconds[which]).round().max(1.0) as u32;
                times[which].push(time(launches));
            }
        }
        times
    }
}

/// Holds the stream until the host has queued its work.
unsafe extern "C" fn wait_for_gate(gate: *mut c_void) {
    // SAFETY: `Bench::time` gave one reference away.
    let gate = unsafe { Arc::from_raw(gate.cast::<AtomicBool>()) };
    while !gate.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Regime {
    Burst,
    Steady,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) {
        (values[half - 1] + values[half]) / 2.0
    } else {
        values[half]
    }
}

/// The 2.5 % and the 97.5 % quantile of the medians of samples drawn with repetition.
fn interval(values: &[f64], random: &mut Random) -> [f64; 2] {
    let mut medians: Vec<f64> = (0..2000)
        .map(|_| {
            let draw = |_| values[random.next() as usize % values.len()];
            median((0..values.len()).map(draw).collect())
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    [medians[50], medians[1949]]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let after = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let rounds = after("--rounds").map_or(8, |rounds| rounds.parse().expect("a number of rounds"));
    let only = after("--only");
    let mut sizes: Vec<u32> =
        args.iter().filter_map(|arg| arg.parse().ok()).filter(|n| *n >= 64).collect();
    if sizes.is_empty() {
        sizes = vec![2048, 4096, 8192];
    }
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("no figures: {error}"),
    };
    println!("{device}, CUDA {}, {}", device.cuda_version().unwrap(), device.target());
    let context = CudaContext::new(0).unwrap();
    let raw = context.new_stream().unwrap();
    let stream = Stream::from_cudarc(&raw).unwrap();
    let blas = CudaBlas::new(raw.clone()).unwrap();
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let sms = context.attribute(attribute).unwrap() as u32;
    let bench = Bench { device, raw, stream, blas, sms };
    let mut random = Random(2026);
    for size in sizes {
        let mut problem = bench.problem([size; 3], &mut random);
        let mut kernels = Vec::new();
        for (name, choice) in choices(size) {
            if only.is_some_and(|only| *only != name) {
                continue;
            }
            println!("{size} {name}");
            let kernel = bench.load(choice);
            match bench.check(&kernel, &mut problem) {
                Ok(()) => println!("  right"),
                Err(error) => {
                    println!("  WRONG: {error}");
                    continue;
                }
            }
            kernels.push((name, kernel));
        }
        for regime in [Regime::Burst, Regime::Steady] {
            if !has(&format!("{regime:?}").to_lowercase()) {
                continue;
            }
            let times = bench.compare(regime, &kernels, &mut problem, rounds, &mut random);
            let flops = 2.0 * f64::from(size).powi(3);
            let theirs = &times[0];
            println!(
                "{size} {regime:?} cuBLAS: {:.1} TFLOP/s",
                flops / median(theirs.clone()) / 1e12
            );
            for ((name, _), ours) in kernels.iter().zip(&times[1..]) {
                let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(a, b)| a / b).collect();
                let [low, high] = interval(&ratios, &mut random);
                println!(
                    "{size} {regime:?} {name}: {:.1} TFLOP/s, {:.4} x cuBLAS [{low:.4}, {high:.4}]",
                    flops / median(ours.clone()) / 1e12,
                    median(ratios)
                );
            }
        }
    }
}
