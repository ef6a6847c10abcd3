//! Reductions along any axis, and permutations of modes, compared with their definitions.

use proptest::prelude::*;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Target, bf16, f8e4m3, f16};
use tilewright::kernels::permute::{Permute, PermuteConfig, PermuteMode, PermuteProblem};
use tilewright::kernels::reduce::{AxisProblem, AxisReduce, AxisReduceConfig, RowReduceOp};
use tilewright::kernels::rows::RowError;
use tilewright::runtime::Device;
use tilewright::tensor::rows::RowAccess;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::rng::Rng;
use crate::support::slow::sample;
use crate::support::{ptxas, text};

fn numbers<T: Real>(len: u64, seed: u64) -> Vec<T> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| T::of(rng.below(2001) as f32 / 50.0 - 20.0)).collect()
}

#[track_caller]
fn check<T: Real + Converted>(
    device: &Device,
    config: AxisReduceConfig,
    problem: &AxisProblem,
    x: &[T],
) {
    let op = config.op;
    let (input, results) = (device.upload(x).unwrap(), problem.results() as usize);
    let found: Vec<f64> = if op == RowReduceOp::ArgMax {
        let mut y = device.upload(&vec![-77; results + 1]).unwrap();
        let function = AxisReduce::<T, i32>::new(config).unwrap().load(device).unwrap();
        function.launch(problem, (&input, &mut y)).unwrap();
        y.to_vec().unwrap().into_iter().map(f64::from).collect()
    } else {
        let mut y = device.upload(&vec![-77.0f32; results + 1]).unwrap();
        let function = AxisReduce::<T>::new(config).unwrap().load(device).unwrap();
        function.launch(problem, (&input, &mut y)).unwrap();
        y.to_vec().unwrap().into_iter().map(f64::from).collect()
    };
    let what = format!("{config} of {problem:?} on {}", device.name());
    assert_eq!(found[results], -77.0, "{what}: wrote outside");
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    for (at, found) in found.into_iter().take(results).enumerate() {
        let (outer, column) = (at / inner, at % inner);
        let line: Vec<f64> = (0..len).map(|j| x[(outer * len + j) * inner + column].to()).collect();
        let sum: f64 = line.iter().sum();
        let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let expected = match op {
            RowReduceOp::Sum => sum,
            RowReduceOp::Mean => sum / len as f64,
            RowReduceOp::Max => max,
            RowReduceOp::Min => line.iter().copied().fold(f64::INFINITY, f64::min),
            RowReduceOp::Norm => line.iter().map(|x| x * x).sum::<f64>().sqrt(),
            RowReduceOp::ArgMax => match line.iter().position(|x| *x == max) {
                Some(place) => place as f64,
                None if len == 0 => -1.0,
                None => 0.0,
            },
        };
        let scale: f64 = line.iter().map(|x| x.abs()).sum();
        let close = found == expected
            || (found - expected).abs() <= 2e-6 * scale
            || (found.is_nan() && expected.is_nan());
        assert!(close, "{what}: {at} is {found}, not {expected}");
    }
}

#[track_caller]
fn check_all<T: Real + Converted>(device: &Device, problem: &AxisProblem, seed: u64) {
    let x: Vec<T> = numbers(problem.results() * u64::from(problem.len), seed);
    for op in RowReduceOp::ALL {
        let config = AxisReduceConfig::new(op, device.target(), T::SCALAR, problem);
        check::<T>(device, config, problem, &x);
    }
    for op in [RowReduceOp::Sum, RowReduceOp::ArgMax] {
        let config = AxisReduceConfig::new(op, device.target(), T::SCALAR, problem);
        let cluster = [2, 8, 4][seed as usize % 3];
        check::<T>(device, AxisReduceConfig { cluster, ..config }, problem, &x);
    }
}

/// The blocks of a cluster join their results, and clusters those of others. Further launches find
/// the same bits.
#[test]
fn clusters_join_their_results() {
    for device in devices() {
        for (problem, team, threads) in [
            (AxisProblem { outer: 1, len: 3300, inner: 8 }, 2, 64),
            (AxisProblem { outer: 2, len: 1500, inner: 13 }, 2, 64),
            (AxisProblem { outer: 1, len: 3, inner: 40 }, 8, 64),
            (AxisProblem { outer: 1, len: 0, inner: 40 }, 8, 64),
        ] {
            let x: Vec<f32> = numbers(problem.results() * u64::from(problem.len), 5);
            for (op, cluster) in [
                (RowReduceOp::Sum, 2),
                (RowReduceOp::Sum, 4),
                (RowReduceOp::Norm, 8),
                (RowReduceOp::ArgMax, 2),
                (RowReduceOp::ArgMax, 8),
                (RowReduceOp::Max, 1),
            ] {
                let config = AxisReduceConfig::new(op, device.target(), Scalar::F32, &problem);
                let config = AxisReduceConfig { team, threads, cluster, ..config };
                check::<f32>(&device, config, &problem, &x);
            }
            let config =
                AxisReduceConfig::new(RowReduceOp::Sum, device.target(), Scalar::F32, &problem);
            let config = AxisReduceConfig { team, threads, cluster: 2, ..config };
            let sum = AxisReduce::<f32>::new(config).unwrap().load(&device).unwrap();
            let input = device.upload(&x).unwrap();
            let run = || {
                let mut y = device.zeros::<f32>(problem.results() as usize).unwrap();
                sum.launch(&problem, (&input, &mut y)).unwrap();
                y.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert_eq!(run(), run(), "{config} of {problem}");
        }
    }
}

/// The vectors of ragged rows start before their chunks, and may end after the tensor.
#[test]
fn every_configuration() {
    for device in devices() {
        for (problem, team) in [
            (AxisProblem { outer: 1, len: 700, inner: 1 }, 2),
            (AxisProblem { outer: 3, len: 5, inner: 3 }, 2),
            (AxisProblem { outer: 2, len: 600, inner: 8 }, 1),
            (AxisProblem { outer: 1, len: 97, inner: 515 }, 32),
            (AxisProblem { outer: 2, len: 70, inner: 272 }, 4),
        ] {
            let x: Vec<bf16> = numbers(problem.results() * u64::from(problem.len), 5);
            for op in [RowReduceOp::Sum, RowReduceOp::ArgMax] {
                let target = device.target();
                let all = AxisReduceConfig::candidates(op, target, Scalar::Bf16, &problem);
                let few = AxisReduceConfig { team, threads: 64.max(8 * team), ..all[0] };
                for config in sample(9, all).chain([few]) {
                    check::<bf16>(&device, config, &problem, &x);
                }
            }
        }
    }
}

#[test]
fn every_axis() {
    for device in devices() {
        for (seed, shape) in
            (0..).zip([[2, 3, 40], [5, 7, 1], [1, 33, 300], [3, 9, 17], [2, 0, 8], [0, 4, 8]])
        {
            // One axis of each shape, or all.
            for axis in sample(3, (0..3).map(|axis| (axis + seed as usize) % 3)) {
                let problem = AxisProblem::of(&shape, axis).unwrap();
                check_all::<bf16>(&device, &problem, seed);
                check_all::<f32>(&device, &problem, seed);
            }
        }
        // Few results of a long axis: several blocks share it.
        for inner in [8, 5] {
            check_all::<f16>(&device, &AxisProblem { outer: 2, len: 3300, inner }, 3);
        }
        check_all::<bf16>(&device, &AxisProblem { outer: 1, len: 300, inner: 264 }, 4);
    }
}

/// The lowest row of the largest elements counts, whichever block finds it. Another launch finds
/// the same.
#[test]
fn ties_of_parts() {
    for device in devices() {
        let (len, inner) = (1100, 8);
        let problem = AxisProblem { outer: 1, len, inner };
        let mut x: Vec<f32> = vec![f32::NAN; (len * inner) as usize];
        // Column `c` has infinity from row `150 * c` on, and column 7 nothing but NaN and negative
        // infinity.
        for (at, x) in x.iter_mut().enumerate() {
            let (row, column) = (at / 8, at % 8);
            match column {
                7 if row == 900 => *x = f32::NEG_INFINITY,
                0..7 if row >= 150 * column && row % 2 == 0 => *x = f32::INFINITY,
                0..7 if row % 3 == 0 => *x = 7.0,
                _ => {}
            }
        }
        let config =
            AxisReduceConfig::new(RowReduceOp::ArgMax, device.target(), f32::SCALAR, &problem);
        // Eight parts of about 138 rows.
        let config = AxisReduceConfig { threads: 64, ..config };
        let argmax = AxisReduce::<f32, i32>::new(config).unwrap().load(&device).unwrap();
        let (x, mut y) = (device.upload(&x).unwrap(), device.zeros::<i32>(8).unwrap());
        for _ in 0..2 {
            argmax.launch(&problem, (&x, &mut y)).unwrap();
            assert_eq!(y.to_vec().unwrap(), [0, 150, 300, 450, 600, 750, 900, 0]);
        }
    }
}

/// Aligned rows are also read as ragged ones, and NaN does not count.
#[test]
fn accesses_and_special_numbers() {
    for device in devices() {
        let problem = AxisProblem { outer: 2, len: 20, inner: 16 };
        let mut x: Vec<f32> = numbers(640, 1);
        let config = |op| AxisReduceConfig::new(op, device.target(), Scalar::F32, &problem);
        let ragged = AxisReduceConfig { access: RowAccess::Ragged, ..config(RowReduceOp::Sum) };
        check::<f32>(&device, ragged, &problem, &x);
        x.iter_mut().step_by(3).for_each(|x| *x = f32::NAN);
        x[320..].fill(f32::NEG_INFINITY);
        x[16 * 30..][..16].fill(f32::NAN);
        check::<f32>(&device, config(RowReduceOp::ArgMax), &problem, &x);
        check::<f32>(&device, config(RowReduceOp::Max), &problem, &x);
    }
}

#[track_caller]
fn check_permute<T: Real + Converted>(device: &Device, shape: &[u32], order: &[usize]) {
    let problem = PermuteProblem::new(shape, order).unwrap();
    let len: usize = shape.iter().map(|size| *size as usize).product();
    let x: Vec<T> = (0..len).map(|i| T::of((i % 251) as f32)).collect();
    let config = PermuteConfig::new(device.target(), T::SCALAR, &problem);
    let mut y = device.upload(&vec![T::of(UNTOUCHED); len + 1]).unwrap();
    let permute = Permute::<T>::new(config).unwrap().load(device).unwrap();
    permute.launch(&problem, (&device.upload(&x).unwrap(), &mut y)).unwrap();
    let y = y.to_vec().unwrap();
    assert_eq!(y[len].to(), T::of(UNTOUCHED).to(), "{shape:?} {order:?}: wrote outside");
    let sizes: Vec<usize> = order.iter().map(|mode| shape[*mode] as usize).collect();
    for (at, found) in y.iter().take(len).enumerate() {
        let (mut rest, mut place) = (at, vec![0; shape.len()]);
        for mode in (0..order.len()).rev() {
            place[order[mode]] = rest % sizes[mode];
            rest /= sizes[mode];
        }
        let from = place.iter().zip(shape).fold(0, |at, (i, size)| at * *size as usize + i);
        let what = format!("{shape:?} {order:?} at {at} on {}", device.name());
        assert_eq!(found.to(), x[from].to(), "{what}");
    }
}

#[test]
fn permutations_keep_rows() {
    for device in devices() {
        check_permute::<bf16>(&device, &[2, 9, 4, 64], &[0, 2, 1, 3]);
        check_permute::<bf16>(&device, &[2, 9, 4, 7], &[2, 1, 0, 3]);
        check_permute::<f32>(&device, &[3, 2, 5, 2, 6], &[3, 2, 1, 0, 4]);
        check_permute::<f32>(&device, &[3, 1, 5, 1], &[2, 1, 0, 3]);
        check_permute::<f32>(&device, &[3, 4], &[0, 1]);
        check_permute::<f16>(&device, &[2, 3, 5000], &[1, 0, 2]);
        check_permute::<f8e4m3>(&device, &[2, 3, 150], &[1, 0, 2]);
        check_permute::<f32>(&device, &[2, 0, 8], &[1, 0, 2]);
    }
}

/// The last mode moves: a batch of transposes.
#[test]
fn permutations_move_rows() {
    for device in devices() {
        check_permute::<bf16>(&device, &[3, 40, 24], &[1, 2, 0]);
        check_permute::<bf16>(&device, &[2, 3, 7, 9], &[0, 2, 3, 1]);
        check_permute::<f32>(&device, &[5, 3, 4, 6], &[3, 0, 2, 1]);
        check_permute::<f32>(&device, &[70, 1, 130], &[2, 1, 0]);
        check_permute::<f16>(&device, &[2, 3, 2, 5, 64], &[4, 2, 0, 3, 1]);
        check_permute::<f8e4m3>(&device, &[3, 20, 33], &[2, 1, 0]);
        check_permute::<f32>(&device, &[1, 1], &[1, 0]);
        check_permute::<f32>(&device, &[0, 8], &[1, 0]);
        check_permute::<f32>(&device, &[2, 1, 3], &[0, 2, 1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn random_axes(outer in 1u32..4, len in 0u32..70, inner in 1u32..300, seed in 0u64..99) {
        for device in devices() {
            check_all::<bf16>(&device, &AxisProblem { outer, len, inner }, seed);
        }
    }

    #[test]
    fn random_permutations(
        mut shape in prop::collection::vec(1u32..6, 4),
        order in Just(vec![0usize, 1, 2, 3, 4]).prop_shuffle(),
        last in 1u32..200,
    ) {
        shape.push(last);
        for device in devices() {
            check_permute::<bf16>(&device, &shape, &order);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    let mut all = Vec::new();
    for inner in sample(3, [4096, 1024, 4095, 1023]) {
        let problem = AxisProblem { outer: 1, len: 4096, inner };
        let configs = |op| AxisReduceConfig::candidates(op, Target::SM_90A, Scalar::Bf16, &problem);
        for config in sample(9, configs(RowReduceOp::Sum)) {
            let reduce = AxisReduce::<bf16>::new(config).unwrap();
            text::check_round_trip(reduce.ir());
            all.push(reduce.ptx());
        }
        let arg = sample(9, configs(RowReduceOp::ArgMax));
        all.extend(arg.map(|config| AxisReduce::<bf16, i32>::new(config).unwrap().ptx()));
    }
    let problem = PermuteProblem::new(&[2, 100, 8, 64], &[0, 2, 1, 3]).unwrap();
    let config = PermuteConfig::new(Target::SM_90A, Scalar::Bf16, &problem);
    let permute = Permute::<bf16>::new(config).unwrap();
    text::check_round_trip(permute.ir());
    let Some(ptxas) = ptxas::find() else { return };
    all.push(permute.ptx());
    for ptx in all {
        let report = ptxas.report(ptx.text(), "sm_90a").unwrap();
        assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = AxisProblem { outer: 1, len: 4, inner: 8 };
    let config = AxisReduceConfig::new(RowReduceOp::Max, device.target(), f32::SCALAR, &problem);
    let error = AxisReduce::<f32, i32>::new(config).unwrap_err();
    assert_eq!(error.to_string(), "the output has i32 elements, but the kernel needs f32");
    for wrong in [
        AxisReduceConfig { access: RowAccess::Elements, ..config },
        AxisReduceConfig { threads: 96, ..config },
        AxisReduceConfig { threads: 64, team: 16, ..config },
        AxisReduceConfig { team: 3, ..config },
        AxisReduceConfig { rows: 9, ..config },
        AxisReduceConfig { cluster: 3, ..config },
        AxisReduceConfig { cluster: 16, ..config },
        AxisReduceConfig { cluster: 2, target: Target::SM_80, ..config },
    ] {
        assert!(matches!(AxisReduce::<f32>::new(wrong), Err(RowError::Tile { .. })), "{wrong}");
    }
    let reduce = AxisReduce::<f32>::new(config).unwrap().load(&device).unwrap();
    let (x, mut y) = (device.zeros::<f32>(32).unwrap(), device.zeros::<f32>(8).unwrap());
    let error = reduce.launch(&AxisProblem { len: 5, ..problem }, (&x, &mut y)).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 32, needed: 40, .. }), "{error}");
    let error = reduce.launch(&AxisProblem { inner: 7, ..problem }, (&x, &mut y)).unwrap_err();
    assert!(matches!(error, RowError::Access { .. }), "{error}");

    let error = PermuteProblem::new(&[2, 3, 4], &[0, 0, 2]).unwrap_err();
    assert!(
        error.to_string().ends_with("the order must contain each mode exactly once"),
        "{error}"
    );
    let moved = PermuteProblem::new(&[2, 3, 4], &[0, 2, 1]).unwrap();
    let kept = PermuteProblem::new(&[2, 3, 4], &[1, 0, 2]).unwrap();
    for (built, given, rule) in
        [(kept, moved, "keeps rows contiguous"), (moved, kept, "transposes rows")]
    {
        let config = PermuteConfig::new(device.target(), f32::SCALAR, &built);
        let permute = Permute::<f32>::new(config).unwrap().load(&device).unwrap();
        let mut y = device.zeros::<f32>(32).unwrap();
        let error = permute.launch(&given, (&x, &mut y)).unwrap_err();
        assert!(error.to_string().contains(rule), "{error}");
    }
    let error = PermuteProblem::new(&[2; 6], &[4, 3, 2, 1, 0, 5]).unwrap_err();
    assert!(error.to_string().ends_with("rows can have at most 4 modes"), "{error}");
    assert!(PermuteProblem::new(&[], &[]).is_err());
    let problem = PermuteProblem::new(&[2, 3, 4], &[1, 0, 2]).unwrap();
    let config = PermuteConfig::new(device.target(), f32::SCALAR, &problem);
    let permute = Permute::<f32>::new(config).unwrap().load(&device).unwrap();
    let error = permute.launch(&problem, (&x, &mut y)).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 8, needed: 24, .. }), "{error}");
    let mode = PermuteMode { count: 2, input_stride: 3, output_stride: 4 };
    let modes = [mode, PermuteMode::ONE, PermuteMode::ONE, PermuteMode::ONE];
    let error = permute
        .launch(&PermuteProblem { columns: 4, modes, column_stride: 1 }, (&x, &mut y))
        .unwrap_err();
    assert!(matches!(error, RowError::Access { .. }), "{error}");
}
