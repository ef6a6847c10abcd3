//! Operations for [candle](https://docs.rs/candle-core) that run tilewright's kernels: attention,
//! norms, softmax, activations and linear layers. With [`bridge`] you add your own.
//!
//! The functions have candle's names and signatures, so that a program changes only its `use`
//! lines:
//!
//! ```text
//! -use candle_nn::ops::{rms_norm, softmax_last_dim};
//! +use tilewright_candle::ops::{rms_norm, softmax_last_dim};
//! -use candle_flash_attn::flash_attn;
//! +use tilewright_candle::flash_attn;
//! ```
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use tilewright_candle::ops::softmax_last_dim;
//!
//! let x = Tensor::new(&[[3f32, 3.0, 3.0, 3.0]], &Device::Cpu)?;
//! assert_eq!(softmax_last_dim(&x)?.to_vec2::<f32>()?, [[0.25; 4]]);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! # Where the kernels run
//!
//! * **On a GPU**, with the feature `cuda`: a launch borrows the memory of candle's tensors and
//!   runs on candle's stream. Nothing is copied, and the host does not wait. The feature turns on
//!   candle's feature `cuda`, which needs the CUDA toolkit.
//! * **On the CPU**, always: the same kernels run on tilewright's simulator, which checks every
//!   access. Use that for tests, because it is far slower than candle's own CPU code.
//!
//! # Tensors
//!
//! The element types are `f32`, `f16` and `bf16`; attention takes only the latter two. Kernels
//! compute in `f32`. All inputs of an operation have one type and one device. A tensor that is not
//! contiguous is copied first. Attention accepts strides, and copies only if the last dimension is
//! not contiguous or its rows do not start at multiples of 16 bytes.
//!
//! # Errors
//!
//! | what is wrong | variant of [`candle_core::Error`] |
//! |---|---|
//! | an unsupported element type | `UnsupportedDTypeForOp`, `UnexpectedDType` |
//! | inputs with different element types | `DTypeMismatchBinaryOp` |
//! | a shape | `ShapeMismatchBinaryOp`, `ShapeMismatchSplit` |
//! | how many dimensions | `UnexpectedNumberOfDims`, `DimOutOfRange` |
//! | inputs on different devices | `DeviceMismatchBinaryOp` |
//! | anything else | `Cuda` with an [`OperationError`](bridge::OperationError), also on the CPU |
//!
//! # No backward pass
//!
//! No operation has a gradient. If you call `backward` on a result that depends on a variable, you
//! get `BackwardNotSupported`. (candle's `softmax_last_dim`, `rms_norm` and `layer_norm` have no
//! gradient either, but they silently drop it.)

pub mod bridge;
mod flash_attn;
pub mod ops;

pub use flash_attn::{
    flash_attn, flash_attn_alibi_windowed_softcap, flash_attn_varlen,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_windowed, flash_attn_windowed,
};
/// The library that the kernels come from. Use it through this path, so that your program and this
/// crate agree on its version.
pub use tilewright;
