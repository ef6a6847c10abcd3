//! 2-D convolution, forward, with channels last (NHWC). Use it for the layers of a convolutional
//! network on `sm_90a`.

mod config;
mod error;
mod kernel;
mod launch;
mod problem;

use std::marker::PhantomData;

use crate::ir::builder::{VectorElement, with_roles};

use super::ready::Built;
pub use config::{ConvolutionBias, ConvolutionConfig};
pub use error::ConvolutionError;
use kernel::Plan;
pub use launch::ConvolutionArgs;
pub use problem::ConvolutionProblem;

/// The convolution kernel for `f16` or `bf16` tensors, with `f32` accumulators:
///
/// `y[n, p, q, k] = activation(bias[k] + sum over r, s, c of x[n, h, w, c] w[k, r, s, c])` with
/// `h = p * stride_h - padding_h + r * dilation_h` and
/// `w = q * stride_w - padding_w + s * dilation_w`
///
/// where x is 0 outside the image. As in most frameworks, that is a cross-correlation: the filter
/// is not mirrored. Bias and activation are options of the [`ConvolutionConfig`].
///
/// It is an implicit GEMM: rows are pixels of y, columns are output channels, and a step of the
/// main loop multiplies 64 channels at one filter position. TMA finds the pixels of x
/// ([`Im2colCopy`](crate::tensor::copy::Im2colCopy)), so no im2col matrix is written to memory. If
/// the channels are not a multiple of 64, the last block of each position is partly zeros; for
/// example 8 channels cost as much time as 64.
///
/// A launch takes a [`ConvolutionProblem`] and [`ConvolutionArgs`]. It does nothing if there are no
/// images.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Target, bf16};
/// use tilewright::kernels::convolution::{
///     Convolution, ConvolutionArgs, ConvolutionConfig, ConvolutionProblem,
/// };
/// use tilewright::runtime::Device;
/// use tilewright::tensor::copy::Filter;
///
/// let device = Device::sim_for(Target::SM_90A)?;
/// // One image of 3 x 4 pixels, and a 3 x 3 filter with padding 1.
/// let problem = ConvolutionProblem::new([1, 3, 4, 8], 8, [Filter::new(3).padding(1); 2]);
/// let config = ConvolutionConfig::new(device.target(), &problem)?;
/// let convolution = Convolution::<bf16>::new(config)?.load(&device)?;
/// let x = device.upload(&[bf16::from_f32(1.0); 3 * 4 * 8])?;
/// let w = device.upload(&[bf16::from_f32(0.5); 8 * 3 * 3 * 8])?;
/// let mut y = device.zeros::<bf16>(3 * 4 * 8)?;
/// convolution.launch(&problem, ConvolutionArgs { x: &x, w: &w, bias: None, y: &mut y })?;
/// // Each of the 8 channels adds 0.5 per pixel under the filter: 4 in a corner, 6 at an edge, else 9.
/// let pixels = [4, 6, 6, 4, 6, 9, 9, 6, 4, 6, 6, 4].map(|pixels| pixels as f32 * 8.0 * 0.5);
/// let y = y.to_vec()?;
/// assert!(y.iter().enumerate().all(|(i, y)| y.to_f32() == pixels[i / 8]));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Convolution<T> {
    config: ConvolutionConfig,
    plan: Box<Plan>,
    elem: PhantomData<fn() -> T>,
}

impl<T: VectorElement<2>> Convolution<T> {
    /// Builds the kernel of a configuration. Load the result on a device to launch it.
    ///
    /// # Errors
    /// Those of [`ConvolutionConfig::check`], and [`ConvolutionError::Element`] if `T` is neither
    /// `f16` nor `bf16`.
    pub fn new(config: ConvolutionConfig) -> Result<Built<Self>, ConvolutionError> {
        let (plan, kernel) = with_roles(&[T::SCALAR], || {
            let plan = Box::new(Plan::new(&config)?);
            let kernel = plan.build()?;
            Ok::<_, ConvolutionError>((plan, kernel))
        })?;
        Ok(Built::new(Convolution { config, plan, elem: PhantomData }, kernel))
    }
}
