//! Kernels with asynchronous copies.

use tilewright::arch::TensorMapDesc;
use tilewright::ir::types::Scalar;

use super::*;
use crate::support::rings::{cp_async_ring, load_ring, store_ring};

pub(super) fn subjects() -> Vec<Subject> {
    let map = TensorMapDesc::new(Scalar::I32, &[8, 128], &[32], &[8, 16]).unwrap();
    let boxes = store_ring(
        "%m: tensor_map<mut i32, 2>",
        "cp_async_bulk_tensor_store %m, %tile, %at, %zero, %row",
    );
    let bulk =
        store_ring("%x: ptr<global, mut i32>", "cp_async_bulk_store %x, %from, %tile, %at, %bytes");
    vec![
        Subject::new(
            "cp.async ring",
            cp_async_ring(),
            (1, 32),
            vec![Arg::numbers(1024), Arg::zeros(1024)],
        ),
        Subject::new(
            "TMA load ring",
            load_ring(),
            (1, 96),
            vec![Arg::map(map.clone(), 1024), Arg::zeros(1024)],
        ),
        Subject::new("TMA store ring", boxes, (1, 64), vec![Arg::map(map, 1024)]),
        Subject::new("bulk store ring", bulk, (1, 64), vec![Arg::zeros(1024)]),
        copies_to_an_mbarrier(),
        wgmma(),
        wgmma_ring(),
    ]
}

/// Two warps copy tiles by `cp.async` and signal an mbarrier, at which all wait; twice.
fn copies_to_an_mbarrier() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %four_b = const 4 : u32
  %other = sub %n63, %t : i32
  if %first {
    mbarrier_init %bar, %zero, %u64
    yield
  }
  barrier
  for @rounds %k: i32 = %zero to %four step %one {
    %odd = and %k, %one : i32
    %parity = cvt<u32> %odd : u32
    %k64 = mul %k, %n64 : i32
    %i = add %k64, %t : i32
    cp_async<ca, 4> %s, %t, %x, %i, %four_b
    cp_async_mbarrier_arrive<noinc> %bar, %zero
    mbarrier_wait_parity %bar, %zero, %parity
    %v = ld %s, %other : i32
    st %y, %i, %v
    barrier
    continue @rounds
  }";
    let shared = "  shared @s: i32 x 64 align 16\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_80", XY, shared, body);
    Subject::new("cp.async mbarrier", text, (1, 64), vec![Arg::numbers(256), Arg::zeros(256)])
}

/// A warp group multiplies tiles that its threads write to shared memory, one after the other.
fn wgmma() -> Subject {
    let body = "
  %a = shared_base<@a> : ptr<shared, mut bf16>
  %b = shared_base<@b> : ptr<shared, mut bf16>
  %three = const 3 : i32
  %seven = const 7 : i32
  %eleven = const 11 : i32
  %n128 = const 128 : i32
  %n1024 = const 1024 : i32
  %f0 = const 0.0 : f32
  %true = const true : bool
  set_var<@acc, 0> %f0
  set_var<@acc, 1> %f0
  set_var<@acc, 2> %f0
  set_var<@acc, 3> %f0
  for @rounds %k: i32 = %zero to %three step %one {
    for @fill %i: i32 = %t to %n1024 step %n128 {
      %i7 = rem %i, %seven : i32
      %ik = add %i7, %k : i32
      %v = cvt<bf16> %ik : bf16
      st %a, %i, %v
      continue @fill
    }
    %t3 = rem %t, %eleven : i32
    %tk = add %t3, %k : i32
    %w = cvt<bf16> %tk : bf16
    st %b, %t, %w
    fence_proxy_async<shared::cta>
    barrier
    %da = matrix_descriptor<34363932672> %a : u64
    %db = matrix_descriptor<34360262656> %b : u64
    wgmma_fence
    wgmma<m64n8k16, bf16, bf16, @acc, 0> %da, %db, %true
    wgmma_commit_group
    wgmma_wait_group<0>
    barrier
    continue @rounds
  }
  %d0 = get_var<@acc, 0> : f32
  %d1 = get_var<@acc, 1> : f32
  %d2 = get_var<@acc, 2> : f32
  %d3 = get_var<@acc, 3> : f32
  %o0 = mul %t, %four : i32
  %o1 = add %o0, %one : i32
  %o2 = add %o1, %one : i32
  %o3 = add %o2, %one : i32
  st %y, %o0, %d0
  st %y, %o1, %d1
  st %y, %o2, %d2
  st %y, %o3, %d3";
    let shared = "  shared @a: bf16 x 1024 align 128\n  shared @b: bf16 x 128 align 128\n  var @acc: f32 x 4\n";
    let text = kernel("sm_90a", "%y: ptr<global, mut f32>", shared, body);
    Subject::new("wgmma loop", text, (1, 128), vec![Arg::zeros(512)])
}

/// A warp fills a ring of two stages with the operands of a warp group. One lane of each warp of
/// the group releases a stage, for 24 rounds: three arrivals in place of four show only after some
/// turns, because a wait of one warp covers the whole group.
fn wgmma_ring() -> Subject {
    let body = "
  %a = shared_base<@a> : ptr<shared, mut bf16>
  %b = shared_base<@b> : ptr<shared, mut bf16>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %n24 = const 24 : i32
  %seven = const 7 : i32
  %n128 = const 128 : i32
  %n1024 = const 1024 : i32
  %f0 = const 0.0 : f32
  %true = const true : bool
  %fills = setp<ge> %t, %n128 : bool
  set_var<@acc, 0> %f0
  set_var<@acc, 1> %f0
  set_var<@acc, 2> %f0
  set_var<@acc, 3> %f0
  if %first {
    for @init %j: i32 = %zero to %two step %one {
      mbarrier_init %full, %j, %u1
      mbarrier_init %empty, %j, %u4
      continue @init
    }
    yield
  }
  barrier
  for @rounds %k: i32 = %zero to %n24 step %one {
    %stage = and %k, %one : i32
    %turn = shr %k, %u1 : i32
    %odd = and %turn, %one : i32
    %parity = cvt<u32> %odd : u32
    %even = xor %odd, %one : i32
    %before = cvt<u32> %even : u32
    %a_at = mul %stage, %n1024 : i32
    %b_at = mul %stage, %n128 : i32
    %as = offset %a, %a_at : ptr<shared, mut bf16>
    %bs = offset %b, %b_at : ptr<shared, mut bf16>
    if %fills {
      mbarrier_wait_parity %empty, %stage, %before
      for @fill_a %i: i32 = %lane to %n1024 step %n32 {
        %ik = add %i, %k : i32
        %ir = rem %ik, %seven : i32
        %v = cvt<bf16> %ir : bf16
        st %as, %i, %v
        continue @fill_a
      }
      for @fill_b %bi: i32 = %lane to %n128 step %n32 {
        %bik = add %bi, %k : i32
        %bir = rem %bik, %four : i32
        %bv = cvt<bf16> %bir : bf16
        st %bs, %bi, %bv
        continue @fill_b
      }
      fence_proxy_async<shared::cta>
      bar_warp %all
      if %leads {
        %filled = mbarrier_arrive %full, %stage, %u1 : u64
        yield
      }
      yield
    } else {
      mbarrier_wait_parity %full, %stage, %parity
      %da = matrix_descriptor<34363932672> %as : u64
      %db = matrix_descriptor<34360262656> %bs : u64
      wgmma_fence
      wgmma<m64n8k16, bf16, bf16, @acc, 0> %da, %db, %true
      wgmma_commit_group
      wgmma_wait_group<0>
      if %leads {
        %freed = mbarrier_arrive %empty, %stage, %u1 : u64
        yield
      }
      yield
    }
    continue @rounds
  }
  if %fills {
    yield
  } else {
    %d0 = get_var<@acc, 0> : f32
    %d1 = get_var<@acc, 1> : f32
    %d2 = get_var<@acc, 2> : f32
    %d3 = get_var<@acc, 3> : f32
    %o0 = mul %t, %four : i32
    %o1 = add %o0, %one : i32
    %o2 = add %o1, %one : i32
    %o3 = add %o2, %one : i32
    st %y, %o0, %d0
    st %y, %o1, %d1
    st %y, %o2, %d2
    st %y, %o3, %d3
    yield
  }";
    let shared = "  shared @a: bf16 x 2048 align 128\n  shared @b: bf16 x 256 align 128\n  shared @full: u64 x 2 align 8\n  shared @empty: u64 x 2 align 8\n  var @acc: f32 x 4\n";
    let text = kernel("sm_90a", "%y: ptr<global, mut f32>", shared, body);
    Subject::new("wgmma ring", text, (1, 160), vec![Arg::zeros(512)])
}
