//! [`BufferRef`] and [`BufferMut`]: borrowed buffers that store their element type as a run-time
//! [`Scalar`] instead of a type parameter. Use them in code that must handle every element type.
//!
//! The typed launch of a ready kernel takes `Buffer<T>`s and converts them to these at once, so the
//! code that checks lengths and fills the argument list is compiled once for all element types.

use super::buffer::{Buffer, Memory};
use super::device::Device;
use super::error::RuntimeError;
use super::tensor_map::Mapped;
use crate::arch::TensorMapDesc;
use crate::ir::Element;
use crate::ir::types::Scalar;

/// A borrowed buffer that a launch reads. It stores its element type as a run-time [`Scalar`]
/// instead of a type parameter. Make it from a [`Buffer`] by `into()` or from an
/// [`AnyBuffer`](crate::runtime::AnyBuffer) by `as_ref()`.
#[derive(Clone, Copy, Debug)]
pub struct BufferRef<'h> {
    memory: &'h Memory,
    len: usize,
    scalar: Scalar,
}

/// A borrowed buffer that a launch writes. It stores its element type as a run-time [`Scalar`]
/// instead of a type parameter. Make it from a `&mut` [`Buffer`] by `into()` or from an
/// [`AnyBuffer`](crate::runtime::AnyBuffer) by `as_mut()`.
#[derive(Debug)]
pub struct BufferMut<'h>(BufferRef<'h>);

/// The element type of a ready kernel's buffers: an [`Element`], for which a launch takes
/// `&Buffer<T>` and `&mut Buffer<T>`, or [`AnyElement`], for which it takes [`BufferRef`] and
/// [`BufferMut`].
pub trait BufferElement {
    /// A buffer that a launch reads.
    type Ref<'a>: Into<BufferRef<'a>>;
    /// A buffer that a launch writes.
    type Mut<'a>: Into<BufferMut<'a>>;
}

impl<T: Element> BufferElement for T {
    type Ref<'a> = &'a Buffer<T>;
    type Mut<'a> = &'a mut Buffer<T>;
}

/// Stands for element types that a program learns while it runs, for example from a file. You build
/// a ready kernel for such types with its function `untyped`, and its launches take buffers of any
/// type. If you know the types when you write the program, name them: rustc then checks the
/// buffers.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
/// use tilewright::runtime::{AnyBuffer, Device, RuntimeError};
///
/// let (device, elem, problem) = (Device::sim()?, Scalar::F16, RowProblem::new(2, 4));
/// let config = SoftmaxConfig::new(device.target(), elem, &problem)?;
/// let softmax = Softmax::untyped(config, elem, elem)?.load(&device)?;
/// let x = AnyBuffer::from_f64(&device, elem, &[3.0; 8])?;
/// let mut y = AnyBuffer::zeros(&device, elem, 8)?;
/// softmax.launch(&problem, (x.as_ref(), y.as_mut()))?;
/// assert_eq!(y.to_f64()?, [0.25; 8]);
/// // The launch checks the types.
/// let mut y = AnyBuffer::zeros(&device, Scalar::F32, 8)?;
/// assert!(softmax.launch(&problem, (x.as_ref(), y.as_mut())).is_err());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum AnyElement {}

impl BufferElement for AnyElement {
    type Ref<'a> = BufferRef<'a>;
    type Mut<'a> = BufferMut<'a>;
}

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

    /// Returns the element count, for example to check it against the problem's sizes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether the buffer has no elements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the element type, for example to compare it with the type that a kernel was built
    /// for.
    pub fn scalar(self) -> Scalar {
        self.scalar
    }

    /// Returns the device that holds the memory.
    pub fn device(self) -> Device {
        self.memory.device()
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
    pub fn as_ref(&self) -> BufferRef<'_> {
        self.0
    }

    /// Returns the buffer for a shorter time, so that you can pass it to several launches.
    pub fn reborrow(&mut self) -> BufferMut<'_> {
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
