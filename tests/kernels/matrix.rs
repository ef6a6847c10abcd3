//! Matrices whose rows are computed on a device and compared with their definition in `f64`.

use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::rows::{RowConfig, RowProblem};
use tilewright::runtime::Device;

pub(crate) use crate::support::gemm_case::Real;
use crate::support::rng::Rng;

/// The number before, between and after the rows of the output.
pub(crate) const UNTOUCHED: f32 = -77.0;

/// The devices of the tests: the simulator for `sm_90a`, and the GPU that the environment asks for.
pub(crate) fn devices() -> Vec<Device> {
    let mut devices = vec![Device::sim_for(Target::SM_90A).unwrap()];
    devices.extend(crate::support::device::gpu());
    devices
}

/// Rows of random numbers. Elements between the rows are NaN, so that a result shows a use of them.
pub(crate) fn random<T: Real>(problem: &RowProblem, pitch: u64, scale: f32, seed: u64) -> Vec<T> {
    let mut rng = Rng::new(seed);
    let (rows, columns, pitch) = (problem.rows as usize, problem.columns as usize, pitch as usize);
    let len = if problem.is_empty() { 0 } else { (rows - 1) * pitch + columns };
    let mut number = |at: usize| match at % pitch.max(1) < columns {
        true => T::of((rng.below(2001) as f32 / 1000.0 - 1.0) * scale),
        false => T::of(f32::NAN),
    };
    (0..len).map(&mut number).collect()
}

/// Returns an output that nothing has touched.
pub(crate) fn untouched<D: Real>(problem: &RowProblem) -> Vec<D> {
    let [_, pitch] = problem.pitches();
    let len = if problem.is_empty() { 0 } else { (problem.rows - 1) as usize * pitch as usize };
    // Eight elements follow the last row.
    vec![D::of(UNTOUCHED); len + problem.columns as usize + 8]
}

/// Compares each row of `found` with `reference` of the row of `x`: within `relative` of the
/// number, the rounding of `D` and `absolute`. NaN equals NaN. Elements between the rows stay.
#[track_caller]
pub(crate) fn check<T: Real, D: Real>(
    what: &str,
    problem: &RowProblem,
    x: &[T],
    found: &[D],
    [relative, absolute]: [f64; 2],
    mut reference: impl FnMut(usize, &[f64]) -> Vec<f64>,
) {
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as usize);
    let columns = problem.columns as usize;
    let mut expected = vec![None; found.len()];
    // The smallest number of a type with few exponents.
    let smallest = match D::SCALAR {
        Scalar::F16 => (-24f64).exp2(),
        Scalar::F8E4M3 => (-9f64).exp2(),
        _ => 0.0,
    };
    for row in 0..if columns == 0 { 0 } else { problem.rows as usize } {
        let x: Vec<f64> = x[row * x_pitch..][..columns].iter().map(|x| x.to()).collect();
        for (column, y) in reference(row, &x).into_iter().enumerate() {
            expected[row * y_pitch + column] = Some(y);
        }
    }
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let found = found.to();
        let Some(expected) = expected else {
            assert_eq!(found, D::of(UNTOUCHED).to(), "{what}, {problem:?}: wrote outside, at {at}");
            continue;
        };
        let slack = expected.abs() * (D::EPSILON + relative) + absolute + smallest / 2.0;
        let close = if expected.is_nan() {
            found.is_nan()
        } else {
            found == expected || (found - expected).abs() <= slack
        };
        let (row, column) = (at / y_pitch.max(1), at % y_pitch.max(1));
        assert!(close, "{what}, {problem:?}: ({row}, {column}) is {found}, not {expected}");
    }
}

/// The configuration that the library takes, and another one of the candidates.
pub(crate) fn some_configs(
    target: Target,
    input: Scalar,
    problem: &RowProblem,
    seed: u64,
) -> Vec<RowConfig> {
    let mut configs = RowConfig::candidates(target, input, problem);
    let last = configs.len() - 1;
    configs.swap(1.min(last), seed as usize % (last + 1));
    configs.truncate(2);
    configs
}

/// Sizes with short, ragged and long rows, and pitches that make all accesses necessary.
pub(crate) fn problems() -> Vec<RowProblem> {
    let mut problems = Vec::new();
    for columns in [1, 2, 7, 8, 9, 31, 64, 100, 255, 256, 1000, 1024] {
        problems.push(RowProblem::new(7, columns));
    }
    for columns in [1025, 1032, 2047, 4096, 5000] {
        problems.push(RowProblem::new(3, columns));
    }
    for (input, output) in [(104, 104), (101, 109), (104, 120), (101, 100), (107, 104)] {
        let pitches = (Some(input), Some(output));
        let (input_pitch, output_pitch) = pitches;
        for columns in [96, 100] {
            problems.push(RowProblem { rows: 5, columns, input_pitch, output_pitch });
        }
    }
    problems
}
