//! [`SelectiveScanError`]: why a selective scan cannot be built or launched.

use crate::errors::errors;

use crate::ir::BuildErrors;
use crate::ir::types::Scalar;
use crate::runtime::RuntimeError;

errors! {
    /// Errors for unsupported configurations of a selective scan, and for invalid launches.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::selective_scan::{SelectiveScanConfig, SelectiveScanProblem};
    ///
    /// let problem = SelectiveScanProblem::new(1, 64, 100);
    /// let error = SelectiveScanConfig::new(Target::SM_80, Scalar::F32, 12, &problem).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "unsupported configuration: the state count must be a power of two, at most 128"
    /// );
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum SelectiveScanError {
        /// the elements are {found}, but the kernel needs f32, f16 or bf16
        Element { found: Scalar },
        /// unsupported configuration: {rule}
        Config { rule: &'static str },
        /// `{text}` is not a configuration such as `sm90a_n16_softplus_32x2_t32`
        Name { text: String },
        /// the kernel needs sequences whose length is a multiple of {vector} elements, but it is
        /// {length}
        Length { length: u32, vector: u32 },
        /// {what} is {found}, but can be at most {max}
        TooLarge { what: &'static str, found: u64, max: u64 },
        /// {operand} must start at a multiple of 16 bytes
        Address { operand: &'static str },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// The final states' buffer is missing, or is given although the kernel drops them.
        FinalState {
            /// True if the kernel stores the final states.
            needed: bool,
        } = |f| f.write_str(match needed {
            true => "the kernel stores the final states, but there is no buffer for them",
            false => "a buffer for the final states is given, but the kernel drops them",
        }),
        /// {error}
        Build(error: Box<BuildErrors>),
        /// {error}
        Runtime(error: Box<RuntimeError>),
    }
}
crate::errors::message_as_debug!(SelectiveScanError);

impl From<BuildErrors> for SelectiveScanError {
    #[inline]
    fn from(error: BuildErrors) -> Self {
        SelectiveScanError::Build(Box::new(error))
    }
}

impl From<RuntimeError> for SelectiveScanError {
    #[inline]
    fn from(error: RuntimeError) -> Self {
        SelectiveScanError::Runtime(Box::new(error))
    }
}
