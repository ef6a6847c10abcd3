//! Rows of a matrix, each held in the registers of the threads that share it.

mod part;
mod tile;

pub use part::{RowElements, RowPart, RowPointer, tree};
pub use tile::{RowAccess, RowTile};
