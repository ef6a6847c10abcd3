//! Running kernels: on the CPU (`sim`) or on a GPU.

mod grid;

pub use grid::Grid;
