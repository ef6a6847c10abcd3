//! [`NormArgs`]: what a norm is launched with.

use crate::ir::Element;
use crate::runtime::{AnyElement, Buffer, BufferElement, BufferMut, BufferRef};

/// The buffers and factors of a norm, for a launch of [`Norm`](super::Norm). Start from
/// [`new`](NormArgs::new) and add what the kernel's configuration asks for.
pub struct NormArgs<'h, T: BufferElement, D: BufferElement = T> {
    /// The input.
    pub x: T::Ref<'h>,
    /// The output.
    pub y: D::Mut<'h>,
    /// The residual, with the input's pitch, if the kernel has one. The launch replaces it by the
    /// sum.
    pub residual: Option<T::Mut<'h>>,
    /// One weight per column, if the kernel has weights.
    pub weight: Option<T::Ref<'h>>,
    /// One bias per column, if the kernel has biases.
    pub bias: Option<T::Ref<'h>>,
    /// Added below the root. Default: 1e-5.
    pub epsilon: f32,
    /// Factor for all results. Default: 1.
    pub scale: f32,
}

impl<'h, T: Element, D: Element> NormArgs<'h, T, D> {
    /// Returns the arguments without residual, weight and bias.
    pub fn new(x: &'h Buffer<T>, y: &'h mut Buffer<D>) -> Self {
        Self::plain(x, y)
    }
}

impl<'h> NormArgs<'h, AnyElement> {
    /// Returns the arguments of an [untyped](super::Norm::untyped) norm without residual, weight
    /// and bias.
    pub fn untyped(x: BufferRef<'h>, y: BufferMut<'h>) -> Self {
        Self::plain(x, y)
    }
}

impl<'h, T: BufferElement, D: BufferElement> NormArgs<'h, T, D> {
    fn plain(x: T::Ref<'h>, y: D::Mut<'h>) -> Self {
        NormArgs { x, y, residual: None, weight: None, bias: None, epsilon: 1e-5, scale: 1.0 }
    }

    /// Sets the residual.
    pub fn residual(self, residual: T::Mut<'h>) -> Self {
        NormArgs { residual: Some(residual), ..self }
    }

    /// Sets the weight.
    pub fn weight(self, weight: T::Ref<'h>) -> Self {
        NormArgs { weight: Some(weight), ..self }
    }

    /// Sets the bias.
    pub fn bias(self, bias: T::Ref<'h>) -> Self {
        NormArgs { bias: Some(bias), ..self }
    }

    /// Sets what is added below the root.
    pub fn epsilon(self, epsilon: f32) -> Self {
        NormArgs { epsilon, ..self }
    }

    /// Sets the factor for all results.
    pub fn scale(self, scale: f32) -> Self {
        NormArgs { scale, ..self }
    }
}
