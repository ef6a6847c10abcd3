//! What a launch costs beside the bare driver calls, on a GPU: `cargo bench --bench launch`.
//!
//! Prints each figure with its bar; without a GPU it says so.
#![expect(unsafe_code, reason = "the bare driver calls to compare with")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends with the message"
)]

use std::ffi::{CString, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, sys};
use tilewright::ir::{Global, GlobalMut, Kernel, range};
use tilewright::runtime::{Device, Grid, LaunchOptions, LoadOptions, ModuleCache, Stream};

type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);

fn axpy(device: &Device, name: &str) -> Kernel<Axpy> {
    Kernel::<Axpy>::build(name, device.target(), |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |k| y.store(k, i, a * x.load(k, i) + y.load(k, i)));
    })
    .unwrap()
}

/// A kernel that takes the compiler some time.
fn large(device: &Device, name: &str) -> Kernel<Axpy> {
    Kernel::<Axpy>::build(name, device.target(), |k, (a, x, y, n)| {
        let i = k.thread_idx().x;
        k.for_(range(0, n), (), |k, at, ()| {
            let mut value = x.load(k, i);
            for step in 0..400 {
                value = value * a + x.load(k, at + step);
            }
            y.store(k, i + at, value);
        });
    })
    .unwrap()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn ok(answer: sys::CUresult) {
    assert_eq!(answer, sys::CUresult::CUDA_SUCCESS);
}

/// A module and its entry, by the bare calls.
fn load(ptx: &str, name: &str) -> sys::CUfunction {
    let (image, name) = (CString::new(ptx).unwrap(), CString::new(name).unwrap());
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the texts end with zeros; places for the results; a context is current.
    unsafe {
        ok(sys::cuModuleLoadData(&mut module, image.as_ptr().cast()));
        ok(sys::cuModuleGetFunction(&mut function, module, name.as_ptr()));
    }
    function
}

fn main() {
    // The driver keeps what it compiles, too.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("CUDA_CACHE_DISABLE", "1") };
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("no figures: {error}"),
    };
    println!("{device}, CUDA {}, {}", device.cuda_version().unwrap(), device.target());
    first_launches(&device);
    let cudarc = CudaContext::new(0).unwrap();
    let raw = cudarc.new_stream().unwrap();
    cudarc.bind_to_thread().unwrap();
    let stream = Stream::from_cudarc(&raw).unwrap();
    launches(&device, &stream, raw.cu_stream());
    graphs(&device, &stream, raw.cu_stream());
}

fn first_launches(device: &Device) {
    let x = device.upload(&[1.0f32; 1024]).unwrap();
    let mut y = device.zeros::<f32>(1024).unwrap();
    device.synchronize().unwrap();
    let folder = std::env::temp_dir().join(format!("tilewright-bench-{}", std::process::id()));
    let mut first = |name: &str, cache: Option<&ModuleCache>| {
        let begin = Instant::now();
        let kernel = large(device, name);
        let built = begin.elapsed();
        let f = device.load_with(LoadOptions::default().cache(cache), &kernel).unwrap();
        f.launch(Grid::cover(32, 32), (0.5, &x, &mut y, 8)).unwrap();
        device.synchronize().unwrap();
        (begin.elapsed().as_secs_f64() * 1e3, built.as_secs_f64() * 1e3)
    };
    let (cold, built) = first("large", Some(&ModuleCache::in_folder(&folder)));
    CudaContext::new(0).unwrap().bind_to_thread().unwrap();
    let begin = Instant::now();
    load(large(device, "large").ptx().text(), "large");
    let compiled = begin.elapsed().as_secs_f64() * 1e3 - built;
    println!("first launch, cold: {cold:.2} ms, of which the driver's compiler {compiled:.2} ms");
    println!(
        "  our share {:.2} ms (bar 20 ms), building the kernel {built:.2} ms of it",
        cold - compiled
    );
    let (warm, _) = first("large", Some(&ModuleCache::in_folder(&folder)));
    println!("first launch, warm from the disk: {warm:.2} ms (bar 15 ms)");
    let _ = std::fs::remove_dir_all(folder);
}

const ROUNDS: usize = 100_000;

fn launches(device: &Device, stream: &Stream, raw: sys::CUstream) {
    let f = device.load(&axpy(device, "axpy")).unwrap();
    let bare = load(axpy(device, "axpy").ptx().text(), "axpy");
    let x = device.upload(&[1.0f32; 32]).unwrap();
    let mut y = device.zeros::<f32>(32).unwrap();
    let options = LaunchOptions::default().stream(stream);
    let buffers = [device_memory(128), device_memory(128)];
    let (mut ours, mut theirs) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for round in 0..ROUNDS {
        let begin = Instant::now();
        f.launch_with(options, Grid::cover(32, 32), (2.0, &x, &mut y, 32)).unwrap();
        ours.push(begin.elapsed());
        let begin = Instant::now();
        launch_bare(bare, raw, buffers);
        theirs.push(begin.elapsed());
        if round % 128 == 0 {
            stream.synchronize().unwrap();
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("launch: {ours:.3} us, bare {theirs:.3} us, ratio {:.3} (bar 1.1)", ours / theirs);
}

/// Memory that stays.
fn device_memory(bytes: usize) -> u64 {
    let mut address = 0;
    // SAFETY: a place for the result; a context is current.
    ok(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) });
    address
}

fn launch_bare(function: sys::CUfunction, stream: sys::CUstream, [x, y]: [u64; 2]) {
    let (a, n) = (2.0f32, 32i32);
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
    // SAFETY: the entry has these four parameters; the memory has 32 elements each.
    ok(unsafe { sys::cuLaunchKernelEx(&config, function, params.as_mut_ptr(), ptr::null_mut()) });
}

fn graphs(device: &Device, stream: &Stream, raw: sys::CUstream) {
    const LAUNCHES: usize = 1000;
    let f = device.load(&axpy(device, "axpy")).unwrap();
    let bare = load(axpy(device, "axpy").ptx().text(), "axpy");
    let x = device.upload(&[1.0f32; 32]).unwrap();
    let mut y = device.zeros::<f32>(32).unwrap();
    let mut builder = device.graph().unwrap();
    for _ in 0..LAUNCHES {
        builder.launch(&f, Grid::cover(32, 32), (2.0, &x, &mut y, 32)).unwrap();
    }
    let graph = builder.finish().unwrap();
    let buffers = [device_memory(128), device_memory(128)];
    let (mut recorded, mut exec) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: places for the results; the stream is idle and records until the end of the capture.
    unsafe {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        stream.synchronize().unwrap();
        ok(sys::cuStreamBeginCapture_v2(raw, mode));
        (0..LAUNCHES).for_each(|_| launch_bare(bare, raw, buffers));
        ok(sys::cuStreamEndCapture(raw, &mut recorded));
        ok(sys::cuGraphInstantiateWithFlags(&mut exec, recorded, 0));
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let begin = Instant::now();
        graph.launch_on(stream).unwrap();
        stream.synchronize().unwrap();
        ours.push(begin.elapsed());
        let begin = Instant::now();
        // SAFETY: graph and stream belong to the current context.
        unsafe {
            ok(sys::cuGraphLaunch(exec, raw));
            ok(sys::cuStreamSynchronize(raw));
        }
        theirs.push(begin.elapsed());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "graph of {LAUNCHES} launches: {ours:.1} us, bare {theirs:.1} us, ratio {:.3} (bar 1.05)",
        ours / theirs
    );
}
