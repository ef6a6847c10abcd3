//! Kernels in the text form with ring buffers. Lines that a test removes end in a mark.

/// Threads copy tiles ahead into a ring buffer of three stages, and each reads what another thread
/// has copied.
pub(crate) fn cp_async_ring() -> String {
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
        "kernel @copy target sm_80 block 32 x 1 x 1 (%x: ptr<global, i32>, %out: ptr<global, mut i32>) {{
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

/// One thread loads boxes of 16 rows ahead into a ring buffer of two stages, and 64 threads read
/// them.
pub(crate) fn load_ring() -> String {
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
      fence_proxy_async<shared::cta>
      %qstate = mbarrier_arrive %empty, %qs, %u1 : u64
      continue @reads
    }
    yield
  }
  return
}"
    .to_owned()
}

/// 64 threads write tiles to a ring buffer of two stages, and one thread of the last warp starts
/// `store` from it.
pub(crate) fn store_ring(signature: &str, store: &str) -> String {
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
