//! Small kernels that need each of their barriers: with all of them they are proved, and without one
//! they lose the proof if the simulator finds a race.

use tilewright::ir::{Kernel, Untyped};

use crate::races::{assert_lost, raced, run_small, small_kernel};

const START: &str = "
  shared @s: i32 x 1024 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %b = sreg<ctaid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %k8 = const 8 : i32
  %k16 = const 16 : i32
  %k31 = const 31 : i32
  %k32 = const 32 : i32
  %k33 = const 33 : i32
  %k63 = const 63 : i32
  %k64 = const 64 : i32
  %k128 = const 128 : i32
  %k512 = const 512 : i32
  %first = setp<eq> %t, %zero : bool
  %base = mul %b, %k64 : i32
  %own = add %base, %t : i32
  %v = ld %x, %t : i32
  for @z %k: i32 = %zero to %k16 step %one {
    %line0 = mul %k, %k64 : i32
    %place0 = add %line0, %t : i32
    st %s, %place0, %zero
    continue @z
  }
  barrier
";

/// Exchanges rows and columns of an 8 x 8 tile.
const TRANSPOSE: &str = "
  %row = div %t, %k8 : i32
  %column = rem %t, %k8 : i32
  %mixed = xor %row, %column : i32
  %line = mul %row, %k8 : i32
  %to = add %line, %mixed : i32
  st %s, %to, %v
  barrier
  %other = mul %column, %k8 : i32
  %from = add %other, %mixed : i32
  %w = ld %s, %from : i32
  st %y, %own, %w";

/// Halves the count of sums until one is left.
const REDUCTION: &str = "
  st %s, %t, %v
  barrier
  %last = loop @l iter(%stride: i32 = %k32) : i32 {
    %in = setp<lt> %t, %stride : bool
    if %in {
      %from = add %t, %stride : i32
      %a = ld %s, %t : i32
      %c = ld %s, %from : i32
      %sum = add %a, %c : i32
      st %s, %t, %sum
      yield
    }
    barrier
    %next = div %stride, %two : i32
    %done = setp<lt> %next, %one : bool
    if %done {
      break @l %next
    }
    continue @l %next
  }
  if %first {
    %all = ld %s, %zero : i32
    st %y, %b, %all
    yield
  }";

/// One sum for each warp, then one of all.
const WARPS: &str = "
  %lane = rem %t, %k32 : i32
  %warp = div %t, %k32 : i32
  %leads = setp<eq> %lane, %zero : bool
  if %leads {
    st %s, %warp, %v
    yield
  }
  barrier
  %a = ld %s, %zero : i32
  %c = ld %s, %one : i32
  %sum = add %a, %c : i32
  st %y, %own, %sum
  barrier
  if %leads {
    st %s, %warp, %sum
    yield
  }";

/// Each sum of neighbours becomes the next value.
const STENCIL: &str = "
  %place = add %t, %one : i32
  st %s, %place, %v
  if %first {
    st %s, %zero, %v
    yield
  }
  barrier
  for @l %i: i32 = %zero to %n step %one {
    %left = ld %s, %t : i32
    %middle = ld %s, %place : i32
    %sum = add %left, %middle : i32
    barrier
    st %s, %place, %sum
    barrier
    continue @l
  }
  %w = ld %s, %place : i32
  st %y, %own, %w";

const HISTOGRAM: &str = "
  st %s, %t, %zero
  barrier
  %bin = rem %v, %k8 : i32
  %positive = setp<ge> %bin, %zero : bool
  if %positive {
    red<add, relaxed, cta> %s, %bin, %one
    yield
  }
  barrier
  %w = ld %s, %t : i32
  red<add, relaxed, gpu> %y, %t, %w";

/// A thread writes the next stage while others read this one.
const TWO_STAGES: &str = "
  st %s, %t, %v
  for @l %i: i32 = %zero to %n step %one {
    barrier
    %next = add %i, %one : i32
    %stage = rem %next, %two : i32
    %base2 = mul %stage, %k64 : i32
    %to = add %base2, %t : i32
    st %s, %to, %i
    %now = rem %i, %two : i32
    %base3 = mul %now, %k64 : i32
    %mirrored = sub %k63, %t : i32
    %from = add %base3, %mirrored : i32
    %w = ld %s, %from : i32
    %row = mul %i, %k128 : i32
    %at = add %row, %own : i32
    st %y, %at, %w
    continue @l
  }";

/// One stage needs two barriers.
const ONE_STAGE: &str = "
  for @l %i: i32 = %zero to %n step %one {
    st %s, %t, %i
    barrier
    %mirrored = sub %k63, %t : i32
    %w = ld %s, %mirrored : i32
    %row = mul %i, %k128 : i32
    %at = add %row, %own : i32
    st %y, %at, %w
    barrier
    continue @l
  }";

fn built(body: &str) -> Kernel<Untyped> {
    small_kernel(START, body)
}

/// Returns what the simulator says about races under some schedules.
fn race_of(kernel: &Kernel<Untyped>) -> Option<String> {
    let error = run_small(kernel, 4, 8).err()?;
    Some(raced(&error).unwrap_or_else(|| panic!("{error}\n{}", kernel.ir())))
}

#[test]
fn barriers_make_the_proof() {
    for (name, body, barriers) in [
        ("transpose", TRANSPOSE, 1),
        ("reduction", REDUCTION, 2),
        ("warps", WARPS, 2),
        ("stencil", STENCIL, 3),
        ("histogram", HISTOGRAM, 2),
        ("two stages", TWO_STAGES, 1),
        ("one stage", ONE_STAGE, 2),
    ] {
        let kernel = built(body);
        let proof = kernel.prove_races();
        println!("{name}: {proof}");
        assert_eq!(race_of(&kernel), None, "{name}");
        assert!(proof.is_complete(), "{name}: {proof}");
        let places: Vec<usize> = body.match_indices("barrier").map(|(at, _)| at).collect();
        assert_eq!(places.len(), barriers);
        for at in places {
            let without = format!("{}{}", &body[..at], &body[at + "barrier".len()..]);
            let kernel = built(&without);
            let raced = race_of(&kernel).expect("each barrier is needed");
            assert_lost(&kernel.prove_races(), &raced, &format!("{name} without {at}"));
        }
    }
}

/// A barrier that depends on data, which no thread may rely on, counts for nothing.
#[test]
fn barriers_that_depend_on_data_do_not_count() {
    let body = "
  st %s, %t, %v
  %w = ld %s, %zero : i32
  %some = setp<lt> %w, %n : bool
  if %some {
    barrier
    yield
  }
  %mirrored = sub %k63, %t : i32
  %z = ld %s, %mirrored : i32
  st %y, %own, %z";
    assert!(!built(body).prove_races().is_complete());
}

/// A named barrier of all threads is like the block's own, one of some threads is not.
#[test]
fn named_barriers_count_for_all_threads() {
    let body = |id: &str, threads: &str, others: &str| {
        format!(
            "
  %one_u = const 1 : u32
  %two_u = const 2 : u32
  %some = const 32 : u32
  %all = const 64 : u32
  %warp = div %t, %k32 : i32
  {others}
  st %s, %t, %v
  barrier_sync %{id}, %{threads}
  %mirrored = sub %k63, %t : i32
  %w = ld %s, %mirrored : i32
  st %y, %own, %w"
        )
    };
    let arrive = "barrier_arrive %one_u, %all";
    for (id, threads, others, is_proved) in [
        ("one_u", "all", "", true),
        ("one_u", "some", "", false),
        ("one_u", "all", arrive, false),
        ("two_u", "all", arrive, true),
        ("two_u", "all", "barrier_sync %one_u, %some", true),
    ] {
        let kernel = built(&body(id, threads, others));
        let proof = kernel.prove_races();
        assert_eq!(proof.is_complete(), is_proved, "{id} {threads} {others}: {proof}");
    }
    assert_eq!(race_of(&built(&body("one_u", "all", ""))), None);
}
