//! Races of asynchronous operations.

use super::*;

/// One warp loads 64 elements twice by `cp.async` to memory that has a value before.
fn copies() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %four = const 4 : i32
  %bytes = const 16 : u32
  %i = mul %t, %four : i32
  %other = sub %n31, %t : i32
  for @init %j: i32 = %zero to %four step %one {
    %e = add %i, %j : i32
    st %s, %e, %zero
    continue @init
  }
  barrier
  cp_async<cg, 16> %s, %i, %x, %i, %bytes
  cp_async_commit_group
  cp_async_wait_group<0> ;wait
  barrier ;barrier
  %o = mul %other, %four : i32
  %v = ld %s, %o : i32
  st %y, %t, %v";
    let shared = "  shared @s: i32 x 128 align 16\n";
    let text = kernel("sm_80", "%x: ptr<global, i32>, %y: ptr<global, mut i32>", shared, body);
    Case::new(text, 1, 32)
}

#[test]
fn copies_of_threads() {
    let case = copies();
    case.check(&[("barrier ;barrier", "", MissingEdge::Publish)]);
    // Without the wait the bytes count as not written; with another wait the old value would be
    // read.
    let fault = case.fault("cp_async_wait_group<0> ;wait", "cp_async_wait_group<1>").to_string();
    assert!(fault.contains("`cp_async` at test.kir"), "{fault}");
}

/// One thread loads a box, all read it, then the thread loads the next one to the same memory.
fn boxes(fence: &str) -> Case {
    let load = |parity: &str, row: &str| {
        format!(
            "
  if %leads {{
    %state{parity} = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
    cp_async_bulk_tensor_load %m, %s, %zero, %full, %zero, %zero, {row}
    yield
  }}
  mbarrier_wait_parity %full, %zero, %u{parity} ;wait{parity}
  %v{parity} = ld %s, %t : i32
  st %y, %t, %v{parity}"
        )
    };
    let body = format!(
        "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %n16 = const 16 : i32
  %leads = setp<eq> %t, %n32 : bool
  if %leads {{
    mbarrier_init %full, %zero, %u1
    fence_mbarrier_init ;init
    yield
  }}
  barrier ;ready
{}
  {fence} ;fence
  barrier ;free
{}",
        load("0", "%zero"),
        load("1", "%n16")
    );
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, &body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    Case::new(text, 1, 64).map(map)
}

#[test]
fn loads_of_boxes() {
    let fenced = boxes("fence_proxy_async<shared::cta>");
    fenced.check(&[
        ("barrier ;free", "bar_warp %all", MissingEdge::Block),
        ("fence_mbarrier_init ;init", "", MissingEdge::InitFence),
        // Threads have read the box before, and the next one overwrites it.
        ("fence_proxy_async<shared::cta> ;fence", "", MissingEdge::ProxyFenceAfterRead),
    ]);
    // The proxy fence makes the barrier visible too.
    let text = fenced.text.replace("fence_mbarrier_init", "fence_proxy_async");
    fenced.run(&text, Order::RoundRobin).unwrap();
    let fault = fenced.fault("mbarrier_wait_parity %full, %zero, %u1 ;wait1", "");
    assert!(
        matches!(fault.cause, FaultCause::InFlight { .. } | FaultCause::Race { .. }),
        "{fault}"
    );
}

/// CUTLASS releases a stage after it was read, without the proxy fence for which the PTX ISA asks.
#[test]
fn loads_over_a_tile_that_was_only_read() {
    let case = boxes("fence_proxy_async<shared::cta>");
    let cutlass = case.text.replace("fence_proxy_async<shared::cta> ;fence", "");
    let fault = case.fault("fence_proxy_async<shared::cta> ;fence", "").to_string();
    assert!(fault.starts_with("data race (missing fence after a read): "), "{fault}");
    assert!(fault.contains("CUTLASS omits this fence"), "{fault}");
    assert!(fault.contains("`Options::fence_after_reads`"), "{fault}");
    let optional = |options: Options| options.fence_after_reads(FenceAfterReads::Optional);
    case.run_with(&cutlass, optional).unwrap();
    // The option is about this fence only: what threads have written needs one, and so does the
    // order.
    for (right, wrong, expected) in [
        ("barrier ;free", "", MissingEdge::Block),
        ("st %y, %t, %v0", "st %s, %t, %v0", MissingEdge::ProxyFence),
    ] {
        let error = case.run_with(&cutlass.replace(right, wrong), optional).unwrap_err();
        let Some(FaultCause::Race { missing, .. }) = error.fault().map(|fault| &fault.cause) else {
            panic!("{error}");
        };
        assert_eq!(*missing, expected, "{error}");
    }
    // Beside another race it comes last.
    let both = cutlass.replace("st %y, %t, %v1", "st %y, %zero, %t");
    let error = case.run_with(&both, |options| options).unwrap_err();
    let fault = error.fault().unwrap();
    let missing = |fault: &Fault| match fault.cause {
        FaultCause::Race { missing, .. } => Some(missing),
        _ => None,
    };
    assert!(matches!(missing(fault), Some(MissingEdge::Warp | MissingEdge::Block)), "{fault}");
    let last = fault.also.last().and_then(missing);
    assert_eq!(last, Some(MissingEdge::ProxyFenceAfterRead), "{fault}");
}

/// Threads write a tile that one thread stores, and write it again.
fn stores() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bytes = const 256 : u32
  %n64 = const 64 : i32
  %other = sub %n63, %t : i32
  st %s, %other, %zero
  barrier
  st %s, %t, %t
  fence_proxy_async<shared::cta> ;fence
  barrier ;filled
  if %first {
    cp_async_bulk_store %x, %zero, %s, %zero, %bytes
    cp_async_bulk_commit_group
    cp_async_bulk_wait_group<0, read> ;wait
    yield
  }
  barrier ;free
  st %s, %t, %one
  fence_proxy_async<shared::cta>
  barrier
  if %first {
    cp_async_bulk_store %x, %n64, %s, %zero, %bytes
    cp_async_bulk_commit_group
    cp_async_bulk_wait_group<0, read>
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 128\n";
    Case::new(kernel("sm_90", "%x: ptr<global, mut i32>", shared, body), 1, 64)
}

#[test]
fn stores_of_tiles() {
    stores().check(&[
        ("barrier ;filled", "bar_warp %all", MissingEdge::Publish),
        ("barrier ;free", "bar_warp %all", MissingEdge::Wait),
        // The second store overlaps the first one, whose writes nobody has waited for.
        ("%n64, %s", "%n32, %s", MissingEdge::Wait),
    ]);
    let fault = stores().fault("fence_proxy_async<shared::cta> ;fence", "");
    assert!(matches!(fault.cause, FaultCause::UnfencedStore { .. }), "{fault}");
    // A fence of one warp does not cover what the other one stored.
    let fault = stores().fault(
        "fence_proxy_async<shared::cta> ;fence",
        "%low = setp<lt> %t, %n32 : bool\n  if %low {\n    fence_proxy_async<shared::cta>\n    yield\n  }",
    );
    assert!(
        matches!(
            fault.cause,
            FaultCause::UnfencedStore { .. }
                | FaultCause::Race { missing: MissingEdge::ProxyFence, .. }
        ),
        "{fault}"
    );
}

#[test]
fn loads_of_boxes_in_clusters() {
    for blocks in [1, 2, 4] {
        let mut case = boxes("fence_proxy_async<shared::cta>").cluster(blocks);
        case.grid = Grid::new([4, 1, 1], [64, 1, 1]).cluster([blocks, 1, 1]);
        // Each block has its part of the result.
        case.text = case.text.replace("st %y, %t,", "st %y, %out,").replace(
            "  %leads =",
            "  %n64 = const 64 : i32\n  %start = mul %block, %n64 : i32\n  %out = add %start, %t : i32\n  %leads =",
        );
        case.check(&[
            ("barrier ;free", "bar_warp %all", MissingEdge::Block),
            ("fence_proxy_async<shared::cta> ;fence", "", MissingEdge::ProxyFenceAfterRead),
            ("fence_mbarrier_init ;init", "", MissingEdge::InitFence),
        ]);
    }
}

/// Each block of a cluster fills the next one by stores that signal its mbarrier, and reads what it
/// got, twice.
#[test]
fn stores_to_other_blocks() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %bytes = const 128 : u32
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %there = mapa %bar, %next : ptr<shared::cluster, mut u64>
  if %first {
    mbarrier_init %bar, %zero, %u1
    fence_mbarrier_init ;init
    %state = mbarrier_arrive_expect_tx %bar, %zero, %bytes : u64
    yield
  }
  barrier
  barrier_cluster_arrive<, relaxed> ;ready
  barrier_cluster_wait
  st_async %far, %t, %t, %there, %zero
  mbarrier_wait_parity %bar, %zero, %u0
  %other = sub %n31, %t : i32
  %v = ld %s, %other : i32
  %start = mul %number, %n32 : i32
  %out = add %start, %t : i32
  st %x, %out, %v
  barrier_cluster_arrive ;read
  barrier_cluster_wait
  st %far, %other, %zero
  barrier_cluster_arrive
  barrier_cluster_wait
  %w = ld %s, %t : i32
  st %x, %out, %w
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 32 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", shared, body);
    Case::new(text, 2, 32).cluster(2).check(&[
        ("barrier_cluster_arrive ;read", "barrier_cluster_arrive<, relaxed>", MissingEdge::Publish),
        // The relaxed barrier of the cluster publishes nothing but what is fenced.
        ("fence_mbarrier_init ;init", "", MissingEdge::Cluster),
    ]);
}

#[test]
fn a_race_names_its_agents() {
    let fault = boxes("fence_proxy_async").fault("barrier ;free", "bar_warp %all");
    let FaultCause::Race { by, other, access, .. } = &fault.cause else { panic!("{fault}") };
    assert_eq!((by.agent, other.agent), (Agent::Load, Agent::Thread));
    assert!(access.is_store && !other.writes);
    assert_eq!((fault.op, other.op.name), ("cp_async_bulk_tensor_load", "ld"));
    assert_eq!((fault.thread, other.thread), ([32, 0, 0], [0, 0, 0]));
    let text = fault.to_string();
    assert!(text.contains("no barrier orders the two threads of the block"), "{text}");
}
