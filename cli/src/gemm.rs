//! `tilewright gemm`: builds a GEMM, runs it and checks the result.

use std::time::Instant;

use clap::{Args, ValueEnum};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Number, Target, bf16, f16};
use tilewright::kernels::Loaded;
use tilewright::kernels::gemm::{
    AnyGemm, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, InputTypes, Machine, Schedule,
};
use tilewright::runtime::{Device, DeviceChoice, Timing};
use tilewright_tune::{GemmModel, GemmSpace, Regime};

use super::machine::GpuName;
use super::progress::Meter;
use super::{Failure, print};

/// The options of `tilewright gemm`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problem: `MxNxK`, or one size for all three.
    #[arg(long, aliases = ["shapes", "size"], default_value = "256x256x256", value_parser = shape, value_name = "MxNxK", allow_hyphen_values = true)]
    shape: GemmProblem,
    /// Types of A and B: f32, tf32, f16 or bf16. `--explain` and `--emit` also accept the other
    /// types of `bench gemm`.
    #[arg(long, default_value = "f32", value_parser = dtype)]
    dtype: InputTypes,
    /// Configuration by name, such as `sm80_bf16_tt_128x256x64_s3_ms_strip8_direct` [default: the
    /// best guess].
    #[arg(long, alias = "configs", value_name = "NAME")]
    config: Option<GemmConfig>,
    /// Device to run on: `auto` (a GPU if there is one, else the simulator), `sim`, `cuda` or
    /// `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Seed of the input matrices.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    seed: u64,
    /// Print the kernel instead of running it.
    #[arg(long, value_name = "FORM")]
    emit: Option<Emit>,
    /// Explain the chosen configuration instead of running it: its predicted time by cause, and the
    /// runners-up.
    #[arg(long, conflicts_with_all = ["emit", "config"])]
    explain: bool,
    /// Print the names of all configurations that can run the problem, one per line, fastest first
    /// according to the model.
    #[arg(long, conflicts_with_all = ["emit", "config", "explain"])]
    list: bool,
    /// Target to build the kernel for [default: that of the device; with --emit, sm_80].
    #[arg(long)]
    target: Option<Target>,
    /// GPU for which `--explain`, `--list` and `--emit` choose configurations [default: the device;
    /// with --emit, h200].
    #[arg(long, value_name = "GPU", conflicts_with = "device")]
    machine: Option<GpuName>,
}

/// Parses a problem: `MxNxK`, or one size for all three.
pub(super) fn problem_of(text: &str) -> Option<GemmProblem> {
    let size =
        |text: &str| text.parse().ok().filter(|size| (1..=GemmProblem::MAX_SIZE).contains(size));
    match text.split('x').collect::<Vec<_>>()[..] {
        [all] => size(all).map(|size| GemmProblem::new(size, size, size)),
        [m, n, k] => Some(GemmProblem::new(size(m)?, size(n)?, size(k)?)),
        _ => None,
    }
}

/// Parses the problem of a command line option.
pub(super) fn shape(text: &str) -> Result<GemmProblem, String> {
    problem_of(text).ok_or_else(|| {
        let max = GemmProblem::MAX_SIZE;
        format!("expected MxNxK such as 4096x4096x1024, or one size for all three, from 1 to {max}")
    })
}

/// Element types on the command line. 8-bit floats are named without the `f8`.
const TYPES: [(&str, Scalar); 9] = [
    ("bf16", Scalar::Bf16),
    ("f16", Scalar::F16),
    ("tf32", Scalar::Tf32),
    ("f32", Scalar::F32),
    ("f64", Scalar::F64),
    ("e4m3", Scalar::F8E4M3),
    ("e5m2", Scalar::F8E5M2),
    ("i8", Scalar::I8),
    ("u8", Scalar::U8),
];

/// Parses an element type.
pub(super) fn scalar(text: &str) -> Result<Scalar, String> {
    let named = TYPES.iter().find(|(name, scalar)| *name == text || scalar.to_string() == text);
    named.map(|(_, scalar)| *scalar).ok_or_else(|| {
        let names = TYPES.map(|(name, _)| name);
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        format!("expected {} or {last}", others.join(", "))
    })
}

/// Parses the types of A and B: one type, or two 8-bit types such as `e4m3xe5m2`.
pub(super) fn dtype(text: &str) -> Result<InputTypes, String> {
    let types = match text.split_once('x') {
        Some((a, b)) => scalar(a).and_then(|a| Ok([a, scalar(b)?].into())),
        None => scalar(text).map(InputTypes::from),
    };
    types.map_err(|expected| format!("{expected}, or two types such as e4m3xe5m2"))
}

/// A form in which the kernel can be printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Emit {
    /// The text form of the IR.
    Ir,
    /// PTX.
    Ptx,
}

/// An element type that this command can multiply.
pub(super) trait Real: Number {
    fn of(x: f32) -> Self;
    fn to(self) -> f64;
    /// The relative rounding error of a sum in this type.
    const UNIT: f64;
}

macro_rules! real {
    ($($ty:ident: $of:expr, $to:expr, $unit:expr;)*) => {$(
        impl Real for $ty {
            fn of(x: f32) -> $ty {
                ($of)(x)
            }
            fn to(self) -> f64 {
                f64::from(($to)(self))
            }
            const UNIT: f64 = $unit;
        }
    )*};
}
real! {
    f32: |x| x, |x| x, 0.0;
    f16: f16::from_f32, f16::to_f32, 1.0 / 2048.0;
    bf16: bf16::from_f32, bf16::to_f32, 1.0 / 256.0;
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    if options.explain {
        return explain(options);
    }
    if options.list {
        return list(options);
    }
    if let Some(form) = options.emit {
        return emit(form, options);
    }
    let dtype = options.config.map_or(options.dtype, |config| config.inputs());
    match dtype.a {
        Scalar::F32 | Scalar::Tf32 => launch::<f32>(dtype, options),
        Scalar::F16 => launch::<f16>(dtype, options),
        Scalar::Bf16 => launch::<bf16>(dtype, options),
        _ => Err(Failure::input(format!(
            "`gemm` cannot create inputs of {dtype}: use `bench gemm` on a GPU, or `check gemm` on the simulator"
        ))),
    }
}

/// Returns the machine and the target to choose a configuration for.
fn machine(options: &Options) -> Result<(Machine, Target), Failure> {
    let (machine, target) = match options.machine {
        Some(gpu) => (gpu.machine(), gpu.target()),
        None => {
            let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
            let device = Device::open(choice).map_err(Failure::input)?;
            let target = if device.is_sim() { Target::SM_90A } else { device.target() };
            (Machine::of(&device), target)
        }
    };
    Ok((machine, options.target.unwrap_or(target)))
}

/// Prints why a configuration is chosen for the problem.
fn explain(options: &Options) -> Result<(), Failure> {
    let (machine, target) = machine(options)?;
    let wanted = wanted(options.dtype, target);
    print(&wanted.explain(&options.shape, &machine).map_err(Failure::input)?.to_string())
}

/// Prints the names of the configurations for a problem.
fn list(options: &Options) -> Result<(), Failure> {
    let (machine, target) = machine(options)?;
    let (problem, wanted) = (&options.shape, wanted(options.dtype, target));
    let regimes = Regime::of_sizes([problem.m, problem.n, problem.k]);
    let regime = regimes.first().copied().unwrap_or(Regime::Burst);
    let all = GemmSpace::around(&wanted, problem, &machine);
    if all.is_empty() {
        let error = wanted.best(problem, &machine).err();
        let why =
            error.map_or_else(|| "there are no candidates".to_owned(), |error| error.to_string());
        return Err(Failure::input(format!("no configuration can run the problem: {why}")));
    }
    let ranked = GemmModel::of(machine).rank(&all, problem, regime);
    print(&ranked.iter().map(|(config, _)| format!("{config}\n")).collect::<String>())
}

/// Prints the kernel as IR or PTX.
fn emit(form: Emit, options: &Options) -> Result<(), Failure> {
    let start = Instant::now();
    let target = options.machine.map_or(Target::SM_80, GpuName::target);
    let target = options.target.unwrap_or(target);
    let machine = options.machine.map_or(Machine::H200, GpuName::machine);
    let config = choose(options.dtype, target, &machine, &options.shape, options);
    let gemm = AnyGemm::new(config.map_err(Failure::input)?).map_err(Failure::input)?;
    let text = match form {
        Emit::Ir => gemm.ir().to_string(),
        Emit::Ptx => gemm.ptx().to_string(),
    };
    let elapsed = start.elapsed();
    print(&text)?;
    eprintln!("built, verified and written in {:.3} ms", elapsed.as_secs_f64() * 1e3);
    Ok(())
}

/// Returns the requested configuration, or else the model's best one.
fn choose(
    dtype: InputTypes,
    target: Target,
    machine: &Machine,
    problem: &GemmProblem,
    options: &Options,
) -> Result<GemmConfig, GemmError> {
    options.config.map_or_else(|| best_guess(dtype, target, machine, problem), Ok)
}

/// Returns the model's best configuration for row-major matrices.
pub(super) fn best_guess(
    dtype: InputTypes,
    target: Target,
    machine: &Machine,
    problem: &GemmProblem,
) -> Result<GemmConfig, GemmError> {
    wanted(dtype, target).best(problem, machine)
}

/// Returns a configuration with these types for row-major matrices.
fn wanted(dtype: InputTypes, target: Target) -> GemmConfig {
    // Tensor cores take 32-bit and 8-bit operands only if they are K-major.
    let is_k_major = dtype.a == Scalar::Tf32 || dtype.a.bits() == 8;
    let major_b = if is_k_major { Major::K } else { Major::Mn };
    GemmConfig { target, major_b, ..GemmConfig::sm90(dtype, [128, 128]) }
}

/// Returns uniform random entries in [-1, 1), rounded to the type.
fn matrix<T: Real>(rng: &mut ChaCha8Rng, len: usize) -> Vec<T> {
    (0..len).map(|_| T::of(rng.random_range(-1.0..1.0))).collect()
}

fn launch<T: Real>(dtype: InputTypes, options: &Options) -> Result<(), Failure> {
    if options.machine.is_some() {
        return Err(Failure::input(
            "`--machine` only chooses a configuration and does not run it: add `--explain`, `--list` or `--emit`",
        ));
    }
    let problem = &options.shape;
    let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
    let meter = Meter::new();
    let device = meter.open(choice).map_err(Failure::input)?;
    let target = options.target.unwrap_or(device.target());
    let config = choose(dtype, target, &Machine::of(&device), problem, options);
    let config = config.map_err(Failure::input)?;
    let function =
        Gemm::<T>::new(config).map_err(Failure::input)?.load(&device).map_err(Failure::run)?;

    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let (a, b) = (matrix::<T>(&mut rng, m * k), matrix::<T>(&mut rng, k * n));
    let (c, timing) = compute(&device, &function, problem, &a, &b).map_err(Failure::run)?;
    meter.phase("reference on the CPU", m);
    let error = largest_error(&config, problem, &a, &b, &c, &meter);
    meter.clear();
    // An entry is a sum of k products, each added with one rounding. By the classical bound its
    // error, relative to the sum of the absolute products, is at most k u / (1 - k u) with u =
    // 2^-24. Tensor cores truncate what they add, which costs at most 2 u, and the entry is rounded
    // once more to the type of C.
    let unit = f64::from(f32::EPSILON) / 2.0;
    let ku = k as f64 * if config.schedule == Schedule::Simt { unit } else { 2.0 * unit };
    let inputs = if dtype.a == Scalar::Tf32 { 1.0 / 512.0 } else { 0.0 };
    let allowed = ku / (1.0 - ku) + T::UNIT + inputs;

    let flops = problem.flops() as f64;
    let layout = match (config.major_a, config.major_b) {
        (Major::K, Major::Mn) => "row-major",
        (Major::K, Major::K) => "B column-major",
        (Major::Mn, Major::Mn) => "A column-major",
        (Major::Mn, Major::K) => "column-major",
    };
    let mut lines = [
        format!("device   {}", describe(&device)),
        format!(
            "problem  C[{m}x{n}] = A[{m}x{k}] B[{k}x{n}], {dtype}, {layout}, seed {}",
            options.seed
        ),
        format!("kernel   {config}"),
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

/// Describes the device and, for a GPU, its driver.
fn describe(device: &Device) -> String {
    match (device.cuda_version(), device.driver_release()) {
        (Some(version), Some(release)) => {
            format!("{} (driver {release}, CUDA {version})", device.name())
        }
        (Some(version), None) => format!("{} (CUDA {version})", device.name()),
        (None, _) => device.name().to_owned(),
    }
}

/// Runs the kernel and returns C with the time of a launch. On the simulator that is the only
/// launch; on a GPU the first launch warms up, and the time is the fastest of five more.
fn compute<T: Real>(
    device: &Device,
    function: &Loaded<Gemm<T>>,
    problem: &GemmProblem,
    a: &[T],
    b: &[T],
) -> Result<(Vec<T>, Timing), GemmError> {
    let (a, b) = (device.upload(a)?, device.upload(b)?);
    let mut c = device.zeros::<T>(problem.m as usize * problem.n as usize)?;
    let timing = {
        let mut launch = function.prepare(problem, GemmArgs::new(&a, &b, &mut c))?;
        let mut timing = launch.time()?;
        if !device.is_sim() {
            for _ in 0..5 {
                let next = launch.time()?;
                if next.elapsed < timing.elapsed {
                    timing = next;
                }
            }
        }
        timing
    };
    Ok((c.to_vec()?, timing))
}

/// Returns the largest `|c - r| / s` over the entries of C, where `r` is the `f64` result and `s`
/// the sum of the absolute products. A NaN counts as infinitely wrong.
fn largest_error<T: Real>(
    config: &GemmConfig,
    problem: &GemmProblem,
    a: &[T],
    b: &[T],
    c: &[T],
    meter: &Meter,
) -> f64 {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let b: Vec<f64> = b.iter().map(|b| b.to()).collect();
    let row_error = |(row, c): (usize, &[T])| {
        let mut sums = vec![(0.0f64, 0.0f64); n];
        for i in 0..k {
            let at = if config.major_a == Major::K { row * k + i } else { i * m + row };
            let a = a[at].to();
            for (column, (sum, absolute)) in sums.iter_mut().enumerate() {
                let at = if config.major_b == Major::K { column * k + i } else { i * n + column };
                let product = a * b[at];
                *sum += product;
                *absolute += product.abs();
            }
        }
        let errors = sums.into_iter().zip(c).map(|((sum, absolute), c)| {
            let error = (c.to() - sum).abs();
            match error {
                _ if error == 0.0 => 0.0,
                _ if error.is_nan() => f64::INFINITY,
                _ => error / absolute,
            }
        });
        let largest = errors.fold(0.0, f64::max);
        meter.step();
        largest
    };
    c.par_chunks_exact(n).enumerate().map(row_error).reduce(|| 0.0, f64::max)
}
