//! Defines [`Context`]: a GPU's primary context with its streams, its work in flight and its first
//! fault. Nearly every driver call starts with [`Context::enter`] and ends with [`Context::check`].

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

/// A GPU's primary context with its streams. It is retained until the process ends.
pub(in crate::runtime) struct Context {
    api: &'static Api,
    ordinal: usize,
    raw: sys::CUcontext,
    device: sys::CUdevice,
    /// The default stream's handle; `default` adds its work in flight.
    raw_default: sys::CUstream,
    default: OnceLock<Arc<Stream>>,
    /// All streams that somebody holds.
    streams: Mutex<Vec<Weak<Stream>>>,
    graphs: Mutex<()>,
    /// How many launches there were, approximately: see
    /// [`SubmissionCounter::end`](super::submission_counter::SubmissionCounter::end).
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
    /// Failures of communicators that no call has returned yet, each with the communicator's id.
    #[cfg(feature = "nccl")]
    comm_failures: Mutex<Vec<(u64, CommError)>>,
    /// Set once the context has a communicator.
    #[cfg(feature = "nccl")]
    has_comms: AtomicBool,
    #[cfg(feature = "nccl")]
    hung_comms: Mutex<Vec<HungComm>>,
    fault: OnceLock<DeviceFault>,
    /// The first fault, if a destructor found it and no call has returned it yet.
    unreported: Mutex<Option<RuntimeError>>,
    #[cfg(feature = "sim")]
    violations: super::violations::Violations,
    driver: OnceLock<String>,
}

/// A failed communicator whose work may still be running.
#[cfg(feature = "nccl")]
struct HungComm {
    number: u64,
    error: CommError,
    failed_at: Instant,
}

/// How long an abort may take to end a failed communicator's work. After that, nothing waits for
/// the work any more.
#[cfg(feature = "nccl")]
const ABORT_TIME: Duration = Duration::from_secs(5);

// SAFETY: any thread may call the driver API, because its handles are names that are not bound to a
// thread. Only the current context is per thread, and each call that needs it sets it.
unsafe impl Send for Context {}
// SAFETY: as above; everything that changes is atomic or behind a lock.
unsafe impl Sync for Context {}

/// All contexts that were opened.
///
/// They live until the process ends, because CUDA leaves a context current on threads that it
/// cannot know, and the handle of a released context is not safe to touch.
static OPEN: Mutex<Vec<&'static Context>> = Mutex::new(Vec::new());

impl Context {
    /// Returns the context of the GPU `ordinal`. The first call creates it.
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
        // SAFETY: `device` is a local out parameter.
        let code = unsafe { (api.cuDeviceGet)(&mut device, ordinal as c_int) };
        api.check("cuDeviceGet", code)?;

        let attribute = |attribute: Attribute| -> Result<u32, RuntimeError> {
            let mut value = 0;
            // SAFETY: `value` is a local out parameter.
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
            // The driver reports the maximum cluster size only for a function, not for the device.
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
        // SAFETY: `raw` is a local out parameter.
        let code = unsafe { (api.cuDevicePrimaryCtxRetain)(&mut raw, device) };
        api.check("cuDevicePrimaryCtxRetain", code)?;
        let stream = create_stream(api, raw).inspect_err(|_| {
            // SAFETY: the context was retained above and nothing uses it.
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

    /// For example `GPU 0 (NVIDIA H200)`.
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

    /// Sets how many freed bytes the driver may keep for later allocations: see
    /// [`Device::keep_memory`](crate::runtime::Device::keep_memory).
    pub(in crate::runtime) fn keep_memory(&self, bytes: u64) -> Result<(), RuntimeError> {
        let Some(pool) = self.pool()? else { return Ok(()) };
        let (mut bytes, _current) = (bytes, self.enter()?);
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let place = std::ptr::from_mut(&mut bytes).cast();
        // SAFETY: the attribute is a 64-bit integer, and `place` points to one.
        let code = unsafe { (self.api.cuMemPoolSetAttribute)(pool, attribute, place) };
        self.check("cuMemPoolSetAttribute", code)
    }

    /// Waits for all work, then gives freed memory back to the system.
    pub(in crate::runtime) fn trim_memory(&self) -> Result<(), RuntimeError> {
        let Some(pool) = self.pool()? else { return Ok(()) };
        let _current = self.enter()?;
        self.wait()?;
        // SAFETY: the pool belongs to the device.
        let code = unsafe { (self.api.cuMemPoolTrimTo)(pool, 0) };
        self.check("cuMemPoolTrimTo", code)
    }

    /// Returns the device's memory pool; `None` if it has none.
    fn pool(&self) -> Result<Option<sys::CUmemoryPool>, RuntimeError> {
        if !self.has_pools {
            return Ok(None);
        }
        let (mut pool, _current) = (std::ptr::null_mut(), self.enter()?);
        // SAFETY: `pool` is a local out parameter.
        let code = unsafe { (self.api.cuDeviceGetDefaultMemPool)(&mut pool, self.device) };
        self.check("cuDeviceGetDefaultMemPool", code)?;
        Ok(Some(pool))
    }

    /// Names the driver: the CUDA version that it implements and, if the system tells it, its
    /// release.
    pub(super) fn driver(&self) -> &str {
        self.driver.get_or_init(|| {
            format!("{} {}", self.api.version, driver_release().unwrap_or_default())
        })
    }

    /// Returns the GPU's free and total memory in bytes.
    pub(in crate::runtime) fn memory(&self) -> Result<(u64, u64), RuntimeError> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are local out parameters; the context is current.
        let code = unsafe { (self.api.cuMemGetInfo_v2)(&mut free, &mut total) };
        self.check("cuMemGetInfo_v2", code)?;
        Ok((free as u64, total as u64))
    }

    /// Returns an error if code for `target` cannot run on this GPU.
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

    /// Waits for all earlier work, then returns an error if assertions have failed.
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

    /// Records that a communicator has failed, so that the next call that waits reports it.
    #[cfg(feature = "nccl")]
    pub(super) fn note_comm_failure(&self, comm: u64, error: CommError) {
        self.comm_failures().push((comm, error.clone()));
        self.hung_comms().push(HungComm { number: comm, error, failed_at: Instant::now() });
    }

    #[cfg(feature = "nccl")]
    fn hung_comms(&self) -> MutexGuard<'_, Vec<HungComm>> {
        self.hung_comms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that all work of a communicator has ended.
    #[cfg(feature = "nccl")]
    pub(super) fn forget_hung_comm(&self, comm: u64) {
        self.hung_comms().retain(|hung| hung.number != comm);
    }

    /// Records that the context has a communicator, so that waits on the host can be given up
    /// before the work ends.
    #[cfg(feature = "nccl")]
    pub(super) fn expect_comms(&self) {
        self.has_comms.store(true, Release);
    }

    /// Returns whether the context has or had a communicator.
    #[inline]
    pub(super) fn has_comms(&self) -> bool {
        #[cfg(feature = "nccl")]
        return self.has_comms.load(Acquire);
        #[cfg(not(feature = "nccl"))]
        false
    }

    /// Returns an error if a communicator has failed and its abort did not end the work in time.
    /// Nothing may wait for this work, because it never ends.
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

    /// Calls `query` until it reports that no work is left, or until [`Context::check_hung_comms`]
    /// fails. Returns at once in a context without communicators, because there the driver's own
    /// wait, which cannot be given up, always ends.
    pub(super) fn poll(&self, query: impl Fn() -> u32) -> Result<(), RuntimeError> {
        /// How long the host polls without a pause, as the driver does.
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

    /// Forgets the failure of a communicator that was dropped.
    #[cfg(feature = "nccl")]
    pub(super) fn forget_comm_failure(&self, comm: u64) {
        self.comm_failures().retain(|(failed, _)| *failed != comm);
    }

    /// Returns the failure of a communicator that no call has returned yet, if there is one.
    fn check_comms(&self) -> Result<(), RuntimeError> {
        #[cfg(feature = "nccl")]
        if let Some((_, error)) = self.comm_failures().pop() {
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns the device address of a new record, into which a kernel with access checks writes
    /// its first violation.
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

    /// Locks the assertion reports. Held while launches of kernels with assertions are queued.
    pub(super) fn lock_asserts(&self) -> MutexGuard<'_, PendingReports> {
        self.asserts.lock()
    }

    /// Returns an error if an assertion failed in a kernel that the calling thread launched. Call
    /// it when the work has ended.
    pub(in crate::runtime) fn check_asserts(&self) -> Result<(), RuntimeError> {
        self.check_comms()?;
        self.asserts.check(Launches::OfThread)
    }

    /// Like [`Context::synchronize`], but the context must be current, and failed assertions are
    /// not reported.
    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        self.streams().iter().try_for_each(|stream| match stream.captured(|_| ()) {
            // Other code may be capturing its stream while none of our work is left there.
            None => stream.wait().or_else(|error| match error {
                RuntimeError::StreamCaptures if stream.is_idle() => Ok(()),
                error => Err(error),
            }),
            // The stream records a graph: it has no work and must not be waited for.
            Some(()) => Ok(()),
        })
    }

    /// Waits for all work in the context, including the work that other code in the process has
    /// queued.
    pub(in crate::runtime) fn wait_for_all_code(&self) -> Result<(), RuntimeError> {
        let _current = self.enter()?;
        self.streams().iter().try_for_each(|stream| stream.poll())?;
        // SAFETY: the context is current.
        self.check("cuCtxSynchronize", unsafe { (self.api.cuCtxSynchronize)() })
    }

    #[cfg(any(feature = "dlpack", feature = "nccl"))]
    pub(in crate::runtime) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Locks graph uses. Held from reading the uses of memory that a graph shares until the new
    /// work is noted, because several threads may use a buffer and its graphs without
    /// synchronisation.
    pub(super) fn lock_graphs(&self) -> MutexGuard<'_, ()> {
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether `raw` is this context's handle.
    pub(super) fn is_raw(&self, raw: sys::CUcontext) -> bool {
        self.raw == raw
    }

    pub(super) fn api(&self) -> &'static Api {
        self.api
    }

    /// Returns the stream for work that names none.
    pub(in crate::runtime) fn default_stream(&'static self) -> &'static Arc<Stream> {
        self.default.get_or_init(|| Stream::default_of(self, self.raw_default))
    }

    /// Creates a stream. The context must be current.
    pub(super) fn create_stream(&self) -> Result<sys::CUstream, RuntimeError> {
        create_stream(self.api, self.raw)
    }

    fn all_streams(&self) -> MutexGuard<'_, Vec<Weak<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all streams that somebody holds.
    pub(super) fn streams(&self) -> Vec<Arc<Stream>> {
        self.all_streams().iter().filter_map(Weak::upgrade).collect()
    }

    /// Adds a stream to the list of streams.
    pub(super) fn note_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.all_streams();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Returns the launch counter that all streams share.
    #[inline]
    pub(super) fn launches(&self) -> &AtomicU64 {
        &self.launches
    }

    /// Returns the names of kernels that may be running.
    pub(super) fn kernel_names(&'static self) -> &'static KernelNames {
        &self.kernel_names
    }

    /// Returns whether the device can allocate and free memory in stream order.
    pub(super) fn has_pools(&self) -> bool {
        self.has_pools
    }

    /// Makes the context current until the result is dropped. Returns an error after a fault.
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

    /// Returns the error for a call after a fault.
    #[cold]
    fn lost(&self, fault: &DeviceFault) -> RuntimeError {
        let first = self.unreported.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.unwrap_or_else(|| RuntimeError::DeviceLost(Box::new(fault.clone())))
    }

    /// Like [`Context::enter`], but for destructors. Returns `None` after a fault, and while a
    /// collective hangs that cannot be aborted, because the driver would wait for it before it
    /// frees memory or unloads modules.
    pub(super) fn enter_to_drop(&self) -> Option<Current> {
        self.check_hung_comms().ok()?;
        self.keep(self.enter())
    }

    /// Unwraps a result in a destructor, which cannot return an error. If the error is the first
    /// fault, the next call returns it. Any other error is dropped.
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

    /// Turns a driver status into a result. The first fault is kept.
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

/// Lets every open GPU read and write the memory of the others, if the hardware can, because NCCL
/// copies directly between buffers of one process.
#[cfg(feature = "nccl")]
pub(super) fn share_pools() -> Result<(), RuntimeError> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for context in &open {
        let Some(pool) = context.pool()? else { continue };
        let mut peers = Vec::new();
        for peer in open.iter().filter(|peer| peer.ordinal != context.ordinal) {
            let mut can = 0;
            let ask = context.api.cuDeviceCanAccessPeer;
            // SAFETY: `can` is a local out parameter.
            let code = unsafe { ask(&mut can, peer.device, context.device) };
            context.check("cuDeviceCanAccessPeer", code)?;
            if can != 0 {
                peers.push(MemoryAccess::by(peer.device));
            }
        }
        if !peers.is_empty() {
            let _current = context.enter()?;
            // SAFETY: the pool belongs to the device; the list has as many entries as the call
            // says.
            let code =
                unsafe { (context.api.cuMemPoolSetAccess)(pool, peers.as_ptr(), peers.len()) };
            context.check("cuMemPoolSetAccess", code)?;
        }
    }
    Ok(())
}

/// Keeps a context current on this thread. Dropping it restores the previous context, if that was
/// another one.
pub(super) struct Current {
    api: &'static Api,
    before: sys::CUcontext,
}

impl Current {
    #[inline]
    fn enter(api: &'static Api, context: sys::CUcontext) -> Result<Current, RuntimeError> {
        let mut before = std::ptr::null_mut();
        // SAFETY: `before` is a local out parameter.
        api.check("cuCtxGetCurrent", unsafe { (api.cuCtxGetCurrent)(&mut before) })?;
        if before == context {
            return Ok(Current { api, before: std::ptr::null_mut() });
        }
        // SAFETY: the context is retained until the process ends, or by the caller that creates it.
        api.check("cuCtxSetCurrent", unsafe { (api.cuCtxSetCurrent)(context) })?;
        Ok(Current { api, before })
    }
}

impl Drop for Current {
    #[inline]
    fn drop(&mut self) {
        // A thread that had no context keeps this one, so that the next call need not set it again.
        if !self.before.is_null() {
            // SAFETY: it was current on this thread when `self` was created, so its user must keep
            // it alive.
            unsafe { (self.api.cuCtxSetCurrent)(self.before) };
        }
    }
}

/// Returns whether the error belongs to the call that found the fault.
fn is_first_fault(error: &RuntimeError) -> bool {
    #[cfg(feature = "sim")]
    if matches!(error, RuntimeError::Violation(_)) {
        return true;
    }
    matches!(error, RuntimeError::Fault(_))
}

/// Creates a stream in a context.
fn create_stream(
    api: &'static Api,
    context: sys::CUcontext,
) -> Result<sys::CUstream, RuntimeError> {
    let _current = Current::enter(api, context)?;
    let mut stream = std::ptr::null_mut();
    // Non-blocking: it does not wait for CUDA's legacy default stream, nor that stream for it.
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the context is current; `stream` is a local out parameter.
    api.check("cuStreamCreate", unsafe { (api.cuStreamCreate)(&mut stream, flags) })?;
    Ok(stream)
}

fn device_name(api: &Api, device: sys::CUdevice) -> Result<String, RuntimeError> {
    let mut name = [0u8; 256];
    // SAFETY: the driver writes at most the given number of bytes and ends the text with a zero.
    let code = unsafe {
        (api.cuDeviceGetName)(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device)
    };
    api.check("cuDeviceGetName", code)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Returns whether a GPU of architecture `sm` runs PTX for `target`. PTX for older targets is
/// compiled for newer GPUs; PTX with architecture-specific features runs on that architecture only
/// (PTX ISA 11.1.2 `.target`).
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
