//! Quantisation with scales of rows and blocks, compared with its definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f8e5m2, f16};
use tilewright::kernels::quantize::{
    Quantize, QuantizeArgs, QuantizeConfig, QuantizeInput, QuantizeProblem, ScaleBlock,
};
use tilewright::kernels::rows::RowError;
use tilewright::kernels::scaled_gemm::ScaleStrides;
use tilewright::runtime::Device;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::rng::Rng;
use crate::support::{ptxas, slow::slow};

const BLOCKS: [ScaleBlock; 3] = [ScaleBlock::Row, ScaleBlock::Row128, ScaleBlock::Square128];

/// The rows and columns that share a scale.
fn extents(block: ScaleBlock, columns: usize) -> [usize; 2] {
    match block {
        ScaleBlock::Row => [1, columns.max(1)],
        ScaleBlock::Row128 => [1, 128],
        ScaleBlock::Square128 => [128, 128],
    }
}

/// What is quantised, by its definition.
fn values<T: Real>(input: QuantizeInput, x: &[T], columns: usize) -> Vec<f64> {
    match input {
        QuantizeInput::Elements => x.iter().map(|x| x.to()).collect(),
        QuantizeInput::SiluMul => x
            .chunks(2 * columns.max(1))
            .flat_map(|row| {
                let (gate, up) = row.split_at(columns);
                let pairs = gate.iter().zip(up).map(|(gate, up)| (gate.to(), up.to()));
                pairs.map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up)
            })
            .collect(),
    }
}

#[track_caller]
fn check<T, D>(device: &Device, block: ScaleBlock, problem: &QuantizeProblem, x: &[T])
where
    T: Real + Converted,
    D: Real + Converted + VectorElement<2>,
{
    check_input::<T, D>(device, block, QuantizeInput::Elements, problem, x);
}

#[track_caller]
fn check_input<T, D>(
    device: &Device,
    block: ScaleBlock,
    input: QuantizeInput,
    problem: &QuantizeProblem,
    x: &[T],
) where
    T: Real + Converted,
    D: Real + Converted + VectorElement<2>,
{
    let (rows, columns) = (problem.rows as usize, problem.columns as usize);
    let config = QuantizeConfig::new(block, device.target(), T::SCALAR, problem).unwrap();
    let config = QuantizeConfig { input, ..config };
    // The approximation of the exponential function.
    let precision = if input == QuantizeInput::SiluMul { 1e-5 } else { 1e-6 };
    let quantize = Quantize::<T, D>::new(config).unwrap().load(device).unwrap();
    let x_at = device.upload(x).unwrap();
    let mut y = device.upload(&vec![D::of(1.0); rows * columns + 16]).unwrap();
    let len = problem.scale_len() as usize;
    let mut scales = device.upload(&vec![UNTOUCHED; len + 4]).unwrap();
    let args = QuantizeArgs { x: &x_at, y: &mut y, scales: &mut scales };
    quantize.launch(problem, args).unwrap();
    let (y, scales) = (y.to_vec().unwrap(), scales.to_vec().unwrap());
    let what = format!("{config} of {problem:?} on {}", device.name());
    let x = values(input, x, columns);
    let largest = if D::SCALAR == Scalar::F8E4M3 { 448.0 } else { 57344.0 };
    let [high, wide] = extents(block, columns);
    let mut is_scale = vec![false; scales.len()];
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let (first_row, first) = (row / high * high, column / wide * wide);
        let place = row / high * problem.scales.row as usize
            + column / wide * problem.scales.block as usize;
        let scale = f64::from(scales[place]);
        if (row, column) == (first_row, first) {
            // The definition of a scale.
            let rows = first_row..rows.min(first_row + high);
            let of_row = |row: usize| &x[row * columns..][first..columns.min(first + wide)];
            let all = rows.flat_map(of_row).map(|x| x.abs());
            let expected = all.fold(0.0, f64::max) / largest;
            let expected = expected.max(f64::from(f32::MIN_POSITIVE));
            assert!((scale / expected - 1.0).abs() < precision, "{what}: {scale}, not {expected}");
            is_scale[place] = true;
        }
        let (x, found) = (x[row * columns + column], y[row * columns + column].to());
        if x.is_nan() {
            assert!(found.is_nan(), "{what}: ({row}, {column})");
            continue;
        }
        // Rounded to nearest, up to the error of the division. 2^-10 is half of the smallest e4m3.
        let slack = (x / scale).abs() * (D::EPSILON + precision) + (-10f64).exp2();
        assert!((x / scale - found).abs() <= slack, "{what}: ({row}, {column}) of {x} is {found}");
    }
    assert!(y[rows * columns..].iter().all(|y| y.to() == 1.0), "{what}: wrote behind y");
    for (is_scale, scale) in is_scale.into_iter().zip(scales) {
        assert!(is_scale || scale == UNTOUCHED, "{what}: wrote between the scales");
    }
}

fn random<T: Real>(len: usize, seed: u64) -> Vec<T> {
    let rng = &mut Rng::new(seed);
    (0..len).map(|_| T::of((rng.below(2001) as f32 / 100.0 - 10.0).powi(3))).collect()
}

#[test]
fn sizes_and_types() {
    for device in devices() {
        for block in BLOCKS {
            for [rows, columns] in [[1, 128], [37, 400], [130, 640], [3, 16], [300, 136]] {
                let problem = QuantizeProblem::new(block, rows, columns);
                let len = (rows * columns) as usize;
                check::<bf16, f8e4m3>(&device, block, &problem, &random(len, 1));
                check::<f16, f8e4m3>(&device, block, &problem, &random(len, 2));
                check::<f32, f8e5m2>(&device, block, &problem, &random(len, 3));
            }
        }
    }
}

/// SwiGLU of the two halves of each row, with gates for which the function is 0, and NaN.
#[test]
fn silu_mul() {
    for device in devices() {
        for block in BLOCKS {
            for [rows, columns] in [[1, 128], [37, 400], [130, 136], [3, 16], [0, 64]] {
                let problem = QuantizeProblem::new(block, rows, columns);
                let len = 2 * (rows * columns) as usize;
                let input = QuantizeInput::SiluMul;
                let mut x: Vec<bf16> = random(len, 1);
                if len > 40 {
                    x[3] = bf16::from_f32(-200.0);
                    x[4] = bf16::from_f32(f32::NAN);
                }
                check_input::<bf16, f8e4m3>(&device, block, input, &problem, &x);
                check_input::<f32, f8e5m2>(&device, block, input, &problem, &random(len, 2));
            }
        }
    }
}

/// Scales next to each other along rows, with padding.
#[test]
fn column_major_scales() {
    for device in devices() {
        for block in BLOCKS {
            let mut problem = QuantizeProblem::new(block, 150, 392);
            problem.scales = ScaleStrides::column_major(152);
            check::<bf16, f8e4m3>(&device, block, &problem, &random(150 * 392, 4));
        }
    }
}

/// Zeros get a scale that divides them; the largest number of a block becomes the type's largest;
/// NaN stays NaN and changes no scale.
#[test]
fn special_numbers() {
    for device in devices() {
        for block in BLOCKS {
            let mut x = vec![bf16::from_f32(0.0); 4 * 256];
            x[5] = bf16::from_f32(f32::NAN);
            x[7] = bf16::from_f32(-3.0);
            x[300] = bf16::from_f32(1e-38);
            x[700] = bf16::MAX;
            let problem = QuantizeProblem::new(block, 4, 256);
            check::<bf16, f8e4m3>(&device, block, &problem, &x);
        }
    }
}

#[test]
fn empty_and_refused() {
    for device in devices() {
        for block in BLOCKS {
            for [rows, columns] in [[0, 128], [3, 0]] {
                let problem = QuantizeProblem::new(block, rows, columns);
                check::<bf16, f8e4m3>(&device, block, &problem, &[]);
            }
        }
        let (block, small) = (ScaleBlock::Row128, [bf16::from_f32(1.0); 256]);
        let problem = QuantizeProblem::new(block, 2, 128);
        let config = QuantizeConfig::new(block, device.target(), Scalar::Bf16, &problem).unwrap();
        let quantize = Quantize::<bf16, f8e4m3>::new(config).unwrap().load(&device).unwrap();
        let x = device.upload(&small).unwrap();
        let (mut y, mut scales) = (device.zeros(256).unwrap(), device.zeros(2).unwrap());
        let mut launch = |problem: &QuantizeProblem| {
            let args = QuantizeArgs { x: &x, y: &mut y, scales: &mut scales };
            quantize.launch(problem, args).unwrap_err()
        };
        let ragged = launch(&QuantizeProblem::new(block, 2, 124));
        assert!(matches!(ragged, RowError::Access { .. }), "{ragged}");
        let long = launch(&QuantizeProblem::new(block, 3, 128));
        assert!(matches!(long, RowError::BufferLength { operand: "the input", .. }), "{long}");
        let other = launch(&QuantizeProblem::new(ScaleBlock::Square128, 2, 128));
        assert!(matches!(other, RowError::Layout { .. }), "{other}");
        let wrong = Quantize::<bf16, f16>::new(config).unwrap_err();
        assert!(matches!(wrong, RowError::Element { operand: "the output", .. }), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 100 } else { 10 }, ..ProptestConfig::default() })]

    #[test]
    fn random_problems(rows in 1u32..200, vectors in 1u32..60, choice in 0usize..3, seed in 0u64..1000) {
        let (block, columns) = (BLOCKS[choice], 8 * vectors);
        let problem = QuantizeProblem::new(block, rows, columns);
        for device in devices() {
            check::<bf16, f8e4m3>(&device, block, &problem, &random((rows * columns) as usize, seed));
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    for block in BLOCKS {
        let problem = QuantizeProblem::new(block, 4096, 4096);
        let config = QuantizeConfig::new(block, Target::SM_90, Scalar::Bf16, &problem).unwrap();
        for config in [config, config.silu_mul()] {
            let quantize = Quantize::<bf16, f8e4m3>::new(config).unwrap();
            let Some(ptxas) = ptxas::find() else { continue };
            let report = ptxas.report(quantize.ptx().text(), "sm_90").unwrap();
            assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
        }
    }
}
