//! [`AnyBuffer`]: device memory whose element type is a run-time value. Use it in programs that
//! learn types while they run, for example from a configuration's name.

use super::buffer::Buffer;
use super::buffer_ref::{BufferMut, BufferRef};
use super::device::Device;
use super::error::RuntimeError;
use super::stream::Stream;
use crate::ir::types::{Const, Scalar};

/// A [`Buffer`] whose element type is a value. Kernels without Rust types, such as
/// [`AnyGemm`](crate::kernels::gemm::AnyGemm) and ready kernels for
/// [`AnyElement`](super::AnyElement), read and write it through [`BufferRef`] and [`BufferMut`]. If
/// you know the type when you write the program, use [`Buffer`]: rustc then checks it, and a launch
/// checks nothing.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::runtime::{AnyBuffer, Device};
///
/// let x = AnyBuffer::from_f64(&Device::sim()?, Scalar::Bf16, &[0.5, 1.0, 1.001])?;
/// assert_eq!((x.scalar(), x.len()), (Scalar::Bf16, 3));
/// assert_eq!(x.to_f64()?, [0.5, 1.0, 1.0]);
/// # }
/// # Ok::<(), tilewright::runtime::RuntimeError>(())
/// ```
#[derive(Debug)]
pub struct AnyBuffer {
    bytes: Buffer<u8>,
    scalar: Scalar,
}

impl AnyBuffer {
    /// Allocates `len` elements whose bytes are zero.
    ///
    /// # Errors
    /// Those of [`Device::zeros`].
    pub fn zeros(device: &Device, scalar: Scalar, len: usize) -> Result<Self, RuntimeError> {
        let bytes = device.zeros(len.saturating_mul(scalar.size_bytes() as usize))?;
        Ok(AnyBuffer { bytes, scalar })
    }

    /// Allocates a buffer for these values and copies them, converted to the type by
    /// [`Const::from_f64`].
    ///
    /// # Errors
    /// Those of [`Device::upload`].
    pub fn from_f64(device: &Device, scalar: Scalar, values: &[f64]) -> Result<Self, RuntimeError> {
        let size = scalar.size_bytes() as usize;
        let mut bytes = Vec::with_capacity(values.len() * size);
        for value in values {
            bytes.extend_from_slice(&Const::from_f64(scalar, *value).bits().to_le_bytes()[..size]);
        }
        Ok(AnyBuffer { bytes: device.upload(&bytes)?, scalar })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Returns whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element type.
    pub fn scalar(&self) -> Scalar {
        self.scalar
    }

    /// Returns the device that holds the memory.
    pub fn device(&self) -> Device {
        self.bytes.device()
    }

    /// Borrows the buffer for a launch that reads it.
    pub fn as_ref(&self) -> BufferRef<'_> {
        BufferRef::from(&self.bytes).cast(self.scalar)
    }

    /// Borrows the buffer for a launch that writes it.
    pub fn as_mut(&mut self) -> BufferMut<'_> {
        BufferMut::from(&mut self.bytes).cast(self.scalar)
    }

    /// Copies the elements to the host as `f64`, after all launches before this call. 64-bit
    /// integers are rounded; a `bool` becomes 0 or 1.
    ///
    /// # Errors
    /// Those of [`Buffer::to_vec`].
    pub fn to_f64(&self) -> Result<Vec<f64>, RuntimeError> {
        let value = |element: Const| element.as_f64().unwrap_or(element.bits() as f64);
        Ok(self.to_vec()?.into_iter().map(value).collect())
    }

    /// Copies the elements to the host, after all launches before this call.
    ///
    /// # Errors
    /// Those of [`Buffer::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<Const>, RuntimeError> {
        let size = self.scalar.size_bytes() as usize;
        let bytes = self.bytes.to_vec()?;
        let bits =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(size).map(|bytes| Const::new(self.scalar, bits(bytes))).collect())
    }

    /// Queues on a stream that every byte of the buffer is set to `byte`, for example to 0xff,
    /// which makes each floating-point element NaN.
    ///
    /// # Errors
    /// Those of [`Buffer::fill`].
    pub fn fill_bytes(&mut self, byte: u8, stream: &Stream) -> Result<(), RuntimeError> {
        self.bytes.fill(byte, stream)
    }

    /// Queues a copy of another buffer's bytes, which must have the same length in bytes. The types
    /// may differ.
    ///
    /// # Errors
    /// Those of [`Buffer::copy_from`].
    pub fn copy_from(&mut self, other: &AnyBuffer, stream: &Stream) -> Result<(), RuntimeError> {
        self.bytes.copy_from(&other.bytes, stream)
    }
}
