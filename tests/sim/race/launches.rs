//! Races between launches: programmatic launches, streams, graphs, and waits of the host.
//!
//! PTX ISA 9.7.13.13: `griddepcontrol.wait` waits until the grids before have completed and their
//! memory is visible; `griddepcontrol.launch_dependents` lets the grid behind start, and gives no
//! order.

use super::*;

use tilewright::ir::{Body, Global, GlobalMut, Target};
use tilewright::runtime::{Buffer, Device, Function, LaunchOptions, RuntimeError, Stream};

/// Reads `x`, writes `y`.
type Copy = (Global<i32>, GlobalMut<i32>);

fn sim() -> Device {
    Device::sim_with(Options::default().race(true).target(Target::SM_90))
}

/// Blocks of 32 threads.
const GRID: fn(u32) -> Grid = |blocks| Grid::new([blocks, 1, 1], [32, 1, 1]);

/// A kernel named `name` that copies, with `before` in front of the copy. It lets the launch behind
/// start.
fn copy(device: &Device, name: &str, before: impl for<'a> Fn(&mut Body<'a, '_>)) -> Function<Copy> {
    let kernel = Kernel::<Copy>::build(name, device.target(), |k, (x, y)| {
        k.griddepcontrol_launch_dependents();
        before(k);
        let i = k.block_idx().x * 32 + k.thread_idx().x;
        y.store(i, x.load(i) + 1);
    });
    device.load(&kernel.unwrap()).unwrap()
}

/// A kernel without `griddepcontrol_wait` cannot be launched programmatically, so this one waits
/// behind its accesses.
fn late(device: &Device) -> Function<Copy> {
    let kernel = Kernel::<Copy>::build("late", device.target(), |k, (x, y)| {
        k.griddepcontrol_launch_dependents();
        let i = k.block_idx().x * 32 + k.thread_idx().x;
        y.store(i, x.load(i) + 1);
        k.griddepcontrol_wait();
    });
    device.load(&kernel.unwrap()).unwrap()
}

fn waits(k: &mut Body<'_, '_>) {
    k.griddepcontrol_wait();
}

fn on(stream: &Stream) -> LaunchOptions<'_> {
    LaunchOptions::default().stream(stream)
}

fn race(error: RuntimeError) -> Fault {
    match error {
        RuntimeError::Simulation(error) => match *error {
            RunError::Fault(fault) => *fault,
            error => panic!("{error}"),
        },
        error => panic!("{error}"),
    }
}

/// The races of a launch behind another one, each as the accesses (true for a write) of the first
/// and the second.
fn kinds(fault: &Fault) -> Vec<(bool, bool, MissingEdge)> {
    let kind = |fault: &Fault| match &fault.cause {
        FaultCause::Race { by, other, missing, .. } => (other.writes, by.writes, *missing),
        _ => panic!("{fault}"),
    };
    let mut kinds: Vec<_> = [fault].into_iter().chain(&fault.also).map(kind).collect();
    kinds.sort_by_key(|(first, second, _)| (*first, *second));
    kinds
}

/// NVIDIA/cutlass#2760, flashinfer-ai/flashinfer#5081: accesses without `griddepcontrol.wait`, or
/// in front of it.
///
/// A programmatic launch reads what the launch before it writes, writes what it reads, and writes
/// what it writes.
#[test]
fn a_programmatic_launch_races_before_its_wait() {
    use MissingEdge::Launch;
    let device = sim();
    let (first, late) = (copy(&device, "first", |_| ()), late(&device));
    let waiting = copy(&device, "waiting", waits);
    let programmatic = LaunchOptions::default().programmatic(true);
    let run = |second: &Function<Copy>, from: usize, to: usize, options: LaunchOptions<'_>| {
        let mut buffers = [0, 1, 2].map(|n| device.upload(&[n; 64]).unwrap());
        let [x, y, _] = &mut buffers;
        first.launch(GRID(2), (x, y)).unwrap();
        let mut taken = buffers.map(Some);
        let from: Buffer<i32> = taken[from].take().unwrap();
        let mut to = taken[to].take().unwrap();
        second.launch_with(options, GRID(2), (&from, &mut to))
    };
    // The first launch reads buffer 0 and writes buffer 1.
    let cases = [
        (1, 2, vec![(true, false, Launch)]),
        (2, 0, vec![(false, true, Launch)]),
        (2, 1, vec![(true, true, Launch)]),
        (1, 0, vec![(false, true, Launch), (true, false, Launch)]),
    ];
    for (from, to, expected) in cases {
        let fault = race(run(&late, from, to, programmatic).unwrap_err());
        assert_eq!(kinds(&fault), expected, "{fault}");
        let text = fault.to_string();
        assert!(text.contains("of an earlier launch, of kernel `first`"), "{text}");
        assert!(
            text.contains("of kernel `late`") && text.contains("griddepcontrol_wait"),
            "{text}"
        );
        let FaultCause::Race { access, other, .. } = &fault.cause else { panic!("{fault}") };
        assert!(other.op.location.line > 0 && other.op.location.line != fault.location.line);
        assert_eq!((access.element, other.thread, other.block), (0, [0; 3], [0; 3]), "{fault}");
        // Behind the wait, and without the programmatic attribute, there is an order.
        run(&waiting, from, to, programmatic).unwrap();
        run(&late, from, to, LaunchOptions::default()).unwrap();
    }
    // What the first launch only reads may be read.
    run(&late, 0, 2, programmatic).unwrap();
}

/// Without `launch_dependents` the next launch starts at the end.
#[test]
fn a_launch_that_lets_none_start_overlaps_with_none() {
    let device = sim();
    let plain = Kernel::<Copy>::build("plain", device.target(), |k, (x, y)| {
        let i = k.thread_idx().x;
        y.store(i, x.load(i));
    });
    let (plain, late) = (device.load(&plain.unwrap()).unwrap(), late(&device));
    let x = device.zeros(32).unwrap();
    let (mut y, mut z) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
    plain.launch(GRID(1), (&x, &mut y)).unwrap();
    let programmatic = LaunchOptions::default().programmatic(true);
    late.launch_with(programmatic, GRID(1), (&y, &mut z)).unwrap();
}

/// flashinfer-ai/flashinfer#4685: only one of the warps that read waits.
///
/// The thread that waits passes its knowledge on: by barriers, not by chance.
#[test]
fn one_thread_may_wait_for_others() {
    let device = sim();
    let second = |synchronises: bool| {
        copy(&device, "second", move |k| {
            let leads = k.thread_idx().x.eq(0);
            k.if_(leads, |k| k.griddepcontrol_wait());
            if synchronises {
                k.bar_warp(u32::MAX);
            }
        })
    };
    let first = copy(&device, "first", |_| ());
    for synchronises in [true, false] {
        let x = device.zeros(32).unwrap();
        let (mut y, mut z) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
        first.launch(GRID(1), (&x, &mut y)).unwrap();
        let programmatic = LaunchOptions::default().programmatic(true);
        let run = second(synchronises).launch_with(programmatic, GRID(1), (&y, &mut z));
        assert_eq!(run.is_ok(), synchronises);
        if let Err(error) = run {
            let fault = race(error);
            let FaultCause::Race { by, other, .. } = &fault.cause else { panic!("{fault}") };
            assert_eq!((by.thread, other.thread), ([1, 0, 0], [1, 0, 0]), "{fault}");
        }
    }
}

/// A wait is for the launch before. It is one for the launch before that one only if that one has
/// waited.
#[test]
fn waits_are_transitive_where_each_launch_waits() {
    let device = sim();
    let names: fn(&Fault) -> (MissingEdge, String) = |fault| match &fault.cause {
        FaultCause::Race { other, missing, .. } => {
            (*missing, other.kernel.clone().unwrap_or_default())
        }
        _ => panic!("{fault}"),
    };
    let first = copy(&device, "first", |_| ());
    let last = copy(&device, "last", waits);
    // Waits in none of its blocks.
    let skips = copy(&device, "skips", |k| {
        let none = k.block_idx().x.eq(7);
        k.if_(none, |k| k.griddepcontrol_wait());
    });
    let between = copy(&device, "between", waits);
    let programmatic = LaunchOptions::default().programmatic(true);
    for (middle, ordered) in [(&between, true), (&skips, false)] {
        let (x, u) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
        let [mut y, mut v, mut z] = [(); 3].map(|()| device.zeros(32).unwrap());
        first.launch(GRID(1), (&x, &mut y)).unwrap();
        middle.launch_with(programmatic, GRID(1), (&u, &mut v)).unwrap();
        let run = last.launch_with(programmatic, GRID(1), (&y, &mut z));
        match run {
            Ok(()) => assert!(ordered),
            Err(error) => {
                let fault = race(error);
                let expected = (MissingEdge::LaunchBetween, "first".to_owned());
                assert_eq!((names(&fault), ordered), (expected, false), "{fault}");
            }
        }
        // Before its wait a launch races with all of them.
        let [mut y, mut v, mut z] = [(); 3].map(|()| device.zeros(32).unwrap());
        first.launch(GRID(1), (&x, &mut y)).unwrap();
        middle.launch_with(programmatic, GRID(1), (&u, &mut v)).unwrap();
        let run = late(&device).launch_with(programmatic, GRID(1), (&y, &mut z));
        assert_eq!(names(&race(run.unwrap_err())), (MissingEdge::Launch, "first".to_owned()));
    }
}

/// The waits of the host, other work of the stream, and the runtime's order of streams end what may
/// overlap.
#[test]
fn other_orders_count() {
    type End<'e> = &'e dyn Fn(&Device, &Stream, &mut Buffer<i32>);
    let device = sim();
    let (first, late) = (copy(&device, "first", |_| ()), late(&device));
    let run = |end: End<'_>| {
        let stream = device.stream().unwrap();
        let x = device.zeros(32).unwrap();
        let (mut y, mut z) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
        first.launch_with(on(&stream), GRID(1), (&x, &mut y)).unwrap();
        end(&device, &stream, &mut y);
        late.launch_with(on(&stream).programmatic(true), GRID(1), (&y, &mut z))
    };
    race(run(&|_, _, _| ()).unwrap_err());
    // Work of another stream on other buffers, and a wait for it, say nothing.
    race(
        run(&|device, _, _| {
            let (other, a) = (device.stream().unwrap(), device.zeros(32).unwrap());
            let mut b = device.zeros(32).unwrap();
            first.launch_with(on(&other), GRID(1), (&a, &mut b)).unwrap();
            b.to_vec().unwrap();
            other.synchronize().unwrap();
        })
        .unwrap_err(),
    );
    let ends: [End<'_>; 8] = [
        &|device, _, _| device.synchronize().unwrap(),
        &|_, stream, _| stream.synchronize().unwrap(),
        &|_, stream, _| stream.record().unwrap().synchronize().unwrap(),
        &|_, _, y| drop(y.to_vec().unwrap()),
        &|_, _, y| y.write(&[1; 32]).unwrap(),
        &|_, stream, y| y.fill(1, stream).unwrap(),
        // A launch that is not programmatic, and one of another stream that uses the buffer.
        &|device, stream, _| {
            let (a, mut b) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
            let plain = Kernel::<Copy>::build("plain", device.target(), |k, (x, y)| {
                y.store(k.thread_idx().x, x.load(k.thread_idx().x));
            });
            let plain = device.load(&plain.unwrap()).unwrap();
            plain.launch_with(on(stream), GRID(1), (&a, &mut b)).unwrap();
        },
        &|device, _, y| {
            let (other, a) = (device.stream().unwrap(), device.zeros(32).unwrap());
            first.launch_with(on(&other), GRID(1), (&a, y)).unwrap();
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        run(end).unwrap_or_else(|error| panic!("{number}: {error}"));
    }
}

/// Streams that share a buffer run in the order of the calls, with an event or without.
#[test]
fn streams_that_share_buffers_are_ordered() {
    let device = sim();
    let (first, late) = (copy(&device, "first", |_| ()), late(&device));
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut buffers = [0, 1].map(|n| device.upload(&[n; 32]).unwrap());
    for round in 0..4 {
        let [x, y] = &mut buffers;
        let stream = if round % 2 == 0 { &a } else { &b };
        // Programmatic, but the launch before of the same stream is over: the other stream has
        // waited for it.
        let options = on(stream).programmatic(true);
        late.launch_with(options, GRID(1), (&*x, &mut *y)).unwrap();
        if round == 2 {
            a.wait_for(&stream.record().unwrap()).unwrap();
        }
        buffers.reverse();
    }
    let [x, y] = &mut buffers;
    first.launch_with(on(&a), GRID(1), (&*x, &mut *y)).unwrap();
    let error = late.launch_with(on(&a).programmatic(true), GRID(1), (&*y, &mut *x)).unwrap_err();
    race(error);
}

/// Launches of a graph overlap as those of a stream do; a graph and the work around it do not.
#[test]
fn launches_of_a_graph_are_compared() {
    let device = sim();
    let (first, late) = (copy(&device, "first", |_| ()), late(&device));
    let waiting = copy(&device, "waiting", waits);
    let x = device.zeros(32).unwrap();
    let (mut y, mut z) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
    for (second, good) in [(&waiting, true), (&late, false)] {
        let builder = device.graph().unwrap();
        let options = on(builder.stream());
        first.launch_with(options, GRID(1), (&x, &mut y)).unwrap();
        second.launch_with(options.programmatic(true), GRID(1), (&y, &mut z)).unwrap();
        let graph = builder.finish().unwrap();
        // The graph has ended before the launch behind it starts, and the launch before it has.
        for _ in 0..2 {
            let run = graph.launch();
            assert_eq!(run.is_ok(), good);
            if let Err(error) = run {
                let fault = race(error);
                assert_eq!(kinds(&fault), [(true, false, MissingEdge::Launch)], "{fault}");
            }
        }
        if good {
            let programmatic = LaunchOptions::default().programmatic(true);
            late.launch_with(programmatic, GRID(1), (&z, &mut y)).unwrap();
        }
    }
}

/// Strong operations of scope gpu do not race; those of a narrower scope do.
#[test]
fn atomic_operations_of_two_launches() {
    let device = sim();
    type Counter = (GlobalMut<i32>,);
    let kernel = |name: &str, scope: MemScope| {
        let kernel = Kernel::<Counter>::build(name, device.target(), |k, (x,)| {
            k.griddepcontrol_launch_dependents();
            x.red().scope(scope).add(0, 1);
            k.griddepcontrol_wait();
        });
        device.load(&kernel.unwrap()).unwrap()
    };
    let programmatic = LaunchOptions::default().programmatic(true);
    let (gpu, cta) = (MemScope::Gpu, MemScope::Cta);
    for (first, second, good) in [(gpu, gpu, true), (cta, gpu, false), (gpu, cta, false)] {
        let mut x = device.zeros(1).unwrap();
        kernel("first", first).launch(Grid::new([1; 3], [1; 3]), (&mut x,)).unwrap();
        let second = kernel("second", second);
        let run = second.launch_with(programmatic, Grid::new([1; 3], [1; 3]), (&mut x,));
        assert_eq!(run.is_ok(), good);
    }
}

/// A part of a buffer is named by its own elements, and races with the part that the launch before
/// uses.
#[test]
fn parts_of_one_buffer() {
    let device = sim();
    let (first, late) = (copy(&device, "first", |_| ()), late(&device));
    let (x, mut z) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
    let mut whole = device.zeros::<i32>(64).unwrap();
    let programmatic = LaunchOptions::default().programmatic(true);
    for (start, good) in [(32, true), (16, false), (0, false)] {
        first.launch(GRID(1), (&x, &mut *whole.part_mut(0..32).unwrap())).unwrap();
        let part = whole.part(start..start + 32).unwrap();
        let run = late.launch_with(programmatic, GRID(1), (&*part, &mut z));
        assert_eq!(run.is_ok(), good, "{start}");
        if let Err(error) = run {
            let fault = race(error);
            let FaultCause::Race { access, other, .. } = &fault.cause else { panic!("{fault}") };
            let found = (access.element, other.thread);
            assert_eq!(found, (0, [start as u32, 0, 0]), "{fault}");
        }
    }
}
