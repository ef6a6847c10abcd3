//! Matrix products.

use tilewright::arch::{SwizzleMode, TensorMapDesc};
use tilewright::ir::bf16;
use tilewright::ir::types::Scalar;

use super::*;
use crate::support::pipelines::{ampere_gemm, hopper_gemm};

pub(super) fn subjects() -> Vec<Subject> {
    vec![simt(), ampere(), hopper()]
}

/// Small whole numbers.
fn matrix(len: usize) -> Vec<u8> {
    let element = |i: usize| bf16::from_f32(((i * 7 + i / 64) % 9) as f32 - 4.0);
    (0..len).flat_map(|i| element(i).to_bits().to_le_bytes()).collect()
}

/// `Y = A B` of 16 x 16 numbers a block, in tiles of 16 along K.
fn simt() -> Subject {
    let text = kernel(
        "sm_80",
        "%x: ptr<global, i32>, %w: ptr<global, i32>, %y: ptr<global, mut i32>",
        "  shared @as: i32 x 256 align 4\n  shared @bs: i32 x 256 align 4\n  var @sum: i32 x 1\n",
        SIMT,
    );
    let args = vec![Arg::numbers(768), Arg::numbers(768), Arg::zeros(256)];
    Subject::new("SIMT product", text, (1, 256), args)
}

const SIMT: &str = "
  %as = shared_base<@as> : ptr<shared, mut i32>
  %bs = shared_base<@bs> : ptr<shared, mut i32>
  %n48 = const 48 : i32
  %r = shr %t, %u4 : i32
  %c = and %t, %n15 : i32
  %r48 = mul %r, %n48 : i32
  %r16 = mul %r, %n16 : i32
  set_var<@sum, 0> %zero
  for @tiles %k: i32 = %zero to %n48 step %n16 {
    %ak = add %r48, %k : i32
    %ai = add %ak, %c : i32
    %a = ld %x, %ai : i32
    st %as, %t, %a
    %kr = add %k, %r : i32
    %bk = mul %kr, %n16 : i32
    %bi = add %bk, %c : i32
    %b = ld %w, %bi : i32
    st %bs, %t, %b
    barrier
    for @dot %j: i32 = %zero to %n16 step %one {
      %ia = add %r16, %j : i32
      %j16 = mul %j, %n16 : i32
      %ib = add %j16, %c : i32
      %va = ld %as, %ia : i32
      %vb = ld %bs, %ib : i32
      %q = mul %va, %vb : i32
      %old = get_var<@sum, 0> : i32
      %new = add %old, %q : i32
      set_var<@sum, 0> %new
      continue @dot
    }
    barrier
    continue @tiles
  }
  %result = get_var<@sum, 0> : i32
  st %y, %t, %result";

/// One tile of 128 x 128, three steps along K in two stages.
fn ampere() -> Subject {
    let (m, n, k) = (128, 128, 96);
    let args = vec![
        Arg::Buffer(matrix(m * k)),
        Arg::Buffer(matrix(n * k)),
        Arg::zeros(m * n),
        Arg::Int(n as i32),
        Arg::Int(k as i32),
    ];
    Subject::new("sm_80 product", ampere_gemm(), (1, 256), args)
}

/// One tile of 128 x 128, six steps along K in four stages.
fn hopper() -> Subject {
    let (m, n, k) = (128, 128, 384);
    let map = |rows: usize| {
        let (dims, strides) = ([k as u64, rows as u64], [2 * k as u64]);
        let map = TensorMapDesc::new(Scalar::Bf16, &dims, &strides, &[64, 128]).unwrap();
        Arg::Map(Box::new(map.with_swizzle(SwizzleMode::B128).unwrap()), matrix(rows * k))
    };
    let args =
        vec![map(m), map(n), Arg::zeros(m * n), Arg::Int(n as i32), Arg::Int((k / 64) as i32)];
    Subject::new("Hopper product", hopper_gemm(), (1, 384), args)
}
