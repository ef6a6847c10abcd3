//! GPU kernels in safe, plain Rust: CuTe's layout algebra, a typed kernel builder, PTX, and a simulator.
//!
//! * [`layout`]: CuTe's layout algebra as a host library.
//! * [`ir`]: the kernel IR, its typed builder and its verifier.
//! * [`arch`]: formats of the hardware, computed from layouts.
//! * [`codegen`]: a verified kernel as PTX text.
#![cfg_attr(
    feature = "sim",
    doc = "* [`sim`]: the simulator, which runs a kernel on the CPU and checks every access."
)]
#![cfg_attr(
    not(feature = "sim"),
    doc = "* `sim` (feature `sim`): the simulator, which runs a kernel on the CPU and checks every access."
)]
//! * [`tensor`]: CuTe's tensors in a kernel, and the instructions that threads execute on parts of them.
//! * [`kernels`]: ready kernels.
//! * [`runtime`]: devices, buffers and launches, on a GPU or on the simulator.
#![cfg_attr(
    feature = "tune",
    doc = "* [`tune`]: measures configurations of kernels, chooses one, and records it."
)]
#![cfg_attr(
    not(feature = "tune"),
    doc = "* `tune` (feature `tune`): measures configurations of kernels, chooses one, and records it."
)]
//! * [`testing`]: one expression on a device, for tests and for small questions.
//! * [`prelude`]: the usual imports.
//!
//! # The first kernel
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tilewright::prelude::*;
//!
//! // The signature is in the type: a wrong argument is a compile error at the launch.
//! type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
//!
//! fn axpy(target: Target) -> Result<Kernel<Axpy>, BuildErrors> {
//!     Kernel::<Axpy>::build("axpy", target, |k, (a, x, y, n)| {
//!         let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
//!         k.if_(i.lt(n), |k| y.store(k, i, a * x.load(k, i) + y.load(k, i)));
//!     })
//! }
//!
//! let device = Device::default()?; // a GPU if there is one, else the simulator
//! let function = device.load(&axpy(device.target())?)?;
//!
//! let n = 1000;
//! let x = device.upload(&vec![1.0; n])?;
//! let mut y = device.upload(&vec![3.0; n])?;
//! function.launch(Grid::cover(n, 256), (2.0, &x, &mut y, n as i32))?;
//! assert_eq!(y.to_vec()?, vec![5.0; n]);
//! # Ok(())
//! # }
//! ```

#![warn(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

pub mod arch;
pub mod codegen;
mod errors;
pub mod ir;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod json;
pub mod kernels;
mod launch;
pub mod layout;
pub mod prelude;
pub mod runtime;
#[cfg(feature = "sim")]
pub mod sim;
mod sorting;
pub mod tensor;
pub mod testing;
#[cfg(feature = "tune")]
pub mod tune;

/// The examples of the README, as tests.
#[cfg(all(doctest, feature = "sim"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "sim"))]
mod book;
