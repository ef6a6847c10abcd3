//! Loops that copy to shared memory asynchronously, some iterations ahead: the same as the plain
//! loop.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, ptxas, text};

use tilewright::ir::op::CpAsyncCache;
use tilewright::ir::{
    Global, GlobalMut, Kernel, KernelIr, KernelOptions, Target, Untyped, VerifyError, range,
};
use tilewright::runtime::{Arg, Device, Grid};
use tilewright::sim::{Options, Order};

/// The source of word copies, the source of 16-byte copies, the result, the iterations.
type Params = (Global<u32>, Global<u16>, GlobalMut<u32>, i32);

/// Threads of the block, and elements of `x` for an iteration; of `w` there are 8 for each thread.
const THREADS: u32 = 64;

/// In each iteration every thread copies a word and 16 bytes, and uses copies of other threads. In
/// every third iteration 8 of the 16 bytes are zero-filled.
fn kernel(target: Target, stages: u32, known: Option<i32>) -> Kernel<Params> {
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    Kernel::<Params>::build_with(options, "ahead", target, |k, (x, w, y, n)| {
        let words = k.shared_aligned::<u32>(THREADS, 16);
        let halves = k.shared_aligned::<u16>(8 * THREADS, 16);
        let t = k.thread_idx().x;
        let other = t ^ 37;
        let trips = known.map_or(n, |known| k.constant(known));
        let all = range(0, trips).prefetch_stages(stages);
        let sum = k.for_(all, k.constant(1u32), |k, i, sum| {
            let from = i * THREADS + t;
            let whole = (i % 3).ne(0).select(k.constant(16u32), 8);
            k.cp_async(words.offset(t), x.offset(from), CpAsyncCache::Ca, 4);
            k.cp_async_zfill(halves.offset(t * 8), w.offset(from * 8), CpAsyncCache::Cg, 16, whole);
            k.cp_async_commit_group();
            k.cp_async_wait_group(0);
            k.barrier();
            let eight = halves.load_vector::<8>(other * 8);
            let [low, high] = [0, 7].map(|lane| eight.lane(lane).cvt::<u32>());
            let sum = sum * 5 + words.load(other) + low + high * 3;
            k.barrier();
            sum
        });
        y.store(t, sum);
    })
    .unwrap_or_else(|errors| panic!("{errors}"))
}

fn inputs(trips: u32) -> (Vec<u32>, Vec<u16>) {
    let x = (0..trips * THREADS).map(|i| i * 7919).collect();
    let w = (0..8 * trips * THREADS).map(|i| (i * 31 + 5) as u16).collect();
    (x, w)
}

/// The same on the host.
fn expected(trips: u32) -> Vec<u32> {
    let (x, w) = inputs(trips);
    let of_thread = |t: u32| {
        let other = t ^ 37;
        (0..trips).fold(1u32, |sum, i| {
            let from = (i * THREADS + other) as usize;
            let last = if i % 3 == 0 { 0 } else { w[8 * from + 7] };
            let sum = sum.wrapping_mul(5).wrapping_add(x[from]);
            sum.wrapping_add(w[8 * from].into()).wrapping_add(u32::from(last) * 3)
        })
    };
    (0..THREADS).map(of_thread).collect()
}

fn run(device: &Device, kernel: &Kernel<Params>, trips: u32) -> Vec<u32> {
    let (x, w) = inputs(trips);
    let (x, w) = (device.upload(&x).unwrap(), device.upload(&w).unwrap());
    let mut y = device.zeros::<u32>(THREADS as usize).unwrap();
    let grid = Grid::new([1; 3], [THREADS, 1, 1]);
    device.load(kernel).unwrap().launch(grid, (&x, &w, &mut y, trips as i32)).unwrap();
    y.to_vec().unwrap()
}

#[test]
fn asynchronous_copies_ahead_change_nothing() {
    let orders = [Order::RoundRobin, Order::Random { seed: 1 }, Order::Random { seed: 2 }];
    let mut devices: Vec<Device> =
        orders.map(|order| Device::sim_with(Options::default().order(order))).to_vec();
    devices.extend(device::gpu());
    for stages in 0..=4 {
        let dynamic = kernel(Target::SM_80, stages, None);
        text::check_round_trip(dynamic.ir());
        for trips in 0..=7 {
            let known = kernel(Target::SM_80, stages, Some(trips as i32));
            for device in &devices {
                for kernel in [&dynamic, &known] {
                    assert_eq!(
                        run(device, kernel, trips),
                        expected(trips),
                        "{stages} stages, {trips} on {device}"
                    );
                }
            }
        }
        if let Some(ptxas) = ptxas::find() {
            let assembled = ptxas.assemble(dynamic.ptx().text(), "sm_80", &["-O3"]);
            assembled.unwrap_or_else(|problem| panic!("{problem}"));
        }
    }
}

/// Three copies of each kind before the loop and one in it; waits for all groups but two in it, for
/// all behind it.
#[test]
fn the_prologue_has_as_many_copies_as_stages() {
    let plain = kernel(Target::SM_80, 0, Some(9));
    let ahead = kernel(Target::SM_80, 3, Some(9));
    let count = |kernel: &Kernel<Params>, op: &str| kernel.ptx().text().matches(op).count();
    for (op, before, after) in [
        ("cp.async.ca", 1, 3 + 1),
        ("cp.async.cg", 1, 3 + 1),
        ("cp.async.commit_group", 1, 3 + 1),
        ("cp.async.wait_group 2", 0, 1),
        ("cp.async.wait_group 0", 1, 1),
        // One in the loop, one in the drain, and one behind it.
        ("barrier.sync", 2, 3),
    ] {
        assert_eq!((count(&plain, op), count(&ahead, op)), (before, after), "{op}");
    }
    // Each tile has four stages.
    let bytes = |kernel: &Kernel<Params>| kernel.ir().shared_layout().1;
    assert_eq!(bytes(&ahead), 4 * bytes(&plain));
}

/// Every wait that the pass writes is needed.
#[test]
fn no_wait_or_barrier_of_the_pipeline_can_be_left_out() {
    let printed = kernel(Target::SM_80, 2, Some(6)).to_string();
    let lines: Vec<&str> = printed.lines().collect();
    let is_wait = |line: &str| {
        let op = line.trim_start();
        op.starts_with("cp_async_wait_group") || op.starts_with("barrier")
    };
    let places: Vec<usize> = (0..lines.len()).filter(|at| is_wait(lines[*at])).collect();
    assert_eq!(places.len(), 5, "{printed}");
    // The last barrier is for a loop that is entered again.
    for at in &places[..4] {
        let less = [&lines[..*at], &lines[at + 1..]].concat();
        let ir: KernelIr = less.join("\n").parse().unwrap();
        let kernel: Kernel<Untyped> = Kernel::verify(ir).unwrap();
        let is_missed = (0..20).any(|seed| {
            let device = Device::sim_with(Options::default().order(Order::Random { seed }));
            let (x, w) = inputs(6);
            let (x, w) = (device.upload(&x).unwrap(), device.upload(&w).unwrap());
            let mut y = device.zeros::<u32>(THREADS as usize).unwrap();
            let grid = Grid::new([1; 3], [THREADS, 1, 1]);
            let args = vec![Arg::from(&x), Arg::from(&w), Arg::from(&mut y), Arg::from(6)];
            let ran = device.load(&kernel).unwrap().launch(grid, args);
            ran.is_err() || y.to_vec().unwrap() != expected(6)
        });
        assert!(is_missed, "line {} is not missed: {}\n{printed}", at + 1, lines[*at]);
    }
}

/// Copies that are not in the form, each with its reason.
#[test]
fn other_forms_are_refused() {
    fn error(wait: bool, inside: bool) -> VerifyError {
        let errors = Kernel::<Params>::build("refused", Target::SM_80, |k, (x, _, y, n)| {
            let tile = k.shared_aligned::<u32>(THREADS, 16);
            let t = k.thread_idx().x;
            k.for_(range(0, n).prefetch_stages(2), (), |k, i, ()| {
                let from = x.offset(i * THREADS + t);
                if inside {
                    k.if_(t.lt(32), |k| k.cp_async(tile.offset(t), from, CpAsyncCache::Ca, 4));
                } else {
                    k.cp_async(tile.offset(t), from, CpAsyncCache::Ca, 4);
                }
                k.cp_async_commit_group();
                if wait {
                    k.cp_async_wait_group(0);
                }
                k.barrier();
                k.barrier();
            });
            y.store(t, 0);
        })
        .unwrap_err();
        let error = errors.iter().next().expect("there is one");
        let tilewright::ir::builder::BuildErrorKind::Verify(error) = &error.kind else {
            panic!("{error}")
        };
        error.clone()
    }
    for error in [error(false, false), error(true, true)] {
        assert!(matches!(error, VerifyError::PrefetchAsyncForm { .. }), "{error}");
    }
}

/// The form of the ring that a kernel goes around by itself.
#[derive(Clone, Copy, Debug)]
struct RingForm {
    slots: u32,
    /// Copies by `cp.async`, else loads and stores.
    asynchronous: bool,
    /// The block has a known size.
    bounded: bool,
    /// Reads the slot of the iteration before.
    stale: bool,
    step: i32,
}

const RING: RingForm =
    RingForm { slots: 4, asynchronous: true, bounded: true, stale: false, step: 1 };

type RingParams = (Global<u32>, GlobalMut<u32>, i32);

/// The loop of the text of CuTe DSL: `copy(gmem[i], buffer[i % n]); use(buffer[i % n])`.
fn ring(form: RingForm, stages: u32) -> Result<Kernel<RingParams>, tilewright::ir::BuildErrors> {
    let options = KernelOptions::default();
    let options = if form.bounded { options.block([THREADS, 1, 1]) } else { options };
    Kernel::<RingParams>::build_with(options, "ring", Target::SM_80, |k, (x, y, n)| {
        let buffer = k.shared_aligned::<u32>(THREADS * form.slots, 16);
        let t = k.thread_idx().x;
        let all = range(0, n).step(form.step).prefetch_stages(stages);
        let sum = k.for_(all, k.constant(1u32), |k, i, sum| {
            let slot = i % form.slots.cast_signed() * THREADS.cast_signed();
            let from = i * THREADS + t;
            if form.asynchronous {
                k.cp_async(buffer.offset(slot + t), x.offset(from), CpAsyncCache::Ca, 4);
                k.cp_async_commit_group();
                k.cp_async_wait_group(0);
            } else {
                buffer.store(slot + t, x.load(from));
            }
            k.barrier();
            let back = if form.stale { THREADS.cast_signed() } else { 0 };
            let sum = sum * 5 + buffer.load(slot + (t ^ 37) + back);
            k.barrier();
            sum
        });
        y.store(t, sum);
    })
}

/// A ring that the kernel goes around by itself gives the result of the plain loop, and no further
/// shared memory.
#[test]
fn rings_of_the_kernel_are_filled_ahead() {
    let mut devices: Vec<Device> = [Order::RoundRobin, Order::Random { seed: 3 }]
        .map(|order| Device::sim_with(Options::default().order(order)))
        .to_vec();
    devices.extend(device::gpu());
    for asynchronous in [true, false] {
        for (slots, step) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (4, 3)] {
            let form = RingForm { slots, asynchronous, step, ..RING };
            let plain = ring(form, 0).unwrap();
            for stages in 1..slots {
                let ahead =
                    ring(form, stages).unwrap_or_else(|errors| panic!("{form:?}: {errors}"));
                if asynchronous {
                    let copies = ahead.ptx().text().matches("cp.async.ca").count();
                    assert!(copies > 1, "{form:?}, {stages} ahead");
                }
                assert_eq!(ahead.ir().shared_layout(), plain.ir().shared_layout());
                for device in &devices {
                    for trips in 0..=9 {
                        let run = |kernel: &Kernel<RingParams>| {
                            let x: Vec<u32> = (0..trips * THREADS).map(|i| i * 7919).collect();
                            let x = device.upload(&x).unwrap();
                            let mut y = device.zeros::<u32>(THREADS as usize).unwrap();
                            let grid = Grid::new([1; 3], [THREADS, 1, 1]);
                            let function = device.load(kernel).unwrap();
                            function.launch(grid, (&x, &mut y, trips.cast_signed())).unwrap();
                            y.to_vec().unwrap()
                        };
                        assert_eq!(run(&ahead), run(&plain), "{form:?}, {stages} ahead, {trips}");
                    }
                }
            }
        }
    }
}

/// The error names the operation that prevents it, with its line.
#[test]
fn loops_that_cannot_be_pipelined_name_the_operation() {
    let message = |form: RingForm, stages: u32| ring(form, stages).unwrap_err().to_string();
    let text = message(RING, 4);
    assert!(
        text.contains("cannot fetch 4 iterations ahead: the ring buffer that the `rem` at"),
        "{text}"
    );
    assert!(text.contains("prefetch_async.rs") && text.contains("has 4 slots"), "{text}");
    // Two slots of four are used where the step is 2.
    let text = message(RingForm { step: 2, ..RING }, 2);
    assert!(text.contains("has 2 slots"), "{text}");
    for form in [RingForm { stale: true, ..RING }, RingForm { bounded: false, ..RING }] {
        let text = message(form, 2);
        assert!(text.contains("because of the `rem` at tests/ir/prefetch_async.rs:"), "{text}");
        assert!(text.contains("slot `i % n` of a ring"), "{text}");
    }
}
