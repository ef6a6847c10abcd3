//! The `tilewright` command line: a thin user of the library.
//!
//! Exit codes: 0 for success, 1 for a wrong result or a failed run, 2 for bad input.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}
