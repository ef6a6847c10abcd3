//! [`SmallGemmProblem`]: the sizes of one product. You pass it at launch, so one kernel serves all
//! sizes.

use std::fmt;

use super::error::SmallGemmError;

/// The sizes of a product: M rows of D, N columns, and K, the depth. A and D are compact and
/// row-major.
///
/// ```
/// use tilewright::kernels::small_gemm::SmallGemmProblem;
///
/// let problem = SmallGemmProblem::new(1, 28672, 8192);
/// assert_eq!(problem.to_string(), "1x28672x8192");
/// assert!(problem.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmallGemmProblem {
    /// M, the rows of A and D.
    pub rows: u32,
    /// N, the columns of D.
    pub columns: u32,
    /// K, the columns of A: a multiple of 8, and of 16 with 8-bit weights.
    pub depth: u32,
}

/// Prints `1x28672x8192`: M, N, K.
impl fmt::Display for SmallGemmProblem {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.rows, self.columns, self.depth)
    }
}

impl SmallGemmProblem {
    /// Returns the problem of these sizes.
    pub const fn new(rows: u32, columns: u32, depth: u32) -> SmallGemmProblem {
        SmallGemmProblem { rows, columns, depth }
    }

    /// Returns the elements of A and of D.
    pub(super) fn lens(&self) -> [u64; 2] {
        [self.depth, self.columns].map(|columns| u64::from(self.rows) * u64::from(columns))
    }

    /// Checks the sizes. Every launch calls it; call it to refuse a problem earlier.
    ///
    /// # Errors
    /// [`SmallGemmError::Depth`] if K is no multiple of 8, because rows of A are read in vectors of
    /// 16 bytes. [`SmallGemmError::TooLarge`] if A, D or the weights have 2^31 elements or more, or
    /// if there are more than 2^20 rows.
    #[inline]
    pub fn check(&self) -> Result<(), SmallGemmError> {
        let SmallGemmProblem { rows, columns, depth } = *self;
        if !depth.is_multiple_of(8) {
            return Err(SmallGemmError::Depth { found: depth, needed: 8 });
        }
        let max = (1 << 31) - 1;
        let [a, d] = self.lens();
        // Columns are padded to tiles, and K to slabs.
        let padded = (u64::from(columns) + 1024) * (u64::from(depth) + (1 << 15)) / 4;
        let limits = [
            ("the row count", rows.into(), 1 << 20),
            ("the element count of A", a, max),
            ("the element count of D", d, max),
            ("the size of the weights", padded, max),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(SmallGemmError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}
