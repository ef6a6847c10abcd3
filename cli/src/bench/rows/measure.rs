//! Launches, compares and times the kernels and the copies.

use std::fmt::Write;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::op::LoadAccess;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig, ElementwiseFunction};
use tilewright::kernels::gather::{RowGather, RowGatherConfig, RowGatherFunction};
use tilewright::kernels::norm::{Norm, NormArgs, NormConfig, NormFunction};
use tilewright::kernels::permute::{Permute, PermuteConfig, PermuteFunction, PermuteProblem};
use tilewright::kernels::reduce::{
    AxisProblem, AxisReduce, AxisReduceConfig, AxisReduceFunction, RowReduce, RowReduceConfig,
    RowReduceFunction, RowReduceOp, TopK, TopKConfig, TopKFunction,
};
use tilewright::kernels::rows::{RowConfig, RowProblem};
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig, SoftmaxFunction};
use tilewright::kernels::transpose::{
    Transpose, TransposeConfig, TransposeFunction, TransposeProblem,
};
use tilewright::layout::{Layout, layout};
use tilewright::runtime::{
    Buffer, Device, Function, Graph, Grid, LaunchOptions, RuntimeError, Stream,
};
use tilewright::tune::{
    Estimate, NormTunable, Provenance, Regime, SoftmaxTunable, TransposeTunable, Tunable, Tuner,
    interleave, median,
};

use super::super::super::gemm::Real;
use super::super::super::{Failure, print};
use super::{Candidates, EPSILON, Pointwise, Rows, Shape, What, listed};

/// The buffers of a launch. With a residual, `x` and `y` have twice the elements of the matrix, so that their copy moves
/// the bytes of the kernel.
struct Set<T> {
    x: Buffer<T>,
    y: Buffer<T>,
    residual: Option<Buffer<T>>,
    numbers: Buffer<f32>,
    columns: Buffer<i32>,
    /// The list of a gather.
    index: Buffer<i32>,
}

/// A kernel that a device has loaded.
enum Loaded<T> {
    Copy(Function<Copy<T>>, [u32; 2]),
    Softmax(SoftmaxFunction<T>),
    Norm(NormFunction<T>),
    Reduce(RowReduceFunction<T>),
    ArgMax(RowReduceFunction<T, i32>),
    ReduceRows(AxisReduceFunction<T>),
    ArgMaxOfRows(AxisReduceFunction<T, i32>),
    Top(TopKFunction<T>),
    Transpose(TransposeFunction<T>),
    Permute(PermuteFunction<T>, PermuteProblem),
    Gather(RowGatherFunction<T>),
    Gelu(ElementwiseFunction<T, T, 1>),
    Affine(ElementwiseFunction<T, T, 3>),
}

impl<T: Real + VectorElement<2> + Converted> Loaded<T> {
    fn launch(
        &self,
        options: LaunchOptions<'_>,
        problem: &RowProblem,
        set: &mut Set<T>,
        weight: &Buffer<T>,
    ) -> Result<(), Failure> {
        match self {
            Loaded::Copy(function, [threads, vectors]) => {
                let count = (set.x.len() * size_of::<T>() / 16) as u32;
                let grid = Grid::new([count.div_ceil(threads * vectors), 1, 1], [*threads, 1, 1]);
                let args = (&set.x, &mut set.y, count as i32);
                function.launch_with(options, grid, args).map_err(Failure::run)
            }
            Loaded::Softmax(function) => {
                function.launch_with(options, problem, &set.x, &mut set.y).map_err(Failure::run)
            }
            Loaded::Reduce(function) => function
                .launch_with(options, problem, &set.x, &mut set.numbers)
                .map_err(Failure::run),
            Loaded::ArgMax(function) => function
                .launch_with(options, problem, &set.x, &mut set.columns)
                .map_err(Failure::run),
            Loaded::ReduceRows(function) => function
                .launch_with(options, &axis(problem), &set.x, &mut set.numbers)
                .map_err(Failure::run),
            Loaded::ArgMaxOfRows(function) => function
                .launch_with(options, &axis(problem), &set.x, &mut set.columns)
                .map_err(Failure::run),
            Loaded::Top(function) => function
                .launch_with(options, problem, &set.x, &mut set.numbers, &mut set.columns)
                .map_err(Failure::run),
            Loaded::Permute(function, permuted) => {
                function.launch_with(options, permuted, &set.x, &mut set.y).map_err(Failure::run)
            }
            Loaded::Gather(function) => {
                let problem = (problem, problem.rows);
                let launched =
                    function.launch_with(options, problem, &set.index, &set.x, &mut set.y);
                launched.map_err(Failure::run)
            }
            Loaded::Gelu(function) => {
                function.launch_with(options, [&set.x], &mut set.y).map_err(Failure::run)
            }
            Loaded::Affine(function) => function
                .launch_with(options, [&set.x, weight, weight], &mut set.y)
                .map_err(Failure::run),
            Loaded::Transpose(function) => {
                let problem = TransposeProblem::new(problem.rows, problem.columns);
                function.launch_with(options, &problem, &set.x, &mut set.y).map_err(Failure::run)
            }
            Loaded::Norm(function) => {
                let mut args = NormArgs::new(&set.x, &mut set.y).epsilon(EPSILON).weight(weight);
                if let Some(residual) = &mut set.residual {
                    args = args.residual(residual);
                }
                function.launch_with(options, problem, args).map_err(Failure::run)
            }
        }
    }
}

/// The problem of the rows of each column.
fn axis(problem: &RowProblem) -> AxisProblem {
    AxisProblem { outer: 1, len: problem.rows, inner: problem.columns }
}

/// Source, destination, vectors of 16 bytes.
type Copy<T> = (Global<T>, GlobalMut<T>, i32);

/// A copy in which each thread has `vectors` vectors of 16 bytes, a block's threads apart. One that only reads stores nothing,
/// unless all words of a thread have all bits, which numbers do not.
fn copy_kernel<T: Real>(
    target: Target,
    [threads, vectors]: [u32; 2],
    only_reads: bool,
) -> Result<Kernel<Copy<T>>, Failure> {
    let kernel = Kernel::<Copy<T>>::build("copy", target, |k, (x, y, count)| {
        let first = k.block_idx().x * (threads * vectors) as i32 + k.thread_idx().x;
        let at: Vec<Val<'_, i32>> = (0..vectors).map(|i| first + (i * threads) as i32).collect();
        let zero: Val<'_, Vector<u32, 4>> = Val::splat(k.constant(0u32));
        let (x, y) = (x.ptr_cast::<u32>(), y.ptr_cast::<u32>());
        let access = LoadAccess::default().non_coherent();
        let mut loaded = Vec::new();
        for at in &at {
            loaded.push(k.if_with(at.lt(count), zero, |k| {
                x.load_vector_with::<4>(k, at.cvt::<i64>() * 4, access)
            }));
        }
        if only_reads {
            let words = loaded.iter().flat_map(|vector| vector.lanes());
            let all = words.fold(k.constant(u32::MAX), |all, word| all & word);
            return k.if_(all.eq(u32::MAX), |k| y.store(k, 0, all));
        }
        for (at, vector) in at.iter().zip(loaded) {
            k.if_(at.lt(count), |k| y.store_vector(k, at.cvt::<i64>() * 4, vector));
        }
    });
    kernel.map_err(Failure::run)
}

/// Threads of a block and vectors of a thread of the copies; the fastest one counts.
const COPIES: [[u32; 2]; 4] = [[256, 2], [256, 4], [512, 4], [1024, 4]];

/// Returns the copies, or the kernels that only read, each with its name.
fn load_copies<T: Real>(
    device: &Device,
    only_reads: bool,
) -> Result<Vec<(String, Loaded<T>)>, Failure> {
    let load = |copy @ [threads, vectors]: [u32; 2]| {
        let kernel = copy_kernel::<T>(device.target(), copy, only_reads)?;
        let function = device.load(&kernel).map_err(Failure::run)?;
        Ok((format!("copy_{threads}x{vectors}"), Loaded::Copy(function, copy)))
    };
    COPIES.into_iter().map(load).collect()
}

/// Returns the configurations that the options name.
fn choose<K: Tunable>(
    options: &Rows,
    device: &Device,
    kernel: &K,
    default: K::Config,
) -> Result<Vec<K::Config>, Failure> {
    options.configs.of(&mut Tuner::new(device), kernel, Regime::Burst, vec![default])
}

/// Returns the candidates, each with its name.
fn load<T: Real + VectorElement<2> + Converted>(
    options: &Rows,
    what: What,
    device: &Device,
    problem: &RowProblem,
) -> Result<Vec<(String, Loaded<T>)>, Failure> {
    let target = device.target();
    let mut all = Vec::new();
    match what {
        What::Transpose => {
            let sizes = TransposeProblem::new(problem.rows, problem.columns);
            let default = TransposeConfig::new(target, T::SCALAR, &sizes);
            for config in choose(options, device, &TransposeTunable::<T>::new(sizes), default)? {
                let loaded = Transpose::<T>::new(config).and_then(|found| found.load(device));
                let loaded = loaded.map(Loaded::Transpose).map_err(Failure::run)?;
                all.push((format!("transpose_{config}"), loaded));
            }
        }
        What::Reduce(op) => {
            let config = RowReduceConfig::new(op, target, T::SCALAR, problem);
            let loaded = match op {
                RowReduceOp::ArgMax => RowReduce::<T, i32>::new(config)
                    .and_then(|reduce| reduce.load(device))
                    .map(Loaded::ArgMax),
                _ => RowReduce::<T>::new(config)
                    .and_then(|reduce| reduce.load(device))
                    .map(Loaded::Reduce),
            };
            all.push((format!("{}_{}", what.name(), config.rows), loaded.map_err(Failure::run)?));
        }
        What::ReduceRows(op) => {
            let config = AxisReduceConfig::new(op, target, T::SCALAR, &axis(problem));
            let loaded = match op {
                RowReduceOp::ArgMax => AxisReduce::<T, i32>::new(config)
                    .and_then(|reduce| reduce.load(device))
                    .map(Loaded::ArgMaxOfRows),
                _ => AxisReduce::<T>::new(config)
                    .and_then(|reduce| reduce.load(device))
                    .map(Loaded::ReduceRows),
            };
            all.push((format!("axis_{config}"), loaded.map_err(Failure::run)?));
        }
        What::Top(count) => {
            let mut configs = TopKConfig::candidates(count, target, T::SCALAR, problem);
            if options.configs == Candidates::Default {
                configs.truncate(1);
            }
            for config in configs {
                let loaded = TopK::<T>::new(config).and_then(|top| top.load(device));
                let name = format!("{}_{}", what.name(), config.rows);
                all.push((name, Loaded::Top(loaded.map_err(Failure::run)?)));
            }
        }
        What::Permute { heads } => {
            let RowProblem { rows, columns, .. } = *problem;
            if !rows.is_multiple_of(heads) {
                return Err(Failure::input(format!(
                    "{rows} rows are no multiple of {heads} heads: name others with `--heads`"
                )));
            }
            let permuted = PermuteProblem::new(&[rows / heads, heads, columns], &[1, 0, 2]);
            let permuted = permuted.map_err(Failure::input)?;
            let config = PermuteConfig::new(target, T::SCALAR, &permuted);
            let loaded = Permute::<T>::new(config).and_then(|permute| permute.load(device));
            let loaded = Loaded::Permute(loaded.map_err(Failure::run)?, permuted);
            all.push((format!("{}_{}", what.name(), config.rows), loaded));
        }
        What::Gather(side) => {
            let config = RowGatherConfig::new(side, target, T::SCALAR, problem);
            let loaded = RowGather::<T>::new(config).and_then(|gather| gather.load(device));
            let name = format!("{}_{}", what.name(), config.rows);
            all.push((name, Loaded::Gather(loaded.map_err(Failure::run)?)));
        }
        What::Elementwise(Pointwise::Gelu) => {
            let config = ElementwiseConfig::new(target, 1);
            let kernel = Elementwise::<T, T, 1>::new(config, "gelu", |_, [x]| x.gelu_tanh_fast());
            let loaded = kernel.and_then(|kernel| kernel.load(device)).map_err(Failure::run)?;
            all.push(("gelu".to_owned(), Loaded::Gelu(loaded)));
        }
        What::Elementwise(Pointwise::Affine) => {
            let shape = [problem.rows, problem.columns].map(i64::from);
            let y = Layout::row_major((shape[0], shape[1]));
            let of_columns = layout!((shape[0], shape[1]):(0, 1));
            let config = ElementwiseConfig::new(target, 1);
            let inputs = [&y, &of_columns, &of_columns].map(Into::into);
            let kernel = Elementwise::<T, T, 3>::with_layouts(
                config,
                "affine",
                &y,
                inputs,
                |_, [x, scale, bias]| x.fma(scale, bias),
            );
            let loaded = kernel.and_then(|kernel| kernel.load(device)).map_err(Failure::run)?;
            all.push(("affine".to_owned(), Loaded::Affine(loaded)));
        }
        What::Softmax { log } => {
            let default = SoftmaxConfig::new(target, T::SCALAR, problem).map_err(Failure::input)?;
            let kernel = SoftmaxTunable::<T>::new(*problem);
            let kernel = if log { kernel.log() } else { kernel };
            for config in choose(options, device, &kernel, SoftmaxConfig { log, ..default })? {
                let loaded = Softmax::<T>::new(config).and_then(|softmax| softmax.load(device));
                all.push((config.to_string(), Loaded::Softmax(loaded.map_err(Failure::run)?)));
            }
        }
        What::Norm { kind, residual } => {
            let rows = RowConfig::new(target, T::SCALAR, problem).map_err(Failure::input)?;
            let default = NormConfig { rows, kind, residual: false, weight: true, bias: false };
            for config in choose(options, device, &NormTunable::<T>::new(kind, *problem), default)?
            {
                let config = if residual { config.residual() } else { config };
                let loaded = Norm::<T>::new(config).and_then(|norm| norm.load(device));
                all.push((config.to_string(), Loaded::Norm(loaded.map_err(Failure::run)?)));
            }
        }
    }
    Ok(all)
}

pub(super) fn measure<T: Real + VectorElement<2> + Converted>(
    options: &Rows,
    what: What,
    device: &Device,
) -> Result<(), Failure> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let provenance = Provenance::of(device, format!("tilewright {command}"));
    let name = what.name();
    let beside = if what.only_reads() { "read" } else { "copy" };
    print(&format!(
        "{provenance}; {name} of {}\nrows x columns            us     GB/s  of the {beside}             kernel\n",
        T::SCALAR
    ))?;
    let mut records = Vec::new();
    let mut shapes: Vec<(u32, u32)> = options.shapes.iter().map(|Shape(m, n)| (*m, *n)).collect();
    if shapes.is_empty() {
        shapes = what.shapes().to_vec();
    }
    let copies = load_copies::<T>(device, what.only_reads())?;
    for (rows, columns) in shapes {
        let problem = RowProblem::new(rows, columns);
        let (text, record) = one::<T>(options, what, device, &problem, &copies)?;
        print(&text)?;
        records.push(record);
        if let Some(path) = &options.json {
            let elem = T::SCALAR.to_string();
            let all = json!({
                "provenance": provenance,
                "kernel": name,
                "elements": elem,
                "results": records,
            });
            std::fs::write(path, all.to_string())
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

/// Measures one size: the lines about it, and the record.
fn one<T: Real + VectorElement<2> + Converted>(
    options: &Rows,
    what: What,
    device: &Device,
    problem: &RowProblem,
    copies: &[(String, Loaded<T>)],
) -> Result<(String, Value), Failure> {
    let candidates = load::<T>(options, what, device, problem)?;
    let all: Vec<&(String, Loaded<T>)> = copies.iter().chain(&candidates).collect();
    let len = problem.rows as usize * problem.columns as usize;
    // Each element that is read is written once, unless the kernel only reads; weights and results of lines are not counted.
    let directions = if what.only_reads() { 1 } else { 2 };
    let bytes = directions * what.matrices() * len * size_of::<T>();
    let l2 = device.properties().map_or(1 << 26, |properties| properties.l2_bytes);
    let sets = (3 * l2 as usize).div_ceil(bytes).clamp(1, 64);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // A prime number of random elements, again and again: no two rows are equal, and the host is quick.
    let some: Vec<T> =
        (0..len.min(1_000_003)).map(|_| T::of(rng.random_range(-4.0..4.0))).collect();
    let mut x = Vec::with_capacity(what.matrices() * len);
    while x.len() < len {
        x.extend_from_slice(&some[..some.len().min(len - x.len())]);
    }
    let failed = |error: RuntimeError| Failure::run(error);
    x.resize(what.matrices() * len, T::of(0.0));
    let list: Vec<i32> = (0..problem.rows as usize).map(|i| listed(problem, i) as i32).collect();
    let results = what.results(problem);
    let mut sets = (0..sets)
        .map(|_| {
            Ok(Set {
                x: device.upload(&x)?,
                y: device.zeros(x.len())?,
                residual: (what.matrices() == 2).then(|| device.zeros(len)).transpose()?,
                numbers: device.zeros(results)?,
                columns: device.zeros(results)?,
                index: device.upload(&list)?,
            })
        })
        .collect::<Result<Vec<Set<T>>, RuntimeError>>()
        .map_err(failed)?;
    let weight = device.upload(&vec![T::of(1.0); problem.columns as usize]).map_err(failed)?;
    let mut host = vec![T::of(0.0); x.len()];
    for (name, loaded) in &all {
        check(what, name, loaded, problem, [&mut x, &mut host], &mut sets[0], &weight)?;
    }
    let stream = device.stream().map_err(failed)?;
    let launches = ((3e-3 / (bytes as f64 / 4e12)) as usize).clamp(1, 300);
    let launches = launches.next_multiple_of(sets.len());
    let graphs = all
        .iter()
        .map(|(_, loaded)| graph(device, loaded, problem, &mut sets, &weight, launches))
        .collect::<Result<Vec<Graph>, Failure>>()?;
    let time = |graph: &Graph, stream: &Stream| -> Result<f64, RuntimeError> {
        Ok(graph.time_on(stream)?.elapsed.as_secs_f64() / launches as f64)
    };
    for graph in graphs.iter().chain(&graphs) {
        time(graph, &stream).map_err(failed)?;
    }
    let rounds = options.rounds as usize;
    let times = interleave(graphs.len(), rounds, 1, |which| time(&graphs[which], &stream));
    let times = times.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let (copies, ours) = times.split_at(COPIES.len());
    let fastest = |a: &&Vec<f64>, b: &&Vec<f64>| {
        median(a).unwrap_or(f64::MAX).total_cmp(&median(b).unwrap_or(f64::MAX))
    };
    let Some(copy) = copies.iter().min_by(fastest) else {
        return Err(Failure::run("no copy was measured"));
    };
    let mut text = String::new();
    let mut results = Vec::new();
    let RowProblem { rows, columns, .. } = problem;
    let lines = [copy].into_iter().chain(ours);
    let names = all.iter().skip(COPIES.len()).map(|(name, _)| name.as_str());
    let beside = if what.only_reads() { "the fastest read" } else { "the fastest copy" };
    for (times, name) in lines.zip([beside].into_iter().chain(names)) {
        let (Some(seconds), Some(share)) = (median(times), Estimate::of_ratios(copy, times, 1))
        else {
            continue;
        };
        let Estimate { median: of, low, high, .. } = share;
        let speed = bytes as f64 / seconds / 1e9;
        let shape = format!("{rows}x{columns}");
        let share = format!("{of:.3} [{low:.3}, {high:.3}]");
        let _ =
            writeln!(text, "{shape:<18} {:>9.2} {speed:>8.0}  {share:<22}  {name}", seconds * 1e6);
        results.push(json!({
            "name": name,
            "bytes": bytes,
            "seconds": times,
            "gigabytes_per_second": speed,
            "share": { "median": of, "low": low, "high": high },
        }));
    }
    let record = json!({ "rows": rows, "columns": columns, "kernels": results });
    Ok((text, record))
}

/// Compares rows from all parts of the matrix with the definition; of a copy, all bytes of the first rows.
fn check<T: Real + VectorElement<2> + Converted>(
    what: What,
    name: &str,
    loaded: &Loaded<T>,
    problem: &RowProblem,
    [x, host]: [&mut [T]; 2],
    set: &mut Set<T>,
    weight: &Buffer<T>,
) -> Result<(), Failure> {
    if let Some(residual) = &mut set.residual {
        residual.write(&vec![T::of(0.0); residual.len()]).map_err(Failure::run)?;
    }
    loaded.launch(LaunchOptions::default(), problem, set, weight)?;
    if what.only_reads() && matches!(loaded, Loaded::Copy(..)) {
        return Ok(());
    }
    let y: Box<dyn Fn(usize) -> f64 + '_> = match loaded {
        Loaded::Reduce(_) | Loaded::ReduceRows(_) => {
            let numbers = set.numbers.to_vec().map_err(Failure::run)?;
            Box::new(move |at| numbers[at].into())
        }
        Loaded::Top(_) => {
            let numbers = set.numbers.to_vec().map_err(Failure::run)?;
            let columns = set.columns.to_vec().map_err(Failure::run)?;
            let (x, width) = (&*x, problem.columns as usize);
            // An element without its column is no result.
            let count = numbers.len() / problem.rows as usize;
            Box::new(move |at| {
                let element = x[at / count * width..][columns[at] as usize].to();
                if element == f64::from(numbers[at]) { element } else { f64::NAN }
            })
        }
        Loaded::ArgMax(_) | Loaded::ArgMaxOfRows(_) => {
            let columns = set.columns.to_vec().map_err(Failure::run)?;
            Box::new(move |at| columns[at].into())
        }
        _ => {
            // Into memory that the host has touched before.
            set.y.read_into(host).map_err(Failure::run)?;
            let y = &*host;
            Box::new(move |at| y[at].to())
        }
    };
    let columns = problem.columns as usize;
    let is_copy = matches!(loaded, Loaded::Copy(..));
    // A copy leaves out the last bytes of a matrix that is not whole vectors.
    let rows = problem.rows as usize;
    let lines = if is_copy { rows.saturating_sub(1).max(1) } else { what.lines(problem) };
    let (samples, width) = (lines.min(32), x.len() / what.matrices() / what.lines(problem));
    for sample in 0..samples {
        let line = if samples < 2 { 0 } else { sample * (lines - 1) / (samples - 1) };
        let from =
            |i| if is_copy { line * columns + i } else { what.input_index(problem, line, i) };
        let count = if is_copy { columns } else { width };
        let x: Vec<f64> = (0..count).map(|i| x[from(i)].to()).collect();
        let largest = x.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        let expected = if is_copy { x } else { what.reference(&x) };
        for (i, expected) in expected.into_iter().enumerate() {
            let found = y(if is_copy { from(i) } else { what.output_index(problem, line, i) });
            // The rounding of `T`, and the error of sums in `f32`.
            let sums = match loaded {
                Loaded::Reduce(_) | Loaded::ReduceRows(_) => 1e-6 * largest * count as f64,
                // The hardware's hyperbolic tangent is accurate to 11 bits, and comes near -1.
                Loaded::Gelu(_) => 2e-3,
                _ => 1e-7,
            };
            let slack = expected.abs() * (T::UNIT + 1e-4) + sums;
            if (found - expected).abs() > slack || found.is_nan() {
                return Err(Failure::run(format!(
                    "{name} is wrong: ({line}, {i}) is {found}, not {expected}"
                )));
            }
        }
    }
    Ok(())
}

/// Launches that alternate between the sets.
fn graph<T: Real + VectorElement<2> + Converted>(
    device: &Device,
    loaded: &Loaded<T>,
    problem: &RowProblem,
    sets: &mut [Set<T>],
    weight: &Buffer<T>,
    launches: usize,
) -> Result<Graph, Failure> {
    let graph = device.graph().map_err(Failure::run)?;
    let count = sets.len();
    for launch in 0..launches {
        let options = LaunchOptions::default().stream(graph.stream());
        loaded.launch(options, problem, &mut sets[launch % count], weight)?;
    }
    graph.finish().map_err(Failure::run)
}
