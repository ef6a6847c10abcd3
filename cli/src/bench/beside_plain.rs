//! `--groups` and `--swiglu`: measures these GEMM forms beside a plain GEMM of the same work and
//! cuBLAS calls.

use tilewright::arch::Major;
use tilewright::ir::bf16;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{
    BatchMode, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, GroupRows,
};
use tilewright::runtime::{
    Buffer, Cublas, Device, Graph, GraphBuilder, LaunchOptions, Matmul, RuntimeError,
};
use tilewright_tune::{Machine, median};

use super::super::progress::Meter;
use super::super::{Failure, print};
use super::Gemm as Options;
use super::random;

/// The GEMM form to measure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// This many groups of rows with random lengths, each with a B of its own.
    Groups(u32),
    /// SwiGLU of column pairs.
    Swiglu,
}

/// Uploads random values from -0.5 to 0.5, because the GPU's power draw, and so its clock, depends
/// on the values.
fn upload(device: &Device, len: usize, seed: u64) -> Result<Buffer<bf16>, GemmError> {
    /// After this many elements the values repeat.
    const PERIOD: usize = (1 << 20) + 7;
    let mut next = random::numbers(seed);
    let block: Vec<bf16> =
        (0..len.min(PERIOD)).map(|_| bf16::from_f32(next() as f32 - 0.5)).collect();
    let all: Vec<bf16> = block.iter().copied().cycle().take(len).collect();
    Ok(device.upload(&all)?)
}

/// Returns the first row of each group of random length, then the row count.
fn starts(rows: u32, groups: u32, seed: u64) -> Vec<i32> {
    let mut next = random::numbers(seed);
    let shares: Vec<f64> = (0..groups).map(|_| next()).collect();
    let sum = shares.iter().sum::<f64>();
    let mut before = 0.0;
    let mut starts = vec![0];
    for share in shares {
        before += share;
        starts.push((before / sum * f64::from(rows)).round() as i32);
    }
    starts
}

pub(super) fn run(
    options: &Options,
    device: &Device,
    shapes: &[GemmProblem],
    form: Form,
) -> Result<(), Failure> {
    if device.is_sim() || options.dtype != Scalar::Bf16.into() {
        return Err(Failure::input("`--groups` and `--swiglu` need a GPU and `--dtype bf16`"));
    }
    let cublas = match form {
        Form::Groups(_) => Cublas::open(device).map_err(|error| error.to_string()),
        Form::Swiglu => Err("it has no GEMM with SwiGLU".to_owned()),
    };
    if let (Form::Groups(_), Err(why)) = (form, &cublas) {
        print(&format!("without cuBLAS: {why}\n"))?;
    }
    let head = "problem                     us  TFLOP/s  x plain  x cuBLAS  kernel\n";
    print(&format!("{form:?}\n{head}"))?;
    let meter = Meter::new();
    for (index, problem) in shapes.iter().enumerate() {
        meter.task(format!("{}x{}x{}", problem.m, problem.n, problem.k), index, shapes.len());
        let measured = one(options, device, cublas.as_ref().ok(), problem, form, &meter)?;
        meter.clear();
        let plain = measured.first().map_or(f64::NAN, |(_, seconds)| *seconds);
        let loop_of_cublas = measured.iter().find(|(name, _)| name == CUBLAS).map(|(_, s)| *s);
        let GemmProblem { m, n, k, .. } = *problem;
        for (name, seconds) in &measured {
            let ratio = loop_of_cublas.map_or("-".to_owned(), |of| format!("{:.3}", of / seconds));
            print(&format!(
                "{:<22} {:>8.1} {:>8.1} {:>8.3} {ratio:>9}  {name}\n",
                format!("{m}x{n}x{k}"),
                seconds * 1e6,
                problem.flops() as f64 / seconds / 1e12,
                plain / seconds,
            ))?;
        }
    }
    Ok(())
}

/// The name of the measurement with one cuBLAS call per group.
const CUBLAS: &str = "cuBLAS, one call a group";

/// Returns names and median seconds of the plain GEMM, of each configuration of the form, and of
/// one cuBLAS call per group. `--candidates` sets how many configurations are measured.
fn one(
    options: &Options,
    device: &Device,
    cublas: Option<&Cublas>,
    problem: &GemmProblem,
    form: Form,
    meter: &Meter,
) -> Result<Vec<(String, f64)>, Failure> {
    let machine = Machine::of(device);
    let wanted = GemmConfig { target: device.target(), ..GemmConfig::sm90(Scalar::Bf16, [128; 2]) };
    let GemmProblem { m, n, k, .. } = *problem;
    let groups = match form {
        Form::Groups(groups) => groups,
        Form::Swiglu => 1,
    };
    let grouped = GemmProblem::grouped([m, n, k], groups);
    let [of_m, of_n, of_k] = [m, n, k].map(|size| size as usize);
    let a = upload(device, of_m * of_k, 1).map_err(Failure::run)?;
    let b = upload(device, groups as usize * of_n * of_k, 2).map_err(Failure::run)?;
    let mut d = device.zeros::<bf16>(of_m * of_n).map_err(Failure::run)?;
    let list = starts(m, groups, options.seed);
    let on_device = device.upload(&list).map_err(Failure::run)?;
    let count = options.candidates.unwrap_or(1) as usize;
    let best = |wanted: GemmConfig,
                problem: &GemmProblem,
                count: usize|
     -> Result<Vec<GemmConfig>, Failure> {
        let first = wanted.best(problem, &machine).map_err(Failure::run)?;
        let others = wanted.defaults(problem, &machine).into_iter().skip(1);
        Ok([first].into_iter().chain(others).take(count).collect::<Vec<_>>())
    };
    let mut graphs = Vec::new();
    let plain = best(wanted, problem, 1)?;
    let configs = match form {
        Form::Groups(_) => {
            best(GemmConfig { batch: BatchMode::Grouped, ..wanted }, &grouped, count)?
        }
        Form::Swiglu => best(GemmConfig { pairs: true, ..wanted }, problem, count)?,
    };
    for config in plain.into_iter().chain(configs) {
        let graph = device.graph().map_err(Failure::run)?;
        let problem = if config.batch == BatchMode::Grouped { &grouped } else { problem };
        let args = GemmArgs::new(&a, &b, &mut d);
        let args = match config.batch == BatchMode::Grouped {
            true => args.groups(GroupRows::Starts(&on_device)),
            false => args,
        };
        record(&config, problem, args, &graph).map_err(Failure::run)?;
        graphs.push((config.to_string(), graph.finish().map_err(Failure::run)?));
    }
    if let Some(cublas) = cublas {
        let graph = device.graph().map_err(Failure::run)?;
        for (group, rows) in list.windows(2).enumerate().filter(|(_, rows)| rows[0] < rows[1]) {
            let [first, end] = [rows[0] as usize, rows[1] as usize];
            let sizes = [(end - first) as u32, n, k];
            let (major, scalar) = (Major::K, Scalar::Bf16);
            let inputs = [scalar; 2];
            let matmul = Matmul { sizes, a: major, b: major, inputs, output: scalar };
            let a = a.part(first * of_k..end * of_k).map_err(Failure::run)?;
            let b = b.part(group * of_n * of_k..(group + 1) * of_n * of_k).map_err(Failure::run)?;
            let mut d = d.part_mut(first * of_n..end * of_n).map_err(Failure::run)?;
            cublas.gemm(&matmul, graph.stream(), &a, &b, &mut d).map_err(Failure::run)?;
        }
        graphs.push((CUBLAS.to_owned(), graph.finish().map_err(Failure::run)?));
    }
    medians(options.rounds, &graphs, meter).map_err(Failure::run)
}

/// Records a launch of a configuration.
fn record(
    config: &GemmConfig,
    problem: &GemmProblem,
    args: GemmArgs<'_, bf16>,
    graph: &GraphBuilder,
) -> Result<(), GemmError> {
    let device = graph.stream().device();
    let options = LaunchOptions::default().stream(graph.stream());
    if !config.pairs {
        return Gemm::<bf16>::new(*config)?.load(&device)?.with(options).launch(problem, args);
    }
    let gemm = Gemm::<bf16>::with_pairs::<()>(*config, |_, [gate, value], _, ()| {
        gate.silu_fast() * value
    })?;
    gemm.load(&device)?.with(options).launch(problem, (args, ()))
}

/// Launches the graphs in turn, and returns each graph's median in seconds.
fn medians(
    rounds: u32,
    graphs: &[(String, Graph)],
    meter: &Meter,
) -> Result<Vec<(String, f64)>, RuntimeError> {
    let mut times = vec![Vec::new(); graphs.len()];
    meter.add_steps(8 * rounds as usize + 2);
    for round in 0..8 * rounds + 2 {
        meter.step();
        for ((_, graph), times) in graphs.iter().zip(&mut times) {
            let seconds = graph.time()?.elapsed.as_secs_f64();
            // The first launches load the kernels.
            if round >= 2 {
                times.push(seconds);
            }
        }
    }
    let names = graphs.iter().map(|(name, _)| name.clone());
    Ok(names.zip(times.iter().map(|times| median(times).unwrap_or(f64::NAN))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::kernels::gemm::StoreMethod;

    /// Groups cover all rows, and each configuration's grouped GEMM is recorded as one launch.
    #[test]
    fn groups_are_recorded() {
        let list = starts(100, 7, 3);
        assert!(list.len() == 8 && list.is_sorted() && list[0] == 0 && list[7] == 100);
        let device = Device::sim().unwrap();
        let problem = GemmProblem::new(40, 64, 64);
        let grouped = GemmProblem::grouped([40, 64, 64], 2);
        let (a, b) =
            (upload(&device, 40 * 64, 1).unwrap(), upload(&device, 2 * 64 * 64, 2).unwrap());
        let mut d = device.zeros::<bf16>(40 * 64).unwrap();
        let list = device.upload(&[0, 13, 40]).unwrap();
        let (uniform, groups) = (BatchMode::Uniform, BatchMode::Grouped);
        for (batch, pairs) in [(groups, false), (uniform, true), (uniform, false)] {
            let config = GemmConfig::sm90(Scalar::Bf16, [64, 64]);
            let store = StoreMethod::Rows;
            let config = GemmConfig { batch, pairs, store, ..config };
            let (graph, args) = (device.graph().unwrap(), GemmArgs::new(&a, &b, &mut d));
            match batch {
                BatchMode::Grouped => {
                    record(&config, &grouped, args.groups(GroupRows::Starts(&list)), &graph)
                        .unwrap();
                }
                _ => record(&config, &problem, args, &graph).unwrap(),
            }
            assert_eq!(graph.finish().unwrap().len(), 1);
        }
    }
}
