//! Tensors and what you do with them: views, coordinates, predicates and fragments.
//!
//! Start at [`Tensor`]: how it is made, sliced, tiled, recast, loaded and printed.

// rustdoc lists the methods of `Tensor` in the order of these modules.
pub(super) mod tensor;

pub(super) mod ssa;
pub(super) mod views;

mod modes;
pub(super) mod names;
pub(super) mod predicate;

// Without methods of `Tensor`.
mod carried;
pub(super) mod coord;
pub(super) mod elements;
pub(super) mod engine;
pub(super) mod pointer;
mod print;
mod zip;

pub use engine::{Coordinates, Engine, Readable, Rmem, Writable};
pub use names::TensorLayout;
pub use pointer::{PointerOffset, Recast, TensorPointer};
pub use predicate::{IntoPredicate, Predicate};
pub use print::print_tensor;
pub use ssa::{SsaOperand, TensorSsa};
pub use tensor::{
    CoordTensor, GlobalTensor, GlobalTensorMut, RegisterTensor, SharedTensor, Tensor,
};
pub use zip::ZipTensor;
