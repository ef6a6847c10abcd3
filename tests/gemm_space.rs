//! The configurations that the tuner tries first: what they compute, at sizes that the simulator does quickly, and what
//! NVIDIA's assembler says of them.

#![cfg(feature = "tune")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use rayon::prelude::*;
use tilewright::ir::{Scalar, Target, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright::tune::{Effort, GemmModel, GemmSpace, Regime, Sweep, USUAL_SHAPES, rankings};

#[path = "support/ptxas.rs"]
#[allow(dead_code, reason = "each part of the tests uses what it needs")]
mod ptxas;

/// The first `first` of what `tilewright bench gemm` measures of `bf16` for each problem where nothing is asked for, each
/// once.
fn candidates(first: usize) -> Vec<GemmConfig> {
    let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
    let mut all: Vec<GemmConfig> = Vec::new();
    for sizes @ [m, n, k] in USUAL_SHAPES {
        let problem = GemmProblem::new(m, n, k);
        let configs = space.configs(&problem);
        for regime in Regime::of_sizes(sizes) {
            let first = first.min(Effort::of(*regime).candidates);
            for (config, _) in GemmModel::H200.rank(&configs, &problem, *regime).iter().take(first)
            {
                if !all.contains(config) {
                    all.push(*config);
                }
            }
        }
    }
    all
}

/// Kernels that differ in nothing but the width of strips are one here.
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

/// A small whole number, so that sums are exact in any order.
fn element(i: usize, seed: usize) -> f32 {
    ((i * 7 + i / 13 + seed) % 5) as f32 - 2.0
}

fn check(config: GemmConfig) {
    let [tile_m, tile_n, depth] = config.tile;
    // Two tiles along each mode, the second one ragged, and a last step that is not whole.
    let [m, n, k] = [tile_m + tile_m / 2 + 3, tile_n + 8 * (tile_n / 16).max(1), 5 * depth + 8];
    let problem = GemmProblem::new(m, n, k);
    let [rows, columns, steps] = [m, n, k].map(|size| size as usize);
    let device = Device::sim().unwrap();
    let matrix = |len: usize, seed| -> Vec<bf16> {
        (0..len).map(|i| bf16::from_f32(element(i, seed))).collect()
    };
    let a = device.upload(&matrix(rows * steps, 1)).unwrap();
    let b = device.upload(&matrix(columns * steps, 3)).unwrap();
    let mut d = device.upload(&vec![bf16::from_f32(f32::NAN); rows * columns]).unwrap();
    let gemm = Gemm::<bf16>::new(config).unwrap_or_else(|error| panic!("{config}: {error}"));
    let run = gemm.load(&device).unwrap().launch(&problem, GemmArgs::new(&a, &b, &mut d));
    run.unwrap_or_else(|error| panic!("{config}: {error}"));
    let found = d.to_vec().unwrap();
    for (at, found) in found.iter().enumerate().step_by(7) {
        let (row, column) = (at / columns, at % columns);
        let sum: f32 =
            (0..steps).map(|i| element(row * steps + i, 1) * element(column * steps + i, 3)).sum();
        assert_eq!(*found, bf16::from_f32(sum), "{config}, ({row}, {column})");
    }
}

#[test]
fn the_first_candidates_are_right() {
    let all = distinct(candidates(2));
    assert!(all.len() > 5, "only {}", all.len());
    all.into_par_iter().for_each(check);
}

/// No spill, no stack, no remark: `wgmma` runs beside what it can, and `setmaxnreg` is obeyed.
#[test]
fn the_assembler_has_nothing_to_say_of_the_first_candidates() {
    let Some(ptxas) = ptxas::find() else { return };
    let complaint = |config: GemmConfig| {
        let ptx = Gemm::<bf16>::new(config).unwrap().ptx();
        let report = match ptxas.report(ptx.text(), &config.target.to_string()) {
            Ok(report) => report,
            Err(problem) => return Some(format!("{config}: {problem}")),
        };
        let none = ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"];
        let is_clean = none.iter().all(|none| report.contains(none)) && !report.contains("(C7");
        (!is_clean).then(|| format!("{config}: {report}"))
    };
    let complaints: Vec<String> =
        distinct(candidates(3)).into_par_iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Of the problems that were held out from the fit, the best of the model's first eight configurations is within 3 % of
/// the best of all for 85 %: of times that were measured.
#[test]
fn the_model_finds_the_fast_ones() {
    let sweep: Sweep =
        serde_json::from_str(include_str!("../benches/data/h200-gemm.json")).unwrap();
    assert!(sweep.configs.len() >= 100 && sweep.shapes.len() >= 20);
    let found = rankings(&GemmModel::H200, &sweep.groups().unwrap(), 8);
    let share = |held_out: bool| {
        let of: Vec<_> = found.iter().filter(|one| one.is_held_out == held_out).collect();
        of.iter().filter(|one| one.regret <= 1.03).count() as f64 / of.len() as f64
    };
    assert!(share(true) >= 0.85 && share(false) >= 0.85, "{found:?}");
}
