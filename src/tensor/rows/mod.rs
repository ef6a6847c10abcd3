//! Rows of a matrix, each held in the registers of the threads that share it.

mod column_tile;
mod columns;
mod combine;
mod part;
mod reduce;
mod row_copy;
mod tile;
mod tile_rows;

pub use column_tile::{ColumnResults, ColumnRows, ColumnTile, Indexed};
pub use columns::RowColumns;
pub use combine::{chained, tree};
pub use part::{RowElements, RowPart, RowPointer};
pub use row_copy::RowCopy;
pub use tile::{RowAccess, RowTile};
pub(crate) use tile_rows::strided;
pub use tile_rows::{Leads, MatrixRows, RowVector, TileRows};
