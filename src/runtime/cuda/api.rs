//! Looks up the functions of the CUDA driver once, at first use. To call another one, add it to the
//! table.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::library::{self, check_parameters, library_functions};
use super::status;
use crate::runtime::driver_answer::{CudaVersion, DriverStatus};
use crate::runtime::error::RuntimeError;

/// The minimum driver version: launch attributes and tensor maps need it.
const NEEDED: CudaVersion = CudaVersion::new(12, 0);

/// The driver library's names. A stub has only the second name, so the first one is tried first.
const DRIVER: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

library_functions! {
    pub(super) struct Api { version: CudaVersion } returns sys::CUresult;

    fn cuInit(flags: c_uint) = sys::cuInit;
    // The code is an integer here, as in statuses.
    fn cuGetErrorName(code: u32, name: *mut *const c_char);

    fn cuDeviceGetCount(count: *mut c_int) = sys::cuDeviceGetCount;
    fn cuDeviceGet(device: *mut sys::CUdevice, ordinal: c_int) = sys::cuDeviceGet;
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: sys::CUdevice) = sys::cuDeviceGetName;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: sys::CUdevice_attribute, device: sys::CUdevice)
        = sys::cuDeviceGetAttribute;
    fn cuDevicePrimaryCtxRetain(context: *mut sys::CUcontext, device: sys::CUdevice)
        = sys::cuDevicePrimaryCtxRetain;
    fn cuDevicePrimaryCtxRelease_v2(device: sys::CUdevice) = sys::cuDevicePrimaryCtxRelease_v2;
    fn cuCtxGetCurrent(context: *mut sys::CUcontext) = sys::cuCtxGetCurrent;
    fn cuCtxSetCurrent(context: sys::CUcontext) = sys::cuCtxSetCurrent;
    fn cuCtxSynchronize() = sys::cuCtxSynchronize;

    fn cuStreamCreate(stream: *mut sys::CUstream, flags: c_uint) = sys::cuStreamCreate;
    fn cuStreamDestroy_v2(stream: sys::CUstream) = sys::cuStreamDestroy_v2;
    fn cuStreamSynchronize(stream: sys::CUstream) = sys::cuStreamSynchronize;
    fn cuStreamWaitEvent(stream: sys::CUstream, event: sys::CUevent, flags: c_uint)
        = sys::cuStreamWaitEvent;
    fn cuStreamQuery(stream: sys::CUstream) = sys::cuStreamQuery;
    fn cuStreamIsCapturing(stream: sys::CUstream, status: *mut sys::CUstreamCaptureStatus)
        = sys::cuStreamIsCapturing;
    fn cuThreadExchangeStreamCaptureMode(mode: *mut sys::CUstreamCaptureMode)
        = sys::cuThreadExchangeStreamCaptureMode;
    fn cuLaunchHostFunc(stream: sys::CUstream, function: sys::CUhostFn, data: *mut c_void)
        = sys::cuLaunchHostFunc;
    fn cuStreamBeginCapture_v2(stream: sys::CUstream, mode: sys::CUstreamCaptureMode)
        = sys::cuStreamBeginCapture_v2;
    fn cuStreamEndCapture(stream: sys::CUstream, graph: *mut sys::CUgraph) = sys::cuStreamEndCapture;
    fn cuGraphInstantiateWithFlags(exec: *mut sys::CUgraphExec, graph: sys::CUgraph, flags: c_ulonglong)
        = sys::cuGraphInstantiateWithFlags;
    fn cuGraphLaunch(exec: sys::CUgraphExec, stream: sys::CUstream) = sys::cuGraphLaunch;
    fn cuGraphExecDestroy(exec: sys::CUgraphExec) = sys::cuGraphExecDestroy;
    fn cuGraphDestroy(graph: sys::CUgraph) = sys::cuGraphDestroy;

    fn cuMemAllocAsync(address: *mut sys::CUdeviceptr, bytes: usize, stream: sys::CUstream)
        = sys::cuMemAllocAsync;
    fn cuMemFreeAsync(address: sys::CUdeviceptr, stream: sys::CUstream) = sys::cuMemFreeAsync;
    fn cuMemAlloc_v2(address: *mut sys::CUdeviceptr, bytes: usize) = sys::cuMemAlloc_v2;
    fn cuMemFree_v2(address: sys::CUdeviceptr) = sys::cuMemFree_v2;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = sys::cuMemGetInfo_v2;
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) = sys::cuMemHostAlloc;
    fn cuMemFreeHost(address: *mut c_void) = sys::cuMemFreeHost;
    fn cuDeviceGetDefaultMemPool(pool: *mut sys::CUmemoryPool, device: sys::CUdevice)
        = sys::cuDeviceGetDefaultMemPool;
    fn cuMemPoolSetAttribute(
        pool: sys::CUmemoryPool,
        attribute: sys::CUmemPool_attribute,
        value: *mut c_void
    ) = sys::cuMemPoolSetAttribute;
    #[cfg(feature = "nccl")]
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: sys::CUdevice, peer: sys::CUdevice)
        = sys::cuDeviceCanAccessPeer;
    // The type of the list's entries differs between the bindings for different CUDA versions.
    #[cfg(feature = "nccl")]
    fn cuMemPoolSetAccess(pool: sys::CUmemoryPool, map: *const MemoryAccess, count: usize);
    fn cuMemPoolTrimTo(pool: sys::CUmemoryPool, bytes: usize) = sys::cuMemPoolTrimTo;
    fn cuMemsetD16Async(to: sys::CUdeviceptr, value: u16, len: usize, stream: sys::CUstream)
        = sys::cuMemsetD16Async;
    fn cuMemsetD32Async(to: sys::CUdeviceptr, value: u32, len: usize, stream: sys::CUstream)
        = sys::cuMemsetD32Async;
    fn cuMemsetD2D32Async(
        to: sys::CUdeviceptr,
        pitch: usize,
        value: u32,
        width: usize,
        height: usize,
        stream: sys::CUstream
    ) = sys::cuMemsetD2D32Async;
    fn cuMemcpyDtoDAsync_v2(
        to: sys::CUdeviceptr,
        from: sys::CUdeviceptr,
        bytes: usize,
        stream: sys::CUstream
    ) = sys::cuMemcpyDtoDAsync_v2;
    fn cuMemsetD8Async(to: sys::CUdeviceptr, value: u8, bytes: usize, stream: sys::CUstream)
        = sys::cuMemsetD8Async;
    fn cuMemcpyHtoDAsync_v2(to: sys::CUdeviceptr, from: *const c_void, bytes: usize, stream: sys::CUstream)
        = sys::cuMemcpyHtoDAsync_v2;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: sys::CUdeviceptr, bytes: usize, stream: sys::CUstream)
        = sys::cuMemcpyDtoHAsync_v2;

    fn cuModuleLoadDataEx(
        module: *mut sys::CUmodule,
        image: *const c_void,
        options_len: c_uint,
        options: *mut sys::CUjit_option,
        values: *mut *mut c_void
    ) = sys::cuModuleLoadDataEx;
    fn cuLinkCreate_v2(
        options_len: c_uint,
        options: *mut sys::CUjit_option,
        values: *mut *mut c_void,
        state: *mut sys::CUlinkState
    ) = sys::cuLinkCreate_v2;
    fn cuLinkAddData_v2(
        state: sys::CUlinkState,
        kind: sys::CUjitInputType,
        data: *mut c_void,
        bytes: usize,
        name: *const c_char,
        options_len: c_uint,
        options: *mut sys::CUjit_option,
        values: *mut *mut c_void
    ) = sys::cuLinkAddData_v2;
    fn cuLinkComplete(state: sys::CUlinkState, code: *mut *mut c_void, bytes: *mut usize)
        = sys::cuLinkComplete;
    fn cuLinkDestroy(state: sys::CUlinkState) = sys::cuLinkDestroy;
    fn cuModuleUnload(module: sys::CUmodule) = sys::cuModuleUnload;
    fn cuModuleGetFunction(function: *mut sys::CUfunction, module: sys::CUmodule, name: *const c_char)
        = sys::cuModuleGetFunction;
    fn cuFuncGetAttribute(
        value: *mut c_int,
        attribute: sys::CUfunction_attribute,
        function: sys::CUfunction
    ) = sys::cuFuncGetAttribute;
    fn cuFuncSetAttribute(
        function: sys::CUfunction,
        attribute: sys::CUfunction_attribute,
        value: c_int
    ) = sys::cuFuncSetAttribute;
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: sys::CUfunction,
        threads: c_int,
        dynamic_shared_bytes: usize
    ) = sys::cuOccupancyMaxActiveBlocksPerMultiprocessor;
    fn cuOccupancyMaxActiveClusters(
        clusters: *mut c_int,
        function: sys::CUfunction,
        config: *const sys::CUlaunchConfig
    ) = sys::cuOccupancyMaxActiveClusters;
    fn cuLaunchKernelEx(
        config: *const sys::CUlaunchConfig,
        function: sys::CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void
    ) = sys::cuLaunchKernelEx;
    fn cuTensorMapEncodeTiled(
        map: *mut sys::CUtensorMap,
        data_type: sys::CUtensorMapDataType,
        rank: u32,
        address: *mut c_void,
        dims: *const u64,
        strides: *const u64,
        box_dims: *const u32,
        element_strides: *const u32,
        interleave: sys::CUtensorMapInterleave,
        swizzle: sys::CUtensorMapSwizzle,
        l2_promotion: sys::CUtensorMapL2promotion,
        oob_fill: sys::CUtensorMapFloatOOBfill
    ) = sys::cuTensorMapEncodeTiled;
    fn cuTensorMapEncodeIm2col(
        map: *mut sys::CUtensorMap,
        data_type: sys::CUtensorMapDataType,
        rank: u32,
        address: *mut c_void,
        dims: *const u64,
        strides: *const u64,
        lower: *const c_int,
        upper: *const c_int,
        channels: u32,
        pixels: u32,
        element_strides: *const u32,
        interleave: sys::CUtensorMapInterleave,
        swizzle: sys::CUtensorMapSwizzle,
        l2_promotion: sys::CUtensorMapL2promotion,
        oob_fill: sys::CUtensorMapFloatOOBfill
    ) = sys::cuTensorMapEncodeIm2col;

    fn cuEventCreate(event: *mut sys::CUevent, flags: c_uint) = sys::cuEventCreate;
    fn cuEventRecord(event: sys::CUevent, stream: sys::CUstream) = sys::cuEventRecord;
    fn cuEventQuery(event: sys::CUevent) = sys::cuEventQuery;
    fn cuEventSynchronize(event: sys::CUevent) = sys::cuEventSynchronize;
    // Every driver has it, but the bindings for CUDA 13 only name its second version.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: sys::CUevent, end: sys::CUevent);
    fn cuEventDestroy_v2(event: sys::CUevent) = sys::cuEventDestroy_v2;
}

/// The driver's `CUmemAccessDesc`.
#[cfg(feature = "nccl")]
#[repr(C)]
pub(super) struct MemoryAccess {
    location_kind: c_uint,
    location: c_int,
    access: c_uint,
}

#[cfg(feature = "nccl")]
impl MemoryAccess {
    /// Allows a device to read and write.
    pub(super) fn by(device: sys::CUdevice) -> MemoryAccess {
        const DEVICE: c_uint = 1;
        const READ_AND_WRITE: c_uint = 3;
        MemoryAccess { location_kind: DEVICE, location: device, access: READ_AND_WRITE }
    }
}

impl Api {
    /// Returns the functions of an initialised driver. The result of the first call is kept for the
    /// whole process.
    #[inline]
    pub(super) fn get() -> Result<&'static Api, RuntimeError> {
        static API: OnceLock<Result<Api, RuntimeError>> = OnceLock::new();
        API.get_or_init(Api::open).as_ref().map_err(RuntimeError::clone)
    }

    #[inline]
    fn open() -> Result<Api, RuntimeError> {
        let library = library::open(DRIVER).ok_or(RuntimeError::NoDriver)?;
        // Ask for the version first, because an old driver may lack other functions.
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> u32;
        check_parameters!((version: *mut c_int), sys::CUresult, sys::cuDriverGetVersion);
        let symbol_name = "cuDriverGetVersion";
        let unknown = CudaVersion::new(0, 0);
        // SAFETY: this is the function's type.
        let get_version = unsafe { library::symbol::<GetVersion>(library, symbol_name) }
            .ok_or(RuntimeError::MissingSymbol { symbol: symbol_name, driver: unknown })?;
        let mut number = 0;
        // SAFETY: the function needs no initialisation; `number` is a local out parameter.
        match unsafe { get_version(&mut number) } {
            status::SUCCESS => {}
            status::STUB_LIBRARY => return Err(RuntimeError::StubDriver),
            code => return Err(nameless(symbol_name, code)),
        }
        let found = CudaVersion::from_number(number);
        if found < NEEDED {
            return Err(RuntimeError::OldDriver { found, needed: NEEDED });
        }
        let api = Api::find(library, found)
            .map_err(|symbol| RuntimeError::MissingSymbol { symbol, driver: found })?;
        // SAFETY: 0 is the only valid value for the flags.
        match unsafe { (api.cuInit)(0) } {
            status::SUCCESS => Ok(api),
            status::NO_DEVICE => Err(RuntimeError::NoDevice),
            status::STUB_LIBRARY => Err(RuntimeError::StubDriver),
            code => Err(api.error("cuInit", code)),
        }
    }

    /// Returns the error for a call that returned `code`.
    pub(super) fn error(&self, call: &'static str, code: u32) -> RuntimeError {
        if code == status::CAPTURE_UNSUPPORTED {
            return RuntimeError::CaptureForbids { call };
        }
        RuntimeError::Driver { call, status: self.status(code) }
    }

    /// Returns `code` with its name.
    pub(super) fn status(&self, code: u32) -> DriverStatus {
        let mut name = std::ptr::null();
        // SAFETY: `name` is a local out parameter.
        let answer = unsafe { (self.cuGetErrorName)(code, &mut name) };
        let name = (answer == status::SUCCESS && !name.is_null()).then(|| {
            // SAFETY: the driver returned a text that lives as long as its library, which is never
            // closed.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        });
        DriverStatus { code, name }
    }

    /// Turns a status into a result.
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: u32) -> Result<(), RuntimeError> {
        if code == status::SUCCESS { Ok(()) } else { Err(self.error(call, code)) }
    }
}

/// Returns the driver's version. Fails if the driver does not start.
#[inline]
pub(in crate::runtime) fn driver_version() -> Result<CudaVersion, RuntimeError> {
    Api::get().map(|api| api.version)
}

/// Returns how many GPUs there are, at least 1.
#[inline]
pub(in crate::runtime) fn device_count() -> Result<usize, RuntimeError> {
    let api = Api::get()?;
    let mut count = 0;
    // SAFETY: the driver is initialised; `count` is a local out parameter.
    api.check("cuDeviceGetCount", unsafe { (api.cuDeviceGetCount)(&mut count) })?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(RuntimeError::NoDevice),
    }
}

/// Returns the error for a call at a time when the driver cannot be asked for names yet.
fn nameless(call: &'static str, code: u32) -> RuntimeError {
    RuntimeError::Driver { call, status: DriverStatus { code, name: None } }
}
