//! The configurations that `GemmConfig::defaults` offers: all have kernels, which the assembler takes without a spill or
//! a remark, and which are right on the simulator.
#![cfg(feature = "sim")]

#[path = "support/ptxas.rs"]
#[allow(dead_code, reason = "each part of the tests uses what it needs")]
mod ptxas;

use std::collections::BTreeMap;

use tilewright::codegen::Major;
use tilewright::ir::{Scalar, Target, bf16, f16};
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, Schedule,
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

/// What is asked for: types, contiguous modes, epilogues.
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

/// All of them, by their names, but for the widths of strips; for each the problem that it was offered for.
fn offered() -> BTreeMap<String, GemmConfig> {
    let mut all = BTreeMap::new();
    for target in [Target::SM_80, Target::SM_90A] {
        for wanted in wanted(target) {
            for problem in sizes() {
                let configs = wanted.defaults(&problem, 132);
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

fn ptx(config: GemmConfig) -> tilewright::codegen::Ptx {
    match (config.a, config.d) {
        (Scalar::Bf16, Scalar::Bf16) => Gemm::<bf16>::new(config).unwrap().ptx(),
        (Scalar::Bf16, _) => Gemm::<bf16, f32>::new(config).unwrap().ptx(),
        (Scalar::F16, _) => Gemm::<f16>::new(config).unwrap().ptx(),
        _ => Gemm::<f32>::new(config).unwrap().ptx(),
    }
}

/// A part of them by default; all with `TILEWRIGHT_CASES=all`.
fn part(all: BTreeMap<String, GemmConfig>, one_of: usize) -> Vec<GemmConfig> {
    let every = std::env::var("TILEWRIGHT_CASES").is_ok_and(|cases| cases == "all");
    let step = if every { 1 } else { one_of };
    all.into_values().step_by(step).collect()
}

#[test]
fn the_assembler_has_no_remark() {
    let Some(ptxas) = ptxas::find() else { return };
    for config in part(offered(), 5) {
        let report = ptxas.report(ptx(config).text(), &config.target.to_string());
        let report = report.unwrap_or_else(|problem| panic!("{config}: {problem}"));
        assert!(!report.contains("(C7"), "{config}: {report}");
        for none in ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"] {
            assert!(report.contains(none), "{config}: there is not `{none}` in\n{report}");
        }
    }
}

/// What is off leaves no instruction.
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

/// At a reduced size, with a reduced depth: small integers, of which sums are exact.
#[test]
fn kernels_are_right_on_the_simulator() {
    let device = Device::sim().unwrap();
    let mut all = offered();
    all.retain(|_, config| {
        config.a == Scalar::Bf16
            && config.d == Scalar::Bf16
            && config.epilogue == Epilogue::default()
    });
    for config in part(all, 4) {
        let depth = if config.schedule == Schedule::Cooperative { 4 * config.tile[2] } else { 40 };
        let problem = GemmProblem::new(config.tile[0] + 8, 48, depth);
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
        let number = |i: usize| bf16::from_f32((i * i % 7) as f32 - 3.0);
        let (a, b): (Vec<_>, Vec<_>) =
            ((0..m * k).map(number).collect(), (0..n * k).map(|i| number(i + 3)).collect());
        let mut d = device.upload(&vec![bf16::from_f32(f32::NAN); m * n]).unwrap();
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let function = Gemm::<bf16>::new(config).unwrap().load(&device).unwrap();
        function.launch(&problem, GemmArgs::new(&on_a, &on_b, &mut d)).unwrap();
        let found = d.to_vec().unwrap();
        let at = |major, line: usize, lines: usize, depth: usize| {
            if major == Major::K { line * k + depth } else { depth * lines + line }
        };
        for row in (0..m).step_by(3) {
            for column in 0..n {
                let products = (0..k).map(|i| {
                    a[at(config.major_a, row, m, i)].to_f32()
                        * b[at(config.major_b, column, n, i)].to_f32()
                });
                let expected = bf16::from_f32(products.sum());
                assert_eq!(found[row * n + column], expected, "{config}: D[{row}, {column}]");
            }
        }
    }
}
