//! Tests the CUDA side of the runtime without a GPU, against a fake driver.
//!
//! The driver is missing, old or broken in every way, and calls and drops come in every order.
//!
//! The driver is `support/fake_cuda.rs`, which rustc compiles to a `libcuda.so`; each case runs in
//! a child process that finds it first.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]
#![cfg(target_os = "linux")]

#[path = "support/mod.rs"]
mod support;

use support::driver;
use support::kernels::axpy;

use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use driver::{CASE, check, check_refused, complete_driver, driver, run};
use tilewright::arch::{Fill, L2Promotion, PixelBox, SwizzleMode, TensorMapDesc, TensorMapError};
use tilewright::codegen::Module;
use tilewright::ir::op::InlinePtx;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, GlobalMut, Kernel, KernelOptions, Target, TensorMapMut, Untyped};
use tilewright::runtime::Buffer;
use tilewright::runtime::comm::{CommError, CommOptions, Communicator, ReduceOp};
use tilewright::runtime::{
    Arg, CacheStats, ClusterError, CompilerNoteKind, CudaVersion, Device, DriverStatus, FaultKind,
    Function, Grid, LaunchOptions, LoadOptions, ModuleCache, Occupancy, PtxRejection, Ptxas,
    PtxasError, RuntimeError, Stream,
};

#[test]
fn drivers_that_cannot_be_used_are_told_apart() {
    check_refused("old_driver", &[("VERSION", "11080")]);
    check_refused("no_device", &[("INIT", "100")]);
    check_refused("no_device", &[("DEVICES", "0")]);
    check_refused("stub", &[("INIT", "34")]);
    check_refused("init_fails", &[("INIT", "803")]);
    check_refused("init_fails_strangely", &[("INIT", "54321")]);
    check_refused("old_device", &[("CAPABILITY", "75")]);
}

#[test]
fn a_driver_without_a_function_is_named() {
    if let Some(folder) = driver("without_launch") {
        run(&folder, "missing_symbol", &[]);
    }
}

/// The calls that wait for a collective that hangs return why it failed, and the device works on.
#[test]
fn calls_that_wait_for_a_hung_collective_fail() {
    for case in ["hung_to_vec", "hung_stream", "hung_device"] {
        check(case, &[("EAGER", "1")]);
    }
}

/// The drop of a communicator waits until its threads have let go of the last streams: the process
/// may end right after it.
#[test]
fn slow_watchers_of_a_communicator_leave_no_stream() {
    check("hung_to_vec", &[("EAGER", "1"), ("WATCH_MS", "400")]);
}

/// If an abort does not end the collective, the waiting call fails all the same. What the
/// collective uses is not freed.
#[test]
fn a_collective_that_cannot_be_aborted_is_left_behind() {
    let Some(folder) = complete_driver() else { return };
    let text = run(folder, "hung_for_ever", &[("EAGER", "1"), ("ABORT_MS", "20000")]).stderr;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("left 1 0 0"), "{text}");
}

#[test]
fn a_device_is_described() {
    check("describe", &[("DEVICES", "2"), ("VERSION", "13000")]);
}

#[test]
fn buffers_keep_what_is_written() {
    check("buffers", &[]);
    check("buffers", &[("POOLS", "0")]);
}

#[test]
fn launches_compute_in_order() {
    check("launch", &[]);
    check("launch", &[("POOLS", "0")]);
}

#[test]
fn launches_say_what_the_kernel_and_the_options_ask_for() {
    check("launch_shape", &[]);
}

#[test]
fn tensor_maps_are_encoded_and_passed() {
    check("tensor_map", &[]);
}

#[test]
fn failed_assertions_are_returned_by_the_call_that_waits() {
    check("asserts", &[]);
    check("asserts", &[("POOLS", "0")]);
}

#[test]
fn failed_assertions_of_all_streams_are_found() {
    check("asserts_on_streams", &[]);
    check("asserts_on_streams", &[("POOLS", "0")]);
}

#[test]
fn streams_are_not_kept_by_what_they_used() {
    check("streams_come_and_go", &[("STREAMS", "300")]);
}

#[test]
fn drops_right_after_a_launch_are_safe() {
    check("drops", &[]);
    check("drops", &[("POOLS", "0")]);
}

#[test]
fn streams_are_ordered_by_the_buffers_that_they_share() {
    check("streams", &[]);
    check("streams", &[("POOLS", "0")]);
}

#[test]
fn streams_are_ordered_whoever_launches() {
    check("streams_of_threads", &[]);
    check("streams_of_threads", &[("POOLS", "0")]);
}

#[test]
fn buffers_live_as_long_as_work_on_any_stream() {
    check("stream_drops", &[]);
    check("stream_drops", &[("POOLS", "0")]);
}

#[test]
fn page_locked_memory_knows_its_copies() {
    check("pinned", &[]);
}

#[test]
fn what_is_leaked_stays() {
    let Some(folder) = complete_driver() else { return };
    let text = run(folder, "leaks", &[("STREAMS_LEFT", "1")]).stderr;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("left 2 0 0, after fault 0"), "{text}");
}

#[test]
fn graphs_run_what_was_recorded() {
    check("graphs", &[]);
    check("graphs", &[("POOLS", "0")]);
}

#[test]
fn recordings_end_beside_launches_of_other_threads() {
    check("graphs_of_threads", &[]);
}

/// Each case has a cache of its own, in a folder that goes away.
struct CacheFolder(PathBuf);

impl CacheFolder {
    fn new(name: &str) -> CacheFolder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        CacheFolder(folder)
    }

    /// Runs the case `cached` and says how often the driver compiled.
    fn run(&self, settings: &[(&str, &str)]) -> Option<u64> {
        let driver = complete_driver()?;
        let folder = self.0.to_string_lossy();
        let settings = [settings, &[("CACHE", &folder)]].concat();
        let output = run(driver, "cached", &settings);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let (_, count) = text.split_once("fake driver: compiled ").expect(&text);
        Some(count.lines().next().unwrap_or_default().parse().expect(&text))
    }

    fn entries(&self) -> Vec<PathBuf> {
        let listed = std::fs::read_dir(&self.0).expect("the folder is there");
        listed.map(|entry| entry.expect("it can be listed").path()).collect()
    }
}

impl Drop for CacheFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn compiled_modules_are_kept_for_the_next_process() {
    let folder = CacheFolder::new("kept");
    let Some(first) = folder.run(&[]) else { return };
    assert_eq!((first, folder.run(&[])), (1, Some(0)));
    // Another GPU or driver is another entry.
    assert_eq!(folder.run(&[("CAPABILITY", "86")]), Some(1));
    assert_eq!(folder.run(&[("VERSION", "12090")]), Some(1));
    assert_eq!((folder.run(&[]), folder.entries().len()), (Some(0), 3));
    // Without a linker the text is loaded, and nothing kept.
    assert_eq!(folder.run(&[("LINKER", "0"), ("VERSION", "13000")]), Some(0));
    assert_eq!(folder.entries().len(), 3);
}

#[test]
fn modules_of_several_kernels_are_kept() {
    check("cached_modules", &[]);
}

#[test]
fn an_assembler_compiles_where_it_is_asked_to() {
    let folder = CacheFolder::new("assembled");
    let path = folder.0.to_string_lossy();
    check("assembled", &[("CACHE", &path)]);
}

#[test]
fn damaged_modules_are_compiled_again() {
    let folder = CacheFolder::new("damaged");
    let Some(1) = folder.run(&[]) else { return };
    let path = folder.entries().remove(0);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[100] ^= 4;
    for damaged in [&whole[..whole.len() / 2], &flipped, &[]] {
        std::fs::write(&path, damaged).unwrap();
        assert_eq!((folder.run(&[]), folder.run(&[])), (Some(1), Some(0)));
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
    // Whole, but not what this driver takes: the text is loaded instead.
    assert_eq!(folder.run(&[("REFUSES_CODE", "1")]), Some(3));
}

#[test]
fn sixteen_processes_share_a_cache() {
    let folder = CacheFolder::new("shared");
    if complete_driver().is_none() {
        return;
    }
    let folder = &folder;
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..16).map(|_| scope.spawn(|| folder.run(&[]))).collect();
        assert!(runs.into_iter().all(|run| run.join().expect("it runs").is_some()));
    });
    assert_eq!((folder.run(&[]), folder.entries().len()), (Some(0), 1));
}

#[test]
fn memory_is_filled_and_kept() {
    check("fills", &[]);
}

#[test]
fn many_cycles_leak_nothing() {
    check("cycles", &[]);
    check("cycles_with_asserts", &[]);
    check("threads", &[]);
}

#[test]
fn wrong_launches_are_refused() {
    check("refusals", &[("FUNCTION_THREADS", "128"), ("CAPABILITY", "86")]);
}

#[test]
fn refused_ptx_comes_with_its_log() {
    check("bad_ptx", &[]);
}

/// With the linker and the cache, from the cache, and where the text itself is loaded.
#[test]
fn notes_of_the_compiler_are_typed() {
    check("notes", &[]);
    check("notes", &[("LINKER", "0")]);
}

#[test]
fn memory_that_is_full_can_be_used_again() {
    check("out_of_memory", &[("MEMORY", "4096")]);
    check("out_of_memory", &[("MEMORY", "4096"), ("POOLS", "0")]);
}

/// The device is lost: what was on it cannot be freed any more, but no call reaches the driver.
#[test]
fn a_fault_is_kept_with_its_first_cause() {
    let Some(folder) = complete_driver() else { return };
    for (code, kind) in FAULTS {
        let output = run(folder, "fault", &[("CODE", &code.to_string())]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("after fault 0"), "{kind:?}: {text}");
    }
}

/// A destructor that waits finds a fault first. The next call returns it.
#[test]
fn a_fault_that_a_destructor_finds_is_returned_by_the_next_call() {
    let Some(folder) = complete_driver() else { return };
    for case in ["fault_in_a_drop", "violation_in_a_drop"] {
        for pools in ["1", "0"] {
            let output = run(folder, case, &[("CODE", "716"), ("POOLS", pools)]);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("after fault 0"), "{case}: {text}");
        }
    }
}

const FAULTS: [(u32, FaultKind); 6] = [
    (700, FaultKind::IllegalAddress),
    (715, FaultKind::IllegalInstruction),
    (716, FaultKind::MisalignedAddress),
    (717, FaultKind::InvalidAddressSpace),
    (710, FaultKind::Assert),
    (702, FaultKind::LaunchTimeout),
];

/// The cases, when this is a child process.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    match case.as_str() {
        "old_driver" => {
            let (found, needed) = (CudaVersion::new(11, 8), CudaVersion::new(12, 0));
            check_no_gpu(RuntimeError::OldDriver { found, needed }, true);
        }
        "hung_to_vec" => hung(|_, _, x| x.to_vec().map(drop)),
        "hung_stream" => hung(|_, stream, _| stream.synchronize()),
        // Nothing but the work has its stream any more.
        "hung_device" => hung(|device, stream, x| {
            drop((stream, x));
            device.synchronize()
        }),
        "hung_for_ever" => hung_for_ever(),
        "no_device" => check_no_gpu(RuntimeError::NoDevice, true),
        "stub" => check_no_gpu(RuntimeError::StubDriver, true),
        "init_fails" => {
            let name = Some("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".to_owned());
            let status = DriverStatus { code: 803, name };
            check_no_gpu(RuntimeError::Driver { call: "cuInit", status }, false);
        }
        "init_fails_strangely" => {
            let status = DriverStatus { code: 54321, name: None };
            check_no_gpu(RuntimeError::Driver { call: "cuInit", status }, false);
        }
        "missing_symbol" => {
            let (symbol, driver) = ("cuLaunchKernelEx", CudaVersion::new(12, 8));
            check_no_gpu(RuntimeError::MissingSymbol { symbol, driver }, false);
        }
        "old_device" => {
            let (ordinal, name, capability) = (0, "Fake GPU".to_owned(), (7, 5));
            let error = RuntimeError::UnsupportedDevice { ordinal, name, capability };
            assert_eq!(Device::cuda(0), Err(error));
            assert_eq!(Device::default(), Device::sim());
        }
        "describe" => describe(),
        "buffers" => buffers(),
        "launch" => launch(),
        "launch_shape" => launch_shape(),
        "tensor_map" => tensor_map(),
        "drops" => drops(),
        "streams" => streams(),
        "stream_drops" => stream_drops(),
        "streams_of_threads" => streams_of_threads(),
        "pinned" => pinned(),
        "leaks" => leaks(),
        "graphs" => graphs(),
        "graphs_of_threads" => graphs_of_threads(),
        "fills" => fills(),
        "cached" => cached(),
        "assembled" => assembled(),
        "cached_modules" => cached_modules(),
        "cycles" => cycles(10_000),
        "cycles_with_asserts" => cycles_with_asserts(),
        "threads" => threads(),
        "refusals" => refusals(),
        "bad_ptx" => bad_ptx(),
        "notes" => notes(),
        "out_of_memory" => out_of_memory(),
        "fault" => fault(),
        "fault_in_a_drop" => fault_in_a_drop(),
        "violation_in_a_drop" => violation_in_a_drop(),
        "asserts" => asserts(),
        "asserts_on_streams" => asserts_on_streams(),
        "streams_come_and_go" => streams_come_and_go(),
        _ => panic!("no such case"),
    }
    eprintln!("case {case} ran");
}

/// Every way to ask for a GPU answers `error`; asking for any device gives the simulator, if
/// `falls_back`.
fn check_no_gpu(error: RuntimeError, falls_back: bool) {
    assert_eq!(Device::cuda(0), Err(error.clone()));
    assert_eq!(Device::cuda_count(), Err(error.clone()));
    assert_eq!(Device::open("cuda".parse().unwrap()), Err(error.clone()));
    let expected = if falls_back { Device::sim() } else { Err(error) };
    assert_eq!(Device::default(), expected);
}

fn gpu() -> Device {
    Device::default().expect("the driver has a GPU")
}

/// A kernel that the driver knows by its name.
fn named(name: &str) -> Kernel<()> {
    Kernel::<()>::build(name, Target::SM_80, |_, ()| ()).expect("the kernel is right")
}

fn describe() {
    let device = gpu();
    assert_eq!((device.name(), device.is_sim()), ("Fake GPU", false));
    assert_eq!(device.to_string(), "GPU 0 (Fake GPU)");
    assert_eq!(device.target(), Target::SM_90A);
    assert_eq!(device.memory(), Ok(Some((1 << 24, 1 << 24))));
    let properties = device.properties().unwrap();
    assert_eq!((properties.capability, properties.sm_count), ((9, 0), 3));
    assert_eq!((properties.threads_per_sm, properties.registers_per_sm), (2048, 65_536));
    assert_eq!((properties.shared_bytes_per_sm, properties.l2_bytes), (228 << 10, 1 << 20));
    assert_eq!(properties.memory_bus_bits, 512);
    assert_eq!((properties.clock_khz, properties.memory_clock_khz), (1_500_000, 2_000_000));
    let buffer = device.zeros::<u64>(10).unwrap();
    device.synchronize().unwrap();
    assert_eq!(device.memory(), Ok(Some(((1 << 24) - 80, 1 << 24))));
    drop(buffer);
    assert_eq!(device.cuda_version(), Some(CudaVersion::new(13, 0)));
    assert_eq!(Device::cuda_count(), Ok(2));
    assert_eq!(Device::cuda(0).as_ref(), Ok(&device));
    assert_ne!(Device::cuda(1).as_ref(), Ok(&device));
    assert_ne!(Device::sim().as_ref(), Ok(&device));
    let all = Device::all();
    assert_eq!(
        all,
        [0, 1].map(Device::cuda).into_iter().chain([Device::sim()]).flatten().collect::<Vec<_>>()
    );
    assert_eq!(all.len(), 3);
    assert_eq!(Device::cuda(2), Err(RuntimeError::NoSuchDevice { ordinal: 2, count: 2 }));
}

fn buffers() {
    let device = gpu();
    let data: Vec<i64> = (0..1000).map(|i| i * i - 7).collect();
    let mut buffer = device.upload(&data).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), data);
    buffer.write(&[3; 1000]).unwrap();
    let mut copy = [0; 1000];
    buffer.read_into(&mut copy).unwrap();
    assert_eq!(copy, [3; 1000]);
    assert_eq!(device.zeros::<f64>(33).unwrap().to_vec().unwrap(), [0.0; 33]);

    let mismatch = Err(RuntimeError::LengthMismatch { buffer: 1000, host: 3 });
    assert_eq!(buffer.write(&[1, 2, 3]), mismatch);
    assert_eq!(buffer.read_into(&mut [0; 3]), mismatch);

    let mut empty = device.upload::<f32>(&[]).unwrap();
    assert_eq!((empty.len(), empty.to_vec().unwrap()), (0, vec![]));
    empty.write(&[]).unwrap();
    empty.read_into(&mut []).unwrap();

    // Only 0 and 1 are a `bool`, whatever a kernel stores.
    let kernel =
        Kernel::<(GlobalMut<bool>,)>::build("odd_bools", Target::SM_80, |_, _| ()).unwrap();
    let mut bools = device.upload(&[true; 4]).unwrap();
    let function = device.load(&kernel).unwrap();
    function.launch(Grid::cover(4, 32), (&mut bools,)).unwrap();
    assert_eq!(bools.to_vec().unwrap(), [false, true, true, true]);
    let mut copy = [false; 4];
    bools.read_into(&mut copy).unwrap();
    assert_eq!(copy, [false, true, true, true]);
}

fn launch() {
    let device = gpu();
    let function = device.load(&axpy(device.target())).unwrap();
    let n = 1000;
    let xs: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let x = device.upload(&xs).unwrap();
    let mut y = device.zeros::<f32>(n).unwrap();
    for _ in 0..3 {
        function.launch(Grid::cover(n, 256), (2.0, &x, &mut y, n as i32)).unwrap();
    }
    device.synchronize().unwrap();
    let timing = function.time(Grid::cover(n, 256), (0.5, &x, &mut y, n as i32)).unwrap();
    assert_eq!((timing.elapsed, timing.thread_ops), (Duration::from_millis(2), None));
    let expected: Vec<f32> = xs.iter().map(|x| 6.5 * x).collect();
    assert_eq!(y.to_vec().unwrap(), expected);

    let untyped: Function<Untyped> =
        device.load(&Kernel::verify(axpy(Target::SM_80).ir().clone()).unwrap()).unwrap();
    let args = vec![1.0f32.into(), (&x).into(), (&mut y).into(), Arg::from(n as i32)];
    untyped.launch(Grid::cover(n, 256), args).unwrap();
    assert_eq!(y.to_vec().unwrap()[10], 75.0);
}

fn asserts() {
    let device = gpu();
    let kernel = Kernel::<()>::build("asserts", Target::SM_80, |k, ()| {
        let i = k.thread_idx().x;
        k.assert_with(i.lt(0), "thread {}", i);
    });
    let function = device.load(&kernel.unwrap()).unwrap();
    let failures = |result: Result<(), RuntimeError>| match result {
        Err(RuntimeError::AssertFailed(failures)) => *failures,
        other => panic!("{other:?}"),
    };
    function.launch(Grid::cover(3, 3), ()).unwrap();
    let found = failures(device.synchronize());
    let messages: Vec<String> = found.failures.iter().map(|f| f.message.clone()).collect();
    assert_eq!(
        (found.total, &messages[..]),
        (3, &["thread 0", "thread 1", "thread 2"].map(str::to_owned)[..])
    );
    assert_eq!((found.kernel.as_str(), found.device.as_str()), ("asserts", "GPU 0 (Fake GPU)"));
    assert_eq!(device.synchronize(), Ok(()));

    // Any call that waits returns them, and they outlive the function.
    let again = device.load(&named("empty")).unwrap();
    function.launch(Grid::cover(1000, 1000), ()).unwrap();
    function.launch(Grid::cover(1000, 1000), ()).unwrap();
    drop(function);
    again.launch(Grid::cover(1, 1), ()).unwrap();
    let found = failures(device.upload(&[1]).map(|_| ()));
    assert_eq!((found.total, found.failures.len()), (2000, 1024));
    assert!(found.failures.is_sorted_by_key(|f| f.thread));
    assert!(device.upload(&[1]).is_ok());
}

/// The memory of failed assertions is used by launches on all streams and by graphs: none is lost,
/// and it is freed after the last.
fn asserts_on_streams() {
    let device = gpu();
    let kernel = Kernel::<()>::build("asserts", Target::SM_80, |k, ()| {
        let i = k.thread_idx().x;
        k.assert_with(i.lt(0), "thread {}", i);
    });
    let kernel = kernel.unwrap();
    let total = |result: Result<(), RuntimeError>| match result {
        Err(RuntimeError::AssertFailed(failures)) => failures.total,
        other => panic!("{other:?}"),
    };
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let function = device.load(&kernel).unwrap();
    for (first, last) in [(&a, &b), (&b, &a)] {
        function.launch_with(on(first), Grid::cover(3, 3), ()).unwrap();
        function.launch_with(on(last), Grid::cover(4, 4), ()).unwrap();
        assert_eq!(total(last.synchronize()), 7);
        assert_eq!((first.synchronize(), device.synchronize()), (Ok(()), Ok(())));
    }
    let mut graph = device.graph().unwrap();
    graph.launch(&function, Grid::cover(5, 5), ()).unwrap();
    let graph = graph.finish().unwrap();
    graph.launch_on(&a).unwrap();
    function.launch_with(on(&b), Grid::cover(2, 2), ()).unwrap();
    assert_eq!(total(b.synchronize()), 7);
    drop(graph);

    // The function goes while work of a stream that nobody waited for still uses the memory.
    let mut module = Module::new(Target::SM_80);
    module.add(&kernel).unwrap();
    let module = device.load_module(&module).unwrap();
    let function = module.function(&kernel).unwrap();
    function.launch_with(on(&a), Grid::cover(1, 1), ()).unwrap();
    function.launch_with(on(&b), Grid::cover(1, 1), ()).unwrap();
    assert_eq!(total(b.synchronize()), 2);
    function.launch_with(on(&a), Grid::cover(1, 1), ()).unwrap();
    drop(function);
    assert_eq!(total(device.synchronize()), 1);
}

/// Code that many streams have used in turn does not keep them.
fn streams_come_and_go() {
    let device = gpu();
    let function = device.load(&named("empty")).unwrap();
    for i in 0..1000 {
        let stream = device.stream().unwrap();
        function.launch_with(on(&stream), Grid::cover(1, 1), ()).unwrap();
        if i % 10 != 0 {
            stream.synchronize().unwrap();
        }
    }
}

fn drops() {
    let device = gpu();
    let n = 64;
    let mut y = device.upload(&vec![1.0f32; n]).unwrap();
    for _ in 0..10 {
        let x = device.upload(&vec![1.0f32; n]).unwrap();
        let function = device.load(&axpy(Target::SM_80)).unwrap();
        function.launch(Grid::cover(n, 64), (1.0, &x, &mut y, n as i32)).unwrap();
        // The buffer, the function or both go while the launch waits in the queue.
        drop(x);
        drop(function);
    }
    let grown = device.upload(&vec![0.0f32; n]).unwrap();
    assert_eq!(y.to_vec().unwrap(), vec![11.0; n]);
    // What is written may never be read.
    device
        .load(&axpy(Target::SM_80))
        .unwrap()
        .launch(Grid::cover(n, 64), (1.0, &grown, &mut y, n as i32))
        .unwrap();
    drop(y);
    drop(grown);
}

fn cycles(count: usize) {
    let device = gpu();
    let kernel = axpy(device.target());
    for i in 0..count {
        let function = device.load(&kernel).unwrap();
        let x = device.upload(&[i as f32]).unwrap();
        let mut y = device.zeros(1).unwrap();
        function.launch(Grid::cover(1, 32), (1.0, &x, &mut y, 1)).unwrap();
        if i.is_multiple_of(100) {
            assert_eq!(y.to_vec().unwrap(), [i as f32]);
        }
    }
}

/// Kernels with assertions are loaded, launched and dropped, and nobody waits: their memory is
/// given back all the same, and no failure is lost.
fn cycles_with_asserts() {
    let device = gpu();
    let kernel = Kernel::<()>::build("asserts", Target::SM_80, |k, ()| {
        let i = k.thread_idx().x;
        k.assert_with(i.lt(0), "thread {}", i);
    });
    let kernel = kernel.unwrap();
    // There is room for the reports of 227 functions.
    for _ in 0..1000 {
        device.load(&kernel).unwrap().launch(Grid::cover(1, 1), ()).unwrap();
    }
    let mut failed = 0;
    while let Err(error) = device.synchronize() {
        let RuntimeError::AssertFailed(failures) = error else { panic!("{error}") };
        assert_eq!((failures.total, failures.failures.len()), (1, 1));
        failed += 1;
    }
    assert_eq!(failed, 1000);
}

fn threads() {
    let device = gpu();
    let function = device.load(&axpy(device.target())).unwrap();
    std::thread::scope(|scope| {
        for t in 0..8 {
            let (device, function) = (device.clone(), function.clone());
            scope.spawn(move || {
                let x = device.upload(&[t as f32; 100]).unwrap();
                let mut y = device.zeros(100).unwrap();
                for i in 0..50u32 {
                    let own = device.load(&named("empty")).unwrap();
                    own.launch(Grid::cover(1, 1), ()).unwrap();
                    function.launch(Grid::cover(100, 32), (1.0, &x, &mut y, 100)).unwrap();
                    if i.is_multiple_of(10) {
                        device.synchronize().unwrap();
                    }
                }
                assert_eq!(y.to_vec().unwrap(), [50.0 * t as f32; 100]);
            });
        }
    });
}

/// Threads come and go, each on both streams, which belong to one of them or, in the next round, to
/// another: all read the same memory, which is written on either stream before and behind them, and
/// dropped under the last launches.
fn streams_of_threads() {
    let device = gpu();
    let f = device.load(&axpy(device.target())).unwrap();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let grid = Grid::cover(100, 32);
    for round in 0..20 {
        let one = device.upload(&[1.0f32; 100]).unwrap();
        let mut x = device.zeros::<f32>(100).unwrap();
        let (first, second) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        f.launch_with(on(first), grid, (2.0, &one, &mut x, 100)).unwrap();
        std::thread::scope(|scope| {
            for t in 0..4 {
                let (f, x, device) = (&f, &x, &device);
                scope.spawn(move || {
                    let mut y = device.zeros::<f32>(100).unwrap();
                    for _ in 0..10 {
                        f.launch_with(on(second), grid, (1.0, x, &mut y, 100)).unwrap();
                        f.launch_with(on(first), grid, (t as f32, x, &mut y, 100)).unwrap();
                    }
                    if t > 0 {
                        assert_eq!(y.to_vec().unwrap(), [20.0 * (1 + t) as f32; 100]);
                    }
                });
            }
        });
        // Behind all reads, also those of threads that are gone.
        f.launch_with(on(second), grid, (5.0, &one, &mut x, 100)).unwrap();
        f.launch_with(on(first), grid, (10.0, &one, &mut x, 100)).unwrap();
        if round % 3 > 0 {
            assert_eq!(x.to_vec().unwrap(), [17.0; 100], "round {round}");
        }
    }
}

/// The driver writes what it was asked for: cluster, programmatic, cooperative, shared memory, and
/// what was allowed of the function before: shared memory, large clusters.
fn launch_shape() {
    let device = gpu();
    let mut shape = device.zeros::<u32>(8).unwrap();
    let options = KernelOptions::default;
    let mut ask = |options: KernelOptions, bytes, grid: Grid, launch: LaunchOptions<'_>| {
        let kernel = Kernel::<(GlobalMut<u32>,)>::build_with(
            options,
            "launch_shape",
            Target::SM_90A,
            |k, _| {
                k.griddepcontrol_wait();
                if bytes > 0 {
                    k.shared::<u8>(bytes);
                }
            },
        );
        let function = device.load(&kernel.unwrap()).unwrap();
        function.launch_with(launch, grid, (&mut shape,)).unwrap();
        let shape = shape.to_vec().unwrap();
        (shape[..3].to_vec(), shape[3..5].to_vec(), shape[5..].to_vec())
    };
    let (grid, plain) = (Grid::new([16, 2, 1], [32, 1, 1]), LaunchOptions::default());
    let no = vec![0, 0, 0];
    assert_eq!(ask(options(), 49_152, grid, plain), (no.clone(), vec![0, 0], no.clone()));
    let large = vec![100_000, 100_000, 0];
    let both = plain.programmatic(true).cooperative(true);
    assert_eq!(ask(options(), 100_000, grid, both), (no.clone(), vec![1, 1], large));
    let pairs = grid.cluster([2, 1, 1]);
    assert_eq!(ask(options(), 0, pairs, plain), (vec![2, 1, 1], vec![0, 0], no.clone()));
    let built = options().cluster([4, 2, 1]);
    assert_eq!(ask(built, 0, grid, plain), (vec![4, 2, 1], vec![0, 0], no.clone()));
    let sixteen = options().cluster([16, 1, 1]);
    assert_eq!(ask(sixteen, 0, grid, plain), (vec![16, 1, 1], vec![0, 0], vec![0, 0, 1]));
    let at_launch = options().cluster_at_launch();
    assert_eq!(ask(at_launch, 0, pairs, plain), (vec![2, 1, 1], vec![0, 0], vec![0, 0, 1]));

    // Three SMs have room for 2048 threads each.
    let function = device.load(&named("empty")).unwrap();
    let cooperative = plain.cooperative(true);
    let blocks = |n| Grid::new([n, 1, 1], [512, 1, 1]);
    function.launch_with(cooperative, blocks(12), ()).unwrap();
    let (kernel, blocks) = ("empty".to_owned(), blocks(13));
    assert_eq!(
        function.launch_with(cooperative, blocks, ()),
        Err(RuntimeError::TooManyBlocksAtOnce { kernel, blocks: 13, limit: 12 })
    );
    let kernel = "empty".to_owned();
    assert_eq!(
        function.time_with(plain.programmatic(true), Grid::cover(1, 32), ()).map(|_| ()),
        Err(RuntimeError::ProgrammaticWithoutWait { kernel })
    );
}

/// The driver writes what it was told of the tensor, the kernel what it was passed.
fn tensor_map() {
    let device = gpu();
    type Params = (TensorMapMut<f32, 2>, GlobalMut<u64>);
    let kernel = Kernel::<Params>::build("tensor_map", Target::SM_90A, |_, _| ()).unwrap();
    let function = device.load(&kernel).unwrap();
    let mut x = device.zeros::<f32>(64 * 100).unwrap();
    let mut out = device.zeros::<u64>(16).unwrap();
    let map = TensorMapDesc::new(Scalar::F32, &[64, 100], &[256], &[32, 8]).unwrap();
    let map = map.with_swizzle(SwizzleMode::B128).unwrap().with_l2_promotion(L2Promotion::B256);
    let mut arg = x.tensor_map_mut(&map).unwrap();
    // The map can be passed as often as one likes.
    for _ in 0..2 {
        function.launch(Grid::cover(1, 32), (&mut arg, &mut out)).unwrap();
    }
    let (numbers, address) = (out.to_vec().unwrap(), out.to_vec().unwrap()[0]);
    assert_eq!(numbers, [address, 7, 2, 0, 3, 3, 0, 64, 100, 256, 32, 8, 1, 1, 0, 0]);
    assert_ne!(address, 0);
    let nan = map.with_fill(Fill::Nan).unwrap().with_element_strides(&[1, 2]).unwrap();
    function.launch(Grid::cover(1, 32), (&mut x.tensor_map_mut(&nan).unwrap(), &mut out)).unwrap();
    assert_eq!(out.to_vec().unwrap()[6..], [1, 64, 100, 256, 32, 8, 1, 2, 0, 0]);

    let large = TensorMapDesc::new(Scalar::F32, &[64, 101], &[256], &[32, 8]).unwrap();
    let (tensor_bytes, buffer_bytes) = (101 * 256, 100 * 256);
    let error = TensorMapError::BufferTooSmall { tensor_bytes, buffer_bytes };
    assert_eq!(x.tensor_map(&large).map(|_| ()), Err(error.into()));
    let ints = TensorMapDesc::new(Scalar::I32, &[64], &[], &[32]).unwrap();
    let error = TensorMapError::Element { map: Scalar::I32, buffer: Scalar::F32 };
    assert_eq!(x.tensor_map(&ints).map(|_| ()), Err(error.into()));
    // A map of im2col mode: two images of 50 pixels with 64 channels.
    type Pixels = (TensorMapMut<f32, 3>, GlobalMut<u64>);
    let kernel = Kernel::<Pixels>::build("tensor_map", Target::SM_90A, |_, _| ()).unwrap();
    let pixels = PixelBox { lower: vec![-1], upper: vec![-2], channels: 32, pixels: 16 };
    let map = TensorMapDesc::im2col(Scalar::F32, &[64, 50, 2], &[256, 12800], pixels).unwrap();
    let map = map.with_element_strides(&[1, 3, 1]).unwrap();
    let mut arg = x.tensor_map_mut(&map).unwrap();
    device.load(&kernel).unwrap().launch(Grid::cover(1, 32), (&mut arg, &mut out)).unwrap();
    let [lower, upper] = [-1i64, -2].map(i64::cast_unsigned);
    let expected = [address, 7, 3, 0, 0, 0, 0, 32, 16, 2, 12800, 3, lower, upper, 0, 0];
    assert_eq!(out.to_vec().unwrap(), expected);
    // A map of another rank than the parameter.
    let line = TensorMapDesc::new(Scalar::F32, &[64], &[], &[32]).unwrap();
    let error =
        function.launch(Grid::cover(1, 32), (&mut x.tensor_map_mut(&line).unwrap(), &mut out));
    assert!(matches!(error, Err(RuntimeError::ArgumentType { index: 0, .. })), "{error:?}");
}

fn on(stream: &Stream) -> LaunchOptions<'_> {
    LaunchOptions::default().stream(stream)
}

/// The driver runs nothing before somebody waits, and then one stream only, so what is not ordered
/// is seen.
fn streams() {
    let device = gpu();
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let grid = Grid::cover(8, 8);
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    for round in 0..3 {
        let x = device.upload(&[1.0f32; 8]).unwrap();
        let mut y = device.zeros::<f32>(8).unwrap();
        let mut z = device.zeros::<f32>(8).unwrap();
        // Written on one, read and written on the other, in a chain.
        f.launch_with(on(&a), grid, (1.0, &x, &mut y, 8)).unwrap();
        f.launch_with(on(&b), grid, (2.0, &y, &mut z, 8)).unwrap();
        f.launch_with(on(&a), grid, (10.0, &z, &mut y, 8)).unwrap();
        f.launch(grid, (1.0, &y, &mut z, 8)).unwrap();
        assert_eq!(z.to_vec().unwrap(), [23.0; 8], "round {round}");
        assert_eq!(y.to_vec().unwrap(), [21.0; 8]);
        // Read on both, then written by the host.
        let mut u = device.zeros::<f32>(8).unwrap();
        f.launch_with(on(&a), grid, (1.0, &y, &mut z, 8)).unwrap();
        f.launch_with(on(&b), grid, (1.0, &y, &mut u, 8)).unwrap();
        y.write(&[0.0; 8]).unwrap();
        assert_eq!((u.to_vec().unwrap(), z.to_vec().unwrap()), (vec![21.0; 8], vec![44.0; 8]));
    }

    // Written where it was written before, after a read elsewhere that has not run yet.
    let x = device.upload(&[1.0f32; 8]).unwrap();
    let (mut y, mut z) = (device.zeros::<f32>(8).unwrap(), device.zeros::<f32>(8).unwrap());
    f.launch_with(on(&a), grid, (1.0, &x, &mut y, 8)).unwrap();
    f.launch_with(on(&b), grid, (1.0, &y, &mut z, 8)).unwrap();
    f.launch_with(on(&a), grid, (1.0, &x, &mut y, 8)).unwrap();
    a.synchronize().unwrap();
    assert_eq!((y.to_vec().unwrap(), z.to_vec().unwrap()), (vec![2.0; 8], vec![1.0; 8]));

    // An event orders what shares nothing, and has a time.
    let start = a.record().unwrap();
    let (x, mut y) = (device.upload(&[1.0f32; 8]).unwrap(), device.zeros::<f32>(8).unwrap());
    f.launch_with(on(&a), grid, (1.0, &x, &mut y, 8)).unwrap();
    let end = a.record().unwrap();
    assert!(!end.is_passed().unwrap());
    b.wait_for(&end).unwrap();
    b.synchronize().unwrap();
    assert!(end.is_passed().unwrap());
    assert_eq!(start.elapsed_until(&end), Ok(Duration::from_millis(2)));
    a.synchronize().unwrap();
    device.synchronize().unwrap();

    let sim = Device::sim().unwrap().stream().unwrap();
    let error = f.launch_with(on(&sim), grid, (1.0, &x, &mut y, 8));
    assert!(matches!(error, Err(RuntimeError::OtherDeviceStream { .. })), "{error:?}");
    assert_eq!(sim.wait_for(&end), Err(RuntimeError::OtherDeviceEvent));
    assert!(y.fill(1.0, &sim).is_err());
    assert_eq!(f.occupancy(512).unwrap().map(Occupancy::blocks), Some(12));
    assert_eq!(f.clusters_at_once(Grid::new([2, 1, 1], [256, 1, 1])), Ok(Some(12)));
    let time = f.time_with(on(&b), grid, (1.0, &x, &mut y, 8)).unwrap();
    assert_eq!(time.elapsed, Duration::from_millis(2));
}

/// Drops buffers, functions and streams right after a launch on a stream other than the freeing
/// stream.
fn stream_drops() {
    let device = gpu();
    let grid = Grid::cover(8, 8);
    let mut y = device.zeros::<f32>(8).unwrap();
    for _ in 0..10 {
        let f = device.load(&axpy(Target::SM_80)).unwrap();
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let x = device.upload(&[1.0f32; 8]).unwrap();
        let mut unread = device.zeros::<f32>(8).unwrap();
        f.launch_with(on(&a), grid, (1.0, &x, &mut y, 8)).unwrap();
        f.launch_with(on(&b), grid, (1.0, &x, &mut unread, 8)).unwrap();
        drop((x, unread));
        drop(f);
        drop((a, b));
    }
    assert_eq!(y.to_vec().unwrap(), [10.0; 8]);
}

fn pinned() {
    let device = gpu();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let grid = Grid::cover(8, 8);
    let (mut from, mut to) = (device.pinned::<f32>(8).unwrap(), device.pinned::<f32>(8).unwrap());
    assert_eq!(from.as_slice().unwrap(), [0.0; 8]);
    let (mut x, mut y) = (device.zeros::<f32>(8).unwrap(), device.zeros::<f32>(8).unwrap());
    for i in 1..=3 {
        // The host changes the memory only after the copy of the round before.
        from.as_mut_slice().unwrap().fill(i as f32);
        x.write_from(&from, &a).unwrap();
        f.launch_with(on(&b), grid, (1.0, &x, &mut y, 8)).unwrap();
        y.read_to(&mut to, &a).unwrap();
    }
    assert_eq!(to.as_slice().unwrap(), [6.0; 8]);
    // Dropped while copies are in flight, buffers and host memory alike.
    x.write_from(&from, &a).unwrap();
    x.read_to(&mut to, &b).unwrap();
    drop((from, x, to));
    let (mut small, big) = (device.pinned::<f32>(3).unwrap(), device.zeros::<f32>(8).unwrap());
    let error = RuntimeError::LengthMismatch { buffer: 8, host: 3 };
    assert_eq!(big.read_to(&mut small, &a), Err(error));
    assert_eq!(device.pinned::<bool>(1).map(|_| ()), Err(RuntimeError::PinnedBool));
    assert!(matches!(device.pinned::<u8>(1 << 25), Err(RuntimeError::OutOfMemory { .. })));
    assert!(device.pinned::<f64>(0).unwrap().as_mut_slice().unwrap().is_empty());
    y.copy_from(&big, &b).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0; 8]);
}

/// Memory that is forgotten with copies in flight is never freed, so they do no harm.
fn leaks() {
    let device = gpu();
    let stream = device.stream().unwrap();
    let mut from = device.pinned::<f32>(8).unwrap();
    from.as_mut_slice().unwrap().fill(2.0);
    let mut x = device.zeros::<f32>(8).unwrap();
    x.write_from(&from, &stream).unwrap();
    std::mem::forget(from);
    assert_eq!(x.to_vec().unwrap(), [2.0; 8]);
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let mut y = device.zeros::<f32>(8).unwrap();
    f.launch_with(on(&stream), Grid::cover(8, 8), (1.0, &x, &mut y, 8)).unwrap();
    std::mem::forget(x);
    assert_eq!(y.to_vec().unwrap(), [2.0; 8]);
}

fn graphs() {
    let device = gpu();
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let grid = Grid::cover(8, 8);
    let x = device.upload(&[1.0f32; 8]).unwrap();
    let mut y = device.zeros::<f32>(8).unwrap();
    let mut builder = device.graph().unwrap();
    builder.launch(&f, grid, (1.0, &x, &mut y, 8)).unwrap();
    f.launch_with(on(builder.stream()), grid, (2.0, &x, &mut y, 8)).unwrap();
    // What no graph has is refused, and all else goes on while one is recorded.
    let refused = |call| Err(RuntimeError::NotInGraph { call });
    assert_eq!(builder.stream().synchronize(), refused("Stream::synchronize"));
    assert_eq!(
        builder.stream().record().map(|_| ()),
        Err(RuntimeError::NotInGraph { call: "Stream::record" })
    );
    let time = f.time_with(on(builder.stream()), grid, (2.0, &x, &mut y, 8));
    assert_eq!(time.map(|_| ()), refused("Function::time"));
    device.synchronize().unwrap();
    let stream = builder.stream().clone();
    let graph = builder.finish().unwrap();
    assert_eq!((graph.len(), y.to_vec().unwrap()), (2, vec![0.0; 8]));
    graph.launch().unwrap();
    graph.launch_on(&device.stream().unwrap()).unwrap();
    f.launch(grid, (1.0, &x, &mut y, 8)).unwrap();
    assert_eq!(y.to_vec().unwrap(), [7.0; 8]);
    // The stream that recorded is one like others now.
    f.launch_with(on(&stream), grid, (1.0, &x, &mut y, 8)).unwrap();
    assert_eq!(y.to_vec().unwrap(), [8.0; 8]);
    // Each of its launches takes 2 ms; what it waits for on another stream is not part of it.
    let other = device.stream().unwrap();
    f.launch_with(on(&other), grid, (1.0, &x, &mut y, 8)).unwrap();
    assert_eq!(graph.time().unwrap().elapsed, Duration::from_millis(4));
    assert_eq!(graph.time_on(&other).unwrap().elapsed, Duration::from_millis(4));
    assert_eq!(y.to_vec().unwrap(), [15.0; 8]);
    // The graph keeps what it needs.
    drop((f, x, y));
    graph.launch().unwrap();
    graph.launch_on(&stream).unwrap();
    drop(graph);
    // A recording that is given up.
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let x = device.upload(&[1.0f32; 8]).unwrap();
    let mut y = device.zeros::<f32>(8).unwrap();
    let mut builder = device.graph().unwrap();
    builder.launch(&f, grid, (1.0, &x, &mut y, 8)).unwrap();
    drop(builder);
    assert_eq!(y.to_vec().unwrap(), [0.0; 8]);
    // Copies and fills keep what they use, too.
    let mut z = device.zeros::<f64>(3).unwrap();
    let builder = device.graph().unwrap();
    let w = device.upload(&[0.5f64; 3]).unwrap();
    z.copy_from(&w, builder.stream()).unwrap();
    let copies = builder.finish().unwrap();
    drop(w);
    copies.launch().unwrap();
    assert_eq!(z.to_vec().unwrap(), [0.5; 3]);
    let builder = device.graph().unwrap();
    z.fill(-2.0, builder.stream()).unwrap();
    let fills = builder.finish().unwrap();
    drop(copies);
    fills.launch_on(&device.stream().unwrap()).unwrap();
    assert_eq!((fills.len(), z.to_vec().unwrap()), (1, vec![-2.0; 3]));
    let empty = device.graph().unwrap().finish().unwrap();
    assert!(empty.is_empty() && empty.launch().is_ok());
}

fn cached() {
    let folder = std::env::var("FAKE_CUDA_CACHE").unwrap();
    let (device, cache) = (gpu(), ModuleCache::in_folder(folder));
    let options = LoadOptions::default().cache(Some(&cache));
    let mut y = device.zeros::<f32>(8).unwrap();
    for _ in 0..3 {
        let used =
            |stats: CacheStats| (stats.memory_hits + stats.disk_hits) as i64 - stats.corrupt as i64;
        let before = used(cache.stats());
        let f = device.load_with(options, &axpy(Target::SM_80)).unwrap();
        // What was found was not compiled.
        let is_found = used(cache.stats()) > before;
        let times = f.load_times();
        assert_eq!(times.compile.is_zero(), is_found, "{times:?}");
        let x = device.upload(&[1.0f32; 8]).unwrap();
        f.launch(Grid::cover(8, 8), (1.0, &x, &mut y, 8)).unwrap();
    }
    assert_eq!(y.to_vec().unwrap(), [3.0; 8]);
    let stats = cache.stats();
    assert!(stats.memory_hits >= 2 || stats.misses == 0 || stats.corrupt > 0, "{stats:?}");
    // What is wrong is said as without a cache, and nothing of it kept.
    let wrong = named("nonsense");
    let error = device.load_with(options, &wrong).map(|_| ());
    assert!(matches!(error, Err(RuntimeError::PtxRejected(_))), "{error:?}");
    assert_eq!(cache.stats().misses, stats.misses);
    // As often as one likes without it.
    device.load_with(options.cache(None), &axpy(Target::SM_80)).unwrap();
}

/// Code of an assembler: it is what runs, it is kept by the version of that, and what it refuses is
/// said. The assembler is a script that makes code as the driver of these tests has it.
fn assembled() {
    use std::os::unix::fs::PermissionsExt;
    let folder = PathBuf::from(std::env::var("FAKE_CUDA_CACHE").unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("ptxas");
    let script = "#!/usr/bin/env python3\n\
        import struct, sys\n\
        if '--version' in sys.argv:\n    sys.exit(print('release 1.2, V1.2.3'))\n\
        text = open(sys.argv[-1], 'rb').read()\n\
        if b'nonsense' in text:\n    sys.exit('Not an opcode')\n\
        out = open(sys.argv[sys.argv.index('--output-file') + 1], 'wb')\n\
        out.write(b'\\x7fELF' + struct.pack('<Q', len(text) + 1) + text + b'\\0')\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ptxas = Ptxas::at(&path).unwrap();
    assert_eq!(ptxas.version(), "1.2.3");
    let (device, cache) = (gpu(), ModuleCache::in_folder(folder.join("modules")));
    let options = LoadOptions::default().cache(Some(&cache)).ptxas(Some(&ptxas));
    let mut y = device.zeros::<f32>(8).unwrap();
    let x = device.upload(&[1.0f32; 8]).unwrap();
    for _ in 0..2 {
        let f = device.load_with(options, &axpy(Target::SM_80)).unwrap();
        f.launch(Grid::cover(8, 8), (1.0, &x, &mut y, 8)).unwrap();
    }
    // The driver's code is another entry.
    device.load_with(options.ptxas(None), &axpy(Target::SM_80)).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 8]);
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.memory_hits, cache.size().0), (2, 1, 2));
    let error = device.load_with(options, &named("nonsense")).map(|_| ()).unwrap_err();
    let refused = PtxasError::Refused { log: "Not an opcode".to_owned() };
    assert_eq!(error, RuntimeError::Ptxas { kernel: "nonsense".to_owned(), error: refused });
}

/// A thread launches on the stream of a recording while another one ends it: each launch is in the
/// graph, which keeps what it uses, or runs on the stream.
fn graphs_of_threads() {
    let device = gpu();
    let x = device.upload(&[1.0f32; 8]).unwrap();
    for round in 0..100 {
        let mut y = device.zeros::<f32>(8).unwrap();
        let builder = device.graph().unwrap();
        let stream = builder.stream().clone();
        let launches = 1 + round % 20;
        let graph = std::thread::scope(|scope| {
            let (y, x, device) = (&mut y, &x, &device);
            let launcher = scope.spawn(move || {
                for _ in 0..launches {
                    let f = device.load(&axpy(Target::SM_80)).unwrap();
                    f.launch_with(on(&stream), Grid::cover(8, 8), (1.0, x, y, 8)).unwrap();
                }
            });
            while !launcher.is_finished() && round % 3 == 0 {
                std::thread::yield_now();
            }
            let graph = builder.finish().unwrap();
            launcher.join().unwrap();
            graph
        });
        // The functions are gone; what was recorded runs once more than what was not.
        graph.launch().unwrap();
        graph.launch().unwrap();
        let expected = (launches + graph.len()) as f32;
        assert_eq!(y.to_vec().unwrap(), [expected; 8], "round {round}, {} recorded", graph.len());
    }
    // A graph and launches of the same buffer, from two threads.
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let mut y = device.zeros::<f32>(8).unwrap();
    let mut builder = device.graph().unwrap();
    builder.launch(&f, Grid::cover(8, 8), (1.0, &x, &mut y, 8)).unwrap();
    let graph = builder.finish().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = device.stream().unwrap();
            (0..200).for_each(|_| graph.launch_on(&stream).unwrap());
        });
        scope.spawn(|| {
            for i in 0..200 {
                f.launch(Grid::cover(8, 8), (1.0, &x, &mut y, 8)).unwrap();
                if i % 10 == 0 {
                    y.to_vec().unwrap();
                }
            }
        });
    });
    device.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [400.0; 8]);
}

/// A module of several kernels is kept like one kernel.
fn cached_modules() {
    let (device, cache) = (gpu(), ModuleCache::in_memory());
    let options = LoadOptions::default().cache(Some(&cache));
    let (one, two) = (axpy(Target::SM_80), named("empty"));
    let mut module = Module::new(Target::SM_80);
    module.add(&one).unwrap();
    module.add(&two).unwrap();
    for _ in 0..2 {
        let loaded = device.load_module_with(options, &module).unwrap();
        loaded.function(&two).unwrap().launch(Grid::cover(1, 1), ()).unwrap();
        let missing = loaded.function(&named("other")).map(|_| ());
        assert!(matches!(missing, Err(RuntimeError::NotInModule { .. })), "{missing:?}");
    }
    assert_eq!((cache.stats().misses, cache.stats().memory_hits), (1, 1));
}

fn fills() {
    fn check<T: Element>(device: &Device, value: T) {
        let stream = device.stream().unwrap();
        let mut x = device.zeros::<T>(5).unwrap();
        x.fill(value, &stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), [value; 5]);
    }
    let device = gpu();
    check(&device, true);
    check(&device, -3i8);
    check(&device, 0x1234u16);
    check(&device, -1.5f32);
    check(&device, 0x1234_5678_9abc_def0u64);
    check(&device, -0.1f64);
    device.zeros::<f32>(0).unwrap().fill(1.0, &device.stream().unwrap()).unwrap();
    device.keep_memory(1 << 20).unwrap();
    device.trim_memory().unwrap();
}

fn refusals() {
    let device = gpu();
    let target = Target::SM_90A;
    let wrong_target = device.load(&axpy(target)).map(|_| ());
    let (kernel, device_target) =
        ("axpy".to_owned(), Target::for_compute_capability(8, 6).unwrap());
    let device_name = "GPU 0 (Fake GPU)".to_owned();
    assert_eq!(
        wrong_target,
        Err(RuntimeError::WrongTarget {
            kernel,
            target,
            device: device_name.clone(),
            device_target
        })
    );

    let function = device.load(&named("empty")).unwrap();
    let kernel = || "empty".to_owned();
    let (threads, limit, registers) = (256, 128, 40);
    assert_eq!(
        function.launch(Grid::cover(1, 256), ()),
        Err(RuntimeError::TooManyRegisters { kernel: kernel(), threads, limit, registers })
    );
    assert!(matches!(
        function.launch(Grid::cover(1, 2048), ()),
        Err(RuntimeError::BlockTooLarge { limit_in_all: 1024, .. })
    ));
    assert!(matches!(
        function.launch(Grid::new([1, 65_536, 1], [1, 1, 1]), ()),
        Err(RuntimeError::GridTooLarge { .. })
    ));
    let options = KernelOptions::default().block([64, 1, 1]);
    let fixed = Kernel::<()>::build_with(options, "empty", Target::SM_80, |_, ()| ()).unwrap();
    let (built, given) = ([64, 1, 1], [32, 1, 1]);
    assert_eq!(
        device.load(&fixed).unwrap().launch(Grid::cover(1, 32), ()),
        Err(RuntimeError::BlockNotAsBuilt { kernel: kernel(), built, given })
    );

    let missing = device.load(&named("missing")).map(|_| ());
    assert_eq!(missing, Err(RuntimeError::MissingEntry { entry: "missing".to_owned() }));

    let pairs = Grid::new([2, 1, 1], [32, 1, 1]).cluster([2, 1, 1]);
    let error = ClusterError::TooLarge { cluster: [2, 1, 1], limit: 1 };
    assert_eq!(
        function.launch(pairs, ()),
        Err(RuntimeError::Cluster { kernel: "empty".to_owned(), error })
    );

    let function = device.load(&axpy(Target::SM_80)).unwrap();
    let sim = Device::sim().unwrap();
    let (here, mut there) = (device.upload(&[1.0f32]).unwrap(), sim.upload(&[1.0f32]).unwrap());
    let buffer = "the simulator".to_owned();
    let kernel = "axpy".to_owned();
    assert_eq!(
        function.launch(Grid::cover(1, 1), (1.0, &here, &mut there, 1)),
        Err(RuntimeError::OtherDevice { kernel, index: 2, buffer, device: device_name })
    );
    // After all these refusals it runs.
    let mut y = device.upload(&[1.0f32]).unwrap();
    function.launch(Grid::cover(1, 1), (1.0, &here, &mut y, 1)).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0]);
}

fn bad_ptx() {
    let device = gpu();
    let ptx = ".version 8.0\n  // text.rs:7\n  nonsense.f32 %f1;\n";
    let name = Some("CUDA_ERROR_INVALID_PTX".to_owned());
    let status = DriverStatus { code: 218, name };
    assert_eq!(
        device.check_ptx("text", ptx),
        Err(RuntimeError::PtxRejected(Box::new(PtxRejection {
            kernel: "text".to_owned(),
            status: status.clone(),
            line: Some((3, "  nonsense.f32 %f1;".to_owned())),
            location: Some("text.rs:7".to_owned()),
            log: "ptxas application ptx input, line 3; error   : Not an opcode".to_owned(),
        })))
    );
    let Err(RuntimeError::PtxRejected(rejection)) = device.check_ptx("zero", "a\nb\0c") else {
        panic!("a text with a zero is taken");
    };
    assert_eq!((rejection.line, rejection.status), (Some((2, "b\0c".to_owned())), status));
    assert_eq!(
        device.check_ptx("good", ".version 8.0"),
        Ok("ptxas info    : Used 8 registers".into())
    );
}

fn notes() {
    let device = gpu();
    let cache = ModuleCache::in_memory();
    let load_with = |options: KernelOptions, name: &str, text: &str| {
        let text = text.to_owned();
        let kernel = Kernel::<()>::build_with(options, name, Target::SM_90A, move |k, ()| {
            k.ptx::<(), _>(InlinePtx::new(text.as_str()), ());
        });
        device.load_with(LoadOptions::default().cache(Some(&cache)), &kernel.unwrap())
    };
    let load = |name: &str, text: &str| load_with(KernelOptions::default(), name, text);
    let slow = "wgmma.fence.sync.aligned;";
    for _ in 0..2 {
        let function = load("empty", slow).unwrap();
        let notes = function.compiler_notes();
        let found: Vec<_> = notes.iter().map(|note| (note.kind, note.code)).collect();
        assert_eq!(found, [(CompilerNoteKind::WgmmaSerialized, 7510)]);
        assert_eq!(notes[0].function.as_deref(), Some("empty"));
        function.launch(Grid::cover(1, 32), ()).unwrap();
    }
    assert!(load("empty", "").unwrap().compiler_notes().is_empty());
    for _ in 0..2 {
        let refused = load("empty", "setmaxnreg.inc.sync.aligned.u32 40;").map(|_| ());
        let Err(RuntimeError::SetMaxNRegIgnored { kernel, note }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((kernel.as_str(), note.code), ("empty", 7508));
    }
    // The linker would ignore it, too; so the text is loaded as a whole, and the cache has nothing
    // of it.
    let compiled = cache.stats().misses;
    let known = KernelOptions::default().block([128, 1, 1]).max_registers(32);
    let function = load_with(known, "empty", "setmaxnreg.dec.sync.aligned.u32 24;").unwrap();
    assert!(function.compiler_notes().is_empty(), "{:?}", function.compiler_notes());
    assert_eq!(cache.stats().misses, compiled);
    let refused = device.check_ptx("text", "// setmaxnreg");
    assert!(matches!(refused, Err(RuntimeError::SetMaxNRegIgnored { .. })), "{refused:?}");
}

fn out_of_memory() {
    let device = gpu();
    let too_much = || device.zeros::<u8>(5000).map(|_| ());
    let bytes = 5000;
    let error = RuntimeError::OutOfMemory { device: device.to_string(), bytes };
    assert_eq!(too_much(), Err(error.clone()));
    let half = device.zeros::<u8>(3000).unwrap();
    assert!(device.zeros::<u8>(3000).is_err());
    drop(half);
    // The memory of the dropped buffer is there at once, although its free waits in the queue.
    let mut whole = device.zeros::<u8>(4096).unwrap();
    whole.write(&[7; 4096]).unwrap();
    assert_eq!(whole.to_vec().unwrap(), [7; 4096]);
    assert_eq!(too_much(), Err(error));
    let absurd = device.zeros::<u64>(usize::MAX / 4).map(|_| ());
    assert!(matches!(absurd, Err(RuntimeError::OutOfMemory { .. })), "{absurd:?}");
}

fn fault_in_a_drop() {
    let device = gpu();
    let bad = device.load(&named("fault_716")).unwrap();
    bad.launch(Grid::cover(1, 1), ()).unwrap();
    drop(bad);
    let Err(RuntimeError::Fault(fault)) = device.zeros::<i32>(1).map(|_| ()) else {
        panic!("the fault is not seen");
    };
    assert_eq!((fault.kind, fault.launches), (FaultKind::MisalignedAddress, 1));
    assert_eq!(device.synchronize(), Err(RuntimeError::DeviceLost(fault)));
}

fn violation_in_a_drop() {
    let device = gpu();
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("violates", Target::SM_80, |k, (x,)| {
        x.store(k.thread_idx().x, 7)
    });
    let options = LoadOptions::default().checked();
    let function = device.load_with(options, &kernel.unwrap()).unwrap();
    assert!(function.is_checked());
    let mut x = device.zeros(16).unwrap();
    function.launch(Grid::cover(17, 17), (&mut x,)).unwrap();
    drop(function);
    let Err(RuntimeError::Violation(found)) = device.synchronize() else {
        panic!("the violation is not seen");
    };
    let expected =
        "writes i32 element 16 (bytes 64 to 68) of parameter `p0`, which has 16 elements";
    assert!(found.to_string().contains(expected), "{found}");
    let Err(RuntimeError::DeviceLost(fault)) = device.synchronize() else {
        panic!("the device is used again");
    };
    assert_eq!(fault.kind, FaultKind::Violation);
}

fn fault() {
    let code: u32 = std::env::var("FAKE_CUDA_CODE").unwrap().parse().unwrap();
    let kind = FAULTS.iter().find(|(c, _)| *c == code).unwrap().1;
    let device = gpu();
    let name = format!("fault_{code}");
    let good = device.load(&named("empty")).unwrap();
    let bad = device.load(&named(&name)).unwrap();
    let mut buffer = device.upload(&[1, 2, 3]).unwrap();
    good.launch(Grid::cover(1, 1), ()).unwrap();
    device.synchronize().unwrap();
    good.launch(Grid::cover(1, 1), ()).unwrap();
    bad.launch(Grid::cover(1, 1), ()).unwrap();

    let Err(RuntimeError::Fault(fault)) = device.synchronize() else {
        panic!("the fault is not seen");
    };
    assert_eq!((fault.kind, fault.launches, fault.kernel.clone()), (kind, 2, Some(name)));
    let lost = RuntimeError::DeviceLost(fault);
    for _ in 0..2 {
        assert_eq!(device.synchronize(), Err(lost.clone()));
        assert_eq!(good.launch(Grid::cover(1, 1), ()), Err(lost.clone()));
        assert_eq!(good.time(Grid::cover(1, 1), ()).map(|_| ()), Err(lost.clone()));
        assert_eq!(buffer.to_vec(), Err(lost.clone()));
        assert_eq!(buffer.write(&[4, 5, 6]), Err(lost.clone()));
        assert_eq!(device.zeros::<f32>(0).map(|_| ()), Err(lost.clone()));
        assert_eq!(device.upload(&[1.0f32]).map(|_| ()), Err(lost.clone()));
        assert_eq!(device.load(&named("empty")).map(|_| ()), Err(lost.clone()));
        assert_eq!(device.check_ptx("text", ""), Err(lost.clone()));
        assert_eq!(Device::cuda(0), Err(lost.clone()));
        assert_eq!(Device::default(), Err(lost.clone()));
    }
}

/// A collective that hangs, with the timeout of its communicator.
fn hung_collective() -> (Device, Communicator, Stream, Buffer<f32>) {
    // A test that hangs says so.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("the collective hangs for ever");
        std::process::abort()
    });
    let device = Device::cuda(0).unwrap();
    let options = CommOptions::default().timeout(Duration::from_millis(500));
    let comm = Communicator::all_with(options, std::slice::from_ref(&device)).unwrap().remove(0);
    let (mut x, stream) = (device.upload(&[1.0; 8]).unwrap(), device.stream().unwrap());
    comm.all_reduce_in_place(&stream, ReduceOp::Sum, &mut x).unwrap();
    (device, comm, stream, x)
}

fn check_timeout(result: Result<(), RuntimeError>) {
    match result {
        Err(RuntimeError::Comm(error)) if matches!(*error, CommError::TimedOut { .. }) => {}
        other => panic!("{other:?} is no timeout"),
    }
}

/// `wait` waits for a collective that hangs.
fn hung(wait: impl Fn(&Device, Stream, Buffer<f32>) -> Result<(), RuntimeError>) {
    let (device, comm, stream, x) = hung_collective();
    let start = Instant::now();
    check_timeout(wait(&device, stream, x));
    // Half a second, and what a busy machine adds.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    check_timeout(comm.check());
    drop(comm);
    assert_eq!(device.upload(&[3]).unwrap().to_vec(), Ok(vec![3]));
    device.synchronize().unwrap();
}

fn hung_for_ever() {
    let (device, comm, stream, x) = hung_collective();
    let start = Instant::now();
    check_timeout(x.to_vec().map(drop));
    check_timeout(stream.synchronize());
    // The default stream does not wait for the collective, and neither does a drop.
    drop((x, comm));
    assert_eq!(device.upload(&[3]).unwrap().to_vec(), Ok(vec![3]));
    assert!(start.elapsed() < Duration::from_secs(18), "{:?}", start.elapsed());
    // The collective ends late. Then the stream can be waited for again.
    while let Err(error) = stream.synchronize() {
        check_timeout(Err(error));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(start.elapsed() > Duration::from_secs(18), "{:?}", start.elapsed());
    // The threads of the communicator let go of the stream, on a busy machine too.
    std::thread::sleep(Duration::from_secs(3));
}
