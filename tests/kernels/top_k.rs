//! The largest elements of rows, compared with a sort.

use proptest::prelude::*;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::reduce::{TopK, TopKArgs, TopKConfig};
use tilewright::kernels::rows::{RowConfig, RowError, RowProblem};
use tilewright::runtime::Device;
use tilewright::tensor::rows::RowTile;

use super::matrix::{Real, devices, random};
use crate::support::slow::sample;
use crate::support::{ptxas, text};

/// Compares values and columns with the first ones of the sorted row: larger elements first, of
/// equal ones the lower column; no NaN.
#[track_caller]
fn check<T: Real + Converted>(device: &Device, config: TopKConfig, problem: &RowProblem, x: &[T]) {
    let (count, rows) = (config.count as usize, problem.rows as usize);
    let top = TopK::<T>::new(config).unwrap().load(device).unwrap();
    let mut values = device.upload(&vec![-77.0f32; rows * count + 1]).unwrap();
    let mut columns = device.upload(&vec![-77; rows * count + 1]).unwrap();
    let x_on = device.upload(x).unwrap();
    let args = TopKArgs { x: &x_on, values: &mut values, columns: &mut columns };
    top.launch(problem, args).unwrap();
    let (values, columns) = (values.to_vec().unwrap(), columns.to_vec().unwrap());
    let what = format!("{config:?}, {problem:?} on {}", device.name());
    assert_eq!(
        (values[rows * count], columns[rows * count]),
        (-77.0, -77),
        "{what}: wrote outside"
    );
    for row in 0..rows {
        let pitch = problem.pitches()[0] as usize;
        let x: Vec<f64> =
            if problem.columns == 0 { &[] } else { &x[row * pitch..][..problem.columns as usize] }
                .iter()
                .map(|x| x.to())
                .collect();
        let mut sorted: Vec<(f64, i32)> =
            x.into_iter().zip(0..).filter(|(x, _)| !x.is_nan()).collect();
        // Zeros of both signs are equal.
        sorted.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
        sorted.resize(sorted.len().max(count), (f64::NEG_INFINITY, -1));
        for (rank, (value, column)) in sorted.into_iter().take(count).enumerate() {
            let at = row * count + rank;
            let found = (f64::from(values[at]), columns[at]);
            assert_eq!(found, (value, column), "{what}: number {rank} of row {row}");
        }
    }
}

/// Checks the configuration for few rows, and the one for many rows, in which fewer warps share a
/// row.
#[track_caller]
fn check_configs<T: Real + Converted>(device: &Device, count: u32, problem: &RowProblem, x: &[T]) {
    let config =
        |rows| TopKConfig::new(count, device.target(), T::SCALAR, &RowProblem { rows, ..*problem });
    check::<T>(device, config(problem.rows), problem, x);
    if config(problem.rows) != config(5000) {
        check::<T>(device, config(5000), problem, x);
    }
    if config(5000).short {
        check::<T>(device, TopKConfig { short: false, ..config(5000) }, problem, x);
    }
}

#[track_caller]
fn check_random<T: Real + Converted>(device: &Device, count: u32, problem: &RowProblem, seed: u64) {
    let x: Vec<T> = random(problem, problem.pitches()[0], 20.0, seed);
    check_configs::<T>(device, count, problem, &x);
}

/// Of one warp for a row, of four and of sixteen, with aligned rows and ragged ones.
#[test]
fn rows_and_counts() {
    for device in devices() {
        for (seed, columns) in (0..).zip([1, 5, 31, 64, 1000, 2049, 4099]) {
            for count in sample(2, [1, 8, 31, 32, 33, 64]) {
                check_random::<bf16>(&device, count, &RowProblem::new(3, columns), seed);
            }
            check_random::<f32>(&device, 40, &RowProblem::new(5, columns), seed);
        }
        check_random::<f16>(&device, 64, &RowProblem::new(1, 20_003), 1);
        check_random::<bf16>(&device, 8, &RowProblem::new(2, 0), 0);
        check_random::<bf16>(&device, 8, &RowProblem::new(0, 50), 0);
    }
}

/// Rows that are hard: each element of an ascending row replaces another one, all elements are
/// equal, few are different, all lie in one lane, or most are NaN.
#[test]
fn special_rows() {
    for device in devices() {
        for columns in sample(2, [70usize, 1025, 2500, 4099]) {
            let problem = RowProblem::new(1, columns as u32);
            let row = |f: &dyn Fn(usize) -> f32| -> Vec<f32> { (0..columns).map(f).collect() };
            let mut few = vec![f32::NAN; columns];
            (few[3], few[columns - 1], few[40]) = (f32::NEG_INFINITY, 2.0, f32::INFINITY);
            let rows = [
                row(&|i| i as f32),
                row(&|i| -(i as f32)),
                row(&|_| 1.5),
                row(&|_| f32::NEG_INFINITY),
                row(&|i| if i % 7 == 3 { f32::INFINITY } else { f32::NAN }),
                row(&|i| (i * 37 % 3) as f32),
                row(&|i| if i / 4 % 32 == 9 { i as f32 } else { -1.0 }),
                row(&|i| if i % 2 == 0 { 0.0 } else { -0.0 }).into_iter().map(f32::abs).collect(),
                few,
            ];
            for x in rows {
                for count in sample(2, [1, 5, 32, 33, 64]) {
                    check_configs::<f32>(&device, count, &problem, &x);
                    let x: Vec<bf16> = x.iter().map(|x| bf16::from_f32(*x)).collect();
                    check_configs::<bf16>(&device, count, &problem, &x);
                }
            }
        }
    }
}

/// Rows of any start that one warp or several share, in which elements are equal to the last one of
/// the result: over the steps and the warps, at both ends, in all columns, zeros of both signs, or
/// negative infinity.
#[test]
fn equal_elements() {
    const COLUMNS: usize = 2311;
    let kinds: [&dyn Fn(usize, usize) -> f32; 7] = [
        &|_, i| i as f32,
        &|_, i| (i * 37 % 3) as f32,
        &|_, i| if i % 2 == 0 { 0.0 } else { -0.0 },
        &|count, i| if i % 40 == 7 && i / 40 + 1 < count { 1.0 } else { f32::NEG_INFINITY },
        &|_, _| f32::NAN,
        &|count, i| if i % 31 == 5 && i / 31 + 1 < count { (i % 90) as f32 + 2.0 } else { 1.0 },
        &|_, i| if i < 5 || i + 5 > COLUMNS || i % 64 == 9 { 5.0 } else { -(i as f32) },
    ];
    let problem =
        RowProblem { input_pitch: Some(COLUMNS as u64 + 2), ..RowProblem::new(2, COLUMNS as u32) };
    for device in devices() {
        for (number, kind) in kinds.iter().enumerate() {
            for count in sample(2, [1, 31, 32, 33, 63, 64]) {
                let pitch = COLUMNS + 2;
                let x: Vec<f32> = (0..2 * pitch).map(|i| kind(count as usize, i % pitch)).collect();
                let configs = |elem| TopKConfig::candidates(count, device.target(), elem, &problem);
                for (i, config) in configs(Scalar::F32).into_iter().enumerate() {
                    if i % 5 == number % 5 {
                        check::<f32>(&device, config, &problem, &x);
                    }
                }
                let halves: Vec<f16> = x.iter().map(|x| f16::from_f32(*x)).collect();
                check::<f16>(&device, configs(Scalar::F16)[number % 5], &problem, &halves);
                let halves: Vec<bf16> = x.iter().map(|x| bf16::from_f32(*x)).collect();
                for (i, config) in configs(Scalar::Bf16).into_iter().enumerate() {
                    if i % 5 == (number + 2) % 5 {
                        check::<bf16>(&device, config, &problem, &halves);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(
        rows in 1u32..5,
        columns in 1u32..700,
        more in 0u64..20,
        count in 1u32..65,
        seed in 0u64..1000,
    ) {
        let input_pitch = Some(u64::from(columns) + more);
        let problem = RowProblem { rows, columns, input_pitch, output_pitch: None };
        for device in devices() {
            check_random::<bf16>(&device, count, &problem, seed);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    for (count, columns) in [(8, 4096), (64, 128_256), (64, 999)] {
        let problem = RowProblem::new(9, columns);
        let config = TopKConfig::new(count, Target::SM_90A, Scalar::Bf16, &problem);
        let kernel = TopK::<bf16>::new(config).unwrap();
        text::check_round_trip(kernel.ir());
        let Some(ptxas) = ptxas::find() else { continue };
        let report = ptxas.report(kernel.ptx().text(), "sm_90a").unwrap();
        assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = RowProblem::new(4, 64);
    let config = TopKConfig::new(8, device.target(), Scalar::F32, &problem);
    for count in [0, 65] {
        let error = TopK::<f32>::new(TopKConfig { count, ..config }).unwrap_err();
        assert!(error.to_string().ends_with("the count must be 1 to 64"), "{error}");
    }
    let tile = RowTile { team: 16, ..config.rows.tile };
    let rows = RowConfig { tile, ..config.rows };
    let error = TopK::<f32>::new(TopKConfig { rows, ..config }).unwrap_err();
    assert!(error.to_string().ends_with("whole warps of one block must share a row"), "{error}");
    let error = TopK::<f32>::new(TopKConfig { short: true, ..config }).unwrap_err();
    assert!(
        error.to_string().ends_with("the kernel for short rows needs 16-bit elements"),
        "{error}"
    );
    let tile = RowTile { vectors: 16, ..config.rows.tile };
    let rows = RowConfig { tile, ..config.rows };
    let error = TopK::<f32>::new(TopKConfig { rows, ..config }).unwrap_err();
    assert!(error.to_string().ends_with("a thread can hold at most 32 elements"), "{error}");
    let top = TopK::<f32>::new(config).unwrap().load(&device).unwrap();
    let (x, mut values) = (device.zeros::<f32>(256).unwrap(), device.zeros::<f32>(32).unwrap());
    let mut columns = device.zeros::<i32>(31).unwrap();
    let args = TopKArgs { x: &x, values: &mut values, columns: &mut columns };
    let error = top.launch(&problem, args).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 31, needed: 32, .. }), "{error}");
    let config = TopKConfig::new(8, device.target(), Scalar::F16, &problem);
    let top = TopK::<f16>::new(config).unwrap().load(&device).unwrap();
    let (x, long) = (device.zeros::<f16>(256).unwrap(), RowProblem::new(1, (1 << 16) + 1));
    let args = TopKArgs { x: &x, values: &mut values, columns: &mut columns };
    let error = top.launch(&long, args).unwrap_err();
    assert!(matches!(error, RowError::Columns { max: 0x1_0000, .. }), "{error}");
}
