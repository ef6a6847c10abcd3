//! Measures the cost of race detection with products of the library.
//!
//! `cargo test --release --test mutants speed -- --ignored --nocapture`

use std::time::{Duration, Instant};

use tilewright::ir::{Element, Number, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright::sim::Options;

/// Returns the time of a product of `size x size x size` on two threads, with race detection or without.
fn product<T: Element + Number>(name: &str, size: u32, race: bool) -> Duration {
    let config: GemmConfig = name.parse().unwrap();
    let options = Options::default().target(config.target).threads(2).race(race);
    let device = Device::sim_with(options);
    let function = Gemm::<T>::new(config).unwrap().load(&device).unwrap();
    let len = (size * size) as usize;
    let (a, b) = (device.zeros::<T>(len).unwrap(), device.zeros::<T>(len).unwrap());
    let mut d = device.zeros::<T>(len).unwrap();
    let problem = GemmProblem::new(size, size, size);
    let mut launch = function.prepare(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
    let start = Instant::now();
    launch.launch().unwrap();
    start.elapsed()
}

#[test]
#[ignore = "it measures"]
fn cost_of_race_detection() {
    let sm_80 = "sm80_bf16_tn_128x128x64_s3_ms_strip8_direct_a8";
    let sm_90 = "sm90a_bf16_tn_128x256x64_s4_coop_strip8_deferred";
    let simt = "sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4";
    let cases: [(&str, u32, fn(&str, u32, bool) -> Duration); 3] =
        [(sm_80, 512, product::<bf16>), (sm_90, 512, product::<bf16>), (simt, 128, product::<f32>)];
    for (name, size, run) in cases {
        let [with, without] = [true, false].map(|race| run(name, size, race).as_secs_f64());
        println!(
            "{name} {size}: {with:.2} s with races, {without:.2} s without: {:.2} x",
            with / without
        );
    }
}
