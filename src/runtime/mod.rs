//! Running kernels: on the CPU (`sim`) or on a GPU.

mod grid;
#[cfg(feature = "sim")]
pub mod sim;

pub use grid::Grid;
