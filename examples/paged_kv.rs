//! Computes attention scores over a paged key cache: `cargo run --example paged_kv`.
//!
//! A sequence's keys are in pages of 16 tokens that may be anywhere in a pool; a table says where.
//! A block gathers 64 tokens into shared memory, with the same `cp.async` tiled copy in each
//! thread. An absent page has no address: its copies get a false predicate, so they read nothing,
//! wherever the source points, and write zeros.

use std::error::Error;

use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, f16, range};
use tilewright::layout::layout;
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{CacheOp, CopyAtom, CopyOp, TiledCopy};
use tilewright::tensor::view::{SharedTensor, Tensor, TensorPointer, TensorSsa};

/// Tokens per page.
const PAGE: u32 = 16;
/// Elements per key.
const DEPTH: u32 = 64;
/// Pages per block.
const PAGES: u32 = 4;
/// Pages in the pool.
const POOL: u32 = 32;

/// The pool, the page table (-1 for an absent page), the queries, and one score per token.
type Params = (Global<f16>, Global<i32>, Global<f32>, GlobalMut<f32>);

fn kernel() -> Result<Kernel<Params>, Box<dyn Error>> {
    // 128 threads copy a page, 16 bytes each: eight threads per row of 128 bytes.
    let op = CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: true };
    let threads = layout!((16, 8) : (8, 1));
    let copy = TiledCopy::new(CopyAtom::new(op)?, Scalar::F16, &threads, &layout!((1, 8)))?;
    let kernel =
        Kernel::<Params>::build("scores", Target::SM_80, |k, (pool, table, query, scores)| {
            let (thread, block) = (k.thread_idx().x, k.block_idx().x);
            let thr = copy.slice(thread);
            let pool = TensorPointer::new(pool).assume_aligned(16);
            let pages_of = layout!((PAGE, DEPTH, POOL) : (DEPTH, 1, PAGE * DEPTH));
            let pool = Tensor::new(pool, pages_of);
            // Rows are padded by 16 bytes, so that neighbouring rows start in different banks.
            let keys = SharedTensor::<f16>::shared(
                k,
                layout!((PAGE, DEPTH, PAGES) : (DEPTH + 8, 1, PAGE * (DEPTH + 8))),
            );
            for i in 0..PAGES {
                let number = table.load(block * PAGES + i);
                // A negative page index points before the pool.
                let from = thr.partition_s(&pool.slice((.., .., number)));
                let to = thr.partition_d(&keys.slice((.., .., i)));
                let present = TensorSsa::full(k, from.shape().to_owned(), number.ge(0));
                thr.copy_if(&present, &from, &to);
            }
            k.cp_async_commit_group();
            k.cp_async_wait_group(0);
            k.barrier();
            let tokens = PAGE * PAGES;
            k.if_(thread.lt(tokens), |k| {
                let score = k.for_(range(0, DEPTH), 0.0, |_, d, score| {
                    let key = keys.load((thread % PAGE, d, thread / PAGE));
                    key.cvt::<f32>().fma(query.load(d), score)
                });
                scores.store(block * tokens + thread, score);
            });
        })?;
    Ok(kernel)
}

/// Computes the scores of three sequences on a device, and compares them with the host.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let kernel = kernel()?;
    // One copy per page: absent pages take no other path.
    let copies = kernel.ptx().text().matches("cp.async.cg.shared.global").count();
    assert_eq!(u32::try_from(copies), Ok(PAGES));
    let element = |i: u32| f16::from_f32((i * 7 % 11) as f32 - 5.0);
    let pool: Vec<f16> = (0..POOL * PAGE * DEPTH).map(element).collect();
    let weight = |d: u32| (d % 5) as f32 - 2.0;
    let query: Vec<f32> = (0..DEPTH).map(weight).collect();
    let table = [3, 30, 7, 11, 0, 31, -1, -1, 19, -1, -1, 2];
    let tokens = table.iter().flat_map(|page| (0..PAGE).map(move |token| (*page, token)));
    let expected = tokens.map(|(page, token)| {
        let Ok(page) = u32::try_from(page) else { return 0.0 };
        let row = (page * PAGE + token) * DEPTH;
        (0..DEPTH).map(|d| element(row + d).to_f32() * weight(d)).sum::<f32>()
    });
    let expected: Vec<f32> = expected.collect();
    let (pool, pages, query) =
        (device.upload(&pool)?, device.upload(&table)?, device.upload(&query)?);
    let mut scores = device.upload(&vec![f32::NAN; expected.len()])?;
    let grid = Grid::new([u32::try_from(table.len())? / PAGES, 1, 1], [128, 1, 1]);
    device.load(&kernel)?.launch(grid, (&pool, &pages, &query, &mut scores))?;
    assert_eq!(scores.to_vec()?, expected, "on {}", device.name());
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    run(&device)?;
    println!("the scores of three sequences over a paged cache are right on {}", device.name());
    Ok(())
}
