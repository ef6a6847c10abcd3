//! What a pass cannot do.

use std::fmt;

/// Why a pass refuses an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassError {
    /// A loop is to be unrolled fully, but the number of its iterations is not known.
    UnknownTripCount {
        /// Which bound is not a constant: `lo`, `hi` or `step`.
        bound: &'static str,
    },
    /// Unrolling would make more operations than a kernel may have.
    TooManyOperations {
        /// The iterations to write out.
        iterations: u128,
        /// The operations that a kernel may have.
        limit: usize,
    },
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassError::UnknownTripCount { bound } => write!(
                f,
                "a loop whose `{bound}` is not a constant cannot be unrolled fully: use `.unroll(n)`, which needs no constant"
            ),
            PassError::TooManyOperations { iterations, limit } => write!(
                f,
                "unrolling {iterations} iterations makes more than {limit} operations: unroll by a smaller number"
            ),
        }
    }
}

impl std::error::Error for PassError {}
