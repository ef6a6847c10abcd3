//! The primary context of a GPU: its streams, its work in flight, its first fault.

use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicU64;
#[cfg(feature = "nccl")]
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

#[cfg(feature = "nccl")]
use super::api::MemoryAccess;
use super::api::{Api, device_count};
use super::kernel_name::KernelNames;
use super::pending_report::{AssertReports, Launches, PendingReports};
use super::status;
use super::stream::Stream;
use crate::ir::{LaunchBounds, Target};
#[cfg(feature = "nccl")]
use crate::runtime::comm::CommError;
use crate::runtime::driver_answer::{CudaVersion, driver_release};
use crate::runtime::error::RuntimeError;
use crate::runtime::fault::DeviceFault;
#[cfg(feature = "sim")]
use crate::runtime::fault::FaultKind;
use crate::runtime::limits::Limits;
use crate::runtime::properties::Properties;

/// The primary context of a GPU with its streams, retained until the process ends.
pub(in crate::runtime) struct Context {
    api: &'static Api,
    ordinal: usize,
    raw: sys::CUcontext,
    device: sys::CUdevice,
    /// The stream of work that names none; `default` adds its work in flight.
    raw_default: sys::CUstream,
    default: OnceLock<Arc<Stream>>,
    /// All streams in use.
    streams: Mutex<Vec<Weak<Stream>>>,
    graphs: Mutex<()>,
    /// The number of launches so far, about.
    launches: AtomicU64,
    kernel_names: KernelNames,
    name: String,
    label: String,
    sm: u16,
    target: Target,
    limits: Limits,
    properties: Properties,
    has_pools: bool,
    asserts: AssertReports,
    /// The failures of communicators that no call has returned yet, each with the number of the communicator.
    #[cfg(feature = "nccl")]
    comm_failures: Mutex<Vec<(u64, CommError)>>,
    /// Set once the context has a communicator.
    #[cfg(feature = "nccl")]
    has_comms: AtomicBool,
    #[cfg(feature = "nccl")]
    hung_comms: Mutex<Vec<HungComm>>,
    fault: OnceLock<DeviceFault>,
    /// The error of the first fault where a destructor has found it, until a call returns it.
    unreported: Mutex<Option<RuntimeError>>,
    #[cfg(feature = "sim")]
    violations: super::violations::Violations,
    driver: OnceLock<String>,
}

/// A communicator that has failed and whose work is not known to have ended.
#[cfg(feature = "nccl")]
struct HungComm {
    number: u64,
    error: CommError,
    failed_at: Instant,
}

/// The time in which an abort ends the work of a communicator that has failed. After it nobody waits for the work.
#[cfg(feature = "nccl")]
const ABORT_TIME: Duration = Duration::from_secs(5);

// SAFETY: the driver API may be called from any thread; its handles are names and not thread-bound. The
// current context, which is a thread's, is set by each call that needs it.
unsafe impl Send for Context {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Context {}

/// The contexts in use.
///
/// They stay until the process ends: CUDA leaves a context current on threads that it cannot know of, and
/// the handle of a released one is not safe to touch.
static OPEN: Mutex<Vec<&'static Context>> = Mutex::new(Vec::new());

impl Context {
    /// Returns the context of the GPU `ordinal`, made by the first call.
    #[inline]
    pub(in crate::runtime) fn open(ordinal: usize) -> Result<&'static Context, RuntimeError> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(RuntimeError::NoSuchDevice { ordinal, count });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = open.iter().find(|context| context.ordinal == ordinal) {
            context.check_alive()?;
            return Ok(context);
        }
        let context: &'static Context = Box::leak(Box::new(Context::create(ordinal)?));
        open.push(context);
        Ok(context)
    }

    #[inline]
    fn create(ordinal: usize) -> Result<Context, RuntimeError> {
        let api = Api::get()?;
        let mut device = 0;
        // SAFETY: `device` is a variable for the result.
        let code = unsafe { (api.cuDeviceGet)(&mut device, ordinal as c_int) };
        api.check("cuDeviceGet", code)?;

        let attribute = |attribute: Attribute| -> Result<u32, RuntimeError> {
            let mut value = 0;
            // SAFETY: `value` is a variable for the result.
            let code = unsafe { (api.cuDeviceGetAttribute)(&mut value, attribute, device) };
            api.check("cuDeviceGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let name = device_name(api, device)?;
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u16;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u16;
        let Some(target) = Target::for_compute_capability(major, minor) else {
            return Err(RuntimeError::UnsupportedDevice {
                ordinal,
                name,
                capability: (major, minor),
            });
        };
        let limits = Limits {
            blocks: [
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            threads: [
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            threads_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?
                .into(),
            shared_bytes_opt_in: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?
            .into(),
            // The driver tells the maximum number of blocks of a cluster for a function only.
            cluster_blocks: match attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? {
                0 => 1,
                _ => LaunchBounds::MAX_CLUSTER,
            },
        };
        let properties = Properties {
            capability: (major, minor),
            sm_count: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            threads_per_sm: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
            )?,
            registers_per_sm: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
            )?,
            shared_bytes_per_sm: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?
            .into(),
            l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
            memory_bus_bits: attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
            clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        };
        let has_pools = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;

        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a variable for the result.
        let code = unsafe { (api.cuDevicePrimaryCtxRetain)(&mut raw, device) };
        api.check("cuDevicePrimaryCtxRetain", code)?;
        let stream = create_stream(api, raw).inspect_err(|_| {
            // SAFETY: the context was retained above and is not used.
            unsafe { (api.cuDevicePrimaryCtxRelease_v2)(device) };
        })?;
        Ok(Context {
            api,
            ordinal,
            raw,
            device,
            raw_default: stream,
            default: OnceLock::new(),
            streams: Mutex::default(),
            graphs: Mutex::default(),
            launches: AtomicU64::new(0),
            kernel_names: KernelNames::default(),
            label: format!("GPU {ordinal} ({name})"),
            name,
            sm: major.saturating_mul(10).saturating_add(minor),
            target,
            limits,
            properties,
            has_pools,
            asserts: AssertReports::default(),
            #[cfg(feature = "nccl")]
            comm_failures: Mutex::default(),
            #[cfg(feature = "nccl")]
            has_comms: AtomicBool::new(false),
            #[cfg(feature = "nccl")]
            hung_comms: Mutex::default(),
            fault: OnceLock::new(),
            unreported: Mutex::default(),
            #[cfg(feature = "sim")]
            violations: Default::default(),
            driver: OnceLock::new(),
        })
    }

    pub(in crate::runtime) fn name(&self) -> &str {
        &self.name
    }

    /// `GPU 0 (NVIDIA H200)`
    pub(in crate::runtime) fn label(&self) -> &str {
        &self.label
    }

    pub(in crate::runtime) fn target(&self) -> Target {
        self.target
    }

    pub(in crate::runtime) fn limits(&self) -> Limits {
        self.limits
    }

    pub(in crate::runtime) fn properties(&self) -> Properties {
        self.properties
    }

    pub(super) fn sm_count(&self) -> u32 {
        self.properties.sm_count
    }

    pub(in crate::runtime) fn cuda_version(&self) -> CudaVersion {
        self.api.version
    }

    /// Sets the number of freed bytes that the driver keeps for later allocations.
    pub(in crate::runtime) fn keep_memory(&self, bytes: u64) -> Result<(), RuntimeError> {
        let Some(pool) = self.pool()? else { return Ok(()) };
        let (mut bytes, _current) = (bytes, self.enter()?);
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let place = std::ptr::from_mut(&mut bytes).cast();
        // SAFETY: the attribute is a number of 64 bits, which `place` is.
        let code = unsafe { (self.api.cuMemPoolSetAttribute)(pool, attribute, place) };
        self.check("cuMemPoolSetAttribute", code)
    }

    /// Gives freed memory back, after all work.
    pub(in crate::runtime) fn trim_memory(&self) -> Result<(), RuntimeError> {
        let Some(pool) = self.pool()? else { return Ok(()) };
        let _current = self.enter()?;
        self.wait()?;
        // SAFETY: the pool belongs to the device.
        let code = unsafe { (self.api.cuMemPoolTrimTo)(pool, 0) };
        self.check("cuMemPoolTrimTo", code)
    }

    /// Returns the memory pool, on devices with pools.
    fn pool(&self) -> Result<Option<sys::CUmemoryPool>, RuntimeError> {
        if !self.has_pools {
            return Ok(None);
        }
        let (mut pool, _current) = (std::ptr::null_mut(), self.enter()?);
        // SAFETY: `pool` is a variable for the result.
        let code = unsafe { (self.api.cuDeviceGetDefaultMemPool)(&mut pool, self.device) };
        self.check("cuDeviceGetDefaultMemPool", code)?;
        Ok(Some(pool))
    }

    /// Returns the driver, by the version of CUDA that it implements and, where the system tells it, its release.
    pub(super) fn driver(&self) -> &str {
        self.driver.get_or_init(|| {
            format!("{} {}", self.api.version, driver_release().unwrap_or_default())
        })
    }

    /// Free bytes and bytes in all.
    pub(in crate::runtime) fn memory(&self) -> Result<(u64, u64), RuntimeError> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: variables for the results; the context is current.
        let code = unsafe { (self.api.cuMemGetInfo_v2)(&mut free, &mut total) };
        self.check("cuMemGetInfo_v2", code)?;
        Ok((free as u64, total as u64))
    }

    /// Refuses code for another architecture or for newer ones only.
    pub(in crate::runtime) fn check_target(
        &self,
        kernel: &str,
        target: Target,
    ) -> Result<(), RuntimeError> {
        if runs_on(target, self.sm) {
            return Ok(());
        }
        Err(RuntimeError::WrongTarget {
            kernel: kernel.to_owned(),
            target,
            device: self.label.clone(),
            device_target: self.target,
        })
    }

    /// Waits for all work before this call, and fails if assertions did.
    pub(in crate::runtime) fn synchronize(&self) -> Result<(), RuntimeError> {
        let _current = self.enter()?;
        self.wait()?;
        self.check_comms()?;
        self.asserts.check(Launches::All)
    }

    #[cfg(feature = "nccl")]
    fn comm_failures(&self) -> MutexGuard<'_, Vec<(u64, CommError)>> {
        self.comm_failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a communicator has failed, for the next call that waits.
    #[cfg(feature = "nccl")]
    pub(super) fn note_comm_failure(&self, comm: u64, error: CommError) {
        self.comm_failures().push((comm, error.clone()));
        self.hung_comms().push(HungComm { number: comm, error, failed_at: Instant::now() });
    }

    #[cfg(feature = "nccl")]
    fn hung_comms(&self) -> MutexGuard<'_, Vec<HungComm>> {
        self.hung_comms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that all work of a communicator has ended.
    #[cfg(feature = "nccl")]
    pub(super) fn forget_hung_comm(&self, comm: u64) {
        self.hung_comms().retain(|hung| hung.number != comm);
    }

    /// Notes that the context has a communicator, so that waits of the host can end before the work does.
    #[cfg(feature = "nccl")]
    pub(super) fn expect_comms(&self) {
        self.has_comms.store(true, Release);
    }

    /// Returns whether the context has, or had, a communicator.
    #[inline]
    pub(super) fn has_comms(&self) -> bool {
        #[cfg(feature = "nccl")]
        return self.has_comms.load(Acquire);
        #[cfg(not(feature = "nccl"))]
        false
    }

    /// Fails if a communicator has failed and an abort has not ended its work. Nobody may wait for the work then, because
    /// it never ends.
    pub(super) fn check_hung_comms(&self) -> Result<(), RuntimeError> {
        #[cfg(feature = "nccl")]
        if self.has_comms() {
            let hung = self.hung_comms();
            if let Some(hung) = hung.iter().find(|hung| hung.failed_at.elapsed() > ABORT_TIME) {
                return Err(hung.error.clone().into());
            }
        }
        Ok(())
    }

    /// Calls `query` until it answers that no work is left, or until [`Context::check_hung_comms`] fails. Returns at once in
    /// a context without communicators: a wait of the driver, which cannot be given up, does no harm there.
    pub(super) fn poll(&self, query: impl Fn() -> u32) -> Result<(), RuntimeError> {
        /// For this time the host asks again and again, as the driver does.
        const BUSY: Duration = Duration::from_millis(20);
        const PAUSE: Duration = Duration::from_micros(50);
        if !self.has_comms() {
            return Ok(());
        }
        let start = Instant::now();
        while query() == status::NOT_READY {
            self.check_hung_comms()?;
            match start.elapsed() < BUSY {
                true => thread::yield_now(),
                false => thread::sleep(PAUSE),
            }
        }
        Ok(())
    }

    /// Forgets the failure of a communicator that nobody has any more.
    #[cfg(feature = "nccl")]
    pub(super) fn forget_comm_failure(&self, comm: u64) {
        self.comm_failures().retain(|(failed, _)| *failed != comm);
    }

    /// Fails if a communicator has failed since the last call.
    fn check_comms(&self) -> Result<(), RuntimeError> {
        #[cfg(feature = "nccl")]
        if let Some((_, error)) = self.comm_failures().pop() {
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns the address of a record for the violations of a kernel with checks.
    #[cfg(feature = "sim")]
    pub(in crate::runtime) fn record_of(
        &'static self,
        kernel: &Arc<crate::ir::CheckedKernel>,
    ) -> Result<u64, RuntimeError> {
        let make = |bytes| {
            let memory = super::pinned::HostMemory::zeros(self, bytes)?;
            Ok(Box::new(memory) as Box<dyn super::violations::Words>)
        };
        self.violations.add(make, kernel)
    }

    /// Held while launches of kernels with assertions are queued.
    pub(super) fn lock_asserts(&self) -> MutexGuard<'_, PendingReports> {
        self.asserts.lock()
    }

    /// Fails if assertions of kernels that the calling thread has launched did. The work before this call has
    /// ended.
    pub(in crate::runtime) fn check_asserts(&self) -> Result<(), RuntimeError> {
        self.check_comms()?;
        self.asserts.check(Launches::OfThread)
    }

    /// As [`Context::synchronize`], when the context is current.
    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        self.streams().iter().try_for_each(|stream| match stream.captured(|_| ()) {
            // Other code may record on its stream while nothing of this crate is left there.
            None => stream.wait().or_else(|error| match error {
                RuntimeError::StreamCaptures if stream.is_idle() => Ok(()),
                error => Err(error),
            }),
            // It has no work, and must not be waited for.
            Some(()) => Ok(()),
        })
    }

    /// Waits for all work of the process in the context, also that which other code has queued.
    pub(in crate::runtime) fn wait_for_all_code(&self) -> Result<(), RuntimeError> {
        let _current = self.enter()?;
        self.streams().iter().try_for_each(|stream| stream.poll())?;
        // SAFETY: the context is current.
        self.check("cuCtxSynchronize", unsafe { (self.api.cuCtxSynchronize)() })
    }

    /// Returns the number of the GPU.
    #[cfg(any(feature = "dlpack", feature = "nccl"))]
    pub(in crate::runtime) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Held from looking at the uses of memory that a graph has, too, until the work that was queued is noted: a buffer
    /// and its graphs are used from several threads without synchronisation.
    pub(super) fn lock_graphs(&self) -> MutexGuard<'_, ()> {
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether `raw` is this context.
    pub(super) fn is_raw(&self, raw: sys::CUcontext) -> bool {
        self.raw == raw
    }

    pub(super) fn api(&self) -> &'static Api {
        self.api
    }

    /// Returns the stream of all work that names none.
    pub(in crate::runtime) fn default_stream(&'static self) -> &'static Arc<Stream> {
        self.default.get_or_init(|| Stream::default_of(self, self.raw_default))
    }

    /// Returns a new stream. The context is current.
    pub(super) fn create_stream(&self) -> Result<sys::CUstream, RuntimeError> {
        create_stream(self.api, self.raw)
    }

    fn all_streams(&self) -> MutexGuard<'_, Vec<Weak<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all streams in use.
    pub(super) fn streams(&self) -> Vec<Arc<Stream>> {
        self.all_streams().iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes a new stream.
    pub(super) fn note_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.all_streams();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Counts the launches of all streams.
    #[inline]
    pub(super) fn launches(&self) -> &AtomicU64 {
        &self.launches
    }

    /// Returns the names of the kernels that may be running.
    pub(super) fn kernel_names(&'static self) -> &'static KernelNames {
        &self.kernel_names
    }

    /// Returns whether memory can be allocated and freed in stream order.
    pub(super) fn has_pools(&self) -> bool {
        self.has_pools
    }

    /// Makes the context current until the result is dropped; fails after a fault.
    #[inline(always)]
    pub(super) fn enter(&self) -> Result<Current, RuntimeError> {
        self.check_alive()?;
        Current::enter(self.api, self.raw)
    }

    #[inline(always)]
    fn check_alive(&self) -> Result<(), RuntimeError> {
        match self.fault.get() {
            None => Ok(()),
            Some(fault) => Err(self.lost(fault)),
        }
    }

    /// Returns the error of a call after a fault.
    #[cold]
    fn lost(&self, fault: &DeviceFault) -> RuntimeError {
        let first = self.unreported.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.unwrap_or_else(|| RuntimeError::DeviceLost(Box::new(fault.clone())))
    }

    /// As [`Context::enter`], for a destructor: `None` after a fault, and while a collective hangs that cannot be aborted,
    /// because the driver waits for it before it gives memory and modules back.
    pub(super) fn enter_to_drop(&self) -> Option<Current> {
        self.check_hung_comms().ok()?;
        self.keep(self.enter())
    }

    /// Returns the value, for a destructor, which cannot return an error. The next call returns the error if it is the
    /// first fault. Drops any other error.
    pub(in crate::runtime) fn keep<T>(&self, result: Result<T, RuntimeError>) -> Option<T> {
        result
            .map_err(|error| {
                if is_first_fault(&error) {
                    let mut unreported =
                        self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
                    *unreported = Some(error);
                }
            })
            .ok()
    }

    /// `Ok` if the answer of the driver is success. A fault is kept if it is the first.
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: u32) -> Result<(), RuntimeError> {
        if code == status::SUCCESS { Ok(()) } else { self.refuse(call, code) }
    }

    #[cold]
    fn refuse(&self, call: &'static str, code: u32) -> Result<(), RuntimeError> {
        let Some(kind) = status::fault(code) else { return self.api.check(call, code) };
        let (mut launches, mut last) = (0, None);
        for stream in self.streams() {
            let (in_flight, latest) = stream.in_flight();
            launches += in_flight;
            last = last.max(latest);
        }
        let kernel = last.and_then(|(_, kernel)| self.kernel_names.find(kernel));
        #[cfg(feature = "sim")]
        let violation = self.violations.find();
        #[cfg(feature = "sim")]
        let (kind, launches, kernel) = match &violation {
            Some(fault) => (FaultKind::Violation, 1, Some(fault.kernel.clone())),
            None => (kind, launches, kernel),
        };
        let fault = DeviceFault { device: self.label.clone(), kind, launches, kernel };
        match self.fault.set(fault.clone()) {
            Ok(()) => {
                #[cfg(feature = "sim")]
                if let Some(fault) = violation {
                    return Err(RuntimeError::Violation(Box::new(fault)));
                }
                Err(RuntimeError::Fault(Box::new(fault)))
            }
            Err(_) => self.check_alive(),
        }
    }
}

/// Lets each GPU in use read and write the memory of the others, where the hardware can: NCCL copies between buffers of
/// one process directly.
#[cfg(feature = "nccl")]
pub(super) fn share_pools() -> Result<(), RuntimeError> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for context in &open {
        let Some(pool) = context.pool()? else { continue };
        let mut peers = Vec::new();
        for peer in open.iter().filter(|peer| peer.ordinal != context.ordinal) {
            let mut can = 0;
            let ask = context.api.cuDeviceCanAccessPeer;
            // SAFETY: `can` is a variable for the result.
            let code = unsafe { ask(&mut can, peer.device, context.device) };
            context.check("cuDeviceCanAccessPeer", code)?;
            if can != 0 {
                peers.push(MemoryAccess::by(peer.device));
            }
        }
        if !peers.is_empty() {
            let _current = context.enter()?;
            // SAFETY: the pool belongs to the device; the list has as many entries as the call says.
            let code =
                unsafe { (context.api.cuMemPoolSetAccess)(pool, peers.as_ptr(), peers.len()) };
            context.check("cuMemPoolSetAccess", code)?;
        }
    }
    Ok(())
}

/// A context that is current on this thread. Dropping it brings back the one before, if it was another.
pub(super) struct Current {
    api: &'static Api,
    before: sys::CUcontext,
}

impl Current {
    #[inline]
    fn enter(api: &'static Api, context: sys::CUcontext) -> Result<Current, RuntimeError> {
        let mut before = std::ptr::null_mut();
        // SAFETY: `before` is a variable for the result.
        api.check("cuCtxGetCurrent", unsafe { (api.cuCtxGetCurrent)(&mut before) })?;
        if before == context {
            return Ok(Current { api, before: std::ptr::null_mut() });
        }
        // SAFETY: the context is retained until the process ends, or by the caller who makes it.
        api.check("cuCtxSetCurrent", unsafe { (api.cuCtxSetCurrent)(context) })?;
        Ok(Current { api, before })
    }
}

impl Drop for Current {
    #[inline]
    fn drop(&mut self) {
        // A thread without a context keeps this one, so that the next call need not set it again.
        if !self.before.is_null() {
            // SAFETY: it was current on this thread when `self` was made, so it is its user's to keep alive.
            unsafe { (self.api.cuCtxSetCurrent)(self.before) };
        }
    }
}

/// Returns whether the error is that of the call which found the fault.
fn is_first_fault(error: &RuntimeError) -> bool {
    #[cfg(feature = "sim")]
    if matches!(error, RuntimeError::Violation(_)) {
        return true;
    }
    matches!(error, RuntimeError::Fault(_))
}

/// Returns a stream for all work of a context.
fn create_stream(
    api: &'static Api,
    context: sys::CUcontext,
) -> Result<sys::CUstream, RuntimeError> {
    let _current = Current::enter(api, context)?;
    let mut stream = std::ptr::null_mut();
    // It does not wait for the stream that CUDA calls the default one, nor that one for it.
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the context is current; `stream` is a variable for the result.
    api.check("cuStreamCreate", unsafe { (api.cuStreamCreate)(&mut stream, flags) })?;
    Ok(stream)
}

fn device_name(api: &Api, device: sys::CUdevice) -> Result<String, RuntimeError> {
    let mut name = [0u8; 256];
    // SAFETY: the driver writes at most the given number of bytes, and ends the text with a zero.
    let code = unsafe {
        (api.cuDeviceGetName)(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device)
    };
    api.check("cuDeviceGetName", code)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Returns whether a device of architecture `sm` runs PTX for `target`: PTX of older targets is compiled for newer
/// devices, PTX with features of one architecture for that one only (PTX ISA 11.1.2 `.target`).
fn runs_on(target: Target, sm: u16) -> bool {
    if target.arch_specific() { target.sm() == sm } else { target.sm() <= sm }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_runs_on_newer_devices_and_specific_ptx_on_its_own() {
        let sm_100a = Target::new(100, true).unwrap();
        let cases = [
            (Target::SM_80, 80, true),
            (Target::SM_80, 90, true),
            (Target::SM_80, 120, true),
            (Target::SM_90A, 80, false),
            (Target::SM_90A, 90, true),
            (Target::SM_90A, 100, false),
            (sm_100a, 90, false),
            (sm_100a, 100, true),
        ];
        for (target, sm, runs) in cases {
            assert_eq!(runs_on(target, sm), runs, "{target} on {sm}");
        }
    }
}
