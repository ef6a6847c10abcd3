//! Tensors, copies, MMAs, pipelines and rows: what you write kernels with.
//!
//! With a layout and a pointer you make a [`Tensor`]; everything else divides its work among
//! threads. The names are CuTe's: tiles, partitions, fragments, atoms, tiled copies, tiled MMAs.
//!
//! | you need | look at |
//! |---|---|
//! | data, tiles, predicates | [`Tensor`], [`RegisterTensor`], [`Predicate`], [`TensorSsa`] |
//! | to copy in one thread | [`copy()`], [`autovec_copy`], [`copy_if`], [`Row`] |
//! | to copy a tile with many threads | [`TiledCopy`], [`AsyncTile`] |
//! | TMA and bulk copies (`sm_90`) | [`TmaCopy`], [`TmaTensor`], [`Im2colCopy`], [`bulk_copy`] |
//! | a GEMM with `mma.sync` | [`TiledMma`], [`MatrixLoad`], [`CpAsyncPipeline`] |
//! | a GEMM with `wgmma` | [`WgmmaMainloop`], [`TmaPipeline`], [`StagedStore`], [`warp_roles`] |
//! | attention | [`AccumulatorRows`], [`OnlineSoftmax`], [`AccumulatorOperand`] |
//! | a row in registers: softmax, norms | [`RowTile`], [`RowPartition`], [`ColumnValues`] |
//! | other row and column work | [`UnalignedRowCopy`], [`TiledRowCopy`], [`ColumnReduction`] |
//! | work for persistent blocks | [`TileScheduler`], [`Raster`], [`WorkScheduler`] |
//! | shared memory | [`SharedTensor`], [`Storage`], [`SmemAllocator`], [`choose_swizzle`] |
//!
//! A [`Tensor`] is an engine and a layout: `T(c) = *(p + L(c))`. Tiles, partitions
//! and slices of it are again tensors, computed with the algebra of [`layout`](crate::layout). What
//! the host knows of a coordinate costs nothing at run time. If you make a mistake, the build
//! collects it with its Rust line ([`TensorError`]).
//!
//! ```
//! use tilewright::ir::{Global, Kernel, Target};
//! use tilewright::layout::{layout, tiler};
//! use tilewright::tensor::view::Tensor;
//!
//! Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
//!     let x = Tensor::new(x, layout!((64, 32):(32, 1)));
//!     // The tiles of 16 x 8 in the row of tiles of this block, then the elements of a thread of 2 x 8 in the first.
//!     let tiles = x.local_tile(&tiler!(16, 8), (k.block_idx().x, ..));
//!     assert_eq!(tiles.layout().to_string(), "(16,8,4):(32,1,8)");
//!     let mine = tiles.slice((.., .., 0)).local_partition(&layout!((2, 8):(8, 1)), k.thread_idx().x);
//!     assert_eq!(mine.layout().to_string(), "(8,1):(64,0)");
//! })?;
//! # Ok::<(), tilewright::ir::BuildErrors>(())
//! ```
//!
//! An **atom** is one instruction with the threads that execute it together, and layouts that say
//! which element each value of each thread is. [`MmaAtom`] and
//! [`CopyAtom`] hold these layouts under CuTe's names. [`SmemAtom`]
//! is a swizzled shared-memory tile that the tensor cores of `sm_90a` read. A
//! [`TiledMma`] or [`TiledCopy`] repeats an atom over the threads
//! and values of a tile.
//!
//! ```
//! use tilewright::layout::{layout, tiler};
//! use tilewright::tensor::atom::{MmaAtom, TiledMma};
//!
//! let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
//! assert_eq!(atom.op().instruction(), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
//! // (thread, value) -> index in the column-major 16 x 8 tile of C.
//! assert_eq!(atom.layout_c_tv().to_string(), "((4,8),(2,2)):((32,1),(16,8))");
//!
//! // Four warps, two by two, on a tile of 32 x 32 x 16.
//! let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(32, 32, 16))?;
//! assert_eq!(mma.thr_layout_vmnk().to_string(), "(32,2,2,1):(1,32,64,0)");
//! assert_eq!(mma.layout_c_tv()?.to_string(), "((4,8,2,2),((2,2),(1,2))):((64,1,16,256),((32,8),(0,512)))");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`CopyAtom`]: atom::CopyAtom
//! [`MmaAtom`]: atom::MmaAtom
//! [`SmemAtom`]: atom::SmemAtom
//! [`TiledCopy`]: atom::TiledCopy
//! [`TiledMma`]: atom::TiledMma
//! [`choose_swizzle`]: atom::choose_swizzle
//! [`AsyncTile`]: copy::AsyncTile
//! [`Im2colCopy`]: copy::Im2colCopy
//! [`MatrixLoad`]: copy::MatrixLoad
//! [`Row`]: copy::Row
//! [`StagedStore`]: copy::StagedStore
//! [`TmaCopy`]: copy::TmaCopy
//! [`TmaTensor`]: copy::TmaTensor
//! [`autovec_copy`]: copy::autovec_copy
//! [`bulk_copy`]: copy::bulk_copy
//! [`copy()`]: copy::copy()
//! [`copy_if`]: copy::copy_if
//! [`AccumulatorOperand`]: mma::AccumulatorOperand
//! [`AccumulatorRows`]: mma::AccumulatorRows
//! [`OnlineSoftmax`]: mma::OnlineSoftmax
//! [`WgmmaMainloop`]: mma::WgmmaMainloop
//! [`CpAsyncPipeline`]: pipeline::CpAsyncPipeline
//! [`Raster`]: pipeline::Raster
//! [`TileScheduler`]: pipeline::TileScheduler
//! [`TmaPipeline`]: pipeline::TmaPipeline
//! [`WorkScheduler`]: pipeline::WorkScheduler
//! [`warp_roles`]: pipeline::warp_roles
//! [`ColumnReduction`]: rows::ColumnReduction
//! [`ColumnValues`]: rows::ColumnValues
//! [`RowPartition`]: rows::RowPartition
//! [`RowTile`]: rows::RowTile
//! [`TiledRowCopy`]: rows::TiledRowCopy
//! [`UnalignedRowCopy`]: rows::UnalignedRowCopy
//! [`SmemAllocator`]: storage::SmemAllocator
//! [`Storage`]: storage::Storage
//! [`Predicate`]: view::Predicate
//! [`RegisterTensor`]: view::RegisterTensor
//! [`SharedTensor`]: view::SharedTensor
//! [`Tensor`]: view::Tensor
//! [`TensorSsa`]: view::TensorSsa

pub mod atom;
pub mod copy;
mod error;
pub mod mma;
pub mod pipeline;
pub mod rows;
pub mod storage;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod view;

pub use error::{TensorError, TensorErrorKind};
