//! [`RowError`]: why a row kernel cannot be built or launched. Softmax, norms, reductions, gathers,
//! transposes, permutations and elementwise kernels return it.

use crate::errors::errors;

use super::config::MOST_BLOCKS;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
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
    ///     "the rows have 100000 columns, but the threads that share a row on sm_80 hold at most 32768: \
    ///      build for sm_90 or newer, where a cluster of 8 blocks holds 262144, or loop over the row in a \
    ///      kernel of your own (`RowPartition::step`)"
    /// );
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum RowError {
        /// {operand} has {found} elements, but the kernel needs {expected}
        Element { operand: &'static str, found: Scalar, expected: &'static str },
        /// unsupported configuration: {rule}
        Tile { rule: &'static str },
        /// unsupported layout of {operand}: {rule}
        Layout { operand: &'static str, rule: &'static str },
        /// the rows have {columns} columns, but this kernel takes at most {max}: make its
        /// configuration for the longest row, or split the rows
        Columns { columns: u32, max: u32 },
        /// No tile holds rows of this length.
        NoTile {
            /// Columns of a row.
            columns: u32,
            /// The target of the configuration.
            target: Target,
            /// The longest row that the threads of a block, or of a cluster if the target has them,
            /// hold.
            max: u32,
        } = |f| {
            write!(
                f,
                "the rows have {columns} columns, but the threads that share a row on {target} hold at most {max}: "
            )?;
            let cluster = u64::from(*max) * u64::from(MOST_BLOCKS);
            if !target.offers(Target::SM_90) && u64::from(*columns) <= cluster {
                write!(
                    f,
                    "build for sm_90 or newer, where a cluster of {MOST_BLOCKS} blocks holds {cluster}, or "
                )?;
            }
            f.write_str("loop over the row in a kernel of your own (`RowPartition::step`)")
        },
        /// there are too many rows ({rows}): the grid would have more than 2^31 - 1 blocks, or a
        /// row index would exceed 2^31 - 1
        Rows { rows: u32 },
        /// The rows' addresses do not suit the kernel's accesses.
        Access {
            /// How the kernel accesses rows.
            access: RowAccess,
        } = |f| f.write_str(match access {
            RowAccess::Aligned => "the kernel needs rows that start and end at multiples of 16 bytes",
            RowAccess::Ragged => {
                "the kernel needs input and output row pitches with the same remainder modulo 16 bytes of input elements"
            }
            RowAccess::Elements => "the kernel accepts any rows",
        }),
        /// the row pitch of {operand} is {pitch} elements, but its rows have {columns}
        Pitch { operand: &'static str, pitch: u64, columns: u32 },
        /// {operand} must have fewer than 2^40 elements
        TooLarge { operand: &'static str },
        /// {operand} must start at a multiple of 16 bytes
        Address { operand: &'static str },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// An operand is missing, or is given although the kernel has no use for it.
        Operand {
            /// The operand.
            operand: &'static str,
            /// True if the kernel needs it.
            needed: bool,
        } = |f| match needed {
            true => write!(f, "the kernel needs {operand}, which is missing"),
            false => write!(f, "{operand} is given, but the kernel does not use it"),
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
