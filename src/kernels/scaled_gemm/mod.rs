//! GEMM of 8-bit floats with block scales, as DeepSeek-style checkpoints store them. Use it on
//! `sm_90a` for the linear layers of a model that is quantised to fp8.

mod columns;
mod config;
mod consumer;
mod error;
mod kernel;
mod launch;
mod problem;

use std::marker::PhantomData;

use crate::ir::Element;
use crate::ir::builder::{Converted, with_roles};

use super::ready::Built;
pub use config::{LaunchOverlap, ScaledGemmConfig};
pub use error::ScaledGemmError;
use kernel::Plan;
pub use launch::ScaledGemmArgs;
pub(in crate::kernels) use problem::BLOCK;
pub use problem::{BScaleBlock, BatchStrides, ScaleStrides, ScaledBatch, ScaledGemmProblem};

/// The GEMM of 8-bit floats with block scales, with `f32` accumulators:
///
/// `D[m, n] = sum over blocks b of SA[m, b] * SB[n / 128, b] * P(m, n, b)` with
/// `P(m, n, b) = sum over k in 128 b .. 128 (b + 1) of A[m, k] B[n, k]`
///
/// A is (M, K) and B is (N, K), both contiguous along K; D is (M, N), contiguous along N. So a
/// scale of A belongs to 1 x 128 elements, and a scale of B to 128 x 128, or with
/// [`BScaleBlock::Row128`] also to 1 x 128 (then `SB[n, b]`). The last blocks along N and K can be
/// smaller. The scales are `f32` in any order: see [`ScaleStrides`].
///
/// `A` and `B` are [`f8e4m3`](crate::ir::f8e4m3) or [`f8e5m2`](crate::ir::f8e5m2), and `D` is
/// `bf16`, `f16` or `f32`. Within a block of 128, tensor cores accumulate with about 14 bits. The
/// blocks' sums are scaled and added in `f32`, so the error hardly grows with K.
///
/// A problem can also be a [batch](ScaledGemmProblem::batched) of such GEMMs, or a [grouped
/// GEMM](ScaledGemmProblem::grouped), in which each group of rows has its own B.
///
/// A launch takes a [`ScaledGemmProblem`] and [`ScaledGemmArgs`]. It does nothing if D is empty.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Target, bf16, f8e4m3};
/// use tilewright::kernels::scaled_gemm::{
///     ScaledGemm, ScaledGemmArgs, ScaledGemmConfig, ScaledGemmProblem,
/// };
/// use tilewright::ir::types::Scalar;
/// use tilewright::runtime::Device;
///
/// let device = Device::sim_for(Target::SM_90A)?;
/// let (m, n, k) = (2, 16, 256);
/// let problem = ScaledGemmProblem::new(m, n, k);
/// let config = ScaledGemmConfig::new(device.target(), Scalar::Bf16, &problem)?;
/// let gemm = ScaledGemm::<f8e4m3, f8e4m3, bf16>::new(config)?.load(&device)?;
/// let a = device.upload(&[f8e4m3::from_f32(1.0); 2 * 256])?;
/// let b = device.upload(&[f8e4m3::from_f32(0.5); 16 * 256])?;
/// // Each row has two blocks along K. The second row of A is three times the first one.
/// let a_scales = device.upload(&[1.0, 2.0, 3.0, 6.0])?;
/// let b_scales = device.upload(&[1.0, 0.25])?;
/// let mut d = device.zeros::<bf16>(2 * 16)?;
/// let args = ScaledGemmArgs {
///     a: &a,
///     a_scales: &a_scales,
///     b: &b,
///     b_scales: &b_scales,
///     d: &mut d,
///     groups: None,
/// };
/// gemm.launch(&problem, args)?;
/// // 128 * 0.5 * (1 * 1 + 2 * 0.25) = 96
/// let d = d.to_vec()?;
/// assert!(d.iter().enumerate().all(|(i, d)| d.to_f32() == if i < 16 { 96.0 } else { 288.0 }));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScaledGemm<A, B, D> {
    config: ScaledGemmConfig,
    plan: Box<Plan>,
    types: PhantomData<fn() -> (A, B, D)>,
}

impl<A: Element, B: Element, D: Converted> ScaledGemm<A, B, D> {
    /// Builds the kernel of a configuration. Load the result on a device to launch it.
    ///
    /// # Errors
    /// Those of [`ScaledGemmConfig::check`], and [`ScaledGemmError::Element`] for types that are
    /// not supported or differ from the configuration's.
    pub fn new(config: ScaledGemmConfig) -> Result<Built<Self>, ScaledGemmError> {
        let (plan, kernel) = with_roles(&[A::SCALAR, B::SCALAR, D::SCALAR], || {
            let plan = Box::new(Plan::new(&config)?);
            let kernel = plan.build()?;
            Ok::<_, ScaledGemmError>((plan, kernel))
        })?;
        Ok(Built::new(ScaledGemm { config, plan, types: PhantomData }, kernel))
    }
}
