//! Defines [`Pinned`]: page-locked host memory, which asynchronous copies to and from a device
//! need.

use std::fmt;
use std::marker::PhantomData;

use super::buffer::{Buffer, Memory};
use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::stream::{Stream, StreamBackend};
use crate::ir::Element;
use crate::ir::types::Scalar;

/// `len` elements of page-locked host memory, made by [`Device::pinned`].
///
/// Use it if a copy should overlap with work on the host: [`Buffer::write_from`] and
/// [`Buffer::read_to`] queue a copy and return at once, unlike [`Buffer::write`] and
/// [`Buffer::read_into`], which wait. Page-locked memory costs more to allocate and cannot be
/// swapped out.
///
/// It tracks its copies in flight: [`as_slice`](Pinned::as_slice) waits for the copies that write
/// the memory, and [`as_mut_slice`](Pinned::as_mut_slice) and `drop` wait for all copies. So there
/// is no guard that you would have to keep.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::{Device, RuntimeError};
/// let device = Device::default()?;
/// let stream = device.stream()?;
/// let (mut from, mut to) = (device.pinned(3)?, device.pinned(3)?);
/// from.as_mut_slice()?.copy_from_slice(&[1, 2, 3]);
/// let mut x = device.zeros(3)?;
/// x.write_from(&from, &stream)?;
/// x.read_to(&mut to, &stream)?;
/// assert_eq!(to.as_slice()?, [1, 2, 3]);
/// # }
/// # Ok::<(), tilewright::runtime::RuntimeError>(())
/// ```
pub struct Pinned<T> {
    memory: HostMemory<T>,
    len: usize,
    elem: PhantomData<fn() -> T>,
}

enum HostMemory<T> {
    /// The simulator copies before the call returns, so any memory will do.
    Sim(Vec<T>),
    Cuda(cuda::HostMemory),
}

impl Device {
    /// Allocates `len` elements of page-locked host memory and sets their bytes to zero: see
    /// [`Pinned`].
    ///
    /// # Errors
    /// [`PinnedBool`](RuntimeError::PinnedBool); [`OutOfMemory`](RuntimeError::OutOfMemory); the
    /// fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias("cudaMallocHost", "cudaHostAlloc"))]
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>, RuntimeError> {
        Pinned::zeros(self, len)
    }
}

impl<T: Element> Pinned<T> {
    pub(super) fn zeros(device: &Device, len: usize) -> Result<Pinned<T>, RuntimeError> {
        if T::SCALAR == Scalar::Bool {
            return Err(RuntimeError::PinnedBool);
        }
        let too_large = || RuntimeError::OutOfMemory {
            device: "the host".to_owned(),
            bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
        };
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(too_large)?;
        let memory = match &device.backend {
            Backend::Sim(_) => {
                let mut data = Vec::new();
                data.try_reserve_exact(len).map_err(|_| too_large())?;
                data.resize(len, T::from_bits(0));
                HostMemory::Sim(data)
            }
            Backend::Cuda(context) => HostMemory::Cuda(cuda::HostMemory::zeros(context, bytes)?),
        };
        Ok(Pinned { memory, len, elem: PhantomData })
    }

    /// Returns how many elements the memory has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the memory has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Waits for the copies that write the memory, then returns its elements.
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn as_slice(&self) -> Result<&[T], RuntimeError> {
        match &self.memory {
            HostMemory::Sim(data) => Ok(data),
            HostMemory::Cuda(memory) => memory.slice(),
        }
    }

    /// Waits for all copies from and to the memory, then returns its elements for writing, for
    /// example to fill in the next batch.
    ///
    /// # Errors
    /// Those of [`Pinned::as_slice`].
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], RuntimeError> {
        match &mut self.memory {
            HostMemory::Sim(data) => Ok(data),
            HostMemory::Cuda(memory) => memory.slice_mut(),
        }
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} elements)", self.len)
    }
}

impl<T: Element> Buffer<T> {
    /// Queues a copy of all elements from page-locked memory to this buffer, and returns at once.
    /// Use it instead of [`Buffer::write`] if the host has other work to do during the copy.
    ///
    /// # Errors
    /// [`LengthMismatch`](RuntimeError::LengthMismatch);
    /// [`OtherDeviceStream`](RuntimeError::OtherDeviceStream) if buffer, host memory and stream
    /// belong to different devices; [`NotInGraph`](RuntimeError::NotInGraph); the fault of an
    /// earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn write_from(&mut self, host: &Pinned<T>, stream: &Stream) -> Result<(), RuntimeError> {
        self.check_len(host.len)?;
        match (self.memory_mut(), &host.memory, &stream.backend) {
            (Memory::Sim(memory), HostMemory::Sim(data), StreamBackend::Sim(stream))
                if memory.number() == stream.number() =>
            {
                stream.check_runs("Buffer::write_from")?;
                memory.write(data)
            }
            (Memory::Cuda(memory), HostMemory::Cuda(host), StreamBackend::Cuda(stream))
                if one_context(memory, host, stream) =>
            {
                memory.write_from(host, stream)
            }
            _ => Err(self.on_other_device(stream)),
        }
    }

    /// Queues a copy of all elements from this buffer to page-locked memory, and returns at once.
    /// Read the elements with [`Pinned::as_slice`], which waits for the copy.
    ///
    /// # Errors
    /// Those of [`Buffer::write_from`].
    pub fn read_to(&self, host: &mut Pinned<T>, stream: &Stream) -> Result<(), RuntimeError> {
        self.check_len(host.len)?;
        match (self.memory(), &mut host.memory, &stream.backend) {
            (Memory::Sim(memory), HostMemory::Sim(data), StreamBackend::Sim(stream))
                if memory.number() == stream.number() =>
            {
                stream.check_runs("Buffer::read_to")?;
                data.copy_from_slice(&memory.to_vec());
                Ok(())
            }
            (Memory::Cuda(memory), HostMemory::Cuda(host), StreamBackend::Cuda(stream))
                if one_context(memory, host, stream) =>
            {
                memory.read_to_host(host, stream)
            }
            _ => Err(self.on_other_device(stream)),
        }
    }

    /// Queues a copy of all elements from another buffer of the same device, without a detour
    /// through the host. If the stream records a graph, the copy becomes part of the graph.
    ///
    /// # Errors
    /// Those of [`Buffer::write_from`], except [`NotInGraph`](RuntimeError::NotInGraph).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::{Device, RuntimeError};
    /// let device = Device::default()?;
    /// let (x, mut y) = (device.upload(&[1, 2, 3])?, device.zeros(3)?);
    /// y.copy_from(&x, &device.stream()?)?;
    /// assert_eq!(y.to_vec()?, [1, 2, 3]);
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn copy_from(&mut self, from: &Buffer<T>, stream: &Stream) -> Result<(), RuntimeError> {
        self.check_len(from.len())?;
        match (self.memory_mut(), from.memory(), &stream.backend) {
            (Memory::Sim(to), Memory::Sim(from), StreamBackend::Sim(stream))
                if to.number() == from.number() && to.number() == stream.number() =>
            {
                to.copy_from::<T>(from, stream)
            }
            (Memory::Cuda(to), Memory::Cuda(from), StreamBackend::Cuda(stream))
                if std::ptr::eq(to.context(), from.context())
                    && std::ptr::eq(to.context(), stream.context()) =>
            {
                to.copy_from(from, stream)
            }
            _ => Err(self.on_other_device(stream)),
        }
    }

    /// Queues a fill that sets all elements to `value`, for example to clear an accumulator before
    /// each launch. If the stream records a graph, the fill becomes part of the graph.
    ///
    /// # Errors
    /// [`OtherDeviceStream`](RuntimeError::OtherDeviceStream); the fault of an earlier launch, if
    /// there was one;
    /// [`Driver`](RuntimeError::Driver).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::{Device, RuntimeError};
    /// let device = Device::default()?;
    /// let mut x = device.zeros(3)?;
    /// x.fill(-0.5, &device.stream()?)?;
    /// assert_eq!(x.to_vec()?, [-0.5; 3]);
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn fill(&mut self, value: T, stream: &Stream) -> Result<(), RuntimeError> {
        let len = self.len();
        match (self.memory_mut(), &stream.backend) {
            (Memory::Sim(memory), StreamBackend::Sim(stream))
                if memory.number() == stream.number() =>
            {
                memory.fill(value, len, stream)
            }
            (Memory::Cuda(memory), StreamBackend::Cuda(stream))
                if std::ptr::eq(memory.context(), stream.context()) =>
            {
                memory.fill(value, stream)
            }
            _ => Err(self.on_other_device(stream)),
        }
    }

    fn on_other_device(&self, stream: &Stream) -> RuntimeError {
        RuntimeError::OtherDeviceStream {
            what: "a buffer".to_owned(),
            stream: stream.device().to_string(),
            device: self.device().to_string(),
        }
    }
}

fn one_context(memory: &cuda::Memory, host: &cuda::HostMemory, stream: &cuda::Stream) -> bool {
    let context = memory.context();
    std::ptr::eq(context, host.context()) && std::ptr::eq(context, stream.context())
}
