//! Defines [`Buffer`]: typed device memory, which you get from `Device::upload` or `Device::zeros`
//! and pass to launches.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::simulator;
use crate::ir::Element;

/// `len` elements of type `T` in device memory, made by [`Device::upload`] or [`Device::zeros`].
///
/// A launch takes `&Buffer<T>` for a buffer that it reads and `&mut Buffer<T>` for one that it may
/// write, so you cannot pass a written buffer twice. You can drop a buffer at any time: its memory
/// is freed when the launches that use it have ended.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::{Device, RuntimeError};
/// let device = Device::default()?;
/// let mut x = device.upload(&[1, 2, 3])?;
/// x.write(&[4, 5, 6])?;
/// assert_eq!(x.to_vec()?, [4, 5, 6]);
/// let too_long = x.write(&[0; 4]);
/// assert_eq!(too_long, Err(RuntimeError::LengthMismatch { buffer: 3, host: 4 }));
/// # }
/// # Ok::<(), tilewright::runtime::RuntimeError>(())
/// ```
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    elem: PhantomData<fn() -> T>,
}

/// A part of a buffer that you can use wherever a `&Buffer` is expected, for example to launch on
/// the first half of a buffer. Made by [`Buffer::part`].
pub struct BufferPart<'b, T> {
    buffer: Buffer<T>,
    whole: PhantomData<&'b Buffer<T>>,
}

/// A part of a buffer that you can use wherever a `&mut Buffer` is expected, for example to
/// overwrite one row of a matrix. Made by [`Buffer::part_mut`].
pub struct BufferPartMut<'b, T> {
    buffer: Buffer<T>,
    whole: PhantomData<&'b mut Buffer<T>>,
}

impl<T> Deref for BufferPart<'_, T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.buffer
    }
}

impl<T> Deref for BufferPartMut<'_, T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.buffer
    }
}

impl<T> DerefMut for BufferPartMut<'_, T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        &mut self.buffer
    }
}

impl<T: Element> fmt::Debug for BufferPart<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(f)
    }
}

impl<T: Element> fmt::Debug for BufferPartMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(f)
    }
}

/// A backend's memory, without its element type.
#[derive(Debug)]
pub(super) enum Memory {
    Sim(simulator::Memory),
    Cuda(cuda::Memory),
}

impl Memory {
    /// Returns the device that owns the memory.
    pub(super) fn device(&self) -> Device {
        match self {
            Memory::Sim(memory) => Backend::Sim(memory.context()).into(),
            Memory::Cuda(memory) => Backend::Cuda(memory.context()).into(),
        }
    }

    /// As [`Buffer::is_aligned_to`].
    pub(super) fn is_aligned_to(&self, bytes: u64) -> bool {
        match self {
            Memory::Sim(memory) => 256u64.is_multiple_of(bytes) && memory.is_aligned_to(bytes),
            Memory::Cuda(memory) => memory.address().is_multiple_of(bytes),
        }
    }

    /// Returns whether `self.device() == *device`, without touching a reference count.
    pub(super) fn is_on(&self, device: &Device) -> bool {
        match (self, &device.backend) {
            (Memory::Sim(memory), Backend::Sim(context)) => memory.number() == context.number(),
            (Memory::Cuda(memory), Backend::Cuda(context)) => {
                std::ptr::eq(memory.context(), *context)
            }
            (Memory::Sim(_), Backend::Cuda(_)) | (Memory::Cuda(_), Backend::Sim(_)) => false,
        }
    }
}

impl Device {
    /// Allocates a buffer and copies `data` into it. Use it for a kernel's inputs.
    ///
    /// # Errors
    /// [`OutOfMemory`](RuntimeError::OutOfMemory), after which the device still works; the fault of
    /// an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias("cudaMemcpy", "cudaMemcpyHostToDevice"))]
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, RuntimeError> {
        Buffer::upload(self, data)
    }

    /// Allocates a buffer of `len` elements and sets its bytes to zero. Use it for a kernel's
    /// outputs.
    ///
    /// # Errors
    /// [`OutOfMemory`](RuntimeError::OutOfMemory), after which the device still works; the fault of
    /// an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias("cudaMalloc", "cudaMemset"))]
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>, RuntimeError> {
        Buffer::zeros(self, len)
    }
}

impl<T: Element> Buffer<T> {
    pub(super) fn zeros(device: &Device, len: usize) -> Result<Buffer<T>, RuntimeError> {
        let bytes = len_bytes::<T>(device, len)?;
        let memory = match &device.backend {
            Backend::Sim(context) => Memory::Sim(simulator::Memory::zeros(context, bytes)?),
            Backend::Cuda(context) => Memory::Cuda(cuda::Memory::zeros(context, bytes)?),
        };
        Ok(Buffer { memory, len, elem: PhantomData })
    }

    pub(super) fn upload(device: &Device, data: &[T]) -> Result<Buffer<T>, RuntimeError> {
        let memory = match &device.backend {
            Backend::Sim(context) => Memory::Sim(simulator::Memory::from_slice(context, data)?),
            Backend::Cuda(context) => Memory::Cuda(cuda::Memory::from_slice(context, data)?),
        };
        Ok(Buffer { memory, len: data.len(), elem: PhantomData })
    }

    /// Wraps the first `len` elements of memory that is large enough for them.
    #[cfg(feature = "cuda-any-version")]
    pub(super) fn from_memory(memory: Memory, len: usize) -> Buffer<T> {
        Buffer { memory, len, elem: PhantomData }
    }

    #[cfg(feature = "cuda-any-version")]
    pub(super) fn into_memory(self) -> Memory {
        self.memory
    }

    /// Returns how many elements the buffer has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device that owns the buffer. Only functions and streams of this device can use
    /// it.
    pub fn device(&self) -> Device {
        self.memory.device()
    }

    /// Returns whether the first element's address is a multiple of `bytes`, for example of 16
    /// before a kernel that loads 16-byte vectors. Memory from this crate starts at a multiple of
    /// 256; memory from other code may start anywhere.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// let x = Device::sim()?.zeros::<f32>(3)?;
    /// assert!(x.is_aligned_to(256));
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn is_aligned_to(&self, bytes: u64) -> bool {
        self.memory.is_aligned_to(bytes)
    }

    /// Returns the elements in `range` as a buffer that launches, copies and collectives take. The
    /// part shares the buffer's memory, so using the part counts as using the whole buffer.
    ///
    /// # Errors
    /// [`PartOutOfBounds`](RuntimeError::PartOutOfBounds);
    /// [`PartAlignment`](RuntimeError::PartAlignment) if the part does not start at a multiple of
    /// 16 bytes.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// let mut x = Device::sim()?.upload(&[1, 2, 3, 4, 5, 6])?;
    /// assert_eq!(x.part(4..6)?.to_vec()?, [5, 6]);
    /// x.part_mut(0..2)?.write(&[7, 8])?;
    /// assert_eq!(x.to_vec()?, [7, 8, 3, 4, 5, 6]);
    /// assert_eq!(
    ///     x.part(1..2).unwrap_err().to_string(),
    ///     "a part cannot start 4 bytes into a buffer: it must start at a multiple of 16 bytes"
    /// );
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn part(&self, range: Range<usize>) -> Result<BufferPart<'_, T>, RuntimeError> {
        Ok(BufferPart { buffer: self.part_of(range)?, whole: PhantomData })
    }

    /// Like [`Buffer::part`], but the part can be written.
    ///
    /// # Errors
    /// Those of [`Buffer::part`].
    pub fn part_mut(&mut self, range: Range<usize>) -> Result<BufferPartMut<'_, T>, RuntimeError> {
        Ok(BufferPartMut { buffer: self.part_of(range)?, whole: PhantomData })
    }

    fn part_of(&self, range: Range<usize>) -> Result<Buffer<T>, RuntimeError> {
        let Range { start, end } = range;
        let out_of_bounds = RuntimeError::PartOutOfBounds { start, end, buffer: self.len };
        if start > end || end > self.len {
            return Err(out_of_bounds);
        }
        // This cannot overflow, because the buffer's bytes are addressable.
        let size = T::SCALAR.size_bytes() as usize;
        let (first, len) = (start * size, end - start);
        if !first.is_multiple_of(16) {
            return Err(RuntimeError::PartAlignment { bytes: first });
        }
        let memory = match &self.memory {
            Memory::Sim(memory) => memory.part(first, len * size).map(Memory::Sim),
            Memory::Cuda(memory) => memory.part(first, len * size).map(Memory::Cuda),
        };
        let memory = memory.ok_or(out_of_bounds)?;
        Ok(Buffer { memory, len, elem: PhantomData })
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Copies the elements to the host, after all earlier launches that write them. This is how you
    /// read a kernel's result.
    ///
    /// # Errors
    /// The fault or the failed assertions of an earlier launch; a failed driver call.
    #[doc(alias = "cudaMemcpyDeviceToHost")]
    pub fn to_vec(&self) -> Result<Vec<T>, RuntimeError> {
        match &self.memory {
            Memory::Sim(memory) => Ok(memory.to_vec()),
            Memory::Cuda(memory) => memory.to_vec(),
        }
    }

    /// Like [`Buffer::to_vec`], but copies into memory that you provide, so that repeated reads do
    /// not allocate.
    ///
    /// # Errors
    /// [`LengthMismatch`](RuntimeError::LengthMismatch); the fault or the failed assertions of an
    /// earlier launch; a failed driver call.
    pub fn read_into(&self, data: &mut [T]) -> Result<(), RuntimeError> {
        self.check_len(data.len())?;
        match &self.memory {
            Memory::Sim(memory) => {
                data.copy_from_slice(&memory.to_vec());
                Ok(())
            }
            Memory::Cuda(memory) => memory.read_into(data),
        }
    }

    /// Overwrites all elements with `data`, after all earlier launches that use the buffer. Use it
    /// to run a kernel on new data without allocating again.
    ///
    /// # Errors
    /// [`LengthMismatch`](RuntimeError::LengthMismatch); the fault or the failed assertions of an
    /// earlier launch; a failed driver call.
    pub fn write(&mut self, data: &[T]) -> Result<(), RuntimeError> {
        self.check_len(data.len())?;
        match &mut self.memory {
            Memory::Sim(memory) => memory.write(data),
            Memory::Cuda(memory) => memory.write(data),
        }
    }

    pub(super) fn check_len(&self, host: usize) -> Result<(), RuntimeError> {
        match self.len {
            len if len == host => Ok(()),
            buffer => Err(RuntimeError::LengthMismatch { buffer, host }),
        }
    }
}

/// Shows device, element type and length, but not the values, because they would have to be copied
/// from the device.
impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} elements on {})", T::SCALAR, self.len, self.device())
    }
}

/// Returns the size of `len` elements in bytes, or an error if it is not addressable.
fn len_bytes<T: Element>(device: &Device, len: usize) -> Result<usize, RuntimeError> {
    let size = T::SCALAR.size_bytes() as usize;
    match len.checked_mul(size) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
        _ => Err(out_of_memory(device, (len as u64).saturating_mul(size as u64))),
    }
}

fn out_of_memory(device: &Device, bytes: u64) -> RuntimeError {
    RuntimeError::OutOfMemory { device: device.to_string(), bytes }
}
