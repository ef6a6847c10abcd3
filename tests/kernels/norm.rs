//! RMSNorm and LayerNorm, compared with their definition.

use proptest::prelude::*;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f16};
use tilewright::kernels::norm::{
    Norm, NormArgs, NormConfig, NormKind, QuantizedNorm, QuantizedNormArgs, QuantizedNormProblem,
};
use tilewright::kernels::rows::{RowConfig, RowError, RowProblem};
use tilewright::kernels::scaled_gemm::ScaleStrides;
use tilewright::runtime::Device;
use tilewright::tensor::rows::{RowAccess, RowTile};

use super::matrix::{Real, check, devices, problems, random, some_configs, untouched};
use crate::support::{ptxas, text};

const EPSILON: f32 = 1e-3;
const SCALE: f32 = 0.75;

/// `(norm(h) * weight + bias) * scale`.
fn reference(kind: NormKind, h: &[f64], [weight, bias]: [Option<&[f64]>; 2]) -> Vec<f64> {
    let n = h.len() as f64;
    let mean = if kind == NormKind::Layer { h.iter().sum::<f64>() / n } else { 0.0 };
    let variance = h.iter().map(|h| (h - mean).powi(2)).sum::<f64>() / n;
    let root = (variance + f64::from(EPSILON)).sqrt();
    let of = |vector: Option<&[f64]>, i: usize, none| vector.map_or(none, |vector| vector[i]);
    let one = |(i, h): (usize, &f64)| {
        ((h - mean) / root * of(weight, i, 1.0) + of(bias, i, 0.0)) * f64::from(SCALE)
    };
    h.iter().enumerate().map(one).collect()
}

#[track_caller]
fn run<T, D>(device: &Device, config: NormConfig, problem: &RowProblem, seed: u64)
where
    T: Real + VectorElement<2> + Converted,
    D: Real + VectorElement<2> + Converted,
{
    let [pitch, _] = problem.pitches();
    let x: Vec<T> = random(problem, pitch, 4.0, seed);
    let residual: Vec<T> = random(problem, pitch, 2.0, seed + 1);
    let line = RowProblem { rows: 1, ..*problem };
    let weight: Vec<T> = random(&line, pitch, 2.0, seed + 2);
    let bias: Vec<T> = random(&line, pitch, 2.0, seed + 3);
    let norm = Norm::<T, D>::new(config).unwrap().load(device).unwrap();
    let (on_x, on_weight, on_bias) = (
        device.upload(&x).unwrap(),
        device.upload(&weight).unwrap(),
        device.upload(&bias).unwrap(),
    );
    let mut on_residual = device.upload(&residual).unwrap();
    let mut y = device.upload(&untouched::<D>(problem)).unwrap();
    let mut args = NormArgs::new(&on_x, &mut y).epsilon(EPSILON).scale(SCALE);
    if config.residual {
        args = args.residual(&mut on_residual);
    }
    if config.weight {
        args = args.weight(&on_weight);
    }
    if config.bias {
        args = args.bias(&on_bias);
    }
    norm.launch(problem, args).unwrap();
    let what = format!("{config:?} of {} on {}", T::SCALAR, device.name());
    let numbers = |vector: &[T]| vector.iter().map(|x| x.to()).collect::<Vec<f64>>();
    let (weight, bias) = (numbers(&weight), numbers(&bias));
    let columns = problem.columns as usize;
    let h = |row: usize, x: &[f64]| -> Vec<f64> {
        let residual = &residual[row * pitch as usize..][..columns];
        // The norm is that of the stored sum.
        let add = |(x, residual): (&f64, &T)| match config.residual {
            true => T::of((x + residual.to()) as f32).to(),
            false => *x,
        };
        x.iter().zip(residual).map(add).collect()
    };
    check::<T, D>(&what, problem, &x, &y.to_vec().unwrap(), [4e-6, 4e-6], |row, x| {
        let weight = config.weight.then_some(&weight[..]);
        reference(config.kind, &h(row, x), [weight, config.bias.then_some(&bias[..])])
    });
    if config.residual {
        // The residual has the pitch of the input, and NaN between its rows.
        let found = on_residual.to_vec().unwrap();
        for (at, (found, before)) in found.iter().zip(&residual).enumerate() {
            let expected = x[at].to() + before.to();
            let slack = expected.abs() * (T::EPSILON + 1e-6);
            let close = (found.to() - expected).abs() <= slack || expected.is_nan();
            assert!(close, "{what}, {problem:?}: {at} is {found:?}, not {expected}");
        }
    }
}

#[track_caller]
fn run_all<T, D>(device: &Device, problem: &RowProblem, seed: u64)
where
    T: Real + VectorElement<2> + Converted,
    D: Real + VectorElement<2> + Converted,
{
    let has = |bit: u64| seed >> bit & 1 == 1;
    for rows in some_configs(device.target(), T::SCALAR, problem, seed) {
        for kind in [NormKind::Rms, NormKind::Layer] {
            let config = NormConfig { rows, kind, residual: has(0), weight: !has(1), bias: has(2) };
            run::<T, D>(device, config, problem, seed);
        }
    }
}

#[test]
fn rows_of_every_length_and_pitch() {
    for device in devices() {
        for (seed, problem) in (0..).zip(problems()) {
            run_all::<bf16, bf16>(&device, &problem, seed);
            run_all::<f32, f32>(&device, &problem, seed + 1);
            run_all::<f16, f32>(&device, &problem, seed + 2);
            run_all::<bf16, f8e4m3>(&device, &problem, seed + 3);
        }
    }
}

#[test]
fn the_longest_rows() {
    for device in devices() {
        for (columns, blocks) in [(50_001, 2), (262_144, 8)] {
            let problem = RowProblem::new(2, columns);
            let config =
                NormConfig::new(NormKind::Layer, device.target(), Scalar::Bf16, &problem).unwrap();
            assert_eq!(config.rows.tile.cluster, blocks);
            run::<bf16, f32>(&device, config.weight().residual(), &problem, 5);
        }
    }
}

/// Weights are held in registers, in shared memory, or not at all.
#[test]
fn rows_of_blocks_and_clusters() {
    for device in devices() {
        for (rows, columns, threads, cluster) in
            [(9, 1000, 64, 1), (1, 777, 128, 1), (11, 1503, 64, 4), (7, 2048, 128, 2)]
        {
            let problem = RowProblem::new(rows, columns);
            let access = problem.access(Scalar::Bf16);
            for (vectors, kind) in [(2, NormKind::Rms), (8, NormKind::Layer)] {
                let tile = RowTile { threads, team: threads, cluster, vectors, access };
                let rows = RowConfig { target: device.target(), tile };
                for residual in [false, true] {
                    let config = NormConfig { rows, kind, residual, weight: true, bias: residual };
                    run::<bf16, bf16>(&device, config, &problem, 4);
                }
            }
        }
    }
}

/// A row of equal elements deviates nowhere, however large they are; a large mean takes nothing
/// from the deviations but its rounding.
#[test]
fn large_means_are_subtracted_before_they_are_scaled() {
    for device in devices() {
        let problem = RowProblem::new(3, 1000);
        let layer =
            NormConfig::new(NormKind::Layer, device.target(), Scalar::F32, &problem).unwrap();
        let norm = Norm::<f32>::new(layer).unwrap().load(&device).unwrap();
        let normed = |x: &[f32]| {
            let (x, mut y) = (device.upload(x).unwrap(), device.zeros::<f32>(3000).unwrap());
            norm.launch(&problem, NormArgs::new(&x, &mut y).epsilon(1e-5)).unwrap();
            y.to_vec().unwrap()
        };
        for value in [1005.0, 4864.0, -3.0e6] {
            assert_eq!(normed(&[value; 3000]), [0.0; 3000], "{value}");
        }
        // Deviations of 1 and -1 from 10,000.
        let x: Vec<f32> =
            (0..3000).map(|i| 10_000.0 + if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        for (x, y) in x.iter().zip(normed(&x)) {
            assert!((y - (x - 10_000.0)).abs() < 1e-4, "{x} became {y}");
        }
    }
}

#[test]
fn empty_matrices_are_no_work() {
    for device in devices() {
        for problem in [RowProblem::new(0, 10), RowProblem::new(10, 0)] {
            run_all::<bf16, bf16>(&device, &problem, 7);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

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
            run_all::<bf16, bf16>(&device, &problem, seed);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    for columns in [1024, 4096, 4095, 16_384, 32_767, 65_535, 262_143, 262_144] {
        let problem = RowProblem::new(9, columns);
        for kind in [NormKind::Rms, NormKind::Layer] {
            let config = NormConfig::new(kind, Target::SM_90A, Scalar::Bf16, &problem).unwrap();
            for config in [config.weight(), config.weight().residual()] {
                let tile = config.rows.tile;
                // Eight vectors of a ragged row and of its residual leave few of 64 registers: 8
                // bytes spill.
                if config.residual && tile.access == RowAccess::Ragged && tile.vectors == 8 {
                    continue;
                }
                let norm = Norm::<bf16>::new(config).unwrap();
                text::check_round_trip(norm.ir());
                let vectors = norm.ptx().text().matches("st.global.v4.b32").count();
                let stores = if config.residual { 2 } else { 1 };
                assert_eq!(vectors, stores * config.rows.tile.vectors as usize);
                if let Some(ptxas) = ptxas::find() {
                    let report = ptxas.report(norm.ptx().text(), "sm_90a").unwrap();
                    let none = "0 bytes stack frame, 0 bytes spill stores";
                    assert!(report.contains(none), "{config:?}: {report}");
                }
            }
        }
    }
}

#[test]
fn operands_must_be_those_of_the_configuration() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = RowProblem::new(4, 64);
    let config = NormConfig::new(NormKind::Rms, device.target(), Scalar::Bf16, &problem).unwrap();
    let norm = Norm::<bf16>::new(config.weight()).unwrap().load(&device).unwrap();
    let (x, short) = (device.zeros::<bf16>(256).unwrap(), device.zeros::<bf16>(63).unwrap());
    let mut y = device.zeros::<bf16>(256).unwrap();
    let error = norm.launch(&problem, NormArgs::new(&x, &mut y)).unwrap_err();
    assert_eq!(error.to_string(), "the kernel needs a weight, which is missing");
    let args = NormArgs::new(&x, &mut y).weight(&x).bias(&x);
    let error = norm.launch(&problem, args).unwrap_err();
    assert_eq!(error.to_string(), "a bias is given, but the kernel does not use it");
    let error = norm.launch(&problem, NormArgs::new(&x, &mut y).weight(&short)).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 63, needed: 64, .. }), "{error}");
    norm.launch(&problem, NormArgs::new(&x, &mut y).weight(&x)).unwrap();
}

/// A norm whose results are quantised: each block of 128 columns has the scale with which its
/// largest result becomes 448, and elements times scale are the norm's results, rounded.
#[track_caller]
fn check_quantized<T: Real + VectorElement<2> + Converted>(
    device: &Device,
    config: NormConfig,
    problem: &QuantizedNormProblem,
    seed: u64,
) {
    let [pitch, y_pitch] = problem.rows.pitches();
    // The mean is far from zero, as it is beyond the end of a row.
    let shifted = |x: &T| T::of(x.to() as f32 + 16.0);
    let x: Vec<T> = random(&problem.rows, pitch, 4.0, seed).iter().map(shifted).collect();
    let residual: Vec<T> = random(&problem.rows, pitch, 2.0, seed + 1);
    let line = RowProblem { rows: 1, ..problem.rows };
    let weight: Vec<T> = random(&line, pitch, 2.0, seed + 2);
    let bias: Vec<T> = random(&line, pitch, 2.0, seed + 3);
    let norm = QuantizedNorm::<T, f8e4m3>::new(config).unwrap().load(device).unwrap();
    let [x_at, weight_at, bias_at] = [&x, &weight, &bias].map(|all| device.upload(all).unwrap());
    let mut on_residual = device.upload(&residual).unwrap();
    let mut y = device.upload(&untouched::<f8e4m3>(&problem.rows)).unwrap();
    let len = problem.scale_len() as usize;
    let mut scales = device.upload(&vec![-1.0; len + 4]).unwrap();
    let mut args = NormArgs::new(&x_at, &mut y).epsilon(EPSILON).scale(SCALE);
    if config.residual {
        args = args.residual(&mut on_residual);
    }
    if config.weight {
        args = args.weight(&weight_at);
    }
    if config.bias {
        args = args.bias(&bias_at);
    }
    norm.launch(problem, QuantizedNormArgs { norm: args, scales: &mut scales }).unwrap();
    let (y, scales) = (y.to_vec().unwrap(), scales.to_vec().unwrap());
    let what = format!("{config} of {problem:?} on {}", device.name());
    let columns = problem.rows.columns as usize;
    let numbers = |vector: &[T]| vector.iter().map(|x| x.to()).collect::<Vec<f64>>();
    let (weight, bias) = (numbers(&weight), numbers(&bias));
    let mut is_scale = vec![false; scales.len()];
    for row in 0..problem.rows.rows as usize {
        let (x, residual) = (&x[row * pitch as usize..], &residual[row * pitch as usize..]);
        let sum = |(x, residual): (&T, &T)| match config.residual {
            true => T::of((x.to() + residual.to()) as f32).to(),
            false => x.to(),
        };
        let h: Vec<f64> = x.iter().zip(residual).take(columns).map(sum).collect();
        let (weight, bias) =
            (config.weight.then_some(&weight[..]), config.bias.then_some(&bias[..]));
        let results = reference(config.kind, &h, [weight, bias]);
        for (block, results) in results.chunks(128).enumerate() {
            let place = row * problem.scales.row as usize + block * problem.scales.block as usize;
            let scale = f64::from(scales[place]);
            let expected = results.iter().fold(0.0, |max: f64, x| max.max(x.abs())) / 448.0;
            assert!((scale / expected - 1.0).abs() < 1e-4, "{what}: {scale}, not {expected}");
            is_scale[place] = true;
            for (column, result) in (128 * block..).zip(results) {
                let found = y[row * y_pitch as usize + column].to();
                // 2^-10 is half of the smallest e4m3.
                let slack = (result / scale).abs() * (f8e4m3::EPSILON + 1e-4) + (-10f64).exp2();
                let close = (result / scale - found).abs() <= slack;
                assert!(close, "{what}: ({row}, {column}) of {result} is {found}");
            }
        }
    }
    for (is_scale, scale) in is_scale.into_iter().zip(scales) {
        assert!(is_scale || scale == -1.0, "{what}: wrote between the scales");
    }
}

#[test]
fn quantized_norms() {
    for device in devices() {
        for (seed, [rows, columns]) in
            (0..).zip([[1, 128], [7, 16], [37, 400], [3, 4096], [2, 7168], [5, 20_480], [0, 128]])
        {
            for kind in [NormKind::Rms, NormKind::Layer] {
                let mut problem = QuantizedNormProblem::new(rows, columns);
                if seed % 2 == 1 {
                    problem.scales = ScaleStrides::column_major(rows + 3);
                    let pitch = Some(u64::from(columns) + 16);
                    problem.rows =
                        RowProblem { input_pitch: pitch, output_pitch: pitch, ..problem.rows };
                }
                let target = device.target();
                let of = |input| NormConfig::quantized(kind, target, input, &problem.rows).unwrap();
                let config = of(Scalar::Bf16);
                let all = NormConfig { residual: true, weight: true, bias: true, ..config };
                for config in [config, config.weight(), all] {
                    check_quantized::<bf16>(&device, config, &problem, seed);
                }
                check_quantized::<f32>(&device, of(Scalar::F32).weight(), &problem, seed);
            }
        }
    }
}

/// Tiles that do not hold 128 columns in adjacent threads, other outputs, and short buffers.
#[test]
fn refused_quantized_norms() {
    let problem = QuantizedNormProblem::new(2, 256);
    let (kind, device) = (NormKind::Rms, Device::sim_for(Target::SM_90A).unwrap());
    let config = NormConfig::quantized(kind, Target::SM_90A, Scalar::Bf16, &problem.rows).unwrap();
    assert!(QuantizedNorm::<bf16, f8e4m3>::new(config).is_ok());
    let error = QuantizedNorm::<bf16, bf16>::new(config).unwrap_err();
    assert!(matches!(error, RowError::Element { operand: "the output", .. }), "{error}");
    let narrow = RowTile { team: 8, ..config.rows.tile };
    let ragged = RowTile { access: RowAccess::Ragged, ..config.rows.tile };
    for tile in [narrow, ragged] {
        let config = NormConfig { rows: RowConfig { tile, ..config.rows }, ..config };
        let error = QuantizedNorm::<bf16, f8e4m3>::new(config).unwrap_err();
        assert!(matches!(error, RowError::Tile { .. }), "{error}");
    }
    let norm = QuantizedNorm::<bf16, f8e4m3>::new(config).unwrap().load(&device).unwrap();
    let x = device.zeros::<bf16>(512).unwrap();
    let (mut y, mut scales) = (device.zeros::<f8e4m3>(512).unwrap(), device.zeros(3).unwrap());
    let args = QuantizedNormArgs { norm: NormArgs::new(&x, &mut y), scales: &mut scales };
    let error = norm.launch(&problem, args).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { operand: "the scales", .. }), "{error}");
}

#[test]
fn quantized_norms_assemble_without_spills() {
    for columns in [2048, 7168, 16_384] {
        let problem = RowProblem::new(4096, columns);
        let config = NormConfig::quantized(NormKind::Rms, Target::SM_90, Scalar::Bf16, &problem);
        let norm = QuantizedNorm::<bf16, f8e4m3>::new(config.unwrap().weight()).unwrap();
        text::check_round_trip(norm.ir());
        let Some(ptxas) = ptxas::find() else { continue };
        let report = ptxas.report(norm.ptx().text(), "sm_90").unwrap();
        assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
    }
}
