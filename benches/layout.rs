//! The layout algebra: the operations on usual layouts, and walks beside the same loops written by hand.
//!
//! `cargo bench --bench layout`. The baselines are in the same run: compare, do not read one figure alone.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tilewright::layout::{Layout, LayoutError, layout, shape};

/// Layouts of rank 2 to 4, nested and flat, as GEMM tiles and thread partitions have them.
fn usual() -> Vec<(&'static str, Layout, Layout)> {
    vec![
        ("rank 2", layout!((128, 64):(64, 1)), layout!((32, 4):(1, 64))),
        ("nested", layout!(((4, 8), (2, 16)):((32, 1), (16, 128))), layout!((8, 4):(4, 1))),
        ("rank 3", layout!((16, 8, 32):(1, 16, 128)), layout!((4, 8):(1, 16))),
        ("rank 4", layout!((4, 8, 2, 16):(1, 4, 32, 64)), layout!((2, 4, 8):(1, 2, 8))),
    ]
}

fn operations(c: &mut Criterion) {
    type Operation = fn(&Layout, &Layout) -> Result<Layout, LayoutError>;
    let operations: [(&str, Operation); 5] = [
        ("composition", |a, b| a.composition(b)),
        ("complement", |_, b| b.complement(&shape!(4096))),
        ("logical_divide", |a, b| a.logical_divide(b)),
        ("coalesce", |a, _| a.coalesce()),
        ("right_inverse", |a, _| a.right_inverse()),
    ];
    for (name, operation) in operations {
        let mut group = c.benchmark_group(name);
        for (layouts, a, b) in usual() {
            if operation(&a, &b).is_ok() {
                group.bench_function(layouts, |bench| {
                    bench.iter(|| operation(black_box(&a), black_box(&b)));
                });
            }
        }
    }
}

/// All 2^20 indices of a nested layout.
fn walk(c: &mut Criterion) {
    let nested = layout!(((64, 16), (32, 32)):((16, 32768), (512, 1)));
    let mut group = c.benchmark_group("walk 2^20 indices");
    group.throughput(Throughput::Elements(1 << 20));
    group.bench_function("odometer", |bench| {
        bench.iter(|| {
            let indices = black_box(&nested).indices().expect("it is static");
            indices.fold(0i64, |sum, index| sum ^ index)
        });
    });
    group.bench_function("nested loops by hand", |bench| {
        bench.iter(|| {
            let [d0, d1, d2, d3] = black_box([16i64, 32768, 512, 1]);
            let mut sum = 0i64;
            for l in 0..32 {
                for k in 0..32 {
                    for j in 0..16 {
                        for i in 0..64 {
                            sum ^= i * d0 + j * d1 + k * d2 + l * d3;
                        }
                    }
                }
            }
            sum
        });
    });
}

fn crd2idx(c: &mut Criterion) {
    let nested = layout!(((64, 16), (32, 32)):((16, 32768), (512, 1)));
    let mut group = c.benchmark_group("crd2idx");
    for index in [12345i64, 1_000_000] {
        group.bench_with_input(BenchmarkId::new("layout", index), &index, |bench, index| {
            bench.iter(|| black_box(&nested).at(black_box(*index)));
        });
        group.bench_with_input(BenchmarkId::new("by hand", index), &index, |bench, index| {
            let (shape, stride) = ([64i64, 16, 32, 32], [16i64, 32768, 512, 1]);
            bench.iter(|| {
                let (shape, stride) = (black_box(&shape), black_box(&stride));
                let mut rest = black_box(*index);
                let mut sum = 0;
                for i in 0..3 {
                    sum += rest % shape[i] * stride[i];
                    rest /= shape[i];
                }
                sum + rest * stride[3]
            });
        });
    }
}

criterion_group!(benches, operations, walk, crd2idx);
criterion_main!(benches);
