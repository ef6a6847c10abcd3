//! Problem sizes, configurations and errors that all kernels on the rows of a matrix share. A
//! launch takes the [`RowProblem`].

mod config;
mod error;
mod problem;

pub use config::RowConfig;
pub use error::RowError;
pub use problem::RowProblem;
pub(in crate::kernels) use problem::{check_aligned, check_len, check_matrix};

use crate::ir::builder::{Role, with_roles};
use crate::ir::types::Scalar;
use crate::ir::{Body, BuildErrors, Kernel, Untyped, Val};
use crate::runtime::Grid;
use crate::tensor::rows::RowTile;

/// The element types of a kernel's input and output in its body, which is the same Rust code for
/// all of them.
pub(in crate::kernels) type Input = Role<0>;
pub(in crate::kernels) type Output = Role<1>;

/// Builds a kernel for input and output of these types.
pub(in crate::kernels) fn with_elements<P>(
    input: Scalar,
    output: Scalar,
    build: impl FnOnce() -> Result<Kernel<P>, BuildErrors>,
) -> Result<Kernel<Untyped>, BuildErrors> {
    Ok(with_roles(&[input, output], build)?.untyped())
}

/// Returns the index of the thread's row, and how many columns it has: 0 for a row beyond the last.
#[track_caller]
#[inline]
pub(in crate::kernels) fn own_row<'b>(
    k: &Body<'b, '_>,
    tile: RowTile,
    [rows, columns]: [Val<'b, i32>; 2],
) -> (Val<'b, i64>, Val<'b, i32>) {
    let row = tile.row(k);
    (row.cvt::<i64>(), row.lt(rows).select(columns, 0))
}

/// Returns the launch grid of a row kernel.
#[inline]
pub(in crate::kernels) fn row_grid(tile: &RowTile, rows: u32) -> Grid {
    Grid::new([tile.blocks(rows), 1, 1], [tile.threads, 1, 1])
}
