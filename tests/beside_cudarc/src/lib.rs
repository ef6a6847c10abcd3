//! A program that links the CUDA driver through `cudarc`, as candle does, and launches a kernel of
//! tilewright.

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use tilewright::prelude::*;
use tilewright::runtime::Stream;

/// Doubles the elements of a slice on its stream.
pub fn double(
    stream: &Arc<CudaStream>,
    x: CudaSlice<f32>,
) -> Result<CudaSlice<f32>, Box<dyn Error>> {
    let device = Device::cuda(0)?;
    let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("double", device.target(), |k, (x, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |k| x.store(i, x.load(i) * 2.0));
    })?;
    let n = x.len();
    let (function, ours) = (device.load(&kernel)?, Stream::from_cudarc(stream)?);
    let mut x = Buffer::from_cudarc(x)?;
    let options = LaunchOptions::default().stream(&ours);
    function.launch_with(options, Grid::cover(n, 256), (&mut x, i32::try_from(n)?))?;
    Ok(x.into_cudarc(stream)?)
}

/// Doubles three numbers on the first GPU.
pub fn main() -> Result<(), Box<dyn Error>> {
    let stream = CudaContext::new(0)?.new_stream()?;
    let x = double(&stream, stream.clone_htod(&[1.0f32, 2.0, 3.0])?)?;
    assert_eq!(stream.clone_dtoh(&x)?, [2.0, 4.0, 6.0]);
    Ok(())
}
