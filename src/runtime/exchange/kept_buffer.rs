//! Defines [`KeptBuffer`]: the error of a call that takes a buffer by value, such as an export to
//! other code, and returns it if the call fails.

use std::fmt;

use crate::ir::Element;
use crate::runtime::buffer::Buffer;
use crate::runtime::error::RuntimeError;

/// The error of a call that could not give a buffer to other code, such as [`Buffer::into_cudarc`].
/// It contains the unchanged buffer, so that you can go on using it.
///
/// `?` turns it into a [`RuntimeError`] and drops the buffer.
pub struct KeptBuffer<T> {
    /// Why the call failed.
    pub error: RuntimeError,
    /// The buffer that you passed.
    pub buffer: Buffer<T>,
}

impl<T> From<KeptBuffer<T>> for RuntimeError {
    fn from(kept: KeptBuffer<T>) -> RuntimeError {
        kept.error
    }
}

impl<T: Element> fmt::Debug for KeptBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBuffer")
            .field("error", &self.error)
            .field("buffer", &self.buffer)
            .finish()
    }
}

impl<T> fmt::Display for KeptBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: Element> std::error::Error for KeptBuffer<T> {}
