//! Copies between global memory, shared memory and registers.
//!
//! | you copy | use | cost and limits |
//! |---|---|---|
//! | any two tensors, in one thread | [`copy`], [`copy_if`], [`copy_zfill`] | one element at a time |
//! | the same, contiguous runs | [`autovec_copy`], [`autovec_copy_if`] | vectors of up to 128 bits |
//! | a tile, with an instruction of your choice | [`TiledCopy`](crate::tensor::TiledCopy) | you choose the threads and mask the edges |
//! | a matrix tile to shared memory on `sm_80` | [`AsyncTile`] | `cp.async` by all threads; any extent and pitch |
//! | a tensor tile on `sm_90` | [`TmaCopy`], [`TmaTensor`] | TMA by one thread; pitches are multiples of 16 bytes |
//! | contiguous bytes on `sm_90` | [`bulk_copy`], [`bulk_store`] | one thread, no tensor map; no swizzle, no clipping |
//! | a convolution's pixels | [`Im2colCopy`] | TMA in im2col mode |
//! | operand tiles that TMA cannot read | [`GlobalLines`] | a warp group shifts unaligned lines together |
//! | `mma.sync` operands to registers | [`MatrixLoad`] | `ldmatrix` |
//! | `wgmma` accumulators to global memory | [`StagedStore`] | `stmatrix`, then TMA, or [`GlobalRows`] if TMA cannot |
//! | one row that starts anywhere | [`Row`] | vectors inside, single elements at the ends |
//!
//! Copies of rows that several threads share are in `rows`.

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
