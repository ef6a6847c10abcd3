//! Runs a kernel from a file, or a GEMM, on the simulator, as the command line names it.

use std::fmt::Debug;
use std::path::Path;

use clap::Args;
use tilewright::ir::types::{Const, Scalar, Type};
use tilewright::ir::{Kernel, KernelIr, Param, Target, Untyped, Violation, parse_kernels};
use tilewright::kernels::Built;
use tilewright::kernels::gemm::{AnyGemm, GemmConfig, GemmError, GemmProblem, InputTypes, Machine};
use tilewright::runtime::{AnyBuffer, Device, Grid, RuntimeError};
use tilewright::sim::{Options as SimOptions, RunError, run as simulate};

use super::arguments::{Named, Owned, arguments};
use crate::gemm::{best_guess, dtype, shape};
use crate::{Failure, TextError, read};

/// A kernel and its launch.
#[derive(Args, Debug)]
pub(crate) struct KernelArgs {
    /// A file with kernels in the text form (`.kir`), or `gemm`.
    kernel: String,
    /// Configuration of `gemm` by name, such as
    /// `sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped`; `tilewright gemm --list` prints names
    /// [default: the best guess for row-major matrices of `--shape`, or of 256x256x256].
    #[arg(long, alias = "configs", value_name = "NAME", conflicts_with_all = ["dtype", "target"])]
    config: Option<GemmConfig>,
    /// The configuration without the option's name.
    #[arg(hide = true, value_name = "CONFIG", conflicts_with_all = ["config", "dtype", "target"])]
    named: Option<GemmConfig>,
    /// Problem for `gemm`: `MxNxK`, or one size for all three [default: two tiles along M and N,
    /// four along K].
    #[arg(long, aliases = ["shapes", "size"], value_name = "MxNxK", value_parser = shape)]
    shape: Option<GemmProblem>,
    /// Types of A and B for the best guess, as in `bench gemm` [default: bf16].
    #[arg(long, value_parser = dtype)]
    dtype: Option<InputTypes>,
    /// Target for the best guess [default: sm_80].
    #[arg(long)]
    target: Option<Target>,
    /// Grid for a kernel from a file: blocks along each axis.
    #[arg(long, default_value = "1", value_name = "X,Y,Z", value_parser = triple)]
    grid: [u32; 3],
    /// Threads per block [default: the kernel's own, else 128].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple)]
    block: Option<[u32; 3]>,
    /// Blocks per cluster [default: the kernel's own].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple)]
    cluster: Option<[u32; 3]>,
    /// Argument for a kernel from a file: `n=64` is a number, `x=256` a buffer with the elements 0,
    /// 1, 2, .., `x=256:0` a buffer of 256 zeros, `x=@FILE` a buffer with the elements that the
    /// file lists, and `m=64x32/64x8` a tensor and its box. In im2col mode add the corners of the
    /// pixel box, as in `/-1to-1` [default for buffers: 65536 zeros].
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    args: Vec<Named>,
    /// Run all blocks of the grid at once.
    #[arg(long)]
    cooperative: bool,
    /// Also report races between stores of equal values.
    #[arg(long)]
    pub(crate) equal_stores: bool,
    /// Name of a buffer parameter whose results may differ between schedules; you can give it
    /// several times. Sums with floating-point atomics need this.
    #[arg(long, value_name = "NAME")]
    may_differ: Vec<String>,
    /// How many operations a block may execute before the run is stopped.
    #[arg(long, default_value_t = 1 << 28)]
    fuel: u64,
}

/// Parses one to three integers above 0.
fn triple(text: &str) -> Result<[u32; 3], String> {
    let mut all = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("expected at most three numbers".to_owned());
    }
    for (axis, part) in all.iter_mut().zip(parts) {
        *axis = part.trim().parse().map_err(|_| format!("`{part}` is not a positive integer"))?;
        if *axis == 0 {
            return Err("every axis must be at least 1".to_owned());
        }
    }
    Ok(all)
}

/// A kernel's run.
pub(crate) struct Ran {
    pub(crate) kernel: String,
    pub(crate) verified: Kernel<Untyped>,
    pub(crate) found: Result<(), RunError>,
    /// The buffers that the user wants to see. None after a fault.
    pub(crate) printed: Vec<Printed>,
}

/// A buffer after a run.
pub(crate) struct Printed {
    pub(crate) name: String,
    pub(crate) elem: Scalar,
    /// The elements as the text form writes them.
    pub(crate) elements: Vec<String>,
}

/// Returns the name of an error's variant.
pub(super) fn variant(error: &impl Debug) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// Returns a kernel's run. An error that is not the kernel's doing counts as bad input.
fn checked(
    name: String,
    verified: Kernel<Untyped>,
    found: Result<(), RunError>,
) -> Result<Ran, Failure> {
    match &found {
        Err(error)
            if !matches!(
                error,
                RunError::Fault(_)
                    | RunError::OutOfFuel { .. }
                    | RunError::AssertFailed(_)
                    | RunError::ResultsDiffer(_)
            ) =>
        {
            Err(Failure::input(format!("kernel `{name}`: {error}")))
        }
        _ => Ok(Ran { kernel: name, verified, found, printed: Vec::new() }),
    }
}

impl KernelArgs {
    /// Runs the kernels, and returns with each the elements of the buffers `print`.
    pub(crate) fn run(&self, simulator: SimOptions, print: &[String]) -> Result<Vec<Ran>, Failure> {
        let simulator = simulator.race(true).fuel(self.fuel);
        let simulator = simulator.cooperative(self.cooperative).equal_stores(self.equal_stores);
        let simulator = self.may_differ.iter().fold(simulator, SimOptions::may_differ);
        let config = self.config.or(self.named);
        if self.kernel == "gemm" {
            if !print.is_empty() {
                return Err(Failure::input("`--print` is for the kernels of a file"));
            }
            let config = config.map_or_else(|| self.best_guess(), Ok)?;
            return Ok(vec![of_gemm(config, self, &simulator)?]);
        }
        let is_for_gemm = config.is_some()
            || self.shape.is_some()
            || self.dtype.is_some()
            || self.target.is_some();
        if is_for_gemm {
            return Err(Failure::input(
                "a configuration, `--shape`, `--dtype` and `--target` are only for `gemm`, not for kernels from a file",
            ));
        }
        of_file(&self.kernel, self, &simulator, print)
    }

    /// Returns the best configuration for `gemm`, if the user did not name one.
    fn best_guess(&self) -> Result<GemmConfig, Failure> {
        let dtype = self.dtype.unwrap_or(Scalar::Bf16.into());
        let target = self.target.unwrap_or(Target::SM_80);
        let problem = self.shape.unwrap_or(GemmProblem::new(256, 256, 256));
        best_guess(dtype, target, &Machine::H200, &problem).map_err(Failure::input)
    }
}

/// Reads the kernels of a file.
fn kernels(path: &str) -> Result<Vec<Kernel<Untyped>>, Failure> {
    let text = read(Path::new(path))?;
    // Source locations keep their file name for the whole run.
    let name: &'static str = Box::leak(path.to_owned().into_boxed_str());
    let kernels = parse_kernels(name, &text).map_err(|error| {
        let location = format!("{path}:{}:{}", error.line, error.column);
        let message = error.kind.to_string();
        let failure = format!("{location}: {message}");
        let cause = variant(&error.kind);
        Failure::text(failure, vec![TextError { cause, location: Some(location), message }])
    })?;
    if kernels.is_empty() {
        return Err(Failure::input(format!("`{path}` has no kernels")));
    }
    let verify = |ir| {
        Kernel::verify(ir).map_err(|errors| {
            let error = |violation: &Violation| TextError {
                cause: variant(&violation.error),
                location: violation.location.map(|location| location.to_string()),
                message: violation.error.to_string(),
            };
            let all = errors.iter().map(error).collect();
            Failure::text(errors.to_string().lines().next().unwrap_or_default(), all)
        })
    };
    kernels.into_iter().map(verify).collect()
}

/// Runs the kernels of a file.
fn of_file(
    path: &str,
    options: &KernelArgs,
    simulator: &SimOptions,
    print: &[String],
) -> Result<Vec<Ran>, Failure> {
    let kernels = kernels(path)?;
    let names: Vec<&str> = kernels
        .iter()
        .flat_map(|kernel| &kernel.ir().params)
        .map(|param| param.name.trim_start_matches('%'))
        .collect();
    let args = options.args.iter().map(|arg| &arg.name);
    let named = args.chain(&options.may_differ).chain(print);
    let mut named = named.map(|name| name.trim_start_matches('%'));
    if let Some(unknown) = named.find(|name| !names.contains(name)) {
        return Err(Failure::input(format!("no kernel has a parameter `{unknown}`")));
    }
    let check = |kernel: Kernel<Untyped>| {
        let ir = kernel.ir();
        let owned = arguments(ir, &options.args)?;
        let args: Vec<_> = owned.iter().map(Owned::borrow).collect();
        let block = options.block.or(ir.bounds.block).unwrap_or([128, 1, 1]);
        let grid = Grid::new(options.grid, block);
        let grid = options.cluster.map_or(grid, |cluster| grid.cluster(cluster));
        let found = simulate(ir, grid, &args, simulator);
        let mut ran = checked(ir.name.clone(), kernel, found.map(|_| ()))?;
        if ran.found.is_ok() {
            ran.printed = printed(ran.verified.ir(), &owned, print);
        }
        Ok(ran)
    };
    kernels.into_iter().map(check).collect()
}

/// Returns the buffers with the names `print`.
fn printed(ir: &KernelIr, owned: &[Owned], print: &[String]) -> Vec<Printed> {
    let one = |(param, owned): (&Param, &Owned)| {
        let name = param.name.trim_start_matches('%');
        let (Type::Pointer { elem, .. } | Type::TensorMap { elem, .. }) = ir.type_of(param.value)
        else {
            return None;
        };
        let is_named = print.iter().any(|print| print.trim_start_matches('%') == name);
        is_named.then(|| Printed { name: name.to_owned(), elem, elements: owned.elements(elem) })
    };
    ir.params.iter().zip(owned).filter_map(one).collect()
}

/// Runs the GEMM of a configuration.
fn of_gemm(
    config: GemmConfig,
    options: &KernelArgs,
    simulator: &SimOptions,
) -> Result<Ran, Failure> {
    let [tile_m, tile_n, tile_k] = config.tile;
    let default = GemmProblem::new(2 * tile_m, 2 * tile_n, 4 * tile_k);
    let problem = options.shape.unwrap_or(default);
    let device = Device::sim_with(simulator.clone().target(config.target));
    let gemm = AnyGemm::new(config).map_err(Failure::input)?;
    let kernel = Kernel::verify(gemm.ir().clone()).map_err(Failure::input)?;
    let found = match launch_gemm(gemm, &problem, &device) {
        Ok(()) => Ok(()),
        Err(GemmError::Runtime(error)) => match *error {
            RuntimeError::Simulation(error) => Err(*error),
            error => return Err(Failure::input(error)),
        },
        Err(error) => return Err(Failure::input(error)),
    };
    checked(config.to_string(), kernel, found)
}

/// Multiplies matrices of small values, with the configuration's epilogue.
fn launch_gemm(
    gemm: Built<AnyGemm>,
    problem: &GemmProblem,
    device: &Device,
) -> Result<(), GemmError> {
    let config = *gemm.config();
    let gemm = gemm.load(device)?;
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let inputs = config.inputs().in_memory();
    let matrix = |scalar, len| {
        // 1 to 4, which every type has. They repeat after a prime number of elements.
        let values: Vec<f64> = (0..len).map(|i| (1 + i % 7 % 4) as f64).collect();
        AnyBuffer::from_f64(device, scalar, &values)
    };
    let (a, b) = (matrix(inputs.a, m * k)?, matrix(inputs.b, k * n)?);
    let c = AnyBuffer::zeros(device, config.c, m * n)?;
    let bias = AnyBuffer::zeros(device, config.c, m.max(n))?;
    let mut d = AnyBuffer::zeros(device, config.d, m * n)?;
    let mut args = gemm.args(a.as_ref(), b.as_ref(), d.as_mut());
    if config.epilogue.beta {
        args.beta = Const::from_f64(args.beta.scalar(), 1.0);
        args.c = Some(c.as_ref());
    }
    if config.epilogue.bias.is_some() {
        args.bias = Some(bias.as_ref());
    }
    gemm.launch(problem, args)
}
