//! Kernels of clusters of two blocks.

use tilewright::arch::TensorMapDesc;
use tilewright::ir::types::Scalar;

use super::*;

pub(super) fn subjects() -> Vec<Subject> {
    vec![exchange(), start_guard(), remote_arrivals(), st_async(), multicast()]
}

const RANKS: &str = "
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
";

/// Blocks read each other's tile, twice.
fn exchange() -> Subject {
    let body = format!(
        "{RANKS}
  %s = shared_base<@s> : ptr<shared, mut i32>
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %other = sub %n31, %t : i32
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  %v = ld %x, %o : i32
  st %s, %t, %v
  barrier_cluster_arrive
  barrier_cluster_wait
  %w = ld %far, %other : i32
  barrier_cluster_arrive
  barrier_cluster_wait
  %sum = add %w, %t : i32
  st %s, %t, %sum
  barrier_cluster_arrive
  barrier_cluster_wait
  %z = ld %far, %other : i32
  st %y, %o, %z
  barrier_cluster_arrive<, relaxed>
  barrier_cluster_wait"
    );
    let text = kernel("sm_90", XY, "  shared @s: i32 x 32 align 4\n", &body);
    Subject::new("cluster exchange", text, (4, 32), vec![Arg::numbers(128), Arg::zeros(128)])
        .cluster(2)
}

/// Blocks store to each other's tile, as soon as the first barrier of the cluster says that the
/// other one has started.
fn start_guard() -> Subject {
    let body = format!(
        "{RANKS}
  %s = shared_base<@s> : ptr<shared, mut i32>
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %other = sub %n31, %t : i32
  %start = mul %block, %n32 : i32
  %o = add %start, %t : i32
  %v = ld %x, %o : i32
  barrier_cluster_arrive<, relaxed>
  barrier_cluster_wait
  st %far, %other, %v
  barrier_cluster_arrive
  barrier_cluster_wait
  %w = ld %s, %t : i32
  st %y, %o, %w"
    );
    let text = kernel("sm_90", XY, "  shared @s: i32 x 32 align 4\n", &body);
    Subject::new("start guard", text, (4, 32), vec![Arg::numbers(128), Arg::zeros(128)]).cluster(2)
}

/// Blocks add to a counter of block 0 of their cluster and arrive at its mbarrier; block 0 waits
/// and stores the sum.
fn remote_arrivals() -> Subject {
    let body = format!(
        "{RANKS}
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %far = mapa %s, %u0 : ptr<shared::cluster, mut i32>
  %collects = setp<eq> %number, %zero : bool
  %i = mul %block, %n32 : i32
  %at = add %i, %t : i32
  %v = ld %x, %at : i32
  if %first {{
    st %s, %zero, %zero
    mbarrier_init %bar, %zero, %u64
    fence_mbarrier_init
    yield
  }}
  barrier_cluster_arrive
  barrier_cluster_wait
  %old = atom<add, relaxed, cluster> %far, %zero, %v : i32
  mbarrier_arrive_cluster<release> %bar, %zero, %u0
  if %collects {{
    mbarrier_wait_parity %bar, %zero, %u0
    %sum = ld %s, %zero : i32
    %o = add %sum, %t : i32
    st %y, %at, %o
    yield
  }}"
    );
    let shared = "  shared @s: i32 x 1 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_90", XY, shared, &body);
    Subject::new("remote arrivals", text, (4, 32), vec![Arg::numbers(128), Arg::zeros(128)])
        .cluster(2)
}

/// Blocks fill each other's tile by stores that signal an mbarrier, in two rounds.
fn st_async() -> Subject {
    let body = format!(
        "{RANKS}
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %bytes = const 128 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %there = mapa %bar, %next : ptr<shared::cluster, mut u64>
  %other = sub %n31, %t : i32
  %start = mul %block, %n64 : i32
  if %first {{
    mbarrier_init %bar, %zero, %u1
    fence_mbarrier_init
    yield
  }}
  barrier_cluster_arrive
  barrier_cluster_wait
  for @rounds %k: i32 = %zero to %two step %one {{
    %parity = cvt<u32> %k : u32
    if %first {{
      %state = mbarrier_arrive_expect_tx %bar, %zero, %bytes : u64
      yield
    }}
    %k32 = mul %k, %n32 : i32
    %o0 = add %start, %k32 : i32
    %o = add %o0, %t : i32
    %v = ld %x, %o : i32
    st_async %far, %t, %v, %there, %zero
    mbarrier_wait_parity %bar, %zero, %parity
    %w = ld %s, %other : i32
    st %y, %o, %w
    barrier_cluster_arrive
    barrier_cluster_wait
    continue @rounds
  }}"
    );
    let shared = "  shared @s: i32 x 32 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_90", XY, shared, &body);
    Subject::new("st.async", text, (4, 32), vec![Arg::numbers(256), Arg::zeros(256)]).cluster(2)
}

/// Block 0 loads boxes for both blocks; each says by a remote arrival when it has read one.
fn multicast() -> Subject {
    let body = format!(
        "{RANKS}
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %both = const 3 : u32
  %three = const 3 : i32
  %n128 = const 128 : i32
  %n384 = const 384 : i32
  %base = mul %block, %n384 : i32
  if %first {{
    mbarrier_init %full, %zero, %u1
    mbarrier_init %empty, %zero, %u2
    fence_mbarrier_init
    yield
  }}
  barrier_cluster_arrive<, relaxed>
  barrier_cluster_wait
  %is_leader = setp<eq> %number, %zero : bool
  %loads = and %is_leader, %first : bool
  for @rounds %k: i32 = %zero to %three step %one {{
    %odd = and %k, %one : i32
    %parity = cvt<u32> %odd : u32
    %even = xor %odd, %one : i32
    %before = cvt<u32> %even : u32
    if %first {{
      %state = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
      yield
    }}
    if %loads {{
      mbarrier_wait_parity %empty, %zero, %before
      %row = mul %k, %n16 : i32
      cp_async_bulk_tensor_multicast %m, %s, %zero, %full, %zero, %both, %zero, %row
      yield
    }}
    mbarrier_wait_parity %full, %zero, %parity
    %k128 = mul %k, %n128 : i32
    %o0 = add %base, %k128 : i32
    for @quarters %q: i32 = %zero to %n128 step %n32 {{
      %i = add %q, %t : i32
      %v = ld %s, %i : i32
      %o = add %o0, %i : i32
      st %y, %o, %v
      continue @quarters
    }}
    fence_proxy_async
    bar_warp %all
    if %first {{
      mbarrier_arrive_cluster<release> %empty, %zero, %u0
      yield
    }}
    continue @rounds
  }}
  barrier_cluster_arrive
  barrier_cluster_wait"
    );
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n  shared @empty: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, &body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    let args = vec![Arg::map(map, 512), Arg::zeros(768)];
    Subject::new("multicast", text, (2, 32), args).cluster(2)
}
