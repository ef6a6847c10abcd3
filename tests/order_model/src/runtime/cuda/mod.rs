//! Compiles the library's bookkeeping beside the model's stand-ins of the other modules.
#![allow(dead_code, reason = "the model uses a part of the bookkeeping")]

#[path = "../../../../../src/runtime/cuda/submission_counter.rs"]
pub(crate) mod submission_counter;
#[path = "../../../../../src/runtime/cuda/timeline.rs"]
pub(crate) mod timeline;
#[path = "../../../../../src/runtime/cuda/uses.rs"]
pub(crate) mod uses;

pub(crate) mod stream;
pub(crate) mod sync;
mod tests;
pub(crate) mod thread;

pub(crate) mod kernel_name {
    /// The name of a kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct KernelId(pub(crate) u64);
}
