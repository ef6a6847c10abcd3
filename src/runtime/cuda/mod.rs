//! Drives GPUs through the CUDA driver API. All `unsafe` code of the crate is here and in
//! [`exchange`](super::exchange), which borrows memory and streams from other code.
//!
//! `cudarc` provides the API's types. We do not call the driver through it, for three reasons: its
//! wrappers panic if the library or a symbol is missing; they turn every status into a Rust enum,
//! which is undefined behaviour for the error codes of newer drivers; and another crate in the
//! program may have switched it to link the library. So [`library`] loads the driver library, and
//! [`api`] looks up all functions once, at first use. If one is missing you get a typed error.
//! Statuses are plain integers, and the signatures are checked against `cudarc`'s at compile time.
//!
//! Why everything here can be called safely, in any order and from any thread:
//!
//! * Device memory, page-locked host memory and code each track the work that uses them, per stream
//!   ([`uses::Uses`]): later work on another stream waits for it, and memory is freed and modules
//!   are unloaded only after it. None of this depends on a guard that somebody has to drop.
//! * A recorded graph owns everything that its launches use, and counts as a use of all of it
//!   whenever it runs.
//! * A copy from or to host memory has ended when the call returns, because the host memory may be
//!   page-locked by other code, and then the driver itself would not wait.
//! * A context lives until the process ends, and each call makes its own context current.
//! * After a fault, no call reaches the driver: the first cause is kept and returned.
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
