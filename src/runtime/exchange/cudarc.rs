//! Exchanges streams and memory with programs that use `cudarc`, such as candle: wraps their
//! streams, takes over their slices, and gives buffers back.

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
    /// Wraps a stream that a program created with `cudarc`, so that launches and copies run in
    /// order with the program's own work. [`Stream`] explains what happens if the program captures
    /// the stream into a graph.
    ///
    /// `CudaContext::per_thread_stream`, which candle uses, is a different stream in each thread,
    /// so call this in the thread that launches. Other threads get
    /// [`OtherThreadStream`](RuntimeError::OtherThreadStream). They may use the buffers, but the
    /// host waits if their work has to run after that of another thread's default stream.
    ///
    /// # Errors
    /// [`NotPrimaryContext`](RuntimeError::NotPrimaryContext); those of [`Device::cuda`].
    #[inline]
    pub fn from_cudarc(stream: &Arc<CudaStream>) -> Result<Stream, RuntimeError> {
        cuda::Stream::from_cudarc(stream).map(|raw| Stream { backend: StreamBackend::Cuda(raw) })
    }

    /// Returns the stream's handle, so that other code can queue work on it with the driver; `None`
    /// on the simulator. The handle is valid as long as `self` or a clone of it exists. What other
    /// code queues runs in the stream's order, but buffers do not know about it, so you must order
    /// it with work on other streams yourself. Other code must not capture a stream of this crate
    /// into a graph; nothing checks that.
    pub fn cu_stream(&self) -> Option<sys::CUstream> {
        match &self.backend {
            StreamBackend::Cuda(stream) => Some(stream.raw()),
            StreamBackend::Sim(_) => None,
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Takes over memory that a program allocated with `cudarc`. To keep the slice in the program,
    /// use [`Device::borrow_cudarc`] instead. Work on the buffer runs after what was queued earlier
    /// on the memory's stream. Dropping the buffer waits for its uses and frees the memory. A slice
    /// with an element type from the crate `half` becomes a buffer with this crate's type: see
    /// [`CudarcElement`].
    ///
    /// # Errors
    /// [`NotPrimaryContext`](RuntimeError::NotPrimaryContext); those of [`Device::cuda`].
    pub fn from_cudarc<S: CudarcElement<Elem = T>>(
        slice: CudaSlice<S>,
    ) -> Result<Buffer<T>, RuntimeError> {
        let (memory, len) = cuda::Memory::from_cudarc(slice)?;
        Ok(Buffer::from_memory(Memory::Cuda(memory), len))
    }

    /// Gives the memory to `cudarc`, which will free it on `stream`. If the memory came from
    /// [`from_cudarc`](Buffer::from_cudarc), you get the same slice back, with its own stream.
    /// Waits for all uses of the buffer. A buffer of `bool`s is copied through the host, because a
    /// kernel may have stored bytes other than 0 and 1; they become 1.
    ///
    /// # Errors
    /// Each error returns the buffer. [`OtherDeviceStream`](RuntimeError::OtherDeviceStream);
    /// [`BufferShared`](RuntimeError::BufferShared) if a graph uses the buffer or other code owns
    /// its memory; the fault or the failed assertions of an earlier launch.
    pub fn into_cudarc(self, stream: &Arc<CudaStream>) -> Result<CudaSlice<T>, KeptBuffer<T>> {
        self.into_cudarc_as(stream)
    }

    /// Like [`Buffer::into_cudarc`], but with another crate's type for the same elements, for
    /// example `CudaSlice<half::bf16>` from a `Buffer<bf16>`. If the memory came from
    /// [`from_cudarc`](Buffer::from_cudarc), ask for the type that it had there.
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
        // SAFETY: the memory has `len` elements, all written or zero, whose bytes are valid values
        // of `S` according to the trait. Their uses have ended.
        unsafe { memory.into_cudarc(len, stream) }.map_err(|memory| kept(Memory::Cuda(memory)))
    }

    /// Checks that the memory can be given away, waits for its uses, and makes its bytes valid
    /// elements.
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
    /// Wraps `len` elements of other code's memory at `address` as a buffer. Use it for memory that
    /// comes neither from `cudarc` nor as a DLPack tensor. `owner` keeps the memory alive and is
    /// dropped after the buffer's last use.
    ///
    /// This crate's work on the buffer may start at once. If other code has queued work on the
    /// memory, it must have ended, or you must order it yourself.
    ///
    /// # Safety
    /// As long as `owner` is not dropped, `address` points to `len` elements in memory of this
    /// device's primary context. No other code writes them, and other code reads them only if this
    /// crate does not write them.
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
        // SAFETY: guaranteed by the caller.
        let memory = unsafe { cuda::Memory::borrow_raw(context, address, bytes, Box::new(owner)) };
        Ok(Buffer::from_memory(Memory::Cuda(memory), len))
    }
}
