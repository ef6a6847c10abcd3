//! The `tilewright` command line: a thin user of the library.
//!
//! Exit codes: 0 for success, 1 for a wrong result or a failed run, 2 for bad input.

mod bench;
mod check;
mod doctor;
mod gemm;
mod layout;
mod machine;
mod page;
mod progress;
mod prove;
mod ptx;
mod trace;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use tilewright::ir::KernelIr;

/// CuTe's layout algebra, a typed kernel builder, PTX and a simulator, in safe Rust.
#[derive(Debug, Parser)]
#[command(name = "tilewright", version, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the library's kernels, and choose their configurations.
    Bench(bench::Options),
    /// Run a kernel on the simulator under many schedules, and report its races and other faults.
    Check(check::Options),
    /// Report what this machine has (driver, GPUs, cache, ptxas), and test each device.
    Doctor(doctor::Options),
    /// Build a tiled GEMM, run it, and compare it with an f64 reference.
    Gemm(gemm::Options),
    /// Print and draw a layout, or the result of an operation on it.
    Layout(layout::Options),
    /// Print which accesses of a kernel are proved in bounds and free of races, and what a launch has
    /// to fulfil.
    Prove(prove::Options),
    /// Print a kernel's PTX beside the source lines that produced it, and the resources that it
    /// needs on a GPU.
    Ptx(ptx::Options),
    /// Run a kernel on the simulator once, print a report, and show what each warp and copy did on
    /// an HTML page.
    Trace(trace::Options),
}

/// Why the program fails.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
    /// What is wrong in a kernel's text, if that is why.
    errors: Vec<TextError>,
}

/// An error that the parser or the verifier finds in a kernel's text.
#[derive(Debug)]
struct TextError {
    /// The name of the error's variant.
    cause: String,
    /// `FILE:LINE:COLUMN`, unless the kernel as a whole is at fault.
    location: Option<String>,
    message: String,
}

impl Failure {
    /// Returns the failure for bad input.
    fn input(message: impl fmt::Display) -> Failure {
        Failure { code: 2, message: message.to_string(), errors: Vec::new() }
    }

    /// Returns the failure for a run that went wrong.
    fn run(message: impl fmt::Display) -> Failure {
        Failure { code: 1, message: message.to_string(), errors: Vec::new() }
    }

    /// Returns the failure for a kernel's text.
    fn text(message: impl fmt::Display, errors: Vec<TextError>) -> Failure {
        Failure { code: 2, message: message.to_string(), errors }
    }
}

fn main() -> ExitCode {
    match run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            // If the reader closes the pipe, that is not a failure.
            let _ = error.print();
            return Ok(());
        }
        Err(error) => return Err(Failure::input(one_line(&error))),
    };
    match cli.command {
        Command::Bench(options) => bench::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Gemm(options) => gemm::run(&options),
        Command::Layout(options) => layout::run(&options),
        Command::Prove(options) => prove::run(&options),
        Command::Ptx(options) => ptx::run(&options),
        Command::Trace(options) => trace::run(&options),
    }
}

/// Returns the parser's message and its suggestions on one line, without the usage.
fn one_line(error: &clap::Error) -> String {
    if let (
        ErrorKind::MissingSubcommand,
        Some(ContextValue::String(program)),
        Some(ContextValue::Strings(commands)),
    ) = (
        error.kind(),
        error.get(ContextKind::InvalidSubcommand),
        error.get(ContextKind::ValidSubcommand),
    ) {
        let commands: Vec<&str> =
            commands.iter().map(String::as_str).filter(|name| *name != "help").collect();
        return format!("`{program}` needs a command: {}; see `--help`", commands.join(", "));
    }
    let text = error.render().to_string();
    let mut parts = text.split("\n\n");
    let message = parts.next().unwrap_or(&text);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let tips = parts.flat_map(str::lines).filter_map(|line| line.trim().strip_prefix("tip: "));
    let parts = [message].into_iter().chain(tips);
    let parts = parts.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.collect::<Vec<_>>().join("; ")
}

/// Reads a text file. Opens only regular files, because a fifo or a device may never end, and reads
/// at most [`KernelIr::MAX_TEXT_BYTES`].
fn read(path: &Path) -> Result<String, Failure> {
    let failed =
        |error: &dyn fmt::Display| Failure::input(format!("`{}`: {error}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        return Err(failed(&"it is not a regular file"));
    }
    let limit = KernelIr::MAX_TEXT_BYTES;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() > limit {
        return Err(failed(&format_args!("it is larger than {} MiB", limit >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8 text"))
}

/// Prints to standard output. If the reader stops reading, that is not a failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::run(error)),
        _ => Ok(()),
    }
}
