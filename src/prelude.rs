//! The usual imports of a program that builds and runs kernels: `use tilewright::prelude::*;`.

pub use crate::ir::{
    Body, BuildErrors, Element, FloatMode, Global, GlobalMut, Kernel, KernelOptions, Registers,
    Shared, Target, Val, Var, Vector, bf16, f16, promote, range,
};
pub use crate::layout::{IntTuple, Layout, LayoutError};
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
pub use crate::runtime::{Buffer, Device, Function};
pub use crate::runtime::{Grid, RuntimeError};
