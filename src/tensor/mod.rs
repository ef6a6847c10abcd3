//! CuTe's upper half over the kernel builder: tensors, and what turns them into work for threads.
//!
//! A [`Tensor`] is an engine and a layout: `T(c) = *(p + L(c))`. Tiles, partitions and slices of it are tensors
//! again, with the algebra of [`layout`](crate::layout); what the host knows of a coordinate costs nothing when
//! the kernel runs. Mistakes are collected by the build with their Rust lines ([`TensorError`]).
//!
//! An **atom** is one instruction with the threads that execute it together and, as layouts, which element
//! each value of each thread is. [`MmaAtom`] and [`CopyAtom`] hold those layouts as data, under CuTe's names
//! and made by formula; [`SmemAtom`] is a swizzled tile of shared memory that the tensor cores of `sm_90a`
//! read. A [`TiledMma`] repeats an atom over threads and values.
//!
//! ```
//! use tilewright::layout::{layout, tiler};
//! use tilewright::tensor::{MmaAtom, TiledMma};
//!
//! let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
//! assert_eq!(atom.op().instruction(), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
//! // (thread, value) -> place in the column-major 16 x 8 tile of C.
//! assert_eq!(atom.layout_c_tv().to_string(), "((4,8),(2,2)):((32,1),(16,8))");
//!
//! // Four warps, two by two, on a tile of 32 x 32 x 16.
//! let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(32, 32, 16))?;
//! assert_eq!(mma.thr_layout_vmnk().to_string(), "(32,2,2,1):(1,32,64,0)");
//! assert_eq!(mma.layout_c_tv()?.to_string(), "((4,8,2,2),((2,2),(1,2))):((64,1,16,256),((32,8),(0,512)))");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod async_tile;
mod atom;
mod bulk_copy;
mod clear;
mod coord;
mod copy;
mod coverage;
mod cp_async_pipeline;
mod elements;
mod engine;
mod error;
mod gemm;
mod gemm_async;
mod gemm_sync;
mod mainloop;
mod matrix_load;
mod names;
mod pipeline;
mod pointer;
mod predicate;
mod raster;
mod roles;
mod row;
mod scheduler;
mod smem_allocator;
mod smem_operand;
mod ssa;
mod staged_store;
mod storage;
mod swizzle_choice;
#[expect(clippy::module_inception, reason = "the type that gives the storey its name")]
mod tensor;
mod thr_copy;
mod thr_mma;
mod tiled_copy;
mod tiled_mma;
mod tma;
mod tma_store_pipeline;
mod views;

pub use async_tile::{AsyncTile, ThrAsyncTile};
pub use atom::{
    AtomError, BitOp, BulkOp, CacheOp, CopyAtom, CopyOp, Major, Matrices, MmaAtom, MmaOp, MmaSync,
    OperandSource, SmemAtom, SmemSwizzle, TmaOp, ValType, Wgmma,
};
pub use bulk_copy::{bulk_copy, bulk_store};
pub use clear::{clear, cooperative_clear};
pub use copy::{autovec_copy, autovec_copy_if, copy, copy_if, copy_zfill};
pub use coverage::CoverageFault;
pub use cp_async_pipeline::{CpAsyncPipeline, CpAsyncState};
pub use engine::{Coordinates, Engine, Readable, Rmem, Writable};
pub use error::{TensorError, TensorErrorKind};
pub use gemm::gemm;
pub use gemm_async::WgmmaOperand;
pub use mainloop::WgmmaMainloop;
pub use matrix_load::{MatrixLoad, MatrixRing};
pub use names::TensorLayout;
pub use pipeline::{PipelineState, TmaPipeline, Turns};
pub use pointer::{Pointer, PointerOffset, Recast};
pub use predicate::{IntoPredicate, Predicate};
pub use raster::{ParseRasterError, Raster};
pub use roles::{WarpRole, warp_roles};
pub use row::Row;
pub use scheduler::{Tile, TileScheduler};
pub use smem_allocator::SmemAllocator;
pub use smem_operand::SmemOperand;
pub use ssa::{SsaOperand, TensorSsa};
pub use staged_store::{StagedStore, StoreWords, SumMap, ThrStore};
#[doc(hidden)]
pub use storage::round_up;
pub use storage::{Align, MemRange, MemRangeAt, Storage, StoragePointer};
pub use swizzle_choice::{SmemAccess, SwizzleCandidate, SwizzleChoice, choose_swizzle};
pub use tensor::{CoordTensor, Fragment, GlobalTensor, GlobalTensorMut, SharedTensor, Tensor};
pub use thr_copy::ThrCopy;
pub use thr_mma::ThrMma;
pub use tiled_copy::TiledCopy;
pub use tiled_mma::{Operand, TiledMma};
pub use tma::TmaCopy;
pub use tma_store_pipeline::TmaStorePipeline;
