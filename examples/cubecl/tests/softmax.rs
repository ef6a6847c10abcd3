//! Compares the softmax of a CubeCL buffer with the definition, on a GPU if there is one.

use std::error::Error;

use cubecl_core::Runtime;
use cubecl_cuda::{CudaDevice, CudaRuntime};
use tilewright::runtime::Device;
use tilewright_cubecl::softmax;

#[test]
fn rows_sum_up_to_one() -> Result<(), Box<dyn Error>> {
    if let Err(error) = Device::cuda(0) {
        eprintln!("skipped: {error}");
        return Ok(());
    }
    let (rows, columns) = (37, 1000);
    let client = CudaRuntime::client(&CudaDevice::new(0));
    let x: Vec<f32> = (0..rows * columns).map(|i| (i * 7919 % 1009) as f32 / 252.0).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let y = softmax(&client, 0, &client.create_from_slice(&bytes), [rows, columns])?;
    let bytes = client.read_one(y).map_err(|error| format!("{error:?}"))?;
    let y: Vec<f32> =
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
    assert_eq!(y.len(), x.len());
    for (x, y) in x.chunks(1000).zip(y.chunks(1000)) {
        let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
        for (x, y) in x.iter().zip(y) {
            assert!((f64::from(*y) - f64::from(*x).exp() / sum).abs() < 1e-6);
        }
    }
    Ok(())
}
