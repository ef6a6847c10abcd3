//! Measures the time that race detection takes: run it in a release build.

use std::time::Instant;

use tilewright::ir::types::Scalar;
use tilewright::ir::{Number, Target, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright::sim::Options;

/// Returns the seconds of one product of `size` cubed on one thread of the host: the shortest of `runs` runs.
fn seconds<T: Number>(
    config: GemmConfig,
    size: u32,
    (race, runs): (bool, u32),
    number: impl Fn(f32) -> T,
) -> f64 {
    let device = Device::sim_with(Options::default().threads(1).race(race));
    let len = (size * size) as usize;
    let matrix = |step: usize| -> Vec<T> {
        (0..len).map(|i| number(((i * step) % 17) as f32 - 8.0)).collect()
    };
    let (a, b) = (device.upload(&matrix(7)).unwrap(), device.upload(&matrix(11)).unwrap());
    let mut d = device.zeros::<T>(len).unwrap();
    let problem = GemmProblem::new(size, size, size);
    let function = Gemm::<T>::new(config).unwrap().load(&device).unwrap();
    let mut once = || {
        let start = Instant::now();
        function.launch(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn row<T: Number>(
    name: &str,
    config: GemmConfig,
    size: u32,
    number: impl Fn(f32) -> T + Copy,
) -> (f64, f64) {
    let without = seconds(config, size, (false, 3), number);
    let with = seconds(config, size, (true, 2), number);
    println!("| {name} | {without:.2} s | {with:.2} s | {:.1} |", with / without);
    (without, with)
}

/// The bars are those of docs/evidence/sanitizer.md.
#[test]
#[ignore = "a measurement: cargo test --release --test mutants speed -- --ignored --nocapture"]
fn speed() {
    println!("| product | without races | with races | ratio |\n|---|---:|---:|---:|");
    let simt = GemmConfig { tile: [64, 64, 16], ..GemmConfig::simt(Target::SM_80, Scalar::F32) };
    let simt = row::<f32>("SIMT, f32, 128 cubed", simt, 128, |x| x);
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    let sm80 = row::<bf16>("sm_80, bf16, 512 cubed", sm80, 512, bf16::from_f32);
    let sm90 = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let sm90 = row::<bf16>("sm_90a, bf16, 512 cubed", sm90, 512, bf16::from_f32);
    assert!(sm90.1 <= 20.0 && sm80.1 <= 10.0, "seconds with races");
    for (without, with) in [simt, sm80, sm90] {
        assert!(with <= 5.0 * without, "{with} s with races, {without} s without");
    }
}
