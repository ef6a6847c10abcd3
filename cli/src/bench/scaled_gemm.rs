//! `tilewright bench scaled-gemm`: measures GEMMs of 8-bit floats with block scales.

use clap::{Args, ValueEnum};
use tilewright::ir::builder::Converted;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::gemm::GemmProblem;
use tilewright::kernels::scaled_gemm::{BScaleBlock, ScaleStrides, ScaledGemmProblem};
use tilewright::runtime::{Device, DeviceChoice};
use tilewright_tune::{Regime, ScaledGemmTunable};

use super::super::Failure;
use super::super::gemm::shape;
use super::super::progress::Meter;
use super::attention::Dtype;
use super::candidates::Candidates;
use super::measurement::Measurement;

/// The options of `tilewright bench scaled-gemm`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problems, separated by commas: `MxNxK` [default: nine layers of large language models; with
    /// `--device sim` two small ones].
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST", value_parser = shape)]
    shapes: Vec<GemmProblem>,
    /// Which elements of B share a scale. The scales of A belong to 1x128.
    #[arg(long, value_name = "BLOCK", default_value = "128x128")]
    b_scales: Block,
    /// Measure a batch of so many GEMMs of each problem.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Option<u32>,
    /// Measure grouped GEMM: divide the M rows into so many groups of random lengths, each with a B
    /// of its own.
    #[arg(long, value_name = "COUNT", conflicts_with = "batch", value_parser = clap::value_parser!(u32).range(1..=4096))]
    groups: Option<u32>,
    /// Element type of D.
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

/// Which elements of B share a scale, as the command line spells it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Block {
    /// 128 rows and 128 elements along K.
    #[value(name = "128x128")]
    Square128,
    /// 128 elements along K of one row.
    #[value(name = "1x128")]
    Row128,
}

/// The default problems.
const SHAPES: &[[u32; 3]] = &[
    [8192, 8192, 8192],
    [4096, 7168, 16_384],
    [4096, 4096, 7168],
    [4096, 24_576, 1536],
    [4096, 32_768, 512],
    [4096, 7168, 2048],
    [128, 7168, 16_384],
    [64, 7168, 16_384],
    [64, 24_576, 1536],
];
/// The default problems on the simulator.
const SIMULATED: &[[u32; 3]] = &[[64, 64, 256], [100, 80, 144]];

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options),
        Dtype::F16 => measure::<f16>(options),
    }
}

fn measure<D: Converted>(options: &Options) -> Result<(), Failure> {
    let meter = Meter::new();
    let device = match options.measurement.device {
        DeviceChoice::Sim => Device::sim_for(Target::SM_90A).map_err(Failure::input)?,
        _ => options.measurement.open(&meter)?,
    };
    let given = options.shapes.iter().map(|GemmProblem { m, n, k, .. }| [*m, *n, *k]);
    let shapes: Vec<_> = match options.shapes[..] {
        [] => if device.is_sim() { SIMULATED } else { SHAPES }.to_vec(),
        _ => given.collect(),
    };
    let kernel = |[m, n, k]: [u32; 3]| {
        let problem = ScaledGemmProblem::new(m, n, k);
        let problem = ScaledGemmProblem {
            b_block: match options.b_scales {
                Block::Square128 => BScaleBlock::Square128,
                Block::Row128 => BScaleBlock::Row128,
            },
            // As cuBLASLt takes them.
            a_scales: ScaleStrides::column_major(m.next_multiple_of(4)),
            ..problem
        };
        let problem = match (options.batch, options.groups) {
            (Some(count), _) => problem.batched(count),
            (None, Some(groups)) => problem.grouped(groups),
            (None, None) => problem,
        };
        ScaledGemmTunable::<D>::new(problem)
    };
    let kernels: Vec<_> = shapes.into_iter().map(kernel).collect();
    options.measurement.run(&meter, &device, &kernels, options.configs, options.regime)
}
