//! [`BufferRef`] and [`BufferMut`]: borrowed buffers whose element type is a value.
//!
//! The public launch of a ready kernel takes `Buffer<T>`s, and converts them to these at once: the code that checks lengths and
//! fills the argument list is then the same for all element types, and is compiled once.

use super::buffer::{Buffer, Memory};
use super::error::RuntimeError;
use super::tensor_map::Mapped;
use crate::arch::TensorMapDesc;
use crate::ir::Element;
use crate::ir::types::Scalar;

/// A buffer that a launch reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferRef<'h> {
    memory: &'h Memory,
    len: usize,
    scalar: Scalar,
}

/// A buffer that a launch may write, and which nothing else reads or writes meanwhile.
#[derive(Debug)]
pub(crate) struct BufferMut<'h>(BufferRef<'h>);

impl<'h, T: Element> From<&'h Buffer<T>> for BufferRef<'h> {
    fn from(buffer: &'h Buffer<T>) -> Self {
        BufferRef { memory: buffer.memory(), len: buffer.len(), scalar: T::scalar() }
    }
}

impl<'h, T: Element> From<&'h mut Buffer<T>> for BufferMut<'h> {
    fn from(buffer: &'h mut Buffer<T>) -> Self {
        BufferMut(BufferRef::from(&*buffer))
    }
}

impl<'h> BufferRef<'h> {
    pub(super) fn memory(self) -> &'h Memory {
        self.memory
    }

    /// Returns the element count.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns the element type.
    pub(crate) fn scalar(self) -> Scalar {
        self.scalar
    }

    /// As [`Buffer::is_aligned_to`].
    pub(crate) fn is_aligned_to(self, bytes: u64) -> bool {
        self.memory.is_aligned_to(bytes)
    }

    /// Returns the same memory with elements of another type.
    pub(crate) fn cast(self, scalar: Scalar) -> BufferRef<'h> {
        let bytes = self.len * self.scalar.size_bytes() as usize;
        BufferRef { len: bytes / scalar.size_bytes() as usize, scalar, ..self }
    }

    /// As [`Buffer::tensor_map`].
    pub(crate) fn tensor_map(self, map: &TensorMapDesc) -> Result<Mapped<'h>, RuntimeError> {
        Mapped::new(self, map)
    }
}

impl<'h> BufferMut<'h> {
    /// Returns the same buffer as one that a launch only reads.
    pub(crate) fn as_ref(&self) -> BufferRef<'_> {
        self.0
    }

    /// Returns the same buffer for a shorter lifetime, so that it can be passed to several
    /// launches.
    pub(crate) fn reborrow(&mut self) -> BufferMut<'_> {
        BufferMut(self.0)
    }

    /// As [`BufferRef::cast`].
    pub(crate) fn cast(self, scalar: Scalar) -> BufferMut<'h> {
        BufferMut(self.0.cast(scalar))
    }

    /// As [`Buffer::tensor_map_mut`].
    pub(crate) fn tensor_map(self, map: &TensorMapDesc) -> Result<Mapped<'h>, RuntimeError> {
        self.0.tensor_map(map)
    }

    pub(super) fn into_ref(self) -> BufferRef<'h> {
        self.0
    }
}
