//! Exchanges streams and memory with programs that use `cudarc`.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, sys};

use super::kept_buffer::KeptBuffer;
use crate::ir::Element;
use crate::ir::types::Scalar;
use crate::runtime::buffer::{Buffer, Memory};
use crate::runtime::cuda::{self, CudarcElement};
use crate::runtime::device::{Backend, Device};
use crate::runtime::error::RuntimeError;
use crate::runtime::stream::{Stream, StreamBackend};

impl Stream {
    /// Returns a stream that a program made with `cudarc`, for launches and copies beside its own. What happens when
    /// the program captures the stream into a graph is said at [`Stream`].
    ///
    /// `CudaContext::per_thread_stream`, which candle uses, is another stream in each thread: call this in the thread that
    /// launches. Other threads get [`OtherThreadStream`](RuntimeError::OtherThreadStream). They may use the buffers; the host
    /// waits where their work has to come after that of another thread's default stream.
    ///
    /// # Errors
    /// [`NotPrimaryContext`](RuntimeError::NotPrimaryContext); those of [`Device::cuda`].
    #[inline]
    pub fn from_cudarc(stream: &Arc<CudaStream>) -> Result<Stream, RuntimeError> {
        cuda::Stream::from_cudarc(stream).map(|raw| Stream { backend: StreamBackend::Cuda(raw) })
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
        let (memory, len) = cuda::Memory::from_cudarc(slice)?;
        Ok(Buffer::from_memory(Memory::Cuda(memory), len))
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
            Memory::Cuda(memory) => memory,
            memory @ Memory::Sim(_) => return Err(kept(memory)),
        };
        // SAFETY: the memory has `len` elements, all written or zero, whose bytes are values of `S` by the trait. Their
        // uses have ended.
        unsafe { memory.into_cudarc(len, stream) }.map_err(|memory| kept(Memory::Cuda(memory)))
    }

    /// Checks that the memory can be given away, waits for its uses, and makes sure that its bytes are values.
    fn prepare_for_cudarc<S: CudarcElement<Elem = T>>(
        &mut self,
        stream: &Arc<CudaStream>,
    ) -> Result<(), RuntimeError> {
        let device = self.device();
        let memory = match self.memory_mut() {
            Memory::Cuda(memory) => memory,
            Memory::Sim(_) => return Err(other_device(stream, &device)),
        };
        if !std::ptr::eq(cuda::context_of(stream)?, memory.context()) {
            return Err(other_device(stream, &device));
        }
        memory.prepare_for_cudarc::<S>(stream)?;
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
        let memory = unsafe { cuda::Memory::borrow_raw(context, address, bytes, Box::new(owner)) };
        Ok(Buffer::from_memory(Memory::Cuda(memory), len))
    }
}
