//! `tilewright ptx`: a kernel as PTX, with the lines that it was written for and what `ptxas` makes of it.

use std::fmt::Write;

use clap::Args;
use tilewright::codegen::{Module, Ptx};
use tilewright::ir::{Kernel, Scalar, Target, Untyped, parse_kernels};
use tilewright::kernels::gemm::{Gemm, GemmConfig};
use tilewright::runtime::Ptxas;

use super::{Failure, print};

/// The options of `tilewright ptx`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// A file with kernels in the text form (`.kir`), or `gemm` for the ready matrix product.
    kernel: String,
    /// What to build `gemm` for; kernels of a file name their own targets [default: sm_80].
    #[arg(long)]
    target: Option<Target>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let (ptx, source) = match options.kernel.as_str() {
        "gemm" => {
            let target = options.target.unwrap_or(Target::SM_80);
            let gemm = Gemm::<f32>::new(GemmConfig::simt(target, Scalar::F32));
            (gemm.map_err(Failure::input)?.ptx(), String::new())
        }
        _ if options.target.is_some() => {
            return Err(Failure::input(
                "`--target` is for `gemm`: a file names the target of each kernel",
            ));
        }
        path => of_file(path)?,
    };
    print(&annotated(&ptx, &source))?;
    print(&report(&ptx)?)
}

/// The kernels of a file, as one module, and the file.
fn of_file(path: &str) -> Result<(Ptx, String), Failure> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::input(format!("`{path}`: {error}")))?;
    // Places name their file for as long as the program runs.
    let name: &'static str = Box::leak(path.to_owned().into_boxed_str());
    let kernels = parse_kernels(name, &text).map_err(|error| Failure::input(first_line(&error)))?;
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
    Ok((module.ptx(), text))
}

fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// The text, with the line of the file beside each comment that names one.
fn annotated(ptx: &Ptx, source: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let mut out = String::new();
    for line in ptx.text().lines() {
        out.push_str(line);
        if let Some(place) = line.trim().strip_prefix("// ")
            && let Some((_, number)) = place.rsplit_once(':')
            && let Ok(number) = number.parse::<usize>()
            && let Some(written) = lines.get(number.wrapping_sub(1))
        {
            // Writing to a string does not fail.
            let _ = write!(out, "    {}", written.trim());
        }
        out.push('\n');
    }
    out
}

/// What `ptxas` makes of the entries, as comments below the text; nothing where there is none.
fn report(ptx: &Ptx) -> Result<String, Failure> {
    let Some(ptxas) = Ptxas::find() else { return Ok(String::new()) };
    let assembled = ptxas.assemble(ptx.text(), ptx.target()).map_err(Failure::run)?;
    let mut text = format!("\n// ptxas {} for {}\n", ptxas.version(), ptx.target());
    for entry in assembled.entries() {
        let _ = writeln!(
            text,
            "// {}: {} registers, {} bytes of spills, {} bytes of local memory, {} bytes of static shared \
             memory",
            entry.name,
            entry.registers,
            entry.spill_store_bytes + entry.spill_load_bytes,
            entry.local_bytes,
            entry.shared_bytes,
        );
    }
    for line in assembled.log.lines().filter(|line| line.contains("warning")) {
        let _ = writeln!(text, "// {line}");
    }
    for note in assembled.notes() {
        let _ = writeln!(text, "// {note}");
    }
    Ok(text)
}
