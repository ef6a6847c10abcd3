//! [`RowError`]: why a row kernel cannot be built or launched. Softmax, norms, reductions, gathers,
//! transposes, permutations and elementwise kernels return it.

use crate::errors::errors;

use crate::ir::BuildErrors;
use crate::ir::types::Scalar;
use crate::runtime::RuntimeError;
use crate::tensor::rows::RowAccess;

errors! {
    /// Errors for unsupported row-kernel configurations and invalid launches.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::rows::{RowConfig, RowProblem};
    ///
    /// let problem = RowProblem::new(4, 100_000);
    /// let error = RowConfig::new(Target::SM_80, Scalar::F32, &problem).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the rows have 100000 columns, but the threads that share a row hold 32768"
    /// );
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum RowError {
        /// {operand} has elements of {found}, but the kernel takes {expected}
        Element { operand: &'static str, found: Scalar, expected: &'static str },
        /// the tile of a row is not possible: {rule}
        Tile { rule: &'static str },
        /// the layout of {operand} is not possible: {rule}
        Layout { operand: &'static str, rule: &'static str },
        /// the rows have {columns} columns, but the threads that share a row hold {max}
        Columns { columns: u32, max: u32 },
        /// there are {rows} rows, which need more than 2^31 - 1 blocks or have numbers above 2^31 - 1
        Rows { rows: u32 },
        /// The rows' addresses do not suit the kernel's accesses.
        Access {
            /// How the kernel accesses rows.
            access: RowAccess,
        } = |f| f.write_str(match access {
            RowAccess::Aligned => "the kernel takes rows that start at multiples of 16 bytes and end there",
            RowAccess::Ragged => {
                "the kernel takes matrices whose row pitches have the same remainder modulo 16 bytes of the input"
            }
            RowAccess::Elements => "the kernel takes any rows",
        }),
        /// the rows of {operand} are {pitch} elements apart, but have {columns} elements
        Pitch { operand: &'static str, pitch: u64, columns: u32 },
        /// {operand} has 2^40 elements or more
        TooLarge { operand: &'static str },
        /// {operand} does not start at a multiple of 16 bytes
        Address { operand: &'static str },
        /// the buffer of {operand} has {found} elements, and {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// An operand is missing, or is given although the kernel has no use for it.
        Operand {
            /// The operand.
            operand: &'static str,
            /// True if the kernel needs it.
            needed: bool,
        } = |f| match needed {
            true => write!(f, "the kernel has {operand}, which is not given"),
            false => write!(f, "{operand} is given, but the kernel has no use for it"),
        },
        /// {error}
        Build(error: Box<BuildErrors>),
        /// {error}
        Runtime(error: Box<RuntimeError>),
    }
}
crate::errors::message_as_debug!(RowError);

impl From<BuildErrors> for RowError {
    #[inline]
    fn from(error: BuildErrors) -> RowError {
        RowError::Build(Box::new(error))
    }
}

impl From<RuntimeError> for RowError {
    #[inline]
    fn from(error: RuntimeError) -> RowError {
        RowError::Runtime(Box::new(error))
    }
}
