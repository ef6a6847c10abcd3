//! Compares launches with bare driver calls: `cargo bench --bench launch` on a GPU, takes less than
//! a minute.
//!
//! Prints each figure with its ratio and its bar, and fails if a bar is missed. Without a GPU it
//! only says so. The bare calls go through `cudarc`'s bindings, which look each function up once.
//!
//! In a cold first launch, everything counts as ours except the calls in which the driver compiles
//! PTX, which `Function::load_times` reports. They use the driver's linker, so that there is code
//! to cache, and take longer than the single bare call that compiles and loads; both times are
//! printed.
#![expect(unsafe_code, reason = "the bare driver calls to compare with")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends with the message"
)]

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::ptr;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, sys};
use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
use tilewright::runtime::{
    Device, Grid, LaunchOptions, LoadOptions, LoadTimes, ModuleCache, Stream,
};

type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);

fn axpy(target: Target) -> Kernel<Axpy> {
    Kernel::<Axpy>::build("axpy", target, |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
    })
    .unwrap()
}

/// A kernel that takes the compiler some time.
fn large(target: Target) -> Kernel<Axpy> {
    Kernel::<Axpy>::build("large", target, |k, (a, x, y, n)| {
        let i = k.thread_idx().x;
        k.for_(range(0, n), (), |_, at, ()| {
            let mut value = x.load(i);
            for step in 0..400 {
                value = value * a + x.load(at + step);
            }
            y.store(i + at, value);
        });
    })
    .unwrap()
}

/// Counts the bars, and how many were met.
#[derive(Default)]
struct Bars {
    all: usize,
    met: usize,
}

impl Bars {
    /// Prints a figure that must be at most `bar`.
    fn check(&mut self, name: &str, text: &str, value: f64, bar: f64, unit: &str) {
        let met = value <= bar;
        let verdict = if met { "met" } else { "MISSED" };
        println!("{name}: {text}, {value:.3}{unit} (bar {bar}{unit}: {verdict})");
        self.all += 1;
        self.met += usize::from(met);
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("no time is a NaN"));
    values[values.len() / 2]
}

fn microseconds(times: Vec<Duration>) -> f64 {
    milliseconds(median(times)) * 1e3
}

fn ok(answer: sys::CUresult) {
    assert_eq!(answer, sys::CUresult::CUDA_SUCCESS);
}

/// Set for a child process: which first launch it measures.
const FIRST: &str = "TILEWRIGHT_BENCH_FIRST";

fn main() -> ExitCode {
    match std::env::var(FIRST).as_deref() {
        Ok("bare") => return report(bare_first_launch()),
        Ok(folder) => return report(first_launch(Path::new(folder))),
        Err(_) => {}
    }
    let begin = Instant::now();
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("no figures: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let release = device.driver_release().unwrap_or_else(|| "of unknown release".to_owned());
    let cuda = device.cuda_version().unwrap();
    println!("{device}, {}, driver {release}, CUDA {cuda}", device.target());
    let mut bars = Bars::default();
    first_launches(&mut bars);
    let cudarc = CudaContext::new(0).unwrap();
    let raw = cudarc.new_stream().unwrap();
    cudarc.bind_to_thread().unwrap();
    let stream = Stream::from_cudarc(&raw).unwrap();
    let own = device.stream().unwrap();
    launches(&device, &own, own.cu_stream().unwrap(), "a stream of the library", &mut bars);
    launches(&device, &stream, raw.cu_stream(), "a stream of `cudarc`", &mut bars);
    graphs(&device, &stream, raw.cu_stream(), &mut bars);
    let Bars { all, met } = bars;
    println!("{met} of {all} bars met, in {:.1} s", begin.elapsed().as_secs_f64());
    if met == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the milliseconds of the steps of a first launch.
fn report(steps: Vec<f64>) -> ExitCode {
    let steps: Vec<String> = steps.iter().map(f64::to_string).collect();
    println!("{}", steps.join(" "));
    ExitCode::SUCCESS
}

/// Measures a first launch in a process of its own, once there is a context. Returns all of it; all
/// of it without the compiler; and the parts of the latter: building the kernel, loading it without
/// the compiler, the driver's share of that, buffers, and the launch until it ends. The compiler's
/// time comes last.
fn first_launch(folder: &Path) -> Vec<f64> {
    let device = Device::cuda(0).unwrap();
    let cache = ModuleCache::in_folder(folder);
    let begin = Instant::now();
    let kernel = large(device.target());
    let built = begin.elapsed();
    let options = LoadOptions::default().cache(Some(&cache));
    let f = device.load_with(options, &kernel).unwrap();
    let loaded = begin.elapsed();
    let x = device.upload(&[1.0f32; 1024]).unwrap();
    let mut y = device.zeros::<f32>(1024).unwrap();
    let buffers = begin.elapsed();
    f.launch(Grid::cover(32, 32), (0.5, &x, &mut y, 8)).unwrap();
    device.synchronize().unwrap();
    let all = begin.elapsed();
    let LoadTimes { compile, load, .. } = f.load_times();
    let steps = [
        all,
        all - compile,
        built,
        loaded - built - compile,
        load,
        buffers - loaded,
        all - buffers,
        compile,
    ];
    steps.map(milliseconds).to_vec()
}

/// Measures the same with bare calls and the kernel's text at hand: all of it, the compiler,
/// buffers, and the launch until it ends.
fn bare_first_launch() -> Vec<f64> {
    let context = CudaContext::new(0).unwrap();
    context.bind_to_thread().unwrap();
    let stream = context.new_stream().unwrap();
    let mut capability = [0; 2];
    for (place, attribute) in capability.iter_mut().zip([
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    ]) {
        // SAFETY: `place` receives the result; the device belongs to the context.
        ok(unsafe { sys::cuDeviceGetAttribute(place, attribute, context.cu_device()) });
    }
    let [major, minor] = capability.map(|number| number as u16);
    let ptx = large(
        Target::for_compute_capability(major, minor).expect("a GPU of compute capability 8.0"),
    )
    .ptx();
    let begin = Instant::now();
    let function = load(ptx.text(), "large");
    let compiled = begin.elapsed();
    let ones = [1.0f32; 1024];
    let (mut x, mut y) = (0, 0);
    // SAFETY: there is room for the results; both allocations and the slice have that many bytes;
    // the stream belongs to the context.
    unsafe {
        ok(sys::cuMemAllocAsync(&mut x, size_of_val(&ones), stream.cu_stream()));
        ok(sys::cuMemAllocAsync(&mut y, size_of_val(&ones), stream.cu_stream()));
        ok(sys::cuMemcpyHtoDAsync_v2(
            x,
            ones.as_ptr().cast(),
            size_of_val(&ones),
            stream.cu_stream(),
        ));
        ok(sys::cuStreamSynchronize(stream.cu_stream()));
        ok(sys::cuMemsetD8Async(y, 0, size_of_val(&ones), stream.cu_stream()));
    }
    let buffers = begin.elapsed();
    launch_bare(function, stream.cu_stream(), [x, y], 8);
    // SAFETY: the stream belongs to the context.
    ok(unsafe { sys::cuStreamSynchronize(stream.cu_stream()) });
    let all = begin.elapsed();
    [all, compiled, buffers - compiled, all - buffers].map(milliseconds).to_vec()
}

/// Returns a child process's figures. The variable forbids the driver to cache compiled code.
fn measured(first: &Path) -> Vec<f64> {
    let program = std::env::current_exe().unwrap();
    let output =
        Command::new(program).env(FIRST, first).env("CUDA_CACHE_DISABLE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Returns the median of each step over several processes.
fn medians(runs: &[Vec<f64>]) -> Vec<f64> {
    let steps = runs.first().map_or(0, Vec::len);
    (0..steps).map(|step| median(runs.iter().map(|run| run[step]).collect())).collect()
}

fn first_launches(bars: &mut Bars) {
    const RUNS: usize = 5;
    let folder = |run: usize| -> PathBuf {
        std::env::temp_dir().join(format!("tilewright-bench-{}-{run}", std::process::id()))
    };
    let (mut cold, mut warm, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        cold.push(measured(&folder(run)));
        bare.push(measured(Path::new("bare")));
        warm.push(measured(&folder(run)));
        let _ = std::fs::remove_dir_all(folder(run));
    }
    let (cold, warm, bare) = (medians(&cold), medians(&warm), medians(&bare));
    let [all, ours, built, loading, code, buffers, launch, compiler] = cold[..] else {
        panic!("a step is missing: {cold:?}")
    };
    println!(
        "cold first launch in a process, medians of {RUNS}: {all:.2} ms, of which the driver's compiler {compiler:.2} ms; \
         the rest is building the kernel {built:.2} ms, loading it {loading:.2} ms (the driver {code:.2} ms of that), \
         buffers {buffers:.2} ms, the launch up to its end {launch:.2} ms"
    );
    println!(
        "the same by bare calls that keep no code: {:.2} ms, of which the driver's compiler, which does not link here, \
         {:.2} ms, buffers {:.2} ms, the launch up to its end {:.2} ms; ours takes {:.2} ms more in all",
        bare[0],
        bare[1],
        bare[2],
        bare[3],
        all - bare[0]
    );
    let text = format!("{all:.2} ms less the {compiler:.2} ms in the driver's compiler");
    bars.check("cold first launch, our share", &text, ours, 20.0, " ms");
    let [all, _, built, loading, code, buffers, launch, compiler] = warm[..] else {
        panic!("a step is missing: {warm:?}")
    };
    assert_eq!(compiler, 0.0, "the code was in the cache");
    let text = format!(
        "building the kernel {built:.2} ms, loading it {loading:.2} ms (the driver {code:.2} ms of that), buffers \
         {buffers:.2} ms, the launch up to its end {launch:.2} ms, in all"
    );
    bars.check("first launch from the disk cache", &text, all, 15.0, " ms");
}

/// Loads a module with bare calls and returns its entry.
fn load(ptx: &str, name: &str) -> sys::CUfunction {
    let (image, name) = (CString::new(ptx).unwrap(), CString::new(name).unwrap());
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the texts end with zeros; there is room for the results; a context is current.
    unsafe {
        ok(sys::cuModuleLoadData(&mut module, image.as_ptr().cast()));
        ok(sys::cuModuleGetFunction(&mut function, module, name.as_ptr()));
    }
    function
}

fn launches(device: &Device, stream: &Stream, raw: sys::CUstream, whose: &str, bars: &mut Bars) {
    const ROUNDS: usize = 100_000;
    let kernel = axpy(device.target());
    let (f, bare) = (device.load(&kernel).unwrap(), load(kernel.ptx().text(), "axpy"));
    let x = device.upload(&[1.0f32; 32]).unwrap();
    let mut y = device.zeros::<f32>(32).unwrap();
    let options = LaunchOptions::default().stream(stream);
    let buffers = [device_memory(128), device_memory(128)];
    let (mut ours, mut theirs) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for round in 0..ROUNDS {
        // Each goes first in every other round.
        for turn in [round, round + 1] {
            let begin = Instant::now();
            if turn.is_multiple_of(2) {
                f.launch_with(options, Grid::cover(32, 32), (2.0, &x, &mut y, 32)).unwrap();
                ours.push(begin.elapsed());
            } else {
                launch_bare(bare, raw, buffers, 32);
                theirs.push(begin.elapsed());
            }
        }
        if round.is_multiple_of(128) {
            stream.synchronize().unwrap();
        }
    }
    stream.synchronize().unwrap();
    let clock = (0..1000).map(|_| Instant::now().elapsed()).collect();
    let (ours, theirs) = (microseconds(ours), microseconds(theirs));
    let text = format!(
        "{ours:.3} us, bare cuLaunchKernelEx {theirs:.3} us (the clock {:.3} us of both), ratio",
        microseconds(clock)
    );
    let name = format!("typed launch of 4 arguments on {whose}, median of {ROUNDS}");
    bars.check(&name, &text, ours / theirs, 1.1, "");
}

/// Allocates memory that is never freed.
fn device_memory(bytes: usize) -> u64 {
    let mut address = 0;
    // SAFETY: `address` is a local out parameter; a context is current.
    ok(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) });
    address
}

fn launch_bare(function: sys::CUfunction, stream: sys::CUstream, [x, y]: [u64; 2], n: i32) {
    let a = 2.0f32;
    let mut params: [*mut c_void; 4] = [
        ptr::from_ref(&a).cast_mut().cast(),
        ptr::from_ref(&x).cast_mut().cast(),
        ptr::from_ref(&y).cast_mut().cast(),
        ptr::from_ref(&n).cast_mut().cast(),
    ];
    let config = sys::CUlaunchConfig {
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: stream,
        attrs: ptr::null_mut(),
        numAttrs: 0,
    };
    // SAFETY: the entry has these four parameters; the memory has the elements that it uses for
    // `n`.
    ok(unsafe { sys::cuLaunchKernelEx(&config, function, params.as_mut_ptr(), ptr::null_mut()) });
}

fn graphs(device: &Device, stream: &Stream, raw: sys::CUstream, bars: &mut Bars) {
    const LAUNCHES: usize = 1000;
    const ROUNDS: usize = 1000;
    let kernel = axpy(device.target());
    let (f, bare) = (device.load(&kernel).unwrap(), load(kernel.ptx().text(), "axpy"));
    let x = device.upload(&[1.0f32; 32]).unwrap();
    let mut y = device.zeros::<f32>(32).unwrap();
    let mut builder = device.graph().unwrap();
    for _ in 0..LAUNCHES {
        builder.launch(&f, Grid::cover(32, 32), (2.0, &x, &mut y, 32)).unwrap();
    }
    let graph = builder.finish().unwrap();
    let buffers = [device_memory(128), device_memory(128)];
    let (mut recorded, mut exec) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: there is room for the results; the stream is idle and records until the capture ends.
    unsafe {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        stream.synchronize().unwrap();
        ok(sys::cuStreamBeginCapture_v2(raw, mode));
        (0..LAUNCHES).for_each(|_| launch_bare(bare, raw, buffers, 32));
        ok(sys::cuStreamEndCapture(raw, &mut recorded));
        ok(sys::cuGraphInstantiateWithFlags(&mut exec, recorded, 0));
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for turn in [round, round + 1] {
            let begin = Instant::now();
            if turn.is_multiple_of(2) {
                graph.launch_on(stream).unwrap();
                stream.synchronize().unwrap();
                ours.push(begin.elapsed());
            } else {
                // SAFETY: graph and stream belong to the current context.
                unsafe {
                    ok(sys::cuGraphLaunch(exec, raw));
                    ok(sys::cuStreamSynchronize(raw));
                }
                theirs.push(begin.elapsed());
            }
        }
    }
    let (ours, theirs) = (microseconds(ours), microseconds(theirs));
    let text = format!("{ours:.1} us, bare {theirs:.1} us, ratio");
    let name = format!("replay of a graph of {LAUNCHES} launches, median of {ROUNDS}");
    bars.check(&name, &text, ours / theirs, 1.05, "");
}
