//! Lends a stream and tensors of other code to one launch.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use tilewright::prelude::*;
use tilewright::runtime::{RuntimeError, Stream};

/// The stream of a launch.
pub(crate) struct On<'c> {
    pub(crate) device: &'c Device,
    theirs: Arc<CudaStream>,
    ours: Stream,
}

impl<'c> On<'c> {
    /// # Safety
    /// `stream` is a stream of the context.
    pub(crate) unsafe fn new(
        device: &'c Device,
        context: &Arc<CudaContext>,
        stream: *mut c_void,
    ) -> Result<On<'c>, RuntimeError> {
        // SAFETY: guaranteed by the caller.
        let theirs = unsafe { context.wrap_borrowed_stream(stream.cast()) };
        let ours = Stream::from_cudarc(&theirs)?;
        Ok(On { device, theirs, ours })
    }

    pub(crate) fn is_captured(&self) -> Result<bool, RuntimeError> {
        self.ours.is_captured()
    }

    pub(crate) fn options(&self) -> LaunchOptions<'_> {
        LaunchOptions::default().stream(&self.ours)
    }

    /// Returns the tensor of `len` elements at an address.
    ///
    /// # Safety
    /// The elements stay there, in memory of the context, until the stream's work has ended.
    pub(crate) unsafe fn tensor<T>(&self, address: u64, len: usize) -> Tensor<T> {
        // SAFETY: guaranteed by the caller. The slice never frees the memory.
        Tensor(ManuallyDrop::new(unsafe { self.theirs.upgrade_device_ptr(address, len) }))
    }
}

/// A slice of other code's memory. Dropping it does not free the memory.
pub(crate) struct Tensor<T>(ManuallyDrop<CudaSlice<T>>);

impl<T> Deref for Tensor<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.0
    }
}

impl<T> DerefMut for Tensor<T> {
    fn deref_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.0
    }
}

impl<T> Drop for Tensor<T> {
    fn drop(&mut self) {
        // SAFETY: the slice is taken once.
        unsafe { ManuallyDrop::take(&mut self.0) }.leak();
    }
}
