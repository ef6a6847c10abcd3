//! GPUs, through the CUDA driver API: the only module with `unsafe` code.
//!
//! `cudarc` brings the types of the API and finds its library. The functions are not called through it:
//! its wrappers panic where the library or a symbol is missing, and they turn every answer into a Rust enum,
//! which is undefined for the error codes of newer drivers. [`api`] looks all functions up at the first use,
//! once, with a typed error, and takes answers as numbers; its signatures are checked against `cudarc`'s at
//! compile time.
//!
//! Why everything here is safe to call, in any order and from any thread:
//!
//! * All work of a context goes to one stream, so it runs in the order of the calls.
//! * Device memory is freed in that order too, and a module is unloaded after its last launch has ended.
//! * A copy from or to host memory has ended when the call returns: the host memory may be page-locked by
//!   other code, and then the driver itself would not wait.
//! * A context stays until the process ends, and each call makes its own one current.
//! * After a fault no call reaches the driver: the first cause is kept and returned.
#![expect(unsafe_code, reason = "a foreign interface; each block says why it is sound")]

mod api;
mod context;
mod event;
mod function;
mod memory;
mod module;
mod report;
mod status;

pub(super) use api::device_count;
pub(super) use context::Context;
pub(super) use function::{Function, Launch};
pub(super) use memory::Memory;
pub(super) use module::Module;
