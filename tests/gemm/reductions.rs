//! Reductions of rows and columns in epilogues, by all schedules, against sums and maxima of `f64`.

use crate::fused::configs;
use crate::support::slow::sample;
use crate::support::{device, ptxas};

use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Number, Target, bf16, f16};
use tilewright::kernels::gemm::{
    BatchMode, Epilogue, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, GroupRows, Reduction,
    Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;

/// Elements of A and B from numbers, and numbers from elements of D.
type Conversions<A, D> = (fn(f32) -> A, fn(&D) -> f64);

fn is_of_columns(reduction: Reduction) -> bool {
    matches!(reduction, Reduction::ColumnSum | Reduction::ColumnMax)
}

/// The result of no terms, and that of two parts.
fn of(reduction: Reduction) -> (f64, fn(f64, f64) -> f64) {
    match reduction {
        Reduction::RowSum | Reduction::ColumnSum => (0.0, |x, y| x + y),
        Reduction::RowMax | Reduction::ColumnMax => (f64::NEG_INFINITY, f64::max),
    }
}

/// The product of `C` and `D` of these types, of numbers that are exact in all of them, with the
/// term `2 x - row - column` of the element `x`.
fn check<A, C, D>(
    device: &Device,
    config: GemmConfig,
    (reduction, [m, n, k]): (Reduction, [usize; 3]),
    (input, output): Conversions<A, D>,
) where
    A: Element + Clone,
    A::Sum: Converted + Into<f64> + Copy + Default + PartialEq + std::fmt::Debug,
    C: Number,
    D: Converted + Clone,
{
    assert_eq!(config.check(), Ok(()), "{config}");
    let batch = 2;
    let small = |i: usize, step: usize| (i * step % 5) as f32 - 2.0;
    let a: Vec<f32> = (0..batch * m * k).map(|i| small(i, 7)).collect();
    let b: Vec<f32> = (0..batch * n * k).map(|i| small(i, 11)).collect();
    let upload = |values: &[f32]| {
        let values: Vec<A> = values.iter().map(|x| input(*x)).collect();
        device.upload(&values).unwrap()
    };
    let (a_on, b_on) = (upload(&a), upload(&b));
    let gemm = Gemm::<A, A, C, D>::with_reduction::<()>(
        config,
        reduction,
        |_, [even, odd], [row, column, _], ()| {
            let x = if config.pairs { even + odd } else { even };
            (x, x + x - (row + column).cvt::<A::Sum>())
        },
    );
    let function = gemm.unwrap().load(device).unwrap();
    let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    let problem = GemmProblem { batch: batch as u32, ..problem };
    let sums = if config.pairs { 2 } else { 1 };
    let columns = n / sums;
    let extent = if is_of_columns(reduction) { columns } else { m };
    let shape = config.reduction_shape(&problem, reduction).map(|extent| extent as usize);
    assert_eq!(shape[1..], [batch, extent]);
    let len = shape.iter().product();
    let mut d = device.zeros::<D>(batch * m * columns).unwrap();
    let mut partials = device.zeros::<A::Sum>(len).unwrap();
    function.launch(&problem, GemmArgs::new(&a_on, &b_on, &mut d), ((), &mut partials)).unwrap();
    let found = partials.to_vec().unwrap();
    // Whatever was there before. The buffer has no more elements than are written.
    let mut again = device.zeros::<A::Sum>(len).unwrap();
    let poison: Vec<A::Sum> = found.iter().rev().copied().collect();
    again.write(&poison).unwrap();
    function.launch(&problem, GemmArgs::new(&a_on, &b_on, &mut d), ((), &mut again)).unwrap();
    assert_eq!(again.to_vec().unwrap(), found, "{config}");
    let (start, combine) = of(reduction);
    let mut expected = vec![start; batch * extent];
    let d = d.to_vec().unwrap();
    for (at, element) in d.iter().enumerate() {
        let (matrix, row, column) = (at / (m * columns), at / columns % m, at % columns);
        let sum = |column: usize| -> f32 {
            let a = &a[(matrix * m + row) * k..][..k];
            let b = &b[(matrix * n + column) * k..][..k];
            a.iter().zip(b).map(|(a, b)| a * b).sum()
        };
        let x = f64::from((0..sums).map(|i| sum(column * sums + i)).sum::<f32>());
        let close = (output(element) - x).abs() <= x.abs().max(1.0) * 0.006;
        assert!(close, "{config}: D[{row}, {column}] of {matrix}");
        let kept = matrix * extent + if is_of_columns(reduction) { column } else { row };
        expected[kept] = combine(expected[kept], 2.0 * x - (row + column) as f64);
    }
    let mut results = vec![start; batch * extent];
    for (at, partial) in found.into_iter().enumerate() {
        let at = at % (batch * extent);
        results[at] = combine(results[at], partial.into());
    }
    assert_eq!(results, expected, "{config} {reduction:?}");
}

#[test]
fn every_schedule_reduces_rows_and_columns() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let sm90 = |tile| GemmConfig::sm90(Scalar::Bf16, tile);
    let simt = GemmConfig::simt(Target::SM_80, Scalar::Bf16);
    let others = [
        GemmConfig { pairs: true, ..sm90([128, 128]) },
        // Instructions have more rows than a tile, whose steps blocks share.
        GemmConfig { splits: Splits::StreamK, stages: 4, ..sm90([32, 64]) },
        GemmConfig { pairs: true, ..GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]) },
        GemmConfig { pairs: true, tile: [32, 64, 16], ..simt },
        GemmConfig { store: StoreMethod::Rows, ..sm90([256, 40]) },
        GemmConfig { stages: 2, ..GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 64]) },
        GemmConfig { tile: [64, 32, 16], ..simt },
        GemmConfig { tile: [16, 256, 16], ..simt },
        GemmConfig { tile: [4, 256, 16], ..simt },
        GemmConfig { splits: Splits::StreamK, ..GemmConfig { tile: [32, 64, 16], ..simt } },
    ];
    let bf16: Conversions<bf16, bf16> = (bf16::from_f32, |x| x.to_f32().into());
    for (i, config) in configs().into_iter().chain(others).enumerate() {
        let of_config = Reduction::ALL.into_iter().cycle().skip(i % 4).step_by(3);
        for reduction in sample(4, of_config.take(4)) {
            let sizes = sample(2, [[133, 80, 200], [20, 272, 264]]);
            sizes.for_each(|sizes| {
                check::<_, bf16, _>(&device, config, (reduction, sizes), bf16);
            });
        }
    }
}

#[test]
fn other_types_are_reduced_as_sums() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let sizes = [70, 40, 64];
    let config = GemmConfig::sm80(Target::SM_80, Scalar::F64, [64, 32]);
    let f64: Conversions<f64, f64> = (f64::from, |x| *x);
    check::<_, f64, _>(&device, config, (Reduction::ColumnSum, sizes), f64);
    check::<_, f64, _>(&device, config, (Reduction::RowMax, sizes), f64);
    let config = GemmConfig { d: Scalar::I32, ..GemmConfig::sm90(Scalar::I8, [128, 64]) };
    let i8: Conversions<i8, i32> = (|x| x as i8, |x| (*x).into());
    check::<_, i32, _>(&device, config, (Reduction::RowSum, sizes), i8);
    let config = GemmConfig::simt(Target::SM_80, Scalar::F32);
    let f32: Conversions<f32, f32> = (|x| x, |x| (*x).into());
    check::<_, f32, _>(&device, config, (Reduction::RowSum, [133, 130, 20]), f32);
    check::<_, f32, _>(&device, config, (Reduction::ColumnMax, [133, 130, 20]), f32);
}

/// Sums of the rows of groups, and the largest element of all of them.
fn check_groups(device: &Device, config: GemmConfig) {
    let starts = [3i32, 70, 70, 150];
    let (m, n, k) = (160usize, 72, 64);
    let small = |i: usize, step: usize| f16::from_f32((i * step % 5) as f32 - 2.0);
    let a: Vec<f16> = (0..m * k).map(|i| small(i, 7)).collect();
    let b: Vec<f16> = (0..3 * n * k).map(|i| small(i, 11)).collect();
    let (a_on, b_on) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let bounds = device.upload(&starts).unwrap();
    let gemm =
        Gemm::<f16>::with_reduction::<()>(config, Reduction::RowSum, |_, [x, _], _, ()| (x, x));
    let problem = GemmProblem::grouped([m as u32, n as u32, k as u32], 3);
    let [parts, ones, rows] = config.reduction_shape(&problem, Reduction::RowSum);
    assert_eq!([ones, rows], [1, m as u32]);
    let parts = parts as usize;
    let mut d = device.zeros::<f16>(m * n).unwrap();
    let mut partials = device.upload(&vec![0.5f32; parts * m]).unwrap();
    let args = GemmArgs::new(&a_on, &b_on, &mut d).groups(GroupRows::Starts(&bounds));
    gemm.unwrap().load(device).unwrap().launch(&problem, args, ((), &mut partials)).unwrap();
    let partials = partials.to_vec().unwrap();
    let mut largest = 0.0f32;
    for row in 0..m {
        let found: f32 = (0..parts).map(|part| partials[part * m + row]).sum();
        let group = starts.windows(2).position(|of| (of[0]..of[1]).contains(&(row as i32)));
        let expected: f32 = match group {
            None => 0.5 * parts as f32,
            Some(group) => (0..n)
                .map(|column| {
                    let (a, b) = (&a[row * k..][..k], &b[(group * n + column) * k..][..k]);
                    let sum: f32 = a.iter().zip(b).map(|(a, b)| a.to_f32() * b.to_f32()).sum();
                    largest = largest.max(sum.abs());
                    sum
                })
                .sum(),
        };
        assert_eq!(found, expected, "{config}: row {row}");
    }
    let gemm = Gemm::<f16>::with_amax::<()>(config, |_, [x, _], _, ()| x);
    let mut amax = device.zeros::<f32>(1).unwrap();
    let args = GemmArgs::new(&a_on, &b_on, &mut d).groups(GroupRows::Starts(&bounds));
    gemm.unwrap().load(device).unwrap().launch(&problem, args, ((), &mut amax)).unwrap();
    assert_eq!(amax.to_vec().unwrap(), [largest], "{config}");
}

#[test]
fn rows_of_groups_are_reduced() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let config =
        GemmConfig { batch: BatchMode::Grouped, ..GemmConfig::sm90(Scalar::F16, [128, 64]) };
    let small = GemmConfig {
        store: StoreMethod::Rows,
        stages: 3,
        ..GemmConfig { tile: [32, 64, 64], ..config }
    };
    let small = GemmConfig { registers: small.usual_registers(), ..small };
    let pingpong = GemmConfig { schedule: Schedule::Pingpong, ..config };
    let pingpong = GemmConfig { registers: pingpong.usual_registers(), ..pingpong };
    for config in [config, small, pingpong] {
        check_groups(&device, config);
    }
}

#[test]
fn reductions_have_no_data_race() {
    let device = Device::sim_with(Options::default().race(true).schedules(4));
    let sm90 = |tile| GemmConfig::sm90(Scalar::Bf16, tile);
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    let configs = [
        sm90([128, 64]),
        GemmConfig { splits: Splits::StreamK, ..sm90([128, 64]) },
        GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) },
        GemmConfig { pairs: true, ..sm80 },
    ];
    let bf16: Conversions<bf16, bf16> = (bf16::from_f32, |x| x.to_f32().into());
    for config in configs {
        for reduction in sample(2, [Reduction::RowSum, Reduction::ColumnMax]) {
            check::<_, bf16, _>(&device, config, (reduction, [70, 80, 200]), bf16);
        }
    }
    let config = GemmConfig::sm90(Scalar::F16, [128, 64]);
    check_groups(&device, GemmConfig { batch: BatchMode::Grouped, ..config });
}

/// Maxima ignore NaN: terms that are all NaN have the maximum of no terms.
#[test]
fn maxima_ignore_nan() {
    let device = Device::sim().unwrap();
    let (m, n, k) = (64u32, 64u32, 16);
    let ones = |len: u32| device.upload(&vec![bf16::from_f32(1.0); len as usize]).unwrap();
    let (a, b, mut d) = (ones(m * k), ones(n * k), ones(m * n));
    let simt = GemmConfig::simt(Target::SM_80, Scalar::Bf16);
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    for config in [GemmConfig::sm90(Scalar::Bf16, [64, 64]), sm80, simt] {
        for reduction in [Reduction::RowMax, Reduction::ColumnMax] {
            // Row and column 3 are NaN, and the diagonal.
            let gemm = Gemm::<bf16>::with_reduction::<()>(
                config,
                reduction,
                |_, [x, _], [row, column, _], ()| {
                    let is_nan = row.eq(3) | column.eq(3) | row.eq(column);
                    (x, is_nan.select(f32::NAN, (row - column).cvt::<f32>()))
                },
            );
            let problem = GemmProblem::new(m, n, k);
            let len = config.reduction_shape(&problem, reduction).iter().product::<u32>();
            let mut found = device.zeros::<f32>(len as usize).unwrap();
            let function = gemm.unwrap().load(&device).unwrap();
            function.launch(&problem, GemmArgs::new(&a, &b, &mut d), ((), &mut found)).unwrap();
            let found = found.to_vec().unwrap();
            assert!(found.iter().all(|x| !x.is_nan()), "{config}: {found:?}");
            for at in 0..64i32 {
                let others = (0..64).filter(|other| ![3, at].contains(other) && at != 3);
                let terms = others.map(|other| match reduction {
                    Reduction::RowMax => at - other,
                    _ => other - at,
                });
                let expected = terms.max().map_or(f32::NEG_INFINITY, |x| x as f32);
                let parts = found.iter().skip(at as usize).step_by(64);
                let max = parts.copied().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(max, expected, "{config} {reduction:?}: {at}");
            }
        }
    }
}

#[test]
fn mistakes_are_named() {
    let build = |config, reduction| {
        let of = Gemm::<bf16>::with_reduction::<()>(config, reduction, |_, [x, _], _, ()| (x, x));
        of.map(|_| ())
    };
    let config = GemmConfig::sm90(Scalar::Bf16, [64, 64]);
    let grouped = GemmConfig { batch: BatchMode::Grouped, ..config };
    let error = build(grouped, Reduction::ColumnSum);
    assert!(matches!(error, Err(GemmError::Field { field: "batch", .. })), "{error:?}");
    let error = build(GemmConfig { batch: BatchMode::Ragged, ..config }, Reduction::RowSum);
    assert!(matches!(error, Err(GemmError::Field { field: "batch", .. })), "{error:?}");
    let relu = Epilogue { alpha: true, ..Epilogue::default() };
    let error = build(GemmConfig { epilogue: relu, ..config }, Reduction::RowSum);
    assert_eq!(error, Err(GemmError::TwoEpilogues));
    // Buffers that are too short.
    let device = Device::sim().unwrap();
    let operand = "the results";
    let problem = GemmProblem { batch: 2, ..GemmProblem::new(70, 80, 16) };
    let zeros = |len: usize| device.zeros::<bf16>(len).unwrap();
    let (a, b, mut d) = (zeros(2 * 70 * 16), zeros(2 * 80 * 16), zeros(2 * 70 * 80));
    let pairs = GemmConfig { pairs: true, ..GemmConfig::sm90(Scalar::Bf16, [64, 128]) };
    for (config, reduction, needed) in [
        (config, Reduction::RowMax, 2 * 2 * 70),
        (config, Reduction::ColumnSum, 2 * 4 * 2 * 80),
        (pairs, Reduction::ColumnSum, 2 * 4 * 2 * 40),
    ] {
        let gemm =
            Gemm::<bf16>::with_reduction::<f32>(config, reduction, |_, [x, _], _, by| (x, x * by));
        let function = gemm.unwrap().load(&device).unwrap();
        for len in [0, needed - 1, needed] {
            let mut results = device.zeros::<f32>(len as usize).unwrap();
            let args = GemmArgs::new(&a, &b, &mut d);
            let launched = function.launch(&problem, args, (2.0, &mut results));
            let short = GemmError::BufferLength { operand, found: len, needed };
            assert_eq!(launched, if len < needed { Err(short) } else { Ok(()) });
        }
    }
    let amax = Gemm::<bf16>::with_amax::<()>(config, |_, [x, _], _, ()| x);
    let mut none = device.zeros::<f32>(0).unwrap();
    let args = GemmArgs::new(&a, &b, &mut d);
    let error = amax.unwrap().load(&device).unwrap().launch(&problem, args, ((), &mut none));
    assert_eq!(error, Err(GemmError::BufferLength { operand, found: 0, needed: 1 }));
}

/// The registers of large tiles suffice, also where the terms are other functions than the
/// elements.
#[test]
fn kernels_assemble_without_spills() {
    let Some(ptxas) = ptxas::find() else { return };
    let sm90 = |tile| GemmConfig::sm90(Scalar::Bf16, tile);
    let large = [
        sm90([128, 256]),
        sm90([256, 128]),
        GemmConfig { store: StoreMethod::Overlapped, stages: 3, ..sm90([128, 256]) },
        GemmConfig { schedule: Schedule::Pingpong, ..sm90([64, 192]) },
        GemmConfig { splits: Splits::StreamK, ..sm90([128, 256]) },
    ];
    for config in sample(3, configs()).chain(large) {
        let config = GemmConfig { registers: config.usual_registers(), ..config };
        for reduction in Reduction::ALL {
            let gemm =
                Gemm::<bf16>::with_reduction::<f32>(config, reduction, |_, [x, _], _, by| {
                    let y = x * by;
                    (y, y * y)
                });
            let (ptx, target) = (gemm.unwrap().ptx(), config.target.to_string());
            let report = ptxas.report(ptx.text(), &target).unwrap();
            let fits = !report.contains("(C7") && report.contains("0 bytes spill stores");
            assert!(fits, "{config} {reduction:?}: {report}");
        }
    }
}
