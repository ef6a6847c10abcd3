//! `tilewright check`: runs a kernel on the simulator under many schedules and reports races and other faults.

mod arguments;

use std::path::Path;

use clap::Args;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Kernel, Number, parse_kernels};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem};
use tilewright::runtime::{Device, Grid, RuntimeError};
use tilewright::sim::{Fault, FaultCause, Options as SimOptions, RunError, run as simulate};

use super::json::Json;
use super::ptx::{OfTypes, of_types};
use super::{Failure, print, read};
use arguments::{Named, arguments};

/// The options of `tilewright check`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 where no schedule has a fault; 1 where a kernel has one, does not end, or fails an \
    assertion; 2 for bad input."
)]
pub(super) struct Options {
    /// A file with kernels in the text form (`.kir`), or `gemm`.
    kernel: String,
    /// The name of the configuration of `gemm`, such as `sm90a_bf16_tn_128x256x64_s4_coop_strip8_deferred`.
    config: Option<GemmConfig>,
    /// M, N and K of `gemm` [default: two tiles along M and N, four along K].
    #[arg(long, value_name = "M,N,K", value_parser = triple)]
    size: Option<[u32; 3]>,
    /// Schedules to run under: the default one, adversarial ones, then random ones.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    schedules: u32,
    /// Blocks of the grid of a kernel of a file, along each axis.
    #[arg(long, default_value = "1", value_name = "X,Y,Z", value_parser = triple)]
    grid: [u32; 3],
    /// Threads of a block [default: the kernel's own, else 128].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple)]
    block: Option<[u32; 3]>,
    /// Blocks of a cluster [default: the kernel's own].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple)]
    cluster: Option<[u32; 3]>,
    /// An argument of a kernel of a file: `n=64` for a number, `x=256` for a buffer of the elements 0, 1, 2, ..,
    /// `x=256:0` for one of equal elements, `m=64x32/64x8` for a tensor and its box, with the corners of a box of pixels
    /// behind it in im2col mode, as in `/-1to-1` [default: 65536 zeros].
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    args: Vec<Named>,
    /// Run all blocks of the grid at once.
    #[arg(long)]
    cooperative: bool,
    /// Report races of stores of equal values too.
    #[arg(long)]
    equal_stores: bool,
    /// Operations that a block may execute.
    #[arg(long, default_value_t = 1 << 28)]
    fuel: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// One to three numbers above 0.
fn triple(text: &str) -> Result<[u32; 3], String> {
    let mut all = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("at most three numbers".to_owned());
    }
    for (axis, part) in all.iter_mut().zip(parts) {
        *axis = part.trim().parse().map_err(|_| format!("`{part}` is no whole number"))?;
        if *axis == 0 {
            return Err("every axis is at least 1".to_owned());
        }
    }
    Ok(all)
}

/// The result of one kernel.
struct Verdict {
    kernel: String,
    found: Result<(), Box<RunError>>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let verdicts = match (options.kernel.as_str(), options.config) {
        ("gemm", Some(config)) => vec![of_gemm(config, options)?],
        ("gemm", None) => {
            return Err(Failure::input(
                "`gemm` needs the name of a configuration, such as `sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4`",
            ));
        }
        (_, Some(_)) => return Err(Failure::input("a configuration is for `gemm`")),
        (path, None) => of_file(path, options)?,
    };
    let schedules = options.schedules;
    if options.json {
        let all = verdicts.iter().map(|verdict| verdict.json(schedules)).collect();
        print(&format!("{}\n", Json::List(all)))?;
    } else {
        let all: String = verdicts.iter().map(|verdict| verdict.text(schedules)).collect();
        print(&all)?;
    }
    let bad: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| verdict.found.is_err())
        .map(|verdict| verdict.kernel.as_str())
        .collect();
    match bad.len() {
        0 => Ok(()),
        _ => Err(Failure::run(format!("kernels that fail: {}", bad.join(", ")))),
    }
}

impl Verdict {
    /// An error that is not the kernel's doing is bad input.
    fn new(kernel: &str, found: Result<(), RunError>) -> Result<Verdict, Failure> {
        if let Err(error) = &found
            && !matches!(
                error,
                RunError::Fault(_) | RunError::OutOfFuel { .. } | RunError::AssertFailed(_)
            )
        {
            return Err(Failure::input(format!("kernel `{kernel}`: {error}")));
        }
        Ok(Verdict { kernel: kernel.to_owned(), found: found.map_err(Box::new) })
    }

    fn text(&self, schedules: u32) -> String {
        let kernel = &self.kernel;
        match &self.found {
            Ok(()) => format!("{kernel}: no fault under {schedules} schedules\n"),
            Err(error) => format!("{kernel}: {}\n{error}\n", summary(error)),
        }
    }

    fn json(&self, schedules: u32) -> Json {
        let mut fields = vec![
            ("kernel", Json::text(&self.kernel)),
            ("schedules", Json::Number(schedules.into())),
            ("ok", Json::Bool(self.found.is_ok())),
        ];
        if let Err(error) = &self.found {
            fields.push(("verdict", Json::text(summary(error))));
            fields.push(("report", Json::text(error)));
            if let Some(fault) = error.fault() {
                fields.push(("order", Json::text(format!("{:?}", fault.order))));
                let all = [fault].into_iter().chain(&fault.also).map(fault_json);
                fields.push(("faults", Json::List(all.collect())));
            }
        }
        Json::Object(fields)
    }
}

/// The number of races and other faults.
fn summary(error: &RunError) -> String {
    let Some(fault) = error.fault() else {
        return match error {
            RunError::OutOfFuel { .. } => "it does not end".to_owned(),
            _ => "an assertion fails".to_owned(),
        };
    };
    let all = [fault].into_iter().chain(&fault.also);
    let races = all.filter(|fault| matches!(fault.cause, FaultCause::Race { .. })).count();
    let others = 1 + fault.also.len() - races;
    let count = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{n} {many}")),
    };
    let parts = [count(races, "data race", "data races"), count(others, "fault", "faults")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn fault_json(fault: &Fault) -> Json {
    let triple = |axes: [u32; 3]| {
        Json::List(axes.into_iter().map(|axis| Json::Number(axis.into())).collect())
    };
    let mut fields = vec![
        ("op", Json::text(fault.op)),
        ("location", Json::text(fault.location)),
        ("block", triple(fault.block)),
        ("thread", triple(fault.thread)),
    ];
    if let FaultCause::Race { access, by, other, missing } = &fault.cause {
        fields.push(("race", Json::Bool(true)));
        fields.push(("writes", Json::Bool(by.writes)));
        fields.push(("allocation", Json::text(&access.allocation)));
        let number = |n: i128| Json::option(u64::try_from(n).ok(), Json::Number);
        fields.push(("byte", number(access.byte)));
        fields.push(("element", number(access.element)));
        fields.push(("missing", Json::text(missing)));
        fields.push((
            "other",
            Json::Object(vec![
                ("op", Json::text(other.op.name)),
                ("location", Json::text(other.op.location)),
                ("writes", Json::Bool(other.writes)),
                ("block", triple(other.block)),
                ("thread", triple(other.thread)),
            ]),
        ));
    } else {
        fields.push(("race", Json::Bool(false)));
    }
    Json::Object(fields)
}

impl Options {
    fn simulator(&self) -> SimOptions {
        let options = SimOptions::default().race(true).schedules(self.schedules).fuel(self.fuel);
        options.cooperative(self.cooperative).equal_stores(self.equal_stores)
    }
}

/// The kernels of a file.
fn of_file(path: &str, options: &Options) -> Result<Vec<Verdict>, Failure> {
    let text = read(Path::new(path))?;
    // Locations name their file for as long as the program runs.
    let name: &'static str = Box::leak(path.to_owned().into_boxed_str());
    let first_line = |error: String| error.lines().next().unwrap_or_default().to_owned();
    let kernels = parse_kernels(name, &text)
        .map_err(|error| Failure::input(format!("{path}:{}", first_line(error.to_string()))))?;
    if kernels.is_empty() {
        return Err(Failure::input(format!("`{path}` has no kernels")));
    }
    let names: Vec<&str> = kernels
        .iter()
        .flat_map(|ir| ir.params.iter().map(|param| param.name.trim_start_matches('%')))
        .collect();
    if let Some(unknown) = options.args.iter().find(|arg| !names.contains(&arg.name.as_str())) {
        return Err(Failure::input(format!("no kernel has a parameter `{}`", unknown.name)));
    }
    let check = |ir| {
        let kernel =
            Kernel::verify(ir).map_err(|errors| Failure::input(first_line(errors.to_string())))?;
        let ir = kernel.ir();
        let owned = arguments(ir, &options.args)?;
        let args: Vec<_> = owned.iter().map(arguments::Owned::borrow).collect();
        let block = options.block.or(ir.bounds.block).unwrap_or([128, 1, 1]);
        let grid = Grid::new(options.grid, block);
        let grid = options.cluster.map_or(grid, |cluster| grid.cluster(cluster));
        let found = simulate(ir, grid, &args, &options.simulator());
        Verdict::new(&ir.name, found.map(|_| ()))
    };
    kernels.into_iter().map(check).collect()
}

fn of_gemm(config: GemmConfig, options: &Options) -> Result<Verdict, Failure> {
    let found = of_types(config, Product { options })?;
    Verdict::new(&config.to_string(), found)
}

/// Runs the product of a configuration.
struct Product<'o> {
    options: &'o Options,
}

impl OfTypes for Product<'_> {
    type Out = Result<(), RunError>;

    fn of<A: Element, D: Number, B: Element, C: Number>(
        self,
        config: GemmConfig,
    ) -> Result<Self::Out, Failure> {
        let [tile_m, tile_n, tile_k] = config.tile;
        let default = [2 * tile_m, 2 * tile_n, 4 * tile_k];
        let [m, n, k] = self.options.size.unwrap_or(default);
        let problem = GemmProblem::new(m, n, k);
        let device = Device::sim_with(self.options.simulator().target(config.target));
        let product = || -> Result<(), GemmError> {
            let function = Gemm::<A, B, C, D>::new(config)?.load(&device)?;
            let len = |rows: u32, columns: u32| rows as usize * columns as usize;
            let a = device.upload(&matrix::<A>(config.a, len(m, k)))?;
            let b = device.upload(&matrix::<B>(config.b, len(k, n)))?;
            let c = device.zeros::<C>(len(m, n))?;
            let bias = device.zeros::<D>(len(m.max(n), 1))?;
            let mut d = device.zeros::<D>(len(m, n))?;
            let mut args = GemmArgs::new(&a, &b, &mut d);
            if config.epilogue.beta {
                args = args.beta(1.0, &c);
            }
            if config.epilogue.bias.is_some() {
                args = args.bias(&bias);
            }
            function.prepare(&problem, args)?.launch()
        };
        match product() {
            Ok(()) => Ok(Ok(())),
            Err(GemmError::Runtime(error)) => match *error {
                RuntimeError::Simulation(error) => Ok(Err(*error)),
                error => Err(Failure::input(error)),
            },
            Err(error) => Err(Failure::input(error)),
        }
    }
}

/// Small numbers that repeat after a prime number of elements.
fn matrix<T: Element>(scalar: Scalar, len: usize) -> Vec<T> {
    // The bits of a number between 1 and 2, whose upper bits are those of the exponent.
    let one = match scalar {
        Scalar::F32 | Scalar::Tf32 => 0x3f80_0000,
        Scalar::F16 => 0x3c00,
        Scalar::Bf16 => 0x3f80,
        Scalar::F8E4M3 => 0x38,
        _ => 0x3c,
    };
    let step = if matches!(scalar, Scalar::F32 | Scalar::Tf32) { 1 << 16 } else { 1 };
    (0..len).map(|i| T::from_bits(one + (i % 7 % 4) as u64 * step)).collect()
}
