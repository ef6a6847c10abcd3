//! Attention forward, measured on a GPU.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{bf16, f16};
use tilewright::kernels::attention::{
    Attention, AttentionArgs, AttentionConfig, AttentionFunction, AttentionProblem,
    AttentionSchedule, SoftmaxOverlap,
};
use tilewright::runtime::{Buffer, Device, DeviceChoice, Graph, LaunchOptions, RuntimeError};
use tilewright::tune::{Estimate, Provenance, interleave};

use super::super::gemm::Real;
use super::super::{Failure, print};

/// The options of `tilewright bench attention`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problems, separated by commas: `BATCHxHEADSxLENGTHxDIM`, with `HEADS/KEY_HEADS` for shared keys and
    /// `DIM/VALUE_DIM` for other values [default: 1024 to 16384 positions, dimensions 64 to 256].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// The masks, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "full,causal")]
    masks: Vec<Mask>,
    /// Positions before its own that a query sees with the mask `window`.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=i64::from(AttentionProblem::MAX_LEN)))]
    window: u32,
    /// The bound of scores.
    #[arg(long)]
    softcap: Option<f32>,
    /// The type of the elements.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// Tiles of queries and keys, separated by commas: `128x176` [default: what the library takes].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    tiles: Vec<Tile>,
    /// The schedules, separated by commas: that of the library for the device, or `mma.sync`.
    #[arg(long, value_delimiter = ',', default_value = "default")]
    schedules: Vec<Schedule>,
    /// Stages of the rings of K and V [default: what the library takes].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8))]
    stages: Option<u32>,
    /// Warps of a block, with `mma.sync` [default: what the library takes].
    #[arg(long, value_parser = clap::value_parser!(u32).range(4..=8))]
    warps: Option<u32>,
    /// Measure each tile with all overlaps, with the ordered barrier of the consumer groups and without.
    #[arg(long)]
    variants: bool,
    /// Regimes of timing, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "burst,steady")]
    regimes: Vec<Regime>,
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

/// Batch, heads, heads of keys, length, dimension, dimension of values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape(pub(super) [u32; 6]);

/// The queries and keys of a tile.
#[derive(Clone, Copy, Debug)]
struct Tile([u32; 2]);

/// Splits `a/b`; `a` stands for both.
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
            format!("`{text}` is not a problem such as `4x16x4096x128` or `2x32/8x8192x192/128`, all above 0")
        })
    }
}

impl FromStr for Tile {
    type Err = String;

    fn from_str(text: &str) -> Result<Tile, String> {
        let sizes = text.split_once('x').and_then(|(queries, keys)| {
            Some(Tile([queries.trim().parse().ok()?, keys.trim().parse().ok()?]))
        });
        sizes.ok_or_else(|| format!("`{text}` is not a tile such as `128x176`, queries by keys"))
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
    /// No later position.
    Causal,
    /// No later position, and a bounded number of earlier ones.
    Window,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Dtype {
    /// The upper half of binary32.
    Bf16,
    /// IEEE 754 binary16.
    F16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Regime {
    /// About 1.5 ms of launches after 40 ms of rest.
    Burst,
    /// 200 ms of launches.
    Steady,
}

impl Regime {
    fn seconds(self) -> f64 {
        if self == Regime::Burst { 1.5e-3 } else { 0.2 }
    }
}

const REST: std::time::Duration = std::time::Duration::from_millis(40);

/// The default sizes.
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
            "this benchmark measures operations per second of a GPU, and there is none here: the simulator has no such \
             figures",
        ));
    }
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options, &device),
        Dtype::F16 => measure::<f16>(options, &device),
    }
}

const HEADER: &str =
    "problem                   mask    regime        us  TFLOP/s                   kernel\n";

fn measure<T: Real + VectorElement<2>>(options: &Options, device: &Device) -> Result<(), Failure> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let provenance = Provenance::of(device, format!("tilewright {command}"));
    print(&format!("{provenance}; attention of {}\n{HEADER}", T::SCALAR))?;
    let mut shapes: Vec<[u32; 6]> = options.shapes.iter().map(|Shape(sizes)| *sizes).collect();
    if shapes.is_empty() {
        shapes = SHAPES.to_vec();
    }
    let (mut records, mut failed) = (Vec::new(), 0);
    for sizes in shapes {
        for mask in &options.masks {
            let (text, record) = match one::<T>(options, device, sizes, *mask) {
                Ok(lines) => lines,
                // Other problems may still be measured, unless the device is lost.
                Err(failure) => {
                    failed += 1;
                    (format!("{sizes:?} {mask:?}: {}\n", failure.message), Value::Null)
                }
            };
            print(&text)?;
            records.push(record);
            if let Some(path) = &options.json {
                let elem = T::SCALAR.to_string();
                let all = json!({ "provenance": provenance, "elements": elem, "results": records });
                std::fs::write(path, all.to_string())
                    .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::run(format!("problems without figures: {failed}"))),
    }
}

/// The tensors of a launch.
struct Tensors<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    o: Buffer<T>,
    lse: Buffer<f32>,
}

impl<T: Real + VectorElement<2>> Tensors<T> {
    fn launch(
        &mut self,
        options: LaunchOptions<'_>,
        function: &AttentionFunction<T>,
        problem: &AttentionProblem,
    ) -> Result<(), Failure> {
        let Tensors { q, k, v, o, lse } = self;
        function
            .launch_with(options, problem, AttentionArgs { q, k, v, o, lse })
            .map_err(Failure::run)
    }
}

/// Returns the configurations with a schedule.
fn candidates(
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

/// Measures one problem: the lines about it, and the record.
fn one<T: Real + VectorElement<2>>(
    options: &Options,
    device: &Device,
    [batch, heads, key_heads, len, head_dim, value_dim]: [u32; 6],
    mask: Mask,
) -> Result<(String, Value), Failure> {
    let problem = AttentionProblem::new([batch, heads, key_heads], [len, len], head_dim);
    let problem = AttentionProblem { value_dim, softcap: options.softcap, ..problem };
    let problem = match mask {
        Mask::Full => problem,
        Mask::Causal => problem.causal(),
        Mask::Window => AttentionProblem { left: Some(options.window), ..problem.causal() },
    };
    problem.check().map_err(Failure::input)?;
    let mut configs = Vec::new();
    for schedule in &options.schedules {
        configs.extend(candidates(options, device, &problem, *schedule)?);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut tensor = |heads: u32, dim: u32| -> Vec<T> {
        let count = batch as usize * heads as usize * len as usize * dim as usize;
        (0..count).map(|_| T::of(normal(&mut rng))).collect()
    };
    let [q, k] = [heads, key_heads].map(|heads| tensor(heads, head_dim));
    let v = tensor(key_heads, value_dim);
    let upload = |x: &[T]| device.upload(x).map_err(Failure::run);
    let rows = batch as usize * heads as usize * len as usize;
    let mut tensors = Tensors {
        q: upload(&q)?,
        k: upload(&k)?,
        v: upload(&v)?,
        o: device.zeros(rows * value_dim as usize).map_err(Failure::run)?,
        lse: device.zeros(rows).map_err(Failure::run)?,
    };
    let mut functions = Vec::new();
    let mut text = String::new();
    for config in configs {
        let loaded = Attention::<T>::new(config).and_then(|attention| attention.load(device));
        let function = loaded.map_err(|error| Failure::input(format!("{config}: {error}")))?;
        tensors.launch(LaunchOptions::default(), &function, &problem)?;
        check(&problem, &format!("{config}"), [&q, &k, &v], &tensors)?;
        if function.compiler_log().contains("serialized") {
            let _ = writeln!(text, "  {config}: {}", function.compiler_log());
        }
        functions.push((config.to_string(), function));
    }
    let stream = device.stream().map_err(Failure::run)?;
    let shape = format!("{batch}x{heads}/{key_heads}x{len}x{head_dim}/{value_dim}");
    let mask = format!("{mask:?}").to_lowercase();
    let flops = problem.flops();
    let mut results = Vec::new();
    for regime in &options.regimes {
        // At 600 TFLOP/s.
        let launches = ((regime.seconds() / (flops / 6e14)) as usize).clamp(1, 2000);
        let graphs = functions
            .iter()
            .map(|(_, function)| {
                let graph = device.graph().map_err(Failure::run)?;
                for _ in 0..launches {
                    let options = LaunchOptions::default().stream(graph.stream());
                    tensors.launch(options, function, &problem)?;
                }
                graph.finish().map_err(Failure::run)
            })
            .collect::<Result<Vec<Graph>, Failure>>()?;
        let time = |which: usize| {
            if *regime == Regime::Burst {
                std::thread::sleep(REST);
            }
            let elapsed = graphs[which].time_on(&stream)?.elapsed;
            Ok::<f64, RuntimeError>(elapsed.as_secs_f64() / launches as f64)
        };
        (0..graphs.len()).try_for_each(|which| time(which).map(|_| ())).map_err(Failure::run)?;
        let times = interleave(graphs.len(), options.rounds as usize, 1, time);
        for (times, (name, _)) in times.into_iter().zip(&functions) {
            let times: Vec<f64> = times.map_err(Failure::run)?;
            let Some(of) = Estimate::of(&times, 1) else { continue };
            let [speed, low, high] = [of.median, of.high, of.low].map(|time| flops / time / 1e12);
            let regime = format!("{regime:?}").to_lowercase();
            let speeds = format!("{speed:.1} [{low:.1}, {high:.1}]");
            let us = of.median * 1e6;
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
    Ok((text, record))
}

/// A sum of uniform numbers with mean 0 and variance 1.
fn normal(rng: &mut ChaCha8Rng) -> f32 {
    use rand::RngExt;
    (0..3).map(|_| rng.random_range(-1.0f32..1.0)).sum()
}

/// Compares rows of some heads with the definition in `f64`.
fn check<T: Real>(
    problem: &AttentionProblem,
    name: &str,
    [q, k, v]: [&[T]; 3],
    tensors: &Tensors<T>,
) -> Result<(), Failure> {
    let AttentionProblem { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } =
        *problem;
    let o = tensors.o.to_vec().map_err(Failure::run)?;
    let lse = tensors.lse.to_vec().map_err(Failure::run)?;
    let [len, dim, width] = [keys, head_dim, value_dim].map(|size| size as usize);
    const SAMPLES: u32 = 24;
    for sample in 0..SAMPLES {
        let spread =
            |count: u32| (u64::from(sample) * u64::from(count - 1) / u64::from(SAMPLES - 1)) as u32;
        let (b, h, i) = (spread(batch), spread(heads), spread(queries));
        let row = ((b * heads + h) * queries + i) as usize;
        let first = (b * key_heads + h / (heads / key_heads)) as usize * len;
        let q = &q[row * dim..][..dim];
        let dot = |j: u32| -> f64 {
            let k = &k[(first + j as usize) * dim..][..dim];
            let score = q.iter().zip(k).map(|(q, k)| q.to() * k.to()).sum::<f64>();
            let score = score * f64::from(problem.scale());
            problem.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
        };
        let visible = problem.visible(i);
        let scores: Vec<f64> = visible.clone().map(dot).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
        let mut expected = vec![0.0; width];
        for (j, score) in visible.zip(&scores) {
            let v = &v[(first + j as usize) * width..][..width];
            let power = (score - max).exp() / sum;
            expected.iter_mut().zip(v).for_each(|(o, v)| *o += power * v.to());
        }
        // `tanh.approx` has an error of 2^-11.
        let cap = problem.softcap.map_or(0.0, |cap| f64::from(cap) * 1e-3);
        let pairs = expected.iter().zip(&o[row * width..][..width]);
        let mut wrong = pairs.filter(|(expected, found)| {
            let found = found.to();
            found.is_nan()
                || (found - *expected).abs() > 2.0 * T::UNIT * (1.0 + expected.abs()) + 4.0 * cap
        });
        if let Some((expected, found)) = wrong.next() {
            let found = found.to();
            return Err(Failure::run(format!(
                "{name} is wrong: of query ({b}, {h}, {i}) is {found}, not {expected}"
            )));
        }
        let (expected, found) = (max + sum.ln(), f64::from(lse[row]));
        if (found - expected).abs() > 1e-3 + cap || found.is_nan() {
            return Err(Failure::run(format!(
                "{name} is wrong: the LSE of query ({b}, {h}, {i}) is {found}, not {expected}"
            )));
        }
    }
    Ok(())
}
