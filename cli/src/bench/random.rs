//! `--random` and `--untuned`: measures the configuration that a program gets without tuning,
//! beside cuBLAS.

use std::fmt::Write;

use tilewright::kernels::gemm::{GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright_tune::{
    Comparison, Entry, GemmBench, GemmModel, GemmSpace, KernelSource, Machine, PointSeries,
    Prediction, Provenance, Regime, Report, Scatter, Sweep,
};

use super::super::progress::Meter;
use super::super::{Failure, print};
use super::{Gemm, geometric_mean};
use super::{measure, rank};

/// The classes of random sizes: N and K are multiples of this, M is arbitrary.
const CLASSES: [(&str, u32); 3] =
    [("multiples of 64", 64), ("multiples of 8", 8), ("any sizes", 1)];

/// The smallest and largest size. Sizes are uniform in their logarithm.
const SIZES: [f64; 2] = [16.0, 16384.0];

/// A sweep skips candidates that the model predicts to take more than this many times as long as
/// the fastest.
const WORTH: f64 = 1.4;

/// A problem and its class.
#[derive(Debug)]
pub(super) struct Drawn {
    class: usize,
    problem: GemmProblem,
}

/// Returns uniform random numbers from 0 to 1. SplitMix64: Steele, Lea and Flood (2014).
pub(super) fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws `count` problems, cycling through the classes.
pub(super) fn draw(count: u32, seed: u64) -> Vec<Drawn> {
    let mut next = numbers(seed);
    let [low, high] = SIZES.map(f64::ln);
    let mut size = |multiple: u32| {
        let size = (low + next() * (high - low)).exp() as u32;
        size.div_ceil(multiple) * multiple
    };
    (0..count as usize)
        .map(|index| {
            let class = index % CLASSES.len();
            let (_, multiple) = CLASSES[class];
            let (m, n, k) = (size(1), size(multiple), size(multiple));
            Drawn { class, problem: GemmProblem::new(m, n, k) }
        })
        .collect()
}

/// Wraps the user's problems, each in the first class that it fits.
pub(super) fn given(problems: &[GemmProblem]) -> Vec<Drawn> {
    let class = |problem: &GemmProblem| {
        let meets = |(_, multiple): &(&str, u32)| {
            problem.n.is_multiple_of(*multiple) && problem.k.is_multiple_of(*multiple)
        };
        CLASSES.iter().position(meets).unwrap_or(CLASSES.len() - 1)
    };
    problems.iter().map(|problem| Drawn { class: class(problem), problem: *problem }).collect()
}

/// Returns the configurations that a program gets, best first. For a sweep, half of the candidates
/// come from further down the model's order.
fn candidates(options: &Gemm, device: &Device, problem: &GemmProblem) -> Vec<GemmConfig> {
    let (machine, target) = options.machine_of(device);
    let wanted = options.space(target).wanted();
    let mut all = wanted.defaults(problem, &machine);
    let count = options.candidates.unwrap_or(if options.sweep.is_some() { 12 } else { 1 }) as usize;
    if options.sweep.is_none() {
        all.truncate(count);
        return all;
    }
    all.truncate(count.div_ceil(2));
    let ranked = GemmModel::of(machine).rank(
        &GemmSpace::around(&wanted, problem, &machine),
        problem,
        regime(options, problem),
    );
    let bound = ranked.first().map_or(0.0, |(_, first)| WORTH * first.seconds);
    let is_other = |(config, predicted): &(GemmConfig, Prediction)| {
        predicted.seconds <= bound && !all.contains(config)
    };
    let others: Vec<GemmConfig> =
        ranked.into_iter().filter(is_other).map(|(config, _)| config).collect();
    let more = count.saturating_sub(all.len()).min(others.len());
    all.extend((0..more).filter_map(|i| others.get(i * others.len() / more)));
    all
}

fn regime(options: &Gemm, problem: &GemmProblem) -> Regime {
    let sizes = [problem.m, problem.n, problem.k];
    let regimes = match &options.regimes[..] {
        [] => Regime::of_sizes(sizes),
        given => given,
    };
    regimes.first().copied().unwrap_or(Regime::Burst)
}

pub(super) fn run(options: &Gemm, device: &Device, drawn: &[Drawn]) -> Result<(), Failure> {
    if device.is_sim() {
        return plan(options, device, drawn);
    }
    let space = options.space(device.target());
    if !space.has_types() {
        return Err(measure::not_measured(&space));
    }
    beside(options, device, drawn)
}

/// Prints which configurations the problems would get, if there is no GPU.
fn plan(options: &Gemm, device: &Device, drawn: &[Drawn]) -> Result<(), Failure> {
    let gpu = options.gpu();
    let mut text = format!(
        "no GPU: configurations for an {gpu}, with the model's times in us if it is calibrated; nothing is measured\n"
    );
    let model = GemmModel::of(gpu.machine());
    for Drawn { class, problem } in drawn {
        let [m, n, k] = [problem.m, problem.n, problem.k];
        for config in candidates(options, device, problem) {
            let predicted = model.predict(&config, problem, regime(options, problem));
            let [us, speed] = rank::figures(problem, &predicted);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:<16} {:<18} {us:>9} {speed:>7} {:>5}  {config}",
                CLASSES[*class].0,
                format!("{m}x{n}x{k}"),
                predicted.waves,
            );
        }
    }
    print(&text)
}

/// Measures the problems beside cuBLAS.
fn beside(options: &Gemm, device: &Device, drawn: &[Drawn]) -> Result<(), Failure> {
    let space = options.space(device.target());
    let mut bench = GemmBench::new(device).map_err(Failure::run)?;
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut provenance = Provenance::of(device, format!("tilewright {command}"));
    provenance.cublas = bench.cublas_version().ok();
    print(&format!("{provenance}; {} to {}\n", space.input, space.output))?;
    let plans: Vec<Vec<GemmConfig>> =
        drawn.iter().map(|drawn| candidates(options, device, &drawn.problem)).collect();
    let meter = Meter::new();
    meter.phase("build", plans.iter().map(Vec::len).sum());
    bench.tuner.prepare(&plans.concat(), &|| meter.step());
    meter.phase("compare", 0);
    print("class            problem                  us  cuBLAS  ratio   best  kernel\n")?;
    let mut sweep = Sweep::new(provenance.clone(), Machine::of(device));
    let mut report = Report { provenance, comparisons: Vec::new() };
    // For each class, the ratios of the first configuration and of the best one.
    let mut ratios: [Vec<[f64; 2]>; 3] = Default::default();
    let mut points: [Vec<[f64; 2]>; 3] = Default::default();
    let mut failed = 0;
    for (index, (Drawn { class, problem }, plan)) in drawn.iter().zip(&plans).enumerate() {
        let regime = regime(options, problem);
        let rounds = options.rounds as usize;
        let name = CLASSES[*class].0;
        let shape = format!("{}x{}x{}", problem.m, problem.n, problem.k);
        meter.task(&shape, index, drawn.len());
        // cuBLAS and cuBLASLt have timing windows of their own.
        meter.add_steps(rounds * (plan.len() + 2));
        let compared = bench
            .product(&space, problem)
            .and_then(|product| bench.compare(&product, regime, plan, rounds, &|| meter.step()));
        meter.clear();
        let line = match compared {
            Ok((comparison, rejected)) => {
                let line = line(&comparison, plan).map(|(both, line)| {
                    if let Some(both) = both {
                        ratios[*class].push(both);
                        points[*class].push([problem.flops() as f64, both[0]]);
                    }
                    line
                });
                let times = |config| Some((config, entry(&comparison, config)?.seconds()?));
                sweep.add(comparison.sizes, regime, plan.iter().filter_map(times));
                report.comparisons.push(comparison);
                let why: Vec<String> =
                    rejected.iter().map(|(name, why)| format!("{name} {why}")).collect();
                failed += usize::from(line.is_none());
                match line {
                    Some(line) if why.is_empty() => line,
                    line => format!("{} {}", line.unwrap_or_default(), why.join("; ")),
                }
            }
            Err(why) => {
                failed += 1;
                why.to_string()
            }
        };
        print(&format!("{name:<16} {shape:<18} {line}\n"))?;
    }
    if let Some(path) = &options.json {
        measure::write(path, serde_json::to_string(&report))?;
    }
    if let Some(path) = &options.sweep {
        measure::write(path, serde_json::to_string(&sweep))?;
    }
    if let Some(path) = &options.svg {
        let note = report.provenance.to_string();
        measure::write(path, Ok(scatter(note, &space, points).svg()))?;
    }
    for ((name, _), ratios) in CLASSES.iter().zip(&ratios).filter(|(_, all)| !all.is_empty()) {
        print(&summary(name, ratios))?;
    }
    if failed > 0 {
        return Err(Failure::run(format!("problems that could not be measured: {failed}")));
    }
    Ok(())
}

/// Returns the entry for a configuration.
fn entry<'c>(comparison: &'c Comparison, config: &GemmConfig) -> Option<&'c Entry> {
    let name = config.to_string();
    comparison
        .entries
        .iter()
        .find(|entry| entry.of == KernelSource::Tilewright && entry.name == name)
}

/// Returns the ratios to cuBLAS of the first configuration and of the best one, if cuBLAS supports
/// the problem, and the line about them.
fn line(comparison: &Comparison, plan: &[GemmConfig]) -> Option<(Option<[f64; 2]>, String)> {
    let cublas = comparison.entries.iter().find(|entry| entry.of == KernelSource::Cublas);
    let ratio = |entry| Some(comparison.ratio(KernelSource::Cublas, entry)?.median);
    let ours = comparison.entries.iter().filter(|entry| entry.of == KernelSource::Tilewright);
    let best = ours.filter_map(ratio).fold(0.0, f64::max);
    let config = plan.first()?;
    let first = entry(comparison, config)?;
    let both = ratio(first).map(|ratio| [ratio, best]);
    let shown = |figure: Option<f64>, digits: usize| {
        figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
    };
    let line = format!(
        "{:>8.2} {:>7} {:>6} {:>6}  {config}",
        first.seconds()? * 1e6,
        shown(cublas.and_then(Entry::seconds).map(|seconds| seconds * 1e6), 2),
        shown(both.map(|[first, _]| first), 3),
        shown(both.map(|[_, best]| best), 3),
    );
    Some((both, line))
}

/// Plots the first configurations' ratios over the problems' operation counts, with one colour per
/// class.
fn scatter(note: String, space: &GemmSpace, points: [Vec<[f64; 2]>; 3]) -> Scatter {
    let series = CLASSES.iter().zip(points).map(|((name, _), points)| {
        let name = (*name).to_owned();
        PointSeries { name, points }
    });
    Scatter {
        title: format!("Matrix products without tuning, {} to {}", space.input, space.output),
        note,
        axes: ["operations".to_owned(), "speed relative to cuBLAS".to_owned()],
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}

/// Summarises a class: geometric mean, 10th percentile and minimum.
fn summary(name: &str, ratios: &[[f64; 2]]) -> String {
    let of = |which: usize| {
        let mut all: Vec<f64> = ratios.iter().map(|both| both[which]).collect();
        all.sort_by(f64::total_cmp);
        let mean = geometric_mean(&all);
        let tenth = all[all.len() / 10];
        format!("geometric mean {mean:.3}, 10th percentile {tenth:.3}, minimum {:.3}", all[0])
    };
    format!("{name}: {} problems: {}; best of the candidates: {}\n", ratios.len(), of(0), of(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::ir::Target;
    use tilewright::ir::types::Scalar;

    #[test]
    fn problems_are_of_their_classes_and_a_seed_gives_them_again() {
        let drawn = draw(300, 7);
        for Drawn { class, problem } in &drawn {
            let (_, multiple) = CLASSES[*class];
            assert!(problem.n.is_multiple_of(multiple) && problem.k.is_multiple_of(multiple));
            for size in [problem.m, problem.n, problem.k] {
                assert!((16..=16384).contains(&size), "{size}");
            }
        }
        let again = draw(300, 7);
        assert!(drawn.iter().zip(&again).all(|(a, b)| a.problem == b.problem));
        assert!(draw(300, 8).iter().zip(&drawn).any(|(a, b)| a.problem != b.problem));
    }

    #[test]
    fn given_problems_are_of_the_first_class_that_they_meet() {
        let problems = [[7, 128, 64], [64, 72, 128], [64, 64, 65]];
        let given = given(&problems.map(|[m, n, k]| GemmProblem::new(m, n, k)));
        assert_eq!(given.iter().map(|drawn| drawn.class).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_chart_has_a_point_for_each_ratio() {
        let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
        let points = [vec![[1e9, 1.1], [2e6, 0.9]], Vec::new(), vec![[3e4, 2.0]]];
        let scatter = scatter("a test".to_owned(), &space, points);
        let names: Vec<&str> = scatter.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["multiples of 64", "any sizes"]);
        assert_eq!(scatter.svg().matches("<circle").count(), 3);
    }

    /// If cuBLAS does not support a problem, it is measured alone.
    #[test]
    fn a_line_has_the_ratios_that_there_are() {
        let config = GemmConfig::sm90([Scalar::I8, Scalar::U8], [128, 128]);
        let entry = |of, name: String, seconds: f64| Entry { of, name, seconds: vec![seconds; 4] };
        let mut comparison = Comparison {
            sizes: [64; 3],
            types: ["i8xu8".to_owned(), "i32".to_owned()],
            regime: Regime::Burst,
            entries: vec![entry(KernelSource::Tilewright, config.to_string(), 2e-6)],
        };
        let line = |comparison: &Comparison| super::line(comparison, &[config]);
        let alone = format!("    2.00       -      -      -  {config}");
        assert_eq!(line(&comparison), Some((None, alone)));
        comparison.entries.push(entry(KernelSource::Cublas, "cuBLAS".to_owned(), 3e-6));
        let beside = format!("    2.00    3.00  1.500  1.500  {config}");
        assert_eq!(line(&comparison), Some((Some([1.5; 2]), beside)));
    }

    #[test]
    fn a_summary_has_the_mean_and_the_worst() {
        let ratios: Vec<[f64; 2]> = [2.0, 0.5, 1.0].map(|ratio| [ratio, 2.0]).into();
        assert_eq!(
            summary("any", &ratios),
            "any: 3 problems: geometric mean 1.000, 10th percentile 0.500, minimum 0.500; best of the candidates: \
             geometric mean 2.000, 10th percentile 2.000, minimum 2.000\n"
        );
    }
}
