//! `tilewright gemm`: from layouts to a checked result.

use std::time::Instant;

use clap::{Args, ValueEnum};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tilewright::ir::Target;
use tilewright::kernels::gemm::{SimtGemm, SimtSignature};
use tilewright::runtime::{Device, DeviceChoice, Function, Grid, RuntimeError, Timing};

use super::{Failure, print};

/// The options of `tilewright gemm`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Rows of A and C.
    #[arg(long, default_value = "256", value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    m: u32,
    /// Columns of B and C.
    #[arg(long, default_value = "256", value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    n: u32,
    /// Columns of A and rows of B.
    #[arg(long, default_value = "256", value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    k: u32,
    /// Where to run: `auto` (a GPU if there is one, else the simulator), `sim`, `cuda` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// The seed of the input matrices.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    seed: u64,
    /// Tiles along k that are fetched ahead while one is multiplied; 0 for none.
    #[arg(long, default_value_t = SimtGemm::PREFETCH_STAGES, value_name = "STAGES")]
    prefetch_stages: u32,
    /// Print the kernel instead of running it.
    #[arg(long, value_name = "FORM")]
    emit: Option<Emit>,
    /// What to build the kernel for [default: the device; with --emit, sm_80].
    #[arg(long)]
    target: Option<Target>,
}

/// A size of a matrix.
fn size(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|size| (1..=SimtGemm::MAX_SIZE).contains(size))
        .ok_or_else(|| format!("a size is a whole number from 1 to {}", SimtGemm::MAX_SIZE))
}

/// A form in which the kernel can be printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Emit {
    /// The text form of the IR.
    Ir,
    /// PTX.
    Ptx,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let gemm = SimtGemm { m: options.m, n: options.n, k: options.k };
    match options.emit {
        Some(form) => emit(&gemm, form, options),
        None => launch(&gemm, options),
    }
}

fn emit(gemm: &SimtGemm, form: Emit, options: &Options) -> Result<(), Failure> {
    let target = options.target.unwrap_or(Target::SM_80);
    let start = Instant::now();
    let kernel = gemm.build_with(target, options.prefetch_stages).map_err(Failure::input)?;
    let text = match form {
        Emit::Ir => kernel.to_string(),
        Emit::Ptx => kernel.ptx().to_string(),
    };
    let elapsed = start.elapsed();
    print(&text)?;
    eprintln!("built, verified and written in {:.3} ms", elapsed.as_secs_f64() * 1e3);
    Ok(())
}

/// A row-major matrix with entries uniform in [-1, 1).
fn matrix(rng: &mut ChaCha8Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn launch(gemm: &SimtGemm, options: &Options) -> Result<(), Failure> {
    let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
    let device = Device::open(choice).map_err(Failure::input)?;
    let target = options.target.unwrap_or(device.target());
    let kernel = gemm.build_with(target, options.prefetch_stages).map_err(Failure::input)?;
    let function = device.load(&kernel).map_err(Failure::run)?;

    let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|size| size as usize);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let (a, b) = (matrix(&mut rng, m * k), matrix(&mut rng, k * n));
    let (c, timing) = compute(&device, &function, gemm, &a, &b).map_err(Failure::run)?;
    let error = largest_error(&a, &b, &c, n, k);
    // An entry is a sum of k products, each added with one rounding: by the classical bound its error,
    // relative to the sum of the absolute products, is at most k u / (1 - k u) with u = 2^-24.
    let ku = k as f64 * f64::from(f32::EPSILON) / 2.0;
    let allowed = ku / (1.0 - ku);

    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    let mut lines = [
        format!("device   {}", describe(&device)),
        format!(
            "problem  C[{m}x{n}] = A[{m}x{k}] B[{k}x{n}], f32, row-major, seed {}",
            options.seed
        ),
        format!("tile     {}, {} fetched ahead", SimtGemm::TILE, options.prefetch_stages),
        format!("error    {error:.2e} relative to |A||B| at most ({allowed:.2e} allowed)"),
        format!("time     {:.3} ms", timing.elapsed.as_secs_f64() * 1e3),
        format!("speed    {:.2} GFLOP/s", timing.rate(flops) / 1e9),
    ]
    .join("\n");
    if let Some(ops) = timing.thread_ops {
        lines += &format!(", {:.0} M thread-operations/s", timing.rate(ops as f64) / 1e6);
    }
    print(&(lines + "\n"))?;
    if error <= allowed { Ok(()) } else { Err(Failure::run("the result is wrong")) }
}

/// The device and, for a GPU, its driver.
fn describe(device: &Device) -> String {
    match (device.cuda_version(), device.driver_release()) {
        (Some(version), Some(release)) => {
            format!("{} (driver {release}, CUDA {version})", device.name())
        }
        (Some(version), None) => format!("{} (CUDA {version})", device.name()),
        (None, _) => device.name().to_owned(),
    }
}

/// Runs the kernel and returns C with the time of a launch: the first one on the simulator; on a GPU, where
/// the first launch warms up, the fastest of five more.
fn compute(
    device: &Device,
    function: &Function<SimtSignature>,
    gemm: &SimtGemm,
    a: &[f32],
    b: &[f32],
) -> Result<(Vec<f32>, Timing), RuntimeError> {
    let (a, b) = (device.upload(a)?, device.upload(b)?);
    let mut c = device.zeros::<f32>(gemm.m as usize * gemm.n as usize)?;
    let grid = Grid::new(gemm.blocks(), [SimtGemm::THREADS, 1, 1]);
    let mut timing = function.time(grid, (&a, &b, &mut c))?;
    if !device.is_sim() {
        for _ in 0..5 {
            let next = function.time(grid, (&a, &b, &mut c))?;
            if next.elapsed < timing.elapsed {
                timing = next;
            }
        }
    }
    Ok((c.to_vec()?, timing))
}

/// The largest of `|c - r| / s` over the entries of C, where `r` is the product in `f64` and `s` the sum of
/// the absolute products. An entry that is not a number counts as infinitely wrong.
fn largest_error(a: &[f32], b: &[f32], c: &[f32], n: usize, k: usize) -> f64 {
    let row_error = |(a, c): (&[f32], &[f32])| {
        let mut sums = vec![(0.0f64, 0.0f64); n];
        for (a, b) in a.iter().zip(b.chunks_exact(n)) {
            for ((sum, absolute), b) in sums.iter_mut().zip(b) {
                let product = f64::from(*a) * f64::from(*b);
                *sum += product;
                *absolute += product.abs();
            }
        }
        let errors = sums.into_iter().zip(c).map(|((sum, absolute), c)| {
            let error = (f64::from(*c) - sum).abs();
            match error {
                _ if error == 0.0 => 0.0,
                _ if error.is_nan() => f64::INFINITY,
                _ => error / absolute,
            }
        });
        errors.fold(0.0, f64::max)
    };
    a.par_chunks_exact(k).zip(c.par_chunks_exact(n)).map(row_error).reduce(|| 0.0, f64::max)
}
