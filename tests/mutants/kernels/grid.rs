//! Kernels whose blocks communicate through global memory.

use super::*;

pub(super) fn subjects() -> Vec<Subject> {
    vec![
        message(),
        last_block(),
        last_block_resets(),
        grid_barrier(),
        barrier_with_reset(),
        flags_with_reset(),
        queue(),
        lock(),
        chain(),
    ]
}

/// `x` holds a payload of 32 numbers, `flag` and what block 1 found.
const MUT: &str = "%x: ptr<global, i32>, %y: ptr<global, mut i32>, %flags: ptr<global, mut i32>";

/// Block 0 passes 32 numbers to block 1.
fn message() -> Subject {
    let body = "
  %is_first = setp<eq> %block, %zero : bool
  if %is_first {
    %v = ld %x, %t : i32
    st %y, %t, %v
    bar_warp %all
    if %first {
      fence<acq_rel, gpu>
      st<relaxed.gpu> %flags, %zero, %one
      yield
    }
    yield
  } else {
    if %first {
      loop @spin {
        %seen = ld<relaxed.gpu> %flags, %zero : i32
        %is = setp<eq> %seen, %one : bool
        if %is {
          break @spin
        }
        continue @spin
      }
      fence<acq_rel, gpu>
      yield
    }
    bar_warp %all
    %other = sub %n31, %t : i32
    %w = ld %y, %other : i32
    %o = add %t, %n32 : i32
    st %y, %o, %w
    yield
  }";
    let text = kernel("sm_80", MUT, "", body);
    let args = vec![Arg::numbers(32), Arg::zeros(64), Arg::zeros(1)];
    Subject::new("message", text, (2, 32), args).cooperative()
}

/// Each block writes a sum; the last one adds them up.
fn last_block() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %three = const 3 : i32
  %start = mul %block, %n64 : i32
  %i = add %start, %t : i32
  %v = ld %x, %i : i32
  %sum = redux<add> %v, %all : i32
  %warp = shr %t, %u5 : i32
  if %leads {
    %row = mul %block, %two : i32
    %at = add %row, %warp : i32
    st %y, %at, %sum
    yield
  }
  fence<acq_rel, gpu>
  barrier
  if %first {
    %ticket = atom<add, relaxed, gpu> %flags, %zero, %one : i32
    st %s, %zero, %ticket
    yield
  }
  barrier
  %found = ld %s, %zero : i32
  %is_last = setp<eq> %found, %three : bool
  %small = setp<lt> %t, %four : bool
  %adds = and %is_last, %small : bool
  if %adds {
    fence<acq_rel, gpu>
    %t2 = mul %t, %two : i32
    %t3 = add %t2, %one : i32
    %a = ld %y, %t2 : i32
    %b = ld %y, %t3 : i32
    %c = add %a, %b : i32
    %o = add %t, %n16 : i32
    st %y, %o, %c
    yield
  }";
    let text = kernel("sm_80", MUT, "  shared @s: i32 x 1 align 4\n", body);
    let args = vec![Arg::numbers(256), Arg::zeros(20), Arg::zeros(1)];
    Subject::new("last block", text, (4, 64), args)
}

/// NVIDIA's `threadFenceReduction`: the last block, found by a relaxed ticket, adds up the sums and
/// resets the counter by a plain store.
fn last_block_resets() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %three = const 3 : i32
  %i = mul %block, %n32 : i32
  %at = add %i, %t : i32
  %v = ld %x, %at : i32
  %sum = redux<add> %v, %all : i32
  if %first {
    st %y, %block, %sum
    fence<acq_rel, gpu>
    %ticket = atom<add, relaxed, gpu> %flags, %zero, %one : i32
    fence<acq_rel, gpu>
    st %s, %zero, %ticket
    yield
  }
  bar_warp %all
  %found = ld %s, %zero : i32
  %is_last = setp<eq> %found, %three : bool
  if %is_last {
    %small = setp<lt> %t, %four : bool
    if %small {
      %a = ld %y, %t : i32
      %o = add %t, %n16 : i32
      st %y, %o, %a
      yield
    }
    if %first {
      st %flags, %zero, %zero
      yield
    }
    yield
  }";
    let text = kernel("sm_80", MUT, "  shared @s: i32 x 1 align 4\n", body);
    let args = vec![Arg::numbers(128), Arg::zeros(20), Arg::zeros(1)];
    Subject::new("last block, reset", text, (4, 32), args)
}

/// A barrier of the grid, three times: the last block to arrive resets the counter by a plain store
/// and opens the barrier.
fn barrier_with_reset() -> Subject {
    let body = "
  %three = const 3 : i32
  %blocks = sreg<nctaid.x> : i32
  %most = sub %blocks, %one : i32
  %next0 = add %block, %one : i32
  %next = rem %next0, %blocks : i32
  for @rounds %k: i32 = %zero to %three step %one {
    if %first {
      %half = and %k, %one : i32
      %base = mul %half, %blocks : i32
      %own = add %base, %block : i32
      %old = add %k, %block : i32
      st %y, %own, %old
      fence<acq_rel, gpu>
      %before = atom<add, relaxed, gpu> %flags, %zero, %one : i32
      fence<acq_rel, gpu>
      %k1 = add %k, %one : i32
      %is_last = setp<eq> %before, %most : bool
      if %is_last {
        st %flags, %zero, %zero ;reset
        st<release.gpu> %flags, %one, %k1
        yield
      } else {
        loop @spin {
          %seen = ld<acquire.gpu> %flags, %one : i32
          %is = setp<ge> %seen, %k1 : bool
          if %is {
            break @spin
          }
          continue @spin
        }
        yield
      }
      %at = add %base, %next : i32
      %v = ld %y, %at : i32
      %two_b = mul %blocks, %two : i32
      %k_b = mul %k, %blocks : i32
      %o0 = add %two_b, %k_b : i32
      %o = add %o0, %block : i32
      st %y, %o, %v
      yield
    }
    continue @rounds
  }";
    let text = kernel("sm_80", MUT, "", body);
    let args = vec![Arg::numbers(4), Arg::zeros(20), Arg::zeros(2)];
    Subject::new("barrier with reset", text, (4, 32), args).cooperative()
}

/// Block 0 passes three messages to block 1, which answers each. Who has seen a flag resets it by a
/// plain store.
fn flags_with_reset() -> Subject {
    let wait = |flag: &str| {
        format!(
            "
      loop @spin{flag} {{
        %seen{flag} = ld<relaxed.gpu> %flags, %{flag} : i32
        %is{flag} = setp<eq> %seen{flag}, %one : bool
        if %is{flag} {{
          break @spin{flag}
        }}
        continue @spin{flag}
      }}
      fence<acq_rel, gpu>
      st %flags, %{flag}, %zero ;reset"
        )
    };
    let body = format!(
        "
  %three = const 3 : i32
  %is_first = setp<eq> %block, %zero : bool
  for @rounds %k: i32 = %zero to %three step %one {{
    %k32 = mul %k, %n32 : i32
    %i = add %k32, %t : i32
    if %is_first {{
      %v = ld %x, %i : i32
      st %y, %t, %v
      fence<acq_rel, gpu>
      st<relaxed.gpu> %flags, %zero, %one{}
      yield
    }} else {{{}
      %w = ld %y, %t : i32
      %o0 = add %i, %n32 : i32
      st %y, %o0, %w
      fence<acq_rel, gpu>
      st<relaxed.gpu> %flags, %one, %one
      yield
    }}
    continue @rounds
  }}",
        wait("one"),
        wait("zero")
    );
    let text = kernel("sm_80", MUT, "", &body);
    let args = vec![Arg::numbers(96), Arg::zeros(128), Arg::zeros(2)];
    Subject::new("flags with reset", text, (2, 1), args).cooperative()
}

/// Three rounds: each block writes a number, waits for all, and reads that of the next block.
fn grid_barrier() -> Subject {
    let body = "
  %three = const 3 : i32
  %blocks = sreg<nctaid.x> : i32
  %next0 = add %block, %one : i32
  %next = rem %next0, %blocks : i32
  for @rounds %k: i32 = %zero to %three step %one {
    if %first {
      %half = and %k, %one : i32
      %base = mul %half, %blocks : i32
      %own = add %base, %block : i32
      %old = add %k, %block : i32
      st %y, %own, %old
      %before = atom<add, release, gpu> %flags, %zero, %one : i32
      %k1 = add %k, %one : i32
      %goal = mul %k1, %blocks : i32
      loop @spin {
        %seen = ld<acquire.gpu> %flags, %zero : i32
        %is = setp<ge> %seen, %goal : bool
        if %is {
          break @spin
        }
        continue @spin
      }
      %at = add %base, %next : i32
      %v = ld %y, %at : i32
      %two_b = mul %blocks, %two : i32
      %k_b = mul %k, %blocks : i32
      %o0 = add %two_b, %k_b : i32
      %o = add %o0, %block : i32
      st %y, %o, %v
      yield
    }
    barrier
    continue @rounds
  }";
    let text = kernel("sm_80", MUT, "", body);
    let args = vec![Arg::numbers(4), Arg::zeros(20), Arg::zeros(1)];
    Subject::new("grid barrier", text, (4, 64), args).cooperative()
}

/// Blocks take items of 64 numbers from a counter until there are no more.
fn queue() -> Subject {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %items = const 6 : i32
  loop @work {
    if %first {
      %ticket = atom<add, relaxed, gpu> %flags, %zero, %one : i32
      st %s, %zero, %ticket
      yield
    }
    barrier
    %item = ld %s, %zero : i32
    barrier
    %over = setp<ge> %item, %items : bool
    if %over {
      break @work
    }
    %start = mul %item, %n64 : i32
    %i = add %start, %t : i32
    %v = ld %x, %i : i32
    %w = add %v, %v : i32
    st %y, %i, %w
    continue @work
  }";
    let text = kernel("sm_80", MUT, "  shared @s: i32 x 1 align 4\n", body);
    let args = vec![Arg::numbers(384), Arg::zeros(384), Arg::zeros(1)];
    Subject::new("queue", text, (3, 64), args)
}

/// Blocks add to a number under a lock.
fn lock() -> Subject {
    let body = "
  %three = const 3 : i32
  for @rounds %k: i32 = %zero to %three step %one {
    if %first {
      loop @spin {
        %was = atom_cas<acquire, gpu> %flags, %zero, %zero, %one : i32
        %is = setp<eq> %was, %zero : bool
        if %is {
          break @spin
        }
        continue @spin
      }
      %v = ld %y, %zero : i32
      %w = add %v, %one : i32
      st %y, %zero, %w
      st<release.gpu> %flags, %zero, %zero
      yield
    }
    continue @rounds
  }";
    let text = kernel("sm_80", MUT, "", body);
    let args = vec![Arg::numbers(4), Arg::zeros(1), Arg::zeros(1)];
    Subject::new("lock", text, (4, 32), args).cooperative()
}

/// Each block waits for the sum of the block before and passes its own on.
fn chain() -> Subject {
    let body = "
  if %first {
    %v = ld %x, %block : i32
    %is_first = setp<eq> %block, %zero : bool
    if %is_first {
      st %y, %zero, %v
      st<release.gpu> %flags, %zero, %one
      yield
    } else {
      %last = sub %block, %one : i32
      loop @spin {
        %seen = ld<acquire.gpu> %flags, %last : i32
        %is = setp<eq> %seen, %one : bool
        if %is {
          break @spin
        }
        continue @spin
      }
      %sum = ld %y, %last : i32
      %own = add %sum, %v : i32
      st %y, %block, %own
      st<release.gpu> %flags, %block, %one
      yield
    }
    yield
  }";
    let text = kernel("sm_80", MUT, "", body);
    let args = vec![Arg::numbers(4), Arg::zeros(4), Arg::zeros(4)];
    Subject::new("chain", text, (4, 32), args).cooperative()
}
