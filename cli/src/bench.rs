//! `tilewright bench`: measures the library's kernels.

mod attention;
mod beside_plain;
mod candidates;
mod decode;
mod fit;
mod input;
mod measure;
mod measurement;
mod parallel;
mod random;
mod rank;
mod rows;
mod scaled_gemm;
mod small_gemm;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};
use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::InputTypes;
use tilewright::runtime::{Device, DeviceChoice};
use tilewright_tune::{GemmSpace, Machine, Regime};

use super::Failure;
use super::gemm::{dtype, scalar};
use super::machine::GpuName;
use beside_plain::Form;

/// The options of `tilewright bench`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = false)]
pub(super) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// GEMM: tunes each problem and compares the best kernel with cuBLAS. Without a GPU, ranks
    /// configurations with the model.
    Gemm(Gemm),
    /// Row softmax, compared with a copy of the same bytes. Needs a GPU.
    Softmax(rows::SoftmaxOptions),
    /// RMSNorm and LayerNorm of rows with a weight, compared with a copy of the same bytes. Needs a
    /// GPU.
    Norm(rows::NormOptions),
    /// Reductions along an axis, and top-k of each row, compared with a read of the same bytes.
    /// Needs a GPU.
    Reduce(rows::ReduceOptions),
    /// Transposes, compared with a copy of the same bytes. Needs a GPU.
    Transpose(rows::Rows),
    /// Permutations of modes, compared with a copy of the same bytes. Needs a GPU.
    Permute(rows::PermuteOptions),
    /// Row gather and scatter by an index list, compared with a copy of the same bytes. Needs a
    /// GPU.
    Gather(rows::GatherOptions),
    /// Elementwise functions, compared with a copy of the same bytes. Needs a GPU.
    Elementwise(rows::ElementwiseOptions),
    /// Attention forward, in operations per second. Needs a GPU.
    Attention(attention::Options),
    /// Attention decode over a paged cache, compared with a kernel that only reads the cache. Needs
    /// a GPU.
    Decode(decode::Options),
    /// GEMM of 8-bit floats with block scales, plain, batched or grouped, in operations per second.
    /// Needs a GPU.
    ScaledGemm(scaled_gemm::Options),
    /// GEMM with few rows and 4-bit weights, compared with a read of the same bytes. Needs a GPU.
    SmallGemm(small_gemm::Options),
    /// Parallel linear layers on all GPUs: overlaps communication with GEMMs and compares that with
    /// running one after the other. Needs two GPUs and NCCL.
    Parallel(parallel::Options),
    /// Any other name runs the program `tilewright-bench-NAME`, which measures a kernel of its own
    /// with `tilewright_tune::bench`.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

/// The options of `tilewright bench gemm`.
#[derive(Args, Debug)]
struct Gemm {
    /// Problems, separated by commas: `4096` or `MxNxK`; or a file with one per line; or `llm`,
    /// which is M from 64 to 1024 with N and K of 4096, 8192, 14336 and 28672 [default: 512 to
    /// 16384 and usual sizes of language models].
    #[arg(long, alias = "shape", value_name = "LIST|FILE|llm")]
    shapes: Option<String>,
    /// Measure this many problems of random size instead, with the configuration that a program
    /// gets without tuning. In a third of them N and K are multiples of 64, in a third multiples of
    /// 8, in the rest arbitrary. `--candidates` measures more than the first configuration.
    #[arg(long, value_name = "COUNT", conflicts_with = "shapes", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    random: Option<u32>,
    /// Measure the problems of `--shapes` like `--random`: with the configuration that a program
    /// gets without tuning.
    #[arg(long, conflicts_with_all = ["random", "groups", "swiglu"])]
    untuned: bool,
    /// Seed for `--random` and `--groups`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure grouped GEMM instead: this many groups of rows with random lengths, each with its
    /// own B, compared with a plain GEMM and with one cuBLAS call per group. `--candidates`
    /// measures more than the first configuration. Needs a GPU.
    #[arg(long, value_name = "COUNT", conflicts_with = "random", value_parser = clap::value_parser!(u32).range(1..=4096))]
    groups: Option<u32>,
    /// Measure GEMM with SwiGLU of column pairs instead, compared with a plain GEMM. Needs a GPU.
    #[arg(long, conflicts_with_all = ["random", "groups"])]
    swiglu: bool,
    /// Types in which A and B are multiplied: bf16, f16, tf32, f32, f64, e4m3, e5m2, i8 or u8, or
    /// two 8-bit types such as e4m3xe5m2 or i8xu8. 8-bit floats are compared with cuBLASLt, which
    /// has no GEMM for e5m2 by e5m2. With u8, there is nothing to compare with.
    #[arg(long, default_value = "bf16", value_parser = dtype)]
    dtype: InputTypes,
    /// Type of D [default: the type of A and B; f32 for tf32, bf16 for e4m3 and e5m2, i32 for i8
    /// and u8].
    #[arg(long, value_parser = scalar, value_name = "DTYPE")]
    output: Option<Scalar>,
    /// Layout of A and B in BLAS terms: `tn` (both contiguous along K), `tt`, `nn` or `nt`.
    #[arg(long, default_value = "tn", value_parser = input::layout, value_name = "NAME")]
    layout: [Major; 2],
    /// Candidates: `default` (the model's first ones), `all`, configuration names separated by
    /// commas, or a file with one name per line, as `tilewright gemm --list` prints them.
    #[arg(
        long,
        alias = "config",
        default_value = "default",
        value_name = "default|all|NAMES|FILE"
    )]
    configs: String,
    /// Timing regimes, separated by commas: latency, burst, steady [default: depends on the sizes].
    #[arg(long, alias = "regime", value_delimiter = ',')]
    regimes: Vec<Regime>,
    /// How many comparison rounds to run.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Maximum number of candidates to measure [default: depends on the regime].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "COUNT")]
    candidates: Option<u32>,
    /// Device to run on: `auto` (a GPU if there is one), `cuda` or `cuda:N`. With `sim`, nothing
    /// runs: the model ranks the configurations.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Without a GPU: the GPU to rank configurations for. Times are predicted, nothing is measured
    /// [default: h200].
    #[arg(long, value_name = "GPU", conflicts_with = "device")]
    machine: Option<GpuName>,
    /// Without a GPU: the target to rank configurations for [default: that of `--machine`].
    #[arg(long)]
    target: Option<Target>,
    /// Folder that keeps results, which later runs reuse [default: in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Write every round of the comparisons to this file. Needs a GPU, like the next two options.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the comparisons as a chart in this file. With `--random` and `--untuned`, it plots the
    /// ratio to cuBLAS over the size.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the times of all candidates to this file, for `--fit`. With `--random` and
    /// `--untuned`, measures 12 candidates by default: half are the model's first ones, the others
    /// are spread over all that it predicts to take at most 1.4 times as long as the fastest.
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    /// Fit the model to the times in a file from `--sweep`, report how well it ranks, and exit.
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
}

impl Gemm {
    /// Refuses output files if nothing is measured.
    fn check_nothing_to_write(&self) -> Result<(), Failure> {
        let files = [("--json", &self.json), ("--svg", &self.svg), ("--sweep", &self.sweep)];
        match files.iter().find(|(_, file)| file.is_some()) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::input(format!(
                "`{option}` writes measurements, but without a GPU nothing is measured: leave it \
                 out, or name a GPU with `--device cuda`"
            ))),
        }
    }

    /// Opens the device. With `--machine` this is the simulator, which measures nothing.
    fn open(&self) -> Result<Device, Failure> {
        let choice = match self.machine {
            Some(_) => DeviceChoice::Sim,
            None => self.device.parse().map_err(Failure::input)?,
        };
        Device::open(choice).map_err(Failure::input)
    }

    /// Returns the GPU that the simulator stands for.
    fn gpu(&self) -> GpuName {
        self.machine.unwrap_or(GpuName::H200)
    }

    /// Returns the machine and the target to choose configurations for.
    fn machine_of(&self, device: &Device) -> (Machine, Target) {
        match device.is_sim() {
            true => (self.gpu().machine(), self.target.unwrap_or(self.gpu().target())),
            false => (Machine::of(device), device.target()),
        }
    }

    fn space(&self, target: Target) -> GemmSpace {
        let space = GemmSpace::new(target, self.dtype);
        let [major_a, major_b] = self.layout;
        GemmSpace { output: self.output.unwrap_or(space.output), major_a, major_b, ..space }
    }
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let gemm = match &options.what {
        What::Gemm(gemm) => gemm,
        What::Softmax(options) => return rows::softmax(options),
        What::Norm(options) => return rows::norm(options),
        What::Reduce(options) => return rows::reduce(options),
        What::Transpose(options) => return rows::transpose(options),
        What::Permute(options) => return rows::permute(options),
        What::Gather(options) => return rows::gather(options),
        What::Elementwise(options) => return rows::elementwise(options),
        What::Attention(options) => return attention::run(options),
        What::Decode(options) => return decode::run(options),
        What::ScaledGemm(options) => return scaled_gemm::run(options),
        What::SmallGemm(options) => return small_gemm::run(options),
        What::Parallel(options) => return parallel::run(options),
        What::Program(args) => return program(args),
    };
    if let Some(file) = &gemm.fit {
        return fit::run(file);
    }
    let drawn = match gemm.random {
        Some(count) => Some(random::draw(count, gemm.seed)),
        None if gemm.untuned => Some(random::given(&input::shapes(gemm.shapes.as_deref())?)),
        None => None,
    };
    if let Some(drawn) = drawn {
        let device = gemm.open()?;
        if device.is_sim() {
            gemm.check_nothing_to_write()?;
        }
        return random::run(gemm, &device, &drawn);
    }
    let shapes = input::shapes(gemm.shapes.as_deref())?;
    let form = gemm.groups.map(Form::Groups).or(gemm.swiglu.then_some(Form::Swiglu));
    if let Some(form) = form {
        let device = gemm.open()?;
        return beside_plain::run(gemm, &device, &shapes, form);
    }
    let configs = input::configs(&gemm.configs)?;
    let device = gemm.open()?;
    let (machine, target) = gemm.machine_of(&device);
    configs.check(&gemm.space(target), &shapes, &machine)?;
    if device.is_sim() {
        gemm.check_nothing_to_write()?;
        return rank::run(gemm, &gemm.space(target), &shapes, &configs);
    }
    measure::run(gemm, &device, &shapes, &configs)
}

/// Returns the geometric mean, or 1 for an empty list.
fn geometric_mean(numbers: &[f64]) -> f64 {
    (numbers.iter().map(|number| number.ln()).sum::<f64>() / numbers.len().max(1) as f64).exp()
}

/// Runs another program's benchmark, as `git` and `cargo` do for commands that they do not have.
fn program(args: &[OsString]) -> Result<(), Failure> {
    let [name, args @ ..] = args else {
        return Err(Failure::input("`bench` needs a name"));
    };
    let name = name.to_string_lossy();
    let program = format!("tilewright-bench-{name}");
    match Command::new(&program).args(args).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::run(format!("`{program}`: {status}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::input(format!(
            "`{name}` is not a benchmark: expected gemm, softmax, norm, reduce, transpose, permute, gather, elementwise, attention, decode, scaled-gemm, small-gemm or parallel, \
             or a name for which there is a program `{program}` in `PATH`"
        ))),
        Err(error) => Err(Failure::input(format!("`{program}`: {error}"))),
    }
}
