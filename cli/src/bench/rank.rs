//! Ranks configurations with the model if there is no GPU.

use std::fmt::Write;

use tilewright::kernels::gemm::GemmProblem;
use tilewright_tune::{GemmModel, GemmSpace, Prediction, Regime};

use super::super::{Failure, print};
use super::Gemm;
use super::input::Configs;

/// How many candidates are printed by default, in the model's order.
const SHOWN: usize = 8;

pub(super) fn run(
    options: &Gemm,
    space: &GemmSpace,
    shapes: &[GemmProblem],
    configs: &Configs,
) -> Result<(), Failure> {
    let gpu = options.gpu();
    let model = GemmModel::of(gpu.machine());
    let mut text = format!(
        "no GPU: the model's ranking for an {gpu}, {} to {}; nothing is measured, and times are \
         shown only if the model is calibrated\n",
        space.input, space.output
    );
    for problem in shapes {
        let candidates = configs.of(space, problem, &model.machine);
        let sizes = [problem.m, problem.n, problem.k];
        let regimes = match &options.regimes[..] {
            [] => Regime::of_sizes(sizes),
            given => given,
        };
        for regime in regimes {
            let [m, n, k] = sizes;
            let count = candidates.len();
            let plural = if count == 1 { "" } else { "s" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{m}x{n}x{k} {regime}, {count} candidate{plural}");
            let _ = writeln!(
                text,
                "{:>8} {:>10} {:>8} {:>6}  {:<10} configuration",
                "x first", "us", "TFLOP/s", "waves", "bound by"
            );
            let shown = match (configs, options.candidates) {
                (_, Some(count)) => count as usize,
                (Configs::Default, None) => SHOWN,
                (Configs::All | Configs::Named(_), None) => usize::MAX,
            };
            let ranked = model.rank(&candidates, problem, *regime);
            let first = ranked.first().map_or(1.0, |(_, first)| first.seconds);
            for (config, prediction) in ranked.iter().take(shown) {
                let Prediction { seconds, waves, .. } = prediction;
                let [us, speed] = figures(problem, prediction);
                let (ratio, bound) = (seconds / first, prediction.limit());
                let _ = writeln!(
                    text,
                    "{ratio:>8.3} {us:>10} {speed:>8} {waves:>6}  {bound:<10} {config}",
                );
            }
        }
    }
    print(&text)
}

/// Returns a problem's predicted microseconds and TFLOP/s, or `-` if the model can only rank.
pub(super) fn figures(problem: &GemmProblem, prediction: &Prediction) -> [String; 2] {
    let Prediction { seconds, is_calibrated, .. } = *prediction;
    if !is_calibrated {
        return ["-", "-"].map(str::to_owned);
    }
    let speed = problem.flops() as f64 / seconds / 1e12;
    [format!("{:.2}", seconds * 1e6), format!("{speed:.1}")]
}
