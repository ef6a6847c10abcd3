//! [`AnyBuffer`]: device memory whose element type is a run-time value, for code such as the tuner
//! that learns types from a configuration.

use super::buffer::Buffer;
use super::buffer_ref::{BufferMut, BufferRef};
use super::device::Device;
use super::error::RuntimeError;
use super::stream::Stream;
use crate::ir::types::{Const, Scalar};

/// A [`Buffer`] whose element type is a run-time value. The tuner uses it for the operands of
/// kernels whose element types come from a configuration.
#[derive(Debug)]
pub(crate) struct AnyBuffer {
    bytes: Buffer<u8>,
    scalar: Scalar,
}

impl AnyBuffer {
    /// Returns a buffer of `len` elements whose bytes are zero.
    pub(crate) fn zeros(device: &Device, scalar: Scalar, len: usize) -> Result<Self, RuntimeError> {
        let bytes = device.zeros(len.saturating_mul(scalar.size_bytes() as usize))?;
        Ok(AnyBuffer { bytes, scalar })
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.as_ref().len()
    }

    pub(crate) fn scalar(&self) -> Scalar {
        self.scalar
    }

    pub(crate) fn device(&self) -> Device {
        self.bytes.device()
    }

    pub(crate) fn as_ref(&self) -> BufferRef<'_> {
        BufferRef::from(&self.bytes).cast(self.scalar)
    }

    pub(crate) fn as_mut(&mut self) -> BufferMut<'_> {
        BufferMut::from(&mut self.bytes).cast(self.scalar)
    }

    /// Returns the memory as bytes.
    #[cfg(any(test, feature = "cublas"))]
    pub(crate) fn bytes_mut(&mut self) -> &mut Buffer<u8> {
        &mut self.bytes
    }

    /// Sets all bytes.
    pub(crate) fn fill(&mut self, byte: u8, stream: &Stream) -> Result<(), RuntimeError> {
        self.bytes.fill(byte, stream)
    }

    /// Copies all elements from a buffer that has the same element type and length.
    pub(crate) fn copy_from(
        &mut self,
        other: &AnyBuffer,
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        self.bytes.copy_from(&other.bytes, stream)
    }

    /// Copies the elements to the host, after all launches before this call. The tuner compares
    /// kernels' results with it.
    pub(crate) fn to_vec(&self) -> Result<Vec<Const>, RuntimeError> {
        let size = self.scalar.size_bytes() as usize;
        let bytes = self.bytes.to_vec()?;
        let bits =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(size).map(|bytes| Const::new(self.scalar, bits(bytes))).collect())
    }
}
