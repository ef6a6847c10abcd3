//! `tilewright bench small-gemm`: measures GEMMs with few rows beside a read of the same bytes.

use clap::Args;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{Element, bf16, f8e4m3, f16};
use tilewright::kernels::gemm::GemmProblem;
use tilewright::kernels::small_gemm::{SmallGemmProblem, WeightFormat};
use tilewright_tune::{Regime, SmallGemmTunable};

use super::super::Failure;
use super::super::gemm::shape;
use super::super::progress::Meter;
use super::attention::Dtype;
use super::candidates::Candidates;
use super::measurement::Measurement;

/// The options of `tilewright bench small-gemm`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problems, separated by commas: `MxNxK` [default: 1 to 64 rows with layers of large language
    /// models; with `--device sim` two small ones].
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST", value_parser = shape)]
    shapes: Vec<GemmProblem>,
    /// Format of the weights: `int4`, `int8`, `e4m3`, or `full` for the type of A; `g32`, `g64` or
    /// `g128` behind it for groups that share a scale, and `z` for zero points.
    #[arg(long, default_value = "int4g128", value_parser = format)]
    weights: WeightFormat,
    /// Element type of A, D and the scales.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// Candidates: `default` is the library's configuration, `all` adds alternatives, and `tuned`
    /// searches for the fastest.
    #[arg(long, alias = "config", default_value = "default")]
    configs: Candidates,
    /// Timing regime: latency, burst or steady.
    #[arg(long, alias = "regimes", default_value = "burst")]
    regime: Regime,
    #[command(flatten)]
    measurement: Measurement,
}

/// The default problems.
const SHAPES: &[[u32; 3]] = &[
    [1, 4096, 4096],
    [1, 8192, 8192],
    [1, 28_672, 8192],
    [1, 8192, 28_672],
    [16, 8192, 8192],
    [16, 28_672, 8192],
    [64, 28_672, 8192],
];
/// The default problems on the simulator.
const SIMULATED: &[[u32; 3]] = &[[1, 32, 512], [3, 40, 264]];

fn format(text: &str) -> Result<WeightFormat, String> {
    let found = WeightFormat::all().find(|format| format.to_string() == text);
    let names: Vec<_> = WeightFormat::all().map(|format| format.to_string()).collect();
    found.ok_or_else(|| {
        format!("`{text}` is not a format of weights: expected one of {}", names.join(", "))
    })
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options),
        Dtype::F16 => measure::<f16>(options),
    }
}

fn measure<T: VectorElement<2> + Converted>(options: &Options) -> Result<(), Failure> {
    match options.weights {
        WeightFormat::Int4 { .. } => measure_weights::<T, u32>(options),
        WeightFormat::Int8 { .. } => measure_weights::<T, i8>(options),
        WeightFormat::E4m3 { .. } => measure_weights::<T, f8e4m3>(options),
        WeightFormat::Full => measure_weights::<T, T>(options),
    }
}

fn measure_weights<T: VectorElement<2> + Converted, W: Element>(
    options: &Options,
) -> Result<(), Failure> {
    let meter = Meter::new();
    let device = options.measurement.open(&meter)?;
    let given = options.shapes.iter().map(|GemmProblem { m, n, k, .. }| [*m, *n, *k]);
    let shapes: Vec<_> = match options.shapes[..] {
        [] => if device.is_sim() { SIMULATED } else { SHAPES }.to_vec(),
        _ => given.collect(),
    };
    let kernel = |[rows, columns, depth]: [u32; 3]| {
        let problem = SmallGemmProblem::new(rows, columns, depth);
        SmallGemmTunable::<T, W>::new(options.weights, problem)
    };
    let kernels: Vec<_> = shapes.into_iter().map(kernel).collect();
    options.measurement.run(&meter, &device, &kernels, options.configs, options.regime)
}
