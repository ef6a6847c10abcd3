//! The checks of Triton's ConSan that tilewright's operations can break, each on 1, 2 and 4 blocks
//! of a cluster.
//!
//! Rows are numbered 1 to 14 and 20. Each has a kernel that is silent in several orders, and
//! mistakes that are named.

use super::*;

/// A mistake of a row: a text, another one in its place, and the faults that may name it.
type Mistake = (u32, &'static str, &'static str, &'static [&'static str]);

/// The name of the cause of a fault.
fn kind(fault: &Fault) -> String {
    let text = format!("{:?}", fault.cause);
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

/// Checks that the kernel and its variants are silent, and that each mistake is named, on clusters
/// of `sizes` blocks.
#[track_caller]
fn twins(make: &dyn Fn() -> Case, sizes: &[u32], silent: &[(&str, &str)], mistakes: &[Mistake]) {
    for blocks in sizes {
        let mut case = make().cluster(*blocks);
        case.grid.blocks = [*blocks, 1, 1];
        case.check(&[]);
        for (right, other) in silent {
            assert!(case.text.contains(right), "{right}");
            let text = case.text.replace(right, other);
            let run = case.run(&text, Order::RoundRobin);
            run.unwrap_or_else(|error| panic!("{blocks} blocks, {right} as {other}: {error}"));
        }
        for (row, right, wrong, expected) in mistakes {
            let fault = case.fault(right, wrong);
            let named = expected.contains(&kind(&fault).as_str());
            assert!(named, "row {row} on {blocks} blocks, {right} as {wrong}: {fault}");
        }
    }
}

const SIZES: [u32; 3] = [1, 2, 4];

/// One thread loads boxes to two stages, all threads read both, and the thread loads the first
/// stage again.
fn stages() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %n16 = const 16 : i32
  %n64 = const 64 : i32
  %n128 = const 128 : i32
  %b64 = mul %block, %n64 : i32
  %o = add %b64, %t : i32
  %leads = setp<eq> %t, %n32 : bool
  if %leads {
    mbarrier_init %full, %zero, %u1
    mbarrier_init %full, %one, %u1 ;init
    fence_mbarrier_init ;fence-init
    yield
  }
  barrier ;ready
  if %leads {
    %e0 = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
    cp_async_bulk_tensor_load %m, %s, %zero, %full, %zero, %zero, %zero
    %e1 = mbarrier_arrive_expect_tx %full, %one, %bytes : u64 ;expect
    cp_async_bulk_tensor_load %m, %s, %n128, %full, %one, %zero, %n16 ;second
    yield
  }
  mbarrier_wait_parity %full, %zero, %u0 ;wait0
  %v0 = ld %s, %t : i32
  mbarrier_wait_parity %full, %one, %u0 ;wait1
  %i1 = add %t, %n128 : i32
  %v1 = ld %s, %i1 : i32
  fence_proxy_async<shared::cta> ;fence
  barrier ;free
  if %leads {
    %e2 = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64 ;third
    cp_async_bulk_tensor_load %m, %s, %zero, %full, %zero, %zero, %zero ;load
    yield
  }
  mbarrier_wait_parity %full, %zero, %u1 ;wait2
  %v2 = ld %s, %t : i32
  %w0 = add %v0, %v1 : i32
  %w = add %w0, %v2 : i32
  st %y, %o, %w";
    let shared = "  shared @s: i32 x 384 align 128\n  shared @full: u64 x 2 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    Case::new(text, 1, 64).map(map)
}

#[test]
fn loads_barriers_and_aliases() {
    let wait0 = "mbarrier_wait_parity %full, %zero, %u0 ;wait0";
    let silent: &[(&str, &str)] = &[
        // The other half of the second stage is another region.
        ("%full, %one, %zero, %n16 ;second", "%full, %one, %zero, %zero"),
        // A barrier that is invalidated may be made again.
        (
            "mbarrier_init %full, %one, %u1 ;init",
            "mbarrier_init %full, %one, %u1\n    mbarrier_inval %full, %one\n    mbarrier_init %full, %one, %u1",
        ),
        // Bytes may be announced without an arrival first.
        (
            "%e1 = mbarrier_arrive_expect_tx %full, %one, %bytes : u64 ;expect",
            "mbarrier_expect_tx %full, %one, %bytes\n    %e1 = mbarrier_arrive %full, %one, %u1 : u64",
        ),
        ("fence_proxy_async<shared::cta> ;fence", "fence_proxy_async"),
        ("barrier ;free", "barrier\n  fence_proxy_async<shared::cta>"),
    ];
    twins(
        &stages,
        &SIZES,
        silent,
        &[
            // A read with an outstanding write: of old bytes, and of new ones.
            (1, "mbarrier_wait_parity %full, %zero, %u1 ;wait2", "", &["Race", "InFlight"]),
            (1, wait0, "", &["Race", "InFlight", "Uninitialised"]),
            (1, "%zero, %u1 ;wait2", "%zero, %u0", &["Race", "InFlight"]),
            // A write with outstanding reads.
            (2, "barrier ;free", "bar_warp %all", &["Race"]),
            // A write with outstanding writes.
            (
                3,
                "%s, %n128, %full, %one, %zero, %n16 ;second",
                "%s, %zero, %full, %one, %zero, %n16",
                &["Race", "InFlight"],
            ),
            // Reads of threads before a load to the same bytes.
            (7, "fence_proxy_async<shared::cta> ;fence", "", &["Race"]),
            (7, "fence_proxy_async<shared::cta> ;fence", "fence_proxy_async<global>", &["Race"]),
            // A barrier that is made again, that is used before it is made, and after it was
            // invalidated.
            (8, ";init", "\n    mbarrier_init %full, %one, %u1", &["LiveBarrier"]),
            (9, "mbarrier_init %full, %one, %u1 ;init", "", &["NotABarrier"]),
            (9, ";init", "\n    mbarrier_inval %full, %one", &["NotABarrier"]),
            (9, "fence_mbarrier_init ;fence-init", "", &["Race"]),
            // Arrivals below zero, bytes out of range.
            (
                10,
                ";expect",
                "\n    %e9 = mbarrier_arrive %full, %one, %u1 : u64\n    %e8 = mbarrier_arrive %full, %one, %u1 : u64",
                &["ArrivalsBeyond", "PhaseDeadlock", "Race"],
            ),
            (10, "%bytes = const 512", "%bytes = const 1048560", &["PhaseDeadlock", "BytesBeyond"]),
            // Announced bytes that do not come, and a phase that no load ends.
            (11, "%bytes = const 512", "%bytes = const 528", &["PhaseDeadlock"]),
            (
                11,
                "%bytes = const 512",
                "%bytes = const 496",
                &["PhaseDeadlock", "InFlight", "Race", "Uninitialised"],
            ),
            (
                12,
                "cp_async_bulk_tensor_load %m, %s, %zero, %full, %zero, %zero, %zero ;load",
                "",
                &["PhaseDeadlock"],
            ),
            (
                12,
                "%one, %u0 ;wait1",
                "%one, %u1",
                &["PhaseDeadlock", "Race", "InFlight", "Uninitialised"],
            ),
            // A view that overlaps another one by half.
            (
                13,
                "%s, %n128, %full, %one, %zero, %n16 ;second",
                "%s, %n64, %full, %one, %zero, %n16",
                &["Race", "InFlight"],
            ),
            // Bytes that nobody wrote.
            (
                20,
                "%i1 = add %t, %n128",
                "%n300 = const 256 : i32\n  %i1 = add %t, %n300",
                &["Uninitialised"],
            ),
        ],
    );
}

/// Two groups of `cp.async` over memory that has a value.
fn groups() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n64 = const 64 : i32
  %word = const 4 : u32
  %b64 = mul %block, %n64 : i32
  %o = add %b64, %t : i32
  %i1 = add %t, %n64 : i32
  %other = sub %n63, %t : i32
  %other1 = add %other, %n64 : i32
  st %s, %t, %zero ;old
  st %s, %i1, %zero
  barrier
  cp_async<ca, 4> %s, %t, %x, %t, %word
  cp_async_commit_group ;commit
  cp_async<ca, 4> %s, %i1, %x, %t, %word
  cp_async_commit_group
  cp_async_wait_group<1> ;wait-one
  barrier ;filled
  %v = ld %s, %other : i32
  cp_async_wait_group<0> ;wait-all
  barrier
  %w = ld %s, %other1 : i32
  %sum = add %v, %w : i32
  st %y, %o, %sum";
    let shared = "  shared @s: i32 x 128 align 16\n";
    let signature = "%x: ptr<global, i32>, %y: ptr<global, mut i32>";
    Case::new(kernel("sm_90", signature, shared, body), 1, 64)
}

#[test]
fn groups_of_copies() {
    let early: &[&str] = &["Race", "InFlight", "Uninitialised"];
    twins(
        &groups,
        &SIZES,
        &[("cp_async_wait_group<1> ;wait-one", "cp_async_wait_group<0>")],
        &[
            (4, "cp_async_wait_group<1> ;wait-one", "", early),
            (4, "cp_async_wait_group<1> ;wait-one", "cp_async_wait_group<2>", early),
            (4, "cp_async_wait_group<0> ;wait-all", "cp_async_wait_group<1>", early),
            (4, "cp_async_commit_group ;commit", "", early),
            (4, "barrier ;filled", "bar_warp %all", early),
            (
                20,
                "st %s, %t, %zero ;old\n  st %s, %i1, %zero\n  barrier\n  cp_async<ca, 4> %s, %t, %x, %t, %word",
                "",
                &["Uninitialised"],
            ),
        ],
    );
}

/// A tile that threads write, and a thread stores by a bulk copy; then it is written again.
fn stored_tiles() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n64 = const 64 : i32
  %bytes = const 256 : u32
  %b64 = mul %block, %n64 : i32
  st %s, %t, %t
  fence_proxy_async<shared::cta> ;fence
  barrier
  if %first {
    cp_async_bulk_store %y, %b64, %s, %zero, %bytes
    cp_async_bulk_commit_group ;commit
    cp_async_bulk_wait_group<0, read> ;wait
    yield
  }
  barrier ;free
  st %s, %t, %one
  if %first {
    cp_async_bulk_wait_group<0>
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 128\n";
    Case::new(kernel("sm_90", "%y: ptr<global, mut i32>", shared, body), 1, 64)
}

#[test]
fn sources_of_stores() {
    let reused: &[&str] = &["Race", "InFlight"];
    twins(
        &stored_tiles,
        &SIZES,
        &[("cp_async_bulk_wait_group<0, read> ;wait", "cp_async_bulk_wait_group<0>")],
        &[
            (6, "cp_async_bulk_wait_group<0, read> ;wait", "", reused),
            (
                6,
                "cp_async_bulk_wait_group<0, read> ;wait",
                "cp_async_bulk_wait_group<1, read>",
                reused,
            ),
            (6, "cp_async_bulk_commit_group ;commit", "", reused),
            (6, "barrier ;free", "bar_warp %all", reused),
            (7, "fence_proxy_async<shared::cta> ;fence", "", &["Race", "UnfencedStore"]),
        ],
    );
}

/// A warp group multiplies a tile of B that `cp.async` brings, twice.
fn products() -> Case {
    let body = "
  %a = shared_base<@a> : ptr<shared, mut bf16>
  %b = shared_base<@b> : ptr<shared, mut bf16>
  %n128 = const 128 : i32
  %n1024 = const 1024 : i32
  %word = const 4 : u32
  %half = const 64 : i32
  %copies = setp<lt> %t, %half : bool
  %t2 = mul %t, %two : i32
  %f0 = const 0.0 : f32
  %true = const true : bool
  set_var<@acc, 0> %f0
  set_var<@acc, 1> %f0
  set_var<@acc, 2> %f0
  set_var<@acc, 3> %f0
  for @fill %i: i32 = %t to %n1024 step %n128 {
    %v = cvt<bf16> %t : bf16
    st %a, %i, %v
    continue @fill
  }
  for @rounds %k: i32 = %zero to %two step %one {
    if %copies {
      cp_async<ca, 4> %b, %t2, %x, %t2, %word
      yield
    }
    cp_async_wait_all
    fence_proxy_async<shared::cta> ;fence
    barrier ;filled
    %da = matrix_descriptor<34363932672> %a : u64
    %db = matrix_descriptor<34360262656> %b : u64
    wgmma_fence
    wgmma<m64n8k16, bf16, bf16, @acc, 0> %da, %db, %true
    wgmma_commit_group ;commit
    wgmma_wait_group<0> ;wait
    barrier
    continue @rounds
  }
  wgmma_wait_group<0>
  %d0 = get_var<@acc, 0> : f32
  %start = mul %block, %n128 : i32
  %o = add %start, %t : i32
  st %y, %o, %d0";
    let shared = "  shared @a: bf16 x 1024 align 128\n  shared @b: bf16 x 128 align 128\n  var @acc: f32 x 4\n";
    let signature = "%x: ptr<global, bf16>, %y: ptr<global, mut f32>";
    Case::new(kernel("sm_90a", signature, shared, body), 1, 128)
}

#[test]
fn operands_of_tensor_cores() {
    let busy: &[&str] = &["Race", "InFlight", "AccumulatorInFlight", "MatrixInFlight"];
    let early: &[&str] = &["Race", "UnfencedStore"];
    twins(
        &products,
        &SIZES,
        &[],
        &[
            (5, "wgmma_wait_group<0> ;wait", "", busy),
            (5, "wgmma_wait_group<0> ;wait", "wgmma_wait_group<1>", busy),
            (5, "wgmma_commit_group ;commit", "", busy),
            // Neither no fence, nor a fence before the wait, covers what the wait brings.
            (7, "    fence_proxy_async<shared::cta> ;fence\n", "", early),
            (
                7,
                "cp_async_wait_all\n    fence_proxy_async<shared::cta> ;fence",
                "fence_proxy_async<shared::cta>\n    cp_async_wait_all",
                early,
            ),
        ],
    );
}

/// Each block of a cluster fills the next one by stores that signal its mbarrier, which announces
/// their bytes only after a while; then it says by a remote arrival that it has read them.
fn neighbours() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %bytes = const 128 : u32
  %number = sreg<cluster_ctarank> : i32
  %blocks = sreg<cluster_nctarank> : i32
  %after0 = add %number, %one : i32
  %after = rem %after0, %blocks : i32
  %before0 = add %number, %blocks : i32
  %before1 = sub %before0, %one : i32
  %before = rem %before1, %blocks : i32
  %next = cvt<u32> %after : u32
  %last = cvt<u32> %before : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %there = mapa %full, %next : ptr<shared::cluster, mut u64>
  %other = sub %n31, %t : i32
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  if %first {
    mbarrier_init %full, %zero, %u1
    mbarrier_init %empty, %zero, %u1
    fence_mbarrier_init ;init
    yield
  }
  barrier_cluster_arrive<, relaxed> ;ready
  barrier_cluster_wait
  for @rounds %k: i32 = %zero to %two step %one {
    %parity = cvt<u32> %k : u32
    %even = xor %k, %one : i32
    %old = cvt<u32> %even : u32
    mbarrier_wait_parity %empty, %zero, %old ;wait-empty
    st_async %far, %t, %t, %there, %zero
    if %first {
      %e = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
      yield
    }
    mbarrier_wait_parity %full, %zero, %parity ;wait-full
    %v = ld %s, %other : i32
    st %y, %o, %v
    bar_warp %all ;warp
    if %first {
      mbarrier_arrive_cluster<release> %empty, %zero, %last
      yield
    }
    continue @rounds
  }
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 32 align 4\n  shared @full: u64 x 1 align 8\n  shared @empty: u64 x 1 align 8\n";
    Case::new(kernel("sm_90", "%y: ptr<global, mut i32>", shared, body), 2, 32)
}

#[test]
fn recipients_in_other_blocks() {
    let reused: &[&str] = &["Race", "InFlight"];
    twins(
        &neighbours,
        &SIZES,
        &[("barrier_cluster_arrive<, relaxed> ;ready", "barrier_cluster_arrive")],
        &[
            (
                14,
                "mbarrier_wait_parity %full, %zero, %parity ;wait-full",
                "",
                &["Race", "InFlight", "Uninitialised"],
            ),
            (14, "bar_warp %all ;warp", "", reused),
        ],
    );
    // Between blocks only.
    twins(
        &neighbours,
        &[2, 4],
        &[],
        &[
            (14, "mbarrier_wait_parity %empty, %zero, %old ;wait-empty", "", reused),
            (14, "mbarrier_arrive_cluster<release>", "mbarrier_arrive_cluster", reused),
            (
                14,
                "barrier_cluster_arrive<, relaxed> ;ready\n  barrier_cluster_wait",
                "barrier",
                &["BlockNotStarted"],
            ),
            (14, "fence_mbarrier_init ;init", "", &["Race"]),
        ],
    );
}
