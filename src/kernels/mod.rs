//! Ready kernels: GEMM, attention, softmax, reductions and others, written with the public API
//! only, so each also shows how to write your own.
//!
//! You use them all in the same four steps: choose a configuration for the target and the problem,
//! build the kernel, load it on a device, launch it. The configuration decides the generated code.
//! The problem holds the sizes of a launch, so that one kernel serves many problems. To add a
//! kernel of your own, implement [`ReadyKernel`].
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
//! softmax.launch(&problem, (&x, &mut y))?;
//! assert_eq!(y.to_vec()?, [0.25; 8]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If the program learns element types while it runs, build the kernel with its function `untyped`
//! instead of `new`: [`AnyElement`](crate::runtime::AnyElement) has an example.
//!
//! | module | computes |
//! |---|---|
//! | [`gemm`] | `D = activation(alpha A B + beta C + bias)`, also batched and grouped |
//! | [`scaled_gemm`], [`quantize`] | GEMM of 8-bit floats with block scales; quantisation |
//! | [`attention`] | `softmax(Q Kᵀ) V`, the forward pass |
//! | [`decode`] | the same for the next tokens of each sequence, over a paged KV cache |
//! | [`convolution`] | 2-D convolution, channels last, with bias and activation |
//! | [`softmax`], [`norm`] | softmax, log-softmax, RMSNorm and LayerNorm of each row |
//! | [`reduce`] | sums, means, extrema and norms of rows or along an axis; top-k |
//! | [`transpose`], [`permute`] | a transposed matrix, a tensor with permuted modes |
//! | [`gather`] | gather and scatter of rows |
//! | [`elementwise`] | a closure applied to each element |
//! | [`small_gemm`] | `D = A Wᵀ` for few rows, with 4-bit weights |
//! | [`selective_scan`] | the recurrence of Mamba's state-space layers, the forward pass |
//! | [`parallel`] | linear layers that are split over several devices |

// First, so that rustdoc lists what all kernels can do before what only one can.
mod ready;

mod arrival;
pub mod attention;
pub mod convolution;
pub mod decode;
pub mod elementwise;
pub mod gather;
pub mod gemm;
mod group_rows;
pub mod norm;
pub mod parallel;
pub mod permute;
pub mod quantize;
pub mod reduce;
pub mod rows;
pub mod scaled_gemm;
pub mod selective_scan;
pub mod small_gemm;
pub mod softmax;
mod split;
pub mod transpose;

pub use ready::{Built, Launch, Loaded, LoadedWith, ReadyKernel};
