//! Ready kernels, written with the public API only.
//!
//! All have the same four steps: a configuration for the target and the problem, the kernel, its function on a device, and
//! launches. The configuration decides the code; the problem has the sizes of a launch.
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use tilewright::ir::types::Scalar;
//! use tilewright::kernels::rows::RowProblem;
//! use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
//! use tilewright::runtime::Device;
//!
//! let device = Device::sim()?;
//! let problem = RowProblem::new(2, 4);
//! let config = SoftmaxConfig::new(device.target(), Scalar::F32, &problem)?;
//! let softmax = Softmax::<f32>::new(config)?.load(&device)?;
//! let (x, mut y) = (device.upload(&[3.0; 8])?, device.zeros(8)?);
//! softmax.launch(&problem, &x, &mut y)?;
//! assert_eq!(y.to_vec()?, [0.25; 8]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | computes |
//! |---|---|
//! | [`gemm`] | `D = activation(alpha A B + beta C + bias)`, batches and groups too |
//! | [`attention`], [`decode`] | `softmax(Q Kᵀ) V`: forward, and for the next tokens over a paged cache |
//! | [`softmax`], [`norm`] | of rows: softmax, its logarithm, RMSNorm, LayerNorm |
//! | [`reduce`] | sums, means, extrema and norms of rows or along an axis, the largest elements |
//! | [`transpose`], [`permute`] | other orders of the modes of a matrix, of a tensor |
//! | [`gather`] | gather and scatter of rows |
//! | [`elementwise`] | a closure for each element |
//! | [`parallel`] | linear layers over several devices |

mod arrival;
pub mod attention;
pub mod decode;
pub mod elementwise;
pub mod gather;
pub mod gemm;
mod loadable;
pub mod norm;
pub mod parallel;
pub mod permute;
pub mod reduce;
pub mod rows;
pub mod softmax;
pub mod transpose;
