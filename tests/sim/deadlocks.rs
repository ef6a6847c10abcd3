//! Kernels whose warps wait for ever: the fault lists all warps, what each waits for, and the cause
//! first.

use tilewright::ir::{Kernel, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{Fault, FaultCause, Options, Order, run};

/// The fault of one block of `threads` threads.
#[track_caller]
fn fault(text: &str, threads: u32, order: Order) -> Fault {
    let ir = parse("k.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let options = Options::default().order(order).fuel(1 << 20);
    let error = run(kernel.ir(), Grid::new([1; 3], [threads, 1, 1]), &[], &options)
        .expect_err("its warps wait for ever");
    error.fault().unwrap_or_else(|| panic!("{error}")).clone()
}

const ORDERS: [Order; 3] =
    [Order::RoundRobin, Order::Random { seed: 1 }, Order::Random { seed: 2 }];

/// Warps 0 to 3, with barriers `full` of one arrival and `empty` of three.
fn pipeline(producer: &str, consumers: &str) -> String {
    format!(
        "kernel @k target sm_90 () {{
  shared @bars: u64 x 2 align 8
  %bars = shared_base<@bars> : ptr<shared, mut u64>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %n32 = const 32 : i32
  %even = const 0 : u32
  %odd = const 1 : u32
  %u1 = const 1 : u32
  %u3 = const 3 : u32
  %bytes = const 64 : u32
  %lane0 = const 31 : i32
  %l = and %t, %lane0 : i32
  %leads = setp<eq> %l, %zero : bool
  %first = setp<eq> %t, %zero : bool
  %produces = setp<lt> %t, %n32 : bool
  if %first {{
    mbarrier_init %bars, %zero, %u1
    mbarrier_init %bars, %one, %u3
    yield
  }}
  barrier
  if %produces {{
    if %first {{
      {producer}
      yield
    }}
    yield
  }} else {{
    if %leads {{
      {consumers}
      yield
    }}
    yield
  }}
  barrier
  return
}}"
    )
}

#[test]
fn a_producer_that_waits_for_the_wrong_phase_is_the_cause() {
    // It waits for a phase of `empty` that ends only when the consumers have got the first tile.
    let text = pipeline(
        "mbarrier_wait_parity %bars, %one, %even",
        "mbarrier_wait_parity %bars, %zero, %even",
    );
    let found = fault(&text, 128, Order::RoundRobin);
    assert_eq!(
        found.to_string(),
        "`mbarrier_wait_parity` at k.kir:26:7 waits forever at barrier 1 of shared memory `shared0`, made at \
         k.kir:2:3, whose phase 0 still needs 3 of 3 arrivals and 0 bytes, in thread (0, 0, 0) of block (0, 0, 0) of \
         kernel `k`; compare the arrivals and bytes that the phase expects with those that arrive\n\
         \x20 warp 0 of block (0, 0, 0): `mbarrier_wait_parity` at k.kir:26:7 waits forever at barrier 1 of shared \
         memory `shared0`, made at k.kir:2:3, whose phase 0 still needs 3 of 3 arrivals and 0 bytes\n\
         \x20 warps 1, 2, 3 of block (0, 0, 0): `mbarrier_wait_parity` at k.kir:32:7 waits forever at barrier 0 of \
         shared memory `shared0`, made at k.kir:2:3, whose phase 0 still needs 1 of 1 arrivals and 0 bytes"
    );
    for order in ORDERS {
        let found = fault(&text, 128, order);
        assert_eq!(found.stuck.len(), 4, "{found}");
        assert!(found.stuck.iter().all(|warp| warp.waits.is_some()), "{found}");
    }
}

#[test]
fn bytes_that_nobody_loads_are_the_cause() {
    // The producer announces bytes, starts no load, and goes to the barrier of the block.
    let text = pipeline(
        "%s = mbarrier_arrive_expect_tx %bars, %zero, %bytes : u64",
        "mbarrier_wait_parity %bars, %zero, %even",
    );
    for order in ORDERS {
        let found = fault(&text, 128, order);
        let FaultCause::PhaseDeadlock { arrivals: 0, bytes: 64, .. } = &found.cause else {
            panic!("{found}")
        };
        let [consumers @ .., producer] = &found.stuck[..] else { panic!("{found}") };
        assert_eq!(consumers.iter().map(|stuck| stuck.warp).collect::<Vec<_>>(), [1, 2, 3]);
        let waits = producer.waits.as_ref().expect("it waits");
        assert_eq!((producer.warp, waits.op, waits.location.line), (0, "barrier", 37));
        assert_eq!(waits.cause, FaultCause::BlockDeadlock { threads: 128, arrived: 32 });
    }
}

#[test]
fn warps_that_have_ended_are_named() {
    // The producer returns without an arrival: nobody is left who could bring it.
    let text = pipeline("return", "mbarrier_wait_parity %bars, %zero, %even")
        .replace("      yield\n    }\n    yield\n  } else {", "    }\n    return\n  } else {");
    for order in ORDERS {
        let found = fault(&text, 128, order);
        assert!(matches!(found.cause, FaultCause::PhaseDeadlock { arrivals: 1, .. }), "{found}");
        let sentence = found.to_string();
        assert!(sentence.ends_with("\n  warp 0 of block (0, 0, 0) has ended"), "{sentence}");
    }
    let text = "kernel @k target sm_80 () {
  %t = sreg<tid.x> : i32
  %n64 = const 64 : i32
  %id = const 4 : u32
  %all = const 128 : u32
  %c = setp<lt> %t, %n64 : bool
  if %c {
    barrier_sync %id, %all
    yield
  }
  return
}";
    for order in ORDERS {
        let sentence = fault(text, 128, order).to_string();
        let lines = "\n  warps 0, 1 of block (0, 0, 0): `barrier_sync` at k.kir:8:5 waits forever at barrier 4, \
                     where 64 of 128 threads have arrived\n  warps 2, 3 of block (0, 0, 0) have ended";
        assert!(sentence.ends_with(lines), "{sentence}");
    }
}

/// The warp that stopped first comes before the warps that it stopped.
#[test]
fn the_wait_that_came_first_is_the_cause() {
    // Warp 0 comes to a barrier for which it counts one warp too many, the others wait for it at
    // the next one.
    let text = "kernel @k target sm_80 () {
  %t = sreg<tid.x> : i32
  %n32 = const 32 : i32
  %one = const 1 : u32
  %two = const 2 : u32
  %n64 = const 64 : u32
  %n128 = const 128 : u32
  %c = setp<lt> %t, %n32 : bool
  if %c {
    barrier_sync %one, %n64
    yield
  }
  barrier_sync %two, %n128
  return
}";
    let found = fault(text, 128, Order::RoundRobin);
    assert_eq!(found.cause, FaultCause::BarrierDeadlock { id: 1, threads: 64, arrived: 32 });
    assert_eq!(found.stuck.iter().map(|stuck| stuck.warp).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(
        found
            .to_string()
            .contains("\n  warps 1, 2, 3 of block (0, 0, 0): `barrier_sync` at k.kir:13:3")
    );
}

/// The producer waits for an arrival of the consumers, which come to it only behind the first tile.
#[test]
fn warps_that_wait_for_each_other_are_a_cycle() {
    let text = pipeline(
        "mbarrier_wait_parity %bars, %one, %even
      %p = mbarrier_arrive %bars, %zero, %u1 : u64",
        "mbarrier_wait_parity %bars, %zero, %even
      %s = mbarrier_arrive %bars, %one, %u1 : u64",
    );
    for order in ORDERS {
        let found = fault(&text, 128, order);
        let warps: Vec<u32> = found.cycle.iter().map(|index| found.stuck[*index].warp).collect();
        // It starts at the likely cause.
        let [first, second] = warps[..] else { panic!("{found}") };
        assert_eq!((first.min(second), first), (0, found.stuck[0].warp), "{found}");
        let text = found.to_string();
        let line = format!(
            "\n  the cycle: warp {first} waits for warp {second}, which waits for warp {first}"
        );
        assert!(text.ends_with(&line), "{text}");
    }
    // Without an arrival in what is left nobody waits for anybody.
    let text = pipeline(
        "mbarrier_wait_parity %bars, %one, %even",
        "mbarrier_wait_parity %bars, %zero, %even",
    );
    assert_eq!(fault(&text, 128, Order::RoundRobin).cycle, [0usize; 0]);
}
