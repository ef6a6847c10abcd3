//! Measures the cost of race detection with products of the library.
//!
//! `cargo test --release --test mutants speed -- --ignored --nocapture`

use std::time::Instant;

use tilewright::ir::{Element, Number, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright::sim::Options;

const RUNS: u32 = 5;

/// Returns the seconds of a product of `size x size x size` on one thread, with race detection or
/// without: the shortest of `RUNS` runs.
fn product<T: Element + Number>(name: &str, size: u32, race: bool) -> f64 {
    let config: GemmConfig = name.parse().unwrap();
    let options = Options::default().target(config.target).threads(1).race(race);
    let device = Device::sim_with(options);
    let function = Gemm::<T>::new(config).unwrap().load(&device).unwrap();
    let len = (size * size) as usize;
    let (a, b) = (device.zeros::<T>(len).unwrap(), device.zeros::<T>(len).unwrap());
    let mut d = device.zeros::<T>(len).unwrap();
    let problem = GemmProblem::new(size, size, size);
    let mut launch = function.prepare(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
    let mut once = || {
        let start = Instant::now();
        launch.launch().unwrap();
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// The bars are those of docs/evidence/sanitizer.md.
#[test]
#[ignore = "it measures a release build"]
fn cost_of_race_detection() {
    let sm_80 = "sm80_bf16_tn_128x128x64_s3_ms_strip8_direct_a8";
    let sm_90 = "sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped";
    let simt = "sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4";
    type Product = fn(&str, u32, bool) -> f64;
    let cases: [(&str, u32, f64, Product); 3] = [
        (sm_80, 512, 10.0, product::<bf16>),
        (sm_90, 512, 20.0, product::<bf16>),
        (simt, 128, 10.0, product::<f32>),
    ];
    for (name, size, most, run) in cases {
        let [with, without] = [true, false].map(|race| run(name, size, race));
        let ratio = with / without;
        println!("{name} {size}: {with:.2} s with races, {without:.2} s without: {ratio:.2} x");
        assert!(with <= most && ratio <= 5.0, "{name}");
    }
}
