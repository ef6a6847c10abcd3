//! Computes the softmax of each row of a matrix with one thread block per row:
//! `cargo run --example softmax`.
//!
//! `y(i) = exp(x(i) - max x) / sum exp(x - max x)`. Each thread keeps its elements in registers, so
//! a row is read once.

use std::error::Error;

use tilewright::ir::{BuildErrors, Global, GlobalMut, Group, Kernel, KernelOptions, Target};
use tilewright::runtime::{Device, Grid};

/// Threads per block.
const THREADS: u32 = 64;
/// Row elements per thread, so rows can have up to `THREADS * PER_THREAD` columns.
const PER_THREAD: u32 = 4;

/// The input rows, the result, and the column count.
type Params = (Global<f32>, GlobalMut<f32>, i32);

fn kernel(target: Target) -> Result<Kernel<Params>, BuildErrors> {
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    Kernel::<Params>::build_with(options, "softmax", target, |k, (x, y, columns)| {
        let (row, thread) = (k.block_idx().x * columns, k.thread_idx().x);
        // Neighbouring threads read neighbouring elements. Elements past the end of the row are
        // -inf, so that exp gives 0.
        let mut values = Vec::new();
        for i in 0..PER_THREAD {
            let column = thread + i * THREADS;
            values.push(k.if_else(
                column.lt(columns),
                |k| {
                    let value = x.load(row + column);
                    k.yield_(value)
                },
                |k| k.yield_(f32::NEG_INFINITY),
            ));
        }
        let largest = values[1..].iter().fold(values[0], |largest, v| largest.max(*v));
        let largest = k.max(Group::Block, largest);
        let powers: Vec<_> = values.iter().map(|v| (*v - largest).exp_fast()).collect();
        let sum = powers[1..].iter().fold(powers[0], |sum, power| sum + *power);
        let scale = k.sum(Group::Block, sum).recip_fast();
        for (i, power) in (0..).zip(powers) {
            let column = thread + i * THREADS;
            k.if_(column.lt(columns), |_| y.store(row + column, power * scale));
        }
    })
}

/// Computes the rows on the device and compares them with the host.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let (rows, columns) = (5u32, 150u32);
    let x: Vec<f32> = (0..rows * columns).map(|i| (i * 37 % 101) as f32 / 10.0 - 5.0).collect();
    let input = device.upload(&x)?;
    let mut y = device.zeros::<f32>(x.len())?;
    let grid = Grid::new([rows, 1, 1], [THREADS, 1, 1]);
    let args = (&input, &mut y, i32::try_from(columns)?);
    device.load(&kernel(device.target())?)?.launch(grid, args)?;
    let y = y.to_vec()?;
    let line = usize::try_from(columns)?;
    for (x, y) in x.chunks(line).zip(y.chunks(line)) {
        let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = x.iter().map(|x| f64::from(x - largest).exp()).sum();
        for (x, y) in x.iter().zip(y) {
            let expected = f64::from(x - largest).exp() / sum;
            assert!((f64::from(*y) - expected).abs() < 1e-5 * expected, "{y}, not {expected}");
        }
    }
    println!("the softmax of {rows} rows of {columns} is right on {}", device.name());
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&Device::default()?)
}
