//! Checks uses of shared memory while an asynchronous operation on it is in flight.
//!
//! Kernels with rings of stages are right; each with one mistake is a fault that names the access that came too early.
//!
//! A mistake is found in the default order and in each of the random ones, except for a mistake that depends on the order.

use tilewright::arch::TensorMapDesc;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{FaultCause, GlobalBuffer, KernelArg, Options, Order, RunError, run};

/// Tiles that a ring is for.
const TILES: usize = 8;
/// Elements of a tile.
const TILE: usize = 128;

/// The default order, and random ones.
fn orders() -> impl Iterator<Item = Order> {
    [Order::RoundRobin].into_iter().chain((1..=SEEDS).map(|seed| Order::Random { seed }))
}

/// Threads copy tiles ahead in a ring of three stages, and each reads what another one has copied.
fn cp_async_ring() -> String {
    let copy = |tag: &str, tile: &str, indent: &str| {
        format!(
            "{indent}%{tag}r = rem %{tile}, %stages : i32
{indent}%{tag}s = mul %{tag}r, %len : i32
{indent}%{tag}t = add %{tag}s, %i : i32
{indent}%{tag}g = mul %{tile}, %len : i32
{indent}%{tag}f = add %{tag}g, %i : i32
{indent}cp_async<cg, 16> %tile, %{tag}t, %x, %{tag}f, %bytes
{indent}cp_async_commit_group ;commit\n"
        )
    };
    format!(
        "kernel @copy target sm_80 (%x: ptr<global, i32>, %out: ptr<global, mut i32>) {{
  shared @tile: i32 x 384 align 16
  %tile = shared_base<@tile> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %four = const 4 : i32
  %stages = const 3 : i32
  %len = const 128 : i32
  %last = const 7 : i32
  %tiles = const 8 : i32
  %bytes = const 16 : u32
  %i = mul %t, %four : i32
{}{}  for @tiles %k: i32 = %zero to %tiles step %one {{
    cp_async_wait_group<1> ;wait
    barrier ;filled
    %next = add %k, %two : i32
    %n = min %next, %last : i32
    %more = setp<lt> %next, %tiles : bool
    if %more {{
{}      yield
    }} else {{
      cp_async_commit_group
      yield
    }}
    %r = rem %k, %stages : i32
    %s = mul %r, %len : i32
    %back = sub %last_element, %i : i32
    for @values %j: i32 = %zero to %four step %one {{
      %b = sub %back, %j : i32
      %at = add %s, %b : i32
      %v = ld %tile, %at : i32
      %o0 = mul %k, %len : i32
      %o1 = add %o0, %b : i32
      st %out, %o1, %v
      continue @values
    }}
    continue @tiles
  }}
  return
}}",
        copy("p", "zero", "  ") + "  %last_element = const 127 : i32\n",
        copy("q", "one", "  "),
        copy("n", "n", "      "),
    )
}

/// One thread loads boxes of 16 rows ahead in a ring of two stages, 64 threads read them.
fn load_ring() -> String {
    "kernel @load target sm_90 block 96 x 1 x 1 (%m: tensor_map<i32, 2>, %out: ptr<global, mut i32>) {
  shared @tile: i32 x 256 align 128
  shared @full: u64 x 2 align 8
  shared @empty: u64 x 2 align 8
  %tile = shared_base<@tile> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %sixteen = const 16 : i32
  %n64 = const 64 : i32
  %len = const 128 : i32
  %tiles = const 8 : i32
  %u1 = const 1 : u32
  %consumers = const 64 : u32
  %bytes = const 512 : u32
  %first = setp<eq> %t, %n64 : bool
  %consumes = setp<lt> %t, %n64 : bool
  if %first {
    for @init %i: i32 = %zero to %two step %one {
      mbarrier_init %full, %i, %u1
      mbarrier_init %empty, %i, %consumers
      continue @init
    }
    fence_mbarrier_init
    yield
  }
  barrier
  if %first {
    for @loads %p: i32 = %zero to %tiles step %one {
      %ps = and %p, %one : i32
      %pr = shr %p, %u1 : i32
      %pr1 = add %pr, %one : i32
      %podd = and %pr1, %one : i32
      %pparity = cvt<u32> %podd : u32
      mbarrier_wait_parity %empty, %ps, %pparity ;wait-empty
      %pstate = mbarrier_arrive_expect_tx %full, %ps, %bytes : u64
      %pstage = and %p, %one : i32
      %pat = mul %pstage, %len : i32
      %row = mul %p, %sixteen : i32
      cp_async_bulk_tensor_load %m, %tile, %pat, %full, %ps, %zero, %row
      continue @loads
    }
    yield
  }
  if %consumes {
    for @reads %q: i32 = %zero to %tiles step %one {
      %qs = and %q, %one : i32
      %qr = shr %q, %u1 : i32
      %qodd = and %qr, %one : i32
      %qparity = cvt<u32> %qodd : u32
      mbarrier_wait_parity %full, %qs, %qparity ;wait-full
      %qstage = and %q, %one : i32
      %qat = mul %qstage, %len : i32
      %o0 = mul %q, %len : i32
      for @halves %h: i32 = %zero to %len step %n64 {
        %at0 = add %qat, %h : i32
        %at = add %at0, %t : i32
        %v = ld %tile, %at : i32
        %o1 = add %o0, %h : i32
        %o = add %o1, %t : i32
        st %out, %o, %v
        continue @halves
      }
      %qstate = mbarrier_arrive %empty, %qs, %u1 : u64
      continue @reads
    }
    yield
  }
  return
}"
    .to_owned()
}

/// 64 threads write tiles in a ring of two stages, from which one thread of the last warp starts `store`.
fn store_ring(signature: &str, store: &str) -> String {
    format!(
        "kernel @store target sm_90 ({signature}) {{
  shared @tile: i32 x 256 align 128
  %tile = shared_base<@tile> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %sixteen = const 16 : i32
  %leader = const 32 : i32
  %n64 = const 64 : i32
  %len = const 128 : i32
  %tiles = const 8 : i32
  %bytes = const 512 : u32
  %leads = setp<eq> %t, %leader : bool
  for @tiles %k: i32 = %zero to %tiles step %one {{
    if %leads {{
      cp_async_bulk_wait_group<1, read> ;wait
      yield
    }}
    barrier ;free
    %s = and %k, %one : i32
    %at = mul %s, %len : i32
    %from = mul %k, %len : i32
    for @halves %h: i32 = %zero to %len step %n64 {{
      %e = add %h, %t : i32
      %i = add %at, %e : i32
      %v = add %from, %e : i32
      st %tile, %i, %v
      continue @halves
    }}
    fence_proxy_async<shared::cta>
    barrier
    if %leads {{
      %row = mul %k, %sixteen : i32
      {store}
      cp_async_bulk_commit_group ;commit
      yield
    }}
    continue @tiles
  }}
  if %leads {{
    cp_async_bulk_wait_group<0, read> ;wait-all
    yield
  }}
  return
}}"
    )
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

/// A text, what stands for it in the wrong kernel, what the fault says, and how many of the random orders find it.
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
        let reads = format!("which the `{op}` at test.kir");
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
                    "when the threads have ended",
                    SEEDS,
                ),
            ],
        );
    }
}
