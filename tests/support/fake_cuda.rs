//! A fake CUDA driver without a GPU, which the driver tests build as `libcuda.so`.
//!
//! It is as lazy as a driver may be: nothing that is queued on a stream runs before somebody waits
//! for it, not even copies from and to the host. And it is strict: it ends the process if freed
//! memory is used, if code is unloaded while a launch is queued, on a call without a current
//! context, and on a double free. It knows kernels by name. Environment variables choose its
//! properties and how it fails.
//!
//! It is also an NCCL library, whose collectives hang until their communicator is aborted. As on a
//! GPU, a copy to pageable memory holds the driver's lock until the stream reaches it.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Duration;

type Address = u64;
type Handle = usize;

#[derive(Default)]
struct Driver {
    memory: HashMap<Address, Box<[u8]>>,
    modules: HashMap<Handle, Vec<u8>>,
    functions: HashMap<Handle, (Handle, String)>,
    /// Each function's attributes: the maximum dynamic shared memory, and 1 if large clusters are
    /// allowed.
    allowed: HashMap<Handle, [u32; 2]>,
    events: HashMap<Handle, Option<f32>>,
    streams: HashMap<Handle, VecDeque<Work>>,
    /// The default streams of threads.
    of_threads: HashMap<std::thread::ThreadId, Handle>,
    /// Streams that record instead of queueing, and what they have recorded.
    recording: HashMap<Handle, Vec<Work>>,
    graphs: HashMap<Handle, Vec<Work>>,
    /// Streams that begin to record before their next work, and whether they end after it.
    captures_next: HashMap<Handle, bool>,
    /// The work of finished recordings.
    recorded: HashMap<Handle, Vec<Work>>,
    /// Events whose latest record was on a recording stream.
    captured_events: HashMap<Handle, Handle>,
    /// For each event: the stream and count of its latest record, and the count that has been
    /// reached.
    records: HashMap<Handle, (Handle, u64)>,
    reached: HashMap<Handle, u64>,
    host: HashMap<usize, Box<[u64]>>,
    links: HashMap<Handle, (Vec<u8>, Logs)>,
    compilations: u64,
    next: usize,
    clock_ms: f32,
    retained: usize,
    fault: u32,
    calls_after_fault: usize,
}

#[derive(Clone)]
enum Work {
    Set { to: Address, value: Vec<u8>, pitch: usize, len: usize },
    Copy { to: Address, from: Address, bytes: usize },
    In { to: Address, from: usize, bytes: usize },
    Out { to: usize, from: Address, bytes: usize },
    Free(Address),
    Launch { module: Handle, kernel: String, threads: u64, args: Vec<usize>, shape: [u32; 8] },
    Event(Handle, u64),
    WaitFor(Handle, Handle, u64),
    /// A host function and its argument.
    Host(unsafe extern "C" fn(usize), usize),
    /// A collective, which ends when its communicator is aborted.
    Collective,
}

/// Set when the collectives end.
static ABORTED: AtomicBool = AtomicBool::new(false);

/// The status of a call that does not wait for work, and of work that hangs.
const NOT_READY: u32 = 600;

/// Repeats the call as long as work hangs. Other threads can call meanwhile.
fn wait(call: impl Fn() -> u32) -> u32 {
    loop {
        match call() {
            NOT_READY => std::thread::sleep(Duration::from_millis(1)),
            code => return code,
        }
    }
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(Mutex::default);

thread_local!(static CURRENT: std::cell::Cell<Handle> = const { std::cell::Cell::new(0) });
thread_local!(static CAPTURE_MODE: std::cell::Cell<c_uint> = const { std::cell::Cell::new(0) });

const CONTEXT: Handle = 0xc0;

fn violation(text: &str) -> ! {
    eprintln!("fake driver: {text}");
    std::process::abort()
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(format!("FAKE_CUDA_{name}")) {
        Ok(text) => text.parse().unwrap_or_else(|_| violation("a setting is no number")),
        Err(_) => default,
    }
}

/// Locks the driver, for a call that needs a context.
fn driver() -> Result<MutexGuard<'static, Driver>, u32> {
    if CURRENT.get() != CONTEXT {
        violation("a call without its context");
    }
    let mut driver = DRIVER.lock().unwrap_or_else(|_| violation("it panicked before"));
    if driver.fault != 0 {
        driver.calls_after_fault += 1;
        return Err(driver.fault);
    }
    Ok(driver)
}

fn call(body: impl FnOnce(&mut Driver) -> Result<(), u32>) -> u32 {
    driver().and_then(|mut driver| body(&mut driver)).err().unwrap_or(0)
}

/// Like `call`, but for calls that a driver may refuse while the calling thread captures, unless
/// the thread has relaxed that.
fn call_outside_of_captures(body: impl FnOnce(&mut Driver) -> Result<(), u32>) -> u32 {
    call(|driver| {
        let is_strict = setting("STRICT_CAPTURES", 0) != 0 && CAPTURE_MODE.get() != 2;
        if is_strict && !driver.recording.is_empty() { Err(900) } else { body(driver) }
    })
}

impl Driver {
    fn handle(&mut self) -> Handle {
        self.next += 16;
        self.next
    }

    /// Returns the stream behind a handle. Handle 2 is the calling thread's default stream.
    fn stream(&mut self, handle: Handle) -> Handle {
        if handle != 2 {
            return handle;
        }
        let thread = std::thread::current().id();
        if let Some(own) = self.of_threads.get(&thread) {
            return *own;
        }
        let own = self.handle();
        self.streams.insert(own, VecDeque::new());
        self.of_threads.insert(thread, own);
        own
    }

    fn queue(&mut self, stream: Handle, work: Work) -> Result<(), u32> {
        let stream = self.stream(stream);
        let captured = self.captures_next.remove(&stream);
        if captured.is_some() {
            self.recording.insert(stream, Vec::new());
        }
        if let Work::Event(event, _) = work {
            self.captured_events.remove(&event);
        }
        if let Some(recorded) = self.recording.get_mut(&stream) {
            match work {
                Work::Launch { .. } | Work::Set { .. } | Work::Copy { .. } => recorded.push(work),
                Work::Event(event, _) => {
                    self.captured_events.insert(event, stream);
                }
                // The work is outside of the capture.
                Work::WaitFor(..) => return Err(905),
                _ => violation("a graph of what the host takes part in"),
            }
            if captured == Some(true)
                && let Some(recorded) = self.recording.remove(&stream)
            {
                self.recorded.insert(stream, recorded);
            }
            return Ok(());
        }
        match self.streams.get_mut(&stream) {
            Some(queue) => queue.push_back(work),
            None => violation("work for a stream that does not exist"),
        }
        Ok(())
    }

    fn slice(&mut self, address: Address, bytes: usize) -> &mut [u8] {
        match self.memory.get_mut(&address) {
            Some(memory) if memory.len() >= bytes => &mut memory[..bytes],
            Some(_) => violation("an access past the end of an allocation"),
            None => violation("an access to memory that was freed"),
        }
    }

    fn run(&mut self, stream: Handle) -> Result<(), u32> {
        self.run_until(stream, None)
    }

    /// Runs a stream's work, all of it or up to a record of an event.
    fn run_until(&mut self, stream: Handle, until: Option<(Handle, u64)>) -> Result<(), u32> {
        let stream = self.stream(stream);
        if self.recording.contains_key(&stream) {
            violation("a recording stream is waited for");
        }
        loop {
            if let Some((event, count)) = until
                && self.reached.get(&event).is_some_and(|reached| *reached >= count)
            {
                return Ok(());
            }
            let Some(queue) = self.streams.get_mut(&stream) else { violation("no such stream") };
            let Some(work) = queue.pop_front() else { return Ok(()) };
            if let Work::Collective = work
                && !ABORTED.load(Ordering::SeqCst)
            {
                queue.push_front(work);
                return Err(NOT_READY);
            }
            match work {
                Work::Collective => {}
                Work::Set { to, value, pitch, len } => {
                    if len > 0 {
                        let memory = self.slice_inside(to, (len - 1) * pitch + value.len());
                        memory.chunks_mut(pitch).for_each(|c| c[..value.len()].copy_from_slice(&value));
                    }
                }
                Work::Copy { to, from, bytes } => {
                    let data = self.slice(from, bytes).to_vec();
                    self.slice(to, bytes).copy_from_slice(&data);
                }
                Work::WaitFor(event, other, count) => {
                    if self.reached.get(&event).is_none_or(|reached| *reached < count)
                        && let Err(code) = self.run_until(other, Some((event, count)))
                    {
                        let queue = self.streams.get_mut(&stream);
                        queue.unwrap().push_front(Work::WaitFor(event, other, count));
                        return Err(code);
                    }
                }
                Work::In { to, from, bytes } => {
                    // SAFETY: the caller of the copy keeps the memory until it has waited.
                    let from = unsafe { std::slice::from_raw_parts(from as *const u8, bytes) };
                    self.slice(to, bytes).copy_from_slice(from);
                }
                Work::Out { to, from, bytes } => {
                    // SAFETY: as above.
                    let to = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes) };
                    to.copy_from_slice(self.slice_inside(from, bytes));
                }
                Work::Free(address) => {
                    if self.memory.remove(&address).is_none() {
                        violation("a second free");
                    }
                }
                // SAFETY: whoever queued the function promises that it can be called with this
                // argument.
                Work::Host(function, data) => unsafe { function(data) },
                Work::Event(event, count) => {
                    let now = self.clock_ms;
                    self.reached.insert(event, count);
                    if let Some(time) = self.events.get_mut(&event) {
                        *time = Some(now);
                    }
                }
                Work::Launch { module, kernel, threads, args, shape } => {
                    let Some(code) = self.modules.get(&module).cloned() else {
                        violation("a launch whose code was unloaded");
                    };
                    self.clock_ms += 2.0;
                    self.kernel((&kernel, &code), threads, &args, shape)?;
                }
            }
        }
    }

    /// Like `slice`, but the address may be inside an allocation.
    fn slice_inside(&mut self, address: Address, bytes: usize) -> &mut [u8] {
        let inside = |start: &Address, memory: &[u8]| {
            (*start..*start + memory.len() as u64).contains(&address)
        };
        let found = self.memory.iter_mut().find(|(start, memory)| inside(start, memory));
        let Some((start, memory)) = found else { violation("an access to memory that was freed") };
        let at = (address - start) as usize;
        match memory.get_mut(at..at + bytes) {
            Some(memory) => memory,
            None => violation("an access past the end of an allocation"),
        }
    }

    fn kernel(
        &mut self,
        (name, code): (&str, &[u8]),
        threads: u64,
        args: &[usize],
        shape: [u32; 8],
    ) -> Result<(), u32> {
        match name {
            // Every thread fails an assertion, the last one first, with its index as the value.
            "asserts" => {
                let code = String::from_utf8_lossy(code);
                let op = code.split_once("+16], ").and_then(|(_, rest)| rest.split_once(';'));
                let op: u32 = op.and_then(|(op, _)| op.parse().ok()).unwrap();
                let report = self.slice(args[0] as u64, 16 + 72 * 1024);
                for thread in (0..threads as u32).rev() {
                    let failed = u64::from_le_bytes(report[..8].try_into().unwrap());
                    report[..8].copy_from_slice(&(failed + 1).to_le_bytes());
                    let Some(record) = report[16..].chunks_exact_mut(72).nth(failed as usize) else {
                        continue;
                    };
                    for (at, word) in [op, thread, 0, 0, 0, 0, 0].into_iter().enumerate() {
                        record[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
                    }
                    record[32..40].fill(0xff);
                    record[40..48].copy_from_slice(&u64::from(thread).to_le_bytes());
                }
            }
            "axpy" => {
                let (a, n) = (f32::from_bits(args[0] as u32), args[3] as u32 as usize);
                let n = n.min(threads as usize);
                // A buffer may start inside another code's allocation.
                let x = self.slice_inside(args[1] as u64, 4 * n).to_vec();
                let y = self.slice_inside(args[2] as u64, 4 * n);
                for (x, y) in x.chunks_exact(4).zip(y.chunks_exact_mut(4)) {
                    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
                    let sum = a * value(x) + value(y);
                    y.copy_from_slice(&sum.to_le_bytes());
                }
            }
            // Writes the sum of the code's bytes, to tell which code it is.
            "code_sum" => {
                let sum: u64 = code.iter().map(|byte| u64::from(*byte)).sum();
                self.slice(args[0] as u64, 8).copy_from_slice(&sum.to_le_bytes());
            }
            "odd_bools" => {
                self.slice(args[0] as u64, 4).copy_from_slice(&[0, 1, 2, 0xff]);
            }
            "launch_shape" => {
                let to = self.slice(args[0] as u64, 32);
                to.iter_mut().zip(shape.iter().flat_map(|n| n.to_le_bytes())).for_each(|(to, n)| *to = n);
            }
            "tensor_map" => {
                let (to, map) = args.split_last().unwrap();
                let to = self.slice(*to as u64, 128);
                to.iter_mut().zip(map.iter().flat_map(|n| n.to_le_bytes())).for_each(|(to, n)| *to = n);
            }
            "empty" => {}
            // Thread 0 finds that it stores past the end of its buffer.
            "violates" => {
                let (bytes, record) = (args[1] as u64, args[2]);
                let words = self.host.iter_mut().find_map(|(start, memory)| {
                    let first = record.checked_sub(*start)? / 8;
                    memory.get_mut(first..first + 12)
                });
                let Some(words) = words else { violation("a record outside of host memory") };
                words.copy_from_slice(&[1, 1, 0, 0, 0, 0, 0, 0, bytes, bytes, 4, 0]);
                self.fault = 719;
                return Err(self.fault);
            }
            _ if name.starts_with("fault_") => {
                self.fault = name["fault_".len()..].parse().unwrap_or(719);
                return Err(self.fault);
            }
            _ => violation("a kernel that it does not know"),
        }
        Ok(())
    }
}

unsafe extern "C" {
    safe fn atexit(call: extern "C" fn()) -> c_int;
}

/// When the process ends, runs what is queued and reports what is left.
extern "C" fn report() {
    let mut driver = DRIVER.lock().unwrap_or_else(|_| violation("it panicked before"));
    let streams: Vec<_> = driver.streams.keys().copied().collect();
    let fault = driver.fault;
    let failed = streams.into_iter().any(|stream| fault == 0 && driver.run(stream).is_err());
    let Driver { memory, modules, events, retained, calls_after_fault, .. } = &*driver;
    let streams = driver.streams.len() - driver.of_threads.len();
    let (memory, modules) = (memory.len() + driver.host.len(), modules.len());
    let events = events.len() + driver.graphs.len() + driver.links.len();
    if failed || streams != *retained + setting("STREAMS_LEFT", 0) as usize {
        violation("a stream or a context is left that nobody uses");
    }
    let compiled = driver.compilations;
    eprintln!("fake driver: left {memory} {modules} {events}, after fault {calls_after_fault}");
    eprintln!("fake driver: compiled {compiled}");
}

/// Returns how many pointers a kernel's parameter list has.
fn param_count(kernel: &str) -> usize {
    match kernel {
        "axpy" => 4,
        "violates" => 3,
 "odd_bools" | "code_sum" | "launch_shape" | "asserts" => 1,
        _ => 0,
    }
}

unsafe fn set<T>(place: *mut T, value: T) {
    if place.is_null() {
        violation("a result without a place");
    }
    // SAFETY: the caller passes a valid place.
    unsafe { place.write(value) }
}

macro_rules! export {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 $body
    )*};
}

/// NCCL's `ncclUniqueId`.
#[repr(C)]
pub struct UniqueId([u8; 128]);

fn collective(stream: Handle) -> u32 {
    call(|driver| driver.queue(stream, Work::Collective))
}

// SAFETY, for all of these: pointers are valid by the contract of the NCCL function with this name.
export! {
    fn ncclGetVersion(version: *mut c_int) {
        unsafe { set(version, 22_809) };
        0
    }
    fn ncclGetUniqueId(id: *mut UniqueId) {
        unsafe { set(id, UniqueId([7; 128])) };
        0
    }
    fn ncclCommInitRankConfig(
        comm: *mut Handle,
        _ranks: c_int,
        _id: UniqueId,
        _rank: c_int,
        _config: *mut c_void
    ) {
        unsafe { set(comm, 0xcc) };
        0
    }
    fn ncclCommDestroy(_comm: Handle) { 0 }
    fn ncclCommAbort(_comm: Handle) {
        // Set the flag first, and call the driver only after it.
        std::thread::sleep(Duration::from_millis(setting("ABORT_MS", 0)));
        ABORTED.store(true, Ordering::SeqCst);
        0
    }
    fn ncclCommGetAsyncError(_comm: Handle, error: *mut u32) {
        unsafe { set(error, 0) };
        0
    }
    fn ncclGroupStart() { 0 }
    fn ncclGroupEnd() { 0 }
    fn ncclAllReduce(
        _from: Address,
        _to: Address,
        _count: usize,
        _kind: u32,
        _op: u32,
        _comm: Handle,
        stream: Handle
    ) {
        collective(stream)
    }
    fn ncclAllGather(
        _from: Address,
        _to: Address,
        _count: usize,
        _kind: u32,
        _comm: Handle,
        stream: Handle
    ) {
        collective(stream)
    }
    fn ncclReduceScatter(
        _from: Address,
        _to: Address,
        _count: usize,
        _kind: u32,
        _op: u32,
        _comm: Handle,
        stream: Handle
    ) {
        collective(stream)
    }
    fn ncclBroadcast(
        _from: Address,
        _to: Address,
        _count: usize,
        _kind: u32,
        _root: c_int,
        _comm: Handle,
        stream: Handle
    ) {
        collective(stream)
    }
    fn ncclSend(
        _from: Address,
        _count: usize,
        _kind: u32,
        _peer: c_int,
        _comm: Handle,
        stream: Handle
    ) {
        collective(stream)
    }
    fn ncclRecv(
        _to: Address,
        _count: usize,
        _kind: u32,
        _peer: c_int,
        _comm: Handle,
        stream: Handle
    ) {
        collective(stream)
    }
}

// SAFETY, for all of these: pointers are valid by the contract of the CUDA function with this name.
export! {
    fn cuDriverGetVersion(version: *mut c_int) {
        unsafe { set(version, setting("VERSION", 12080) as c_int) };
        0
    }
    fn cuInit(_flags: c_uint) {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            atexit(report);
        });
        setting("INIT", 0) as u32
    }
    fn cuGetErrorName(code: u32, name: *mut *const c_char) {
        let text: &CStr = match code {
            1 => c"CUDA_ERROR_INVALID_VALUE",
            218 => c"CUDA_ERROR_INVALID_PTX",
            803 => c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            _ => return 1,
        };
        unsafe { set(name, text.as_ptr()) };
        0
    }
    fn cuDeviceGetCount(count: *mut c_int) {
        unsafe { set(count, setting("DEVICES", 1) as c_int) };
        0
    }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        unsafe { set(device, ordinal) };
        0
    }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, _device: c_int) {
        let text = c"Fake GPU".to_bytes_with_nul();
        if text.len() > len as usize {
            return 1;
        }
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        0
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        let capability = setting("CAPABILITY", 90) as c_int;
        let answer = match attribute {
            1 => 1024,
            2 | 3 => 1024,
            4 => 64,
            5 => i32::MAX,
            6 | 7 => 65_535,
            8 => 48 * 1024,
            13 => 1_500_000,
            16 => 3,
            36 => 2_000_000,
            37 => 512,
            38 => 1 << 20,
            39 => 2048,
            81 => 228 * 1024,
            82 => 65_536,
            75 => capability / 10,
            76 => capability % 10,
            95 => 1,
            97 => 227 * 1024,
            115 => setting("POOLS", 1) as c_int,
            120 => (capability >= 90).into(),
            _ => return 1,
        };
        unsafe { set(value, answer) };
        0
    }
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, _device: c_int) {
        DRIVER.lock().unwrap().retained += 1;
        unsafe { set(context, CONTEXT) };
        0
    }
    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) {
        DRIVER.lock().unwrap().retained -= 1;
        0
    }
    fn cuCtxGetCurrent(context: *mut Handle) {
        unsafe { set(context, CURRENT.get()) };
        0
    }
    fn cuCtxSetCurrent(context: Handle) {
        CURRENT.set(context);
        0
    }
    fn cuCtxSynchronize() {
        call(|driver| {
            let streams: Vec<_> = driver.streams.keys().copied().collect();
            let recording = |driver: &Driver, stream| driver.recording.contains_key(stream);
            streams.iter().try_for_each(|stream| match recording(driver, stream) {
                true => Ok(()),
                false => driver.run(*stream),
            })
        })
    }
    fn cuStreamCreate(stream: *mut Handle, _flags: c_uint) {
        call(|driver| {
            if driver.streams.len() as u64 >= setting("STREAMS", u64::MAX) {
                violation("so many streams at a time");
            }
            let handle = driver.handle();
            driver.streams.insert(handle, VecDeque::new());
            unsafe { set(stream, handle) };
            Ok(())
        })
    }
    fn cuStreamDestroy_v2(stream: Handle) {
        call(|driver| {
            // What is queued still runs.
            match driver.run(stream) {
                Err(NOT_READY) => return Ok(()),
                ran => ran?,
            }
            driver.streams.remove(&stream).map(|_| ()).ok_or(1)
        })
    }
    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        call(|driver| {
            if let Some(captured) = driver.captured_events.get(&event) {
                if driver.recording.contains_key(captured) {
                    violation("a stream is drawn into the capture of another one");
                }
                return Err(907);
            }
            match driver.records.get(&event).copied() {
                Some((other, count)) => driver.queue(stream, Work::WaitFor(event, other, count)),
                None => Ok(()),
            }
        })
    }
    fn cuLaunchHostFunc(stream: Handle, function: unsafe extern "C" fn(usize), data: usize) {
        call(|driver| driver.queue(stream, Work::Host(function, data)))
    }
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        call(|driver| {
            match mode {
                2 => drop(driver.recording.insert(stream, Vec::new())),
                // Behaves as if another thread began the capture right before the next work and,
                // for 1, ended it right after that.
                0 | 1 => drop(driver.captures_next.insert(stream, mode == 1)),
                _ => return Err(1),
            }
            Ok(())
        })
    }
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        call(|driver| {
            let recorded = driver.recording.remove(&stream);
            let recorded = recorded.or_else(|| driver.recorded.remove(&stream)).ok_or(1u32)?;
            let handle = driver.handle();
            driver.graphs.insert(handle, recorded);
            unsafe { set(graph, handle) };
            Ok(())
        })
    }
    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, _flags: u64) {
        call(|driver| {
            let recorded = driver.graphs.get(&graph).cloned().ok_or(1u32)?;
            let handle = driver.handle();
            driver.graphs.insert(handle, recorded);
            unsafe { set(exec, handle) };
            Ok(())
        })
    }
    fn cuGraphLaunch(exec: Handle, stream: Handle) {
        call(|driver| {
            let recorded = driver.graphs.get(&exec).cloned().ok_or(1u32)?;
            recorded.into_iter().try_for_each(|work| driver.queue(stream, work))
        })
    }
    fn cuGraphExecDestroy(exec: Handle) {
        call(|driver| driver.graphs.remove(&exec).map(|_| ()).ok_or(1))
    }
    fn cuGraphDestroy(graph: Handle) {
        call(|driver| driver.graphs.remove(&graph).map(|_| ()).ok_or(1))
    }
    fn cuStreamSynchronize(stream: Handle) {
        wait(|| call(|driver| driver.run(stream)))
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        unsafe { set(mode, CAPTURE_MODE.replace(*mode)) };
        0
    }
    fn cuStreamQuery(stream: Handle) {
        // Work runs when somebody waits for it.
        call_outside_of_captures(|driver| {
            let stream = driver.stream(stream);
            if setting("EAGER", 0) != 0 {
                return driver.run(stream);
            }
            match driver.streams.get(&stream) {
            _ if driver.recording.contains_key(&stream) => violation("a recording stream is asked"),
            Some(queue) if queue.is_empty() => Ok(()),
            Some(_) => Err(600),
            None => violation("no such stream"),
        }})
    }
    fn cuStreamIsCapturing(stream: Handle, status: *mut c_uint) {
        call(|driver| {
            let stream = driver.stream(stream);
            let is_recording = driver.recording.contains_key(&stream);
            unsafe { set(status, c_uint::from(is_recording)) };
            Ok(())
        })
    }
    fn cuMemAlloc_v2(address: *mut Address, bytes: usize) {
        if setting("POOLS", 1) != 0 {
            violation("memory is not taken from the pool");
        }
        call_outside_of_captures(|driver| unsafe { allocate(driver, address, bytes) })
    }
    fn cuMemAllocAsync(address: *mut Address, bytes: usize, _stream: Handle) {
        if setting("POOLS", 1) == 0 {
            return 801;
        }
        call_outside_of_captures(|driver| unsafe { allocate(driver, address, bytes) })
    }
    fn cuMemFree_v2(address: Address) {
        call(|driver| {
            let uses = |work: &Work| match work {
                Work::Set { to, .. } | Work::In { to, .. } => *to == address,
                Work::Out { from, .. } => *from == address,
                Work::Copy { to, from, .. } => *to == address || *from == address,
                Work::Launch { args, .. } => args.contains(&(address as usize)),
                Work::Free(_)
                | Work::Event(..)
                | Work::WaitFor(..)
                | Work::Host(..)
                | Work::Collective => false,
            };
            if driver.streams.values().flatten().any(uses) {
                violation("memory is freed beside queued work");
            }
            driver.memory.remove(&address).map(|_| ()).ok_or(1)
        })
    }
    fn cuMemFreeAsync(address: Address, stream: Handle) {
        call(|driver| driver.queue(stream, Work::Free(address)))
    }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        call(|driver| {
            let used: usize = driver.memory.values().map(|memory| memory.len()).sum();
            let all = setting("MEMORY", 1 << 24) as usize;
            unsafe { set(total, all) };
            unsafe { set(free, all.saturating_sub(used)) };
            Ok(())
        })
    }
    fn cuMemsetD8Async(to: Address, value: u8, bytes: usize, stream: Handle) {
        let value = vec![value];
        call(|driver| driver.queue(stream, Work::Set { to, value, pitch: 1, len: bytes }))
    }
    fn cuMemsetD16Async(to: Address, value: u16, len: usize, stream: Handle) {
        let value = value.to_le_bytes().to_vec();
        call(|driver| driver.queue(stream, Work::Set { to, value, pitch: 2, len }))
    }
    fn cuMemsetD32Async(to: Address, value: u32, len: usize, stream: Handle) {
        let value = value.to_le_bytes().to_vec();
        call(|driver| driver.queue(stream, Work::Set { to, value, pitch: 4, len }))
    }
    fn cuMemsetD2D32Async(
        to: Address,
        pitch: usize,
        value: u32,
        width: usize,
        height: usize,
        stream: Handle
    ) {
        let value = value.to_le_bytes().repeat(width);
        call(|driver| driver.queue(stream, Work::Set { to, value, pitch, len: height }))
    }
    fn cuMemcpyDtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: Handle) {
        call(|driver| driver.queue(stream, Work::Copy { to, from, bytes }))
    }
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        call(|driver| {
            if bytes as u64 > setting("MEMORY", 1 << 24) {
                return Err(2);
            }
            let mut memory = vec![0xcdcd_cdcd_cdcd_cdcd_u64; bytes.div_ceil(8)].into_boxed_slice();
            let at = memory.as_mut_ptr();
            driver.host.insert(at as usize, memory);
            unsafe { set(address, at.cast()) };
            Ok(())
        })
    }
    fn cuMemFreeHost(address: *mut c_void) {
        call(|driver| {
            let uses = |work: &Work| match work {
                Work::In { from, .. } => *from == address as usize,
                Work::Out { to, .. } => *to == address as usize,
                _ => false,
            };
            if driver.streams.values().flatten().any(uses) {
                violation("host memory is freed beside a queued copy");
            }
            driver.host.remove(&(address as usize)).map(|_| ()).ok_or(1)
        })
    }
    fn cuDeviceGetDefaultMemPool(pool: *mut Handle, _device: c_int) {
        unsafe { set(pool, 0x9001) };
        0
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, _device: c_int, _peer: c_int) {
        unsafe { set(can, 0) };
        0
    }
    fn cuMemPoolSetAccess(pool: Handle, _map: *const c_void, _count: usize) {
        if pool == 0x9001 { 0 } else { 1 }
    }
    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_uint, value: *const u64) {
        if pool != 0x9001 || attribute != 4 || unsafe { *value } != 1 << 20 {
            return 1;
        }
        0
    }
    fn cuMemPoolTrimTo(pool: Handle, bytes: usize) {
        if (pool, bytes) == (0x9001, 0) { 0 } else { 1 }
    }
    fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, _function: Handle, config: *const Config) {
        let config = unsafe { &*config };
        unsafe { set(clusters, 3 * 2048 / config.threads[0] as c_int / 2) };
        0
    }
    fn cuEventQuery(event: Handle) {
        call(|driver| match driver.records.get(&event).copied() {
            Some((stream, count)) if setting("EAGER", 0) != 0 => {
                driver.run_until(stream, Some((event, count)))
            }
            Some((_, count)) if driver.reached.get(&event).is_none_or(|r| *r < count) => Err(600),
            _ => Ok(()),
        })
    }
    fn cuMemcpyHtoDAsync_v2(to: Address, from: *const c_void, bytes: usize, stream: Handle) {
        call(|driver| driver.queue(stream, Work::In { to, from: from as usize, bytes }))
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Address, bytes: usize, stream: Handle) {
        call(|driver| {
            let is_pageable = !driver.host.contains_key(&(to as usize));
            while is_pageable && setting("EAGER", 0) != 0 && driver.run(stream) == Err(NOT_READY) {
                std::thread::sleep(Duration::from_millis(1));
            }
            driver.queue(stream, Work::Out { to: to as usize, from, bytes })
        })
    }
    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        len: c_uint,
        keys: *const c_int,
        values: *const *mut c_void
    ) {
        let text = unsafe {
            let header = std::slice::from_raw_parts(image.cast::<u8>(), 4);
            if header == b"\x7fELF" {
                if setting("REFUSES_CODE", 0) != 0 {
                    return 209;
                }
                let bytes = image.cast::<u8>().add(4).cast::<u64>().read_unaligned() as usize;
                std::slice::from_raw_parts(image.cast::<u8>().add(12), bytes - 1)
            } else {
                CStr::from_ptr(image.cast()).to_bytes()
            }
        };
        let logs = unsafe { Logs::of(len, keys, values) };
        let lines = String::from_utf8_lossy(text).into_owned();
        if let Some(line) = lines.lines().position(|line| line.contains("nonsense")) {
            let line = line + 1;
            let text = format!("ptxas application ptx input, line {line}; error   : Not an opcode");
            logs.error.write(&text);
            return 218;
        }
        logs.info.write(&said_of(&lines, false));
        call_outside_of_captures(|driver| {
            let handle = driver.handle();
            driver.modules.insert(handle, text.to_vec());
            unsafe { set(module, handle) };
            Ok(())
        })
    }
    fn cuLinkCreate_v2(
        len: c_uint,
        keys: *const c_int,
        values: *const *mut c_void,
        state: *mut Handle
    ) {
        if setting("LINKER", 1) == 0 {
            return 801;
        }
        call(|driver| {
            let handle = driver.handle();
            driver.links.insert(handle, (Vec::new(), unsafe { Logs::of(len, keys, values) }));
            unsafe { set(state, handle) };
            Ok(())
        })
    }
    fn cuLinkAddData_v2(
        state: Handle,
        kind: c_int,
        data: *const u8,
        bytes: usize,
        _name: *const c_char,
        _len: c_uint,
        _keys: *const c_int,
        _values: *const *mut c_void
    ) {
        let text = unsafe { std::slice::from_raw_parts(data, bytes) };
        if kind != 1 || String::from_utf8_lossy(text).contains("nonsense") {
            return 218;
        }
        call(|driver| {
            let (link, _) = driver.links.get_mut(&state).ok_or(1u32)?;
            // The header states how long the code is.
            link.extend(b"\x7fELF");
            link.extend((bytes as u64).to_le_bytes());
            link.extend(text);
            Ok(())
        })
    }
    fn cuLinkComplete(state: Handle, code: *mut *const u8, bytes: *mut usize) {
        call(|driver| {
            driver.compilations += 1;
            let (link, logs) = driver.links.get(&state).ok_or(1u32)?;
            logs.info.write(&said_of(&String::from_utf8_lossy(link), true));
            unsafe { set(code, link.as_ptr()) };
            unsafe { set(bytes, link.len()) };
            Ok(())
        })
    }
    fn cuLinkDestroy(state: Handle) {
        call(|driver| driver.links.remove(&state).map(|_| ()).ok_or(1))
    }
    fn cuModuleUnload(module: Handle) {
        call(|driver| {
            let works = driver.streams.values().flatten();
            for work in works {
                if matches!(work, Work::Launch { module: m, .. } if *m == module) {
                    violation("code is unloaded under a queued launch");
                }
            }
            driver.functions.retain(|_, (m, _)| *m != module);
            driver.modules.remove(&module).map(|_| ()).ok_or(1)
        })
    }
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        call(|driver| {
            if !driver.modules.contains_key(&module) {
                return Err(1);
            }
            if name == "missing" {
                return Err(500);
            }
            let handle = driver.handle();
            driver.functions.insert(handle, (module, name));
            unsafe { set(function, handle) };
            Ok(())
        })
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, _function: Handle) {
        let answer = match attribute {
            0 => setting("FUNCTION_THREADS", 1024) as c_int,
            4 => 40,
            _ => return 1,
        };
        unsafe { set(value, answer) };
        0
    }
    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        let which = match attribute {
            8 => 0,
            14 => 1,
            _ => return 1,
        };
        call(|driver| {
            driver.allowed.entry(function).or_default()[which] = value as u32;
            Ok(())
        })
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        _function: Handle,
        threads: c_int,
        _shared_bytes: usize
    ) {
        unsafe { set(blocks, 2048 / threads) };
        0
    }
    fn cuLaunchKernelEx(
        config: *const Config,
        function: Handle,
        params: *const *const u64,
        extra: *const *const c_void
    ) {
        let config = unsafe { &*config };
        if !extra.is_null() {
            return 1;
        }
        // Cluster, programmatic, cooperative, the launch's shared memory, and how much of it is
        // allowed.
        let mut shape = [0; 8];
        for i in 0..config.attribute_count as usize {
            let attribute = unsafe { &*config.attributes.add(i) };
            match attribute.id {
                4 => shape[..3].copy_from_slice(&attribute.value[..3]),
                6 => shape[3] = attribute.value[0],
                2 => shape[4] = attribute.value[0],
                _ => return 1,
            }
        }
        shape[5] = config.shared_bytes;
        let blocks: u64 = config.blocks.iter().map(|n| u64::from(*n)).product();
        if shape[4] != 0 && blocks > 3 * 2048 / u64::from(config.threads.iter().product::<u32>()) {
            return 720;
        }
        let threads = config.blocks.iter().chain(&config.threads).map(|n| u64::from(*n)).product();
        call(|driver| {
            let Some((module, kernel)) = driver.functions.get(&function).cloned() else {
                violation("a launch of code that is not loaded");
            };
            let allowed = driver.allowed.get(&function).copied().unwrap_or_default();
            shape[6..].copy_from_slice(&allowed);
            if config.shared_bytes > allowed[0] {
                return Err(1);
            }
            let args = match kernel.as_str() {
                // Its first parameter has 128 bytes.
                "tensor_map" => unsafe {
                    let map = std::slice::from_raw_parts(*params, 16);
                    map.iter().map(|n| *n as usize).chain([**params.add(1) as usize]).collect()
                },
                _ => (0..param_count(&kernel))
                    .map(|i| unsafe { **params.add(i) as usize })
                    .collect(),
            };
            driver.queue(config.stream, Work::Launch { module, kernel, threads, args, shape })
        })
    }
    fn cuTensorMapEncodeIm2col(
        map: *mut [u64; 16],
        data_type: c_uint,
        rank: c_uint,
        address: Address,
        dims: *const u64,
        strides: *const u64,
        lower: *const c_int,
        upper: *const c_int,
        channels: c_uint,
        pixels: c_uint,
        element_strides: *const u32,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint
    ) {
        if map as usize % 64 != 0 {
            violation("a tensor map that is not aligned");
        }
        // Records the arguments, for three-dimensional maps: the last value of each list.
        let lists = unsafe { [*dims.add(2), *strides.add(1), u64::from(*element_strides.add(1))] };
        let corners = unsafe { [*lower, *upper] }.map(|n| n as u64);
        let kinds = [data_type, rank, interleave, swizzle, l2_promotion, fill, channels, pixels];
        let mut all = [0; 16];
        let lists = [&[address][..], &kinds.map(u64::from), &lists, &corners].concat();
        all[..lists.len()].copy_from_slice(&lists);
        unsafe { set(map, all) };
        0
    }
    fn cuTensorMapEncodeTiled(
        map: *mut [u64; 16],
        data_type: c_uint,
        rank: c_uint,
        address: Address,
        dims: *const u64,
        strides: *const u64,
        box_dims: *const u32,
        element_strides: *const u32,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint
    ) {
        if map as usize % 64 != 0 {
            violation("a tensor map that is not aligned");
        }
        // Records the arguments value by value, for two-dimensional maps.
        let [dims, strides] = unsafe { [[*dims, *dims.add(1)], [*strides, 0]] };
        let [boxes, steps] =
            [box_dims, element_strides].map(|list| unsafe { [*list, *list.add(1)] }.map(u64::from));
        let kinds = [data_type, rank, interleave, swizzle, l2_promotion, fill].map(u64::from);
        let mut all = [0; 16];
        let lists = [&[address][..], &kinds, &dims, &strides[..1], &boxes, &steps].concat();
        all[..lists.len()].copy_from_slice(&lists);
        unsafe { set(map, all) };
        0
    }
    fn cuEventCreate(event: *mut Handle, _flags: c_uint) {
        call(|driver| {
            let handle = driver.handle();
            driver.events.insert(handle, None);
            unsafe { set(event, handle) };
            Ok(())
        })
    }
    fn cuEventRecord(event: Handle, stream: Handle) {
        call(|driver| {
            let stream = driver.stream(stream);
            let count = driver.records.get(&event).map_or(0, |(_, count)| *count) + 1;
            driver.records.insert(event, (stream, count));
            driver.queue(stream, Work::Event(event, count))
        })
    }
    fn cuEventSynchronize(event: Handle) {
        call(|driver| {
            let Some((stream, count)) = driver.records.get(&event).copied() else { return Ok(()) };
            driver.run_until(stream, Some((event, count)))
        })
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        call(|driver| {
            let time = |event| driver.events.get(&event).copied().flatten().ok_or(600u32);
            unsafe { set(milliseconds, time(end)? - time(start)?) };
            Ok(())
        })
    }
    fn cuEventDestroy_v2(event: Handle) {
        // The threads that watch a communicator are slow. Linux keeps 15 characters of their names.
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        if name.trim_end() == "tilewright nccl" {
            std::thread::sleep(Duration::from_millis(setting("WATCH_MS", 0)));
        }
        call(|driver| driver.events.remove(&event).map(|_| ()).ok_or(1))
    }
}

/// A compilation's log buffers.
#[derive(Clone, Copy, Default)]
struct Logs {
    info: Log,
    error: Log,
}

/// A buffer's address and size. Address 0 means that there is none.
#[derive(Clone, Copy, Default)]
struct Log(usize, usize);

impl Logs {
    unsafe fn of(len: c_uint, keys: *const c_int, values: *const *mut c_void) -> Logs {
        let option = |key: c_int| {
            // SAFETY: there are `len` keys and values.
            let at = (0..len as usize).find(|i| unsafe { *keys.add(*i) } == key);
            at.map_or(0, |i| unsafe { *values.add(i) } as usize)
        };
        Logs { info: Log(option(3), option(4)), error: Log(option(5), option(6)) }
    }
}

impl Log {
    fn write(self, text: &str) {
        let Log(to, size) = self;
        if to == 0 {
            return;
        }
        let bytes = text.as_bytes();
        let n = bytes.len().min(size.saturating_sub(1));
        // SAFETY: the caller of the compilation gave this buffer's size.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, n);
            (to as *mut u8).add(n).write(0);
        }
    }
}

/// Returns the compiler's log for a correct text, in the linker's form if it is linked.
fn said_of(text: &str, is_linked: bool) -> String {
    let mut said = String::new();
    if text.contains("setmaxnreg") {
        if is_linked {
            said += "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain \
                     compatibility across compilation units.\n";
        } else if !text.contains(".maxnreg") {
            said += "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to \
                     determine register count at entry.\n";
        }
    }
    if text.contains("wgmma.") {
        said += "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
                 serialized due to ill formed pipeline stage in the function 'empty'\n";
    }
    said + "ptxas info    : Used 8 registers"
}

/// The driver's `CUlaunchConfig`.
#[repr(C)]
pub struct Config {
    blocks: [c_uint; 3],
    threads: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: *const Attribute,
    attribute_count: c_uint,
}

/// The driver's `CUlaunchAttribute`.
#[repr(C)]
pub struct Attribute {
    id: c_uint,
    pad: [u8; 4],
    value: [u32; 16],
}

unsafe fn allocate(driver: &mut Driver, address: *mut Address, bytes: usize) -> Result<(), u32> {
    let used: usize = driver.memory.values().map(|memory| memory.len()).sum();
    if bytes as u64 > setting("MEMORY", 1 << 24).saturating_sub(used as u64) {
        return Err(2);
    }
    // Memory that was never written must not pass for zeros.
    let memory = vec![0xcd; bytes].into_boxed_slice();
    // A real address, so that no two allocations share one.
    let at = memory.as_ptr() as Address;
    driver.memory.insert(at, memory);
    // SAFETY: the caller passes a place for the result.
    unsafe { set(address, at) };
    Ok(())
}
