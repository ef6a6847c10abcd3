//! Attention forward (FlashAttention): `O = softmax(scale Q Kᵀ) V` per head, without storing the
//! scores in global memory. For decoding over a paged cache, see
//! [`decode`](crate::kernels::decode).

mod config;
mod epilogue;
mod error;
mod item;
mod launch;
mod plan;
mod problem;
mod sm80;
mod sm90;

use crate::codegen::Ptx;
use crate::ir::KernelIr;
use crate::ir::builder::{VectorElement, with_roles};

pub use config::{AttentionConfig, AttentionSchedule, SoftmaxOverlap};
pub use error::AttentionError;
pub use launch::{AttentionArgs, AttentionFunction};
use plan::{AnyKernel, Plan, TensorKernel};
pub use problem::AttentionProblem;
pub(super) use problem::span;

/// The attention kernel for `f16` or `bf16` tensors, with `f32` statistics and accumulators. For
/// query `i` of each head, it computes
///
/// `s(j) = scale q(i) · k(j)`, or with a softcap `c`: `c tanh(scale q(i) · k(j) / c)`;
/// `lse(i) = ln sum of e^s(j)`; `o(i) = sum of e^(s(j) - lse(i)) v(j)`
///
/// over the keys `j` that the query sees ([`AttentionProblem`]). A query that sees no key has
/// `o = 0` and `lse = -inf`. The softmax weights are rounded to the element type before they are
/// multiplied with V.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Target, bf16};
/// use tilewright::kernels::attention::{Attention, AttentionArgs, AttentionConfig, AttentionProblem};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim_for(Target::SM_90A)?;
/// let problem = AttentionProblem::new([1, 1, 1], [5, 70], 64);
/// let config = AttentionConfig { tile: [64, 64], ..AttentionConfig::new(device.target(), &problem)? };
/// let attention = Attention::<bf16>::new(config)?.load(&device)?;
/// // All scores are 0, so each output is the mean of V, and the LSE is the logarithm of 70.
/// let q = device.zeros::<bf16>(5 * 64)?;
/// let v = device.upload(&[bf16::from_f32(3.0); 70 * 64])?;
/// let (mut o, mut lse) = (device.zeros::<bf16>(5 * 64)?, device.zeros::<f32>(5)?);
/// attention.launch(&problem, AttentionArgs { q: &q, k: &device.zeros(70 * 64)?, v: &v, o: &mut o, lse: &mut lse })?;
/// assert!(o.to_vec()?.iter().all(|o| o.to_f32() == 3.0));
/// assert!(lse.to_vec()?.iter().all(|lse| (lse - 70f32.ln()).abs() < 1e-5));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Attention<T: VectorElement<2>> {
    config: AttentionConfig,
    kernel: AnyKernel<T>,
}

impl<T: VectorElement<2>> Attention<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`AttentionConfig::check`], and [`AttentionError::Element`] if `T` is neither `f16`
    /// nor `bf16`.
    pub fn new(config: AttentionConfig) -> Result<Self, AttentionError> {
        let kernel = with_roles(&[T::SCALAR], || match config.schedule {
            AttentionSchedule::WarpSpecialized => Plan::new(&config)?.build(),
            AttentionSchedule::Multistage { warps } => sm80::build(&config, warps),
        })?;
        Ok(Attention { config, kernel: kernel.with_elements() })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// Returns the kernel's IR.
    pub fn ir(&self) -> &KernelIr {
        match &self.kernel {
            AnyKernel::Tensor(_, TensorKernel::Whole(kernel)) => kernel.ir(),
            AnyKernel::Tensor(_, TensorKernel::Sequences(kernel)) => kernel.ir(),
            AnyKernel::Threads(kernel) => kernel.ir(),
        }
    }

    /// Writes the kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        match &self.kernel {
            AnyKernel::Tensor(_, TensorKernel::Whole(kernel)) => kernel.ptx(),
            AnyKernel::Tensor(_, TensorKernel::Sequences(kernel)) => kernel.ptx(),
            AnyKernel::Threads(kernel) => kernel.ptx(),
        }
    }
}
