//! `examples/hopper_gemm.rs` beside cuBLAS: bursts of ten launches, ours and cuBLAS's in turn.

#[path = "../examples/hopper_gemm.rs"]
mod hopper_gemm;

use std::error::Error;
use std::time::Duration;

use hopper_gemm::{Launch, Plan, kernel};
use tilewright::arch::Major;
use tilewright::ir::bf16;
use tilewright::ir::types::Scalar;
use tilewright::runtime::{Cublas, Device, LaunchOptions, Matmul};

/// Prints the rate for square matrices of random normal values, as a ratio to cuBLAS.
fn measure(device: &Device, size: u32) -> Result<(), Box<dyn Error>> {
    const BURST: u32 = 10;
    let plan = Plan::new()?;
    let mut bits = 0x9e37_79b9_u32;
    let mut uniform = || {
        bits ^= bits << 13;
        bits ^= bits >> 17;
        bits ^= bits << 5;
        bits as f32 / u32::MAX as f32 - 0.5
    };
    // The sum of four uniform numbers is close to a normal one.
    let mut normal = || bf16::from_f32((0..4).map(|_| uniform()).sum::<f32>() * 1.73);
    let len = usize::try_from(size)?.pow(2);
    let a = device.upload(&(0..len).map(|_| normal()).collect::<Vec<_>>())?;
    let b = device.upload(&(0..len).map(|_| normal()).collect::<Vec<_>>())?;
    let (mut d, mut by_cublas) = (device.zeros(len)?, device.zeros::<bf16>(len)?);
    let function = device.load(&kernel(&plan)?)?;
    let (cublas, stream) = (Cublas::open(device)?, device.stream()?);
    let matmul = Matmul {
        sizes: [size; 3],
        a: Major::K,
        b: Major::K,
        inputs: [Scalar::Bf16; 2],
        output: Scalar::Bf16,
    };
    let mut launch = Launch::new(device, &plan, [size; 3], &a, &b, &mut d)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        for is_ours in [true, false] {
            // A short rest between the bursts: large GEMMs are limited by power.
            std::thread::sleep(Duration::from_millis(30));
            let mut begin = stream.record()?;
            for i in 0..=BURST {
                if i == 1 {
                    begin = stream.record()?;
                }
                if is_ours {
                    let options = LaunchOptions::default().stream(&stream);
                    let args = (&launch.a, &launch.b, &mut launch.d, launch.sizes);
                    function.launch_with(options, launch.grid, args)?;
                } else {
                    cublas.gemm(&matmul, &stream, &a, &b, &mut by_cublas)?;
                }
            }
            let end = stream.record()?;
            end.synchronize()?;
            let elapsed = begin.elapsed_until(&end)?.as_secs_f64() / f64::from(BURST);
            if is_ours { ours.push(elapsed) } else { theirs.push(elapsed) }
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    let rate = |seconds: f64| 2.0 * f64::from(size).powi(3) / seconds / 1e12;
    println!(
        "{size}^3 on {}: {:.0} TFLOP/s, cuBLAS {:.0} TFLOP/s, {:.3}x cuBLAS",
        device.name(),
        rate(ours),
        rate(theirs),
        theirs / ours
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    if device.is_sim() {
        println!("needs a GPU");
        return Ok(());
    }
    for size in [4096, 8192] {
        measure(&device, size)?;
    }
    Ok(())
}
