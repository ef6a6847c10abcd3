//! What can go wrong between a kernel and a device.

use std::fmt;

use super::driver_answer::{CudaVersion, DriverStatus, PtxRejection};
use super::fault::DeviceFault;
use super::note::CompilerNote;
use super::ptxas::PtxasError;
use crate::arch::TensorMapError;
use crate::ir::{ParseTargetError, SignatureError, Target, Type};
use crate::launch::assert::AssertFailures;
use crate::launch::grid::{ClusterError, Extent, Grid};

/// Why a device, a buffer or a launch is refused, or what a launch did wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuntimeError {
    /// This build of the crate cannot use GPUs.
    CudaNotBuilt,
    /// This build of the crate has no simulator.
    SimulatorNotBuilt,
    /// The environment variable `TILEWRIGHT_SIM_TARGET` names no target.
    SimTarget(ParseTargetError),
    /// The machine has no CUDA driver library.
    NoDriver,
    /// The CUDA library that was found is the one that programs are linked with, not a driver.
    StubDriver,
    /// The CUDA driver is older than this crate needs.
    OldDriver {
        /// The CUDA version of the driver.
        found: CudaVersion,
        /// The lowest CUDA version that has all that is used.
        needed: CudaVersion,
    },
    /// The CUDA driver lacks a function that a driver of its version has.
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// The CUDA version of the driver.
        driver: CudaVersion,
    },
    /// There is a CUDA driver and no GPU that it can use.
    NoDevice,
    /// There is no GPU of this number.
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many GPUs there are.
        count: usize,
    },
    /// The GPU is older than every target.
    UnsupportedDevice {
        /// The number of the GPU.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Its compute capability, major and minor.
        capability: (u16, u16),
    },
    /// The kernel was built for a target whose code the device does not run.
    WrongTarget {
        /// The kernel.
        kernel: String,
        /// What it was built for.
        target: Target,
        /// The device.
        device: String,
        /// What can be built for the device.
        device_target: Target,
    },
    /// The driver's compiler refused PTX.
    PtxRejected(Box<PtxRejection>),
    /// The kernel asks for other numbers of registers with `setmaxnreg`, and the compiler ignored it.
    SetMaxNRegIgnored {
        /// The kernel.
        kernel: String,
        /// What the compiler said.
        note: Box<CompilerNote>,
    },
    /// The compiled code has no entry of the kernel's name.
    MissingEntry {
        /// The entry.
        entry: String,
    },
    /// `ptxas` was asked to compile a kernel and did not.
    Ptxas {
        /// The kernel.
        kernel: String,
        /// Why.
        error: PtxasError,
    },
    /// PTX was given to the simulator, which runs kernels and not their PTX.
    PtxOnSimulator {
        /// The name given to the PTX.
        name: String,
    },
    /// A grid without threads.
    EmptyGrid {
        /// The grid.
        grid: Grid,
    },
    /// More blocks along an axis than the device takes.
    GridTooLarge {
        /// The blocks along each axis.
        blocks: [u32; 3],
        /// The most that the device takes along each axis.
        limit: [u32; 3],
    },
    /// More threads in a block than the device takes.
    BlockTooLarge {
        /// The threads along each axis.
        threads: [u32; 3],
        /// The most that the device takes along each axis.
        limit: [u32; 3],
        /// The most that the device takes in all.
        limit_in_all: u32,
    },
    /// The kernel was built for blocks of another shape.
    BlockNotAsBuilt {
        /// The kernel.
        kernel: String,
        /// The threads that it was built for.
        built: [u32; 3],
        /// The threads of the launch.
        given: [u32; 3],
    },
    /// The kernel was built for blocks of fewer threads.
    MoreThreadsThanBuilt {
        /// The kernel.
        kernel: String,
        /// The most threads of a block that it was built for.
        built: u32,
        /// The threads of the launch.
        given: [u32; 3],
    },
    /// The grid has no clusters as kernel, launch and device ask for.
    Cluster {
        /// The kernel.
        kernel: String,
        /// Why.
        error: ClusterError,
    },
    /// A cooperative launch of more blocks than run at once.
    TooManyBlocksAtOnce {
        /// The kernel.
        kernel: String,
        /// The blocks of the grid in all.
        blocks: u64,
        /// The blocks for which the device has room.
        limit: u64,
    },
    /// A block of so many threads needs more registers than the device has.
    TooManyRegisters {
        /// The kernel.
        kernel: String,
        /// The threads of a block in all.
        threads: u32,
        /// The most threads of a block for which the registers last.
        limit: u32,
        /// The registers of a thread.
        registers: u32,
    },
    /// The kernel has more shared memory than the device gives to a block.
    SharedTooLarge {
        /// The kernel.
        kernel: String,
        /// The bytes that it has.
        bytes: u64,
        /// The bytes that a block can have.
        limit_bytes: u64,
    },
    /// A launch with too few or too many arguments.
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        given: usize,
    },
    /// An argument of another type than its parameter.
    ArgumentType {
        /// The kernel.
        kernel: String,
        /// The position of the parameter, from 0.
        index: usize,
        /// The type of the parameter.
        expected: Type,
        /// The type that the argument has in a kernel.
        given: Type,
    },
    /// The layouts and tuples of a launch are not as the kernel is built for.
    Signature {
        /// The kernel.
        kernel: String,
        /// What is wrong with them.
        error: Box<SignatureError>,
    },
    /// A function of a kernel was asked of a loaded module that does not have the kernel.
    NotInModule {
        /// The kernel.
        kernel: String,
    },
    /// A buffer of another device was passed.
    OtherDevice {
        /// The kernel.
        kernel: String,
        /// The position of the parameter, from 0.
        index: usize,
        /// The device of the buffer.
        buffer: String,
        /// The device of the kernel.
        device: String,
    },
    /// A stream of another device was named.
    OtherDeviceStream {
        /// What was to run on the stream.
        what: String,
        /// The device of the stream.
        stream: String,
        /// The device of what was to run.
        device: String,
    },
    /// Two events, or an event and a stream, are of different devices.
    OtherDeviceEvent,
    /// A stream that records a graph was asked for what no graph has.
    NotInGraph {
        /// The call.
        call: &'static str,
    },
    /// A stream of `cudarc` belongs to another context than the primary one of its GPU.
    NotPrimaryContext {
        /// The GPU.
        device: String,
    },
    /// A programmatic launch of a kernel that never waits for the launch before it.
    ProgrammaticWithoutWait {
        /// The kernel.
        kernel: String,
    },
    /// Other code captures the stream into a graph. The graph may have the work of the refused call if the capture began
    /// while the call ran: see `Stream`.
    StreamCaptures,
    /// A buffer of `Device::borrow_cudarc` was used after the end of the borrow.
    BorrowEnded,
    /// A mutable slice of `bool`s was to be borrowed.
    BorrowedBool,
    /// The memory of a buffer cannot be given away: a graph uses it, or other code owns it.
    BufferShared,
    /// An address was given to the simulator, which has none.
    AddressOnSimulator,
    /// Memory of other code that starts at no multiple of the size of an element.
    AddressAlignment {
        /// The address.
        address: u64,
        /// The bytes of an element.
        align: u64,
    },
    /// A buffer does not go out as a DLPack tensor, or a tensor does not come in as a buffer.
    #[cfg(feature = "dlpack")]
    Dlpack(Box<super::dlpack::DlpackError>),
    /// Page-locked memory of `bool`s.
    PinnedBool,
    /// A buffer has no tensor map of this kind.
    TensorMap(Box<TensorMapError>),
    /// A copy between host memory and a buffer of another length.
    LengthMismatch {
        /// The elements of the buffer.
        buffer: usize,
        /// The elements on the host.
        host: usize,
    },
    /// The device has too little memory.
    OutOfMemory {
        /// The device.
        device: String,
        /// The bytes asked for.
        bytes: u64,
    },
    /// Assertions of a kernel failed. The kernel ran to its end, and the device works on.
    AssertFailed(Box<AssertFailures>),
    /// A kernel did something from which the GPU does not recover. This is the first call that noticed.
    Fault(Box<DeviceFault>),
    /// The device cannot be used since an earlier call returned this fault.
    DeviceLost(Box<DeviceFault>),
    /// The simulator found a fault in the kernel.
    #[cfg(feature = "sim")]
    Simulation(Box<crate::sim::RunError>),
    /// A call of the CUDA driver failed.
    Driver {
        /// The function of the driver.
        call: &'static str,
        /// What it answered.
        status: DriverStatus,
    },
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RuntimeError::*;
        match self {
            CudaNotBuilt => f.write_str(
                "this build cannot use GPUs: build it with the feature `cuda`, or use the simulator",
            ),
            SimulatorNotBuilt => {
                f.write_str("this build has no simulator: build it with the feature `sim`")
            }
            SimTarget(error) => write!(f, "the environment variable `TILEWRIGHT_SIM_TARGET`: {error}"),
            NoDriver => f.write_str(
                "no CUDA driver was found: install the NVIDIA driver (its library is `libcuda.so.1`, or \
                 `nvcuda.dll` on Windows), or use the simulator",
            ),
            StubDriver => f.write_str(
                "the CUDA library that was found is the stub that programs are linked with: take its \
                 folder (`stubs`) off the library search path, so that the driver's is found",
            ),
            OldDriver { found, needed } => write!(
                f,
                "the CUDA driver is of CUDA {found} and at least CUDA {needed} is needed: update the \
                 NVIDIA driver"
            ),
            MissingSymbol { symbol, driver } => write!(
                f,
                "the CUDA driver (CUDA {driver}) has no function `{symbol}`: reinstall or update the \
                 NVIDIA driver"
            ),
            NoDevice => f.write_str(
                "the CUDA driver finds no GPU: check `nvidia-smi` and `CUDA_VISIBLE_DEVICES`, or use \
                 the simulator",
            ),
            NoSuchDevice { ordinal, count: 1 } => {
                write!(f, "there is no GPU {ordinal}: the only one is GPU 0")
            }
            NoSuchDevice { ordinal, count } => {
                write!(f, "there is no GPU {ordinal}: the {count} found are numbered from 0")
            }
            UnsupportedDevice { ordinal, name, capability: (major, minor) } => write!(
                f,
                "GPU {ordinal} ({name}) has compute capability {major}.{minor} and 8.0 is the lowest \
                 that is supported: use a newer GPU or the simulator"
            ),
            WrongTarget { kernel, target, device, device_target } => write!(
                f,
                "kernel `{kernel}` is built for {target}, which does not run on {device}: build it for \
                 {device_target}"
            ),
            PtxRejected(rejection) => rejection.fmt(f),
            SetMaxNRegIgnored { kernel, note } => write!(
                f,
                "the compiler ignores `setmaxnreg` in kernel `{kernel}`, so its warps would not get the \
                 registers that they ask for: say how many a thread starts with \
                 (`KernelOptions::max_registers`, or `block` and `min_blocks_per_sm`); it says: {note}"
            ),
            MissingEntry { entry } => write!(
                f,
                "the compiled code has no entry `{entry}`: clear the module cache, or compile without it"
            ),
            Ptxas { kernel, error } => write!(f, "kernel `{kernel}` has no code: {error}"),
            PtxOnSimulator { name } => write!(
                f,
                "the PTX of `{name}` cannot be compiled on the simulator, which runs kernels without \
                 PTX: use a GPU"
            ),
            EmptyGrid { grid: Grid { blocks, threads, .. } } => write!(
                f,
                "a grid of {} blocks of {} threads has an empty axis: each must be at least 1",
                Extent(*blocks),
                Extent(*threads)
            ),
            GridTooLarge { blocks, limit } => write!(
                f,
                "a grid of {} blocks is more than the device takes, {}: give each block more work, or \
                 launch several times",
                Extent(*blocks),
                Extent(*limit)
            ),
            BlockTooLarge { threads, limit, limit_in_all } => write!(
                f,
                "a block of {} threads is more than the device takes, {} and {limit_in_all} in all: use \
                 smaller blocks",
                Extent(*threads),
                Extent(*limit)
            ),
            BlockNotAsBuilt { kernel, built, given } => write!(
                f,
                "kernel `{kernel}` is built for blocks of {} threads and is launched with {}",
                Extent(*built),
                Extent(*given)
            ),
            MoreThreadsThanBuilt { kernel, built, given } => write!(
                f,
                "kernel `{kernel}` is built for blocks of at most {built} threads and is launched with \
                 {}",
                Extent(*given)
            ),
            Cluster { kernel, error } => {
                write!(f, "kernel `{kernel}` cannot be launched in these clusters: {error}")
            }
            TooManyBlocksAtOnce { kernel, blocks, limit } => write!(
                f,
                "a cooperative launch runs all blocks at once, and the device has room for {limit} of \
                 kernel `{kernel}`, not for {blocks}: launch fewer blocks and let each do more"
            ),
            TooManyRegisters { kernel, threads, limit, registers } => write!(
                f,
                "kernel `{kernel}` needs {registers} registers a thread, which last for blocks of \
                 {limit} threads and not of {threads}: use smaller blocks, or fix the block when the \
                 kernel is built (`KernelOptions::block`)"
            ),
            SharedTooLarge { kernel, bytes, limit_bytes } => write!(
                f,
                "kernel `{kernel}` has {bytes} bytes of shared memory and a block can have \
                 {limit_bytes}: use smaller tiles"
            ),
            ArgumentCount { kernel, expected, given } => {
                write!(f, "kernel `{kernel}` has {expected} parameters and the launch passes {given}")
            }
            ArgumentType { kernel, index, expected, given } => write!(
                f,
                "parameter {index} of kernel `{kernel}` is `{expected}` and its argument is `{given}`"
            ),
            Signature { kernel, error } => {
                write!(f, "a launch of kernel `{kernel}` is refused: {error}")
            }
            NotInModule { kernel } => write!(
                f,
                "the loaded module has no kernel `{kernel}`, or another one of this name: add it with `Module::add` before the module is loaded"
            ),
            OtherDevice { kernel, index, buffer, device } => write!(
                f,
                "argument {index} of kernel `{kernel}` is a buffer of {buffer} and the kernel is loaded \
                 on {device}: upload the data to the device of the kernel"
            ),
            OtherDeviceStream { what, stream, device } => write!(
                f,
                "{what} of {device} cannot be used on a stream of {stream}: make the stream with \
                 `Device::stream` of the same device"
            ),
            OtherDeviceEvent => f.write_str(
                "an event is of another device than the stream or the event beside it: record both on \
                 streams of one device",
            ),
            NotInGraph { call } => write!(
                f,
                "`{call}` cannot be part of a graph, and the stream records one: launches are recorded, \
                 and copies between buffers and fills; do it on another stream, or after `GraphBuilder::finish`"
            ),
            NotPrimaryContext { device } => write!(
                f,
                "the stream belongs to another context than the primary one of {device}: make it with \
                 `CudaContext::new`"
            ),
            ProgrammaticWithoutWait { kernel } => write!(
                f,
                "kernel `{kernel}` has no `griddepcontrol_wait`, so that a programmatic launch would not see what the \
                 launch before it writes: add one before the first use of memory"
            ),
            StreamCaptures => f.write_str(
                "other code captures the stream into a graph, which does not keep what the work uses: end the capture \
                 first, and record work with `Device::graph`",
            ),
            BorrowEnded => f.write_str(
                "the buffer was borrowed from `cudarc` and the borrow has ended: use it only in the closure of \
                 `Device::borrow_cudarc`",
            ),
            BorrowedBool => f.write_str(
                "a slice of `bool`s cannot be borrowed mutably, because a kernel may store bytes that are none: use `u8`",
            ),
            BufferShared => f.write_str(
                "the memory of the buffer cannot be given away, because a graph uses it or other code owns \
                 it: drop the graph, or copy the elements",
            ),
            AddressOnSimulator => {
                f.write_str("the simulator has no addresses: borrow memory on a GPU, or upload the data")
            }
            AddressAlignment { address, align } => write!(
                f,
                "memory at {address:#x} cannot be borrowed: elements of {align} bytes start at multiples of {align}"
            ),
            #[cfg(feature = "dlpack")]
            Dlpack(error) => error.fmt(f),
            PinnedBool => f.write_str(
                "page-locked memory cannot be of `bool`s, because a kernel may store bytes that are none: \
                 use `u8`",
            ),
            TensorMap(error) => error.fmt(f),
            LengthMismatch { buffer, host } => write!(
                f,
                "a buffer of {buffer} elements cannot be copied from or to {host} elements: the lengths \
                 must be equal"
            ),
            OutOfMemory { device, bytes } => write!(
                f,
                "{device} has no {bytes} bytes of memory free: drop buffers that are no longer needed, \
                 or split the work"
            ),
            AssertFailed(failures) => failures.fmt(f),
            Fault(fault) => write!(f, "{fault}; the device cannot be used again in this process"),
            DeviceLost(fault) => write!(
                f,
                "the device cannot be used again in this process, because earlier {fault}"
            ),
            #[cfg(feature = "sim")]
            Simulation(error) => error.fmt(f),
            Driver { call, status } => write!(f, "the CUDA driver refused `{call}` with {status}"),
        }
    }
}

impl From<TensorMapError> for RuntimeError {
    fn from(error: TensorMapError) -> RuntimeError {
        RuntimeError::TensorMap(Box::new(error))
    }
}

#[cfg(feature = "dlpack")]
impl From<super::dlpack::DlpackError> for RuntimeError {
    fn from(error: super::dlpack::DlpackError) -> RuntimeError {
        RuntimeError::Dlpack(Box::new(error))
    }
}

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            #[cfg(feature = "sim")]
            RuntimeError::Simulation(error) => Some(error.as_ref()),
            #[cfg(feature = "dlpack")]
            RuntimeError::Dlpack(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}
