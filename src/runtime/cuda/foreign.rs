//! Wraps streams and memory of other code, such as programs that use `cudarc`. The functions in
//! `exchange` call it.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};

use super::capture::Resource;
use super::context::Context;
use super::cudarc_element::CudarcElement;
use super::memory::{Allocation, Memory};
use super::stream::Stream;
use super::uses;
use crate::runtime::error::RuntimeError;

/// Returns the context of the GPU that a `cudarc` stream belongs to.
#[inline]
pub(in crate::runtime) fn context_of(
    stream: &CudaStream,
) -> Result<&'static Context, RuntimeError> {
    let context = Context::open(stream.context().ordinal())?;
    // A `cudarc` context need not be the primary one, and memory and streams belong to one context.
    if context.is_raw(stream.context().cu_ctx()) {
        return Ok(context);
    }
    Err(RuntimeError::NotPrimaryContext { device: context.label().to_owned() })
}

impl Stream {
    /// Wraps a `cudarc` stream and keeps it alive.
    #[inline]
    pub(in crate::runtime) fn from_cudarc(
        stream: &Arc<CudaStream>,
    ) -> Result<Arc<Stream>, RuntimeError> {
        let context = context_of(stream)?;
        // SAFETY: the stream belongs to the context, and the cloned reference keeps it alive.
        Ok(unsafe { Stream::foreign(context, stream.cu_stream(), Box::new(Arc::clone(stream))) })
    }
}

impl Memory {
    /// Takes a slice's memory. Also returns its element count.
    pub(in crate::runtime) fn from_cudarc<S: CudarcElement>(
        mut slice: CudaSlice<S>,
    ) -> Result<(Memory, usize), RuntimeError> {
        let (stream, len) = (Arc::clone(slice.stream()), slice.len());
        let address = {
            // The buffer may be written, so the stream must also wait for reads of the memory.
            let (address, _recorded) = slice.device_ptr_mut(&stream);
            address
        };
        let stream = Stream::from_cudarc(&stream)?;
        let bytes = len * size_of::<S>();
        // SAFETY: the memory belongs to the slice, which lives until the memory is dropped. The
        // slice was moved in here, so nobody else uses it.
        let memory = unsafe { Memory::foreign(&stream, address, bytes, Box::new(slice)) };
        Ok((memory, len))
    }

    /// Checks that [`Memory::into_cudarc`] can give the memory away, and waits for its uses.
    pub(in crate::runtime) fn prepare_for_cudarc<S: CudarcElement>(
        &self,
        stream: &Arc<CudaStream>,
    ) -> Result<(), RuntimeError> {
        if !self.has_owner() {
            // `cudarc` creates events for the slice and panics if it cannot. Create one here first,
            // to return an error instead.
            let made = stream.context().new_event(None);
            made.map(drop)
                .or_else(|error| self.context().check("cuEventCreate", error.0 as u32))?;
        } else if !self.is_owned_by::<CudaSlice<S>>() {
            return Err(RuntimeError::BufferShared);
        }
        self.wait_alone()
    }

    /// Converts memory to a slice, or returns it unchanged if somebody else shares it.
    ///
    /// # Safety
    /// The memory has `len` elements whose bytes are valid values of `S`, and nothing in flight
    /// uses it.
    pub(in crate::runtime) unsafe fn into_cudarc<S: CudarcElement>(
        self,
        len: usize,
        stream: &Arc<CudaStream>,
    ) -> Result<CudaSlice<S>, Memory> {
        if self.has_owner() {
            return self.release_owner();
        }
        let address = self.release()?;
        // SAFETY: guaranteed by the caller; only the slice will free the memory.
        Ok(unsafe { stream.upgrade_device_ptr(address, len) })
    }

    /// Wraps memory at an address, which `owner` keeps alive.
    ///
    /// # Safety
    /// As long as `owner` is not dropped, `address` points to `bytes` bytes in memory of the
    /// context. No other code writes them, and other code reads them only if this crate does not
    /// write them.
    pub(in crate::runtime) unsafe fn borrow_raw(
        context: &'static Context,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        // SAFETY: guaranteed by the caller.
        unsafe { Memory::foreign(context.default_stream(), address, bytes, owner) }
    }

    /// Waits for all uses of memory that nobody shares. Returns an error if a graph shares it,
    /// because the graph could be launched after the wait.
    pub(in crate::runtime) fn wait_alone(&self) -> Result<(), RuntimeError> {
        let _current = self.context().enter()?;
        uses::wait_alone(self.allocation(), Allocation::uses)
    }
}
