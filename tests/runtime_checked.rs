//! Kernels with checks in their code, on the simulator and on a GPU: the faults are those of the
//! simulator.
//!
//! A fault ends the device for its process, so each has a child process on a GPU. They run with
//! `TILEWRIGHT_GPU=1`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]

#[path = "support/mod.rs"]
mod support;

use support::device::{devices, gpu, wanted_gpu};

use std::process::Command;

use tilewright::codegen::Module;
use tilewright::ir::op::CpAsyncCache;
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Element, Global, GlobalMut, Kernel, KernelOptions, Record, Target, bf16, range,
};
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem, LoadMethod, StoreMethod};
use tilewright::runtime::{Device, Function, Grid, LoadOptions, RuntimeError};
use tilewright::sim::{self, Fault, FaultCause, GlobalBuffer, KernelArg, Options};

/// Chooses the fault that a child process causes.
const CHILD: &str = "TILEWRIGHT_CHECKED_CHILD";

/// A buffer of 100 numbers, and a number that the compiler does not know.
type Params = (GlobalMut<i32>, i32);

const LEN: usize = 100;

const FAULTS: [&str; 10] = [
    "store",
    "load before the start",
    "shared",
    "vector",
    "misaligned",
    "misaligned element",
    "generic",
    "division",
    "step",
    "promise",
];

/// The kernel, and the number with which it is at fault.
fn faulty(fault: &str, target: Target) -> (Kernel<Params>, i32) {
    let build = |number,
                 body: &dyn for<'b> Fn(
        &mut tilewright::ir::Body<'b, 'b>,
        <Params as tilewright::ir::Params>::At<'b>,
    )| {
        (Kernel::<Params>::build("faulty", target, |k, args| body(k, args)).unwrap(), number)
    };
    match fault {
        "store" => build(41, &|k, (x, n)| {
            let i = k.thread_idx().x + n;
            x.store(i, 1);
        }),
        "load before the start" => build(-3, &|k, (x, n)| {
            let i = k.thread_idx().x + n;
            let value = x.load(i);
            x.store(k.thread_idx().x, value);
        }),
        "shared" => build(8, &|k, (x, n)| {
            let tile = k.shared::<i32>(64);
            let i = k.thread_idx().x;
            tile.store(i + n, i);
            k.barrier();
            x.store(i, tile.load(i));
        }),
        "vector" => build(25, &|_, (x, n)| {
            let value = x.load_vector::<4>(n * 4);
            x.store_vector(0, value);
        }),
        "misaligned" => build(1, &|_, (x, n)| {
            let value = x.load_vector::<4>(n);
            x.store_vector(0, value);
        }),
        "misaligned element" => build(1, &|_, (x, n)| {
            x.ptr_cast::<u8>().offset(n).ptr_cast::<i32>().store(0, 1);
        }),
        "generic" => build(100, &|_, (x, n)| {
            let to = x.cvta();
            to.store(n, 1);
        }),
        "division" => build(0, &|k, (x, n)| {
            let i = k.thread_idx().x;
            x.store(i, (i + 7) / n);
        }),
        "step" => build(-1, &|k, (x, n)| {
            k.for_(range(0, 10).step(n), (), |_, i, ()| x.store(i, 1));
        }),
        "promise" => build(1, &|_, (x, n)| {
            let to = x.offset(n).assume_aligned(16);
            to.store(0, 1);
        }),
        _ => panic!("no such fault"),
    }
}

const GRID: Grid = Grid::new([1, 1, 1], [64, 1, 1]);

/// The options of a load with checks or without.
#[expect(unsafe_code, reason = "the kernels are right, or run on the simulator")]
fn load_options(checked: bool) -> LoadOptions<'static> {
    match checked {
        true => LoadOptions::default().checked(),
        // SAFETY: kernels that run on a GPU without checks stay inside their buffers.
        false => unsafe { LoadOptions::default().unchecked() },
    }
}

/// The fault that the simulator finds by its own checks.
fn on_simulator(fault: &str, target: Target) -> Fault {
    let (kernel, number) = faulty(fault, target);
    let device = Device::sim_with(Options::default().race(false));
    let mut x = device.zeros(LEN).unwrap();
    let result = device.load(&kernel).unwrap().launch(GRID, (&mut x, number));
    let Err(RuntimeError::Simulation(error)) = result else { panic!("{fault}: {result:?}") };
    error.fault().unwrap().clone()
}

/// The code with checks finds on the simulator what the simulator finds.
#[test]
fn checks_in_code_find_what_the_simulator_finds() {
    for fault in FAULTS {
        let (kernel, number) = faulty(fault, Target::SM_80);
        let checked = kernel.checked().unwrap();
        assert_eq!(checked.extents(), [0]);
        let (x, words) = (GlobalBuffer::zeros(4 * LEN), GlobalBuffer::zeros(8 * Record::WORDS));
        let args = [
            KernelArg::Buffer(&x),
            KernelArg::Scalar(number.to_const()),
            KernelArg::Scalar((4 * LEN as u64).to_const()),
            KernelArg::Buffer(&words),
        ];
        let error = sim::run(checked.kernel().ir(), GRID, &args, &Options::default());
        let trap = error.expect_err(fault);
        let expected = on_simulator(fault, Target::SM_80);
        let said = trap.fault().unwrap();
        assert_eq!((&said.cause, said.location), (&FaultCause::Trap, expected.location), "{fault}");
        let record = Record::read(&words.to_vec()).unwrap();
        assert_eq!(Fault::from_record(&checked, &record), Some(expected), "{fault}");
    }
}

/// A function that is loaded with checks returns the same fault on the simulator as one without.
#[test]
fn functions_with_checks_return_the_fault_of_the_simulator() {
    for fault in FAULTS {
        let (kernel, number) = faulty(fault, Target::SM_80);
        let device = Device::sim_with(Options::default().race(false));
        let mut x = device.zeros(LEN).unwrap();
        let function = device.load_with(LoadOptions::default().checked(), &kernel).unwrap();
        assert!(function.is_checked());
        let result = function.launch(GRID, (&mut x, number));
        let Err(RuntimeError::Simulation(error)) = result else { panic!("{fault}: {result:?}") };
        assert_eq!(error.fault(), Some(&on_simulator(fault, Target::SM_80)), "{fault}");
    }
}

/// A pointer may be out of bounds and misaligned as long as nothing is accessed through it: in
/// front of its buffer, behind it, or as the source of a `cp.async` of no bytes.
#[test]
fn unused_pointers_out_of_bounds_are_no_violation() {
    let kernel = Kernel::<Params>::build("offsets", Target::SM_80, |k, (x, n)| {
        let tile = k.shared_aligned::<i32>(64 * 4, 16);
        let t = k.thread_idx().x;
        let (before, behind) = (x.offset(n - 200), x.offset(n));
        before.store(200 - n + t, behind.load(t - n) + 1);
        // No bytes are read, so the source may be anywhere.
        let to = tile.offset(t * 4);
        let (from, none) = (x.offset(n * 3 + t), (n - LEN as i32).cvt::<u32>());
        k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, none);
        k.cp_async_commit_group();
        k.cp_async_wait_group(0);
        x.store(t, tile.load(t * 4));
    })
    .unwrap();
    let checked = kernel.checked().unwrap();
    assert!(checked.sites().iter().all(|site| site.op != "offset"));
    let device = Device::sim().unwrap();
    for checks in [false, true] {
        let mut x = device.upload(&[7; LEN]).unwrap();
        let function = device.load_with(load_options(checks), &kernel).unwrap();
        function.launch(GRID, (&mut x, LEN as i32)).unwrap();
        assert_eq!(x.to_vec().unwrap()[..65], [[0; 64].as_slice(), &[7]].concat());
    }
}

/// Checks take registers: blocks of any size fit where the kernel says nothing about them, and its
/// own bounds stay.
#[test]
fn blocks_of_any_size_have_registers() {
    let bounds = |options: KernelOptions| {
        let kernel =
            Kernel::<(GlobalMut<i32>,)>::build_with(options, "any", Target::SM_80, |_, (x,)| {
                x.store(0, 1);
            });
        let kernel = kernel.unwrap();
        kernel.checked().unwrap().kernel().ir().bounds
    };
    let none = KernelOptions::default();
    assert_eq!(bounds(none.clone()).max_threads, Some(1024));
    assert_eq!(bounds(none.clone().max_threads(256)).max_threads, Some(256));
    assert_eq!(bounds(none.clone().block([128, 1, 1])), none.block([128, 1, 1]).bounds);
}

/// A GPU returns the fault of the simulator, and is lost.
#[test]
fn gpu_faults_are_those_of_the_simulator() {
    if wanted_gpu().is_none() {
        return;
    }
    for fault in FAULTS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "gpu_child", "--nocapture"])
            .env(CHILD, fault)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("the child has run"), "{fault}: {text}");
        eprint!("{text}");
    }
}

/// One fault, when this is a child process.
#[test]
fn gpu_child() {
    let Ok(fault) = std::env::var(CHILD) else { return };
    let device = gpu().unwrap();
    let (kernel, number) = faulty(&fault, device.target());
    let mut x = device.zeros(LEN).unwrap();
    let function = device.load_with(LoadOptions::default().checked(), &kernel).unwrap();
    assert!(function.is_checked());
    function.launch(GRID, (&mut x, number)).unwrap();
    // The function is gone before its fault is asked for.
    drop(function);
    let Err(RuntimeError::Violation(found)) = device.synchronize() else { panic!("no fault") };
    eprintln!("{found}");
    let expected = on_simulator(&fault, device.target());
    // Any thread may come first.
    assert_eq!(
        (&found.op, found.location, &found.path),
        (&expected.op, expected.location, &expected.path)
    );
    assert_eq!(std::mem::discriminant(&found.cause), std::mem::discriminant(&expected.cause));
    if !matches!(fault.as_str(), "store" | "load before the start" | "shared" | "division") {
        assert_eq!(found.cause, expected.cause);
    }
    let lost = device.synchronize().unwrap_err();
    assert!(matches!(lost, RuntimeError::DeviceLost(_)), "{lost}");
    eprintln!("the child has run");
}

/// Correct kernels compute the same bits with checks and without, on the simulator and on a GPU:
/// ragged products whose pointers run past their buffers, by every way to load and store tiles.
#[test]
fn results_are_the_same_with_checks() {
    let sim = Device::sim_for(Target::SM_90A).unwrap();
    for (device, [m, n, k]) in [(Some(sim), [70, 72, 72]), (gpu(), [300, 264, 200])] {
        let Some(device) = device else { continue };
        let sizes = GemmProblem::new(m, n, k);
        let numbers = |len: u32| {
            let number = |i: u32| bf16::from_f32((i % 13) as f32 - 6.0);
            device.upload(&(0..len).map(number).collect::<Vec<_>>()).unwrap()
        };
        let (a, b) = (numbers(m * k), numbers(n * k));
        let target = device.target();
        let mut configs = vec![GemmConfig::sm80(target, Scalar::Bf16, [64, 64])];
        if target == Target::SM_90A {
            let sm90 = GemmConfig::sm90(Scalar::Bf16, [64, 64]);
            let direct = GemmConfig { store: StoreMethod::Direct, ..sm90 };
            configs.extend([sm90, direct, GemmConfig { load: LoadMethod::Threads, ..direct }]);
        }
        for config in configs {
            let gemm = Gemm::<bf16>::new(config).unwrap();
            let product = |checked| {
                let mut d = device.zeros::<bf16>((m * n) as usize).unwrap();
                let function = gemm.load_with(load_options(checked), &device).unwrap();
                function.launch(&sizes, GemmArgs::new(&a, &b, &mut d)).unwrap();
                d.to_vec().unwrap()
            };
            assert_eq!(product(true), product(false), "{config} on {device}");
        }
    }
}

/// A block of 64 threads. Each looks up an index in `at` and stores the element with this index.
type Lookup = (Global<i32>, Global<i32>, GlobalMut<i32>);

fn lookup(target: Target) -> Kernel<Lookup> {
    let options = KernelOptions::default().block([64, 1, 1]);
    let kernel = Kernel::<Lookup>::build_with(options, "lookup", target, |k, (at, x, y)| {
        let t = k.thread_idx().x;
        let tile = k.shared::<i32>(64);
        tile.store(t, t / 3); // proved for every launch
        k.barrier();
        let other = tile.load(63 - t); // proved
        let i = at.load(t); // if `at` has 64 elements
        let found = x.load(i); // depends on data
        y.store(t, found + other); // if `y` has 64 elements
    });
    kernel.unwrap()
}

/// A load with checks leaves out those of what is proved, for every launch or by a condition on the
/// launch, and no other.
#[test]
fn what_is_proved_is_not_checked() {
    let (kernel, device) = (lookup(Target::SM_80), Device::sim().unwrap());
    let function = device.load_with(LoadOptions::default().checked(), &kernel).unwrap();
    let lines: Vec<u32> = function.checks().iter().map(|check| check.location.line).collect();
    let all = kernel.checked().unwrap();
    assert_eq!(lines, [all.sites()[3].location.line]);
    let ops: Vec<&str> = all.sites().iter().map(|site| site.op).collect();
    assert_eq!(ops, ["st", "ld", "ld", "ld", "st"]);
    let conditions: Vec<String> = function.conditions().iter().map(ToString::to_string).collect();
    assert_eq!(conditions, ["len(p0) >= 64", "len(p2) >= 64"]);
    let plain = device.load_with(load_options(false), &kernel).unwrap();
    assert!(plain.checks().is_empty() && plain.conditions().is_empty() && !plain.is_checked());
}

/// Counts up to `n` of 64 threads.
fn upto(target: Target) -> Kernel<Params> {
    let options = KernelOptions::default().block([64, 1, 1]);
    let kernel = Kernel::<Params>::build_with(options, "upto", target, |k, (x, n)| {
        let t = k.thread_idx().x;
        k.if_(t.lt(n), |_| x.store(t, x.load(t) + 1));
    });
    kernel.unwrap()
}

/// A launch that fulfils the conditions runs the code of a load without checks. Another one runs
/// the code with all checks: if the launch is correct nevertheless, the results are the same, else
/// its fault is that of the simulator.
#[test]
fn launches_without_the_conditions_are_checked() {
    let (kernel, device) = (upto(Target::SM_80), Device::sim().unwrap());
    let [plain, checked] =
        [false, true].map(|checked| device.load_with(load_options(checked), &kernel).unwrap());
    assert_eq!((checked.checks().len(), checked.conditions().len()), (0, 1));
    let ops = |function: &Function<Params>, len: usize, n: i32| {
        let mut x = device.zeros::<i32>(len).unwrap();
        let timing = function.time(GRID, (&mut x, n)).unwrap();
        let ones = x.to_vec().unwrap().iter().filter(|x| **x == 1).count();
        (timing.thread_ops.unwrap(), ones)
    };
    // Each thread below `n` has an element.
    for (len, n) in [(64, 64), (40, 40), (41, 40), (0, 0), (5, -1)] {
        assert_eq!(ops(&checked, len, n), ops(&plain, len, n), "{len} {n}");
    }
    // The block has no thread beyond 63, so 64 elements suffice for any `n`. The prover may say so
    // or not; the launch works.
    assert_eq!(ops(&checked, 64, 1000).1, 64);
    let mut x = device.zeros::<i32>(39).unwrap();
    let [own, others] = [&checked, &plain].map(|function| {
        let result = function.launch(GRID, (&mut x, 40));
        let Err(RuntimeError::Simulation(error)) = result else { panic!("{result:?}") };
        error.fault().unwrap().clone()
    });
    assert_eq!(own, others);
}

/// The kernel with all checks is compiled when a launch needs it, also while a graph is recorded.
#[test]
fn graphs_record_launches_without_the_conditions() {
    for device in devices() {
        let kernel = Kernel::<(Global<i32>, GlobalMut<i32>, i32)>::build(
            "twice",
            device.target(),
            // Correct for every `n` whose product with 2 wraps to 0, which the prover cannot say.
            |k, (x, y, n)| {
                let i = k.thread_idx().x + n * 2;
                y.store(i, x.load(i) + 1);
            },
        );
        let kernel = kernel.unwrap();
        let function = device.load_with(LoadOptions::default().checked(), &kernel).unwrap();
        let x = device.upload(&[1; 32]).unwrap();
        let mut y = device.zeros::<i32>(32).unwrap();
        let mut graph = device.graph().unwrap();
        for n in [0, i32::MIN] {
            graph.launch(&function, Grid::cover(32, 32), (&x, &mut y, n)).unwrap();
        }
        let graph = graph.finish().unwrap();
        drop(function);
        graph.launch().unwrap();
        assert_eq!(y.to_vec().unwrap(), [2; 32], "{device}");
    }
}

/// A module's functions are checked like those of a load.
#[test]
fn modules_evaluate_conditions() {
    for device in devices() {
        let (one, two) = (upto(device.target()), lookup(device.target()));
        let mut module = Module::new(device.target());
        module.add(&one).unwrap();
        module.add(&two).unwrap();
        let options = LoadOptions::default().checked();
        let loaded = device.load_module_with(options, &module).unwrap();
        let (one, two) = (loaded.function(&one).unwrap(), loaded.function(&two).unwrap());
        assert_eq!((one.checks().len(), one.conditions().len()), (0, 1));
        assert_eq!((two.checks().len(), two.conditions().len()), (1, 2));
        drop(loaded);
        let (mut x, at) = (device.zeros(64).unwrap(), device.zeros(65).unwrap());
        for n in [64, 1000] {
            one.launch(GRID, (&mut x, n)).unwrap();
        }
        let mut y = device.zeros(64).unwrap();
        two.launch(GRID, (&at, &x, &mut y)).unwrap();
        let expected: Vec<i32> = (0..64).map(|t| 2 + (63 - t) / 3).collect();
        assert_eq!(y.to_vec().unwrap(), expected, "{device}");
    }
}

/// `deny_checks` refuses kernels that need checks, and launches that would.
#[test]
fn checks_can_be_denied() {
    for device in devices() {
        let options = LoadOptions::default().deny_checks();
        let line = line!();
        let error = device.load_with(options, &lookup(device.target())).unwrap_err();
        let RuntimeError::ChecksLeft(left) = &error else { panic!("{error}") };
        assert_eq!((left.count, left.op), (1, "ld"));
        assert!(left.location.line < line && left.missing.contains(">= 0"), "{error}");
        let function = device.load_with(options, &upto(device.target())).unwrap();
        assert!(function.is_checked() && function.checks().is_empty());
        let mut x = device.zeros(40).unwrap();
        function.launch(GRID, (&mut x, 40)).unwrap();
        let error = function.launch(GRID, (&mut x, 41)).unwrap_err();
        assert!(matches!(error, RuntimeError::ConditionBroken { .. }), "{error}");
        assert_eq!(x.to_vec().unwrap(), [1; 40]);
    }
}
