//! The element types of a GEMM kernel, as [roles](Role): its body is the same Rust code for all of them.

use crate::ir::builder::{Role, with_roles};
use crate::ir::types::Scalar;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::types::in_memory;
use crate::kernels::gemm::epilogue::EpilogueTypes;

/// The elements of A, B, C and D in memory.
pub(crate) type A = Role<0>;
pub(crate) type B = Role<1>;
pub(crate) type C = Role<2>;
pub(crate) type D = Role<3>;
/// The registers of accumulators, in which epilogues compute: `f64` for `f64`, else `f32`.
pub(crate) type Sum = Role<4>;

/// The element types of the epilogue of a configuration.
pub(crate) enum Elements {}

impl EpilogueTypes for Elements {
    type Sum = Sum;
    type C = C;
}

/// Builds a kernel of a configuration, with its element types.
pub(crate) fn with_elements<R>(config: &GemmConfig, build: impl FnOnce() -> R) -> R {
    let sum = if config.a == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let GemmConfig { a, b, c, d, .. } = *config;
    with_roles(&[in_memory(a), in_memory(b), c, d, sum], build)
}
