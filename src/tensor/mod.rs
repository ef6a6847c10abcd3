//! CuTe's upper half over the kernel builder: tensors, and what turns them into work for threads.
//!
//! A [`Tensor`] is an engine and a layout: `T(c) = *(p + L(c))`. Tiles, partitions and slices of it are tensors
//! again, with the algebra of [`layout`](crate::layout); what the host knows of a coordinate costs nothing when
//! the kernel runs. Mistakes are collected by the build with their Rust lines ([`TensorError`]).

mod coord;
mod engine;
mod error;
mod pointer;
#[expect(clippy::module_inception, reason = "the type that gives the storey its name")]
mod tensor;
mod views;

pub use engine::{Coordinates, Engine, Readable, Rmem, Writable};
pub use error::{TensorError, TensorErrorKind};
pub use pointer::{Pointer, PointerOffset};
pub use tensor::{CoordTensor, Fragment, GlobalTensor, GlobalTensorMut, SharedTensor, Tensor};
