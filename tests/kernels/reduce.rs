//! Reductions of rows, compared with their definition.

use proptest::prelude::*;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
use tilewright::kernels::rows::{RowConfig, RowError, RowProblem};
use tilewright::runtime::Device;
use tilewright::tensor::rows::{RowAccess, RowTile};

use super::matrix::{Real, devices, problems, random};
use crate::support::{ptxas, text};

/// The number of a row, in `f64`.
fn reference(op: RowReduceOp, x: &[f64]) -> f64 {
    let sum: f64 = x.iter().sum();
    match op {
        RowReduceOp::Sum => sum,
        RowReduceOp::Mean => sum / x.len() as f64,
        RowReduceOp::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        RowReduceOp::Min => x.iter().copied().fold(f64::INFINITY, f64::min),
        RowReduceOp::Norm => x.iter().map(|x| x * x).sum::<f64>().sqrt(),
        RowReduceOp::ArgMax => {
            let mut best = if x.is_empty() { (f64::NAN, -1.0) } else { (f64::NEG_INFINITY, 0.0) };
            for (column, x) in x.iter().enumerate() {
                if *x > best.0 {
                    best = (*x, column as f64);
                }
            }
            best.1
        }
    }
}

/// Returns the numbers of all rows, and one element behind them.
#[track_caller]
fn run<T: Real + Converted>(
    device: &Device,
    config: RowReduceConfig,
    problem: &RowProblem,
    x: &[T],
) -> Vec<f64> {
    let (input, rows) = (device.upload(x).unwrap(), problem.rows as usize);
    if config.op == RowReduceOp::ArgMax {
        let function = RowReduce::<T, i32>::new(config).unwrap().load(device).unwrap();
        let mut y = device.upload(&vec![-77; rows + 1]).unwrap();
        function.launch(problem, (&input, &mut y)).unwrap();
        y.to_vec().unwrap().into_iter().map(f64::from).collect()
    } else {
        let function = RowReduce::<T>::new(config).unwrap().load(device).unwrap();
        let mut y = device.upload(&vec![-77.0f32; rows + 1]).unwrap();
        function.launch(problem, (&input, &mut y)).unwrap();
        y.to_vec().unwrap().into_iter().map(f64::from).collect()
    }
}

#[track_caller]
fn check<T: Real + Converted>(
    device: &Device,
    config: RowReduceConfig,
    problem: &RowProblem,
    x: &[T],
) {
    let found = run(device, config, problem, x);
    let (columns, pitch) = (problem.columns as usize, problem.pitches()[0] as usize);
    assert_eq!(found[problem.rows as usize], -77.0, "{config:?}, {problem:?}: wrote outside");
    for (row, found) in found.iter().take(problem.rows as usize).enumerate() {
        let x: Vec<f64> = if columns == 0 { &[] } else { &x[row * pitch..][..columns] }
            .iter()
            .map(|x| x.to())
            .collect();
        let expected = reference(config.op, &x);
        // Sums have an error relative to the sum of absolute values.
        let scale: f64 = match config.op {
            RowReduceOp::Sum => x.iter().map(|x| x.abs()).sum(),
            RowReduceOp::Mean => x.iter().map(|x| x.abs()).sum::<f64>() / columns as f64,
            RowReduceOp::Norm => expected,
            RowReduceOp::Max | RowReduceOp::Min | RowReduceOp::ArgMax => 0.0,
        };
        let close = *found == expected
            || (found - expected).abs() <= 2e-6 * scale
            || (found.is_nan() && expected.is_nan());
        let name = device.name();
        assert!(close, "{config:?} on {name}, {problem:?}: {row} is {found}, not {expected}");
    }
}

#[track_caller]
fn check_all<T: Real + Converted>(device: &Device, problem: &RowProblem, seed: u64) {
    let x: Vec<T> = random(problem, problem.pitches()[0], 20.0, seed);
    for op in RowReduceOp::ALL {
        let config = RowReduceConfig::new(op, device.target(), T::SCALAR, problem);
        check::<T>(device, config, problem, &x);
    }
}

#[test]
fn rows_of_every_length_and_pitch() {
    for device in devices() {
        for (seed, problem) in (0..).zip(problems()) {
            check_all::<bf16>(&device, &problem, seed);
            check_all::<f32>(&device, &problem, seed);
        }
        check_all::<f16>(&device, &RowProblem::new(2, 100_003), 1);
    }
}

/// The threads pass over a row several times.
#[test]
fn rows_longer_than_the_tile() {
    for device in devices() {
        for columns in [64, 100, 999, 1000] {
            let problem = RowProblem::new(5, columns);
            let x: Vec<bf16> = random(&problem, columns.into(), 3.0, columns.into());
            for (team, vectors) in [(1, 1), (2, 1), (8, 2), (32, 1), (64, 2)] {
                let access = problem.access(Scalar::Bf16);
                let tile = RowTile { threads: 64, team, cluster: 1, vectors, access };
                for op in RowReduceOp::ALL {
                    let rows = RowConfig { target: device.target(), tile };
                    check::<bf16>(&device, RowReduceConfig { rows, op }, &problem, &x);
                }
            }
        }
    }
}

/// The blocks of a cluster share a row, and pass over a long one several times.
#[test]
fn rows_of_clusters() {
    for device in devices() {
        for columns in [0, 9, 1000, 2999, 4096] {
            let problem = RowProblem::new(3, columns);
            let x: Vec<bf16> = random(&problem, columns.into(), 3.0, columns.into());
            for (cluster, vectors) in [(2, 1), (4, 2), (8, 1)] {
                let access = problem.access(Scalar::Bf16);
                let tile = RowTile { threads: 64, team: 64, cluster, vectors, access };
                for op in [RowReduceOp::Sum, RowReduceOp::Max, RowReduceOp::ArgMax] {
                    let rows = RowConfig { target: device.target(), tile };
                    check::<bf16>(&device, RowReduceConfig { rows, op }, &problem, &x);
                }
            }
        }
        let problem = RowProblem::new(2, 40_000);
        let x: Vec<bf16> = random(&problem, 40_000, 3.0, 1);
        for op in [RowReduceOp::Norm, RowReduceOp::ArgMax] {
            let all = RowReduceConfig::candidates(op, device.target(), Scalar::Bf16, &problem);
            for config in all.into_iter().filter(|config| config.rows.tile.cluster > 1) {
                check::<bf16>(&device, config, &problem, &x);
            }
        }
    }
}

/// The last elements of a ragged row are read before its middle, and count after it.
#[test]
fn ties_of_steps_and_ends() {
    for device in devices() {
        let problem = RowProblem::new(3, 999);
        let access = problem.access(Scalar::Bf16);
        let tile = RowTile { threads: 64, team: 32, cluster: 1, vectors: 1, access };
        let rows = RowConfig { target: device.target(), tile };
        let config = RowReduceConfig { rows, op: RowReduceOp::ArgMax };
        for first in [0, 3, 260, 700, 996] {
            let is_largest =
                |at: usize| [first, 800, 998].contains(&(at % 999)) && at % 999 >= first;
            let x: Vec<bf16> = (0..3 * 999)
                .map(|at| bf16::from_f32(if is_largest(at) { 2.0 } else { 1.0 }))
                .collect();
            check::<bf16>(&device, config, &problem, &x);
        }
    }
}

#[test]
fn empty_rows_have_a_result() {
    for device in devices() {
        check_all::<bf16>(&device, &RowProblem::new(5, 0), 0);
        check_all::<bf16>(&device, &RowProblem::new(0, 5), 0);
    }
}

/// Of equal elements the first one counts, NaN does not count, and a row without numbers has the
/// column 0.
#[test]
fn columns_of_special_numbers() {
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    for device in devices() {
        for columns in [8u32, 37, 1029] {
            let problem = RowProblem::new(1, columns);
            let config =
                RowReduceConfig::new(RowReduceOp::ArgMax, device.target(), Scalar::F32, &problem);
            let all = |number: f32| vec![number; columns as usize];
            let mut last = all(low);
            last[columns as usize - 1] = f32::MIN;
            let mut second = all(3.0);
            second[0] = nan;
            for (x, expected) in [
                (all(nan), 0.0),
                (all(low), 0.0),
                (all(1.5), 0.0),
                (last, columns as f64 - 1.0),
                (second, 1.0),
            ] {
                assert_eq!(run::<f32>(&device, config, &problem, &x)[0], expected, "{columns}");
            }
        }
    }
}

/// The largest and the smallest element ignore NaN, and a row without numbers has the result of an
/// empty row.
#[test]
fn extrema_ignore_nan() {
    for device in devices() {
        for (op, empty) in
            [(RowReduceOp::Max, f64::NEG_INFINITY), (RowReduceOp::Min, f64::INFINITY)]
        {
            for columns in [8u32, 37, 1029] {
                let problem = RowProblem::new(1, columns);
                let config = RowReduceConfig::new(op, device.target(), Scalar::F32, &problem);
                let mut x = vec![f32::NAN; columns as usize];
                assert_eq!(run::<f32>(&device, config, &problem, &x)[0], empty, "{config}");
                for at in [0, columns as usize / 2, columns as usize - 1] {
                    x.fill(f32::NAN);
                    x[at] = -1.5;
                    assert_eq!(run::<f32>(&device, config, &problem, &x)[0], -1.5, "{config}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(rows in 1u32..9, columns in 1u32..3000, more in 0u64..20, seed in 0u64..1000) {
        let input_pitch = Some(u64::from(columns) + more);
        let problem = RowProblem { rows, columns, input_pitch, output_pitch: None };
        for device in devices() {
            check_all::<bf16>(&device, &problem, seed);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    for columns in [64, 4096, 4095, 128_256] {
        let problem = RowProblem::new(9, columns);
        for op in [RowReduceOp::Sum, RowReduceOp::ArgMax] {
            let config = RowReduceConfig::new(op, Target::SM_90A, Scalar::Bf16, &problem);
            let ptx = if op == RowReduceOp::ArgMax {
                let kernel = RowReduce::<bf16, i32>::new(config).unwrap();
                text::check_round_trip(kernel.ir());
                kernel.ptx()
            } else {
                RowReduce::<bf16>::new(config).unwrap().ptx()
            };
            let loads = ptx.text().matches("ld.global.nc.v4.b32").count();
            // Threads with the largest element load it again.
            let passes = if op == RowReduceOp::ArgMax { 2 } else { 1 };
            assert_eq!(loads, passes * config.rows.tile.vectors as usize);
            if let Some(ptxas) = ptxas::find() {
                let report = ptxas.report(ptx.text(), "sm_90a").unwrap();
                assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
            }
        }
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = RowProblem::new(4, 64);
    let config = RowReduceConfig::new(RowReduceOp::Max, device.target(), Scalar::F32, &problem);
    let error = RowReduce::<f32, i32>::new(config).unwrap_err();
    assert_eq!(error.to_string(), "the output has i32 elements, but the kernel needs f32");
    let function = RowReduce::<f32>::new(config).unwrap().load(&device).unwrap();
    let (x, mut y) = (device.zeros::<f32>(256).unwrap(), device.zeros::<f32>(3).unwrap());
    let error = function.launch(&problem, (&x, &mut y)).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 3, needed: 4, .. }), "{error}");
    let error = function.launch(&RowProblem::new(2, 62), (&x, &mut y)).unwrap_err();
    assert!(matches!(error, RowError::Access { access: RowAccess::Aligned }), "{error}");
    let error = function.launch(&RowProblem::new(2, 1 << 31), (&x, &mut y)).unwrap_err();
    assert!(matches!(error, RowError::Columns { max: 0x4000_0000, .. }), "{error}");
}
