//! `--fit`: fits the model's parameters to measurements.

use std::fmt::Write;
use std::path::Path;

use tilewright_tune::{GemmModel, Parameters, ProblemTimes, Sweep, fit, is_held_out, rankings};

use super::super::{Failure, print, read};
use super::geometric_mean;

/// How many of the model's first candidates are tried.
const FIRST: usize = 8;
/// A choice counts as good if the best of these takes at most this many times as long as the best
/// of all.
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
        let _ = writeln!(
            text,
            "{name}: the best time of the model's first choices over the best time of all"
        );
        for first in [1, FIRST] {
            let found = rankings(&model, &groups, first);
            for (what, held_out) in [("fitted", false), ("held-out", true)] {
                let of = found.iter().filter(|one| one.is_held_out == held_out);
                let regrets: Vec<f64> = of.map(|one| one.regret).collect();
                let _ = writeln!(text, "  {}", summary(first, what, &regrets));
            }
            for one in found.iter().filter(|one| first == FIRST && one.regret > WITHIN) {
                let [m, n, k] = one.sizes;
                let kind = if one.is_held_out { ", held out" } else { "" };
                let slower = 100.0 * (one.regret - 1.0);
                let _ =
                    writeln!(text, "  {m}x{n}x{k}{kind}: {slower:.1} % slower with {}", one.found);
            }
        }
    }
    let _ = writeln!(text, "{parameters:#?}");
    print(&text)
}

/// Summarises the ratios: their geometric mean, and how many are small.
fn summary(first: usize, what: &str, regrets: &[f64]) -> String {
    let (count, mean) = (regrets.len(), geometric_mean(regrets));
    let within = regrets.iter().filter(|regret| **regret <= WITHIN).count();
    format!("first {first}, {what}: geometric mean {mean:.4}, within 3 % for {within} of {count}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_mean_and_the_small_ones() {
        assert_eq!(
            summary(8, "fitted", &[1.0, 1.02, 1.1]),
            "first 8, fitted: geometric mean 1.0391, within 3 % for 2 of 3"
        );
        assert_eq!(
            summary(1, "held-out", &[]),
            "first 1, held-out: geometric mean 1.0000, within 3 % for 0 of 0"
        );
    }
}
