//! GPU kernels in safe, plain Rust: CuTe's layout algebra, a typed kernel builder, PTX, and a
//! simulator.
//!
//! You write a kernel as a Rust closure over a typed builder. The closure runs once, on the host,
//! and records an IR. The crate writes that IR as PTX and launches it on an NVIDIA GPU, or runs it
//! on the CPU in a simulator that checks every memory access and finds data races. Both sit behind
//! the same [`runtime::Device`], so you can develop and test without a GPU. You need neither `nvcc`
//! nor the CUDA toolkit: the driver compiles the PTX, and the crate looks the driver up when the
//! program runs.
//!
//! A [`Layout`](layout::Layout) is one value for host and device. For example, the `(32,32):(33,1)`
//! that you print and property-test on the host is also the layout by which the kernel indexes its
//! padded tile. Here is a layout of four modes, `((2,2),(2,4)):((1,4),(2,8))`, as
//! [`Layout::draw`](layout::Layout::draw) shows it: each cell has the index of its row and column.
//!
#![doc = include_str!("../docs/images/layout.svg")]
//!
//! # Where to start
//!
//! * To use a ready GEMM, attention, softmax, norm or reduction, go to [`kernels`].
//! * To write a kernel of your own, start with the example below, then look at [`ir`], which lists
//!   the builder's operations. For tiles, tensor cores, TMA and pipelines, add [`tensor`].
//! * To compute with layouts only, use [`layout`]. It needs none of the other modules.
//! * To learn all of it in order, read the book, the folder `book/` of the repository: 25 chapters
//!   from a first kernel to a GEMM at cuBLAS's speed. Its listings are tested with the library.
//!
//! # Modules
//!
//! * [`layout`]: CuTe's layout algebra, as a host library.
//! * [`ir`]: the kernel IR, its typed builder and its verifier.
//! * [`arch`]: swizzles, matrix descriptors and tensor maps, computed from layouts.
//! * [`prove`]: proves accesses of a kernel in bounds, before it runs.
//! * [`codegen`]: writes a verified kernel as PTX text.
#![cfg_attr(
    feature = "sim",
    doc = "* [`sim`]: the simulator, which runs a kernel on the CPU and checks every access."
)]
#![cfg_attr(
    not(feature = "sim"),
    doc = "* `sim` (feature `sim`): the simulator, which runs a kernel on the CPU and checks every access."
)]
//! * [`tensor`]: CuTe's tensors, tiled copies and tiled MMAs in a kernel; pipelines and schedulers.
//! * [`kernels`]: ready kernels, written with the public API only.
//! * [`runtime`]: devices, buffers, streams and launches, the same on a GPU and on the simulator.
//! * [`testing`]: evaluates one expression on a device, for tests and short bug reports.
//! * [`prelude`]: the usual imports.
//!
//! The crate `tilewright-tune` measures configurations of kernels, chooses one, and records it.
//!
//! # A first kernel
//!
//! `y = a * x + y`, with one thread for each element. The launch starts more threads than there are
//! elements, so the kernel compares its index with `n` first. If you leave that out, the simulator
//! reports the Rust line and the thread that go out of bounds.
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
//!         k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
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
pub mod prove;
pub mod runtime;
#[cfg(feature = "sim")]
pub mod sim;
mod sorting;
pub mod tensor;
pub mod testing;

/// The examples of the README, as tests.
#[cfg(all(doctest, feature = "sim"))]
#[doc = include_str!("../README.md")]
mod readme {}

/// The example of `docs/safety.md`, as a test.
#[cfg(all(doctest, feature = "sim"))]
#[doc = include_str!("../docs/safety.md")]
mod safety {}

#[cfg(all(doctest, feature = "sim"))]
mod book;
