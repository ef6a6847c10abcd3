//! GEMM with few rows, for the products of a language model's decode, with weights of 4, 8 or 16
//! bits.

mod config;
mod error;
mod finish;
mod kernel;
mod launch;
mod mma;
mod pack;
mod problem;
mod unpack;
mod weights;

use std::marker::PhantomData;

use crate::ir::Element;
use crate::ir::builder::{VectorElement, with_roles};
use crate::ir::types::Scalar;

use super::ready::Built;
pub use config::{Exchange, LaunchStart, MmaKind, SmallGemmConfig};
pub use error::SmallGemmError;
pub use launch::SmallGemmArgs;
pub use pack::{Int4Matrix, Int4Packing, PackedWeights, pack_scales};
pub use problem::SmallGemmProblem;
pub use weights::{ScaleGroup, WeightFormat, ZeroPoints};

/// `D[m, n] = activation(sum over k of A[m, k] W[n, k] + bias[n]) + residual[m, n]` with weights W
/// of a [`WeightFormat`], for A and D of `f16` or `bf16`. Bias, activation and residual are
/// optional. It accumulates in `f32`. Scales multiply sums of whole groups, so that weights are not
/// rounded.
///
/// Use it for 1 to 64 rows, where reading the weights takes the time: 4-bit weights are a quarter
/// of the bytes of `bf16`. With more rows it still computes the right result, but reads the weights
/// again for each 64 rows.
///
/// Weights of 8 and 16 bits are a row-major matrix, as a checkpoint has them. Pack 4-bit weights
/// once, on the host ([`PackedWeights`]), and the scales of 8-bit weights ([`pack_scales`]). A
/// launch takes a
/// [`SmallGemmProblem`] and [`SmallGemmArgs`]. It does nothing if D has no elements. If K is 0, D
/// becomes 0.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::f16;
/// use tilewright::kernels::small_gemm::{
///     ScaleGroup, Int4Matrix, Int4Packing, PackedWeights, SmallGemm, SmallGemmArgs,
///     SmallGemmConfig, SmallGemmProblem, WeightFormat, ZeroPoints,
/// };
/// use tilewright::runtime::Device;
///
/// // Two columns of D: their integers are 8 + k and 8, so their weights are k / 2 and 0.
/// let format = WeightFormat::Int4 { group: ScaleGroup::PerColumn, zeros: ZeroPoints::Absent };
/// let problem = SmallGemmProblem::new(1, 2, 8);
/// let matrix = Int4Matrix {
///     packing: Int4Packing::RowMajor,
///     words: &[0xfedc_ba98, 0x8888_8888],
///     scales: &[f16::from_f32(0.5); 2],
///     zeros: None,
/// };
/// let packed = PackedWeights::int4(format, &problem, &matrix)?;
///
/// let device = Device::sim()?;
/// let config = SmallGemmConfig::new(device.target(), format, &problem)?;
/// let gemm = SmallGemm::<f16>::new(config)?.load(&device)?;
/// let a = device.upload(&[f16::from_f32(1.0); 8])?;
/// let (weights, scales) = (device.upload(&packed.words)?, device.upload(&packed.scales)?);
/// let mut d = device.zeros::<f16>(2)?;
/// let (bias, residual) = (None, None);
/// let scales = Some(&scales);
/// let args = SmallGemmArgs { a: &a, weights: &weights, scales, d: &mut d, bias, residual };
/// gemm.launch(&problem, args)?;
/// assert_eq!(d.to_vec()?, [14.0, 0.0].map(f16::from_f32));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// `W` is the type of the buffer with the weights ([`WeightFormat::scalar`]).
#[derive(Debug)]
pub struct SmallGemm<T, W = u32> {
    config: SmallGemmConfig,
    elem: PhantomData<fn() -> (T, W)>,
}

impl<T: VectorElement<2>, W: Element> SmallGemm<T, W> {
    /// Builds the kernel of a configuration. Load the result on a device to launch it.
    ///
    /// # Errors
    /// Those of [`SmallGemmConfig::check`], [`SmallGemmError::Element`] if `T` is neither `f16` nor
    /// `bf16`, and [`SmallGemmError::WeightElement`] if `W` is not the type of the weights.
    pub fn new(config: SmallGemmConfig) -> Result<Built<Self>, SmallGemmError> {
        config.check()?;
        if ![Scalar::F16, Scalar::Bf16].contains(&T::SCALAR) {
            return Err(SmallGemmError::Element { found: T::SCALAR });
        }
        let (format, found) = (config.weights, W::SCALAR);
        let needed = format.scalar(T::SCALAR);
        if found != needed {
            return Err(SmallGemmError::WeightElement { format, found, needed });
        }
        let kernel = with_roles(&[T::SCALAR, W::SCALAR], || config.build())?;
        Ok(Built::new(SmallGemm { config, elem: PhantomData }, kernel))
    }
}
