//! Measures memory-bound kernels beside copies or reads of the same bytes.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use tilewright::ir::types::Scalar;
use tilewright::kernels::gather::GatherSide;
use tilewright::kernels::norm::NormKind;
use tilewright::kernels::permute::PermuteProblem;
use tilewright::kernels::reduce::{AxisProblem, RowReduceOp, TopKConfig};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::transpose::TransposeProblem;
use tilewright::layout::{Layout, layout};
use tilewright::runtime::Device;
use tilewright_tune::{
    AxisReduceTunable, ElementwiseTunable, GatherTunable, NormTunable, PermuteTunable, Regime,
    RowReduceTunable, SoftmaxTunable, TopKTunable, TransposeTunable, Tunable,
};

use super::super::Failure;
use super::super::progress::Meter;
use super::candidates::Candidates;
use super::measurement::Measurement;

/// Options that all row benchmarks share.
#[derive(Args, Debug)]
pub(super) struct Rows {
    /// Sizes, separated by commas: `ROWSxCOLUMNS` [default: short, long and ragged rows; with
    /// `--device sim` two small matrices].
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// Element type.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// Candidates: `default` is the library's configuration, `all` adds alternatives, and `tuned`
    /// searches for the fastest.
    #[arg(long, alias = "config", default_value = "default")]
    configs: Candidates,
    /// Timing regime: latency, burst or steady.
    #[arg(long, alias = "regimes", default_value = "latency")]
    regime: Regime,
    #[command(flatten)]
    measurement: Measurement,
}

/// The options of `tilewright bench softmax`.
#[derive(Args, Debug)]
pub(super) struct SoftmaxOptions {
    #[command(flatten)]
    rows: Rows,
    /// Compute the logarithm of the softmax.
    #[arg(long)]
    log: bool,
}

/// The options of `tilewright bench norm`.
#[derive(Args, Debug)]
pub(super) struct NormOptions {
    #[command(flatten)]
    rows: Rows,
    /// The kind of norm.
    #[arg(long, default_value = "rms")]
    kind: Kind,
    /// Add a residual, and store the sum in its place.
    #[arg(long)]
    residual: bool,
}

/// The options of `tilewright bench reduce`.
#[derive(Args, Debug)]
pub(super) struct ReduceOptions {
    #[command(flatten)]
    rows: Rows,
    /// Result per row: sum, mean, max, min, norm or argmax.
    #[arg(long, default_value = "sum", value_parser = reduction)]
    op: RowReduceOp,
    /// Axis to reduce: 1 reduces each row over its columns, 0 reduces each column over its rows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1))]
    axis: u32,
    /// Measure top-k instead: this many largest elements of each row, with their columns.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["op", "axis"], value_parser = clap::value_parser!(u32).range(1..=i64::from(TopKConfig::MAX)))]
    top: Option<u32>,
}

/// The options of `tilewright bench permute`.
#[derive(Args, Debug)]
pub(super) struct PermuteOptions {
    #[command(flatten)]
    rows: Rows,
    /// Heads: the modes are (row / heads, head, column).
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    heads: u32,
    /// Order of the output's modes, as indices of the input's modes.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values_t = [1, 0, 2])]
    order: Vec<usize>,
}

/// The options of `tilewright bench gather`.
#[derive(Args, Debug)]
pub(super) struct GatherOptions {
    #[command(flatten)]
    rows: Rows,
    /// Scatter instead: the list holds row indices of the output.
    #[arg(long)]
    scatter: bool,
}

/// The options of `tilewright bench elementwise`.
#[derive(Args, Debug)]
pub(super) struct ElementwiseOptions {
    #[command(flatten)]
    rows: Rows,
    /// Function to apply.
    #[arg(long, default_value = "gelu")]
    op: Pointwise,
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pointwise {
    /// GELU with the tanh approximation.
    Gelu,
    /// SwiGLU of two matrices.
    Swiglu,
    /// A scale and a bias per column, which layouts broadcast.
    Affine,
}

fn reduction(text: &str) -> Result<RowReduceOp, String> {
    let found = RowReduceOp::ALL.into_iter().find(|op| op.name() == text);
    let names = RowReduceOp::ALL.map(RowReduceOp::name).join(", ");
    found.ok_or_else(|| format!("`{text}` is not a reduction: expected one of {names}"))
}

/// Row and column counts.
#[derive(Clone, Copy, Debug)]
struct Shape(u32, u32);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let sizes = text.split_once('x').and_then(|(rows, columns)| {
            Some(Shape(rows.trim().parse().ok()?, columns.trim().parse().ok()?))
        });
        sizes.filter(|Shape(rows, columns)| *rows > 0 && *columns > 0).ok_or_else(|| {
            format!("`{text}` is not a size: expected rows by columns, both above 0, such as `8192x4096`")
        })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dtype {
    /// bfloat16.
    Bf16,
    /// IEEE 754 binary16.
    F16,
    /// IEEE 754 binary32.
    F32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// RMSNorm.
    Rms,
    /// LayerNorm.
    Layer,
}

/// The default sizes.
const ROWS: &[(u32, u32)] = &[
    (8192, 1024),
    (8192, 2048),
    (8192, 4096),
    (8192, 8192),
    (8192, 16_384),
    (4096, 32_768),
    (2048, 65_536),
    (512, 262_144),
    (8192, 4095),
];
const REDUCED: &[(u32, u32)] =
    &[(8192, 1024), (8192, 8192), (4096, 32_000), (1024, 128_256), (8192, 8191)];
const PERMUTED: &[(u32, u32)] = &[(524_288, 64), (524_288, 128), (65_536, 1024), (65_536, 1023)];
const GATHERED: &[(u32, u32)] = &[(262_144, 128), (65_536, 1024), (16_384, 8192), (65_536, 1023)];
const POINTWISE: &[(u32, u32)] = &[(8192, 1024), (8192, 8192), (32_768, 8192), (8191, 8191)];
/// The default sizes on the simulator, where a launch takes about a million times as long as on a
/// GPU.
const SIMULATED: &[(u32, u32)] = &[(16, 256), (16, 255)];
const TRANSPOSED: &[(u32, u32)] = &[(4096, 4096), (8192, 8192), (16_384, 16_384), (8190, 8194)];

impl Rows {
    /// Returns the element type.
    fn elem(&self) -> Scalar {
        match self.dtype {
            Dtype::Bf16 => Scalar::Bf16,
            Dtype::F16 => Scalar::F16,
            Dtype::F32 => Scalar::F32,
        }
    }
}

pub(super) fn softmax(SoftmaxOptions { rows, log }: &SoftmaxOptions) -> Result<(), Failure> {
    run(rows, ROWS, |[m, n]| {
        let softmax = SoftmaxTunable::new(rows.elem(), RowProblem::new(m, n));
        Ok(if *log { softmax.log() } else { softmax })
    })
}

pub(super) fn norm(NormOptions { rows, kind, residual }: &NormOptions) -> Result<(), Failure> {
    let kind = match kind {
        Kind::Rms => NormKind::Rms,
        Kind::Layer => NormKind::Layer,
    };
    run(rows, ROWS, |[m, n]| {
        let norm = NormTunable::new(kind, rows.elem(), RowProblem::new(m, n));
        Ok(if *residual { norm.residual() } else { norm })
    })
}

pub(super) fn reduce(options: &ReduceOptions) -> Result<(), Failure> {
    let ReduceOptions { rows, op, axis, top } = options;
    match (top, axis) {
        (Some(count), _) => run(rows, REDUCED, |[m, n]| {
            Ok(TopKTunable::new(*count, rows.elem(), RowProblem::new(m, n)))
        }),
        (None, 0) => run(rows, REDUCED, |[len, inner]| {
            let problem = AxisProblem { outer: 1, len, inner };
            Ok(AxisReduceTunable::new(*op, rows.elem(), problem))
        }),
        (None, _) => run(rows, REDUCED, |[m, n]| {
            Ok(RowReduceTunable::new(*op, rows.elem(), RowProblem::new(m, n)))
        }),
    }
}

pub(super) fn permute(options: &PermuteOptions) -> Result<(), Failure> {
    let PermuteOptions { rows, heads, order } = options;
    run(rows, PERMUTED, |[m, n]| {
        if !m.is_multiple_of(*heads) {
            return Err(Failure::input(format!(
                "{m} rows are not a multiple of {heads} heads: set another count with `--heads`"
            )));
        }
        let permuted = PermuteProblem::new(&[m / heads, *heads, n], order);
        Ok(PermuteTunable::new(rows.elem(), permuted.map_err(Failure::input)?))
    })
}

pub(super) fn gather(GatherOptions { rows, scatter }: &GatherOptions) -> Result<(), Failure> {
    let side = if *scatter { GatherSide::Output } else { GatherSide::Input };
    run(rows, GATHERED, |[m, n]| Ok(GatherTunable::new(side, rows.elem(), RowProblem::new(m, n))))
}

pub(super) fn elementwise(options: &ElementwiseOptions) -> Result<(), Failure> {
    let ElementwiseOptions { rows, op } = options;
    let (elem, matrix) =
        (rows.elem(), |[m, n]: [u32; 2]| Layout::row_major((i64::from(m), i64::from(n))));
    match op {
        Pointwise::Gelu => run(rows, POINTWISE, |sizes| {
            let y = matrix(sizes);
            let inputs = [(&y).into()];
            Ok(ElementwiseTunable::new("gelu", elem, &y, inputs, |_, [x]| x.gelu_tanh_fast()))
        }),
        Pointwise::Swiglu => run(rows, POINTWISE, |sizes| {
            let y = matrix(sizes);
            let inputs = [&y, &y].map(Into::into);
            Ok(ElementwiseTunable::new("swiglu", elem, &y, inputs, |_, [gate, linear]| {
                gate.silu_fast() * linear
            }))
        }),
        Pointwise::Affine => run(rows, POINTWISE, |sizes| {
            let (y, [m, n]) = (matrix(sizes), sizes.map(i64::from));
            let of_columns = layout!((m, n):(0, 1));
            let inputs = [&y, &of_columns, &of_columns].map(Into::into);
            Ok(ElementwiseTunable::new("affine", elem, &y, inputs, |_, [x, scale, bias]| {
                x.fma(scale, bias)
            }))
        }),
    }
}

pub(super) fn transpose(rows: &Rows) -> Result<(), Failure> {
    run(rows, TRANSPOSED, |[m, n]| {
        Ok(TransposeTunable::new(rows.elem(), TransposeProblem::new(m, n)))
    })
}

/// Measures the kernels for the sizes in the options, or for the default ones.
fn run<K: Tunable>(
    options: &Rows,
    sizes: &[(u32, u32)],
    kernel: impl Fn([u32; 2]) -> Result<K, Failure>,
) -> Result<(), Failure> {
    let meter = Meter::new();
    let device = options.measurement.open(&meter)?;
    let shapes = options.shapes(&device, sizes).into_iter();
    let kernels = shapes.map(kernel).collect::<Result<Vec<K>, Failure>>()?;
    options.measurement.run(&meter, &device, &kernels, options.configs, options.regime)
}

impl Rows {
    /// Returns the sizes to measure: those in the options, or the default ones.
    fn shapes(&self, device: &Device, sizes: &[(u32, u32)]) -> Vec<[u32; 2]> {
        if !self.shapes.is_empty() {
            return self.shapes.iter().map(|Shape(rows, columns)| [*rows, *columns]).collect();
        }
        let sizes = if device.is_sim() { SIMULATED } else { sizes };
        sizes.iter().map(|(rows, columns)| [*rows, *columns]).collect()
    }
}
