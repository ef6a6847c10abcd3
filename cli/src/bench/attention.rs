//! `tilewright bench attention`: measures attention forward on a GPU.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{bf16, f16};
use tilewright::kernels::attention::{
    AttentionConfig, AttentionProblem, AttentionSchedule, SoftmaxOverlap,
};
use tilewright::runtime::{Device, DeviceChoice};
use tilewright_tune::{AttentionTunable, Estimate, Provenance, Regime, Tuner};

use super::super::progress::Meter;
use super::super::{Failure, print};
use super::candidates::Candidates;

/// The options of `tilewright bench attention`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problems, separated by commas: `BATCHxHEADSxLENGTHxDIM`; `HEADS/KEY_HEADS` for shared key
    /// heads, `DIM/VALUE_DIM` if values have another dimension [default: 1024 to 16384 positions,
    /// dimensions 64 to 256].
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// Masks, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "full,causal")]
    masks: Vec<Mask>,
    /// With the mask `window`: how many earlier positions a query sees.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=i64::from(AttentionProblem::MAX_LEN)))]
    window: u32,
    /// Soft cap for the scores.
    #[arg(long)]
    softcap: Option<f32>,
    /// Element type.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// Candidates: `default` is the library's configuration or those that the next options name,
    /// `all` adds alternatives, and `tuned` searches for the fastest.
    #[arg(long, alias = "config", default_value = "default", conflicts_with_all = ["tiles", "schedules", "stages", "warps", "variants"])]
    configs: Candidates,
    /// Tile sizes for queries and keys, separated by commas: `128x176` [default: the library's
    /// choice].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    tiles: Vec<Tile>,
    /// Schedules, separated by commas: the library's choice for the device, or `mma.sync`.
    #[arg(long, value_delimiter = ',', default_value = "default")]
    schedules: Vec<Schedule>,
    /// Stages of the K and V ring buffers [default: the library's choice].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8))]
    stages: Option<u32>,
    /// Warps per block, with `mma.sync` [default: the library's choice].
    #[arg(long, value_parser = clap::value_parser!(u32).range(4..=8))]
    warps: Option<u32>,
    /// Measure each tile with all overlaps, with and without the ordered barrier of the consumer
    /// warp groups.
    #[arg(long)]
    variants: bool,
    /// Timing regimes, separated by commas: latency, burst, steady.
    #[arg(long, alias = "regime", value_delimiter = ',', default_value = "burst,steady")]
    regimes: Vec<Regime>,
    /// How many comparison rounds to run.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Device to run on: `auto` (a GPU if there is one), `cuda` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Write every round to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Batch, heads, key heads, length, dimension, value dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape(pub(super) [u32; 6]);

/// A tile's query and key counts.
#[derive(Clone, Copy, Debug)]
struct Tile([u32; 2]);

/// Splits `a/b`; a single `a` stands for both.
fn pair(text: &str) -> Option<[u32; 2]> {
    let (first, second) = text.split_once('/').unwrap_or((text, text));
    Some([first.trim().parse().ok()?, second.trim().parse().ok()?])
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let parse = || {
            let parts: Vec<&str> = text.split('x').collect();
            let [batch, heads, len, dim] = parts[..] else { return None };
            let ([heads, key_heads], [dim, value_dim]) = (pair(heads)?, pair(dim)?);
            Some([
                batch.trim().parse().ok()?,
                heads,
                key_heads,
                len.trim().parse().ok()?,
                dim,
                value_dim,
            ])
        };
        parse().filter(|sizes: &[u32; 6]| !sizes.contains(&0)).map(Shape).ok_or_else(|| {
            format!("`{text}` is not a problem: expected numbers above 0, such as `4x16x4096x128` or `2x32/8x8192x192/128`")
        })
    }
}

impl FromStr for Tile {
    type Err = String;

    fn from_str(text: &str) -> Result<Tile, String> {
        let sizes = text.split_once('x').and_then(|(queries, keys)| {
            Some(Tile([queries.trim().parse().ok()?, keys.trim().parse().ok()?]))
        });
        sizes.ok_or_else(|| {
            format!("`{text}` is not a tile: expected queries by keys, such as `128x176`")
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Schedule {
    /// The library's choice for the device.
    Default,
    /// `mma.sync`.
    MmaSync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mask {
    /// No mask.
    Full,
    /// Hides later positions.
    Causal,
    /// Hides later positions, and all but a limited number of earlier ones.
    Window,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Dtype {
    /// bfloat16.
    Bf16,
    /// IEEE 754 binary16.
    F16,
}

/// The default problems.
const SHAPES: &[[u32; 6]] = &[
    [16, 16, 16, 1024, 64, 64],
    [4, 16, 16, 4096, 64, 64],
    [2, 16, 16, 8192, 64, 64],
    [1, 16, 16, 16_384, 64, 64],
    [4, 16, 16, 4096, 96, 96],
    [16, 16, 16, 1024, 128, 128],
    [4, 16, 16, 4096, 128, 128],
    [2, 16, 16, 8192, 128, 128],
    [1, 16, 16, 16_384, 128, 128],
    [4, 32, 8, 4096, 128, 128],
    [4, 16, 16, 4096, 192, 128],
    [4, 8, 8, 4096, 256, 256],
];

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
    let device = Device::open(choice).map_err(Failure::input)?;
    if device.is_sim() {
        return Err(Failure::input(
            "this benchmark needs a GPU, but none was found: the simulator cannot measure \
             operations per second",
        ));
    }
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options, &device),
        Dtype::F16 => measure::<f16>(options, &device),
    }
}

const HEADER: &str =
    "problem                   mask    regime        us  TFLOP/s                   kernel\n";

fn measure<T: VectorElement<2> + Converted>(
    options: &Options,
    device: &Device,
) -> Result<(), Failure> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let provenance = Provenance::of(device, format!("tilewright {command}"));
    print(&format!("{provenance}; attention of {}\n{HEADER}", T::SCALAR))?;
    let mut shapes: Vec<[u32; 6]> = options.shapes.iter().map(|Shape(sizes)| *sizes).collect();
    if shapes.is_empty() {
        shapes = SHAPES.to_vec();
    }
    let (mut records, mut failed) = (Vec::new(), 0);
    let (mut tuner, meter) = (Tuner::new(device), Meter::new());
    let problems: Vec<_> =
        shapes.iter().flat_map(|sizes| options.masks.iter().map(|mask| (*sizes, *mask))).collect();
    for (index, (sizes, mask)) in problems.iter().copied().enumerate() {
        meter.task(format!("{sizes:?} {mask:?}"), index, problems.len());
        let one = one::<T>(options, &mut tuner, sizes, mask, &meter).unwrap_or_else(|failure| {
            // Continue with the other problems, unless the device is lost.
            let text = format!("{sizes:?} {mask:?}: {}\n", failure.message);
            Measured { text, record: Value::Null, failed: 1 }
        });
        meter.clear();
        print(&one.text)?;
        records.push(one.record);
        failed += one.failed;
        if let Some(path) = &options.json {
            let elem = T::SCALAR.to_string();
            let all = json!({ "provenance": provenance, "elements": elem, "results": records });
            std::fs::write(path, all.to_string())
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        }
    }
    for (config, complaint) in tuner.complaints() {
        print(&format!("compiler note for {config}: {complaint}\n"))?;
    }
    match failed {
        0 => Ok(()),
        failed => {
            Err(Failure::run(format!("problems and kernels that could not be measured: {failed}")))
        }
    }
}

/// Returns the configurations that the options name, with this schedule.
fn named(
    options: &Options,
    device: &Device,
    problem: &AttentionProblem,
    schedule: Schedule,
) -> Result<Vec<AttentionConfig>, Failure> {
    let base = match schedule {
        Schedule::Default => AttentionConfig::new(device.target(), problem),
        Schedule::MmaSync => AttentionConfig::sm80(device.target(), problem),
    };
    let mut base = base.map_err(Failure::input)?;
    base.stages = options.stages.unwrap_or(base.stages);
    if let (AttentionSchedule::Multistage { warps }, Some(wanted)) =
        (&mut base.schedule, options.warps)
    {
        *warps = wanted;
    }
    let tiles = match &options.tiles[..] {
        [] => vec![base],
        tiles => tiles.iter().map(|tile| AttentionConfig { tile: tile.0, ..base }).collect(),
    };
    if !options.variants || base.schedule != AttentionSchedule::WarpSpecialized {
        return Ok(tiles);
    }
    let variants = |config: AttentionConfig| {
        [true, false].into_iter().flat_map(move |ordered| {
            SoftmaxOverlap::ALL.map(|overlap| AttentionConfig { ordered, overlap, ..config })
        })
    };
    Ok(tiles.into_iter().flat_map(variants).collect())
}

/// The lines about a problem, its record, and how many kernels could not be measured.
struct Measured {
    text: String,
    record: Value,
    failed: usize,
}

/// Measures one problem.
fn one<T: VectorElement<2> + Converted>(
    options: &Options,
    tuner: &mut Tuner<AttentionTunable<T>>,
    [batch, heads, key_heads, len, head_dim, value_dim]: [u32; 6],
    mask: Mask,
    meter: &Meter,
) -> Result<Measured, Failure> {
    let problem = AttentionProblem::new([batch, heads, key_heads], [len, len], head_dim);
    let problem = AttentionProblem { value_dim, softcap: options.softcap, ..problem };
    let problem = match mask {
        Mask::Full => problem,
        Mask::Causal => problem.causal(),
        Mask::Window => AttentionProblem { left: Some(options.window), ..problem.causal() },
    };
    problem.check().map_err(Failure::input)?;
    let kernel = AttentionTunable::<T>::new(problem);
    let mut configs = Vec::new();
    for schedule in &options.schedules {
        configs.extend(named(options, tuner.device(), &problem, *schedule)?);
    }
    let configs = options.configs.of(tuner, &kernel, Regime::Burst, configs, meter)?;
    let rounds = options.rounds as usize;
    meter.add_steps(configs.len() * (1 + rounds * options.regimes.len()));
    tuner.prepare(&configs, &|| meter.step());
    let shape = format!("{batch}x{heads}/{key_heads}x{len}x{head_dim}/{value_dim}");
    let (mask, flops) = (format!("{mask:?}").to_lowercase(), problem.flops());
    let (mut text, mut results, mut failed) = (String::new(), Vec::new(), 0);
    for regime in &options.regimes {
        let compared = tuner.compare(&kernel, *regime, &configs, rounds, &|| meter.step());
        let (times, rejected) = compared.map_err(Failure::run)?;
        failed += rejected.len();
        for (name, why) in rejected {
            let _ = writeln!(text, "  {name} {why}");
        }
        for (name, times) in times {
            let Some(of) = Estimate::of(&times, 1) else { continue };
            let [speed, low, high] = [of.median, of.high, of.low].map(|time| flops / time / 1e12);
            let speeds = format!("{speed:.1} [{low:.1}, {high:.1}]");
            let (regime, us) = (regime.name(), of.median * 1e6);
            let _ = writeln!(
                text,
                "{shape:<24}  {mask:<7} {regime:<7} {us:>8.1}  {speeds:<24}  {name}"
            );
            results.push(json!({
                "kernel": name,
                "regime": regime,
                "seconds": times,
                "teraflops": { "median": speed, "low": low, "high": high },
            }));
        }
    }
    let record = json!({ "shape": shape, "mask": mask, "flops": flops, "kernels": results });
    Ok(Measured { text, record, failed })
}
