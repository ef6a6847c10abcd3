//! Measures the simulator's speed in thread-operations per second, on one host thread.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run has no figure")]

#[path = "support/rate.rs"]
mod rate;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rate::Flops;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Body, Global, GlobalMut, Kernel, Number, Target, Val, bf16, range};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::{GlobalBuffer, KernelArg, Options, Program};

/// A kernel that applies `step` 1000 times to a loop's carried value.
fn repeated<T: tilewright::ir::Number>(
    step: impl for<'b> Fn(&mut Body<'b, '_>, Val<'b, Global<T>>, Val<'b, T>) -> Val<'b, T>,
) -> Program {
    let kernel =
        Kernel::<(Global<T>, GlobalMut<T>)>::build("repeated", Target::SM_80, |k, (x, y)| {
            let t = k.thread_idx().x;
            let first = x.load(t);
            let last = k.for_(range(0, 125), first, |k, _, mut v| {
                for _ in 0..8 {
                    v = step(k, x, v);
                }
                v
            });
            y.store(t, last);
        });
    Program::new(kernel.expect("it is correct").ir()).expect("it is verified")
}

/// Runs one block of 256 threads on one host thread.
fn bench_repeated<T: tilewright::ir::Number>(
    c: &mut Criterion,
    name: &str,
    step: impl for<'b> Fn(&mut Body<'b, '_>, Val<'b, Global<T>>, Val<'b, T>) -> Val<'b, T>,
) {
    let program = repeated(step);
    let (x, y) = (GlobalBuffer::zeros(256 * 8), GlobalBuffer::zeros(256 * 8));
    let options = Options::default().threads(1);
    let run = || {
        let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&y)];
        program.run(Grid::new([1, 1, 1], [256, 1, 1]), &args, &options).expect("it runs")
    };
    let mut group = c.benchmark_group("sim");
    group.throughput(Throughput::Elements(run().thread_ops));
    group.bench_function(name, |b| b.iter(run));
    group.finish();
}

fn operations(c: &mut Criterion) {
    bench_repeated::<i32>(c, "add i32", |_, _, v| v + 1);
    bench_repeated::<i64>(c, "add i64", |_, _, v| v + 1);
    bench_repeated::<f32>(c, "add f32", |_, _, v| v + 1.0);
    bench_repeated::<f32>(c, "fma f32", |_, _, v| v.fma(0.5, 1.0));
    bench_repeated::<i32>(c, "div i32", |_, _, v| v / 3);
    bench_repeated::<i32>(c, "compare and select", |_, _, v| v.lt(5).select(v, 1));
    bench_repeated::<i32>(c, "load i32", |_, x, v| x.load(v));
    bench_repeated::<i32>(c, "if", |k, _, v| k.if_with(v.gt(3), v, |_| v));
    bench_repeated::<f32>(c, "register variable", |k, _, v| {
        let register = k.var(v);
        register.get()
    });
}

/// Runs the library's GEMMs, one kernel of each kind.
fn gemm(c: &mut Criterion<Flops>) {
    let mut group = c.benchmark_group("sim");
    group.sample_size(10);
    let simt = GemmConfig { tile: [64, 64, 16], ..GemmConfig::simt(Target::SM_80, Scalar::F32) };
    product::<f32>(&mut group, "simt f32 gemm 128", simt, 128, |x| x);
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    product::<bf16>(&mut group, "sm_80 gemm 512", sm80, 512, bf16::from_f32);
    let sm90 = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    product::<bf16>(&mut group, "sm_90a gemm 512", sm90, 512, bf16::from_f32);
    group.finish();
}

/// Runs one GEMM on two host threads.
fn product<T: Number>(
    group: &mut BenchmarkGroup<'_, Flops>,
    name: &str,
    config: GemmConfig,
    size: u32,
    number: impl Fn(f32) -> T,
) {
    let device = Device::sim_with(Options::default().threads(2));
    let len = (size * size) as usize;
    let matrix = |step: usize| -> Vec<T> {
        (0..len).map(|i| number(((i * step) % 17) as f32 - 8.0)).collect()
    };
    let a = device.upload(&matrix(7)).expect("it fits");
    let b = device.upload(&matrix(11)).expect("it fits");
    let mut d = device.zeros::<T>(len).expect("it fits");
    let problem = GemmProblem::new(size, size, size);
    let gemm = Gemm::<T>::new(config).expect("it is correct");
    let function = gemm.load(&device).expect("it is verified");
    group.throughput(Throughput::Elements(2 * u64::from(size).pow(3)));
    group.bench_function(name, |bencher| {
        bencher.iter(|| function.launch(&problem, GemmArgs::new(&a, &b, &mut d)));
    });
}

criterion_group!(benches, operations);
criterion_group! {
    name = products;
    config = Criterion::default().with_measurement(Flops);
    targets = gemm
}
criterion_main!(benches, products);
