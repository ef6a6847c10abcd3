//! Copies of tensors by threads, `cp.async`, TMA and matrix loads.

pub(super) mod async_tile;
pub(super) mod bulk;
pub(super) mod clear;
pub(super) mod global_lines;
pub(super) mod global_rows;
pub(super) mod im2col;
pub(super) mod matrix_load;
mod packed;
mod peers;
pub(super) mod row;
pub(super) mod staged_store;
pub(super) mod thr_store;
pub(super) mod thread;
pub(super) mod tma;
pub(super) mod tma_tensor;

pub use async_tile::{AsyncTile, LoadedElements, ThrAsyncTile};
pub use bulk::{bulk_copy, bulk_store};
pub use clear::{clear, cooperative_clear};
pub use global_lines::{FetchedLines, GlobalLines, ThrLines};
pub use global_rows::GlobalRows;
pub(crate) use global_rows::{ByteShift, lead, shifted};
pub use im2col::{Filter, Im2colCopy};
pub use matrix_load::{MatrixLoad, MatrixRing};
pub(crate) use packed::packed;
pub use peers::ClusterPeers;
pub use row::Row;
pub use staged_store::StagedStore;
pub use thr_store::{AccumulatorMap, StoreDestination, StoreWords, ThrStore};
pub use thread::{autovec_copy, autovec_copy_if, copy, copy_if, copy_zfill};
pub use tma::TmaCopy;
pub use tma_tensor::{MapArray, TmaTensor, TmaTensors};
