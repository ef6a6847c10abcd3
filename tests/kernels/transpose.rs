//! Transposes: every element moves to its place, and nothing else is written.

use proptest::prelude::*;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Target, bf16};
use tilewright::kernels::rows::RowError;
use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
use tilewright::runtime::Device;

use super::matrix::devices;
use crate::support::{ptxas, text};

/// The number of an element, the same for few elements of a small type.
fn number<T: Element>(at: usize) -> T {
    T::from_bits((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17)
}

#[track_caller]
fn check_with<T: Element>(device: &Device, config: TransposeConfig, problem: &TransposeProblem) {
    let (rows, columns) = (problem.rows as usize, problem.columns as usize);
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as usize);
    let x: Vec<T> = (0..rows * x_pitch).map(number).collect();
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
    let narrow = TransposeConfig { input_vector: 1, output_vector: 1, ..config };
    check_with::<T>(device, narrow, problem);
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
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(rows in 1u32..200, columns in 1u32..300, more in [0u64..20, 0u64..20]) {
        let input_pitch = Some(u64::from(columns) + more[0]);
        let output_pitch = Some(u64::from(rows) + more[1]);
        let problem = TransposeProblem { rows, columns, input_pitch, output_pitch };
        for device in devices() {
            check::<bf16>(&device, &problem);
            check::<f32>(&device, &problem);
        }
    }
}

#[test]
fn vectors_are_the_widest_possible() {
    let vectors = |rows, columns, elem| TransposeProblem::new(rows, columns).vectors(elem);
    assert_eq!(vectors(8192, 8192, Scalar::Bf16), [8, 8]);
    assert_eq!(vectors(8190, 8196, Scalar::Bf16), [4, 2]);
    assert_eq!(vectors(8191, 8196, Scalar::F32), [4, 1]);
    assert_eq!(vectors(16, 16, Scalar::U8), [16, 16]);
    let padded = TransposeProblem { input_pitch: Some(65), ..TransposeProblem::new(64, 64) };
    assert_eq!(padded.vectors(Scalar::F32), [1, 4]);
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
        "the kernel accesses 4 elements of the output at once, which do not divide the length and the pitch of its rows"
    );
    let error = refused(TransposeProblem { input_pitch: Some(12), ..problem });
    assert!(matches!(error, RowError::Pitch { pitch: 12, columns: 16, .. }), "{error}");
    let error = refused(TransposeProblem { output_pitch: Some(1 << 50), ..problem });
    assert!(matches!(error, RowError::TooLarge { .. }), "{error}");
    let error = Transpose::<f32>::new(TransposeConfig { input_vector: 8, ..config }).unwrap_err();
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    let error = Transpose::<bool>::new(config).unwrap_err();
    assert!(matches!(error, RowError::Element { .. }), "{error}");
}
