//! `tilewright check`: runs a kernel on the simulator under many schedules and reports races and
//! other faults.

mod arguments;
mod kernel;

use clap::Args;
use tilewright::json::Json;
use tilewright::sim::{Fault, FaultCause, ResultsDiffer, RunError};

use super::progress::Meter;
use super::{Failure, print};
pub(super) use kernel::KernelArgs;

/// The options of `tilewright check`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if no schedule finds a fault; 1 if a kernel has a fault, gives \
                  other results under another schedule, does not end, or fails an assertion; 2 for \
                  bad input."
)]
pub(super) struct Options {
    #[command(flatten)]
    kernel: KernelArgs,
    /// How many schedules to run: the default one, adversarial ones, then random ones. Their
    /// results are compared.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    schedules: u32,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// The result for one kernel.
struct Verdict {
    kernel: String,
    found: Result<(), Box<RunError>>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let meter = Meter::new();
    let ran = options.kernel.run(meter.simulator().schedules(options.schedules))?;
    meter.clear();
    let verdicts: Vec<Verdict> =
        ran.into_iter().map(|(kernel, found)| Verdict::new(&kernel, found)).collect();
    let schedules = options.schedules;
    if options.json {
        let all = verdicts.iter().map(|verdict| verdict.json(schedules)).collect();
        print(&format!("{}\n", Json::List(all)))?;
    } else {
        let all: String = verdicts.iter().map(|verdict| verdict.text(schedules)).collect();
        print(&all)?;
    }
    let bad: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| verdict.found.is_err())
        .map(|verdict| verdict.kernel.as_str())
        .collect();
    match bad.len() {
        0 => Ok(()),
        _ => Err(Failure::run(format!("failed kernels: {}", bad.join(", ")))),
    }
}

impl Verdict {
    fn new(kernel: &str, found: Result<(), RunError>) -> Verdict {
        Verdict { kernel: kernel.to_owned(), found: found.map_err(Box::new) }
    }

    fn text(&self, schedules: u32) -> String {
        let kernel = &self.kernel;
        match &self.found {
            Ok(()) => format!("{kernel}: no fault under {schedules} schedules\n"),
            Err(error) => format!("{kernel}: {}\n{error}\n", summary(error)),
        }
    }

    fn json(&self, schedules: u32) -> Json {
        let mut fields = vec![
            ("kernel", Json::text(&self.kernel)),
            ("schedules", Json::Number(schedules.into())),
            ("ok", Json::Bool(self.found.is_ok())),
        ];
        if let Err(error) = &self.found {
            fields.push(("verdict", Json::text(summary(error))));
            fields.push(("report", Json::text(error)));
            if let RunError::ResultsDiffer(found) = &**error {
                fields.push(("difference", difference_json(found)));
            }
            if let Some(fault) = error.fault() {
                fields.push(("order", Json::text(format!("{:?}", fault.order))));
                let all = [fault].into_iter().chain(&fault.also).map(fault_json);
                fields.push(("faults", Json::List(all.collect())));
            }
        }
        Json::Object(fields)
    }
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
