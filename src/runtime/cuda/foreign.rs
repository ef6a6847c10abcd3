//! Takes in streams and memory of other code, such as programs that use `cudarc`.

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

/// Returns the context of the GPU that a stream of `cudarc` belongs to.
#[inline]
pub(in crate::runtime) fn context_of(
    stream: &CudaStream,
) -> Result<&'static Context, RuntimeError> {
    let context = Context::open(stream.context().ordinal())?;
    // `cudarc` can be given any context; memory and streams belong to one.
    if context.is_raw(stream.context().cu_ctx()) {
        return Ok(context);
    }
    Err(RuntimeError::NotPrimaryContext { device: context.label().to_owned() })
}

impl Stream {
    /// Returns a stream of `cudarc`, which is kept.
    #[inline]
    pub(in crate::runtime) fn from_cudarc(
        stream: &Arc<CudaStream>,
    ) -> Result<Arc<Stream>, RuntimeError> {
        let context = context_of(stream)?;
        // SAFETY: the stream belongs to the context, and the copy of the reference keeps it alive.
        Ok(unsafe { Stream::foreign(context, stream.cu_stream(), Box::new(Arc::clone(stream))) })
    }
}

impl Memory {
    /// Returns the memory of a slice, and the number of its elements.
    pub(in crate::runtime) fn from_cudarc<S: CudarcElement>(
        mut slice: CudaSlice<S>,
    ) -> Result<(Memory, usize), RuntimeError> {
        let (stream, len) = (Arc::clone(slice.stream()), slice.len());
        let address = {
            // The buffer may be written: the stream also waits for what still reads the memory.
            let (address, _recorded) = slice.device_ptr_mut(&stream);
            address
        };
        let stream = Stream::from_cudarc(&stream)?;
        let bytes = len * size_of::<S>();
        // SAFETY: the memory belongs to the slice, which is kept until the memory is dropped and was given
        // away here, so that nobody else uses it.
        let memory = unsafe { Memory::foreign(&stream, address, bytes, Box::new(slice)) };
        Ok((memory, len))
    }

    /// Checks that [`Memory::into_cudarc`] can give the memory away, and waits for its uses.
    pub(in crate::runtime) fn prepare_for_cudarc<S: CudarcElement>(
        &self,
        stream: &Arc<CudaStream>,
    ) -> Result<(), RuntimeError> {
        if !self.has_owner() {
            // `cudarc` makes events for the slice, and panics where it cannot: it says so here.
            let made = stream.context().new_event(None);
            made.map(drop)
                .or_else(|error| self.context().check("cuEventCreate", error.0 as u32))?;
        } else if !self.is_owned_by::<CudaSlice<S>>() {
            return Err(RuntimeError::BufferShared);
        }
        self.wait_alone()
    }

    /// Returns memory as a slice, or unchanged where somebody else has it, too.
    ///
    /// # Safety
    /// The memory has `len` elements whose bytes are values of `S`, and nothing in flight uses it.
    pub(in crate::runtime) unsafe fn into_cudarc<S: CudarcElement>(
        self,
        len: usize,
        stream: &Arc<CudaStream>,
    ) -> Result<CudaSlice<S>, Memory> {
        if self.has_owner() {
            return self.release_owner();
        }
        let address = self.release()?;
        // SAFETY: by contract; the memory is freed by the slice alone.
        Ok(unsafe { stream.upgrade_device_ptr(address, len) })
    }

    /// Returns memory at an address, which `owner` keeps alive.
    ///
    /// # Safety
    /// As long as `owner` is not dropped, `address` is that of `bytes` bytes in memory of the context that no other code
    /// writes, and reads only where this crate does not write.
    pub(in crate::runtime) unsafe fn borrow_raw(
        context: &'static Context,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        // SAFETY: by contract.
        unsafe { Memory::foreign(context.default_stream(), address, bytes, owner) }
    }

    /// Waits for all uses of memory that nobody else has. A graph that has it could be launched behind the wait, and be gone
    /// then.
    pub(in crate::runtime) fn wait_alone(&self) -> Result<(), RuntimeError> {
        let _current = self.context().enter()?;
        uses::wait_alone(self.allocation(), Allocation::uses)
    }
}
