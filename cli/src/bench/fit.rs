//! `--fit`: the parameters of the model from measurements.

use std::fmt::Write;
use std::path::Path;

use tilewright::tune::{
    GemmModel, Parameters, ProblemTimes, Ranking, Sweep, fit, is_held_out, rankings,
};

use super::super::{Failure, print, read};

/// Candidates tried, in the model's order.
const FIRST: usize = 8;
/// Allowed ratio of the time of the best of these to the best of all.
const WITHIN: f64 = 1.03;

pub(super) fn run(file: &Path) -> Result<(), Failure> {
    let sweep: Sweep = serde_json::from_str(&read(file)?)
        .map_err(|error| Failure::input(format!("{}: {error}", file.display())))?;
    let groups = sweep.groups().map_err(Failure::input)?;
    let for_fit: Vec<ProblemTimes> = groups
        .iter()
        .enumerate()
        .filter(|(index, _)| !is_held_out(*index))
        .map(|(_, group)| group.clone())
        .collect();
    let machine = sweep.machine;
    let parameters = fit(machine, Parameters::H200, &for_fit);
    let mut text = format!(
        "{}\n{} configurations, {} problems, {} of them held out from the fit\n",
        sweep.provenance,
        sweep.configs.len(),
        groups.len(),
        groups.len() - for_fit.len()
    );
    let models = [
        ("the parameters of this version", GemmModel { machine, parameters: Parameters::H200 }),
        ("fitted now", GemmModel { machine, parameters }),
    ];
    for (name, model) in models {
        let found = rankings(&model, &groups, FIRST);
        let _ = writeln!(text, "{name}:");
        for (what, held_out) in [("fitted", false), ("held-out", true)] {
            let of: Vec<&Ranking> =
                found.iter().filter(|one| one.is_held_out == held_out).collect();
            let within = of.iter().filter(|one| one.regret <= WITHIN).count();
            let share = 100.0 * within as f64 / of.len().max(1) as f64;
            let _ = writeln!(
                text,
                "  the best of the model's first {FIRST} is within 3 % of the best of the sweep for {within} of {} \
                 {what} problems ({share:.0} %)",
                of.len()
            );
        }
        for one in found.iter().filter(|one| one.regret > WITHIN) {
            let [m, n, k] = one.sizes;
            let kind = if one.is_held_out { ", held out" } else { "" };
            let slower = 100.0 * (one.regret - 1.0);
            let _ = writeln!(text, "  {m}x{n}x{k}{kind}: {slower:.1} % slower with {}", one.found);
        }
    }
    let _ = writeln!(text, "{parameters:#?}");
    print(&text)
}
