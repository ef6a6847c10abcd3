//! Compares each operation of `ops` with candle's of the same name in `f32`: on the simulator, and
//! on a GPU if there is one.

use crate::support::{TYPES, assert_close, assert_within, devices, numbers, wide};
use candle_core::{D, DType, Device, Error, Result, Tensor, Var};
use candle_nn::Module;
use candle_nn::ops as theirs;
use tilewright_candle::bridge::OperationError;
use tilewright_candle::ops::{self as ours, Activation, linear};

/// Shapes with one to three dimensions: whole and ragged vectors, single elements, and rows that a
/// warp or a block holds.
const SHAPES: [&[usize]; 6] = [&[7], &[3, 5], &[2, 3, 64], &[4, 1031], &[1, 1], &[9, 96]];

/// Compares two functions of one tensor for each type and shape, and for views.
fn compare(
    op: fn(&Tensor) -> Result<Tensor>,
    reference: fn(&Tensor) -> Result<Tensor>,
    shapes: &[&[usize]],
) -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            for shape in shapes {
                let x = numbers(shape, 1, dtype, &device)?;
                let what = format!("{dtype:?} {shape:?}");
                assert_close(&op(&x)?, &reference(&wide(&x)?)?, &what)?;
            }
            // A transposed tensor, one with an offset that is not a multiple of 16 bytes, one whose
            // rows are a part of others, and a broadcast one.
            let x = numbers(&[6, 32], 2, dtype, &device)?;
            let row = x.narrow(0, 5, 1)?;
            let views =
                [x.t()?, x.narrow(0, 1, 3)?, x.narrow(1, 3, 8)?, row.broadcast_as((4, 32))?];
            for view in views {
                let what = format!("{dtype:?} {:?}", view.layout());
                assert_close(&op(&view)?, &reference(&wide(&view)?)?, &what)?;
            }
            for shape in [[0, 4], [4, 0]] {
                let x = numbers(&shape, 1, dtype, &device)?;
                assert_eq!(op(&x)?.elem_count(), 0);
            }
        }
    }
    Ok(())
}

#[test]
fn softmax_last_dim() -> Result<()> {
    compare(ours::softmax_last_dim, theirs::softmax_last_dim, &SHAPES)
}

#[test]
fn softmax_and_log_softmax_over_any_dimension() -> Result<()> {
    compare(|x| ours::softmax(x, 0), |x| theirs::softmax(x, 0), &SHAPES)?;
    compare(|x| ours::softmax(x, D::Minus1), |x| theirs::softmax(x, D::Minus1), &SHAPES)?;
    compare(|x| ours::log_softmax(x, D::Minus1), |x| theirs::log_softmax(x, D::Minus1), &SHAPES)?;
    let middle = [&[3, 5, 7][..], &[2, 64, 3]];
    for device in devices()? {
        for dtype in TYPES {
            for shape in middle {
                let x = numbers(shape, 1, dtype, &device)?;
                let expected = theirs::log_softmax(&wide(&x)?, 1)?;
                assert_close(&ours::log_softmax(&x, 1)?, &expected, "the middle")?;
            }
        }
    }
    Ok(())
}

#[test]
fn silu_and_sigmoid() -> Result<()> {
    compare(ours::silu, theirs::silu, &SHAPES)?;
    compare(ours::sigmoid, theirs::sigmoid, &SHAPES)
}

#[test]
fn swiglu() -> Result<()> {
    // Outputs with a whole vector, a ragged one, and several blocks per row, the last one partial.
    let shapes = [&[16][..], &[3, 10], &[2, 3, 64], &[2, 9000], &[2, 2062], &[1, 2]];
    compare(ours::swiglu, theirs::swiglu, &shapes)
}

#[test]
fn rms_norm_and_layer_norm() -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            for shape in SHAPES {
                let x = numbers(shape, 3, dtype, &device)?;
                let columns = &shape[shape.len() - 1..];
                let alpha = numbers(columns, 4, dtype, &device)?;
                let beta = numbers(columns, 5, dtype, &device)?;
                let what = format!("{dtype:?} {shape:?}");
                let expected = theirs::rms_norm(&wide(&x)?, &wide(&alpha)?, 1e-3)?;
                assert_close(&ours::rms_norm(&x, &alpha, 1e-3)?, &expected, &what)?;
                let expected = theirs::layer_norm(&wide(&x)?, &wide(&alpha)?, &wide(&beta)?, 1e-3)?;
                assert_close(&ours::layer_norm(&x, &alpha, &beta, 1e-3)?, &expected, &what)?;
            }
            // Views: transposed rows, and weights with an offset.
            let x = numbers(&[24, 6], 3, dtype, &device)?.t()?;
            let weights = numbers(&[3, 24], 4, dtype, &device)?;
            let [alpha, beta] = [1, 2].map(|row| weights.get(row));
            let (alpha, beta) = (alpha?, beta?);
            let expected = theirs::layer_norm(&wide(&x)?, &wide(&alpha)?, &wide(&beta)?, 1e-3)?;
            assert_close(&ours::layer_norm(&x, &alpha, &beta, 1e-3)?, &expected, "views")?;
            let expected = theirs::rms_norm(&wide(&x)?, &wide(&beta)?, 1e-3)?;
            assert_close(&ours::rms_norm(&x, &beta, 1e-3)?, &expected, "views")?;
            let empty = numbers(&[0, 24], 3, dtype, &device)?;
            assert_eq!(ours::rms_norm(&empty, &alpha, 1e-3)?.dims(), [0, 24]);
            assert_eq!(ours::layer_norm(&empty, &alpha, &beta, 1e-3)?.dims(), [0, 24]);
        }
    }
    Ok(())
}

#[test]
fn linear_layers() -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            for (rows, outputs, inputs) in [(16, 24, 32), (7, 9, 13), (33, 136, 72)] {
                let x = numbers(&[1, rows, inputs], 5, dtype, &device)?;
                let weight = (numbers(&[outputs, inputs], 6, dtype, &device)? / 4.0)?;
                let bias = numbers(&[outputs], 7, dtype, &device)?;
                let layer = candle_nn::Linear::new(wide(&weight)?, Some(wide(&bias)?));
                let plain = layer.forward(&wide(&x)?)?;
                let what = format!("{dtype:?} {rows} x {outputs} x {inputs}");
                let run = |activation| linear(&x, &weight, Some(&bias), activation);
                assert_close(&run(None)?, &plain, &what)?;
                assert_close(&run(Some(Activation::Relu))?, &plain.relu()?, &what)?;
                // The hardware's `tanh` is approximate.
                let tolerance = if dtype == DType::BF16 { 1.5e-2 } else { 2e-3 };
                let gelu = run(Some(Activation::Gelu))?;
                assert_within(&gelu, &plain.gelu()?, tolerance, &what)?;
                let without = candle_nn::Linear::new(wide(&weight)?, None).forward(&wide(&x)?)?;
                assert_close(&linear(&x, &weight, None, None)?, &without, &what)?;
            }
            // A transposed weight, and rows that are a part of others.
            let x = numbers(&[8, 40], 5, dtype, &device)?.narrow(1, 3, 16)?;
            let weight = (numbers(&[16, 24], 6, dtype, &device)?.t()? / 4.0)?;
            let expected = candle_nn::Linear::new(wide(&weight)?, None).forward(&wide(&x)?)?;
            assert_close(&linear(&x, &weight, None, None)?, &expected, "views")?;
            let empty = numbers(&[0, 16], 5, dtype, &device)?;
            assert_eq!(linear(&empty, &weight, None, None)?.dims(), [0, 24]);
        }
    }
    Ok(())
}

/// Operations of candle and of this crate run in one stream, without a wait in between.
#[test]
fn operations_are_in_the_order_of_the_stream() -> Result<()> {
    for device in devices()? {
        let x = numbers(&[64, 256], 11, DType::F32, &device)?;
        let weight = numbers(&[256], 12, DType::F32, &device)?;
        let [mut found, mut expected] = [x.clone(), wide(&x)?];
        for _ in 0..5 {
            let softmax = (ours::softmax_last_dim(&found)? * 3.0)?;
            found = ours::rms_norm(&softmax, &weight, 1e-5)?.sin()?;
            let softmax = (theirs::softmax_last_dim(&expected)? * 3.0)?;
            expected = theirs::rms_norm(&softmax, &wide(&weight)?, 1e-5)?.sin()?;
        }
        // Each step amplifies the previous step's rounding.
        assert_within(&found, &expected, 2e-3, "five layers")?;
    }
    Ok(())
}

/// Returns the error under the backtrace that candle adds if `RUST_BACKTRACE` is set.
fn error<T>(result: Result<T>) -> Error {
    match result.err().expect("it fails") {
        Error::WithBacktrace { inner, .. } => *inner,
        error => error,
    }
}

#[test]
fn wrong_element_types() -> Result<()> {
    for device in devices()? {
        let of = |shape: &[usize], dtype| numbers(shape, 13, dtype, &device);
        let (x, doubles) = (of(&[2, 4], DType::F32)?, of(&[2, 4], DType::F64)?);
        let (weight, halves) = (of(&[4], DType::F32)?, of(&[4], DType::F16)?);
        for op in [ours::softmax_last_dim, ours::silu, ours::sigmoid, ours::swiglu] {
            let found = error(op(&doubles));
            assert!(matches!(found, Error::UnsupportedDTypeForOp(DType::F64, _)), "{found}");
        }
        let found = error(ours::rms_norm(&x, &halves, 1e-5)).to_string();
        assert_eq!(found, "dtype mismatch in rms-norm, lhs: F32, rhs: F16");
        let found = error(ours::layer_norm(&x, &weight, &halves, 1e-5)).to_string();
        assert_eq!(found, "dtype mismatch in layer-norm, lhs: F32, rhs: F16");
        let found = error(linear(&x, &doubles, None, None)).to_string();
        assert_eq!(found, "dtype mismatch in linear, lhs: F32, rhs: F64");
    }
    Ok(())
}

#[test]
fn wrong_shapes() -> Result<()> {
    for device in devices()? {
        let of = |shape: &[usize]| numbers(shape, 13, DType::F32, &device);
        let (x, four, five) = (of(&[2, 4])?, of(&[4])?, of(&[5])?);
        let mismatches = [
            ours::rms_norm(&x, &five, 1e-5),
            ours::layer_norm(&x, &four, &five, 1e-5),
            ours::layer_norm(&x, &five, &four, 1e-5),
            linear(&x, &of(&[3, 5])?, None, None),
            linear(&x, &of(&[3, 4])?, Some(&five), None),
        ];
        for result in mismatches {
            let found = error(result);
            assert!(matches!(found, Error::ShapeMismatchBinaryOp { .. }), "{found}");
        }
        for result in [ours::rms_norm(&x, &x, 1e-5), linear(&x, &four, None, None)] {
            let found = error(result);
            assert!(matches!(found, Error::UnexpectedNumberOfDims { .. }), "{found}");
        }
        let found = error(ours::swiglu(&of(&[2, 5])?));
        assert!(matches!(found, Error::ShapeMismatchSplit { dim: 1, n_parts: 2, .. }), "{found}");
        let scalar = Tensor::new(1f32, &device)?;
        for result in [ours::softmax_last_dim(&scalar), ours::swiglu(&scalar), ours::softmax(&x, 2)]
        {
            let found = error(result);
            assert!(matches!(found, Error::DimOutOfRange { .. }), "{found}");
        }
        let Error::Cuda(found) = error(linear(&of(&[2, 0])?, &of(&[3, 0])?, None, None)) else {
            panic!("another error")
        };
        assert_eq!(found.to_string(), "linear: there are no inputs");
        assert!(found.is::<OperationError>());
    }
    Ok(())
}

/// There is no gradient, and nothing drops it silently.
#[test]
fn backward_is_an_error() -> Result<()> {
    let x = Var::from_tensor(&numbers(&[2, 4], 1, DType::F32, &Device::Cpu)?)?;
    let found = error(ours::softmax_last_dim(&x)?.sum_all()?.backward());
    assert!(matches!(found, Error::BackwardNotSupported { op: "softmax" }), "{found}");
    Ok(())
}
