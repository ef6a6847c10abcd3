//! Measures what it costs to load kernels soundly: `cargo bench --bench checked` on a GPU, takes
//! some seconds.
//!
//! Each kernel is loaded by default, which proves it and checks the rest, and without checks. The
//! launches of the two alternate. Prints the ratio of the median times with its bar, and fails if a
//! bar is missed. Without a GPU it only says so, because the simulator has no meaningful times.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark ends with the message")]

use std::process::ExitCode;

use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::{Device, Grid, LoadOptions};
use tilewright_tune::{interleave, median};

/// How often each kernel is launched, with checks and without.
const ROUNDS: usize = 50;

/// Elements per buffer of the memory-bound kernels: 256 MiB.
const LEN: usize = 1 << 26;

/// M, N and K of the GEMM.
const SIZE: u32 = 4096;

const THREADS: u32 = 256;

/// The largest ratio of the times.
const BAR: f64 = 1.03;

/// A load without proof and checks, and the default.
#[allow(unsafe_code, reason = "only a load without checks shows what they cost")]
fn options() -> [LoadOptions<'static>; 2] {
    // SAFETY: the kernels stay inside their buffers, which are as long as the sizes say.
    [unsafe { LoadOptions::default().unchecked() }, LoadOptions::default()]
}

/// Times a kernel without checks (`which` is 0) and with checks (1). Returns whether the ratio is
/// at most [`BAR`].
fn compare(name: &str, mut time: impl FnMut(usize) -> f64) -> bool {
    for launch in 0..4 {
        time(launch % 2);
    }
    let times = interleave::<()>(2, ROUNDS, 1, |which| Ok(time(which)));
    let [plain, checked] =
        [0, 1].map(|i| times[i].as_deref().ok().and_then(median).expect("it was timed"));
    let ratio = checked / plain;
    let verdict = if ratio <= BAR { "met" } else { "MISSED" };
    let [plain, checked] = [plain, checked].map(|seconds| seconds * 1e6);
    println!(
        "{name}: {plain:.1} us, with checks {checked:.1} us, ratio {ratio:.3} (bar {BAR}: {verdict})"
    );
    ratio <= BAR
}

/// Per thread, computes `y = a x + y` for one element, or copies a vector of 4.
fn elements(device: &Device, vector: u32) -> bool {
    type Params = (f32, Global<f32>, GlobalMut<f32>, i32);
    let kernel = Kernel::<Params>::build("elements", device.target(), |k, (a, x, y, n)| {
        let i = (k.block_idx().x * k.block_dim().x + k.thread_idx().x) * vector as i32;
        k.if_(i.lt(n), |_| match vector {
            1 => y.store(i, a * x.load(i) + y.load(i)),
            _ => {
                let value = x.load_vector::<4>(i);
                y.store_vector(i, value);
            }
        });
    })
    .expect("the kernel is right");
    let functions =
        options().map(|options| device.load_with(options, &kernel).expect("the kernel loads"));
    let x = device.zeros::<f32>(LEN).expect("there is memory");
    let mut y = device.zeros::<f32>(LEN).expect("there is memory");
    let grid = Grid::cover(LEN / vector as usize, THREADS);
    let name = if vector == 1 { "axpy" } else { "copy of vectors" };
    compare(name, |which| {
        let timing = functions[which].time(grid, (2.0, &x, &mut y, LEN as i32));
        timing.expect("it runs").elapsed.as_secs_f64()
    })
}

fn gemm(device: &Device, config: GemmConfig) -> bool {
    let problem = GemmProblem::new(SIZE, SIZE, SIZE);
    let gemm = Gemm::<bf16>::new(config).expect("it is valid");
    let functions =
        options().map(|options| gemm.load_with(options, device).expect("the kernel loads"));
    let len = (SIZE * SIZE) as usize;
    let data: Vec<bf16> = (0..len).map(|i| bf16::from_f32((i % 13) as f32 - 6.0)).collect();
    let upload = || device.upload(&data).expect("there is memory");
    let (a, b, mut d) = (upload(), upload(), upload());
    compare(&config.to_string(), |which| {
        let launch = functions[which].prepare(&problem, GemmArgs::new(&a, &b, &mut d));
        let timing = launch.expect("the buffers fit").time().expect("it runs");
        timing.elapsed.as_secs_f64()
    })
}

fn main() -> ExitCode {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing is measured: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let target = device.target();
    let mut met = vec![elements(&device, 1), elements(&device, 4)];
    met.push(gemm(&device, GemmConfig::sm80(target, Scalar::Bf16, [128, 128])));
    if target == Target::SM_90A {
        met.push(gemm(&device, GemmConfig::sm90(Scalar::Bf16, [128, 128])));
    }
    if met.iter().all(|met| *met) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
