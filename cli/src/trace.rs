//! `tilewright trace`: runs a kernel on the simulator, prints a report, and writes a page that
//! shows the run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use tilewright::sim::{Order, Output, Reports, RunError};

use super::check::KernelArgs;
use super::progress::Meter;
use super::{Failure, page, print};

/// The page's template.
const PAGE: &str = include_str!("trace/page.html");

/// The options of `tilewright trace`.
#[derive(Args, Debug)]
#[command(
    after_help = "The page shows the first block or cluster of each launch. It needs no network. Exit \
                  codes: 0 for a run without a fault; 1 if the kernel has a fault, which the page \
                  shows; 2 for bad input."
)]
pub(super) struct Options {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Look for a fault under this many schedules first, and trace the schedule that finds one. If
    /// none does, trace a schedule in which copies take a while.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    schedules: u32,
    /// Print the traces as JSON, one line per launch, instead of the report.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let (mut order, meter) = (Order::Paced, Meter::new());
    if options.schedules > 1 {
        let simulator = meter.simulator().schedules(options.schedules);
        let ran = options.kernel.run(simulator, &[])?;
        let schedule = |error: &RunError| match error {
            RunError::ResultsDiffer(found) => Some(found.other_order),
            error => Some(error.fault()?.order),
        };
        let found = ran.iter().find_map(|ran| schedule(ran.found.as_ref().err()?));
        order = found.unwrap_or(order);
    }
    let (reports, trace) = (Reports::new(), Output::captured());
    let simulator = meter.simulator().order(order).reports(&reports).trace(&trace);
    let ran = options.kernel.run(simulator, &[])?;
    meter.clear();
    let traces = trace.take();
    if let Some(path) = &options.html {
        let page = page(&traces)?;
        let failed =
            |error: std::io::Error| Failure::input(format!("`{}`: {error}", path.display()));
        std::fs::write(path, page).map_err(failed)?;
    }
    if options.json {
        print(&traces)?;
    } else {
        let all: Vec<String> = reports.take().iter().map(ToString::to_string).collect();
        print(&all.join("\n"))?;
    }
    let mut bad = ran.iter().filter_map(|ran| Some((&ran.kernel, ran.found.as_ref().err()?)));
    match bad.next().map(|(kernel, error)| format!("kernel `{kernel}`: {error}")) {
        None => Ok(()),
        Some(message) => Err(Failure::run(message)),
    }
}

/// Builds a page from traces, one per line, and adds the source lines that they name.
fn page(traces: &str) -> Result<String, Failure> {
    let mut files = HashMap::new();
    let mut all = Vec::new();
    for line in traces.lines() {
        let mut trace: Value = serde_json::from_str(line).map_err(Failure::run)?;
        let lines = trace.get_mut("lines").and_then(Value::as_array_mut);
        for line in lines.into_iter().flatten() {
            if let Some(text) = source(line, &mut files) {
                line["text"] = Value::String(text);
            }
        }
        all.push(trace);
    }
    Ok(page::html(PAGE, &Value::Array(all)))
}

/// Returns a source line's text, if its file can be read. rustc stores file names relative to the
/// package root.
fn source(line: &Value, files: &mut HashMap<String, String>) -> Option<String> {
    let (file, number) = (line["file"].as_str()?, line["line"].as_u64()?);
    let text = files
        .entry(file.to_owned())
        .or_insert_with(|| std::fs::read_to_string(Path::new(file)).unwrap_or_default());
    let text = text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
