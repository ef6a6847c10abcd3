//! Runs a kernel from a file, or a GEMM, on the simulator, as the command line names it.

use std::fmt::Debug;
use std::path::Path;

use clap::Args;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::{Scalar, Type};
use tilewright::ir::{
    Element, Kernel, KernelIr, Number, Param, Target, Untyped, Violation, bf16, f8e4m3, f8e5m2,
    f16, parse_kernels,
};
use tilewright::kernels::gemm::{
    Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, InputTypes, Machine,
};
use tilewright::runtime::{Device, Grid, RuntimeError};
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
    /// Problem of `gemm`: `MxNxK`, or one size for all three [default: two tiles along M and N,
    /// four along K].
    #[arg(long, aliases = ["shapes", "size"], value_name = "MxNxK", value_parser = shape)]
    shape: Option<GemmProblem>,
    /// Types of A and B for the best guess, as in `bench gemm` [default: bf16].
    #[arg(long, value_parser = dtype)]
    dtype: Option<InputTypes>,
    /// Target for the best guess [default: sm_80].
    #[arg(long)]
    target: Option<Target>,
    /// Grid of a kernel from a file, in blocks along each axis.
    #[arg(long, default_value = "1", value_name = "X,Y,Z", value_parser = triple)]
    grid: [u32; 3],
    /// Threads per block [default: the kernel's own, else 128].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple)]
    block: Option<[u32; 3]>,
    /// Blocks per cluster [default: the kernel's own].
    #[arg(long, value_name = "X,Y,Z", value_parser = triple)]
    cluster: Option<[u32; 3]>,
    /// Argument for a kernel from a file: `n=64` is a number, `x=256` a buffer with the elements 0,
    /// 1, 2, .., `x=256:0` a buffer with equal elements, `x=@FILE` a buffer with the elements that
    /// the file lists, and `m=64x32/64x8` a tensor and its box. In im2col mode the corners of the
    /// pixel box follow, as in `/-1to-1` [default: 65536 zeros].
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    args: Vec<Named>,
    /// Run all blocks of the grid at once.
    #[arg(long)]
    cooperative: bool,
    /// Also report races between stores of equal values.
    #[arg(long)]
    equal_stores: bool,
    /// Name of a buffer parameter whose results may differ between schedules; may be given several
    /// times. Sums with floating-point atomics need this.
    #[arg(long, value_name = "NAME")]
    may_differ: Vec<String>,
    /// How many operations a block may execute.
    #[arg(long, default_value_t = 1 << 28)]
    fuel: u64,
}

/// Parses one to three integers above 0.
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

/// A kernel's run.
pub(crate) struct Ran {
    pub(crate) kernel: String,
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
fn checked(kernel: &str, found: Result<(), RunError>) -> Result<Ran, Failure> {
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
            Err(Failure::input(format!("kernel `{kernel}`: {error}")))
        }
        _ => Ok(Ran { kernel: kernel.to_owned(), found, printed: Vec::new() }),
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
                "a configuration, `--shape`, `--dtype` and `--target` are for `gemm`, not for the kernels of a file",
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
        let mut ran = checked(&ir.name, found.map(|_| ()))?;
        if ran.found.is_ok() {
            ran.printed = printed(ir, &owned, print);
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

fn of_gemm(
    config: GemmConfig,
    options: &KernelArgs,
    simulator: &SimOptions,
) -> Result<Ran, Failure> {
    let found = of_types(config, &CheckedGemm { shape: options.shape, simulator })?;
    checked(&config.to_string(), found)
}

/// Runs the GEMM of a configuration.
struct CheckedGemm<'o> {
    shape: Option<GemmProblem>,
    simulator: &'o SimOptions,
}

/// How the simulator ended a run.
type GemmRun = Result<(), RunError>;

impl CheckedGemm<'_> {
    fn of<A: Element, D: Converted, B: Element, C: Number>(
        &self,
        config: GemmConfig,
    ) -> Result<GemmRun, Failure> {
        let [tile_m, tile_n, tile_k] = config.tile;
        let default = GemmProblem::new(2 * tile_m, 2 * tile_n, 4 * tile_k);
        let problem = self.shape.unwrap_or(default);
        let [m, n, k] = [problem.m, problem.n, problem.k];
        let device = Device::sim_with(self.simulator.clone().target(config.target));
        let product = || -> Result<(), GemmError> {
            let function = Gemm::<A, B, C, D>::new(config)?.load(&device)?;
            let len = |rows: u32, columns: u32| rows as usize * columns as usize;
            let a = device.upload(&matrix::<A>(config.a, len(m, k)))?;
            let b = device.upload(&matrix::<B>(config.b, len(k, n)))?;
            let c = device.zeros::<C>(len(m, n))?;
            let bias = device.zeros::<C>(len(m.max(n), 1))?;
            let mut d = device.zeros::<D>(len(m, n))?;
            let mut args = GemmArgs::new(&a, &b, &mut d);
            if config.epilogue.beta {
                args = args.beta(A::Sum::from(1.0), &c);
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

/// Runs the GEMM with buffers of the types that its configuration names.
fn of_types(config: GemmConfig, gemm: &CheckedGemm<'_>) -> Result<GemmRun, Failure> {
    use Scalar as S;
    config.check().map_err(Failure::input)?;
    match (config.a, config.b) {
        (S::F32 | S::Tf32, _) => of_inputs::<f32, f32>(config, gemm),
        (S::F16, _) => of_inputs::<f16, f16>(config, gemm),
        (S::Bf16, _) => of_inputs::<bf16, bf16>(config, gemm),
        (S::F8E4M3, S::F8E4M3) => of_inputs::<f8e4m3, f8e4m3>(config, gemm),
        (S::F8E4M3, _) => of_inputs::<f8e4m3, f8e5m2>(config, gemm),
        (_, S::F8E4M3) => of_inputs::<f8e5m2, f8e4m3>(config, gemm),
        (S::F64, _) => gemm.of::<f64, f64, f64, f64>(config),
        (S::I8, S::I8) => of_inputs::<i8, i8>(config, gemm),
        (S::I8, _) => of_inputs::<i8, u8>(config, gemm),
        (S::U8, S::I8) => of_inputs::<u8, i8>(config, gemm),
        (S::U8, _) => of_inputs::<u8, u8>(config, gemm),
        _ => of_inputs::<f8e5m2, f8e5m2>(config, gemm),
    }
}

fn of_inputs<A: Element, B: Element>(
    config: GemmConfig,
    gemm: &CheckedGemm<'_>,
) -> Result<GemmRun, Failure> {
    use Scalar as S;
    let is_integer = matches!(config.a, S::I8 | S::U8);
    // Each row is a kernel for each pair of inputs: these are the usual ones.
    match (config.d, config.c) {
        (S::F16, S::F16) => gemm.of::<A, f16, B, f16>(config),
        (S::Bf16, S::Bf16) => gemm.of::<A, bf16, B, bf16>(config),
        (S::F32, S::F32) => gemm.of::<A, f32, B, f32>(config),
        (S::F8E4M3, S::Bf16) => gemm.of::<A, f8e4m3, B, bf16>(config),
        (S::F8E5M2, S::Bf16) => gemm.of::<A, f8e5m2, B, bf16>(config),
        (S::I8, S::F32) => gemm.of::<A, i8, B, f32>(config),
        (S::I32, S::I32) => gemm.of::<A, i32, B, i32>(config),
        _ if is_integer => of_no_types(&config),
        (S::F16, S::Bf16) => gemm.of::<A, f16, B, bf16>(config),
        (S::F16, S::F32) => gemm.of::<A, f16, B, f32>(config),
        (S::Bf16, S::F16) => gemm.of::<A, bf16, B, f16>(config),
        (S::Bf16, S::F32) => gemm.of::<A, bf16, B, f32>(config),
        (S::F32, S::F16) => gemm.of::<A, f32, B, f16>(config),
        (S::F32, S::Bf16) => gemm.of::<A, f32, B, bf16>(config),
        _ => of_no_types(&config),
    }
}

fn of_no_types(config: &GemmConfig) -> Result<GemmRun, Failure> {
    let GemmConfig { c, d, .. } = config;
    Err(Failure::input(format!(
        "this program has no kernel with C of {c} and D of {d}; `Gemm::new` in a program of yours builds it"
    )))
}

/// Returns small values that repeat after a prime number of elements.
fn matrix<T: Element>(scalar: Scalar, len: usize) -> Vec<T> {
    // The bits of a value between 1 and 2, whose upper bits are the exponent's.
    let one = match scalar {
        Scalar::F32 | Scalar::Tf32 => 0x3f80_0000,
        Scalar::F16 => 0x3c00,
        Scalar::Bf16 => 0x3f80,
        Scalar::F64 => 0x3ff0_0000_0000_0000,
        Scalar::F8E4M3 => 0x38,
        Scalar::I8 | Scalar::U8 => 1,
        _ => 0x3c,
    };
    let step = if matches!(scalar, Scalar::F32 | Scalar::Tf32) { 1 << 16 } else { 1 };
    (0..len).map(|i| T::from_bits(one + (i % 7 % 4) as u64 * step)).collect()
}
