//! Ready kernels, written with nothing but the public API. Come here before you write a kernel
//! yourself, or to see how a fast one is written.
//!
//! Every kernel takes the same four steps: choose a configuration for the target and the problem,
//! build the kernel, load it on a device, and launch it. The configuration decides the code; the
//! problem holds the sizes of one launch.
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
//! | [`gemm`] | `D = activation(alpha A B + beta C + bias)`, also batched and grouped |
//! | [`attention`], [`decode`] | `softmax(Q Kᵀ) V`: forward, and decode steps over a paged KV cache |
//! | [`softmax`], [`norm`] | softmax, log-softmax, RMSNorm and LayerNorm of rows |
//! | [`reduce`] | sum, mean, max, min, norm and argmax of rows or along an axis; top-k |
//! | [`transpose`], [`permute`] | a matrix or a tensor with its modes in another order |
//! | [`gather`] | gather and scatter of rows |
//! | [`elementwise`] | a closure applied to every element |
//! | [`parallel`] | linear layers on several devices |

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
