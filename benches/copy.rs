//! Compares a copy kernel and an axpy of 1 GiB with the driver's memcpy: `cargo bench --bench copy`
//! on a GPU.
//!
//! Each byte counts once per read and once per write. Each round runs all three; the median of the
//! rounds' ratios is printed.
#![expect(unsafe_code, reason = "the driver's copy takes addresses")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends with the message"
)]

use cudarc::driver::sys::{CUresult, cuMemcpyDtoDAsync_v2};
use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut};
use tilewright::ir::op::LoadAccess;
use tilewright::ir::{Global, GlobalMut, Kernel, Val, Vector};
use tilewright::runtime::{Device, Grid, LaunchOptions, Stream};

/// Element count: 1 GiB of `f32`.
const LEN: usize = 1 << 28;
const THREADS: u32 = 512;
/// 16-byte vectors per thread, one block apart from each other.
const VECTORS: i32 = 4;

/// Returns the first element of each of the thread's vectors.
fn places<'b>(k: &tilewright::ir::Body<'b, '_>) -> [Val<'b, i32>; VECTORS as usize] {
    let first = k.block_idx().x * (THREADS as i32 * VECTORS) + k.thread_idx().x;
    std::array::from_fn(|i| (first + i as i32 * THREADS as i32) * 4)
}

fn copy(device: &Device) -> Kernel<(Global<f32>, GlobalMut<f32>)> {
    Kernel::<(Global<f32>, GlobalMut<f32>)>::build("copy", device.target(), |k, (x, y)| {
        let places = places(k);
        let streamed = LoadAccess::default().non_coherent();
        let values = places.map(|i| x.load_vector_with::<4>(i, streamed));
        for (i, value) in places.into_iter().zip(values) {
            y.store_vector(i, value);
        }
    })
    .unwrap()
}

fn axpy(device: &Device) -> Kernel<(f32, Global<f32>, GlobalMut<f32>)> {
    Kernel::<(f32, Global<f32>, GlobalMut<f32>)>::build("axpy", device.target(), |k, (a, x, y)| {
        let places = places(k);
        let streamed = LoadAccess::default().non_coherent();
        let load = |i| {
            let x: Val<'_, Vector<f32, 4>> = x.load_vector_with(i, streamed);
            let y: Val<'_, Vector<f32, 4>> = y.load_vector(i);
            (x.lanes(), y.lanes())
        };
        let values = places.map(load);
        for (i, (xs, ys)) in places.into_iter().zip(values) {
            let sums: [_; 4] = std::array::from_fn(|lane| a.fma(xs[lane], ys[lane]));
            y.store_vector(i, Val::pack(sums));
        }
    })
    .unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("no figures: {error}"),
    };
    println!("{device}, CUDA {}, {}", device.cuda_version().unwrap(), device.target());
    let raw = CudaContext::new(0).unwrap().new_stream().unwrap();
    let stream = Stream::from_cudarc(&raw).unwrap();
    let from = raw.alloc_zeros::<f32>(LEN).unwrap();
    let mut to = raw.alloc_zeros::<f32>(LEN).unwrap();
    let (from, to) = (from.device_ptr(&raw).0, to.device_ptr_mut(&raw).0);
    let x = device.zeros::<f32>(LEN).unwrap();
    let mut y = device.zeros::<f32>(LEN).unwrap();
    let (copy, axpy) = (device.load(&copy(&device)).unwrap(), device.load(&axpy(&device)).unwrap());
    let grid = Grid::new([(LEN / 4 / VECTORS as usize) as u32 / THREADS, 1, 1], [THREADS, 1, 1]);
    let options = LaunchOptions::default().stream(&stream);
    let time = |run: &mut dyn FnMut()| {
        run();
        let begin = stream.record().unwrap();
        (0..10).for_each(|_| run());
        let end = stream.record().unwrap();
        end.synchronize().unwrap();
        begin.elapsed_until(&end).unwrap().as_secs_f64() / 10.0
    };
    let (mut driver, mut copies, mut axpys) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..11 {
        driver.push(time(&mut || {
            // SAFETY: both buffers have LEN elements.
            let answer = unsafe { cuMemcpyDtoDAsync_v2(to, from, LEN * 4, raw.cu_stream()) };
            assert_eq!(answer, CUresult::CUDA_SUCCESS);
        }));
        copies.push(time(&mut || copy.launch_with(options, grid, (&x, &mut y)).unwrap()));
        axpys.push(time(&mut || axpy.launch_with(options, grid, (2.0, &x, &mut y)).unwrap()));
    }
    let bytes = (LEN * 4) as f64;
    let speed = |times: &[f64], passes: f64| bytes * passes / median(times.to_vec()) / 1e9;
    let ratio = |times: &[f64], passes: f64| {
        median(driver.iter().zip(times).map(|(driver, t)| driver / 2.0 / (t / passes)).collect())
    };
    println!("driver's copy: {:.0} GB/s", speed(&driver, 2.0));
    for (name, times, passes) in [("copy", &copies, 2.0), ("axpy", &axpys, 3.0)] {
        let (speed, ratio) = (speed(times, passes), ratio(times, passes));
        println!("{name}: {speed:.0} GB/s, {ratio:.3} x the driver's copy (bar 0.95)");
    }
}
