//! Rows and columns of a matrix that several threads share, with any start and any length.
//!
//! A [`RowTile`] says which threads share a row: some lanes of a warp, a block or a cluster. Its
//! [`part`](RowTile::part) is the thread's [`RowPart`], which loads, reduces and stores. Start
//! there for softmax, norms and row reductions.
//!
//! | you want to | use | it costs |
//! |---|---|---|
//! | hold a row in registers | [`RowTile`], [`RowPart`] | 4 registers per vector until converted |
//! | keep it unconverted | [`RowElements`] | half of `f32`'s registers for 16-bit types |
//! | add one value per column | [`RowColumns`] | registers, or shared memory if many |
//! | copy a row to another alignment | [`RowCopy`] | two loads per vector |
//! | reduce columns over many rows | [`ColumnTile`], [`ColumnRows`] | one join at the end |
//! | stage a block of rows | [`TileRows`], [`MatrixRows`] | shared memory and a barrier |
//! | walk along a row in one thread | [`Row`](super::Row) | nothing is kept |
//!
//! A row is *aligned* if it starts at a multiple of 16 bytes and consists of whole vectors of 16
//! bytes; otherwise it is *ragged* ([`RowAccess`]). A ragged row's *head* are its elements before
//! the first aligned vector, its *lead* the elements in memory between the previous multiple of 16
//! bytes and its start.

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
