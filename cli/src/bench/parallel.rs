//! `tilewright bench parallel`: parallel linear layers on all GPUs, with communication overlapped
//! and one after the other.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tilewright::ir::bf16;
use tilewright::kernels::gemm::GemmError;
use tilewright::kernels::parallel::{
    ColumnParallel, CommOverlap, ParallelSizes, RowOutput, RowParallel,
};
use tilewright::runtime::comm::{CommOptions, Communicator, ReduceOp};
use tilewright::runtime::{Buffer, Device, RuntimeError, Stream};
use tilewright_tune::{Estimate, Provenance, interleave};

use super::super::progress::Meter;
use super::super::{Failure, print};

/// The options of `tilewright bench parallel`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Layers, separated by commas: `ROWSxOUTERxHIDDEN`. An MLP's first layer is column-parallel
    /// from OUTER to HIDDEN columns, its second one row-parallel from HIDDEN to OUTER [default:
    /// those of usual language models].
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// Chunk counts to measure besides the planned one, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_name = "LIST")]
    chunks: Vec<u32>,
    /// Thread blocks per collective; the GEMMs leave it that many SMs.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    comm_sms: u32,
    /// How many GPUs to use [default: all].
    #[arg(long, value_name = "COUNT")]
    gpus: Option<usize>,
    /// How many comparison rounds to run.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write every round to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Rows over all ranks, columns between an MLP's layers, and columns inside it.
#[derive(Clone, Copy, Debug)]
struct Shape([u32; 3]);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let sizes: Option<Vec<u32>> =
            text.split('x').map(|size| size.trim().parse().ok()).collect();
        match sizes.as_deref() {
            Some([rows, outer, hidden]) if *rows.min(outer).min(hidden) > 0 => {
                Ok(Shape([*rows, *outer, *hidden]))
            }
            _ => Err(format!(
                "`{text}` is not a layer: expected numbers above 0, such as `4096x8192x28672`"
            )),
        }
    }
}

const SHAPES: &[[u32; 3]] = &[
    [4096, 8192, 28_672],
    [4096, 8192, 8192],
    [2048, 8192, 8192],
    [8192, 4096, 4096],
    [256, 8192, 8192],
    [512, 8192, 8192],
    [1024, 8192, 8192],
];

/// How long a measurement takes, in seconds.
const MEASURED: f64 = 0.03;

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let count = Device::cuda_count().map_err(Failure::input)?;
    let count = options.gpus.unwrap_or(count).min(count);
    let devices = (0..count).map(Device::cuda).collect::<Result<Vec<_>, _>>();
    let devices = devices.map_err(Failure::input)?;
    let comm_options =
        CommOptions::default().max_blocks(options.comm_sms).timeout(Duration::from_secs(60));
    let comms = Communicator::all_with(comm_options, &devices).map_err(Failure::run)?;
    let version = Communicator::nccl_version().map_err(Failure::run)?;
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let provenance = Provenance::of(&devices[0], format!("tilewright {command}"));
    print(&format!(
        "{provenance}; {count} GPUs, NCCL {version}, at most {} blocks; parallel layers of bf16\n\
         rows x outer x hidden  layer   overlap                   us  gain over no overlap\n",
        options.comm_sms
    ))?;
    let mut shapes: Vec<[u32; 3]> = options.shapes.iter().map(|Shape(sizes)| *sizes).collect();
    if shapes.is_empty() {
        shapes = SHAPES.to_vec();
    }
    let mut records = Vec::new();
    let meter = Meter::new();
    for (index, shape) in shapes.iter().copied().enumerate() {
        let ranks = count as u32;
        if shape[0] % ranks != 0 || shape[2] % ranks != 0 {
            return Err(Failure::input(format!(
                "{ranks} GPUs cannot divide {shape:?} evenly: choose other sizes"
            )));
        }
        for (layer, kind) in [Kind::Column, Kind::Row].into_iter().enumerate() {
            meter.task(format!("{shape:?} {kind:?}"), 2 * index + layer, 2 * shapes.len());
            let (text, record) = measure(options, &comms, shape, kind, &meter)?;
            meter.clear();
            print(&text)?;
            records.push(record);
        }
        if let Some(path) = &options.json {
            let all = json!({
                "provenance": provenance,
                "gpus": count,
                "nccl": version.to_string(),
                "comm_sms": options.comm_sms,
                "results": records,
            });
            std::fs::write(path, all.to_string())
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Column,
    Row,
}

/// A rank's layer.
enum Layer<'c> {
    Column(Box<ColumnParallel<'c, bf16>>),
    Row(Box<RowParallel<'c, bf16>>),
}

impl<'c> Layer<'c> {
    fn new(
        comm: &'c Communicator,
        kind: Kind,
        sizes: ParallelSizes,
        overlap: Option<CommOverlap>,
    ) -> Result<Layer<'c>, GemmError> {
        Ok(match kind {
            Kind::Column => Layer::Column(Box::new(ColumnParallel::new(comm, sizes, overlap)?)),
            Kind::Row => {
                let output = RowOutput::Scattered;
                Layer::Row(Box::new(RowParallel::new(comm, sizes, output, overlap)?))
            }
        })
    }

    fn overlap(&self) -> CommOverlap {
        match self {
            Layer::Column(layer) => layer.overlap(),
            Layer::Row(layer) => layer.overlap(),
        }
    }

    fn forward(&mut self, stream: &Stream, tensors: &mut Tensors) -> Result<(), GemmError> {
        let Tensors { x, w, y } = tensors;
        match self {
            Layer::Column(layer) => layer.forward(stream, x, w, y),
            Layer::Row(layer) => layer.forward(stream, x, w, y),
        }
    }
}

struct Tensors {
    x: Buffer<bf16>,
    w: Buffer<bf16>,
    y: Buffer<bf16>,
}

/// A rank's results: the name of each overlap, and its seconds per round.
type Times = Vec<(String, Vec<f64>)>;

/// Measures a layer on all ranks. Returns the lines about it, and its record.
fn measure(
    options: &Options,
    comms: &[Communicator],
    shape: [u32; 3],
    kind: Kind,
    meter: &Meter,
) -> Result<(String, Value), Failure> {
    let all: Result<Vec<Times>, GemmError> = std::thread::scope(|threads| {
        let start = |comm| threads.spawn(move || rank(options, comm, shape, kind, meter));
        let threads: Vec<_> = comms.iter().map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = all.map_err(Failure::run)?.into_iter();
    // A call ends when the last rank ends it.
    let mut times = all.next().unwrap_or_default();
    for other in all {
        for ((_, times), (_, others)) in times.iter_mut().zip(other) {
            times.iter_mut().zip(others).for_each(|(time, other)| *time = time.max(other));
        }
    }
    let (mut text, mut results) = (String::new(), Vec::new());
    let base = times.first().map(|(_, times)| times.clone()).unwrap_or_default();
    let [rows, outer, hidden] = shape;
    for (name, times) in &times {
        let (Some(of), Some(gain)) = (Estimate::of(times, 1), Estimate::of_ratios(&base, times, 1))
        else {
            continue;
        };
        let Estimate { median, low, high } = gain;
        let _ = writeln!(
            text,
            "{:<21}  {:<6}  {name:<18}  {:>8.1}  {median:.3} [{low:.3}, {high:.3}]",
            format!("{rows} x {outer} x {hidden}"),
            format!("{kind:?}").to_lowercase(),
            of.median * 1e6
        );
        results.push(json!({
            "overlap": name,
            "seconds": times,
            "gain": { "median": median, "low": low, "high": high },
        }));
    }
    Ok((text, json!({ "shape": shape, "layer": format!("{kind:?}"), "results": results })))
}

/// Measures a layer on one rank while all other ranks do the same.
fn rank(
    options: &Options,
    comm: &Communicator,
    [rows, outer, hidden]: [u32; 3],
    kind: Kind,
    meter: &Meter,
) -> Result<Times, GemmError> {
    let (device, ranks) = (comm.device(), comm.ranks());
    let (rows, hidden) = (rows / ranks, hidden / ranks);
    let sizes = match kind {
        Kind::Column => ParallelSizes { rows, n: hidden, k: outer },
        Kind::Row => ParallelSizes { rows, n: outer, k: hidden },
    };
    let len = |rows: u32, columns: u32| rows as usize * columns as usize;
    // Small integers, so that sums are exact and all overlaps give equal results.
    let upload = |seed: usize, len: usize| {
        let element = |i: usize| bf16::from_f32(((i * 7 + seed + i / 11) % 3) as f32 - 1.0);
        device.upload(&(0..len).map(element).collect::<Vec<_>>())
    };
    let rank = comm.rank() as usize;
    let (x, y) = match kind {
        Kind::Column => (len(rows, sizes.k), len(ranks * rows, sizes.n)),
        Kind::Row => (len(ranks * rows, sizes.k), len(rows, sizes.n)),
    };
    let mut tensors = Tensors {
        x: upload(rank, x)?,
        w: upload(10 + rank, len(sizes.n, sizes.k))?,
        y: device.zeros(y)?,
    };
    let comm_sms = options.comm_sms;
    let chunks = options.chunks.iter().map(|&chunks| CommOverlap::Chunks { chunks, comm_sms });
    let overlaps = [Some(CommOverlap::None), None].into_iter().chain(chunks.map(Some));
    let stream = device.stream()?;
    let mut layers = Vec::new();
    let mut first = Vec::new();
    for overlap in overlaps {
        let mut layer = Layer::new(comm, kind, sizes, overlap)?;
        layer.forward(&stream, &mut tensors)?;
        device.synchronize()?;
        let result = tensors.y.to_vec()?;
        if first.is_empty() {
            first = result;
        } else if first != result {
            comm.abort();
            return Err(RuntimeError::from(tilewright::runtime::comm::CommError::Aborted {
                rank: comm.rank(),
            })
            .into());
        }
        let name = match (overlap, layer.overlap()) {
            (_, CommOverlap::None) => "none".to_owned(),
            (_, CommOverlap::Chunks { chunks, .. }) => format!("{chunks} chunks"),
        };
        let name = if overlap.is_none() { format!("planned: {name}") } else { name };
        layers.push((name, layer));
    }
    let mut meeting = device.zeros::<f64>(1)?;
    // All ranks continue at the same time, with the largest of their values.
    let mut meet = |value: f64| -> Result<f64, GemmError> {
        meeting.write(&[value])?;
        comm.all_reduce_in_place(&stream, ReduceOp::Max, &mut meeting)?;
        Ok(meeting.to_vec()?[0])
    };
    let mut time = |layer: &mut Layer<'_>, calls: usize| -> Result<f64, GemmError> {
        meet(0.0)?;
        let start = Instant::now();
        for _ in 0..calls {
            layer.forward(&stream, &mut tensors)?;
        }
        device.synchronize()?;
        meet(start.elapsed().as_secs_f64() / calls as f64)
    };
    let mut calls = Vec::new();
    for (_, layer) in &mut layers {
        time(layer, 3)?;
        let one = time(layer, 10)?;
        calls.push(((MEASURED / one.max(1e-6)) as usize).clamp(3, 1000));
    }
    // All ranks draw the same order.
    let is_first = comm.rank() == 0;
    if is_first {
        meter.add_steps(layers.len() * options.rounds as usize);
    }
    let times = interleave(layers.len(), options.rounds as usize, 1, |which| {
        if is_first {
            meter.step();
        }
        time(&mut layers[which].1, calls[which])
    });
    let names = layers.into_iter().map(|(name, _)| name);
    names.zip(times).map(|(name, times)| Ok((name, times?))).collect()
}
