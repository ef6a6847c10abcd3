//! Measures the library's GEMMs: `cargo bench --bench gemm`.
//!
//! It times the way from a configuration to PTX text, the simulator and, if there is one, a GPU. To
//! compare with cuBLAS, use `tilewright bench gemm`.
//!
//! Bars on the host: any configuration is built, verified and written in 10 ms, and 2 threads do
//! 200 of them in 10 s. The benchmark says whether they are met.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark ends with the message")]

#[path = "support/rate.rs"]
mod rate;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rate::Flops;
use rayon::prelude::*;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright_tune::{GemmModel, GemmSpace, Machine, Regime};

/// Returns the configurations for `bf16` on Hopper that can be built.
fn configs(problem: &GemmProblem) -> Vec<GemmConfig> {
    let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
    let all = space.configs(problem, &Machine::H200).into_iter();
    all.filter(|config| config.is_warp_specialised()).collect()
}

/// Returns the model's first configuration.
fn first(problem: &GemmProblem) -> GemmConfig {
    let ranked = GemmModel::H200.rank(&configs(problem), problem, Regime::Burst);
    ranked.first().expect("there are configurations").0
}

fn emit(config: GemmConfig) -> usize {
    Gemm::<bf16>::new(config).expect("it is valid").ptx().text().len()
}

fn build(c: &mut Criterion<Flops>) {
    let problem = GemmProblem::new(4096, 4096, 4096);
    let all = configs(&problem);
    let fastest = |config: &GemmConfig| {
        let one = || {
            let begin = Instant::now();
            black_box(emit(*config));
            begin.elapsed()
        };
        (0..3).map(|_| one()).min().unwrap_or(Duration::ZERO)
    };
    let slowest = all.iter().map(|config| (fastest(config), *config)).max_by_key(|one| one.0);
    let (longest, slowest) = slowest.expect("there are configurations");
    println!(
        "{} configurations; the slowest, {slowest}, is built and written in {longest:.2?} (bar 10 ms)",
        all.len()
    );
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("there are threads");
    let begin = Instant::now();
    let written: usize = two.install(|| all.par_iter().take(200).map(|config| emit(*config)).sum());
    println!("200 of them, {written} bytes, by 2 threads in {:.2?} (bar 10 s)", begin.elapsed());

    let mut group = c.benchmark_group("gemm to PTX");
    group.sample_size(20);
    for config in [first(&GemmProblem::new(512, 512, 512)), first(&problem), slowest] {
        group.bench_function(BenchmarkId::from_parameter(config), |b| {
            b.iter(|| emit(black_box(config)));
        });
    }
    group.finish();
}

fn simulate(c: &mut Criterion<Flops>) {
    let device = Device::sim().expect("there is the simulator");
    let mut group = c.benchmark_group("gemm on the simulator");
    let size = 256;
    let problem = GemmProblem::new(size, size, size);
    group.sample_size(10).throughput(Throughput::Elements(problem.flops()));
    for tile in [[128, 256], [256, 200], [64, 64]] {
        let config = GemmConfig::sm90(Scalar::Bf16, tile);
        let gemm = Gemm::<bf16>::new(config).expect("it is valid").load(&device).expect("it loads");
        let len = (size * size) as usize;
        let ones = vec![bf16::from_f32(1.0); len];
        let (a, b) = (device.upload(&ones), device.upload(&ones));
        let (a, b) = (a.expect("there is memory"), b.expect("there is memory"));
        let mut d = device.zeros::<bf16>(len).expect("there is memory");
        group.bench_function(BenchmarkId::new("256", config), |bencher| {
            bencher.iter(|| {
                gemm.launch(&problem, GemmArgs::new(&a, &b, &mut d)).expect("it runs");
            });
        });
    }
    group.finish();
}

fn gpu(c: &mut Criterion<Flops>) {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("no figures of a GPU: {error}"),
    };
    let mut group = c.benchmark_group("gemm on the GPU");
    for size in [1024u32, 4096] {
        let problem = GemmProblem::new(size, size, size);
        let config = first(&problem);
        let gemm = Gemm::<bf16>::new(config).expect("it is valid").load(&device).expect("it loads");
        let len = (size * size) as usize;
        // Not zeros, because zeros draw less power and so run at a higher clock.
        let numbers: Vec<bf16> =
            (0..len).map(|i| bf16::from_f32(((i * 37 % 101) as f32 - 50.0) / 25.0)).collect();
        let (a, b) = (device.upload(&numbers), device.upload(&numbers));
        let (a, b) = (a.expect("there is memory"), b.expect("there is memory"));
        let mut d = device.zeros::<bf16>(len).expect("there is memory");
        let args = GemmArgs::new(&a, &b, &mut d);
        let mut launch = gemm.prepare(&problem, args).expect("it takes the problem");
        group.throughput(Throughput::Elements(problem.flops()));
        group.bench_function(BenchmarkId::new(size.to_string(), config), |bencher| {
            bencher.iter_custom(|times| {
                (0..times).map(|_| launch.time().expect("it runs").elapsed).sum()
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Flops);
    targets = build, simulate, gpu
}
criterion_main!(benches);
