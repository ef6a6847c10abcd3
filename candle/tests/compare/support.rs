//! What the tests share: devices, inputs, and comparisons with candle's results in `f32`.

use candle_core::{DType, Device, Result, Tensor};

pub(crate) const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Returns the CPU and, with the feature `cuda`, the first GPU.
pub(crate) fn devices() -> Result<Vec<Device>> {
    let gpu = Device::cuda_if_available(0)?;
    Ok(if gpu.is_cuda() { vec![Device::Cpu, gpu] } else { vec![Device::Cpu] })
}

/// Returns values from -2 to 2 that the type can represent.
pub(crate) fn numbers(
    shape: &[usize],
    seed: usize,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> =
        (0..count).map(|i| ((i + seed) * 7919 % 1009) as f32 / 252.0 - 2.0).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// Returns the same values in `f32` on the CPU, contiguous.
pub(crate) fn wide(x: &Tensor) -> Result<Tensor> {
    x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.contiguous()
}

/// Asserts that a result is right up to its type's rounding.
pub(crate) fn assert_close(found: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    let tolerance = match found.dtype() {
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
        _ => 1.5e-2,
    };
    assert_within(found, expected, tolerance, what)
}

/// Asserts that a result is right up to a tolerance, relative for values above 1.
pub(crate) fn assert_within(
    found: &Tensor,
    expected: &Tensor,
    tolerance: f32,
    what: &str,
) -> Result<()> {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    assert!(found.is_contiguous(), "{what}");
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
