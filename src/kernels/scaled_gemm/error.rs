//! [`ScaledGemmError`]: errors for unsupported configurations of a GEMM with block scales, and for
//! problems that a kernel cannot run.

use crate::errors::errors;

use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
use crate::layout::LayoutError;
use crate::runtime::RuntimeError;
use crate::tensor::TensorError;
use crate::tensor::atom::AtomError;

use super::super::group_rows::GroupRowsError;
use super::problem::BScaleBlock;

errors! {
    /// Why a GEMM kernel with block scales cannot be built, or why it cannot run a problem.
    ///
    /// ```
    /// use tilewright::kernels::scaled_gemm::ScaledGemmProblem;
    ///
    /// assert_eq!(
    ///     ScaledGemmProblem::new(64, 64, 200).check(16).unwrap_err().to_string(),
    ///     "a row of A and B has 200 bytes, but TMA needs a positive multiple of 16: pad the rows"
    /// );
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum ScaledGemmError {
        /// the kernel needs sm_90a, and the target is {target}
        Target { target: Target },
        /// the elements of {operand} are {found}, but the kernel needs {expected}
        Element { operand: &'static str, found: Scalar, expected: String },
        /// unsupported configuration `{config}`: {rule}
        Config { config: String, rule: &'static str },
        /// the kernel needs {needed} bytes of shared memory, but a block can have {available}: use
        /// fewer stages
        SharedMemory { needed: u64, available: u64 },
        /// `{name}` is not a configuration's name, such as `sm90a_bf16_128x160x128_s5_strip16`
        Name { name: String },
        /// a row of {operand} has {bytes} bytes, but TMA needs a positive multiple of 16: pad the rows
        Pitch { operand: &'static str, bytes: u64 },
        /// the matrices of {operand} are {bytes} bytes apart, but TMA needs a multiple of 16, and at
        /// least {least}
        BatchStride { operand: &'static str, bytes: u64, least: u64 },
        /// {what} is {found}, but can be at most {max}
        TooLarge { what: &'static str, found: u64, max: u64 },
        /// a scale of B belongs to {found} elements, but the kernel was built for {built}
        BScales { found: BScaleBlock, built: BScaleBlock },
        /// The problem is grouped and the kernel is not, or the reverse.
        Batch {
            /// Whether the kernel is grouped.
            grouped: bool,
        } = |f| match grouped {
            true => f.write_str("the kernel is grouped, but the problem is not"),
            false => f.write_str("the problem is grouped, but the kernel is not"),
        },
        /// The list of groups is missing, or the kernel does not take one.
        GroupRows {
            /// Whether the kernel needs it.
            needed: bool,
        } = |f| match needed {
            true => f.write_str("the kernel is grouped, but no `GroupRows` are given"),
            false => f.write_str("`GroupRows` are given, but the kernel is not grouped"),
        },
        /// {m} rows do not divide into {groups} groups with room for equally many rows
        GroupCapacity { m: u32, groups: u32 },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// {error}
        Layout(error: Box<LayoutError>),
        /// {error}
        Atom(error: Box<AtomError>),
        /// {error}
        Tensor(error: Box<TensorError>),
        /// {error}
        Build(error: Box<BuildErrors>),
        /// {error}
        Runtime(error: Box<RuntimeError>),
    }
}
crate::errors::message_as_debug!(ScaledGemmError);

macro_rules! from {
    ($($error:ident $variant:ident)*) => {$(
        impl From<$error> for ScaledGemmError {
            #[inline]
            fn from(error: $error) -> ScaledGemmError {
                ScaledGemmError::$variant(Box::new(error))
            }
        }
    )*};
}

from!(LayoutError Layout AtomError Atom TensorError Tensor BuildErrors Build RuntimeError Runtime);

impl From<GroupRowsError> for ScaledGemmError {
    #[inline]
    fn from(error: GroupRowsError) -> ScaledGemmError {
        match error {
            GroupRowsError::Length { operand, found, needed } => {
                ScaledGemmError::BufferLength { operand, found, needed }
            }
            GroupRowsError::Capacity { m, groups } => ScaledGemmError::GroupCapacity { m, groups },
        }
    }
}
