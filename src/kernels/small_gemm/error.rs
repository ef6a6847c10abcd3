//! [`SmallGemmError`]: why a GEMM with few rows cannot be built, packed or launched.

use crate::errors::errors;

use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
use crate::layout::LayoutError;
use crate::runtime::RuntimeError;

use super::weights::WeightFormat;

errors! {
    /// Errors for unsupported configurations of a [`SmallGemm`](super::SmallGemm), for weights that
    /// cannot be packed, and for invalid launches.
    ///
    /// ```
    /// use tilewright::kernels::small_gemm::SmallGemmProblem;
    ///
    /// let error = SmallGemmProblem::new(1, 64, 100).check().unwrap_err();
    /// assert_eq!(error.to_string(), "K is 100, but must be a multiple of 8: pad A with zeros");
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum SmallGemmError {
        /// the kernel needs sm_80, and the target is {target}
        Target { target: Target },
        /// the elements are {found}, but the kernel needs f16 or bf16
        Element { found: Scalar },
        /// the weights are {found}, but weights in the format `{format}` are {needed}
        WeightElement { format: WeightFormat, found: Scalar, needed: Scalar },
        /// the format is `{found}`, but only 4-bit weights are packed
        Format { found: WeightFormat },
        /// unsupported configuration `{config}`: {rule}
        Config { config: String, rule: &'static str },
        /// the kernel needs {needed} bytes of shared memory, but a block can have {available}: use
        /// fewer stages, steps or warps
        SharedMemory { needed: u64, available: u64 },
        /// `{name}` is not a configuration such as `sm90a_int4g128_16x32x4_k2_t4_s4_cluster2`
        Name { name: String },
        /// K is {found}, but must be a multiple of {needed}: pad A with zeros
        Depth { found: u32, needed: u32 },
        /// {what} is {found}, but can be at most {max}
        TooLarge { what: &'static str, found: u64, max: u64 },
        /// the launch has {found} scales, but the format `{format}` has {needed}
        Scales { format: WeightFormat, found: &'static str, needed: &'static str },
        /// {operand} must start at a multiple of 16 bytes
        Address { operand: &'static str },
        /// the {operand} have {found} elements, but {needed} are needed
        Length { operand: &'static str, found: u64, needed: u64 },
        /// the weights have {found} zero points, but the format has {needed}
        ZeroPoints { found: &'static str, needed: &'static str },
        /// {error}
        Layout(error: Box<LayoutError>),
        /// {error}
        Build(error: Box<BuildErrors>),
        /// {error}
        Runtime(error: Box<RuntimeError>),
    }
}
crate::errors::message_as_debug!(SmallGemmError);

macro_rules! from {
    ($($error:ident $variant:ident)*) => {$(
        impl From<$error> for SmallGemmError {
            #[inline]
            fn from(error: $error) -> SmallGemmError {
                SmallGemmError::$variant(Box::new(error))
            }
        }
    )*};
}

from!(LayoutError Layout BuildErrors Build RuntimeError Runtime);

/// Returns the word of an error for whether something is there.
pub(super) fn some_or_no(is_there: bool) -> &'static str {
    if is_there { "some" } else { "no" }
}
