//! Defines [`RuntimeError`]: the error type of all runtime calls, such as loads, copies and
//! launches. Each message names the cure.

use crate::errors::errors;

use super::checks_left::ChecksLeft;
use super::comm::CommError;
use super::driver_answer::{CudaVersion, DriverStatus, PtxRejection};
use super::fault::DeviceFault;
use super::note::CompilerNote;
use super::ptxas::PtxasError;
use crate::arch::TensorMapError;
use crate::ir::types::Type;
use crate::ir::{ParseTargetError, SignatureError, SourceLocation, Target, VerifyErrors};
use crate::launch::assert::AssertFailures;
use crate::launch::grid::{ClusterError, Extent, Grid};

errors! {
    /// The error of a device, buffer or launch call, or the fault of a kernel.
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum RuntimeError {
        /// this build cannot use GPUs: build it with the feature `cuda`, or use the simulator
        CudaNotBuilt,
        /// this build has no simulator: build it with the feature `sim`
        SimulatorNotBuilt,
        /// the environment variable `TILEWRIGHT_SIM_TARGET`: {error}
        SimTarget(error: ParseTargetError),
        /// no CUDA driver was found: install the NVIDIA driver (its library is `libcuda.so.1`, or
        /// `nvcuda.dll` on Windows), or use the simulator
        NoDriver,
        /// the CUDA library that was found is only the link-time stub: remove its folder (`stubs`)
        /// from the library search path, so that the driver's library is found
        StubDriver,
        /// the CUDA driver supports CUDA {found}, but at least CUDA {needed} is needed: update the
        /// NVIDIA driver
        OldDriver { found: CudaVersion, needed: CudaVersion },
        /// the CUDA driver (CUDA {driver}) has no function `{symbol}`: reinstall or update the
        /// NVIDIA driver
        MissingSymbol { symbol: &'static str, driver: CudaVersion },
        /// the CUDA driver finds no GPU: check `nvidia-smi` and `CUDA_VISIBLE_DEVICES`, or use the
        /// simulator
        NoDevice,
        /// There is no GPU with this ordinal.
        NoSuchDevice {
            /// The requested ordinal.
            ordinal: usize,
            /// How many GPUs there are.
            count: usize,
        } = |f| match count {
            1 => {
                write!(f, "there is no GPU {ordinal}: the only one is GPU 0")
            }
            count => {
                write!(f, "there is no GPU {ordinal}: the {count} found are numbered from 0")
            }
        },
        /// The GPU is older than every supported target.
        UnsupportedDevice {
            /// The GPU's ordinal.
            ordinal: usize,
            /// The GPU's name.
            name: String,
            /// Its compute capability, major and minor.
            capability: (u16, u16),
        } = |f| write!(
            f,
            "GPU {ordinal} ({name}) has compute capability {}.{}, but at least 8.0 is needed: use \
             a newer GPU or the simulator",
            capability.0, capability.1
        ),
        /// kernel `{kernel}` is built for {target}, which does not run on {device}: build it for
        /// {device_target}
        WrongTarget { kernel: String, target: Target, device: String, device_target: Target },
        /// {rejection}
        PtxRejected(rejection: Box<PtxRejection>),
        /// the compiler ignores `setmaxnreg` in kernel `{kernel}`, so its warps would not get the
        /// registers that they ask for: set how many a thread starts with
        /// (`KernelOptions::max_registers`, or `block` and `min_blocks_per_sm`); compiler note:
        /// {note}
        SetMaxNRegIgnored { kernel: String, note: Box<CompilerNote> },
        /// the compiled code has no entry `{entry}`: clear the module cache, or compile without it
        MissingEntry { entry: String },
        /// cannot compile kernel `{kernel}`: {error}
        Ptxas { kernel: String, error: PtxasError },
        /// the PTX of `{name}` cannot be compiled on the simulator, which runs kernels without PTX:
        /// use a GPU
        PtxOnSimulator { name: String },
        /// The grid has no threads.
        EmptyGrid {
            /// The grid of the launch.
            grid: Grid,
        } = |f| write!(
            f,
            "a grid of {} blocks of {} threads has an empty axis: each must be at least 1",
            Extent(grid.blocks),
            Extent(grid.threads)
        ),
        /// The grid has more blocks along an axis than the device takes.
        GridTooLarge {
            /// The grid's blocks along each axis.
            blocks: [u32; 3],
            /// The device's maximum along each axis.
            limit: [u32; 3],
        } = |f| write!(
            f,
            "a grid of {} blocks exceeds the device's limit of {}: give each block more work, or \
             launch several times",
            Extent(*blocks),
            Extent(*limit)
        ),
        /// The block has more threads than the device takes.
        BlockTooLarge {
            /// The block's threads along each axis.
            threads: [u32; 3],
            /// The device's maximum along each axis.
            limit: [u32; 3],
            /// The device's maximum over all axes.
            limit_in_all: u32,
        } = |f| write!(
            f,
            "a block of {} threads exceeds the device's limit of {}, and {limit_in_all} in all: \
             use smaller blocks",
            Extent(*threads),
            Extent(*limit)
        ),
        /// The kernel was built for another block shape.
        BlockNotAsBuilt {
            /// The kernel's name.
            kernel: String,
            /// The block shape that it was built for.
            built: [u32; 3],
            /// The block shape of the launch.
            given: [u32; 3],
        } = |f| write!(
            f,
            "kernel `{kernel}` was built for blocks of {} threads, but is launched with {}",
            Extent(*built),
            Extent(*given)
        ),
        /// The kernel was built for smaller blocks.
        MoreThreadsThanBuilt {
            /// The kernel's name.
            kernel: String,
            /// The maximum block size that it was built for.
            built: u32,
            /// The block shape of the launch.
            given: [u32; 3],
        } = |f| write!(
            f,
            "kernel `{kernel}` was built for blocks of at most {built} threads, but is launched \
             with {}",
            Extent(*given)
        ),
        /// kernel `{kernel}` cannot be launched in these clusters: {error}
        Cluster { kernel: String, error: ClusterError },
        /// a cooperative launch runs all blocks at once, but the device has room for {limit} blocks
        /// of kernel `{kernel}`, not for {blocks}: launch fewer blocks and let each do more
        TooManyBlocksAtOnce { kernel: String, blocks: u64, limit: u64 },
        /// kernel `{kernel}` needs {registers} registers per thread, which allows blocks of {limit}
        /// threads, not {threads}: use smaller blocks, or fix the block when you build the kernel
        /// (`KernelOptions::block`)
        TooManyRegisters { kernel: String, threads: u32, limit: u32, registers: u32 },
        /// kernel `{kernel}` needs {bytes} bytes of shared memory, but a block can have
        /// {limit_bytes}: use smaller tiles
        SharedTooLarge { kernel: String, bytes: u64, limit_bytes: u64 },
        /// kernel `{kernel}` has {expected} parameters, but the launch passes {given} arguments
        ArgumentCount { kernel: String, expected: usize, given: usize },
        /// parameter {index} of kernel `{kernel}` is `{expected}`, but its argument is `{given}`
        ArgumentType { kernel: String, index: usize, expected: Type, given: Type },
        /// cannot launch kernel `{kernel}`: {error}
        Signature { kernel: String, error: Box<SignatureError> },
        /// the loaded module has no kernel `{kernel}`, or a different one with this name: add it
        /// with `Module::add` before you load the module
        NotInModule { kernel: String },
        /// argument {index} of kernel `{kernel}` is a buffer on {buffer}, but the kernel is loaded
        /// on {device}: upload the data to the kernel's device
        OtherDevice { kernel: String, index: usize, buffer: String, device: String },
        /// A tensor map in tiled mode is used for im2col copies, or the reverse.
        BoxMode { kernel: String, index: usize, im2col: bool } = |f| {
            let [is, copies, cure] = if *im2col {
                ["im2col", "tiles", "TensorMapDesc::new"]
            } else {
                ["tiled", "pixels", "TensorMapDesc::im2col"]
            };
            write!(
                f,
                "argument {index} of kernel `{kernel}` is a tensor map in {is} mode, but the kernel copies {copies} with it: make it with `{cure}`"
            )
        },
        /// A store uses a tensor map whose base pixels reach outside of its tensor.
        StorePixels {
            kernel: String,
            index: usize,
            dim: u32,
            pixels: (i64, i64),
            extent: u64,
        } = |f| {
            let (first, last) = pixels;
            write!(
                f,
                "kernel `{kernel}` stores through argument {index}, a tensor map with base pixels \
                 from {first} to {last} along dimension {dim}, which has {extent} pixels: stores \
                 need maps without padding"
            )
        },
        /// {what} on {device} cannot be used with a stream of {stream}: make the stream with
        /// `Device::stream` of the same device
        OtherDeviceStream { what: String, stream: String, device: String },
        /// an event belongs to another device than the stream or event that it is used with: record
        /// both on streams of one device
        OtherDeviceEvent,
        /// `{call}` cannot be part of a graph, but the stream is recording one: graphs contain
        /// launches, copies between buffers, and fills; do it on another stream, or after
        /// `GraphBuilder::finish`
        NotInGraph { call: &'static str },
        /// the stream does not belong to the primary context of {device}: make its context with
        /// `CudaContext::new`
        NotPrimaryContext { device: String },
        /// {left}
        ChecksLeft(left: Box<ChecksLeft>),
        /// this launch of kernel `{kernel}` does not fulfil the condition `{condition}`, on which
        /// `{op}` at {location} relies: pass other sizes or a longer buffer, or load the kernel
        /// without `deny_checks`, so that it checks its accesses
        ConditionBroken {
            kernel: String,
            condition: String,
            op: &'static str,
            location: SourceLocation,
        },
        /// with checks, kernel `{kernel}` exceeds a limit: load it with `load_unchecked`;
        /// {errors}
        NoRoomForChecks { kernel: String, errors: Box<VerifyErrors> },
        /// kernel `{kernel}` has no `griddepcontrol_wait`, so a programmatic launch might not see
        /// what the previous launch writes: add one before the first use of memory
        ProgrammaticWithoutWait { kernel: String },
        /// other code is capturing the stream into a graph, to which this crate can only add
        /// launches: do everything else before the capture, or record with `Device::graph`
        StreamCaptures,
        /// kernel `{kernel}` cannot be captured into a graph of other code, because work on another
        /// stream may still use its memory: before the capture, launch the kernel once with these
        /// sizes and wait (`Device::synchronize`)
        CaptureWaits { kernel: String },
        /// the CUDA driver does not allow `{call}` while other code captures a stream into a graph:
        /// load kernels, make buffers, and launch each kernel once before the capture
        CaptureForbids { call: &'static str },
        /// the stream is the default stream of another thread (`CU_STREAM_PER_THREAD`), and only
        /// that thread can queue work on it: call `Stream::from_cudarc` in the thread that launches
        OtherThreadStream,
        /// the buffer was borrowed from `cudarc` and the borrow has ended: use it only in the
        /// closure of `Device::borrow_cudarc`
        BorrowEnded,
        /// a slice of `bool`s cannot be borrowed mutably, because a kernel may store bytes that are
        /// not `bool`s: use `u8`
        BorrowedBool,
        /// the memory of the buffer cannot be given away, because a graph uses it or other code
        /// owns it: drop the graph, or copy the elements
        BufferShared,
        /// the simulator has no addresses: borrow memory on a GPU, or upload the data
        AddressOnSimulator,
        /// memory at {address:#x} cannot be borrowed: elements of {align} bytes must start at a
        /// multiple of {align}
        AddressAlignment { address: u64, align: u64 },
        /// {error}
        #[cfg(feature = "dlpack")]
        Dlpack(error: Box<super::dlpack_error::DlpackError>),
        /// page-locked memory cannot hold `bool`s, because a kernel may store bytes that are not
        /// `bool`s: use `u8`
        PinnedBool,
        /// {error}
        TensorMap(error: Box<TensorMapError>),
        /// a buffer of {buffer} elements cannot be copied from or to {host} elements: the lengths
        /// must be equal
        LengthMismatch { buffer: usize, host: usize },
        /// elements {start}..{end} are not in a buffer of {buffer} elements
        PartOutOfBounds { start: usize, end: usize, buffer: usize },
        /// a part cannot start {bytes} bytes into a buffer: it must start at a multiple of 16 bytes
        PartAlignment { bytes: usize },
        /// {device} does not have {bytes} bytes of free memory: drop buffers that are no longer
        /// needed, or split the work
        OutOfMemory { device: String, bytes: u64 },
        /// {error}
        Comm(error: Box<CommError>),
        /// {failures}
        AssertFailed(failures: Box<AssertFailures>),
        /// A kernel with checks faulted; the process cannot use the device any more.
        #[cfg(feature = "sim")]
        Violation(fault: Box<crate::sim::Fault>) = |f| {
            std::fmt::Display::fmt(fault, f)?;
            f.write_str("; the device cannot be used again in this process")
        },
        /// {fault}; the device cannot be used again in this process
        Fault(fault: Box<DeviceFault>),
        /// the device cannot be used again in this process, because earlier {fault}
        DeviceLost(fault: Box<DeviceFault>),
        /// The simulator's error.
        #[cfg(feature = "sim")]
        Simulation(error: Box<crate::sim::RunError>) = |f| std::fmt::Display::fmt(error, f),
        /// the CUDA driver call `{call}` failed with {status}
        Driver { call: &'static str, status: DriverStatus },
    }
}
crate::errors::message_as_debug!(RuntimeError);

impl From<TensorMapError> for RuntimeError {
    fn from(error: TensorMapError) -> RuntimeError {
        RuntimeError::TensorMap(Box::new(error))
    }
}

impl From<CommError> for RuntimeError {
    fn from(error: CommError) -> RuntimeError {
        RuntimeError::Comm(Box::new(error))
    }
}

#[cfg(feature = "dlpack")]
impl From<super::dlpack_error::DlpackError> for RuntimeError {
    fn from(error: super::dlpack_error::DlpackError) -> RuntimeError {
        RuntimeError::Dlpack(Box::new(error))
    }
}
