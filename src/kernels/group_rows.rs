//! [`GroupRows`]: which rows belong to which group of a grouped GEMM, as a launch takes it.

use crate::runtime::Buffer;

/// Which rows belong to which group of a grouped GEMM
/// ([`GemmProblem::grouped`](super::gemm::GemmProblem::grouped),
/// [`ScaledGemmProblem::grouped`](super::scaled_gemm::ScaledGemmProblem::grouped)). They stay on the
/// device: the host does not read them. Take `Starts` if the rows are packed one group after the
/// other, `Counts` if each group has room for the same number of rows.
///
/// Nothing checks them. Bounds that are not ascending, or exceed the rows of A, give a wrong D.
/// Negative ones access memory before the buffers, which only a load with checks catches.
#[derive(Clone, Copy, Debug)]
pub enum GroupRows<'h> {
    /// The groups follow each other: the first row of each, ascending, then the end of the last
    /// one.
    Starts(&'h Buffer<i32>),
    /// How many rows each group has, each in its own equal share of the rows. Group `g` has the
    /// first `counts[g]` of the `m / batch` rows from row `g * m / batch` on. The others are
    /// neither multiplied nor written.
    Counts(&'h Buffer<i32>),
}

/// The groups of a launch, checked against the problem: the arguments of
/// [`RowGroups`](crate::tensor::pipeline::RowGroups).
#[derive(Clone, Copy)]
pub(crate) struct LaunchGroups<'h> {
    pub(crate) bounds: &'h Buffer<i32>,
    pub(crate) count: i32,
    pub(crate) capacity: i32,
}

/// Why groups do not fit a problem.
pub(crate) enum GroupRowsError {
    Length { operand: &'static str, found: u64, needed: u64 },
    Capacity { m: u32, groups: u32 },
}

impl<'h> GroupRows<'h> {
    /// Returns the groups of a problem with `m` rows and `groups` groups, both below 2^31.
    #[inline]
    pub(crate) fn bind(self, m: u32, groups: u32) -> Result<LaunchGroups<'h>, GroupRowsError> {
        let (operand, bounds, needed, capacity) = match self {
            GroupRows::Starts(starts) => ("the group starts", starts, u64::from(groups) + 1, 0),
            GroupRows::Counts(_) if !m.is_multiple_of(groups) => {
                return Err(GroupRowsError::Capacity { m, groups });
            }
            GroupRows::Counts(counts) => {
                ("the group counts", counts, u64::from(groups), m.checked_div(groups).unwrap_or(0))
            }
        };
        let found = bounds.len() as u64;
        if found < needed {
            return Err(GroupRowsError::Length { operand, found, needed });
        }
        Ok(LaunchGroups { bounds, count: groups as i32, capacity: capacity as i32 })
    }
}
