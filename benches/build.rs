//! Measures the time per operation from a closure to PTX text.
//!
//! Kernels have 5,000 and 50,000 operations, because no step may take time that grows faster than
//! the kernel.

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tilewright::ir::{Body, Global, GlobalMut, Kernel, Target, Val, range};

type Signature = (Global<f32>, GlobalMut<f32>, i32);

/// About 50 operations of all kinds: addresses, accumulators, branches, and a loop with a `break`.
fn block<'b>(
    k: &mut Body<'b, '_>,
    (x, y, n): (Val<'b, Global<f32>>, Val<'b, GlobalMut<f32>>, Val<'b, i32>),
    number: i32,
) {
    let i = k.thread_idx().x * 4 + number;
    let acc = k.registers::<f32>(4);
    let v = [0, 1, 2, 3].map(|j| x.load(i + j));
    for (j, v) in (0..).zip(v) {
        acc.set(j, v * 0.5);
    }
    let sum = k.if_else(i.lt(n), |k| k.yield_(v[0] + v[1]), |k| k.yield_(v[2].max(v[3])));
    let (a, _) = k.for_loop(range(0, n), (sum, v[0]), |k, lp, j, (a, b)| {
        let w = x.load(j);
        for r in 0..4 {
            let old = acc.get(r);
            acc.set(r, w.fma(a, old));
        }
        k.if_(w.gt(b), |k| lp.break_(k, (b, a)));
        lp.continue_(k, (b, a + w))
    });
    k.if_((i & 3).eq(0), |_| y.store(i, a + acc.get(0)));
    y.store(i, acc.get(1) + acc.get(3));
}

fn kernel(blocks: i32) -> Kernel<Signature> {
    Kernel::build("bench", Target::SM_90A, |k, (x, y, n)| {
        for number in 0..blocks {
            block(k, (x, y, n), number);
        }
    })
    .unwrap_or_else(|errors| unreachable!("{errors}"))
}

fn measure(c: &mut Criterion) {
    let per_block = kernel(1).ir().ops.len();
    for ops in [5_000, 50_000] {
        let blocks = (ops / per_block) as i32;
        let built = kernel(blocks);
        let count = built.ir().ops.len();
        let mut group = c.benchmark_group("kernel");
        group.throughput(Throughput::Elements(count as u64)).sample_size(20);
        group.bench_function(BenchmarkId::new("build and verify", ops), |b| {
            b.iter(|| black_box(kernel(black_box(blocks))));
        });
        group.bench_function(BenchmarkId::new("write as PTX", ops), |b| {
            b.iter(|| black_box(black_box(&built).ptx()));
        });
        group.finish();
    }
}

/// Prints how much longer a kernel with ten times as many operations takes. A linear build gives
/// 10; the bar is 12.
fn print_ratio(_: &mut Criterion) {
    let per_block = kernel(1).ir().ops.len();
    let fastest = |ops: usize| {
        let blocks = (ops / per_block) as i32;
        let time = |_| {
            let start = Instant::now();
            black_box(kernel(black_box(blocks)));
            start.elapsed()
        };
        (0..20).map(time).min().unwrap_or_default()
    };
    let (small, large) = (fastest(5_000), fastest(50_000));
    println!(
        "kernel/build and verify: time(50,000 ops) / time(5,000 ops) = {:.2} ({large:.2?} / {small:.2?})",
        large.as_secs_f64() / small.as_secs_f64()
    );
}

criterion_group!(benches, measure, print_ratio);
criterion_main!(benches);
