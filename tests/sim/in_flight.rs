//! Checks uses of shared memory while an asynchronous operation on it is in flight.
//!
//! Kernels with rings of stages are right; each with one mistake is a fault that names the access
//! that came too early.
//!
//! A mistake is found in the default order and in each of the random ones, except for a mistake
//! that depends on the order.

use tilewright::arch::TensorMapDesc;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{FaultCause, GlobalBuffer, KernelArg, Options, Order, RunError, run};

use crate::support::rings::{cp_async_ring, load_ring, store_ring};

/// Tiles that a ring is for.
const TILES: usize = 8;
/// Elements of a tile.
const TILE: usize = 128;

/// The default order, and random ones.
fn orders() -> impl Iterator<Item = Order> {
    [Order::RoundRobin].into_iter().chain((1..=SEEDS).map(|seed| Order::Random { seed }))
}

/// The input and the result of a kernel.
#[derive(Clone, Copy)]
enum Arguments {
    CopyBuffers,
    LoadMap,
    StoreBuffer,
    StoreMap,
}

/// Runs a kernel over `TILES` tiles. Returns what it has written: element `i` is to be `i`.
fn go(text: &str, arguments: Arguments, order: Order) -> Result<Vec<i32>, RunError> {
    let ir = parse("test.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let numbers: Vec<i32> = (0..(TILES * TILE) as i32).collect();
    let (x, out) = (GlobalBuffer::from_slice(&numbers), GlobalBuffer::zeros(4 * TILES * TILE));
    let rows = (TILES * TILE / 8) as u64;
    let map = TensorMapDesc::new(Scalar::I32, &[8, rows], &[32], &[8, 16]).unwrap();
    let (args, threads) = match arguments {
        Arguments::CopyBuffers => (vec![KernelArg::Buffer(&x), KernelArg::Buffer(&out)], 32),
        Arguments::LoadMap => (vec![KernelArg::TensorMap(&map, &x), KernelArg::Buffer(&out)], 96),
        Arguments::StoreBuffer => (vec![KernelArg::Buffer(&out)], 64),
        Arguments::StoreMap => (vec![KernelArg::TensorMap(&map, &out)], 64),
    };
    let options = Options::default().order(order).threads(1).fuel(1 << 24);
    run(kernel.ir(), Grid::new([1; 3], [threads, 1, 1]), &args, &options)?;
    Ok(out.to_vec())
}

/// Random orders.
const SEEDS: u64 = 12;

/// A text, what stands for it in the wrong kernel, what the fault says, and how many of the random
/// orders find it.
type Mistake<'m> = (&'m str, &'m str, &'m str, u64);

/// Checks a right kernel, and that it is at fault with each of the mistakes.
#[track_caller]
fn check(text: &str, arguments: Arguments, mistakes: &[Mistake<'_>]) {
    for order in orders() {
        let found = go(text, arguments, order).unwrap_or_else(|error| panic!("{order:?}: {error}"));
        assert!(found.into_iter().eq(0..(TILES * TILE) as i32), "{order:?}");
    }
    for (right, wrong, expected, least) in mistakes {
        assert!(text.contains(right), "{right}");
        let mutant = text.replace(right, wrong);
        let mut count = 0;
        for order in orders() {
            let found = go(&mutant, arguments, order);
            let Err(RunError::Fault(fault)) = found else {
                assert!(order != Order::RoundRobin, "{right} as {wrong}: {:?}", found.err());
                continue;
            };
            count += u64::from(order != Order::RoundRobin);
            let sentence = fault.to_string();
            assert!(sentence.contains(expected), "{right} as {wrong}, {order:?}: {sentence}");
            if let FaultCause::InFlight { op, .. } = &fault.cause {
                assert!(op.location.line > 0 && fault.location.line > 0, "{sentence}");
                let task = format!("`{}` at {} still", op.name, op.location);
                assert!(sentence.contains(&task), "{sentence}");
            }
        }
        assert!(count >= *least, "{right} as {wrong}: {count} of {SEEDS} random orders find it");
    }
}

#[test]
fn rings_of_copies_of_threads() {
    let writes = "which the `cp_async` at test.kir";
    check(
        &cp_async_ring(),
        Arguments::CopyBuffers,
        &[
            ("cp_async_wait_group<1> ;wait", "", writes, SEEDS),
            ("cp_async_wait_group<1> ;wait", "cp_async_wait_group<2>", writes, SEEDS),
            ("%stages = const 3", "%stages = const 2", writes, SEEDS),
            ("%stages = const 3", "%stages = const 1", writes, SEEDS),
            // The copy two tiles ahead goes to the stage of the tile that is read.
            ("%nr = rem %n, %stages", "%nr = rem %k, %stages", writes, SEEDS),
        ],
    );
}

#[test]
fn rings_of_loads_of_boxes() {
    let loads = "which the `cp_async_bulk_tensor_load` at test.kir";
    check(
        &load_ring(),
        Arguments::LoadMap,
        &[
            (
                "mbarrier_wait_parity %full, %qs, %qparity ;wait-full",
                "",
                "of shared memory `shared0`",
                SEEDS,
            ),
            // The next load starts, or is announced, before the one in its stage has come.
            (
                "mbarrier_wait_parity %empty, %ps, %pparity ;wait-empty",
                "",
                "of shared memory `shared",
                SEEDS,
            ),
            // A wait for the phase before.
            (
                "%qodd = and %qr, %one",
                "%qlater = add %qr, %one : i32\n%qodd = and %qlater, %one",
                "of shared memory `shared0`",
                SEEDS,
            ),
            // A ring of one stage, with the barriers of two.
            ("%pstage = and %p, %one", "%pstage = and %p, %zero", loads, SEEDS),
            ("%bytes = const 512", "%bytes = const 528", "0 of 1 arrivals and 16 bytes", SEEDS),
        ],
    );
}

#[test]
fn rings_of_stores() {
    let boxes = store_ring(
        "%m: tensor_map<mut i32, 2>",
        "cp_async_bulk_tensor_store %m, %tile, %at, %zero, %row",
    );
    let bytes =
        store_ring("%x: ptr<global, mut i32>", "cp_async_bulk_store %x, %from, %tile, %at, %bytes");
    for (text, arguments, op) in [
        (boxes, Arguments::StoreMap, "cp_async_bulk_tensor_store"),
        (bytes, Arguments::StoreBuffer, "cp_async_bulk_store"),
    ] {
        let reads = format!("`{op}` at test.kir");
        let reads = reads.as_str();
        check(
            &text,
            arguments,
            &[
                ("cp_async_bulk_wait_group<1, read> ;wait\n", "\n", reads, SEEDS),
                (
                    "cp_async_bulk_wait_group<1, read> ;wait\n",
                    "cp_async_bulk_wait_group<2, read>\n",
                    reads,
                    SEEDS,
                ),
                // A ring of one stage.
                ("%s = and %k, %one", "%s = and %k, %zero", reads, SEEDS),
                // Nothing but the order keeps the other warp from writing before the thread waits.
                ("barrier ;free", "", reads, SEEDS / 3),
                ("cp_async_bulk_commit_group ;commit", "", reads, SEEDS),
                (
                    "cp_async_bulk_wait_group<0, read> ;wait-all",
                    "",
                    "when all threads have ended",
                    SEEDS,
                ),
            ],
        );
    }
}
