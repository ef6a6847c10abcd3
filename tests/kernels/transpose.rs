//! Transposes: every element moves to its place, and nothing else is written.

use proptest::prelude::*;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Target, bf16};
use tilewright::kernels::rows::RowError;
use tilewright::kernels::transpose::{
    Transpose, TransposeBatch, TransposeConfig, TransposeProblem,
};
use tilewright::runtime::Device;
use tilewright::tensor::rows::RowAccess;

use super::matrix::devices;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

/// The number of an element, the same for few elements of a small type.
fn number<T: Element>(at: usize) -> T {
    T::from_bits((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17)
}

/// Compares with the definition. The output has three elements behind its last row.
#[track_caller]
fn check_with<T: Element>(device: &Device, config: TransposeConfig, problem: &TransposeProblem) {
    let TransposeProblem { rows, columns, batch, .. } = *problem;
    let matrices: u64 = batch.iter().map(|mode| u64::from(mode.count)).product();
    // Where matrix `i` starts in the input and the output.
    let starts = |mut i: u64| {
        batch.iter().fold([0, 0], |at, mode| {
            let (index, rest) = (i % u64::from(mode.count), i / u64::from(mode.count));
            i = rest;
            [at[0] + index * mode.input_stride, at[1] + index * mode.output_stride]
        })
    };
    let pitches = problem.pitches();
    let mut moves = Vec::new();
    for matrix in 0..matrices {
        let [from, to] = starts(matrix);
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
        {
            let [row, column] = [row, column].map(u64::from);
            moves.push((from + row * pitches[0] + column, to + column * pitches[1] + row));
        }
    }
    // Without elements after the last row.
    let len = moves.iter().map(|(from, _)| from + 1).max().unwrap_or(0);
    let x: Vec<T> = (0..len as usize).map(number).collect();
    let len = moves.iter().map(|(_, to)| to + 1).max().unwrap_or(0) + pitches[1] + 3;
    let mut expected: Vec<T> = (0..len as usize).map(|at| number(at + 7)).collect();
    let mut y = device.upload(&expected).unwrap();
    let transpose = Transpose::<T>::new(config).unwrap().load(device).unwrap();
    transpose.launch(problem, (&device.upload(&x).unwrap(), &mut y)).unwrap();
    for (from, to) in moves {
        expected[to as usize] = x[from as usize];
    }
    for (at, (found, expected)) in y.to_vec().unwrap().into_iter().zip(expected).enumerate() {
        let name = device.name();
        // Bits, because some of them are NaN.
        assert_eq!(found.to_const(), expected.to_const(), "{config}, {problem} on {name}: {at}");
    }
}

#[track_caller]
fn check<T: Element>(device: &Device, problem: &TransposeProblem) {
    let config = TransposeConfig::new(device.target(), T::SCALAR, problem);
    check_with::<T>(device, config, problem);
    // The ragged kernel takes aligned matrices too; other tiles and orders.
    let all = TransposeConfig::candidates(device.target(), T::SCALAR, problem);
    let other = all[(problem.rows + problem.columns) as usize % all.len()];
    let ragged = TransposeConfig { access: RowAccess::Ragged, ..other };
    check_with::<T>(device, ragged.fitted(T::SCALAR, problem), problem);
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
    fn random_batches(rows in 1u32..70, columns in 1u32..70, count in 1u32..40, more in [0u64..9, 0u64..9]) {
        let input_pitch = Some(u64::from(columns) + more[0]);
        let output_pitch = Some(u64::from(rows) + more[1]);
        let problem = TransposeProblem { input_pitch, output_pitch, ..TransposeProblem::new(rows, columns) };
        for device in devices() {
            check::<bf16>(&device, &problem.batched(count));
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
            check_with::<bf16>(&device, config, &problem);
            check_with::<bf16>(
                &device,
                TransposeConfig { matrices: 8, tile: [4, 4], ..config },
                &problem,
            );
        }
    }
}

/// A tile has several matrices, and the last tile fewer.
#[test]
fn small_matrices() {
    for device in devices() {
        for (rows, columns, count) in [
            (16, 64, 37),
            (16, 63, 37),
            (64, 16, 21),
            (15, 64, 5),
            (16, 16, 70),
            (8, 8, 70),
            (3, 100, 9),
            (100, 3, 9),
            (1, 5, 33),
            (5, 1, 33),
            (2, 2, 0),
        ] {
            let problem = TransposeProblem::new(rows, columns).batched(count);
            check::<bf16>(&device, &problem);
            check::<f32>(&device, &problem);
        }
        check::<u8>(&device, &TransposeProblem::new(16, 48).batched(50));
        check::<u64>(&device, &TransposeProblem::new(6, 10).batched(50));
        let padded = TransposeProblem {
            input_pitch: Some(40),
            output_pitch: Some(24),
            ..TransposeProblem::new(16, 32)
        };
        check::<bf16>(&device, &padded.batched(20));
    }
}

/// Tiles with columns that `ldmatrix` loads are among them, also of several matrices.
#[test]
fn every_candidate_is_right() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    for problem in [
        TransposeProblem::new(136, 264),
        TransposeProblem::new(64, 32).batched(5),
        TransposeProblem::new(40, 72).batched(3),
    ] {
        for config in TransposeConfig::candidates(device.target(), Scalar::Bf16, &problem) {
            check_with::<bf16>(&device, config, &problem);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    let of = TransposeProblem::new;
    let problems =
        [of(64, 64), of(66, 66), of(65, 65), of(16, 64).batched(99), of(15, 64).batched(99)];
    for problem in problems {
        let configs = TransposeConfig::candidates(Target::SM_90A, Scalar::Bf16, &problem);
        for config in sample(5, configs) {
            let transpose = Transpose::<bf16>::new(config).unwrap();
            text::check_round_trip(transpose.ir());
            if let Some(ptxas) = ptxas::find() {
                let report = ptxas.report(transpose.ptx().text(), "sm_90a").unwrap();
                assert!(
                    report.contains("0 bytes stack frame, 0 bytes spill stores"),
                    "{config}: {report}"
                );
            }
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
        |problem: TransposeProblem| transpose.launch(&problem, (&x, &mut y)).unwrap_err();
    let error = refused(problem);
    assert!(matches!(error, RowError::BufferLength { found: 127, needed: 128, .. }), "{error}");
    let error = refused(TransposeProblem::new(7, 16));
    assert_eq!(
        error.to_string(),
        "the kernel needs rows that start and end at multiples of 16 bytes"
    );
    let error = refused(problem.batched(2));
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    let error = refused(TransposeProblem { input_pitch: Some(12), ..problem });
    assert!(matches!(error, RowError::Pitch { pitch: 12, columns: 16, .. }), "{error}");
    let error = refused(TransposeProblem { output_pitch: Some(1 << 50), ..problem });
    assert!(matches!(error, RowError::TooLarge { .. }), "{error}");
    let error = Transpose::<f32>::new(TransposeConfig { tile: [8, 12], ..config }).unwrap_err();
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    for (tile, matrices, access) in [
        ([8, 16], 0, config.access),
        ([8, 16], 3, config.access),
        ([1, 1], 2, config.access),
        ([8, 128], 1, config.access),
        ([1, 64], 8, RowAccess::Ragged),
    ] {
        let config = TransposeConfig { tile, matrices, access, ..config };
        let error = Transpose::<f32>::new(config).unwrap_err();
        assert!(matches!(error, RowError::Tile { .. }), "{config}: {error}");
    }
    let error = Transpose::<bool>::new(config).unwrap_err();
    assert!(matches!(error, RowError::Element { .. }), "{error}");
}
