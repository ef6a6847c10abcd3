//! Attention decode over a paged cache, measured on a GPU beside a kernel that only reads the cache.

use std::fmt::Write;

use clap::Args;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{bf16, f16};
use tilewright::kernels::decode::{
    Decode, DecodeArgs, DecodeConfig, DecodeFunction, DecodePlan, DecodeProblem,
};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceFunction, RowReduceOp};
use tilewright::kernels::rows::RowProblem;
use tilewright::runtime::{Buffer, Device, DeviceChoice, LaunchOptions, RuntimeError};
use tilewright::tune::{Estimate, Provenance, interleave};

use super::super::gemm::Real;
use super::super::{Failure, print};
use super::attention::{Dtype, Shape};

/// The options of `tilewright bench decode`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Problems, separated by commas: `BATCHxHEADS/KEY_HEADSxLENGTHxDIM` [default: 1 to 128 sequences, dimensions 64 to 256].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    shapes: Vec<Shape>,
    /// The queries of a sequence.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    queries: u32,
    /// The tokens of a page.
    #[arg(long, default_value_t = 64)]
    page: u32,
    /// Splits of a sequence beside those of the library, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    splits: Vec<u32>,
    /// The type of the elements.
    #[arg(long, default_value = "bf16")]
    dtype: Dtype,
    /// Rounds of the comparison.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Device to run on: `auto` (a GPU if there is one), `cuda` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
}

/// The default sizes: batch, heads, heads of keys, length, dimension, dimension of values.
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
            "this benchmark measures bytes per second of a GPU, and there is none here: the simulator has no such figures",
        ));
    }
    match options.dtype {
        Dtype::Bf16 => measure::<bf16>(options, &device),
        Dtype::F16 => measure::<f16>(options, &device),
    }
}

fn measure<T: Real + VectorElement<2> + Converted>(
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
    for sizes in shapes {
        print(&one::<T>(options, device, sizes)?)?;
    }
    Ok(())
}

/// A decode step with its plan, or a reduction of the rows of both pools, which reads the same bytes.
enum Kernel<'f, T: VectorElement<2>> {
    Decode(&'f DecodeFunction<T>, DecodePlan),
    Read(RowReduceFunction<T>, RowProblem),
}

/// The tensors of a launch.
struct Tensors<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    table: Buffer<i32>,
    lens: Buffer<i32>,
    o: Buffer<T>,
    maxima: Buffer<f32>,
}

impl<T: VectorElement<2> + Converted> Tensors<T> {
    fn launch(
        &mut self,
        options: LaunchOptions<'_>,
        problem: &DecodeProblem,
        kernel: &Kernel<'_, T>,
    ) -> Result<(), Failure> {
        let Tensors { q, k, v, table, lens, o, maxima } = self;
        match kernel {
            Kernel::Decode(function, plan) => {
                let args = DecodeArgs { q, k, v, table, lens, o, lse: None };
                function.launch_with(options, problem, plan, args).map_err(Failure::run)
            }
            Kernel::Read(function, rows) => [k, v]
                .into_iter()
                .try_for_each(|pool| function.launch_with(options, rows, pool, maxima))
                .map_err(Failure::run),
        }
    }
}

/// Measures one problem: the lines about it.
fn one<T: Real + VectorElement<2> + Converted>(
    options: &Options,
    device: &Device,
    [batch, heads, key_heads, len, head_dim, _]: [u32; 6],
) -> Result<String, Failure> {
    let row = len.div_ceil(options.page.max(1));
    let sizes = [batch * row, options.page, row];
    let problem = DecodeProblem::new([batch, heads, key_heads], head_dim, sizes);
    let problem = DecodeProblem { queries: options.queries, max_len: len, ..problem };
    problem.check().map_err(Failure::input)?;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // Large tensors repeat a prime number of random elements.
    let numbers: Vec<T> = (0..1_000_003).map(|_| T::of(rng.random_range(-1.7f32..1.7))).collect();
    let tensor =
        |len: u64| -> Vec<T> { numbers.iter().copied().cycle().take(len as usize).collect() };
    let mut table: Vec<i32> = (0..(batch * row) as i32).collect();
    table.shuffle(&mut rng);
    let cached = u64::from(batch * row) * problem.k_strides()[2];
    let (q, k) = (tensor(u64::from(batch) * problem.q_strides()[2]), tensor(cached));
    // V differs from K.
    let v: Vec<T> = k.iter().rev().copied().collect();
    let rows = RowProblem::new((cached / 8192).max(1) as u32, cached.min(8192) as u32);
    let mut tensors = Tensors {
        q: device.upload(&q).map_err(Failure::run)?,
        k: device.upload(&k).map_err(Failure::run)?,
        v: device.upload(&v).map_err(Failure::run)?,
        table: device.upload(&table).map_err(Failure::run)?,
        lens: device.upload(&vec![len as i32; batch as usize]).map_err(Failure::run)?,
        o: device.zeros(q.len()).map_err(Failure::run)?,
        maxima: device.zeros(rows.rows as usize).map_err(Failure::run)?,
    };
    let config = DecodeConfig::new(device.target(), head_dim).map_err(Failure::input)?;
    let decode = Decode::<T>::new(config).and_then(|decode| decode.load(device));
    let decode = decode.map_err(Failure::run)?;
    let of_rows = RowReduceConfig::new(RowReduceOp::Max, device.target(), T::SCALAR, &rows);
    let read = RowReduce::<T>::new(of_rows).and_then(|reduce| reduce.load(device));
    let mut kernels = vec![Kernel::Read(read.map_err(Failure::run)?, rows)];
    let splits = options.splits.iter().map(|splits| DecodePlan::split(&problem, *splits));
    kernels.extend(
        std::iter::once(decode.plan(&problem))
            .chain(splits)
            .map(|plan| Kernel::Decode(&decode, plan)),
    );
    let bytes = problem.bytes(vec![len; batch as usize]) as f64;
    // At 4 TB/s, about 20 ms.
    let launches = ((0.02 / (bytes / 4e12)) as usize).clamp(1, 2000);
    let mut graphs = Vec::new();
    for kernel in &kernels {
        tensors.launch(LaunchOptions::default(), &problem, kernel)?;
        if let Kernel::Decode(_, plan) = kernel {
            check(
                &problem,
                plan,
                [&q, &k, &v],
                &table,
                &tensors.o.to_vec().map_err(Failure::run)?,
            )?;
        }
        let graph = device.graph().map_err(Failure::run)?;
        for _ in 0..launches {
            let options = LaunchOptions::default().stream(graph.stream());
            tensors.launch(options, &problem, kernel)?;
        }
        graphs.push(graph.finish().map_err(Failure::run)?);
    }
    let stream = device.stream().map_err(Failure::run)?;
    let time = |which: usize| {
        let elapsed = graphs[which].time_on(&stream)?.elapsed;
        Ok::<f64, RuntimeError>(elapsed.as_secs_f64() / launches as f64)
    };
    (0..graphs.len()).try_for_each(|which| time(which).map(|_| ())).map_err(Failure::run)?;
    let times = interleave(graphs.len(), options.rounds as usize, 1, time);
    let shape = format!("{batch}x{heads}/{key_heads}x{len}x{head_dim}");
    let (mut text, mut of_read) = (String::new(), None);
    for (times, kernel) in times.into_iter().zip(&kernels) {
        let times: Vec<f64> = times.map_err(Failure::run)?;
        let Some(of) = Estimate::of(&times, 1) else { continue };
        let [speed, low, high] = [of.median, of.high, of.low].map(|time| bytes / time / 1e9);
        let share = speed / *of_read.get_or_insert(speed);
        let name = match kernel {
            Kernel::Read(..) => "read".to_owned(),
            Kernel::Decode(_, DecodePlan { splits, tokens }) => {
                format!("{config}, {splits} splits of {tokens}")
            }
        };
        let speeds = format!("{speed:.0} [{low:.0}, {high:.0}]");
        let us = of.median * 1e6;
        let _ = writeln!(text, "{shape:<26} {us:>8.1}  {speeds:<24} {share:>5.2}  {name}");
    }
    Ok(text)
}

/// Compares the first query of some heads with the definition in `f64`.
fn check<T: Real>(
    problem: &DecodeProblem,
    plan: &DecodePlan,
    [q, k, v]: [&[T]; 3],
    table: &[i32],
    o: &[T],
) -> Result<(), Failure> {
    let DecodeProblem { batch, heads, key_heads, queries, head_dim, page, max_pages, .. } =
        *problem;
    let dim = head_dim as usize;
    const SAMPLES: u32 = 5;
    for sample in 0..SAMPLES {
        let (b, h) = (sample * (batch - 1) / (SAMPLES - 1), sample * (heads - 1) / (SAMPLES - 1));
        let first = ((b * queries) * heads + h) as usize * dim;
        let row = |key: u32| {
            let number = table[(b * max_pages + key / page) as usize] as u32;
            let token = u64::from(number) * u64::from(page) + u64::from(key % page);
            let at = token * u64::from(key_heads) + u64::from(h / (heads / key_heads));
            at as usize * dim..(at as usize + 1) * dim
        };
        let keys = problem.max_len - (queries - 1);
        let dot = |key: u32| -> f64 {
            let both = q[first..][..dim].iter().zip(&k[row(key)]);
            both.map(|(q, k)| q.to() * k.to()).sum::<f64>() * f64::from(problem.scale())
        };
        let scores: Vec<f64> = (0..keys).map(dot).collect();
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        let mut expected = vec![0.0; dim];
        for (key, score) in (0..keys).zip(&scores) {
            let values = expected.iter_mut().zip(&v[row(key)]);
            values.for_each(|(o, v)| *o += score.exp() / sum * v.to());
        }
        for (found, expected) in o[first..].iter().zip(expected) {
            let found = found.to();
            if found.is_nan() || (found - expected).abs() > 2.0 * T::UNIT * (1.0 + expected.abs()) {
                return Err(Failure::run(format!(
                    "{plan:?} is wrong: of head ({b}, {h}) is {found}, not {expected}"
                )));
            }
        }
    }
    Ok(())
}
