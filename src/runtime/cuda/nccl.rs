//! Calls NCCL, which is loaded at first use. `comm` calls it for communicators on GPUs.
//!
//! The types are declared here rather than taken from `cudarc`. It has one feature per NCCL
//! version, a program can turn on only one of them, and that choice belongs to the program.

use std::any::Any;
use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, MutexGuard, OnceLock, mpsc};
use std::thread;

use smallvec::SmallVec;

use super::capture::Launched;
use super::context::{self, Context};
use super::kernel_name::KernelName;
use super::library::{self, library_functions};
use super::library_folders::library_folders;
use super::memory::{Memory, lock_shared};
use super::nccl_watch::{ProcessId, Shared};
use super::stream::Stream;
use super::submission_counter::QueuedLaunches;
use super::uses::{Note, Uses};
use crate::ir::types::Scalar;
use crate::runtime::comm::{
    CallKind, CallShape, CommError, CommOptions, NcclVersion, ReduceOp, UniqueId,
};
use crate::runtime::error::RuntimeError;

/// The first version whose communicators have everything that we use.
const NEEDED: NcclVersion = NcclVersion { numbers: [2, 18, 0] };

/// The library's names.
const NAMES: &[&str] = if cfg!(windows) { &["nccl.dll"] } else { &["libnccl.so.2", "libnccl.so"] };

pub(super) const SUCCESS: u32 = 0;
pub(super) const IN_PROGRESS: u32 = 7;

/// NCCL's communicator handle.
pub(super) type RawComm = *mut c_void;
type RawStream = *mut c_void;

/// NCCL's `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Id([u8; UniqueId::BYTES]);

/// The first fields of `ncclConfig_t`. A newer library fills in the rest of a smaller one.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cluster_blocks: c_int,
    min_blocks: c_int,
    max_blocks: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
}

impl Config {
    /// Returns a configuration in which NCCL chooses everything except the maximum block count.
    fn new(max_blocks: Option<u32>) -> Config {
        const UNDEFINED: c_int = c_int::MIN;
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21800,
            blocking: 1,
            cluster_blocks: UNDEFINED,
            min_blocks: UNDEFINED,
            max_blocks: max_blocks.map_or(UNDEFINED, |blocks| blocks.clamp(1, 64) as c_int),
            net_name: ptr::null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
        }
    }
}

library_functions! {
    pub(super) struct Nccl { version: NcclVersion } returns u32;

    fn ncclGetUniqueId(id: *mut Id);
    fn ncclCommInitRankConfig(
        comm: *mut RawComm,
        ranks: c_int,
        id: Id,
        rank: c_int,
        config: *mut Config
    );
    fn ncclCommDestroy(comm: RawComm);
    fn ncclCommAbort(comm: RawComm);
    fn ncclCommGetAsyncError(comm: RawComm, error: *mut u32);
    fn ncclGroupStart();
    fn ncclGroupEnd();
    fn ncclAllReduce(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        kind: u32,
        op: u32,
        comm: RawComm,
        stream: RawStream
    );
    fn ncclAllGather(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        kind: u32,
        comm: RawComm,
        stream: RawStream
    );
    fn ncclReduceScatter(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        kind: u32,
        op: u32,
        comm: RawComm,
        stream: RawStream
    );
    fn ncclBroadcast(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        kind: u32,
        root: c_int,
        comm: RawComm,
        stream: RawStream
    );
    fn ncclSend(
        from: *const c_void,
        count: usize,
        kind: u32,
        peer: c_int,
        comm: RawComm,
        stream: RawStream
    );
    fn ncclRecv(
        to: *mut c_void,
        count: usize,
        kind: u32,
        peer: c_int,
        comm: RawComm,
        stream: RawStream
    );
}

/// An NCCL function that returns text.
type GetText = unsafe extern "C" fn(u32) -> *const c_char;
type GetLastError = unsafe extern "C" fn(RawComm) -> *const c_char;

/// Functions that describe errors, which the library may lack.
static TEXTS: OnceLock<(Option<GetText>, Option<GetLastError>)> = OnceLock::new();

impl Nccl {
    /// Returns NCCL's functions. The result of the first call is kept for the whole process.
    pub(super) fn get() -> Result<&'static Nccl, RuntimeError> {
        static FOUND: OnceLock<Result<Nccl, CommError>> = OnceLock::new();
        FOUND.get_or_init(Nccl::open).as_ref().map_err(|error| error.clone().into())
    }

    fn open() -> Result<Nccl, CommError> {
        let folders = library_folders("nccl", |name| std::env::var_os(name));
        let in_folders =
            folders.iter().flat_map(|folder| NAMES.iter().map(|name| folder.join(name)));
        let candidates: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).chain(in_folders).collect();
        let library = library::open(&candidates)
            .ok_or_else(|| CommError::NoLibrary { tried: NAMES.join(" and ") })?;
        // Ask for the version first, because an old library may lack other functions.
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> u32;
        let symbol = "ncclGetVersion";
        // SAFETY: this is the function's type.
        let get_version = unsafe { library::symbol::<GetVersion>(library, symbol) }
            .ok_or(CommError::MissingSymbol { symbol })?;
        let mut number = 0;
        // SAFETY: `number` is a local out parameter.
        let code = unsafe { get_version(&mut number) };
        let number = if code == SUCCESS { u32::try_from(number).unwrap_or(0) } else { 0 };
        // Decoded as `NCCL_VERSION` encodes it from 2.9 on.
        let found = NcclVersion { numbers: [number / 10_000, number / 100 % 100, number % 100] };
        if found < NEEDED {
            return Err(CommError::OldVersion { found, needed: NEEDED });
        }
        TEXTS.get_or_init(|| {
            // SAFETY: these are the functions' types.
            unsafe {
                (
                    library::symbol(library, "ncclGetErrorString"),
                    library::symbol(library, "ncclGetLastError"),
                )
            }
        });
        Nccl::find(library, found).map_err(|symbol| CommError::MissingSymbol { symbol })
    }

    /// Returns the error for a call that returned `status`.
    pub(super) fn error(&self, call: &'static str, status: u32) -> CommError {
        let text = |text: *const c_char| {
            if text.is_null() {
                return String::new();
            }
            // SAFETY: NCCL returns a zero-terminated text that it keeps alive.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
        };
        let (name, last) = TEXTS.get().copied().unwrap_or_default();
        // SAFETY: the function takes any integer.
        let name = name.map(|name| text(unsafe { name(status) })).unwrap_or_default();
        // SAFETY: without a communicator it returns the last error of this thread's calls.
        let detail = last.map(|last| text(unsafe { last(ptr::null_mut()) })).unwrap_or_default();
        CommError::Status { call, status, name, detail }
    }

    fn check(&self, call: &'static str, status: u32) -> Result<(), RuntimeError> {
        if status == SUCCESS { Ok(()) } else { Err(self.error(call, status).into()) }
    }
}

pub(in crate::runtime) fn version() -> Result<NcclVersion, RuntimeError> {
    Nccl::get().map(|api| api.version)
}

pub(in crate::runtime) fn unique_id() -> Result<[u8; UniqueId::BYTES], RuntimeError> {
    let (api, mut id) = (Nccl::get()?, Id([0; UniqueId::BYTES]));
    // SAFETY: `id` is a local out parameter.
    api.check("ncclGetUniqueId", unsafe { (api.ncclGetUniqueId)(&mut id) })?;
    Ok(id.0)
}

/// A rank on a GPU. A graph that contains one of its calls keeps it alive.
pub(in crate::runtime) struct Comm {
    shared: Arc<Shared>,
    /// Track the uses of NCCL's code, which is never unloaded.
    uses: Arc<Uses>,
    name: KernelName,
}

/// A communicator that moves out of the thread that connected it.
struct Connected(RawComm);

// SAFETY: a communicator is a name, and any thread may use it.
unsafe impl Send for Connected {}

impl Comm {
    /// Connects the ranks from `first` on, one per context. The communicator has `ranks` ranks in
    /// total.
    pub(in crate::runtime) fn connect(
        id: &[u8; UniqueId::BYTES],
        contexts: &[&'static Context],
        first: u32,
        ranks: u32,
        options: CommOptions,
    ) -> Result<Vec<Arc<Comm>>, RuntimeError> {
        let api = Nccl::get()?;
        context::share_pools()?;
        let (all, id) = (contexts.to_vec(), *id);
        let (send, receive) = mpsc::channel();
        // NCCL waits for the other ranks without a limit, so let it wait in a thread that can be
        // left behind.
        let waits = move || {
            let _ = send.send(init(api, &all, &id, first, ranks, options.max_blocks));
        };
        let started =
            thread::Builder::new().name("tilewright nccl connect".to_owned()).spawn(waits);
        started.map_err(|error| no_thread(&error))?;
        let timeout = options.timeout;
        let timed_out = |_| CommError::TimedOut { call: "`connect`".to_owned(), timeout };
        let connected = receive.recv_timeout(timeout).map_err(timed_out)??;
        let comms = contexts.iter().zip(first..).zip(connected).map(|((&context, rank), raw)| {
            Ok(Arc::new(Comm {
                shared: Shared::start(api, context, raw.0, id, rank, options)?,
                uses: Arc::default(),
                name: context.kernel_names().add("NCCL"),
            }))
        });
        let comms: Vec<_> = comms.collect::<Result<_, RuntimeError>>()?;
        if (comms.len() as u32) < ranks {
            exchange_processes(&comms, ranks)?;
        }
        Ok(comms)
    }

    pub(in crate::runtime) fn check(&self) -> Result<(), RuntimeError> {
        self.shared.check()
    }

    pub(in crate::runtime) fn abort(&self) {
        self.shared.abort();
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Launched for Comm {
    fn check(&self) -> Result<(), RuntimeError> {
        self.shared.check()
    }

    fn note(&self, stream: &Arc<Stream>) {
        self.shared.note_work(stream);
    }
}

pub(super) fn no_thread(error: &std::io::Error) -> RuntimeError {
    let (name, detail) = ("no thread".to_owned(), error.to_string());
    CommError::Status { call: "pthread_create", status: 0, name, detail }.into()
}

/// Creates the communicators for the ranks from `first` on.
fn init(
    api: &'static Nccl,
    contexts: &[&'static Context],
    id: &[u8; UniqueId::BYTES],
    first: u32,
    ranks: u32,
    max_blocks: Option<u32>,
) -> Result<Vec<Connected>, RuntimeError> {
    let mut comms: Vec<RawComm> = vec![ptr::null_mut(); contexts.len()];
    // NCCL reads the configurations until the group ends.
    let mut configs: Vec<Config> = contexts.iter().map(|_| Config::new(max_blocks)).collect();
    // SAFETY: the function has no preconditions.
    api.check("ncclGroupStart", unsafe { (api.ncclGroupStart)() })?;
    let mut result = Ok(());
    for (((context, comm), config), rank) in
        contexts.iter().zip(&mut comms).zip(&mut configs).zip(first..)
    {
        let current = context.enter();
        // SAFETY: the rank's context is current. `comm` and `config` outlive the group.
        let one = current.and_then(|_current| unsafe {
            let call = api.ncclCommInitRankConfig;
            let status = call(comm, ranks as c_int, Id(*id), rank as c_int, config);
            api.check("ncclCommInitRankConfig", status)
        });
        result = result.and(one);
    }
    // SAFETY: the group was started above.
    let ended = api.check("ncclGroupEnd", unsafe { (api.ncclGroupEnd)() });
    result.and(ended)?;
    Ok(comms.into_iter().map(Connected).collect())
}

/// Tells every rank which processes the others run in, so that it notices when one dies.
fn exchange_processes(comms: &[Arc<Comm>], ranks: u32) -> Result<(), RuntimeError> {
    let own = ProcessId::own().to_bytes();
    let mut buffers = Vec::new();
    for comm in comms {
        let context = comm.shared.context;
        let from = Memory::from_slice(context, &own)?;
        buffers.push((from, Memory::zeros(context, own.len() * ranks as usize)?));
    }
    let shape = CallShape { kind: CallKind::AllGather, scalar: Scalar::U8, count: own.len() };
    let calls = comms.iter().zip(&buffers).map(|(comm, (from, to))| {
        let stream = comm.shared.context.default_stream();
        CommCall { comm, stream, shape, from: Some(from), to: Some(to) }
    });
    run(&calls.collect::<Vec<_>>())?;
    for (comm, (_, to)) in comms.iter().zip(&buffers) {
        comm.shared.set_processes(&to.to_vec::<u8>()?);
    }
    Ok(())
}

/// A call whose arguments are checked: all of them are on the communicator's device.
pub(in crate::runtime) struct CommCall<'c> {
    pub(in crate::runtime) comm: &'c Arc<Comm>,
    pub(in crate::runtime) stream: &'c Arc<Stream>,
    pub(in crate::runtime) shape: CallShape,
    pub(in crate::runtime) from: Option<&'c Memory>,
    pub(in crate::runtime) to: Option<&'c Memory>,
}

impl<'c> CommCall<'c> {
    fn context(&self) -> &'static Context {
        self.comm.shared.context
    }

    /// Returns the memory, and whether the call writes it.
    fn memory(&self) -> impl Iterator<Item = (&'c Memory, bool)> + Clone + use<'c> {
        let from = self.from.into_iter().map(|memory| (memory, false));
        from.chain(self.to.into_iter().map(|memory| (memory, true)))
    }

    fn launches(&self) -> QueuedLaunches {
        QueuedLaunches { count: 1, kernel: self.comm.name.id() }
    }

    /// Passes the call to NCCL.
    fn call(&self, api: &Nccl) -> Result<(), RuntimeError> {
        let CallShape { kind, scalar, count } = self.shape;
        let (kind_of_data, per_element) = data_type(scalar);
        let count = count * per_element;
        let address = |memory: Option<&Memory>| memory.map_or(0, Memory::address) as *mut c_void;
        let to = address(self.to);
        let from = if self.from.is_some() { address(self.from) } else { to };
        let (from, comm) = (from.cast_const(), self.comm.shared.raw);
        let (stream, data) = (self.stream.raw().cast(), kind_of_data);
        // SAFETY: the communicator is alive, because it has not failed and the call is counted. The
        // memory has `count` elements, or `count` per rank. It is freed after the uses that are
        // noted, or lives as long as the graph that records the call.
        unsafe {
            match kind {
                CallKind::AllReduce(op) => api.check(
                    "ncclAllReduce",
                    (api.ncclAllReduce)(from, to, count, data, operation(op), comm, stream),
                ),
                CallKind::AllGather => api.check(
                    "ncclAllGather",
                    (api.ncclAllGather)(from, to, count, data, comm, stream),
                ),
                CallKind::ReduceScatter(op) => api.check(
                    "ncclReduceScatter",
                    (api.ncclReduceScatter)(from, to, count, data, operation(op), comm, stream),
                ),
                CallKind::Broadcast { root } => api.check(
                    "ncclBroadcast",
                    (api.ncclBroadcast)(from, to, count, data, root as c_int, comm, stream),
                ),
                CallKind::Send { peer } => api.check(
                    "ncclSend",
                    (api.ncclSend)(from, count, data, peer as c_int, comm, stream),
                ),
                CallKind::Recv { peer } => api.check(
                    "ncclRecv",
                    (api.ncclRecv)(to, count, data, peer as c_int, comm, stream),
                ),
            }
        }
    }
}

/// Counts a call in progress. Creating this fails if the communicator has failed.
struct InCall<'c>(&'c Shared);

impl<'c> InCall<'c> {
    fn new(shared: &'c Shared) -> Result<InCall<'c>, RuntimeError> {
        shared.calls.fetch_add(1, SeqCst);
        let in_call = InCall(shared);
        shared.check()?;
        shared.started.fetch_add(1, Relaxed);
        Ok(in_call)
    }
}

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, SeqCst);
    }
}

/// Queues or records a group's calls.
pub(in crate::runtime) fn run(calls: &[CommCall<'_>]) -> Result<(), RuntimeError> {
    let Some(first) = calls.first() else { return Ok(()) };
    let api = Nccl::get()?;
    let in_calls = calls.iter().map(|call| InCall::new(&call.comm.shared));
    let _in_calls: SmallVec<[InCall<'_>; 1]> = in_calls.collect::<Result<_, _>>()?;
    let _current = first.context().enter()?;
    let mut recording: SmallVec<[&Arc<Stream>; 1]> = SmallVec::new();
    let mut queued: SmallVec<[&CommCall<'_>; 1]> = SmallVec::new();
    for call in calls {
        call.stream.check_not_capturing()?;
        if call.stream.captured(|_| ()).is_none() {
            queued.push(call);
        } else if !recording.iter().any(|stream| Arc::ptr_eq(stream, call.stream)) {
            recording.push(call.stream);
        }
    }
    let _graphs = lock_all_shared(&queued)?;
    for call in &queued {
        let _current = call.context().enter()?;
        call.memory().try_for_each(|(memory, writes)| memory.uses().order(call.stream, writes))?;
    }
    let result = record(&recording, calls, &mut || call_all(api, calls));
    // Noted even on failure, because NCCL may have queued some of the work.
    for call in &queued {
        let uses = |note: &mut Note<'_>| {
            call.memory().for_each(|(memory, writes)| note(memory.uses(), writes));
        };
        let Ok(()) = call.stream.queue(Some(call.launches()), uses, || Ok::<(), Infallible>(()));
        call.comm.shared.note_work(call.stream);
    }
    // If the communicator was aborted, its error says more than the call's.
    if result.is_err() {
        calls.iter().try_for_each(|call| call.comm.shared.check())?;
    }
    result?;
    calls.iter().try_for_each(|call| {
        call.stream.check_not_captured(|| {
            let memory = call.memory().map(|(memory, _)| Arc::clone(memory.allocation()));
            (memory.collect::<Vec<_>>(), Arc::clone(call.comm))
        })
    })
}

/// Passes all calls to NCCL as one group.
fn call_all(api: &Nccl, calls: &[CommCall<'_>]) -> Result<(), RuntimeError> {
    if let [call] = calls {
        return call.call(api);
    }
    // SAFETY: the function has no preconditions.
    api.check("ncclGroupStart", unsafe { (api.ncclGroupStart)() })?;
    let called = calls.iter().try_for_each(|call| {
        let _current = call.context().enter()?;
        call.call(api)
    });
    // SAFETY: the group was started above, and each start has its end.
    let ended = api.check("ncclGroupEnd", unsafe { (api.ncclGroupEnd)() });
    called.and(ended)
}

/// Makes the calls while all streams that record graphs are kept recording, and notes there what
/// the graphs use.
fn record(
    streams: &[&Arc<Stream>],
    calls: &[CommCall<'_>],
    make: &mut dyn FnMut() -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let Some((stream, rest)) = streams.split_first() else { return make() };
    let recorded = stream.captured(|capture| {
        for call in calls.iter().filter(|call| Arc::ptr_eq(call.stream, stream)) {
            for (memory, writes) in call.memory() {
                memory.record_use(capture, writes)?;
            }
            let owner: Arc<dyn Any + Send + Sync> = Arc::clone(call.comm) as _;
            capture.note_launch(call.comm.name.id(), &call.comm.uses, None, owner);
            capture.note_launched(Arc::clone(call.comm) as Arc<dyn Launched>);
        }
        record(rest, calls, make)
    });
    // Another thread has ended the recording meanwhile.
    recorded.unwrap_or(Err(RuntimeError::StreamCaptures))
}

/// Like [`lock_shared`], but for memory of several contexts. Takes their locks in ordinal order, so
/// that two threads cannot deadlock.
fn lock_all_shared(
    calls: &[&CommCall<'_>],
) -> Result<SmallVec<[MutexGuard<'static, ()>; 1]>, RuntimeError> {
    let mut contexts: SmallVec<[&'static Context; 1]> =
        calls.iter().map(|call| call.context()).collect();
    contexts.sort_unstable_by_key(|context| context.ordinal());
    contexts.dedup_by(|a, b| ptr::eq(*a, *b));
    let mut locks = SmallVec::new();
    for context in contexts {
        let own = calls.iter().filter(|call| ptr::eq(call.context(), context));
        let memory = own.flat_map(|call| call.memory().map(|(memory, _)| memory));
        locks.extend(lock_shared(context, memory)?);
    }
    Ok(locks)
}

/// Returns the `ncclRedOp_t`.
fn operation(op: ReduceOp) -> u32 {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Product => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
        ReduceOp::Average => 4,
    }
}

/// Returns the `ncclDataType_t`, and how many of its elements make one of ours. Types that NCCL
/// cannot reduce are moved as bytes.
fn data_type(scalar: Scalar) -> (u32, usize) {
    match scalar {
        Scalar::I8 => (0, 1),
        Scalar::U8 => (1, 1),
        Scalar::I32 => (2, 1),
        Scalar::U32 => (3, 1),
        Scalar::I64 => (4, 1),
        Scalar::U64 => (5, 1),
        Scalar::F16 => (6, 1),
        Scalar::F32 => (7, 1),
        Scalar::F64 => (8, 1),
        Scalar::Bf16 => (9, 1),
        Scalar::Bool
        | Scalar::I16
        | Scalar::U16
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::Tf32 => (1, scalar.size_bytes() as usize),
    }
}
