//! `tilewright bench decode`: measures attention decode over a paged cache on a GPU, beside a
//! kernel that only reads the cache.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{bf16, f16};
use tilewright::kernels::decode::{DecodeConfig, DecodePlan, DecodeProblem};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
use tilewright::kernels::rows::RowProblem;
use tilewright::runtime::{Device, DeviceChoice, LaunchOptions, Stream};
use tilewright_tune::{
    DecodeChoice, DecodeOperands, DecodeTunable, Estimate, Provenance, Regime, Rejection, Tunable,
    Tuner, Workload, interleave,
};

use super::super::progress::Meter;
use super::super::{Failure, print};
use super::attention::{Dtype, Shape};
use super::candidates::Candidates;

/// A launch that reads a whole cache is long enough to be timed without load before it.
const REGIME: Regime = Regime::Latency;

/// The options of `tilewright bench decode`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problems, separated by commas: `BATCHxHEADS/KEY_HEADSxLENGTHxDIM` [default: 1 to 128
    /// sequences, dimensions 64 to 256].
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// Queries per sequence.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    queries: u32,
    /// Keys that a query sees at most: a sliding window.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Tokens per page.
    #[arg(long, default_value_t = 64)]
    page: u32,
    /// Candidates: `default` is the library's configuration, `all` adds alternatives, and `tuned`
    /// searches for the fastest.
    #[arg(long, alias = "config", default_value = "default")]
    configs: Candidates,
    /// Split counts to measure besides the library's choice, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "configs")]
    splits: Vec<u32>,
    /// Element type.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
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

/// The default problems: batch, heads, key heads, length, dimension, value dimension.
const SHAPES: &[[u32; 6]] = &[
    [16, 32, 8, 4096, 128, 128],
    [64, 32, 8, 4096, 128, 128],
    [16, 64, 8, 32_768, 128, 128],
    [128, 32, 8, 2048, 128, 128],
    [1, 64, 8, 131_072, 128, 128],
    [32, 32, 8, 8192, 64, 64],
    [32, 32, 8, 8192, 96, 96],
    [32, 16, 8, 4096, 256, 256],
];

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let choice: DeviceChoice = options.device.parse().map_err(Failure::input)?;
    let device = Device::open(choice).map_err(Failure::input)?;
    if device.is_sim() {
        return Err(Failure::input(
            "this benchmark needs a GPU, but none was found: the simulator cannot measure bytes per second",
        ));
    }
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options, &device),
        Dtype::F16 => measure::<f16>(options, &device),
    }
}

fn measure<T: VectorElement<2> + Converted>(
    options: &Options,
    device: &Device,
) -> Result<(), Failure> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let provenance = Provenance::of(device, format!("tilewright {command}"));
    let header =
        "problem                          us      GB/s                    of read  kernel\n";
    print(&format!("{provenance}; decode of {}, pages of {}\n{header}", T::SCALAR, options.page))?;
    let mut shapes: Vec<[u32; 6]> = options.shapes.iter().map(|Shape(sizes)| *sizes).collect();
    if shapes.is_empty() {
        shapes = SHAPES.to_vec();
    }
    let (mut tuner, mut records) = (Tuner::new(device), Vec::new());
    let meter = Meter::new();
    for (index, sizes) in shapes.iter().enumerate() {
        meter.task(format!("{sizes:?}"), index, shapes.len());
        let (text, record) = one::<T>(options, &mut tuner, *sizes, &meter)?;
        meter.clear();
        print(&text)?;
        records.push(record);
        if let Some(path) = &options.json {
            let elem = T::SCALAR.to_string();
            let all = json!({ "provenance": provenance, "elements": elem, "results": records });
            std::fs::write(path, all.to_string())
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

/// Measures one problem. Returns the lines about it, and its record.
fn one<T: VectorElement<2> + Converted>(
    options: &Options,
    tuner: &mut Tuner<DecodeTunable<T>>,
    [batch, heads, key_heads, len, head_dim, _]: [u32; 6],
    meter: &Meter,
) -> Result<(String, Value), Failure> {
    let row = len.div_ceil(options.page.max(1));
    let sizes = [batch * row, options.page, row];
    let problem = DecodeProblem::new([batch, heads, key_heads], head_dim, sizes);
    let Options { queries, window, .. } = *options;
    let problem = DecodeProblem { queries, window, max_len: len, ..problem };
    problem.check().map_err(Failure::input)?;
    let device = tuner.device().clone();
    let kernel = DecodeConfig::new(device.target(), head_dim).map_err(Failure::input)?;
    let tunable = DecodeTunable::<T>::new(problem);
    let splits = std::iter::once(None).chain(options.splits.iter().copied().map(Some));
    let default = splits.map(|splits| DecodeChoice { kernel, splits }).collect();
    let choices = options.configs.of(tuner, &tunable, REGIME, default, meter)?;
    meter.add_steps((1 + choices.len()) * (1 + options.rounds as usize));
    let mut work = Workload::new(&device, &tunable).map_err(Failure::run)?;
    let bytes = problem.bytes(vec![len; batch as usize]);
    // A row reduction over both pools reads the same bytes.
    let cached = bytes / (2 * size_of::<T>() as u64);
    let rows = RowProblem::new((cached / 8192).max(1) as u32, cached.min(8192) as u32);
    let of_rows = RowReduceConfig::new(RowReduceOp::Max, device.target(), T::SCALAR, &rows);
    let read = RowReduce::<T>::new(of_rows).and_then(|reduce| reduce.load(&device));
    let read = read.map_err(Failure::run)?;
    let mut maxima = device.zeros(rows.rows as usize).map_err(Failure::run)?;
    let mut read = |stream: &Stream, data: &mut DecodeOperands<T>| {
        let [_, pools @ ..] = &data.inputs;
        pools.iter().try_for_each(|pool| Ok(read.on(stream).launch(&rows, (pool, &mut maxima))?))
    };
    let seconds = work.probe(&mut read).map_err(Failure::run)?;
    let window = work.window(REGIME, seconds, &mut read).map_err(Failure::run)?;
    let mut windows = vec![("read".to_owned(), window)];
    for choice in choices {
        let function = tuner.function(&choice).map_err(Failure::run)?;
        let mut launch = |stream: &Stream, data: &mut DecodeOperands<T>| {
            let options = LaunchOptions::default().stream(stream);
            tunable.launch(&choice, &function, data, options)
        };
        let DecodePlan { splits, tokens } = choice.plan(&function, &problem);
        let name = format!("{}, {splits} splits of {tokens}", choice.kernel);
        let named = |why: Rejection| Failure::run(format!("{name} {why}"));
        work.check(&mut launch).map_err(named)?;
        let seconds = work.probe(&mut launch).map_err(named)?;
        let window = work.window(REGIME, seconds, &mut launch).map_err(named)?;
        windows.push((name, window));
        meter.step();
    }
    let time = |which: usize| {
        meter.step();
        work.time(&windows[which].1, REGIME)
    };
    let times = interleave(windows.len(), options.rounds as usize, 1, time);
    let shape = format!("{batch}x{heads}/{key_heads}x{len}x{head_dim}");
    let (mut text, mut results, mut of_read) = (String::new(), Vec::new(), None);
    for (times, (name, _)) in times.into_iter().zip(&windows) {
        let times: Vec<f64> = times.map_err(Failure::run)?;
        let Some(of) = Estimate::of(&times, 1) else { continue };
        let [speed, low, high] = [of.median, of.high, of.low].map(|time| bytes as f64 / time / 1e9);
        let share = speed / *of_read.get_or_insert(speed);
        let speeds = format!("{speed:.0} [{low:.0}, {high:.0}]");
        let us = of.median * 1e6;
        let _ = writeln!(text, "{shape:<26} {us:>8.1}  {speeds:<24} {share:>5.2}  {name}");
        results.push(json!({
            "kernel": name,
            "seconds": times,
            "gigabytes_per_second": { "median": speed, "low": low, "high": high },
            "share_of_read": share,
        }));
    }
    let (queries, page) = (options.queries, options.page);
    let record = json!({
        "shape": shape,
        "queries": queries,
        "page": page,
        "bytes": bytes,
        "kernels": results,
    });
    Ok((text, record))
}
