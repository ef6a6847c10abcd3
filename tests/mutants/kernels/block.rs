//! Kernels whose blocks work alone.

use super::*;

pub(super) fn subjects() -> Vec<Subject> {
    vec![
        tree_reduction(),
        transpose(),
        softmax(),
        histogram(),
        lanes(),
        stencil(),
        named_barriers(),
        mbarrier_ring(),
        long_ring(),
        warp_list(),
    ]
}

/// Two tiles of 128 numbers are added up in shared memory, the last steps by one warp.
fn tree_reduction() -> Subject {
    let mut body = "
  %n128 = const 128 : i32
  %s = shared_base<@s> : ptr<shared, mut i32>
  %base = mul %block, %n256 : i32
  for @tiles %k: i32 = %zero to %n256 step %n128 {
    %at = add %base, %k : i32
    %i = add %at, %t : i32
    %v = ld %x, %i : i32
    st %s, %t, %v
    barrier"
        .to_owned();
    for n in [64, 32] {
        body += &format!(
            "
    %p{n} = setp<lt> %t, %n{n} : bool
    if %p{n} {{
      %j{n} = add %t, %n{n} : i32
      %a{n} = ld %s, %t : i32
      %b{n} = ld %s, %j{n} : i32
      %c{n} = add %a{n}, %b{n} : i32
      st %s, %t, %c{n}
      yield
    }}
    barrier"
        );
    }
    body += "
    if %low {";
    for n in [16, 8, 4, 2, 1] {
        body += &format!(
            "
      %m{n} = const {n} : i32
      %p{n} = setp<lt> %t, %m{n} : bool
      if %p{n} {{
        %j{n} = add %t, %m{n} : i32
        %a{n} = ld %s, %t : i32
        %b{n} = ld %s, %j{n} : i32
        %c{n} = add %a{n}, %b{n} : i32
        st %s, %t, %c{n}
        yield
      }}
      bar_warp %all"
        );
    }
    body += "
      yield
    }
    barrier
    %sum = ld %s, %zero : i32
    %o = sub %i, %zero : i32
    st %y, %o, %sum
    barrier
    continue @tiles
  }";
    let text = kernel("sm_80", XY, "  shared @s: i32 x 128 align 4\n", &body);
    Subject::new("tree reduction", text, (2, 128), vec![Arg::numbers(512), Arg::zeros(512)])
}

/// Three tiles of 16 x 16, transposed through shared memory.
fn transpose() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n768 = const 768 : i32
  %start = mul %block, %n768 : i32
  %r = shr %t, %u4 : i32
  %c = and %t, %n15 : i32
  %c16 = mul %c, %n16 : i32
  %o = add %c16, %r : i32
  for @tiles %k: i32 = %zero to %n768 step %n256 {
    %at0 = add %start, %k : i32
    %at = add %at0, %t : i32
    %v = ld %x, %at : i32
    st %s, %t, %v
    barrier
    %w = ld %s, %o : i32
    st %y, %at, %w
    barrier
    continue @tiles
  }";
    let text = kernel("sm_80", XY, "  shared @s: i32 x 256 align 4\n", body);
    Subject::new("transpose", text, (2, 256), vec![Arg::numbers(1536), Arg::zeros(1536)])
}

/// A row of 64 numbers less its largest, and the sum of that; two rows.
fn softmax() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %warp = shr %t, %u5 : i32
  for @rows %k: i32 = %zero to %two step %one {
    %k64 = mul %k, %n64 : i32
    %i = add %k64, %t : i32
    %v = ld %x, %i : i32
    %m = redux<max> %v, %all : i32
    if %leads {
      st %s, %warp, %m
      yield
    }
    barrier
    %m0 = ld %s, %zero : i32
    %m1 = ld %s, %one : i32
    %most = max %m0, %m1 : i32
    barrier
    %e = sub %most, %v : i32
    %sum = redux<add> %e, %all : i32
    if %leads {
      st %s, %warp, %sum
      yield
    }
    barrier
    %s0 = ld %s, %zero : i32
    %s1 = ld %s, %one : i32
    %whole = add %s0, %s1 : i32
    barrier
    %d = sub %whole, %e : i32
    st %y, %i, %d
    continue @rows
  }";
    let text = kernel("sm_80", XY, "  shared @s: i32 x 2 align 4\n", body);
    Subject::new("softmax", text, (1, 64), vec![Arg::numbers(128), Arg::zeros(128)])
}

/// Counts numbers in 32 bins in shared memory, then in global memory.
fn histogram() -> Subject {
    let body = "
  %h = shared_base<@h> : ptr<shared, mut i32>
  if %low {
    st %h, %t, %zero
    yield
  }
  barrier
  %start = mul %block, %n256 : i32
  for @items %k: i32 = %zero to %n256 step %n64 {
    %i0 = add %start, %k : i32
    %i = add %i0, %t : i32
    %v = ld %x, %i : i32
    %bin = and %v, %n31 : i32
    %old = atom<add, relaxed, cta> %h, %bin, %one : i32
    continue @items
  }
  barrier
  if %low {
    %c = ld %h, %t : i32
    %before = atom<add, relaxed, gpu> %y, %t, %c : i32
    yield
  }";
    let text = kernel("sm_80", XY, "  shared @h: i32 x 32 align 4\n", body);
    Subject::new("histogram", text, (4, 64), vec![Arg::numbers(1024), Arg::zeros(32)])
}

/// Lanes of a warp exchange numbers through shared memory, twice.
fn lanes() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n31, %t : i32
  %v = ld %x, %t : i32
  st %s, %t, %v
  bar_warp %all
  %a = ld %s, %other : i32
  bar_warp %all
  %b = add %a, %t : i32
  st %s, %t, %b
  bar_warp %all
  %next = xor %t, %one : i32
  %c = ld %s, %next : i32
  st %y, %t, %c";
    let text = kernel("sm_80", XY, "  shared @s: i32 x 32 align 4\n", body);
    Subject::new("lane exchange", text, (1, 32), vec![Arg::numbers(32), Arg::zeros(32)])
}

/// Each number becomes the sum with its neighbours, three times, in one tile.
fn stencil() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %three = const 3 : i32
  %v = ld %x, %t : i32
  st %s, %t, %v
  barrier
  for @steps %k: i32 = %zero to %three step %one {
    %left0 = sub %t, %one : i32
    %left = and %left0, %n63 : i32
    %right0 = add %t, %one : i32
    %right = and %right0, %n63 : i32
    %a = ld %s, %left : i32
    %b = ld %s, %t : i32
    %c = ld %s, %right : i32
    barrier
    %ab = add %a, %b : i32
    %abc = add %ab, %c : i32
    st %s, %t, %abc
    barrier
    continue @steps
  }
  %last = sub %n63, %t : i32
  %w = ld %s, %last : i32
  st %y, %t, %w";
    let text = kernel("sm_80", XY, "  shared @s: i32 x 64 align 4\n", body);
    Subject::new("stencil", text, (1, 64), vec![Arg::numbers(64), Arg::zeros(64)])
}

/// One warp fills a tile for another one, with named barriers for full and empty.
fn named_barriers() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n31, %lane : i32
  if %low {
    for @produce %k: i32 = %zero to %four step %one {
      %k32 = mul %k, %n32 : i32
      %i = add %k32, %lane : i32
      %v = ld %x, %i : i32
      barrier_sync %u2, %u64
      st %s, %lane, %v
      barrier_arrive %u1, %u64
      continue @produce
    }
    yield
  } else {
    for @consume %c: i32 = %zero to %four step %one {
      barrier_arrive %u2, %u64
      barrier_sync %u1, %u64
      %w = ld %s, %other : i32
      %c32 = mul %c, %n32 : i32
      %o = add %c32, %lane : i32
      st %y, %o, %w
      continue @consume
    }
    yield
  }";
    let text = kernel("sm_80", XY, "  shared @s: i32 x 32 align 4\n", body);
    Subject::new("named barriers", text, (1, 64), vec![Arg::numbers(128), Arg::zeros(128)])
}

/// One warp fills a ring of three stages, which four warps read for twelve rounds; one lane of each
/// arrives. A surplus or a missing arrival shows only after some turns of the ring.
fn long_ring() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %stages = const 3 : i32
  %rounds = const 12 : i32
  %n128 = const 128 : i32
  %other = sub %n31, %lane : i32
  %warp = shr %t, %u5 : i32
  %fills = setp<ge> %t, %n128 : bool
  if %first {
    for @init %j: i32 = %zero to %stages step %one {
      mbarrier_init %full, %j, %u1
      mbarrier_init %empty, %j, %u4
      continue @init
    }
    yield
  }
  barrier
  for @rounds %k: i32 = %zero to %rounds step %one {
    %ks = rem %k, %stages : i32
    %turn = div %k, %stages : i32
    %odd = and %turn, %one : i32
    %parity = cvt<u32> %odd : u32
    %even = xor %odd, %one : i32
    %before = cvt<u32> %even : u32
    %k32 = mul %k, %n32 : i32
    %i = add %k32, %lane : i32
    %at = mul %ks, %n32 : i32
    if %fills {
      %v = ld %x, %i : i32
      mbarrier_wait_parity %empty, %ks, %before
      %to = add %at, %lane : i32
      st %s, %to, %v
      bar_warp %all
      if %leads {
        %filled = mbarrier_arrive %full, %ks, %u1 : u64
        yield
      }
      yield
    } else {
      mbarrier_wait_parity %full, %ks, %parity
      %from = add %at, %other : i32
      %w = ld %s, %from : i32
      %k128 = mul %k, %n128 : i32
      %o = add %k128, %t : i32
      st %y, %o, %w
      bar_warp %all
      if %leads {
        %freed = mbarrier_arrive %empty, %ks, %u1 : u64
        yield
      }
      yield
    }
    continue @rounds
  }";
    let shared = "  shared @s: i32 x 96 align 4\n  shared @full: u64 x 3 align 8\n  shared @empty: u64 x 3 align 8\n";
    let text = kernel("sm_80", XY, shared, body);
    Subject::new("long ring", text, (1, 160), vec![Arg::numbers(384), Arg::zeros(1536)])
}

/// The lanes of a warp exchange values by shuffles and votes beside shared memory: a list of the
/// large numbers, in order, then the same in reverse order.
fn warp_list() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n112 = const 112 : i32
  %bit = shl %u1, %tu : u32
  %below = sub %bit, %u1 : u32
  %v = ld %x, %t : i32
  %is = setp<gt> %v, %n112 : bool
  %ballot = vote_ballot %is, %all : u32
  %before = and %ballot, %below : u32
  %rank_u = popc %before : u32
  %rank = cvt<i32> %rank_u : i32
  %count_u = popc %ballot : u32
  %count = cvt<i32> %count_u : i32
  st %s, %t, %zero
  bar_warp %all
  if %is {
    st %s, %rank, %v
    yield
  }
  bar_warp %all
  %other = sub %n31, %t : i32
  %w = ld %s, %other : i32
  %largest = redux<max> %w, %all : i32
  bar_warp %all
  %sum = add %w, %largest : i32
  st %s, %t, %sum
  bar_warp %all
  %z = ld %s, %other : i32
  %o = add %z, %count : i32
  st %y, %t, %o";
    let body = format!("\n  %tu = cvt<u32> %t : u32{body}");
    let text = kernel("sm_80", XY, "  shared @s: i32 x 32 align 4\n", &body);
    Subject::new("warp list", text, (1, 32), vec![Arg::numbers(192), Arg::zeros(32)])
}

/// One warp fills a ring of two stages for another one, with mbarriers at which one lane arrives
/// for its warp.
fn mbarrier_ring() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %other = sub %n31, %lane : i32
  %n6 = const 6 : i32
  if %first {
    for @init %j: i32 = %zero to %two step %one {
      mbarrier_init %full, %j, %u1
      mbarrier_init %empty, %j, %u1
      continue @init
    }
    yield
  }
  barrier
  for @rounds %k: i32 = %zero to %n6 step %one {
    %stage = and %k, %one : i32
    %turn = shr %k, %u1 : i32
    %odd = and %turn, %one : i32
    %parity = cvt<u32> %odd : u32
    %even = xor %odd, %one : i32
    %before = cvt<u32> %even : u32
    %k32 = mul %k, %n32 : i32
    %i = add %k32, %lane : i32
    %at = mul %stage, %n32 : i32
    if %low {
      %v = ld %x, %i : i32
      mbarrier_wait_parity %empty, %stage, %before
      %to = add %at, %lane : i32
      st %s, %to, %v
      bar_warp %all
      if %leads {
        %filled = mbarrier_arrive %full, %stage, %u1 : u64
        yield
      }
      yield
    } else {
      mbarrier_wait_parity %full, %stage, %parity
      %from = add %at, %other : i32
      %w = ld %s, %from : i32
      st %y, %i, %w
      bar_warp %all
      if %leads {
        %freed = mbarrier_arrive %empty, %stage, %u1 : u64
        yield
      }
      yield
    }
    continue @rounds
  }";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @full: u64 x 2 align 8\n  shared @empty: u64 x 2 align 8\n";
    let text = kernel("sm_80", XY, shared, body);
    Subject::new("mbarrier ring", text, (1, 64), vec![Arg::numbers(192), Arg::zeros(192)])
}
