//! `tilewright ptx`: prints a kernel's PTX with the source lines that produced it, and what `ptxas`
//! says about it.

mod source;

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use tilewright::codegen::{Module, Ptx};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, KernelIr, Target, Untyped, parse_kernels};
use tilewright::kernels::gemm::{AnyGemm, GemmConfig, GemmProblem, InputTypes, Machine};
use tilewright::runtime::{EntryReport, Ptxas};

use super::gemm::{best_guess, dtype, shape};
use super::machine::GpuName;
use super::{Failure, print, read};
use source::Sources;

/// The options of `tilewright ptx`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// A file with kernels in the text form (`.kir`), a configuration name such as
    /// `sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped`, or `gemm` for the best guess for large
    /// row-major matrices.
    kernel: String,
    /// Target to build `gemm` for; files and configuration names contain theirs [default: that of
    /// `--machine`, else sm_80].
    #[arg(long)]
    target: Option<Target>,
    /// GPU for which to choose the configuration of `gemm` [default: h200].
    #[arg(long, value_name = "GPU")]
    machine: Option<GpuName>,
    /// Types of A and B for `gemm`, as in `bench gemm` [default: bf16].
    #[arg(long, value_parser = dtype)]
    dtype: Option<InputTypes>,
    /// Problem for which to choose the configuration of `gemm`: `MxNxK`, or one size for all three
    /// [default: 4096x4096x4096].
    #[arg(long, aliases = ["shapes", "size"], value_parser = shape, value_name = "MxNxK")]
    shape: Option<GemmProblem>,
}

/// The default problem for `gemm`.
const LARGE: GemmProblem = GemmProblem::new(4096, 4096, 4096);

/// A module's PTX, and what is printed beside it.
struct Written {
    ptx: Ptx,
    shared: Vec<Shared>,
    sources: Sources,
}

/// A kernel's shared memory per block, in bytes.
struct Shared {
    kernel: String,
    in_all: u64,
    dynamic: u64,
}

impl Written {
    fn new(ptx: Ptx, kernels: &[&KernelIr]) -> Written {
        let shared = kernels.iter().map(|ir| Shared {
            kernel: ir.name.clone(),
            in_all: ir.shared_layout().1,
            dynamic: ir.dynamic_shared_bytes(),
        });
        let places = kernels.iter().flat_map(|ir| ir.locations.iter().map(|(_, place)| *place));
        Written { ptx, shared: shared.collect(), sources: Sources::new(places) }
    }
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let mut written = match options.kernel.as_str() {
        "gemm" => {
            let dtype = options.dtype.unwrap_or(Scalar::Bf16.into());
            let target = options.machine.map_or(Target::SM_80, GpuName::target);
            let target = options.target.unwrap_or(target);
            let machine = options.machine.map_or(Machine::H200, GpuName::machine);
            let problem = options.shape.unwrap_or(LARGE);
            let config = best_guess(dtype, target, &machine, &problem);
            of_gemm(config.map_err(Failure::input)?)?
        }
        _ if options.target.is_some()
            || options.dtype.is_some()
            || options.machine.is_some()
            || options.shape.is_some() =>
        {
            return Err(Failure::input(
                "`--target`, `--dtype`, `--machine` and `--shape` are only for `gemm`: a file or a configuration name already fixes the kernel",
            ));
        }
        name => match name.parse::<GemmConfig>() {
            Ok(config) => of_gemm(config)?,
            Err(_) if is_file(name) => of_file(name)?,
            // A text that starts like a configuration name gets the error for that name.
            Err(error) if name.starts_with("sm") => return Err(Failure::input(error)),
            Err(_) => {
                return Err(Failure::input(format!(
                    "`{name}` is not a kernel: expected a file (`.kir`), `gemm`, or the name of a \
                     configuration, such as `sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4`"
                )));
            }
        },
    };
    print(&written.sources.annotated(written.ptx.text()))?;
    print(&report(&written)?)
}

fn is_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "kir")
        || Path::new(name).exists()
}

/// Loads the kernels of a file as one module.
fn of_file(path: &str) -> Result<Written, Failure> {
    let text = read(Path::new(path))?;
    // Source locations keep their file name for the whole run.
    let name: &'static str = Box::leak(path.to_owned().into_boxed_str());
    let of_text = |error| Failure::input(format!("{path}:{}", first_line(&error)));
    let kernels = parse_kernels(name, &text).map_err(of_text)?;
    let kernels: Vec<Kernel<Untyped>> = kernels
        .into_iter()
        .map(|ir| Kernel::verify(ir).map_err(|errors| Failure::input(first_line(&errors))))
        .collect::<Result<_, _>>()?;
    let Some(first) = kernels.first() else {
        return Err(Failure::input(format!("`{path}` has no kernels")));
    };
    let mut module = Module::new(first.target());
    for kernel in &kernels {
        module.add(kernel).map_err(Failure::input)?;
    }
    let mut written = Written::new(module.ptx(), module.kernels());
    written.sources.insert(name, &text);
    Ok(written)
}

pub(super) fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Writes a configuration's kernel.
fn of_gemm(config: GemmConfig) -> Result<Written, Failure> {
    let gemm = AnyGemm::new(config).map_err(Failure::input)?;
    Ok(Written::new(gemm.ptx(), &[gemm.ir()]))
}

/// Returns each kernel's resources as comments below the text: shared memory and, if `ptxas` is
/// installed, its report.
fn report(written: &Written) -> Result<String, Failure> {
    let (mut text, mut entries) = ("\n".to_owned(), Vec::new());
    let mut said = String::new();
    // Writing to a string cannot fail.
    match Ptxas::try_find() {
        Ok(Some(ptxas)) => {
            let target = written.ptx.target();
            let assembled = ptxas.assemble(written.ptx.text(), target).map_err(Failure::run)?;
            let _ = writeln!(text, "// ptxas {} for {target}", ptxas.version());
            for line in assembled.log.lines().filter(|line| line.contains("warning")) {
                let _ = writeln!(said, "// {line}");
            }
            for note in assembled.notes() {
                let _ = writeln!(said, "// {note}");
            }
            entries = assembled.entries();
        }
        Ok(None) => {}
        Err(error) => {
            let _ = writeln!(text, "// no ptxas: {}", first_line(&error));
        }
    }
    for shared in &written.shared {
        let entry = entries.iter().find(|entry| entry.name == shared.kernel);
        let _ = writeln!(text, "// {}", line_of(shared, entry));
    }
    Ok(text + &said)
}

fn line_of(shared: &Shared, entry: Option<&EntryReport>) -> String {
    let Shared { kernel, in_all, dynamic } = shared;
    let mut line = format!("{kernel}: ");
    let mut fixed = in_all - dynamic;
    if let Some(entry) = entry {
        fixed = entry.shared_bytes.into();
        let _ = write!(
            line,
            "{} registers, {} bytes of spills, {} bytes of local memory, ",
            entry.registers,
            entry.spill_store_bytes + entry.spill_load_bytes,
            entry.local_bytes,
        );
    }
    line + &format!("{fixed} bytes of static and {dynamic} bytes of dynamic shared memory")
}
