//! Everything that a program usually imports to build and run kernels:
//! `use tilewright::prelude::*;`.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! // Each block of 32 threads transposes a 32 x 32 tile. Rows of 33 elements keep its columns free of bank conflicts.
//! let kernel = Kernel::<(Global<f32>, GlobalMut<f32>)>::build("transpose", Target::SM_80, |k, (x, y)| {
//!     let tile: SharedTensor<'_, f32> = Tensor::shared(k, layout!((32, 32):(33, 1)));
//!     let t = k.thread_idx().x;
//!     for i in 0..32 {
//!         tile.store((i, t), x.load(t + 32 * i));
//!     }
//!     k.barrier();
//!     for i in 0..32 {
//!         y.store(t + 32 * i, tile.load((t, i)));
//!     }
//! })?;
//! assert!(kernel.ptx().text().contains("ld.shared.f32"));
//! # Ok::<(), BuildErrors>(())
//! ```

pub use crate::ir::types::Scalar;
pub use crate::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Group, Kernel, KernelOptions, Registers, Shared,
    Target, TensorMap, TensorMapMut, Val, Var, Vector, bf16, f16, range,
};
pub use crate::layout::{Int, IntTuple, Layout, LayoutError};
#[doc(inline)]
pub use crate::layout::{layout, shape, tiler};
pub use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions, RuntimeError};
pub use crate::tensor::view::{SharedTensor, Tensor};
