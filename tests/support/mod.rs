//! Test helpers: devices, generators for random input, oracles, and runners for other programs.

#![allow(dead_code, reason = "each test program uses a part of the helpers")]
#![allow(unused_imports, reason = "each test program uses a part of the helpers")]

pub(crate) mod any_buffer;
pub(crate) mod assemble;
pub(crate) mod atomic_cells;
pub(crate) mod campaign;
pub(crate) mod checked_again;
pub(crate) mod computed;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod flow;
pub(crate) mod gemm_case;
pub(crate) mod kernels;
pub(crate) mod oracle;
pub(crate) mod pipelines;
pub(crate) mod places;
pub(crate) mod ptx_interpreter;
pub(crate) mod ptxas;
pub(crate) mod random_kernel;
pub(crate) mod random_loops;
pub(crate) mod raw;
pub(crate) mod rings;
pub(crate) mod rng;
pub(crate) mod run_lines;
pub(crate) mod skip;
pub(crate) mod slow;
pub(crate) mod straight_line;
pub(crate) mod tensor_cells;
pub(crate) mod text;
pub(crate) mod threads;
pub(crate) mod ui;
pub(crate) mod vectors;
