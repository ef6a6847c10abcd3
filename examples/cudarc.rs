//! Launches a kernel on the stream and the memory that a program has through `cudarc`.
//!
//! `cargo run --example cudarc` on a machine with an NVIDIA GPU.

use cudarc::driver::CudaContext;
use tilewright::ir::{Global, GlobalMut, Kernel};
use tilewright::runtime::{Buffer, Device, Grid, LaunchOptions, Stream};

type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What the program has.
    let stream = CudaContext::new(0)?.new_stream()?;
    let (x, y) = (stream.clone_htod(&[1.0f32, 2.0, 3.0])?, stream.clone_htod(&[10.0f32; 3])?);

    // Ten lines for a kernel of this crate.
    let device = Device::cuda(0)?;
    let axpy = Kernel::<Axpy>::build("axpy", device.target(), |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |k| y.store(k, i, a * x.load(k, i) + y.load(k, i)));
    })?;
    let (x, mut y) = (Buffer::from_cudarc(x)?, Buffer::from_cudarc(y)?);
    let (axpy, ours) = (device.load(&axpy)?, Stream::from_cudarc(&stream)?);
    let options = LaunchOptions::default().stream(&ours);
    axpy.launch_with(options, Grid::cover(3, 128), (2.0, &x, &mut y, 3))?;

    assert_eq!(y.to_vec()?, [12.0, 14.0, 16.0]);

    // Slices that the program keeps are borrowed, whole or in part. The host waits for nothing.
    let (x, mut y) =
        (stream.clone_htod(&[1.0f32, 2.0, 3.0, 4.0])?, stream.clone_htod(&[10.0f32; 3])?);
    device.borrow_cudarc((&x.slice(1..), &mut y), |(x, y)| {
        axpy.launch_with(options, Grid::cover(3, 128), (2.0, x, y, 3))
    })?;
    assert_eq!(stream.clone_dtoh(&y)?, [14.0, 16.0, 18.0]);
    Ok(())
}
