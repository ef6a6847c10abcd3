//! Measures the ceiling for `mma.sync`: what a GPU reaches if it only multiplies registers.
//! `cargo bench --bench mma`.
//!
//! Each warp holds the operands of a GEMM's warp tile in registers, normally distributed, and
//! multiplies them into its accumulators again and again, so that no MMA waits for the previous
//! one. A window is one launch of about a millisecond after a rest of 40 ms, at a nearly full
//! clock. Prints the median window and the fastest.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark ends with the message")]

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector, bf16, range};
use tilewright::runtime::{Device, Grid, LaunchOptions};

/// Operands in words, accumulators, and how often all MMAs are repeated.
type Signature = (Global<u32>, GlobalMut<f32>, i32);

/// Floating-point operations per instruction.
const FLOP: f64 = 2.0 * 16.0 * 8.0 * 16.0;
/// How often the loop body repeats all MMAs, so that the loop's branch does not matter.
const UNROLLED: i32 = 4;

/// A kernel whose warps multiply `rows` A operands of 16 rows with `columns` B operands of 8
/// columns.
fn kernel(target: Target, [rows, columns]: [u32; 2], threads: u32) -> Kernel<Signature> {
    let name = format!("mma_{}x{}", 16 * rows, 8 * columns);
    Kernel::<Signature>::build(&name, target, |k, (words, out, steps)| {
        let thread = k.thread_idx().x;
        let word = |i: u32| words.load(thread + i * threads);
        let of_a = |i: u32| Val::pack([0, 1, 2, 3].map(|w| word(4 * i + w)));
        let of_b = |i: u32| Val::pack([0, 1].map(|w| word(4 * rows + 2 * i + w)));
        let a: Vec<Val<'_, Vector<bf16, 8>>> = (0..rows).map(|i| of_a(i).bitcast()).collect();
        let b: Vec<Val<'_, Vector<bf16, 4>>> = (0..columns).map(|i| of_b(i).bitcast()).collect();
        let sums = k.registers::<f32>(4 * rows * columns);
        sums.fill(0.0);
        k.for_(range(0, steps), (), |k, _, ()| {
            for _ in 0..UNROLLED {
                for (j, b) in (0..).zip(&b) {
                    for (i, a) in (0..).zip(&a) {
                        k.mma_sync(&sums.part(4 * (j * rows + i), 4), *a, *b);
                    }
                }
            }
        });
        let total = (1..sums.len()).fold(sums.get(0), |sum, i| sum + sums.get(i));
        out.store(k.block_idx().x * threads + thread, total);
    })
    .unwrap()
}

/// Returns normally distributed values, two per word.
fn operands(count: usize) -> Vec<u32> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut normal = || {
        let (u, v): (f32, f32) = (rng.random(), rng.random());
        let number = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f32::consts::TAU * v).cos();
        u32::from(bf16::from_f32(number).to_bits())
    };
    (0..count).map(|_| normal() | normal() << 16).collect()
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("no figures: {error}"),
    };
    println!("{device}, CUDA {}, {}", device.cuda_version().unwrap(), device.target());
    let sms = device.properties().unwrap().sm_count;
    let stream = device.stream().unwrap();
    for (tile, threads) in [([4, 8], 128), ([4, 8], 256), ([2, 4], 256), ([2, 4], 512)] {
        let kernel = device.load(&kernel(device.target(), tile, threads)).unwrap();
        let [rows, columns] = tile;
        let words = operands(((4 * rows + 2 * columns) * threads) as usize);
        let words = device.upload(&words).unwrap();
        let mut out = device.zeros::<f32>((sms * threads) as usize).unwrap();
        let grid = Grid::new([sms, 1, 1], [threads, 1, 1]);
        let mut run = |steps: i32| {
            let begin = stream.record().unwrap();
            let options = LaunchOptions::default().stream(&stream);
            kernel.launch_with(options, grid, (&words, &mut out, steps)).unwrap();
            let end = stream.record().unwrap();
            end.synchronize().unwrap();
            begin.elapsed_until(&end).unwrap().as_secs_f64()
        };
        run(64);
        let steps = (64.0 * 1e-3 / run(64)) as i32;
        let products = f64::from(sms * threads / 32) * (rows * columns) as f64;
        let flop = products * f64::from(UNROLLED * steps) * FLOP;
        let mut rates: Vec<f64> = (0..15)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(40));
                flop / run(steps) / 1e12
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "m16n8k16 of bf16, {} warps an SM, {}x{} each: {:.1} TFLOP/s, the fastest {:.1}",
            threads / 32,
            16 * rows,
            8 * columns,
            rates[rates.len() / 2],
            rates[rates.len() - 1]
        );
    }
}
