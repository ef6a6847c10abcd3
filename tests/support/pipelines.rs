//! Kernels in the text form with asynchronous copies and tensor cores. Lines that a test removes
//! end in a mark.

/// A bf16 GEMM `C = A B^T` with 128 x 128 x 64 tiles: one thread copies boxes into four stages, and
/// two warp groups multiply.
pub(crate) fn hopper_gemm() -> String {
    // Rows have 128 bytes and are swizzled; eight rows have 1024 bytes.
    let descriptor = 1u64 << 62 | 64 << 32 | 1 << 16;
    let mut text = "kernel @gemm target sm_90a block 384 x 1 x 1 (%ma: tensor_map<bf16, 2>, %mb: tensor_map<bf16, 2>, \
         %c: ptr<global, mut f32>, %n: i32, %blocks: i32) {
  shared @a: bf16 x 32768 align 1024
  shared @b: bf16 x 32768 align 1024
  shared @full: u64 x 4 align 8
  shared @empty: u64 x 4 align 8
  var @acc: f32 x 64
  %a = shared_base<@a> : ptr<shared, mut bf16>
  %b = shared_base<@b> : ptr<shared, mut bf16>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %empty = shared_base<@empty> : ptr<shared, mut u64>
  %t = sreg<tid.x> : i32
  %bx = sreg<ctaid.x> : i32
  %by = sreg<ctaid.y> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %three = const 3 : i32
  %four = const 4 : i32
  %eight = const 8 : i32
  %sixteen = const 16 : i32
  %k64 = const 64 : i32
  %n128 = const 128 : i32
  %stage = const 8192 : i32
  %u1 = const 1 : u32
  %u2 = const 2 : u32
  %u5 = const 5 : u32
  %u7 = const 7 : u32
  %bytes = const 32768 : u32
  %m0 = mul %by, %n128 : i32
  %n0 = mul %bx, %n128 : i32
  %first = setp<eq> %t, %zero : bool
  if %first {
    for @init %i: i32 = %zero to %four step %one {
      mbarrier_init %full, %i, %u1
      mbarrier_init %empty, %i, %u2
      continue @init
    }
    fence_mbarrier_init
    yield
  }
  barrier
  %group = shr %t, %u7 : i32
  %is_producer = setp<eq> %group, %zero : bool
  if %is_producer {
    if %first {
      for @copy %p: i32 = %zero to %blocks step %one {
        %ps = and %p, %three : i32
        %pr = shr %p, %u2 : i32
        %pr1 = add %pr, %one : i32
        %podd = and %pr1, %one : i32
        %pparity = cvt<u32> %podd : u32
        mbarrier_wait_parity %empty, %ps, %pparity ;wait-empty
        %pstate = mbarrier_arrive_expect_tx %full, %ps, %bytes : u64
        %pat = mul %ps, %stage : i32
        %pk = mul %p, %k64 : i32
        cp_async_bulk_tensor_load %ma, %a, %pat, %full, %ps, %pk, %m0
        cp_async_bulk_tensor_load %mb, %b, %pat, %full, %ps, %pk, %n0
        continue @copy
      }
      yield
    }
    yield
  } else {
    %consumer = sub %group, %one : i32
    %lane128 = const 127 : i32
    %tg = and %t, %lane128 : i32
    %leads = setp<eq> %tg, %zero : bool
    %half = const 4096 : i32
    %rows = mul %consumer, %half : i32
    %f0 = const 0.0 : f32\n"
        .to_owned();
    for r in 0..64 {
        text += &format!("    set_var<@acc, {r}> %f0\n");
    }
    text += &format!(
        "    %true = const true : bool
    for @multiply %q: i32 = %zero to %blocks step %one {{
      %qs = and %q, %three : i32
      %qr = shr %q, %u2 : i32
      %qodd = and %qr, %one : i32
      %qparity = cvt<u32> %qodd : u32
      mbarrier_wait_parity %full, %qs, %qparity ;wait-full
      %qat = mul %qs, %stage : i32
      %qa = add %qat, %rows : i32
      %pa = offset %a, %qa : ptr<shared, mut bf16>
      %pb = offset %b, %qat : ptr<shared, mut bf16>
      %da0 = matrix_descriptor<{descriptor}> %pa : u64
      %db0 = matrix_descriptor<{descriptor}> %pb : u64
      wgmma_fence ;fence\n"
    );
    for k in 0..4 {
        text += &format!(
            "      %o{k} = const {} : u64
      %da{k}_ = add %da0, %o{k} : u64
      %db{k}_ = add %db0, %o{k} : u64
      wgmma<m64n128k16, bf16, bf16, @acc, 0> %da{k}_, %db{k}_, %true\n",
            2 * k
        );
    }
    text += "      wgmma_commit_group ;commit
      wgmma_wait_group<1> ;wait-one
      %is_later = setp<gt> %q, %zero : bool
      %releases = and %is_later, %leads : bool
      if %releases {
        %before = sub %q, %one : i32
        %bs = and %before, %three : i32
        %bstate = mbarrier_arrive %empty, %bs, %u1 : u64
        yield
      }
      continue @multiply
    }
    wgmma_wait_group<0> ;wait-all
    %warp = shr %tg, %u5 : i32
    %lanes = const 31 : i32
    %lane = and %tg, %lanes : i32
    %r8 = shr %lane, %u2 : i32
    %w16 = mul %warp, %sixteen : i32
    %g64 = mul %consumer, %k64 : i32
    %row0 = add %w16, %r8 : i32
    %row1 = add %row0, %g64 : i32
    %row = add %row1, %m0 : i32
    %quad = and %lane, %three : i32
    %quad2 = mul %quad, %two : i32
    %column = add %quad2, %n0 : i32
    %row_at = mul %row, %n : i32
    %at = add %row_at, %column : i32
    %n8 = mul %n, %eight : i32
    %at8 = add %at, %n8 : i32\n";
    for r in 0..64 {
        let (base, offset) = (if r / 2 % 2 == 0 { "at" } else { "at8" }, r % 2 + 8 * (r / 4));
        text += &format!(
            "    %e{r} = const {offset} : i32
    %i{r} = add %{base}, %e{r} : i32
    %d{r} = get_var<@acc, {r}> : f32
    st %c, %i{r}, %d{r}\n"
        );
    }
    text + "    yield\n  }\n  return\n}\n"
}

/// A bf16 GEMM `C = A B^T` with 128 x 128 x 32 tiles: eight warps copy by threads into two stages,
/// load fragments and multiply 64 x 32 each.
pub(crate) fn ampere_gemm() -> String {
    let mut text = "kernel @gemm target sm_80 block 256 x 1 x 1 (%x: ptr<global, bf16>, %y: ptr<global, bf16>, \
                    %c: ptr<global, mut f32>, %n: i32, %k: i32) {
  shared @a: bf16 x 8192 align 128
  shared @b: bf16 x 8192 align 128
  var @acc: f32 x 64
  %a = shared_base<@a> : ptr<shared, mut bf16>
  %b = shared_base<@b> : ptr<shared, mut bf16>
  %t = sreg<tid.x> : i32
  %bx = sreg<ctaid.x> : i32
  %by = sreg<ctaid.y> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %three = const 3 : i32
  %seven = const 7 : i32
  %eight = const 8 : i32
  %fifteen = const 15 : i32
  %k32 = const 32 : i32
  %n64 = const 64 : i32
  %n128 = const 128 : i32
  %stage = const 4096 : i32
  %u1 = const 1 : u32
  %u2 = const 2 : u32
  %u3 = const 3 : u32
  %u4 = const 4 : u32
  %u5 = const 5 : u32
  %bytes = const 16 : u32
  %m0 = mul %by, %n128 : i32
  %n0 = mul %bx, %n128 : i32
  ; The thread copies 16 bytes of rows t / 4 and t / 4 + 64.
  %row = shr %t, %u2 : i32
  %part0 = and %t, %three : i32
  %part = mul %part0, %eight : i32
  %row_b = add %row, %n64 : i32
  %to_a0 = mul %row, %k32 : i32
  %to_0 = add %to_a0, %part : i32
  %to_b0 = mul %row_b, %k32 : i32
  %to_1 = add %to_b0, %part : i32\n"
        .to_owned();
    for (name, tile) in [("x", "m0"), ("y", "n0")] {
        for (i, row) in ["row", "row_b"].into_iter().enumerate() {
            text += &format!(
                "  %{name}r{i} = add %{row}, %{tile} : i32
  %{name}m{i} = mul %{name}r{i}, %k : i32
  %{name}f{i} = add %{name}m{i}, %part : i32\n"
            );
        }
    }
    let copies = |tag: &str, offset: &str, stage: &str| {
        let mut text = String::new();
        for (name, tile) in [("x", "a"), ("y", "b")] {
            for i in 0..2 {
                text += &format!(
                    "  %{tag}{name}g{i} = add %{name}f{i}, %{offset} : i32
  %{tag}{name}s{i} = add %to_{i}, %{stage} : i32
  cp_async<cg, 16> %{tile}, %{tag}{name}s{i}, %{name}, %{tag}{name}g{i}, %bytes\n"
                );
            }
        }
        text + "  cp_async_commit_group\n"
    };
    text += &copies("p", "zero", "zero");
    text += "  %warp = shr %t, %u5 : i32
  %lanes = const 31 : i32
  %lane = and %t, %lanes : i32
  %wm0 = shr %warp, %u2 : i32
  %wm = mul %wm0, %n64 : i32
  %wn0 = and %warp, %three : i32
  %wn = mul %wn0, %k32 : i32
  %la = and %lane, %fifteen : i32
  %ra = add %la, %wm : i32
  %ra32 = mul %ra, %k32 : i32
  %ca0 = shr %lane, %u4 : i32
  %ca = mul %ca0, %eight : i32
  %fa = add %ra32, %ca : i32
  %lb = and %lane, %seven : i32
  %rb = add %lb, %wn : i32
  %rb32 = mul %rb, %k32 : i32
  %cb0 = shr %lane, %u3 : i32
  %cb1 = and %cb0, %one : i32
  %cb = mul %cb1, %eight : i32
  %fb = add %rb32, %cb : i32
  %f0 = const 0.0 : f32\n";
    for r in 0..64 {
        text += &format!("  set_var<@acc, {r}> %f0\n");
    }
    text += "  for @tiles %kt: i32 = %zero to %k step %k32 {
    %it = shr %kt, %u5 : i32
    %odd = and %it, %one : i32
    %now = mul %odd, %stage : i32
    %then = sub %stage, %now : i32
    %next = add %kt, %k32 : i32
    %more = setp<lt> %next, %k : bool
    if %more {\n";
    text += &copies("q", "next", "then");
    text += "      cp_async_wait_group<1>
      yield
    } else {
      cp_async_wait_group<0>
      yield
    }
    barrier
    %aw = add %fa, %now : i32
    %bw = add %fb, %now : i32\n";
    for step in 0..2 {
        for i in 0..4 {
            let (at_a, at_b) = (512 * i + 16 * step, 256 * i + 16 * step);
            text += &format!(
                "    %oa{step}{i} = const {at_a} : i32
    %ia{step}{i} = add %aw, %oa{step}{i} : i32
    %va{step}{i} = ldmatrix<x4> %a, %ia{step}{i} : bf16x8
    %ob{step}{i} = const {at_b} : i32
    %ib{step}{i} = add %bw, %ob{step}{i} : i32
    %vb{step}{i} = ldmatrix<x2> %b, %ib{step}{i} : bf16x4\n"
            );
        }
        for i in 0..16 {
            let (row, column) = (i / 4, i % 4);
            text += &format!(
                "    mma_sync<m16n8k16, @acc, {}> %va{step}{row}, %vb{step}{column}\n",
                4 * i
            );
        }
    }
    text += "    barrier
    continue @tiles
  }
  %r0 = shr %lane, %u2 : i32
  %q0 = and %lane, %three : i32
  %q = shl %q0, %u1 : i32
  %d0 = add %r0, %wm : i32
  %d1 = add %d0, %m0 : i32
  %d2 = mul %d1, %n : i32
  %d3 = add %d2, %q : i32
  %d4 = add %d3, %wn : i32
  %at = add %d4, %n0 : i32\n";
    for r in 0..64 {
        let (tile, r8, column) = (r / 4, r / 2 % 2, r % 2);
        let (row, column) = (16 * (tile / 4) + 8 * r8, 8 * (tile % 4) + column);
        text += &format!(
            "  %er{r} = const {row} : i32
  %em{r} = mul %er{r}, %n : i32
  %ec{r} = const {column} : i32
  %ea{r} = add %em{r}, %ec{r} : i32
  %eo{r} = add %ea{r}, %at : i32
  %ev{r} = get_var<@acc, {r}> : f32
  st %c, %eo{r}, %ev{r}\n"
        );
    }
    text + "  return\n}\n"
}

/// Copies by threads into two stages, with the waits that this needs.
pub(crate) fn ampere_copy() -> &'static str {
    "kernel @copy target sm_80 (%x: ptr<global, i32>, %out: ptr<global, mut i32>, %tiles: i32) {
  shared @tile: i32 x 256 align 16
  %tile = shared_base<@tile> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %four = const 4 : i32
  %len = const 128 : i32
  %bytes = const 16 : u32
  %i = mul %t, %four : i32
  cp_async<cg, 16> %tile, %i, %x, %i, %bytes
  cp_async_commit_group
  %last = sub %tiles, %one : i32
  for @tiles %k: i32 = %zero to %tiles step %one {
    %next = add %k, %one : i32
    %in = min %next, %last : i32
    %from0 = mul %in, %len : i32
    %from = add %from0, %i : i32
    %odd = and %next, %one : i32
    %to0 = mul %odd, %len : i32
    %to = add %to0, %i : i32
    cp_async<cg, 16> %tile, %to, %x, %from, %bytes
    cp_async_commit_group
    cp_async_wait_group<1> ;wait
    barrier ;filled
    ; What another thread has copied.
    %here = and %k, %one : i32
    %here0 = mul %here, %len : i32
    %back0 = const 127 : i32
    %back = sub %back0, %t : i32
    %at = add %here0, %back : i32
    %v = ld %tile, %at : i32
    %o0 = mul %k, %len : i32
    %o = add %o0, %t : i32
    st %out, %o, %v
    barrier ;read
    continue @tiles
  }
  return
}"
}
