//! The `tilewright` command line: a thin user of the library.
//!
//! Exit codes: 0 for success, 1 for a wrong result or a failed run, 2 for bad input.

mod bench;
mod doctor;
mod gemm;
mod json;
mod layout;
mod ptx;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// CuTe's layout algebra, a typed kernel builder, PTX and a simulator, in safe Rust.
#[derive(Debug, Parser)]
#[command(name = "tilewright", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure kernels of the library, and choose their configurations.
    Bench(bench::Options),
    /// Say what this machine has, driver, GPUs, cache and ptxas, and test each device.
    Doctor(doctor::Options),
    /// Build a tiled f32 matrix product, run it, and compare it with an f64 reference.
    Gemm(gemm::Options),
    /// Print and draw a layout, or what an operation of the algebra makes of it.
    Layout(layout::Options),
    /// Print the PTX of a kernel beside the lines that it was written for, and what it takes on a GPU.
    Ptx(ptx::Options),
}

/// Why the program ends without success.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The input is at fault.
    fn input(message: impl fmt::Display) -> Failure {
        Failure { code: 2, message: message.to_string() }
    }

    /// The run is at fault.
    fn run(message: impl fmt::Display) -> Failure {
        Failure { code: 1, message: message.to_string() }
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
            // A closed pipe is the reader's choice, not a failure.
            let _ = error.print();
            return Ok(());
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return Err(Failure::input(
                "a command is needed, such as `layout` or `gemm`; see `--help`",
            ));
        }
        Err(error) => return Err(Failure::input(one_line(&error))),
    };
    match cli.command {
        Command::Bench(options) => bench::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Gemm(options) => gemm::run(&options),
        Command::Layout(options) => layout::run(&options),
        Command::Ptx(options) => ptx::run(&options),
    }
}

/// The parser's message without usage and hints, on one line.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or(&text);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prints to the standard output. A reader that stops reading is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::run(error)),
        _ => Ok(()),
    }
}
