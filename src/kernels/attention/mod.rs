//! Attention forward (FlashAttention): `O = softmax(scale Q Kᵀ) V` per head, without storing the
//! scores in global memory. Use it for whole prompts; for decoding over a paged cache, use
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

use std::marker::PhantomData;

use crate::ir::builder::{VectorElement, with_roles};
use crate::ir::types::Scalar;
use crate::ir::{Kernel, Untyped};

pub use config::{AttentionConfig, AttentionSchedule, SoftmaxOverlap};
pub use error::AttentionError;
pub use launch::AttentionArgs;
use plan::Plan;
pub use problem::AttentionProblem;
pub(super) use problem::span;

use super::ready::Built;

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
/// A launch takes an [`AttentionProblem`] and [`AttentionArgs`]. It does nothing if there are no
/// queries. Launches of one loaded kernel run one after the other, even on different streams,
/// because they share a counter.
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
/// let k = device.zeros(70 * 64)?;
/// attention.launch(&problem, AttentionArgs { q: &q, k: &k, v: &v, o: &mut o, lse: &mut lse, starts: None })?;
/// assert!(o.to_vec()?.iter().all(|o| o.to_f32() == 3.0));
/// assert!(lse.to_vec()?.iter().all(|lse| (lse - 70f32.ln()).abs() < 1e-5));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Attention<T> {
    config: AttentionConfig,
    /// The layouts of a kernel that fetches tiles by TMA.
    plan: Option<Box<Plan>>,
    elem: PhantomData<fn() -> T>,
}

impl<T: VectorElement<2>> Attention<T> {
    /// Builds the kernel of a configuration. Load the result on a device to launch it.
    ///
    /// # Errors
    /// Those of [`AttentionConfig::check`], and [`AttentionError::Element`] if `T` is neither `f16`
    /// nor `bf16`.
    pub fn new(config: AttentionConfig) -> Result<Built<Self>, AttentionError> {
        let (plan, kernel) = build(&config, T::SCALAR)?;
        Ok(Built::new(Attention { config, plan, elem: PhantomData }, kernel))
    }
}

/// Builds the kernel for elements of this type.
#[inline]
fn build(
    config: &AttentionConfig,
    elem: Scalar,
) -> Result<(Option<Box<Plan>>, Kernel<Untyped>), AttentionError> {
    with_roles(&[elem], || match config.schedule {
        AttentionSchedule::WarpSpecialized => {
            let plan = Box::new(Plan::new(config)?);
            let kernel = plan.build()?;
            Ok((Some(plan), kernel))
        }
        AttentionSchedule::Multistage { warps } => Ok((None, sm80::build(config, warps)?)),
    })
}
