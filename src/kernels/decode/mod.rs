//! Attention of the next tokens of sequences over a paged cache of keys and values.

mod config;
mod error;
mod kernel;
mod launch;
mod plan;
mod problem;
mod tiles;

use crate::codegen::Ptx;
use crate::ir::builder::VectorElement;
use crate::ir::{Kernel, KernelIr};

pub use config::DecodeConfig;
pub use error::DecodeError;
pub use launch::{DecodeArgs, DecodeFunction};
pub use plan::DecodePlan;
pub use problem::DecodeProblem;
use tiles::{Params, Tiles};

/// The attention of a few queries of each sequence, `f16` or `bf16`, over a cache in pages: FlashDecoding, with statistics and
/// accumulators in `f32`. For query `i` of a head
///
/// `s(j) = scale q(i) · k(j)`; `lse(i) = ln sum of e^s(j)`; `o(i) = sum of e^(s(j) - lse(i)) v(j)`
///
/// over the keys `j` that the query sees ([`DecodeProblem`]). A query that sees no key has `o = 0` and `lse = -inf`. Powers are
/// rounded to the type of the elements before they are multiplied with V.
///
/// Token `j` of sequence `s` is token `j % page` of page `table[s][j / page]`. Lengths and the table are data of the device, so
/// a launch can be recorded in a graph while sequences grow, and the kernel checks them: a length counts as the nearest one
/// from 0 to [`max_len`](DecodeProblem::max_len), and the keys of an entry that is no page of the pool are not seen, so -1 is a
/// page that was dropped.
///
/// Results are bitwise the same in each launch with the same [`DecodePlan`].
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::bf16;
/// use tilewright::kernels::decode::{Decode, DecodeArgs, DecodeConfig, DecodeProblem};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// // Two sequences, 4 heads that share one head of keys; 3 pages of 16 tokens.
/// let problem = DecodeProblem::new([2, 4, 1], 64, [3, 16, 2]);
/// let decode = Decode::<bf16>::new(DecodeConfig::new(device.target(), 64)?)?.load(&device)?;
/// // All scores are 0, so each output is the mean of V. The first sequence has pages 2 and 0, the second page 1.
/// let (q, k) = (device.zeros(2 * 4 * 64)?, device.zeros(3 * 16 * 64)?);
/// let v: Vec<bf16> = (0..3 * 16 * 64).map(|i| bf16::from_f32((i / (16 * 64)) as f32)).collect();
/// let (v, table, lens) = (device.upload(&v)?, device.upload(&[2, 0, 1, -1])?, device.upload(&[32, 5])?);
/// let (mut o, mut lse) = (device.zeros::<bf16>(2 * 4 * 64)?, device.zeros::<f32>(2 * 4)?);
/// let args = DecodeArgs { q: &q, k: &k, v: &v, table: &table, lens: &lens, o: &mut o, lse: Some(&mut lse) };
/// decode.launch(&problem, args)?;
/// assert!(o.to_vec()?.iter().all(|o| o.to_f32() == 1.0));
/// let (long, short) = (32f32.ln(), 5f32.ln());
/// let expected = [long, long, long, long, short, short, short, short];
/// assert!(lse.to_vec()?.iter().zip(expected).all(|(lse, expected)| (lse - expected).abs() < 1e-5));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decode<T: VectorElement<2>> {
    tiles: Tiles,
    kernel: Kernel<(Params<T>,)>,
}

impl<T: VectorElement<2>> Decode<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`DecodeConfig::check`]; [`DecodeError::Element`].
    pub fn new(config: DecodeConfig) -> Result<Self, DecodeError> {
        let tiles = Tiles::new::<T>(&config)?;
        Ok(Decode { kernel: tiles.build()?, tiles })
    }

    /// The configuration.
    pub fn config(&self) -> &DecodeConfig {
        &self.tiles.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// Proves that the kernel's accesses are in bounds. See
    /// [`Kernel::prove`](crate::ir::Kernel::prove).
    pub fn prove(&self) -> crate::prove::Proof {
        self.kernel.prove()
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }
}
