//! Sizes, configurations and errors of the kernels that work on the rows of a matrix.

mod config;
mod error;
mod problem;

pub use config::RowConfig;
pub use error::RowError;
pub use problem::RowProblem;
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
pub(in crate::kernels) use problem::{check_aligned, check_len};

use crate::ir::{Body, Val};
use crate::tensor::RowTile;

/// Returns the number of the thread's row and its columns: none beyond the last row.
#[track_caller]
pub(in crate::kernels) fn own_row<'b>(
    k: &Body<'b, '_>,
    tile: RowTile,
    [rows, columns]: [Val<'b, i32>; 2],
) -> (Val<'b, i64>, Val<'b, i32>) {
    let row = tile.row(k);
    (row.cvt::<i64>(), row.lt(rows).select(columns, 0))
}
