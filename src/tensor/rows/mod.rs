//! Rows of a matrix, each held in the registers of the threads that share it.

mod part;
mod row_copy;
mod row_loop;
mod tile;

pub use part::{RowElements, RowPart, RowPointer, tree};
pub(crate) use part::{filled, narrow};
pub use row_copy::RowCopy;
pub use row_loop::{ColumnElements, CurrentRow, RowColumns, RowInput, RowLoop};
pub use tile::{RowAccess, RowTile};
