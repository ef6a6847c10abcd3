//! Builds, assembles and runs the configurations that `GemmConfig::defaults` offers.
//!
//! The assembler reports no spill and no remark; the simulator's results are right. Some of each
//! kind are tried; all of them with
//!
//! ```text
//! TILEWRIGHT_CASES=all cargo test --release --test gemm defaults:: space::
//! ```

use crate::support::{gemm_case, ptxas};

use std::collections::BTreeMap;

use gemm_case::{Case, ptx};

use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, GemmConfig, GemmProblem, Machine, Schedule, Splits,
};
use tilewright::runtime::Device;

fn sizes() -> Vec<GemmProblem> {
    let square = |n| GemmProblem::new(n, n, n);
    vec![
        square(8192),
        square(4096),
        square(1024),
        square(512),
        GemmProblem::new(16, 4096, 14336),
        GemmProblem::new(256, 8192, 8192),
        // Nothing is aligned.
        GemmProblem::new(1001, 999, 997),
    ]
}

/// Returns the requests: types, contiguous modes, epilogues.
fn wanted(target: Target) -> Vec<GemmConfig> {
    let all = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Column),
        activation: Some(Activation::Relu),
    };
    let of = |a| GemmConfig { target, ..GemmConfig::sm90(a, [128, 128]) };
    let base = of(Scalar::Bf16);
    vec![
        base,
        of(Scalar::F16),
        of(Scalar::Tf32),
        GemmConfig { major_a: Major::Mn, ..of(Scalar::Tf32) },
        GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..of(Scalar::Tf32) },
        of(Scalar::F32),
        GemmConfig { major_a: Major::Mn, major_b: Major::Mn, epilogue: all, ..of(Scalar::F32) },
        GemmConfig { d: Scalar::F32, c: Scalar::F32, ..base },
        GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..base },
        GemmConfig { major_b: Major::Mn, epilogue: all, ..base },
        GemmConfig { epilogue: Epilogue { activation: Some(Activation::Gelu), ..all }, ..base },
        GemmConfig {
            epilogue: Epilogue { activation: Some(Activation::Gelu), ..Epilogue::default() },
            ..base
        },
    ]
}

/// Returns all offered configurations by name, without their swizzle widths, each with its problem.
fn offered() -> BTreeMap<String, GemmConfig> {
    let mut all = BTreeMap::new();
    for target in [Target::SM_80, Target::SM_90A] {
        for wanted in wanted(target) {
            for problem in sizes() {
                let configs = wanted.defaults(&problem, &Machine::H200);
                assert!(!configs.is_empty(), "{wanted}: {problem:?}");
                for config in configs {
                    config.check().unwrap();
                    config.check_problem(&problem).unwrap();
                    let config = GemmConfig { raster: wanted.raster, ..config };
                    all.insert(config.to_string(), config);
                }
            }
        }
    }
    assert!(all.len() > 60, "only {}", all.len());
    all
}

/// Returns one in `one_of` of each kind (types of A and D, with and without an epilogue), but at
/// least one; all with `TILEWRIGHT_CASES=all`.
fn part(all: BTreeMap<String, GemmConfig>, one_of: usize) -> Vec<GemmConfig> {
    if std::env::var("TILEWRIGHT_CASES").is_ok_and(|cases| cases == "all") {
        return all.into_values().collect();
    }
    let mut kinds: BTreeMap<String, Vec<GemmConfig>> = BTreeMap::new();
    for config in all.into_values() {
        let plain = config.epilogue == Epilogue::default();
        let kind = format!("{} {} {} {plain}", config.target, config.a, config.d);
        kinds.entry(kind).or_default().push(config);
    }
    let some = |kind: Vec<GemmConfig>| {
        let first = (one_of / 2).min(kind.len() - 1);
        kind.into_iter().skip(first).step_by(one_of)
    };
    kinds.into_values().flat_map(some).collect()
}

#[test]
fn the_assembler_has_no_remark() {
    let Some(ptxas) = ptxas::find() else { return };
    for config in part(offered(), 24) {
        let report = ptxas.report(ptx(config).text(), &config.target.to_string());
        let report = report.unwrap_or_else(|problem| panic!("{config}: {problem}"));
        assert!(!report.contains("(C7"), "{config}: {report}");
        for none in ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"] {
            assert!(report.contains(none), "{config}: there is not `{none}` in\n{report}");
        }
    }
}

/// A disabled option leaves no instruction.
#[test]
fn epilogues_that_are_off_are_absent() {
    let base = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let has = |config: GemmConfig, what: &str| ptx(config).text().contains(what);
    let gelu = Epilogue { activation: Some(Activation::Gelu), ..Epilogue::default() };
    for config in [base, GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128])] {
        assert!(!has(config, "tanh.approx") && !has(config, "ld.global"));
        assert!(has(GemmConfig { epilogue: gelu, ..config }, "tanh.approx"));
        let beta = Epilogue { beta: true, ..Epilogue::default() };
        assert!(has(GemmConfig { epilogue: beta, ..config }, "ld.global"));
    }
}

/// At a reduced size, with a reduced depth.
#[test]
fn kernels_are_right_on_the_simulator() {
    let device = Device::sim().unwrap();
    for config in part(offered(), 40) {
        let steps = match config.splits {
            Splits::SplitK(parts) if parts > 1 => 2 * parts,
            _ => 4,
        };
        let is_whole = config.schedule == Schedule::Cooperative || config.splits.is_split();
        let depth = if is_whole { steps * config.tile[2] } else { 40 };
        let problem = GemmProblem::new(config.tile[0] + 8, 48, depth);
        Case::new(problem).check_any(&device, config);
    }
}

/// An explanation has the configuration that is chosen, its parts are within the whole, the next
/// ones are slower, and what costs nothing is not printed.
#[test]
fn choices_are_explained() {
    let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let of = |m, n, k| {
        let problem = GemmProblem::new(m, n, k);
        let why = wanted.explain(&problem, &Machine::H200).unwrap();
        assert_eq!(why.config, wanted.best(&problem, &Machine::H200).unwrap());
        let p = why.prediction;
        for part in [p.mma_s, p.l2_s, p.store_s, p.fix_up_s] {
            assert!(part >= 0.0 && part <= p.busy_s, "{why}");
        }
        assert!(
            p.seconds >= p.busy_s.max(p.memory_s).max(p.cache_s).max(p.energy_s) + p.copies_s,
            "{why}"
        );
        let others: Vec<f64> = why.others.iter().map(|(_, other)| other.seconds).collect();
        assert!(!others.is_empty() && others.is_sorted() && others[0] >= p.seconds, "{why}");
        why
    };
    let square = of(4096, 4096, 4096).to_string();
    assert!(square.contains("32 x 16 tiles of 64 steps, 1 splits, 4 waves of 132 SMs"), "{square}");
    assert!(!square.contains("sums over splits") && !square.contains("copies"), "{square}");
    let split = of(128, 128, 65536);
    assert!(split.prediction.fix_up_s > 0.0 && split.to_string().contains("sums over splits"));
    let copied = of(4096, 4096, 4001);
    assert!(copied.prediction.copies_s > 0.0 && copied.to_string().contains("copies of A and B"));
    // No configuration: the error of `best`.
    let none = GemmProblem::new(0, 1, 1);
    assert_eq!(
        wanted.explain(&none, &Machine::H200).unwrap_err(),
        wanted.best(&none, &Machine::H200).unwrap_err()
    );
}

/// A shape that was planned before is found in a table, in a fiftieth of the time of a new plan.
#[test]
fn repeated_plans_come_from_a_table() {
    let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let problem = GemmProblem::new(1234, 2344, 3456);
    let first = wanted.best(&problem, &Machine::H200).unwrap();
    let time = |problem: &GemmProblem| {
        let start = std::time::Instant::now();
        let best = wanted.best(problem, &Machine::H200).unwrap();
        (start.elapsed(), best)
    };
    let new = (1..20).map(|i| time(&GemmProblem::new(1234 + 8 * i, 2344, 3456)).0).min().unwrap();
    let repeated = || {
        let (elapsed, best) = time(&problem);
        assert_eq!(best, first);
        elapsed
    };
    let least = (0..200).map(|_| repeated()).min().unwrap();
    assert!(least * 50 <= new, "{least:?} after {new:?}");
    // Another number of SMs, another memory or other types are other plans.
    let fewer =
        wanted.defaults(&GemmProblem::new(256, 14336, 4096), &Machine { sms: 66, ..Machine::H200 });
    assert_ne!(fewer, wanted.defaults(&GemmProblem::new(256, 14336, 4096), &Machine::H200));
    // The memory of an H100 takes longer for rows of 15872 elements, which are read once.
    let h100 = Machine { l2_bytes: 50e6, memory_bytes_per_s: 3.06e12, ..Machine::H200 };
    let wide = GemmProblem::new(77, 15872, 704);
    let seconds = |machine| wanted.explain(&wide, machine).unwrap().prediction.seconds;
    assert!(seconds(&h100) > 1.2 * seconds(&Machine::H200));
    let f16 = GemmConfig::sm90(Scalar::F16, [64, 64]).best(&problem, &Machine::H200).unwrap();
    assert_eq!(f16, GemmConfig { a: f16.a, b: f16.b, c: f16.c, d: f16.d, ..first });
}
