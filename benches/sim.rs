//! Speed of the simulator in thread-operations per second, on one thread of the host.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot run has no figure")]

#[path = "kernels/gemm_simt.rs"]
mod gemm_simt;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "kernels/gemm_sm80.rs"]
mod gemm_sm80;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "kernels/gemm_sm90.rs"]
mod gemm_sm90;
#[path = "support/rate.rs"]
mod rate;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rate::Flops;
use tilewright::ir::{Body, Element, Global, GlobalMut, Kernel, Target, Val, bf16, range};
use tilewright::runtime::sim::{Arg, Buffer, Options, Program};
use tilewright::runtime::{Device, Grid};

/// `step` applied 1000 times to the carried value of a loop.
fn repeated<T: tilewright::ir::Number>(
    step: impl for<'b> Fn(&mut Body<'b, '_>, Val<'b, Global<T>>, Val<'b, T>) -> Val<'b, T>,
) -> Program {
    let kernel =
        Kernel::<(Global<T>, GlobalMut<T>)>::build("repeated", Target::SM_80, |k, (x, y)| {
            let t = k.thread_idx().x;
            let first = x.load(k, t);
            let last = k.for_(range(0, 125), first, |k, _, mut v| {
                for _ in 0..8 {
                    v = step(k, x, v);
                }
                v
            });
            y.store(k, t, last);
        });
    Program::new(kernel.expect("it is correct").ir()).expect("it is verified")
}

/// One block of 256 threads on one thread of the host.
fn bench_repeated<T: tilewright::ir::Number>(
    c: &mut Criterion,
    name: &str,
    step: impl for<'b> Fn(&mut Body<'b, '_>, Val<'b, Global<T>>, Val<'b, T>) -> Val<'b, T>,
) {
    let program = repeated(step);
    let (x, y) = (Buffer::zeros(256 * 8), Buffer::zeros(256 * 8));
    let options = Options::default().threads(1);
    let run = || {
        let args = [Arg::Buffer(&x), Arg::Buffer(&y)];
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
    bench_repeated::<i32>(c, "load i32", |k, x, v| x.load(k, v));
    bench_repeated::<i32>(c, "if", |k, _, v| k.if_with(v.gt(3), v, |_| v));
    bench_repeated::<f32>(c, "register variable", |k, _, v| {
        let register = k.var(v);
        register.get(k)
    });
}

fn gemm(c: &mut Criterion) {
    let (m, n, depth) = (128, 128, 128);
    let kernel = gemm_simt::gemm().expect("it is correct");
    let program = Program::new(kernel.ir()).expect("it is verified");
    let (a, b) = (vec![1.0f32; m * depth], vec![1.0f32; depth * n]);
    let (a, b) = (Buffer::from_slice(&a), Buffer::from_slice(&b));
    let out = Buffer::zeros(m * n * 4);
    let int = |x: usize| Arg::Scalar((x as i32).to_const());
    let options = Options::default().threads(1);
    let run = || {
        let args =
            [Arg::Buffer(&a), Arg::Buffer(&b), Arg::Buffer(&out), int(m), int(n), int(depth)];
        program.run(gemm_simt::grid(m as u32, n as u32), &args, &options).expect("it runs")
    };
    let mut group = c.benchmark_group("sim");
    group.sample_size(10);
    group.throughput(Throughput::Elements(run().thread_ops));
    group.bench_function("gemm f32 128x128x128", |b| b.iter(run));
    group.finish();
}

/// The products with tensor cores at 512 cubed, on two threads of the host.
fn tensor_cores(c: &mut Criterion<Flops>) {
    const SIZE: usize = 512;
    let device = Device::sim_with(Options::default().threads(2));
    let matrix = |seed: usize| -> Vec<bf16> {
        (0..SIZE * SIZE).map(|i| bf16::from_f32(((i * seed) % 17) as f32 - 8.0)).collect()
    };
    let a = device.upload(&matrix(7)).expect("it fits");
    let b = device.upload(&matrix(11)).expect("it fits");
    let mut c_buffer = device.zeros::<bf16>(SIZE * SIZE).expect("it fits");
    let sizes = [SIZE as u32; 3];
    let mut group = c.benchmark_group("sim");
    group.sample_size(10).throughput(Throughput::Elements(2 * (SIZE as u64).pow(3)));

    let config = gemm_sm80::Config { target: Target::SM_80, bm: 128, bn: 128, stages: 3, strip: 8 };
    let f = device.load(&gemm_sm80::gemm(config).expect("it is correct")).expect("it is verified");
    let n = SIZE as i32;
    group.bench_function("sm_80 gemm 512", |bencher| {
        bencher.iter(|| f.launch(config.grid(sizes), (&a, &b, &mut c_buffer, n, n, n)));
    });

    let config = gemm_sm90::Config {
        bm: 128,
        bn: 128,
        stages: 4,
        strip: 4,
        epilogue: gemm_sm90::Epilogue::Chunks,
        cluster: 1,
        programmatic: true,
    };
    let f = device.load(&gemm_sm90::gemm(config).expect("it is correct")).expect("it is verified");
    let [a_map, b_map, c_map] = config.maps(sizes).expect("there are such maps");
    let (a, b) = (a.tensor_map(&a_map).expect("it fits"), b.tensor_map(&b_map).expect("it fits"));
    let mut map = c_buffer.tensor_map_mut(&c_map).expect("it fits");
    let [rows, columns, depth] = config.tiles(sizes);
    group.bench_function("sm_90a gemm 512", |bencher| {
        bencher.iter(|| f.launch(config.grid(sizes, 2), (&a, &b, &mut map, rows, columns, depth)));
    });
    group.finish();
}

criterion_group!(benches, operations, gemm);
criterion_group! {
    name = products;
    config = Criterion::default().with_measurement(Flops);
    targets = tensor_cores
}
criterion_main!(benches, products);
