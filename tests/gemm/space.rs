//! Runs and assembles the configurations that the tuner tries first.
//!
//! Sizes are small for the simulator. The first few are tried; all that the tuner measures with
//!
//! ```text
//! TILEWRIGHT_CASES=all cargo test --release --test gemm -- defaults:: space::
//! ```

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use gemm_case::{Case, ptx};
use rayon::prelude::*;
use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, GemmConfig, GemmProblem, Machine, Splits,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;
use tilewright_tune::{
    Effort, GemmModel, GemmSpace, KernelSource, Regime, Report, Sweep, USUAL_SHAPES, rankings,
};

use crate::support::{gemm_case, ptxas};

fn every() -> bool {
    std::env::var("TILEWRIGHT_CASES").is_ok_and(|cases| cases == "all")
}

/// `bf16`, as `tilewright bench gemm` measures it where nothing is asked for.
fn usual() -> GemmSpace {
    GemmSpace::new(Target::SM_90A, Scalar::Bf16)
}

/// Other types, outputs, contiguous modes and epilogues.
fn others() -> Vec<GemmSpace> {
    let all = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Row),
        activation: Some(Activation::Gelu),
    };
    let of = |input| GemmSpace::new(Target::SM_90A, input);
    vec![
        GemmSpace { major_b: Major::Mn, ..of(Scalar::F16) },
        of(Scalar::Tf32),
        of(Scalar::F32),
        GemmSpace { output: Scalar::F32, ..usual() },
        GemmSpace { epilogue: all, ..usual() },
    ]
}

/// The first `first` of what the tuner measures of a space for each of the problems, each once; all
/// with `TILEWRIGHT_CASES=all`.
fn candidates(space: GemmSpace, problems: &[[u32; 3]], first: usize) -> Vec<GemmConfig> {
    let mut all: Vec<GemmConfig> = Vec::new();
    for &sizes in if every() { &USUAL_SHAPES } else { problems } {
        let [m, n, k] = sizes;
        let problem = GemmProblem::new(m, n, k);
        let configs = space.configs(&problem, &Machine::H200);
        for regime in Regime::of_sizes(sizes) {
            let most = Effort::of(*regime).candidates;
            let first = if every() { most } else { first.min(most) };
            for (config, _) in GemmModel::H200.rank(&configs, &problem, *regime).iter().take(first)
            {
                if !all.contains(config) {
                    all.push(*config);
                }
            }
        }
    }
    distinct(all)
}

/// Drops kernels that differ from another only in the swizzle width.
fn distinct(configs: Vec<GemmConfig>) -> Vec<GemmConfig> {
    let mut kept: Vec<GemmConfig> = Vec::new();
    for config in configs {
        let same = |known: &GemmConfig| GemmConfig { raster: known.raster, ..config } == *known;
        if !kept.iter().any(same) {
            kept.push(config);
        }
    }
    kept
}

fn check(config: GemmConfig) {
    check_on(&Device::sim().unwrap(), config);
}

fn check_on(device: &Device, config: GemmConfig) {
    let [tile_m, tile_n, depth] = config.tile;
    // Two tiles along each mode, the second one ragged, and a last step that is not whole.
    let k = match config.splits {
        Splits::SplitK(parts) if parts > 1 => 2 * parts * depth - 8,
        _ => 5 * depth + 8,
    };
    let [m, n] = [tile_m + tile_m / 2 + 3, tile_n + 8 * (tile_n / 16).max(1)];
    Case::new(GemmProblem::new(m, n, k)).check_any(device, config);
}

#[test]
fn the_first_candidates_are_right() {
    let mut all = candidates(usual(), &USUAL_SHAPES, 2);
    assert!(all.len() > 5, "only {}", all.len());
    if !every() {
        all = all.into_iter().step_by(4).collect();
    }
    for space in others() {
        all.extend(candidates(space, &[[512, 512, 512]], 1));
    }
    all.into_par_iter().for_each(check);
}

/// Every configuration of the tuner's spaces for every usual shape, each kernel once.
fn whole_space() -> Vec<GemmConfig> {
    let older = [Scalar::Bf16, Scalar::F16, Scalar::F32];
    let older = older.map(|input| GemmSpace::new(Target::SM_80, input));
    let spaces = std::iter::once(usual()).chain(others()).chain(older);
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for space in spaces {
        for [m, n, k] in USUAL_SHAPES {
            let configs = space.configs(&GemmProblem::new(m, n, k), &Machine::H200).into_iter();
            // The swizzle width only changes which tile a block computes.
            let raster = GemmConfig::simt(space.target, Scalar::F32).raster;
            all.extend(configs.filter(|config| seen.insert(GemmConfig { raster, ..*config })));
        }
    }
    all
}

/// The part of a campaign that `TILEWRIGHT_CASES` names: `i/n` is part `i` of `n`, from 1, and
/// `all` is `1/1`. A number of cases, as for other tests, names none.
fn part_of_all() -> Option<[usize; 2]> {
    let cases = std::env::var("TILEWRIGHT_CASES").ok()?;
    if cases == "all" {
        return Some([1, 1]);
    }
    let (part, parts) = cases.split_once('/')?;
    match (part.parse(), parts.parse()) {
        (Ok(part), Ok(parts)) if (1..=parts).contains(&part) => Some([part, parts]),
        _ => panic!("TILEWRIGHT_CASES is `{cases}`: i of `i/n` is at least 1 and at most n"),
    }
}

/// A campaign that can be cut off: the kernels that passed are lines of a file.
struct Log(Option<Mutex<File>>);

impl Log {
    /// Opens the file of `TILEWRIGHT_DONE`, if it names one, and drops the kernels that passed
    /// before.
    fn open(all: &mut Vec<GemmConfig>) -> Log {
        let Some(path) = std::env::var_os("TILEWRIGHT_DONE") else { return Log(None) };
        let mut file =
            File::options().read(true).append(true).create(true).open(path).expect("the file");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("lines");
        let done: HashSet<&str> = text.lines().collect();
        all.retain(|config| !done.contains(config.to_string().as_str()));
        Log(Some(Mutex::new(file)))
    }

    fn passed(&self, config: &GemmConfig) {
        if let Log(Some(file)) = self {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(format!("{config}\n").as_bytes()).expect("a line");
        }
    }
}

/// No false alarm: every kernel of the tuner's spaces is right and silent with races, at a small
/// size. A few are tried. All 13,000 take hours, so they can be split, and a run that was cut off
/// goes on:
///
/// ```text
/// TILEWRIGHT_CASES=1/8 TILEWRIGHT_DONE=done.txt cargo test --release --test gemm \
///     space::no_kernel_of_the_spaces_races -- --nocapture
/// ```
#[test]
fn no_kernel_of_the_spaces_races() {
    let mut all = whole_space();
    let count = all.len();
    assert!(count > 300, "only {count}");
    let named: HashSet<String> = all.iter().map(GemmConfig::to_string).collect();
    assert_eq!(named.len(), count, "a name is that of one kernel");
    let part = part_of_all();
    let few = count.div_ceil(if cfg!(debug_assertions) { 4 } else { 12 });
    let [first, step] = part.map_or([0, few], |[part, parts]| [part - 1, parts]);
    all = all.into_iter().skip(first).step_by(step).collect();
    let chosen = all.len();
    let log = Log::open(&mut all);
    let (done, tried) = (AtomicUsize::new(0), all.len());
    let failed: Mutex<Vec<String>> = Mutex::default();
    all.into_par_iter().for_each(|config| {
        let device = Device::sim_with(Options::default().race(true));
        // The others are tried too.
        match catch_unwind(AssertUnwindSafe(|| check_on(&device, config))) {
            Ok(()) => log.passed(&config),
            Err(_) => {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(config.to_string());
            }
        }
        let done = done.fetch_add(1, Relaxed) + 1;
        if part.is_some() && done.is_multiple_of(50) {
            println!("{done} of {tried}");
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} of {count} kernels are silent, {tried} of them in this run",
        chosen - failed.len()
    );
    assert!(failed.is_empty(), "{} kernels fail: {}", failed.len(), failed.join(" "));
}

/// No spill, no stack, no remark: `wgmma` runs beside what it can, and `setmaxnreg` is obeyed.
#[test]
fn the_assembler_has_nothing_to_say_of_the_first_candidates() {
    let Some(ptxas) = ptxas::find() else { return };
    let complaint = |config: GemmConfig| {
        let ptx = ptx(config);
        let report = match ptxas.report(ptx.text(), &config.target.to_string()) {
            Ok(report) => report,
            Err(problem) => return Some(format!("{config}: {problem}")),
        };
        let none = ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"];
        let is_clean = none.iter().all(|none| report.contains(none)) && !report.contains("(C7");
        (!is_clean).then(|| format!("{config}: {report}"))
    };
    let mut all = candidates(usual(), &USUAL_SHAPES, 3);
    // Rows that threads fetch, and sums of few tiles.
    all.extend(candidates(usual(), &[[122, 5123, 92], [57, 8499, 1181], [64, 8192, 8192]], 4));
    if every() {
        all.extend(others().into_iter().flat_map(|space| candidates(space, &USUAL_SHAPES, 3)));
    }
    let complaints: Vec<String> = all.into_par_iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Of the problems that were held out from the fit, the first of the model's order takes at most 3
/// % more than the fastest that was measured, on average, and the best of its first eight is within
/// 3 % for nine of ten.
#[test]
fn the_model_finds_the_fast_ones() {
    let sweep: Sweep =
        serde_json::from_str(include_str!("../../benches/data/h200-gemm.json")).unwrap();
    assert!(sweep.configs.len() >= 1000 && sweep.shapes.len() >= 200);
    let (model, groups) = (GemmModel::of(sweep.machine), sweep.groups().unwrap());
    let regrets = |first: usize| -> Vec<f64> {
        let found = rankings(&model, &groups, first);
        found.iter().filter(|one| one.is_held_out).map(|one| one.regret).collect()
    };
    let first = regrets(1);
    let mean = first.iter().map(|regret| regret.ln()).sum::<f64>() / first.len() as f64;
    assert!(mean.exp() <= 1.03, "{mean}");
    let of_eight = regrets(8);
    let within = of_eight.iter().filter(|regret| **regret <= 1.03).count();
    assert!(10 * within >= 9 * of_eight.len(), "{of_eight:?}");
}

/// The predicted times that count as calibrated are close to what was measured: of the usual
/// products within 2 % in steady work, 10 % in bursts and 16 % in latency, and of all measured
/// configurations, slow ones too, half are within 10 % and nine of ten within 30 %. For the others
/// only the order is said to hold.
#[test]
fn calibrated_times_are_close_to_the_measured_ones() {
    let sweep: Sweep =
        serde_json::from_str(include_str!("../../benches/data/h200-gemm.json")).unwrap();
    let model = GemmModel::of(sweep.machine);
    let (mut errors, mut others) = (Vec::new(), 0);
    for group in sweep.groups().unwrap() {
        for (config, seconds) in &group.times {
            let predicted = model.predict(config, &group.problem, group.regime);
            let of_16_bits = config.a.bits() == 16 && config.is_warp_specialised();
            assert_eq!(predicted.is_calibrated, of_16_bits, "{config}");
            if of_16_bits {
                errors.push((predicted.seconds / seconds).ln().abs());
            } else {
                others += 1;
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() > 5000 && others > 50, "{} and {others}", errors.len());
    for (percent, bound) in [(50, 1.1f64), (90, 1.3)] {
        let error = errors[percent * errors.len() / 100].exp();
        assert!(error <= bound, "{percent} %: {error}");
    }

    let report: Report =
        serde_json::from_str(include_str!("../../benches/data/h200-gemm-report.json")).unwrap();
    let mut counts = [0; 3];
    for comparison in &report.comparisons {
        let ([m, n, k], regime) = (comparison.sizes, comparison.regime);
        let bound = [0.16, 0.1, 0.02][regime as usize];
        let ours = comparison.entries.iter().filter(|entry| entry.of == KernelSource::Tilewright);
        for entry in ours {
            let config: GemmConfig = entry.name.parse().unwrap();
            let problem = GemmProblem::new(m, n, k);
            let predicted = GemmModel::H200.predict(&config, &problem, regime);
            let ratio = predicted.seconds / entry.seconds().unwrap();
            assert!(predicted.is_calibrated, "{config}");
            assert!((ratio - 1.0).abs() <= bound, "{m}x{n}x{k} {regime} {config}: {ratio}");
            counts[regime as usize] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count >= 3), "{counts:?}");
}
