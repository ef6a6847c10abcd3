//! Kernels that are launched programmatically, one behind the other.

use super::*;

pub(super) fn subjects() -> Vec<Subject> {
    vec![chain()]
}

/// Three launches: each reads what the one before wrote, and writes what that one read. Before the
/// wait a launch loads the weights, which nobody writes. The first warp waits for all.
fn chain() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  griddepcontrol_launch_dependents
  %start = mul %block, %n64 : i32
  %i = add %start, %t : i32
  %w = ld %weights, %i : i32
  if %low {
    griddepcontrol_wait
    %j = add %i, %n32 : i32
    %other = add %t, %n32 : i32
    %v = ld %x, %i : i32
    %u = ld %x, %j : i32
    st %s, %t, %v
    st %s, %other, %u
    yield
  }
  barrier
  %back = sub %n63, %t : i32
  %found = ld %s, %back : i32
  %sum = add %found, %w : i32
  st %y, %i, %sum";
    let signature = "%x: ptr<global, i32>, %y: ptr<global, mut i32>, %weights: ptr<global, i32>";
    let text = kernel("sm_90", signature, "  shared @s: i32 x 64 align 4\n", body);
    let args = vec![Arg::numbers(128), Arg::zeros(128), Arg::numbers(128)];
    Subject::new("PDL chain", text, (2, 64), args).launches(3)
}
