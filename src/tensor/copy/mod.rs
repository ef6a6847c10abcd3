//! Copies between global memory, shared memory and registers. Choose one by what you copy and which
//! instructions the target has.
//!
//! | you copy | use | cost and limits |
//! |---|---|---|
//! | two tensors, one thread | [`copy`], [`copy_if`], [`copy_zfill`] | element by element |
//! | the same in vectors | [`autovec_copy`], [`autovec_copy_if`] | up to 128 bits |
//! | a tile, any instruction | [`TiledCopy`](super::atom::TiledCopy) | you arrange threads and edges |
//! | a matrix tile, `cp.async` | [`AsyncTile`] | all threads; any extent and pitch |
//! | a tensor tile, TMA | [`TmaCopy`], [`TmaTensor`] | one thread; pitches in 16-byte steps |
//! | contiguous bytes, bulk | [`bulk_copy`], [`bulk_store`] | one thread; no swizzle or clipping |
//! | pixels for convolution, TMA | [`Im2colCopy`] | im2col tensor maps |
//! | operand tiles that TMA cannot read | [`GlobalLines`] | a warp group shifts lines |
//! | `mma.sync` operands | [`MatrixLoad`] | `ldmatrix` to registers |
//! | `wgmma` accumulators | [`StagedStore`] | `stmatrix` + TMA, or [`GlobalRows`] |
//! | the same, under the next main loop | [`OverlappedStore`] | a tile stays in registers, packed |
//! | one unaligned row | [`Row`] | vectors, single elements at the ends |
//!
//! If several threads share rows, use the copies in [`rows`](super::rows).

pub(super) mod async_tile;
pub(super) mod bulk;
pub(super) mod clear;
pub(super) mod global_lines;
pub(super) mod global_rows;
pub(super) mod im2col;
pub(super) mod matrix_load;
pub(super) mod overlapped_store;
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
pub use overlapped_store::OverlappedStore;
pub(crate) use packed::packed;
pub use peers::ClusterPeers;
pub use row::Row;
pub use staged_store::StagedStore;
pub use thr_store::{AccumulatorMap, StoreDestination, StoreWords, ThrStore};
pub use thread::{autovec_copy, autovec_copy_if, copy, copy_if, copy_zfill};
pub use tma::TmaCopy;
pub use tma_tensor::{MapArray, TmaTensor, TmaTensors};
