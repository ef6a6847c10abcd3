//! A whole kernel: tiles, shared memory, barriers, register variables.

#[path = "../../benches/kernels/gemm_simt.rs"]
mod gemm_simt;

use std::time::Instant;

use tilewright::ir::Element;
use tilewright::runtime::sim::{Arg, Buffer, Options, Order, run};

/// Small integers, so that every sum is exact and independent of its order.
fn matrix(rows: usize, cols: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as f32 % 9.0 - 4.0
    };
    (0..rows * cols).map(|_| next()).collect()
}

fn check_gemm([m, n, k]: [usize; 3], options: &Options) {
    let (a, b) = (matrix(m, k, 1), matrix(k, n, 2));
    let c = Buffer::from_slice(&vec![f32::NAN; m * n]);
    let kernel = gemm_simt::gemm().unwrap();
    let (da, db) = (Buffer::from_slice(&a), Buffer::from_slice(&b));
    let int = |x: usize| Arg::Scalar((x as i32).to_const());
    let args = [Arg::Buffer(&da), Arg::Buffer(&db), Arg::Buffer(&c), int(m), int(n), int(k)];
    let start = Instant::now();
    let report = run(kernel.ir(), gemm_simt::grid(m as u32, n as u32), &args, options).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let rate = report.thread_ops as f64 / seconds / 1e6;
    println!(
        "{m}x{n}x{k}: {:.3} s, {} thread operations, {rate:.0} M/s",
        seconds, report.thread_ops
    );
    let c = c.to_vec::<f32>();
    for i in 0..m {
        for j in 0..n {
            let sum: f32 = (0..k).map(|q| a[i * k + q] * b[q * n + j]).sum();
            assert_eq!(c[i * n + j], sum, "element ({i}, {j})");
        }
    }
}

#[test]
fn gemm_is_exact_on_small_integers() {
    check_gemm([64, 128, 48], &Options::default());
}

#[test]
fn gemm_does_not_depend_on_the_order_of_warps() {
    for seed in 0..3 {
        check_gemm([64, 64, 32], &Options::default().order(Order::Random { seed }));
    }
}

/// The sizes of the speed goals. In a build without optimisation they take their time, so they run on
/// request.
#[test]
fn gemm_of_useful_size() {
    if std::env::var_os("TILEWRIGHT_SLOW").is_none() {
        println!("skipped: set TILEWRIGHT_SLOW to run it");
        return;
    }
    check_gemm([256, 256, 256], &Options::default());
    check_gemm([512, 512, 512], &Options::default());
}
