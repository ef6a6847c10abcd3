//! Compares the attention functions with candle's operations in `f32` (GEMMs, a mask, a softmax),
//! and once with candle's own CPU attention.

use crate::support::{assert_close, devices, numbers, wide};
use candle_core::{D, DType, Device, Error, IndexOp, Result, Tensor};
use candle_nn::attention::{AttnMask, flash_attn as candle_flash_attn};
use tilewright_candle::bridge::OperationError;
use tilewright_candle::ops::sdpa;
use tilewright_candle::{
    flash_attn, flash_attn_alibi_windowed_softcap, flash_attn_varlen,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_windowed, flash_attn_windowed,
};

/// Which keys a query sees, and the softcap.
#[derive(Clone, Copy, Debug, Default)]
struct Mask {
    left: Option<usize>,
    right: Option<usize>,
    softcap: Option<f64>,
}

/// The definition, for tensors with the shape (batch, heads, positions, dim): query `i` sees key
/// `j` if `i + keys - queries - left <= j <= i + keys - queries + right`. No key is zeros.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32, mask: Mask) -> Result<Tensor> {
    let (batch, heads, queries, _) = q.dims4()?;
    let (_, key_heads, keys, _) = k.dims4()?;
    let repeat = |x: &Tensor| {
        let dim = x.dim(3)?;
        let shape = (batch, key_heads, heads / key_heads, keys, dim);
        wide(x)?.unsqueeze(2)?.broadcast_as(shape)?.reshape((batch, heads, keys, dim))
    };
    let mut scores = (wide(q)?.matmul(&repeat(k)?.t()?.contiguous()?)? * f64::from(scale))?;
    if let Some(cap) = mask.softcap {
        scores = ((scores / cap)?.tanh()? * cap)?;
    }
    let sees = |query: usize, key: usize| {
        let own = query as i64 + keys as i64 - queries as i64;
        let after = mask.left.is_none_or(|left| own - left as i64 <= key as i64);
        after && mask.right.is_none_or(|right| key as i64 <= own + right as i64)
    };
    let seen: Vec<f32> =
        (0..queries * keys).map(|at| if sees(at / keys, at % keys) { 1.0 } else { 0.0 }).collect();
    let seen =
        Tensor::from_vec(seen, (queries, keys), &Device::Cpu)?.broadcast_as(scores.shape())?;
    let weights = (scores.exp()? * seen)?;
    let sums = weights.sum_keepdim(D::Minus1)?.maximum(1e-30)?;
    weights.matmul(&repeat(v)?)?.broadcast_div(&sums)
}

struct Case {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    value_dim: usize,
}

const fn case(
    [batch, heads, key_heads]: [usize; 3],
    [queries, keys]: [usize; 2],
    [dim, value_dim]: [usize; 2],
) -> Case {
    Case { batch, heads, key_heads, queries, keys, dim, value_dim }
}

/// Whole and ragged tiles, shared key heads, padded dimensions, more queries than keys.
const CASES: [Case; 4] = [
    case([1, 2, 2], [64, 64], [64, 64]),
    case([2, 4, 2], [30, 70], [32, 32]),
    case([1, 2, 1], [9, 21], [40, 24]),
    case([1, 1, 1], [40, 24], [128, 64]),
];

const DTYPES: [DType; 2] = [DType::F16, DType::BF16];

/// Returns Q, K and V with the shape (batch, positions, heads, dim).
fn tensors(case: &Case, dtype: DType, device: &Device) -> Result<[Tensor; 3]> {
    let Case { batch, heads, key_heads, queries, keys, dim, value_dim } = *case;
    Ok([
        numbers(&[batch, queries, heads, dim], 8, dtype, device)?,
        numbers(&[batch, keys, key_heads, dim], 9, dtype, device)?,
        numbers(&[batch, keys, key_heads, value_dim], 10, dtype, device)?,
    ])
}

/// Compares each function for (batch, positions, heads, dim) with the definition.
#[test]
fn flash_attn_functions() -> Result<()> {
    for device in devices()? {
        for dtype in DTYPES {
            for case in &CASES {
                let [q, k, v] = tensors(case, dtype, &device)?;
                let scale = 0.8 / (case.dim as f32).sqrt();
                let expected = |mask| {
                    let heads_first = |x: &Tensor| x.transpose(1, 2);
                    let o = reference(
                        &heads_first(&q)?,
                        &heads_first(&k)?,
                        &heads_first(&v)?,
                        scale,
                        mask,
                    )?;
                    o.transpose(1, 2)?.contiguous()
                };
                let what =
                    |mask: Mask| format!("{dtype:?} {:?} {:?} {mask:?}", q.shape(), v.shape());
                for causal in [false, true] {
                    let mask = Mask { right: causal.then_some(0), ..Mask::default() };
                    let found = flash_attn(&q, &k, &v, scale, causal)?;
                    assert_close(&found, &expected(mask)?, &what(mask))?;
                }
                for (left, right) in [(Some(5), Some(3)), (None, Some(4)), (Some(1000), Some(1000))]
                {
                    let mask = Mask { left, right, softcap: None };
                    let found = flash_attn_windowed(&q, &k, &v, scale, left, right)?;
                    assert_close(&found, &expected(mask)?, &what(mask))?;
                }
                let mask = Mask { left: Some(7), right: Some(0), softcap: Some(3.0) };
                let found = flash_attn_alibi_windowed_softcap(
                    &q, &k, &v, None, scale, mask.left, mask.right, 3.0,
                )?;
                assert_close(&found, &expected(mask)?, &what(mask))?;
            }
        }
    }
    Ok(())
}

/// Compares with the attention that candle has for the CPU, whose result has the heads first.
#[test]
fn flash_attn_is_that_of_candle_on_the_cpu() -> Result<()> {
    let case = case([1, 4, 2], [17, 17], [64, 64]);
    for device in devices()? {
        for dtype in DTYPES {
            let [q, k, v] = tensors(&case, dtype, &device)?;
            for (causal, mask) in [(false, AttnMask::None), (true, AttnMask::causal())] {
                let (q32, k32, v32) = (wide(&q)?, wide(&k)?, wide(&v)?);
                let expected = candle_flash_attn::<f32>(&q32, &k32, &v32, 0.125, mask, None, None)?;
                let expected = expected.transpose(1, 2)?.contiguous()?;
                let what = format!("{dtype:?} {causal}");
                assert_close(&flash_attn(&q, &k, &v, 0.125, causal)?, &expected, &what)?;
            }
        }
    }
    Ok(())
}

#[test]
fn sdpa_has_the_heads_first() -> Result<()> {
    for device in devices()? {
        for dtype in DTYPES {
            for case in &CASES {
                let scale = 1.0 / (case.dim as f32).sqrt();
                // Strided heads, and the same ones contiguous.
                let [q, k, v] = tensors(case, dtype, &device)?;
                let strided = [q.transpose(1, 2)?, k.transpose(1, 2)?, v.transpose(1, 2)?];
                let [q, k, v] = &strided;
                let whole = [q.contiguous()?, k.contiguous()?, v.contiguous()?];
                for (causal, cap) in [(false, 1.0), (true, 1.0), (true, 2.0)] {
                    let softcap = Some(f64::from(cap)).filter(|cap| *cap != 1.0);
                    let mask = Mask { left: None, right: causal.then_some(0), softcap };
                    let expected = reference(q, k, v, scale, mask)?;
                    for [q, k, v] in [&strided, &whole] {
                        let found = sdpa(q, k, v, None, causal, scale, cap)?;
                        assert_close(&found, &expected, &format!("{dtype:?} {mask:?}"))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Each sequence of a packed batch is an attention of its own.
#[test]
fn varlen_functions() -> Result<()> {
    let (heads, key_heads) = (4, 2);
    let (of_q, of_k) = ([0u32, 5, 5, 42], [0u32, 11, 30, 67]);
    for device in devices()? {
        for dtype in DTYPES {
            for dim in [32, 40] {
                let q = numbers(&[42, heads, dim], 8, dtype, &device)?;
                let k = numbers(&[67, key_heads, dim], 9, dtype, &device)?;
                let v = numbers(&[67, key_heads, dim], 10, dtype, &device)?;
                // The lists are views with an offset.
                let list = |starts: [u32; 4]| Tensor::new(&[[9; 4], starts], &device)?.i(1);
                let (q_list, k_list) = (list(of_q)?, list(of_k)?);
                let scale = 1.0 / (dim as f32).sqrt();
                let expected = |mask| {
                    let part = |x: &Tensor, starts: [u32; 4], i: usize| {
                        let [start, end] = [starts[i], starts[i + 1]].map(|at| at as usize);
                        x.i(start..end)?.transpose(0, 1)?.unsqueeze(0)
                    };
                    let mut parts = Vec::new();
                    for i in [0, 2] {
                        let (k, v) = (part(&k, of_k, i)?, part(&v, of_k, i)?);
                        let o = reference(&part(&q, of_q, i)?, &k, &v, scale, mask)?;
                        parts.push(o.squeeze(0)?.transpose(0, 1)?);
                    }
                    Tensor::cat(&parts, 0)?.contiguous()
                };
                for causal in [false, true] {
                    let mask = Mask { right: causal.then_some(0), ..Mask::default() };
                    let found =
                        flash_attn_varlen(&q, &k, &v, &q_list, &k_list, 37, 37, scale, causal)?;
                    assert_close(&found, &expected(mask)?, &format!("{dtype:?} {dim} {mask:?}"))?;
                }
                let mask = Mask { left: Some(6), right: Some(2), softcap: None };
                let found = flash_attn_varlen_windowed(
                    &q, &k, &v, &q_list, &k_list, 37, 37, scale, mask.left, mask.right,
                )?;
                assert_close(&found, &expected(mask)?, &format!("{dtype:?} {dim} {mask:?}"))?;
                let mask = Mask { softcap: Some(3.0), ..mask };
                let found = flash_attn_varlen_alibi_windowed_softcap(
                    &q, &k, &v, None, &q_list, &k_list, 37, 37, scale, mask.left, mask.right, 3.0,
                )?;
                assert_close(&found, &expected(mask)?, &format!("{dtype:?} {dim} {mask:?}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn no_queries_are_no_work_and_no_keys_are_zeros() -> Result<()> {
    for device in devices()? {
        let of = |positions| numbers(&[1, positions, 2, 32], 1, DType::BF16, &device);
        let (none, some) = (of(0)?, of(3)?);
        assert_eq!(flash_attn(&none, &some, &some, 1.0, true)?.dims(), [1, 0, 2, 32]);
        assert_eq!(flash_attn(&none, &none, &none, 1.0, true)?.dims(), [1, 0, 2, 32]);
        if device.is_cpu() {
            let o = wide(&flash_attn(&some, &none, &none, 1.0, false)?)?;
            assert_eq!(o.abs()?.sum_all()?.to_scalar::<f32>()?, 0.0);
        }
    }
    Ok(())
}

/// Returns the error under the backtrace that candle adds if `RUST_BACKTRACE` is set.
fn error(result: Result<Tensor>) -> Error {
    match result.expect_err("it fails") {
        Error::WithBacktrace { inner, .. } => *inner,
        error => error,
    }
}

#[test]
fn wrong_tensors_are_errors() -> Result<()> {
    for device in devices()? {
        let of = |shape: &[usize], dtype| numbers(shape, 13, dtype, &device);
        let single = of(&[1, 8, 2, 64], DType::F32)?;
        let found = error(flash_attn(&single, &single, &single, 1.0, false));
        assert_eq!(found.to_string(), "unsupported dtype F32 for op flash-attn");
        let q = of(&[1, 8, 2, 64], DType::F16)?;
        let found = error(flash_attn(&q, &q, &q.to_dtype(DType::BF16)?, 1.0, false));
        assert_eq!(found.to_string(), "dtype mismatch in flash-attn, lhs: F16, rhs: BF16");
        let flat = of(&[8, 2, 64], DType::F16)?;
        for result in [flash_attn(&flat, &q, &q, 1.0, false), flash_attn(&q, &q, &flat, 1.0, false)]
        {
            let found = error(result);
            assert!(matches!(found, Error::UnexpectedNumberOfDims { expected: 4, .. }), "{found}");
        }
        let other_batch = of(&[2, 8, 2, 64], DType::F16)?;
        let other_dim = of(&[1, 8, 2, 32], DType::F16)?;
        let other_keys = of(&[1, 7, 2, 64], DType::F16)?;
        for (k, v) in [(&other_batch, &other_batch), (&other_dim, &q), (&q, &other_keys)] {
            let found = error(flash_attn(&q, k, v, 1.0, false));
            assert!(matches!(found, Error::ShapeMismatchBinaryOp { .. }), "{found}");
        }
        // Three heads for two key heads; a scale that is not a number; a dimension that is too
        // large; slopes; a mask.
        let slopes = Tensor::ones(2, DType::F32, &device)?;
        let three = of(&[1, 8, 3, 64], DType::F16)?;
        let large = of(&[1, 8, 2, 264], DType::F16)?;
        let failures = [
            (flash_attn(&three, &q, &q, 1.0, false), "3 query heads"),
            (flash_attn(&q, &q, &q, f32::NAN, false), "NaN"),
            (flash_attn(&large, &large, &large, 1.0, false), "256"),
            (
                flash_attn_alibi_windowed_softcap(&q, &q, &q, Some(&slopes), 1.0, None, None, 0.0),
                "ALiBi",
            ),
            (sdpa(&q, &q, &q, Some(&slopes), false, 1.0, 1.0), "mask"),
        ];
        for (result, part) in failures {
            let Error::Cuda(found) = error(result) else { panic!("{part}: another error") };
            assert!(found.is::<OperationError>() && found.to_string().contains(part), "{found}");
        }
        // Lists with another type, with different lengths, and without a sequence.
        let list = |starts: &[u32]| Tensor::new(starts, &device);
        let (good, long, short) = (list(&[0, 8])?, list(&[0, 3, 8])?, list(&[0])?);
        let varlen = |of_q: &Tensor, of_k: &Tensor| {
            error(flash_attn_varlen(&flat, &flat, &flat, of_q, of_k, 8, 8, 1.0, false))
        };
        let found = varlen(&good.to_dtype(DType::I64)?, &good);
        assert!(matches!(found, Error::UnexpectedDType { got: DType::I64, .. }), "{found}");
        for (of_q, of_k) in [(&good, &long), (&short, &short)] {
            let found = varlen(of_q, of_k);
            assert!(matches!(found, Error::ShapeMismatchBinaryOp { .. }), "{found}");
        }
        if device.is_cuda() {
            let found = varlen(&good, &good.to_device(&Device::Cpu)?);
            assert!(matches!(found, Error::DeviceMismatchBinaryOp { .. }), "{found}");
            let found = error(flash_attn(&q, &q, &q.to_device(&Device::Cpu)?, 1.0, false));
            assert!(matches!(found, Error::DeviceMismatchBinaryOp { .. }), "{found}");
        }
    }
    Ok(())
}
