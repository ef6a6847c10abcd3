//! Atoms: an instruction, the threads that execute it together, and the layouts of their values.
//!
//! Sources: CuTe's `mma_traits_sm*.hpp` and `copy_traits_sm*.hpp`, by behaviour; the figures of the PTX ISA,
//! "Matrix Fragments for mma" and "Register Fragments and Shared Memory Matrix Layouts" of wgmma.

mod bulk;
mod copy;
mod error;
mod mma;
mod mma_sync;
mod name;
mod smem;
mod val_type;
mod wgmma;

pub use bulk::{BulkOp, TmaOp};
pub use copy::{CacheOp, CopyAtom, CopyOp, Matrices};
pub use error::AtomError;
pub use mma::{MmaAtom, MmaOp};
pub use mma_sync::{BitOp, MmaSync};
pub use smem::{SmemAtom, SmemSwizzle};
pub use val_type::ValType;
pub use wgmma::{OperandSource, Wgmma};
