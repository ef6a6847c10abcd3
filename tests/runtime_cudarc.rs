//! Streams and memory of a program that uses `cudarc`: captures of its streams beside launches, and
//! slices that it lends. With the driver of `support/fake_cuda.rs`, and where the environment has
//! `TILEWRIGHT_GPU=1` on a GPU.
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

use support::kernels::{Axpy, axpy};
use support::{device, driver};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode as Mode};
use cudarc::driver::{CudaContext, CudaGraph, CudaSlice, CudaStream};
use driver::{CASE, check, complete_driver, run};
use tilewright::runtime::{
    Buffer, Device, Function, Grid, LaunchOptions, Pinned, RuntimeError, Stream,
};

/// Of a capture that other code begins between the check before work and the work: the driver of
/// these tests begins it right before the next work of the stream.
const BEFORE_NEXT_WORK: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
/// The same, and it ends right behind that work.
const AROUND_NEXT_WORK: Mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

/// A capture that begins during a call can be launched after all that the call used is dropped.
#[test]
fn captures_that_begin_during_a_call_keep_what_they_recorded() {
    for (case, left) in [
        ("captured_first_launch", "left 2 1 0"),
        ("captured_fast_launch", "left 2 1 0"),
        ("captured_later_launch", "left 2 1 0"),
        ("captured_copies", "left 3 0 0"),
        ("captured_graph", "left 2 1 1"),
    ] {
        let Some(folder) = complete_driver() else { return };
        let text = run(folder, case, &[]).stderr;
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(left), "{case}: {text}");
    }
}

/// Launches during a capture are part of the graph, which is as lasting as the process.
#[test]
fn captures_have_launches() {
    let settings = [("STRICT_CAPTURES", "1")];
    for (case, left) in [
        ("captures_of_slices", "left 0 1 0"),
        ("captures_of_buffers", "left 2 1 0"),
        ("captures_unprepared", "left 2 1 0"),
    ] {
        let Some(folder) = complete_driver() else { return };
        let text = run(folder, case, &settings).stderr;
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(left), "{case}: {text}");
    }
}

/// No capture of other code has a copy of host memory, or draws another stream in.
#[test]
fn captures_never_have_copies_of_host_memory() {
    check("host_copies", &[]);
    check("host_copies", &[("POOLS", "0")]);
}

#[test]
fn slices_are_borrowed_without_a_wait() {
    check("borrow", &[]);
    check("borrow", &[("POOLS", "0")]);
}

#[test]
fn views_are_borrowed() {
    check("borrow_views", &[]);
}

#[test]
fn the_default_stream_of_a_thread_is_its_own() {
    check("per_thread", &[]);
    check("per_thread", &[("POOLS", "0")]);
}

#[test]
fn borrowed_slices_do_not_outlive_the_borrow() {
    check("borrow_ends", &[]);
}

/// The cases, when this is a child process.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    match case.as_str() {
        "captures_of_slices" => captures_of_slices(&Program::new()),
        "captures_of_buffers" => captures_of_buffers(Program::new(), true),
        "captures_unprepared" => captures_unprepared(&Program::new()),
        "captured_first_launch" => captured_launch(Before::Nothing),
        "captured_fast_launch" => captured_launch(Before::Launch),
        "captured_later_launch" => captured_launch(Before::Capture),
        "captured_copies" => captured_copies(),
        "captured_graph" => captured_graph(),
        "host_copies" => host_copies(),
        "borrow" => borrow(&Program::new()),
        "borrow_views" => borrow_views(&Program::new()),
        "borrow_ends" => borrow_ends(),
        "per_thread" => per_thread(&Program::new()),
        _ => panic!("no such case"),
    }
    eprintln!("case {case} ran");
}

/// A program with a stream of `cudarc` that launches a function of this crate.
struct Program {
    device: Device,
    stream: Arc<CudaStream>,
    ours: Stream,
    axpy: Function<Axpy>,
}

const N: usize = 64;
const GRID: Grid = Grid::new([1, 1, 1], [N as u32, 1, 1]);

impl Program {
    fn new() -> Program {
        let device = Device::cuda(0).unwrap();
        let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
        let ours = Stream::from_cudarc(&stream).unwrap();
        let axpy = device.load(&axpy(device.target())).unwrap();
        Program { device, stream, ours, axpy }
    }

    fn buffers(&self) -> (Buffer<f32>, Buffer<f32>) {
        let buffers = (self.device.upload(&[1.0; N]).unwrap(), self.device.zeros(N).unwrap());
        self.device.synchronize().unwrap();
        buffers
    }

    /// `y += 2 * x`, on the stream of the program.
    fn launch(&self, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result<(), RuntimeError> {
        let options = LaunchOptions::default().stream(&self.ours);
        self.axpy.launch_with(options, GRID, (2.0, x, y, N as i32))
    }

    fn begin_capture(&self) {
        self.stream.begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    }

    fn end_capture(&self) -> CudaGraph {
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        self.stream.end_capture(flags).unwrap().unwrap()
    }

    /// A slice on the device; the copy has ended.
    fn slice(&self, data: &[f32]) -> CudaSlice<f32> {
        let slice = self.stream.clone_htod(data).unwrap();
        self.stream.synchronize().unwrap();
        slice
    }

    fn read(&self, slice: &CudaSlice<f32>) -> Vec<f32> {
        let data = self.stream.clone_dtoh(slice).unwrap();
        self.stream.synchronize().unwrap();
        data
    }
}

/// Bytes that are allocated.
fn used(device: &Device) -> u64 {
    device.synchronize().unwrap();
    let (free, all) = device.memory().unwrap().unwrap();
    all - free
}

/// Launches on slices that the program lends are recorded, and nothing of them is waited for.
#[expect(unsafe_code, reason = "the events of `cudarc` would be waited for in the capture")]
fn captures_of_slices(program: &Program) {
    let Program { device, stream, ours, axpy } = program;
    // SAFETY: one stream has all work on the slices.
    unsafe { stream.context().disable_event_tracking() };
    let (x, mut y) = (program.slice(&[1.0; N]), program.slice(&[10.0; N]));
    assert_eq!(ours.is_captured(), Ok(false));
    program.begin_capture();
    assert_eq!(ours.is_captured(), Ok(true));
    device
        .borrow_cudarc((&x, &mut y), |(x, y)| {
            program.launch(x, y)?;
            program.launch(x, y)?;
            // The graph has not written them yet.
            let beside = axpy.launch(GRID, (2.0, x, y, N as i32));
            assert_eq!(beside, Err(RuntimeError::StreamCaptures));
            assert_eq!(y.to_vec(), Err(RuntimeError::StreamCaptures));
            Ok::<(), RuntimeError>(())
        })
        .unwrap();
    // No work is in flight.
    device.synchronize().unwrap();
    let graph = program.end_capture();
    assert_eq!(program.read(&y), [10.0; N]);
    for sum in [14.0, 18.0] {
        graph.launch().unwrap();
        assert_eq!(program.read(&y), [sum; N]);
    }
    // Work outside of the capture goes on as before.
    device.borrow_cudarc((&x, &mut y), |(x, y)| program.launch(x, y)).unwrap();
    assert_eq!(program.read(&y), [20.0; N]);
}

/// The buffers and the function of a launch outlive all that has them. `is_counted`: the driver's
/// memory is that of the test.
fn captures_of_buffers(program: Program, is_counted: bool) {
    let (x, mut y) = program.buffers();
    program.begin_capture();
    program.launch(&x, &mut y).unwrap();
    let graph = program.end_capture();
    assert_eq!(y.to_vec().unwrap(), [0.0; N]);
    graph.launch().unwrap();
    program.stream.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; N]);
    // Nobody can be given memory that the graph writes.
    let refused = y.into_cudarc(&program.stream).unwrap_err();
    assert_eq!(refused.error, RuntimeError::BufferShared);
    let Program { device, stream, ours, axpy } = program;
    drop((x, refused, axpy, ours));
    if is_counted {
        assert_eq!(used(&device), 2 * 4 * N as u64);
    }
    graph.launch().unwrap();
    stream.synchronize().unwrap();
}

/// Calls that cannot be part of a capture say what to do before it, and leave the capture as it is.
fn captures_unprepared(program: &Program) {
    let Program { device, ours, .. } = program;
    let recorded = device.graph().unwrap().finish().unwrap();
    let (x, mut y) = (device.upload(&[1.0; N]).unwrap(), device.zeros(N).unwrap());
    program.begin_capture();
    // The zeros are not written yet.
    let waits = RuntimeError::CaptureWaits { kernel: "axpy".to_owned() };
    let loads = RuntimeError::CaptureForbids { call: "cuModuleLoadDataEx" };
    let allocates = RuntimeError::CaptureForbids { call: "cuMemAllocAsync" };
    let errors = [
        (program.launch(&x, &mut y), waits),
        (device.load(&axpy(device.target())).map(|_| ()), loads),
        (device.zeros::<f32>(N).map(|_| ()), allocates),
        (y.fill(1.0, ours), RuntimeError::StreamCaptures),
        (y.copy_from(&x, ours), RuntimeError::StreamCaptures),
        (recorded.launch_on(ours), RuntimeError::StreamCaptures),
        (ours.synchronize(), RuntimeError::StreamCaptures),
        (ours.record().map(|_| ()), RuntimeError::StreamCaptures),
    ];
    for (result, expected) in errors {
        assert!(expected.to_string().contains("before the capture"), "{expected}");
        assert_eq!(result, Err(expected));
    }
    device.synchronize().unwrap();
    program.launch(&x, &mut y).unwrap();
    let graph = program.end_capture();
    graph.launch().unwrap();
    program.stream.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; N]);
}

/// What the program has done before the launch that another thread captures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The launch notes its work behind locks.
    Nothing,
    /// The launch takes the fast path, and the capture is the first one of the process.
    Launch,
    /// The launch takes the fast path, and a capture was found before.
    Capture,
}

/// A launch that another thread captures.
fn captured_launch(before: Before) {
    let program = Program::new();
    let (mut x, mut y) = program.buffers();
    if before != Before::Nothing {
        program.launch(&x, &mut y).unwrap();
        program.ours.synchronize().unwrap();
        if before == Before::Capture {
            program.begin_capture();
            assert_eq!(y.fill(0.0, &program.ours), Err(RuntimeError::StreamCaptures));
            drop(program.end_capture());
        }
        // Only the thread of the test uses the buffers, and only on the stream.
        x.fill(1.0, &program.ours).unwrap();
        y.fill(0.0, &program.ours).unwrap();
    }
    program.device.synchronize().unwrap();
    program.stream.begin_capture(BEFORE_NEXT_WORK).unwrap();
    assert_eq!(program.launch(&x, &mut y), Err(RuntimeError::StreamCaptures));
    let graph = program.end_capture();
    let Program { device, stream, ours, axpy } = program;
    drop((x, y, axpy, ours));
    assert_eq!(used(&device), 2 * 4 * N as u64);
    graph.launch().unwrap();
    stream.synchronize().unwrap();
}

/// Copies between buffers and fills.
fn captured_copies() {
    let program = Program::new();
    let ((x, mut y), (mut z, w)) = (program.buffers(), program.buffers());
    drop(w);
    program.device.synchronize().unwrap();
    let mut graphs = Vec::new();
    program.stream.begin_capture(BEFORE_NEXT_WORK).unwrap();
    assert_eq!(y.copy_from(&x, &program.ours), Err(RuntimeError::StreamCaptures));
    graphs.push(program.end_capture());
    program.device.synchronize().unwrap();
    program.stream.begin_capture(BEFORE_NEXT_WORK).unwrap();
    assert_eq!(z.fill(3.0, &program.ours), Err(RuntimeError::StreamCaptures));
    graphs.push(program.end_capture());
    drop((x, y, z));
    assert_eq!(used(&program.device), 3 * 4 * N as u64);
    graphs.iter().for_each(|graph| graph.launch().unwrap());
    program.stream.synchronize().unwrap();
}

/// The launch of a graph of this crate.
fn captured_graph() {
    let program = Program::new();
    let (x, mut y) = program.buffers();
    let recording = program.device.graph().unwrap();
    let options = LaunchOptions::default().stream(recording.stream());
    program.axpy.launch_with(options, GRID, (2.0, &x, &mut y, N as i32)).unwrap();
    let ours = recording.finish().unwrap();
    program.stream.begin_capture(BEFORE_NEXT_WORK).unwrap();
    assert_eq!(ours.launch_on(&program.ours), Err(RuntimeError::StreamCaptures));
    let graph = program.end_capture();
    let Program { device, stream, ours: our_stream, axpy } = program;
    std::mem::forget(ours);
    drop((x, y, axpy, our_stream));
    graph.launch().unwrap();
    stream.synchronize().unwrap();
    assert_eq!(used(&device), 2 * 4 * N as u64);
}

fn host_copies() {
    /// A call that copies host memory, or records an event.
    type Call<'c> = dyn Fn(&mut Buffer<f32>, &mut Pinned<f32>) -> Result<(), RuntimeError> + 'c;

    let program = Program::new();
    let (x, mut y) = program.buffers();
    let mut pinned = program.device.pinned::<f32>(N).unwrap();
    let mut expected = 0.0;
    for mode in [BEFORE_NEXT_WORK, AROUND_NEXT_WORK, Mode::CU_STREAM_CAPTURE_MODE_RELAXED] {
        let calls: [&Call<'_>; 4] = [
            &|y, _| y.to_vec().map(|_| ()),
            &|y, pinned| y.read_to(pinned, &program.ours),
            &|y, pinned| y.write_from(pinned, &program.ours),
            &|_, _| program.ours.record().map(|_| ()),
        ];
        for call in calls {
            // The buffer was written on the stream last, and the write has not ended.
            y.fill(0.0, &program.ours).unwrap();
            program.launch(&x, &mut y).unwrap();
            program.stream.begin_capture(mode).unwrap();
            let result = call(&mut y, &mut pinned);
            drop(program.end_capture());
            // An event alone may be part of a capture that has ended: who waits for it is refused.
            if mode != AROUND_NEXT_WORK || result.is_err() {
                assert_eq!(result, Err(RuntimeError::StreamCaptures), "{mode:?}");
            }
            expected = 2.0;
            assert_eq!(y.to_vec().unwrap(), [expected; N]);
        }
    }
    // Without a capture the copies are in the order of the stream.
    y.read_to(&mut pinned, &program.ours).unwrap();
    y.fill(5.0, &program.ours).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [expected; N]);
    pinned.as_mut_slice().unwrap().fill(7.0);
    y.write_from(&pinned, &program.ours).unwrap();
    program.launch(&x, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [9.0; N]);
}

/// Work on borrowed slices comes after what `cudarc` queued before and before what it queues later,
/// on any streams.
fn borrow(program: &Program) {
    let Program { device, stream, axpy, .. } = program;
    let (x, mut y) = (program.slice(&[1.0; N]), program.slice(&[10.0; N]));
    let other = stream.context().new_stream().unwrap();
    let options = [
        LaunchOptions::default(),
        LaunchOptions::default().stream(&program.ours),
        LaunchOptions::default().cooperative(true),
    ];
    for options in options {
        // Not waited for: what is queued before on one stream of `cudarc`, and later on another.
        stream.memset_zeros(&mut y).unwrap();
        let sum: Result<f32, RuntimeError> = device.borrow_cudarc((&x, &mut y), |(x, y)| {
            assert_eq!((x.len(), y.len()), (N, N));
            axpy.launch_with(options, GRID, (2.0, x, y, N as i32))?;
            axpy.launch_with(options, GRID, (3.0, x, y, N as i32))?;
            Ok(5.0)
        });
        let mut copy = other.alloc_zeros::<f32>(N).unwrap();
        other.memcpy_dtod(&y, &mut copy).unwrap();
        stream.memset_zeros(&mut y).unwrap();
        assert_eq!(program.read(&copy), [sum.unwrap(); N]);
        assert_eq!(program.read(&y), [0.0; N]);
    }
    // Freed right behind the borrow.
    device.borrow_cudarc((&x, &mut y), |(x, y)| axpy.launch(GRID, (2.0, x, y, N as i32))).unwrap();
    drop((x, y));
    device.synchronize().unwrap();
}

fn borrow_views(program: &Program) {
    let Program { device, axpy, .. } = program;
    let x = program.slice(&[1.0; 2 * N]);
    let mut y = program.slice(&[10.0; 2 * N]);
    {
        let (x, mut y) = (x.slice(N..), y.slice_mut(..N));
        let add = |x: &Buffer<f32>, y: &mut Buffer<f32>| axpy.launch(GRID, (2.0, x, y, N as i32));
        device.borrow_cudarc((&x, &mut y), |(x, y)| add(x, y)).unwrap();
        // A view that can be written can be read, too, and a slice may be borrowed twice to be
        // read.
        let values = device.borrow_cudarc((&y, &y), |(y, again)| {
            assert_eq!(y.to_vec()?, again.to_vec()?);
            y.to_vec()
        });
        assert_eq!(values.unwrap(), [12.0; N]);
        // Some slices in a vector, in a tuple with another one.
        let lens = device.borrow_cudarc((vec![&x, &x], &mut y), |(xs, y)| {
            add(xs[0], y)?;
            add(xs[1], y)?;
            Ok::<_, RuntimeError>((xs.len(), y.len()))
        });
        assert_eq!(lens, Ok((2, N)));
    }
    assert_eq!(program.read(&y), [[16.0; N], [10.0; N]].concat());
    // An error of the closure is that of the call, and the slices go back all the same.
    let failed: Result<(), Box<dyn std::error::Error>> =
        device.borrow_cudarc((&mut y,), |_| Err("no".into()));
    assert_eq!(failed.unwrap_err().to_string(), "no");
}

fn borrow_ends() {
    let program = Program::new();
    let Program { device, stream, axpy, .. } = &program;
    let mut x = program.slice(&[1.0; N]);
    let mut kept = device.upload(&[4.0; N]).unwrap();
    let mut y = device.zeros::<f32>(N).unwrap();
    device
        .borrow_cudarc(&mut x, |x| {
            std::mem::swap(x, &mut kept);
            axpy.launch(GRID, (2.0, &kept, &mut y, N as i32))
        })
        .unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; N]);
    drop(x);
    // The memory is gone; every use of the buffer says so.
    let ended = Err(RuntimeError::BorrowEnded);
    assert_eq!(axpy.launch(GRID, (2.0, &kept, &mut y, N as i32)), ended);
    assert_eq!(program.launch(&kept, &mut y), ended);
    assert_eq!(kept.to_vec(), Err(RuntimeError::BorrowEnded));
    assert_eq!(kept.write(&[0.0; N]), ended);
    assert_eq!(kept.fill(0.0, &program.ours), ended);
    assert_eq!(y.copy_from(&kept, &program.ours), ended);
    let refused = kept.into_cudarc(stream).unwrap_err();
    assert_eq!(refused.error, RuntimeError::BufferShared);

    // No graph has lent memory.
    let x = program.slice(&[1.0; N]);
    let recording = device.graph().unwrap();
    let recorded = device.borrow_cudarc(&x, |x| {
        let options = LaunchOptions::default().stream(recording.stream());
        axpy.launch_with(options, GRID, (2.0, x, &mut y, N as i32))
    });
    assert_eq!(recorded, Err(RuntimeError::NotInGraph { call: "Device::borrow_cudarc" }));
    drop(recording);

    // Memory that nobody could launch on.
    let sim = Device::sim().unwrap();
    let on_sim = sim.borrow_cudarc(&x, |_| Ok::<(), RuntimeError>(()));
    assert_eq!(on_sim, Err(RuntimeError::AddressOnSimulator));
    let mut flags = stream.alloc_zeros::<bool>(4).unwrap();
    let written = device.borrow_cudarc(&mut flags, |_| Ok::<(), RuntimeError>(()));
    assert_eq!(written, Err(RuntimeError::BorrowedBool));
    assert_eq!(device.borrow_cudarc(&flags, |flags| flags.to_vec()), Ok(vec![false; 4]));
}

/// Two threads launch on the default stream of each, and both launches write one buffer.
fn per_thread(program: &Program) {
    let Program { device, stream, axpy, .. } = program;
    let theirs = stream.context().per_thread_stream();
    let launch = |ours: &Stream, x: &Buffer<f32>, y: &mut Buffer<f32>| {
        let options = LaunchOptions::default().stream(ours);
        axpy.launch_with(options, GRID, (2.0, x, y, N as i32))
    };
    let ours = Stream::from_cudarc(&theirs).unwrap();
    let (x, mut y) = program.buffers();
    launch(&ours, &x, &mut y).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The handle means another stream here.
            let refused = Err(RuntimeError::OtherThreadStream);
            assert_eq!(launch(&ours, &x, &mut y), refused);
            let its = Stream::from_cudarc(&theirs).unwrap();
            launch(&its, &x, &mut y).unwrap();
            // Waits for the other thread's work, too.
            ours.synchronize().unwrap();
        });
    });
    launch(&ours, &x, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [6.0; N]);
    // Memory that a thread writes is freed by another one.
    launch(&ours, &x, &mut y).unwrap();
    std::thread::scope(|scope| scope.spawn(|| drop((x, y))).join()).unwrap();
    device.synchronize().unwrap();
}

/// Returns the program of a test that needs a GPU.
/// A program on the GPU, alone: what another thread asks of the driver ends a capture.
fn on_gpu() -> Option<(Program, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    device::wanted_gpu()?;
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some((Program::new(), alone))
}

#[test]
fn gpu_borrows_slices_of_cudarc() {
    let Some((program, _alone)) = on_gpu() else { return };
    for _ in 0..100 {
        borrow(&program);
        borrow_views(&program);
        per_thread(&program);
    }
}

#[test]
fn gpu_captures_have_launches() {
    let Some((program, _alone)) = on_gpu() else { return };
    captures_of_slices(&program);
    captures_of_buffers(Program::new(), false);
}

/// Launches of another thread while the stream is captured are recorded, and nothing is lost. The
/// capture does not end meanwhile: the driver does not synchronise the calls of several threads on
/// one graph.
#[test]
fn gpu_captures_beside_launches() {
    let Some((program, _alone)) = on_gpu() else { return };
    let canary = program.device.upload(&[3.0f32; 1 << 16]).unwrap();
    for _ in 0..500 {
        let x = program.device.upload(&[1.0; N]).unwrap();
        let mut y = program.device.zeros(N).unwrap();
        program.device.synchronize().unwrap();
        program.begin_capture();
        let launched =
            std::thread::scope(|scope| scope.spawn(|| program.launch(&x, &mut y)).join());
        assert_eq!(launched.unwrap(), Ok(()));
        let graph = program.end_capture();
        drop((x, y));
        graph.launch().unwrap();
        program.stream.synchronize().unwrap();
    }
    program.device.synchronize().unwrap();
    assert_eq!(canary.to_vec().unwrap(), [3.0; 1 << 16]);
}
