//! Rows and columns of a matrix that several threads share, with any start and any length.
//!
//! A [`RowTile`] says which threads share a row: some lanes of a warp, a block or a cluster. Its
//! [`part`](RowTile::part) is the thread's [`RowPartition`], which loads, reduces and stores. Start
//! there for softmax, norms and row reductions.
//!
//! | you want to | use | it costs |
//! |---|---|---|
//! | hold a row in registers | [`RowTile`], [`RowPartition`] | 4 registers per vector until converted |
//! | keep it unconverted | [`RowFragment`] | half of `f32`'s registers for 16-bit types |
//! | add one value per column | [`ColumnValues`] | registers, or shared memory if many |
//! | copy a row to another alignment | [`UnalignedRowCopy`] | two loads per vector |
//! | reduce columns over many rows | [`ColumnReduction`], [`ColumnRows`] | one join at the end |
//! | stage a block of rows | [`TiledRowCopy`], [`MatrixRows`] | shared memory and a barrier |
//! | walk along a row in one thread | [`Row`](super::copy::Row) | nothing is kept |
//!
//! A row is *aligned* if it starts at a multiple of 16 bytes and consists of whole vectors of 16
//! bytes; otherwise it is *ragged* ([`RowAccess`]). A ragged row's *head* is the run of elements
//! before its first aligned vector. Its *lead* is how many elements lie in memory between the
//! previous multiple of 16 bytes and the row's start. For example, an `f32` row that starts at byte
//! 20 has a lead of 1 and a head of 3 elements.

mod column_reduction;
mod column_values;
mod combine;
mod partition;
mod reduce;
mod row_tile;
mod tiled_row_copy;
mod unaligned_row_copy;

pub use column_reduction::{ColumnReduction, ColumnResults, ColumnRows, Indexed};
pub use column_values::ColumnValues;
pub use combine::{chained, tree};
pub use partition::{RowFragment, RowPartition, RowPointer};
pub use row_tile::{RowAccess, RowTile};
pub(crate) use tiled_row_copy::strided;
pub use tiled_row_copy::{MatrixRows, RowMisalignment, RowVector, TiledRowCopy};
pub use unaligned_row_copy::UnalignedRowCopy;
