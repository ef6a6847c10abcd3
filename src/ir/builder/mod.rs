//! The kernel builder: Rust closures that record a kernel as typed IR.
//!
//! [`Kernel::build`] calls your closure once, on the host, with a [`Body`] handle and the kernel's
//! parameters. The closure computes with [`Val`]s, which stand for device values. A `Val<'b, T>`
//! carries its type and, as a lifetime, the body that made it. Control flow takes closures too:
//! `k.for_(..)` gives its closure a `Body` of its own and the carried values, and the closure
//! returns the next ones. So rustc itself rejects a loop's value outside of the loop, a carried
//! value that changes its type, and a device value in a host `if`.
//!
//! Operations on values are methods of the values, which know their kernel. They are appended to the
//! innermost open body. `k` is for control flow, barriers, and what is new, such as shared memory.
//!
//! What lifetimes cannot express is checked when a value is used, for example that its body is still
//! open. `Kernel::build` returns all these errors at once, each with its Rust line.
//!
//! Host `if`, `for` and `while` run while the kernel is built and leave only the operations that
//! they append. Use them where C++ would use `if constexpr` or a fully unrolled loop.
//!
//! [`Kernel::build`]: super::Kernel::build
//! [`Body`]: super::Body
//! [`Val`]: super::Val

// rustdoc lists the methods of `Body` and `Val` in the order of these modules.

// Bodies, values and control flow.
pub(super) mod body;
mod special;
pub(super) mod typed;

pub(super) mod control;
pub(super) mod loops;

mod cases;
mod select;

// Memory.
mod access;
mod any_vector;
mod assume;
mod atomic;
mod required_len;
mod space;

// Arithmetic, comparisons and conversions.
mod ops;

mod float;
mod math;
pub(super) mod vector;

mod bits;
mod elementary;
mod int4;
mod plain;

// Layouts.
mod layout;
mod symbolic;

// Threads together: warps, blocks and clusters.
pub(super) mod collective;
pub(super) mod warp;

pub(super) mod barrier;
mod cluster;
mod mbarrier;

// Asynchronous copies and tensor cores.
mod async_copy;
mod im2col;

mod mma;
mod sparse;

// Reports, and PTX that has no operation.
mod diagnostic;
mod inline;
mod report;

// Without methods of `Body` or `Val`.
mod call;
mod context;
pub(super) mod error;
mod group;
mod host_part;
mod joins;
pub(super) mod kernel;
pub(super) mod params;
mod promote;
pub(super) mod range;
mod role;
mod values;

pub use any_vector::{AnyVector, VectorOf};
pub use atomic::{
    Atom, AtomicAdd, AtomicCas, AtomicHalf, AtomicInt, AtomicVector, AtomicWord, Red,
};
pub use bits::{DotElement, PackedInt16, TruthTable, Widen, Word, Word32};
pub(crate) use body::RegisterRange;
pub use cases::{CaseEnd, Cases, CasesStart};
pub use context::Context;
pub use control::{ArmEnd, Terminated};
pub use error::BuildErrorKind;
pub use host_part::{HostPart, HostParts};
pub use int4::FromInt4;
pub(in crate::ir) use kernel::lowered;
pub use kernel::{BodyResult, MergedShared};
pub use layout::DeviceCoord;
pub use mbarrier::MbarrierRef;
pub use params::{Field, InSignature, ParamList, ParamSource, ParamValues, Parameter, Same};
pub use promote::{Promote, promote};
pub use range::{Bound, IntoBound, IntoLimit};
pub use report::Reported;
pub use role::{Role, with_roles};
pub use space::{GenericPointer, SpacePointer};
pub use sparse::SparseMetadata;
pub use typed::{
    Accumulator, Arithmetic, Bits, Converted, Fused, IntoIndex, IntoOperand, IntoVal, MemIndex,
    Ordered, Signed, TensorMapType, Ty,
};
pub use values::{IntoValues, Values};
pub use vector::VectorElement;
pub use warp::Redux;
