//! Ring buffers that threads fill by `cp.async`. Each is proved. Without one of its waits, commits or
//! barriers, or with a wait for one group fewer, it loses the proof if the simulator finds a race.

use tilewright::ir::types::Space;
use tilewright::ir::{Kernel, Untyped};

use crate::law::verified;
use crate::races::{assert_lost, raced, run_small, small_kernel};

const START: &str = "
  shared @s: i32 x 1024 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %b = sreg<ctaid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %three = const 3 : i32
  %k31 = const 31 : i32
  %k32 = const 32 : i32
  %k63 = const 63 : i32
  %k64 = const 64 : i32
  %k96 = const 96 : i32
  %k128 = const 128 : i32
  %k192 = const 192 : i32
  %word = const 4 : u32
  %base = mul %b, %k64 : i32
  %own = add %base, %t : i32
  %mirrored = sub %k63, %t : i32
  %at1 = add %t, %k64 : i32
  %at2 = add %t, %k128 : i32
";

/// One tile, then the next one.
const ONE_STAGE: &str = "
  for @l %i: i32 = %zero to %n step %one {
    cp_async<ca, 4> %s, %t, %x, %t, %word
    cp_async_wait_all
    barrier
    %v = ld %s, %mirrored : i32
    st %y, %own, %v
    barrier
    continue @l
  }";

/// The stage is the index modulo 3. A step waits at its start.
const BY_INDEX: &str = "
  cp_async<ca, 4> %s, %t, %x, %t, %word
  cp_async_commit_group
  cp_async<ca, 4> %s, %at1, %x, %t, %word
  cp_async_commit_group
  for @l %i: i32 = %zero to %n step %one {
    cp_async_wait_group<1>
    barrier
    %next = add %i, %two : i32
    %write = rem %next, %three : i32
    %base1 = mul %write, %k64 : i32
    %to = add %base1, %t : i32
    cp_async<ca, 4> %s, %to, %x, %t, %word
    cp_async_commit_group
    %read = rem %i, %three : i32
    %base2 = mul %read, %k64 : i32
    %from = add %base2, %mirrored : i32
    %v = ld %s, %from : i32
    st %y, %own, %v
    continue @l
  }";

/// The loop carries the stages' first elements. A step waits at its end, and then reads the next
/// step's operands. The first copies of all are to other elements.
const CARRIED: &str = "
  %at3 = add %t, %k192 : i32
  cp_async<ca, 4> %s, %t, %x, %t, %word
  cp_async_commit_group
  cp_async<ca, 4> %s, %at1, %x, %t, %word
  cp_async_commit_group
  cp_async<ca, 4> %s, %at2, %x, %t, %word
  cp_async_commit_group
  cp_async_wait_group<2>
  barrier
  %v0 = ld %s, %mirrored : i32
  st %y, %own, %v0
  %last_read, %last_write = for @l %i: i32 = %zero to %n step %one iter(%read: i32 = %zero, %write: i32 = %k192) : i32, i32 {
    %to = add %write, %t : i32
    cp_async<ca, 4> %s, %to, %x, %t, %word
    cp_async_commit_group
    cp_async_wait_group<2>
    barrier
    %last = setp<eq> %read, %k192 : bool
    %far = add %read, %k64 : i32
    %next = selp %last, %zero, %far : i32
    %from = add %next, %mirrored : i32
    %v = ld %s, %from : i32
    st %y, %own, %v
    %end = setp<eq> %write, %k192 : bool
    %behind = add %write, %k64 : i32
    %then = selp %end, %zero, %behind : i32
    continue @l %next, %then
  }";

/// Each warp has a ring of its own, and its own barrier.
const OF_WARPS: &str = "
  %every = const 4294967295 : u32
  %lane = rem %t, %k32 : i32
  %warp = div %t, %k32 : i32
  %ring = mul %warp, %k96 : i32
  %turned = sub %k31, %lane : i32
  %first = add %ring, %lane : i32
  %second = add %first, %k32 : i32
  cp_async<ca, 4> %s, %first, %x, %t, %word
  cp_async_commit_group
  cp_async<ca, 4> %s, %second, %x, %t, %word
  cp_async_commit_group
  for @l %i: i32 = %zero to %n step %one {
    cp_async_wait_group<1>
    bar_warp %every
    %next = add %i, %two : i32
    %write = rem %next, %three : i32
    %base1 = mul %write, %k32 : i32
    %to = add %base1, %first : i32
    cp_async<ca, 4> %s, %to, %x, %t, %word
    cp_async_commit_group
    %stage = rem %i, %three : i32
    %base2 = mul %stage, %k32 : i32
    %place = add %base2, %ring : i32
    %from = add %place, %turned : i32
    %v = ld %s, %from : i32
    st %y, %own, %v
    continue @l
  }";

fn built(body: &str) -> Kernel<Untyped> {
    small_kernel(START, body)
}

/// Returns what the simulator says about races under some schedules.
fn race_of(kernel: &Kernel<Untyped>) -> Option<String> {
    // A missing barrier shows first as an element that nobody has written.
    raced(&run_small(kernel, 9, 4).err()?)
}

/// Returns the kernel's text with each of its waits, commits and barriers left out, with each wait for
/// one group fewer, and with each stage one later.
fn mistakes(body: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (at, line) in body.lines().enumerate() {
        let mut instead = Vec::new();
        if ["cp_async_wait", "cp_async_commit", "barrier", "bar_warp"]
            .iter()
            .any(|op| line.trim().starts_with(op))
        {
            instead.push(String::new());
        }
        for pending in 0..3 {
            if line.contains(&format!("<{pending}>")) {
                let more = format!("<{}>", pending + 1);
                instead.push(line.replace(&format!("<{pending}>"), &more));
            }
        }
        if line.contains("%next = add %i, %two") {
            instead.extend(["%one", "%three"].map(|by| line.replace("%two", by)));
        }
        if line.contains("add %next, %mirrored") {
            instead.push(line.replace("%next", "%far"));
            instead.push(line.replace("%next", "%read"));
        }
        for text in instead {
            let lines = body.lines().enumerate();
            let changed = lines.map(|(i, old)| if i == at { text.as_str() } else { old });
            let changed: Vec<&str> = changed.collect();
            all.push((
                format!("line {at}, `{}` -> `{}`", line.trim(), text.trim()),
                changed.join("\n"),
            ));
        }
    }
    all
}

#[test]
fn rings_are_proved_as_long_as_they_are_right() {
    let (mut races, mut kept) = (0, 0);
    for (name, body) in [
        ("one stage", ONE_STAGE),
        ("by index", BY_INDEX),
        ("carried", CARRIED),
        ("of warps", OF_WARPS),
    ] {
        let kernel = built(body);
        let proof = kernel.prove_races();
        assert_eq!(race_of(&kernel), None, "{name}");
        let shared = proof.allocations().iter().find(|one| one.space == Space::Shared).unwrap();
        assert!(shared.verdict.is_settled(), "{name}: {proof}");
        for (change, body) in mistakes(body) {
            let kernel = built(&body);
            let proof = kernel.prove_races();
            match race_of(&kernel) {
                Some(raced) => {
                    races += 1;
                    assert_lost(&proof, &raced, &format!("{name}, {change}"));
                }
                // For example, a step later than needed.
                None => kept += 1,
            }
        }
    }
    println!("{races} mistakes race and lose the proof, {kept} do not race");
    assert!(races >= 20 && kept < races / 2, "{races} races, {kept} without");
}

/// A thread that reads what it copied itself has to wait, too.
#[test]
fn a_thread_waits_for_its_own_copies() {
    let of_thread = |wait: &str| {
        let body = format!(
            "
  cp_async<ca, 4> %s, %t, %x, %t, %word
  cp_async_commit_group
  {wait}
  %v = ld %s, %t : i32
  st %y, %own, %v"
        );
        built(&body)
    };
    for (wait, is_right) in [
        ("cp_async_wait_all", true),
        ("cp_async_wait_group<0>", true),
        ("cp_async_wait_group<1>", false),
        ("barrier", false),
    ] {
        let kernel = of_thread(wait);
        assert_eq!(race_of(&kernel).is_none(), is_right, "{wait}");
        assert_eq!(kernel.prove_races().is_complete(), is_right, "{wait}");
    }
}

/// Only the block's own threads are known to take a branch together, if it depends on what nobody
/// writes.
#[test]
fn barriers_may_depend_on_what_nobody_writes() {
    let body = |from: &str| {
        format!(
            "
  st %s, %t, %t
  %w = ld {from}, %zero : i32
  %some = setp<lt> %w, %n : bool
  if %some {{
    barrier
    %z = ld %s, %mirrored : i32
    st %y, %own, %z
    yield
  }}"
        )
    };
    assert!(built(&body("%x")).prove_races().is_complete());
    let proof = built(&body("%y")).prove_races();
    assert!(!proof.is_complete(), "{proof}");
}

/// A block of unknown size may have threads along all axes.
#[test]
fn a_block_without_a_size_may_have_several_rows() {
    let text = |bounds: &str| {
        format!(
            "kernel @k target sm_80{bounds} (%y: ptr<global, mut i32>) {{
  shared @s: i32 x 1024 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %row = sreg<tid.y> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %k31 = const 31 : i32
  %k32 = const 32 : i32
  %line = mul %row, %k32 : i32
  %own = add %line, %t : i32
  st %s, %own, %t
  %is_first = setp<eq> %row, %zero : bool
  if %is_first {{
    barrier
    %all = sub %k31, %t : i32
    %v = ld %s, %all : i32
    st %y, %own, %v
    yield
  }}
  return
}}"
        )
    };
    assert!(verified(&text(" block 32 x 1 x 1")).prove_races().is_complete());
    let proof = verified(&text("")).prove_races();
    assert!(!proof.is_complete(), "{proof}");
}
