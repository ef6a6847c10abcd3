//! The element types of a GEMM kernel, as [roles](Role). The kernel bodies name `A`, `B`, `C` and
//! `D` instead of type parameters, so rustc compiles each body once for all types.

use crate::ir::Val;
use crate::ir::builder::{Role, with_roles};
use crate::ir::types::{Rounding, Scalar};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::types::in_memory;

/// The elements of A, B, C and D in memory.
pub(crate) type A = Role<0>;
pub(crate) type B = Role<1>;
pub(crate) type C = Role<2>;
pub(crate) type D = Role<3>;
/// The registers of accumulators, in which epilogues compute: `f64` for `f64`, else `f32`.
pub(crate) type Sum = Role<4>;

/// Returns the types of a configuration's A, B, C and D in memory.
pub(crate) fn in_buffers(config: &GemmConfig) -> [Scalar; 4] {
    [in_memory(config.a), in_memory(config.b), config.c, config.d]
}

/// Returns the type of the registers of accumulators, in which epilogues compute.
pub(crate) fn sum_type(config: &GemmConfig) -> Scalar {
    if config.a == Scalar::F64 { Scalar::F64 } else { Scalar::F32 }
}

/// Builds a kernel of a configuration, with its element types.
pub(crate) fn with_elements<R>(config: &GemmConfig, build: impl FnOnce() -> R) -> R {
    let [a, b, c, d] = in_buffers(config);
    with_roles(&[a, b, c, d, sum_type(config)], build)
}

/// Converts accumulators to the values that an epilogue computes with, and those to elements of D.
/// `i32` values travel bit-cast in `f32` registers.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    /// The accumulator type, and the type of D.
    pub(crate) acc: Scalar,
    pub(crate) d: Scalar,
}

impl Numbers {
    /// Converts accumulators to epilogue values.
    #[inline]
    pub(crate) fn of_accumulators<'b>(self, accumulators: [Val<'b, Sum>; 2]) -> [Val<'b, Sum>; 2] {
        accumulators.map(|accumulator| match self.acc {
            Scalar::I32 => accumulator.bitcast::<i32>().cvt::<Sum>(),
            _ => accumulator,
        })
    }

    /// Converts an epilogue value to an element of D.
    #[inline]
    pub(crate) fn stored(self, value: Val<'_, Sum>) -> Val<'_, Sum> {
        match self.d {
            Scalar::I32 => value.cvt_rint::<i32>(Rounding::NearestEven).bitcast(),
            _ => value,
        }
    }
}
