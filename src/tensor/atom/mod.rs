//! Atoms: one instruction, the threads that execute it together, and the layouts of their values.
//! [`TiledCopy`] and [`TiledMma`] repeat an atom over a tile.
//!
//! You choose an instruction by its CuTe name, and partition tensors for it.
//!
//! Sources: CuTe's `mma_traits_sm*.hpp` and `copy_traits_sm*.hpp`, by behaviour; the figures of the
//! PTX ISA, "Matrix Fragments for mma" and "Register Fragments and Shared Memory Matrix Layouts" of
//! wgmma.

pub(super) mod bulk;
pub(super) mod copy;
pub(super) mod coverage;
pub(super) mod error;
pub(super) mod mma;
pub(super) mod mma_sync;
pub(super) mod name;
pub(super) mod smem;
pub(super) mod sparse;
pub(super) mod swizzle_choice;
pub(super) mod thr_copy;
pub(super) mod thr_mma;
pub(super) mod tiled_copy;
pub(super) mod tiled_mma;
pub(super) mod val_type;
pub(super) mod wgmma;

pub use coverage::CoverageFault;
pub use swizzle_choice::{SmemAccess, SwizzleCandidate, SwizzleChoice, choose_swizzle};
pub use thr_copy::ThrCopy;
pub use thr_mma::ThrMma;
pub use tiled_copy::TiledCopy;
pub use tiled_mma::{Operand, TiledMma};

pub use bulk::{BulkOp, TmaOp};
pub use copy::{CacheOp, CopyAtom, CopyOp, Matrices};
pub use error::AtomError;
pub use mma::{MmaAtom, MmaOp};
pub use mma_sync::{BitOp, MmaSync};
pub use smem::{SmemAtom, SmemSwizzle};
pub use sparse::{SparseMatrix, SparseMma};
pub use val_type::ValType;
pub use wgmma::{OperandSource, Wgmma};
