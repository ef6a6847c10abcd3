//! Races of threads: lanes, warps, blocks, clusters.

use super::*;

#[test]
fn lanes_of_a_warp() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n31, %t : i32
  st %s, %other, %t ;old
  bar_warp %all ;first
  st %s, %t, %t ;new
  bar_warp %all ;second
  %v = ld %s, %other : i32
  st %x, %t, %v";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 32 align 4\n", body);
    let case = Case::new(text, 1, 32);
    case.check(&[
        ("bar_warp %all ;first", "", MissingEdge::Warp),
        ("bar_warp %all ;second", "", MissingEdge::Warp),
        // All lanes store their number to one element.
        ("st %x, %t, %v", "st %x, %zero, %t", MissingEdge::Warp),
    ]);
    // What all lanes store alike is no race.
    let alike = case.text.replace("st %x, %t, %v", "st %x, %zero, %one");
    case.run(&alike, Order::RoundRobin).unwrap();
    let fault = case.fault("bar_warp %all ;second", "").to_string();
    assert!(fault.starts_with("data race (read after write): `ld` at test.kir:"), "{fault}");
    assert!(fault.contains(" reads i32 element "), "{fault}");
    assert!(fault.contains("; `st` at test.kir:"), "{fault}");
    assert!(fault.contains("warp 0, of the same block; no `bar_warp` orders the two"), "{fault}");
}

/// `__shfl_sync`, `__ballot_sync` and the like imply no memory barrier; only `bar.warp.sync` does.
#[test]
fn collectives_order_no_memory() {
    for collective in [
        "%b, %p = shfl<bfly> %t, %u1, %u31, %all : i32, bool",
        "%b = vote<any> %first, %all : bool",
        "%b = vote_ballot %first, %all : u32",
        "%b = match_any %t, %all : u32",
        "%b, %p = match_all %t, %all : u32, bool",
        "%b = redux<add> %t, %all : i32",
        "%b, %p = elect %all : u32, bool",
    ] {
        let body = format!(
            "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %u31 = const 31 : u32
  %other = sub %n31, %t : i32
  st %s, %t, %t
  bar_warp %all ;written
  {collective}
  %v = ld %s, %other : i32
  bar_warp %all ;read
  st %s, %t, %v
  st %x, %t, %v"
        );
        let shared = "  shared @s: i32 x 32 align 4\n";
        let case = Case::new(kernel("sm_90", "%x: ptr<global, mut i32>", shared, &body), 1, 32);
        case.check(&[
            ("bar_warp %all ;written", "", MissingEdge::Warp),
            ("bar_warp %all ;read", "", MissingEdge::Warp),
        ]);
        let fault = case.fault("bar_warp %all ;written", "").to_string();
        assert!(fault.contains("shuffles and votes do not order memory accesses"), "{fault}");
    }
}

#[test]
fn warps_of_a_block() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n63, %t : i32
  st %s, %other, %t
  barrier ;first
  st %s, %t, %one
  barrier ;second
  %v = ld %s, %other : i32
  barrier ;third
  st %s, %t, %v
  barrier ;fourth
  %w = ld %s, %other : i32
  st %x, %t, %w";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 64 align 4\n", body);
    Case::new(text, 1, 64).check(&[
        ("barrier ;first", "", MissingEdge::Block),
        ("barrier ;second", "", MissingEdge::Block),
        // A write after a read.
        ("barrier ;third", "", MissingEdge::Block),
        ("barrier ;fourth", "", MissingEdge::Block),
        ("barrier ;third", "bar_warp %all", MissingEdge::Block),
    ]);
}

#[test]
fn blocks_of_a_grid() {
    let body = "
  st %x, %block, %block";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    let case = Case::new(text, 8, 1);
    case.check(&[
        ("st %x, %block, %block", "st %x, %zero, %block", MissingEdge::Grid),
        (
            "st %x, %block, %block",
            "%v = ld %x, %zero : i32\n  st %x, %block, %v",
            MissingEdge::Grid,
        ),
        (
            "st %x, %block, %block",
            "%o = atom<add, relaxed, cta> %x, %zero, %one : i32",
            MissingEdge::Scope { needed: MemScope::Gpu },
        ),
    ]);
    for alike in ["st %x, %zero, %one", "%o = atom<add, relaxed, gpu> %x, %zero, %one : i32"] {
        let text = case.text.replace("st %x, %block, %block", alike);
        case.run(&text, Order::RoundRobin).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Block 0 passes a message to block 1 through global memory.
fn message() -> Case {
    let body = "
  %leads = setp<eq> %block, %zero : bool
  if %leads {
    st %x, %zero, %two
    fence<acq_rel, gpu> ;release
    st<relaxed.gpu> %x, %one, %one
    yield
  } else {
    loop @spin {
      %seen = ld<relaxed.gpu> %x, %one : i32
      %is = setp<eq> %seen, %one : bool
      if %is {
        break @spin
      }
      continue @spin
    }
    fence<acq_rel, gpu> ;acquire
    %v = ld %x, %zero : i32
    st %x, %two, %v
    yield
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    Case::new(text, 2, 1).cooperative()
}

#[test]
fn messages_between_blocks() {
    let scope = MissingEdge::Scope { needed: MemScope::Gpu };
    message().check(&[
        ("fence<acq_rel, gpu> ;release", "", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;acquire", "", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;release", "fence<acq_rel, cta>", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;acquire", "fence<acq_rel, cta>", MissingEdge::Grid),
        ("ld<relaxed.gpu> %x, %one", "ld<relaxed.cta> %x, %one", scope),
        ("st<relaxed.gpu> %x, %one", "st<relaxed.cta> %x, %one", scope),
        ("st<relaxed.gpu> %x, %one", "st %x, %one", MissingEdge::Grid),
    ]);
    let mut strong = message();
    strong.text = strong.text.replace("fence<acq_rel, gpu> ;release", "");
    strong.text = strong.text.replace("fence<acq_rel, gpu> ;acquire", "");
    strong.text = strong.text.replace("st<relaxed.gpu>", "st<release.gpu>");
    strong.text = strong.text.replace("ld<relaxed.gpu>", "ld<acquire.gpu>");
    strong.check(&[
        ("st<release.gpu>", "st<relaxed.gpu>", MissingEdge::Grid),
        ("ld<acquire.gpu>", "ld<relaxed.gpu>", MissingEdge::Grid),
    ]);
}

#[test]
fn the_last_block_reads_what_all_wrote() {
    let body = "
  %n = const 7 : i32
  if %first {
    %at = add %block, %one : i32
    st %x, %at, %block
    fence<acq_rel, gpu> ;fence
    %before = atom<add, acq_rel, gpu> %x, %zero, %one : i32
    %last = setp<eq> %before, %n : bool
    if %last {
      %v = ld %x, %two : i32
      st %x, %one, %v
      yield
    }
    yield
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    let case = Case::new(text, 8, 32);
    case.check(&[
        ("atom<add, acq_rel, gpu>", "atom<add, relaxed, gpu>", MissingEdge::Grid),
        ("atom<add, acq_rel, gpu>", "atom<add, release, gpu>", MissingEdge::Grid),
    ]);
    // The atomic operation releases and acquires without the fence.
    case.run(&case.text.replace("fence<acq_rel, gpu> ;fence", ""), Order::RoundRobin).unwrap();
}

/// NVIDIA's `threadFenceReduction`: the last block, found by a relaxed ticket, reads what all wrote
/// and resets the counter by a plain store. The relaxed additions come before it in observation
/// order.
#[test]
fn the_last_block_resets_the_counter() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n = const 7 : i32
  %at = add %block, %two : i32
  if %first {
    st %x, %at, %block
    fence<acq_rel, gpu> ;release
    %before = atom<add, relaxed, gpu> %x, %zero, %one : i32
    st %s, %zero, %before
    fence<acq_rel, gpu> ;acquire
    yield
  }
  barrier
  %found = ld %s, %zero : i32
  %last = setp<eq> %found, %n : bool
  %resets = setp<eq> %t, %n32 : bool
  if %last {
    %v = ld %x, %two : i32
    if %resets {
      st %x, %zero, %zero ;reset
      st %x, %one, %v
      yield
    }
    yield
  }";
    let shared = "  shared @s: i32 x 1 align 4\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    let case = Case::new(text, 8, 64);
    case.check(&[
        // A block that is not the last one resets: others add later.
        ("%n = const 7", "%n = const 3", MissingEdge::Grid),
        // The payload needs the fences, unlike the counter.
        ("fence<acq_rel, gpu> ;release", "", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;acquire", "", MissingEdge::Grid),
        ("st %s, %zero, %before", "st %s, %zero, %n", MissingEdge::Grid),
        ("relaxed, gpu", "relaxed, cta", MissingEdge::Scope { needed: MemScope::Gpu }),
    ]);
    // A plain load of the counter needs more: another schedule may have let it come before an
    // addition.
    let load =
        "fence<acq_rel, gpu> ;acquire\n    %again = ld %x, %zero : i32\n    st %s, %zero, %again";
    let fault = case.fault("fence<acq_rel, gpu> ;acquire", load);
    assert!(matches!(fault.cause, FaultCause::Race { missing: MissingEdge::Grid, .. }), "{fault}");
    let without = case.text.replace("%v = ld %x, %two : i32", "%v = add %two, %zero : i32");
    let without = without.replace("st %x, %at, %block", "");
    for fence in ["fence<acq_rel, gpu> ;release", "fence<acq_rel, gpu> ;acquire"] {
        case.run(&without.replace(fence, ""), Order::RoundRobin).unwrap();
    }
}

/// The waiter resets a flag by a plain store: it has observed the relaxed store that set it.
#[test]
fn a_waiter_resets_its_flag() {
    let mut case = message();
    case.text =
        case.text.replace("st %x, %two, %v", "st %x, %one, %zero ;reset\n    st %x, %two, %v");
    let scope = MissingEdge::Scope { needed: MemScope::Gpu };
    case.check(&[
        // It resets before it has seen the flag.
        ("loop @spin {", "st %x, %one, %zero\n    loop @spin {", MissingEdge::Grid),
        ("ld<relaxed.gpu> %x, %one", "ld<relaxed.cta> %x, %one", scope),
        ("st<relaxed.gpu> %x, %one", "st<relaxed.cta> %x, %one", scope),
        ("st<relaxed.gpu> %x, %one", "st %x, %one", MissingEdge::Grid),
    ]);
    // Two waiters: the second one may still read the flag.
    case.grid = Grid::new([3, 1, 1], [1, 1, 1]);
    let fault = case.fault("st %x, %two, %v", "st %x, %block, %v");
    assert!(matches!(fault.cause, FaultCause::Race { missing: MissingEdge::Grid, .. }), "{fault}");
}

#[test]
fn blocks_of_a_cluster() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  st %s, %t, %t
  barrier_cluster_arrive ;written
  barrier_cluster_wait
  %v = ld %far, %t : i32
  barrier_cluster_arrive ;read
  barrier_cluster_wait
  st %s, %t, %v";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", "  shared @s: i32 x 32 align 4\n", body);
    Case::new(text, 2, 32).cluster(2).check(&[
        (
            "barrier_cluster_arrive ;written",
            "barrier_cluster_arrive<, relaxed>",
            MissingEdge::Cluster,
        ),
        ("barrier_cluster_arrive ;read", "barrier_cluster_arrive<, relaxed>", MissingEdge::Cluster),
        ("barrier_cluster_arrive ;read\n  barrier_cluster_wait", "barrier", MissingEdge::Cluster),
    ]);
}

#[test]
fn an_mbarrier_for_one_arrival_too_few() {
    // Both warps store and arrive; warp 0 waits and reads what warp 1 stored. With a count of 63
    // the last lane's store is not part of the phase.
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %count = const 64 : u32
  %low = setp<lt> %t, %n32 : bool
  st %s, %t, %zero
  if %first {
    mbarrier_init %bar, %zero, %count
    yield
  }
  barrier
  st %s, %t, %one
  %state = mbarrier_arrive %bar, %zero, %u1 : u64
  if %low {
    mbarrier_wait_parity %bar, %zero, %u0
    %other = sub %n63, %t : i32
    %v = ld %s, %other : i32
    st %x, %t, %v
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    Case::new(text, 1, 64).check(&[("%count = const 64", "%count = const 63", MissingEdge::Block)]);
}

#[test]
fn one_lane_arrives_for_a_warp() {
    // The lanes of warp 0 store, one arrives at an mbarrier, warp 1 waits and reads.
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %low = setp<lt> %t, %n32 : bool
  if %first {
    mbarrier_init %bar, %zero, %u1
    yield
  }
  st %s, %t, %zero
  barrier ;ready
  %other = and %t, %n31 : i32
  if %low {
    st %s, %other, %one
    bar_warp %all ;warp
    if %first {
      %state = mbarrier_arrive %bar, %zero, %u1 : u64
      yield
    }
    yield
  } else {
    mbarrier_wait_parity %bar, %zero, %u0
    %v = ld %s, %other : i32
    st %x, %t, %v
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    Case::new(text, 1, 64).check(&[
        ("bar_warp %all ;warp", "", MissingEdge::Block),
        ("barrier ;ready", "bar_warp %all", MissingEdge::Block),
    ]);
}

#[test]
fn named_barriers_with_arrivals() {
    // Warp 1 arrives, warp 0 waits.
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n64 = const 64 : u32
  %low = setp<lt> %t, %n32 : bool
  %other = sub %n63, %t : i32
  st %s, %other, %zero
  barrier
  if %low {
    barrier_sync %u1, %n64 ;sync
    %v = ld %s, %other : i32
    st %x, %t, %v
    yield
  } else {
    st %s, %t, %one
    barrier_arrive %u1, %n64 ;arrive
    yield
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 64 align 4\n", body);
    Case::new(text, 1, 64).check(&[(
        "st %s, %t, %one\n    barrier_arrive %u1, %n64 ;arrive",
        "barrier_arrive %u1, %n64\n    st %s, %t, %one",
        MissingEdge::Block,
    )]);
}
