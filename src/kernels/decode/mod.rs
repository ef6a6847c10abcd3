//! Attention decode (FlashDecoding): the next few tokens of each sequence attend to a paged KV
//! cache. Use it to generate tokens; for whole prompts, use
//! [`attention`](crate::kernels::attention).

mod config;
mod error;
mod kernel;
mod launch;
mod plan;
mod problem;
mod tiles;

use std::marker::PhantomData;

use crate::ir::builder::{VectorElement, with_roles};
use crate::ir::types::Scalar;
use crate::ir::{Kernel, Untyped};

use super::ready::Built;
pub use config::DecodeConfig;
pub use error::DecodeError;
pub use launch::DecodeArgs;
pub use plan::DecodePlan;
pub use problem::DecodeProblem;
use tiles::Tiles;

/// The decode kernel: attention for 1 to 16 queries per sequence over a cache in pages, for `f16` or
/// `bf16`, with `f32` statistics and accumulators. For query `i` of a head, it computes
///
/// `s(j) = scale q(i) · k(j)`; `lse(i) = ln sum of e^s(j)`; `o(i) = sum of e^(s(j) - lse(i)) v(j)`
///
/// over the keys `j` that the query sees ([`DecodeProblem`]), which a sliding window may limit. With
/// attention sinks, the first sum has one more term `e^sink` for each head, as in gpt-oss. A query
/// that sees no key has `o = 0`, and `lse = -inf` or the sink. The softmax weights are rounded to the element type before they are multiplied
/// with V.
///
/// Token `j` of sequence `s` is token `j % page` of page `table[s][j / page]`. The lengths and the
/// table are read on the device, so you can record a launch in a graph and replay it while
/// sequences grow. The kernel checks them: it clamps a length to
/// 0..=[`max_len`](DecodeProblem::max_len), and skips the keys of a table entry that is not a page
/// of the pool. So you can mark a dropped page with -1.
///
/// A launch takes a [`DecodeProblem`] and [`DecodeArgs`]. It does nothing if there are no queries.
/// Launches of one loaded kernel run one after the other, even on different streams, because they
/// share a workspace. Launches with the same [`DecodePlan`] give the same results bit for bit.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::bf16;
/// use tilewright::kernels::decode::{Decode, DecodeArgs, DecodeConfig, DecodeProblem};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// // Two sequences, 4 query heads that share one key head; 3 pages of 16 tokens.
/// let problem = DecodeProblem::new([2, 4, 1], 64, [3, 16, 2]);
/// let decode = Decode::<bf16>::new(DecodeConfig::new(device.target(), 64)?)?.load(&device)?;
/// // All scores are 0, so each output is the mean of V. The first sequence has pages 2 and 0, the second page 1.
/// let (q, k) = (device.zeros(2 * 4 * 64)?, device.zeros(3 * 16 * 64)?);
/// let v: Vec<bf16> = (0..3 * 16 * 64).map(|i| bf16::from_f32((i / (16 * 64)) as f32)).collect();
/// let (v, table, lens) = (device.upload(&v)?, device.upload(&[2, 0, 1, -1])?, device.upload(&[32, 5])?);
/// let (mut o, mut lse) = (device.zeros::<bf16>(2 * 4 * 64)?, device.zeros::<f32>(2 * 4)?);
/// let args = DecodeArgs { q: &q, k: &k, v: &v, table: &table, lens: &lens, sinks: None, o: &mut o, lse: Some(&mut lse), plan: None };
/// decode.launch(&problem, args)?;
/// assert!(o.to_vec()?.iter().all(|o| o.to_f32() == 1.0));
/// let (long, short) = (32f32.ln(), 5f32.ln());
/// let expected = [long, long, long, long, short, short, short, short];
/// assert!(lse.to_vec()?.iter().zip(expected).all(|(lse, expected)| (lse - expected).abs() < 1e-5));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decode<T> {
    config: DecodeConfig,
    elem: PhantomData<fn() -> T>,
}

impl<T: VectorElement<2>> Decode<T> {
    /// Builds the kernel of a configuration. Load the result on a device to launch it.
    ///
    /// # Errors
    /// Those of [`DecodeConfig::check`], and [`DecodeError::Element`] if `T` is neither `f16` nor
    /// `bf16`.
    pub fn new(config: DecodeConfig) -> Result<Built<Self>, DecodeError> {
        Ok(Built::new(Decode { config, elem: PhantomData }, build(&config, T::SCALAR)?))
    }
}

/// Builds the kernel for elements of this type.
#[inline]
fn build(config: &DecodeConfig, elem: Scalar) -> Result<Kernel<Untyped>, DecodeError> {
    Ok(with_roles(&[elem], || Tiles::new(config)?.build())?.untyped())
}
