//! `tilewright check`: runs a kernel on the simulator under many schedules and reports races and
//! other faults.

mod arguments;
mod kernel;

use clap::Args;
use tilewright::json::Json;
use tilewright::sim::{Fault, FaultCause, ResultsDiffer, RunError};

use super::progress::Meter;
use super::{Failure, TextError, print};
pub(super) use kernel::KernelArgs;
use kernel::{Printed, Ran, variant};

/// The options of `tilewright check`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if no schedule finds a fault; 1 if a kernel has a fault, gives \
                  other results under another schedule, does not end, or fails an assertion; 2 for \
                  bad input. `docs/for-programs.md` lists the fields of the JSON."
)]
pub(super) struct Options {
    #[command(flatten)]
    kernel: KernelArgs,
    /// How many schedules to run: the default one, adversarial ones, then random ones. Their
    /// results are compared.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    schedules: u32,
    /// Name of a buffer parameter whose elements to print after a run without a fault; may be given
    /// several times.
    #[arg(long, value_name = "NAME")]
    print: Vec<String>,
    /// Print one line of JSON instead of text, also for bad input.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let meter = Meter::new();
    let schedules = options.schedules;
    let ran = options.kernel.run(meter.simulator().schedules(schedules), &options.print);
    meter.clear();
    if options.json {
        let all = match &ran {
            Ok(ran) => ran.iter().map(|ran| json(ran, schedules)).collect(),
            Err(failure) => vec![failure_json(failure, schedules)],
        };
        print(&format!("{}\n", Json::List(all)))?;
    } else if let Ok(ran) = &ran {
        let all: String = ran.iter().map(|ran| text(ran, options)).collect();
        print(&all)?;
    }
    let ran = ran?;
    let failed = ran.iter().filter(|ran| ran.found.is_err());
    let bad: Vec<&str> = failed.map(|ran| ran.kernel.as_str()).collect();
    match bad.len() {
        0 => Ok(()),
        _ => Err(Failure::run(format!("failed kernels: {}", bad.join(", ")))),
    }
}

/// What a run without a fault stands for, if the kernel does the same for all data.
const ALL_DATA: &str =
    "all data in buffers of these lengths: no branch and no address depends on data";

fn text(ran: &Ran, options: &Options) -> String {
    let (kernel, schedules) = (&ran.kernel, options.schedules);
    match &ran.found {
        Ok(()) => {
            let mut text = format!("{kernel}: no fault under {schedules} schedules\n");
            text += &match ran.verified.data_use() {
                Some(found) => format!("  this holds for this data only: {found}\n"),
                None if options.kernel.equal_stores => format!("  this holds for {ALL_DATA}\n"),
                None => format!("  with `--equal-stores` this would hold for {ALL_DATA}\n"),
            };
            for buffer in &ran.printed {
                text += &format!("{} = {}\n", buffer.name, buffer.elements.join(","));
            }
            text
        }
        Err(error) => format!("{kernel}: {}\n{error}\n", summary(error)),
    }
}

fn json(ran: &Ran, schedules: u32) -> Json {
    let mut fields = vec![
        ("kernel", Json::text(&ran.kernel)),
        ("schedules", Json::Number(schedules.into())),
        ("ok", Json::Bool(ran.found.is_ok())),
    ];
    if let Err(error) = &ran.found {
        fields.push(("verdict", Json::text(summary(error))));
        fields.push(("report", Json::text(error)));
        if let RunError::ResultsDiffer(found) = error {
            fields.push(("difference", difference_json(found)));
        }
        if let Some(fault) = error.fault() {
            fields.push(("order", Json::text(format!("{:?}", fault.order))));
            let all = [fault].into_iter().chain(&fault.also).map(fault_json);
            fields.push(("faults", Json::List(all.collect())));
        }
    } else {
        let data_use = ran.verified.data_use();
        fields.push(("data_use", Json::option(data_use.as_ref(), Json::text)));
    }
    if !ran.printed.is_empty() {
        fields.push(("buffers", Json::List(ran.printed.iter().map(buffer_json).collect())));
    }
    Json::Object(fields)
}

/// Returns the answer for input that did not run.
fn failure_json(failure: &Failure, schedules: u32) -> Json {
    let error = |error: &TextError| {
        Json::Object(vec![
            ("cause", Json::text(&error.cause)),
            ("location", Json::option(error.location.as_ref(), Json::text)),
            ("message", Json::text(&error.message)),
        ])
    };
    Json::Object(vec![
        ("kernel", Json::Null),
        ("schedules", Json::Number(schedules.into())),
        ("ok", Json::Bool(false)),
        ("verdict", Json::text("bad input")),
        ("report", Json::text(&failure.message)),
        ("errors", Json::List(failure.errors.iter().map(error).collect())),
    ])
}

fn buffer_json(buffer: &Printed) -> Json {
    Json::Object(vec![
        ("name", Json::text(&buffer.name)),
        ("type", Json::text(buffer.elem)),
        ("elements", Json::List(buffer.elements.iter().map(Json::text).collect())),
    ])
}

/// Describes the error with its counts of races and other faults.
fn summary(error: &RunError) -> String {
    let Some(fault) = error.fault() else {
        return match error {
            RunError::OutOfFuel { .. } => "it does not end".to_owned(),
            RunError::ResultsDiffer(_) => "results differ between schedules".to_owned(),
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

fn difference_json(found: &ResultsDiffer) -> Json {
    Json::Object(vec![
        ("buffer", Json::text(&found.param)),
        ("element", Json::Number(found.element)),
        ("elements", Json::Number(found.elements)),
        ("first_order", Json::text(format!("{:?}", found.first_order))),
        ("first_value", Json::text(found.first_value)),
        ("other_order", Json::text(format!("{:?}", found.other_order))),
        ("other_value", Json::text(found.other_value)),
    ])
}

fn fault_json(fault: &Fault) -> Json {
    let triple = |axes: [u32; 3]| {
        Json::List(axes.into_iter().map(|axis| Json::Number(axis.into())).collect())
    };
    let mut fields = vec![
        ("cause", Json::text(variant(&fault.cause))),
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
