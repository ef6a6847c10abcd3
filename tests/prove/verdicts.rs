//! Small kernels with the verdict that each of their accesses gets.

use tilewright::prove::{Proof, Verdict};

use crate::law::verified;

/// Verifies a kernel with `body` for a block of 64 threads, and proves it.
fn prove(allocations: &str, body: &str) -> Proof {
    prove_with("block 64 x 1 x 1", allocations, body)
}

fn prove_with(bounds: &str, allocations: &str, body: &str) -> Proof {
    let text = format!(
        "kernel @k target sm_80 {bounds} (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32, %m: i32) {{
{allocations}
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %three = const 3 : i32
  %four = const 4 : i32
  %seven = const 7 : i32
  %eight = const 8 : i32
  %c16 = const 16 : i32
  %c64 = const 64 : i32
  %u1 = const 1 : u32
  %u3 = const 3 : u32
{body}
  return
}}"
    );
    verified(&text).prove()
}

const SHARED: &str = "  shared @s: i32 x 64 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>";

/// One letter for each obligation: proved, condition, checked, assumed.
fn letters(proof: &Proof) -> String {
    let letter = |verdict: &Verdict| match verdict {
        Verdict::Proved => 'p',
        Verdict::Condition(_) => 'c',
        Verdict::Checked(_) => 'o',
        _ => 'a',
    };
    proof.obligations().iter().map(|obligation| letter(&obligation.verdict)).collect()
}

#[track_caller]
fn expect(allocations: &str, body: &str, wanted: &str) {
    let proof = prove(allocations, body);
    assert_eq!(letters(&proof), wanted, "{proof}");
}

#[test]
fn thread_indices() {
    expect(SHARED, "  st %s, %t, %one", "p");
    expect(
        SHARED,
        "  %i = add %t, %one : i32
  st %s, %i, %one",
        "o",
    );
    // The last thread does not take part.
    expect(
        SHARED,
        "  %i = add %t, %one : i32
  %in = setp<lt> %i, %c64 : bool
  if %in {
    st %s, %i, %one
    yield
  }",
        "p",
    );
    // A block of unknown size.
    let body = "  st %s, %t, %one";
    assert_eq!(letters(&prove_with("", SHARED, body)), "c");
    assert_eq!(letters(&prove_with("max_threads 64", SHARED, body)), "p");
}

#[test]
fn quotients_and_remainders() {
    // A transposed tile: 8 * (t % 8) + t / 8.
    expect(
        SHARED,
        "  %q = div %t, %eight : i32
  %r = rem %t, %eight : i32
  %a = mul %r, %eight : i32
  %i = add %a, %q : i32
  st %s, %i, %one
  %b = mul %q, %eight : i32
  %j = add %b, %r : i32
  st %s, %j, %one
  %k = sub %j, %t : i32
  st %s, %k, %one",
        "ppp",
    );
    // A remainder of something negative is negative.
    expect(
        SHARED,
        "  %i = sub %t, %one : i32
  %r = rem %i, %eight : i32
  st %s, %r, %one",
        "o",
    );
    expect(
        SHARED,
        "  %r = and %n, %seven : i32
  st %s, %r, %one",
        "p",
    );
}

#[test]
fn divisors() {
    expect(SHARED, "  %q = div %t, %n : i32", "c");
    expect(
        SHARED,
        "  %v = ld %x, %zero : i32
  %q = rem %t, %v : i32",
        "co",
    );
    expect(
        SHARED,
        "  %v = max %n, %one : i32
  %q = rem %t, %v : i32",
        "p",
    );
}

#[test]
fn swizzles() {
    // 16-byte chunks of rows of 64 bytes, exchanged by the row.
    expect(
        SHARED,
        "  %r = shr %t, %u3 : i32
  %c = and %t, %seven : i32
  %x1 = xor %r, %c : i32
  %a = shl %r, %u3 : i32
  %i = add %a, %x1 : i32
  st %s, %i, %one",
        "p",
    );
    // The swizzle of a whole offset.
    expect(
        SHARED,
        "  %r = shr %t, %u3 : i32
  %i = xor %t, %r : i32
  st %s, %i, %one",
        "p",
    );
    let short = SHARED.replace("x 64", "x 63");
    expect(
        &short,
        "  %r = shr %t, %u3 : i32
  %i = xor %t, %r : i32
  st %s, %i, %one",
        "o",
    );
}

/// Warp groups number their tiles from 1 on, because group 0 has another role: in group 0, the offset
/// `16*(group - 1)` would be negative. The swizzle leaves these upper bits alone.
#[test]
fn swizzles_of_offsets_that_may_be_negative() {
    let body = |guard: &str| {
        format!(
            "  %g = shr %t, %u4 : i32
  %in = setp<ge> %g, {guard} : bool
  if %in {{
    %g1 = sub %g, %one : i32
    %a = mul %g1, %c16 : i32
    %low = and %t, %seven : i32
    %w = add %a, %low : i32
    %bit8 = and %t, %eight : i32
    %bit = shr %bit8, %u1 : i32
    %i = xor %w, %bit : i32
    st %s, %i, %one
    yield
  }}"
        )
    };
    let shared = |len: u32| {
        format!("{}\n  %u4 = const 4 : u32", SHARED.replace("x 64", &format!("x {len}")))
    };
    // Groups 1 to 3 use 40 elements: 2*16 + 8.
    expect(&shared(40), &body("%one"), "p");
    expect(&shared(39), &body("%one"), "o");
    expect(&shared(40), &body("%zero"), "o");
}

#[test]
fn loops_and_rings() {
    // Rows of a tile.
    let rows = "  for @l %i: i32 = %zero to %four step %one {
    %a = mul %i, %c16 : i32
    %c = rem %t, %c16 : i32
    %j = add %a, %c : i32
    st %s, %j, %one
    continue @l
  }";
    expect(SHARED, rows, "p");
    expect(&SHARED.replace("64", "63"), rows, "o");
    // A ring of four stages, whose stage the loop carries.
    let ring = "  for @l %i: i32 = %zero to %n step %one iter(%stage: i32 = %zero) {
    %a = mul %stage, %c16 : i32
    %c = rem %t, %c16 : i32
    %j = add %a, %c : i32
    st %s, %j, %one
    %next = add %stage, %one : i32
    %end = setp<eq> %next, %four : bool
    %then = selp %end, %zero, %next : i32
    continue @l %then
  }";
    let ring = ring.replace("iter(%stage: i32 = %zero) {", "iter(%stage: i32 = %zero) : i32 {");
    let ring = ring.replacen("for @l", "%last = for @l", 1);
    expect(SHARED, &ring, "p");
    expect(&SHARED.replace("64", "63"), &ring, "o");
    // A block-stride loop over a buffer.
    expect(
        SHARED,
        "  for @l %i: i32 = %t to %n step %c64 {
    %v = ld %x, %i : i32
    continue @l
  }",
        "c",
    );
    // A loop that ends with a `break`.
    expect(
        SHARED,
        "  %r = loop @l iter(%i: i32 = %t) : i32 {
    %stop = setp<ge> %i, %n : bool
    if %stop {
      break @l %i
    }
    %v = ld %x, %i : i32
    %j = add %i, %c64 : i32
    continue @l %j
  }",
        "c",
    );
}

#[test]
fn minima_and_selections() {
    expect(
        SHARED,
        "  %a = max %n, %zero : i32
  %last = sub %c64, %one : i32
  %i = min %a, %last : i32
  st %s, %i, %one",
        "p",
    );
    expect(
        SHARED,
        "  %i = mul %t, %two : i32
  %in = setp<lt> %i, %c64 : bool
  %j = selp %in, %i, %zero : i32
  st %s, %j, %one",
        "p",
    );
    expect(
        SHARED,
        "  %v = ld %x, %zero : i32
  %low = setp<ge> %v, %zero : bool
  %high = setp<lt> %v, %c64 : bool
  %in = and %low, %high : bool
  if %in {
    st %s, %v, %one
    yield
  }
  st %s, %v, %one",
        "cpo",
    );
}

#[test]
fn wrapping_values() {
    // The product may wrap, but the guard comes first.
    expect(
        SHARED,
        "  %a = mul %n, %m : i32
  %low = setp<ge> %a, %zero : bool
  if %low {
    st %s, %a, %one
    yield
  }",
        "c",
    );
    expect(
        SHARED,
        "  %a = mul %t, %n : i32
  %i = sub %a, %a : i32
  st %s, %i, %one",
        "p",
    );
}

#[test]
fn vectors_and_alignment() {
    let splat = "  %v = vec_splat<4> %one : i32x4\n";
    expect(
        SHARED,
        &format!(
            "{splat}  %q = rem %t, %c16 : i32
  %i = mul %q, %four : i32
  st_vec %s, %i, %v"
        ),
        "p",
    );
    expect(
        SHARED,
        &format!(
            "{splat}  %q = rem %t, %c16 : i32
  st_vec %s, %q, %v"
        ),
        "o",
    );
    // A row pitch that is promised to be a multiple of 4: once for the promise, once for the
    // access.
    expect(
        SHARED,
        &format!(
            "{splat}  %p = assume_divisible_by<4> %n : i32
  %i = mul %t, %p : i32
  st_vec %y, %i, %v"
        ),
        "cc",
    );
}

#[test]
fn other_allocations() {
    expect(
        "  local @p: i32 x 8
  array @a: i32 = 1, 2, 3, 4
  %p = local_base<@p> : ptr<local, mut i32>
  %a = array_base<@a> : ptr<const, i32>",
        "  %i = rem %t, %eight : i32
  st %p, %i, %one
  %j = rem %t, %four : i32
  %v = ld %a, %j : i32
  %w = ld %a, %i : i32",
        "ppo",
    );
}

#[test]
fn sizes_of_asynchronous_copies() {
    let copy = |guard: &str| {
        format!(
            "  %sixteen = const 16 : u32
  %none = const 0 : u32
  %i = mul %t, %four : i32
  %last = sub %n, %three : i32
  %in = setp<{guard}> %i, %last : bool
  %bytes = selp %in, %sixteen, %none : u32
  %q = rem %t, %c16 : i32
  %to = mul %q, %four : i32
  cp_async<cg, 16> %s, %to, %x, %i, %bytes"
        )
    };
    // The shared side, then the global side, which needs an aligned buffer of `n` elements.
    expect(SHARED, &copy("lt"), "pc");
}

/// A warp group multiplies the 64 x 16 tile of a ring buffer by its own first 8 rows. The stage is
/// added to the descriptor's low half, which lane 0 broadcasts.
fn descriptors(elements: u32, stages: u32) -> Proof {
    let text = format!(
        "kernel @k target sm_90a block 128 x 1 x 1 () {{
  shared @s: bf16 x {elements} align 128
  var @acc: f32 x 4
  %s = shared_base<@s> : ptr<shared, mut bf16>
  %zero = const 0.0 : f32
  %yes = const true : bool
  set_var<@acc, 0> %zero
  set_var<@acc, 1> %zero
  set_var<@acc, 2> %zero
  set_var<@acc, 3> %zero
  %block = sreg<ctaid.x> : i32
  %last = const {} : i32
  %stage = and %block, %last : i32
  %count = cvt<u32> %stage : u32
  %units = const 128 : u32
  %moved = mul %count, %units : u32
  %desc = matrix_descriptor<34363932672> %s : u64
  %start = cvt<u32> %desc : u32
  %sum = add %start, %moved : u32
  %first = const 0 : u32
  %width = const 31 : u32
  %all = const 0xffffffff : u32
  %low, %inside = shfl<idx> %sum, %first, %width, %all : u32, bool
  %high = const 8 : u32
  %halves = vec_pack %low, %high : u32x2
  %tile = bitcast<u64> %halves : u64
  wgmma_fence
  wgmma<m64n8k16, bf16, bf16, @acc, 0> %tile, %desc, %yes
  wgmma_commit_group
  wgmma_wait_group<0>
  return
}}",
        stages - 1
    );
    verified(&text).prove()
}

#[test]
fn matrix_descriptors() {
    // A tile has 2048 bytes, which are 1024 elements.
    assert_eq!(letters(&descriptors(1024, 1)), "pp");
    assert_eq!(letters(&descriptors(4096, 4)), "pp");
    assert_eq!(letters(&descriptors(4095, 4)), "op");
    assert_eq!(letters(&descriptors(2048, 4)), "op");
    // Not even the 8 columns of B, which end at byte 1152, are inside.
    assert_eq!(letters(&descriptors(568, 1)), "oo");
}
