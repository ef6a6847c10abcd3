//! Several races of one run, and several schedules of one launch.

use super::*;

/// Four mistakes in one kernel: three pairs of lines race, one of them in each of many iterations.
#[test]
fn a_run_reports_each_pair_of_lines_once() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %r = shared_base<@r> : ptr<shared, mut i32>
  %n8 = const 8 : i32
  %other = sub %n63, %t : i32
  st %s, %other, %t
  st %r, %other, %t
  barrier
  st %s, %t, %t
  %v = ld %s, %other : i32
  barrier
  for @rounds %i: i32 = %zero to %n8 step %one {
    st %r, %t, %i
    %w = ld %r, %other : i32
    st %x, %t, %w
    continue @rounds
  }
  st %x, %zero, %t";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @r: i32 x 64 align 4\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    let case = Case::new(text, 1, 64);
    let fault = case.fault("barrier\n", "barrier\n");
    let pairs: Vec<_> = [&fault].into_iter().chain(&fault.also).map(lines).collect();
    // `st %x, %t` against `st %x, %zero`, and the latter with itself.
    for pair in [("st", "ld"), ("st", "st")] {
        assert!(
            pairs.iter().any(|(names, _)| *names == pair || (names.1, names.0) == pair),
            "{fault}"
        );
    }
    let mut sorted: Vec<_> = pairs.iter().map(|(_, lines)| *lines).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), pairs.len(), "{fault}");
    assert!(pairs.len() >= 4, "{fault}");
    assert_eq!(fault.to_string().matches("also: data race").count(), fault.also.len());
}

/// The operations of a race, and its lines in order.
fn lines(fault: &Fault) -> ((&'static str, &'static str), [u32; 2]) {
    let FaultCause::Race { other, .. } = &fault.cause else { panic!("{fault}") };
    let mut lines = [fault.location.line, other.op.location.line];
    lines.sort_unstable();
    ((fault.op, other.op.name), lines)
}

/// Of the races of two lines, that of the farthest threads is reported: the barrier between them
/// orders the others too.
#[test]
fn a_race_is_that_of_the_farthest_threads() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %more = add %t, %one : i32
  %next = and %more, %n63 : i32
  st %s, %t, %zero
  st %s, %next, %zero
  barrier
  st %s, %t, %t
  bar_warp
  %v = ld %s, %next : i32
  st %x, %t, %v";
    let shared = "  shared @s: i32 x 64 align 4\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    // Lanes race with their neighbours first, and then lane 31 with lane 0 of the next warp.
    for threads in [32, 64] {
        let fault = Case::new(text.clone(), 1, threads).fault("  bar_warp\n", "");
        let FaultCause::Race { missing, .. } = fault.cause else { panic!("{fault}") };
        let expected = if threads == 32 { MissingEdge::Warp } else { MissingEdge::Block };
        assert_eq!((missing, fault.also.len()), (expected, 0), "{fault}");
    }
}

/// The first warp's load races with its own store, and reads what the second warp has not written
/// yet, which ends the run. The race then asks for the block's barrier, because the warp's own
/// leaves the unwritten elements. With one warp in the block, its own is enough.
#[test]
fn a_race_at_a_load_of_unwritten_elements_asks_for_the_block_barrier() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %twice = add %t, %t : i32
  %even = and %twice, %n63 : i32
  st %s, %t, %t
  barrier
  %v = ld %s, %even : i32
  st %x, %t, %v";
    let shared = "  shared @s: i32 x 64 align 4\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    for (threads, expected) in [(32, MissingEdge::Warp), (64, MissingEdge::Block)] {
        let case = Case::new(text.clone(), 1, threads);
        let fault = case.fault("barrier\n", "\n");
        assert!(matches!(fault.cause, FaultCause::Uninitialised { byte: 128, .. }), "{fault}");
        let [race] = &fault.also[..] else { panic!("{fault}") };
        let FaultCause::Race { missing, .. } = race.cause else { panic!("{fault}") };
        assert_eq!(missing, expected, "{fault}");
        assert_eq!(fault.to_string().contains("bar_warp"), threads == 32, "{fault}");
    }
    let case = Case::new(text, 1, 64);
    case.run(&case.text, Order::RoundRobin).unwrap();
    let fault = case.fault("barrier\n", "bar_warp %all\n");
    assert!(matches!(fault.cause, FaultCause::Uninitialised { .. }), "{fault}");
    assert_eq!(fault.also, [], "{fault}");
}

/// Stores of equal values race on request only.
#[test]
fn equal_stores_race_on_request() {
    let body = "
  st %x, %zero, %one
  st %x, %one, %one";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    let ir = Kernel::verify(parse("test.kir", &text).unwrap()).unwrap();
    let x = GlobalBuffer::zeros(8);
    let run = |blocks, threads, options: Options| {
        let grid = Grid::new([blocks, 1, 1], [threads, 1, 1]);
        run(ir.ir(), grid, &[KernelArg::Buffer(&x)], &options.race(true))
    };
    for (blocks, threads, edge) in
        [(1, 2, MissingEdge::Warp), (1, 64, MissingEdge::Block), (2, 1, MissingEdge::Grid)]
    {
        run(blocks, threads, Options::default()).unwrap();
        let error = run(blocks, threads, Options::default().equal_stores(true)).unwrap_err();
        let fault = error.fault().expect("it races");
        let FaultCause::Race { missing, .. } = fault.cause else { panic!("{fault}") };
        // Each of the two lines races with itself.
        assert_eq!((missing, fault.also.len()), (edge, 1), "{fault}");
    }
    run(1, 1, Options::default().equal_stores(true)).unwrap();
}

/// A race is reported with the fault behind it.
#[test]
fn a_race_comes_with_the_fault_that_it_causes() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n99 = const 9999 : i32
  st %s, %zero, %t
  %v = ld %s, %zero : i32
  barrier
  st %x, %n99, %v";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 1 align 4\n", body);
    let fault = Case::new(text, 1, 64).fault("barrier\n", "barrier\n");
    assert!(matches!(fault.cause, FaultCause::Race { .. }), "{fault}");
    let last = fault.also.last().expect("the store is out of bounds");
    assert!(matches!(last.cause, FaultCause::OutOfBounds { .. }), "{fault}");
}

/// A kernel that waits for ever after its race ends all the same.
#[test]
fn a_race_ends_a_run_that_does_not_end() {
    let body = "
  st %x, %zero, %block
  loop @spin {
    %seen = ld<relaxed.gpu> %x, %one : i32
    %is = setp<eq> %seen, %one : bool
    if %is {
      break @spin
    }
    continue @spin
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    for cooperative in [false, true] {
        let mut case = Case::new(text.clone(), 2, 1);
        case.cooperative = cooperative;
        let ended = case.run(&text, Order::RoundRobin);
        match (cooperative, ended) {
            (true, Err(RunError::Fault(fault))) => {
                assert!(matches!(fault.cause, FaultCause::Race { .. }), "{fault}");
            }
            // The first block waits before there is another one.
            (false, Err(RunError::OutOfFuel { .. })) => {}
            (_, other) => panic!("{other:?}"),
        }
    }
}

/// Only schedules that let the second warp come first find the mistake.
#[test]
fn schedules_find_what_depends_on_the_order() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %flag = shared_base<@flag> : ptr<shared, mut i32>
  %low = setp<lt> %t, %n32 : bool
  if %first {
    st %flag, %zero, %zero
    yield
  }
  barrier
  if %low {
    st<release.cta> %flag, %zero, %one
    yield
  } else {
    %seen = ld<acquire.cta> %flag, %zero : i32
    %late = setp<eq> %seen, %zero : bool
    if %late {
      st %s, %t, %one
      %v = ld %s, %n63 : i32
      yield
    }
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @flag: i32 x 1 align 4\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    let ir = parse("test.kir", &text).unwrap();
    let kernel = Kernel::verify(ir).unwrap();
    let x = GlobalBuffer::from_slice(&[7i32; 4]);
    let run = |options: Options| {
        let grid = Grid::new([1; 3], [64, 1, 1]);
        run(kernel.ir(), grid, &[KernelArg::Buffer(&x)], &options.race(true))
    };
    run(Options::default()).unwrap();
    let error = run(Options::default().schedules(30)).unwrap_err();
    let order = error.fault().expect("it races").order;
    assert_ne!(order, Order::RoundRobin);
    assert!(error.to_string().contains(&format!("(with `{order:?}`)")), "{error}");
    // The schedule that the report names finds the same again.
    let again = run(Options::default().order(order)).unwrap_err();
    assert_eq!(again, error);
    assert_eq!(x.to_vec::<i32>(), [7; 4]);
}

/// Schedules begin with the same buffers, and leave the results of the first.
#[test]
fn schedules_have_one_result() {
    let body = "
  %old = ld %x, %t : i32
  %new = add %old, %one : i32
  st %x, %t, %new
  %before = atom<add, relaxed, gpu> %y, %zero, %one : i32
  st %y, %before, %t";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>, %y: ptr<global, mut i32>", "", body);
    let kernel = Kernel::verify(parse("test.kir", &text).unwrap()).unwrap();
    let run = |schedules| {
        let (x, y) = (GlobalBuffer::zeros(4 * 64), GlobalBuffer::from_slice(&[1i32; 129]));
        let grid = Grid::new([1; 3], [64, 1, 1]);
        let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&y)];
        // Which element of `y` a thread writes depends on the schedule.
        let options = Options::default().race(true).schedules(schedules).may_differ("y");
        run(kernel.ir(), grid, &args, &options).unwrap_or_else(|error| panic!("{error}"));
        (x.to_vec::<i32>(), y.to_vec::<i32>())
    };
    let once = run(1);
    assert_eq!(once.0, [1; 64]);
    assert_eq!(run(12), once);
}
