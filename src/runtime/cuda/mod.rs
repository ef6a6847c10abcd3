//! Drives GPUs through the CUDA driver API. `unsafe` code is here and in [`exchange`](super::exchange), which borrows memory and
//! streams of other code, and nowhere else.
//!
//! `cudarc` brings the types of the API. The functions are not called through it: its wrappers panic where the
//! library or a symbol is missing, they turn every answer into a Rust enum, which is undefined for the error
//! codes of newer drivers, and another crate of the program may have them linked. [`library`] loads the library.
//! [`api`] looks all functions up at the first use, once, with a typed error, and takes answers as numbers; its
//! signatures are checked against `cudarc`'s at compile time.
//!
//! Why everything here is safe to call, in any order and from any thread:
//!
//! * Memory, of the device and page-locked of the host, and code know the work that uses them, by stream
//!   ([`uses::Uses`]): later work on another stream waits for it, memory is freed and a module unloaded
//!   only after it. Nothing of this depends on a guard that has to be dropped.
//! * A recorded graph owns what its launches use, and counts as a use of all of it when it runs.
//! * A copy from or to host memory has ended when the call returns: the host memory may be page-locked by
//!   other code, and then the driver itself would not wait.
//! * A context stays until the process ends, and each call makes its own one current.
//! * After a fault no call reaches the driver: the first cause is kept and returned.
#![expect(unsafe_code, reason = "a foreign interface; each block says why it is sound")]
#![warn(clippy::undocumented_unsafe_blocks)]

mod api;
mod capture;
mod context;
#[cfg(feature = "cublas")]
mod cublas;
mod cudarc_element;
mod event;
mod foreign;
mod function;
#[cfg(feature = "tune")]
mod hold;
mod jit;
mod kernel_name;
mod lease;
mod lent;
mod library;
#[cfg(any(feature = "cublas", feature = "nccl"))]
mod library_folders;
mod link;
mod memory;
mod module;
#[cfg(feature = "nccl")]
pub(super) mod nccl;
#[cfg(feature = "nccl")]
mod nccl_watch;
mod pending_report;
mod pinned;
mod recording;
mod relaxed;
mod report;
mod status;
mod stream;
mod submission_counter;
mod sync;
mod tensor_map;
mod thread;
mod timeline;
#[cfg(unix)]
mod user;
mod uses;
#[cfg(feature = "sim")]
mod violations;

pub(super) use api::{device_count, driver_version};
pub(super) use context::Context;
#[cfg(feature = "cublas")]
pub(super) use cublas::{Handles as CublasHandles, Plan as CublasLtPlan};
pub use cudarc_element::CudarcElement;
pub(super) use event::Event;
pub(super) use foreign::context_of;
pub(super) use function::{Function, Launch, LaunchArg};
#[cfg(feature = "tune")]
pub(super) use hold::Hold;
pub(super) use lent::{Access, Lent};
pub(super) use memory::Memory;
pub(super) use module::Module;
pub(super) use pinned::HostMemory;
pub(super) use recording::{Graph, Recording};
pub(super) use stream::Stream;
pub(super) use tensor_map::EncodedMap;
#[cfg(unix)]
pub(super) use user::effective_user;
