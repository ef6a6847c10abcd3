//! Compares each operation with candle's own in `f32`: on the simulator, and on a GPU if there is
//! one.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::Module;
use tilewright_candle::{Activation, attention, linear, rms_norm, softmax, square};

/// Returns the CPU and, with the feature `cuda`, the first GPU.
fn devices() -> Result<Vec<Device>> {
    let gpu = Device::cuda_if_available(0)?;
    Ok(if gpu.is_cuda() { vec![Device::Cpu, gpu] } else { vec![Device::Cpu] })
}

/// Returns values from -2 to 2 that the type can represent.
fn numbers(shape: &[usize], seed: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> =
        (0..count).map(|i| ((i + seed) * 7919 % 1009) as f32 / 252.0 - 2.0).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

fn wide(x: &Tensor) -> Result<Tensor> {
    x.to_device(&Device::Cpu)?.to_dtype(DType::F32)
}

/// Asserts that a result is right up to its type's rounding.
fn assert_close(found: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let tolerance = match found.dtype() {
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
        _ => 1.5e-2,
    };
    let found = wide(found)?.flatten_all()?.to_vec1::<f32>()?;
    for (found, expected) in found.into_iter().zip(expected.flatten_all()?.to_vec1::<f32>()?) {
        let difference = (found - expected).abs();
        assert!(
            difference <= tolerance * expected.abs().max(1.0),
            "{what}: {found}, not {expected}"
        );
    }
    Ok(())
}

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn softmax_is_that_of_candle() -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            for shape in [&[3, 5][..], &[2, 3, 64], &[4, 1031], &[1, 1]] {
                let x = numbers(shape, 1, dtype, &device)?;
                let expected = candle_nn::ops::softmax_last_dim(&wide(&x)?)?;
                assert_close(&softmax(&x)?, &expected, &format!("{dtype:?} {shape:?}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn squares_are_those_of_candle() -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            let x = numbers(&[3, 300], 1, dtype, &device)?;
            assert_close(&square(&x)?, &wide(&x)?.sqr()?, &format!("{dtype:?}"))?;
        }
    }
    Ok(())
}

/// Covers a transposed tensor, and one whose first element is not at a multiple of 16 bytes.
#[test]
fn views_are_taken() -> Result<()> {
    for device in devices()? {
        let x = numbers(&[6, 31], 2, DType::BF16, &device)?;
        for view in [x.t()?, x.narrow(0, 1, 3)?, x.narrow(1, 3, 8)?] {
            let expected = candle_nn::ops::softmax_last_dim(&wide(&view)?.contiguous()?)?;
            assert_close(&softmax(&view)?, &expected, &format!("{:?}", view.layout()))?;
        }
    }
    Ok(())
}

#[test]
fn rms_norm_is_that_of_candle() -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            for shape in [&[3, 5][..], &[2, 3, 64], &[4, 1031]] {
                let x = numbers(shape, 3, dtype, &device)?;
                let weight = numbers(&shape[shape.len() - 1..], 4, dtype, &device)?;
                let expected = candle_nn::ops::rms_norm(&wide(&x)?, &wide(&weight)?, 1e-3)?;
                let found = rms_norm(&x, &weight, 1e-3)?;
                assert_close(&found, &expected, &format!("{dtype:?} {shape:?}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn linear_layers_are_those_of_candle() -> Result<()> {
    for device in devices()? {
        for dtype in TYPES {
            for (rows, outputs, inputs) in [(16, 24, 32), (7, 9, 13), (33, 136, 72)] {
                let x = numbers(&[1, rows, inputs], 5, dtype, &device)?;
                let weight = (numbers(&[outputs, inputs], 6, dtype, &device)? / 4.0)?;
                let bias = numbers(&[outputs], 7, dtype, &device)?;
                let layer = candle_nn::Linear::new(wide(&weight)?, Some(wide(&bias)?));
                let plain = layer.forward(&wide(&x)?)?;
                let what = format!("{dtype:?} {rows} x {outputs} x {inputs}");
                assert_close(&linear(&x, &weight, &bias, None)?, &plain, &what)?;
                let found = linear(&x, &weight, &bias, Some(Activation::Relu))?;
                assert_close(&found, &plain.relu()?, &what)?;
                let found = linear(&x, &weight, &bias, Some(Activation::Gelu))?;
                // The hardware's `tanh` is approximate.
                let found = if dtype == DType::F32 { found.to_dtype(DType::F16)? } else { found };
                assert_close(&found, &plain.gelu()?, &what)?;
            }
        }
    }
    Ok(())
}

/// Computes attention with candle's operations in `f32`: GEMMs, a mask, a softmax.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
    let (_, heads, queries, dim) = q.dims4()?;
    let (batch, key_heads, keys, _) = k.dims4()?;
    let repeat = |x: &Tensor| {
        let dim = x.dim(3)?;
        let shape = (batch, key_heads, heads / key_heads, keys, dim);
        wide(x)?.unsqueeze(2)?.broadcast_as(shape)?.reshape((batch, heads, keys, dim))
    };
    let scores = (wide(q)?.contiguous()?.matmul(&repeat(k)?.t()?)? / (dim as f64).sqrt())?;
    let mask: Vec<f32> = (0..queries * keys)
        .map(|at| (at / keys, at % keys))
        .map(|(query, key)| causal && key + queries > query + keys)
        .map(|hidden| if hidden { f32::NEG_INFINITY } else { 0.0 })
        .collect();
    let mask = Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?;
    let powers = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    powers.matmul(&repeat(v)?)
}

#[test]
fn attention_is_that_of_candle() -> Result<()> {
    for device in devices()? {
        for dtype in [DType::F16, DType::BF16] {
            for (heads, key_heads, queries, keys, dim) in [(2, 2, 64, 64, 64), (4, 2, 30, 70, 32)] {
                let of = |heads, len, seed| numbers(&[1, heads, len, dim], seed, dtype, &device);
                let (q, k, v) =
                    (of(heads, queries, 8)?, of(key_heads, keys, 9)?, of(key_heads, keys, 10)?);
                for causal in [false, true] {
                    let what = format!("{dtype:?} {heads} {queries} x {keys} {causal}");
                    let expected = reference(&q, &k, &v, causal)?;
                    assert_close(&attention(&q, &k, &v, causal)?, &expected, &what)?;
                }
                // Positions before heads, as a projection writes them.
                let q = q.transpose(1, 2)?.contiguous()?.transpose(1, 2)?;
                let expected = reference(&q, &k, &v, false)?;
                assert_close(&attention(&q, &k, &v, false)?, &expected, "strided heads")?;
            }
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
        let [mut ours, mut expected] = [x.clone(), wide(&x)?];
        for _ in 0..5 {
            ours = rms_norm(&(softmax(&ours)? * 3.0)?, &weight, 1e-5)?.sin()?;
            expected = candle_nn::ops::softmax_last_dim(&expected)?;
            expected =
                candle_nn::ops::rms_norm(&(expected * 3.0)?, &wide(&weight)?, 1e-5)?.sin()?;
        }
        // Each step amplifies the previous step's rounding.
        assert_close(&ours.to_dtype(DType::F16)?, &expected, "five layers")?;
    }
    Ok(())
}

#[test]
fn wrong_tensors_are_errors_with_a_message() -> Result<()> {
    let message = |result: Result<Tensor>| result.unwrap_err().to_string();
    for device in devices()? {
        let of = |shape: &[usize], dtype| numbers(shape, 13, dtype, &device);
        let doubles = of(&[2, 3], DType::F64)?;
        assert_eq!(message(softmax(&doubles)), "softmax: tensors of F64 are not taken");
        let x = of(&[2, 3], DType::F32)?;
        let found = message(rms_norm(&x, &of(&[4], DType::F32)?, 1e-5));
        assert_eq!(found, "rms-norm: [2, 3] has no weight [4]");
        let found = message(linear(&x, &of(&[5, 4], DType::F32)?, &of(&[5], DType::F32)?, None));
        assert_eq!(found, "linear: [2, 3] has no weight [5, 4] with a bias [5]");
        let found = message(attention(&x, &x, &x, false));
        assert_eq!(found, "attention: [2, 3] is not (batch, heads, length, dim)");
        let q = of(&[1, 2, 8, 64], DType::F32)?;
        assert!(message(attention(&q, &q, &q, false)).contains("f32"));
        let found = message(rms_norm(&x, &of(&[3], DType::F16)?, 1e-5));
        assert!(found.starts_with("rms-norm: "), "{found}");
        // An empty tensor needs no work.
        assert_eq!(softmax(&of(&[0, 3], DType::F32)?)?.dims(), [0, 3]);
    }
    Ok(())
}
