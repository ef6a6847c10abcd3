//! Softmax and log-softmax, compared with their definition.

use proptest::prelude::*;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::rows::{RowConfig, RowError, RowProblem};
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::runtime::Device;
use tilewright::sim::Options;
use tilewright::tensor::rows::{RowAccess, RowTile};

use super::matrix::{Real, check, devices, problems, random, some_configs, untouched};
use crate::support::{ptxas, text};

/// `e^(x - max) / sum`, or its logarithm.
fn reference(log: bool, x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
    let one = |x: &f64| if log { x - max - sum.ln() } else { (x - max).exp() / sum };
    x.iter().map(one).collect()
}

#[track_caller]
fn run<T, D>(device: &Device, config: SoftmaxConfig, problem: &RowProblem, x: &[T])
where
    T: Real + Converted,
    D: Real + VectorElement<2> + Converted,
{
    let softmax = Softmax::<T, D>::new(config).unwrap().load(device).unwrap();
    let input = device.upload(x).unwrap();
    let mut y = device.upload(&untouched::<D>(problem)).unwrap();
    softmax.launch(problem, (&input, &mut y)).unwrap();
    let what = format!("{config:?} of {} on {}", T::SCALAR, device.name());
    // 2^-126 is the smallest power; a logarithm has a relative error only where it is not small.
    let tolerance = if config.log { [2e-6, 2e-5] } else { [2e-5, 1.2e-38] };
    check::<T, D>(&what, problem, x, &y.to_vec().unwrap(), tolerance, |_, x| {
        reference(config.log, x)
    });
}

#[track_caller]
fn run_random<T, D>(device: &Device, problem: &RowProblem, seed: u64)
where
    T: Real + Converted,
    D: Real + VectorElement<2> + Converted,
{
    let x: Vec<T> = random(problem, problem.pitches()[0], 20.0, seed);
    for rows in some_configs(device.target(), T::SCALAR, problem, seed) {
        let config = SoftmaxConfig { rows, log: seed % 2 == 1 };
        run::<T, D>(device, config, problem, &x);
    }
}

#[test]
fn rows_of_every_length_and_pitch() {
    for device in devices() {
        for (seed, problem) in (0..).zip(problems()) {
            run_random::<bf16, bf16>(&device, &problem, seed);
            run_random::<f32, f32>(&device, &problem, seed + 1);
            run_random::<f16, f32>(&device, &problem, seed);
        }
    }
}

/// A cluster shares a row through distributed shared memory.
#[test]
fn the_longest_rows() {
    for device in devices() {
        for (columns, blocks) in [(100_001, 4), (262_144, 8)] {
            let problem = RowProblem::new(2, columns);
            let config = SoftmaxConfig::new(device.target(), Scalar::Bf16, &problem).unwrap();
            assert_eq!(config.rows.tile.cluster, blocks);
            let x: Vec<bf16> = random(&problem, columns.into(), 20.0, 3);
            run::<bf16, f32>(&device, config, &problem, &x);
            run::<bf16, bf16>(&device, config.log(), &problem, &x);
        }
    }
}

/// Blocks and clusters share rows, and some threads have no element, without a data race.
#[test]
fn rows_of_blocks_and_clusters() {
    let options = Options::default().target(Target::SM_90A).race(true).schedules(4);
    for device in devices().into_iter().chain([Device::sim_with(options)]) {
        for (rows, columns, threads, cluster) in [
            (9, 1000, 64, 1),
            (1, 777, 128, 1),
            (11, 1503, 64, 4),
            (7, 2048, 128, 2),
            (3, 9, 32, 1),
        ] {
            let problem = RowProblem::new(rows, columns);
            let x: Vec<bf16> = random(&problem, columns.into(), 20.0, 3);
            let access = problem.access(Scalar::Bf16);
            for (vectors, log) in [(2, false), (8, true)] {
                let tile = RowTile { threads, team: threads, cluster, vectors, access };
                let rows = RowConfig { target: device.target(), tile };
                run::<bf16, bf16>(&device, SoftmaxConfig { rows, log }, &problem, &x);
            }
        }
    }
}

#[test]
fn empty_matrices_are_no_work() {
    for device in devices() {
        for problem in [RowProblem::new(0, 10), RowProblem::new(10, 0), RowProblem::new(0, 0)] {
            run_random::<bf16, bf16>(&device, &problem, 0);
        }
    }
}

/// Infinities, NaN, and the lowest number, which masks elements.
#[test]
fn special_numbers() {
    let problem = RowProblem::new(1, 40);
    let with = |numbers: &[f32]| {
        let mut x: Vec<f32> = (0..40).map(|i| i as f32 / 10.0).collect();
        x[..numbers.len()].copy_from_slice(numbers);
        x
    };
    for device in devices() {
        let config = SoftmaxConfig::new(device.target(), Scalar::F32, &problem).unwrap();
        for config in [config, config.log()] {
            for x in [
                with(&[f32::NEG_INFINITY, f32::MIN, -1e30]),
                with(&[1e30, -1e30, 3e38]),
                with(&[f32::NAN]),
                with(&[f32::INFINITY]),
                with(&[f32::NEG_INFINITY; 40]),
                with(&[f32::NAN; 40]),
                with(&[f32::MIN; 40]),
                with(&[f32::MAX; 40]),
            ] {
                run::<f32, f32>(&device, config, &problem, &x);
            }
            // Neighbours of a maximum where the scale of the exponents changes.
            let edge = 5.0 * (1u32 << 28) as f32;
            for max in [edge, edge.next_down(), (1u32 << 30) as f32, (1u32 << 24) as f32] {
                for max in [max, -max] {
                    let x: Vec<f32> =
                        (0..40).map(|i| if i % 2 == 0 { max } else { max.next_down() }).collect();
                    run::<f32, f32>(&device, config, &problem, &x);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(
        rows in 1u32..9,
        columns in 1u32..1500,
        more in [0u64..20, 0u64..20],
        seed in 0u64..1000,
    ) {
        let [input_pitch, output_pitch] = more.map(|more| Some(u64::from(columns) + more));
        let problem = RowProblem { rows, columns, input_pitch, output_pitch };
        for device in devices() {
            run_random::<bf16, bf16>(&device, &problem, seed);
            run_random::<f32, f16>(&device, &problem, seed + 1);
        }
    }
}

/// Vectors of 16 bytes, no spilled registers and no local memory.
#[test]
fn kernels_assemble_without_spills() {
    for target in [Target::SM_80, Target::SM_90A] {
        for (columns, pitch) in
            [(64, 64), (1024, 1024), (4096, 4096), (4095, 4095), (32_768, 32_768)]
        {
            let pitch = Some(pitch);
            let problem = RowProblem { rows: 9, columns, input_pitch: pitch, output_pitch: pitch };
            let config = SoftmaxConfig::new(target, Scalar::Bf16, &problem).unwrap();
            let softmax = Softmax::<bf16>::new(config).unwrap();
            text::check_round_trip(softmax.ir());
            let ptx = softmax.ptx();
            for vectors in ["ld.global.nc.v4.b32", "st.global.v4.b32"] {
                let found = ptx.text().matches(vectors).count();
                assert_eq!(found, config.rows.tile.vectors as usize, "{vectors}");
            }
            if let Some(ptxas) = ptxas::find() {
                let report = ptxas.report(ptx.text(), &target.to_string()).unwrap();
                assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
            }
        }
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = RowProblem::new(4, 64);
    let config = SoftmaxConfig::new(device.target(), Scalar::Bf16, &problem).unwrap();
    let softmax = Softmax::<bf16>::new(config).unwrap().load(&device).unwrap();
    let x = device.zeros::<bf16>(4 * 64).unwrap();
    let mut y = device.zeros::<bf16>(4 * 64).unwrap();
    let mut refused = |problem: RowProblem| softmax.launch(&problem, (&x, &mut y)).unwrap_err();
    let error = refused(RowProblem::new(5, 64));
    assert!(matches!(error, RowError::BufferLength { found: 256, needed: 320, .. }), "{error}");
    let error = refused(RowProblem::new(4, 63));
    assert!(matches!(error, RowError::Access { access: RowAccess::Aligned }), "{error}");
    let error = refused(RowProblem::new(4, 4096));
    assert!(matches!(error, RowError::Columns { columns: 4096, max: 64 }), "{error}");
    let error = refused(RowProblem { input_pitch: Some(56), ..problem });
    assert!(matches!(error, RowError::Pitch { pitch: 56, columns: 64, .. }), "{error}");
    let error = refused(RowProblem { input_pitch: Some(1 << 50), ..problem });
    assert!(matches!(error, RowError::TooLarge { .. }), "{error}");
    let error = refused(RowProblem::new(u32::MAX, 8));
    assert!(matches!(error, RowError::Rows { rows: u32::MAX }), "{error}");
    let tile = config.rows.tile;
    for tile in [
        RowTile { threads: 48, ..tile },
        RowTile { threads: 2048, ..tile },
        RowTile { team: 3, ..tile },
        RowTile { team: 64, ..tile },
        RowTile { cluster: 2, ..tile },
        RowTile { cluster: 0, ..tile },
        RowTile { cluster: 16, team: 128, ..tile },
        RowTile { vectors: 0, ..tile },
    ] {
        let rows = RowConfig { tile, ..config.rows };
        let error = Softmax::<bf16>::new(SoftmaxConfig { rows, log: false }).unwrap_err();
        assert!(matches!(error, RowError::Tile { .. }), "{error}");
    }
    let old = RowConfig { target: Target::SM_80, tile: RowTile { cluster: 2, team: 128, ..tile } };
    let error = Softmax::<bf16>::new(SoftmaxConfig { rows: old, log: false }).unwrap_err();
    assert_eq!(error.to_string(), "unsupported configuration: clusters need sm_90");
    let error = Softmax::<i32, f32>::new(config).unwrap_err();
    let rule = "the input has i32 elements, but the kernel needs f32, f16 or bf16";
    assert_eq!(error.to_string(), rule);
}
