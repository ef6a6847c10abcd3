//! The model's order, where there is no GPU.

use std::fmt::Write;

use tilewright::kernels::gemm::GemmProblem;
use tilewright::tune::{GemmModel, Prediction, Regime};

use super::super::{Failure, print};
use super::Gemm;
use super::input::Configs;

/// Candidates printed by default, in the model's order.
const SHOWN: usize = 8;

pub(super) fn run(
    options: &Gemm,
    shapes: &[GemmProblem],
    configs: &Configs,
) -> Result<(), Failure> {
    let space = options.space(options.target);
    let model = GemmModel::H200;
    let mut text = format!(
        "no GPU: the order of the model of an H200, {} to {}; nothing is measured\n",
        space.input, space.output
    );
    for problem in shapes {
        let candidates = configs.of(&space, problem, &model.machine);
        let sizes = [problem.m, problem.n, problem.k];
        let regimes = match &options.regimes[..] {
            [] => Regime::of_sizes(sizes),
            given => given,
        };
        for regime in regimes {
            let [m, n, k] = sizes;
            let count = candidates.len();
            let plural = if count == 1 { "" } else { "s" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "\n{m}x{n}x{k} {regime}, {count} candidate{plural}");
            let _ = writeln!(
                text,
                "{:>10} {:>8} {:>6}  {:<10} configuration",
                "us", "TFLOP/s", "waves", "bound by"
            );
            let shown = match (configs, options.candidates) {
                (_, Some(count)) => count as usize,
                (Configs::Default, None) => SHOWN,
                (Configs::All | Configs::Named(_), None) => usize::MAX,
            };
            for (config, prediction) in model.rank(&candidates, problem, *regime).iter().take(shown)
            {
                let Prediction { seconds, waves, .. } = prediction;
                let speed = problem.flops() as f64 / seconds / 1e12;
                let bound = prediction.limit();
                let _ = writeln!(
                    text,
                    "{:>10.2} {speed:>8.1} {waves:>6}  {bound:<10} {config}",
                    seconds * 1e6
                );
            }
        }
    }
    print(&text)
}
