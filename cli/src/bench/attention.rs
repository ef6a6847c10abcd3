//! `tilewright bench attention`: attention forward, measured on a GPU.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{bf16, f16};
use tilewright::kernels::attention::{
    Attention, AttentionArgs, AttentionConfig, AttentionFunction, AttentionProblem,
};
use tilewright::runtime::{Buffer, Device, DeviceChoice, Graph, LaunchOptions, RuntimeError};
use tilewright::tune::{Estimate, Provenance, Regime, interleave, median};

use super::super::gemm::Real;
use super::super::{Failure, print};

/// The options of `tilewright bench attention`.
#[derive(Args, Debug)]
pub(super) struct AttentionOptions {
    /// Problems, separated by commas: `BATCHxHEADSxLENGTHxDIM`; `192/128` as DIM has 192 for queries and keys, and 128 for
    /// values [default: 16 heads, 16,384 positions in sequences of 1024 to 16,384, DIM 64 and 128].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// Heads of keys and values [default: as many as heads of queries].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    key_heads: Option<u32>,
    /// A query sees no later key.
    #[arg(long)]
    causal: bool,
    /// A query sees at most this many keys before its own position.
    #[arg(long)]
    window: Option<u32>,
    /// The bound of the scores.
    #[arg(long)]
    softcap: Option<f32>,
    /// The type of the elements.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// The tiles: `default` is the library's; `all` are those that fit; or some, separated by commas: `QUERIESxKEYS`.
    #[arg(long, default_value = "default", value_name = "default|all|LIST")]
    tiles: Tiles,
    /// Measure each tile also without an order of the consumer groups.
    #[arg(long)]
    unordered: bool,
    /// The regime of timing: burst or steady.
    #[arg(long, default_value = "burst", value_parser = regime)]
    regime: Regime,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dtype {
    /// The upper half of binary32.
    Bf16,
    /// IEEE 754 binary16.
    F16,
}

fn regime(text: &str) -> Result<Regime, String> {
    match text.parse() {
        Ok(found @ (Regime::Burst | Regime::Steady)) => Ok(found),
        _ => Err(format!("`{text}` is neither `burst` nor `steady`")),
    }
}

/// The sizes of a problem.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: u32,
    heads: u32,
    len: u32,
    dims: [u32; 2],
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number > 0);
        let parse = || {
            let [batch, heads, len, dims] = text.split('x').collect::<Vec<_>>()[..] else {
                return None;
            };
            let (head, value) = dims.split_once('/').unwrap_or((dims, dims));
            let dims = [number(head)?, number(value)?];
            Some(Shape { batch: number(batch)?, heads: number(heads)?, len: number(len)?, dims })
        };
        parse().ok_or_else(|| {
            format!("`{text}` is not a problem such as `4x16x4096x128`, batch, heads, length and dimension")
        })
    }
}

/// The measured tiles.
#[derive(Clone, Debug)]
enum Tiles {
    Default,
    All,
    Some(Vec<[u32; 2]>),
}

impl FromStr for Tiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Tiles, String> {
        let tile = |text: &str| -> Result<[u32; 2], String> {
            let sizes = text.split_once('x').and_then(|(rows, columns)| {
                Some([rows.trim().parse().ok()?, columns.trim().parse().ok()?])
            });
            sizes
                .ok_or_else(|| format!("`{text}` is not a tile such as `128x176`, queries by keys"))
        };
        match text {
            "default" => Ok(Tiles::Default),
            "all" => Ok(Tiles::All),
            list => Ok(Tiles::Some(list.split(',').map(tile).collect::<Result<_, String>>()?)),
        }
    }
}

impl AttentionOptions {
    fn problem(&self, shape: &Shape) -> AttentionProblem {
        let Shape { batch, heads, len, dims: [head_dim, value_dim] } = *shape;
        let sizes = [batch, heads, self.key_heads.unwrap_or(heads)];
        AttentionProblem {
            value_dim,
            left: self.window,
            right: self.causal.then_some(0),
            softcap: self.softcap,
            ..AttentionProblem::new(sizes, [len, len], head_dim)
        }
    }

    fn shapes(&self) -> Vec<Shape> {
        if !self.shapes.is_empty() {
            return self.shapes.clone();
        }
        let lens = [1024, 2048, 4096, 8192, 16_384];
        let shape = |dim, len| Shape { batch: 16_384 / len, heads: 16, len, dims: [dim; 2] };
        [128, 64].into_iter().flat_map(|dim| lens.map(|len| shape(dim, len))).collect()
    }

    fn configs(&self, default: AttentionConfig) -> Result<Vec<AttentionConfig>, Failure> {
        let tiles = match &self.tiles {
            Tiles::Default => vec![default.tile],
            Tiles::Some(tiles) => tiles.clone(),
            Tiles::All => {
                let columns = (48..=256).step_by(16);
                columns.flat_map(|columns| [128, 192].map(|rows| [rows, columns])).collect()
            }
        };
        let all = matches!(self.tiles, Tiles::All);
        let mut configs = Vec::new();
        for tile in tiles {
            let config = AttentionConfig { tile, ..default };
            match config.check() {
                Ok(()) => {}
                Err(_) if all => continue,
                Err(error) => return Err(Failure::input(error)),
            }
            configs.push(config);
            if self.unordered {
                configs.push(AttentionConfig { ordered: !config.ordered, ..config });
            }
        }
        Ok(configs)
    }
}

pub(super) fn run(options: &AttentionOptions) -> Result<(), Failure> {
    let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
    let device = Device::open(choice).map_err(Failure::input)?;
    if device.is_sim() {
        return Err(Failure::input(
            "this benchmark measures operations per second of a GPU, and there is none here: the simulator has no such figures",
        ));
    }
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options, &device),
        Dtype::F16 => measure::<f16>(options, &device),
    }
}

const HEADER: &str =
    "batch x heads x length x dim          us  TFLOP/s  of the first            kernel\n";

fn measure<T: Real + VectorElement<2>>(
    options: &AttentionOptions,
    device: &Device,
) -> Result<(), Failure> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let provenance = Provenance::of(device, format!("tilewright {command}"));
    print(&format!("{provenance}; attention of {}, {}\n{HEADER}", T::SCALAR, options.regime))?;
    let mut records = Vec::new();
    for shape in options.shapes() {
        let (text, record) = one::<T>(options, device, &options.problem(&shape))?;
        print(&text)?;
        records.push(record);
        if let Some(path) = &options.json {
            let all = json!({
                "provenance": provenance,
                "kernel": "attention",
                "elements": T::SCALAR.to_string(),
                "regime": options.regime.name(),
                "results": records,
            });
            std::fs::write(path, all.to_string())
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

/// The buffers of a problem, with the elements of Q, K and V on the host.
struct Operands<T> {
    host: [Vec<T>; 3],
    device: [Buffer<T>; 3],
    o: Buffer<T>,
    lse: Buffer<f32>,
}

impl<T: Real + VectorElement<2>> Operands<T> {
    fn new(device: &Device, problem: &AttentionProblem) -> Result<Self, RuntimeError> {
        let AttentionProblem { batch, heads, key_heads, queries, keys, .. } = *problem;
        let AttentionProblem { head_dim, value_dim, .. } = *problem;
        let len = |sizes: [u32; 4]| sizes.iter().map(|size| *size as usize).product::<usize>();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        // Box and Muller.
        let mut normal = || {
            let radius = (-2.0 * (1.0 - rng.random::<f32>()).ln()).sqrt();
            T::of(radius * (std::f32::consts::TAU * rng.random::<f32>()).cos())
        };
        let sizes = [
            [batch, heads, queries, head_dim],
            [batch, key_heads, keys, head_dim],
            [batch, key_heads, keys, value_dim],
        ];
        let host = sizes.map(|sizes| (0..len(sizes)).map(|_| normal()).collect::<Vec<T>>());
        let [q, k, v] = &host;
        let device_buffers = [device.upload(q)?, device.upload(k)?, device.upload(v)?];
        let o = device.zeros(len([batch, heads, queries, value_dim]))?;
        let lse = device.zeros(len([batch, heads, queries, 1]))?;
        Ok(Operands { host, device: device_buffers, o, lse })
    }

    fn launch(
        &mut self,
        options: LaunchOptions<'_>,
        function: &AttentionFunction<T>,
        problem: &AttentionProblem,
    ) -> Result<(), Failure> {
        let [q, k, v] = &self.device;
        let args = AttentionArgs { q, k, v, o: &mut self.o, lse: &mut self.lse };
        function.launch_with(options, problem, args).map_err(Failure::run)
    }

    /// Compares queries from all parts of the problem with the definition.
    fn check(&self, problem: &AttentionProblem, config: &AttentionConfig) -> Result<(), Failure> {
        let AttentionProblem { heads, key_heads, queries, keys, head_dim, value_dim, .. } =
            *problem;
        let [head_dim, value_dim] = [head_dim as usize, value_dim as usize];
        let (o, lse) = (self.o.to_vec().map_err(Failure::run)?, self.lse.to_vec());
        let lse = lse.map_err(Failure::run)?;
        let [q, k, v] = &self.host;
        let samples = lse.len().min(24);
        for sample in 0..samples {
            let row = sample * (lse.len() - 1) / (samples - 1).max(1);
            let (head, i) = (row / queries as usize, (row % queries as usize) as u32);
            let (sequence, head) = (head / heads as usize, head % heads as usize);
            let group = (heads / key_heads) as usize;
            let first = (sequence * key_heads as usize + head / group) * keys as usize;
            let q = &q[row * head_dim..][..head_dim];
            let score = |j: u32| {
                let k = &k[(first + j as usize) * head_dim..][..head_dim];
                let dot: f64 = q.iter().zip(k).map(|(q, k)| q.to() * k.to()).sum();
                let score = dot * f64::from(problem.scale());
                problem
                    .softcap
                    .map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
            };
            let scores: Vec<f64> = problem.visible(i).map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            let mut expected = vec![0.0; value_dim];
            for (j, score) in problem.visible(i).zip(&scores) {
                let v = &v[(first + j as usize) * value_dim..][..value_dim];
                let power = (score - max).exp() / sum;
                expected.iter_mut().zip(v).for_each(|(o, v)| *o += power * v.to());
            }
            // `tanh.approx` has an error of 2^-11.
            let slack = 1e-4 + problem.softcap.map_or(0.0, |cap| f64::from(cap) * 1e-3);
            let (expected_lse, found) = (max + sum.ln(), f64::from(lse[row]));
            let off = (found - expected_lse).abs();
            if found != expected_lse && (off > slack || off.is_nan()) {
                return Err(Failure::run(format!(
                    "{config} is wrong: the LSE of row {row} is {found}, not {expected_lse}"
                )));
            }
            for (column, expected) in expected.into_iter().enumerate() {
                let found = o[row * value_dim + column].to();
                let slack = 2.0 * T::UNIT * (1.0 + expected.abs()) + 4.0 * (slack - 1e-4);
                if found.is_nan() || (found - expected).abs() > slack {
                    return Err(Failure::run(format!(
                        "{config} is wrong: ({row}, {column}) is {found}, not {expected}"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Measures one problem: the lines about it, and the record.
fn one<T: Real + VectorElement<2>>(
    options: &AttentionOptions,
    device: &Device,
    problem: &AttentionProblem,
) -> Result<(String, Value), Failure> {
    let default = AttentionConfig::new(device.target(), problem).map_err(Failure::input)?;
    let configs = options.configs(default)?;
    let mut operands = Operands::<T>::new(device, problem).map_err(Failure::run)?;
    let stream = device.stream().map_err(Failure::run)?;
    let regime = options.regime;
    let mut graphs: Vec<(Graph, usize)> = Vec::new();
    for config in &configs {
        let attention = Attention::<T>::new(*config).and_then(|attention| attention.load(device));
        let function = attention.map_err(Failure::run)?;
        operands.launch(LaunchOptions::default(), &function, problem)?;
        operands.check(problem, config)?;
        // An estimate of the time, for the launches of a window.
        let seconds = problem.flops() / 5e14;
        let launches = ((regime.window().as_secs_f64() / seconds) as usize).clamp(1, 64);
        let graph = device.graph().map_err(Failure::run)?;
        for _ in 0..launches {
            operands.launch(LaunchOptions::default().stream(graph.stream()), &function, problem)?;
        }
        graphs.push((graph.finish().map_err(Failure::run)?, launches));
    }
    let time = |(graph, launches): &(Graph, usize)| -> Result<f64, RuntimeError> {
        if regime == Regime::Burst {
            std::thread::sleep(regime.rest());
            return Ok(graph.time_on(&stream)?.elapsed.as_secs_f64() / *launches as f64);
        }
        let (mut sum, mut count) = (0.0, 0);
        while sum < regime.window().as_secs_f64() {
            sum += graph.time_on(&stream)?.elapsed.as_secs_f64();
            count += launches;
        }
        Ok(sum / count as f64)
    };
    for graph in &graphs {
        time(graph).map_err(Failure::run)?;
    }
    let rounds = options.rounds as usize;
    let times = interleave(graphs.len(), rounds, 1, |which| time(&graphs[which]));
    let times = times.into_iter().collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    let AttentionProblem { batch, heads, queries, head_dim, value_dim, .. } = problem;
    let dims = match head_dim == value_dim {
        true => head_dim.to_string(),
        false => format!("{head_dim}/{value_dim}"),
    };
    let shape = format!("{batch}x{heads}x{queries}x{dims}");
    let (mut text, mut results) = (String::new(), Vec::new());
    for (config, seconds) in configs.iter().zip(&times) {
        let (Some(middle), Some(ratio)) =
            (median(seconds), Estimate::of_ratios(&times[0], seconds, 1))
        else {
            continue;
        };
        let speed = problem.flops() / middle / 1e12;
        let of_first = format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high);
        let us = middle * 1e6;
        let _ = writeln!(text, "{shape:<30} {us:>9.2} {speed:>8.1}  {of_first:<22}  {config}");
        results.push(json!({
            "name": config.to_string(),
            "seconds": seconds,
            "teraflops": speed,
        }));
    }
    let record = json!({
        "shape": shape,
        "key_heads": problem.key_heads,
        "causal": options.causal,
        "window": options.window,
        "softcap": options.softcap,
        "kernels": results,
    });
    Ok((text, record))
}
