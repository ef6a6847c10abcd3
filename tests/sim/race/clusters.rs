//! Accesses to the shared memory of another block need to know that the block has started.

use super::*;

/// Thread 0 of each block accesses the other block's shared memory by `op`, behind a first barrier
/// of the cluster.
fn remote(op: &str) -> Case {
    let body = format!(
        "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %u4 = const 4 : u32
  %u128 = const 128 : u32
  %both = const 3 : u32
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %leads = setp<eq> %number, %zero : bool
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %there = mapa %bar, %next : ptr<shared::cluster, mut u64>
  st %s, %t, %t
  if %first {{
    mbarrier_init %bar, %zero, %u1
    fence_mbarrier_init
    yield
  }}
  fence_proxy_async
  bar_warp %all
  barrier_cluster_arrive ;start
  barrier_cluster_wait ;start
  if %first {{
    {op}
    yield
  }}
  barrier_cluster_arrive
  barrier_cluster_wait"
    );
    let shared = "  shared @s: i32 x 32 align 128\n  shared @bar: u64 x 1 align 8\n";
    Case::new(kernel("sm_90", "%x: ptr<global, mut i32>", shared, &body), 2, 32).cluster(2)
}

const ACCESSES: [&str; 7] = [
    "%v = ld %far, %zero : i32\n    st %x, %block, %v",
    "st %far, %zero, %one",
    "%o = atom<add, relaxed, cluster> %far, %zero, %one : i32",
    "%e = mbarrier_arrive_expect_tx %bar, %zero, %u4 : u64
    st_async %far, %zero, %one, %there, %zero
    mbarrier_wait_parity %bar, %zero, %u0",
    "mbarrier_arrive_cluster<release> %bar, %zero, %next
    mbarrier_wait_parity %bar, %zero, %u0",
    "%e = mbarrier_arrive_expect_tx %bar, %zero, %u128 : u64
    if %leads {
      cp_async_bulk_multicast %s, %zero, %x, %zero, %u128, %bar, %zero, %both
      yield
    }
    mbarrier_wait_parity %bar, %zero, %u0",
    "if %leads {
      cp_async_bulk_cluster %far, %zero, %s, %zero, %u128, %there, %zero
      yield
    } else {
      %e = mbarrier_arrive_expect_tx %bar, %zero, %u128 : u64
      mbarrier_wait_parity %bar, %zero, %u0
      yield
    }",
];

#[track_caller]
fn assert_not_started(fault: &Fault) {
    assert!(matches!(fault.cause, FaultCause::BlockNotStarted { .. }), "{fault}");
    let text = fault.to_string();
    assert!(fault.location.line > 0 && text.contains("which may not have started yet"), "{text}");
    assert!(text.contains("let all threads of the cluster pass its barrier first"), "{text}");
}

#[test]
fn a_remote_access_needs_a_block_that_has_started() {
    for access in ACCESSES {
        let case = remote(access);
        case.check(&[]);
        assert_not_started(
            &case.fault("barrier_cluster_arrive ;start\n  barrier_cluster_wait ;start", ""),
        );
        // An arrival alone says nothing about the others.
        let late = case.text.replace("  barrier_cluster_wait ;start\n", "");
        let late = late.replacen("yield\n  }\n  barrier_cluster_arrive\n", "yield\n  }\n", 1);
        match case.run(&late, Order::RoundRobin) {
            Err(RunError::Fault(fault)) => assert_not_started(&fault),
            other => panic!("{other:?}\n{late}"),
        }
    }
}

/// A relaxed barrier says that all blocks have started, although it orders no accesses.
#[test]
fn a_relaxed_barrier_of_the_cluster_is_enough() {
    let case = remote(ACCESSES[4]);
    let relaxed =
        case.text.replace("barrier_cluster_arrive ;start", "barrier_cluster_arrive<, relaxed>");
    case.run(&relaxed, Order::RoundRobin).unwrap();
}

/// What one thread knows of the other block passes to the threads of its own block.
#[test]
fn one_thread_may_wait_for_the_others() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %low = setp<lt> %t, %n32 : bool
  barrier_cluster_arrive
  if %low {
    barrier_cluster_wait ;early
    yield
  }
  barrier ;told
  st %far, %t, %t
  if %low {
    yield
  } else {
    barrier_cluster_wait
    yield
  }
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 64 align 4\n";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", shared, body);
    let case = Case::new(text, 2, 64).cluster(2);
    case.check(&[]);
    assert_not_started(&case.fault("barrier ;told", ""));
}

/// An mbarrier tells its waiter that the block which arrived has started.
#[test]
fn an_arrival_says_that_its_block_has_started() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %number = sreg<cluster_ctarank> : i32
  %far = mapa %s, %u1 : ptr<shared::cluster, mut i32>
  %leads = setp<eq> %number, %zero : bool
  mbarrier_init %bar, %zero, %u1
  fence_mbarrier_init
  barrier_cluster_arrive<, relaxed>
  if %leads {
    mbarrier_wait_parity %bar, %zero, %u0 ;told
    st %far, %t, %t
    barrier_cluster_wait
    yield
  } else {
    barrier_cluster_wait
    mbarrier_arrive_cluster %bar, %zero, %u0
    yield
  }
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 32 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", shared, body);
    let case = Case::new(text, 2, 1).cluster(2);
    case.check(&[]);
    assert_not_started(&case.fault("mbarrier_wait_parity %bar, %zero, %u0 ;told", ""));
}

/// A rank that the cluster does not have is named as such, however large it is.
#[test]
fn a_rank_beyond_the_cluster_is_a_fault_of_its_own() {
    let case = remote(ACCESSES[4]);
    for rank in [2, 40, u32::MAX] {
        let start =
            format!("%gone = const {rank} : u32\n  if %first {{\n    mbarrier_arrive_cluster");
        let text =
            case.text.replace("barrier_cluster_arrive ;start\n  barrier_cluster_wait ;start\n", "");
        let text = text.replace("if %first {\n    mbarrier_arrive_cluster", &start);
        let text = text.replace("%bar, %zero, %next", "%bar, %zero, %gone");
        let error = case.run(&text, Order::RoundRobin).unwrap_err();
        let cause = error.fault().map(|fault| fault.cause.clone());
        assert_eq!(cause, Some(FaultCause::NoClusterBlock { rank, blocks: 2 }), "{error}");
    }
}
