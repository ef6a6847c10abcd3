//! Attention forward: `O = softmax(scale Q Kᵀ) V` of each head, without a matrix of scores in global memory.

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
use crate::ir::builder::VectorElement;

pub use config::{AttentionConfig, AttentionSchedule, SoftmaxOverlap};
pub use error::AttentionError;
pub use launch::{AttentionArgs, AttentionFunction};
use plan::{AnyKernel, Plan, TensorKernel};
pub use problem::AttentionProblem;
pub(super) use problem::span;

/// The attention of `f16` or `bf16` tensors with statistics and accumulators in `f32`. For query `i` of each head
///
/// `s(j) = scale q(i) · k(j)`, with a softcap `c` instead `c tanh(s(j) / c)`; `lse(i) = ln sum of e^s(j)`;
/// `o(i) = sum of e^(s(j) - lse(i)) v(j)`
///
/// over the keys `j` that the query sees ([`AttentionProblem`]). A query that sees no key has `o = 0` and `lse = -inf`.
/// Powers are rounded to the type of the elements before they are multiplied with V.
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
    /// Those of [`AttentionConfig::check`]; [`AttentionError::Element`].
    pub fn new(config: AttentionConfig) -> Result<Self, AttentionError> {
        let kernel = match config.schedule {
            AttentionSchedule::WarpSpecialized => Plan::new::<T>(&config)?.build()?,
            AttentionSchedule::Multistage { warps } => sm80::build(&config, warps)?,
        };
        Ok(Attention { config, kernel })
    }

    /// The configuration.
    pub fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        match &self.kernel {
            AnyKernel::Tensor(_, TensorKernel::Whole(kernel)) => kernel.ir(),
            AnyKernel::Tensor(_, TensorKernel::Sequences(kernel)) => kernel.ir(),
            AnyKernel::Threads(kernel) => kernel.ir(),
        }
    }

    /// Proves that the kernel's accesses are in bounds. See
    /// [`Kernel::prove`](crate::ir::Kernel::prove).
    pub fn prove(&self) -> crate::prove::Proof {
        match &self.kernel {
            AnyKernel::Tensor(_, TensorKernel::Whole(kernel)) => kernel.prove(),
            AnyKernel::Tensor(_, TensorKernel::Sequences(kernel)) => kernel.prove(),
            AnyKernel::Threads(kernel) => kernel.prove(),
        }
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        match &self.kernel {
            AnyKernel::Tensor(_, TensorKernel::Whole(kernel)) => kernel.ptx(),
            AnyKernel::Tensor(_, TensorKernel::Sequences(kernel)) => kernel.ptx(),
            AnyKernel::Threads(kernel) => kernel.ptx(),
        }
    }
}
