//! Measures the layout algebra beside hand-written code in the same run.
//!
//! `cargo bench --bench layout`. `walk/*` visits all indices of a nested
//! layout with 1M elements, `crd2idx/*` maps 1024 coordinates, and `op/*` is one operation on a
//! typical layout. `benches/pycute.py PATH` times the same operations with the Python reference.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tilewright::layout::{Layout, layout, shape, tiler};

fn walk(c: &mut Criterion) {
    let l = layout!(((16, 64), (8, (32, 4))):((64, 1), (1024, (8192, 262_144))));
    let mut group = c.benchmark_group("walk");
    group.bench_function("odometer", |b| {
        b.iter(|| black_box(&l).indices().map(|it| it.fold(0i64, |a, i| a ^ black_box(i))));
    });
    group.bench_function("hand-written", |b| {
        b.iter(|| {
            let [n0, n1, n2, n3, n4] = black_box([16i64, 64, 8, 32, 4]);
            let [d0, d1, d2, d3, d4] = black_box([64i64, 1, 1024, 8192, 262_144]);
            let mut acc = 0i64;
            for i4 in 0..n4 {
                for i3 in 0..n3 {
                    for i2 in 0..n2 {
                        for i1 in 0..n1 {
                            let base = i1 * d1 + i2 * d2 + i3 * d3 + i4 * d4;
                            for i0 in 0..n0 {
                                acc ^= black_box(base + i0 * d0);
                            }
                        }
                    }
                }
            }
            acc
        });
    });
    group.finish();
}

fn crd2idx(c: &mut Criterion) {
    let l = layout!((4, (2, 8)):(2, (1, 8)));
    let mut group = c.benchmark_group("crd2idx");
    group.bench_function("at", |b| {
        b.iter(|| {
            let l = black_box(&l);
            (0..1024).fold(0i64, |a, i| a ^ l.at(black_box(i)).unwrap_or(0))
        });
    });
    group.bench_function("hand-written", |b| {
        b.iter(|| {
            let [n0, n1] = black_box([4i64, 2]);
            let [d0, d1, d2] = black_box([2i64, 1, 8]);
            (0..1024).fold(0i64, |a, i| {
                let i = black_box(i);
                let (c0, rest) = (i % n0, i / n0);
                a ^ (c0 * d0 + rest % n1 * d1 + rest / n1 * d2)
            })
        });
    });
    group.finish();
}

fn operations(c: &mut Criterion) {
    let a = layout!((4, (2, 8)):(2, (1, 8)));
    let rows = Layout::row_major((128, 64));
    let nested = layout!(((4, 8), (2, 2)):((32, 1), (16, 8)));
    let flat = layout!((2, 4, 8, 16):(1, 2, 8, 64));
    let b = layout!((4, 8):(8, 1));
    let t = tiler!(2, 4);
    let target = shape!(256);
    let mut group = c.benchmark_group("op");
    group.bench_function("coalesce", |x| x.iter(|| black_box(&flat).coalesce()));
    group.bench_function("coalesce nested", |x| x.iter(|| black_box(&nested).coalesce()));
    group.bench_function("composition", |x| {
        x.iter(|| black_box(&a).composition(black_box(&b)));
    });
    group.bench_function("complement", |x| {
        x.iter(|| black_box(&b).complement(black_box(&target)));
    });
    group.bench_function("complement nested", |x| {
        x.iter(|| black_box(&nested).complement(black_box(&target)));
    });
    group.bench_function("logical_divide", |x| {
        x.iter(|| black_box(&rows).logical_divide(black_box(&t)));
    });
    group.bench_function("logical_divide nested", |x| {
        x.iter(|| black_box(&a).logical_divide(black_box(&t)));
    });
    group.bench_function("zipped_divide", |x| {
        x.iter(|| black_box(&rows).zipped_divide(black_box(&t)));
    });
    group.bench_function("right_inverse", |x| x.iter(|| black_box(&b).right_inverse()));
    group.bench_function("right_inverse nested", |x| x.iter(|| black_box(&nested).right_inverse()));
    group.bench_function("left_inverse", |x| x.iter(|| black_box(&b).left_inverse()));
    group.bench_function("logical_product", |x| {
        x.iter(|| black_box(&b).logical_product(black_box(&b)));
    });
    group.finish();
}

criterion_group!(benches, walk, crd2idx, operations);
criterion_main!(benches);
