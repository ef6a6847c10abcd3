//! Multiplies two `bf16` matrices with a configuration that the library chooses:
//! `cargo run --example gemm`.
//!
//! D = A B with `f32` accumulators. A is M x K and D is M x N, both row-major; B is K x N with K
//! contiguous.

use std::error::Error;

use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem, Machine};
use tilewright::prelude::*;

/// Multiplies on the device and compares the corners of D with the host.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let (m, n, k) = (200, 136, 72);
    let problem = GemmProblem::new(m, n, k);
    // The operand types; `best` chooses tile, stages and schedule for the problem and the target.
    let types =
        GemmConfig { target: device.target(), ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    let config = types.best(&problem, &Machine::of(device))?;
    let gemm = Gemm::<bf16>::new(config)?.load(device)?;

    let [m, n, k] = [m, n, k].map(usize::try_from);
    let (m, n, k) = (m?, n?, k?);
    // Small integers, so that every product and every sum is exact.
    let element = |i: usize| bf16::from_f32((i * 7 % 5) as f32 - 2.0);
    let a: Vec<bf16> = (0..m * k).map(element).collect();
    let b: Vec<bf16> = (0..n * k).map(|i| element(i + 3)).collect();
    let mut d = device.zeros::<bf16>(m * n)?;
    gemm.launch(&problem, GemmArgs::new(&device.upload(&a)?, &device.upload(&b)?, &mut d))?;

    let d = d.to_vec()?;
    for (row, column) in [(0, 0), (0, n - 1), (m - 1, 0), (m - 1, n - 1), (m / 2, n / 2)] {
        let products = (0..k).map(|i| a[row * k + i].to_f32() * b[column * k + i].to_f32());
        let expected = bf16::from_f32(products.sum());
        assert_eq!(d[row * n + column], expected, "D({row}, {column}) of {config}");
    }
    println!("{m} x {n} x {k} on {} with {config}", device.name());
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&Device::default()?)
}
