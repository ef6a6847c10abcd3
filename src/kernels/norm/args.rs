//! [`NormArgs`]: what a norm is launched with.

use crate::runtime::Buffer;

/// The buffers and factors of a norm, for a launch of [`Norm`](super::Norm). Start from
/// [`new`](NormArgs::new) and add what the kernel's configuration asks for.
pub struct NormArgs<'h, T, D = T> {
    /// The input.
    pub x: &'h Buffer<T>,
    /// The output.
    pub y: &'h mut Buffer<D>,
    /// The residual, with the input's pitch, if the kernel has one. The launch replaces it by the
    /// sum.
    pub residual: Option<&'h mut Buffer<T>>,
    /// One weight per column, if the kernel has weights.
    pub weight: Option<&'h Buffer<T>>,
    /// One bias per column, if the kernel has biases.
    pub bias: Option<&'h Buffer<T>>,
    /// Added below the root. Default: 1e-5.
    pub epsilon: f32,
    /// Factor for all results. Default: 1.
    pub scale: f32,
}

impl<'h, T, D> NormArgs<'h, T, D> {
    /// Returns the arguments without residual, weight and bias.
    pub fn new(x: &'h Buffer<T>, y: &'h mut Buffer<D>) -> Self {
        NormArgs { x, y, residual: None, weight: None, bias: None, epsilon: 1e-5, scale: 1.0 }
    }

    /// Sets the residual.
    pub fn residual(self, residual: &'h mut Buffer<T>) -> Self {
        NormArgs { residual: Some(residual), ..self }
    }

    /// Sets the weight.
    pub fn weight(self, weight: &'h Buffer<T>) -> Self {
        NormArgs { weight: Some(weight), ..self }
    }

    /// Sets the bias.
    pub fn bias(self, bias: &'h Buffer<T>) -> Self {
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
