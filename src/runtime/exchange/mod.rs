//! Exchanges memory and streams with other code in the program: `cudarc` and DLPack. You can run
//! kernels on memory that another library has allocated, and hand buffers over to it.
//!
//! Some functions are `unsafe`, because nothing can check what other code promises about its
//! memory.
#![expect(unsafe_code, reason = "each block says why it is sound")]
#![warn(clippy::undocumented_unsafe_blocks)]

mod borrow;
mod cudarc;
#[cfg(feature = "dlpack")]
mod dlpack;
mod kept_buffer;

pub use borrow::CudarcSlices;
pub use kept_buffer::KeptBuffer;
