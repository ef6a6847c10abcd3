//! Kernels that memory bounds, measured on a GPU beside copies or reads of the same bytes.

mod measure;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tilewright::ir::{bf16, f16};
use tilewright::kernels::gather::GatherSide;
use tilewright::kernels::norm::NormKind;
use tilewright::kernels::reduce::{RowReduceOp, TopKConfig};
use tilewright::kernels::rows::RowProblem;
use tilewright::runtime::{Device, DeviceChoice};

use super::super::Failure;
use super::candidates::Candidates;
use measure::measure;

/// The options of a benchmark of rows.
#[derive(Args, Debug)]
pub(super) struct Rows {
    /// Sizes, separated by commas: `ROWSxCOLUMNS` [default: short, long and ragged rows].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// The type of the elements.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// The candidates: `default` is the configuration of the library, `all` has others beside it, and `tuned` the fastest of
    /// a search (of softmax, norms without a residual, and transposes).
    #[arg(long, default_value = "default")]
    configs: Candidates,
    /// Rounds of the comparison.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Device to run on: `auto` (a GPU if there is one), `cuda` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Write each round to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    /// The norm.
    #[arg(long, default_value = "rms")]
    kind: Kind,
    /// Add a residual and store the sum over it.
    #[arg(long)]
    residual: bool,
}

/// The options of `tilewright bench reduce`.
#[derive(Args, Debug)]
pub(super) struct ReduceOptions {
    #[command(flatten)]
    rows: Rows,
    /// The result of a row: sum, mean, max, min, norm or argmax.
    #[arg(long, default_value = "sum", value_parser = reduction)]
    op: RowReduceOp,
    /// The axis that is reduced: 1 for the columns of each row, 0 for the rows of each column.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1))]
    axis: u32,
    /// Instead, the largest elements of each row with their columns: their number.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["op", "axis"], value_parser = clap::value_parser!(u32).range(1..=i64::from(TopKConfig::MAX)))]
    top: Option<u32>,
}

/// The options of `tilewright bench permute`.
#[derive(Args, Debug)]
pub(super) struct PermuteOptions {
    #[command(flatten)]
    rows: Rows,
    /// The heads: the rows (position, head) become (head, position).
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    heads: u32,
}

/// The options of `tilewright bench gather`.
#[derive(Args, Debug)]
pub(super) struct GatherOptions {
    #[command(flatten)]
    rows: Rows,
    /// Scatter: the list has the numbers of the rows of the output.
    #[arg(long)]
    scatter: bool,
}

/// The options of `tilewright bench elementwise`.
#[derive(Args, Debug)]
pub(super) struct ElementwiseOptions {
    #[command(flatten)]
    rows: Rows,
    /// The function.
    #[arg(long, default_value = "gelu")]
    op: Pointwise,
}

/// A function of the elements with one coordinate.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pointwise {
    /// GELU by the hyperbolic tangent.
    Gelu,
    /// A scale and a bias for each column, which layouts broadcast.
    Affine,
}

fn reduction(text: &str) -> Result<RowReduceOp, String> {
    let found = RowReduceOp::ALL.into_iter().find(|op| op.name() == text);
    let names = RowReduceOp::ALL.map(RowReduceOp::name).join(", ");
    found.ok_or_else(|| format!("`{text}` is none of {names}"))
}

/// The sizes of a matrix.
#[derive(Clone, Copy, Debug)]
struct Shape(u32, u32);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let sizes = text.split_once('x').and_then(|(rows, columns)| {
            Some(Shape(rows.trim().parse().ok()?, columns.trim().parse().ok()?))
        });
        sizes.filter(|Shape(rows, columns)| *rows > 0 && *columns > 0).ok_or_else(|| {
            format!("`{text}` is not a size such as `8192x4096`, rows by columns, both above 0")
        })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dtype {
    /// The upper half of binary32.
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

/// The measured kernel.
#[derive(Clone, Copy, Debug)]
enum What {
    Softmax { log: bool },
    Norm { kind: NormKind, residual: bool },
    Reduce(RowReduceOp),
    ReduceRows(RowReduceOp),
    Top(u32),
    Transpose,
    Permute { heads: u32 },
    Gather(GatherSide),
    Elementwise(Pointwise),
}

impl What {
    fn name(self) -> String {
        match self {
            What::Softmax { log } => if log { "log_softmax" } else { "softmax" }.to_owned(),
            What::Norm { kind, residual } => {
                let name = if kind == NormKind::Rms { "rms_norm" } else { "layer_norm" };
                name.to_owned() + if residual { "+residual" } else { "" }
            }
            What::Reduce(op) => format!("row_{}", op.name()),
            What::ReduceRows(op) => format!("axis_{}", op.name()),
            What::Top(count) => format!("top_{count}"),
            What::Transpose => "transpose".to_owned(),
            What::Permute { heads } => format!("permute_{heads}"),
            What::Elementwise(Pointwise::Gelu) => "gelu".to_owned(),
            What::Elementwise(Pointwise::Affine) => "affine".to_owned(),
            What::Gather(GatherSide::Input) => "gather".to_owned(),
            What::Gather(GatherSide::Output) => "scatter".to_owned(),
        }
    }

    /// Returns the default sizes.
    fn shapes(self) -> &'static [(u32, u32)] {
        match self {
            What::Softmax { .. } | What::Norm { .. } => &[
                (8192, 1024),
                (8192, 2048),
                (8192, 4096),
                (8192, 8192),
                (8192, 16_384),
                (4096, 32_768),
                (2048, 65_536),
                (512, 262_144),
                (8192, 4095),
            ],
            What::Reduce(_) | What::ReduceRows(_) | What::Top(_) => {
                &[(8192, 1024), (8192, 8192), (4096, 32_000), (1024, 128_256), (8192, 8191)]
            }
            What::Permute { .. } => {
                &[(524_288, 64), (524_288, 128), (65_536, 1024), (65_536, 1023)]
            }
            What::Gather(_) => &[(262_144, 128), (65_536, 1024), (16_384, 8192), (65_536, 1023)],
            What::Elementwise(_) => &[(8192, 1024), (8192, 8192), (32_768, 8192), (8191, 8191)],
            What::Transpose => &[(4096, 4096), (8192, 8192), (16_384, 16_384), (8190, 8194)],
        }
    }

    /// Returns true if the kernel writes a number for each line, and no matrix.
    fn only_reads(self) -> bool {
        matches!(self, What::Reduce(_) | What::ReduceRows(_) | What::Top(_))
    }

    /// Returns the number of results of a kernel that writes numbers and no matrix.
    fn results(self, problem: &RowProblem) -> usize {
        let RowProblem { rows, columns, .. } = *problem;
        match self {
            What::ReduceRows(_) => columns as usize,
            What::Top(count) => rows as usize * count as usize,
            _ => rows as usize,
        }
    }

    /// Returns the number of lines that can be compared, each by itself: rows, or columns that are reduced.
    fn lines(self, problem: &RowProblem) -> usize {
        let is_column = matches!(self, What::ReduceRows(_));
        (if is_column { problem.columns } else { problem.rows }) as usize
    }

    /// Returns the index of element `i` of a line of the input.
    fn input_index(self, problem: &RowProblem, line: usize, i: usize) -> usize {
        let columns = problem.columns as usize;
        match self {
            What::ReduceRows(_) => i * columns + line,
            What::Gather(GatherSide::Input) => listed(problem, line) * columns + i,
            _ => line * columns + i,
        }
    }

    /// Returns the index of element `i` of the result of a line.
    fn output_index(self, problem: &RowProblem, line: usize, i: usize) -> usize {
        let [rows, columns] = [problem.rows, problem.columns].map(|size| size as usize);
        match self {
            What::Reduce(_) | What::ReduceRows(_) => line,
            What::Top(count) => line * count as usize + i,
            What::Transpose => i * rows + line,
            What::Permute { heads } => {
                let heads = heads as usize;
                (line % heads * (rows / heads) + line / heads) * columns + i
            }
            What::Gather(GatherSide::Output) => listed(problem, line) * columns + i,
            _ => line * columns + i,
        }
    }

    /// Returns how often the elements of the matrix are read; the copy writes them as often.
    fn matrices(self) -> usize {
        if let What::Norm { residual: true, .. } = self { 2 } else { 1 }
    }

    /// The definition, in `f64`. A residual is 0.
    fn reference(self, x: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        match self {
            What::Transpose | What::Permute { .. } | What::Gather(_) => x.to_vec(),
            // Scale and bias are 1.
            What::Elementwise(Pointwise::Affine) => x.iter().map(|x| x + 1.0).collect(),
            What::Elementwise(Pointwise::Gelu) => {
                let inner =
                    |x: f64| std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044_715 * x.powi(3));
                x.iter().map(|x| 0.5 * x * (1.0 + inner(*x).tanh())).collect()
            }
            What::Top(count) => {
                let mut sorted = x.to_vec();
                sorted.sort_by(|a, b| b.total_cmp(a));
                sorted.truncate(count as usize);
                sorted
            }
            What::Reduce(op) | What::ReduceRows(op) => {
                let sum = x.iter().sum::<f64>();
                let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                vec![match op {
                    RowReduceOp::Sum => sum,
                    RowReduceOp::Mean => sum / n,
                    RowReduceOp::Max => max,
                    RowReduceOp::Min => x.iter().copied().fold(f64::INFINITY, f64::min),
                    RowReduceOp::Norm => x.iter().map(|x| x * x).sum::<f64>().sqrt(),
                    RowReduceOp::ArgMax => x.iter().take_while(|x| **x != max).count() as f64,
                }]
            }
            What::Softmax { log } => {
                let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
                let one = |x: &f64| if log { x - max - sum.ln() } else { (x - max).exp() / sum };
                x.iter().map(one).collect()
            }
            What::Norm { kind, .. } => {
                let mean = if kind == NormKind::Layer { x.iter().sum::<f64>() / n } else { 0.0 };
                let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
                x.iter().map(|x| (x - mean) / (variance + f64::from(EPSILON)).sqrt()).collect()
            }
        }
    }
}

/// Returns number `i` of the list of rows: each row once, in no order. The factor is a prime above all numbers of rows.
fn listed(problem: &RowProblem, i: usize) -> usize {
    (i as u64 * 2_654_435_761 % u64::from(problem.rows)) as usize
}

const EPSILON: f32 = 1e-5;

pub(super) fn softmax(options: &SoftmaxOptions) -> Result<(), Failure> {
    run(&options.rows, What::Softmax { log: options.log })
}

pub(super) fn norm(options: &NormOptions) -> Result<(), Failure> {
    let kind = match options.kind {
        Kind::Rms => NormKind::Rms,
        Kind::Layer => NormKind::Layer,
    };
    run(&options.rows, What::Norm { kind, residual: options.residual })
}

pub(super) fn reduce(options: &ReduceOptions) -> Result<(), Failure> {
    let what = match (options.top, options.axis) {
        (Some(count), _) => What::Top(count),
        (None, 0) => What::ReduceRows(options.op),
        (None, _) => What::Reduce(options.op),
    };
    run(&options.rows, what)
}

pub(super) fn permute(options: &PermuteOptions) -> Result<(), Failure> {
    run(&options.rows, What::Permute { heads: options.heads })
}

pub(super) fn gather(options: &GatherOptions) -> Result<(), Failure> {
    let side = if options.scatter { GatherSide::Output } else { GatherSide::Input };
    run(&options.rows, What::Gather(side))
}

pub(super) fn elementwise(options: &ElementwiseOptions) -> Result<(), Failure> {
    run(&options.rows, What::Elementwise(options.op))
}

pub(super) fn transpose(options: &Rows) -> Result<(), Failure> {
    run(options, What::Transpose)
}

fn run(options: &Rows, what: What) -> Result<(), Failure> {
    let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
    let device = Device::open(choice).map_err(Failure::input)?;
    if device.is_sim() {
        return Err(Failure::input(
            "this benchmark measures bytes per second of a GPU, and there is none here: the simulator has no such figures",
        ));
    }
    let has_search =
        matches!(what, What::Softmax { .. } | What::Norm { residual: false, .. } | What::Transpose);
    if options.configs == Candidates::Tuned && !has_search {
        return Err(Failure::input(
            "only softmax, norms without a residual and transposes have a search: take `--configs default`",
        ));
    }
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options, what, &device),
        Dtype::F16 => measure::<f16>(options, what, &device),
        Dtype::F32 => measure::<f32>(options, what, &device),
    }
}
