//! Launches a kernel on a stream and memory that the program already has through `cudarc`.
//!
//! `cargo run --example cudarc` on a machine with an NVIDIA GPU.

use cudarc::driver::CudaContext;
use tilewright::prelude::*;
use tilewright::runtime::Stream;

type Axpy = (f32, Global<bf16>, GlobalMut<bf16>, i32);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The program's own memory. With the feature `half` it may be slices of `half::bf16`.
    let stream = CudaContext::new(0)?.new_stream()?;
    let x = stream.clone_htod(&[1.0, 2.0, 3.0, 4.0].map(bf16::from_f32))?;
    let mut y = stream.clone_htod(&[10.0; 3].map(bf16::from_f32))?;

    // Ten lines for a kernel of this crate that borrows slices, whole or in part. The host waits
    // for nothing.
    let device = Device::cuda(0)?;
    let axpy = Kernel::<Axpy>::build("axpy", device.target(), |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |_| {
            let sum = a * x.load(i).cvt::<f32>() + y.load(i).cvt::<f32>();
            y.store(i, sum.cvt::<bf16>());
        });
    })?;
    let (axpy, ours) = (device.load(&axpy)?, Stream::from_cudarc(&stream)?);
    let options = LaunchOptions::default().stream(&ours);
    device.borrow_cudarc((&x.slice(1..), &mut y), |(x, y)| {
        axpy.launch_with(options, Grid::cover(3, 128), (2.0, x, y, 3))
    })?;

    assert_eq!(stream.clone_dtoh(&y)?, [14.0, 16.0, 18.0].map(bf16::from_f32));

    // If the program gives slices away, they become buffers.
    let (x, mut y) = (Buffer::from_cudarc(x)?, Buffer::from_cudarc(y)?);
    axpy.launch_with(options, Grid::cover(3, 128), (2.0, &x, &mut y, 3))?;
    assert_eq!(y.to_vec()?, [16.0, 20.0, 24.0].map(bf16::from_f32));
    Ok(())
}
