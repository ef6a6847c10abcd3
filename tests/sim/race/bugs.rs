//! Bugs of well-known kernels, rebuilt: each names the thread in which it was found.
//!
//! Each kernel is silent with the repair, and a fault without.

use super::*;

#[track_caller]
fn finds(case: &Case, right: &str, wrong: &str, missing: &[MissingEdge]) {
    case.check(&[]);
    let fault = case.fault(right, wrong);
    let FaultCause::Race { missing: found, .. } = &fault.cause else { panic!("{fault}") };
    assert!(missing.contains(found), "{fault}");
}

/// NVIDIA/cutlass#3643, #3647: an mbarrier of another block is signalled without a release to the
/// cluster, or not waited for.
#[test]
fn a_barrier_of_the_wrong_scope_between_blocks() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  if %first {
    mbarrier_init %bar, %zero, %u1
    fence_mbarrier_init
    yield
  }
  st %s, %t, %zero
  barrier_cluster_arrive
  barrier_cluster_wait
  st %far, %t, %o
  bar_warp %all
  if %first {
    mbarrier_arrive_cluster<release> %bar, %zero, %next
    yield
  }
  mbarrier_wait_parity %bar, %zero, %u0 ;wait
  %other = sub %n31, %t : i32
  %v = ld %s, %other : i32
  st %x, %o, %v
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 32 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", shared, body);
    let case = Case::new(text, 2, 32).cluster(2);
    let edges = [MissingEdge::Cluster];
    finds(&case, "mbarrier_arrive_cluster<release>", "mbarrier_arrive_cluster", &edges);
    finds(&case, "mbarrier_wait_parity %bar, %zero, %u0 ;wait", "", &edges);
}

/// inclusionAI/humming#56: the leader of a cluster loads the next tile for both blocks into memory
/// that its peer's epilogue still reads. #54 blamed a load that comes before the receiver announces
/// its bytes: that order is legal.
#[test]
fn a_multicast_over_the_epilogue_of_a_peer() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %both = const 3 : u32
  %n16 = const 16 : i32
  %number = sreg<cluster_ctarank> : i32
  %is_leader = setp<eq> %number, %zero : bool
  %loads = and %is_leader, %first : bool
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  if %first {
    mbarrier_init %full, %zero, %u1
    fence_mbarrier_init
    yield
  }
  barrier_cluster_arrive<, relaxed>
  barrier_cluster_wait
  if %loads {
    cp_async_bulk_tensor_multicast %m, %s, %zero, %full, %zero, %both, %zero, %zero
    yield
  }
  if %first {
    %e0 = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64 ;announce
    yield
  }
  mbarrier_wait_parity %full, %zero, %u0
  %v = ld %s, %t : i32
  st %s, %t, %o
  bar_warp %all
  %other = sub %n31, %t : i32
  %w = ld %s, %other : i32
  fence_proxy_async
  barrier_cluster_arrive ;epilogue
  barrier_cluster_wait
  if %loads {
    cp_async_bulk_tensor_multicast %m, %s, %zero, %full, %zero, %both, %zero, %n16
    yield
  }
  if %first {
    %e1 = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
    yield
  }
  mbarrier_wait_parity %full, %zero, %u1
  %z = ld %s, %t : i32
  %vw = add %v, %w : i32
  %sum = add %vw, %z : i32
  st %y, %o, %sum
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    let case = Case::new(text, 2, 32).cluster(2).map(map);
    // The order of #54 is that of the kernel: the load comes before the announcement.
    finds(
        &case,
        "barrier_cluster_arrive ;epilogue\n  barrier_cluster_wait",
        "barrier",
        &[MissingEdge::Cluster, MissingEdge::ProxyFence],
    );
}

/// deepseek-ai/DeepGEMM#415: blocks of a cluster disagree on whether a load is for both: one waits
/// for ever.
#[test]
fn blocks_that_disagree_on_a_multicast() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %both = const 3 : u32
  %number = sreg<cluster_ctarank> : i32
  %is_leader = setp<eq> %number, %zero : bool
  %loads = and %is_leader, %first : bool
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  if %first {
    mbarrier_init %full, %zero, %u1
    fence_mbarrier_init
    %e0 = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
    yield
  }
  barrier_cluster_arrive
  barrier_cluster_wait
  if %loads {
    cp_async_bulk_tensor_multicast %m, %s, %zero, %full, %zero, %both, %zero, %zero
    yield
  }
  mbarrier_wait_parity %full, %zero, %u0
  %v = ld %s, %t : i32
  st %y, %o, %v
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    let case = Case::new(text, 2, 32).cluster(2).map(map);
    case.check(&[]);
    let fault = case.fault("%both = const 3", "%both = const 1");
    assert!(matches!(fault.cause, FaultCause::PhaseDeadlock { .. }), "{fault}");
}

/// MoonshotAI/FlashKDA#24, #25: a tile is stored by a bulk copy without a fence; in #25 only where
/// a loop runs no turn.
#[test]
fn a_store_without_a_fence_where_a_loop_is_empty() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bytes = const 256 : u32
  st %s, %t, %zero
  fence_proxy_async<shared::cta> ;fence
  barrier
  for @turns %k: i32 = %zero to %n step %one {
    %v = ld %x, %t : i32
    st %s, %t, %v
    fence_proxy_async<shared::cta>
    barrier
    continue @turns
  }
  if %first {
    cp_async_bulk_store %y, %zero, %s, %zero, %bytes
    cp_async_bulk_commit_group
    cp_async_bulk_wait_group<0>
    yield
  }";
    for (turns, is_found) in [(0, true), (1, false)] {
        let body = format!("\n  %n = const {turns} : i32{body}");
        let signature = "%x: ptr<global, i32>, %y: ptr<global, mut i32>";
        let text = kernel("sm_90", signature, "  shared @s: i32 x 64 align 128\n", &body);
        let case = Case::new(text, 1, 64);
        case.check(&[]);
        let mutant = case.text.replace("fence_proxy_async<shared::cta> ;fence", "");
        // With a turn its fence covers what was stored before it.
        assert_eq!(case.run(&mutant, Order::RoundRobin).is_err(), is_found, "{turns} turns");
    }
}

/// NVIDIA/TransformerEngine#2695, deepseek-ai/DeepEP#642, flash-attention#2462: one of two paths
/// reads a stage and releases it to the next load without a fence.
#[test]
fn one_of_two_paths_releases_without_a_fence() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %n16 = const 16 : i32
  %n4 = const 4 : i32
  %leads = setp<eq> %t, %n32 : bool
  %low = setp<lt> %t, %n32 : bool
  if %leads {
    mbarrier_init %full, %zero, %u1
    mbarrier_init %empty, %zero, %u1
    fence_mbarrier_init
    yield
  }
  barrier
  if %low {
    for @reads %k: i32 = %zero to %n4 step %one {
      %odd = and %k, %one : i32
      %parity = cvt<u32> %odd : u32
      mbarrier_wait_parity %full, %zero, %parity
      %v = ld %s, %t : i32
      st %y, %t, %v
      %is_odd = setp<eq> %odd, %one : bool
      if %is_odd {
        fence_proxy_async<shared::cta> ;odd
        yield
      } else {
        fence_proxy_async<shared::cta> ;even
        yield
      }
      bar_warp %all
      if %first {
        %freed = mbarrier_arrive %empty, %zero, %u1 : u64
        yield
      }
      continue @reads
    }
    yield
  } else {
    if %leads {
      for @loads %j: i32 = %zero to %n4 step %one {
        %jodd = and %j, %one : i32
        %even = xor %jodd, %one : i32
        %before = cvt<u32> %even : u32
        mbarrier_wait_parity %empty, %zero, %before
        %e = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
        %row = mul %j, %n16 : i32
        cp_async_bulk_tensor_load %m, %s, %zero, %full, %zero, %zero, %row
        continue @loads
      }
      yield
    }
    yield
  }";
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n  shared @empty: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    let case = Case::new(text, 1, 64).map(map);
    for path in ["odd", "even"] {
        let fence = format!("fence_proxy_async<shared::cta> ;{path}");
        finds(&case, &fence, "", &[MissingEdge::ProxyFenceAfterRead]);
    }
    // tile-ai/tilelang#3087: a ring of one barrier waits for the wrong parity.
    let fault = case.fault("%even = xor %jodd, %one", "%even = xor %jodd, %zero");
    assert!(
        matches!(fault.cause, FaultCause::PhaseDeadlock { .. } | FaultCause::Race { .. }),
        "{fault}"
    );
    let fault = case.fault("%parity = cvt<u32> %odd", "%parity = cvt<u32> %zero");
    assert!(
        matches!(fault.cause, FaultCause::PhaseDeadlock { .. } | FaultCause::Race { .. }),
        "{fault}"
    );
}

/// NVIDIA/cutlass#3324: `cp.async` of one block is published to another one by a barrier of its own
/// block.
#[test]
fn copies_for_another_block_behind_a_barrier_of_the_block() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %word = const 4 : u32
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  st %s, %t, %zero
  barrier_cluster_arrive
  barrier_cluster_wait
  cp_async<ca, 4> %s, %t, %x, %o, %word
  cp_async_wait_all
  barrier_cluster_arrive ;published
  barrier_cluster_wait
  %v = ld %far, %t : i32
  st %y, %o, %v
  barrier_cluster_arrive
  barrier_cluster_wait";
    let signature = "%x: ptr<global, i32>, %y: ptr<global, mut i32>";
    let text = kernel("sm_90", signature, "  shared @s: i32 x 32 align 16\n", body);
    let case = Case::new(text, 2, 32).cluster(2);
    let published = "barrier_cluster_arrive ;published\n  barrier_cluster_wait";
    let edges = [MissingEdge::Publish, MissingEdge::Wait, MissingEdge::Cluster];
    finds(&case, published, "barrier", &edges);
    finds(&case, "barrier_cluster_arrive ;published", "barrier_cluster_arrive<, relaxed>", &edges);
    let fault = case.fault("cp_async_wait_all", "");
    assert!(matches!(fault.cause, FaultCause::InFlight { .. }), "{fault}");
}

/// triton-lang/triton#11120: scratch memory lies over barriers that are in use.
#[test]
fn scratch_over_live_barriers() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  if %first {
    mbarrier_init %bar, %zero, %u1
    yield
  }
  barrier
  st %s, %t, %t ;scratch
  if %first {
    %e = mbarrier_arrive %bar, %zero, %u1 : u64
    yield
  }
  mbarrier_wait_parity %bar, %zero, %u0";
    let shared = "  shared @s: i32 x 32 align 8\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    let case = Case::new(text, 1, 32);
    case.check(&[]);
    let narrow = "%over = ptr_cast<i32> %bar : ptr<shared, mut i32>\n  if %first {\n    st %over, %t, %t\n    yield\n  }";
    let fault = case.fault("st %s, %t, %t ;scratch", narrow);
    let named = matches!(
        fault.cause,
        FaultCause::Race { .. } | FaultCause::NotABarrier { .. } | FaultCause::LiveBarrier { .. }
    );
    assert!(named, "{fault}");
}

/// inclusionAI/humming#54, #53: loads for both blocks arrive before the receiver announces their
/// bytes. That is legal, and was blamed first: the count of bytes goes below zero.
#[test]
fn loads_before_their_announcement_are_legal() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %number = sreg<cluster_ctarank> : i32
  %is_leader = setp<eq> %number, %zero : bool
  %loads = and %is_leader, %first : bool
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  if %first {
    mbarrier_init %full, %zero, %u1
    fence_mbarrier_init
    yield
  }
  barrier_cluster_arrive<, relaxed>
  barrier_cluster_wait
  if %loads {
    cp_async_bulk_tensor_multicast %m, %s, %zero, %full, %zero, %blocks, %zero, %zero
    yield
  }
  barrier_cluster_arrive<, relaxed> ;late
  barrier_cluster_wait
  if %first {
    %e = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
    yield
  }
  mbarrier_wait_parity %full, %zero, %u0
  %v = ld %s, %t : i32
  st %y, %o, %v
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n";
    for blocks in [1, 2, 4] {
        let all = format!("\n  %blocks = const {} : u32{body}", (1 << blocks) - 1);
        let signature = "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>";
        let text = kernel("sm_90", signature, shared, &all);
        let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
        let case = Case::new(text, blocks, 32).cluster(blocks).map(map);
        // Also without the barrier that makes the announcement late in every order.
        let early = case
            .text
            .replace("  barrier_cluster_arrive<, relaxed> ;late\n  barrier_cluster_wait\n", "");
        case.check(&[]);
        for order in [Order::RoundRobin, Order::Reverse, Order::Eager, Order::Fine] {
            for text in [&case.text, &early] {
                case.run(text, order).unwrap_or_else(|error| panic!("{order:?}: {error}"));
            }
        }
    }
}

/// flashinfer-ai/flashinfer#3529: a round clears a histogram in shared memory that other threads
/// still read for the round before.
#[test]
fn a_histogram_is_cleared_while_it_is_read() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  for @rounds %k: i32 = %zero to %two step %one {
    st %s, %t, %zero
    barrier ;cleared
    %v = ld %x, %t : i32
    %bin = and %v, %n63 : i32
    %old = atom<add, relaxed, cta> %s, %bin, %one : i32
    barrier ;counted
    %next = add %t, %one : i32
    %last = and %next, %n63 : i32
    %above = ld %s, %last : i32
    %sum = add %above, %old : i32
    st %y, %t, %sum
    barrier ;read
    continue @rounds
  }";
    let signature = "%x: ptr<global, i32>, %y: ptr<global, mut i32>";
    let text = kernel("sm_80", signature, "  shared @s: i32 x 64 align 4\n", body);
    let case = Case::new(text, 1, 64);
    for barrier in ["cleared", "counted", "read"] {
        let edges = [MissingEdge::Block, MissingEdge::Warp];
        finds(&case, &format!("barrier ;{barrier}"), "", &edges);
    }
}

/// ggml-org/llama.cpp#28376: the lanes of a warp store a list, and read it back in the next loop
/// without a barrier of the warp.
#[test]
fn a_list_of_a_warp_is_read_back_without_a_barrier() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %warp = sub %t, %lane : i32
  for @tokens %i: i32 = %lane to %n32 step %n32 {
    %at = add %warp, %i : i32
    st %s, %at, %i
    continue @tokens
  }
  bar_warp %all ;stored
  %other = sub %n31, %lane : i32
  %from = add %warp, %other : i32
  %v = ld %s, %from : i32
  st %x, %t, %v";
    let body = format!("\n  %lane = and %t, %n31 : i32{body}");
    let shared = "  shared @s: i32 x 64 align 4\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, &body);
    let case = Case::new(text, 1, 64);
    finds(&case, "bar_warp %all ;stored", "", &[MissingEdge::Warp]);
}
