//! `tilewright bench`: kernels of the library, measured.

mod attention;
mod beside_plain;
mod candidates;
mod decode;
mod fit;
mod input;
mod measure;
mod parallel;
mod random;
mod rank;
mod rows;

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
use tilewright::tune::{GemmSpace, Machine, Regime};

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
    /// Matrix products: tunes each, and times the best beside cuBLAS. Without a GPU, the model's order.
    Gemm(Gemm),
    /// Softmax of rows: times it beside copies of the same bytes. Needs a GPU.
    Softmax(rows::SoftmaxOptions),
    /// RMSNorm and LayerNorm of rows with a weight: times them beside copies of the same bytes. Needs a GPU.
    Norm(rows::NormOptions),
    /// Reductions along an axis, and the largest elements of rows: times them beside reads of the same bytes. Needs a GPU.
    Reduce(rows::ReduceOptions),
    /// Transposes: times them beside copies of the same bytes. Needs a GPU.
    Transpose(rows::Rows),
    /// Permutations of the modes of rows: times them beside copies of the same bytes. Needs a GPU.
    Permute(rows::PermuteOptions),
    /// Gather and scatter of rows by a list: times them beside copies of the same bytes. Needs a GPU.
    Gather(rows::GatherOptions),
    /// Functions of elements: times them beside copies of the same bytes. Needs a GPU.
    Elementwise(rows::ElementwiseOptions),
    /// Attention forward: times it, by operations per second. Needs a GPU.
    Attention(attention::Options),
    /// Attention of the next tokens over a paged cache: times it beside a kernel that reads the cache. Needs a GPU.
    Decode(decode::Options),
    /// Parallel linear layers on all GPUs: communication behind products, beside one after the other. Needs two GPUs and
    /// NCCL.
    Parallel(parallel::Options),
    /// Any other name: runs the program `tilewright-bench-NAME`, which measures a kernel of its own by `tune::bench`.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

/// The options of `tilewright bench gemm`.
#[derive(Args, Debug)]
struct Gemm {
    /// Problems, separated by commas: `4096`, or `MxNxK`; a file with one a line; or `llm`: M of 64 to 1024, and N and K of 4096,
    /// 8192, 14336 and 28672 [default: 512 to 16384 and usual sizes of language models].
    #[arg(long, alias = "shape", value_name = "LIST|FILE|llm")]
    shapes: Option<String>,
    /// Problems of random sizes instead, with the configuration of a program that does not tune: a third with N and K
    /// multiples of 64, a third multiples of 8, a third any. `--candidates` measures more than the first configuration.
    #[arg(long, value_name = "COUNT", conflicts_with = "shapes", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    random: Option<u32>,
    /// The problems of `--shapes` as `--random` measures them: with the configuration of a program that does not tune.
    #[arg(long, conflicts_with_all = ["random", "groups", "swiglu"])]
    untuned: bool,
    /// The seed of `--random` and `--groups`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of groups of rows of random lengths, each with a matrix B of its own: measures products of groups beside
    /// the plain products and a call of cuBLAS for each group instead. `--candidates` measures more than the first
    /// configuration. Needs a GPU.
    #[arg(long, value_name = "COUNT", conflicts_with = "random", value_parser = clap::value_parser!(u32).range(1..=4096))]
    groups: Option<u32>,
    /// Instead, products with SwiGLU of pairs of columns, beside the plain products. Needs a GPU.
    #[arg(long, conflicts_with_all = ["random", "groups"])]
    swiglu: bool,
    /// The types in which A and B are multiplied: bf16, f16, tf32, f32, f64, e4m3, e5m2, i8 or u8, or two of 8 bits such as e4m3xe5m2 and
    /// i8xu8. 8-bit floats are measured beside cuBLASLt, which has no product of e5m2 and e5m2; with u8, kernels are
    /// measured alone.
    #[arg(long, default_value = "bf16", value_parser = dtype)]
    dtype: InputTypes,
    /// The type of D [default: that of A and B; f32 for tf32, bf16 for e4m3 and e5m2, i32 for i8 and u8].
    #[arg(long, value_parser = scalar, value_name = "DTYPE")]
    output: Option<Scalar>,
    /// Layout of A and B, as BLAS names it: `tn` (both contiguous along K), `tt`, `nn` or `nt`.
    #[arg(long, default_value = "tn", value_parser = input::layout, value_name = "NAME")]
    layout: [Major; 2],
    /// The candidates: `default` (the first of the model's order), `all`, names of configurations separated by commas, or
    /// a file with one name a line, as `tilewright gemm --list` prints them.
    #[arg(
        long,
        alias = "config",
        default_value = "default",
        value_name = "default|all|NAMES|FILE"
    )]
    configs: String,
    /// Regimes of timing, separated by commas: latency, burst, steady [default: what fits the sizes].
    #[arg(long, alias = "regime", value_delimiter = ',')]
    regimes: Vec<Regime>,
    /// Rounds of the comparison.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Upper bound of the measured candidates [default: as the regime allows].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "COUNT")]
    candidates: Option<u32>,
    /// Device to run on: `auto` (a GPU if there is one), `cuda` or `cuda:N`; `sim` for the model alone.
    #[arg(long, default_value = "auto")]
    device: String,
    /// The GPU to rank configurations for, without a GPU: the times are predicted, and nothing is measured [default: h200].
    #[arg(long, value_name = "GPU", conflicts_with = "device")]
    machine: Option<GpuName>,
    /// Target of the model without a GPU [default: that of `--machine`].
    #[arg(long)]
    target: Option<Target>,
    /// The folder of results, which are taken up again [default: in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Write each round of the comparisons to a file. This option and the next two need a GPU.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a chart of the comparisons to a file: with `--random` and `--untuned`, the ratio to cuBLAS over the size.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the times of all candidates to a file, for `--fit`. With `--random` and `--untuned` half of the candidates, 12 by
    /// default, are the first of the model's order, and the others are spread over all with at most 1.4 times the smallest predicted time.
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    /// Fit the model to the times of such a file, say how good its order is, and end.
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
}

impl Gemm {
    /// Refuses files of measurements, where nothing is measured.
    fn check_nothing_to_write(&self) -> Result<(), Failure> {
        let files = [("--json", &self.json), ("--svg", &self.svg), ("--sweep", &self.sweep)];
        match files.iter().find(|(_, file)| file.is_some()) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::input(format!(
                "`{option}` writes measurements, and without a GPU nothing is measured: leave it out, or name a GPU with \
                 `--device cuda`"
            ))),
        }
    }

    /// Opens the device; with `--machine` the simulator, which measures nothing.
    fn open(&self) -> Result<Device, Failure> {
        let choice = match self.machine {
            Some(_) => DeviceChoice::Sim,
            None => self.device.parse().map_err(Failure::input)?,
        };
        Device::open(choice).map_err(Failure::input)
    }

    /// The GPU that stands for the simulator.
    fn gpu(&self) -> GpuName {
        self.machine.unwrap_or(GpuName::H200)
    }

    /// Returns the machine and the target that configurations are for.
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

/// The geometric mean; 1 of no numbers.
fn geometric_mean(numbers: &[f64]) -> f64 {
    (numbers.iter().map(|number| number.ln()).sum::<f64>() / numbers.len().max(1) as f64).exp()
}

/// Runs the benchmark of another program, as `git` and `cargo` run commands that they do not have.
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
            "`{name}` is not a benchmark: expected gemm, softmax, norm, reduce, transpose, permute, gather, elementwise, attention, decode or parallel, \
             or the name of a program `{program}` of a folder in `PATH`"
        ))),
        Err(error) => Err(Failure::input(format!("`{program}`: {error}"))),
    }
}
