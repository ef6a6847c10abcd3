//! Operations for candle with tilewright kernels: softmax, RMSNorm, a linear layer with its
//! activation, and attention.
//!
//! On a GPU (feature `cuda`) a launch borrows the memory of candle's tensors, on candle's stream.
//! Nothing is copied, and the host does not wait. Tensors on the CPU run the same kernels on
//! tilewright's simulator.
//!
//! `ops.rs` has the operations, and `bridge.rs` what candle asks for.

mod bridge;
mod ops;

use candle_core::{Result, Tensor};
pub use tilewright::kernels::gemm::Activation;

use ops::{Attention, Linear, RmsNorm, Softmax, Square};

/// Returns the softmax over the last dimension.
///
/// # Errors
/// Tensors of a type other than `f32`, `f16` or `bf16`; launch errors.
pub fn softmax(x: &Tensor) -> Result<Tensor> {
    packed(x)?.apply_op1_no_bwd(&Softmax)
}

/// Returns the square of each element: the smallest operation with a kernel of its own.
///
/// # Errors
/// Those of [`softmax`].
pub fn square(x: &Tensor) -> Result<Tensor> {
    packed(x)?.apply_op1_no_bwd(&Square)
}

/// Returns `x / sqrt(mean(x^2) + epsilon) * weight` over the last dimension.
///
/// # Errors
/// Those of [`softmax`]; a weight of the wrong shape.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    packed(x)?.apply_op2_no_bwd(&packed(weight)?, &RmsNorm { epsilon })
}

/// Returns `activation(x weightᵀ + bias)` for a weight of shape `(outputs, inputs)` and a bias of
/// shape `outputs`, in one kernel.
///
/// # Errors
/// Those of [`softmax`]; a weight or a bias of the wrong shape.
pub fn linear(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    activation: Option<Activation>,
) -> Result<Tensor> {
    packed(x)?.apply_op3_no_bwd(&packed(weight)?, &packed(bias)?, &Linear { activation })
}

/// Returns the attention `softmax(q kᵀ / sqrt(dim)) v` for `f16` or `bf16` tensors of shape
/// `(batch, heads, length, dim)`. There may be several query heads per key head. With `causal`, a
/// query sees no later key. Heads may be strided: for example, a `transpose(1, 2)` of
/// `(batch, length, heads, dim)` is not copied.
///
/// # Errors
/// Those of [`softmax`]; shapes that do not fit; a GPU older than Hopper.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
    aligned_heads(q)?.apply_op3_no_bwd(
        &aligned_heads(k)?,
        &aligned_heads(v)?,
        &Attention { causal },
    )
}

/// The alignment that vector accesses and TMA need.
const ALIGN: usize = 16;

/// Returns a contiguous tensor that starts at a multiple of 16 bytes, and copies only if it has to.
fn packed(x: &Tensor) -> Result<Tensor> {
    let start = x.layout().start_offset() * x.dtype().size_in_bytes();
    if x.is_contiguous() && start.is_multiple_of(ALIGN) {
        Ok(x.clone())
    } else {
        x.force_contiguous()
    }
}

/// Returns a tensor whose last dimension is contiguous and starts at multiples of 16 bytes, and
/// copies only if it has to.
fn aligned_heads(x: &Tensor) -> Result<Tensor> {
    let layout = x.layout();
    let mut starts = layout.stride().to_vec();
    let last = starts.pop();
    starts.push(layout.start_offset());
    let bytes = x.dtype().size_in_bytes();
    if last == Some(1) && starts.iter().all(|start| (start * bytes).is_multiple_of(ALIGN)) {
        Ok(x.clone())
    } else {
        x.force_contiguous()
    }
}
