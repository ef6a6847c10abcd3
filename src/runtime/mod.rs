//! Runs kernels on a GPU or on the CPU simulator: same calls, same results.
//!
//! A [`Device`] allocates [`Buffer`]s and loads kernels as [`Function`]s. A launch takes the
//! arguments that the kernel's signature names, so a wrong argument does not compile.
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use tilewright::ir::{Global, GlobalMut, Kernel, Target};
//! use tilewright::runtime::{Device, Grid};
//!
//! type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
//! let device = Device::default()?; // a GPU if there is one, else the simulator
//! let axpy = Kernel::<Axpy>::build("axpy", device.target(), |k, (a, x, y, n)| {
//!     let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
//!     k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
//! })?;
//! let f = device.load(&axpy)?;
//! let x = device.upload(&[1.0, 2.0, 3.0])?;
//! let mut y = device.upload(&[10.0, 10.0, 10.0])?;
//! f.launch(Grid::cover(3, 256), (2.0, &x, &mut y, 3))?;
//! assert_eq!(y.to_vec()?, [12.0, 14.0, 16.0]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is safe
//!
//! Launches are asynchronous. Work that names no stream runs on the default stream, in call order.
//! Work on two [`Stream`]s may overlap, unless both use the same buffer and at least one of them
//! writes it: then it runs in call order, too. So a launch sees everything that was written before
//! it, and a read waits for the launches that write what it reads. You can drop buffers and
//! functions at any time, because their memory and code are freed only when the work that uses them
//! has ended. No sequence of calls reads or frees memory in flight. A copy between host and device
//! is complete when the call returns. The exception is [`Pinned`] memory, which tracks its copies
//! in flight.
//!
//! No access of a kernel leaves its buffer. The simulator checks every access against the allocation
//! that its pointer comes from. A load for a GPU proves what it can
//! ([`Kernel::prove`](crate::ir::Kernel::prove)), evaluates launch conditions such as `len(y) >= n`
//! at each launch ([`Function::conditions`]), and puts checks into the code for the rest
//! ([`Function::checks`]). [`Device::load_unchecked`] does none of this, and is `unsafe`.
//! `docs/safety.md` has the whole picture, and what is not covered, such as inline PTX.
//!
//! # What is kept
//!
//! Loading a kernel compiles its PTX once: [`ModuleCache`] keeps the code in memory and on disk,
//! for this process and the next.
//!
//! # What can fail
//!
//! Every function here returns a [`RuntimeError`] if it fails; none panics. If there is no driver,
//! no device or not enough memory, the error says so and names the cure. If a kernel faults on a
//! GPU, the first call that waits for it returns the fault, and so does every later call.

#![cfg_attr(
    not(feature = "cuda-any-version"),
    allow(rustdoc::broken_intra_doc_links, reason = "without CUDA there is no module cache")
)]

#[cfg(not(all(feature = "sim", feature = "cuda-any-version", feature = "nccl")))]
mod absent;
mod any_buffer;
mod argument;
mod buffer;
mod buffer_ref;
#[cfg(feature = "cuda-any-version")]
mod cache;
#[cfg(feature = "cuda-any-version")]
mod cache_archive;
#[cfg(feature = "cuda-any-version")]
mod cache_disk;
mod cache_folder;
mod checked;
mod checks_left;
pub mod comm;
#[cfg(feature = "cublas")]
mod cublas;
#[cfg(feature = "cublas")]
mod cublas_problem;
#[cfg(feature = "cuda-any-version")]
mod cuda;
mod device;
mod device_choice;
#[cfg(feature = "dlpack")]
mod dlpack_error;
mod driver_answer;
mod error;
#[cfg(feature = "cuda-any-version")]
mod exchange;
mod fault;
mod function;
mod graph;
mod guard;
mod launch_options;
mod limits;
mod load_options;
mod module;
mod note;
mod occupancy;
mod pinned;
mod properties;
mod ptxas;
mod random_name;
#[cfg(feature = "sim")]
mod simulator;
mod stream;
mod tensor_map;
mod timing;
#[cfg(feature = "cuda-any-version")]
mod trust;
#[cfg(feature = "cuda-any-version")]
mod whole_file;

#[cfg(not(feature = "cuda-any-version"))]
use absent::cuda;
#[cfg(not(feature = "sim"))]
use absent::simulator;

pub use crate::launch::assert::{AssertFailure, AssertFailures};
pub use crate::launch::grid::{ClusterError, Grid};
pub use any_buffer::AnyBuffer;
pub(crate) use argument::Declared;
pub use argument::{Arg, ArgList, Argument, Arguments, AtLaunch};
pub use buffer::{Buffer, BufferPart, BufferPartMut};
pub use buffer_ref::{AnyElement, BufferElement, BufferMut, BufferRef};
#[cfg(feature = "cuda-any-version")]
pub use cache::{CacheStats, ModuleCache};
pub use cache_folder::cache_folder;
pub use checks_left::ChecksLeft;
#[cfg(feature = "cublas")]
pub use cublas::{Cublas, CublasLtPlan};
#[cfg(feature = "cublas")]
pub use cublas_problem::{CublasError, CublasLibrary, Matmul};
#[cfg(feature = "cuda-any-version")]
pub use cuda::CudarcElement;
pub use device::{Device, driver_version};
pub use device_choice::{DeviceChoice, ParseDeviceError};
#[cfg(feature = "dlpack")]
pub use dlpack_error::DlpackError;
pub use driver_answer::{CudaVersion, DriverStatus, PtxRejection, driver_release};
pub use error::RuntimeError;
#[cfg(feature = "cuda-any-version")]
pub use exchange::{CudarcSlices, KeptBuffer};
pub use fault::{DeviceFault, FaultKind};
pub use function::Function;
pub use graph::{Graph, GraphBuilder};
pub use launch_options::LaunchOptions;
pub use limits::Limits;
pub use load_options::LoadOptions;
pub use module::LoadedModule;
pub use note::{CompilerNote, CompilerNoteKind};
pub use occupancy::Occupancy;
pub use pinned::Pinned;
pub use properties::Properties;
pub use ptxas::{Assembled, EntryReport, Ptxas, PtxasError};
pub use stream::{Event, Hold, Stream};
pub(crate) use tensor_map::Mapped;
pub use tensor_map::{TensorMapArg, TensorMapArgMut};
pub use timing::{LoadTimes, Timing};
#[cfg(feature = "cuda-any-version")]
pub use trust::{Refusal, RefusalReason};

/// Declares the launch side of [`params!`](crate::params).
#[doc(hidden)]
#[macro_export]
macro_rules! __launch_params {
    ($Name:ident $(<$T:ident: $Bound:path>)? { $($field:ident: $Field:ty),+ }) => {
        impl$(<$T: $Bound>)? $crate::runtime::Argument for $Name<$($T)?> {
            type Arg<'h, 'b: 'h> = $Name<$($T,)? $crate::runtime::AtLaunch<'h, 'b>>;

            #[inline]
            fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut $crate::runtime::ArgList<'h>) {
                $(<$Field as $crate::runtime::Argument>::erase(arg.$field, out);)+
            }
        }
    };
}
