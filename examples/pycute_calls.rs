//! Times the calls that `benches/pycute_compare.sh` gives to pycute as well, one line each:
//! operation, operands, nanoseconds and result, with tabs between them.

use std::hint::black_box;
use std::time::Instant;

use tilewright::layout::{Layout, LayoutError, layout, shape};

type Call = fn(&Layout, &Layout) -> Result<Layout, LayoutError>;

/// The least mean of five rounds of at least 10 ms each, in nanoseconds.
fn nanoseconds<T>(call: impl Fn() -> T) -> f64 {
    let round = |count: u32| {
        let start = Instant::now();
        for _ in 0..count {
            black_box(call());
        }
        start.elapsed().as_secs_f64()
    };
    let mut count = 1;
    while round(count) < 0.01 {
        count *= 2;
    }
    let best = (0..5).map(|_| round(count)).fold(f64::INFINITY, f64::min);
    best / f64::from(count) * 1e9
}

fn main() -> Result<(), LayoutError> {
    // Layouts of rank 2 to 4, as GEMM tiles and thread partitions have them.
    let operands = [
        (layout!((128, 64):(64, 1)), layout!((32, 4):(1, 64))),
        (layout!((128, 64):(1, 128)), layout!((8, 8):(1, 8))),
        (layout!(((4, 8), (2, 16)):((32, 1), (16, 128))), layout!((8, 4):(4, 1))),
        (layout!((16, 8, 32):(1, 16, 128)), layout!((4, 8):(1, 16))),
        (layout!((4, 8, 2, 16):(1, 4, 32, 64)), layout!((2, 4, 8):(1, 2, 8))),
    ];
    let calls: [(&str, Call); 8] = [
        ("coalesce", |a, _| a.coalesce()),
        ("composition", |a, b| a.composition(b)),
        ("complement", |_, b| b.complement(&shape!(4096))),
        ("right_inverse", |a, _| a.right_inverse()),
        ("left_inverse", |a, _| a.left_inverse()),
        ("logical_divide", |a, b| a.logical_divide(b)),
        ("zipped_divide", |a, b| a.zipped_divide(b)),
        ("logical_product", |a, b| b.logical_product(a)),
    ];
    for (a, b) in &operands {
        let text = [a.shape().to_string(), a.stride().to_string()];
        let text =
            [&text[..], &[b.shape().to_string(), b.stride().to_string()]].concat().join("\t");
        for (name, call) in calls {
            if let Ok(result) = call(a, b) {
                let ns = nanoseconds(|| call(black_box(a), black_box(b)));
                println!("{name}\t{text}\t{ns:.2}\t{result}");
            }
        }
        let ns = nanoseconds(|| black_box(a).at(black_box(1234)));
        println!("crd2idx\t{text}\t{ns:.2}\t{}", a.at(1234)?);
    }
    Ok(())
}
