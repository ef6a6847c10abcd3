//! Developer tools for tilewright: `cargo run --package xtask -- TOOL`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the tools share code with the tests, which fail by panicking"
)]

mod campaigns;
mod instructions;
mod ops;
#[path = "../../tests/support/oracle.rs"]
mod oracle;

#[path = "../../tests/support/campaign.rs"]
mod campaign;

use std::error::Error;

const USAGE: &str = "usage: cargo run --package xtask -- TOOL
    ops                            prints a page with all operations, types and targets
    campaign NAME|all|list [--cases N] [--seed S] [--record FILE]
                                   runs a campaign of the layout laws (scripts/campaign)
    instructions OPERATION COUNT   runs an operation of the algebra COUNT times (benches/instructions.sh)";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("ops") => print!("{}", ops::document()),
        Some("campaign") => campaigns::run(arguments)?,
        Some("instructions") => instructions::run(arguments)?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
