//! Transposes: every element moves to its place, and nothing else is written.

use proptest::prelude::*;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Target, bf16};
use tilewright::kernels::rows::RowError;
use tilewright::kernels::transpose::{
    Transpose, TransposeBatch, TransposeConfig, TransposeProblem,
};
use tilewright::runtime::Device;
use tilewright::tensor::RowAccess;

use super::matrix::devices;
use crate::support::slow::slow;
use crate::support::{ptxas, text};

/// The number of an element, the same for few elements of a small type.
fn number<T: Element>(at: usize) -> T {
    T::from_bits((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17)
}

#[track_caller]
fn check_with<T: Element>(device: &Device, config: TransposeConfig, problem: &TransposeProblem) {
    let (rows, columns) = (problem.rows as usize, problem.columns as usize);
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as usize);
    // Without elements after the last row.
    let len = if rows * columns == 0 { 0 } else { (rows - 1) * x_pitch + columns };
    let x: Vec<T> = (0..len).map(number).collect();
    let before: Vec<T> = (0..columns * y_pitch + 3).map(|at| number(at + 7)).collect();
    let transpose = Transpose::<T>::new(config).unwrap().load(device).unwrap();
    let mut y = device.upload(&before).unwrap();
    transpose.launch(problem, &device.upload(&x).unwrap(), &mut y).unwrap();
    for (at, found) in y.to_vec().unwrap().into_iter().enumerate() {
        let (column, row) = (at / y_pitch.max(1), at % y_pitch.max(1));
        let is_inside = row < rows && column < columns;
        let expected = if is_inside { x[row * x_pitch + column] } else { before[at] };
        let name = device.name();
        // Bits, because some of them are NaN.
        assert_eq!(
            found.to_const(),
            expected.to_const(),
            "{config:?}, {problem:?} on {name}: {at}"
        );
    }
}

#[track_caller]
fn check<T: Element>(device: &Device, problem: &TransposeProblem) {
    let config = TransposeConfig::new(device.target(), T::SCALAR, problem);
    check_with::<T>(device, config, problem);
    // The ragged kernel takes aligned matrices too; other tiles and orders.
    let all = TransposeConfig::candidates(device.target(), T::SCALAR, problem);
    let other = all[(problem.rows + problem.columns) as usize % all.len()];
    check_with::<T>(device, TransposeConfig { access: RowAccess::Ragged, ..other }, problem);
    if config.access == RowAccess::Aligned {
        check_with::<T>(device, other, problem);
    }
}

#[test]
fn sizes_of_elements_and_matrices() {
    for device in devices() {
        for (rows, columns) in
            [(1, 1), (1, 300), (300, 1), (64, 128), (128, 256), (130, 258), (100, 136), (63, 129)]
        {
            let problem = TransposeProblem::new(rows, columns);
            check::<u8>(&device, &problem);
            check::<bf16>(&device, &problem);
            check::<f32>(&device, &problem);
            check::<u64>(&device, &problem);
        }
        for (rows, columns) in [(0, 5), (5, 0), (0, 0)] {
            check::<f32>(&device, &TransposeProblem::new(rows, columns));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 24 } else { 8 }, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(rows in 1u32..200, columns in 1u32..300, more in [0u64..20, 0u64..20]) {
        let input_pitch = Some(u64::from(columns) + more[0]);
        let output_pitch = Some(u64::from(rows) + more[1]);
        let problem = TransposeProblem { input_pitch, output_pitch, ..TransposeProblem::new(rows, columns) };
        for device in devices() {
            check::<bf16>(&device, &problem);
            check::<f32>(&device, &problem);
        }
    }
}

#[test]
fn rows_of_whole_vectors_are_aligned() {
    let access = |problem: TransposeProblem, elem| problem.access(elem);
    let of = TransposeProblem::new;
    assert_eq!(access(of(8192, 8192), Scalar::Bf16), RowAccess::Aligned);
    assert_eq!(access(of(8190, 8196), Scalar::Bf16), RowAccess::Ragged);
    assert_eq!(access(of(8192, 8196), Scalar::F32), RowAccess::Aligned);
    assert_eq!(access(of(16, 16), Scalar::U8), RowAccess::Aligned);
    let padded = TransposeProblem { input_pitch: Some(65), ..of(64, 64) };
    assert_eq!(access(padded, Scalar::F32), RowAccess::Ragged);
    assert_eq!(access(of(2, 4).batched(3), Scalar::U64), RowAccess::Aligned);
    assert_eq!(access(of(4, 4).batched(3), Scalar::U8), RowAccess::Ragged);
}

/// Every matrix of a batch with three modes.
#[test]
fn batches() {
    for device in devices() {
        for (rows, columns, pad) in [(40, 72, 0), (9, 133, 0), (64, 24, 1)] {
            let (counts, mut strides) = ([2, 3, 2], [[0; 3]; 2]);
            let pitches = [columns + pad, rows + pad];
            // The first mode of the output is the last one of the input.
            let matrix = [rows * pitches[0], columns * pitches[1]];
            (strides[0], strides[1]) = (
                [matrix[0], 2 * matrix[0], 6 * matrix[0]],
                [6 * matrix[1], 2 * matrix[1], matrix[1]],
            );
            let mode = |i: usize| TransposeBatch {
                count: counts[i],
                input_stride: strides[0][i],
                output_stride: strides[1][i],
            };
            let problem = TransposeProblem {
                rows: rows as u32,
                columns: columns as u32,
                input_pitch: Some(pitches[0]),
                output_pitch: Some(pitches[1]),
                batch: [mode(0), mode(1), mode(2)],
            };
            let config = TransposeConfig::new(device.target(), Scalar::Bf16, &problem);
            assert_eq!(config.batch_modes, 3);
            let x: Vec<bf16> = (0..12 * matrix[0] as usize).map(number).collect();
            let mut expected: Vec<bf16> =
                (0..12 * matrix[1] as usize).map(|at| number(at + 7)).collect();
            let mut y = device.upload(&expected).unwrap();
            let transpose = Transpose::<bf16>::new(config).unwrap().load(&device).unwrap();
            transpose.launch(&problem, &device.upload(&x).unwrap(), &mut y).unwrap();
            for i in 0..12u64 {
                let index = [i % 2, i / 2 % 3, i / 6];
                let [from, to] = strides.map(|strides| {
                    index.iter().zip(strides).map(|(index, stride)| index * stride).sum::<u64>()
                });
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |c| (row, c))) {
                    let at = (to + column * pitches[1] + row) as usize;
                    expected[at] = x[(from + row * pitches[0] + column) as usize];
                }
            }
            let found = y.to_vec().unwrap();
            let bits = |all: &[bf16]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{problem:?} on {}", device.name());
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    for (rows, columns) in [(64, 64), (66, 66), (65, 65)] {
        let problem = TransposeProblem::new(rows, columns);
        let config = TransposeConfig::new(Target::SM_90A, Scalar::Bf16, &problem);
        let transpose = Transpose::<bf16>::new(config).unwrap();
        text::check_round_trip(transpose.ir());
        if let Some(ptxas) = ptxas::find() {
            let report = ptxas.report(transpose.ptx().text(), "sm_90a").unwrap();
            assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
        }
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = TransposeProblem::new(8, 16);
    let config = TransposeConfig::new(device.target(), Scalar::F32, &problem);
    let transpose = Transpose::<f32>::new(config).unwrap().load(&device).unwrap();
    let (x, mut y) = (device.zeros::<f32>(128).unwrap(), device.zeros::<f32>(127).unwrap());
    let mut refused =
        |problem: TransposeProblem| transpose.launch(&problem, &x, &mut y).unwrap_err();
    let error = refused(problem);
    assert!(matches!(error, RowError::BufferLength { found: 127, needed: 128, .. }), "{error}");
    let error = refused(TransposeProblem::new(7, 16));
    assert_eq!(
        error.to_string(),
        "the kernel takes rows that start at multiples of 16 bytes and end there"
    );
    let error = refused(problem.batched(2));
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    let error = refused(TransposeProblem { input_pitch: Some(12), ..problem });
    assert!(matches!(error, RowError::Pitch { pitch: 12, columns: 16, .. }), "{error}");
    let error = refused(TransposeProblem { output_pitch: Some(1 << 50), ..problem });
    assert!(matches!(error, RowError::TooLarge { .. }), "{error}");
    let error = Transpose::<f32>::new(TransposeConfig { tile: [8, 12], ..config }).unwrap_err();
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    let error = Transpose::<bool>::new(config).unwrap_err();
    assert!(matches!(error, RowError::Element { .. }), "{error}");
}
