//! Takes in streams and memory of other code, such as programs that use `cudarc`.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, sys};

use super::context::Context;
use super::cudarc_element::CudarcElement;
use super::memory::{Allocation, Memory};
use super::stream::Stream as RawStream;
use super::uses;
use crate::ir::{Element, Scalar};
use crate::runtime::buffer::Memory as AnyMemory;
use crate::runtime::device::Backend;
use crate::runtime::stream::StreamBackend;
use crate::runtime::{Buffer, Device, KeptBuffer, RuntimeError, Stream};

/// Returns the context of the GPU that a stream of `cudarc` belongs to.
pub(super) fn context_of(stream: &CudaStream) -> Result<&'static Context, RuntimeError> {
    let context = Context::open(stream.context().ordinal())?;
    // `cudarc` can be given any context; memory and streams belong to one.
    if context.is_raw(stream.context().cu_ctx()) {
        return Ok(context);
    }
    Err(RuntimeError::NotPrimaryContext { device: context.label().to_owned() })
}

impl Stream {
    /// Returns a stream that a program made with `cudarc`, for launches and copies beside its own. What happens when
    /// the program captures the stream into a graph is said at [`Stream`].
    ///
    /// # Errors
    /// [`NotPrimaryContext`](RuntimeError::NotPrimaryContext); those of [`Device::cuda`].
    pub fn from_cudarc(stream: &Arc<CudaStream>) -> Result<Stream, RuntimeError> {
        let context = context_of(stream)?;
        // SAFETY: the stream belongs to the context, and the copy of the reference keeps it alive.
        let raw = unsafe {
            RawStream::foreign(context, stream.cu_stream(), Box::new(Arc::clone(stream)))
        };
        Ok(Stream { backend: StreamBackend::Cuda(raw) })
    }

    /// Returns the stream, for calls of the driver by other code, as long as `self` or a clone of it is there; `None`
    /// on the simulator. What other code queues comes in the order of the stream, but buffers do not know of it. Other
    /// code must not capture a stream of this crate into a graph: nothing checks that.
    pub fn cu_stream(&self) -> Option<sys::CUstream> {
        match &self.backend {
            StreamBackend::Cuda(stream) => Some(stream.raw()),
            StreamBackend::Sim(_) => None,
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Returns a buffer from memory that a program allocated with `cudarc`, and gives away;
    /// [`Device::borrow_cudarc`] borrows it. Work that was queued before on the stream
    /// of the memory comes first; dropping the buffer waits for its uses and frees the memory. A slice of a type of the
    /// crate `half` becomes a buffer of ours: see [`CudarcElement`].
    ///
    /// # Errors
    /// [`NotPrimaryContext`](RuntimeError::NotPrimaryContext); those of [`Device::cuda`].
    pub fn from_cudarc<S: CudarcElement<Elem = T>>(
        slice: CudaSlice<S>,
    ) -> Result<Buffer<T>, RuntimeError> {
        let stream = Arc::clone(slice.stream());
        let mut slice = slice;
        let (address, len) = {
            let len = slice.len();
            // The buffer may be written: the stream also waits for what still reads the memory.
            let (address, _recorded) = slice.device_ptr_mut(&stream);
            (address, len)
        };
        let Stream { backend } = Stream::from_cudarc(&stream)?;
        let raw = match backend {
            StreamBackend::Cuda(raw) => raw,
            StreamBackend::Sim(_) => return Err(RuntimeError::CudaNotBuilt),
        };
        // SAFETY: the memory belongs to the slice, which is kept until the buffer is dropped and was given
        // away here, so that nobody else uses it.
        let memory =
            unsafe { Memory::foreign(&raw, address, len * size_of::<T>(), Box::new(slice)) };
        Ok(Buffer::from_memory(AnyMemory::Cuda(memory), len))
    }

    /// Returns the memory as `cudarc` has it, to be freed by it on `stream`; memory that came by
    /// [`from_cudarc`](Buffer::from_cudarc) is the same slice as before, with its own stream. Waits for all uses of the
    /// buffer. A buffer of `bool`s takes the way through the host: a byte that is neither 0 nor 1, which a kernel may
    /// have stored, becomes 1.
    ///
    /// # Errors
    /// The buffer comes back with each of them. [`OtherDeviceStream`](RuntimeError::OtherDeviceStream);
    /// [`BufferShared`](RuntimeError::BufferShared) where a graph uses the buffer or other code owns its memory; the
    /// fault or the failed assertions of a launch before, if it had some.
    pub fn into_cudarc(self, stream: &Arc<CudaStream>) -> Result<CudaSlice<T>, KeptBuffer<T>> {
        self.into_cudarc_as(stream)
    }

    /// As [`Buffer::into_cudarc`], with the type that another crate has for these elements:
    /// `CudaSlice<half::bf16>` from a `Buffer<bf16>`. Memory that came by [`from_cudarc`](Buffer::from_cudarc) must be
    /// asked for with the type that it came with.
    ///
    /// # Errors
    /// Those of [`Buffer::into_cudarc`].
    pub fn into_cudarc_as<S: CudarcElement<Elem = T>>(
        mut self,
        stream: &Arc<CudaStream>,
    ) -> Result<CudaSlice<S>, KeptBuffer<T>> {
        if let Err(error) = self.prepare_for_cudarc::<S>(stream) {
            return Err(KeptBuffer { error, buffer: self });
        }
        let len = self.len();
        let kept = |memory| KeptBuffer {
            error: RuntimeError::BufferShared,
            buffer: Buffer::from_memory(memory, len),
        };
        let memory = match self.into_memory() {
            AnyMemory::Cuda(memory) => memory,
            memory @ AnyMemory::Sim(_) => return Err(kept(memory)),
        };
        if memory.has_owner() {
            return memory.release_owner().map_err(|memory| kept(AnyMemory::Cuda(memory)));
        }
        let address = memory.release().map_err(|memory| kept(AnyMemory::Cuda(memory)))?;
        // SAFETY: the memory has `len` elements, all written or zero, whose bytes are values of `S`. It is used by
        // nobody, and is freed by the slice alone.
        Ok(unsafe { stream.upgrade_device_ptr(address, len) })
    }

    /// Checks that the memory can be given away, waits for its uses, and makes sure that its bytes are values.
    fn prepare_for_cudarc<S: CudarcElement<Elem = T>>(
        &mut self,
        stream: &Arc<CudaStream>,
    ) -> Result<(), RuntimeError> {
        let device = self.device();
        let memory = match self.memory_mut() {
            AnyMemory::Cuda(memory) => memory,
            AnyMemory::Sim(_) => return Err(other_device(stream, &device)),
        };
        if !std::ptr::eq(context_of(stream)?, memory.context()) {
            return Err(other_device(stream, &device));
        }
        if !memory.has_owner() {
            // `cudarc` makes events for the slice, and panics where it cannot: it says so here.
            let made = stream.context().new_event(None);
            made.map(drop)
                .or_else(|error| memory.context().check("cuEventCreate", error.0 as u32))?;
        } else if !memory.is_owned_by::<CudaSlice<S>>() {
            return Err(RuntimeError::BufferShared);
        }
        memory.wait_alone()?;
        match T::SCALAR {
            Scalar::Bool => memory.make_bools(),
            _ => Ok(()),
        }
    }
}

pub(super) fn other_device(stream: &CudaStream, device: &Device) -> RuntimeError {
    RuntimeError::OtherDeviceStream {
        what: "a buffer".to_owned(),
        stream: format!("GPU {}", stream.context().ordinal()),
        device: device.to_string(),
    }
}

impl Device {
    /// Returns a buffer of `len` elements at `address`, memory of other code that `owner` keeps alive: it is dropped
    /// when the last use of the buffer has ended.
    ///
    /// Work of this crate on the buffer starts at once: what other code has queued on the memory must have
    /// ended, or be ordered by the caller.
    ///
    /// # Safety
    /// As long as `owner` is not dropped, `address` is that of `len` elements in memory of the primary context
    /// of this device that no other code writes, and reads only where this crate does not write.
    ///
    /// # Errors
    /// [`AddressOnSimulator`](RuntimeError::AddressOnSimulator);
    /// [`AddressAlignment`](RuntimeError::AddressAlignment).
    pub unsafe fn borrow_raw<T: Element>(
        &self,
        address: u64,
        len: usize,
        owner: impl Send + Sync + 'static,
    ) -> Result<Buffer<T>, RuntimeError> {
        let context = match &self.backend {
            Backend::Cuda(context) => *context,
            Backend::Sim(_) => return Err(RuntimeError::AddressOnSimulator),
        };
        let align = size_of::<T>() as u64;
        if !address.is_multiple_of(align) {
            return Err(RuntimeError::AddressAlignment { address, align });
        }
        let bytes = len.saturating_mul(size_of::<T>());
        // SAFETY: by contract.
        let memory =
            unsafe { Memory::foreign(context.default_stream(), address, bytes, Box::new(owner)) };
        Ok(Buffer::from_memory(AnyMemory::Cuda(memory), len))
    }
}

impl Memory {
    /// Waits for all uses of memory that nobody else has. A graph that has it could be launched behind the wait, and be gone
    /// then.
    pub(super) fn wait_alone(&self) -> Result<(), RuntimeError> {
        let _current = self.context().enter()?;
        uses::wait_alone(self.allocation(), Allocation::uses)
    }
}
